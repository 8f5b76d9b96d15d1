/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * cambi against golden values, stage by stage, its sums in order, and its values in closed form. What options make of it is
 * in test_cambi_options.c.
 */
#include "tests/cmocka_includes.h"

#include "cpu_ref/cambi.h"
#include "tests/clipgen.h"
#include "tests/golden.h"
#include "tests/harness.h"
#include "tests/md5.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const VgMetric *const cambi = &vg_metric_cambi;

static uint32_t random32(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

static int32_t random_to(uint64_t *state, int32_t first, int32_t last)
{
    return first + (int32_t)(random32(state) % (uint32_t)(last - first + 1));
}

static void *allocate(size_t size)
{
    void *memory = malloc(size ? size : 1);
    assert_non_null(memory);
    return memory;
}

static void *allocate_scratch(const VgCambiParams *params)
{
    const size_t size = (cambi->cpu->scratch_size(params) + 63) & ~(size_t)63;
    void *scratch = aligned_alloc(64, size);
    assert_non_null(scratch);
    memset(scratch, 0xa5, size);
    return scratch;
}

/* ---- Golden values ------------------------------------------------------------------------------------------------ */

static void score_table(const char *name, size_t n_rows)
{
    Golden golden = golden_read(name);

    assert_int_equal(golden.n_rows, n_rows);
#ifndef __SANITIZE_ADDRESS__ /* slow enough with several */
    golden_score(&golden, "cambi", 1, NULL);
#endif
    golden_score(&golden, "cambi", 3, NULL);
    golden_free(&golden);
    clip_free_all();
}

static void golden_rows(void **state)
{
    (void)state;
    score_table("cambi.tsv.gz", 829);
}

static void golden_rows_of_odd_depths(void **state)
{
    (void)state;
    score_table("cambi_depths.tsv.gz", 150);
}

/* Windows that reach beyond the plane on both sides. libvmaf reads outside its planes there; these are the values without. */
static void golden_rows_of_short_pictures(void **state)
{
    (void)state;
    score_table("cambi_short.tsv.gz", 60);
}

/* ---- Stages ------------------------------------------------------------------------------------------------------- */

/* Planes as golden files have them: levels and masks apart. */
enum { PRE, MASK, IMG, MSK = IMG + VG_CAMBI_SCALES, C = MSK + VG_CAMBI_SCALES, N_PLANES = C + VG_CAMBI_SCALES };

typedef struct Planes {
    struct {
        void *bytes;
        size_t size;
        int32_t width, height;
    } plane[N_PLANES];
} Planes;

static void keep(Planes *planes, unsigned i, const void *bytes, size_t size, int32_t width, int32_t height)
{
    assert_null(planes->plane[i].bytes);
    planes->plane[i].bytes = memcpy(allocate(size), bytes, size);
    planes->plane[i].size = size;
    planes->plane[i].width = width;
    planes->plane[i].height = height;
}

static void see(void *opaque, VgCambiStage stage, int32_t scale, const void *plane, int32_t width, int32_t height)
{
    Planes *planes = opaque;
    const size_t n = (size_t)width * (size_t)height;
    const uint16_t *pixels = plane;
    uint16_t *levels;
    uint8_t *mask;

    if (stage == VG_CAMBI_STAGE_VALUES) {
        keep(planes, C + (unsigned)scale, plane, n * sizeof(float), width, height);
        return;
    }
    levels = allocate(n * sizeof(*levels));
    mask = allocate(n);
    for (size_t i = 0; i < n; i++) {
        levels[i] = pixels[i] & (VG_CAMBI_MASKED - 1);
        mask[i] = pixels[i] >= VG_CAMBI_MASKED;
    }
    if (stage == VG_CAMBI_STAGE_LEVELS)
        keep(planes, PRE, levels, n * sizeof(*levels), width, height);
    if (stage == VG_CAMBI_STAGE_MASKED)
        keep(planes, MASK, mask, n, width, height);
    if (stage == VG_CAMBI_STAGE_PIXELS) {
        keep(planes, IMG + (unsigned)scale, levels, n * sizeof(*levels), width, height);
        keep(planes, MSK + (unsigned)scale, mask, n, width, height);
    }
    free(levels);
    free(mask);
}

static VgPlane luma_of(const Clip *clip)
{
    const VgPicture picture = clip_picture(clip, 0);
    return (VgPlane){
        .data = picture.data[0],
        .pitch = picture.pitch[0],
        .width = (int32_t)clip->geometry.width,
        .height = (int32_t)clip->geometry.height,
        .step = (int32_t)picture.step[0],
        .sample_bytes = (int32_t)picture.sample_bytes,
    };
}

static Planes planes_of(const Clip *clip, const VgCambiParams *params)
{
    Planes planes = { 0 };
    const VgCambiObserver observer = { see, &planes };
    const VgPlane luma = luma_of(clip);
    void *scratch = allocate_scratch(params);

    vg_cambi_show_stages(params, &luma, VG_CAMBI_DIST, scratch, &observer);
    free(scratch);
    for (unsigned i = 0; i < N_PLANES; i++)
        assert_non_null(planes.plane[i].bytes);
    return planes;
}

static void planes_free(Planes *planes)
{
    for (unsigned i = 0; i < N_PLANES; i++)
        free(planes->plane[i].bytes);
}

enum { STAGE_CLIP, STAGE_OPTIONS, STAGE_NAME, STAGE_SCALE, STAGE_WIDTH, STAGE_HEIGHT, STAGE_VALUE };

/* A plane by its MD5 sum. */
static void check_plane(const Golden *golden, size_t row, const Planes *planes)
{
    static const struct {
        const char *name;
        unsigned plane;
    } names[] = { { "pre", PRE }, { "mask", MASK }, { "img", IMG }, { "msk", MSK }, { "c", C } };
    const char *name = golden_cell(golden, row, STAGE_NAME), *scale = golden_cell(golden, row, STAGE_SCALE);
    char sum[33];
    unsigned i = 0;

    while (i < 5 && strcmp(names[i].name, name))
        i++;
    assert_true(i < 5);
    const unsigned plane = names[i].plane + (unsigned)atoi(scale);
    assert_int_equal(planes->plane[plane].width, atoi(golden_cell(golden, row, STAGE_WIDTH)));
    assert_int_equal(planes->plane[plane].height, atoi(golden_cell(golden, row, STAGE_HEIGHT)));
    md5_of(planes->plane[plane].bytes, planes->plane[plane].size, sum);
    if (strcmp(sum, golden_cell(golden, row, STAGE_VALUE)))
        fail_msg("%s, \"%s\": plane %s of scale %s differs", golden_cell(golden, row, STAGE_CLIP),
                 golden_cell(golden, row, STAGE_OPTIONS), name, scale);
}

/* "ws W vlt D hrs O T T_1 T_2 ..." */
static void check_params(const char *text, const VgCambiParams *params)
{
    int window, dark, speedup, read;

    assert_int_equal(sscanf(text, "ws %d vlt %d hrs %d T%n", &window, &dark, &speedup, &read), 3);
    assert_int_equal(params->sides[VG_CAMBI_DIST].window, window);
    assert_int_equal(params->dark, dark);
    assert_int_equal(params->speedup, speedup != 0);
    for (int d = 0; d < params->n_differences; d++) {
        char *end;
        assert_int_equal(params->limits[d], strtol(text + read, &end, 10));
        read = (int)(end - text);
    }
    assert_int_equal(text[read], 0);
}

static void check_stages(const Golden *golden, size_t first, size_t end)
{
    const Clip *clip = clip_get(golden_cell(golden, first, STAGE_CLIP));
    const HarnessCase test_case = { clip->geometry, golden_cell(golden, first, STAGE_OPTIONS) };
    const VgPicture picture = clip_picture(clip, 0);
    const VgFramePictures pictures = { .ref = { &picture }, .dist = { &picture } };
    VgCambiParams params = { 0 };
    VgCambiRecord record;

    harness_params(cambi, &test_case, &params);
    harness_yardstick(cambi, &params, &pictures, &record);
    Planes planes = planes_of(clip, &params);
    for (size_t row = first; row < end; row++) {
        const char *name = golden_cell(golden, row, STAGE_NAME), *value = golden_cell(golden, row, STAGE_VALUE);
        if (!strcmp(name, "par")) {
            check_params(value, &params);
        } else if (!strcmp(name, "mean")) {
            const int scale = atoi(golden_cell(golden, row, STAGE_SCALE));
            const double mean = record.sums[VG_CAMBI_DIST][scale] / params.sides[VG_CAMBI_DIST].top[scale];
            if (!golden_equal(value, mean))
                fail_msg("%s: mean of scale %d is %.17g, not %s", clip->args, scale, mean, value);
        } else {
            check_plane(golden, row, &planes);
        }
    }
    planes_free(&planes);
}

static void golden_stages(void **state)
{
    Golden golden = golden_read("cambi_stages.tsv.gz");
    size_t first = 0;
    (void)state;

    assert_int_equal(golden.n_rows, 15 * 23);
    for (size_t row = 1; row <= golden.n_rows; row++) {
        if (row < golden.n_rows &&
            !strcmp(golden_cell(&golden, row, STAGE_CLIP), golden_cell(&golden, first, STAGE_CLIP)) &&
            !strcmp(golden_cell(&golden, row, STAGE_OPTIONS), golden_cell(&golden, first, STAGE_OPTIONS)))
            continue;
        check_stages(&golden, first, row);
        first = row;
    }
    golden_free(&golden);
    clip_free_all();
}

/* One picture's planes in full, one behind the other, to see where they differ. */
static void golden_planes(void **state)
{
    const char *dir = getenv("GOLDEN_DIR");
    const Clip *clip = clip_get("tex quant:4 240 96 420 8 1 1");
    const HarnessCase test_case = { clip->geometry, "window_size=127" };
    VgCambiParams params = { 0 };
    char path[1024];
    (void)state;

    snprintf(path, sizeof(path), "%s/cambi_planes.gz", dir ? dir : "tests/golden");
    gzFile file = gzopen(path, "rb");
    assert_non_null(file);
    harness_params(cambi, &test_case, &params);
    Planes planes = planes_of(clip, &params);
    for (unsigned i = 0; i < N_PLANES; i++) {
        if (i == MSK)
            continue; /* is MASK */
        const size_t size = planes.plane[i].size, width = (size_t)planes.plane[i].width;
        const size_t element = size / (width * (size_t)planes.plane[i].height);
        uint8_t *expected = allocate(size), *bytes = planes.plane[i].bytes;
        size_t at = 0;
        assert_int_equal(gzread(file, expected, (unsigned)size), size);
        while (at < size && expected[at] == bytes[at])
            at++;
        if (at < size)
            fail_msg("plane %u differs at column %zu of row %zu", i, at / element % width, at / element / width);
        free(expected);
    }
    assert_memory_equal(planes.plane[MASK].bytes, planes.plane[MSK].bytes, planes.plane[MASK].size);
    assert_int_equal(gzread(file, path, 1), 0);
    gzclose(file);
    planes_free(&planes);
    clip_free_all();
}

/* ---- Values ------------------------------------------------------------------------------------------------------- */

/* As the definition has it: nine decimal digits. */
static float reciprocal_of(uint32_t i)
{
    char text[32];

    if (i > 65 * 65)
        return 1.0f / (float)i;
    snprintf(text, sizeof(text), "%.9g", 1.0 / i);
    return i ? strtof(text, NULL) : 0;
}

static void reciprocals(void **state)
{
    unsigned unlike = 0;
    (void)state;

    for (int32_t i = 0; i <= VG_CAMBI_TABLE_RECIPROCALS; i++) {
        assert_true(vg_cambi_reciprocal(i) == reciprocal_of((uint32_t)i));
        unlike += i && vg_cambi_reciprocal(i) != 1.0f / (float)i;
    }
    assert_int_equal(unlike, 42);
}

/* Columns or rows of first..last that are within half a window of `at`. */
static uint32_t within(int32_t at, int32_t window, int32_t first, int32_t last)
{
    const int32_t from = at - window / 2 > first ? at - window / 2 : first;
    const int32_t to = at + window / 2 < last ? at + window / 2 : last;
    return to < from ? 0 : (uint32_t)(to - from + 1);
}

/* The sum of all values of a scale where the first `left` of the columns have one level, the others one d above it. */
static double sum_of_halves(int32_t width, int32_t height, int32_t left, int32_t window, int32_t weight)
{
    double sum = 0;

    for (int32_t y = 0; y < height; y++) {
        const uint64_t rows = within(y, window, 0, height - 1);
        for (int32_t x = 0; x < width; x++) {
            const uint64_t a = rows * within(x, window, 0, left - 1), b = rows * within(x, window, left, width - 1);
            if (a && b)
                sum += (double)((float)((uint64_t)weight * a * b) * reciprocal_of((uint32_t)(a + b)));
        }
    }
    return sum;
}

/* A picture of 10 bits that is not resampled, all of whose pixels are masked and summed. */
static VgCambiParams plain_params(int32_t width, int32_t height, int32_t window, int32_t n)
{
    VgCambiParams params = { .width = width, .height = height, .bit_depth = 10, .n_differences = n };
    VgCambiSide *side = &params.sides[VG_CAMBI_DIST];

    *side = (VgCambiSide){ .width = width, .height = height, .window = window };
    for (int scale = 0; scale < VG_CAMBI_SCALES; scale++)
        side->top[scale] = vg_cambi_size(width, 0, scale) * vg_cambi_size(height, 0, scale);
    for (int d = 0; d < n; d++)
        params.limits[d] = 1023;
    return params;
}

static VgCambiRecord record_of(const VgCpuVariant *variant, const VgCambiParams *params, const uint16_t *samples)
{
    VgCpuFrame frame = { .index = 0 };
    void *scratch = allocate_scratch(params);
    VgCambiRecord record;

    frame.dist[0][0] = (VgPlane){ .data = (const uint8_t *)samples,
                                  .pitch = 2 * (ptrdiff_t)params->width,
                                  .width = params->width,
                                  .height = params->height,
                                  .step = 2,
                                  .sample_bytes = 2 };
    variant->run(params, &frame, 0, 1, scratch, &record);
    free(scratch);
    return record;
}

/*
 * Flat pictures have no values. Pictures of two levels have values around the border, however wide the window: up to the
 * widest, where a count takes more than 16 bits and weight * own * other more than 32.
 */
static void halves(void **state)
{
    static const int32_t windows[] = { 1, 3, 7, 31, 65, 67, 127, 175, 177, 209, 211, 255, 257, 265 };
    static const int32_t differences[] = { 1, 2, 5, 32 }, weights[] = VG_CAMBI_WEIGHTS;
    const int32_t width = 411, height = 290, border = 203;
    uint16_t *samples = allocate((size_t)(width * height) * sizeof(*samples));
    (void)state;

    for (unsigned w = 0; w < sizeof(windows) / sizeof(windows[0]); w++)
        for (unsigned k = 0; k < 4; k++) {
            const int32_t d = differences[k];
            const VgCambiParams params = plain_params(width, height, windows[w], d > 2 ? 32 : 2);
            for (const VgCpuVariant *v = cambi->cpu->variants; v->name; v++) {
                if (!v->supported())
                    continue;
                for (int32_t i = 0; i < width * height; i++)
                    samples[i] = 400;
                const VgCambiRecord flat = record_of(v, &params, samples);
                for (int32_t i = 0; i < width * height; i++)
                    samples[i] = (uint16_t)(i % width < border ? 400 : 400 + d);
                const VgCambiRecord record = record_of(v, &params, samples);
                for (int32_t scale = 0; scale < VG_CAMBI_SCALES; scale++) {
                    const double sum = sum_of_halves(vg_cambi_size(width, 0, scale), vg_cambi_size(height, 0, scale),
                                                     vg_cambi_size(border, 0, scale), windows[w], weights[d - 1]);
                    assert_true(flat.sums[VG_CAMBI_DIST][scale] == 0);
                    if (record.sums[VG_CAMBI_DIST][scale] != sum)
                        fail_msg("%s, window %d, difference %d, scale %d: %.17g, not %.17g", v->name, windows[w], d,
                                 scale, record.sums[VG_CAMBI_DIST][scale], sum);
                }
                assert_int_equal(record.largest[VG_CAMBI_DIST], 400 + d);
                assert_int_equal(record.largest[VG_CAMBI_SOURCE], 0);
            }
        }
    free(samples);
}

/* ---- Sums --------------------------------------------------------------------------------------------------------- */

/* The definition's selection by lists: positions of values up to the pivot, ascending, and from the pivot on, descending. */
static void select_by_lists(float *a, int32_t n, int32_t k)
{
    int32_t l = 0, r = n - 1, *xs = allocate((size_t)n * sizeof(*xs)), *ys = allocate((size_t)n * sizeof(*ys));

    while (l < r) {
        const float pivot = a[k];
        int32_t n_x = 0, n_y = 0, m = 0;
        for (int32_t i = l; i <= r; i++)
            if (a[i] <= pivot)
                xs[n_x++] = i;
        for (int32_t i = r; i >= l; i--)
            if (a[i] >= pivot)
                ys[n_y++] = i;
        while (m < n_x && m < n_y && xs[m] <= ys[m]) {
            const float value = a[xs[m]];
            a[xs[m]] = a[ys[m]];
            a[ys[m]] = value;
            m++;
        }
        const int32_t x = xs[m - 1], y = ys[m - 1];
        const int32_t next_x = m < n_x ? xs[m] : n, next_y = m < n_y ? ys[m] : -1;
        const int32_t i = x == y ? x + 1 : next_x < y ? next_x : y;
        const int32_t j = x == y ? y - 1 : next_y > x ? next_y : x;
        if (j < k)
            l = i;
        if (k < i)
            r = j;
    }
    free(xs);
    free(ys);
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static double sum_of(const float *values, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)values[i];
    return sum;
}

/* Values of a window, some of them alike, some 0; most of them large; in order, in reverse order, or in none. */
static void make_values(float *values, int32_t n, int32_t window, int kind, uint64_t *random)
{
    const int32_t zeros = kind == 5 ? 3 : 0; /* of four values */
    int32_t binades = 1;                     /* from 0.5 on */

    while (1 << binades < 2 * window * window)
        binades++;
    for (int32_t i = 0; i < n; i++) {
        const uint32_t r = kind & 1 ? random32(random) >> 1 : (uint32_t)random_to(random, 1, 15) * 0x9e3779b9u >> 1;
        const float mantissa = 0.5f + (float)(r >> 8) * 0x1p-24f;
        values[i] = random_to(random, 0, 3) < zeros
                        ? 0
                        : mantissa * (float)(1 << (r % 4 ? binades - 1 : (int32_t)(r / 4) % binades));
    }
    if (kind & 2)
        qsort(values, (size_t)n, sizeof(*values), compare_floats);
    for (int32_t i = 0; (kind & 4) && i < n / 2; i++) {
        const float value = values[i];
        values[i] = values[n - 1 - i];
        values[n - 1 - i] = value;
    }
}

static void sums_in_order(void **state)
{
    /* Sums of small windows are exact; those of larger ones depend on the order. The last is one that may not fit integers. */
    static const int32_t windows[] = { 9, 209, 265 };
    static uint32_t bins[VG_CAMBI_BINS];
    unsigned matters[3] = { 0 };
    uint64_t random = 1;
    (void)state;

    for (unsigned i = 0; i < 900; i++) {
        const unsigned w = i % 3;
        const int32_t window = windows[w], n = i == 899 ? 4000000
                                               : i < 30 ? (int32_t)i / 3 + 1
                                                        : random_to(&random, 1, 40000);
        const int32_t top = i == 899 ? 3600000 : random_to(&random, i % 4 ? n - n / 20 : 1, n);
        const VgCambiParams params = plain_params(1, 1, window, 32);
        const size_t size = (size_t)n * sizeof(float);
        float *values = allocate(size), *expected = allocate(size), *sorted = allocate(size);

        assert_int_equal(vg_cambi_sum_may_overflow(top, 32, window), i == 899);
        make_values(values, n, window, (int)(i / 3 % 8), &random);
        memcpy(expected, values, size);
        memcpy(sorted, values, size);
        qsort(sorted, (size_t)n, sizeof(*sorted), compare_floats);
        if (top < n)
            select_by_lists(expected, n, top);
        const double sum = sum_of(expected, top);
        if (vg_cambi_sum_of_largest(&params, VG_CAMBI_DIST, values, n, top, bins) != sum)
            fail_msg("case %u: sum of %d of %d values differs", i, top, n);
        matters[w] += sum_of(sorted, top) != sum;
        free(values);
        free(expected);
        free(sorted);
    }
    assert_int_equal(matters[0], 0);
    if (matters[1] < 20 || matters[2] < 30)
        fail_msg("order matters to %u and %u of 300 sums", matters[1], matters[2]);
}

/* ---- Variants ----------------------------------------------------------------------------------------------------- */

/*
 * What banding looks like, and what disturbs it: `kind` says how levels change over the picture, in which steps of 10-bit
 * levels; sprinkled pixels break runs and the mask.
 */
static void draw(uint16_t *samples, const VgCambiParams *params, uint64_t *random)
{
    const int32_t depth = params->bit_depth, max = (1 << depth) - 1, kind = random_to(random, 0, 5);
    const int32_t step = depth > 10 ? 1 << (depth - 10) : 1,
                  start = random_to(random, 0, random_to(random, 0, 3) ? max / 2 : max);
    const int32_t band = random_to(random, 1, 40), slope = random_to(random, -3, 3), high = random_to(random, 0, 9);
    const int32_t sprinkle = random_to(random, 0, 3) ? random_to(random, 20, 400) : 0,
                  rough = random_to(random, 0, 2) ? 0 : random_to(random, 0, step - 1);
    uint32_t hash = random32(random);

    for (int32_t y = 0; y < params->height; y++)
        for (int32_t x = 0; x < params->width; x++) {
            int32_t level = 0;
            switch (kind) {
            case 0: /* bands */
                level = (x + slope * y + 1000) / band;
                break;
            case 1: /* rings */
                level = ((x - 60) * (x - 60) + (y - 30) * (y - 30)) / (40 * band);
                break;
            case 2: /* squares of few levels */
                level = (int32_t)((hash * (uint32_t)(x / band * 977 + y / band * 3571 + 1)) >> 20) % (high + 1);
                break;
            case 3: /* rows alike */
                level = (int32_t)((hash * (uint32_t)(x / band + 1)) >> 24) % (4 * high + 1);
                break;
            case 4: /* columns alike */
                level = (int32_t)((hash * (uint32_t)(y / band + 1)) >> 24) % (4 * high + 1);
                break;
            default: /* nearly flat */
                level = x + slope * y > 90;
            }
            if (sprinkle && random_to(random, 0, sprinkle) == 0)
                level += random_to(random, -3, 3);
            const int32_t sample = start + level * step + (rough ? random_to(random, 0, rough) / 2 : 0);
            samples[y * params->width + x] = (uint16_t)(sample < 0 ? 0 : sample > max ? max : sample);
        }
}

static void random_side(VgCambiParams *params, int side, uint64_t *random)
{
    VgCambiSide *s = &params->sides[side];
    const int resampled = random_to(random, 0, 3) == 0;
    const int32_t most = random_to(random, 0, 3) ? 35 : VG_CAMBI_MOST_WINDOW / 2;

    s->width = resampled ? random_to(random, 1, 400) : params->width;
    s->height = resampled ? random_to(random, 1, 90) : params->height;
    s->window = 2 * random_to(random, 0, most) + 1;
    s->mask_index = random_to(random, 0, 28);
    for (int scale = 0; scale < VG_CAMBI_SCALES; scale++) {
        const int32_t n =
            vg_cambi_size(s->width, params->speedup, scale) * vg_cambi_size(s->height, params->speedup, scale);
        s->top[scale] = random_to(random, 0, 3) ? (3 * n + 4) / 5 : random_to(random, 1, n);
    }
}

static VgCambiParams random_params(uint64_t *random)
{
    VgCambiParams params = {
        .width = random_to(random, 0, 4) ? random_to(random, 1, 330) : random_to(random, 330, 700),
        .height = random_to(random, 0, 4) ? random_to(random, 1, 70) : random_to(random, 70, 300),
        .bit_depth = random_to(random, 8, 16),
        .speedup = random_to(random, 0, 3) == 0,
        .anti_dither = random_to(random, 0, 2) == 0,
        .heatmaps = random_to(random, 0, 1),
        .dark = random_to(random, 0, 2) ? 0 : random_to(random, 65, 700),
        .n_differences = 1 << random_to(random, 0, 5),
    };
    int32_t limit = random_to(random, 0, 600);

    for (int d = 0; d < params.n_differences; d++) {
        params.limits[d] = limit;
        limit += random_to(random, 0, 200);
        limit = limit < 1023 ? limit : 1023;
    }
    random_side(&params, VG_CAMBI_DIST, random);
    if (random_to(random, 0, 3) == 0)
        random_side(&params, VG_CAMBI_SOURCE, random);
    return params;
}

/* The same samples as bytes, where they fit, or words, in either half of these. */
static VgPlane lay_out(const uint16_t *samples, const VgCambiParams *params, int layout, uint8_t *memory)
{
    const int32_t bytes = params->bit_depth == 8 && layout == 0 ? 1 : 2;
    const VgPlane plane = {
        .data = memory,
        .pitch = (params->width + 3) * bytes,
        .width = params->width,
        .height = params->height,
        .step = bytes,
        .sample_bytes = bytes,
        .shift = layout == 1 ? 16 - params->bit_depth : 0,
    };

    for (int32_t y = 0; y < params->height; y++)
        for (int32_t x = 0; x < params->width; x++) {
            const uint16_t sample = samples[y * params->width + x];
            if (bytes == 1)
                memory[y * plane.pitch + x] = (uint8_t)sample;
            else
                ((uint16_t *)(void *)(memory + y * plane.pitch))[x] =
                    (uint16_t)(sample << plane.shift | ((1 << plane.shift) - 1));
        }
    return plane;
}

/* Record and heatmaps. */
static void run_variant(const VgCpuVariant *variant, const VgCambiParams *params, const VgCpuFrame *frame, int n_bands,
                        size_t size, void *record)
{
    void *scratch = allocate_scratch(params), *partial = allocate(size);

    for (int band = 0; band < n_bands; band++) {
        memset(band ? partial : record, 0x5a, size);
        variant->run(params, frame, band, n_bands, scratch, band ? partial : record);
        if (band)
            cambi->cpu->add(record, partial);
    }
    free(scratch);
    free(partial);
}

static void variants_agree_on_any_params(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    const unsigned n_cases = 150;
#else
    const unsigned n_cases = 600;
#endif
    unsigned not_zero = 0;
    uint64_t random = 7;
    (void)state;

    for (unsigned i = 0; i < n_cases; i++) {
        const VgCambiParams params = random_params(&random);
        const size_t n = (size_t)(params.width * params.height);
        const size_t size =
            sizeof(VgCambiRecord) + (params.heatmaps ? (size_t)vg_cambi_heatmap_pixels(&params) * sizeof(uint16_t) : 0);
        uint16_t *samples = allocate(n * sizeof(*samples));
        uint8_t *memory = allocate((size_t)((params.width + 3) * params.height) * 4), *expected = allocate(size);
        uint8_t *record = allocate(size);
        VgCpuFrame frame = { .index = 0 };

        draw(samples, &params, &random);
        frame.dist[0][0] = lay_out(samples, &params, (int)(i % 3), memory);
        frame.ref[0][0] = lay_out(samples, &params, (int)(i / 3 % 3), memory + (params.width + 3) * params.height * 2);
        run_variant(&cambi->cpu->variants[0], &params, &frame, 1, size, expected);
        for (const VgCpuVariant *v = cambi->cpu->variants; v->name; v++)
            for (int n_bands = 1; v->supported() && n_bands <= 3; n_bands++) {
                run_variant(v, &params, &frame, n_bands, size, record);
                if (memcmp(record, expected, size))
                    fail_msg("case %u, %dx%d to %dx%d, %d bits, window %d: %s in %d bands differs", i, params.width,
                             params.height, params.sides[0].width, params.sides[0].height, params.bit_depth,
                             params.sides[0].window, v->name, n_bands);
            }
        not_zero += ((const VgCambiRecord *)(const void *)expected)->sums[VG_CAMBI_DIST][0] > 0;
        free(samples);
        free(memory);
        free(expected);
        free(record);
    }
    if (not_zero < n_cases / 3)
        fail_msg("only %u of %u pictures have values", not_zero, n_cases);
}

/* Heatmaps are the values of all scales, quantised. */
static void heatmaps(void **state)
{
    const Clip *clip = clip_get("ramp block:16 480 270 420 8 1 1");
    const HarnessCase test_case = { clip->geometry, "" };
    VgCambiParams params = { 0 };
    (void)state;

    harness_params(cambi, &test_case, &params);
    params.heatmaps = 1;
    const size_t size = sizeof(VgCambiRecord) + (size_t)vg_cambi_heatmap_pixels(&params) * sizeof(uint16_t);
    uint8_t *record = allocate(size);
    const uint16_t *heatmap = (const void *)(record + sizeof(VgCambiRecord));
    const double factor = 65535 / (double)(4 * 9 * 9 / 4);
    VgCpuFrame frame = { .index = 0 };
    Planes planes = planes_of(clip, &params);
    unsigned not_zero = 0;

    frame.dist[0][0] = luma_of(clip);
    run_variant(vg_cpu_best_variant(cambi->cpu), &params, &frame, 1, size, record);
    for (unsigned scale = 0; scale < VG_CAMBI_SCALES; scale++) {
        const float *values = planes.plane[C + scale].bytes;
        const size_t n = planes.plane[C + scale].size / sizeof(*values);
        for (size_t i = 0; i < n; i++, heatmap++) {
            assert_int_equal(*heatmap, (uint32_t)(factor * (double)values[i]) & 0xffff);
            not_zero += *heatmap != 0;
        }
    }
    assert_ptr_equal(heatmap, record + size);
    assert_true(not_zero > 1000);
    free(record);
    planes_free(&planes);
    clip_free_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {

        cmocka_unit_test(golden_rows),
        cmocka_unit_test(golden_rows_of_odd_depths),
        cmocka_unit_test(golden_rows_of_short_pictures),
        cmocka_unit_test(golden_stages),
        cmocka_unit_test(golden_planes),
        cmocka_unit_test(reciprocals),
        cmocka_unit_test(halves),
        cmocka_unit_test(sums_in_order),
        cmocka_unit_test(heatmaps),
        cmocka_unit_test(variants_agree_on_any_params),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
