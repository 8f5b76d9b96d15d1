/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Streams and events: queues of operations, and the order in which they run.
 *
 * Nothing runs in the background: operations run inside driver calls, when SOFTGPU_ORDER says so. Everything queued
 * waits only for what was queued before it, so that it can always be finished.
 */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

SgToken *sg_token_ref(SgToken *token)
{
    if (token)
        token->refs++;
    return token;
}

void sg_token_unref(SgToken *token)
{
    if (token && !--token->refs)
        free(token);
}

void sg_work_free(SgWork *work)
{
    if (work->kind == SG_COPY)
        free(work->copy.staged);
    else if (work->kind == SG_LAUNCH)
        free(work->launch.args);
    else if (work->kind == SG_GRAPH_RUN)
        sg_nodes_unref(work->graph);
}

void sg_work_run(const SgWork *work)
{
    if (work->kind == SG_COPY)
        sg_run_copy(&work->copy);
    else if (work->kind == SG_FILL)
        sg_run_fill(&work->fill);
    else if (work->kind == SG_LAUNCH)
        sg_run_kernel(&work->launch);
}

/* ---- running ---- */

static int is_runnable(CUstream stream)
{
    const SgOp *op = stream->head;
    if (!op)
        return 0;
    for (unsigned i = 0; i < op->n_after; i++)
        if (!op->after[i]->done)
            return 0;
    return 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/** Runs the stream's next operation, or of a graph a part of it. */
static void run_next(CUstream stream)
{
    SgOp *op = stream->head;
    SgToken *token = sg_token_ref(op->token);
#ifdef SOFTGPU_TSAN
    /* The stream is a thread of its own, ordered after the host and other streams only where the program says so. */
    void *host = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(stream->fiber, 1);
#endif
    sg_acquire(op);
    for (unsigned i = 0; i < op->n_after; i++)
        sg_acquire(op->after[i]);
    if (op->work.kind == SG_GRAPH_RUN && op->n_nodes_done < op->work.graph->n)
        sg_graph_step(op);
    else
        sg_work_run(&op->work);
    if (op->work.kind != SG_GRAPH_RUN || op->n_nodes_done == op->work.graph->n) {
        sg_release(token);
        token->done = 1;
        token->stream = NULL;
        stream->head = op->next;
        if (!stream->head)
            stream->tail = &stream->head;
        sg_token_unref(token);
        for (unsigned i = 0; i < op->n_after; i++)
            sg_token_unref(op->after[i]);
        free(op->after);
        free(op->node_done);
        sg_work_free(&op->work);
        free(op);
    }
#ifdef SOFTGPU_TSAN
    __tsan_switch_to_fiber(host, 1);
#endif
    token->when = now();
    sg_token_unref(token);
}

/** The n-th stream that can run, of all that exist; NULL if there are fewer. Adds their number to *count. */
static CUstream runnable(unsigned n, unsigned *count)
{
    for (SgObject *o = sg.objects; o; o = o->next)
        if (o->kind == SG_STREAM && is_runnable((CUstream)o) && (*count)++ == n)
            return (CUstream)o;
    for (CUstream s = sg.destroyed_streams; s; s = s->next_destroyed)
        if (is_runnable(s) && (*count)++ == n)
            return s;
    return NULL;
}

/** Runs an operation of any stream. 0 if there is none. */
static int run_any(void)
{
    unsigned n = 0;
    runnable((unsigned)-1, &n);
    if (!n)
        return 0;
    unsigned count = 0;
    run_next(runnable(sg.order > 1 ? sg_random(n) : 0, &count));
    return 1;
}

void sg_progress(void)
{
    /* Some orders are eager, others lazy: one call out of 2, 6, 10 or 14 brings the streams forward. */
    if (sg.order > 1 && !sg_random(2 + 4 * (unsigned)(sg.order % 4)))
        for (unsigned n = 1 + sg_random(4); n && run_any(); n--) {
        }
}

/** Runs what the token's operation needs, and nothing else. */
static void run_needed(const SgToken *token)
{
    while (!token->done) {
        CUstream stream = token->stream;
        const SgOp *op = stream->head;
        for (unsigned i = 0; i < op->n_after; i++)
            run_needed(op->after[i]);
        run_next(stream);
    }
}

void sg_wait(SgToken *token)
{
    if (!token)
        return;
    sg_token_ref(token);
    if (sg.order > 1)
        while (!token->done && run_any()) {
        }
    run_needed(token);
    sg_acquire(token);
    sg_token_unref(token);
}

static void drain(CUdevice device, CUcontext context)
{
    for (SgObject *o = sg.objects; o; o = o->next)
        if (o->kind == SG_STREAM && (device < 0 || o->context->device == device) && (!context || o->context == context))
            sg_wait(((CUstream)o)->last);
    /* Of a destroyed stream the context may be gone. */
    for (CUstream s = sg.destroyed_streams; s; s = s->next_destroyed)
        sg_wait(s->last);
}

void sg_drain(CUdevice device)
{
    drain(device, NULL);
}

void sg_drain_context(CUcontext context)
{
    drain(-1, context);
}

static size_t n_operations(CUstream stream)
{
    size_t n = 0;
    for (const SgOp *op = stream->head; op; op = op->next)
        n++;
    return n;
}

size_t sg_pending(void)
{
    size_t n = 0;
    for (SgObject *o = sg.objects; o; o = o->next)
        n += o->kind == SG_STREAM ? n_operations((CUstream)o) : 0;
    for (CUstream s = sg.destroyed_streams; s; s = s->next_destroyed)
        n += n_operations(s);
    return n;
}

/* ---- queueing ---- */

CUresult sg_stream(CUstream handle, CUstream *stream)
{
    CUcontext context = NULL;
    CUresult err = sg_current(&context);
    if (err)
        return err;
    if (!handle || handle == (CUstream)1) { /* CU_STREAM_LEGACY */
        *stream = context->legacy;
        return CUDA_SUCCESS;
    }
    if (handle == (CUstream)2) /* CU_STREAM_PER_THREAD */
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sg_is(SG_STREAM, handle))
        return sg_complain(CUDA_ERROR_INVALID_HANDLE, "%p is no stream", (void *)handle);
    if (handle->object.context != context)
        return sg_complain(CUDA_ERROR_INVALID_HANDLE, "the stream is not of the current context");
    *stream = handle;
    return CUDA_SUCCESS;
}

