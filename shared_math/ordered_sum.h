/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Sums of doubles as a serial loop makes them, sum = sum + term in order, made in parallel with the same bits.
 *
 * While the running sum S stays in one binade, 2^e <= |S| < 2^(e+1), it is an integer K times u = 2^(e-52), and adding a
 * term t turns K into K + n, where n is t / u rounded to an integer; in a tie, the neighbour that makes K + n even. So n
 * depends on K through its parity alone, and a run of terms acts as a pair of integers, what it adds to an even and what
 * to an odd K. Pairs of neighbouring runs join associatively, so that runs can be worked on in parallel.
 *
 * Terms are cut into chunks. A chunk is regular if S provably stays in one binade all through it; then its pair is
 * applied at once. The others, where S passes a power of two, are cut into batches that are treated alike; what is left of
 * these is added term by term.
 */
#ifndef VG_SHARED_MATH_ORDERED_SUM_H
#define VG_SHARED_MATH_ORDERED_SUM_H

#include "shared_math/bits.h"

/** Terms of a chunk: a multiple of every wave size. */
#define VG_ORDERED_CHUNK 512

/** Exponent of a chunk that is not regular. */
#define VG_ORDERED_IRREGULAR ((int32_t)-0x7fffffff)

/** What a run of terms adds to K, in units u, if K is even and if it is odd. */
typedef struct VgOrderedPair {
    int64_t even, odd;
} VgOrderedPair;

/** A chunk, as kernels work on it. */
typedef struct VgOrderedChunk {
    double positive, negative; /* sums of terms */
    VgOrderedPair run;         /* if regular */
    int32_t exponent;
    int32_t joined; /* whether `run` is that of this chunk and those behind it that were worked on together */
} VgOrderedChunk;

/**
 * Bound on the distance of two sums of n terms, one serial, one a tree, in units of the sum of magnitudes: an addition
 * errs by at most 2^-53 of its result, so a sum errs by at most as many times 2^-53 as a term goes through additions,
 * n - 1 in the serial sum. The tree may be n / 2^16 + 500 additions deep. The rest of the 1024 covers terms of second
 * order and rounding in the sum of magnitudes, in the bound itself and in its use.
 */
VG_FN double vg_ordered_guard(int64_t n)
{
    return (double)(n + (n >> 16) + 1024) * 0x1p-53;
}

/**
 * Exponent e of the binade in which the serial sum stays throughout a chunk, or VG_ORDERED_IRREGULAR. `start` is the sum
 * before the chunk in any order of additions, `positive` and `negative` the chunk's sums of terms of either sign,
 * `magnitude` the sum of all magnitudes to the chunk's end, where that of an exact start counts for those of its terms.
 * For up to 2^32 terms the serial sum is within 2^-20 * magnitude of what is computed from these.
 */
VG_FN int32_t vg_ordered_exponent(double start, double positive, double negative, double magnitude)
{
    const double margin = magnitude * 0x1p-20;
    const double low = start + negative - margin, high = start + positive + margin;
    const uint32_t a = (uint32_t)(vg_double_bits(low) >> 52), b = (uint32_t)(vg_double_bits(high) >> 52);
    const uint32_t exponent = a & 0x7ff; /* a and b: with the sign above */

    if (a != b || exponent < 128 || exponent > 1900)
        return VG_ORDERED_IRREGULAR;
    return (int32_t)exponent - 1023;
}

/**
 * The same for terms that are multiples of 2^(exact - 52), none of them negative. Sums below 2^(exact + 1) do not round:
 * in all binades up to there a run adds the same integer, in the unit of the last one, which counts for all.
 */
VG_FN int32_t vg_ordered_exponent_from(int32_t exact, double start, double positive, double magnitude)
{
    const double end = vg_bits_double((uint64_t)(1023 + exact + 1) << 52);
    if (start + positive + magnitude * 0x1p-20 < end)
        return exact;
    return vg_ordered_exponent(start, positive, 0, magnitude);
}

/** 1 / u: what scales terms to units. */
VG_FN double vg_ordered_scale(int32_t exponent)
{
    return vg_bits_double((uint64_t)(1023 + 52 - exponent) << 52);
}

/** K: a sum in units u. */
VG_FN int64_t vg_ordered_units(double sum, int32_t exponent)
{
    return (int64_t)(sum * vg_ordered_scale(exponent));
}

/** The sum of so many units. */
VG_FN double vg_ordered_of_units(int64_t k, int32_t exponent)
{
    return (double)k * vg_bits_double((uint64_t)(1023 - 52 + exponent) << 52);
}

VG_FN int64_t vg_ordered_step(int64_t whole, double fraction, int64_t parity)
{
    const int up = fraction > 0.5 || (fraction == 0.5 && ((parity + whole) & 1));
    return whole + up;
}

/** Appends a term to a run. The scaling by a power of two, the floor and the fraction are exact. */
VG_FN VgOrderedPair vg_ordered_append(VgOrderedPair run, double term, double scale)
{
    const double x = term * scale;
    int64_t whole = (int64_t)x;
    double fraction = x - (double)whole;

    if (fraction < 0) {
        whole -= 1;
        fraction += 1; /* may round to 1, for a tiny term: rounds up all the same */
    }
    run.even += vg_ordered_step(whole, fraction, run.even);
    run.odd += vg_ordered_step(whole, fraction, 1 + run.odd);
    return run;
}

/** The run of `first` followed by that of `then`. */
VG_FN VgOrderedPair vg_ordered_join(VgOrderedPair first, VgOrderedPair then)
{
    VgOrderedPair both;
    both.even = first.even + (first.even & 1 ? then.odd : then.even);
    both.odd = first.odd + (first.odd & 1 ? then.even : then.odd);
    return both;
}

/** The serial sum after a regular run. */
VG_FN double vg_ordered_apply(double sum, VgOrderedPair run, int32_t exponent)
{
    const int64_t k = vg_ordered_units(sum, exponent);
    return vg_ordered_of_units(k + (k & 1 ? run.odd : run.even), exponent);
}

#endif
