/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * CAMBI's work memory and launches: for each side planes, pyramid, counts, heatmaps if they are wanted, and pooling. The
 * sides come one after the other and use the same memory.
 */
#include <string.h>

#include "kernels/cambi_args.h"
#include "kernels/cambi_pool_host.h"
#include "kernels/kernel_host.h"

/* How a side is counted. */
typedef struct Counting {
    const char *kernel;
    uint32_t block;
    int32_t columns; /* of a strip */
    int32_t halo, levels;
    const int32_t *rows; /* of a segment, by scale: multiples of VG_CAMBI_CELL_ROWS */
} Counting;

/* Offsets in work memory. */
typedef struct Layout {
    uint64_t totals, largest; /* zero between frames */
    uint64_t reciprocals, nearest[VG_CAMBI_SIDES][2];
    uint64_t pool;
    uint64_t pixels[VG_CAMBI_SCALES], cells[VG_CAMBI_SCALES], values[VG_CAMBI_SCALES];
    uint64_t size;
} Layout;

static int works_on(const VgCambiParams *p, int side)
{
    return p->sides[side].window != 0;
}

static int resamples(const VgCambiParams *p, int side)
{
    return works_on(p, side) && (p->sides[side].width != p->width || p->sides[side].height != p->height);
}

static int32_t n_reciprocals(const VgCambiParams *p)
{
    const int32_t a = p->sides[VG_CAMBI_DIST].window, b = p->sides[VG_CAMBI_SOURCE].window;
    return (a > b ? a * a : b * b) + 1;
}

/* Pixels from a row to the next: strips end within it. */
static int32_t pitch_of(int32_t width)
{
    return (int32_t)vg_divide_up((uint64_t)width, VG_CAMBI_STRIP_COLUMNS) * VG_CAMBI_STRIP_COLUMNS;
}

/* Size of a scale that both sides' fit in. */
static void largest_size(const VgCambiParams *p, int scale, int32_t size[2])
{
    size[0] = size[1] = 0;
    for (int side = 0; side < VG_CAMBI_SIDES; side++) {
        const int32_t of_side[2] = { p->sides[side].width, p->sides[side].height };
        for (int i = 0; i < 2; i++) {
            const int32_t here = vg_cambi_size(of_side[i], p->speedup, scale);
            size[i] = here > size[i] ? here : size[i];
        }
    }
}

static Layout layout_of(const VgCambiParams *p)
{
    Layout l = { .size = 0 };

    l.totals = vg_take(&l.size, VG_CAMBI_SCALES * sizeof(VgCambiTotals));
    l.largest = vg_take(&l.size, sizeof(uint32_t));
    l.reciprocals = vg_take(&l.size, (uint64_t)n_reciprocals(p) * sizeof(float));
    for (int side = 0; side < VG_CAMBI_SIDES; side++) {
        if (!resamples(p, side))
            continue;
        l.nearest[side][0] = vg_take(&l.size, (uint64_t)p->sides[side].width * sizeof(uint16_t));
        l.nearest[side][1] = vg_take(&l.size, (uint64_t)p->sides[side].height * sizeof(uint16_t));
    }
    for (int s = 0; s < VG_CAMBI_SCALES; s++) {
        int32_t size[2];
        largest_size(p, s, size);
        const uint64_t cells = (uint64_t)vg_divide_up((uint64_t)size[0], VG_CAMBI_CELL_COLUMNS) *
                               vg_divide_up((uint64_t)size[1], VG_CAMBI_CELL_ROWS);
        l.pixels[s] = vg_take(&l.size, (uint64_t)pitch_of(size[0]) * (uint64_t)size[1] * sizeof(uint16_t));
        l.cells[s] = vg_take(&l.size, cells * sizeof(uint32_t));
        l.values[s] = vg_take(&l.size, (uint64_t)size[0] * (uint64_t)size[1] * sizeof(float));
    }
    l.pool = vg_take(&l.size, vg_cambi_pool_work_size(p));
    return l;
}

static size_t work_size(const void *params)
{
    return (size_t)layout_of(params).size;
}

static int plan(const void *params_v, const VgLauncher *launcher, uint64_t work)
{
    const VgCambiParams *p = params_v;
    const Layout l = layout_of(p);
    VgCambiTablesArgs args;

    memset(&args, 0, sizeof(args));
    args.reciprocals = work + l.reciprocals;
    args.n_reciprocals = n_reciprocals(p);
    for (int side = 0; side < VG_CAMBI_SIDES; side++) {
        const int32_t sizes[2][2] = { { p->width, p->sides[side].width }, { p->height, p->sides[side].height } };
        for (int i = 0; i < 2 && resamples(p, side); i++) {
            args.nearest[2 * side + i] = work + l.nearest[side][i];
            args.size[2 * side + i] = sizes[i][0];
            args.resampled_size[2 * side + i] = sizes[i][1];
        }
    }
    int err = launcher->fill(launcher->context, work + l.totals, 0, VG_CAMBI_SCALES * sizeof(VgCambiTotals));
    if (!err)
        err = launcher->fill(launcher->context, work + l.largest, 0, sizeof(uint32_t));
    if (!err)
        err = vg_launch(launcher, "cambi_tables", 1 + vg_divide_up((uint64_t)args.n_reciprocals, 16 * VG_CAMBI_BLOCK),
                        VG_CAMBI_BLOCK, 0, &args, sizeof(args));
    return err ? err : vg_cambi_pool_plan(p, launcher, work + l.pool);
}