static void add_after(SgOp *op, SgToken *token)
{
    if (!token)
        return;
    op->after = realloc(op->after, (op->n_after + 1) * sizeof(*op->after));
    if (!op->after)
        sg_die("the host has no memory left");
    op->after[op->n_after++] = sg_token_ref(token);
}

CUresult sg_enqueue(CUstream stream, SgWork *work, SgToken *wait_for)
{
    if (stream->capture)
        return sg_capture_work(stream, work);
    CUresult err = stream->is_legacy ? sg_capture_disturbed(stream) : CUDA_SUCCESS;
    if (err) {
        sg_work_free(work);
        return err;
    }
    SgOp *op = sg_alloc(sizeof(*op));
    op->work = *work;
    if (work->kind == SG_GRAPH_RUN)
        op->node_done = sg_alloc(work->graph->n);
    op->token = sg_alloc(sizeof(*op->token));
    op->token->refs = 2;
    op->token->stream = stream;
    add_after(op, wait_for);
    /* Stream 0 and the blocking streams of its context wait for each other. */
    if (stream->is_legacy) {
        for (SgObject *o = sg.objects; o; o = o->next)
            if (o->kind == SG_STREAM && o->context == stream->object.context && (CUstream)o != stream &&
                !(((CUstream)o)->flags & CU_STREAM_NON_BLOCKING))
                add_after(op, ((CUstream)o)->last);
    } else if (!(stream->flags & CU_STREAM_NON_BLOCKING)) {
        add_after(op, stream->object.context->legacy->last);
    }
    sg_release(op);
    sg_token_unref(stream->last);
    stream->last = op->token;
    *stream->tail = op;
    stream->tail = &op->next;
    if (!sg.order)
        while (run_any()) {
        }
    return CUDA_SUCCESS;
}

/* ---- streams ---- */

