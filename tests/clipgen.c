/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * See clipgen.h.
 */
#include "tests/clipgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash32(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* The hash of four numbers is hash2(hash2(hash2(hash32(s), a), b), c): prefixes are shared between samples. */
static uint32_t hash2(uint32_t prefix, uint32_t x)
{
    return hash32(prefix ^ x);
}

static int32_t clamp(int32_t v, int32_t max)
{
    return v < 0 ? 0 : v > max ? max : v;
}

static int32_t clamp16(int32_t v)
{
    return clamp(v, 0xffff);
}

static void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n ? n : 1, size);
    if (!memory) {
        fprintf(stderr, "clipgen: out of memory\n");
        abort();
    }
    return memory;
}

/* A plane under construction. */
typedef struct Plane {
    int32_t width, height;
    uint32_t t, seed, p;
    uint32_t salt;    /* of the plane's hashes */
    int32_t *samples; /* 16-bit pattern, then the clip's samples */
    uint32_t *column; /* room for a hash a column, and for lattice rows */
} Plane;

/* ---- Patterns --------------------------------------------------------------------------------------------------- */

static void column_hashes(const Plane *plane, uint32_t prefix, int32_t first, int32_t end)
{
    for (int32_t x = first; x < end; x++)
        plane->column[x] = hash2(prefix, (uint32_t)x);
}

static void draw_flat(Plane *plane)
{
    for (int32_t i = 0; i < plane->width * plane->height; i++)
        plane->samples[i] = (int32_t)(0x6000 + 0x1000 * plane->p);
}

static void draw_noise(Plane *plane)
{
    column_hashes(plane, hash2(hash32(plane->salt), plane->t), 0, plane->width);
    for (int32_t y = 0; y < plane->height; y++)
        for (int32_t x = 0; x < plane->width; x++)
            plane->samples[y * plane->width + x] = (int32_t)(hash2(plane->column[x], (uint32_t)y) & 0xffff);
}

/* Over columns first..end-1, rows 0..last_row-1, with horizontal slope over end - first. */
static void draw_ramp(Plane *plane, int32_t first, int32_t end, int32_t last_row)
{
    for (int32_t y = 0; y < last_row; y++)
        for (int32_t x = first; x < end; x++)
            plane->samples[y * plane->width + x] =
                clamp16(0x2000 + (int32_t)((int64_t)(x - first) * 0xA000 / (end - first)) +
                        (int32_t)((int64_t)y * 0x1000 / plane->height) + 64 * (int32_t)plane->t);
}

static int32_t checker(int32_t x, int32_t y, uint32_t t)
{
    return ((uint32_t)(x >> 3) + (uint32_t)(y >> 3) + t) & 1 ? 0xD000 : 0x2000;
}

static void draw_checker(Plane *plane)
{
    for (int32_t y = 0; y < plane->height; y++)
        for (int32_t x = 0; x < plane->width; x++)
            plane->samples[y * plane->width + x] = checker(x, y, plane->t);
}

/* Adds one octave of value noise, in sixteenths of a sample, to columns 0..end_x-1, rows 0..end_y-1. */
static void add_octave(Plane *plane, uint32_t o, int32_t end_x, int32_t end_y)
{
    const int32_t cell = (64 >> o) * 16;
    const int32_t px0 = (int32_t)(21 * plane->t * (o + 1)), py0 = (int32_t)(9 * plane->t * (o + 1));
    const int32_t first_cx = px0 / cell, n_cx = (16 * end_x + px0) / cell - first_cx + 2;
    const uint32_t prefix = hash2(hash32(plane->salt), o);
    uint32_t *upper = plane->column, *lower = upper + n_cx;
    int32_t row = -1;

    for (int32_t y = 0; y < end_y; y++) {
        const int32_t py = 16 * y + py0, cy = py / cell, fy = py % cell;
        if (cy != row) {
            for (int32_t i = 0; i < n_cx; i++) {
                const uint32_t h = hash2(prefix, (uint32_t)(first_cx + i));
                upper[i] = hash2(h, (uint32_t)cy) & 0xffff;
                lower[i] = hash2(h, (uint32_t)cy + 1) & 0xffff;
            }
            row = cy;
        }
        for (int32_t x = 0; x < end_x; x++) {
            const int32_t px = 16 * x + px0, i = px / cell - first_cx, fx = px % cell;
            const int64_t above = (int64_t)upper[i] * (cell - fx) + (int64_t)upper[i + 1] * fx;
            const int64_t below = (int64_t)lower[i] * (cell - fx) + (int64_t)lower[i + 1] * fx;
            const int32_t value = (int32_t)((above * (cell - fy) + below * fy) / ((int64_t)cell * cell));
            plane->samples[y * plane->width + x] += (value - 32768) >> o;
        }
    }
}

