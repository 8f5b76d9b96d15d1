/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Sums over a block and the election of a grid's last block. All threads of a block take part in each function.
 */
#ifndef VG_KERNELS_BLOCK_H
#define VG_KERNELS_BLOCK_H

#include "kernels/gpu.h"
#include "shared_math/bits.h"

#define GPU_MAX_WAVES 64 /* of a block of 1024 threads, in waves of 16 */

/* Sum of v over the block, or the union of its bits, in thread 0. */
GPU_FN uint64_t gpu_block_join64(uint64_t v, const uint32_t block_size, const int unite)
{
    GPU_SHARED uint64_t parts[GPU_MAX_WAVES];
    const uint32_t wave = gpu_wave();

    for (uint32_t by = wave / 2; by; by /= 2) {
        const uint64_t other = gpu_shfl_down64(v, by);
        v = unite ? v | other : v + other;
    }
    gpu_barrier(); /* the array may still be read by an earlier call */
    if (gpu_lane() == 0)
        parts[gpu_tid(0) / wave] = v;
    gpu_barrier();
    if (gpu_tid(0) == 0)
        for (uint32_t i = 1; i < block_size / wave; i++)
            v = unite ? v | parts[i] : v + parts[i];
    return v;
}

/** Sum of v over the block, in thread 0. */
GPU_FN uint64_t gpu_block_sum64(uint64_t v, const uint32_t block_size)
{
    return gpu_block_join64(v, block_size, 0);
}

/** Union of the bits of v over the block, in thread 0. */
GPU_FN uint64_t gpu_block_or64(uint64_t v, const uint32_t block_size)
{
    return gpu_block_join64(v, block_size, 1);
}

/** Sum of v over the lanes before this one and itself. */
GPU_FN uint32_t gpu_wave_scan32(uint32_t v)
{
    GPU_UNROLL
    for (uint32_t by = 1; by < 64; by *= 2) {
        if (by >= gpu_wave())
            break;
        const uint32_t other = gpu_shfl_up32(v, by);
        v += gpu_lane() >= by ? other : 0;
    }
    return v;
}

/** How many lanes of a ballot there are. */
GPU_FN uint32_t gpu_count_lanes(uint64_t lanes)
{
    return gpu_popc32((uint32_t)lanes) + gpu_popc32((uint32_t)(lanes >> 32));
}

/** The first of the lanes of a ballot, of which there is one. */
GPU_FN uint32_t gpu_first_lane(uint64_t lanes)
{
    return gpu_count_lanes((lanes & (0 - lanes)) - 1);
}

/** Sum of v over the threads before this one; that over all is stored to `total`. */
GPU_FN uint32_t gpu_block_scan32(uint32_t v, uint32_t *total, const uint32_t block_size)
{
    GPU_SHARED uint32_t parts[GPU_MAX_WAVES];
    const uint32_t wave = gpu_wave(), own = gpu_tid(0) / wave, sum = gpu_wave_scan32(v);
    uint32_t before = sum - v, all = 0;

    gpu_barrier(); /* the array may still be read by an earlier call */
    if (gpu_lane() == wave - 1)
        parts[own] = sum;
    gpu_barrier();
    for (uint32_t w = 0; w < block_size / wave; w++) {
        before += w < own ? parts[w] : 0;
        all += parts[w];
    }
    *total = all;
    return before;
}

/**
 * Sums of n doubles each over the block, in trees of fixed shape. sums[i] is valid in the first lane of wave i % (waves
 * of the block). n is at most GPU_MAX_SUMS, and block_size / wave at most GPU_MAX_SUM_WAVES.
 */
#define GPU_MAX_SUMS      6
#define GPU_MAX_SUM_WAVES 32
GPU_FN void gpu_block_sumds(double *sums, const int n, uint32_t wanted, const uint32_t block_size)
{
    GPU_SHARED double parts[GPU_MAX_SUMS][GPU_MAX_SUM_WAVES];
    const uint32_t wave = gpu_wave(), n_waves = block_size / wave;

    gpu_barrier(); /* the array may still be read by an earlier call */
    GPU_UNROLL
    for (int i = 0; i < n; i++) {
        if (!(wanted >> i & 1))
            continue;
        for (uint32_t by = wave / 2; by; by /= 2)
            sums[i] += vg_bits_double(gpu_shfl_down64(vg_double_bits(sums[i]), by));
        if (gpu_lane() == 0)
            parts[i][gpu_tid(0) / wave] = sums[i];
    }
    gpu_barrier();
    GPU_UNROLL
    for (int i = 0; i < n; i++) {
        if (!(wanted >> i & 1) || (uint32_t)i % n_waves != gpu_tid(0) / wave)
            continue;
        double sum = 0;
        for (uint32_t w = gpu_lane(); w < n_waves; w += wave)
            sum += parts[i][w];
        for (uint32_t by = wave / 2; by; by /= 2)
            sum += vg_bits_double(gpu_shfl_down64(vg_double_bits(sum), by));
        sums[i] = sum;
    }
}

/**
 * Whether this block is the last of n_blocks to come here; then it sees everything that the others wrote before. The
 * counter at address `counter` (uint32_t) is 0 at first and is left so.
 */
GPU_FN int gpu_last_block(uint64_t counter, uint32_t n_blocks)
{
    GPU_SHARED uint32_t last;

    gpu_complete_stores();
    gpu_barrier();
    if (gpu_tid(0) == 0) {
        uint32_t *const done = (uint32_t *)counter;
        /* With the barriers, these fences order the accesses of the whole block. */
        gpu_fence();
        last = gpu_atomic_add32(done, 1) == n_blocks - 1;
        if (last)
            gpu_atomic_add32(done, 0u - n_blocks);
        gpu_fence();
    }
    gpu_barrier();
    return last != 0;
}

#endif
