/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Device and CPU together, on the software device: parity, fallback, downloads, failures of every driver call.
 */
#include "tests/cmocka_includes.h"

#include "engine/parity.h"
#include "engine/scorer.h"
#include "kernels/kernel_host.h"
#include "shared_math/cambi.h"
#include "shared_math/float_ssim.h"
#include "shared_math/psnr.h"
#include "tests/messages.h"
#include "tests/pictures.h"
#include "tests/softgpu/driver_api.h"
#include "tests/softgpu/softgpu.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

static struct {
    CUcontext context;
    CUstream streams[VG_N_SIDES]; /* in which the pictures of each side are made */
} gpu;

/* ---- Pictures ---------------------------------------------------------------------------------------------------- */

static const PictureLayout planar = { .name = "planar", .sample_bytes = 1 };

static const PictureLayout layouts_8[] = {
    { .name = "planar", .sample_bytes = 1, .gap = 13, .lead = 5 },
    { .name = "nv12", .sample_bytes = 1, .interleaved = 1, .gap = 32 },
    { .name = "nv21, bottom up", .sample_bytes = 1, .interleaved = 1, .bottom_up = 1, .cr_first = 1 },
    { .name = "bottom up", .sample_bytes = 1, .bottom_up = 1, .gap = 5 },
    { .name = "words", .sample_bytes = 2, .shift = 3, .gap = 2 },
    { .name = "samples apart", .sample_bytes = 1, .apart = 7, .gap = 3 },
    { .name = "words apart, interleaved", .sample_bytes = 2, .shift = 8, .apart = 3, .interleaved = 1 },
};
static const PictureLayout layouts_10[] = {
    { .name = "planar", .sample_bytes = 2 },
    { .name = "p010", .sample_bytes = 2, .shift = 6, .interleaved = 1, .gap = 64 },
    { .name = "high bits, bottom up", .sample_bytes = 2, .shift = 6, .bottom_up = 1 },
};
static const PictureLayout packed = { .name = "packed", .sample_bytes = 2, .shift = 2, .packed = 4, .gap = 4 };

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

static const char lag_1[] = "psnr:enable_mse=true|float_ssim:enable_lcs=true|motion:debug=true";
static const char lag_2[] = "psnr:enable_mse=true|float_ssim:enable_lcs=true|motion:debug=true|"
                            "motion:motion_five_frame_window=true";
static const VgGeometry small_8 = { 35, 27, VG_CHROMA_420, 8 };

/* With the only metric that looks back at the distorted side. Enlarged, small planes will do. */
static const char lag_of_both[] = "psnr|float_ssim|speed_temporal:speed_prescale=4:speed_use_ref_diff=true";
static const VgGeometry small_of_both = { 45, 41, VG_CHROMA_420, 8 };

/* What a run is made of, and what came of it. */
typedef struct Run {
    VgScorerConfig config;
    const VgBackend *backend; /* NULL: the configuration's */
    const PictureLayout *ref, *dist;
    unsigned frames;
    Messages messages;
    uint64_t compared, different;
    unsigned lookback;
} Run;

static Run make_run(VgMemory memory, VgBackendKind backend, const char *features)
{
    Run run = { .config = VG_SCORER_CONFIG_INIT, .ref = &planar, .dist = &planar, .frames = 9 };
    run.config.geometry = small_8;
    run.config.features = features;
    run.config.memory = memory;
    run.config.backend = backend;
    run.config.device_context = memory == VG_MEMORY_CUDA ? gpu.context : NULL;
    run.config.log = messages_log;
    return run;
}

static int submit(Run *run, VgScorer *s, PictureSource *ref, PictureSource *dist, unsigned frame)
{
    VgPicture d = picture_take(dist, &run->config.geometry, run->dist, 2 * frame);
    VgPicture r = picture_take(ref, &run->config.geometry, run->ref, 2 * frame + 1);
    int err;
    while ((err = vg_scorer_submit(s, &d, &r)) == -EAGAIN) {
        err = vg_scorer_collect(s, VG_WAIT_ONE);
        if (err < 0)
            break;
    }
    if (err < 0) { /* they remained ours */
        d.release(d.ref);
        r.release(r.ref);
        return err;
    }
    const PictureSource *const sources[VG_N_SIDES] = { [VG_REF] = ref, [VG_DIST] = dist };
    for (int side = 0; side < VG_N_SIDES; side++)
        assert_true(sources[side]->held <= (int)(s->plan.in_flight + (s->plan.copy_history ? 0 : s->plan.lag[side])));
    return 0;
}

/* Gives the scores with every digit, or NULL and an error. */
static char *run_all(Run *run, int *error)
{
    VgScorer *s;
    char *scores = NULL;
    PictureSource ref = { .memory = run->config.memory, .stream = gpu.streams[VG_REF] };
    PictureSource dist = { .memory = run->config.memory, .stream = gpu.streams[VG_DIST] };
    memset(&run->messages, 0, sizeof(run->messages));
    run->config.log_opaque = &run->messages;
    int err = vg_scorer_create_on(&s, &run->config, run->backend);
    for (unsigned i = 0; !err && i < run->frames; i++) {
        err = submit(run, s, &ref, &dist, i);
        if (!err && i % 3 == 1 && (err = vg_scorer_collect(s, VG_WAIT_NONE)) > 0)
            err = 0;
    }
    if (!err)
        err = vg_scorer_flush(s);
    if (!err) {
        scores = scores_of(s);
        run->different = vg_scorer_parity(s, &run->compared);
        run->lookback = vg_scorer_lookback(s);
    }
    vg_scorer_free(&s);
    picture_source_end(&ref);
    picture_source_end(&dist);
    *error = err;
    return scores;
}

