/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * SpEED for CPUs with AVX2 and fused multiply-add. Covariances, the low pass's vertical half and the
 * sums of logarithms are written by hand, the rest is the same C.
 */
#include <immintrin.h>
#include <string.h>

#include "cpu_ref/rows.h"
#include "cpu_ref/speed.h"
#include "cpu_ref/x86/variants.h"

#define TEMPLATE static inline __attribute__((always_inline))

/* ---- Covariances -------------------------------------------------------------------------------------------------- */

/*
 * Windows less their means are worked on in bands of few rows, which stay in the cache: 25 arrays, `stride` apart. Products
 * are made for blocks of five windows by two: their sums for four lanes fill ten registers. The last columns, which have
 * their own accumulators, come after; whose turn it is among accumulators does not matter.
 */
#define N      VG_SPEED_N
#define SIDE   VG_SPEED_SIDE
#define GROUPS 4 /* of four lanes */

/* Blocks of two windows q for every five p, among them those with q > p that are not used. */
#define Q_BLOCKS(row) ((SIDE * ((row) + 1) + 1) / 2)

typedef __m256d BlockSums[2][SIDE];

typedef struct Band {
    const double *windows;
    ptrdiff_t stride;     /* from a window to the next */
    int32_t width, pitch; /* columns, and doubles from a row to the next */
    int32_t rows;
} Band;

/* Four columns of two blocks of windows: `n_q` is 1 or 2. */
TEMPLATE void add_products(const double *p, const double *q, ptrdiff_t stride, BlockSums sums, const int n_q)
{
    const __m256d q0 = _mm256_load_pd(q);
    const __m256d q1 = n_q == 2 ? _mm256_load_pd(q + stride) : q0;
    for (int i = 0; i < SIDE; i++) {
        const __m256d a = _mm256_load_pd(p + i * stride);
        sums[0][i] = _mm256_fmadd_pd(a, q0, sums[0][i]);
        if (n_q == 2)
            sums[1][i] = _mm256_fmadd_pd(a, q1, sums[1][i]);
    }
}

/* Adds a band's products to the sums of one group of lanes. */
TEMPLATE void add_block(const Band *band, int first_p, int first_q, int group, double *memory, const int n_q)
{
    const double *p = band->windows + first_p * band->stride + 4 * group;
    const double *q = band->windows + first_q * band->stride + 4 * group;
    /* Eight columns behind the whole sixteens are those of the first two groups. */
    const int32_t end = group < 2 ? band->width & ~7 : band->width & ~15;
    BlockSums sums;

    for (int j = 0; j < n_q; j++)
        for (int i = 0; i < SIDE; i++)
            sums[j][i] = _mm256_load_pd(memory + 4 * (SIDE * j + i));
    for (int32_t y = 0; y < band->rows; y++, p += band->pitch, q += band->pitch)
        for (int32_t x = 0; x < end; x += 16)
            add_products(p + x, q + x, band->stride, sums, n_q);
    for (int j = 0; j < n_q; j++)
        for (int i = 0; i < SIDE; i++)
            _mm256_store_pd(memory + 4 * (SIDE * j + i), sums[j][i]);
}

/* Sums lie by five p, two q, group of lanes, then q, p and lane. */
static void add_band(const Band *band, double *sums)
{
    for (int row = 0; row < SIDE; row++)
        for (int block = 0; block < Q_BLOCKS(row); block++)
            for (int group = 0; group < GROUPS; group++, sums += 2 * SIDE * 4) {
                if (2 * block + 1 < SIDE * (row + 1))
                    add_block(band, SIDE * row, 2 * block, group, sums, 2);
                else
                    add_block(band, SIDE * row, 2 * block, group, sums, 1);
            }
}

#define TAIL_PITCH 28

/* The last columns: for every q, all p from about there on. */
static void add_last_columns(const Band *band, double *sums)
{
    for (int32_t y = 0; y < band->rows; y++)
        for (int32_t x = band->width & ~7; x < band->width; x++) {
            double p[TAIL_PITCH] __attribute__((aligned(32))) = { 0 };
            for (int i = 0; i < N; i++)
                p[i] = band->windows[i * band->stride + y * band->pitch + x];
            for (int q = 0; q < N; q++) {
                const __m256d b = _mm256_set1_pd(p[q]);
                for (int i = q & ~3; i < N; i += 4) {
                    double *sum = sums + q * TAIL_PITCH + i;
                    const __m256d product = _mm256_mul_pd(_mm256_load_pd(p + i), b);
                    _mm256_store_pd(sum, _mm256_add_pd(_mm256_load_pd(sum), product));
                }
            }
        }
}

