/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The software device itself, with small kernels of its own: that what it computes is right, and that it notices what
 * it is there to notice. Programs that it must end run as children: this program, called with a name.
 */
#include "tests/cmocka_includes.h"

#include "tests/softgpu/driver_api.h"
#include "tests/softgpu/gpu_host.h"
#include "tests/softgpu/softgpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(SOFTGPU_ASAN)
#define WITH_ASAN 1
#else
#define WITH_ASAN 0
#endif
#if defined(SOFTGPU_TSAN)
#define WITH_TSAN 1
#else
#define WITH_TSAN 0
#endif

enum { ORDERS = WITH_TSAN ? 4 : 22 }; /* a race checker needs few orders, and is slow */

static const char ptx[] = "// software\n.version 6.3\n";

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

/* ---- kernels ---- */

enum { BLOCK = 128 };

typedef struct SumArgs {
    uint64_t src, sum;
    uint32_t n, without_barrier;
} SumArgs;

/* Sum of n numbers of 32 bits: shuffles in the wave, shared memory in the block, an atomic in the grid. */
GPU_KERNEL(test_sum, SumArgs, BLOCK)
{
    GPU_SHARED uint64_t partial[BLOCK / 16];
    const uint32_t *src = (const uint32_t *)(uintptr_t)args.src;
    uint32_t i = gpu_bid(0) * BLOCK + gpu_tid(0);
    uint64_t sum = i < args.n ? src[i] : 0;
    for (uint32_t d = gpu_wave() / 2; d; d /= 2)
        sum += gpu_shfl_down64(sum, d);
    if (!gpu_lane())
        partial[gpu_tid(0) / gpu_wave()] = sum;
    if (!args.without_barrier)
        gpu_barrier();
    if (!gpu_tid(0)) {
        sum = 0;
        for (uint32_t w = 0; w < BLOCK / gpu_wave(); w++)
            sum += partial[w];
        gpu_atomic_add64((uint64_t *)(uintptr_t)args.sum, sum);
    }
}

typedef struct OutArgs {
    uint64_t out;
    uint32_t n;
} OutArgs;

/* Every wave operation: six numbers a thread. */
GPU_KERNEL(test_shuffles, OutArgs, BLOCK)
{
    uint64_t *out = (uint64_t *)(uintptr_t)args.out + 6 * gpu_tid(0);
    uint32_t me = gpu_tid(0);
    out[0] = gpu_shfl_down32(me, 3);
    out[1] = gpu_shfl_up32(me, 3);
    out[2] = gpu_shfl_xor32(me, 5);
    out[3] = gpu_shfl_idx32(me, gpu_wave() - 1 - gpu_lane());
    out[4] = gpu_ballot(me % 3 == 0);
    out[5] = gpu_shfl_down64((uint64_t)me << 40, 1);
}

/* A wave that is not full: 40 threads. */
GPU_KERNEL(test_short_wave, OutArgs, 40)
{
    uint64_t *out = (uint64_t *)(uintptr_t)args.out + gpu_tid(0);
    *out = gpu_ballot(1);
}

typedef struct AtomicArgs {
    uint64_t sum64, words; /* words: sum, maximum, bits; last block's count */
} AtomicArgs;

GPU_KERNEL(test_atomics, AtomicArgs, 64)
{
    GPU_SHARED uint32_t most;
    uint32_t *words = (uint32_t *)(uintptr_t)args.words;
    uint32_t i = (gpu_bid(1) * gpu_grid(0) + gpu_bid(0)) * 64 + gpu_tid(1) * 16 + gpu_tid(0);
    if (!gpu_tid(0) && !gpu_tid(1))
        most = 0;
    gpu_barrier();
    gpu_atomic_add64((uint64_t *)(uintptr_t)args.sum64, (uint64_t)i << 32);
    gpu_atomic_add32(words, i);
    gpu_atomic_max32(&most, i * 7919 % 1024);
    gpu_atomic_or32(words + 2, 1u << i % 32);
    gpu_barrier();
    if (!gpu_tid(0) && !gpu_tid(1))
        gpu_atomic_max32(words + 1, most);
}

typedef struct PartArgs {
    uint64_t parts, done, sum;
} PartArgs;

/* The last block that is done adds up what all blocks left: fences around an atomic. */
GPU_KERNEL(test_last_block, PartArgs, 32)
{
    uint32_t *parts = (uint32_t *)(uintptr_t)args.parts;
    if (gpu_tid(0))
        return;
    parts[gpu_bid(0)] = gpu_bid(0) * gpu_bid(0);
    gpu_fence();
    if (gpu_atomic_add32((uint32_t *)(uintptr_t)args.done, 1) != gpu_grid(0) - 1)
        return;
    gpu_fence();
    uint32_t sum = 0;
    for (uint32_t i = 0; i < gpu_grid(0); i++)
        sum += parts[i];
    *(uint32_t *)(uintptr_t)args.sum = sum;
}

typedef struct SharedArgs {
    uint64_t out;
    uint32_t bytes, beyond;
} SharedArgs;

#define ARRAY 8 /* bytes of the kernel's shared array */

/* Fills the dynamic shared memory, reads it from the other end; thread 0 tells the first byte as found. */
GPU_KERNEL(test_dynamic_shared, SharedArgs, 64)
{
    GPU_SHARED uint32_t left_over[ARRAY / 4];
    unsigned char *shared = gpu_dynamic_shared();
    uint32_t *out = (uint32_t *)(uintptr_t)args.out + 4 * gpu_bid(0);
    if (!gpu_tid(0)) {
        out[0] = args.bytes ? shared[args.bytes - 1] : 0;
        out[3] = left_over[gpu_bid(0) & 1];
        left_over[0] = left_over[1] = 1;
    }
    gpu_barrier();
    for (uint32_t i = gpu_tid(0); i < args.bytes + args.beyond; i += 64)
        shared[i] = (unsigned char)(i * 31);
    gpu_barrier();
    uint32_t sum = 0;
    for (uint32_t i = gpu_tid(0); i < args.bytes; i += 64)
        sum += shared[args.bytes - 1 - i];
    if (!gpu_tid(0))
        out[1] = out[2] = 0;
    gpu_barrier();
    gpu_atomic_add32(out + 1, sum);
    gpu_atomic_add32(out + 2, 1);
}

typedef struct StepArgs {
    uint64_t at;
    uint32_t n, factor, add;
} StepArgs;

/* x = x * factor + add: the order of two of these shows. n larger than the buffer: a write beside it. */
GPU_KERNEL(test_step, StepArgs, 32)
{
    uint32_t *at = (uint32_t *)(uintptr_t)args.at;
    for (uint32_t i = gpu_bid(0) * 32 + gpu_tid(0); i < args.n; i += 32 * gpu_grid(0))
        at[i] = at[i] * args.factor + args.add;
}

typedef struct DivergeArgs {
    uint32_t how;
} DivergeArgs;

GPU_KERNEL(test_diverge, DivergeArgs, 64)
{
    switch (args.how) {
    case 0: /* one thread does not come */
        if (gpu_tid(0) != 7)
            gpu_barrier();
        break;
    case 1: /* two barriers */
        if (gpu_tid(0) < 32)
            gpu_barrier();
        else
            gpu_barrier();
        break;
    case 2: /* half a wave */
        if (gpu_lane() < gpu_wave() / 2)
            gpu_shfl_down32(1, 1);
        break;
    case 3: /* two shuffles */
        if (gpu_lane() < gpu_wave() / 2)
            gpu_shfl_down32(1, 1);
        else
            gpu_shfl_xor32(1, 1);
        break;
    }
}

