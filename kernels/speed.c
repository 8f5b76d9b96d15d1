/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * speed_chroma and speed_temporal on the device. Definition: docs/numerics.md, SpEED; what was measured: docs/speed_gpu.md.
 *
 * All pictures of a frame go through each launch together. Every sum has the order of the CPU's: what is added in another
 * order are integers, or nothing.
 */
#include "kernels/block.h"
#include "kernels/gpu.h"
#include "kernels/samples.h"
#include "kernels/speed_args.h"
#include "shared_math/speed.h"

#define BLOCK VG_SPEED_BLOCK
#define N     VG_SPEED_N
#define SIDE  VG_SPEED_SIDE

GPU_KERNEL(speed_table, VgSpeedTableArgs, VG_SPEED_TABLE_BLOCK)
{
    GPU_GLOBAL VgSpeedTableEntry *const table = (GPU_GLOBAL VgSpeedTableEntry *)args.table;

    for (int32_t i = (int32_t)gpu_tid(0); i < args.n; i += VG_SPEED_TABLE_BLOCK) {
        table[i].at = args.entries[i].at;
        table[i].weight = args.entries[i].weight;
    }
}

GPU_FN GPU_GLOBAL VgSpeedStatistics *speed_statistics(const VgSpeedArgs *args, uint32_t picture)
{
    return (GPU_GLOBAL VgSpeedStatistics *)args->statistics + picture;
}

/** Address of a picture's plane without local mean. */
GPU_FN uint64_t speed_plane(const VgSpeedArgs *args, uint32_t picture)
{
    const int32_t height = vg_speed_decimated(args->params.scaled_height);
    return args->planes + (uint64_t)picture * (uint64_t)height * (uint64_t)args->pitch * sizeof(float);
}

GPU_FN int32_t speed_n_blocks(const VgSpeedParams *p)
{
    return vg_speed_blocks(vg_speed_decimated(p->scaled_width)) * vg_speed_blocks(vg_speed_decimated(p->scaled_height));
}

/* ---- Low pass, decimation, local mean ------------------------------------------------------------------------------ */

/* A picture's samples. */
typedef struct SpeedSource {
    VgDevicePlane current, earlier;
    float unit;
    int difference; /* of `earlier` and `current` */
} SpeedSource;

GPU_FN float speed_value(const SpeedSource *source, int32_t x, int32_t y)
{
    const int32_t sample = gpu_row_sample(&source->current, gpu_row(&source->current, y), x);

    if (!source->difference)
        return vg_speed_sample(sample, source->unit);
    return vg_speed_difference(gpu_row_sample(&source->earlier, gpu_row(&source->earlier, y), x), sample, source->unit);
}

/* Where a resampled row or column takes its samples. */
typedef struct SpeedEntries {
    VgSpeedEntry e[VG_SPEED_LANCZOS_TAPS];
} SpeedEntries;

/* Entry `index` of a table of `count`, of each offset. */
GPU_FN SpeedEntries speed_entries(uint64_t table, int32_t count, int32_t index, const int method)
{
    SpeedEntries entries;

    GPU_UNROLL
    for (int32_t k = 0; k < vg_speed_offsets(method); k++) {
        const uint64_t address = table + (uint64_t)(k * count + index) * sizeof(VgSpeedTableEntry);
        const GpuWords words = gpu_load64(address);
        entries.e[k].at = (int32_t)words.w[0];
        entries.e[k].weight = vg_bits_float(words.w[1]);
    }
    return entries;
}

GPU_FN float speed_resampled(const SpeedSource *source, const SpeedEntries *columns, const SpeedEntries *rows,
                             const int method)
{
    const VgSpeedEntry *const x = columns->e, *const y = rows->e;

    if (method == VG_SPEED_NEAREST)
        return speed_value(source, x[0].at, y[0].at);
    if (method == VG_SPEED_BILINEAR)
        return vg_speed_bilinear(speed_value(source, x[0].at, y[0].at), speed_value(source, x[1].at, y[0].at),
                                 speed_value(source, x[0].at, y[1].at), speed_value(source, x[1].at, y[1].at),
                                 x[1].weight, y[1].weight);

    float sum = 0, weights = 0;
    GPU_UNROLL
    for (int32_t j = 0; j < vg_speed_offsets(method); j++) {
        GPU_UNROLL
        for (int32_t i = 0; i < vg_speed_offsets(method); i++) {
            const float weight = x[i].weight * y[j].weight;
            sum = vg_speed_add_tap(sum, weight, speed_value(source, x[i].at, y[j].at));
            weights += weight;
        }
    }
    return method == VG_SPEED_LANCZOS4 ? sum / weights : sum;
}

/* Column c of the window of output (i, j), filtered vertically. */
GPU_FN float speed_column(const VgSpeedArgs *args, const SpeedSource *source, const float *taps, int32_t i, int32_t j,
                          int32_t c, const int method)
{
    const VgSpeedParams *const p = &args->params;
    const int32_t n = p->n_taps, reach = (n - 1) / 2;
    float sum = 0;

    if (method == VG_SPEED_PLAIN) {
        const int32_t x = vg_speed_mirror(j * VG_SPEED_STEP - reach + c, p->scaled_width);
        for (int32_t k = 0; k < n; k++) {
            const int32_t y = vg_speed_mirror(i * VG_SPEED_STEP - reach + k, p->scaled_height);
            sum = vg_speed_add_tap(sum, taps[k], speed_value(source, x, y));
        }
        return sum;
    }
    const int32_t n_columns = vg_speed_decimated(p->scaled_width) * n,
                  n_rows = vg_speed_decimated(p->scaled_height) * n;
    const SpeedEntries columns = speed_entries(args->columns, n_columns, j * n + c, method);
    GPU_ROLL
    for (int32_t k = 0; k < n; k++) {
        const SpeedEntries rows = speed_entries(args->rows, n_rows, i * n + k, method);
        sum = vg_speed_add_tap(sum, taps[k], speed_resampled(source, &columns, &rows, method));
    }
    return sum;
}

/* What of the planes a block works on: outputs from (x, y) on, and the same with a halo. */
typedef struct SpeedTile {
    int32_t x, y, columns, rows;
    int32_t halo, halo_columns, halo_rows;
} SpeedTile;

GPU_FN SpeedTile speed_tile(const VgSpeedParams *p)
{
    const int32_t width = vg_speed_decimated(p->scaled_width), height = vg_speed_decimated(p->scaled_height);
    SpeedTile t;

    t.x = (int32_t)gpu_bid(0) * VG_SPEED_TILE_COLUMNS;
    t.y = (int32_t)gpu_bid(1) * VG_SPEED_TILE_ROWS;
    t.columns = width - t.x < VG_SPEED_TILE_COLUMNS ? width - t.x : VG_SPEED_TILE_COLUMNS;
    t.rows = height - t.y < VG_SPEED_TILE_ROWS ? height - t.y : VG_SPEED_TILE_ROWS;
    t.halo = (p->n_mean_taps - 1) / 2;
    t.halo_columns = t.columns + 2 * t.halo;
    t.halo_rows = t.rows + 2 * t.halo;
    return t;
}

/* Samples of the decimated plane: the tile with its halo, mirrored at the plane's edges. */
GPU_FN void speed_decimate(const VgSpeedArgs *args, const SpeedTile *tile, const SpeedSource *source, const float *taps,
                           float *decimated, const int method)
{
    GPU_SHARED float sums[VG_SPEED_TILE_SUMS];
    const VgSpeedParams *const p = &args->params;
    const int32_t width = vg_speed_decimated(p->scaled_width), height = vg_speed_decimated(p->scaled_height);
    const int32_t n = p->n_taps, n_outputs = tile->halo_columns * tile->halo_rows, most = VG_SPEED_TILE_SUMS / n;

    for (int32_t first = 0; first < n_outputs; first += most) {
        const int32_t left = n_outputs - first, outputs = left < most ? left : most;
        for (int32_t s = (int32_t)gpu_tid(0); s < outputs * n; s += BLOCK) {
            const int32_t output = first + s / n;
            const int32_t i = vg_speed_mirror(tile->y - tile->halo + output / tile->halo_columns, height);
            const int32_t j = vg_speed_mirror(tile->x - tile->halo + output % tile->halo_columns, width);
            sums[s] = speed_column(args, source, taps, i, j, s % n, method);
        }
        gpu_barrier();
        for (int32_t o = (int32_t)gpu_tid(0); o < outputs; o += BLOCK) {
            float sum = 0;
            for (int32_t k = 0; k < n; k++)
                sum = vg_speed_add_tap(sum, taps[k], sums[o * n + k]);
            decimated[first + o] = sum;
        }
        gpu_barrier();
    }
}

