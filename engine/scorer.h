/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The scorer's insides, for the report writers and for tests.
 */
#ifndef VG_SCORER_H
#define VG_SCORER_H

#include "engine/backend.h"
#include "engine/features.h"
#include "engine/store.h"

#include <time.h>

#define VG_MAX_THREADS 256

/** A picture with a count of who still needs it. */
typedef struct VgSurface {
    VgPicture picture;
    unsigned users; /* 0: free */
} VgSurface;

/** The surfaces of one input: a fixed number, which bounds what is held. */
typedef struct VgSurfaceRing {
    VgSurface surfaces[VG_MAX_IN_FLIGHT + VG_MAX_LAG];
    unsigned capacity;              /* in_flight + lag */
    VgSurface *history[VG_MAX_LAG]; /* [k]: the frame k + 1 before the next one */
    unsigned lag;                   /* frames of history kept; 0 if the back end keeps copies */
} VgSurfaceRing;

typedef struct VgSlot {
    VgSurface *ref[VG_MAX_LAG + 1], *dist[VG_MAX_LAG + 1];
    int scored;
} VgSlot;

/** A requested metric at work: its options, score state and columns. */
typedef struct VgInstance {
    VgFeature feature;
    unsigned pass;
    void *state;
    unsigned *columns; /* of each key; ~0u: not published */
} VgInstance;

struct VgScorer {
    VgGeometry geometry;
    uint32_t n_subsample;
    VgLog log;
    VgInstance *instances;
    unsigned n_instances;
    VgFeatureList features; /* owns what instances[].feature shares */
    VgPlan plan;
    char *device; /* plan.choice.which */
    unsigned lookahead;
    const VgBackend *backend;
    void *context;
    VgSlot slots[VG_MAX_IN_FLIGHT];
    VgSurfaceRing ref, dist;
    VgStore store;
    uint64_t submitted, collected;
    int flushed;
    int error; /* first error of a frame: everything after it fails alike */
    struct timespec first_submit, last_collect;
};

/** vg_scorer_create() with a back end of the caller's choice; NULL: the one that the configuration asks for. */
int vg_scorer_create_on(VgScorer **scorer, const VgScorerConfig *config, const VgBackend *backend);

/** Frames per second of wall-clock time from the first submit to the last collect; NaN or infinite where undefined. */
double vg_scorer_fps(const VgScorer *scorer);

/** Pools a column over the first n_frames frames of a store; every `interval`th of them. See vg_scorer_pool(). */
int vg_store_pool(const VgStore *store, unsigned column, uint64_t n_frames, uint32_t interval, VgPool pool,
                  double *value);

#endif
