/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What all kinds of devices have in common: their errors, and which of them are built in.
 */
#include "engine/device.h"
#include "kernels/image.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int vg_backend_built_in(VgBackendKind kind)
{
    switch (kind) {
    case VG_BACKEND_AUTO:
    case VG_BACKEND_CPU:
        return 1;
    case VG_BACKEND_CUDA:
    case VG_BACKEND_HIP:
        return vg_device_table(kind) != NULL;
    }
    return 0;
}

const VgDeviceTable *vg_device_table(VgBackendKind kind)
{
    if (kind == VG_BACKEND_CUDA && (vg_image_ptx_size || vg_image_cubin_size))
        return &vg_table_cuda;
#ifdef VG_HIP
    if (kind == VG_BACKEND_HIP)
        return &vg_table_hip;
#endif
    return NULL;
}

int vg_device_errno(int native)
{
    switch (native) {
    case 0:
        return 0;
    case 1: /* invalid value */
        return -EINVAL;
    case 2: /* out of memory */
        return -ENOMEM;
    case 3:   /* not initialised */
    case 100: /* no device */
    case 101: /* no such device */
        return -ENODEV;
    case 200: /* invalid image */
    case 209: /* nothing for this device in the image */
    case 218: /* invalid PTX */
    case 222: /* PTX of a version that the driver does not know */
    case 302: /* code that does not link, */
    case 303: /* or does not load: what ROCm says of all that it cannot use */
        return -ENOEXEC;
    case 500: /* not found */
        return -ENOENT;
    case 600: /* not ready */
        return -EAGAIN;
    case 801: /* not supported */
        return -ENOTSUP;
    default:
        return -EIO;
    }
}

int vg_device_lost(const VgDevice *device)
{
    switch (device->native) {
    case 4:   /* the driver shuts down */
    case 214: /* memory error that could not be corrected */
    case 220: /* the same of NVLink */
    case 700: /* illegal address */
    case 702: /* a kernel ran too long */
    case 709: /* the context was destroyed */
    case 710: /* assertion in a kernel */
    case 714: /* stack error */
    case 715: /* illegal instruction */
    case 716: /* misaligned address */
    case 717: /* invalid address space */
    case 718: /* invalid program counter */
    case 719: /* launch failed */
        return 1;
    default:
        return 0;
    }
}

static const char *remedy(const VgDevice *device, int error)
{
    if (device->remedy[0])
        return device->remedy;
    if (vg_device_lost(device))
        return ". The device does not answer this program any more: start it again; the system's log may say why";
    switch (error) {
    case -ENOMEM:
        return ". End other programs that use the device, or lower in_flight";
    case -ENODEV:
        return device->table->unseen;
    case -ENOEXEC:
        return ". Update the driver, or build the library for this device";
    default:
        return "";
    }
}

int vg_device_report(const VgDevice *device, const VgLog *log, int error, const char *doing, ...)
{
    char what[400];
    va_list args;
    va_start(args, doing);
    vsnprintf(what, sizeof(what), doing, args);
    va_end(args);

    if (vg_device_errno(device->native) != error) { /* the driver has nothing to do with it */
        vg_log(log, VG_LOG_ERROR, "%s: %s", what, strerror(-error));
        return error;
    }
    const char *name = NULL, *text = NULL;
    device->table->error_text((VgDevice *)device, device->native, &name, &text);
    /* Calls are known by their names without the version of their binary interface. */
    const char *version = strstr(device->call, "_v2");
    int call_size = (int)(version ? (size_t)(version - device->call) : strlen(device->call));
    vg_log(log, VG_LOG_ERROR, "%s: %.*s: %s (%d, %s)%s", what, call_size, device->call, name ? name : "unknown error",
           device->native, text ? text : "no text", remedy(device, error));
    return error;
}

int vg_device_drain(VgDevice *device, VgStream stream, void (*spin)(VgDevice *device, VgStream stream))
{
    const VgDeviceTable *table = device->table;
    VgEvent event;
    int err = table->event_create(device, 0, &event);
    if (!err)
        err = table->record(device, event, stream);
    if (!err)
        err = table->event_synchronize(device, event);
    table->event_destroy(device, event);
    if (err) /* what failed may not have been the device: its work must end all the same */
        spin(device, stream);
    return err;
}

int vg_copy_is_one_line(const VgCopy *copy)
{
    return copy->rows == 1 || (copy->to_pitch == copy->width && copy->from_pitch == copy->width);
}

int vg_device_copy_rows(const VgDeviceTable *table, VgDevice *device, const VgCopy *copy, VgStream stream)
{
    int err = 0;
    if (copy->from_pitch >= copy->width)
        return table->copy(device, copy, stream);
    for (size_t y = 0; !err && y < copy->rows; y++) {
        VgCopy row = *copy;
        row.to += y * copy->to_pitch;
        row.from += y * copy->from_pitch;
        row.rows = 1;
        err = table->copy(device, &row, stream);
    }
    return err;
}

/* ---- Which device ------------------------------------------------------------------------------------------------ */

typedef struct PciId {
    unsigned domain, bus, device, function;
} PciId;

/* "0000:65:00.0", with a domain of any length or none. */
static int parse_pci_id(const char *text, PciId *id)
{
    int used = 0;
    *id = (PciId){ 0 };
    if (sscanf(text, "%x:%x:%x.%x%n", &id->domain, &id->bus, &id->device, &id->function, &used) == 4 && !text[used])
        return 1;
    id->domain = 0;
    return sscanf(text, "%x:%x.%x%n", &id->bus, &id->device, &id->function, &used) == 3 && !text[used];
}

static int same_pci_id(const PciId *a, const PciId *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device && a->function == b->function;
}

/* Whether the device that was identified last is the one that is asked for. */
static int is_wanted(const VgDevice *device, int index, const char *which)
{
    char *end;
    PciId wanted, id;
    if (!which || !*which)
        return 1;
    if (!which[strspn(which, "0123456789")])
        return strtol(which, &end, 10) == index;
    return parse_pci_id(which, &wanted) && parse_pci_id(device->id, &id) && same_pci_id(&wanted, &id);
}

int vg_device_find(VgDevice *device, int n, const char *which, int (*identify)(VgDevice *device, int index),
                   const VgLog *log)
{
    const char *kind = device->table->name;
    char list[600] = "";
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        int err = identify(device, i);
        if (err)
            return vg_device_report(device, log, err, "looking for a %s device", kind);
        if (is_wanted(device, i, which))
            return i;
        if (used < sizeof(list))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%d (%s, %s)", i ? ", " : "", i, device->id,
                                     device->name);
    }
    if (!n)
        vg_log(log, VG_LOG_ERROR, "there is no %s device that this program may see%s", kind, device->table->unseen);
    else
        vg_log(log, VG_LOG_ERROR, "there is no %s device \"%s\": give the index or the PCI id of one of %s", kind,
               which, list);
    return -ENODEV;
}
