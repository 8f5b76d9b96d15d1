/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The device table: what the engine needs of a GPU's driver, and the only thing it knows of one. A new kind of device is
 * one new table.
 *
 * Drivers are opened at run time (dlopen), so that one binary runs with and without them.
 *
 * Errors: functions that return int give 0 or a negative errno value and log nothing; the device remembers the driver's
 * own number and the call that gave it. Whoever understands what was being done reports it, once, by
 * vg_device_report(). Native numbers become errno values in one place: see vg_device_errno(). Functions that release
 * something return nothing: what a driver says then is the failure of earlier work, which was or will be reported.
 *
 * Threads: a device belongs to one scorer and is used by one thread at a time. Every call but open, close, report and
 * the host memory's use stands between enter() and leave().
 */
#ifndef VG_DEVICE_H
#define VG_DEVICE_H

#include "engine/log.h"

#include <stddef.h>
#include <stdint.h>

typedef void *VgStream;   /* work in order; NULL: the driver's default stream */
typedef void *VgEvent;    /* a point in a stream's work */
typedef void *VgModule;   /* loaded kernels */
typedef void *VgFunction; /* one of them */
typedef void *VgGraph;    /* recorded work that can be launched again */

typedef struct VgDeviceTable VgDeviceTable;

/** An opened device: the head of each table's own struct. */
typedef struct VgDevice {
    const VgDeviceTable *table;
    char name[128];   /* of the model, as the driver has it */
    char id[32];      /* PCI id, e.g. 0000:65:00.0 */
    unsigned driver;  /* version that the driver supports, as it counts: 12040 is CUDA 12.4, 60342134 is HIP 6.3 */
    unsigned wave;    /* threads of a wave (warp) */
    int native;       /* of the latest call that failed: the driver's error number */
    const char *call; /* and its name */
    char remedy[400]; /* a sentence on the latest failure, where the table knows more than the number tells; else "" */
} VgDevice;

/** Where a device comes from. */
typedef struct VgDeviceChoice {
    const char *which; /* index ("0") or PCI id ("0000:65:00.0" or "65:00.0"); NULL or "": the first */
    void *context; /* CUDA: one of the caller's (CUcontext), which fixes the device; NULL: the device's primary one */
} VgDeviceChoice;

/** Rows of bytes from one place to another. Pitches are not negative; addresses of host memory are pointers. */
typedef struct VgCopy {
    enum { VG_COPY_TO_DEVICE, VG_COPY_TO_HOST, VG_COPY_ON_DEVICE } kind;
    uint64_t to, from;
    size_t to_pitch, from_pitch; /* bytes, at least a row's; anything if there is a single row */
    size_t width, rows;          /* bytes of a row, number of rows; either may be 0 */
} VgCopy;

struct VgDeviceTable {
    const char *name;   /* "CUDA", for messages */
    const char *option; /* "cuda": what users call it */
    const char *unseen; /* how messages that there is no device end: ". Make sure that ..." */

    /** Opens a driver and a device. On failure *device is NULL, and the reason is logged, with its remedy. */
    int (*open)(VgDevice **device, const VgDeviceChoice *choice, const VgLog *log);
    void (*close)(VgDevice **device);

    /** Makes the device's context current, and afterwards the one before. */
    int (*enter)(VgDevice *device);
    void (*leave)(VgDevice *device);

    /* Memory, aligned to 256 bytes at least; size > 0. */
    int (*alloc)(VgDevice *device, size_t size, uint64_t *address);
    void (*free)(VgDevice *device, uint64_t address);
    int (*alloc_host)(VgDevice *device, size_t size, void **memory); /* pinned: copies run beside the host */
    void (*free_host)(VgDevice *device, void *memory);

