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

/** Sum of v over the block, in thread 0. */
GPU_FN uint64_t gpu_block_sum64(uint64_t v, const uint32_t block_size)
{
    GPU_SHARED uint64_t parts[GPU_MAX_WAVES];
    const uint32_t wave = gpu_wave();

    for (uint32_t by = wave / 2; by; by /= 2)
        v += gpu_shfl_down64(v, by);
    gpu_barrier(); /* the array may still be read by an earlier call */
    if (gpu_lane() == 0)
        parts[gpu_tid(0) / wave] = v;
    gpu_barrier();
    if (gpu_tid(0) == 0)
        for (uint32_t i = 1; i < block_size / wave; i++)
            v += parts[i];
    return v;
}

/** The same for doubles: a tree of fixed shape. */
GPU_FN double gpu_block_sumd(double v, const uint32_t block_size)
{
    GPU_SHARED double parts[GPU_MAX_WAVES];
    const uint32_t wave = gpu_wave();

    for (uint32_t by = wave / 2; by; by /= 2)
        v += vg_bits_double(gpu_shfl_down64(vg_double_bits(v), by));
    gpu_barrier();
    if (gpu_lane() == 0)
        parts[gpu_tid(0) / wave] = v;
    gpu_barrier();
    if (gpu_tid(0) == 0)
        for (uint32_t i = 1; i < block_size / wave; i++)
            v += parts[i];
    return v;
}

/**
 * Whether this block is the last of n_blocks to come here; then it sees everything that the others wrote before. The
 * counter at address `counter` (uint32_t) is 0 at first and is left so.
 */
GPU_FN int gpu_last_block(uint64_t counter, uint32_t n_blocks)
{
    GPU_SHARED uint32_t last;

    gpu_fence();
    gpu_barrier();
    if (gpu_tid(0) == 0) {
        uint32_t *const done = (uint32_t *)counter;
        last = gpu_atomic_add32(done, 1) == n_blocks - 1;
        if (last)
            gpu_atomic_add32(done, 0u - n_blocks);
    }
    gpu_barrier();
    gpu_fence();
    return last != 0;
}

#endif
