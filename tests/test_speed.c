/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * speed_chroma and speed_temporal against golden values, stage by stage, and their rules in closed form.
 */
#include "tests/cmocka_includes.h"

#include "tests/clipgen.h"
#include "tests/emitted.h"
#include "tests/golden.h"
#include "tests/harness.h"

#include <stdlib.h>
#include <string.h>

static void golden_table(const char *name, const char *metric, size_t n_rows, unsigned n_threads)
{
    Golden golden = golden_read(name);

    assert_int_equal(golden.n_rows, n_rows);
    golden_score(&golden, metric, n_threads, NULL);
    golden_free(&golden);
    clip_free_all();
}

static void golden_chroma(void **state)
{
    (void)state;
    golden_table("speed_chroma.tsv.gz", "speed_chroma", 777, 1);
}

static void golden_temporal(void **state)
{
    (void)state;
    golden_table("speed_temporal.tsv.gz", "speed_temporal", 373, 3);
    golden_table("speed_upscale.tsv.gz", "speed_temporal", 36, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_chroma),
        cmocka_unit_test(golden_temporal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
