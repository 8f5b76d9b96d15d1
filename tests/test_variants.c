/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Every variant of every metric against plain C. With --time prints how long each takes instead.
 */
#include "tests/cmocka_includes.h"

#include "engine/options.h"
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sides: the least that are accepted, around the widths of vectors, and odd ones. */
static const uint32_t sides[][2] = {
    { 1, 1 },    { 1, 3 },    { 2, 1 },    { 3, 3 },     { 3, 4 },    { 4, 3 },   { 5, 7 },
    { 11, 11 },  { 12, 11 },  { 8, 9 },    { 15, 16 },   { 17, 15 },  { 31, 13 }, { 33, 34 },
    { 65, 23 },  { 64, 48 },  { 100, 3 },  { 3, 100 },   { 63, 67 },  { 79, 80 }, { 97, 81 },
    { 129, 11 }, { 11, 129 }, { 261, 45 }, { 181, 107 }, { 470, 23 }, { 2, 217 }, { 216, 1 },
};
#define N_SIDES (sizeof(sides) / sizeof(sides[0]))

/* The same for SpEED, which needs larger ones: all mixtures of sixteen columns, eight and the rest. */
static const uint32_t speed_sides[][2] = { { 80, 80 }, { 97, 81 }, { 191, 163 }, { 577, 181 } };
#define N_SPEED_SIDES (sizeof(speed_sides) / sizeof(speed_sides[0]))

static const char *const psnr_options[] = { "", "enable_chroma=false", NULL };
static const char *const float_ssim_options[] = { "",        "enable_lcs=true", "scale=2:enable_lcs=true",
                                                  "scale=3", "scale=4",         "scale=5:enable_lcs=true",
                                                  "scale=7", "scale=8",         NULL };
static const char *const motion_options[] = { "", "motion_five_frame_window=true", "motion_force_zero=true", NULL };

static const char *const cambi_options[] = { "heatmaps_path=maps",
                                             "full_ref=true:window_size=127:cambi_vis_lum_threshold=0.5",
                                             "max_log_contrast=5:eotf=pq:topk=1:enc_bitdepth=8:window_size=127",
                                             "max_log_contrast=0:topk=0.01:enc_width=219:enc_height=150", NULL };

/* Five, so that each is tried with every chroma format. */
static const char *const speed_chroma_options[] = {
    "",
    "speed_weight_var_mode=5:speed_prescale=0.6:speed_prescale_method=bilinear",
    "speed_weight_var_mode=2:speed_kernelscale=3",
    "speed_weight_var_mode=3:speed_prescale=1.3:speed_prescale_method=bicubic",
    "speed_weight_var_mode=6:speed_prescale=0.9:speed_prescale_method=lanczos4",
    NULL,
};
static const char *const speed_temporal_options[] = {
    "",
    "speed_use_ref_diff=true:speed_kernelscale=0.5",
    "speed_prescale=0.9:speed_kernelscale=3.711",
    NULL,
};

static const struct {
    const VgMetric *metric;
    const char *const *options;
    unsigned n_bands; /* how many of the numbers of bands are tried */
    uint32_t depths[8];
    const uint32_t (*sides)[2];
    unsigned n_sides;
} metrics[] = {
    { &vg_metric_psnr, psnr_options, 4, { 8, 10, 12, 16 }, sides, N_SIDES },
    { &vg_metric_float_ssim, float_ssim_options, 1, { 8, 10, 12, 16 }, sides, N_SIDES },
    { &vg_metric_motion, motion_options, 4, { 8, 9, 10, 12, 14, 15, 16 }, sides, N_SIDES },
    { &vg_metric_cambi, cambi_options, 2, { 8, 9, 10, 12, 13, 16 }, sides, N_SIDES },
    { &vg_metric_speed_chroma, speed_chroma_options, 2, { 8, 10, 16 }, speed_sides, N_SPEED_SIDES },
    { &vg_metric_speed_temporal, speed_temporal_options, 1, { 8, 10, 16 }, speed_sides, N_SPEED_SIDES },
};
#define N_METRICS (sizeof(metrics) / sizeof(metrics[0]))

