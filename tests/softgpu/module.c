/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Modules, functions, launches. Kernels are compiled into this library: of an image only the first bytes matter.
 */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

static SoftgpuKernel *kernels;

SG_API void softgpu_register(SoftgpuKernel *kernel)
{
    for (const SoftgpuKernel *k = kernels; k; k = k->next)
        if (!strcmp(k->name, kernel->name))
            sg_die("two kernels are named %s", kernel->name);
    if (!kernel->block_size || kernel->block_size > SG_MAX_BLOCK)
        sg_die("%s: a block of %u threads", kernel->name, kernel->block_size);
    kernel->next = kernels;
    kernels = kernel;
}

/** Bit of SgState.images, or 0. */
static unsigned image_kind(const void *image)
{
    const unsigned char *p = image;
    if (!strncmp(image, "\177ELF", 4))
        return 2;
    if (p[0] == 0x50 && p[1] == 0xed && p[2] == 0x55 && p[3] == 0xba)
        return 4;
    /* PTX: the first thing after blanks and comments is its version. */
    const char *text = image;
    while (1) {
        text += strspn(text, " \t\r\n");
        if (text[0] != '/' || text[1] != '/')
            break;
        text += strcspn(text, "\n");
    }
    return strncmp(text, ".version", 8) ? 0 : 1;
}

static CUresult load(const char *name, CUmodule *module, const void *image)
{
    CUcontext context = NULL;
    CUresult err = sg_enter(name);
    if (!err)
        err = sg_current(&context);
    if (!err)
        err = sg_capture_unsafe();
    if (err)
        return sg_leave(err);
    unsigned kind = image ? image_kind(image) : 0;
    if (!kind)
        return sg_leave(sg_complain(CUDA_ERROR_INVALID_IMAGE, "%s: neither PTX nor ELF nor a fatbin", name));
    if (!(sg.images & kind))
        return sg_leave(CUDA_ERROR_NO_BINARY_FOR_GPU);
    *module = sg_new(SG_MODULE, context, sizeof(**module));
    return sg_leave(CUDA_SUCCESS);
}

SG_API CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return load(__func__, module, image);
}

SG_API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n_options, int *options, void **values)
{
    (void)n_options;
    (void)options;
    (void)values;
    return load(__func__, module, image);
}

SG_API CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return load(__func__, module, image);
}

void sg_module_delete(CUmodule module)
{
    for (CUfunction f = module->functions, next; f; f = next) {
        next = f->next;
        free(f);
    }
    sg_delete(&module->object);
}

SG_API CUresult cuModuleUnload(CUmodule module)
{
    CUresult err = sg_enter(__func__);
    if (!sg_is(SG_MODULE, module))
        return sg_leave(err ? err : sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: no module", __func__));
    CUresult own = sg_capture_unsafe();
    sg_module_delete(module);
    return sg_leave(err ? err : own);
}

static CUresult enter_module(const char *name, CUmodule module)
{
    CUresult err = sg_enter(name);
    if (!err && !sg_is(SG_MODULE, module))
        err = sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: no module", name);
    return err;
}

SG_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CUresult err = enter_module(__func__, module);
    if (err)
        return sg_leave(err);
    CUfunction f = module->functions;
    while (f && strcmp(f->kernel->name, name))
        f = f->next;
    if (!f) {
        const SoftgpuKernel *k = kernels;
        while (k && strcmp(k->name, name))
            k = k->next;
        if (!k)
            return sg_leave(sg_complain(CUDA_ERROR_NOT_FOUND, "no kernel %s", name));
        f = sg_alloc(sizeof(*f));
        f->next = module->functions;
        f->module = module;
        f->kernel = k;
        f->shared_limit = f->shared_most = SG_SHARED_DEFAULT;
        module->functions = f;
    }
    *function = f;
    return sg_leave(CUDA_SUCCESS);
}

SG_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule module, const char *name)
{
    (void)address;
    (void)size;
    (void)name;
    CUresult err = enter_module(__func__, module);
    return sg_leave(err ? err : CUDA_ERROR_NOT_FOUND);
}

static int is_function(CUfunction function)
{
    for (SgObject *o = sg.objects; o; o = o->next)
        for (CUfunction f = o->kind == SG_MODULE ? ((CUmodule)o)->functions : NULL; f; f = f->next)
            if (f == function)
                return 1;
    return 0;
}

