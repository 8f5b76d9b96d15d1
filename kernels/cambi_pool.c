/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * CAMBI's pooling on the device: sums of each scale's k largest values. Definition: docs/numerics.md, cambi.
 *
 * Selection: values are counted in bins by the upper part of their keys, which gives the bin of the k-th largest; then those
 * of that bin in bins by the rest, which gives the k-th largest itself, while all above are added up as integers. Where no
 * more than k values are not 0, the sum of all is known before.
 *
 * If vg_cambi_sum_exact() does not tell that the order of additions makes no difference, the values are permuted as the
 * definition has it (Hoare's FIND) and summed in this order by kernels/ordered.h. The permutation's rounds do not swap in
 * place: a pass over the range gathers what each place has after the round into a second plane, and from there back in the
 * next round. So a pass can look for the next round's candidates at once, whose pivot is known from the round's decision.
 */
#include "kernels/block.h"
#include "kernels/cambi_pool_args.h"
#include "kernels/gpu.h"
#include "kernels/ordered.h"

#define BLOCK VG_CAMBI_POOL_BLOCK
#define CHUNK VG_CAMBI_CHUNK

/* Below 2^29, which is 2^53 units of 2^-24, nothing rounds. */
#define EXACT_EXPONENT 28

/* What a block works on: piece `block` of n_blocks of a scale. */
typedef struct Part {
    int scale;
    uint32_t block, n_blocks;
} Part;

/* Small scales come first, so that what their last block has to do comes while others still work on large ones. */
GPU_FN Part part_of_block(const VgCambiPoolArgs *args)
{
    const uint32_t block = gpu_grid(0) - 1 - gpu_bid(0);
    Part part = { 0, 0, 0 };

    GPU_UNROLL
    for (int s = 0; s < VG_CAMBI_SCALES; s++)
        if (block >= args->first_block[s]) {
            part.scale = s;
            part.block = block - args->first_block[s];
            part.n_blocks = args->first_block[s + 1] - args->first_block[s];
        }
    return part;
}

GPU_FN GPU_GLOBAL VgCambiPoolState *state_of(const VgCambiPoolScale *scale)
{
    return (GPU_GLOBAL VgCambiPoolState *)scale->state;
}

/* ---- Selection ---------------------------------------------------------------------------------------------------- */

/* One thread: the sum, if it is proven, else the beginning of the sum in order. */
GPU_FN void settle(const VgCambiPoolArgs *args, int s, uint64_t sum, uint64_t bits)
{
    const VgCambiPoolScale *const scale = &args->scales[s];
    GPU_GLOBAL VgCambiPoolState *const state = state_of(scale);

    if (!scale->in_order && vg_cambi_sum_exact(sum, bits)) {
        ((GPU_GLOBAL double *)args->sums)[s] = vg_cambi_sum(sum);
        state->phase = VG_CAMBI_DONE;
        return;
    }
    state->phase = VG_CAMBI_SUM;
    state->source = 0;
    if (scale->top == scale->n)
        return;
    state->phase = VG_CAMBI_PERMUTE;
    state->first = 0;
    state->last = (int32_t)scale->n - 1;
    state->pivot = ((const GPU_GLOBAL float *)scale->values[0])[scale->top];
    state->pending = 0;
    state->parity = 0;
}

/* Bins of a block: two to a word. */
GPU_FN void clear_bins(uint32_t *bins, uint32_t n)
{
    for (uint32_t i = gpu_tid(0); i < n / 2; i += BLOCK)
        bins[i] = 0;
    gpu_barrier();
}

GPU_FN void add_to_bin(uint32_t *bins, uint32_t bin, uint32_t n)
{
    gpu_atomic_add32(&bins[bin / 2], n << (bin % 2 * 16));
}

GPU_FN void add_bins(const uint32_t *bins, uint64_t to, uint32_t n)
{
    uint32_t *const all = (uint32_t *)to;

    gpu_barrier();
    for (uint32_t i = gpu_tid(0); i < n / 2; i += BLOCK) {
        const uint32_t pair = bins[i];
        if (pair & 0xffff)
            gpu_atomic_add32(&all[2 * i], pair & 0xffff);
        if (pair >> 16)
            gpu_atomic_add32(&all[2 * i + 1], pair >> 16);
    }
}

/* One block: the bin of the value that is number `wanted` from the largest down, and its number in there; both shared. */
GPU_FN void find_bin(uint64_t bins_address, uint32_t n, uint32_t wanted, uint32_t *bin, uint32_t *left)
{
    const GPU_GLOBAL uint32_t *const bins = (const GPU_GLOBAL uint32_t *)bins_address;
    const uint32_t each = n / BLOCK, end = n - gpu_tid(0) * each;
    uint32_t own = 0, all;

    GPU_UNROLL
    for (uint32_t i = 1; i <= each; i++)
        own += bins[end - i];
    const uint32_t before = gpu_block_scan32(own, &all, BLOCK);
    if (before < wanted && wanted <= before + own) {
        uint32_t at = end - 1, seen = before;
        while (seen + bins[at] < wanted)
            seen += bins[at--];
        *bin = at;
        *left = wanted - seen;
    }
    gpu_barrier();
}

/* Four values of a block's piece as bits, 0 beyond the plane's end. */
GPU_FN GpuWords four_values(const VgCambiPoolScale *scale, uint32_t at)
{
    const uint64_t address = scale->values[0] + (uint64_t)at * sizeof(float);
    GpuWords words = { { 0, 0, 0, 0 } };

    if (at + 4 <= scale->n)
        return gpu_load128(address);
    GPU_UNROLL
    for (uint32_t i = 0; i < 3; i++)
        if (at + i < scale->n)
            words.w[i] = vg_float_bits(gpu_loadf(address + i * sizeof(float)));
    return words;
}

#define AHEAD 4 /* vectors loaded at once */

/* A thread's next values, from `at` on. */
GPU_FN void load_ahead(const VgCambiPoolScale *scale, uint32_t at, GpuWords *words)
{
    GPU_UNROLL
    for (uint32_t a = 0; a < AHEAD; a++)
        words[a] = four_values(scale, at + a * 4 * BLOCK);
}

/* A thread's count of equal bins that it has met one after the other: neighbours are often alike. */
typedef struct Run {
    uint32_t bin, n;
} Run;

GPU_FN void count_bin(uint32_t *bins, Run *run, uint32_t bin)
{
    if (bin != run->bin) {
        if (run->n)
            add_to_bin(bins, run->bin, run->n);
        run->bin = bin;
        run->n = 0;
    }
    run->n++;
}

GPU_FN void end_run(uint32_t *bins, const Run *run)
{
    if (run->n)
        add_to_bin(bins, run->bin, run->n);
}

GPU_KERNEL_RESIDENT(cambi_pool_bins, VgCambiPoolArgs, VG_CAMBI_POOL_BLOCK, 3)
{
    GPU_SHARED uint32_t bin, left;
    uint32_t *const bins = (uint32_t *)gpu_dynamic_shared();
    const Part part = part_of_block(&args);
    const VgCambiPoolScale *const scale = &args.scales[part.scale];
    const GPU_GLOBAL VgCambiTotals *const totals = (const GPU_GLOBAL VgCambiTotals *)args.totals + part.scale;
    Run run = { 0, 0 };

    if (scale->in_order || totals->nonzero <= scale->top) {
        if (part.block == 0 && gpu_tid(0) == 0)
            settle(&args, part.scale, totals->sum, totals->bits);
        return;
    }
    clear_bins(bins, VG_CAMBI_HIGH_BINS);
    GPU_ROLL
    for (uint32_t i = 4 * gpu_tid(0); i < VG_CAMBI_BINS_VALUES; i += AHEAD * 4 * BLOCK) {
        GpuWords words[AHEAD];
        load_ahead(scale, part.block * VG_CAMBI_BINS_VALUES + i, words);
        GPU_UNROLL
        for (uint32_t a = 0; a < AHEAD; a++)
            GPU_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            if (words[a].w[k])
                count_bin(bins, &run, (words[a].w[k] - VG_CAMBI_LEAST_BITS) >> VG_CAMBI_LOW_BITS);
    }
    end_run(bins, &run);
    add_bins(bins, scale->high, VG_CAMBI_HIGH_BINS);
    if (!gpu_last_block(scale->state + offsetof(VgCambiPoolState, bins_blocks), part.n_blocks))
        return;
    find_bin(scale->high, VG_CAMBI_HIGH_BINS, scale->top, &bin, &left);
    for (uint32_t i = gpu_tid(0); i < VG_CAMBI_HIGH_BINS; i += BLOCK)
        ((GPU_GLOBAL uint32_t *)scale->high)[i] = 0;
    if (gpu_tid(0) == 0) {
        state_of(scale)->bin = bin;
        state_of(scale)->left = left;
        state_of(scale)->phase = VG_CAMBI_SELECT;
    }
}

/* The last block: what the k-th largest value's bin adds to the sum. Clears its bins. */
GPU_FN void finish_selection(const VgCambiPoolArgs *args, int s, uint32_t high)
{
    GPU_SHARED uint32_t bin, left;
    const VgCambiPoolScale *const scale = &args->scales[s];
    GPU_GLOBAL VgCambiPoolState *const state = state_of(scale);
    GPU_GLOBAL uint32_t *const bins = (GPU_GLOBAL uint32_t *)scale->low;
    uint64_t sum = 0, bits = 0;

    find_bin(scale->low, VG_CAMBI_LOW_BINS, state->left, &bin, &left);
    for (uint32_t i = gpu_tid(0); i < VG_CAMBI_LOW_BINS; i += BLOCK) {
        const uint32_t n = i > bin ? bins[i] : i == bin ? left : 0;
        const uint64_t units = vg_cambi_units(vg_bits_float((high << VG_CAMBI_LOW_BITS) + i + VG_CAMBI_LEAST_BITS));
        sum += n * units;
        bits |= n ? units : 0;
        bins[i] = 0;
    }
    sum = gpu_block_sum64(sum, BLOCK);
    bits = gpu_block_or64(bits, BLOCK);
    if (gpu_tid(0) == 0) {
        settle(args, s, state->sum + sum, state->bits | bits);
        state->sum = 0;
        state->bits = 0;
    }
}

GPU_KERNEL_RESIDENT(cambi_pool_select, VgCambiPoolArgs, VG_CAMBI_POOL_BLOCK, 3)
{
    uint32_t *const bins = (uint32_t *)gpu_dynamic_shared();
    const Part part = part_of_block(&args);
    const VgCambiPoolScale *const scale = &args.scales[part.scale];
    GPU_GLOBAL VgCambiPoolState *const state = state_of(scale);
    uint64_t sum = 0, bits = 0;
    Run run = { 0, 0 };

    if (part.block == 0 && gpu_tid(0) == 0) {
        GPU_GLOBAL VgCambiTotals *const totals = (GPU_GLOBAL VgCambiTotals *)args.totals + part.scale;
        totals->sum = 0;
        totals->bits = 0;
        totals->nonzero = 0;
    }
    if (state->phase != VG_CAMBI_SELECT)
        return;
    const uint32_t high = state->bin;
    clear_bins(bins, VG_CAMBI_LOW_BINS);
    GPU_ROLL
    for (uint32_t i = 4 * gpu_tid(0); i < VG_CAMBI_BINS_VALUES; i += AHEAD * 4 * BLOCK) {
        GpuWords words[AHEAD];
        load_ahead(scale, part.block * VG_CAMBI_BINS_VALUES + i, words);
        GPU_UNROLL
        for (uint32_t a = 0; a < AHEAD; a++)
            GPU_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t word = words[a].w[k], key = word ? word - VG_CAMBI_LEAST_BITS : 0;
            const uint32_t its = key >> VG_CAMBI_LOW_BITS;
            const uint64_t units = its > high ? vg_cambi_units(vg_bits_float(word)) : 0;
            sum += units;
            bits |= units;
            if (word && its == high)
                count_bin(bins, &run, key % VG_CAMBI_LOW_BINS);
        }
    }
    end_run(bins, &run);
    add_bins(bins, scale->low, VG_CAMBI_LOW_BINS);
    sum = gpu_block_sum64(sum, BLOCK);
    bits = gpu_block_or64(bits, BLOCK);
    if (gpu_tid(0) == 0) {
        gpu_atomic_add64((uint64_t *)(scale->state + offsetof(VgCambiPoolState, sum)), sum);
        uint32_t *const all = (uint32_t *)(scale->state + offsetof(VgCambiPoolState, bits)); /* little endian */
        gpu_atomic_or32(&all[0], (uint32_t)bits);
        gpu_atomic_or32(&all[1], (uint32_t)(bits >> 32));
    }
    if (gpu_last_block(scale->state + offsetof(VgCambiPoolState, select_blocks), part.n_blocks))
        finish_selection(&args, part.scale, high);
}

