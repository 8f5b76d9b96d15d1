/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * CAMBI's kernels against plain C, byte for byte: pixels and values of each scale, their totals, records and heatmaps, on
 * banded pictures. Variables are those of test_kernels; KERNELS_SMALL leaves few and small pictures that come through every
 * kernel.
 */
#include "tests/cmocka_includes.h"

#include "cpu_ref/cambi.h"
#include "cpu_ref/metrics.h"
#include "kernels/cambi_args.h"
#include "kernels/cambi_pool_args.h"
#include "kernels/kernel_host.h"
#include "tests/clipgen.h"
#include "tests/harness.h"
#include "tests/kernel_device.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Comparisons -------------------------------------------------------------------------------------------------- */

static struct {
    unsigned compared, different;
    char first[400];
} result;

static void compare(int same, const char *fixture, const char *what, int side, int scale)
{
    result.compared++;
    if (!same && !result.different++)
        snprintf(result.first, sizeof(result.first), "%s: %s, side %d, scale %d", fixture, what, side, scale);
}

static void none_differs(void)
{
    if (result.different)
        fail_msg("%u of %u planes and records differ, first: %s", result.different, result.compared, result.first);
    printf("# %u planes and records\n", result.compared);
    memset(&result, 0, sizeof(result));
}

/* ---- Pictures ----------------------------------------------------------------------------------------------------- */

typedef struct Layout {
    uint32_t sample_bytes; /* 0: the least that the depth needs */
    uint32_t step;         /* samples from one to the next */
    int high_bits, bottom_up;
    uint32_t margin;    /* samples before a row's first */
    uint32_t alignment; /* bytes, of rows */
} Layout;

static const Layout layouts[] = {
    { 0, 1, 0, 0, 0, 64 }, { 0, 1, 0, 0, 3, 1 }, { 2, 1, 1, 0, 0, 16 }, { 0, 1, 0, 1, 0, 4 },
    { 0, 2, 0, 0, 1, 1 },  { 2, 1, 0, 0, 4, 8 }, { 2, 3, 1, 1, 2, 1 },
};
#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static uint64_t random_state = 1;

static uint32_t random32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

typedef struct Luma {
    uint8_t *memory;
    size_t size;
    VgPlane plane; /* in memory */
} Luma;

/* Lays samples out; all bytes around them and bits below them are garbage. */
static Luma luma_make(const uint16_t *samples, int32_t width, int32_t height, uint32_t depth, const Layout *layout)
{
    const size_t bytes = layout->sample_bytes ? layout->sample_bytes : depth > 8 ? 2 : 1;
    const size_t row = (layout->margin + (size_t)width * layout->step) * bytes;
    const size_t pitch = (row + layout->alignment - 1) / layout->alignment * layout->alignment;
    const int shift = layout->high_bits ? (int)(8 * bytes - depth) : 0;
    Luma luma = { .size = pitch * (size_t)height };

    luma.memory = malloc(luma.size);
    assert_non_null(luma.memory);
    for (size_t i = 0; i < luma.size; i++)
        luma.memory[i] = (uint8_t)random32();
    luma.plane = (VgPlane){
        .data = luma.memory + layout->margin * bytes + (layout->bottom_up ? pitch * (size_t)(height - 1) : 0),
        .pitch = layout->bottom_up ? -(ptrdiff_t)pitch : (ptrdiff_t)pitch,
        .width = width,
        .height = height,
        .step = (int32_t)(layout->step * bytes),
        .sample_bytes = (int32_t)bytes,
        .shift = shift,
    };
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++) {
            uint8_t *at = (uint8_t *)(uintptr_t)luma.plane.data + y * luma.plane.pitch + (ptrdiff_t)x * luma.plane.step;
            const uint16_t low = shift ? (uint16_t)(random32() & ((1u << shift) - 1)) : 0;
            const uint16_t word = (uint16_t)(samples[(size_t)y * (size_t)width + (size_t)x] << shift | low);
            if (bytes == 1)
                *at = (uint8_t)word;
            else
                memcpy(at, &word, 2);
        }
    return luma;
}