CUstream sg_stream_new(CUcontext context, unsigned flags, int is_legacy)
{
    CUstream s = sg_new(SG_STREAM, context, sizeof(*s));
    s->flags = flags;
    s->is_legacy = is_legacy;
    s->tail = &s->head;
#ifdef SOFTGPU_TSAN
    s->fiber = __tsan_create_fiber(0);
#endif
    return s;
}

static void free_stream(CUstream stream)
{
#ifdef SOFTGPU_TSAN
    __tsan_destroy_fiber(stream->fiber);
#endif
    sg_token_unref(stream->last);
    free(stream->frontier.at);
    free(stream);
}

void sg_stream_delete(CUstream stream)
{
    sg_capture_leave(stream);
    /* Work that is left goes on: the stream only leaves the list of handles. */
    SgObject **link = &sg.objects;
    while (*link != &stream->object)
        link = &(*link)->next;
    *link = stream->object.next;
    stream->destroyed = 1;
    stream->next_destroyed = sg.destroyed_streams;
    sg.destroyed_streams = stream;
}

void sg_reap_streams(void)
{
    for (CUstream *link = &sg.destroyed_streams; *link;) {
        CUstream s = *link;
        if (s->head) {
            link = &s->next_destroyed;
            continue;
        }
        *link = s->next_destroyed;
        free_stream(s);
    }
}

static CUresult stream_create(const char *name, CUstream *stream, unsigned flags)
{
    CUcontext context = NULL;
    CUresult err = sg_enter(name);
    if (!err)
        err = sg_current(&context);
    if (!err && flags > CU_STREAM_NON_BLOCKING)
        err = sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: flags %u", name, flags);
    if (!err)
        *stream = sg_stream_new(context, flags, 0);
    return sg_leave(err);
}

SG_API CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    return stream_create(__func__, stream, flags);
}

SG_API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    (void)priority;
    return stream_create(__func__, stream, flags);
}

static CUresult stream_destroy(const char *name, CUstream stream)
{
    CUresult err = sg_enter(name);
    if (!sg_is(SG_STREAM, stream) || stream->is_legacy)
        return sg_leave(err ? err : sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: no stream to destroy", name));
    sg_stream_delete(stream);
    return sg_leave(err);
}

SG_API CUresult cuStreamDestroy(CUstream stream)
{
    return stream_destroy(__func__, stream);
}

SG_API CUresult cuStreamDestroy_v2(CUstream stream)
{
    return stream_destroy(__func__, stream);
}

/** Whether all is done, and if so, that the caller knows. Asking brings the lazy order forward by a step. */
static CUresult query(SgToken *token)
{
    if (!token)
        return CUDA_SUCCESS;
    if (token->done) {
        sg_acquire(token);
        return CUDA_SUCCESS;
    }
    if (sg.order == 1)
        while (1) {
            CUstream stream = token->stream;
            if (is_runnable(stream)) {
                run_next(stream);
                break;
            }
            for (unsigned i = 0; i < stream->head->n_after; i++)
                if (!stream->head->after[i]->done)
                    token = stream->head->after[i];
        }
    return CUDA_ERROR_NOT_READY;
}

SG_API CUresult cuStreamQuery(CUstream handle)
{
    CUstream stream = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_stream(handle, &stream);
    if (!err)
        err = sg_capture_disturbed(stream);
    if (!err)
        err = query(stream->last);
    return sg_leave(err);
}

SG_API CUresult cuStreamSynchronize(CUstream handle)
{
    CUstream stream = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_stream(handle, &stream);
    if (!err)
        err = sg_capture_disturbed(stream);
    if (!err) {
        sg_count_wait(!(stream->object.context->flags & CU_CTX_SCHED_BLOCKING_SYNC));
        sg_wait(stream->last);
    }
    return sg_leave(err);
}

SG_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
    CUstream stream = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_stream(handle, &stream);
    if (!err && !sg_is(SG_EVENT, event))
        err = sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: %p is no event", __func__, (void *)event);
    if (!err && flags > 1)
        err = sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: flags %u", __func__, flags);
    if (err)
        return sg_leave(err);
    if (stream->capture || sg_capture_is_active(event->captured))
        err = sg_capture_wait(stream, event);
    else if (event->token)
        err = sg_enqueue(stream, &(SgWork){ .kind = SG_NOTHING }, event->token);
    return sg_leave(err);
}

