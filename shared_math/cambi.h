/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * CAMBI: contrast aware multiscale banding index of one picture's luma. P. Tandon, M. Afonso, J. Sole, L. Krasula, "CAMBI:
 * Contrast-aware Multiscale Banding Index", PCS 2021. Exact definition: docs/numerics.md, cambi.
 *
 * Levels are 10-bit codes, 0 to VG_CAMBI_TOP_LEVEL. Every operation on float rounds to binary32, every one on double to
 * binary64.
 */
#ifndef VG_SHARED_MATH_CAMBI_H
#define VG_SHARED_MATH_CAMBI_H

#include "shared_math/bits.h"

#define VG_CAMBI_SCALES           5
#define VG_CAMBI_MOST_DIFFERENCES 32

/** The largest level: samples of more than 10 bits are rounded, so that the largest of them reach it. */
#define VG_CAMBI_TOP_LEVEL 1024

/** A pixel is its level in 16 bits and this bit, the mask, which is set in flat surroundings. */
#define VG_CAMBI_MASKED 0x8000u

/** Largest side of a window: window_size 127 at 8192x4320. Odd, as every window. */
#define VG_CAMBI_MOST_WINDOW 265

/** Side of the square in which equal neighbours are counted for the mask, and half of it. */
#define VG_CAMBI_MASK_SIDE 7
#define VG_CAMBI_MASK_HALF 3

enum { VG_CAMBI_DIST, VG_CAMBI_SOURCE, VG_CAMBI_SIDES };

/** How one side's picture is worked on. All zero: it is not. */
typedef struct VgCambiSide {
    int32_t width, height;        /* size that the luma is resampled to; the picture's own: it is not */
    int32_t window;               /* side W of the window at every scale, odd, 1 to VG_CAMBI_MOST_WINDOW */
    int32_t mask_index;           /* m: more than so many of the 49 equal neighbours make a pixel flat */
    int32_t top[VG_CAMBI_SCALES]; /* k of each scale: how many of its largest values are summed, 1 to all */
} VgCambiSide;

typedef struct VgCambiParams {
    int32_t width, height; /* of luma */
    int32_t bit_depth;     /* 8 to 16 */
    int32_t speedup;       /* hr: planes are halved before the first scale */
    int32_t anti_dither;
    int32_t heatmaps;                          /* whether the distorted side's planes of values are wanted */
    int32_t dark;                              /* D */
    int32_t n_differences;                     /* n: differences of levels are 1..n; 1, 2, 4, .. 32 */
    int32_t limits[VG_CAMBI_MOST_DIFFERENCES]; /* T_1.. T_n, never decreasing; 0 beyond n */
    VgCambiSide sides[VG_CAMBI_SIDES];
} VgCambiParams;

/**
 * What a frame boils down to. Behind it, if heatmaps are wanted, are those of all scales of the distorted side, one
 * behind the other without gaps, uint16_t in raster order (vg_cambi_heatmap()).
 */
typedef struct VgCambiRecord {
    double sums[VG_CAMBI_SIDES][VG_CAMBI_SCALES]; /* of the k largest values, in the order of the definition */
    uint32_t largest[VG_CAMBI_SIDES]; /* sample of the luma plane; 0 at 8 bits or for a side not worked on */
} VgCambiRecord;

/** Size of the plane that scale `scale` works on: halved, rounding up, before each scale but the first, and with hr there. */
VG_FN int32_t vg_cambi_size(int32_t size, int32_t speedup, int32_t scale)
{
    for (int32_t halvings = scale + (speedup != 0); halvings > 0; halvings--)
        size = (size + 1) >> 1;
    return size;
}

/* ---- 10-bit levels ------------------------------------------------------------------------------------------------ */

/** Level of a sample. Samples of bit_depth bits and more, which make the frame an error, give a level like any other. */
VG_FN int32_t vg_cambi_level(int32_t sample, int32_t bit_depth)
{
    const int32_t level =
        bit_depth <= 10 ? sample << (10 - bit_depth) : (sample + (1 << (bit_depth - 11))) >> (bit_depth - 10);
    return level < VG_CAMBI_TOP_LEVEL ? level : VG_CAMBI_TOP_LEVEL;
}

