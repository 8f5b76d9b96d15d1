/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * float_ssim on the device. Definition: docs/numerics.md, float_ssim.
 *
 * Launches: decimation (factor above 1), which reads both pictures once and writes two small float planes; windows, which
 * keep everything between the planes and the terms in shared memory and registers; and, for planes of very many windows,
 * two kernels for sums that must be made in order, which leave at once when there is nothing to do.
 *
 * The frame's sums are made in a tree of fixed shape. vg_float_ssim_proven() tells whether the serial sum of the
 * definition must have the same mean in binary32; if not, shared_math/ordered_sum.h makes the serial sum from the terms.
 */
#include "kernels/block.h"
#include "kernels/float_ssim_args.h"
#include "kernels/gpu.h"
#include "kernels/ordered.h"
#include "kernels/samples.h"

#define BLOCK   VG_FLOAT_SSIM_BLOCK
#define TAPS    VG_FLOAT_SSIM_TAPS
#define COLUMNS VG_FLOAT_SSIM_TILE_COLUMNS
#define PITCH   VG_FLOAT_SSIM_TILE_PITCH
#define FPITCH  VG_FLOAT_SSIM_FILTERED_PITCH

/* ---- Decimation --------------------------------------------------------------------------------------------------- */

/* A block's outputs first_x .. end_x - 1 of row y, and the source columns that they need. */
typedef struct Strip {
    VgDevicePlane plane;
    int32_t first_x, end_x;
    int32_t first_column, end_column; /* the first one is a multiple of 16 */
    int32_t top;                      /* first row, before mirroring */
} Strip;

GPU_FN Strip strip_of_block(const VgFloatSsimArgs *args)
{
    const int32_t factor = args->params.factor;
    Strip s;

    s.plane = args->planes[gpu_bid(2)];
    s.first_x = (int32_t)gpu_bid(0) * args->outputs_per_block;
    s.end_x = s.first_x + args->outputs_per_block;
    s.end_x = s.end_x < args->params.out_width ? s.end_x : args->params.out_width;
    s.top = vg_float_ssim_window((int32_t)gpu_bid(1), factor);
    /* Columns mirrored at the right edge lie up to a factor before the first window's. */
    s.first_column = vg_float_ssim_window(s.first_x, factor) - factor;
    s.first_column = s.first_column > 0 ? s.first_column & ~15 : 0;
    s.end_column = vg_float_ssim_window(s.end_x, factor);
    s.end_column = s.end_column < s.plane.width ? s.end_column : s.plane.width;
    return s;
}

GPU_FN uint64_t strip_row(const Strip *s, int32_t j)
{
    return gpu_row(&s->plane, vg_float_ssim_mirror(s->top + j, s->plane.height));
}

/*
 * Place of column c of a window in the block's array of sums of `granule` columns. Mirrored columns come in mirrored
 * groups, which begin at the column that is mirrored last.
 */
GPU_FN int32_t strip_index(const Strip *s, int32_t c, int32_t granule)
{
    const int outside = c < 0 || c >= s->plane.width;
    const int32_t first = vg_float_ssim_mirror(c, s->plane.width) - (outside ? granule - 1 : 0);
    return (first - s->first_column) / granule;
}

GPU_FN void store_output(const VgFloatSsimArgs *args, int32_t x, float value)
{
    GPU_GLOBAL float *const out = (GPU_GLOBAL float *)args->decimated[gpu_bid(2)];
    out[(int64_t)gpu_bid(1) * args->params.out_width + x] = value;
}

/* Adds n rows of 16 bytes to sums of groups of columns. */
GPU_FN void add_byte_rows(const Strip *s, int32_t j, int32_t x, uint32_t *sums, const int n, const int granule)
{
    GpuWords rows[8];

    GPU_UNROLL
    for (int r = 0; r < n; r++)
        rows[r] = gpu_load128(strip_row(s, j + r) + (uint64_t)x);
    GPU_UNROLL
    for (int r = 0; r < n; r++)
        GPU_UNROLL
    for (int i = 0; i < 16 / granule; i++) {
        const uint32_t ones = (granule == 4 ? 0x01010101u : granule == 2 ? 0x0101u : 1u) << (i * granule % 4 * 8);
        sums[i] = gpu_dp4a(rows[r].w[i * granule / 4], ones, sums[i]);
    }
}

