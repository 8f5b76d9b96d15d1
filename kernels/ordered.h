/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Sums in order on the device (shared_math/ordered_sum.h), of doubles or of floats: sums of chunks, their exponents, their
 * runs, and the fold, in this order. Between two steps all blocks must have come to an end of the first.
 */
#ifndef VG_KERNELS_ORDERED_H
#define VG_KERNELS_ORDERED_H

#include "kernels/block.h"
#include "kernels/gpu.h"
#include "shared_math/ordered_sum.h"

typedef struct GpuOrdered {
    uint64_t terms;  /* double, or float where functions are told `floats` */
    uint64_t chunks; /* VgOrderedChunk [n_chunks] */
    int64_t n;       /* terms */
    uint32_t n_chunks;
} GpuOrdered;

/** For terms of which nothing is known. */
#define GPU_ORDERED_ANY ((int32_t)-0x7fffffff)

GPU_FN GPU_GLOBAL VgOrderedChunk *gpu_ordered_chunk(const GpuOrdered *o, uint32_t c)
{
    return (GPU_GLOBAL VgOrderedChunk *)o->chunks + c;
}

GPU_FN double gpu_ordered_term(const GpuOrdered *o, int64_t i, const int floats)
{
    if (floats)
        return (double)((const GPU_GLOBAL float *)o->terms)[i];
    return ((const GPU_GLOBAL double *)o->terms)[i];
}

