/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The device table for CUDA, over the driver's own interface: libcuda.so.1 is opened when a device is, so that a binary
 * with this in it runs where there is no driver. It is the same library that other users of CUDA in this process have;
 * their contexts and streams can be used as they are.
 */
#include "engine/cuda_api.h"
#include "engine/device.h"
#include "kernels/image.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

/* Our PTX is of version 6.3, which drivers know since CUDA 10.0. */
#define LEAST_DRIVER 10000

/* Every driver since LEAST_DRIVER has these. */
#define FUNCTIONS(F)                                                                                                   \
    F(cuInit)                                                                                                          \
    F(cuGetErrorName)                                                                                                  \
    F(cuGetErrorString)                                                                                                \
    F(cuDeviceGetCount)                                                                                                \
    F(cuDeviceGet)                                                                                                     \
    F(cuDeviceGetName)                                                                                                 \
    F(cuDeviceGetAttribute)                                                                                            \
    F(cuDeviceGetPCIBusId)                                                                                             \
    F(cuDevicePrimaryCtxGetState)                                                                                      \
    F(cuDevicePrimaryCtxSetFlags)                                                                                      \
    F(cuDevicePrimaryCtxRetain)                                                                                        \
    F(cuDevicePrimaryCtxRelease)                                                                                       \
    F(cuCtxPushCurrent_v2)                                                                                             \
    F(cuCtxPopCurrent_v2)                                                                                              \
    F(cuCtxGetDevice)                                                                                                  \
    F(cuMemAlloc_v2)                                                                                                   \
    F(cuMemFree_v2)                                                                                                    \
    F(cuMemAllocHost_v2)                                                                                               \
    F(cuMemFreeHost)                                                                                                   \
    F(cuMemcpyHtoDAsync_v2)                                                                                            \
    F(cuMemcpyDtoHAsync_v2)                                                                                            \
    F(cuMemcpyDtoDAsync_v2)                                                                                            \
    F(cuMemcpy2DAsync_v2)                                                                                              \
    F(cuMemsetD8Async)                                                                                                 \
    F(cuStreamCreate)                                                                                                  \
    F(cuStreamDestroy_v2)                                                                                              \
    F(cuStreamSynchronize)                                                                                             \
    F(cuStreamWaitEvent)                                                                                               \
    F(cuEventCreate)                                                                                                   \
    F(cuEventDestroy_v2)                                                                                               \
    F(cuEventRecord)                                                                                                   \
    F(cuEventQuery)                                                                                                    \
    F(cuEventSynchronize)                                                                                              \
    F(cuEventElapsedTime)                                                                                              \
    F(cuModuleLoadData)                                                                                                \
    F(cuModuleUnload)                                                                                                  \
    F(cuModuleGetFunction)                                                                                             \
    F(cuFuncSetAttribute)                                                                                              \
    F(cuLaunchKernel)

/* Drivers since CUDA 11.4 have these, too. */
#define GRAPH_FUNCTIONS(F)                                                                                             \
    F(cuStreamBeginCapture_v2)                                                                                         \
    F(cuStreamEndCapture)                                                                                              \
    F(cuGraphInstantiateWithFlags)                                                                                     \
    F(cuGraphLaunch)                                                                                                   \
    F(cuGraphExecDestroy)                                                                                              \
    F(cuGraphDestroy)

typedef struct Driver {
    __typeof__(cuDriverGetVersion) *cuDriverGetVersion;
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
    GRAPH_FUNCTIONS(MEMBER)
#undef MEMBER
} Driver;

typedef struct CudaDevice {
    VgDevice head; /* first, so that a VgDevice pointer is a CudaDevice pointer */
    void *library;
    Driver driver;
    CUdevice device;
    CUcontext context;
    int retained; /* the context is the primary one, held by us */
} CudaDevice;

static int result(CudaDevice *d, const char *call, CUresult native)
{
    if (native) {
        d->head.native = (int)native;
        d->head.call = call;
    }
    return vg_device_errno((int)native);
}

/* Calls the driver; an error is remembered and becomes an errno value. */
#define CU(d, function, ...) result(d, #function, (d)->driver.function(__VA_ARGS__))

