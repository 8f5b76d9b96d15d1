/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The scorer: frames in flight, surfaces held, order, threads, subsampling, end and errors.
 */
#include "tests/cmocka_includes.h"

#include "engine/scorer.h"
#include "tests/messages.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { W = 48, H = 36 };

/* What surfaces a side has handed out and got back. */
typedef struct Ledger {
    int held, most_held, released;
} Ledger;

typedef struct Surface {
    Ledger *ledger;
    uint8_t samples[W * H + 2 * (W / 2) * (H / 2)];
} Surface;

static void release(void *ref)
{
    Surface *s = ref;
    s->ledger->held--;
    s->ledger->released++;
    memset(s->samples, 0xdd, sizeof(s->samples)); /* who reads it now gets other scores */
    free(s);
}

static VgPicture make_picture(Ledger *ledger, unsigned seed)
{
    Surface *s = malloc(sizeof(*s));
    s->ledger = ledger;
    if (++ledger->held > ledger->most_held)
        ledger->most_held = ledger->held;
    uint32_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < sizeof(s->samples); i++) {
        x = x * 1664525u + 1013904223u;
        s->samples[i] = (uint8_t)(x >> 24);
    }
    VgPicture p = { .size = sizeof(p),
                    .geometry = { W, H, VG_CHROMA_420, 8 },
                    .sample_bytes = 1,
                    .data = { s->samples, s->samples + W * H, s->samples + W * H + W / 2 * (H / 2) },
                    .pitch = { W, W / 2, W / 2 },
                    .step = { 1, 1, 1 },
                    .release = release,
                    .ref = s };
    return p;
}

static VgScorerConfig base_config(Messages *m)
{
    VgScorerConfig config = VG_SCORER_CONFIG_INIT;
    config.geometry = (VgGeometry){ W, H, VG_CHROMA_420, 8 };
    *m = (Messages){ 0 };
    config.log = messages_log;
    config.log_opaque = m;
    return config;
}

static void submit(VgScorer *s, Ledger *dist, Ledger *ref, unsigned frame)
{
    VgPicture d = make_picture(dist, 2 * frame), r = make_picture(ref, 2 * frame + 1);
    int err;
    while ((err = vg_scorer_submit(s, &d, &r)) == -EAGAIN)
        assert_int_not_equal(vg_scorer_collect(s, VG_WAIT_ONE), 0);
    assert_int_equal(err, 0);
}

/* Runs n frames and gives the log with every digit. */
static char *run(VgScorerConfig config, unsigned n)
{
    VgScorer *s;
    Ledger dist = { 0 }, ref = { 0 };
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    for (unsigned i = 0; i < n; i++)
        submit(s, &dist, &ref, i);
    assert_int_equal(vg_scorer_flush(s), 0);
    assert_int_equal(dist.held + ref.held, 0);
    assert_int_equal(vg_scorer_final(s), n);
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    for (unsigned k = 0; k < vg_scorer_n_keys(s); k++) {
        for (unsigned i = 0; i < n; i++) {
            double v;
            if (!vg_scorer_score(s, k, i, &v))
                fprintf(f, "%s %u %a\n", vg_scorer_key(s, k), i, v);
        }
    }
    for (unsigned a = 0; a < vg_scorer_n_aggregates(s); a++) {
        const char *name;
        double v;
        assert_int_equal(vg_scorer_aggregate(s, a, &name, &v), 0);
        fprintf(f, "%s %a\n", name, v);
    }
    fclose(f);
    vg_scorer_free(&s);
    return text;
}

static const char all_features[] =
    "psnr:enable_mse=true:enable_apsnr=true|float_ssim:enable_lcs=true|motion:debug=true|"
    "motion:motion_five_frame_window=true:motion_moving_average=true";

static void gives_the_same_bits_for_any_threads_and_frames_in_flight(void **state)
{
    (void)state;
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.features = all_features;
    config.n_threads = 1;
    config.in_flight = 1;
    char *expected = run(config, 40);
    assert_true(strlen(expected) > 4000);
    for (unsigned threads = 0; threads <= 9; threads += 3) {
        for (unsigned in_flight = 2; in_flight <= VG_MAX_IN_FLIGHT; in_flight *= 2) {
            config.n_threads = threads;
            config.in_flight = in_flight;
            char *got = run(config, 40);
            assert_string_equal(got, expected);
            free(got);
        }
    }
    free(expected);
}

