/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Device and CPU together, each by its own back end: passes that the device cannot do go to the CPU, and for parity the
 * CPU does the device's passes of some frames again.
 *
 * The CPU reads pictures of device memory from downloaded copies. A frame is handed to it when its download is
 * finished, in order of frames, which every later submit and finish looks after.
 */
#include "engine/download.h"
#include "engine/parity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* DEVICE's records are scored, and so are CPU's, of the passes that the device does not do. CHECK's are compared with
   DEVICE's: it has the same passes. */
enum { DEVICE, CPU, CHECK, N_PARTS };

/* A back end with its share of the passes. */
typedef struct Part {
    const VgBackend *backend;
    VgPlan plan;          /* without passes: the part has nothing to do and is not opened */
    const VgPass **whole; /* of each of its passes, that of the whole plan */
    void *context;
} Part;

typedef struct Slot {
    uint64_t frame;
    int scored;
    int runs[N_PARTS];               /* whether the part has work with this frame */
    const uint8_t *records[N_PARTS]; /* NULL: not finished */
    VgFramePictures pictures;        /* in host memory */
    uint8_t *merged;                 /* records of the whole plan */
} Slot;

typedef struct Both {
    const VgPlan *plan;
    VgLog log;   /* the caller's */
    VgLog inner; /* for the parts: through relay() */
    int opening; /* errors are a reason to fall back */
    char reason[512];
    int error; /* the first one: all work has ended */
    Part parts[N_PARTS];
    VgDownload *download; /* NULL: pictures are in host memory, or the CPU needs none */
    Slot slots[VG_MAX_IN_FLIGHT];
    uint64_t submitted, handed; /* frames; handed to the CPU */
    VgParity parity;
} Both;

/* Messages of the parts. While the device is opened, an error may become a warning instead. */
static void relay(void *opaque, VgLogLevel level, const char *message)
{
    Both *b = opaque;
    if (level == VG_LOG_ERROR && b->opening) {
        if (!b->reason[0])
            snprintf(b->reason, sizeof(b->reason), "%s", message);
        return;
    }
    vg_log(&b->log, level, "%s", message);
}

static void close_parts(Both *b)
{
    for (int p = 0; p < N_PARTS; p++)
        if (b->parts[p].context)
            b->parts[p].backend->close(&b->parts[p].context);
}

/* Ends all work, so that no picture is read any more. */
static int fail(Both *b, int err)
{
    b->error = err;
    close_parts(b);
    if (b->download)
        vg_download_drain(b->download);
    return err;
}

/* ---- Who does what ----------------------------------------------------------------------------------------------- */

static void add(Part *part, const VgPass *pass)
{
    part->whole[part->plan.n_passes] = pass;
    vg_plan_add(&part->plan, pass->metric, pass->params);
}

/* Deals out the passes. Without fallback the device's back end is to refuse what it cannot do. */
static void split(Both *b, int device)
{
    char why[400];
    for (int p = 0; p < N_PARTS; p++)
        b->parts[p].plan.n_passes = 0;
    for (unsigned i = 0; i < b->plan->n_passes; i++) {
        const VgPass *pass = &b->plan->passes[i];
        if (!device || (b->plan->fallback == VG_FALLBACK_CPU && vg_pass_refused(pass, why, sizeof(why)))) {
            add(&b->parts[CPU], pass);
            continue;
        }
        add(&b->parts[DEVICE], pass);
        if (b->plan->parity_every)
            add(&b->parts[CHECK], pass);
    }
    for (int p = 0; p < N_PARTS; p++)
        vg_plan_layout(&b->parts[p].plan);
}

static int prepare_part(Both *b, int index, const VgBackend *backend)
{
    Part *part = &b->parts[index];
    part->backend = backend;
    part->plan = *b->plan;
    part->plan.fallback = VG_FALLBACK_ERROR;
    part->plan.parity_every = 0;
    part->plan.passes = calloc(b->plan->n_passes, sizeof(*part->plan.passes));
    part->whole = calloc(b->plan->n_passes, sizeof(*part->whole));
    if (index == DEVICE) {
        part->plan.copy_history |= b->plan->memory == VG_MEMORY_HOST; /* it keeps what it uploads */
    } else {
        part->plan.memory = VG_MEMORY_HOST;
        part->plan.device = NULL;
        part->plan.cpu_only = 1;
        part->plan.copy_history = 0;
    }
    return part->plan.passes && part->whole ? 0 : -ENOMEM;
}

static int prepare(Both *b)
{
    int err = 0;
    for (int p = 0; !err && p < N_PARTS; p++)
        err = prepare_part(b, p, p == DEVICE ? &vg_backend_device : &vg_backend_cpu);
    for (unsigned i = 0; !err && i < b->plan->in_flight; i++) {
        b->slots[i].merged = calloc(1, b->plan->records_size);
        err = b->slots[i].merged ? 0 : -ENOMEM;
    }
    if (err)
        vg_log(&b->log, VG_LOG_ERROR, "out of memory");
    return err;
}

