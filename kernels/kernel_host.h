/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The contract between the engine and the device side of a metric: the twin of cpu_ref/cpu_ref.h.
 *
 * A device metric turns the planes of a frame into the metric's raw record, the same bytes that the CPU reference makes,
 * by launches in one stream. It knows no driver: launches go through a VgLauncher.
 *
 * Memory: a pass (a metric with its parameters) has one work memory on the device for each stream that runs frames of it.
 * The frames of a stream use it one after another, in the stream's order; no host wait is needed between them. Frames of
 * different streams have nothing in common but pictures, which they read.
 */
#ifndef VG_KERNELS_KERNEL_HOST_H
#define VG_KERNELS_KERNEL_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/args.h"
#include "shared_math/limits.h"

/** What a frame's launches see: index [k] holds the frame k before the current one, component [c] is Y, Cb, Cr. */
typedef struct VgDeviceFrame {
    uint64_t index; /* of the current frame, counted from 0: earlier planes exist for k <= index */
    VgDevicePlane ref[VG_MAX_LAG + 1][3];
    VgDevicePlane dist[VG_MAX_LAG + 1][3]; /* only [0] unless the metric asks for the history of the distorted side */
} VgDeviceFrame;

/** Enqueues work on the stream. The functions return 0 or a negative errno value, which is passed on. */
typedef struct VgLauncher {
    void *context;
    /** Launches a kernel by its name; `args` is the kernel's argument struct, copied before the return. */
    int (*launch)(void *context, const char *kernel, const uint32_t grid[3], uint32_t block, uint32_t dynamic_shared,
                  const void *args, size_t args_size);
    /** Fills memory with a byte. */
    int (*fill)(void *context, uint64_t address, uint8_t value, size_t size);
} VgLauncher;

/** A kernel and what its launches need. */
typedef struct VgKernel {
    const char *name;
    uint32_t dynamic_shared; /* most bytes that a launch asks for; with the kernel's shared arrays at most 64 KiB */
} VgKernel;

typedef struct VgDeviceMetric {
    const VgKernel *kernels; /* all that enqueue() and plan() may launch; ended by an entry without a name */
    /** Whether the device can do these parameters; if not, writes the reason to `why`. NULL: it can do all. */
    int (*check)(const void *params, char *why, size_t why_size);
    /** Bytes of work memory for these parameters, aligned to 256 by the caller; 0: none. */
    size_t (*work_size)(const void *params);
    /** Once for each work memory, before its first frame: brings it into the state that launches expect and leave it in. */
    int (*plan)(const void *params, const VgLauncher *launcher, uint64_t work);
    /** Enqueues a frame; its record, whole, is at `record` (a multiple of 16) when the work is done. */
    int (*enqueue)(const void *params, const VgLauncher *launcher, const VgDeviceFrame *frame, uint64_t work,
                   uint64_t record);
} VgDeviceMetric;

extern const VgDeviceMetric vg_device_psnr;
extern const VgDeviceMetric vg_device_float_ssim;
extern const VgDeviceMetric vg_device_motion;
extern const VgDeviceMetric vg_device_cambi;
extern const VgDeviceMetric vg_device_speed; /* speed_chroma and speed_temporal */

/** Whether all rows of the plane start at multiples of `alignment` bytes. */
static inline int vg_plane_aligned(const VgDevicePlane *plane, uint64_t alignment)
{
    return plane->address % alignment == 0 && (uint64_t)plane->pitch % alignment == 0;
}

/** Whether samples of `bytes` bytes follow each other without gaps. */
static inline int vg_plane_dense(const VgDevicePlane *plane, int32_t bytes)
{
    return plane->sample_bytes == bytes && plane->step == bytes;
}

static inline uint32_t vg_divide_up(uint64_t a, uint32_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

/** Takes `size` bytes of work memory, of which `used` are taken; returns where they begin, a multiple of 256. */
static inline uint64_t vg_take(uint64_t *used, uint64_t size)
{
    const uint64_t offset = *used;
    *used += (size + 255) & ~(uint64_t)255;
    return offset;
}

/** A one-dimensional launch. */
static inline int vg_launch(const VgLauncher *launcher, const char *kernel, uint32_t blocks, uint32_t block,
                            uint32_t dynamic_shared, const void *args, size_t args_size)
{
    const uint32_t grid[3] = { blocks, 1, 1 };
    return launcher->launch(launcher->context, kernel, grid, block, dynamic_shared, args, args_size);
}

#endif
