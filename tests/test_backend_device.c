/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The device back end on software devices: records and scores are the CPU's, whatever the layout, the memory and the
 * order in which streams run; it waits once a frame, runs frames beside each other, holds no more pictures than it may,
 * and ends cleanly whatever fails. Planted faults show that these tests would notice.
 *
 * Built with TEST_HIP, the same of HIP, whose stand-in hands all calls to the software devices.
 */
#include "tests/cmocka_includes.h"

#include "engine/scorer.h"
#include "kernels/kernel_host.h"
#include "tests/clipgen.h"
#include "tests/golden.h"
#include "tests/messages.h"
#include "tests/pictures.h"
#include "tests/softgpu/driver_api.h"
#include "tests/softgpu/softgpu.h"

#include <errno.h>
#include <stdlib.h>

#define OK(call) assert_int_equal((call), 0)

/* The driver that the back end uses, and makes fail; the devices below it are software devices. */
#ifdef TEST_HIP
#include "engine/hip_api.h"
#include "tests/hipstand/hipstand.h"
#define TABLE             vg_table_hip
#define BACKEND           VG_BACKEND_HIP
#define MEMORY            VG_MEMORY_HIP
#define NAME              "HIP"
#define LAUNCH_KERNEL     "hipModuleLaunchKernel"
#define COPY_TO_HOST      "hipMemcpyDtoHAsync"
#define EVENT_RECORD      "hipEventRecord"
#define EVENT_SYNCHRONIZE "hipEventSynchronize"
#define FREE              "hipFree"
#define NO_MEMORY         "hipMalloc: hipErrorOutOfMemory (2, out of memory)"
#define NO_KERNEL         "hipModuleGetFunction: hipErrorNotFound (500"
#define SAID              "V HIP device: Software device 1 (gfx1100), 0000:02:00.0, HIP 6.3 of libamdhip64.so.7\n"
#define fail_at           hipstand_fail_at
#define fail_call         hipstand_fail_call
#define driver_calls      hipstand_calls
#define LIVE_AT_THE_END   2 /* the stand-in's contexts */
#define complaints()      (hipstand_complaints() + softgpu_complaints())
#else
#define TABLE             vg_table_cuda
#define BACKEND           VG_BACKEND_CUDA
#define MEMORY            VG_MEMORY_CUDA
#define NAME              "CUDA"
#define LAUNCH_KERNEL     "cuLaunchKernel"
#define COPY_TO_HOST      "cuMemcpyDtoHAsync_v2"
#define EVENT_RECORD      "cuEventRecord"
#define EVENT_SYNCHRONIZE "cuEventSynchronize"
#define FREE              "cuMemFree_v2"
#define NO_MEMORY         "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2, out of memory)"
#define NO_KERNEL         "cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500"
#define SAID              "V CUDA device: Software device 1, 0000:02:00.0, driver for CUDA 12.1\n"
#define fail_at           softgpu_fail_at
#define fail_call         softgpu_fail_call
#define driver_calls      softgpu_calls
#define LIVE_AT_THE_END   0
#define complaints        softgpu_complaints
#endif

/* Slow builds, and that of HIP, which has most in common with CUDA's, look at less. */
#if defined(__SANITIZE_ADDRESS__) || defined(TEST_HIP)
#define BRIEF 1
#endif

/* Of HIP's the sanitized build runs what comes to the device table and its stand-in; the rest has been looked at in CUDA's. */
#if defined(__SANITIZE_ADDRESS__) && defined(TEST_HIP)
#define WITH_COMMON 0
#else
#define WITH_COMMON 1
#endif

static struct {
    CUcontext contexts[2];           /* of each device; the first is current */
    CUstream streams[2][VG_N_SIDES]; /* in which the pictures of each side are made */
    CUstream turns[3][VG_N_SIDES];   /* the same on the first device, if each frame's come from another */
    unsigned long complained;        /* that were meant to be */
} gpu;

/* ---- The back end, watched --------------------------------------------------------------------------------------- */

typedef struct Watched Watched;

/* What a run's frames left: the records of all passes that ran, zeros elsewhere. */
typedef struct Records {
    uint8_t *bytes;
    size_t size; /* of a frame */
    unsigned n;
} Records;

struct Watched {
    VgPlan plan;
    const VgBackend *backend;
    void *context;
    Records *records;
    int scored[VG_MAX_IN_FLIGHT];
};

/* What the next scorer gets. */
static struct {
    const VgBackend *backend;
    const VgDeviceTable *table; /* NULL: the plan's */
    const VgMetric *metric;     /* instead of the one of that name */
    Records *records;
} next;

static int watched_open(void **context, const VgPlan *plan, const VgLog *log)
{
    Watched *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    *w = (Watched){ .plan = *plan, .backend = next.backend, .records = next.records };
    if (next.table)
        w->plan.device = next.table;
    for (unsigned p = 0; next.metric && p < plan->n_passes; p++)
        if (!strcmp(plan->passes[p].metric->info.name, next.metric->info.name))
            plan->passes[p].metric = next.metric;
    w->records->size = plan->records_size;
    int err = w->backend->open(&w->context, &w->plan, log);
    if (err) {
        assert_null(w->context);
        free(w);
        w = NULL;
    }
    *context = w;
    return err;
}

static int watched_submit(void *context, unsigned slot, const VgFramePictures *pictures, int scored)
{
    Watched *w = context;
    w->scored[slot] = scored;
    return w->backend->submit(w->context, slot, pictures, scored);
}

static int watched_finish(void *context, unsigned slot, int wait, const uint8_t **records)
{
    Watched *w = context;
    int done = w->backend->finish(w->context, slot, wait, records);
    if (done != 1)
        return done;
    Records *r = w->records;
    r->bytes = realloc(r->bytes, (r->n + 1) * r->size);
    assert_non_null(r->bytes);
    uint8_t *to = memset(r->bytes + r->n++ * r->size, 0, r->size);
    for (unsigned p = 0; p < w->plan.n_passes; p++) {
        const VgPass *pass = &w->plan.passes[p];
        if (w->scored[slot] || pass->metric->every_frame)
            memcpy(to + pass->record_offset, *records + pass->record_offset, pass->record_size);
    }
    return 1;
}

static void watched_close(void **context)
{
    Watched *w = *context;
    *context = NULL;
    w->backend->close(&w->context);
    assert_null(w->context);
    free(w);
}

static const VgBackend watched = {
    .name = "watched",
    .open = watched_open,
    .submit = watched_submit,
    .finish = watched_finish,
    .close = watched_close,
};

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

typedef enum How { IN_PLACE, COPIED, UPLOADED, N_HOWS } How;
static const char *const how_names[] = { "in place", "copied", "uploaded" };

static const char all_features[] =
    "psnr:enable_mse=true:enable_apsnr=true|float_ssim:scale=2:enable_lcs=true|motion:debug=true|"
    "motion:motion_five_frame_window=true:motion_moving_average=true";

static const PictureLayout planar = { .name = "planar", .sample_bytes = 1 };
static const PictureLayout planar_words = { .name = "planar words", .sample_bytes = 2 };

/* The least that all_features scores. */
static const VgGeometry small = { 23, 22, VG_CHROMA_420, 8 };

/* SpEED, the only metric that looks back at the distorted side. Enlarged, small planes will do. */
static const char both_lags[] =
    "speed_temporal:speed_prescale=4|"
    "speed_temporal:speed_use_ref_diff=true:speed_prescale=4:speed_prescale_method=bilinear";
static const VgGeometry small_of_both_lags = { 45, 41, VG_CHROMA_444, 8 };

typedef struct Run {
    VgScorerConfig config;
    const VgBackend *backend;
    const PictureLayout *layouts[VG_N_SIDES];
    int device;
    int one_stream;     /* both sides' pictures are made in one stream */
    int default_stream; /* namely the driver's default one */
    int many_streams;   /* they change from frame to frame */
    int poll;           /* frames are asked for, not waited for */
    unsigned frames;

    VgScorer *scorer;
    PictureSource sources[VG_N_SIDES];
    Messages messages;
    Records records;
    char *scores;
    unsigned long waits, spinning, waits_of_submits; /* in calls of the library */
    int error;
} Run;

