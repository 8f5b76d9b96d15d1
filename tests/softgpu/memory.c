/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Memory of devices and pinned memory of the host: heap, poisoned, between guards.
 */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef SOFTGPU_ASAN
#include <sanitizer/asan_interface.h>
#endif

enum { GUARD = 1024, GUARD_BYTE = 0xfb };

#ifndef SOFTGPU_ASAN
/** Offset of the first byte of a guard that was written to, or -1. */
static long first_written(const unsigned char *guard)
{
    for (long i = 0; i < GUARD; i++)
        if (guard[i] != GUARD_BYTE)
            return i;
    return -1;
}

static void check_memory(const SgMemory *m, const char *when, const char *name)
{
    const char *what = m->object.kind == SG_DEVICE_MEMORY ? "device" : "pinned";
    long i = first_written(m->at + m->size);
    if (i >= 0)
        sg_die("%s memory of %zu bytes was written to %ld bytes after its end (seen %s%s)", what, m->size, i, when,
               name);
    i = first_written(m->at - GUARD);
    if (i >= 0)
        sg_die("%s memory of %zu bytes was written to %ld bytes before its start (seen %s%s)", what, m->size, GUARD - i,
               when, name);
}
#endif

void sg_check_guards(const char *when, const char *name)
{
#ifdef SOFTGPU_ASAN
    (void)when;
    (void)name; /* the guards are poisoned: reading them, too, ends the program */
#else
    for (SgObject *o = sg.objects; o; o = o->next)
        if (o->kind == SG_DEVICE_MEMORY || o->kind == SG_PINNED_MEMORY)
            check_memory((SgMemory *)o, when, name);
#endif
}

SgMemory *sg_memory_of(const void *at, size_t size)
{
    for (SgObject *o = sg.objects; o; o = o->next) {
        if (o->kind != SG_DEVICE_MEMORY && o->kind != SG_PINNED_MEMORY && o->kind != SG_REGISTERED_MEMORY)
            continue;
        SgMemory *m = (SgMemory *)o;
        uintptr_t offset = (uintptr_t)at - (uintptr_t)m->at;
        if (offset < m->size && size <= m->size - offset)
            return m;
    }
    return NULL;
}

static CUresult allocate(SgKind kind, CUcontext context, size_t size, SgMemory **memory)
{
    if (!size)
        return sg_complain(CUDA_ERROR_INVALID_VALUE, "an allocation of 0 bytes");
    size_t *used = &sg.used[context->device];
    if (size > (size_t)1 << 46 || (kind == SG_DEVICE_MEMORY && (*used > sg.memory || size > sg.memory - *used)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* The end is not aligned: the guard begins with the first byte that is not the buffer's. */
    size_t whole = (GUARD + size + GUARD + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN;
    unsigned char *p = aligned_alloc(SG_ALIGN, whole);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(p, GUARD_BYTE, whole);
    memset(p + GUARD, SG_POISON, size);
#ifdef SOFTGPU_ASAN
    __asan_poison_memory_region(p, GUARD);
    __asan_poison_memory_region(p + GUARD + size, whole - GUARD - size);
#endif
    SgMemory *m = sg_new(kind, context, sizeof(*m));
    m->whole = p;
    m->at = p + GUARD;
    m->size = size;
    if (kind == SG_DEVICE_MEMORY)
        *used += size;
    *memory = m;
    return CUDA_SUCCESS;
}

void sg_memory_delete(SgMemory *m)
{
    if (m->object.kind == SG_DEVICE_MEMORY)
        sg.used[m->object.context->device] -= m->size;
    if (m->whole) {
#ifdef SOFTGPU_ASAN
        __asan_unpoison_memory_region(m->whole, (size_t)(m->at - m->whole) + m->size + GUARD);
#else
        check_memory(m, "at its release", "");
#endif
        free(m->whole);
    }
    sg_delete(&m->object);
}

static CUresult allocate_here(SgKind kind, size_t size, SgMemory **memory)
{
    CUcontext context = NULL;
    CUresult err = sg_current(&context);
    if (!err)
        err = sg_capture_unsafe();
    return err ? err : allocate(kind, context, size, memory);
}

/** Releases memory that begins there, after all work of its device. Of a lost device no context can be made current. */
static CUresult release(SgKind kind, const void *at)
{
    CUcontext context = NULL;
    CUresult err = sg.lost ? CUDA_SUCCESS : sg_current(&context);
    if (err)
        return err;
    err = sg_capture_unsafe();
    SgMemory *m = sg_memory_of(at, 1);
    if (!m || m->object.kind != kind || m->at != at)
        return sg_complain(kind == SG_REGISTERED_MEMORY ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
                                                        : CUDA_ERROR_INVALID_VALUE,
                           "%p is no memory that could be released so", at);
    sg_drain(m->object.context->device);
    sg_memory_delete(m);
    return err;
}

SG_API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
    SgMemory *m = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = allocate_here(SG_DEVICE_MEMORY, size, &m);
    if (!err)
        *address = (uintptr_t)m->at;
    return sg_leave(err);
}

SG_API CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags)
{
    SgMemory *m = NULL;
    CUresult err = sg_enter(__func__);
    if (!err && flags != 1 && flags != 2)
        err = sg_complain(CUDA_ERROR_INVALID_VALUE, "cuMemAllocManaged: flags %u", flags);
    if (!err)
        err = allocate_here(SG_DEVICE_MEMORY, size, &m);
    if (!err)
        *address = (uintptr_t)m->at;
    return sg_leave(err);
}

SG_API CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element)
{
    SgMemory *m = NULL;
    CUresult err = sg_enter(__func__);
    if (!err && ((element != 4 && element != 8 && element != 16) || !width || !height || width > (size_t)1 << 31 ||
                 height > (size_t)1 << 31))
        err = sg_complain(CUDA_ERROR_INVALID_VALUE, "cuMemAllocPitch: %zu bytes x %zu rows, elements of %u", width,
                          height, element);
    size_t p = (width + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN;
    if (!err)
        err = allocate_here(SG_DEVICE_MEMORY, p * height, &m);
    if (!err) {
        *address = (uintptr_t)m->at;
        *pitch = p;
    }
    return sg_leave(err);
}

SG_API CUresult cuMemFree_v2(CUdeviceptr address)
{
    CUresult err = sg_enter(__func__);
    CUresult own = address ? release(SG_DEVICE_MEMORY, (void *)(uintptr_t)address) : CUDA_SUCCESS;
    return sg_leave(err ? err : own);
}

SG_API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CUcontext context = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_current(&context);
    if (!err) {
        size_t used = sg.used[context->device];
        *free_bytes = used < sg.memory ? sg.memory - used : 0;
        *total_bytes = sg.memory;
    }
    return sg_leave(err);
}

