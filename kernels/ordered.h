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

/* x of the last lane. */
GPU_FN double gpu_ordered_last(double x)
{
    return vg_bits_double(gpu_shfl_idx64(vg_double_bits(x), gpu_wave() - 1));
}

/* Sum of x over the lanes, in all of them. */
GPU_FN double gpu_ordered_all_lanes(double x)
{
    GPU_ROLL
    for (uint32_t by = gpu_wave() / 2; by; by /= 2)
        x += vg_bits_double(gpu_shfl_idx64(vg_double_bits(x), gpu_lane() ^ by));
    return x;
}

#define GPU_ORDERED_AHEAD 4 /* chunks whose sums a lane loads at once */

/* Sums of a lane's chunks c, c + gpu_wave() and so on; 0 from `end` on. Negative ones are 0 if they are not `wanted`. */
GPU_FN void gpu_ordered_load_sums(const GpuOrdered *o, uint32_t c, uint32_t end, const int wanted, double *positive,
                                  double *negative)
{
    GPU_UNROLL
    for (uint32_t i = 0; i < GPU_ORDERED_AHEAD; i++) {
        const uint32_t own = c + i * gpu_wave();
        positive[i] = own < end ? gpu_ordered_chunk(o, own)->positive : 0;
        negative[i] = wanted && own < end ? gpu_ordered_chunk(o, own)->negative : 0;
    }
}

/**
 * One block: which chunks are regular, from the sums before each. `exact`: see vg_ordered_exponent_from(), or
 * GPU_ORDERED_ANY. A wave works on neighbouring chunks.
 */
