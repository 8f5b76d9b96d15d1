/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The kernels' C subset on the host: what kernels/gpu.h is when GPU_HOST is defined.
 *
 * A kernel becomes an ordinary function that the software device calls once for each thread, on a fiber; barriers and
 * wave operations switch to the next thread. All names have the meaning that they have on a device. What a device
 * leaves undefined is noticed where it can be: see tests/softgpu/softgpu.h.
 */
#ifndef SOFTGPU_GPU_HOST_H
#define SOFTGPU_GPU_HOST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GPU_FN    static inline __attribute__((unused))
#define GPU_CONST static const

/*
 * One array to a block. Blocks run one after the other on each worker thread, hence thread-local arrays. Those get no
 * red zones from AddressSanitizer: that build has one worker and plain arrays instead.
 */
#if !defined(SOFTGPU_ASAN) && defined(__SANITIZE_ADDRESS__)
#define SOFTGPU_ASAN 1
#elif !defined(SOFTGPU_ASAN) && defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SOFTGPU_ASAN 1
#endif
#endif
#ifdef SOFTGPU_ASAN
#define GPU_SHARED static
#else
#define GPU_SHARED static _Thread_local
#endif

/** A kernel as the device knows it. */
typedef struct SoftgpuKernel {
    const char *name;
    void (*thread)(const void *args); /* runs one thread */
    size_t args_size;
    uint32_t block_size;
    struct SoftgpuKernel *next;
} SoftgpuKernel;

/** Makes the kernel known to cuModuleGetFunction(). A second kernel of the same name ends the program. */
__attribute__((visibility("default"))) void softgpu_register(SoftgpuKernel *kernel);

