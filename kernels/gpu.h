/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The C subset that kernels are written in: one text for CUDA (clang without a toolkit, nvcc), HIP (clang) and, with
 * GPU_HOST defined, the software device of the tests.
 *
 *   GPU_FN                  function of the device, inlined
 *   GPU_CONST               table of the device; GPU_SHARED: array of a block, inside a function
 *   GPU_UNROLL              before a loop whose body indexes register arrays; GPU_ROLL: before one to be kept small;
 *                           GPU_UNROLL_BY(n): n bodies at a time
 *   GPU_KERNEL(name, args_type, block_size) { ... }
 *                           entry point; the body sees its only parameter as `args`, of a struct type that the host
 *                           fills, in which addresses are uint64_t. Blocks have exactly block_size threads.
 *   GPU_KERNEL_RESIDENT(name, args_type, block_size, blocks) { ... }
 *                           the same, with so few registers that a multiprocessor holds at least `blocks` blocks
 *   gpu_tid(d), gpu_bid(d), gpu_grid(d)   thread in its block, block in the grid, blocks of the grid; d = 0, 1, 2
 *   gpu_lane(), gpu_wave()  lane in its wave, lanes of a wave: 32 or 64 (the software device has 16, too), never assumed
 *   gpu_barrier()           of the block; orders shared and global memory among its threads
 *   gpu_shfl_*, gpu_ballot  among the lanes of a wave, all of which take part. A lane outside the wave gives the own value
 *   gpu_atomic_*            relaxed, at the scope of the device; return the value before
 *   gpu_fence()             orders accesses to global memory at the scope of the device: this thread's, and with barriers
 *                           before and behind it those of its block, if all threads call gpu_complete_stores() before
 *   gpu_dynamic_shared()    the launch's dynamic shared memory, aligned to 16 bytes
 *   GPU_GLOBAL              qualifier of pointers to device memory: (GPU_GLOBAL float *)address
 *   gpu_load*(address)      of samples and vectors of words; memory that this launch does not write
 *   gpu_read_floats(address, x), gpu_write_floats(address, x)   four floats at a multiple of 16, of memory that may be written
 *   gpu_shared128(pointer), gpu_store128(address, words)   four words at a multiple of 16
 *   gpu_fmaf, gpu_fma, gpu_sqrtf     correctly rounded; gpu_fma is that of doubles
 *   gpu_near_reciprocal(x)  1 / x with an error of at most one unit in the last place, if neither is subnormal: it differs
 *                           from device to device, so that what comes out has to be proven independent of it
 *   gpu_fmaxf, gpu_fminf    of numbers that are no NaNs
 *   gpu_clz64, gpu_popc32, gpu_mulhi64
 *   gpu_dp4a(a, b, c)       c + the sum of products of the four unsigned bytes
 *   gpu_dp2a(a, b, c, half) c + the sum of products of the two signed 16-bit halves of a with the two unsigned bytes of
 *                           b's lower (half = 0) or upper half
 *   gpu_interleave(a, b, half)   bytes a0 b0 a1 b1 (half = 0) or a2 b2 a3 b3, from the lowest up
 *
 * Floating point: every operation rounds, no contraction (-ffp-contract=off, -fmad=false), no
 * approximation but gpu_near_reciprocal().
 */
#ifndef VG_KERNELS_GPU_H
#define VG_KERNELS_GPU_H

#ifdef GPU_HOST

#include "gpu_host.h"
#define GPU_KERNEL_RESIDENT(name, args_type, block_size, blocks) GPU_KERNEL(name, args_type, block_size)
#define GPU_GLOBAL
#define GPU_UNROLL
#define GPU_UNROLL_BY(n)
#define GPU_ROLL

#else

#include <stddef.h> /* clang: with -ffreestanding its own, so that no host header is read */
#include <stdint.h>

#define GPU_PRAGMA(text) _Pragma(#text)
#define GPU_UNROLL       _Pragma("unroll")
#define GPU_UNROLL_BY(n) GPU_PRAGMA(unroll n)
#define GPU_ROLL         _Pragma("unroll 1")

