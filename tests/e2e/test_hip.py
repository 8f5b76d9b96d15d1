# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""
What only HIP has, on the HIP stand-in over the software device: devices, names of the runtime, architectures, mapping of surfaces,
CUDA frames beside HIP frames. The pixel format, devices and frames come with our patch (libavutil_glue), so libavutil's own
interface is tested, too, by the program hip_frames.c. What HIP frames share with CUDA frames is in test_devices.py. No AMD device is
needed, and nothing here shows that one works.
"""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from clips import LAYOUTS, write_pair
from conftest import ALL, ROOT, SANITIZED, program, scores, without_speed

NAME = r".* \(0000:0{}:00\.0\)"


# ---- The device type ----


def test_type_and_format_are_listed(ffmpeg):
    """Without a runtime, too."""
    assert re.search(r"^hip$", ffmpeg("-init_hw_device", "list").stdout.decode(), re.MULTILINE)
    assert re.search(r"^hip$", ffmpeg("-hwaccels").stdout.decode(), re.MULTILINE)
    assert re.search(r"^\.\.H\.\. hip +0 ", ffmpeg("-pix_fmts").stdout.decode(), re.MULTILINE)


@pytest.mark.parametrize("number, found", [("", 1), (":0", 1), (":2", 3), (":0000:02:00.0", 2), (":02:00.0", 2)])
def test_device_is_made(hip, number, found):
    result = hip("-init_hw_device", f"hip=gpu{number}", *CHEAP, log="verbose", device={"DEVICES": 3})
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


@pytest.mark.parametrize("wanted, variables, message", NO_DEVICE, ids=[f"{d}-{'-'.join(map(str, v.values()))}" for d, v, _ in NO_DEVICE])
def test_device_that_is_not_there(hip, wanted, variables, message):
    result = hip("-init_hw_device", wanted, *CHEAP, device={"DEVICES": 2} | variables, fails=True)
    errors = device_errors(result)
    assert len(errors) == 1 and re.match(message, errors[0]), result.stderr


def test_no_runtime(hip):
    """One clear error where a device is asked for."""
    hip.hide_driver()
    errors = device_errors(hip(*hip.MAKE, *CHEAP, fails=True))
    assert len(errors) == 1 and re.match(hip.no_driver + "or put its folder", errors[0])


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


# ---- Frames, also beside those of CUDA ----


@pytest.mark.parametrize("layout", ["nv12", "yuv420p10", "gray"])
def test_upload_of_cropped_and_flipped_frames(ffmpeg, hip, layout):
    """Negative pitches and addresses in the middle of a buffer, on the host."""
    *_, d, r = write_pair(hip.folder, (layout, layout), (80, 60))
    graph = "[0:v]crop=46:38:14:6,vflip{up}[d];[1:v]vflip,crop=46:38:14:16{up}[r];[d][r]"
    expected = scores(ffmpeg.score(d, r, ALL + ":backend=cpu", graph=graph.format(up="") + "{filter}"))
    assert scores(hip.upload(d, r, ALL, graph=graph.format(up=",hwupload") + "{filter}")) == expected


def test_device_of_another_kind(hip, clips, on_cpu):
    """With software frames the filter takes the device that ffmpeg hands it only if that is of its kind."""
    for kind, other in (("hip", "cuda"), ("cuda", "hip")):
        made = ["-init_hw_device", f"{other}=one:1", "-filter_hw_device", "one"]
        result = hip.score([*made, *clips[0]], clips[1], f"{ALL}:backend={kind}:device=2", log="verbose", device={"DEVICES": 3})
        assert re.search(rf"{kind.upper()} device: .*0000:03:00\.0", result.stderr)
        assert scores(result) == on_cpu()


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


@pytest.mark.parametrize("call", ["hipMemcpy2DAsync:1", "hipMemcpy2DAsync:5", "hipStreamSynchronize:2"])
def test_failing_transfers_are_errors(hip, clips, call):
    """Unlike FFmpeg's of CUDA, which go on with what the frame holds."""
    graph = f"{hip.UPLOAD},hwdownload,format=nv12"
    make = ("-init_hw_device", "hip=gpu:1", "-filter_hw_device", "gpu")
    result = hip.score([*make, *clips[0]], clips[1], graph=graph, fails=True, device={"HIPSTAND_FAIL": call, "DEVICES": 2})
    assert re.search(rf"\[(?:AVHWDeviceContext|HIP) @ \S+\] \[error\] {call[:-2]} failed: \S+ \(2\)", result.stderr)
    assert not result.left


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
    assert "a frame is 72x48, but those on the device are 64x48: insert scale before hwupload" in done.stderr
    assert "a frame is 72x56, but those on the device are 64x48: insert scale before hwupload" in done.stderr
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


def test_frames_are_not_mapped_back(hip, clips):
    result = hip(*hip.MAKE, *clips[0], "-vf", "hwupload,hwmap,format=nv12", "-f", "null", "-", fails=True)
    assert "HIP frames cannot be mapped: insert hwdownload,format=nv12 instead of hwmap" in device_errors(result)


def test_upload_into_flipped_frames_is_refused(hip, clips):
    """vflip hands hwupload frames that lie upside down, with the chroma beside them."""
    result = hip(*hip.MAKE, *clips[0], "-vf", "hwupload,vflip,hwdownload,format=nv12", "-f", "null", "-", fails=True)
    assert any(re.match(r"a frame on the device lies upside down \(pitch -\d+\)", text) for text in device_errors(result))


def test_early_runtimes_map_nothing(frames):
    done = frames("map", "nv12", "layers", code=2, HIPSTAND_VERSION=50221153)
    assert re.search(r"surfaces cannot be mapped by HIP 5\.2: this needs ROCm 5\.7 or later; otherwise copy them, by hwdownload,hwupload\n", done.stderr)


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
    done = frames("all", HIPSTAND_TRACE=1)
    calls = re.findall(r"^hipstand: call \d+: (\w+)$", done.stderr, re.MULTILINE)
    assert len(calls) > 40
    # What is given back is given back, and with it the thread's device is changed: there is nobody to hear of errors.
    quiet = {"hipFree", "hipDestroyExternalMemory", "hipGetDevice", "hipSetDevice"}
    for number in range(1, len(calls) + 1, 3 if SANITIZED else 1):
        done = frames("all", code=None, HIPSTAND_FAIL=number, HIPSTAND_FAIL_CODE=code)
        assert done.returncode == 2 or calls[number - 1] in quiet, f"call {number}, {calls[number - 1]}"
        if code == 719:
            assert done.returncode == 2 or number > len(calls) * 2 // 3, f"call {number}"