/* The scores of a run that must succeed. */
static char *run_well(Run *run)
{
    int err;
    char *scores = run_all(run, &err);
    if (err)
        fail_msg("error %d: %s", err, run->messages.text);
    return scores;
}

/* The CPU's scores of the same frames. */
static char *expected_scores(const Run *run)
{
    Run cpu = *run;
    cpu.config.backend = VG_BACKEND_CPU;
    cpu.config.memory = VG_MEMORY_HOST;
    cpu.config.parity_every = 0;
    cpu.config.fallback = VG_FALLBACK_ERROR;
    cpu.backend = NULL;
    char *scores = run_well(&cpu);
    assert_true(strlen(scores) > 500);
    return scores;
}

static void assert_scores(const char *got, const char *expected, const char *what)
{
    if (strcmp(got, expected))
        fail_msg("%s: scores differ:\n%s\nrather than\n%s", what, got, expected);
}

/* psnr and motion, or SpEED, see every frame, float_ssim every scored one. */
static uint64_t records_to_compare(const VgScorerConfig *config, unsigned frames)
{
    uint64_t n = 0;
    for (unsigned f = 0; config->parity_every && f < frames; f += config->parity_every)
        n += 2 + (f % (config->n_subsample ? config->n_subsample : 1) == 0);
    return n;
}

static void check_run(Run *run, const char *expected)
{
    char what[200];
    const VgScorerConfig *c = &run->config;
    snprintf(what, sizeof(what), "memory %d, backend %d, parity %u, in_flight %u, subsample %u, history %d, %s, %s",
             c->memory, c->backend, c->parity_every, c->in_flight, c->n_subsample, c->history, run->dist->name,
             run->ref->name);
    char *got = run_well(run);
    assert_scores(got, expected, what);
    free(got);
    if (run->different || run->compared != records_to_compare(c, run->frames) || run->messages.counts[VG_LOG_WARNING] ||
        run->messages.counts[VG_LOG_ERROR])
        fail_msg("%s: %" PRIu64 " of %" PRIu64 " records differ: %s", what, run->different, run->compared,
                 run->messages.text);
    char total[100];
    snprintf(total, sizeof(total), "I parity: %" PRIu64 " records of %u frames compared, all equal", run->compared,
             c->parity_every ? (run->frames + c->parity_every - 1) / c->parity_every : 0);
    assert_int_equal(messages_contain(&run->messages, total), c->parity_every != 0);
}

/* ---- A plan with something changed in it ------------------------------------------------------------------------- */

static struct {
    const VgDeviceTable *table;
    const VgMetric *metric; /* instead of the one of that name */
} patch;

static int patched_open(void **context, const VgPlan *plan, const VgLog *log)
{
    if (patch.table)
        ((VgPlan *)plan)->device = patch.table;
    for (unsigned i = 0; patch.metric && i < plan->n_passes; i++)
        if (!strcmp(plan->passes[i].metric->info.name, patch.metric->info.name))
            plan->passes[i].metric = patch.metric;
    return vg_backend_both.open(context, plan, log);
}

static VgBackend patched;

static int set_up(void **state)
{
    (void)state;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&gpu.context, 0, 0));
    for (int i = 0; i < VG_N_SIDES; i++)
        OK(cuStreamCreate(&gpu.streams[i], 1));
    patched = vg_backend_both;
    patched.open = patched_open;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < VG_N_SIDES; i++)
        OK(cuStreamDestroy_v2(gpu.streams[i]));
    OK(cuCtxDestroy_v2(gpu.context));
    assert_int_equal(softgpu_live_objects(), 0);
    assert_int_equal(softgpu_complaints(), 0);
    return 0;
}

