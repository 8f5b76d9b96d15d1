/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A libcuda.so.1 with the functions that drivers had in CUDA 10.0, and no device behind them: all succeed, one device
 * is there. OLD_DRIVER_VERSION is the version that it tells (10000). With OLD_DRIVER_LACKS a function is missing.
 */
#include <stdlib.h>

#define API __attribute__((visibility("default")))

/* Arguments are looked at by none of these. */
#define DOES_NOTHING(name)                                                                                             \
    API int name(void);                                                                                                \
    int name(void)                                                                                                     \
    {                                                                                                                  \
        return 0;                                                                                                      \
    }

DOES_NOTHING(cuInit)
DOES_NOTHING(cuGetErrorName)
DOES_NOTHING(cuGetErrorString)
DOES_NOTHING(cuDeviceGetName)
DOES_NOTHING(cuDeviceGetPCIBusId)
DOES_NOTHING(cuDevicePrimaryCtxSetFlags)
DOES_NOTHING(cuDevicePrimaryCtxRetain)
DOES_NOTHING(cuDevicePrimaryCtxRelease)
DOES_NOTHING(cuCtxPushCurrent_v2)
DOES_NOTHING(cuCtxPopCurrent_v2)
DOES_NOTHING(cuCtxGetDevice)
DOES_NOTHING(cuMemAlloc_v2)
DOES_NOTHING(cuMemFree_v2)
DOES_NOTHING(cuMemAllocHost_v2)
DOES_NOTHING(cuMemFreeHost)
DOES_NOTHING(cuMemcpyHtoDAsync_v2)
DOES_NOTHING(cuMemcpyDtoHAsync_v2)
DOES_NOTHING(cuMemcpyDtoDAsync_v2)
DOES_NOTHING(cuMemcpy2DAsync_v2)
DOES_NOTHING(cuMemsetD8Async)
DOES_NOTHING(cuStreamCreate)
DOES_NOTHING(cuStreamDestroy_v2)
DOES_NOTHING(cuStreamSynchronize)
DOES_NOTHING(cuStreamWaitEvent)
DOES_NOTHING(cuEventCreate)
DOES_NOTHING(cuEventDestroy_v2)
DOES_NOTHING(cuEventRecord)
DOES_NOTHING(cuEventQuery)
DOES_NOTHING(cuEventSynchronize)
DOES_NOTHING(cuEventElapsedTime)
DOES_NOTHING(cuModuleLoadData)
DOES_NOTHING(cuModuleUnload)
DOES_NOTHING(cuModuleGetFunction)
DOES_NOTHING(cuFuncSetAttribute)
#ifndef OLD_DRIVER_LACKS
DOES_NOTHING(cuLaunchKernel)
#endif

API int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
    const char *text = getenv("OLD_DRIVER_VERSION");
    *version = text ? atoi(text) : 10000;
    return 0;
}

API int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}

API int cuDeviceGet(int *device, int index);
int cuDeviceGet(int *device, int index)
{
    *device = index;
    return 0;
}

API int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)attribute;
    (void)device;
    *value = 32;
    return 0;
}

API int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = 0;
    return 0;
}
