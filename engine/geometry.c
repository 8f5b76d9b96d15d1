/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Sizes of a picture's components.
 */
#include "engine/metric.h"

void vg_plane_size(const VgGeometry *geometry, int component, uint32_t *width, uint32_t *height)
{
    *width = geometry->width;
    *height = geometry->height;
    if (!component)
        return;
    /* Rounded down: libvmaf does not read the last column or row of an odd picture's chroma. */
    if (geometry->chroma == VG_CHROMA_420 || geometry->chroma == VG_CHROMA_422)
        *width /= 2;
    if (geometry->chroma == VG_CHROMA_420)
        *height /= 2;
    if (geometry->chroma == VG_CHROMA_400)
        *width = *height = 0;
}
