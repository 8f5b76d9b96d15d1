/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Entry points that must exist, because FFmpeg's loader refuses a driver without them, or that a driver exports and
 * nobody should use.
 */
#include "internal.h"

#include <stdio.h>

/* What the software device does not have. The caller's arguments are of no interest. */
#define UNSUPPORTED(name)                                                                                              \
    SG_API CUresult name(void);                                                                                        \
    CUresult name(void)                                                                                                \
    {                                                                                                                  \
        return CUDA_ERROR_NOT_SUPPORTED;                                                                               \
    }

UNSUPPORTED(cuArray3DCreate_v2)
UNSUPPORTED(cuArrayCreate_v2)
UNSUPPORTED(cuArrayDestroy)
UNSUPPORTED(cuDestroyExternalMemory)
UNSUPPORTED(cuDestroyExternalSemaphore)
UNSUPPORTED(cuDeviceGetLuid)
UNSUPPORTED(cuEGLStreamConsumerDisconnect)
UNSUPPORTED(cuEGLStreamProducerConnect)
UNSUPPORTED(cuEGLStreamProducerDisconnect)
UNSUPPORTED(cuEGLStreamProducerPresentFrame)
UNSUPPORTED(cuEGLStreamProducerReturnFrame)
UNSUPPORTED(cuExternalMemoryGetMappedBuffer)
UNSUPPORTED(cuExternalMemoryGetMappedMipmappedArray)
UNSUPPORTED(cuGLGetDevices_v2)
UNSUPPORTED(cuGraphicsGLRegisterImage)
UNSUPPORTED(cuGraphicsMapResources)
UNSUPPORTED(cuGraphicsResourceGetMappedPointer_v2)
UNSUPPORTED(cuGraphicsSubResourceGetMappedArray)
UNSUPPORTED(cuGraphicsUnmapResources)
UNSUPPORTED(cuGraphicsUnregisterResource)
UNSUPPORTED(cuImportExternalMemory)
UNSUPPORTED(cuImportExternalSemaphore)
UNSUPPORTED(cuLaunchHostFunc)
UNSUPPORTED(cuLinkAddData)
UNSUPPORTED(cuLinkAddData_v2)
UNSUPPORTED(cuLinkComplete)
UNSUPPORTED(cuLinkCreate)
UNSUPPORTED(cuLinkCreate_v2)
UNSUPPORTED(cuLinkDestroy)
UNSUPPORTED(cuMipmappedArrayDestroy)
UNSUPPORTED(cuMipmappedArrayGetLevel)
UNSUPPORTED(cuSignalExternalSemaphoresAsync)
UNSUPPORTED(cuStreamAddCallback)
UNSUPPORTED(cuTexObjectCreate)
UNSUPPORTED(cuTexObjectDestroy)
UNSUPPORTED(cuThreadExchangeStreamCaptureMode)
UNSUPPORTED(cuWaitExternalSemaphoresAsync)

/*
 * Forms from before version 2 whose arguments are others: addresses and sizes of 32 bits, a capture without a mode. A
 * driver has them, and whoever looks up the plain name gets them; here they explain themselves.
 */
#define OLD(name)                                                                                                      \
    SG_API CUresult name(void);                                                                                        \
    CUresult name(void)                                                                                                \
    {                                                                                                                  \
        return sg_complain(CUDA_ERROR_NOT_SUPPORTED, "%s is the old form: look up %s_v2", #name, #name);               \
    }

OLD(cuArray3DCreate)
OLD(cuArrayCreate)
OLD(cuDeviceTotalMem)
OLD(cuGLGetDevices)
OLD(cuGraphicsResourceGetMappedPointer)
OLD(cuMemAlloc)
OLD(cuMemAllocHost)
OLD(cuMemAllocPitch)
OLD(cuMemFree)
OLD(cuMemGetAddressRange)
OLD(cuMemGetInfo)
OLD(cuMemHostGetDevicePointer)
OLD(cuMemHostRegister)
OLD(cuMemcpy2D)
OLD(cuMemcpy2DAsync)
OLD(cuMemcpy2DUnaligned)
OLD(cuMemcpyDtoD)
OLD(cuMemcpyDtoDAsync)
OLD(cuMemcpyDtoH)
OLD(cuMemcpyDtoHAsync)
OLD(cuMemcpyHtoD)
OLD(cuMemcpyHtoDAsync)
OLD(cuMemsetD16)
OLD(cuMemsetD2D8)
OLD(cuMemsetD32)
OLD(cuMemsetD8)
OLD(cuModuleGetGlobal)
OLD(cuStreamBeginCapture)