static int open_part(Both *b, int index)
{
    Part *part = &b->parts[index];
    return part->plan.n_passes ? part->backend->open(&part->context, &part->plan, &b->inner) : 0;
}

static int open_device(Both *b)
{
    b->opening = b->plan->fallback == VG_FALLBACK_CPU;
    int err = open_part(b, DEVICE);
    if (err && b->opening) {
        split(b, 0);
        err = 0;
    }
    b->opening = 0;
    return err;
}

/* Called when the CPU stands ready: before that, there may be an error to report instead. */
static void warn_of_fallback(const Both *b)
{
    char why[400];
    if (b->reason[0]) {
        vg_log(&b->log, VG_LOG_WARNING, "scoring on the CPU%s: %s",
               b->plan->parity_every ? ", which leaves nothing to compare" : "", b->reason);
        return;
    }
    for (unsigned i = 0; !b->plan->cpu_only && i < b->parts[CPU].plan.n_passes; i++) {
        const VgPass *pass = b->parts[CPU].whole[i];
        vg_pass_refused(pass, why, sizeof(why));
        vg_log(&b->log, VG_LOG_WARNING, "%s is scored on the CPU: %s", pass->metric->info.name, why);
    }
}

static int open_all(Both *b)
{
    int err = prepare(b);
    if (err)
        return err;
    split(b, !b->plan->cpu_only);
    err = open_device(b);
    const int cpu_reads = b->parts[CPU].plan.n_passes || b->parts[CHECK].plan.n_passes;
    if (!err && cpu_reads && b->plan->memory != VG_MEMORY_HOST)
        err = vg_download_open(&b->download, b->plan, &b->inner);
    if (!err)
        err = open_part(b, CPU);
    if (!err)
        err = open_part(b, CHECK);
    if (!err)
        warn_of_fallback(b);
    return err;
}

static void both_close(void **context)
{
    Both *b = *context;
    if (!b)
        return;
    *context = NULL;
    close_parts(b);
    vg_download_close(&b->download);
    for (int p = 0; p < N_PARTS; p++) {
        free(b->parts[p].plan.passes);
        free(b->parts[p].whole);
    }
    for (unsigned i = 0; i < VG_MAX_IN_FLIGHT; i++)
        free(b->slots[i].merged);
    free(b);
}

static int both_open(void **context, const VgPlan *plan, const VgLog *log)
{
    Both *b = calloc(1, sizeof(*b));
    *context = b;
    if (!b) {
        vg_log(log, VG_LOG_ERROR, "out of memory");
        return -ENOMEM;
    }
    b->plan = plan;
    b->log = *log;
    b->inner = (VgLog){ relay, b };
    int err = open_all(b);
    if (err)
        both_close(context);
    return err;
}

/* ---- Frames ------------------------------------------------------------------------------------------------------ */

static int has_work(const Part *part, int scored)
{
    for (unsigned i = 0; i < part->plan.n_passes; i++)
        if (vg_pass_runs(&part->plan.passes[i], scored))
            return 1;
    return 0;
}

static int is_compared(const Both *b, uint64_t frame)
{
    return b->parts[CHECK].plan.n_passes && frame % b->plan->parity_every == 0;
}

/* Whether the CPU will read that side of the slot's frame, now or as an earlier one of a later frame. */
static int cpu_reads(const Both *b, const Slot *slot, int side)
{
    if (slot->runs[CPU] || slot->runs[CHECK])
        return 1;
    for (unsigned k = 1; k <= b->plan->lag[side]; k++)
        if (b->parts[CPU].plan.n_passes || is_compared(b, slot->frame + k))
            return 1;
    return 0;
}

static int submit_device(Both *b, unsigned slot, const VgFramePictures *pictures, int scored)
{
    const Part *part = &b->parts[DEVICE];
    VgFramePictures own = *pictures;
    for (int k = 1; part->plan.copy_history && k <= VG_MAX_LAG; k++)
        own.ref[k] = own.dist[k] = NULL;
    return part->plan.n_passes ? part->backend->submit(part->context, slot, &own, scored) : 0;
}

/* The slot's pictures in host memory, which have been downloaded. */
static void use_downloads(Both *b, Slot *slot)
{
    slot->pictures = (VgFramePictures){ .frame = slot->frame };
    for (unsigned k = 0; k <= VG_MAX_LAG && k <= slot->frame; k++) {
        if (k <= b->plan->lag[VG_REF])
            slot->pictures.ref[k] = vg_download_picture(b->download, VG_REF, slot->frame - k);
        if (k <= b->plan->lag[VG_DIST])
            slot->pictures.dist[k] = vg_download_picture(b->download, VG_DIST, slot->frame - k);
    }
}