GPU_FN void gpu_ordered_exponents(const GpuOrdered *o, const int32_t exact, const uint32_t block_size)
{
    GPU_SHARED double starts[GPU_MAX_WAVES], magnitudes[GPU_MAX_WAVES];
    const int any = exact == GPU_ORDERED_ANY; /* else nothing is negative */
    const uint32_t wave = gpu_wave(), waves = block_size / wave, own = gpu_tid(0) / wave;
    const uint32_t each = ((o->n_chunks + waves - 1) / waves + wave - 1) / wave * wave, first = own * each;
    const uint32_t end = first + each < o->n_chunks ? first + each : o->n_chunks, step = GPU_ORDERED_AHEAD * wave;
    double positive[GPU_ORDERED_AHEAD], negative[GPU_ORDERED_AHEAD], start = 0, magnitude = 0;

    GPU_ROLL
    for (uint32_t c = first; c < end; c += step) {
        gpu_ordered_load_sums(o, c + gpu_lane(), end, any, positive, negative);
        GPU_UNROLL
        for (uint32_t i = 0; i < GPU_ORDERED_AHEAD; i++) {
            start += positive[i] + negative[i];
            magnitude += positive[i] - negative[i];
        }
    }
    start = gpu_ordered_all_lanes(start);
    magnitude = gpu_ordered_all_lanes(magnitude);
    gpu_barrier(); /* the arrays may still be read by an earlier call */
    if (gpu_lane() == 0) {
        starts[own] = start;
        magnitudes[own] = magnitude;
    }
    gpu_barrier();
    start = magnitude = 0;
    GPU_ROLL
    for (uint32_t w = 0; w < own; w++) {
        start += starts[w];
        magnitude += magnitudes[w];
    }
    GPU_ROLL
    for (uint32_t c = first; c < end; c += step) {
        gpu_ordered_load_sums(o, c + gpu_lane(), end, any, positive, negative);
        GPU_UNROLL
        for (uint32_t i = 0; i < GPU_ORDERED_AHEAD; i++) {
            const uint32_t at = c + i * wave + gpu_lane();
            const double sum = positive[i] + negative[i], size = positive[i] - negative[i];
            const double before = gpu_ordered_before_lane(sum), of_all = gpu_ordered_last(before + sum);
            const double larger = any ? gpu_ordered_before_lane(size) + size : before + sum;
            if (at < end) {
                gpu_ordered_chunk(o, at)->joined = 0;
                gpu_ordered_chunk(o, at)->exponent =
                    any ? vg_ordered_exponent(start + before, positive[i], negative[i], magnitude + larger)
                        : vg_ordered_exponent_from(exact, start + before, positive[i], magnitude + larger);
            }
            start += of_all;
            magnitude += any ? gpu_ordered_last(larger) : of_all;
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

/* One wave: what a chunk adds; in lane 0. 0 if it is irregular. */
GPU_FN VgOrderedPair gpu_ordered_run(const GpuOrdered *o, const int floats, uint32_t c, int32_t exponent)
{
    const uint32_t each = VG_ORDERED_CHUNK / gpu_wave();
    const int64_t first = (int64_t)c * VG_ORDERED_CHUNK + gpu_lane() * each;
    VgOrderedPair run = { 0, 0 };

    if (exponent == VG_ORDERED_IRREGULAR)
        return run;
    const double scale = vg_ordered_scale(exponent);
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
        const VgOrderedPair run = gpu_ordered_run(o, floats, c, gpu_ordered_chunk(o, c)->exponent);
        if (gpu_lane() == 0)
            gpu_ordered_store(o, c, run);
    }
}

/* What is known of a chunk, or of a group of them, when runs are folded. */
typedef struct GpuOrderedItem {
    int32_t exponent;
    int32_t joined;    /* of a group: the run is that of all of it; else not to be used */
    VgOrderedPair run; /* 0 if irregular */
} GpuOrderedItem;

/* Chunk c; an irregular one beyond the end. */
GPU_FN GpuOrderedItem gpu_ordered_item(const GpuOrdered *o, uint32_t c)
{
    GpuOrderedItem item = { VG_ORDERED_IRREGULAR, 0, { 0, 0 } };

    if (c < o->n_chunks) {
        item.exponent = gpu_ordered_chunk(o, c)->exponent;
        item.joined = gpu_ordered_chunk(o, c)->joined;
        item.run.even = gpu_ordered_chunk(o, c)->run.even;
        item.run.odd = gpu_ordered_chunk(o, c)->run.odd;
    }
    return item;
}

/*
 * One wave: the sum after the runs of lanes `lane` to *end - 1, all those with the same exponent as that lane, which is
 * regular. What a run adds depends on the parity of K before it, and so does the parity behind it: a run keeps it, turns it,
 * or makes it even or odd whatever it was. So each lane knows the parity before its run from the nearest one of the last kind
 * and the number of turns since.
 */
GPU_FN double gpu_ordered_segment(const GpuOrderedItem *item, uint32_t lane, double total, uint32_t *end)
{
    const int32_t own = (int32_t)gpu_shfl_idx32((uint32_t)item->exponent, lane);
    const uint64_t others = gpu_ballot(item->exponent != own) >> lane << lane;
    const uint64_t lower = ((uint64_t)1 << gpu_lane()) - 1;

    *end = others ? gpu_first_lane(others) : gpu_wave();
    const int inside = gpu_lane() >= lane && gpu_lane() < *end;
    const uint32_t after_even = (uint32_t)item->run.even & 1, after_odd = ((uint32_t)item->run.odd & 1) ^ 1;
    const uint64_t fixed = gpu_ballot(inside && after_even == after_odd) & lower;
    const uint64_t odd = gpu_ballot(inside && after_even && after_odd) & lower;
    const uint64_t turns = gpu_ballot(inside && after_even && !after_odd) & lower;
    const int64_t k = vg_ordered_units(total, own);
    const uint32_t last = 64 - (uint32_t)gpu_clz64(fixed); /* lanes up to the nearest fixed one */
    const uint64_t since = last < 64 ? turns >> last : 0;
    uint32_t parity = last ? (uint32_t)(odd >> (last - 1)) & 1 : (uint32_t)k & 1;

    parity ^= gpu_count_lanes(since) & 1;
    int64_t sum = inside ? (parity ? item->run.odd : item->run.even) : 0;
    GPU_ROLL
    for (uint32_t by = gpu_wave() / 2; by; by /= 2)
        sum += (int64_t)gpu_shfl_idx64((uint64_t)sum, gpu_lane() ^ by);
    return vg_ordered_of_units(k + sum, own);
}

/*
 * One wave: adds an irregular chunk, whose lanes' batches are like chunks: most of them are regular. Their sums start from the
 * serial one, so its magnitude stands for those of all terms before.
 */
GPU_FN double gpu_ordered_serial(const GpuOrdered *o, const int floats, int64_t start, double total)
{
    const int64_t end = start + VG_ORDERED_CHUNK < o->n ? start + VG_ORDERED_CHUNK : o->n;

    GPU_ROLL
    for (int64_t at = start; at < end; at += gpu_wave() * GPU_ORDERED_BATCH) {
        double x[GPU_ORDERED_BATCH], positive = 0, negative = 0;
        GpuOrderedItem item = { VG_ORDERED_IRREGULAR, 0, { 0, 0 } };

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
                total = gpu_ordered_segment(&item, lane, total, &next);
                continue;
            }
            GPU_UNROLL
            for (int i = 0; i < GPU_ORDERED_BATCH; i++)
                total += vg_bits_double(gpu_shfl_idx64(vg_double_bits(x[i]), lane));
        }
    }
    return total;
}

