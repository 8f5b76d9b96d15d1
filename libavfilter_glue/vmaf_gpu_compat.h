/*
 * Copyright (c) 2026 the vmaf_gpu authors
 *
 * Redistribution and use in source and binary forms, with or without
 * modification, are permitted provided that the following conditions are met:
 *
 * 1. Redistributions of source code must retain the above copyright notice, this
 *    list of conditions and the following disclaimer.
 *
 * 2. Redistributions in binary form must reproduce the above copyright notice,
 *    this list of conditions and the following disclaimer in the documentation
 *    and/or other materials provided with the distribution.
 *
 * THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS"
 * AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE
 * IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
 * DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE
 * FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
 * DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
 * SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
 * CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,
 * OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
 * OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
 */

/**
 * @file
 * What differs between the FFmpeg releases that vmaf_gpu is built for (5.1, 7.1, 8.1, 9.0). Nothing else asks for versions.
 */

#ifndef AVFILTER_VMAF_GPU_COMPAT_H
#define AVFILTER_VMAF_GPU_COMPAT_H

#include "avfilter.h"
#include "filters.h"
#include "formats.h"
#include "framesync.h"
#include "version.h"

/* The part of a link that only filters see. */
#if LIBAVFILTER_VERSION_INT < AV_VERSION_INT(10, 4, 100)
#include "internal.h"
#define vg_filter_link(link) (link)
#else
#define vg_filter_link(link) ff_filter_link(link)
#endif

/* The type of a filter's definition, and where its public fields are. */
#if LIBAVFILTER_VERSION_MAJOR >= 11
#define VG_FILTER     const FFFilter
#define VG_PUB(field) .p.field
#else
#define VG_FILTER     const AVFilter
#define VG_PUB(field) .field
#endif

/* Whether framesync knows ts_sync_mode. */
#define VG_HAS_TS_SYNC_MODE (LIBAVFILTER_VERSION_MAJOR >= 9)

/**
 * Gives an input its own lists of all colour spaces, ranges and alpha modes, so that libavfilter does not convert it to
 * those of another input.
 */
static inline int vg_free_colour(AVFilterLink *link)
{
    int ret = 0;

#if LIBAVFILTER_VERSION_INT >= AV_VERSION_INT(10, 0, 100)
    if ((ret = ff_formats_ref(ff_all_color_spaces(), &link->outcfg.color_spaces)) < 0 ||
        (ret = ff_formats_ref(ff_all_color_ranges(), &link->outcfg.color_ranges)) < 0)
        return ret;
#endif
#if LIBAVFILTER_VERSION_INT >= AV_VERSION_INT(11, 14, 100)
    ret = ff_formats_ref(ff_all_alpha_modes(), &link->outcfg.alpha_modes);
#endif
    (void)link;
    return ret;
}

#endif /* AVFILTER_VMAF_GPU_COMPAT_H */
