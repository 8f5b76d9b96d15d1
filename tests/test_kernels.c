/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Every kernel against plain C, record by record, byte for byte. Kernels run on whatever libcuda.so.1 the variable
 * KERNELS_DRIVER names (default: the loader's): the software device, or a GPU's driver. KERNELS_IMAGE=ptx leaves the
 * machine code aside that nvcc may have made. KERNELS_SMALL leaves the test of small pictures alone, for checkers that slow
 * programs down: with KERNELS_SMALL=brief in two layouts, else in all; KERNELS_METRIC leaves one metric of it.
 */
#include "tests/cmocka_includes.h"

#include "kernels/float_ssim_args.h"
#include "kernels/kernel_host.h"
#include "kernels/motion_args.h"
#include "kernels/psnr_args.h"
#include "shared_math/motion.h"
#include "tests/clipgen.h"
#include "tests/golden.h"
#include "tests/harness.h"
#include "tests/kernel_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const VgMetric *metric;
    const VgDeviceMetric *device;
} metrics[] = {
    { &vg_metric_psnr, &vg_device_psnr },
    { &vg_metric_motion, &vg_device_motion },
    { &vg_metric_float_ssim, &vg_device_float_ssim },
};
#define N_METRICS (sizeof(metrics) / sizeof(metrics[0]))

static const VgDeviceMetric *device_metric(const VgMetric *metric)
{
    for (unsigned m = 0; m < N_METRICS; m++)
        if (!strcmp(metrics[m].metric->info.name, metric->info.name))
            return metrics[m].device;
    return NULL;
}

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

/** What a test does to the arguments of launches; NULL: nothing. */
typedef void Tamper(const char *kernel, void *args);

/* As its metric declares it. */
static const VgKernel *declared(const char *kernel)
{
    for (unsigned m = 0; m < N_METRICS; m++)
        for (const VgKernel *k = metrics[m].device->kernels; k->name; k++)
            if (!strcmp(k->name, kernel))
                return k;
    fail_msg("no metric declares %s", kernel);
    return NULL;
}

static int launch(void *context, const char *kernel, const uint32_t grid[3], uint32_t block, uint32_t dynamic_shared,
                  const void *args, size_t args_size)
{
    Tamper *tamper = *(Tamper **)context;
    _Alignas(16) uint8_t copy[4096];

    assert_true(args_size <= sizeof(copy));
    memcpy(copy, args, args_size);
    assert_true(dynamic_shared <= declared(kernel)->dynamic_shared);
    if (tamper)
        tamper(kernel, copy);
    launch_copy(kernel, grid, block, dynamic_shared, copy, args_size);
    if (!strncmp(kernel, "float_ssim_windows", 18) &&
        ((VgFloatSsimArgs *)(void *)copy)->spread != ((const VgFloatSsimArgs *)args)->spread) {
        /* What the host does for pictures of more windows. */
        static const uint32_t blocks[3] = { 3, 1, 1 };
        launch_copy("float_ssim_chunks", blocks, VG_FLOAT_SSIM_BLOCK, 0, copy, args_size);
        launch_copy("float_ssim_ordered", blocks, VG_FLOAT_SSIM_BLOCK, 0, copy, args_size);
    }
    return 0;
}

/* The bytes between the first and the last sample of a picture, in memory that its planes share. */
static void extent(const VgPicture *p, const uint8_t **first, size_t *size)
{
    uintptr_t low = UINTPTR_MAX, high = 0;

    for (int c = 0; c < 3 && p->data[c]; c++) {
        const int subsampled = c && p->geometry.chroma != VG_CHROMA_444;
        const uint32_t width = (p->geometry.width + (uint32_t)subsampled) >> subsampled;
        const int halved = c && p->geometry.chroma == VG_CHROMA_420;
        const uint32_t height = (p->geometry.height + (uint32_t)halved) >> halved;
        const uintptr_t top = (uintptr_t)p->data[c], bottom = top + (uintptr_t)((height - 1) * p->pitch[c]);
        const uintptr_t end = (top > bottom ? top : bottom) + (size_t)(width - 1) * p->step[c] + p->sample_bytes;
        low = (top < bottom ? top : bottom) < low ? (top < bottom ? top : bottom) : low;
        high = end > high ? end : high;
    }
    *first = (const uint8_t *)low;
    *size = high - low;
}

