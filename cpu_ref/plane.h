/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * One component of one picture, as the CPU references read it.
 */
#ifndef VG_CPU_REF_PLANE_H
#define VG_CPU_REF_PLANE_H

#include "shared_math/limits.h"

#include <stddef.h>
#include <stdint.h>

/**
 * A plane of samples in place. The value of sample (x, y) is the native-endian word of `sample_bytes` bytes at
 * data + y * pitch + x * step, shifted right by `shift`. Width and height are those that metrics measure: chroma sizes
 * are rounded down. An absent plane has width and height 0.
 */
typedef struct VgPlane {
    const uint8_t *data;
    ptrdiff_t pitch; /* bytes from a row to the next; may be negative */
    int32_t width, height;
    int32_t step; /* bytes from a sample to the next */
    int32_t sample_bytes;
    int32_t shift;
} VgPlane;

#endif
