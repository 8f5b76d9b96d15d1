/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * SpEED: entropic differences of a pair of planes, each modelled as a Gaussian scale mixture of 5x5 blocks. C. G. Bampis,
 * P. Gupta, R. Soundararajan, A. C. Bovik, "SpEED-QA: Spatial Efficient Entropic Differencing for Image and Video
 * Quality", IEEE Signal Processing Letters 24(9), 2017. Two metrics use it: speed_chroma and speed_temporal. Exact
 * definition: docs/numerics.md, SpEED.
 *
 * Every operation on float rounds to binary32, every one on double to binary64; products and sums are fused only where
 * VG_FMA or VG_FMAF stands. "Running sum" means: from 0, each term rounded, then added.
 */
#ifndef VG_SHARED_MATH_SPEED_H
#define VG_SHARED_MATH_SPEED_H

#include "shared_math/log2.h"

/** Side of a block, and samples in it: the order of the covariance matrix. */
#define VG_SPEED_SIDE 5
#define VG_SPEED_N    25

/** Entries of its lower triangle, row by row: (0, 0), (1, 0), (1, 1), (2, 0).. */
#define VG_SPEED_PAIRS (VG_SPEED_N * (VG_SPEED_N + 1) / 2)

/** Of the low-passed plane, every so many rows and columns are kept. */
#define VG_SPEED_STEP 16

#define VG_SPEED_MOST_TAPS      35
#define VG_SPEED_MOST_MEAN_TAPS 9

/** Accumulators of a covariance: lanes, and one more for the last columns. */
#define VG_SPEED_LANES 16

/** Sweeps after which eigenvalues are taken as they are. */
#define VG_SPEED_MOST_SWEEPS 500

/** Planes of a side that are scored: U and V, or luma's difference alone. */
#define VG_SPEED_MOST_PLANES 2

/** How planes are resampled before all else. */
typedef enum VgSpeedMethod {
    VG_SPEED_PLAIN, /* not at all: the upper left part counts */
    VG_SPEED_NEAREST,
    VG_SPEED_BILINEAR,
    VG_SPEED_BICUBIC,
    VG_SPEED_LANCZOS4
} VgSpeedMethod;

typedef struct VgSpeedParams {
    int32_t width, height; /* of the planes, U and V, or luma */
    int32_t bit_depth;     /* 8 to 16 */
    int32_t temporal;      /* luma's difference from the frame before, rather than U and V */
    int32_t use_ref_diff;  /* the distorted side's difference: to the reference's current frame */
    int32_t method;        /* VgSpeedMethod */
    int32_t scaled_width, scaled_height;
    float ratio_x, ratio_y; /* size to scaled size */
    int32_t n_taps, n_mean_taps;
    float taps[VG_SPEED_MOST_TAPS];           /* of the low pass; 0 beyond n_taps */
    float mean_taps[VG_SPEED_MOST_MEAN_TAPS]; /* of the local mean */
    float sigma;                              /* neural noise */
    float threshold;                          /* entropy below which a block is not seen */
    int32_t weighting;                        /* 0 to 6: speed_weight_var_mode */
} VgSpeedParams;

/** Bits of VgSpeedRecord.singular. */
#define VG_SPEED_REF_SINGULAR  1
#define VG_SPEED_DIST_SINGULAR 2

/** Entries for planes that are not there are 0, and so is all of a first frame that has no difference. */
typedef struct VgSpeedRecord {
    float scores[VG_SPEED_MOST_PLANES];      /* not capped; every NaN is VG_SPEED_NAN */
    uint32_t singular[VG_SPEED_MOST_PLANES]; /* VG_SPEED_*_SINGULAR */
} VgSpeedRecord;

/** Bits of the one NaN in records: which one arithmetic gives is the machine's choice. */
#define VG_SPEED_NAN 0x7fc00000u

/* ---- Sizes -------------------------------------------------------------------------------------------------------- */

/** Rows or columns of the decimated plane. */
VG_FN int32_t vg_speed_decimated(int32_t scaled_size)
{
    return scaled_size / VG_SPEED_STEP;
}

