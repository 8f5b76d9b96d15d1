/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What every driver call begins and ends with: the mutex, the count, failures made to order; settings, list of objects.
 */
#include "internal.h"
#include "softgpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

SgState sg;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct {
    unsigned long calls, waits, spinning, complaints;
    unsigned long fail_in; /* matching calls up to the one that fails, or 0 */
    char fail_name[64];    /* calls that match, or empty: all */
    int fail_code;
    int trace;
} log_;

static unsigned long setting(const char *name, unsigned long otherwise, unsigned long least, unsigned long most)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return otherwise;
    char *end;
    unsigned long n = strtoul(text, &end, 0);
    if (*end || *text == '-' || n < least || n > most)
        sg_die("%s=%s: not a number from %lu to %lu", name, text, least, most);
    return n;
}

static void set_failure(const char *name, unsigned long n, int code)
{
    snprintf(log_.fail_name, sizeof(log_.fail_name), "%s", name ? name : "");
    log_.fail_in = n;
    log_.fail_code = code;
    if (!n)
        sg.lost = 0;
}

static void init(void)
{
    sg.wave = (unsigned)setting("SOFTGPU_WAVE", 32, 16, 64);
    if (sg.wave & (sg.wave - 1))
        sg_die("SOFTGPU_WAVE=%u: not 16, 32 or 64", sg.wave);
    sg.order = setting("SOFTGPU_ORDER", 0, 0, (unsigned long)-1);
    sg.random = sg.order * 0x9e3779b97f4a7c15u + 1;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    sg.n_threads = (unsigned)setting("SOFTGPU_THREADS", cpus < 1 ? 1 : cpus > 16 ? 16 : (unsigned long)cpus, 1, 64);
#ifdef SOFTGPU_ASAN
    sg.n_threads = 1; /* shared arrays are static there */
#endif
    sg.n_devices = (int)setting("SOFTGPU_DEVICES", 1, 0, SG_MAX_DEVICES);
    sg.memory = setting("SOFTGPU_MEMORY", (size_t)8 << 30, 0, (unsigned long)-1);
    sg.shared = (unsigned)setting("SOFTGPU_SHARED", SG_SHARED_MOST, SG_SHARED_DEFAULT, SG_SHARED_MOST);
    sg.images = 7;
    const char *text = getenv("SOFTGPU_IMAGES");
    if (text && *text)
        sg.images = (strstr(text, "ptx") ? 1 : 0) | (strstr(text, "elf") ? 2 : 0) | (strstr(text, "fatbin") ? 4 : 0);
    log_.trace = (int)setting("SOFTGPU_TRACE", 0, 0, 1);
    int code = (int)setting("SOFTGPU_FAIL_CODE", CUDA_ERROR_OUT_OF_MEMORY, 1, 999);
    text = getenv("SOFTGPU_FLIP");
    if (text && *text && sscanf(text, "%lu:%zu", &sg.flip_in, &sg.flip_byte) < 1)
        sg_die("SOFTGPU_FLIP=%s: neither N nor N:BYTE", text);
    text = getenv("SOFTGPU_FAIL");
    if (text && *text) {
        char name[64] = "";
        unsigned long n;
        const char *colon = strchr(text, ':');
        if (colon)
            snprintf(name, sizeof(name), "%.*s", (int)(colon - text), text);
        char *end;
        n = strtoul(colon ? colon + 1 : text, &end, 10);
        if (*end || !n)
            sg_die("SOFTGPU_FAIL=%s: neither N nor NAME:N", text);
        set_failure(name, n, code);
    }
}

static void lock(void)
{
    pthread_once(&once, init);
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

/** Errors after which a device answers nothing else. */
static int ends_device(int code)
{
    return code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719);
}

CUresult sg_enter(const char *name)
{
    lock();
    log_.calls++;
    if (log_.trace)
        fprintf(stderr, "softgpu: call %lu: %s\n", log_.calls, name);
    sg_progress();
    if (log_.fail_in && (!log_.fail_name[0] || !strcmp(log_.fail_name, name)) && !--log_.fail_in) {
        if (ends_device(log_.fail_code))
            sg.lost = log_.fail_code;
        return (CUresult)log_.fail_code;
    }
    if (sg.lost)
        return (CUresult)sg.lost;
    if (!sg.initialised && strcmp(name, "cuInit") && strcmp(name, "cuDriverGetVersion"))
        return CUDA_ERROR_NOT_INITIALIZED;
    return CUDA_SUCCESS;
}

CUresult sg_leave(CUresult err)
{
    sg_reap_streams();
    if (log_.trace && err)
        fprintf(stderr, "softgpu: call %lu returns %d\n", log_.calls, err);
    unlock();
    return err;
}

CUresult sg_complain(CUresult err, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char text[400];
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "softgpu: error %d: %s\n", err, text);
    log_.complaints++;
    return err;
}

void sg_die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char text[2000];
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "softgpu: %s\n", text);
    fflush(stderr);
    abort();
}

unsigned sg_random(unsigned n)
{
    uint64_t x = sg.random; /* xorshift64* */
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    sg.random = x;
    return (unsigned)((x * 0x2545f4914f6cdd1du >> 33) % n);
}