/* Planes of bytes, powers of two: sums of samples; groups of columns that no window divides are summed from the start. */
GPU_FN void decimate_bytes(const VgFloatSsimArgs *args, const int granule)
{
    uint32_t *const shared = (uint32_t *)gpu_dynamic_shared();
    const Strip s = strip_of_block(args);
    const int32_t factor = args->params.factor;
    const int32_t x = s.first_column + 16 * (int32_t)gpu_tid(0);
    const float unit = args->unit;
    uint32_t sums[16];

    GPU_UNROLL
    for (int i = 0; i < 16 / granule; i++)
        sums[i] = 0;
    if (x + 16 <= s.plane.width && x < s.end_column) {
        int32_t j = 0;
        if (granule == 4) /* few sums: there are registers for more rows */
            for (; j + 8 <= factor; j += 8)
                add_byte_rows(&s, j, x, sums, 8, granule);
        for (; j + 4 <= factor; j += 4)
            add_byte_rows(&s, j, x, sums, 4, granule);
        for (; j < factor; j++)
            add_byte_rows(&s, j, x, sums, 1, granule);
    } else if (x < s.end_column) {
        for (int32_t j = 0; j < factor; j++) {
            const uint64_t row = strip_row(&s, j);
            GPU_UNROLL
            for (int i = 0; i < 16; i++)
                if (x + i < s.plane.width)
                    sums[i / granule] += gpu_load8(row + (uint64_t)(x + i));
        }
    }
    GPU_UNROLL
    for (int i = 0; i < 16 / granule; i++)
        shared[gpu_tid(0) * (16 / granule) + (uint32_t)i] = sums[i];
    gpu_barrier();

    for (int32_t out = s.first_x + (int32_t)gpu_tid(0); out < s.end_x; out += BLOCK) {
        const int32_t left = vg_float_ssim_window(out, factor);
        uint32_t sum = 0;
        for (int32_t i = 0; i < factor; i += granule)
            sum += shared[strip_index(&s, left + i, granule)];
        store_output(args, out, vg_float_ssim_decimated_samples((int32_t)sum, unit, args->params.tap));
    }
}

/* Groups of four columns, as most pictures allow: a kernel of its own, with fewer registers. */
GPU_KERNEL_RESIDENT(float_ssim_decimate_groups, VgFloatSsimArgs, VG_FLOAT_SSIM_BLOCK, 5)
{
    decimate_bytes(&args, 4);
}

GPU_KERNEL_RESIDENT(float_ssim_decimate_bytes, VgFloatSsimArgs, VG_FLOAT_SSIM_BLOCK, 4)
{
    if (args.granule == 2)
        decimate_bytes(&args, 2);
    else
        decimate_bytes(&args, 1);
}

/* Eight samples of a row as words; samples beyond the row's end are 0. */
GPU_FN GpuWords eight_samples(const VgDevicePlane *plane, uint64_t row, int32_t x, const int bytes)
{
    uint64_t half[2] = { 0, 0 };

    if (plane->vector && x + 8 <= plane->width)
        return bytes == 1 ? gpu_load64(row + (uint64_t)x) : gpu_load128(row + 2 * (uint64_t)x);
    GPU_ROLL
    for (int i = 0; i < 8; i++) {
        const uint64_t word = x + i < plane->width ? gpu_row_word(plane, row, x + i) : 0;
        half[0] |= bytes == 1 || i < 4 ? word << (i * 8 * bytes & 63) : 0;
        half[1] |= bytes == 2 && i >= 4 ? word << (i * 16 & 63) : 0;
    }
    const GpuWords words = { { (uint32_t)half[0], (uint32_t)(half[0] >> 32), (uint32_t)half[1],
                               (uint32_t)(half[1] >> 32) } };
    return words;
}

