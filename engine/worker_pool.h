/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The pool of worker threads that all scorers of a process share. It exists while a scorer is attached to it and has as
 * many threads as the scorer with the largest limit asked for. Each scorer's tasks start in the order in which they were
 * queued, no more of them at once than its limit.
 */
#ifndef VG_WORKER_POOL_H
#define VG_WORKER_POOL_H

typedef struct VgWorkerClient VgWorkerClient;

/** A unit of work, embedded in its owner's struct. It must stay in place until it has run. */
typedef struct VgTask {
    /** `lane` is below the client's limit and belongs to this task alone while it runs: an index for scratch memory. */
    void (*run)(struct VgTask *task, unsigned lane);
    struct VgTask *next;
} VgTask;

/** Number of CPUs that this process may use, at least 1. */
unsigned vg_cpu_count(void);

/**
 * Attaches a client that runs up to `limit` (at least 1) tasks at once, and starts threads that are lacking.
 *
 * @return 0, -ENOMEM, or -EAGAIN if not one thread can be started
 */
int vg_worker_attach(VgWorkerClient **client, unsigned limit);

/** Queues a task. Never waits for work. */
void vg_worker_submit(VgWorkerClient *client, VgTask *task);

/** Drops queued tasks, waits for running ones and detaches. The last client to leave ends the threads. */
void vg_worker_detach(VgWorkerClient **client);

#endif
