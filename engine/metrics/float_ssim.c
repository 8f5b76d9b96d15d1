/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * float_ssim: options, keys and score rules. Definition: docs/numerics.md, float_ssim. Logarithms are the host's, in
 * double.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "cpu_ref/metrics.h"
#include "engine/metric.h"
#include "engine/metrics/order.h"
#include "engine/metrics/depth.h"
#include "kernels/kernel_host.h"
#include "shared_math/float_ssim.h"

typedef struct SsimOptions {
    int enable_lcs, enable_db, clip_db, scale;
} SsimOptions;

static const VgOption options[] = {
    { "enable_lcs", NULL, VG_OPTION_BOOL, 0, 0, 1, NULL, offsetof(SsimOptions, enable_lcs), 0,
      "also log the means of luminance, contrast and structure" },
    { "enable_db", NULL, VG_OPTION_BOOL, 0, 0, 1, NULL, offsetof(SsimOptions, enable_db), 0,
      "log -10 log10(1 - SSIM) under the same key" },
    { "clip_db", NULL, VG_OPTION_BOOL, 0, 0, 1, NULL, offsetof(SsimOptions, clip_db), 0,
      "with enable_db, limit the value to that of half a squared code value of error in the whole picture" },
    { "scale", NULL, VG_OPTION_INT, 0, 0, 10, NULL, offsetof(SsimOptions, scale), 0,
      "decimation factor; 0: the shorter side / 256, rounded, at least 1" },
    { 0 },
};

enum { KEY_SSIM, KEY_L, KEY_C, KEY_S };

static const VgKey keys[] = {
    { "float_ssim", NULL, VG_PHASE_FRAME_0, 0, NULL, 0 },
    { "float_ssim_l", NULL, VG_PHASE_FRAME_0, 0, "enable_lcs", 0 },
    { "float_ssim_c", NULL, VG_PHASE_FRAME_0, 0, "enable_lcs", 0 },
    { "float_ssim_s", NULL, VG_PHASE_FRAME_0, 0, "enable_lcs", 0 },
    { 0 },
};

static uint32_t active_keys(const VgGeometry *geometry, const void *options_v)
{
    const SsimOptions *o = options_v;
    (void)geometry;
    return o->enable_lcs ? 1u << KEY_SSIM | 1u << KEY_L | 1u << KEY_C | 1u << KEY_S : 1u << KEY_SSIM;
}

static int32_t factor_of(const VgGeometry *geometry, const SsimOptions *o)
{
    const uint32_t side = geometry->width < geometry->height ? geometry->width : geometry->height;
    const int32_t factor = (int32_t)((side + 128) / 256);

    if (o->scale > 0)
        return o->scale;
    return factor > 1 ? factor : 1;
}

static void make_params(const VgGeometry *geometry, const void *options_v, void *params_v)
{
    const SsimOptions *o = options_v;
    VgFloatSsimParams *params = params_v;
    const int32_t factor = factor_of(geometry, o);

    *params = (VgFloatSsimParams){
        .width = (int32_t)geometry->width,
        .height = (int32_t)geometry->height,
        .bit_depth = (int32_t)geometry->bit_depth,
        .factor = factor,
        .out_width = vg_float_ssim_out_size((int32_t)geometry->width, factor),
        .out_height = vg_float_ssim_out_size((int32_t)geometry->height, factor),
        .tap = 1.0f / (float)(factor * factor),
        .lcs = o->enable_lcs,
    };
}

