# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""
What is the same for every kind of device, CUDA on the software device and HIP on the HIP stand-in over it: FFmpeg's uploads and
downloads around our filter, and the filter's own, which must give the CPU's log byte for byte; refusals, failures and early ends,
after which nothing may be left. What only one kind has is in test_cuda.py and test_hip.py.

The software device runs the same kernels for both, so where cases differ by kernels alone HIP has fewer.
"""

import re
import signal
import subprocess

import pytest

from clips import LAYOUTS, Clip, ffmpeg_name, psnr, write_pair
from conftest import ALL, REFERENCE, ROOT, SANITIZED, Gpu, Hip, program, read_rows, scores, without_speed

WINDOW = r"feature=psnr|float_ssim|motion|name=motion\\:motion_five_frame_window=true"


def cases(names, table):
    """Parametrizes a test by what each kind of device has: kind -> list of values of the arguments in `names`."""
    one = "," not in names
    values = [(kind, *((value,) if one else value)) for kind, values in table.items() for value in values]

    def text(value):
        if isinstance(value, tuple):
            return ("x" if isinstance(value[0], int) else "-").join(map(str, value))
        if isinstance(value, dict):
            return "-".join(f"{key}={setting}" for key, setting in value.items())
        return str(value)

    return pytest.mark.parametrize(f"device, {names}", values, indirect=["device"], ids=text)


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


CUDA_FORMATS = cuda_formats()
MIXED = [
    *[("nv12", "yuv420p"), ("yuvj420p", "nv21"), ("p010", "yuv420p10"), ("yuv420p12", "p012"), ("nv16", "yuv422p")],
    *[("yuv422p10", "nv20"), ("p212", "yuv422p12"), ("nv24", "nv42"), ("p410", "yuv444p10"), ("p016", "yuv420p16")],
]
UPLOADED = {
    "cuda": [(a, b) for a in CUDA_FORMATS for b in CUDA_FORMATS if LAYOUTS[a][:2] == LAYOUTS[b][:2]],
    "hip": [*((layout, layout) for layout in LAYOUTS), *MIXED],
}


def features_of(layout):
    """What scores pictures of this depth."""
    return ALL if LAYOUTS[layout][1] in (8, 10, 12, 16) else "feature=motion"


@cases("layouts", UPLOADED)
def test_uploaded_formats(ffmpeg, device, layouts):
    """Any layout against any other of the same content, without a conversion."""
    distorted, reference, *inputs = write_pair(device.folder, layouts, (62, 46))
    options = features_of(layouts[0])
    result = device.upload(*inputs, options, log="verbose")
    assert "auto_scale" not in result.stderr
    names = [f"{re.sub('[lb]e$', '', ffmpeg_name(name))} ({device.name})" for name in layouts]
    assert f"distorted {names[0]} against reference {names[1]}, 62x46, {distorted.depth} bits" in result.stderr
    assert scores(result) == scores(ffmpeg.score(*inputs, options + ":backend=cpu"))
    if options == ALL:
        for row, expected in zip(result.rows, psnr(distorted, reference)):
            assert row.items() >= expected.items()


@pytest.mark.parametrize("layouts", [("p016", "p010"), ("p010", "p016"), ("p016", "p016")], ids="-".join)
def test_bit_depth_of_uploaded_frames(device, layouts):
    """Ten bits in the upper bits of sixteen against ten of ten."""
    distorted, reference, *inputs = write_pair(device.folder, layouts, depth=10)
    result = device.upload(*inputs, "feature=psnr:bit_depth=10")
    assert result.rows == psnr(distorted, reference)


SIZES = [(63, 47), (17, 90), (2, 1), (1, 1)]
SIZED = {
    kind: [(layout, size) for layout in layouts for size in SIZES]
    for kind, layouts in {
        "cuda": ["nv12", "yuv420p", "p010", "yuv444p16"],
        "hip": ["nv12", "yuv420p", "p010", "yuv422p10", "gray12"],
    }.items()
}


@cases("layout, size", SIZED)
def test_odd_sizes(ffmpeg, device, layout, size):
    *_, d, r = write_pair(device.folder, (layout, layout), size)
    options = "feature=psnr" if min(size) < 11 else ALL
    expected = scores(ffmpeg.score(d, r, options + ":backend=cpu"))
    assert scores(device.upload(d, r, options)) == expected
    assert scores(device.score(d, r, f"{options}:backend={device.option}")) == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_software_frames_on_the_device(ffmpeg, device, layout):
    """Everything that the filter reads, uploaded by the filter itself."""
    *_, d, r = write_pair(device.folder, (layout, layout), (62, 46))
    options = features_of(layout)
    result = device.score(d, r, f"{options}:backend={device.option}", log="verbose")
    assert "auto_scale" not in result.stderr and f"{device.name} device: " in result.stderr
    assert scores(result) == scores(ffmpeg.score(d, r, options + ":backend=cpu"))


@pytest.mark.parametrize("layouts", [*MIXED, ("yuv422p", "nv16"), ("yuv444p10", "p410")], ids="-".join)
def test_mixed_software_layouts_on_the_device(ffmpeg, device, layouts):
    *_, d, r = write_pair(device.folder, layouts)
    assert scores(device.score(d, r, f"{ALL}:backend={device.option}")) == scores(ffmpeg.score(d, r, ALL + ":backend=cpu"))


@pytest.mark.parametrize("layout", ["nv12", "yuv420p10", "yuv444p", "gray"])
def test_cropped_and_flipped_software_frames_on_the_device(ffmpeg, device, layout):
    """Negative pitches and addresses in the middle of a buffer."""
    *_, d, r = write_pair(device.folder, (layout, layout), (80, 60))
    graph = "[0:v]crop=46:38:14:6,vflip[d];[1:v]vflip,crop=46:38:14:16[r];[d][r]{filter}"
    expected = scores(ffmpeg.score(d, r, ALL + ":backend=cpu", graph=graph))
    assert scores(device.score(d, r, f"{ALL}:backend={device.option}", graph=graph)) == expected


MOVED = [
    ("hwupload,crop=32:24:8:8", "is to be cropped, which is not done there: put crop before the upload, or insert hwdownload,format=nv12,crop,hwupload"),
    ("hwupload,fps=25,vflip", "lies upside down, its chroma anywhere: put vflip before the upload, or insert hwdownload,format=nv12,vflip,hwupload"),
]


@pytest.mark.parametrize("side", ["distorted", "reference"])
@pytest.mark.parametrize("filters, words", MOVED, ids=["crop", "vflip"])
def test_moved_hardware_frames_are_refused(device, clips, filters, words, side):
    """Filters that take hardware frames as they take others, but move no samples. One message, and none about pairs."""
    both = (filters, "hwupload") if side == "distorted" else ("hwupload", filters)
    result = device.upload(*clips, graph=f"[0:v]{both[0]}[d];[1:v]{both[1]}[r];[d][r]{{filter}}", fails=True)
    assert result.errors == [f"a {side} frame in the memory of a {device.name} device {words} in its place"]
    assert not result.warnings and not result.log.exists()


# ---- Ways in and out ----

# Uploads and downloads of HIP frames are our own.
PASSED = {
    "cuda": [("nv12", "yuv420p", (64, 48))],
    "hip": [
        ("nv12", "yuv420p", (64, 48)),
        *((layout, layout, size) for layout in ("yuv420p", "p010", "yuv444p16", "gray10") for size in ((64, 48), (37, 23))),
        ("nv12", "nv12", (37, 23)),
    ],
}


@cases("layout, other, size", PASSED)
def test_frames_pass_unchanged(device, layout, other, size):
    """hwdownload behind the filter delivers what was uploaded, also under another reference."""
    *_, d, r = write_pair(device.folder, (layout, other), size)
    for options in (ALL, ALL + ":metadata=1:in_flight=2", ALL + ":pair=framesync"):
        graph = f"{device.UPLOAD},hwdownload,format={layout}"
        device.upload(d, r, options, graph=graph, output=("-f", "rawvideo", "-pix_fmt", ffmpeg_name(layout), "out.raw"))
        assert (device.folder / "out.raw").read_bytes() == (device.folder / "d.raw").read_bytes()


@pytest.mark.parametrize("number", ["1", "0000:02:00.0", "02:00.0"])
def test_device(device, clips, on_cpu, number):
    """By index or by PCI id."""
    escaped = number.replace(":", r"\\:")
    result = device.score(*clips, f"{ALL}:backend={device.option}:device={escaped}", log="verbose", device={"DEVICES": 3})
    assert re.search(rf"{device.name} device: .*0000:02:00\.0", result.stderr)
    assert scores(result) == on_cpu()


def test_device_of_ffmpeg(device, clips, on_cpu):
    """With software frames the filter takes the device that ffmpeg hands it."""
    kind = device.option
    made = ["-init_hw_device", f"{kind}=one:1", "-init_hw_device", f"{kind}=two:2", "-filter_hw_device", "one"]
    result = device.score([*made, *clips[0]], clips[1], f"{ALL}:backend={kind}", log="verbose", device={"DEVICES": 3})
    assert re.search(rf"{device.name} device: .*0000:02:00\.0", result.stderr)
    assert scores(result) == on_cpu()


def test_device_of_frames(device, clips, on_cpu):
    """Frames are scored where they are, not on the first device."""
    make = ["-init_hw_device", f"{device.option}=gpu:1", "-filter_hw_device", "gpu"]
    result = device.score([*make, *clips[0]], clips[1], ALL, graph=device.UPLOAD, log="verbose", device={"DEVICES": 2})
    assert re.search(rf"{device.name} device: .*0000:02:00\.0", result.stderr)
    assert scores(result) == on_cpu()


def test_device_of_ffmpeg_is_left_alone(device, clips, on_cpu):
    """backend=auto scores software frames on the CPU, whatever devices there are."""
    result = device.upload(*clips, ALL, graph="[0:v][1:v]{filter}", log="verbose")
    assert " device: " not in result.stderr
    assert scores(result) == on_cpu()


def test_hardware_frames_on_the_cpu(device, clips, on_cpu):
    """backend=cpu downloads them itself."""
    assert scores(device.upload(*clips, WINDOW + ":backend=cpu")) == on_cpu(WINDOW)


def test_several_filters(device, clips, on_cpu):
    """One after the other and side by side, on one device."""
    graph = (
        "[0:v]split[d0][d1];[1:v]split[r0][r1];[d0]hwupload[d2];[r0]hwupload,split[r2][r3];"
        f"[d2][r2]vmaf_gpu={WINDOW}:history=copy:log_path=a.json:log_fmt=json:log_precision=17[d3];"
        f"[d3][r3]vmaf_gpu={ALL}:metadata=1:log_path=b.json:log_fmt=json:log_precision=17[o0];"
        "[d1][r1]{filter}[o1]"
    )
    output = ("-map", "[o0]", "-f", "null", "-", "-map", "[o1]", "-f", "null", "-")
    result = device.upload(*clips, f"{ALL}:backend={device.option}", graph=graph, output=output, device={"ORDER": 9})
    assert scores(result) == on_cpu()
    for name, options in (("a", WINDOW), ("b", ALL)):
        assert without_speed((device.folder / f"{name}.json").read_text()) == on_cpu(options)


def test_graph_that_is_made_anew(device):
    """The program drops the filter with frames under way and makes another one."""
    for number, size in enumerate(("64x48", "96x64")):
        device(
            *("-f", "lavfi", "-i", f"testsrc2=s={size}:d=0.4:r=25", "-c:v", "libx264", "-qp", "0", "-bf", "0"),
            *("-pix_fmt", "yuv420p", "-f", "h264", f"{number}.h264"),
        )
    (device.folder / "d.h264").write_bytes(b"".join((device.folder / f"{number}.h264").read_bytes() for number in (0, 1)))
    # downloaded, because ffmpeg scales what comes from the second graph to the size of the first
    graph = "[0:v]split[a][b];[a]hwupload[d];[b]hwupload[r];[d][r]{filter},hwdownload,format=yuv420p"
    result = device.upload(["-framerate", "25", "-i", "d.h264"], [], ALL + ":in_flight=8", graph=graph, device={"ORDER": 5})
    second = read_rows(device.folder / "scores.json.2")
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

EVERY = r"feature=name=cambi\\:full_ref=true|speed_chroma|speed_temporal|psnr|float_ssim|motion"


def test_every_option_of_the_metrics_is_tried():
    reference = (ROOT / "docs/options.md").read_text().split("## Features")[1]
    options = re.findall(r"^\| `(\w+)` \|", reference, re.MULTILINE)
    assert len(options) >= 17
    assert not [name for name in options if f"{name}=" not in "".join(FEATURES + LARGE_FEATURES)]


# Options change which kernels are launched and their arguments, which is the same for all layouts and kinds: HIP has each once, and
# under sanitizers some.
TRIED = {
    "cuda": [(feature, layout) for feature in FEATURES + LARGE_FEATURES for layout in ("nv12", "p010")],
    "hip": [(feature, ("nv12", "p010")[i % 2]) for i, feature in enumerate(FEATURES + LARGE_FEATURES)][:: 3 if SANITIZED else 1],
}


@cases("feature, layout", TRIED)
def test_options_of_metrics(ffmpeg, device, feature, layout):
    size, n = ((320, 240), 2) if feature in LARGE_FEATURES else ((72, 66), 5)
    *_, d, r = write_pair(device.folder, (layout, layout), size, n=n)
    expected = scores(ffmpeg.score(d, r, f"feature={feature}:backend=cpu"))
    assert scores(device.upload(d, r, f"feature={feature}:parity=strict")) == expected


@cases("layout", {"cuda": ["nv12"], "hip": ["nv12", "p010"]})  # CUDA's have p010 with each metric's options
def test_every_metric(ffmpeg, device, layout):
    """At once, on the least pictures that all of them score."""
    *_, d, r = write_pair(device.folder, (layout, layout), (216, 160), n=3)
    expected = scores(ffmpeg.score(d, r, EVERY + ":backend=cpu"))
    assert scores(device.upload(d, r, EVERY + ":parity=strict")) == expected
    assert scores(device.score(d, r, f"{EVERY}:backend={device.option}:parity=strict")) == expected


SETTINGS = [
    *("history=ref", "history=copy", "in_flight=1", "in_flight=16", "in_flight=1:history=copy", "in_flight=16:history=copy"),
    *("n_subsample=2", "n_subsample=4:history=copy", "metadata=1", "metadata=1:in_flight=1:history=copy", "n_threads=1"),
    *("pair=index", "pair=framesync", "pair=framesync:metadata=1", "strict=1:parity=strict", "fallback=cpu"),
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings(device, clips, on_cpu, setting):
    """What does not change a score, with frames that ffmpeg or the filter uploads."""
    plain = re.sub("(:?)(history=copy|history=ref|parity=strict|fallback=cpu)", "", setting).strip(":")
    expected = on_cpu(":".join(filter(None, (WINDOW, plain))))
    assert scores(device.upload(*clips, f"{WINDOW}:{setting}", device={"ORDER": 3})) == expected
    assert scores(device.score(*clips, f"{WINDOW}:{setting}:backend={device.option}")) == expected


def test_backend_of_uploaded_frames(device, clips, on_cpu):
    """May be named."""
    assert scores(device.upload(*clips, f"{WINDOW}:backend={device.option}")) == on_cpu(WINDOW)


def test_metadata(ffmpeg, device, clips):
    """Scores on hardware frames, which keep their order."""
    print_all = "metadata=print:file=meta.txt"
    device.upload(*clips, WINDOW + ":metadata=1:log_precision=17", graph=f"{device.UPLOAD},{print_all}")
    on_device = (device.folder / "meta.txt").read_text()
    ffmpeg.score(*clips, WINDOW + ":metadata=1:log_precision=17:backend=cpu", graph=f"[0:v][1:v]{{filter}},{print_all}")
    assert on_device == (device.folder / "meta.txt").read_text()
    assert on_device.count("lavfi.vmaf_gpu.integer_motion3=") == len(REFERENCE)


@pytest.mark.parametrize("options", [ALL, ALL + ":strict=0:pair=index"])
def test_frames_without_a_partner(device, clips, on_cpu, options):
    graph = r"[0:v]hwupload[d];[1:v]select=not(between(n\,2\,3)),hwupload[r];[d][r]{filter}"
    result = device.upload(*clips, options, graph=graph)
    assert "had no partner and were not scored" in result.warnings[0]
    assert scores(result) == on_cpu(options, graph=graph.replace(",hwupload", "").replace("hwupload", "null"))


# ---- Order of work, waves ----


def test_random_orders(device, clips, on_cpu):
    """However streams progress, and whatever a wave is: one result."""
    expected = on_cpu(WINDOW)
    settings = [{"ORDER": order} for order in range(1, 22, 3 if SANITIZED else 1)] + [{"WAVE": 64, "ORDER": 7}]
    settings += [{"WAVE": 16}] if device.option == "cuda" else []  # AMD's waves have 32 or 64 lanes
    for number, variables in enumerate(settings):
        options = f"{WINDOW}:in_flight={1 + number % 4}:history={('ref', 'copy')[number % 2]}"
        assert scores(device.upload(*clips, options, device=variables)) == expected, variables
    for order in (1, 2, 3, 4):
        options = f"{WINDOW}:backend={device.option}:parity=strict"
        assert scores(device.score(*clips, options, device={"ORDER": order})) == expected, order


def test_frames_pass_unchanged_in_random_orders(device, clips, on_cpu):
    """Uploads, kernels and downloads wait for each other."""
    expected = on_cpu()
    for order in range(1, 5 if SANITIZED else 12):
        graph = f"{device.UPLOAD},hwdownload,format=nv12"
        result = device.upload(*clips, ALL, graph=graph, output=("-f", "rawvideo", "out.raw"), device={"ORDER": order})
        assert scores(result) == expected, order
        assert (device.folder / "out.raw").read_bytes() == (device.folder / "d.raw").read_bytes(), order


# ---- Parity ----


@pytest.mark.parametrize("parity", ["check", "strict"])
@pytest.mark.parametrize("every", [1, 4])
def test_parity(device, clips, on_cpu, parity, every):
    options = f"{WINDOW}:parity={parity}:parity_every={every}"
    frames = (len(REFERENCE) + every - 1) // every
    for run in (device.upload(*clips, options, log="info"), device.score(*clips, f"{options}:backend={device.option}", log="info")):
        assert f"parity: {3 * frames} records of {frames} frames compared, all equal" in run.stderr
        assert scores(run) == on_cpu(WINDOW)


def test_parity_sees_a_difference(device, clips, on_cpu):
    """One bit of one record differs: check reports it and ends well; strict ends with an error, and both write the log."""
    for parity in ("check", "strict"):
        options = f"feature=psnr|motion:backend={device.option}:parity={parity}"
        result = device.score(*clips, options, device={"FLIP": "3:0"}, fails=parity == "strict", log="info")
        match = re.search(r"parity: frame 2, psnr, (\S+): the device has (\d+), the CPU (\d+)", result.stderr)
        assert int(match[2]) ^ int(match[3]) == 1
        assert "parity: 12 records of 6 frames compared, 1 differ, first in frame 2" in result.stderr
        assert len(result.rows) == len(REFERENCE)
        assert scores(result) != on_cpu("feature=psnr|motion")
        assert result.stderr.count("the device has") == 1
        assert " psnr_y " in result.stderr  # the summary


def test_no_difference_goes_unseen(device, clips):
    """Of all records: also the last one's, and in the frame after which nothing comes."""
    result = device.score(*clips, f"feature=motion:backend={device.option}:parity=strict", device={"FLIP": "6:0"}, fails=True)
    assert any(re.match(r"parity: frame 5, motion, \S+: the device has \d+, the CPU \d+", text) for text in result.errors)


