/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * PSNR's pixel pass, compiled once for every instruction set: the including file defines VG_RUN, the
 * function's name, and VG_LINKAGE, static or nothing.
 */
#include <string.h>

#include "cpu_ref/cpu_ref.h"
#include "cpu_ref/rows.h"
#include "shared_math/psnr.h"

/* Sum of squared errors of a row of any depth. */
VG_TEMPLATE uint64_t sse_row_wide(const void *ref, const void *dist, int32_t width, const int bytes)
{
    uint64_t sum = 0;

    for (int32_t x = 0; x < width; x++)
        sum += vg_psnr_square(vg_sample(ref, x, bytes), vg_sample(dist, x, bytes));
    return sum;
}

/*
 * The same below 16 bits: differences fit the 16-bit lanes of multiplications that add pairs into 32-bit sums, of which
 * one holds the squares of `run` samples.
 */
VG_TEMPLATE uint64_t sse_row_narrow(const void *ref, const void *dist, int32_t width, int32_t run, const int bytes)
{
    uint64_t total = 0;

    for (int32_t first = 0; first < width; first += run) {
        const int32_t end = width - first < run ? width : first + run;
        uint32_t sum = 0;
        for (int32_t x = first; x < end; x++)
            sum += vg_psnr_square_narrow(vg_sample(ref, x, bytes), vg_sample(dist, x, bytes));
        total += sum;
    }
    return total;
}

VG_TEMPLATE uint64_t sse_rows(const VgPlane *ref, const VgPlane *dist, int32_t width, int32_t first, int32_t end,
                              int bit_depth, uint8_t *scratch, const int bytes)
{
    uint8_t *scratch_ref = scratch;
    uint8_t *scratch_dist = scratch + vg_row_size(width, bytes);
    uint64_t sum = 0;

    for (int32_t y = first; y < end; y++) {
        const void *r = vg_row(ref, y, scratch_ref, bytes);
        const void *d = vg_row(dist, y, scratch_dist, bytes);
        sum += bit_depth < 16 ? sse_row_narrow(r, d, width, vg_psnr_run(bit_depth), bytes)
                              : sse_row_wide(r, d, width, bytes);
    }
    return sum;
}

VG_LINKAGE void VG_RUN(const void *params_v, const VgCpuFrame *frame, int band, int n_bands, void *scratch,
                       void *partial)
{
    const VgPsnrParams *params = params_v;
    VgPsnrRecord record = { { 0 } };

    for (int c = 0; c < 3; c++) {
        const VgPlane *ref = &frame->ref[0][c];
        const VgPlane *dist = &frame->dist[0][c];
        const int32_t width = params->width[c];
        const int32_t first = vg_band_start(params->height[c], band, n_bands);
        const int32_t end = vg_band_start(params->height[c], band + 1, n_bands);

        if (width == 0 || first == end)
            continue;
        if (ref->sample_bytes == 1 && dist->sample_bytes == 1)
            record.sse[c] = sse_rows(ref, dist, width, first, end, params->bit_depth, scratch, 1);
        else
            record.sse[c] = sse_rows(ref, dist, width, first, end, params->bit_depth, scratch, 2);
    }
    memcpy(partial, &record, sizeof(record));
}