static void subtract_means(const VgSpeedScratch *scratch, const float means[N], int32_t first_row, Band *band,
                           double *out)
{
    for (int p = 0; p < N; p++) {
        const double *from = scratch->wide + (first_row + p / SIDE) * scratch->pitch + p % SIDE;
        const __m256d mean = _mm256_set1_pd((double)means[p]);
        for (int32_t y = 0; y < band->rows; y++)
            for (int32_t x = 0; x < band->width; x += 4)
                _mm256_store_pd(out + p * band->stride + y * band->pitch + x,
                                _mm256_sub_pd(_mm256_loadu_pd(from + y * scratch->pitch + x), mean));
    }
}

static void join_sums(const double *sums, const double *tails, double out[VG_SPEED_PAIRS])
{
    for (int row = 0; row < SIDE; row++)
        for (int block = 0; block < Q_BLOCKS(row); block++, sums += 2 * SIDE * VG_SPEED_LANES)
            for (int j = 0; j < 2; j++)
                for (int i = 0; i < SIDE; i++) {
                    const int p = SIDE * row + i, q = 2 * block + j;
                    double lanes[VG_SPEED_LANES + 1];
                    if (q > p)
                        continue;
                    for (int l = 0; l < VG_SPEED_LANES; l++)
                        lanes[l] = sums[l / 4 * 2 * SIDE * 4 + 4 * (SIDE * j + i) + l % 4];
                    lanes[VG_SPEED_LANES] = tails[q * TAIL_PITCH + p];
                    out[vg_speed_pair(p, q)] = vg_speed_join_lanes(lanes);
                }
}

static void covariance_sums(const VgSpeedScratch *scratch, int32_t width, int32_t height, const float means[N],
                            double out[VG_SPEED_PAIRS])
{
    double tails[N * TAIL_PITCH] __attribute__((aligned(32))) = { 0 };
    Band band = { .windows = scratch->windows, .width = width, .pitch = (width + 3) & ~3 };
    const int32_t most_rows = vg_speed_band_rows(width);

    band.stride = (ptrdiff_t)most_rows * band.pitch;
    memset(scratch->window_sums, 0, VG_SPEED_WINDOW_SUMS * sizeof(double));
    for (int32_t y = 0; y < height; y += most_rows) {
        band.rows = height - y < most_rows ? height - y : most_rows;
        subtract_means(scratch, means, y, &band, scratch->windows);
        add_band(&band, scratch->window_sums);
        add_last_columns(&band, tails);
    }
    join_sums(scratch->window_sums, tails, out);
}

#undef N
#undef SIDE

/* ---- Low pass ------------------------------------------------------------------------------------------------------ */

/* Eight samples of a row. */
TEMPLATE __m256 load8(const uint8_t *row, const uint8_t *earlier, __m256 unit, int shift, int earlier_shift,
                      const int bytes)
{
    __m256i x;

    if (bytes == 1) {
        x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)row));
        if (earlier)
            x = _mm256_sub_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)earlier)), x);
    } else {
        const __m128i words = _mm_loadu_si128((const __m128i *)(const void *)row);
        x = _mm256_srl_epi32(_mm256_cvtepu16_epi32(words), _mm_cvtsi32_si128(shift));
        if (earlier) {
            const __m128i earlier_words = _mm_loadu_si128((const __m128i *)(const void *)earlier);
            x = _mm256_sub_epi32(
                _mm256_srl_epi32(_mm256_cvtepu16_epi32(earlier_words), _mm_cvtsi32_si128(earlier_shift)), x);
        }
    }
    const __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(x), unit);
    return earlier ? value : _mm256_sub_ps(value, _mm256_set1_ps(128));
}

/*
 * Filters columns of `n` rows, a row at a time: more rows at once would be more streams than the CPU loads ahead. Returns
 * how many columns it has done.
 */
TEMPLATE int32_t filter_rows(const VgSpeedRows *rows, const float *taps, int32_t columns, float *out, const int bytes,
                             const int temporal)
{
    const __m256 unit = _mm256_set1_ps(rows->unit);
    const int32_t done = columns & ~7;

    for (int32_t k = 0; k < rows->n; k++) {
        const uint8_t *row = rows->current[k], *earlier = temporal ? rows->earlier[k] : NULL;
        const __m256 tap = _mm256_set1_ps(taps[k]);
        for (int32_t x = 0; x < done; x += 8) {
            const __m256 sum = k ? _mm256_loadu_ps(out + x) : _mm256_setzero_ps();
            const __m256 samples = load8(row + x * bytes, temporal ? earlier + x * bytes : NULL, unit, rows->shift,
                                         rows->earlier_shift, bytes);
            _mm256_storeu_ps(out + x, _mm256_add_ps(sum, _mm256_mul_ps(tap, samples)));
        }
    }
    return done;
}

static int32_t vertical(const VgSpeedRows *rows, const float *taps, int32_t columns, float *out)
{
    if (rows->bytes == 1)
        return rows->earlier[0] ? filter_rows(rows, taps, columns, out, 1, 1)
                                : filter_rows(rows, taps, columns, out, 1, 0);
    return rows->earlier[0] ? filter_rows(rows, taps, columns, out, 2, 1) : filter_rows(rows, taps, columns, out, 2, 0);
}