def test_parity_of_nothing(device, clips):
    """Without frames nothing is proven."""
    distorted, reference = clips
    options = f"feature=psnr:backend={device.option}:parity=strict"
    result = device.score(distorted, reference, options, graph="[0:v]trim=end_frame=0[d];[d][1:v]{filter}", fails=True)
    assert "parity=strict: no frames were scored, nothing was compared" in result.errors


# ---- Fallback ----


def test_no_driver(device, clips, on_cpu):
    """Without a driver backend=auto is the CPU, the device's backend an error, and with fallback=cpu a warning."""
    device.hide_driver()
    options = f"{ALL}:backend={device.option}"
    assert scores(device.score(*clips, ALL)) == on_cpu()

    result = device.score(*clips, options, fails=True)
    assert len(result.errors) == 1 and re.match(device.no_driver, result.errors[0])
    assert not result.log.exists()

    result = device.score(*clips, options + ":fallback=cpu")
    assert len(result.warnings) == 1 and not result.errors
    assert re.match("scoring on the CPU: " + device.no_driver, result.warnings[0])
    assert scores(result) == on_cpu()

    result = device.score(*clips, options + ":fallback=cpu:parity=strict", fails=True)
    assert "parity=strict: no device has scored, nothing was compared" in result.errors
    assert scores(result) == on_cpu()


