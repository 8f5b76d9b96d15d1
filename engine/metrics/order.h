/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Minimum and maximum as score rules define them. Not fmin and fmax: what they do with NaN differs, and NaN is a legal
 * score (docs/numerics.md).
 */
#ifndef VG_METRICS_ORDER_H
#define VG_METRICS_ORDER_H

/** a if it is less, else b: b if either is NaN. */
static inline double vg_lesser(double a, double b)
{
    return a < b ? a : b;
}

/** a if it is greater, else b: b if either is NaN. */
static inline double vg_greater(double a, double b)
{
    return a > b ? a : b;
}

#endif
