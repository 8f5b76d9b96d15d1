/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Samples of planes in device memory.
 */
#ifndef VG_KERNELS_SAMPLES_H
#define VG_KERNELS_SAMPLES_H

#include "kernels/args.h"
#include "kernels/gpu.h"

/** Address of a row's first sample. */
GPU_FN uint64_t gpu_row(const VgDevicePlane *plane, int32_t y)
{
    return plane->address + (uint64_t)(y * plane->pitch);
}

/** Word x of a row, not shifted. */
GPU_FN uint32_t gpu_row_word(const VgDevicePlane *plane, uint64_t row, int32_t x)
{
    const uint64_t address = row + (uint64_t)((int64_t)x * plane->step);
    return plane->sample_bytes == 1 ? gpu_load8(address) : gpu_load16(address);
}

/** Sample x of a row. */
GPU_FN int32_t gpu_row_sample(const VgDevicePlane *plane, uint64_t row, int32_t x)
{
    return (int32_t)(gpu_row_word(plane, row, x) >> plane->shift);
}

#endif
