/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The clip generator against the MD5 sums of its definition.
 */
#include "tests/cmocka_includes.h"

#include "tests/clipgen.h"
#include "tests/md5.h"

static void clips_are_those_of_the_definition(void **state)
{
    (void)state;
    static const char *const clips[][2] = {
        { "flat none 176 144 420 8 2 1", "58f3627b82d2f40d6d24bb3a8178c115" },
        { "noise none 176 144 420 8 2 1", "154524205c5120e5b8f6e6864870f10c" },
        { "ramp none 176 144 420 8 2 1", "a894129100a5ea7dd29d48d5133f8b58" },
        { "tex none 176 144 420 8 2 1", "120dcd0e7e8317c1f5797bb0067cc743" },
        { "checker none 176 144 420 8 2 1", "d61495f8854f57e3f29af3c3370fcad4" },
        { "mix none 176 144 420 8 2 1", "c08d00e2eebee7ca41808345533e7895" },
        { "mix blur+quant:6 1920 1080 420 10 2 7", "aaea72ff5cff74e6d79105734f2e4119" },
    };

    for (unsigned i = 0; i < sizeof(clips) / sizeof(clips[0]); i++) {
        char sum[33];
        const Clip *clip = clip_get(clips[i][0]);
        md5_of(clip->bytes, clip->frame_size * clip->n_frames, sum);
        assert_string_equal(sum, clips[i][1]);
    }
    clip_free_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(clips_are_those_of_the_definition) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
