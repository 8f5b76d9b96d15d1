/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * motion's pixel pass, compiled once for every instruction set: the including file defines VG_RUN, the
 * function's name, and VG_LINKAGE, static or nothing.
 *
 * It may also define VG_VERTICAL_NARROW and VG_HORIZONTAL_SUM, hand-written loops over the first columns of a row which
 * return how many columns they have done; the C loops do the rest.
 *
 * Rows stream through: five rows of differences, of which each new one replaces the oldest, one row of vertical results.
 */
#include <string.h>

#include "cpu_ref/cpu_ref.h"
#include "cpu_ref/rows.h"
#include "shared_math/motion.h"

#ifndef VG_VERTICAL_NARROW
#define VG_VERTICAL_NARROW(d0, d1, d2, d3, d4, width, bit_depth, v) 0
#endif
#ifndef VG_HORIZONTAL_SUM
#define VG_HORIZONTAL_SUM(v, width, sum) 0
#endif

#define MARGIN 16 /* elements before the row of vertical results: 2 are used, the rest keeps it aligned */

static inline size_t vg_motion_scratch_size(int32_t width)
{
    return 2 * vg_row_size(width, sizeof(uint16_t)) + 5 * vg_row_size(width, sizeof(int32_t)) +
           vg_row_size((int64_t)width + 2 * MARGIN, sizeof(int32_t));
}

/*
 * Differences are kept in 16 bits if the sum of two fits there, that is, up to 14 bits a sample: half the memory, and
 * 16-bit factors, whose products compilers make faster.
 */
VG_TEMPLATE void difference_row(const void *earlier, const void *current, int32_t width, void *restrict d,
                                const int bytes, const int narrow)
{
    if (narrow) {
        for (int32_t x = 0; x < width; x++)
            ((int16_t *)d)[x] = (int16_t)(vg_sample(earlier, x, bytes) - vg_sample(current, x, bytes));
    } else {
        for (int32_t x = 0; x < width; x++)
            ((int32_t *)d)[x] = vg_sample(earlier, x, bytes) - vg_sample(current, x, bytes);
    }
}

VG_TEMPLATE void vertical_row(const void *const rows[5], int32_t width, int32_t bit_depth, int32_t *restrict v,
                              const int narrow)
{
    if (narrow) {
        const int16_t *d0 = rows[0], *d1 = rows[1], *d2 = rows[2], *d3 = rows[3], *d4 = rows[4];
        for (int32_t x = VG_VERTICAL_NARROW(d0, d1, d2, d3, d4, width, bit_depth, v); x < width; x++)
            v[x] = vg_motion_filter((int16_t)(d0[x] + d4[x]), (int16_t)(d1[x] + d3[x]), d2[x], bit_depth);
    } else {
        const int32_t *d0 = rows[0], *d1 = rows[1], *d2 = rows[2], *d3 = rows[3], *d4 = rows[4];
        for (int32_t x = 0; x < width; x++)
            v[x] = vg_motion_filter(d0[x] + d4[x], d1[x] + d3[x], d2[x], bit_depth);
    }

    for (int32_t i = 1; i <= 2; i++) {
        v[-i] = v[vg_motion_mirror(-i, width)];
        v[width - 1 + i] = v[vg_motion_mirror(width - 1 + i, width)];
    }
}

/* |h| is at most 2^16 - 1 and a row has at most 2^16 samples: 32 bits hold its sum. */
VG_TEMPLATE uint32_t horizontal_row_sum(const int32_t *v, int32_t width)
{
    uint32_t sum = 0;

    for (int32_t x = VG_HORIZONTAL_SUM(v, width, &sum); x < width; x++) {
        int32_t h = vg_motion_filter(v[x - 2] + v[x + 2], v[x - 1] + v[x + 1], v[x], 16);
        sum += (uint32_t)(h < 0 ? -h : h);
    }
    return sum;
}

VG_TEMPLATE uint64_t sad_rows(const VgMotionParams *params, const VgPlane *earlier, const VgPlane *current,
                              int32_t first, int32_t end, uint8_t *scratch, const int bytes, const int narrow)
{
    const int32_t width = params->width, height = params->height;
    const size_t row_size = vg_row_size(width, narrow ? sizeof(int16_t) : sizeof(int32_t));
    uint8_t *scratch_earlier = scratch;
    uint8_t *scratch_current = scratch_earlier + vg_row_size(width, bytes);
    uint8_t *ring = scratch_current + vg_row_size(width, bytes);
    int32_t *v = (int32_t *)(void *)(ring + 5 * row_size) + MARGIN;
    uint64_t sum = 0;
    int32_t next = first >= 2 ? first - 2 : 0;

    for (int32_t y = first; y < end; y++) {
        const void *d[5];

        /* Mirrored rows lie within two rows of y as well, so the last five differences are all that is ever needed. */
        for (; next <= y + 2 && next < height; next++)
            difference_row(vg_row(earlier, next, scratch_earlier, bytes), vg_row(current, next, scratch_current, bytes),
                           width, ring + next % 5 * row_size, bytes, narrow);
        for (int k = 0; k < 5; k++)
            d[k] = ring + vg_motion_mirror(y - 2 + k, height) % 5 * row_size;
        vertical_row(d, width, params->bit_depth, v, narrow);
        sum += horizontal_row_sum(v, width);
    }
    return sum;
}

VG_LINKAGE void VG_RUN(const void *params_v, const VgCpuFrame *frame, int band, int n_bands, void *scratch,
                       void *partial)
{
    const VgMotionParams *params = params_v;
    const VgPlane *current = &frame->ref[0][0];
    const int32_t first = vg_band_start(params->height, band, n_bands);
    const int32_t end = vg_band_start(params->height, band + 1, n_bands);
    VgMotionRecord record = { { 0 } };

    for (unsigned lag = 1; lag <= 2; lag++) {
        const VgPlane *earlier = &frame->ref[lag][0];

        if (!(params->lags & 1 << (lag - 1)) || frame->index < lag)
            continue;
        uint64_t *sad = &record.sad[lag - 1];
        if (params->bit_depth > 14)
            *sad = sad_rows(params, earlier, current, first, end, scratch, 2, 0);
        else if (earlier->sample_bytes == 2 || current->sample_bytes == 2)
            *sad = sad_rows(params, earlier, current, first, end, scratch, 2, 1);
        else
            *sad = sad_rows(params, earlier, current, first, end, scratch, 1, 1);
    }
    memcpy(partial, &record, sizeof(record));
}

#undef MARGIN
#undef VG_VERTICAL_NARROW
#undef VG_HORIZONTAL_SUM
