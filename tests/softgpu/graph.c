/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Graphs: captured from streams, instantiated, launched.
 *
 * A capture gathers nodes; each stream in it has a frontier, the nodes that its next node comes after. A graph's launch
 * is one operation of its stream that runs node by node, in any order that the edges allow.
 */
#include "internal.h"

#include <stdlib.h>

enum { MAX_CAPTURES = 16 };

static SgCapture *captures[MAX_CAPTURES];
static unsigned long n_captures_begun;

static void *grow(void *p, size_t size)
{
    p = realloc(p, size);
    if (!p)
        sg_die("the host has no memory left");
    return p;
}

static void frontier_set(SgFrontier *f, const SgFrontier *other)
{
    f->n = other->n;
    f->at = grow(f->at, (f->n + 1) * sizeof(*f->at));
    if (f->n)
        memcpy(f->at, other->at, f->n * sizeof(*f->at));
}

static void frontier_add(SgFrontier *f, unsigned node)
{
    for (unsigned i = 0; i < f->n; i++)
        if (f->at[i] == node)
            return;
    f->at = grow(f->at, (f->n + 1) * sizeof(*f->at));
    f->at[f->n++] = node;
}

void sg_nodes_unref(SgNodes *nodes)
{
    if (--nodes->refs)
        return;
    sg_ignore_begin(); /* their runs are over, though perhaps nobody has waited for them */
    for (unsigned i = 0; i < nodes->n; i++) {
        sg_work_free(&nodes->node[i].work);
        free(nodes->node[i].after);
    }
    free(nodes->node);
    free(nodes);
    sg_ignore_end();
}

void sg_graph_step(SgOp *op)
{
    const SgNodes *nodes = op->work.graph;
    /* The first node that may run, or a random one. */
    unsigned chosen = 0, seen = 0;
    for (unsigned i = 0; i < nodes->n; i++) {
        const SgNode *node = &nodes->node[i];
        int may = !op->node_done[i];
        for (unsigned k = 0; may && k < node->n_after; k++)
            may = op->node_done[node->after[k]];
        if (may && (!seen++ || (sg.order > 1 && !sg_random(seen))))
            chosen = i;
    }
    sg_work_run(&nodes->node[chosen].work);
    op->node_done[chosen] = 1;
    op->n_nodes_done++;
}

/* ---- capture ---- */

int sg_capture_is_active(unsigned long id)
{
    for (int i = 0; id && i < MAX_CAPTURES; i++)
        if (captures[i] && captures[i]->id == id)
            return 1;
    return 0;
}

static void end_capture(SgCapture *c)
{
    for (SgObject *o = sg.objects; o; o = o->next) {
        if (o->kind == SG_STREAM && ((CUstream)o)->capture == c) {
            ((CUstream)o)->capture = NULL;
            ((CUstream)o)->frontier.n = 0;
        }
    }
    for (int i = 0; i < MAX_CAPTURES; i++)
        if (captures[i] == c)
            captures[i] = NULL;
    sg_nodes_unref(c->nodes);
    free(c);
}

void sg_capture_leave(CUstream stream)
{
    if (stream->capture && stream->capture->origin == stream)
        end_capture(stream->capture);
    stream->capture = NULL;
}

static CUresult spoil(SgCapture *c, CUresult err, const char *why)
{
    c->invalid = 1;
    return sg_complain(err, "stream capture: %s", why);
}