static void holds_no_more_surfaces_than_promised(void **state)
{
    (void)state;
    for (unsigned in_flight = 1; in_flight <= 5; in_flight++) {
        for (int lag = 0; lag <= 2; lag++) {
            static const char *const features[] = { "psnr", "motion", "motion:motion_five_frame_window=true" };
            Messages m;
            VgScorerConfig config = base_config(&m);
            config.features = features[lag];
            config.in_flight = in_flight;
            VgScorer *s;
            assert_int_equal(vg_scorer_create(&s, &config), 0);
            assert_int_equal(vg_scorer_lookback(s), lag);
            Ledger dist = { 0 }, ref = { 0 };
            for (unsigned i = 0; i < 30; i++) {
                /* Collect only when the ring is full: the worst case. The pair that waits is ours, not the scorer's. */
                while (vg_scorer_submitted(s) && i % 7 == 3 && vg_scorer_collect(s, VG_WAIT_NONE) > 0)
                    ;
                VgPicture d = make_picture(&dist, i), r = make_picture(&ref, i);
                int err;
                while ((err = vg_scorer_submit(s, &d, &r)) == -EAGAIN) {
                    assert_true(ref.held - 1 <= (int)in_flight + lag);
                    assert_int_equal(dist.held - 1, in_flight);
                    vg_scorer_collect(s, VG_WAIT_ONE);
                }
                assert_int_equal(err, 0);
                assert_true(ref.held <= (int)in_flight + lag);
                assert_true(dist.held <= (int)in_flight);
            }
            assert_int_equal(vg_scorer_collect(s, VG_WAIT_ALL) >= 0, 1);
            assert_int_equal(dist.held, 0);
            assert_int_equal(ref.held, lag); /* kept for the next frame */
            vg_scorer_free(&s);
            assert_int_equal(ref.held, 0);
            assert_int_equal(ref.released, 30);
            assert_int_equal(dist.released, 30);
        }
    }
}

static void frees_everything_when_dropped_in_mid_run(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 12; n++) {
        Messages m;
        VgScorerConfig config = base_config(&m);
        config.features = all_features;
        config.in_flight = 8;
        config.n_threads = 2;
        VgScorer *s;
        assert_int_equal(vg_scorer_create(&s, &config), 0);
        Ledger dist = { 0 }, ref = { 0 };
        for (unsigned i = 0; i < n; i++)
            submit(s, &dist, &ref, i);
        vg_scorer_free(&s);
        assert_null(s);
        assert_int_equal(dist.held + ref.held, 0);
        assert_int_equal(dist.released, n);
    }
    VgScorer *none = NULL;
    vg_scorer_free(&none);
}

static unsigned key_of(const VgScorer *s, const char *name)
{
    for (unsigned k = 0; k < vg_scorer_n_keys(s); k++)
        if (!strcmp(vg_scorer_key(s, k), name))
            return k;
    fail_msg("no key %s", name);
    return 0;
}

static void finality_follows_the_look_ahead(void **state)
{
    (void)state;
    static const struct {
        const char *features;
        unsigned lookahead;
    } cases[] = { { "psnr", 0 }, { "motion", 1 }, { "psnr|motion:motion_five_frame_window=true", 2 } };
    for (size_t c = 0; c < 3; c++) {
        Messages m;
        VgScorerConfig config = base_config(&m);
        config.features = cases[c].features;
        VgScorer *s;
        assert_int_equal(vg_scorer_create(&s, &config), 0);
        assert_int_equal(vg_scorer_lookahead(s), cases[c].lookahead);
        Ledger dist = { 0 }, ref = { 0 };
        for (unsigned i = 0; i < 9; i++) {
            submit(s, &dist, &ref, i);
            vg_scorer_collect(s, VG_WAIT_ALL);
            uint64_t final = vg_scorer_final(s);
            assert_int_equal(final, i + 1 > cases[c].lookahead ? i + 1 - cases[c].lookahead : 0);
            for (uint64_t f = 0; f < final; f++) {
                for (unsigned k = 0; k < vg_scorer_n_keys(s); k++) {
                    double v;
                    assert_int_equal(vg_scorer_score(s, k, f, &v), 0);
                }
            }
        }
        assert_int_equal(vg_scorer_flush(s), 0);
        assert_int_equal(vg_scorer_flush(s), 0);
        assert_int_equal(vg_scorer_final(s), 9);
        VgPicture d = make_picture(&dist, 0), r = make_picture(&ref, 0);
        assert_int_equal(vg_scorer_submit(s, &d, &r), -EPIPE);
        release(d.ref);
        release(r.ref);
        vg_scorer_free(&s);
        assert_int_equal(dist.held + ref.held, 0);
    }
}

static void subsampling_skips_only_what_looks_at_single_frames(void **state)
{
    (void)state;
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.features = all_features;
    char *all = run(config, 23);
    config.n_subsample = 5;
    VgScorer *s;
    Ledger dist = { 0 }, ref = { 0 };
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    for (unsigned i = 0; i < 23; i++)
        submit(s, &dist, &ref, i);
    assert_int_equal(vg_scorer_flush(s), 0);
    for (unsigned k = 0; k < vg_scorer_n_keys(s); k++) {
        const char *name = vg_scorer_key(s, k);
        double sum = 0, mean;
        for (unsigned i = 0; i < 23; i++) {
            double v;
            int err = vg_scorer_score(s, k, i, &v);
            int expected = i % 5 == 0 || strncmp(name, "float_ssim", 10);
            assert_int_equal(err, expected ? 0 : -ENOENT);
            if (err)
                continue;
            char line[300];
            snprintf(line, sizeof(line), "%s %u %a\n", name, i, v);
            assert_non_null(strstr(all, line)); /* the same bits as without subsampling */
            if (i % 5 == 0)
                sum += v;
        }
        assert_int_equal(vg_scorer_pool(s, k, VG_POOL_MEAN, &mean), 0);
        assert_true(mean == sum / 5);
    }
    vg_scorer_free(&s);
    free(all);
}

