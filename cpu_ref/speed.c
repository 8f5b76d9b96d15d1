/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * speed_chroma and speed_temporal on the CPU.
 */
#include "cpu_ref/cpu.h"
#include "cpu_ref/metrics.h"
#include "cpu_ref/x86/variants.h"

#define VG_LINKAGE static
#define VG_RUN     speed_c
#include "cpu_ref/speed_body.h"

void vg_speed_show_stages(const VgSpeedParams *params, const VgCpuFrame *frame, int plane, void *scratch,
                          const VgSpeedObserver *observer)
{
    VgSpeedRecord record;
    score_plane(params, frame, plane, scratch, &record, observer);
}

size_t vg_speed_scratch(const VgSpeedParams *params, void *memory, VgSpeedScratch *scratch)
{
    const int32_t width = vg_speed_decimated(params->scaled_width), height = vg_speed_decimated(params->scaled_height);
    const int64_t n_blocks = (int64_t)vg_speed_blocks(width) * vg_speed_blocks(height);
    const int64_t columns = (int64_t)width * params->n_taps; /* of the low pass's windows */
    const int64_t row = columns > params->width ? columns : params->width;
    const int64_t low = row > params->scaled_width ? row : params->scaled_width;
    const int32_t windows = vg_speed_windows(width);
    size_t used = 0;

    scratch->pitch = (width + VG_SPEED_MARGIN + 15) & ~15;
    scratch->x_pitch = (ptrdiff_t)((n_blocks + VG_SPEED_CHUNK - 1) / VG_SPEED_CHUNK * VG_SPEED_CHUNK);
    for (int i = 0; i < 2; i++)
        scratch->samples[i] = vg_take_row(memory, &used, params->width, sizeof(uint16_t));
    for (int i = 0; params->method != VG_SPEED_PLAIN && i < VG_SPEED_KEPT_ROWS; i++)
        scratch->kept[i] = vg_take_row(memory, &used, params->width, sizeof(float));
    for (int i = 0; params->method != VG_SPEED_PLAIN && i < VG_SPEED_LANCZOS_TAPS; i++) {
        scratch->columns[i] = vg_take_row(memory, &used, columns, sizeof(int32_t));
        scratch->weights[i] = vg_take_row(memory, &used, columns, sizeof(float));
    }
    scratch->resampled = vg_take_row(memory, &used, row, sizeof(float));
    scratch->resampled_weight = vg_take_row(memory, &used, columns, sizeof(float));
    scratch->low = vg_take_row(memory, &used, low + 2 * VG_SPEED_MARGIN, sizeof(float));
    if (scratch->low)
        scratch->low += VG_SPEED_MARGIN;
    scratch->decimated = vg_take_row(memory, &used, height * scratch->pitch, sizeof(float));
    scratch->plane = vg_take_row(memory, &used, height * scratch->pitch, sizeof(float));
    scratch->wide = vg_take_row(memory, &used, height * scratch->pitch, sizeof(double));
    scratch->windows = vg_take_row(
        memory, &used, (int64_t)VG_SPEED_N * vg_speed_band_rows(windows) * ((windows + 3) & ~3), sizeof(double));
    scratch->window_sums = vg_take_row(memory, &used, VG_SPEED_WINDOW_SUMS, sizeof(double));
    scratch->x = vg_take_row(memory, &used, VG_SPEED_N * scratch->x_pitch, sizeof(float));
    for (int side = 0; side < 2; side++) {
        scratch->s[side] = vg_take_row(memory, &used, scratch->x_pitch, sizeof(float));
        scratch->e[side] = vg_take_row(memory, &used, scratch->x_pitch, sizeof(float));
    }
    return used;
}

static size_t scratch_size(const void *params)
{
    VgSpeedScratch scratch;
    return vg_speed_scratch(params, NULL, &scratch);
}

/* U and V apart. */
static int max_bands(const void *params)
{
    const VgSpeedParams *p = params;
    return p->temporal ? 1 : VG_SPEED_MOST_PLANES;
}

/* Each band has left the other's plane 0, all bits: so NaN keeps its own. */
static void add(void *record, const void *other)
{
    VgSpeedRecord *sum = record;
    const VgSpeedRecord *part = other;

    for (int plane = 0; plane < VG_SPEED_MOST_PLANES; plane++) {
        sum->scores[plane] = vg_bits_float(vg_float_bits(sum->scores[plane]) | vg_float_bits(part->scores[plane]));
        sum->singular[plane] |= part->singular[plane];
    }
}

static const VgCpuVariant variants[] = {
    { "c", vg_cpu_any, speed_c },
#if VG_ARCH_X86
    { "avx2", vg_cpu_has_avx2_fma, vg_speed_avx2 },
#endif
    { 0 },
};

const VgCpuMetric vg_cpu_speed = {
    .scratch_size = scratch_size,
    .max_bands = max_bands,
    .add = add,
    .variants = variants,
};