/* ---- Rounds of the permutation ------------------------------------------------------------------------------------ */

/*
 * A round over places first .. last with the value at place k for a pivot: X are the places of values up to the pivot, from
 * the left, Y those of values from the pivot up, from the right. The first ones of X and Y change places with each other, as
 * long as X_m <= Y_m. Numbers of X and Y begin at 1.
 *
 * A chunk lists its X and its Y, both from the left. What stands before a chunk, or from it on, is known from a scan; so the
 * place of a candidate with a given number is one search in the scan's result, of which each block has a table, and one look
 * into a list.
 */

#define NO_PLACE 0x7fffffff

/* The state as the threads of a pass see it. */
typedef struct Round {
    uint64_t from, to; /* planes; `to` is written if a round is pending */
    uint64_t old_lists, lists, old_sums, sums, counts;
    uint32_t n_chunks;
    int32_t begin; /* first place that matters, up to `last`; of a pending round: the first of those to be copied */
    int32_t old_first, old_last, exchanges, pending;
    int32_t first, last, find;
    float old_pivot, pivot;
} Round;

GPU_FN Round round_of(const VgCambiPoolScale *scale, int find)
{
    const GPU_GLOBAL VgCambiPoolState *const state = state_of(scale);
    const int32_t source = state->source, parity = state->parity;
    Round r;

    r.from = scale->values[source];
    r.to = scale->values[!source];
    r.n_chunks = scale->n_chunks;
    r.old_lists = scale->lists[parity];
    r.lists = scale->lists[!parity];
    r.old_sums = scale->sums[parity];
    r.sums = scale->sums[!parity];
    r.counts = scale->counts;
    r.pending = state->pending;
    r.old_first = state->old_first;
    r.old_last = state->old_last;
    r.exchanges = state->exchanges;
    r.first = state->first;
    r.last = state->last;
    r.find = find && r.first < r.last;
    r.old_pivot = state->old_pivot;
    r.pivot = state->pivot;
    r.begin = !r.pending ? r.first : source ? state->away : r.old_first;
    return r;
}