def missing(none, init, device):
    """Variables, options, what is said: with no device, a call that starts the driver, and the class of device."""
    return [
        ({"DEVICES": 0}, "", none),
        ({}, ":device=1", f'there is no {device.name} device "1": give the index or the PCI id of one of '),
        ({}, r":device=0000\\:09\\:00.0", f'there is no {device.name} device "0000:09:00.0"'),
        ({}, ":device=gpu", f'there is no {device.name} device "gpu"'),
        ({"MEMORY": 10000}, "", device.full),
        ({"MEMORY": 200000}, ":in_flight=16", device.full),
        ({"IMAGES": "none"}, "", "209"),
        ({f"{device.failing}FAIL": init, f"{device.failing}FAIL_CODE": 999}, "", "999"),
    ]


MISSING = {"cuda": missing("no CUDA", "cuInit:1", Gpu), "hip": missing("hipErrorNoDevice", "hipInit:1", Hip)}


@cases("variables, option, message", MISSING)
def test_device_that_cannot(device, clips, on_cpu, variables, option, message):
    """One clear error; with fallback=cpu the same words in one warning, and all scores."""
    options = f"{ALL}:backend={device.option}{option}"
    result = device.score(*clips, options, device=variables, fails=True)
    assert len(result.errors) == 1 and message in result.errors[0]
    assert not result.log.exists()

    result = device.score(*clips, options + ":fallback=cpu", device=variables)
    assert not result.errors and len(result.warnings) == 1
    assert result.warnings[0].startswith("scoring on the CPU: ") and message in result.warnings[0]
    assert scores(result) == on_cpu()


