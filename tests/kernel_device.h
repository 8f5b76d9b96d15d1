/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The device that tests launch kernels on, without the engine: whatever libcuda.so.1 the variable KERNELS_DRIVER names
 * (default: the loader's), or with KERNELS_BACKEND=hip AMD's, by the engine's table. Errors of the driver fail the test.
 */
#ifndef VG_TESTS_KERNEL_DEVICE_H
#define VG_TESTS_KERNEL_DEVICE_H

#include "tests/cmocka_includes.h"

#include "shared_math/limits.h"
#include "tests/softgpu/driver_api.h"

#define KERNEL_DEVICE_FUNCTIONS(F)                                                                                     \
    F(cuInit)                                                                                                          \
    F(cuDeviceGet)                                                                                                     \
    F(cuDeviceGetName)                                                                                                 \
    F(cuDevicePrimaryCtxRetain)                                                                                        \
    F(cuDevicePrimaryCtxRelease_v2)                                                                                    \
    F(cuCtxPushCurrent_v2)                                                                                             \
    F(cuCtxPopCurrent_v2)                                                                                              \
    F(cuMemAlloc_v2)                                                                                                   \
    F(cuMemFree_v2)                                                                                                    \
    F(cuMemcpyHtoDAsync_v2)                                                                                            \
    F(cuMemcpyDtoH_v2)                                                                                                 \
    F(cuMemsetD8Async)                                                                                                 \
    F(cuModuleLoadData)                                                                                                \
    F(cuModuleUnload)                                                                                                  \
    F(cuModuleGetFunction)                                                                                             \
    F(cuFuncSetAttribute)                                                                                              \
    F(cuLaunchKernel)                                                                                                  \
    F(cuStreamCreate)                                                                                                  \
    F(cuStreamDestroy_v2)                                                                                              \
    F(cuStreamSynchronize)

typedef struct Buffer {
    CUdeviceptr address;
    size_t size;
} Buffer;

typedef struct KernelDevice {
    void *library;
#define DECLARE(name) __typeof__(name) *name;
    KERNEL_DEVICE_FUNCTIONS(DECLARE)
#undef DECLARE
    void (*set_wave)(unsigned); /* of the software device; NULL on others */
    CUcontext context;
    CUmodule module;
    CUstream stream;
    Buffer pictures[2 * (VG_MAX_LAG + 1)], work, record;
} KernelDevice;

extern KernelDevice device;

#define CU(call)                                                                                                       \
    do {                                                                                                               \
        const int result_ = (int)device.call;                                                                          \
        if (result_)                                                                                                   \
            fail_msg("%s: error %d", #call, result_);                                                                  \
    } while (0)

/** HIP behind these functions. */
void use_hip(KernelDevice *d);

/** Group setup and teardown of cmocka. */
int open_device(void **state);
int close_device(void **state);

void buffer_free(Buffer *buffer);
/** At least `size` bytes; what was in the buffer is lost if it has to grow. */
CUdeviceptr buffer_get(Buffer *buffer, size_t size);

/** Whether a kernel has been launched. */
int has_been_launched(const char *kernel);

/** Launches a kernel; a VgLauncher's other function. */
void launch_copy(const char *kernel, const uint32_t grid[3], uint32_t block, uint32_t dynamic_shared, void *args,
                 size_t args_size);
int fill(void *context, uint64_t address, uint8_t value, size_t size);

#endif