/* Levels that have values: those of which the last difference, whose limit is the largest, counts. */
static void set_levels(VgCambiArgs *args)
{
    const VgCambiParams *p = &args->params;
    const int32_t n = p->n_differences, darkest = p->dark - 2 * n + 1, limit = p->limits[n - 1];
    const int32_t lowest = darkest > 0 ? darkest : 0;
    const int32_t highest = limit < VG_CAMBI_TOP_LEVEL ? limit : VG_CAMBI_TOP_LEVEL;

    args->has_values[0] = lowest;
    args->has_values[1] = highest >= lowest ? highest - lowest + 1 : 0;
}

static int32_t most_levels(int32_t n, uint32_t other_bytes, int32_t bytes_of_level)
{
    const int32_t all = VG_CAMBI_TOP_LEVEL + 1 + 2 * n;
    const int32_t levels = ((int32_t)VG_CAMBI_COUNT_SHARED - (int32_t)other_bytes) / bytes_of_level;
    return levels < all ? levels : all;
}

static Counting counting_of(const VgCambiParams *p, int side)
{
    /* Rows above a segment are gone through for nothing, and a window's height of them; short segments spread better. */
    static const int32_t small[] = { 24, 16, 12, 8, 8 }, usual[] = { 56, 32, 16, 12, 8 },
                         large[] = { 96, 56, 32, 16, 12 };
    const int32_t n = p->n_differences, half = p->sides[side].window / 2;

    if (half < VG_CAMBI_LEAST_STRIP_HALF || half > VG_CAMBI_MOST_STRIP_HALF) {
        /* Counts in 16 bits, and a byte for the level itself. */
        const int32_t bytes = 2 * VG_CAMBI_PLAIN_PITCH(half) + 1;
        return (Counting){ "cambi_count_plainly",
                           VG_CAMBI_BLOCK,
                           VG_CAMBI_PLAIN_COLUMNS,
                           0,
                           most_levels(n, VG_CAMBI_PLAIN_SHARED(n), bytes),
                           half < VG_CAMBI_LEAST_STRIP_HALF ? small : large };
    }
    const int32_t halo = (half + 3) & ~3;
    return (Counting){
        n == 4 && halo == 32   ? "cambi_count_65"
        : n == 4 && halo == 16 ? "cambi_count_33"
                               : "cambi_count",
        VG_CAMBI_STRIP_BLOCK,
        VG_CAMBI_STRIP_COLUMNS,
        halo,
        most_levels(n, VG_CAMBI_STRIP_SHARED(n), VG_CAMBI_STRIP_PITCH(halo) + 1),
        halo <= 16   ? small
        : halo <= 40 ? usual
                     : large,
    };
}

/* Fills scales; returns the number of blocks that count. */
static uint32_t set_scales(VgCambiArgs *args, const Layout *l, const Counting *counting, uint64_t work)
{
    const VgCambiParams *p = &args->params;
    const VgCambiSide *side = &p->sides[args->side];
    uint64_t heatmap = args->record + sizeof(VgCambiRecord);
    uint32_t blocks = 0;

    for (int s = 0; s < VG_CAMBI_SCALES; s++) {
        VgCambiDeviceScale *scale = &args->scales[s];
        scale->width = vg_cambi_size(side->width, p->speedup, s);
        scale->height = vg_cambi_size(side->height, p->speedup, s);
        scale->pitch = pitch_of(scale->width);
        scale->cells_pitch = (int32_t)vg_divide_up((uint64_t)scale->width, VG_CAMBI_CELL_COLUMNS);
        scale->pixels = work + l->pixels[s];
        scale->cells = work + l->cells[s];
        scale->values = work + l->values[s];
        scale->heatmap = heatmap;
        scale->rows = counting->rows[s];
        scale->strips = vg_divide_up((uint64_t)scale->width, (uint32_t)counting->columns);
        scale->first_block = blocks;
        blocks += scale->strips * vg_divide_up((uint64_t)scale->height, (uint32_t)scale->rows);
        heatmap += 2 * (uint64_t)scale->width * (uint64_t)scale->height;
    }
    return blocks;
}

