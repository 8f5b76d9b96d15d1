# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""Pixel formats, sizes, cropped and flipped frames: read in place, without a conversion, to the last bit."""

from array import array

import pytest

from clips import LAYOUTS, Clip, planar, psnr
from conftest import read_rows

# psnr is not defined at 9 and 14 bits; test_motion_of_every_depth() has those.
WITH_PSNR = [name for name, layout in LAYOUTS.items() if layout[1] not in (9, 14)]


@pytest.mark.parametrize("pix_fmt", WITH_PSNR)
def test_psnr_of_every_format(ffmpeg, pix_fmt):
    """A format on either side, the planar one of its kind on the other."""
    chroma, depth, _, _ = LAYOUTS[pix_fmt]
    reference = Clip.noise(1, 2, chroma=chroma, depth=depth)
    distorted = reference.distorted(2, strength=3)
    expected = psnr(distorted, reference)
    plain = planar(chroma, depth)

    for formats in ((pix_fmt, plain), (plain, pix_fmt)):
        inputs = distorted.write(ffmpeg.folder / "d.raw", formats[0]), reference.write(ffmpeg.folder / "r.raw", formats[1])
        result = ffmpeg.score(*inputs)
        assert result.rows == expected
        # yuvj*: a full-range format against a limited-range one is worth a warning
        assert len(result.warnings) == ("yuvj" in pix_fmt)
    # and FFmpeg inserts nothing
    result = ffmpeg.score(*inputs, log="verbose")
    assert "auto-inserting" not in result.stderr and "auto_scale" not in result.stderr


@pytest.mark.parametrize("pix_fmt", ["nv12", "p010", "p016", "nv24", "p212"])
def test_other_metrics_in_semi_planar_formats(ffmpeg, pix_fmt):
    chroma, depth, _, _ = LAYOUTS[pix_fmt]
    reference = Clip.noise(3, 3, chroma=chroma, depth=depth)
    distorted = reference.distorted(4, strength=3)
    plain = planar(chroma, depth)

    rows = [
        ffmpeg.score(
            distorted.write(ffmpeg.folder / "d.raw", name), reference.write(ffmpeg.folder / "r.raw", name), "feature=float_ssim|motion"
        ).rows
        for name in (pix_fmt, plain)
    ]
    assert rows[0] == rows[1]
    assert 0 < rows[0][0]["float_ssim"] < 1
    assert rows[0][1]["integer_motion2"] > 0


@pytest.mark.parametrize("depth", [8, 9, 10, 12, 14, 16])
@pytest.mark.parametrize("chroma", ["400", "420", "422", "444"])
def test_motion_of_every_depth(ffmpeg, chroma, depth):
    """A picture that becomes brighter by half a step of 8 bits (8 bits: one) everywhere moves by just that."""
    step = 1 << max(0, depth - 9)
    sizes = Clip.plane_sizes(40, 24, chroma)
    frames = [[array("H", [100 + i * step]) * (w * h) for w, h in sizes] for i in range(3)]
    source = Clip(frames, 40, 24, chroma, depth).write(ffmpeg.folder / "r.raw")

    result = ffmpeg.score(source, source, "feature=motion")
    sad = [row["VMAF_integer_feature_motion_sad_score"] for row in result.rows]
    assert sad == [0, step / (1 << depth - 8), step / (1 << depth - 8)]


@pytest.mark.parametrize("size", [(63, 47), (1, 1), (2, 1), (17, 90)])
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "nv12", "yuv422p10", "yuv444p"])
def test_odd_sizes(ffmpeg, size, pix_fmt):
    """Odd-sized chroma loses its last column and row, as in libvmaf. An empty chroma plane has the highest score."""
    chroma, depth, _, _ = LAYOUTS[pix_fmt]
    reference = Clip.noise(5, 2, *size, chroma=chroma, depth=depth)
    distorted = reference.distorted(6)

    result = ffmpeg.score(
        distorted.write(ffmpeg.folder / "d.raw", pix_fmt), reference.write(ffmpeg.folder / "r.raw", pix_fmt)
    )
    assert result.rows == psnr(distorted, reference)


