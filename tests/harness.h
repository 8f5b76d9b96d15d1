/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs every producer of a metric's raw records on the same pictures and compares the records byte for byte.
 *
 * The yardstick is the first CPU variant, plain C in one band, on pictures without gaps. Pictures are random and
 * adversarial, of all depths, and laid out in every way that a VgPicture can describe.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include "engine/backend.h"

/** Whoever makes records: a CPU variant with a number of bands, or a device. */
typedef struct HarnessProducer {
    const char *name;
    /** Fills `record` from the pictures of one frame. */
    void (*run)(const struct HarnessProducer *producer, const VgMetric *metric, const void *params,
                const VgFramePictures *pictures, void *record);
    const VgCpuVariant *variant; /* of harness_run_cpu() */
    int n_bands;
    void *opaque; /* the producer's own */
} HarnessProducer;

/** HarnessProducer.run of CPU variants. More bands than the picture has rows are allowed. */
void harness_run_cpu(const HarnessProducer *producer, const VgMetric *metric, const void *params,
                     const VgFramePictures *pictures, void *record);

/** What to compare on. */
typedef struct HarnessCase {
    VgGeometry geometry;
    const char *options; /* "name=value:name=value", may be empty */
} HarnessCase;

/** Result of a comparison: how many records were compared, how many differ, and the first difference in words. */
typedef struct HarnessResult {
    unsigned compared, different;
    char first[256];
} HarnessResult;

/**
 * Compares producers with the yardstick on all pictures and layouts of one case, which the metric must accept. Adds to
 * results[i] of producers[i].
 */
void harness_compare(const HarnessProducer *producers, HarnessResult *results, unsigned n_producers,
                     const VgMetric *metric, const HarnessCase *test_case);

/**
 * The same on noise alone, in two layouts: without gaps, and as decoders on devices lay pictures out. Earlier frames count
 * only for metrics that look at them.
 */
void harness_compare_briefly(const HarnessProducer *producer, HarnessResult *result, const VgMetric *metric,
                             const HarnessCase *test_case);

/**
 * The metric's option struct, filled from "name=value:name=value". Fails the test on a bad option. To be freed by
 * harness_options_free(); free() will do where no option is a string.
 */
void *harness_options(const VgMetric *metric, const char *text);
void harness_options_free(const VgMetric *metric, void *options);

/** Whether the metric accepts the case. */
int harness_accepts(const VgMetric *metric, const HarnessCase *test_case);

/** Fills params by the metric's own rules. Fails the test if the metric refuses the case. */
void harness_params(const VgMetric *metric, const HarnessCase *test_case, void *params);

/** The record of plain C for one frame: the yardstick itself. `record` takes vg_record_size() bytes. */
void harness_yardstick(const VgMetric *metric, const void *params, const VgFramePictures *pictures, void *record);

/** Milliseconds that the producer takes for a frame of random pictures without gaps. */
double harness_time(const HarnessProducer *producer, const VgMetric *metric, const HarnessCase *test_case);

#endif
