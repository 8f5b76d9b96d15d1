/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * speed_chroma and speed_temporal against golden values, stage by stage; their arithmetic and their rules in closed form.
 * With --every-log2, every argument in binary32 from 2^-30 to 2^41 instead, against 113-bit arithmetic: takes minutes.
 */
#include "tests/cmocka_includes.h"

#include "cpu_ref/speed.h"
#include "tests/clipgen.h"
#include "tests/emitted.h"
#include "tests/golden.h"
#include "tests/harness.h"
#include "tests/messages.h"
#include "tests/near_singular.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { U, V, UV };

static void golden_table(const char *name, const char *metric, size_t n_rows, unsigned n_threads)
{
    Golden golden = golden_read(name);

    assert_int_equal(golden.n_rows, n_rows);
    golden_score(&golden, metric, n_threads, NULL);
    golden_free(&golden);
    clip_free_all();
}

static void golden_chroma(void **state)
{
    (void)state;
    golden_table("speed_chroma.tsv.gz", "speed_chroma", 777, 3);
}

static void golden_temporal(void **state)
{
    (void)state;
    golden_table("speed_temporal.tsv.gz", "speed_temporal", 373, 3);
}

/* libvmaf 3.2.0 writes beyond its buffers there; these are the values with the buffers' size corrected. */
static void golden_temporal_enlarged(void **state)
{
    (void)state;
    golden_table("speed_upscale.tsv.gz", "speed_temporal", 36, 1);
}

/* ---- Stages ------------------------------------------------------------------------------------------------------- */

enum { STAGE_IMAGE, STAGE_NAME, STAGE_ROWS, STAGE_COLUMNS, STAGE_VALUES };

static const char *const stage_names[] = {
    [VG_SPEED_STAGE_DECIMATED] = "decimated",
    [VG_SPEED_STAGE_PLANE] = "plane",
    [VG_SPEED_STAGE_MEANS] = "mean",
    [VG_SPEED_STAGE_SUMS] = "covsum",
    [VG_SPEED_STAGE_COVARIANCES] = "cov",
    [VG_SPEED_STAGE_DIAGONAL] = "tridiag_d",
    [VG_SPEED_STAGE_OFF_DIAGONAL] = "tridiag_e",
    [VG_SPEED_STAGE_EIGENVALUES] = "eigenvalues",
    [VG_SPEED_STAGE_Q] = "Q",
    [VG_SPEED_STAGE_R] = "R",
    [VG_SPEED_STAGE_X] = "X",
    [VG_SPEED_STAGE_S] = "S",
    [VG_SPEED_STAGE_E] = "E",
};
#define N_STAGES (sizeof(stage_names) / sizeof(stage_names[0]))

/* Stages of both sides, as doubles without gaps. */
typedef struct Stages {
    struct {
        double *values;
        int32_t rows, columns;
    } stage[2][N_STAGES];
} Stages;

static void see(void *opaque, int side, VgSpeedStage stage, const void *values, int32_t rows, int32_t columns,
                ptrdiff_t pitch)
{
    Stages *stages = opaque;
    double *copy = malloc((size_t)rows * (size_t)columns * sizeof(*copy));

    assert_non_null(copy);
    assert_null(stages->stage[side][stage].values);
    stages->stage[side][stage].values = copy;
    stages->stage[side][stage].rows = rows;
    stages->stage[side][stage].columns = columns;
    for (int32_t y = 0; y < rows; y++)
        for (int32_t x = 0; x < columns; x++)
            *copy++ = stage == VG_SPEED_STAGE_SUMS ? ((const double *)values)[y * pitch + x]
                                                   : (double)((const float *)values)[y * pitch + x];
}

static void stages_free(Stages *stages)
{
    for (int side = 0; side < 2; side++)
        for (unsigned s = 0; s < N_STAGES; s++)
            free(stages->stage[side][s].values);
}

/* Reads the next of a row's values. */
static double next_value(const char **text)
{
    char *end;
    const double value = strtod(*text, &end);

    assert_true(end != *text);
    *text = end;
    return value;
}

/* Returns how many values differ, and says which is the first. */
static unsigned compare_stage(const Golden *golden, size_t row, const Stages *stages, char *first, size_t size)
{
    unsigned different = 0;
    const char *name = golden_cell(golden, row, STAGE_NAME), *text = golden_cell(golden, row, STAGE_VALUES);
    const int side = !strcmp(golden_cell(golden, row, STAGE_IMAGE), "dist");
    const int32_t rows = atoi(golden_cell(golden, row, STAGE_ROWS));
    const int32_t columns = atoi(golden_cell(golden, row, STAGE_COLUMNS));
    unsigned s = 0;

    while (s < N_STAGES && strcmp(stage_names[s], name))
        s++;
    assert_true(s < N_STAGES);
    if (!stages->stage[side][s].values) { /* a regular matrix taken for a singular one */
        snprintf(first, size, "%s, side %d: none", name, side);
        return 1;
    }
    assert_int_equal(stages->stage[side][s].rows, rows);
    assert_int_equal(stages->stage[side][s].columns, columns);
    for (int32_t i = 0; i < rows * columns; i++) {
        const double expected = next_value(&text), value = stages->stage[side][s].values[i];
        if (memcmp(&expected, &value, sizeof(value)) && !different++)
            snprintf(first, size, "%s, side %d: value %d is %a, not %a", name, side, i, value, expected);
    }
    return different;
}

/* Weighted entropies of a block. */
static void check_block(const Golden *golden, size_t row, const VgSpeedParams *params, const Stages *stages)
{
    const int block = atoi(golden_cell(golden, row, STAGE_ROWS));
    const char *text = golden_cell(golden, row, STAGE_VALUES);
    float s[2], e[2];

    for (int side = 0; side < 2; side++) {
        s[side] = (float)stages->stage[side][VG_SPEED_STAGE_S].values[block];
        e[side] = (float)stages->stage[side][VG_SPEED_STAGE_E].values[block];
    }
    const VgSpeedWeights weights = vg_speed_weights(params->weighting, s[0], s[1]);
    assert_true(vg_speed_weighted(e[0], vg_log2(weights.ref)) == next_value(&text));
    assert_true(vg_speed_weighted(e[1], vg_log2(weights.dist)) == next_value(&text));
}