/* Copies a picture to the device; addresses keep their remainders modulo 256. */
static void upload(const VgPicture *p, Buffer *buffer, VgDevicePlane planes[3])
{
    const uint8_t *first;
    size_t size;

    extent(p, &first, &size);
    const CUdeviceptr start = buffer_get(buffer, size + 256) + (uintptr_t)first % 256;
    /* In the stream: a copy that returns may be under way still. */
    CU(cuMemcpyHtoDAsync_v2(start, first, size, device.stream));
    for (int c = 0; c < 3 && p->data[c]; c++) {
        const VgGeometry *g = &p->geometry;
        planes[c] = (VgDevicePlane){
            .address = start + (uint64_t)((const uint8_t *)p->data[c] - first),
            .pitch = p->pitch[c],
            .width = (int32_t)(g->width >> (c && g->chroma != VG_CHROMA_444)),
            .height = (int32_t)(g->height >> (c && g->chroma == VG_CHROMA_420)),
            .step = (int32_t)p->step[c],
            .sample_bytes = (int32_t)p->sample_bytes,
            .shift = (int32_t)p->shift,
        };
    }
}

/** Parameters of the pass that the work memory belongs to. */
static struct {
    const VgMetric *metric;
    uint8_t params[256];
} planned;

static void plan(const VgMetric *metric, const void *params, const VgLauncher *launcher)
{
    const VgDeviceMetric *d = device_metric(metric);
    const size_t size = d->work_size(params) + 256;

    assert_true(metric->params_size <= sizeof(planned.params));
    if (planned.metric == metric && !memcmp(planned.params, params, metric->params_size))
        return; /* what earlier frames left in work memory must do */
    buffer_free(&device.work);
    buffer_get(&device.work, size);
    fill(NULL, device.work.address, 0xcd, size);
    assert_int_equal(d->plan(params, launcher, device.work.address), 0);
    planned.metric = metric;
    memcpy(planned.params, params, metric->params_size);
}

static void run(const HarnessProducer *producer, const VgMetric *metric, const void *params,
                const VgFramePictures *pictures, void *record)
{
    Tamper *tamper = (Tamper *)producer->opaque;
    const VgLauncher launcher = { &tamper, launch, fill };
    const VgDeviceMetric *d = device_metric(metric);
    VgDeviceFrame frame = { .index = pictures->frame };
    Buffer *buffer = device.pictures;

    for (int k = 0; k <= VG_MAX_LAG; k++) {
        if (pictures->ref[k])
            upload(pictures->ref[k], buffer++, frame.ref[k]);
        if (pictures->dist[k])
            upload(pictures->dist[k], buffer++, frame.dist[k]);
    }
    plan(metric, params, &launcher);
    const CUdeviceptr to = buffer_get(&device.record, vg_record_size(metric, params));
    fill(NULL, to, 0x5a, vg_record_size(metric, params));
    assert_int_equal(d->enqueue(params, &launcher, &frame, device.work.address, to), 0);
    CU(cuStreamSynchronize(device.stream));
    CU(cuMemcpyDtoH_v2(record, to, vg_record_size(metric, params)));
}

static HarnessProducer producer_of(const char *name, Tamper *tamper)
{
    return (HarnessProducer){ name, run, NULL, 1, *(void **)&tamper };
}

/* ---- Random and adversarial pictures ----------------------------------------------------------------------------- */

typedef struct Sweep {
    unsigned m;
    const char *options;
    uint32_t depths[8];
} Sweep;

static const Sweep sweeps[] = {
    { 0, "", { 8, 10, 12, 16 } },
    { 0, "enable_chroma=false", { 8, 16 } },
    { 1, "", { 8, 9, 10, 12, 14, 15, 16 } },
    { 1, "motion_five_frame_window=true", { 8, 10 } },
    { 1, "motion_force_zero=true", { 8 } },
    { 2, "", { 8, 10, 12, 16 } },
    { 2, "enable_lcs=true", { 8, 16 } },
    { 2, "scale=2:enable_lcs=true", { 8, 12 } },
    { 2, "scale=3", { 8, 10, 16 } },
    { 2, "scale=4:enable_lcs=true", { 8, 10 } },
    { 2, "scale=5", { 8, 12 } },
    { 2, "scale=7", { 16 } },
    { 2, "scale=8", { 8, 10, 16 } },
    { 2, "scale=10", { 8 } },
};
#define N_SWEEPS (sizeof(sweeps) / sizeof(sweeps[0]))

