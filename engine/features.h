/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Feature strings: which metrics with which options.
 */
#ifndef VG_FEATURES_H
#define VG_FEATURES_H

#include "engine/log.h"
#include "engine/metric.h"
#include "engine/options.h"

/** One requested metric. */
typedef struct VgFeature {
    const VgMetric *metric;
    void *options; /* the metric's option struct, owned */
    char suffix[VG_KEY_SIZE];
} VgFeature;

typedef struct VgFeatureList {
    VgFeature *features; /* in order of registration */
    unsigned n;
} VgFeatureList;

/**
 * Parses a feature string (the syntax is described at vg_features_check()); NULL or "" gives the default features.
 * A request whose metric and key suffix are there already is dropped, as libvmaf does.
 *
 * @return 0 and a list that vg_features_free() frees; -EINVAL after a message; -ENOMEM
 */
int vg_features_parse(const VgLog *log, const char *text, VgFeatureList *list);

void vg_features_free(VgFeatureList *list);

/** Metric of that name, or NULL. */
const VgMetric *vg_metric_find(const char *name);

#endif