/* Sums of candidates of a range's chunks, `step` chunks apart, in shared memory. */
typedef struct Table {
    VgCambiCandidates *entries;
    uint64_t all; /* VgCambiCandidates [n_chunks]: of all chunks */
    uint32_t low, high, step;
} Table;

GPU_FN Table table_of(const VgCambiPoolScale *scale, uint64_t sums, int32_t first, int32_t last)
{
    Table t;
    t.entries = (VgCambiCandidates *)gpu_dynamic_shared();
    t.all = sums;
    t.low = (uint32_t)first / CHUNK;
    t.high = (uint32_t)last / CHUNK;
    t.step = (t.high - t.low + scale->table) / scale->table;
    return t;
}

GPU_FN uint32_t table_end(const Table *t)
{
    return (t->high + 1 - t->low + t->step - 1) / t->step;
}

/* The block. */
GPU_FN void load_table(const Table *t)
{
    const GPU_GLOBAL VgCambiCandidates *const all = (const GPU_GLOBAL VgCambiCandidates *)t->all;
    const uint32_t n = table_end(t);

    GPU_UNROLL
    for (uint32_t k = 0; k < VG_CAMBI_TABLE / BLOCK; k++) {
        const uint32_t i = k * BLOCK + gpu_tid(0);
        if (i < n) {
            t->entries[i].x = all[t->low + i * t->step].x;
            t->entries[i].y = all[t->low + i * t->step].y;
        }
    }
    gpu_barrier();
}

