/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Feature strings. The grammar is that of FFmpeg's libvmaf filter (features separated by '|', pairs by ':', backslash and
 * single quotes as in all FFmpeg options), plus bare names and the form NAME=OPTION=VALUE of libvmaf's command line.
 */
#include "engine/features.h"
#include "engine/c_locale.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PAIRS  64
#define MAX_LENGTH 65535 /* of a feature string */

typedef struct Pair {
    char *name;  /* NULL: a bare word */
    char *value; /* what follows '=', or the bare word */
} Pair;

typedef struct Segment {
    Pair pairs[MAX_PAIRS];
    unsigned n;
} Segment;

static void segment_free(Segment *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        free(s->pairs[i].name);
        free(s->pairs[i].value);
    }
    s->n = 0;
}

/*
 * Takes one token up to an unprotected terminator, unescaped and without surrounding blanks. *text moves to the
 * terminator. Returns NULL if out of memory; an open quote ends with the text and is reported.
 */
static char *take_token(const VgLog *log, const char **text, const char *terminators, int *err)
{
    const char *p = *text;
    char *token = malloc(strlen(p) + 1);
    if (!token) {
        *err = -ENOMEM;
        return NULL;
    }
    size_t n = 0, keep = 0; /* keep: length up to the last protected character */
    p += strspn(p, " \t\r\n");
    while (*p && !strchr(terminators, *p)) {
        if (*p == '\\' && p[1]) {
            token[n++] = p[1];
            p += 2;
            keep = n;
        } else if (*p == '\'') {
            const char *end = strchr(p + 1, '\'');
            if (!end) {
                vg_log(log, VG_LOG_ERROR,
                       "feature string: the quote that begins with %s is not closed: add the second '", p);
                free(token);
                *err = -EINVAL;
                return NULL;
            }
            memcpy(token + n, p + 1, (size_t)(end - p - 1));
            n += (size_t)(end - p - 1);
            p = end + 1;
            keep = n;
        } else {
            token[n++] = *p++;
        }
    }
    while (n > keep && strchr(" \t\r\n", token[n - 1]))
        n--;
    token[n] = 0;
    *text = p;
    return token;
}

/* Reads "a=b:c:..." up to '|' or the end. */
static int take_segment(const VgLog *log, const char **text, Segment *s)
{
    int err = 0;
    for (;;) {
        if (s->n == MAX_PAIRS) {
            vg_log(log, VG_LOG_ERROR, "a feature has more than %d options", MAX_PAIRS);
            return -EINVAL;
        }
        char *first = take_token(log, text, "=:|", &err);
        if (!first)
            return err;
        Pair *pair = &s->pairs[s->n];
        if (**text == '=') {
            ++*text;
            pair->name = first;
            pair->value = NULL;
            s->n++;
            pair->value = take_token(log, text, ":|", &err);
            if (!pair->value)
                return err;
        } else if (*first) {
            pair->name = NULL;
            pair->value = first;
            s->n++;
        } else {
            free(first);
        }
        if (**text != ':')
            return 0;
        ++*text;
    }
}

static int refuse_metric(const VgLog *log, const char *name)
{
    char known[400] = "";
    size_t n = 0;
    const char *nearest = "";
    unsigned best = ~0u;
    for (const VgMetric *const *m = vg_metrics; *m && n < sizeof(known); m++) {
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", (*m)->info.name);
        unsigned d = vg_edit_distance((*m)->info.name, name);
        if (d < best) {
            best = d;
            nearest = (*m)->info.name;
        }
    }
    vg_log(log, VG_LOG_ERROR, "unknown feature '%s', nearest is '%s': this build has %s", name, nearest, known);
    return -EINVAL;
}

/* Whether the feature writes where one before it does. */
static int check_outputs(const VgLog *log, const VgFeatureList *list, const VgFeature *feature)
{
    for (unsigned i = 0; i < list->n; i++) {
        for (const VgOption *o = feature->metric->info.options; o->name; o++) {
            if (list->features[i].metric != feature->metric || !(o->flags & VG_OPTION_OUTPUT))
                continue;
            const char *mine = *(char *const *)(const void *)((const char *)feature->options + o->offset);
            const char *other = *(char *const *)(const void *)((const char *)list->features[i].options + o->offset);
            if (!mine || !other || strcmp(mine, other))
                continue;
            vg_log(log, VG_LOG_ERROR,
                   "%s is asked for twice with %s=%s, and one would overwrite what the other writes: "
                   "give each its own",
                   feature->metric->info.name, o->name, mine);
            return -EINVAL;
        }
    }
    return 0;
}

