# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""Options as libvmaf's users write them, and refusals: each names the value and what to do instead."""

import re
import subprocess

import pytest

from clips import Clip, psnr

REFERENCE = Clip.noise(200, 4)
DISTORTED = REFERENCE.distorted(201)


@pytest.fixture
def clips(ffmpeg):
    return DISTORTED.write(ffmpeg.folder / "d.raw"), REFERENCE.write(ffmpeg.folder / "r.raw")


# ---- Syntax ----

MSE = ["psnr_y", "mse_y", "psnr_cb", "mse_cb", "psnr_cr", "mse_cr"]
MOTION = ["VMAF_integer_feature_motion_sad_score", "integer_motion2", "integer_motion3"]


@pytest.mark.parametrize(
    "feature, keys",
    [
        (r"name=psnr\\:enable_mse=true|name=motion", MSE + MOTION),
        (r"'name=psnr\:enable_mse=true|name=motion'", MSE + MOTION),
        (r"psnr\\:enable_mse=true|motion", MSE + MOTION),
        (r"psnr=enable_mse=true|motion", MSE + MOTION),
        ("name=psnr|name=float_ssim", ["psnr_y", "psnr_cb", "psnr_cr", "float_ssim"]),
        ("psnr|float_ssim", ["psnr_y", "psnr_cb", "psnr_cr", "float_ssim"]),
        (r"name=psnr\\:enable_chroma=false", ["psnr_y"]),
        ("psnr|psnr", ["psnr_y", "psnr_cb", "psnr_cr"]),
        (r"name=motion\\:motion_max_val=18", [key + "_mmxv_18" for key in MOTION]),
    ],
)
def test_feature_strings(ffmpeg, clips, feature, keys):
    result = ffmpeg.score(*clips, f"feature={feature}")
    assert list(result.rows[0]) == keys
    assert len(result.rows) == 4


def test_command_line_of_a_libvmaf_script(ffmpeg, clips):
    """Every option of FFmpeg's libvmaf filter, only the filter's name replaced; the graph by -lavfi."""
    ffmpeg(
        *(*clips[0], *clips[1], "-lavfi"),
        r"[0:v]setpts=PTS-STARTPTS[main];[1:v]setpts=PTS-STARTPTS[ref];[main][ref]vmaf_gpu=model=:feature='name=psnr\:enable_mse=true|"
        r"name=float_ssim':n_threads=2:n_subsample=1:pool=harmonic_mean:log_fmt=csv:log_path=log.csv:shortest=1",
        *("-f", "null", "-"),
    )
    lines = (ffmpeg.folder / "log.csv").read_text().splitlines()
    assert lines[0] == "Frame," + ",".join(MSE) + ",float_ssim,"
    expected = psnr(DISTORTED, REFERENCE)
    assert [line.split(",")[1] for line in lines[1:]] == [f"{row['psnr_y']:.6f}" for row in expected]


def test_default_features_are_said_once(ffmpeg, clips):
    result = ffmpeg.score(*clips, "", log="info")
    assert list(result.rows[0]) == ["psnr_y", "psnr_cb", "psnr_cr", "float_ssim"] + MOTION
    assert result.stderr.count("no feature is given: psnr|float_ssim|motion are scored") == 1
    assert "no feature is given" not in ffmpeg.score(*clips, log="info").stderr


@pytest.mark.parametrize("pool", ["min", "max", "mean", "harmonic_mean"])
def test_summary(ffmpeg, clips, pool):
    """One aligned table; the pooled column that was asked for is marked."""
    result = ffmpeg.score(*clips, f"feature=psnr:pool={pool}", log="info")
    table = re.findall(r"(?:scores|psnr_\w+) .*", result.stderr)
    assert len(table) == 4
    assert len({len(line) for line in table}) == 1
    assert table[0].split() == ["scores"] + [f"*{n}" if n == pool else n for n in ("min", "mean", "harmonic_mean", "max")]
    values = [row["psnr_y"] for row in psnr(DISTORTED, REFERENCE)]
    harmonic = len(values) / sum(1 / (v + 1) for v in values) - 1
    expected = [min(values), sum(values) / len(values), harmonic, max(values)]
    assert table[1].split() == ["psnr_y"] + [f"{v:.6f}" for v in expected]


def test_verbose_line(ffmpeg, clips):
    """What is compared by which release."""
    version = subprocess.run([ffmpeg.program, "-version"], capture_output=True, text=True).stdout.split()[2]
    stderr = ffmpeg.score(*clips, log="verbose").stderr
    what = "distorted yuv420p against reference yuv420p, 64x48, 8 bits, pair=nearest"
    assert re.search(rf"FFmpeg {re.escape(version)}, libvmafgpu \d+\.\d+\.\d+: {what}$", stderr, re.MULTILINE)