SG_API CUresult cuStreamGetFlags(CUstream handle, unsigned *flags)
{
    CUstream stream = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_stream(handle, &stream);
    if (!err)
        *flags = stream->flags;
    return sg_leave(err);
}

SG_API CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    CUresult err = sg_enter(__func__);
    if (!err && handle && !sg_is(SG_STREAM, handle))
        err = sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: %p is no stream", __func__, (void *)handle);
    if (!err && handle)
        *context = handle->object.context;
    else if (!err)
        err = sg_current(context);
    return sg_leave(err);
}

/* ---- events ---- */

SG_API CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CUcontext context = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_current(&context);
    if (!err && flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
        err = sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: flags %u", __func__, flags);
    if (!err) {
        *event = sg_new(SG_EVENT, context, sizeof(**event));
        (*event)->flags = flags;
    }
    return sg_leave(err);
}

void sg_event_delete(CUevent event)
{
    sg_token_unref(event->token);
    free(event->frontier.at);
    sg_delete(&event->object);
}

static CUresult event_destroy(const char *name, CUevent event)
{
    CUresult err = sg_enter(name);
    if (!sg_is(SG_EVENT, event))
        return sg_leave(err ? err : sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: no event", name));
    sg_event_delete(event);
    return sg_leave(err);
}

SG_API CUresult cuEventDestroy(CUevent event)
{
    return event_destroy(__func__, event);
}

SG_API CUresult cuEventDestroy_v2(CUevent event)
{
    return event_destroy(__func__, event);
}

static CUresult enter_event(const char *name, CUevent event)
{
    CUresult err = sg_enter(name);
    if (!err && !sg_is(SG_EVENT, event))
        err = sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: %p is no event", name, (void *)event);
    return err;
}

static CUresult record(const char *name, CUevent event, CUstream handle)
{
    CUstream stream = NULL;
    CUresult err = enter_event(name, event);
    if (!err)
        err = sg_stream(handle, &stream);
    if (!err && event->object.context != stream->object.context)
        err = sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: event and stream are of different contexts", name);
    if (err)
        return sg_leave(err);
    if (stream->capture)
        return sg_leave(sg_capture_event(stream, event));
    err = sg_enqueue(stream, &(SgWork){ .kind = SG_NOTHING }, NULL);
    if (!err) {
        sg_token_unref(event->token);
        event->token = sg_token_ref(stream->last);
        event->captured = 0;
    }
    return sg_leave(err);
}

SG_API CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return record(__func__, event, stream);
}

SG_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    return flags ? CUDA_ERROR_NOT_SUPPORTED : record(__func__, event, stream);
}

/** An event recorded in a capture is none that the host can ask about. */
static CUresult check_not_captured(CUevent event)
{
    return event->captured ? sg_complain(CUDA_ERROR_CAPTURED_EVENT, "the event was recorded in a capture")
                           : CUDA_SUCCESS;
}

SG_API CUresult cuEventQuery(CUevent event)
{
    CUresult err = enter_event(__func__, event);
    if (!err)
        err = check_not_captured(event);
    if (!err)
        err = sg_capture_unsafe();
    if (!err)
        err = query(event->token);
    return sg_leave(err);
}

SG_API CUresult cuEventSynchronize(CUevent event)
{
    CUresult err = enter_event(__func__, event);
    if (!err)
        err = check_not_captured(event);
    if (!err)
        err = sg_capture_unsafe();
    if (!err) {
        sg_count_wait(!(event->flags & CU_EVENT_BLOCKING_SYNC));
        sg_wait(event->token);
    }
    return sg_leave(err);
}

static CUresult elapsed(const char *name, float *milliseconds, CUevent start, CUevent end)
{
    CUresult err = enter_event(name, start);
    if (!err && (!sg_is(SG_EVENT, end) || !start->token || !end->token ||
                 (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
        err = sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: not recorded, or without timing", name);
    if (!err && (!start->token->done || !end->token->done))
        err = CUDA_ERROR_NOT_READY;
    if (!err)
        *milliseconds = (float)(end->token->when - start->token->when);
    return sg_leave(err);
}

SG_API CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return elapsed(__func__, milliseconds, start, end);
}

SG_API CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    return elapsed(__func__, milliseconds, start, end);
}
