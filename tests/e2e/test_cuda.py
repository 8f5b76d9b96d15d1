# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""
CUDA frames and the CUDA back end, on the software device: FFmpeg's own uploads and downloads around our filter, which
must give the CPU's log byte for byte, and refusals, failures and early ends, after which nothing may be left.
"""

import re
import signal
import subprocess
from pathlib import Path

import pytest

from clips import LAYOUTS, Clip, ffmpeg_name, planar, psnr, write_pair
from conftest import ROOT, SANITIZED, program, read_rows, scores, without_speed

ALL = "feature=psnr|float_ssim|motion"
WINDOW = r"feature=psnr|float_ssim|motion|name=motion\\:motion_five_frame_window=true"

REFERENCE = Clip.noise(600, 6)
DISTORTED = REFERENCE.distorted(601, strength=3)


@pytest.fixture
def clips(gpu):
    return DISTORTED.write(gpu.folder / "d.raw", "nv12"), REFERENCE.write(gpu.folder / "r.raw", "nv12")


@pytest.fixture
def on_cpu(ffmpeg, clips):
    """The log of the two clips as the CPU scores them: scores(on_cpu(options))."""
    return lambda options=ALL, **more: scores(ffmpeg.score(*clips, f"{options}:backend=cpu", **more))


# ---- Formats ----


def cuda_formats():
    """The formats of our table that CUDA frames have in this release of FFmpeg."""
    version = subprocess.run([program(), "-version"], capture_output=True, text=True, check=True).stdout.split()[2]
    formats = ["nv12", "p010", "p016", "yuv420p", "yuv444p", "yuv444p16"]
    if int(version.split(".")[0]) >= 8:
        formats += ["nv16", "p210", "p216", "yuv422p", "yuv420p10", "yuv422p10", "yuv444p10"]
    if int(version.split(".")[0]) >= 9:
        formats += ["p012", "p212"]
    return formats


FORMATS = cuda_formats()
PAIRS = [(name, name) for name in FORMATS] + [
    (a, b) for a in FORMATS for b in FORMATS if a != b and LAYOUTS[a][:2] == LAYOUTS[b][:2]
]


@pytest.mark.parametrize("layouts", PAIRS, ids="-".join)
def test_uploaded_formats(ffmpeg, gpu, layouts):
    """Any layout against any other of the same content, without a conversion."""
    distorted, reference, *inputs = write_pair(gpu.folder, layouts)
    result = gpu.upload(*inputs, ALL, log="verbose")
    assert "auto_scale" not in result.stderr
    names = [re.sub("[lb]e$", "", ffmpeg_name(name)) for name in layouts]
    assert f"distorted {names[0]} (CUDA) against reference {names[1]} (CUDA), 64x48, {distorted.depth} bits" in result.stderr
    assert scores(result) == scores(ffmpeg.score(*inputs, ALL + ":backend=cpu"))
    for row, expected in zip(result.rows, psnr(distorted, reference)):
        assert row.items() >= expected.items()


@pytest.mark.parametrize("layouts", [("p016", "p010"), ("p010", "p016"), ("p016", "p016")], ids="-".join)
def test_bit_depth_of_uploaded_frames(gpu, layouts):
    """Ten bits in the upper bits of sixteen against ten of ten."""
    distorted, reference, *inputs = write_pair(gpu.folder, layouts, depth=10)
    result = gpu.upload(*inputs, "feature=psnr:bit_depth=10")
    assert result.rows == psnr(distorted, reference)


@pytest.mark.parametrize("size", [(63, 47), (17, 90), (2, 1), (1, 1)], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("layout", ["nv12", "yuv420p", "p010", "yuv444p16"])
def test_odd_sizes(ffmpeg, gpu, layout, size):
    *_, d, r = write_pair(gpu.folder, (layout, layout), size)
    options = "feature=psnr" if min(size) < 11 else ALL
    expected = scores(ffmpeg.score(d, r, options + ":backend=cpu"))
    assert scores(gpu.upload(d, r, options)) == expected
    assert scores(gpu.score(d, r, options + ":backend=cuda")) == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_software_frames_on_the_device(ffmpeg, gpu, layout):
    """Everything that the filter reads, uploaded by the filter itself."""
    *_, d, r = write_pair(gpu.folder, (layout, layout), (62, 46))
    features = {8: ALL, 10: ALL, 12: ALL, 16: ALL}.get(LAYOUTS[layout][1], "feature=motion")
    result = gpu.score(d, r, features + ":backend=cuda", log="verbose")
    assert "auto_scale" not in result.stderr and "CUDA device: " in result.stderr
    assert scores(result) == scores(ffmpeg.score(d, r, features + ":backend=cpu"))


@pytest.mark.parametrize("layouts", [("nv12", "yuv420p"), ("yuvj420p", "nv21"), ("yuv422p", "nv16"), ("yuv444p10", "p410")], ids="-".join)
def test_mixed_software_layouts_on_the_device(ffmpeg, gpu, layouts):
    *_, d, r = write_pair(gpu.folder, layouts)
    assert scores(gpu.score(d, r, ALL + ":backend=cuda")) == scores(ffmpeg.score(d, r, ALL + ":backend=cpu"))


@pytest.mark.parametrize("layout", ["nv12", "yuv420p10", "yuv444p", "gray"])
def test_cropped_and_flipped_software_frames_on_the_device(ffmpeg, gpu, layout):
    """Negative pitches and addresses in the middle of a buffer."""
    *_, d, r = write_pair(gpu.folder, (layout, layout), (80, 60))
    graph = "[0:v]crop=46:38:14:6,vflip[d];[1:v]vflip,crop=46:38:14:16[r];[d][r]{filter}"
    expected = scores(ffmpeg.score(d, r, ALL + ":backend=cpu", graph=graph))
    assert scores(gpu.score(d, r, ALL + ":backend=cuda", graph=graph)) == expected


# ---- Ways in and out ----


def test_frames_pass_unchanged(gpu):
    """hwdownload behind the filter delivers what was uploaded, also under another reference."""
    distorted, _, d, r = write_pair(gpu.folder, ("nv12", "yuv420p"))
    for options in (ALL, ALL + ":metadata=1:in_flight=2", ALL + ":pair=framesync"):
        graph = f"{gpu.UPLOAD},hwdownload,format=nv12"
        gpu.upload(d, r, options, graph=graph, output=("-f", "rawvideo", "out.raw"))
        assert (gpu.folder / "out.raw").read_bytes() == (gpu.folder / "d.raw").read_bytes()


def test_hwupload_cuda(gpu, clips, on_cpu):
    """It makes a context of its own: one of them may serve both inputs."""
    join = "[0:v][1:v]interleave,hwupload_cuda,split[a][b];[a]select=not(mod(n\\,2))[d];[b]select=mod(n\\,2)[r];[d][r]{filter}"
    # equal time stamps: interleave takes the first input's frame first
    result = gpu.score(*clips, ALL + ":pair=index", graph=join)
    assert scores(result) == on_cpu()


def test_hwupload_cuda_twice_is_refused(gpu, clips):
    graph = "[0:v]hwupload_cuda[d];[1:v]hwupload_cuda[r];[d][r]{filter}"
    result = gpu.score(*clips, graph=graph, fails=True)
    name = r"(.* \(0000:01:00\.0\))"
    match = re.match(rf"distorted frames are on {name}, reference frames on {name}, in another context: make one device", result.errors[0])
    assert match and match[1] == match[2]
    assert len(result.errors) == 1 and not result.log.exists()


def test_two_devices_are_refused(gpu, clips):
    graph = "[0:v]hwupload_cuda=device=0[d];[1:v]hwupload_cuda=device=1[r];[d][r]{filter}"
    result = gpu.score(*clips, graph=graph, fails=True, device={"DEVICES": 2})
    assert re.match(
        r"distorted frames are on .* \(0000:01:00\.0\), reference frames on .* \(0000:02:00\.0\): make one device for both, "
        r"e\.g\. -init_hw_device cuda=gpu, and name it by -hwaccel_device gpu before each input",
        result.errors[0],
    )
    assert len(result.errors) == 1 and not result.log.exists()


@pytest.mark.parametrize("device", ["1", "0000:02:00.0", "02:00.0"])
def test_device(gpu, clips, on_cpu, device):
    """By index or by PCI id."""
    escaped = device.replace(":", r"\\:")
    result = gpu.score(*clips, f"{ALL}:backend=cuda:device={escaped}", log="verbose", device={"DEVICES": 3})
    assert re.search(r"CUDA device: .*0000:02:00\.0", result.stderr)
    assert scores(result) == on_cpu()


def test_device_of_ffmpeg(gpu, clips, on_cpu):
    """With software frames the filter takes the device that ffmpeg hands it."""
    made = ["-init_hw_device", "cuda=one:1", "-init_hw_device", "cuda=two:2", "-filter_hw_device", "one"]
    result = gpu.score([*made, *clips[0]], clips[1], f"{ALL}:backend=cuda", log="verbose", device={"DEVICES": 3})
    assert re.search(r"CUDA device: .*0000:02:00\.0", result.stderr)
    assert scores(result) == on_cpu()


def test_device_of_ffmpeg_is_left_alone(gpu, clips, on_cpu):
    """backend=auto scores software frames on the CPU, whatever devices there are."""
    result = gpu.upload(*clips, ALL, graph="[0:v][1:v]{filter}", log="verbose")
    assert "CUDA device: " not in result.stderr
    assert scores(result) == on_cpu()


def test_hardware_frames_on_the_cpu(gpu, clips, on_cpu):
    """backend=cpu downloads them itself."""
    assert scores(gpu.upload(*clips, WINDOW + ":backend=cpu")) == on_cpu(WINDOW)


def test_several_filters(gpu, clips, on_cpu):
    """One after the other and side by side, on one device."""
    graph = (
        "[0:v]split[d0][d1];[1:v]split[r0][r1];[d0]hwupload[d2];[r0]hwupload,split[r2][r3];"
        f"[d2][r2]vmaf_gpu={WINDOW}:history=copy:log_path=a.json:log_fmt=json:log_precision=17[d3];"
        f"[d3][r3]vmaf_gpu={ALL}:metadata=1:log_path=b.json:log_fmt=json:log_precision=17[o0];"
        "[d1][r1]{filter}[o1]"
    )
    output = ("-map", "[o0]", "-f", "null", "-", "-map", "[o1]", "-f", "null", "-")
    result = gpu.upload(*clips, f"{ALL}:backend=cuda", graph=graph, output=output, device={"ORDER": 9})
    assert scores(result) == on_cpu()
    for name, options in (("a", WINDOW), ("b", ALL)):
        assert without_speed((gpu.folder / f"{name}.json").read_text()) == on_cpu(options)


def test_graph_that_is_made_anew(gpu):
    """The program drops the filter with frames under way and makes another one."""
    for number, size in enumerate(("64x48", "96x64")):
        gpu(
            *("-f", "lavfi", "-i", f"testsrc2=s={size}:d=0.4:r=25", "-c:v", "libx264", "-qp", "0", "-bf", "0"),
            *("-pix_fmt", "yuv420p", "-f", "h264", f"{number}.h264"),
        )
    (gpu.folder / "d.h264").write_bytes(b"".join((gpu.folder / f"{number}.h264").read_bytes() for number in (0, 1)))
    # downloaded, because ffmpeg scales what comes from the second graph to the size of the first
    graph = "[0:v]split[a][b];[a]hwupload[d];[b]hwupload[r];[d][r]{filter},hwdownload,format=yuv420p"
    result = gpu.upload(["-framerate", "25", "-i", "d.h264"], [], ALL + ":in_flight=8", graph=graph, device={"ORDER": 5})
    second = read_rows(gpu.folder / "scores.json.2")
    assert result.rows and second  # frames on their way between the graphs are lost to the program
    assert all(row["psnr_y"] == 60 for row in result.rows + second)


# ---- Metrics and options ----

FEATURES = [
    r"psnr\\:enable_chroma=false|float_ssim\\:enable_lcs=true|motion\\:motion_force_zero=true|motion\\:motion_five_frame_window=true",
    r"psnr\\:enable_mse=true\\:enable_apsnr=true|float_ssim\\:enable_db=true\\:clip_db=true|motion\\:motion_moving_average=true\\:debug=true",
    r"psnr\\:reduced_hbd_peak=true\\:min_sse=0.5|float_ssim\\:scale=2|motion\\:motion_blend_factor=0.5\\:motion_blend_offset=5",
    r"psnr|float_ssim\\:scale=3\\:enable_lcs=true|motion\\:motion_fps_weight=2\\:motion_max_val=18",
]

# cambi and SpEED want larger pictures; tests/e2e/test_cambi.py has banded ones.
LARGE_FEATURES = [
    r"cambi\\:full_ref=true\\:enc_width=300\\:enc_height=220\\:enc_bitdepth=8\\:src_width=320\\:src_height=240\\:window_size=127",
    r"cambi\\:topk=0.5\\:cambi_max_val=5\\:max_log_contrast=3\\:cambi_eotf=pq\\:heatmaps_path=maps",
    r"cambi\\:cambi_topk=0.3\\:tvi_threshold=0.03\\:cambi_vis_lum_threshold=0.1\\:eotf=pq\\:cambi_high_res_speedup=1080",
    r"speed_chroma\\:speed_kernelscale=0.5\\:speed_prescale=1.5\\:speed_prescale_method=lanczos4\\:speed_sigma_nn=0.19\\:speed_nn_floor=0.1\\:speed_max_val=45\\:speed_weight_var_mode=5",
    r"speed_temporal\\:speed_prescale=0.9\\:speed_prescale_method=bicubic\\:speed_use_ref_diff=true",
]


def test_every_option_of_the_metrics_is_tried():
    reference = (ROOT / "docs/options.md").read_text().split("## Features")[1]
    options = re.findall(r"^\| `(\w+)` \|", reference, re.MULTILINE)
    assert len(options) >= 17
    assert not [name for name in options if f"{name}=" not in "".join(FEATURES + LARGE_FEATURES)]


@pytest.mark.parametrize("layout", ["nv12", "p010"])
@pytest.mark.parametrize("feature", FEATURES + LARGE_FEATURES)
def test_options_of_metrics(ffmpeg, gpu, feature, layout):
    size, n = ((320, 240), 2) if feature in LARGE_FEATURES else ((72, 66), 5)
    *_, d, r = write_pair(gpu.folder, (layout, layout), size, n=n)
    expected = scores(ffmpeg.score(d, r, f"feature={feature}:backend=cpu"))
    assert scores(gpu.upload(d, r, f"feature={feature}:parity=strict")) == expected


SETTINGS = [
    *("history=ref", "history=copy", "in_flight=1", "in_flight=16", "in_flight=1:history=copy", "in_flight=16:history=copy"),
    *("n_subsample=2", "n_subsample=4:history=copy", "metadata=1", "metadata=1:in_flight=1:history=copy", "n_threads=1"),
    *("pair=index", "pair=framesync", "pair=framesync:metadata=1", "strict=1:parity=strict", "backend=cuda"),
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings(gpu, clips, on_cpu, setting):
    """What does not change a score, with frames that ffmpeg or the filter uploads."""
    plain = re.sub("(:?)(history=copy|history=ref|parity=strict|backend=cuda)", "", setting).strip(":")
    expected = on_cpu(":".join(filter(None, (WINDOW, plain))))
    assert scores(gpu.upload(*clips, f"{WINDOW}:{setting}")) == expected
    assert scores(gpu.score(*clips, f"{WINDOW}:{setting}:backend=cuda")) == expected


def test_metadata(ffmpeg, gpu, clips):
    """Scores on hardware frames, which keep their order."""
    print_all = "metadata=print:file=meta.txt"
    gpu.upload(*clips, WINDOW + ":metadata=1:log_precision=17", graph=f"{gpu.UPLOAD},{print_all}")
    on_device = (gpu.folder / "meta.txt").read_text()
    ffmpeg.score(*clips, WINDOW + ":metadata=1:log_precision=17:backend=cpu", graph=f"[0:v][1:v]{{filter}},{print_all}")
    assert on_device == (gpu.folder / "meta.txt").read_text()
    assert on_device.count("lavfi.vmaf_gpu.integer_motion3=") == len(REFERENCE)


@pytest.mark.parametrize("options", [ALL, ALL + ":strict=0:pair=index"])
def test_frames_without_a_partner(gpu, clips, on_cpu, options):
    graph = r"[0:v]hwupload[d];[1:v]select=not(between(n\,2\,3)),hwupload[r];[d][r]{filter}"
    result = gpu.upload(*clips, options, graph=graph)
    assert "had no partner and were not scored" in result.warnings[0]
    assert scores(result) == on_cpu(options, graph=graph.replace(",hwupload", "").replace("hwupload", "null"))


# ---- Order of work, waves ----


def test_random_orders(gpu, clips, on_cpu):
    """However streams progress, and whatever a wave is: one result."""
    expected = on_cpu(WINDOW)
    settings = [{"ORDER": order} for order in range(1, 22, 3 if SANITIZED else 1)] + [{"WAVE": 16}, {"WAVE": 64, "ORDER": 7}]
    for number, device in enumerate(settings):
        options = f"{WINDOW}:in_flight={1 + number % 4}:history={('ref', 'copy')[number % 2]}"
        assert scores(gpu.upload(*clips, options, device=device)) == expected, device
    for order in (1, 2, 3, 4):
        assert scores(gpu.score(*clips, f"{WINDOW}:backend=cuda:parity=strict", device={"ORDER": order})) == expected


# ---- Parity ----


@pytest.mark.parametrize("parity", ["check", "strict"])
@pytest.mark.parametrize("every", [1, 4])
def test_parity(gpu, clips, on_cpu, parity, every):
    options = f"{WINDOW}:parity={parity}:parity_every={every}"
    frames = (len(REFERENCE) + every - 1) // every
    for run in (gpu.upload(*clips, options, log="info"), gpu.score(*clips, options + ":backend=cuda", log="info")):
        assert f"parity: {3 * frames} records of {frames} frames compared, all equal" in run.stderr
        assert scores(run) == on_cpu(WINDOW)


def test_parity_sees_a_difference(gpu, clips, on_cpu):
    """One bit of one record differs: check reports it and ends well; strict ends with an error, and both write the log."""
    for parity in ("check", "strict"):
        result = gpu.score(
            *clips, f"feature=psnr|motion:backend=cuda:parity={parity}", device={"FLIP": "3:0"}, fails=parity == "strict", log="info"
        )
        match = re.search(r"parity: frame 2, psnr, (\S+): the device has (\d+), the CPU (\d+)", result.stderr)
        assert int(match[2]) ^ int(match[3]) == 1
        assert "parity: 12 records of 6 frames compared, 1 differ, first in frame 2" in result.stderr
        assert len(result.rows) == len(REFERENCE)
        assert scores(result) != on_cpu("feature=psnr|motion")
        assert result.stderr.count("the device has") == 1
        assert " psnr_y " in result.stderr  # the summary


def test_no_difference_goes_unseen(gpu, clips):
    """Of all records: also the last one's, and in the frame after which nothing comes."""
    result = gpu.score(*clips, "feature=motion:backend=cuda:parity=strict", device={"FLIP": "6:0"}, fails=True)
    assert any(re.match(r"parity: frame 5, motion, \S+: the device has \d+, the CPU \d+", text) for text in result.errors)


