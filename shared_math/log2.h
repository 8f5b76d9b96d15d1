/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The binary logarithm in binary64, correctly rounded: the same bits whatever the C library.
 *
 * With x = 2^k m, m around 1, and s = (m - 1) / (m + 1), log2(x) = k + s (c_0 + c_1 s^2 + c_2 s^4 + ..), where
 * c_n = 2 / ((2 n + 1) ln 2). |s| is at most 0.1716, so that the terms left out, from c_16 on, are below 2^-85 of the
 * sum. Those above c_6 are added in binary64 and err by 2^-90; all else is done in pairs of doubles and errs by about
 * 2^-100. Every argument in binary32 from 2^-30 to 2^41 has been compared with 113-bit arithmetic.
 */
#ifndef VG_SHARED_MATH_LOG2_H
#define VG_SHARED_MATH_LOG2_H

#include "shared_math/bits.h"

/** A number as the exact sum of two, the second being at most half a unit in the last place of the first. */
typedef struct VgDoublePair {
    double high, low;
} VgDoublePair;

/** a + b exactly, for |a| >= |b|. */
VG_FN VgDoublePair vg_pair_of_ordered(double a, double b)
{
    VgDoublePair sum;
    sum.high = a + b;
    sum.low = b - (sum.high - a);
    return sum;
}

/** a + b exactly. */
VG_FN VgDoublePair vg_pair_of(double a, double b)
{
    VgDoublePair sum;
    sum.high = a + b;
    const double b_part = sum.high - a;
    sum.low = (a - (sum.high - b_part)) + (b - b_part);
    return sum;
}

VG_FN VgDoublePair vg_pair_add(VgDoublePair a, VgDoublePair b)
{
    const VgDoublePair sum = vg_pair_of(a.high, b.high);
    return vg_pair_of_ordered(sum.high, sum.low + (a.low + b.low));
}

VG_FN VgDoublePair vg_pair_multiply(VgDoublePair a, VgDoublePair b)
{
    const double product = a.high * b.high;
    double rest = VG_FMA(a.high, b.high, -product);
    rest = VG_FMA(a.high, b.low, rest);
    rest = VG_FMA(a.low, b.high, rest);
    return vg_pair_of_ordered(product, rest);
}

/* c_0 to c_6 in two parts, c_7 to c_15 in one. Macros, because device code cannot read a host's table. */
#define VG_LOG2_PAIRS 7
#define VG_LOG2_PAIR_COEFFICIENTS                                                                                      \
    {                                                                                                                  \
        { 0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55 }, { 0x1.ec709dc3a03fdp-1, 0x1.d27f05548af0cp-55 },              \
            { 0x1.2776c50ef9bfep-1, 0x1.e4b29ccc535d4p-55 }, { 0x1.a61762a7aded9p-2, 0x1.fb22e490ee2f0p-57 },          \
            { 0x1.484b13d7c02a9p-2, -0x1.e55fc724e0a2cp-60 }, { 0x1.0c9a84994022dp-2, 0x1.42b91d166906ap-57 },         \
            { 0x1.c68f568d31760p-3, 0x1.ce23c4e96378ep-59 },                                                           \
    }
#define VG_LOG2_DOUBLES 9
#define VG_LOG2_DOUBLE_COEFFICIENTS                                                                                    \
    {                                                                                                                  \
        0x1.89f3b1694cffep-3, 0x1.5b9ac9b743f0dp-3, 0x1.3703c1f4d0ffep-3, 0x1.1964ec6fc9491p-3, 0x1.00ecd7e080215p-3,  \
            0x1.d8be0817f5ffep-4, 0x1.b5b96fca558e1p-4, 0x1.9789566cee8d2p-4, 0x1.7d3e699fb5deep-4,                    \
    }

/** An argument taken apart: x = 2^exponent * m with m from about sqrt(1/2) to sqrt(2). */
typedef struct VgLog2Argument {
    double exponent, m;
} VgLog2Argument;

/** For 0 < x < infinity. */
VG_FN VgLog2Argument vg_log2_argument(double x)
{
    VgLog2Argument argument;
    uint64_t bits = vg_double_bits(x);
    int32_t k = -1023;

    if (bits >> 52 == 0) { /* subnormal */
        bits = vg_double_bits(x * 0x1p54);
        k -= 54;
    }
    k += (int32_t)(bits >> 52);
    bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
    argument.m = vg_bits_double(bits);
    if (argument.m >= 0x1.6a09e667f3bcdp+0) {
        argument.m *= 0.5;
        k++;
    }
    argument.exponent = (double)k;
    return argument;
}

