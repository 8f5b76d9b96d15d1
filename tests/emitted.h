/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Keeps what score rules emit, for tests that feed them records of their own making.
 */
#ifndef EMITTED_H
#define EMITTED_H

#include <math.h>

#include "engine/metric.h"

#define EMITTED_KEYS   16
#define EMITTED_FRAMES 16

/* Scores not emitted are NaN with a count of 0. */
typedef struct Emitted {
    double value[EMITTED_KEYS][EMITTED_FRAMES], aggregate[EMITTED_KEYS];
    unsigned count[EMITTED_KEYS][EMITTED_FRAMES], aggregate_count[EMITTED_KEYS];
} Emitted;

static inline int emitted_put(void *opaque, unsigned key, uint64_t frame, double value)
{
    Emitted *emitted = opaque;

    if (frame < EMITTED_FRAMES) {
        emitted->value[key][frame] = value;
        emitted->count[key][frame]++;
    }
    return 0;
}

static inline int emitted_put_aggregate(void *opaque, unsigned key, double value)
{
    Emitted *emitted = opaque;

    emitted->aggregate[key] = value;
    emitted->aggregate_count[key]++;
    return 0;
}

static inline VgEmit emitted_to(Emitted *emitted)
{
    *emitted = (Emitted){ 0 };
    for (unsigned key = 0; key < EMITTED_KEYS; key++) {
        emitted->aggregate[key] = NAN;
        for (unsigned frame = 0; frame < EMITTED_FRAMES; frame++)
            emitted->value[key][frame] = NAN;
    }
    return (VgEmit){ emitted_put, emitted_put_aggregate, emitted };
}

#endif
