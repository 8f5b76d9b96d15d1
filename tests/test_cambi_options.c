/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * cambi: what is accepted, with which sizes, windows and thresholds, bounds of its integers, and its score rules.
 */
#include "tests/cmocka_includes.h"

#include "engine/features.h"
#include "shared_math/cambi.h"
#include "tests/emitted.h"
#include "tests/golden.h"
#include "tests/messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A feature string at work: OPTION_REFUSED by the parser, INIT_REFUSED by the predicate, or ACCEPTED with params. */
typedef enum Outcome { ACCEPTED, OPTION_REFUSED, INIT_REFUSED } Outcome;

typedef struct Case {
    Outcome outcome;
    VgCambiParams params; /* with full_ref=true, so that both sides are there */
    char suffix[VG_KEY_SIZE];
    char why[1024];
} Case;

static Case case_of(uint32_t width, uint32_t height, uint32_t depth, const char *options)
{
    const VgGeometry geometry = { width, height, VG_CHROMA_420, depth };
    Messages messages = { 0 };
    const VgLog log = { messages_log, &messages };
    VgFeatureList list;
    Case c = { .outcome = ACCEPTED };
    char features[512];

    snprintf(features, sizeof(features), "cambi%s%s%s", *options ? ":" : "", options,
             strstr(options, "full_ref") ? "" : ":full_ref=true");
    if (vg_features_parse(&log, features, &list)) {
        assert_int_equal(messages.counts[VG_LOG_ERROR], 1);
        snprintf(c.why, sizeof(c.why), "%.1000s", messages.text);
        c.outcome = OPTION_REFUSED;
        return c;
    }
    assert_int_equal(list.n, 1);
    const VgFeature *feature = list.features;
    strcpy(c.suffix, feature->suffix);
    if (feature->metric->check(&geometry, feature->options, c.why, sizeof(c.why)))
        c.outcome = INIT_REFUSED;
    else
        feature->metric->make_params(&geometry, feature->options, &c.params);
    vg_features_free(&list);
    return c;
}

/* ---- Acceptance --------------------------------------------------------------------------------------------------- */

enum { WIDTH, HEIGHT, DEPTH, OPTIONS, RESULT, ENC_SIZE, SRC_SIZE, WINDOW, SRC_WINDOW, SPEEDUP, ENC_BITDEPTH };

typedef struct Accepted {
    const char *width, *height, *options, *enc_size, *src_size, *window, *src_window, *speedup;
} Accepted;

