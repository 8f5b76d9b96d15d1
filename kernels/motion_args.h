/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Parameters of motion's kernels.
 */
#ifndef VG_KERNELS_MOTION_ARGS_H
#define VG_KERNELS_MOTION_ARGS_H

#include "kernels/args.h"

#define VG_MOTION_BLOCK   64 /* threads */
#define VG_MOTION_COLUMNS 8  /* of a thread */

/* Each word of the state gathers a sum, below 2^32 samples times 2^16, and above it the number of blocks that added to
   it: one atomic tells a block that it was the last, and the total. At most 2^16 - 1 blocks. */
#define VG_MOTION_SUM_BITS   48
#define VG_MOTION_MAX_BLOCKS 65535

/** Zero before the first launch; every launch leaves it so. */
typedef struct VgMotionState {
    uint64_t sum[2];
} VgMotionState;

/* Rows of a wave's strip: a multiple of five, the rows in registers, with five more that are read twice. As few as make no
   more strips than a device of today runs at once; then longer ones, which cost less. */
#define VG_MOTION_ROWS      5
#define VG_MOTION_MOST_ROWS 20
#define VG_MOTION_STRIPS    2400

typedef struct VgMotionArgs {
    VgDevicePlane current, earlier[2];
    uint64_t state;  /* VgMotionState */
    uint64_t record; /* VgMotionRecord */
    int32_t bit_depth;
    int32_t field[2]; /* of the record: for each earlier frame its index, and for a single one also the other index */
    int32_t rows;     /* of a strip */
} VgMotionArgs;

#endif
