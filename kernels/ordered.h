/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Sums in order on the device (shared_math/ordered_sum.h), of doubles or of floats: sums of chunks, their exponents, their
 * runs, which may be joined in groups, and the fold, in this order. Between two steps all blocks must have come to an end of
 * the first.
 */
#ifndef VG_KERNELS_ORDERED_H
#define VG_KERNELS_ORDERED_H

#include "kernels/block.h"
#include "kernels/gpu.h"
#include "shared_math/ordered_sum.h"

typedef struct GpuOrdered {
    uint64_t terms;  /* double, or float where functions are told `floats`; then at a multiple of 16 */
    uint64_t second; /* floats only: another plane like it, which has the terms from number `away` on */
    int64_t away;
    uint64_t chunks; /* VgOrderedChunk [n_chunks] */
    int64_t n;       /* terms */
    uint32_t n_chunks;
} GpuOrdered;

/** For terms of which nothing is known. */
#define GPU_ORDERED_ANY ((int32_t)-0x7fffffff)

#define GPU_ORDERED_BATCH 8 /* terms that a lane loads at once */

GPU_FN GPU_GLOBAL VgOrderedChunk *gpu_ordered_chunk(const GpuOrdered *o, uint32_t c)
{
    return (GPU_GLOBAL VgOrderedChunk *)o->chunks + c;
}

GPU_FN double gpu_ordered_term(const GpuOrdered *o, int64_t i, const int floats)
{
    if (floats)
        return (double)((const GPU_GLOBAL float *)(i < o->away ? o->terms : o->second))[i];
    return ((const GPU_GLOBAL double *)o->terms)[i];
}

/* A batch of terms from number `first` on, a multiple of the batch; 0 beyond the end, which changes no sum. */
GPU_FN void gpu_ordered_load(const GpuOrdered *o, int64_t first, const int floats, double *x)
{
    const int64_t end = first + GPU_ORDERED_BATCH;

    if (floats && end <= o->n && (first >= o->away || end <= o->away)) {
        const uint64_t address = (first < o->away ? o->terms : o->second) + (uint64_t)first * sizeof(float);
        float v[GPU_ORDERED_BATCH];
        GPU_UNROLL
        for (int i = 0; i < GPU_ORDERED_BATCH; i += 4)
            gpu_read_floats(address + (uint64_t)i * sizeof(float), v + i);
        GPU_UNROLL
        for (int i = 0; i < GPU_ORDERED_BATCH; i++)
            x[i] = (double)v[i];
        return;
    }
    GPU_UNROLL
    for (int i = 0; i < GPU_ORDERED_BATCH; i++)
        x[i] = first + i < o->n ? gpu_ordered_term(o, first + i, floats) : 0;
}

/* Adds a batch's terms by sign. */
GPU_FN void gpu_ordered_add(const double *x, double *positive, double *negative)
{
    GPU_UNROLL
    for (int i = 0; i < GPU_ORDERED_BATCH; i++) {
        *positive += x[i] > 0 ? x[i] : 0;
        *negative += x[i] < 0 ? x[i] : 0;
    }
}

/** The terms' sums by sign, chunk by chunk: block `block` of n_blocks, a wave a chunk. */
GPU_FN void gpu_ordered_sums(const GpuOrdered *o, const int floats, uint32_t block, uint32_t n_blocks,
                             const uint32_t block_size)
{
    const uint32_t wave = gpu_wave(), waves = block_size / wave;

    GPU_ROLL
    for (uint32_t c = block * waves + gpu_tid(0) / wave; c < o->n_chunks; c += n_blocks * waves) {
        double positive = 0, negative = 0;
        GPU_UNROLL
        for (uint32_t i = 0; i < VG_ORDERED_CHUNK / GPU_ORDERED_BATCH; i += wave) {
            double x[GPU_ORDERED_BATCH];
            gpu_ordered_load(o, (int64_t)c * VG_ORDERED_CHUNK + (i + gpu_lane()) * GPU_ORDERED_BATCH, floats, x);
            gpu_ordered_add(x, &positive, &negative);
        }
        for (uint32_t by = wave / 2; by; by /= 2) {
            positive += vg_bits_double(gpu_shfl_down64(vg_double_bits(positive), by));
            negative += vg_bits_double(gpu_shfl_down64(vg_double_bits(negative), by));
        }
        if (gpu_lane() == 0) {
            gpu_ordered_chunk(o, c)->positive = positive;
            gpu_ordered_chunk(o, c)->negative = negative;
        }
    }
}

