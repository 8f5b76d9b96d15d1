/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Pools and logs against those of libvmaf 3.2.0: score stores are filled from its 17-digit values, pools must have its
 * bits and logs its bytes.
 */
#include "tests/cmocka_includes.h"

#include "engine/options.h"
#include "engine/report.h"
#include "engine/scorer.h"
#include "tests/golden.h"
#include "tests/messages.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The complete logs, by the run in the table that they belong to ("empty" has no rows). */
static const struct {
    const char *log, *ref, *options;
} logs[] = {
    { "a1", "mix none 96 80 420 8 5 1", "vmaf_v0.6.1.json;psnr=enable_apsnr=true;n1" },
    { "a2", "mix none 96 80 420 8 5 1", "vmaf_v0.6.1.json;psnr=enable_apsnr=true;n2" },
    { "a3", "mix none 96 80 420 8 5 1", "vmaf_v0.6.1.json:name=a|vmaf_v0.6.1neg.json:name=b;float_ssim|ciede;n3" },
    { "b", "mix none 96 80 420 8 2 1", "vmaf_b_v0.6.3.json;-;n1" },
    { "nan", "noise none 4 16 444 8 2 1", "-;vif;n1" },
    { "nan2", "noise none 4 16 444 8 3 1", "-;vif|psnr;n2" },
    { "tiny", "mix none 96 80 420 8 2 1", "clip_tiny.json:name=t|clip_frac.json:name=f|clip_neg.json:name=n;-;n1" },
    { "empty", "mix none 96 80 420 8 2 1", "-;-;n1" },
    { "one", "mix none 96 80 420 8 1 1", "vmaf_v0.6.1.json;-;n1" },
};

static int same_run(const Golden *g, size_t row, size_t other)
{
    return !strcmp(golden_cell(g, row, GOLDEN_REF), golden_cell(g, other, GOLDEN_REF)) &&
           !strcmp(golden_cell(g, row, GOLDEN_OPTIONS), golden_cell(g, other, GOLDEN_OPTIONS));
}

static unsigned column_named(VgStore *store, const char *name, int aggregate)
{
    unsigned column;
    for (column = 0; column < store->n_columns; column++)
        if (!strcmp(store->columns[column].name, name))
            return column;
    assert_int_equal(vg_store_add(store, name, aggregate, &column), 0);
    return column;
}

/* Fills a store with the frames and aggregates of the run in rows first..end-1. */
static VgReportSource fill(VgStore *store, const Golden *g, size_t first, size_t end)
{
    VgReportSource source = { .store = store };
    unsigned frames;
    assert_int_equal(
        sscanf(golden_cell(g, first, GOLDEN_REF), "%*s %*s %u %u %*u %*u %u", &source.width, &source.height, &frames),
        3);
    source.n_frames = frames;
    source.interval = (uint32_t)atoi(strrchr(golden_cell(g, first, GOLDEN_OPTIONS), 'n') + 1);
    for (size_t row = first; row < end; row++) {
        const char *frame = golden_cell(g, row, GOLDEN_FRAME), *text = golden_cell(g, row, GOLDEN_VALUE);
        char *rest;
        uint64_t index = strtoul(frame, &rest, 10);
        int aggregate = !strcmp(frame, "aggregate");
        if (*rest && !aggregate)
            continue;
        unsigned column = column_named(store, golden_cell(g, row, GOLDEN_KEY), aggregate);
        assert_int_equal(vg_store_put(store, column, index, strtod(text, NULL)), 0);
    }
    return source;
}

static char *file_text(const char *name, size_t *size)
{
    char path[1000];
    snprintf(path, sizeof(path), "%s/report/%s", getenv("GOLDEN_DIR"), name);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    char *text = calloc(1, 200000);
    *size = fread(text, 1, 200000, f);
    fclose(f);
    return text;
}

