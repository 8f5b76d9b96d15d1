/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Rows of a plane as contiguous samples, whatever the layout. A row that is contiguous already is returned in place;
 * others (interleaved chroma, samples in the high bits, 8-bit samples in 16-bit words) are unpacked into scratch.
 *
 * Pixel passes are written once for 8-bit and 16-bit samples: as functions that take the bytes of a sample as a
 * constant and are inlined, so that the compiler makes one specialised copy for each size.
 */
#ifndef VG_CPU_REF_ROWS_H
#define VG_CPU_REF_ROWS_H

#include "cpu_ref/plane.h"

#define VG_TEMPLATE static inline __attribute__((always_inline))

/** Sample x of a row of contiguous samples. */
VG_TEMPLATE int32_t vg_sample(const void *row, int32_t x, const int bytes)
{
    return bytes == 1 ? ((const uint8_t *)row)[x] : ((const uint16_t *)row)[x];
}

/** Bytes that a row of `n` elements takes in scratch memory, a multiple of 64. */
static inline size_t vg_row_size(int64_t n, size_t element_size)
{
    return ((size_t)n * element_size + 63) & ~(size_t)63;
}

/** Takes such a row of scratch memory, of which `used` bytes are taken; with memory NULL only counts. */
static inline void *vg_take_row(uint8_t *memory, size_t *used, int64_t n, size_t element_size)
{
    void *row = memory ? memory + *used : NULL;
    *used += vg_row_size(n, element_size);
    return row;
}

/**
 * Row y of a plane as contiguous samples of `bytes` bytes: 1, if the plane's samples are single bytes, or 2 for any
 * plane. `scratch` takes one row. The result is valid until the plane's memory or the scratch changes.
 */
VG_TEMPLATE const void *vg_row(const VgPlane *plane, int32_t y, void *scratch, const int bytes)
{
    const uint8_t *src = plane->data + y * plane->pitch;
    const ptrdiff_t step = plane->step / plane->sample_bytes;
    const int32_t width = plane->width;
    const int shift = plane->shift;

    if (plane->sample_bytes == bytes && step == 1 && shift == 0)
        return src;
    if (bytes == 1) {
        uint8_t *restrict row = scratch;
        for (int32_t x = 0; x < width; x++)
            row[x] = src[x * step];
    } else if (plane->sample_bytes == 1) {
        uint16_t *restrict row = scratch;
        for (int32_t x = 0; x < width; x++)
            row[x] = src[x * step];
    } else {
        const uint16_t *words = (const uint16_t *)(const void *)src;
        uint16_t *restrict row = scratch;
        if (step == 1) {
            for (int32_t x = 0; x < width; x++)
                row[x] = (uint16_t)(words[x] >> shift);
        } else {
            for (int32_t x = 0; x < width; x++)
                row[x] = (uint16_t)(words[x * step] >> shift);
        }
    }
    return scratch;
}

/** First of the rows of band `band` when `height` rows are cut into `n_bands`; for band n_bands it is `height`. */
static inline int32_t vg_band_start(int32_t height, int band, int n_bands)
{
    return (int32_t)((int64_t)height * band / n_bands);
}

/** Most bands worth a task of their own. */
static inline int vg_bands_of(int32_t height)
{
    return height >= 128 ? height / 64 : 1;
}

#endif