typedef struct StageCase {
    const char *table; /* NULL: none */
    const char *ref, *dist;
    const VgMetric *metric;
    const char *options;
    int plane; /* of the record */
    unsigned frame, n_rows;
} StageCase;

static const StageCase stage_cases[] = {
    { "speed_stages_chroma_u.tsv.gz", "tex none 176 176 444 8 1 2", "tex blur 176 176 444 8 1 2",
      &vg_metric_speed_chroma, "", 0, 0, 33 },
    { "speed_stages_model_v.tsv.gz", "noise none 640 480 444 10 1 3", "noise blur+quant:24 640 480 444 10 1 3",
      &vg_metric_speed_chroma,
      "speed_nn_floor=0.1:speed_sigma_nn=0.19:speed_weight_var_mode=5:speed_max_val=45:speed_prescale=0.6:"
      "speed_prescale_method=bilinear",
      1, 0, 41 },
    { "speed_stages_temporal.tsv.gz", "mix none 227 181 444 8 2 5", "mix quant:9 227 181 444 8 2 5",
      &vg_metric_speed_temporal, "", 0, 1, 32 },
    { "speed_stages_cov.tsv.gz", "noise none 575 181 444 8 1 5", "noise blur 575 181 444 8 1 5",
      &vg_metric_speed_chroma, "", 0, 0, 15 },
};

static void check_scores(const StageCase *c, const Golden *golden, const VgGeometry *geometry, uint64_t frame,
                         const VgSpeedRecord *record)
{
    static const char *const prefixes[] = { "speed_chroma_u", "speed_chroma_v", "speed_chroma_uv" };
    void *options = harness_options(c->metric, c->options);
    uint64_t rules[8] = { 0 };
    const VgScoreContext context = { .geometry = geometry, .options = options };
    Emitted emitted;
    VgEmit emit = emitted_to(&emitted);
    unsigned found = 0;

    assert_true(c->metric->state_size <= sizeof(rules));
    assert_int_equal(c->metric->score(&context, rules, frame, record, &emit), 0);
    for (size_t row = 0; row < golden->n_rows; row++) {
        const char *name = golden_cell(golden, row, STAGE_NAME);
        if (strcmp(golden_cell(golden, row, STAGE_IMAGE), "score") ||
            strtoull(golden_cell(golden, row, STAGE_ROWS), NULL, 10) != frame)
            continue;
        unsigned key = c->metric == &vg_metric_speed_temporal ? 0 : UV;
        while (key && strncmp(name, prefixes[key], strlen(prefixes[key])))
            key--;
        assert_true(golden_equal(golden_cell(golden, row, STAGE_VALUES), emitted.value[key][frame]));
        found++;
    }
    assert_int_equal(found, c->metric == &vg_metric_speed_temporal ? 1 : 3);
    harness_options_free(c->metric, options);
}

/* A case with everything that a pass needs. */
typedef struct Prepared {
    Golden golden;
    VgGeometry geometry;
    VgPicture pictures[2][2];
    VgFramePictures frame;
    VgCpuFrame planes;
    VgSpeedParams params;
    void *scratch;
    Stages stages;
} Prepared;

static void prepare(const StageCase *c, Prepared *p)
{
    const Clip *ref = clip_get(c->ref), *dist = clip_get(c->dist);
    const HarnessCase test_case = { ref->geometry, c->options };

    memset(p, 0, sizeof(*p));
    if (c->table) {
        p->golden = golden_read(c->table);
        assert_int_equal(p->golden.n_rows, c->n_rows);
    }
    p->geometry = ref->geometry;
    p->frame.frame = p->planes.index = c->frame;
    for (unsigned k = 0; k <= c->frame; k++) {
        p->pictures[0][k] = clip_picture(ref, c->frame - k);
        p->pictures[1][k] = clip_picture(dist, c->frame - k);
        p->frame.ref[k] = &p->pictures[0][k];
        p->frame.dist[k] = &p->pictures[1][k];
        for (int component = 0; component < 3; component++) {
            p->planes.ref[k][component] = vg_picture_plane(&p->pictures[0][k], component);
            p->planes.dist[k][component] = vg_picture_plane(&p->pictures[1][k], component);
        }
    }
    harness_params(c->metric, &test_case, &p->params);
    p->scratch = aligned_alloc(64, (c->metric->cpu->scratch_size(&p->params) + 63) & ~(size_t)63);
    assert_non_null(p->scratch);
}

static void prepared_free(Prepared *p)
{
    free(p->scratch);
    stages_free(&p->stages);
    golden_free(&p->golden);
}

/* All rows of the table but those of blocks and scores. */
static unsigned compare_stages(const Prepared *p, char *first, size_t size)
{
    unsigned different = 0;

    for (size_t row = 0; row < p->golden.n_rows; row++) {
        const char *image = golden_cell(&p->golden, row, STAGE_IMAGE);
        char words[128];
        if (!strcmp(image, "pair") || !strcmp(image, "score"))
            continue;
        const unsigned n = compare_stage(&p->golden, row, &p->stages, words, sizeof(words));
        if (n && !different)
            snprintf(first, size, "%s", words);
        different += n;
    }
    return different;
}

static void check_stages(const StageCase *c)
{
    Prepared p;
    const VgSpeedObserver observer = { see, &p.stages };
    VgSpeedRecord record;
    char first[128];

    prepare(c, &p);
    vg_speed_show_stages(&p.params, &p.planes, c->plane, p.scratch, &observer);
    if (compare_stages(&p, first, sizeof(first)))
        fail_msg("%s: %s", c->table, first);
    for (size_t row = 0; row < p.golden.n_rows; row++)
        if (!strcmp(golden_cell(&p.golden, row, STAGE_IMAGE), "pair"))
            check_block(&p.golden, row, &p.params, &p.stages);
    harness_yardstick(c->metric, &p.params, &p.frame, &record);
    check_scores(c, &p.golden, &p.geometry, c->frame, &record);
    prepared_free(&p);
}

