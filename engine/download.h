/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Pictures copied from device memory for the CPU, beside everybody's work: nothing here waits unless it says so.
 *
 * There is room for the pictures of all frames in flight and of the frames before that they look back at.
 */
#ifndef VG_DOWNLOAD_H
#define VG_DOWNLOAD_H

#include "engine/backend.h"

typedef struct VgDownload VgDownload;

/** Opens the plan's device and reserves memory. An error is logged. */
int vg_download_open(VgDownload **download, const VgPlan *plan, const VgLog *log);

/**
 * Starts to copy a frame's pictures; a side that is NULL is not wanted. The pictures must stay until
 * vg_download_finished() has returned 1, or vg_download_drain() was called. An error is logged.
 */
int vg_download_submit(VgDownload *download, uint64_t frame, const VgPicture *const pictures[VG_N_SIDES]);

/** 1: the frame's copies are complete (or none were wanted); 0: not yet (only if !wait); or an error, which is logged. */
int vg_download_finished(VgDownload *download, uint64_t frame, int wait);

/** The copy in host memory, or NULL if this side of the frame was not wanted. It is kept as long as there is room. */
const VgPicture *vg_download_picture(const VgDownload *download, VgSide side, uint64_t frame);

/** Waits until no picture is read any more. */
void vg_download_drain(VgDownload *download);

void vg_download_close(VgDownload **download);

#endif