/* What libvmaf refuses for nothing but a window above 65. */
static const Accepted large_windows[] = {
    /* clang-format off */
    { "3933", "2160", "", "3933x2160", "3933x2160", "67", "67", "0" },
    { "3934", "2160", "", "3934x2160", "3934x2160", "67", "67", "0" },
    { "3996", "2160", "", "3996x2160", "3996x2160", "67", "67", "0" },
    { "4096", "2160", "", "4096x2160", "4096x2160", "67", "67", "0" },
    { "4096", "1997", "", "4096x1997", "4096x1997", "67", "67", "0" },
    { "4096", "2304", "", "4096x2304", "4096x2304", "69", "69", "0" },
    { "5120", "2160", "", "5120x2160", "5120x2160", "79", "79", "0" },
    { "5120", "2880", "", "5120x2880", "5120x2880", "87", "87", "0" },
    { "7680", "4320", "", "7680x4320", "7680x4320", "131", "131", "0" },
    { "3840", "2160", "window_size=66", "3840x2160", "3840x2160", "67", "67", "0" },
    { "3840", "2160", "window_size=67", "3840x2160", "3840x2160", "67", "67", "0" },
    { "3840", "2160", "window_size=68", "3840x2160", "3840x2160", "69", "69", "0" },
    { "3840", "2160", "window_size=99", "3840x2160", "3840x2160", "99", "99", "0" },
    { "3840", "2160", "window_size=100", "3840x2160", "3840x2160", "101", "101", "0" },
    { "3840", "2160", "window_size=120", "3840x2160", "3840x2160", "121", "121", "0" },
    { "3840", "2160", "window_size=126", "3840x2160", "3840x2160", "127", "127", "0" },
    { "3840", "2160", "window_size=127", "3840x2160", "3840x2160", "127", "127", "0" },
    { "7680", "4320", "window_size=65", "7680x4320", "7680x4320", "131", "131", "0" },
    { "4096", "2160", "window_size=65", "4096x2160", "4096x2160", "67", "67", "0" },
    { "7680", "4320", "window_size=66", "7680x4320", "7680x4320", "133", "133", "0" },
    { "4096", "2160", "window_size=66", "4096x2160", "4096x2160", "69", "69", "0" },
    { "7680", "4320", "window_size=66:cambi_high_res_speedup=1080", "7680x4320", "7680x4320", "67", "67", "1" },
    { "7680", "4320", "window_size=67", "7680x4320", "7680x4320", "135", "135", "0" },
    { "4096", "2160", "window_size=67", "4096x2160", "4096x2160", "69", "69", "0" },
    { "7680", "4320", "window_size=67:cambi_high_res_speedup=1080", "7680x4320", "7680x4320", "67", "67", "1" },
    { "7680", "4320", "window_size=100", "7680x4320", "7680x4320", "201", "201", "0" },
    { "4096", "2160", "window_size=100", "4096x2160", "4096x2160", "105", "105", "0" },
    { "7680", "4320", "window_size=100:cambi_high_res_speedup=1080", "7680x4320", "7680x4320", "101", "101", "1" },
    { "7680", "4320", "window_size=127", "7680x4320", "7680x4320", "255", "255", "0" },
    { "4096", "2160", "window_size=127", "4096x2160", "4096x2160", "133", "133", "0" },
    { "7680", "4320", "window_size=127:cambi_high_res_speedup=1080", "7680x4320", "7680x4320", "127", "127", "1" },
    { "4096", "2160", "window_size=127:cambi_high_res_speedup=1080", "4096x2160", "4096x2160", "67", "67", "1" },
    { "1280", "720", "src_width=7680:src_height=4320", "1280x720", "7680x4320", "21", "131", "0" },
    { "1280", "720", "src_width=4096:src_height=2304", "1280x720", "4096x2304", "21", "69", "0" },
    { "4096", "2160", "enc_width=1920:enc_height=1080", "1920x1080", "4096x2160", "33", "67", "0" },
    { "4096", "2160", "enc_width=1280:enc_height=720:cambi_high_res_speedup=1080", "1280x720", "4096x2160", "21", "67", "0" },
    { "7680", "4320", "enc_width=1920:enc_height=1080", "1920x1080", "7680x4320", "33", "131", "0" },
    /* clang-format on */
};

#define N_LARGE_WINDOWS (sizeof(large_windows) / sizeof(*large_windows))

/* Number of the table's row in large_windows, or N_LARGE_WINDOWS. */
static size_t find_large_window(const Golden *golden, size_t row)
{
    size_t i = 0;

    while (i < N_LARGE_WINDOWS && (strcmp(golden_cell(golden, row, WIDTH), large_windows[i].width) ||
                                   strcmp(golden_cell(golden, row, HEIGHT), large_windows[i].height) ||
                                   strcmp(golden_cell(golden, row, OPTIONS), large_windows[i].options)))
        i++;
    return i;
}

static void expect_accepted(const Case *c, const Accepted *expected)
{
    const VgCambiSide *dist = &c->params.sides[VG_CAMBI_DIST], *source = &c->params.sides[VG_CAMBI_SOURCE];
    char enc_size[24], src_size[24];

    if (c->outcome != ACCEPTED)
        fail_msg("%sx%s %s: refused: %s", expected->width, expected->height, expected->options, c->why);
    snprintf(enc_size, sizeof(enc_size), "%dx%d", dist->width, dist->height);
    snprintf(src_size, sizeof(src_size), "%dx%d", source->width, source->height);
    if (strcmp(enc_size, expected->enc_size) || strcmp(src_size, expected->src_size) ||
        dist->window != atoi(expected->window) || source->window != atoi(expected->src_window) ||
        c->params.speedup != atoi(expected->speedup))
        fail_msg("%sx%s %s: sizes %s and %s, windows %d and %d, speedup %d; not %s, %s, %s, %s, %s", expected->width,
                 expected->height, expected->options, enc_size, src_size, dist->window, source->window,
                 c->params.speedup, expected->enc_size, expected->src_size, expected->window, expected->src_window,
                 expected->speedup);
}