static VgDevicePlane luma_upload(const Luma *luma, Buffer *buffer)
{
    const VgPlane *p = &luma->plane;
    const CUdeviceptr to = buffer_get(buffer, luma->size);

    CU(cuMemcpyHtoDAsync_v2(to, luma->memory, luma->size, device.stream));
    return (VgDevicePlane){
        .address = to + (uint64_t)(p->data - luma->memory),
        .pitch = p->pitch,
        .width = p->width,
        .height = p->height,
        .step = p->step,
        .sample_bytes = p->sample_bytes,
        .shift = p->shift,
    };
}

/* ---- What plain C makes ------------------------------------------------------------------------------------------- */

typedef struct Stages {
    int32_t width[VG_CAMBI_SCALES], height[VG_CAMBI_SCALES];
    uint16_t *pixels[VG_CAMBI_SCALES];
    float *values[VG_CAMBI_SCALES];
} Stages;

static void *copy_of(const void *bytes, size_t size)
{
    void *copy = malloc(size);
    assert_non_null(copy);
    return memcpy(copy, bytes, size);
}

static void see(void *opaque, VgCambiStage stage, int32_t scale, const void *plane, int32_t width, int32_t height)
{
    Stages *stages = opaque;
    const size_t n = (size_t)width * (size_t)height;

    if (stage == VG_CAMBI_STAGE_PIXELS)
        stages->pixels[scale] = copy_of(plane, n * sizeof(uint16_t));
    if (stage == VG_CAMBI_STAGE_VALUES)
        stages->values[scale] = copy_of(plane, n * sizeof(float));
    stages->width[scale] = width;
    stages->height[scale] = height;
}

static void stages_free(Stages *stages)
{
    for (int s = 0; s < VG_CAMBI_SCALES; s++) {
        free(stages->pixels[s]);
        free(stages->values[s]);
    }
}

static size_t record_size(const VgCambiParams *p)
{
    return sizeof(VgCambiRecord) + (p->heatmaps ? 2 * (size_t)vg_cambi_heatmap_pixels(p) : 0);
}

/* ---- What kernels make -------------------------------------------------------------------------------------------- */

/* A run of the kernels: planes are looked at between counting and pooling, which puts values into another order. */
typedef struct Watch {
    const char *fixture;
    const VgCambiParams *params;
    const Stages *expected; /* of each side */
    int32_t levels;         /* of which counts are kept at once; 0: as many as fit */
    VgCambiArgs counted;
    int counting; /* counted are the latest launch's */
} Watch;

static void *download(uint64_t address, size_t size)
{
    void *bytes = malloc(size);
    assert_non_null(bytes);
    CU(cuMemcpyDtoH_v2(bytes, address, size));
    return bytes;
}

static int same_pixels(const VgCambiDeviceScale *scale, const uint16_t *expected)
{
    const size_t pitch = (size_t)scale->pitch, width = (size_t)scale->width;
    uint16_t *pixels = download(scale->pixels, pitch * (size_t)scale->height * sizeof(*pixels));
    int same = 1;

    for (size_t y = 0; y < (size_t)scale->height; y++)
        same &= !memcmp(pixels + y * pitch, expected + y * width, width * sizeof(*pixels));
    free(pixels);
    return same;
}

static int same_values(const VgCambiDeviceScale *scale, const float *expected)
{
    const size_t size = (size_t)scale->width * (size_t)scale->height * sizeof(float);
    float *values = download(scale->values, size);
    const int same = !memcmp(values, expected, size);

    free(values);
    return same;
}

static int same_totals(const VgCambiArgs *args, int s, const float *values)
{
    const size_t n = (size_t)args->scales[s].width * (size_t)args->scales[s].height;
    VgCambiTotals expected = { 0, 0, 0, 0 }, totals;

    for (size_t i = 0; i < n; i++) {
        expected.sum += vg_cambi_units(values[i]);
        expected.bits |= vg_cambi_units(values[i]);
        expected.nonzero += values[i] != 0;
    }
    CU(cuMemcpyDtoH_v2(&totals, args->totals + (uint64_t)s * sizeof(totals), sizeof(totals)));
    return !memcmp(&totals, &expected, sizeof(totals));
}

