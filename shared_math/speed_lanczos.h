/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Lanczos weights of SpEED's resampling. They depend on the column or the row alone: hosts make tables of them, for devices
 * too, whose sines have other bits.
 */
#ifndef VG_SHARED_MATH_SPEED_LANCZOS_H
#define VG_SHARED_MATH_SPEED_LANCZOS_H

#include <math.h>

/** Weight of a sample at this distance: binary64 rounded to binary32. */
static inline float vg_speed_lanczos(float distance)
{
    const double pi = 3.14159265358979323846, t = (double)distance;

    if (t == 0)
        return 1;
    if (!(t > -4 && t < 4))
        return 0;
    return (float)(((4 * sin(pi * t)) * sin((pi * t) / 4)) / (((pi * pi) * t) * t));
}

#endif