#ifdef __clang__
#define GPU_DEVICE       __attribute__((device))
#define GPU_GLOBAL       __attribute__((address_space(1)))
#define GPU_SHARED       static __attribute__((shared))
#define GPU_CONST        static const __attribute__((constant))
#define GPU_ENTRY        extern "C" __attribute__((global))
#define GPU_SHARED_ALIGN extern __attribute__((shared, aligned(16)))
#else
#define GPU_DEVICE __device__
#define GPU_GLOBAL
#define GPU_SHARED       __shared__
#define GPU_CONST        static __constant__ const
#define GPU_ENTRY        extern "C" __global__
#define GPU_SHARED_ALIGN extern __shared__ __align__(16)
#endif
#define GPU_FN static inline GPU_DEVICE __attribute__((always_inline, unused))

GPU_SHARED_ALIGN uint8_t gpu_dynamic_shared_bytes[];

GPU_FN void *gpu_dynamic_shared(void)
{
    return gpu_dynamic_shared_bytes;
}

#if defined(__HIP__)

/* Lanes of a wave: CDNA's have 64 and, as clang compiles them unasked, RDNA's 32. Its own macro for it is going away. */
#if defined(__GFX9__)
#define GPU_AMD_WAVE 64
#else
#define GPU_AMD_WAVE 32
#endif

#define GPU_KERNEL(name, args_type, block_size)                                                                        \
    GPU_ENTRY __attribute__((amdgpu_flat_work_group_size(block_size, block_size))) void name(const args_type args)
#define GPU_KERNEL_RESIDENT(name, args_type, block_size, blocks) GPU_KERNEL(name, args_type, block_size)

GPU_FN uint32_t gpu_tid(int d)
{
    return d == 0   ? __builtin_amdgcn_workitem_id_x()
           : d == 1 ? __builtin_amdgcn_workitem_id_y()
                    : __builtin_amdgcn_workitem_id_z();
}

GPU_FN uint32_t gpu_bid(int d)
{
    return d == 0   ? __builtin_amdgcn_workgroup_id_x()
           : d == 1 ? __builtin_amdgcn_workgroup_id_y()
                    : __builtin_amdgcn_workgroup_id_z();
}

/* From the dispatch packet, in threads; blocks are one-dimensional. */
GPU_FN uint32_t gpu_grid(int d)
{
    typedef const __attribute__((address_space(4))) uint8_t Packet;
    Packet *packet = (Packet *)__builtin_amdgcn_dispatch_ptr();
    const uint32_t threads = *(const __attribute__((address_space(4))) uint32_t *)(packet + 12 + 4 * d);
    const uint32_t block = *(const __attribute__((address_space(4))) uint16_t *)(packet + 4 + 2 * d);
    return threads / block;
}

GPU_FN uint32_t gpu_lane(void)
{
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
}

GPU_FN uint32_t gpu_wave(void)
{
    return GPU_AMD_WAVE; /* the builtin is a constant too late for loops to be unrolled */
}

GPU_FN void gpu_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

GPU_FN void gpu_fence(void)
{
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent");
}

GPU_FN void gpu_complete_stores(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); /* from gfx90a on barriers do not wait for other waves' stores */
}

GPU_FN uint32_t gpu_shfl_idx32(uint32_t v, uint32_t lane)
{
    const uint32_t from = lane < gpu_wave() ? lane : gpu_lane();
    return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(4 * from), (int)v);
}

GPU_FN uint32_t gpu_shfl_down32(uint32_t v, uint32_t by)
{
    return gpu_shfl_idx32(v, gpu_lane() + by);
}

GPU_FN uint32_t gpu_shfl_up32(uint32_t v, uint32_t by)
{
    return gpu_shfl_idx32(v, gpu_lane() - by); /* below lane 0 the difference wraps: outside, too */
}

GPU_FN uint32_t gpu_shfl_xor32(uint32_t v, uint32_t mask)
{
    return gpu_shfl_idx32(v, gpu_lane() ^ mask);
}