static void look(const Watch *watch)
{
    const VgCambiArgs *args = &watch->counted;
    const Stages *expected = &watch->expected[args->side];

    CU(cuStreamSynchronize(device.stream));
    for (int s = 0; s < VG_CAMBI_SCALES; s++) {
        const VgCambiDeviceScale *scale = &args->scales[s];
        assert_int_equal(scale->width, expected->width[s]);
        assert_int_equal(scale->height, expected->height[s]);
        compare(same_pixels(scale, expected->pixels[s]), watch->fixture, "pixels", args->side, s);
        compare(same_values(scale, expected->values[s]), watch->fixture, "values", args->side, s);
        compare(same_totals(args, s, expected->values[s]), watch->fixture, "totals", args->side, s);
    }
}

static uint32_t most_shared(const char *kernel)
{
    for (const VgKernel *k = vg_device_cambi.kernels; k->name; k++)
        if (!strcmp(k->name, kernel))
            return k->dynamic_shared;
    fail_msg("%s is not declared", kernel);
    return 0;
}

static int launch(void *context, const char *kernel, const uint32_t grid[3], uint32_t block, uint32_t dynamic_shared,
                  const void *args, size_t args_size)
{
    Watch *watch = context;
    _Alignas(16) uint8_t copy[4096];

    assert_true(args_size <= sizeof(copy));
    assert_true(dynamic_shared <= most_shared(kernel));
    memcpy(copy, args, args_size);
    if (watch->counting && !strncmp(kernel, "cambi_pool", 10))
        look(watch);
    watch->counting &= !strcmp(kernel, "cambi_heatmaps");
    if (!strncmp(kernel, "cambi_count", 11)) {
        VgCambiArgs *counts = (VgCambiArgs *)(void *)copy;
        if (watch->levels)
            counts->levels = watch->levels;
        watch->counted = *counts;
        watch->counting = 1;
    }
    launch_copy(kernel, grid, block, dynamic_shared, copy, args_size);
    return 0;
}

/* Without a look at anything. */
static int launch_unwatched(void *context, const char *kernel, const uint32_t grid[3], uint32_t block,
                            uint32_t dynamic_shared, const void *args, size_t args_size)
{
    _Alignas(16) uint8_t copy[4096];
    (void)context;

    assert_true(args_size <= sizeof(copy));
    memcpy(copy, args, args_size);
    launch_copy(kernel, grid, block, dynamic_shared, copy, args_size);
    return 0;
}

/* ---- A fixture ---------------------------------------------------------------------------------------------------- */

typedef struct Frame {
    Luma lumas[VG_CAMBI_SIDES];
} Frame;

/* Compares the frames, one after the other in the same work memory. Returns the sum of their values. */
static double compare_frames(const char *fixture, const VgCambiParams *params, const Frame *frames, unsigned n_frames,
                             int32_t levels)
{
    const size_t size = record_size(params);
    void *scratch = aligned_alloc(64, (vg_cpu_cambi.scratch_size(params) + 63) / 64 * 64);
    void *expected = malloc(size), *record = malloc(size);
    Watch watch = { .fixture = fixture, .params = params, .levels = levels };
    const VgLauncher launcher = { &watch, launch, fill };
    double sum = 0;

    assert_true(scratch && expected && record);
    buffer_free(&device.work);
    const uint64_t work = buffer_get(&device.work, vg_device_cambi.work_size(params));
    fill(NULL, work, 0xcd, device.work.size);
    assert_int_equal(vg_device_cambi.plan(params, &launcher, work), 0);
    for (unsigned f = 0; f < n_frames; f++) {
        const Luma *lumas = frames[f].lumas;
        Stages stages[VG_CAMBI_SIDES];
        VgDeviceFrame frame = { .index = f };
        VgCpuFrame cpu_frame = { .index = f };

        memset(stages, 0, sizeof(stages));
        cpu_frame.dist[0][0] = lumas[VG_CAMBI_DIST].plane;
        cpu_frame.ref[0][0] = lumas[VG_CAMBI_SOURCE].plane;
        for (int side = 0; side < VG_CAMBI_SIDES; side++) {
            const VgCambiObserver observer = { see, &stages[side] };
            if (params->sides[side].window)
                vg_cambi_show_stages(params, &lumas[side].plane, side, scratch, &observer);
        }
        memset(expected, 0, size);
        vg_cpu_cambi.variants[0].run(params, &cpu_frame, 0, 1, scratch, expected);

        watch.expected = stages;
        frame.dist[0][0] = luma_upload(&lumas[VG_CAMBI_DIST], &device.pictures[0]);
        frame.ref[0][0] = luma_upload(&lumas[VG_CAMBI_SOURCE], &device.pictures[1]);
        const CUdeviceptr to = buffer_get(&device.record, size);
        fill(NULL, to, 0x5a, size);
        assert_int_equal(vg_device_cambi.enqueue(params, &launcher, &frame, work, to), 0);
        CU(cuStreamSynchronize(device.stream));
        CU(cuMemcpyDtoH_v2(record, to, size));
        compare(!memcmp(record, expected, size), fixture, "record", -1, (int)f);

        for (int s = 0; s < VG_CAMBI_SCALES; s++)
            sum += ((const VgCambiRecord *)expected)->sums[VG_CAMBI_DIST][s];
        for (int side = 0; side < VG_CAMBI_SIDES; side++)
            stages_free(&stages[side]);
    }
    free(record);
    free(expected);
    free(scratch);
    return sum;
}

