/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * motion on the device, one or two earlier frames in a launch. Definition: docs/numerics.md, motion.
 *
 * Bytes: each frame once (with two earlier frames, the current one comes twice, the second time from a cache). A wave takes a strip of columns, eight to a lane, and marches down its rows: the last five
 * rows of differences stay in registers, neighbours' vertical results come by shuffles, and the outermost lanes only
 * serve their neighbours. No intermediate plane, no shared memory, no barrier but for the sum.
 */
#include "kernels/block.h"
#include "kernels/gpu.h"
#include "kernels/motion_args.h"
#include "kernels/samples.h"
#include "shared_math/motion.h"

#define COLUMNS VG_MOTION_COLUMNS

/*
 * Eight samples of a row from column x on, as words of the plane packed into bytes or pairs of bytes. Columns outside
 * are mirrored, as far as the filter reaches; farther ones are 0.
 */
GPU_FN GpuWords motion_load(const VgDevicePlane *plane, int32_t x, int32_t y, const int bytes)
{
    const uint64_t row = gpu_row(plane, vg_motion_mirror(y, plane->height));
    uint64_t half[2] = { 0, 0 };

    if (plane->vector && x >= 0 && x + COLUMNS <= plane->width)
        return bytes == 1 ? gpu_load64(row + (uint64_t)x) : gpu_load128(row + 2 * (uint64_t)x);
    GPU_ROLL
    for (int i = 0; i < COLUMNS; i++) {
        if (x + i >= -2 && x + i < plane->width + 2) {
            const uint64_t word = gpu_row_word(plane, row, vg_motion_mirror(x + i, plane->width));
            half[0] |= bytes == 1 || i < 4 ? word << (i * 8 * bytes & 63) : 0;
            half[1] |= bytes == 2 && i >= 4 ? word << (i * 16 & 63) : 0;
        }
    }
    const GpuWords words = { { (uint32_t)half[0], (uint32_t)(half[0] >> 32), (uint32_t)half[1],
                               (uint32_t)(half[1] >> 32) } };
    return words;
}

/*
 * A row of differences, earlier minus current, as the vertical filter takes them: of bytes, pairs of an earlier and a
 * current sample, whose dot product with (tap, -tap) is the tap's share; of words, the differences themselves.
 */
typedef struct MotionRow {
    uint32_t d[COLUMNS];
} MotionRow;

GPU_FN uint32_t motion_word(const GpuWords *words, const int i, int32_t shift)
{
    return (words->w[i / 2] >> (i % 2 * 16) & 0xffff) >> shift;
}

GPU_FN MotionRow motion_difference(const GpuWords *earlier, const GpuWords *current, int32_t earlier_shift,
                                   int32_t current_shift, const int bytes)
{
    MotionRow row = { { 0 } }; /* bytes fill half of it */

    GPU_UNROLL
    for (int i = 0; i < (bytes == 1 ? COLUMNS / 2 : COLUMNS); i++)
        row.d[i] = bytes == 1 ? gpu_interleave(earlier->w[i / 2], current->w[i / 2], i % 2)
                              : motion_word(earlier, i, earlier_shift) - motion_word(current, i, current_shift);
    return row;
}

/* vg_motion_filter_narrow() or vg_motion_filter() of column i in five rows. */
GPU_FN int32_t motion_vertical(const MotionRow *rows, const int oldest, const int i, int32_t bit_depth, const int bytes)
{
    const MotionRow *const r0 = &rows[oldest], *const r1 = &rows[(oldest + 1) % 5], *const r2 = &rows[(oldest + 2) % 5],
                           *const r3 = &rows[(oldest + 3) % 5], *const r4 = &rows[(oldest + 4) % 5];

    if (bytes == 1) {
        const uint32_t outer = (uint32_t)-3571 << 16 | 3571, inner = (uint32_t)-16004 << 16 | 16004;
        const uint32_t centre = (uint32_t)-26386 << 16 | 26386;
        int32_t sum = gpu_dp2a(outer, r0->d[i / 2], 1 << 7, i % 2); /* at most 2^16 * 255 + 2^7 */
        sum = gpu_dp2a(inner, r1->d[i / 2], sum, i % 2);
        sum = gpu_dp2a(centre, r2->d[i / 2], sum, i % 2);
        sum = gpu_dp2a(inner, r3->d[i / 2], sum, i % 2);
        return gpu_dp2a(outer, r4->d[i / 2], sum, i % 2) >> 8;
    }
    const int32_t outer = (int32_t)(r0->d[i] + r4->d[i]), inner = (int32_t)(r1->d[i] + r3->d[i]);
    return bit_depth <= 15 ? vg_motion_filter_narrow(outer, inner, (int32_t)r2->d[i], bit_depth)
                           : vg_motion_filter(outer, inner, (int32_t)r2->d[i], bit_depth);
}

