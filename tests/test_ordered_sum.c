/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Sums made in parallel as the serial loop makes them (shared_math/ordered_sum.h), against the serial loop; and the guard
 * band, whose claims must hold for every order of additions that is tried.
 */
#include "tests/cmocka_includes.h"

#include "shared_math/float_ssim.h"
#include "shared_math/ordered_sum.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 200000

static uint64_t random_state = 1;

static uint32_t random32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static double random_unit(void)
{
    return (random32() + random32() * 0x1p-32) * 0x1p-32;
}

static double like_ssim(void)
{
    return 1 - random_unit() * random_unit() * 0.2;
}

static double of_both_signs(void)
{
    return random_unit() - 0.5;
}

static double negative(void)
{
    return -random_unit();
}

/* Few bits, so that half of the additions to a large sum are ties. */
static double ties(void)
{
    return (double)(random32() % 4096) * 0x1p-40 + (double)(random32() % 3);
}

static double tiny_and_large(void)
{
    return ldexp(random_unit() - 0.25, (int)(random32() % 120) - 100);
}

static double small_floats(void)
{
    return (double)(float)(random_unit() - 0.4999);
}

static double zeros(void)
{
    return 0;
}

static const struct {
    const char *name;
    double (*term)(void);
} kinds[] = {
    { "like SSIM", like_ssim },           { "both signs", of_both_signs },  { "negative", negative }, { "ties", ties },
    { "tiny and large", tiny_and_large }, { "small floats", small_floats }, { "zeros", zeros },
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Multiples of 2^-24 with few more bits than that, as CAMBI's values. */
static double coarse(void)
{
    return random32() % 4 ? (double)(float)(0.5 + random_unit() * 9000) : 0.5 + (double)(random32() % 8) * 0x1p-24;
}

#define ANY 1000 /* no exponent: terms of which nothing is known */

/*
 * As the kernels do it: sums of chunks, exponents, runs of pieces joined, and the fold. Counts regular chunks. `exact`: see
 * vg_ordered_exponent_from(), or ANY.
 */
static double ordered_sum(const double *terms, int64_t n, int64_t piece, int32_t exact, unsigned *regular)
{
    double sum = 0, start = 0, magnitude = 0;

    for (int64_t first = 0; first < n; first += VG_ORDERED_CHUNK) {
        const int64_t end = n - first < VG_ORDERED_CHUNK ? n : first + VG_ORDERED_CHUNK;
        double positive = 0, less = 0;
        for (int64_t i = end - 1; i >= first; i--) { /* another order than the serial one */
            positive += terms[i] > 0 ? terms[i] : 0;
            less += terms[i] < 0 ? terms[i] : 0;
        }
        magnitude += positive - less;
        const int32_t exponent = exact == ANY ? vg_ordered_exponent(start, positive, less, magnitude)
                                              : vg_ordered_exponent_from(exact, start, positive, magnitude);
        start += positive + less;
        if (exponent == VG_ORDERED_IRREGULAR) {
            for (int64_t i = first; i < end; i++)
                sum += terms[i];
            continue;
        }
        VgOrderedPair run = { 0, 0 };
        for (int64_t i = first; i < end; i += piece) {
            VgOrderedPair part = { 0, 0 };
            for (int64_t k = i; k < end && k < i + piece; k++)
                part = vg_ordered_append(part, terms[k], vg_ordered_scale(exponent));
            run = vg_ordered_join(run, part);
        }
        sum = vg_ordered_apply(sum, run, exponent);
        ++*regular;
    }
    return sum;
}

static void equals_the_serial_sum(void **state)
{
    static double terms[MOST];
    static const int64_t lengths[] = { 1, 2, 511, 512, 513, 5000, 40000, MOST };
    (void)state;

    for (unsigned k = 0; k < N_KINDS; k++) {
        unsigned regular = 0, chunks = 0;
        for (unsigned round = 0; round < 6; round++)
            for (unsigned l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
                double serial = 0;
                for (int64_t i = 0; i < lengths[l]; i++) {
                    terms[i] = kinds[k].term();
                    serial += terms[i];
                }
                const double parallel = ordered_sum(terms, lengths[l], 1 + round * 7, ANY, &regular);
                chunks += (unsigned)((lengths[l] + VG_ORDERED_CHUNK - 1) / VG_ORDERED_CHUNK);
                if (vg_double_bits(parallel) != vg_double_bits(serial))
                    fail_msg("%s, %d terms: %a, not %a", kinds[k].name, (int)lengths[l], parallel, serial);
            }
        printf("# %s: %u of %u chunks regular\n", kinds[k].name, regular, chunks);
        if (k == 0) /* the point of it all */
            assert_true(regular > chunks * 9 / 10);
    }
}

/* The serial sum rounds down half a unit again and again and is below a power of two where the sum in another order is not. */
static void sums_that_lag_behind_agree(void **state)
{
    double terms[3 * VG_ORDERED_CHUNK] = { 1 }, serial = 0;
    unsigned regular = 0;
    (void)state;

    for (int i = 1; i <= 510; i++)
        terms[i] = 0x1p-53;
    terms[VG_ORDERED_CHUNK] = 1 - 510 * 0x1p-53;
    terms[2 * VG_ORDERED_CHUNK] = 302 * 0x1p-52;
    for (int i = 0; i < 3 * VG_ORDERED_CHUNK; i++)
        serial += terms[i];
    assert_true(vg_double_bits(ordered_sum(terms, 3 * VG_ORDERED_CHUNK, 64, ANY, &regular)) == vg_double_bits(serial));
}

/* Below 2^29 nothing rounds: chunks are irregular only where the sum passes a power of two from there on. */
static void sums_of_coarse_terms_begin_exactly(void **state)
{
    static double terms[MOST];
    unsigned regular = 0, chunks = 0;
    (void)state;

    for (unsigned round = 0; round < 20; round++) {
        double serial = 0;
        for (int64_t i = 0; i < MOST; i++) {
            terms[i] = coarse();
            serial += terms[i];
        }
        assert_true(serial >= 0x1p29);
        const double parallel = ordered_sum(terms, MOST, 1 + round * 5, 28, &regular);
        chunks += (MOST + VG_ORDERED_CHUNK - 1) / VG_ORDERED_CHUNK;
        assert_int_equal(vg_double_bits(parallel), vg_double_bits(serial));
    }
    printf("# %u of %u chunks regular\n", regular, chunks);
    assert_true(chunks - regular <= 20); /* a sum of 7e8 passes 2^29 alone */
}

static double tree(const double *terms, int64_t n)
{
    return n == 1 ? terms[0] : tree(terms, n / 2) + tree(terms + n / 2, n - n / 2);
}

/* Wherever a tree's mean is called proven, it is the serial one's; and almost always it is proven. */
static void proofs_are_right(void **state)
{
    static double terms[MOST];
    unsigned proven = 0, tried = 0;
    (void)state;

    for (unsigned round = 0; round < 300; round++) {
        const int32_t width = 11 + (int32_t)(random32() % 300), height = 11 + (int32_t)(random32() % 300);
        const int64_t n = (int64_t)(width - 10) * (height - 10);
        const unsigned k = round % N_KINDS;
        double serial = 0, magnitude = 0;
        float mean;
        for (int64_t i = 0; i < n; i++) {
            terms[i] = kinds[k].term();
            serial += terms[i];
            magnitude += fabs(terms[i]);
        }
        tried++;
        if (!vg_float_ssim_proven(tree(terms, n), magnitude, vg_ordered_guard(n), width, height, &mean))
            continue;
        proven++;
        assert_int_equal(vg_float_bits(mean), vg_float_bits(vg_float_ssim_mean(serial, width, height)));
    }
    printf("# %u of %u proven\n", proven, tried);
    assert_true(proven > tried * 9 / 10);
}

/* A mean halfway between two floats cannot be proven by any band. */
static void ties_are_not_proven(void **state)
{
    const double sum = 4 * (1 + 0x1p-24);
    float mean;
    (void)state;

    assert_int_equal(vg_float_ssim_proven(sum, sum, vg_ordered_guard(4), 12, 12, &mean), 0);
    assert_int_equal(vg_float_ssim_proven(4, 4, vg_ordered_guard(4), 12, 12, &mean), 1);
    assert_true(mean == 1);
}

/* The tap that is widened by moving its fields, on what the passes meet. */
static void moved_taps_are_taps(void **state)
{
    static const float gauss[VG_FLOAT_SSIM_TAPS] = VG_FLOAT_SSIM_GAUSS;
    (void)state;

    for (unsigned round = 0; round < 2000000; round++) {
        double plain = 0, moved = VG_FLOAT_SSIM_SUM_START;
        const unsigned kind = random32() % 6;
        for (int k = 0; k < VG_FLOAT_SSIM_TAPS; k++) {
            float x = kind == 0   ? 0
                      : kind == 1 ? (float)(random32() % 256)
                      : kind == 2 ? (float)(random32() % 65536) * 0x1p-8f
                      : kind == 3 ? (float)random_unit() * 65025
                      : kind == 4 ? (random32() % 3 ? 0 : 0x1p-22f)
                                  : (random32() % 2 ? 0 : 0x1p-54f * (float)(1 + random32() % 1000));
            plain = vg_float_ssim_add_tap(plain, x, gauss[k]);
            moved = vg_float_ssim_add_tap_moved(moved, x, gauss[k]);
        }
        if (vg_double_bits(plain) != vg_double_bits(moved))
            fail_msg("%a, not %a", moved, plain);
    }
}

/* Exact integer sums of products and the doubles of the CPU reference round to the same. */
static void units_are_products(void **state)
{
    (void)state;

    for (int32_t factor = 2; factor <= VG_FLOAT_SSIM_MAX_FACTOR; factor++)
        for (int depth = 8; depth <= 16; depth += factor % 3 ? 8 : 2) {
            const float unit = vg_float_ssim_unit(depth), tap = 1.0f / (float)(factor * factor);
            double sum = 0;
            int64_t units = 0, samples = 0;
            for (int32_t i = 0; i < factor * factor; i++) {
                const int32_t sample = (int32_t)(random32() >> (32 - depth)) & (factor % 5 ? -1 : 1);
                sum += (double)vg_float_ssim_product(sample, unit, tap);
                units += vg_float_ssim_product_units(sample, unit, tap);
                samples += sample;
            }
            if (vg_float_ssim_sums_samples(factor))
                assert_true(vg_float_ssim_decimated_samples((int32_t)samples, unit, tap) ==
                            vg_float_ssim_decimated((double)samples, factor, unit, tap));
            else
                assert_true(vg_float_ssim_decimated_units(units) == vg_float_ssim_decimated(sum, factor, unit, tap));
            assert_true((double)units * 0x1p-45 == sum);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_serial_sum),
        cmocka_unit_test(sums_that_lag_behind_agree),
        cmocka_unit_test(sums_of_coarse_terms_begin_exactly),
        cmocka_unit_test(proofs_are_right),
        cmocka_unit_test(ties_are_not_proven),
        cmocka_unit_test(moved_taps_are_taps),
        cmocka_unit_test(units_are_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