static void every_metric_is_compared(void **state)
{
    (void)state;
    unsigned registered = 0;

    for (const VgMetric *const *m = vg_metrics; *m; m++, registered++) {
        unsigned found = 0;
        for (unsigned i = 0; i < N_METRICS; i++)
            found += metrics[i].metric == *m;
        if (found != 1)
            fail_msg("%s is missing in the table of this test", (*m)->info.name);
    }
    assert_int_equal(registered, N_METRICS);
}

/*
 * Of the cases, every so many are tried with sanitizers, which slow all down sixfold; the plain build tries all. Coprime to the
 * numbers of depths, options and chroma formats, so that all have their turn.
 */
#ifdef __SANITIZE_ADDRESS__
#define INTERVAL 5
#else
#define INTERVAL 1
#endif

/* Every `interval`th of the sides, all depths and options of a metric, the chroma formats taken in turn. */
static void compare(unsigned m, unsigned interval, const HarnessProducer *producers, HarnessResult *results,
                    unsigned n_producers)
{
    unsigned n = 0;

    for (unsigned s = 0; s < metrics[m].n_sides; s += interval)
        for (unsigned d = 0; metrics[m].depths[d]; d++)
            for (unsigned o = 0; metrics[m].options[o]; o++) {
                const HarnessCase c = { { metrics[m].sides[s][0], metrics[m].sides[s][1], (VgChroma)(n++ % 4),
                                          metrics[m].depths[d] },
                                        metrics[m].options[o] };
                if (n % INTERVAL == 0 && harness_accepts(metrics[m].metric, &c))
                    harness_compare(producers, results, n_producers, metrics[m].metric, &c);
            }
}

static void variants_agree(void **state)
{
    (void)state;
    static const int bands[] = { 1, 2, 3, 7 };

    for (unsigned m = 0; m < N_METRICS; m++) {
        const VgCpuMetric *cpu = metrics[m].metric->cpu;
        HarnessProducer producers[16];
        HarnessResult results[16] = { 0 };
        unsigned n = 0;

        for (const VgCpuVariant *v = cpu->variants; v->name; v++) {
            if (!v->supported())
                printf("# this CPU cannot run %s\n", v->name);
            for (unsigned b = 0; v->supported() && b < metrics[m].n_bands; b++)
                producers[n++] = (HarnessProducer){ v->name, harness_run_cpu, v, bands[b], NULL };
        }
        compare(m, 1, producers, results, n);
        for (unsigned i = 0; i < n; i++) {
            if (results[i].different)
                fail_msg("%u of %u records differ, first: %s", results[i].different, results[i].compared,
                         results[i].first);
            assert_true(results[i].compared > 1000 / INTERVAL);
        }
    }
}

/* ---- Planted faults: the harness must see what it is for --------------------------------------------------------- */

#include "cpu_ref/cambi.h"
#include "shared_math/cambi.h"
#include "shared_math/float_ssim.h"
#include "shared_math/motion.h"
#include "shared_math/psnr.h"

/* The wrong kind of mirror on the right and lower sides: repeats the edge sample where it must not, or the reverse. */
static int32_t repeated_edge(int32_t i, int32_t n)
{
    return i < 0 ? -i : i < n ? i : 2 * n - 1 - i;
}

static int32_t single_edge(int32_t i, int32_t n)
{
    return i < 0 ? -1 - i : i < n ? i : 2 * n - 2 - i;
}

#define VG_LINKAGE static

#define VG_RUN           motion_wrong_edge
#define vg_motion_mirror repeated_edge
#include "cpu_ref/motion_body.h"
#undef vg_motion_mirror
#undef VG_RUN

#define VG_RUN               float_ssim_wrong_edge
#define vg_float_ssim_mirror single_edge
#include "cpu_ref/float_ssim_body.h"
#undef vg_float_ssim_mirror
#undef VG_RUN

