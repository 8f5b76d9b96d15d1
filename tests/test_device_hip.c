/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The device table for HIP, through the stand-in for its runtime on two software devices; and runtimes that are missing,
 * broken or another one, which another program (open_device) is made to find.
 */
#include "tests/cmocka_includes.h"

#include "engine/hip_api.h"
#include "kernels/image.h"
#include "tests/device_tests.h"
#include "tests/hipstand/hipstand.h"
#include "tests/softgpu/softgpu.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const VgDeviceTable *const t = &vg_table_hip;

/* HIP's stand-in runs no kernels but the library's: filled memory shows the order of work, too. */
static int fill_in_turn(Rig *r, VgStream stream, int turn)
{
    return turn ? t->fill(r->d, r->at, 5, BLOCK * 2, stream) : t->fill(r->d, r->at, 3, BLOCK * 4, stream);
}

static unsigned long hip_complaints(void)
{
    return hipstand_complaints() + softgpu_complaints();
}

static const char *const table_calls[] = {
    "hipMalloc",
    "hipHostMalloc",
    "hipStreamCreateWithFlags",
    "hipEventCreateWithFlags",
    "hipModuleLoadData",
    "hipModuleGetFunction",
    "hipMemsetD8Async",
    "hipMemcpyDtoHAsync",
    "hipMemcpyHtoDAsync",
    "hipMemcpyDtoDAsync",
    "hipMemcpy2DAsync",
    "hipModuleLaunchKernel",
    "hipEventRecord",
    "hipStreamWaitEvent",
    "hipEventSynchronize",
    "hipEventQuery",
    "hipEventElapsedTime",
    "hipStreamBeginCapture",
    "hipStreamEndCapture",
    "hipGraphInstantiateWithFlags",
    "hipGraphLaunch",
    NULL,
};

const TestedTable tested = {
    .table = &vg_table_hip,
    .prefix = "hip",
    .environment = "OPEN_HIP=1",
    .fail_at = hipstand_fail_at,
    .fail_call = hipstand_fail_call,
    .driver_calls = hipstand_calls,
    .complaints = hip_complaints,
    .kernel = "psnr",
    .work = fill_in_turn,
    .first = 0x05050505,
    .last = 0x03030303,
    .calls = table_calls,
    .unknown = "hipErrorUnknown",
};

static int set_up(void **state)
{
    (void)state;
    for (int device = 1; device >= 0; device--) {
        OK(hipSetDevice(device));
        OK(hipFree(NULL)); /* now the stand-in has its context, and keeps it */
    }
    live_objects = softgpu_live_objects();
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

/* Devices become this architecture's. */
static void become(const char *target)
{
    hipstand_set_arch(target);
    softgpu_set_wave(strncmp(target, "gfx9", 4) ? 32 : 64);
}

/* For tests that need kernels. */
static int before_each_with_kernels(void **state)
{
    before_each(state);
    become(vg_images_hip[0].target);
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
        char expected[200];
        hipstand_set_arch(cases[i].arch);
        VgDevice *d = opened(NULL);
        assert_ptr_equal(d->table, t);
        assert_string_equal(d->name, "Software device 0");
        assert_string_equal(d->id, "0000:01:00.0");
        assert_int_equal(d->driver, 60342134);
        assert_int_equal(d->wave, 32);
        snprintf(expected, sizeof(expected),
                 "V HIP device: Software device 0 (%s), 0000:01:00.0, HIP 6.3 of libamdhip64.so.7\n", cases[i].said);
        assert_string_equal(messages.text, expected);
        closed(d);
    }
    softgpu_set_wave(64);
    VgDevice *d = opened(NULL);
    assert_int_equal(d->wave, 64);
    closed(d);
}

