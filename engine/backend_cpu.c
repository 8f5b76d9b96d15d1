/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * CPU back end: each pass of a frame is one task, or one task for each band of rows, on the shared worker pool. Partial
 * records of bands are added in order of bands.
 */
#include "engine/backend.h"
#include "engine/worker_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct CpuContext CpuContext;

typedef struct CpuTask {
    VgTask task; /* first, so that a VgTask pointer is a CpuTask pointer */
    CpuContext *context;
    unsigned slot, pass;
    int band, n_bands;
    void *partial;
} CpuTask;

typedef struct CpuSlot {
    CpuTask *tasks; /* of all passes, in order of passes and bands */
    VgCpuFrame frame;
    uint8_t *records; /* sums of partial records */
    int scored;
    unsigned pending; /* tasks that have not ended; guarded by the context's mutex */
} CpuSlot;

struct CpuContext {
    const VgPlan *plan;
    VgWorkerClient *workers;
    const VgCpuVariant **variants; /* of each pass */
    int *n_bands;                  /* of each pass */
    unsigned n_tasks;              /* of a slot */
    CpuSlot *slots;
    unsigned n_lanes; /* tasks that can run at once */
    void **scratch;   /* one for each lane */
    pthread_mutex_t mutex;
    pthread_cond_t done; /* signalled when a slot's last task has ended */
};

static void run_task(VgTask *base, unsigned lane)
{
    CpuTask *task = (CpuTask *)base;
    CpuContext *c = task->context;
    CpuSlot *slot = &c->slots[task->slot];
    c->variants[task->pass]->run(c->plan->passes[task->pass].params, &slot->frame, task->band, task->n_bands,
                                 c->scratch[lane], task->partial);
    pthread_mutex_lock(&c->mutex);
    if (!--slot->pending)
        pthread_cond_broadcast(&c->done);
    pthread_mutex_unlock(&c->mutex);
}

static void cpu_close(void **context)
{
    CpuContext *c = *context;
    if (!c)
        return;
    *context = NULL;
    vg_worker_detach(&c->workers);
    for (unsigned s = 0; c->slots && s < c->plan->in_flight; s++) {
        for (unsigned t = 0; c->slots[s].tasks && t < c->n_tasks; t++)
            free(c->slots[s].tasks[t].partial);
        free(c->slots[s].tasks);
        free(c->slots[s].records);
    }
    for (unsigned i = 0; c->scratch && i < c->n_lanes; i++)
        free(c->scratch[i]);
    free(c->scratch);
    free(c->slots);
    free(c->variants);
    free(c->n_bands);
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->done);
    free(c);
}

/* Chooses variants and bands; returns the scratch memory that one task may need. */
static size_t plan_passes(CpuContext *c, const VgLog *log)
{
    size_t scratch_size = 0;
    for (unsigned p = 0; p < c->plan->n_passes; p++) {
        const VgPass *pass = &c->plan->passes[p];
        const VgCpuMetric *cpu = pass->metric->cpu;
        c->variants[p] = vg_cpu_best_variant(cpu);
        int most = cpu->max_bands ? cpu->max_bands(pass->params) : 1;
        c->n_bands[p] = (unsigned)most < c->plan->n_threads ? most : (int)c->plan->n_threads;
        if (c->n_bands[p] < 1)
            c->n_bands[p] = 1;
        c->n_tasks += (unsigned)c->n_bands[p];
        size_t size = cpu->scratch_size ? cpu->scratch_size(pass->params) : 0;
        if (size > scratch_size)
            scratch_size = size;
        vg_log(log, VG_LOG_VERBOSE, "%s on the CPU: %s code, %d task%s a frame", pass->metric->info.name,
               c->variants[p]->name, c->n_bands[p], c->n_bands[p] == 1 ? "" : "s");
    }
    return scratch_size;
}

static int plan_slot(CpuContext *c, unsigned index)
{
    CpuSlot *slot = &c->slots[index];
    slot->tasks = calloc(c->n_tasks, sizeof(*slot->tasks));
    slot->records = calloc(1, c->plan->records_size);
    if (!slot->tasks || !slot->records)
        return -ENOMEM;
    CpuTask *task = slot->tasks;
    for (unsigned p = 0; p < c->plan->n_passes; p++) {
        for (int b = 0; b < c->n_bands[p]; b++, task++) {
            *task = (CpuTask){
                .task.run = run_task, .context = c, .slot = index, .pass = p, .band = b, .n_bands = c->n_bands[p]
            };
            task->partial = calloc(1, c->plan->passes[p].record_size);
            if (!task->partial)
                return -ENOMEM;
        }
    }
    return 0;
}

