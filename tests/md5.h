/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * MD5 sums, made by md5sum.
 */
#ifndef VG_TESTS_MD5_H
#define VG_TESTS_MD5_H

#include "tests/cmocka_includes.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void md5_of(const void *bytes, size_t size, char sum[33])
{
    char path[] = "/tmp/md5-XXXXXX", command[64];
    const int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "wb"), *pipe;

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof(command), "md5sum %s", path);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%32s", sum), 1);
    pclose(pipe);
    unlink(path);
}

#endif