/* Faults of cambi: functions of shared_math gone wrong, or what calls them. */
static enum CambiFault {
    MEDIAN_FOR_MODE,
    ROUNDED_DITHER,
    QUOTIENT,
    LAST_LEVEL,
    DARK_LEVEL,
    TIE_SHORT,
    ROUNDED_DOWN,
    MASK_NOT_STRICT,
    WINDOW_NARROWER,
    N_CAMBI_FAULTS
} cambi_fault;

static const char *const cambi_faults[N_CAMBI_FAULTS] = {
    "median for mode",      "anti-dithering rounds",   "quotient for reciprocal",
    "limits one level low", "dark limit one too high", "one tie short",
    "sizes rounded down",   "mask not strict",         "window narrower",
};

static int32_t wrong_mode(int32_t a, int32_t b, int32_t c)
{
    const int32_t smaller = a < b ? a : b, larger = a < b ? b : a;
    if (cambi_fault == MEDIAN_FOR_MODE)
        return c < smaller ? smaller : c > larger ? larger : c;
    return vg_cambi_mode3(a, b, c);
}

static int32_t wrong_dither(int32_t sample, int32_t right, int32_t below, int32_t right_below)
{
    return vg_cambi_anti_dithered(sample + 2 * (cambi_fault == ROUNDED_DITHER), right, below, right_below);
}

static float wrong_reciprocal(int32_t i)
{
    return cambi_fault == QUOTIENT && i ? 1.0f / (float)i : vg_cambi_reciprocal(i);
}

static int32_t wrong_difference(const VgCambiParams *params, int32_t level)
{
    VgCambiParams wrong = *params;
    for (int32_t d = 0; d < params->n_differences; d++)
        wrong.limits[d] -= cambi_fault == LAST_LEVEL;
    wrong.dark += wrong.dark && cambi_fault == DARK_LEVEL;
    return vg_cambi_first_difference(&wrong, level);
}

static int32_t wrong_size(int32_t size, int32_t speedup, int32_t scale)
{
    if (cambi_fault != ROUNDED_DOWN)
        return vg_cambi_size(size, speedup, scale);
    for (int32_t halvings = scale + (speedup != 0); halvings > 0; halvings--)
        size = size > 1 ? size >> 1 : 1;
    return size;
}

/* Takes one of the equals of the k-th value from what is added above it. */
static int32_t tie_short(uint32_t least, VgCambiUnits *sums)
{
    if (cambi_fault == TIE_SHORT && least)
        sums->sum -= vg_cambi_units(vg_bits_float(least));
    return 0;
}

#define VG_RUN                               cambi_wrong
#define VG_ADD_ABOVE(values, n, least, sums) tie_short(least, sums)
#define vg_cambi_mode3                       wrong_mode
#define vg_cambi_anti_dithered               wrong_dither
#define vg_cambi_reciprocal                  wrong_reciprocal
#define vg_cambi_first_difference            wrong_difference
#define vg_cambi_size                        wrong_size
#include "cpu_ref/cambi_body.h"
#undef vg_cambi_size
#undef vg_cambi_first_difference
#undef vg_cambi_reciprocal
#undef vg_cambi_anti_dithered
#undef vg_cambi_mode3
#undef VG_RUN

static void cambi_planted(const void *params_v, const VgCpuFrame *frame, int band, int n_bands, void *scratch,
                          void *partial)
{
    VgCambiParams params = *(const VgCambiParams *)params_v;
    params.sides[VG_CAMBI_DIST].mask_index -= cambi_fault == MASK_NOT_STRICT;
    if (cambi_fault == WINDOW_NARROWER && params.sides[VG_CAMBI_DIST].window > 1)
        params.sides[VG_CAMBI_DIST].window -= 2;
    cambi_wrong(&params, frame, band, n_bands, scratch, partial);
}

/* Leaves the last column out. */
static void psnr_narrow(const void *params_v, const VgCpuFrame *frame, int band, int n_bands, void *scratch,
                        void *partial)
{
    VgPsnrParams params = *(const VgPsnrParams *)params_v;
    params.width[0]--;
    vg_metric_psnr.cpu->variants[0].run(&params, frame, band, n_bands, scratch, partial);
}

