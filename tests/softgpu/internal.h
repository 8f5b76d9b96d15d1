/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What the files of the software device share. Everything here is called with the driver's mutex held, that is between
 * sg_enter() and sg_leave().
 */
#ifndef SOFTGPU_INTERNAL_H
#define SOFTGPU_INTERNAL_H

#include "driver_api.h"
#include "gpu_host.h"

#include <pthread.h>

#define SG_API __attribute__((visibility("default")))

enum {
    SG_MAX_DEVICES = 8,
    SG_MAX_BLOCK = 1024,
    SG_MAX_WAVE = 64,
    SG_SHARED_DEFAULT = 48 << 10, /* shared memory of a block, arrays included: without asking, and at most */
    SG_SHARED_MOST = 227 << 10,
    SG_ALIGN = 512,   /* of device memory and pitches */
    SG_POISON = 0xcd, /* fills memory that nobody has written */
};

/* ---- objects: everything that has a handle ---- */

typedef enum SgKind {
    SG_CONTEXT,
    SG_DEVICE_MEMORY,
    SG_PINNED_MEMORY,
    SG_REGISTERED_MEMORY,
    SG_STREAM,
    SG_EVENT,
    SG_MODULE,
    SG_GRAPH,
    SG_GRAPH_EXEC,
    SG_KINDS
} SgKind;

typedef struct SgObject {
    struct SgObject *next;
    SgKind kind;
    CUcontext context;
} SgObject;

struct CUctx_st {
    SgObject object; /* its context is itself */
    CUdevice device;
    unsigned flags;
    int is_primary;
    unsigned refs;   /* retains of a primary context; else 1 */
    CUstream legacy; /* stream 0 */
};

/** Memory of a device, or of the host and known to the driver. */
typedef struct SgMemory {
    SgObject object;
    unsigned char *at;
    size_t size;
    unsigned char *whole; /* with the guards; NULL for registered memory */
} SgMemory;

struct CUmod_st {
    SgObject object;
    CUfunction functions;
};

struct CUfunc_st {
    CUfunction next;
    CUmodule module;
    const SoftgpuKernel *kernel;
    int shared_limit;     /* of dynamic shared memory */
    uint32_t shared_most; /* with arrays */
};

/* ---- work ---- */

/** Tells when an operation is done. Shared by all who may ask. */
typedef struct SgToken {
    unsigned refs;
    int done;
    CUstream stream; /* where it is queued until it is done */
    double when;     /* milliseconds */
} SgToken;

typedef struct SgCopy {
    unsigned char *dst;
    const unsigned char *src;
    size_t dst_pitch, src_pitch, width, height;
    unsigned char *staged; /* owned: what a pageable source held when the copy was asked for */
} SgCopy;

typedef struct SgFill {
    unsigned char *dst;
    size_t pitch, width, height; /* width in elements */
    unsigned element, value;
} SgFill;

typedef struct SgLaunch {
    const SoftgpuKernel *kernel;
    uint32_t grid[3], block[3];
    uint32_t shared_bytes; /* dynamic */
    uint32_t shared_most;  /* with arrays */
    void *args;            /* owned */
} SgLaunch;

typedef enum SgWorkKind { SG_NOTHING, SG_COPY, SG_FILL, SG_LAUNCH, SG_GRAPH_RUN } SgWorkKind;

typedef struct SgWork {
    SgWorkKind kind;
    union {
        SgCopy copy;
        SgFill fill;
        SgLaunch launch;
        struct SgNodes *graph; /* one reference */
    };
} SgWork;

typedef struct SgNode {
    SgWork work;
    unsigned n_after, *after; /* nodes that come before this one */
} SgNode;

/** The nodes of a graph, shared by the graph, its executable forms and their runs. */
typedef struct SgNodes {
    unsigned refs, n;
    SgNode *node;
} SgNodes;

typedef struct SgOp {
    struct SgOp *next;
    SgToken *token;
    unsigned n_after;
    SgToken **after; /* one reference each */
    SgWork work;
    unsigned n_nodes_done;
    unsigned char *node_done; /* of a graph */
} SgOp;

/** Nodes that the next node captured from a stream comes after. */
typedef struct SgFrontier {
    unsigned n, *at;
} SgFrontier;

typedef struct SgCapture {
    unsigned long id;
    SgNodes *nodes;
    CUstream origin;
    int mode, invalid;
    pthread_t thread;
} SgCapture;

struct CUstream_st {
    SgObject object;
    unsigned flags;
    int is_legacy;
    int destroyed; /* goes away once its work is done */
    SgOp *head, **tail;
    SgToken *last; /* of the latest operation, or NULL */
    SgCapture *capture;
    SgFrontier frontier;
    void *fiber; /* ThreadSanitizer's */
    CUstream next_destroyed;
};

struct CUevent_st {
    SgObject object;
    unsigned flags;
    SgToken *token;         /* of the latest record, or NULL */
    unsigned long captured; /* id of the capture that it was recorded in, or 0 */
    SgFrontier frontier;
};

struct CUgraph_st {
    SgObject object;
    SgNodes *nodes;
};

struct CUgraphExec_st {
    SgObject object;
    SgNodes *nodes;
    SgToken *last; /* runs of one graph come one after the other */
};

