/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Parameters of float_ssim's kernels: one struct for all of them.
 */
#ifndef VG_KERNELS_FLOAT_SSIM_ARGS_H
#define VG_KERNELS_FLOAT_SSIM_ARGS_H

#include "kernels/args.h"
#include "shared_math/float_ssim.h"
#include "shared_math/ordered_sum.h"

#define VG_FLOAT_SSIM_BLOCK 256 /* threads, of all kernels */

/* Decimation: a block makes outputs of one row from up to this many columns. */
#define VG_FLOAT_SSIM_BYTE_COLUMNS    (VG_FLOAT_SSIM_BLOCK * 16)
#define VG_FLOAT_SSIM_COLUMNS         (VG_FLOAT_SSIM_BLOCK * 8)
#define VG_FLOAT_SSIM_DECIMATE_SHARED 16384

/* Windows: a block takes a tile of this many columns, and rows by kernel: few for decimated planes, which are small and
   want many blocks, more for pictures, where the rows filtered twice cost more. */
#define VG_FLOAT_SSIM_TILE_COLUMNS        32
#define VG_FLOAT_SSIM_TILE_ROWS_DECIMATED 16
#define VG_FLOAT_SSIM_TILE_ROWS_PICTURE   32

/* Words between rows of a tile of samples: odd and a multiple of 11 modulo 32, so that neither filter's reads collide. */
#define VG_FLOAT_SSIM_TILE_PITCH (VG_FLOAT_SSIM_TILE_COLUMNS + VG_FLOAT_SSIM_TAPS)

/* The same of filtered rows, of which eight threads write four groups of eight each. */
#define VG_FLOAT_SSIM_FILTERED_PITCH (VG_FLOAT_SSIM_TILE_COLUMNS + 1)

/** Bytes of shared memory: two tiles of samples and five of filtered rows. */
#define VG_FLOAT_SSIM_WINDOW_SHARED(rows)                                                                              \
    (((rows) + VG_FLOAT_SSIM_TAPS - 1) * (2 * VG_FLOAT_SSIM_TILE_PITCH + 5 * VG_FLOAT_SSIM_FILTERED_PITCH) * 4)

/* Sums over all windows: those of the record, then the magnitudes of those that can be negative. */
enum { VG_FLOAT_SSIM_SUM_TERM, VG_FLOAT_SSIM_SUM_L, VG_FLOAT_SSIM_SUM_C, VG_FLOAT_SSIM_SUM_S };
enum { VG_FLOAT_SSIM_MAGNITUDE_TERM = 4, VG_FLOAT_SSIM_MAGNITUDE_S, VG_FLOAT_SSIM_SUMS };

/** Counters are zero before the first launch and left so; the rest is written by each frame before it is read. */
typedef struct VgFloatSsimState {
    uint32_t window_blocks, chunk_blocks, ordered_blocks; /* that are done */
    uint32_t undecided;                                   /* bit i: sum i is to be made in order */
} VgFloatSsimState;

typedef struct VgFloatSsimArgs {
    VgDevicePlane planes[2]; /* reference, distorted */
    uint64_t decimated[2];   /* float planes without gaps */
    uint64_t terms;          /* double [1 or 4][windows] */
    uint64_t partials;       /* double [VG_FLOAT_SSIM_SUMS][blocks of windows] */
    uint64_t chunks;         /* VgOrderedChunk [1 or 4][n_chunks] */
    uint64_t state;          /* VgFloatSsimState */
    uint64_t record;         /* VgFloatSsimRecord */
    int64_t windows;
    double guard;              /* vg_ordered_guard(windows) */
    VgFloatSsimParams params;  /* 8 words */
    float unit;                /* vg_float_ssim_unit(): made on the host, as the tap is */
    int32_t granule;           /* columns that are summed together early: 4, 2 or 1 */
    int32_t outputs_per_block; /* of decimation */
    uint32_t n_chunks;
    int32_t spread; /* ordered sums are left to kernels of their own; else the last block of windows makes them */
    int32_t reserved;
} VgFloatSsimArgs;

#endif
