/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The CPU references.
 */
#ifndef VG_CPU_REF_METRICS_H
#define VG_CPU_REF_METRICS_H

#include "cpu_ref/cpu_ref.h"

extern const VgCpuMetric vg_cpu_psnr;
extern const VgCpuMetric vg_cpu_float_ssim;
extern const VgCpuMetric vg_cpu_motion;
extern const VgCpuMetric vg_cpu_cambi;
extern const VgCpuMetric vg_cpu_speed; /* of speed_chroma and speed_temporal */

#endif
