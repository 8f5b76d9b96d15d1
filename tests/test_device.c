/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The device table for CUDA, on two software devices; and drivers that are missing, too old or broken, which another
 * program (open_device) is made to find.
 */
#include "tests/cmocka_includes.h"

#include "engine/device.h"
#include "kernels/image.h"
#include "tests/messages.h"
#include "tests/softgpu/driver_api.h"
#include "tests/softgpu/gpu_host.h"
#include "tests/softgpu/softgpu.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const VgDeviceTable *const t = &vg_table_cuda;

static Messages messages;
static const VgLog test_log = { messages_log, &messages };

#define OK(call) assert_int_equal(call, 0)

static int try_open(VgDevice **d, const char *which, void *context)
{
    messages = (Messages){ 0 };
    return t->open(d, &(VgDeviceChoice){ which, context }, &test_log);
}

static VgDevice *opened(const char *which, void *context)
{
    VgDevice *d;
    int err = try_open(&d, which, context);
    if (err)
        fail_msg("error %d: %s", err, messages.text);
    OK(t->enter(d));
    return d;
}

static void closed(VgDevice *d)
{
    t->leave(d);
    t->close(&d);
    assert_null(d);
    assert_int_equal(softgpu_live_objects(), 0);
}

/* ---- Which device ------------------------------------------------------------------------------------------------ */

static void devices_are_described(void **state)
{
    (void)state;
    VgDevice *d = opened(NULL, NULL);
    assert_ptr_equal(d->table, t);
    assert_string_equal(d->name, "Software device 0");
    assert_string_equal(d->id, "0000:01:00.0");
    assert_int_equal(d->driver, 12010);
    assert_int_equal(d->wave, 32);
    assert_string_equal(messages.text, "V CUDA device: Software device 0, 0000:01:00.0, driver for CUDA 12.1\n");
    closed(d);
    softgpu_set_wave(64);
    d = opened(NULL, NULL);
    assert_int_equal(d->wave, 64);
    closed(d);
    softgpu_set_wave(32);
}

static void devices_are_chosen_by_index_and_pci_id(void **state)
{
    static const struct {
        const char *which, *id;
    } cases[] = {
        { NULL, "0000:01:00.0" },      { "", "0000:01:00.0" },
        { "0", "0000:01:00.0" },       { "1", "0000:02:00.0" },
        { "01:00.0", "0000:01:00.0" }, { "0000:02:00.0", "0000:02:00.0" },
        { "02:00.0", "0000:02:00.0" }, { "00000000:02:00.0", "0000:02:00.0" },
        { "2:0.0", "0000:02:00.0" },
    };
    static const char *const refused[] = { "2",        "-1",    "gpu", "03:00.0",    "0001:01:00.0",        "01:00.1",
                                           "01:00.0 ", "01:00", "0x1", "4294967296", "99999999999999999999" };
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        VgDevice *d = opened(cases[i].which, NULL);
        assert_string_equal(d->id, cases[i].id);
        closed(d);
    }
    for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        VgDevice *d;
        char expected[256];
        assert_int_equal(try_open(&d, refused[i], NULL), -ENODEV);
        assert_null(d);
        snprintf(expected, sizeof(expected),
                 "E there is no CUDA device \"%s\": give the index or the PCI id of one of 0 (0000:01:00.0, Software "
                 "device 0), 1 (0000:02:00.0, Software device 1)\n",
                 refused[i]);
        assert_string_equal(messages.text, expected);
        assert_int_equal(softgpu_live_objects(), 0);
    }
}

static void the_callers_context_is_used(void **state)
{
    CUcontext ours, other, current;
    (void)state;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&ours, 0, 1));
    OK(cuCtxCreate_v2(&other, 0, 0));
    VgDevice *d;
    OK(try_open(&d, NULL, ours));
    assert_string_equal(d->name, "Software device 1");
    for (int i = 0; i < 2; i++) {
        OK(cuCtxGetCurrent(&current));
        assert_ptr_equal(current, other);
        OK(t->enter(d));
        OK(cuCtxGetCurrent(&current));
        assert_ptr_equal(current, ours);
        t->leave(d);
    }
    t->close(&d);
    OK(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, other);
    assert_int_equal(softgpu_live_objects(), 2); /* it is still the caller's */
    OK(cuCtxDestroy_v2(other));
    OK(cuCtxDestroy_v2(ours));
    assert_int_equal(softgpu_live_objects(), 0);

    const int fault = -EIO; /* native: invalid context */
    assert_int_equal(try_open(&d, NULL, &current), fault);
    assert_null(d);
    assert_string_equal(messages.text, "E using the CUDA context of the pictures: cuCtxPushCurrent: "
                                       "CUDA_ERROR_INVALID_CONTEXT (201, invalid device context)\n");
}