static int add_feature(const VgLog *log, VgFeatureList *list, const VgMetric *metric, void *options)
{
    VgFeature feature = { .metric = metric, .options = options };
    vg_options_suffix(metric->info.options, options, feature.suffix);
    for (unsigned i = 0; i < list->n; i++) {
        const VgFeature *other = &list->features[i];
        if (other->metric != metric || strcmp(other->suffix, feature.suffix))
            continue;
        if (!vg_options_equal(metric->info.options, other->options, options))
            vg_log(log, VG_LOG_WARNING,
                   "%s is asked for twice under the same keys: the first request counts, the options of the second are "
                   "ignored, as libvmaf does",
                   metric->info.name);
        vg_options_free(metric->info.options, options);
        free(options);
        return 0;
    }
    int err = check_outputs(log, list, &feature);
    if (err)
        return err;
    VgFeature *grown = realloc(list->features, (list->n + 1) * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    list->features = grown;
    list->features[list->n++] = feature;
    return 0;
}

/* Turns the pairs of one segment into a metric and its options. */
static int resolve(const VgLog *log, const Segment *s, VgFeatureList *list)
{
    const char *name = NULL, *first_option = NULL;
    int name_pair = -1;
    for (unsigned i = 0; i < s->n; i++) {
        const Pair *p = &s->pairs[i];
        if (p->name ? !strcmp(p->name, "name") : i == 0) {
            name = p->value;
            name_pair = (int)i;
        }
    }
    char option[VG_KEY_SIZE];
    if (!name && s->pairs[0].name && strchr(s->pairs[0].value, '=')) { /* NAME=OPTION=VALUE */
        name = s->pairs[0].name;
        name_pair = 0;
        const char *equals = strchr(s->pairs[0].value, '=');
        snprintf(option, sizeof(option), "%.*s", (int)(equals - s->pairs[0].value), s->pairs[0].value);
        first_option = equals + 1;
    }
    if (!name) {
        vg_log(log, VG_LOG_ERROR, "a feature begins with '%s=%s' but names no metric: write name=METRIC:%s=%s",
               s->pairs[0].name, s->pairs[0].value, s->pairs[0].name, s->pairs[0].value);
        return -EINVAL;
    }
    if (!strcmp(name, "motion_v2")) {
        vg_log(log, VG_LOG_ERROR, "feature 'motion_v2' is called 'motion' since libvmaf 3.2.0: write motion");
        return -EINVAL;
    }
    const VgMetric *metric = vg_metric_find(name);
    if (!metric)
        return refuse_metric(log, name);

    const VgOption *table = metric->info.options;
    void *options = calloc(1, metric->options_size ? metric->options_size : 1);
    if (!options)
        return -ENOMEM;
    int err = vg_options_defaults(table, options);
    if (!err && first_option)
        err = vg_option_set(log, name, table, options, option, first_option);
    for (unsigned i = 0; !err && i < s->n; i++) {
        const Pair *p = &s->pairs[i];
        if ((int)i == name_pair || (p->name && !strcmp(p->name, "name")))
            continue;
        if (!p->name) {
            vg_log(log, VG_LOG_ERROR, "%s: option '%s' has no value: write %s=VALUE, or '|' before another feature",
                   name, p->value, p->value);
            err = -EINVAL;
        } else {
            err = vg_option_set(log, name, table, options, p->name, p->value);
        }
    }
    if (!err)
        err = add_feature(log, list, metric, options);
    if (err) {
        vg_options_free(table, options);
        free(options);
    }
    return err;
}

int vg_features_parse(const VgLog *log, const char *text, VgFeatureList *list)
{
    *list = (VgFeatureList){ 0 };
    if (!text || !*text)
        text = VG_DEFAULT_FEATURES;
    const char *whole = text;
    if (strlen(text) > MAX_LENGTH) {
        vg_log(log, VG_LOG_ERROR, "a feature string of %zu bytes is too long: at most %d are read", strlen(text),
               MAX_LENGTH);
        return -EINVAL;
    }
    VgCLocale locale = vg_c_locale_enter();
    int err = 0;
    while (!err && *text) {
        Segment segment = { .n = 0 };
        err = take_segment(log, &text, &segment);
        if (!err && segment.n)
            err = resolve(log, &segment, list);
        segment_free(&segment);
        if (*text == '|')
            text++;
    }
    vg_c_locale_leave(locale);
    if (!err && !list->n) {
        vg_log(log, VG_LOG_ERROR, "feature string '%s' names no feature: write for example %s", whole,
               VG_DEFAULT_FEATURES);
        err = -EINVAL;
    }
    if (err == -ENOMEM)
        vg_log(log, VG_LOG_ERROR, "out of memory");
    if (err)
        vg_features_free(list);
    return err;
}

void vg_features_free(VgFeatureList *list)
{
    for (unsigned i = 0; i < list->n; i++) {
        vg_options_free(list->features[i].metric->info.options, list->features[i].options);
        free(list->features[i].options);
    }
    free(list->features);
    *list = (VgFeatureList){ 0 };
}

int vg_features_check(const char *features, VgLogFn fn, void *opaque)
{
    VgLog log = { fn, opaque };
    VgFeatureList list;
    int err = vg_features_parse(&log, features, &list);
    if (!err)
        vg_features_free(&list);
    return err;
}
