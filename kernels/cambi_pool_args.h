/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Parameters of the kernels that pool CAMBI's values, and what these have among themselves in work memory.
 */
#ifndef VG_KERNELS_CAMBI_POOL_ARGS_H
#define VG_KERNELS_CAMBI_POOL_ARGS_H

#include "kernels/args.h"
#include "shared_math/cambi.h"
#include "shared_math/ordered_sum.h"

/**
 * What is known of a plane of values before it is pooled: whoever makes the values adds to it by atomics. It is zero
 * before a frame, and pooling leaves it so. The sum may wrap if vg_cambi_sum_may_overflow(); it is not used then.
 */
typedef struct VgCambiTotals {
    uint64_t sum, bits; /* of vg_cambi_units() of all values: their sum, and the union of their bits */
    uint32_t nonzero;   /* number of values other than 0 */
    uint32_t reserved;
} VgCambiTotals;

#ifndef VG_CAMBI_POOL_BLOCK
#define VG_CAMBI_POOL_BLOCK 512 /* threads, of all kernels */
#endif

/* Selection. The key of a value is its bits less those of 0.5, the least one. Its upper part is a bin of the first kernel,
   the rest one of the second. There are bins for all values below 2^18. */
#define VG_CAMBI_LEAST_BITS  0x3f000000u
#define VG_CAMBI_LOW_BITS    14
#define VG_CAMBI_LOW_BINS    (1 << VG_CAMBI_LOW_BITS)
#define VG_CAMBI_HIGH_BINS   (19 << (23 - VG_CAMBI_LOW_BITS))
#define VG_CAMBI_BINS_VALUES 32768 /* of a block: so few that 16 bits count them */

/* Permutation: values of a chunk, eight to a thread. */
#define VG_CAMBI_CHUNK (8 * VG_CAMBI_POOL_BLOCK)

/* Sums of candidates that are kept in shared memory: of all chunks of 4K, or of every few of larger planes. */
#define VG_CAMBI_TABLE        2048
#define VG_CAMBI_ROUND_SHARED (8 * VG_CAMBI_TABLE + 4 * VG_CAMBI_CHUNK) /* and a chunk's lists */

/* A range of so many values is permuted in shared memory: the values and two lists of places. At most half of the values
   change places with the other half, or one with itself; the lists have the next candidate, too. */
#define VG_CAMBI_FINISH_VALUES 7168
#define VG_CAMBI_FINISH_LIST   (VG_CAMBI_FINISH_VALUES / 2 + 2)
#define VG_CAMBI_FINISH_SHARED (4 * VG_CAMBI_FINISH_VALUES + 4 * VG_CAMBI_FINISH_LIST)

/** What is still to be done for a scale. */
enum { VG_CAMBI_DONE, VG_CAMBI_SELECT, VG_CAMBI_PERMUTE, VG_CAMBI_SUM };

/** Of a chunk: numbers of candidates X before it and of Y from it on. */
typedef struct VgCambiCandidates {
    uint32_t x, y;
} VgCambiCandidates;

/**
 * Of a scale. Sums and counters are zero between frames; the first kernel sets the phase; the rest is written before it is
 * read.
 *
 * A round of the permutation has two halves. It is decided once its candidates X and Y are known: which of them change
 * places, and the range of the next round. It is applied by the next pass over the plane, which also finds the candidates
 * of the next round.
 */
typedef struct VgCambiPoolState {
    uint64_t sum, bits;   /* of values in higher bins than that of the last one summed */
    uint32_t bins_blocks; /* that are done */
    uint32_t select_blocks;
    uint32_t round_blocks;
    uint32_t chunk_blocks;
    uint32_t ordered_blocks;
    uint32_t phase;
    uint32_t bin, left;  /* upper part of the key of the last value summed; how many with this part are summed */
    int32_t first, last; /* range of the next round; decided if first >= last */
    int32_t old_first, old_last; /* of the round that is decided and not applied */
    int32_t exchanges;           /* of that round */
    int32_t pending;             /* whether there is such a round */
    int32_t source;              /* which of the two planes has the range's values */
    int32_t away;   /* first of the values that the second plane has, if that is source; the others are in the first */
    int32_t parity; /* which of the two sets of candidates is that of the round */
    float old_pivot, pivot; /* of the round and of the next one */
    uint32_t top_x, top_y;  /* candidates of the next pivot's chunk that lie before its place */
    uint32_t reserved;
} VgCambiPoolState;

typedef struct VgCambiPoolScale {
    uint64_t values[2]; /* float [n]: the plane, and room for another */
    uint64_t sums[2];   /* VgCambiCandidates [n_chunks] */
    uint64_t lists[2];  /* uint16_t [2][n_chunks][VG_CAMBI_CHUNK]: places in their chunk of X, from the left; of Y */
    uint64_t counts;    /* uint32_t [n_chunks]: numbers of X and Y in the lower and the upper half */
    uint64_t ordered;   /* VgOrderedChunk [n_ordered] */
    uint64_t high, low; /* uint32_t [VG_CAMBI_HIGH_BINS], [VG_CAMBI_LOW_BINS]: zero between frames */
    uint64_t state;     /* VgCambiPoolState */
    uint32_t n, top;    /* values; how many are summed */
    uint32_t n_chunks, n_ordered;
    uint32_t in_order; /* the sum is made in order without a test of whether it matters */
    uint32_t spread;   /* the permutation is begun by cambi_pool_round */
    uint32_t table;    /* sums of candidates that a block keeps, VG_CAMBI_TABLE at most */
    uint32_t reserved;
} VgCambiPoolScale;

typedef struct VgCambiPoolArgs {
    VgCambiPoolScale scales[VG_CAMBI_SCALES];
    uint64_t totals;                           /* VgCambiTotals [VG_CAMBI_SCALES] */
    uint64_t sums;                             /* double [VG_CAMBI_SCALES], in the record */
    uint32_t first_block[VG_CAMBI_SCALES + 1]; /* of each scale, of the launch */
    uint32_t find;                             /* cambi_pool_round: candidates are looked for */
    uint32_t sum_here;                         /* cambi_pool_finish: sums are made in order, too */
    uint32_t reserved;
} VgCambiPoolArgs;

#endif