/* Waits in a primary context of ours block; one that is there already stays as it is. */
static void primary_contexts_are_shared(void **state)
{
    unsigned flags;
    int active;
    (void)state;
    VgDevice *d = opened("1", NULL), *second;
    OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(flags, CU_CTX_SCHED_BLOCKING_SYNC);
    assert_int_equal(active, 1);
    OK(try_open(&second, "1", NULL));
    assert_int_equal(softgpu_live_objects(), 2); /* retained twice */
    t->close(&second);
    closed(d);

    CUcontext context;
    OK(cuDevicePrimaryCtxSetFlags(0, 1)); /* spin */
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    d = opened("0", NULL);
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(flags, 1);
    unsigned long spinning, spun;
    softgpu_waits(&spinning);
    OK(t->stream_synchronize(d, NULL));
    softgpu_waits(&spun);
    assert_int_equal(spun, spinning);
    t->leave(d);
    t->close(&d);
    OK(cuDevicePrimaryCtxRelease(0));
    assert_int_equal(softgpu_live_objects(), 0);
    OK(cuDevicePrimaryCtxSetFlags(0, 0));

    /* Somebody else makes it between our question and our wish. */
    softgpu_fail_call("cuDevicePrimaryCtxSetFlags", 1, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
    d = opened("0", NULL);
    assert_int_equal(messages.counts[VG_LOG_ERROR], 0);
    closed(d);
}

/* ---- Memory and work --------------------------------------------------------------------------------------------- */

static void memory_is_copied_and_filled(void **state)
{
    enum { W = 37, H = 11, PITCH = 64 };
    (void)state;
    VgDevice *d = opened(NULL, NULL);
    uint64_t a, b;
    void *host;
    VgStream stream;
    OK(t->alloc(d, PITCH * H, &a));
    OK(t->alloc(d, W * H, &b));
    assert_int_equal(a % 256 + b % 256, 0);
    OK(t->alloc_host(d, PITCH * H, &host));
    OK(t->stream_create(d, &stream));
    uint8_t *p = host;
    for (int i = 0; i < PITCH * H; i++)
        p[i] = (uint8_t)(i * 7 + i / 256);
    uint8_t expected[W * H];
    for (int y = 0; y < H; y++)
        memcpy(expected + y * W, p + y * PITCH, W);

    const VgCopy steps[] = {
        { VG_COPY_TO_DEVICE, a, (uintptr_t)host, PITCH, PITCH, W, H }, /* rows */
        { VG_COPY_ON_DEVICE, b, a, W, PITCH, W, H },                   /* closer */
        { VG_COPY_TO_HOST, (uintptr_t)host, b, W, W, W, H },           /* at once */
        { VG_COPY_TO_HOST, 0, 0, 0, 0, 0, H },                         /* nothing */
        { VG_COPY_TO_DEVICE, 0, 0, 0, 0, W, 0 },
    };
    for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        OK(t->copy(d, &steps[i], stream));
    OK(t->stream_synchronize(d, stream));
    assert_memory_equal(p, expected, W * H);

    OK(t->fill(d, b, 0x5a, 100, stream));
    OK(t->copy(d, &(VgCopy){ VG_COPY_ON_DEVICE, a, b, 0, 0, W * H, 1 }, stream)); /* pitches of one row are nothing */
    OK(t->copy(d, &(VgCopy){ VG_COPY_TO_HOST, (uintptr_t)host, a, 2 * W, W, W, 5 }, stream));
    OK(t->stream_synchronize(d, stream));
    memset(expected, 0x5a, 100);
    for (int y = 0; y < 5; y++)
        assert_memory_equal(p + y * 2 * W, expected + y * W, W);
    OK(t->copy(d, &(VgCopy){ VG_COPY_TO_DEVICE, b, (uintptr_t)host, W, W, W, H }, stream));
    OK(t->stream_synchronize(d, stream));

    t->stream_destroy(d, stream);
    t->free_host(d, host);
    t->free(d, a);
    t->free(d, b);
    t->free(d, 0);
    t->free_host(d, NULL);
    closed(d);
}

enum { BLOCK = 32 };

typedef struct StepArgs {
    uint64_t at;
    uint32_t factor, add;
} StepArgs;

/* x = x * factor + add: the order of two of these shows. */
GPU_KERNEL(device_step, StepArgs, BLOCK)
{
    uint32_t *at = (uint32_t *)(uintptr_t)args.at + gpu_bid(0) * BLOCK + gpu_tid(0);
    *at = *at * args.factor + args.add;
}

typedef struct SharedArgs {
    uint64_t at;
    uint32_t bytes, zero;
} SharedArgs;

/* Tells how much dynamic shared memory could be written and read again. */
GPU_KERNEL(device_shared, SharedArgs, BLOCK)
{
    uint8_t *shared = gpu_dynamic_shared();
    for (uint32_t i = gpu_tid(0); i < args.bytes; i += BLOCK)
        shared[i] = (uint8_t)i;
    gpu_barrier();
    if (!gpu_tid(0)) {
        uint32_t right = 0;
        for (uint32_t i = 0; i < args.bytes; i++)
            right += shared[i] == (uint8_t)i;
        *(uint32_t *)(uintptr_t)args.at = right;
    }
}

/* What most tests need. */
typedef struct Rig {
    VgDevice *d;
    VgModule module;
    VgFunction step;
    VgStream stream, other;
    VgEvent event;
    uint64_t at;    /* BLOCK numbers */
    uint32_t *host; /* the same, pinned */
} Rig;

static void rig_open(Rig *r)
{
    r->d = opened(NULL, NULL);
    OK(t->module_load(r->d, &test_log, &r->module));
    OK(t->function(r->d, r->module, "device_step", 0, &r->step));
    OK(t->stream_create(r->d, &r->stream));
    OK(t->stream_create(r->d, &r->other));
    OK(t->event_create(r->d, 0, &r->event));
    OK(t->alloc(r->d, BLOCK * 4, &r->at));
    OK(t->alloc_host(r->d, BLOCK * 4, (void **)&r->host));
    OK(t->fill(r->d, r->at, 0, BLOCK * 4, r->stream));
    OK(t->stream_synchronize(r->d, r->stream));
}

static void rig_close(Rig *r)
{
    t->free_host(r->d, r->host);
    t->free(r->d, r->at);
    t->event_destroy(r->d, r->event);
    t->stream_destroy(r->d, r->other);
    t->stream_destroy(r->d, r->stream);
    t->module_unload(r->d, r->module);
    closed(r->d);
}

static int step(Rig *r, VgStream stream, uint32_t factor, uint32_t add)
{
    const StepArgs args = { r->at, factor, add };
    return t->launch(r->d, r->step, (const uint32_t[]){ 1, 1, 1 }, BLOCK, 0, &args, sizeof(args), stream);
}

static int fetch(Rig *r, VgStream stream)
{
    return t->copy(r->d, &(VgCopy){ VG_COPY_TO_HOST, (uintptr_t)r->host, r->at, 0, 0, BLOCK * 4, 1 }, stream);
}

static void work_is_ordered_by_streams_and_events(void **state)
{
    (void)state;
    for (unsigned long order = 0; order < 22; order++) {
        softgpu_set_order(order);
        Rig r;
        rig_open(&r);
        const unsigned long waits = softgpu_waits(NULL);
        OK(step(&r, r.stream, 3, 1));
        OK(t->record(r.d, r.event, r.stream));
        OK(t->stream_wait(r.d, r.other, r.event));
        OK(step(&r, r.other, 2, 5));
        OK(t->record(r.d, r.event, r.other));
        OK(t->stream_wait(r.d, r.stream, r.event));
        OK(fetch(&r, r.stream));
        OK(t->record(r.d, r.event, r.stream));
        assert_int_equal(softgpu_waits(NULL), waits);
        int reached = t->event_query(r.d, r.event);
        assert_true(order == 0 ? reached == 1 : order == 1 ? reached == 0 : reached == 0 || reached == 1);
        OK(t->event_synchronize(r.d, r.event));
        assert_int_equal(t->event_query(r.d, r.event), 1);
        assert_int_equal(r.host[0], 7);
        assert_int_equal(r.host[BLOCK - 1], 7);
        assert_int_equal(softgpu_waits(NULL), waits + 1);
        rig_close(&r);
    }
    softgpu_set_order(0);
}

/* The default stream is one like others: ours do not wait for it. */
static void streams_do_not_wait_for_the_default_stream(void **state)
{
    (void)state;
    Rig r;
    softgpu_set_order(1);
    rig_open(&r);
    OK(step(&r, NULL, 1, 9));
    OK(fetch(&r, r.stream));
    OK(t->stream_synchronize(r.d, r.stream));
    assert_int_equal(r.host[0], 0);
    OK(t->record(r.d, r.event, NULL));
    OK(t->stream_wait(r.d, r.stream, r.event));
    OK(fetch(&r, r.stream));
    OK(t->stream_synchronize(r.d, r.stream));
    assert_int_equal(r.host[0], 9);
    rig_close(&r);
    softgpu_set_order(0);
}

static void timed_events_tell_times(void **state)
{
    (void)state;
    Rig r;
    VgEvent from, to;
    float time = -1;
    rig_open(&r);
    OK(t->event_create(r.d, 1, &from));
    OK(t->event_create(r.d, 1, &to));
    OK(t->record(r.d, from, r.stream));
    OK(step(&r, r.stream, 1, 1));
    OK(t->record(r.d, to, r.stream));
    OK(t->event_synchronize(r.d, to));
    OK(t->event_elapsed(r.d, from, to, &time));
    assert_true(time >= 0);
    OK(t->record(r.d, r.event, r.stream));
    assert_int_equal(t->event_elapsed(r.d, from, r.event, &time), -EIO); /* without timing: invalid handle */
    assert_int_equal(r.d->native, CUDA_ERROR_INVALID_HANDLE);
    t->event_destroy(r.d, from);
    t->event_destroy(r.d, to);
    rig_close(&r);
}

static void shared_memory_is_as_large_as_asked(void **state)
{
    static const struct {
        uint32_t limit, bytes;
        int error;
    } cases[] = { { 0, 0, 0 },
                  { 0, 48 << 10, 0 },
                  { 48 << 10, 48 << 10, 0 },
                  { 0, (48 << 10) + 16, -EINVAL },
                  { 100 << 10, 100 << 10, 0 },
                  { 100 << 10, 101 << 10, -EINVAL },
                  { 227 << 10, 227 << 10, 0 } };
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Rig r;
        rig_open(&r);
        VgFunction function;
        OK(t->function(r.d, r.module, "device_shared", cases[i].limit, &function));
        const SharedArgs args = { r.at, cases[i].bytes, 0 };
        assert_int_equal(t->launch(r.d, function, (const uint32_t[]){ 1, 1, 1 }, BLOCK, cases[i].bytes, &args,
                                   sizeof(args), r.stream),
                         cases[i].error);
        OK(fetch(&r, r.stream));
        OK(t->stream_synchronize(r.d, r.stream));
        assert_int_equal(r.host[0], cases[i].error ? 0 : cases[i].bytes);
        if (i == 0) {
            assert_int_equal(t->function(r.d, r.module, "device_shared", 300 << 10, &function), -EINVAL);
            assert_string_equal(r.d->call, "cuFuncSetAttribute");
            assert_int_equal(t->function(r.d, r.module, "no_such_kernel", 0, &function), -ENOENT);
        }
        rig_close(&r);
    }
}