/* One wave: the run of as many chunks as it has lanes takes the place of the first one's if all are regular in one binade. */
GPU_FN void gpu_ordered_group(const GpuOrdered *o, uint32_t first)
{
    const uint32_t c = first + gpu_lane();
    const GpuOrderedItem item = gpu_ordered_item(o, c);
    const int32_t common = (int32_t)gpu_shfl_idx32((uint32_t)item.exponent, 0);
    const int joined = common != VG_ORDERED_IRREGULAR && gpu_ballot(c < o->n_chunks && item.exponent != common) == 0;

    if (gpu_lane() == 0)
        gpu_ordered_chunk(o, c)->joined = joined;
    if (!joined)
        return;
    const VgOrderedPair run = gpu_ordered_join(item.run);
    if (gpu_lane() == 0)
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
            const VgOrderedPair run = gpu_ordered_run(o, floats, first + i, gpu_ordered_chunk(o, first + i)->exponent);
            if (gpu_lane() == 0)
                gpu_ordered_store(o, first + i, run);
        }
        gpu_barrier();
        if (gpu_tid(0) < wave)
            gpu_ordered_group(o, first);
    }
}

/* One wave: adds chunks first .. end - 1, of which there are as many as lanes at most. */
GPU_FN double gpu_ordered_fold_chunks(const GpuOrdered *o, const int floats, uint32_t first, uint32_t end, double total)
{
    const GpuOrderedItem item = gpu_ordered_item(o, first + gpu_lane());

    GPU_ROLL
    for (uint32_t lane = 0, next; lane < end - first; lane = next) {
        next = lane + 1;
        if ((int32_t)gpu_shfl_idx32((uint32_t)item.exponent, lane) == VG_ORDERED_IRREGULAR)
            total = gpu_ordered_serial(o, floats, (int64_t)(first + lane) * VG_ORDERED_CHUNK, total);
        else
            total = gpu_ordered_segment(&item, lane, total, &next);
    }
    return total;
}

/** One wave: the serial sum. `grouped`: after gpu_ordered_grouped_runs(). */
GPU_FN double gpu_ordered_fold(const GpuOrdered *o, const int floats, const int grouped)
{
    const uint32_t wave = gpu_wave(), n = o->n_chunks;
    double total = 0;

    GPU_ROLL
    for (uint32_t base = 0; base < n; base += grouped ? wave * wave : wave) {
        if (!grouped) {
            total = gpu_ordered_fold_chunks(o, floats, base, base + wave < n ? base + wave : n, total);
            continue;
        }
        GpuOrderedItem item = gpu_ordered_item(o, base + gpu_lane() * wave);
        if (!item.joined)
            item.exponent = VG_ORDERED_IRREGULAR;
        GPU_ROLL
        for (uint32_t lane = 0, next; lane < wave && base + lane * wave < n; lane = next) {
            const uint32_t first = base + lane * wave;
            next = lane + 1;
            if ((int32_t)gpu_shfl_idx32((uint32_t)item.exponent, lane) == VG_ORDERED_IRREGULAR)
                total = gpu_ordered_fold_chunks(o, floats, first, first + wave < n ? first + wave : n, total);
            else
                total = gpu_ordered_segment(&item, lane, total, &next);
        }
    }
    return total;
}

#endif