/* Adds n rows of eight samples to sums of columns: of samples, or of products in units. */
GPU_FN void add_sample_rows(const VgFloatSsimArgs *args, const Strip *s, int32_t j, int32_t x, int64_t *sums,
                            const int n, const int bytes, const int units)
{
    const float unit = args->unit, tap = args->params.tap;
    GpuWords rows[4];

    GPU_UNROLL
    for (int r = 0; r < n; r++)
        rows[r] = eight_samples(&s->plane, strip_row(s, j + r), x, bytes);
    GPU_UNROLL
    for (int r = 0; r < n; r++)
        GPU_UNROLL
    for (int i = 0; i < 8; i++) {
        const uint32_t word = rows[r].w[i * bytes / 4] >> (i * bytes % 4 * 8) & (bytes == 1 ? 0xff : 0xffff);
        const int32_t sample = (int32_t)(word >> s->plane.shift);
        if (units)
            sums[i] += vg_float_ssim_product_units(sample, unit, tap);
        else
            sums[i] = (int64_t)((uint32_t)sums[i] + (uint32_t)sample);
    }
}

GPU_FN void sum_columns(const VgFloatSsimArgs *args, const Strip *s, int32_t x, int64_t *sums, const int bytes,
                        const int units)
{
    int32_t j = 0;
    for (; j + 4 <= args->params.factor; j += 4)
        add_sample_rows(args, s, j, x, sums, 4, bytes, units);
    for (; j < args->params.factor; j++)
        add_sample_rows(args, s, j, x, sums, 1, bytes, units);
}

/* Planes of any layout, one sum a column. */
GPU_FN void decimate_samples(const VgFloatSsimArgs *args, const int units)
{
    uint32_t *const shared = (uint32_t *)gpu_dynamic_shared();
    int64_t *const shared_units = (int64_t *)gpu_dynamic_shared();
    const Strip s = strip_of_block(args);
    const int32_t x = s.first_column + 8 * (int32_t)gpu_tid(0);
    const float unit = args->unit;
    int64_t sums[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };

    if (x < s.end_column) {
        if (s.plane.sample_bytes == 1)
            sum_columns(args, &s, x, sums, 1, units);
        else
            sum_columns(args, &s, x, sums, 2, units);
    }
    GPU_UNROLL
    for (int i = 0; i < 8; i++) {
        if (units)
            shared_units[gpu_tid(0) * 8 + (uint32_t)i] = sums[i];
        else
            shared[gpu_tid(0) * 8 + (uint32_t)i] = (uint32_t)sums[i];
    }
    gpu_barrier();

    for (int32_t out = s.first_x + (int32_t)gpu_tid(0); out < s.end_x; out += BLOCK) {
        const int32_t left = vg_float_ssim_window(out, args->params.factor);
        int64_t sum = 0;
        for (int32_t i = 0; i < args->params.factor; i++) {
            const int32_t index = strip_index(&s, left + i, 1);
            sum += units ? shared_units[index] : (int64_t)shared[index];
        }
        store_output(args, out,
                     units ? vg_float_ssim_decimated_units(sum)
                           : vg_float_ssim_decimated_samples((int32_t)sum, unit, args->params.tap));
    }
}

GPU_KERNEL_RESIDENT(float_ssim_decimate_samples, VgFloatSsimArgs, VG_FLOAT_SSIM_BLOCK, 4)
{
    decimate_samples(&args, 0);
}

GPU_KERNEL_RESIDENT(float_ssim_decimate_products, VgFloatSsimArgs, VG_FLOAT_SSIM_BLOCK, 4)
{
    decimate_samples(&args, 1);
}

/* ---- Sums in order ------------------------------------------------------------------------------------------------ */

GPU_FN GPU_GLOBAL double *terms_of(const VgFloatSsimArgs *args, int sum)
{
    return (GPU_GLOBAL double *)args->terms + sum * args->windows;
}

GPU_FN GpuOrdered ordered_of(const VgFloatSsimArgs *args, int sum)
{
    GpuOrdered o;
    o.terms = args->terms + (uint64_t)(sum * args->windows) * sizeof(double);
    o.second = 0;
    o.away = 0;
    o.chunks = args->chunks + (uint64_t)sum * args->n_chunks * sizeof(VgOrderedChunk);
    o.n = args->windows;
    o.n_chunks = args->n_chunks;
    return o;
}

