/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Clips of which SpEED's matrices are just singular, or just not: the smallest eigenvalue or the smallest pivot is within a few
 * parts of the limit.
 */
#ifndef NEAR_SINGULAR_H
#define NEAR_SINGULAR_H

#define NEAR_SINGULAR_NUMBERS 12

/** A pair is made of neighbours: `number` on the reference's side and the next one on the distorted picture's. */
typedef struct NearSingular {
    int temporal;
    const char *clip;                        /* with the number to be filled in */
    unsigned numbers[NEAR_SINGULAR_NUMBERS]; /* to the first 0 */
} NearSingular;

static const NearSingular near_singular[] = {
    /* By an eigenvalue: faint noise. */
    { 0, "flat noise:%u 160 160 444 16 1 3", { 44, 45, 46, 48, 51, 52, 53, 54, 56, 58, 60, 64 } },
    { 0, "flat noise:%u 240 240 444 16 1 1", { 28, 32, 35, 36, 39, 41, 42, 43 } },
    /* By a pivot alone: hardly more windows than entries in a row. */
    { 0, "mix none 80 480 444 8 1 %u", { 57, 58 } },
    { 1, "mix none 80 480 400 8 2 %u", { 44, 45, 187, 188, 257, 378, 425, 584, 668, 669, 834 } },
};
#define N_NEAR_SINGULAR (sizeof(near_singular) / sizeof(near_singular[0]))

/** How many matrices the clips have of each kind, at least. */
#define NEAR_SINGULAR_EIGENVALUES 10
#define NEAR_SINGULAR_PIVOTS      8
#define NEAR_SINGULAR_NONE        40

#endif