def test_parity_of_nothing(gpu, clips):
    """Without frames nothing is proven."""
    distorted, reference = clips
    options = "feature=psnr:backend=cuda:parity=strict"
    result = gpu.score(distorted, reference, options, graph="[0:v]trim=end_frame=0[d];[d][1:v]{filter}", fails=True)
    assert "parity=strict: no frames were scored, nothing was compared" in result.errors


# ---- Fallback ----


def test_no_driver(gpu, clips, on_cpu):
    """Without a driver backend=auto is the CPU, backend=cuda an error, and with fallback=cpu a warning."""
    gpu.library = str(gpu.folder / "lib")  # before a driver that this machine may have
    Path(gpu.library).mkdir()
    Path(gpu.library, "libcuda.so.1").touch()
    assert scores(gpu.score(*clips, ALL)) == on_cpu()

    result = gpu.score(*clips, ALL + ":backend=cuda", fails=True)
    assert len(result.errors) == 1
    assert re.match(r"NVIDIA's driver cannot be opened \(.*libcuda\.so\.1: .*\): install it, or score on the CPU", result.errors[0])
    assert not result.log.exists()

    result = gpu.score(*clips, ALL + ":backend=cuda:fallback=cpu")
    assert len(result.warnings) == 1 and not result.errors
    assert result.warnings[0].startswith("scoring on the CPU: NVIDIA's driver cannot be opened")
    assert scores(result) == on_cpu()

    result = gpu.score(*clips, ALL + ":backend=cuda:fallback=cpu:parity=strict", fails=True)
    assert "parity=strict: no device has scored, nothing was compared" in result.errors
    assert scores(result) == on_cpu()


