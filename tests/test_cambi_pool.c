/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * CAMBI's pooling on the device against a serial program of the definition: sums, and the order of values, bit for bit, on
 * made-up planes. Variables are those of test_kernels; KERNELS_SMALL leaves few planes.
 */
#include "tests/cmocka_includes.h"

#include "kernels/cambi_pool_host.h"
#include "tests/kernel_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Planes ------------------------------------------------------------------------------------------------------- */

static uint64_t random_state = 1;

static uint32_t random32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static float random_unit(void)
{
    return (float)(random32() >> 8) * 0x1p-24f;
}

/* Value i of n. */
typedef float Kind(int32_t i, int32_t n);

static float noise(int32_t i, int32_t n)
{
    (void)i, (void)n;
    return random32() % 4 ? 0.5f + random_unit() * 100 : 0;
}

static float half_zero(int32_t i, int32_t n)
{
    (void)i, (void)n;
    return random32() % 2 ? 1 + random_unit() * 50 : 0;
}

/* Mostly ties, the last value summed among them. */
static float few(int32_t i, int32_t n)
{
    (void)i, (void)n;
    return (float)(random32() % 5) * 0.75f;
}

static float ascending(int32_t i, int32_t n)
{
    (void)n;
    return 0.5f + (float)i * 0x1p-10f;
}

static float descending(int32_t i, int32_t n)
{
    return 0.5f + (float)(n - i) * 0x1p-10f;
}

static float organ_pipe(int32_t i, int32_t n)
{
    return 0.5f + (float)(i < n - i ? i : n - i) * 0x1p-8f;
}

static float equal(int32_t i, int32_t n)
{
    (void)i, (void)n;
    return 1.1f;
}

static float zero(int32_t i, int32_t n)
{
    (void)i, (void)n;
    return 0;
}

/* Sums beyond 2^53 units with the lowest bit set: additions round. */
static float large_and_odd(int32_t i, int32_t n)
{
    (void)i, (void)n;
    return random32() % 3 ? 4000 + random_unit() * 1000 : 0.5f + 0x1p-24f * (float)(random32() % 16);
}

/* The largest that there are: sums go through many binades. */
static float largest(int32_t i, int32_t n)
{
    (void)i, (void)n;
    return random32() % 5 ? random_unit() * 157000 + 1000 : 0x1p-1f + 0x1p-24f;
}

/* Two values: half of the additions to a large sum are ties. */
static float two(int32_t i, int32_t n)
{
    (void)i, (void)n;
    return random32() % 2 ? 158006 : 0.5f + 0x1p-24f;
}

/* Few candidates of one kind, far from each other. */
static float sparse(int32_t i, int32_t n)
{
    (void)n;
    return i % 997 == 5 ? 100000 + random_unit() * 50000 : random32() % 900 ? 2.25f : 3 + random_unit();
}

/* Smooth as in pictures: neighbours are alike. */
static float smooth(int32_t i, int32_t n)
{
    (void)n;
    return 20 + 15 * sinf((float)i * 0.003f) + 2 * random_unit();
}

/* The sum in raster order reaches `rise` * 2^29 with value 4096 * rise + ones, at a border of chunks or batches or next to one;
   powers of two before, soon after a border. Behind it many of the values lie half-way between two sums. */
static int32_t rise = 1, ones;

static float at_border(int32_t i, int32_t n)
{
    const int32_t high = 4096 * rise - 1;
    (void)n;
    if (i < high)
        return i ? 131072 : 131072 + 20000;
    if (i == high)
        return (float)(131072 - 20000 - ones);
    return i <= high + ones ? 1 : 0.5f + 0x1p-24f * (float)(random32() % (8 * (uint32_t)rise));
}

static const struct {
    const char *name;
    Kind *value;
} kinds[] = {
    { "noise", noise },
    { "half zero", half_zero },
    { "few values", few },
    { "ascending", ascending },
    { "descending", descending },
    { "organ pipe", organ_pipe },
    { "equal", equal },
    { "zero", zero },
    { "large and odd", large_and_odd },
    { "largest", largest },
    { "two values", two },
    { "sparse", sparse },
    { "smooth", smooth },
    { "at a border", at_border },
};
#define N_KINDS   (sizeof(kinds) / sizeof(kinds[0]))
#define AT_BORDER ((unsigned)N_KINDS - 1)