/* Sum of x over the lanes before this one. */
GPU_FN double gpu_ordered_before_lane(double x)
{
    double sum = x;

    GPU_ROLL
    for (uint32_t by = 1; by < gpu_wave(); by *= 2) {
        const double other = vg_bits_double(gpu_shfl_up64(vg_double_bits(sum), by));
        sum += gpu_lane() >= by ? other : 0;
    }
    const double before = vg_bits_double(gpu_shfl_up64(vg_double_bits(sum), 1));
    return gpu_lane() ? before : 0;
}

/* Sum of x over the threads before this one. `parts` is shared. */
GPU_FN double gpu_ordered_before(double x, double *parts)
{
    const uint32_t wave = gpu_wave(), own = gpu_tid(0) / wave;
    double before = gpu_ordered_before_lane(x);

    gpu_barrier(); /* the array may still be read by an earlier call */
    if (gpu_lane() == wave - 1)
        parts[own] = before + x;
    gpu_barrier();
    GPU_ROLL
    for (uint32_t w = own; w-- > 0;)
        before += parts[w];
    return before;
}

#define GPU_ORDERED_AHEAD 4 /* chunks whose sums are loaded at once */

/* Sums of chunks c and the next ones; 0 from `end` on. Negative ones are 0 if they are not `wanted`. */
GPU_FN void gpu_ordered_load_sums(const GpuOrdered *o, uint32_t c, uint32_t end, const int wanted, double *positive,
                                  double *negative)
{
    GPU_UNROLL
    for (uint32_t i = 0; i < GPU_ORDERED_AHEAD; i++) {
        positive[i] = c + i < end ? gpu_ordered_chunk(o, c + i)->positive : 0;
        negative[i] = wanted && c + i < end ? gpu_ordered_chunk(o, c + i)->negative : 0;
    }
}

/**
 * One block: which chunks are regular, from the sums before each. `exact`: see vg_ordered_exponent_from(), or
 * GPU_ORDERED_ANY.
 */
GPU_FN void gpu_ordered_exponents(const GpuOrdered *o, const int32_t exact, const uint32_t block_size)
{
    GPU_SHARED double starts[GPU_MAX_WAVES], magnitudes[GPU_MAX_WAVES];
    const uint32_t each = (o->n_chunks + block_size - 1) / block_size;
    const uint32_t first = gpu_tid(0) * each, end = first + each < o->n_chunks ? first + each : o->n_chunks;
    double positive[GPU_ORDERED_AHEAD], negative[GPU_ORDERED_AHEAD], start = 0, magnitude = 0;

    GPU_ROLL
    for (uint32_t c = first; c < end; c += GPU_ORDERED_AHEAD) {
        gpu_ordered_load_sums(o, c, end, exact == GPU_ORDERED_ANY, positive, negative);
        GPU_UNROLL
        for (uint32_t i = 0; i < GPU_ORDERED_AHEAD; i++) {
            start += positive[i] + negative[i];
            magnitude += positive[i] - negative[i];
        }
    }
    start = gpu_ordered_before(start, starts);
    magnitude = gpu_ordered_before(magnitude, magnitudes);
    GPU_ROLL
    for (uint32_t c = first; c < end; c += GPU_ORDERED_AHEAD) {
        gpu_ordered_load_sums(o, c, end, exact == GPU_ORDERED_ANY, positive, negative);
        GPU_UNROLL
        for (uint32_t i = 0; i < GPU_ORDERED_AHEAD; i++) {
            magnitude += positive[i] - negative[i];
            if (c + i < end)
                gpu_ordered_chunk(o, c + i)->exponent =
                    exact == GPU_ORDERED_ANY ? vg_ordered_exponent(start, positive[i], negative[i], magnitude)
                                             : vg_ordered_exponent_from(exact, start, positive[i], magnitude);
            start += positive[i] + negative[i];
        }
    }
}

/* Joins the lanes' runs in order; lane 0 has the result. */
GPU_FN VgOrderedPair gpu_ordered_join(VgOrderedPair run)
{
    GPU_ROLL
    for (uint32_t by = 1; by < gpu_wave(); by *= 2) {
        VgOrderedPair then;
        then.even = (int64_t)gpu_shfl_down64((uint64_t)run.even, by);
        then.odd = (int64_t)gpu_shfl_down64((uint64_t)run.odd, by);
        run = vg_ordered_join(run, then);
    }
    return run;
}

/* Appends a batch to a run. */
GPU_FN VgOrderedPair gpu_ordered_append(VgOrderedPair run, const double *x, double scale)
{
    GPU_UNROLL
    for (int i = 0; i < GPU_ORDERED_BATCH; i++)
        run = vg_ordered_append(run, x[i], scale);
    return run;
}

