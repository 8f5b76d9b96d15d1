/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Bit patterns of floating-point numbers.
 */
#ifndef VG_SHARED_MATH_BITS_H
#define VG_SHARED_MATH_BITS_H

#include "shared_math/fn.h"

VG_FN uint32_t vg_float_bits(float x)
{
    union {
        float x;
        uint32_t bits;
    } u;
    u.x = x;
    return u.bits;
}

VG_FN float vg_bits_float(uint32_t bits)
{
    union {
        float x;
        uint32_t bits;
    } u;
    u.bits = bits;
    return u.x;
}

VG_FN uint64_t vg_double_bits(double x)
{
    union {
        double x;
        uint64_t bits;
    } u;
    u.x = x;
    return u.bits;
}

VG_FN double vg_bits_double(uint64_t bits)
{
    union {
        double x;
        uint64_t bits;
    } u;
    u.bits = bits;
    return u.x;
}

#endif
