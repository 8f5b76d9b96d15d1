/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * psnr on the device: sums of squared errors of all planes in one launch. Definition: docs/numerics.md, psnr.
 *
 * Bytes: both pictures once. A thread reads the same 16 bytes of a few rows of both pictures, all before it uses any.
 * Everything is an integer, so the order of atomics is free.
 */
#include "kernels/block.h"
#include "kernels/gpu.h"
#include "kernels/psnr_args.h"
#include "kernels/samples.h"
#include "shared_math/psnr.h"

/* Sums of a thread: of the part's component, and of the next one if the two share rows. */
typedef struct PsnrSums {
    uint64_t sse[2];
} PsnrSums;

/*
 * r^2 + d^2 - 2 r d modulo 2^32; a thread's sum, at most 64 squares of bytes, is below that. Of pairs, bytes 0 and 2 are
 * Cb: leaving the others out of one factor leaves them out of the product.
 */
GPU_FN void psnr_bytes(const GpuWords *ref, const GpuWords *dist, PsnrSums *sums, const int pairs)
{
    uint32_t squares = 0, products = 0, cb_squares = 0, cb_products = 0;

    GPU_UNROLL
    for (int row = 0; row < VG_PSNR_ROWS; row++) {
        GPU_UNROLL
        for (int i = 0; i < 4; i++) {
            const uint32_t r = ref[row].w[i], d = dist[row].w[i];
            squares = gpu_dp4a(d, d, gpu_dp4a(r, r, squares));
            products = gpu_dp4a(r, d, products);
            if (pairs) {
                const uint32_t cb_r = r & 0x00ff00ff, cb_d = d & 0x00ff00ff;
                cb_squares = gpu_dp4a(cb_d, d, gpu_dp4a(cb_r, r, cb_squares));
                cb_products = gpu_dp4a(cb_r, d, cb_products);
            }
        }
    }
    const uint32_t sse = squares - 2 * products, cb = cb_squares - 2 * cb_products;
    sums->sse[0] = pairs ? cb : sse;
    sums->sse[1] = pairs ? sse - cb : 0;
}

GPU_FN void psnr_words(const GpuWords *ref, const GpuWords *dist, int32_t ref_shift, int32_t dist_shift, PsnrSums *sums,
                       const int pairs)
{
    uint64_t low = 0, high = 0;

    GPU_UNROLL
    for (int row = 0; row < VG_PSNR_ROWS; row++) {
        GPU_UNROLL
        for (int i = 0; i < 4; i++) {
            const uint32_t r = ref[row].w[i], d = dist[row].w[i];
            low += vg_psnr_square((int32_t)((r & 0xffff) >> ref_shift), (int32_t)((d & 0xffff) >> dist_shift));
            high += vg_psnr_square((int32_t)((r >> 16) >> ref_shift), (int32_t)((d >> 16) >> dist_shift));
        }
    }
    sums->sse[0] = pairs ? low : low + high;
    sums->sse[1] = pairs ? high : 0;
}

/* A thread's samples of the rows first .. first + VG_PSNR_ROWS - 1, vectors of 16 bytes from byte `offset` of a row. */
GPU_FN void psnr_vectors(const VgPsnrPart *part, int32_t offset, int32_t first, PsnrSums *sums)
{
    const GpuWords none = { { 0, 0, 0, 0 } };
    const int32_t last = part->ref.height - 1;
    GpuWords ref[VG_PSNR_ROWS], dist[VG_PSNR_ROWS];

    /* Rows below the plane are loaded from its last row and then taken out, so that no load waits for a branch. */
    GPU_UNROLL
    for (int row = 0; row < VG_PSNR_ROWS; row++) {
        const int32_t y = first + row < last ? first + row : last;
        ref[row] = gpu_load128(gpu_row(&part->ref, y) + (uint64_t)offset);
        dist[row] = gpu_load128(gpu_row(&part->dist, y) + (uint64_t)offset);
    }
    if (first + VG_PSNR_ROWS - 1 > last) {
        GPU_UNROLL
        for (int row = 0; row < VG_PSNR_ROWS; row++)
            if (first + row > last)
                ref[row] = dist[row] = none;
    }
    switch (part->mode) {
    case VG_PSNR_BYTES:
        psnr_bytes(ref, dist, sums, 0);
        break;
    case VG_PSNR_BYTE_PAIRS:
        psnr_bytes(ref, dist, sums, 1);
        break;
    case VG_PSNR_WORDS:
        psnr_words(ref, dist, part->ref.shift, part->dist.shift, sums, 0);
        break;
    default:
        psnr_words(ref, dist, part->ref.shift, part->dist.shift, sums, 1);
    }
}

