/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Memory and copies.
 */
#include "internal.h"

static CUdeviceptr address_of(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

static CUresult allocate(void **address, size_t size)
{
    CUdeviceptr at = 0;
    if (!size) { /* no error in HIP */
        *address = NULL;
        return CUDA_SUCCESS;
    }
    const CUresult err = hs_driver.cuMemAlloc_v2(&at, size);
    *address = err ? NULL : (void *)(uintptr_t)at;
    return err;
}

HS_API hipError_t hipMalloc(void **address, size_t size)
{
    HS_CALL(allocate(address, size));
}

static CUresult allocate_pitch(void **address, size_t *pitch, size_t width, size_t height)
{
    CUdeviceptr at = 0;
    const CUresult err = hs_driver.cuMemAllocPitch_v2(&at, pitch, width, height, 4);
    *address = err ? NULL : (void *)(uintptr_t)at;
    return err;
}

HS_API hipError_t hipMallocPitch(void **address, size_t *pitch, size_t width, size_t height)
{
    HS_CALL(allocate_pitch(address, pitch, width, height));
}

static int release(void *address)
{
    if (!address)
        return 0;
    int err;
    if (hs_free_external(address, &err))
        return err;
    return (int)hs_driver.cuMemFree_v2(address_of(address));
}

HS_API hipError_t hipFree(void *address)
{
    HS_RELEASE(release(address));
}

HS_API hipError_t hipHostMalloc(void **address, size_t size, unsigned flags)
{
    (void)flags;
    HS_CALL(hs_driver.cuMemAllocHost_v2(address, size));
}

HS_API hipError_t hipHostFree(void *address)
{
    HS_RELEASE(address ? hs_driver.cuMemFreeHost(address) : CUDA_SUCCESS);
}

HS_API hipError_t hipMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    HS_CALL(hs_driver.cuMemGetInfo_v2(free_bytes, total_bytes));
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

HS_API hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, const void *src, size_t size, hipStream_t stream)
{
    HS_CALL(hs_driver.cuMemcpyHtoDAsync_v2(address_of(dst), src, size, (CUstream)stream));
}

HS_API hipError_t hipMemcpyDtoHAsync(void *dst, hipDeviceptr_t src, size_t size, hipStream_t stream)
{
    HS_CALL(hs_driver.cuMemcpyDtoHAsync_v2(dst, address_of(src), size, (CUstream)stream));
}

HS_API hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size, hipStream_t stream)
{
    HS_CALL(hs_driver.cuMemcpyDtoDAsync_v2(address_of(dst), address_of(src), size, (CUstream)stream));
}

HS_API hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, const void *src, size_t size)
{
    HS_CALL(hs_driver.cuMemcpyHtoD_v2(address_of(dst), src, size));
}

HS_API hipError_t hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size)
{
    HS_CALL(hs_driver.cuMemcpyDtoH_v2(dst, address_of(src), size));
}

HS_API hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size)
{
    HS_CALL(hs_driver.cuMemcpyDtoD_v2(address_of(dst), address_of(src), size));
}

/* Rows from one place to another; `wait`: and waits for them. */
static int copy_rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                     hipMemcpyKind kind, CUstream stream, int wait)
{
    static const struct {
        int from, to;
    } types[] = {
        [hipMemcpyHostToHost] = { CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST },
        [hipMemcpyHostToDevice] = { CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE },
        [hipMemcpyDeviceToHost] = { CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST },
        [hipMemcpyDeviceToDevice] = { CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE },
        [hipMemcpyDefault] = { CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED },
    };
    if ((unsigned)kind > hipMemcpyDefault)
        return (int)hs_complain(hipErrorInvalidValue, "a copy of kind %d", kind);
    if (width > dst_pitch || width > src_pitch)
        return (int)hs_complain(hipErrorInvalidValue, "rows of %zu bytes, but pitches of %zu and %zu", width, dst_pitch,
                                src_pitch);
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = types[kind].from,
        .srcPitch = src_pitch,
        .dstMemoryType = types[kind].to,
        .dstPitch = dst_pitch,
        .WidthInBytes = width,
        .Height = height,
    };
    if (copy.srcMemoryType == CU_MEMORYTYPE_HOST)
        copy.srcHost = src;
    else
        copy.srcDevice = address_of(src);
    if (copy.dstMemoryType == CU_MEMORYTYPE_HOST)
        copy.dstHost = dst;
    else
        copy.dstDevice = address_of(dst);
    return (int)(wait ? hs_driver.cuMemcpy2D_v2(&copy) : hs_driver.cuMemcpy2DAsync_v2(&copy, stream));
}

HS_API hipError_t hipMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
                                   size_t height, hipMemcpyKind kind, hipStream_t stream)
{
    HS_CALL(copy_rows(dst, dst_pitch, src, src_pitch, width, height, kind, (CUstream)stream, 0));
}

HS_API hipError_t hipMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
                              size_t height, hipMemcpyKind kind)
{
    HS_CALL(copy_rows(dst, dst_pitch, src, src_pitch, width, height, kind, NULL, 1));
}

HS_API hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream)
{
    HS_CALL(copy_rows(dst, size, src, size, size, 1, kind, (CUstream)stream, 0));
}

HS_API hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind)
{
    HS_CALL(copy_rows(dst, size, src, size, size, 1, kind, NULL, 1));
}

HS_API hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t n)
{
    HS_CALL(hs_driver.cuMemsetD8_v2(address_of(dst), value, n));
}

HS_API hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t n, hipStream_t stream)
{
    HS_CALL(hs_driver.cuMemsetD8Async(address_of(dst), value, n, (CUstream)stream));
}

HS_API hipError_t hipMemsetAsync(void *dst, int value, size_t n, hipStream_t stream)
{
    HS_CALL(hs_driver.cuMemsetD8Async(address_of(dst), (unsigned char)value, n, (CUstream)stream));
}

HS_API hipError_t hipMemset2DAsync(void *dst, size_t pitch, int value, size_t width, size_t height, hipStream_t stream)
{
    HS_CALL(hs_driver.cuMemsetD2D8Async(address_of(dst), pitch, (unsigned char)value, width, height, (CUstream)stream));
}
