/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * cambi's heatmap files: their names, places and samples, and what is left of them after failures; and the keys of
 * several instances in one run, which share a pass.
 */
#include "tests/cmocka_includes.h"

#include "cpu_ref/cambi.h"
#include "cpu_ref/metrics.h"
#include "engine/features.h"
#include "engine/metrics/cambi_heatmaps.h"
#include "tests/clipgen.h"
#include "tests/messages.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/vmafgpu-heatmaps-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[200];
    (void)state;

    clip_free_all();
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command);
}

/* ---- Expected files ----------------------------------------------------------------------------------------------- */

typedef struct Expected {
    uint8_t *bytes[VG_CAMBI_SCALES]; /* of all frames */
    size_t sizes[VG_CAMBI_SCALES];   /* of a frame */
    double factor;
    unsigned frame;
    size_t n_different; /* from 0: a test that compares nothing but 0 shows little */
} Expected;

/* What a plane of values becomes, by the definition. */
static void see(void *opaque, VgCambiStage stage, int32_t scale, const void *plane, int32_t width, int32_t height)
{
    Expected *e = opaque;
    const float *values = plane;
    const size_t n = (size_t)width * (size_t)height;

    if (stage != VG_CAMBI_STAGE_VALUES)
        return;
    e->sizes[scale] = 2 * n;
    e->bytes[scale] = realloc(e->bytes[scale], (e->frame + 1) * 2 * n);
    assert_non_null(e->bytes[scale]);
    uint8_t *to = e->bytes[scale] + e->frame * 2 * n;
    for (size_t i = 0; i < n; i++) {
        const long value = (long)(e->factor * (double)values[i]);
        to[2 * i] = (uint8_t)(value % 256);
        to[2 * i + 1] = (uint8_t)(value / 256 % 256);
        e->n_different += value != 0;
    }
}

static Expected expected_of(const Clip *clip, const char *options, int largest_weight)
{
    char features[300];
    VgFeatureList list;
    VgCambiParams params = { 0 };
    Expected e = { .frame = 0 };
    void *scratch;

    snprintf(features, sizeof(features), "cambi%s%s", *options ? ":" : "", options);
    assert_int_equal(vg_features_parse(NULL, features, &list), 0);
    list.features->metric->make_params(&clip->geometry, list.features->options, &params);
    vg_features_free(&list);
    const int32_t window = params.sides[VG_CAMBI_DIST].window;
    e.factor = 65535 / (double)(largest_weight * window * window / 4);
    scratch = aligned_alloc(64, vg_cpu_cambi.scratch_size(&params));
    assert_non_null(scratch);
    for (; e.frame < clip->n_frames; e.frame++) {
        const VgPicture picture = clip_picture(clip, e.frame);
        const VgPlane luma = vg_picture_plane(&picture, 0);
        const VgCambiObserver observer = { see, &e };
        vg_cambi_show_stages(&params, &luma, VG_CAMBI_DIST, scratch, &observer);
    }
    free(scratch);
    return e;
}

static void expected_free(Expected *e)
{
    for (int scale = 0; scale < VG_CAMBI_SCALES; scale++)
        free(e->bytes[scale]);
}

/* ---- Runs --------------------------------------------------------------------------------------------------------- */

static int run(const Clip *clip, const char *features, unsigned n_threads, unsigned n_subsample, Messages *messages)
{
    VgScorerConfig config = VG_SCORER_CONFIG_INIT;
    VgScorer *scorer;

    *messages = (Messages){ 0 };
    config.geometry = clip->geometry;
    config.features = features;
    config.n_threads = n_threads;
    config.n_subsample = n_subsample;
    config.log = messages_log;
    config.log_opaque = messages;
    int err = vg_scorer_create(&scorer, &config);
    for (unsigned frame = 0; !err && frame < clip->n_frames; frame++) {
        const VgPicture picture = clip_picture(clip, frame);
        while ((err = vg_scorer_submit(scorer, &picture, &picture)) == -EAGAIN)
            if ((err = vg_scorer_collect(scorer, VG_WAIT_ONE)) < 0)
                break;
    }
    if (!err)
        err = vg_scorer_flush(scorer);
    vg_scorer_free(&scorer);
    return err;
}