static void graphs_are_recorded_and_run_again(void **state)
{
    (void)state;
    for (unsigned long order = 0; order < 8; order++) {
        softgpu_set_order(order);
        Rig r;
        VgGraph graph;
        rig_open(&r);
        OK(t->capture_begin(r.d, r.stream));
        OK(step(&r, r.stream, 3, 1));
        OK(step(&r, r.stream, 2, 1));
        OK(fetch(&r, r.stream));
        OK(t->capture_end(r.d, r.stream, &graph));
        OK(t->stream_synchronize(r.d, r.stream));
        assert_int_not_equal(r.host[0], 3); /* nothing has run */
        for (uint32_t i = 0, x = 0; i < 3; i++) {
            x = (x * 3 + 1) * 2 + 1;
            OK(t->graph_launch(r.d, graph, r.stream));
            OK(t->stream_synchronize(r.d, r.stream));
            assert_int_equal(r.host[BLOCK - 1], x);
        }
        t->graph_destroy(r.d, graph);
        t->graph_destroy(r.d, NULL);
        if (order == 0) {
            assert_int_not_equal(t->capture_end(r.d, r.stream, &graph), 0); /* not begun */
            assert_null(graph);
            OK(t->capture_begin(r.d, r.stream));
            softgpu_fail_call("cuGraphInstantiateWithFlags", 1, CUDA_ERROR_OUT_OF_MEMORY);
            assert_int_equal(t->capture_end(r.d, r.stream, &graph), -ENOMEM);
            assert_null(graph);
        }
        rig_close(&r);
    }
    softgpu_set_order(0);
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static void numbers_become_errno(void **state)
{
    static const int known[][2] = {
        { 0, 0 },         { 1, -EINVAL },    { 2, -ENOMEM },    { 3, -ENODEV },    { 100, -ENODEV },
        { 101, -ENODEV }, { 200, -ENOEXEC }, { 209, -ENOEXEC }, { 218, -ENOEXEC }, { 222, -ENOEXEC },
        { 500, -ENOENT }, { 600, -EAGAIN },  { 801, -ENOTSUP },
    };
    static const int lost[] = { 4, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719 };
    (void)state;
    for (int native = 0; native < 1000; native++) {
        int expected = -EIO, is_lost = 0;
        for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            if (known[i][0] == native)
                expected = known[i][1];
        for (unsigned i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
            is_lost |= lost[i] == native;
        assert_int_equal(vg_device_errno(native), expected);
        assert_int_equal(vg_device_lost(&(VgDevice){ .native = native }), is_lost);
    }
}

static void errors_are_told_in_words(void **state)
{
    static const struct {
        int native;
        const char *words;
    } cases[] = {
        { 1, "E frame 7: cuEventRecord: CUDA_ERROR_INVALID_VALUE (1, invalid argument)\n" },
        { 2, "E frame 7: cuEventRecord: CUDA_ERROR_OUT_OF_MEMORY (2, out of memory). End other programs that use the "
             "device, or lower in_flight\n" },
        { 100,
          "E frame 7: cuEventRecord: CUDA_ERROR_NO_DEVICE (100, no CUDA-capable device is detected). Make sure that "
          "the driver is loaded and that this user, container and environment may see the device\n" },
        { 209,
          "E frame 7: cuEventRecord: CUDA_ERROR_NO_BINARY_FOR_GPU (209, no kernel image is available for execution "
          "on the device). Update the driver, or build the library for this device\n" },
        { 719, "E frame 7: cuEventRecord: CUDA_ERROR_LAUNCH_FAILED (719, unspecified launch failure). The device does "
               "not answer this program any more: start it again; the system's log may say why\n" },
        { 888, "E frame 7: cuEventRecord: unknown error (888, no text)\n" },
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Rig r;
        rig_open(&r);
        messages = (Messages){ 0 };
        softgpu_fail_call("cuEventRecord", 1, cases[i].native);
        int err = t->record(r.d, r.event, r.stream);
        assert_int_equal(err, vg_device_errno(cases[i].native));
        assert_int_equal(r.d->native, cases[i].native);
        assert_int_equal(vg_device_report(r.d, &test_log, err, "frame %d", 7), err);
        assert_string_equal(messages.text, cases[i].words);
        softgpu_fail_at(0, 0);
        rig_close(&r);
    }
    Rig r;
    rig_open(&r);
    messages = (Messages){ 0 };
    assert_int_equal(t->alloc(r.d, (size_t)1 << 50, &(uint64_t){ 0 }), -ENOMEM);
    vg_device_report(r.d, &test_log, -ENOMEM, "1 PiB");
    assert_true(messages_contain(&messages, "E 1 PiB: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2, out of memory)"));
    /* An error that is not the driver's latest. */
    messages = (Messages){ 0 };
    vg_device_report(r.d, &test_log, -ENOENT, "kernel x");
    assert_string_equal(messages.text, "E kernel x: No such file or directory\n");
    rig_close(&r);
}

/* Every driver call of open() fails in turn. */
static void failures_while_opening_leave_nothing(void **state)
{
    static const int codes[] = { 2, 100, 999, 719 };
    (void)state;
    CUcontext context;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 1));
    const unsigned long complaints = softgpu_complaints();
    for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        for (int with_context = 0; with_context < 2; with_context++) {
            unsigned long n = 0, calls;
            unsigned failures = 0;
            do {
                VgDevice *d;
                const unsigned long before = softgpu_calls();
                softgpu_fail_at(++n, codes[i]);
                int err = try_open(&d, "1", with_context ? context : NULL);
                calls = softgpu_calls() - before;
                softgpu_fail_at(0, 0);
                if (!err) { /* no call failed but that which takes leave of the context */
                    t->close(&d);
                } else {
                    failures++;
                    assert_null(d);
                    assert_int_equal(err, vg_device_errno(codes[i]));
                    assert_int_equal(messages.counts[VG_LOG_ERROR], 1);
                    assert_int_equal(messages.counts[VG_LOG_VERBOSE], 0);
                }
                assert_int_equal(softgpu_live_objects(), 1);
            } while (calls >= n);
            assert_int_equal(n, calls + 1);
            /* The end of a device is noticed by the next call. */
            assert_int_equal(failures, calls - (with_context && codes[i] != 719));
            CUcontext current;
            OK(cuCtxGetCurrent(&current));
            assert_ptr_equal(current, context);
        }
    }
    assert_int_equal(softgpu_complaints(), complaints);
    OK(cuCtxDestroy_v2(context));
    assert_int_equal(softgpu_live_objects(), 0);
}