/* Library calls are counted and made to fail apart from those that make pictures. */
static struct {
    unsigned long calls;   /* driver calls in library calls */
    unsigned long fail_at; /* this one fails; 0: none */
    int code;
} driver;

/* HIP's, of this thread. */
static int current_device(void)
{
    int device = 0;
#ifdef TEST_HIP
    OK(hipGetDevice(&device));
#endif
    return device;
}

static void library_begins(void)
{
    if (driver.fail_at > driver.calls)
        fail_at(driver.fail_at - driver.calls, driver.code);
    else if (driver.fail_at && driver.code == CUDA_ERROR_LAUNCH_FAILED) /* the library has lost the device */
        fail_at(1, driver.code);
}

static void library_ends(Run *run, unsigned long before, unsigned long waits, unsigned long spinning, int submits)
{
    unsigned long spun;
    const unsigned long waited = softgpu_waits(&spun) - waits;
    driver.calls += driver_calls() - before;
    run->waits += waited;
    run->waits_of_submits += submits ? waited : 0;
    run->spinning += spun - spinning;
    fail_at(0, 0);
}

/* Whatever happens in the library, the caller's context and HIP's device stay current. */
#define LIBRARY(run, result, call)                                                                                     \
    do {                                                                                                               \
        CUcontext before_ = NULL, after_ = NULL;                                                                       \
        unsigned long spinning_;                                                                                       \
        const int asked_ = cuCtxGetCurrent(&before_), device_ = current_device();                                      \
        const unsigned long waits_ = softgpu_waits(&spinning_), calls_ = driver_calls();                               \
        library_begins();                                                                                              \
        result = call;                                                                                                 \
        library_ends(run, calls_, waits_, spinning_, #call[10] == 's' && #call[11] == 'u');                            \
        if (!asked_ && !cuCtxGetCurrent(&after_))                                                                      \
            assert_ptr_equal(after_, before_);                                                                         \
        assert_int_equal(current_device(), device_);                                                                   \
    } while (0)

/* Pictures in device memory are in this device's. */
static void place_pictures(VgScorerConfig *config, int device)
{
    if (config->memory == VG_MEMORY_HOST)
        return;
#ifdef TEST_HIP
    config->device = device ? "1" : "0";
#else
    config->device_context = gpu.contexts[device];
#endif
}

static Run make_run(How how, const char *features)
{
    Run run = { .config = VG_SCORER_CONFIG_INIT, .backend = &vg_backend_device, .frames = 9 };
    run.config.geometry = (VgGeometry){ 45, 37, VG_CHROMA_420, 8 };
    run.config.features = features;
    run.config.backend = BACKEND;
    run.config.memory = how == UPLOADED ? VG_MEMORY_HOST : MEMORY;
    run.config.history = how == COPIED ? VG_HISTORY_COPY : VG_HISTORY_AUTO;
    place_pictures(&run.config, 0);
    run.layouts[VG_REF] = run.layouts[VG_DIST] = &planar;
    return run;
}

static void begin(Run *run)
{
    run->config.log = messages_log;
    run->config.log_opaque = &run->messages;
    run->messages = (Messages){ 0 };
    run->waits = run->spinning = run->waits_of_submits = 0;
    for (int side = 0; side < VG_N_SIDES; side++)
        run->sources[side] = (PictureSource){
            .memory = run->config.memory,
            .stream = run->default_stream ? NULL : gpu.streams[run->device][run->one_stream ? 0 : side],
        };
    next.backend = run->backend;
    next.records = &run->records;
    LIBRARY(run, run->error, vg_scorer_create_on(&run->scorer, &run->config, &watched));
}

static void collect(Run *run, VgWait wait)
{
    int taken;
    LIBRARY(run, taken, vg_scorer_collect(run->scorer, wait));
    if (taken < 0)
        run->error = taken;
}

static void submit(Run *run, unsigned frame)
{
    VgPicture p[VG_N_SIDES];
    for (int side = 0; side < VG_N_SIDES; side++) {
        if (run->many_streams)
            run->sources[side].stream = gpu.turns[frame % 3][side];
        p[side] =
            picture_take(&run->sources[side], &run->config.geometry, run->layouts[side], 2 * frame + (unsigned)side);
    }
    while (!run->error) {
        LIBRARY(run, run->error, vg_scorer_submit(run->scorer, &p[VG_DIST], &p[VG_REF]));
        if (run->error != -EAGAIN)
            break;
        run->error = 0;
        collect(run, run->poll ? VG_WAIT_NONE : VG_WAIT_ONE);
    }
    if (run->error) { /* they remained ours */
        for (int side = 0; side < VG_N_SIDES; side++)
            p[side].release(p[side].ref);
        return;
    }
    for (int side = 0; side < VG_N_SIDES; side++) {
        const unsigned lag = run->scorer->plan.copy_history ? 0 : run->scorer->plan.lag[side];
        assert_true(run->sources[side].held <= (int)(run->scorer->plan.in_flight + lag));
    }
}

static int free_scorer(VgScorer **scorer)
{
    vg_scorer_free(scorer);
    return 0;
}

static void end(Run *run)
{
    if (!run->error)
        LIBRARY(run, run->error, vg_scorer_flush(run->scorer));
    run->scores = run->error ? NULL : scores_of(run->scorer);
    int freed;
    LIBRARY(run, freed, free_scorer(&run->scorer));
    assert_int_equal(freed, 0);
    fail_at(0, 0);
    for (int side = 0; side < VG_N_SIDES; side++)
        picture_source_end(&run->sources[side]);
    softgpu_check_guards();
}

static void run_frames(Run *run)
{
    begin(run);
    for (unsigned i = 0; !run->error && i < run->frames; i++) {
        submit(run, i);
        if (!run->error && i % 3 == 1)
            collect(run, VG_WAIT_NONE);
    }
    end(run);
}

static void run_free(Run *run)
{
    free(run->scores);
    free(run->records.bytes);
    run->scores = NULL;
    run->records = (Records){ 0 };
}

/* The same frames by the CPU, from pictures of these layouts. */
static Run expected_with(const Run *run, const PictureLayout *const layouts[VG_N_SIDES])
{
    Run cpu = { .config = run->config, .backend = &vg_backend_cpu, .frames = run->frames };
    cpu.config.backend = VG_BACKEND_CPU;
    cpu.config.memory = VG_MEMORY_HOST;
    cpu.config.device_context = NULL;
    cpu.config.device = NULL;
    memcpy(cpu.layouts, layouts, sizeof(cpu.layouts));
    const VgDeviceTable *table = next.table;
    next.table = NULL;
    run_frames(&cpu);
    next.table = table;
    if (cpu.error)
        fail_msg("the CPU: error %d: %s", cpu.error, cpu.messages.text);
    assert_true(!run->frames || strlen(cpu.scores) > 10);
    return cpu;
}

/* From pictures without gaps. */
static Run expected_of(const Run *run)
{
    const PictureLayout *plain = run->config.geometry.bit_depth > 8 ? &planar_words : &planar;
    return expected_with(run, (const PictureLayout *const[]){ plain, plain });
}

static int differs(const Run *got, const Run *expected)
{
    return got->error || got->records.n != expected->records.n || got->records.size != expected->records.size ||
           (expected->records.n &&
            memcmp(got->records.bytes, expected->records.bytes, expected->records.n * expected->records.size) != 0) ||
           strcmp(got->scores, expected->scores) != 0;
}

static void describe(const Run *run, char text[300])
{
    const VgScorerConfig *c = &run->config;
    snprintf(text, 300, "%s, ref %s, dist %s, %ux%u chroma %d depth %u, in_flight %u, subsample %u, %s%s%s%s",
             c->features, run->layouts[VG_REF]->name, run->layouts[VG_DIST]->name, c->geometry.width,
             c->geometry.height, c->geometry.chroma, c->geometry.bit_depth, c->in_flight, c->n_subsample,
             how_names[c->memory == VG_MEMORY_HOST     ? UPLOADED
                       : c->history == VG_HISTORY_COPY ? COPIED
                                                       : IN_PLACE],
             run->one_stream ? ", one stream" : "", run->default_stream ? ", default stream" : "",
             run->many_streams ? ", many streams" : "");
}

/* Runs, compares and forgets. */
static void check(Run *run, const Run *expected, const char *what)
{
    char text[300];
    const size_t live = softgpu_live_objects();
    run_frames(run);
    describe(run, text);
    if (run->error)
        fail_msg("%s%s: error %d: %s", what, text, run->error, run->messages.text);
    for (unsigned i = 0; i < expected->records.n; i++)
        if (memcmp(run->records.bytes + i * run->records.size, expected->records.bytes + i * run->records.size,
                   run->records.size) != 0)
            fail_msg("%s%s: records of frame %u differ", what, text, i);
    if (differs(run, expected))
        fail_msg("%s%s: scores differ:\n%s\nrather than\n%s", what, text, run->scores, expected->scores);
    if (softgpu_live_objects() != live)
        fail_msg("%s%s: something was not freed", what, text);
    if (run->messages.counts[VG_LOG_ERROR] || run->messages.counts[VG_LOG_WARNING])
        fail_msg("%s%s: %s", what, text, run->messages.text);
    run_free(run);
}

static int set_up(void **state)
{
    (void)state;
    OK(cuInit(0));
    for (int d = 1; d >= 0; d--) {
#ifdef TEST_HIP
        OK(hipSetDevice(d));
        OK(hipFree(NULL)); /* now it has a context, and keeps it */
        OK(cuDevicePrimaryCtxRetain(&gpu.contexts[d], d));
        OK(cuCtxPushCurrent_v2(gpu.contexts[d]));
#else
        OK(cuCtxCreate_v2(&gpu.contexts[d], 0, d));
#endif
        for (int side = 0; side < VG_N_SIDES; side++)
            OK(cuStreamCreate(&gpu.streams[d][side], CU_STREAM_NON_BLOCKING));
    }
    for (int turn = 0; turn < 3; turn++)
        for (int side = 0; side < VG_N_SIDES; side++)
            OK(cuStreamCreate(&gpu.turns[turn][side], CU_STREAM_NON_BLOCKING));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int turn = 0; turn < 3; turn++)
        for (int side = 0; side < VG_N_SIDES; side++)
            OK(cuStreamDestroy_v2(gpu.turns[turn][side]));
    for (int d = 0; d < 2; d++) {
        for (int side = 0; side < VG_N_SIDES; side++)
            OK(cuStreamDestroy_v2(gpu.streams[d][side]));
#ifdef TEST_HIP
        OK(cuDevicePrimaryCtxRelease(d));
#else
        OK(cuCtxDestroy_v2(gpu.contexts[d]));
#endif
    }
    assert_int_equal(softgpu_live_objects(), LIVE_AT_THE_END);
    assert_int_equal(softgpu_live_bytes(), 0);
    assert_int_equal(complaints(), gpu.complained);
    return 0;
}