/* ---- a program's usual objects ---- */

typedef struct Gpu {
    CUcontext context;
    CUmodule module;
    CUstream stream, other;
    CUevent event, last;
} Gpu;

static void gpu_open(Gpu *g, int device)
{
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&g->context, CU_CTX_SCHED_BLOCKING_SYNC, device));
    OK(cuModuleLoadData(&g->module, ptx));
    OK(cuStreamCreate(&g->stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&g->other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&g->event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&g->last, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
}

static void gpu_close(Gpu *g)
{
    OK(cuEventDestroy_v2(g->last));
    OK(cuEventDestroy_v2(g->event));
    OK(cuStreamDestroy_v2(g->other));
    OK(cuStreamDestroy_v2(g->stream));
    OK(cuModuleUnload(g->module));
    OK(cuCtxDestroy_v2(g->context));
    assert_int_equal(softgpu_live_objects(), 0);
    assert_int_equal(softgpu_live_bytes(), 0);
}

static CUresult launch(const Gpu *g, CUstream stream, const char *name, uint32_t blocks, uint32_t block,
                       uint32_t shared, void *args)
{
    CUfunction f;
    CUresult err = cuModuleGetFunction(&f, g->module, name);
    return err ? err : cuLaunchKernel(f, blocks, 1, 1, block, 1, 1, shared, stream, &args, NULL);
}

static CUdeviceptr device_copy(const void *src, size_t size)
{
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, size));
    OK(cuMemcpyHtoD_v2(p, src, size));
    return p;
}

/* ---- kernels run right ---- */

static void test_arithmetic(void **state)
{
    (void)state;
    assert_int_equal(gpu_clz64(0), 64);
    assert_int_equal(gpu_clz64(1), 63);
    assert_true(gpu_mulhi64(UINT64_MAX, UINT64_MAX) == UINT64_MAX - 1);
    assert_int_equal(gpu_dp4a(0xff01ff02, 0xff03ff04, 5), 255 * 255 * 2 + 3 + 8 + 5);
    /* The product's last bit survives only without an intermediate rounding. */
    assert_true(gpu_fmaf(1.0f + 0x1p-23f, 1.0f + 0x1p-23f, -1.0f - 0x1p-22f) == 0x1p-46f);
    assert_true(gpu_sqrtf(2.0f) == 0x1.6a09e6p0f);
}

static void test_sums(void **state)
{
    (void)state;
    Gpu g;
    gpu_open(&g, 0);
    enum { N = 20 * BLOCK - 5 };
    uint32_t *src = malloc(N * sizeof(*src));
    for (uint32_t i = 0; i < N; i++)
        src[i] = 0xfff00000 + i;
    CUdeviceptr in = device_copy(src, N * sizeof(*src)), out;
    OK(cuMemAlloc_v2(&out, 8));
    for (unsigned wave = 16; wave <= 64; wave *= 2) {
        softgpu_set_wave(wave);
        int told;
        OK(cuDeviceGetAttribute(&told, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
        assert_int_equal(told, wave);
        for (unsigned order = 0; order < 4; order++) {
            softgpu_set_order(order);
            OK(cuMemsetD8Async(out, 0, 8, g.stream));
            SumArgs args = { .src = in, .sum = out, .n = N };
            OK(launch(&g, g.stream, "test_sum", 20, BLOCK, 0, &args));
            OK(cuStreamSynchronize(g.stream));
            uint64_t sum;
            OK(cuMemcpyDtoH_v2(&sum, out, 8));
            assert_true(sum == (uint64_t)N * 0xfff00000 + (uint64_t)N * (N - 1) / 2);
        }
    }
    softgpu_set_wave(32);
    softgpu_set_order(0);
    free(src);
    OK(cuMemFree_v2(in));
    OK(cuMemFree_v2(out));
    gpu_close(&g);
}

static void test_wave_operations(void **state)
{
    (void)state;
    Gpu g;
    gpu_open(&g, 0);
    CUdeviceptr out;
    OK(cuMemAlloc_v2(&out, 6 * 8 * BLOCK));
    for (uint32_t wave = 16; wave <= 64; wave *= 2) {
        softgpu_set_wave(wave);
        OutArgs args = { out, 0 };
        OK(launch(&g, g.stream, "test_shuffles", 1, BLOCK, 0, &args));
        OK(cuStreamSynchronize(g.stream));
        uint64_t got[BLOCK][6];
        OK(cuMemcpyDtoH_v2(got, out, sizeof(got)));
        for (uint32_t i = 0; i < BLOCK; i++) {
            uint32_t lane = i % wave, first = i - lane;
            assert_int_equal(got[i][0], lane + 3 < wave ? i + 3 : i);
            assert_int_equal(got[i][1], lane >= 3 ? i - 3 : i);
            assert_int_equal(got[i][2], first + (lane ^ 5));
            assert_int_equal(got[i][3], first + wave - 1 - lane);
            uint64_t bits = 0;
            for (uint32_t k = 0; k < wave; k++)
                bits |= (uint64_t)((first + k) % 3 == 0) << k;
            assert_true(got[i][4] == bits);
            assert_true(got[i][5] == (uint64_t)(lane + 1 < wave ? i + 1 : i) << 40);
        }
    }
    softgpu_set_wave(32);
    OutArgs args = { out, 0 };
    OK(launch(&g, g.stream, "test_short_wave", 1, 40, 0, &args));
    OK(cuStreamSynchronize(g.stream));
    uint64_t got[40];
    OK(cuMemcpyDtoH_v2(got, out, sizeof(got)));
    assert_true(got[0] == 0xffffffff && got[39] == 0xff);
    OK(cuMemFree_v2(out));
    gpu_close(&g);
}

static void test_atomic_operations(void **state)
{
    (void)state;
    Gpu g;
    gpu_open(&g, 0);
    CUdeviceptr out;
    OK(cuMemAlloc_v2(&out, 24));
    for (unsigned order = 0; order < 6; order++) {
        softgpu_set_order(order);
        OK(cuMemsetD8Async(out, 0, 24, g.stream));
        AtomicArgs args = { out, out + 8 };
        void *params[] = { &args };
        CUfunction f;
        OK(cuModuleGetFunction(&f, g.module, "test_atomics"));
        OK(cuLaunchKernel(f, 4, 3, 1, 16, 4, 1, 0, g.stream, params, NULL));
        OK(cuStreamSynchronize(g.stream));
        uint32_t got[6], most = 0;
        OK(cuMemcpyDtoH_v2(got, out, 24));
        for (uint32_t i = 0; i < 12 * 64; i++)
            most = i * 7919 % 1024 > most ? i * 7919 % 1024 : most;
        assert_int_equal(got[0], 0);
        assert_int_equal(got[1], 12 * 64 * (12 * 64 - 1) / 2);
        assert_int_equal(got[2], 12 * 64 * (12 * 64 - 1) / 2);
        assert_int_equal(got[3], most);
        assert_int_equal(got[4], 0xffffffff);
    }
    OK(cuMemFree_v2(out));

    CUdeviceptr parts;
    OK(cuMemAlloc_v2(&parts, 4 * 102));
    OK(cuMemsetD32_v2(parts, 0, 102));
    PartArgs args = { parts, parts + 400, parts + 404 };
    OK(cuCtxSynchronize());
    OK(launch(&g, g.stream, "test_last_block", 100, 32, 0, &args));
    OK(cuStreamSynchronize(g.stream));
    uint32_t sum;
    OK(cuMemcpyDtoH_v2(&sum, parts + 404, 4));
    assert_int_equal(sum, 99 * 100 * 199 / 6);
    OK(cuMemFree_v2(parts));
    softgpu_set_order(0);
    gpu_close(&g);
}

static void test_dynamic_shared_memory(void **state)
{
    (void)state;
    Gpu g;
    gpu_open(&g, 0);
    CUdeviceptr out;
    OK(cuMemAlloc_v2(&out, 16 * 8));
    CUfunction f;
    OK(cuModuleGetFunction(&f, g.module, "test_dynamic_shared"));
    const uint32_t sizes[] = { 0, 1, 1000, (48 << 10) - ARRAY, 100000, (227 << 10) - ARRAY };
    for (int i = 0; i < 6; i++) {
        SharedArgs args = { out, sizes[i], 0 };
        if (sizes[i] > 48 << 10) {
            assert_int_equal(launch(&g, g.stream, "test_dynamic_shared", 8, 64, sizes[i], &args), 1);
            OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)sizes[i]));
        }
        OK(launch(&g, g.stream, "test_dynamic_shared", 8, 64, sizes[i], &args));
        OK(cuStreamSynchronize(g.stream));
        uint32_t got[8][4], sum = 0;
        OK(cuMemcpyDtoH_v2(got, out, sizeof(got)));
        for (uint32_t k = 0; k < sizes[i]; k++)
            sum += (unsigned char)(k * 31);
        for (int b = 0; b < 8; b++) {
            assert_int_equal(got[b][0], sizes[i] ? 0xcd : 0); /* no block sees what another left */
            assert_int_equal(got[b][1], sum);
            assert_int_equal(got[b][2], 64);
            assert_true(WITH_ASAN || got[b][3] == 0xcdcdcdcd);
        }
    }
    assert_int_equal(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (227 << 10) + 1), 1);
    OK(cuMemFree_v2(out));
    gpu_close(&g);
}