/* A runtime without devices may say so by an error, which is none to be reported as such. */
static void no_device_is_explained(void **state)
{
    VgDevice *d;
    (void)state;
    hipstand_fail_call("hipGetDeviceCount", 1, hipErrorNoDevice);
    assert_int_equal(try_open(&d, NULL, NULL), -ENODEV);
    assert_string_equal(
        messages.text, "E there is no HIP device that this program may see. Make sure that the amdgpu driver is loaded "
                       "and that this user and container may open /dev/kfd and /dev/dri/renderD* (groups render and "
                       "video)\n");
}

/* The thread's device is another user's, too: it changes inside only. */
static void the_callers_device_stays_current(void **state)
{
    (void)state;
    for (int callers = 0; callers < 2; callers++) {
        for (int ours = 0; ours < 2; ours++) {
            OK(hipSetDevice(callers));
            VgDevice *d;
            OK(try_open(&d, ours ? "1" : "0", NULL));
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

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

/* An architecture that the library has no kernels for. */
static const char *const stranger = "gfx1010";

static void one_image_fits(void **state)
{
    (void)state;
    unsigned n = 0;
    for (const VgHipImage *i = vg_images_hip; i->target; i++, n++) {
        char expected[100];
        VgModule module;
        VgFunction function;
        assert_string_not_equal(i->target, stranger);
        become(i->target);
        VgDevice *d = opened(NULL);
        messages = (Messages){ 0 };
        OK(t->module_load(d, &test_log, &module));
        snprintf(expected, sizeof(expected), "V kernels: code for %s loaded\n", i->target);
        assert_string_equal(messages.text, expected);
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

/* Code for the device that its runtime does not take. */
static void a_runtime_may_not_take_what_fits(void **state)
{
    static const int codes[] = { hipErrorInvalidImage, hipErrorNoBinaryForGpu, hipErrorSharedObjectInitFailed };
    (void)state;
    VgDevice *d = opened(NULL);
    for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        VgModule module;
        char words[200];
        messages = (Messages){ 0 };
        hipstand_fail_call("hipModuleLoadData", 1, codes[i]);
        assert_int_equal(t->module_load(d, &test_log, &module), -ENOEXEC);
        assert_null(module);
        vg_device_report(d, &test_log, -ENOEXEC, "loading kernels");
        snprintf(words, sizeof(words),
                 "): this library has code for %s, but this runtime does not take it. Install another release of ROCm, "
                 "or score on the CPU\n",
                 vg_images_hip[0].target);
        assert_true(messages_contain(&messages, "E loading kernels: hipModuleLoadData: "));
        assert_true(messages_contain(&messages, words));
    }
    closed(d);
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
            int err = failing_open(++n, codes[i], "1", NULL, &calls);
            failures += err != 0;
            if (!err) /* none failed but that which asks for the architecture */
                assert_int_equal(messages_contain(&messages, "of an unknown architecture"), calls >= n);
            assert_int_equal(current_device(), 0);
        } while (calls >= n);
        assert_int_equal(failures, n - 2);
        assert_true(failures >= 8);
    }
    assert_int_equal(hipstand_complaints(), complaints);
}

/* ---- Other runtimes ---------------------------------------------------------------------------------------------- */

static const char *const names[] = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so" };

static void missing_and_broken_runtimes_are_refused(void **state)
{
    char folder[40], variables[300];
    (void)state;
    make_folder(folder);
    snprintf(variables, sizeof(variables), "LD_LIBRARY_PATH=%s", folder);
    const char *text = said(variables, ""); /* a machine may have one */
    if (!strstr(text, "HIP device: ") && !strstr(text, "does not start"))
        assert_non_null(
            strstr(text, "E ROCm's HIP runtime cannot be opened (libamdhip64.so.7: cannot open shared object file: "
                         "No such file or directory; .so.6, .so.5 and .so neither): install it, or score on the "
                         "CPU\nopen -19\n"));
    for (int i = 0; i < 4; i++)
        make_broken_library(folder, names[i]);
    text = said(variables, "");
    assert_non_null(strstr(text, "E ROCm's HIP runtime cannot be opened ("));
    assert_non_null(strstr(text, "file too short"));
    remove_folder(folder);
}

/* Releases of ROCm have names of their own; the latest is taken. */
static void runtimes_are_found_by_all_their_names(void **state)
{
    char folder[40], variables[1000], file[100], words[100];
    (void)state;
    make_folder(folder);
    snprintf(variables, sizeof(variables), "HIPSTAND_VERSION=50221153 LD_LIBRARY_PATH='%s:%s'", folder,
             getenv("SOFTGPU_FOLDER"));
    for (int i = 0; i < 4; i++)
        make_broken_library(folder, names[i]); /* before those that the machine may have */
    for (int i = 3; i >= 0; i--) {
        snprintf(file, sizeof(file), "%s/%s", folder, names[i]);
        OK(unlink(file));
        OK(symlink(getenv("HIPSTAND"), file));
        snprintf(words, sizeof(words), ", HIP 5.2 of %s\nopen 0\n", names[i]);
        assert_says(variables, "", words);
    }
    remove_folder(folder);
}

/* Makes FOLDER/libamdhip64.so.7, the stand-in without the functions whose names begin so: they get others, as long. */
static void make_runtime_without(const char *folder, const char *prefix)
{
    char command[1000];
    snprintf(command, sizeof(command), "LC_ALL=C sed 's/\\<%s/%.*s_/g' '%s' >%s/libamdhip64.so.7", prefix,
             (int)strlen(prefix) - 1, prefix, getenv("HIPSTAND"), folder);
    OK(system(command));
}

/* What early releases of ROCm 5 have is enough; of all else the first function that is missing is named. */
static void functions_are_looked_up(void **state)
{
    char folder[40], variables[1000];
    (void)state;
    make_folder(folder);
    snprintf(variables, sizeof(variables), "LD_LIBRARY_PATH='%s:%s'", folder, getenv("SOFTGPU_FOLDER"));
    make_runtime_without(folder, "hipGraphInstantiateWithFlags");
    assert_says(variables, "", "capture 0\ngraph 0\n");
    make_runtime_without(folder, "hipStreamBeginCapture");
    assert_says(variables, "",
                "E libamdhip64.so.7 has no function hipStreamBeginCapture: install the HIP runtime of ROCm 5 or "
                "later\nopen -19\n");
    make_runtime_without(folder, "hipGraphInstantiate"); /* with flags or not */
    assert_says(variables, "", "E libamdhip64.so.7 has no function hipGraphInstantiate: ");
    remove_folder(folder);
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
                "V HIP device: Software device 2 (gfx1010), 0000:03:00.0, HIP 6.3 of libamdhip64.so.7\nopen 0\n");
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
        cmocka_unit_test_setup(no_device_is_explained, before_each),
        cmocka_unit_test_setup(the_callers_device_stays_current, before_each),
        cmocka_unit_test_setup(memory_is_copied_and_filled, before_each),
        cmocka_unit_test_setup(work_is_ordered_by_streams_and_events, before_each_with_kernels),
        cmocka_unit_test_setup(streams_do_not_wait_for_the_default_stream, before_each_with_kernels),
        cmocka_unit_test_setup(timed_events_tell_times, before_each_with_kernels),
        cmocka_unit_test_setup(one_image_fits, before_each),
        cmocka_unit_test_setup(a_runtime_may_not_take_what_fits, before_each_with_kernels),
        cmocka_unit_test_setup(images_are_tried_where_the_architecture_is_unknown, before_each),
        cmocka_unit_test_setup(graphs_are_recorded_and_run_again, before_each_with_kernels),
        cmocka_unit_test_setup(failures_while_opening_leave_nothing, before_each),
        cmocka_unit_test_setup(errors_name_the_call_that_failed, before_each_with_kernels),
        cmocka_unit_test_setup(missing_and_broken_runtimes_are_refused, before_each),
        cmocka_unit_test_setup(runtimes_are_found_by_all_their_names, before_each),
        cmocka_unit_test_setup(functions_are_looked_up, before_each),
        cmocka_unit_test_setup(the_environment_decides, before_each),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
