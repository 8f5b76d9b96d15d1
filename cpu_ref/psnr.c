/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * PSNR on the CPU.
 */
#include "cpu_ref/cpu.h"
#include "cpu_ref/metrics.h"
#include "cpu_ref/x86/variants.h"

#define VG_LINKAGE static
#define VG_RUN     psnr_c
#include "cpu_ref/psnr_body.h"

static size_t scratch_size(const void *params)
{
    const VgPsnrParams *p = params;
    return 2 * vg_row_size(p->width[0], sizeof(uint16_t));
}

static int max_bands(const void *params)
{
    const VgPsnrParams *p = params;
    return vg_bands_of(p->height[0]);
}

static void add(void *record, const void *other)
{
    VgPsnrRecord *sum = record;
    const VgPsnrRecord *part = other;
    for (int c = 0; c < 3; c++)
        sum->sse[c] += part->sse[c];
}

static const VgCpuVariant variants[] = {
    { "c", vg_cpu_any, psnr_c },
#if VG_ARCH_X86
    { "avx2", vg_cpu_has_avx2, vg_psnr_avx2 },
#endif
    { 0 },
};

const VgCpuMetric vg_cpu_psnr = {
    .scratch_size = scratch_size,
    .max_bands = max_bands,
    .add = add,
    .variants = variants,
};