/* The taps of a low pass of scale 1, and those before the middle one. */
#define TAPS  VG_SPEED_USUAL_TAPS
#define REACH ((TAPS - 1) / 2)

/* Four cells from column x on, `bytes` for each. */
GPU_FN GpuWords speed_cells(uint64_t row, int32_t x, const int bytes)
{
    const uint64_t address = row + (uint64_t)(x * bytes);

    if (bytes == 1) {
        const GpuWords words = { { gpu_load32(address), 0, 0, 0 } };
        return words;
    }
    return bytes == 2 ? gpu_load64(address) : gpu_load128(address);
}

/* The cell at column x alone. */
GPU_FN uint32_t speed_last_cell(uint64_t row, int32_t x, const int bytes)
{
    const uint64_t address = row + (uint64_t)(x * bytes);
    return bytes == 1 ? gpu_load8(address) : bytes == 2 ? gpu_load16(address) : gpu_load32(address);
}

GPU_FN uint32_t speed_cell(const GpuWords *words, const int i, const int bytes)
{
    return words->w[i * bytes / 4] >> (8 * (i * bytes % 4));
}

/* The samples of the window of output column j in a row. */
GPU_FN void speed_window_samples(const VgDevicePlane *plane, int32_t y, int32_t j, int32_t samples[TAPS],
                                 const int bytes)
{
    const uint64_t within = plane->address % (uint64_t)bytes, row = gpu_row(plane, y) - within;
    const uint32_t shift = 8 * (uint32_t)within, mask = plane->sample_bytes == 1 ? 0xff : 0xffff;
    const int32_t x = j * VG_SPEED_STEP;
    const GpuWords before = speed_cells(row, j ? x - REACH : 0, bytes), from = speed_cells(row, x, bytes);
    const uint32_t last = speed_last_cell(row, x + REACH, bytes);

    GPU_UNROLL
    for (int32_t k = 0; k < TAPS; k++) {
        const uint32_t cell = k < REACH       ? speed_cell(&before, k, bytes)
                              : k < 2 * REACH ? speed_cell(&from, k - REACH, bytes)
                                              : last;
        samples[k] = (int32_t)((cell >> shift & mask) >> plane->shift);
    }
    GPU_UNROLL
    for (int32_t k = 0; k < REACH; k++)
        samples[k] = j ? samples[k] : samples[TAPS - 1 - k]; /* vg_speed_mirror() */
}

/* speed_decimate() of planes that are not resampled, by a low pass of scale 1: a thread for each output. */
GPU_FN void speed_decimate_cells(const VgSpeedArgs *args, const SpeedTile *tile, const SpeedSource *source,
                                 const float *taps, float *decimated, const int bytes)
{
    const VgSpeedParams *const p = &args->params;
    const int32_t width = vg_speed_decimated(p->scaled_width), height = vg_speed_decimated(p->scaled_height);

    for (int32_t o = (int32_t)gpu_tid(0); o < tile->halo_columns * tile->halo_rows; o += BLOCK) {
        const int32_t i = vg_speed_mirror(tile->y - tile->halo + o / tile->halo_columns, height);
        const int32_t j = vg_speed_mirror(tile->x - tile->halo + o % tile->halo_columns, width);
        float columns[TAPS], sum = 0;

        GPU_UNROLL
        for (int32_t c = 0; c < TAPS; c++)
            columns[c] = 0;
        GPU_UNROLL
        for (int32_t k = 0; k < TAPS; k++) {
            const int32_t y = vg_speed_mirror(i * VG_SPEED_STEP - REACH + k, p->scaled_height);
            int32_t current[TAPS], earlier[TAPS];
            speed_window_samples(&source->current, y, j, current, bytes);
            if (source->difference)
                speed_window_samples(&source->earlier, y, j, earlier, bytes);
            GPU_UNROLL
            for (int32_t c = 0; c < TAPS; c++) {
                const float value = source->difference ? vg_speed_difference(earlier[c], current[c], source->unit)
                                                       : vg_speed_sample(current[c], source->unit);
                columns[c] = vg_speed_add_tap(columns[c], taps[k], value);
            }
        }
        GPU_UNROLL
        for (int32_t c = 0; c < TAPS; c++)
            sum = vg_speed_add_tap(sum, taps[c], columns[c]);
        decimated[o] = sum;
    }
    gpu_barrier();
}

/* The tile of the decimated plane less its local mean. */
GPU_FN void speed_remove_mean(const VgSpeedArgs *args, const SpeedTile *tile, const float *taps, const float *decimated)
{
    GPU_SHARED float vertical[VG_SPEED_TILE_ROWS * (VG_SPEED_TILE_COLUMNS + 2 * VG_SPEED_MOST_HALO)];
    const int32_t n = args->params.n_mean_taps, across = tile->halo_columns;
    GPU_GLOBAL float *const plane = (GPU_GLOBAL float *)speed_plane(args, gpu_bid(2));

    for (int32_t s = (int32_t)gpu_tid(0); s < tile->rows * across; s += BLOCK) {
        float sum = 0;
        for (int32_t k = 0; k < n; k++)
            sum = vg_speed_add_tap(sum, taps[k], decimated[s + k * across]);
        vertical[s] = sum;
    }
    gpu_barrier();
    for (int32_t s = (int32_t)gpu_tid(0); s < tile->rows * tile->columns; s += BLOCK) {
        const int32_t x = s % tile->columns, y = s / tile->columns;
        float sum = 0;
        for (int32_t k = 0; k < n; k++)
            sum = vg_speed_add_tap(sum, taps[k], vertical[y * across + x + k]);
        plane[(tile->y + y) * args->pitch + tile->x + x] = decimated[(y + tile->halo) * across + x + tile->halo] - sum;
    }
}

/* `cell`: bytes from sample to sample, of planes that speed_decimate_cells() is for; else 0. */
GPU_FN void speed_low_tile(const VgSpeedArgs *args, const int method, const int cell)
{
    GPU_SHARED float taps[VG_SPEED_MOST_TAPS], mean_taps[VG_SPEED_MOST_MEAN_TAPS];
    GPU_SHARED float
        decimated[(VG_SPEED_TILE_ROWS + 2 * VG_SPEED_MOST_HALO) * (VG_SPEED_TILE_COLUMNS + 2 * VG_SPEED_MOST_HALO)];
    const VgSpeedParams *const p = &args->params;
    const SpeedTile tile = speed_tile(p);
    const uint32_t picture = gpu_bid(2);
    SpeedSource source;

    source.current = args->current[picture];
    source.earlier = args->earlier[picture % 2];
    source.unit = vg_speed_unit(p->bit_depth);
    source.difference = p->temporal;
    if (gpu_tid(0) < VG_SPEED_MOST_TAPS)
        taps[gpu_tid(0)] = p->taps[gpu_tid(0)];
    if (gpu_tid(0) < VG_SPEED_MOST_MEAN_TAPS)
        mean_taps[gpu_tid(0)] = p->mean_taps[gpu_tid(0)];
    gpu_barrier();
    if (cell)
        speed_decimate_cells(args, &tile, &source, taps, decimated, cell);
    else
        speed_decimate(args, &tile, &source, taps, decimated, method);
    speed_remove_mean(args, &tile, mean_taps, decimated);
}

GPU_KERNEL(speed_low, VgSpeedArgs, BLOCK)
{
    speed_low_tile(&args, VG_SPEED_PLAIN, 0);
}