static int run_all_calls(Rig *r, const char *failing)
{
    VgGraph graph = NULL;
    VgModule module = NULL;
    VgFunction function;
    VgStream stream = NULL;
    VgEvent event = NULL, timed = NULL;
    uint64_t address = 0;
    void *host = NULL;
    float time;
    int err = 0, calls = 0;
    /* Of each function of the table its first error, which must be that of the call that was made to fail. */
#define TRY(call)                                                                                                      \
    if (!err && ++calls && (err = (call)) > 0)                                                                         \
    err = 0
    TRY(t->alloc(r->d, 100, &address));
    TRY(t->alloc_host(r->d, 100, &host));
    TRY(t->stream_create(r->d, &stream));
    TRY(t->event_create(r->d, 0, &event));
    TRY(t->event_create(r->d, 1, &timed));
    TRY(t->module_load(r->d, &test_log, &module));
    TRY(t->function(r->d, r->module, "device_shared", 64 << 10, &function));
    TRY(t->fill(r->d, r->at, 0, 4, r->stream));
    TRY(fetch(r, r->stream));
    TRY(t->copy(r->d, &(VgCopy){ VG_COPY_TO_DEVICE, r->at, (uintptr_t)r->host, 0, 0, 4, 1 }, r->stream));
    TRY(t->copy(r->d, &(VgCopy){ VG_COPY_ON_DEVICE, r->at, r->at + 64, 0, 0, 4, 1 }, r->stream));
    TRY(t->copy(r->d, &(VgCopy){ VG_COPY_TO_DEVICE, r->at, (uintptr_t)r->host, 8, 16, 4, 2 }, r->stream));
    TRY(step(r, r->stream, 1, 1));
    TRY(t->record(r->d, event, r->stream));
    TRY(t->record(r->d, timed, r->stream));
    TRY(t->stream_wait(r->d, r->other, event));
    TRY(t->event_synchronize(r->d, timed));
    TRY(t->event_query(r->d, event));
    TRY(t->event_elapsed(r->d, timed, timed, &time));
    TRY(t->stream_synchronize(r->d, r->stream));
    TRY(t->capture_begin(r->d, stream));
    TRY(t->capture_end(r->d, stream, &graph));
    TRY(t->graph_launch(r->d, graph, r->stream));
    TRY(t->enter(r->d));
    if (!err)
        t->leave(r->d);
#undef TRY
    if (err && (r->d->native != 999 || strcmp(r->d->call, failing)))
        fail_msg("call %d of the table: %s, error %d; but %s failed", calls, r->d->call, r->d->native, failing);
    t->graph_destroy(r->d, graph);
    t->module_unload(r->d, module);
    t->event_destroy(r->d, timed);
    t->event_destroy(r->d, event);
    t->stream_destroy(r->d, stream);
    t->free_host(r->d, host);
    t->free(r->d, address);
    return err;
}

