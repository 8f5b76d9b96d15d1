/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Comparison of a device's records with those of the CPU reference, byte for byte.
 */
#ifndef VG_PARITY_H
#define VG_PARITY_H

#include "engine/log.h"
#include "engine/metric.h"

/** What has been compared so far; starts zeroed. */
typedef struct VgParity {
    uint64_t frames;    /* of which at least one record was compared */
    uint64_t compared;  /* records */
    uint64_t different; /* of them */
    uint64_t first;     /* frame of the first that differed */
} VgParity;

/** Bytes of one element of the field. */
size_t vg_record_field_size(const VgRecordField *field);

/**
 * Compares one record of a pass with such parameters, and the planes behind it. A difference is logged: the first one at
 * error level, later ones for debugging.
 */
void vg_parity_compare(VgParity *parity, const VgLog *log, uint64_t frame, const VgMetric *metric, const void *params,
                       const void *device, const void *cpu);

/** Logs the counts. */
void vg_parity_total(const VgParity *parity, const VgLog *log);

#endif