static void columns_stand_in_libvmafs_order(void **state)
{
    (void)state;
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.features = "motion|psnr:enable_mse=true:enable_apsnr=true|float_ssim";
    VgScorer *s;
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    static const char *const expected[] = { "VMAF_integer_feature_motion_sad_score",
                                            "psnr_y",
                                            "mse_y",
                                            "psnr_cb",
                                            "mse_cb",
                                            "psnr_cr",
                                            "mse_cr",
                                            "float_ssim",
                                            "integer_motion2",
                                            "integer_motion3" };
    assert_int_equal(vg_scorer_n_keys(s), 10);
    for (unsigned k = 0; k < 10; k++)
        assert_string_equal(vg_scorer_key(s, k), expected[k]);
    assert_null(vg_scorer_key(s, 10));
    assert_int_equal(vg_scorer_n_aggregates(s), 3);
    const char *name;
    double v;
    assert_int_equal(vg_scorer_aggregate(s, 0, &name, &v), -ENOENT);
    assert_int_equal(vg_scorer_pool(s, 0, VG_POOL_MEAN, &v), -ENOENT);
    assert_int_equal(vg_scorer_score(s, 10, 0, &v), -ENOENT);
    vg_scorer_free(&s);
}

static void features_share_pixel_passes(void **state)
{
    (void)state;
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.features = all_features;
    VgScorer *s;
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    assert_int_equal(s->n_instances, 4);
    assert_int_equal(s->plan.n_passes, 3); /* both variants of motion come from one pass */
    vg_scorer_free(&s);
}

static void refuses_what_cannot_be_scored(void **state)
{
    (void)state;
    static const struct {
        VgGeometry g;
        const char *features, *words;
    } cases[] = {
        { { 0, 10, VG_CHROMA_420, 8 }, "psnr", "pictures of 0x10 cannot be scored" },
        { { 70000, 10, VG_CHROMA_420, 8 }, "psnr", "sides must be 1 to 65536" },
        { { 64, 64, VG_CHROMA_420, 7 }, "psnr", "a bit depth of 7" },
        { { 64, 64, VG_CHROMA_420, 17 }, "psnr", "a bit depth of 17" },
        { { 64, 64, (VgChroma)9, 8 }, "psnr", "chroma format 9" },
        { { 64, 64, VG_CHROMA_420, 9 }, "psnr", "psnr" },
        { { 64, 64, VG_CHROMA_420, 14 }, "float_ssim", "float_ssim" },
        { { 10, 64, VG_CHROMA_420, 8 }, "float_ssim", "11x11" },
        { { 2, 64, VG_CHROMA_420, 8 }, "motion", "motion" },
        { { 64, 64, VG_CHROMA_420, 8 }, "nosuch", "unknown feature 'nosuch'" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Messages m;
        VgScorerConfig config = base_config(&m);
        config.geometry = cases[i].g;
        config.features = cases[i].features;
        VgScorer *s = (VgScorer *)1;
        int err = vg_scorer_create(&s, &config);
        assert_null(s);
        if (err != -EINVAL || m.counts[VG_LOG_ERROR] != 1 || !messages_contain(&m, cases[i].words))
            fail_msg("case %zu gave %d and '%s', not '%s'", i, err, m.text, cases[i].words);
    }
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.in_flight = 17;
    VgScorer *s;
    assert_int_equal(vg_scorer_create(&s, &config), -EINVAL);
    assert_true(messages_contain(&m, "in_flight=17 is out of range: give 1 to 16"));
}

static void refuses_pictures_that_do_not_fit(void **state)
{
    (void)state;
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.features = "psnr";
    VgScorer *s;
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    Ledger ledger = { 0 };
    VgPicture good = make_picture(&ledger, 1);
    for (int fault = 0; fault < 13; fault++) {
        VgPicture bad = good;
        bad.size = fault == 0 ? 8 : bad.size;
        bad.geometry.width += fault == 1;
        bad.geometry.chroma = fault == 2 ? VG_CHROMA_444 : bad.geometry.chroma;
        bad.geometry.bit_depth = fault == 3 ? 10 : bad.geometry.bit_depth;
        bad.sample_bytes = fault == 4 ? 3 : 1;
        bad.shift = fault == 5 ? 1 : 0;
        bad.data[2] = fault == 6 ? NULL : bad.data[2];
        bad.step[1] = fault == 7 ? 0 : 1;
        bad.memory = fault == 9 ? VG_MEMORY_CUDA : fault == 10 ? (VgMemory)7 : VG_MEMORY_HOST;
        if (fault == 8) {
            bad.sample_bytes = 2; /* pitch is even, the step is not */
            bad.step[0] = 3;
        }
        if (fault >= 11)
            bad.pitch[1] = (ptrdiff_t)(fault == 11 ? (int64_t)1 << 31 : -((int64_t)1 << 31));
        m = (Messages){ 0 };
        assert_int_equal(vg_scorer_submit(s, &bad, &good), -EINVAL);
        assert_int_equal(m.counts[VG_LOG_ERROR], 1);
        assert_int_equal(fault >= 11, messages_contain(&m, "a pitch of "));
        assert_true(messages_contain(&m, "distorted picture of frame 0"));
        m = (Messages){ 0 };
        assert_int_equal(vg_scorer_submit(s, &good, &bad), -EINVAL);
        assert_true(messages_contain(&m, "reference picture of frame 0"));
    }
    assert_int_equal(vg_scorer_submitted(s), 0);
    assert_int_equal(ledger.released, 0); /* refused pictures remain the caller's */
    assert_int_equal(vg_scorer_flush(s), 0);
    vg_scorer_free(&s);
    release(good.ref);
}

static void *run_in_thread(void *expected)
{
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.features = all_features;
    config.n_threads = 2;
    for (int i = 0; i < 5; i++) {
        char *got = run(config, 20);
        int differs = strcmp(got, expected);
        free(got);
        if (differs)
            return expected;
    }
    return NULL;
}

static void scorers_in_several_threads_share_the_pool(void **state)
{
    (void)state;
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.features = all_features;
    char *expected = run(config, 20);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_in_thread, expected), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    free(expected);
}

