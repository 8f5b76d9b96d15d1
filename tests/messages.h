/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A log function that keeps what it was told, so that tests can look for words in it.
 */
#ifndef VG_TESTS_MESSAGES_H
#define VG_TESTS_MESSAGES_H

#include "engine/vmafgpu.h"

#include <stdio.h>
#include <string.h>

typedef struct Messages {
    char text[16384];   /* all messages, a line each, with the level's letter (E W I V D) and a blank before them */
    unsigned counts[5]; /* by level */
} Messages;

static inline void messages_log(void *opaque, VgLogLevel level, const char *message)
{
    Messages *m = opaque;
    size_t n = strlen(m->text);
    snprintf(m->text + n, sizeof(m->text) - n, "%c %s\n", "EWIVD"[level], message);
    m->counts[level]++;
}

static inline int messages_contain(const Messages *m, const char *words)
{
    return strstr(m->text, words) != NULL;
}

#endif