/* ---- memory and copies ---- */

static void test_memory(void **state)
{
    (void)state;
    Gpu g;
    gpu_open(&g, 0);
    CUdeviceptr p, q;
    OK(cuMemAlloc_v2(&p, 1001));
    assert_int_equal(p % 256, 0);
    unsigned char host[1001];
    memset(host, 0, sizeof(host));
    OK(cuMemcpyDtoH_v2(host, p, sizeof(host)));
    for (int i = 0; i < 1001; i++)
        assert_int_equal(host[i], 0xcd);
    assert_int_equal(softgpu_live_bytes(), 1001);
    CUdeviceptr base;
    size_t size, pitch;
    OK(cuMemGetAddressRange_v2(&base, &size, p + 500));
    assert_true(base == p && size == 1001);

    /* Beyond the end, no device memory, on the wrong side: refused. */
    unsigned long complaints = softgpu_complaints();
    assert_int_equal(cuMemcpyDtoH_v2(host, p + 1, sizeof(host)), 1);
    assert_int_equal(cuMemcpyHtoD_v2((uintptr_t)host, host, 4), 1);
    assert_int_equal(cuMemcpyHtoD_v2(p, (void *)(uintptr_t)p, 4), 1);
    assert_int_equal(cuMemsetD8_v2(p, 0, 1002), 1);
    assert_int_equal(cuMemFree_v2(p + 1), 1);
    assert_int_equal(cuMemAlloc_v2(&q, 0), 1);
    assert_int_equal(softgpu_complaints() - complaints, 6);

    OK(cuMemAllocPitch_v2(&q, &pitch, 1001, 7, 16));
    assert_int_equal(pitch, 1024);
    OK(cuMemFree_v2(q));

    softgpu_set_memory(5000);
    size_t free_bytes, total;
    OK(cuMemGetInfo_v2(&free_bytes, &total));
    assert_true(free_bytes == 3999 && total == 5000);
    assert_int_equal(cuMemAlloc_v2(&q, 4000), 2);
    OK(cuMemAlloc_v2(&q, 3999));
    OK(cuMemFree_v2(q));
    softgpu_set_memory((size_t)8 << 30);

    void *pinned;
    OK(cuMemHostAlloc(&pinned, 100, 0));
    OK(cuMemHostGetDevicePointer_v2(&q, pinned, 0));
    assert_true(q == (uintptr_t)pinned);
    OK(cuMemFreeHost(pinned));
    OK(cuMemHostRegister_v2(host, sizeof(host), 0));
    assert_int_equal(cuMemHostRegister_v2(host, sizeof(host), 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostUnregister(host));
    OK(cuMemFree_v2(p));
    gpu_close(&g);
}

static void test_copies_2d(void **state)
{
    (void)state;
    Gpu g;
    gpu_open(&g, 0);
    enum { W = 37, H = 11, PITCH = 64 };
    unsigned char src[H * W], dst[H * 50];
    for (int i = 0; i < H * W; i++)
        src[i] = (unsigned char)(i * 7);
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, PITCH * H));
    CUDA_MEMCPY2D up = { .srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = src,
                         .srcPitch = W,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = p,
                         .dstPitch = PITCH,
                         .dstXInBytes = 5,
                         .dstY = 1,
                         .WidthInBytes = W,
                         .Height = H - 1 };
    OK(cuMemsetD2D8Async(p, PITCH, 1, PITCH, H, g.stream));
    OK(cuMemcpy2DAsync_v2(&up, g.stream));
    CUDA_MEMCPY2D down = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = p,
                           .srcPitch = PITCH,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = dst,
                           .dstPitch = 50,
                           .WidthInBytes = 50,
                           .Height = H };
    OK(cuMemcpy2DAsync_v2(&down, g.stream));
    OK(cuStreamSynchronize(g.stream));
    for (int y = 0; y < H; y++)
        for (int x = 0; x < 50; x++)
            assert_int_equal(dst[y * 50 + x], y && x >= 5 && x < 5 + W ? src[(y - 1) * W + x - 5] : 1);

    up.Height = H; /* one row too many for the device buffer */
    assert_int_equal(cuMemcpy2DAsync_v2(&up, g.stream), 1);
    up.Height = H - 1;
    up.dstPitch = W; /* 5 bytes to the right of the row's start, they end beyond the pitch */
    assert_int_equal(cuMemcpy2D_v2(&up), 1);
    up.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    assert_int_equal(cuMemcpy2D_v2(&up), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemFree_v2(p));
    gpu_close(&g);
}

