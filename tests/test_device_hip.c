/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The device table for HIP, through the stand-in for its runtime on two software devices; and runtimes that are missing,
 * broken or another one, which another program (open_device) is made to find.
 */
#include "tests/cmocka_includes.h"

#include "engine/device.h"
#include "engine/hip_api.h"
#include "kernels/image.h"
#include "tests/hipstand/hipstand.h"
#include "tests/messages.h"
#include "tests/softgpu/softgpu.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const VgDeviceTable *const t = &vg_table_hip;

static Messages messages;
static const VgLog test_log = { messages_log, &messages };
static size_t live; /* objects that are the stand-in's own */

#define OK(call) assert_int_equal(call, 0)

static int try_open(VgDevice **d, const char *which)
{
    messages = (Messages){ 0 };
    return t->open(d, &(VgDeviceChoice){ which, NULL }, &test_log);
}

static VgDevice *opened(const char *which)
{
    VgDevice *d;
    int err = try_open(&d, which);
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
    assert_int_equal(softgpu_live_objects(), live);
}

static int set_up(void **state)
{
    (void)state;
    for (int device = 1; device >= 0; device--) {
        OK(hipSetDevice(device));
        OK(hipFree(NULL)); /* now the stand-in has its context, and keeps it */
    }
    live = softgpu_live_objects();
    return 0;
}

static int before_each(void **state)
{
    (void)state;
    hipstand_fail_at(0, 0);
    hipstand_set_arch(NULL);
    softgpu_set_wave(32);
    return 0;
}

static int current_device(void)
{
    int device = -1;
    OK(hipGetDevice(&device));
    return device;
}

/* ---- Which device ------------------------------------------------------------------------------------------------ */

static void devices_are_described(void **state)
{
    static const struct {
        const char *arch, *said;
    } cases[] = {
        { "gfx1100", "gfx1100" },
        { "gfx90a:sramecc+:xnack-", "gfx90a" },
        { "gfx1036", "gfx1036" },
        { "", "of an unknown architecture" },
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char said[200];
        hipstand_set_arch(cases[i].arch);
        VgDevice *d = opened(NULL);
        assert_ptr_equal(d->table, t);
        assert_string_equal(d->name, "Software device 0");
        assert_string_equal(d->id, "0000:01:00.0");
        assert_int_equal(d->driver, 60342134);
        assert_int_equal(d->wave, 32);
        snprintf(said, sizeof(said),
                 "V HIP device: Software device 0 (%s), 0000:01:00.0, HIP 6.3 of libamdhip64.so.6\n", cases[i].said);
        assert_string_equal(messages.text, said);
        closed(d);
    }
    softgpu_set_wave(64);
    VgDevice *d = opened(NULL);
    assert_int_equal(d->wave, 64);
    closed(d);
}

static void devices_are_chosen_by_index_and_pci_id(void **state)
{
    static const char *const wanted[][2] = {
        { NULL, "0000:01:00.0" }, { "", "0000:01:00.0" },        { "0", "0000:01:00.0" },
        { "1", "0000:02:00.0" },  { "02:00.0", "0000:02:00.0" }, { "0000:01:00.0", "0000:01:00.0" },
    };
    static const char *const refused[] = { "2", "-1", "radeon", "03:00.0", "0001:01:00.0", "0x1" };
    (void)state;
    for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        VgDevice *d = opened(wanted[i][0]);
        assert_string_equal(d->id, wanted[i][1]);
        closed(d);
    }
    for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        VgDevice *d;
        char expected[256];
        assert_int_equal(try_open(&d, refused[i]), -ENODEV);
        assert_null(d);
        snprintf(expected, sizeof(expected),
                 "E there is no HIP device \"%s\": give the index or the PCI id of one of 0 (0000:01:00.0, Software "
                 "device 0), 1 (0000:02:00.0, Software device 1)\n",
                 refused[i]);
        assert_string_equal(messages.text, expected);
    }
    /* A runtime without devices may say so by an error, which is none to be reported as such. */
    VgDevice *d;
    hipstand_fail_call("hipGetDeviceCount", 1, hipErrorNoDevice);
    assert_int_equal(try_open(&d, NULL), -ENODEV);
    assert_string_equal(messages.text, "E there is no HIP device that this program may see\n");
}