GPU_FN void ordered_sums(const VgFloatSsimArgs *args, int sum, uint32_t block, uint32_t n_blocks)
{
    const GpuOrdered o = ordered_of(args, sum);
    gpu_ordered_sums(&o, 0, block, n_blocks, BLOCK);
}

GPU_FN void ordered_exponents(const VgFloatSsimArgs *args, int sum)
{
    const GpuOrdered o = ordered_of(args, sum);
    gpu_ordered_exponents(&o, GPU_ORDERED_ANY, BLOCK);
}

GPU_FN void ordered_runs(const VgFloatSsimArgs *args, int sum, uint32_t block, uint32_t n_blocks)
{
    const GpuOrdered o = ordered_of(args, sum);
    gpu_ordered_runs(&o, 0, block, n_blocks, BLOCK);
}

GPU_FN void store_mean(const VgFloatSsimArgs *args, int sum, float mean)
{
    ((GPU_GLOBAL float *)args->record)[sum] = mean;
}

/* One block: folds every sum that is asked for. */
GPU_FN void ordered_finish(const VgFloatSsimArgs *args, uint32_t undecided)
{
    if (gpu_tid(0) >= gpu_wave())
        return;
    GPU_ROLL
    for (int sum = 0; sum < 4; sum++)
        if (undecided >> sum & 1) {
            const GpuOrdered o = ordered_of(args, sum);
            const double total = gpu_ordered_fold(&o, 0, 0);
            if (gpu_tid(0) == 0)
                store_mean(args, sum, vg_float_ssim_mean(total, args->params.out_width, args->params.out_height));
        }
}

GPU_KERNEL(float_ssim_chunks, VgFloatSsimArgs, VG_FLOAT_SSIM_BLOCK)
{
    GPU_GLOBAL VgFloatSsimState *const state = (GPU_GLOBAL VgFloatSsimState *)args.state;
    const uint32_t undecided = state->undecided;

    if (!undecided)
        return;
    GPU_ROLL
    for (int sum = 0; sum < 4; sum++)
        if (undecided >> sum & 1)
            ordered_sums(&args, sum, gpu_bid(0), gpu_grid(0));
    if (!gpu_last_block(args.state + offsetof(VgFloatSsimState, chunk_blocks), gpu_grid(0)))
        return;
    GPU_ROLL
    for (int sum = 0; sum < 4; sum++)
        if (undecided >> sum & 1)
            ordered_exponents(&args, sum);
}

GPU_KERNEL(float_ssim_ordered, VgFloatSsimArgs, VG_FLOAT_SSIM_BLOCK)
{
    GPU_GLOBAL VgFloatSsimState *const state = (GPU_GLOBAL VgFloatSsimState *)args.state;
    const uint32_t undecided = state->undecided;

    if (!undecided)
        return;
    GPU_ROLL
    for (int sum = 0; sum < 4; sum++)
        if (undecided >> sum & 1)
            ordered_runs(&args, sum, gpu_bid(0), gpu_grid(0));
    if (gpu_last_block(args.state + offsetof(VgFloatSsimState, ordered_blocks), gpu_grid(0)))
        ordered_finish(&args, undecided);
}

/* ---- Windows ------------------------------------------------------------------------------------------------------ */

/* n neighbouring outputs of a Gaussian pass, from n + 10 inputs. Taps are added in order. */
GPU_FN void filter(const float *x, float *out, const int n)
{
    const float taps[TAPS] = VG_FLOAT_SSIM_GAUSS;
    double sums[8];

    GPU_UNROLL
    for (int i = 0; i < n; i++)
        sums[i] = VG_FLOAT_SSIM_SUM_START;
    GPU_UNROLL
    for (int i = 0; i < n + TAPS - 1; i++)
        GPU_UNROLL
    for (int k = 0; k < TAPS; k++)
        if (i - k >= 0 && i - k < n)
            sums[i - k] = vg_float_ssim_add_tap_moved(sums[i - k], x[i], taps[k]);
    GPU_UNROLL
    for (int i = 0; i < n; i++)
        out[i] = (float)sums[i];
}

