/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * SpEED's kernels against plain C, byte for byte: planes, means, covariances, tridiagonal matrices, eigenvalues and variances
 * of every picture, and records. Variables are those of test_kernels; KERNELS_SMALL leaves few and small pictures that come
 * through every kernel.
 */
#include "tests/cmocka_includes.h"

#include "cpu_ref/metrics.h"
#include "cpu_ref/speed.h"
#include "kernels/kernel_host.h"
#include "kernels/speed_args.h"
#include "tests/clipgen.h"
#include "tests/golden.h"
#include "tests/harness.h"
#include "tests/kernel_device.h"
#include "tests/near_singular.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** What a test does to the arguments of launches; NULL: nothing. */
typedef void Tamper(const char *kernel, VgSpeedArgs *args);

/* The last frame and its arguments: they say where everything is. */
static struct {
    Tamper *tamper;
    int wide;
    VgDeviceFrame frame;
    VgSpeedArgs args;
} launches;

static int launch(void *context, const char *kernel, const uint32_t grid[3], uint32_t block, uint32_t dynamic_shared,
                  const void *args, size_t args_size)
{
    union {
        VgSpeedArgs frame;
        VgSpeedTableArgs table;
    } copy;
    (void)context;

    assert_true(args_size <= sizeof(copy));
    memcpy(&copy, args, args_size);
    if (strcmp(kernel, "speed_table")) {
        if (launches.tamper)
            launches.tamper(kernel, &copy.frame);
        launches.args = copy.frame;
    }
    if (launches.wide && !strcmp(kernel, "speed_covariances"))
        launch_copy("speed_covariances_wide", grid, block, 0, &copy, args_size);
    else
        launch_copy(kernel, grid, block, dynamic_shared, &copy, args_size);
    return 0;
}

static const VgLauncher launcher = { NULL, launch, fill };

/* ---- Comparisons -------------------------------------------------------------------------------------------------- */

static struct {
    unsigned compared, different;
    char first[400];
} result;

static void compare(int same, const char *words, const char *what, int picture, int value)
{
    result.compared++;
    if (!same && !result.different++)
        snprintf(result.first, sizeof(result.first), "%s: %s of picture %d, value %d", words, what, picture, value);
}

static void none_differs(unsigned least)
{
    if (result.different)
        fail_msg("%u of %u planes and records differ, first: %s", result.different, result.compared, result.first);
    if (result.compared < least)
        fail_msg("only %u planes and records compared", result.compared);
    printf("# %u planes and records\n", result.compared);
    memset(&result, 0, sizeof(result));
}

/* Every NaN is as good as another. */
static int same_float(float a, float b)
{
    return a != a ? b != b : !memcmp(&a, &b, sizeof(a));
}

/* A device's memory of floats. */
static float *download(uint64_t address, size_t n)
{
    float *values = malloc(n * sizeof(*values));

    assert_non_null(values);
    CU(cuMemcpyDtoH_v2(values, address, n * sizeof(*values)));
    return values;
}

/* What an observer compares with. */
typedef struct Stages {
    const char *words;
    int plane;
} Stages;

static void compare_values(const Stages *stages, int side, const char *what, const float *expected, ptrdiff_t pitch,
                           int32_t rows, int32_t columns, uint64_t address, int32_t device_pitch)
{
    float *values = download(address, (size_t)(rows - 1) * (size_t)device_pitch + (size_t)columns);
    int32_t same = 0;

    while (same < rows * columns && same_float(expected[same / columns * pitch + same % columns],
                                               values[same / columns * device_pitch + same % columns]))
        same++;
    compare(same == rows * columns, stages->words, what, 2 * stages->plane + side, same);
    free(values);
}

static void compare_sums(const Stages *stages, int side, const double *expected, uint64_t address)
{
    double sums[VG_SPEED_PAIRS];
    int same = 0;

    CU(cuMemcpyDtoH_v2(sums, address, sizeof(sums)));
    while (same < VG_SPEED_PAIRS && !memcmp(&sums[same], &expected[same], sizeof(double)))
        same++;
    compare(same == VG_SPEED_PAIRS, stages->words, "sums", 2 * stages->plane + side, same);
}

/* Matrices by what makes them singular: nothing, an eigenvalue, a pivot alone. */
static unsigned matrices[3];

