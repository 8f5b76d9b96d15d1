/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Devices and contexts.
 */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

static int is_device(CUdevice device)
{
    return device >= 0 && device < sg.n_devices;
}

SG_API CUresult cuInit(unsigned flags)
{
    CUresult err = sg_enter(__func__);
    if (!err && flags)
        err = CUDA_ERROR_INVALID_VALUE;
    if (!err && !sg.n_devices)
        err = CUDA_ERROR_NO_DEVICE;
    if (!err)
        sg.initialised = 1;
    return sg_leave(err);
}

SG_API CUresult cuDriverGetVersion(int *version)
{
    CUresult err = sg_enter(__func__);
    if (!err)
        *version = 12010;
    return sg_leave(err);
}

SG_API CUresult cuDeviceGetCount(int *count)
{
    CUresult err = sg_enter(__func__);
    if (!err)
        *count = sg.n_devices;
    return sg_leave(err);
}

SG_API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult err = sg_enter(__func__);
    if (!err && !is_device(ordinal))
        err = CUDA_ERROR_INVALID_DEVICE;
    if (!err)
        *device = ordinal;
    return sg_leave(err);
}

/** Begins a call that asks about a device. */
static CUresult enter_device(const char *name, CUdevice device)
{
    CUresult err = sg_enter(name);
    if (!err && !is_device(device))
        err = CUDA_ERROR_INVALID_DEVICE;
    return err;
}

SG_API CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    CUresult err = enter_device(__func__, device);
    if (!err && size <= 0)
        err = CUDA_ERROR_INVALID_VALUE;
    if (!err)
        snprintf(name, (size_t)size, "Software device %d", device);
    return sg_leave(err);
}

static CUresult get_uuid(const char *call, CUuuid *uuid, CUdevice device)
{
    CUresult err = enter_device(call, device);
    if (!err) {
        memcpy(uuid->bytes, "software device", 16);
        uuid->bytes[15] = (char)('0' + device);
    }
    return sg_leave(err);
}

SG_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return get_uuid(__func__, uuid, device);
}

SG_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    return get_uuid(__func__, uuid, device);
}

