/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * See golden.h.
 */
#include "tests/cmocka_includes.h"

#include "tests/clipgen.h"
#include "tests/golden.h"
#include "tests/messages.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <zlib.h>

static char *read_text(const char *name)
{
    const char *dir = getenv("GOLDEN_DIR");
    char path[1024];
    size_t used = 0, size = 1 << 16;
    char *text = malloc(size);
    gzFile file;
    int n;

    snprintf(path, sizeof(path), "%s/%s", dir ? dir : "tests/golden", name);
    if (!(file = gzopen(path, "rb")))
        fail_msg("cannot open %s (GOLDEN_DIR says where it is)", path);
    while (text && (n = gzread(file, text + used, (unsigned)(size - used - 1))) > 0) {
        used += (size_t)n;
        if (size - used < 2)
            text = realloc(text, size *= 2);
    }
    gzclose(file);
    assert_non_null(text);
    text[used] = 0;
    return text;
}

Golden golden_read(const char *name)
{
    Golden golden = { .text = read_text(name), .n_columns = 1 };
    size_t lines = 0;

    for (const char *c = golden.text; *c; c++) {
        lines += *c == '\n';
        golden.n_columns += !lines && *c == '\t';
    }
    assert_true(lines > 1);
    golden.n_rows = lines - 1;

    const size_t n_cells = golden.n_rows * golden.n_columns;
    golden.cells = malloc(lines * golden.n_columns * sizeof(*golden.cells));
    assert_non_null(golden.cells);

    char *c = strchr(golden.text, '\n') + 1;
    for (size_t cell = 0; cell < n_cells; cell++) {
        const char end = (cell + 1) % golden.n_columns ? '\t' : '\n';
        golden.cells[cell] = c;
        c += strcspn(c, "\t\n");
        if (*c != end)
            fail_msg("%s: row %zu has a wrong number of columns", name, cell / golden.n_columns + 1);
        *c++ = 0;
    }
    return golden;
}

void golden_free(Golden *golden)
{
    free(golden->cells);
    free(golden->text);
    *golden = (Golden){ 0 };
}

int golden_equal(const char *text, double value)
{
    const double expected = strtod(text, NULL);

    if (isnan(expected) && text[0] != '-' && text[0] != '+')
        return isnan(value);
    return !memcmp(&expected, &value, sizeof(value));
}

static void submit_all(VgScorer *scorer, const Clip *dist, const Clip *ref)
{
    assert_int_equal(dist->n_frames, ref->n_frames);
    for (unsigned frame = 0; frame < ref->n_frames; frame++) {
        const VgPicture d = clip_picture(dist, frame), r = clip_picture(ref, frame);
        int err;
        while ((err = vg_scorer_submit(scorer, &d, &r)) == -EAGAIN)
            assert_true(vg_scorer_collect(scorer, VG_WAIT_ONE) >= 0);
        assert_int_equal(err, 0);
    }
    assert_int_equal(vg_scorer_flush(scorer), 0);
}

static int find_score(const VgScorer *scorer, const char *key, const char *frame, double *value)
{
    const char *name;

    if (!strcmp(frame, "flush")) {
        for (unsigned i = 0; i < vg_scorer_n_aggregates(scorer); i++)
            if (!vg_scorer_aggregate(scorer, i, &name, value) && !strcmp(name, key))
                return 0;
        return -ENOENT;
    }
    for (unsigned i = 0; (name = vg_scorer_key(scorer, i)); i++)
        if (!strcmp(name, key))
            return vg_scorer_score(scorer, i, strtoull(frame, NULL, 10), value);
    return -ENOENT;
}

size_t golden_end(const Golden *golden, size_t first)
{
    size_t end = first;
    int same = 1;

    while (same && ++end < golden->n_rows)
        for (unsigned column = GOLDEN_REF; same && column <= GOLDEN_OPTIONS; column++)
            same = !strcmp(golden_cell(golden, end, column), golden_cell(golden, first, column));
    return end;
}

const char *golden_options(const Golden *golden, size_t row, const char *metric)
{
    const char *options = golden_cell(golden, row, GOLDEN_OPTIONS);
    const size_t length = strlen(metric);

    if (strncmp(options, metric, length) || (options[length] && options[length] != '='))
        return options;
    return options + length + (options[length] != 0);
}

static void score_rows(const Golden *golden, size_t first, size_t end, const char *metric, const VgScorerConfig *model,
                       GoldenRefused *refused)
{
    const char *options = golden_cell(golden, first, GOLDEN_OPTIONS);
    const char *ref_args = golden_cell(golden, first, GOLDEN_REF);
    const Clip *ref = clip_get(ref_args);
    const Clip *dist = clip_get(golden_cell(golden, first, GOLDEN_DIST));
    VgScorerConfig config = *model;
    VgScorer *scorer;
    Messages messages = { 0 };
    char features[256];

    const int whole = golden_options(golden, first, metric) != options;
    snprintf(features, sizeof(features), "%s%s%s", whole ? "" : metric, whole || !*options ? "" : ":", options);

    config.geometry = ref->geometry;
    config.features = features;
    config.log = messages_log;
    config.log_opaque = &messages;
    const int err = vg_scorer_create(&scorer, &config);
    if (err == -EINVAL && refused) {
        refused(golden, first, end);
        return;
    }
    if (err)
        fail_msg("%s, %s: %s", ref_args, features, messages.text);
    submit_all(scorer, dist, ref);

    for (size_t row = first; row < end; row++) {
        const char *frame = golden_cell(golden, row, GOLDEN_FRAME), *key = golden_cell(golden, row, GOLDEN_KEY);
        const char *expected = golden_cell(golden, row, GOLDEN_VALUE);
        double value;
        if (find_score(scorer, key, frame, &value))
            fail_msg("%s, %s: no %s of frame %s", ref_args, features, key, frame);
        if (!golden_equal(expected, value))
            fail_msg("%s, %s, %u threads: %s of frame %s is %.17g, not %s", ref_args, features, config.n_threads, key,
                     frame, value, expected);
    }
    vg_scorer_free(&scorer);
}

void golden_score_as(const Golden *golden, const char *metric, const VgScorerConfig *model, GoldenRefused *refused)
{
    assert_int_equal(golden->n_columns, GOLDEN_COLUMNS);
    for (size_t first = 0, end; first < golden->n_rows; first = end) {
        end = golden_end(golden, first);
        score_rows(golden, first, end, metric, model, refused);
    }
}

void golden_score(const Golden *golden, const char *metric, unsigned n_threads, GoldenRefused *refused)
{
    VgScorerConfig config = VG_SCORER_CONFIG_INIT;

    config.n_threads = n_threads;
    golden_score_as(golden, metric, &config, refused);
}
