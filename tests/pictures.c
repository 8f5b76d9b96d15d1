/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 */
#include "tests/cmocka_includes.h"

#include "tests/pictures.h"
#include "tests/softgpu/driver_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct PictureSurface {
    struct PictureSurface *next;
    PictureSource *source;
    uint8_t *memory; /* of the host or the software device, which the host can write to as well */
    size_t size;
} PictureSurface;

static uint32_t hash(uint32_t a, uint32_t b)
{
    uint32_t h = a * 2654435761u ^ (b + 0x9e3779b9u) * 2246822519u;
    h = (h ^ h >> 15) * 3266489917u;
    return h ^ h >> 13;
}

uint32_t picture_sample(const VgGeometry *geometry, unsigned seed, int component, uint32_t x, uint32_t y)
{
    return hash(seed * 4 + (unsigned)component, y * 4096 + x) >> (32 - geometry->bit_depth);
}

static uint32_t plane_width(const VgGeometry *g, int c)
{
    const int halved = c && g->chroma != VG_CHROMA_444;
    return (g->width + (uint32_t)halved) >> halved;
}

static uint32_t plane_height(const VgGeometry *g, int c)
{
    const int halved = c && g->chroma == VG_CHROMA_420;
    return (g->height + (uint32_t)halved) >> halved;
}

/* Places the planes; returns the picture's size. */
static size_t place(VgPicture *p, const VgGeometry *g, const PictureLayout *l, uintptr_t start)
{
    size_t size = l->lead;
    *p = (VgPicture){ .size = sizeof(*p), .geometry = *g, .sample_bytes = l->sample_bytes, .shift = l->shift };
    for (int c = 0; c < (g->chroma == VG_CHROMA_400 ? 1 : 3); c++) {
        const uint32_t shared = l->packed ? (uint32_t)l->packed : c && l->interleaved ? 2 : 1;
        p->step[c] = l->sample_bytes * (l->apart ? l->apart : 1) * shared;
        const size_t row = (size_t)plane_width(g, c) * p->step[c], overlap = l->overlap < row ? l->overlap : row;
        const size_t pitch = row - overlap + l->gap;
        size_t at = size;
        if (l->packed)
            at += (size_t)c * l->sample_bytes;
        else if (shared == 2)
            at += (c == 2) != l->cr_first ? p->step[c] / 2 : 0;
        if (l->bottom_up)
            at += pitch * (plane_height(g, c) - 1);
        p->pitch[c] = l->bottom_up ? -(ptrdiff_t)pitch : (ptrdiff_t)pitch;
        p->data[c] = (const void *)(start + at);
        if (shared == 1 || c == 2)
            size += pitch * plane_height(g, c) + overlap;
    }
    return size;
}

size_t picture_draw(VgPicture *p, const VgGeometry *g, const PictureLayout *l, unsigned seed, uint8_t *start)
{
    const size_t size = place(p, g, l, (uintptr_t)start);
    for (size_t i = 0; start && i < size; i++)
        start[i] = (uint8_t)hash(seed + 77, (uint32_t)i);
    for (int c = 0; start && c < 3 && p->data[c]; c++) {
        for (uint32_t y = 0; y < plane_height(g, c); y++) {
            uint8_t *at = (uint8_t *)p->data[c] + (ptrdiff_t)y * p->pitch[c];
            for (uint32_t x = 0; x < plane_width(g, c); x++, at += p->step[c]) {
                const uint16_t word =
                    (uint16_t)(picture_sample(g, seed, c, x, y) << l->shift | (hash(seed, x) & ((1u << l->shift) - 1)));
                if (l->sample_bytes == 2)
                    memcpy(at, &word, 2);
                else
                    *at = (uint8_t)word;
            }
        }
    }
    return size;
}

static void release(void *ref)
{
    PictureSurface *s = ref;
    s->source->held--;
    s->source->released++;
    s->next = s->source->free;
    s->source->free = s;
    memset(s->memory, 0xdd, s->size);
}

static void surface_free(PictureSurface *s)
{
    if (s->source->memory == VG_MEMORY_HOST)
        free(s->memory);
    else
        assert_int_equal(cuMemFree_v2((CUdeviceptr)(uintptr_t)s->memory), 0);
    free(s);
}

static PictureSurface *get_surface(PictureSource *source, size_t size)
{
    CUdeviceptr address;
    PictureSurface *s = source->free;
    if (s) {
        source->free = s->next;
        if (s->size == size)
            return s;
        surface_free(s); /* the layout has changed */
    }
    s = malloc(sizeof(*s));
    assert_non_null(s);
    *s = (PictureSurface){ .source = source, .size = size };
    if (source->memory == VG_MEMORY_HOST) {
        s->memory = malloc(size);
        assert_non_null(s->memory);
    } else {
        assert_int_equal(cuMemAlloc_v2(&address, size), 0);
        s->memory = (uint8_t *)(uintptr_t)address;
    }
    return s;
}

VgPicture picture_take(PictureSource *source, const VgGeometry *g, const PictureLayout *layout, unsigned seed)
{
    VgPicture p;
    const size_t size = picture_draw(&p, g, layout, seed, NULL);
    PictureSurface *s = get_surface(source, size);
    if (source->memory == VG_MEMORY_HOST) {
        picture_draw(&p, g, layout, seed, s->memory);
    } else {
        uint8_t *bytes = malloc(size);
        assert_non_null(bytes);
        picture_draw(&p, g, layout, seed, bytes);
        assert_int_equal(cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)s->memory, bytes, size, source->stream), 0);
        for (int c = 0; c < 3 && p.data[c]; c++)
            p.data[c] = s->memory + ((const uint8_t *)p.data[c] - bytes);
        free(bytes);
    }
    p.memory = source->memory;
    p.stream = source->stream;
    p.release = release;
    p.ref = s;
    if (++source->held > source->most_held)
        source->most_held = source->held;
    return p;
}

void picture_source_end(PictureSource *source)
{
    assert_int_equal(source->held, 0);
    while (source->free) {
        PictureSurface *s = source->free;
        source->free = s->next;
        surface_free(s);
    }
}

char *scores_of(const VgScorer *s)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    for (unsigned k = 0; k < vg_scorer_n_keys(s); k++) {
        for (unsigned i = 0; i < vg_scorer_submitted(s); i++) {
            double v;
            if (!vg_scorer_score(s, k, i, &v))
                fprintf(f, "%s %u %a\n", vg_scorer_key(s, k), i, v);
        }
    }
    for (unsigned a = 0; a < vg_scorer_n_aggregates(s); a++) {
        const char *name;
        double v;
        if (!vg_scorer_aggregate(s, a, &name, &v))
            fprintf(f, "%s %a\n", name, v);
    }
    fclose(f);
    return text;
}
