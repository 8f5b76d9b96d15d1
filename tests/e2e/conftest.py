# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""
End-to-end tests: they run the patched ffmpeg as people do.

FFMPEG is the program (default: build/ffmpeg-7.1/ffmpeg). VMAF_GPU_SANITIZED=1 says that it was built with AddressSanitizer
and UndefinedBehaviorSanitizer. SOFTGPU is the folder of the software device, HIPSTAND that of the HIP stand-in (default: in
build/lib or build/asan).
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clips import Clip

ROOT = Path(__file__).resolve().parents[2]
SANITIZED = os.environ.get("VMAF_GPU_SANITIZED", "0") not in ("", "0")
TIME_LIMIT = 120

# A message of the filter: [Parsed_vmaf_gpu_0 @ 0x55...] [warning] text. At level info and below ffmpeg's threads mix their
# lines, and the head of a message may be missing: look for such messages in stderr, by their words.
MESSAGE = re.compile(r"\[Parsed_vmaf_gpu_\d+ @ 0x[0-9a-f]+\] \[(\w+)\] (.*)")


def program():
    path = Path(os.environ.get("FFMPEG") or ROOT / "build/ffmpeg-7.1/ffmpeg").resolve()
    if not path.is_file():
        pytest.exit(f"{path} is missing: build it with tools/ffmpeg_build, or set FFMPEG", returncode=2)
    return str(path)


def driver_folder(variable, name, library):
    """The folder of a library that stands in for a driver."""
    folder = Path(os.environ.get(variable) or ROOT / "build" / ("asan" if SANITIZED else "lib") / "tests" / name).resolve()
    if not (folder / library).is_file():
        pytest.exit(f"{folder}/{library} is missing: build it with tools/library_build, or set {variable}", returncode=2)
    return str(folder)


def software_device():
    return driver_folder("SOFTGPU", "softgpu", "libcuda.so.1")


def hip_stand_in():
    return driver_folder("HIPSTAND", "hipstand", "libamdhip64.so.7")


def describe_threads(pid):
    """Names and states of a program's threads, and where they are if gdb is installed."""
    if shutil.which("gdb"):
        command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return "\n".join(re.sub(r"(?s)Name:\s+(.*?)\n.*State:\s+(.*?)\n.*", r"\1: \2", (task / "status").read_text()) for task in tasks)


class Result:
    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr
        messages = MESSAGE.findall(stderr)
        self.warnings = [text for level, text in messages if level == "warning"]
        # "Failed to configure" is libavfilter's own remark, after ours, in the filter's name.
        self.errors = [text for level, text in messages if level == "error" and not text.startswith("Failed to configure")]