/* Whether a value of a matrix's diagonal, or of a vector, is below the limit, and the device says so in `decision`. */
static void compare_decision(const Stages *stages, int side, int pivots, const float *values, ptrdiff_t step,
                             uint64_t decision)
{
    uint32_t expected = 0, singular;

    for (int i = 0; i < VG_SPEED_N; i++) {
        const float value = values[i * step];
        expected |= (double)(pivots && value < 0 ? -value : value) < 1e-6;
    }
    CU(cuMemcpyDtoH_v2(&singular, decision, sizeof(singular)));
    compare(singular == expected, stages->words, pivots ? "small pivots" : "small eigenvalues",
            2 * stages->plane + side, (int)singular);
    if (expected || pivots) /* pivots are shown of matrices without a small eigenvalue alone */
        matrices[!expected ? 0 : pivots ? 2 : 1]++;
}

static void see(void *opaque, int side, VgSpeedStage stage, const void *values, int32_t rows, int32_t columns,
                ptrdiff_t pitch)
{
    const Stages *stages = opaque;
    const VgSpeedArgs *args = &launches.args;
    const VgSpeedParams *p = &args->params;
    const uint64_t picture = 2 * (uint64_t)stages->plane + (uint64_t)side;
    const int32_t height = vg_speed_decimated(p->scaled_height), width = vg_speed_decimated(p->scaled_width);
    const uint64_t statistics = args->statistics + picture * sizeof(VgSpeedStatistics);
    const uint64_t n_blocks = (uint64_t)vg_speed_blocks(width) * (uint64_t)vg_speed_blocks(height);
    const uint64_t plane = (uint64_t)height * (uint64_t)args->pitch;
    const struct {
        const char *name;
        uint64_t address;
        int32_t pitch;
    } places[] = {
        [VG_SPEED_STAGE_PLANE] = { "plane", args->planes + picture * plane * sizeof(float), args->pitch },
        [VG_SPEED_STAGE_MEANS] = { "means", statistics + offsetof(VgSpeedStatistics, means), VG_SPEED_SIDE },
        [VG_SPEED_STAGE_COVARIANCES] = { "covariances", statistics + offsetof(VgSpeedStatistics, covariances),
                                         VG_SPEED_N },
        [VG_SPEED_STAGE_DIAGONAL] = { "diagonal", statistics + offsetof(VgSpeedStatistics, diagonal), VG_SPEED_N },
        [VG_SPEED_STAGE_OFF_DIAGONAL] = { "off-diagonal", statistics + offsetof(VgSpeedStatistics, off_diagonal),
                                          VG_SPEED_N },
        [VG_SPEED_STAGE_EIGENVALUES] = { "eigenvalues", statistics + offsetof(VgSpeedStatistics, eigenvalues),
                                         VG_SPEED_N },
        /* X is shown of regular matrices alone, and S after it. */
        [VG_SPEED_STAGE_E] = { NULL, 0, 0 },
    };
    static int regular;

    if (stage == VG_SPEED_STAGE_DECIMATED)
        regular = 0;
    if (stage == VG_SPEED_STAGE_X)
        regular = 1;
    if (stage == VG_SPEED_STAGE_EIGENVALUES)
        compare_decision(stages, side, 0, values, 1, statistics + offsetof(VgSpeedStatistics, singular));
    if (stage == VG_SPEED_STAGE_R)
        compare_decision(stages, side, 1, values, pitch + 1,
                         statistics + offsetof(VgSpeedStatistics, singular) + sizeof(uint32_t));
    if (stage == VG_SPEED_STAGE_SUMS)
        compare_sums(stages, side, values, statistics + offsetof(VgSpeedStatistics, sums));
    else if (stage == VG_SPEED_STAGE_S && regular)
        compare_values(stages, side, "variances", values, pitch, rows, columns,
                       args->variances + picture * n_blocks * sizeof(float), vg_speed_blocks(width));
    else if (places[stage].name)
        compare_values(stages, side, places[stage].name, values, pitch, rows, columns, places[stage].address,
                       places[stage].pitch);
}

/* ---- Frames ------------------------------------------------------------------------------------------------------- */

