/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Golden values: tables of scores of libvmaf 3.2.0, and of intermediate values.
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "engine/metric.h"

/** A table of tab-separated cells. */
typedef struct Golden {
    size_t n_rows; /* the heading is not a row */
    unsigned n_columns;
    const char **cells; /* row by row */
    char *text;
} Golden;

/** Columns of the tables of scores. Stage tables have their own. */
enum { GOLDEN_REF, GOLDEN_DIST, GOLDEN_OPTIONS, GOLDEN_FRAME, GOLDEN_KEY, GOLDEN_VALUE, GOLDEN_COLUMNS };

/** Reads tests/golden/`name`, gzipped or not. Fails the test if it cannot. */
Golden golden_read(const char *name);
void golden_free(Golden *golden);

static inline const char *golden_cell(const Golden *golden, size_t row, unsigned column)
{
    return golden->cells[row * golden->n_columns + column];
}

/** End of the rows of scores that have the clips and options of row `first`. */
size_t golden_end(const Golden *golden, size_t first);

/** A row's options for the metric. Some tables hold them alone, some whole feature strings, the metric's name before them. */
const char *golden_options(const Golden *golden, size_t row, const char *metric);

/** Whether a score has the bits of a table's text. Any NaN equals any NaN, unless the table gives its sign. */
int golden_equal(const char *text, double value);

/** What to do with the rows first..end-1, a pair and options that a scorer refuses. */
typedef void GoldenRefused(const Golden *golden, size_t first, size_t end);

/**
 * Scores every pair of clips of the table with every option string and fails the test at the first key and frame that
 * differs in a bit. `refused` NULL: a refusal fails the test, too.
 */
void golden_score(const Golden *golden, const char *metric, unsigned n_threads, GoldenRefused *refused);

/** The same by a configuration, whose geometry, features and log are set for each pair. */
void golden_score_as(const Golden *golden, const char *metric, const VgScorerConfig *model, GoldenRefused *refused);

#endif
