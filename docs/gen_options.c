/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Writes docs/options.md from the option tables of the filter and of the metrics. With the path of an existing file it
 * compares instead: a test that the reference is up to date.
 */
#include "engine/metric.h"
#include "libavfilter_glue/vmaf_gpu_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In a table cell '|' must be escaped. */
static void cell(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', f);
        fputc(*text, f);
    }
}

static void filter_row(FILE *f, const char *name, const char *values, const char *preset, const char *help)
{
    fprintf(f, "| `%s` | %s | %s | ", name, values, preset);
    cell(f, help);
    fputs(" |\n", f);
}

static void filter_number(FILE *f, const char *name, int preset, int min, int max, const char *help)
{
    char values[50], text[20];
    if (max == INT_MAX)
        snprintf(values, sizeof(values), "from %d", min);
    else
        snprintf(values, sizeof(values), "%d to %d", min, max);
    snprintf(text, sizeof(text), "%d", preset);
    filter_row(f, name, values, text, help);
}

static void filter_value(FILE *f, const char *option, const char *value, const char *help)
{
    fprintf(f, "| `%s=%s` | | | ", option, value);
    cell(f, help);
    fputs(" |\n", f);
}

static void write_filter_options(FILE *f)
{
    fputs("## Options of the filter\n\n| option | values | default | meaning |\n| --- | --- | --- | --- |\n", f);
#define TEXT(name, help)                     filter_row(f, #name, "text", "", help);
#define CHOICE(name, preset, help)           filter_row(f, #name, "one of", (preset) ? (preset) : "", help);
#define VALUE(option, value, help)           filter_value(f, #option, value, help);
#define NUMBER(name, preset, min, max, help) filter_number(f, #name, preset, min, max, help);
#define FLAG(name, preset, help)             filter_row(f, #name, "0, 1", (preset) < 0 ? "" : (preset) ? "1" : "0", help);
    VMAF_GPU_OPTIONS(TEXT, CHOICE, VALUE, NUMBER, FLAG)
    fputs("\n", f);
}

static void write_metric(FILE *f, unsigned index)
{
    const VgMetricInfo *info = vg_metric_info(index);
    static const char *const types[] = { "bool", "int", "double", "text" };
    fprintf(f, "### `%s`\n\n%s\n\nInputs: %s\n\n", info->name, info->help, info->inputs);
    fputs("| option | in keys | type | default | range | meaning |\n| --- | --- | --- | --- | --- | --- |\n", f);
    for (const VgOption *o = info->options; o->name; o++) {
        const char *alias = !(o->flags & VG_OPTION_IN_KEY) ? "" : o->alias ? o->alias : o->name;
        fprintf(f, "| `%s` | %s%s%s | %s | ", o->name, *alias ? "`" : "", alias, *alias ? "`" : "", types[o->type]);
        if (o->type == VG_OPTION_BOOL)
            fprintf(f, "%s | true, false | ", o->value ? "true" : "false");
        else if (o->type == VG_OPTION_STRING)
            fprintf(f, "%s | | ", o->text ? o->text : "");
        else
            fprintf(f, "%.9g | %.9g to %.9g | ", o->value, o->min, o->max);
        cell(f, o->help);
        fputs(" |\n", f);
    }
    fputs("\nKeys, in order: ", f);
    const char *key, *enabled_by;
    for (unsigned k = 0; (key = vg_metric_key(index, k, &enabled_by)); k++)
        fprintf(f, "%s`%s`%s%s%s", k ? ", " : "", key, enabled_by ? " (" : "", enabled_by ? enabled_by : "",
                enabled_by ? ")" : "");
    fputs(".\n\n", f);
}

static void write_all(FILE *f)
{
    fputs("# Options\n\n"
          "Made from the option tables by `ninja -C build/lib docs`; do not edit.\n\n",
          f);
    write_filter_options(f);
    fputs(
        "## Features\n\n"
        "`feature=` takes features separated by `|`, each `name=METRIC:OPTION=VALUE:...` as in FFmpeg's libvmaf "
        "filter.\n"
        "Bare names (`psnr|motion`, `psnr:enable_mse=true`) and libvmaf's command-line form (`psnr=enable_mse=true`) "
        "work\n"
        "too. Inside a filter graph each `:` of a feature needs a backslash for the graph's parser and one for the "
        "option's:\n"
        "`feature=name=psnr\\\\:enable_mse=true|name=motion` in a shell's single quotes.\n\n"
        "Values follow libvmaf's rules. A number is first rounded to binary32 and printed with six significant "
        "digits;\n"
        "that text is used, and shown in keys. Booleans are `true` or `false`. Names that do not exist and values out "
        "of\n"
        "range are refused. An option marked \"in keys\" becomes part of the metric's keys when its value is not the\n"
        "default: `integer_motion3_mffw_mmxv_18`; some keys never do, which [numerics.md](numerics.md) tells. Of two "
        "requests\n"
        "for one metric with the same keys the first counts. A colon in a value is escaped once more:\n"
        "`feature=name=cambi\\\\:heatmaps_path=a\\\\\\\\\\\\:b` in single quotes is a folder named `a:b`.\n\n",
        f);
    for (unsigned i = 0; vg_metric_info(i); i++)
        write_metric(f, i);
    fputs(
        "## Logs\n\n"
        "The four formats are libvmaf's, byte for byte, so that scripts that read its logs go on working:\n\n"
        "- numbers have six decimals, or sixteen where six would show nothing of the fraction; `log_precision=17` "
        "prints\n"
        "  every double in full, for comparing bits;\n"
        "- `version` is that of the libvmaf release whose scores these are, " VG_LIBVMAF_VERSION ";\n"
        "- `fps` is ours: pairs of frames per second of wall-clock time;\n"
        "- infinities and NaN are legal scores; JSON shows them as `null`;\n"
        "- frames are numbered from 0 in the order in which pairs were made; with `n_subsample` every Nth is listed;\n"
        "- columns stand in the order in which libvmaf stores them on one thread;\n"
        "- pools are `min`, `max`, `mean` and `harmonic_mean`, the latter m / sum(1 / (s + 1)) - 1;\n"
        "- `apsnr_*` are aggregates: one value for the clip.\n\n"
        "A log is written under a temporary name beside its own (`PATH.PROCESS-N.part`) and renamed when complete. "
        "Pipes,\n"
        "devices and links are written in place.\n",
        f);
}

int main(int argc, char **argv)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (!memory)
        return 1;
    write_all(memory);
    if (fclose(memory))
        return 1;
    if (argc < 2) {
        int failed = fwrite(text, 1, size, stdout) != size || fflush(stdout);
        free(text);
        return failed;
    }
    FILE *f = fopen(argv[1], "rb");
    char *old = calloc(1, size + 2);
    size_t n = f && old ? fread(old, 1, size + 1, f) : 0;
    int same = n == size && !memcmp(old, text, size);
    if (f)
        fclose(f);
    free(old);
    free(text);
    printf("1..1\n%s 1 - %s is up to date\n", same ? "ok" : "not ok", argv[1]);
    if (!same)
        puts("# run: ninja -C build/lib docs");
    return !same;
}
