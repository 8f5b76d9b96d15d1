/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * See harness.h.
 */
#include "tests/cmocka_includes.h"

#include "engine/options.h"
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N_FRAMES (VG_MAX_LAG + 1)

static uint32_t random32(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* ---- Contents --------------------------------------------------------------------------------------------------- */

/* Where a sample is: frame t counts back from the current one. */
typedef struct Position {
    uint32_t x, y, width, height, plane, t, max;
    int dist;
} Position;

typedef uint32_t Content(const Position *at, uint64_t *random);

static uint32_t noise(const Position *at, uint64_t *random)
{
    return random32(random) % (at->max + 1);
}

static uint32_t all_zero(const Position *at, uint64_t *random)
{
    (void)at;
    (void)random;
    return 0;
}

static uint32_t all_max(const Position *at, uint64_t *random)
{
    (void)random;
    return at->max;
}

/* Greatest possible errors, everywhere the same sign. */
static uint32_t opposite(const Position *at, uint64_t *random)
{
    (void)random;
    return (at->t + (uint32_t)at->dist) & 1 ? at->max : 0;
}

static uint32_t opposite_checkers(const Position *at, uint64_t *random)
{
    (void)random;
    return (at->x + at->y + at->t + (uint32_t)at->dist) & 1 ? at->max : 0;
}

static uint32_t opposite_columns(const Position *at, uint64_t *random)
{
    (void)random;
    return (at->x + at->t + (uint32_t)at->dist) & 1 ? at->max : 0;
}

static uint32_t opposite_rows(const Position *at, uint64_t *random)
{
    (void)random;
    return (at->y + at->t + (uint32_t)at->dist) & 1 ? at->max : 0;
}

static uint32_t ramp(const Position *at, uint64_t *random)
{
    (void)random;
    const uint64_t slope = (uint64_t)at->x * at->max / at->width;
    const uint32_t value = (uint32_t)slope + at->y + at->t + 5 * at->plane + (3 + at->plane) * (uint32_t)at->dist;
    return value < at->max ? value : at->max;
}

/* Single bright samples at the corners and in the middle of the sides, on one side of the pair and in one frame. */
static uint32_t impulses(const Position *at, uint64_t *random)
{
    (void)random;
    const int x = at->x == 0 || at->x == at->width - 1 || at->x == at->width / 2;
    const int y = at->y == 0 || at->y == at->height - 1 || at->y == at->height / 2;
    const int inside = at->x == at->width / 2 && at->y == at->height / 2;
    return x && y && !inside && (at->dist || at->t == 1) ? at->max : at->max / 16;
}

static uint32_t near_noise(const Position *at, uint64_t *random)
{
    return at->max / 2 + random32(random) % 3;
}

/* Wide bands, a 10-bit level from the next one, with a few other samples in them. */
static uint32_t bands(const Position *at, uint64_t *random)
{
    const uint32_t step = at->max > 1023 ? (at->max + 1) / 1024 : 1;
    const uint32_t band = (at->x + 2 * at->y) / (11 + 4 * (uint32_t)at->dist) + at->t;
    const uint32_t speck = random32(random) % 32 == 0 ? 1 + random32(random) % 3 : 0;
    const uint32_t value = at->max / 12 + step * (band + speck);
    return value < at->max ? value : at->max;
}

static const struct {
    const char *name;
    Content *content;
} contents[] = {
    { "noise", noise },
    { "zeros", all_zero },
    { "maxima", all_max },
    { "opposite", opposite },
    { "opposite checkers", opposite_checkers },
    { "opposite columns", opposite_columns },
    { "opposite rows", opposite_rows },
    { "ramp", ramp },
    { "impulses", impulses },
    { "nearly flat", near_noise },
    { "bands", bands },
};
#define N_CONTENTS (sizeof(contents) / sizeof(contents[0]))

/* ---- Pictures --------------------------------------------------------------------------------------------------- */

typedef struct Layout {
    const char *name;
    uint32_t sample_bytes; /* 0: the least that the depth needs */
    int high_bits;         /* samples in the high bits of words */
    int interleaved;       /* Cb and Cr share rows */
    int bottom_up;         /* negative pitches */
    uint32_t margin;       /* samples around each plane, as around a cropped picture */
    int dist_only;         /* the reference has no gaps: the layouts of a pair differ */
    int aligned;           /* rows begin at multiples of ALIGNMENT, as in the pictures of decoders */
} Layout;

#define ALIGNMENT 64

#define DECODED "aligned, semi-planar" /* as pictures of decoders on devices are */

static const Layout layouts[] = {
    { "without gaps", 0, 0, 0, 0, 0, 0, 0 },
    { "cropped", 0, 0, 0, 0, 5, 0, 0 },
    { "bottom up", 0, 0, 0, 1, 3, 0, 0 },
    { "semi-planar", 0, 0, 1, 0, 1, 0, 0 },
    { "semi-planar, high bits", 2, 1, 1, 0, 0, 0, 0 },
    { "high bits, cropped, bottom up", 2, 1, 0, 1, 7, 0, 0 },
    { "16-bit words", 2, 0, 0, 0, 0, 0, 0 },
    { "unlike layouts", 2, 1, 1, 0, 2, 1, 0 },
    { "aligned", 0, 0, 0, 0, 0, 0, 1 },
    { DECODED, 0, 0, 1, 0, 0, 0, 1 },
    { "aligned, semi-planar, high bits, bottom up", 2, 1, 1, 1, 0, 0, 1 },
};
#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static int chroma_side_shift(VgChroma chroma, int vertical)
{
    return chroma == VG_CHROMA_420 || (chroma == VG_CHROMA_422 && !vertical);
}

/* Values of one picture's planes, without gaps, chroma rounded up. */
typedef struct Values {
    uint32_t width[3], height[3];
    uint16_t *values[3];
} Values;

static void values_make(Values *v, const VgGeometry *g, Content *content, uint32_t t, int dist, uint64_t *random)
{
    *v = (Values){ 0 };
    for (uint32_t c = 0; c < (g->chroma == VG_CHROMA_400 ? 1 : 3); c++) {
        const int sx = c && chroma_side_shift(g->chroma, 0), sy = c && chroma_side_shift(g->chroma, 1);
        Position at = { .plane = c, .t = t, .max = (1u << g->bit_depth) - 1, .dist = dist };
        at.width = v->width[c] = (g->width + sx) >> sx;
        at.height = v->height[c] = (g->height + sy) >> sy;
        v->values[c] = malloc((size_t)at.width * at.height * sizeof(uint16_t));
        assert_non_null(v->values[c]);
        for (at.y = 0; at.y < at.height; at.y++)
            for (at.x = 0; at.x < at.width; at.x++)
                v->values[c][(size_t)at.y * at.width + at.x] = (uint16_t)content(&at, random);
    }
}

static void values_free(Values *v)
{
    for (int c = 0; c < 3; c++)
        free(v->values[c]);
}

/* Lays values out; between them and below shifted ones is garbage, different each time. The memory in picture->ref is the caller's. */
static void picture_make(VgPicture *picture, const VgGeometry *g, const Values *v, const Layout *layout,
                         uint64_t *random)
{
    const uint32_t bytes = layout->sample_bytes ? layout->sample_bytes : g->bit_depth > 8 ? 2 : 1;
    const uint32_t shift = layout->high_bits ? 8 * bytes - g->bit_depth : 0;
    size_t offset[3], pitch[3], size = 0;

    *picture = (VgPicture){ .size = sizeof(*picture), .geometry = *g, .sample_bytes = bytes, .shift = shift };
    for (int c = 0; c < 3 && v->width[c]; c++) {
        const uint32_t per_step = layout->interleaved && c ? 2 : 1;
        picture->step[c] = per_step * bytes;
        pitch[c] = (size_t)(v->width[c] + 2 * layout->margin) * per_step * bytes;
        if (layout->aligned)
            pitch[c] = (pitch[c] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        offset[c] = layout->interleaved && c == 2 ? offset[1] + bytes : size;
        if (!(layout->interleaved && c == 2))
            size += pitch[c] * (v->height[c] + 2 * layout->margin);
    }

    uint8_t *memory = NULL;
    assert_int_equal(posix_memalign((void **)&memory, ALIGNMENT, size), 0);
    for (size_t i = 0; i < size; i++)
        memory[i] = (uint8_t)random32(random);

    for (int c = 0; c < 3 && v->width[c]; c++) {
        const uint32_t last = v->height[c] - 1;
        uint8_t *first = memory + offset[c] + layout->margin * pitch[c] + (size_t)layout->margin * picture->step[c];
        for (uint32_t y = 0; y <= last; y++)
            for (uint32_t x = 0; x < v->width[c]; x++) {
                uint8_t *sample = first + y * pitch[c] + (size_t)x * picture->step[c];
                const uint16_t *value = &v->values[c][(size_t)(layout->bottom_up ? last - y : y) * v->width[c] + x];
                if (bytes == 1)
                    *sample = (uint8_t)*value;
                else
                    *(uint16_t *)(void *)sample =
                        (uint16_t)(*value << shift | (*(uint16_t *)(void *)sample & ((1u << shift) - 1)));
            }
        picture->data[c] = layout->bottom_up ? first + last * pitch[c] : first;
        picture->pitch[c] = layout->bottom_up ? -(ptrdiff_t)pitch[c] : (ptrdiff_t)pitch[c];
    }
    picture->ref = memory;
}

/* ---- Producers -------------------------------------------------------------------------------------------------- */

static VgPlane plane_of(const VgPicture *picture, int c)
{
    const VgGeometry *g = &picture->geometry;

    if (!picture->data[c])
        return (VgPlane){ 0 };
    return (VgPlane){
        .data = picture->data[c],
        .pitch = picture->pitch[c],
        .width = (int32_t)(g->width >> (c && chroma_side_shift(g->chroma, 0))),
        .height = (int32_t)(g->height >> (c && chroma_side_shift(g->chroma, 1))),
        .step = (int32_t)picture->step[c],
        .sample_bytes = (int32_t)picture->sample_bytes,
        .shift = (int32_t)picture->shift,
    };
}

void harness_run_cpu(const HarnessProducer *producer, const VgMetric *metric, const void *params,
                     const VgFramePictures *pictures, void *record)
{
    const VgCpuMetric *cpu = metric->cpu;
    const size_t scratch_size = cpu->scratch_size ? (cpu->scratch_size(params) + 63) & ~(size_t)63 : 64;
    void *scratch = aligned_alloc(64, scratch_size);
    void *partial = malloc(vg_record_size(metric, params));
    VgCpuFrame frame = { .index = pictures->frame };

    assert_non_null(scratch);
    assert_non_null(partial);
    for (int k = 0; k <= VG_MAX_LAG; k++)
        for (int c = 0; c < 3; c++) {
            if (pictures->ref[k])
                frame.ref[k][c] = plane_of(pictures->ref[k], c);
            if (pictures->dist[k])
                frame.dist[k][c] = plane_of(pictures->dist[k], c);
        }
    for (int band = 0; band < producer->n_bands; band++) {
        memset(scratch, 0xa5, scratch_size); /* neither may be relied on */
        memset(partial, 0xa5, vg_record_size(metric, params));
        producer->variant->run(params, &frame, band, producer->n_bands, scratch, band ? partial : record);
        if (band)
            cpu->add(record, partial);
    }
    free(partial);
    free(scratch);
}

void harness_yardstick(const VgMetric *metric, const void *params, const VgFramePictures *pictures, void *record)
{
    const HarnessProducer producer = { .name = "yardstick", .variant = &metric->cpu->variants[0], .n_bands = 1 };
    memset(record, 0x5a, vg_record_size(metric, params));
    harness_run_cpu(&producer, metric, params, pictures, record);
}

void *harness_options(const VgMetric *metric, const char *options_text)
{
    const VgLog log = { 0 };
    void *options = calloc(1, metric->options_size);
    char text[256], *rest = NULL;

    assert_non_null(options);
    vg_options_defaults(metric->info.options, options);
    snprintf(text, sizeof(text), "%s", options_text);
    for (char *pair = strtok_r(text, ":", &rest); pair; pair = strtok_r(NULL, ":", &rest)) {
        char *value = strchr(pair, '=');
        assert_non_null(value);
        *value++ = 0;
        assert_int_equal(vg_option_set(&log, metric->info.name, metric->info.options, options, pair, value), 0);
    }
    return options;
}

void harness_options_free(const VgMetric *metric, void *options)
{
    vg_options_free(metric->info.options, options);
    free(options);
}

int harness_accepts(const VgMetric *metric, const HarnessCase *test_case)
{
    void *options = harness_options(metric, test_case->options);
    char why[256];
    const int refused = metric->check(&test_case->geometry, options, why, sizeof(why));

    harness_options_free(metric, options);
    return !refused;
}

void harness_params(const VgMetric *metric, const HarnessCase *test_case, void *params)
{
    void *options = harness_options(metric, test_case->options);
    char why[256];

    if (metric->check(&test_case->geometry, options, why, sizeof(why)))
        fail_msg("%s", why);
    metric->make_params(&test_case->geometry, options, params);
    harness_options_free(metric, options);
}

/* ---- Comparison ------------------------------------------------------------------------------------------------- */

/* All frames of one content: reference and distorted, from the current frame back. */
typedef struct Sequence {
    VgPicture ref[N_FRAMES], dist[N_FRAMES];
} Sequence;

static void sequence_make(Sequence *s, const HarnessCase *test_case, unsigned content, const Layout *layout,
                          uint64_t seed)
{
    uint64_t random = seed, garbage = ~seed + (uint64_t)(layout - layouts);

    for (uint32_t t = 0; t < N_FRAMES; t++)
        for (int dist = 0; dist < 2; dist++) {
            Values v;
            values_make(&v, &test_case->geometry, contents[content].content, t, dist, &random);
            picture_make(dist ? &s->dist[t] : &s->ref[t], &test_case->geometry, &v,
                         layout->dist_only && !dist ? &layouts[0] : layout, &garbage);
            values_free(&v);
        }
}

static void sequence_free(Sequence *s)
{
    for (int t = 0; t < N_FRAMES; t++) {
        free(s->ref[t].ref);
        free(s->dist[t].ref);
    }
}

static VgNeeds needs_of(const VgMetric *metric, const HarnessCase *test_case)
{
    VgNeeds needs = { .lookahead = 0 };
    void *options = harness_options(metric, test_case->options);

    if (metric->needs)
        needs = metric->needs(options);
    harness_options_free(metric, options);
    return needs;
}

/* What a scorer would hand out: no earlier frame that the metric does not ask for. */
static VgFramePictures sequence_frame(const Sequence *s, uint64_t index, const VgNeeds *needs)
{
    VgFramePictures pictures = { .frame = index };

    for (unsigned k = 0; k < N_FRAMES && k <= index; k++) {
        if (k <= needs->lag[VG_REF])
            pictures.ref[k] = &s->ref[k];
        if (k <= needs->lag[VG_DIST])
            pictures.dist[k] = &s->dist[k];
    }
    return pictures;
}

/* One frame, all producers. */
static void compare_frame(const HarnessProducer *producers, HarnessResult *results, unsigned n_producers,
                          const VgMetric *metric, const HarnessCase *test_case, const void *params,
                          const VgFramePictures *pictures, const void *expected, const char *where)
{
    const VgGeometry *g = &test_case->geometry;
    const size_t record_size = vg_record_size(metric, params);
    void *record = malloc(record_size);

    assert_non_null(record);
    for (unsigned i = 0; i < n_producers; i++) {
        memset(record, 0x96, record_size);
        producers[i].run(&producers[i], metric, params, pictures, record);
        results[i].compared++;
        if (memcmp(record, expected, record_size) && !results[i].different++)
            snprintf(results[i].first, sizeof(results[i].first),
                     "%s %s, %d bands, %ux%u, %u bits, chroma %d, \"%s\", %s, frame %u", metric->info.name,
                     producers[i].name, producers[i].n_bands, g->width, g->height, g->bit_depth, (int)g->chroma,
                     test_case->options, where, (unsigned)pictures->frame);
    }
    free(record);
}

static void compare(const HarnessProducer *producers, HarnessResult *results, unsigned n_producers,
                    const VgMetric *metric, const HarnessCase *test_case, int brief)
{
    const VgGeometry *g = &test_case->geometry;
    const VgNeeds needs = needs_of(metric, test_case);
    void *params = calloc(1, metric->params_size);

    assert_non_null(params);
    harness_params(metric, test_case, params);
    const size_t record_size = vg_record_size(metric, params);
    uint8_t *expected = malloc(N_FRAMES * record_size);
    assert_non_null(expected);
    for (unsigned content = 0; content < N_CONTENTS; content++) {
        /* Frames 0 and 1 have fewer earlier frames. One content is enough to see that; the other contents are laid out
           without gaps and in one other way each. */
        const uint64_t first = content == 0 && !(brief && !needs.lag[VG_REF] && !needs.lag[VG_DIST]) ? 0 : N_FRAMES - 1;
        const uint64_t seed = g->width * 65537u + g->height * 257u + g->bit_depth + content;

        for (unsigned l = 0; l < N_LAYOUTS; l++) {
            Sequence sequence;
            char where[64];

            if (content && l && l != 1 + content % (N_LAYOUTS - 1))
                continue;
            if (brief && (content || (l && strcmp(layouts[l].name, DECODED))))
                continue;
            snprintf(where, sizeof(where), "%s, %s", contents[content].name, layouts[l].name);
            sequence_make(&sequence, test_case, content, &layouts[l], seed);
            for (uint64_t index = first; index < N_FRAMES; index++) {
                const VgFramePictures pictures = sequence_frame(&sequence, index, &needs);
                uint8_t *yardstick = expected + index * record_size;
                if (l == 0)
                    harness_yardstick(metric, params, &pictures, yardstick);
                compare_frame(producers, results, n_producers, metric, test_case, params, &pictures, yardstick, where);
            }
            sequence_free(&sequence);
        }
    }
    free(expected);
    free(params);
}

void harness_compare(const HarnessProducer *producers, HarnessResult *results, unsigned n_producers,
                     const VgMetric *metric, const HarnessCase *test_case)
{
    compare(producers, results, n_producers, metric, test_case, 0);
}

void harness_compare_briefly(const HarnessProducer *producer, HarnessResult *result, const VgMetric *metric,
                             const HarnessCase *test_case)
{
    compare(producer, result, 1, metric, test_case, 1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

double harness_time(const HarnessProducer *producer, const VgMetric *metric, const HarnessCase *test_case)
{
    void *params = calloc(1, metric->params_size);
    Sequence sequence;
    double best = 1e300;

    assert_non_null(params);
    harness_params(metric, test_case, params);
    void *record = malloc(vg_record_size(metric, params));
    assert_non_null(record);
    sequence_make(&sequence, test_case, 0, &layouts[0], 1);
    const VgNeeds needs = needs_of(metric, test_case);
    const VgFramePictures pictures = sequence_frame(&sequence, N_FRAMES - 1, &needs);
    for (int i = 0; i < 30; i++) {
        const double start = now();
        producer->run(producer, metric, params, &pictures, record);
        const double t = now() - start;
        best = t < best ? t : best;
    }
    sequence_free(&sequence);
    free(record);
    free(params);
    return best;
}
