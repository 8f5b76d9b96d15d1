/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * float_ssim: structural similarity of (decimated) luma. Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment:
 * from error visibility to structural similarity", IEEE Trans. Image Processing 13(4), 2004. Exact definition:
 * docs/numerics.md, float_ssim.
 *
 * Every operation on float rounds to binary32, every one on double to binary64: no contraction, no excess precision.
 */
#ifndef VG_SHARED_MATH_FLOAT_SSIM_H
#define VG_SHARED_MATH_FLOAT_SSIM_H

#include "shared_math/bits.h"

/** Side of the Gaussian window. */
#define VG_FLOAT_SSIM_TAPS 11

/** Greatest decimation factor whose sums are exact in every order, see vg_float_ssim_product(). */
#define VG_FLOAT_SSIM_MAX_FACTOR 128

typedef struct VgFloatSsimParams {
    int32_t width, height;         /* of luma */
    int32_t bit_depth;             /* 8, 10, 12 or 16 */
    int32_t factor;                /* of the decimation, 1 to VG_FLOAT_SSIM_MAX_FACTOR; 1: none */
    int32_t out_width, out_height; /* of the decimated planes */
    float tap;                     /* 1 / factor^2, rounded once: made on the host so that no device division differs */
    int32_t lcs;                   /* whether the means of l, c and s are wanted */
} VgFloatSsimParams;

/** Means over all windows, each rounded to binary32. l, c, s are 0 when not asked for. */
typedef struct VgFloatSsimRecord {
    float ssim, l, c, s;
} VgFloatSsimRecord;

/* Taps exp(-k^2 / (2 * 1.5^2)), normalised to sum 1, rounded to six decimals: 3a86bdf5 3bf90108 3d1375c9 3ddff8a9
   3e5a1e3f 3e8832ba and back. A macro, because device code cannot read a host's table. */
#define VG_FLOAT_SSIM_GAUSS                                                                                            \
    {                                                                                                                  \
        0x1.0d7beap-10f, 0x1.f20210p-8f, 0x1.26eb92p-5f, 0x1.bff152p-4f, 0x1.b43c7ep-3f, 0x1.106574p-2f,               \
            0x1.b43c7ep-3f, 0x1.bff152p-4f, 0x1.26eb92p-5f, 0x1.f20210p-8f, 0x1.0d7beap-10f                            \
    }

/* (0.01 * 255)^2, (0.03 * 255)^2 and half of it in binary32, at every depth: samples are scaled to 8 bits. */
#define VG_FLOAT_SSIM_C1 0x1.a028f4p+2f /* 40d0147a */
#define VG_FLOAT_SSIM_C2 0x1.d42e12p+5f /* 426a1709 */
#define VG_FLOAT_SSIM_C3 0x1.d42e12p+4f /* 41ea1709 */

/** Value of a sample's last bit once samples are scaled to [0, 256): 2^(8 - depth). */
VG_FN float vg_float_ssim_unit(int32_t bit_depth)
{
    return 1.0f / (float)((int32_t)1 << (bit_depth - 8));
}

/** Side of the decimated plane. */
VG_FN int32_t vg_float_ssim_out_size(int32_t size, int32_t factor)
{
    return factor > 1 ? size / factor + (size & 1) : size;
}

/** First row (or column) of the window of output `i`: windows are off-centre for even factors. */
VG_FN int32_t vg_float_ssim_window(int32_t i, int32_t factor)
{
    return i * factor - factor / 2;
}

/** Row or column outside 0..n-1: mirrored, the edge sample repeated. |distance to the plane| <= n. */
VG_FN int32_t vg_float_ssim_mirror(int32_t i, int32_t n)
{
    if (i < 0)
        return -1 - i;
    return i < n ? i : 2 * n - 1 - i;
}

/**
 * Whether samples may be summed as plain integers. For powers of two every product with the tap is exact, so the
 * window's output is the integer sum (below 2^30), rounded once to binary32, times the exact scale unit * tap.
 */
VG_FN int vg_float_ssim_sums_samples(int32_t factor)
{
    return (factor & (factor - 1)) == 0;
}

/**
 * What one sample adds to its window for all other factors. The window's output is the sum of these products, rounded
 * once to binary32. Any order of summation in double (or in 64-bit integers of any unit from 2^-45 to 2^-54) is exact:
 * a product is 0 or at least 2^-8 * 2^-14, hence, with 24 bits, a multiple of 2^-45, and a window's products sum up to
 * less than 2^8, that is, to less than 2^53 such units.
 */
VG_FN float vg_float_ssim_product(int32_t sample, float unit, float tap)
{
    return ((float)sample * unit) * tap;
}

/**
 * Output of a window from its exact sum of samples (powers of two) or products (other factors). The scaling by a power
 * of two, or by 1, does not round.
 */
VG_FN float vg_float_ssim_decimated(double sum, int32_t factor, float unit, float tap)
{
    return (float)sum * (vg_float_ssim_sums_samples(factor) ? unit * tap : 1.0f);
}

