/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * motion: options, keys and score rules. Definition: docs/numerics.md, motion. In double, without fused operations.
 */
#include <stddef.h>
#include <stdio.h>

#include "cpu_ref/metrics.h"
#include "engine/metric.h"
#include "engine/metrics/order.h"
#include "kernels/kernel_host.h"
#include "shared_math/motion.h"

typedef struct MotionOptions {
    int force_zero, five_frame_window, moving_average, debug;
    double blend_factor, blend_offset, fps_weight, max_val;
} MotionOptions;

#define IN_KEY    VG_OPTION_IN_KEY
#define FIELD(of) offsetof(MotionOptions, of)

static const VgOption options[] = {
    { "motion_force_zero", "force_0", VG_OPTION_BOOL, 0, 0, 1, NULL, FIELD(force_zero), IN_KEY,
      "all outputs are 0; pictures are not read" },
    { "motion_blend_factor", "mbf", VG_OPTION_DOUBLE, 1, 0, 1, NULL, FIELD(blend_factor), IN_KEY,
      "motion3: slope above the blend offset" },
    { "motion_blend_offset", "mbo", VG_OPTION_DOUBLE, 40, 0, 1000, NULL, FIELD(blend_offset), IN_KEY,
      "motion3: value where the blend starts" },
    { "motion_fps_weight", "mfw", VG_OPTION_DOUBLE, 1, 0, 5, NULL, FIELD(fps_weight), IN_KEY,
      "factor on every score, before the cap" },
    { "motion_max_val", "mmxv", VG_OPTION_DOUBLE, 10000, 0, 10000, NULL, FIELD(max_val), IN_KEY, "cap on every score" },
    { "motion_five_frame_window", "mffw", VG_OPTION_BOOL, 0, 0, 1, NULL, FIELD(five_frame_window), IN_KEY,
      "compare with the frame before the previous one, for high frame rates" },
    { "motion_moving_average", "mma", VG_OPTION_BOOL, 0, 0, 1, NULL, FIELD(moving_average), IN_KEY,
      "motion3: mean of this and the previous frame" },
    { "debug", NULL, VG_OPTION_BOOL, 0, 0, 1, NULL, FIELD(debug), 0, "also log integer_motion" },
    { 0 },
};

enum { KEY_SAD, KEY_MOTION, KEY_MOTION2, KEY_MOTION3 };

static const VgKey keys[] = {
    { "VMAF_integer_feature_motion_sad_score", NULL, VG_PHASE_FRAME_0, 0, NULL, 0 },
    { "VMAF_integer_feature_motion_score", "integer_motion", VG_PHASE_FRAME_0, 0, "debug", 0 },
    { "VMAF_integer_feature_motion2_score", "integer_motion2", VG_PHASE_FLUSH, 0, NULL, 0 },
    { "VMAF_integer_feature_motion3_score", "integer_motion3", VG_PHASE_FLUSH, 0, NULL, 0 },
    { 0 },
};

/* Nothing here grows with the clip: the rules look one frame ahead (two at the start of the five-frame window). */
typedef struct MotionState {
    double previous[2];    /* scores of frames i-1 and i-2 */
    double previous_blend; /* motion3 of the frame before the next one to finish, before averaging */
} MotionState;

static uint32_t active_keys(const VgGeometry *geometry, const void *options_v)
{
    const MotionOptions *o = options_v;
    (void)geometry;
    return 1u << KEY_SAD | (o->debug ? 1u << KEY_MOTION : 0) | 1u << KEY_MOTION2 | 1u << KEY_MOTION3;
}

static unsigned lag_of(const MotionOptions *o)
{
    return o->five_frame_window ? 2 : 1;
}

static VgNeeds needs(const void *options_v)
{
    const MotionOptions *o = options_v;

    if (o->force_zero)
        return (VgNeeds){ 0 };
    return (VgNeeds){ .lag = { [VG_REF] = lag_of(o) }, .planes = { [VG_REF] = VG_PLANE_Y }, .lookahead = lag_of(o) };
}

static int check(const VgGeometry *geometry, const void *options_v, char *why, size_t why_size)
{
    (void)options_v;

    if (geometry->bit_depth < 8 || geometry->bit_depth > 16) {
        snprintf(why, why_size, "motion scores 8 to 16 bits, not %u: convert both inputs first", geometry->bit_depth);
        return -1;
    }
    if (geometry->width < 3 || geometry->height < 3) {
        snprintf(why, why_size, "motion needs pictures of at least 3x3 samples, got %ux%u: leave it out",
                 geometry->width, geometry->height);
        return -1;
    }
    return 0;
}