/** Blocks in a row or column of the decimated plane; what they do not cover is not used. */
VG_FN int32_t vg_speed_blocks(int32_t decimated_size)
{
    return decimated_size / VG_SPEED_SIDE;
}

/** Positions of a 5x5 window within the blocks, in one direction: the size of the planes that covariances are taken of. */
VG_FN int32_t vg_speed_windows(int32_t decimated_size)
{
    return vg_speed_blocks(decimated_size) * VG_SPEED_SIDE - (VG_SPEED_SIDE - 1);
}

/** Index reflected about the edge samples, which are not repeated. The excess is less than n. */
VG_FN int32_t vg_speed_mirror(int32_t i, int32_t n)
{
    if (i < 0)
        return -i;
    return i < n ? i : 2 * n - 2 - i;
}

/* ---- Samples and resampling --------------------------------------------------------------------------------------- */

/** Factor that brings samples to the scale of 8 bits. */
VG_FN float vg_speed_unit(int32_t bit_depth)
{
    return vg_bits_float((uint32_t)(127 - (bit_depth - 8)) << 23);
}

/** A sample of a picture. Exact: at most 16 bits are scaled by a power of two of 2^-8 at least. */
VG_FN float vg_speed_sample(int32_t sample, float unit)
{
    return (float)sample * unit - 128;
}

/** A sample of a difference plane, earlier - current. Exact, and the same as the difference of two samples as above. */
VG_FN float vg_speed_difference(int32_t earlier, int32_t current, float unit)
{
    return (float)(earlier - current) * unit;
}

/** Position of a resampled row or column in the plane: (i + 1/2) ratio - 1/2, rounded once. */
VG_FN float vg_speed_position(int32_t i, float ratio)
{
    return VG_FMAF((float)i + 0.5f, ratio, -0.5f);
}

/** Row or column that the nearest neighbour is taken of: another rule, rounded down. */
VG_FN int32_t vg_speed_nearest(int32_t i, float ratio)
{
    return (int32_t)((float)i * ratio);
}

VG_FN int32_t vg_speed_floor(float x)
{
    const int32_t whole = (int32_t)x;
    return (float)whole > x ? whole - 1 : whole;
}

VG_FN int32_t vg_speed_ceil(float x)
{
    const int32_t whole = (int32_t)x;
    return (float)whole < x ? whole + 1 : whole;
}

/** Between two rows or columns. */
typedef struct VgSpeedBetween {
    int32_t first, second;
    float second_weight; /* relative to `first` as mirrored: at a left or upper edge it extrapolates */
} VgSpeedBetween;

VG_FN VgSpeedBetween vg_speed_between(float position, int32_t size)
{
    VgSpeedBetween between;
    between.first = vg_speed_mirror(vg_speed_floor(position), size);
    between.second = vg_speed_mirror(vg_speed_ceil(position), size);
    between.second_weight = position - (float)between.first;
    return between;
}

/** Bilinear mean of the samples in the first and the second row and column. */
VG_FN float vg_speed_bilinear(float p11, float p12, float p21, float p22, float dx, float dy)
{
    return ((1 - dy) * (1 - dx)) * p11 + ((1 - dy) * dx) * p12 + (dy * (1 - dx)) * p21 + (dy * dx) * p22;
}

/** Bicubic and Lanczos taps stand at offsets from the position's floor: -1 to 2, and -4 to 4. */
#define VG_SPEED_BICUBIC_FIRST 1
#define VG_SPEED_BICUBIC_TAPS  4
#define VG_SPEED_LANCZOS_FIRST 4
#define VG_SPEED_LANCZOS_TAPS  9

/** Source rows of a resampled row, or columns of a column. */
VG_FN int32_t vg_speed_offsets(int32_t method)
{
    switch (method) {
    case VG_SPEED_BILINEAR:
        return 2;
    case VG_SPEED_BICUBIC:
        return VG_SPEED_BICUBIC_TAPS;
    case VG_SPEED_LANCZOS4:
        return VG_SPEED_LANCZOS_TAPS;
    default:
        return 1;
    }
}