static CUresult enter_function(const char *name, CUfunction function)
{
    CUresult err = sg_enter(name);
    if (!err && !is_function(function))
        err = sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: no function of a loaded module", name);
    return err;
}

SG_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    CUresult err = enter_function(__func__, function);
    if (err)
        return sg_leave(err);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = (int)function->kernel->block_size;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 75;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->shared_limit;
        break;
    default:
        *value = 0;
    }
    return sg_leave(err);
}

SG_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    CUresult err = enter_function(__func__, function);
    if (err)
        return sg_leave(err);
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        return sg_leave(CUDA_SUCCESS);
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > (int)sg.shared)
        return sg_leave(
            sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: attribute %d = %d", function->kernel->name, attribute, value));
    function->shared_limit = value;
    function->shared_most = sg.shared;
    return sg_leave(CUDA_SUCCESS);
}

SG_API CUresult cuFuncSetCacheConfig(CUfunction function, int config)
{
    (void)config;
    return sg_leave(enter_function(__func__, function));
}

/** The argument struct: from `params`, or from a buffer whose size must be the struct's. */
static CUresult find_args(const SoftgpuKernel *k, void **params, void **extra, const void **args)
{
    if (!params == !extra)
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: needs either kernelParams or extra", k->name);
    if (params) {
        *args = params[0];
        return CUDA_SUCCESS;
    }
    const void *buffer = NULL;
    size_t size = 0;
    for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *)extra[i + 1];
        else
            return sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: unknown element %p of extra", k->name, extra[i]);
    }
    if (!buffer || size != k->args_size)
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: %zu bytes of arguments, the kernel takes %zu", k->name, size,
                           k->args_size);
    *args = buffer;
    return CUDA_SUCCESS;
}

/** Among the arguments there are addresses: none may be of memory that another device has. */
static void check_addresses(const SoftgpuKernel *k, const unsigned char *args, CUdevice device)
{
    for (size_t i = 0; i + 8 <= k->args_size; i += 8) {
        uint64_t word;
        memcpy(&word, args + i, 8);
        const SgMemory *m = sg_memory_of((void *)(uintptr_t)word, 1);
        if (m && m->object.kind == SG_DEVICE_MEMORY && m->object.context->device != device)
            sg_die("%s runs on device %d, but byte %zu of its arguments is an address of device %d", k->name, device, i,
                   m->object.context->device);
    }
}

static CUresult check_shape(CUfunction f, const uint32_t grid[3], const uint32_t block[3], unsigned shared_bytes)
{
    const SoftgpuKernel *k = f->kernel;
    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535)
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: a grid of %u x %u x %u blocks", k->name, grid[0], grid[1],
                           grid[2]);
    if (block[0] > SG_MAX_BLOCK || block[1] > SG_MAX_BLOCK || block[2] > 64 ||
        block[0] * block[1] * block[2] != k->block_size)
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: blocks of %u x %u x %u threads, the kernel wants %u", k->name,
                           block[0], block[1], block[2], k->block_size);
    if (shared_bytes > (unsigned)f->shared_limit)
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: %u bytes of dynamic shared memory, the limit is %d", k->name,
                           shared_bytes, f->shared_limit);
    return CUDA_SUCCESS;
}

SG_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream handle,
                               void **params, void **extra)
{
    CUstream stream = NULL;
    CUresult err = enter_function(__func__, function);
    if (!err)
        err = sg_stream(handle, &stream);
    if (err)
        return sg_leave(err);
    const SoftgpuKernel *k = function->kernel;
    if (function->module->object.context != stream->object.context)
        return sg_leave(
            sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: function and stream are of different contexts", k->name));
    const uint32_t grid[3] = { grid_x, grid_y, grid_z }, block[3] = { block_x, block_y, block_z };
    const void *args = NULL;
    if ((err = check_shape(function, grid, block, shared_bytes)) || (err = find_args(k, params, extra, &args)))
        return sg_leave(err);
    check_addresses(k, args, stream->object.context->device);
    SgWork work = { .kind = SG_LAUNCH,
                    .launch = { .kernel = k,
                                .grid = { grid_x, grid_y, grid_z },
                                .block = { block_x, block_y, block_z },
                                .shared_bytes = shared_bytes,
                                .shared_most = function->shared_most } };
    work.launch.args = sg_alloc(k->args_size);
    memcpy(work.launch.args, args, k->args_size);
    return sg_leave(sg_enqueue(stream, &work, NULL));
}