/*
 * A picture, and what the metric makes of options, of which a test may change something. Pictures are clipgen's, or "steps
 * WIDTH HEIGHT DEPTH": all levels from left to right, three columns each.
 */
typedef struct Fixture {
    const char *picture, *options;
    int32_t window; /* instead of the size's; 0: that */
    int32_t speedup;
    int32_t levels; /* kept at once; 0: as many as fit */
} Fixture;

static uint16_t *clip_samples(const Clip *clip)
{
    const size_t n = (size_t)clip->width[0] * clip->height[0];
    uint16_t *samples = malloc(n * sizeof(*samples));

    assert_non_null(samples);
    for (size_t i = 0; i < n; i++)
        samples[i] = clip->sample_bytes == 1 ? clip->bytes[i] : ((const uint16_t *)(const void *)clip->bytes)[i];
    return samples;
}

static uint16_t *steps_samples(const VgGeometry *g)
{
    const uint32_t most = (1u << g->bit_depth) - 1;
    uint16_t *samples = malloc((size_t)g->width * g->height * sizeof(*samples));

    assert_non_null(samples);
    for (uint32_t y = 0; y < g->height; y++)
        for (uint32_t x = 0; x < g->width; x++) {
            const uint32_t sample = ((x / 3) << 6) >> (16 - g->bit_depth);
            samples[(size_t)y * g->width + x] = (uint16_t)(sample < most ? sample : most);
        }
    return samples;
}

static uint16_t *fixture_samples(const Fixture *fixture, VgGeometry *geometry)
{
    unsigned width, height, depth;

    if (sscanf(fixture->picture, "steps %u %u %u", &width, &height, &depth) == 3) {
        *geometry = (VgGeometry){ width, height, VG_CHROMA_400, depth };
        return steps_samples(geometry);
    }
    const Clip *clip = clip_get(fixture->picture);
    *geometry = clip->geometry;
    return clip_samples(clip);
}

/* Of a side that is changed by hand: values of the k largest, of about 60 % of all. */
static void set_tops(VgCambiParams *params)
{
    for (int side = 0; side < VG_CAMBI_SIDES; side++)
        for (int s = 0; s < VG_CAMBI_SCALES && params->sides[side].window; s++) {
            const int64_t n = (int64_t)vg_cambi_size(params->sides[side].width, params->speedup, s) *
                              vg_cambi_size(params->sides[side].height, params->speedup, s);
            params->sides[side].top[s] = n * 6 / 10 > 1 ? (int32_t)(n * 6 / 10) : 1;
        }
}

