/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * speed_chroma and speed_temporal: options, keys and score rules. Definition: docs/numerics.md, SpEED. Exponentials are the
 * host's.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cpu_ref/metrics.h"
#include "engine/metric.h"
#include "engine/metrics/depth.h"
#include "engine/metrics/order.h"
#include "kernels/kernel_host.h"
#include "shared_math/speed.h"

typedef struct SpeedOptions {
    double kernelscale, prescale;
    char *prescale_method;
    double sigma_nn, nn_floor, max_val;
    int weight_var_mode, use_ref_diff; /* each of one metric alone */
} SpeedOptions;

#define IN_KEY    VG_OPTION_IN_KEY
#define FIELD(of) offsetof(SpeedOptions, of)

/* What both metrics have; libvmaf's ranges and defaults. */
#define COMMON_OPTIONS                                                                                                 \
    { "speed_kernelscale",                                                                                             \
      "ks",                                                                                                            \
      VG_OPTION_DOUBLE,                                                                                                \
      1,                                                                                                               \
      0.1,                                                                                                             \
      4,                                                                                                               \
      NULL,                                                                                                            \
      FIELD(kernelscale),                                                                                              \
      IN_KEY,                                                                                                          \
      "size of the low pass and of the local mean; libvmaf knows 21 values, such as 0.5, 1, 1.5, 2, 3" },              \
        { "speed_prescale",                                                                                            \
          "ps",                                                                                                        \
          VG_OPTION_DOUBLE,                                                                                            \
          1,                                                                                                           \
          0.1,                                                                                                         \
          4,                                                                                                           \
          NULL,                                                                                                        \
          FIELD(prescale),                                                                                             \
          IN_KEY,                                                                                                      \
          "factor by which planes are resampled first" },                                                              \
        { "speed_prescale_method",                                                                                     \
          "psm",                                                                                                       \
          VG_OPTION_STRING,                                                                                            \
          0,                                                                                                           \
          0,                                                                                                           \
          0,                                                                                                           \
          "nearest",                                                                                                   \
          FIELD(prescale_method),                                                                                      \
          IN_KEY,                                                                                                      \
          "how: nearest, bilinear, bicubic or lanczos4" },                                                             \
        { "speed_sigma_nn",                                                                                            \
          "snn",                                                                                                       \
          VG_OPTION_DOUBLE,                                                                                            \
          0.29,                                                                                                        \
          0.1,                                                                                                         \
          2,                                                                                                           \
          NULL,                                                                                                        \
          FIELD(sigma_nn),                                                                                             \
          IN_KEY,                                                                                                      \
          "variance of the neural noise" },                                                                            \
    {                                                                                                                  \
        "speed_nn_floor", "nnf", VG_OPTION_DOUBLE, 0, 0, 1, NULL, FIELD(nn_floor), IN_KEY,                             \
            "raises the entropy below which a block is not seen"                                                       \
    }

static const VgOption chroma_options[] = {
    COMMON_OPTIONS,
    { "speed_max_val", "mxv", VG_OPTION_DOUBLE, 1000, 0, 1000, NULL, FIELD(max_val), IN_KEY, "cap on every score" },
    { "speed_weight_var_mode", "wvm", VG_OPTION_INT, 0, 0, 6, NULL, FIELD(weight_var_mode), IN_KEY,
      "which variances weight entropies: 0 each side's own, 1 the reference's, 2 the distorted picture's, 3 the mean; "
      "4 to "
      "6: the reference's own, and for the distorted picture the mean with 1/2, 3/4, 1/4 of the reference's" },
    { 0 },
};

static const VgOption temporal_options[] = {
    COMMON_OPTIONS,
    { "speed_max_val", "mxv", VG_OPTION_DOUBLE, 1000, 0, 1000, NULL, FIELD(max_val), IN_KEY,
      "changes the key alone, as in libvmaf: scores have no cap" },
    { "speed_use_ref_diff", "urd", VG_OPTION_BOOL, 0, 0, 1, NULL, FIELD(use_ref_diff), IN_KEY,
      "take the distorted difference to the reference's current frame" },
    { 0 },
};

enum { KEY_U, KEY_V, KEY_UV };

static const VgKey chroma_keys[] = {
    { "Speed_chroma_feature_speed_chroma_u_score", "speed_chroma_u", VG_PHASE_FRAME_0, 0, NULL, 0 },
    { "Speed_chroma_feature_speed_chroma_v_score", "speed_chroma_v", VG_PHASE_FRAME_0, 0, NULL, 0 },
    { "Speed_chroma_feature_speed_chroma_uv_score", "speed_chroma_uv", VG_PHASE_FRAME_0, 0, NULL, 0 },
    { 0 },
};

