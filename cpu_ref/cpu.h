/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What the CPU at hand can run.
 */
#ifndef VG_CPU_REF_CPU_H
#define VG_CPU_REF_CPU_H

/* Whether the variants of cpu_ref/x86 are built. */
#if defined(__x86_64__)
#define VG_ARCH_X86 1
#else
#define VG_ARCH_X86 0
#endif

/* For VgCpuVariant.supported. */
int vg_cpu_any(void);
int vg_cpu_has_avx2(void);
int vg_cpu_has_avx2_fma(void);

#endif