/* Hands frames whose pictures are there to the CPU; with `wait`, waits for those up to `until`. */
static int hand_over(Both *b, int wait, uint64_t until)
{
    for (; b->handed < b->submitted; b->handed++) {
        const unsigned index = (unsigned)(b->handed % b->plan->in_flight);
        Slot *slot = &b->slots[index];
        if (b->download) {
            int done = vg_download_finished(b->download, slot->frame, wait && slot->frame <= until);
            if (done <= 0)
                return done;
            use_downloads(b, slot);
        }
        for (int p = CPU; p <= CHECK; p++) {
            Part *part = &b->parts[p];
            int err = slot->runs[p] ? part->backend->submit(part->context, index, &slot->pictures, slot->scored) : 0;
            if (err)
                return err;
        }
    }
    return 0;
}

static int both_submit(void *context, unsigned index, const VgFramePictures *pictures, int scored)
{
    Both *b = context;
    Slot *slot = &b->slots[index];
    if (b->error)
        return b->error;
    slot->frame = pictures->frame;
    slot->scored = scored;
    slot->pictures = *pictures;
    memset(slot->records, 0, sizeof(slot->records));
    slot->runs[DEVICE] = b->parts[DEVICE].plan.n_passes != 0;
    slot->runs[CPU] = has_work(&b->parts[CPU], scored);
    slot->runs[CHECK] = is_compared(b, slot->frame) && has_work(&b->parts[CHECK], scored);
    int err = submit_device(b, index, pictures, scored);
    if (!err && b->download) {
        const VgPicture *wanted[VG_N_SIDES] = {
            [VG_REF] = cpu_reads(b, slot, VG_REF) ? pictures->ref[0] : NULL,
            [VG_DIST] = cpu_reads(b, slot, VG_DIST) ? pictures->dist[0] : NULL,
        };
        err = vg_download_submit(b->download, slot->frame, wanted);
    }
    b->submitted += !err;
    if (!err)
        err = hand_over(b, 0, 0);
    return err ? fail(b, err) : 0;
}

/* 1: all parts have finished the slot's frame; 0: not yet; or an error. */
static int finish_parts(Both *b, unsigned index, int wait)
{
    Slot *slot = &b->slots[index];
    int err = hand_over(b, wait, slot->frame);
    if (err)
        return err;
    for (int p = 0; p < N_PARTS; p++) {
        Part *part = &b->parts[p];
        if (!slot->runs[p] || slot->records[p])
            continue;
        if (p != DEVICE && b->handed <= slot->frame)
            return 0;
        const uint8_t *records;
        int done = part->backend->finish(part->context, index, wait, &records);
        if (done <= 0)
            return done;
        slot->records[p] = records;
    }
    return b->handed > slot->frame;
}

static void merge(const Part *part, Slot *slot, const uint8_t *records)
{
    for (unsigned i = 0; records && i < part->plan.n_passes; i++) {
        const VgPass *pass = &part->plan.passes[i];
        memcpy(slot->merged + part->whole[i]->record_offset, records + pass->record_offset, pass->record_size);
    }
}

static void compare(Both *b, const Slot *slot)
{
    const VgPlan *plan = &b->parts[CHECK].plan;
    for (unsigned i = 0; i < plan->n_passes; i++) {
        const VgPass *pass = &plan->passes[i];
        if (vg_pass_runs(pass, slot->scored))
            vg_parity_compare(&b->parity, &b->log, slot->frame, pass->metric, pass->params,
                              slot->records[DEVICE] + pass->record_offset, slot->records[CHECK] + pass->record_offset);
    }
    b->parity.frames++;
}

static int both_finish(void *context, unsigned index, int wait, const uint8_t **records)
{
    Both *b = context;
    Slot *slot = &b->slots[index];
    if (b->error)
        return b->error;
    int done = finish_parts(b, index, wait);
    if (done < 0)
        return fail(b, done);
    if (!done)
        return 0;
    merge(&b->parts[DEVICE], slot, slot->records[DEVICE]);
    merge(&b->parts[CPU], slot, slot->records[CPU]);
    if (slot->runs[CHECK])
        compare(b, slot);
    *records = slot->merged;
    return 1;
}

static void both_flush(void *context)
{
    Both *b = context;
    if (b->parts[CHECK].context)
        vg_parity_total(&b->parity, &b->log);
}

static uint64_t both_parity(void *context, uint64_t *compared)
{
    const Both *b = context;
    *compared = b->parity.compared;
    return b->parity.different;
}

const VgBackend vg_backend_both = {
    .name = "both",
    .open = both_open,
    .submit = both_submit,
    .finish = both_finish,
    .flush = both_flush,
    .parity = both_parity,
    .close = both_close,
};