static void expect_row(const Golden *golden, size_t row, const Case *c)
{
    const Accepted expected = {
        golden_cell(golden, row, WIDTH),      golden_cell(golden, row, HEIGHT),   golden_cell(golden, row, OPTIONS),
        golden_cell(golden, row, ENC_SIZE),   golden_cell(golden, row, SRC_SIZE), golden_cell(golden, row, WINDOW),
        golden_cell(golden, row, SRC_WINDOW), golden_cell(golden, row, SPEEDUP),
    };
    expect_accepted(c, &expected);
    assert_int_equal(c->params.anti_dither, atoi(golden_cell(golden, row, ENC_BITDEPTH)) < 10);
    assert_int_equal(c->params.bit_depth, atoi(golden_cell(golden, row, DEPTH)));
}

static void accepts_what_libvmaf_does_and_larger_windows(void **state)
{
    Golden golden = golden_read("cambi_init.tsv.gz");
    unsigned counts[3] = { 0 }, seen[N_LARGE_WINDOWS] = { 0 };
    (void)state;

    assert_int_equal(golden.n_rows, 243);
    for (size_t row = 0; row < golden.n_rows; row++) {
        const char *options = golden_cell(&golden, row, OPTIONS), *result = golden_cell(&golden, row, RESULT);
        const Case c =
            case_of((uint32_t)atoi(golden_cell(&golden, row, WIDTH)), (uint32_t)atoi(golden_cell(&golden, row, HEIGHT)),
                    (uint32_t)atoi(golden_cell(&golden, row, DEPTH)), options);
        const size_t large = find_large_window(&golden, row);
        counts[c.outcome]++;
        if (large < N_LARGE_WINDOWS) {
            assert_string_equal(result, "init refused");
            expect_accepted(&c, &large_windows[large]);
            seen[large]++;
        } else if (!strcmp(result, "accepted")) {
            expect_row(&golden, row, &c);
        } else if (c.outcome != (strcmp(result, "init refused") ? OPTION_REFUSED : INIT_REFUSED)) {
            fail_msg("%sx%s %s: not '%s'", golden_cell(&golden, row, WIDTH), golden_cell(&golden, row, HEIGHT), options,
                     result);
        }
    }
    for (size_t i = 0; i < N_LARGE_WINDOWS; i++)
        assert_true(seen[i]);
    assert_int_equal(counts[OPTION_REFUSED], 17);
    assert_int_equal(counts[INIT_REFUSED], 10);
    golden_free(&golden);
}

static void refuses_with_the_remedy(void **state)
{
    static const struct {
        uint32_t width, height;
        const char *options, *words;
    } cases[] = {
        { 200, 210, "", "at least 216 samples wide or high, got 200x210: leave it out" },
        { 1280, 720, "enc_width=200:enc_height=200", "enc_width and enc_height ask for 200x200: raise one" },
        { 4096, 4096, "src_width=1920:src_height=4320:enc_width=3840:enc_height=2160",
          "the reference's, 1920x4320, is narrower and taller than the distorted picture's, 3840x2160: change" },
        { 1280, 720, "src_width=1920:src_height=700",
          "the reference's, 1920x700, is wider and lower than the distorted picture's, 1280x720: change" },
        { 1280, 720, "eotf=hlg", "eotf=hlg: give bt1886 or pq" },
        { 1280, 720, "cambi_eotf=hlg", "cambi_eotf=hlg: give bt1886 or pq" },
        { 8193, 4320, "window_size=127", NULL },
        { 16384, 8640, "",
          "a side of 265 at most, but window_size=65 gives 271 at 16384x8640: use a smaller window_size, or set "
          "enc_width and enc_height" },
        { 16384, 8640, "enc_width=3840:enc_height=2160",
          "gives 271 at 16384x8640: use a smaller window_size, or set src_width and src_height" },
        { 65536, 32768, "window_size=15", "at most 1073741824 pixels, not on 65536x32768: set enc_width" },
        { 65536, 65536, "window_size=127", "gives 2775 at 65536x65536" },
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const Case c = case_of(cases[i].width, cases[i].height, 8, cases[i].options);
        if (!cases[i].words)
            assert_int_equal(c.outcome, ACCEPTED);
        else if (c.outcome != INIT_REFUSED || !strstr(c.why, cases[i].words))
            fail_msg("%ux%u %s: '%s', not '%s'", cases[i].width, cases[i].height, cases[i].options, c.why,
                     cases[i].words);
    }
    for (uint32_t depth = 8; depth <= 16; depth++)
        assert_int_equal(case_of(320, 240, depth, "").outcome, ACCEPTED);
    assert_int_equal(case_of(320, 240, 7, "").outcome, INIT_REFUSED);
}