static int before_each(void **state)
{
    (void)state;
    memset(&next, 0, sizeof(next));
    memset(&driver, 0, sizeof(driver));
    fail_at(0, 0);
    softgpu_set_order(0);
    softgpu_set_memory((size_t)1 << 30);
    return 0;
}

/* ---- What is scored ---------------------------------------------------------------------------------------------- */

static void options_agree(void **state)
{
    static const char *const features[] = {
        all_features,
        "psnr",
        "psnr:enable_chroma=false",
        "float_ssim",
        "float_ssim:scale=1:enable_lcs=true",
        "float_ssim:scale=3",
        "motion",
        "motion:motion_force_zero=true|psnr",
        "motion:motion_five_frame_window=true",
    };
    (void)state;
    for (unsigned f = 0; f < sizeof(features) / sizeof(features[0]); f++) {
        for (int how = 0; how < N_HOWS; how++) {
            for (unsigned n_subsample = 1; n_subsample <= 4; n_subsample++) {
                Run run = make_run((How)how, features[f]);
                run.config.n_subsample = n_subsample;
                Run expected = expected_of(&run);
                check(&run, &expected, "");
                run_free(&expected);
            }
        }
    }
}

static void speed_agrees(void **state)
{
    static const char *const features[] = {
        both_lags,
        "speed_chroma:speed_prescale=4:speed_weight_var_mode=5|speed_temporal:speed_prescale=3.9:speed_kernelscale=0.5",
        "psnr|motion:motion_five_frame_window=true|speed_temporal:speed_prescale=4:speed_prescale_method=bicubic",
    };
    (void)state;
    for (unsigned f = 0; f < sizeof(features) / sizeof(features[0]); f++) {
        for (int how = 0; how < N_HOWS; how++) {
            for (unsigned n_subsample = 1; n_subsample <= 3; n_subsample++) {
                Run run = make_run((How)how, features[f]);
                run.config.geometry = small_of_both_lags;
                run.config.n_subsample = n_subsample;
                run.config.in_flight = 1 + (f + n_subsample) % 3;
                run.frames = 7;
                Run expected = expected_of(&run);
                check(&run, &expected, "");
                run_free(&expected);
            }
        }
    }
}

/* libvmaf's own values, without the CPU's in between. */
static void golden_values_of_speed(void **state)
{
    static const struct {
        const char *table, *metric;
    } tables[] = {
        { "speed_upscale.tsv.gz", "speed_temporal" },
#ifndef BRIEF /* slow */
        { "speed_temporal.tsv.gz", "speed_temporal" },
        { "speed_chroma.tsv.gz", "speed_chroma" },
#endif
    };
    VgScorerConfig config = VG_SCORER_CONFIG_INIT;
    (void)state;
    config.backend = BACKEND;
    config.in_flight = 2;
    for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        Golden golden = golden_read(tables[i].table);
        golden_score_as(&golden, tables[i].metric, &config, NULL);
        golden_free(&golden);
    }
    clip_free_all();
}

static void any_number_of_frames_in_flight_agrees(void **state)
{
    (void)state;
    for (int how = 0; how < N_HOWS; how++) {
        Run run = make_run((How)how, all_features);
        run.config.geometry = small;
        run.frames = 20;
        Run expected = expected_of(&run);
        for (unsigned n = 1; n <= VG_MAX_IN_FLIGHT; n++) {
#ifdef BRIEF /* slow: each number with one kind of frames; CUDA's plain build has all */
            if ((n + (unsigned)how) % 3)
                continue;
#endif
            run.config.in_flight = n;
            run.poll = n % 2;
            check(&run, &expected, "");
        }
        run_free(&expected);
        for (run.frames = 0; run.frames < 4; run.frames++) { /* shorter than the ring, and than the look-back */
            Run short_one = expected_of(&run);
            check(&run, &short_one, "");
            run_free(&short_one);
        }
    }
}

typedef struct Format {
    VgChroma chroma;
    uint32_t depth;
    PictureLayout layout;
} Format;