/* The thread's device is another user's, too: it changes inside only. */
static void the_callers_device_stays_current(void **state)
{
    (void)state;
    for (int callers = 0; callers < 2; callers++) {
        for (int ours = 0; ours < 2; ours++) {
            OK(hipSetDevice(callers));
            VgDevice *d;
            OK(try_open(&d, ours ? "1" : "0"));
            assert_int_equal(current_device(), callers);
            OK(t->enter(d));
            assert_int_equal(current_device(), ours);
            OK(t->enter(d)); /* again */
            t->leave(d);
            assert_int_equal(current_device(), ours);
            t->leave(d);
            assert_int_equal(current_device(), callers);
            /* Where the device cannot be changed, it has not been. */
            hipstand_fail_call("hipSetDevice", 1, hipErrorUnknown);
            assert_int_equal(t->enter(d), -EIO);
            assert_int_equal(current_device(), callers);
            /* Earlier work's failure does not keep it from coming back. */
            OK(t->enter(d));
            hipstand_fail_call("hipSetDevice", 1, hipErrorLaunchFailure);
            t->leave(d);
            hipstand_fail_at(0, 0);
            assert_int_equal(current_device(), callers);
            t->close(&d);
            assert_int_equal(current_device(), callers);
        }
    }
    OK(hipSetDevice(0));
}

/* ---- Memory and work --------------------------------------------------------------------------------------------- */

static void memory_is_copied_and_filled(void **state)
{
    enum { W = 37, H = 11, PITCH = 64 };
    (void)state;
    VgDevice *d = opened(NULL);
    uint64_t a, b;
    void *host;
    VgStream stream;
    OK(t->alloc(d, PITCH * H, &a));
    OK(t->alloc(d, W * H, &b));
    assert_int_equal(a % 256 + b % 256, 0);
    OK(t->alloc_host(d, PITCH * H, &host));
    OK(t->stream_create(d, &stream));
    uint8_t *p = host, expected[W * H];
    for (int i = 0; i < PITCH * H; i++)
        p[i] = (uint8_t)(i * 7 + i / 256);
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
    t->stream_destroy(d, stream);
    t->free_host(d, host);
    t->free(d, a);
    t->free(d, b);
    t->free(d, 0);
    t->free_host(d, NULL);
    closed(d);
}