/** The terms' sums by sign, chunk by chunk: block `block` of n_blocks, a wave a chunk. */
GPU_FN void gpu_ordered_sums(const GpuOrdered *o, const int floats, uint32_t block, uint32_t n_blocks,
                             const uint32_t block_size)
{
    const uint32_t wave = gpu_wave(), waves = block_size / wave;

    GPU_ROLL
    for (uint32_t c = block * waves + gpu_tid(0) / wave; c < o->n_chunks; c += n_blocks * waves) {
        const int64_t first = (int64_t)c * VG_ORDERED_CHUNK;
        double positive = 0, negative = 0;
        for (uint32_t i = gpu_lane(); i < VG_ORDERED_CHUNK; i += wave) {
            const double term = first + i < o->n ? gpu_ordered_term(o, first + i, floats) : 0;
            positive += term > 0 ? term : 0;
            negative += term < 0 ? term : 0;
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

/* Sum of x over the threads before this one. `parts` is shared. */
GPU_FN double gpu_ordered_before(double x, double *parts)
{
    const uint32_t wave = gpu_wave(), own = gpu_tid(0) / wave;
    double sum = x, before;

    GPU_ROLL
    for (uint32_t by = 1; by < wave; by *= 2) {
        const uint64_t bits = vg_double_bits(sum);
        const double other = vg_bits_double((uint64_t)gpu_shfl_up32((uint32_t)(bits >> 32), by) << 32 |
                                            gpu_shfl_up32((uint32_t)bits, by));
        sum += gpu_lane() >= by ? other : 0;
    }
    const uint64_t bits = vg_double_bits(sum);
    before =
        vg_bits_double((uint64_t)gpu_shfl_up32((uint32_t)(bits >> 32), 1) << 32 | gpu_shfl_up32((uint32_t)bits, 1));
    before = gpu_lane() ? before : 0;
    gpu_barrier(); /* the array may still be read by an earlier call */
    if (gpu_lane() == wave - 1)
        parts[own] = sum;
    gpu_barrier();
    GPU_ROLL
    for (uint32_t w = own; w-- > 0;)
        before += parts[w];
    return before;
}

/**
 * One block: which chunks are regular, from the sums before each. `exact`: see vg_ordered_exponent_from(), or
 * GPU_ORDERED_ANY.
 */
GPU_FN void gpu_ordered_exponents(const GpuOrdered *o, const int32_t exact, const uint32_t block_size)
{
    GPU_SHARED double starts[GPU_MAX_WAVES], magnitudes[GPU_MAX_WAVES];
    const uint32_t each = (o->n_chunks + block_size - 1) / block_size;
    const uint32_t first = gpu_tid(0) * each;
    double start = 0, magnitude = 0;

    GPU_ROLL
    for (uint32_t c = first; c < first + each && c < o->n_chunks; c++) {
        start += gpu_ordered_chunk(o, c)->positive + gpu_ordered_chunk(o, c)->negative;
        magnitude += gpu_ordered_chunk(o, c)->positive - gpu_ordered_chunk(o, c)->negative;
    }
    start = gpu_ordered_before(start, starts);
    magnitude = gpu_ordered_before(magnitude, magnitudes);
    GPU_ROLL
    for (uint32_t c = first; c < first + each && c < o->n_chunks; c++) {
        const double positive = gpu_ordered_chunk(o, c)->positive, negative = gpu_ordered_chunk(o, c)->negative;
        magnitude += positive - negative;
        gpu_ordered_chunk(o, c)->exponent = exact == GPU_ORDERED_ANY
                                                ? vg_ordered_exponent(start, positive, negative, magnitude)
                                                : vg_ordered_exponent_from(exact, start, positive, magnitude);
        start += positive + negative;
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

/** What each regular chunk adds. */
GPU_FN void gpu_ordered_runs(const GpuOrdered *o, const int floats, uint32_t block, uint32_t n_blocks,
                             const uint32_t block_size)
{
    const uint32_t wave = gpu_wave(), waves = block_size / wave, each = VG_ORDERED_CHUNK / wave;

    for (uint32_t c = block * waves + gpu_tid(0) / wave; c < o->n_chunks; c += n_blocks * waves) {
        const int64_t first = (int64_t)c * VG_ORDERED_CHUNK + gpu_lane() * each;
        const int32_t exponent = gpu_ordered_chunk(o, c)->exponent;
        VgOrderedPair run = { 0, 0 };
        if (exponent == VG_ORDERED_IRREGULAR)
            continue;
        const double scale = vg_ordered_scale(exponent);
        GPU_ROLL
        for (int64_t i = first; i < first + each && i < o->n; i++)
            run = vg_ordered_append(run, gpu_ordered_term(o, i, floats), scale);
        run = gpu_ordered_join(run);
        if (gpu_lane() == 0) {
            gpu_ordered_chunk(o, c)->run.even = run.even;
            gpu_ordered_chunk(o, c)->run.odd = run.odd;
        }
    }
}

GPU_FN uint64_t gpu_shfl_idx64(uint64_t v, uint32_t lane)
{
    return (uint64_t)gpu_shfl_idx32((uint32_t)(v >> 32), lane) << 32 | gpu_shfl_idx32((uint32_t)v, lane);
}

GPU_FN VgOrderedPair gpu_ordered_of_lane(VgOrderedPair run, uint32_t lane)
{
    VgOrderedPair other;
    other.even = (int64_t)gpu_shfl_idx64((uint64_t)run.even, lane);
    other.odd = (int64_t)gpu_shfl_idx64((uint64_t)run.odd, lane);
    return other;
}

/* One wave: adds an irregular chunk's terms one by one. The lanes load them, a wave's width ahead of the additions. */
GPU_FN double gpu_ordered_serial(const GpuOrdered *o, const int floats, int64_t start, double total)
{
    const int64_t end = start + VG_ORDERED_CHUNK < o->n ? start + VG_ORDERED_CHUNK : o->n;
    int64_t i = start + gpu_lane();
    uint64_t ahead = i < end ? vg_double_bits(gpu_ordered_term(o, i, floats)) : 0;

    GPU_ROLL
    for (int64_t at = start; at < end; at += gpu_wave()) {
        const uint64_t now = ahead;
        i += gpu_wave();
        ahead = i < end ? vg_double_bits(gpu_ordered_term(o, i, floats)) : 0;
        GPU_UNROLL
        for (uint32_t lane = 0; lane < gpu_wave(); lane++)
            total += vg_bits_double(gpu_shfl_idx64(now, lane)); /* beyond the end 0, which changes nothing */
    }
    return total;
}

/**
 * One wave: adds chunks first .. end - 1 to the serial sum of those before, a wave of chunks at once where all are regular
 * in one binade.
 */
GPU_FN double gpu_ordered_fold(const GpuOrdered *o, const int floats, uint32_t first, uint32_t end, double total)
{
    const uint32_t wave = gpu_wave();

    GPU_ROLL
    for (uint32_t base = first; base < end; base += wave) {
        const uint32_t c = base + gpu_lane();
        const int32_t exponent = c < end ? gpu_ordered_chunk(o, c)->exponent : VG_ORDERED_IRREGULAR;
        VgOrderedPair run = { 0, 0 };
        if (exponent != VG_ORDERED_IRREGULAR) {
            run.even = gpu_ordered_chunk(o, c)->run.even;
            run.odd = gpu_ordered_chunk(o, c)->run.odd;
        }
        const int32_t common = (int32_t)gpu_shfl_idx32((uint32_t)exponent, 0);
        if (common != VG_ORDERED_IRREGULAR && gpu_ballot(c < end && exponent != common) == 0) {
            total = vg_ordered_apply(total, gpu_ordered_of_lane(gpu_ordered_join(run), 0), common);
            continue;
        }
        GPU_ROLL
        for (uint32_t lane = 0; lane < wave && base + lane < end; lane++) {
            const int32_t own = (int32_t)gpu_shfl_idx32((uint32_t)exponent, lane);
            const VgOrderedPair its = gpu_ordered_of_lane(run, lane);
            if (own != VG_ORDERED_IRREGULAR) {
                total = vg_ordered_apply(total, its, own);
                continue;
            }
            total = gpu_ordered_serial(o, floats, (int64_t)(base + lane) * VG_ORDERED_CHUNK, total);
        }
    }
    return total;
}

/**
 * One block: joins the runs of groups of as many chunks as a wave has lanes, where all are regular in one binade. The
 * group's run takes the place of its first chunk's.
 */
GPU_FN void gpu_ordered_group(const GpuOrdered *o, const uint32_t block_size)
{
    const uint32_t wave = gpu_wave();

    GPU_ROLL
    for (uint32_t base = gpu_tid(0) / wave * wave; base < o->n_chunks; base += block_size) {
        const uint32_t c = base + gpu_lane();
        const int32_t exponent = c < o->n_chunks ? gpu_ordered_chunk(o, c)->exponent : VG_ORDERED_IRREGULAR;
        VgOrderedPair run = { 0, 0 };
        if (exponent != VG_ORDERED_IRREGULAR) {
            run.even = gpu_ordered_chunk(o, c)->run.even;
            run.odd = gpu_ordered_chunk(o, c)->run.odd;
        }
        const int32_t common = (int32_t)gpu_shfl_idx32((uint32_t)exponent, 0);
        const int joined = common != VG_ORDERED_IRREGULAR && gpu_ballot(c < o->n_chunks && exponent != common) == 0;
        run = gpu_ordered_join(run);
        if (gpu_lane() == 0) {
            gpu_ordered_chunk(o, base)->joined = joined;
            if (joined) {
                gpu_ordered_chunk(o, base)->run.even = run.even;
                gpu_ordered_chunk(o, base)->run.odd = run.odd;
            }
        }
    }
}

/** One wave, after gpu_ordered_group(): the serial sum. */
GPU_FN double gpu_ordered_fold_groups(const GpuOrdered *o, const int floats)
{
    const uint32_t wave = gpu_wave();
    double total = 0;

    GPU_ROLL
    for (uint32_t base = 0; base < o->n_chunks; base += wave * wave) {
        const uint32_t c = base + gpu_lane() * wave;
        const int inside = c < o->n_chunks, joined = inside && gpu_ordered_chunk(o, c)->joined;
        const int32_t exponent = joined ? gpu_ordered_chunk(o, c)->exponent : VG_ORDERED_IRREGULAR;
        VgOrderedPair run = { 0, 0 };
        if (joined) {
            run.even = gpu_ordered_chunk(o, c)->run.even;
            run.odd = gpu_ordered_chunk(o, c)->run.odd;
        }
        const int32_t common = (int32_t)gpu_shfl_idx32((uint32_t)exponent, 0);
        if (common != VG_ORDERED_IRREGULAR && gpu_ballot(inside && exponent != common) == 0) {
            total = vg_ordered_apply(total, gpu_ordered_of_lane(gpu_ordered_join(run), 0), common);
            continue;
        }
        GPU_ROLL
        for (uint32_t lane = 0; lane < wave && base + lane * wave < o->n_chunks; lane++) {
            const int32_t own = (int32_t)gpu_shfl_idx32((uint32_t)exponent, lane);
            const VgOrderedPair its = gpu_ordered_of_lane(run, lane);
            const uint32_t first = base + lane * wave;
            if (own != VG_ORDERED_IRREGULAR)
                total = vg_ordered_apply(total, its, own);
            else
                total =
                    gpu_ordered_fold(o, floats, first, first + wave < o->n_chunks ? first + wave : o->n_chunks, total);
        }
    }
    return total;
}

#endif