SG_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    CUresult err = sg_enter(__func__);
    SgMemory *m = sg_memory_of((void *)(uintptr_t)address, 1);
    if (!err && (!m || m->object.kind != SG_DEVICE_MEMORY))
        err = CUDA_ERROR_NOT_FOUND;
    if (!err) {
        if (base)
            *base = (uintptr_t)m->at;
        if (size)
            *size = m->size;
    }
    return sg_leave(err);
}

SG_API CUresult cuMemHostAlloc(void **address, size_t size, unsigned flags)
{
    SgMemory *m = NULL;
    CUresult err = sg_enter(__func__);
    if (!err && flags > 7)
        err = sg_complain(CUDA_ERROR_INVALID_VALUE, "cuMemHostAlloc: flags %u", flags);
    if (!err)
        err = allocate_here(SG_PINNED_MEMORY, size, &m);
    if (!err)
        *address = m->at;
    return sg_leave(err);
}

SG_API CUresult cuMemAllocHost_v2(void **address, size_t size)
{
    SgMemory *m = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = allocate_here(SG_PINNED_MEMORY, size, &m);
    if (!err)
        *address = m->at;
    return sg_leave(err);
}

SG_API CUresult cuMemFreeHost(void *address)
{
    CUresult err = sg_enter(__func__);
    CUresult own = release(SG_PINNED_MEMORY, address);
    return sg_leave(err ? err : own);
}

SG_API CUresult cuMemHostRegister_v2(void *address, size_t size, unsigned flags)
{
    CUcontext context = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_current(&context);
    if (!err)
        err = sg_capture_unsafe();
    if (!err && (!address || !size || flags > 15))
        err =
            sg_complain(CUDA_ERROR_INVALID_VALUE, "cuMemHostRegister: %zu bytes at %p, flags %u", size, address, flags);
    if (!err && sg_memory_of(address, 1))
        err = sg_complain(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "%p is registered already", address);
    if (!err) {
        SgMemory *m = sg_new(SG_REGISTERED_MEMORY, context, sizeof(*m));
        m->at = address;
        m->size = size;
    }
    return sg_leave(err);
}

SG_API CUresult cuMemHostUnregister(void *address)
{
    CUresult err = sg_enter(__func__);
    CUresult own = release(SG_REGISTERED_MEMORY, address);
    return sg_leave(err ? err : own);
}

SG_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *address, unsigned flags)
{
    CUcontext context = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_current(&context);
    SgMemory *m = sg_memory_of(address, 1);
    if (!err && (flags || !m || m->object.kind == SG_DEVICE_MEMORY))
        err = sg_complain(CUDA_ERROR_INVALID_VALUE, "%p is no pinned memory", address);
    if (!err)
        *device = (uintptr_t)address;
    return sg_leave(err);
}