static void compare_logs(const VgReportSource *source, const char *log)
{
    for (int format = 0; format < VG_N_REPORTS; format++) {
        char name[50], *got;
        size_t size, got_size;
        snprintf(name, sizeof(name), "%s.%s", log, vg_report_name((VgReport)format));
        char *expected = file_text(name, &size);
        FILE *f = open_memstream(&got, &got_size);
        vg_report_write(f, source, (VgReport)format, VG_PRECISION_LIBVMAF);
        fclose(f);
        if (size != got_size || memcmp(got, expected, size))
            fail_msg("%s differs:\n%s", name, got);
        free(got);
        free(expected);
    }
}

static void pools_and_logs_equal_libvmafs(void **state)
{
    (void)state;
    Golden g = golden_read("report.tsv.gz");
    unsigned pools = 0, n_logs = 0;
    for (size_t first = 0, end; first < g.n_rows; first = end) {
        for (end = first; end < g.n_rows && same_run(&g, first, end);)
            end++;
        VgStore store = { 0 };
        VgReportSource source = fill(&store, &g, first, end);
        for (size_t row = first; row < end; row++) {
            for (int p = 0; p < VG_N_POOLS; p++) {
                if (strcmp(golden_cell(&g, row, GOLDEN_FRAME), vg_pool_name((VgPool)p)))
                    continue;
                double value;
                unsigned column = column_named(&store, golden_cell(&g, row, GOLDEN_KEY), 0);
                assert_int_equal(vg_store_pool(&store, column, source.n_frames, source.interval, (VgPool)p, &value), 0);
                if (!golden_equal(golden_cell(&g, row, GOLDEN_VALUE), value))
                    fail_msg("row %zu: %s is %.17g, not %s", row, vg_pool_name((VgPool)p), value,
                             golden_cell(&g, row, GOLDEN_VALUE));
                pools++;
            }
        }
        for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
            if (strcmp(logs[i].ref, golden_cell(&g, first, GOLDEN_REF)) ||
                strcmp(logs[i].options, golden_cell(&g, first, GOLDEN_OPTIONS)))
                continue;
            compare_logs(&source, logs[i].log);
            n_logs++;
        }
        vg_store_free(&store);
    }
    VgStore none = { 0 };
    VgReportSource empty = { .store = &none, .n_frames = 2, .interval = 1, .width = 96, .height = 80 };
    compare_logs(&empty, "empty");
    assert_int_equal(pools, 996);
    assert_int_equal(n_logs + 1, 9);
    golden_free(&g);
}

static void prints_numbers_by_libvmafs_rule(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *six, *full;
    } cases[] = {
        { 0, "0.000000", "0" },
        { 1.5, "1.500000", "1.5" },
        { 0.1, "0.100000", "0.10000000000000001" },
        { 3e-7, "0.0000003000000000", "2.9999999999999999e-07" },
        { 1e-6, "0.000001", "9.9999999999999995e-07" },
        { -3e-7, "-0.0000003000000000", "-2.9999999999999999e-07" },
        { 12.0000004, "12.0000003999999993", "12.000000399999999" },
        { 3000000000.5, "3000000000.500000", "3000000000.5" },
        { INFINITY, "inf", "inf" },
        { -INFINITY, "-inf", "-inf" },
        { 1e300, NULL, "1.0000000000000001e+300" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[VG_NUMBER_SIZE];
        vg_number_text(cases[i].value, VG_PRECISION_LIBVMAF, text);
        if (cases[i].six)
            assert_string_equal(text, cases[i].six);
        vg_number_text(cases[i].value, VG_PRECISION_FULL, text);
        if (cases[i].full)
            assert_string_equal(text, cases[i].full);
        assert_true(strtod(text, NULL) == cases[i].value);
    }
    char text[VG_NUMBER_SIZE];
    vg_number_text(copysign(NAN, -1), VG_PRECISION_LIBVMAF, text);
    assert_string_equal(text, "-nan");
    vg_number_text(-1.7976931348623157e308, VG_PRECISION_LIBVMAF, text);
    assert_int_equal(strlen(text), 1 + 309 + 7);
}