static void puts_options_into_keys(void **state)
{
    (void)state;
    assert_string_equal(case_of(1280, 720, 8, "").suffix, "");
    assert_string_equal(case_of(1280, 720, 8, "heatmaps_path=/x:full_ref=true").suffix, "");
    assert_string_equal(case_of(1280, 720, 8,
                                "enc_width=640:enc_height=360:enc_bitdepth=8:cambi_vis_lum_threshold=0.06:"
                                "cambi_max_val=17:cambi_high_res_speedup=1080")
                            .suffix,
                        "_hrs_1080_cmxv_17_vlt_0.06_encbd_8_ench_360_encw_640");
    assert_string_equal(case_of(1280, 720, 8,
                                "window_size=33:tvi_threshold=0.0123456789:topk=0.77:src_width=640:src_height=360:"
                                "max_log_contrast=4:eotf=pq:cambi_topk=0.2:cambi_eotf=pq")
                            .suffix,
                        "_ceot_pq_ctpk_0.2_eotf_pq_mlc_4_srch_360_srcw_640_topk_0.77_tvit_0.0123457_ws_33");
    assert_string_equal(case_of(1280, 720, 8, "enc_width=640:cambi_high_res_speedup=7").suffix, "_hrs_7_encw_640");
}

/* ---- Parameters --------------------------------------------------------------------------------------------------- */

enum { EOTF, KIND, THRESHOLD, VALUES };

static void finds_libvmafs_thresholds(void **state)
{
    Golden golden = golden_read("cambi_thresholds.tsv.gz");
    unsigned n_limits = 0, n_dark = 0;
    (void)state;

    assert_int_equal(golden.n_rows, 142);
    for (size_t row = 0; row < golden.n_rows; row++) {
        const char *kind = golden_cell(&golden, row, KIND), *threshold = golden_cell(&golden, row, THRESHOLD);
        const char *eotf = golden_cell(&golden, row, EOTF), *values = golden_cell(&golden, row, VALUES);
        char options[200];
        if (!strcmp(kind, "tvi")) {
            snprintf(options, sizeof(options), "max_log_contrast=5:eotf=%s:tvi_threshold=%s", eotf, threshold);
            const Case c = case_of(640, 360, 8, options);
            assert_int_equal(c.params.n_differences, 32);
            for (int d = 0; d < 32; d++) {
                char *end;
                if (strtol(values, &end, 10) != c.params.limits[d])
                    fail_msg("%s: T_%d is %d", options, d + 1, c.params.limits[d]);
                values = end;
            }
            assert_string_equal(values, "");
            n_limits++;
        } else if (!strcmp(kind, "vlt")) {
            snprintf(options, sizeof(options), "cambi_eotf=%s:cambi_vis_lum_threshold=%s", eotf, threshold);
            const Case c = case_of(640, 360, 8, options);
            if (atoi(values) != c.params.dark)
                fail_msg("%s: D is %d, not %s", options, c.params.dark, values);
            n_dark++;
        }
    }
    assert_int_equal(n_limits, 44);
    assert_int_equal(n_dark, 54);
    golden_free(&golden);
}