static int before_each(void **state)
{
    (void)state;
    patch.table = NULL;
    patch.metric = NULL;
    softgpu_fail_at(0, 0);
    softgpu_set_order(0);
    return 0;
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void scores_equal_the_cpus(void **state)
{
    (void)state;
    for (unsigned variant = 0; variant < 4; variant++) {
        Run cpu = make_run(VG_MEMORY_HOST, VG_BACKEND_CPU, variant & 1 ? lag_2 : lag_1);
        cpu.config.n_subsample = variant & 2 ? 3 : 1;
        char *expected = expected_scores(&cpu);
        for (unsigned parity = 0; parity <= 3; parity++) {
            for (unsigned in_flight = 1; in_flight <= 5; in_flight++) {
                for (int how = 0; how < 3; how++) {
#ifdef __SANITIZE_ADDRESS__ /* slow: each pair of the above with one kind of pictures; the plain build has all */
                    if ((parity + in_flight + (unsigned)how) % 3)
                        continue;
#endif
                    Run run = make_run(how ? VG_MEMORY_CUDA : VG_MEMORY_HOST, VG_BACKEND_CUDA, cpu.config.features);
                    run.config.n_subsample = cpu.config.n_subsample;
                    run.config.history = how == 2 ? VG_HISTORY_COPY : VG_HISTORY_AUTO;
                    run.config.parity_every = parity;
                    run.config.fallback = VG_FALLBACK_CPU; /* without parity, too, both back ends are asked for */
                    run.config.in_flight = in_flight;
                    check_run(&run, expected);
                    assert_int_equal(run.lookback, how == 2 ? 0 : 1 + (variant & 1));
                }
            }
        }
        free(expected);
    }
}

static void looks_back_at_both_sides(void **state)
{
    (void)state;
    Run cpu = make_run(VG_MEMORY_HOST, VG_BACKEND_CPU, lag_of_both);
    cpu.config.geometry = small_of_both;
    char *expected = expected_scores(&cpu);
    for (unsigned parity = 0; parity <= 3; parity++) {
        for (int how = 0; how < 3; how++) {
            Run run = make_run(how ? VG_MEMORY_CUDA : VG_MEMORY_HOST, VG_BACKEND_CUDA, lag_of_both);
            run.config.geometry = small_of_both;
            run.config.history = how == 2 ? VG_HISTORY_COPY : VG_HISTORY_AUTO;
            run.config.parity_every = parity;
            run.config.fallback = VG_FALLBACK_CPU;
            run.config.in_flight = 1 + (parity + (unsigned)how) % 4;
            for (unsigned seed = 0; seed < 3; seed++) {
                softgpu_set_order(seed);
                check_run(&run, expected);
            }
            assert_int_equal(run.lookback, how == 2 ? 0 : 1);
        }
    }
    free(expected);
}

static void reads_every_layout(void **state)
{
    (void)state;
    static const VgGeometry geometries[] = {
        { 35, 27, VG_CHROMA_420, 8 }, { 36, 20, VG_CHROMA_422, 8 },  { 23, 21, VG_CHROMA_444, 8 },
        { 19, 31, VG_CHROMA_400, 8 }, { 35, 27, VG_CHROMA_420, 10 }, { 22, 24, VG_CHROMA_444, 10 },
    };
    for (size_t g = 0; g < sizeof(geometries) / sizeof(geometries[0]); g++) {
        const int deep = geometries[g].bit_depth > 8;
        const PictureLayout *layouts = deep ? layouts_10 : layouts_8;
        const size_t n = deep ? sizeof(layouts_10) / sizeof(layouts_10[0]) : sizeof(layouts_8) / sizeof(layouts_8[0]);
        Run run = make_run(VG_MEMORY_CUDA, VG_BACKEND_CUDA, lag_2);
        run.config.geometry = geometries[g];
        run.frames = 4;
        run.ref = run.dist = &layouts[0];
        char *expected = expected_scores(&run);
        for (size_t i = 0; i < n; i++) {
            run.ref = &layouts[i];
            run.dist = &layouts[(i + g) % n];
            run.config.backend = VG_BACKEND_CUDA;
            run.config.parity_every = 1;
            check_run(&run, expected);
            run.config.backend = VG_BACKEND_CPU; /* downloads alone */
            run.config.parity_every = 0;
            check_run(&run, expected);
            assert_int_equal(run.lookback, 0);
        }
        if (geometries[g].chroma == VG_CHROMA_444) {
            run.ref = run.dist = &packed;
            check_run(&run, expected);
            run.config.backend = VG_BACKEND_CUDA;
            run.config.parity_every = 1;
            check_run(&run, expected);
        }
        free(expected);
    }
}

/* Rows of a picture may overlap: here all are the same one. */
static void reads_rows_that_overlap(void **state)
{
    (void)state;
    static const VgGeometry geometry = { 24, 16, VG_CHROMA_400, 8 };
    double scores[2];
    for (int on_device = 0; on_device < 2; on_device++) {
        Run run = make_run(on_device ? VG_MEMORY_CUDA : VG_MEMORY_HOST, VG_BACKEND_CPU, "psnr");
        PictureSource source = { .memory = run.config.memory, .stream = gpu.streams[0] };
        VgScorer *s;
        run.config.geometry = geometry;
        run.config.log_opaque = &run.messages;
        assert_int_equal(vg_scorer_create(&s, &run.config), 0);
        VgPicture d = picture_take(&source, &geometry, &planar, 1), r = picture_take(&source, &geometry, &planar, 2);
        d.pitch[0] = 0;
        r.pitch[0] = 3;
        assert_int_equal(vg_scorer_submit(s, &d, &r), 0);
        assert_int_equal(vg_scorer_flush(s), 0);
        assert_int_equal(vg_scorer_score(s, 0, 0, &scores[on_device]), 0);
        vg_scorer_free(&s);
        picture_source_end(&source);
    }
    assert_true(scores[0] == scores[1]);
}

static void any_order_of_streams_gives_the_same_scores(void **state)
{
    (void)state;
    Run run = make_run(VG_MEMORY_CUDA, VG_BACKEND_CUDA, lag_2);
    char *expected = expected_scores(&run);
    for (unsigned seed = 1; seed <= 21; seed++) {
        softgpu_set_order(seed);
        run.config.parity_every = 1 + seed % 3;
        run.config.in_flight = 1 + seed % 4;
        run.config.history = seed % 2 ? VG_HISTORY_COPY : VG_HISTORY_REF;
        run.config.backend = VG_BACKEND_CUDA;
        check_run(&run, expected);
        run.config.backend = VG_BACKEND_CPU;
        run.config.parity_every = 0;
        check_run(&run, expected);
    }
    free(expected);
}

/* ---- Differences ------------------------------------------------------------------------------------------------- */

/* Frames 4, 5 and 6 get a wrong byte into their record. */
static int tampering_enqueue(const VgDeviceMetric *real, const void *params, const VgLauncher *launcher,
                             const VgDeviceFrame *frame, uint64_t work, uint64_t record, size_t at, uint8_t value,
                             size_t size)
{
    int err = real->enqueue(params, launcher, frame, work, record);
    if (!err && frame->index >= 4 && frame->index <= 6)
        err = launcher->fill(launcher->context, record + at, value, size);
    return err;
}

static int tampering_psnr(const void *params, const VgLauncher *launcher, const VgDeviceFrame *frame, uint64_t work,
                          uint64_t record)
{
    const size_t at = offsetof(VgPsnrRecord, sse) + sizeof(uint64_t) + 1;
    return tampering_enqueue(&vg_device_psnr, params, launcher, frame, work, record, at, 0x5a, 1);
}

static int tampering_ssim(const void *params, const VgLauncher *launcher, const VgDeviceFrame *frame, uint64_t work,
                          uint64_t record)
{
    const size_t at = offsetof(VgFloatSsimRecord, ssim);
    return tampering_enqueue(&vg_device_float_ssim, params, launcher, frame, work, record, at, 0x3f, sizeof(float));
}

static uint64_t sse_of_cb(unsigned frame)
{
    uint64_t sum = 0;
    for (uint32_t y = 0; y < small_8.height / 2; y++) {
        for (uint32_t x = 0; x < small_8.width / 2; x++) {
            const int64_t d = (int64_t)picture_sample(&small_8, 2 * frame, 1, x, y) -
                              (int64_t)picture_sample(&small_8, 2 * frame + 1, 1, x, y);
            sum += (uint64_t)(d * d);
        }
    }
    return sum;
}

static double score_in(const char *scores, const char *key, unsigned frame)
{
    char start[100];
    double v = 0;
    snprintf(start, sizeof(start), "%s %u ", key, frame);
    const char *at = strstr(scores, start);
    if (!at || sscanf(at + strlen(start), "%la", &v) != 1)
        fail_msg("no score %s", start);
    return v;
}

static void names_the_first_difference_in_integers(void **state)
{
    (void)state;
    VgDeviceMetric device = vg_device_psnr;
    VgMetric metric = vg_metric_psnr;
    device.enqueue = tampering_psnr;
    metric.device = &device;
    patch.metric = &metric;
    for (int memory = VG_MEMORY_HOST; memory <= VG_MEMORY_CUDA; memory++) {
        Run run = make_run((VgMemory)memory, VG_BACKEND_CUDA, lag_1);
        run.backend = &patched;
        run.config.parity_every = 2;
        char *got = run_well(&run), *expected = expected_scores(&run), line[300];
        const uint64_t cpu = sse_of_cb(4), wrong = (cpu & ~UINT64_C(0xff00)) | 0x5a00;
        const uint64_t cpu_6 = sse_of_cb(6), wrong_6 = (cpu_6 & ~UINT64_C(0xff00)) | 0x5a00;
        assert_int_not_equal(cpu, wrong);
        assert_int_not_equal(cpu_6, wrong_6);
        assert_int_equal(run.compared, 15);
        assert_int_equal(run.different, 2); /* nobody looked at frame 5 */
        snprintf(line, sizeof(line),
                 "E parity: frame 4, psnr, sse[1]: the device has %" PRIu64 ", the CPU %" PRIu64 "\n", wrong, cpu);
        assert_true(messages_contain(&run.messages, line));
        snprintf(line, sizeof(line),
                 "D parity: frame 6, psnr, sse[1]: the device has %" PRIu64 ", the CPU %" PRIu64 "\n", wrong_6, cpu_6);
        assert_true(messages_contain(&run.messages, line));
        assert_true(
            messages_contain(&run.messages, "E parity: 15 records of 5 frames compared, 2 differ, first in frame 4\n"));
        assert_int_equal(run.messages.counts[VG_LOG_ERROR], 2);
        /* The device's record is what is scored. */
        const double samples = (double)(small_8.width / 2 * (small_8.height / 2));
        assert_true(score_in(got, "mse_cb", 4) == (double)wrong / samples);
        assert_true(score_in(expected, "mse_cb", 4) == (double)cpu / samples);
        assert_true(score_in(got, "mse_cb", 3) == score_in(expected, "mse_cb", 3));
        free(got);
        free(expected);
    }
}

static void names_the_first_difference_in_floats(void **state)
{
    (void)state;
    VgDeviceMetric device = vg_device_float_ssim;
    VgMetric metric = vg_metric_float_ssim;
    device.enqueue = tampering_ssim;
    metric.device = &device;
    patch.metric = &metric;
    Run run = make_run(VG_MEMORY_CUDA, VG_BACKEND_CUDA, lag_1);
    run.backend = &patched;
    run.config.parity_every = 3;
    run.config.n_subsample = 2;
    char *got = run_well(&run), *expected = expected_scores(&run), line[300];
    const float cpu = (float)score_in(expected, "float_ssim", 6);
    const uint32_t wrong_bits = 0x3f3f3f3f;
    uint32_t cpu_bits;
    float wrong;
    memcpy(&cpu_bits, &cpu, sizeof(cpu_bits));
    memcpy(&wrong, &wrong_bits, sizeof(wrong));
    snprintf(line, sizeof(line),
             "E parity: frame 6, float_ssim, ssim: the device has %.17g (0x%08x), the CPU %.17g (0x%08x)\n",
             (double)wrong, wrong_bits, (double)cpu, cpu_bits);
    assert_true(messages_contain(&run.messages, line));
    /* Frames 0, 3 and 6, of which 3 is not scored; 4 is scored, but not compared. */
    assert_true(
        messages_contain(&run.messages, "E parity: 8 records of 3 frames compared, 1 differ, first in frame 6"));
    assert_int_equal(run.compared, 8);
    assert_int_equal(run.different, 1);
    assert_true(score_in(got, "float_ssim", 4) == (double)wrong);
    free(got);
    free(expected);
}

/* Every type of field, with the numbers that tell types apart. */
static void words_of_a_difference(void **state)
{
    (void)state;
    typedef struct Record {
        int32_t i[2];
        uint32_t u;
        float f;
        int64_t l;
        uint64_t n;
        double d[2];
    } Record;
    static const VgRecordField fields[] = {
        { "i", VG_FIELD_I32, offsetof(Record, i), 2 },
        { "u", VG_FIELD_U32, offsetof(Record, u), 1 },
        { "f", VG_FIELD_F32, offsetof(Record, f), 1 },
        { "l", VG_FIELD_I64, offsetof(Record, l), 1 },
        { "n", VG_FIELD_U64, offsetof(Record, n), 1 },
        { "d", VG_FIELD_F64, offsetof(Record, d), 2 },
        { 0 },
    };
    static const VgMetric metric = { .info = { .name = "made up" }, .record_size = sizeof(Record), .fields = fields };
    static const struct {
        Record device;
        const char *words;
    } cases[] = {
        { { .i = { 0, -7 } }, "i[1]: the device has -7, the CPU 0" },
        { { .u = 4294967295u }, "u: the device has 4294967295, the CPU 0" },
        { { .f = -0.0f }, "f: the device has -0 (0x80000000), the CPU 0 (0x00000000)" },
        { { .l = INT64_MIN }, "l: the device has -9223372036854775808, the CPU 0" },
        { { .n = UINT64_MAX }, "n: the device has 18446744073709551615, the CPU 0" },
        { { .d = { 0, 0.1 } },
          "d[1]: the device has 0.10000000000000001 (0x3fb999999999999a), the CPU 0 (0x0000000000000000)" },
        { { .u = 3, .d = { 1, 0 } }, "u: the device has 3, the CPU 0" }, /* the first one */
    };
    const Record zero = { 0 };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Messages m = { 0 };
        const VgLog log = { messages_log, &m };
        VgParity parity = { 0 };
        char line[300];
        vg_parity_compare(&parity, &log, 3, &metric, NULL, &zero, &zero);
        assert_int_equal(parity.different, 0);
        vg_parity_compare(&parity, &log, UINT64_C(1) << 33, &metric, NULL, &cases[i].device, &zero);
        vg_parity_compare(&parity, &log, 9, &metric, NULL, &cases[i].device, &zero);
        assert_int_equal(parity.compared, 3);
        assert_int_equal(parity.different, 2);
        assert_true(parity.first == UINT64_C(1) << 33);
        snprintf(line, sizeof(line), "E parity: frame 8589934592, made up, %s\nD parity: frame 9, made up, %s\n",
                 cases[i].words, cases[i].words);
        assert_string_equal(m.text, line);
    }
}