GPU_FN uint64_t gpu_ballot(int p)
{
#if GPU_AMD_WAVE == 64
    return __builtin_amdgcn_ballot_w64(p != 0);
#else
    return __builtin_amdgcn_ballot_w32(p != 0);
#endif
}

#define GPU_ATOMIC(op, p, v) __hip_atomic_fetch_##op(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)

GPU_FN uint64_t gpu_mulhi64(uint64_t a, uint64_t b)
{
    return (uint64_t)(((unsigned __int128)a * b) >> 64);
}

GPU_FN float gpu_near_reciprocal(float x)
{
    return __builtin_amdgcn_rcpf(x);
}

GPU_FN float gpu_sqrtf(float x)
{
    return __builtin_sqrtf(
        x); /* clang 19 corrects the instruction's last bit; older compilers do not and are refused */
}
#if __clang_major__ < 19
#error "HIP kernels need clang 19 or later: older ones round square roots wrongly"
#endif

GPU_FN uint32_t gpu_dp4a(uint32_t a, uint32_t b, uint32_t c)
{
    for (int i = 0; i < 32; i += 8)
        c += (a >> i & 255) * (b >> i & 255);
    return c;
}

#else /* CUDA */

/* A number of resident blocks, even 1, keeps ptxas from spilling registers for the sake of more of them. */
#define GPU_KERNEL(name, args_type, block_size) GPU_KERNEL_RESIDENT(name, args_type, block_size, 1)
#define GPU_KERNEL_RESIDENT(name, args_type, block_size, blocks)                                                       \
    GPU_ENTRY __attribute__((launch_bounds(block_size, GPU_RESIDENT(block_size, blocks)))) void name(                  \
        const args_type args)
#if !defined(__clang__) && __CUDA_ARCH__ < 800 /* 1024 threads; clang's PTX is for all devices */
#define GPU_RESIDENT(block_size, blocks) ((block_size) * (blocks) > 1024 ? 1024 / (block_size) : (blocks))
#else
#define GPU_RESIDENT(block_size, blocks) (blocks)
#endif

#ifdef __clang__

GPU_FN uint32_t gpu_tid(int d)
{
    return (uint32_t)(d == 0   ? __nvvm_read_ptx_sreg_tid_x()
                      : d == 1 ? __nvvm_read_ptx_sreg_tid_y()
                               : __nvvm_read_ptx_sreg_tid_z());
}

GPU_FN uint32_t gpu_bid(int d)
{
    return (uint32_t)(d == 0   ? __nvvm_read_ptx_sreg_ctaid_x()
                      : d == 1 ? __nvvm_read_ptx_sreg_ctaid_y()
                               : __nvvm_read_ptx_sreg_ctaid_z());
}

GPU_FN uint32_t gpu_grid(int d)
{
    return (uint32_t)(d == 0   ? __nvvm_read_ptx_sreg_nctaid_x()
                      : d == 1 ? __nvvm_read_ptx_sreg_nctaid_y()
                               : __nvvm_read_ptx_sreg_nctaid_z());
}

#define GPU_LANE()             __nvvm_read_ptx_sreg_laneid()
#define GPU_BARRIER()          __syncthreads()
#define GPU_SHFL(kind, v, by)  __nvvm_shfl_sync_##kind##_i32(~0u, (int)(v), (int)(by), GPU_SHFL_##kind)
#define GPU_SHFL_down          31
#define GPU_SHFL_up            0
#define GPU_SHFL_bfly          31
#define GPU_SHFL_idx           31
#define GPU_BALLOT(p)          __nvvm_vote_ballot_sync(~0u, p)
#define GPU_SQRTF(x)           __nvvm_sqrt_rn_f(x)
#define GPU_PRMT(a, b, bytes)  ((uint32_t)__nvvm_prmt(a, b, bytes))
#define GPU_MULHI(a, b)        __nvvm_mulhi_ull(a, b)
#define gpu_atomic_add64(p, v) ((uint64_t)__nvvm_atom_add_gen_ll((long long *)(p), (long long)(v)))
#define gpu_atomic_add32(p, v) ((uint32_t)__nvvm_atom_add_gen_i((int *)(p), (int)(v)))
#define gpu_atomic_max32(p, v) __nvvm_atom_max_gen_ui(p, v)
#define gpu_atomic_or32(p, v)  ((uint32_t)__nvvm_atom_or_gen_i((int *)(p), (int)(v)))