#define GPU_KERNEL(name, args_type, block_size_)                                                                       \
    static void name(args_type args);                                                                                  \
    static void name##_softgpu_thread(const void *args)                                                                \
    {                                                                                                                  \
        name(*(const args_type *)args);                                                                                \
    }                                                                                                                  \
    static SoftgpuKernel name##_softgpu = { #name, name##_softgpu_thread, sizeof(args_type), block_size_, NULL };      \
    __attribute__((constructor)) static void name##_softgpu_register(void)                                             \
    {                                                                                                                  \
        softgpu_register(&name##_softgpu);                                                                             \
    }                                                                                                                  \
    static void name(args_type args)

/** What a running thread can ask about itself, and the block that it belongs to. */
typedef struct SoftgpuThread {
    uint32_t tid[3];
    uint32_t lane;
} SoftgpuThread;

typedef struct SoftgpuBlock {
    uint32_t bid[3], grid[3];
    uint32_t wave_size;
    void *dynamic_shared;
} SoftgpuBlock;

/** Where the worker thread stands; also the host thread's stack of current contexts. */
typedef struct SoftgpuTls {
    const SoftgpuThread *thread;
    const SoftgpuBlock *block;
    struct SoftgpuWorker *worker;
    struct CUctx_st *contexts[16];
    unsigned n_contexts;
} SoftgpuTls;

extern __attribute__((visibility("default"))) _Thread_local SoftgpuTls softgpu_tls;

GPU_FN uint32_t gpu_tid(int d)
{
    return softgpu_tls.thread->tid[d];
}

GPU_FN uint32_t gpu_bid(int d)
{
    return softgpu_tls.block->bid[d];
}

GPU_FN uint32_t gpu_grid(int d)
{
    return softgpu_tls.block->grid[d];
}

GPU_FN uint32_t gpu_lane(void)
{
    return softgpu_tls.thread->lane;
}

GPU_FN uint32_t gpu_wave(void)
{
    return softgpu_tls.block->wave_size;
}

GPU_FN void *gpu_dynamic_shared(void)
{
    return softgpu_tls.block->dynamic_shared;
}

/* Operations on which threads meet. The place in the source shows who meets whom. */
typedef enum SoftgpuWaveOp { SOFTGPU_DOWN, SOFTGPU_UP, SOFTGPU_XOR, SOFTGPU_IDX, SOFTGPU_BALLOT } SoftgpuWaveOp;

__attribute__((visibility("default"))) void softgpu_barrier(const char *file, int line);
/** Value of the lane that `op` and `by` name; lanes outside the wave give the caller's own value, as on a device. */
__attribute__((visibility("default"))) uint64_t softgpu_wave_op(SoftgpuWaveOp op, uint64_t value, uint32_t by,
                                                                const char *file, int line);
__attribute__((visibility("default"))) void softgpu_fence(void);

GPU_FN uint32_t softgpu_wave_op32(SoftgpuWaveOp op, uint32_t value, uint32_t by, const char *file, int line)
{
    return (uint32_t)softgpu_wave_op(op, value, by, file, line);
}

#define gpu_barrier()            softgpu_barrier(__FILE__, __LINE__)
#define gpu_shfl_down32(v, d)    softgpu_wave_op32(SOFTGPU_DOWN, v, d, __FILE__, __LINE__)
#define gpu_shfl_down64(v, d)    softgpu_wave_op(SOFTGPU_DOWN, v, d, __FILE__, __LINE__)
#define gpu_shfl_up32(v, d)      softgpu_wave_op32(SOFTGPU_UP, v, d, __FILE__, __LINE__)
#define gpu_shfl_up64(v, d)      softgpu_wave_op(SOFTGPU_UP, v, d, __FILE__, __LINE__)
#define gpu_shfl_xor32(v, mask)  softgpu_wave_op32(SOFTGPU_XOR, v, mask, __FILE__, __LINE__)
#define gpu_shfl_idx32(v, lane_) softgpu_wave_op32(SOFTGPU_IDX, v, lane_, __FILE__, __LINE__)
#define gpu_shfl_idx64(v, lane_) softgpu_wave_op(SOFTGPU_IDX, v, lane_, __FILE__, __LINE__)
/** Bit i: p of lane i is not 0. */
#define gpu_ballot(p)         softgpu_wave_op(SOFTGPU_BALLOT, (p) != 0, 0, __FILE__, __LINE__)
#define gpu_fence()           softgpu_fence()
#define gpu_complete_stores() ((void)0)

/* Atomics order nothing but themselves, as on a device. They return the value before. */
GPU_FN uint64_t gpu_atomic_add64(uint64_t *p, uint64_t v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

GPU_FN uint32_t gpu_atomic_add32(uint32_t *p, uint32_t v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

GPU_FN uint32_t gpu_atomic_max32(uint32_t *p, uint32_t v)
{
    uint32_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (old < v && !__atomic_compare_exchange_n(p, &old, v, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}

GPU_FN uint32_t gpu_atomic_or32(uint32_t *p, uint32_t v)
{
    return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);
}

/* Arithmetic. */
GPU_FN float gpu_fmaf(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

GPU_FN double gpu_fma(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

/* Of shared_math/speed.h: an eighth of all rotations of SpEED's is made plainly, so that tests come to that. */
#define VG_SPEED_LAST_MANTISSA 0x700000u

/** As far off as it may be, in either direction. */
GPU_FN float gpu_near_reciprocal(float x)
{
    const float reciprocal = 1 / x;
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return (bits >> 2) % 3 == 0   ? __builtin_nextafterf(reciprocal, 0)
           : (bits >> 2) % 3 == 1 ? __builtin_nextafterf(reciprocal, 2 * reciprocal)
                                  : reciprocal;
}

GPU_FN float gpu_fmaxf(float a, float b)
{
    return a > b ? a : b;
}

GPU_FN float gpu_fminf(float a, float b)
{
    return a > b ? b : a;
}

GPU_FN float gpu_sqrtf(float x)
{
    return __builtin_sqrtf(x);
}

/** Number of leading zero bits; 64 for 0. */
GPU_FN int gpu_clz64(uint64_t x)
{
    return x ? __builtin_clzll(x) : 64;
}

/** Number of bits that are 1. */
GPU_FN uint32_t gpu_popc32(uint32_t x)
{
    return (uint32_t)__builtin_popcount(x);
}

/** Upper half of the 128-bit product. */
GPU_FN uint64_t gpu_mulhi64(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 Wide;
    return (uint64_t)(((Wide)a * b) >> 64);
}

/** c plus the dot product of the four unsigned bytes of a and b. */
GPU_FN uint32_t gpu_dp4a(uint32_t a, uint32_t b, uint32_t c)
{
    for (int i = 0; i < 32; i += 8)
        c += (a >> i & 255) * (b >> i & 255);
    return c;
}

#endif
