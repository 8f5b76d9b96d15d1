/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Working memory of float_ssim's pixel pass.
 */
#ifndef VG_CPU_REF_FLOAT_SSIM_H
#define VG_CPU_REF_FLOAT_SSIM_H

#include <stddef.h>

#include "shared_math/float_ssim.h"

#define VG_FLOAT_SSIM_PLANES 5 /* R, T, R*R, T*T, R*T */

typedef struct VgFloatSsimScratch {
    void *samples;          /* an unpacked row */
    uint32_t *integer_sums; /* sums of a window's rows, by column */
    double *column_sums;    /* the same with mirrored columns on both sides, from the first window's first column on */
    float *in[VG_FLOAT_SSIM_PLANES];
    float *ring[VG_FLOAT_SSIM_PLANES][VG_FLOAT_SSIM_TAPS]; /* horizontally filtered rows, by row modulo 11 */
    float *filtered[VG_FLOAT_SSIM_PLANES];
    double *factors[4]; /* l*c*s, l, c, s of a row of windows */
} VgFloatSsimScratch;

/** Cuts `memory` into rows; with memory NULL only counts. Returns the bytes that are needed. */
size_t vg_float_ssim_scratch(const VgFloatSsimParams *params, void *memory, VgFloatSsimScratch *scratch);

#endif