typedef struct Planes {
    uint64_t n;
    uint16_t samples[6];
} Planes;

static size_t planes_of_params(const void *params)
{
    return *(const int *)params ? sizeof(((Planes *)NULL)->samples) : 0;
}

static void name_of_sample(const void *params, size_t index, char *name, size_t name_size)
{
    (void)params;
    snprintf(name, name_size, "sample %zu", index);
}

static void planes_behind_records_are_compared(void **state)
{
    static const VgRecordField fields[] = { { "n", VG_FIELD_U64, 0, 1 }, { 0 } };
    static const VgMetric metric = { .info = { .name = "made up" },
                                     .record_size = 8,
                                     .fields = fields,
                                     .planes_size = planes_of_params,
                                     .sample_name = name_of_sample };
    static const struct {
        Planes device;
        const char *words;
    } cases[] = {
        { { .samples = { 65535, 1 } }, "sample 0: the device has 65535, the CPU 0" },
        { { .samples = { 0, 0, 256, 7 } }, "sample 2: the device has 256, the CPU 0" },
        { { .samples = { 0, 0, 0, 0, 0, 1 } }, "sample 5: the device has 1, the CPU 0" },
        { { .n = 1, .samples = { 1 } }, "n: the device has 1, the CPU 0" }, /* the first one */
    };
    const Planes zero = { 0 };
    const int with = 1, without = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Messages m = { 0 };
        const VgLog log = { messages_log, &m };
        VgParity parity = { 0 };
        char line[300];
        vg_parity_compare(&parity, &log, 0, &metric, &with, &zero, &zero);
        if (!cases[i].device.n)
            vg_parity_compare(&parity, &log, 1, &metric, &without, &cases[i].device, &zero);
        assert_int_equal(parity.different, 0);
        vg_parity_compare(&parity, &log, 2, &metric, &with, &cases[i].device, &zero);
        assert_int_equal(parity.different, 1);
        snprintf(line, sizeof(line), "E parity: frame 2, made up, %s\n", cases[i].words);
        assert_string_equal(m.text, line);
    }
    char name[100];
    const VgCambiParams params = { .heatmaps = 1, .speedup = 1, .sides = { { .width = 40, .height = 30 } } };
    assert_int_equal(vg_record_size(&vg_metric_cambi, &params),
                     sizeof(VgCambiRecord) + 2 * (20 * 15 + 10 * 8 + 5 * 4 + 3 * 2 + 2 * 1));
    vg_metric_cambi.sample_name(&params, 0, name, sizeof(name));
    assert_string_equal(name, "heatmap of scale 0 at x 0, y 0");
    vg_metric_cambi.sample_name(&params, 20 * 15 + 10 * 8 + 5 * 4 - 1, name, sizeof(name));
    assert_string_equal(name, "heatmap of scale 2 at x 4, y 3");
    vg_metric_cambi.sample_name(&params, 20 * 15 + 10 * 8 + 5 * 4 + 3 * 2 + 1, name, sizeof(name));
    assert_string_equal(name, "heatmap of scale 4 at x 1, y 0");
}