/* A file's contents, or NULL. */
static uint8_t *contents(const char *path, size_t *size)
{
    struct stat st;
    FILE *file = fopen(path, "rb");

    if (!file)
        return NULL;
    assert_int_equal(fstat(fileno(file), &st), 0);
    *size = (size_t)st.st_size;
    uint8_t *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

/* Frames 0 to n_frames-1 are in the files; those that are no multiple of `interval`, as holes. */
static void expect_files(const Expected *e, const char *sub, const char *const names[VG_CAMBI_SCALES],
                         unsigned n_frames, unsigned interval)
{
    for (int scale = 0; scale < VG_CAMBI_SCALES; scale++) {
        const size_t frame_size = e->sizes[scale];
        char path[300];
        size_t size;
        snprintf(path, sizeof(path), "%s/%s/cambi_heatmap_scale_%s_16b.gray", folder, sub, names[scale]);
        uint8_t *bytes = contents(path, &size);
        if (!bytes)
            fail_msg("no %s", path);
        assert_int_equal(size, n_frames * frame_size);
        for (unsigned frame = 0; frame < n_frames; frame++) {
            const uint8_t *got = bytes + frame * frame_size, *expected = e->bytes[scale] + frame * frame_size;
            size_t i = 0;
            while (i < frame_size && got[i] == (frame % interval ? 0 : expected[i]))
                i++;
            if (i < frame_size)
                fail_msg("%s, frame %u: byte %zu is %u", path, frame, i, got[i]);
        }
        free(bytes);
    }
}

static void files_hold_the_values(void **state)
{
    static const struct {
        const char *clip, *options;
        int largest_weight;
        const char *names[VG_CAMBI_SCALES];
    } cases[] = {
        { "mix block:16 320 240 420 8 3 1", "", 4, { "0_320x240", "1_160x120", "2_80x60", "3_40x30", "4_20x15" } },
        { "mix block:16 333 219 400 10 2 1",
          "max_log_contrast=5:window_size=127",
          9,
          { "0_333x219", "1_167x110", "2_84x55", "3_42x28", "4_21x14" } },
        { "mix block:16 480 270 444 12 2 1",
          "enc_width=300:enc_height=217:max_log_contrast=4:full_ref=true",
          8,
          { "0_300x217", "1_150x109", "2_75x55", "3_38x28", "4_19x14" } },
        /* Sizes in names are those without the speed-up. */
        { "mix block:32 1920 1080 420 8 1 1",
          "cambi_high_res_speedup=1080",
          4,
          { "0_1920x1080", "1_960x540", "2_480x270", "3_240x135", "4_120x68" } },
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const Clip *clip = clip_get(cases[i].clip);
        Expected e = expected_of(clip, cases[i].options, cases[i].largest_weight);
        char features[300], sub[20];
        Messages messages;
        if (e.n_different < 1000)
            fail_msg("%s, %s: only %zu samples that are not 0", cases[i].clip, cases[i].options, e.n_different);
        snprintf(sub, sizeof(sub), "values%zu", i);
        for (unsigned threads = 1; threads <= 3; threads += 2) {
            snprintf(features, sizeof(features), "cambi:heatmaps_path=%s/%s%s%s", folder, sub,
                     *cases[i].options ? ":" : "", cases[i].options);
            if (run(clip, features, threads, 1, &messages))
                fail_msg("%s: %s", features, messages.text);
            expect_files(&e, sub, cases[i].names, clip->n_frames, 1);
        }
        expected_free(&e);
    }
    struct stat st;
    char path[100];
    snprintf(path, sizeof(path), "%s/values0", folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07007, 0); /* 0770, less what umask takes */
}

static const char *const small_names[] = { "0_216x100", "1_108x50", "2_54x25", "3_27x13", "4_14x7" };

/* Files of an earlier, longer run are emptied; frames left out are holes. */
static void runs_begin_afresh_and_leave_room(void **state)
{
    const Clip *longer = clip_get("ramp block:16 216 100 420 8 5 1");
    const Clip *clip = clip_get("mix block:8 216 100 420 8 4 1");
    Expected e = expected_of(clip, "", 4), other = expected_of(longer, "", 4);
    char features[300];
    Messages messages;
    (void)state;

    snprintf(features, sizeof(features), "cambi:heatmaps_path=%s/again", folder);
    assert_int_equal(run(longer, features, 2, 1, &messages), 0);
    expect_files(&other, "again", small_names, 5, 1);
    assert_int_equal(run(clip, features, 2, 1, &messages), 0);
    expect_files(&e, "again", small_names, 4, 1);
    assert_int_equal(run(clip, features, 2, 3, &messages), 0);
    expect_files(&e, "again", small_names, 4, 3);
    assert_int_equal(run(clip, features, 2, 2, &messages), 0);
    expect_files(&e, "again", small_names, 3, 2);
    expected_free(&e);
    expected_free(&other);
}

/* ---- Failures ----------------------------------------------------------------------------------------------------- */

static void expect_failure(const char *features, int err, const char *words)
{
    const Clip *clip = clip_get("mix block:8 216 100 420 8 4 1");
    Messages messages;

    assert_int_equal(run(clip, features, 2, 1, &messages), err);
    if (messages.counts[VG_LOG_ERROR] != 1 || !messages_contain(&messages, words))
        fail_msg("'%s', not '%s'", messages.text, words);
}

static void failures_are_told_once(void **state)
{
    char features[300], words[400], path[200];
    (void)state;

    snprintf(features, sizeof(features), "cambi:heatmaps_path=%s/no/folder", folder);
    snprintf(words, sizeof(words),
             "E cambi, frame 0: could not write heatmaps to '%s/no/folder': No such file or directory: give "
             "heatmaps_path a folder that can be written to, or leave it out\n",
             folder);
    expect_failure(features, -ENOENT, words);

    snprintf(path, sizeof(path), "%s/file", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    snprintf(features, sizeof(features), "psnr|cambi:eotf=pq:heatmaps_path=%s", path);
    snprintf(words, sizeof(words),
             "E cambi_eotf_pq, frame 0: could not write heatmaps to '%s/cambi_heatmap_scale_0_216x100_16b.gray': Not a "
             "directory: give",
             path);
    expect_failure(features, -ENOTDIR, words);

    /* A pipe, which nobody reads. Nothing is left of the scales before it. */
    snprintf(path, sizeof(path), "%s/pipe", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/pipe/cambi_heatmap_scale_2_54x25_16b.gray", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(features, sizeof(features), "cambi:heatmaps_path=%s/pipe", folder);
    expect_failure(features, -ENXIO, path);
    struct stat st;
    snprintf(path, sizeof(path), "%s/pipe/cambi_heatmap_scale_0_216x100_16b.gray", folder);
    assert_int_equal(stat(path, &st), -1);

    char long_name[300];
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = 0;
    memcpy(long_name, "cambi:heatmaps_path=", 20);
    expect_failure(long_name, -ENAMETOOLONG, "File name too long: give");
    expect_failure("cambi:heatmaps_path=", -EINVAL, "heatmaps_path is empty: give a folder, or leave it out");
    expect_failure("cambi:heatmaps_path=/tmp/a|cambi:eotf=pq:heatmaps_path=/tmp/a", -EINVAL,
                   "cambi is asked for twice with heatmaps_path=/tmp/a, and one would overwrite what the other writes");
}

/* The largest file may grow to two frames and a half: all files then end with the second. */
static void files_end_with_a_whole_frame(void **state)
{
    const Clip *clip = clip_get("mix block:8 216 100 420 8 4 1");
    Expected e = expected_of(clip, "", 4);
    const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
    const struct rlimit limit = { 5 * 216 * 100, RLIM_INFINITY };
    char features[300];
    (void)state;

    signal(SIGXFSZ, SIG_IGN);
    snprintf(features, sizeof(features), "cambi:heatmaps_path=%s/full", folder);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    Messages messages;
    const int err = run(clip, features, 2, 1, &messages);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    assert_int_equal(err, -EFBIG);
    assert_int_equal(messages.counts[VG_LOG_ERROR], 1);
    assert_true(messages_contain(&messages, "cambi, frame 2: could not write heatmaps to"));
    assert_true(messages_contain(&messages, "File too large: make room there, or leave heatmaps_path out"));
    expect_files(&e, "full", small_names, 2, 1);
    expected_free(&e);
}

/* A file that goes wrong when frames are there, of the last scale: the others lose the frame, too. */
static void files_lose_a_frame_together(void **state)
{
    const Clip *clip = clip_get("mix block:8 216 100 420 8 4 1");
    Expected e = expected_of(clip, "", 4);
    const VgCambiSide side = { .width = 216, .height = 100 };
    VgCambiHeatmaps heatmaps = { 0 };
    Messages messages = { 0 };
    const VgLog log = { messages_log, &messages };
    const VgScoreContext context = { .log = &log, .suffix = "" };
    char sub[200], path[300];
    uint8_t planes[2 * 2 * 216 * 100];
    (void)state;

    snprintf(sub, sizeof(sub), "%s/lost", folder);
    snprintf(path, sizeof(path), "%s/cambi_heatmap_scale_4_14x7_16b.gray", sub);
    for (uint64_t frame = 0; frame < 3; frame++) {
        size_t at = 0;
        for (int scale = 0; scale < VG_CAMBI_SCALES; at += e.sizes[scale++])
            memcpy(planes + at, e.bytes[scale] + frame * e.sizes[scale], e.sizes[scale]);
        if (frame == 2) {
            assert_int_equal(unlink(path), 0);
            assert_int_equal(mkdir(path, 0700), 0);
        }
        const int err = vg_cambi_write_heatmaps(&heatmaps, &context, sub, 0, &side, frame, (const void *)planes);
        assert_int_equal(err, frame == 2 ? -EISDIR : 0);
    }
    assert_true(messages_contain(&messages, "E cambi, frame 2: could not write heatmaps to"));
    assert_int_equal(rmdir(path), 0);
    FILE *file = fopen(path, "wb"); /* as it was, so that all can be compared */
    assert_non_null(file);
    assert_int_equal(fwrite(e.bytes[4], e.sizes[4], 2, file), 2);
    fclose(file);
    expect_files(&e, "lost", small_names, 2, 1);
    expected_free(&e);
}

/* ---- Several instances -------------------------------------------------------------------------------------------- */

static void instances_have_their_own_keys(void **state)
{
    const Clip *clip = clip_get("mix block:16 320 240 420 8 2 1");
    static const struct {
        const char *features, *keys;
    } cases[] = {
        { "cambi", "cambi" },
        { "cambi:eotf=pq", "cambi_eotf_pq" },
        /* One instance with full_ref: libvmaf's keys, whatever its options and whoever else is there. */
        { "cambi:full_ref=true:eotf=pq", "cambi_eotf_pq cambi_source cambi_full_reference" },
        { "cambi:eotf=pq|cambi:full_ref=true:topk=0.5",
          "cambi_eotf_pq cambi_topk_0.5 cambi_source cambi_full_reference" },
        { "cambi:full_ref=true|cambi:eotf=pq:full_ref=true|cambi:topk=0.5",
          "cambi cambi_source cambi_full_reference cambi_eotf_pq cambi_source_eotf_pq cambi_full_reference_eotf_pq "
          "cambi_topk_0.5" },
        { "cambi:full_ref=true:topk=0.5|cambi:eotf=pq:full_ref=true",
          "cambi_topk_0.5 cambi_source_topk_0.5 cambi_full_reference_topk_0.5 cambi_eotf_pq cambi_source_eotf_pq "
          "cambi_full_reference_eotf_pq" },
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        VgScorerConfig config = VG_SCORER_CONFIG_INIT;
        VgScorer *scorer;
        char keys[500] = "";
        config.geometry = clip->geometry;
        config.features = cases[i].features;
        assert_int_equal(vg_scorer_create(&scorer, &config), 0);
        for (unsigned k = 0; k < vg_scorer_n_keys(scorer); k++)
            snprintf(keys + strlen(keys), sizeof(keys) - strlen(keys), "%s%s", k ? " " : "", vg_scorer_key(scorer, k));
        assert_string_equal(keys, cases[i].keys);
        vg_scorer_free(&scorer);
    }
}

static double score_of(const VgScorer *scorer, const char *key)
{
    double value = -1;
    const char *name;

    for (unsigned k = 0; (name = vg_scorer_key(scorer, k)); k++)
        if (!strcmp(name, key))
            assert_int_equal(vg_scorer_score(scorer, k, 0, &value), 0);
    return value;
}

static VgScorer *scored(const Clip *dist, const Clip *ref, const char *features)
{
    const VgPicture d = clip_picture(dist, 0), r = clip_picture(ref, 0);
    VgScorerConfig config = VG_SCORER_CONFIG_INIT;
    VgScorer *scorer;

    config.geometry = dist->geometry;
    config.features = features;
    assert_int_equal(vg_scorer_create(&scorer, &config), 0);
    assert_int_equal(vg_scorer_submit(scorer, &d, &r), 0);
    assert_int_equal(vg_scorer_flush(scorer), 0);
    return scorer;
}

/* Instances in one run score as each alone does; a pass that grows after others were planned leaves those whole. */
static void instances_share_passes(void **state)
{
    const Clip *dist = clip_get("ramp block:16 320 240 420 8 1 1"), *ref = clip_get("mix block:16 320 240 420 8 1 1");
    static const char *const features[] = { "psnr", "cambi:cambi_max_val=17", "cambi:eotf=pq:full_ref=true" };
    static const char *const keys[][3] = { { "psnr_y", "psnr_cb", "psnr_cr" },
                                           { "cambi_cmxv_17", "cambi_cmxv_17", "cambi_cmxv_17" },
                                           { "cambi_eotf_pq", "cambi_source_eotf_pq",
                                             "cambi_full_reference_eotf_pq" } };
    static const char *const alone_keys[] = { "cambi_eotf_pq", "cambi_source", "cambi_full_reference" };
    char all_features[500];
    (void)state;

    snprintf(all_features, sizeof(all_features),
             "cambi:cambi_max_val=17|cambi:eotf=pq:full_ref=true|psnr|cambi:full_ref=true:heatmaps_path=%s/shared",
             folder);
    VgScorer *all = scored(dist, ref, all_features);
    for (size_t i = 0; i < 3; i++) {
        VgScorer *alone = scored(dist, ref, features[i]);
        for (size_t k = 0; k < 3; k++) {
            const double value = score_of(alone, i == 2 ? alone_keys[k] : keys[i][k]);
            if (!(value > 0) || value != score_of(all, keys[i][k]))
                fail_msg("%s is %.17g alone, %.17g with others", keys[i][k], value, score_of(all, keys[i][k]));
        }
        vg_scorer_free(&alone);
    }
    assert_true(score_of(all, "cambi_source") > 0);
    vg_scorer_free(&all);
    static const char *const names[] = { "0_320x240", "1_160x120", "2_80x60", "3_40x30", "4_20x15" };
    Expected e = expected_of(dist, "", 4);
    expect_files(&e, "shared", names, 1, 1);
    expected_free(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_the_values),       cmocka_unit_test(runs_begin_afresh_and_leave_room),
        cmocka_unit_test(failures_are_told_once),      cmocka_unit_test(files_end_with_a_whole_frame),
        cmocka_unit_test(files_lose_a_frame_together), cmocka_unit_test(instances_have_their_own_keys),
        cmocka_unit_test(instances_share_passes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
