/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Option tables and feature strings: what is accepted, with which value and key, and what is refused, in which words.
 */
#include "tests/cmocka_includes.h"

#include "engine/features.h"
#include "tests/messages.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>

typedef struct Options {
    int flag, count;
    double ratio, weight;
    char *path;
} Options;

/* Out of alphabetical order on purpose: keys sort by name. */
static const VgOption table[] = {
    { "weight", "w", VG_OPTION_DOUBLE, 1, 0, 5, NULL, offsetof(Options, weight), VG_OPTION_IN_KEY, "" },
    { "count", "n", VG_OPTION_INT, 5, 0, 2000000, NULL, offsetof(Options, count), VG_OPTION_IN_KEY, "" },
    { "flag", "f", VG_OPTION_BOOL, 0, 0, 1, NULL, offsetof(Options, flag), VG_OPTION_IN_KEY, "" },
    { "ratio", NULL, VG_OPTION_DOUBLE, 0.5, -1, 1e300, NULL, offsetof(Options, ratio), 0, "" },
    { "path", NULL, VG_OPTION_STRING, 0, 0, 0, "none", offsetof(Options, path), VG_OPTION_IN_KEY, "" },
    { 0 },
};

static int set(Options *o, Messages *m, const char *name, const char *value)
{
    VgLog log = { messages_log, m };
    *m = (Messages){ 0 };
    return vg_option_set(&log, "metric", table, o, name, value);
}

static void accepts_libvmafs_number_syntax(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
        double expected;
        int warns;
    } cases[] = {
        { "weight", "2", 2, 0 },          { "weight", "0.123456789", 0.123457, 0 }, /* binary32, then six digits */
        { "weight", "18e-1", 1.8, 0 },    { "weight", "0x4", 4, 0 },
        { "weight", "0", 0, 0 },          { "weight", ".0", 0, 0 },    /* wholly numeric: becomes "0" first */
        { "weight", "2x", 2, 1 },                                      /* atof */
        { "weight", "0junk", 0, 1 },      { "weight", "1e-60", 0, 0 }, /* below binary32 */
        { "ratio", "-0.25", -0.25, 0 },   { "count", "7", 7, 0 },
        { "count", "2.9", 2, 1 },         { "count", "0.4", 0, 1 },
        { "count", "1234567", 1, 1 }, /* %g makes it 1.23457e+06, atoi takes the 1 */
        { "count", "123456", 123456, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Options o = { 0 };
        Messages m;
        assert_int_equal(vg_options_defaults(table, &o), 0);
        if (set(&o, &m, cases[i].name, cases[i].value))
            fail_msg("%s=%s was refused: %s", cases[i].name, cases[i].value, m.text);
        double value = !strcmp(cases[i].name, "count") ? o.count : !strcmp(cases[i].name, "ratio") ? o.ratio : o.weight;
        if (value != cases[i].expected || (int)m.counts[VG_LOG_WARNING] != cases[i].warns)
            fail_msg("%s=%s gave %.17g with '%s'", cases[i].name, cases[i].value, value, m.text);
        vg_options_free(table, &o);
    }
}

static void refuses_with_the_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *words;
    } cases[] = {
        { "weight", "-0", "weight='-0' is not a number" },
        { "weight", "abc", "weight='abc' is not a number: give a number from 0 to 5" },
        { "weight", "", "weight='' is not a number" },
        { "weight", "nan", "weight='nan' is not a number" },
        { "weight", "inf", "weight=inf is out of range: give a value from 0 to 5" },
        { "weight", "5.1", "weight=5.1 is out of range: give a value from 0 to 5" },
        { "weight", "-1", "weight=-1 is out of range" },
        { "count", "-1", "count=-1 is out of range: give a value from 0 to 2000000" },
        { "count", "99999999999", "count='99999999999' is read as 1, as libvmaf does" }, /* 1e+11: a warning */
        { "count", "-0.5", "count='-0.5' is not a number: give an integer" },
        { "flag", "1", "flag='1' is not a boolean: give 'true' or 'false'" },
        { "flag", "TRUE", "flag='TRUE' is not a boolean" },
        { "flag", "yes", "flag='yes' is not a boolean" },
        { "ratoi", "1",
          "unknown option 'ratoi' of metric, nearest is 'ratio': it has weight, count, flag, ratio, path" },
        { "n", "1", "unknown option 'n' of metric, nearest is 'count'" }, /* an alias is no name */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Options o = { 0 };
        Messages m;
        assert_int_equal(vg_options_defaults(table, &o), 0);
        int err = set(&o, &m, cases[i].name, cases[i].value);
        if (!messages_contain(&m, cases[i].words))
            fail_msg("%s=%s gave %d and '%s', not '%s'", cases[i].name, cases[i].value, err, m.text, cases[i].words);
        if (m.counts[VG_LOG_ERROR])
            assert_int_equal(err, -EINVAL);
        vg_options_free(table, &o);
    }
}