static void fields_cover_the_record(void **state)
{
    (void)state;
    for (const VgMetric *const *m = vg_metrics; *m; m++) {
        size_t end = 0;
        assert_non_null((*m)->fields);
        for (const VgRecordField *f = (*m)->fields; f->name; f++) {
            assert_int_equal(f->offset, end);
            assert_true(f->count >= 1);
            end += f->count * vg_record_field_size(f);
        }
        assert_int_equal(end, (*m)->record_size);
    }
}

/* ---- Downloads --------------------------------------------------------------------------------------------------- */

static struct {
    VgDeviceTable table;
    unsigned pictures; /* copies of several rows to the host: a plane, or a pair of them */
} counting;

static int counting_copy(VgDevice *device, const VgCopy *copy, VgStream stream)
{
    counting.pictures += copy->kind == VG_COPY_TO_HOST && copy->rows > 1;
    return vg_table_cuda.copy(device, copy, stream);
}

/* Luma-only pictures: one copy each. */
static void downloads_only_what_the_cpu_reads(void **state)
{
    (void)state;
    static const char *const features[] = { "psnr|float_ssim", "motion", "motion:motion_five_frame_window=true",
                                            lag_of_both };
    /* Of 9 frames, both sides of the compared ones; of the others, the reference if a later one looks back at it, be it
       one that will not come: [look-back][parity_every]. In the last row, both sides. */
    static const unsigned expected[4][5] = {
        { 0, 18, 10, 6, 6 }, { 0, 18, 14, 9, 8 }, { 0, 18, 14, 12, 10 }, { 0, 18, 18, 12, 10 }
    };
    counting.table = vg_table_cuda;
    counting.table.copy = counting_copy;
    patch.table = &counting.table;
    for (unsigned lag = 0; lag <= 3; lag++) {
        for (unsigned parity = 0; parity <= 4; parity++) {
            Run run = make_run(VG_MEMORY_CUDA, VG_BACKEND_CUDA, features[lag]);
            run.backend = &patched;
            run.config.geometry = lag == 3 ? small_of_both : small_8;
            run.config.geometry.chroma = VG_CHROMA_400;
            run.config.parity_every = parity;
            run.config.fallback = VG_FALLBACK_CPU;
            counting.pictures = 0;
            free(run_well(&run));
            if (counting.pictures != expected[lag][parity])
                fail_msg("look-back %u, parity %u: %u pictures were downloaded, not %u", lag, parity, counting.pictures,
                         expected[lag][parity]);
        }
    }
    /* An interleaved pair of planes is copied once. */
    Run run = make_run(VG_MEMORY_CUDA, VG_BACKEND_CUDA, "psnr");
    run.backend = &patched;
    run.config.parity_every = 1;
    counting.pictures = 0;
    free(run_well(&run));
    assert_int_equal(counting.pictures, 9 * 2 * 3);
    run.ref = run.dist = &layouts_8[1];
    counting.pictures = 0;
    free(run_well(&run));
    assert_int_equal(counting.pictures, 9 * 2 * 2);
}