/* One wave: what a regular chunk adds; in lane 0. */
GPU_FN VgOrderedPair gpu_ordered_run(const GpuOrdered *o, const int floats, uint32_t c, int32_t exponent)
{
    const uint32_t each = VG_ORDERED_CHUNK / gpu_wave();
    const int64_t first = (int64_t)c * VG_ORDERED_CHUNK + gpu_lane() * each;
    const double scale = vg_ordered_scale(exponent);
    VgOrderedPair run = { 0, 0 };

    GPU_ROLL
    for (uint32_t i = 0; i < each; i += GPU_ORDERED_BATCH) {
        double x[GPU_ORDERED_BATCH];
        gpu_ordered_load(o, first + i, floats, x);
        run = gpu_ordered_append(run, x, scale);
    }
    return gpu_ordered_join(run);
}

GPU_FN void gpu_ordered_store(const GpuOrdered *o, uint32_t c, VgOrderedPair run)
{
    gpu_ordered_chunk(o, c)->run.even = run.even;
    gpu_ordered_chunk(o, c)->run.odd = run.odd;
}

/** What each regular chunk adds. */
GPU_FN void gpu_ordered_runs(const GpuOrdered *o, const int floats, uint32_t block, uint32_t n_blocks,
                             const uint32_t block_size)
{
    const uint32_t wave = gpu_wave(), waves = block_size / wave;

    GPU_ROLL
    for (uint32_t c = block * waves + gpu_tid(0) / wave; c < o->n_chunks; c += n_blocks * waves) {
        const int32_t exponent = gpu_ordered_chunk(o, c)->exponent;
        if (exponent == VG_ORDERED_IRREGULAR)
            continue;
        const VgOrderedPair run = gpu_ordered_run(o, floats, c, exponent);
        if (gpu_lane() == 0)
            gpu_ordered_store(o, c, run);
    }
}

/* What is known of a chunk, or of a group of them, when runs are folded. */
typedef struct GpuOrderedItem {
    int32_t exponent;
    VgOrderedPair run; /* 0 if irregular */
} GpuOrderedItem;

GPU_FN GpuOrderedItem gpu_ordered_item(const GpuOrdered *o, uint32_t c, int there)
{
    GpuOrderedItem item = { VG_ORDERED_IRREGULAR, { 0, 0 } };

    if (there)
        item.exponent = gpu_ordered_chunk(o, c)->exponent;
    if (there && item.exponent != VG_ORDERED_IRREGULAR) {
        item.run.even = gpu_ordered_chunk(o, c)->run.even;
        item.run.odd = gpu_ordered_chunk(o, c)->run.odd;
    }
    return item;
}

GPU_FN VgOrderedPair gpu_ordered_of_lane(VgOrderedPair run, uint32_t lane)
{
    VgOrderedPair other;
    other.even = (int64_t)gpu_shfl_idx64((uint64_t)run.even, lane);
    other.odd = (int64_t)gpu_shfl_idx64((uint64_t)run.odd, lane);
    return other;
}

/* One wave: the run of lanes `lane` to *end - 1, all those with the same exponent as that lane, which is regular. */
GPU_FN VgOrderedPair gpu_ordered_segment(const GpuOrderedItem *item, uint32_t lane, uint32_t *end)
{
    const int32_t own = (int32_t)gpu_shfl_idx32((uint32_t)item->exponent, lane);
    const uint64_t others = gpu_ballot(item->exponent != own) >> lane << lane;
    VgOrderedPair run = { 0, 0 };

    *end = others ? gpu_first_lane(others) : gpu_wave();
    if (gpu_lane() >= lane && gpu_lane() < *end)
        run = item->run;
    return gpu_ordered_of_lane(gpu_ordered_join(run), 0);
}

/* One wave: adds an irregular chunk, whose lanes' batches are like chunks: most of them are regular. */
GPU_FN double gpu_ordered_serial(const GpuOrdered *o, const int floats, int64_t start, double total)
{
    const int64_t end = start + VG_ORDERED_CHUNK < o->n ? start + VG_ORDERED_CHUNK : o->n;

    GPU_ROLL
    for (int64_t at = start; at < end; at += gpu_wave() * GPU_ORDERED_BATCH) {
        double x[GPU_ORDERED_BATCH], positive = 0, negative = 0;
        GpuOrderedItem item = { VG_ORDERED_IRREGULAR, { 0, 0 } };

        gpu_ordered_load(o, at + gpu_lane() * GPU_ORDERED_BATCH, floats, x);
        gpu_ordered_add(x, &positive, &negative);
        const double before = gpu_ordered_before_lane(positive + negative);
        const double magnitude = gpu_ordered_before_lane(positive - negative) + (positive - negative);
        item.exponent =
            vg_ordered_exponent(total + before, positive, negative, (total < 0 ? -total : total) + magnitude);
        if (item.exponent != VG_ORDERED_IRREGULAR)
            item.run = gpu_ordered_append(item.run, x, vg_ordered_scale(item.exponent));
        GPU_ROLL
        for (uint32_t lane = 0, next; lane < gpu_wave(); lane = next) {
            const int32_t exponent = (int32_t)gpu_shfl_idx32((uint32_t)item.exponent, lane);
            next = lane + 1;
            if (exponent != VG_ORDERED_IRREGULAR) {
                total = vg_ordered_apply(total, gpu_ordered_segment(&item, lane, &next), exponent);
                continue;
            }
            GPU_UNROLL
            for (int i = 0; i < GPU_ORDERED_BATCH; i++)
                total += vg_bits_double(gpu_shfl_idx64(vg_double_bits(x[i]), lane));
        }
    }
    return total;
}

