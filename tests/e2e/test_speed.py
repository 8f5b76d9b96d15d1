# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""SpEED through ffmpeg: golden scores of noise that is made here, layouts, keys, refusals, and the CPU in a device's place."""

import csv
import gzip
from array import array

import pytest

from clips import Clip
from conftest import ROOT, scores

BIG = "speed_chroma|speed_temporal"


def mix(x):
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x846CA68B & 0xFFFFFFFF
    return x ^ x >> 16


def noise_plane(width, height, depth, seed, plane, frame):
    salt = mix(mix(mix(seed * 4 + plane + 1)) ^ frame)
    columns = [mix(salt ^ x) for x in range(width)]
    return array("H", ((mix(column ^ y) & 0xFFFF) >> (16 - depth) for y in range(height) for column in columns))


def blurred(plane, width, height):
    """3x3 binomial filter, rounded half up; edges are repeated."""
    out = array("H")
    for y in range(height):
        rows = [plane[n * width : (n + 1) * width] for n in (max(y - 1, 0), y, min(y + 1, height - 1))]
        sums = [a + 2 * b + c for a, b, c in zip(*rows)]
        padded = [sums[0], *sums, sums[-1]]
        out.extend((a + 2 * b + c + 8) >> 4 for a, b, c in zip(padded, sums, padded[2:]))
    return out


def noise(arguments):
    """The clip that a golden file names: tests/clipgen.h defines it."""
    pattern, distortion, width, height, chroma, depth, frames, seed = arguments.split()
    width, height, depth, seed = int(width), int(height), int(depth), int(seed)
    assert pattern == "noise"
    clip = Clip([], width, height, chroma, depth)
    for frame in range(int(frames)):
        planes = []
        for number, (w, h) in enumerate(Clip.plane_sizes(width, height, chroma)):
            plane = noise_plane(w, h, depth, seed, number, frame)
            for step in distortion.split("+"):
                if step == "blur":
                    plane = blurred(plane, w, h)
                elif step.startswith("quant:"):
                    q = int(step[6:])
                    plane = array("H", (min(v // q * q + q // 2, (1 << depth) - 1) for v in plane))
                else:
                    assert step == "none"
            planes.append(plane)
        clip.frames.append(planes)
    return clip


def golden(metric, clip):
    """Expected rows by option string, of all pairs whose reference is this clip."""
    runs = {}
    with gzip.open(ROOT / f"tests/golden/{metric}.tsv.gz", "rt") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["ref_clip"] == clip:
                frames = runs.setdefault((row["dist_clip"], row["options"]), {})
                frames.setdefault(int(row["frame"]), {})[row["key"]] = float(row["value"])
    assert runs
    return {run: [frames[n] for n in sorted(frames)] for run, frames in runs.items()}


@pytest.mark.parametrize(
    "metric, clip",
    [
        ("speed_chroma", "noise none 320 320 420 10 1 3"),
        ("speed_chroma", "noise none 321 323 420 8 1 3"),
        ("speed_temporal", "noise none 176 176 420 8 3 2"),
    ],
)
def test_golden_scores(ffmpeg, metric, clip):
    reference = noise(clip)
    source = reference.write(ffmpeg.folder / "r.raw")
    for (distorted, options), expected in golden(metric, clip).items():
        feature = options.replace("=", ":", 1).replace(":", r"\:")
        result = ffmpeg.score(noise(distorted).write(ffmpeg.folder / "d.raw"), source, f"feature='{feature}'")
        assert result.rows == expected
        assert max(expected[-1].values()) > 1


@pytest.fixture(scope="module")
def pair():
    return noise("noise blur 336 328 420 8 3 5"), noise("noise none 336 328 420 8 3 5")


@pytest.fixture
def expected(ffmpeg, pair):
    """On one thread, from planar files."""
    sources = [clip.write(ffmpeg.folder / f"plain{i}.raw") for i, clip in enumerate(pair)]
    result = ffmpeg.score(*sources, f"feature={BIG}:n_threads=1")
    assert not result.warnings
    assert all(value > 1 for row in result.rows[1:] for value in row.values())
    return scores(result)


@pytest.mark.parametrize("pix_fmt", ["nv12", "nv21", "yuv420p10", "p010", "yuv420p12", "p016"])
def test_layouts_and_threads(ffmpeg, pair, expected, pix_fmt):
    """Samples of more bits that are those of 8 bits in their upper ones have the same scores."""
    sources = [clip.write(ffmpeg.folder / f"{i}.raw", pix_fmt) for i, clip in enumerate(pair)]
    assert scores(ffmpeg.score(*sources, f"feature={BIG}:n_threads=4")) == expected


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "nv12", "p010"])
def test_device(gpu, pair, expected, pix_fmt):
    sources = [clip.write(gpu.folder / f"{i}.raw", pix_fmt) for i, clip in enumerate(pair)]
    result = gpu.upload(*sources, f"feature={BIG}:parity=strict")
    assert not result.warnings
    assert scores(result) == expected


def test_same_pictures(ffmpeg, pair):
    source = pair[1].write(ffmpeg.folder / "r.raw")
    result = ffmpeg.score(source, source, f"feature={BIG}")
    assert result.rows == [dict.fromkeys(("speed_chroma_u", "speed_chroma_v", "speed_chroma_uv", "speed_temporal"), 0)] * 3


def test_subsampling_leaves_out_no_frame_of_speed_temporal(ffmpeg, pair):
    sources = [clip.write(ffmpeg.folder / f"{i}.raw") for i, clip in enumerate(pair)]
    every = ffmpeg.score(*sources, "feature=speed_temporal").rows
    assert ffmpeg.score(*sources, "feature=speed_temporal:n_subsample=2").rows == [every[0], every[2]]


def test_flat_pictures_are_reported_once(ffmpeg):
    flat = Clip([[array("H", [90]) * (w * h) for w, h in Clip.plane_sizes(160, 160, "420")]] * 3, 160, 160)
    source = flat.write(ffmpeg.folder / "flat.raw")
    result = ffmpeg.score(source, source, "feature=speed_chroma")
    assert [row["speed_chroma_uv"] for row in result.rows] == [0, 0, 0]
    assert len(result.warnings) == 1 and "in 3 of 3 frames" in result.warnings[0]


@pytest.mark.parametrize(
    "chroma, feature, words",
    [
        ("400", "speed_chroma", "4:0:0"),
        ("420", "speed_chroma", "at least 80x80"),
        ("444", r"speed_chroma\:speed_kernelscale=1.1", "speed_kernelscale=1.1"),
        ("444", r"speed_temporal\:speed_prescale_method=area", "area"),
        ("444", r"speed_temporal\:speed_weight_var_mode=1", "unknown option 'speed_weight_var_mode'"),
        ("444", r"speed_chroma\:speed_prescale=0.5", "at least 80x80"),
    ],
)
def test_refusals(ffmpeg, chroma, feature, words):
    source = Clip.noise(1, 1, 120, 120, chroma).write(ffmpeg.folder / "r.raw")
    errors = ffmpeg.score(source, source, f"feature='{feature}'", fails=True).errors
    assert len(errors) == 1 and words in errors[0]
