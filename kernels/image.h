/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The kernels as the library carries them, made by kernels/meson.build. A driver is given the cubin image first, which
 * holds machine code, and the PTX if that does not fit the device.
 */
#ifndef VG_KERNELS_IMAGE_H
#define VG_KERNELS_IMAGE_H

#include <stdint.h>

/** PTX for every CUDA device since compute capability 7.5; a string, its final 0 not counted in the size. */
extern const char vg_image_ptx[];
extern const uint64_t vg_image_ptx_size;

/** Fat binary of nvcc's; size 0 if the library was built without. */
extern const char vg_image_cubin[];
extern const uint64_t vg_image_cubin_size;

/** A code object for AMD devices of one architecture, in gzip's format. */
typedef struct VgHipImage {
    const char *target; /* "gfx1100" */
    const uint8_t *packed;
    uint64_t packed_size;
} VgHipImage;

/** One for each target of the build; ended by one without a name. */
extern const VgHipImage vg_images_hip[];

#endif