static int check(const VgGeometry *geometry, const void *options_v, char *why, size_t why_size)
{
    const int32_t width = (int32_t)geometry->width, height = (int32_t)geometry->height;
    const int32_t factor = factor_of(geometry, options_v);
    const int32_t out_width = vg_float_ssim_out_size(width, factor);
    const int32_t out_height = vg_float_ssim_out_size(height, factor);
    const int32_t taps = VG_FLOAT_SSIM_TAPS;

    if (vg_check_depth("float_ssim", geometry, why, why_size))
        return -1;
    if (factor > VG_FLOAT_SSIM_MAX_FACTOR) {
        snprintf(why, why_size,
                 "float_ssim decimates by at most %d, but %dx%d asks for %d: set a scale of 1 to 10 (scale=10)",
                 VG_FLOAT_SSIM_MAX_FACTOR, width, height, factor);
        return -1;
    }
    if (out_width >= taps && out_height >= taps)
        return 0;
    if (factor == 1)
        snprintf(why, why_size, "float_ssim needs pictures of at least %dx%d samples, got %dx%d: leave it out", taps,
                 taps, width, height);
    else if (width < taps || height < taps)
        snprintf(why, why_size,
                 "float_ssim needs at least %dx%d samples after decimation by %d, got %dx%d, and the picture itself "
                 "has only %dx%d: leave it out",
                 taps, taps, factor, out_width, out_height, width, height);
    else
        snprintf(why, why_size,
                 "float_ssim needs at least %dx%d samples after decimation by %d, got %dx%d: use a smaller scale "
                 "(scale=1)",
                 taps, taps, factor, out_width, out_height);
    return -1;
}

static int merge_params(void *params_v, const void *other_v)
{
    VgFloatSsimParams *params = params_v;
    const VgFloatSsimParams *other = other_v;

    if (params->factor != other->factor)
        return 0;
    params->lcs |= other->lcs;
    return 1;
}

/* Largest dB value. */
static double limit(const VgGeometry *geometry, const SsimOptions *o)
{
    if (!o->clip_db)
        return INFINITY;
    const double peak = (double)((1u << geometry->bit_depth) - 1);
    const uint32_t samples = geometry->width * geometry->height; /* of the picture as it came, counted in 32 bits */
    return ceil(10 * log10(peak * peak / (0.5 / (double)samples)));
}

static int score(const VgScoreContext *context, void *state, uint64_t frame, const void *record_v, VgEmit *emit)
{
    const SsimOptions *o = context->options;
    const VgFloatSsimRecord *record = record_v;
    double ssim = record->ssim;
    int err;
    (void)state;

    if (o->enable_db) {
        const double db = -10 * log10(1 - ssim);
        const double most = limit(context->geometry, o);
        ssim = vg_lesser(db, most); /* the limit for NaN too: SSIM above 1 */
    }
    if ((err = vg_emit(emit, KEY_SSIM, frame, ssim)) < 0 || !o->enable_lcs)
        return err;
    if ((err = vg_emit(emit, KEY_L, frame, record->l)) < 0 || (err = vg_emit(emit, KEY_C, frame, record->c)) < 0)
        return err;
    return vg_emit(emit, KEY_S, frame, record->s);
}

static const VgRecordField fields[] = {
    { "ssim", VG_FIELD_F32, offsetof(VgFloatSsimRecord, ssim), 1 },
    { "l", VG_FIELD_F32, offsetof(VgFloatSsimRecord, l), 1 },
    { "c", VG_FIELD_F32, offsetof(VgFloatSsimRecord, c), 1 },
    { "s", VG_FIELD_F32, offsetof(VgFloatSsimRecord, s), 1 },
    { 0 },
};

const VgMetric vg_metric_float_ssim = {
    .info = {
        .name = "float_ssim",
        .help = "structural similarity of luma, decimated to about 256 lines; 1 means identical",
        .inputs = "8, 10, 12, 16 bits; any chroma format; at least 11x11 luma samples after decimation",
        .options = options,
    },
    .options_size = sizeof(SsimOptions),
    .params_size = sizeof(VgFloatSsimParams),
    .record_size = sizeof(VgFloatSsimRecord),
    .keys = keys,
    .active_keys = active_keys,
    .check = check,
    .make_params = make_params,
    .merge_params = merge_params,
    .cpu = &vg_cpu_float_ssim,
    .device = &vg_device_float_ssim,
    .fields = fields,
    .score = score,
};
