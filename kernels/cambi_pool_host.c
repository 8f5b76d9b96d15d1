/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * CAMBI's pooling: work memory and launches. Always two for the selection and one that leaves nothing of the permutation
 * to be done. For large planes also those of the permutation's first rounds and two for sums in order. All leave at once
 * when there is nothing to do.
 */
#include "kernels/cambi_pool_host.h"

#include <string.h>

/* A permutation of so many values or fewer is one block's work, in a frame of large planes and in others. Sums of smaller
   planes are practically never made in order: they get no launches for it. */
#define SPREAD_FRAME (1u << 21)
#define SPREAD       (1u << 17)

/* After so many rounds a plane of 4K is down to what one block does in little time. */
#define ROUNDS 10

/* Blocks of kernels that go over large planes: as many as an H200 holds of a round's at once; so many that each wave has two
   of the chunks that are summed at 4K. */
#define MOST_BLOCKS         264
#define MOST_ORDERED_BLOCKS 304

typedef struct Layout {
    VgCambiPoolScale scales[VG_CAMBI_SCALES]; /* addresses are offsets */
    uint64_t cleared, size;                   /* bytes that are zero between frames, at the beginning; all bytes */
} Layout;

static uint32_t n_values(const VgCambiParams *p, int side, int scale)
{
    const VgCambiSide *s = &p->sides[side];
    return (uint32_t)vg_cambi_size(s->width, p->speedup, scale) * (uint32_t)vg_cambi_size(s->height, p->speedup, scale);
}

/* For the larger of both sides. */
static Layout layout_of(const VgCambiParams *p)
{
    Layout l = { .size = 0 };

    for (int s = 0; s < VG_CAMBI_SCALES; s++) {
        l.scales[s].state = vg_take(&l.size, sizeof(VgCambiPoolState));
        l.scales[s].high = vg_take(&l.size, VG_CAMBI_HIGH_BINS * sizeof(uint32_t));
        l.scales[s].low = vg_take(&l.size, VG_CAMBI_LOW_BINS * sizeof(uint32_t));
    }
    l.cleared = l.size;
    for (int s = 0; s < VG_CAMBI_SCALES; s++) {
        VgCambiPoolScale *const scale = &l.scales[s];
        const uint32_t a = n_values(p, 0, s), b = n_values(p, 1, s), n = a > b ? a : b;
        const uint32_t n_chunks = vg_divide_up(n, VG_CAMBI_CHUNK);
        scale->values[1] = vg_take(&l.size, n * sizeof(float));
        for (int i = 0; i < 2; i++) {
            scale->sums[i] = vg_take(&l.size, n_chunks * sizeof(VgCambiCandidates));
            scale->lists[i] = vg_take(&l.size, (uint64_t)n_chunks * VG_CAMBI_CHUNK * 2 * sizeof(uint16_t));
        }
        scale->counts = vg_take(&l.size, n_chunks * sizeof(uint32_t));
        scale->ordered = vg_take(&l.size, vg_divide_up(n, VG_ORDERED_CHUNK) * sizeof(VgOrderedChunk));
    }
    return l;
}

size_t vg_cambi_pool_work_size(const VgCambiParams *params)
{
    return (size_t)layout_of(params).size;
}

void vg_cambi_pool_planes(const VgCambiParams *params, int scale, uint64_t *state, uint64_t *second)
{
    const Layout l = layout_of(params);
    *state = l.scales[scale].state;
    *second = l.scales[scale].values[1];
}

int vg_cambi_pool_plan(const VgCambiParams *params, const VgLauncher *launcher, uint64_t work)
{
    return launcher->fill(launcher->context, work, 0, (size_t)layout_of(params).cleared);
}

static void set_scales(VgCambiPoolArgs *args, const VgCambiParams *p, int side, const uint64_t *values, uint64_t work,
                       const VgCambiPoolTuning *tuning)
{
    const Layout l = layout_of(p);

    for (int s = 0; s < VG_CAMBI_SCALES; s++) {
        VgCambiPoolScale *const scale = &args->scales[s];
        *scale = l.scales[s];
        scale->values[0] = values[s];
        scale->values[1] += work;
        for (int i = 0; i < 2; i++) {
            scale->sums[i] += work;
            scale->lists[i] += work;
        }
        scale->counts += work;
        scale->ordered += work;
        scale->high += work;
        scale->low += work;
        scale->state += work;
        scale->n = n_values(p, side, s);
        scale->top = (uint32_t)p->sides[side].top[s];
        scale->n_chunks = vg_divide_up(scale->n, VG_CAMBI_CHUNK);
        scale->n_ordered = vg_divide_up(scale->top, VG_ORDERED_CHUNK);
        scale->in_order = tuning->ordered_always ||
                          vg_cambi_sum_may_overflow(p->sides[side].top[s], p->n_differences, p->sides[side].window);
        scale->table = tuning->table;
        scale->spread = args->scales[0].n > tuning->spread_frame && scale->n > tuning->spread && scale->top < scale->n;
    }
}