static const Format formats[] = {
    { VG_CHROMA_400, 8, { .name = "gray", .sample_bytes = 1 } },
    { VG_CHROMA_420, 8, { .name = "yuv420p", .sample_bytes = 1, .gap = 19 } },
    { VG_CHROMA_422, 8, { .name = "yuv422p", .sample_bytes = 1, .gap = 3, .lead = 5 } },
    { VG_CHROMA_444, 8, { .name = "yuv444p", .sample_bytes = 1 } },
    { VG_CHROMA_420, 8, { .name = "yuv420p, bottom up", .sample_bytes = 1, .bottom_up = 1, .gap = 7 } },
    { VG_CHROMA_420, 8, { .name = "nv12", .sample_bytes = 1, .interleaved = 1 } },
    { VG_CHROMA_420, 8, { .name = "nv12, cropped", .sample_bytes = 1, .interleaved = 1, .gap = 64, .lead = 34 } },
    { VG_CHROMA_420, 8, { .name = "nv12, bottom up", .sample_bytes = 1, .interleaved = 1, .bottom_up = 1, .gap = 11 } },
    { VG_CHROMA_420, 8, { .name = "nv21", .sample_bytes = 1, .interleaved = 1, .cr_first = 1 } },
    { VG_CHROMA_422, 8, { .name = "nv16", .sample_bytes = 1, .interleaved = 1 } },
    { VG_CHROMA_444, 8, { .name = "nv24", .sample_bytes = 1, .interleaved = 1 } },
    { VG_CHROMA_444, 8, { .name = "ayuv", .sample_bytes = 1, .packed = 4 } },
    { VG_CHROMA_444, 8, { .name = "vuy, bottom up", .sample_bytes = 1, .packed = 3, .bottom_up = 1 } },
    { VG_CHROMA_420, 8, { .name = "words", .sample_bytes = 2, .shift = 0, .gap = 2 } },
    { VG_CHROMA_420,
      8,
      { .name = "high bytes of words, interleaved", .sample_bytes = 2, .shift = 8, .interleaved = 1 } },
    { VG_CHROMA_420, 8, { .name = "every other byte", .sample_bytes = 1, .apart = 2, .gap = 1 } },
    { VG_CHROMA_400, 10, { .name = "gray10", .sample_bytes = 2 } },
    { VG_CHROMA_420, 10, { .name = "yuv420p10", .sample_bytes = 2, .gap = 2 } },
    { VG_CHROMA_422, 10, { .name = "yuv422p10", .sample_bytes = 2 } },
    { VG_CHROMA_444, 10, { .name = "yuv444p10, high bits", .sample_bytes = 2, .shift = 6 } },
    { VG_CHROMA_420, 10, { .name = "p010", .sample_bytes = 2, .shift = 6, .interleaved = 1, .gap = 32 } },
    { VG_CHROMA_420,
      10,
      { .name = "p010, bottom up", .sample_bytes = 2, .shift = 6, .interleaved = 1, .bottom_up = 1 } },
    { VG_CHROMA_422, 10, { .name = "p210", .sample_bytes = 2, .shift = 6, .interleaved = 1 } },
    { VG_CHROMA_444, 10, { .name = "p410", .sample_bytes = 2, .shift = 6, .interleaved = 1 } },
    { VG_CHROMA_420, 12, { .name = "p012", .sample_bytes = 2, .shift = 4, .interleaved = 1 } },
    { VG_CHROMA_444, 12, { .name = "yuv444p12", .sample_bytes = 2 } },
    { VG_CHROMA_420, 16, { .name = "p016", .sample_bytes = 2, .interleaved = 1 } },
    { VG_CHROMA_422, 16, { .name = "yuv422p16", .sample_bytes = 2, .gap = 6, .lead = 2 } },
    { VG_CHROMA_444, 16, { .name = "yuv444p16, bottom up", .sample_bytes = 2, .bottom_up = 1 } },
};
#define N_FORMATS (sizeof(formats) / sizeof(formats[0]))

/* Pixels that lie too far apart for copies of earlier pictures; they can be uploaded and read in place. */
static const Format far_apart[] = {
    { VG_CHROMA_444, 10, { .name = "xv36", .sample_bytes = 2, .shift = 6, .packed = 4 } },
    { VG_CHROMA_420, 8, { .name = "seven bytes apart", .sample_bytes = 1, .apart = 7, .gap = 3 } },
    { VG_CHROMA_420, 10, { .name = "64 bytes apart, bottom up", .sample_bytes = 2, .apart = 32, .bottom_up = 1 } },
    { VG_CHROMA_420, 10, { .name = "far apart, interleaved", .sample_bytes = 2, .apart = 3, .interleaved = 1 } },
};
#define N_FAR_APART (sizeof(far_apart) / sizeof(far_apart[0]))

/* All metrics that score this size and format. */
static const char *features_of(const VgGeometry *g)
{
    const uint32_t least = g->width < g->height ? g->width : g->height;
    if (g->chroma == VG_CHROMA_400)
        return least < 3    ? "psnr:enable_chroma=false"
               : least < 11 ? "motion|psnr:enable_chroma=false"
                            : "motion|psnr:enable_chroma=false|float_ssim:enable_lcs=true";
    return least < 3 ? "psnr" : least < 11 ? "motion|psnr" : least < 22 ? "motion|psnr|float_ssim" : all_features;
}

static void check_format(const Format *format, const VgGeometry *g, const Run *expected, int in_flight)
{
    const PictureLayout *plain = g->bit_depth > 8 ? &planar_words : &planar;
    const int is_far = format >= far_apart && format < far_apart + N_FAR_APART;
    for (int how = 0; how < N_HOWS; how++) {
        for (int both = 0; both < 2 && !(is_far && how == COPIED); both++) {
            Run run = make_run((How)how, expected->config.features);
            run.config.geometry = *g;
            run.config.in_flight = (uint32_t)in_flight;
            run.frames = expected->frames;
            run.layouts[both ? VG_REF : VG_DIST] = &format->layout;
            run.layouts[both ? VG_DIST : VG_REF] = both == 1 ? &format->layout : plain;
            check(&run, expected, "");
        }
    }
}

static void formats_agree(void **state)
{
    static const uint32_t sizes[][2] = { { 45, 25 }, { 64, 22 }, { 11, 12 }, { 3, 3 }, { 1, 1 }, { 33, 1 } };
    (void)state;
    for (unsigned f = 0; f < N_FORMATS + N_FAR_APART; f++) {
        const Format *format = f < N_FORMATS ? &formats[f] : &far_apart[f - N_FORMATS];
        for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            const VgGeometry g = { sizes[s][0], sizes[s][1], format->chroma, format->depth };
#ifdef BRIEF /* slow: a third of the sizes for each format; CUDA's plain build has all */
            if (f % 3 != s % 3)
                continue;
#endif
            Run model = make_run(IN_PLACE, features_of(&g));
            model.config.geometry = g;
            model.frames = 4;
            Run expected = expected_of(&model);
            check_format(format, &g, &expected, 1 + (int)((f + s) % 3));
            run_free(&expected);
        }
    }
}

/* Earlier pictures of the distorted side, in every layout. */
static void formats_of_both_lags_agree(void **state)
{
    (void)state;
    for (unsigned f = 0; f < N_FORMATS; f++) {
#ifdef BRIEF /* slow: a third of the formats; CUDA's plain build has all */
        if (f % 3)
            continue;
#endif
        Run model = make_run(IN_PLACE, "speed_temporal:speed_prescale=4");
        model.config.geometry = small_of_both_lags;
        model.config.geometry.chroma = formats[f].chroma;
        model.config.geometry.bit_depth = formats[f].depth;
        model.frames = 4;
        Run expected = expected_of(&model);
        check_format(&formats[f], &model.config.geometry, &expected, 1 + (int)f % 3);
        run_free(&expected);
    }
}

/* The layouts of a scorer's pictures may change with every frame. */
static void layouts_may_change(void **state)
{
    (void)state;
    for (int how = 0; how < N_HOWS; how++) {
        for (int depth = 8; depth <= 10; depth += 2) {
            Run run = make_run((How)how, all_features);
            run.config.geometry.bit_depth = (uint32_t)depth;
            run.frames = 40;
            Run expected = expected_of(&run);
            begin(&run);
            for (unsigned i = 0, f = 0; !run.error && i < run.frames; i++) {
                for (int side = 0; side < VG_N_SIDES; side++) {
                    const Format *format;
                    do {
                        format = f < N_FORMATS ? &formats[f] : &far_apart[f - N_FORMATS];
                        f = (f + 1) % (N_FORMATS + (how == COPIED ? 0 : N_FAR_APART));
                    } while (format->chroma != VG_CHROMA_420 || (int)format->depth != depth);
                    run.layouts[side] = &format->layout;
                }
                submit(&run, i);
            }
            end(&run);
            if (differs(&run, &expected))
                fail_msg("%s: error %d: %s", how_names[how], run.error, run.messages.text);
            run_free(&run);
            run_free(&expected);
        }
    }
}

