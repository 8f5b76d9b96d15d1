/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * motion against golden values, stage by stage, and its rules in closed form.
 */
#include "tests/cmocka_includes.h"

#include "shared_math/motion.h"
#include "tests/clipgen.h"
#include "tests/emitted.h"
#include "tests/golden.h"
#include "tests/harness.h"

#include <stdlib.h>
#include <string.h>

enum { SAD, MOTION, MOTION2, MOTION3 };

static void golden_rows(void **state)
{
    Golden golden = golden_read("motion.tsv.gz");
    (void)state;

    assert_int_equal(golden.n_rows, 1325);
    golden_score(&golden, "motion", 1, NULL);
    golden_score(&golden, "motion", 3, NULL);
    golden_free(&golden);
    clip_free_all();
}

/* ---- Stages ----------------------------------------------------------------------------------------------------- */

enum { STAGE_CLIP, STAGE_NAME, STAGE_ROW, STAGE_COLUMN, STAGE_VALUE };

/* One stage of a clip as a plane, taken from the table. */
typedef struct Stage {
    int32_t width, height;
    int32_t values[16][16];
    unsigned n;
} Stage;

static Stage stage_of(const Golden *golden, const char *clip, const char *name, const VgGeometry *geometry)
{
    Stage stage = { .width = (int32_t)geometry->width, .height = (int32_t)geometry->height };

    for (size_t row = 0; row < golden->n_rows; row++) {
        if (strcmp(golden_cell(golden, row, STAGE_CLIP), clip) || strcmp(golden_cell(golden, row, STAGE_NAME), name))
            continue;
        const int y = atoi(golden_cell(golden, row, STAGE_ROW)), x = atoi(golden_cell(golden, row, STAGE_COLUMN));
        assert_true(y >= 0 && y < 16 && x >= 0 && x < 16);
        stage.values[y][x] = atoi(golden_cell(golden, row, STAGE_VALUE));
        stage.n++;
    }
    return stage;
}

static int32_t at(const Stage *stage, int32_t y, int32_t x)
{
    return stage->values[vg_motion_mirror(y, stage->height)][vg_motion_mirror(x, stage->width)];
}

/* Each stage of the table from the table's stage before it. */
static void check_stages(const Golden *golden, const char *args)
{
    const Clip *clip = clip_get(args);
    const VgGeometry *g = &clip->geometry;
    const Stage diff = stage_of(golden, args, "diff", g), vert = stage_of(golden, args, "vert", g);
    const Stage horiz = stage_of(golden, args, "horiz", g), sad = stage_of(golden, args, "sad", g);
    const VgPicture pictures[2] = { clip_picture(clip, 1), clip_picture(clip, 0) };
    const VgFramePictures frame = { .frame = 1, .ref = { &pictures[0], &pictures[1] }, .dist = { &pictures[0] } };
    const HarnessCase test_case = { *g, "" };
    const int32_t depth = (int32_t)g->bit_depth;
    VgMotionParams params;
    VgMotionRecord record;

    assert_true(diff.n == g->width * g->height && vert.n == diff.n && horiz.n == diff.n && sad.n == 1);
    for (int32_t y = 0; y < diff.height; y++)
        for (int32_t x = 0; x < diff.width; x++) {
            const size_t i = (size_t)(y * diff.width + x);
            const int32_t current =
                depth == 8 ? ((const uint8_t *)pictures[0].data[0])[i] : ((const uint16_t *)pictures[0].data[0])[i];
            const int32_t earlier =
                depth == 8 ? ((const uint8_t *)pictures[1].data[0])[i] : ((const uint16_t *)pictures[1].data[0])[i];
            assert_int_equal(earlier - current, diff.values[y][x]);
            assert_int_equal(vg_motion_filter(at(&diff, y - 2, x) + at(&diff, y + 2, x),
                                              at(&diff, y - 1, x) + at(&diff, y + 1, x), at(&diff, y, x), depth),
                             vert.values[y][x]);
            assert_int_equal(vg_motion_filter(at(&vert, y, x - 2) + at(&vert, y, x + 2),
                                              at(&vert, y, x - 1) + at(&vert, y, x + 1), at(&vert, y, x), 16),
                             horiz.values[y][x]);
        }

    harness_params(&vg_metric_motion, &test_case, &params);
    harness_yardstick(&vg_metric_motion, &params, &frame, &record);
    assert_int_equal(record.sad[0], sad.values[0][0]);
}

static void golden_stages(void **state)
{
    Golden golden = golden_read("motion_stages.tsv.gz");
    unsigned clips = 0;
    (void)state;

    assert_int_equal(golden.n_rows, 388);
    for (size_t row = 0; row < golden.n_rows; row++) {
        const char *args = golden_cell(&golden, row, STAGE_CLIP);
        if (row && !strcmp(args, golden_cell(&golden, row - 1, STAGE_CLIP)))
            continue;
        check_stages(&golden, args);
        clips++;
    }
    assert_int_equal(clips, 4);
    golden_free(&golden);
    clip_free_all();
}

/* ---- Arithmetic ------------------------------------------------------------------------------------------------- */

