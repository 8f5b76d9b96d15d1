/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 */
#include "tests/cmocka_includes.h"

#include "tests/device_tests.h"
#include "tests/softgpu/softgpu.h"

#include <errno.h>
#include <stdlib.h>

#define T tested.table

Messages messages;
const VgLog test_log = { messages_log, &messages };
size_t live_objects;

int try_open(VgDevice **d, const char *which, void *context)
{
    messages = (Messages){ 0 };
    return T->open(d, &(VgDeviceChoice){ which, context }, &test_log);
}

VgDevice *opened(const char *which)
{
    VgDevice *d;
    int err = try_open(&d, which, NULL);
    if (err)
        fail_msg("error %d: %s", err, messages.text);
    OK(T->enter(d));
    return d;
}

void closed(VgDevice *d)
{
    T->leave(d);
    T->close(&d);
    assert_null(d);
    assert_int_equal(softgpu_live_objects(), live_objects);
}

/* ---- Which device ------------------------------------------------------------------------------------------------ */

void devices_are_chosen_by_index_and_pci_id(void **state)
{
    static const struct {
        const char *which, *id;
    } cases[] = {
        { NULL, "0000:01:00.0" },      { "", "0000:01:00.0" },
        { "0", "0000:01:00.0" },       { "1", "0000:02:00.0" },
        { "01:00.0", "0000:01:00.0" }, { "0000:01:00.0", "0000:01:00.0" },
        { "02:00.0", "0000:02:00.0" }, { "0000:02:00.0", "0000:02:00.0" },
        { "2:0.0", "0000:02:00.0" },   { "00000000:02:00.0", "0000:02:00.0" },
    };
    static const char *const refused[] = { "2",        "-1",    "gpu", "03:00.0",    "0001:01:00.0",        "01:00.1",
                                           "01:00.0 ", "01:00", "0x1", "4294967296", "99999999999999999999" };
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        VgDevice *d = opened(cases[i].which);
        assert_string_equal(d->id, cases[i].id);
        closed(d);
    }
    for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        VgDevice *d;
        char expected[256];
        assert_int_equal(try_open(&d, refused[i], NULL), -ENODEV);
        assert_null(d);
        snprintf(expected, sizeof(expected),
                 "E there is no %s device \"%s\": give the index or the PCI id of one of 0 (0000:01:00.0, Software "
                 "device 0), 1 (0000:02:00.0, Software device 1)\n",
                 T->name, refused[i]);
        assert_string_equal(messages.text, expected);
        assert_int_equal(softgpu_live_objects(), live_objects);
    }
}

/* ---- Memory and work --------------------------------------------------------------------------------------------- */

void memory_is_copied_and_filled(void **state)
{
    enum { W = 37, H = 11, PITCH = 64 };
    (void)state;
    VgDevice *d = opened(NULL);
    uint64_t a, b;
    void *host;
    VgStream stream;
    OK(T->alloc(d, PITCH * H, &a));
    OK(T->alloc(d, W * H, &b));
    assert_int_equal(a % 256 + b % 256, 0);
    OK(T->alloc_host(d, PITCH * H, &host));
    OK(T->stream_create(d, &stream));
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
        OK(T->copy(d, &steps[i], stream));
    OK(T->stream_synchronize(d, stream));
    assert_memory_equal(p, expected, W * H);

    OK(T->fill(d, b, 0x5a, 100, stream));
    OK(T->copy(d, &(VgCopy){ VG_COPY_ON_DEVICE, a, b, 0, 0, W * H, 1 }, stream)); /* pitches of one row are nothing */
    OK(T->copy(d, &(VgCopy){ VG_COPY_TO_HOST, (uintptr_t)host, a, 2 * W, W, W, 5 }, stream));
    OK(T->stream_synchronize(d, stream));
    memset(expected, 0x5a, 100);
    for (int y = 0; y < 5; y++)
        assert_memory_equal(p + y * 2 * W, expected + y * W, W);
    OK(T->copy(d, &(VgCopy){ VG_COPY_TO_DEVICE, b, (uintptr_t)host, W, W, W, H }, stream));
    OK(T->stream_synchronize(d, stream));

    T->stream_destroy(d, stream);
    T->free_host(d, host);
    T->free(d, a);
    T->free(d, b);
    T->free(d, 0);
    T->free_host(d, NULL);
    closed(d);
}

