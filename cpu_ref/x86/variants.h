/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Entry points of the x86 variants, as VgCpuVariant.run.
 */
#ifndef VG_CPU_REF_X86_VARIANTS_H
#define VG_CPU_REF_X86_VARIANTS_H

#include "cpu_ref/cpu_ref.h"

void vg_psnr_avx2(const void *params, const VgCpuFrame *frame, int band, int n_bands, void *scratch, void *partial);
void vg_float_ssim_avx2(const void *params, const VgCpuFrame *frame, int band, int n_bands, void *scratch,
                        void *partial);
void vg_motion_avx2(const void *params, const VgCpuFrame *frame, int band, int n_bands, void *scratch, void *partial);
void vg_cambi_avx2(const void *params, const VgCpuFrame *frame, int band, int n_bands, void *scratch, void *partial);
void vg_speed_avx2(const void *params, const VgCpuFrame *frame, int band, int n_bands, void *scratch, void *partial);

#endif
