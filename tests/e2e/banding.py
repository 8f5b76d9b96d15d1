# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""Small clips with bands, and their CAMBI by its definition (docs/numerics.md), computed here and not by the code under test."""

import math
import random
import struct
from array import array

from clips import Clip

WEIGHTS = [1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]
LIMITS = {"bt1886": [178, 305, 432, 559, 686, 813] + 26 * [1023], "pq": [233] + 31 * [1023]}


def bands(seed, n, width=216, height=48, chroma="420", depth=8):
    """Frames of slopes in steps of one to four 10-bit levels, and a strip of noise, that differ from frame to frame."""
    source = random.Random(seed)

    def sample(x, y, step, start):
        level = source.randint(64, 500) if x >= width - 24 else start + (x // 9 + y // 7) * step
        return level << (depth - 10) if depth >= 10 else level >> (10 - depth)

    frames = []
    for i in range(n):
        step, start = (4, 80 + 4 * i) if depth == 8 else (2, 80 + i) if depth == 9 else (1 + i % 3, 80 + 3 * i)
        luma = array("H", (sample(x, y, step, start) for y in range(height) for x in range(width)))
        others = [array("H", [1 << (depth - 1)]) * (w * h) for w, h in Clip.plane_sizes(width, height, chroma)[1:]]
        frames.append([luma, *others])
    return Clip(frames, width, height, chroma, depth)


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def reciprocal(i):
    return f32(float(f"{1.0 / i:.9g}"))


def mode3(a, b, c):
    return a if a in (b, c) else b if b == c else min(a, b, c)


def levels(plane, width, height, depth, enc_bitdepth):
    """Rows of 10-bit levels."""
    if depth > 10:
        plane = [(v + (1 << (depth - 11))) >> (depth - 10) for v in plane]
    else:
        plane = [v << (10 - depth) for v in plane]
    rows = [plane[y * width : (y + 1) * width] for y in range(height)]
    if (enc_bitdepth or depth) >= 10:
        return rows
    smooth = []
    for y in range(height):
        below = rows[min(y + 1, height - 1)]
        smooth.append([])
        for x in range(width):
            right = min(x + 1, width - 1)
            smooth[y].append((rows[y][x] + rows[y][right] + below[x] + below[right]) // 4)
    return smooth


def make_mask(rows, width, height):
    equal = [
        [
            (x == width - 1 or rows[y][x] == rows[y][x + 1]) and (y == height - 1 or rows[y][x] == rows[y + 1][x])
            for x in range(width)
        ]
        for y in range(height)
    ]
    blocks = (width // 64) * (height // 64)
    most = (15 + 3 * (math.ceil(math.log2(blocks)) if blocks else 0)) // 2
    return [
        [
            sum(sum(row[max(x - 3, 0) : x + 4]) for row in equal[max(y - 3, 0) : y + 4]) > most
            for x in range(width)
        ]
        for y in range(height)
    ]


def mode_filter(rows, width, height):
    if height < 3:
        return rows
    across = [[row[0], *(mode3(*row[x - 1 : x + 2]) for x in range(1, width - 1)), row[-1]] for row in rows] if width > 1 else rows
    inner = [[mode3(across[y - 1][x], across[y][x], across[y + 1][x]) for x in range(width)] for y in range(1, height - 1)]
    return [rows[0], *inner, rows[-1]]


def values(rows, mask, width, height, window, n, limits, dark):
    """The plane of c values."""
    half = window // 2
    plane = []
    for y in range(height):
        for x in range(width):
            best = 0.0
            if mask[y][x]:
                counts = {}
                for j in range(max(y - half, 0), min(y + half + 1, height)):
                    for i in range(max(x - half, 0), min(x + half + 1, width)):
                        if mask[j][i]:
                            counts[rows[j][i]] = counts.get(rows[j][i], 0) + 1
                v = rows[y][x]
                for d in range(1, n + 1):
                    other = max(counts.get(v + d, 0), counts.get(v - d, 0))
                    if v <= limits[d - 1] and v + n + d > dark and other:
                        product = f32(float(WEIGHTS[d - 1] * counts[v] * other))
                        best = max(best, f32(product * reciprocal(counts[v] + other)))
            plane.append(best)
    return plane


def cambi_planes(plane, width, height, depth, *, window_size=65, enc_bitdepth=0, max_log_contrast=2, eotf="bt1886", dark=0):
    """The planes of c values of all scales, and the window."""
    window = window_size * (width + height) // 375 // 16 | 1
    rows = levels(list(plane), width, height, depth, enc_bitdepth)
    mask = make_mask(rows, width, height)
    planes = []
    for scale in range(5):
        if scale:
            rows, mask = ([row[::2] for row in r[::2]] for r in (rows, mask))
            width, height = (width + 1) // 2, (height + 1) // 2
        rows = mode_filter(rows, width, height)
        planes.append(values(rows, mask, width, height, window, 1 << max_log_contrast, LIMITS[eotf], dark))
    return planes, window


def cambi(clip, *, topk=0.6, cap=1000.0, **options):
    """Score of every frame, without and with the cap."""
    scores = []
    for frame in clip.frames:
        planes, window = cambi_planes(frame[0], clip.width, clip.height, clip.depth, **options)
        total = 0.0
        for scale, plane in enumerate(planes):
            k = max(1, int(topk * len(plane)))
            total += 2.0 ** (4 - scale) * (sum(sorted(plane, reverse=True)[:k]) / k)  # exact: the planes are small
        scores.append(total / (window * window))
    return scores, [min(score, cap) for score in scores]


def heatmaps(clip, **options):
    """What the files of all scales must hold."""
    files = 5 * [b""]
    for frame in clip.frames:
        planes, window = cambi_planes(frame[0], clip.width, clip.height, clip.depth, **options)
        factor = 65535 / (WEIGHTS[(1 << options.get("max_log_contrast", 2)) - 1] * window * window // 4)
        files = [file + struct.pack(f"<{len(p)}H", *(int(factor * c) % 65536 for c in p)) for file, p in zip(files, planes)]
    return files
