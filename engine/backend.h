/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What the scorer needs of whoever makes raw records from pictures: worker threads or a device.
 *
 * A back end has a ring of slots, one for each frame in flight. The scorer fills a slot by submit() and takes it back by
 * finish(), in order; between the two the back end may read the slot's pictures and write its records.
 */
#ifndef VG_BACKEND_H
#define VG_BACKEND_H

#include "engine/device.h"
#include "engine/log.h"
#include "engine/metric.h"

/** One pixel pass: a metric with its parameters. Features that can share a pass do. */
typedef struct VgPass {
    const VgMetric *metric;
    void *params;
    size_t record_offset; /* in a frame's records, a multiple of 16 */
    size_t record_size;   /* with the planes behind it */
} VgPass;

typedef struct VgPlan {
    VgGeometry geometry;
    VgPass *passes;
    unsigned n_passes;
    size_t records_size;         /* bytes of one frame's records */
    unsigned in_flight;          /* slots */
    unsigned n_threads;          /* at most this many tasks at once, at least 1 */
    unsigned lag[VG_N_SIDES];    /* earlier frames of each side that passes look back at */
    unsigned planes[VG_N_SIDES]; /* their components: VG_PLANE_*; others are not there to be read */
    VgMemory memory;             /* of all pictures */
    const VgDeviceTable *device; /* NULL: none */
    VgDeviceChoice choice;
    int cpu_only; /* the device does no pass, it only has the pictures */
    /**
     * Earlier pictures are not handed over: the back end keeps what it will look back at. Set for pictures in device
     * memory by history=copy or if they are all downloaded, and for pictures that are uploaded, unless the CPU may read
     * them, too, in place (vg_backend_both).
     */
    int copy_history;
    VgFallback fallback;
    uint32_t parity_every; /* 0: no parity */
} VgPlan;

/** Appends a pass; plan->passes has room for it. */
void vg_plan_add(VgPlan *plan, const VgMetric *metric, void *params);

/** Gives every pass its place in a frame's records; parameters must not change any more. */
void vg_plan_layout(VgPlan *plan);

/** Whether the pass makes a record of a frame; `scored` is 0 for one that subsampling leaves out. */
static inline int vg_pass_runs(const VgPass *pass, int scored)
{
    return scored || pass->metric->every_frame;
}

/** Whether the device cannot do the pass; if so, writes the reason to `why`. */
int vg_pass_refused(const VgPass *pass, char *why, size_t why_size);

/** A frame's pictures: index [k] is the frame k before; NULL where it does not exist or is not asked for. */
typedef struct VgFramePictures {
    uint64_t frame;
    const VgPicture *ref[VG_MAX_LAG + 1];
    const VgPicture *dist[VG_MAX_LAG + 1];
} VgFramePictures;

/**
 * One kind of back end. On an error it has logged the reason, and when submit() or finish() return one, nothing reads the
 * pictures of that slot any more.
 */
typedef struct VgBackend {
    const char *name;
    /** Reserves everything that frames will need, records included. The plan stays in place until close(). */
    int (*open)(void **context, const VgPlan *plan, const VgLog *log);
    /**
     * Starts the passes of one frame in slot frame % in_flight; `scored` is 0 for a frame that subsampling leaves out,
     * of which only passes of every_frame metrics run. The pictures stay in place until finish() has returned 1. Never
     * waits for results.
     */
    int (*submit)(void *context, unsigned slot, const VgFramePictures *pictures, int scored);
    /**
     * 1: the slot's records are complete, *records points to them until the slot is used again, and its pictures are no
     * longer read; 0: not yet (only if !wait); or an error.
     */
    int (*finish)(void *context, unsigned slot, int wait, const uint8_t **records);
    /** After the last frame has been finished: what is to be said of the whole clip. NULL: nothing. */
    void (*flush)(void *context);
    /** See vg_scorer_parity(); NULL: no parity. */
    uint64_t (*parity)(void *context, uint64_t *compared);
    /** Ends all work, finished or not, and frees everything. */
    void (*close)(void **context);
} VgBackend;

/** Worker threads; pictures in host memory. */
extern const VgBackend vg_backend_cpu;
/** plan->device; pictures in its memory or in the host's. */
extern const VgBackend vg_backend_device;
/**
 * Both of them: passes that the device cannot do go to the CPU (fallback), and the CPU's records of some frames are
 * compared with the device's (parity). Pictures in device memory are downloaded for the CPU; those in host memory are
 * read in place, so that earlier ones are handed over (see copy_history).
 */
extern const VgBackend vg_backend_both;

/**
 * Fills what the configuration says about memory and devices into the plan, and names the back end that does it.
 *
 * @return 0, or after a message -EINVAL or, for a back end that is not built in, -ENOSYS
 */
int vg_backend_choose(const VgBackend **backend, VgPlan *plan, const VgScorerConfig *config, const VgLog *log);

#endif
