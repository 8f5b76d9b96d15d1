/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Writers of libvmaf's logs: XML, JSON, CSV and MicroDVD subtitles, byte for byte, its slips included (scripts depend on
 * them), except that the fps field holds frames per second of wall-clock time. docs/options.md describes the formats.
 */
#include "engine/report.h"
#include "engine/c_locale.h"
#include "engine/output_file.h"
#include "engine/scorer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *vg_report_name(VgReport format)
{
    static const char *const names[VG_N_REPORTS] = { "xml", "json", "csv", "sub" };
    return (unsigned)format < VG_N_REPORTS ? names[format] : NULL;
}

/* For callers that have entered the "C" locale. */
static void number_text(double value, int precision, char text[VG_NUMBER_SIZE])
{
    if (precision == VG_PRECISION_FULL) {
        snprintf(text, VG_NUMBER_SIZE, "%.17g", value);
        return;
    }
    /*
     * libvmaf prints 16 decimals where 6 would show none of the fraction. It counts how often the fraction must be
     * multiplied by 10 to reach 1, with a 32-bit integer part: magnitudes that do not fit take the short form, and so
     * does all that is not finite.
     */
    int decimals = 0;
    double magnitude = fabs(value);
    if (magnitude < 2147483648.0) {
        double fraction = magnitude - (double)(int32_t)magnitude;
        for (; fraction > 0 && fraction < 1; fraction *= 10)
            decimals++;
    }
    snprintf(text, VG_NUMBER_SIZE, decimals > 6 ? "%.16f" : "%.6f", value);
}

void vg_number_text(double value, int precision, char text[VG_NUMBER_SIZE])
{
    VgCLocale locale = vg_c_locale_enter();
    number_text(value, precision, text);
    vg_c_locale_leave(locale);
}

/* JSON knows neither NaN nor infinity. */
static void json_number(FILE *f, double value, int precision)
{
    char text[VG_NUMBER_SIZE];
    number_text(value, precision, text);
    fputs(isfinite(value) ? text : "null", f);
}

/* Next frame from *frame on that has a value in any column. */
static int next_row(const VgReportSource *s, uint64_t *frame)
{
    double value;
    for (; *frame < s->n_frames; *frame += s->interval)
        for (unsigned c = 0; c < s->store->n_columns; c++)
            if (!s->store->columns[c].aggregate && !vg_store_get(s->store, c, *frame, &value))
                return 1;
    return 0;
}

/* Next column from `*column` on of that kind with a value at `frame`. */
static int next_value(const VgReportSource *s, unsigned *column, int aggregate, uint64_t frame, double *value)
{
    for (; *column < s->store->n_columns; ++*column)
        if (s->store->columns[*column].aggregate == aggregate && !vg_store_get(s->store, *column, frame, value))
            return 1;
    return 0;
}

static int next_pooled(const VgReportSource *s, unsigned *column)
{
    while (*column < s->store->n_columns && s->store->columns[*column].aggregate)
        ++*column;
    return *column < s->store->n_columns;
}

/* All pools of a column; returns how many: none if it cannot be pooled. */
static int pool_all(const VgReportSource *s, unsigned column, double pools[VG_N_POOLS])
{
    for (int p = 0; p < VG_N_POOLS; p++)
        if (vg_store_pool(s->store, column, s->n_frames, s->interval, (VgPool)p, &pools[p]))
            return 0;
    return VG_N_POOLS;
}