/* ---- Fallback ---------------------------------------------------------------------------------------------------- */

static int cannot(const void *params, char *why, size_t why_size)
{
    (void)params;
    snprintf(why, why_size, "the moon is full");
    return -1;
}

static void passes_that_the_device_cannot_do_go_to_the_cpu(void **state)
{
    (void)state;
    static const VgMetric *const metrics[] = { &vg_metric_psnr, &vg_metric_float_ssim, &vg_metric_motion };
    for (int variant = 0; variant < 12; variant++) {
        const VgMemory memory = variant / 3 % 2 ? VG_MEMORY_CUDA : VG_MEMORY_HOST;
        const int refusing = variant / 6;
        VgMetric metric = *metrics[variant % 3];
        VgDeviceMetric device = *metric.device;
        device.check = cannot;
        metric.device = refusing ? &device : NULL;
        patch.metric = &metric;
        for (unsigned parity = 0; parity <= 2; parity++) {
            Run run = make_run(memory, VG_BACKEND_CUDA, lag_2);
            char *expected = expected_scores(&run), words[200];
            run.backend = &patched;
            run.config.fallback = VG_FALLBACK_CPU;
            run.config.parity_every = parity;
            run.config.in_flight = 1 + (unsigned)variant % 4;
            char *got = run_well(&run);
            assert_scores(got, expected, metric.info.name);
            snprintf(words, sizeof(words), "W %s is scored on the CPU: %s\n", metric.info.name,
                     refusing ? "the moon is full" : "there are no kernels for it");
            assert_true(messages_contain(&run.messages, words));
            assert_int_equal(run.messages.counts[VG_LOG_WARNING], 1);
            assert_int_equal(run.messages.counts[VG_LOG_ERROR], 0);
            assert_int_equal(run.compared, parity ? 2 * ((run.frames + parity - 1) / parity) : 0); /* the others */
            free(got);
            free(expected);

            int err;
            run.config.fallback = VG_FALLBACK_ERROR;
            assert_null(run_all(&run, &err));
            assert_int_equal(err, -ENOTSUP);
            assert_int_equal(run.messages.counts[VG_LOG_ERROR], 1);
            assert_int_equal(run.messages.counts[VG_LOG_WARNING], 0);
            assert_true(messages_contain(&run.messages, metric.info.name));
        }
    }
}