VG_FN float vg_speed_magnitude(float x)
{
    return __builtin_fabsf(x);
}

/** Bicubic weight of a sample at this distance, of either sign. */
VG_FN float vg_speed_bicubic(float distance)
{
    const float t = vg_speed_magnitude(distance);
    if (t < 1)
        return ((1.25f * t - 2.25f) * t) * t + 1;
    if (t < 2)
        return (((t - 5) * t + 8) * t - 4) * -0.75f;
    return 0;
}

/* ---- Filters ------------------------------------------------------------------------------------------------------ */

/** The next term of a filter's running sum. */
VG_FN float vg_speed_add_tap(float sum, float tap, float sample)
{
    return sum + tap * sample;
}

/* ---- Covariance --------------------------------------------------------------------------------------------------- */

/** Place of (p, q), q <= p, in the lower triangle. */
VG_FN int32_t vg_speed_pair(int32_t p, int32_t q)
{
    return p * (p + 1) / 2 + q;
}

/** Accumulator of a column of `n`: its lane, VG_SPEED_LANES for the last columns. */
VG_FN int32_t vg_speed_lane(int32_t column, int32_t n)
{
    if (column < (n & ~15))
        return column & 15;
    return column < (n & ~7) ? column & 7 : VG_SPEED_LANES;
}

/** Adds a product to a lane. */
VG_FN double vg_speed_add_product(double lane, double a, double b)
{
    return VG_FMA(a, b, lane);
}

/** Adds a product to the accumulator of the last columns. */
VG_FN double vg_speed_add_rounded(double sum, double a, double b)
{
    return sum + a * b;
}

/** Sum of the accumulators. */
VG_FN double vg_speed_join_lanes(const double lanes[VG_SPEED_LANES + 1])
{
    const double l0 = lanes[0] + lanes[8], l1 = lanes[1] + lanes[9], l2 = lanes[2] + lanes[10];
    const double l3 = lanes[3] + lanes[11], l4 = lanes[4] + lanes[12], l5 = lanes[5] + lanes[13];
    const double l6 = lanes[6] + lanes[14], l7 = lanes[7] + lanes[15];
    return (((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))) + lanes[VG_SPEED_LANES];
}

VG_FN float vg_speed_covariance(double sum, int32_t n)
{
    return (float)(sum / (double)n);
}

/* ---- Eigenvalues: Householder tridiagonalisation, then QR sweeps with Wilkinson's shift ------------------------------ */

/** Below this, a matrix counts as singular, and an off-diagonal as nothing beside its neighbours on the diagonal. */
#define VG_SPEED_EPSILON 1e-6

/** A reflection that turns (a, x) with |x| = n into (b, 0). Its vector is (1, x / divisor), its factor (b - a) / b. */
typedef struct VgSpeedReflector {
    float b, divisor;
} VgSpeedReflector;

/** For n other than 0; the divisor is not 0 then. */
VG_FN VgSpeedReflector vg_speed_reflector(float a, float n)
{
    const float length = VG_SQRTF(a * a + n * n);
    VgSpeedReflector r;
    r.b = a >= 0 ? -length : length;
    r.divisor = a - r.b;
    return r;
}

/** Next term of M v. */
VG_FN float vg_speed_add_reflected(float sum, float tau, float m, float v)
{
    return sum + (tau * m) * v;
}

/** Factor of v in w = u + h v, where g = u v. */
VG_FN float vg_speed_half(float tau, float g)
{
    return (-0.5f * tau) * g;
}

/** Entry (r, c) of the matrix reflected from both sides. */
VG_FN float vg_speed_reflect(float m, float v_r, float w_r, float v_c, float w_c)
{
    return m - (w_r * v_c + v_r * w_c);
}

/**
 * Whether an off-diagonal is not nothing beside its neighbours on the diagonal, as far as binary32 tells, which it mostly does.
 * What is more than the factor's rounded product is no less than the product itself, be it subnormal, as both are multiples of
 * the least number.
 */
