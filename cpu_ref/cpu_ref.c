/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Choice of a variant by what the CPU can run.
 */
#include "cpu_ref/cpu_ref.h"
#include "cpu_ref/cpu.h"

int vg_cpu_any(void)
{
    return 1;
}

int vg_cpu_has_avx2(void)
{
#if VG_ARCH_X86
    return __builtin_cpu_supports("avx2") != 0; /* asks the operating system too: registers must be saved */
#else
    return 0;
#endif
}

int vg_cpu_has_avx2_fma(void)
{
#if VG_ARCH_X86
    return vg_cpu_has_avx2() && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

const VgCpuVariant *vg_cpu_best_variant(const VgCpuMetric *metric)
{
    const VgCpuVariant *best = metric->variants;

    for (const VgCpuVariant *variant = metric->variants; variant->name; variant++)
        if (variant->supported())
            best = variant;
    return best;
}