/* All passes, so that the device has nothing left to do. */
static void the_cpu_may_do_everything(void **state)
{
    (void)state;
    VgMetric metric = vg_metric_psnr;
    metric.device = NULL;
    patch.metric = &metric;
    for (int memory = VG_MEMORY_HOST; memory <= VG_MEMORY_CUDA; memory++) {
        Run run = make_run((VgMemory)memory, VG_BACKEND_CUDA, "psnr:enable_mse=true");
        char *expected = expected_scores(&run);
        run.backend = &patched;
        run.config.fallback = VG_FALLBACK_CPU;
        run.config.parity_every = 1;
        char *got = run_well(&run);
        assert_scores(got, expected, "psnr");
        assert_int_equal(run.compared, 0);
        assert_int_equal(run.messages.counts[VG_LOG_WARNING], 1);
        free(got);
        free(expected);
    }
}

static int no_open(VgDevice **device, const VgDeviceChoice *choice, const VgLog *log)
{
    (void)choice;
    *device = NULL;
    vg_log(log, VG_LOG_ERROR, "there is no device for miles: buy one");
    return -ENODEV;
}

static void without_a_device_the_cpu_scores(void **state)
{
    (void)state;
    VgDeviceTable table = vg_table_cuda;
    table.open = no_open;
    patch.table = &table;
    for (unsigned parity = 0; parity <= 1; parity++) {
        Run run = make_run(VG_MEMORY_HOST, VG_BACKEND_CUDA, lag_2);
        char *expected = expected_scores(&run);
        run.backend = &patched;
        run.config.fallback = VG_FALLBACK_CPU;
        run.config.parity_every = parity;
        char *got = run_well(&run);
        assert_scores(got, expected, "no device");
        assert_true(messages_contain(&run.messages,
                                     parity ? "W scoring on the CPU, which leaves nothing to compare: there is no "
                                              "device for miles: buy one\n"
                                            : "W scoring on the CPU: there is no device for miles: buy one\n"));
        assert_int_equal(run.messages.counts[VG_LOG_WARNING], 1);
        assert_int_equal(run.messages.counts[VG_LOG_ERROR], 0);
        assert_int_equal(run.compared, 0);
        assert_false(messages_contain(&run.messages, "records of"));
        free(got);
        free(expected);
    }
    /* Without fallback, or when pictures cannot be downloaded: one error. */
    for (int on_device = 0; on_device < 2; on_device++) {
        int err;
        Run run = make_run(on_device ? VG_MEMORY_CUDA : VG_MEMORY_HOST, VG_BACKEND_CUDA, lag_2);
        run.backend = &patched;
        run.config.parity_every = 1;
        run.config.fallback = on_device ? VG_FALLBACK_CPU : VG_FALLBACK_ERROR;
        assert_null(run_all(&run, &err));
        assert_int_equal(err, -ENODEV);
        assert_int_equal(run.messages.counts[VG_LOG_WARNING], 0);
        assert_int_equal(run.messages.counts[VG_LOG_ERROR], 1);
        assert_true(messages_contain(&run.messages, "E there is no device for miles"));
    }
}

