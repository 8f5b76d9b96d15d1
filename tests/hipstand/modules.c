/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Modules, functions, launches: AMD's code is checked, the driver's own module runs.
 */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCAL_MEMORY = 64 << 10 }; /* of a block, on all of AMD's devices */

struct ihipModuleSymbol_t {
    hipFunction_t next;
    CUfunction function;
    HsKernel kernel;
};

struct ihipModule_t {
    CUmodule module;
    const void *image; /* the caller's, who must keep it: some runtimes read it later, and so do we */
    char arch[32];
    hipFunction_t functions;
};

/* What the driver is given: a file, which must be there, or what the software device asks for. */
static int load_below(CUmodule *module)
{
    const char *path = getenv("HIPSTAND_IMAGE");
    if (!path || !*path)
        return (int)hs_driver.cuModuleLoadData(module, ".version 6.3\n");
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file && !fseek(file, 0, SEEK_END) && (size = ftell(file)) >= 0)
        rewind(file);
    char *image = size < 0 ? NULL : calloc(1, (size_t)size + 1);
    int err = hipErrorInvalidImage;
    if (image && fread(image, 1, (size_t)size, file) == (size_t)size)
        err = (int)hs_driver.cuModuleLoadData(module, image);
    else
        hs_complain(hipErrorInvalidImage, "HIPSTAND_IMAGE=%s cannot be read", path);
    free(image);
    if (file)
        fclose(file);
    return err;
}

static int load(hipModule_t *module, const void *image)
{
    HsKernel *kernels = NULL;
    unsigned n;
    hipModule_t m = calloc(1, sizeof(*m));
    if (!m)
        return hipErrorOutOfMemory;
    m->image = image;
    hs_arch(hs_device, m->arch);
    int err = image ? (int)hs_read_code(image, m->arch, &kernels, &n) : hipErrorInvalidValue;
    free(kernels);
    if (!err)
        err = load_below(&m->module);
    if (err) {
        free(m);
        return err;
    }
    *module = m;
    return 0;
}

HS_API hipError_t hipModuleLoadData(hipModule_t *module, const void *image)
{
    HS_CALL(load(module, image));
}

static int unload(hipModule_t module)
{
    const int err = (int)hs_driver.cuModuleUnload(module->module);
    for (hipFunction_t f = module->functions, next; f; f = next) {
        next = f->next;
        free(f);
    }
    free(module);
    return err;
}

HS_API hipError_t hipModuleUnload(hipModule_t module)
{
    HS_RELEASE(unload(module));
}

static int find_kernel(HsKernel *kernel, hipModule_t module, const char *name)
{
    HsKernel *kernels;
    unsigned i = 0, n;
    const int err = (int)hs_read_code(module->image, module->arch, &kernels, &n);
    if (err)
        return err;
    while (i < n && strcmp(kernels[i].name, name))
        i++;
    const int found = i < n;
    if (found)
        *kernel = kernels[i];
    free(kernels);
    if (!found)
        return (int)hs_complain(hipErrorNotFound, "the code object has no kernel %s", name);
    const int wave = hs_wave(hs_device);
    if (wave >= 32 && wave != kernel->wave) /* the software device may have less, too */
        return (int)hs_complain(hipErrorInvalidDeviceFunction,
                                "%s is for waves of %d lanes, but the device below has %d: set SOFTGPU_WAVE", name,
                                kernel->wave, wave);
    return 0;
}

static int get_function(hipFunction_t *function, hipModule_t module, const char *name)
{
    hipFunction_t f = module->functions;
    while (f && strcmp(f->kernel.name, name))
        f = f->next;
    *function = f;
    if (f)
        return 0;
    f = calloc(1, sizeof(*f));
    if (!f)
        return hipErrorOutOfMemory;
    int err = find_kernel(&f->kernel, module, name);
    if (!err)
        err = (int)hs_driver.cuModuleGetFunction(&f->function, module->module, name);
    if (err) {
        free(f);
        return err;
    }
    f->next = module->functions;
    module->functions = f;
    *function = f;
    return 0;
}

HS_API hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name)
{
    HS_CALL(get_function(function, module, name));
}

static int launch(hipFunction_t f, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                  hipStream_t stream, void **extra)
{
    void *args = NULL;
    size_t *size = NULL;
    for (; extra && *extra != HIP_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == HIP_LAUNCH_PARAM_BUFFER_POINTER)
            args = extra[1];
        else if (*extra == HIP_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[1];
        else
            return (int)hs_complain(hipErrorInvalidValue, "%s: extra arguments hold %p, which is none of 1, 2, 3",
                                    f->kernel.name, *extra);
    }
    if (!args || !size)
        return (int)hs_complain(hipErrorInvalidValue, "%s: arguments are not given as a buffer", f->kernel.name);
    if (*size != f->kernel.args_size)
        return (int)hs_complain(hipErrorInvalidValue, "%s: %zu bytes of arguments, but the kernel has %u",
                                f->kernel.name, *size, f->kernel.args_size);
    if (f->kernel.local_memory > LOCAL_MEMORY || shared_bytes > LOCAL_MEMORY - f->kernel.local_memory)
        return (int)hs_complain(hipErrorInvalidValue, "%s: %u + %u bytes of local memory", f->kernel.name,
                                f->kernel.local_memory, shared_bytes);
    if (shared_bytes) { /* HIP does not want to be asked before */
        const int err = (int)hs_driver.cuFuncSetAttribute(f->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                          (int)shared_bytes);
        if (err)
            return err;
    }
    void *below[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, size, CU_LAUNCH_PARAM_END };
    return (int)hs_driver.cuLaunchKernel(f->function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                         shared_bytes, (CUstream)stream, NULL, below);
}

HS_API hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                        hipStream_t stream, void **params, void **extra)
{
    const unsigned grid[3] = { grid_x, grid_y, grid_z }, block[3] = { block_x, block_y, block_z };
    (void)params;
    HS_CALL(launch(function, grid, block, shared_bytes, stream, extra));
}