/* How many are summed: rule t of N_TOPS, if `fixed_top` does not say it. */
#define N_TOPS 7
static int32_t fixed_top;

static int32_t top_of(unsigned rule, int32_t n)
{
    if (fixed_top)
        return fixed_top < n ? fixed_top : n;

    const int32_t tops[N_TOPS] = { (int32_t)(0.6 * n), n, n - 1, 1, n / 2, (int32_t)(random32() % (uint32_t)n), 3 };
    const int32_t top = tops[rule];
    return top < 1 ? 1 : top > n ? n : top;
}

/* ---- The definition, serially -------------------------------------------------------------------------------------- */

/* Hoare's FIND, largest first, with two scanning indices. */
static void find(float *a, int32_t n, int32_t k)
{
    int32_t left = 0, right = n - 1;

    while (left < right) {
        const float pivot = a[k];
        int32_t i = left, j = right;
        do {
            while (a[i] > pivot)
                i++;
            while (a[j] < pivot)
                j--;
            if (i <= j) {
                const float value = a[i];
                a[i++] = a[j];
                a[j--] = value;
            }
        } while (i <= j);
        if (j < k)
            left = i;
        if (k < i)
            right = j;
    }
}

static double serial_sum(float *a, int32_t n, int32_t k)
{
    double sum = 0;

    if (k < n)
        find(a, n, k);
    for (int32_t i = 0; i < k; i++)
        sum += (double)a[i];
    return sum;
}

/* ---- Comparison ---------------------------------------------------------------------------------------------------- */

static Buffer values_buffers[VG_CAMBI_SCALES], totals_buffer;

typedef struct Result {
    unsigned compared, different, order_matters;
} Result;

static int launch(void *context, const char *kernel, const uint32_t grid[3], uint32_t block, uint32_t dynamic_shared,
                  const void *args, size_t args_size)
{
    VgCambiPoolArgs copy;
    (void)context;

    assert_int_equal(args_size, sizeof(copy));
    memcpy(&copy, args, sizeof(copy));
    launch_copy(kernel, grid, block, dynamic_shared, &copy, sizeof(copy));
    return 0;
}

/* What the counting kernel leaves. */
static VgCambiTotals totals_of(const float *a, int32_t n)
{
    VgCambiTotals totals = { 0, 0, 0, 0 };

    for (int32_t i = 0; i < n; i++) {
        totals.sum += vg_cambi_units(a[i]);
        totals.bits |= vg_cambi_units(a[i]);
        totals.nonzero += a[i] != 0;
    }
    return totals;
}

static void differs(Result *result, const char *what, unsigned kind, int32_t n, int32_t k, const VgCambiPoolTuning *t)
{
    result->different++;
    if (result->different <= 10)
        printf("# %s differs: %s, %d of %d; rounds %u, always in order %d\n", what, kinds[kind].name, (int)k, (int)n,
               t->rounds, (int)t->ordered_always);
}

/* The first k values in the order of summation. The caller frees them. */
static float *permuted_values(const VgCambiParams *params, int scale, uint64_t first, int32_t k)
{
    float *const values = malloc((size_t)k * sizeof(float));
    uint64_t state_at, second;
    VgCambiPoolState state;

    vg_cambi_pool_planes(params, scale, &state_at, &second);
    CU(cuMemcpyDtoH_v2(&state, device.work.address + state_at, sizeof(state)));
    CU(cuMemcpyDtoH_v2(values, first, (size_t)k * sizeof(float)));
    if (state.source && state.away < k) {
        const uint64_t from = device.work.address + second + (uint64_t)state.away * sizeof(float);
        CU(cuMemcpyDtoH_v2(values + state.away, from, (size_t)(k - state.away) * sizeof(float)));
    }
    return values;
}