static void draw_tex(Plane *plane, int32_t end_x, int32_t end_y)
{
    for (uint32_t o = 0; o < 5; o++)
        add_octave(plane, o, end_x, end_y);
    for (int32_t y = 0; y < end_y; y++)
        for (int32_t x = 0; x < end_x; x++) {
            int32_t *sample = &plane->samples[y * plane->width + x];
            *sample = clamp16(32768 + *sample / 2);
        }
}

static void draw_mix(Plane *plane)
{
    const int32_t w = plane->width, h = plane->height, t = (int32_t)plane->t;
    const int32_t box_x = w / 8 + 5 * t % (w / 4 + 1), box_y = h / 2 + h / 8 + 3 * t % (h / 8 + 1);
    const uint32_t strokes = hash2(hash32(plane->salt), 77);

    draw_tex(plane, w / 2, h / 2);
    draw_ramp(plane, w / 2, w, h / 2);
    column_hashes(plane, hash2(hash32(plane->salt ^ 0x5bd1e995u), plane->t), w / 2, w);
    for (int32_t y = h / 2; y < h; y++) {
        int32_t *row = plane->samples + y * w;
        for (int32_t x = 0; x < w / 2; x++) {
            const int in_box = x >= box_x && x < box_x + w / 8 && y >= box_y && y < box_y + h / 8;
            row[x] = in_box ? 0xF000 : 0x3000 + (checker(x, y, 0) >> 2);
        }
        for (int32_t x = w / 2; x < w; x++) {
            const uint32_t stroke = hash2(hash2(strokes, (uint32_t)(x >> 1)), (uint32_t)(y >> 2));
            const int32_t grain = (int32_t)(hash2(plane->column[x], (uint32_t)y) & 0x1ff) - 256;
            row[x] = clamp16(((stroke & 7) == 0 && (y >> 4 & 1) ? 0x1800 : 0x9000) + grain);
        }
    }
}

static int draw(Plane *plane, const char *pattern)
{
    if (!strcmp(pattern, "flat"))
        draw_flat(plane);
    else if (!strcmp(pattern, "noise"))
        draw_noise(plane);
    else if (!strcmp(pattern, "ramp"))
        draw_ramp(plane, 0, plane->width, plane->height);
    else if (!strcmp(pattern, "checker"))
        draw_checker(plane);
    else if (!strcmp(pattern, "tex"))
        draw_tex(plane, plane->width, plane->height);
    else if (!strcmp(pattern, "mix"))
        draw_mix(plane);
    else
        return -1;
    return 0;
}

/* ---- Distortions ------------------------------------------------------------------------------------------------ */

static void blur(Plane *plane, const int32_t *src)
{
    const int32_t w = plane->width, h = plane->height;

    for (int32_t y = 0; y < h; y++) {
        const int32_t *rows[3] = { src + clamp(y - 1, h - 1) * w, src + y * w, src + clamp(y + 1, h - 1) * w };
        for (int32_t x = 0; x < w; x++) {
            const int32_t left = clamp(x - 1, w - 1), right = clamp(x + 1, w - 1);
            int32_t sums[3];
            for (int j = 0; j < 3; j++)
                sums[j] = rows[j][left] + 2 * rows[j][x] + rows[j][right];
            plane->samples[y * w + x] = (sums[0] + 2 * sums[1] + sums[2] + 8) >> 4;
        }
    }
}