/* The least sides, around the widths of vectors, strips, tiles and blocks, and odd ones. */
static const uint32_t sides[][2] = {
    { 1, 1 },   { 1, 3 },   { 2, 1 },    { 3, 3 },    { 3, 4 },    { 5, 7 },    { 11, 11 },   { 12, 11 }, { 8, 9 },
    { 16, 16 }, { 17, 15 }, { 31, 13 },  { 33, 34 },  { 64, 48 },  { 65, 23 },  { 100, 3 },   { 3, 100 }, { 63, 67 },
    { 96, 80 }, { 97, 81 }, { 129, 11 }, { 256, 32 }, { 11, 129 }, { 261, 45 }, { 181, 107 }, { 241, 7 }, { 249, 9 },
};
#define N_SIDES (sizeof(sides) / sizeof(sides[0]))

/* Every `interval`th of the cases, chroma formats in turn. */
static void sweep(unsigned m, unsigned interval, const HarnessProducer *producer, HarnessResult *result)
{
    unsigned n = 0;

    for (unsigned s = 0; s < N_SIDES; s++)
        for (unsigned i = 0; i < N_SWEEPS; i++)
            for (unsigned d = 0; sweeps[i].depths[d]; d++) {
                const HarnessCase c = { { sides[s][0], sides[s][1], (VgChroma)(n++ % 4), sweeps[i].depths[d] },
                                        sweeps[i].options };
                if (sweeps[i].m == m && n % interval == 0 && harness_accepts(metrics[m].metric, &c))
                    harness_compare(producer, result, 1, metrics[m].metric, &c);
            }
}

static void none_differs(const HarnessResult *result, unsigned least)
{
    if (result->different)
        fail_msg("%u of %u records differ, first: %s", result->different, result->compared, result->first);
    if (result->compared < least)
        fail_msg("only %u records compared", result->compared);
    printf("# %u records\n", result->compared);
}

/*
 * On the software device, which sanitizers slow down eightfold, and on which sums in order are slow anyway. Coprime to the
 * 36 cases of a size, so that all have their turn.
 */
#ifdef __SANITIZE_ADDRESS__
#define INTERVAL         11
#define ORDERED_INTERVAL 43
#define WAVES_INTERVAL   59
#define GOLDEN_INTERVAL  3
#define MOST_SAMPLES     500000 /* of golden clips; large_pictures_agree() has some that are as wide */
#else
#define INTERVAL         5
#define ORDERED_INTERVAL 19
#define WAVES_INTERVAL   23
#define GOLDEN_INTERVAL  1
#define MOST_SAMPLES     UINT32_MAX
#endif

static void agree(unsigned m)
{
    const HarnessProducer producer = producer_of("kernels", NULL);
    HarnessResult result = { 0 };

    sweep(m, device.set_wave ? INTERVAL : 1, &producer, &result); /* a real device is fast enough for all */
    none_differs(&result, 200);
}

static void psnr_agrees(void **state)
{
    (void)state;
    agree(0);
}

static void motion_agrees(void **state)
{
    (void)state;
    agree(1);
}

static void float_ssim_agrees(void **state)
{
    (void)state;
    agree(2);
}

static Tamper widen, widen_and_spread, count_beside;