static void accepts_the_struct_of_an_older_program(void **state)
{
    (void)state;
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.features = "psnr";
    config.parity_every = 99; /* beyond the declared size: must not be read */
    config.backend = (VgBackendKind)99;
    config.size = offsetof(VgScorerConfig, backend);
    VgScorer *s;
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    assert_int_equal(s->plan.parity_every, 0);
    vg_scorer_free(&s);
    for (size_t size = 0; size < offsetof(VgScorerConfig, backend); size++) {
        config.size = size; /* of no version */
        assert_int_equal(vg_scorer_create(&s, &config), -EINVAL);
        assert_null(s);
    }
}

static void scores_without_chroma(void **state)
{
    (void)state;
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.geometry.chroma = VG_CHROMA_400;
    config.features = all_features;
    VgScorer *s;
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    Ledger ledger = { 0 };
    VgPicture d = make_picture(&ledger, 1), r = make_picture(&ledger, 2);
    d.geometry.chroma = r.geometry.chroma = VG_CHROMA_400;
    d.data[1] = d.data[2] = r.data[1] = r.data[2] = NULL;
    assert_int_equal(vg_scorer_submit(s, &d, &r), 0);
    assert_int_equal(vg_scorer_flush(s), 0);
    double luma, v;
    assert_int_equal(vg_scorer_score(s, key_of(s, "psnr_y"), 0, &luma), 0);
    for (unsigned k = 0; k < vg_scorer_n_keys(s); k++)
        assert_null(strstr(vg_scorer_key(s, k), "_cb"));
    vg_scorer_free(&s);

    /* The same luma with chroma scores the same. */
    config.geometry.chroma = VG_CHROMA_420;
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    submit(s, &ledger, &ledger, 0);
    vg_scorer_free(&s);
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    d = make_picture(&ledger, 1);
    r = make_picture(&ledger, 2);
    assert_int_equal(vg_scorer_submit(s, &d, &r), 0);
    assert_int_equal(vg_scorer_flush(s), 0);
    assert_int_equal(vg_scorer_score(s, key_of(s, "psnr_y"), 0, &v), 0);
    assert_true(v == luma);
    vg_scorer_free(&s);
    assert_int_equal(ledger.held, 0);
}

/* Nothing but the scores grows with the number of frames: at most 16 bytes a frame and key. */
static void memory_grows_by_16_bytes_a_frame_and_key_at_most(void **state)
{
    (void)state;
    static const uint8_t samples[2][16 * 16];
    const unsigned frames[] = { 1000, 101000 };
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.geometry = (VgGeometry){ 16, 16, VG_CHROMA_400, 8 };
    config.features = "psnr:enable_mse=true|float_ssim|motion|motion:motion_five_frame_window=true";
    VgScorer *s;
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    const unsigned keys = vg_scorer_n_keys(s);
    size_t used[2];
    for (unsigned i = 0, run = 0; run < 2; run++) {
        for (; i < frames[run]; i++) {
            VgPicture p = { .size = sizeof(p),
                            .geometry = config.geometry,
                            .sample_bytes = 1,
                            .data = { samples[i % 2] },
                            .pitch = { 16 },
                            .step = { 1 } };
            int err;
            while ((err = vg_scorer_submit(s, &p, &p)) == -EAGAIN)
                assert_true(vg_scorer_collect(s, VG_WAIT_ONE) > 0);
            assert_int_equal(err, 0);
        }
        assert_true(vg_scorer_collect(s, VG_WAIT_ALL) >= 0);
        used[run] = mallinfo2().uordblks + mallinfo2().hblkhd;
    }
    const size_t growth = used[1] > used[0] ? used[1] - used[0] : 0;
    print_message("# %u keys: %.2f bytes a frame and key\n", keys, (double)growth / 100000 / keys);
    if (growth > (size_t)16 * 100000 * keys)
        fail_msg("%zu bytes for 100000 frames of %u keys", growth, keys);
    vg_scorer_free(&s);
}

