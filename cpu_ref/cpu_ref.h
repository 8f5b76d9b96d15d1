/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The contract between the engine and the CPU reference of a metric.
 *
 * A CPU reference turns the planes of a frame into the metric's raw record. It may be cut into bands of rows that run
 * on different threads: each band fills a partial record, and the partial records are added in order of bands. The
 * record is the same for every number of bands.
 */
#ifndef VG_CPU_REF_H
#define VG_CPU_REF_H

#include "cpu_ref/plane.h"

/** What a frame's task sees: index [k] holds the frame k before the current one, component [c] is Y, Cb, Cr. */
typedef struct VgCpuFrame {
    uint64_t index; /* of the current frame, counted from 0: earlier planes exist for k <= index */
    VgPlane ref[VG_MAX_LAG + 1][3];
    VgPlane dist[VG_MAX_LAG + 1][3]; /* only [0] unless the metric asks for the history of the distorted side */
} VgCpuFrame;

/** One implementation of a metric's arithmetic. The first variant of a metric is the plain C that defines the result. */
typedef struct VgCpuVariant {
    const char *name;       /* "c", "avx2", ... */
    int (*supported)(void); /* whether this CPU can run it */
    /**
     * Computes rows of band `band` of `n_bands` into `partial`, a record that the callee fills whole (padding included:
     * records are compared byte for byte). `scratch` is the metric's scratch_size() bytes, aligned to 64 bytes, used by
     * one task at a time, contents undefined.
     */
    void (*run)(const void *params, const VgCpuFrame *frame, int band, int n_bands, void *scratch, void *partial);
} VgCpuVariant;

typedef struct VgCpuMetric {
    size_t (*scratch_size)(const void *params);   /* bytes for one band's task; NULL: none */
    int (*max_bands)(const void *params);         /* most bands worth making; NULL: 1 */
    void (*add)(void *record, const void *other); /* record += other, exactly; NULL where max_bands is 1 */
    const VgCpuVariant *variants;                 /* slowest first, ended by an entry without a name */
} VgCpuMetric;

/** Fastest variant that this CPU supports. */
const VgCpuVariant *vg_cpu_best_variant(const VgCpuMetric *metric);

#endif
