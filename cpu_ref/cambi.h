/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * cambi's pixel pass from inside: its planes, for tests, and what its variants share.
 *
 * A pixel is a level in 16 bits whose highest bit is the mask: set in flat surroundings. Planes of pixels have no gaps.
 */
#ifndef VG_CPU_REF_CAMBI_H
#define VG_CPU_REF_CAMBI_H

#include <stddef.h>

#include "cpu_ref/plane.h"
#include "shared_math/cambi.h"

/** Levels -32 to VG_CAMBI_TOP_LEVEL + 32: those of pixels, and those that are looked for around them. */
#define VG_CAMBI_LEVELS (VG_CAMBI_TOP_LEVEL + 1 + 2 * VG_CAMBI_MOST_DIFFERENCES)

/** Bytes that a level's counts have at least. */
#define VG_CAMBI_STRIP 1024

/** Pixels that may be read, though not used, behind a row or plane. */
#define VG_CAMBI_MARGIN 64

/** Bins of the first pass of the search for the k-th largest value: 19 binades in 128 parts each. */
#define VG_CAMBI_BINS (19 * 128)

typedef struct VgCambiScratch {
    uint16_t *pixels;                       /* of the current scale */
    float *values;                          /* of the current scale */
    void *samples;                          /* an unpacked row */
    int32_t *columns;                       /* of the plane, by column of the resampled one */
    uint16_t *filtered[3];                  /* rows of the mode filter's first half, by row modulo 3 */
    uint8_t *equal[VG_CAMBI_MASK_SIDE + 1]; /* rows of pixels equal to their neighbours, by row modulo 8 */
    uint8_t *equal_sums;                    /* sums of such rows, by column, from VG_CAMBI_MASK_HALF on */
    uint8_t *first_difference;              /* by level */
    float *reciprocals;                     /* of 0 to W * W */
    uint32_t *bins;
    uint16_t *nothing; /* a row of pixels that are not masked */
    void *counts;      /* by level and column, as the variant arranges them */
} VgCambiScratch;

/** Cuts `memory` into what a side needs; with memory NULL only counts. Returns the bytes that are needed. */
size_t vg_cambi_scratch(const VgCambiParams *params, int side, void *memory, VgCambiScratch *scratch);

/** A side at one scale. */
typedef struct VgCambiScale {
    const VgCambiParams *params;
    const VgCambiScratch *scratch;
    int32_t width, height, window;
} VgCambiScale;

/** Exact sum of values in units, and the union of their bits. */
typedef struct VgCambiUnits {
    uint64_t sum, bits;
} VgCambiUnits;

/** A k-th largest value. */
typedef struct VgCambiLargest {
    uint32_t bits;
    uint32_t more; /* how many values are larger */
} VgCambiLargest;

/**
 * Sum of the `top` largest of `n` values in the order of the definition, of which 1 <= top <= n. Rearranges the values if
 * the order matters.
 */
double vg_cambi_sum_of_largest(const VgCambiParams *params, int side, float *values, int32_t n, int32_t top,
                               uint32_t bins[VG_CAMBI_BINS]);

/** Planes in the order in which they come into being. */
typedef enum VgCambiStage {
    VG_CAMBI_STAGE_LEVELS, /* pixels without mask, before the first scale */
    VG_CAMBI_STAGE_MASKED, /* pixels before the first scale */
    VG_CAMBI_STAGE_PIXELS, /* pixels of a scale, filtered */
    VG_CAMBI_STAGE_VALUES, /* float, of a scale */
} VgCambiStage;

/** Is shown each plane once; scale is 0 before the first. The memory is the pass's own. */
typedef struct VgCambiObserver {
    void (*see)(void *opaque, VgCambiStage stage, int32_t scale, const void *plane, int32_t width, int32_t height);
    void *opaque;
} VgCambiObserver;

/** Works on one side as plain C does and shows the planes. `scratch` is as for VgCpuVariant.run. */
void vg_cambi_show_stages(const VgCambiParams *params, const VgPlane *luma, int side, void *scratch,
                          const VgCambiObserver *observer);

#endif