/** log2 of an argument that has been taken apart. */
VG_FN double vg_log2_of(VgLog2Argument argument)
{
    const VgDoublePair pairs[VG_LOG2_PAIRS] = VG_LOG2_PAIR_COEFFICIENTS;
    const double doubles[VG_LOG2_DOUBLES] = VG_LOG2_DOUBLE_COEFFICIENTS;
    const double u = argument.m - 1; /* exact */
    const VgDoublePair v = vg_pair_of(argument.m, 1);
    const double quotient = u / v.high;
    double rest = VG_FMA(-quotient, v.high, u);
    rest = VG_FMA(-quotient, v.low, rest);
    const VgDoublePair s = vg_pair_of_ordered(quotient, rest / v.high);
    const VgDoublePair z = vg_pair_multiply(s, s);

    double tail = doubles[VG_LOG2_DOUBLES - 1];
    for (int n = VG_LOG2_DOUBLES - 2; n >= 0; n--)
        tail = VG_FMA(tail, z.high, doubles[n]);
    VgDoublePair p;
    p.high = tail;
    p.low = 0;
    for (int n = VG_LOG2_PAIRS - 1; n >= 0; n--)
        p = vg_pair_add(vg_pair_multiply(p, z), pairs[n]);

    VgDoublePair exponent;
    exponent.high = argument.exponent;
    exponent.low = 0;
    const VgDoublePair sum = vg_pair_add(exponent, vg_pair_multiply(p, s));
    return sum.high + sum.low;
}

/** log2(x) rounded to nearest: -infinity for 0, NaN for what is negative or NaN. */
VG_FN double vg_log2(double x)
{
    if (x > 0 && x < vg_bits_double(0x7ff0000000000000u))
        return vg_log2_of(vg_log2_argument(x));
    if (x == 0)
        return vg_bits_double(0xfff0000000000000u);
    return x > 0 ? x : vg_bits_double(0x7ff8000000000000u);
}

/* ---- Where few bits will do ---------------------------------------------------------------------------------------- */

/** Arguments that vg_log2_near() is for: from 2^-30 on, below 2^41. */
#define VG_LOG2_NEAR_FIRST 0x1p-30
#define VG_LOG2_NEAR_END   0x1p41

/**
 * Bound on the distance of vg_log2_near() from vg_log2(). The series without its terms from c_10 on errs by 2^-55, s and
 * the sum of the terms by a few units of 2^-54, and the last addition by 2^-48, half a unit of the largest logarithm, as vg_log2() does.
 */
#define VG_LOG2_NEAR_ERROR 0x1p-46

/** Terms of the series that are added, and their coefficients. */
#define VG_LOG2_NEAR_TERMS 10
#define VG_LOG2_NEAR_COEFFICIENTS                                                                                      \
    {                                                                                                                  \
        0x1.71547652b82fep+1, 0x1.ec709dc3a03fdp-1, 0x1.2776c50ef9bfep-1, 0x1.a61762a7aded9p-2, 0x1.484b13d7c02a9p-2,  \
            0x1.0c9a84994022dp-2, 0x1.c68f568d31760p-3, 0x1.89f3b1694cffep-3, 0x1.5b9ac9b743f0dp-3,                    \
            0x1.3703c1f4d0ffep-3,                                                                                      \
    }

/** log2 of 2^exponent * m in plain binary64: with the bound, mostly enough to know what a sum rounds to in binary32. */
VG_FN double vg_log2_near_of(double exponent, double m)
{
    const double coefficients[VG_LOG2_NEAR_TERMS] = VG_LOG2_NEAR_COEFFICIENTS;
    const double s = (m - 1) / (m + 1), z = s * s;
    double p = coefficients[VG_LOG2_NEAR_TERMS - 1];

    for (int n = VG_LOG2_NEAR_TERMS - 2; n >= 0; n--)
        p = VG_FMA(p, z, coefficients[n]);
    return VG_FMA(p, s, exponent);
}

VG_FN double vg_log2_near(double x)
{
    const VgLog2Argument argument = vg_log2_argument(x);
    return vg_log2_near_of(argument.exponent, argument.m);
}

#endif