def test_hardware_frames_fall_back(device, clips, on_cpu):
    """Frames on a device that takes no kernels of ours: downloaded, and scored on the CPU."""
    result = device.upload(*clips, WINDOW, device={"IMAGES": "none"}, fails=True)
    assert len(result.errors) == 1 and device.no_kernels in result.errors[0]
    result = device.upload(*clips, WINDOW + ":fallback=cpu", device={"IMAGES": "none"})
    assert len(result.warnings) == 1 and result.warnings[0].startswith("scoring on the CPU: ")
    assert scores(result) == on_cpu(WINDOW)


def test_full_device(device, clips):
    """No memory for records and work."""
    for options in (ALL, ALL + ":history=copy"):
        result = device.upload(*clips, options, device={"MEMORY": 8192}, fails=True)
        assert len(result.errors) == 1 and device.full in result.errors[0]
        assert not result.log.exists()


# ---- Refusals ----


@pytest.mark.parametrize("hard", [0, 1])
def test_mixed_hardware_and_software_frames(device, clips, on_cpu, hard):
    """Refused, and both remedies work."""
    side = ("d", "r")[hard]
    graph = f"[{hard}:v]hwupload[{side}];" + ("[0:v][r]" if hard else "[d][1:v]") + "{filter}"
    result = device.upload(*clips, graph=graph, fails=True)
    names = [f"nv12 ({device.name})" if number == hard else "nv12" for number in (0, 1)]
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
    assert scores(device.upload(*clips, ALL, graph=graph)) == on_cpu()