static void make_params(const VgGeometry *geometry, const void *options_v, void *params_v)
{
    const MotionOptions *o = options_v;
    VgMotionParams *params = params_v;

    *params = (VgMotionParams){
        .width = (int32_t)geometry->width,
        .height = (int32_t)geometry->height,
        .bit_depth = (int32_t)geometry->bit_depth,
        .lags = o->force_zero          ? 0
                : o->five_frame_window ? VG_MOTION_LAG_2
                                       : VG_MOTION_LAG_1,
    };
}

static int merge_params(void *params_v, const void *other_v)
{
    VgMotionParams *params = params_v;
    const VgMotionParams *other = other_v;

    params->lags |= other->lags;
    return 1;
}

static double blend(const MotionOptions *o, double value)
{
    const double f = o->blend_factor;
    return vg_lesser(value * f + (1 - f) * vg_lesser(o->blend_offset, value), o->max_val);
}

/* Emits motion2 and motion3 of a frame at or after the first one that has an earlier frame to compare with. */
static int finish(const MotionOptions *o, MotionState *state, uint64_t frame, double motion2, VgEmit *emit)
{
    const double blended = blend(o, motion2);
    const double motion3 = o->moving_average ? (blended + state->previous_blend) / 2 : blended;
    int err = vg_emit(emit, KEY_MOTION2, frame, motion2);

    state->previous_blend = blended; /* the average is over values that are not averages themselves */
    return err < 0 ? err : vg_emit(emit, KEY_MOTION3, frame, motion3);
}

/* motion3 of the frames without an earlier one: that of the first frame that has one. */
static int stamp(uint64_t n_frames, double value, VgEmit *emit)
{
    for (uint64_t frame = 0; frame < n_frames; frame++) {
        int err = vg_emit(emit, KEY_MOTION3, frame, value);
        if (err < 0)
            return err;
    }
    return 0;
}

static int score(const VgScoreContext *context, void *state_v, uint64_t frame, const void *record_v, VgEmit *emit)
{
    const MotionOptions *o = context->options;
    const VgMotionRecord *record = record_v;
    MotionState *state = state_v;
    const unsigned lag = lag_of(o);
    double now = 0;
    int err;

    if (frame >= lag && !o->force_zero) {
        const uint32_t samples = context->geometry->width * context->geometry->height; /* counted in 32 bits */
        now = vg_lesser((double)record->sad[lag - 1] / 256 / (double)samples * o->fps_weight, o->max_val);
    }
    if ((err = vg_emit(emit, KEY_SAD, frame, now)) < 0)
        return err;
    if (o->debug && (err = vg_emit(emit, KEY_MOTION, frame, now)) < 0)
        return err;

    if (o->force_zero) {
        err = finish(o, state, frame, 0, emit);
    } else if (frame < lag) {
        err = vg_emit(emit, KEY_MOTION2, frame, 0);
    } else if (frame == lag) {
        state->previous_blend = blend(o, now);
        err = stamp(lag, state->previous_blend, emit);
    } else {
        /* Of the frame before this one. With the five-frame window its own score takes no part, and frame 2, whose
           earlier neighbour has no score, takes the later one's. */
        double motion2 = lag == 1 ? vg_lesser(state->previous[0], now) : vg_lesser(state->previous[1], now);
        err = finish(o, state, frame - 1, lag == 2 && frame == 3 ? now : motion2, emit);
    }
    state->previous[1] = state->previous[0];
    state->previous[0] = now;
    return err;
}

static int flush(const VgScoreContext *context, void *state_v, uint64_t n_frames, VgEmit *emit)
{
    const MotionOptions *o = context->options;
    MotionState *state = state_v;

    if (o->force_zero)
        return 0;
    if (n_frames <= lag_of(o))
        return stamp(n_frames, 0, emit);
    return finish(o, state, n_frames - 1, state->previous[0], emit);
}

static const VgRecordField fields[] = {
    { "sad", VG_FIELD_U64, offsetof(VgMotionRecord, sad), 2 },
    { 0 },
};

const VgMetric vg_metric_motion = {
    .info = {
        .name = "motion",
        .help = "temporal activity of the reference: mean absolute difference of low-passed luma in 8-bit steps",
        .inputs = "8 to 16 bits; any chroma format; at least 3x3 luma samples",
        .options = options,
    },
    .options_size = sizeof(MotionOptions),
    .params_size = sizeof(VgMotionParams),
    .record_size = sizeof(VgMotionRecord),
    .state_size = sizeof(MotionState),
    .every_frame = 1,
    .keys = keys,
    .active_keys = active_keys,
    .needs = needs,
    .check = check,
    .make_params = make_params,
    .merge_params = merge_params,
    .cpu = &vg_cpu_motion,
    .device = &vg_device_motion,
    .fields = fields,
    .score = score,
    .flush = flush,
};