static void golden_stages(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(stage_cases) / sizeof(stage_cases[0]); i++)
        check_stages(&stage_cases[i]);
    clip_free_all();
}

/* ---- Planted faults: stage values must show what scores mostly hide ------------------------------------------------ */

static enum Fault {
    NONE,
    LANES_IN_ORDER,
    LANES_IN_PAIRS,
    TAIL_FUSED,
    FMA_SPLIT,
    MEANS_IN_FLOAT,
    LOW_BITS_LOST,
    NARROW_LOW_PASS,
    NO_SHIFT,
    RECIPROCAL_25,
    EPSILON_LARGE,
    LOG2_IN_FLOAT,
    ROUNDED_TWICE,
    REF_FOR_DIST,
    N_FAULTS
} fault;

static const char *const fault_names[N_FAULTS] = {
    [LANES_IN_ORDER] = "lanes added in their order",
    [LANES_IN_PAIRS] = "lanes added in neighbouring pairs",
    [TAIL_FUSED] = "fma for the last columns",
    [FMA_SPLIT] = "fma taken apart",
    [MEANS_IN_FLOAT] = "means subtracted in f32",
    [LOW_BITS_LOST] = "low bits of samples lost",
    [NARROW_LOW_PASS] = "low pass narrower",
    [NO_SHIFT] = "no shift",
    [RECIPROCAL_25] = "product with 1 / 25",
    [EPSILON_LARGE] = "limit of singular values too large",
    [LOG2_IN_FLOAT] = "logarithm in f32",
    [ROUNDED_TWICE] = "logarithm's sum rounded twice",
    [REF_FOR_DIST] = "the reference's current frame for the distorted one",
};

static double wrong_join(const double lanes[VG_SPEED_LANES + 1])
{
    double sums[8], sum = lanes[0];

    if (fault == LANES_IN_ORDER) {
        for (int l = 1; l <= VG_SPEED_LANES; l++)
            sum += lanes[l];
        return sum;
    }
    if (fault != LANES_IN_PAIRS)
        return vg_speed_join_lanes(lanes);
    for (int l = 0; l < 8; l++)
        sums[l] = lanes[l] + lanes[l + 8];
    return (((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))) +
           lanes[VG_SPEED_LANES];
}

static double wrong_product(double lane, double a, double b)
{
    if (fault == FMA_SPLIT)
        return lane + a * b;
    if (fault == MEANS_IN_FLOAT)
        return vg_speed_add_product(lane, (double)(float)a, (double)(float)b);
    return vg_speed_add_product(lane, a, b);
}

static double wrong_tail(double sum, double a, double b)
{
    return fault == TAIL_FUSED ? vg_speed_add_product(sum, a, b) : vg_speed_add_rounded(sum, a, b);
}

static float wrong_sample(int32_t sample, float unit)
{
    return vg_speed_sample(fault == LOW_BITS_LOST && unit < 1 ? sample & ~3 : sample, unit);
}

static float wrong_shift(float d_before, float d_end, float e_end, float d_first, float e_first)
{
    return fault == NO_SHIFT ? d_end : vg_speed_shift(d_before, d_end, e_end, d_first, e_first);
}

static float wrong_variance_term(float x, float y)
{
    return fault == RECIPROCAL_25 ? x * y * (1.0f / 25) : vg_speed_variance_term(x, y);
}

static int wrong_singular(float value)
{
    return fault == EPSILON_LARGE ? value < 1 : vg_speed_is_singular(value);
}

static float wrong_entropy(float e, float argument)
{
    if (fault == LOG2_IN_FLOAT)
        return vg_speed_add_entropy(e, (double)(float)vg_log2((double)argument));
    if (fault == ROUNDED_TWICE)
        return e + (float)(vg_log2((double)argument) + VG_SPEED_GAUSS);
    return vg_speed_add_entropy_of(e, argument);
}

#define VG_LINKAGE              static inline
#define VG_RUN                  speed_planted
#define vg_speed_join_lanes     wrong_join
#define vg_speed_add_product    wrong_product
#define vg_speed_add_rounded    wrong_tail
#define vg_speed_sample         wrong_sample
#define vg_speed_shift          wrong_shift
#define vg_speed_variance_term  wrong_variance_term
#define vg_speed_is_singular    wrong_singular
#define vg_speed_add_entropy_of wrong_entropy
#include "cpu_ref/speed_body.h"
#undef vg_speed_join_lanes
#undef vg_speed_add_product
#undef vg_speed_add_rounded
#undef vg_speed_sample
#undef vg_speed_shift
#undef vg_speed_variance_term
#undef vg_speed_is_singular
#undef vg_speed_add_entropy_of

/* Values of all cases that differ. */
static unsigned planted_differences(char *first, size_t size)
{
    unsigned different = 0;

    for (unsigned i = 0; i < sizeof(stage_cases) / sizeof(stage_cases[0]); i++) {
        Prepared p;
        const VgSpeedObserver observer = { see, &p.stages };
        VgSpeedRecord record;
        char words[128];
        prepare(&stage_cases[i], &p);
        p.params.n_taps -= fault == NARROW_LOW_PASS ? 2 : 0;
        p.params.use_ref_diff |= fault == REF_FOR_DIST;
        score_plane(&p.params, &p.planes, stage_cases[i].plane, p.scratch, &record, &observer);
        const unsigned n = compare_stages(&p, words, sizeof(words));
        if (n && !different)
            snprintf(first, size, "%s", words);
        different += n;
        prepared_free(&p);
    }
    return different;
}

static void planted_faults_are_seen(void **state)
{
    char first[128];
    (void)state;

    for (fault = NONE; fault < N_FAULTS; fault++) {
        const unsigned n = planted_differences(first, sizeof(first));
        if (!n != (fault == NONE))
            fail_msg("%u values differ with fault %d: %s", n, (int)fault, fault ? fault_names[fault] : "none");
        if (n)
            printf("# %s: %u values differ, first: %s\n", fault_names[fault], n, first);
    }
    clip_free_all();
}

