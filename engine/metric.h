/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The one struct through which the engine knows a metric.
 *
 * Data flows through four plain structs, each the metric's own:
 *   options   what the user asked for, filled from the option table;
 *   params    what the pixel work needs to know, derived from options and geometry (defined in shared_math/METRIC.h, and
 *             used by CPU reference and kernels alike);
 *   record    what a frame's pixels boil down to (shared_math/METRIC.h), filled by the CPU reference or the device;
 *   state     what the score rules carry from frame to frame.
 * One implementation of the score rules turns records into named scores, whoever made the records.
 */
#ifndef VG_METRIC_H
#define VG_METRIC_H

#include "cpu_ref/cpu_ref.h"
#include "engine/log.h"
#include "engine/vmafgpu.h"

/** The two inputs, as indices. */
typedef enum VgSide { VG_REF, VG_DIST, VG_N_SIDES } VgSide;

/** Components of a picture, as bits of a set. */
enum { VG_PLANE_Y = 1, VG_PLANE_CB = 2, VG_PLANE_CR = 4 };

/** What a metric reads beyond the current frame; nothing that is not declared here is there to be read. */
typedef struct VgNeeds {
    unsigned lag[VG_N_SIDES];    /* earlier frames of that side, 0 to VG_MAX_LAG */
    unsigned planes[VG_N_SIDES]; /* which of their components: VG_PLANE_* */
    unsigned lookahead;          /* frames after n that must be scored before n's scores are final */
} VgNeeds;

/** When libvmaf first stores a value under the key: decides the order of columns. */
typedef enum VgKeyPhase {
    VG_PHASE_FRAME_0, /* with frame 0 */
    VG_PHASE_FLUSH
} VgKeyPhase;

typedef struct VgKey {
    const char *name;  /* internal ("collector") name, by which models know it */
    const char *alias; /* name shown in logs; NULL: the same */
    VgKeyPhase phase;
    int aggregate;          /* one value for the clip rather than one a frame */
    const char *enabled_by; /* options without which it is not published, in words; NULL: it always is */
    /** Logged without suffix, as in libvmaf, where two instances collide; so it has one if several publish it. */
    int plain;
} VgKey;

/** Size of a component as metrics measure it: chroma sizes are rounded down. 0 x 0 where there is none. */
void vg_plane_size(const VgGeometry *geometry, int component, uint32_t *width, uint32_t *height);

/** A component of a picture as metrics read it; zeros where there is none. Device memory's addresses stay what they are. */
VgPlane vg_picture_plane(const VgPicture *picture, int component);

/** Where score rules put scores; key is the index in the metric's key table. Each score is put once. */
typedef struct VgEmit {
    int (*put)(void *opaque, unsigned key, uint64_t frame, double value);
    int (*put_aggregate)(void *opaque, unsigned key, double value);
    void *opaque;
} VgEmit;

int vg_emit(VgEmit *emit, unsigned key, uint64_t frame, double value);
int vg_emit_aggregate(VgEmit *emit, unsigned key, double value);

/** What score rules know of their clip. */
typedef struct VgScoreContext {
    const VgGeometry *geometry;
    const void *options;
    const VgLog *log;   /* for errors; those of vg_emit() are logged there */
    const char *suffix; /* of the keys: tells instances of a metric apart in messages */
} VgScoreContext;

/** A member of a record, or an array of them: for messages about records that differ. */
typedef struct VgRecordField {
    const char *name;
    enum { VG_FIELD_I32, VG_FIELD_U32, VG_FIELD_I64, VG_FIELD_U64, VG_FIELD_F32, VG_FIELD_F64 } type;
    size_t offset;
    unsigned count; /* of elements; 1: not an array */
} VgRecordField;

struct VgDeviceMetric; /* kernels/kernel_host.h */

typedef struct VgMetric {
    VgMetricInfo info;
    size_t options_size;
    size_t params_size;
    size_t record_size; /* without planes: see vg_record_size() */
    size_t state_size;
    /** Extractor that libvmaf declares temporal: subsampling does not skip its frames. */
    int every_frame;
    const VgKey *keys; /* in the order in which libvmaf stores them; ended by an entry without a name */

    /** Bit i is set if key i is published. */
    uint32_t (*active_keys)(const VgGeometry *geometry, const void *options);
    /** NULL: nothing beyond the current frame. */
    VgNeeds (*needs)(const void *options);
    /**
     * The one predicate that says whether a geometry and option set can be scored. On refusal writes the reason (with
     * the value that was wrong and the remedy) to `why`.
     */
    int (*check)(const VgGeometry *geometry, const void *options, char *why, size_t why_size);
    /** `params` comes zeroed; it is compared byte for byte, so the struct has no padding or it stays zero. */
    void (*make_params)(const VgGeometry *geometry, const void *options, void *params);
    /**
     * Whether one pixel pass can serve both: if so, widens `params` to cover `other` and returns 1. Fields that a
     * requester did not ask for must not change its scores. NULL: only equal params are shared.
     */
    int (*merge_params)(void *params, const void *other);
    /** Bytes of planes that lie behind the record, without a gap: samples of 16 bits. NULL: never any. */
    size_t (*planes_size)(const void *params);
    /** Says which sample number `index` of these planes is, for messages. NULL where planes_size is. */
    void (*sample_name)(const void *params, size_t index, char *name, size_t name_size);

    const VgCpuMetric *cpu;
    const struct VgDeviceMetric *device; /* NULL: there are no kernels */
    const VgRecordField
        *fields; /* all bytes of the record without planes, in order; ended by an entry without a name */

    /**
     * Turns the record of frame `frame` (called in order of frames) into scores. `state` starts zeroed. A failure, logged
     * by whoever finds it, ends the run.
     */
    int (*score)(const VgScoreContext *context, void *state, uint64_t frame, const void *record, VgEmit *emit);
    /** End of a clip of n_frames > 0 frames; NULL: nothing to do. */
    int (*flush)(const VgScoreContext *context, void *state, uint64_t n_frames, VgEmit *emit);
} VgMetric;

/** Bytes of a pass's record with the planes behind it. */
static inline size_t vg_record_size(const VgMetric *metric, const void *params)
{
    return metric->record_size + (metric->planes_size ? metric->planes_size(params) : 0);
}

/** All metrics, in libvmaf's order of registration; ended by NULL. */
extern const VgMetric *const vg_metrics[];

extern const VgMetric vg_metric_psnr;
extern const VgMetric vg_metric_float_ssim;
extern const VgMetric vg_metric_motion;
extern const VgMetric vg_metric_cambi;
extern const VgMetric vg_metric_speed_chroma;
extern const VgMetric vg_metric_speed_temporal;

#endif