/* Copies a picture to the device; addresses keep their remainders modulo 256. */
static void upload(const VgPicture *picture, Buffer *buffer, VgDevicePlane planes[3])
{
    const uint8_t *low = NULL, *high = NULL;

    for (int c = 0; c < 3 && picture->data[c]; c++) {
        const VgPlane plane = vg_picture_plane(picture, c);
        const uint8_t *top = plane.data, *bottom = top + (plane.height - 1) * plane.pitch;
        const uint8_t *last = (top > bottom ? top : bottom) + (plane.width - 1) * plane.step + plane.sample_bytes;
        low = !low || (top < bottom ? top : bottom) < low ? (top < bottom ? top : bottom) : low;
        high = !high || last > high ? last : high;
    }
    const CUdeviceptr start = buffer_get(buffer, (size_t)(high - low) + 256) + (uintptr_t)low % 256;
    /* In the stream: a copy that returns may be under way still. */
    CU(cuMemcpyHtoDAsync_v2(start, low, (size_t)(high - low), device.stream));
    for (int c = 0; c < 3 && picture->data[c]; c++) {
        const VgPlane plane = vg_picture_plane(picture, c);
        planes[c] = (VgDevicePlane){
            .address = start + (uint64_t)(plane.data - low),
            .pitch = plane.pitch,
            .width = plane.width,
            .height = plane.height,
            .step = plane.step,
            .sample_bytes = plane.sample_bytes,
            .shift = plane.shift,
        };
    }
}

/** Parameters that the work memory belongs to. */
static struct {
    int valid;
    VgSpeedParams params;
} planned;

static void plan(const VgSpeedParams *params)
{
    const size_t size = vg_device_speed.work_size(params) + 256;

    if (planned.valid && !memcmp(&planned.params, params, sizeof(*params)))
        return; /* what earlier frames left in work memory must do */
    buffer_free(&device.work);
    fill(NULL, buffer_get(&device.work, size), 0xcd, size);
    assert_int_equal(vg_device_speed.plan(params, &launcher, device.work.address), 0);
    planned.params = *params;
    planned.valid = 1;
}

static void run(const HarnessProducer *producer, const VgMetric *metric, const void *params,
                const VgFramePictures *pictures, void *record)
{
    VgDeviceFrame frame = { .index = pictures->frame };
    Buffer *buffer = device.pictures;
    (void)metric;

    launches.tamper = producer ? (Tamper *)producer->opaque : NULL;
    for (int k = 0; k <= VG_MAX_LAG; k++) {
        if (pictures->ref[k])
            upload(pictures->ref[k], buffer++, frame.ref[k]);
        if (pictures->dist[k])
            upload(pictures->dist[k], buffer++, frame.dist[k]);
    }
    plan(params);
    const CUdeviceptr to = buffer_get(&device.record, sizeof(VgSpeedRecord));
    fill(NULL, to, 0x5a, sizeof(VgSpeedRecord));
    launches.frame = frame;
    assert_int_equal(vg_device_speed.enqueue(params, &launcher, &frame, device.work.address, to), 0);
    CU(cuStreamSynchronize(device.stream));
    CU(cuMemcpyDtoH_v2(record, to, sizeof(VgSpeedRecord)));
}

/* Stages and record of a frame that has been run. */
static void compare_frame(const char *words, const VgMetric *metric, const VgSpeedParams *params,
                          const VgFramePictures *pictures, const VgSpeedRecord *record)
{
    const size_t scratch_size = (metric->cpu->scratch_size(params) + 63) & ~(size_t)63;
    void *scratch = aligned_alloc(64, scratch_size);
    const int n_planes = params->temporal ? (pictures->frame ? 1 : 0) : VG_SPEED_MOST_PLANES;
    VgCpuFrame planes = { .index = pictures->frame };
    VgSpeedRecord expected;

    assert_non_null(scratch);
    for (unsigned k = 0; k <= 1; k++)
        for (int c = 0; c < 3 && pictures->ref[k]; c++) {
            planes.ref[k][c] = vg_picture_plane(pictures->ref[k], c);
            planes.dist[k][c] = vg_picture_plane(pictures->dist[k], c);
        }
    for (int plane = 0; plane < n_planes; plane++) {
        Stages stages = { words, plane };
        const VgSpeedObserver observer = { see, &stages };
        vg_speed_show_stages(params, &planes, plane, scratch, &observer);
    }
    harness_yardstick(metric, params, pictures, &expected);
    compare(!memcmp(record, &expected, sizeof(expected)), words, "record", 0, (int)pictures->frame);
    free(scratch);
}

