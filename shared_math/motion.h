/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * motion: mean absolute value of the low-passed difference between a frame and an earlier one. Definition:
 * docs/numerics.md, motion.
 */
#ifndef VG_SHARED_MATH_MOTION_H
#define VG_SHARED_MATH_MOTION_H

#include "shared_math/fn.h"

/** Bits of VgMotionParams.lags. */
#define VG_MOTION_LAG_1 1
#define VG_MOTION_LAG_2 2

typedef struct VgMotionParams {
    int32_t width, height; /* of luma, at least 3 */
    int32_t bit_depth;     /* 8 to 16 */
    int32_t lags;          /* VG_MOTION_LAG_*: which earlier frames to compare with */
} VgMotionParams;

/** Sums of absolute values for lag 1 and 2; 0 for a lag that was not asked for or whose earlier frame does not exist. */
typedef struct VgMotionRecord {
    uint64_t sad[2];
} VgMotionRecord;

/** Index of a row or column outside 0..n-1: reflected about the edge sample, which is not repeated. -2 <= i <= n + 1. */
VG_FN int32_t vg_motion_mirror(int32_t i, int32_t n)
{
    if (i < 0)
        return -i;
    return i < n ? i : 2 * n - 2 - i;
}

/**
 * One output of the five-tap filter 3571, 16004, 26386, 16004, 3571 (Gaussian of sigma 1, sum 65536):
 *     (3571 outer + 16004 inner + 26386 centre + 2^(shift-1)) >> shift, rounding half up,
 * where outer = x[-2] + x[2], inner = x[-1] + x[1], centre = x[0]. The vertical pass filters differences (earlier minus
 * current) with shift = bit depth, the horizontal pass filters its results with shift 16.
 *
 * The plain sum needs 33 bits. It is 2 t + m with t = 8002 inner + 13193 centre and m = 3571 outer + 2^(shift-1), and
 * because 2 t is even, floor((2 t + m) / 2^shift) = floor((t + floor(m / 2)) / 2^(shift-1)). For |x| <= 65535, which
 * holds for the differences and, as the taps sum to 2^16, for the vertical results too, |m| < 2^29 and
 * t + floor(m / 2) lies in [-2147434496, 2147467264]: both fit 32 bits at every depth.
 */
VG_FN int32_t vg_motion_filter(int32_t outer, int32_t inner, int32_t centre, int32_t shift)
{
    /* Unsigned, so that samples above the depth (a broken file) give a wrong sum, but a defined one. */
    const int32_t half = (int32_t)(3571u * (uint32_t)outer + (1u << (shift - 1))) >> 1;
    const uint32_t t = 8002u * (uint32_t)inner + 13193u * (uint32_t)centre;
    return (int32_t)(t + (uint32_t)half) >> (shift - 1);
}

/**
 * The same for |x| <= 32767, that is, for differences of at most 15 bits: the plain sum with its rounding term is at most
 * 65536 * 32767 + 2^14, which fits 32 bits.
 */
VG_FN int32_t vg_motion_filter_narrow(int32_t outer, int32_t inner, int32_t centre, int32_t shift)
{
    const uint32_t sum = 3571u * (uint32_t)outer + 16004u * (uint32_t)inner + 26386u * (uint32_t)centre;
    return (int32_t)(sum + (1u << (shift - 1))) >> shift;
}

#endif
