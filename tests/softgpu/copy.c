/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Copies and fills.
 *
 * As the driver's: what a pageable source holds is taken when the copy is asked for; a copy to pageable memory is done
 * when the call returns; pinned memory is read and written when the copy runs.
 */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Whether this is the copy that SOFTGPU_FLIP spoils. */
static int is_spoilt(const SgCopy *c)
{
    const SgMemory *dst = sg.flip_in ? sg_memory_of(c->dst, 1) : NULL, *src = dst ? sg_memory_of(c->src, 1) : NULL;
    return src && dst->object.kind == SG_PINNED_MEMORY && src->object.kind == SG_DEVICE_MEMORY && !--sg.flip_in;
}

void sg_run_copy(const SgCopy *c)
{
    for (size_t y = 0; y < c->height; y++)
        memmove(c->dst + y * c->dst_pitch, c->src + y * c->src_pitch, c->width);
    if (is_spoilt(c)) {
        if (sg.flip_byte >= c->width)
            sg_die("SOFTGPU_FLIP: the copy has rows of %zu bytes", c->width);
        c->dst[sg.flip_byte] ^= 1;
    }
}

void sg_run_fill(const SgFill *f)
{
    for (size_t y = 0; y < f->height; y++) {
        unsigned char *row = f->dst + y * f->pitch;
        if (f->element == 1)
            memset(row, (int)f->value, f->width);
        else
            for (size_t x = 0; x < f->width; x++)
                memcpy(row + x * f->element, &f->value, f->element); /* little-endian, as are our hosts */
    }
}

/** One end of a copy: where, and whether the caller says that it is on the host, a device, or does not say. */
typedef struct End {
    const unsigned char *at;
    size_t pitch;
    int type;
    int pageable;
} End;

/** Bytes from the first to the last of a rectangle. */
static size_t extent(size_t pitch, size_t width, size_t height)
{
    return pitch * (height - 1) + width;
}

static CUresult check_end(const char *name, const char *side, End *end, size_t width, size_t height)
{
    if (height > 1 && end->pitch < width)
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: rows of %zu bytes, but a pitch of %zu in the %s", name, width,
                           end->pitch, side);
    size_t size = extent(end->pitch, width, height);
    const SgMemory *m = sg_memory_of(end->at, size);
    if (!m && sg_memory_of(end->at, 1))
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: the %s reaches beyond the end of its buffer (%zu bytes)",
                           name, side, size);
    if (!m && end->type == CU_MEMORYTYPE_DEVICE)
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: the %s %p is no device memory", name, side,
                           (const void *)end->at);
    if (m && m->object.kind == SG_DEVICE_MEMORY && end->type == CU_MEMORYTYPE_HOST)
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: the %s %p is device memory, not the host's", name, side,
                           (const void *)end->at);
    end->pageable = !m;
    return CUDA_SUCCESS;
}

static CUresult copy(const char *name, CUstream handle, int wait, End dst, End src, size_t width, size_t height)
{
    CUstream stream = NULL;
    CUresult err = sg_stream(handle, &stream);
    if (err || !width || !height)
        return err;
    if ((err = check_end(name, "destination", &dst, width, height)) ||
        (err = check_end(name, "source", &src, width, height)))
        return err;
    if (wait && (err = sg_capture_unsafe()))
        return err;
    SgWork work = { .kind = SG_COPY,
                    .copy = { .dst = (unsigned char *)(uintptr_t)dst.at,
                              .src = src.at,
                              .dst_pitch = dst.pitch,
                              .src_pitch = src.pitch,
                              .width = width,
                              .height = height } };
    int capturing = stream->capture != NULL;
    if (src.pageable && !capturing) {
        SgCopy *c = &work.copy;
        c->staged = malloc(width * height);
        if (!c->staged)
            return CUDA_ERROR_OUT_OF_MEMORY;
        sg_run_copy(&(SgCopy){ c->staged, c->src, width, c->src_pitch, width, height, NULL });
        c->src = c->staged;
        c->src_pitch = width;
    }
    err = sg_enqueue(stream, &work, NULL);
    if (!err && !capturing && (wait || dst.pageable)) {
        sg_count_wait(!(stream->object.context->flags & CU_CTX_SCHED_BLOCKING_SYNC));
        sg_wait(stream->last);
    }
    return err;
}

static CUresult copy_line(const char *name, CUstream stream, int wait, CUdeviceptr dst, int dst_type, CUdeviceptr src,
                          int src_type, size_t size)
{
    CUresult err = sg_enter(name);
    if (!err)
        err = copy(name, stream, wait, (End){ (unsigned char *)(uintptr_t)dst, size, dst_type, 0 },
                   (End){ (unsigned char *)(uintptr_t)src, size, src_type, 0 }, size, 1);
    return sg_leave(err);
}

enum { HOST = CU_MEMORYTYPE_HOST, DEVICE = CU_MEMORYTYPE_DEVICE, UNIFIED = CU_MEMORYTYPE_UNIFIED };