@pytest.mark.parametrize("pix_fmt", ["gray10", "yuv420p", "nv12", "p010", "yuv444p12"])
def test_cropped_and_flipped_frames(ffmpeg, pix_fmt):
    """crop moves the planes' addresses, vflip makes pitches negative: the same scores as from files cut beforehand."""
    chroma, depth, _, _ = LAYOUTS[pix_fmt]
    reference = Clip.noise(7, 3, 80, 60, chroma=chroma, depth=depth)
    distorted = reference.distorted(8)
    options = "feature=psnr|float_ssim|motion"
    result = ffmpeg.score(
        distorted.write(ffmpeg.folder / "d.raw", pix_fmt),
        reference.write(ffmpeg.folder / "r.raw", pix_fmt),
        options,
        graph="[0:v]crop=46:38:14:6,vflip[d];[1:v]vflip,crop=46:38:14:16[r];[d][r]{filter}",
    )

    d, r = (clip.crop(14, 6, 46, 38).flip() for clip in (distorted, reference))
    copied = ffmpeg.score(
        d.write(ffmpeg.folder / "cut_d.raw", pix_fmt), r.write(ffmpeg.folder / "cut_r.raw", pix_fmt), options
    )
    assert result.rows == copied.rows
    for row, expected in zip(result.rows, psnr(d, r)):
        assert row.items() >= expected.items()


@pytest.mark.parametrize("wide", ["p016", "yuv420p16"])
def test_bit_depth_of_samples_in_a_wider_format(ffmpeg, wide):
    """12-bit video in the upper bits of 16-bit words, against its true format."""
    reference = Clip.noise(9, 2, depth=12)
    distorted = reference.distorted(10)
    result = ffmpeg.score(
        distorted.write(ffmpeg.folder / "d.raw", wide),
        reference.write(ffmpeg.folder / "r.raw", "yuv420p12"),
        "feature=psnr:bit_depth=12",
    )
    assert result.rows == psnr(distorted, reference)
    assert not result.warnings


def test_other_formats_are_converted_with_a_warning(ffmpeg):
    """RGB is not scored: FFmpeg's own conversion is inserted, and said."""
    log = ffmpeg.folder / "scores.json"
    result = ffmpeg.graph(
        "testsrc2=s=64x48:d=0.2,format=gbrp,split[d][r];[d][r]vmaf_gpu=feature=psnr:log_path=scores.json:log_fmt=json"
    )
    assert log.exists()
    assert len(result.warnings) == 2
    assert "the distorted input is converted from gbrp to yuv444p before it is scored" in result.warnings[0]
    assert "the reference input is converted from gbrp" in result.warnings[1]


@pytest.mark.parametrize(
    "distorted_has, reference_has, warning",
    [
        ("range=pc", "range=tv", "the colour ranges differ (distorted: full, reference: limited)"),
        ("colorspace=bt709", "colorspace=smpte170m", "the colour spaces differ (distorted: bt709, reference: smpte170m)"),
    ],
)
def test_colours_are_not_converted(ffmpeg, distorted_has, reference_has, warning):
    """One warning for the run, and samples are compared as they are."""
    reference = Clip.noise(11, 3)
    distorted = reference.distorted(12)
    result = ffmpeg.score(
        distorted.write(ffmpeg.folder / "d.raw"),
        reference.write(ffmpeg.folder / "r.raw"),
        graph=f"[0:v]setparams={distorted_has}[d];[1:v]setparams={reference_has}[r];[d][r]{{filter}}",
    )
    assert result.rows == psnr(distorted, reference)
    assert len(result.warnings) == 1
    assert warning in result.warnings[0]


def test_output_is_the_distorted_video_unchanged(ffmpeg):
    reference = Clip.noise(15, 5)
    distorted = reference.distorted(16)
    source = distorted.write(ffmpeg.folder / "d.raw", "nv12")
    ffmpeg.score(source, reference.write(ffmpeg.folder / "r.raw"), output=("-f", "rawvideo", "out.raw"))
    assert (ffmpeg.folder / "out.raw").read_bytes() == (ffmpeg.folder / "d.raw").read_bytes()


@pytest.mark.parametrize("wanted", ["yuv444p", "rgb24", "yuvj420p"])
def test_output_format_is_converted_behind_the_filter(ffmpeg, wanted):
    """What the output wants never reaches the frames that are scored."""
    reference = Clip.noise(17, 3)
    distorted = reference.distorted(18)
    source = distorted.write(ffmpeg.folder / "d.raw", "nv12")
    reference_source = reference.write(ffmpeg.folder / "r.raw")
    for graph, output in (
        ("[0:v][1:v]vmaf_gpu={}", ["-pix_fmt", wanted]),
        (f"[0:v][1:v]vmaf_gpu={{}},format={wanted}", []),
        (f"[0:v]null[d];[1:v]null[r];[d][r]vmaf_gpu={{}},vflip,format={wanted}", []),
    ):
        options = "feature=psnr:log_path=log.json:log_fmt=json:log_precision=17"
        result = ffmpeg(
            *(*source, *reference_source, "-filter_complex", graph.format(options), *output, "-f", "rawvideo", "out.raw"),
            log="verbose",
        )
        assert read_rows(ffmpeg.folder / "log.json") == psnr(distorted, reference)
        assert not result.warnings
        assert "auto_scale" in result.stderr