/* Every driver call that the table makes, by its name. */
static void errors_name_the_call_that_failed(void **state)
{
    static const char *const calls[] = {
        "cuMemAlloc_v2",           "cuMemAllocHost_v2",    "cuStreamCreate",
        "cuEventCreate",           "cuModuleLoadData",     "cuModuleGetFunction",
        "cuFuncSetAttribute",      "cuMemsetD8Async",      "cuMemcpyDtoHAsync_v2",
        "cuMemcpyHtoDAsync_v2",    "cuMemcpyDtoDAsync_v2", "cuMemcpy2DAsync_v2",
        "cuLaunchKernel",          "cuEventRecord",        "cuStreamWaitEvent",
        "cuEventSynchronize",      "cuEventQuery",         "cuEventElapsedTime",
        "cuStreamBeginCapture_v2", "cuStreamEndCapture",   "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",           "cuCtxPushCurrent_v2",
    };
    (void)state;
    const unsigned long complaints = softgpu_complaints();
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        Rig r;
        rig_open(&r);
        softgpu_fail_call(calls[i], 1, 999);
        assert_int_equal(run_all_calls(&r, calls[i]), -EIO);
        softgpu_fail_at(0, 0);
        rig_close(&r);
    }
    Rig r;
    rig_open(&r);
    OK(run_all_calls(&r, ""));
    rig_close(&r);
    assert_int_equal(softgpu_complaints(), complaints);
}

