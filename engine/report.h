/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Writers of libvmaf's logs, from a score store alone.
 */
#ifndef VG_REPORT_H
#define VG_REPORT_H

#include "engine/store.h"
#include "engine/vmafgpu.h"

#include <stdio.h>

typedef struct VgReportSource {
    const VgStore *store; /* columns in the order of the report */
    uint64_t n_frames;    /* frames handed over */
    uint32_t interval;    /* of subsampling, at least 1 */
    uint32_t width, height;
    double fps;
} VgReportSource;

/** Writes the report to a stream; the caller looks for errors of the stream. */
void vg_report_write(FILE *stream, const VgReportSource *source, VgReport format, int precision);

#endif