static void write_xml(FILE *f, const VgReportSource *s, int precision)
{
    const VgStoreColumn *columns = s->store->columns;
    char text[VG_NUMBER_SIZE];
    double value, pools[VG_N_POOLS];
    fprintf(f, "<VMAF version=\"%s\">\n", VG_LIBVMAF_VERSION);
    fprintf(f, "  <params qualityWidth=\"%u\" qualityHeight=\"%u\" />\n", s->width, s->height);
    fprintf(f, "  <fyi fps=\"%.2f\" />\n", s->fps);
    fputs("  <frames>\n", f);
    for (uint64_t i = 0; next_row(s, &i); i += s->interval) {
        fprintf(f, "    <frame frameNum=\"%" PRIu64 "\" ", i);
        for (unsigned c = 0; next_value(s, &c, 0, i, &value); c++) {
            number_text(value, precision, text);
            fprintf(f, "%s=\"%s\" ", columns[c].name, text);
        }
        fputs("/>\n", f);
    }
    fputs("  </frames>\n  <pooled_metrics>\n", f);
    for (unsigned c = 0; next_pooled(s, &c); c++) {
        fprintf(f, "    <metric name=\"%s\" ", columns[c].name);
        int n_pools = pool_all(s, c, pools);
        for (int p = 0; p < n_pools; p++) {
            number_text(pools[p], precision, text);
            fprintf(f, "%s=\"%s\" ", vg_pool_name((VgPool)p), text);
        }
        fputs("/>\n", f);
    }
    fputs("  </pooled_metrics>\n  <aggregate_metrics ", f);
    for (unsigned c = 0; next_value(s, &c, 1, 0, &value); c++) {
        number_text(value, precision, text);
        fprintf(f, "%s=\"%s\" ", columns[c].name, text);
    }
    fputs("/>\n</VMAF>\n", f);
}

static void json_frame(FILE *f, const VgReportSource *s, uint64_t frame, int precision)
{
    double value, following = 0;
    fprintf(f, "    {\n      \"frameNum\": %" PRIu64 ",\n      \"metrics\": {\n", frame);
    unsigned c = 0;
    for (int more = next_value(s, &c, 0, frame, &value); more;) {
        fprintf(f, "        \"%s\": ", s->store->columns[c++].name);
        json_number(f, value, precision);
        more = next_value(s, &c, 0, frame, &following);
        if (more)
            fputc(',', f);
        if (isfinite(value)) /* libvmaf ends the line after numbers only */
            fputc('\n', f);
        value = following;
    }
    fputs("      }\n    }", f);
}

static void write_json(FILE *f, const VgReportSource *s, int precision)
{
    const VgStoreColumn *columns = s->store->columns;
    double value, pools[VG_N_POOLS];
    fprintf(f, "{\n  \"version\": \"%s\",\n  \"fps\": ", VG_LIBVMAF_VERSION);
    if (isfinite(s->fps))
        fprintf(f, "%.2f", s->fps);
    else
        fputs("null", f);
    fputs(",\n  \"frames\": [", f);
    for (uint64_t i = 0; next_row(s, &i); i += s->interval) {
        fputs(i ? ",\n" : "\n", f); /* the comma goes by the index, not by the place in the list */
        json_frame(f, s, i, precision);
    }
    fputs("\n  ],\n  \"pooled_metrics\": {", f);
    const char *separator = "\n";
    for (unsigned c = 0; next_pooled(s, &c); c++) {
        fprintf(f, "%s    \"%s\": {\n", separator, columns[c].name);
        separator = ",\n";
        int n_pools = pool_all(s, c, pools);
        for (int p = 0; p < n_pools; p++) {
            fprintf(f, "      \"%s\": ", vg_pool_name((VgPool)p));
            json_number(f, pools[p], precision);
            fputs(p + 1 < n_pools ? ",\n" : "\n", f);
        }
        fputs("    }", f);
    }
    fputs("\n  },\n  \"aggregate_metrics\": {", f);
    separator = "\n";
    for (unsigned c = 0; next_value(s, &c, 1, 0, &value); c++) {
        fprintf(f, "%s    \"%s\": ", separator, columns[c].name);
        separator = ",\n";
        json_number(f, value, precision);
    }
    fputs("\n  }\n}\n", f);
}

static void write_csv(FILE *f, const VgReportSource *s, int precision)
{
    char text[VG_NUMBER_SIZE];
    double value;
    fputs("Frame,", f);
    for (unsigned c = 0; next_pooled(s, &c); c++)
        fprintf(f, "%s,", s->store->columns[c].name);
    fputc('\n', f);
    for (uint64_t i = 0; next_row(s, &i); i += s->interval) {
        fprintf(f, "%" PRIu64 ",", i);
        for (unsigned c = 0; next_value(s, &c, 0, i, &value); c++) {
            number_text(value, precision, text);
            fprintf(f, "%s,", text);
        }
        fputc('\n', f);
    }
}