YUV444P_HIGH = "yuv444p10" if "yuv444p10" in CUDA_FORMATS else "yuv444p16"
CONTENTS = {
    "cuda": [
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
            f"insert scale_cuda=format={YUV444P_HIGH} on the distorted input and scale_cuda=format={YUV444P_HIGH} on the reference input",
        ),
    ],
    "hip": [
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
    ],
}


@cases("inputs, message", CONTENTS)
def test_contents_that_differ(device, inputs, message):
    """Refused; the graph that the message proposes does it."""
    size_d, format_d, size_r, format_r = inputs
    sources = f"testsrc2=s={size_d}:d=0.2,format={format_d},hwupload[a];testsrc2=s={size_r}:d=0.2,format={format_r},hwupload[b];"
    result = device(*device.MAKE, "-filter_complex", f"{sources}[a][b]vmaf_gpu=log_path=log.xml", "-f", "null", "-", fails=True)
    assert len(result.errors) == 1 and message in result.errors[0]
    assert not (device.folder / "log.xml").exists()
    if "scale_cuda" in message:
        return  # its kernels are not among those that the software device has
    proposed = re.search(r"-lavfi '(.*)'", result.errors[0])[1].replace("[0:v]", "[a]").replace("[1:v]", "[b]")
    result = device(*device.MAKE, "-filter_complex", f"{sources}{proposed}=feature=psnr", "-f", "null", "-", log="info")
    assert " psnr_y " in result.stderr


