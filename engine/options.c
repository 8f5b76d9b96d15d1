/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Option tables: defaults, parsing, key suffixes.
 */
#include "engine/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int *int_at(void *options, const VgOption *o)
{
    return (int *)((char *)options + o->offset);
}

static double *double_at(void *options, const VgOption *o)
{
    return (double *)((char *)options + o->offset);
}

static char **string_at(void *options, const VgOption *o)
{
    return (char **)((char *)options + o->offset);
}

int vg_options_defaults(const VgOption *table, void *options)
{
    for (const VgOption *o = table; o->name; o++) {
        switch (o->type) {
        case VG_OPTION_BOOL:
        case VG_OPTION_INT:
            *int_at(options, o) = (int)o->value;
            break;
        case VG_OPTION_DOUBLE:
            *double_at(options, o) = o->value;
            break;
        case VG_OPTION_STRING:
            *string_at(options, o) = o->text ? strdup(o->text) : NULL;
            if (o->text && !*string_at(options, o))
                return -ENOMEM;
            break;
        }
    }
    return 0;
}

void vg_options_free(const VgOption *table, void *options)
{
    if (!options)
        return;
    for (const VgOption *o = table; o->name; o++) {
        if (o->type == VG_OPTION_STRING) {
            free(*string_at(options, o));
            *string_at(options, o) = NULL;
        }
    }
}