/* ---- Constants ---------------------------------------------------------------------------------------------------- */

/* Finds the kernel with n taps, among those of all values of the option that are accepted. */
static const float *kernel_of(int low_pass, int n, VgSpeedParams *params)
{
    static const char *const scales[] = { "1",       "0.5",     "1.5",    "2",       "0.666667", "2.4",     "3.71134",
                                          "1.33333", "1.16667", "1.25",   "1.41667", "1.66667",  "3",       "0.444444",
                                          "1.4746",  "1.54",    "1.6",    "1.06667", "0.711111", "0.74074", "1.11111",
                                          "1.0005",  "2.0005",  "3.0005", "0.4445",  "3.711" };

    for (unsigned i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
        HarnessCase c = { { 400, 400, VG_CHROMA_444, 8 }, "" };
        char options[64];
        snprintf(options, sizeof(options), "speed_kernelscale=%s", scales[i]);
        c.options = options;
        memset(params, 0, sizeof(*params));
        harness_params(&vg_metric_speed_chroma, &c, params);
        if ((low_pass ? params->n_taps : params->n_mean_taps) == n)
            return low_pass ? params->taps : params->mean_taps;
    }
    return NULL;
}

static void golden_kernels(void **state)
{
    enum { USE, COUNT, SIGMA, TAPS };
    Golden golden = golden_read("speed_kernels.tsv.gz");
    (void)state;

    assert_int_equal(golden.n_rows, 16);
    for (size_t row = 0; row < golden.n_rows; row++) {
        const int n = atoi(golden_cell(&golden, row, COUNT));
        const int low_pass = !strcmp(golden_cell(&golden, row, USE), "antialias");
        const char *text = golden_cell(&golden, row, TAPS);
        VgSpeedParams params;
        const float *taps = kernel_of(low_pass, n, &params);
        if (!taps)
            fail_msg("no kernel of %d taps", n);
        for (int i = 0; i < n; i++)
            assert_true(taps[i] == next_value(&text));
    }
    golden_free(&golden);
}

/* ---- Logarithm ---------------------------------------------------------------------------------------------------- */

static void golden_log2(void **state)
{
    enum { X, LOG2 };
    Golden golden = golden_read("log2.tsv.gz");
    (void)state;

    assert_int_equal(golden.n_rows, 774);
    for (size_t row = 0; row < golden.n_rows; row++) {
        const double x = strtod(golden_cell(&golden, row, X), NULL);
        if (!golden_equal(golden_cell(&golden, row, LOG2), vg_log2(x)))
            fail_msg("log2(%a) is %a, not %s", x, vg_log2(x), golden_cell(&golden, row, LOG2));
    }
    golden_free(&golden);
}

static void special_logarithms(void **state)
{
    (void)state;

    assert_true(vg_log2(0) == -INFINITY && vg_log2(-0.0) == -INFINITY);
    assert_true(vg_log2(INFINITY) == INFINITY);
    assert_true(isnan(vg_log2(-1)) && isnan(vg_log2(-INFINITY)) && isnan(vg_log2(NAN)) && isnan(vg_log2(-0x1p-1074)));
    for (int k = -1074; k < 1024; k++)
        assert_true(vg_log2(ldexp(1, k)) == k);
}

/* 113 bits: binary128, which compilers for x86 do in software. */
#if defined(__x86_64__) || defined(__i386__)
typedef __float128 Wide;
#else
typedef long double Wide;
#endif

/* By the same series as vg_log2(), with as many terms as 113 bits take. */
static double wide_log2(double x)
{
    const Wide two_by_ln2 = (Wide)0x1.71547652b82fep+1 + (Wide)0x1.777d0ffda0d24p-55;
    int exponent;
    Wide m = frexp(x, &exponent), power = 1, sum = 0;

    if (m < 0.70710678) {
        m *= 2;
        exponent--;
    }
    const Wide s = (m - 1) / (m + 1), z = s * s;
    for (int n = 0; n < 24; n++, power *= z)
        sum += power / (2 * n + 1);
    return (double)(exponent + two_by_ln2 * s * sum);
}

static void check_log2(double x)
{
    const double expected = wide_log2(x), value = vg_log2(x);
    if (memcmp(&expected, &value, sizeof(value)))
        fail_msg("log2(%a) is %a, not %a", x, value, expected);
    if (x >= VG_LOG2_NEAR_FIRST && x < VG_LOG2_NEAR_END)
        assert_true(fabs(vg_log2_near(x) - value) < 0.75 * VG_LOG2_NEAR_ERROR);
}

#define FIRST_ARGUMENT 0x30800000u /* 2^-30 */
#define END_ARGUMENT   0x54000000u /* 2^41 */

static void dense_log2(void **state)
{
    uint64_t random = 1;
    (void)state;

    for (uint32_t bits = FIRST_ARGUMENT; bits < END_ARGUMENT; bits += 4001)
        check_log2((double)vg_bits_float(bits));
    for (uint32_t bits = 0x3f700000u; bits < 0x3f900000u; bits += 61) /* around 1, where the sum is smallest */
        check_log2((double)vg_bits_float(bits));
    for (int i = 0; i < 100000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        check_log2(vg_bits_double((random >> 12) | (uint64_t)(1023 - 8 + i % 24) << 52));
    }
}

/* What is clearly nearer to the extended value than the halves of units need not be looked at in 113 bits. */
static int every_log2(void)
{
    for (uint32_t bits = FIRST_ARGUMENT; bits < END_ARGUMENT; bits++) {
        const double x = (double)vg_bits_float(bits), value = vg_log2(x);
        const double unit = nextafter(fabs(value), INFINITY) - fabs(value);
        if (!(fabsl((long double)value - log2l((long double)x)) < 0.498L * (long double)unit) &&
            value != wide_log2(x)) {
            printf("log2(%a) is %a, not %a\n", x, value, wide_log2(x));
            return 1;
        }
    }
    printf("%u logarithms are right\n", END_ARGUMENT - FIRST_ARGUMENT);
    return 0;
}

/* ---- Arithmetic --------------------------------------------------------------------------------------------------- */