/* Few and small pictures that come through every kernel, for checkers of memory and of races. */
static void small_pictures_agree(void **state)
{
    static const struct {
        unsigned m;
        uint32_t width, height;
        VgChroma chroma;
        uint32_t depth;
        const char *options;
        Tamper *tamper;
    } cases[] = {
        { 0, 64, 20, VG_CHROMA_420, 8, "", NULL },
        { 0, 33, 9, VG_CHROMA_422, 10, "", NULL },
        { 0, 64, 20, VG_CHROMA_420, 8, "", count_beside },
        { 1, 64, 47, VG_CHROMA_420, 8, "", NULL },
        { 1, 45, 19, VG_CHROMA_420, 8, "", NULL },
        { 1, 64, 27, VG_CHROMA_420, 10, "motion_five_frame_window=true", NULL },
        { 1, 45, 19, VG_CHROMA_400, 10, "motion_five_frame_window=true", NULL },
        { 2, 44, 20, VG_CHROMA_420, 8, "", NULL },
        { 2, 80, 23, VG_CHROMA_420, 8, "scale=2:enable_lcs=true", NULL },
        { 2, 70, 35, VG_CHROMA_420, 10, "scale=3", NULL },
        { 2, 70, 45, VG_CHROMA_420, 12, "scale=4", NULL },
        { 2, 96, 88, VG_CHROMA_420, 8, "scale=8", NULL },
        { 2, 50, 27, VG_CHROMA_400, 8, "scale=1:enable_lcs=true", widen },
        { 2, 50, 27, VG_CHROMA_400, 8, "scale=1:enable_lcs=true", widen_and_spread },
    };
    const char *small = getenv("KERNELS_SMALL"), *only = getenv("KERNELS_METRIC");
    const int brief = !small || !strcmp(small, "brief");
    HarnessResult result = { 0 };
    (void)state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const HarnessProducer producer = producer_of("kernels", cases[i].tamper);
        const VgMetric *metric = metrics[cases[i].m].metric;
        const HarnessCase c = { { cases[i].width, cases[i].height, cases[i].chroma, cases[i].depth },
                                cases[i].options };
        if (only && strcmp(metric->info.name, only))
            continue;
        if (brief)
            harness_compare_briefly(&producer, &result, metric, &c);
        else
            harness_compare(&producer, &result, 1, metric, &c);
    }
    none_differs(&result, only ? 1 : 20);
    for (unsigned m = 0; m < N_METRICS && !only; m++)
        for (const VgKernel *k = metrics[m].device->kernels; k->name; k++)
            if (!has_been_launched(k->name))
                fail_msg("%s has not been launched", k->name);
}

/* Both lags in one pass: params that no single option set makes. */
static void make_both_lags(const VgGeometry *geometry, const void *options, void *params_v)
{
    VgMotionParams *params = params_v;
    vg_metric_motion.make_params(geometry, options, params);
    params->lags = VG_MOTION_LAG_1 | VG_MOTION_LAG_2;
}

static VgNeeds need_both_lags(const void *options)
{
    (void)options;
    return (VgNeeds){ .lag = { [VG_REF] = 2 }, .planes = { [VG_REF] = VG_PLANE_Y }, .lookahead = 2 };
}

static void both_lags_agree(void **state)
{
    static const HarnessCase cases[] = {
        { { 3, 3, VG_CHROMA_420, 8 }, "" },    { { 261, 45, VG_CHROMA_420, 8 }, "" },
        { { 64, 48, VG_CHROMA_444, 8 }, "" },  { { 97, 81, VG_CHROMA_400, 10 }, "" },
        { { 33, 34, VG_CHROMA_422, 16 }, "" },
    };
    const HarnessProducer producer = producer_of("kernels", NULL);
    VgMetric both = vg_metric_motion;
    HarnessResult result = { 0 };
    (void)state;

    both.make_params = make_both_lags;
    both.needs = need_both_lags;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        harness_compare(&producer, &result, 1, &both, &cases[i]);
    none_differs(&result, 100);
}

