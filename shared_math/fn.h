/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * How the headers of this folder declare functions, so that host, CUDA and HIP compilers read the same text.
 */
#ifndef VG_SHARED_MATH_FN_H
#define VG_SHARED_MATH_FN_H

#include <stdint.h>

/* A device compiler defines VG_FN with its own qualifiers before it includes anything of this folder. */
#ifndef VG_FN
#define VG_FN static inline
#endif

/* Correctly rounded binary32 square root. */
#ifndef VG_SQRTF
#include <math.h>
#define VG_SQRTF(x) sqrtf(x)
#endif

/* x * y + z rounded once, binary32 and binary64. */
#ifndef VG_FMA
#include <math.h>
#define VG_FMAF(x, y, z) fmaf(x, y, z)
#define VG_FMA(x, y, z)  fma(x, y, z)
#endif

/* The greater and the lesser of two numbers that are no NaNs. */
#ifndef VG_FMAXF
#define VG_FMAXF(x, y) ((x) > (y) ? (x) : (y))
#define VG_FMINF(x, y) ((x) > (y) ? (y) : (x))
#endif

/* 1 / x with an error of at most one unit in the last place, where neither x nor that is subnormal. */
#ifndef VG_NEAR_RECIPROCALF
#define VG_NEAR_RECIPROCALF(x) (1.0f / (x))
#endif

/* A condition of an if that hardly ever holds. */
#define VG_RARELY(condition) __builtin_expect(condition, 0)

#endif
