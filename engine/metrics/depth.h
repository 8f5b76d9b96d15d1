/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The depths that most metrics score: 8, 10, 12 and 16 bits.
 */
#ifndef VG_METRICS_DEPTH_H
#define VG_METRICS_DEPTH_H

#include <stdio.h>

#include "engine/vmafgpu.h"

/** The least depth that is scored and holds samples of this one. */
static inline int vg_scored_depth(uint32_t depth)
{
    return depth <= 8 ? 8 : depth <= 10 ? 10 : depth <= 12 ? 12 : 16;
}

/** Returns 0, or -1 and in `why` the depth that is not scored and the conversion to the next one that is. */
static inline int vg_check_depth(const char *metric, const VgGeometry *geometry, char *why, size_t why_size)
{
    const uint32_t depth = geometry->bit_depth;

    if (depth == 8 || depth == 10 || depth == 12 || depth == 16)
        return 0;
    snprintf(why, why_size, "%s scores 8, 10, 12 or 16 bits, not %u: convert both inputs to %d bits first", metric,
             depth, vg_scored_depth(depth));
    return -1;
}

#endif