/* Launches a kernel with as many blocks for each scale as there are pieces of it, up to a limit. */
static int launch(const VgLauncher *launcher, const char *kernel, VgCambiPoolArgs *args,
                  uint32_t pieces(const VgCambiPoolScale *), uint32_t most, uint32_t shared)
{
    for (int s = 0; s < VG_CAMBI_SCALES; s++) {
        const uint32_t n = pieces(&args->scales[s]);
        args->first_block[s + 1] = args->first_block[s] + (n < most ? n : most);
    }
    const uint32_t blocks = args->first_block[VG_CAMBI_SCALES];
    return vg_launch(launcher, kernel, blocks, VG_CAMBI_POOL_BLOCK, shared, args, sizeof(*args));
}

static uint32_t bins_pieces(const VgCambiPoolScale *scale)
{
    return vg_divide_up(scale->n, VG_CAMBI_BINS_VALUES);
}

/* Of four chunks; of more for the largest scales, if the blocks' limit demands it. */
static uint32_t round_pieces(const VgCambiPoolScale *scale)
{
    return scale->spread ? vg_divide_up(scale->n_chunks, 4) : 0;
}

static uint32_t finish_pieces(const VgCambiPoolScale *scale)
{
    (void)scale;
    return 1;
}

static uint32_t chunks_pieces(const VgCambiPoolScale *scale)
{
    return vg_divide_up(scale->n_ordered, VG_CAMBI_POOL_BLOCK / 32);
}

static uint32_t ordered_pieces(const VgCambiPoolScale *scale)
{
    return vg_divide_up(scale->n_ordered, 32);
}

int vg_cambi_pool_enqueue(const VgCambiParams *params, int side, const VgLauncher *launcher,
                          const uint64_t values[VG_CAMBI_SCALES], uint64_t totals, uint64_t work, uint64_t record,
                          const VgCambiPoolTuning *tuning)
{
    static const VgCambiPoolTuning best = { SPREAD_FRAME, SPREAD, ROUNDS, 0, VG_CAMBI_TABLE };
    const VgCambiPoolTuning *const t = tuning ? tuning : &best;
    VgCambiPoolArgs args;

    memset(&args, 0, sizeof(args)); /* the copies that kernels get have no bytes of chance */
    set_scales(&args, params, side, values, work, t);
    args.totals = totals;
    args.sums = record + offsetof(VgCambiRecord, sums) + (uint64_t)side * sizeof(((VgCambiRecord *)0)->sums[0]);
    const int spread = args.scales[0].n > t->spread_frame;
    args.sum_here = !spread;
    int err = launch(launcher, "cambi_pool_bins", &args, bins_pieces, UINT32_MAX,
                     VG_CAMBI_HIGH_BINS * (uint32_t)sizeof(uint16_t));
    if (!err)
        err = launch(launcher, "cambi_pool_select", &args, bins_pieces, UINT32_MAX,
                     VG_CAMBI_LOW_BINS * (uint32_t)sizeof(uint16_t));
    /* The first pass only finds candidates, the last one leaves the next round to the kernel behind it. */
    for (uint32_t pass = 0; !err && args.scales[0].spread && pass <= t->rounds; pass++) {
        args.find = pass < t->rounds;
        err = launch(launcher, "cambi_pool_round", &args, round_pieces, MOST_BLOCKS, VG_CAMBI_ROUND_SHARED);
    }
    if (!err)
        err = launch(launcher, "cambi_pool_finish", &args, finish_pieces, 1, VG_CAMBI_FINISH_SHARED);
    if (!err && spread)
        err = launch(launcher, "cambi_pool_chunks", &args, chunks_pieces, MOST_ORDERED_BLOCKS, 0);
    if (!err && spread)
        err = launch(launcher, "cambi_pool_ordered", &args, ordered_pieces, MOST_ORDERED_BLOCKS, 0);
    return err;
}