void rig_open(Rig *r)
{
    r->d = opened(NULL);
    OK(T->module_load(r->d, &test_log, &r->module));
    OK(T->function(r->d, r->module, tested.kernel, 0, &r->function));
    OK(T->stream_create(r->d, &r->stream));
    OK(T->stream_create(r->d, &r->other));
    OK(T->event_create(r->d, 0, &r->event));
    OK(T->alloc(r->d, BLOCK * 4, &r->at));
    OK(T->alloc_host(r->d, BLOCK * 4, (void **)&r->host));
    OK(T->fill(r->d, r->at, 0, BLOCK * 4, r->stream));
    OK(T->stream_synchronize(r->d, r->stream));
}

void rig_close(Rig *r)
{
    T->free_host(r->d, r->host);
    T->free(r->d, r->at);
    T->event_destroy(r->d, r->event);
    T->stream_destroy(r->d, r->other);
    T->stream_destroy(r->d, r->stream);
    T->module_unload(r->d, r->module);
    closed(r->d);
}

int rig_fetch(Rig *r, VgStream stream)
{
    return T->copy(r->d, &(VgCopy){ VG_COPY_TO_HOST, (uintptr_t)r->host, r->at, 0, 0, BLOCK * 4, 1 }, stream);
}

static void assert_both_turns_are_there(const Rig *r)
{
    assert_int_equal(r->host[0], tested.first);
    assert_int_equal(r->host[BLOCK - 1], tested.last);
}

void work_is_ordered_by_streams_and_events(void **state)
{
    (void)state;
    for (unsigned long order = 0; order < 22; order++) {
        softgpu_set_order(order);
        Rig r;
        unsigned long spinning, spun;
        rig_open(&r);
        const unsigned long waits = softgpu_waits(&spinning);
        OK(tested.work(&r, r.stream, 0));
        OK(T->record(r.d, r.event, r.stream));
        OK(T->stream_wait(r.d, r.other, r.event));
        OK(tested.work(&r, r.other, 1));
        OK(T->record(r.d, r.event, r.other));
        OK(T->stream_wait(r.d, r.stream, r.event));
        OK(rig_fetch(&r, r.stream));
        OK(T->record(r.d, r.event, r.stream));
        assert_int_equal(softgpu_waits(NULL), waits);
        int reached = T->event_query(r.d, r.event);
        assert_true(order == 0 ? reached == 1 : order == 1 ? reached == 0 : reached == 0 || reached == 1);
        OK(T->event_synchronize(r.d, r.event));
        assert_int_equal(T->event_query(r.d, r.event), 1);
        assert_both_turns_are_there(&r);
        assert_int_equal(softgpu_waits(NULL), waits + 1);
        OK(T->stream_synchronize(r.d, r.stream));
        softgpu_waits(&spun);
        assert_int_equal(spun, spinning); /* they block */
        rig_close(&r);
    }
    softgpu_set_order(0);
}

/* The default stream is one like others: ours do not wait for it. */
void streams_do_not_wait_for_the_default_stream(void **state)
{
    (void)state;
    Rig r;
    softgpu_set_order(1);
    rig_open(&r);
    OK(tested.work(&r, NULL, 0));
    OK(tested.work(&r, NULL, 1));
    OK(rig_fetch(&r, r.stream));
    OK(T->stream_synchronize(r.d, r.stream));
    assert_int_equal(r.host[0], 0);
    assert_int_equal(r.host[BLOCK - 1], 0);
    OK(T->record(r.d, r.event, NULL));
    OK(T->stream_wait(r.d, r.stream, r.event));
    OK(rig_fetch(&r, r.stream));
    OK(T->stream_synchronize(r.d, r.stream));
    assert_both_turns_are_there(&r);
    rig_close(&r);
    softgpu_set_order(0);
}