/* ---- Entropies ---------------------------------------------------------------------------------------------------- */

/* vg_log2_near_of() of four. */
TEMPLATE __m256d log2_near(__m128i exponent, __m128 m)
{
    static const double coefficients[VG_LOG2_NEAR_TERMS] = VG_LOG2_NEAR_COEFFICIENTS;
    const __m256d x = _mm256_cvtps_pd(m), one = _mm256_set1_pd(1);
    const __m256d s = _mm256_div_pd(_mm256_sub_pd(x, one), _mm256_add_pd(x, one)), z = _mm256_mul_pd(s, s);
    __m256d p = _mm256_set1_pd(coefficients[VG_LOG2_NEAR_TERMS - 1]);

    for (int n = VG_LOG2_NEAR_TERMS - 2; n >= 0; n--)
        p = _mm256_fmadd_pd(p, z, _mm256_set1_pd(coefficients[n]));
    return _mm256_fmadd_pd(p, s, _mm256_cvtepi32_pd(exponent));
}

/* vg_speed_add_entropy() of four. */
TEMPLATE __m128 add_entropy(__m256d e, __m256d log2)
{
    return _mm256_cvtpd_ps(_mm256_add_pd(e, _mm256_add_pd(log2, _mm256_set1_pd(VG_SPEED_GAUSS))));
}

/* Of four, what the logarithm's bounds give. */
TEMPLATE void entropy_bounds(__m128 e, __m128i exponent, __m128 m, __m128 *low, __m128 *high)
{
    const __m256d wide = _mm256_cvtps_pd(e), near = log2_near(exponent, m);
    const __m256d error = _mm256_set1_pd(VG_LOG2_NEAR_ERROR);

    *low = add_entropy(wide, _mm256_sub_pd(near, error));
    *high = add_entropy(wide, _mm256_add_pd(near, error));
}

/* Adds to eight entropies at once what vg_speed_add_entropy_of() adds, where the bounds leave no doubt in any. */
TEMPLATE int add_to_eight(__m256 argument, float *e)
{
    const __m256i bits = _mm256_castps_si256(argument), first = _mm256_set1_epi32(0x30800000); /* 2^-30 */
    const __m256i last = _mm256_set1_epi32(0x53ffffff - 0x30800000);                           /* below 2^41 */
    const __m256i beyond_first = _mm256_sub_epi32(bits, first);
    const __m256i inside = _mm256_cmpeq_epi32(_mm256_min_epu32(beyond_first, last), beyond_first);
    const __m256i above = _mm256_sub_epi32(bits, _mm256_set1_epi32(0x3f3504f3)); /* sqrt(1/2) */
    const __m256i exponent = _mm256_srai_epi32(above, 23);
    const __m256i power = _mm256_and_si256(above, _mm256_set1_epi32((int32_t)0xff800000));
    const __m256 m = _mm256_castsi256_ps(_mm256_sub_epi32(bits, power));
    const __m256 sums = _mm256_loadu_ps(e);
    __m128 low[2], high[2];

    entropy_bounds(_mm256_castps256_ps128(sums), _mm256_castsi256_si128(exponent), _mm256_castps256_ps128(m), &low[0],
                   &high[0]);
    entropy_bounds(_mm256_extractf128_ps(sums, 1), _mm256_extracti128_si256(exponent, 1), _mm256_extractf128_ps(m, 1),
                   &low[1], &high[1]);
    const __m256 all_low = _mm256_set_m128(low[1], low[0]), all_high = _mm256_set_m128(high[1], high[0]);
    const __m256 equal = _mm256_cmp_ps(all_low, all_high, _CMP_EQ_OQ);
    if (_mm256_movemask_ps(_mm256_and_ps(equal, _mm256_castsi256_ps(inside))) != 255)
        return 0;
    _mm256_storeu_ps(e, all_low);
    return 1;
}

static void add_entropies(float eigenvalue, float sigma, const float s[VG_SPEED_CHUNK], float e[VG_SPEED_CHUNK])
{
    const __m256 factor = _mm256_set1_ps(eigenvalue < 0 ? 0 : eigenvalue);

    for (int b = 0; b < VG_SPEED_CHUNK; b += 8) {
        const __m256 argument = _mm256_add_ps(_mm256_mul_ps(factor, _mm256_loadu_ps(s + b)), _mm256_set1_ps(sigma));
        if (add_to_eight(argument, e + b))
            continue;
        for (int i = b; i < b + 8; i++)
            e[i] = vg_speed_add_entropy_of(e[i], vg_speed_entropy_argument(eigenvalue, s[i], sigma));
    }
}

#define VG_ADD_ENTROPIES   add_entropies
#define VG_COVARIANCE_SUMS covariance_sums
#define VG_VERTICAL        vertical
#define VG_LINKAGE
#define VG_RUN vg_speed_avx2
#include "cpu_ref/speed_body.h"