/* A picture as decoders on devices lay it out: aligned rows, Cb and Cr in the same, words in the high bits. To be freed. */
static void *decoded(VgPicture *picture)
{
    const VgPicture from = *picture;
    const uint32_t bytes = from.sample_bytes;
    size_t offsets[3] = { 0 }, size = 0;

    picture->shift = bytes == 2 ? 16 - from.geometry.bit_depth : 0;
    for (int c = 0; c < 3 && from.data[c]; c++) {
        const VgPlane plane = vg_picture_plane(&from, c);
        picture->step[c] = c ? 2 * bytes : bytes;
        picture->pitch[c] = ((ptrdiff_t)plane.width * picture->step[c] + 255) & ~(ptrdiff_t)255;
        offsets[c] = c == 2 ? offsets[1] + bytes : size;
        size += c == 2 ? 0 : (size_t)(picture->pitch[c] * plane.height);
    }
    uint8_t *memory = aligned_alloc(256, size);
    assert_non_null(memory);
    memset(memory, 0x5a, size);
    for (int c = 0; c < 3 && from.data[c]; c++) {
        const VgPlane plane = vg_picture_plane(&from, c);
        picture->data[c] = memory + offsets[c];
        for (int32_t y = 0; y < plane.height; y++)
            for (int32_t x = 0; x < plane.width; x++) {
                const uint8_t *sample = plane.data + y * plane.pitch + x * plane.step;
                uint8_t *to = memory + offsets[c] + y * picture->pitch[c] + x * (ptrdiff_t)picture->step[c];
                if (bytes == 1)
                    *to = *sample;
                else
                    *(uint16_t *)(void *)to = (uint16_t)(*(const uint16_t *)(const void *)sample << picture->shift);
            }
    }
    return memory;
}

/* How frames are compared. */
enum {
    DECODED = 1, /* as decoders lay them out */
    WIDE = 2,    /* as those whose rows do not fit shared memory */
};

/* All frames of a pair of clips. Returns whether the metric accepts them. */
static int compare_clips(const VgMetric *metric, const char *ref_name, const char *dist_name, const char *options,
                         int how)
{
    const Clip *ref = clip_get(ref_name), *dist = clip_get(dist_name);
    const HarnessCase c = { ref->geometry, options };
    char words[256];
    VgSpeedParams params;

    if (!harness_accepts(metric, &c))
        return 0;
    snprintf(words, sizeof(words), "%s, %s, %s, \"%s\"", metric->info.name, ref_name, dist_name, options);
    harness_params(metric, &c, &params);
    for (unsigned f = 0; f < ref->n_frames; f++) {
        VgPicture refs[2], dists[2];
        VgFramePictures pictures = { .frame = f };
        VgSpeedRecord record;
        for (unsigned k = 0; k <= 1 && k <= f; k++) {
            refs[k] = clip_picture(ref, f - k);
            dists[k] = clip_picture(dist, f - k);
            pictures.ref[k] = &refs[k];
            pictures.dist[k] = &dists[k];
        }
        void *copies[4] = { NULL };
        for (unsigned k = 0; (how & DECODED) && k <= 1 && k <= f; k++) {
            copies[2 * k] = decoded(&refs[k]);
            copies[2 * k + 1] = decoded(&dists[k]);
        }
        launches.wide = how & WIDE;
        run(NULL, metric, &params, &pictures, &record);
        compare_frame(words, metric, &params, &pictures, &record);
        launches.wide = 0;
        for (unsigned i = 0; i < 4; i++)
            free(copies[i]);
    }
    return 1;
}

/* ---- Tests -------------------------------------------------------------------------------------------------------- */

static const VgMetric *const chroma = &vg_metric_speed_chroma, *const temporal = &vg_metric_speed_temporal;

#define MODELS "speed_nn_floor=0.1:speed_sigma_nn=0.19:speed_weight_var_mode=5"

typedef struct Pair {
    const VgMetric *const *metric;
    const char *ref, *dist, *options;
    int how;
} Pair;