static void add_noise(Plane *plane, int32_t amplitude, int32_t max)
{
    column_hashes(plane, hash2(hash32(hash32(plane->seed ^ 0x9e3779b9u) + plane->p), plane->t), 0, plane->width);
    for (int32_t y = 0; y < plane->height; y++)
        for (int32_t x = 0; x < plane->width; x++) {
            const uint32_t h = hash2(plane->column[x], (uint32_t)y);
            int32_t *sample = &plane->samples[y * plane->width + x];
            *sample = clamp(*sample + (int32_t)(h % (2 * (uint32_t)amplitude + 1)) - amplitude, max);
        }
}

static void blend_blocks(Plane *plane, const int32_t *src, int32_t n, int32_t max)
{
    const int32_t w = plane->width, h = plane->height;

    for (int32_t by = 0; by < h; by += n)
        for (int32_t bx = 0; bx < w; bx += n) {
            const int32_t end_x = bx + n < w ? bx + n : w, end_y = by + n < h ? by + n : h;
            int64_t sum = 0;
            for (int32_t y = by; y < end_y; y++)
                for (int32_t x = bx; x < end_x; x++)
                    sum += src[y * w + x];
            const int32_t mean = (int32_t)(sum / ((int64_t)(end_x - bx) * (end_y - by)));
            for (int32_t y = by; y < end_y; y++)
                for (int32_t x = bx; x < end_x; x++)
                    plane->samples[y * w + x] = clamp((src[y * w + x] + mean) / 2, max);
        }
}

static int distort(Plane *plane, const char *step, int32_t max)
{
    const size_t n = (size_t)plane->width * (size_t)plane->height;
    int32_t *copy;
    int argument = 0;

    if (!strcmp(step, "none"))
        return 0;
    copy = allocate(n, sizeof(*copy));
    memcpy(copy, plane->samples, n * sizeof(*copy));
    if (!strcmp(step, "blur")) {
        blur(plane, copy);
    } else if (sscanf(step, "quant:%d", &argument) == 1) {
        for (size_t i = 0; i < n; i++)
            plane->samples[i] = clamp(copy[i] / argument * argument + argument / 2, max);
    } else if (sscanf(step, "noise:%d", &argument) == 1) {
        add_noise(plane, argument, max);
    } else if (sscanf(step, "block:%d", &argument) == 1) {
        blend_blocks(plane, copy, argument, max);
    } else if (sscanf(step, "shift:%d", &argument) == 1) {
        for (int32_t y = 0; y < plane->height; y++)
            for (int32_t x = 0; x < plane->width; x++)
                plane->samples[y * plane->width + x] = copy[y * plane->width + clamp(x - argument, plane->width - 1)];
    } else {
        free(copy);
        return -1;
    }
    free(copy);
    return 0;
}

/* ---- Clips ------------------------------------------------------------------------------------------------------ */

static int draw_plane(const Clip *clip, const char *pattern, const char *distortion, uint32_t t, uint32_t seed,
                      uint32_t p, uint8_t *out)
{
    const uint32_t depth = clip->geometry.bit_depth;
    const size_t n = (size_t)clip->width[p] * clip->height[p];
    Plane plane = {
        .width = (int32_t)clip->width[p],
        .height = (int32_t)clip->height[p],
        .t = t,
        .seed = seed,
        .p = p,
        .salt = hash32(seed * 4 + p + 1),
        .samples = allocate(n, sizeof(int32_t)),
        .column = allocate(2 * (size_t)clip->width[p] + 8, sizeof(uint32_t)),
    };
    int err = draw(&plane, pattern);
    char steps[64], *rest = NULL;

    for (size_t i = 0; i < n; i++)
        plane.samples[i] >>= 16 - depth;
    snprintf(steps, sizeof(steps), "%s", distortion);
    for (char *step = strtok_r(steps, "+", &rest); step && !err; step = strtok_r(NULL, "+", &rest))
        err = distort(&plane, step, (int32_t)((1u << depth) - 1));

    for (size_t i = 0; i < n; i++) {
        if (clip->sample_bytes == 1)
            out[i] = (uint8_t)plane.samples[i];
        else
            ((uint16_t *)(void *)out)[i] = (uint16_t)plane.samples[i];
    }
    free(plane.samples);
    free(plane.column);
    return err;
}

