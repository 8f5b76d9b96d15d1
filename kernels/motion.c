/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * motion on the device, one or two earlier frames in a launch. Definition: docs/numerics.md, motion.
 *
 * Bytes: each frame once (with two earlier frames, the current one comes twice, the second time from a cache). A wave
 * takes a strip of columns, eight to a lane, and marches down its rows: the last five rows of differences stay in
 * registers, neighbours' vertical results come by shuffles, and the outermost lanes only serve their neighbours. No
 * intermediate plane, no shared memory, no barrier but for the sum.
 */
#include "kernels/block.h"
#include "kernels/gpu.h"
#include "kernels/motion_args.h"
#include "kernels/samples.h"
#include "shared_math/motion.h"

#define COLUMNS VG_MOTION_COLUMNS

/* Row y, mirrored, and never outside the plane. */
GPU_FN int32_t motion_mirrored_row(int32_t y, int32_t height)
{
    const int32_t mirrored = vg_motion_mirror(y, height);
    return mirrored > 0 ? mirrored : 0;
}

/*
 * Eight samples of row y from column x on, as words of the plane packed into bytes or pairs of bytes. `whole`: all are in
 * the plane, and vectors fit. Else those outside are 0. What the filter needs of columns outside, motion_mirror() takes
 * from columns inside.
 */
