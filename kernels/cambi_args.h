/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Parameters of CAMBI's kernels, and what the kernels have among themselves in work memory.
 */
#ifndef VG_KERNELS_CAMBI_ARGS_H
#define VG_KERNELS_CAMBI_ARGS_H

#include "kernels/args.h"
#include "shared_math/cambi.h"

#define VG_CAMBI_BLOCK 256 /* threads, of all kernels but those that count in strips */

/* Planes: a block takes a tile of the processed plane. */
#define VG_CAMBI_TILE_COLUMNS 128
#define VG_CAMBI_TILE_ROWS    32

/* Pyramid: a block makes so much of the last scale, and of the scales before what becomes that. */
#define VG_CAMBI_PYRAMID_COLUMNS 16
#define VG_CAMBI_PYRAMID_ROWS    4

/* Cells, of which the extreme levels are known. */
#define VG_CAMBI_CELL_COLUMNS 16
#define VG_CAMBI_CELL_ROWS    4

/* A cell without a masked pixel whose level has values. */
#define VG_CAMBI_EMPTY_CELL 0xffffu

/*
 * Counting: a block takes a strip of columns of a segment of rows, with so many threads: those that update counts of
 * columns, one for each column of the strip for values, and 32 for lists of tasks.
 */
#define VG_CAMBI_STRIP_COLUMNS  128
#define VG_CAMBI_STRIP_UPDATERS 192
#define VG_CAMBI_STRIP_LISTERS  32
#define VG_CAMBI_STRIP_BLOCK    (VG_CAMBI_STRIP_UPDATERS + VG_CAMBI_STRIP_COLUMNS + VG_CAMBI_STRIP_LISTERS)

/* Windows with this many pixels to a side of the middle can be counted so: fewer are less than the eight pixels that are
   counted together, more have values beyond vg_cambi_value(). */
#define VG_CAMBI_LEAST_STRIP_HALF 5
#define VG_CAMBI_MOST_STRIP_HALF  (VG_CAMBI_NARROW_WINDOW / 2)

/* The same for other windows: columns of the strip. */
#define VG_CAMBI_PLAIN_COLUMNS 64

/* Dynamic shared memory for counting. With the kernels' own it is at most 64 KiB, which every device has. */
#define VG_CAMBI_COUNT_SHARED 64896

/** Bytes of shared memory beside the counts of columns: window counts and tasks. */
#define VG_CAMBI_STRIP_SHARED(n) ((2 * (n) + 1) * VG_CAMBI_STRIP_COLUMNS * 2 + VG_CAMBI_STRIP_COLUMNS * 4)
#define VG_CAMBI_PLAIN_SHARED(n) ((2 * (n) + 1) * VG_CAMBI_PLAIN_COLUMNS * 4)

/** Columns whose counts are kept by a strip: a halo at each side, which is half a window, rounded up. */
#define VG_CAMBI_STRIP_PITCH(halo) (VG_CAMBI_STRIP_COLUMNS + 2 * (halo))
#define VG_CAMBI_PLAIN_PITCH(half) (VG_CAMBI_PLAIN_COLUMNS + 2 * (half))

typedef struct VgCambiDeviceScale {
    uint64_t pixels;  /* uint16_t [height][pitch]; what is beyond the width may be anything */
    uint64_t cells;   /* uint32_t [rows of cells][cells_pitch]: lowest level | highest level << 16 */
    uint64_t values;  /* float [height][width] */
    uint64_t heatmap; /* uint16_t [height][width]; 0: not wanted */
    int32_t width, height, pitch;
    int32_t cells_pitch;
    int32_t rows;         /* of a segment: a multiple of VG_CAMBI_CELL_ROWS */
    uint32_t strips;      /* side by side */
    uint32_t first_block; /* of counting */
    uint32_t reserved;
} VgCambiDeviceScale;

/** One side of a frame: for all kernels but cambi_tables. */
typedef struct VgCambiArgs {
    VgDevicePlane luma;
    VgCambiDeviceScale scales[VG_CAMBI_SCALES];
    uint64_t columns, rows; /* uint16_t: nearest samples of the resampled plane; 0: it is not resampled */
    uint64_t reciprocals;   /* float: vg_cambi_reciprocal() */
    uint64_t totals;        /* VgCambiTotals [VG_CAMBI_SCALES] (kernels/cambi_pool_args.h) */
    uint64_t largest;       /* uint32_t: of all samples; 0 between frames */
    uint64_t record;        /* VgCambiRecord */
    double heatmap_factor;
    VgCambiParams params;
    int32_t side;
    int32_t has_values[2]; /* levels that have: the lowest, and how many */
    int32_t halo;          /* of strips */
    int32_t levels;        /* of which a strip keeps counts at once */
    int32_t alone;         /* the other side is not worked on */
} VgCambiArgs;

/** Tables that are made once. */
typedef struct VgCambiTablesArgs {
    uint64_t reciprocals;
    uint64_t nearest[2 * VG_CAMBI_SIDES]; /* uint16_t: columns and rows of each side; 0: not needed */
    int32_t size[2 * VG_CAMBI_SIDES], resampled_size[2 * VG_CAMBI_SIDES];
    int32_t n_reciprocals;
    int32_t reserved;
} VgCambiTablesArgs;

#endif