MISSING = [
    ({"DEVICES": 0}, "", "no CUDA"),
    ({}, ":device=1", 'there is no CUDA device "1": give the index or the PCI id of one of '),
    ({}, r":device=0000\\:09\\:00.0", 'there is no CUDA device "0000:09:00.0"'),
    ({}, ":device=gpu", 'there is no CUDA device "gpu"'),
    ({"MEMORY": 10000}, "", "CUDA_ERROR_OUT_OF_MEMORY"),
    ({"MEMORY": 200000}, ":in_flight=16", "CUDA_ERROR_OUT_OF_MEMORY"),
    ({"IMAGES": "none"}, "", "209"),
    ({"FAIL": "cuInit:1", "FAIL_CODE": 999}, "", "999"),
]


@pytest.mark.parametrize("device, option, message", MISSING, ids=[message for *_, message in MISSING])
def test_device_that_cannot(gpu, clips, on_cpu, device, option, message):
    """One clear error; with fallback=cpu the same words in one warning, and all scores."""
    result = gpu.score(*clips, f"{ALL}:backend=cuda{option}", device=device, fails=True)
    assert len(result.errors) == 1 and message in result.errors[0]
    assert not result.log.exists()

    result = gpu.score(*clips, f"{ALL}:backend=cuda{option}:fallback=cpu", device=device)
    assert not result.errors and len(result.warnings) == 1
    assert result.warnings[0].startswith("scoring on the CPU: ") and message in result.warnings[0]
    assert scores(result) == on_cpu()