/* Units in the last place that an approximation is off at most. */
enum { NEAR_UNITS = 16 };

static void every_rsqrt(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    const int step = NEAR_UNITS;
#else
    const int step = 1;
#endif
    for (uint32_t bits = 0x3f800000u; bits <= 0x40000000u; bits++) {
        const float v = vg_bits_float(bits), expected = (float)(1 / sqrt((double)v));
        for (int off = -NEAR_UNITS; off <= NEAR_UNITS; off += step) {
            const float root = vg_speed_rsqrt(v, vg_speed_near_rsqrt(vg_bits_float(bits + (uint32_t)off)));
            if (root != expected)
                fail_msg("1 / sqrt(%a) is %a with %d units off", (double)v, (double)root, off);
        }
    }
}

static float unit_quotient(uint32_t n, uint32_t d, float near)
{
    return vg_speed_quotient(vg_bits_float(0x3f800000u | n), vg_bits_float(0x3f800000u | d), near);
}

static void all_quotients_of(uint32_t d, float near)
{
    for (uint32_t n = 0; n < 1u << 23; n++)
        if (unit_quotient(n, d, near) != vg_bits_float(0x3f800000u | n) / vg_bits_float(0x3f800000u | d))
            fail_msg("quotient of mantissas %06x and %06x from %a", n, d, (double)near);
}

/*
 * What vg_speed_quotient() says of reciprocals that are not the nearest numbers after a step of Newton's, and of the last
 * numerators; and a sample of all others. The exponents do not matter.
 */
static void every_reciprocal(void **state)
{
    enum { LAST_NUMERATORS = 16 };
    unsigned not_nearest = 0;
    uint64_t random = 1;
    (void)state;

    for (uint32_t d = 0; d < 1u << 23; d++) {
        const float x = vg_bits_float(0x3f800000u | d), nearest = 1 / x;
        if (!vg_speed_has_quotient(1, x))
            continue;
        for (int off = -2; off <= 2; off++) {
            const float near = vg_bits_float(vg_float_bits(nearest) + (uint32_t)off);
            if (fmaf(near, fmaf(-x, near, 1), near) == nearest)
                continue;
            not_nearest++;
            all_quotients_of(d, near);
        }
        for (uint32_t n = (1u << 23) - LAST_NUMERATORS; n < 1u << 23; n++)
            if (unit_quotient(n, d, nearest) != vg_bits_float(0x3f800000u | n) / x)
                fail_msg("quotient of mantissas %06x and %06x", n, d);
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint32_t n = (uint32_t)(random >> 41);
        if (unit_quotient(n, d, nearest) != vg_bits_float(0x3f800000u | n) / x)
            fail_msg("quotient of mantissas %06x and %06x", n, d);
    }
    assert_int_equal(not_nearest, 96);
}

/* Quick and plain rotations are the same in all bits. */
static void rotations_agree(void **state)
{
    uint64_t random = 1;
    unsigned valid_ones = 0;
    (void)state;

    for (int i = 0; i < 2000000; i++) {
        uint32_t bits[2];
        for (int k = 0; k < 2; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bits[k] = (uint32_t)(random >> 33) % (140u << 23) + (57u << 23) + (uint32_t)(random >> 32 << 31);
        }
        if (i % 4)
            bits[1] =
                (bits[0] & 0x7f800000u) + ((uint32_t)(i % 7) << 22) + bits[1] % (1u << 24) + (bits[1] & 0x80000000u);
        int valid;
        const float phi = vg_bits_float(bits[0]), psi = vg_bits_float(bits[1]);
        const VgSpeedRotation quick = vg_speed_quick_rotation(phi, psi, &valid);
        const VgSpeedRotation plain = vg_speed_plain_rotation(phi, psi);
        if (!valid)
            continue;
        valid_ones++;
        assert_int_equal(vg_float_bits(quick.c), vg_float_bits(plain.c));
        assert_int_equal(vg_float_bits(quick.s), vg_float_bits(plain.s));
    }
    assert_true(valid_ones > 1000000);
}

/* What binary32 decides of off-diagonals is what the product in binary64 says, on both sides of the limit. */
static void negligible_ones(void **state)
{
    uint64_t random = 1;
    unsigned negligible = 0;
    (void)state;

    for (int i = 0; i < 4000000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const float sum = vg_bits_float((uint32_t)(random >> 33) % (200u << 23)), e = sum * 1e-6f;
        const uint32_t bits = vg_float_bits(e) + (uint32_t)(random >> 20 & 0x3fffff) - (i % 2 ? 0x200000u : 2u);
        const float off_diagonal =
            i % 3 ? vg_bits_float(bits & 0x7fffffffu) : vg_bits_float(vg_float_bits(e) + (uint32_t)(i % 5));
        const int expected = (double)fabsf(off_diagonal) < 1e-6 * (double)(fabsf(sum) + 0);
        if (off_diagonal != off_diagonal || isinf(off_diagonal))
            continue;
        negligible += (unsigned)expected;
        if (vg_speed_negligible(i % 7 ? off_diagonal : -off_diagonal, i % 11 ? sum : -sum, 0) != expected)
            fail_msg("%a beside %a", (double)off_diagonal, (double)sum);
    }
    assert_in_range(negligible, 400000, 3600000);
}

/* The fused form of positions against the one in binary64, for the ratios of common factors and odd ones. */
static void positions_round_once(void **state)
{
    static const float ratios[] = { 2, 1 / 0.6f, 0.5f, 0.25f, 10, 1920.0f / 1439, 853.0f / 512, 641.0f / 833 };
    (void)state;

    for (unsigned r = 0; r < sizeof(ratios) / sizeof(ratios[0]); r++)
        for (int32_t i = 0; i < 70000; i++) {
            const float expected = (float)(((double)i + 0.5) * (double)ratios[r] - 0.5);
            assert_true(vg_speed_position(i, ratios[r]) == expected);
        }
}

