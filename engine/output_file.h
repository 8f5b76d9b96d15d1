/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A file that is either complete or not there: written under a temporary name and renamed.
 */
#ifndef VG_OUTPUT_FILE_H
#define VG_OUTPUT_FILE_H

#include "engine/log.h"

#include <stdio.h>

typedef struct VgOutputFile {
    FILE *stream;           /* write here; errors are noticed at close */
    char *path, *temporary; /* temporary: NULL when written in place */
} VgOutputFile;

/**
 * Opens a file for writing. A regular file with one name, or an absent one, is written under a temporary name in its
 * folder; a pipe, device or link (symbolic or hard) is written in place, as is a file in a folder where nothing can be
 * created.
 *
 * @return 0 or a negative error, after a message
 */
int vg_output_open(VgOutputFile *file, const char *path, const VgLog *log);

/**
 * Completes the file: everything is on the way to the disk, and the file has its name. If anything failed, the temporary
 * file is removed and a file that was there before is as it was.
 *
 * @return 0 or a negative error, after a message
 */
int vg_output_close(VgOutputFile *file, const VgLog *log);

#endif