static void streams_wait_for_events_and_no_other_stream(void **state)
{
    (void)state;
    for (unsigned long order = 0; order < 12; order++) {
        softgpu_set_order(order);
        VgDevice *d = opened(NULL);
        VgStream first, second;
        VgEvent event, timed;
        uint64_t at;
        uint8_t *host;
        float time = -1;
        OK(t->stream_create(d, &first));
        OK(t->stream_create(d, &second));
        OK(t->event_create(d, 0, &event));
        OK(t->event_create(d, 1, &timed));
        OK(t->alloc(d, 64, &at));
        OK(t->alloc_host(d, 64, (void **)&host));
        *host = 0;
        const unsigned long waits = softgpu_waits(NULL);
        OK(t->record(d, timed, first));
        OK(t->fill(d, at, 3, 64, first));
        OK(t->record(d, event, first));
        OK(t->stream_wait(d, second, event));
        OK(t->copy(d, &(VgCopy){ VG_COPY_TO_HOST, (uintptr_t)host, at, 0, 0, 64, 1 }, second));
        OK(t->record(d, event, second));
        assert_int_equal(softgpu_waits(NULL), waits);
        const int reached = t->event_query(d, event);
        assert_true(order == 0 ? reached == 1 : order == 1 ? reached == 0 : reached == 0 || reached == 1);
        unsigned long spinning, spun;
        softgpu_waits(&spinning);
        OK(t->event_synchronize(d, event));
        assert_int_equal(*host, 3);
        OK(t->stream_synchronize(d, first));
        softgpu_waits(&spun);
        assert_int_equal(spun, spinning); /* they block */
        assert_int_equal(t->event_query(d, event), 1);
        OK(t->event_elapsed(d, timed, timed, &time));
        assert_true(time >= 0);
        t->free_host(d, host);
        t->free(d, at);
        t->event_destroy(d, timed);
        t->event_destroy(d, event);
        t->stream_destroy(d, second);
        t->stream_destroy(d, first);
        closed(d);
    }
    softgpu_set_order(0);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

/* An architecture that the library has no kernels for. */
static const char *const stranger = "gfx1010";

static void one_image_fits(void **state)
{
    (void)state;
    unsigned n = 0;
    for (const VgHipImage *i = vg_images_hip; i->target; i++, n++) {
        char said[100];
        VgModule module;
        VgFunction function;
        assert_string_not_equal(i->target, stranger);
        hipstand_set_arch(i->target);
        softgpu_set_wave(strncmp(i->target, "gfx9", 4) ? 32 : 64);
        VgDevice *d = opened(NULL);
        messages = (Messages){ 0 };
        OK(t->module_load(d, &test_log, &module));
        snprintf(said, sizeof(said), "V kernels: code for %s loaded\n", i->target);
        assert_string_equal(messages.text, said);
        OK(t->function(d, module, "psnr", 0, &function));
        OK(t->function(d, module, "cambi_pool_finish", 64 << 10, &function)); /* nothing to be asked for */
        const unsigned long complaints = hipstand_complaints();
        assert_int_equal(t->function(d, module, "no_such_kernel", 0, &function), -ENOENT);
        assert_string_equal(d->call, "hipModuleGetFunction");
        assert_int_equal(hipstand_complaints(), complaints + 1);
        t->module_unload(d, module);
        t->module_unload(d, NULL);
        closed(d);
    }
    assert_true(n > 0);
    assert_true(vg_backend_built_in(VG_BACKEND_HIP));
}

/* Devices that do not tell what they are. */
static void images_are_tried_where_the_architecture_is_unknown(void **state)
{
    (void)state;
    int fits = 0;
    for (const VgHipImage *i = vg_images_hip; i->target; i++)
        fits |= !strcmp(i->target, "gfx1100"); /* which such devices of the stand-in are */
    hipstand_set_arch("");
    VgDevice *d = opened(NULL);
    VgModule module;
    assert_int_equal(t->module_load(d, &test_log, &module), fits ? 0 : -ENOEXEC);
    assert_int_equal(messages_contain(&messages, "V kernels: code for gfx1100 loaded\n"), fits);
    t->module_unload(d, module);

    /* None of them: all are refused. */
    unsigned long calls = hipstand_calls();
    unsigned n = 0;
    for (const VgHipImage *i = vg_images_hip; i->target; i++)
        n++;
    softgpu_set_wave(64); /* now they are gfx90a, which may be there */
    hipstand_set_arch(stranger);
    VgDevice *other = opened(NULL);
    calls = hipstand_calls();
    messages = (Messages){ 0 };
    assert_int_equal(t->module_load(other, &test_log, &module), -ENOEXEC);
    assert_null(module);
    assert_int_equal(hipstand_calls(), calls); /* what does not fit is not even unpacked */
    vg_device_report(other, &test_log, -ENOEXEC, "loading kernels");
    assert_true(messages_contain(&messages,
                                 "E loading kernels: hipModuleLoadData: hipErrorNoBinaryForGpu (209, no kernel image "
                                 "is available for execution on the device): there are no kernels for gfx1010, "
                                 "only for "));
    assert_true(messages_contain(&messages, vg_images_hip[0].target));
    assert_true(messages_contain(
        &messages, ". Build the library with it in meson's option gpu_hip_targets, or score on the CPU\n"));
    /* The remedy belongs to that error. */
    messages = (Messages){ 0 };
    hipstand_fail_call("hipMalloc", 1, hipErrorOutOfMemory);
    assert_int_equal(t->alloc(other, 1, &(uint64_t){ 0 }), -ENOMEM);
    vg_device_report(other, &test_log, -ENOMEM, "one byte");
    assert_string_equal(messages.text,
                        "E one byte: hipMalloc: hipErrorOutOfMemory (2, out of memory). End other programs that "
                        "use the device, or lower in_flight\n");
    t->leave(other);
    t->close(&other);

    VgDevice *unknown = d;
    for (unsigned refused = 1; refused <= 2; refused++) {
        messages = (Messages){ 0 };
        hipstand_fail_call("hipModuleLoadData", refused, refused == 1 ? hipErrorOutOfMemory : hipErrorInvalidImage);
        hipstand_set_arch(stranger); /* what it is, and does not tell */
        calls = hipstand_calls();
        const int err = t->module_load(unknown, &test_log, &module);
        assert_int_equal(err, refused == 1 ? -ENOMEM : -ENOEXEC);
        assert_int_equal(hipstand_calls() - calls, refused == 1 ? 1 : n);
        assert_null(module);
    }
    vg_device_report(unknown, &test_log, -ENOEXEC, "loading kernels");
    assert_true(messages_contain(&messages,
                                 "there are no kernels for this GPU's architecture, which rocminfo tells, only for "));
    closed(d);
}

static void graphs_are_recorded_and_run_again(void **state)
{
    (void)state;
    VgDevice *d = opened(NULL);
    VgStream stream;
    VgGraph graph;
    uint64_t at;
    uint8_t *host;
    OK(t->stream_create(d, &stream));
    OK(t->alloc(d, 64, &at));
    OK(t->alloc_host(d, 64, (void **)&host));
    OK(t->capture_begin(d, stream));
    OK(t->fill(d, at, 9, 64, stream));
    OK(t->copy(d, &(VgCopy){ VG_COPY_TO_HOST, (uintptr_t)host, at, 0, 0, 64, 1 }, stream));
    OK(t->capture_end(d, stream, &graph));
    for (int i = 0; i < 2; i++) {
        *host = 0;
        OK(t->graph_launch(d, graph, stream));
        OK(t->stream_synchronize(d, stream));
        assert_int_equal(*host, 9);
    }
    t->graph_destroy(d, graph);
    t->graph_destroy(d, NULL);
    OK(t->capture_begin(d, stream));
    hipstand_fail_call("hipGraphInstantiateWithFlags", 1, hipErrorOutOfMemory);
    assert_int_equal(t->capture_end(d, stream, &graph), -ENOMEM);
    assert_null(graph);
    t->free_host(d, host);
    t->free(d, at);
    t->stream_destroy(d, stream);
    closed(d);
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/* Every call of open() fails in turn. */
static void failures_while_opening_leave_nothing(void **state)
{
    static const int codes[] = { hipErrorOutOfMemory, hipErrorInvalidDevice, hipErrorUnknown, hipErrorLaunchFailure };
    (void)state;
    const unsigned long complaints = hipstand_complaints();
    for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        unsigned long n = 0, calls;
        unsigned failures = 0;
        do {
            VgDevice *d;
            const unsigned long before = hipstand_calls();
            hipstand_fail_at(++n, codes[i]);
            int err = try_open(&d, "1");
            calls = hipstand_calls() - before;
            hipstand_fail_at(0, 0);
            if (!err) { /* none failed but that which asks for the architecture */
                assert_int_equal(messages_contain(&messages, "of an unknown architecture"), calls >= n);
                t->close(&d);
            } else {
                failures++;
                assert_null(d);
                assert_int_equal(err, vg_device_errno(codes[i]));
                assert_int_equal(messages.counts[VG_LOG_ERROR], 1);
                assert_int_equal(messages.counts[VG_LOG_VERBOSE], 0);
            }
            assert_int_equal(softgpu_live_objects(), live);
            assert_int_equal(current_device(), 0);
        } while (calls >= n);
        assert_int_equal(failures, n - 2);
        assert_true(failures >= 8);
    }
    assert_int_equal(hipstand_complaints(), complaints);
}

static int run_all_calls(VgDevice *d, const char *failing)
{
    VgGraph graph = NULL;
    VgModule module = NULL;
    VgFunction function = NULL;
    VgStream stream = NULL;
    VgEvent event = NULL, timed = NULL;
    uint64_t at = 0;
    uint8_t *host = NULL;
    float time;
    int err = 0;
#define TRY(call)                                                                                                      \
    if (!err && (err = (call)) > 0)                                                                                    \
    err = 0
    TRY(t->alloc(d, 256, &at));
    TRY(t->alloc_host(d, 256, (void **)&host));
    TRY(t->stream_create(d, &stream));
    TRY(t->event_create(d, 0, &event));
    TRY(t->event_create(d, 1, &timed));
    TRY(t->module_load(d, &test_log, &module));
    TRY(t->function(d, module, "psnr", 0, &function));
    TRY(t->fill(d, at, 0, 256, stream));
    TRY(t->copy(d, &(VgCopy){ VG_COPY_TO_HOST, (uintptr_t)host, at, 0, 0, 4, 1 }, stream));
    TRY(t->copy(d, &(VgCopy){ VG_COPY_TO_DEVICE, at, (uintptr_t)host, 0, 0, 4, 1 }, stream));
    TRY(t->copy(d, &(VgCopy){ VG_COPY_ON_DEVICE, at, at + 64, 0, 0, 4, 1 }, stream));
    TRY(t->copy(d, &(VgCopy){ VG_COPY_TO_DEVICE, at, (uintptr_t)host, 8, 16, 4, 2 }, stream));
    if (!strcmp(failing, "hipModuleLaunchKernel")) /* which would not be content with these */
        TRY(t->launch(d, function, (const uint32_t[]){ 1, 1, 1 }, 32, 0, &time, sizeof(time), stream));
    TRY(t->record(d, event, stream));
    TRY(t->record(d, timed, stream));
    TRY(t->stream_wait(d, stream, event));
    TRY(t->event_synchronize(d, timed));
    TRY(t->event_query(d, event));
    TRY(t->event_elapsed(d, timed, timed, &time));
    TRY(t->stream_synchronize(d, stream));
    TRY(t->capture_begin(d, stream));
    TRY(t->capture_end(d, stream, &graph));
    TRY(t->graph_launch(d, graph, stream));
#undef TRY
    if (err && (d->native != 999 || strcmp(d->call, failing)))
        fail_msg("%s, error %d; but %s failed", d->call, d->native, failing);
    t->graph_destroy(d, graph);
    t->module_unload(d, module);
    t->event_destroy(d, timed);
    t->event_destroy(d, event);
    t->stream_destroy(d, stream);
    t->free_host(d, host);
    t->free(d, at);
    return err;
}

static void errors_name_the_call_that_failed(void **state)
{
    static const char *const calls[] = {
        "hipMalloc",           "hipHostMalloc",         "hipStreamCreateWithFlags", "hipEventCreateWithFlags",
        "hipModuleLoadData",   "hipModuleGetFunction",  "hipMemsetD8Async",         "hipMemcpyDtoHAsync",
        "hipMemcpyHtoDAsync",  "hipMemcpyDtoDAsync",    "hipMemcpy2DAsync",         "hipModuleLaunchKernel",
        "hipEventRecord",      "hipStreamWaitEvent",    "hipEventSynchronize",      "hipEventQuery",
        "hipEventElapsedTime", "hipStreamBeginCapture", "hipStreamEndCapture",      "hipGraphInstantiateWithFlags",
        "hipGraphLaunch",
    };
    (void)state;
    hipstand_set_arch(vg_images_hip[0].target);
    softgpu_set_wave(strncmp(vg_images_hip[0].target, "gfx9", 4) ? 32 : 64);
    const unsigned long complaints = hipstand_complaints() + softgpu_complaints();
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        VgDevice *d = opened(NULL);
        hipstand_fail_call(calls[i], 1, hipErrorUnknown);
        assert_int_equal(run_all_calls(d, calls[i]), -EIO);
        hipstand_fail_at(0, 0);
        messages = (Messages){ 0 };
        vg_device_report(d, &test_log, -EIO, "this");
        char said[100];
        snprintf(said, sizeof(said), "E this: %s: hipErrorUnknown (999, unknown error)\n", calls[i]);
        assert_string_equal(messages.text, said);
        closed(d);
    }
    VgDevice *d = opened(NULL);
    OK(run_all_calls(d, ""));
    closed(d);
    assert_int_equal(hipstand_complaints() + softgpu_complaints(), complaints);
}

