/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 */
#include "internal.h"

#include "fiber.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef SOFTGPU_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef SOFTGPU_ASAN
enum { STACK = 256 << 10 }; /* frames are larger there */
#else
enum { STACK = 128 << 10 };
#endif

#if defined(SOFTGPU_UCONTEXT)

static void start(unsigned high, unsigned low, unsigned entry_high, unsigned entry_low)
{
    SgFiber *fiber = (SgFiber *)(uintptr_t)((uint64_t)high << 32 | low);
    void (*entry)(SgFiber *) = (void (*)(SgFiber *))(uintptr_t)((uint64_t)entry_high << 32 | entry_low);
    entry(fiber);
}

static void prepare(SgFiber *fiber, unsigned char *low, void (*entry)(SgFiber *))
{
    uint64_t f = (uintptr_t)fiber, e = (uintptr_t)entry;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = low;
    fiber->context.uc_stack.ss_size = STACK;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, (void (*)(void))start, 4, (unsigned)(f >> 32), (unsigned)f, (unsigned)(e >> 32),
                (unsigned)e);
}

#else

/*
 * softgpu_switch_stack(save, load): pushes the registers that a call preserves, stores the stack pointer in *save,
 * takes `load` as stack pointer, pops the registers. softgpu_start_fiber: where a new fiber's first "return" leads; two
 * of the popped registers hold the function and its argument. The control words of x86 and the FPCR never change.
 */
void softgpu_switch_stack(void **save, void *load) __attribute__((visibility("hidden")));
void softgpu_start_fiber(void) __attribute__((visibility("hidden")));

#if defined(__x86_64__)

__asm__(".text\n"
        ".p2align 4\n"
        ".globl softgpu_switch_stack\n"
        ".hidden softgpu_switch_stack\n"
        ".type softgpu_switch_stack, @function\n"
        "softgpu_switch_stack:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size softgpu_switch_stack, . - softgpu_switch_stack\n"
        ".p2align 4\n"
        ".globl softgpu_start_fiber\n"
        ".hidden softgpu_start_fiber\n"
        ".type softgpu_start_fiber, @function\n"
        "softgpu_start_fiber:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined rip\n" /* back traces end here */
        "    movq %rbx, %rdi\n"
        "    callq *%r12\n"
        "    ud2\n"
        "    .cfi_endproc\n"
        ".size softgpu_start_fiber, . - softgpu_start_fiber\n");

static void prepare(SgFiber *fiber, unsigned char *low, void (*entry)(SgFiber *))
{
    uint64_t *sp = (uint64_t *)(low + STACK) - 9; /* r15, r14, r13, r12, rbx, rbp, return; then aligned to 16 */
    memset(sp, 0, 9 * sizeof(*sp));
    sp[3] = (uintptr_t)entry;
    sp[4] = (uintptr_t)fiber;
    sp[6] = (uintptr_t)softgpu_start_fiber;
    fiber->sp = sp;
}

#else

__asm__(".text\n"
        ".p2align 4\n"
        ".globl softgpu_switch_stack\n"
        ".hidden softgpu_switch_stack\n"
        ".type softgpu_switch_stack, %function\n"
        "softgpu_switch_stack:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x2, sp\n"
        "    str x2, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size softgpu_switch_stack, . - softgpu_switch_stack\n"
        ".p2align 4\n"
        ".globl softgpu_start_fiber\n"
        ".hidden softgpu_start_fiber\n"
        ".type softgpu_start_fiber, %function\n"
        "softgpu_start_fiber:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined x30\n" /* back traces end here */
        "    mov x0, x20\n"
        "    blr x19\n"
        "    brk #1\n"
        "    .cfi_endproc\n"
        ".size softgpu_start_fiber, . - softgpu_start_fiber\n");

static void prepare(SgFiber *fiber, unsigned char *low, void (*entry)(SgFiber *))
{
    uint64_t *sp = (uint64_t *)(low + STACK) - 20; /* x19 to x30, d8 to d15 */
    memset(sp, 0, 20 * sizeof(*sp));
    sp[0] = (uintptr_t)entry;
    sp[1] = (uintptr_t)fiber;
    sp[11] = (uintptr_t)softgpu_start_fiber;
    fiber->sp = sp;
}

#endif
#endif

void sg_fiber_init(SgFiber *fiber, void (*entry)(SgFiber *))
{
    size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    fiber->stack_size = guard + STACK;
    fiber->stack =
        mmap(NULL, fiber->stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fiber->stack == MAP_FAILED || mprotect(fiber->stack, guard, PROT_NONE))
        sg_die("no memory for the stack of a fiber");
    prepare(fiber, (unsigned char *)fiber->stack + guard, entry);
#ifdef SOFTGPU_ASAN
    fiber->fake_stack = NULL;
    fiber->stack_low = (unsigned char *)fiber->stack + guard;
    fiber->usable = STACK;
#endif
#ifdef SOFTGPU_TSAN
    fiber->tsan = __tsan_create_fiber(0);
#endif
}

void sg_fiber_init_thread(SgFiber *fiber)
{
    fiber->stack = NULL;
#ifdef SOFTGPU_ASAN
    pthread_attr_t attr;
    void *low;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attr) || pthread_attr_getstack(&attr, &low, &size))
        sg_die("the bounds of the thread's stack are unknown");
    pthread_attr_destroy(&attr);
    fiber->stack_low = low;
    fiber->usable = size;
#endif
#ifdef SOFTGPU_TSAN
    fiber->tsan = __tsan_get_current_fiber();
#endif
}

void sg_fiber_free(SgFiber *fiber)
{
#ifdef SOFTGPU_TSAN
    __tsan_destroy_fiber(fiber->tsan);
#endif
    munmap(fiber->stack, fiber->stack_size);
}

void sg_fiber_switch(SgFiber *from, SgFiber *to)
{
#ifdef SOFTGPU_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack_low, to->usable);
#endif
#ifdef SOFTGPU_TSAN
    __tsan_switch_to_fiber(to->tsan, 1); /* 1: a switch orders nothing */
#endif
#ifdef SOFTGPU_UCONTEXT
    swapcontext(&from->context, &to->context);
#else
    softgpu_switch_stack(&from->sp, to->sp);
#endif
#ifdef SOFTGPU_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}