GPU_KERNEL_RESIDENT(speed_low_bytes, VgSpeedArgs, BLOCK, 3)
{
    speed_low_tile(&args, VG_SPEED_PLAIN, 1);
}

GPU_KERNEL_RESIDENT(speed_low_pairs, VgSpeedArgs, BLOCK, 3)
{
    speed_low_tile(&args, VG_SPEED_PLAIN, 2);
}

GPU_KERNEL_RESIDENT(speed_low_quads, VgSpeedArgs, BLOCK, 3)
{
    speed_low_tile(&args, VG_SPEED_PLAIN, 4);
}

GPU_KERNEL(speed_low_nearest, VgSpeedArgs, BLOCK)
{
    speed_low_tile(&args, VG_SPEED_NEAREST, 0);
}

GPU_KERNEL(speed_low_bilinear, VgSpeedArgs, BLOCK)
{
    speed_low_tile(&args, VG_SPEED_BILINEAR, 0);
}

GPU_KERNEL(speed_low_bicubic, VgSpeedArgs, BLOCK)
{
    speed_low_tile(&args, VG_SPEED_BICUBIC, 0);
}

GPU_KERNEL(speed_low_lanczos4, VgSpeedArgs, BLOCK)
{
    speed_low_tile(&args, VG_SPEED_LANCZOS4, 0);
}

/* ---- Means and covariances ------------------------------------------------------------------------------------------ */

/* The 25 windows: what of the plane they cover. */
typedef struct SpeedWindows {
    uint64_t plane;
    int32_t pitch, width, height;
} SpeedWindows;

GPU_FN SpeedWindows speed_windows(const VgSpeedArgs *args, uint32_t picture)
{
    SpeedWindows w;

    w.plane = speed_plane(args, picture);
    w.pitch = args->pitch;
    w.width = vg_speed_windows(vg_speed_decimated(args->params.scaled_width));
    w.height = vg_speed_windows(vg_speed_decimated(args->params.scaled_height));
    return w;
}

/** Address of sample (x, y) of window p. */
GPU_FN uint64_t speed_window(const SpeedWindows *w, int32_t p, int32_t x, int32_t y)
{
    return w->plane + (uint64_t)((int64_t)(p / SIDE + y) * w->pitch + p % SIDE + x) * sizeof(float);
}

/*
 * Means: running sums in binary32 over a window, in parallel and yet exactly.
 *
 * A window is cut into chunks. Where a running sum stays within a binade, a chunk's sum moves with its start by whole units
 * in the last place, so that an estimate of the start is seldom wrong by much: each chunk is summed from neighbouring starts,
 * which gives a map from starts to ends. Maps are then followed one after the other. A start that a map does not know is
 * taken for the nearest that it knows, shifted. If that was never necessary, every step was a sum that has been made, and the
 * last end is the result; else all chunks are summed again from starts around those just found. The first chunk whose start
 * was not known then has the right one, so that this ends. Cuts are where the sum is largest, because units are coarsest
 * there. Few chunks with many starts need the fewest rounds: two or three.
 */
#define CHUNKS      32
#define STARTS      16
#define PER_CHUNK   (BLOCK / CHUNKS)     /* threads */
#define PER_THREAD  (STARTS / PER_CHUNK) /* starts */
#define START_BELOW 7                    /* starts below the estimate */

/* Numbers of binary32 counted from 0, so that neighbours differ by 1. A running sum that begins with 0 is never -0. */
GPU_FN int32_t speed_rank(float x)
{
    const uint32_t bits = vg_float_bits(x);
    return bits >> 31 ? -(int32_t)(bits & 0x7fffffffu) : (int32_t)bits;
}

GPU_FN float speed_of_rank(int32_t rank)
{
    return vg_bits_float(rank < 0 ? 0x80000000u | (uint32_t)-rank : (uint32_t)rank);
}

/* Of a chunk. The rank of start s is first + s. */
typedef struct SpeedMap {
    int32_t first;
    float ends[STARTS];
} SpeedMap;

/* What threads share while they sum. */
typedef struct SpeedChains {
    SpeedMap maps[CHUNKS];
    int32_t cuts[CHUNKS + 1]; /* where chunks begin */
    float sums[BLOCK];        /* of threads, then the largest ones, and where they are */
    int32_t places[BLOCK];
    float before[CHUNKS];
    float end;
    int32_t known;
} SpeedChains;

/* Sum over the values of the threads before this one, about. */
GPU_FN float speed_sum_before(float value, SpeedChains *chains)
{
    const int32_t tid = (int32_t)gpu_tid(0);
    float sum = 0;

    chains->sums[tid] = value;
    gpu_barrier();
    if (tid < CHUNKS) {
        for (int32_t i = 0; i < PER_CHUNK; i++)
            sum += chains->sums[tid * PER_CHUNK + i];
        chains->before[tid] = sum;
    }
    gpu_barrier();
    if (tid == 0) {
        sum = 0;
        for (int32_t c = 0; c < CHUNKS; c++) {
            const float of_chunk = chains->before[c];
            chains->before[c] = sum;
            sum += of_chunk;
        }
    }
    gpu_barrier();
    sum = chains->before[tid / PER_CHUNK];
    for (int32_t i = tid / PER_CHUNK * PER_CHUNK; i < tid; i++)
        sum += chains->sums[i];
    gpu_barrier();
    return sum;
}

/* So many values are read together before they are added. */
#define AHEAD 8

GPU_FN void speed_read_ahead(const float *x, float values[AHEAD])
{
    GPU_UNROLL
    for (int32_t k = 0; k < AHEAD; k++)
        values[k] = x[k];
}

GPU_FN float speed_add_values(float sum, const float values[AHEAD])
{
    GPU_UNROLL
    for (int32_t k = 0; k < AHEAD; k++)
        sum += values[k];
    return sum;
}

/* Cuts x[0..n) into chunks and estimates the sums at the cuts. */
GPU_FN void speed_cut(const float *x, int32_t n, float carry, SpeedChains *chains)
{
    const int32_t tid = (int32_t)gpu_tid(0), length = (n + BLOCK - 1) / BLOCK | 1; /* odd: threads read other banks */
    const int32_t first = tid * length < n ? tid * length : n, end = first + length < n ? first + length : n;
    float sum = 0, values[AHEAD];
    int32_t i = first;

    GPU_ROLL
    for (; i + AHEAD <= end; i += AHEAD) {
        speed_read_ahead(x + i, values);
        sum = speed_add_values(sum, values);
    }
    for (; i < end; i++)
        sum += x[i];
    sum = carry + speed_sum_before(sum, chains);

    float largest = sum;
    int32_t place = first;
    GPU_ROLL
    for (i = first; i + AHEAD <= end; i += AHEAD) {
        speed_read_ahead(x + i, values);
        GPU_UNROLL
        for (int32_t k = 0; k < AHEAD; k++) {
            const int larger = vg_speed_magnitude(sum) > vg_speed_magnitude(largest);
            largest = larger ? sum : largest;
            place = larger ? i + k : place;
            sum += values[k];
        }
    }
    for (; i < end; i++) {
        if (vg_speed_magnitude(sum) > vg_speed_magnitude(largest)) {
            largest = sum;
            place = i;
        }
        sum += x[i];
    }
    chains->sums[tid] = largest;
    chains->places[tid] = place;
    gpu_barrier();
    if (tid < CHUNKS) {
        int32_t at = tid * PER_CHUNK;
        for (int32_t i = at + 1; i < (tid + 1) * PER_CHUNK; i++)
            if (vg_speed_magnitude(chains->sums[i]) > vg_speed_magnitude(chains->sums[at]))
                at = i;
        /* The first one is no estimate. */
        chains->cuts[tid] = tid ? chains->places[at] : 0;
        chains->maps[tid].first = speed_rank(tid ? chains->sums[at] : carry) - START_BELOW;
    }
    if (tid == 0)
        chains->cuts[CHUNKS] = n;
    gpu_barrier();
}