static void the_store_keeps_each_value_once(void **state)
{
    (void)state;
    VgStore store = { 0 };
    unsigned column;
    double v;
    assert_int_equal(vg_store_add(&store, "key", 0, &column), 0);
    for (uint64_t f = 0; f < 3000; f += 7)
        assert_int_equal(vg_store_put(&store, column, f, (double)f), 0);
    for (uint64_t f = 0; f < 4000; f++) {
        int err = vg_store_get(&store, column, f, &v);
        assert_int_equal(err, f < 3000 && f % 7 == 0 ? 0 : -ENOENT);
        assert_true(err || v == (double)f);
    }
    assert_int_equal(vg_store_put(&store, column, 7, 0), -EEXIST);
    vg_store_free(&store);
}

/* ---- A back end that fails on demand ----------------------------------------------------------------------------- */

static struct {
    const VgPlan *plan;
    uint8_t *records;
    uint64_t frames, open, fail_submit, fail_finish;
    uint64_t earlier;  /* pictures of earlier frames that were handed over */
    unsigned flushes;  /* all of them after the last frame */
    uint64_t finished; /* frames */
} stub;

static int stub_open(void **context, const VgPlan *plan, const VgLog *log)
{
    (void)log;
    stub.plan = plan;
    stub.records = calloc(1, plan->records_size);
    stub.open++;
    *context = &stub;
    return stub.records ? 0 : -ENOMEM;
}

static int stub_submit(void *context, unsigned slot, const VgFramePictures *pictures, int scored)
{
    (void)context;
    assert_int_equal(slot, pictures->frame % stub.plan->in_flight);
    assert_int_equal(scored, 1);
    for (int k = 1; k <= VG_MAX_LAG; k++)
        stub.earlier += !!pictures->ref[k] + !!pictures->dist[k];
    return stub.frames++ == stub.fail_submit ? -EIO : 0;
}

static int stub_finish(void *context, unsigned slot, int wait, const uint8_t **records)
{
    (void)context;
    (void)slot;
    if (!wait)
        return 0;
    *records = stub.records;
    stub.finished++;
    return stub.fail_finish-- == 0 ? -ENODEV : 1;
}

static void stub_flush(void *context)
{
    (void)context;
    assert_int_equal(stub.finished, stub.frames);
    stub.flushes++;
}

static uint64_t stub_parity(void *context, uint64_t *compared)
{
    (void)context;
    *compared = 40 + stub.frames;
    return stub.frames;
}

static void stub_close(void **context)
{
    *context = NULL;
    free(stub.records);
    stub.open--;
}

static const VgBackend stub_backend = {
    .name = "stub",
    .open = stub_open,
    .submit = stub_submit,
    .finish = stub_finish,
    .flush = stub_flush,
    .parity = stub_parity,
    .close = stub_close,
};

static void errors_of_the_back_end_end_the_run_cleanly(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < 6; at++) {
        for (int in_submit = 0; in_submit < 2; in_submit++) {
            Messages m;
            VgScorerConfig config = base_config(&m);
            config.features = "psnr|motion";
            stub.frames = 0;
            stub.fail_submit = in_submit ? at : ~0ull;
            stub.fail_finish = in_submit ? ~0ull : at;
            VgScorer *s;
            assert_int_equal(vg_scorer_create_on(&s, &config, &stub_backend), 0);
            Ledger dist = { 0 }, ref = { 0 };
            int err = 0;
            for (unsigned i = 0; !err && i < 20; i++) {
                VgPicture d = make_picture(&dist, i), r = make_picture(&ref, i);
                while ((err = vg_scorer_submit(s, &d, &r)) == -EAGAIN) {
                    err = vg_scorer_collect(s, VG_WAIT_ONE);
                    if (err < 0)
                        break;
                }
                if (err < 0) { /* they remained ours */
                    release(d.ref);
                    release(r.ref);
                }
            }
            assert_int_equal(err, in_submit ? -EIO : -ENODEV);
            /* Everything after it fails alike, and what was scored before stays. */
            assert_int_equal(vg_scorer_collect(s, VG_WAIT_ALL), err);
            assert_int_equal(vg_scorer_flush(s), err);
            VgPicture d = make_picture(&dist, 0);
            assert_int_equal(vg_scorer_submit(s, &d, &d), err);
            release(d.ref);
            const uint64_t collected =
                in_submit ? (at < 3 ? 0 : at - 2) : at; /* one leaves the full ring for each new one */
            assert_int_equal(vg_scorer_final(s), collected ? collected - 1 : 0);
            double v;
            for (uint64_t f = 0; f < collected; f++)
                assert_int_equal(vg_scorer_score(s, 0, f, &v), 0);
            assert_int_equal(vg_scorer_score(s, 0, collected, &v), -ENOENT);
            vg_scorer_free(&s);
            assert_int_equal(dist.held + ref.held, 0);
            assert_int_equal(stub.open, 0);
        }
    }
}

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

typedef struct Choice {
    VgBackendKind backend;
    VgMemory memory;
    int context;
    VgFallback fallback;
    uint32_t parity_every;
    VgHistory history;
    /* What is expected of a library with CUDA. */
    int err;
    const VgBackend *chosen;
    int cpu_only, copy_history;
    const char *message; /* with its level; NULL: none */
} Choice;

