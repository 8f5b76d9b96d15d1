/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * motion on the CPU.
 */
#include "cpu_ref/cpu.h"
#include "cpu_ref/metrics.h"
#include "cpu_ref/x86/variants.h"

#define VG_LINKAGE static
#define VG_RUN     motion_c
#include "cpu_ref/motion_body.h"

static size_t scratch_size(const void *params)
{
    const VgMotionParams *p = params;
    return vg_motion_scratch_size(p->width);
}

static int max_bands(const void *params)
{
    const VgMotionParams *p = params;
    return vg_bands_of(p->height);
}

static void add(void *record, const void *other)
{
    VgMotionRecord *sum = record;
    const VgMotionRecord *part = other;
    for (int i = 0; i < 2; i++)
        sum->sad[i] += part->sad[i];
}

static const VgCpuVariant variants[] = {
    { "c", vg_cpu_any, motion_c },
#if VG_ARCH_X86
    { "avx2", vg_cpu_has_avx2, vg_motion_avx2 },
#endif
    { 0 },
};

const VgCpuMetric vg_cpu_motion = {
    .scratch_size = scratch_size,
    .max_bands = max_bands,
    .add = add,
    .variants = variants,
};
