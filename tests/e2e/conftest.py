# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""
End-to-end tests: they run the patched ffmpeg as people do.

FFMPEG is the program (default: build/ffmpeg-7.1/ffmpeg). VMAF_GPU_SANITIZED=1 says that it was built with AddressSanitizer
and UndefinedBehaviorSanitizer.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

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
        self.errors = [text for level, text in messages if level == "error"]


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
        result.rows = read_rows(log) if log.exists() else []
        return result


def read_rows(path):
    """The frames of a JSON log, checked to be numbered from 0 in order; missing or infinite scores are None."""
    log = json.loads(Path(path).read_text())
    assert [frame["frameNum"] for frame in log["frames"]] == list(range(len(log["frames"])))
    return [frame["metrics"] for frame in log["frames"]]


@pytest.fixture
def ffmpeg(tmp_path):
    return Ffmpeg(tmp_path)
