/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * PSNR: sums of squared errors per plane. Definition: docs/numerics.md, psnr.
 */
#ifndef VG_SHARED_MATH_PSNR_H
#define VG_SHARED_MATH_PSNR_H

#include "shared_math/fn.h"

/** What the pixel pass needs to know. Planes that are not measured have width and height 0. */
typedef struct VgPsnrParams {
    int32_t width[3], height[3]; /* of Y, Cb, Cr; chroma sizes are rounded down */
    int32_t bit_depth;           /* 8, 10, 12 or 16 */
} VgPsnrParams;

/** Sum of (ref - dist)^2 over each plane, exact: at most 2^32 samples of (2^16 - 1)^2. 0 for planes not measured. */
typedef struct VgPsnrRecord {
    uint64_t sse[3];
} VgPsnrRecord;

/** Squared error of one sample pair; (2^16 - 1)^2 fits 32 bits unsigned. */
VG_FN uint32_t vg_psnr_square(int32_t ref, int32_t dist)
{
    uint32_t d = (uint32_t)(ref > dist ? ref - dist : dist - ref);
    return d * d;
}

/**
 * The same below 16 bits, from a difference that fits 16 bits with its sign: compilers have instructions that multiply
 * such numbers and add pairs of products.
 */
VG_FN uint32_t vg_psnr_square_narrow(int32_t ref, int32_t dist)
{
    int16_t d = (int16_t)(ref - dist);
    return (uint32_t)(d * d);
}

/** Number of squares that a 32-bit sum can take: 2^(32 - 2 depth) squares below 2^(2 depth) each. */
VG_FN int32_t vg_psnr_run(int32_t bit_depth)
{
    return (int32_t)1 << (32 - 2 * bit_depth);
}

#endif