static void samples_are_exact(void **state)
{
    (void)state;
    for (int32_t depth = 8; depth <= 16; depth++) {
        const float unit = vg_speed_unit(depth);
        const int32_t end = 1 << depth;
        assert_true(unit == (float)ldexp(1, 8 - depth));
        for (int32_t v = 0; v < end; v++) {
            assert_true(vg_speed_sample(v, unit) == v * ldexp(1, 8 - depth) - 128);
            const float difference = vg_speed_sample(v, unit) - vg_speed_sample(end - 1 - v / 3, unit);
            assert_true(vg_speed_difference(v, end - 1 - v / 3, unit) == difference);
        }
    }
}

/* Every column has one accumulator: sixteen at a time, then eight, then the last ones. */
static void columns_have_lanes(void **state)
{
    (void)state;
    for (int32_t n = 1; n < 70; n++)
        for (int32_t j = 0; j < n; j++) {
            const int32_t expected = j < 16 * (n / 16) ? j % 16 : j < 8 * (n / 8) ? j % 8 : VG_SPEED_LANES;
            assert_int_equal(vg_speed_lane(j, n), expected);
        }
}

static void rotations(void **state)
{
    (void)state;
    const VgSpeedRotation none = vg_speed_rotation(0, 0), turned = vg_speed_rotation(0, 3);
    const VgSpeedRotation steep = vg_speed_rotation(3, -4), flat = vg_speed_rotation(4, -3);

    assert_true(none.c == 1 && none.s == 0);
    assert_true(turned.s == 1 && turned.c == 0);
    assert_true(steep.s == 0.8f && steep.c == 0.8f * 0.75f);
    assert_true(flat.c == 0.8f && flat.s == 0.8f * 0.75f);
}

/* Branches of the shift that no golden row takes. */
static void shifts(void **state)
{
    (void)state;
    assert_true(vg_speed_shift(3, 3, -2, 1, 1) == 1); /* q = 0 */
    assert_true(vg_speed_shift(8, 2, 4, 1, 1) == 0);  /* q = 3, y = 5 */
    assert_true(vg_speed_shift(2, 8, 4, 1, 1) == 10);
    assert_true(vg_speed_shift(2e6f, 8e6f, 4e6f, 1, 1) == 0); /* too large beside the first row */
    assert_true(vg_speed_shift(2e6f, 8e6f, 4e6f, 6, 5) == 1e7f);
}

/* The constant is a double: the float next to it is below. */
static void limit_of_singular_values(void **state)
{
    (void)state;
    assert_true(vg_speed_is_singular(1e-6f) && vg_speed_is_singular(vg_bits_float(0x358637bdu)));
    assert_false(vg_speed_is_singular(vg_bits_float(0x358637beu)));
    assert_true(vg_speed_is_singular(-1));
    assert_false(vg_speed_is_singular(NAN));
}

static void pooling(void **state)
{
    static const double expected[7][2] = { { 3, 7 }, { 3, 3 }, { 7, 7 }, { 5, 5 }, { 3, 5 }, { 3, 4 }, { 3, 6 } };
    (void)state;

    for (int32_t mode = 0; mode < 7; mode++) {
        const VgSpeedWeights w = vg_speed_weights(mode, 2, 6);
        assert_true(w.ref == expected[mode][0] && w.dist == expected[mode][1]);
    }
    assert_true(vg_speed_term(1, 2, 3, (VgSpeedWeights){ 4, 8 }) == 0); /* neither is seen */
    assert_true(vg_speed_term(3, 2, 3, (VgSpeedWeights){ 4, 1024 }) == 14);
    assert_true(isnan(vg_speed_term(3, 2, 3, (VgSpeedWeights){ 4, -0.25 })));
    assert_true(vg_speed_score(12, 4, 0) == 3);
    assert_true(vg_speed_score(12, 4, VG_SPEED_REF_SINGULAR) == 0);
    assert_true(vg_speed_score(12, 4, VG_SPEED_DIST_SINGULAR) == 0);
    assert_true(vg_speed_score(12, 4, VG_SPEED_REF_SINGULAR | VG_SPEED_DIST_SINGULAR) == 3);
    assert_int_equal(vg_float_bits(vg_speed_score(-NAN, 4, 0)), VG_SPEED_NAN);
}

/* ---- Rules -------------------------------------------------------------------------------------------------------- */

static const VgGeometry small = { 160, 160, VG_CHROMA_420, 8 };

static void score(const VgMetric *metric, const char *options_text, const VgSpeedRecord *records, unsigned n_frames,
                  Emitted *emitted, Messages *messages)
{
    void *options = harness_options(metric, options_text);
    void *rules = calloc(1, metric->state_size);
    const VgLog log = { messages_log, messages };
    const VgScoreContext context = { .geometry = &small, .options = options, .log = &log, .suffix = "_x" };
    VgEmit emit = emitted_to(emitted);

    assert_non_null(rules);
    memset(messages, 0, sizeof(*messages));
    for (unsigned frame = 0; frame < n_frames; frame++)
        assert_int_equal(metric->score(&context, rules, frame, &records[frame], &emit), 0);
    assert_int_equal(metric->flush(&context, rules, n_frames, &emit), 0);
    free(rules);
    harness_options_free(metric, options);
}

static void chroma_scores(void **state)
{
    static const VgSpeedRecord records[] = {
        { { 1, 2 }, { 0, 0 } },
        { { 0, 2 }, { VG_SPEED_REF_SINGULAR, 0 } },
        { { 1, 0 }, { 0, VG_SPEED_DIST_SINGULAR } },
        { { 0, 0 }, { 3, 3 } },
        { { 44, 47 }, { 0, 0 } },
        { { NAN, 1 }, { 0, 0 } },
    };
    static const double expected[][3] = { { 1, 2, 1.5 }, { 0, 2, 2 },    { 1, 0, 1 },
                                          { 0, 0, 0 },   { 44, 45, 45 }, { 45, 1, 45 } };
    Emitted e;
    Messages messages;
    (void)state;

    score(&vg_metric_speed_chroma, "speed_max_val=45", records, 6, &e, &messages);
    for (unsigned frame = 0; frame < 6; frame++)
        for (unsigned key = U; key <= UV; key++) {
            assert_int_equal(e.count[key][frame], 1);
            assert_true(e.value[key][frame] == expected[frame][key]);
        }
    assert_int_equal(messages.counts[VG_LOG_WARNING], 1);
    assert_true(messages_contain(&messages, "speed_chroma_x: in 3 of 6 frames, from frame 1 on"));
    score(&vg_metric_speed_chroma, "", records, 1, &e, &messages);
    assert_string_equal(messages.text, "");
}

