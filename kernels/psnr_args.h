/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Parameters of psnr's kernel.
 */
#ifndef VG_KERNELS_PSNR_ARGS_H
#define VG_KERNELS_PSNR_ARGS_H

#include "kernels/args.h"

#define VG_PSNR_BLOCK 256 /* threads */
#define VG_PSNR_ROWS  4   /* of a thread */

/** How a thread reads the samples of one row: a vector of 16 bytes, or sample by sample. */
typedef enum VgPsnrMode {
    VG_PSNR_BYTES,      /* 16 samples of a byte */
    VG_PSNR_BYTE_PAIRS, /* 8 pairs of Cb and Cr */
    VG_PSNR_WORDS,      /* 8 samples of two bytes */
    VG_PSNR_WORD_PAIRS, /* 4 pairs */
    VG_PSNR_SAMPLES     /* 8 samples of any layout */
} VgPsnrMode;

/** Planes whose errors are summed together: one component, or Cb and Cr that share rows. */
typedef struct VgPsnrPart {
    VgDevicePlane ref, dist; /* of Cb, if Cr shares its rows */
    int32_t mode;            /* VgPsnrMode */
    int32_t component;       /* index in the record */
    int32_t groups;          /* threads that share a row */
    uint32_t first_block, blocks;
    int32_t reserved;
} VgPsnrPart;

/** Zero before the first launch; every launch leaves it so. */
typedef struct VgPsnrState {
    uint64_t sse[3];    /* above sum_bits, if that is set, the number of blocks that are done */
    uint32_t blocks[3]; /* else that number */
    uint32_t reserved;
} VgPsnrState;

typedef struct VgPsnrArgs {
    VgPsnrPart parts[3];
    uint64_t state;  /* VgPsnrState */
    uint64_t record; /* VgPsnrRecord */
    int32_t n_parts;
    int32_t sum_bits;  /* of a component's sum, if the number of blocks fits above it; else 0 */
    int32_t luma_only; /* the sums of the others are 0 */
    int32_t reserved;
} VgPsnrArgs;

#endif