/* Samples of reference and distorted under the tile, 0 outside the planes. */
GPU_FN void load_tile(const VgFloatSsimArgs *args, int32_t left, int32_t top, float *tile, const int rows,
                      const int decimated)
{
    const int32_t width = args->params.out_width, height = args->params.out_height;
    const float unit = args->unit;
    const int32_t n_columns = COLUMNS + TAPS - 1;

    for (int32_t i = (int32_t)gpu_tid(0); i < (rows + TAPS - 1) * n_columns; i += BLOCK) {
        const int32_t r = i / n_columns, c = i % n_columns, x = left + c, y = top + r;
        const int inside = x < width && y < height;
        GPU_UNROLL
        for (int p = 0; p < 2; p++) {
            float value = 0;
            if (inside && decimated)
                value = gpu_loadf(args->decimated[p] + ((uint64_t)y * (uint64_t)width + (uint64_t)x) * sizeof(float));
            else if (inside)
                value = (float)gpu_row_sample(&args->planes[p], gpu_row(&args->planes[p], y), x) * unit;
            tile[(p * (rows + TAPS - 1) + r) * PITCH + c] = value;
        }
    }
}

/* The horizontal pass over R, T, R R, T T, R T: n neighbouring outputs of one plane and row at a time. */
GPU_FN void filter_rows(const float *tile, float *filtered, const int rows, const int n)
{
    const int32_t n_rows = rows + TAPS - 1, per_row = COLUMNS / n;

    for (int32_t i = (int32_t)gpu_tid(0); i < 5 * n_rows * per_row; i += BLOCK) {
        const int32_t plane = i / (n_rows * per_row), row = i / per_row % n_rows, column = i % per_row * n;
        const float *const ref = tile + row * PITCH + column, *const dist = ref + n_rows * PITCH;
        const float *const a = plane == 1 || plane == 3 ? dist : ref, *const b = plane == 2 ? ref : dist;
        float x[8 + TAPS - 1], out[8];

        GPU_UNROLL
        for (int k = 0; k < n + TAPS - 1; k++)
            x[k] = plane < 2 ? a[k] : a[k] * b[k];
        filter(x, out, n);
        GPU_UNROLL
        for (int k = 0; k < n; k++)
            filtered[(plane * n_rows + row) * FPITCH + column + k] = out[k];
    }
}

/* A thread's sums over its windows. */
typedef struct WindowSums {
    double of[VG_FLOAT_SSIM_SUMS];
} WindowSums;

/* The vertical pass and the factors: n windows of one column. */
GPU_FN void filter_column(const VgFloatSsimArgs *args, int32_t left, int32_t top, const float *filtered,
                          WindowSums *sums, const int rows, const int n, const int lcs)
{
    const int32_t n_rows = rows + TAPS - 1;
    const int32_t column = (int32_t)gpu_tid(0) % COLUMNS, row = (int32_t)gpu_tid(0) / COLUMNS * n;
    const int32_t width = args->params.out_width - TAPS + 1, height = args->params.out_height - TAPS + 1;
    float g[5][8];

    GPU_UNROLL
    for (int p = 0; p < 5; p++) {
        float x[8 + TAPS - 1];
        GPU_UNROLL
        for (int k = 0; k < n + TAPS - 1; k++)
            x[k] = filtered[(p * n_rows + row + k) * FPITCH + column];
        filter(x, g[p], n);
    }
    GPU_UNROLL
    for (int k = 0; k < n; k++) {
        /* Windows outside are computed like the others, on zeros: without branches they go on at once. */
        const int32_t x = left + column, y = top + row + k;
        const int inside = x < width && y < height;
        const VgFloatSsimFactors f =
            vg_float_ssim_factors(vg_float_ssim_stats(g[0][k], g[1][k], g[2][k], g[3][k], g[4][k]));
        const double term = vg_float_ssim_term(f);
        const int64_t at = (int64_t)y * width + x;

        sums->of[VG_FLOAT_SSIM_SUM_TERM] += inside ? term : 0;
        sums->of[VG_FLOAT_SSIM_MAGNITUDE_TERM] += !inside ? 0 : term < 0 ? -term : term;
        if (inside)
            terms_of(args, VG_FLOAT_SSIM_SUM_TERM)[at] = term;
        if (lcs) {
            sums->of[VG_FLOAT_SSIM_SUM_L] += inside ? f.l : 0;
            sums->of[VG_FLOAT_SSIM_SUM_C] += inside ? f.c : 0;
            sums->of[VG_FLOAT_SSIM_SUM_S] += inside ? f.s : 0;
            sums->of[VG_FLOAT_SSIM_MAGNITUDE_S] += !inside ? 0 : f.s < 0 ? -f.s : f.s;
            if (inside) {
                terms_of(args, VG_FLOAT_SSIM_SUM_L)[at] = f.l;
                terms_of(args, VG_FLOAT_SSIM_SUM_C)[at] = f.c;
                terms_of(args, VG_FLOAT_SSIM_SUM_S)[at] = f.s;
            }
        }
    }
}