#else /* nvcc */

GPU_FN uint32_t gpu_tid(int d)
{
    return d == 0 ? threadIdx.x : d == 1 ? threadIdx.y : threadIdx.z;
}

GPU_FN uint32_t gpu_bid(int d)
{
    return d == 0 ? blockIdx.x : d == 1 ? blockIdx.y : blockIdx.z;
}

GPU_FN uint32_t gpu_grid(int d)
{
    return d == 0 ? gridDim.x : d == 1 ? gridDim.y : gridDim.z;
}

GPU_FN uint32_t gpu_nvcc_lane(void)
{
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

#define GPU_LANE()             gpu_nvcc_lane()
#define GPU_BARRIER()          __syncthreads()
#define GPU_SHFL(kind, v, by)  GPU_SHFL_##kind(~0u, v, by)
#define GPU_SHFL_down          __shfl_down_sync
#define GPU_SHFL_up            __shfl_up_sync
#define GPU_SHFL_bfly          __shfl_xor_sync
#define GPU_SHFL_idx           __shfl_sync
#define GPU_BALLOT(p)          __ballot_sync(~0u, p)
#define GPU_SQRTF(x)           __fsqrt_rn(x)
#define GPU_PRMT(a, b, bytes)  __byte_perm(a, b, bytes)
#define GPU_MULHI(a, b)        __umul64hi(a, b)
#define gpu_atomic_add64(p, v) ((uint64_t)atomicAdd((unsigned long long *)(p), (unsigned long long)(v)))
#define gpu_atomic_add32(p, v) atomicAdd(p, v)
#define gpu_atomic_max32(p, v) atomicMax(p, v)
#define gpu_atomic_or32(p, v)  atomicOr(p, v)

#endif

GPU_FN uint32_t gpu_lane(void)
{
    return (uint32_t)GPU_LANE();
}

GPU_FN uint32_t gpu_wave(void)
{
    return 32;
}

GPU_FN void gpu_barrier(void)
{
    GPU_BARRIER();
}

GPU_FN void gpu_fence(void)
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory"); /* __threadfence() is the slower, sequentially consistent one */
}

GPU_FN void gpu_complete_stores(void)
{
    /* fences are cumulative: gpu_fence() orders what barriers have ordered before it */
}

GPU_FN uint32_t gpu_shfl_down32(uint32_t v, uint32_t by)
{
    return (uint32_t)GPU_SHFL(down, v, by);
}

GPU_FN uint32_t gpu_shfl_up32(uint32_t v, uint32_t by)
{
    return (uint32_t)GPU_SHFL(up, v, by);
}

GPU_FN uint32_t gpu_shfl_xor32(uint32_t v, uint32_t mask)
{
    return (uint32_t)GPU_SHFL(bfly, v, mask);
}

GPU_FN uint32_t gpu_shfl_idx32(uint32_t v, uint32_t lane)
{
    return (uint32_t)GPU_SHFL(idx, v, lane);
}

GPU_FN uint64_t gpu_ballot(int p)
{
    return (uint32_t)GPU_BALLOT(p != 0);
}

GPU_FN uint64_t gpu_mulhi64(uint64_t a, uint64_t b)
{
    return GPU_MULHI(a, b);
}

GPU_FN float gpu_near_reciprocal(float x)
{
#ifdef __clang__
    return __nvvm_rcp_approx_ftz_f(x);
#else
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
    return reciprocal;
#endif
}

GPU_FN float gpu_sqrtf(float x)
{
    return GPU_SQRTF(x);
}

#define GPU_DP2A 1