static Clip *generate(const char *args)
{
    Clip *clip = allocate(1, sizeof(*clip));
    char pattern[16], distortion[64];
    unsigned width, height, chroma, depth, frames, seed;
    int err = 0;

    if (sscanf(args, "%15s %63s %u %u %u %u %u %u", pattern, distortion, &width, &height, &chroma, &depth, &frames,
               &seed) != 8 ||
        strlen(args) >= sizeof(clip->args) || (chroma != 400 && chroma != 420 && chroma != 422 && chroma != 444)) {
        fprintf(stderr, "clipgen: bad arguments \"%s\"\n", args);
        abort();
    }
    snprintf(clip->args, sizeof(clip->args), "%s", args);
    clip->geometry = (VgGeometry){ width, height,
                                   chroma == 400   ? VG_CHROMA_400
                                   : chroma == 420 ? VG_CHROMA_420
                                   : chroma == 422 ? VG_CHROMA_422
                                                   : VG_CHROMA_444,
                                   depth };
    clip->n_frames = frames;
    clip->sample_bytes = depth > 8 ? 2 : 1;
    for (unsigned p = 0; p < (chroma == 400 ? 1 : 3); p++) {
        clip->width[p] = p && chroma != 444 ? (width + 1) / 2 : width;
        clip->height[p] = p && chroma == 420 ? (height + 1) / 2 : height;
        clip->frame_size += (size_t)clip->width[p] * clip->height[p] * clip->sample_bytes;
    }
    clip->bytes = allocate(frames, clip->frame_size);

    uint8_t *out = clip->bytes;
    for (uint32_t t = 0; t < frames && !err; t++)
        for (uint32_t p = 0; p < 3 && !err; p++) {
            if (clip->width[p])
                err = draw_plane(clip, pattern, distortion, t, seed, p, out);
            out += (size_t)clip->width[p] * clip->height[p] * clip->sample_bytes;
        }
    if (err) {
        fprintf(stderr, "clipgen: bad pattern or distortion in \"%s\"\n", args);
        abort();
    }
    return clip;
}

/* Golden rows of one pair follow each other, so a few clips suffice. */
#define CACHED 6
static Clip *cache[CACHED]; /* most recently used first */

static void clip_free(Clip *clip)
{
    if (clip)
        free(clip->bytes);
    free(clip);
}

const Clip *clip_get(const char *args)
{
    Clip *clip = NULL;
    unsigned i;

    for (i = 0; i < CACHED && cache[i]; i++)
        if (!strcmp(cache[i]->args, args))
            break;
    if (i < CACHED && cache[i]) {
        clip = cache[i];
    } else {
        if (i == CACHED)
            clip_free(cache[--i]);
        clip = generate(args);
    }
    memmove(cache + 1, cache, i * sizeof(*cache));
    cache[0] = clip;
    return clip;
}

VgPicture clip_picture(const Clip *clip, unsigned frame)
{
    VgPicture picture = {
        .size = sizeof(picture),
        .geometry = clip->geometry,
        .sample_bytes = clip->sample_bytes,
    };
    const uint8_t *data = clip->bytes + frame * clip->frame_size;

    for (int p = 0; p < 3 && clip->width[p]; p++) {
        picture.data[p] = data;
        picture.pitch[p] = (ptrdiff_t)(clip->width[p] * clip->sample_bytes);
        picture.step[p] = clip->sample_bytes;
        data += (size_t)clip->width[p] * clip->height[p] * clip->sample_bytes;
    }
    return picture;
}

void clip_free_all(void)
{
    for (unsigned i = 0; i < CACHED; i++) {
        clip_free(cache[i]);
        cache[i] = NULL;
    }
}
