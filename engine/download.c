/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Pictures copied from device memory for the CPU. All copies are made in one stream, which waits for the producer of
 * each picture by an event.
 */
#include "engine/download.h"

#include <errno.h>
#include <stdlib.h>

#define ROW_ALIGNMENT 64

/* Rows of a picture: those of one component, or of two that share them. */
typedef struct Rows {
    uint64_t from;     /* the one at the lowest address */
    size_t pitch;      /* from there to the next */
    size_t bytes;      /* of a row */
    size_t count;      /* 0: nothing is to be copied */
    size_t copy_pitch; /* in host memory */
} Rows;

typedef struct HostPicture {
    VgPicture picture;
    uint64_t frame;
    int filled; /* or being filled */
    uint8_t *memory;
    size_t size;
} HostPicture;

struct VgDownload {
    const VgPlan *plan;
    const VgDeviceTable *table; /* plan->device */
    VgLog log;
    VgDevice *device;
    VgStream stream;
    VgEvent produced;                 /* used again for every picture */
    VgEvent copied[VG_MAX_IN_FLIGHT]; /* of each frame in flight */
    HostPicture pictures[VG_N_SIDES][VG_MAX_IN_FLIGHT + VG_MAX_LAG];
};

static unsigned n_pictures(const VgDownload *d, int side)
{
    return d->plan->in_flight + d->plan->lag[side];
}

static HostPicture *place_of(VgDownload *d, int side, uint64_t frame)
{
    return &d->pictures[side][frame % n_pictures(d, side)];
}

/* ---- Layout ------------------------------------------------------------------------------------------------------ */

static uint64_t address_of(const VgPicture *p, int component)
{
    return (uint64_t)(uintptr_t)p->data[component];
}

/* Whether Cb and Cr lie in the same rows, sample beside sample: they are copied once. */
static int shares_rows(const VgPicture *p)
{
    const uint64_t cb = address_of(p, 1), cr = address_of(p, 2);
    return p->pitch[1] == p->pitch[2] && p->step[1] == p->step[2] && (cb > cr ? cb - cr : cr - cb) < p->step[1];
}

