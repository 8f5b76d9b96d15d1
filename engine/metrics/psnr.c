/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * psnr: options, keys and score rules. Definition: docs/numerics.md, psnr. Logarithms are the host's, in double.
 */
#include <float.h>
#include <math.h>
#include <stddef.h>

#include "cpu_ref/metrics.h"
#include "engine/metric.h"
#include "engine/metrics/order.h"
#include "engine/metrics/depth.h"
#include "kernels/kernel_host.h"
#include "shared_math/psnr.h"

typedef struct PsnrOptions {
    int enable_chroma, enable_mse, enable_apsnr, reduced_hbd_peak;
    double min_sse;
} PsnrOptions;

static const VgOption options[] = {
    { "enable_chroma", NULL, VG_OPTION_BOOL, 1, 0, 1, NULL, offsetof(PsnrOptions, enable_chroma), 0,
      "measure Cb and Cr too" },
    { "enable_mse", NULL, VG_OPTION_BOOL, 0, 0, 1, NULL, offsetof(PsnrOptions, enable_mse), 0,
      "also log the mean squared errors mse_*" },
    { "enable_apsnr", NULL, VG_OPTION_BOOL, 0, 0, 1, NULL, offsetof(PsnrOptions, enable_apsnr), 0,
      "also log apsnr_*, the PSNR of the whole clip" },
    { "reduced_hbd_peak", NULL, VG_OPTION_BOOL, 0, 0, 1, NULL, offsetof(PsnrOptions, reduced_hbd_peak), 0,
      "above 8 bits, take 255 * 2^(depth - 8) as peak rather than 2^depth - 1" },
    /* libvmaf names the largest double as bound, but takes numbers through binary32 first. */
    { "min_sse", NULL, VG_OPTION_DOUBLE, 0, 0, FLT_MAX, NULL, offsetof(PsnrOptions, min_sse), 0,
      "if not 0, the cap on PSNR is that of this sum of squared errors over a plane, rounded up to whole dB" },
    { 0 },
};

/* Keys of plane c: KEY_PSNR + 2 c, KEY_MSE + 2 c, KEY_APSNR + c. */
enum { KEY_PSNR = 0, KEY_MSE = 1, KEY_APSNR = 6 };

static const VgKey keys[] = {
    { "psnr_y", NULL, VG_PHASE_FRAME_0, 0, NULL, 0 },
    { "mse_y", NULL, VG_PHASE_FRAME_0, 0, "enable_mse", 0 },
    { "psnr_cb", NULL, VG_PHASE_FRAME_0, 0, "enable_chroma", 0 },
    { "mse_cb", NULL, VG_PHASE_FRAME_0, 0, "enable_chroma, enable_mse", 0 },
    { "psnr_cr", NULL, VG_PHASE_FRAME_0, 0, "enable_chroma", 0 },
    { "mse_cr", NULL, VG_PHASE_FRAME_0, 0, "enable_chroma, enable_mse", 0 },
    { "apsnr_y", NULL, VG_PHASE_FLUSH, 1, "enable_apsnr", 0 },
    { "apsnr_cb", NULL, VG_PHASE_FLUSH, 1, "enable_apsnr", 0 },
    { "apsnr_cr", NULL, VG_PHASE_FLUSH, 1, "enable_apsnr", 0 },
    { 0 },
};

typedef struct PsnrState {
    uint64_t sse[3], samples[3]; /* over all frames */
} PsnrState;

static int n_planes(const VgGeometry *geometry, const PsnrOptions *o)
{
    return o->enable_chroma && geometry->chroma != VG_CHROMA_400 ? 3 : 1;
}

/* In 32 bits, as the reference counts: 2^16 x 2^16 samples wrap to 0. */
static uint32_t plane_samples(const VgGeometry *geometry, int c)
{
    uint32_t width, height;
    vg_plane_size(geometry, c, &width, &height);
    return width * height;
}

static uint32_t active_keys(const VgGeometry *geometry, const void *options_v)
{
    const PsnrOptions *o = options_v;
    uint32_t active = 0;

    for (int c = 0; c < n_planes(geometry, o); c++) {
        active |= 1u << (KEY_PSNR + 2 * c);
        if (o->enable_mse)
            active |= 1u << (KEY_MSE + 2 * c);
    }
    if (o->enable_apsnr) /* of all three planes, measured or not */
        active |= 7u << KEY_APSNR;
    return active;
}

