/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * psnr against golden values, and its rules where no golden clip reaches them.
 */
#include "tests/cmocka_includes.h"

#include "shared_math/psnr.h"
#include "tests/clipgen.h"
#include "tests/emitted.h"
#include "tests/golden.h"
#include "tests/harness.h"

#include <stdlib.h>
#include <string.h>

enum { PSNR_Y, MSE_Y, PSNR_CB, MSE_CB, PSNR_CR, MSE_CR, APSNR_Y, APSNR_CB, APSNR_CR };

static void golden_rows(void **state)
{
    Golden golden = golden_read("psnr.tsv.gz");
    (void)state;

    assert_int_equal(golden.n_rows, 1412);
    golden_score(&golden, "psnr", 1, NULL);
    golden_score(&golden, "psnr", 3, NULL);
    golden_free(&golden);
    clip_free_all();
}

/* Scores n_frames equal records. */
static void score(const VgGeometry *geometry, const char *options_text, const VgPsnrRecord *record, uint64_t n_frames,
                  Emitted *emitted)
{
    void *options = harness_options(&vg_metric_psnr, options_text), *rules = calloc(1, vg_metric_psnr.state_size);
    const VgScoreContext context = { .geometry = geometry, .options = options };
    VgEmit emit = emitted_to(emitted);

    assert_non_null(rules);
    for (uint64_t frame = 0; frame < n_frames; frame++)
        assert_int_equal(vg_metric_psnr.score(&context, rules, frame, record, &emit), 0);
    assert_int_equal(vg_metric_psnr.flush(&context, rules, n_frames, &emit), 0);
    free(rules);
    free(options);
}

static void caps_of_identical_pictures(void **state)
{
    static const struct {
        uint32_t depth;
        const char *options;
        double y, cb;
    } cases[] = {
        { 8, "", 60, 60 },
        { 10, "", 72, 72 },
        { 12, "", 84, 84 },
        { 16, "", 108, 108 },
        { 16, "reduced_hbd_peak=true", 108, 108 }, /* the cap depends on the depth, not on the peak */
        { 8, "min_sse=0.5", 88, 82 },              /* 2 * 255^2 * 64 * 64 is 87.26 dB, a quarter of it 81.24 dB */
        { 10, "min_sse=0.5", 100, 94 },            /* 2 * 1023^2 * 64 * 64: 99.33 dB */
        { 10, "min_sse=0.5:reduced_hbd_peak=true", 100, 94 },
    };
    const VgPsnrRecord record = { { 0 } };
    (void)state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const VgGeometry geometry = { 64, 64, VG_CHROMA_420, cases[i].depth };
        Emitted e;
        score(&geometry, cases[i].options, &record, 1, &e);
        assert_true(e.value[PSNR_Y][0] == cases[i].y);
        assert_true(e.value[PSNR_CB][0] == cases[i].cb && e.value[PSNR_CR][0] == cases[i].cb);
    }
}

/* The smallest accepted error is a bound on the score, not on the error: a large one leaves good scores alone. */
static void least_error_moves_only_the_cap(void **state)
{
    const VgGeometry geometry = { 64, 64, VG_CHROMA_400, 8 };
    const VgPsnrRecord record = { { 64 * 64 } };
    Emitted plain, limited;
    (void)state;

    score(&geometry, "enable_mse=true", &record, 1, &plain);
    score(&geometry, "enable_mse=true:min_sse=0.5", &record, 1, &limited);
    assert_true(plain.value[MSE_Y][0] == 1 && limited.value[MSE_Y][0] == 1);
    assert_true(plain.value[PSNR_Y][0] == limited.value[PSNR_Y][0]);
    assert_true(plain.value[PSNR_Y][0] == 10 * log10(65025));
    assert_int_equal(plain.count[PSNR_CB][0], 0);
}

/* A picture of one column has no 4:2:0 chroma samples: the errors are NaN, the scores caps. */
static void empty_planes(void **state)
{
    const VgGeometry geometry = { 1, 5, VG_CHROMA_420, 8 };
    const VgPsnrRecord record = { { 5 } };
    Emitted e;
    (void)state;

    score(&geometry, "enable_mse=true:enable_apsnr=true", &record, 1, &e);
    assert_true(e.value[MSE_Y][0] == 1);
    assert_true(isnan(e.value[MSE_CB][0]) && e.value[PSNR_CB][0] == 60);
    assert_true(e.aggregate[APSNR_CB] == -INFINITY && e.aggregate[APSNR_CR] == -INFINITY);
    score(&geometry, "min_sse=0.5", &record, 1, &e);
    assert_true(e.value[PSNR_CB][0] == -INFINITY);
}

