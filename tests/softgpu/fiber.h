/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Fibers: stacks between which one thread switches.
 *
 * The switch is a few instructions of assembly on x86-64 and aarch64, else (or with SOFTGPU_UCONTEXT defined) the C
 * library's, which makes a system call each time.
 */
#ifndef SOFTGPU_FIBER_H
#define SOFTGPU_FIBER_H

#include <stddef.h>

#if !defined(SOFTGPU_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define SOFTGPU_UCONTEXT 1
#endif
#ifdef SOFTGPU_UCONTEXT
#include <ucontext.h>
#endif

typedef struct SgFiber {
    void *stack; /* with its guard page; NULL: the thread's own stack */
    size_t stack_size;
#ifdef SOFTGPU_UCONTEXT
    ucontext_t context;
#else
    void *sp;
#endif
#ifdef SOFTGPU_ASAN
    void *fake_stack;
    const void *stack_low; /* without the guard page */
    size_t usable;
#endif
    void *tsan;
    /* The owner's: */
    struct SgFiber *next, *next_of_all;
    struct SoftgpuWorker *worker;
    struct SgThread *thread;
} SgFiber;

/** Prepares a fiber that calls entry(fiber), which must not return. Ends the program if there is no memory. */
void sg_fiber_init(SgFiber *fiber, void (*entry)(SgFiber *fiber));
/** Makes `fiber` stand for the calling thread on its own stack. */
void sg_fiber_init_thread(SgFiber *fiber);
/** Frees the stack. Not for a fiber that runs. */
void sg_fiber_free(SgFiber *fiber);
/** Leaves `from`, which runs, and goes on in `to`. Returns when somebody switches back. */
void sg_fiber_switch(SgFiber *from, SgFiber *to);

#endif
