/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Pictures of noise in every layout that a VgPicture can describe, in host memory or in the software device's, where
 * they are made as decoders make them: asynchronously, in a stream of their own, in surfaces that are used again.
 */
#ifndef VG_TESTS_PICTURES_H
#define VG_TESTS_PICTURES_H

#include "engine/vmafgpu.h"

/** How samples lie in memory. */
typedef struct PictureLayout {
    const char *name;
    uint32_t sample_bytes, shift;
    uint32_t apart;  /* samples from one to the next of a component; 0: 1, or what sharing rows makes necessary */
    int interleaved; /* Cb and Cr share rows */
    int cr_first;    /* and Cr comes first */
    int packed;      /* all three share rows, as groups of this many samples */
    int bottom_up;
    size_t gap, lead; /* bytes between rows, and before the first */
    size_t overlap;   /* bytes that a row shares with the next one; as many as it has, or more: all rows are one */
} PictureLayout;

/** The sample of that place, whatever the layout. */
uint32_t picture_sample(const VgGeometry *geometry, unsigned seed, int component, uint32_t x, uint32_t y);

/**
 * Describes a picture at `start` and fills it, with noise in all gaps and unused bits. NULL: asks for the size only.
 *
 * @return its bytes
 */
size_t picture_draw(VgPicture *picture, const VgGeometry *geometry, const PictureLayout *layout, unsigned seed,
                    uint8_t *start);

struct PictureSurface;

/** Where pictures of one input come from: zeroed, but for what is set. */
typedef struct PictureSource {
    VgMemory memory;
    void *stream; /* CUstream; device memory is that of the current context */
    int held, most_held;
    unsigned long released;
    struct PictureSurface *free;
} PictureSource;

/**
 * The next picture. Its release overwrites it at once, so that whoever still reads it gets other samples, and makes it
 * ready for reuse.
 */
VgPicture picture_take(PictureSource *source, const VgGeometry *geometry, const PictureLayout *layout, unsigned seed);

/** Frees all surfaces; all pictures must have been released. */
void picture_source_end(PictureSource *source);

/** All scores and aggregates that a scorer has, every bit of them, as text; the caller frees it. */
char *scores_of(const VgScorer *s);

#endif