/* More columns than a block of the decimation takes, and more windows than the last block sums in order itself. */
static void large_pictures_agree(void **state)
{
    static const struct {
        const char *ref, *dist, *options;
    } cases[] = {
        { "noise none 4300 35 400 8 1 1", "noise quant:4000 4300 35 400 8 1 1", "scale=2:enable_lcs=true" },
        { "mix none 4211 47 400 8 1 2", "mix blur 4211 47 400 8 1 2", "scale=3" },
        { "noise none 4211 47 400 16 1 3", "noise blur 4211 47 400 16 1 3", "scale=4" },
        { "tex none 4301 101 400 8 1 4", "tex blur+noise:900 4301 101 400 8 1 4", "scale=8" },
        { "mix none 4096 150 400 10 1 4", "mix quant:6 4096 150 400 10 1 4", "scale=10" },
        { "mix none 1930 284 400 8 1 5", "mix quant:700 1930 284 400 8 1 5", "scale=1:enable_lcs=true" },
    };
    static Tamper *const ways[] = { NULL, widen };
    (void)state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const Clip *ref = clip_get(cases[i].ref), *dist = clip_get(cases[i].dist);
        const VgPicture a = clip_picture(ref, 0), b = clip_picture(dist, 0);
        const VgFramePictures pictures = { .ref = { &a }, .dist = { &b } };
        const HarnessCase c = { ref->geometry, cases[i].options };
        VgFloatSsimParams params;
        VgFloatSsimRecord expected, record;
        harness_params(&vg_metric_float_ssim, &c, &params);
        harness_yardstick(&vg_metric_float_ssim, &params, &pictures, &expected);
        for (unsigned w = 0; w < 2; w++) {
            const HarnessProducer producer = producer_of("kernels", ways[w]);
            run(&producer, &vg_metric_float_ssim, &params, &pictures, &record);
            if (memcmp(&record, &expected, sizeof(record)))
                fail_msg("%s, \"%s\": %a, not %a", cases[i].ref, cases[i].options, record.ssim, expected.ssim);
        }
    }
    clip_free_all();
}

/* The result depends neither on the wave's size nor on how blocks are spread. */
static void waves_of_other_sizes_agree(void **state)
{
    static const unsigned sizes[] = { 16, 64 };
    const HarnessProducer producer = producer_of("kernels", NULL);
    (void)state;

    if (!device.set_wave)
        skip();
    for (unsigned i = 0; i < 2; i++) {
        HarnessResult result = { 0 };
        device.set_wave(sizes[i]);
        for (unsigned m = 0; m < N_METRICS; m++)
            sweep(m, WAVES_INTERVAL, &producer, &result);
        device.set_wave(32);
        none_differs(&result, 100);
    }
}

/* ---- Golden clips ------------------------------------------------------------------------------------------------ */

static void golden_clips(unsigned m, const char *table)
{
    const VgMetric *metric = metrics[m].metric;
    const HarnessProducer producer = producer_of("kernels", NULL);
    Golden golden = golden_read(table);
    HarnessResult result = { 0 };
    unsigned n = 0;

    for (size_t row = 0; row < golden.n_rows; row = golden_end(&golden, row)) {
        const char *ref_name = golden_cell(&golden, row, GOLDEN_REF);
        const char *dist_name = golden_cell(&golden, row, GOLDEN_DIST);
        const Clip *ref = clip_get(ref_name), *dist = clip_get(dist_name);
        const char *options = golden_options(&golden, row, metric->info.name);
        const HarnessCase c = { ref->geometry, options };
        if (n++ % GOLDEN_INTERVAL || !harness_accepts(metric, &c))
            continue;
        if (ref->geometry.width * ref->geometry.height > MOST_SAMPLES)
            continue;
        void *params = calloc(1, metric->params_size);
        assert_non_null(params);
        harness_params(metric, &c, params);
        const size_t record_size = vg_record_size(metric, params);
        void *expected = malloc(record_size), *record = malloc(record_size);
        assert_true(expected && record);
        for (unsigned f = 0; f < ref->n_frames; f++) {
            VgPicture refs[VG_MAX_LAG + 1], dists[VG_MAX_LAG + 1];
            VgFramePictures pictures = { .frame = f };
            for (unsigned k = 0; k <= VG_MAX_LAG && k <= f; k++) {
                refs[k] = clip_picture(ref, f - k);
                dists[k] = clip_picture(dist, f - k);
                pictures.ref[k] = &refs[k];
                pictures.dist[k] = &dists[k];
            }
            harness_yardstick(metric, params, &pictures, expected);
            producer.run(&producer, metric, params, &pictures, record);
            result.compared++;
            if (memcmp(record, expected, record_size))
                fail_msg("%s, %s, \"%s\": frame %u differs", ref_name, dist_name, options, f);
        }
        free(record);
        free(expected);
        free(params);
    }
    none_differs(&result, 50);
    golden_free(&golden);
    clip_free_all();
}

