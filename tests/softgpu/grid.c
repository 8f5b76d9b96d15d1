/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs kernels: blocks spread over worker threads, the threads of a block on fibers of one worker.
 *
 * A fiber runs thread after thread until one has to wait for others; that thread keeps the fiber, and another fiber
 * goes on. So a kernel without barriers needs one fiber, and a switch happens only where threads meet.
 *
 * As a race checker (ThreadSanitizer) every thread of a block gets a fiber, with a stack, of its own, every block a
 * worker thread of its own, and nothing is ordered but by barriers, fences and the launch.
 */
#include "internal.h"

#include "fiber.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef SOFTGPU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

typedef enum ThreadState { NOT_STARTED, RUNNING, AT_BARRIER, IN_WAVE_OP, ENDED } ThreadState;

typedef struct SgThread {
    SoftgpuThread id; /* first: softgpu_tls.thread points here */
    ThreadState state;
    SgFiber *fiber;
    const char *file; /* where it waits */
    int line;
} SgThread;

typedef struct Wave {
    unsigned lanes; /* of this block that are in the wave */
    unsigned arrived;
    unsigned turn; /* operations so far */
    SoftgpuWaveOp op;
    const char *file;
    int line;
    uint64_t value[2][SG_MAX_WAVE]; /* of even and odd turns: who is late still reads the turn before */
} Wave;

enum { SHARED_GUARD = 256, SHARED_GUARD_BYTE = 0xfb };

typedef struct SoftgpuWorker {
    SoftgpuBlock block; /* softgpu_tls.block points here */
    SgFiber main, *current, *idle, *all;
    const SgLaunch *launch;
    struct {
        unsigned char *at;
        size_t size;
    } arrays[2]; /* where this thread has shared arrays of all kernels */
    unsigned n, started, ended;
    int descending; /* order in which threads start */
    unsigned n_ready, ready_head;
    uint16_t ready[SG_MAX_BLOCK];
    unsigned at_barrier, barriers;
    const char *file; /* the barrier's place */
    int line;
    char barrier_clock[2]; /* ThreadSanitizer's, of even and odd barriers */
    SgThread thread[SG_MAX_BLOCK];
    Wave wave[SG_MAX_BLOCK / 16];
    _Alignas(128) unsigned char shared[SG_SHARED_MOST + SHARED_GUARD];
} Worker;

SG_API _Thread_local SoftgpuTls softgpu_tls;

/*
 * What all blocks of a launch share. One kernel runs at a time.
 */
static struct {
    const SgLaunch *launch;
    uint64_t n_blocks, next;
    uint64_t first, stride; /* block i is number (first + i * stride) modulo n_blocks */
    int descending;
    char fence_clock;
} run;

/* ---- threads of a block ---- */

/* Fibers that wait for work may go on in another host thread: what is thread-local is set here, not in their loops. */
static __attribute__((noinline)) void set_thread(const SgThread *t)
{
    softgpu_tls.thread = &t->id;
}

static __attribute__((noreturn)) void report_divergence(const Worker *w, const char *why)
{
    static const char *const states[] = { "not started", "running", "waiting at the barrier",
                                          "waiting in a wave operation", "ended" };
    char text[1500];
    int n = snprintf(text, sizeof(text), "kernel %s, block (%u, %u, %u): %s", w->launch->kernel->name, w->block.bid[0],
                     w->block.bid[1], w->block.bid[2], why);
    unsigned char told[SG_MAX_BLOCK] = { 0 };
    for (unsigned i = 0; i < w->n && n < 1200; i++) {
        const SgThread *t = &w->thread[i];
        if (told[i])
            continue;
        unsigned count = 0;
        int has_place = t->state == AT_BARRIER || t->state == IN_WAVE_OP;
        for (unsigned k = i; k < w->n; k++) {
            const SgThread *o = &w->thread[k];
            if (o->state != t->state || (has_place && (o->line != t->line || strcmp(o->file, t->file))))
                continue;
            told[k] = 1;
            count++;
        }
        n +=
            snprintf(text + n, sizeof(text) - (size_t)n, "\n    %u threads (first: %u) %s", count, i, states[t->state]);
        if (has_place)
            n += snprintf(text + n, sizeof(text) - (size_t)n, ", %.200s:%d", t->file, t->line);
    }
    sg_die("%s", text);
}