/* One side of a frame: planes of kinds first_kind and the next ones. */
static void compare_side(const VgCambiParams *params, int side, unsigned first_kind, const VgCambiPoolTuning *tuning,
                         Result *result)
{
    static const VgLauncher launcher = { NULL, launch, fill };
    const VgCambiSide *const s = &params->sides[side];
    float *planes[VG_CAMBI_SCALES], *permuted;
    uint64_t addresses[VG_CAMBI_SCALES];
    int32_t sizes[VG_CAMBI_SCALES];
    VgCambiTotals totals[VG_CAMBI_SCALES];
    VgCambiRecord record;

    for (unsigned i = 0; i < VG_CAMBI_SCALES; i++) {
        const int32_t n = vg_cambi_size(s->width, 0, (int32_t)i) * vg_cambi_size(s->height, 0, (int32_t)i);
        sizes[i] = n;
        planes[i] = malloc((size_t)n * sizeof(float));
        for (int32_t at = 0; at < n; at++)
            planes[i][at] = kinds[(first_kind + i) % N_KINDS].value(at, n);
        totals[i] = totals_of(planes[i], n);
        addresses[i] = buffer_get(&values_buffers[i], (size_t)n * sizeof(float));
        CU(cuMemcpyHtoDAsync_v2(addresses[i], planes[i], (size_t)n * sizeof(float), device.stream));
    }
    const CUdeviceptr at = buffer_get(&totals_buffer, sizeof(totals)), to = buffer_get(&device.record, sizeof(record));
    CU(cuMemcpyHtoDAsync_v2(at, totals, sizeof(totals), device.stream));
    fill(NULL, to, 0, sizeof(record)); /* pooling writes only the sums */
    assert_int_equal(vg_cambi_pool_enqueue(params, side, &launcher, addresses, at, device.work.address, to, tuning), 0);
    CU(cuStreamSynchronize(device.stream));
    CU(cuMemcpyDtoH_v2(&record, to, sizeof(record)));
    CU(cuMemcpyDtoH_v2(totals, at, sizeof(totals)));
    for (unsigned i = 0; i < VG_CAMBI_SCALES; i++) {
        const unsigned kind = (first_kind + i) % N_KINDS;
        const int32_t n = sizes[i], k = s->top[i];
        const double sum = serial_sum(planes[i], n, k);
        VgCambiTotals of_top = totals_of(planes[i], k);
        result->compared++;
        result->order_matters += !vg_cambi_sum_exact(of_top.sum, of_top.bits);
        if (vg_double_bits(sum) != vg_double_bits(record.sums[side][i]))
            differs(result, "sum", kind, n, k, tuning);
        permuted = permuted_values(params, (int)i, addresses[i], k);
        if (tuning->ordered_always && memcmp(permuted, planes[i], (size_t)k * sizeof(float)))
            differs(result, "order", kind, n, k, tuning);
        if (totals[i].sum || totals[i].bits || totals[i].nonzero)
            differs(result, "what is left of totals", kind, n, k, tuning);
        free(permuted);
        free(planes[i]);
    }
}

static unsigned n_frames = 2;

/* Both sides, of unlike sizes, in one work memory; a second frame finds what the first one left. */
static void compare(int32_t n, int32_t other_n, unsigned first_kind, unsigned rule, const VgCambiPoolTuning *tuning,
                    Result *result)
{
    static const VgLauncher launcher = { NULL, launch, fill };
    VgCambiParams params;

    memset(&params, 0, sizeof(params));
    params.n_differences = 4;
    for (int side = 0; side < VG_CAMBI_SIDES; side++) {
        VgCambiSide *const s = &params.sides[side];
        s->width = side ? other_n : n;
        s->height = 1;
        s->window = 65;
        for (int32_t i = 0; i < VG_CAMBI_SCALES; i++)
            s->top[i] = top_of((rule + (unsigned)side) % N_TOPS, vg_cambi_size(s->width, 0, i));
    }
    const size_t size = vg_cambi_pool_work_size(&params);
    buffer_free(&device.work); /* guards are right behind */
    buffer_get(&device.work, size);
    fill(NULL, device.work.address, 0xcd, size);
    assert_int_equal(vg_cambi_pool_plan(&params, &launcher, device.work.address), 0);
    for (unsigned frame = 0; frame < n_frames; frame++)
        for (int side = 0; side < VG_CAMBI_SIDES; side++)
            compare_side(&params, side, first_kind + 3 * frame + (unsigned)side, tuning, result);
}