static int launch_planes(const VgLauncher *launcher, const VgCambiArgs *args)
{
    const VgCambiParams *p = &args->params;
    const VgCambiSide *side = &p->sides[args->side];
    const uint32_t tiles[3] = { vg_divide_up((uint64_t)side->width, VG_CAMBI_TILE_COLUMNS),
                                vg_divide_up((uint64_t)side->height, VG_CAMBI_TILE_ROWS), 1 };
    const uint32_t last[3] = {
        vg_divide_up((uint64_t)args->scales[VG_CAMBI_SCALES - 1].width, VG_CAMBI_PYRAMID_COLUMNS),
        vg_divide_up((uint64_t)args->scales[VG_CAMBI_SCALES - 1].height, VG_CAMBI_PYRAMID_ROWS), 1
    };
    int err = 0;

    if (args->columns && p->bit_depth > 8) {
        const uint32_t blocks = p->height < 1024 ? (uint32_t)p->height : 1024;
        err = vg_launch(launcher, "cambi_largest", blocks, VG_CAMBI_BLOCK, 0, args, sizeof(*args));
    }
    if (!err)
        err = launcher->launch(launcher->context, p->speedup ? "cambi_planes_halved" : "cambi_planes", tiles,
                               VG_CAMBI_BLOCK, 0, args, sizeof(*args));
    if (!err)
        err = launcher->launch(launcher->context, "cambi_pyramid", last, VG_CAMBI_BLOCK, 0, args, sizeof(*args));
    return err;
}

static int launch_heatmaps(const VgLauncher *launcher, const VgCambiArgs *args)
{
    const uint64_t pixels = (uint64_t)args->scales[0].width * (uint64_t)args->scales[0].height;
    const uint32_t blocks = vg_divide_up(pixels, 8 * VG_CAMBI_BLOCK);
    const uint32_t grid[3] = { blocks, VG_CAMBI_SCALES, 1 };
    return launcher->launch(launcher->context, "cambi_heatmaps", grid, VG_CAMBI_BLOCK, 0, args, sizeof(*args));
}

static int enqueue_side(const VgCambiParams *p, int side, const VgLauncher *launcher, const VgDevicePlane *luma,
                        uint64_t work, uint64_t record)
{
    const Layout l = layout_of(p);
    const Counting counting = counting_of(p, side);
    uint64_t values[VG_CAMBI_SCALES];
    VgCambiArgs args;

    memset(&args, 0, sizeof(args)); /* the copies that kernels get have no bytes of chance */
    args.luma = *luma;
    args.luma.vector = !resamples(p, side) && vg_plane_dense(luma, luma->sample_bytes) &&
                       vg_plane_aligned(luma, 4 * (uint64_t)luma->sample_bytes);
    args.columns = resamples(p, side) ? work + l.nearest[side][0] : 0;
    args.rows = resamples(p, side) ? work + l.nearest[side][1] : 0;
    args.reciprocals = work + l.reciprocals;
    args.totals = work + l.totals;
    args.largest = work + l.largest;
    args.record = record;
    args.params = *p;
    args.side = side;
    args.alone = !works_on(p, VG_CAMBI_SIDES - 1 - side);
    args.halo = counting.halo;
    args.levels = counting.levels;
    set_levels(&args);
    const uint32_t blocks = set_scales(&args, &l, &counting, work);

    int err = launch_planes(launcher, &args);
    if (!err)
        err = vg_launch(launcher, counting.kernel, blocks, counting.block, VG_CAMBI_COUNT_SHARED, &args, sizeof(args));
    if (!err && p->heatmaps && side == VG_CAMBI_DIST) {
        args.heatmap_factor = vg_cambi_heatmap_factor(p);
        err = launch_heatmaps(launcher, &args);
    }
    for (int s = 0; s < VG_CAMBI_SCALES; s++)
        values[s] = args.scales[s].values;
    if (!err)
        err = vg_cambi_pool_enqueue(p, side, launcher, values, args.totals, work + l.pool, record, NULL);
    return err;
}

static int enqueue(const void *params_v, const VgLauncher *launcher, const VgDeviceFrame *frame, uint64_t work,
                   uint64_t record)
{
    const VgCambiParams *p = params_v;
    const VgDevicePlane *const lumas[] = { &frame->dist[0][0], &frame->ref[0][0] };
    int err = 0;

    for (int side = 0; !err && side < VG_CAMBI_SIDES; side++)
        if (works_on(p, side))
            err = enqueue_side(p, side, launcher, lumas[side], work, record);
    return err;
}

static const VgKernel kernels[] = {
    { "cambi_tables", 0 },
    { "cambi_largest", 0 },
    { "cambi_planes", 0 },
    { "cambi_planes_halved", 0 },
    { "cambi_pyramid", 0 },
    { "cambi_count_65", VG_CAMBI_COUNT_SHARED },
    { "cambi_count_33", VG_CAMBI_COUNT_SHARED },
    { "cambi_count", VG_CAMBI_COUNT_SHARED },
    { "cambi_count_plainly", VG_CAMBI_COUNT_SHARED },
    { "cambi_heatmaps", 0 },
    VG_CAMBI_POOL_KERNELS,
    { 0 },
};

const VgDeviceMetric vg_device_cambi = {
    .kernels = kernels,
    .work_size = work_size,
    .plan = plan,
    .enqueue = enqueue,
};