static const VgKey temporal_keys[] = {
    { "Speed_temporal_feature_speed_temporal_score", "speed_temporal", VG_PHASE_FRAME_0, 0, NULL, 0 },
    { 0 },
};

static uint32_t chroma_active(const VgGeometry *geometry, const void *options)
{
    (void)geometry;
    (void)options;
    return 1u << KEY_U | 1u << KEY_V | 1u << KEY_UV;
}

static uint32_t temporal_active(const VgGeometry *geometry, const void *options)
{
    (void)geometry;
    (void)options;
    return 1;
}

static VgNeeds temporal_needs(const void *options)
{
    (void)options;
    return (VgNeeds){ .lag = { 1, 1 }, .planes = { VG_PLANE_Y, VG_PLANE_Y } };
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------ */

/* A value counts as known if it is within this of one of the list. */
#define NEAR 0.001

static int is_known_scale(float scale)
{
    const float known[] = { 1,        1.0f / 2, 3.0f / 2,  2,         2.0f / 3,  24.0f / 10, 360.0f / 97,
                            4.0f / 3, 3.5f / 3, 3.75f / 3, 4.25f / 3, 5.0f / 3,  3,          1 / 2.25f,
                            1.4746f,  1.54f,    1.6f,      1.06667f,  0.711111f, 0.740740f,  1.111111f };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (fabs((double)(scale - known[i])) < NEAR)
            return 1;
    return 0;
}

static int32_t taps_of(int base, float scale)
{
    const int32_t n = (int32_t)ceilf((float)base * scale) | 1;
    return n < 3 ? 3 : n;
}

static int32_t low_pass_taps(const SpeedOptions *o)
{
    return taps_of(9, (float)o->kernelscale);
}

/* No value of the exponential lies near a rounding boundary of binary32, so that any C library gives the same taps. */
static void make_taps(int32_t n, float deviation, float *taps)
{
    const double s = (double)deviation;
    const float scale = (float)(1 / (s * sqrt(2 * 3.14159265358979323846)));
    const int32_t reach = (n - 1) / 2;
    float sum = 0;

    for (int32_t i = 0; i < n; i++) {
        const double t = i - reach;
        taps[i] = (float)exp((((-0.5 * t) / s) * t) / s) / scale;
        sum += taps[i];
    }
    for (int32_t i = 0; i < n; i++)
        taps[i] /= sum;
}

/* ---- Acceptance and parameters ------------------------------------------------------------------------------------ */

static const char *const methods[] = { [VG_SPEED_NEAREST] = "nearest",
                                       [VG_SPEED_BILINEAR] = "bilinear",
                                       [VG_SPEED_BICUBIC] = "bicubic",
                                       [VG_SPEED_LANCZOS4] = "lanczos4" };

/* VG_SPEED_PLAIN for a method that is not known. */
static int32_t named_method(const char *name)
{
    for (int32_t m = VG_SPEED_NEAREST; m <= VG_SPEED_LANCZOS4; m++)
        if (name && !strcmp(name, methods[m]))
            return m;
    return VG_SPEED_PLAIN;
}

/* Planes as they come and as they are worked on. */
typedef struct Sizes {
    uint32_t width, height;
    int32_t scaled_width, scaled_height;
} Sizes;

static int32_t scaled(uint32_t size, double prescale)
{
    return (int32_t)((double)size * prescale + 0.5);
}

static Sizes sizes_of(const VgGeometry *geometry, const SpeedOptions *o, int temporal)
{
    Sizes s;

    vg_plane_size(geometry, temporal ? 0 : 1, &s.width, &s.height);
    s.scaled_width = scaled(s.width, o->prescale);
    s.scaled_height = scaled(s.height, o->prescale);
    return s;
}

/* A factor near 1 resamples nothing, and yet counts for the size. */
static int is_near_one(const SpeedOptions *o)
{
    return fabs(o->prescale - 1) < NEAR;
}

static int refuse_small(const char *metric, const Sizes *s, const VgGeometry *geometry, char *why, size_t why_size)
{
    snprintf(
        why, why_size,
        "%s needs planes of at least %dx%d samples after speed_prescale, but those of %ux%u pictures have %dx%d: raise "
        "speed_prescale, or leave it out",
        metric, VG_SPEED_SIDE * VG_SPEED_STEP, VG_SPEED_SIDE * VG_SPEED_STEP, geometry->width, geometry->height,
        s->scaled_width, s->scaled_height);
    return -1;
}

/* Whether the low pass would read columns (or rows) that a plane taken for a little larger does not have. */
static int reads_beyond(uint32_t size, int32_t scaled_size, int32_t n_taps)
{
    const int32_t last = (vg_speed_decimated(scaled_size) - 1) * VG_SPEED_STEP + (n_taps - 1) / 2;
    return (uint32_t)scaled_size > size && (uint32_t)last >= size;
}

static int check(const char *metric, const VgGeometry *geometry, const SpeedOptions *o, int temporal, char *why,
                 size_t why_size)
{
    if (vg_check_depth(metric, geometry, why, why_size))
        return -1;
    if (!temporal && geometry->chroma == VG_CHROMA_400) {
        snprintf(why, why_size, "%s scores chroma, and 4:0:0 pictures have none: leave it out", metric);
        return -1;
    }
    if (!is_known_scale((float)o->kernelscale)) {
        snprintf(
            why, why_size,
            "%s does not know speed_kernelscale=%g: give 1, 0.5, 1.5, 2, 3, 2.4 or another one of libvmaf's values",
            metric, o->kernelscale);
        return -1;
    }
    if (named_method(o->prescale_method) == VG_SPEED_PLAIN) {
        snprintf(why, why_size,
                 "%s does not know speed_prescale_method=%s: give nearest, bilinear, bicubic or lanczos4", metric,
                 o->prescale_method);
        return -1;
    }
    const Sizes s = sizes_of(geometry, o, temporal);
    const int32_t least = VG_SPEED_SIDE * VG_SPEED_STEP, n = low_pass_taps(o);
    if (s.scaled_width < least || s.scaled_height < least)
        return refuse_small(metric, &s, geometry, why, why_size);
    if (is_near_one(o) && (reads_beyond(s.width, s.scaled_width, n) || reads_beyond(s.height, s.scaled_height, n))) {
        snprintf(
            why, why_size,
            "%s would read samples beyond the edge of %ux%u planes with speed_prescale=%g, which resamples nothing: "
            "give 1",
            metric, s.width, s.height, o->prescale);
        return -1;
    }
    return 0;
}

static int chroma_check(const VgGeometry *geometry, const void *options, char *why, size_t why_size)
{
    return check("speed_chroma", geometry, options, 0, why, why_size);
}

static int temporal_check(const VgGeometry *geometry, const void *options, char *why, size_t why_size)
{
    return check("speed_temporal", geometry, options, 1, why, why_size);
}

static void make_params(const VgGeometry *geometry, const SpeedOptions *o, int temporal, VgSpeedParams *params)
{
    const Sizes s = sizes_of(geometry, o, temporal);
    const int same = s.scaled_width == (int32_t)s.width && s.scaled_height == (int32_t)s.height;

    params->width = (int32_t)s.width;
    params->height = (int32_t)s.height;
    params->bit_depth = (int32_t)geometry->bit_depth;
    params->temporal = temporal;
    params->use_ref_diff = o->use_ref_diff;
    params->method = same || is_near_one(o) ? VG_SPEED_PLAIN : named_method(o->prescale_method);
    params->scaled_width = s.scaled_width;
    params->scaled_height = s.scaled_height;
    params->ratio_x = (float)s.width / (float)s.scaled_width;
    params->ratio_y = (float)s.height / (float)s.scaled_height;
    params->n_taps = low_pass_taps(o);
    params->n_mean_taps = taps_of(2, (float)o->kernelscale);
    make_taps(params->n_taps, (float)(2.0 * params->n_taps / 5), params->taps);
    make_taps(params->n_mean_taps, (float)(params->n_mean_taps / 5.0), params->mean_taps);
    params->sigma = (float)o->sigma_nn;
    params->threshold = vg_speed_threshold((float)o->nn_floor, params->sigma);
    params->weighting = o->weight_var_mode;
}

static void chroma_params(const VgGeometry *geometry, const void *options, void *params)
{
    make_params(geometry, options, 0, params);
}

static void temporal_params(const VgGeometry *geometry, const void *options, void *params)
{
    make_params(geometry, options, 1, params);
}

/* ---- Scores ------------------------------------------------------------------------------------------------------- */

typedef struct SpeedState {
    uint64_t n_singular, first_singular; /* frames with a singular matrix */
} SpeedState;

static void count_singular(SpeedState *state, uint64_t frame, const VgSpeedRecord *record)
{
    if (!record->singular[0] && !record->singular[1])
        return;
    if (!state->n_singular++)
        state->first_singular = frame;
}

static int chroma_score(const VgScoreContext *context, void *state, uint64_t frame, const void *record_v, VgEmit *emit)
{
    const SpeedOptions *o = context->options;
    const VgSpeedRecord *record = record_v;
    const float u = record->scores[0], v = record->scores[1];
    const int bad_u = record->singular[0] != 0, bad_v = record->singular[1] != 0;
    const float uv = bad_u == bad_v ? (u + v) / 2 : bad_u ? v : u;
    int err;

    count_singular(state, frame, record);
    /* A NaN is not below the cap and becomes it. */
    err = vg_emit(emit, KEY_U, frame, vg_lesser((double)u, o->max_val));
    if (err < 0 || (err = vg_emit(emit, KEY_V, frame, vg_lesser((double)v, o->max_val))) < 0)
        return err;
    return vg_emit(emit, KEY_UV, frame, vg_lesser((double)uv, o->max_val));
}

static int temporal_score(const VgScoreContext *context, void *state, uint64_t frame, const void *record_v,
                          VgEmit *emit)
{
    const VgSpeedRecord *record = record_v;
    (void)context;

    count_singular(state, frame, record);
    return vg_emit(emit, 0, frame, (double)record->scores[0]);
}

/* Once for the clip: still or empty content makes every frame one of these. */
static void report_singular(const VgScoreContext *context, const char *metric, const SpeedState *state,
                            uint64_t n_frames)
{
    if (state->n_singular)
        vg_log(
            context->log, VG_LOG_WARNING,
            "%s%s: in %llu of %llu frames, from frame %llu on, a plane has too little texture for its statistics, and "
            "its score says nothing",
            metric, context->suffix, (unsigned long long)state->n_singular, (unsigned long long)n_frames,
            (unsigned long long)state->first_singular);
}

static int chroma_flush(const VgScoreContext *context, void *state, uint64_t n_frames, VgEmit *emit)
{
    (void)emit;
    report_singular(context, "speed_chroma", state, n_frames);
    return 0;
}

static int temporal_flush(const VgScoreContext *context, void *state, uint64_t n_frames, VgEmit *emit)
{
    (void)emit;
    report_singular(context, "speed_temporal", state, n_frames);
    return 0;
}

static const VgRecordField fields[] = {
    { "scores", VG_FIELD_F32, offsetof(VgSpeedRecord, scores), VG_SPEED_MOST_PLANES },
    { "singular matrices", VG_FIELD_U32, offsetof(VgSpeedRecord, singular), VG_SPEED_MOST_PLANES },
    { 0 },
};

const VgMetric vg_metric_speed_chroma = {
    .info = {
        .name = "speed_chroma",
        .help = "difference of chroma's local entropies: 0 for none, larger is worse",
        .inputs = "8, 10, 12 or 16 bits; 4:2:0, 4:2:2 or 4:4:4; chroma planes of at least 80x80 samples",
        .options = chroma_options,
    },
    .options_size = sizeof(SpeedOptions),
    .params_size = sizeof(VgSpeedParams),
    .record_size = sizeof(VgSpeedRecord),
    .state_size = sizeof(SpeedState),
    .keys = chroma_keys,
    .active_keys = chroma_active,
    .check = chroma_check,
    .make_params = chroma_params,
    .cpu = &vg_cpu_speed,
    .device = &vg_device_speed,
    .fields = fields,
    .score = chroma_score,
    .flush = chroma_flush,
};

const VgMetric vg_metric_speed_temporal = {
    .info = {
        .name = "speed_temporal",
        .help = "difference of the local entropies of luma's changes from frame to frame: 0 for none, larger is worse",
        .inputs = "8, 10, 12 or 16 bits; any chroma format; at least 80x80 samples",
        .options = temporal_options,
    },
    .options_size = sizeof(SpeedOptions),
    .params_size = sizeof(VgSpeedParams),
    .record_size = sizeof(VgSpeedRecord),
    .state_size = sizeof(SpeedState),
    .every_frame = 1,
    .keys = temporal_keys,
    .active_keys = temporal_active,
    .needs = temporal_needs,
    .check = temporal_check,
    .make_params = temporal_params,
    .cpu = &vg_cpu_speed,
    .device = &vg_device_speed,
    .fields = fields,
    .score = temporal_score,
    .flush = temporal_flush,
};
