/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * float_ssim's work memory and launches: decimation (factor above 1), windows, and for very many windows two kernels for
 * sums that must be made in order.
 */
#include "kernels/float_ssim_args.h"
#include "kernels/kernel_host.h"

/* Up to this many windows the last block makes ordered sums itself, in at most a fraction of a millisecond, and seldom:
   that saves two launches a frame. Beyond it a whole grid does. */
#define SPREAD_WINDOWS (1 << 19)

typedef struct Layout {
    uint32_t tiles[2]; /* blocks of windows */
    uint64_t state, decimated[2], terms, partials, chunks, size;
} Layout;

static int64_t n_windows(const VgFloatSsimParams *p)
{
    return (int64_t)(p->out_width - VG_FLOAT_SSIM_TAPS + 1) * (p->out_height - VG_FLOAT_SSIM_TAPS + 1);
}

static int32_t tile_rows(const VgFloatSsimParams *p)
{
    return p->factor > 1 ? VG_FLOAT_SSIM_TILE_ROWS_DECIMATED : VG_FLOAT_SSIM_TILE_ROWS_PICTURE;
}

static uint32_t n_chunks(const VgFloatSsimParams *p)
{
    return vg_divide_up((uint64_t)n_windows(p), VG_ORDERED_CHUNK);
}

static Layout layout_of(const VgFloatSsimParams *p)
{
    const uint64_t n_sums = p->lcs ? 4 : 1;
    Layout l = { .size = 0 };

    l.tiles[0] = vg_divide_up((uint64_t)(p->out_width - VG_FLOAT_SSIM_TAPS + 1), VG_FLOAT_SSIM_TILE_COLUMNS);
    l.tiles[1] = vg_divide_up((uint64_t)(p->out_height - VG_FLOAT_SSIM_TAPS + 1), (uint32_t)tile_rows(p));
    l.state = vg_take(&l.size, sizeof(VgFloatSsimState));
    for (int i = 0; p->factor > 1 && i < 2; i++)
        l.decimated[i] = vg_take(&l.size, (uint64_t)p->out_width * (uint64_t)p->out_height * sizeof(float));
    l.terms = vg_take(&l.size, n_sums * (uint64_t)n_windows(p) * sizeof(double));
    l.partials = vg_take(&l.size, (uint64_t)VG_FLOAT_SSIM_SUMS * l.tiles[0] * l.tiles[1] * sizeof(double));
    l.chunks = vg_take(&l.size, n_sums * n_chunks(p) * sizeof(VgOrderedChunk));
    return l;
}

static size_t work_size(const void *params)
{
    return (size_t)layout_of(params).size;
}

static int plan(const void *params, const VgLauncher *launcher, uint64_t work)
{
    return launcher->fill(launcher->context, work + layout_of(params).state, 0, sizeof(VgFloatSsimState));
}

static int decimate(const VgLauncher *launcher, VgFloatSsimArgs *args)
{
    const VgFloatSsimParams *p = &args->params;
    const int32_t factor = p->factor;
    const int integer = vg_float_ssim_sums_samples(factor);
    int bytes = integer;

    for (int i = 0; i < 2; i++) {
        VgDevicePlane *plane = &args->planes[i];
        bytes &= vg_plane_dense(plane, 1) && vg_plane_aligned(plane, 16);
        plane->vector =
            vg_plane_dense(plane, plane->sample_bytes) && vg_plane_aligned(plane, 8 * (uint64_t)plane->sample_bytes);
    }
    /* Groups of columns that every window, mirrored ones included, takes as a whole. */
    args->granule = !bytes                                 ? 1
                    : factor % 8 == 0 && p->width % 4 == 0 ? 4
                    : factor % 4 == 0 && p->width % 2 == 0 ? 2
                                                           : 1;
    const int32_t columns = bytes ? VG_FLOAT_SSIM_BYTE_COLUMNS : VG_FLOAT_SSIM_COLUMNS;
    args->outputs_per_block = (columns - 2 * factor - 16) / factor;
    const uint32_t grid[3] = { vg_divide_up((uint64_t)p->out_width, (uint32_t)args->outputs_per_block),
                               (uint32_t)p->out_height, 2 };
    return launcher->launch(launcher->context,
                            args->granule == 4 ? "float_ssim_decimate_groups"
                            : bytes            ? "float_ssim_decimate_bytes"
                            : integer          ? "float_ssim_decimate_samples"
                                               : "float_ssim_decimate_products",
                            grid, VG_FLOAT_SSIM_BLOCK, VG_FLOAT_SSIM_DECIMATE_SHARED, args, sizeof(*args));
}