/* A wait that fails for a reason of its own leaves nothing running. */
static void waits_for_streams_outlive_their_errors(void **state)
{
    static const char *const calls[] = { "cuEventCreate", "cuEventRecord", "cuEventSynchronize" };
    (void)state;
    softgpu_set_order(1);
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        Rig r;
        rig_open(&r);
        OK(step(&r, r.stream, 1, 42));
        OK(fetch(&r, r.stream));
        softgpu_fail_call(calls[i], 1, 999);
        assert_int_equal(t->stream_synchronize(r.d, r.stream), -EIO);
        assert_string_equal(r.d->call, calls[i]);
        assert_int_equal(r.host[0], 42);
        rig_close(&r);
    }
    softgpu_set_order(0);
}

/* ---- Images ------------------------------------------------------------------------------------------------------ */

static void images_are_tried_in_turn(void **state)
{
    static const int unfit[] = { 200, 209, 218, 222 };
    const int n_images = (vg_image_cubin_size > 0) + (vg_image_ptx_size > 0);
    (void)state;
    assert_true(n_images > 0);
    assert_true(vg_backend_built_in(VG_BACKEND_CUDA));
    assert_true(vg_backend_built_in(VG_BACKEND_AUTO));
    assert_true(vg_backend_built_in(VG_BACKEND_CPU));
    VgDevice *d = opened(NULL, NULL);
    VgModule module;
    OK(t->module_load(d, &test_log, &module));
    assert_true(
        messages_contain(&messages, vg_image_cubin_size ? "V kernels: machine code loaded" : "V kernels: PTX loaded"));
    t->module_unload(d, module);
    for (unsigned i = 0; i < 4; i++) {
        char words[100];
        messages = (Messages){ 0 };
        softgpu_fail_call("cuModuleLoadData", 1, unfit[i]);
        assert_int_equal(t->module_load(d, &test_log, &module), n_images == 2 ? 0 : -ENOEXEC);
        snprintf(words, sizeof(words), "V kernels: %s does not fit the device (error %d)\n",
                 vg_image_cubin_size ? "machine code" : "PTX", unfit[i]);
        assert_true(messages_contain(&messages, words));
        assert_int_equal(messages_contain(&messages, "V kernels: PTX loaded"), n_images == 2);
        t->module_unload(d, module);
    }
    messages = (Messages){ 0 };
    softgpu_fail_call("cuModuleLoadData", 1, CUDA_ERROR_OUT_OF_MEMORY); /* no matter of the image */
    assert_int_equal(t->module_load(d, &test_log, &module), -ENOMEM);
    assert_null(module);
    assert_string_equal(messages.text, "");
    closed(d);
}

