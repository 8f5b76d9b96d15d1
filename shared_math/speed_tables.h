/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Where SpEED's resampling takes its samples, and with which weights. Both depend on the column or the row alone: hosts make
 * tables of them, for devices too, whose sines have other bits.
 */
#ifndef VG_SHARED_MATH_SPEED_TABLES_H
#define VG_SHARED_MATH_SPEED_TABLES_H

#include <math.h>

#include "shared_math/speed.h"

/** Lanczos weight of a sample at this distance: binary64 rounded to binary32. */
static inline float vg_speed_lanczos(float distance)
{
    const double pi = 3.14159265358979323846, t = (double)distance;

    if (t == 0)
        return 1;
    if (!(t > -4 && t < 4))
        return 0;
    return (float)(((4 * sin(pi * t)) * sin((pi * t) / 4)) / (((pi * pi) * t) * t));
}

/** Which they are, and their weights; the first one's of a bilinear mean is left 0, as it follows from the second's. */
static inline void vg_speed_sources(int32_t method, int32_t i, float ratio, int32_t size, int32_t *at, float *weights)
{
    if (method == VG_SPEED_NEAREST) {
        at[0] = vg_speed_nearest(i, ratio);
        weights[0] = 1;
        return;
    }
    const float position = vg_speed_position(i, ratio);
    if (method == VG_SPEED_BILINEAR) {
        const VgSpeedBetween between = vg_speed_between(position, size);
        at[0] = between.first;
        at[1] = between.second;
        weights[0] = 0;
        weights[1] = between.second_weight;
        return;
    }
    const int bicubic = method == VG_SPEED_BICUBIC;
    const int32_t first = bicubic ? VG_SPEED_BICUBIC_FIRST : VG_SPEED_LANCZOS_FIRST;
    const int32_t floor = vg_speed_floor(position);
    const float fraction = position - (float)floor;
    for (int32_t k = 0; k < vg_speed_offsets(method); k++) {
        const float distance = (float)(k - first) - fraction;
        at[k] = vg_speed_mirror(floor + k - first, size);
        weights[k] = bicubic ? vg_speed_bicubic(distance) : vg_speed_lanczos(distance);
    }
}

#endif