static CudaDevice *cuda(VgDevice *device)
{
    return (CudaDevice *)device;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static int look_up(CudaDevice *d, void *function, const char *name, const VgLog *log)
{
    *(void **)function = dlsym(d->library, name);
    if (*(void **)function)
        return 0;
    vg_log(log, VG_LOG_ERROR, "%s has no function %s: install NVIDIA's driver again", LIBRARY, name);
    return -ENODEV;
}

static int check_version(CudaDevice *d, const VgLog *log)
{
    int version = 0;
    int err = CU(d, cuDriverGetVersion, &version);
    if (err) {
        vg_log(log, VG_LOG_ERROR,
               "%s does not tell its version (error %d): start the program again; if that does not help, install "
               "NVIDIA's driver again",
               LIBRARY, d->head.native);
        return err;
    }
    d->head.driver = (unsigned)version;
    if (version >= LEAST_DRIVER)
        return 0;
    vg_log(log, VG_LOG_ERROR,
           "NVIDIA's driver supports CUDA %d.%d, but the kernels (PTX 6.3) need %d.%d: update the driver",
           version / 1000, version % 1000 / 10, LEAST_DRIVER / 1000, LEAST_DRIVER % 1000 / 10);
    return -ENODEV;
}

static int open_driver(CudaDevice *d, const VgLog *log)
{
    /* Threads of a driver may outlive its last user. */
    d->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!d->library) {
        vg_log(log, VG_LOG_ERROR, "NVIDIA's driver cannot be opened (%s): install it, or score on the CPU", dlerror());
        return -ENODEV;
    }
    int err = look_up(d, &d->driver.cuDriverGetVersion, "cuDriverGetVersion", log);
    if (!err)
        err = check_version(d, log);
#define LOOK_UP(name)                                                                                                  \
    if (!err)                                                                                                          \
        err = look_up(d, &d->driver.name, #name, log);
    FUNCTIONS(LOOK_UP)
#undef LOOK_UP
#define LOOK_UP(name) *(void **)&d->driver.name = dlsym(d->library, #name);
    GRAPH_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    if (err)
        return err;
    err = CU(d, cuInit, 0);
    return err ? vg_device_report(&d->head, log, err, "NVIDIA's driver does not start") : 0;
}

/* Name and PCI id of device `index`. */
static int identify(VgDevice *device, int index)
{
    CudaDevice *d = cuda(device);
    int err = CU(d, cuDeviceGet, &d->device, index);
    if (!err)
        err = CU(d, cuDeviceGetName, d->head.name, (int)sizeof(d->head.name), d->device);
    if (!err)
        err = CU(d, cuDeviceGetPCIBusId, d->head.id, (int)sizeof(d->head.id), d->device);
    return err;
}

static int choose(CudaDevice *d, const char *which, const VgLog *log)
{
    int n = 0;
    int err = CU(d, cuDeviceGetCount, &n);
    if (err)
        return vg_device_report(&d->head, log, err, "looking for a CUDA device");
    const int index = vg_device_find(&d->head, n, which, identify, log);
    return index < 0 ? index : 0;
}

/* The device of the caller's context. */
static int adopt(CudaDevice *d, CUcontext context, const VgLog *log)
{
    int index = 0;
    int err = CU(d, cuCtxPushCurrent_v2, context);
    if (!err) {
        err = CU(d, cuCtxGetDevice, &index);
        CUcontext popped;
        (void)d->driver.cuCtxPopCurrent_v2(&popped);
    }
    if (!err)
        err = identify(&d->head, index);
    d->context = context;
    return err ? vg_device_report(&d->head, log, err, "using the CUDA context of the pictures") : 0;
}

/*
 * Takes the primary context. If nobody has it yet, it is made one whose waits block, as FFmpeg wants it, too; whoever
 * was there before us has chosen otherwise, and our waits are for events that block anyhow.
 */
static int retain(CudaDevice *d, const VgLog *log)
{
    unsigned flags;
    int active;
    int err = CU(d, cuDevicePrimaryCtxGetState, d->device, &flags, &active);
    if (!err && !active) {
        err = CU(d, cuDevicePrimaryCtxSetFlags, d->device, CU_CTX_SCHED_BLOCKING_SYNC);
        if (d->head.native == CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE)
            err = d->head.native = 0; /* another thread was faster */
    }
    if (!err)
        err = CU(d, cuDevicePrimaryCtxRetain, &d->context, d->device);
    d->retained = !err;
    return err ? vg_device_report(&d->head, log, err, "making a context on %s, %s", d->head.name, d->head.id) : 0;
}

static void cuda_close(VgDevice **device)
{
    CudaDevice *d = cuda(*device);
    *device = NULL;
    if (!d)
        return;
    if (d->retained)
        (void)d->driver.cuDevicePrimaryCtxRelease(d->device);
    if (d->library)
        dlclose(d->library);
    free(d);
}

static int cuda_open(VgDevice **device, const VgDeviceChoice *choice, const VgLog *log)
{
    *device = NULL;
    CudaDevice *d = calloc(1, sizeof(*d));
    if (!d) {
        vg_log(log, VG_LOG_ERROR, "out of memory");
        return -ENOMEM;
    }
    d->head.table = &vg_table_cuda;
    int err = open_driver(d, log);
    if (!err)
        err = choice->context ? adopt(d, choice->context, log) : choose(d, choice->which, log);
    int wave = 0;
    if (!err) {
        err = CU(d, cuDeviceGetAttribute, &wave, CU_DEVICE_ATTRIBUTE_WARP_SIZE, d->device);
        if (err)
            vg_device_report(&d->head, log, err, "asking for the warp size of %s", d->head.name);
    }
    if (!err && !choice->context)
        err = retain(d, log);
    *device = &d->head;
    if (err) {
        cuda_close(device);
        return err;
    }
    d->head.wave = (unsigned)wave;
    vg_log(log, VG_LOG_VERBOSE, "CUDA device: %s, %s, driver for CUDA %u.%u", d->head.name, d->head.id,
           d->head.driver / 1000, d->head.driver % 1000 / 10);
    return 0;
}

static int cuda_enter(VgDevice *device)
{
    return CU(cuda(device), cuCtxPushCurrent_v2, cuda(device)->context);
}

static void cuda_leave(VgDevice *device)
{
    CUcontext popped;
    (void)cuda(device)->driver.cuCtxPopCurrent_v2(&popped);
}

static void cuda_error_text(VgDevice *device, int native, const char **name, const char **text)
{
    const Driver *driver = &cuda(device)->driver;
    if (!driver->cuGetErrorName || driver->cuGetErrorName((CUresult)native, name))
        *name = NULL;
    if (!driver->cuGetErrorString || driver->cuGetErrorString((CUresult)native, text))
        *text = NULL;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static int cuda_alloc(VgDevice *device, size_t size, uint64_t *address)
{
    CUdeviceptr p = 0;
    int err = CU(cuda(device), cuMemAlloc_v2, &p, size);
    *address = err ? 0 : p;
    return err;
}

static void cuda_free(VgDevice *device, uint64_t address)
{
    if (address)
        (void)cuda(device)->driver.cuMemFree_v2(address);
}

static int cuda_alloc_host(VgDevice *device, size_t size, void **memory)
{
    *memory = NULL;
    return CU(cuda(device), cuMemAllocHost_v2, memory, size);
}

static void cuda_free_host(VgDevice *device, void *memory)
{
    if (memory)
        (void)cuda(device)->driver.cuMemFreeHost(memory);
}

/* ---- Work -------------------------------------------------------------------------------------------------------- */

static int copy_line(CudaDevice *d, const VgCopy *c, CUstream stream)
{
    const size_t size = c->width * c->rows;
    switch (c->kind) {
    case VG_COPY_TO_DEVICE:
        return CU(d, cuMemcpyHtoDAsync_v2, c->to, (const void *)(uintptr_t)c->from, size, stream);
    case VG_COPY_TO_HOST:
        return CU(d, cuMemcpyDtoHAsync_v2, (void *)(uintptr_t)c->to, c->from, size, stream);
    case VG_COPY_ON_DEVICE:
        break;
    }
    return CU(d, cuMemcpyDtoDAsync_v2, c->to, c->from, size, stream);
}

static int cuda_copy(VgDevice *device, const VgCopy *c, VgStream stream)
{
    if (!c->width || !c->rows)
        return 0;
    if (vg_copy_is_one_line(c))
        return copy_line(cuda(device), c, stream);
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = c->kind == VG_COPY_TO_DEVICE ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .srcPitch = c->from_pitch,
        .dstMemoryType = c->kind == VG_COPY_TO_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .dstPitch = c->to_pitch,
        .WidthInBytes = c->width,
        .Height = c->rows,
    };
    if (c->kind == VG_COPY_TO_DEVICE)
        copy.srcHost = (const void *)(uintptr_t)c->from;
    else
        copy.srcDevice = c->from;
    if (c->kind == VG_COPY_TO_HOST)
        copy.dstHost = (void *)(uintptr_t)c->to;
    else
        copy.dstDevice = c->to;
    return CU(cuda(device), cuMemcpy2DAsync_v2, &copy, stream);
}

static int cuda_fill(VgDevice *device, uint64_t address, uint8_t value, size_t size, VgStream stream)
{
    return CU(cuda(device), cuMemsetD8Async, address, value, size, stream);
}

static int cuda_launch(VgDevice *device, VgFunction function, const uint32_t grid[3], uint32_t block,
                       uint32_t dynamic_shared, const void *args, size_t args_size, VgStream stream)
{
    void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)args, CU_LAUNCH_PARAM_BUFFER_SIZE, &args_size,
                      CU_LAUNCH_PARAM_END };
    return CU(cuda(device), cuLaunchKernel, function, grid[0], grid[1], grid[2], block, 1, 1, dynamic_shared, stream,
              NULL, extra);
}