GPU_FN void speed_add_ahead(const float values[AHEAD], float sums[PER_THREAD])
{
    GPU_UNROLL
    for (int32_t k = 0; k < AHEAD; k++) {
        GPU_UNROLL
        for (int32_t s = 0; s < PER_THREAD; s++)
            sums[s] += values[k];
    }
}

/* Sums a chunk from the starts of this thread. */
GPU_FN void speed_sum_chunk(const float *x, SpeedChains *chains)
{
    const int32_t chunk = (int32_t)gpu_tid(0) / PER_CHUNK, start = (int32_t)gpu_tid(0) % PER_CHUNK;
    const int32_t end = chains->cuts[chunk + 1];
    SpeedMap *const map = &chains->maps[chunk];
    float sums[PER_THREAD];

    GPU_UNROLL
    for (int32_t s = 0; s < PER_THREAD; s++)
        sums[s] = speed_of_rank(map->first + start + s * PER_CHUNK);
    int32_t i = chains->cuts[chunk];
    if (i + AHEAD <= end) {
        float values[AHEAD], next[AHEAD];
        speed_read_ahead(x + i, values);
        GPU_ROLL
        for (; i + 3 * AHEAD <= end; i += 2 * AHEAD) {
            speed_read_ahead(x + i + AHEAD, next);
            speed_add_ahead(values, sums);
            speed_read_ahead(x + i + 2 * AHEAD, values);
            speed_add_ahead(next, sums);
        }
        speed_add_ahead(values, sums);
        i += AHEAD;
    }
    GPU_ROLL
    for (; i + AHEAD <= end; i += AHEAD) {
        float values[AHEAD];
        speed_read_ahead(x + i, values);
        speed_add_ahead(values, sums);
    }
    GPU_ROLL
    for (; i < end; i++) {
        const float value = x[i];
        GPU_UNROLL
        for (int32_t s = 0; s < PER_THREAD; s++)
            sums[s] += value;
    }
    GPU_UNROLL
    for (int32_t s = 0; s < PER_THREAD; s++)
        map->ends[start + s * PER_CHUNK] = sums[s];
}

/* Follows the maps from `carry`, and moves each chunk's starts around the one that was found. By one thread. */
GPU_FN void speed_follow(float carry, SpeedChains *chains)
{
    float at = carry;
    int32_t first = chains->maps[0].first, known = 1;

    GPU_UNROLL_BY(4)
    for (int32_t c = 0; c < CHUNKS; c++) {
        SpeedMap *const map = &chains->maps[c];
        const int32_t next_first = chains->maps[c + 1 < CHUNKS ? c + 1 : c].first;
        const int32_t rank = speed_rank(at), s = rank - first, nearest = s < 0 ? 0 : s < STARTS ? s : STARTS - 1;
        /* 0 where the start is known: an end is no -0, so that it stays as it is. */
        const float shift = at - speed_of_rank(first + nearest);
        known &= s == nearest;
        map->first = rank - START_BELOW;
        at = map->ends[nearest] + shift;
        first = next_first;
    }
    chains->end = at;
    chains->known = known;
}

/* carry + x[0] + x[1].. + x[n - 1], one after the other. */
GPU_FN float speed_running_sum(const float *x, int32_t n, float carry)
{
    GPU_SHARED SpeedChains chains;

    speed_cut(x, n, carry, &chains);
    do {
        speed_sum_chunk(x, &chains);
        gpu_barrier();
        if (gpu_tid(0) == 0)
            speed_follow(carry, &chains);
        gpu_barrier();
    } while (!chains.known);
    const float sum = chains.end;
    gpu_barrier(); /* before it is overwritten */
    return sum;
}

/* Samples of a window that a thread holds until they are summed. */
typedef struct SpeedPart {
    float values[(VG_SPEED_MEAN_PART + BLOCK - 1) / BLOCK];
} SpeedPart;

/* Reads samples first..first + n - 1 of window p, row after row. */
GPU_FN SpeedPart speed_read_part(const SpeedWindows *w, int32_t p, int32_t first, int32_t n)
{
    const int32_t tid = (int32_t)gpu_tid(0), step_x = BLOCK % w->width, step_y = BLOCK / w->width;
    int32_t x = (first + tid) % w->width, y = (first + tid) / w->width;
    SpeedPart part;

    GPU_UNROLL
    for (int32_t k = 0; k < (int32_t)(sizeof(part.values) / sizeof(*part.values)); k++) {
        part.values[k] = tid + k * BLOCK < n ? gpu_loadf(speed_window(w, p, x, y)) : 0;
        const int next_row = x + step_x >= w->width;
        x += next_row ? step_x - w->width : step_x;
        y += next_row ? step_y + 1 : step_y;
    }
    return part;
}

GPU_FN void speed_store_part(const SpeedPart *part, int32_t n, float *to)
{
    const int32_t tid = (int32_t)gpu_tid(0);

    GPU_UNROLL
    for (int32_t k = 0; k < (int32_t)(sizeof(part->values) / sizeof(*part->values)); k++)
        if (tid + k * BLOCK < n)
            to[tid + k * BLOCK] = part->values[k];
}

GPU_KERNEL_RESIDENT(speed_means, VgSpeedArgs, BLOCK, 2)
{
    float *const values = (float *)gpu_dynamic_shared();
    const SpeedWindows w = speed_windows(&args, gpu_bid(1));
    const int32_t p = (int32_t)gpu_bid(0), n = w.width * w.height;
    int32_t size = n < args.mean_part ? n : args.mean_part;
    SpeedPart part = speed_read_part(&w, p, 0, size);
    float sum = 0;

    GPU_ROLL
    for (int32_t first = 0; first < n;) {
        const int32_t now = size, next = first + now;
        speed_store_part(&part, now, values);
        gpu_barrier();
        /* The next part is on its way while this one is summed. */
        size = n - next < args.mean_part ? n - next : args.mean_part;
        part = speed_read_part(&w, p, next, size);
        sum = speed_running_sum(values, now, sum);
        first = next;
    }
    if (gpu_tid(0) == 0)
        speed_statistics(&args, gpu_bid(1))->means[p] = sum / (float)n;
}

/* Two windows and their means. */
typedef struct SpeedPair {
    int32_t p, q;
    double mean_p, mean_q;
} SpeedPair;

/* Rows of windows: in shared memory, with the four below that windows reach to, or else in the plane. */
typedef struct SpeedRows {
    const float *samples;
    uint64_t plane;
    int32_t pitch, width, n;
} SpeedRows;

/* Where a window's sample (0, 0) is in rows. */
GPU_FN int32_t speed_offset(const SpeedRows *rows, int32_t p)
{
    return p / SIDE * rows->pitch + p % SIDE;
}

GPU_FN float speed_sample(const SpeedRows *rows, int32_t at, const int shared)
{
    return shared ? rows->samples[at] : gpu_loadf(rows->plane + (uint64_t)at * sizeof(float));
}

/* A sample less its window's mean. */
GPU_FN double speed_deviation(float sample, double mean)
{
    return (double)sample - mean;
}

/* The most products of a row that are loaded together, while those before are added. */
#define MOST_BATCH 8

typedef struct SpeedBatch {
    float p[MOST_BATCH], q[MOST_BATCH];
    int32_t n; /* of this thread: may be none, or more than a batch has */
} SpeedBatch;

/* Samples at p and q and `step` apart. */
GPU_FN SpeedBatch speed_load_batch(const SpeedRows *rows, int32_t p, int32_t q, int32_t n, const int step,
                                   const int size, const int shared)
{
    SpeedBatch batch;

    batch.n = n;
    GPU_UNROLL
    for (int32_t k = 0; k < size; k++) {
        batch.p[k] = k < n ? speed_sample(rows, p + k * step, shared) : 0;
        batch.q[k] = k < n ? speed_sample(rows, q + k * step, shared) : 0;
    }
    return batch;
}