/* One wave: the run of as many chunks as it has lanes, `stride` apart, takes the place of the first one's if all are
   regular in one binade. `level` is what `joined` is then. */
GPU_FN void gpu_ordered_group(const GpuOrdered *o, uint32_t first, uint32_t stride, int32_t level)
{
    const uint32_t c = first + gpu_lane() * stride;
    const int inside = c < o->n_chunks;
    const GpuOrderedItem item =
        gpu_ordered_item(o, c, inside && (level == 1 || gpu_ordered_chunk(o, c)->joined == level - 1));
    const int32_t common = (int32_t)gpu_shfl_idx32((uint32_t)item.exponent, 0);
    const int joined = common != VG_ORDERED_IRREGULAR && gpu_ballot(inside && item.exponent != common) == 0;
    const VgOrderedPair run = gpu_ordered_join(item.run);

    if (gpu_lane() == 0 && (joined || level == 1))
        gpu_ordered_chunk(o, c)->joined = joined ? level : 0;
    if (gpu_lane() == 0 && joined)
        gpu_ordered_store(o, c, run);
}

/** As gpu_ordered_runs(), and joins groups of as many chunks as a wave has lanes. */
GPU_FN void gpu_ordered_grouped_runs(const GpuOrdered *o, const int floats, uint32_t block, uint32_t n_blocks,
                                     const uint32_t block_size)
{
    const uint32_t wave = gpu_wave();

    GPU_ROLL
    for (uint32_t first = block * wave; first < o->n_chunks; first += n_blocks * wave) {
        const uint32_t rest = o->n_chunks - first;
        GPU_ROLL
        for (uint32_t i = gpu_tid(0) / wave; i < wave && i < rest; i += block_size / wave) {
            const int32_t exponent = gpu_ordered_chunk(o, first + i)->exponent;
            if (exponent == VG_ORDERED_IRREGULAR)
                continue;
            const VgOrderedPair run = gpu_ordered_run(o, floats, first + i, exponent);
            if (gpu_lane() == 0)
                gpu_ordered_store(o, first + i, run);
        }
        gpu_barrier();
        if (gpu_tid(0) < wave)
            gpu_ordered_group(o, first, 1, 1);
    }
}

/** One block, after all grouped runs: joins groups of as many groups. */
GPU_FN void gpu_ordered_groups(const GpuOrdered *o, const uint32_t block_size)
{
    const uint32_t wave = gpu_wave();

    GPU_ROLL
    for (uint32_t first = gpu_tid(0) / wave * wave * wave; first < o->n_chunks; first += block_size * wave)
        gpu_ordered_group(o, first, wave, 2);
}

/**
 * One wave: the serial sum. With `grouped`, after gpu_ordered_groups(): goes on by the largest groups that are joined, a
 * wave of them at once where they are of one binade.
 */
GPU_FN double gpu_ordered_fold(const GpuOrdered *o, const int floats, const int grouped)
{
    const uint32_t wave = gpu_wave();
    double total = 0;
    uint32_t c = 0, n;

    GPU_ROLL
    while (c < o->n_chunks) {
        const int32_t level = grouped && c % wave == 0 ? gpu_ordered_chunk(o, c)->joined : 0;
        const uint32_t stride = level == 2 ? wave * wave : level == 1 ? wave : 1, own = c + gpu_lane() * stride;
        int there = own < o->n_chunks;
        if (grouped && there && own % wave == 0)
            there = gpu_ordered_chunk(o, own)->joined == level;
        const GpuOrderedItem item = gpu_ordered_item(o, own, there);
        const int32_t exponent = (int32_t)gpu_shfl_idx32((uint32_t)item.exponent, 0);
        n = 1;
        total = exponent == VG_ORDERED_IRREGULAR ? gpu_ordered_serial(o, floats, (int64_t)c * VG_ORDERED_CHUNK, total)
                                                 : vg_ordered_apply(total, gpu_ordered_segment(&item, 0, &n), exponent);
        c += n * stride;
    }
    return total;
}

#endif