/* ---- Streams and events ------------------------------------------------------------------------------------------ */

static int cuda_stream_create(VgDevice *device, VgStream *stream)
{
    *stream = NULL;
    return CU(cuda(device), cuStreamCreate, (CUstream *)stream, CU_STREAM_NON_BLOCKING);
}

static void cuda_stream_destroy(VgDevice *device, VgStream stream)
{
    if (stream)
        (void)cuda(device)->driver.cuStreamDestroy_v2(stream);
}

static int cuda_event_create(VgDevice *device, int timed, VgEvent *event)
{
    const unsigned flags = CU_EVENT_BLOCKING_SYNC | (timed ? 0 : CU_EVENT_DISABLE_TIMING);
    *event = NULL;
    return CU(cuda(device), cuEventCreate, (CUevent *)event, flags);
}

static void cuda_event_destroy(VgDevice *device, VgEvent event)
{
    if (event)
        (void)cuda(device)->driver.cuEventDestroy_v2(event);
}

static int cuda_record(VgDevice *device, VgEvent event, VgStream stream)
{
    return CU(cuda(device), cuEventRecord, event, stream);
}

static int cuda_stream_wait(VgDevice *device, VgStream stream, VgEvent event)
{
    return CU(cuda(device), cuStreamWaitEvent, stream, event, 0);
}