/* Candidates X before a chunk of the range, or Y from it on. */
GPU_FN uint32_t table_sum(const Table *t, int y, uint32_t chunk)
{
    if (t->step == 1)
        return y ? t->entries[chunk - t->low].y : t->entries[chunk - t->low].x;
    const GPU_GLOBAL VgCambiCandidates *const c = (const GPU_GLOBAL VgCambiCandidates *)t->all + chunk;
    return y ? c->y : c->x;
}

GPU_FN int sum_before(uint32_t sum, int y, uint32_t m)
{
    return y ? sum >= m : sum < m;
}

/* The chunk of candidate m, which exists: the last one with fewer than m X before it, or with m or more Y from it on. */
GPU_FN uint32_t find_chunk(const Table *t, int y, uint32_t m)
{
    uint32_t low = 0, high = table_end(t) - 1;

    GPU_ROLL
    while (low < high) {
        const uint32_t middle = (low + high + 1) / 2;
        const uint32_t sum = y ? t->entries[middle].y : t->entries[middle].x;
        if (sum_before(sum, y, m))
            low = middle;
        else
            high = middle - 1;
    }
    uint32_t chunk = t->low + low * t->step;
    GPU_ROLL
    for (uint32_t i = 1; i < t->step && chunk < t->high && sum_before(table_sum(t, y, chunk + 1), y, m); i++)
        chunk++;
    return chunk;
}

GPU_FN uint64_t list_of(uint64_t lists, uint32_t n_chunks, int y)
{
    return lists + (y ? (uint64_t)n_chunks * CHUNK * sizeof(uint16_t) : 0);
}

/* Place of candidate m, which is in the chunk; `sum` is the chunk's. */
GPU_FN uint32_t listed_place(uint64_t list, int y, uint32_t chunk, uint32_t sum, uint32_t m)
{
    const uint32_t base = chunk * CHUNK, at = base + (y ? sum - m : m - sum - 1);
    return base + ((const GPU_GLOBAL uint16_t *)list)[at];
}

#define EACH (CHUNK / BLOCK) /* values of a thread, side by side */

/* Which of a thread's values from `place` on are candidates: X in the low byte, Y in the high one. */
GPU_FN uint32_t classify(const float *v, int32_t place, int32_t first, int32_t last, float pivot)
{
    uint32_t bits = 0;

    GPU_UNROLL
    for (int i = 0; i < EACH; i++)
        bits |= (v[i] <= pivot ? 1u << i : 0) | (v[i] >= pivot ? 256u << i : 0);
    if (place < first)
        bits &= first - place < EACH ? (0xffu << (first - place) & 0xff) * 257 : 0;
    if (place + EACH - 1 > last)
        bits &= last >= place ? (0xffu >> (place + EACH - 1 - last)) * 257 : 0;
    return bits;
}

/* Numbers of X and Y of classify(), in the halves of a word. */
GPU_FN uint32_t count_both(uint32_t bits)
{
    return gpu_popc32(bits & 0xff) | gpu_popc32(bits & 0xff00) << 16;
}

/* A thread's candidates X, or Y, take their partners' values. The first of them has number `number`. */
GPU_FN void take_partners(const Round *r, const Table *t, const int y, uint32_t bits, uint32_t number, float *v)
{
    const uint64_t list = list_of(r->old_lists, r->n_chunks, !y);
    uint32_t chunk = ~0u, sum = 0, places[EACH];

    GPU_UNROLL
    for (int i = 0; i < EACH; i++) {
        places[i] = NO_PLACE;
        if (!(bits >> i & 1))
            continue;
        if (number <= (uint32_t)r->exchanges) {
            /* Neighbours' partners are neighbours, mostly of one chunk. */
            if (chunk == ~0u || !sum_before(sum, !y, number)) {
                chunk = find_chunk(t, !y, number);
                sum = table_sum(t, !y, chunk);
            }
            places[i] = listed_place(list, !y, chunk, sum, number);
        }
        number += y ? ~0u : 1;
    }
    GPU_UNROLL
    for (int i = 0; i < EACH; i++)
        if (places[i] != NO_PLACE)
            v[i] = ((const GPU_GLOBAL float *)r->from)[places[i]];
}

/* Applies the pending round to a thread's values of the chunk. */
GPU_FN void exchange(const Round *r, const Table *t, uint32_t chunk, float *v, int32_t place)
{
    if (chunk < t->low || chunk > t->high)
        return;
    const uint32_t bits = classify(v, place, r->old_first, r->old_last, r->old_pivot);
    const uint32_t x = table_sum(t, 0, chunk), y = table_sum(t, 1, chunk), exchanges = (uint32_t)r->exchanges;
    uint32_t all;
    const uint32_t before = gpu_block_scan32(count_both(bits), &all, BLOCK);

    if ((all & 0xffff) && x < exchanges)
        take_partners(r, t, 0, bits & 0xff, x + (before & 0xffff) + 1, v);
    if (all >> 16 && y - (all >> 16) < exchanges)
        take_partners(r, t, 1, bits >> 8, y - (before >> 16), v);
}