#define CPU        VG_BACKEND_CPU
#define CUDA       VG_BACKEND_CUDA
#define HIP        VG_BACKEND_HIP
#define AUTO       VG_BACKEND_AUTO
#define HOST       VG_MEMORY_HOST
#define DEVICE     VG_MEMORY_CUDA
#define HIP_DEVICE VG_MEMORY_HIP

static const Choice choices[] = {
    /* Pictures in host memory. */
    { AUTO, HOST, 0, 0, 0, 0, 0, &vg_backend_cpu, 1, 0, NULL },
    { CPU, HOST, 0, 0, 0, 0, 0, &vg_backend_cpu, 1, 0, NULL },
    { AUTO, HOST, 0, VG_FALLBACK_CPU, 0, 0, 0, &vg_backend_cpu, 1, 0, NULL },
    { CUDA, HOST, 0, 0, 0, 0, 0, &vg_backend_device, 0, 1, NULL },
    { CUDA, HOST, 1, 0, 0, VG_HISTORY_REF, 0, &vg_backend_device, 0, 1, NULL },
    { CUDA, HOST, 0, VG_FALLBACK_CPU, 0, 0, 0, &vg_backend_both, 0, 0, NULL },
    { CUDA, HOST, 0, 0, 3, VG_HISTORY_COPY, 0, &vg_backend_both, 0, 0, NULL },
    /* Pictures in device memory. */
    { AUTO, DEVICE, 1, 0, 0, 0, 0, &vg_backend_device, 0, 0, NULL },
    { CUDA, DEVICE, 1, 0, 0, VG_HISTORY_REF, 0, &vg_backend_device, 0, 0, NULL },
    { CUDA, DEVICE, 1, 0, 0, VG_HISTORY_COPY, 0, &vg_backend_device, 0, 1, NULL },
    { AUTO, DEVICE, 1, VG_FALLBACK_CPU, 0, 0, 0, &vg_backend_both, 0, 0, NULL },
    { AUTO, DEVICE, 1, 0, 1, VG_HISTORY_COPY, 0, &vg_backend_both, 0, 1, NULL },
    { CPU, DEVICE, 1, 0, 0, VG_HISTORY_REF, 0, &vg_backend_both, 1, 1, NULL },
    /* The same of HIP, which has no contexts. */
    { HIP, HOST, 0, 0, 0, 0, 0, &vg_backend_device, 0, 1, NULL },
    { HIP, HOST, 0, VG_FALLBACK_CPU, 0, 0, 0, &vg_backend_both, 0, 0, NULL },
    { HIP, HOST, 0, 0, 3, VG_HISTORY_COPY, 0, &vg_backend_both, 0, 0, NULL },
    { AUTO, HIP_DEVICE, 0, 0, 0, 0, 0, &vg_backend_device, 0, 0, NULL },
    { HIP, HIP_DEVICE, 0, 0, 0, VG_HISTORY_COPY, 0, &vg_backend_device, 0, 1, NULL },
    { AUTO, HIP_DEVICE, 0, VG_FALLBACK_CPU, 0, 0, 0, &vg_backend_both, 0, 0, NULL },
    { CPU, HIP_DEVICE, 0, 0, 0, VG_HISTORY_REF, 0, &vg_backend_both, 1, 1, NULL },
    /* Parity needs a device. */
    { AUTO, HOST, 0, 0, 1, 0, 0, &vg_backend_cpu, 1, 0,
      "I parity compares a device with the CPU, and no device scores" },
    { CPU, DEVICE, 1, 0, 2, 0, 0, &vg_backend_both, 1, 1, "I parity compares a device with the CPU" },
    /* What is refused. */
    { AUTO, DEVICE, 0, 0, 0, 0, -EINVAL, NULL, 0, 0, "E pictures in CUDA memory need the context that they belong to" },
    { CPU, DEVICE, 0, 0, 0, 0, -EINVAL, NULL, 0, 0, "E pictures in CUDA memory need the context that they belong to" },
    { HIP, DEVICE, 1, VG_FALLBACK_CPU, 0, 0, -EINVAL, NULL, 0, 0,
      "E pictures in CUDA memory cannot be scored by backend=hip: use cuda, cpu or auto" },
    { CUDA, HIP_DEVICE, 0, VG_FALLBACK_CPU, 0, 0, -EINVAL, NULL, 0, 0,
      "E pictures in HIP memory cannot be scored by backend=cuda: use hip, cpu or auto" },
    { HIP, HOST, 1, 0, 0, 0, -EINVAL, NULL, 0, 0, "E HIP has no contexts: set device_context to NULL" },
    { CPU, HIP_DEVICE, 1, 0, 0, 0, -EINVAL, NULL, 0, 0, "E HIP has no contexts: set device_context to NULL" },
    { (VgBackendKind)4, HOST, 0, 0, 0, 0, -EINVAL, NULL, 0, 0, "E back end 4 is unknown: give 0 to 3" },
    { CPU, (VgMemory)3, 0, 0, 0, 0, -EINVAL, NULL, 0, 0, "E memory 3 is unknown" },
    { CPU, HOST, 0, (VgFallback)9, 0, 0, -EINVAL, NULL, 0, 0, "E fallback 9 is unknown" },
    { CPU, HOST, 0, 0, 0, (VgHistory)-1, -EINVAL, NULL, 0, 0, "E history 4294967295 is unknown" },
};