/* The cap's product is counted in 64 bits. 16 bits: 65535^2 * 2 times samples passes 2^64 at 2147549186 samples, in frame
   1036 of 1920x1080. */
static void cap_of_long_clips_wraps(void **state)
{
    const VgGeometry geometry = { 1920, 1080, VG_CHROMA_420, 16 };
    const VgPsnrRecord record = { { 0 } };
    Emitted e;
    (void)state;

    score(&geometry, "enable_apsnr=true", &record, 1035, &e);
    assert_true(e.aggregate[APSNR_Y] == 193); /* 2 * 65535^2 * 2146176000 is 192.66 dB */
    score(&geometry, "enable_apsnr=true", &record, 1036, &e);
    assert_true(e.aggregate[APSNR_Y] == 158); /* 2 * 65535^2 * 2148249600 - 2^64 is 157.79 dB */
    assert_true(e.aggregate[APSNR_CB] == 187);
    assert_int_equal(e.aggregate_count[APSNR_CR], 1);
    score(&geometry, "enable_apsnr=true:enable_chroma=false", &record, 2, &e);
    assert_true(e.aggregate[APSNR_CB] == -INFINITY);
    score(&geometry, "", &record, 2, &e);
    assert_int_equal(e.aggregate_count[APSNR_Y], 0);
}

/* Every sample wrong by as much as it can be. */
static void greatest_errors(void **state)
{
    static const uint32_t depths[] = { 8, 10, 12, 16 };
    (void)state;

    for (unsigned i = 0; i < 4; i++) {
        enum { WIDTH = 9001, HEIGHT = 3 }; /* more samples a row than 32 bits hold squares, but at 8 bits */
        const uint64_t max = (1u << depths[i]) - 1;
        const HarnessCase c = { { WIDTH, HEIGHT, VG_CHROMA_400, depths[i] }, "" };
        uint16_t *samples = malloc(WIDTH * HEIGHT * sizeof(*samples)), *zeros = calloc(WIDTH * HEIGHT, sizeof(*zeros));
        VgPicture ref = {
            .geometry = c.geometry, .sample_bytes = 2, .data = { samples }, .pitch = { 2 * WIDTH }, .step = { 2 }
        };
        VgPicture dist = ref;
        const VgFramePictures pictures = { .ref = { &ref }, .dist = { &dist } };
        VgPsnrParams params;
        VgPsnrRecord record;

        assert_true(samples && zeros);
        for (int x = 0; x < WIDTH * HEIGHT; x++)
            samples[x] = (uint16_t)max;
        dist.data[0] = zeros;
        harness_params(&vg_metric_psnr, &c, &params);
        harness_yardstick(&vg_metric_psnr, &params, &pictures, &record);
        assert_true(record.sse[0] == max * max * WIDTH * HEIGHT);
        free(samples);
        free(zeros);
    }
}

static void refusals_and_sharing(void **state)
{
    VgGeometry geometry = { 33, 17, VG_CHROMA_420, 9 };
    void *options = harness_options(&vg_metric_psnr, "enable_chroma=false");
    VgPsnrParams luma, all;
    char why[256] = "";
    (void)state;

    assert_int_not_equal(vg_metric_psnr.check(&geometry, options, why, sizeof(why)), 0);
    assert_non_null(strstr(why, "not 9: convert both inputs to 10 bits"));
    geometry.bit_depth = 12;
    assert_int_equal(vg_metric_psnr.check(&geometry, options, why, sizeof(why)), 0);

    vg_metric_psnr.make_params(&geometry, options, &luma);
    free(options);
    options = harness_options(&vg_metric_psnr, "");
    vg_metric_psnr.make_params(&geometry, options, &all);
    free(options);
    assert_true(luma.width[1] == 0 && all.width[1] == 16 && all.height[2] == 8);
    assert_int_equal(vg_metric_psnr.merge_params(&luma, &all), 1);
    assert_memory_equal(&luma, &all, sizeof(all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_rows),
        cmocka_unit_test(caps_of_identical_pictures),
        cmocka_unit_test(least_error_moves_only_the_cap),
        cmocka_unit_test(empty_planes),
        cmocka_unit_test(cap_of_long_clips_wraps),
        cmocka_unit_test(greatest_errors),
        cmocka_unit_test(refusals_and_sharing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