GPU_FN GpuWords motion_load(const VgDevicePlane *plane, int32_t x, int32_t y, const int bytes, const int whole)
{
    /* Pitches fit 32 bits: the scorer sees to it. */
    const uint64_t row = plane->address + (uint64_t)((int64_t)y * (int32_t)plane->pitch);
    const int32_t left = plane->width - x;
    uint64_t half[2] = { 0, 0 };

    if (whole || (plane->vector && left >= COLUMNS))
        return bytes == 1 ? gpu_load64(row + (uint64_t)x) : gpu_load128(row + 2 * (uint64_t)x);
    GPU_ROLL
    for (int i = 0; i < COLUMNS; i++) {
        if (i < left) {
            const uint64_t word = gpu_row_word(plane, row, x + i);
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

/*
 * The two columns outside the plane on either side are mirror images of columns inside, of filtered ones too. v begins two
 * columns before x; `left` columns from x on are in the plane.
 */
GPU_FN void motion_mirror(int32_t *v, int32_t x, int32_t left, const int whole)
{
    v[0] = x == 0 ? v[4] : v[0];
    v[1] = x == 0 ? v[3] : v[1];
    if (whole) {
        v[COLUMNS + 2] = left == COLUMNS ? v[COLUMNS] : v[COLUMNS + 2];
        v[COLUMNS + 3] = left == COLUMNS ? v[COLUMNS - 1] : v[COLUMNS + 3];
    } else if (left > 0 && left <= COLUMNS + 1) {
        GPU_UNROLL
        for (int n = 1; n <= COLUMNS + 1; n++) {
            v[n + 2] = n == left ? v[n] : v[n + 2];
            if (n <= COLUMNS)
                v[n + 3] = n == left ? v[n - 1] : v[n + 3];
        }
    }
}

/* Sum over a lane's columns from x on in one row, from five rows of differences. */
GPU_FN uint32_t motion_row(const MotionRow *rows, const int oldest, int32_t bit_depth, int32_t x, int32_t left,
                           const int bytes, const int whole)
{
    int32_t v[COLUMNS + 4];
    uint32_t sum = 0;

    GPU_UNROLL
    for (int i = 0; i < COLUMNS; i++)
        v[i + 2] = motion_vertical(rows, oldest, i, bit_depth, bytes);
    v[0] = (int32_t)gpu_shfl_up32((uint32_t)v[COLUMNS], 1);
    v[1] = (int32_t)gpu_shfl_up32((uint32_t)v[COLUMNS + 1], 1);
    v[COLUMNS + 2] = (int32_t)gpu_shfl_down32((uint32_t)v[2], 1);
    v[COLUMNS + 3] = (int32_t)gpu_shfl_down32((uint32_t)v[3], 1);
    motion_mirror(v, x, left, whole);
    GPU_UNROLL
    for (int i = 0; i < COLUMNS; i++) {
        const int32_t filtered = vg_motion_filter(v[i] + v[i + 4], v[i + 1] + v[i + 3], v[i + 2], 16);
        const uint32_t magnitude = (uint32_t)(filtered < 0 ? -filtered : filtered);
        sum += whole || i < left ? magnitude : 0;
    }
    return sum;
}

/*
 * One wave's strip; a lane that only serves its neighbours adds nothing. Five rows of words are under way while the five
 * before them are in use. Rows below the strip's end, as many as make groups of five, are made for nothing: cheaper than
 * branches.
 */
GPU_FN uint32_t motion_strip(const VgDevicePlane *earlier, const VgDevicePlane *current, int32_t bit_depth, int32_t x,
                             int serves, int32_t first, int32_t end, const int bytes, const int whole)
{
    const int32_t left = current->width - x;
    /* Lanes outside the plane load something that nobody looks at. */
    const int32_t from = x < 0 || left <= 0 ? 0 : x;
    GpuWords before[5], now[5];
    MotionRow rows[5];
    uint32_t sad = 0; /* at most 8 * 20 times 2^16 */

    GPU_UNROLL
    for (int k = 0; k < 5; k++) {
        const int32_t row = motion_mirrored_row(first - 2 + k, current->height);
        before[k] = motion_load(earlier, from, row, bytes, whole);
        now[k] = motion_load(current, from, row, bytes, whole);
    }
    GPU_UNROLL
    for (int k = 0; k < 4; k++) {
        rows[k] = motion_difference(&before[k], &now[k], earlier->shift, current->shift, bytes);
        const int32_t row = motion_mirrored_row(first + 3 + k, current->height);
        before[k] = motion_load(earlier, from, row, bytes, whole);
        now[k] = motion_load(current, from, row, bytes, whole);
    }
    GPU_ROLL
    for (int32_t y = first; y < end; y += 5) {
        GPU_UNROLL
        for (int j = 0; j < 5; j++) {
            const int k = (j + 4) % 5; /* of row y + j + 2 */
            rows[k] = motion_difference(&before[k], &now[k], earlier->shift, current->shift, bytes);
            const int32_t row = motion_mirrored_row(y + j + 7, current->height);
            before[k] = motion_load(earlier, from, row, bytes, whole);
            now[k] = motion_load(current, from, row, bytes, whole);
            const uint32_t sum = motion_row(rows, (k + 1) % 5, bit_depth, x, left, bytes, whole);
            sad += y + j < end ? sum : 0;
        }
    }
    return serves || left <= 0 ? 0 : sad;
}

GPU_FN void motion_grid(const VgMotionArgs *args, const int bytes, const int whole)
{
    const int32_t width = args->current.width, height = args->current.height;
    const int32_t wave = (int32_t)gpu_wave();
    const int32_t strip_width = (wave - 2) * COLUMNS;
    const uint32_t n_strips = (uint32_t)((width + strip_width - 1) / strip_width);
    const uint32_t n_parts = n_strips * (uint32_t)((height + args->rows - 1) / args->rows);
    const uint32_t waves_per_block = VG_MOTION_BLOCK / (uint32_t)wave;
    const uint32_t e = gpu_bid(1);
    const VgDevicePlane earlier = args->earlier[e];
    uint64_t sum = 0;

    for (uint32_t part = gpu_bid(0) * waves_per_block + gpu_tid(0) / (uint32_t)wave; part < n_parts;
         part += gpu_grid(0) * waves_per_block) {
        const int32_t lane = (int32_t)gpu_lane();
        const int32_t x = (int32_t)(part % n_strips) * strip_width + (lane - 1) * COLUMNS;
        const int32_t first = (int32_t)(part / n_strips) * args->rows;
        const int32_t end = first + args->rows < height ? first + args->rows : height;
        sum += motion_strip(&earlier, &args->current, args->bit_depth, x, lane == 0 || lane == wave - 1, first, end,
                            bytes, whole);
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
            gpu_atomic_add64((uint64_t *)&state->sum[e], 0 - total);
        }
    }
}

/* Vectors fit, and the width is a multiple of eight. */
GPU_KERNEL_RESIDENT(motion_bytes, VgMotionArgs, VG_MOTION_BLOCK, 10)
{
    motion_grid(&args, 1, 1);
}

GPU_KERNEL_RESIDENT(motion_words, VgMotionArgs, VG_MOTION_BLOCK, 6)
{
    motion_grid(&args, 2, 1);
}

/* All other planes. */
GPU_KERNEL_RESIDENT(motion_any_bytes, VgMotionArgs, VG_MOTION_BLOCK, 7)
{
    motion_grid(&args, 1, 0);
}

GPU_KERNEL_RESIDENT(motion_any_words, VgMotionArgs, VG_MOTION_BLOCK, 6)
{
    motion_grid(&args, 2, 0);
}

#undef COLUMNS