/* The kernels cannot be loaded, but pictures can be downloaded. */
static void a_device_without_kernels_still_has_the_pictures(void **state)
{
    (void)state;
    Run run = make_run(VG_MEMORY_CUDA, VG_BACKEND_CUDA, lag_2);
    char *expected = expected_scores(&run);
    run.config.fallback = VG_FALLBACK_CPU;
    softgpu_fail_call("cuModuleLoadData", 1, CUDA_ERROR_OUT_OF_MEMORY);
    char *got = run_well(&run);
    assert_scores(got, expected, "no kernels");
    assert_int_equal(run.messages.counts[VG_LOG_WARNING], 1);
    assert_int_equal(run.messages.counts[VG_LOG_ERROR], 0);
    assert_true(messages_contain(&run.messages, "W scoring on the CPU: "));
    assert_true(messages_contain(&run.messages, "CUDA_ERROR_OUT_OF_MEMORY"));
    free(got);
    free(expected);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

enum { FRAMES = 3 };

/* Three pairs that lie on the device, or in host memory, for all runs. */
typedef struct Pairs {
    PictureSource source;
    VgPicture own[FRAMES][VG_N_SIDES], lent[FRAMES][VG_N_SIDES];
} Pairs;

static void make_pairs(Pairs *pairs, VgMemory memory)
{
    *pairs = (Pairs){ .source = { .memory = memory, .stream = gpu.streams[0] } };
    for (unsigned i = 0; i < FRAMES; i++) {
        for (int side = 0; side < VG_N_SIDES; side++) {
            pairs->own[i][side] = picture_take(&pairs->source, &small_8, &planar, 2 * i + (side == VG_REF));
            pairs->lent[i][side] = pairs->own[i][side];
            pairs->lent[i][side].release = NULL;
        }
    }
    OK(cuStreamSynchronize(gpu.streams[0]));
}

static void end_pairs(Pairs *pairs)
{
    for (unsigned i = 0; i < FRAMES; i++)
        for (int side = 0; side < VG_N_SIDES; side++)
            pairs->own[i][side].release(pairs->own[i][side].ref);
    picture_source_end(&pairs->source);
}

static int three_frames(Run *run, const Pairs *pairs, char **scores)
{
    VgScorer *s;
    *scores = NULL;
    memset(&run->messages, 0, sizeof(run->messages));
    run->config.log_opaque = &run->messages;
    int err = vg_scorer_create(&s, &run->config);
    for (unsigned i = 0; !err && i < FRAMES; i++) {
        while ((err = vg_scorer_submit(s, &pairs->lent[i][VG_DIST], &pairs->lent[i][VG_REF])) == -EAGAIN)
            if ((err = vg_scorer_collect(s, VG_WAIT_ONE)) < 0)
                break;
        err = err > 0 ? 0 : err;
    }
    if (!err)
        err = vg_scorer_flush(s);
    if (!err)
        *scores = scores_of(s);
    vg_scorer_free(&s);
    return err;
}

/* The nth driver call fails, for every n: gives the number of runs that failed. */
static unsigned fail_every_call(Run *run, const Pairs *pairs, int code, const char *expected)
{
    const size_t live = softgpu_live_objects(), bytes = softgpu_live_bytes();
    unsigned failed = 0;
    for (unsigned long n = 1;; n++) {
        char *scores;
        const unsigned long before = softgpu_calls();
        softgpu_fail_at(n, code);
        const int err = three_frames(run, pairs, &scores);
        const unsigned long calls = softgpu_calls() - before;
        softgpu_fail_at(0, 0);
        if (softgpu_live_objects() != live || softgpu_live_bytes() != bytes) {
            softgpu_print_live();
            fail_msg("code %d in call %lu: not everything was freed", code, n);
        }
        if (run->messages.counts[VG_LOG_ERROR] != (err ? 1 : 0))
            fail_msg("code %d in call %lu gave %d and these messages:\n%s", code, n, err, run->messages.text);
        failed += err != 0;
        if (scores)
            assert_scores(scores, expected, "after a failure");
        free(scores);
        if (calls < n) {
            assert_int_equal(err, 0);
            return failed;
        }
    }
}

static void every_failing_call_ends_cleanly(void **state)
{
    (void)state;
    static const int codes[] = { CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_LAUNCH_FAILED };
    for (int memory = VG_MEMORY_HOST; memory <= VG_MEMORY_CUDA; memory++) {
        for (int variant = 0; variant < 8; variant++) {
#ifdef __SANITIZE_ADDRESS__ /* slow: one order of work for each code; the plain build has both */
            if ((variant >> 1 & 1) != variant >> 2)
                continue;
#endif
            Run run = make_run((VgMemory)memory, VG_BACKEND_CUDA, lag_2);
            Pairs pairs;
            char *expected;
            run.frames = FRAMES;
            run.config.in_flight = 2;
            expected = expected_scores(&run);
            run.config.parity_every = 1;
            run.config.fallback = variant & 1 ? VG_FALLBACK_CPU : VG_FALLBACK_ERROR;
            softgpu_set_order(variant & 2 ? 1 : 0);
            make_pairs(&pairs, (VgMemory)memory);
            const unsigned failed = fail_every_call(&run, &pairs, codes[variant >> 2], expected);
            assert_true(failed > 20);
            print_message("# memory %d, fallback %d, code %d: %u runs failed\n", memory, run.config.fallback,
                          codes[variant >> 2], failed);
            end_pairs(&pairs);
            free(expected);
        }
    }
}

static void frees_everything_when_dropped_in_mid_run(void **state)
{
    (void)state;
    const size_t live = softgpu_live_objects();
    for (unsigned n = 0; n < 24; n++) {
        Run run = make_run(n & 1 ? VG_MEMORY_CUDA : VG_MEMORY_HOST, VG_BACKEND_CUDA, lag_2);
        PictureSource ref = { .memory = run.config.memory, .stream = gpu.streams[VG_REF] };
        PictureSource dist = { .memory = run.config.memory, .stream = gpu.streams[VG_DIST] };
        VgScorer *s;
        softgpu_set_order(n / 6);
        run.config.parity_every = 2;
        run.config.in_flight = 4;
        run.config.log_opaque = &run.messages;
        assert_int_equal(vg_scorer_create(&s, &run.config), 0);
        for (unsigned i = 0; i < n / 2 % 7; i++)
            assert_int_equal(submit(&run, s, &ref, &dist, i), 0);
        vg_scorer_free(&s);
        picture_source_end(&ref); /* all have been released */
        picture_source_end(&dist);
        assert_int_equal(run.messages.counts[VG_LOG_ERROR], 0);
        assert_int_equal(softgpu_live_objects(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(scores_equal_the_cpus, before_each),
        cmocka_unit_test_setup(looks_back_at_both_sides, before_each),
        cmocka_unit_test_setup(reads_every_layout, before_each),
        cmocka_unit_test_setup(reads_rows_that_overlap, before_each),
        cmocka_unit_test_setup(any_order_of_streams_gives_the_same_scores, before_each),
        cmocka_unit_test_setup(names_the_first_difference_in_integers, before_each),
        cmocka_unit_test_setup(names_the_first_difference_in_floats, before_each),
        cmocka_unit_test_setup(words_of_a_difference, before_each),
        cmocka_unit_test_setup(planes_behind_records_are_compared, before_each),
        cmocka_unit_test_setup(fields_cover_the_record, before_each),
        cmocka_unit_test_setup(downloads_only_what_the_cpu_reads, before_each),
        cmocka_unit_test_setup(passes_that_the_device_cannot_do_go_to_the_cpu, before_each),
        cmocka_unit_test_setup(the_cpu_may_do_everything, before_each),
        cmocka_unit_test_setup(without_a_device_the_cpu_scores, before_each),
        cmocka_unit_test_setup(a_device_without_kernels_still_has_the_pictures, before_each),
        cmocka_unit_test_setup(every_failing_call_ends_cleanly, before_each),
        cmocka_unit_test_setup(frees_everything_when_dropped_in_mid_run, before_each),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