static void compare_pairs(const Pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!compare_clips(*pairs[i].metric, pairs[i].ref, pairs[i].dist, pairs[i].options, pairs[i].how))
            fail_msg("%s refuses %s with \"%s\"", (*pairs[i].metric)->info.name, pairs[i].ref, pairs[i].options);
    clip_free_all();
}

#define COMPARE_PAIRS(pairs) compare_pairs(pairs, sizeof(pairs) / sizeof((pairs)[0]))

/*
 * Few and small pictures that come through every kernel, for checkers of memory and of races. For the latter, which slow
 * barriers down most of all, fewer and smaller ones.
 */
static void small_pictures_agree(void **state)
{
    static const Pair pairs[] = {
#ifdef __SANITIZE_THREAD__
        { &chroma, "noise none 90 80 444 10 1 1", "noise blur 90 80 444 10 1 1", "", DECODED },
        { &temporal, "noise none 160 80 400 8 2 3", "noise quant:9 160 80 400 8 2 3", "", DECODED },
        { &temporal, "noise none 88 80 400 10 2 3", "noise quant:9 88 80 400 10 2 3", "", 0 },
        { &temporal, "noise none 81 80 400 8 2 3", "noise quant:9 81 80 400 8 2 3", "", 0 },
        { &temporal, "noise none 90 90 400 8 2 3", "noise quant:9 90 90 400 8 2 3", "speed_prescale=0.9", WIDE },
        { &temporal, "noise none 90 90 400 8 2 3", "noise quant:9 90 90 400 8 2 3",
          "speed_prescale=0.9:speed_prescale_method=bilinear", 0 },
        { &temporal, "noise none 90 90 400 8 2 3", "noise quant:9 90 90 400 8 2 3",
          "speed_prescale=0.9:speed_prescale_method=bicubic", 0 },
        { &temporal, "noise none 90 90 400 8 2 3", "noise quant:9 90 90 400 8 2 3",
          "speed_prescale=0.9:speed_prescale_method=lanczos4", 0 },
#else
        { &chroma, "noise none 340 330 420 8 1 1", "noise blur 340 330 420 8 1 1", "", 0 },
        { &chroma, "noise none 337 325 420 8 1 1", "noise blur 337 325 420 8 1 1", "", DECODED },
        { &chroma, "tex none 337 325 420 10 1 8", "tex blur 337 325 420 10 1 8", "", DECODED },
        { &temporal, "noise none 171 163 400 8 2 6", "noise quant:9 171 163 400 8 2 6", "", DECODED },
        { &chroma, "tex none 176 160 444 10 1 2", "tex blur 176 160 444 10 1 2", MODELS, 0 },
        { &chroma, "noise none 575 171 444 8 1 5", "noise blur 575 171 444 8 1 5", "", 0 },
        { &temporal, "noise none 177 161 400 8 2 3", "noise quant:9 177 161 400 8 2 3", "speed_use_ref_diff=true", 0 },
        { &temporal, "noise none 200 171 400 8 2 4", "noise quant:9 200 171 400 8 2 4", "speed_prescale=0.9", 0 },
        { &chroma, "noise none 191 163 444 8 1 5", "noise blur 191 163 444 8 1 5",
          "speed_prescale=0.9:speed_prescale_method=bilinear", 0 },
        { &chroma, "noise none 191 163 444 12 1 6", "noise blur 191 163 444 12 1 6",
          "speed_prescale=0.95:speed_prescale_method=bicubic", 0 },
        { &temporal, "noise none 170 165 444 8 2 7", "noise blur 170 165 444 8 2 7",
          "speed_prescale=1.1:speed_prescale_method=lanczos4", 0 },
        { &temporal, "noise none 177 161 400 8 2 3", "noise quant:9 177 161 400 8 2 3", "", WIDE },
        { &temporal, "mix none 80 480 400 8 2 45", "mix none 80 480 400 8 2 46", "", 0 }, /* singular by a pivot */
#endif
    };
    (void)state;

    COMPARE_PAIRS(pairs);
    none_differs(60);
    for (const VgKernel *k = vg_device_speed.kernels; k->name; k++)
        if (!has_been_launched(k->name))
            fail_msg("%s has not been launched", k->name);
}