static void none_differs(const Result *result)
{
    printf("# %u of %u records differ; order matters in %u\n", result->different, result->compared,
           result->order_matters);
    assert_true(result->compared > 0);
    if (result->different)
        fail_msg("%u differ", result->different);
}

/* ---- Tests --------------------------------------------------------------------------------------------------------- */

/* What is best, and always in order: by one block, by the whole device with too few rounds, and with enough; with tables of
   all sums, as of planes up to 4K, and of every few, as of larger ones. */
static const VgCambiPoolTuning tunings[] = {
    { 1 << 21, 1 << 17, 10, 0, VG_CAMBI_TABLE },
    { 0, 0, 2, 0, 3 },
    { 1 << 21, 1 << 17, 10, 1, VG_CAMBI_TABLE },
    { 0, 0, 0, 1, VG_CAMBI_TABLE },
    { 0, 0, 4, 1, VG_CAMBI_TABLE },
    { 0, 0, 12, 1, 2 },
    { 100, 100, 2, 1, VG_CAMBI_TABLE },
    { 0, 0, 3, 1, 7 },
};
#define N_TUNINGS (sizeof(tunings) / sizeof(tunings[0]))

/*
 * Of all pairs of a plane and a tuning, every so many are tried: sanitizers slow the software device down eightfold. Coprime to
 * the number of tunings, so that each has its turn with planes of each test.
 */
#ifdef __SANITIZE_ADDRESS__
#define INTERVAL 7
#else
#define INTERVAL 1
#endif

static int has_turn(unsigned plane, unsigned tuning)
{
    return (plane * N_TUNINGS + tuning) % INTERVAL == 0;
}

static void small_planes_agree(void **state)
{
    static const int32_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 511, 513, 1000 };
    Result result = { 0, 0, 0 };
    unsigned rule = 0;
    (void)state;

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (unsigned t = 0; t < N_TUNINGS; t++) {
            if (has_turn(i, t))
                compare(sizes[i], 1 + (int32_t)(random32() % 40), rule * 5, rule, &tunings[t], &result);
            rule++;
        }
    none_differs(&result);
}

/* Around the limits of chunks, of bins' blocks and of what fits into shared memory. */
static void middle_planes_agree(void **state)
{
    static const int32_t sizes[] = { 4095, 4096, 4097, 7167, 7168, 7169, 7170, 8191, 8193, 14337, 32768, 32769 };
    Result result = { 0, 0, 0 };
    unsigned rule = 0;
    (void)state;

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (unsigned t = 0; t < N_TUNINGS; t++, rule++)
            if (has_turn(i, t))
                compare(sizes[i], sizes[i] / 3 + 1, (i + t) * 5, rule, &tunings[t], &result);
    none_differs(&result);
    assert_true(result.order_matters > 0);
}

/* One plane each way, for checkers that slow programs down. */
static void few_planes_agree(void **state)
{
    Result result = { 0, 0, 0 };
    (void)state;

    n_frames = 1; /* the second side finds what the first one left */
    compare(9001, 50, 0, 0, &tunings[1], &result);
    compare(9000, 50, 8, 0, &tunings[3], &result);
    compare(9000, 50, 10, 0, &tunings[4], &result);
    none_differs(&result);
}

/* With sanitizers the kind that has most to be put in order, and every other tuning. */
static void large_planes_agree(void **state)
{
    Result result = { 0, 0, 0 };
    (void)state;

    random_state = 3; /* whatever ran before */
    for (unsigned kind = 0; kind < N_KINDS; kind += 2)
        for (unsigned t = 0; t < N_TUNINGS; t++)
            if (INTERVAL == 1 || (kind == 8 && t % 2 == 0))
                compare(100000 + (int32_t)(random32() % 200000), 50001, kind, kind + t, &tunings[t], &result);
    none_differs(&result);
    assert_true(result.order_matters > result.compared / 30);
}

