/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Deterministic test clips: the same arguments give the same bytes on every machine. The golden files name their
 * inputs by these arguments, and the patterns are what golden values were computed from, so this is a definition.
 *
 *     PATTERN DISTORTION WIDTH HEIGHT CHROMA DEPTH FRAMES SEED      e.g. "mix blur+quant:6 1920 1080 420 10 2 7"
 *
 * All arithmetic is on integers; divisions truncate toward zero. A pattern gives a 16-bit sample for plane p (of size
 * w x h, chroma rounded up) at (x, y) in frame t; the clip's sample is that >> (16 - depth).
 *
 *     flat     0x6000 + 0x1000 p
 *     noise    a hash of (seed, p, t, x, y)
 *     ramp     horizontal and vertical ramps, rising by 64 a frame
 *     checker  8x8 squares that swap with each frame
 *     tex      five octaves of drifting value noise
 *     mix      quadrants: tex, ramp, a box moving over squares, strokes with grain
 *
 * Distortions, joined by '+', work on samples from left to right; coordinates are clamped to the plane:
 *
 *     none     nothing
 *     blur     3x3 binomial filter
 *     quant:Q  v / Q * Q + Q / 2
 *     noise:A  adds -A to A
 *     block:N  mean of the sample and the mean of its N x N block
 *     shift:K  moves the plane right by K
 */
#ifndef CLIPGEN_H
#define CLIPGEN_H

#include "engine/vmafgpu.h"

typedef struct Clip {
    char args[128];
    VgGeometry geometry;
    unsigned n_frames;
    uint32_t sample_bytes;
    uint32_t width[3], height[3]; /* of planes; 0 for absent ones */
    size_t frame_size;            /* bytes */
    uint8_t *bytes;               /* planes Y, Cb, Cr of each frame in turn, without gaps */
} Clip;

/**
 * The clip with these arguments, in memory until clip_free_all() or until it makes room for others: pointers to the
 * last two clips asked for are valid. Ends the test program on bad arguments.
 */
const Clip *clip_get(const char *args);

/** Frame `frame` as a picture without release callback. */
VgPicture clip_picture(const Clip *clip, unsigned frame);

void clip_free_all(void);

#endif