static void makes_suffixes_by_sorted_names(void **state)
{
    (void)state;
    Options o = { 0 };
    Messages m;
    char suffix[VG_KEY_SIZE];
    assert_int_equal(vg_options_defaults(table, &o), 0);
    vg_options_suffix(table, &o, suffix);
    assert_string_equal(suffix, "");
    set(&o, &m, "weight", "1.0"); /* its default: not in the key */
    set(&o, &m, "ratio", "0.7");  /* never in the key */
    vg_options_suffix(table, &o, suffix);
    assert_string_equal(suffix, "");
    set(&o, &m, "weight", "0.3333333333");
    set(&o, &m, "flag", "true");
    set(&o, &m, "count", "18.0");
    set(&o, &m, "path", "1.50");
    vg_options_suffix(table, &o, suffix);
    assert_string_equal(suffix, "_n_18_f_path_1.5_w_0.333333");
    char long_text[600];
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = 0;
    set(&o, &m, "path", long_text);
    vg_options_suffix(table, &o, suffix);
    assert_int_equal(strlen(suffix), VG_KEY_SIZE - 1);
    vg_options_free(table, &o);
}

static void ignores_the_programs_locale(void **state)
{
    (void)state;
    /* A locale with a decimal comma, made here: none may be installed. */
    char folder[] = "/tmp/vmafgpu-locale-XXXXXX", command[200];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof(command), "localedef -f UTF-8 -i de_DE '%s/de_DE.UTF-8'", folder);
    assert_int_equal(system(command), 0);
    setenv("LOCPATH", folder, 1);
    assert_non_null(setlocale(LC_ALL, "de_DE.UTF-8"));
    char comma[20];
    snprintf(comma, sizeof(comma), "%.1f", 0.5);
    VgFeatureList list;
    int err = vg_features_parse(NULL, "motion:motion_fps_weight=0.5", &list);
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
    assert_string_equal(comma, "0,5");
    assert_int_equal(err, 0);
    assert_string_equal(list.features[0].suffix, "_mfw_0.5");
    vg_features_free(&list);
}

/* Parses a feature string and gives "metric+suffix metric+suffix ..." */
static int parse(const char *text, char *out, Messages *m)
{
    *m = (Messages){ 0 };
    VgLog log = { messages_log, m };
    VgFeatureList list;
    int err = vg_features_parse(&log, text, &list);
    out[0] = 0;
    for (unsigned i = 0; i < list.n; i++)
        sprintf(out + strlen(out), "%s%s%s", i ? " " : "", list.features[i].metric->info.name, list.features[i].suffix);
    vg_features_free(&list);
    return err;
}

static void reads_every_form_of_feature_strings(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        { NULL, "psnr float_ssim motion" },
        { "", "psnr float_ssim motion" },
        { "name=psnr:enable_mse=true|name=motion", "psnr motion" },
        { "enable_mse=true:name=psnr", "psnr" },
        { "psnr|motion", "psnr motion" },
        { "motion|psnr", "motion psnr" },
        { "||psnr||", "psnr" },
        { " psnr | motion ", "psnr motion" },
        { "psnr:enable_mse=true", "psnr" },
        { "motion=motion_max_val=18:motion_five_frame_window=true", "motion_mffw_mmxv_18" },
        { "motion=debug=true", "motion" },
        { "name=mot'ion':motion_max_val='18'", "motion_mmxv_18" },
        { "name=mo\\tion:motion_max_val=1\\8", "motion_mmxv_18" },
        { "motion:motion_max_val=18:motion_max_val=17", "motion_mmxv_17" },
        { "motion|motion:motion_max_val=18|motion:motion_max_val=18.0", "motion motion_mmxv_18" },
        { "motion:motion_max_val=10000", "motion" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[400];
        Messages m;
        int err = parse(cases[i].text, out, &m);
        if (err || strcmp(out, cases[i].expected) || m.counts[VG_LOG_WARNING])
            fail_msg("'%s' gave %d '%s' and '%s'", cases[i].text ? cases[i].text : "NULL", err, out, m.text);
    }
}