VG_FN int vg_speed_surely_counts(float off_diagonal, float before, float behind)
{
    return vg_speed_magnitude(off_diagonal) > 0x1.1p-20f * (vg_speed_magnitude(before) + vg_speed_magnitude(behind));
}

/** Whether it is nothing beside them. 2^-20 < VG_SPEED_EPSILON < 1.0625 * 2^-20. */
VG_FN int vg_speed_negligible(float off_diagonal, float before, float behind)
{
    const float e = vg_speed_magnitude(off_diagonal), sum = vg_speed_magnitude(before) + vg_speed_magnitude(behind);

    if (vg_speed_surely_counts(off_diagonal, before, behind))
        return 0;
    return e < 0x1p-20f * sum || (double)e < VG_SPEED_EPSILON * (double)sum;
}

/**
 * Shift of a sweep: `d_end` and `d_before` are the last two of the diagonal, `e_end` is the last off-diagonal, `d_first`
 * and `e_first` are where the sweep begins.
 */
VG_FN float vg_speed_shift(float d_before, float d_end, float e_end, float d_first, float e_first)
{
    const float t = e_end, q = (d_before - d_end) / 2;
    const float y = VG_SQRTF(q * q + t * t);
    float mu;

    if (q > 0)
        mu = d_end - t * (t / (q + y));
    else if (q < 0)
        mu = d_end + t * (t / (y - q));
    else
        mu = d_end - vg_speed_magnitude(t);
    const float sum = vg_speed_magnitude(d_first) + vg_speed_magnitude(e_first);
    /* Mostly binary32 tells that it is not. */
    if (VG_RARELY(vg_speed_magnitude(mu) > 0x1p19f * sum) &&
        VG_SPEED_EPSILON * (double)vg_speed_magnitude(mu) > (double)sum)
        return 0;
    return mu;
}

/** (c, s) is (rho t, rho) if it is steep, else (rho, rho t). */
typedef struct VgSpeedRotation {
    float c, s;
    float rho, rho_t;
    int steep;
} VgSpeedRotation;

/** 1 / sqrt(v) within 2^-13.5 for 1 <= v <= 2. The same bits on every machine, which instructions for it do not give. */
VG_FN float vg_speed_near_rsqrt(float v)
{
    const float v2 = v * v, upper = VG_FMAF(-0x1.8814cp-2f, v, 0x1.3018c2p+0f);
    const float lower = VG_FMAF(-0x1.ebeb02p+0f, v, 0x1.088c9ap+1f);
    return VG_FMAF(VG_FMAF(0x1.97165cp-5f, v2, upper), v2, lower);
}

/**
 * 1 / sqrt(v) rounded once, for v = 1 + t t with |t| <= 1, from vg_speed_near_rsqrt() of v or of a number up to 16 units in
 * the last place away. Compared with the quotient in binary64 for each of the 8388609 v from 1 to 2, and each such number.
 */
VG_FN float vg_speed_rsqrt(float v, float near)
{
    const float near_rest = VG_FMAF(-(v * (0.5f * near)), near, 0.5f);
    const float y = VG_FMAF(near, near_rest, near); /* within 2^-23.7 */
    const float high = v * y;
    const float low = VG_FMAF(v, y, -high);
    const float rest = VG_FMAF(-low, y, VG_FMAF(-high, y, 1.0f));
    return VG_FMAF(0.5f * y, rest, y);
}

/** Mantissas from here on are divided by plainly: more of them change nothing, as the software device shows. */
#ifndef VG_SPEED_LAST_MANTISSA
#define VG_SPEED_LAST_MANTISSA 0x7ffffau
#endif

/** Whether vg_speed_quotient() is for these. */
VG_FN int vg_speed_has_quotient(float n, float d)
{
    return n > 0x1p-60f && d < 0x1p60f && (vg_float_bits(d) & 0x7fffff) < VG_SPEED_LAST_MANTISSA;
}