def test_formats_that_are_not_scored(device):
    """RGB on the device, where nothing converts it on the way."""
    graph = "testsrc2=s=64x48:d=0.2,format=bgra,hwupload,split[d][r];[d][r]vmaf_gpu"
    result = device(*device.MAKE, "-filter_complex", graph, "-f", "null", "-", fails=True)
    kind = device.option
    assert f"the distorted input has {kind} frames of format bgra, which is not scored: insert hwdownload,format=bgra" in result.errors
    graph = graph.replace("[d][r]vmaf_gpu", "[d]hwdownload,format=bgra[e];[r]hwdownload,format=bgra[s];[e][s]vmaf_gpu=feature=psnr")
    result = device(*device.MAKE, "-filter_complex", graph, "-f", "null", "-", log="info")
    assert " psnr_y " in result.stderr


def test_frames_of_no_device(device):
    kind = device.option
    graph = f"nullsrc=s=64x48:d=1,format={kind}[d];nullsrc=s=64x48:d=1,format={kind}[r];[d][r]vmaf_gpu"
    assert device.graph(graph, fails=True).errors == [
        f"the distorted input has {kind} frames that belong to no device: insert hwupload before"
    ]


def test_frames_of_a_kind_that_is_not_scored(ffmpeg):
    graph = "nullsrc=s=64x48:d=1,format=vaapi[d];nullsrc=s=64x48:d=1,format=vaapi[r];[d][r]vmaf_gpu"
    assert ffmpeg.graph(graph, fails=True).errors == [
        "the distorted input has hardware frames (vaapi), which this build does not score: insert hwdownload and the "
        "format that it delivers, e.g. hwdownload,format=nv12"
    ]


