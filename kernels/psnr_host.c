/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * psnr's launch: one for all planes.
 */
#include "kernels/kernel_host.h"
#include "kernels/psnr_args.h"
#include "shared_math/psnr.h"

static size_t work_size(const void *params)
{
    (void)params;
    return sizeof(VgPsnrState);
}

static int plan(const void *params, const VgLauncher *launcher, uint64_t work)
{
    (void)params;
    return launcher->fill(launcher->context, work, 0, sizeof(VgPsnrState));
}

static VgDevicePlane cut(VgDevicePlane plane, int32_t width, int32_t height)
{
    plane.width = width;
    plane.height = height;
    return plane;
}

/* Whether Cr's samples follow Cb's in every pair of a row. */
static int paired(const VgDevicePlane planes[3])
{
    const int32_t bytes = planes[1].sample_bytes;
    return planes[2].sample_bytes == bytes && planes[1].step == 2 * bytes && planes[2].step == 2 * bytes &&
           planes[2].address == planes[1].address + (uint64_t)bytes && planes[2].pitch == planes[1].pitch &&
           planes[2].shift == planes[1].shift;
}

static VgPsnrMode mode_of(const VgDevicePlane *ref, const VgDevicePlane *dist, int pairs)
{
    const int32_t bytes = ref->sample_bytes;

    if (dist->sample_bytes != bytes || !vg_plane_aligned(ref, 16) || !vg_plane_aligned(dist, 16))
        return VG_PSNR_SAMPLES;
    if (pairs)
        return bytes == 1 ? VG_PSNR_BYTE_PAIRS : VG_PSNR_WORD_PAIRS;
    if (!vg_plane_dense(ref, bytes) || !vg_plane_dense(dist, bytes))
        return VG_PSNR_SAMPLES;
    return bytes == 1 ? VG_PSNR_BYTES : VG_PSNR_WORDS;
}

static int32_t bits_of(uint64_t x)
{
    int32_t bits = 0;
    while (bits < 64 && x >> bits)
        bits++;
    return bits;
}

/* Bits of the greatest sum that any words of these planes can make, or 0 if a number of blocks does not fit beside it. */
static int32_t sum_bits(const VgPsnrArgs *args)
{
    int32_t most = 0, blocks = 0;

    for (int32_t i = 0; i < args->n_parts; i++) {
        const VgPsnrPart *part = &args->parts[i];
        const int32_t ref = 8 * part->ref.sample_bytes - part->ref.shift;
        const int32_t dist = 8 * part->dist.sample_bytes - part->dist.shift;
        const int32_t bits =
            bits_of((uint64_t)part->ref.width * (uint64_t)part->ref.height) + 2 * (ref > dist ? ref : dist);
        most = bits > most ? bits : most;
        blocks = bits_of(part->blocks) > blocks ? bits_of(part->blocks) : blocks;
    }
    return most + blocks <= 64 ? most : 0;
}

static int enqueue(const void *params_v, const VgLauncher *launcher, const VgDeviceFrame *frame, uint64_t work,
                   uint64_t record)
{
    const VgPsnrParams *params = params_v;
    const VgDevicePlane *ref = frame->ref[0], *dist = frame->dist[0];
    VgPsnrArgs args = { .state = work, .record = record };
    uint32_t blocks = 0;

    for (int c = 0; c < 3; c++) {
        static const int32_t per_group[] = { 16, 8, 8, 4, 8 };
        const int32_t width = params->width[c], height = params->height[c];
        VgPsnrPart *part = &args.parts[args.n_parts];

        if (width == 0 || height == 0)
            continue;
        VgPsnrMode mode = mode_of(&ref[c], &dist[c], 0);
        if (c == 1 && params->width[2] == width && params->height[2] == height && paired(ref) && paired(dist))
            mode = mode_of(&ref[c], &dist[c], 1);
        *part = (VgPsnrPart){
            .ref = cut(ref[c], width, height),
            .dist = cut(dist[c], width, height),
            .mode = (int32_t)mode,
            .component = c,
            .groups = (width + per_group[mode] - 1) / per_group[mode],
            .first_block = blocks,
        };
        const uint64_t threads = (uint64_t)part->groups * vg_divide_up((uint64_t)height, VG_PSNR_ROWS);
        part->blocks = vg_divide_up(threads, VG_PSNR_BLOCK);
        blocks += part->blocks;
        args.n_parts++;
        if (mode == VG_PSNR_BYTE_PAIRS || mode == VG_PSNR_WORD_PAIRS)
            break;
    }
    if (blocks == 0)
        return launcher->fill(launcher->context, record, 0, sizeof(VgPsnrRecord));
    args.sum_bits = sum_bits(&args);
    args.luma_only = args.n_parts == 1;
    return vg_launch(launcher, "psnr", blocks, VG_PSNR_BLOCK, 0, &args, sizeof(args));
}

static const VgKernel kernels[] = { { "psnr", 0 }, { 0 } };

const VgDeviceMetric vg_device_psnr = {
    .kernels = kernels,
    .work_size = work_size,
    .plan = plan,
    .enqueue = enqueue,
};