/**
 * n / d rounded once, for 2^-60 < n <= d < 2^60, from a number `near` at most two away from the one nearest to 1 / d, where d is
 * none of the six mantissas below a power of two.
 *
 * A step of Newton's makes of each such reciprocal the nearest number, but for 96 pairs of a mantissa and a reciprocal. From the
 * nearest number a quotient q comes out that is less than 1.5 units away. If it is less than one away, the correction rounds
 * correctly (Markstein: Computation of elementary functions on the IBM RISC System/6000 processor, 1990, theorem on division).
 * Else the rest is wrong by one in its last place at most, which matters only where n / d is within 2^-22 units of halfway
 * between two numbers; then q is half a unit away, or more than 1.5 - 2^-22 units, for which n is one of the last mantissas below
 * a power of two. tests/test_speed.c tries those and the 96 in full.
 */
VG_FN float vg_speed_quotient(float n, float d, float near)
{
    const float reciprocal = VG_FMAF(near, VG_FMAF(-d, near, 1.0f), near);
    const float q = n * reciprocal;
    return VG_FMAF(reciprocal, VG_FMAF(-d, q, n), q);
}

/** From t, 1 / sqrt(1 + t t) and steepness. */
VG_FN VgSpeedRotation vg_speed_rotation_by(float t, float rho, int steep)
{
    VgSpeedRotation r;
    r.rho = rho;
    r.rho_t = rho * t;
    r.steep = steep;
    r.c = steep ? r.rho_t : rho;
    r.s = steep ? rho : r.rho_t;
    return r;
}

/** The rotation that turns (phi, psi) into (c phi - s psi, 0), of any numbers. */
VG_FN VgSpeedRotation vg_speed_plain_rotation(float phi, float psi)
{
    const int steep = vg_speed_magnitude(psi) > vg_speed_magnitude(phi);
    const float t = psi == 0 ? 0 : -(steep ? phi : psi) / (steep ? psi : phi), v = 1 + t * t;
    return vg_speed_rotation_by(t, vg_speed_rsqrt(v, vg_speed_near_rsqrt(v)), steep);
}

/**
 * The same of numbers, no NaNs, that vg_speed_has_quotient() is true of; it tells whether that is so. What t nearly is, is within
 * 2^-22 of it, and v within six units in the last place.
 */
VG_FN VgSpeedRotation vg_speed_quick_rotation(float phi, float psi, int *valid)
{
    const float x = vg_speed_magnitude(phi), y = vg_speed_magnitude(psi);
    const float d = VG_FMAXF(x, y), n = VG_FMINF(x, y);
    const float near = VG_NEAR_RECIPROCALF(d), near_t = n * near;
    const uint32_t sign = (vg_float_bits(phi) ^ ~vg_float_bits(psi)) & 0x80000000u;

    /* The root is begun before t is known to the last bit. */
    const float near_rho = vg_speed_near_rsqrt(VG_FMAF(near_t, near_t, 1.0f));
    const float t = vg_speed_quotient(n, d, near);
    *valid = vg_speed_has_quotient(n, d);
    return vg_speed_rotation_by(vg_bits_float(vg_float_bits(t) | sign), vg_speed_rsqrt(1 + t * t, near_rho), y > x);
}

VG_FN VgSpeedRotation vg_speed_rotation(float phi, float psi)
{
    int valid;
    const VgSpeedRotation rotation = vg_speed_quick_rotation(phi, psi, &valid);
    return valid ? rotation : vg_speed_plain_rotation(phi, psi);
}

/**
 * What a sweep carries from row k to the next: the diagonal at k and k + 1 and the off-diagonal between them, the
 * off-diagonal behind, and the two that the next rotation turns into (phi', 0): above the first row, the off-diagonal
 * left of the block and the bulge below it.
 */
typedef struct VgSpeedChase {
    float alpha, beta, gamma, delta, phi, psi;
} VgSpeedChase;

/** `delta` is the second off-diagonal, anything if there is none. */
VG_FN VgSpeedChase vg_speed_chase(float d_first, float e_first, float d_second, float delta, float mu)
{
    VgSpeedChase chase;
    chase.alpha = d_first;
    chase.beta = e_first;
    chase.gamma = d_second;
    chase.delta = delta;
    chase.phi = d_first - mu;
    chase.psi = e_first;
    return chase;
}

