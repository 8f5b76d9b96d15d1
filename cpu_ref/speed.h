/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * SpEED's pixel pass from inside: its working memory, and its stages for tests.
 */
#ifndef VG_CPU_REF_SPEED_H
#define VG_CPU_REF_SPEED_H

#include <stddef.h>

#include "cpu_ref/cpu_ref.h"
#include "shared_math/speed.h"

/** Rows of the source that are kept as floats; resampling needs nine neighbours at most. A power of two. */
#define VG_SPEED_KEPT_ROWS 16

/** Floats on either side of a row that mirrored samples fill, and that may be read behind a row of the plane. */
#define VG_SPEED_MARGIN 32

/** Blocks that are worked on together. */
#define VG_SPEED_CHUNK 32

/** Rows of matrices: VG_SPEED_N entries, and zeros. */
#define VG_SPEED_PITCH 32
typedef float VgSpeedMatrix[VG_SPEED_N][VG_SPEED_PITCH] __attribute__((aligned(64)));

/** Rows of windows that are worked on together where vectors are: five windows of them shall stay in the first cache. */
static inline int32_t vg_speed_band_rows(int32_t width)
{
    return width < 512 ? 512 / width : 1;
}

/** Doubles that the sums of products take there: for every five windows, blocks of two, each of which has all lanes. */
#define VG_SPEED_WINDOW_SUMS ((3 + 5 + 8 + 10 + 13) * 2 * VG_SPEED_SIDE * VG_SPEED_LANES)

/** Rows that a vertical filter reads, in place. */
typedef struct VgSpeedRows {
    const uint8_t *current[VG_SPEED_MOST_TAPS];
    const uint8_t *earlier[VG_SPEED_MOST_TAPS]; /* NULL: no difference */
    int32_t n, bytes, shift, earlier_shift;
    float unit;
} VgSpeedRows;

typedef struct VgSpeedScratch {
    void *samples[2]; /* unpacked rows: of the picture, and of the one that it is subtracted from */
    /* For resampling: source rows by row modulo VG_SPEED_KEPT_ROWS, and of every column that the low pass reads the
       source columns and their weights. */
    float *kept[VG_SPEED_KEPT_ROWS];
    int32_t kept_rows[VG_SPEED_KEPT_ROWS]; /* which rows these are; -1: none */
    int32_t *columns[VG_SPEED_LANCZOS_TAPS];
    float *weights[VG_SPEED_LANCZOS_TAPS];
    float *resampled, *resampled_weight; /* a row, and the sums of its weights */
    float *low;                          /* a row filtered vertically, from column 0 on, with margins on both sides */
    float *decimated, *plane;            /* planes of `pitch` */
    double *wide;                        /* the same as `plane` */
    ptrdiff_t pitch;
    double *windows;     /* a band of the 25 windows less their means */
    double *window_sums; /* VG_SPEED_WINDOW_SUMS */
    float *x;            /* solutions, VG_SPEED_N rows of n_blocks rounded up to whole chunks */
    ptrdiff_t x_pitch;
    float *s[2], *e[2]; /* variances and entropies of both sides' blocks; as many */
} VgSpeedScratch;

/** Cuts `memory` into these; with memory NULL only counts. Returns the bytes that are needed. */
size_t vg_speed_scratch(const VgSpeedParams *params, void *memory, VgSpeedScratch *scratch);

/** Stages of one side's plane in the order in which they come into being; float but for the sums. */
typedef enum VgSpeedStage {
    VG_SPEED_STAGE_DECIMATED,
    VG_SPEED_STAGE_PLANE, /* without local mean */
    VG_SPEED_STAGE_MEANS,
    VG_SPEED_STAGE_SUMS, /* double, of VG_SPEED_PAIRS */
    VG_SPEED_STAGE_COVARIANCES,
    VG_SPEED_STAGE_DIAGONAL, /* of the tridiagonal matrix */
    VG_SPEED_STAGE_OFF_DIAGONAL,
    VG_SPEED_STAGE_EIGENVALUES,
    VG_SPEED_STAGE_Q,
    VG_SPEED_STAGE_R,
    VG_SPEED_STAGE_X, /* row: sample of the block; column: block. Q and R: of regular eigenvalues alone; X: of regular matrices */
    VG_SPEED_STAGE_S,
    VG_SPEED_STAGE_E,
} VgSpeedStage;

/** Is shown each stage once; `side` is 0 for the reference. Rows are `pitch` elements apart. The memory is the pass's own. */
typedef struct VgSpeedObserver {
    void (*see)(void *opaque, int side, VgSpeedStage stage, const void *values, int32_t rows, int32_t columns,
                ptrdiff_t pitch);
    void *opaque;
} VgSpeedObserver;

/** Scores one pair of planes as plain C does and shows the stages. `scratch` is as for VgCpuVariant.run. */
void vg_speed_show_stages(const VgSpeedParams *params, const VgCpuFrame *frame, int plane, void *scratch,
                          const VgSpeedObserver *observer);

#endif