/* The filter as defined, in 64 bits, against the 32-bit form, for the greatest values and all their mixtures of sign. */
static void filter_is_exact_in_32_bits(void **state)
{
    (void)state;

    for (int32_t depth = 8; depth <= 17; depth++) {
        const int32_t shift = depth < 17 ? depth : 16; /* vertical passes, then the horizontal one */
        const int32_t max = (int32_t)((1u << (depth < 17 ? depth : 16)) - 1);
        const int32_t values[] = { -max, -max + 1, -max / 2, -1, 0, 1, max / 3, max - 1, max };
        enum { N = 9 };
        for (int i = 0; i < N * N * N * N * N; i++) {
            const int32_t x[5] = { values[i % N], values[i / N % N], values[i / N / N % N], values[i / N / N / N % N],
                                   values[i / N / N / N / N] };
            const int64_t sum = 3571 * ((int64_t)x[0] + x[4]) + 16004 * ((int64_t)x[1] + x[3]) + 26386 * (int64_t)x[2];
            const int64_t expected = (sum + ((int64_t)1 << (shift - 1))) >> shift;
            if (vg_motion_filter(x[0] + x[4], x[1] + x[3], x[2], shift) != expected)
                fail_msg("%d %d %d %d %d >> %d", x[0], x[1], x[2], x[3], x[4], shift);
        }
    }
}

/* From black to white and back: the filter's gain is exactly 2^16, so a plane has one value everywhere. */
static void greatest_differences(void **state)
{
    static const struct {
        uint32_t depth;
        int32_t h;
    } cases[] = { { 8, 65280 }, { 10, 65472 }, { 12, 65520 }, { 14, 65532 }, { 15, 65534 }, { 16, 65535 } };
    enum { WIDTH = 301, HEIGHT = 7 };
    static uint16_t white[WIDTH * HEIGHT];
    static const uint16_t black[WIDTH * HEIGHT];
    (void)state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const HarnessCase c = { { WIDTH, HEIGHT, VG_CHROMA_400, cases[i].depth }, "" };
        VgPicture a = {
            .geometry = c.geometry, .sample_bytes = 2, .data = { white }, .pitch = { 2 * WIDTH }, .step = { 2 }
        };
        VgPicture b = a;
        const VgFramePictures up = { .frame = 1, .ref = { &a, &b } }, down = { .frame = 1, .ref = { &b, &a } };
        VgMotionParams params;
        VgMotionRecord record;

        for (int x = 0; x < WIDTH * HEIGHT; x++)
            white[x] = (uint16_t)((1u << cases[i].depth) - 1);
        b.data[0] = black;
        harness_params(&vg_metric_motion, &c, &params);
        harness_yardstick(&vg_metric_motion, &params, &up, &record);
        assert_int_equal(record.sad[0], (uint64_t)cases[i].h * WIDTH * HEIGHT);
        harness_yardstick(&vg_metric_motion, &params, &down, &record);
        assert_int_equal(record.sad[0], (uint64_t)cases[i].h * WIDTH * HEIGHT);
        assert_int_equal(record.sad[1], 0);
    }
}

/* ---- Rules over time --------------------------------------------------------------------------------------------- */

static const VgGeometry small = { 16, 16, VG_CHROMA_420, 8 };

/* Scores a clip whose frames differ from an earlier one by these values (in 8-bit steps), whatever the lag. */
static void score(const char *options_text, const double *differences, unsigned n_frames, Emitted *emitted)
{
    void *options = harness_options(&vg_metric_motion, options_text);
    void *rules = calloc(1, vg_metric_motion.state_size);
    const VgScoreContext context = { .geometry = &small, .options = options };
    VgEmit emit = emitted_to(emitted);

    assert_non_null(rules);
    for (unsigned frame = 0; frame < n_frames; frame++) {
        const uint64_t sad = (uint64_t)(differences[frame] * 256 * 16 * 16);
        const VgMotionRecord record = { { sad, sad } };
        assert_int_equal(vg_metric_motion.score(&context, rules, frame, &record, &emit), 0);
    }
    assert_int_equal(vg_metric_motion.flush(&context, rules, n_frames, &emit), 0);
    free(rules);
    free(options);

    for (unsigned frame = 0; frame < n_frames; frame++)
        for (unsigned key = SAD; key <= MOTION3; key++)
            assert_int_equal(emitted->count[key][frame], key == MOTION ? 0 : 1);
    for (unsigned key = SAD; key <= MOTION3; key++)
        assert_int_equal(emitted->count[key][n_frames], 0);
}

static void expect(const Emitted *emitted, unsigned key, const double *expected, unsigned n)
{
    for (unsigned frame = 0; frame < n; frame++)
        if (emitted->value[key][frame] != expected[frame])
            fail_msg("key %u, frame %u: %.17g, not %.17g", key, frame, emitted->value[key][frame], expected[frame]);
}

#define EXPECT(key, n, ...) expect(&e, key, (const double[]){ __VA_ARGS__ }, n)