static const struct {
    CUdevice_attribute attribute;
    int value;
} attributes[] = {
    { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, SG_MAX_BLOCK },
    { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, SG_MAX_BLOCK },
    { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, SG_MAX_BLOCK },
    { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
    { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff },
    { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
    { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
    { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, SG_SHARED_DEFAULT },
    { CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 },
    { CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff },
    { CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
    { CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000 },
    { CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, SG_ALIGN },
    { CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1 },
    { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16 },
    { CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
    { CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
    { CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0 },
    { CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000 },
    { CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 256 },
    { CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4 << 20 },
    { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048 },
    { CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2 },
    { CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
    { CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0 },
    { CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32 },
    { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 7 },
    { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 5 },
    { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10 },
};

SG_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult err = enter_device(__func__, device);
    if (!err) {
        *value = 0; /* of what we do not know, nothing is there */
        for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++)
            if (attributes[i].attribute == attribute)
                *value = attributes[i].value;
        if (attribute == CU_DEVICE_ATTRIBUTE_WARP_SIZE)
            *value = (int)sg.wave;
        else if (attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
            *value = (int)sg.shared;
        else if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
            *value = device + 1;
    }
    return sg_leave(err);
}

SG_API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    CUresult err = enter_device(__func__, device);
    if (!err) {
        *major = 7;
        *minor = 5;
    }
    return sg_leave(err);
}

SG_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CUresult err = enter_device(__func__, device);
    if (!err)
        *bytes = sg.memory;
    return sg_leave(err);
}

SG_API CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
    CUresult err = enter_device(__func__, device);
    if (!err && size < 13)
        err = CUDA_ERROR_INVALID_VALUE;
    if (!err)
        snprintf(id, (size_t)size, "0000:%02x:00.0", (unsigned)device + 1);
    return sg_leave(err);
}

SG_API CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
    CUresult err = sg_enter(__func__);
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    if (!err && (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3 || domain || slot || function || !bus ||
                 !is_device((int)bus - 1)))
        err = CUDA_ERROR_INVALID_DEVICE;
    if (!err)
        *device = (int)bus - 1;
    return sg_leave(err);
}

/* ---- contexts ---- */

CUresult sg_current(CUcontext *context)
{
    SoftgpuTls *t = &softgpu_tls;
    CUcontext c = t->n_contexts ? t->contexts[t->n_contexts - 1] : NULL;
    if (!c)
        return sg_complain(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
    if (!sg_is(SG_CONTEXT, c))
        return sg_complain(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed");
    *context = c;
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    SoftgpuTls *t = &softgpu_tls;
    if (t->n_contexts == sizeof(t->contexts) / sizeof(*t->contexts))
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "more than %u contexts pushed", t->n_contexts);
    t->contexts[t->n_contexts++] = context;
    return CUDA_SUCCESS;
}

static CUcontext new_context(CUdevice device, unsigned flags)
{
    CUcontext c = sg_new(SG_CONTEXT, NULL, sizeof(*c));
    c->object.context = c;
    c->device = device;
    c->flags = flags;
    c->refs = 1;
    c->legacy = sg_stream_new(c, 0, 1);
    return c;
}

/** Frees the context with all that is in it. */
static void delete_context(CUcontext c)
{
    sg_drain(c->device);
    for (SgObject *o = sg.objects, *next; o; o = next) {
        next = o->next;
        if (o->context != c || o->kind == SG_CONTEXT)
            continue;
        if (o->kind != SG_STREAM || !((CUstream)o)->is_legacy)
            sg.abandoned[o->kind]++;
        switch (o->kind) {
        case SG_DEVICE_MEMORY:
        case SG_PINNED_MEMORY:
        case SG_REGISTERED_MEMORY:
            sg_memory_delete((SgMemory *)o);
            break;
        case SG_STREAM:
            sg_stream_delete((CUstream)o);
            break;
        case SG_EVENT:
            sg_event_delete((CUevent)o);
            break;
        case SG_MODULE:
            sg_module_delete((CUmodule)o);
            break;
        case SG_GRAPH:
            sg_graph_delete((CUgraph)o);
            break;
        case SG_GRAPH_EXEC:
            sg_graph_exec_delete((CUgraphExec)o);
            break;
        default:
            break;
        }
    }
    sg_delete(&c->object);
}

static CUcontext primary_of(CUdevice device)
{
    for (SgObject *o = sg.objects; o; o = o->next)
        if (o->kind == SG_CONTEXT && ((CUcontext)o)->is_primary && ((CUcontext)o)->device == device)
            return (CUcontext)o;
    return NULL;
}

SG_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CUresult err = enter_device(__func__, device);
    if (!err) {
        CUcontext c = primary_of(device);
        if (c) {
            c->refs++;
        } else {
            c = new_context(device, sg.primary_flags[device]);
            c->is_primary = 1;
        }
        *context = c;
    }
    return sg_leave(err);
}

static CUresult release_primary(const char *name, CUdevice device)
{
    CUresult err = sg_enter(name);
    CUcontext c = is_device(device) ? primary_of(device) : NULL;
    if (!c)
        return sg_leave(err ? err : CUDA_ERROR_INVALID_CONTEXT);
    if (!--c->refs)
        delete_context(c);
    return sg_leave(err);
}

SG_API CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return release_primary(__func__, device);
}

SG_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return release_primary(__func__, device);
}

static CUresult reset_primary(const char *name, CUdevice device)
{
    CUresult err = enter_device(name, device);
    CUcontext c = primary_of(device);
    if (!err && c) {
        sg.abandoned[SG_CONTEXT] += c->refs;
        delete_context(c);
    }
    return sg_leave(err);
}

SG_API CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    return reset_primary(__func__, device);
}

SG_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return reset_primary(__func__, device);
}

/** How the host waits (bits 0 to 2, as a number), whether memory is mapped, local memory kept (bits 3 and 4). */
static CUresult check_flags(unsigned flags)
{
    unsigned how = flags & 7;
    if (flags & ~31u || (how != 0 && how != 1 && how != 2 && how != CU_CTX_SCHED_BLOCKING_SYNC))
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "context flags %u", flags);
    return CUDA_SUCCESS;
}

static CUresult set_primary_flags(const char *name, CUdevice device, unsigned flags)
{
    CUresult err = enter_device(name, device);
    if (!err)
        err = check_flags(flags);
    if (!err) {
        CUcontext c = primary_of(device);
        if (c)
            c->flags = flags; /* drivers since CUDA 11 do that; before, it was an error */
        sg.primary_flags[device] = flags;
    }
    return sg_leave(err);
}

SG_API CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    return set_primary_flags(__func__, device, flags);
}

SG_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    return set_primary_flags(__func__, device, flags);
}

SG_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    CUresult err = enter_device(__func__, device);
    if (!err) {
        *flags = sg.primary_flags[device];
        *active = primary_of(device) != NULL;
    }
    return sg_leave(err);
}