/**
 * Nearest neighbours in a row or column are found by a running sum in binary32, whose rounding errors belong to the
 * result: position 0 is vg_cambi_position(ratio), and the ratio is added for each of the next.
 */
VG_FN float vg_cambi_ratio(int32_t size, int32_t resampled_size)
{
    return (float)size / (float)resampled_size;
}

VG_FN float vg_cambi_position(float ratio)
{
    return (float)((double)(ratio * 0.5f) - 0.5);
}

/** Index of the sample at a position. Beyond 5900 samples the sum can overshoot the last one: clamped. */
VG_FN int32_t vg_cambi_nearest(float position, int32_t size)
{
    const int32_t index = (int32_t)((double)position + 0.5);
    return index < size ? index : size - 1;
}

/** Anti-dithering inside the plane: mean of a sample and its neighbours to the right, below, and right below. Where one of
 * them is outside, the edge sample takes its place, which gives the definition's means of two and the last sample. */
VG_FN int32_t vg_cambi_anti_dithered(int32_t sample, int32_t right, int32_t below, int32_t right_below)
{
    return (sample + right + below + right_below) >> 2;
}

/** The value that occurs at least twice, else the smallest. */
VG_FN int32_t vg_cambi_mode3(int32_t a, int32_t b, int32_t c)
{
    const int32_t smaller = a < b ? a : b;
    if (a == b || a == c)
        return a;
    return b == c ? b : smaller < c ? smaller : c;
}

/* ---- Values ------------------------------------------------------------------------------------------------------- */

/* Weights g of differences 1 to 32. A macro, because device code cannot read a host's table. */
#define VG_CAMBI_WEIGHTS                                                                                               \
    {                                                                                                                  \
        1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9                 \
    }

/**
 * The first difference d, 1 to n + 1, that counts for a level: level <= T_d and level + n + d > D. Both hold from some d
 * on, because T_d never decreases; n + 1: none does. (The n in the second is the reference's doing.)
 */
VG_FN int32_t vg_cambi_first_difference(const VgCambiParams *params, int32_t level)
{
    const int32_t n = params->n_differences, bright = params->dark - level - n + 1;
    int32_t d = bright > 1 ? bright : 1;
    while (d <= n && level > params->limits[d - 1])
        d++;
    return d <= n ? d : n + 1;
}

/** Up to here, reciprocals are those of the reference's table. */
#define VG_CAMBI_TABLE_RECIPROCALS 4225

/* The table's reciprocals were rounded to nine decimal digits first, which moved these by one unit in the last place. */
#define VG_CAMBI_RECIPROCALS_ABOVE                                                                                     \
    {                                                                                                                  \
        82, 83, 244, 488, 564, 614, 664, 1419, 1699, 1906, 2443, 2740, 3812, 4130                                      \
    }
#define VG_CAMBI_RECIPROCALS_BELOW                                                                                     \
    {                                                                                                                  \
        504, 510, 528, 749, 760, 892, 2040, 2071, 2112, 2223, 2555, 2927, 3285, 3515, 3525, 3705, 3795, 3797, 3837,    \
            3885, 4033, 4080, 4091, 4095, 4142, 4203, 4218, 4224                                                       \
    }

/**
 * Reciprocal of a number of pixels, 0 for none: 1 / i in binary32, or its neighbour where the reference's table has that.
 * For making tables: a table has W * W + 1 entries.
 */
VG_FN float vg_cambi_reciprocal(int32_t i)
{
    const int32_t above[] = VG_CAMBI_RECIPROCALS_ABOVE, below[] = VG_CAMBI_RECIPROCALS_BELOW;
    if (i == 0)
        return 0;
    float r = 1.0f / (float)i;
    for (int32_t k = 0; k < (int32_t)(sizeof(above) / sizeof(*above)); k++)
        if (above[k] == i)
            r = vg_bits_float(vg_float_bits(r) + 1);
    for (int32_t k = 0; k < (int32_t)(sizeof(below) / sizeof(*below)); k++)
        if (below[k] == i)
            r = vg_bits_float(vg_float_bits(r) - 1);
    return r;
}