void timed_events_tell_times(void **state)
{
    (void)state;
    Rig r;
    VgEvent from, to;
    float time = -1;
    rig_open(&r);
    OK(T->event_create(r.d, 1, &from));
    OK(T->event_create(r.d, 1, &to));
    OK(T->record(r.d, from, r.stream));
    OK(tested.work(&r, r.stream, 0));
    OK(T->record(r.d, to, r.stream));
    OK(T->event_synchronize(r.d, to));
    OK(T->event_elapsed(r.d, from, to, &time));
    assert_true(time >= 0);
    OK(T->record(r.d, r.event, r.stream));
    assert_int_equal(T->event_elapsed(r.d, from, r.event, &time), -EIO); /* without timing: */
    assert_int_equal(r.d->native, 400);                                  /* invalid handle */
    T->event_destroy(r.d, from);
    T->event_destroy(r.d, to);
    rig_close(&r);
}

/* A recording that fails leaves no graph. */
static void fail_to_record(Rig *r)
{
    char instantiate[40];
    VgGraph graph;
    assert_int_not_equal(T->capture_end(r->d, r->stream, &graph), 0); /* not begun */
    assert_null(graph);
    OK(T->capture_begin(r->d, r->stream));
    snprintf(instantiate, sizeof(instantiate), "%sGraphInstantiateWithFlags", tested.prefix);
    tested.fail_call(instantiate, 1, 2);
    assert_int_equal(T->capture_end(r->d, r->stream, &graph), -ENOMEM);
    assert_null(graph);
}