static void compare_fixture(const Fixture *fixture, const Layout *layout)
{
    HarnessCase test_case = { .options = fixture->options };
    const VgGeometry *g = &test_case.geometry;
    uint16_t *samples = fixture_samples(fixture, &test_case.geometry);
    VgCambiParams params;
    Frame frame;
    char name[300];

    memset(&params, 0, sizeof(params));
    harness_params(&vg_metric_cambi, &test_case, &params);
    for (int side = 0; side < VG_CAMBI_SIDES; side++)
        if (fixture->window && params.sides[side].window)
            params.sides[side].window = fixture->window;
    if (fixture->speedup) {
        params.speedup = 1;
        set_tops(&params);
    }
    for (int side = 0; side < VG_CAMBI_SIDES; side++)
        frame.lumas[side] = luma_make(samples, (int32_t)g->width, (int32_t)g->height, g->bit_depth, layout);
    snprintf(name, sizeof(name), "%s, \"%s\", window %d, speed-up %d, levels %d, layout %d", fixture->picture,
             fixture->options, params.sides[0].window, params.speedup, fixture->levels, (int)(layout - layouts));
    if (compare_frames(name, &params, &frame, 1, fixture->levels) == 0 && params.sides[0].window > 1)
        fail_msg("%s scores 0", name);
    for (int side = 0; side < VG_CAMBI_SIDES; side++)
        free(frame.lumas[side].memory);
    free(samples);
}

/* ---- Tests -------------------------------------------------------------------------------------------------------- */

static void stages_agree(void **state)
{
    static const Fixture fixtures[] = {
        /* Depths, with and without anti-dithering. */
        { "mix block:8 240 232 400 8 1 1", "", 0, 0, 0 },
        { "mix block:8 240 232 400 8 1 1", "enc_bitdepth=10", 0, 0, 0 },
        { "mix block:8 251 237 400 9 1 2", "", 33, 0, 0 },
        { "mix block:8 240 232 400 10 1 3", "", 33, 0, 0 },
        { "mix block:8 260 220 400 10 1 3", "enc_bitdepth=8", 65, 0, 0 },
        { "steps 3090 27 12", "", 33, 0, 0 },
        { "mix block:16 217 150 400 16 1 5", "full_ref=true", 63, 0, 0 },
        /* Resized, and both sides unlike. */
        { "mix block:8 320 300 400 8 1 6", "enc_width=240:enc_height=220", 0, 0, 0 },
        { "mix block:8 320 300 400 10 1 6", "enc_width=317:enc_height=251:full_ref=true", 0, 0, 0 },
        { "mix block:8 300 240 400 12 1 6", "full_ref=true:src_width=420:src_height=333", 31, 0, 0 },
        /* Halved planes. */
        { "mix block:16 1920 1080 400 10 1 7", "cambi_high_res_speedup=1080:cambi_vis_lum_threshold=0.06", 0, 0, 0 },
        { "mix block:8 301 235 400 8 1 8", "", 33, 1, 0 },
        { "steps 3072 49 10", "full_ref=true", 17, 1, 0 },
        /* Windows. */
        { "mix block:8 240 232 400 8 1 9", "window_size=127", 0, 0, 0 },
        { "mix block:8 240 232 400 10 1 9", "window_size=127", 127, 0, 0 },
        /* Contrast depths. */
        { "steps 700 41 10", "max_log_contrast=0", 33, 0, 0 },
        { "mix block:8 240 232 400 10 1 11", "max_log_contrast=1", 65, 0, 0 },
        { "mix block:8 240 232 400 10 1 12", "max_log_contrast=3", 33, 0, 0 },
        { "mix block:8 240 232 400 10 1 13", "max_log_contrast=4:eotf=pq", 21, 0, 0 },
        { "mix block:8 240 232 400 8 1 14", "max_log_contrast=5", 65, 0, 0 },
        { "mix block:8 240 232 400 8 1 14", "max_log_contrast=5", 211, 0, 0 },
        /* Bands of levels: both ends, and the least that there can be. */
        { "steps 3072 40 10", "cambi_vis_lum_threshold=0.06", 33, 0, 0 },
        { "steps 3072 40 10", "cambi_vis_lum_threshold=3:tvi_threshold=0.03", 65, 0, 90 },
        { "steps 3072 40 10", "eotf=pq:max_log_contrast=3", 33, 0, 61 },
        { "mix block:8 217 96 400 10 1 16", "", 65, 0, 9 },
        { "mix block:8 217 96 400 10 1 16", "", 33, 0, 20 },
        { "mix block:8 217 96 400 10 1 16", "", 43, 0, 12 },
        { "mix block:8 217 96 400 10 1 16", "", 215, 0, 11 },
        /* Short frames. */
        { "mix block:8 1920 64 400 8 1 17", "", 0, 0, 0 },
        { "mix block:8 1920 128 400 10 1 18", "", 0, 0, 0 },
        { "mix block:8 1920 160 400 10 1 19", "", 0, 0, 0 },
        { "mix block:8 3840 128 400 8 1 20", "", 0, 0, 0 },
    };
    (void)state;

    for (unsigned i = 0; i < sizeof(fixtures) / sizeof(fixtures[0]); i++)
        compare_fixture(&fixtures[i], &layouts[i % N_LAYOUTS]);
    clip_free_all();
    none_differs();
}

