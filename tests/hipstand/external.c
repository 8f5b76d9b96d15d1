/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * External memory: a file descriptor's bytes, mapped and made known to the driver.
 */
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct ihipExternalMemory {
    struct ihipExternalMemory *next;
    char *map;
    size_t size, mapped; /* as asked for; in whole pages */
    CUdeviceptr address;
    int n_buffers; /* mapped and not freed */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static hipExternalMemory_t all;

int hs_free_external(const void *address, int *err)
{
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
    int found = 0;
    *err = 0;
    pthread_mutex_lock(&mutex);
    for (hipExternalMemory_t m = all; m && !found; m = m->next) {
        found = at - m->address < m->size;
        if (found && !m->n_buffers)
            *err = (int)hs_complain(hipErrorInvalidValue, "hipFree() of external memory without a mapped buffer");
        else if (found)
            m->n_buffers--;
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

/* Maps and registers; on failure nothing is left. */
static int map(hipExternalMemory_t m, int fd)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    m->mapped = (m->size + page - 1) / page * page;
    m->map = mmap(NULL, m->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m->map == MAP_FAILED)
        return (int)hs_complain(hipErrorInvalidValue, "the file descriptor %d cannot be mapped", fd);
    int err = (int)hs_driver.cuMemHostRegister_v2(m->map, m->mapped, 0);
    if (!err) {
        err = (int)hs_driver.cuMemHostGetDevicePointer_v2(&m->address, m->map, 0);
        if (err)
            (void)hs_driver.cuMemHostUnregister(m->map);
    }
    if (err)
        munmap(m->map, m->mapped);
    return err;
}

static int import(hipExternalMemory_t *memory, const hipExternalMemoryHandleDesc *desc)
{
    struct stat file;
    if (desc->type != hipExternalMemoryHandleTypeOpaqueFd)
        return (int)hs_complain(hipErrorInvalidValue, "external memory of type %d", desc->type);
    if (fstat(desc->handle.fd, &file))
        return (int)hs_complain(hipErrorInvalidValue, "%d is no file descriptor", desc->handle.fd);
    if (!desc->size || (unsigned long long)file.st_size < desc->size)
        return (int)hs_complain(hipErrorInvalidValue, "%llu bytes of an object that has %llu", desc->size,
                                (unsigned long long)file.st_size);
    hipExternalMemory_t m = calloc(1, sizeof(*m));
    if (!m)
        return hipErrorOutOfMemory;
    m->size = (size_t)desc->size;
    const int err = map(m, desc->handle.fd);
    if (err) {
        free(m);
        return err;
    }
    pthread_mutex_lock(&mutex);
    m->next = all;
    all = m;
    pthread_mutex_unlock(&mutex);
    *memory = m;
    return 0;
}

HS_API hipError_t hipImportExternalMemory(hipExternalMemory_t *memory, const hipExternalMemoryHandleDesc *desc)
{
    HS_CALL(import(memory, desc));
}

static int get_buffer(void **address, hipExternalMemory_t m, const hipExternalMemoryBufferDesc *desc)
{
    if (desc->offset > m->size || desc->size > m->size - desc->offset || !desc->size)
        return (int)hs_complain(hipErrorInvalidValue, "%llu bytes from byte %llu on of external memory of %zu bytes",
                                desc->size, desc->offset, m->size);
    *address = (void *)(uintptr_t)(m->address + desc->offset);
    m->n_buffers++;
    return 0;
}

HS_API hipError_t hipExternalMemoryGetMappedBuffer(void **address, hipExternalMemory_t memory,
                                                   const hipExternalMemoryBufferDesc *desc)
{
    HS_CALL(get_buffer(address, memory, desc));
}

static int destroy(hipExternalMemory_t memory)
{
    pthread_mutex_lock(&mutex);
    hipExternalMemory_t *link = &all;
    while (*link && *link != memory)
        link = &(*link)->next;
    if (*link)
        *link = memory->next;
    else
        memory = NULL;
    pthread_mutex_unlock(&mutex);
    if (!memory)
        return (int)hs_complain(hipErrorInvalidHandle, "no external memory");
    if (memory->n_buffers)
        hs_complain(hipErrorInvalidHandle, "external memory goes with %d buffers not freed", memory->n_buffers);
    const int err = (int)hs_driver.cuMemHostUnregister(memory->map);
    munmap(memory->map, memory->mapped);
    free(memory);
    return err;
}

HS_API hipError_t hipDestroyExternalMemory(hipExternalMemory_t memory)
{
    HS_RELEASE(destroy(memory));
}