void graphs_are_recorded_and_run_again(void **state)
{
    (void)state;
    for (unsigned long order = 0; order < 8; order++) {
        softgpu_set_order(order);
        Rig r;
        VgGraph graph;
        rig_open(&r);
        memset(r.host, 0x77, BLOCK * 4);
        OK(T->capture_begin(r.d, r.stream));
        OK(tested.work(&r, r.stream, 0));
        OK(tested.work(&r, r.stream, 1));
        OK(rig_fetch(&r, r.stream));
        OK(T->capture_end(r.d, r.stream, &graph));
        OK(T->stream_synchronize(r.d, r.stream));
        assert_int_equal(r.host[0], 0x77777777); /* nothing has run */
        for (int i = 0; i < 3; i++) {
            OK(T->fill(r.d, r.at, 0, BLOCK * 4, r.stream));
            memset(r.host, 0x77, BLOCK * 4);
            OK(T->graph_launch(r.d, graph, r.stream));
            OK(T->stream_synchronize(r.d, r.stream));
            assert_both_turns_are_there(&r);
        }
        T->graph_destroy(r.d, graph);
        T->graph_destroy(r.d, NULL);
        if (order == 0)
            fail_to_record(&r);
        rig_close(&r);
    }
    softgpu_set_order(0);
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

int failing_open(unsigned long n, int code, const char *which, void *context, unsigned long *calls)
{
    VgDevice *d;
    const unsigned long before = tested.driver_calls();
    const size_t live = softgpu_live_objects();
    tested.fail_at(n, code);
    int err = try_open(&d, which, context);
    *calls = tested.driver_calls() - before;
    tested.fail_at(0, 0);
    if (err) {
        assert_null(d);
        assert_int_equal(err, vg_device_errno(code));
        assert_int_equal(messages.counts[VG_LOG_ERROR], 1);
        assert_int_equal(messages.counts[VG_LOG_VERBOSE], 0);
    } else {
        T->close(&d);
    }
    assert_int_equal(softgpu_live_objects(), live);
    return err;
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
    TRY(T->alloc(r->d, 100, &address));
    TRY(T->alloc_host(r->d, 100, &host));
    TRY(T->stream_create(r->d, &stream));
    TRY(T->event_create(r->d, 0, &event));
    TRY(T->event_create(r->d, 1, &timed));
    TRY(T->module_load(r->d, &test_log, &module));
    TRY(T->function(r->d, module, tested.kernel, tested.dynamic_shared, &function));
    TRY(T->fill(r->d, r->at, 0, 4, r->stream));
    TRY(rig_fetch(r, r->stream));
    TRY(T->copy(r->d, &(VgCopy){ VG_COPY_TO_DEVICE, r->at, (uintptr_t)r->host, 0, 0, 4, 1 }, r->stream));
    TRY(T->copy(r->d, &(VgCopy){ VG_COPY_ON_DEVICE, r->at, r->at + 64, 0, 0, 4, 1 }, r->stream));
    TRY(T->copy(r->d, &(VgCopy){ VG_COPY_TO_DEVICE, r->at, (uintptr_t)r->host, 8, 16, 4, 2 }, r->stream));
    TRY(tested.work(r, r->stream, 0));
    if (strstr(failing, "LaunchKernel")) /* otherwise it would not be content with these arguments */
        TRY(T->launch(r->d, r->function, (const uint32_t[]){ 1, 1, 1 }, BLOCK, 0, &time, sizeof(time), r->stream));
    TRY(T->record(r->d, event, r->stream));
    TRY(T->record(r->d, timed, r->stream));
    TRY(T->stream_wait(r->d, r->other, event));
    TRY(T->event_synchronize(r->d, timed));
    TRY(T->event_query(r->d, event));
    TRY(T->event_elapsed(r->d, timed, timed, &time));
    TRY(T->stream_synchronize(r->d, r->stream));
    TRY(T->capture_begin(r->d, stream));
    TRY(T->capture_end(r->d, stream, &graph));
    TRY(T->graph_launch(r->d, graph, r->stream));
    TRY(T->enter(r->d));
    if (!err)
        T->leave(r->d);
#undef TRY
    if (err && (r->d->native != 999 || strcmp(r->d->call, failing)))
        fail_msg("call %d of the table: %s, error %d; but %s failed", calls, r->d->call, r->d->native, failing);
    T->graph_destroy(r->d, graph);
    T->module_unload(r->d, module);
    T->event_destroy(r->d, timed);
    T->event_destroy(r->d, event);
    T->stream_destroy(r->d, stream);
    T->free_host(r->d, host);
    T->free(r->d, address);
    return err;
}

/* Every driver call that the table makes, by its name. */
void errors_name_the_call_that_failed(void **state)
{
    (void)state;
    const unsigned long complaints = tested.complaints();
    Rig r;
    for (const char *const *call = tested.calls; *call; call++) {
        char expected[100];
        const char *version = strstr(*call, "_v2");
        const int size = version ? (int)(version - *call) : (int)strlen(*call);
        rig_open(&r);
        tested.fail_call(*call, 1, 999);
        assert_int_equal(run_all_calls(&r, *call), -EIO);
        tested.fail_at(0, 0);
        messages = (Messages){ 0 };
        assert_int_equal(vg_device_report(r.d, &test_log, -EIO, "this"), -EIO);
        snprintf(expected, sizeof(expected), "E this: %.*s: %s (999, unknown error)\n", size, *call, tested.unknown);
        assert_string_equal(messages.text, expected);
        rig_close(&r);
    }
    rig_open(&r);
    OK(run_all_calls(&r, ""));
    rig_close(&r);
    assert_int_equal(tested.complaints(), complaints);
}

/* ---- Other drivers ----------------------------------------------------------------------------------------------- */

const char *said(const char *variables, const char *argument)
{
    static char text[4096];
    char command[2048];
    snprintf(command, sizeof(command), "env %s %s '%s' %s 2>&1", tested.environment, variables, getenv("OPEN_DEVICE"),
             argument);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(text, 1, sizeof(text) - 1, pipe);
    text[n] = 0;
    int status = pclose(pipe);
    if (status)
        fail_msg("%s: status %d: %s", command, status, text);
    return text;
}

void assert_says(const char *variables, const char *argument, const char *words)
{
    const char *text = said(variables, argument);
    if (!strstr(text, words))
        fail_msg("%s %s: no \"%s\" in: %s", variables, argument, words, text);
}

void make_folder(char path[40])
{
    strcpy(path, "/tmp/device_test_XXXXXX");
    assert_non_null(mkdtemp(path));
}

void remove_folder(const char *path)
{
    char command[60];
    snprintf(command, sizeof(command), "rm -r '%s'", path);
    OK(system(command));
}

void make_broken_library(const char *folder, const char *name)
{
    char path[100];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *broken = fopen(path, "w");
    assert_non_null(broken);
    fprintf(broken, "This is no library.\n");
    fclose(broken);
}