static void windows_agree(void **state)
{
    static const int32_t windows[] = { 1,  3,  5,  7,  9,  11, 13, 15, 17, 19,  25,  27,  29,  31,  33,  35,
                                       43, 57, 59, 61, 63, 65, 67, 73, 91, 127, 135, 207, 209, 211, 255, 265 };
    (void)state;

    for (unsigned i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
        const Fixture fixture = { i % 2 ? "mix block:8 290 101 400 10 1 1" : "ramp block:16 290 101 400 8 1 1", "",
                                  windows[i], 0, 0 };
        compare_fixture(&fixture, &layouts[i % N_LAYOUTS]);
    }
    clip_free_all();
    none_differs();
}

/* Steps of a few levels, some pixels astray. */
static uint16_t *banded_samples(int32_t width, int32_t height, uint32_t depth)
{
    const uint32_t most = (1u << depth) - 1, step = depth > 10 ? 1u << (depth - 10) : 1, steps = 1 + random32() % 12;
    const uint32_t base = random32() % 4 ? random32() % (most / 2 + 1) : random32() % 2 ? most : 0;
    const int32_t wide = 1 + (int32_t)(random32() % 20), high = 1 + (int32_t)(random32() % 20);
    const uint32_t astray = random32() % 2 ? 40 : 1000;
    uint16_t *samples = malloc((size_t)width * (size_t)height * sizeof(*samples));

    assert_non_null(samples);
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++) {
            uint32_t sample = base + (uint32_t)(x / wide + y / high) % steps * step;
            sample = sample < most ? sample : most;
            if (random32() % astray == 0)
                sample = random32() % 2 ? random32() % (most + 1) : sample ? sample - 1 : 0;
            samples[(size_t)y * (size_t)width + (size_t)x] = (uint16_t)sample;
        }
    return samples;
}

static void random_side(VgCambiParams *params, int side)
{
    static const int32_t windows[] = { 1, 7, 11, 17, 31, 33, 33, 43, 61, 65, 65, 97, 215 };
    VgCambiSide *s = &params->sides[side];

    s->width = random32() % 4 ? params->width : 1 + (int32_t)(random32() % 200);
    s->height = s->width == params->width ? params->height : 1 + (int32_t)(random32() % 90);
    s->window = windows[random32() % (sizeof(windows) / sizeof(windows[0]))];
    s->mask_index = (int32_t)(random32() % 25);
}

/* Params as no options make them: small planes, any limits. */
static void random_params(VgCambiParams *params)
{
    static const int32_t differences[] = { 4, 4, 4, 1, 2, 8, 16, 32 };
    int32_t limit = 200 + (int32_t)(random32() % 800);

    memset(params, 0, sizeof(*params));
    params->width = random32() % 4 ? 30 + (int32_t)(random32() % 240) : 1 + (int32_t)(random32() % 40);
    params->height = random32() % 4 ? 20 + (int32_t)(random32() % 100) : 1 + (int32_t)(random32() % 20);
    params->bit_depth = 8 + (int32_t)(random32() % 9);
    params->speedup = random32() % 3 == 0;
    params->anti_dither = (int32_t)(random32() % 2);
    params->heatmaps = random32() % 3 == 0;
    params->dark = random32() % 3 ? 0 : (int32_t)(random32() % 300);
    params->n_differences = differences[random32() % (sizeof(differences) / sizeof(differences[0]))];
    for (int32_t d = 0; d < params->n_differences; d++) {
        params->limits[d] = limit < 1023 ? limit : 1023;
        limit += (int32_t)(random32() % 200);
    }
    random_side(params, VG_CAMBI_DIST);
    if (random32() % 3 == 0)
        random_side(params, VG_CAMBI_SOURCE);
    set_tops(params);
}