def test_hardware_frames_fall_back(gpu, clips, on_cpu):
    """CUDA frames on a device that takes no kernels of ours: downloaded, and scored on the CPU."""
    result = gpu.upload(*clips, WINDOW, device={"IMAGES": "none"}, fails=True)
    assert len(result.errors) == 1 and "CUDA_ERROR_NO_BINARY_FOR_GPU" in result.errors[0]
    result = gpu.upload(*clips, WINDOW + ":fallback=cpu", device={"IMAGES": "none"})
    assert len(result.warnings) == 1 and result.warnings[0].startswith("scoring on the CPU: ")
    assert scores(result) == on_cpu(WINDOW)


def test_full_device(gpu, clips):
    """No memory for records and work."""
    for options in (ALL, ALL + ":history=copy"):
        result = gpu.upload(*clips, options, device={"MEMORY": 8192}, fails=True)
        assert len(result.errors) == 1 and "CUDA_ERROR_OUT_OF_MEMORY" in result.errors[0]
        assert not result.log.exists()


# ---- Refusals ----


@pytest.mark.parametrize("hard", [0, 1])
def test_mixed_hardware_and_software_frames(gpu, clips, on_cpu, hard):
    """Refused, and both remedies work."""
    side = ("d", "r")[hard]
    graph = f"[{hard}:v]hwupload[{side}];" + ("[0:v][r]" if hard else "[d][1:v]") + "{filter}"
    result = gpu.upload(*clips, graph=graph, fails=True)
    names = ["nv12 (CUDA)" if number == hard else "nv12" for number in (0, 1)]
    sides = ("distorted", "reference")
    other = ("d", "r")[1 - hard]
    link = "[d][1:v]" if hard else "[0:v][r]"
    assert result.errors == [
        f"distorted is {names[0]}, reference is {names[1]}: insert hwupload on the {sides[1 - hard]} input, e.g. -lavfi "
        f"'[{1 - hard}:v]hwupload[{other}];{link}vmaf_gpu', or hwdownload,format=nv12 on the {sides[hard]} input"
    ]
    assert not result.log.exists()
    graph = f"[0:v]{'hwupload,hwdownload,format=nv12' if not hard else 'null'}[d];[1:v]{'hwupload,hwdownload,format=nv12' if hard else 'null'}[r];[d][r]{{filter}}"
    assert scores(gpu.upload(*clips, ALL, graph=graph)) == on_cpu()