/* No cap, and NaN stays. */
static void temporal_scores(void **state)
{
    static const VgSpeedRecord records[] = { { { 0 }, { 0 } }, { { 2000 }, { 0 } }, { { NAN }, { 0 } } };
    Emitted e;
    Messages messages;
    (void)state;

    score(&vg_metric_speed_temporal, "speed_max_val=3", records, 3, &e, &messages);
    assert_true(e.value[0][0] == 0 && e.value[0][1] == 2000 && isnan(e.value[0][2]));
    assert_string_equal(messages.text, "");
}

static void needs(void **state)
{
    (void)state;
    const VgNeeds n = vg_metric_speed_temporal.needs(NULL);

    assert_null(vg_metric_speed_chroma.needs);
    assert_true(n.lag[VG_REF] == 1 && n.lag[VG_DIST] == 1 && n.lookahead == 0);
    assert_true(n.planes[VG_REF] == VG_PLANE_Y && n.planes[VG_DIST] == VG_PLANE_Y);
    assert_true(vg_metric_speed_temporal.every_frame && !vg_metric_speed_chroma.every_frame);
}

static void refusals(void **state)
{
    static const struct {
        const VgMetric *metric;
        VgGeometry geometry;
        const char *options, *why; /* NULL: accepted */
    } cases[] = {
        { &vg_metric_speed_chroma, { 160, 160, VG_CHROMA_420, 8 }, "", NULL },
        { &vg_metric_speed_chroma, { 159, 160, VG_CHROMA_420, 8 }, "", "159x160 pictures have 79x80" },
        { &vg_metric_speed_chroma, { 160, 158, VG_CHROMA_420, 8 }, "", "have 80x79" },
        { &vg_metric_speed_chroma, { 160, 80, VG_CHROMA_422, 16 }, "", NULL },
        { &vg_metric_speed_chroma, { 80, 80, VG_CHROMA_444, 12 }, "", NULL },
        { &vg_metric_speed_chroma, { 160, 160, VG_CHROMA_400, 8 }, "", "4:0:0" },
        { &vg_metric_speed_chroma, { 160, 160, VG_CHROMA_420, 9 }, "", "not 9" },
        { &vg_metric_speed_chroma, { 160, 160, VG_CHROMA_420, 8 }, "speed_prescale=0.99", "have 79x79" },
        { &vg_metric_speed_chroma, { 40, 40, VG_CHROMA_420, 8 }, "speed_prescale=4", NULL },
        { &vg_metric_speed_chroma, { 160, 160, VG_CHROMA_420, 8 }, "speed_kernelscale=1.1", "speed_kernelscale=1.1" },
        { &vg_metric_speed_chroma, { 160, 160, VG_CHROMA_420, 8 }, "speed_kernelscale=1.0009", NULL },
        { &vg_metric_speed_chroma, { 160, 160, VG_CHROMA_420, 8 }, "speed_kernelscale=3.711", NULL },
        { &vg_metric_speed_chroma, { 160, 160, VG_CHROMA_420, 8 }, "speed_prescale_method=area", "=area" },
        { &vg_metric_speed_temporal, { 80, 80, VG_CHROMA_400, 10 }, "", NULL },
        { &vg_metric_speed_temporal, { 79, 80, VG_CHROMA_400, 10 }, "", "79x80" },
        { &vg_metric_speed_temporal, { 80, 80, VG_CHROMA_420, 14 }, "", "not 14" },
        /* 2000 columns, one more than there are: the widest low pass reads the last one. */
        { &vg_metric_speed_temporal, { 1999, 80, VG_CHROMA_420, 8 }, "speed_prescale=1.0005", NULL },
        { &vg_metric_speed_temporal,
          { 1999, 80, VG_CHROMA_420, 8 },
          "speed_prescale=1.0005:speed_kernelscale=3.711",
          "beyond the edge of 1999x80" },
        { &vg_metric_speed_temporal,
          { 80, 1999, VG_CHROMA_420, 8 },
          "speed_prescale=1.0005:speed_kernelscale=3.711",
          "beyond the edge of 80x1999" },
    };
    (void)state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        void *options = harness_options(cases[i].metric, cases[i].options);
        char why[400] = "";
        const int refused = cases[i].metric->check(&cases[i].geometry, options, why, sizeof(why));
        if (cases[i].why ? !refused || !strstr(why, cases[i].why) : refused)
            fail_msg("case %u: \"%s\"", i, why);
        harness_options_free(cases[i].metric, options);
    }
}

/* ---- Sizes that golden values leave out ---------------------------------------------------------------------------- */

static VgSpeedRecord record_of(const char *ref_args, const char *dist_args, const char *options, VgSpeedParams *params)
{
    const Clip *ref = clip_get(ref_args), *dist = clip_get(dist_args);
    const VgPicture pictures[2] = { clip_picture(ref, 0), clip_picture(dist, 0) };
    const VgFramePictures frame = { .ref = { &pictures[0] }, .dist = { &pictures[1] } };
    const HarnessCase c = { ref->geometry, options };
    VgSpeedRecord record;

    memset(params, 0, sizeof(*params));
    harness_params(&vg_metric_speed_chroma, &c, params);
    harness_yardstick(&vg_metric_speed_chroma, params, &frame, &record);
    return record;
}