/* ---- Other runtimes ---------------------------------------------------------------------------------------------- */

/* What open_device says with these variables in its environment. */
static const char *said(const char *variables, const char *argument)
{
    static char text[4096];
    char command[2048];
    snprintf(command, sizeof(command), "env OPEN_HIP=1 %s '%s' %s 2>&1", variables, getenv("OPEN_DEVICE"), argument);
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

static const char *const names[] = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so" };

static void missing_and_broken_runtimes_are_refused(void **state)
{
    char folder[] = "/tmp/device_hip_XXXXXX", variables[300], file[100];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(variables, sizeof(variables), "LD_LIBRARY_PATH=%s", folder);
    const char *text = said(variables, ""); /* a machine may have one */
    if (strstr(text, "open -"))
        assert_non_null(
            strstr(text, "E ROCm's HIP runtime cannot be opened (libamdhip64.so.7: cannot open shared object file: "
                         "No such file or directory; .so.6, .so.5 and .so neither): install it, or score on the "
                         "CPU\nopen -19\n"));
    for (int i = 3; i >= 0; i--) { /* the last that is no library is the one that is named */
        snprintf(file, sizeof(file), "%s/%s", folder, names[i]);
        FILE *broken = fopen(file, "w");
        assert_non_null(broken);
        fprintf(broken, "This is no library.\n");
        fclose(broken);
    }
    text = said(variables, "");
    assert_non_null(strstr(text, "E ROCm's HIP runtime cannot be opened ("));
    assert_non_null(strstr(text, "file too short"));
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof(file), "%s/%s", folder, names[i]);
        unlink(file);
    }
    rmdir(folder);
}