GPU_FN void load_values(uint64_t plane, uint32_t n, int32_t place, float *v)
{
    if ((uint32_t)place + EACH <= n) {
        gpu_read_floats(plane + (uint64_t)place * sizeof(float), v);
        gpu_read_floats(plane + (uint64_t)(place + 4) * sizeof(float), v + 4);
        return;
    }
    GPU_UNROLL
    for (int i = 0; i < EACH; i++)
        v[i] = (uint32_t)(place + i) < n ? ((const GPU_GLOBAL float *)plane)[place + i] : 0;
}

/* Places begin .. end only. */
GPU_FN void store_values(uint64_t plane, int32_t begin, int32_t end, int32_t place, const float *v)
{
    if (place >= begin && place + EACH - 1 <= end) {
        gpu_write_floats(plane + (uint64_t)place * sizeof(float), v);
        gpu_write_floats(plane + (uint64_t)(place + 4) * sizeof(float), v + 4);
        return;
    }
    GPU_UNROLL
    for (int i = 0; i < EACH; i++)
        if (place + i >= begin && place + i <= end)
            ((GPU_GLOBAL float *)plane)[place + i] = v[i];
}

/* A thread's candidates, from number `at` in the chunk, less 1, into the chunk's list in shared memory. */
GPU_FN void list_in_order(uint16_t *list, uint32_t bits, uint32_t at)
{
    GPU_UNROLL
    for (int i = 0; i < EACH; i++) {
        if (bits >> i & 1)
            list[at] = (uint16_t)(EACH * gpu_tid(0) + (uint32_t)i);
        at += bits >> i & 1;
    }
}

/* The block: a list of n places from shared memory to its place. What comes behind it there is never read. */
GPU_FN void store_list(uint64_t list, uint32_t chunk, const uint16_t *from, uint32_t n)
{
    const uint32_t own = EACH * gpu_tid(0);

    if (own < n)
        gpu_store128(list + ((uint64_t)chunk * CHUNK + own) * sizeof(uint16_t), gpu_shared128(from + own));
}

/* Lists the chunk's candidates. */
GPU_FN void list_candidates(const VgCambiPoolScale *scale, const Round *r, uint32_t chunk, const float *v,
                            int32_t place)
{
    uint16_t *const xs = (uint16_t *)((VgCambiCandidates *)gpu_dynamic_shared() + VG_CAMBI_TABLE);
    uint16_t *const ys = xs + CHUNK;
    const uint32_t bits = classify(v, place, r->first, r->last, r->pivot);
    const int32_t top = (int32_t)scale->top - place;
    uint32_t all;
    const uint32_t before = gpu_block_scan32(count_both(bits), &all, BLOCK);

    list_in_order(xs, bits & 0xff, before & 0xffff);
    list_in_order(ys, bits >> 8, before >> 16);
    if (top >= 0 && top < EACH) {
        const uint32_t lower = count_both(bits & ((1u << top) - 1) * 257);
        state_of(scale)->top_x = (before & 0xffff) + (lower & 0xffff);
        state_of(scale)->top_y = (before >> 16) + (lower >> 16);
    }
    gpu_barrier();
    store_list(list_of(r->lists, r->n_chunks, 0), chunk, xs, all & 0xffff);
    store_list(list_of(r->lists, r->n_chunks, 1), chunk, ys, all >> 16);
    if (gpu_tid(0) == 0)
        ((GPU_GLOBAL uint32_t *)r->counts)[chunk] = all;
}

/* A pass: applies the pending round, if there is one, and finds the candidates of the next. */
GPU_FN void pass(const VgCambiPoolScale *scale, const Round *r, uint32_t block, uint32_t n_blocks)
{
    const uint32_t last_chunk = (uint32_t)r->last / CHUNK, own = EACH * gpu_tid(0);
    const Table t = table_of(scale, r->old_sums, r->old_first, r->old_last);
    uint32_t c = (uint32_t)r->begin / CHUNK + block;
    float v[EACH], next[EACH];

    if (c > last_chunk)
        return;
    load_values(r->from, scale->n, (int32_t)(c * CHUNK + own), next);
    if (r->pending)
        load_table(&t);
    GPU_ROLL
    for (; c <= last_chunk; c += n_blocks) {
        const int32_t begin = (int32_t)(c * CHUNK), place = begin + (int32_t)own;

        GPU_UNROLL
        for (int i = 0; i < EACH; i++)
            v[i] = next[i];
        if (c + n_blocks <= last_chunk)
            load_values(r->from, scale->n, place + (int32_t)(n_blocks * CHUNK), next);
        if (r->pending) {
            exchange(r, &t, c, v, place);
            store_values(r->to, r->begin, r->last, place, v);
        }
        if (r->find && begin <= r->last && begin + CHUNK > r->first)
            list_candidates(scale, r, c, v, place);
    }
}

/* ---- Decisions ----------------------------------------------------------------------------------------------------- */