static size_t aligned(size_t row)
{
    return (row + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
}

/* The rows of components `first` to `last`. */
static Rows rows_of(const VgPicture *p, int first, int last)
{
    const uint64_t a = address_of(p, first), b = address_of(p, last), left = a < b ? a : b;
    uint32_t width, height;
    vg_plane_size(&p->geometry, first, &width, &height);
    Rows r = { .from = left };
    if (!width || !height)
        return r;
    r.count = height;
    r.pitch = (size_t)(p->pitch[first] < 0 ? -p->pitch[first] : p->pitch[first]);
    r.bytes = (size_t)(width - 1) * p->step[first] + p->sample_bytes + (size_t)(a + b - 2 * left);
    r.copy_pitch = aligned(r.bytes);
    if (p->pitch[first] < 0)
        r.from -= r.pitch * (r.count - 1);
    return r;
}

/* Where a component of the copy begins. Rows keep their order in memory: a negative pitch stays one. */
static void point_to(VgPicture *copy, const VgPicture *p, int component, const Rows *r, uint8_t *at)
{
    const int up = p->pitch[component] < 0;
    const size_t last = r->count ? r->count - 1 : 0;
    const uint64_t top_left = r->from + (up ? r->pitch * last : 0);
    copy->data[component] = at + (up ? r->copy_pitch * last : 0) + (address_of(p, component) - top_left);
    copy->pitch[component] = up ? -(ptrdiff_t)r->copy_pitch : (ptrdiff_t)r->copy_pitch;
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

static int reserve(VgDownload *d, HostPicture *place, size_t size)
{
    const VgDeviceTable *table = d->table;
    void *memory = NULL;
    if (size <= place->size)
        return 0;
    if (place->memory)
        table->free_host(d->device, place->memory);
    place->memory = NULL;
    place->size = 0;
    int err = table->alloc_host(d->device, size, &memory);
    if (err)
        return err;
    place->memory = memory;
    place->size = size;
    return 0;
}

static int copy_rows(VgDownload *d, const Rows *r, uint8_t *to)
{
    const VgCopy copy = { .kind = VG_COPY_TO_HOST,
                          .to = (uint64_t)(uintptr_t)to,
                          .from = r->from,
                          .to_pitch = r->copy_pitch,
                          .from_pitch = r->pitch,
                          .width = r->bytes,
                          .rows = r->count };
    return vg_device_copy_rows(d->table, d->device, &copy, d->stream);
}

static int copy_picture(VgDownload *d, HostPicture *place, const VgPicture *p)
{
    const VgDeviceTable *table = d->table;
    Rows rows[3];
    int first[3], last[3], n = 0;
    size_t size = 0;
    for (int c = 0; c < 3 && p->data[c]; c = last[n++] + 1) {
        first[n] = c;
        last[n] = c == 1 && shares_rows(p) ? 2 : c;
        rows[n] = rows_of(p, first[n], last[n]);
        size += rows[n].copy_pitch * rows[n].count;
    }
    int err = reserve(d, place, size); /* rarely anything to do: only for layouts that nobody foresaw */
    if (!err)
        err = table->record(d->device, d->produced, p->stream);
    if (!err)
        err = table->stream_wait(d->device, d->stream, d->produced);
    place->picture = *p;
    place->picture.memory = VG_MEMORY_HOST;
    uint8_t *to = place->memory;
    for (int i = 0; !err && i < n; i++) {
        for (int c = first[i]; c <= last[i]; c++)
            point_to(&place->picture, p, c, &rows[i], to);
        err = copy_rows(d, &rows[i], to);
        to += rows[i].copy_pitch * rows[i].count;
    }
    return err;
}

int vg_download_submit(VgDownload *d, uint64_t frame, const VgPicture *const pictures[VG_N_SIDES])
{
    const VgDeviceTable *table = d->table;
    if (!pictures[VG_REF] && !pictures[VG_DIST])
        return 0;
    int err = table->enter(d->device);
    if (err)
        return vg_device_report(d->device, &d->log, err, "downloading frame %llu", (unsigned long long)frame);
    for (int side = 0; !err && side < VG_N_SIDES; side++) {
        if (!pictures[side])
            continue;
        HostPicture *place = place_of(d, side, frame);
        place->frame = frame;
        place->filled = 1;
        err = copy_picture(d, place, pictures[side]);
    }
    if (!err)
        err = table->record(d->device, d->copied[frame % d->plan->in_flight], d->stream);
    if (err)
        vg_device_report(d->device, &d->log, err, "downloading frame %llu", (unsigned long long)frame);
    table->leave(d->device);
    return err;
}

const VgPicture *vg_download_picture(const VgDownload *d, VgSide side, uint64_t frame)
{
    const HostPicture *place = &d->pictures[side][frame % n_pictures(d, side)];
    return place->filled && place->frame == frame ? &place->picture : NULL;
}

int vg_download_finished(VgDownload *d, uint64_t frame, int wait)
{
    const VgDeviceTable *table = d->table;
    if (!vg_download_picture(d, VG_REF, frame) && !vg_download_picture(d, VG_DIST, frame))
        return 1;
    VgEvent copied = d->copied[frame % d->plan->in_flight];
    int result = table->enter(d->device);
    if (!result) {
        result = wait ? table->event_synchronize(d->device, copied) : table->event_query(d->device, copied);
        table->leave(d->device);
        if (wait && !result)
            result = 1;
    }
    if (result < 0)
        vg_device_report(d->device, &d->log, result, "downloading frame %llu", (unsigned long long)frame);
    return result;
}

/* ---- Opening and closing ----------------------------------------------------------------------------------------- */

/* For what must be done whatever happened. The first try may have been told of the failure of earlier work. */
static int enter_anyway(VgDownload *d)
{
    return !d->table->enter(d->device) || !d->table->enter(d->device);
}

void vg_download_drain(VgDownload *d)
{
    if (!enter_anyway(d))
        return;
    d->table->stream_synchronize(d->device, d->stream);
    d->table->leave(d->device);
}

/* Bytes of a picture whose samples stand close, or whose chroma is interleaved. */
static size_t usual_size(const VgGeometry *geometry)
{
    size_t size = 0;
    for (int c = 0; c < 3; c++) {
        uint32_t width, height;
        vg_plane_size(geometry, c, &width, &height);
        size += aligned((size_t)width * (geometry->bit_depth > 8 ? 2 : 1)) * height;
    }
    return size;
}

static int reserve_all(VgDownload *d)
{
    const VgDeviceTable *table = d->table;
    int err = table->stream_create(d->device, &d->stream);
    if (!err)
        err = table->event_create(d->device, 0, &d->produced);
    for (unsigned i = 0; !err && i < d->plan->in_flight; i++)
        err = table->event_create(d->device, 0, &d->copied[i]);
    for (int side = 0; side < VG_N_SIDES; side++)
        for (unsigned i = 0; !err && i < n_pictures(d, side); i++)
            err = reserve(d, &d->pictures[side][i], usual_size(&d->plan->geometry));
    return err;
}

static size_t pinned(const VgDownload *d)
{
    size_t size = 0;
    for (int side = 0; side < VG_N_SIDES; side++)
        for (unsigned i = 0; i < n_pictures(d, side); i++)
            size += d->pictures[side][i].size;
    return size;
}

int vg_download_open(VgDownload **download, const VgPlan *plan, const VgLog *log)
{
    VgDownload *d = calloc(1, sizeof(*d));
    *download = NULL;
    if (!d) {
        vg_log(log, VG_LOG_ERROR, "out of memory");
        return -ENOMEM;
    }
    d->plan = plan;
    d->table = plan->device;
    d->log = *log;
    int err = d->table->open(&d->device, &plan->choice, log);
    if (!err) {
        err = d->table->enter(d->device);
        if (!err) {
            err = reserve_all(d);
            d->table->leave(d->device);
        }
        if (err)
            vg_device_report(d->device, log, err, "preparing to download %ux%u pictures", plan->geometry.width,
                             plan->geometry.height);
    }
    if (err)
        vg_download_close(&d);
    else
        vg_log(log, VG_LOG_VERBOSE, "downloading pictures from %s (%s): %.1f MiB pinned", d->device->name,
               d->device->id, (double)pinned(d) / (1 << 20));
    *download = d;
    return err;
}

static void free_all(VgDownload *d)
{
    const VgDeviceTable *table = d->table;
    if (d->stream) {
        table->stream_synchronize(d->device, d->stream);
        table->stream_destroy(d->device, d->stream);
    }
    if (d->produced)
        table->event_destroy(d->device, d->produced);
    for (unsigned i = 0; i < d->plan->in_flight; i++)
        if (d->copied[i])
            table->event_destroy(d->device, d->copied[i]);
    for (int side = 0; side < VG_N_SIDES; side++)
        for (unsigned i = 0; i < n_pictures(d, side); i++)
            if (d->pictures[side][i].memory)
                table->free_host(d->device, d->pictures[side][i].memory);
}

void vg_download_close(VgDownload **download)
{
    VgDownload *d = *download;
    if (!d)
        return;
    *download = NULL;
    if (d->device) {
        const int entered = enter_anyway(d);
        free_all(d);
        if (entered)
            d->table->leave(d->device);
        d->table->close(&d->device);
    }
    free(d);
}