/* Ignores where samples lie in their words. */
static void motion_unshifted(const void *params, const VgCpuFrame *frame, int band, int n_bands, void *scratch,
                             void *partial)
{
    VgCpuFrame copy = *frame;
    for (int k = 0; k <= VG_MAX_LAG; k++)
        copy.ref[k][0].shift = 0;
    vg_metric_motion.cpu->variants[0].run(params, &copy, band, n_bands, scratch, partial);
}

/* Leaves part of the record as it was. */
static void motion_unfinished(const void *params, const VgCpuFrame *frame, int band, int n_bands, void *scratch,
                              void *partial)
{
    VgMotionRecord record;
    vg_metric_motion.cpu->variants[0].run(params, frame, band, n_bands, scratch, &record);
    memcpy(partial, &record, sizeof(record.sad[0]));
}

static void run_cambi_planted(const HarnessProducer *producer, const VgMetric *metric, const void *params,
                              const VgFramePictures *pictures, void *record)
{
    cambi_fault = *(const enum CambiFault *)producer->opaque;
    harness_run_cpu(producer, metric, params, pictures, record);
}

static void must_be_seen(unsigned m, const HarnessProducer *producers, unsigned n)
{
    HarnessResult results[N_CAMBI_FAULTS] = { 0 };

    compare(m, 5, producers, results, n);
    for (unsigned i = 0; i < n; i++) {
        if (!results[i].different)
            fail_msg("the harness did not see the fault: %s", producers[i].name);
        printf("# %s: %u of %u records differ, first: %s\n", producers[i].name, results[i].different,
               results[i].compared, results[i].first);
    }
}

static void planted_faults_are_seen(void **state)
{
    (void)state;
    static const struct {
        unsigned m;
        VgCpuVariant variant;
    } faults[] = {
        { 0, { "without the last column", NULL, psnr_narrow } }, { 1, { "wrong edge", NULL, float_ssim_wrong_edge } },
        { 2, { "wrong edge", NULL, motion_wrong_edge } },        { 2, { "shift ignored", NULL, motion_unshifted } },
        { 2, { "unfinished record", NULL, motion_unfinished } },
    };

    static const VgCpuVariant cambi = { "planted", NULL, cambi_planted };
    enum CambiFault numbers[N_CAMBI_FAULTS];
    HarnessProducer producers[N_CAMBI_FAULTS];

    for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        const HarnessProducer producer = { faults[i].variant.name, harness_run_cpu, &faults[i].variant, 1, NULL };
        must_be_seen(faults[i].m, &producer, 1);
    }
    for (unsigned i = 0; i < N_CAMBI_FAULTS; i++) {
        numbers[i] = (enum CambiFault)i;
        producers[i] = (HarnessProducer){ cambi_faults[i], run_cambi_planted, &cambi, 1, &numbers[i] };
    }
    must_be_seen(3, producers, N_CAMBI_FAULTS);
}

static void print_times(void)
{
    static const uint32_t depths[] = { 8, 10, 16 };

    printf("milliseconds a frame, 1920x1080 4:2:0, one thread\n");
    for (unsigned m = 0; m < N_METRICS; m++)
        for (const VgCpuVariant *v = metrics[m].metric->cpu->variants; v->name; v++)
            for (unsigned d = 0; v->supported() && d < 3; d++) {
                const HarnessCase c = { { 1920, 1080, VG_CHROMA_420, depths[d] }, "" };
                const HarnessProducer producer = { v->name, harness_run_cpu, v, 1, NULL };
                printf("%-14s %-6s %2u bits %8.3f\n", metrics[m].metric->info.name, v->name, depths[d],
                       harness_time(&producer, metrics[m].metric, &c));
            }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_metric_is_compared),
        cmocka_unit_test(variants_agree),
        cmocka_unit_test(planted_faults_are_seen),
    };

    if (argc > 1 && !strcmp(argv[1], "--time")) {
        print_times();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