/* Releases of ROCm have names of their own; the latest is taken. */
static void runtimes_are_found_by_all_their_names(void **state)
{
    char folder[] = "/tmp/device_hip_XXXXXX", variables[1000], file[100], said_[100];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(variables, sizeof(variables), "HIPSTAND_VERSION=50221153 LD_LIBRARY_PATH='%s:%s'", folder,
             getenv("SOFTGPU_FOLDER"));
    for (int i = 3; i >= 0; i--) {
        snprintf(file, sizeof(file), "%s/%s", folder, names[i]);
        OK(symlink(getenv("HIPSTAND"), file));
        snprintf(said_, sizeof(said_), ", HIP 5.2 of %s\nopen 0\n", names[i]);
        assert_says(variables, "", said_);
    }
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof(file), "%s/%s", folder, names[i]);
        unlink(file);
    }
    rmdir(folder);
}

/* Makes FOLDER/libamdhip64.so.6, the stand-in without a function: under a name of the same length. */
static void make_runtime_without(const char *folder, const char *function)
{
    char command[1000];
    snprintf(command, sizeof(command), "sed 's/\\<%s\\>/%.*s_/' '%s' >%s/libamdhip64.so.6", function,
             (int)strlen(function) - 1, function, getenv("HIPSTAND"), folder);
    OK(system(command));
}