void *sg_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    if (!p)
        sg_die("the host has no memory left");
    return p;
}

void sg_count_wait(int spinning)
{
    log_.waits++;
    log_.spinning += spinning != 0;
}

/* ---- objects ---- */

void *sg_new(SgKind kind, CUcontext context, size_t size)
{
    SgObject *o = sg_alloc(size);
    o->kind = kind;
    o->context = context;
    o->next = sg.objects;
    sg.objects = o;
    return o;
}

void sg_delete(SgObject *object)
{
    for (SgObject **link = &sg.objects; *link; link = &(*link)->next) {
        if (*link == object) {
            *link = object->next;
            break;
        }
    }
    free(object);
}

int sg_is(SgKind kind, const void *handle)
{
    for (const SgObject *o = sg.objects; o; o = o->next)
        if ((const void *)o == handle)
            return o->kind == kind;
    return 0;
}

static const char *const kind_names[SG_KINDS] = {
    "context", "device_memory", "pinned_memory", "registered_memory", "stream",
    "event",   "module",        "graph",         "graph_exec",
};

static void count_live(size_t n[SG_KINDS])
{
    memcpy(n, sg.abandoned, sizeof(sg.abandoned));
    for (SgObject *o = sg.objects; o; o = o->next) {
        if (o->kind == SG_CONTEXT)
            n[SG_CONTEXT] += ((CUcontext)o)->refs;
        else if (o->kind != SG_STREAM || !((CUstream)o)->is_legacy)
            n[o->kind]++;
    }
}

static void print_live(FILE *file, const char *before)
{
    size_t n[SG_KINDS];
    count_live(n);
    for (int kind = 0; kind < SG_KINDS; kind++)
        if (n[kind])
            fprintf(file, "%s%s %zu\n", before, kind_names[kind], n[kind]);
}

/* ---- for tests ---- */

SG_API void softgpu_fail_at(unsigned long n, int code)
{
    softgpu_fail_call(NULL, n, code);
}

SG_API void softgpu_fail_call(const char *name, unsigned long n, int code)
{
    lock();
    set_failure(name, n, code);
    unlock();
}

SG_API unsigned long softgpu_calls(void)
{
    lock();
    unsigned long n = log_.calls;
    unlock();
    return n;
}

SG_API size_t softgpu_live_objects(void)
{
    lock();
    size_t n[SG_KINDS], sum = 0;
    count_live(n);
    for (int kind = 0; kind < SG_KINDS; kind++)
        sum += n[kind];
    unlock();
    return sum;
}

SG_API size_t softgpu_live_bytes(void)
{
    lock();
    size_t sum = 0;
    for (SgObject *o = sg.objects; o; o = o->next)
        if (o->kind == SG_DEVICE_MEMORY || o->kind == SG_PINNED_MEMORY)
            sum += ((SgMemory *)o)->size;
    unlock();
    return sum;
}

SG_API void softgpu_print_live(void)
{
    lock();
    print_live(stderr, "softgpu: not released: ");
    unlock();
}

SG_API void softgpu_set_order(unsigned long order)
{
    lock();
    sg_drain(-1);
    sg.order = order;
    sg.random = order * 0x9e3779b97f4a7c15u + 1;
    unlock();
}

SG_API void softgpu_set_wave(unsigned size)
{
    lock();
    sg_drain(-1);
    if (size != 16 && size != 32 && size != 64)
        sg_die("a wave of %u lanes: not 16, 32 or 64", size);
    sg.wave = size;
    unlock();
}

SG_API void softgpu_set_memory(size_t bytes)
{
    lock();
    sg.memory = bytes;
    unlock();
}

SG_API unsigned long softgpu_waits(unsigned long *spinning)
{
    lock();
    unsigned long n = log_.waits;
    if (spinning)
        *spinning = log_.spinning;
    unlock();
    return n;
}

SG_API size_t softgpu_pending(void)
{
    lock();
    size_t n = sg_pending();
    unlock();
    return n;
}

SG_API unsigned long softgpu_complaints(void)
{
    lock();
    unsigned long n = log_.complaints;
    unlock();
    return n;
}

SG_API void softgpu_check_guards(void)
{
    lock();
    sg_check_guards("when the test asked", "");
    unlock();
}

/**
 * At the end of the program: the library is never unloaded. Where exit() was called while a driver call goes on,
 * perhaps by a signal's handler, buffers are not looked at.
 */
__attribute__((destructor)) static void at_exit(void)
{
    int is_locked = !pthread_mutex_trylock(&mutex);
    const char *path = getenv("SOFTGPU_COUNT");
    FILE *file = path && *path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%lu\n", log_.calls);
        fclose(file);
    }
    path = getenv("SOFTGPU_LIVE");
    file = path && *path ? fopen(path, "w") : NULL;
    if (file) {
        print_live(file, "");
        fclose(file);
    }
    if (is_locked) {
        sg_check_guards("at exit", "");
        unlock();
    }
}

/** A forked child has this thread only, and the mutex may have been another's. */
static void in_child(void)
{
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}