/* Adds the products whose columns belong to a lane: rows are cut into batches of `size`. */
GPU_FN double speed_add_lane(double sum, const SpeedRows *rows, const SpeedPair *pair, int32_t lane, const int size,
                             const int shared)
{
    const int32_t whole = rows->width & ~15, end = lane < 8 && (rows->width & 8) ? whole + 8 : whole;
    const int32_t in_row = (end - lane + VG_SPEED_LANES - 1) / VG_SPEED_LANES;
    const int32_t batches = (rows->width / 8 * 8 + VG_SPEED_LANES * size - 1) / (VG_SPEED_LANES * size);
    int32_t p = speed_offset(rows, pair->p) + lane, q = speed_offset(rows, pair->q) + lane, left = in_row, b = 0;
    SpeedBatch batch = speed_load_batch(rows, p, q, left, VG_SPEED_LANES, size, shared);

    GPU_UNROLL_BY(2)
    for (int32_t i = batches * rows->n; i > 0; i--) {
        const int row_ends = ++b == batches;
        const int32_t step = row_ends ? rows->pitch - (batches - 1) * VG_SPEED_LANES * size : VG_SPEED_LANES * size;
        b = row_ends ? 0 : b;
        p += step;
        q += step;
        left = i == 1 ? 0 : row_ends ? in_row : left - size;
        const SpeedBatch next = speed_load_batch(rows, p, q, left, VG_SPEED_LANES, size, shared);
        GPU_UNROLL
        for (int32_t k = 0; k < size; k++)
            if (k < batch.n)
                sum = vg_speed_add_product(sum, speed_deviation(batch.p[k], pair->mean_p),
                                           speed_deviation(batch.q[k], pair->mean_q));
        batch = next;
    }
    return sum;
}

/* Adds the products of the last columns, of which there are seven at most. */
GPU_FN double speed_add_tail(double sum, const SpeedRows *rows, const SpeedPair *pair, const int shared)
{
    const int32_t first = rows->width & ~7, n = rows->width - first;

    for (int32_t y = 0; y < rows->n; y++) {
        const int32_t at = y * rows->pitch + first;
        const SpeedBatch batch = speed_load_batch(rows, at + speed_offset(rows, pair->p),
                                                  at + speed_offset(rows, pair->q), n, 1, MOST_BATCH - 1, shared);
        GPU_UNROLL
        for (int32_t k = 0; k < MOST_BATCH - 1; k++)
            if (k < n)
                sum = vg_speed_add_rounded(sum, speed_deviation(batch.p[k], pair->mean_p),
                                           speed_deviation(batch.q[k], pair->mean_q));
    }
    return sum;
}

/* The products of all accumulators but the last one, or of that. Batches are as large as rows can be cut into evenly. */
GPU_FN double speed_add_rows(double sum, const SpeedRows *rows, const SpeedPair *pair, int32_t lane, const int shared)
{
    const int32_t steps = (rows->width / 8 * 8 + VG_SPEED_LANES - 1) / VG_SPEED_LANES;
    const int32_t batches = (steps + MOST_BATCH - 1) / MOST_BATCH;

    if (lane == VG_SPEED_LANES)
        return speed_add_tail(sum, rows, pair, shared);
    if (!shared || steps > 7 * batches)
        return speed_add_lane(sum, rows, pair, lane, 8, shared);
    if (steps > 4 * batches)
        return speed_add_lane(sum, rows, pair, lane, 7, shared);
    return speed_add_lane(sum, rows, pair, lane, 4, shared);
}

/* Copies n floats, a multiple of four, from memory aligned to 16. Several vectors are under way at a time. */
GPU_FN void speed_stage(uint64_t from, int32_t n, float *to)
{
    enum { TOGETHER = 12, STEP = TOGETHER * VG_SPEED_COVARIANCE_BLOCK };

    for (int32_t first = (int32_t)gpu_tid(0); first < n / 4; first += STEP) {
        GpuWords vectors[TOGETHER] = { { { 0 } } };
        GPU_UNROLL
        for (int32_t k = 0; k < TOGETHER; k++) {
            const int32_t i = first + k * VG_SPEED_COVARIANCE_BLOCK;
            if (i < n / 4)
                vectors[k] = gpu_load128(from + (uint64_t)i * 16);
        }
        GPU_UNROLL
        for (int32_t k = 0; k < TOGETHER; k++) {
            const int32_t i = first + k * VG_SPEED_COVARIANCE_BLOCK;
            if (i < n / 4) {
                GPU_UNROLL
                for (int32_t f = 0; f < 4; f++)
                    to[4 * i + f] = vg_bits_float(vectors[k].w[f]);
            }
        }
    }
}

/* The n-th pair of the lower triangle. */
GPU_FN SpeedPair speed_pair(int32_t n, GPU_GLOBAL const VgSpeedStatistics *statistics)
{
    SpeedPair pair;

    pair.p = 0;
    while (vg_speed_pair(pair.p + 1, 0) <= n)
        pair.p++;
    pair.q = n - vg_speed_pair(pair.p, 0);
    pair.mean_p = (double)statistics->means[pair.p];
    pair.mean_q = (double)statistics->means[pair.q];
    return pair;
}

/* `shared`: rows are worked on in shared memory, args->band_rows at a time; else all in the plane. */
GPU_FN void speed_covariance_block(const VgSpeedArgs *args, const int shared)
{
    GPU_SHARED double lanes[VG_SPEED_BLOCK_PAIRS][VG_SPEED_LANES + 1];
    GPU_GLOBAL VgSpeedStatistics *const statistics = speed_statistics(args, gpu_bid(1));
    const SpeedWindows w = speed_windows(args, gpu_bid(1));
    const int32_t tid = (int32_t)gpu_tid(0), first_tail = VG_SPEED_BLOCK_PAIRS * VG_SPEED_LANES;
    const int32_t first = (int32_t)gpu_bid(0) * VG_SPEED_BLOCK_PAIRS;
    const int32_t own = tid < first_tail ? tid / VG_SPEED_LANES : tid - first_tail;
    const int32_t lane = tid < first_tail ? tid % VG_SPEED_LANES : VG_SPEED_LANES;
    const int busy = own < VG_SPEED_BLOCK_PAIRS && first + own < VG_SPEED_PAIRS;
    const SpeedPair pair = speed_pair(busy ? first + own : 0, statistics);
    const int32_t band_rows = shared ? args->band_rows : w.height;
    float *const samples = (float *)gpu_dynamic_shared();
    double sum = 0;

    for (int32_t y = 0; y < w.height; y += band_rows) {
        SpeedRows rows;
        rows.samples = samples;
        rows.plane = w.plane;
        rows.pitch = w.pitch;
        rows.width = w.width;
        rows.n = w.height - y < band_rows ? w.height - y : band_rows;
        if (shared) {
            speed_stage(speed_window(&w, 0, 0, y), (rows.n + SIDE - 1) * w.pitch, samples);
            gpu_barrier();
        }
        if (busy)
            sum = speed_add_rows(sum, &rows, &pair, lane, shared);
        if (shared)
            gpu_barrier();
    }
    if (busy)
        lanes[own][lane] = sum;
    gpu_barrier();
    if (tid < VG_SPEED_BLOCK_PAIRS && first + tid < VG_SPEED_PAIRS) {
        const SpeedPair joined = speed_pair(first + tid, statistics);
        const double total = vg_speed_join_lanes(lanes[tid]);
        const float covariance = vg_speed_covariance(total, w.width * w.height);
        statistics->sums[first + tid] = total;
        statistics->covariances[joined.p * N + joined.q] = covariance;
        statistics->covariances[joined.q * N + joined.p] = covariance;
    }
}

GPU_KERNEL(speed_covariances, VgSpeedArgs, VG_SPEED_COVARIANCE_BLOCK)
{
    speed_covariance_block(&args, 1);
}

/* Of planes so wide that not five rows fit. */
GPU_KERNEL(speed_covariances_wide, VgSpeedArgs, VG_SPEED_COVARIANCE_BLOCK)
{
    speed_covariance_block(&args, 0);
}

/* ---- Eigenvalues ---------------------------------------------------------------------------------------------------- */