/* When host memory is read and written. */
static void test_pageable_and_pinned(void **state)
{
    (void)state;
    Gpu g;
    gpu_open(&g, 0);
    softgpu_set_order(1);
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, 4));
    uint32_t pageable = 1, *pinned;
    OK(cuMemAllocHost_v2((void **)&pinned, 4));

    OK(cuMemcpyHtoDAsync_v2(p, &pageable, 4, g.stream));
    pageable = 2; /* too late to be seen */
    OK(cuMemcpyDtoHAsync_v2(&pageable, p, 4, g.stream));
    assert_int_equal(pageable, 1); /* there without a wait */

    if (!WITH_TSAN) {
        *pinned = 3;
        OK(cuMemcpyHtoDAsync_v2(p, pinned, 4, g.stream));
        *pinned = 4; /* wrong in a program, seen here: the copy reads it when it runs */
        OK(cuMemcpyDtoHAsync_v2(&pageable, p, 4, g.stream));
        assert_int_equal(pageable, 4);
    }

    *pinned = 5;
    OK(cuMemsetD32Async(p, 6, 1, g.stream));
    OK(cuMemcpyDtoHAsync_v2(pinned, p, 4, g.stream));
    if (!WITH_TSAN)
        assert_int_equal(*pinned, 5);
    unsigned long spinning, waits = softgpu_waits(NULL);
    assert_int_equal(cuStreamQuery(g.stream), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(g.stream));
    OK(cuStreamQuery(g.stream));
    assert_int_equal(*pinned, 6);
    assert_int_equal(softgpu_waits(&spinning) - waits, 1);

    /* Asking again and again gets there, too. */
    OK(cuMemsetD32Async(p, 7, 1, g.stream));
    OK(cuMemcpyDtoHAsync_v2(pinned, p, 4, g.stream));
    OK(cuEventRecord(g.event, g.stream));
    int asked = 0;
    CUresult err;
    while ((err = cuEventQuery(g.event)) == CUDA_ERROR_NOT_READY)
        asked++;
    OK(err);
    assert_int_equal(asked, 3);
    assert_int_equal(*pinned, 7);
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree_v2(p));
    softgpu_set_order(0);
    gpu_close(&g);
}

/* ---- order ---- */

typedef enum Flaw { CORRECT, NO_STREAM_WAIT, NO_FINAL_WAIT, REUSED_TOO_EARLY } Flaw;

enum { N_STEP = 100 };

/*
 * Two streams hand a buffer to and fro over two rounds; the result, or what the host finds in its place. A flaw leaves
 * a wait out.
 */
static uint32_t two_streams(Flaw flaw)
{
    Gpu g;
    gpu_open(&g, 0);
    CUdeviceptr p;
    uint32_t *pinned;
    OK(cuMemAlloc_v2(&p, 4 * N_STEP));
    OK(cuMemHostAlloc((void **)&pinned, 8 * N_STEP, 0));
    uint32_t *back = pinned + N_STEP;
    memset(pinned, 0, 8 * N_STEP);
    for (uint32_t round = 0; round < 2; round++) {
        for (int i = 0; i < N_STEP; i++)
            pinned[i] = round ? back[i] : 1;
        OK(cuMemcpyHtoDAsync_v2(p, pinned, 4 * N_STEP, g.stream));
        StepArgs a = { p, N_STEP, 3, 1 }, b = { p, N_STEP, 5, 3 };
        OK(launch(&g, g.stream, "test_step", 2, 32, 0, &a));
        OK(cuEventRecord(g.event, g.stream));
        if (flaw != NO_STREAM_WAIT)
            OK(cuStreamWaitEvent(g.other, g.event, 0));
        OK(launch(&g, g.other, "test_step", 2, 32, 0, &b));
        OK(cuEventRecord(g.last, g.other));
        if (flaw != REUSED_TOO_EARLY)
            OK(cuStreamWaitEvent(g.stream, g.last, 0));
        OK(launch(&g, g.stream, "test_step", 1, 32, 0, &a));
        OK(cuMemcpyDtoHAsync_v2(back, p, 4 * N_STEP, g.stream));
        OK(cuEventRecord(g.last, g.stream));
        if (flaw != NO_FINAL_WAIT)
            OK(cuEventSynchronize(g.last));
    }
    uint32_t result = back[N_STEP - 1];
    OK(cuCtxSynchronize());
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree_v2(p));
    gpu_close(&g);
    return result;
}

static void test_orders(void **state)
{
    (void)state;
    /* ((1 * 3 + 1) * 5 + 3) * 3 + 1, and once more. */
    const uint32_t once = 70, expected = ((once * 3 + 1) * 5 + 3) * 3 + 1;
    unsigned wrong[4] = { 0 };
    for (unsigned order = 0; order < ORDERS; order++) {
        softgpu_set_order(order);
        assert_int_equal(two_streams(CORRECT), expected);
        if (WITH_TSAN) /* these have races */
            continue;
        for (Flaw flaw = NO_STREAM_WAIT; flaw <= REUSED_TOO_EARLY; flaw++)
            wrong[flaw] += two_streams(flaw) != expected;
        if (order <= 1) /* order 0 shows nothing, order 1 the final wait */
            assert_int_equal(wrong[NO_FINAL_WAIT], order);
    }
    softgpu_set_order(0);
    if (WITH_TSAN)
        return;
    print_message("# of 22 orders, %u show a missing wait between streams, %u a missing last wait, %u an early reuse\n",
                  wrong[NO_STREAM_WAIT], wrong[NO_FINAL_WAIT], wrong[REUSED_TOO_EARLY]);
    assert_true(wrong[NO_STREAM_WAIT] >= 4 && wrong[NO_FINAL_WAIT] >= 15 && wrong[REUSED_TOO_EARLY] >= 4);
}

/* Stream 0 waits for blocking streams, and they for it; not so non-blocking ones. */
static void test_stream_0(void **state)
{
    (void)state;
    Gpu g;
    gpu_open(&g, 0);
    CUstream blocking;
    OK(cuStreamCreate(&blocking, 0));
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, 4));
    unsigned differs = 0;
    for (unsigned order = 0; order < ORDERS; order++) {
        softgpu_set_order(order);
        StepArgs a = { p, 1, 3, 1 }, b = { p, 1, 5, 3 };
        uint32_t got;
        OK(cuMemsetD32_v2(p, 1, 1)); /* in stream 0 */
        OK(launch(&g, blocking, "test_step", 1, 32, 0, &a));
        OK(launch(&g, NULL, "test_step", 1, 32, 0, &b));
        OK(launch(&g, blocking, "test_step", 1, 32, 0, &a));
        OK(cuMemcpyDtoH_v2(&got, p, 4));
        assert_int_equal(got, 70);
        if (WITH_TSAN)
            continue;
        OK(launch(&g, NULL, "test_step", 1, 32, 0, &b));
        OK(launch(&g, g.stream, "test_step", 1, 32, 0, &a));
        OK(cuStreamSynchronize(g.stream));
        OK(cuMemcpyDtoH_v2(&got, p, 4));
        differs += got != (70 * 5 + 3) * 3 + 1;
    }
    softgpu_set_order(0);
    assert_true(WITH_TSAN || differs);
    OK(cuStreamDestroy_v2(blocking));
    OK(cuMemFree_v2(p));
    gpu_close(&g);
}

/* A destroyed stream's work is done all the same. */
static void test_destroyed_stream(void **state)
{
    (void)state;
    Gpu g;
    gpu_open(&g, 0);
    softgpu_set_order(1);
    uint32_t one = 1, got;
    CUdeviceptr p = device_copy(&one, 4);
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    StepArgs a = { p, 1, 3, 1 };
    OK(launch(&g, s, "test_step", 1, 32, 0, &a));
    OK(cuEventRecord(g.event, s));
    OK(cuStreamDestroy_v2(s));
    OK(cuStreamWaitEvent(g.stream, g.event, 0));
    OK(cuMemcpyDtoHAsync_v2(&got, p, 4, g.stream));
    assert_int_equal(got, 4);
    assert_int_equal(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemFree_v2(p));
    softgpu_set_order(0);
    gpu_close(&g);
}

