/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Limits that host and device code share.
 */
#ifndef VG_SHARED_MATH_LIMITS_H
#define VG_SHARED_MATH_LIMITS_H

/** Most earlier frames that a metric may look back at. */
#define VG_MAX_LAG 2

#endif