static void derives_the_other_parameters(void **state)
{
    const Case plain = case_of(3840, 2160, 10, ""), small = case_of(640, 360, 8, "max_log_contrast=0");
    (void)state;

    /* The specification's examples. */
    static const struct {
        uint32_t width, height;
        int mask_index;
    } masks[] = { { 3840, 2160, 24 }, { 2560, 1440, 22 }, { 1920, 1080, 21 }, { 1280, 720, 19 },
                  { 640, 360, 16 },   { 64, 216, 10 },    { 63, 216, 7 } };
    for (size_t i = 0; i < sizeof(masks) / sizeof(*masks); i++)
        assert_int_equal(case_of(masks[i].width, masks[i].height, 8, "").params.sides[VG_CAMBI_DIST].mask_index,
                         masks[i].mask_index);

    static const int32_t limits[] = { 178, 305, 432, 559 };
    assert_int_equal(plain.params.n_differences, 4);
    assert_memory_equal(plain.params.limits, limits, sizeof(limits));
    assert_int_equal(plain.params.limits[4], 0);
    assert_int_equal(plain.params.anti_dither, 0);
    assert_int_equal(small.params.n_differences, 1);
    assert_int_equal(small.params.anti_dither, 1);

    /* 0.6 is a little less in double, but its products with multiples of 5 round to integers. */
    static const int32_t top[] = { 4976640, 1244160, 311040, 77760, 19440 };
    assert_memory_equal(plain.params.sides[VG_CAMBI_DIST].top, top, sizeof(top));
    const Case tiny = case_of(216, 1, 8, "topk=0.0001"), all = case_of(217, 3, 8, "cambi_topk=1.0");
    const Case both = case_of(216, 1, 8, "topk=0.5:cambi_topk=0.25");
    static const int32_t ones[] = { 1, 1, 1, 1, 1 }, every[] = { 651, 218, 55, 28, 14 },
                         halves[] = { 108, 54, 27, 13, 7 };
    assert_memory_equal(tiny.params.sides[VG_CAMBI_DIST].top, ones, sizeof(ones));
    assert_memory_equal(all.params.sides[VG_CAMBI_DIST].top, every, sizeof(every));
    assert_memory_equal(both.params.sides[VG_CAMBI_DIST].top, halves, sizeof(halves));
    const Case halved = case_of(1920, 1080, 8, "cambi_high_res_speedup=1080");
    assert_int_equal(halved.params.sides[VG_CAMBI_DIST].top[0], 311040);

    /* Without full_ref, the reference is not worked on. */
    const Case alone = case_of(640, 360, 8, "full_ref=false");
    static const VgCambiSide none;
    assert_memory_equal(&alone.params.sides[VG_CAMBI_SOURCE], &none, sizeof(none));
    assert_int_equal(alone.params.heatmaps, 0);
    assert_int_equal(case_of(640, 360, 8, "heatmaps_path=x").params.heatmaps, 1);
}

static void shares_passes(void **state)
{
    const VgMetric *metric = vg_metric_find("cambi");
    const Case alone = case_of(640, 360, 8, "full_ref=false:heatmaps_path=x"), both = case_of(640, 360, 8, "");
    const Case other = case_of(640, 360, 8, "src_width=1280:src_height=720"), pq = case_of(640, 360, 8, "eotf=pq");
    VgCambiParams merged = alone.params;
    (void)state;

    assert_int_equal(metric->merge_params(&merged, &both.params), 1);
    assert_int_equal(merged.heatmaps, 1);
    assert_memory_equal(merged.sides, both.params.sides, sizeof(merged.sides));
    const VgCambiParams before = merged;
    assert_int_equal(metric->merge_params(&merged, &alone.params), 1);
    assert_int_equal(metric->merge_params(&merged, &other.params), 0);
    assert_int_equal(metric->merge_params(&merged, &pq.params), 0);
    assert_memory_equal(&merged, &before, sizeof(merged));
}

/* ---- Bounds of integers ------------------------------------------------------------------------------------------- */

/* Largest value of a window: its pixels have two levels, half of them each. */
static float largest_value(uint32_t weight, uint32_t window)
{
    const uint32_t own = window * window / 2, other = window * window - own;
    return vg_cambi_value_wide(weight, own, other, vg_cambi_reciprocal((int32_t)(own + other)));
}

static uint64_t largest_product(uint64_t window)
{
    const uint64_t own = window * window / 2;
    return 9 * own * (window * window - own);
}