static void *one_of_many(void *opaque)
{
    Gpu g;
    uint32_t seed = *(uint32_t *)opaque, x = seed;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&g.context, 0));
    OK(cuCtxPushCurrent_v2(g.context));
    OK(cuModuleLoadData(&g.module, ptx));
    OK(cuStreamCreate(&g.stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr p = device_copy(&seed, 4);
    for (uint32_t i = 0; i < (WITH_TSAN ? 5 : 50); i++) {
        StepArgs a = { p, 1, 3, i };
        OK(launch(&g, g.stream, "test_step", 3, 32, 0, &a));
        x = x * 3 + i;
        if (i % 7 == 0)
            OK(cuStreamSynchronize(g.stream));
    }
    uint32_t got;
    OK(cuMemcpyDtoHAsync_v2(&got, p, 4, g.stream));
    assert_int_equal(got, x);
    OK(cuMemFree_v2(p));
    OK(cuStreamDestroy_v2(g.stream));
    OK(cuModuleUnload(g.module));
    OK(cuCtxPopCurrent_v2(&g.context));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    return NULL;
}

static void test_host_threads(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 4; order++) {
        softgpu_set_order(order);
        pthread_t thread[4];
        uint32_t seed[4] = { 1, 2, 3, 4 };
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, one_of_many, &seed[i]), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(thread[i], NULL);
        assert_int_equal(softgpu_live_objects(), 0);
    }
    softgpu_set_order(0);
}

/* ---- graphs ---- */

