/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Device back end: all work of a frame is enqueued by submit(), which never waits; finish() waits for the slot's event,
 * by which the frame's records, all in one copy, are in pinned memory of the host.
 *
 * Small frames do not fill a device, so frames take turns in a few lanes: frame f runs in lane f modulo their number, a
 * stream with work memory of its own. No lane waits for another.
 *
 * Pictures in device memory are read in place, after what their producer has enqueued in its own stream. Pictures in
 * host memory go through a pinned buffer of their slot and one more stream, in which copies run beside the kernels of
 * frames before.
 *
 * Everything is allocated by open(). What protects it when frames use it again:
 *   work memory             of a pass and a lane: the order of the lane's stream, in which are all launches that use it
 *   records, staging        of a slot: it is submitted again, in whatever lane, after finish() has seen its event
 *   uploaded pictures       a ring of in_flight + lag: the last reader of the picture that is overwritten was in_flight
 *                           frames before, which is finished
 *   copies of pictures      a ring of lag: written behind the kernels of the frame that read it last, in the same
 *                           stream. With lanes, each frame would have to wait for the one before; so there is one lane
 * And what makes a lane find whole pictures:
 *   producers' pictures     it waits for events in the producers' streams: of the frame, and of frames that passes look
 *                           back at, since only other lanes have waited for those. in_flight or more frames before, all
 *                           is finished
 *   uploaded pictures       it waits for the frame's own upload; those of frames before stand before it in their stream
 *   copies of pictures      written in the same stream
 */
#include "engine/backend.h"
#include "kernels/kernel_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes from sample to sample that copies of pictures have room for: two-byte samples in pairs. */
#define MOST_COPIED_STEP 4

#define ALIGNMENT 256

#define MOST_LANES 3
/* Bytes of a lane's work memory beyond which there is only one: frames that need so much fill any device. */
#define MOST_WORK ((size_t)256 << 20)

/** How pictures of our own lie in memory, planes one behind the other. */
typedef struct Layout {
    struct {
        size_t offset, pitch; /* bytes */
        uint32_t width, height;
    } planes[3];    /* of chroma, both have the same pitch, and no gap is between them */
    uint32_t bytes; /* that a sample has room for */
    size_t size;
} Layout;

/** A picture of our own on the device: memory, and what is in it. */
typedef struct OwnPicture {
    uint64_t address;
    VgDevicePlane planes[3];
} OwnPicture;

/** Pictures that were uploaded or copied: that of frame n is number n modulo their count. */
typedef struct OwnRing {
    OwnPicture pictures[VG_MAX_IN_FLIGHT + VG_MAX_LAG];
    unsigned n;
    Layout layout;
} OwnRing;

typedef struct DeviceSlot {
    uint64_t frame;
    uint64_t records;             /* in device memory */
    void *host_records;           /* pinned */
    void *staging[VG_N_SIDES];    /* pinned; only if pictures are uploaded */
    VgEvent uploaded;             /* so are they */
    VgEvent produced[VG_N_SIDES]; /* recorded in producers' streams */
    VgEvent ready[VG_N_SIDES];    /* that of them by which the side's picture is there; NULL: nobody reads it */
    VgEvent done;
} DeviceSlot;

typedef struct Kernel {
    const char *name;
    VgFunction function;
} Kernel;

typedef struct DeviceContext DeviceContext;

/** Where every n_lanes-th frame runs: what a VgLauncher launches in. */
typedef struct Lane {
    DeviceContext *context;
    VgStream stream;
    uint64_t *work; /* of each pass */
} Lane;

struct DeviceContext {
    const VgPlan *plan;
    const VgDeviceTable *table;
    VgLog log;
    VgDevice *device;
    VgModule module;
    Kernel *kernels;
    unsigned n_kernels;
    Lane lanes[MOST_LANES];
    unsigned n_lanes;
    VgStream upload_stream;
    DeviceSlot slots[VG_MAX_IN_FLIGHT];
    OwnRing own[VG_N_SIDES];
    size_t device_bytes, host_bytes; /* allocated */
    const char *step;                /* what is being enqueued, for messages */
};