static void keeps_integers_in_their_types(void **state)
{
    const Case largest = case_of(8192, 4320, 16, "window_size=127:max_log_contrast=5:topk=1");
    (void)state;

    assert_int_equal(largest.params.sides[VG_CAMBI_DIST].window, VG_CAMBI_MOST_WINDOW);
    assert_true(largest_product(65) < 1u << 26);
    assert_true(largest_product(VG_CAMBI_NARROW_WINDOW) <= UINT32_MAX);
    assert_true(largest_product(VG_CAMBI_NARROW_WINDOW + 2) > UINT32_MAX);
    assert_true(largest_product(VG_CAMBI_MOST_WINDOW) < 1ull << 34);
    for (uint32_t window = 1; window <= VG_CAMBI_MOST_WINDOW; window += 2) {
        const float value = largest_value(9, window);
        const uint32_t own = window * window / 2, other = window * window - own;
        assert_true(value < 0x1p18f && value == (float)(vg_cambi_units(value) * 0x1p-24));
        if (window <= VG_CAMBI_NARROW_WINDOW)
            assert_true(value == vg_cambi_value(9, own, other, vg_cambi_reciprocal((int32_t)(own + other))));
    }
    /* The reference's table ends where its largest window does. */
    assert_int_equal(65 * 65, VG_CAMBI_TABLE_RECIPROCALS);
    for (int32_t i = VG_CAMBI_TABLE_RECIPROCALS + 1; i <= VG_CAMBI_MOST_WINDOW * VG_CAMBI_MOST_WINDOW; i++)
        assert_true(vg_cambi_reciprocal(i) == 1.0f / (float)i);
}

/* Where the sum is said not to overflow, it does not: it takes k times the largest value and less than 2^63. */
static void knows_which_sums_may_overflow(void **state)
{
    static const int32_t weights[] = VG_CAMBI_WEIGHTS;
    unsigned n_may = 0, n_cannot = 0;
    (void)state;

    for (int log = 0; log <= 5; log++) {
        const int n = 1 << log;
        for (int32_t window = 1; window <= VG_CAMBI_MOST_WINDOW; window += 2) {
            const uint64_t units = vg_cambi_units(largest_value((uint32_t)weights[n - 1], (uint32_t)window));
            for (int32_t top = 1; top <= 1 << 29; top *= 2) {
                const int fits = units == 0 || (uint64_t)top <= ((uint64_t)INT64_MAX - 1) / units;
                const int may = vg_cambi_sum_may_overflow(top, n, window);
                assert_true(fits || may);
                /* It is not said of sums that stay below half the limit, small windows with their +1 apart. */
                assert_true(!may || window < 5 || units == 0 || (uint64_t)top > (1ull << 62) / units / 2);
                n_may += may != 0;
                n_cannot += !may;
            }
        }
    }
    assert_true(n_may && n_cannot);
    assert_int_equal(vg_cambi_sum_may_overflow(4976640, 4, 65), 0);   /* 3840x2160 by default */
    assert_int_equal(vg_cambi_sum_may_overflow(8294400, 32, 127), 0); /* the most at 3840x2160 */
    assert_int_equal(vg_cambi_sum_may_overflow(8192 * 4320, 32, VG_CAMBI_MOST_WINDOW), 1);
}

/* ---- Score rules -------------------------------------------------------------------------------------------------- */

enum { CAMBI, SOURCE, FULL_REFERENCE };

/* Scores a record of frame 3; what is logged is left in `messages`. */
static int score_record(const char *options, uint32_t depth, const VgCambiRecord *record, Emitted *emitted,
                        Messages *messages)
{
    const VgMetric *metric = vg_metric_find("cambi");
    const VgGeometry geometry = { 1920, 1080, VG_CHROMA_420, depth };
    const VgLog log = { messages_log, messages };
    char features[256], why[400];
    VgFeatureList list;
    VgEmit emit = emitted_to(emitted);

    *messages = (Messages){ 0 };
    snprintf(features, sizeof(features), "cambi%s%s", *options ? ":" : "", options);
    assert_int_equal(vg_features_parse(&log, features, &list), 0);
    assert_int_equal(metric->check(&geometry, list.features->options, why, sizeof(why)), 0);
    void *state = calloc(1, metric->state_size + 1);
    assert_non_null(state);
    const VgScoreContext context = { &geometry, list.features->options, &log, list.features->suffix };
    const int err = metric->score(&context, state, 3, record, &emit);
    const uint32_t active = metric->active_keys(&geometry, list.features->options);
    for (unsigned key = 0; key < 3; key++)
        assert_int_equal(emitted->count[key][3], !err && (active >> key & 1));
    free(state);
    vg_features_free(&list);
    return err;
}