#ifdef __SANITIZE_ADDRESS__ /* which slows the software device down sevenfold */
#define N_RANDOM_CASES       25
#define N_CASES_OF_A_WAVE    8
#define N_CASES_OF_ALL_KINDS 1
#define LEVELS_TO_SPARE      48 /* fewer levels are more passes; stages_agree() has the least */
#else
#define N_RANDOM_CASES       150
#define N_CASES_OF_A_WAVE    40
#define N_CASES_OF_ALL_KINDS UINT_MAX
#define LEVELS_TO_SPARE      0
#endif

static void random_cases(unsigned n)
{
    unsigned scored = 0;

    for (unsigned i = 0; i < n; i++) {
        VgCambiParams params;
        Frame frames[2];
        char name[300];

        random_params(&params);
        const VgCambiSide *dist = &params.sides[VG_CAMBI_DIST];
        const Layout *layout = &layouts[random32() % N_LAYOUTS];
        const int32_t least = 2 * params.n_differences + 1;
        const int32_t levels = random32() % 3 ? 0 : least + LEVELS_TO_SPARE + (int32_t)(random32() % 16);
        for (unsigned f = 0; f < 2; f++)
            for (int side = 0; side < VG_CAMBI_SIDES; side++) {
                uint16_t *samples = banded_samples(params.width, params.height, (uint32_t)params.bit_depth);
                frames[f].lumas[side] =
                    luma_make(samples, params.width, params.height, (uint32_t)params.bit_depth, layout);
                free(samples);
            }
        snprintf(
            name, sizeof(name),
            "random %u, %dx%d, resampled %dx%d, %d bits, window %d, speed-up %d, anti-dither %d, n %d, D %d, limit %d, "
            "levels %d, layout %d",
            i, params.width, params.height, dist->width, dist->height, params.bit_depth, dist->window, params.speedup,
            params.anti_dither, params.n_differences, params.dark, params.limits[params.n_differences - 1], levels,
            (int)(layout - layouts));
        scored += compare_frames(name, &params, frames, 2, levels) != 0;
        for (unsigned f = 0; f < 2; f++)
            for (int side = 0; side < VG_CAMBI_SIDES; side++)
                free(frames[f].lumas[side].memory);
    }
    printf("# %u of %u score\n", scored, n);
    assert_true(3 * scored >= n);
}

static void random_params_agree(void **state)
{
    (void)state;
    random_state = 1;
    random_cases(N_RANDOM_CASES);
    none_differs();
}

static void waves_of_other_sizes_agree(void **state)
{
    static const unsigned sizes[] = { 16, 64 };
    (void)state;

    for (unsigned i = 0; i < 2 && device.set_wave; i++) {
        device.set_wave(sizes[i]);
        random_state = 2;
        random_cases(N_CASES_OF_A_WAVE);
        device.set_wave(32);
    }
    if (device.set_wave)
        none_differs();
}

/* ---- The harness's pictures and layouts ---------------------------------------------------------------------------- */

static VgDevicePlane picture_upload(const VgPicture *picture, Buffer *buffer)
{
    Luma luma = { .plane = vg_picture_plane(picture, 0) };
    const VgPlane *p = &luma.plane;
    const ptrdiff_t rows = (p->height - 1) * p->pitch;

    luma.memory = (uint8_t *)(uintptr_t)(rows < 0 ? p->data + rows : p->data);
    luma.size = (size_t)(rows < 0 ? -rows : rows) + (size_t)(p->width - 1) * (size_t)p->step + (size_t)p->sample_bytes;
    return luma_upload(&luma, buffer);
}

