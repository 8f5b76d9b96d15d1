/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * float_ssim against golden values, stage by stage, and its rules in closed form.
 */
#include "tests/cmocka_includes.h"

#include "shared_math/float_ssim.h"
#include "tests/clipgen.h"
#include "tests/emitted.h"
#include "tests/golden.h"
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SSIM, SSIM_L, SSIM_C, SSIM_S };

static void score(const VgGeometry *geometry, const char *options_text, const VgFloatSsimRecord *record,
                  Emitted *emitted)
{
    void *options = harness_options(&vg_metric_float_ssim, options_text);
    const VgScoreContext context = { .geometry = geometry, .options = options };
    VgEmit emit = emitted_to(emitted);

    assert_int_equal(vg_metric_float_ssim.score(&context, NULL, 0, record, &emit), 0);
    free(options);
}

/* The record of one pair, whether configuration accepts the pair or not. */
static VgFloatSsimRecord record_of(const Clip *ref, const Clip *dist, unsigned frame, const char *options_text)
{
    void *options = harness_options(&vg_metric_float_ssim, options_text);
    const VgPicture r = clip_picture(ref, frame), d = clip_picture(dist, frame);
    const VgFramePictures pictures = { .frame = frame, .ref = { &r }, .dist = { &d } };
    VgFloatSsimParams params;
    VgFloatSsimRecord record;

    vg_metric_float_ssim.make_params(&ref->geometry, options, &params);
    harness_yardstick(&vg_metric_float_ssim, &params, &pictures, &record);
    free(options);
    return record;
}

/* ---- Golden values ---------------------------------------------------------------------------------------------- */

static size_t refused_rows;

/* Sizes without a single window: refused, and yet the reference arithmetic gives what the table says. */
static void check_refused(const Golden *golden, size_t first, size_t end)
{
    const Clip *ref = clip_get(golden_cell(golden, first, GOLDEN_REF));
    const Clip *dist = clip_get(golden_cell(golden, first, GOLDEN_DIST));
    const char *options = golden_cell(golden, first, GOLDEN_OPTIONS);

    for (size_t row = first; row < end; row++) {
        const char *name = golden_cell(golden, row, GOLDEN_KEY);
        const VgFloatSsimRecord record =
            record_of(ref, dist, (unsigned)atoi(golden_cell(golden, row, GOLDEN_FRAME)), options);
        unsigned key = 0;
        Emitted e;

        while (vg_metric_float_ssim.keys[key].name && strcmp(vg_metric_float_ssim.keys[key].name, name))
            key++;
        score(&ref->geometry, options, &record, &e);
        if (!golden_equal(golden_cell(golden, row, GOLDEN_VALUE), e.value[key][0]))
            fail_msg("%s: %s is %.17g, not %s", ref->args, name, e.value[key][0],
                     golden_cell(golden, row, GOLDEN_VALUE));
    }
    refused_rows += end - first;
}

static void golden_rows(void **state)
{
    Golden golden = golden_read("float_ssim.tsv.gz");
    (void)state;

    assert_int_equal(golden.n_rows, 990);
    golden_score(&golden, "float_ssim", 1, check_refused);
    assert_int_equal(refused_rows, 58);
    golden_score(&golden, "float_ssim", 3, check_refused);
    golden_free(&golden);
    clip_free_all();
}

/* ---- Stages ----------------------------------------------------------------------------------------------------- */

enum { STAGE_CASE, STAGE_PLANE, STAGE_ROW, STAGE_COLUMN, STAGE_BITS };

typedef struct StageCase {
    const char *name, *ref, *dist, *options;
    size_t rows; /* of the table */
} StageCase;

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Compares one computed plane, n of whose values must be listed, or none. */
static size_t check_plane(const Golden *golden, const StageCase *c, const char *plane, const float *values,
                          int32_t width, int32_t height)
{
    size_t n = 0;

    for (size_t row = 0; row < golden->n_rows; row++) {
        if (strcmp(golden_cell(golden, row, STAGE_CASE), c->name) ||
            strcmp(golden_cell(golden, row, STAGE_PLANE), plane))
            continue;
        const int y = atoi(golden_cell(golden, row, STAGE_ROW)), x = atoi(golden_cell(golden, row, STAGE_COLUMN));
        const float expected = float_of((uint32_t)strtoul(golden_cell(golden, row, STAGE_BITS), NULL, 16));
        assert_true(x >= 0 && x < width && y >= 0 && y < height);
        if (memcmp(&expected, &values[y * width + x], sizeof(expected)))
            fail_msg("case %s, %s(%d, %d) is %a, not %a", c->name, plane, x, y, (double)values[y * width + x],
                     (double)expected);
        n++;
    }
    assert_true(n == 0 || n == (size_t)(width * height));
    return n;
}