/** What is left of a rotation once the next one may begin. */
typedef struct VgSpeedTurn {
    VgSpeedChase chase; /* before the rotation */
    VgSpeedRotation rotation;
    float u3, u4;
} VgSpeedTurn;

/**
 * Rotates rows and columns k and k + 1, as far as the next rotation begins with it: phi, psi and beta. The rest is
 * vg_speed_turned_alpha(), with which the caller sets alpha, and vg_speed_turned_diagonal(); gamma and delta then are those of
 * the next row.
 *   u1 = c alpha - s beta, u2 = s gamma - c beta, u3 = s alpha + c beta, u4 = s beta + c gamma
 *   d = c u1 + s u2, phi' = c u3 - s u4, alpha' = s u3 + c u4
 * The path from rotation to rotation is through phi: what is needed for it is chosen by steepness before rho is known.
 */
VG_FN VgSpeedTurn vg_speed_turn(VgSpeedChase *chase, VgSpeedRotation r)
{
    const float by_rho = r.steep ? chase->alpha : chase->gamma, by_rho_t = r.steep ? chase->gamma : chase->alpha;
    const float v = r.rho * by_rho + r.rho_t * chase->beta;   /* steep: u3, else u4 */
    const float w = r.rho * chase->beta + r.rho_t * by_rho_t; /* steep: u4, else u3 */
    VgSpeedTurn turn;
    turn.chase = *chase;
    turn.rotation = r;
    turn.u3 = r.steep ? v : w;
    turn.u4 = r.steep ? w : v;
    chase->phi = (r.steep ? r.rho_t : -r.rho_t) * v - (r.steep ? r.rho : -r.rho) * w;
    chase->psi = -r.s * chase->delta;
    chase->beta = r.c * chase->delta;
    return turn;
}

VG_FN float vg_speed_turned_alpha(const VgSpeedTurn *turn)
{
    return turn->rotation.s * turn->u3 + turn->rotation.c * turn->u4;
}

/** d_k. */
VG_FN float vg_speed_turned_diagonal(const VgSpeedTurn *turn)
{
    const float c = turn->rotation.c, s = turn->rotation.s;
    const float u1 = c * turn->chase.alpha - s * turn->chase.beta, u2 = s * turn->chase.gamma - c * turn->chase.beta;
    return c * u1 + s * u2;
}

/** The off-diagonal before row k. */
VG_FN float vg_speed_turned_off_diagonal(const VgSpeedTurn *turn)
{
    return turn->rotation.c * turn->chase.phi - turn->rotation.s * turn->chase.psi;
}

/** Whether an eigenvalue, or a pivot's magnitude, makes the matrix singular. */
VG_FN int vg_speed_is_singular(float value)
{
    return (double)value < VG_SPEED_EPSILON;
}

/* ---- Variance field: Householder QR and back substitution ---------------------------------------------------------- */

/** The pivot of a column of length n. Its sign is that of the matrix's diagonal, a variance. */
VG_FN float vg_speed_qr_pivot(float u, float n)
{
    return u + n;
}

/** Entry of the reflection I - 2 u u^T. */
VG_FN float vg_speed_qr_entry(float u_row, float u_column, int diagonal)
{
    const float product = (-2 * u_row) * u_column;
    return diagonal ? product + 1 : product;
}

/** Next term of the entry of a matrix product. */
VG_FN float vg_speed_add_entry(float sum, float a, float b)
{
    return sum + a * b;
}

/** Next step of a back substitution. */
VG_FN float vg_speed_substitute(float t, float x, float r)
{
    return t - x * r;
}

/** A term of S: those of all 25 samples are added, the first one as it is. */
VG_FN float vg_speed_variance_term(float x, float y)
{
    return x * y / 25;
}

/* ---- Entropies ---------------------------------------------------------------------------------------------------- */

/** log2(2 pi e). */
#define VG_SPEED_GAUSS 0x1.06073a671183dp+2