static void run_kernels(const HarnessProducer *producer, const VgMetric *metric, const void *params,
                        const VgFramePictures *pictures, void *record)
{
    const VgLauncher launcher = { NULL, launch_unwatched, fill };
    VgDeviceFrame frame = { .index = pictures->frame };
    (void)producer, (void)metric;

    frame.ref[0][0] = picture_upload(pictures->ref[0], &device.pictures[0]);
    frame.dist[0][0] = picture_upload(pictures->dist[0], &device.pictures[1]);
    const uint64_t work = buffer_get(&device.work, vg_device_cambi.work_size(params));
    const CUdeviceptr to = buffer_get(&device.record, record_size(params));
    assert_int_equal(vg_device_cambi.plan(params, &launcher, work), 0);
    assert_int_equal(vg_device_cambi.enqueue(params, &launcher, &frame, work, to), 0);
    CU(cuStreamSynchronize(device.stream));
    CU(cuMemcpyDtoH_v2(record, to, record_size(params)));
}

static void harness_agrees(void **state)
{
    static const HarnessCase cases[] = {
        { { 216, 20, VG_CHROMA_420, 8 }, "" },
        { { 233, 31, VG_CHROMA_400, 10 }, "full_ref=true:max_log_contrast=1" },
        { { 256, 32, VG_CHROMA_422, 12 }, "enc_bitdepth=8" },
        { { 261, 45, VG_CHROMA_444, 16 }, "max_log_contrast=5:full_ref=true" },
        { { 241, 151, VG_CHROMA_420, 9 }, "enc_width=217:enc_height=150" },
        { { 17, 240, VG_CHROMA_420, 8 }, "window_size=127" },
    };
    const HarnessProducer producer = { "kernels", run_kernels, NULL, 1, NULL };
    HarnessResult harness = { 0 };
    (void)state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (i < N_CASES_OF_ALL_KINDS)
            harness_compare(&producer, &harness, 1, &vg_metric_cambi, &cases[i]);
        else /* one content in two layouts */
            harness_compare_briefly(&producer, &harness, &vg_metric_cambi, &cases[i]);
    if (harness.different)
        fail_msg("%u of %u records differ, first: %s", harness.different, harness.compared, harness.first);
    printf("# %u records\n", harness.compared);
}

/* Pictures that come through all kernels, for checkers of memory and of races. */
static void small_pictures_agree(void **state)
{
    static const Fixture fixtures[] = {
        { "mix block:8 216 70 400 8 1 1", "", 65, 0, 0 },
        { "steps 300 45 10", "cambi_vis_lum_threshold=0.06", 33, 0, 12 },
        { "mix block:8 218 39 400 8 1 3", "max_log_contrast=1", 15, 1, 0 },
        { "mix block:8 240 160 400 10 1 4", "enc_width=218:enc_height=150", 17, 0, 0 },
        { "mix block:8 216 40 400 10 1 1", "", 3, 0, 0 },
    };
    (void)state;

    for (unsigned i = 0; i < sizeof(fixtures) / sizeof(fixtures[0]); i++)
        compare_fixture(&fixtures[i], &layouts[i % N_LAYOUTS]);
    clip_free_all();
    random_state = 9;
    random_cases(4);
    none_differs();
}

/* A metric's kernels are those that have been launched, apart from pooling's, some of which only large planes get. */
static void all_kernels_are_launched(void **state)
{
    (void)state;
    for (const VgKernel *k = vg_device_cambi.kernels; k->name; k++)
        if (strncmp(k->name, "cambi_pool", 10) && !has_been_launched(k->name))
            fail_msg("%s has not been launched", k->name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pictures_agree),
        cmocka_unit_test(all_kernels_are_launched),
        cmocka_unit_test(stages_agree),
        cmocka_unit_test(windows_agree),
        cmocka_unit_test(harness_agrees),
        cmocka_unit_test(random_params_agree),
        cmocka_unit_test(waves_of_other_sizes_agree),
    };
    const struct CMUnitTest small[] = {
        cmocka_unit_test(small_pictures_agree),
        cmocka_unit_test(all_kernels_are_launched),
    };
    if (getenv("KERNELS_SMALL"))
        return cmocka_run_group_tests(small, open_device, close_device);
    return cmocka_run_group_tests(tests, open_device, close_device);
}
