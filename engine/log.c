/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Messages to whoever uses the library.
 */
#include "engine/log.h"

#include <stdarg.h>
#include <stdio.h>

void vg_log(const VgLog *log, VgLogLevel level, const char *format, ...)
{
    if (!log || !log->fn)
        return;
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    log->fn(log->opaque, level, message);
}