static void fiber_main(SgFiber *fiber);

static SgFiber *new_fiber(Worker *w)
{
    SgFiber *f = sg_alloc(sizeof(*f));
    f->worker = w;
    sg_fiber_init(f, fiber_main);
    f->next_of_all = w->all;
    w->all = f;
    return f;
}

static SgFiber *take_fiber(Worker *w)
{
    SgFiber *f = w->idle;
    if (!f)
        return new_fiber(w);
    w->idle = f->next;
    return f;
}

/** Who goes on: a thread that need not wait any longer, else one not started (on `own`, if given), else the worker. */
static SgFiber *choose_next(Worker *w, SgFiber *own)
{
    if (w->n_ready) {
        SgThread *t = &w->thread[w->ready[w->ready_head]];
        w->ready_head = (w->ready_head + 1) % SG_MAX_BLOCK;
        w->n_ready--;
        t->state = RUNNING;
        return t->fiber;
    }
    if (w->started < w->n) {
        unsigned i = w->started++;
        SgThread *t = &w->thread[w->descending ? w->n - 1 - i : i];
        SgFiber *f = own ? own : take_fiber(w);
        t->state = RUNNING;
        t->fiber = f;
        f->thread = t;
        return f;
    }
    if (w->ended == w->n)
        return &w->main;
    report_divergence(w, "threads wait for others that do not come");
}

static void go_to(Worker *w, SgFiber *to)
{
    SgFiber *from = w->current;
    w->current = to;
    sg_fiber_switch(from, to);
}

static void fiber_main(SgFiber *f)
{
#ifdef SOFTGPU_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
    while (1) {
        Worker *w = f->worker;
        SgThread *t = f->thread;
        set_thread(t);
        sg_acquire((void *)w->launch);
        w->launch->kernel->thread(w->launch->args);
        sg_release((void *)&run.n_blocks);
        t->state = ENDED;
        w->ended++;
#ifdef SOFTGPU_TSAN
        go_to(w, choose_next(w, NULL));
#else
        SgFiber *next = choose_next(w, f);
        if (next != f) {
            f->next = w->idle;
            w->idle = f;
            go_to(w, next);
        }
#endif
    }
}

/** Gives way to others. Returns when somebody has made the thread ready. */
static void wait_for_others(Worker *w, SgThread *t, ThreadState state)
{
    t->state = state;
    go_to(w, choose_next(w, NULL));
    set_thread(t);
}

static void make_ready(Worker *w, unsigned i)
{
    w->ready[(w->ready_head + w->n_ready++) % SG_MAX_BLOCK] = (uint16_t)i;
}

static SgThread *this_thread(Worker **w)
{
    *w = softgpu_tls.worker;
    return (SgThread *)(uintptr_t)softgpu_tls.thread;
}

static int same_place(const char *file, int line, const char *other_file, int other_line)
{
    return line == other_line && (file == other_file || !strcmp(file, other_file));
}

SG_API void softgpu_barrier(const char *file, int line)
{
    Worker *w;
    SgThread *t = this_thread(&w);
    t->file = file;
    t->line = line;
    if (!w->at_barrier) {
        w->file = file;
        w->line = line;
    } else if (!same_place(file, line, w->file, w->line)) {
        t->state = AT_BARRIER;
        report_divergence(w, "threads come to different barriers");
    }
    char *clock = &w->barrier_clock[w->barriers & 1];
    sg_release(clock);
    if (++w->at_barrier < w->n) {
        wait_for_others(w, t, AT_BARRIER);
    } else {
        w->at_barrier = 0;
        w->barriers++;
        for (unsigned i = 0; i < w->n; i++)
            if (&w->thread[i] != t)
                make_ready(w, i);
    }
    sg_acquire(clock);
}