static void partly_filled_columns_are_left_out(void **state)
{
    (void)state;
    VgStore store = { 0 };
    unsigned a = column_named(&store, "a", 0), b = column_named(&store, "b", 0);
    vg_store_put(&store, a, 0, 1);
    vg_store_put(&store, a, 1, 2);
    vg_store_put(&store, b, 1, INFINITY);
    VgReportSource source = { .store = &store, .n_frames = 4, .interval = 1, .width = 8, .height = 8 };
    static const char *const expected[VG_N_REPORTS] = {
        "<VMAF version=\"3.2.0\">\n  <params qualityWidth=\"8\" qualityHeight=\"8\" />\n  <fyi fps=\"0.00\" />\n"
        "  <frames>\n    <frame frameNum=\"0\" a=\"1.000000\" />\n"
        "    <frame frameNum=\"1\" a=\"2.000000\" b=\"inf\" />\n  </frames>\n  <pooled_metrics>\n"
        "    <metric name=\"a\" />\n    <metric name=\"b\" />\n  </pooled_metrics>\n  <aggregate_metrics />\n</VMAF>\n",
        "{\n  \"version\": \"3.2.0\",\n  \"fps\": 0.00,\n  \"frames\": [\n    {\n      \"frameNum\": 0,\n"
        "      \"metrics\": {\n        \"a\": 1.000000\n      }\n    },\n    {\n      \"frameNum\": 1,\n"
        "      \"metrics\": {\n        \"a\": 2.000000,\n        \"b\": null      }\n    }\n  ],\n"
        "  \"pooled_metrics\": {\n    \"a\": {\n    },\n    \"b\": {\n    }\n  },\n  \"aggregate_metrics\": {\n  "
        "}\n}\n",
        "Frame,a,b,\n0,1.000000,\n1,2.000000,inf,\n",
        "{0}{1}frame: 0|a: 1.000000|\n{1}{2}frame: 1|a: 2.000000|b: inf|\n",
    };
    for (int format = 0; format < VG_N_REPORTS; format++) {
        char *got;
        size_t size;
        FILE *f = open_memstream(&got, &size);
        vg_report_write(f, &source, (VgReport)format, VG_PRECISION_LIBVMAF);
        fclose(f);
        assert_string_equal(got, expected[format]);
        free(got);
    }
    vg_store_free(&store);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[200];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static unsigned files_in_folder(void)
{
    unsigned n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/vmafgpu-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[100];
    chmod(folder, 0700);
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command);
}

static VgScorer *scored_frames(Messages *m, unsigned n)
{
    static const uint8_t samples[16 * 16];
    VgScorerConfig config = VG_SCORER_CONFIG_INIT;
    config.geometry = (VgGeometry){ 16, 16, VG_CHROMA_400, 8 };
    config.features = "psnr";
    *m = (Messages){ 0 };
    config.log = messages_log;
    config.log_opaque = m;
    VgScorer *s;
    assert_int_equal(vg_scorer_create(&s, &config), 0);
    VgPicture p = { .size = sizeof(p),
                    .geometry = config.geometry,
                    .sample_bytes = 1,
                    .data = { samples },
                    .pitch = { 16 },
                    .step = { 1 } };
    for (unsigned i = 0; i < n; i++) {
        int err;
        while ((err = vg_scorer_submit(s, &p, &p)) == -EAGAIN)
            assert_true(vg_scorer_collect(s, VG_WAIT_ONE) > 0);
        assert_int_equal(err, 0);
    }
    assert_int_equal(vg_scorer_flush(s), 0);
    return s;
}

static VgScorer *scored(Messages *m)
{
    return scored_frames(m, 3);
}

static const char csv[] = "Frame,psnr_y,\n0,60.000000,\n1,60.000000,\n2,60.000000,\n";

static void assert_file(const char *path, const char *expected)
{
    char text[4096];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = 0;
    assert_string_equal(text, expected);
}