/**
 * The two kinds of exact sums in integers: of samples for powers of two, and of products in units of 2^-45. A product
 * scales to units without rounding; the sum is rounded once, to binary32, and scaled back.
 */
VG_FN float vg_float_ssim_decimated_samples(int32_t sum, float unit, float tap)
{
    return (float)sum * (unit * tap);
}

VG_FN int64_t vg_float_ssim_product_units(int32_t sample, float unit, float tap)
{
    return (int64_t)(vg_float_ssim_product(sample, unit, tap) * 0x1p45f);
}

VG_FN float vg_float_ssim_decimated_units(int64_t sum)
{
    return (float)sum * 0x1p-45f;
}

/** Adds one tap of a Gaussian pass: the product is rounded before it is added. Taps are added in order, from 0. */
VG_FN double vg_float_ssim_add_tap(double sum, float x, float tap)
{
    return sum + (double)(x * tap);
}

/**
 * The same for devices whose conversions are slow: the product, which is 0 or a normal positive number, is widened by
 * moving its fields, and a sum starts at VG_FLOAT_SSIM_SUM_START instead of 0.
 *
 * 0 becomes 2^-127. That changes no sum: if all eleven products are 0, the start, -11 * 2^-127, makes up for them. Else
 * there is a product of at least 2^-64 (samples are multiples of 2^-22, their products of 2^-44, taps at least 2^-10 in
 * each of two passes). The sum before the first one is within 11 * 2^-127 of 0, less than half of the last bit of such a
 * product as a double, 2^-117, so the addition rounds to the product itself; and adding 2^-127 later rounds to the sum.
 */
VG_FN double vg_float_ssim_add_tap_moved(double sum, float x, float tap)
{
    const uint32_t bits = vg_float_bits(x * tap);
    return sum + vg_bits_double((uint64_t)((bits >> 3) + (896u << 20)) << 32 | (uint32_t)(bits << 29));
}
#define VG_FLOAT_SSIM_SUM_START (-0x1.6p-124)

/** Means, variances and covariance under one window. */
typedef struct VgFloatSsimWindow {
    float mr, mt, vr, vt, cv;
} VgFloatSsimWindow;

/** From the filtered planes of R, T, R*R, T*T, R*T. */
VG_FN VgFloatSsimWindow vg_float_ssim_stats(float mr, float mt, float rr, float tt, float rt)
{
    float vr = rr - mr * mr;
    float vt = tt - mt * mt;
    VgFloatSsimWindow window = { mr, mt, vr < 0.0f ? 0.0f : vr, vt < 0.0f ? 0.0f : vt, rt - mr * mt };
    return window;
}

/** Luminance, contrast and structure of one window. */
typedef struct VgFloatSsimFactors {
    double l, c, s;
} VgFloatSsimFactors;

/* The mix of double numerators and binary32 denominators is the definition; identical windows may give other than 1. */
VG_FN VgFloatSsimFactors vg_float_ssim_factors(VgFloatSsimWindow w)
{
    float q = VG_SQRTF(w.vr * w.vt);
    float l_den = (w.mr * w.mr + w.mt * w.mt) + VG_FLOAT_SSIM_C1;
    float c_den = (w.vr + w.vt) + VG_FLOAT_SSIM_C2;
    float cv = w.cv < 0.0f && q <= 0.0f ? 0.0f : w.cv;
    float s = (cv + VG_FLOAT_SSIM_C3) / (q + VG_FLOAT_SSIM_C3);
    VgFloatSsimFactors factors = {
        (2.0 * (double)w.mr * (double)w.mt + (double)VG_FLOAT_SSIM_C1) / (double)l_den,
        (2.0 * (double)q + (double)VG_FLOAT_SSIM_C2) / (double)c_den,
        (double)s,
    };
    return factors;
}

/** What a window adds to the score's sum. Sums run in raster order. */
VG_FN double vg_float_ssim_term(VgFloatSsimFactors f)
{
    return (f.l * f.c) * f.s;
}

/**
 * Mean over the (out_width - 10) x (out_height - 10) windows. The reference's own rule for planes below 11x11, which
 * configuration refuses, is the same formula: 0, -0 or NaN.
 */
VG_FN float vg_float_ssim_mean(double sum, int32_t out_width, int32_t out_height)
{
    int64_t windows = (int64_t)(out_width - VG_FLOAT_SSIM_TAPS + 1) * (out_height - VG_FLOAT_SSIM_TAPS + 1);
    return (float)(sum / (double)windows);
}

/**
 * Whether the mean of a sum made in any order is that of the sum in raster order: both sums are within
 * guard * magnitude of each other, and the means of both ends of that band are equal. `mean` is then this mean.
 */
VG_FN int vg_float_ssim_proven(double sum, double magnitude, double guard, int32_t out_width, int32_t out_height,
                               float *mean)
{
    const double band = guard * magnitude;
    const float low = vg_float_ssim_mean(sum - band, out_width, out_height);
    const float high = vg_float_ssim_mean(sum + band, out_width, out_height);
    *mean = low;
    return vg_float_bits(low) == vg_float_bits(high);
}

#endif
