/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * open_device [DEVICE]: opens a CUDA device (with the variable OPEN_HIP set, a HIP one), loads the kernels, records a graph of
 * nothing, and prints what the library has to say and the error of each step. A program of its own, so that LD_LIBRARY_PATH
 * decides which driver it finds.
 */
#include "engine/device.h"

#include <stdio.h>
#include <stdlib.h>

static void print(void *opaque, VgLogLevel level, const char *message)
{
    (void)opaque;
    printf("%c %s\n", "EWIVD"[level], message);
}

int main(int argc, char **argv)
{
    const VgLog log = { print, NULL };
    const VgDeviceTable *t = vg_device_table(getenv("OPEN_HIP") ? VG_BACKEND_HIP : VG_BACKEND_CUDA);
    VgDevice *d;
    if (!t)
        return 2; /* not built in */
    int err = t->open(&d, &(VgDeviceChoice){ .which = argc > 1 ? argv[1] : NULL }, &log);
    printf("open %d\n", err);
    if (err)
        return d != NULL;
    VgModule module;
    VgStream stream;
    VgGraph graph;
    printf("enter %d\n", t->enter(d));
    err = t->module_load(d, &log, &module);
    printf("module %d\n", err);
    if (err)
        vg_device_report(d, &log, err, "loading kernels");
    t->module_unload(d, module);
    printf("stream %d\n", t->stream_create(d, &stream));
    err = t->capture_begin(d, stream);
    printf("capture %d\n", err);
    if (err)
        vg_device_report(d, &log, err, "recording a graph");
    if (!err) {
        err = t->capture_end(d, stream, &graph);
        printf("graph %d\n", err);
        t->graph_destroy(d, graph);
    }
    t->stream_destroy(d, stream);
    t->leave(d);
    t->close(&d);
    return 0;
}
