/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A picture's components: their sizes, and how metrics see them.
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

VgPlane vg_picture_plane(const VgPicture *picture, int component)
{
    VgPlane plane = { 0 };
    uint32_t width, height;
    vg_plane_size(&picture->geometry, component, &width, &height);
    if (component && picture->geometry.chroma == VG_CHROMA_400)
        return plane;
    plane.data = picture->data[component];
    plane.pitch = picture->pitch[component];
    plane.width = (int32_t)width;
    plane.height = (int32_t)height;
    plane.step = (int32_t)picture->step[component];
    plane.sample_bytes = (int32_t)picture->sample_bytes;
    plane.shift = (int32_t)picture->shift;
    return plane;
}