/* Depths, formats, kernel sizes, weightings, resamplers, and all mixtures of lanes and tails of a covariance. */
static void stages_agree(void **state)
{
    static const Pair pairs[] = {
        { &chroma, "tex none 176 176 444 8 1 2", "tex blur 176 176 444 8 1 2", "", 0 },
        { &chroma, "noise none 575 181 444 8 1 5", "noise blur 575 181 444 8 1 5", "", 0 },
        { &chroma, "noise none 640 480 444 10 1 3", "noise blur+quant:24 640 480 444 10 1 3",
          MODELS ":speed_prescale=0.6:speed_prescale_method=bilinear", 0 },
        { &chroma, "mix none 643 483 422 16 1 3", "mix quant:900 643 483 422 16 1 3", "speed_weight_var_mode=1", 0 },
        { &chroma, "mix none 643 483 420 12 2 3", "mix blur 643 483 420 12 2 3", "speed_weight_var_mode=2", 0 },
        { &chroma, "mix none 1300 700 444 8 1 9", "mix blur 1300 700 444 8 1 9", "speed_weight_var_mode=3", 0 },
        { &chroma, "noise none 400 330 420 10 1 9", "noise noise:40 400 330 420 10 1 9",
          "speed_weight_var_mode=4:speed_prescale=1.7:speed_prescale_method=bicubic", 0 },
        { &chroma, "noise none 400 330 444 8 1 9", "noise noise:40 400 330 444 8 1 9",
          "speed_weight_var_mode=6:speed_prescale=0.5:speed_prescale_method=bilinear", 0 },
        { &chroma, "noise none 400 330 444 8 1 9", "noise noise:40 400 330 444 8 1 9",
          "speed_prescale=0.7:speed_prescale_method=lanczos4", 0 },
        { &chroma, "noise none 300 230 444 8 1 9", "noise noise:40 300 230 444 8 1 9",
          "speed_prescale=2:speed_prescale_method=bilinear", 0 },
        { &chroma, "noise none 403 331 444 8 1 9", "noise noise:40 403 331 444 8 1 9", "speed_prescale=0.77", 0 },
        { &chroma, "noise none 403 331 444 8 1 9", "noise noise:40 403 331 444 8 1 9", "speed_prescale=0.9995", 0 },
        { &chroma, "noise none 403 331 444 8 1 9", "noise noise:40 403 331 444 8 1 9", "speed_kernelscale=3.711", 0 },
        { &chroma, "noise none 403 331 444 10 1 9", "noise noise:40 403 331 444 10 1 9", "speed_kernelscale=0.5", 0 },
        { &chroma, "noise none 403 331 444 16 1 9", "noise noise:40 403 331 444 16 1 9",
          "speed_kernelscale=3:speed_prescale=0.8:speed_prescale_method=bicubic", 0 },
        { &temporal, "mix none 227 181 444 8 2 5", "mix quant:9 227 181 444 8 2 5", "", 0 },
        { &temporal, "tex none 643 483 400 10 3 5", "tex quant:9 643 483 400 10 3 5", "", 0 },
        { &temporal, "mix none 643 483 400 8 2 5", "mix quant:9 643 483 400 8 2 5", "speed_use_ref_diff=true", 0 },
        { &temporal, "noise none 400 330 400 16 2 5", "noise quant:9 400 330 400 16 2 5",
          "speed_use_ref_diff=true:speed_prescale=1.5:speed_prescale_method=lanczos4", 0 },
        /* Windows of two parts. */
        { &temporal, "tex none 2560 1440 400 8 2 5", "tex quant:9 2560 1440 400 8 2 5", "", 0 },
        { &temporal, "mix none 1920 1080 400 10 2 5", "mix blur 1920 1080 400 10 2 5", "", 0 },
        { &temporal, "mix none 2400 1264 400 8 2 5", "mix blur 2400 1264 400 8 2 5", "", 0 },
        { &temporal, "noise none 80 80 400 8 2 5", "noise quant:9 80 80 400 8 2 5", "", 0 },
        /* Five rows of its plane do not fit shared memory. */
        { &temporal, "noise none 9870 24 400 8 2 7", "noise blur 9870 24 400 8 2 7", "speed_prescale=4", 0 },
        /* Singular: both, the reference, the distorted side, U alone. */
        { &chroma, "flat none 400 330 444 8 1 9", "flat none 400 330 444 8 1 9", "speed_weight_var_mode=4", 0 },
        { &chroma, "flat none 400 330 444 8 1 9", "noise none 400 330 444 8 1 9", "", 0 },
        { &chroma, "noise none 400 330 444 8 1 9", "flat none 400 330 444 8 1 9", "", 0 },
        { &chroma, "ramp none 400 330 444 8 1 9", "ramp blur 400 330 444 8 1 9", "", 0 },
        { &chroma, "checker none 400 330 444 8 1 9", "checker blur 400 330 444 8 1 9", "", 0 },
        { &chroma, "noise none 160 160 420 8 1 9", "noise blur 160 160 420 8 1 9", "", 0 },
    };
    (void)state;

    COMPARE_PAIRS(pairs);
    none_differs(800);
}

