/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Parameters of the kernels that pool CAMBI's values, and what the kernels have among themselves in work memory.
 */
#ifndef VG_KERNELS_CAMBI_POOL_ARGS_H
#define VG_KERNELS_CAMBI_POOL_ARGS_H

#include "kernels/args.h"
#include "shared_math/cambi.h"

/**
 * What is known of a plane of values before it is pooled: whoever makes the values adds to it by atomics. It is zero
 * before a frame, and pooling leaves it so. The sum may wrap if vg_cambi_sum_may_overflow(); it is not used then.
 */
typedef struct VgCambiTotals {
    uint64_t sum, bits; /* of vg_cambi_units() of all values: their sum, and the union of their bits */
    uint32_t nonzero;   /* number of values other than 0 */
    uint32_t reserved;
} VgCambiTotals;

#endif