GPU_FN int32_t gpu_dp2a(uint32_t a, uint32_t b, int32_t c, const int half)
{
    int32_t sum;
    if (half)
        asm("dp2a.hi.s32.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    else
        asm("dp2a.lo.s32.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

GPU_FN uint32_t gpu_interleave(uint32_t a, uint32_t b, const int half)
{
    return GPU_PRMT(a, b, half ? 0x7362u : 0x5140u);
}

GPU_FN uint32_t gpu_dp4a(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t sum;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

#endif /* CUDA */

#ifdef GPU_ATOMIC
GPU_FN uint64_t gpu_atomic_add64(uint64_t *p, uint64_t v)
{
    return GPU_ATOMIC(add, p, v);
}

GPU_FN uint32_t gpu_atomic_add32(uint32_t *p, uint32_t v)
{
    return GPU_ATOMIC(add, p, v);
}

GPU_FN uint32_t gpu_atomic_max32(uint32_t *p, uint32_t v)
{
    return GPU_ATOMIC(max, p, v);
}

GPU_FN uint32_t gpu_atomic_or32(uint32_t *p, uint32_t v)
{
    return GPU_ATOMIC(or, p, v);
}
#endif

GPU_FN uint64_t gpu_shfl_down64(uint64_t v, uint32_t by)
{
    const uint32_t low = gpu_shfl_down32((uint32_t)v, by), high = gpu_shfl_down32((uint32_t)(v >> 32), by);
    return (uint64_t)high << 32 | low;
}

GPU_FN uint64_t gpu_shfl_up64(uint64_t v, uint32_t by)
{
    const uint32_t low = gpu_shfl_up32((uint32_t)v, by), high = gpu_shfl_up32((uint32_t)(v >> 32), by);
    return (uint64_t)high << 32 | low;
}

GPU_FN uint64_t gpu_shfl_idx64(uint64_t v, uint32_t lane)
{
    const uint32_t low = gpu_shfl_idx32((uint32_t)v, lane), high = gpu_shfl_idx32((uint32_t)(v >> 32), lane);
    return (uint64_t)high << 32 | low;
}

GPU_FN float gpu_fmaf(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

GPU_FN double gpu_fma(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

GPU_FN float gpu_fmaxf(float a, float b)
{
    return __builtin_fmaxf(a, b);
}

GPU_FN float gpu_fminf(float a, float b)
{
    return __builtin_fminf(a, b);
}

GPU_FN int gpu_clz64(uint64_t x)
{
#ifdef __clang__
    return x ? __builtin_clzll(x) : 64;
#else
    return __clzll((long long)x);
#endif
}

GPU_FN uint32_t gpu_popc32(uint32_t x)
{
#ifdef __clang__
    return (uint32_t)__builtin_popcount(x);
#else
    return (uint32_t)__popc((int)x);
#endif
}

#endif /* GPU_HOST */

#define VG_FN            GPU_FN
#define VG_SQRTF(x)      gpu_sqrtf(x)
#define VG_FMAF(x, y, z) gpu_fmaf(x, y, z)
#define VG_FMA(x, y, z)  gpu_fma(x, y, z)
#define VG_FMAXF(x, y)   gpu_fmaxf(x, y)
#define VG_FMINF(x, y)   gpu_fminf(x, y)

#define VG_NEAR_RECIPROCALF(x) gpu_near_reciprocal(x)

#ifndef GPU_DP2A /* where it is no instruction */
GPU_FN int32_t gpu_dp2a(uint32_t a, uint32_t b, int32_t c, const int half)
{
    b >>= 16 * half;
    return c + (int16_t)a * (int32_t)(b & 0xff) + (int16_t)(a >> 16) * (int32_t)(b >> 8 & 0xff);
}

GPU_FN uint32_t gpu_interleave(uint32_t a, uint32_t b, const int half)
{
    a >>= 16 * half;
    b >>= 16 * half;
    return (a & 0xff) | (b & 0xff) << 8 | (a & 0xff00) << 8 | (b & 0xff00) << 16;
}
#endif

/* ---- Loads of memory that the launch does not write ---------------------------------------------------------------- */

/** Words of a vector load, in order of addresses. */
typedef struct GpuWords {
    uint32_t w[4];
} GpuWords;

#if defined(__CUDACC__) && !defined(__clang__)
#define GPU_LOAD(type, address) __ldg((const type *)(address))
#else
#define GPU_LOAD(type, address) (*(const GPU_GLOBAL type *)(address))
#endif

GPU_FN uint32_t gpu_load8(uint64_t address)
{
    return GPU_LOAD(uint8_t, address);
}

GPU_FN uint32_t gpu_load16(uint64_t address)
{
    return GPU_LOAD(uint16_t, address);
}

GPU_FN uint32_t gpu_load32(uint64_t address)
{
    return GPU_LOAD(uint32_t, address);
}

GPU_FN float gpu_loadf(uint64_t address)
{
    return GPU_LOAD(float, address);
}

/** Two words; the address is a multiple of 8. */
GPU_FN GpuWords gpu_load64(uint64_t address)
{
#if defined(__CUDACC__) && !defined(__clang__)
    const uint2 v = GPU_LOAD(uint2, address);
    const GpuWords words = { { v.x, v.y, 0, 0 } };
#else
    typedef uint32_t Vector __attribute__((vector_size(8)));
    const Vector v = GPU_LOAD(Vector, address);
    const GpuWords words = { { v[0], v[1], 0, 0 } };
#endif
    return words;
}

/** Four words; the address is a multiple of 16. */
GPU_FN GpuWords gpu_load128(uint64_t address)
{
#if defined(__CUDACC__) && !defined(__clang__)
    const uint4 v = GPU_LOAD(uint4, address);
    const GpuWords words = { { v.x, v.y, v.z, v.w } };
#else
    typedef uint32_t Vector __attribute__((vector_size(16)));
    const Vector v = GPU_LOAD(Vector, address);
    const GpuWords words = { { v[0], v[1], v[2], v[3] } };
#endif
    return words;
}

/* ---- Vectors of memory that the launch writes, too ------------------------------------------------------------------ */

GPU_FN void gpu_read_floats(uint64_t address, float *x)
{
#if defined(__CUDACC__) && !defined(__clang__)
    const float4 v = *(const float4 *)address;
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
#else
    typedef float Vector __attribute__((vector_size(16), may_alias));
    const Vector v = *(const GPU_GLOBAL Vector *)address;
    x[0] = v[0], x[1] = v[1], x[2] = v[2], x[3] = v[3];
#endif
}

GPU_FN void gpu_write_floats(uint64_t address, const float *x)
{
#if defined(__CUDACC__) && !defined(__clang__)
    *(float4 *)address = make_float4(x[0], x[1], x[2], x[3]);
#else
    typedef float Vector __attribute__((vector_size(16), may_alias));
    const Vector v = { x[0], x[1], x[2], x[3] };
    *(GPU_GLOBAL Vector *)address = v;
#endif
}

/** Four words of shared memory, at a multiple of 16. */
GPU_FN GpuWords gpu_shared128(const void *from)
{
#if defined(__CUDACC__) && !defined(__clang__)
    const uint4 v = *(const uint4 *)from;
    const GpuWords words = { { v.x, v.y, v.z, v.w } };
#else
    typedef uint32_t Vector __attribute__((vector_size(16), may_alias));
    const Vector v = *(const Vector *)from;
    const GpuWords words = { { v[0], v[1], v[2], v[3] } };
#endif
    return words;
}

/** Four words to a multiple of 16. */
GPU_FN void gpu_store128(uint64_t address, GpuWords words)
{
#if defined(__CUDACC__) && !defined(__clang__)
    *(uint4 *)address = make_uint4(words.w[0], words.w[1], words.w[2], words.w[3]);
#else
    typedef uint32_t Vector __attribute__((vector_size(16), may_alias));
    const Vector v = { words.w[0], words.w[1], words.w[2], words.w[3] };
    *(GPU_GLOBAL Vector *)address = v;
#endif
}

#endif