    /* Work in a stream: none of these waits for it. */
    int (*copy)(VgDevice *device, const VgCopy *copy, VgStream stream);
    int (*fill)(VgDevice *device, uint64_t address, uint8_t value, size_t size, VgStream stream);
    int (*launch)(VgDevice *device, VgFunction function, const uint32_t grid[3], uint32_t block,
                  uint32_t dynamic_shared, const void *args, size_t args_size, VgStream stream);
    int (*record)(VgDevice *device, VgEvent event, VgStream stream);
    int (*stream_wait)(VgDevice *device, VgStream stream, VgEvent event);

    /* Streams do not wait for the default stream; host waits for events block rather than spin. `timed` events can be
     * asked for the time between them. */
    int (*stream_create)(VgDevice *device, VgStream *stream);
    void (*stream_destroy)(VgDevice *device, VgStream stream);
    int (*stream_synchronize)(VgDevice *device, VgStream stream);
    int (*event_create)(VgDevice *device, int timed, VgEvent *event);
    void (*event_destroy)(VgDevice *device, VgEvent event);
    int (*event_query)(VgDevice *device, VgEvent event); /* 1: reached, 0: not yet, or an error */
    int (*event_synchronize)(VgDevice *device, VgEvent event);
    int (*event_elapsed)(VgDevice *device, VgEvent from, VgEvent to, float *milliseconds);

    /** Loads the first of the embedded images that fits the device. */
    int (*module_load)(VgDevice *device, const VgLog *log, VgModule *module);
    void (*module_unload)(VgDevice *device, VgModule module);
    /** `dynamic_shared`: most bytes that launches will ask for. */
    int (*function)(VgDevice *device, VgModule module, const char *name, uint32_t dynamic_shared, VgFunction *function);

    /* Work enqueued between begin and end is not run but recorded (of this thread's calls only). */
    int (*capture_begin)(VgDevice *device, VgStream stream);
    int (*capture_end)(VgDevice *device, VgStream stream, VgGraph *graph);
    int (*graph_launch)(VgDevice *device, VgGraph graph, VgStream stream);
    void (*graph_destroy)(VgDevice *device, VgGraph graph);

    /** The driver's name of an error ("CUDA_ERROR_OUT_OF_MEMORY") and its text. */
    void (*error_text)(VgDevice *device, int native, const char **name, const char **text);
};

extern const VgDeviceTable vg_table_cuda;
extern const VgDeviceTable vg_table_hip;

/** The table of this back end, or NULL: it has none, or is not built in. */
const VgDeviceTable *vg_device_table(VgBackendKind kind);

/** The errno value, negative, of a driver's error number; the numbers of CUDA and HIP agree. 0 stays 0. */
int vg_device_errno(int native);

/**
 * Logs what failed, in words: "DOING: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2, out of memory)" and, where there is one,
 * the remedy. Returns `error`.
 */
int vg_device_report(const VgDevice *device, const VgLog *log, int error, const char *doing, ...)
    __attribute__((format(printf, 4, 5)));

/**
 * A table's stream_synchronize(): waits by an event, since a wait for a stream may spin. `spin` is that, and ignores errors: for
 * where the event fails, which says nothing of the stream.
 */
int vg_device_drain(VgDevice *device, VgStream stream, void (*spin)(VgDevice *device, VgStream stream));

/** Whether this copy's bytes follow one another on both sides. */
int vg_copy_is_one_line(const VgCopy *copy);

/**
 * The table's copy(), of rows that may overlap or be one and the same, too: to a driver they are no rectangle, so that it
 * gets them one by one.
 */
int vg_device_copy_rows(const VgDeviceTable *table, VgDevice *device, const VgCopy *copy, VgStream stream);

/**
 * Finds the device that is asked for (see VgDeviceChoice) among n; identify() fills in name and id of the device with this
 * index. Afterwards those are the wanted one's, and its index is returned, or a negative error that has been logged.
 */
int vg_device_find(VgDevice *device, int n, const char *which, int (*identify)(VgDevice *device, int index),
                   const VgLog *log);

/** Whether this error means that the device is gone for good (every later call fails alike). */
int vg_device_lost(const VgDevice *device);

#endif