static void samples_too_far_apart_to_be_copied_are_refused(void **state)
{
    (void)state;
    const Format *format = &far_apart[0];
    Run run = make_run(COPIED, "motion");
    run.config.geometry = (VgGeometry){ 20, 16, format->chroma, format->depth };
    run.layouts[VG_DIST] = &format->layout; /* whose earlier frames motion does not look at */
    run.layouts[VG_REF] = &planar_words;
    Run expected = expected_of(&run);
    check(&run, &expected, "");
    run.layouts[VG_REF] = &format->layout;
    run_frames(&run);
    assert_int_equal(run.error, -ENOTSUP);
    assert_true(messages_contain(
        &run.messages, "E frame 0: samples that are 8 bytes apart cannot be copied for later frames (at most 4): "
                       "score with history=ref\n"));
    assert_int_equal(run.messages.counts[VG_LOG_ERROR], 1);
    run_free(&run);
    run_free(&expected);
}

/* No driver copies such rows as a rectangle. */
static void rows_may_overlap(void **state)
{
    static const PictureLayout layouts[] = {
        { .name = "overlapping", .sample_bytes = 1, .overlap = 7 },
        { .name = "overlapping, bottom up", .sample_bytes = 1, .overlap = 2, .bottom_up = 1, .lead = 3 },
        { .name = "all rows in one", .sample_bytes = 1, .overlap = 1000 },
        { .name = "overlapping nv12", .sample_bytes = 1, .overlap = 12, .interleaved = 1 },
        { .name = "overlapping p010", .sample_bytes = 2, .shift = 6, .overlap = 20, .interleaved = 1 },
        { .name = "all words in one row", .sample_bytes = 2, .overlap = 1000, .bottom_up = 1 },
    };
    (void)state;
    for (unsigned l = 0; l < sizeof(layouts) / sizeof(layouts[0]); l++) {
        for (int how = 0; how < N_HOWS; how++) {
            Run run = make_run((How)how, all_features);
            run.config.geometry.bit_depth = layouts[l].sample_bytes == 2 ? 10 : 8;
            run.layouts[VG_REF] = &layouts[l];
            run.layouts[VG_DIST] = layouts[l].sample_bytes == 2 ? &planar_words : &planar;
            run.frames = 5;
            Run expected = expected_with(&run, run.layouts);
            check(&run, &expected, "");
            run_free(&expected);
        }
    }
}

/* ---- Order and waits --------------------------------------------------------------------------------------------- */

#ifdef BRIEF
#define N_ORDERS         8 /* the plain build looks at more, and faster */
#define N_FAILING_ORDERS 1
#else
#define N_ORDERS         24
#define N_FAILING_ORDERS 2
#endif

#ifdef __SANITIZE_ADDRESS__
#define N_ORDERS_OF_SEVERAL 4
#else
#define N_ORDERS_OF_SEVERAL 12
#endif

static void any_order_agrees(Run *run, unsigned long step)
{
    Run expected = expected_of(run);
    for (unsigned long order = 0; order < N_ORDERS; order += step) {
        char what[40];
        snprintf(what, sizeof(what), "order %lu, ", order);
        softgpu_set_order(order);
        run->config.in_flight = 1 + (uint32_t)order % 5;
        run->many_streams = order % 4 == 1;
        run->one_stream = order % 4 == 2;
        run->default_stream = order % 4 == 3;
        run->poll = order / 4 % 2 != 0;
        check(run, &expected, what);
    }
    run_free(&expected);
}

static void any_order_of_streams_agrees(void **state)
{
    (void)state;
    for (int how = 0; how < N_HOWS; how++) {
        Run run = make_run((How)how, all_features);
        run.layouts[VG_DIST] = &formats[5].layout;
        any_order_agrees(&run, 1);
        run = make_run((How)how, both_lags);
        run.config.geometry = small_of_both_lags;
        run.frames = 5;
        any_order_agrees(&run, 3); /* of each kind two */
        softgpu_set_order(0);
    }
}

static void the_host_waits_once_a_frame(void **state)
{
    (void)state;
    for (int how = 0; how < N_HOWS; how++) {
        for (unsigned long order = 0; order < 8; order++) {
            softgpu_set_order(order);
            Run run = make_run((How)how, all_features);
            /* Of lanes and for uploads: each is waited for at the end. */
            const unsigned streams = how == COPIED ? 1 : how == UPLOADED ? 3 + 1 : 3;
            run.frames = 12;
            begin(&run);
            assert_int_equal(run.waits, 0);
            for (unsigned i = 0; i < run.frames; i++)
                submit(&run, i);
            collect(&run, VG_WAIT_ALL);
            OK(run.error);
            /* Frames that are found finished are taken without a wait; in order 1 none is. */
            assert_true(order == 1 ? run.waits == run.frames : run.waits > 0 && run.waits <= run.frames);
            const unsigned long before = run.waits;
            end(&run);
            assert_int_equal(run.waits, before + streams);
            assert_int_equal(run.waits_of_submits, 0);
            assert_int_equal(run.spinning, 0);
            run_free(&run);

            if (order == 1)
                continue;
            run.poll = 1;
            run_frames(&run);
            assert_true(run.waits < run.frames); /* those that are in flight at the flush */
            run_free(&run);
        }
    }
}

/* The pictures of an unscored frame are neither waited for nor uploaded if nothing looks at them. */
static void frames_that_are_left_out_cost_nothing(void **state)
{
    (void)state;
    for (int how = 0; how < N_HOWS; how++) {
        unsigned long calls[2];
        for (int i = 0; i < 2; i++) {
            Run run = make_run((How)how, "float_ssim");
            run.frames = 12;
            run.config.n_subsample = i ? 12 : 1;
            memset(&driver, 0, sizeof(driver));
            Run expected = expected_of(&run);
            const unsigned long before = driver.calls;
            check(&run, &expected, "");
            calls[i] = driver.calls - before;
            run_free(&expected);
        }
        /* A launch, and either two uploads and a wait for them or waits for two producers. */
        assert_int_equal(calls[0] - calls[1], 11 * 5);
    }
}

/* ---- Lanes ------------------------------------------------------------------------------------------------------- */

static VgDeviceTable faulty;

/* The streams that launches have been enqueued in. */
static struct {
    VgStream streams[VG_MAX_IN_FLIGHT];
    unsigned n;
} launched;

static int noted_launch(VgDevice *device, VgFunction function, const uint32_t grid[3], uint32_t block,
                        uint32_t dynamic_shared, const void *args, size_t args_size, VgStream stream)
{
    unsigned i = 0;
    while (i < launched.n && launched.streams[i] != stream)
        i++;
    assert_true(i < VG_MAX_IN_FLIGHT);
    launched.streams[i] = stream;
    launched.n += i == launched.n;
    return TABLE.launch(device, function, grid, block, dynamic_shared, args, args_size, stream);
}

static int finish_slot(const Run *run, unsigned slot, int wait, const uint8_t **records)
{
    const Watched *w = run->scorer->context;
    return w->backend->finish(w->context, slot, wait, records);
}

/* Submits as many frames as may be in flight and has the latest finish first, so that only what it needs is done. */
static void begin_with_the_latest(Run *run)
{
    const uint8_t *records = NULL;
    softgpu_set_order(1);
    begin(run);
    for (unsigned i = 0; i < run->frames; i++)
        submit(run, i);
    OK(run->error);
    assert_int_equal(finish_slot(run, run->frames - 1, 1, &records), 1);
    assert_non_null(records);
}

/* Only frames of the latest one's lane finish with it. */
static void check_lanes(Run *run, unsigned in_flight, unsigned lanes)
{
    const unsigned last = in_flight - 1;
    const uint8_t *records;
    run->frames = run->config.in_flight = in_flight;
    run->many_streams = run->config.memory != VG_MEMORY_HOST;
    Run expected = expected_of(run);
    launched.n = 0;
    next.table = &faulty;
    begin_with_the_latest(run);
    assert_int_equal(launched.n, lanes);
    for (unsigned s = 0; s < in_flight; s++) {
        records = NULL;
        assert_int_equal(finish_slot(run, s, 0, &records), s % lanes == last % lanes);
        assert_int_equal(records != NULL, s % lanes == last % lanes); /* nobody looks at what is not complete */
    }
    assert_int_equal(softgpu_pending() > 0, lanes > 1);
    end(run);
    char said[60];
    snprintf(said, sizeof(said), ": %u frame%s in flight in %u lane%s, ", in_flight, in_flight == 1 ? "" : "s", lanes,
             lanes == 1 ? "" : "s");
    assert_true(messages_contain(&run->messages, said));
    assert_false(differs(run, &expected));
    next.table = NULL;
    softgpu_set_order(0);
    run_free(run);
    run_free(&expected);
}