def test_mixed_frames_in_a_format_that_the_device_does_not_take(gpu):
    *_, d, _ = write_pair(gpu.folder, ("nv12", "nv12"))
    reference = Clip.noise(604, 3, chroma="422").write(gpu.folder / "r.raw", "yuv422p")
    graph = "[0:v]hwupload[d];[d][1:v]{filter}"
    if "yuv422p" in FORMATS:
        reference = Clip.noise(604, 3, chroma="400").write(gpu.folder / "r.raw", "gray")
    result = gpu.upload(d, reference, graph=graph, fails=True)
    assert "insert hwdownload,format=nv12 on the distorted input, e.g. -lavfi '[0:v]hwdownload,format=nv12[d];[d][1:v]vmaf_gpu'" in result.errors[0]


CONTENTS = [
    (
        ("64x48", "nv12", "64x48", "p010"),
        "distorted is 64x48 nv12 (CUDA), reference is 64x48 p010 (CUDA): insert scale_cuda=format=p010 on the distorted input, e.g. "
        "-lavfi '[0:v]scale_cuda=format=p010[d];[d][1:v]vmaf_gpu'",
    ),
    (
        ("64x48", "nv12", "96x64", "yuv420p"),
        "distorted is 64x48 nv12 (CUDA), reference is 96x64 yuv420p (CUDA): insert scale_cuda=96:64 on the distorted input",
    ),
    (
        ("32x24", "p016", "64x48", "nv12"),
        "insert scale_cuda=64:48 on the distorted input and scale_cuda=format=p016 on the reference input, e.g. "
        "-lavfi '[0:v]scale_cuda=64:48[d];[1:v]scale_cuda=format=p016[r];[d][r]vmaf_gpu'",
    ),
    (
        ("32x24", "yuv444p", "64x48", "nv12"),
        "insert scale_cuda=64:48:format=yuv420p on the distorted input",
    ),
    (
        ("64x48", "p010", "64x48", "yuv444p"),
        "insert scale_cuda=format=yuv444p16 on the distorted input and scale_cuda=format=yuv444p16 on the reference input",
    ),
]