/* A factor that leaves the size as it is, and one that is near 1 and adds columns that nothing reads. */
static void factors_that_change_nothing(void **state)
{
    static const char *const options[] = { "speed_prescale=1.002:speed_prescale_method=bicubic",
                                           "speed_prescale=1.0009:speed_prescale_method=lanczos4" };
    VgSpeedParams params;
    (void)state;

    for (int i = 0; i < 2; i++) {
        const char *ref = i ? "noise none 600 200 444 8 1 1" : "noise none 200 190 444 8 1 1";
        const char *dist = i ? "noise blur 600 200 444 8 1 1" : "noise blur 200 190 444 8 1 1";
        const VgSpeedRecord expected = record_of(ref, dist, "", &params);
        const VgSpeedRecord record = record_of(ref, dist, options[i], &params);
        assert_int_equal(params.method, VG_SPEED_PLAIN);
        assert_int_equal(params.scaled_width, i ? 601 : 200);
        assert_true(expected.scores[0] > 0 && !expected.singular[0]);
        assert_memory_equal(&record, &expected, sizeof(record));
    }
    clip_free_all();
}

/* What makes a matrix singular, from its stages: 1 an eigenvalue, 2 a pivot alone, 0 nothing. */
static unsigned reason_of(const Stages *stages, int side)
{
    const double *eigenvalues = stages->stage[side][VG_SPEED_STAGE_EIGENVALUES].values;
    const double *r = stages->stage[side][VG_SPEED_STAGE_R].values;

    for (int i = 0; i < VG_SPEED_N; i++)
        if (eigenvalues[i] < 1e-6)
            return 1;
    for (int i = 0; i < VG_SPEED_N; i++)
        if (fabs(r[i * (VG_SPEED_N + 1)]) < 1e-6)
            return 2;
    return 0;
}

static void count_reasons(const NearSingular *family, unsigned number, unsigned counts[3])
{
    const VgMetric *metric = family->temporal ? &vg_metric_speed_temporal : &vg_metric_speed_chroma;
    char ref[128], dist[128];

    snprintf(ref, sizeof(ref), family->clip, number);
    snprintf(dist, sizeof(dist), family->clip, number + 1);
    for (int plane = 0; plane < (family->temporal ? 1 : 2); plane++) {
        const StageCase c = { NULL, ref, dist, metric, "", plane, (unsigned)family->temporal, 0 };
        Prepared p;
        const VgSpeedObserver observer = { see, &p.stages };
        VgSpeedRecord record;
        uint32_t expected = 0;
        prepare(&c, &p);
        vg_speed_show_stages(&p.params, &p.planes, plane, p.scratch, &observer);
        harness_yardstick(metric, &p.params, &p.frame, &record);
        for (int side = 0; side < 2; side++) {
            const unsigned reason = reason_of(&p.stages, side);
            expected |= reason ? side ? VG_SPEED_DIST_SINGULAR : VG_SPEED_REF_SINGULAR : 0;
            counts[reason]++;
        }
        if (record.singular[plane] != expected)
            fail_msg("%s, %s, plane %d: singular %u, not %u", ref, dist, plane, record.singular[plane], expected);
        if (expected == VG_SPEED_REF_SINGULAR || expected == VG_SPEED_DIST_SINGULAR)
            assert_true(record.scores[plane] == 0);
        prepared_free(&p);
    }
}

/* Matrices about the limit: by whichever of the two rules one is singular, its record says so. */
static void matrices_near_singularity(void **state)
{
    unsigned counts[3] = { 0 };
    (void)state;

    for (unsigned i = 0; i < N_NEAR_SINGULAR; i++)
        for (unsigned k = 0; k < NEAR_SINGULAR_NUMBERS && near_singular[i].numbers[k]; k++)
            count_reasons(&near_singular[i], near_singular[i].numbers[k], counts);
    clip_free_all();
    printf("# %u matrices are singular because of an eigenvalue, %u of a pivot, %u are not\n", counts[1], counts[2],
           counts[0]);
    assert_true(counts[1] >= NEAR_SINGULAR_EIGENVALUES && counts[2] >= NEAR_SINGULAR_PIVOTS &&
                counts[0] >= NEAR_SINGULAR_NONE);
}

/* Flat planes: their matrix is 0. */
static void flat_planes(void **state)
{
    VgSpeedParams params;
    (void)state;

    VgSpeedRecord record = record_of("flat none 400 400 444 8 1 1", "flat none 400 400 444 8 1 1", "", &params);
    assert_true(record.scores[0] == 0 && record.scores[1] == 0 && record.singular[0] == 3 && record.singular[1] == 3);
    record = record_of("noise none 400 400 444 8 1 1", "flat none 400 400 444 8 1 1", "", &params);
    assert_true(record.scores[0] == 0 && record.singular[0] == VG_SPEED_DIST_SINGULAR);
    record = record_of("flat none 400 400 444 8 1 1", "noise none 400 400 444 8 1 1", "", &params);
    assert_true(record.scores[1] == 0 && record.singular[1] == VG_SPEED_REF_SINGULAR);
    clip_free_all();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_stages),
        cmocka_unit_test(planted_faults_are_seen),
        cmocka_unit_test(golden_kernels),
        cmocka_unit_test(golden_log2),
        cmocka_unit_test(special_logarithms),
        cmocka_unit_test(dense_log2),
        cmocka_unit_test(every_rsqrt),
        cmocka_unit_test(every_reciprocal),
        cmocka_unit_test(rotations_agree),
        cmocka_unit_test(negligible_ones),
        cmocka_unit_test(positions_round_once),
        cmocka_unit_test(samples_are_exact),
        cmocka_unit_test(columns_have_lanes),
        cmocka_unit_test(rotations),
        cmocka_unit_test(shifts),
        cmocka_unit_test(limit_of_singular_values),
        cmocka_unit_test(pooling),
        cmocka_unit_test(chroma_scores),
        cmocka_unit_test(temporal_scores),
        cmocka_unit_test(needs),
        cmocka_unit_test(refusals),
        cmocka_unit_test(factors_that_change_nothing),
        cmocka_unit_test(matrices_near_singularity),
        cmocka_unit_test(flat_planes),
        cmocka_unit_test(golden_chroma),
        cmocka_unit_test(golden_temporal),
        cmocka_unit_test(golden_temporal_enlarged),
    };

    if (argc > 1 && !strcmp(argv[1], "--every-log2"))
        return every_log2();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
