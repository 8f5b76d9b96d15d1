/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What kernels and the host have in common: planes in device memory and the parameters of each kernel. The structs have
 * the same layout for every compiler: fixed-width fields, 64-bit ones first, no gaps.
 */
#ifndef VG_KERNELS_ARGS_H
#define VG_KERNELS_ARGS_H

#include <stdint.h>

/** A plane of samples in device memory: VgPlane (cpu_ref/plane.h) with an address instead of a pointer. */
typedef struct VgDevicePlane {
    uint64_t address; /* of sample (0, 0) */
    int64_t pitch;    /* bytes from a row to the next; may be negative */
    int32_t width, height;
    int32_t step;         /* bytes from a sample to the next */
    int32_t sample_bytes; /* 1 or 2 */
    int32_t shift;        /* of words, to the right */
    int32_t vector;       /* set by the metric's host side: rows may be read by the kernel's vectors */
} VgDevicePlane;

#endif
