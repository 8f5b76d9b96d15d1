/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * psnr against golden values, and its rules where no golden clip can reach them.
 */
#include "tests/cmocka_includes.h"
#include "tests/golden.h"

static void golden_rows(void **state)
{
    (void)state;
    Golden golden = golden_read("psnr.tsv.gz");
    assert_int_equal(golden.n_rows, 1412);
    golden_score(&golden, "psnr", 1, NULL);
    golden_score(&golden, "psnr", 3, NULL);
    golden_free(&golden);
}
int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(golden_rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
