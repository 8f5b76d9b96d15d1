/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Pools of a column over the clip, as libvmaf pools: plain double sums in order of frames.
 */
#include "engine/scorer.h"

#include <errno.h>

const char *vg_pool_name(VgPool pool)
{
    static const char *const names[VG_N_POOLS] = { "min", "max", "mean", "harmonic_mean" };
    return (unsigned)pool < VG_N_POOLS ? names[pool] : NULL;
}

int vg_store_pool(const VgStore *store, unsigned column, uint64_t n_frames, uint32_t interval, VgPool pool,
                  double *value)
{
    double sum = 0, inverse_sum = 0, min = 0, max = 0, m = 0;
    for (uint64_t i = 0; i < n_frames; i += interval) {
        double s;
        if (vg_store_get(store, column, i, &s))
            return -ENOENT;
        sum += s;
        inverse_sum += 1 / (s + 1);
        /* Comparisons with NaN are false: a NaN of frame 0 stays, a later one is passed over. */
        if (!i || s < min)
            min = s;
        if (!i || s > max)
            max = s;
        m++;
    }
    if (!n_frames)
        return -ENOENT;
    switch (pool) {
    case VG_POOL_MIN:
        *value = min;
        return 0;
    case VG_POOL_MAX:
        *value = max;
        return 0;
    case VG_POOL_MEAN:
        *value = sum / m;
        return 0;
    case VG_POOL_HARMONIC_MEAN:
        *value = m / inverse_sum - 1;
        return 0;
    default:
        return -ENOENT;
    }
}