/* Matrices about the limit of singular ones are on the same side of it. */
static void matrices_near_singularity_agree(void **state)
{
    (void)state;

    memset(matrices, 0, sizeof(matrices));
    for (unsigned i = 0; i < N_NEAR_SINGULAR; i++) {
        const NearSingular *family = &near_singular[i];
        for (unsigned k = 0; k < NEAR_SINGULAR_NUMBERS && family->numbers[k]; k++) {
            char ref[128], dist[128];
            snprintf(ref, sizeof(ref), family->clip, family->numbers[k]);
            snprintf(dist, sizeof(dist), family->clip, family->numbers[k] + 1);
            assert_true(compare_clips(family->temporal ? temporal : chroma, ref, dist, "", 0));
        }
    }
    clip_free_all();
    none_differs(1000);
    printf("# %u matrices are singular because of an eigenvalue, %u of a pivot, %u are not\n", matrices[1], matrices[2],
           matrices[0]);
    assert_true(matrices[1] >= NEAR_SINGULAR_EIGENVALUES && matrices[2] >= NEAR_SINGULAR_PIVOTS &&
                matrices[0] >= NEAR_SINGULAR_NONE);
}

/* ---- Golden clips ------------------------------------------------------------------------------------------------- */

#ifdef __SANITIZE_ADDRESS__ /* slow: one in so many pairs, and no large pictures; the plain build has all */
#define GOLDEN_INTERVAL 7
#define GOLDEN_SHARE    20 /* at least one in so many values is compared */
#define MOST_SAMPLES    200000
#else
#define GOLDEN_INTERVAL 1
#define GOLDEN_SHARE    1
#define MOST_SAMPLES    UINT32_MAX
#endif

/* The clips and options of golden rows: plain C has their scores, see test_speed. */
static void golden_clips(const VgMetric *metric, const char *table, unsigned least)
{
    Golden golden = golden_read(table);
    unsigned n = 0;

    for (size_t row = 0; row < golden.n_rows; row = golden_end(&golden, row)) {
        const char *ref = golden_cell(&golden, row, GOLDEN_REF), *dist = golden_cell(&golden, row, GOLDEN_DIST);
        const char *options = golden_options(&golden, row, metric->info.name);
        const VgGeometry g = clip_get(ref)->geometry;
        if (n++ % GOLDEN_INTERVAL || g.width * g.height > MOST_SAMPLES)
            continue;
        if (!compare_clips(metric, ref, dist, options, 0))
            fail_msg("%s refuses %s with \"%s\"", metric->info.name, ref, options);
    }
    none_differs(least / GOLDEN_SHARE);
    golden_free(&golden);
    clip_free_all();
}

static void chroma_golden_clips(void **state)
{
    (void)state;
    golden_clips(chroma, "speed_chroma.tsv.gz", 9000);
}

static void temporal_golden_clips(void **state)
{
    (void)state;
    golden_clips(temporal, "speed_temporal.tsv.gz", 4000);
    golden_clips(temporal, "speed_upscale.tsv.gz", 450);
}

static const HarnessCase chroma_cases[] = {
    { { 341, 330, VG_CHROMA_420, 8 }, "" },
    { { 337, 160, VG_CHROMA_422, 10 }, MODELS },
    { { 193, 187, VG_CHROMA_444, 12 }, "speed_prescale=0.9:speed_prescale_method=bilinear" },
    { { 176, 176, VG_CHROMA_444, 16 }, "speed_kernelscale=0.5:speed_weight_var_mode=6" },
};
static const HarnessCase temporal_cases[] = {
    { { 181, 170, VG_CHROMA_420, 8 }, "" },
    { { 192, 160, VG_CHROMA_400, 10 }, "speed_use_ref_diff=true" },
    { { 167, 141, VG_CHROMA_444, 16 }, "speed_prescale=1.2:speed_prescale_method=bicubic" },
};

