/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The pool of worker threads that all scorers of a process share.
 */
#include "engine/worker_pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct VgWorkerClient {
    VgWorkerClient *next;
    VgTask *head, **tail;
    unsigned limit, running;
    unsigned char *lane_taken; /* limit entries */
    pthread_cond_t idle;       /* signalled when running falls to 0 */
};

/* One pool to a process: all fields are guarded by the mutex. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    VgWorkerClient *clients;
    pthread_t *threads;
    unsigned n_threads;
    int stop;
} pool = { .mutex = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER };

unsigned vg_cpu_count(void)
{
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

/* The next client with work that it may start; it moves to the end of the list, so that clients take turns. */
static VgWorkerClient *next_client(void)
{
    for (VgWorkerClient **link = &pool.clients; *link; link = &(*link)->next) {
        VgWorkerClient *c = *link;
        if (!c->head || c->running >= c->limit)
            continue;
        *link = c->next;
        c->next = NULL;
        VgWorkerClient **end = &pool.clients;
        while (*end)
            end = &(*end)->next;
        *end = c;
        return c;
    }
    return NULL;
}

static void *worker(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.mutex);
    while (!pool.stop) {
        VgWorkerClient *c = next_client();
        if (!c) {
            pthread_cond_wait(&pool.work, &pool.mutex);
            continue;
        }
        VgTask *task = c->head;
        c->head = task->next;
        if (!c->head)
            c->tail = &c->head;
        unsigned lane = 0;
        while (c->lane_taken[lane])
            lane++;
        c->lane_taken[lane] = 1;
        c->running++;
        pthread_mutex_unlock(&pool.mutex);
        task->run(task, lane); /* the task's memory may be reused from here on */
        pthread_mutex_lock(&pool.mutex);
        c->lane_taken[lane] = 0;
        c->running--;
        if (!c->running)
            pthread_cond_broadcast(&c->idle);
        if (c->head) /* this thread may turn to another client: let a sleeping one take this client's next task */
            pthread_cond_signal(&pool.work);
    }
    pthread_mutex_unlock(&pool.mutex);
    return NULL;
}

/* Starts a thread that leaves all signals to the program's own threads. */
static int start_worker(pthread_t *thread)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(thread, NULL, worker, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err;
}

/* Called with the mutex held. Fewer threads than wanted are enough, as long as there is one. */
static int grow(unsigned wanted)
{
    if (wanted <= pool.n_threads)
        return 0;
    pthread_t *grown = realloc(pool.threads, wanted * sizeof(*grown));
    if (!grown)
        return pool.n_threads ? 0 : -ENOMEM;
    pool.threads = grown;
    while (pool.n_threads < wanted) {
        if (start_worker(&pool.threads[pool.n_threads]))
            return pool.n_threads ? 0 : -EAGAIN;
        pool.n_threads++;
    }
    return 0;
}

/* Serialises attaching and detaching, so that a pool which is ending has ended before the next one begins. */
static pthread_mutex_t membership = PTHREAD_MUTEX_INITIALIZER;

/* Ends the threads if no client is left. Called with `membership` held and the pool's mutex free. */
static void end_if_unused(void)
{
    pthread_mutex_lock(&pool.mutex);
    if (pool.clients || !pool.n_threads) {
        pthread_mutex_unlock(&pool.mutex);
        return;
    }
    pool.stop = 1;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.mutex);
    for (unsigned i = 0; i < pool.n_threads; i++)
        pthread_join(pool.threads[i], NULL);
    free(pool.threads);
    pool.threads = NULL;
    pool.n_threads = 0;
    pool.stop = 0;
}

int vg_worker_attach(VgWorkerClient **client, unsigned limit)
{
    *client = NULL;
    VgWorkerClient *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->limit = limit ? limit : 1;
    c->tail = &c->head;
    c->lane_taken = calloc(c->limit, 1);
    if (!c->lane_taken || pthread_cond_init(&c->idle, NULL)) {
        free(c->lane_taken);
        free(c);
        return -ENOMEM;
    }
    pthread_mutex_lock(&membership);
    pthread_mutex_lock(&pool.mutex);
    int err = grow(c->limit);
    if (!err) {
        c->next = pool.clients;
        pool.clients = c;
    }
    pthread_mutex_unlock(&pool.mutex);
    end_if_unused();
    pthread_mutex_unlock(&membership);
    if (err) {
        pthread_cond_destroy(&c->idle);
        free(c->lane_taken);
        free(c);
        return err;
    }
    *client = c;
    return 0;
}

void vg_worker_submit(VgWorkerClient *client, VgTask *task)
{
    task->next = NULL;
    pthread_mutex_lock(&pool.mutex);
    *client->tail = task;
    client->tail = &task->next;
    pthread_cond_signal(&pool.work);
    pthread_mutex_unlock(&pool.mutex);
}

void vg_worker_detach(VgWorkerClient **client)
{
    VgWorkerClient *c = *client;
    if (!c)
        return;
    *client = NULL;
    pthread_mutex_lock(&membership);
    pthread_mutex_lock(&pool.mutex);
    c->head = NULL;
    c->tail = &c->head;
    while (c->running)
        pthread_cond_wait(&c->idle, &pool.mutex);
    for (VgWorkerClient **link = &pool.clients; *link; link = &(*link)->next) {
        if (*link == c) {
            *link = c->next;
            break;
        }
    }
    pthread_mutex_unlock(&pool.mutex);
    end_if_unused();
    pthread_mutex_unlock(&membership);
    pthread_cond_destroy(&c->idle);
    free(c->lane_taken);
    free(c);
}