static void test_graphs(void **state)
{
    (void)state;
    Gpu g;
    gpu_open(&g, 0);
    for (unsigned order = 0; order < ORDERS; order++) {
        softgpu_set_order(order);
        CUdeviceptr p, q;
        uint32_t *pinned;
        OK(cuMemAlloc_v2(&p, 4));
        OK(cuMemAlloc_v2(&q, 4));
        OK(cuMemHostAlloc((void **)&pinned, 8, 0));
        /* p: set, fork: q on the other stream, p here; join; both read. */
        StepArgs a = { p, 1, 3, 1 }, b = { q, 1, 5, 3 };
        OK(cuStreamBeginCapture_v2(g.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        int status;
        OK(cuStreamIsCapturing(g.stream, &status));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        OK(cuMemsetD32Async(p, 1, 1, g.stream));
        OK(cuEventRecord(g.event, g.stream));
        OK(cuStreamWaitEvent(g.other, g.event, 0));
        OK(cuMemcpyDtoDAsync_v2(q, p, 4, g.other));
        OK(launch(&g, g.other, "test_step", 1, 32, 0, &b));
        OK(cuEventRecord(g.last, g.other));
        OK(cuStreamWaitEvent(g.stream, g.last, 0));
        OK(launch(&g, g.stream, "test_step", 1, 32, 0, &a));
        OK(cuMemcpyDtoHAsync_v2(pinned, p, 4, g.stream));
        OK(cuMemcpyDtoHAsync_v2(pinned + 1, q, 4, g.stream));
        pinned[0] = pinned[1] = 99; /* nothing runs in a capture */
        CUgraph graph;
        CUgraphExec exec;
        OK(cuStreamEndCapture(g.stream, &graph));
        size_t n_nodes;
        OK(cuGraphGetNodes(graph, NULL, &n_nodes));
        assert_int_equal(n_nodes, 6);
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cuGraphDestroy(graph));
        OK(cuStreamSynchronize(g.stream));
        assert_int_equal(pinned[0], 99);
        for (int run = 0; run < 3; run++) {
            OK(cuGraphLaunch(exec, g.stream));
            OK(cuStreamSynchronize(g.stream));
            assert_int_equal(pinned[0], 4);
            assert_int_equal(pinned[1], 8);
            pinned[0] = pinned[1] = 99;
        }
        OK(cuGraphLaunch(exec, g.stream));
        OK(cuGraphExecDestroy(exec)); /* its run goes on */
        OK(cuEventRecord(g.last, g.stream));
        OK(cuEventSynchronize(g.last));
        assert_int_equal(pinned[1], 8);

        /* What a capture forbids. */
        OK(cuStreamBeginCapture_v2(g.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        assert_int_equal(cuStreamSynchronize(g.stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        assert_int_equal(launch(&g, g.stream, "test_step", 1, 32, 0, &a), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_int_equal(cuStreamEndCapture(g.stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        OK(cuStreamBeginCapture_v2(g.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CUdeviceptr r;
        assert_int_equal(cuMemAlloc_v2(&r, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        assert_int_equal(cuStreamEndCapture(g.stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        OK(cuStreamBeginCapture_v2(g.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        OK(cuEventRecord(g.event, g.stream));
        OK(cuStreamWaitEvent(g.other, g.event, 0));
        OK(launch(&g, g.other, "test_step", 1, 32, 0, &b));
        assert_int_equal(cuStreamEndCapture(g.stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        assert_int_equal(cuStreamBeginCapture_v2(NULL, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        OK(cuEventRecord(g.event, g.stream)); /* the stream is as before */
        OK(cuMemFreeHost(pinned));
        OK(cuMemFree_v2(p));
        OK(cuMemFree_v2(q));
    }
    softgpu_set_order(0);
    gpu_close(&g);
}

/* ---- contexts, devices, modules, launches ---- */

static void test_contexts(void **state)
{
    (void)state;
    OK(cuInit(0));
    CUcontext primary, again, created, popped, current;
    unsigned flags;
    int active;
    OK(cuCtxGetCurrent(&current));
    assert_null(current);
    CUdeviceptr p;
    assert_int_equal(cuMemAlloc_v2(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_BLOCKING_SYNC));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_true(flags == CU_CTX_SCHED_BLOCKING_SYNC && !active);
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    assert_ptr_equal(primary, again);
    assert_int_equal(softgpu_live_objects(), 2);
    OK(cuCtxCreate_v2(&created, 0, 0));
    OK(cuCtxPushCurrent_v2(primary));
    OK(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, primary);
    OK(cuCtxPopCurrent_v2(&popped));
    assert_ptr_equal(popped, primary);
    OK(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, created);

    /* A stream of one context is not for another. */
    CUstream s;
    OK(cuStreamCreate(&s, 0));
    OK(cuCtxPushCurrent_v2(primary));
    assert_int_equal(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxPopCurrent_v2(NULL));

    /* What a destroyed context takes with it was not released. */
    OK(cuMemAlloc_v2(&p, 4));
    size_t before = softgpu_live_objects();
    OK(cuCtxDestroy_v2(created));
    assert_int_equal(softgpu_live_objects(), before - 1);
    assert_int_equal(softgpu_live_bytes(), 0);
    OK(cuCtxGetCurrent(&current));
    assert_null(current);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxSetFlags_v2(0, 0));
    assert_int_equal(softgpu_live_objects(), 2); /* the stream and the memory */
}

static void test_two_devices(void **state)
{
    (void)state;
    Gpu g[2];
    OK(cuInit(0));
    int count;
    OK(cuDeviceGetCount(&count));
    assert_int_equal(count, 2);
    CUuuid uuid[2];
    char id[2][16], name[2][64];
    CUdeviceptr p[2];
    for (int d = 0; d < 2; d++) {
        CUdevice device;
        OK(cuDeviceGet(&device, d));
        OK(cuDeviceGetUuid_v2(&uuid[d], device));
        OK(cuDeviceGetName(name[d], sizeof(name[d]), device));
        OK(cuDeviceGetPCIBusId(id[d], sizeof(id[d]), device));
        OK(cuDeviceGetByPCIBusId(&device, id[d]));
        assert_int_equal(device, d);
        gpu_open(&g[d], d);
        OK(cuCtxGetDevice(&device));
        assert_int_equal(device, d);
        uint32_t x = 1 + (uint32_t)d;
        p[d] = device_copy(&x, 4);
        StepArgs a = { p[d], 1, 3, 1 };
        OK(launch(&g[d], g[d].stream, "test_step", 1, 32, 0, &a));
        OK(cuStreamSynchronize(g[d].stream));
    }
    assert_memory_not_equal(&uuid[0], &uuid[1], sizeof(uuid[0]));
    assert_string_not_equal(id[0], id[1]);
    assert_string_not_equal(name[0], name[1]);
    CUdevice none;
    assert_int_equal(cuDeviceGet(&none, 2), CUDA_ERROR_INVALID_DEVICE);

    uint32_t got;
    OK(cuMemcpy(p[1], p[0], 4)); /* from device to device */
    OK(cuMemcpyDtoH_v2(&got, p[1], 4));
    assert_int_equal(got, 4);
    OK(cuMemFree_v2(p[1]));
    OK(cuEventDestroy_v2(g[1].last));
    OK(cuEventDestroy_v2(g[1].event));
    OK(cuStreamDestroy_v2(g[1].other));
    OK(cuStreamDestroy_v2(g[1].stream));
    OK(cuModuleUnload(g[1].module));
    OK(cuCtxDestroy_v2(g[1].context));
    OK(cuMemFree_v2(p[0]));
    gpu_close(&g[0]);
}

static void test_modules_and_launches(void **state)
{
    (void)state;
    Gpu g;
    gpu_open(&g, 0);
    CUmodule m;
    CUfunction f;
    const unsigned char fatbin[] = { 0x50, 0xed, 0x55, 0xba, 1, 0, 0, 0 };
    OK(cuModuleLoadData(&m, fatbin));
    OK(cuModuleUnload(m));
    OK(cuModuleLoadData(&m, "\177ELF..."));
    assert_int_equal(cuModuleGetFunction(&f, m, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleGetFunction(&f, m, "test_step"));
    OK(cuModuleUnload(m));
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuModuleLoadData(&m, "int main"), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(cuModuleLoadData(&m, ""), CUDA_ERROR_INVALID_IMAGE);

    uint32_t one = 1, got;
    CUdeviceptr p = device_copy(&one, 4);
    StepArgs a = { p, 1, 3, 1 };
    void *params[] = { &a };
    size_t size = sizeof(a);
    void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &a, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END };
    OK(cuModuleGetFunction(&f, g.module, "test_step"));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, g.stream, NULL, extra));
    size--;
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, g.stream, NULL, extra), 1);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, g.stream, params, NULL), 1);
    assert_int_equal(cuLaunchKernel(f, 0, 1, 1, 32, 1, 1, 0, g.stream, params, NULL), 1);
    assert_int_equal(cuLaunchKernel(f, 1, 65536, 1, 32, 1, 1, 0, g.stream, params, NULL), 1);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, g.stream, params, extra), 1);
    OK(cuStreamSynchronize(g.stream));
    OK(cuMemcpyDtoH_v2(&got, p, 4));
    assert_int_equal(got, 4);
    OK(cuMemFree_v2(p));
    gpu_close(&g);
}

static void test_error_names(void **state)
{
    (void)state;
    const char *text;
    OK(cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
    assert_string_equal(text, "CUDA_ERROR_NOT_READY");
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "out of memory");
    assert_int_equal(cuGetErrorName((CUresult)12345, &text), 1);
    assert_null(text);
}

/* Without one of these, FFmpeg's loader (of nv-codec-headers 12.1) refuses the library. */
static void test_entry_points(void **state)
{
    (void)state;
    static const char *const names[] = {
        "cuInit",
        "cuDriverGetVersion",
        "cuDeviceGetCount",
        "cuDeviceGet",
        "cuDeviceGetAttribute",
        "cuDeviceGetName",
        "cuDeviceComputeCapability",
        "cuCtxCreate_v2",
        "cuCtxGetCurrent",
        "cuCtxSetLimit",
        "cuCtxPushCurrent_v2",
        "cuCtxPopCurrent_v2",
        "cuCtxDestroy_v2",
        "cuMemAlloc_v2",
        "cuMemAllocPitch_v2",
        "cuMemAllocManaged",
        "cuMemsetD8Async",
        "cuMemFree_v2",
        "cuMemcpy",
        "cuMemcpyAsync",
        "cuMemcpy2D_v2",
        "cuMemcpy2DAsync_v2",
        "cuMemcpyHtoD_v2",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoH_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyDtoD_v2",
        "cuMemcpyDtoDAsync_v2",
        "cuGetErrorName",
        "cuGetErrorString",
        "cuCtxGetDevice",
        "cuDevicePrimaryCtxRetain",
        "cuDevicePrimaryCtxRelease",
        "cuDevicePrimaryCtxSetFlags",
        "cuDevicePrimaryCtxGetState",
        "cuDevicePrimaryCtxReset",
        "cuStreamCreate",
        "cuStreamQuery",
        "cuStreamSynchronize",
        "cuStreamDestroy_v2",
        "cuStreamAddCallback",
        "cuStreamWaitEvent",
        "cuEventCreate",
        "cuEventDestroy_v2",
        "cuEventSynchronize",
        "cuEventQuery",
        "cuEventRecord",
        "cuLaunchKernel",
        "cuLinkCreate",
        "cuLinkAddData",
        "cuLinkComplete",
        "cuLinkDestroy",
        "cuModuleLoadData",
        "cuModuleUnload",
        "cuModuleGetFunction",
        "cuModuleGetGlobal",
        "cuTexObjectCreate",
        "cuTexObjectDestroy",
        "cuGLGetDevices_v2",
        "cuGraphicsGLRegisterImage",
        "cuGraphicsUnregisterResource",
        "cuGraphicsMapResources",
        "cuGraphicsUnmapResources",
        "cuGraphicsSubResourceGetMappedArray",
        "cuGraphicsResourceGetMappedPointer_v2",
        "cuArrayCreate_v2",
        "cuArray3DCreate_v2",
        "cuArrayDestroy",
    };
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    assert_non_null(library);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!dlsym(library, names[i]))
            fail_msg("no %s", names[i]);
    CUresult (*old)(CUdeviceptr *, size_t) = (CUresult(*)(CUdeviceptr *, size_t))dlsym(library, "cuMemAlloc");
    CUdeviceptr p;
    assert_int_equal(old(&p, 4), CUDA_ERROR_NOT_SUPPORTED);
    dlclose(library);
}

/* ---- failures made to order ---- */

/* A program that looks at every result and always ends clean: its first error. */
static CUresult careful_program(uint32_t *result)
{
    static const struct {
        const char *name;
    } kernel = { "test_step" };
    CUcontext context = NULL, popped;
    CUmodule module = NULL;
    CUfunction f;
    CUstream stream = NULL;
    CUevent event = NULL;
    CUdeviceptr p = 0;
    uint32_t *pinned = NULL;
    int pushed = 0;
    CUresult err;
    if ((err = cuInit(0)) || (err = cuDevicePrimaryCtxRetain(&context, 0)))
        return err;
    if ((err = cuCtxPushCurrent_v2(context)))
        goto end;
    pushed = 1;
    StepArgs a = { 0, 1, 3, 1 };
    void *params[] = { &a };
    if ((err = cuModuleLoadData(&module, ptx)) || (err = cuModuleGetFunction(&f, module, kernel.name)) ||
        (err = cuStreamCreate(&stream, 1)) || (err = cuEventCreate(&event, 3)) || (err = cuMemAlloc_v2(&p, 4)) ||
        (err = cuMemHostAlloc((void **)&pinned, 4, 0)) || (err = cuMemsetD8Async(p, 1, 4, stream)))
        goto end;
    a.at = p;
    if ((err = cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL)) ||
        (err = cuMemcpyDtoHAsync_v2(pinned, p, 4, stream)) || (err = cuEventRecord(event, stream)) ||
        (err = cuEventSynchronize(event)))
        goto end;
    *result = *pinned;
end:;
    CUresult late[7] = { CUDA_SUCCESS };
    if (pinned)
        late[0] = cuMemFreeHost(pinned);
    if (p)
        late[1] = cuMemFree_v2(p);
    if (event)
        late[2] = cuEventDestroy_v2(event);
    if (stream)
        late[3] = cuStreamDestroy_v2(stream);
    if (module)
        late[4] = cuModuleUnload(module);
    if (pushed)
        late[5] = cuCtxPopCurrent_v2(&popped);
    late[6] = cuDevicePrimaryCtxRelease_v2(0);
    for (int i = 0; i < 7 && !err; i++)
        err = late[i];
    return err;
}

static void test_failures(void **state)
{
    (void)state;
    const int codes[] = { 2, 999, 719, 700 };
    for (unsigned order = 0; order < 4; order++) {
        softgpu_set_order(order);
        uint32_t result = 0;
        size_t live = softgpu_live_objects();
        unsigned long before = softgpu_calls();
        OK(careful_program(&result));
        assert_int_equal(result, 0x01010101 * 3 + 1);
        unsigned long n = softgpu_calls() - before;
        for (unsigned long i = 1; i <= n + 1; i++) {
            softgpu_fail_at(i, codes[order]);
            CUresult err = careful_program(&result);
            assert_int_equal(err, i <= n ? codes[order] : 0);
            CUcontext current;
            softgpu_fail_at(0, 0);
            assert_int_equal(softgpu_live_objects(), live);
            OK(cuCtxGetCurrent(&current));
            assert_null(current);
        }
    }
    softgpu_set_order(0);

    softgpu_fail_call("cuMemAlloc_v2", 2, 46);
    uint32_t result;
    OK(careful_program(&result));
    assert_int_equal(careful_program(&result), 46);
    OK(careful_program(&result));

    /* A lost device stays lost. */
    softgpu_fail_call("cuLaunchKernel", 1, 700);
    assert_int_equal(careful_program(&result), 700);
    assert_int_equal(cuInit(0), 700);
    softgpu_fail_at(0, 0);
    OK(careful_program(&result));
}

/* ---- programs that the device ends ---- */

static void child_guard(const char *how)
{
    Gpu g;
    gpu_open(&g, 0);
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, 10 * 4));
    StepArgs a = { p, 11, 1, 1 };
    if (!strcmp(how, "below"))
        a.at -= 4;
    if (!strcmp(how, "kernel") || !strcmp(how, "below")) {
        OK(launch(&g, g.stream, "test_step", 1, 32, 0, &a));
    } else if (!WITH_ASAN) {
        *((unsigned char *)(uintptr_t)p + 40) = 0; /* by the host, so that no kernel shows it */
        if (!strcmp(how, "free"))
            OK(cuMemFree_v2(p));
    }
}

static void child_shared(const char *how)
{
    (void)how;
    Gpu g;
    gpu_open(&g, 0);
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, 16));
    SharedArgs args = { p, 1000, 1 };
    OK(launch(&g, g.stream, "test_dynamic_shared", 1, 64, 1000, &args));
}

/* Dynamic shared memory of so many bytes, asked for or not, beside the kernel's array. */
static void child_arrays(const char *how)
{
    Gpu g;
    gpu_open(&g, 0);
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, 16));
    SharedArgs args = { p, (uint32_t)atoi(how), 0 };
    CUfunction f;
    OK(cuModuleGetFunction(&f, g.module, "test_dynamic_shared"));
    if (strstr(how, "asked"))
        OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)args.bytes));
    OK(launch(&g, g.stream, "test_dynamic_shared", 1, 64, args.bytes, &args));
    OK(cuStreamSynchronize(g.stream));
    printf("ran\n");
}

