/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * motion's launch: one for both lags.
 */
#include "kernels/kernel_host.h"
#include "kernels/motion_args.h"
#include "shared_math/motion.h"

static size_t work_size(const void *params)
{
    (void)params;
    return sizeof(VgMotionState);
}

static int plan(const void *params, const VgLauncher *launcher, uint64_t work)
{
    (void)params;
    return launcher->fill(launcher->context, work, 0, sizeof(VgMotionState));
}

/* Vectors are eight samples. */
static VgDevicePlane vectorised(VgDevicePlane plane, int32_t bytes)
{
    plane.vector = vg_plane_dense(&plane, bytes) && vg_plane_aligned(&plane, VG_MOTION_COLUMNS * (uint64_t)bytes);
    return plane;
}

static int enqueue(const void *params_v, const VgLauncher *launcher, const VgDeviceFrame *frame, uint64_t work,
                   uint64_t record)
{
    const VgMotionParams *params = params_v;
    VgMotionArgs args = { .state = work, .record = record, .bit_depth = params->bit_depth };
    int32_t bytes = frame->ref[0][0].sample_bytes;
    int n = 0;

    for (int32_t lag = 1; lag <= 2; lag++)
        if ((params->lags & 1 << (lag - 1)) && frame->index >= (uint64_t)lag) {
            args.earlier[n] = frame->ref[lag][0];
            if (args.earlier[n].sample_bytes == 2)
                bytes = 2;
            args.field[n++] = lag - 1;
        }
    if (n == 0)
        return launcher->fill(launcher->context, record, 0, sizeof(VgMotionRecord));
    if (n == 1)
        args.field[1] = 1 - args.field[0];
    args.current = vectorised(frame->ref[0][0], bytes);
    int whole = args.current.vector && params->width % VG_MOTION_COLUMNS == 0;
    for (int e = 0; e < n; e++) {
        args.earlier[e] = vectorised(args.earlier[e], bytes);
        whole = whole && args.earlier[e].vector;
    }

    /* One wave a strip. The kernel loops over strips, so that fewer waves, or wider ones, do as well. */
    const uint32_t lanes = 32, strip_width = (lanes - 2) * VG_MOTION_COLUMNS;
    const uint64_t across = vg_divide_up((uint64_t)params->width, strip_width) * (uint64_t)n;
    uint32_t down;

    do {
        args.rows += VG_MOTION_ROWS;
        down = vg_divide_up((uint64_t)params->height, (uint32_t)args.rows);
    } while (across * down > VG_MOTION_STRIPS && args.rows < VG_MOTION_MOST_ROWS);
    const uint32_t blocks = vg_divide_up(across / (uint64_t)n * down, VG_MOTION_BLOCK / lanes);
    const uint32_t grid[3] = { blocks < VG_MOTION_MAX_BLOCKS ? blocks : VG_MOTION_MAX_BLOCKS, (uint32_t)n, 1 };
    static const char *const names[2][2] = { { "motion_any_bytes", "motion_bytes" },
                                             { "motion_any_words", "motion_words" } };
    return launcher->launch(launcher->context, names[bytes - 1][whole], grid, VG_MOTION_BLOCK, 0, &args, sizeof(args));
}

static const VgKernel kernels[] = {
    { "motion_bytes", 0 }, { "motion_words", 0 }, { "motion_any_bytes", 0 }, { "motion_any_words", 0 }, { 0 },
};

const VgDeviceMetric vg_device_motion = {
    .kernels = kernels,
    .work_size = work_size,
    .plan = plan,
    .enqueue = enqueue,
};