static size_t check_sum(const Golden *golden, const StageCase *c, const char *name, double sum)
{
    for (size_t row = 0; row < golden->n_rows; row++) {
        if (strcmp(golden_cell(golden, row, STAGE_CASE), c->name) ||
            strcmp(golden_cell(golden, row, STAGE_PLANE), name))
            continue;
        const uint64_t bits = strtoull(golden_cell(golden, row, STAGE_BITS), NULL, 16);
        if (memcmp(&bits, &sum, sizeof(sum)))
            fail_msg("case %s, %s is %a", c->name, name, sum);
        return 1;
    }
    return 0;
}

static int32_t sample_of(const VgPicture *picture, int32_t x, int32_t y)
{
    const uint8_t *at = (const uint8_t *)picture->data[0] + y * picture->pitch[0] + (ptrdiff_t)x * picture->step[0];
    return picture->sample_bytes == 1 ? *at : *(const uint16_t *)(const void *)at;
}

#define MOST 1024 /* samples of a plane */

/* Window by window, in raster order. */
static void decimate(const VgFloatSsimParams *p, const VgPicture *picture, float *out)
{
    const float unit = vg_float_ssim_unit(p->bit_depth);

    for (int32_t y = 0; y < p->out_height; y++)
        for (int32_t x = 0; x < p->out_width; x++) {
            double sum = 0;
            for (int32_t j = 0; j < p->factor; j++)
                for (int32_t i = 0; i < p->factor; i++) {
                    const int32_t sample =
                        sample_of(picture, vg_float_ssim_mirror(vg_float_ssim_window(x, p->factor) + i, p->width),
                                  vg_float_ssim_mirror(vg_float_ssim_window(y, p->factor) + j, p->height));
                    sum += vg_float_ssim_sums_samples(p->factor) ? (double)sample
                                                                 : (double)vg_float_ssim_product(sample, unit, p->tap);
                }
            out[y * p->out_width + x] = vg_float_ssim_decimated(sum, p->factor, unit, p->tap);
        }
}

static void filter(const float *in, int32_t width, int32_t height, float *out)
{
    static const float gauss[VG_FLOAT_SSIM_TAPS] = VG_FLOAT_SSIM_GAUSS;
    const int32_t n = width - VG_FLOAT_SSIM_TAPS + 1;
    float rows[MOST];

    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < n; x++) {
            double sum = 0;
            for (int32_t k = 0; k < VG_FLOAT_SSIM_TAPS; k++)
                sum = vg_float_ssim_add_tap(sum, in[y * width + x + k], gauss[k]);
            rows[y * n + x] = (float)sum;
        }
    for (int32_t y = 0; y <= height - VG_FLOAT_SSIM_TAPS; y++)
        for (int32_t x = 0; x < n; x++) {
            double sum = 0;
            for (int32_t k = 0; k < VG_FLOAT_SSIM_TAPS; k++)
                sum = vg_float_ssim_add_tap(sum, rows[(y + k) * n + x], gauss[k]);
            out[y * n + x] = (float)sum;
        }
}