@pytest.mark.parametrize("inputs, message", CONTENTS, ids=["-".join(inputs) for inputs, _ in CONTENTS])
def test_contents_that_differ(gpu, inputs, message):
    if "yuv444p10" in FORMATS:
        message = message.replace("yuv444p16", "yuv444p10")
    size_d, format_d, size_r, format_r = inputs
    graph = (
        f"testsrc2=s={size_d}:d=0.2,format={format_d},hwupload[d];testsrc2=s={size_r}:d=0.2,format={format_r},hwupload[r];"
        "[d][r]vmaf_gpu=log_path=log.xml"
    )
    result = gpu(*gpu.MAKE, "-filter_complex", graph, "-f", "null", "-", fails=True)
    assert len(result.errors) == 1 and message in result.errors[0]
    assert not (gpu.folder / "log.xml").exists()


def test_formats_that_are_not_scored(gpu):
    """RGB on the device, where nothing converts it on the way."""
    graph = "testsrc2=s=64x48:d=0.2,format=bgra,hwupload,split[d][r];[d][r]vmaf_gpu"
    result = gpu(*gpu.MAKE, "-filter_complex", graph, "-f", "null", "-", fails=True)
    assert "the distorted input has cuda frames of format bgra, which is not scored: insert hwdownload,format=bgra" in result.errors
    graph = graph.replace("[d][r]vmaf_gpu", "[d]hwdownload,format=bgra[e];[r]hwdownload,format=bgra[s];[e][s]vmaf_gpu=feature=psnr")
    result = gpu(*gpu.MAKE, "-filter_complex", graph, "-f", "null", "-", log="info")
    assert " psnr_y " in result.stderr