/* What early releases of ROCm 5 have is enough; of all else the first function that is missing is named. */
static void functions_are_looked_up(void **state)
{
    char folder[] = "/tmp/device_hip_XXXXXX", variables[1000], file[100];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/libamdhip64.so.6", folder);
    snprintf(variables, sizeof(variables), "LD_LIBRARY_PATH='%s:%s'", folder, getenv("SOFTGPU_FOLDER"));
    make_runtime_without(folder, "hipGraphInstantiateWithFlags");
    assert_says(variables, "", "capture 0\ngraph 0\n");
    make_runtime_without(folder, "hipStreamBeginCapture");
    assert_says(variables, "",
                "E libamdhip64.so.6 has no function hipStreamBeginCapture: install the HIP runtime of ROCm 5 or "
                "later\nopen -19\n");
    unlink(file);
    rmdir(folder);
}

static void the_environment_decides(void **state)
{
    char path[2048], variables[2200], words[200];
    (void)state;
    snprintf(path, sizeof(path), "LD_LIBRARY_PATH=\"$(dirname '%s'):%s\"", getenv("HIPSTAND"),
             getenv("SOFTGPU_FOLDER"));
    snprintf(variables, sizeof(variables), "SOFTGPU_DEVICES=0 %s", path);
    assert_says(variables, "",
                "E ROCm's HIP runtime does not start: hipInit: hipErrorNoDevice (100, no ROCm-capable device is "
                "detected). Make sure that the amdgpu driver is loaded and that this user and container may open "
                "/dev/kfd and /dev/dri/renderD* (groups render and video)\nopen -19\n");
    snprintf(variables, sizeof(variables), "SOFTGPU_DEVICES=3 HIPSTAND_ARCH=gfx1010 %s", path);
    assert_says(variables, "2",
                "V HIP device: Software device 2 (gfx1010), 0000:03:00.0, HIP 6.3 of libamdhip64.so.6\nopen 0\n");
    assert_says(variables, "2", "module -8\nE loading kernels: hipModuleLoadData: hipErrorNoBinaryForGpu (209, ");
    snprintf(variables, sizeof(variables), "HIPSTAND_ARCH=%s SOFTGPU_WAVE=64 %s", vg_images_hip[0].target, path);
    snprintf(words, sizeof(words), "V kernels: code for %s loaded\nmodule 0\nstream 0\ncapture 0\n",
             vg_images_hip[0].target);
    assert_says(variables, "", words);
}

int main(void)
{
    setenv("SOFTGPU_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(devices_are_described, before_each),
        cmocka_unit_test_setup(devices_are_chosen_by_index_and_pci_id, before_each),
        cmocka_unit_test_setup(the_callers_device_stays_current, before_each),
        cmocka_unit_test_setup(memory_is_copied_and_filled, before_each),
        cmocka_unit_test_setup(streams_wait_for_events_and_no_other_stream, before_each),
        cmocka_unit_test_setup(one_image_fits, before_each),
        cmocka_unit_test_setup(images_are_tried_where_the_architecture_is_unknown, before_each),
        cmocka_unit_test_setup(graphs_are_recorded_and_run_again, before_each),
        cmocka_unit_test_setup(failures_while_opening_leave_nothing, before_each),
        cmocka_unit_test_setup(errors_name_the_call_that_failed, before_each),
        cmocka_unit_test_setup(missing_and_broken_runtimes_are_refused, before_each),
        cmocka_unit_test_setup(runtimes_are_found_by_all_their_names, before_each),
        cmocka_unit_test_setup(functions_are_looked_up, before_each),
        cmocka_unit_test_setup(the_environment_decides, before_each),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
