/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * cambi on the CPU.
 */
#include "cpu_ref/cpu.h"
#include "cpu_ref/metrics.h"
#include "cpu_ref/x86/variants.h"

#define VG_LINKAGE static
#define VG_RUN     cambi_c
#include "cpu_ref/cambi_body.h"

void vg_cambi_show_stages(const VgCambiParams *params, const VgPlane *luma, int side, void *scratch,
                          const VgCambiObserver *observer)
{
    double sums[VG_CAMBI_SCALES];
    score_side(params, luma, side, scratch, sums, NULL, observer);
}

double vg_cambi_sum_of_largest(const VgCambiParams *params, int side, float *values, int32_t n, int32_t top,
                               uint32_t bins[VG_CAMBI_BINS])
{
    return sum_of_largest(params, side, values, n, top, bins);
}

/* ---- Memory and bands --------------------------------------------------------------------------------------------- */

size_t vg_cambi_scratch(const VgCambiParams *params, int side, void *memory, VgCambiScratch *scratch)
{
    const VgCambiSide *p = &params->sides[side];
    const int64_t first_width = vg_cambi_size(p->width, params->speedup, 0);
    const int64_t first_height = vg_cambi_size(p->height, params->speedup, 0);
    const int64_t counts = first_width * (p->window > VG_CAMBI_NARROW_WINDOW ? sizeof(uint32_t) : sizeof(uint16_t));
    size_t used = 0;

    scratch->samples = vg_take_row(memory, &used, params->width, sizeof(uint16_t));
    scratch->pixels = vg_take_row(memory, &used, (int64_t)p->width * p->height + VG_CAMBI_MARGIN, sizeof(uint16_t));
    scratch->values = vg_take_row(memory, &used, first_width * first_height, sizeof(float));
    scratch->columns = vg_take_row(memory, &used, p->width, sizeof(int32_t));
    for (int i = 0; i < 3; i++)
        scratch->filtered[i] = vg_take_row(memory, &used, first_width, sizeof(uint16_t));
    for (int i = 0; i <= VG_CAMBI_MASK_SIDE; i++)
        scratch->equal[i] = vg_take_row(memory, &used, p->width, 1);
    scratch->equal_sums = vg_take_row(memory, &used, (int64_t)p->width + 2 * VG_CAMBI_MASK_HALF, 1);
    scratch->first_difference = vg_take_row(memory, &used, VG_CAMBI_TOP_LEVEL + 1, 1);
    scratch->reciprocals = vg_take_row(memory, &used, (int64_t)p->window * p->window + 1, sizeof(float));
    scratch->bins = vg_take_row(memory, &used, VG_CAMBI_BINS, sizeof(uint32_t));
    scratch->nothing = vg_take_row(memory, &used, first_width + VG_CAMBI_MARGIN, sizeof(uint16_t));
    scratch->counts =
        vg_take_row(memory, &used, VG_CAMBI_LEVELS * (counts > VG_CAMBI_STRIP ? counts : VG_CAMBI_STRIP), 1);
    return used;
}

static size_t scratch_size(const void *params)
{
    size_t most = 0;

    for (int side = 0; side < VG_CAMBI_SIDES; side++) {
        VgCambiScratch scratch;
        const size_t size = vg_cambi_scratch(params, side, NULL, &scratch);
        most = size > most ? size : most;
    }
    return most;
}

static int max_bands(const void *params)
{
    const VgCambiParams *p = params;
    return p->sides[VG_CAMBI_SOURCE].window ? VG_CAMBI_SIDES : 1;
}

/* Each band has left the other's side 0. Heatmaps are the first band's. */
static void add(void *record, const void *other)
{
    VgCambiRecord *sum = record;
    const VgCambiRecord *part = other;

    for (int side = 0; side < VG_CAMBI_SIDES; side++) {
        for (int scale = 0; scale < VG_CAMBI_SCALES; scale++)
            sum->sums[side][scale] += part->sums[side][scale];
        sum->largest[side] += part->largest[side];
    }
}

static const VgCpuVariant variants[] = {
    { "c", vg_cpu_any, cambi_c },
#if VG_ARCH_X86
    { "avx2", vg_cpu_has_avx2, vg_cambi_avx2 },
#endif
    { 0 },
};

const VgCpuMetric vg_cpu_cambi = {
    .scratch_size = scratch_size,
    .max_bands = max_bands,
    .add = add,
    .variants = variants,
};