/* The block: sums of candidates from the chunks' counts. Gives the chunk in which X_m <= Y_m ends to hold. */
GPU_FN uint32_t scan_counts(const Table *t, uint64_t counts_address, uint32_t *all_x, uint32_t *all_y)
{
    GPU_SHARED uint32_t turning;
    const GPU_GLOBAL uint32_t *const counts = (const GPU_GLOBAL uint32_t *)counts_address;
    GPU_GLOBAL VgCambiCandidates *const sums = (GPU_GLOBAL VgCambiCandidates *)t->all;
    const uint32_t each = (t->high - t->low + BLOCK) / BLOCK, first = t->low + gpu_tid(0) * each;
    const uint32_t end = first + each < t->high + 1 ? first + each : t->high + 1;
    uint32_t x = 0, y = 0, n[4];

    GPU_ROLL
    for (uint32_t c = first; c < end; c += 4) {
        GPU_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            n[i] = c + i < end ? counts[c + i] : 0;
        GPU_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            x += n[i] & 0xffff;
            y += n[i] >> 16;
        }
    }
    x = gpu_block_scan32(x, all_x, BLOCK);
    y = gpu_block_scan32(y, all_y, BLOCK);
    y = *all_y - y;
    GPU_ROLL
    for (uint32_t c = first; c < end; c++) {
        const uint32_t own = each <= 4 ? n[0] : counts[c];
        n[0] = n[1], n[1] = n[2], n[2] = n[3];
        const uint32_t next_x = x + (own & 0xffff), next_y = y - (own >> 16);
        sums[c].x = x;
        sums[c].y = y;
        if ((c - t->low) % t->step == 0) {
            t->entries[(c - t->low) / t->step].x = x;
            t->entries[(c - t->low) / t->step].y = y;
        }
        if (y >= x && next_y < next_x)
            turning = c;
        x = next_x;
        y = next_y;
    }
    gpu_barrier();
    return turning;
}

/* The block: the largest m with X_m <= Y_m, that is, with m or more Y from X_m on. */
GPU_FN uint32_t count_exchanges(const Table *t, const Round *r, uint32_t chunk)
{
    const uint32_t x = table_sum(t, 0, chunk), y = table_sum(t, 1, chunk);
    const uint32_t n = ((const GPU_GLOBAL uint32_t *)r->counts)[chunk], n_x = n & 0xffff, n_y = n >> 16;
    const GPU_GLOBAL uint16_t *const xs =
        (const GPU_GLOBAL uint16_t *)list_of(r->lists, r->n_chunks, 0) + (uint64_t)chunk * CHUNK;
    const GPU_GLOBAL uint16_t *const ys =
        (const GPU_GLOBAL uint16_t *)list_of(r->lists, r->n_chunks, 1) + (uint64_t)chunk * CHUNK;
    uint32_t all, held = 0;

    GPU_UNROLL
    for (uint32_t k = 0; k < EACH; k++) {
        const uint32_t i = k * BLOCK + gpu_tid(0), m = x + i + 1; /* X_m is xs[i] */
        if (i < n_x && m <= y - n_y)
            held++;
        else if (i < n_x && m <= y)
            held += xs[i] <= ys[y - m];
    }
    gpu_block_scan32(held, &all, BLOCK);
    return x + all;
}

/* What a decision asks for, a thread a place: X_m, X_m+1, Y_m, Y_m+1, and where the next pivot stands before the round. */
GPU_FN int32_t place_asked(const Table *t, const Round *r, uint32_t asked, uint32_t m, uint32_t all_x, uint32_t all_y,
                           const VgCambiPoolScale *scale)
{
    int y = asked >= 2;
    uint32_t number = m + asked % 2;

    if (asked == 4) {
        const uint32_t chunk = scale->top / CHUNK;
        const uint32_t top_x = table_sum(t, 0, chunk) + state_of(scale)->top_x + 1;
        const uint32_t top_y = table_sum(t, 1, chunk) - state_of(scale)->top_y;
        if (top_x > m && top_y > m)
            return (int32_t)scale->top;
        y = top_x <= m; /* X number top_x takes the value of Y number top_x */
        number = y ? top_x : top_y;
    }
    if (number > (y ? all_y : all_x))
        return y ? -1 : NO_PLACE;
    const uint32_t chunk = find_chunk(t, y, number);
    return (int32_t)listed_place(list_of(r->lists, r->n_chunks, y), y, chunk, table_sum(t, y, chunk), number);
}

