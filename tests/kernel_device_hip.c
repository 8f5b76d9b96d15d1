/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The device of tests of kernels where that is an AMD device: the library's own table for HIP, under the names that CUDA's
 * driver has.
 */
#include "tests/kernel_device.h"

#include "engine/device.h"

#include <stdio.h>

static const VgDeviceTable *t;
static VgDevice *hip;

static void print(void *opaque, VgLogLevel level, const char *message)
{
    (void)opaque;
    printf("# %c %s\n", "EWIVD"[level], message);
}

static const VgLog print_log = { print, NULL };

static CUresult answer(int err)
{
    return !err ? CUDA_SUCCESS : hip && hip->native ? (CUresult)hip->native : CUDA_ERROR_UNKNOWN;
}

static CUresult init(unsigned flags)
{
    (void)flags;
    t = vg_device_table(VG_BACKEND_HIP);
    if (!t)
        fail_msg("the library was built without kernels for AMD devices");
    return answer(t->open(&hip, &(VgDeviceChoice){ NULL, NULL }, &print_log));
}

static CUresult device_get(CUdevice *ordinal, int index)
{
    *ordinal = index;
    return CUDA_SUCCESS;
}

static CUresult device_get_name(char *name, int size, CUdevice ordinal)
{
    (void)ordinal;
    snprintf(name, (size_t)size, "%s", hip->name);
    return CUDA_SUCCESS;
}

/* HIP has no contexts, but a current device. */
static CUresult context_retain(CUcontext *context, CUdevice ordinal)
{
    (void)ordinal;
    *context = NULL;
    return CUDA_SUCCESS;
}

static CUresult context_push(CUcontext context)
{
    (void)context;
    return answer(t->enter(hip));
}

static CUresult context_pop(CUcontext *context)
{
    *context = NULL;
    t->leave(hip);
    return CUDA_SUCCESS;
}

static CUresult context_release(CUdevice ordinal)
{
    (void)ordinal;
    t->close(&hip);
    return CUDA_SUCCESS;
}

static CUresult mem_alloc(CUdeviceptr *address, size_t size)
{
    uint64_t at;
    const int err = t->alloc(hip, size, &at);
    *address = at;
    return answer(err);
}

static CUresult mem_free(CUdeviceptr address)
{
    t->free(hip, address);
    return CUDA_SUCCESS;
}

static CUresult upload(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    return answer(t->copy(hip, &(VgCopy){ VG_COPY_TO_DEVICE, to, (uintptr_t)from, 0, 0, size, 1 }, stream));
}

static CUresult download(void *to, CUdeviceptr from, size_t size)
{
    const int err = t->copy(hip, &(VgCopy){ VG_COPY_TO_HOST, (uintptr_t)to, from, 0, 0, size, 1 }, NULL);
    return answer(err ? err : t->stream_synchronize(hip, NULL));
}

static CUresult set_bytes(CUdeviceptr at, unsigned char value, size_t size, CUstream stream)
{
    return answer(t->fill(hip, at, value, size, stream));
}

/* The image is CUDA's: the table has those for HIP. */
static CUresult module_load(CUmodule *module, const void *image)
{
    (void)image;
    return answer(t->module_load(hip, &print_log, (VgModule *)module));
}

static CUresult module_unload(CUmodule module)
{
    t->module_unload(hip, module);
    return CUDA_SUCCESS;
}

static CUresult module_get_function(CUfunction *function, CUmodule module, const char *name)
{
    return answer(t->function(hip, module, name, 0, (VgFunction *)function));
}

/* The only one that is set: shared memory, which nobody has to ask for here. */
static CUresult function_set_attribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    (void)function;
    (void)attribute;
    (void)value;
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block,
                       unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params,
                       void **extra)
{
    (void)block_y;
    (void)block_z;
    (void)params;
    return answer(t->launch(hip, function, (const uint32_t[]){ grid_x, grid_y, grid_z }, block, shared, extra[1],
                            *(const size_t *)extra[3], stream));
}

static CUresult stream_create(CUstream *stream, unsigned flags)
{
    (void)flags; /* always without waits for the default stream */
    return answer(t->stream_create(hip, (VgStream *)stream));
}

static CUresult stream_destroy(CUstream stream)
{
    t->stream_destroy(hip, stream);
    return CUDA_SUCCESS;
}

static CUresult stream_synchronize(CUstream stream)
{
    return answer(t->stream_synchronize(hip, stream));
}

void use_hip(KernelDevice *d)
{
    *d = (KernelDevice){
        .cuInit = init,
        .cuDeviceGet = device_get,
        .cuDeviceGetName = device_get_name,
        .cuDevicePrimaryCtxRetain = context_retain,
        .cuDevicePrimaryCtxRelease_v2 = context_release,
        .cuCtxPushCurrent_v2 = context_push,
        .cuCtxPopCurrent_v2 = context_pop,
        .cuMemAlloc_v2 = mem_alloc,
        .cuMemFree_v2 = mem_free,
        .cuMemcpyHtoDAsync_v2 = upload,
        .cuMemcpyDtoH_v2 = download,
        .cuMemsetD8Async = set_bytes,
        .cuModuleLoadData = module_load,
        .cuModuleUnload = module_unload,
        .cuModuleGetFunction = module_get_function,
        .cuFuncSetAttribute = function_set_attribute,
        .cuLaunchKernel = launch,
        .cuStreamCreate = stream_create,
        .cuStreamDestroy_v2 = stream_destroy,
        .cuStreamSynchronize = stream_synchronize,
    };
}
