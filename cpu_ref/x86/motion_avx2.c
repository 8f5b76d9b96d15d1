/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * motion for CPUs with AVX2: the same C, compiled with -mavx2 (not with -mfma: fused multiplications round once, not twice).
 */
#include "cpu_ref/x86/variants.h"

#define VG_LINKAGE
#define VG_RUN vg_motion_avx2
#include "cpu_ref/motion_body.h"