static void lanes_run_beside_each_other(void **state)
{
    static const struct {
        How how;
        const char *features;
        unsigned most;
    } cases[] = {
        { IN_PLACE, all_features, 3 },
        { UPLOADED, all_features, 3 },
        { COPIED, all_features, 1 },
        { COPIED, "psnr|float_ssim", 3 }, /* which leave nothing to be copied */
    };
    (void)state;
    faulty = TABLE;
    faulty.launch = noted_launch;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (unsigned in_flight = 1; in_flight <= 5; in_flight++) {
            Run run = make_run(cases[i].how, cases[i].features);
            check_lanes(&run, in_flight, in_flight < cases[i].most ? in_flight : cases[i].most);
        }
    }
}

static size_t claimed;

static size_t claimed_work(const void *params)
{
    (void)params;
    return claimed;
}

/* What is only claimed need not be there. */
static int little_alloc(VgDevice *device, size_t size, uint64_t *address)
{
    return TABLE.alloc(device, size < (size_t)1 << 20 ? size : 4096, address);
}

static void much_work_memory_means_one_lane(void **state)
{
    const size_t most = (size_t)256 << 20;
    (void)state;
    VgMetric metric = vg_metric_psnr;
    VgDeviceMetric device = vg_device_psnr;
    metric.device = &device;
    device.work_size = claimed_work;
    next.metric = &metric;
    faulty = TABLE;
    faulty.launch = noted_launch;
    faulty.alloc = little_alloc;
    for (int how = 0; how < N_HOWS; how++) {
        Run run = make_run((How)how, "psnr");
        claimed = most;
        check_lanes(&run, 3, 3);
        claimed = most + 1;
        check_lanes(&run, 3, 1);
        claimed = most;
        run.config.features = "psnr|float_ssim"; /* more in all */
        check_lanes(&run, 3, 1);
    }
}

/* ---- Several at once --------------------------------------------------------------------------------------------- */

static void enter_device(int device)
{
#ifdef TEST_HIP
    OK(hipSetDevice(!device)); /* another than the pictures' */
#endif
    CUcontext popped;
    OK(cuCtxPopCurrent_v2(&popped));
    OK(cuCtxPushCurrent_v2(gpu.contexts[device]));
}

static void scorers_and_devices_do_not_disturb_each_other(void **state)
{
    enum { N = 5 };
    static const char *const features[N] = { all_features, "psnr|motion", "float_ssim", "motion", all_features };
    static const How hows[N] = { IN_PLACE, UPLOADED, COPIED, COPIED, UPLOADED };
    static const int devices[N] = { 0, 1, 1, 0, 0 };
    (void)state;
    for (unsigned long order = 0; order < N_ORDERS_OF_SEVERAL; order++) {
        Run runs[N], expected[N];
        softgpu_set_order(order);
        for (int i = 0; i < N; i++) {
            runs[i] = make_run(hows[i], features[i]);
            runs[i].device = devices[i];
            runs[i].config.device = devices[i] ? "0000:02:00.0" : "0";
            place_pictures(&runs[i].config, devices[i]);
            runs[i].config.geometry.width += 3 * (uint32_t)i;
            expected[i] = expected_of(&runs[i]);
            begin(&runs[i]);
            OK(runs[i].error);
        }
        for (unsigned frame = 0; frame < runs[0].frames; frame++) {
            for (int i = 0; i < N; i++) {
                enter_device(devices[i]); /* for the pictures */
                submit(&runs[i], frame);
                OK(runs[i].error);
            }
        }
        for (int i = N - 1; i >= 0; i--) {
            enter_device(devices[i]);
            end(&runs[i]);
            if (differs(&runs[i], &expected[i]))
                fail_msg("order %lu, run %d: %s", order, i, runs[i].messages.text);
            run_free(&runs[i]);
            run_free(&expected[i]);
        }
        enter_device(0);
    }
}

#ifndef TEST_HIP
/* A caller's own context serves for uploads, too; and none need be current. */
static void contexts_are_as_the_caller_wants(void **state)
{
    (void)state;
    CUcontext popped, current;
    Run run = make_run(UPLOADED, all_features);
    Run expected = expected_of(&run);
    run.config.device_context = gpu.contexts[1];
    check(&run, &expected, "a given context, ");
    run.config.device_context = NULL;
    OK(cuCtxPopCurrent_v2(&popped));
    OK(cuCtxPopCurrent_v2(&popped));
    check(&run, &expected, "no current context, ");
    OK(cuCtxGetCurrent(&current));
    assert_null(current);
    OK(cuCtxPushCurrent_v2(gpu.contexts[1]));
    OK(cuCtxPushCurrent_v2(gpu.contexts[0]));
    run_free(&expected);
}

#endif

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static int refuse(const void *params, char *why, size_t why_size)
{
    (void)params;
    snprintf(why, why_size, "its reason");
    return 1;
}