def test_help(ffmpeg):
    text = ffmpeg("-h", "filter=vmaf_gpu").stdout.decode()
    assert "#0: distorted (video)" in text and "#1: reference (video)" in text
    names = re.findall(r"^   (\w+) +<", text, re.MULTILINE)
    assert names == [
        *("feature", "model", "log_path", "log_fmt", "log_precision", "pool", "n_threads", "n_subsample", "pair", "strict", "backend"),
        *("device", "fallback", "parity", "parity_every", "in_flight", "history", "metadata", "bit_depth", "eof_action", "shortest"),
        *("repeatlast", "ts_sync_mode"),
    ]
    for option, values in {"log_fmt": "xml json csv sub", "pair": "nearest index framesync"}.items():
        part = text[text.index(f"   {option} ") :]
        assert re.findall(r"^     (\w+) ", part, re.MULTILINE)[: len(values.split())] == values.split()


# ---- Refusals ----

BAD_OPTIONS = [
    ("feature=vmaf", "unknown feature 'vmaf'"),
    ("feature=psnt", "unknown feature 'psnt', nearest is 'psnr'"),
    ("feature=|", "names no feature"),
    (r"feature=name=psnr\\:foo=1", "unknown option 'foo' of psnr"),
    (r"feature=name=psnr\\:enable_mze=true", "unknown option 'enable_mze' of psnr, nearest is 'enable_mse'"),
    (r"feature=name=psnr\\:enable_mse=1", "enable_mse='1' is not a boolean: give 'true' or 'false'"),
    (r"feature=name=motion\\:motion_max_val=20000", "motion_max_val=20000 is out of range: give a value from 0 to 10000"),
    ("feature=psnr:enable_mse=true", "Error applying option 'enable_mse' to filter 'vmaf_gpu': Option not found"),
    (
        "model=version=vmaf_v0.6.1",
        "model='version=vmaf_v0.6.1': VMAF models are not built in yet; leave model out and score features, e.g. "
        "feature=psnr|float_ssim|motion",
    ),
    (r"model=path=m.json\\:name=a:feature=psnr", "model='path=m.json:name=a': VMAF models are not built in yet"),
    ("log_fmt=yaml", "log_fmt=yaml is unknown: use xml, json, csv or sub"),
    ("log_fmt=XML", "log_fmt=XML is unknown: use xml, json, csv or sub"),
    ("log_fmt=", "log_fmt= is unknown: use xml, json, csv or sub"),
    ("log_precision=9", "log_precision=9 is unknown: use 6 or 17"),
    ("log_precision=18", "log_precision=18 is unknown: use 6 or 17"),
    ("log_path=missing/log.xml", "could not open file 'missing/log.xml'"),
    ("log_path=.", "could not open file '.': it is a folder"),
    ("pool=median", "pool=median is unknown: use min, max, mean or harmonic_mean"),
    ("pair=near", "pair=near is unknown: use nearest, index or framesync"),
    ("backend=opencl", "backend=opencl is unknown: use auto, cpu, cuda or hip"),
    ("device=0", "device=0 has no meaning where the CPU scores: leave it out, or use backend=cuda or hip"),
    ("fallback=gpu", "fallback=gpu is unknown: use error or cpu"),
    ("history=all", "history=all is unknown: use auto, ref or copy"),
    ("parity=on", "parity=on is unknown: use off, check or strict"),
    (
        "parity=check",
        "parity=check compares a device's work with the CPU's, but with backend=auto the CPU scores these inputs: leave parity out, or "
        "use backend=cuda or hip",
    ),
    ("parity_every=2", "parity_every has no meaning with parity=off: leave it out, or add parity=check"),
    ("parity=check:parity_every=0", "parameter 'parity_every' out of range [1 -"),
    ("n_threads=-1", "parameter 'n_threads' out of range"),
    ("n_subsample=0", "parameter 'n_subsample' out of range [1 -"),
    ("in_flight=0", "parameter 'in_flight' out of range [1 - 16]"),
    ("in_flight=17", "parameter 'in_flight' out of range [1 - 16]"),
    ("bit_depth=7", "bit_depth=7: depths from 8 to 16 are scored; 0 takes the format's"),
    ("bit_depth=17", "parameter 'bit_depth' out of range [0 - 16]"),
    ("bit_depth=10", "bit_depth=10: the distorted input has 8 bits (yuv420p); leave bit_depth out"),
    ("strict=maybe", 'value "maybe" as boolean'),
    ("eof_action=pass", "eof_action has no meaning with pair=nearest: leave it out, or add pair=framesync"),
    ("repeatlast=0", "repeatlast has no meaning with pair=nearest: leave it out, or add pair=framesync"),
    ("repeatlast=1", "repeatlast has no meaning with pair=nearest"),
    ("shortest=0", "shortest=0 has no meaning with pair=nearest: leave it out, or add pair=framesync"),
    ("ts_sync_mode=nearest:pair=index", "ts_sync_mode has no meaning with pair=index: leave it out, or add pair=framesync"),
    ("pair=framesync:eof_action=stop", "eof_action=stop is unknown: use repeat, endall or pass"),
    ("pair=framesync:ts_sync_mode=exact", "ts_sync_mode=exact is unknown: use default or nearest"),
]