/** Argument of the logarithm for an eigenvalue. */
VG_FN float vg_speed_entropy_argument(float eigenvalue, float s, float sigma)
{
    return (eigenvalue < 0 ? 0 : eigenvalue) * s + sigma;
}

/** Adds an eigenvalue's part to E, given the argument's logarithm. */
VG_FN float vg_speed_add_entropy(float e, double log2)
{
    return (float)((double)e + (log2 + VG_SPEED_GAUSS));
}

/**
 * The same with the argument itself. Where its logarithm is known well enough, no more is worked out: every step of
 * vg_speed_add_entropy() is monotonic, so that the result lies between those of the logarithm's bounds.
 */
VG_FN float vg_speed_add_entropy_of(float e, float argument)
{
    const double x = (double)argument;
    if (x >= VG_LOG2_NEAR_FIRST && x < VG_LOG2_NEAR_END) {
        const double near = vg_log2_near(x);
        const float low = vg_speed_add_entropy(e, near - VG_LOG2_NEAR_ERROR);
        if (low == vg_speed_add_entropy(e, near + VG_LOG2_NEAR_ERROR))
            return low;
    }
    return vg_speed_add_entropy(e, vg_log2(x));
}

/** Entropy below which a block is not seen. */
VG_FN float vg_speed_threshold(float floor, float sigma)
{
    return (float)(25 * (vg_log2((double)((1 + floor) * sigma)) + VG_SPEED_GAUSS));
}

/** Arguments of the logarithms that weight the entropies of a block. */
typedef struct VgSpeedWeights {
    double ref, dist;
} VgSpeedWeights;

VG_FN VgSpeedWeights vg_speed_weights(int32_t weighting, float s_ref, float s_dist)
{
    const double ref = (double)(1 + s_ref), dist = (double)(1 + s_dist), mean = 1 + (double)(s_ref + s_dist) / 2;
    VgSpeedWeights w;
    w.ref = ref;
    w.dist = ref;
    switch (weighting) {
    case 0:
        w.dist = dist;
        break;
    case 2:
        w.ref = dist;
        w.dist = dist;
        break;
    case 3:
        w.ref = mean;
        w.dist = mean;
        break;
    case 4:
        w.dist = mean;
        break;
    case 5:
        w.dist = 1 + (0.75 * (double)s_ref + 0.25 * (double)s_dist);
        break;
    case 6:
        w.dist = 1 + (0.25 * (double)s_ref + 0.75 * (double)s_dist);
        break;
    default:
        break;
    }
    return w;
}

/** An entropy, given the logarithm of its weight's argument. */
VG_FN float vg_speed_weighted(float e, double log2)
{
    return (float)((double)e * log2);
}

/** The same with the argument itself, as vg_speed_add_entropy_of() has it; a product with e is monotonic, too. */
VG_FN float vg_speed_weighted_by(float e, double argument)
{
    if (argument >= VG_LOG2_NEAR_FIRST && argument < VG_LOG2_NEAR_END) {
        const double near = vg_log2_near(argument);
        const float bound = vg_speed_weighted(e, near - VG_LOG2_NEAR_ERROR);
        if (bound == vg_speed_weighted(e, near + VG_LOG2_NEAR_ERROR))
            return bound;
    }
    return vg_speed_weighted(e, vg_log2(argument));
}

/** What a block adds to the score. */
VG_FN float vg_speed_term(float e_ref, float e_dist, float threshold, VgSpeedWeights weights)
{
    if (e_ref < threshold && e_dist < threshold)
        return 0;
    return vg_speed_magnitude(vg_speed_weighted_by(e_ref, weights.ref) - vg_speed_weighted_by(e_dist, weights.dist));
}

/** Score of a pair of planes from the running sum of its blocks' terms; `singular` is as in the record. */
VG_FN float vg_speed_score(float sum, int32_t n_blocks, uint32_t singular)
{
    const float score = sum / (float)n_blocks;
    if (singular == VG_SPEED_REF_SINGULAR || singular == VG_SPEED_DIST_SINGULAR)
        return 0;
    return score != score ? vg_bits_float(VG_SPEED_NAN) : score;
}

#endif