static void replaces_files_whole(void **state)
{
    (void)state;
    Messages m;
    VgScorer *s = scored(&m);
    char path[200];
    strcpy(path, in_folder("log.csv"));
    assert_int_equal(vg_report_check(path, messages_log, &m), 0);
    assert_int_equal(access(path, F_OK), -1); /* a check creates nothing */
    assert_int_equal(vg_scorer_write_report(s, path, VG_REPORT_CSV, 6), 0);
    assert_file(path, csv);
    struct stat before, after;
    chmod(path, 0640);
    stat(path, &before);
    assert_int_equal(vg_scorer_write_report(s, path, VG_REPORT_CSV, 6), 0);
    stat(path, &after);
    assert_int_not_equal(before.st_ino, after.st_ino);
    assert_int_equal(after.st_mode & 0777, 0640);
    assert_int_equal(files_in_folder(), 1);

    /* Links are written in place: both names keep showing one file. */
    char link_path[200], hard_path[200];
    strcpy(link_path, in_folder("link.csv"));
    strcpy(hard_path, in_folder("hard.csv"));
    FILE *f = fopen(path, "w");
    fclose(f);
    assert_int_equal(symlink("log.csv", link_path), 0);
    assert_int_equal(vg_scorer_write_report(s, link_path, VG_REPORT_CSV, 6), 0);
    assert_file(path, csv);
    lstat(link_path, &after);
    assert_true(S_ISLNK(after.st_mode));
    assert_int_equal(link(path, hard_path), 0);
    f = fopen(path, "w");
    fclose(f);
    assert_int_equal(vg_scorer_write_report(s, hard_path, VG_REPORT_CSV, 6), 0);
    assert_file(path, csv);
    assert_int_equal(files_in_folder(), 3);
    vg_scorer_free(&s);
}

static void failures_name_the_file_and_leave_nothing(void **state)
{
    (void)state;
    Messages m;
    for (unsigned n = 3; n <= 3000; n += 2997) { /* less and more than one buffer of the stream */
        VgScorer *long_run = scored_frames(&m, n);
        m = (Messages){ 0 };
        assert_int_equal(vg_scorer_write_report(long_run, "/dev/full", VG_REPORT_XML, 6), -ENOSPC);
        assert_int_equal(m.counts[VG_LOG_ERROR], 1);
        vg_scorer_free(&long_run);
    }
    VgScorer *s = scored(&m);
    static const struct {
        const char *path, *words;
        int error;
    } cases[] = {
        { "/dev/full", "could not write '/dev/full': No space left on device", -ENOSPC },
        { "/nonexistent/x.csv", "could not open file '/nonexistent/x.csv'", -ENOENT },
        { "/", "could not open file '/'", -EISDIR },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        m = (Messages){ 0 };
        assert_int_equal(vg_scorer_write_report(s, cases[i].path, VG_REPORT_CSV, 6), cases[i].error);
        assert_int_equal(m.counts[VG_LOG_ERROR], 1);
        assert_true(messages_contain(&m, cases[i].words));
        if (i) {
            m = (Messages){ 0 };
            assert_int_not_equal(vg_report_check(cases[i].path, messages_log, &m), 0);
            assert_int_equal(m.counts[VG_LOG_ERROR], 1);
        }
    }
    m = (Messages){ 0 };
    assert_int_equal(vg_report_check("", messages_log, &m), -EINVAL);
    assert_int_equal(vg_scorer_write_report(s, in_folder("x"), (VgReport)7, 6), -EINVAL);
    assert_int_equal(vg_scorer_write_report(s, in_folder("x"), VG_REPORT_CSV, 5), -EINVAL);
    assert_true(messages_contain(&m, "log precision 5: give 6 or 17"));
    assert_int_equal(files_in_folder(), 3);
    vg_scorer_free(&s);
}

static void prints_an_aligned_table(void **state)
{
    (void)state;
    Messages m;
    VgScorer *s = scored(&m);
    m = (Messages){ 0 };
    vg_scorer_print_summary(s, VG_POOL_HARMONIC_MEAN);
    assert_string_equal(m.text, "I scores            min           mean *harmonic_mean            max\n"
                                "I psnr_y      60.000000      60.000000      60.000000      60.000000\n");
    vg_scorer_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_and_logs_equal_libvmafs),
        cmocka_unit_test(prints_numbers_by_libvmafs_rule),
        cmocka_unit_test(partly_filled_columns_are_left_out),
        cmocka_unit_test(replaces_files_whole),
        cmocka_unit_test(failures_name_the_file_and_leave_nothing),
        cmocka_unit_test(prints_an_aligned_table),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