class Ffmpeg:
    """Runs ffmpeg in a folder of the test's own."""

    def __init__(self, folder):
        self.program, self.folder = program(), folder

    def start(self, *arguments, log="warning", **options):
        command = [self.program, "-hide_banner", "-nostats", "-y", "-loglevel", f"level+{log}", *map(str, arguments)]
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.Popen(command, cwd=self.folder, **options)

    def finish(self, process, fails=False):
        try:
            stdout, stderr = process.communicate(timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            threads = describe_threads(process.pid)
            process.kill()
            stdout, stderr = process.communicate()
            pytest.fail(f"ffmpeg hangs; its threads:\n{threads}\nits last words:\n{stderr.decode(errors='replace')[-3000:]}")
        result = Result(process.returncode, stdout, stderr.decode(errors="replace"))
        for word in ("Sanitizer", "runtime error:", "Assertion"):
            assert word not in result.stderr, result.stderr[-6000:]
        if fails is not None:
            assert (result.code != 0) == fails, f"exit status {result.code}\n{result.stderr[-6000:]}"
        return result

    def __call__(self, *arguments, fails=False, **options):
        return self.finish(self.start(*arguments, **options), fails)

    def graph(self, graph, *, output=("-f", "null", "-"), **more):
        """Runs a filter graph that has sources of its own."""
        return self("-filter_complex", graph, *output, **more)

    def score(self, distorted, reference, options="feature=psnr", *, graph="[0:v][1:v]{filter}", output=(), **more):
        """
        Scores the input `distorted` against `reference` (arguments up to -i FILE); {filter} in the graph stands for the filter.
        The result has the rows of the log, every double in full.
        """
        log = self.folder / "scores.json"
        log.unlink(missing_ok=True)
        text = f"vmaf_gpu=log_path={log.name}:log_fmt=json:log_precision=17" + (f":{options}" if options else "")
        result = self(*distorted, *reference, "-filter_complex", graph.format(filter=text), *(output or ("-f", "null", "-")), **more)
        result.log = log
        every = re.search(r"\bn_subsample=(\d+)", text)
        result.rows = read_rows(log, int(every[1]) if every else 1) if log.exists() else []
        result.log_text = log.read_text() if log.exists() else ""
        return result


class Gpu(Ffmpeg):
    """
    Runs ffmpeg where the software device (tests/softgpu) stands for CUDA's driver. What tests of any kind of device need to
    know of this kind: `option` in options and arguments, `name` in messages, `other` that of the other kind, `full`,
    `no_kernels` and `no_driver` in what is said where memory, code for the device or the driver is lacking, `failing` before FAIL,
    FAIL_CODE and COUNT in the variables that make the driver's calls fail.
    """

    option, name, other = "cuda", "CUDA", "hip"
    full, no_kernels, failing = "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_NO_BINARY_FOR_GPU", ""
    no_driver = r"NVIDIA's driver cannot be opened \(.*libcuda\.so\.1: .*\): install it, "
    MAKE = ("-init_hw_device", "cuda=gpu", "-filter_hw_device", "gpu")
    UPLOAD = "[0:v]hwupload[d];[1:v]hwupload[r];[d][r]{filter}"

    def __init__(self, folder):
        super().__init__(folder)
        self.library, self.live = software_device(), folder / ".live"
        self.variables = {}

    def environment(self, device=None):
        """`device`: variables of the software device, without SOFTGPU_."""
        path = os.pathsep.join(filter(None, (self.library, os.environ.get("LD_LIBRARY_PATH"))))
        self.variables = device or {}
        environment = os.environ | {"LD_LIBRARY_PATH": path, "SOFTGPU_LIVE": str(self.live)}
        return environment | {f"SOFTGPU_{name}": str(value) for name, value in self.variables.items()}

    def start(self, *arguments, **options):
        environment = self.environment(options.pop("device", None))
        self.live.unlink(missing_ok=True)
        return super().start(*arguments, env=environment, **options)

    def finish(self, process, fails=False):
        """A run must neither leave anything of a device behind nor misuse the driver."""
        result = super().finish(process, fails)
        assert process.returncode >= 0, result.stderr[-6000:]
        result.left = self.live.read_text() if self.live.exists() else ""
        if "FAIL" not in self.variables:
            assert "softgpu: error" not in result.stderr, result.stderr[-6000:]
            assert not result.left, f"not released: {result.left}\n{result.stderr[-6000:]}"
        return result

    def hide_driver(self):
        """Puts files that are no library before the driver, also before one that this machine may have."""
        self.library = self.empty_libraries("libcuda.so.1")

    def empty_libraries(self, *names):
        folder = self.folder / "lib"
        folder.mkdir()
        for name in names:
            (folder / name).touch()
        return str(folder)

    def upload(self, distorted, reference, options="feature=psnr", *, graph=UPLOAD, **more):
        """As score(), with both inputs uploaded by ffmpeg's hwupload."""
        return self.score([*self.MAKE, *distorted], reference, options, graph=graph, **more)


class Hip(Gpu):
    """Runs ffmpeg where the HIP stand-in (tests/hipstand) stands for ROCm's runtime, over the software device."""

    option, name, other = "hip", "HIP", "cuda"
    full, no_kernels, failing = "hipErrorOutOfMemory", "hipErrorNoBinaryForGpu", "HIPSTAND_"
    no_driver = r"ROCm's HIP runtime cannot be opened \(.*libamdhip64\.so\.7: .*\): install it, "
    MAKE = ("-init_hw_device", "hip=gpu", "-filter_hw_device", "gpu")

    def __init__(self, folder):
        super().__init__(folder)
        self.stand_in = hip_stand_in()

    def environment(self, device=None):
        """`device`: also variables of the stand-in, with HIPSTAND_."""
        device = device or {}
        ours = {name: str(value) for name, value in device.items() if name.startswith("HIPSTAND_")}
        environment = super().environment({name: value for name, value in device.items() if name not in ours}) | ours
        self.variables |= {"FAIL": 1} if "HIPSTAND_FAIL" in ours else {}
        return environment | {"LD_LIBRARY_PATH": os.pathsep.join((self.stand_in, environment["LD_LIBRARY_PATH"]))}

    def hide_driver(self):
        self.stand_in = self.empty_libraries("libamdhip64.so", *(f"libamdhip64.so.{number}" for number in (5, 6, 7)))

    def finish(self, process, fails=False):
        result = super().finish(process, fails)
        if "FAIL" not in self.variables:
            assert not re.search(r"^hipstand: (?!call|\.\.\.)", result.stderr, re.MULTILINE), result.stderr[-6000:]
        return result


def without_speed(log):
    """A JSON log as it was written, but for the frames per second."""
    return re.sub(r'"fps": [^,\n]*', "", log)


def scores(result):
    assert result.rows
    return without_speed(result.log_text)


def read_rows(path, every=1):
    """The frames of a JSON log, checked to be numbered from 0 in steps; missing or infinite scores are None."""
    log = json.loads(Path(path).read_text())
    assert [frame["frameNum"] for frame in log["frames"]] == [every * n for n in range(len(log["frames"]))]
    return [frame["metrics"] for frame in log["frames"]]


@pytest.fixture
def ffmpeg(tmp_path):
    return Ffmpeg(tmp_path)


@pytest.fixture
def gpu(tmp_path):
    return Gpu(tmp_path)


@pytest.fixture
def hip(tmp_path):
    return Hip(tmp_path)


KINDS = {"cuda": Gpu, "hip": Hip}


@pytest.fixture(params=KINDS)
def device(request, tmp_path):
    """Each kind of device in turn."""
    return KINDS[request.param](tmp_path)


# ---- What tests of devices score ----

ALL = "feature=psnr|float_ssim|motion"

REFERENCE = Clip.noise(600, 6)
DISTORTED = REFERENCE.distorted(601, strength=3)


@pytest.fixture
def clips(tmp_path):
    return DISTORTED.write(tmp_path / "d.raw", "nv12"), REFERENCE.write(tmp_path / "r.raw", "nv12")


@pytest.fixture
def on_cpu(ffmpeg, clips):
    """The log of the two clips as the CPU scores them: scores(on_cpu(options))."""
    return lambda options=ALL, **more: scores(ffmpeg.score(*clips, f"{options}:backend=cpu", **more))