static void psnr_golden_clips(void **state)
{
    (void)state;
    golden_clips(0, "psnr.tsv.gz");
}

static void motion_golden_clips(void **state)
{
    (void)state;
    golden_clips(1, "motion.tsv.gz");
}

static void float_ssim_golden_clips(void **state)
{
    (void)state;
    golden_clips(2, "float_ssim.tsv.gz");
}

/* ---- Undecided means ---------------------------------------------------------------------------------------------- */

/* A guard band so wide that no mean is proven: all sums are made in order. */
static void widen(const char *kernel, void *args)
{
    if (strstr(kernel, "float_ssim_window"))
        ((VgFloatSsimArgs *)args)->guard *= 1e12;
}

/* The same by the grid-wide kernels that pictures of many windows get. */
static void widen_and_spread(const char *kernel, void *args)
{
    widen(kernel, args);
    if (strstr(kernel, "float_ssim_window"))
        ((VgFloatSsimArgs *)args)->spread = 1;
}

static void sums_in_order(void **state)
{
    static Tamper *const ways[] = { widen, widen_and_spread };
    (void)state;

    for (unsigned i = 0; i < 2; i++) {
        const HarnessProducer producer = producer_of("kernels, all sums in order", ways[i]);
        HarnessResult result = { 0 };
        sweep(2, device.set_wave ? ORDERED_INTERVAL : 5, &producer, &result);
        none_differs(&result, 50);
    }
}

/* What is done with sums that leave no room for a number of blocks. */
static void count_beside(const char *kernel, void *args)
{
    if (!strcmp(kernel, "psnr"))
        ((VgPsnrArgs *)args)->sum_bits = 0;
}

static void psnr_counts_beside_sums(void **state)
{
    const HarnessProducer producer = producer_of("kernels, blocks counted beside sums", count_beside);
    HarnessResult result = { 0 };
    (void)state;

    sweep(0, 5, &producer, &result);
    none_differs(&result, 200);
}

/* ---- Planted faults ----------------------------------------------------------------------------------------------- */

static void no_pitch(const char *kernel, void *args)
{
    if (!strcmp(kernel, "psnr"))
        ((VgPsnrArgs *)args)->parts[0].dist.pitch = 0;
}

static void wrong_width(const char *kernel, void *args)
{
    if (!strncmp(kernel, "motion", 6))
        ((VgMotionArgs *)args)->current.width--;
}

static void planted_faults_are_seen(void **state)
{
    static const struct {
        unsigned m;
        const char *name;
        Tamper *tamper;
    } faults[] = { { 0, "no pitch", no_pitch }, { 1, "a column too few", wrong_width } };
    (void)state;

    for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        const HarnessCase c = { { 64, 48, VG_CHROMA_420, 8 }, "" };
        const HarnessProducer producer = producer_of(faults[i].name, faults[i].tamper);
        HarnessResult result = { 0 };
        harness_compare(&producer, &result, 1, metrics[faults[i].m].metric, &c);
        if (!result.different)
            fail_msg("not seen: %s", faults[i].name);
        printf("# %s: %u of %u records differ\n", faults[i].name, result.different, result.compared);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pictures_agree),
        cmocka_unit_test(psnr_agrees),
        cmocka_unit_test(psnr_counts_beside_sums),
        cmocka_unit_test(motion_agrees),
        cmocka_unit_test(both_lags_agree),
        cmocka_unit_test(float_ssim_agrees),
        cmocka_unit_test(large_pictures_agree),
        cmocka_unit_test(sums_in_order),
        cmocka_unit_test(waves_of_other_sizes_agree),
        cmocka_unit_test(psnr_golden_clips),
        cmocka_unit_test(motion_golden_clips),
        cmocka_unit_test(float_ssim_golden_clips),
        cmocka_unit_test(planted_faults_are_seen),
    };
    const struct CMUnitTest small_pictures[] = { cmocka_unit_test(small_pictures_agree) };
    if (getenv("KERNELS_SMALL"))
        return cmocka_run_group_tests(small_pictures, open_device, close_device);
    return cmocka_run_group_tests(tests, open_device, close_device);
}