static void compare_cases(const HarnessProducer *producer, HarnessResult *harness, const VgMetric *metric,
                          const HarnessCase *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        harness_compare(producer, harness, 1, metric, &cases[i]);
}

/* Random and adversarial pictures in every layout. */
static void layouts_agree(void **state)
{
    const HarnessProducer producer = { .name = "kernels", .run = run };
    HarnessResult harness = { 0 };
    (void)state;

    compare_cases(&producer, &harness, chroma, chroma_cases, sizeof(chroma_cases) / sizeof(*chroma_cases));
    compare_cases(&producer, &harness, temporal, temporal_cases, sizeof(temporal_cases) / sizeof(*temporal_cases));
    if (harness.different)
        fail_msg("%u of %u records differ, first: %s", harness.different, harness.compared, harness.first);
    assert_true(harness.compared >= 200);
    printf("# %u records\n", harness.compared);
}

/* The result does not depend on the wave's size. */
static void waves_of_other_sizes_agree(void **state)
{
    static const unsigned sizes[] = { 16, 64 };
    static const Pair pairs[] = {
        { &chroma, "noise none 575 181 444 8 1 5", "noise blur 575 181 444 8 1 5", MODELS, 0 },
        { &temporal, "mix none 227 181 444 8 2 5", "mix quant:9 227 181 444 8 2 5", "", 0 },
    };
    (void)state;

    for (unsigned i = 0; i < 2 && device.set_wave; i++) {
        device.set_wave(sizes[i]);
        COMPARE_PAIRS(pairs);
        device.set_wave(32);
        none_differs(20);
    }
}

static void wrong_pitch(const char *kernel, VgSpeedArgs *args)
{
    if (!strncmp(kernel, "speed_low", 9))
        args->current[1].pitch = 0;
}

static void other_side(const char *kernel, VgSpeedArgs *args)
{
    if (!strncmp(kernel, "speed_low", 9))
        args->current[1] = args->current[0];
}

/* The distorted side's difference is to its own current frame, whatever speed_use_ref_diff says. */
static void own_frame(const char *kernel, VgSpeedArgs *args)
{
    if (!strncmp(kernel, "speed_low", 9))
        args->current[1] = launches.frame.dist[0][0];
}

static void planted_faults_are_seen(void **state)
{
    static const struct {
        const char *name;
        Tamper *tamper;
        const VgMetric *const *metric;
        const HarnessCase *test_case;
    } faults[] = {
        { "no pitch", wrong_pitch, &chroma, &chroma_cases[0] },
        { "the reference on both sides", other_side, &chroma, &chroma_cases[0] },
        { "speed_use_ref_diff where it is not given", other_side, &temporal, &temporal_cases[0] },
        { "no speed_use_ref_diff where it is given", own_frame, &temporal, &temporal_cases[1] },
    };
    (void)state;

    for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        const HarnessProducer producer = { .name = faults[i].name,
                                           .run = run,
                                           .opaque = *(void **)(void *)&(Tamper *){ faults[i].tamper } };
        HarnessResult harness = { 0 };
        harness_compare(&producer, &harness, 1, *faults[i].metric, faults[i].test_case);
        if (!harness.different)
            fail_msg("not seen: %s", faults[i].name);
        printf("# %s: %u of %u records differ\n", faults[i].name, harness.different, harness.compared);
    }
    launches.tamper = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pictures_agree),
        cmocka_unit_test(stages_agree),
        cmocka_unit_test(matrices_near_singularity_agree),
        cmocka_unit_test(chroma_golden_clips),
        cmocka_unit_test(temporal_golden_clips),
        cmocka_unit_test(layouts_agree),
        cmocka_unit_test(waves_of_other_sizes_agree),
        cmocka_unit_test(planted_faults_are_seen),
    };
    const struct CMUnitTest small_pictures[] = { cmocka_unit_test(small_pictures_agree) };
    if (getenv("KERNELS_SMALL"))
        return cmocka_run_group_tests(small_pictures, open_device, close_device);
    return cmocka_run_group_tests(tests, open_device, close_device);
}