#define REPORT(c, error, ...) vg_device_report((c)->device, &(c)->log, error, __VA_ARGS__)

static int uploads(const DeviceContext *c)
{
    return c->plan->memory == VG_MEMORY_HOST;
}

static Lane *lane_of(DeviceContext *c, uint64_t frame)
{
    return &c->lanes[frame % c->n_lanes];
}

/*
 * Waits for all work, after an error or at the end, so that nothing is read or written any more. The error that is to
 * be reported stays the device's latest.
 */
static void drain(DeviceContext *c)
{
    const int native = c->device->native;
    const char *call = c->device->call;
    if (!c->table->enter(c->device)) {
        if (c->upload_stream)
            (void)c->table->stream_synchronize(c->device, c->upload_stream);
        for (unsigned l = 0; l < c->n_lanes; l++)
            if (c->lanes[l].stream)
                (void)c->table->stream_synchronize(c->device, c->lanes[l].stream);
        c->table->leave(c->device);
    }
    c->device->native = native;
    c->device->call = call;
}

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

static int launch(void *context, const char *name, const uint32_t grid[3], uint32_t block, uint32_t dynamic_shared,
                  const void *args, size_t args_size)
{
    const Lane *lane = context;
    const DeviceContext *c = lane->context;
    unsigned k = 0;
    while (k < c->n_kernels && strcmp(c->kernels[k].name, name))
        k++;
    if (k == c->n_kernels)
        return -ENOENT; /* a kernel that its metric does not list */
    return c->table->launch(c->device, c->kernels[k].function, grid, block, dynamic_shared, args, args_size,
                            lane->stream);
}

static int fill(void *context, uint64_t address, uint8_t value, size_t size)
{
    const Lane *lane = context;
    const DeviceContext *c = lane->context;
    return c->table->fill(c->device, address, value, size, lane->stream);
}