/**
 * Value of one difference for a pixel: `own` pixels of its level and `other` of the level that far away are in its window;
 * `reciprocal` is that of own + other, which is at most W * W.
 *
 * weight * own * other is at most 9 * (W * W / 2)^2: below 2^26 at the reference's largest window, 65, below 2^32 up to
 * VG_CAMBI_NARROW_WINDOW. It is exact; the conversion to binary32 rounds.
 */
VG_FN float vg_cambi_value(uint32_t weight, uint32_t own, uint32_t other, float reciprocal)
{
    return (float)(weight * own * other) * reciprocal;
}

/** The same for windows of any size up to VG_CAMBI_MOST_WINDOW: the product is below 2^34. */
VG_FN float vg_cambi_value_wide(uint32_t weight, uint32_t own, uint32_t other, float reciprocal)
{
    return (float)((uint64_t)weight * own * other) * reciprocal;
}

/** Largest window for which vg_cambi_value() will do. */
#define VG_CAMBI_NARROW_WINDOW 209

/* ---- Sums --------------------------------------------------------------------------------------------------------- */

/**
 * A value in units of 2^-24. Values other than 0 are at least 0.5 (own and other are at least 1), hence multiples of
 * 2^-24; they are at most 9 / 4 * W * W < 2^18, so that they have at most 42 bits.
 */
VG_FN uint64_t vg_cambi_units(float value)
{
    return (uint64_t)(value * 0x1p24f);
}

/**
 * Whether a sum of values is the same in every order: `sum` is exact, in units, `bits` the union of the bits of all
 * summands. With z trailing zeros common to all, every partial sum is a multiple of 2^z units below 2^(53+z): exact.
 */
VG_FN int vg_cambi_sum_exact(uint64_t sum, uint64_t bits)
{
    const uint64_t lowest = bits & (0 - bits); /* 2^z */
    return sum >> 53 == 0 || lowest >> 11 != 0 || sum < lowest << 53;
}

/**
 * Whether `top` values of a window may sum up to 2^63 units and more (windows above 200 with many differences): then the
 * integer sum proves nothing, and the values are always added in order.
 */
VG_FN int vg_cambi_sum_may_overflow(int32_t top, int32_t n_differences, int32_t window)
{
    const int32_t weights[] = VG_CAMBI_WEIGHTS;
    const uint32_t most = (uint32_t)(weights[n_differences - 1] * window * window) / 4 + 1; /* value, rounded up */
    return (uint64_t)top * most >> 39 != 0;
}

/** The double of an exact sum of units. */
VG_FN double vg_cambi_sum(uint64_t sum)
{
    return (double)sum * 0x1p-24;
}

/* ---- Heatmaps ----------------------------------------------------------------------------------------------------- */

/** Factor of heatmaps, sigma: the largest weight and the window give a value of about 65535. */
VG_FN double vg_cambi_heatmap_factor(const VgCambiParams *params)
{
    const int32_t weights[] = VG_CAMBI_WEIGHTS;
    const int32_t window = params->sides[VG_CAMBI_DIST].window;
    const int32_t most = weights[params->n_differences - 1] * window * window / 4;
    return most ? 65535 / (double)most : 0; /* a window of one pixel has no values but 0 */
}

/** A value in a heatmap: a little above the largest sixteen bits wraps, as in the reference. */
VG_FN uint16_t vg_cambi_heatmap(float value, double factor)
{
    return (uint16_t)(uint32_t)(factor * (double)value);
}

/** Pixels of all scales. */
VG_FN int64_t vg_cambi_heatmap_pixels(const VgCambiParams *params)
{
    const VgCambiSide *side = &params->sides[VG_CAMBI_DIST];
    int64_t pixels = 0;
    for (int32_t s = 0; s < VG_CAMBI_SCALES; s++)
        pixels +=
            (int64_t)vg_cambi_size(side->width, params->speedup, s) * vg_cambi_size(side->height, params->speedup, s);
    return pixels;
}

#endif