@pytest.mark.parametrize("options, message", BAD_OPTIONS, ids=[options for options, _ in BAD_OPTIONS])
def test_bad_option(ffmpeg, options, message):
    (ffmpeg.folder / "log.xml").write_text("old")
    result = ffmpeg.graph(f"color=s=64x48:d=1,split[d][r];[d][r]vmaf_gpu={options}", fails=True)
    assert message in result.stderr
    # said once, in one line
    assert sum(message in line and "Failed to set value" not in line for line in result.stderr.splitlines()) == 1
    assert "no frames were scored" not in result.stderr


BAD_INPUTS = [
    (
        ("64x48", "yuv420p9", "64x48", "yuv420p9"),
        "inputs of 9 bits: to convert them, insert format=yuv420p10 on both, e.g. -lavfi "
        "'[0:v]format=yuv420p10[d];[1:v]format=yuv420p10[r];[d][r]vmaf_gpu'",
    ),
    (
        ("640x360", "yuv420p", "1280x720", "yuv420p"),
        "distorted is 640x360 yuv420p, reference is 1280x720 yuv420p: insert scale=1280:720:flags=bicubic on the distorted input, "
        "e.g. -lavfi '[0:v]scale=1280:720:flags=bicubic[d];[d][1:v]vmaf_gpu'",
    ),
    (
        ("64x48", "yuv420p", "64x48", "yuv420p10"),
        "distorted is 64x48 yuv420p, reference is 64x48 yuv420p10: insert format=yuv420p10 on the distorted input, "
        "e.g. -lavfi '[0:v]format=yuv420p10[d];[d][1:v]vmaf_gpu'",
    ),
    (
        ("64x48", "p010", "64x48", "nv12"),
        "insert format=yuv420p10 on the reference input, e.g. -lavfi '[1:v]format=yuv420p10[r];[0:v][r]vmaf_gpu'",
    ),
    (
        ("64x48", "yuv444p", "64x48", "yuv420p"),
        "insert format=yuv420p on the distorted input, e.g. -lavfi '[0:v]format=yuv420p[d];[d][1:v]vmaf_gpu'",
    ),
    (
        ("64x48", "yuv420p", "64x48", "nv24"),
        "insert format=yuv444p on the distorted input, e.g. -lavfi '[0:v]format=yuv444p[d];[d][1:v]vmaf_gpu'",
    ),
    (
        ("32x24", "yuv444p12", "64x48", "yuv422p"),
        "insert scale=64:48:flags=bicubic,format=yuv422p12 on the distorted input and format=yuv422p12 on the reference input, e.g. "
        "-lavfi '[0:v]scale=64:48:flags=bicubic,format=yuv422p12[d];[1:v]format=yuv422p12[r];[d][r]vmaf_gpu'",
    ),
    (
        ("64x48", "yuv420p", "64x48", "gray"),
        "insert extractplanes=y on the distorted input, e.g. -lavfi '[0:v]extractplanes=y[d];[d][1:v]vmaf_gpu'",
    ),
    (
        ("64x48", "gray", "64x48", "yuv420p"),
        "insert extractplanes=y on the reference input, e.g. -lavfi '[1:v]extractplanes=y[r];[0:v][r]vmaf_gpu'",
    ),
]


@pytest.mark.parametrize("inputs, message", BAD_INPUTS, ids=["-".join(inputs) for inputs, _ in BAD_INPUTS])
def test_inputs_that_differ(ffmpeg, inputs, message):
    """Refused with the filters to insert; with them it works."""
    size_d, format_d, size_r, format_r = inputs
    sources = []
    for size, pix_fmt in ((size_d, format_d), (size_r, format_r)):
        sources += ["-f", "lavfi", "-i", f"testsrc2=s={size}:d=0.2,format={pix_fmt}"]
    result = ffmpeg(*sources, "-lavfi", "vmaf_gpu=log_path=log.xml", "-f", "null", "-", fails=True)
    assert len([text for text in result.errors if message in text]) == 1
    assert not (ffmpeg.folder / "log.xml").exists()

    graph = re.search("-lavfi '(.*)'", message)[1]
    result = ffmpeg(*sources, "-lavfi", graph + "=feature=psnr:strict=1", "-f", "null", "-", log="info")
    assert " psnr_y " in result.stderr


@pytest.mark.parametrize(
    "feature, pix_fmt, size, words",
    [("psnr", "yuv420p9", "64x48", ["psnr", "9"]), ("float_ssim", "yuv420p14", "64x48", ["ssim", "14"]), ("motion", "gray", "2x2", ["motion", "2x2"])],
)
def test_what_a_metric_cannot_score_is_refused_at_configuration(ffmpeg, feature, pix_fmt, size, words):
    result = ffmpeg.graph(f"testsrc2=s={size}:d=0.2,format={pix_fmt},split[d][r];[d][r]vmaf_gpu=feature={feature}", fails=True)
    assert any(all(word in text for word in words) for text in result.errors), result.errors
    assert "no frames were scored" not in result.stderr