/* More chunks than threads, and what is done with large planes. The kinds in which order matters come first. */
static void very_large_planes_agree(void **state)
{
    static const unsigned first_kinds[] = { 8, 5 };
    Result result = { 0, 0, 0 };
    (void)state;

    n_frames = INTERVAL == 1 ? 2 : 1;
    for (unsigned i = 0; i < 2; i++)
        if (has_turn(0, i))
            compare((1 << 21) + 100000, 999, first_kinds[i], 0, &tunings[i ? 2 : 0], &result);
    n_frames = 2;
    none_differs(&result);
    assert_true(result.order_matters > 0);
}

static void waves_of_other_sizes_agree(void **state)
{
    static const unsigned waves[] = { 16, 64 };
    (void)state;

    for (unsigned w = 0; device.set_wave && w < 2; w++) {
        Result result = { 0, 0, 0 };
        device.set_wave(waves[w]);
        for (unsigned kind = 0; kind < N_KINDS; kind += 4)
            for (unsigned t = 0; t < N_TUNINGS; t++)
                if (has_turn(kind / 4, t))
                    compare(20000 + (int32_t)(random32() % 20000), 777, kind, kind + t, &tunings[t], &result);
        device.set_wave(32);
        printf("# waves of %u: ", waves[w]);
        none_differs(&result);
    }
}

/* Running sums that reach powers of two at borders of chunks, batches and groups of chunks, with ties behind them. */
static void sums_at_borders_agree(void **state)
{
    static const int32_t many[] = { 0, 1, 7, 8, 9, 127, 256, 504, 511, 512, 513 };
    static const unsigned waves[] = { 32, 16, 64 };
    Result result = { 0, 0, 0 };
    (void)state;

    n_frames = 1;
    fixed_top = INT32_MAX; /* nothing is permuted */
    for (unsigned i = 0; i < sizeof(many) / sizeof(many[0]); i++)
        for (unsigned w = 0; w < (device.set_wave ? 3 : 1); w++) {
            if (device.set_wave)
                device.set_wave(waves[w]);
            ones = many[i];
            rise = i % 2 ? 1 : (int32_t)waves[w] / 4; /* at the end of a wave's second group of chunks */
            if (has_turn(i, w))
                compare(4096 * rise + ones + (i % 3 ? 3000 : 50000), 1, AT_BORDER, 0, &tunings[2 + i % 2], &result);
        }
    if (device.set_wave)
        device.set_wave(32);
    n_frames = 2;
    fixed_top = 0;
    none_differs(&result);
    assert_true(result.order_matters > 0);
}

/* The value that is summed last lies at a border of chunks or of a thread's values. */
static void tops_at_borders_agree(void **state)
{
    static const int32_t tops[] = { 1, 7, 8, 9, 4095, 4096, 4097, 8191, 8192, 12287, 12288 };
    static const unsigned of_kinds[] = { 0, 2, 5, 11 };
    Result result = { 0, 0, 0 };
    (void)state;

    n_frames = 1;
    for (unsigned i = 0; i < sizeof(tops) / sizeof(tops[0]); i++)
        for (unsigned k = 0; k < sizeof(of_kinds) / sizeof(of_kinds[0]); k++) {
            const VgCambiPoolTuning tuning = { 0, 0, (i + k) % 6, 1, 1 + k };
            fixed_top = tops[i];
            if (has_turn(i, k))
                compare(12289, 12288, of_kinds[k], 0, &tuning, &result);
        }
    n_frames = 2;
    fixed_top = 0;
    none_differs(&result);
}

static int close_all(void **state)
{
    for (unsigned i = 0; i < VG_CAMBI_SCALES; i++)
        buffer_free(&values_buffers[i]);
    buffer_free(&totals_buffer);
    return close_device(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_planes_agree),         cmocka_unit_test(middle_planes_agree),
        cmocka_unit_test(large_planes_agree),         cmocka_unit_test(very_large_planes_agree),
        cmocka_unit_test(waves_of_other_sizes_agree), cmocka_unit_test(sums_at_borders_agree),
        cmocka_unit_test(tops_at_borders_agree),
    };
    const struct CMUnitTest small[] = { cmocka_unit_test(few_planes_agree) };
    if (getenv("KERNELS_SMALL"))
        return cmocka_run_group_tests(small, open_device, close_all);
    return cmocka_run_group_tests(tests, open_device, close_all);
}