static void child_diverge(const char *how)
{
    Gpu g;
    gpu_open(&g, 0);
    DivergeArgs args = { (uint32_t)atoi(how) };
    OK(launch(&g, g.stream, "test_diverge", 3, 64, 0, &args));
}

static void child_other_device(const char *how)
{
    (void)how;
    Gpu g[2];
    gpu_open(&g[0], 0);
    uint32_t x = 1;
    StepArgs a = { device_copy(&x, 4), 1, 1, 1 };
    gpu_open(&g[1], 1);
    launch(&g[1], g[1].stream, "test_step", 1, 32, 0, &a);
}

static void child_program(const char *how)
{
    (void)how;
    uint32_t result = 0;
    CUresult err = careful_program(&result);
    printf("error %d result %u live %zu\n", err, result, softgpu_live_objects());
    CUevent leaked;
    CUcontext context;
    if (!strcmp(how, "leak")) {
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxPushCurrent_v2(context));
        OK(cuEventCreate(&leaked, 0));
    }
}

/* For ThreadSanitizer: nothing wrong, or one thing. */
static void child_race(const char *how)
{
    if (!strcmp(how, "barrier") || !strcmp(how, "none")) {
        Gpu g;
        gpu_open(&g, 0);
        uint32_t src[4 * BLOCK] = { 0 };
        CUdeviceptr in = device_copy(src, sizeof(src)), out;
        OK(cuMemAlloc_v2(&out, 8));
        OK(cuMemsetD8Async(out, 0, 8, g.stream));
        SumArgs args = { in, out, 4 * BLOCK, !strcmp(how, "barrier") };
        OK(launch(&g, g.stream, "test_sum", 4, BLOCK, 0, &args));
        OK(cuStreamSynchronize(g.stream));
        OK(cuMemFree_v2(in));
        OK(cuMemFree_v2(out));
        gpu_close(&g);
    }
    if (!strcmp(how, "none"))
        two_streams(CORRECT);
    if (!strcmp(how, "streams"))
        two_streams(NO_STREAM_WAIT);
    if (!strcmp(how, "host"))
        two_streams(NO_FINAL_WAIT);
    if (!strcmp(how, "blocks")) { /* blocks write to the same place */
        Gpu g;
        gpu_open(&g, 0);
        CUdeviceptr p;
        OK(cuMemAlloc_v2(&p, 6 * 8 * BLOCK));
        OutArgs args = { p, 0 };
        OK(launch(&g, g.stream, "test_shuffles", 2, BLOCK, 0, &args));
        OK(cuStreamSynchronize(g.stream));
        OK(cuMemFree_v2(p));
        gpu_close(&g);
    }
}

static const struct {
    const char *name;
    void (*run)(const char *how);
} children[] = {
    { "guard", child_guard },     { "shared", child_shared },
    { "diverge", child_diverge }, { "other_device", child_other_device },
    { "program", child_program }, { "race", child_race },
    { "arrays", child_arrays },
};