/* Sum over the first `columns` of a lane's columns in one row, from five rows of differences; all, if there is none. */
GPU_FN uint32_t motion_row(const MotionRow *rows, const int oldest, int32_t bit_depth, int32_t columns, const int bytes)
{
    int32_t v[COLUMNS + 4]; /* from two columns before the lane's */
    uint32_t h[COLUMNS], sum = 0;

    GPU_UNROLL
    for (int i = 0; i < COLUMNS; i++)
        v[i + 2] = motion_vertical(rows, oldest, i, bit_depth, bytes);
    v[0] = (int32_t)gpu_shfl_up32((uint32_t)v[COLUMNS], 1);
    v[1] = (int32_t)gpu_shfl_up32((uint32_t)v[COLUMNS + 1], 1);
    v[COLUMNS + 2] = (int32_t)gpu_shfl_down32((uint32_t)v[2], 1);
    v[COLUMNS + 3] = (int32_t)gpu_shfl_down32((uint32_t)v[3], 1);
    GPU_UNROLL
    for (int i = 0; i < COLUMNS; i++) {
        const int32_t filtered = vg_motion_filter(v[i] + v[i + 4], v[i + 1] + v[i + 3], v[i + 2], 16);
        h[i] = (uint32_t)(filtered < 0 ? -filtered : filtered);
        sum += h[i];
    }
    if (columns > 0 && columns < COLUMNS) { /* the lane with the picture's right edge */
        GPU_UNROLL
        for (int i = 1; i < COLUMNS; i++)
            sum -= i >= columns ? h[i] : 0;
    }
    return sum;
}

/* One wave's strip. A row is loaded as soon as the words of the one five rows above it have been used. */
GPU_FN uint32_t motion_strip(const VgDevicePlane *earlier, const VgDevicePlane *current, int32_t bit_depth, int32_t x,
                             int32_t columns, int32_t first, int32_t end, const int bytes)
{
    const GpuWords none = { { 0, 0, 0, 0 } };
    GpuWords before[5], now[5];
    MotionRow rows[5];
    uint32_t sad = 0; /* at most 8 * 16 times 2^16 */

    GPU_UNROLL
    for (int k = 0; k < 5; k++)
        before[k] = now[k] = none;

    /* The first round only loads. */
    for (int32_t top = first - 7; top < end + 2; top += 5) {
        GPU_UNROLL
        for (int k = 0; k < 5; k++) {
            rows[k] = motion_difference(&before[k], &now[k], earlier->shift, current->shift, bytes);
            if (top + k + 5 < end + 2) {
                before[k] = motion_load(earlier, x, top + k + 5, bytes);
                now[k] = motion_load(current, x, top + k + 5, bytes);
            }
            if (top + k >= first + 2 && top + k < end + 2) /* five rows of differences are there */
                sad += motion_row(rows, (k + 1) % 5, bit_depth, columns, bytes);
        }
    }
    return columns > 0 ? sad : 0;
}

GPU_FN void motion_grid(const VgMotionArgs *args, const int bytes)
{
    const int32_t width = args->current.width, height = args->current.height;
    const int32_t wave = (int32_t)gpu_wave();
    const int32_t strip_width = (wave - 2) * COLUMNS;
    const uint32_t n_strips = (uint32_t)((width + strip_width - 1) / strip_width);
    const uint32_t n_parts = n_strips * (uint32_t)((height + VG_MOTION_ROWS - 1) / VG_MOTION_ROWS);
    const uint32_t waves_per_block = VG_MOTION_BLOCK / (uint32_t)wave;
    const uint32_t e = gpu_bid(1);
    const VgDevicePlane earlier = args->earlier[e];
    uint64_t sum = 0;

    for (uint32_t part = gpu_bid(0) * waves_per_block + gpu_tid(0) / (uint32_t)wave; part < n_parts;
         part += gpu_grid(0) * waves_per_block) {
        const int32_t lane = (int32_t)gpu_lane();
        const int32_t x = (int32_t)(part % n_strips) * strip_width + (lane - 1) * COLUMNS;
        const int32_t first = (int32_t)(part / n_strips) * VG_MOTION_ROWS;
        const int32_t end = first + VG_MOTION_ROWS < height ? first + VG_MOTION_ROWS : height;
        const int32_t left = width - x < COLUMNS ? width - x : COLUMNS;
        sum += motion_strip(&earlier, &args->current, args->bit_depth, x, lane > 0 && lane < wave - 1 ? left : 0, first,
                            end, bytes);
    }

    sum = gpu_block_sum64(sum, VG_MOTION_BLOCK);
    if (gpu_tid(0) == 0) {
        GPU_GLOBAL VgMotionState *const state = (GPU_GLOBAL VgMotionState *)args->state;
        GPU_GLOBAL VgMotionRecord *const record = (GPU_GLOBAL VgMotionRecord *)args->record;
        const uint64_t one = (uint64_t)1 << VG_MOTION_SUM_BITS;
        const uint64_t total = gpu_atomic_add64((uint64_t *)&state->sum[e], one + sum) + one + sum;
        if (total >> VG_MOTION_SUM_BITS == gpu_grid(0)) {
            record->sad[args->field[e]] = total & (one - 1);
            if (gpu_grid(1) == 1)
                record->sad[args->field[1]] = 0;
            state->sum[e] = 0;
        }
    }
}

GPU_KERNEL_RESIDENT(motion_bytes, VgMotionArgs, VG_MOTION_BLOCK, 9)
{
    motion_grid(&args, 1);
}

GPU_KERNEL_RESIDENT(motion_words, VgMotionArgs, VG_MOTION_BLOCK, 6)
{
    motion_grid(&args, 2);
}

#undef COLUMNS
