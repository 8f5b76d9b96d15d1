/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Launches of speed_chroma and speed_temporal: five a frame, for all pictures of the frame together. Where planes are
 * resampled, tables of where from and with which weights are made once.
 */
#include <string.h>

#include "kernels/kernel_host.h"
#include "kernels/speed_args.h"
#include "shared_math/speed_tables.h"

typedef struct Layout {
    int32_t width, height, pitch; /* of decimated planes */
    int32_t mean_part, band_rows; /* of windows; band_rows 0: rows are too wide for shared memory */
    uint32_t n_planes, n_blocks;
    uint64_t state, statistics, columns, rows, planes, variances, terms, size;
} Layout;

static Layout layout_of(const VgSpeedParams *p)
{
    const int resampled = p->method != VG_SPEED_PLAIN;
    const uint64_t entry_rows = resampled ? (uint64_t)(vg_speed_offsets(p->method) * p->n_taps) : 0;
    Layout l = { .width = vg_speed_decimated(p->scaled_width),
                 .height = vg_speed_decimated(p->scaled_height),
                 .n_planes = p->temporal ? 1 : VG_SPEED_MOST_PLANES };

    l.pitch = (l.width + 3) & ~3;
    const uint32_t samples = (uint32_t)(vg_speed_windows(l.width) * vg_speed_windows(l.height));
    l.mean_part = (int32_t)vg_divide_up(samples, vg_divide_up(samples, VG_SPEED_MEAN_PART));
    const int32_t windows_y = vg_speed_windows(l.height), fitting = VG_SPEED_BAND / l.pitch - (VG_SPEED_SIDE - 1);
    l.band_rows = fitting < 1 ? 0 : fitting < windows_y ? fitting : windows_y;
    l.n_blocks = (uint32_t)(vg_speed_blocks(l.width) * vg_speed_blocks(l.height));
    l.state = vg_take(&l.size, sizeof(VgSpeedState));
    l.statistics = vg_take(&l.size, 2 * l.n_planes * sizeof(VgSpeedStatistics));
    l.columns = vg_take(&l.size, entry_rows * (uint64_t)l.width * sizeof(VgSpeedTableEntry));
    l.rows = vg_take(&l.size, entry_rows * (uint64_t)l.height * sizeof(VgSpeedTableEntry));
    l.planes = vg_take(&l.size, 2 * l.n_planes * (uint64_t)l.pitch * (uint64_t)l.height * sizeof(float));
    l.variances = vg_take(&l.size, 2 * (uint64_t)l.n_planes * l.n_blocks * sizeof(float));
    l.terms = vg_take(&l.size, (uint64_t)l.n_planes * l.n_blocks * sizeof(float));
    return l;
}

static size_t work_size(const void *params)
{
    return (size_t)layout_of(params).size;
}

/* ---- Tables ------------------------------------------------------------------------------------------------------- */

/* One direction of a plane. */
typedef struct Axis {
    int32_t size, scaled_size;
    float ratio;
    uint64_t table;
} Axis;

static int store_entries(const VgLauncher *launcher, VgSpeedTableArgs *part)
{
    const int err = vg_launch(launcher, "speed_table", 1, VG_SPEED_TABLE_BLOCK, 0, part, sizeof(*part));

    part->table += (uint64_t)part->n * sizeof(VgSpeedTableEntry);
    part->n = 0;
    return err;
}

static int make_table(const VgSpeedParams *p, const VgLauncher *launcher, const Axis *axis)
{
    const int32_t n = p->n_taps, count = vg_speed_decimated(axis->scaled_size) * n;
    VgSpeedTableArgs part = { .table = axis->table };
    int err = 0;

    for (int32_t offset = 0; offset < vg_speed_offsets(p->method); offset++)
        for (int32_t c = 0; c < count && !err; c++) {
            const int32_t i = vg_speed_mirror(c / n * VG_SPEED_STEP - (n - 1) / 2 + c % n, axis->scaled_size);
            int32_t at[VG_SPEED_LANCZOS_TAPS];
            float weights[VG_SPEED_LANCZOS_TAPS];
            vg_speed_sources(p->method, i, axis->ratio, axis->size, at, weights);
            part.entries[part.n++] = (VgSpeedTableEntry){ at[offset], vg_float_bits(weights[offset]) };
            if (part.n == VG_SPEED_TABLE_PART)
                err = store_entries(launcher, &part);
        }
    return err || !part.n ? err : store_entries(launcher, &part);
}

static int plan(const void *params, const VgLauncher *launcher, uint64_t work)
{
    const VgSpeedParams *p = params;
    const Layout l = layout_of(p);
    const Axis x = { p->width, p->scaled_width, p->ratio_x, work + l.columns };
    const Axis y = { p->height, p->scaled_height, p->ratio_y, work + l.rows };
    int err = launcher->fill(launcher->context, work + l.state, 0, sizeof(VgSpeedState));

    if (err || p->method == VG_SPEED_PLAIN)
        return err;
    err = make_table(p, launcher, &x);
    return err ? err : make_table(p, launcher, &y);
}

/* ---- Frames ------------------------------------------------------------------------------------------------------- */

static void set_planes(const VgSpeedParams *p, const VgDeviceFrame *frame, VgSpeedArgs *args)
{
    for (int side = 0; side < 2 && p->temporal; side++) {
        args->current[side] = side && !p->use_ref_diff ? frame->dist[0][0] : frame->ref[0][0];
        args->earlier[side] = side ? frame->dist[1][0] : frame->ref[1][0];
    }
    for (int plane = 0; plane < VG_SPEED_MOST_PLANES && !p->temporal; plane++) {
        args->current[2 * plane] = frame->ref[0][1 + plane];
        args->current[2 * plane + 1] = frame->dist[0][1 + plane];
    }
}