OPTIONS = [
    (True, "device=0", "device=0 has no meaning with NAME frames, which are on a device already: leave it out"),
    (True, "backend=cpu:device=0", "device=0 has no meaning with NAME frames, which are on a device already: leave it out"),
    (True, "backend=OTHER", "pictures in NAME memory cannot be scored by backend=OTHER: use OPTION, cpu or auto"),
    (True, "backend=cpu:parity=check", "parity=check compares a device's work with the CPU's, but with backend=cpu the CPU scores"),
    (False, "parity=strict", "but with backend=auto the CPU scores these inputs: leave parity out, or use backend=cuda"),
    (False, "device=0", "device=0 has no meaning where the CPU scores: leave it out, or use backend=cuda"),
    (
        False,
        "device=0:backend=OPTION",
        "device=0 has no meaning where ffmpeg hands the filter a device (-filter_hw_device or the last one that it made): leave it out",
    ),
    (True, "bit_depth=10", "bit_depth=10: the distorted input has 8 bits (nv12 (NAME)); leave bit_depth out"),
    (True, "feature=float_ssim|motion:bit_depth=9", "9"),
]


@pytest.mark.parametrize(
    "uploaded, options, message", OPTIONS, ids=[f"{'uploaded' if up else 'host'}-{options}" for up, options, _ in OPTIONS]
)
def test_options_that_do_not_fit(device, uploaded, options, message):
    for word, value in (("OTHER", device.other), ("OPTION", device.option), ("NAME", device.name)):
        options, message = options.replace(word, value), message.replace(word, value)
    depth, layout = (10, "p010") if "=9" in options else (8, "nv12")
    clip = Clip.noise(605, 1, depth=depth).write(device.folder / "a.raw", layout)
    graph = device.UPLOAD if uploaded else "[0:v][1:v]{filter}"
    result = device.upload(clip, clip, options, graph=graph, fails=True)
    assert len(result.errors) == 1 and message in result.errors[0], result.errors


# ---- Frames that change in mid-stream ----

# Kind of device, the uploads of the first three frames and of the others, what is said.
CHANGES = {
    "cuda": [
        (
            ("hwupload_cuda", "hwupload_cuda"),
            "a distorted frame is in another CUDA context than those before it: make one device for all decoders, e.g. "
            "-init_hw_device cuda=gpu and -hwaccel_device gpu",
        ),
        (
            ("hwupload", "format=yuv420p,hwupload"),
            "a distorted frame is 64x48 yuv420p (CUDA), but 64x48 nv12 (CUDA) was agreed on: insert scale_cuda before the filter",
        ),
    ],
    "hip": [
        (
            ("hwupload", "format=yuv420p,hwupload"),
            "a distorted frame is 64x48 yuv420p (HIP), but 64x48 nv12 (HIP) was agreed on: insert hwdownload,scale,hwupload before the "
            "filter",
        ),
    ],
}