/* ---- Other drivers ----------------------------------------------------------------------------------------------- */

/* What open_device says with these variables in its environment. */
static const char *said(const char *variables, const char *argument)
{
    static char text[4096];
    char command[2048];
    snprintf(command, sizeof(command), "env %s '%s' %s 2>&1", variables, getenv("OPEN_DEVICE"), argument);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(text, 1, sizeof(text) - 1, pipe);
    text[n] = 0;
    int status = pclose(pipe);
    if (status)
        fail_msg("%s: status %d: %s", command, status, text);
    return text;
}

static void assert_says(const char *variables, const char *argument, const char *words)
{
    const char *text = said(variables, argument);
    if (!strstr(text, words))
        fail_msg("%s %s: no \"%s\" in: %s", variables, argument, words, text);
}

static const char *path_of(const char *folder)
{
    static char variables[1024];
    snprintf(variables, sizeof(variables), "LD_LIBRARY_PATH='%s/%s'", getenv("DRIVERS"), folder);
    return variables;
}

static void missing_and_broken_drivers_are_refused(void **state)
{
    char folder[] = "/tmp/device_test_XXXXXX", variables[300], file[100];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/libcuda.so.1", folder);
    snprintf(variables, sizeof(variables), "LD_LIBRARY_PATH=%s", folder);
    /* A machine may have a driver. What is said without one is what is said of one that is no library. */
    const char *text = said(variables, "");
    if (strstr(text, "open -")) {
        assert_non_null(strstr(text,
                               "E NVIDIA's driver cannot be opened (libcuda.so.1: cannot open shared object file: No "
                               "such file or directory): install it, or score on the CPU\n"));
    }
    FILE *broken = fopen(file, "w");
    assert_non_null(broken);
    fprintf(broken, "This is no library.\n");
    fclose(broken);
    text = said(variables, "");
    assert_non_null(strstr(text, "E NVIDIA's driver cannot be opened ("));
    assert_non_null(strstr(text, "libcuda.so.1: "));
    assert_non_null(strstr(text, "): install it, or score on the CPU\nopen -19\n"));
    unlink(file);
    rmdir(folder);

    assert_says(path_of("lacking"), "",
                "E libcuda.so.1 has no function cuLaunchKernel: install NVIDIA's driver again\nopen -19\n");
}