/*
 * Bytes from sample to sample, if the planes of a picture's source can be read four samples at a time: U and V that share
 * rows, too. The bytes of other planes between samples are read with them.
 */
static int32_t cell_of(const VgDevicePlane *plane)
{
    const uint64_t step = (uint64_t)plane->step;
    VgDevicePlane cells = *plane;

    if (step != 1 && step != 2 && step != 4)
        return 0;
    cells.address -= plane->address % step;
    return vg_plane_aligned(&cells, 4 * step) ? plane->step : 0;
}

/* The same of all planes; 0 if they differ. */
static int32_t common_cell(const VgSpeedParams *p, const VgSpeedArgs *args)
{
    const int32_t cell = cell_of(&args->current[0]);
    int same = p->method == VG_SPEED_PLAIN && p->n_taps == VG_SPEED_USUAL_TAPS;

    for (int i = 0; i < (p->temporal ? 2 : VG_SPEED_MOST_PICTURES); i++)
        same = same && cell_of(&args->current[i]) == cell;
    for (int i = 0; i < 2 && p->temporal; i++)
        same = same && cell_of(&args->earlier[i]) == cell;
    return same ? cell : 0;
}

static const char *low_pass(const VgSpeedParams *p, const VgSpeedArgs *args)
{
    static const char *const by_method[] = { [VG_SPEED_PLAIN] = "speed_low",
                                             [VG_SPEED_NEAREST] = "speed_low_nearest",
                                             [VG_SPEED_BILINEAR] = "speed_low_bilinear",
                                             [VG_SPEED_BICUBIC] = "speed_low_bicubic",
                                             [VG_SPEED_LANCZOS4] = "speed_low_lanczos4" };
    static const char *const by_cell[] = { NULL, "speed_low_bytes", "speed_low_pairs", NULL, "speed_low_quads" };
    const int32_t cell = common_cell(p, args);

    return cell ? by_cell[cell] : by_method[p->method];
}

static int enqueue(const void *params_v, const VgLauncher *launcher, const VgDeviceFrame *frame, uint64_t work,
                   uint64_t record)
{
    const VgSpeedParams *p = params_v;
    const Layout l = layout_of(p);
    const uint32_t pictures = 2 * l.n_planes;
    VgSpeedArgs args = {
        .columns = work + l.columns,
        .rows = work + l.rows,
        .state = work + l.state,
        .planes = work + l.planes,
        .statistics = work + l.statistics,
        .variances = work + l.variances,
        .terms = work + l.terms,
        .record = record,
        .params = *p,
        .pitch = l.pitch,
        .mean_part = l.mean_part,
        .band_rows = l.band_rows,
    };
    if (p->temporal && frame->index == 0)
        return launcher->fill(launcher->context, record, 0, sizeof(VgSpeedRecord));
    set_planes(p, frame, &args);
    const struct {
        const char *kernel;
        uint32_t grid[3], block, shared;
    } launches[] = {
        { low_pass(p, &args),
          { vg_divide_up((uint64_t)l.width, VG_SPEED_TILE_COLUMNS),
            vg_divide_up((uint64_t)l.height, VG_SPEED_TILE_ROWS), pictures },
          VG_SPEED_BLOCK,
          0 },
        { "speed_means", { VG_SPEED_N, pictures, 1 }, VG_SPEED_BLOCK, (uint32_t)l.mean_part * (uint32_t)sizeof(float) },
        { l.band_rows ? "speed_covariances" : "speed_covariances_wide",
          { vg_divide_up(VG_SPEED_PAIRS, VG_SPEED_BLOCK_PAIRS), pictures, 1 },
          VG_SPEED_COVARIANCE_BLOCK,
          l.band_rows ? (uint32_t)((l.band_rows + VG_SPEED_SIDE - 1) * l.pitch) * (uint32_t)sizeof(float) : 0 },
        { "speed_factors", { 1 + vg_divide_up(l.n_blocks, VG_SPEED_BLOCK), pictures, 1 }, VG_SPEED_BLOCK, 0 },
        { "speed_entropies", { vg_divide_up(l.n_blocks, VG_SPEED_ENTROPY_BLOCKS), l.n_planes, 1 }, VG_SPEED_BLOCK, 0 },
    };
    int err = 0;

    for (size_t i = 0; i < sizeof(launches) / sizeof(*launches) && !err; i++)
        err = launcher->launch(launcher->context, launches[i].kernel, launches[i].grid, launches[i].block,
                               launches[i].shared, &args, sizeof(args));
    return err;
}

static const VgKernel kernels[] = {
    { "speed_table", 0 },
    { "speed_low", 0 },
    { "speed_low_bytes", 0 },
    { "speed_low_pairs", 0 },
    { "speed_low_quads", 0 },
    { "speed_low_nearest", 0 },
    { "speed_low_bilinear", 0 },
    { "speed_low_bicubic", 0 },
    { "speed_low_lanczos4", 0 },
    { "speed_means", VG_SPEED_MEAN_PART * sizeof(float) },
    { "speed_covariances", VG_SPEED_BAND * sizeof(float) },
    { "speed_covariances_wide", 0 },
    { "speed_factors", 0 },
    { "speed_entropies", 0 },
    { 0 },
};

const VgDeviceMetric vg_device_speed = {
    .kernels = kernels,
    .work_size = work_size,
    .plan = plan,
    .enqueue = enqueue,
};