/*
 * Running sums of entries from some index on begin at a constant at or below it, so that loops are unrolled and loads under way
 * together: 0 or 12 here, a multiple of five for the QR factorisation below. Terms before the index are +0 or -0, which leaves a
 * running sum as it is.
 */

/* Entries from row to row where rows are read as vectors of four: threads that read one each do not collide. */
#define ROW 28

/* Entries from..24 of a row, where `from` is a multiple of four. */
GPU_FN void speed_load_row(const float *row, float x[ROW], const int from)
{
    GPU_UNROLL
    for (int32_t c = from; c < N; c += 4) {
        const GpuWords words = gpu_shared128(row + c);
        GPU_UNROLL
        for (int32_t k = 0; k < 4; k++)
            x[c + k] = vg_bits_float(words.w[k]);
    }
}

/* What threads share while they reduce a matrix m: the tridiagonal matrix, and a reflection. */
typedef struct SpeedReduction {
    float *m, *d, *e, *v, *u, *w;
    float *tau; /* 0: all that is to be cleared is 0 */
} SpeedReduction;

/* The reflection of row i: v, and tau. By the first N threads, all of which work out what is common, and one more. */
GPU_FN void speed_find_reflector(const SpeedReduction *a, int32_t i, const int from)
{
    const int32_t tid = (int32_t)gpu_tid(0), s = i + 1;
    const float *const row = a->m + i * ROW;
    const float diagonal = row[i], beside = row[s], own = row[tid < N ? tid : s];
    float x[ROW], sum = 0;
    VgSpeedReflector reflector;

    speed_load_row(row, x, from);
    GPU_UNROLL
    for (int32_t c = from; c < N; c++)
        sum += c > s ? x[c] * x[c] : 0;
    const float length = VG_SQRTF(sum);
    reflector.b = beside;
    reflector.divisor = 1;
    if (length != 0)
        reflector = vg_speed_reflector(beside, length);
    /* One division for all threads. */
    const float numerator = tid < N ? own : reflector.b - beside,
                denominator = tid < N ? reflector.divisor : reflector.b;
    const float quotient = numerator / denominator;
    if (tid == N) {
        *a->tau = length != 0 ? quotient : 0;
        a->d[i] = diagonal;
        a->e[i] = reflector.b;
    } else {
        a->v[tid] = tid < s ? 0 : tid == s ? 1 : quotient;
    }
}

/* Step i of the tridiagonalisation, for `from` <= i + 1. m is symmetric, so that its rows do for columns. */
GPU_FN void speed_reduce(const SpeedReduction *a, int32_t i, const int from)
{
    enum { ROWS = 9, EACH = (N + ROWS - 1) / ROWS }; /* rows that threads update together, and each of them */
    const int32_t tid = (int32_t)gpu_tid(0), first_row = tid / N, column = tid % N, s = i + 1;
    float x[ROW], v[ROW];

    if (tid <= N)
        speed_find_reflector(a, i, from);
    gpu_barrier();
    const float tau = *a->tau;
    if (tau == 0) {
        gpu_barrier();
        return;
    }
    if (tid < N) {
        float sum = 0;
        speed_load_row(a->m + tid * ROW, x, from);
        speed_load_row(a->v, v, from);
        GPU_UNROLL
        for (int32_t c = from; c < N; c++)
            sum = vg_speed_add_reflected(sum, tau, x[c], v[c]);
        a->u[tid] = tid < s ? 0 : sum;
    }
    gpu_barrier();
    if (tid < N) {
        float g = 0;
        speed_load_row(a->u, x, from);
        GPU_UNROLL
        for (int32_t r = from; r < N; r++)
            g += x[r] * v[r];
        a->w[tid] = a->u[tid] + vg_speed_half(tau, g) * a->v[tid];
    }
    gpu_barrier();
    if (first_row < ROWS && column >= s) {
        const float v_column = a->v[column], w_column = a->w[column];
        float *const entries = a->m + first_row * ROW + column;
        GPU_UNROLL
        for (int32_t k = 0; k < EACH; k++) {
            const int32_t r = first_row + k * ROWS;
            if (r >= s && r < N)
                entries[k * ROWS * ROW] =
                    vg_speed_reflect(entries[k * ROWS * ROW], a->v[r], a->w[r], v_column, w_column);
        }
    }
    gpu_barrier();
}

/* Householder tridiagonalisation of a matrix. */
GPU_FN void speed_tridiagonalise(GPU_GLOBAL const VgSpeedStatistics *statistics, float *d, float *e)
{
    enum { HALF = 12 }; /* a loop for short sums: more of them do not pay for the code's way into the cache */
    GPU_SHARED float m[N * ROW] __attribute__((aligned(16))), v[ROW] __attribute__((aligned(16))),
        u[ROW] __attribute__((aligned(16))), w[N];
    GPU_SHARED float tau;
    SpeedReduction reduction;

    reduction.m = m;
    reduction.d = d;
    reduction.e = e;
    reduction.v = v;
    reduction.u = u;
    reduction.w = w;
    reduction.tau = &tau;
    for (int32_t i = (int32_t)gpu_tid(0); i < N * N; i += BLOCK)
        m[i / N * ROW + i % N] = statistics->covariances[i];
    gpu_barrier();
    GPU_ROLL
    for (int32_t i = 0; i < HALF - 1; i++)
        speed_reduce(&reduction, i, 0);
    GPU_ROLL
    for (int32_t i = HALF - 1; i < N - 2; i++)
        speed_reduce(&reduction, i, HALF);
    if (gpu_tid(0) == 0) {
        d[N - 2] = m[(N - 2) * ROW + N - 2];
        d[N - 1] = m[(N - 1) * ROW + N - 1];
        e[N - 2] = m[(N - 2) * ROW + N - 1];
    }
}

/* Of the off-diagonals in `doubtful`, one bit each, stores 0 for those that are nothing. Returns the others. */
GPU_FN uint32_t speed_deflate(const float *d, float *e, uint32_t doubtful)
{
    uint32_t left = 0;

    while (doubtful) {
        const int32_t i = 63 - gpu_clz64(doubtful);
        const uint32_t bit = (uint32_t)1 << i;
        if (vg_speed_negligible(e[i], d[i], d[i + 1]))
            e[i] = 0;
        left |= e[i] != 0 ? bit : 0;
        doubtful &= ~bit;
    }
    return left;
}

/* A sweep on its way. Of rotation k is done what the next one begins with. */
typedef struct SpeedSweep {
    float *d, *e;
    VgSpeedChase chase;
    VgSpeedTurn turn;
    int32_t k;
    uint32_t doubtful, bit; /* bit k: e[k - 1] */
    float before;           /* d[k - 1] */
} SpeedSweep;

/* The rest of rotation k. */
GPU_FN void speed_finish_turn(SpeedSweep *sweep)
{
    const int32_t k = sweep->k;
    const float gamma = sweep->d[k + 2], delta = sweep->e[k + 2];
    const float merged = vg_speed_turned_off_diagonal(&sweep->turn), now = vg_speed_turned_diagonal(&sweep->turn);

    sweep->chase.alpha = vg_speed_turned_alpha(&sweep->turn);
    sweep->chase.gamma = gamma;
    sweep->chase.delta = delta;
    sweep->d[k] = now;
    sweep->e[k - 1] = merged;
    sweep->doubtful |= vg_speed_surely_counts(merged, sweep->before, now) ? 0 : sweep->bit;
    sweep->bit <<= 1;
    sweep->before = now;
    sweep->k++;
}

/*
 * A sweep over first..last. Returns the bits of its off-diagonals that are not 0, after the test for what is nothing. Arrays
 * are read two entries beyond the last: no result depends on what is there. e[first - 1], which is 0 or in front of the
 * array, is so again at the end.
 */
