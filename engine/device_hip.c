/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The device table for AMD devices, over the HIP runtime: libamdhip64.so is opened when a device is, so that a binary with
 * this in it runs where there is no ROCm. It is the same library that other users of HIP in this process have; their
 * streams and memory can be used as they are.
 *
 * HIP has a current device for each thread instead of contexts. It is another user's as well as ours: enter() notes it, and
 * leave() brings it back.
 */
#include "engine/device.h"
#include "engine/hip_api.h"
#include "kernels/image.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Names that releases of ROCm give the runtime, the latest first. What is used of them is the same in all. */
static const char *const libraries[] = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so" };

#define FUNCTIONS(F)                                                                                                   \
    F(hipInit)                                                                                                         \
    F(hipRuntimeGetVersion)                                                                                            \
    F(hipGetErrorName)                                                                                                 \
    F(hipGetErrorString)                                                                                               \
    F(hipGetDeviceCount)                                                                                               \
    F(hipSetDevice)                                                                                                    \
    F(hipGetDevice)                                                                                                    \
    F(hipDeviceGetName)                                                                                                \
    F(hipDeviceGetAttribute)                                                                                           \
    F(hipDeviceGetPCIBusId)                                                                                            \
    F(hipMalloc)                                                                                                       \
    F(hipFree)                                                                                                         \
    F(hipHostMalloc)                                                                                                   \
    F(hipHostFree)                                                                                                     \
    F(hipMemcpyHtoDAsync)                                                                                              \
    F(hipMemcpyDtoHAsync)                                                                                              \
    F(hipMemcpyDtoDAsync)                                                                                              \
    F(hipMemcpy2DAsync)                                                                                                \
    F(hipMemsetD8Async)                                                                                                \
    F(hipStreamCreateWithFlags)                                                                                        \
    F(hipStreamDestroy)                                                                                                \
    F(hipStreamSynchronize)                                                                                            \
    F(hipStreamWaitEvent)                                                                                              \
    F(hipEventCreateWithFlags)                                                                                         \
    F(hipEventDestroy)                                                                                                 \
    F(hipEventRecord)                                                                                                  \
    F(hipEventQuery)                                                                                                   \
    F(hipEventSynchronize)                                                                                             \
    F(hipEventElapsedTime)                                                                                             \
    F(hipModuleLoadData)                                                                                               \
    F(hipModuleUnload)                                                                                                 \
    F(hipModuleGetFunction)                                                                                            \
    F(hipModuleLaunchKernel)                                                                                           \
    F(hipStreamBeginCapture)                                                                                           \
    F(hipStreamEndCapture)                                                                                             \
    F(hipGraphLaunch)                                                                                                  \
    F(hipGraphExecDestroy)                                                                                             \
    F(hipGraphDestroy)

typedef struct Runtime {
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
    /* One of them: early releases of ROCm 5 have the first only. */
    MEMBER(hipGraphInstantiate)
    MEMBER(hipGraphInstantiateWithFlags)
#undef MEMBER
} Runtime;

typedef struct HipDevice {
    VgDevice head; /* first, so that a VgDevice pointer is a HipDevice pointer */
    void *library;
    const char *library_name;
    Runtime runtime;
    int device;
    char arch[32];    /* gfx1100; empty if the runtime does not tell */
    unsigned entered; /* enter()s without their leave() */
    int previous;     /* the thread's device at the first of them */
} HipDevice;

/** What a VgModule is: some runtimes read the code object as long as the module is there. */
typedef struct HipModule {
    hipModule_t module;
    uint8_t *code;
} HipModule;

static int result(HipDevice *d, const char *call, hipError_t native)
{
    if (native) {
        d->head.native = (int)native;
        d->head.call = call;
        d->head.remedy[0] = '\0';
    }
    return vg_device_errno((int)native);
}

/* Calls the runtime; an error is remembered and becomes an errno value. */
#define HIP(d, function, ...) result(d, #function, (d)->runtime.function(__VA_ARGS__))

