/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Which back end does what a configuration asks for.
 */
#include "engine/backend.h"
#include "kernels/kernel_host.h"

#include <errno.h>
#include <stdio.h>

void vg_plan_add(VgPlan *plan, const VgMetric *metric, void *params)
{
    plan->passes[plan->n_passes++] = (VgPass){ .metric = metric, .params = params };
}

void vg_plan_layout(VgPlan *plan)
{
    plan->records_size = 0;
    for (unsigned p = 0; p < plan->n_passes; p++) {
        VgPass *pass = &plan->passes[p];
        pass->record_offset = plan->records_size;
        pass->record_size = vg_record_size(pass->metric, pass->params);
        plan->records_size += (pass->record_size + 15) / 16 * 16;
    }
}

int vg_pass_refused(const VgPass *pass, char *why, size_t why_size)
{
    const VgDeviceMetric *device = pass->metric->device;
    if (device)
        return device->check && device->check(pass->params, why, why_size);
    snprintf(why, why_size, "there are no kernels for it");
    return 1;
}

static const char *kind_name(VgBackendKind kind)
{
    static const char *const names[] = { "auto", "cpu", "cuda", "hip" };
    return names[kind];
}

/* Values that no enumeration has: an uninitialised struct, or a program of a later version. */
static int check_values(const VgScorerConfig *config, const VgLog *log)
{
    const struct {
        const char *what;
        unsigned value, last;
    } values[] = {
        { "back end", (unsigned)config->backend, VG_BACKEND_HIP },
        { "memory", (unsigned)config->memory, VG_MEMORY_HIP },
        { "fallback", (unsigned)config->fallback, VG_FALLBACK_CPU },
        { "history", (unsigned)config->history, VG_HISTORY_COPY },
    };
    for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (values[i].value > values[i].last) {
            vg_log(log, VG_LOG_ERROR, "%s %u is unknown: give 0 to %u", values[i].what, values[i].value,
                   values[i].last);
            return -EINVAL;
        }
    }
    return 0;
}

/* Kinds of devices, by the memory that they have. */
static const struct {
    VgBackendKind kind;
    const char *name, *option, *compiler;
} devices[] = {
    [VG_MEMORY_CUDA] = { VG_BACKEND_CUDA, "CUDA", "cuda", "clang 19 or nvcc" },
    [VG_MEMORY_HIP] = { VG_BACKEND_HIP, "HIP", "hip", "clang 19, lld 19 and zlib" },
};

static VgMemory memory_of(VgBackendKind kind)
{
    return kind == VG_BACKEND_HIP ? VG_MEMORY_HIP : VG_MEMORY_CUDA;
}

/* Pictures in device memory: whether this library can get at them at all. */
static int check_memory(const VgScorerConfig *config, const VgLog *log)
{
    const VgMemory memory = config->memory;
    if (memory == VG_MEMORY_HOST)
        return 0;
    const char *name = devices[memory].name;
    if (config->backend != VG_BACKEND_AUTO && config->backend != VG_BACKEND_CPU &&
        config->backend != devices[memory].kind) {
        vg_log(log, VG_LOG_ERROR, "pictures in %s memory cannot be scored by backend=%s: use %s, cpu or auto", name,
               kind_name(config->backend), devices[memory].option);
        return -EINVAL;
    }
    if (!vg_backend_built_in(devices[memory].kind)) {
        vg_log(
            log, VG_LOG_ERROR,
            "pictures are in %s memory, but this library was built without %s: download them first, or build it with "
            "%s",
            name, name, devices[memory].compiler);
        return -ENOSYS;
    }
    if (memory == VG_MEMORY_CUDA && !config->device_context) {
        vg_log(log, VG_LOG_ERROR, "pictures in CUDA memory need the context that they belong to: set device_context");
        return -EINVAL;
    }
    return 0;
}

/* HIP has none. */
static int check_context(VgBackendKind kind, const VgScorerConfig *config, const VgLog *log)
{
    if (!config->device_context || (kind != VG_BACKEND_HIP && config->memory != VG_MEMORY_HIP))
        return 0;
    vg_log(log, VG_LOG_ERROR, "HIP has no contexts: set device_context to NULL, and name the device by `device`");
    return -EINVAL;
}

/* A back end that this library does not have: the CPU may do its work. */
static int check_kind(VgBackendKind *kind, const VgScorerConfig *config, const VgLog *log)
{
    if (vg_backend_built_in(*kind))
        return 0;
    const char *compiler = devices[memory_of(*kind)].compiler;
    if (config->fallback == VG_FALLBACK_CPU) {
        vg_log(log, VG_LOG_WARNING,
               "scoring on the CPU rather than by backend=%s: this library was built without it, that is, without %s",
               kind_name(*kind), compiler);
        *kind = VG_BACKEND_CPU;
        return 0;
    }
    vg_log(log, VG_LOG_ERROR,
           "backend=%s cannot be used: this library was built without it, that is, without %s; use backend=cpu, or "
           "fallback=cpu",
           kind_name(*kind), compiler);
    return -ENOSYS;
}

int vg_backend_choose(const VgBackend **backend, VgPlan *plan, const VgScorerConfig *config, const VgLog *log)
{
    int err = check_values(config, log);
    if (!err)
        err = check_memory(config, log);
    if (err)
        return err;
    VgBackendKind kind = config->backend;
    if (kind == VG_BACKEND_AUTO)
        kind = config->memory == VG_MEMORY_HOST ? VG_BACKEND_CPU : devices[config->memory].kind;
    err = check_context(kind, config, log);
    if (!err)
        err = check_kind(&kind, config, log);
    if (err)
        return err;

    plan->memory = config->memory;
    plan->fallback = config->fallback;
    plan->parity_every = config->parity_every;
    plan->cpu_only = kind == VG_BACKEND_CPU;
    if (plan->cpu_only && plan->parity_every) {
        vg_log(log, VG_LOG_INFO, "parity compares a device with the CPU, and no device scores: nothing is compared");
        plan->parity_every = 0;
    }
    if (plan->cpu_only && plan->memory == VG_MEMORY_HOST) {
        *backend = &vg_backend_cpu;
        return 0;
    }
    plan->device = vg_device_table(plan->memory == VG_MEMORY_HOST ? kind : devices[plan->memory].kind);
    plan->choice = (VgDeviceChoice){ config->device, config->device_context };
    const int both = plan->cpu_only || plan->parity_every || plan->fallback == VG_FALLBACK_CPU;
    *backend = both ? &vg_backend_both : &vg_backend_device;
    if (plan->memory == VG_MEMORY_HOST)
        plan->copy_history = !both;
    else
        plan->copy_history = plan->cpu_only || config->history == VG_HISTORY_COPY;
    return 0;
}