@pytest.mark.parametrize("name", ["cuda", "vaapi"])
def test_frames_of_no_device(gpu, name):
    graph = f"nullsrc=s=64x48:d=1,format={name}[d];nullsrc=s=64x48:d=1,format={name}[r];[d][r]vmaf_gpu"
    result = gpu.graph(graph, fails=True)
    assert result.errors == [
        "the distorted input has cuda frames that belong to no device: insert hwupload before"
        if name == "cuda"
        else "the distorted input has hardware frames (vaapi), which this build does not score: insert hwdownload and the "
        "format that it delivers, e.g. hwdownload,format=nv12"
    ]


OPTIONS = [
    (True, "device=0", "device=0 has no meaning with CUDA frames, which are on a device already: leave it out"),
    (True, "backend=cpu:device=0", "device=0 has no meaning with CUDA frames, which are on a device already: leave it out"),
    (True, "backend=hip", "pictures in CUDA memory cannot be scored by backend=hip: use cuda, cpu or auto"),
    (True, "backend=cpu:parity=check", "parity=check compares a device's work with the CPU's, but with backend=cpu the CPU scores"),
    (False, "parity=strict", "but with backend=auto the CPU scores these inputs: leave parity out, or use backend=cuda"),
    (False, "device=0", "device=0 has no meaning where the CPU scores: leave it out, or use backend=cuda"),
    (
        False,
        "device=0:backend=cuda",
        "device=0 has no meaning where ffmpeg hands the filter a device (-filter_hw_device or the last one that it made): leave it out",
    ),
    (True, "bit_depth=10", "bit_depth=10: the distorted input has 8 bits (nv12 (CUDA)); leave bit_depth out"),
    (True, "feature=float_ssim|motion:bit_depth=9", "9"),
]


@pytest.mark.parametrize("uploaded, options, message", OPTIONS, ids=[f"{'cuda' if up else 'host'}-{options}" for up, options, _ in OPTIONS])
def test_options_that_do_not_fit(gpu, uploaded, options, message):
    clip = Clip.noise(605, 1, depth=10 if "=9" in options else 8).write(gpu.folder / "a.raw", "p010" if "=9" in options else "nv12")
    graph = gpu.UPLOAD if uploaded else "[0:v][1:v]{filter}"
    result = gpu.upload(clip, clip, options, graph=graph, fails=True)
    assert len(result.errors) == 1 and message in result.errors[0], result.errors


# ---- Frames that change in mid-stream ----