static int cuda_event_query(VgDevice *device, VgEvent event)
{
    CUresult native = cuda(device)->driver.cuEventQuery(event);
    if (native == CUDA_ERROR_NOT_READY)
        return 0;
    return native ? result(cuda(device), "cuEventQuery", native) : 1;
}

static int cuda_event_synchronize(VgDevice *device, VgEvent event)
{
    return CU(cuda(device), cuEventSynchronize, event);
}

/* It spins if the context's owner has made it so. */
static void spin(VgDevice *device, VgStream stream)
{
    (void)cuda(device)->driver.cuStreamSynchronize(stream);
}

static int cuda_stream_synchronize(VgDevice *device, VgStream stream)
{
    return vg_device_drain(device, stream, spin);
}

static int cuda_event_elapsed(VgDevice *device, VgEvent from, VgEvent to, float *milliseconds)
{
    return CU(cuda(device), cuEventElapsedTime, milliseconds, from, to);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static int cuda_module_load(VgDevice *device, const VgLog *log, VgModule *module)
{
    const struct {
        const char *name, *data;
        uint64_t size;
    } images[] = {
        { "machine code", vg_image_cubin, vg_image_cubin_size },
        { "PTX", vg_image_ptx, vg_image_ptx_size },
    };
    int err = -ENOSYS;
    *module = NULL;
    device->native = 0;
    for (unsigned i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        if (!images[i].size)
            continue;
        err = CU(cuda(device), cuModuleLoadData, (CUmodule *)module, images[i].data);
        if (!err)
            vg_log(log, VG_LOG_VERBOSE, "kernels: %s loaded", images[i].name);
        if (err != -ENOEXEC)
            break;
        vg_log(log, VG_LOG_VERBOSE, "kernels: %s does not fit the device (error %d)", images[i].name, device->native);
    }
    return err;
}

static void cuda_module_unload(VgDevice *device, VgModule module)
{
    if (module)
        (void)cuda(device)->driver.cuModuleUnload(module);
}

static int cuda_function(VgDevice *device, VgModule module, const char *name, uint32_t dynamic_shared,
                         VgFunction *function)
{
    *function = NULL;
    int err = CU(cuda(device), cuModuleGetFunction, (CUfunction *)function, module, name);
    if (!err && dynamic_shared) /* with shared arrays of the kernel, any number may be more than one gets unasked */
        err = CU(cuda(device), cuFuncSetAttribute, *function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                 (int)dynamic_shared);
    return err;
}

/* ---- Graphs ------------------------------------------------------------------------------------------------------ */

static int has_graphs(CudaDevice *d)
{
#define MISSING(name) || !d->driver.name
    const int missing = 0 GRAPH_FUNCTIONS(MISSING);
#undef MISSING
    return !missing;
}

static int cuda_capture_begin(VgDevice *device, VgStream stream)
{
    CudaDevice *d = cuda(device);
    if (!has_graphs(d))
        return result(d, "cuGraphInstantiateWithFlags", CUDA_ERROR_NOT_SUPPORTED);
    /* Other threads, such as decoders, go on allocating memory meanwhile. */
    return CU(d, cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static int cuda_capture_end(VgDevice *device, VgStream stream, VgGraph *graph)
{
    CudaDevice *d = cuda(device);
    CUgraph recorded = NULL;
    *graph = NULL;
    if (!has_graphs(d))
        return result(d, "cuGraphInstantiateWithFlags", CUDA_ERROR_NOT_SUPPORTED);
    int err = CU(d, cuStreamEndCapture, stream, &recorded);
    if (!err)
        err = CU(d, cuGraphInstantiateWithFlags, (CUgraphExec *)graph, recorded, 0);
    if (recorded)
        (void)d->driver.cuGraphDestroy(recorded);
    return err;
}

static int cuda_graph_launch(VgDevice *device, VgGraph graph, VgStream stream)
{
    return CU(cuda(device), cuGraphLaunch, graph, stream);
}

static void cuda_graph_destroy(VgDevice *device, VgGraph graph)
{
    if (graph)
        (void)cuda(device)->driver.cuGraphExecDestroy(graph);
}

const VgDeviceTable vg_table_cuda = {
    .name = "CUDA",
    .option = "cuda",
    .unseen =
        ". Make sure that NVIDIA's driver is loaded (nvidia-smi lists the GPU), that CUDA_VISIBLE_DEVICES does not "
        "hide the GPU, and that a container was started with it (docker's --gpus all)",
    .open = cuda_open,
    .close = cuda_close,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .launch = cuda_launch,
    .record = cuda_record,
    .stream_wait = cuda_stream_wait,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_synchronize = cuda_stream_synchronize,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_query = cuda_event_query,
    .event_synchronize = cuda_event_synchronize,
    .event_elapsed = cuda_event_elapsed,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .function = cuda_function,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .graph_launch = cuda_graph_launch,
    .graph_destroy = cuda_graph_destroy,
    .error_text = cuda_error_text,
};