static void write_sub(FILE *f, const VgReportSource *s, int precision)
{
    char text[VG_NUMBER_SIZE];
    double value;
    for (uint64_t i = 0; next_row(s, &i); i += s->interval) {
        fprintf(f, "{%" PRIu64 "}{%" PRIu64 "}frame: %" PRIu64 "|", i, i + 1, i);
        for (unsigned c = 0; next_value(s, &c, 0, i, &value); c++) {
            number_text(value, precision, text);
            fprintf(f, "%s: %s|", s->store->columns[c].name, text);
        }
        fputc('\n', f);
    }
}

void vg_report_write(FILE *f, const VgReportSource *source, VgReport format, int precision)
{
    static void (*const writers[VG_N_REPORTS])(FILE *, const VgReportSource *, int) = { write_xml, write_json,
                                                                                        write_csv, write_sub };
    VgCLocale locale = vg_c_locale_enter();
    writers[format](f, source, precision);
    vg_c_locale_leave(locale);
}

int vg_scorer_write_report(const VgScorer *s, const char *path, VgReport format, int precision)
{
    if ((unsigned)format >= VG_N_REPORTS) {
        vg_log(&s->log, VG_LOG_ERROR, "unknown log format %d", (int)format);
        return -EINVAL;
    }
    if (precision != VG_PRECISION_LIBVMAF && precision != VG_PRECISION_FULL) {
        vg_log(&s->log, VG_LOG_ERROR, "log precision %d: give %d or %d", precision, VG_PRECISION_LIBVMAF,
               VG_PRECISION_FULL);
        return -EINVAL;
    }
    VgOutputFile file;
    int err = vg_output_open(&file, path, &s->log);
    if (err)
        return err;
    VgReportSource source = { .store = &s->store,
                              .n_frames = s->submitted,
                              .interval = s->n_subsample,
                              .width = s->geometry.width,
                              .height = s->geometry.height,
                              .fps = vg_scorer_fps(s) };
    vg_report_write(file.stream, &source, format, precision);
    return vg_output_close(&file, &s->log);
}

/* ---- The table for people ---------------------------------------------------------------------------------------- */

void vg_scorer_print_summary(const VgScorer *s, VgPool pool)
{
    static const VgPool order[] = { VG_POOL_MIN, VG_POOL_MEAN, VG_POOL_HARMONIC_MEAN, VG_POOL_MAX };
    const unsigned n_order = sizeof(order) / sizeof(order[0]);
    const VgStore *store = &s->store;
    VgCLocale locale = vg_c_locale_enter();
    int width = 6;
    for (unsigned c = 0; c < store->n_columns; c++)
        if ((int)strlen(store->columns[c].name) > width)
            width = (int)strlen(store->columns[c].name);

    char line[VG_KEY_SIZE + 4 * VG_NUMBER_SIZE + 20];
    int n = snprintf(line, sizeof(line), "%-*s", width, "scores");
    for (unsigned p = 0; p < n_order; p++) {
        char title[20];
        snprintf(title, sizeof(title), "%s%s", order[p] == pool ? "*" : "", vg_pool_name(order[p]));
        n += snprintf(line + n, sizeof(line) - (size_t)n, " %14s", title);
    }
    vg_log(&s->log, VG_LOG_INFO, "%s", line);
    for (unsigned c = 0; c < store->n_columns; c++) {
        n = snprintf(line, sizeof(line), "%-*s", width, store->columns[c].name);
        for (unsigned p = 0; p < n_order; p++) {
            double value;
            char text[VG_NUMBER_SIZE] = "-";
            int err = store->columns[c].aggregate
                          ? (order[p] == VG_POOL_MEAN ? vg_store_get(store, c, 0, &value) : -ENOENT)
                          : vg_store_pool(store, c, s->submitted, s->n_subsample, order[p], &value);
            if (!err)
                number_text(value, VG_PRECISION_LIBVMAF, text);
            n += snprintf(line + n, sizeof(line) - (size_t)n, " %14s", text);
        }
        vg_log(&s->log, VG_LOG_INFO, "%s", line);
    }
    vg_c_locale_leave(locale);
}