/* What a library without this kind of devices does. */
static Choice without_device(Choice c, VgBackendKind kind)
{
    const VgMemory memory = kind == HIP ? HIP_DEVICE : DEVICE;
    if (c.err == -EINVAL && (!strstr(c.message, "context") || c.memory != memory))
        return c;
    if (c.memory == memory)
        return (Choice){ .err = -ENOSYS,
                         .message = kind == HIP ? "E pictures are in HIP memory, but this library was built without"
                                                : "E pictures are in CUDA memory, but this library was built without" };
    if (c.backend == kind && c.fallback == VG_FALLBACK_CPU)
        return (Choice){ .chosen = &vg_backend_cpu,
                         .cpu_only = 1,
                         .message = kind == HIP
                                        ? "W scoring on the CPU rather than by backend=hip: this library was"
                                        : "W scoring on the CPU rather than by backend=cuda: this library was" };
    if (c.backend == kind)
        return (Choice){ .err = -ENOSYS,
                         .message = kind == HIP ? "E backend=hip cannot be used: this library was built without it"
                                                : "E backend=cuda cannot be used: this library was built without it" };
    return c;
}

static void chooses_the_back_end(void **state)
{
    (void)state;
    assert_int_equal(vg_backend_built_in(AUTO), 1);
    assert_int_equal(vg_backend_built_in(CPU), 1);
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        const Choice *c = &choices[i];
        Choice want = *c;
        if (!vg_backend_built_in(CUDA))
            want = without_device(want, CUDA);
        if (!vg_backend_built_in(HIP))
            want = without_device(want, HIP);
        Messages m;
        VgScorerConfig config = base_config(&m);
        const VgLog log = { config.log, config.log_opaque };
        config.backend = c->backend;
        config.memory = c->memory;
        config.device_context = c->context ? &config : NULL;
        config.device = "1";
        config.fallback = c->fallback;
        config.parity_every = c->parity_every;
        config.history = c->history;
        VgPlan plan = { 0 };
        const VgBackend *backend = NULL;
        const int err = vg_backend_choose(&backend, &plan, &config, &log);
        if (err != want.err || backend != want.chosen ||
            (want.message ? !messages_contain(&m, want.message) : !!m.text[0]))
            fail_msg("case %zu: %d, %s, '%s'", i, err, backend ? backend->name : "none", m.text);
        if (err)
            continue;
        assert_int_equal(plan.cpu_only, want.cpu_only);
        assert_int_equal(plan.copy_history, want.copy_history);
        assert_int_equal(plan.parity_every, want.cpu_only ? 0 : c->parity_every);
        assert_int_equal(plan.memory, c->memory);
        if (backend == &vg_backend_cpu)
            continue;
        const int is_hip = c->backend == HIP || c->memory == HIP_DEVICE;
        assert_string_equal(plan.device->name, is_hip ? "HIP" : "CUDA");
        assert_ptr_equal(plan.choice.context, config.device_context);
        assert_string_equal(plan.choice.which, "1");
        assert_int_equal(plan.fallback, c->fallback);
    }
}

/* With copies, the back end is handed the new pictures alone, and no others are held. */
static void holds_earlier_pictures_by_reference_only(void **state)
{
    (void)state;
    for (int copies = 0; copies < 2; copies++) {
        Messages m;
        VgScorerConfig config = base_config(&m);
        char device[] = "0";
        config.features = "motion:motion_five_frame_window=true";
        config.backend = CUDA;
        config.memory = DEVICE;
        config.device_context = &config;
        config.device = device;
        config.history = copies ? VG_HISTORY_COPY : VG_HISTORY_REF;
        config.parity_every = 1;
        memset(&stub, 0, sizeof(stub));
        stub.fail_submit = stub.fail_finish = ~0ull;
        VgScorer *s;
        const int err = vg_scorer_create_on(&s, &config, &stub_backend);
        if (!vg_backend_built_in(CUDA)) {
            assert_int_equal(err, -ENOSYS);
            return;
        }
        assert_int_equal(err, 0);
        device[0] = '7'; /* it was copied */
        assert_string_equal(s->plan.choice.which, "0");
        assert_int_equal(vg_scorer_lookback(s), copies ? 0 : 2);
        Ledger dist = { 0 }, ref = { 0 };
        for (unsigned i = 0; i < 10; i++) {
            VgPicture d = make_picture(&dist, i), r = make_picture(&ref, i);
            if (!i) {
                assert_int_equal(vg_scorer_submit(s, &r, &r), -EINVAL);
                assert_true(messages_contain(&m, "is in host memory, the scorer was made for CUDA memory"));
            }
            d.memory = r.memory = DEVICE;
            while (vg_scorer_submit(s, &d, &r) == -EAGAIN)
                assert_int_equal(vg_scorer_collect(s, VG_WAIT_ONE), 1);
            assert_true(dist.held <= 3);
            assert_true(ref.held <= 3 + (copies ? 0 : 2));
        }
        assert_int_equal(stub.earlier, copies ? 0 : 9 + 8);
        assert_int_equal(stub.flushes, 0);
        assert_int_equal(vg_scorer_flush(s), 0);
        assert_int_equal(vg_scorer_flush(s), 0);
        assert_int_equal(stub.flushes, 1);
        uint64_t compared;
        assert_int_equal(vg_scorer_parity(s, &compared), 10);
        assert_int_equal(compared, 50);
        vg_scorer_free(&s);
        assert_int_equal(dist.held + ref.held, 0);
    }
}