@cases("uploads, message", CHANGES)
def test_frames_that_change(device, uploads, message):
    """Two uploads, one after the other: refused where the second begins; what was scored is logged."""
    # setpts has frames of its own side's pool; concat would hand its first input's to both
    graph = (
        f"[0:v]trim=end_frame=3,{uploads[0]},setpts=PTS[a];[0:v]trim=start_frame=3,setpts=PTS-STARTPTS,{uploads[1]},setpts=PTS[b];"
        "[a][b]concat,split[d][r];[d][r]{filter}"
    )
    result = device.upload(REFERENCE.write(device.folder / "d.raw", "nv12"), [], graph=graph, fails=True)
    assert result.errors == [message]
    assert len(result.rows) == 3


# ---- Failures of the driver ----

WAYS = {"hwupload": "", "software": ":backend=OPTION", "parity": ":parity=strict", "metadata": ":metadata=1:history=copy"}
LOST = (700, 719)
CODES = (2, *LOST)
# How many calls are tried of each way and code; those of HIP frames are all tried in test_hip.py.
SAMPLES = {"cuda": 5, "hip": 4} if SANITIZED else {"cuda": 10, "hip": 8}


def check_left(device, result, code):
    """What a failing call may leave: nothing of ours, as long as the device lives."""
    if device.option == "hip":
        # The frames are our own, too, and releasing needs no current context.
        assert not result.left
    elif code in LOST:
        # Nobody can make a lost device's context current to release what is in it; it went with the context.
        assert re.fullmatch(r"(device_memory \d+\n)?(pinned_memory \d+\n)?", result.left)
    elif result.left:
        # FFmpeg's pool does not free a buffer if it cannot make its context current.
        assert result.left == "device_memory 1\n"
        assert re.search(r"\[(?:AVHWDeviceContext|CUDA) @ \S+\] \[error\] cu->cuCtxPushCurrent\(hwctx->cuda_ctx\) failed", result.stderr)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("code", CODES)
def test_failing_calls(device, code, way):
    """Whatever call fails: at most one error of ours, a clean end, and the whole log of what was scored or none."""
    clip = REFERENCE.crop(0, 0, 16, 16).pick(range(3)).write(device.folder / "a.raw", "nv12")
    score = device.score if way == "software" else device.upload
    options = ALL + WAYS[way].replace("OPTION", device.option)
    score(clip, clip, options, device={f"{device.failing}COUNT": device.folder / ".count"})
    calls = int((device.folder / ".count").read_text())
    assert calls > {"cuda": 100, "hip": 60}[device.option]

    samples = SAMPLES[device.option]
    first = list(WAYS).index(way) * len(CODES) + CODES.index(code)
    turns = len(WAYS) * len(CODES)
    failed = 0
    for i in range(samples):
        number = 1 + (i * turns + first) * calls // (samples * turns)
        variables = {f"{device.failing}FAIL": number, f"{device.failing}FAIL_CODE": code}
        result = score(clip, clip, options, device=variables, fails=None)
        failed += result.code != 0
        assert len(result.errors) <= 1, f"call {number}: {result.stderr}"
        assert len(result.rows) == 3 or result.code, f"call {number}"
        assert not list(device.folder.glob("*.part"))
        check_left(device, result, code)
    assert failed


# ---- Early ends ----


@pytest.mark.parametrize("limit", [("-frames:v", "3"), ("-t", "0.12")])
@pytest.mark.parametrize("options", ["", ":metadata=1", ":pair=framesync", ":history=copy:in_flight=16"])
def test_output_that_closes_early(device, limit, options):
    reference = Clip.noise(606, 60, 32, 32)
    d = reference.distorted(607).write(device.folder / "d.raw")
    r = reference.write(device.folder / "r.raw")
    result = device.upload(d, r, "feature=psnr|motion" + options, output=(*limit, "-f", "null", "-"))
    assert 3 <= len(result.rows) <= 60


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("order", [0, 5])
def test_interrupted_run(device, ending, order):
    process = device.start(
        *(*device.MAKE, "-filter_complex"),
        "testsrc2=s=64x48,format=nv12,split[a][b];[a]hwupload[d];[b]hwupload[r];"
        "[d][r]vmaf_gpu=feature=psnr|motion:in_flight=4:log_path=log.json:log_fmt=json,hwdownload,format=nv12",
        *("-flush_packets", "1", "-f", "framecrc", "-"),
        device={"ORDER": order},
    )
    for _ in range(40):
        assert process.stdout.readline()
    process.send_signal(ending)
    result = device.finish(process, fails=True)
    assert result.code == 255
    assert (device.folder / "log.json").exists()