static void old_drivers_do_what_they_can(void **state)
{
    char variables[1200];
    (void)state;
    snprintf(variables, sizeof(variables), "OLD_DRIVER_VERSION=9020 %s", path_of("old"));
    assert_says(
        variables, "",
        "E NVIDIA's driver supports CUDA 9.2, but the kernels (PTX 6.3) need 10.0: update the driver\nopen -19\n");
    snprintf(variables, sizeof(variables), "OLD_DRIVER_VERSION=11030 %s", path_of("old"));
    assert_says(variables, "", "driver for CUDA 11.3\nopen 0\n");
    assert_says(path_of("old"), "", "open 0\nenter 0\n");
    assert_says(path_of("old"), "", "stream 0\ncapture -95\nE recording a graph: cuGraphInstantiateWithFlags: ");
}

static void the_environment_decides(void **state)
{
    char variables[2048];
    const char *path = getenv("SOFTGPU_FOLDER");
    (void)state;
    snprintf(variables, sizeof(variables), "SOFTGPU_DEVICES=0 LD_LIBRARY_PATH='%s'", path);
    assert_says(variables, "",
                "E NVIDIA's driver does not start: cuInit: CUDA_ERROR_NO_DEVICE (100, no CUDA-capable device is "
                "detected). Make sure that the driver is loaded");
    snprintf(variables, sizeof(variables), "SOFTGPU_DEVICES=3 LD_LIBRARY_PATH='%s'", path);
    assert_says(variables, "2", "V CUDA device: Software device 2, 0000:03:00.0, driver for CUDA 12.1\nopen 0\n");
    snprintf(variables, sizeof(variables), "SOFTGPU_IMAGES=elf LD_LIBRARY_PATH='%s'", path);
    assert_says(variables, "", "module -8\nE loading kernels: cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU (209, ");
    snprintf(variables, sizeof(variables), "SOFTGPU_IMAGES=ptx LD_LIBRARY_PATH='%s'", path);
    if (vg_image_cubin_size)
        assert_says(variables, "", "V kernels: machine code does not fit the device (error 209)\n");
    if (vg_image_ptx_size)
        assert_says(variables, "", "V kernels: PTX loaded\nmodule 0\nstream 0\ncapture 0\n");
    snprintf(variables, sizeof(variables), "SOFTGPU_IMAGES=fatbin LD_LIBRARY_PATH='%s'", path);
    if (vg_image_cubin_size)
        assert_says(variables, "", "V kernels: machine code loaded\nmodule 0\n");
}

int main(void)
{
    setenv("SOFTGPU_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_described),
        cmocka_unit_test(devices_are_chosen_by_index_and_pci_id),
        cmocka_unit_test(the_callers_context_is_used),
        cmocka_unit_test(primary_contexts_are_shared),
        cmocka_unit_test(memory_is_copied_and_filled),
        cmocka_unit_test(work_is_ordered_by_streams_and_events),
        cmocka_unit_test(streams_do_not_wait_for_the_default_stream),
        cmocka_unit_test(timed_events_tell_times),
        cmocka_unit_test(shared_memory_is_as_large_as_asked),
        cmocka_unit_test(graphs_are_recorded_and_run_again),
        cmocka_unit_test(numbers_become_errno),
        cmocka_unit_test(errors_are_told_in_words),
        cmocka_unit_test(failures_while_opening_leave_nothing),
        cmocka_unit_test(errors_name_the_call_that_failed),
        cmocka_unit_test(waits_for_streams_outlive_their_errors),
        cmocka_unit_test(images_are_tried_in_turn),
        cmocka_unit_test(missing_and_broken_drivers_are_refused),
        cmocka_unit_test(old_drivers_do_what_they_can),
        cmocka_unit_test(the_environment_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