static HipDevice *hip(VgDevice *device)
{
    return (HipDevice *)device;
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static int look_up(HipDevice *d, void *function, const char *name, const VgLog *log)
{
    *(void **)function = dlsym(d->library, name);
    if (*(void **)function)
        return 0;
    vg_log(log, VG_LOG_ERROR, "%s has no function %s: install the HIP runtime of ROCm 5 or later", d->library_name,
           name);
    return -ENODEV;
}

static int open_library(HipDevice *d, const VgLog *log)
{
    enum { N = sizeof(libraries) / sizeof(libraries[0]) };
    char why[512] = "";
    int all_absent = 1;
    /* First one that is in the process already: to a second runtime its streams and its memory would mean nothing. */
    for (unsigned i = 0; !d->library && i < 2 * N; i++) {
        d->library_name = libraries[i % N];
        /* Threads of a runtime may outlive its last user. */
        d->library = dlopen(d->library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | (i < N ? RTLD_NOLOAD : 0));
        if (d->library || i < N)
            continue;
        const char *error = dlerror();
        /* What one that is there lacks says more than that the first one is not there. */
        const int absent = !error || !strncmp(error, d->library_name, strlen(d->library_name));
        if (!why[0] || (all_absent && !absent))
            snprintf(why, sizeof(why), "%s", error ? error : "no reason given");
        all_absent &= absent;
    }
    if (d->library)
        return 0;
    vg_log(log, VG_LOG_ERROR, "ROCm's HIP runtime cannot be opened (%s%s): install it, or score on the CPU", why,
           all_absent ? "; .so.6, .so.5 and .so neither" : "");
    return -ENODEV;
}

static int open_runtime(HipDevice *d, const VgLog *log)
{
    int version = 0;
    int err = open_library(d, log);
#define LOOK_UP(name)                                                                                                  \
    if (!err)                                                                                                          \
        err = look_up(d, &d->runtime.name, #name, log);
    FUNCTIONS(LOOK_UP)
    if (err)
        return err;
    *(void **)&d->runtime.hipGraphInstantiateWithFlags = dlsym(d->library, "hipGraphInstantiateWithFlags");
    if (!d->runtime.hipGraphInstantiateWithFlags)
        LOOK_UP(hipGraphInstantiate)
#undef LOOK_UP
    if (err)
        return err;
    err = HIP(d, hipInit, 0);
    if (!err)
        err = HIP(d, hipRuntimeGetVersion, &version);
    d->head.driver = (unsigned)version;
    return err ? vg_device_report(&d->head, log, err, "ROCm's HIP runtime does not start") : 0;
}

/* Name and PCI id of device `index`. */
static int identify(VgDevice *device, int index)
{
    HipDevice *d = hip(device);
    d->device = index;
    int err = HIP(d, hipDeviceGetName, d->head.name, (int)sizeof(d->head.name), index);
    return err ? err : HIP(d, hipDeviceGetPCIBusId, d->head.id, (int)sizeof(d->head.id), index);
}

static int choose(HipDevice *d, const char *which, const VgLog *log)
{
    int n = 0;
    int err = HIP(d, hipGetDeviceCount, &n);
    if (err && d->head.native != hipErrorNoDevice)
        return vg_device_report(&d->head, log, err, "looking for a HIP device");
    const int index = vg_device_find(&d->head, err ? 0 : n, which, identify, log);
    return index < 0 ? index : 0;
}

/*
 * The architecture, that is, which code object fits. Only the device properties tell it, a struct that has grown and moved
 * its members; so the name is looked for by its form, behind the device's own name. Not to find it is no error: then code
 * objects are tried one after the other.
 */
static void find_arch(HipDevice *d)
{
    enum { NAME = 256, ROOM = 16384 }; /* bytes of the device's name; more than any release's properties, by far */
    hipError_t (*get)(void *properties, int device) = NULL;
    char *properties = calloc(1, ROOM);
    *(void **)&get = dlsym(d->library, "hipGetDevicePropertiesR0600");
    if (!get)
        *(void **)&get = dlsym(d->library, "hipGetDeviceProperties");
    d->arch[0] = '\0';
    if (properties && get && !get(properties, d->device)) {
        for (size_t i = NAME; !d->arch[0] && i + sizeof(d->arch) < ROOM; i++) {
            const size_t length = 3 + strspn(properties + i + 3, "0123456789abcdef");
            if (!strncmp(properties + i, "gfx", 3) && length > 5 && length < sizeof(d->arch))
                snprintf(d->arch, sizeof(d->arch), "%.*s", (int)length, properties + i);
        }
    }
    free(properties);
}

static void hip_close(VgDevice **device)
{
    HipDevice *d = hip(*device);
    *device = NULL;
    if (!d)
        return;
    if (d->library)
        dlclose(d->library);
    free(d);
}

static int hip_open(VgDevice **device, const VgDeviceChoice *choice, const VgLog *log)
{
    *device = NULL;
    HipDevice *d = calloc(1, sizeof(*d));
    if (!d) {
        vg_log(log, VG_LOG_ERROR, "out of memory");
        return -ENOMEM;
    }
    d->head.table = &vg_table_hip;
    int wave = 0;
    int err = open_runtime(d, log);
    if (!err)
        err = choose(d, choice->which, log);
    if (!err) {
        err = HIP(d, hipDeviceGetAttribute, &wave, hipDeviceAttributeWarpSize, d->device);
        if (err)
            vg_device_report(&d->head, log, err, "asking for the wave size of %s", d->head.name);
    }
    *device = &d->head;
    if (err) {
        hip_close(device);
        return err;
    }
    d->head.wave = (unsigned)wave;
    find_arch(d);
    vg_log(log, VG_LOG_VERBOSE, "HIP device: %s (%s), %s, HIP %u.%u of %s", d->head.name,
           d->arch[0] ? d->arch : "of an unknown architecture", d->head.id, d->head.driver / 10000000,
           d->head.driver / 100000 % 100, d->library_name);
    return 0;
}

static int hip_enter(VgDevice *device)
{
    HipDevice *d = hip(device);
    int err = 0;
    if (!d->entered) {
        err = HIP(d, hipGetDevice, &d->previous);
        if (!err)
            err = HIP(d, hipSetDevice, d->device);
    }
    d->entered += !err;
    return err;
}

static void hip_leave(VgDevice *device)
{
    HipDevice *d = hip(device);
    if (!--d->entered && d->runtime.hipSetDevice(d->previous))
        (void)d->runtime.hipSetDevice(d->previous); /* some runtimes tell earlier failures by any call */
}

static void hip_error_text(VgDevice *device, int native, const char **name, const char **text)
{
    const Runtime *runtime = &hip(device)->runtime;
    *name = runtime->hipGetErrorName ? runtime->hipGetErrorName((hipError_t)native) : NULL;
    *text = runtime->hipGetErrorString ? runtime->hipGetErrorString((hipError_t)native) : NULL;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static int hip_alloc(VgDevice *device, size_t size, uint64_t *address)
{
    void *p = NULL;
    int err = HIP(hip(device), hipMalloc, &p, size);
    *address = err ? 0 : (uintptr_t)p;
    return err;
}

static void hip_free(VgDevice *device, uint64_t address)
{
    if (address)
        (void)hip(device)->runtime.hipFree(pointer(address));
}

static int hip_alloc_host(VgDevice *device, size_t size, void **memory)
{
    *memory = NULL;
    return HIP(hip(device), hipHostMalloc, memory, size, hipHostMallocDefault);
}

static void hip_free_host(VgDevice *device, void *memory)
{
    if (memory)
        (void)hip(device)->runtime.hipHostFree(memory);
}

/* ---- Work -------------------------------------------------------------------------------------------------------- */

static int copy_line(HipDevice *d, const VgCopy *c, hipStream_t stream)
{
    const size_t size = c->width * c->rows;
    switch (c->kind) {
    case VG_COPY_TO_DEVICE:
        return HIP(d, hipMemcpyHtoDAsync, pointer(c->to), pointer(c->from), size, stream);
    case VG_COPY_TO_HOST:
        return HIP(d, hipMemcpyDtoHAsync, pointer(c->to), pointer(c->from), size, stream);
    case VG_COPY_ON_DEVICE:
        break;
    }
    return HIP(d, hipMemcpyDtoDAsync, pointer(c->to), pointer(c->from), size, stream);
}

static int hip_copy(VgDevice *device, const VgCopy *c, VgStream stream)
{
    static const hipMemcpyKind kinds[] = {
        [VG_COPY_TO_DEVICE] = hipMemcpyHostToDevice,
        [VG_COPY_TO_HOST] = hipMemcpyDeviceToHost,
        [VG_COPY_ON_DEVICE] = hipMemcpyDeviceToDevice,
    };
    if (!c->width || !c->rows)
        return 0;
    if (vg_copy_is_one_line(c))
        return copy_line(hip(device), c, stream);
    return HIP(hip(device), hipMemcpy2DAsync, pointer(c->to), c->to_pitch, pointer(c->from), c->from_pitch, c->width,
               c->rows, kinds[c->kind], stream);
}

static int hip_fill(VgDevice *device, uint64_t address, uint8_t value, size_t size, VgStream stream)
{
    return size ? HIP(hip(device), hipMemsetD8Async, pointer(address), value, size, stream) : 0;
}

static int hip_launch(VgDevice *device, VgFunction function, const uint32_t grid[3], uint32_t block,
                      uint32_t dynamic_shared, const void *args, size_t args_size, VgStream stream)
{
    void *extra[] = { HIP_LAUNCH_PARAM_BUFFER_POINTER, (void *)args, HIP_LAUNCH_PARAM_BUFFER_SIZE, &args_size,
                      HIP_LAUNCH_PARAM_END };
    return HIP(hip(device), hipModuleLaunchKernel, function, grid[0], grid[1], grid[2], block, 1, 1, dynamic_shared,
               stream, NULL, extra);
}

/* ---- Streams and events ------------------------------------------------------------------------------------------ */

static int hip_stream_create(VgDevice *device, VgStream *stream)
{
    *stream = NULL;
    return HIP(hip(device), hipStreamCreateWithFlags, (hipStream_t *)stream, hipStreamNonBlocking);
}

static void hip_stream_destroy(VgDevice *device, VgStream stream)
{
    if (stream)
        (void)hip(device)->runtime.hipStreamDestroy(stream);
}

static int hip_event_create(VgDevice *device, int timed, VgEvent *event)
{
    const unsigned flags = hipEventBlockingSync | (timed ? 0 : hipEventDisableTiming);
    *event = NULL;
    return HIP(hip(device), hipEventCreateWithFlags, (hipEvent_t *)event, flags);
}

static void hip_event_destroy(VgDevice *device, VgEvent event)
{
    if (event)
        (void)hip(device)->runtime.hipEventDestroy(event);
}

static int hip_record(VgDevice *device, VgEvent event, VgStream stream)
{
    return HIP(hip(device), hipEventRecord, event, stream);
}

static int hip_stream_wait(VgDevice *device, VgStream stream, VgEvent event)
{
    return HIP(hip(device), hipStreamWaitEvent, stream, event, 0);
}

static int hip_event_query(VgDevice *device, VgEvent event)
{
    const hipError_t native = hip(device)->runtime.hipEventQuery(event);
    if (native == hipErrorNotReady)
        return 0;
    return native ? result(hip(device), "hipEventQuery", native) : 1;
}

static int hip_event_synchronize(VgDevice *device, VgEvent event)
{
    return HIP(hip(device), hipEventSynchronize, event);
}

/* Unlike waits for events, where the runtime heeds their flag. */
static void spin(VgDevice *device, VgStream stream)
{
    (void)hip(device)->runtime.hipStreamSynchronize(stream);
}

static int hip_stream_synchronize(VgDevice *device, VgStream stream)
{
    return vg_device_drain(device, stream, spin);
}

static int hip_event_elapsed(VgDevice *device, VgEvent from, VgEvent to, float *milliseconds)
{
    return HIP(hip(device), hipEventElapsedTime, milliseconds, from, to);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

/* The code object in full. Its size is in the last four bytes of what is packed, lowest first. */
static hipError_t unpack(const VgHipImage *image, uint8_t **code)
{
    const uint8_t *last = image->packed + image->packed_size - 4;
    const uint32_t size = last[0] | (uint32_t)last[1] << 8 | (uint32_t)last[2] << 16 | (uint32_t)last[3] << 24;
    z_stream z = { 0 };
    *code = malloc(size);
    if (!*code || inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) { /* 16: gzip's format */
        free(*code);
        *code = NULL;
        return hipErrorOutOfMemory;
    }
    z.next_in = (uint8_t *)image->packed;
    z.avail_in = (uInt)image->packed_size;
    z.next_out = *code;
    z.avail_out = size;
    const int whole = inflate(&z, Z_FINISH) == Z_STREAM_END && !z.avail_out;
    inflateEnd(&z);
    if (whole)
        return hipSuccess;
    free(*code);
    *code = NULL;
    return hipErrorInvalidImage;
}

static int load_image(HipDevice *d, HipModule *module, const VgHipImage *image)
{
    const hipError_t native = unpack(image, &module->code);
    if (native)
        return result(d, "unpacking code", native);
    int err = HIP(d, hipModuleLoadData, &module->module, module->code);
    if (err) {
        free(module->code);
        module->code = NULL;
    }
    return err;
}

/* Says what there is and how to get what is needed. */
static void explain_missing(HipDevice *d)
{
    char targets[200] = "";
    size_t used = 0;
    for (const VgHipImage *i = vg_images_hip; i->target && used < sizeof(targets); i++)
        used += (size_t)snprintf(targets + used, sizeof(targets) - used, "%s%s", used ? ", " : "", i->target);
    snprintf(
        d->head.remedy, sizeof(d->head.remedy),
        ": there are no kernels for %s, only for %s. Build the library with it in meson's option gpu_hip_targets, or "
        "score on the CPU",
        d->arch[0] ? d->arch : "this GPU's architecture, which rocminfo tells", targets);
}

/* Whether another image may do after this error. Runtimes do not agree on what they say of code that does not fit. */
static int may_go_on(const HipDevice *d, int err)
{
    return err == -ENOEXEC || (!d->arch[0] && err != -ENOMEM && !vg_device_lost(&d->head));
}

/* The image for the device's architecture or, where that is unknown, the first one that the runtime takes. */
static int load_fitting(HipDevice *d, HipModule *module, const VgLog *log)
{
    /* What it would say if it were given another one's. */
    int err = result(d, "hipModuleLoadData", hipErrorNoBinaryForGpu), tried = 0;
    for (const VgHipImage *i = vg_images_hip; err && may_go_on(d, err) && i->target; i++) {
        if (d->arch[0] && strcmp(i->target, d->arch))
            continue;
        tried = 1;
        err = load_image(d, module, i);
        if (!err)
            vg_log(log, VG_LOG_VERBOSE, "kernels: code for %s loaded", i->target);
    }
    if (!err || !may_go_on(d, err))
        return err;
    if (!d->arch[0] || !tried) {
        err = result(d, "hipModuleLoadData", hipErrorNoBinaryForGpu);
        explain_missing(d);
    } else {
        snprintf(
            d->head.remedy, sizeof(d->head.remedy),
            ": this library has code for %s, but this runtime does not take it. Install another release of ROCm, or "
            "score on the CPU",
            d->arch);
    }
    return err;
}

static int hip_module_load(VgDevice *device, const VgLog *log, VgModule *module)
{
    HipModule *m = calloc(1, sizeof(*m));
    *module = NULL;
    if (!m)
        return result(hip(device), "loading a module", hipErrorOutOfMemory);
    int err = load_fitting(hip(device), m, log);
    if (err)
        free(m);
    else
        *module = m;
    return err;
}

static void hip_module_unload(VgDevice *device, VgModule module)
{
    HipModule *m = module;
    if (!m)
        return;
    (void)hip(device)->runtime.hipModuleUnload(m->module);
    free(m->code);
    free(m);
}

/* All of a block's local memory can be had unasked: 64 KiB. */
static int hip_function(VgDevice *device, VgModule module, const char *name, uint32_t dynamic_shared,
                        VgFunction *function)
{
    (void)dynamic_shared;
    *function = NULL;
    return HIP(hip(device), hipModuleGetFunction, (hipFunction_t *)function, ((HipModule *)module)->module, name);
}

/* ---- Graphs ------------------------------------------------------------------------------------------------------ */

static int hip_capture_begin(VgDevice *device, VgStream stream)
{
    /* Other threads, such as decoders, go on allocating memory meanwhile. */
    return HIP(hip(device), hipStreamBeginCapture, stream, hipStreamCaptureModeThreadLocal);
}

static int instantiate(HipDevice *d, hipGraph_t recorded, hipGraphExec_t *graph)
{
    if (d->runtime.hipGraphInstantiateWithFlags)
        return HIP(d, hipGraphInstantiateWithFlags, graph, recorded, 0);
    return HIP(d, hipGraphInstantiate, graph, recorded, NULL, NULL, 0);
}

static int hip_capture_end(VgDevice *device, VgStream stream, VgGraph *graph)
{
    HipDevice *d = hip(device);
    hipGraph_t recorded = NULL;
    *graph = NULL;
    int err = HIP(d, hipStreamEndCapture, stream, &recorded);
    if (!err)
        err = instantiate(d, recorded, (hipGraphExec_t *)graph);
    if (recorded)
        (void)d->runtime.hipGraphDestroy(recorded);
    return err;
}

static int hip_graph_launch(VgDevice *device, VgGraph graph, VgStream stream)
{
    return HIP(hip(device), hipGraphLaunch, graph, stream);
}

static void hip_graph_destroy(VgDevice *device, VgGraph graph)
{
    if (graph)
        (void)hip(device)->runtime.hipGraphExecDestroy(graph);
}

const VgDeviceTable vg_table_hip = {
    .name = "HIP",
    .option = "hip",
    .unseen = ". Make sure that the amdgpu driver is loaded and that this user and container may open /dev/kfd and "
              "/dev/dri/renderD* (groups render and video)",
    .open = hip_open,
    .close = hip_close,
    .enter = hip_enter,
    .leave = hip_leave,
    .alloc = hip_alloc,
    .free = hip_free,
    .alloc_host = hip_alloc_host,
    .free_host = hip_free_host,
    .copy = hip_copy,
    .fill = hip_fill,
    .launch = hip_launch,
    .record = hip_record,
    .stream_wait = hip_stream_wait,
    .stream_create = hip_stream_create,
    .stream_destroy = hip_stream_destroy,
    .stream_synchronize = hip_stream_synchronize,
    .event_create = hip_event_create,
    .event_destroy = hip_event_destroy,
    .event_query = hip_event_query,
    .event_synchronize = hip_event_synchronize,
    .event_elapsed = hip_event_elapsed,
    .module_load = hip_module_load,
    .module_unload = hip_module_unload,
    .function = hip_function,
    .capture_begin = hip_capture_begin,
    .capture_end = hip_capture_end,
    .graph_launch = hip_graph_launch,
    .graph_destroy = hip_graph_destroy,
    .error_text = hip_error_text,
};