static int open_all(CpuContext *c, const VgLog *log)
{
    const VgPlan *plan = c->plan;
    c->variants = calloc(plan->n_passes, sizeof(*c->variants));
    c->n_bands = calloc(plan->n_passes, sizeof(*c->n_bands));
    c->slots = calloc(plan->in_flight, sizeof(*c->slots));
    if (!c->variants || !c->n_bands || !c->slots)
        return -ENOMEM;
    size_t scratch_size = plan_passes(c, log);
    c->n_lanes = c->n_tasks * plan->in_flight < plan->n_threads ? c->n_tasks * plan->in_flight : plan->n_threads;
    c->scratch = calloc(c->n_lanes, sizeof(*c->scratch));
    if (!c->scratch)
        return -ENOMEM;
    for (unsigned i = 0; scratch_size && i < c->n_lanes; i++) {
        if (posix_memalign(&c->scratch[i], 64, scratch_size)) {
            c->scratch[i] = NULL;
            return -ENOMEM;
        }
    }
    for (unsigned s = 0; s < plan->in_flight; s++) {
        int err = plan_slot(c, s);
        if (err)
            return err;
    }
    return vg_worker_attach(&c->workers, c->n_lanes);
}

static int cpu_open(void **context, const VgPlan *plan, const VgLog *log)
{
    *context = NULL;
    CpuContext *c = calloc(1, sizeof(*c));
    int err = c ? 0 : -ENOMEM;
    if (c) {
        c->plan = plan;
        if (pthread_mutex_init(&c->mutex, NULL)) {
            free(c);
            err = -ENOMEM;
        } else if (pthread_cond_init(&c->done, NULL)) {
            pthread_mutex_destroy(&c->mutex);
            free(c);
            err = -ENOMEM;
        } else {
            *context = c;
            err = open_all(c, log);
            if (err)
                cpu_close(context);
        }
    }
    if (err == -EAGAIN)
        vg_log(log, VG_LOG_ERROR,
               "no worker thread could be started: raise the limits of processes and memory (ulimit -u, ulimit -v)");
    else if (err)
        vg_log(log, VG_LOG_ERROR, "out of memory while preparing to score %ux%u pictures", plan->geometry.width,
               plan->geometry.height);
    else
        vg_log(log, VG_LOG_VERBOSE, "scoring %ux%u, %u bits, on the CPU: %u task%s at once, %u frame%s in flight",
               plan->geometry.width, plan->geometry.height, plan->geometry.bit_depth, c->n_lanes,
               c->n_lanes == 1 ? "" : "s", plan->in_flight, plan->in_flight == 1 ? "" : "s");
    return err;
}

static int cpu_submit(void *context, unsigned index, const VgFramePictures *pictures, int scored)
{
    CpuContext *c = context;
    CpuSlot *slot = &c->slots[index];
    memset(&slot->frame, 0, sizeof(slot->frame));
    slot->frame.index = pictures->frame;
    for (int k = 0; k <= VG_MAX_LAG; k++) {
        for (int component = 0; component < 3; component++) {
            if (pictures->ref[k] && (!k || c->plan->planes[VG_REF] >> component & 1))
                slot->frame.ref[k][component] = vg_picture_plane(pictures->ref[k], component);
            if (pictures->dist[k] && (!k || c->plan->planes[VG_DIST] >> component & 1))
                slot->frame.dist[k][component] = vg_picture_plane(pictures->dist[k], component);
        }
    }
    slot->scored = scored;
    slot->pending = 0;
    for (unsigned t = 0; t < c->n_tasks; t++)
        slot->pending += (unsigned)vg_pass_runs(&c->plan->passes[slot->tasks[t].pass], scored);
    for (unsigned t = 0; t < c->n_tasks; t++)
        if (vg_pass_runs(&c->plan->passes[slot->tasks[t].pass], scored))
            vg_worker_submit(c->workers, &slot->tasks[t].task);
    return 0;
}

static int cpu_finish(void *context, unsigned index, int wait, const uint8_t **records)
{
    CpuContext *c = context;
    CpuSlot *slot = &c->slots[index];
    pthread_mutex_lock(&c->mutex);
    while (wait && slot->pending)
        pthread_cond_wait(&c->done, &c->mutex);
    int pending = slot->pending != 0;
    pthread_mutex_unlock(&c->mutex);
    if (pending)
        return 0;
    for (unsigned t = 0; t < c->n_tasks; t++) {
        const CpuTask *task = &slot->tasks[t];
        const VgPass *pass = &c->plan->passes[task->pass];
        if (!vg_pass_runs(pass, slot->scored))
            continue;
        if (task->band == 0)
            memcpy(slot->records + pass->record_offset, task->partial, pass->record_size);
        else
            pass->metric->cpu->add(slot->records + pass->record_offset, task->partial);
    }
    *records = slot->records;
    return 1;
}

const VgBackend vg_backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .submit = cpu_submit,
    .finish = cpu_finish,
    .close = cpu_close,
};
