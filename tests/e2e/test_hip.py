# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""
HIP devices, HIP frames and the HIP back end, on the HIP stand-in over the software device: FFmpeg's generic uploads and
downloads around our filter, which must give the CPU's log byte for byte; mapping of surfaces; refusals and failures. The
pixel format, devices and frames come with our patch (libavutil_glue), so libavutil's own interface is tested, too, by the
program hip_frames.c. No AMD device is needed, and nothing here shows that one works.
"""

import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from clips import LAYOUTS, Clip, ffmpeg_name, psnr, write_pair
from conftest import ROOT, SANITIZED, program, scores, without_speed

ALL = "feature=psnr|float_ssim|motion"
LARGE = r"feature=name=cambi\\:full_ref=true|speed_chroma|speed_temporal|psnr|float_ssim|motion"
NAME = r".* \(0000:0{}:00\.0\)"

REFERENCE = Clip.noise(700, 6)
DISTORTED = REFERENCE.distorted(701, strength=3)


@pytest.fixture
def clips(hip):
    return DISTORTED.write(hip.folder / "d.raw", "nv12"), REFERENCE.write(hip.folder / "r.raw", "nv12")


@pytest.fixture
def on_cpu(ffmpeg, clips):
    """The log of the two clips as the CPU scores them: scores(on_cpu(options))."""
    return lambda options=ALL, **more: scores(ffmpeg.score(*clips, f"{options}:backend=cpu", **more))


# ---- The device type ----


def test_type_and_format_are_listed(ffmpeg):
    """Without a runtime, too."""
    assert re.search(r"^hip$", ffmpeg("-init_hw_device", "list").stdout.decode(), re.MULTILINE)
    assert re.search(r"^hip$", ffmpeg("-hwaccels").stdout.decode(), re.MULTILINE)
    assert re.search(r"^\.\.H\.\. hip +0 ", ffmpeg("-pix_fmts").stdout.decode(), re.MULTILINE)


@pytest.mark.parametrize("device, found", [("", 1), (":0", 1), (":2", 3), (":0000:02:00.0", 2), (":02:00.0", 2)])
def test_device_is_made(hip, device, found):
    result = hip("-init_hw_device", f"hip=gpu{device}", *CHEAP, log="verbose", device={"DEVICES": 3})
    assert re.search(rf"HIP device {found - 1}: {NAME.format(found)}", result.stderr)


CHEAP = ("-f", "lavfi", "-i", "color=s=16x16:d=0.04", "-f", "null", "-")

NO_DEVICE = [
    ("hip=gpu:3", {}, r'there is no HIP device "3": give the index or the PCI id of one of 0 \(0000:01:00\.0, .*\), 1 \(0000:02:00\.0, '),
    ("hip=gpu:-1", {}, 'there is no HIP device "-1"'),
    ("hip=gpu:0000:09:00.0", {}, 'there is no HIP device "0000:09:00.0"'),
    ("hip=gpu:radeon", {}, 'there is no HIP device "radeon"'),
    ("hip=gpu:0x0", {}, 'there is no HIP device "0x0"'),
    ("hip=gpu", {"DEVICES": 0}, r"HIP finds no AMD GPU: is one installed that ROCm supports, the amdgpu driver loaded"),
    ("hip=gpu", {"HIPSTAND_FAIL": "hipInit:1", "HIPSTAND_FAIL_CODE": 999}, r"hipInit failed: \S+ \(999\)"),
    ("hip=gpu", {"HIPSTAND_FAIL": "hipInit:1", "HIPSTAND_FAIL_CODE": 100}, "HIP finds no AMD GPU"),
    ("hip=gpu", {"HIPSTAND_FAIL": "hipGetDeviceCount:1", "HIPSTAND_FAIL_CODE": 3}, r"hipGetDeviceCount failed: \S+ \(3\)"),
    ("hip=gpu", {"HIPSTAND_FAIL": "hipDeviceGetName:1"}, r"hipDeviceGetName failed: \S+ \(2\)"),
]


def device_errors(result):
    """What libavutil says of devices and frames."""
    return re.findall(r"\[(?:AVHW(?:Device|Frames)Context|HIP) @ \S+\] \[error\] (.*)", result.stderr)


@pytest.mark.parametrize("device, variables, message", NO_DEVICE, ids=[f"{d}-{'-'.join(map(str, v.values()))}" for d, v, _ in NO_DEVICE])
def test_device_that_is_not_there(hip, device, variables, message):
    result = hip("-init_hw_device", device, *CHEAP, device={"DEVICES": 2} | variables, fails=True)
    errors = device_errors(result)
    assert len(errors) == 1 and re.match(message, errors[0]), result.stderr


def test_no_runtime(hip, clips, on_cpu):
    """One clear error where a device is asked for; nothing else changes."""
    hip.stand_in = str(hip.folder / "lib")  # before a runtime that this machine may have
    Path(hip.stand_in).mkdir()
    for number in (7, 6, 5):
        Path(hip.stand_in, f"libamdhip64.so.{number}").touch()
    Path(hip.stand_in, "libamdhip64.so").touch()
    assert scores(hip.score(*clips, ALL)) == on_cpu()

    result = hip(*hip.MAKE, *CHEAP, fails=True)
    errors = device_errors(result)
    assert len(errors) == 1
    assert re.match(r"ROCm's HIP runtime cannot be opened \(.*libamdhip64\.so\.7: .*\): install it, or put its folder", errors[0])

    result = hip.score(*clips, ALL + ":backend=hip", fails=True)
    assert len(result.errors) == 1 and "libamdhip64.so" in result.errors[0] and not result.log.exists()
    result = hip.score(*clips, ALL + ":backend=hip:fallback=cpu")
    assert len(result.warnings) == 1 and result.warnings[0].startswith("scoring on the CPU: ") and not result.errors
    assert scores(result) == on_cpu()


def test_runtime_of_amd(ffmpeg):
    """AMD's own, without the stand-in: it has what is looked up, and a machine without a GPU gets our one error."""
    result = ffmpeg("-init_hw_device", "hip=gpu", *CHEAP, fails=None)
    errors = device_errors(result)
    if result.code and errors[0].startswith("ROCm's HIP runtime cannot be opened"):
        pytest.skip("no HIP runtime is installed (Debian's is libamdhip64-5)")
    assert not errors if result.code == 0 else len(errors) == 1 and errors[0].startswith("HIP finds no AMD GPU: "), result.stderr