static void refuses_broken_feature_strings(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "psrn", "unknown feature 'psrn', nearest is 'psnr'" },
        { "name=psrn", "unknown feature 'psrn', nearest is 'psnr'" },
        { "vmaf", "unknown feature 'vmaf'" },
        { "motion_v2", "'motion_v2' is called 'motion'" },
        { "float_motion", "unknown feature 'float_motion', nearest is" },
        { "psnr=true", "names no metric" },
        { "enable_mse=true", "names no metric: write name=METRIC:enable_mse=true" },
        { "psnr:enable_mse", "psnr: option 'enable_mse' has no value: write enable_mse=VALUE" },
        { "psnr:enable_mse=1", "enable_mse='1' is not a boolean" },
        { "psnr:enable_mes=true", "unknown option 'enable_mes' of psnr, nearest is 'enable_mse'" },
        { "motion:mmxv=18", "unknown option 'mmxv' of motion, nearest is 'motion_max_val'" },
        { "motion:motion_max_val=10001", "motion_max_val=10001 is out of range: give a value from 0 to 10000" },
        { "float_ssim:scale=11", "scale=11 is out of range: give a value from 0 to 10" },
        { "name=", "unknown feature ''" },
        { "|", "names no feature" },
        { "name='psnr", "is not closed" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[400];
        Messages m;
        int err = parse(cases[i].text, out, &m);
        if (err != -EINVAL || m.counts[VG_LOG_ERROR] != 1 || !messages_contain(&m, cases[i].words))
            fail_msg("'%s' gave %d and '%s', not '%s'", cases[i].text, err, m.text, cases[i].words);
    }
}

static void refuses_endless_feature_strings(void **state)
{
    (void)state;
    char out[400];
    Messages m;
    char *text = malloc(65537);
    memset(text, '|', 65536);
    text[65536] = 0;
    assert_int_equal(parse(text, out, &m), -EINVAL);
    assert_true(messages_contain(&m, "a feature string of 65536 bytes is too long: at most 65535 are read"));
    memcpy(text, "psnr", 4);
    text[65535] = 0;
    assert_int_equal(parse(text, out, &m), 0);
    assert_string_equal(out, "psnr");
    free(text);
}

static void says_that_a_second_request_is_dropped(void **state)
{
    (void)state;
    char out[400];
    Messages m;
    assert_int_equal(parse("psnr|psnr:enable_mse=true", out, &m), 0);
    assert_string_equal(out, "psnr");
    assert_int_equal(m.counts[VG_LOG_WARNING], 1);
    assert_true(messages_contain(&m, "psnr is asked for twice"));
    assert_int_equal(parse("psnr|psnr", out, &m), 0);
    assert_int_equal(m.counts[VG_LOG_WARNING], 0);
}

static void tables_are_consistent(void **state)
{
    (void)state;
    for (unsigned i = 0; vg_metric_info(i); i++) {
        const VgMetricInfo *info = vg_metric_info(i);
        assert_non_null(info->help);
        assert_non_null(info->inputs);
        const char *enabled_by;
        assert_non_null(vg_metric_key(i, 0, &enabled_by));
        assert_null(enabled_by);
        for (const VgOption *o = info->options; o->name; o++) {
            assert_non_null(o->help);
            if (o->type == VG_OPTION_INT || o->type == VG_OPTION_DOUBLE) {
                /* 0 may stand for "not given" where it cannot be given. */
                assert_true((o->min <= o->value || o->value == 0) && o->value <= o->max);
            } else if (o->type == VG_OPTION_BOOL) {
                assert_true(o->value == 0 || o->value == 1);
            }
            for (const VgOption *other = o + 1; other->name; other++) {
                assert_string_not_equal(o->name, other->name);
                assert_int_not_equal(o->offset, other->offset);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_libvmafs_number_syntax),
        cmocka_unit_test(refuses_with_the_remedy),
        cmocka_unit_test(makes_suffixes_by_sorted_names),
        cmocka_unit_test(ignores_the_programs_locale),
        cmocka_unit_test(reads_every_form_of_feature_strings),
        cmocka_unit_test(refuses_broken_feature_strings),
        cmocka_unit_test(refuses_endless_feature_strings),
        cmocka_unit_test(says_that_a_second_request_is_dropped),
        cmocka_unit_test(tables_are_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