static void short_clips(void **state)
{
    const double d[] = { 90, 8, 6, 7 };
    Emitted e;
    (void)state;

    score("", d, 1, &e);
    EXPECT(SAD, 1, 0);
    EXPECT(MOTION2, 1, 0);
    EXPECT(MOTION3, 1, 0);
    score("", d, 2, &e);
    EXPECT(SAD, 2, 0, 8);
    EXPECT(MOTION2, 2, 0, 8);
    EXPECT(MOTION3, 2, 8, 8);
    score("motion_five_frame_window=true", d, 2, &e);
    EXPECT(SAD, 2, 0, 0);
    EXPECT(MOTION2, 2, 0, 0);
    EXPECT(MOTION3, 2, 0, 0);
    score("motion_five_frame_window=true", d, 3, &e);
    EXPECT(SAD, 3, 0, 0, 6);
    EXPECT(MOTION2, 3, 0, 0, 6);
    EXPECT(MOTION3, 3, 6, 6, 6);
    score("motion_five_frame_window=true", d, 4, &e);
    EXPECT(MOTION2, 4, 0, 0, 7, 7);
}

static void windows_and_averages(void **state)
{
    const double d[] = { 90, 8, 6, 7, 1, 2 };
    Emitted e;
    (void)state;

    score("", d, 6, &e);
    EXPECT(MOTION2, 6, 0, 6, 6, 1, 1, 2);
    EXPECT(MOTION3, 6, 8, 6, 6, 1, 1, 2);
    score("motion_moving_average=true", d, 6, &e); /* frame 1 averages with the stamp, 8 */
    EXPECT(MOTION3, 6, 8, 7, 6, 3.5, 1, 1.5);
    score("motion_five_frame_window=true", d, 6, &e);
    EXPECT(SAD, 6, 0, 0, 6, 7, 1, 2);
    EXPECT(MOTION2, 6, 0, 0, 7, 1, 2, 2);
    EXPECT(MOTION3, 6, 6, 6, 7, 1, 2, 2);
    score("motion_five_frame_window=true:motion_moving_average=true", d, 6, &e);
    EXPECT(MOTION3, 6, 6, 6, 6.5, 4, 1.5, 2);
}

/* Weight, then cap, then blend; motion2 is not blended. */
static void weight_cap_and_blend(void **state)
{
    const double d[] = { 0, 10, 4 };
    Emitted e;
    (void)state;

    score("motion_fps_weight=0.5:motion_max_val=4:motion_blend_factor=0.25:motion_blend_offset=2", d, 3, &e);
    EXPECT(SAD, 3, 0, 4, 2);
    EXPECT(MOTION2, 3, 0, 2, 2);
    EXPECT(MOTION3, 3, 2.5, 2, 2);
    score("motion_force_zero=true:motion_five_frame_window=true", d, 3, &e);
    EXPECT(SAD, 3, 0, 0, 0);
    EXPECT(MOTION2, 3, 0, 0, 0);
    EXPECT(MOTION3, 3, 0, 0, 0);
}

static void needs_sharing_and_refusals(void **state)
{
    static const struct {
        const char *options;
        unsigned lag;
        int32_t lags;
    } cases[] = {
        { "", 1, VG_MOTION_LAG_1 },
        { "motion_five_frame_window=true", 2, VG_MOTION_LAG_2 },
        { "motion_force_zero=true", 0, 0 },
    };
    VgGeometry geometry = { 2, 3, VG_CHROMA_444, 8 };
    VgMotionParams all = { 16, 16, 8, 0 };
    char why[256] = "";
    (void)state;

    for (unsigned i = 0; i < 3; i++) {
        void *options = harness_options(&vg_metric_motion, cases[i].options);
        VgMotionParams params;
        const VgNeeds needs = vg_metric_motion.needs(options);
        vg_metric_motion.make_params(&small, options, &params);
        assert_int_equal(needs.lag[VG_REF], cases[i].lag);
        assert_int_equal(needs.lag[VG_DIST], 0);
        assert_int_equal(needs.planes[VG_REF], cases[i].lag ? VG_PLANE_Y : 0);
        assert_int_equal(needs.planes[VG_DIST], 0);
        assert_int_equal(needs.lookahead, cases[i].lag);
        assert_int_equal(params.lags, cases[i].lags);
        assert_int_equal(vg_metric_motion.merge_params(&all, &params), 1);
        free(options);
    }
    assert_int_equal(all.lags, VG_MOTION_LAG_1 | VG_MOTION_LAG_2);

    void *options = harness_options(&vg_metric_motion, "");
    assert_int_not_equal(vg_metric_motion.check(&geometry, options, why, sizeof(why)), 0);
    assert_non_null(strstr(why, "got 2x3"));
    geometry.width = 3;
    assert_int_equal(vg_metric_motion.check(&geometry, options, why, sizeof(why)), 0);
    free(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_rows),
        cmocka_unit_test(golden_stages),
        cmocka_unit_test(filter_is_exact_in_32_bits),
        cmocka_unit_test(greatest_differences),
        cmocka_unit_test(short_clips),
        cmocka_unit_test(windows_and_averages),
        cmocka_unit_test(weight_cap_and_blend),
        cmocka_unit_test(needs_sharing_and_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