static int check(const VgGeometry *geometry, const void *options_v, char *why, size_t why_size)
{
    (void)options_v;
    return vg_check_depth("psnr", geometry, why, why_size);
}

static void make_params(const VgGeometry *geometry, const void *options_v, void *params_v)
{
    VgPsnrParams *params = params_v;

    *params = (VgPsnrParams){ .bit_depth = (int32_t)geometry->bit_depth };
    for (int c = 0; c < n_planes(geometry, options_v); c++) {
        uint32_t width, height;
        vg_plane_size(geometry, c, &width, &height);
        params->width[c] = (int32_t)width;
        params->height[c] = (int32_t)height;
    }
}

static int merge_params(void *params_v, const void *other_v)
{
    VgPsnrParams *params = params_v;
    const VgPsnrParams *other = other_v;

    for (int c = 0; c < 3; c++) {
        if (other->width[c]) {
            params->width[c] = other->width[c];
            params->height[c] = other->height[c];
        }
    }
    return 1;
}

/* Square of the peak value; fits 32 bits. */
static uint32_t peak_squared(const VgGeometry *geometry, const PsnrOptions *o)
{
    const uint32_t depth = geometry->bit_depth;
    const uint32_t peak = o->reduced_hbd_peak ? 255u << (depth - 8) : (1u << depth) - 1;
    return peak * peak;
}

static double cap(const VgScoreContext *context, int c)
{
    const PsnrOptions *o = context->options;

    if (o->min_sse == 0)
        return 6 * context->geometry->bit_depth + 12;
    double mse = o->min_sse / (double)plane_samples(context->geometry, c);
    return ceil(10 * log10((double)peak_squared(context->geometry, o) / mse));
}

static int score(const VgScoreContext *context, void *state_v, uint64_t frame, const void *record_v, VgEmit *emit)
{
    const PsnrOptions *o = context->options;
    const VgPsnrRecord *record = record_v;
    PsnrState *state = state_v;
    const double pp = peak_squared(context->geometry, o);

    for (int c = 0; c < n_planes(context->geometry, o); c++) {
        const uint32_t samples = plane_samples(context->geometry, c);
        double mse = (double)record->sse[c] / (double)samples;
        double psnr = vg_lesser(10 * log10(pp / vg_greater(mse, 1e-16)), cap(context, c));
        int err;

        state->sse[c] += record->sse[c];
        state->samples[c] += samples;
        if ((err = vg_emit(emit, KEY_PSNR + 2 * (unsigned)c, frame, psnr)) < 0)
            return err;
        if (o->enable_mse && (err = vg_emit(emit, KEY_MSE + 2 * (unsigned)c, frame, mse)) < 0)
            return err;
    }
    return 0;
}

static int flush(const VgScoreContext *context, void *state_v, uint64_t n_frames, VgEmit *emit)
{
    const PsnrOptions *o = context->options;
    const PsnrState *state = state_v;
    const uint64_t pp = peak_squared(context->geometry, o);
    (void)n_frames;

    for (int c = 0; o->enable_apsnr && c < 3; c++) {
        /* The product wraps modulo 2^64 for long clips: so does the reference's. */
        const uint64_t least = pp * state->samples[c] * 2;
        double psnr = 10 * ((log10((double)pp) + log10((double)state->samples[c])) - log10((double)state->sse[c]));
        int err = vg_emit_aggregate(emit, KEY_APSNR + (unsigned)c, vg_lesser(psnr, ceil(10 * log10((double)least))));
        if (err < 0)
            return err;
    }
    return 0;
}

static const VgRecordField fields[] = {
    { "sse", VG_FIELD_U64, offsetof(VgPsnrRecord, sse), 3 },
    { 0 },
};

const VgMetric vg_metric_psnr = {
    .info = {
        .name = "psnr",
        .help = "peak signal-to-noise ratio in dB, of Y, Cb and Cr",
        .inputs = "8, 10, 12, 16 bits; any chroma format; any size",
        .options = options,
    },
    .options_size = sizeof(PsnrOptions),
    .params_size = sizeof(VgPsnrParams),
    .record_size = sizeof(VgPsnrRecord),
    .state_size = sizeof(PsnrState),
    .every_frame = 1,
    .keys = keys,
    .active_keys = active_keys,
    .check = check,
    .make_params = make_params,
    .merge_params = merge_params,
    .cpu = &vg_cpu_psnr,
    .device = &vg_device_psnr,
    .fields = fields,
    .score = score,
    .flush = flush,
};
