/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * float_ssim's pixel pass, compiled once for every instruction set: the including file defines VG_RUN, the
 * function's name, and VG_LINKAGE, static or nothing.
 *
 * Rows stream through: a window of source rows is decimated to one row of R and of T, these and their products are
 * filtered horizontally into a ring of eleven rows, and from the eleventh on each new row completes a row of windows.
 */
#include <string.h>

#include "cpu_ref/cpu_ref.h"
#include "cpu_ref/float_ssim.h"
#include "cpu_ref/rows.h"

#define TAPS VG_FLOAT_SSIM_TAPS

static const float gauss[TAPS] = VG_FLOAT_SSIM_GAUSS;

VG_TEMPLATE void convert_row(const void *row, int32_t width, float unit, float *restrict out, const int bytes)
{
    for (int32_t x = 0; x < width; x++)
        out[x] = (float)vg_sample(row, x, bytes) * unit;
}

VG_TEMPLATE void add_samples(const void *row, int32_t width, uint32_t *restrict sums, const int bytes)
{
    for (int32_t x = 0; x < width; x++)
        sums[x] += (uint32_t)vg_sample(row, x, bytes);
}

VG_TEMPLATE void add_products(const void *row, int32_t width, float unit, float tap, double *restrict sums,
                              const int bytes)
{
    for (int32_t x = 0; x < width; x++)
        sums[x] += (double)vg_float_ssim_product(vg_sample(row, x, bytes), unit, tap);
}

/* Sums groups of `factor` columns. */
VG_TEMPLATE void group_columns(const double *columns, int32_t out_width, const int32_t factor, float unit, float tap,
                               float *restrict out)
{
    for (int32_t x = 0; x < out_width; x++) {
        double sum = 0;
        for (int32_t i = 0; i < factor; i++)
            sum += columns[x * factor + i];
        out[x] = vg_float_ssim_decimated(sum, factor, unit, tap);
    }
}

/* Row y of the decimated plane: sums of columns first, then of groups of columns, for the order is free. */
VG_TEMPLATE void decimated_row(const VgFloatSsimParams *params, const VgPlane *plane, int32_t y,
                               const VgFloatSsimScratch *scratch, float *restrict out, const int bytes)
{
    const int32_t width = params->width, height = params->height, factor = params->factor;
    const float unit = vg_float_ssim_unit(params->bit_depth), tap = params->tap;
    const int32_t left = vg_float_ssim_window(0, factor);
    const int32_t right = vg_float_ssim_window(params->out_width, factor);
    const int32_t top = vg_float_ssim_window(y, factor);
    double *columns = scratch->column_sums - left;

    if (factor == 1) {
        convert_row(vg_row(plane, y, scratch->samples, bytes), width, unit, out, bytes);
        return;
    }

    if (vg_float_ssim_sums_samples(factor)) {
        uint32_t *sums = scratch->integer_sums;
        memset(sums, 0, (size_t)width * sizeof(*sums));
        for (int32_t j = top; j < top + factor; j++)
            add_samples(vg_row(plane, vg_float_ssim_mirror(j, height), scratch->samples, bytes), width, sums, bytes);
        for (int32_t x = 0; x < width; x++)
            columns[x] = (double)(int32_t)sums[x];
    } else {
        memset(columns, 0, (size_t)width * sizeof(*columns));
        for (int32_t j = top; j < top + factor; j++)
            add_products(vg_row(plane, vg_float_ssim_mirror(j, height), scratch->samples, bytes), width, unit, tap,
                         columns, bytes);
    }
    for (int32_t x = left; x < 0; x++)
        columns[x] = columns[vg_float_ssim_mirror(x, width)];
    for (int32_t x = width; x < right; x++)
        columns[x] = columns[vg_float_ssim_mirror(x, width)];

    switch (factor) { /* the factors of common sizes, so that loops are unrolled */
    case 2:
        group_columns(scratch->column_sums, params->out_width, 2, unit, tap, out);
        break;
    case 3:
        group_columns(scratch->column_sums, params->out_width, 3, unit, tap, out);
        break;
    case 4:
        group_columns(scratch->column_sums, params->out_width, 4, unit, tap, out);
        break;
    default:
        group_columns(scratch->column_sums, params->out_width, factor, unit, tap, out);
    }
}

static void load_row(const VgFloatSsimParams *params, const VgPlane *plane, int32_t y,
                     const VgFloatSsimScratch *scratch, float *out)
{
    if (plane->sample_bytes == 1)
        decimated_row(params, plane, y, scratch, out, 1);
    else
        decimated_row(params, plane, y, scratch, out, 2);
}

