/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * CAMBI's pooling on the device: from the planes of values of one side to its sums in the record, without work of the host
 * in between. A part of the metric's device side, which calls these from its own work_size, plan and enqueue.
 */
#ifndef VG_KERNELS_CAMBI_POOL_HOST_H
#define VG_KERNELS_CAMBI_POOL_HOST_H

#include "kernels/cambi_pool_args.h"
#include "kernels/kernel_host.h"

/** Names of the kernels, for the metric's list. */
#define VG_CAMBI_POOL_KERNELS                                                                                          \
    { "cambi_pool_bins", VG_CAMBI_HIGH_BINS * sizeof(uint16_t) },                                                      \
        { "cambi_pool_select", VG_CAMBI_LOW_BINS * sizeof(uint16_t) }, { "cambi_pool_round", VG_CAMBI_ROUND_SHARED },  \
        { "cambi_pool_finish", VG_CAMBI_FINISH_SHARED }, { "cambi_pool_chunks", 0 },                                   \
    {                                                                                                                  \
        "cambi_pool_ordered", 0                                                                                        \
    }

/** What is tuned, and what tests change. */
typedef struct VgCambiPoolTuning {
    uint32_t spread_frame;  /* if the first plane has more values than this, the whole device works on sums in order */
    uint32_t spread;        /* and begins permutations of planes of more values than this; no more than spread_frame */
    uint32_t rounds;        /* by so many rounds */
    int32_t ordered_always; /* sums are made in order even where the order cannot matter */
    uint32_t table;         /* sums of candidates that a block keeps: 1 to VG_CAMBI_TABLE */
} VgCambiPoolTuning;

/** Bytes of work memory, aligned to 256 by the caller. Both sides use the same, one after the other in one stream. */
size_t vg_cambi_pool_work_size(const VgCambiParams *params);

/**
 * Where in the work memory a scale's state is (VgCambiPoolState), and the plane that has the values from number `away` on,
 * in the order of summation, if `source` is 1 after a frame. For tests.
 */
void vg_cambi_pool_planes(const VgCambiParams *params, int scale, uint64_t *state, uint64_t *second);

/** Once for each work memory, before its first frame. */
int vg_cambi_pool_plan(const VgCambiParams *params, const VgLauncher *launcher, uint64_t work);

/**
 * Enqueues the pooling of one side. values[s]: the plane of scale s, float in raster order without gaps, at a multiple of
 * 16; its order is not kept. totals: VgCambiTotals [VG_CAMBI_SCALES]. record: VgCambiRecord, of which sums[side] is
 * written. tuning: NULL for what is best.
 */
int vg_cambi_pool_enqueue(const VgCambiParams *params, int side, const VgLauncher *launcher,
                          const uint64_t values[VG_CAMBI_SCALES], uint64_t totals, uint64_t work, uint64_t record,
                          const VgCambiPoolTuning *tuning);

#endif