/* Sums that give a side of 1920x1080 the means 1, 2, 3, 4, 5 and thus 16 + 16 + 12 + 8 + 5 = 57, times a factor. */
static void set_sums(double sums[VG_CAMBI_SCALES], double factor)
{
    static const int32_t pixels[] = { 1920 * 1080, 960 * 540, 480 * 270, 240 * 135, 120 * 68 };
    for (int scale = 0; scale < VG_CAMBI_SCALES; scale++)
        sums[scale] = factor * (scale + 1) * (int32_t)(0.6 * pixels[scale]);
}

static void weighs_scales_and_caps(void **state)
{
    VgCambiRecord record = { .largest = { 1023, 1023 } };
    Emitted emitted;
    Messages messages;
    const double unit = 57.0 / (33 * 33);
    (void)state;

    set_sums(record.sums[VG_CAMBI_DIST], 8);
    set_sums(record.sums[VG_CAMBI_SOURCE], 2);
    assert_int_equal(score_record("", 10, &record, &emitted, &messages), 0);
    assert_true(emitted.value[CAMBI][3] == 8 * 57.0 / (33 * 33));
    assert_int_equal(score_record("full_ref=true", 10, &record, &emitted, &messages), 0);
    assert_true(emitted.value[CAMBI][3] == 8 * 57.0 / (33 * 33));
    assert_true(emitted.value[SOURCE][3] == 2 * 57.0 / (33 * 33));
    assert_true(emitted.value[FULL_REFERENCE][3] == 8 * 57.0 / (33 * 33) - 2 * 57.0 / (33 * 33));
    /* The difference is that of scores without cap. */
    assert_int_equal(score_record("full_ref=true:cambi_max_val=0.125", 10, &record, &emitted, &messages), 0);
    assert_true(unit > 0.05 && 2 * unit < 0.125 && 6 * unit > 0.125);
    assert_true(emitted.value[CAMBI][3] == 0.125 && emitted.value[SOURCE][3] == 2 * 57.0 / (33 * 33));
    assert_true(emitted.value[FULL_REFERENCE][3] == 0.125);
    /* Never below 0. */
    set_sums(record.sums[VG_CAMBI_SOURCE], 9);
    assert_int_equal(score_record("full_ref=true", 10, &record, &emitted, &messages), 0);
    assert_true(emitted.value[FULL_REFERENCE][3] == 0);
    assert_int_equal(messages.counts[VG_LOG_ERROR], 0);
}

static void refuses_samples_beyond_the_depth(void **state)
{
    VgCambiRecord record = { .largest = { 1023, 1040 } };
    Emitted emitted;
    Messages messages;
    (void)state;

    assert_int_equal(score_record("", 10, &record, &emitted, &messages), 0);
    assert_int_equal(score_record("full_ref=true:eotf=pq", 10, &record, &emitted, &messages), -EINVAL);
    assert_int_equal(messages.counts[VG_LOG_ERROR], 1);
    assert_true(messages_contain(&messages, "cambi_eotf_pq, frame 3: the reference picture has a luma sample of 1040, "
                                            "but 10 bits end at 1023: give the depth"));
    record.largest[VG_CAMBI_DIST] = 1024;
    assert_int_equal(score_record("", 10, &record, &emitted, &messages), -EINVAL);
    assert_true(messages_contain(&messages, "cambi, frame 3: the distorted picture has a luma sample of 1024"));
    assert_int_equal(score_record("full_ref=true", 10, &record, &emitted, &messages), -EINVAL);
    assert_int_equal(messages.counts[VG_LOG_ERROR], 1);
    record.largest[VG_CAMBI_DIST] = 65535;
    assert_int_equal(score_record("", 16, &record, &emitted, &messages), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_what_libvmaf_does_and_larger_windows),
        cmocka_unit_test(refuses_with_the_remedy),
        cmocka_unit_test(puts_options_into_keys),
        cmocka_unit_test(finds_libvmafs_thresholds),
        cmocka_unit_test(derives_the_other_parameters),
        cmocka_unit_test(shares_passes),
        cmocka_unit_test(keeps_integers_in_their_types),
        cmocka_unit_test(knows_which_sums_may_overflow),
        cmocka_unit_test(weighs_scales_and_caps),
        cmocka_unit_test(refuses_samples_beyond_the_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
