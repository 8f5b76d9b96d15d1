/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The metrics that exist.
 */
#include "engine/features.h"

#include <stddef.h>
#include <string.h>

const VgMetric *const vg_metrics[] = { &vg_metric_psnr,
                                       &vg_metric_float_ssim,
                                       &vg_metric_motion,
                                       &vg_metric_cambi,
                                       &vg_metric_speed_chroma,
                                       &vg_metric_speed_temporal,
                                       NULL };

const VgMetric *vg_metric_find(const char *name)
{
    for (const VgMetric *const *m = vg_metrics; *m; m++)
        if (!strcmp((*m)->info.name, name))
            return *m;
    return NULL;
}

const VgMetricInfo *vg_metric_info(unsigned index)
{
    for (const VgMetric *const *m = vg_metrics; *m; m++)
        if (!index--)
            return &(*m)->info;
    return NULL;
}

const char *vg_metric_key(unsigned index, unsigned key, const char **enabled_by)
{
    for (const VgMetric *const *m = vg_metrics; *m; m++) {
        if (index--)
            continue;
        for (const VgKey *k = (*m)->keys; k->name; k++) {
            if (key--)
                continue;
            *enabled_by = k->enabled_by;
            return k->alias ? k->alias : k->name;
        }
    }
    return NULL;
}

unsigned vg_version(void)
{
    return VG_VERSION_MAJOR * 10000 + VG_VERSION_MINOR * 100 + VG_VERSION_PATCH;
}
