/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Files of cambi's heatmaps: one for each scale, frames one behind the other as rows of 16-bit samples, little-endian,
 * without gaps.
 */
#ifndef VG_METRICS_CAMBI_HEATMAPS_H
#define VG_METRICS_CAMBI_HEATMAPS_H

#include "engine/metric.h"
#include "shared_math/cambi.h"

/** What is kept from frame to frame; starts zeroed. */
typedef struct VgCambiHeatmaps {
    uint64_t frames; /* that the files hold, with room for those that were left out; 0: not begun */
} VgCambiHeatmaps;

/**
 * Writes a frame's heatmaps (see VgCambiRecord) into files of a folder, which is made if it is not there; the first ones
 * empty files of earlier runs. Frames come in order; room is left for those that do not come.
 *
 * @return 0, or after a message a negative error: all files then end with the last frame that all of them hold
 */
int vg_cambi_write_heatmaps(VgCambiHeatmaps *state, const VgScoreContext *context, const char *folder, int32_t speedup,
                            const VgCambiSide *side, uint64_t frame, const uint16_t *heatmaps);

#endif
