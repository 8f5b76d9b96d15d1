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

#include <stdio.h>

#include "config.h"
#include "libavutil/hwcontext.h"
#include "libavutil/hwcontext_hip.h"
#if CONFIG_CUDA
#include "libavutil/hwcontext_cuda_internal.h"
#endif

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

/* Whether filters say that they work with a hardware device; where they do not, all are offered one. */
#ifndef AVFILTER_FLAG_HWDEVICE
#define AVFILTER_FLAG_HWDEVICE 0
#endif

/*
 * Whether NVDEC hands out the decoder's own surfaces, of which there are few, so that holding them stops it. Later
 * releases copy them into a pool that grows.
 */
#define VG_DECODERS_LEND_SURFACES (LIBAVFILTER_VERSION_MAJOR < 9)

#define VG_DEVICE_NAME_SIZE 160

/* CUDA frames exist only where FFmpeg was configured with them. These functions are asked about CUDA devices only. */
#define VG_HAS_CUDA CONFIG_CUDA
#if CONFIG_CUDA
static inline void *vg_cuda_context(const AVHWDeviceContext *device)
{
    return ((const AVCUDADeviceContext *)device->hwctx)->cuda_ctx;
}

/** The stream in which the device's frames are made. */
static inline void *vg_cuda_stream(const AVHWDeviceContext *device)
{
    return ((const AVCUDADeviceContext *)device->hwctx)->stream;
}

/** "NVIDIA H200 (0000:65:00.0)", as far as the driver tells. */
static inline void vg_cuda_name(char text[VG_DEVICE_NAME_SIZE], const AVHWDeviceContext *device)
{
    /* CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, _BUS_ID, _DEVICE_ID: not all headers name them. */
    static const int numbers[] = { 50, 33, 34 };
    const AVCUDADeviceContext *cuda = device->hwctx;
    CudaFunctions *cu = cuda->internal->cuda_dl;
    CUcontext before;
    CUdevice index = 0;
    char name[100] = "an unknown device";
    int id[3] = { 0 };

    if (!cu->cuCtxPushCurrent(cuda->cuda_ctx)) {
        if (!cu->cuCtxGetDevice(&index) && !cu->cuDeviceGetName(name, sizeof(name), index))
            for (int i = 0; i < 3; i++)
                cu->cuDeviceGetAttribute(&id[i], (CUdevice_attribute)numbers[i], index);
        cu->cuCtxPopCurrent(&before);
    }
    snprintf(text, VG_DEVICE_NAME_SIZE, "%s (%04x:%02x:%02x.0)", name, id[0], id[1], id[2]);
}
#else
static inline void *vg_cuda_context(const AVHWDeviceContext *device)
{
    return NULL;
}

static inline void *vg_cuda_stream(const AVHWDeviceContext *device)
{
    return NULL;
}

static inline void vg_cuda_name(char text[VG_DEVICE_NAME_SIZE], const AVHWDeviceContext *device)
{
    snprintf(text, VG_DEVICE_NAME_SIZE, "a CUDA device");
}
#endif

/* HIP frames come with the same patch as the filter, but may be configured away. */
#define VG_HAS_HIP CONFIG_HIP

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