static void without_parity_nothing_is_counted(void **state)
{
    (void)state;
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.parity_every = 1;
    VgScorer *s;
    Ledger ledger = { 0 };
    uint64_t compared = 5;
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    submit(s, &ledger, &ledger, 0);
    assert_int_equal(vg_scorer_flush(s), 0);
    assert_int_equal(vg_scorer_parity(s, &compared), 0);
    assert_int_equal(compared, 0);
    assert_int_equal(m.counts[VG_LOG_WARNING] + m.counts[VG_LOG_ERROR], 0);
    assert_int_equal(m.counts[VG_LOG_INFO], 1);
    vg_scorer_free(&s);
}

/* Fields beyond the size that a program declares are not read. */
static void accepts_the_picture_struct_of_an_older_program(void **state)
{
    (void)state;
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.features = "psnr";
    VgScorer *s;
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    Ledger ledger = { 0 };
    VgPicture d = make_picture(&ledger, 0), r = make_picture(&ledger, 1);
    d.size = r.size = offsetof(VgPicture, memory);
    d.memory = r.memory = DEVICE;
    assert_int_equal(vg_scorer_submit(s, &d, &r), 0);
    d.size--;
    assert_int_equal(vg_scorer_submit(s, &d, &r), -EINVAL);
    assert_int_equal(vg_scorer_flush(s), 0);
    vg_scorer_free(&s);
    assert_int_equal(ledger.held, 0);
}

/* A picture struct of a later version is longer, one of this version must do for ever. */
static void accepts_longer_picture_structs(void **state)
{
    (void)state;
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.features = "psnr";
    VgScorer *s;
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    Ledger ledger = { 0 };
    struct {
        VgPicture picture;
        uint64_t more[8];
    } d = { make_picture(&ledger, 0), { 0 } }, r = { make_picture(&ledger, 1), { 0 } };
    d.picture.size = r.picture.size = sizeof(d);
    assert_int_equal(vg_scorer_submit(s, &d.picture, &r.picture), 0);
    assert_int_equal(vg_scorer_flush(s), 0);
    vg_scorer_free(&s);
    assert_int_equal(ledger.held, 0);
}

static void shared_passes_score_as_single_ones(void **state)
{
    (void)state;
    static const char *const together = "motion|motion:motion_five_frame_window=true:motion_fps_weight=0.5|"
                                        "motion:motion_force_zero=true";
    static const char *const alone[] = { "motion", "motion:motion_five_frame_window=true:motion_fps_weight=0.5",
                                         "motion:motion_force_zero=true" };
    Messages m;
    VgScorerConfig config = base_config(&m);
    config.features = together;
    char *all = run(config, 12);
    for (int i = 0; i < 3; i++) {
        config.features = alone[i];
        char *one = run(config, 12), *rest = one;
        for (char *line; (line = strsep(&rest, "\n"));) {
            char whole[300];
            snprintf(whole, sizeof(whole), "%s\n", line);
            assert_non_null(strstr(all, whole));
        }
        free(one);
    }
    free(all);
}

static void nothing_is_freed_twice(void **state)
{
    VgScorer *s = NULL;
    (void)state;
    vg_scorer_free(NULL);
    vg_scorer_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_freed_twice),
        cmocka_unit_test(gives_the_same_bits_for_any_threads_and_frames_in_flight),
        cmocka_unit_test(holds_no_more_surfaces_than_promised),
        cmocka_unit_test(frees_everything_when_dropped_in_mid_run),
        cmocka_unit_test(finality_follows_the_look_ahead),
        cmocka_unit_test(subsampling_skips_only_what_looks_at_single_frames),
        cmocka_unit_test(columns_stand_in_libvmafs_order),
        cmocka_unit_test(features_share_pixel_passes),
        cmocka_unit_test(refuses_what_cannot_be_scored),
        cmocka_unit_test(refuses_pictures_that_do_not_fit),
        cmocka_unit_test(scorers_in_several_threads_share_the_pool),
        cmocka_unit_test(accepts_the_struct_of_an_older_program),
        cmocka_unit_test(scores_without_chroma),
        cmocka_unit_test(memory_grows_by_16_bytes_a_frame_and_key_at_most),
        cmocka_unit_test(the_store_keeps_each_value_once),
        cmocka_unit_test(errors_of_the_back_end_end_the_run_cleanly),
        cmocka_unit_test(chooses_the_back_end),
        cmocka_unit_test(holds_earlier_pictures_by_reference_only),
        cmocka_unit_test(without_parity_nothing_is_counted),
        cmocka_unit_test(accepts_the_picture_struct_of_an_older_program),
        cmocka_unit_test(accepts_longer_picture_structs),
        cmocka_unit_test(shared_passes_score_as_single_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