SG_API CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
    return copy_line(__func__, NULL, 1, dst, UNIFIED, src, UNIFIED, size);
}

SG_API CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
    return copy_line(__func__, stream, 0, dst, UNIFIED, src, UNIFIED, size);
}

SG_API CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t size)
{
    return copy_line(__func__, NULL, 1, dst, DEVICE, (uintptr_t)src, HOST, size);
}

SG_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
    return copy_line(__func__, stream, 0, dst, DEVICE, (uintptr_t)src, HOST, size);
}

SG_API CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t size)
{
    return copy_line(__func__, NULL, 1, (uintptr_t)dst, HOST, src, DEVICE, size);
}

SG_API CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
    return copy_line(__func__, stream, 0, (uintptr_t)dst, HOST, src, DEVICE, size);
}

SG_API CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
    return copy_line(__func__, NULL, 0, dst, DEVICE, src, DEVICE, size); /* the driver does not wait for these */
}

SG_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
    return copy_line(__func__, stream, 0, dst, DEVICE, src, DEVICE, size);
}

static CUresult copy_2d(const char *name, const CUDA_MEMCPY2D *c, CUstream stream, int wait)
{
    CUresult err = sg_enter(name);
    if (err)
        return sg_leave(err);
    if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return sg_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (c->srcMemoryType < HOST || c->srcMemoryType > UNIFIED || c->dstMemoryType < HOST || c->dstMemoryType > UNIFIED)
        return sg_leave(sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: memory types %d and %d", name, c->srcMemoryType,
                                    c->dstMemoryType));
    /* A pitch of 0: rows without gaps. */
    End dst = { c->dstMemoryType == HOST ? c->dstHost : (void *)(uintptr_t)c->dstDevice,
                c->dstPitch ? c->dstPitch : c->WidthInBytes + c->dstXInBytes, c->dstMemoryType, 0 };
    End src = { c->srcMemoryType == HOST ? c->srcHost : (void *)(uintptr_t)c->srcDevice,
                c->srcPitch ? c->srcPitch : c->WidthInBytes + c->srcXInBytes, c->srcMemoryType, 0 };
    if (c->WidthInBytes + c->dstXInBytes > dst.pitch || c->WidthInBytes + c->srcXInBytes > src.pitch)
        return sg_leave(sg_complain(CUDA_ERROR_INVALID_VALUE,
                                    "%s: rows of %zu bytes from bytes %zu and %zu on, but "
                                    "pitches of %zu and %zu",
                                    name, c->WidthInBytes, c->srcXInBytes, c->dstXInBytes, src.pitch, dst.pitch));
    dst.at += c->dstY * dst.pitch + c->dstXInBytes;
    src.at += c->srcY * src.pitch + c->srcXInBytes;
    return sg_leave(copy(name, stream, wait, dst, src, c->WidthInBytes, c->Height));
}

SG_API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *c)
{
    return copy_2d(__func__, c, NULL, 1);
}

SG_API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c)
{
    return copy_2d(__func__, c, NULL, 1);
}

SG_API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
    return copy_2d(__func__, c, stream, 0);
}

static CUresult fill(const char *name, CUstream handle, CUdeviceptr dst, size_t pitch, unsigned element, unsigned value,
                     size_t width, size_t height)
{
    CUstream stream = NULL;
    CUresult err = sg_enter(name);
    if (!err)
        err = sg_stream(handle, &stream);
    if (err || !width || !height)
        return sg_leave(err);
    unsigned char *at = (unsigned char *)(uintptr_t)dst;
    if (dst % element || (height > 1 && (pitch < width * element || pitch % element)))
        return sg_leave(
            sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: %zu elements at %p, pitch %zu", name, width, (void *)at, pitch));
    End end = { at, pitch, DEVICE, 0 };
    err = check_end(name, "destination", &end, width * element, height);
    if (err)
        return sg_leave(err);
    SgWork work = { .kind = SG_FILL, .fill = { at, pitch, width, height, element, value } };
    return sg_leave(sg_enqueue(stream, &work, NULL));
}

SG_API CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n)
{
    return fill(__func__, NULL, dst, n, 1, value, n, 1);
}

SG_API CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t n)
{
    return fill(__func__, NULL, dst, 2 * n, 2, value, n, 1);
}

SG_API CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned value, size_t n)
{
    return fill(__func__, NULL, dst, 4 * n, 4, value, n, 1);
}

SG_API CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
    return fill(__func__, stream, dst, n, 1, value, n, 1);
}

SG_API CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
    return fill(__func__, stream, dst, 2 * n, 2, value, n, 1);
}

SG_API CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream stream)
{
    return fill(__func__, stream, dst, 4 * n, 4, value, n, 1);
}

SG_API CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height)
{
    return fill(__func__, NULL, dst, pitch, 1, value, width, height);
}

SG_API CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height,
                                  CUstream stream)
{
    return fill(__func__, stream, dst, pitch, 1, value, width, height);
}

SG_API CUresult cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height,
                                   CUstream stream)
{
    return fill(__func__, stream, dst, pitch, 2, value, width, height);
}