SG_API uint64_t softgpu_wave_op(SoftgpuWaveOp op, uint64_t value, uint32_t by, const char *file, int line)
{
    Worker *w;
    SgThread *t = this_thread(&w);
    unsigned number = (unsigned)(t - w->thread), lane = t->id.lane;
    Wave *wave = &w->wave[number / w->block.wave_size];
    t->file = file;
    t->line = line;
    if (!wave->arrived) {
        wave->op = op;
        wave->file = file;
        wave->line = line;
    } else if (op != wave->op || !same_place(file, line, wave->file, wave->line)) {
        t->state = IN_WAVE_OP;
        report_divergence(w, "lanes of a wave come to different wave operations");
    }
    uint64_t *values = wave->value[wave->turn & 1];
    values[lane] = value;
    if (++wave->arrived < wave->lanes) {
        wait_for_others(w, t, IN_WAVE_OP);
    } else {
        wave->arrived = 0;
        wave->turn++;
        for (unsigned i = 0; i < wave->lanes; i++)
            if (i != lane)
                make_ready(w, number - lane + i);
    }

    unsigned from = lane;
    switch (op) {
    case SOFTGPU_DOWN:
        from = by < w->block.wave_size - lane ? lane + by : lane;
        break;
    case SOFTGPU_UP:
        from = by <= lane ? lane - by : lane;
        break;
    case SOFTGPU_XOR:
        from = (lane ^ by) < w->block.wave_size ? lane ^ by : lane;
        break;
    case SOFTGPU_IDX:
        from = by % w->block.wave_size;
        break;
    case SOFTGPU_BALLOT: {
        uint64_t bits = 0;
        for (unsigned i = 0; i < wave->lanes; i++)
            bits |= values[i] << i;
        return bits;
    }
    }
    return from < wave->lanes ? values[from] : 0xcdcdcdcdcdcdcdcdu; /* a lane that does not exist */
}

SG_API void softgpu_fence(void)
{
#ifdef SOFTGPU_TSAN
    /* Atomics order nothing; two fences around them do. */
    sg_acquire(&run.fence_clock);
    sg_release(&run.fence_clock);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* ---- blocks ---- */

#ifndef SOFTGPU_ASAN
/** Shared arrays are what is thread-local, but for what this library has for itself. */
static void set_arrays(Worker *w, unsigned char *at, size_t size)
{
    unsigned char *own = (unsigned char *)&softgpu_tls;
    w->arrays[0].at = at;
    w->arrays[0].size = size;
    if (own < at || own >= at + size)
        return;
    w->arrays[0].size = (size_t)(own - at);
    w->arrays[1].at = own + sizeof(softgpu_tls);
    w->arrays[1].size = (size_t)(at + size - w->arrays[1].at);
}

/** Finds the program or library that has the kernel's code. */
static int find_tls(struct dl_phdr_info *info, size_t size, void *opaque)
{
    Worker *w = opaque;
    const uintptr_t code = (uintptr_t)w->launch->kernel->thread;
    int found = 0;
    size_t tls_size = 0;
    if (size < offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof(void *))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t start = (uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            found |= code >= start && code < start + info->dlpi_phdr[i].p_memsz;
        else if (info->dlpi_phdr[i].p_type == PT_TLS)
            tls_size = info->dlpi_phdr[i].p_memsz;
    }
    if (found && info->dlpi_tls_data)
        set_arrays(w, info->dlpi_tls_data, tls_size);
    return found;
}
#endif

/** Shared memory holds nothing when a block begins. */
static void poison_shared(Worker *w)
{
#ifndef SOFTGPU_ASAN
    for (int i = 0; i < 2; i++)
        if (w->arrays[i].size)
            memset(w->arrays[i].at, SG_POISON, w->arrays[i].size);
#endif
    memset(w->shared, SG_POISON, w->launch->shared_bytes);
}

#ifndef SOFTGPU_ASAN
/** Bytes of shared arrays that the block has written to: the device has them of all kernels, and not their sizes. */
static unsigned count_arrays(const Worker *w)
{
    unsigned n = 0;
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < w->arrays[i].size; k++)
            n += w->arrays[i].at[k] != SG_POISON;
    return n;
}
#endif