/* The same for columns first_x .. end_x - 1, sample by sample: ends of rows, and layouts that vectors do not fit. */
GPU_FN void psnr_samples(const VgPsnrPart *part, int32_t first_x, int32_t end_x, int32_t first, PsnrSums *sums)
{
    const int pairs = part->mode == VG_PSNR_BYTE_PAIRS || part->mode == VG_PSNR_WORD_PAIRS;
    const int32_t height = part->ref.height;
    const int32_t end = height - first < VG_PSNR_ROWS ? height : first + VG_PSNR_ROWS;

    for (int c = 0; c <= pairs; c++)
        for (int32_t y = first; y < end; y++) {
            const uint64_t ref = gpu_row(&part->ref, y) + (uint64_t)(c * part->ref.sample_bytes);
            const uint64_t dist = gpu_row(&part->dist, y) + (uint64_t)(c * part->dist.sample_bytes);
            uint64_t sse = 0;
            for (int32_t x = first_x; x < end_x; x++)
                sse += vg_psnr_square(gpu_row_sample(&part->ref, ref, x), gpu_row_sample(&part->dist, dist, x));
            sums->sse[0] += c ? 0 : sse;
            sums->sse[1] += c ? sse : 0;
        }
}

/*
 * Adds a block's sum of a component, to which n_blocks blocks add. Where sum and number of blocks fit one word, a single
 * atomic adds both and tells the last block the total. Else the blocks are counted beside the sum.
 */
GPU_FN void psnr_add(const VgPsnrArgs *args, int32_t component, uint64_t sse, uint32_t n_blocks)
{
    GPU_GLOBAL VgPsnrState *const state = (GPU_GLOBAL VgPsnrState *)args->state;
    uint64_t *const sum = (uint64_t *)&state->sse[component];
    uint32_t *const blocks = (uint32_t *)&state->blocks[component];
    uint64_t total;

    if (args->sum_bits) {
        const uint64_t one = (uint64_t)1 << args->sum_bits;
        total = gpu_atomic_add64(sum, one + sse) + one + sse;
        if (total >> args->sum_bits != n_blocks)
            return;
        gpu_atomic_add64(sum, 0 - total);
        total &= one - 1;
    } else {
        gpu_atomic_add64(sum, sse);
        gpu_fence();
        if (gpu_atomic_add32(blocks, 1) != n_blocks - 1)
            return;
        gpu_fence();
        total = gpu_atomic_add64(sum, 0); /* as atomics left it, past all caches */
        gpu_atomic_add64(sum, 0 - total);
        gpu_atomic_add32(blocks, 0 - n_blocks);
    }
    ((GPU_GLOBAL VgPsnrRecord *)args->record)->sse[component] = total;
    if (component == 0 && args->luma_only)
        for (int c = 1; c < 3; c++)
            ((GPU_GLOBAL VgPsnrRecord *)args->record)->sse[c] = 0;
}

GPU_KERNEL_RESIDENT(psnr, VgPsnrArgs, VG_PSNR_BLOCK, 4)
{
    const uint32_t block = gpu_bid(0);
    const int p = (args.n_parts > 1 && block >= args.parts[1].first_block) +
                  (args.n_parts > 2 && block >= args.parts[2].first_block);
    const VgPsnrPart part = args.parts[p];
    const uint32_t thread = (block - part.first_block) * VG_PSNR_BLOCK + gpu_tid(0);
    const int32_t first = (int32_t)(thread / (uint32_t)part.groups) * VG_PSNR_ROWS;
    const int32_t group = (int32_t)(thread % (uint32_t)part.groups);
    const int pairs = part.mode == VG_PSNR_BYTE_PAIRS || part.mode == VG_PSNR_WORD_PAIRS;
    const int32_t per_group = part.mode == VG_PSNR_BYTES ? 16 : part.mode == VG_PSNR_WORD_PAIRS ? 4 : 8; /* samples */
    const int32_t x = group * per_group, width = part.ref.width;
    PsnrSums sums = { { 0, 0 } };

    if (first < part.ref.height) {
        if (part.mode != VG_PSNR_SAMPLES && x + per_group <= width)
            psnr_vectors(&part, group * 16, first, &sums);
        else
            psnr_samples(&part, x, x + per_group < width ? x + per_group : width, first, &sums);
    }
    sums.sse[0] = gpu_block_sum64(sums.sse[0], VG_PSNR_BLOCK);
    if (pairs)
        sums.sse[1] = gpu_block_sum64(sums.sse[1], VG_PSNR_BLOCK);
    if (gpu_tid(0) != 0)
        return;

    for (int i = 0; i <= pairs; i++)
        psnr_add(&args, part.component + i, sums.sse[i], part.blocks);
}