static void what_is_used_is_said(void **state)
{
    (void)state;
    Run run = make_run(UPLOADED, "motion");
    run.config.device = "1";
    Run expected = expected_of(&run);
    run_frames(&run);
    OK(run.error);
    assert_true(messages_contain(&run.messages, SAID));
    assert_true(messages_contain(&run.messages, "V kernels: "));
    assert_true(messages_contain(&run.messages,
                                 "V scoring 45x37, 8 bits, on Software device 1 (0000:02:00.0): 3 frames in "
                                 "flight in 3 lanes, 0.1 MiB of device memory, 0.1 MiB pinned\n"));
    run_free(&run);
    run_free(&expected);

    VgMetric metric = vg_metric_motion;
    VgDeviceMetric device = vg_device_motion;
    metric.device = NULL;
    next.metric = &metric;
    run_frames(&run);
    assert_int_equal(run.error, -ENOTSUP);
    assert_string_equal(run.messages.text, "E motion cannot be scored on a " NAME
                                           " device: there are no kernels for it; use fallback=cpu\n");
    metric.device = &device;
    device.check = refuse;
    run_frames(&run);
    assert_int_equal(run.error, -ENOTSUP);
    assert_string_equal(run.messages.text,
                        "E motion cannot be scored on a " NAME " device: its reason; use fallback=cpu\n");
    device.check = NULL;
    device.kernels = (const VgKernel[]){ { "no_such_kernel", 0 }, { 0 } };
    run_frames(&run);
    gpu.complained++;
    assert_int_equal(run.error, -ENOENT);
    assert_true(messages_contain(&run.messages, "E kernel no_such_kernel: " NO_KERNEL));
    device.kernels = (const VgKernel[]){ { 0 } };
    run_frames(&run);
    assert_int_equal(run.error, -ENOENT);
    assert_true(messages_contain(&run.messages, "E frame 1, motion: No such file or directory\n"));
    next.metric = NULL;
    run_free(&run);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

/* Three frames of all metrics; the nth driver call of the library fails, for every n. */
static void every_failing_call_ends_cleanly(void **state)
{
    static const int codes[] = { CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN, CUDA_ERROR_LAUNCH_FAILED };
    (void)state;
    const size_t live = softgpu_live_objects(), bytes = softgpu_live_bytes();
    const unsigned long complained = complaints();
    for (unsigned variant = 0; variant < N_FAILING_ORDERS * N_HOWS * 3; variant++) {
        const How how = (How)(variant % N_HOWS);
        const int code = codes[variant / N_HOWS % 3];
#ifdef BRIEF /* slow: one code for each kind of frames; CUDA's plain build has all */
        if (code != codes[how % 3])
            continue;
#endif
        Run model = make_run(how, all_features);
        model.config.geometry = small;
        model.frames = 3;
        model.config.in_flight = 2;
        Run expected = expected_of(&model);
        unsigned failures = 0;
        unsigned long n = 0;
        do {
            Run run = model;
            softgpu_set_order(variant / N_HOWS / 3);
            memset(&driver, 0, sizeof(driver));
            driver.fail_at = ++n;
            driver.code = code;
            run_frames(&run);
            if (run.messages.counts[VG_LOG_ERROR] != (run.error ? 1 : 0) || (!run.error && differs(&run, &expected)))
                fail_msg("%s, code %d in call %lu: error %d, messages:\n%s", how_names[how], code, n, run.error,
                         run.messages.text);
            if (run.error && run.error != vg_device_errno(code))
                fail_msg("%s, code %d in call %lu: error %d, messages:\n%s", how_names[how], code, n, run.error,
                         run.messages.text);
            if (softgpu_live_objects() != live || softgpu_live_bytes() != bytes) {
                softgpu_print_live();
                fail_msg("%s, code %d in call %lu: not everything was freed", how_names[how], code, n);
            }
            if (complaints() != complained)
                fail_msg("%s, code %d in call %lu: a call was wrong", how_names[how], code, n);
            failures += run.error != 0;
            run_free(&run);
        } while (driver.calls >= n);
        print_message("# %s, code %d: %u of %lu runs failed\n", how_names[how], code, failures, n);
        assert_true(failures > 60);
        run_free(&expected);
    }
}

/* After an error nothing is under way: what was enqueued could read pictures that the caller has again. */
static void errors_leave_nothing_under_way(void **state)
{
    static const char *const calls[] = { LAUNCH_KERNEL, COPY_TO_HOST, EVENT_RECORD, EVENT_SYNCHRONIZE };
    (void)state;
    for (int how = 0; how < N_HOWS; how++) {
        for (unsigned c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
            Run run = make_run((How)how, all_features);
            softgpu_set_order(1);
            begin(&run);
            submit(&run, 0);
            submit(&run, 1);
            OK(run.error);
            VgPicture p[VG_N_SIDES];
            for (int side = 0; side < VG_N_SIDES; side++)
                p[side] = picture_take(&run.sources[side], &run.config.geometry, &planar, (unsigned)side);
            /* In their own streams pictures may be under way. */
            for (int side = 0; side < VG_N_SIDES; side++)
                OK(cuStreamSynchronize(gpu.streams[0][side]));
            assert_true(softgpu_pending() > 0);
            const int in_submit = c < 3;
            fail_call(calls[c], in_submit ? 2 - (c == 1) : 1, CUDA_ERROR_UNKNOWN);
            int err = in_submit ? vg_scorer_submit(run.scorer, &p[VG_DIST], &p[VG_REF])
                                : vg_scorer_collect(run.scorer, VG_WAIT_ONE);
            fail_at(0, 0);
            assert_int_equal(err, -EIO);
            assert_int_equal(softgpu_pending(), 0);
            for (int side = 0; side < VG_N_SIDES; side++)
                p[side].release(p[side].ref);
            run.error = err;
            end(&run);
            run_free(&run);
            softgpu_set_order(0);
        }
    }
}

static void a_lost_device_is_one_clear_error(void **state)
{
    static const int codes[] = { 700, 702, 710, 714, 715, 716, 717, 718, 719 };
    static const struct {
        const char *call;
        unsigned n;
    } at[] = { { LAUNCH_KERNEL, 9 }, { EVENT_SYNCHRONIZE, 2 }, { EVENT_RECORD, 7 }, { FREE, 1 } };
    (void)state;
    const size_t live = softgpu_live_objects();
    for (int how = 0; how < N_HOWS; how++) {
        for (unsigned a = 0; a < sizeof(at) / sizeof(at[0]); a++) {
            for (unsigned c = 0; c < sizeof(codes) / sizeof(codes[0]); c++) {
#ifdef __SANITIZE_ADDRESS__ /* slow: each code in a call with one kind of frames; CUDA's plain build has all */
                if ((a + c) % N_HOWS != (unsigned)how)
                    continue;
#endif
                Run run = make_run((How)how, all_features);
                begin(&run);
                OK(run.error);
                for (unsigned i = 0; i < 3; i++)
                    submit(&run, i);
                VgPicture p[VG_N_SIDES];
                for (int side = 0; side < VG_N_SIDES; side++)
                    p[side] = picture_take(&run.sources[side], &run.config.geometry, &planar, (unsigned)side);
                fail_call(at[a].call, a ? at[a].n : 1, codes[c]);
                int err = 0, submitted;
                do {
                    err = vg_scorer_collect(run.scorer, VG_WAIT_ONE);
                    submitted = err >= 0 ? vg_scorer_submit(run.scorer, &p[VG_DIST], &p[VG_REF]) : err;
                } while (0);
                if (submitted)
                    for (int side = 0; side < VG_N_SIDES; side++)
                        p[side].release(p[side].ref);
                err = vg_scorer_flush(run.scorer);
                vg_scorer_free(&run.scorer);
                fail_at(0, 0);
                for (int side = 0; side < VG_N_SIDES; side++)
                    picture_source_end(&run.sources[side]);
                assert_int_equal(softgpu_live_objects(), live);
                assert_int_equal(run.messages.counts[VG_LOG_ERROR], err ? 1 : 0);
                if (a == 0 || a == 1) {
                    char words[40];
                    snprintf(words, sizeof(words), "(%d, ", codes[c]);
                    assert_int_equal(err, -EIO);
                    assert_true(messages_contain(&run.messages, words));
                    assert_true(messages_contain(
                        &run.messages, "). The device does not answer this program any more: start it again"));
                }
                run_free(&run);
            }
        }
    }
}

static void too_little_memory_is_one_clear_error(void **state)
{
    (void)state;
    const size_t live = softgpu_live_objects();
    for (int how = 0; how < N_HOWS; how++) {
        unsigned refused = 0;
        for (size_t size = 0;; size = size * 5 / 4 + 64) {
            Run run = make_run((How)how, all_features);
            run.frames = 1;
            run.config.device = "1"; /* there are no pictures on it */
            place_pictures(&run.config, 1);
            softgpu_set_memory(size);
            begin(&run);
            softgpu_set_memory((size_t)1 << 30);
            if (!run.error) {
                end(&run);
                run_free(&run);
                break;
            }
            end(&run);
            refused++;
            assert_int_equal(run.error, -ENOMEM);
            assert_int_equal(run.messages.counts[VG_LOG_ERROR], 1);
            assert_true(messages_contain(&run.messages, " bytes of device memory for "));
            assert_true(messages_contain(&run.messages, ": " NO_MEMORY ". End "
                                                        "other programs that use the device, or lower in_flight\n"));
            assert_int_equal(softgpu_live_objects(), live);
            run_free(&run);
        }
        assert_true(refused > 5);
    }
}

#ifndef TEST_HIP /* what the tests notice is the same */

/* ---- Planted faults ---------------------------------------------------------------------------------------------- */

static int no_stream_wait(VgDevice *device, VgStream stream, VgEvent event)
{
    (void)device;
    (void)stream;
    (void)event;
    return 0;
}

static int no_event_synchronize(VgDevice *device, VgEvent event)
{
    (void)device;
    (void)event;
    return 0;
}

static int always_reached(VgDevice *device, VgEvent event)
{
    (void)device;
    (void)event;
    return 1;
}

static int no_copy_on_device(VgDevice *device, const VgCopy *copy, VgStream stream)
{
    return copy->kind == VG_COPY_ON_DEVICE ? 0 : TABLE.copy(device, copy, stream);
}

static int no_stream_synchronize(VgDevice *device, VgStream stream)
{
    (void)device;
    (void)stream;
    return 0;
}

/* In how many orders the run differs from the CPU's. */
static unsigned orders_that_show(Run *run, unsigned long orders)
{
    unsigned n = 0;
    Run expected = expected_of(run);
    next.table = &faulty;
    for (unsigned long order = 0; order < orders; order++) {
        softgpu_set_order(order);
        run_frames(run);
        n += (unsigned)differs(run, &expected);
        run_free(run);
    }
    next.table = NULL;
    softgpu_set_order(0);
    run_free(&expected);
    return n;
}

static VgEvent latest; /* recorded */
static unsigned dropped;

static int noted_record(VgDevice *device, VgEvent event, VgStream stream)
{
    latest = event;
    return TABLE.record(device, event, stream);
}

/* Each event is waited for as soon as it is recorded: what is waited for again belongs to an earlier frame. */
static int no_wait_for_earlier_frames(VgDevice *device, VgStream stream, VgEvent event)
{
    if (event == latest)
        return TABLE.stream_wait(device, stream, event);
    dropped++;
    return 0;
}

/* Whether it is seen that a lane does not wait for pictures of earlier frames, which other lanes wait for. */
static void check_missing_waits(Run *run)
{
    const int in_place = run->config.memory == MEMORY && run->config.history != VG_HISTORY_COPY;
    Run expected = expected_of(run);
    next.table = &faulty;
    dropped = 0;
    begin_with_the_latest(run);
    end(run);
    assert_int_equal(dropped > 0, in_place);
    assert_int_equal(differs(run, &expected), in_place);
    next.table = NULL;
    softgpu_set_order(0);
    run_free(run);
    run_free(&expected);
}

/* Lags are 1 and 2, and 1 of both sides. */
static void missing_waits_for_earlier_frames_are_seen(void **state)
{
    static const char *const features[] = { "motion", "motion:motion_five_frame_window=true", both_lags };
    (void)state;
    faulty = TABLE;
    faulty.record = noted_record;
    faulty.stream_wait = no_wait_for_earlier_frames;
    for (int how = 0; how < N_HOWS; how++) {
        for (unsigned frames = 2; frames <= 5; frames++) {
            const int both = frames == 5;
            Run run = make_run((How)how, features[both ? 2 : frames > 2]);
            if (both)
                run.config.geometry = small_of_both_lags;
            run.many_streams = how != UPLOADED;
            run.frames = run.config.in_flight = both ? 2 : frames;
            check_missing_waits(&run);
        }
    }
}

static uint64_t first_work;

static int enqueue_in_first_work(const void *params, const VgLauncher *launcher, const VgDeviceFrame *frame,
                                 uint64_t work, uint64_t record)
{
    if (!frame->index)
        first_work = work;
    return vg_device_float_ssim.enqueue(params, launcher, frame, first_work, record);
}

/* Lanes that share work memory. */
static void shared_work_memory_is_seen(void **state)
{
    (void)state;
    VgMetric metric = vg_metric_float_ssim;
    VgDeviceMetric device = vg_device_float_ssim;
    metric.device = &device;
    device.enqueue = enqueue_in_first_work;
    next.metric = &metric;
    faulty = TABLE;
    for (int how = 0; how < N_HOWS; how++) {
        Run run = make_run((How)how, "float_ssim:scale=2");
        run.config.geometry = small;
        const unsigned shown = orders_that_show(&run, 24);
        print_message("# %s: shared work memory shows in %u of 24 orders\n", how_names[how], shown);
        assert_true(shown > 0);
    }
}

static void planted_faults_are_seen(void **state)
{
    (void)state;
    for (int how = 0; how < N_HOWS; how++) {
#ifdef __SANITIZE_ADDRESS__ /* slow: one kind of frames; CUDA's plain build has all */
        if (how != COPIED)
            continue;
#endif
        Run run = make_run((How)how, all_features);
        run.config.geometry = small;
        run.layouts[VG_DIST] = &formats[5].layout;
        faulty = TABLE;
        assert_int_equal(orders_that_show(&run, 8), 0);
        faulty.stream_wait = no_stream_wait;
        const unsigned waits = orders_that_show(&run, 24);
        faulty = TABLE;
        faulty.event_synchronize = no_event_synchronize;
        const unsigned synchronisations = orders_that_show(&run, 8);
        faulty = TABLE;
        faulty.event_query = always_reached;
        run.poll = 1;
        const unsigned queries = orders_that_show(&run, 8);
        run.poll = 0;
        faulty = TABLE;
        faulty.copy = no_copy_on_device;
        const unsigned copies = orders_that_show(&run, 8);
        print_message(
            "# %s: a missing wait of a stream shows in %u of 24 orders, of the host in %u of 8, a hasty query in "
            "%u of 8, a missing copy in %u of 8\n",
            how_names[how], waits, synchronisations, queries, copies);
        assert_true(waits >= 1);
        assert_true(synchronisations >= 4);
        assert_true(queries >= 4);
        assert_int_equal(copies, how == COPIED ? 8 : 0);

        /* An error that does not wait for what is under way. */
        faulty = TABLE;
        faulty.stream_synchronize = no_stream_synchronize;
        next.table = &faulty;
        softgpu_set_order(1);
        begin(&run);
        fail_call(COPY_TO_HOST, 1, CUDA_ERROR_UNKNOWN);
        VgPicture p[VG_N_SIDES];
        for (int side = 0; side < VG_N_SIDES; side++)
            p[side] = picture_take(&run.sources[side], &run.config.geometry, &planar, (unsigned)side);
        for (int side = 0; side < VG_N_SIDES; side++)
            OK(cuStreamSynchronize(gpu.streams[0][side]));
        run.error = vg_scorer_submit(run.scorer, &p[VG_DIST], &p[VG_REF]);
        assert_int_equal(run.error, -EIO);
        assert_true(softgpu_pending() > 0); /* what errors_leave_nothing_under_way() forbids */
        next.table = NULL;
        softgpu_set_order(0);
        for (int side = 0; side < VG_N_SIDES; side++)
            p[side].release(p[side].ref);
        end(&run);
        run_free(&run);
    }
}

#endif

/* A test of what is common to all tables; cmocka leaves out what has no name. */
#define COMMON(test)                                                                                                   \
    {                                                                                                                  \
        .name = WITH_COMMON ? #test : NULL, .test_func = test, .setup_func = before_each                               \
    }

int main(void)
{
    setenv("SOFTGPU_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        COMMON(options_agree),
        COMMON(speed_agrees),
        COMMON(golden_values_of_speed),
        cmocka_unit_test_setup(any_number_of_frames_in_flight_agrees, before_each),
        COMMON(formats_agree),
        COMMON(formats_of_both_lags_agree),
        COMMON(layouts_may_change),
        cmocka_unit_test_setup(samples_too_far_apart_to_be_copied_are_refused, before_each),
        COMMON(rows_may_overlap),
        COMMON(any_order_of_streams_agrees),
        COMMON(the_host_waits_once_a_frame),
        cmocka_unit_test_setup(frames_that_are_left_out_cost_nothing, before_each),
        cmocka_unit_test_setup(lanes_run_beside_each_other, before_each),
        cmocka_unit_test_setup(much_work_memory_means_one_lane, before_each),
        cmocka_unit_test_setup(scorers_and_devices_do_not_disturb_each_other, before_each),
#ifndef TEST_HIP
        cmocka_unit_test_setup(contexts_are_as_the_caller_wants, before_each),
#endif
        cmocka_unit_test_setup(what_is_used_is_said, before_each),
        cmocka_unit_test_setup(every_failing_call_ends_cleanly, before_each),
        cmocka_unit_test_setup(errors_leave_nothing_under_way, before_each),
        cmocka_unit_test_setup(a_lost_device_is_one_clear_error, before_each),
        cmocka_unit_test_setup(too_little_memory_is_one_clear_error, before_each),
#ifndef TEST_HIP
        cmocka_unit_test_setup(planted_faults_are_seen, before_each),
        cmocka_unit_test_setup(missing_waits_for_earlier_frames_are_seen, before_each),
        cmocka_unit_test_setup(shared_work_memory_is_seen, before_each),
#endif
    };
    if (getenv("TESTS")) /* not all of them */
        cmocka_set_test_filter(getenv("TESTS"));
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