/* One row of a Gaussian pass, vertical over eleven rows or horizontal over one row at eleven offsets. */
static void gauss_row(const float *const in[TAPS], int32_t n, float *restrict out)
{
    for (int32_t x = 0; x < n; x++) {
        double sum = 0;
        for (int k = 0; k < TAPS; k++)
            sum = vg_float_ssim_add_tap(sum, in[k][x], gauss[k]);
        out[x] = (float)sum;
    }
}

static void multiply_rows(const float *a, const float *b, int32_t n, float *restrict out)
{
    for (int32_t x = 0; x < n; x++)
        out[x] = a[x] * b[x];
}

/* Terms, and factors if they are wanted, of a row of windows from its five filtered rows. */
static void factor_row(float *const g[VG_FLOAT_SSIM_PLANES], int32_t n, double *const rows[4], int lcs)
{
    const float *mr = g[0], *mt = g[1], *rr = g[2], *tt = g[3], *rt = g[4];
    double *restrict term = rows[0], *restrict l = rows[1], *restrict c = rows[2], *restrict s = rows[3];

    if (lcs) {
        for (int32_t x = 0; x < n; x++) {
            VgFloatSsimFactors f = vg_float_ssim_factors(vg_float_ssim_stats(mr[x], mt[x], rr[x], tt[x], rt[x]));
            term[x] = vg_float_ssim_term(f);
            l[x] = f.l;
            c[x] = f.c;
            s[x] = f.s;
        }
    } else {
        for (int32_t x = 0; x < n; x++)
            term[x] = vg_float_ssim_term(vg_float_ssim_factors(vg_float_ssim_stats(mr[x], mt[x], rr[x], tt[x], rt[x])));
    }
}

/* Continues four sums in order: four independent chains of additions, so that they overlap. */
static void add_rows(double *const rows[4], int32_t n, double sums[4], int lcs)
{
    double sum = sums[0], l = sums[1], c = sums[2], s = sums[3];

    if (lcs) {
        for (int32_t x = 0; x < n; x++) {
            sum += rows[0][x];
            l += rows[1][x];
            c += rows[2][x];
            s += rows[3][x];
        }
    } else {
        for (int32_t x = 0; x < n; x++)
            sum += rows[0][x];
    }
    sums[0] = sum;
    sums[1] = l;
    sums[2] = c;
    sums[3] = s;
}

VG_LINKAGE void VG_RUN(const void *params_v, const VgCpuFrame *frame, int band, int n_bands, void *memory,
                       void *partial)
{
    const VgFloatSsimParams *params = params_v;
    const int32_t out_width = params->out_width, out_height = params->out_height;
    const int32_t n = out_width - TAPS + 1; /* windows in a row */
    double sums[4] = { 0 };
    VgFloatSsimScratch scratch;
    (void)band;
    (void)n_bands;

    vg_float_ssim_scratch(params, memory, &scratch);
    for (int32_t y = 0; n > 0 && out_height >= TAPS && y < out_height; y++) {
        load_row(params, &frame->ref[0][0], y, &scratch, scratch.in[0]);
        load_row(params, &frame->dist[0][0], y, &scratch, scratch.in[1]);
        multiply_rows(scratch.in[0], scratch.in[0], out_width, scratch.in[2]);
        multiply_rows(scratch.in[1], scratch.in[1], out_width, scratch.in[3]);
        multiply_rows(scratch.in[0], scratch.in[1], out_width, scratch.in[4]);

        for (int p = 0; p < VG_FLOAT_SSIM_PLANES; p++) {
            const float *taps[TAPS];
            for (int k = 0; k < TAPS; k++)
                taps[k] = scratch.in[p] + k;
            gauss_row(taps, n, scratch.ring[p][y % TAPS]);
            if (y < TAPS - 1)
                continue;
            for (int k = 0; k < TAPS; k++)
                taps[k] = scratch.ring[p][(y + 1 + k) % TAPS]; /* the oldest row is the one after the newest */
            gauss_row(taps, n, scratch.filtered[p]);
        }
        if (y < TAPS - 1)
            continue;
        factor_row(scratch.filtered, n, scratch.factors, params->lcs);
        add_rows(scratch.factors, n, sums, params->lcs);
    }

    VgFloatSsimRecord record = { 0 };
    record.ssim = vg_float_ssim_mean(sums[0], out_width, out_height);
    if (params->lcs) {
        record.l = vg_float_ssim_mean(sums[1], out_width, out_height);
        record.c = vg_float_ssim_mean(sums[2], out_width, out_height);
        record.s = vg_float_ssim_mean(sums[3], out_width, out_height);
    }
    memcpy(partial, &record, sizeof(record));
}

#undef TAPS