/* The block, after a pass that looked for candidates: decides the round. */
GPU_FN void decide(const VgCambiPoolScale *scale, const Round *r)
{
    GPU_SHARED int32_t places[5];
    GPU_SHARED float next_pivot;
    GPU_GLOBAL VgCambiPoolState *const state = state_of(scale);
    const int32_t top = (int32_t)scale->top;
    const uint32_t size = (uint32_t)(r->last - r->first + 1);
    const Table t = table_of(scale, r->sums, r->first, r->last);
    uint32_t all_x, all_y;
    const uint32_t chunk = scan_counts(&t, r->counts, &all_x, &all_y);

    if (all_x == size && all_y == size) { /* nothing but the pivot: no round changes anything */
        if (gpu_tid(0) == 0) {
            state->first = top;
            state->last = top;
            state->phase = VG_CAMBI_SUM;
        }
        return;
    }
    const uint32_t m = count_exchanges(&t, r, chunk);
    if (gpu_tid(0) < 5) {
        const int32_t place = place_asked(&t, r, gpu_tid(0), m, all_x, all_y, scale);
        places[gpu_tid(0)] = place;
        if (gpu_tid(0) == 4)
            next_pivot = ((const GPU_GLOBAL float *)(r->pending ? r->to : r->from))[place];
    }
    gpu_barrier();
    if (gpu_tid(0))
        return;
    int32_t i = places[1] < places[2] ? places[1] : places[2], j = places[3] > places[0] ? places[3] : places[0];
    if (places[0] == places[2]) {
        i = places[0] + 1;
        j = places[0] - 1;
    }
    state->old_first = r->first;
    state->old_last = r->last;
    state->old_pivot = r->pivot;
    state->exchanges = (int32_t)m;
    state->pending = 1;
    state->pivot = next_pivot;
    if (j < top)
        state->first = i;
    if (top < i)
        state->last = j;
    /* A range of nothing but the least or the largest value of the one before is a range of one value. */
    if (j < top ? all_y == size : top < i && all_x == size) {
        state->first = top;
        state->last = top;
    }
}

/* The block that sees all of a pass: what comes next. */
GPU_FN void advance(const VgCambiPoolScale *scale, const Round *r)
{
    GPU_GLOBAL VgCambiPoolState *const state = state_of(scale);

    if (gpu_tid(0) == 0) {
        if (r->pending) {
            state->source = !state->source;
            state->away = r->old_first;
        }
        state->pending = 0;
        if (r->find)
            state->parity = !state->parity;
        else if (r->first >= r->last)
            state->phase = VG_CAMBI_SUM;
    }
    if (r->find)
        decide(scale, r);
}

GPU_KERNEL_RESIDENT(cambi_pool_round, VgCambiPoolArgs, VG_CAMBI_POOL_BLOCK, 2)
{
    const Part part = part_of_block(&args);
    const VgCambiPoolScale *const scale = &args.scales[part.scale];

    if (state_of(scale)->phase != VG_CAMBI_PERMUTE)
        return;
    const Round r = round_of(scale, (int)args.find);
    pass(scale, &r, part.block, part.n_blocks);
    if (gpu_last_block(scale->state + offsetof(VgCambiPoolState, round_blocks), part.n_blocks))
        advance(scale, &r);
}

/* ---- The rest of the permutation, by one block -------------------------------------------------------------------- */

/* Range of a round in shared memory. */
typedef struct Range {
    int32_t first, last;
} Range;

/* The candidates of the range, as far as they can change places, in order of their numbers. */
GPU_FN void list_in_shared(const float *v, Range range, float pivot, uint16_t *xs, uint16_t *ys, uint32_t *all_x,
                           uint32_t *all_y)
{
    const int32_t each = (range.last - range.first + BLOCK) / BLOCK;
    const int32_t first = range.first + (int32_t)gpu_tid(0) * each;
    const int32_t end = first + each < range.last + 1 ? first + each : range.last + 1;
    uint32_t both = 0, all;

    GPU_ROLL
    for (int32_t i = first; i < end; i++)
        both += (v[i] <= pivot) + (v[i] >= pivot ? 0x10000u : 0);
    both = gpu_block_scan32(both, &all, BLOCK);
    *all_x = all & 0xffff;
    *all_y = all >> 16;
    uint32_t x = both & 0xffff, y = *all_y - (both >> 16);
    GPU_ROLL
    for (int32_t i = first; i < end; i++) {
        if (v[i] <= pivot) {
            if (x < VG_CAMBI_FINISH_LIST)
                xs[x] = (uint16_t)i;
            x++;
        }
        if (v[i] >= pivot) {
            y--;
            if (y < VG_CAMBI_FINISH_LIST)
                ys[y] = (uint16_t)i;
        }
    }
    gpu_barrier();
}

/* A round in shared memory. `range` is shared; `top` is where the pivot is. */
GPU_FN void shared_round(float *v, Range *range, int32_t top, uint16_t *xs, uint16_t *ys)
{
    uint32_t all_x, all_y;

    const Range now = *range;
    list_in_shared(v, now, v[top], xs, ys, &all_x, &all_y);
    if (all_x == (uint32_t)(now.last - now.first + 1) && all_y == all_x) { /* nothing but the pivot */
        if (gpu_tid(0) == 0)
            range->first = now.last;
        gpu_barrier();
        return;
    }
    const uint32_t both = all_x < all_y ? all_x : all_y;
    GPU_ROLL
    for (uint32_t m = gpu_tid(0); m < both && m + 1 < VG_CAMBI_FINISH_LIST; m += BLOCK) { /* numbers less 1 */
        const int32_t x = xs[m], y = ys[m];
        const int32_t next_x = m + 1 < all_x ? xs[m + 1] : NO_PLACE, next_y = m + 1 < all_y ? ys[m + 1] : -1;
        if (x > y)
            break;
        const float value = v[x];
        v[x] = v[y];
        v[y] = value;
        if (next_x <= next_y)
            continue;
        /* The last exchange. */
        int32_t i = next_x < y ? next_x : y, j = next_y > x ? next_y : x;
        if (x == y) {
            i = x + 1;
            j = x - 1;
        }
        if (j < top)
            range->first = i;
        if (top < i)
            range->last = j;
    }
    gpu_barrier();
}