CUresult sg_capture_disturbed(CUstream stream)
{
    if (stream->capture)
        return spoil(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a call that a capturing stream forbids");
    if (stream->is_legacy)
        for (SgObject *o = sg.objects; o; o = o->next)
            if (o->kind == SG_STREAM && ((CUstream)o)->capture && o->context == stream->object.context &&
                !(((CUstream)o)->flags & CU_STREAM_NON_BLOCKING))
                return spoil(((CUstream)o)->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                             "stream 0 would wait for a capturing stream");
    return CUDA_SUCCESS;
}

CUresult sg_capture_unsafe(void)
{
    for (int i = 0; i < MAX_CAPTURES; i++) {
        SgCapture *c = captures[i];
        if (c && (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
                  (c->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && pthread_equal(c->thread, pthread_self()))))
            return spoil(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a call that is not allowed during a capture");
    }
    return CUDA_SUCCESS;
}

CUresult sg_capture_work(CUstream stream, SgWork *work)
{
    SgCapture *c = stream->capture;
    if (c->invalid) {
        sg_work_free(work);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    SgNodes *nodes = c->nodes;
    nodes->node = grow(nodes->node, (nodes->n + 1) * sizeof(*nodes->node));
    SgFrontier after = { 0, NULL };
    frontier_set(&after, &stream->frontier);
    nodes->node[nodes->n] = (SgNode){ *work, after.n, after.at };
    stream->frontier.n = 0;
    frontier_add(&stream->frontier, nodes->n++);
    return CUDA_SUCCESS;
}

CUresult sg_capture_event(CUstream stream, CUevent event)
{
    SgCapture *c = stream->capture;
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->captured = c->id;
    frontier_set(&event->frontier, &stream->frontier);
    return CUDA_SUCCESS;
}

CUresult sg_capture_wait(CUstream stream, CUevent event)
{
    SgCapture *c = stream->capture;
    if (c && event->captured != c->id) {
        if (!sg_capture_is_active(event->captured))
            return spoil(c, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a wait for an event from outside");
        return spoil(c, CUDA_ERROR_STREAM_CAPTURE_MERGE, "a wait for another capture's event");
    }
    if (!c) { /* the stream joins the event's capture */
        if (stream->is_legacy)
            return sg_complain(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "stream 0 cannot be captured");
        for (int i = 0; i < MAX_CAPTURES; i++)
            if (captures[i] && captures[i]->id == event->captured)
                c = captures[i];
        stream->capture = c;
        stream->frontier.n = 0;
    }
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (unsigned i = 0; i < event->frontier.n; i++)
        frontier_add(&stream->frontier, event->frontier.at[i]);
    return CUDA_SUCCESS;
}

SG_API CUresult cuStreamBeginCapture_v2(CUstream handle, int mode)
{
    CUstream stream = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_stream(handle, &stream);
    if (err)
        return sg_leave(err);
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return sg_leave(sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: mode %d", __func__, mode));
    if (stream->is_legacy)
        return sg_leave(sg_complain(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "stream 0 cannot be captured"));
    if (stream->capture)
        return sg_leave(sg_complain(CUDA_ERROR_INVALID_VALUE, "the stream is capturing already"));
    int i = 0;
    while (i < MAX_CAPTURES && captures[i])
        i++;
    if (i == MAX_CAPTURES)
        return sg_leave(sg_complain(CUDA_ERROR_INVALID_VALUE, "more than %d captures at a time", MAX_CAPTURES));
    SgCapture *c = sg_alloc(sizeof(*c));
    c->id = ++n_captures_begun;
    c->nodes = sg_alloc(sizeof(*c->nodes));
    c->nodes->refs = 1;
    c->origin = stream;
    c->mode = mode;
    c->thread = pthread_self();
    captures[i] = c;
    stream->capture = c;
    stream->frontier.n = 0;
    return sg_leave(CUDA_SUCCESS);
}

/** Whether every node of the frontier is in `reached` or comes before one that is. */
static int is_joined(const SgNodes *nodes, const SgFrontier *f, const SgFrontier *origin)
{
    unsigned char *reached = sg_alloc(nodes->n);
    for (unsigned i = 0; i < origin->n; i++)
        reached[origin->at[i]] = 1;
    for (unsigned i = nodes->n; i-- > 0;) /* edges lead to larger numbers */
        for (unsigned k = 0; reached[i] && k < nodes->node[i].n_after; k++)
            reached[nodes->node[i].after[k]] = 1;
    int joined = 1;
    for (unsigned i = 0; i < f->n; i++)
        joined &= reached[f->at[i]];
    free(reached);
    return joined;
}

SG_API CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    CUstream stream = NULL;
    CUresult err = sg_enter(__func__);
    CUresult own = sg_stream(handle, &stream);
    *graph = NULL;
    if (own)
        return sg_leave(err ? err : own);
    SgCapture *c = stream->capture;
    if (!c || c->origin != stream)
        return sg_leave(err ? err : sg_complain(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "no capture began here"));
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return sg_leave(sg_complain(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture began in another thread"));
    if (!err && c->invalid)
        err = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (SgObject *o = sg.objects; o && !err; o = o->next)
        if (o->kind == SG_STREAM && ((CUstream)o)->capture == c &&
            !is_joined(c->nodes, &((CUstream)o)->frontier, &stream->frontier))
            err = sg_complain(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream did not come back into the capture");
    if (!err) {
        CUgraph g = sg_new(SG_GRAPH, stream->object.context, sizeof(*g));
        g->nodes = c->nodes;
        g->nodes->refs++;
        *graph = g;
    }
    end_capture(c);
    return sg_leave(err);
}

SG_API CUresult cuStreamIsCapturing(CUstream handle, int *status)
{
    CUstream stream = NULL;
    CUresult err = sg_enter(__func__);
    if (!err)
        err = sg_stream(handle, &stream);
    if (!err)
        *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
                  : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return sg_leave(err);
}

/* ---- graphs ---- */

static CUresult instantiate(const char *name, CUgraphExec *exec, CUgraph graph)
{
    CUresult err = sg_enter(name);
    if (!err && !sg_is(SG_GRAPH, graph))
        err = sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: %p is no graph", name, (void *)graph);
    if (!err) {
        *exec = sg_new(SG_GRAPH_EXEC, graph->object.context, sizeof(**exec));
        (*exec)->nodes = graph->nodes;
        graph->nodes->refs++;
    }
    return sg_leave(err);
}

SG_API CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    (void)error_node;
    (void)log;
    (void)size;
    return instantiate(__func__, exec, graph);
}

SG_API CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    (void)error_node;
    (void)log;
    (void)size;
    return instantiate(__func__, exec, graph);
}

SG_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    return instantiate(__func__, exec, graph);
}

static CUresult enter_exec(const char *name, CUgraphExec exec, CUstream handle, CUstream *stream)
{
    CUresult err = sg_enter(name);
    if (!err)
        err = sg_stream(handle, stream);
    if (!err && !sg_is(SG_GRAPH_EXEC, exec))
        err = sg_complain(CUDA_ERROR_INVALID_HANDLE, "%s: %p is no executable graph", name, (void *)exec);
    return err;
}

SG_API CUresult cuGraphUpload(CUgraphExec exec, CUstream handle)
{
    CUstream stream = NULL;
    return sg_leave(enter_exec(__func__, exec, handle, &stream));
}

SG_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    CUstream stream = NULL;
    CUresult err = enter_exec(__func__, exec, handle, &stream);
    if (!err)
        err = sg_capture_disturbed(stream); /* no graphs within graphs here */
    if (err)
        return sg_leave(err);
    exec->nodes->refs++;
    err = sg_enqueue(stream, &(SgWork){ .kind = SG_GRAPH_RUN, .graph = exec->nodes }, exec->last);
    if (!err) {
        sg_token_unref(exec->last);
        exec->last = sg_token_ref(stream->last);
    }
    return sg_leave(err);
}

SG_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    CUresult err = sg_enter(__func__);
    if (!err && !sg_is(SG_GRAPH, graph))
        err = CUDA_ERROR_INVALID_VALUE;
    if (!err && nodes)
        err = CUDA_ERROR_NOT_SUPPORTED;
    if (!err)
        *n = graph->nodes->n;
    return sg_leave(err);
}

void sg_graph_delete(CUgraph graph)
{
    sg_nodes_unref(graph->nodes);
    sg_delete(&graph->object);
}

void sg_graph_exec_delete(CUgraphExec exec)
{
    sg_token_unref(exec->last);
    sg_nodes_unref(exec->nodes);
    sg_delete(&exec->object);
}

SG_API CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CUresult err = sg_enter(__func__);
    if (!sg_is(SG_GRAPH_EXEC, exec))
        return sg_leave(err ? err : sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: no executable graph", __func__));
    sg_graph_exec_delete(exec);
    return sg_leave(err);
}

SG_API CUresult cuGraphDestroy(CUgraph graph)
{
    CUresult err = sg_enter(__func__);
    if (!sg_is(SG_GRAPH, graph))
        return sg_leave(err ? err : sg_complain(CUDA_ERROR_INVALID_VALUE, "%s: no graph", __func__));
    sg_graph_delete(graph);
    return sg_leave(err);
}