CHANGES = [
    (
        ("hwupload_cuda", "hwupload_cuda"),
        "a distorted frame is in another CUDA context than those before it: make one device for all decoders, e.g. "
        "-init_hw_device cuda=gpu and -hwaccel_device gpu",
    ),
    (
        ("hwupload", "format=yuv420p,hwupload"),
        "a distorted frame is 64x48 yuv420p (CUDA), but 64x48 nv12 (CUDA) was agreed on: insert scale_cuda before the filter",
    ),
]


@pytest.mark.parametrize("uploads, message", CHANGES, ids=["context", "format"])
def test_frames_that_change(gpu, uploads, message):
    """Two uploads, one after the other: refused where the second begins; what was scored is logged."""
    # setpts has frames of its own side's pool; concat would hand its first input's to both
    graph = (
        f"[0:v]trim=end_frame=3,{uploads[0]},setpts=PTS[a];[0:v]trim=start_frame=3,setpts=PTS-STARTPTS,{uploads[1]},setpts=PTS[b];"
        "[a][b]concat,split[d][r];[d][r]{filter}"
    )
    result = gpu.upload(REFERENCE.write(gpu.folder / "d.raw", "nv12"), [], graph=graph, fails=True)
    assert result.errors == [message]
    assert len(result.rows) == 3


# ---- Failures of the driver ----

WAYS = {"hwupload": "", "software": ":backend=cuda", "parity": ":parity=strict", "metadata": ":metadata=1:history=copy"}
LOST = (700, 719)


def check_left(result, code):
    """What a failing call may leave: nothing of ours, as long as the device lives."""
    if code in LOST:
        # Nobody can make a lost device's context current to release what is in it; it went with the context.
        assert re.fullmatch(r"(device_memory \d+\n)?(pinned_memory \d+\n)?", result.left)
    elif result.left:
        # FFmpeg's pool does not free a buffer if it cannot make its context current.
        assert result.left == "device_memory 1\n"
        assert re.search(r"\[(?:AVHWDeviceContext|CUDA) @ \S+\] \[error\] cu->cuCtxPushCurrent\(hwctx->cuda_ctx\) failed", result.stderr)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("code", (2, *LOST))
def test_failing_calls(gpu, code, way):
    """Whatever call fails: at most one error of ours, a clean end, and the whole log of what was scored or none."""
    clip = REFERENCE.crop(0, 0, 16, 16).pick(range(3)).write(gpu.folder / "a.raw", "nv12")
    score = gpu.score if way == "software" else gpu.upload
    score(clip, clip, ALL + WAYS[way], device={"COUNT": gpu.folder / ".count"})
    calls = int((gpu.folder / ".count").read_text())
    assert calls > 100

    samples = 5 if SANITIZED else 10
    first = list(WAYS).index(way) * 3 + (2, *LOST).index(code)
    failed = 0
    for i in range(samples):
        number = 1 + (i * 12 + first) * calls // (samples * 12)
        result = score(clip, clip, ALL + WAYS[way], device={"FAIL": number, "FAIL_CODE": code}, fails=None)
        failed += result.code != 0
        assert len(result.errors) <= 1, f"call {number}: {result.stderr}"
        assert len(result.rows) == 3 or result.code, f"call {number}"
        assert not list(gpu.folder.glob("*.part"))
        check_left(result, code)
    assert failed


# ---- Early ends ----


@pytest.mark.parametrize("limit", [("-frames:v", "3"), ("-t", "0.12")])
@pytest.mark.parametrize("options", ["", ":metadata=1", ":pair=framesync", ":history=copy:in_flight=16"])
def test_output_that_closes_early(gpu, limit, options):
    reference = Clip.noise(606, 60, 32, 32)
    d = reference.distorted(607).write(gpu.folder / "d.raw")
    r = reference.write(gpu.folder / "r.raw")
    result = gpu.upload(d, r, "feature=psnr|motion" + options, output=(*limit, "-f", "null", "-"))
    assert 3 <= len(result.rows) <= 60


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("order", [0, 5])
def test_interrupted_run(gpu, ending, order):
    process = gpu.start(
        *(*gpu.MAKE, "-filter_complex"),
        "testsrc2=s=64x48,format=nv12,split[a][b];[a]hwupload[d];[b]hwupload[r];"
        "[d][r]vmaf_gpu=feature=psnr|motion:in_flight=4:log_path=log.json:log_fmt=json,hwdownload,format=nv12",
        *("-flush_packets", "1", "-f", "framecrc", "-"),
        device={"ORDER": order},
    )
    for _ in range(40):
        assert process.stdout.readline()
    process.send_signal(ending)
    result = gpu.finish(process, fails=True)
    assert result.code == 255
    assert (gpu.folder / "log.json").exists()