static void check_shared(const Worker *w)
{
#ifdef SOFTGPU_ASAN
    (void)w; /* poisoned */
#else
    const unsigned arrays = count_arrays(w);
    if (arrays + w->launch->shared_bytes > w->launch->shared_most)
        sg_die("kernel %s: %u bytes of shared arrays and %u of dynamic shared memory, the limit is %u",
               w->launch->kernel->name, arrays, w->launch->shared_bytes, w->launch->shared_most);
    for (unsigned i = 0; i < SHARED_GUARD; i++)
        if (w->shared[w->launch->shared_bytes + i] != SHARED_GUARD_BYTE)
            sg_die(
                "kernel %s, block (%u, %u, %u): written to %u bytes after the end of %u bytes of dynamic shared memory",
                w->launch->kernel->name, w->block.bid[0], w->block.bid[1], w->block.bid[2], i, w->launch->shared_bytes);
#endif
}

/** Readies the worker for blocks of the launch, on the calling thread. */
static void begin(Worker *w)
{
    const SgLaunch *l = run.launch;
    w->launch = l;
    w->n = l->kernel->block_size;
    w->descending = run.descending;
    w->block.wave_size = sg.wave;
    w->block.dynamic_shared = w->shared;
    memcpy(w->block.grid, l->grid, sizeof(l->grid));
    for (unsigned i = 0; i < w->n; i++) {
        SgThread *t = &w->thread[i];
        t->id.tid[0] = i % l->block[0];
        t->id.tid[1] = i / l->block[0] % l->block[1];
        t->id.tid[2] = i / l->block[0] / l->block[1];
        t->id.lane = i % sg.wave;
    }
    for (unsigned i = 0; i * sg.wave < w->n; i++) {
        unsigned left = w->n - i * sg.wave;
        w->wave[i].lanes = left < sg.wave ? left : sg.wave;
        w->wave[i].arrived = 0;
    }
    softgpu_tls.worker = w;
    softgpu_tls.block = &w->block;
#ifdef SOFTGPU_ASAN
    __asan_unpoison_memory_region(w->shared, sizeof(w->shared));
    __asan_poison_memory_region(w->shared + l->shared_bytes, sizeof(w->shared) - l->shared_bytes);
#else
    memset(w->arrays, 0, sizeof(w->arrays));
    dl_iterate_phdr(find_tls, w);
    memset(w->shared + l->shared_bytes, SHARED_GUARD_BYTE, SHARED_GUARD);
#endif
    sg_fiber_init_thread(&w->main);
    w->current = &w->main;
}

static void run_block(Worker *w, uint64_t index)
{
    const uint32_t *grid = run.launch->grid;
    uint64_t number = (run.first + index * run.stride) % run.n_blocks;
    w->block.bid[0] = (uint32_t)(number % grid[0]);
    w->block.bid[1] = (uint32_t)(number / grid[0] % grid[1]);
    w->block.bid[2] = (uint32_t)(number / grid[0] / grid[1]);
    for (unsigned i = 0; i < w->n; i++)
        w->thread[i].state = NOT_STARTED;
    w->started = w->ended = 0;
    w->at_barrier = 0;
    poison_shared(w);
#ifdef SOFTGPU_TSAN
    /*
     * All fibers are made here: a fiber knows what its maker has done until then, which must be no more than the
     * poisoning, and nothing of another thread of the block.
     */
    for (unsigned i = 0; i < w->n; i++) {
        SgFiber *f = new_fiber(w);
        f->next = w->idle;
        w->idle = f;
    }
#endif
    go_to(w, choose_next(w, NULL));
    check_shared(w);
}

#ifdef SOFTGPU_TSAN

/*
 * A worker thread for one block. Shared arrays are new with the thread, stacks with the block, and nothing that the
 * block's threads did is seen by the next block's.
 */
static void *block_thread(void *index)
{
    softgpu_tls.thread = NULL; /* the thread's storage comes into being here, not in one of the fibers */
    Worker *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (w == MAP_FAILED)
        sg_die("no memory for a block");
    begin(w);
    /* ThreadSanitizer has few numbers for threads and uses them again: the same thread of two blocks should differ. */
    w->descending ^= (int)(*(uint64_t *)index & 1);
    run_block(w, *(uint64_t *)index);
    for (SgFiber *f = w->all, *next; f; f = next) {
        next = f->next_of_all;
        sg_fiber_free(f);
        free(f);
    }
    munmap(w, sizeof(*w));
    return NULL;
}

