/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The device table for CUDA, on two software devices; and drivers that are missing, too old or broken, which another
 * program (open_device) is made to find.
 */
#include "tests/cmocka_includes.h"

#include "kernels/image.h"
#include "tests/device_tests.h"
#include "tests/softgpu/driver_api.h"
#include "tests/softgpu/gpu_host.h"
#include "tests/softgpu/softgpu.h"

#include <errno.h>
#include <stdlib.h>

static const VgDeviceTable *const t = &vg_table_cuda;

/* What to do where there is no device. */
#define UNSEEN                                                                                                         \
    ". Make sure that NVIDIA's driver is loaded (nvidia-smi lists the GPU), that CUDA_VISIBLE_DEVICES does not hide "  \
    "the GPU, and that a container was started with it (docker's --gpus all)\n"

/* ---- Which device ------------------------------------------------------------------------------------------------ */

static void devices_are_described(void **state)
{
    (void)state;
    VgDevice *d = opened(NULL);
    assert_ptr_equal(d->table, t);
    assert_string_equal(d->name, "Software device 0");
    assert_string_equal(d->id, "0000:01:00.0");
    assert_int_equal(d->driver, 12010);
    assert_int_equal(d->wave, 32);
    assert_string_equal(messages.text, "V CUDA device: Software device 0, 0000:01:00.0, driver for CUDA 12.1\n");
    closed(d);
    softgpu_set_wave(64);
    d = opened(NULL);
    assert_int_equal(d->wave, 64);
    closed(d);
    softgpu_set_wave(32);
}

/* Drivers without devices mostly do not even start; see the_environment_decides(). */
static void no_device_is_explained(void **state)
{
    (void)state;
    messages = (Messages){ 0 };
    assert_int_equal(vg_device_find(&(VgDevice){ .table = t }, 0, NULL, NULL, &test_log), -ENODEV);
    assert_string_equal(messages.text, "E there is no CUDA device that this program may see" UNSEEN);
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
    VgDevice *d = opened("1"), *second;
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
    d = opened("0");
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
    d = opened("0");
    assert_int_equal(messages.counts[VG_LOG_ERROR], 0);
    closed(d);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

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

static int step(Rig *r, VgStream stream, uint32_t factor, uint32_t add)
{
    const StepArgs args = { r->at, factor, add };
    return t->launch(r->d, r->function, (const uint32_t[]){ 1, 1, 1 }, BLOCK, 0, &args, sizeof(args), stream);
}

/* From 0: 7 if they are done in turn. */
static int step_in_turn(Rig *r, VgStream stream, int turn)
{
    return turn ? step(r, stream, 2, 5) : step(r, stream, 3, 1);
}

static const char *const table_calls[] = {
    "cuMemAlloc_v2",           "cuMemAllocHost_v2",    "cuStreamCreate",
    "cuEventCreate",           "cuModuleLoadData",     "cuModuleGetFunction",
    "cuFuncSetAttribute",      "cuMemsetD8Async",      "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",    "cuMemcpyDtoDAsync_v2", "cuMemcpy2DAsync_v2",
    "cuLaunchKernel",          "cuEventRecord",        "cuStreamWaitEvent",
    "cuEventSynchronize",      "cuEventQuery",         "cuEventElapsedTime",
    "cuStreamBeginCapture_v2", "cuStreamEndCapture",   "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",           "cuCtxPushCurrent_v2",  NULL,
};

const TestedTable tested = {
    .table = &vg_table_cuda,
    .prefix = "cu",
    .environment = "",
    .fail_at = softgpu_fail_at,
    .fail_call = softgpu_fail_call,
    .driver_calls = softgpu_calls,
    .complaints = softgpu_complaints,
    .kernel = "device_step",
    .dynamic_shared = 64 << 10,
    .work = step_in_turn,
    .first = 7,
    .last = 7,
    .calls = table_calls,
    .unknown = "CUDA_ERROR_UNKNOWN",
};

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
        OK(rig_fetch(&r, r.stream));
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

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static void numbers_become_errno(void **state)
{
    static const int known[][2] = {
        { 0, 0 },          { 1, -EINVAL },    { 2, -ENOMEM },    { 3, -ENODEV },    { 100, -ENODEV },
        { 101, -ENODEV },  { 200, -ENOEXEC }, { 209, -ENOEXEC }, { 218, -ENOEXEC }, { 222, -ENOEXEC },
        { 302, -ENOEXEC }, { 303, -ENOEXEC }, { 500, -ENOENT },  { 600, -EAGAIN },  { 801, -ENOTSUP },
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
        { 100, "E frame 7: cuEventRecord: CUDA_ERROR_NO_DEVICE (100, no CUDA-capable device is detected)" UNSEEN },
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
            do /* none is harmless but that which takes leave of the context */
                failures += failing_open(++n, codes[i], "1", with_context ? context : NULL, &calls) != 0;
            while (calls >= n);
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
        OK(rig_fetch(&r, r.stream));
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
    VgDevice *d = opened(NULL);
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

static const char *path_of(const char *folder)
{
    static char variables[1024];
    snprintf(variables, sizeof(variables), "LD_LIBRARY_PATH='%s/%s'", getenv("DRIVERS"), folder);
    return variables;
}

static void missing_and_broken_drivers_are_refused(void **state)
{
    char folder[40], variables[300];
    (void)state;
    make_folder(folder);
    snprintf(variables, sizeof(variables), "LD_LIBRARY_PATH=%s", folder);
    /* A machine may have a driver. What is said without one is what is said of one that is no library. */
    const char *text = said(variables, "");
    if (strstr(text, "open -")) {
        assert_non_null(strstr(text,
                               "E NVIDIA's driver cannot be opened (libcuda.so.1: cannot open shared object file: No "
                               "such file or directory): install it, or score on the CPU\n"));
    }
    make_broken_library(folder, "libcuda.so.1");
    text = said(variables, "");
    assert_non_null(strstr(text, "E NVIDIA's driver cannot be opened ("));
    assert_non_null(strstr(text, "libcuda.so.1: "));
    assert_non_null(strstr(text, "): install it, or score on the CPU\nopen -19\n"));
    remove_folder(folder);

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
                "detected)" UNSEEN "open -19\n");
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
        cmocka_unit_test(no_device_is_explained),
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
