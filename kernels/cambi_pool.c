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
#define WORDS (CHUNK / 32) /* of a chunk's mask */

/* Below 2^29, which is 2^53 units of 2^-24, nothing rounds. */
#define EXACT_EXPONENT 28

/* What a block works on: piece `block` of n_blocks of a scale. */
typedef struct Part {
    int scale;
    uint32_t block, n_blocks;
} Part;

GPU_FN Part part_of_block(const VgCambiPoolArgs *args)
{
    Part part = { 0, 0, 0 };

    GPU_UNROLL
    for (int s = 0; s < VG_CAMBI_SCALES; s++)
        if (gpu_bid(0) >= args->first_block[s]) {
            part.scale = s;
            part.block = gpu_bid(0) - args->first_block[s];
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
    if (scale->top == scale->n)
        return;
    state->phase = VG_CAMBI_PERMUTE;
    state->first = 0;
    state->last = (int32_t)scale->n - 1;
    state->pivot = ((const GPU_GLOBAL float *)scale->values[0])[scale->top];
    state->pending = 0;
    state->source = 0;
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
 */

#define NO_PLACE 0x7fffffff

/* The state as the threads of a pass see it. */
typedef struct Round {
    uint64_t from, to; /* planes; `to` is written if a round is pending */
    uint64_t old_candidates, old_masks, candidates, masks;
    int32_t begin, end; /* places that matter; of a pending round: the first of those to be copied */
    int32_t old_first, old_last, exchanges, pending;
    int32_t first, last, find;
    float old_pivot, pivot;
} Round;

GPU_FN Round round_of(const VgCambiPoolScale *scale, int find)
{
    const GPU_GLOBAL VgCambiPoolState *const state = state_of(scale);
    const int32_t source = state->source, parity = state->parity, top = (int32_t)scale->top;
    Round r;

    r.from = scale->values[source];
    r.to = scale->values[!source];
    r.old_candidates = scale->candidates[parity];
    r.old_masks = scale->masks[parity];
    r.candidates = scale->candidates[!parity];
    r.masks = scale->masks[!parity];
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
    r.end = r.pending && r.last < top - 1 ? top - 1 : r.last;
    return r;
}

/* A mask's word: bit i is place 32 * word + i of the chunk. It was written as bytes, lowest first. */
GPU_FN uint32_t mask_word(uint64_t masks, uint32_t n_chunks, int y, uint32_t chunk, uint32_t word)
{
    return ((const GPU_GLOBAL uint32_t *)masks)[((uint64_t)(y ? n_chunks : 0) + chunk) * WORDS + word];
}

GPU_FN uint32_t ballot_count(int p)
{
    const uint64_t lanes = gpu_ballot(p);
    return gpu_popc32((uint32_t)lanes) + gpu_popc32((uint32_t)(lanes >> 32));
}

/* Number of candidates X before the chunk, or of Y from it on. */
GPU_FN uint32_t candidates_of(uint64_t candidates, uint32_t chunk, int y)
{
    const GPU_GLOBAL VgCambiCandidates *const c = (const GPU_GLOBAL VgCambiCandidates *)candidates + chunk;
    return y ? c->y : c->x;
}

/* One wave: the chunk of candidate m, which exists, among chunks low .. high: the last one with x < m, or y >= m. */
GPU_FN uint32_t find_chunk(uint64_t candidates, int y, uint32_t m, uint32_t low, uint32_t high)
{
    while (low < high) {
        const uint32_t step = (high - low) / gpu_wave() + 1, probe = low + gpu_lane() * step;
        int before = 0;
        if (probe <= high)
            before = y ? candidates_of(candidates, probe, 1) >= m : candidates_of(candidates, probe, 0) < m;
        const uint32_t n = ballot_count(before);
        low += (n - 1) * step;
        high = low + step - 1 < high ? low + step - 1 : high;
    }
    return low;
}

/*
 * The block: places of candidates m_first .. m_first + n - 1 of the other kind, into positions[]. All exist. Y are
 * found going left from the chunk of m_first, X going right: m grows either way.
 */
GPU_FN void list_partners(const Round *r, uint32_t n_chunks, int y, uint32_t m_first, uint32_t n, uint32_t *positions)
{
    const uint32_t wave = gpu_wave(), n_waves = BLOCK / wave;
    const uint32_t low = (uint32_t)r->old_first / CHUNK, high = (uint32_t)r->old_last / CHUNK;
    uint32_t chunk = find_chunk(r->old_candidates, y, m_first, low, high);

    gpu_barrier(); /* positions[] may still be read */
    chunk += (y ? 0 - gpu_tid(0) / wave : gpu_tid(0) / wave);
    GPU_ROLL
    for (; chunk - low <= high - low; chunk += y ? 0 - n_waves : n_waves) {
        /* Candidates of this chunk: those before it, up to how many there are with it. */
        const uint32_t with_it = candidates_of(r->old_candidates, y ? chunk : chunk + 1, y);
        uint32_t before = candidates_of(r->old_candidates, y ? chunk + 1 : chunk, y);
        if (before >= m_first + n - 1)
            break;
        if (before == with_it)
            continue;
        GPU_ROLL
        for (uint32_t i = 0; i < WORDS; i += wave) {
            const uint32_t place = y ? WORDS - 1 - i - gpu_lane() : i + gpu_lane();
            const uint32_t word = mask_word(r->old_masks, n_chunks, y, chunk, place);
            const uint32_t own = gpu_popc32(word), sum = gpu_wave_scan32(own);
            const uint32_t all = gpu_shfl_idx32(sum, wave - 1);
            /* Number of the word's lowest bit, less m_first; numbers of Y fall from there on, those of X rise. */
            const uint32_t lowest = y ? before + sum - m_first : before + sum - own + 1 - m_first;
            const uint32_t base = chunk * CHUNK + 32 * place;
            if (all <= wave) { /* few: one by one */
                uint32_t at = lowest;
                for (uint32_t rest = word; rest; rest &= rest - 1) {
                    if (at < n)
                        positions[at] = base + gpu_popc32((rest & (0u - rest)) - 1);
                    at += y ? ~0u : 1;
                }
            } else { /* lanes begin at different bits, so that those with full words write to different banks */
                GPU_ROLL
                for (uint32_t k = 0; k < 32; k++) {
                    const uint32_t bit = (k + gpu_lane()) % 32, below = gpu_popc32(word & ((1u << bit) - 1));
                    const uint32_t at = y ? lowest - below : lowest + below;
                    if ((word >> bit & 1) && at < n)
                        positions[at] = base + bit;
                }
            }
            before += all;
        }
    }
    gpu_barrier();
}

/* Which of a thread's eight places from `place` on are candidates: X in the low byte, Y in the high one. */
GPU_FN uint32_t classify(const float *v, int32_t place, int32_t first, int32_t last, float pivot)
{
    uint32_t bits = 0;

    GPU_UNROLL
    for (int i = 0; i < 8; i++)
        if (place + i >= first && place + i <= last)
            bits |= (v[i] <= pivot ? 1u << i : 0) | (v[i] >= pivot ? 256u << i : 0);
    return bits;
}

/* Numbers of X and Y of classify(), in the halves of a word. */
GPU_FN uint32_t count_both(uint32_t bits)
{
    return gpu_popc32(bits & 0xff) | gpu_popc32(bits & 0xff00) << 16;
}

/* Applies the pending round to a thread's values of the chunk. */
GPU_FN void exchange(const Round *r, uint32_t n_chunks, uint32_t chunk, float *v, int32_t place)
{
    uint32_t *const positions = (uint32_t *)gpu_dynamic_shared();
    const GPU_GLOBAL float *const from = (const GPU_GLOBAL float *)r->from;
    const uint32_t bits = classify(v, place, r->old_first, r->old_last, r->old_pivot);
    const uint32_t exchanges = (uint32_t)r->exchanges;
    const uint32_t x = candidates_of(r->old_candidates, chunk, 0), y = candidates_of(r->old_candidates, chunk, 1);
    uint32_t all;
    const uint32_t before = gpu_block_scan32(count_both(bits), &all, BLOCK);
    const uint32_t all_x = all & 0xffff, all_y = all >> 16;

    if (all_x && x < exchanges) {
        const uint32_t n = all_x < exchanges - x ? all_x : exchanges - x;
        uint32_t at = before & 0xffff; /* number, less x + 1 */
        list_partners(r, n_chunks, 1, x + 1, n, positions);
        GPU_UNROLL
        for (int i = 0; i < 8; i++)
            if (bits >> i & 1) {
                if (at < n)
                    v[i] = from[positions[at]];
                at++;
            }
    }
    if (all_y && y - all_y < exchanges) {
        const uint32_t first = y - all_y + 1, n = y < exchanges ? all_y : exchanges - first + 1;
        uint32_t at = y - (before >> 16) - first; /* number, less that of the chunk's last Y */
        list_partners(r, n_chunks, 0, first, n, positions);
        GPU_UNROLL
        for (int i = 0; i < 8; i++)
            if (bits >> i & 256) {
                if (at < n)
                    v[i] = from[positions[at]];
                at--;
            }
    }
}

GPU_FN void load_values(uint64_t plane, uint32_t n, int32_t place, float *v)
{
    if ((uint32_t)place + 8 <= n) {
        gpu_read_floats(plane + (uint64_t)place * sizeof(float), v);
        gpu_read_floats(plane + (uint64_t)(place + 4) * sizeof(float), v + 4);
        return;
    }
    GPU_UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = (uint32_t)(place + i) < n ? ((const GPU_GLOBAL float *)plane)[place + i] : 0;
}

/* Places begin .. end only. */
GPU_FN void store_values(uint64_t plane, int32_t begin, int32_t end, int32_t place, const float *v)
{
    if (place >= begin && place + 7 <= end) {
        gpu_write_floats(plane + (uint64_t)place * sizeof(float), v);
        gpu_write_floats(plane + (uint64_t)(place + 4) * sizeof(float), v + 4);
        return;
    }
    GPU_UNROLL
    for (int i = 0; i < 8; i++)
        if (place + i >= begin && place + i <= end)
            ((GPU_GLOBAL float *)plane)[place + i] = v[i];
}

/* A pass: applies the pending round, if there is one, and finds the candidates of the next. */
GPU_FN void pass(const VgCambiPoolScale *scale, const Round *r, uint32_t block, uint32_t n_blocks)
{
    const uint32_t last_chunk = (uint32_t)r->end / CHUNK;

    GPU_ROLL
    for (uint32_t c = (uint32_t)r->begin / CHUNK + block; c <= last_chunk; c += n_blocks) {
        const int32_t place = (int32_t)(c * CHUNK + 8 * gpu_tid(0));
        float v[8];
        uint32_t all;

        load_values(r->from, scale->n, place, v);
        if (r->pending) {
            if (r->exchanges)
                exchange(r, scale->n_chunks, c, v, place);
            store_values(r->to, r->begin, r->end, place, v);
        }
        if (!r->find || (int32_t)(c * CHUNK) > r->last || (int32_t)(c * CHUNK) + CHUNK <= r->first)
            continue;
        const uint32_t bits = classify(v, place, r->first, r->last, r->pivot);
        GPU_GLOBAL uint8_t *const masks = (GPU_GLOBAL uint8_t *)r->masks;
        masks[c * (CHUNK / 8) + gpu_tid(0)] = (uint8_t)bits;
        masks[(uint64_t)(scale->n_chunks + c) * (CHUNK / 8) + gpu_tid(0)] = (uint8_t)(bits >> 8);
        gpu_block_scan32(count_both(bits), &all, BLOCK);
        if (gpu_tid(0) == 0) {
            GPU_GLOBAL VgCambiCandidates *const its = (GPU_GLOBAL VgCambiCandidates *)r->candidates + c;
            its->x = all & 0xffff;
            its->y = all >> 16;
        }
    }
}

/* ---- Decisions ----------------------------------------------------------------------------------------------------- */

/* What a decision is made from: candidates of places first .. last of a plane. */
typedef struct Decision {
    uint64_t candidates, masks, values;
    uint32_t n_chunks, low, high; /* chunks of the plane; first and last one of the range */
    uint32_t all_x, all_y;
} Decision;

/* The block: numbers of candidates become sums of them. Gives the chunk in which X_m <= Y_m ends to hold. */
GPU_FN uint32_t scan_candidates(Decision *d)
{
    GPU_SHARED uint32_t turning;
    GPU_GLOBAL VgCambiCandidates *const c = (GPU_GLOBAL VgCambiCandidates *)d->candidates;
    const uint32_t each = (d->high - d->low + BLOCK) / BLOCK;
    const uint32_t first = d->low + gpu_tid(0) * each;
    uint32_t x = 0, y = 0;

    for (uint32_t i = first; i < first + each && i <= d->high; i++) {
        x += c[i].x;
        y += c[i].y;
    }
    x = gpu_block_scan32(x, &d->all_x, BLOCK);
    y = gpu_block_scan32(y, &d->all_y, BLOCK);
    y = d->all_y - y;
    for (uint32_t i = first; i < first + each && i <= d->high; i++) {
        const uint32_t next_x = x + c[i].x, next_y = y - c[i].y;
        c[i].x = x;
        c[i].y = y;
        if (y >= x && next_y < next_x)
            turning = i;
        x = next_x;
        y = next_y;
    }
    if (gpu_tid(0) == 0) {
        c[d->high + 1].x = d->all_x;
        c[d->high + 1].y = 0;
    }
    gpu_barrier();
    return turning;
}

/* The block: the largest m with X_m <= Y_m, that is, with m or more Y from X_m on. */
GPU_FN uint32_t count_exchanges(const Decision *d, uint32_t chunk)
{
    const GPU_GLOBAL uint8_t *const masks = (const GPU_GLOBAL uint8_t *)d->masks;
    const uint32_t bits = masks[chunk * (CHUNK / 8) + gpu_tid(0)] |
                          (uint32_t)masks[(uint64_t)(d->n_chunks + chunk) * (CHUNK / 8) + gpu_tid(0)] << 8;
    uint32_t all, n = 0;
    const uint32_t before = gpu_block_scan32(count_both(bits), &all, BLOCK);
    uint32_t x = candidates_of(d->candidates, chunk, 0) + (before & 0xffff);
    uint32_t y = candidates_of(d->candidates, chunk, 1) - (before >> 16);

    GPU_UNROLL
    for (int i = 0; i < 8; i++) {
        x += bits >> i & 1;
        n += (bits >> i & 1) && y >= x;
        y -= bits >> i & 256 ? 1 : 0;
    }
    gpu_block_scan32(n, &all, BLOCK);
    return candidates_of(d->candidates, chunk, 0) + all;
}

/* One wave: the place of candidate m; beyond the range if there is none. */
GPU_FN int32_t place_of(const Decision *d, int y, uint32_t m)
{
    if (m > (y ? d->all_y : d->all_x))
        return y ? -1 : NO_PLACE;
    const uint32_t chunk = find_chunk(d->candidates, y, m, d->low, d->high);
    const uint32_t sum_before = candidates_of(d->candidates, chunk, y);
    uint32_t wanted = y ? sum_before - m + 1 : m - sum_before; /* number in the chunk, from the left */
    int32_t place = 0;

    GPU_ROLL
    for (uint32_t i = 0; i < WORDS; i += gpu_wave()) {
        uint32_t word = mask_word(d->masks, d->n_chunks, y, chunk, i + gpu_lane());
        const uint32_t own = gpu_popc32(word), sum = gpu_wave_scan32(own);
        const int here = sum - own < wanted && wanted <= sum;
        if (here) {
            for (uint32_t k = sum - own + 1; k < wanted; k++)
                word &= word - 1;
            place = (int32_t)(chunk * CHUNK + 32 * (i + gpu_lane()) + gpu_popc32((word & (0u - word)) - 1));
        }
        const uint64_t lanes = gpu_ballot(here), below = (lanes & (0 - lanes)) - 1;
        if (lanes)
            return (int32_t)gpu_shfl_idx32((uint32_t)place,
                                           gpu_popc32((uint32_t)below) + gpu_popc32((uint32_t)(below >> 32)));
        wanted -= gpu_shfl_idx32(sum, gpu_wave() - 1);
    }
    return place;
}

/* One wave: candidates of the chunk of a place that lie before it. */
GPU_FN uint32_t count_before(const Decision *d, int y, uint32_t place)
{
    uint32_t n = 0;

    GPU_ROLL
    for (uint32_t i = gpu_lane(); i < WORDS; i += gpu_wave()) {
        const uint32_t word = mask_word(d->masks, d->n_chunks, y, place / CHUNK, i), at = place % CHUNK;
        const uint32_t mask = i < at / 32 ? ~0u : i == at / 32 ? (1u << at % 32) - 1 : 0;
        n += gpu_popc32(word & mask);
    }
    return gpu_shfl_idx32(gpu_wave_scan32(n), gpu_wave() - 1);
}

/* One wave: where the value that the round leaves at a candidate's place stands before it. The pivot's is both X and Y. */
GPU_FN int32_t origin_of(const Decision *d, uint32_t place, uint32_t exchanges)
{
    const uint32_t x = candidates_of(d->candidates, place / CHUNK, 0) + count_before(d, 0, place) + 1;
    const uint32_t y = candidates_of(d->candidates, place / CHUNK, 1) - count_before(d, 1, place);

    if (x <= exchanges)
        return place_of(d, 1, x);
    return y <= exchanges ? place_of(d, 0, y) : (int32_t)place;
}

/* The block, after a pass that looked for candidates: decides the round. */
GPU_FN void decide(const VgCambiPoolScale *scale, const Round *r)
{
    GPU_SHARED int32_t places[5]; /* X_m, X_m+1, Y_m, Y_m+1, the next pivot's */
    GPU_GLOBAL VgCambiPoolState *const state = state_of(scale);
    const int32_t top = (int32_t)scale->top;
    Decision d;

    d.candidates = r->candidates;
    d.masks = r->masks;
    d.n_chunks = scale->n_chunks;
    d.low = (uint32_t)r->first / CHUNK;
    d.high = (uint32_t)r->last / CHUNK;
    const uint32_t chunk = scan_candidates(&d), m = count_exchanges(&d, chunk);
    GPU_ROLL
    for (uint32_t q = gpu_tid(0) / gpu_wave(); q < 5; q += BLOCK / gpu_wave()) {
        const int32_t place = q < 4 ? place_of(&d, q >= 2, m + q % 2) : origin_of(&d, (uint32_t)top, m);
        if (gpu_lane() == 0)
            places[q] = place;
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
    state->pivot = ((const GPU_GLOBAL float *)(r->pending ? r->to : r->from))[places[4]];
    if (j < top)
        state->first = i;
    if (top < i)
        state->last = j;
}

/* The block that sees all of a pass: what comes next. */
GPU_FN void advance(const VgCambiPoolScale *scale, const Round *r)
{
    GPU_GLOBAL VgCambiPoolState *const state = state_of(scale);
    const int second = (r->from == scale->values[1]) != r->pending; /* where the values are now */

    if (gpu_tid(0) == 0) {
        state->source = second;
        state->pending = 0;
        if (r->pending)
            state->away = r->old_first;
        if (r->find)
            state->parity = !state->parity;
        else if (r->first >= r->last && !second)
            state->phase = VG_CAMBI_SUM;
        else if (r->first >= r->last) {
            state->pending = 1; /* back to the first plane */
            state->exchanges = 0;
        }
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
GPU_FN void list_candidates(const float *v, Range range, float pivot, uint16_t *xs, uint16_t *ys, uint32_t *all_x,
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

    list_candidates(v, *range, v[top], xs, ys, &all_x, &all_y);
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

/* Rounds of a range that fits; then everything is in the first plane. */
GPU_FN void permute_in_shared(const VgCambiPoolScale *scale, const Round *r)
{
    GPU_SHARED Range range;
    float *const v = (float *)gpu_dynamic_shared();
    uint16_t *const xs = (uint16_t *)(v + VG_CAMBI_FINISH_VALUES), *const ys = xs + VG_CAMBI_FINISH_LIST;
    const GPU_GLOBAL float *const from = (const GPU_GLOBAL float *)r->from;
    GPU_GLOBAL float *const to = (GPU_GLOBAL float *)scale->values[0];
    const int32_t top = (int32_t)scale->top, n = r->last - r->first + 1;
    const int second = r->from == scale->values[1];

    for (int32_t i = (int32_t)gpu_tid(0); i < n; i += BLOCK)
        v[i] = from[r->first + i];
    if (second)
        for (int32_t i = state_of(scale)->away + (int32_t)gpu_tid(0); i < top; i += BLOCK)
            to[i] = from[i];
    if (gpu_tid(0) == 0) {
        range.first = 0;
        range.last = n - 1;
    }
    gpu_barrier();
    GPU_ROLL
    while (range.first < range.last)
        shared_round(v, &range, top - r->first, xs, ys);
    for (int32_t i = (int32_t)gpu_tid(0); i < n && r->first + i < top; i += BLOCK)
        to[r->first + i] = v[i];
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
    GpuOrdered o;
    o.terms = scale->values[0];
    o.chunks = scale->ordered;
    o.n = scale->top;
    o.n_chunks = scale->n_ordered;
    return o;
}

/* One block, when all runs are there. */
GPU_FN void store_ordered_sum(const VgCambiPoolArgs *args, int s)
{
    const GpuOrdered o = ordered_of_scale(&args->scales[s]);

    gpu_ordered_group(&o, BLOCK);
    gpu_barrier();
    if (gpu_tid(0) >= gpu_wave())
        return;
    const double sum = gpu_ordered_fold_groups(&o, 1);
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
    gpu_ordered_runs(&o, 1, 0, 1, BLOCK);
    gpu_barrier();
    store_ordered_sum(&args, s);
}

GPU_KERNEL_RESIDENT(cambi_pool_chunks, VgCambiPoolArgs, VG_CAMBI_POOL_BLOCK, 2)
{
    const Part part = part_of_block(&args);
    const VgCambiPoolScale *const scale = &args.scales[part.scale];
    const GpuOrdered o = ordered_of_scale(scale);

    if (state_of(scale)->phase != VG_CAMBI_SUM)
        return;
    gpu_ordered_sums(&o, 1, part.block, part.n_blocks, BLOCK);
    if (gpu_last_block(scale->state + offsetof(VgCambiPoolState, chunk_blocks), part.n_blocks))
        gpu_ordered_exponents(&o, EXACT_EXPONENT, BLOCK);
}

GPU_KERNEL_RESIDENT(cambi_pool_ordered, VgCambiPoolArgs, VG_CAMBI_POOL_BLOCK, 2)
{
    const Part part = part_of_block(&args);
    const VgCambiPoolScale *const scale = &args.scales[part.scale];
    const GpuOrdered o = ordered_of_scale(scale);

    if (state_of(scale)->phase != VG_CAMBI_SUM)
        return;
    gpu_ordered_runs(&o, 1, part.block, part.n_blocks, BLOCK);
    if (gpu_last_block(scale->state + offsetof(VgCambiPoolState, ordered_blocks), part.n_blocks))
        store_ordered_sum(&args, part.scale);
}

#undef BLOCK
#undef CHUNK
#undef WORDS
#undef EXACT_EXPONENT
#undef AHEAD
#undef NO_PLACE