/* The sums that are wanted, as bits. */
GPU_FN uint32_t wanted_sums(const int lcs)
{
    return lcs ? (1u << VG_FLOAT_SSIM_SUMS) - 1 : 1u << VG_FLOAT_SSIM_SUM_TERM | 1u << VG_FLOAT_SSIM_MAGNITUDE_TERM;
}

/* Thread i < 4: stores mean i if it is certain; gives the uncertain ones as bits, to the first wave. */
GPU_FN uint32_t store_proven(const VgFloatSsimArgs *args, const double *sums, const int lcs)
{
    const uint32_t i = gpu_tid(0);
    int undecided = 0;

    if (i < 4) {
        const double magnitude = i == VG_FLOAT_SSIM_SUM_TERM ? sums[VG_FLOAT_SSIM_MAGNITUDE_TERM]
                                 : i == VG_FLOAT_SSIM_SUM_S  ? sums[VG_FLOAT_SSIM_MAGNITUDE_S]
                                                             : sums[i]; /* luminance and contrast are positive */
        float mean = 0;
        undecided = (wanted_sums(lcs) >> i & 1) &&
                    !vg_float_ssim_proven(sums[i], magnitude, args->guard, args->params.out_width,
                                          args->params.out_height, &mean);
        store_mean(args, (int)i, mean);
    }
    return (uint32_t)gpu_ballot(undecided);
}

/* The last block: sums of blocks' sums, the record, and what of it is not certain. */
GPU_FN void finish_windows(const VgFloatSsimArgs *args, uint32_t n_blocks, const int lcs)
{
    GPU_SHARED uint32_t undecided_bits;
    GPU_SHARED double totals[VG_FLOAT_SSIM_SUMS];
    const uint32_t wanted = wanted_sums(lcs), n_waves = BLOCK / gpu_wave();
    double sums[VG_FLOAT_SSIM_SUMS] = { 0, 0, 0, 0, 0, 0 };

    GPU_UNROLL
    for (int i = 0; i < VG_FLOAT_SSIM_SUMS; i++) {
        const GPU_GLOBAL double *const partials = (GPU_GLOBAL double *)args->partials + (int64_t)i * n_blocks;
        if (!(wanted >> i & 1))
            continue;
        GPU_ROLL
        for (uint32_t b = gpu_tid(0); b < n_blocks; b += 8 * BLOCK) {
            double some[8]; /* loaded at once */
            GPU_UNROLL
            for (uint32_t k = 0; k < 8; k++)
                some[k] = b + k * BLOCK < n_blocks ? partials[b + k * BLOCK] : 0;
            GPU_UNROLL
            for (uint32_t k = 0; k < 8; k++)
                sums[i] += some[k];
        }
    }
    gpu_block_sumds(sums, VG_FLOAT_SSIM_SUMS, wanted, BLOCK);
    GPU_UNROLL
    for (int i = 0; i < VG_FLOAT_SSIM_SUMS; i++)
        if (gpu_tid(0) == (uint32_t)i % n_waves * gpu_wave())
            totals[i] = sums[i];
    gpu_barrier();
    if (gpu_tid(0) < gpu_wave()) {
        const uint32_t bits = store_proven(args, totals, lcs);
        if (gpu_tid(0) == 0) {
            ((GPU_GLOBAL VgFloatSsimState *)args->state)->undecided = bits;
            undecided_bits = bits;
        }
    }
    gpu_barrier();
    const uint32_t undecided = undecided_bits;
    if (!undecided || args->spread)
        return;
    GPU_ROLL
    for (int sum = 0; sum < 4; sum++)
        if (undecided >> sum & 1)
            ordered_sums(args, sum, 0, 1);
    gpu_barrier();
    GPU_ROLL
    for (int sum = 0; sum < 4; sum++)
        if (undecided >> sum & 1)
            ordered_exponents(args, sum);
    gpu_barrier();
    GPU_ROLL
    for (int sum = 0; sum < 4; sum++)
        if (undecided >> sum & 1)
            ordered_runs(args, sum, 0, 1);
    gpu_barrier();
    ordered_finish(args, undecided);
}