/* Rounds of a range that fits. */
GPU_FN void permute_in_shared(const VgCambiPoolScale *scale, const Round *r)
{
    GPU_SHARED Range range;
    float *const v = (float *)gpu_dynamic_shared();
    uint16_t *const xs = (uint16_t *)(v + VG_CAMBI_FINISH_VALUES), *const ys = xs + VG_CAMBI_FINISH_LIST;
    GPU_GLOBAL float *const plane = (GPU_GLOBAL float *)r->from;
    const int32_t top = (int32_t)scale->top, n = r->last - r->first + 1;

    for (int32_t i = (int32_t)gpu_tid(0); i < n; i += BLOCK)
        v[i] = plane[r->first + i];
    if (gpu_tid(0) == 0) {
        range.first = 0;
        range.last = n - 1;
    }
    gpu_barrier();
    GPU_ROLL
    while (range.first < range.last)
        shared_round(v, &range, top - r->first, xs, ys);
    for (int32_t i = (int32_t)gpu_tid(0); i < n && r->first + i < top; i += BLOCK)
        plane[r->first + i] = v[i];
}

GPU_FN void permute(const VgCambiPoolScale *scale)
{
    while (state_of(scale)->phase == VG_CAMBI_PERMUTE) {
        Round r = round_of(scale, 1);
        const int fits = r.last - r.first < VG_CAMBI_FINISH_VALUES;
        gpu_barrier(); /* all have read the state */
        if (fits && !r.pending) {
            permute_in_shared(scale, &r);
            if (gpu_tid(0) == 0)
                state_of(scale)->phase = VG_CAMBI_SUM;
        } else {
            r.find = r.find && !fits;
            pass(scale, &r, 0, 1);
            gpu_barrier();
            advance(scale, &r);
        }
        gpu_barrier();
    }
}

/* ---- Sums in order ------------------------------------------------------------------------------------------------ */

GPU_FN GpuOrdered ordered_of_scale(const VgCambiPoolScale *scale)
{
    const GPU_GLOBAL VgCambiPoolState *const state = state_of(scale);
    GpuOrdered o;

    o.terms = scale->values[0];
    o.second = scale->values[1];
    o.away = state->source ? state->away : (int64_t)scale->n;
    o.chunks = scale->ordered;
    o.n = scale->top;
    o.n_chunks = scale->n_ordered;
    return o;
}

/* One wave, when all grouped runs are there. */
GPU_FN void store_ordered_sum(const VgCambiPoolArgs *args, int s)
{
    const GpuOrdered o = ordered_of_scale(&args->scales[s]);

    if (gpu_tid(0) >= gpu_wave())
        return;
    const double sum = gpu_ordered_fold(&o, 1, 1);
    if (gpu_tid(0) == 0)
        ((GPU_GLOBAL double *)args->sums)[s] = sum;
}

GPU_KERNEL(cambi_pool_finish, VgCambiPoolArgs, VG_CAMBI_POOL_BLOCK)
{
    const int s = (int)gpu_bid(0);
    const VgCambiPoolScale *const scale = &args.scales[s];

    permute(scale);
    if (!args.sum_here || state_of(scale)->phase != VG_CAMBI_SUM)
        return;
    const GpuOrdered o = ordered_of_scale(scale);
    gpu_ordered_sums(&o, 1, 0, 1, BLOCK);
    gpu_barrier();
    gpu_ordered_exponents(&o, EXACT_EXPONENT, BLOCK);
    gpu_barrier();
    gpu_ordered_grouped_runs(&o, 1, 0, 1, BLOCK);
    gpu_barrier();
    store_ordered_sum(&args, s);
}

GPU_KERNEL_RESIDENT(cambi_pool_chunks, VgCambiPoolArgs, VG_CAMBI_POOL_BLOCK, 3)
{
    const Part part = part_of_block(&args);
    const VgCambiPoolScale *const scale = &args.scales[part.scale];

    if (state_of(scale)->phase != VG_CAMBI_SUM)
        return;
    const GpuOrdered o = ordered_of_scale(scale);
    gpu_ordered_sums(&o, 1, part.block, part.n_blocks, BLOCK);
    if (gpu_last_block(scale->state + offsetof(VgCambiPoolState, chunk_blocks), part.n_blocks))
        gpu_ordered_exponents(&o, EXACT_EXPONENT, BLOCK);
}

GPU_KERNEL_RESIDENT(cambi_pool_ordered, VgCambiPoolArgs, VG_CAMBI_POOL_BLOCK, 2)
{
    const Part part = part_of_block(&args);
    const VgCambiPoolScale *const scale = &args.scales[part.scale];

    if (state_of(scale)->phase != VG_CAMBI_SUM)
        return;
    const GpuOrdered o = ordered_of_scale(scale);
    gpu_ordered_grouped_runs(&o, 1, part.block, part.n_blocks, BLOCK);
    if (gpu_last_block(scale->state + offsetof(VgCambiPoolState, ordered_blocks), part.n_blocks))
        store_ordered_sum(&args, part.scale);
}

#undef BLOCK
#undef CHUNK
#undef EACH
#undef EXACT_EXPONENT
#undef AHEAD
#undef NO_PLACE
