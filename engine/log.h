/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Messages to whoever uses the library.
 */
#ifndef VG_LOG_H
#define VG_LOG_H

#include "engine/vmafgpu.h"

typedef struct VgLog {
    VgLogFn fn; /* NULL: messages are dropped */
    void *opaque;
} VgLog;

/** Formats and sends one message; longer than 1023 bytes, it is cut. */
void vg_log(const VgLog *log, VgLogLevel level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