GPU_FN void windows(const VgFloatSsimArgs *args, const int rows, const int decimated, const int n_horizontal,
                    const int n_vertical, const int lcs)
{
    const int32_t left = (int32_t)gpu_bid(0) * COLUMNS, top = (int32_t)gpu_bid(1) * rows;
    const uint32_t n_blocks = gpu_grid(0) * gpu_grid(1), block = gpu_bid(1) * gpu_grid(0) + gpu_bid(0);
    float *const tile = (float *)gpu_dynamic_shared();
    float *const filtered = tile + 2 * (rows + TAPS - 1) * PITCH;
    WindowSums sums = { { 0, 0, 0, 0, 0, 0 } };

    load_tile(args, left, top, tile, rows, decimated);
    gpu_barrier();
    filter_rows(tile, filtered, rows, n_horizontal);
    gpu_barrier();
    if (gpu_tid(0) < (uint32_t)(COLUMNS * rows / n_vertical))
        filter_column(args, left, top, filtered, &sums, rows, n_vertical, lcs);
    gpu_block_sumds(sums.of, VG_FLOAT_SSIM_SUMS, wanted_sums(lcs), BLOCK);
    GPU_UNROLL
    for (int i = 0; i < VG_FLOAT_SSIM_SUMS; i++)
        if ((wanted_sums(lcs) >> i & 1) && gpu_tid(0) == (uint32_t)i % (BLOCK / gpu_wave()) * gpu_wave())
            ((GPU_GLOBAL double *)args->partials)[(int64_t)i * n_blocks + block] = sums.of[i];
    if (gpu_last_block(args->state + offsetof(VgFloatSsimState, window_blocks), n_blocks))
        finish_windows(args, n_blocks, lcs);
}

GPU_KERNEL_RESIDENT(float_ssim_windows_decimated, VgFloatSsimArgs, VG_FLOAT_SSIM_BLOCK, 4)
{
    windows(&args, VG_FLOAT_SSIM_TILE_ROWS_DECIMATED, 1, 8, 2, 0);
}

GPU_KERNEL_RESIDENT(float_ssim_windows_picture, VgFloatSsimArgs, VG_FLOAT_SSIM_BLOCK, 4)
{
    windows(&args, VG_FLOAT_SSIM_TILE_ROWS_PICTURE, 0, 8, 4, 0);
}

/* The same with the means of luminance, contrast and structure. */
GPU_KERNEL_RESIDENT(float_ssim_windows_decimated_lcs, VgFloatSsimArgs, VG_FLOAT_SSIM_BLOCK, 4)
{
    windows(&args, VG_FLOAT_SSIM_TILE_ROWS_DECIMATED, 1, 8, 2, 1);
}

GPU_KERNEL_RESIDENT(float_ssim_windows_picture_lcs, VgFloatSsimArgs, VG_FLOAT_SSIM_BLOCK, 4)
{
    windows(&args, VG_FLOAT_SSIM_TILE_ROWS_PICTURE, 0, 8, 4, 1);
}

#undef BLOCK
#undef TAPS
#undef COLUMNS
#undef PITCH
#undef FPITCH