/* ---- state ---- */

typedef struct SgState {
    int initialised; /* cuInit() was called */
    unsigned wave, n_threads;
    unsigned long order;
    uint64_t random;
    int n_devices;
    size_t memory, used[SG_MAX_DEVICES];
    uint32_t shared;       /* most shared memory of a block */
    unsigned images;       /* bits: 1 PTX, 2 ELF, 4 fatbin */
    unsigned long flip_in; /* copies to pinned memory up to the one that is spoilt, or 0 */
    size_t flip_byte;      /* of it */
    int lost;              /* error code of a device that is no more */
    unsigned primary_flags[SG_MAX_DEVICES];
    SgObject *objects;
    CUstream destroyed_streams;
    size_t abandoned[SG_KINDS]; /* went with their context */
} SgState;

extern SgState sg;

/* calls.c */
/** Begins a driver call: takes the mutex, counts, lets streams progress. The error that the call must return, or 0. */
CUresult sg_enter(const char *name);
CUresult sg_leave(CUresult err);
/** Explains an error that the caller's misuse causes. Returns `err`. */
CUresult sg_complain(CUresult err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Ends the program with a message. */
__attribute__((noreturn, format(printf, 1, 2))) void sg_die(const char *format, ...);
/** A random number below n. */
unsigned sg_random(unsigned n);
void *sg_alloc(size_t size); /* zeroed; never NULL */
void sg_count_wait(int spinning);

/** A new object in the list. */
void *sg_new(SgKind kind, CUcontext context, size_t size);
/** Takes the object off the list and frees it. */
void sg_delete(SgObject *object);
/** Whether this is the handle of a living object of the kind. */
int sg_is(SgKind kind, const void *handle);

/* context.c */
/** The calling thread's context. */
CUresult sg_current(CUcontext *context);

/* memory.c */
/** The memory that holds the bytes [at, at + size) of any kind but pageable, or NULL. */
SgMemory *sg_memory_of(const void *at, size_t size);
/** Ends the program if a guard was written to. The message says when that was seen, in two parts. */
void sg_check_guards(const char *when, const char *name);
void sg_memory_delete(SgMemory *memory);

/* copy.c */
void sg_run_copy(const SgCopy *copy);
void sg_run_fill(const SgFill *fill);

/* grid.c */
void sg_run_kernel(const SgLaunch *launch);

/* stream.c */
/** The stream of a handle; stream 0 is the current context's. */
CUresult sg_stream(CUstream handle, CUstream *stream);
CUstream sg_stream_new(CUcontext context, unsigned flags, int is_legacy);
void sg_stream_delete(CUstream stream);
void sg_event_delete(CUevent event);
/** Queues work, which it owns from then on, after everything in the stream and after `wait_for` (may be NULL). */
CUresult sg_enqueue(CUstream stream, SgWork *work, SgToken *wait_for);
void sg_work_free(SgWork *work);
/** Waits until the token's operation is done. */
void sg_wait(SgToken *token);
/** Waits for all streams of a device, or all there are if it is -1. */
void sg_drain(CUdevice device);
void sg_drain_context(CUcontext context);
/** Operations of all streams that are not done. */
size_t sg_pending(void);
/** Random progress, if the order says so. */
void sg_progress(void);
/** Frees destroyed streams whose work is done. */
void sg_reap_streams(void);
SgToken *sg_token_ref(SgToken *token);
void sg_token_unref(SgToken *token);

/* graph.c */
/** Adds work, which it owns from then on, to the stream's capture. */
CUresult sg_capture_work(CUstream stream, SgWork *work);
CUresult sg_capture_event(CUstream stream, CUevent event);
CUresult sg_capture_wait(CUstream stream, CUevent event);
/** Called where a capture forbids the call. Spoils captures that the call disturbs; 0 if there is none. */
CUresult sg_capture_disturbed(CUstream stream);
/** For calls that no thread may make which is capturing. */
CUresult sg_capture_unsafe(void);
void sg_capture_leave(CUstream stream);
int sg_capture_is_active(unsigned long id);
void sg_nodes_unref(SgNodes *nodes);
void sg_graph_delete(CUgraph graph);
void sg_graph_exec_delete(CUgraphExec exec);
/** Runs one node of the graph. */
void sg_graph_step(SgOp *op);
void sg_work_run(const SgWork *work);

/* module.c */
void sg_module_delete(CUmodule module);

/* ---- ThreadSanitizer: who is ordered after whom ---- */

#ifdef SOFTGPU_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *at);
void __tsan_release(void *at);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#define sg_acquire(at)    __tsan_acquire(at)
#define sg_release(at)    __tsan_release(at)
#define sg_ignore_begin() (AnnotateIgnoreReadsBegin(__FILE__, __LINE__), AnnotateIgnoreWritesBegin(__FILE__, __LINE__))
#define sg_ignore_end()   (AnnotateIgnoreWritesEnd(__FILE__, __LINE__), AnnotateIgnoreReadsEnd(__FILE__, __LINE__))
#else
#define sg_acquire(at)    ((void)(at))
#define sg_release(at)    ((void)(at))
#define sg_ignore_begin() ((void)0)
#define sg_ignore_end()   ((void)0)
#endif

#endif