static int enqueue(const void *params_v, const VgLauncher *launcher, const VgDeviceFrame *frame, uint64_t work,
                   uint64_t record)
{
    const VgFloatSsimParams *p = params_v;
    const Layout l = layout_of(p);
    const uint32_t grid[3] = { l.tiles[0], l.tiles[1], 1 };
    VgFloatSsimArgs args = {
        .planes = { frame->ref[0][0], frame->dist[0][0] },
        .decimated = { work + l.decimated[0], work + l.decimated[1] },
        .terms = work + l.terms,
        .partials = work + l.partials,
        .chunks = work + l.chunks,
        .state = work + l.state,
        .record = record,
        .windows = n_windows(p),
        .guard = vg_ordered_guard(n_windows(p)),
        .params = *p,
        .unit = vg_float_ssim_unit(p->bit_depth),
        .n_chunks = n_chunks(p),
        .spread = n_windows(p) > SPREAD_WINDOWS,
    };
    int err = p->factor > 1 ? decimate(launcher, &args) : 0;

    static const char *const names[2][2] = { { "float_ssim_windows_picture", "float_ssim_windows_picture_lcs" },
                                             { "float_ssim_windows_decimated", "float_ssim_windows_decimated_lcs" } };
    if (!err)
        err = launcher->launch(launcher->context, names[p->factor > 1][p->lcs != 0], grid, VG_FLOAT_SSIM_BLOCK,
                               (uint32_t)VG_FLOAT_SSIM_WINDOW_SHARED(tile_rows(p)), &args, sizeof(args));
    if (err || !args.spread)
        return err;
    const uint32_t blocks = vg_divide_up(args.n_chunks, 32) < 256 ? vg_divide_up(args.n_chunks, 32) : 256;
    err = vg_launch(launcher, "float_ssim_chunks", blocks, VG_FLOAT_SSIM_BLOCK, 0, &args, sizeof(args));
    if (!err)
        err = vg_launch(launcher, "float_ssim_ordered", blocks, VG_FLOAT_SSIM_BLOCK, 0, &args, sizeof(args));
    return err;
}

static const VgKernel kernels[] = {
    { "float_ssim_decimate_groups", VG_FLOAT_SSIM_DECIMATE_SHARED },
    { "float_ssim_decimate_bytes", VG_FLOAT_SSIM_DECIMATE_SHARED },
    { "float_ssim_decimate_samples", VG_FLOAT_SSIM_DECIMATE_SHARED },
    { "float_ssim_decimate_products", VG_FLOAT_SSIM_DECIMATE_SHARED },
    { "float_ssim_windows_decimated", VG_FLOAT_SSIM_WINDOW_SHARED(VG_FLOAT_SSIM_TILE_ROWS_DECIMATED) },
    { "float_ssim_windows_picture", VG_FLOAT_SSIM_WINDOW_SHARED(VG_FLOAT_SSIM_TILE_ROWS_PICTURE) },
    { "float_ssim_windows_decimated_lcs", VG_FLOAT_SSIM_WINDOW_SHARED(VG_FLOAT_SSIM_TILE_ROWS_DECIMATED) },
    { "float_ssim_windows_picture_lcs", VG_FLOAT_SSIM_WINDOW_SHARED(VG_FLOAT_SSIM_TILE_ROWS_PICTURE) },
    { "float_ssim_chunks", 0 },
    { "float_ssim_ordered", 0 },
    { 0 },
};

const VgDeviceMetric vg_device_float_ssim = {
    .kernels = kernels,
    .work_size = work_size,
    .plan = plan,
    .enqueue = enqueue,
};