static void run_blocks(void)
{
    for (uint64_t i = 0; i < run.n_blocks; i++) {
        pthread_t thread;
        /* Creating a thread frees what an earlier one had; not ordered with the fibers that used it, but over. */
        sg_ignore_begin();
        int err = pthread_create(&thread, NULL, block_thread, &i);
        sg_ignore_end();
        if (err || pthread_join(thread, NULL))
            sg_die("no thread for a block");
    }
}

#else

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t work, idle;
    unsigned n_threads, wanted, busy;
    unsigned long turn;
} pool = { .mutex = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER };

/* The worker of whichever host thread is in the driver. Its fibers stay when the host thread goes. */
static Worker *host_worker;

static Worker *new_worker(void)
{
    Worker *w = aligned_alloc(_Alignof(Worker), sizeof(*w));
    if (!w)
        sg_die("no memory for a worker");
    return memset(w, 0, sizeof(*w));
}

static void take_blocks(Worker *w)
{
    begin(w);
    while (1) {
        uint64_t i = __atomic_fetch_add(&run.next, 1, __ATOMIC_RELAXED);
        if (i >= run.n_blocks)
            break;
        run_block(w, i);
    }
}

static void *pool_thread(void *unused)
{
    (void)unused;
    Worker *w = new_worker();
    unsigned long seen = 0;
    pthread_mutex_lock(&pool.mutex);
    while (1) {
        while (pool.turn == seen || !pool.wanted)
            pthread_cond_wait(&pool.work, &pool.mutex);
        seen = pool.turn;
        pool.wanted--;
        pool.busy++;
        pthread_mutex_unlock(&pool.mutex);
        take_blocks(w);
        pthread_mutex_lock(&pool.mutex);
        if (!--pool.busy)
            pthread_cond_signal(&pool.idle);
    }
    return NULL;
}

static void run_blocks(void)
{
    unsigned helpers = sg.n_threads - 1;
    if (helpers >= run.n_blocks)
        helpers = (unsigned)run.n_blocks - 1;
    if (helpers) {
        pthread_mutex_lock(&pool.mutex);
        while (pool.n_threads < helpers) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, pool_thread, NULL))
                break;
            pthread_detach(thread);
            pool.n_threads++;
        }
        pool.turn++;
        pool.wanted = helpers;
        pthread_cond_broadcast(&pool.work);
        pthread_mutex_unlock(&pool.mutex);
    }
    if (!host_worker)
        host_worker = new_worker();
    take_blocks(host_worker);
    if (helpers) {
        pthread_mutex_lock(&pool.mutex);
        pool.wanted = 0; /* who has not begun need not */
        while (pool.busy)
            pthread_cond_wait(&pool.idle, &pool.mutex);
        pthread_mutex_unlock(&pool.mutex);
    }
}

/** A forked child has none of the threads. */
static void in_child(void)
{
    pool.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pool.work = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pool.idle = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pool.n_threads = pool.wanted = pool.busy = 0;
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

#endif

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

void sg_run_kernel(const SgLaunch *launch)
{
    run.launch = launch;
    run.n_blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    run.next = 0;
    run.first = 0;
    run.stride = 1;
    run.descending = 0;
    if (sg.order > 1) { /* blocks in any order; threads from either end */
        run.first = sg_random(1 << 20) % run.n_blocks;
        run.stride = 1 + sg_random(1 << 20) % run.n_blocks;
        while (common_divisor(run.stride, run.n_blocks) != 1)
            run.stride++;
        run.descending = (int)sg_random(2);
    }
    sg_release((void *)launch);
    run_blocks();
    sg_acquire((void *)&run.n_blocks);
    softgpu_tls.thread = NULL;
    softgpu_tls.block = NULL;
    sg_check_guards("after kernel ", launch->kernel->name);
}
