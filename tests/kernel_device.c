/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The device of tests of kernels.
 */
#include "tests/kernel_device.h"

#include "kernels/image.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

KernelDevice device;

static void use_cuda(void)
{
    const char *driver = getenv("KERNELS_DRIVER");

    device.library = dlopen(driver ? driver : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!device.library)
        fail_msg("%s", dlerror());
#define LOOK_UP(name) *(void **)&device.name = dlsym(device.library, #name);
    KERNEL_DEVICE_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    *(void **)&device.set_wave = dlsym(device.library, "softgpu_set_wave");
}

int open_device(void **state)
{
    const char *backend = getenv("KERNELS_BACKEND");
    char name[64] = "";
    CUdevice ordinal;
    (void)state;

    if (backend && !strcmp(backend, "hip"))
        use_hip(&device);
    else
        use_cuda();
    CU(cuInit(0));
    CU(cuDeviceGet(&ordinal, 0));
    CU(cuDeviceGetName(name, sizeof(name), ordinal));
    CU(cuDevicePrimaryCtxRetain(&device.context, ordinal));
    CU(cuCtxPushCurrent_v2(device.context));
    /* The software device looks at no more than the beginning, so that it needs no compiler. */
    const char *image = vg_image_ptx_size ? vg_image_ptx : ".version 6.3\n", *wanted = getenv("KERNELS_IMAGE");
    if (vg_image_cubin_size && !(wanted && !strcmp(wanted, "ptx")))
        image = vg_image_cubin;
    CU(cuModuleLoadData(&device.module, image));
    CU(cuStreamCreate(&device.stream, CU_STREAM_NON_BLOCKING));
    printf("# device: %s\n", name);
    return 0;
}

void buffer_free(Buffer *buffer)
{
    if (buffer->address)
        CU(cuMemFree_v2(buffer->address));
    *buffer = (Buffer){ 0 };
}

CUdeviceptr buffer_get(Buffer *buffer, size_t size)
{
    if (buffer->size < size) {
        buffer_free(buffer);
        CU(cuMemAlloc_v2(&buffer->address, size));
        buffer->size = size;
    }
    return buffer->address;
}

int close_device(void **state)
{
    CUcontext context;
    (void)state;

    for (unsigned i = 0; i < sizeof(device.pictures) / sizeof(device.pictures[0]); i++)
        buffer_free(&device.pictures[i]);
    buffer_free(&device.work);
    buffer_free(&device.record);
    CU(cuStreamDestroy_v2(device.stream));
    CU(cuModuleUnload(device.module));
    CU(cuCtxPopCurrent_v2(&context));
    CU(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}

/** Kernels that have been launched. */
static struct {
    const char *name;
    CUfunction function;
} launched[64];

static unsigned launched_index(const char *kernel)
{
    unsigned i = 0;

    while (launched[i].name && strcmp(launched[i].name, kernel))
        i++;
    assert_true(i < 63);
    return i;
}

static CUfunction function_of(const char *kernel)
{
    const unsigned i = launched_index(kernel);

    if (!launched[i].name) {
        CU(cuModuleGetFunction(&launched[i].function, device.module, kernel));
        launched[i].name = kernel;
    }
    return launched[i].function;
}

int has_been_launched(const char *kernel)
{
    return launched[launched_index(kernel)].name != NULL;
}

void launch_copy(const char *kernel, const uint32_t grid[3], uint32_t block, uint32_t dynamic_shared, void *args,
                 size_t args_size)
{
    void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &args_size,
                      CU_LAUNCH_PARAM_END };

    if (dynamic_shared > 48 << 10) /* more has to be asked for */
        CU(cuFuncSetAttribute(function_of(kernel), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              (int)dynamic_shared));
    CU(cuLaunchKernel(function_of(kernel), grid[0], grid[1], grid[2], block, 1, 1, dynamic_shared, device.stream, NULL,
                      extra));
}

int fill(void *context, uint64_t address, uint8_t value, size_t size)
{
    (void)context;
    CU(cuMemsetD8Async(address, value, size, device.stream));
    return 0;
}