GPU_FN uint32_t speed_sweep(float *d, float *e, int32_t first, int32_t last)
{
    const float mu = vg_speed_shift(d[last - 1], d[last], e[last - 1], d[first], e[first]);
    const uint32_t all = ((uint32_t)1 << last) - ((uint32_t)1 << first);
    SpeedSweep sweep;

    sweep.d = d;
    sweep.e = e;
    sweep.chase = vg_speed_chase(d[first], e[first], d[first + 1], e[first + 1], mu);
    sweep.k = first;
    sweep.doubtful = 0;
    sweep.bit = (uint32_t)1 << first;
    sweep.before = 0;
    sweep.turn = vg_speed_turn(&sweep.chase, vg_speed_rotation(sweep.chase.phi, sweep.chase.psi));
    while (sweep.k < last - 1) {
        int valid;
        /* A loop of its own, with one branch. */
        GPU_ROLL
        do {
            const VgSpeedRotation rotation = vg_speed_quick_rotation(sweep.chase.phi, sweep.chase.psi, &valid);
            speed_finish_turn(&sweep);
            sweep.turn = vg_speed_turn(&sweep.chase, rotation);
        } while (valid && sweep.k < last - 1);
        if (!valid) {
            sweep.chase = sweep.turn.chase;
            sweep.turn = vg_speed_turn(&sweep.chase, vg_speed_plain_rotation(sweep.chase.phi, sweep.chase.psi));
        }
    }
    speed_finish_turn(&sweep);
    d[last] = sweep.chase.alpha;
    e[first - 1] = 0;
    /* The last one is mostly what a sweep clears. */
    const int cleared = sweep.chase.phi == 0 || vg_speed_negligible(sweep.chase.phi, sweep.before, sweep.chase.alpha);
    e[last - 1] = cleared ? 0 : sweep.chase.phi;
    const uint32_t doubtful = sweep.doubtful >> 1 & all, left = all & ~doubtful & ~(cleared ? sweep.bit >> 1 : 0);
    return doubtful ? left | speed_deflate(d, e, doubtful) : left;
}

/* Eigenvalues, in the order in which the sweeps leave them, of the tridiagonal matrix in d. By one thread. */
GPU_FN void speed_diagonalise(float *d, float *e)
{
    uint32_t left = speed_deflate(d, e, ((uint32_t)1 << (N - 1)) - 1); /* bit i: e[i] is not 0 */

    for (int32_t sweeps = 0; left && sweeps < VG_SPEED_MOST_SWEEPS; sweeps++) {
        const int32_t last = 64 - gpu_clz64(left); /* behind the last one that is not 0 */
        const uint32_t below = ((uint32_t)1 << last) - 1, zeros = ~left & below;
        const int32_t first = 64 - gpu_clz64(zeros);
        left = (left & (((uint32_t)1 << first) - 1)) | speed_sweep(d, e, first, last);
    }
}

GPU_FN void speed_eigenvalues(GPU_GLOBAL VgSpeedStatistics *statistics)
{
    GPU_SHARED float d[N + 2], with_margin[1 + N + 2];
    float *const e = with_margin + 1;
    const uint32_t tid = gpu_tid(0);

    if (tid < N + 2) {
        d[tid] = 0;
        e[tid] = 0;
    }
    speed_tridiagonalise(statistics, d, e);
    gpu_barrier();
    if (tid < N) {
        statistics->diagonal[tid] = d[tid];
        statistics->off_diagonal[tid] = e[tid];
    }
    gpu_barrier();
    if (tid > 0)
        return;
    speed_diagonalise(d, e);
    uint32_t singular = 0;
    for (int32_t i = 0; i < N; i++) {
        singular |= (uint32_t)vg_speed_is_singular(d[i]);
        statistics->eigenvalues[i] = d[i];
    }
    statistics->singular[0] = singular;
}

/* ---- Variances ------------------------------------------------------------------------------------------------------ */

/* Words from row to row of matrices in shared memory: odd, so that neither rows nor columns collide. */
#define PITCH 25

GPU_FN void speed_load_matrix(GPU_GLOBAL const VgSpeedStatistics *statistics, float *m)
{
    for (uint32_t i = gpu_tid(0); i < N * N; i += BLOCK)
        m[i / N * PITCH + i % N] = statistics->covariances[i];
}

/* sum + the squares of values[from..24], of which those before `first` are left out. */
GPU_FN float speed_add_squares(float sum, const float *values, int32_t first, const int from)
{
    GPU_UNROLL
    for (int32_t i = from; i < N; i++) {
        const float value = i < from + SIDE + 1 && i < first ? 0 : values[i];
        sum += value * value;
    }
    return sum;
}

/* The unit vector u of the reflection I - 2 u u^T of step k, which clears column k of z; `from` <= k. */
GPU_FN void speed_find_reflection(const float *z, int32_t k, float *u, const int from)
{
    const int32_t tid = (int32_t)gpu_tid(0);

    if (tid < N) {
        float x[N];
        GPU_UNROLL
        for (int32_t i = from; i < N; i++)
            x[i] = z[i * PITCH + k];
        const float length = VG_SQRTF(speed_add_squares(0, x, k, from));
        const float pivot = vg_speed_qr_pivot(z[k * PITCH + k], length);
        const float sum = speed_add_squares(pivot * pivot, x, k + 1, from);
        const float value = tid == k ? pivot : z[tid * PITCH + k];
        u[tid] = tid < k ? 0 : value / VG_SQRTF(sum);
    }
}

/*
 * Step k of the factorisation, for `from` <= k. Of z only what is left to be reduced is kept up. A thread has a column of z or
 * of q, and every fifth row: the rows before k, whose sums mean nothing, it does not store.
 */
GPU_FN void speed_factorise_step(float *z, float *q, float *u, int32_t k, const int from)
{
    const int32_t tid = (int32_t)gpu_tid(0), group = tid / (2 * N), column = tid % N;
    const int in_q = tid / N % 2, busy = group < SIDE && (in_q || column > k);
    float *const m = in_q ? q : z;
    float sums[SIDE], u_rows[SIDE];

    speed_find_reflection(z, k, u, from);
    gpu_barrier();
    if (busy) {
        GPU_UNROLL
        for (int32_t r = from / SIDE; r < SIDE; r++) {
            sums[r] = 0;
            u_rows[r] = u[SIDE * r + group];
        }
        GPU_UNROLL
        for (int32_t l = from; l < N; l++) {
            const float factor = m[l * PITCH + column], u_l = u[l];
            GPU_UNROLL
            for (int32_t r = from / SIDE; r < SIDE; r++) {
                const int diagonal = r == l / SIDE && group == l % SIDE;
                sums[r] = vg_speed_add_entry(sums[r], vg_speed_qr_entry(u_rows[r], u_l, diagonal), factor);
            }
        }
    }
    gpu_barrier();
    if (busy) {
        GPU_UNROLL
        for (int32_t r = from / SIDE; r < SIDE; r++)
            if (SIDE * r + group >= k)
                m[(SIDE * r + group) * PITCH + column] = sums[r];
    }
    gpu_barrier();
}

/* K = Q^T R. */
GPU_FN void speed_factorise(float *z, float *q)
{
    GPU_SHARED float u[N];

    for (int32_t i = (int32_t)gpu_tid(0); i < N * N; i += BLOCK)
        q[i / N * PITCH + i % N] = i / N == i % N ? 1.0f : 0.0f;
    gpu_barrier();
    GPU_UNROLL
    for (int32_t from = 0; from < N; from += SIDE) {
        GPU_ROLL
        for (int32_t k = from; k < from + SIDE && k < N - 1; k++)
            speed_factorise_step(z, q, u, k, from);
    }
}

/* r = q k. */
GPU_FN void speed_triangle(const float *q, const float *k, float *r)
{
    for (uint32_t i = gpu_tid(0); i < N * N; i += BLOCK) {
        const uint32_t row = i / N, column = i % N;
        float sum = 0;
        GPU_UNROLL
        for (uint32_t l = 0; l < N; l++)
            sum = vg_speed_add_entry(sum, q[row * PITCH + l], k[l * PITCH + column]);
        r[row * PITCH + column] = sum;
    }
}

