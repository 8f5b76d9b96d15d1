/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Parameters of SpEED's kernels, and what the kernels have among themselves in work memory.
 *
 * A picture is what one covariance matrix is made of: the plane of one side, 2 * plane + side, where side 0 is the
 * reference.
 */
#ifndef VG_KERNELS_SPEED_ARGS_H
#define VG_KERNELS_SPEED_ARGS_H

#include "kernels/args.h"
#include "shared_math/speed.h"

#define VG_SPEED_MOST_PICTURES (2 * VG_SPEED_MOST_PLANES)

#define VG_SPEED_BLOCK 256 /* threads, of all kernels but those named below */

/* Low pass: a block makes a tile of the plane without local mean, from a tile of the decimated plane with a halo. */
#define VG_SPEED_TILE_COLUMNS 30 /* with the usual halo of 1, an output for each thread */
#define VG_SPEED_TILE_ROWS    6
#define VG_SPEED_MOST_HALO    ((VG_SPEED_MOST_MEAN_TAPS - 1) / 2)

/* Taps of a low pass of scale 1. */
#define VG_SPEED_USUAL_TAPS 9

/* Columns that it filters vertically before it filters them horizontally. */
#define VG_SPEED_TILE_SUMS 4096

/* Means: samples of a window that are in dynamic shared memory together. With the kernel's own arrays it is at most 48 KiB,
   for which no device has to be asked. */
#define VG_SPEED_MEAN_PART 10752

/* Covariances: sums of so many pairs of windows to a block, a thread for each lane and one for each tail. */
#define VG_SPEED_COVARIANCE_BLOCK 128
#define VG_SPEED_BLOCK_PAIRS      6

/* Samples of the plane that it has in dynamic shared memory: at most 48 KiB, too. */
#define VG_SPEED_BAND 11776

/* Entropies: blocks of both sides to a block of threads, a thread for each logarithm. */
#define VG_SPEED_ENTROPY_BLOCKS 5

/** Counters of blocks, by plane: 0 before the first launch and left so. */
typedef struct VgSpeedState {
    uint32_t blocks[VG_SPEED_MOST_PLANES];
} VgSpeedState;

/** Of a picture. Matrices by rows. */
typedef struct VgSpeedStatistics {
    double sums[VG_SPEED_PAIRS]; /* of products, from which covariances are rounded: of use to tests alone */
    float means[VG_SPEED_N];
    float covariances[VG_SPEED_N * VG_SPEED_N];
    float diagonal[VG_SPEED_N]; /* of the tridiagonal matrix, and its off-diagonal */
    float off_diagonal[VG_SPEED_N];
    float eigenvalues[VG_SPEED_N];
    uint32_t singular[2]; /* 1 because of an eigenvalue, and because of a pivot */
    int32_t reserved;
} VgSpeedStatistics;

/** Where a resampled row or column takes a sample, and its weight. */
typedef struct VgSpeedEntry {
    int32_t at;
    float weight;
} VgSpeedEntry;

typedef struct VgSpeedArgs {
    VgDevicePlane current[VG_SPEED_MOST_PICTURES];
    VgDevicePlane earlier[2]; /* from which they are subtracted; of temporal pictures alone */
    /* VgSpeedTableEntry [offset][row or column of a window of the low pass, one window after the other] */
    uint64_t columns, rows;
    uint64_t state;       /* VgSpeedState */
    uint64_t planes;      /* float [picture][height][pitch]: decimated, without local mean */
    uint64_t statistics;  /* VgSpeedStatistics [picture] */
    uint64_t variances;   /* float [picture][block] */
    uint64_t terms;       /* float [plane][block] */
    uint64_t record;      /* VgSpeedRecord */
    VgSpeedParams params; /* 59 words */
    int32_t pitch;
    int32_t mean_part; /* samples of a window that are summed together, at most VG_SPEED_MEAN_PART */
    int32_t band_rows; /* of windows, that covariances are summed of in shared memory together */
} VgSpeedArgs;

/** The same in a table, where weights are words: it is copied, and nothing else, by hosts' launches. */
typedef struct VgSpeedTableEntry {
    int32_t at;
    uint32_t weight; /* bits of the binary32 */
} VgSpeedTableEntry;

/** Part of a table, which hosts make once: work memory is filled by launches alone. */
#define VG_SPEED_TABLE_PART  480
#define VG_SPEED_TABLE_BLOCK 64 /* threads */
typedef struct VgSpeedTableArgs {
    uint64_t table; /* where the part goes */
    int32_t n, reserved;
    VgSpeedTableEntry entries[VG_SPEED_TABLE_PART];
} VgSpeedTableArgs;

#endif
