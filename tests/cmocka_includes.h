/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * cmocka wants these headers before its own.
 */
#ifndef VG_TESTS_CMOCKA_INCLUDES_H
#define VG_TESTS_CMOCKA_INCLUDES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