/* Variance of a block: its samples are y, and x = R^-1 Q y. t has a column for each thread. */
GPU_FN float speed_variance(const float *q, const float *r, const float *y, float (*t)[BLOCK])
{
    const uint32_t tid = gpu_tid(0);
    float x[N];

    GPU_ROLL
    for (int32_t i = 0; i < N; i++) {
        float sum = 0;
        GPU_UNROLL
        for (int32_t j = 0; j < N; j++)
            sum = vg_speed_add_entry(sum, q[i * PITCH + j], y[j]);
        t[i][tid] = sum;
    }
    GPU_UNROLL
    for (int32_t i = N - 1; i >= 0; i--) {
        float left = t[i][tid];
        GPU_UNROLL
        for (int32_t k = i + 1; k < N; k++)
            left = vg_speed_substitute(left, x[k], r[i * PITCH + k]);
        x[i] = left / r[i * PITCH + i];
    }
    float s = vg_speed_variance_term(x[0], y[0]);
    GPU_UNROLL
    for (int32_t p = 1; p < N; p++)
        s += vg_speed_variance_term(x[p], y[p]);
    return s;
}

/* Variances of the blocks of a share, one for each thread; the first share also tells whether a pivot is too small. */
GPU_FN void speed_variances(const VgSpeedArgs *args, uint32_t share)
{
    GPU_SHARED float z[N * PITCH], q[N * PITCH], r[N * PITCH], t[N][BLOCK];
    const uint32_t picture = gpu_bid(1), tid = gpu_tid(0);
    GPU_GLOBAL VgSpeedStatistics *const statistics = speed_statistics(args, picture);
    const int32_t n_blocks = speed_n_blocks(&args->params), block = (int32_t)(share * BLOCK + tid);
    const int32_t across = vg_speed_blocks(vg_speed_decimated(args->params.scaled_width));

    speed_load_matrix(statistics, z);
    speed_factorise(z, q);
    speed_load_matrix(statistics, z);
    gpu_barrier();
    speed_triangle(q, z, r);
    gpu_barrier();
    if (share == 0 && tid == 0) {
        uint32_t singular = 0;
        for (int32_t i = 0; i < N; i++)
            singular |= (uint32_t)vg_speed_is_singular(vg_speed_magnitude(r[i * PITCH + i]));
        statistics->singular[1] = singular;
    }
    if (block >= n_blocks)
        return;
    const uint64_t corner =
        speed_plane(args, picture) +
        (uint64_t)((int64_t)(block / across) * SIDE * args->pitch + block % across * SIDE) * sizeof(float);
    float y[N];
    GPU_UNROLL
    for (int32_t p = 0; p < N; p++)
        y[p] = gpu_loadf(corner + (uint64_t)((int64_t)(p / SIDE) * args->pitch + p % SIDE) * sizeof(float));
    GPU_GLOBAL float *const variances = (GPU_GLOBAL float *)args->variances + (uint64_t)picture * (uint64_t)n_blocks;
    variances[block] = speed_variance(q, r, y, t);
}

/*
 * Of each picture, one block finds the eigenvalues, and the others at the same time what they would need if none were
 * too small: that is mostly so, and shorter than the eigenvalues.
 */
GPU_KERNEL(speed_factors, VgSpeedArgs, BLOCK)
{
    if (gpu_bid(0) == 0)
        speed_eigenvalues(speed_statistics(&args, gpu_bid(1)));
    else
        speed_variances(&args, gpu_bid(0) - 1);
}

/* ---- Entropies and scores -------------------------------------------------------------------------------------------- */

GPU_FN uint32_t speed_singular(const VgSpeedArgs *args, uint32_t picture)
{
    GPU_GLOBAL const VgSpeedStatistics *const statistics = speed_statistics(args, picture);
    return statistics->singular[0] | statistics->singular[1];
}

/* Running sum of a plane's terms, in thread 0. */
GPU_FN float speed_pool(GPU_GLOBAL const float *terms, int32_t n)
{
    enum { PART = 2048, BATCHES = 4 };
    GPU_SHARED float part[PART];
    float sum = 0;

    for (int32_t first = 0; first < n; first += PART) {
        /* What is behind the last term leaves a sum of terms, none of which is negative, as it is. */
        for (int32_t i = (int32_t)gpu_tid(0); i < PART; i += BLOCK)
            part[i] = first + i < n ? terms[first + i] : 0;
        gpu_barrier();
        if (gpu_tid(0) == 0) {
            GPU_ROLL
            for (int32_t i = 0; i < PART && first + i < n; i += BATCHES * AHEAD) {
                float values[BATCHES][AHEAD];
                GPU_UNROLL
                for (int32_t b = 0; b < BATCHES; b++)
                    speed_read_ahead(part + i + b * AHEAD, values[b]);
                GPU_UNROLL
                for (int32_t b = 0; b < BATCHES; b++)
                    sum = speed_add_values(sum, values[b]);
            }
        }
        gpu_barrier();
    }
    return sum;
}

GPU_KERNEL(speed_entropies, VgSpeedArgs, BLOCK)
{
    enum { BLOCKS = VG_SPEED_ENTROPY_BLOCKS };
    GPU_SHARED double logarithms[BLOCKS * 2][N];
    GPU_SHARED float variances[BLOCKS * 2], entropies[BLOCKS * 2];
    const VgSpeedParams *const p = &args.params;
    const int32_t tid = (int32_t)gpu_tid(0), n_blocks = speed_n_blocks(p);
    const int32_t first = (int32_t)gpu_bid(0) * BLOCKS;
    const uint32_t plane = gpu_bid(1),
                   singular[2] = { speed_singular(&args, 2 * plane), speed_singular(&args, 2 * plane + 1) };
    GPU_GLOBAL float *const terms = (GPU_GLOBAL float *)args.terms + (uint64_t)plane * (uint64_t)n_blocks;

    if (tid < BLOCKS * 2) {
        const int32_t side = tid % 2, block = first + tid / 2;
        GPU_GLOBAL const float *const s =
            (GPU_GLOBAL const float *)args.variances + (uint64_t)(2 * (int32_t)plane + side) * (uint64_t)n_blocks;
        variances[tid] = (side ? singular[1] : singular[0]) || block >= n_blocks ? 0 : s[block];
    }
    gpu_barrier();
    if (tid < BLOCKS * 2 * N) {
        const int32_t row = tid / N, k = tid % N;
        const float eigenvalue = speed_statistics(&args, 2 * plane + (uint32_t)row % 2)->eigenvalues[k];
        logarithms[row][k] = vg_log2((double)vg_speed_entropy_argument(eigenvalue, variances[row], p->sigma));
    }
    gpu_barrier();
    if (tid < BLOCKS * 2) {
        float e = 0;
        for (int32_t k = 0; k < N; k++)
            e = vg_speed_add_entropy(e, logarithms[tid][k]);
        entropies[tid] = e;
    }
    gpu_barrier();
    if (tid < BLOCKS && first + tid < n_blocks) {
        const VgSpeedWeights weights = vg_speed_weights(p->weighting, variances[2 * tid], variances[2 * tid + 1]);
        terms[first + tid] = vg_speed_term(entropies[2 * tid], entropies[2 * tid + 1], p->threshold, weights);
    }
    if (!gpu_last_block(args.state + offsetof(VgSpeedState, blocks) + plane * sizeof(uint32_t), gpu_grid(0)))
        return;
    const float sum = speed_pool(terms, n_blocks);
    if (tid == 0) {
        GPU_GLOBAL VgSpeedRecord *const record = (GPU_GLOBAL VgSpeedRecord *)args.record;
        const uint32_t bits = (singular[0] ? VG_SPEED_REF_SINGULAR : 0u) | (singular[1] ? VG_SPEED_DIST_SINGULAR : 0u);
        record->scores[plane] = vg_speed_score(sum, n_blocks, bits);
        record->singular[plane] = bits;
        if (p->temporal) {
            record->scores[1] = 0;
            record->singular[1] = 0;
        }
    }
}

#undef BLOCK
#undef N
#undef SIDE
#undef PITCH
#undef ROW
#undef MOST_BATCH
#undef TAPS
#undef REACH
#undef CHUNKS
#undef AHEAD
#undef STARTS
#undef PER_CHUNK
#undef PER_THREAD
#undef START_BELOW