static void check_case(const Golden *golden, const StageCase *c)
{
    const Clip *clips[2] = { clip_get(c->ref), clip_get(c->dist) };
    const HarnessCase test_case = { clips[0]->geometry, c->options };
    static float in[5][MOST], g[5][MOST], stats[5][MOST];
    double sums[4] = { 0 };
    VgFloatSsimParams p;
    size_t rows = 0;

    harness_params(&vg_metric_float_ssim, &test_case, &p);
    const int32_t width = p.out_width, height = p.out_height;
    const int32_t n = width - VG_FLOAT_SSIM_TAPS + 1, m = height - VG_FLOAT_SSIM_TAPS + 1;
    assert_true(width * height <= MOST);

    for (int i = 0; i < 2; i++) {
        const VgPicture picture = clip_picture(clips[i], 0);
        decimate(&p, &picture, in[i]);
        rows += check_plane(golden, c, i ? "T" : "R", in[i], width, height);
    }
    for (int32_t i = 0; i < width * height; i++) {
        in[2][i] = in[0][i] * in[0][i];
        in[3][i] = in[1][i] * in[1][i];
        in[4][i] = in[0][i] * in[1][i];
    }
    for (int i = 0; i < 5; i++)
        filter(in[i], width, height, g[i]);
    for (int32_t i = 0; i < n * m; i++) {
        const VgFloatSsimWindow w = vg_float_ssim_stats(g[0][i], g[1][i], g[2][i], g[3][i], g[4][i]);
        const VgFloatSsimFactors f = vg_float_ssim_factors(w);
        stats[0][i] = w.mr;
        stats[1][i] = w.mt;
        stats[2][i] = w.vr;
        stats[3][i] = w.vt;
        stats[4][i] = w.cv;
        sums[0] += vg_float_ssim_term(f);
        sums[1] += f.l;
        sums[2] += f.c;
        sums[3] += f.s;
    }
    static const char *const planes[] = { "mr", "mt", "vr", "vt", "cv" };
    static const char *const names[] = { "sum_lcs", "sum_l", "sum_c", "sum_s" };
    for (int i = 0; i < 5; i++)
        rows += check_plane(golden, c, planes[i], stats[i], n, m);
    for (int i = 0; i < 4; i++)
        rows += check_sum(golden, c, names[i], sums[i]);
    assert_int_equal(rows, c->rows);

    /* The reference's passes by rows end in the same sums. */
    char options[64];
    snprintf(options, sizeof(options), "%s:enable_lcs=true", c->options);
    const VgFloatSsimRecord record = record_of(clips[0], clips[1], 0, options);
    assert_true(record.ssim == (float)(sums[0] / (n * m)) && record.l == (float)(sums[1] / (n * m)));
    assert_true(record.c == (float)(sums[2] / (n * m)) && record.s == (float)(sums[3] / (n * m)));
}

static void golden_stages(void **state)
{
    static const StageCase cases[] = {
        { "A", "mix none 47 35 420 10 1 3", "mix blur+quant:6+noise:3 47 35 420 10 1 3", "scale=2", 1428 },
        { "B", "noise none 61 50 420 16 1 3", "noise quant:300 61 50 420 16 1 3", "scale=3", 808 },
        { "C", "tex none 15 14 420 8 1 3", "tex blur 15 14 420 8 1 3", "scale=1", 524 },
        { "D", "tex none 111 93 420 12 1 3", "tex blur 111 93 420 12 1 3", "scale=7", 500 },
    };
    Golden golden = golden_read("float_ssim_stages.tsv.gz");
    (void)state;

    assert_int_equal(golden.n_rows, 1428 + 808 + 524 + 500);
    for (unsigned i = 0; i < 4; i++)
        check_case(&golden, &cases[i]);
    golden_free(&golden);
    clip_free_all();
}

/* ---- Rules ------------------------------------------------------------------------------------------------------ */

/* Numerators in double over denominators in binary32: flat pictures against themselves are not always 1. */
static void identical_flat_pictures(void **state)
{
    static const struct {
        uint8_t level;
        float ssim;
        double db, clipped_db;
    } cases[] = {
        { 94, 1.0000001192092896f, INFINITY, 82 },
        { 85, 0.99999994039535522f, 72.247, 72.247 },
        { 129, 0.99999988079071045f, 69.237, 69.237 },
        { 0, 1, INFINITY, 82 },
    };
    static uint8_t samples[32 * 32];
    const HarnessCase c = { { 32, 32, VG_CHROMA_400, 8 }, "" };
    const VgPicture picture = {
        .geometry = c.geometry, .sample_bytes = 1, .data = { samples }, .pitch = { 32 }, .step = { 1 }
    };
    const VgFramePictures pictures = { .ref = { &picture }, .dist = { &picture } };
    VgFloatSsimParams params;
    (void)state;

    harness_params(&vg_metric_float_ssim, &c, &params);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        VgFloatSsimRecord record;
        Emitted e;
        memset(samples, cases[i].level, sizeof(samples));
        harness_yardstick(&vg_metric_float_ssim, &params, &pictures, &record);
        assert_true(record.ssim == cases[i].ssim);
        score(&c.geometry, "enable_db=true", &record, &e);
        assert_true(e.value[SSIM][0] == cases[i].db || fabs(e.value[SSIM][0] - cases[i].db) < 1e-3);
        score(&c.geometry, "enable_db=true:clip_db=true", &record, &e);
        assert_true(fabs(e.value[SSIM][0] - cases[i].clipped_db) < 1e-3);
        score(&c.geometry, "clip_db=true", &record, &e);
        assert_true(e.value[SSIM][0] == (double)cases[i].ssim);
        assert_int_equal(e.count[SSIM_L][0], 0);
    }
}