static CUresult create(const char *name, CUcontext *context, unsigned flags, CUdevice device)
{
    CUresult err = enter_device(name, device);
    if (!err)
        err = check_flags(flags);
    if (!err && softgpu_tls.n_contexts == sizeof(softgpu_tls.contexts) / sizeof(*softgpu_tls.contexts))
        err = CUDA_ERROR_INVALID_VALUE;
    if (!err) {
        *context = new_context(device, flags);
        push(*context);
    }
    return sg_leave(err);
}

SG_API CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
    return create(__func__, context, flags, device);
}

SG_API CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    return create(__func__, context, flags, device);
}

static CUresult destroy(const char *name, CUcontext context)
{
    CUresult err = sg_enter(name);
    if (!sg_is(SG_CONTEXT, context) || context->is_primary)
        return sg_leave(err ? err : sg_complain(CUDA_ERROR_INVALID_CONTEXT, "%s: not a context to destroy", name));
    SoftgpuTls *t = &softgpu_tls;
    if (t->n_contexts && t->contexts[t->n_contexts - 1] == context)
        t->n_contexts--;
    delete_context(context);
    return sg_leave(err);
}

SG_API CUresult cuCtxDestroy(CUcontext context)
{
    return destroy(__func__, context);
}

SG_API CUresult cuCtxDestroy_v2(CUcontext context)
{
    return destroy(__func__, context);
}

static CUresult push_current(const char *name, CUcontext context)
{
    CUresult err = sg_enter(name);
    if (!err && !sg_is(SG_CONTEXT, context))
        err = sg_complain(CUDA_ERROR_INVALID_CONTEXT, "%s: %p is no context", name, (void *)context);
    if (!err)
        err = push(context);
    return sg_leave(err);
}

SG_API CUresult cuCtxPushCurrent(CUcontext context)
{
    return push_current(__func__, context);
}

SG_API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    return push_current(__func__, context);
}

static CUresult pop_current(const char *name, CUcontext *context)
{
    CUresult err = sg_enter(name);
    SoftgpuTls *t = &softgpu_tls;
    if (!t->n_contexts)
        return sg_leave(err ? err : sg_complain(CUDA_ERROR_INVALID_CONTEXT, "%s: no context is current", name));
    t->n_contexts--;
    if (context)
        *context = t->contexts[t->n_contexts];
    return sg_leave(err);
}

SG_API CUresult cuCtxPopCurrent(CUcontext *context)
{
    return pop_current(__func__, context);
}

SG_API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    return pop_current(__func__, context);
}

SG_API CUresult cuCtxSetCurrent(CUcontext context)
{
    CUresult err = sg_enter(__func__);
    SoftgpuTls *t = &softgpu_tls;
    if (!err && context && !sg_is(SG_CONTEXT, context))
        err = sg_complain(CUDA_ERROR_INVALID_CONTEXT, "%s: %p is no context", __func__, (void *)context);
    if (!err) {
        if (t->n_contexts)
            t->n_contexts--;
        if (context)
            err = push(context);
    }
    return sg_leave(err);
}

SG_API CUresult cuCtxGetCurrent(CUcontext *context)
{
    CUresult err = sg_enter(__func__);
    SoftgpuTls *t = &softgpu_tls;
    if (!err)
        *context = t->n_contexts ? t->contexts[t->n_contexts - 1] : NULL;
    return sg_leave(err);
}

SG_API CUresult cuCtxGetDevice(CUdevice *device)
{
    CUcontext c = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_current(&c);
    if (!err)
        *device = c->device;
    return sg_leave(err);
}

SG_API CUresult cuCtxGetFlags(unsigned *flags)
{
    CUcontext c = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_current(&c);
    if (!err)
        *flags = c->flags;
    return sg_leave(err);
}

SG_API CUresult cuCtxSetLimit(int limit, size_t value)
{
    CUcontext c = NULL;
    CUresult err = sg_enter(__func__);
    (void)limit;
    (void)value;
    if (!err)
        err = sg_current(&c);
    return sg_leave(err);
}

SG_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUcontext c = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_current(&c);
    if (!err) {
        if (least)
            *least = 0;
        if (greatest)
            *greatest = -5;
    }
    return sg_leave(err);
}

SG_API CUresult cuCtxSynchronize(void)
{
    CUcontext c = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_current(&c);
    if (!err)
        err = sg_capture_disturbed(c->legacy);
    if (!err) {
        sg_count_wait(!(c->flags & CU_CTX_SCHED_BLOCKING_SYNC));
        sg_drain_context(c);
    }
    return sg_leave(err);
}