extern char **environ;

/* Runs a child with one more variable in its environment (or NULL); its status, and all that it wrote. */
static int run_child(const char *name, const char *how, const char *variable, char *text, size_t size)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    char program[] = "/proc/self/exe";
    char *argv[] = { program, (char *)(uintptr_t)name, (char *)(uintptr_t)how, NULL };
    char *env[300];
    int n = 0;
    while (environ[n] && n < 298) {
        env[n] = environ[n];
        n++;
    }
    if (variable)
        env[n++] = (char *)(uintptr_t)variable;
    env[n] = NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 2);
    posix_spawn_file_actions_addclose(&actions, fds[0]);
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, argv, env), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    size_t length = 0;
    char scrap[1024];
    while (1) {
        ssize_t got =
            length < size - 1 ? read(fds[0], text + length, size - 1 - length) : read(fds[0], scrap, sizeof(scrap));
        if (got <= 0)
            break;
        if (length < size - 1)
            length += (size_t)got;
    }
    text[length] = 0;
    close(fds[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void check_ends(const char *name, const char *how, const char *words)
{
    char text[16384];
    int status = run_child(name, how, NULL, text, sizeof(text));
    if (WIFEXITED(status) && !WEXITSTATUS(status))
        fail_msg("%s %s went on; it said: %s", name, how, text);
    if (!strstr(text, words))
        fail_msg("%s %s: no \"%s\" in: %s", name, how, words, text);
}

static void test_guards(void **state)
{
    (void)state;
    if (WITH_ASAN) { /* the guards are red zones */
        check_ends("guard", "kernel", "AddressSanitizer");
        check_ends("guard", "below", "AddressSanitizer");
        check_ends("shared", "", "AddressSanitizer");
        return;
    }
    check_ends("guard", "kernel",
               "device memory of 40 bytes was written to 0 bytes after its end (seen after kernel "
               "test_step)");
    check_ends("guard", "below", "device memory of 40 bytes was written to 4 bytes before its start");
    check_ends("guard", "free", "device memory of 40 bytes was written to 0 bytes after its end (seen at its release)");
    check_ends("guard", "exit", "device memory of 40 bytes was written to 0 bytes after its end (seen at exit)");
    check_ends("shared", "", "written to 0 bytes after the end of 1000 bytes of dynamic shared memory");
}

/* Shared arrays count, too. */
static void test_shared_memory_in_all(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(run_child("arrays", "49144", NULL, text, sizeof(text)), 0);
    assert_int_equal(run_child("arrays", "49152 asked", NULL, text, sizeof(text)), 0);
    assert_int_equal(run_child("arrays", "65528 asked", "SOFTGPU_SHARED=65536", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "ran"));
    assert_int_not_equal(run_child("arrays", "65537 asked", "SOFTGPU_SHARED=65536", text, sizeof(text)), 0);
    assert_int_not_equal(run_child("arrays", "65536", "SOFTGPU_SHARED=65536", text, sizeof(text)), 0);
    if (WITH_ASAN)
        return; /* arrays are not found */
    check_ends("arrays", "49152",
               "kernel test_dynamic_shared: 8 bytes of shared arrays and 49152 of dynamic shared "
               "memory, the limit is 49152");
    assert_int_not_equal(run_child("arrays", "65536 asked", "SOFTGPU_SHARED=65536", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "8 bytes of shared arrays and 65536 of dynamic shared memory, the limit is 65536"));
}

static void test_divergence(void **state)
{
    (void)state;
    check_ends("diverge", "0", "63 threads (first: 0) waiting at the barrier");
    check_ends("diverge", "1", "threads come to different barriers");
    check_ends("diverge", "2", "threads wait for others that do not come");
    check_ends("diverge", "3", "lanes of a wave come to different wave operations");
    check_ends("other_device", "", "is an address of device 0");
}

/* What the environment sets. */
static void test_environment(void **state)
{
    (void)state;
    char text[4096], path[] = "/tmp/softgpu_test_XXXXXX", variable[64], line[64] = "";
    assert_int_equal(run_child("program", "", "SOFTGPU_WAVE=16", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "error 0 result 50529028 live 0"));
    assert_int_equal(run_child("program", "", "SOFTGPU_FAIL=8", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "error 2 result 0 live 0"));
    assert_int_equal(run_child("program", "", "SOFTGPU_FAIL=cuLaunchKernel:1", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "error 2 result 0 live 0"));
    assert_int_equal(run_child("program", "", "SOFTGPU_MEMORY=3", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "error 2 result 0 live 0"));
    assert_int_equal(run_child("program", "", "SOFTGPU_IMAGES=elf,fatbin", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "error 209 result 0 live 0"));
    assert_int_equal(run_child("program", "", "SOFTGPU_FLIP=1:1", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "error 0 result 50528772 live 0"));
    assert_int_equal(run_child("program", "", "SOFTGPU_FLIP=2", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "error 0 result 50529028 live 0"));
    assert_int_not_equal(run_child("program", "", "SOFTGPU_FLIP=x", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "SOFTGPU_FLIP=x"));
    assert_int_not_equal(run_child("program", "", "SOFTGPU_ORDER=abc", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "SOFTGPU_ORDER=abc"));

    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(variable, sizeof(variable), "SOFTGPU_COUNT=%s", path);
    assert_int_equal(run_child("program", "", variable, text, sizeof(text)), 0);
    FILE *file = fopen(path, "r");
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    assert_string_equal(line, "21\n");
    snprintf(variable, sizeof(variable), "SOFTGPU_LIVE=%s", path);
    assert_int_equal(run_child("program", "leak", variable, text, sizeof(text)), 0);
    file = fopen(path, "r");
    assert_non_null(fgets(line, sizeof(line), file));
    assert_string_equal(line, "context 1\n");
    assert_non_null(fgets(line, sizeof(line), file));
    assert_string_equal(line, "event 1\n");
    assert_null(fgets(line, sizeof(line), file));
    fclose(file);
    unlink(path);
}

#if WITH_TSAN
static void test_races(void **state)
{
    (void)state;
    char text[65536];
    int status = run_child("race", "none", NULL, text, sizeof(text));
    if (status || strstr(text, "WARNING: ThreadSanitizer"))
        fail_msg("a correct program: %s", text);
    check_ends("race", "barrier", "data race");
    check_ends("race", "streams", "data race");
    check_ends("race", "host", "data race");
    check_ends("race", "blocks", "data race");
}
#endif

int main(int argc, char **argv)
{
    setenv("SOFTGPU_DEVICES", "2", 0);
    for (size_t i = 0; argc == 3 && i < sizeof(children) / sizeof(*children); i++) {
        if (!strcmp(argv[1], children[i].name)) {
            children[i].run(argv[2]);
            return 0;
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_wave_operations),
        cmocka_unit_test(test_atomic_operations),
        cmocka_unit_test(test_dynamic_shared_memory),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_copies_2d),
        cmocka_unit_test(test_pageable_and_pinned),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_stream_0),
        cmocka_unit_test(test_destroyed_stream),
        cmocka_unit_test(test_host_threads),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_modules_and_launches),
        cmocka_unit_test(test_error_names),
        cmocka_unit_test(test_entry_points),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_guards),
        cmocka_unit_test(test_shared_memory_in_all),
        cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_environment),
#if WITH_TSAN
        cmocka_unit_test(test_races),
#endif
        cmocka_unit_test(test_contexts), /* last: it leaves what counts as leaked */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
