/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * float_ssim on the CPU.
 */
#include "cpu_ref/cpu.h"
#include "cpu_ref/metrics.h"
#include "cpu_ref/x86/variants.h"

#define VG_LINKAGE static
#define VG_RUN     float_ssim_c
#include "cpu_ref/float_ssim_body.h"

size_t vg_float_ssim_scratch(const VgFloatSsimParams *params, void *memory, VgFloatSsimScratch *scratch)
{
    const int32_t width = params->width, out_width = params->out_width;
    size_t used = 0;

    scratch->samples = vg_take_row(memory, &used, width, sizeof(uint16_t));
    scratch->integer_sums = vg_take_row(memory, &used, width, sizeof(uint32_t));
    /* Windows start at most factor / 2 columns before the plane and end at most factor columns behind it. */
    scratch->column_sums = vg_take_row(memory, &used, (int64_t)width + 2 * params->factor, sizeof(double));
    for (int p = 0; p < VG_FLOAT_SSIM_PLANES; p++) {
        scratch->in[p] = vg_take_row(memory, &used, out_width, sizeof(float));
        scratch->filtered[p] = vg_take_row(memory, &used, out_width, sizeof(float));
        for (int k = 0; k < VG_FLOAT_SSIM_TAPS; k++)
            scratch->ring[p][k] = vg_take_row(memory, &used, out_width, sizeof(float));
    }
    for (int i = 0; i < 4; i++)
        scratch->factors[i] = vg_take_row(memory, &used, out_width, sizeof(double));
    return used;
}

static size_t scratch_size(const void *params)
{
    VgFloatSsimScratch scratch;
    return vg_float_ssim_scratch(params, NULL, &scratch);
}

static const VgCpuVariant variants[] = {
    { "c", vg_cpu_any, float_ssim_c },
#if VG_ARCH_X86
    { "avx2", vg_cpu_has_avx2, vg_float_ssim_avx2 },
#endif
    { 0 },
};

/* One band: the frame's sums run in raster order. */
const VgCpuMetric vg_cpu_float_ssim = {
    .scratch_size = scratch_size,
    .variants = variants,
};