unsigned vg_edit_distance(const char *a, const char *b)
{
    /* One row of the classic dynamic programme; names are short, longer ones are compared by their beginnings. */
    unsigned row[65];
    size_t la = strnlen(a, 64), lb = strnlen(b, 64);
    for (size_t j = 0; j <= lb; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= la; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= lb; j++) {
            unsigned above = row[j];
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            if (above + 1 < best)
                best = above + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[lb];
}

static const VgOption *find(const VgOption *table, const char *name)
{
    for (const VgOption *o = table; o->name; o++)
        if (!strcmp(o->name, name))
            return o;
    return NULL;
}

/* An alias is what a user of keys would try; otherwise the nearest name is the one with the fewest edits. */
static const VgOption *nearest(const VgOption *table, const char *name)
{
    const VgOption *best = table;
    unsigned best_distance = ~0u;
    for (const VgOption *o = table; o->name; o++) {
        if (o->alias && !strcmp(o->alias, name))
            return o;
        unsigned d = vg_edit_distance(o->name, name);
        if (d < best_distance) {
            best_distance = d;
            best = o;
        }
    }
    return best;
}

static int refuse_name(const VgLog *log, const char *metric, const VgOption *table, const char *name)
{
    char known[700] = "";
    size_t n = 0;
    for (const VgOption *o = table; o->name && n < sizeof(known); o++)
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", o->name);
    if (n)
        vg_log(log, VG_LOG_ERROR, "unknown option '%s' of %s, nearest is '%s': it has %s", name, metric,
               nearest(table, name)->name, known);
    else
        vg_log(log, VG_LOG_ERROR, "unknown option '%s' of %s: it has no options", name, metric);
    return -EINVAL;
}

/* libvmaf's normalisation: text that is wholly a number becomes what %g makes of its binary32 value. */
static const char *normalise(const char *value, char buffer[32])
{
    char *end;
    float number = strtof(value, &end);
    if (end == value || *end)
        return value;
    snprintf(buffer, 32, "%g", (double)number);
    return buffer;
}

static int refuse_number(const VgLog *log, const char *metric, const VgOption *o, const char *value)
{
    vg_log(log, VG_LOG_ERROR, "%s: %s='%s' is not a number: give %s from %.9g to %.9g", metric, o->name, value,
           o->type == VG_OPTION_INT ? "an integer" : "a number", o->min, o->max);
    return -EINVAL;
}

static int refuse_range(const VgLog *log, const char *metric, const VgOption *o, const char *value)
{
    vg_log(log, VG_LOG_ERROR, "%s: %s=%s is out of range: give a value from %.9g to %.9g", metric, o->name, value,
           o->min, o->max);
    return -EINVAL;
}

int vg_option_set(const VgLog *log, const char *metric, const VgOption *table, void *options, const char *name,
                  const char *value)
{
    const VgOption *o = find(table, name);
    if (!o)
        return refuse_name(log, metric, table, name);

    char buffer[32], *end;
    const char *text = normalise(value, buffer);
    switch (o->type) {
    case VG_OPTION_BOOL:
        if (strcmp(text, "true") && strcmp(text, "false")) {
            vg_log(log, VG_LOG_ERROR, "%s: %s='%s' is not a boolean: give 'true' or 'false'", metric, name, value);
            return -EINVAL;
        }
        *int_at(options, o) = !strcmp(text, "true");
        return 0;
    case VG_OPTION_STRING: {
        char *copy = strdup(text);
        if (!copy)
            return -ENOMEM;
        free(*string_at(options, o));
        *string_at(options, o) = copy;
        return 0;
    }
    case VG_OPTION_INT:
    case VG_OPTION_DOUBLE:
        break;
    }

    /* atoi and atof, as the reference parses: what follows the number is ignored, "2.9" is the integer 2. */
    double number = o->type == VG_OPTION_INT ? (double)strtol(text, &end, 10) : strtod(text, &end);
    /* "-0", ".x" and words read as 0 without beginning with the digit 0; NaN would pass every comparison. */
    if (isnan(number) || (number == 0 && text[0] != '0'))
        return refuse_number(log, metric, o, value);
    if (number < o->min || number > o->max)
        return refuse_range(log, metric, o, value);
    if (*end)
        vg_log(log, VG_LOG_WARNING, "%s: %s='%s' is read as %g, as libvmaf does", metric, name, value, number);
    if (o->type == VG_OPTION_INT)
        *int_at(options, o) = (int)number;
    else
        *double_at(options, o) = number;
    return 0;
}

static int differs(const VgOption *o, const void *a, const void *b)
{
    const char *pa = (const char *)a + o->offset, *pb = (const char *)b + o->offset;
    switch (o->type) {
    case VG_OPTION_BOOL:
    case VG_OPTION_INT:
        return *(const int *)pa != *(const int *)pb;
    case VG_OPTION_DOUBLE:
        return *(const double *)pa != *(const double *)pb;
    case VG_OPTION_STRING: {
        const char *sa = *(char *const *)pa, *sb = *(char *const *)pb;
        return (sa && sb) ? strcmp(sa, sb) != 0 : sa != sb;
    }
    }
    return 0;
}

int vg_options_equal(const VgOption *table, const void *a, const void *b)
{
    for (const VgOption *o = table; o->name; o++)
        if (differs(o, a, b))
            return 0;
    return 1;
}

static int is_default(const VgOption *o, const void *options)
{
    const char *p = (const char *)options + o->offset;
    switch (o->type) {
    case VG_OPTION_BOOL:
    case VG_OPTION_INT:
        return *(const int *)p == (int)o->value;
    case VG_OPTION_DOUBLE:
        return *(const double *)p == o->value;
    case VG_OPTION_STRING: {
        const char *s = *(char *const *)p;
        return (s && o->text) ? !strcmp(s, o->text) : s == o->text;
    }
    }
    return 1;
}

void vg_options_suffix(const VgOption *table, const void *options, char suffix[VG_KEY_SIZE])
{
    size_t n = 0;
    suffix[0] = 0;
    /* Selection by ascending name: tables are short, and the order of the table is the order of the help. */
    for (const char *last = "";;) {
        const VgOption *next = NULL;
        for (const VgOption *o = table; o->name; o++)
            if ((o->flags & VG_OPTION_IN_KEY) && !is_default(o, options) && strcmp(o->name, last) > 0 &&
                (!next || strcmp(o->name, next->name) < 0))
                next = o;
        if (!next || n >= VG_KEY_SIZE - 1)
            return;
        last = next->name;
        const char *alias = next->alias ? next->alias : next->name;
        const char *p = (const char *)options + next->offset;
        size_t room = VG_KEY_SIZE - n;
        switch (next->type) {
        case VG_OPTION_BOOL:
            n += (size_t)snprintf(suffix + n, room, "_%s", alias);
            break;
        case VG_OPTION_INT:
            n += (size_t)snprintf(suffix + n, room, "_%s_%d", alias, *(const int *)p);
            break;
        case VG_OPTION_DOUBLE:
            n += (size_t)snprintf(suffix + n, room, "_%s_%g", alias, *(const double *)p);
            break;
        case VG_OPTION_STRING:
            n += (size_t)snprintf(suffix + n, room, "_%s_%s", alias, *(char *const *)p ? *(char *const *)p : "");
            break;
        }
    }
}