def test_runtime_of_another_name(hip, clips, on_cpu):
    """ROCm 5 and 7 have other names."""
    names = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"]
    for name in names:
        folder = hip.folder / f"lib_{name}"
        folder.mkdir()
        for other in names:
            (folder / other).touch()  # before those that the machine may have
        shutil.copy(Path(hip.stand_in, "libamdhip64.so.7"), folder / name)
        other = type(hip)(hip.folder)
        other.stand_in = str(folder)
        assert scores(other.upload(*clips, ALL)) == on_cpu()


# FFmpeg's own tests of what lists formats and devices: name in FATE -> program.
FATE = {
    "imgutils": "libavutil/tests/imgutils",
    "pixfmt_best": "libavutil/tests/pixfmt_best",
    "sws-pixdesc-query": "libswscale/tests/pixdesc_query",
    "hwdevice": "libavutil/tests/hwdevice",
}


@pytest.fixture(scope="session")
def fate(tmp_path_factory):
    """Builds them in the tree; gives the tree and the folder with what they must print."""
    tree, source = Path(program()).parent, tmp_path_factory.mktemp("fate") / "ffmpeg"
    release = ".".join((tree / "RELEASE").read_text().strip().split(".")[:2])
    done = subprocess.run(["make", "-C", tree, "-s", *FATE.values()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = [f"tests/ref/fate/{name}" for name in FATE if name != "hwdevice"]
    done = subprocess.run([ROOT / "tools/ffmpeg_source", release, source, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return tree, source / "tests/ref/fate"


@pytest.mark.parametrize("name", FATE)
def test_tests_of_ffmpeg(hip, fate, name):
    """They pass with one pixel format and one device type more; that of devices asks only for the status."""
    tree, references = fate
    done = subprocess.run([tree / FATE[name]], env=hip.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if name == "hwdevice":
        assert "Device type hip successfully" in done.stderr, done.stderr
    else:
        assert done.stdout == (references / name).read_text()


def test_architecture_without_kernels(hip, clips, on_cpu):
    """The error names it, and how to build for it; the CPU may score instead."""
    strange = {"HIPSTAND_ARCH": "gfx1010:xnack-"}
    missing = r"there are no kernels for gfx1010, only for gfx.*\. Build the library with it in meson's option gpu_hip_targets"
    for score in (hip.score, hip.upload):
        result = score(*clips, ALL + ":backend=hip", device=strange, fails=True)
        assert len(result.errors) == 1 and re.search(missing, result.errors[0]) and not result.log.exists()
        result = score(*clips, ALL + ":backend=hip:fallback=cpu", device=strange)
        assert len(result.warnings) == 1 and re.search(missing, result.warnings[0]) and not result.errors
        assert scores(result) == on_cpu()


# ---- Formats ----


@pytest.mark.parametrize("layout", LAYOUTS)
def test_uploaded_formats(ffmpeg, hip, layout):
    """Everything that the filter reads, uploaded by ffmpeg without a conversion."""
    distorted, reference, d, r = write_pair(hip.folder, (layout, layout), (62, 46))
    options = ALL if LAYOUTS[layout][1] in (8, 10, 12, 16) else "feature=motion"
    result = hip.upload(d, r, options, log="verbose")
    name = re.sub("[lb]e$", "", ffmpeg_name(layout))
    assert "auto_scale" not in result.stderr
    assert f"distorted {name} (HIP) against reference {name} (HIP), 62x46, {distorted.depth} bits" in result.stderr
    assert scores(result) == scores(ffmpeg.score(d, r, options + ":backend=cpu"))
    if options == ALL:
        for row, expected in zip(result.rows, psnr(distorted, reference)):
            assert row.items() >= expected.items()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_software_frames_on_the_device(ffmpeg, hip, layout):
    """The same, uploaded by the filter itself."""
    *_, d, r = write_pair(hip.folder, (layout, layout), (62, 46))
    options = ALL if LAYOUTS[layout][1] in (8, 10, 12, 16) else "feature=motion"
    result = hip.score(d, r, options + ":backend=hip", log="verbose")
    assert "auto_scale" not in result.stderr and "HIP device: " in result.stderr
    assert scores(result) == scores(ffmpeg.score(d, r, options + ":backend=cpu"))


PAIRS = [
    *[("nv12", "yuv420p"), ("yuvj420p", "nv21"), ("p010", "yuv420p10"), ("yuv420p12", "p012"), ("nv16", "yuv422p")],
    *[("yuv422p10", "nv20"), ("p212", "yuv422p12"), ("nv24", "nv42"), ("p410", "yuv444p10"), ("p016", "yuv420p16")],
]


@pytest.mark.parametrize("layouts", PAIRS, ids="-".join)
def test_mixed_layouts(ffmpeg, hip, layouts):
    *_, d, r = write_pair(hip.folder, layouts)
    expected = scores(ffmpeg.score(d, r, ALL + ":backend=cpu"))
    assert scores(hip.upload(d, r, ALL)) == expected
    assert scores(hip.score(d, r, ALL + ":backend=hip")) == expected


@pytest.mark.parametrize("size", [(63, 47), (17, 90), (2, 1), (1, 1)], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("layout", ["nv12", "yuv420p", "p010", "yuv422p10", "gray12"])
def test_odd_sizes(ffmpeg, hip, layout, size):
    *_, d, r = write_pair(hip.folder, (layout, layout), size)
    options = "feature=psnr" if min(size) < 11 else ALL
    expected = scores(ffmpeg.score(d, r, options + ":backend=cpu"))
    assert scores(hip.upload(d, r, options)) == expected
    assert scores(hip.score(d, r, options + ":backend=hip")) == expected


@pytest.mark.parametrize("layout", ["nv12", "yuv420p10", "gray"])
def test_cropped_and_flipped_frames(ffmpeg, hip, layout):
    """Negative pitches and addresses in the middle of a buffer, on the host."""
    *_, d, r = write_pair(hip.folder, (layout, layout), (80, 60))
    graph = "[0:v]crop=46:38:14:6,vflip{up}[d];[1:v]vflip,crop=46:38:14:16{up}[r];[d][r]"
    expected = scores(ffmpeg.score(d, r, ALL + ":backend=cpu", graph=graph.format(up="") + "{filter}"))
    assert scores(hip.upload(d, r, ALL, graph=graph.format(up=",hwupload") + "{filter}")) == expected


# ---- Ways in and out ----


@pytest.mark.parametrize("layout", ["nv12", "yuv420p", "p010", "yuv444p16", "gray10"])
@pytest.mark.parametrize("size", [(64, 48), (37, 23)], ids="{0[0]}x{0[1]}".format)
def test_frames_pass_unchanged(hip, layout, size):
    """hwdownload behind the filter delivers what was uploaded."""
    *_, d, r = write_pair(hip.folder, (layout, layout), size)
    for options in (ALL, ALL + ":metadata=1:in_flight=2", ALL + ":pair=framesync"):
        graph = f"{hip.UPLOAD},hwdownload,format={layout}"
        hip.upload(d, r, options, graph=graph, output=("-f", "rawvideo", "-pix_fmt", ffmpeg_name(layout), "out.raw"))
        assert (hip.folder / "out.raw").read_bytes() == (hip.folder / "d.raw").read_bytes()


def test_device_of_frames(hip, clips, on_cpu):
    """Frames are scored where they are, not on the first device."""
    make = ["-init_hw_device", "hip=gpu:0000:02:00.0", "-filter_hw_device", "gpu"]
    result = hip.score([*make, *clips[0]], clips[1], ALL, graph=hip.UPLOAD, log="verbose", device={"DEVICES": 2})
    assert re.search(r"HIP device: .*0000:02:00\.0", result.stderr)
    assert scores(result) == on_cpu()


def test_device_of_ffmpeg(hip, clips, on_cpu):
    """With software frames the filter takes the device that ffmpeg hands it, if that is of its kind."""
    made = ["-init_hw_device", "hip=one:1", "-init_hw_device", "hip=two:2", "-filter_hw_device", "one"]
    result = hip.score([*made, *clips[0]], clips[1], f"{ALL}:backend=hip", log="verbose", device={"DEVICES": 3})
    assert re.search(r"HIP device: .*0000:02:00\.0", result.stderr)
    assert scores(result) == on_cpu()

    made = ["-init_hw_device", "cuda=one:1", "-filter_hw_device", "one"]
    result = hip.score([*made, *clips[0]], clips[1], f"{ALL}:backend=hip:device=2", log="verbose", device={"DEVICES": 3})
    assert re.search(r"HIP device: .*0000:03:00\.0", result.stderr)
    assert scores(result) == on_cpu()


@pytest.mark.parametrize("device", ["1", "0000:02:00.0", "02:00.0"])
def test_device(hip, clips, on_cpu, device):
    escaped = device.replace(":", r"\\:")
    result = hip.score(*clips, f"{ALL}:backend=hip:device={escaped}", log="verbose", device={"DEVICES": 3})
    assert re.search(r"HIP device: .*0000:02:00\.0", result.stderr)
    assert scores(result) == on_cpu()


def test_hardware_frames_on_the_cpu(hip, clips, on_cpu):
    """backend=cpu downloads them itself."""
    assert scores(hip.upload(*clips, ALL + ":backend=cpu")) == on_cpu()


def test_hip_and_cuda_side_by_side(hip, clips, on_cpu):
    """Two filters in one graph, each with frames of its kind."""
    make = ["-init_hw_device", "hip=amd", "-init_hw_device", "cuda=nvidia"]
    graph = (
        "[0:v]split[d0][d1];[1:v]split[r0][r1];[d0]hwupload_cuda[d2];[d1]hwupload[d3];[r1]hwupload[r3];"
        f"[d3][r3]{{filter}}[o0];[d2]hwdownload,format=nv12[d4];[d4][r0]vmaf_gpu={ALL}:backend=cuda[o1]"
    )
    output = ("-map", "[o0]", "-f", "null", "-", "-map", "[o1]", "-f", "null", "-")
    result = hip.score([*make, "-filter_hw_device", "amd", *clips[0]], clips[1], ALL, graph=graph, output=output)
    assert scores(result) == on_cpu()


@pytest.mark.parametrize("layout", ["nv12", "p010"])
def test_every_metric(ffmpeg, hip, layout):
    """CAMBI and SpEED want larger pictures."""
    *_, d, r = write_pair(hip.folder, (layout, layout), (320, 240), n=3)
    expected = scores(ffmpeg.score(d, r, LARGE + ":backend=cpu"))
    assert scores(hip.upload(d, r, LARGE + ":parity=strict")) == expected
    assert scores(hip.score(d, r, LARGE + ":backend=hip:parity=strict")) == expected


SETTINGS = [
    *("history=ref", "history=copy", "in_flight=1", "in_flight=16:history=copy", "n_subsample=2", "metadata=1:in_flight=1"),
    *("parity=strict", "parity=check:parity_every=4", "pair=index", "fallback=cpu"),
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings(hip, clips, on_cpu, setting):
    host = ":".join(word for word in setting.split(":") if not re.match("history|parity|fallback", word))
    assert scores(hip.upload(*clips, f"{ALL}:{setting}", device={"ORDER": 3})) == on_cpu(f"{ALL}:{host}" if host else ALL)


def test_random_orders(hip, clips, on_cpu):
    """Whatever runs first on the device: uploads, kernels and downloads wait for each other."""
    expected = on_cpu()
    for order in range(1, 5 if SANITIZED else 12):
        graph = f"{hip.UPLOAD},hwdownload,format=nv12"
        result = hip.upload(*clips, ALL, graph=graph, output=("-f", "rawvideo", "out.raw"), device={"ORDER": order})
        assert scores(result) == expected, order
        assert (hip.folder / "out.raw").read_bytes() == (hip.folder / "d.raw").read_bytes(), order


def test_parity_sees_a_difference(hip, clips):
    result = hip.score(*clips, "feature=motion:backend=hip:parity=strict", device={"FLIP": "6:0"}, fails=True)
    assert any(re.match(r"parity: frame 5, motion, \S+: the device has \d+, the CPU \d+", text) for text in result.errors)


# ---- Refusals ----


@pytest.mark.parametrize("hard", [0, 1])
def test_mixed_hardware_and_software_frames(hip, clips, on_cpu, hard):
    """Refused, and both remedies work."""
    side = ("d", "r")[hard]
    graph = f"[{hard}:v]hwupload[{side}];" + ("[0:v][r]" if hard else "[d][1:v]") + "{filter}"
    result = hip.upload(*clips, graph=graph, fails=True)
    names = ["nv12 (HIP)" if number == hard else "nv12" for number in (0, 1)]
    sides = ("distorted", "reference")
    other = ("d", "r")[1 - hard]
    link = "[d][1:v]" if hard else "[0:v][r]"
    assert result.errors == [
        f"distorted is {names[0]}, reference is {names[1]}: insert hwupload on the {sides[1 - hard]} input, e.g. -lavfi "
        f"'[{1 - hard}:v]hwupload[{other}];{link}vmaf_gpu', or hwdownload,format=nv12 on the {sides[hard]} input"
    ]
    assert not result.log.exists()
    there = "hwupload,hwdownload,format=nv12"
    graph = f"[0:v]{'null' if hard else there}[d];[1:v]{there if hard else 'null'}[r];[d][r]{{filter}}"
    assert scores(hip.upload(*clips, ALL, graph=graph)) == on_cpu()


def test_hip_and_cuda_frames_are_refused(hip, clips, on_cpu):
    graph = "[0:v]hwupload[d];[1:v]hwupload_cuda[r];[d][r]{filter}"
    result = hip.upload(*clips, graph=graph, fails=True)
    remedy = "[0:v]hwdownload,format=nv12[d];[1:v]hwdownload,format=nv12[r];[d][r]vmaf_gpu"
    assert result.errors == [
        "distorted is nv12 (HIP), reference is nv12 (CUDA): insert hwdownload,format=nv12 on the distorted input and "
        f"hwdownload,format=nv12 on the reference input, e.g. -lavfi '{remedy}'"
    ]
    graph = "[0:v]hwupload,hwdownload,format=nv12[d];[1:v]hwupload_cuda,hwdownload,format=nv12[r];[d][r]{filter}"
    assert scores(hip.upload(*clips, ALL, graph=graph)) == on_cpu()


CONTENTS = [
    (
        ("64x48", "nv12", "64x48", "p010"),
        "distorted is 64x48 nv12 (HIP), reference is 64x48 p010 (HIP): insert hwdownload,format=nv12,format=yuv420p10,hwupload on the "
        "distorted input, e.g. -lavfi '[0:v]hwdownload,format=nv12,format=yuv420p10,hwupload[d];[d][1:v]vmaf_gpu'",
    ),
    (
        ("64x48", "nv12", "96x64", "yuv420p"),
        "distorted is 64x48 nv12 (HIP), reference is 96x64 yuv420p (HIP): insert "
        "hwdownload,format=nv12,scale=96:64:flags=bicubic,hwupload on the distorted input",
    ),
    (
        ("32x24", "p016", "64x48", "nv12"),
        "insert hwdownload,format=p016,scale=64:48:flags=bicubic,hwupload on the distorted input and "
        "hwdownload,format=nv12,format=yuv420p16,hwupload on the reference input",
    ),
    (
        ("64x48", "gray", "64x48", "yuv444p"),
        "insert hwdownload,format=yuv444p,extractplanes=y,hwupload on the reference input",
    ),
]


@pytest.mark.parametrize("inputs, message", CONTENTS, ids=["-".join(inputs) for inputs, _ in CONTENTS])
def test_contents_that_differ(hip, inputs, message):
    """Refused; the graph that the message proposes does it."""
    size_d, format_d, size_r, format_r = inputs
    sources = f"testsrc2=s={size_d}:d=0.2,format={format_d},hwupload[a];testsrc2=s={size_r}:d=0.2,format={format_r},hwupload[b];"
    result = hip(*hip.MAKE, "-filter_complex", f"{sources}[a][b]vmaf_gpu=log_path=log.xml", "-f", "null", "-", fails=True)
    assert len(result.errors) == 1 and message in result.errors[0]
    assert not (hip.folder / "log.xml").exists()
    proposed = re.search(r"-lavfi '(.*)'", result.errors[0])[1].replace("[0:v]", "[a]").replace("[1:v]", "[b]")
    result = hip(*hip.MAKE, "-filter_complex", f"{sources}{proposed}=feature=psnr", "-f", "null", "-", log="info")
    assert " psnr_y " in result.stderr


def test_formats_that_are_not_scored(hip):
    graph = "testsrc2=s=64x48:d=0.2,format=bgra,hwupload,split[d][r];[d][r]vmaf_gpu"
    result = hip(*hip.MAKE, "-filter_complex", graph, "-f", "null", "-", fails=True)
    assert "the distorted input has hip frames of format bgra, which is not scored: insert hwdownload,format=bgra" in result.errors


def test_frames_of_no_device(hip):
    graph = "nullsrc=s=64x48:d=1,format=hip[d];nullsrc=s=64x48:d=1,format=hip[r];[d][r]vmaf_gpu"
    assert hip.graph(graph, fails=True).errors == ["the distorted input has hip frames that belong to no device: insert hwupload before"]


OPTIONS = [
    (True, "device=0", "device=0 has no meaning with HIP frames, which are on a device already: leave it out"),
    (True, "backend=cuda", "pictures in HIP memory cannot be scored by backend=cuda: use hip, cpu or auto"),
    (True, "backend=cpu:parity=check", "parity=check compares a device's work with the CPU's, but with backend=cpu the CPU scores"),
    (
        False,
        "device=0:backend=hip",
        "device=0 has no meaning where ffmpeg hands the filter a device (-filter_hw_device or the last one that it made): leave it out",
    ),
    (True, "bit_depth=10", "bit_depth=10: the distorted input has 8 bits (nv12 (HIP)); leave bit_depth out"),
]


@pytest.mark.parametrize("uploaded, options, message", OPTIONS, ids=[f"{'hip' if up else 'host'}-{options}" for up, options, _ in OPTIONS])
def test_options_that_do_not_fit(hip, clips, uploaded, options, message):
    graph = hip.UPLOAD if uploaded else "[0:v][1:v]{filter}"
    result = hip.upload(*clips, options, graph=graph, fails=True)
    assert len(result.errors) == 1 and message in result.errors[0], result.errors


def test_frames_that_change(hip):
    """Another format from the fourth frame on: refused there; what was scored is logged."""
    graph = (
        "[0:v]trim=end_frame=3,hwupload,setpts=PTS[a];[0:v]trim=start_frame=3,setpts=PTS-STARTPTS,format=yuv420p,hwupload,setpts=PTS[b];"
        "[a][b]concat,split[d][r];[d][r]{filter}"
    )
    result = hip.upload(REFERENCE.write(hip.folder / "d.raw", "nv12"), [], graph=graph, fails=True)
    assert result.errors == [
        "a distorted frame is 64x48 yuv420p (HIP), but 64x48 nv12 (HIP) was agreed on: insert hwdownload,scale,hwupload before the filter"
    ]
    assert len(result.rows) == 3


# ---- Failures of the runtime ----

WAYS = {"hwupload": "", "software": ":backend=hip", "parity": ":parity=strict", "metadata": ":metadata=1:history=copy"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("code", (2, 719))
def test_failing_calls(hip, code, way):
    """Whatever call fails: at most one error of ours, a clean end, and the whole log of what was scored or none."""
    clip = REFERENCE.crop(0, 0, 16, 16).pick(range(3)).write(hip.folder / "a.raw", "nv12")
    score = hip.score if way == "software" else hip.upload
    score(clip, clip, ALL + WAYS[way], device={"HIPSTAND_COUNT": hip.folder / ".count"})
    calls = int((hip.folder / ".count").read_text())
    assert calls > 60

    samples = 5 if SANITIZED else 12
    first = list(WAYS).index(way) * 2 + (code == 719)
    failed = 0
    for i in range(samples):
        number = 1 + (i * 8 + first) * calls // (samples * 8)
        result = score(clip, clip, ALL + WAYS[way], device={"HIPSTAND_FAIL": number, "HIPSTAND_FAIL_CODE": code}, fails=None)
        failed += result.code != 0
        assert len(result.errors) <= 1, f"call {number}: {result.stderr}"
        assert len(result.rows) == 3 or result.code, f"call {number}"
        assert not list(hip.folder.glob("*.part"))
        assert not result.left, f"call {number}: {result.left}"
    assert failed


@pytest.mark.parametrize("call", ["hipMemcpy2DAsync:1", "hipMemcpy2DAsync:5", "hipStreamSynchronize:2"])
def test_failing_transfers_are_errors(hip, clips, call):
    """Unlike FFmpeg's of CUDA, which go on with what the frame holds."""
    graph = f"{hip.UPLOAD},hwdownload,format=nv12"
    make = ("-init_hw_device", "hip=gpu:1", "-filter_hw_device", "gpu")
    result = hip.score([*make, *clips[0]], clips[1], graph=graph, fails=True, device={"HIPSTAND_FAIL": call, "DEVICES": 2})
    assert re.search(rf"\[(?:AVHWDeviceContext|HIP) @ \S+\] \[error\] {call[:-2]} failed: \S+ \(2\)", result.stderr)
    assert not result.left


# ---- Early ends ----


@pytest.mark.parametrize("options", ["", ":metadata=1", ":pair=framesync", ":history=copy:in_flight=16"])
def test_output_that_closes_early(hip, options):
    reference = Clip.noise(606, 60, 32, 32)
    d = reference.distorted(607).write(hip.folder / "d.raw")
    r = reference.write(hip.folder / "r.raw")
    result = hip.upload(d, r, "feature=psnr|motion" + options, output=("-frames:v", "3", "-f", "null", "-"))
    assert 3 <= len(result.rows) <= 60


@pytest.mark.parametrize("order", [0, 5])
def test_interrupted_run(hip, order):
    process = hip.start(
        *(*hip.MAKE, "-filter_complex"),
        "testsrc2=s=64x48,format=nv12,split[a][b];[a]hwupload[d];[b]hwupload[r];"
        "[d][r]vmaf_gpu=feature=psnr|motion:in_flight=4:log_path=log.json:log_fmt=json,hwdownload,format=nv12",
        *("-flush_packets", "1", "-f", "framecrc", "-"),
        device={"ORDER": order},
    )
    for _ in range(40):
        assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    result = hip.finish(process, fails=True)
    assert result.code == 255
    assert (hip.folder / "log.json").exists()


# ---- libavutil's interface: user's devices, mapping ----


@pytest.fixture(scope="session")
def frames_program(tmp_path_factory):
    """hip_frames.c, linked with the libraries of the tree under test as ffmpeg is."""
    tree = Path(program()).parent
    made = dict(re.findall(r"^(\S+?)=(.*)", (tree / "ffbuild/config.mak").read_text(), re.MULTILINE))
    target = tmp_path_factory.mktemp("hip") / "hip_frames"
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g"] if SANITIZED else []
    libraries = [name for name in ("avfilter", "avformat", "avcodec", "swscale", "avutil") if (tree / f"lib{name}/lib{name}.a").exists()]
    command = [
        *(made["CC"], "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", *sanitize, f"-I{tree}", ROOT / "tests/e2e/hip_frames.c"),
        *(tree / f"lib{name}/lib{name}.a" for name in libraries),
        *(word for name in libraries for word in shlex.split(made.get(f"EXTRALIBS-{name}", ""))),
        *("-pthread", "-ldl", "-lm", "-o", target),
    ]
    done = subprocess.run(list(map(str, command)), cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return str(target)


@pytest.fixture
def frames(hip, frames_program):
    """Runs hip_frames as ffmpeg would be run."""

    def run(*words, code=0, **variables):
        hip.live.unlink(missing_ok=True)
        environment = hip.environment(variables)
        done = subprocess.run([frames_program, *words], cwd=hip.folder, env=environment, capture_output=True, text=True, check=False, timeout=120)
        said = f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        for word in ("Sanitizer", "runtime error:", "softgpu: error"):
            assert word not in done.stderr, said
        assert code is None or done.returncode == code, said
        assert done.returncode in (0, 2), said
        assert not hip.live.exists() or not hip.live.read_text(), said + hip.live.read_text()
        if "HIPSTAND_FAIL" not in variables:
            assert "hipstand: error" not in done.stderr, said
        return done

    return run


def count(done, call):
    """How often the program called an entry point, of a trace."""
    return len(re.findall(rf"^hipstand: call \d+: {call}$", done.stderr, re.MULTILINE))


def test_transfers_of_every_format(frames):
    """Up, across and down, at odd sizes, upside down."""
    done = frames("transfers", DEVICES=2, ORDER=4)
    n = int(re.fullmatch(r"(\d+) formats\n", done.stdout)[1])
    assert n > len(LAYOUTS)


def test_device_of_the_user(frames):
    """A device and a stream of the program's own; the thread's current device stays."""
    done = frames("device", DEVICES=2, ORDER=7)
    assert re.fullmatch(NAME.format(2), done.stdout.strip())
    assert 'there is no HIP device "2": give the index' in done.stderr and 'there is no HIP device "-1"' in done.stderr
    for name in ("pal8", "yuv420p10be", "cuda"):
        assert f"HIP frames cannot have the format {name}" in done.stderr
    assert "the frame in host memory is yuv420p, but the device's frames are nv12" in done.stderr
    assert len(re.findall(rf"a frame on {NAME.format(2)} cannot be copied to {NAME.format(1)}: copy it by hwdownload,hwupload", done.stderr)) == 1


def test_device_from_drm(frames):
    """By the PCI id that /sys has for the DRM device."""
    done = frames("derive", "../../../0000:02:00.0", "../0000:01:00.0", "../../0000:09:00.0", "../virtual", "", DEVICES=2)
    lines = done.stdout.splitlines()
    assert re.fullmatch(NAME.format(2), lines[0]) and re.fullmatch(NAME.format(1), lines[1])
    assert lines[2:] == ["No such device"] * 3
    assert 'there is no HIP device "0000:09:00.0"' in done.stderr
    assert "the DRM device is not that of a GPU with a PCI id (../virtual)" in done.stderr
    assert "the DRM device is not that of a GPU with a PCI id (not in /sys)" in done.stderr


@pytest.mark.parametrize("layout", ["nv12", "p010le", "yuv420p", "yuv444p10le", "gray"])
@pytest.mark.parametrize("kind", ["layers", "planes", "objects"])
def test_mapped_surfaces(frames, layout, kind):
    """Samples are the surface's; its memory is imported once, its descriptors are closed once, and not by us."""
    done = frames("map", layout, kind, HIPSTAND_TRACE=1)
    planes = {"nv12": 2, "p010le": 2, "gray": 1}.get(layout, 3)
    imports = 2 * (planes if kind == "objects" else 1)
    assert count(done, "hipImportExternalMemory") == count(done, "hipDestroyExternalMemory") == imports
    assert count(done, "hipExternalMemoryGetMappedBuffer") == imports


@pytest.mark.parametrize("modifier, text", [("0x0200000018601b04", ""), ("1", ""), ("0x00ffffffffffffff", " (not told)")])
def test_tiled_surfaces_are_refused(frames, modifier, text):
    done = frames("modifier", modifier)
    assert done.stdout == "Operation not supported\n"
    assert (
        f"a surface's layout is DRM modifier 0x{int(modifier, 0):x}{text}, and only linear ones (0x0) can be mapped: copy the frames "
        "instead, by hwdownload,format=nv12,hwupload in place of hwmap\n"
    ) in done.stderr


@pytest.mark.parametrize("case", ["pitch", "offset", "negative", "object", "planes", "objects", "closed", "nothing"])
def test_broken_surfaces_are_refused(frames, case):
    done = frames("broken", case)
    assert done.stdout == "Invalid argument\n"
    assert re.search(r"(plane \d of a surface of 64x48 \(nv12\), with pitch -?\d+ from byte -?\d+ on, is not within|a surface has \d )", done.stderr)
    assert "surfaces of format nv12 cannot be mapped as p010le" in done.stderr


def test_surfaces_of_another_gpu_are_refused(frames):
    done = frames("other")
    assert re.search(rf"the surfaces are on the GPU 0000:02:00\.0, but the HIP device is {NAME.format(1)}: derive it from theirs", done.stderr)


def test_imports_that_are_not_used_are_freed(frames):
    """64 are kept: of 90 surfaces in turn, the first ones have to be imported again."""
    done = frames("many", HIPSTAND_TRACE=1)
    assert count(done, "hipImportExternalMemory") == count(done, "hipDestroyExternalMemory") == 92
    begin = done.stderr.split("hipDestroyExternalMemory")[0]
    assert len(re.findall("hipImportExternalMemory$", begin, re.MULTILINE)) == 65


def test_frames_of_two_devices_are_refused(frames):
    """The ffmpeg program cannot hand its hwuploads two devices; another program can."""
    done = frames("filter", "devices", code=2, DEVICES=2)
    assert re.search(
        rf"distorted frames are on {NAME.format(1)}, reference frames on {NAME.format(2)}: make one device for both, e\.g\. "
        r"-init_hw_device hip=gpu, and name it by -filter_hw_device gpu for hwupload; decode both on that GPU where frames come by hwmap\n",
        done.stderr,
    )


@pytest.mark.parametrize("what", ["contexts", "surfaces", "hwmap"])
def test_frames_of_other_programs(frames, ffmpeg, what):
    """Two devices of libavutil's on one GPU are one; mapped surfaces are scored in place, and given back; hwmap maps them, too."""
    frames("filter", what, ORDER=3)
    inputs = [["-f", "rawvideo", "-pixel_format", "nv12", "-video_size", "48x36", "-i", name] for name in ("d.raw", "r.raw")]
    log = without_speed((ffmpeg.folder / "log.json").read_text())
    assert log == scores(ffmpeg.score(*inputs, "feature=psnr|motion"))


@pytest.mark.parametrize("code", [1, 2, 719])
def test_every_failing_call(frames, hip, code):
    """Of device, transfers and mapping: an error, no crash, and nothing left."""
    frames("all", HIPSTAND_COUNT=hip.folder / "count")
    calls = int((hip.folder / "count").read_text())
    assert calls > 40
    failed = 0
    for number in range(1, calls + 1, 3 if SANITIZED else 1):
        done = frames("all", code=None, HIPSTAND_FAIL=number, HIPSTAND_FAIL_CODE=code)
        failed += done.returncode == 2
        if code == 719:
            assert done.returncode == 2 or number > calls * 2 // 3, f"call {number}"
    assert failed > calls // 8