static VgLauncher launcher_of(Lane *lane)
{
    return (VgLauncher){ lane, launch, fill };
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static int check_passes(const VgPlan *plan, const VgLog *log)
{
    for (unsigned p = 0; p < plan->n_passes; p++) {
        const VgPass *pass = &plan->passes[p];
        char why[400];
        if (!vg_pass_refused(pass, why, sizeof(why)))
            continue;
        vg_log(log, VG_LOG_ERROR, "%s cannot be scored on a %s device: %s; use fallback=cpu", pass->metric->info.name,
               plan->device->name, why);
        return -ENOTSUP;
    }
    return 0;
}

static int reserve(DeviceContext *c, size_t size, const char *what, uint64_t *address)
{
    int err = c->table->alloc(c->device, size, address);
    if (err)
        return REPORT(c, err, "%zu bytes of device memory for %s", size, what);
    c->device_bytes += size;
    return 0;
}

static int reserve_host(DeviceContext *c, size_t size, const char *what, void **memory)
{
    int err = c->table->alloc_host(c->device, size, memory);
    if (err)
        return REPORT(c, err, "%zu bytes of pinned memory for %s", size, what);
    c->host_bytes += size;
    return 0;
}

static size_t align_up(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static unsigned count_lanes(const DeviceContext *c)
{
    const VgPlan *plan = c->plan;
    size_t work = 0;
    for (unsigned p = 0; p < plan->n_passes; p++)
        work += align_up(plan->passes[p].metric->device->work_size(plan->passes[p].params));
    const int copies = !uploads(c) && (c->own[VG_REF].n || c->own[VG_DIST].n);
    if (copies || work > MOST_WORK)
        return 1;
    return plan->in_flight < MOST_LANES ? plan->in_flight : MOST_LANES;
}

static int open_events(DeviceContext *c, DeviceSlot *slot)
{
    int err = c->table->event_create(c->device, 0, &slot->done);
    if (!err && uploads(c))
        err = c->table->event_create(c->device, 0, &slot->uploaded);
    for (int side = 0; !err && !uploads(c) && side < VG_N_SIDES; side++)
        err = c->table->event_create(c->device, 0, &slot->produced[side]);
    return err;
}

static int open_streams(DeviceContext *c)
{
    int err = 0;
    c->n_lanes = count_lanes(c);
    for (unsigned l = 0; !err && l < c->n_lanes; l++) {
        c->lanes[l].context = c;
        err = c->table->stream_create(c->device, &c->lanes[l].stream);
    }
    if (!err && uploads(c))
        err = c->table->stream_create(c->device, &c->upload_stream);
    for (unsigned s = 0; !err && s < c->plan->in_flight; s++)
        err = open_events(c, &c->slots[s]);
    return err ? REPORT(c, err, "making streams and events") : 0;
}

static int open_kernels(DeviceContext *c)
{
    unsigned most = 0;
    for (unsigned p = 0; p < c->plan->n_passes; p++)
        for (const VgKernel *k = c->plan->passes[p].metric->device->kernels; k->name; k++)
            most++;
    c->kernels = calloc(most + 1, sizeof(*c->kernels));
    if (!c->kernels) {
        vg_log(&c->log, VG_LOG_ERROR, "out of memory");
        return -ENOMEM;
    }
    int err = c->table->module_load(c->device, &c->log, &c->module);
    if (err)
        return REPORT(c, err, "loading kernels");
    for (unsigned p = 0; p < c->plan->n_passes; p++) {
        for (const VgKernel *k = c->plan->passes[p].metric->device->kernels; k->name; k++) {
            Kernel *kernel = &c->kernels[c->n_kernels++];
            kernel->name = k->name;
            err = c->table->function(c->device, c->module, k->name, k->dynamic_shared, &kernel->function);
            if (err)
                return REPORT(c, err, "kernel %s", k->name);
        }
    }
    return 0;
}

/* Work memory of all passes. What prepares it is in the lane's own stream, before all frames there. */
static int open_lane(DeviceContext *c, Lane *lane)
{
    const VgLauncher launcher = launcher_of(lane);
    lane->work = calloc(c->plan->n_passes, sizeof(*lane->work));
    if (!lane->work) {
        vg_log(&c->log, VG_LOG_ERROR, "out of memory");
        return -ENOMEM;
    }
    for (unsigned p = 0; p < c->plan->n_passes; p++) {
        const VgPass *pass = &c->plan->passes[p];
        const VgDeviceMetric *device = pass->metric->device;
        const size_t size = device->work_size(pass->params);
        int err = size ? reserve(c, size, pass->metric->info.name, &lane->work[p]) : 0;
        if (err)
            return err;
        err = device->plan(pass->params, &launcher, lane->work[p]);
        if (err)
            return REPORT(c, err, "preparing %s", pass->metric->info.name);
    }
    return 0;
}

/* Room for the components (VG_PLANE_*) of a picture with samples of `bytes` bytes. */
static Layout make_layout(const VgGeometry *geometry, unsigned components, uint32_t bytes)
{
    Layout l = { .bytes = bytes };
    for (int i = 0; i < 3; i++) {
        if (!(components >> i & 1))
            continue;
        vg_plane_size(geometry, i, &l.planes[i].width, &l.planes[i].height);
        l.planes[i].offset = l.size;
        l.planes[i].pitch = align_up((size_t)l.planes[i].width * bytes);
        l.size += l.planes[i].pitch * l.planes[i].height;
    }
    return l;
}

/* Memory for pictures of our own: those that are uploaded, or copies of earlier ones. */
static int open_pictures(DeviceContext *c)
{
    const VgPlan *plan = c->plan;
    const VgGeometry *g = &plan->geometry;
    for (int side = 0; side < VG_N_SIDES; side++) {
        OwnRing *own = &c->own[side];
        if (uploads(c)) {
            own->n = plan->in_flight + plan->lag[side];
            own->layout = make_layout(g, VG_PLANE_Y | VG_PLANE_CB | VG_PLANE_CR, g->bit_depth > 8 ? 2 : 1);
        } else if (plan->copy_history) {
            own->n = plan->planes[side] ? plan->lag[side] : 0;
            own->layout = make_layout(g, plan->planes[side], MOST_COPIED_STEP);
        }
        for (unsigned i = 0; own->layout.size && i < own->n; i++) {
            int err = reserve(c, own->layout.size, uploads(c) ? "uploaded pictures" : "copies of earlier pictures",
                              &own->pictures[i].address);
            if (err)
                return err;
        }
    }
    return 0;
}

static int open_slots(DeviceContext *c)
{
    int err = 0;
    for (unsigned s = 0; !err && s < c->plan->in_flight; s++) {
        DeviceSlot *slot = &c->slots[s];
        err = reserve(c, c->plan->records_size, "records", &slot->records);
        if (!err)
            err = reserve_host(c, c->plan->records_size, "records", &slot->host_records);
        if (!err) {
            /* Between records, and where passes do not run, nothing else is written. The first frame is number s. */
            err = c->table->fill(c->device, slot->records, 0, c->plan->records_size, lane_of(c, s)->stream);
            if (err)
                REPORT(c, err, "preparing records");
        }
        for (int side = 0; !err && uploads(c) && side < VG_N_SIDES; side++)
            err = reserve_host(c, c->own[side].layout.size, "pictures on their way", &slot->staging[side]);
    }
    return err;
}

static void device_close(void **context)
{
    DeviceContext *c = *context;
    *context = NULL;
    const VgDeviceTable *t = c->table;
    if (c->device) {
        /* Either try may tell the failure of earlier work. If both do, releasing is of use all the same. */
        const int entered = !t->enter(c->device) || !t->enter(c->device);
        if (entered)
            drain(c);
        for (unsigned s = 0; s < c->plan->in_flight; s++) {
            DeviceSlot *slot = &c->slots[s];
            t->free(c->device, slot->records);
            t->free_host(c->device, slot->host_records);
            for (int side = 0; side < VG_N_SIDES; side++) {
                t->free_host(c->device, slot->staging[side]);
                t->event_destroy(c->device, slot->produced[side]);
            }
            t->event_destroy(c->device, slot->uploaded);
            t->event_destroy(c->device, slot->done);
        }
        for (int side = 0; side < VG_N_SIDES; side++)
            for (unsigned i = 0; i < c->own[side].n; i++)
                t->free(c->device, c->own[side].pictures[i].address);
        for (unsigned l = 0; l < c->n_lanes; l++) {
            for (unsigned p = 0; c->lanes[l].work && p < c->plan->n_passes; p++)
                t->free(c->device, c->lanes[l].work[p]);
            t->stream_destroy(c->device, c->lanes[l].stream);
        }
        t->stream_destroy(c->device, c->upload_stream);
        t->module_unload(c->device, c->module);
        if (entered)
            t->leave(c->device);
        t->close(&c->device);
    }
    for (unsigned l = 0; l < c->n_lanes; l++)
        free(c->lanes[l].work);
    free(c->kernels);
    free(c);
}

static int open_all(DeviceContext *c)
{
    int err = c->table->enter(c->device);
    if (err)
        return REPORT(c, err, "using %s", c->device->name);
    err = open_pictures(c);
    if (!err)
        err = open_streams(c);
    if (!err)
        err = open_kernels(c);
    if (!err)
        err = open_slots(c);
    for (unsigned l = 0; !err && l < c->n_lanes; l++)
        err = open_lane(c, &c->lanes[l]);
    c->table->leave(c->device);
    return err;
}

static int device_open(void **context, const VgPlan *plan, const VgLog *log)
{
    *context = NULL;
    int err = check_passes(plan, log);
    if (err)
        return err;
    DeviceContext *c = calloc(1, sizeof(*c));
    if (!c) {
        vg_log(log, VG_LOG_ERROR, "out of memory");
        return -ENOMEM;
    }
    c->plan = plan;
    c->table = plan->device;
    c->log = *log;
    *context = c;
    err = c->table->open(&c->device, &plan->choice, log);
    if (!err)
        err = open_all(c);
    if (err) {
        device_close(context);
        return err;
    }
    vg_log(log, VG_LOG_VERBOSE,
           "scoring %ux%u, %u bits, on %s (%s): %u frame%s in flight in %u lane%s, %.1f MiB of device memory, %.1f MiB "
           "pinned",
           plan->geometry.width, plan->geometry.height, plan->geometry.bit_depth, c->device->name, c->device->id,
           plan->in_flight, plan->in_flight == 1 ? "" : "s", c->n_lanes, c->n_lanes == 1 ? "" : "s",
           (double)c->device_bytes / (1 << 20), (double)c->host_bytes / (1 << 20));
    return 0;
}

/* ---- Pictures in device memory ----------------------------------------------------------------------------------- */

static VgDevicePlane plane_of(const VgPicture *picture, int component)
{
    const VgPlane plane = vg_picture_plane(picture, component);
    return (VgDevicePlane){
        .address = (uintptr_t)plane.data,
        .pitch = plane.pitch,
        .width = plane.width,
        .height = plane.height,
        .step = plane.step,
        .sample_bytes = plane.sample_bytes,
        .shift = plane.shift,
    };
}

/* Whether a picture of this side will be read, now or by a later frame. */
static int is_read(const DeviceContext *c, VgSide side, int scored)
{
    int any = c->plan->lag[side] > 0;
    for (unsigned p = 0; p < c->plan->n_passes; p++)
        any |= vg_pass_runs(&c->plan->passes[p], scored);
    return any;
}

/* What follows in the first stream is done after what is in the second one now. */
static int wait_for_stream(DeviceContext *c, VgStream stream, VgStream before, VgEvent event)
{
    int err = c->table->record(c->device, event, before);
    return err ? err : c->table->stream_wait(c->device, stream, event);
}

/* The lane goes on when producers have done what is in their streams now. */
static int wait_for_producers(DeviceContext *c, const Lane *lane, DeviceSlot *slot,
                              const VgPicture *const new[VG_N_SIDES], int scored)
{
    int err = 0;
    for (int side = 0; !err && side < VG_N_SIDES; side++) {
        slot->ready[side] = NULL;
        if (!is_read(c, side, scored))
            continue;
        if (side && slot->ready[0] && new[side]->stream == new[0]->stream) {
            slot->ready[side] = slot->ready[0];
            continue;
        }
        slot->ready[side] = slot->produced[side];
        err = wait_for_stream(c, lane->stream, new[side]->stream, slot->produced[side]);
    }
    return err;
}

/*
 * The same for pictures of earlier frames that may be read, where only other lanes have waited for their producers. From
 * in_flight frames before on, they are finished.
 */
static int wait_for_earlier_producers(DeviceContext *c, const Lane *lane, const DeviceSlot *slot)
{
    const unsigned in_flight = c->plan->in_flight;
    int err = 0;
    for (int side = 0; side < VG_N_SIDES; side++) {
        for (unsigned k = 1; !err && k <= c->plan->lag[side] && k < in_flight && k <= slot->frame; k++) {
            const VgEvent ready = c->slots[(slot->frame - k) % in_flight].ready[side];
            if (k % c->n_lanes && ready)
                err = c->table->stream_wait(c->device, lane->stream, ready);
        }
    }
    return err;
}

/* Whether the copies of earlier pictures have room for this one; if not, says so. */
static int check_copy(const DeviceContext *c, const VgPicture *picture, unsigned components, uint64_t frame)
{
    for (int i = 0; i < 3; i++) {
        if (!(components >> i & 1) || picture->step[i] <= MOST_COPIED_STEP)
            continue;
        vg_log(&c->log, VG_LOG_ERROR,
               "frame %llu: samples that are %u bytes apart cannot be copied for later frames (at most %d): score with "
               "history=ref",
               (unsigned long long)frame, picture->step[i], MOST_COPIED_STEP);
        return -ENOTSUP;
    }
    return 0;
}

/* Copies what later frames will look back at. Rows keep their order: of a negative pitch, the last one comes first. */
static int copy_picture(DeviceContext *c, const Lane *lane, const VgPicture *picture, unsigned components,
                        const Layout *layout, OwnPicture *to)
{
    for (int i = 0; i < 3; i++) {
        VgDevicePlane plane = plane_of(picture, i);
        if (!(components >> i & 1) || !plane.width || !plane.height)
            continue;
        const uint64_t start = to->address + layout->planes[i].offset;
        const int64_t span = plane.pitch * (plane.height - 1), own_pitch = (int64_t)layout->planes[i].pitch;
        const VgCopy copy = {
            .kind = VG_COPY_ON_DEVICE,
            .to = start,
            .from = plane.pitch < 0 ? plane.address + (uint64_t)span : plane.address,
            .to_pitch = (size_t)own_pitch,
            .from_pitch = (size_t)(plane.pitch < 0 ? -plane.pitch : plane.pitch),
            .width = (size_t)(plane.width - 1) * (size_t)plane.step + (size_t)plane.sample_bytes,
            .rows = (size_t)plane.height,
        };
        int err = vg_device_copy_rows(c->table, c->device, &copy, lane->stream);
        if (err)
            return err;
        plane.address = plane.pitch < 0 ? start + (uint64_t)(own_pitch * (plane.height - 1)) : start;
        plane.pitch = plane.pitch < 0 ? -own_pitch : own_pitch;
        to->planes[i] = plane;
    }
    return 0;
}

/* ---- Pictures in host memory ------------------------------------------------------------------------------------- */

static void stage_rows(uint8_t *to, size_t to_pitch, const uint8_t *from, ptrdiff_t pitch, size_t width, uint32_t rows)
{
    for (uint32_t y = 0; y < rows; y++)
        memcpy(to + y * to_pitch, from + (ptrdiff_t)y * pitch, width);
}

/* Sample by sample, as values. */
static void stage_samples(uint8_t *to, const Layout *l, const VgPicture *p, int i)
{
    for (uint32_t y = 0; y < l->planes[i].height; y++, to += l->planes[i].pitch) {
        const uint8_t *from = (const uint8_t *)p->data[i] + (ptrdiff_t)y * p->pitch[i];
        for (uint32_t x = 0; x < l->planes[i].width; x++, from += p->step[i]) {
            const uint16_t value =
                (uint16_t)((p->sample_bytes == 2 ? *(const uint16_t *)(const void *)from : *from) >> p->shift);
            if (l->bytes == 2)
                ((uint16_t *)(void *)to)[x] = value;
            else
                to[x] = (uint8_t)value;
        }
    }
}

/* Whether samples of Cb and Cr take turns in common rows. */
static int is_paired(const VgPicture *p)
{
    const uintptr_t cb = (uintptr_t)p->data[1], cr = (uintptr_t)p->data[2], bytes = p->sample_bytes;
    return p->step[1] == 2 * bytes && p->step[2] == 2 * bytes && p->pitch[1] == p->pitch[2] &&
           (cb + bytes == cr || cr + bytes == cb);
}

/*
 * Copies a picture into a buffer of this layout, and describes it as it will be at `address`. Rows without gaps are
 * copied as they are, and so are rows of paired chroma, which take the room of both planes; what else there may be is
 * packed. So the layout's size is enough for every picture, whatever its own.
 */
static void stage(const VgPicture *p, const Layout *l, uint8_t *buffer, uint64_t address, VgDevicePlane planes[3])
{
    const int n = p->geometry.chroma == VG_CHROMA_400 ? 1 : 3;
    const int same_size = p->sample_bytes == l->bytes;
    for (int i = 0; i < n; i++) {
        const size_t offset = l->planes[i].offset, pitch = l->planes[i].pitch;
        const uint32_t width = l->planes[i].width, height = l->planes[i].height;
        planes[i] = (VgDevicePlane){
            .address = address + offset,
            .pitch = (int64_t)pitch,
            .width = (int32_t)width,
            .height = (int32_t)height,
            .step = (int32_t)l->bytes,
            .sample_bytes = (int32_t)l->bytes,
            .shift = same_size ? (int32_t)p->shift : 0,
        };
        if (i == 1 && same_size && is_paired(p)) {
            const int cr_first = (uintptr_t)p->data[2] < (uintptr_t)p->data[1];
            stage_rows(buffer + offset, 2 * pitch, p->data[cr_first ? 2 : 1], p->pitch[1], (size_t)2 * width * l->bytes,
                       height);
            planes[1].pitch *= 2;
            planes[1].step *= 2;
            planes[2] = planes[1];
            planes[cr_first ? 1 : 2].address += l->bytes;
            return;
        }
        if (same_size && p->step[i] == l->bytes) {
            stage_rows(buffer + offset, pitch, p->data[i], p->pitch[i], (size_t)width * l->bytes, height);
        } else {
            stage_samples(buffer + offset, l, p, i);
            planes[i].shift = 0;
        }
    }
}

static int upload(DeviceContext *c, DeviceSlot *slot, VgSide side, const VgPicture *picture)
{
    OwnRing *own = &c->own[side];
    OwnPicture *to = &own->pictures[slot->frame % own->n];
    stage(picture, &own->layout, slot->staging[side], to->address, to->planes);
    const VgCopy copy = {
        .kind = VG_COPY_TO_DEVICE,
        .to = to->address,
        .from = (uintptr_t)slot->staging[side],
        .width = own->layout.size,
        .rows = 1,
    };
    return c->table->copy(c->device, &copy, c->upload_stream);
}

/* Has the lane's next work find the new pictures on the device. */
static int enqueue_uploads(DeviceContext *c, const Lane *lane, DeviceSlot *slot, const VgPicture *const new[VG_N_SIDES],
                           int scored)
{
    int err = 0, n = 0;
    for (int side = 0; !err && side < VG_N_SIDES; side++) {
        if (is_read(c, side, scored)) {
            err = upload(c, slot, side, new[side]);
            n++;
        }
    }
    return err || !n ? err : wait_for_stream(c, lane->stream, c->upload_stream, slot->uploaded);
}

/* ---- Frames ------------------------------------------------------------------------------------------------------ */

/* Fills planes[k][component] of one side with what passes may read. */
static void find_planes(const DeviceContext *c, VgSide side, uint64_t frame, const VgPicture *const pictures[],
                        VgDevicePlane planes[VG_MAX_LAG + 1][3])
{
    const OwnRing *own = &c->own[side];
    for (unsigned k = 0; k <= c->plan->lag[side] && k <= frame; k++) {
        const int is_own = uploads(c) || (k && c->plan->copy_history);
        for (int i = 0; i < 3; i++) {
            if (k && !(c->plan->planes[side] >> i & 1))
                continue;
            if (is_own)
                planes[k][i] = own->pictures[(frame - k) % own->n].planes[i];
            else if (pictures[k])
                planes[k][i] = plane_of(pictures[k], i);
        }
    }
}

static int enqueue_passes(DeviceContext *c, Lane *lane, const DeviceSlot *slot, const VgDeviceFrame *frame, int scored)
{
    const VgLauncher launcher = launcher_of(lane);
    int err = 0;
    for (unsigned p = 0; !err && p < c->plan->n_passes; p++) {
        const VgPass *pass = &c->plan->passes[p];
        if (!vg_pass_runs(pass, scored))
            continue;
        c->step = pass->metric->info.name;
        err = pass->metric->device->enqueue(pass->params, &launcher, frame, lane->work[p],
                                            slot->records + pass->record_offset);
    }
    return err;
}

/* Copies what later frames look back at, behind all launches that read what is overwritten. */
static int enqueue_copies(DeviceContext *c, const Lane *lane, const DeviceSlot *slot,
                          const VgPicture *const new[VG_N_SIDES])
{
    int err = 0;
    for (int side = 0; !err && side < VG_N_SIDES; side++) {
        OwnRing *own = &c->own[side];
        if (own->n)
            err = copy_picture(c, lane, new[side], c->plan->planes[side], &own->layout,
                               &own->pictures[slot->frame % own->n]);
    }
    return err;
}

static int enqueue_records(DeviceContext *c, const Lane *lane, const DeviceSlot *slot)
{
    const VgCopy copy = {
        .kind = VG_COPY_TO_HOST,
        .to = (uintptr_t)slot->host_records,
        .from = slot->records,
        .width = c->plan->records_size,
        .rows = 1,
    };
    int err = c->table->copy(c->device, &copy, lane->stream);
    return err ? err : c->table->record(c->device, slot->done, lane->stream);
}

static int enqueue_frame(DeviceContext *c, DeviceSlot *slot, const VgFramePictures *pictures, int scored)
{
    const VgPicture *const new[VG_N_SIDES] = { [VG_REF] = pictures->ref[0], [VG_DIST] = pictures->dist[0] };
    VgDeviceFrame frame = { .index = pictures->frame };
    Lane *lane = lane_of(c, pictures->frame);
    c->step = "its pictures";
    int err = uploads(c) ? enqueue_uploads(c, lane, slot, new, scored) : wait_for_producers(c, lane, slot, new, scored);
    if (!err && !uploads(c))
        err = wait_for_earlier_producers(c, lane, slot);
    if (err)
        return err;
    find_planes(c, VG_REF, pictures->frame, pictures->ref, frame.ref);
    find_planes(c, VG_DIST, pictures->frame, pictures->dist, frame.dist);
    err = enqueue_passes(c, lane, slot, &frame, scored);
    if (err)
        return err;
    if (!uploads(c) && c->plan->copy_history) {
        c->step = "copies for later frames";
        err = enqueue_copies(c, lane, slot, new);
        if (err)
            return err;
    }
    c->step = "its records";
    return enqueue_records(c, lane, slot);
}

static int check_copies(const DeviceContext *c, const VgFramePictures *pictures)
{
    if (uploads(c) || !c->plan->copy_history)
        return 0;
    int err = c->own[VG_REF].n ? check_copy(c, pictures->ref[0], c->plan->planes[VG_REF], pictures->frame) : 0;
    if (!err && c->own[VG_DIST].n)
        err = check_copy(c, pictures->dist[0], c->plan->planes[VG_DIST], pictures->frame);
    return err;
}

static int device_submit(void *context, unsigned index, const VgFramePictures *pictures, int scored)
{
    DeviceContext *c = context;
    DeviceSlot *slot = &c->slots[index];
    slot->frame = pictures->frame;
    int err = check_copies(c, pictures);
    if (err)
        return err;
    err = c->table->enter(c->device);
    if (err)
        return REPORT(c, err, "frame %llu", (unsigned long long)slot->frame);
    err = enqueue_frame(c, slot, pictures, scored);
    if (err)
        drain(c);
    c->table->leave(c->device);
    return err ? REPORT(c, err, "frame %llu, %s", (unsigned long long)slot->frame, c->step) : 0;
}

static int device_finish(void *context, unsigned index, int wait, const uint8_t **records)
{
    DeviceContext *c = context;
    const DeviceSlot *slot = &c->slots[index];
    int done = c->table->enter(c->device);
    if (!done) {
        done = wait ? c->table->event_synchronize(c->device, slot->done) : c->table->event_query(c->device, slot->done);
        c->table->leave(c->device);
        if (wait && !done)
            done = 1;
    }
    if (done < 0) {
        drain(c);
        return REPORT(c, done, "frame %llu", (unsigned long long)slot->frame);
    }
    if (done)
        *records = slot->host_records;
    return done;
}

const VgBackend vg_backend_device = {
    .name = "device",
    .open = device_open,
    .submit = device_submit,
    .finish = device_finish,
    .close = device_close,
};