static void factors_are_not_in_db(void **state)
{
    const VgGeometry geometry = { 64, 64, VG_CHROMA_420, 10 };
    const VgFloatSsimRecord record = { 0.75f, 0.5f, 0.25f, -0.125f };
    Emitted e;
    (void)state;

    score(&geometry, "enable_db=true:enable_lcs=true", &record, &e);
    assert_true(e.value[SSIM][0] == -10 * log10(0.25));
    assert_true(e.value[SSIM_L][0] == 0.5 && e.value[SSIM_C][0] == 0.25 && e.value[SSIM_S][0] == -0.125);
}

static void automatic_factors(void **state)
{
    static const uint32_t cases[][2] = { { 11, 1 },  { 383, 1 },  { 384, 2 },  { 639, 2 },
                                         { 640, 3 }, { 1080, 4 }, { 2160, 8 }, { 32895, 128 } };
    (void)state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const HarnessCase high = { { 65536, cases[i][0], VG_CHROMA_400, 8 }, "" };
        const HarnessCase wide = { { cases[i][0], 65535, VG_CHROMA_400, 8 }, "" };
        VgFloatSsimParams params;
        harness_params(&vg_metric_float_ssim, &high, &params);
        assert_int_equal(params.factor, cases[i][1]);
        harness_params(&vg_metric_float_ssim, &wide, &params);
        assert_int_equal(params.factor, cases[i][1]);
        if (cases[i][1] > 1) /* one more for an odd side, whatever the factor */
            assert_int_equal(params.out_height, 65535 / cases[i][1] + 1);
    }
}

static void refusals(void **state)
{
    static const struct {
        VgGeometry geometry;
        const char *options, *words;
    } cases[] = {
        { { 90, 50, VG_CHROMA_420, 8 }, "scale=10", "after decimation by 10, got 9x5: use a smaller scale (scale=1)" },
        { { 10, 50, VG_CHROMA_420, 8 }, "", "at least 11x11 samples, got 10x50" },
        { { 10, 50, VG_CHROMA_420, 8 }, "scale=2", "only 10x50" },
        { { 64, 64, VG_CHROMA_420, 14 }, "", "not 14: convert both inputs to 16 bits" },
        { { 32896, 65536, VG_CHROMA_420, 8 }, "", "asks for 129" },
    };
    (void)state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        void *options = harness_options(&vg_metric_float_ssim, cases[i].options);
        char why[256] = "";
        assert_int_not_equal(vg_metric_float_ssim.check(&cases[i].geometry, options, why, sizeof(why)), 0);
        if (!strstr(why, cases[i].words))
            fail_msg("\"%s\" lacks \"%s\"", why, cases[i].words);
        free(options);
    }
}

/* Passes are shared if the planes are the same; factors that only another requester wants change nothing. */
static void sharing(void **state)
{
    const HarnessCase plain = { { 400, 400, VG_CHROMA_420, 8 }, "scale=2" };
    const HarnessCase factors = { { 400, 400, VG_CHROMA_420, 8 }, "enable_lcs=true" };
    const HarnessCase other = { { 400, 400, VG_CHROMA_420, 8 }, "scale=1" };
    VgFloatSsimParams a, b, c;
    (void)state;

    harness_params(&vg_metric_float_ssim, &plain, &a);
    harness_params(&vg_metric_float_ssim, &factors, &b);
    harness_params(&vg_metric_float_ssim, &other, &c);
    assert_int_equal(vg_metric_float_ssim.merge_params(&a, &c), 0);
    assert_int_equal(vg_metric_float_ssim.merge_params(&a, &b), 1);
    assert_memory_equal(&a, &b, sizeof(a));

    const Clip *ref = clip_get("mix none 97 61 420 8 1 5"), *dist = clip_get("mix blur 97 61 420 8 1 5");
    const VgFloatSsimRecord alone = record_of(ref, dist, 0, ""), with = record_of(ref, dist, 0, "enable_lcs=true");
    assert_true(alone.ssim == with.ssim && with.l != 0 && alone.l == 0);
    clip_free_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_rows),
        cmocka_unit_test(golden_stages),
        cmocka_unit_test(identical_flat_pictures),
        cmocka_unit_test(factors_are_not_in_db),
        cmocka_unit_test(automatic_factors),
        cmocka_unit_test(refusals),
        cmocka_unit_test(sharing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
