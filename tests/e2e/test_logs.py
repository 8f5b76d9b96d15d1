# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""Logs: four formats, their numbers, and what happens when they cannot be written."""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import threading
import xml.etree.ElementTree as ElementTree

import pytest

from clips import Clip, psnr
from conftest import read_rows

REFERENCE = Clip.noise(300, 5)
DISTORTED = REFERENCE.distorted(301)
EXPECTED = psnr(DISTORTED, REFERENCE)
KEYS = ["psnr_y", "psnr_cb", "psnr_cr"]


def pooled(values):
    """min, max, mean, harmonic mean, in the order of the frames"""
    total = harmonic = 0.0
    for value in values:
        total += value
        harmonic += 1.0 / (value + 1.0)
    return [min(values), max(values), total / len(values), len(values) / harmonic - 1.0]


POOLED = {key: pooled([row[key] for row in EXPECTED]) for key in KEYS}
METHODS = ["min", "max", "mean", "harmonic_mean"]


@pytest.fixture
def run(ffmpeg):
    """Scores the clips with more options; ffmpeg's exit status must be as said."""
    inputs = DISTORTED.write(ffmpeg.folder / "d.raw") + REFERENCE.write(ffmpeg.folder / "r.raw")

    def run(options, **more):
        return ffmpeg(*inputs, "-lavfi", f"vmaf_gpu=feature=psnr:{options}", "-f", "null", "-", **more)

    run.inputs = inputs
    return run


def numbers(precision):
    return "%.6f" if precision == 6 else "%.17g"


# ---- Formats ----


@pytest.mark.parametrize("precision", [6, 17])
def test_xml(ffmpeg, run, precision):
    run(f"log_path=log.xml:log_precision={precision}")
    root = ElementTree.parse(ffmpeg.folder / "log.xml").getroot()
    assert root.tag == "VMAF" and root.get("version") == "3.2.0"
    assert root.find("params").attrib == {"qualityWidth": "64", "qualityHeight": "48"}
    assert float(root.find("fyi").get("fps")) > 0
    fmt = numbers(precision)
    frames = [frame.attrib for frame in root.find("frames")]
    assert frames == [
        {"frameNum": str(n)} | {key: fmt % value for key, value in row.items()} for n, row in enumerate(EXPECTED)
    ]
    metrics = [metric.attrib for metric in root.find("pooled_metrics")]
    assert metrics == [{"name": key} | dict(zip(METHODS, (fmt % v for v in POOLED[key]))) for key in KEYS]
    assert root.find("aggregate_metrics").attrib == {}


@pytest.mark.parametrize("precision", [6, 17])
def test_json(ffmpeg, run, precision):
    run(f"log_path=log.json:log_fmt=json:log_precision={precision}")
    log = json.loads((ffmpeg.folder / "log.json").read_text(), parse_float=str)
    fmt = numbers(precision)
    assert log["version"] == "3.2.0" and float(log["fps"]) > 0
    assert log["frames"] == [
        {"frameNum": n, "metrics": {key: fmt % value for key, value in row.items()}} for n, row in enumerate(EXPECTED)
    ]
    assert log["pooled_metrics"] == {key: dict(zip(METHODS, (fmt % v for v in POOLED[key]))) for key in KEYS}
    assert log["aggregate_metrics"] == {}
    assert list(log) == ["version", "fps", "frames", "pooled_metrics", "aggregate_metrics"]


@pytest.mark.parametrize("precision", [6, 17])
def test_csv(ffmpeg, run, precision):
    run(f"log_path=log.csv:log_fmt=csv:log_precision={precision}")
    fmt = numbers(precision)
    rows = "".join(f"{n}," + "".join(f"{fmt % v}," for v in row.values()) + "\n" for n, row in enumerate(EXPECTED))
    assert (ffmpeg.folder / "log.csv").read_text() == "Frame,psnr_y,psnr_cb,psnr_cr,\n" + rows


@pytest.mark.parametrize("precision", [6, 17])
def test_sub(ffmpeg, run, precision):
    run(f"log_path=log.sub:log_fmt=sub:log_precision={precision}")
    fmt = numbers(precision)
    lines = "".join(
        f"{{{n}}}{{{n + 1}}}frame: {n}|" + "".join(f"{key}: {fmt % v}|" for key, v in row.items()) + "\n"
        for n, row in enumerate(EXPECTED)
    )
    assert (ffmpeg.folder / "log.sub").read_text() == lines


def test_infinities(ffmpeg):
    """An empty chroma plane with min_sse scores minus infinity: -inf as printf writes it, null in JSON."""
    clip = Clip.noise(302, 1, 1, 1)
    inputs = clip.write(ffmpeg.folder / "d.raw") * 2
    for fmt in ("csv", "json"):
        feature = rf"name=psnr\\:min_sse=0.5:log_path=log.{fmt}:log_fmt={fmt}"
        ffmpeg(*inputs, "-lavfi", f"vmaf_gpu=feature={feature}", "-f", "null", "-")
    # 10 log10(2 * 255^2), rounded up
    assert (ffmpeg.folder / "log.csv").read_text().splitlines()[1] == "0,52.000000,-inf,-inf,"
    log = json.loads((ffmpeg.folder / "log.json").read_text())
    assert log["frames"][0]["metrics"] == {"psnr_y": 52, "psnr_cb": None, "psnr_cr": None}


@pytest.mark.parametrize("interval", [2, 3, 5, 100])
def test_subsampling(ffmpeg, run, interval):
    """Every Nth frame is logged under its own number and pooled; the output keeps all frames."""
    result = run(f"n_subsample={interval}:log_path=log.csv:log_fmt=csv:log_precision=17", log="verbose")
    lines = (ffmpeg.folder / "log.csv").read_text().splitlines()[1:]
    rows = {n: [row[key] for key in KEYS] for n, row in enumerate(EXPECTED) if n % interval == 0}
    assert {int(line.split(",")[0]): [float(v) for v in line.split(",")[1:4]] for line in lines} == rows

    run(f"n_subsample={interval}:log_path=log.json:log_fmt=json:log_precision=17")
    log = json.loads((ffmpeg.folder / "log.json").read_text())
    assert [frame["frameNum"] for frame in log["frames"]] == list(rows)
    assert list(log["pooled_metrics"]["psnr_y"].values()) == pooled([row[0] for row in rows.values()])
    assert "5 frames encoded" in result.stderr


def test_default_log_has_libvmaf_number_format(ffmpeg, run):
    run("log_path=a.csv:log_fmt=csv")
    run("log_path=b.csv:log_fmt=csv:log_precision=6")
    assert (ffmpeg.folder / "a.csv").read_bytes() == (ffmpeg.folder / "b.csv").read_bytes()


@pytest.mark.parametrize("in_flight", [1, 3, 16])
def test_threads_and_frames_in_flight_change_nothing(ffmpeg, in_flight):
    """The same bytes from 1 thread and from 8."""
    logs = []
    for threads in (1, 8, 0):
        ffmpeg.graph(
            "testsrc2=s=320x180:d=1,split[a][b];[a]noise=alls=20:all_seed=7:allf=t[d];"
            f"[d][b]vmaf_gpu=n_threads={threads}:in_flight={in_flight}:log_path=log.csv:log_fmt=csv:log_precision=17"
        )
        logs.append((ffmpeg.folder / "log.csv").read_bytes())
    assert logs[0] == logs[1] == logs[2]
    assert logs[0].count(b"\n") == 26


# ---- Where logs go ----


def test_old_log_is_replaced(ffmpeg, run):
    (ffmpeg.folder / "log.csv").write_text("old " * 10000)
    run("log_path=log.csv:log_fmt=csv")
    assert (ffmpeg.folder / "log.csv").read_text().startswith("Frame,")
    assert sorted(os.listdir(ffmpeg.folder)) == ["d.raw", "log.csv", "r.raw"]


def test_path_with_special_characters(ffmpeg, run):
    run(r"log_path='sub folder/a\:b ü.csv':log_fmt=csv", fails=True)
    (ffmpeg.folder / "sub folder").mkdir()
    run(r"log_path='sub folder/a\:b ü.csv':log_fmt=csv")
    assert (ffmpeg.folder / "sub folder" / "a:b ü.csv").read_text().startswith("Frame,")


def test_symbolic_link_is_written_through(ffmpeg, run):
    target = ffmpeg.folder / "target.csv"
    target.write_text("old " * 10000)
    (ffmpeg.folder / "log.csv").symlink_to(target)
    run("log_path=log.csv:log_fmt=csv")
    assert (ffmpeg.folder / "log.csv").is_symlink()
    text = target.read_text()
    assert text.startswith("Frame,") and text.count("\n") == 6


def test_standard_output(run):
    result = run("log_path=/dev/stdout:log_fmt=json:log_precision=17")
    assert [frame["metrics"] for frame in json.loads(result.stdout)["frames"]] == EXPECTED


def test_named_pipe(ffmpeg, run):
    os.mkfifo(ffmpeg.folder / "pipe")
    received = []
    reader = threading.Thread(target=lambda: received.append((ffmpeg.folder / "pipe").read_text()), daemon=True)
    reader.start()
    run("log_path=pipe:log_fmt=json:log_precision=17")
    reader.join(10)
    assert [frame["metrics"] for frame in json.loads(received[0])["frames"]] == EXPECTED


def test_full_device(run):
    """The exit status tells that there is no log."""
    result = run("log_path=/dev/full:log_fmt=json", fails=True, log="info")
    assert re.search("/dev/full.*No space left on device", result.stderr)
    assert " psnr_y " in result.stderr


def test_log_that_cannot_grow_keeps_the_old_one(ffmpeg, run):
    """As on a full disk, without one: files of this process may have 100 bytes."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    (ffmpeg.folder / "log.json").write_text("old")
    before = sorted(os.listdir(ffmpeg.folder))
    result = run("log_path=log.json:log_fmt=json", fails=True, preexec_fn=limit, restore_signals=False)
    assert any("could not write 'log.json': File too large" in text for text in result.errors)
    assert (ffmpeg.folder / "log.json").read_text() == "old"
    assert sorted(os.listdir(ffmpeg.folder)) == before


@pytest.mark.parametrize("limit", ["nr_inodes=3", "size=64k"])
def test_full_disk_keeps_the_old_log(ffmpeg, run, limit):
    """No room for another file, and no room in it."""
    disk = ffmpeg.folder / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", limit, "tmpfs", disk], capture_output=True, text=True)
    if mount.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mount.stderr.strip()}")
    try:
        (disk / "log.json").write_text("old")
        with open(disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            for _ in range(0 if "inodes" in limit else 100):
                filler.write(bytes(4096))
        result = run("log_path=disk/log.json:log_fmt=json", fails=True)
        assert any("log.json" in text and "No space left on device" in text for text in result.errors)
        assert (disk / "log.json").read_text() == "old"
        assert sorted(os.listdir(disk)) == ["filler", "log.json"]
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_folder_without_permission(ffmpeg, run):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere: test_bad_option has a missing folder, test_full_device a failing write")
    (ffmpeg.folder / "closed").mkdir(mode=0o555)
    result = run("log_path=closed/log.xml", fails=True)
    assert any("closed/log.xml" in text and "Permission denied" in text for text in result.errors)


def test_folder_that_vanishes_during_the_run(ffmpeg):
    """Checked at the start, gone at the end: an error in the exit status, and the summary all the same."""
    (ffmpeg.folder / "gone").mkdir()
    process = ffmpeg.start(
        "-filter_complex", "testsrc2=s=64x48:r=10:d=2,realtime,split[d][r];[d][r]vmaf_gpu=feature=psnr:log_path=gone/log.xml",
        *("-f", "null", "-"),
        log="info",
    )  # fmt: skip
    threading.Timer(0.7, (ffmpeg.folder / "gone").rmdir).start()
    result = ffmpeg.finish(process, fails=True)
    assert re.search("gone/log.xml.*No such file or directory", result.stderr)
    assert " psnr_y " in result.stderr


# ---- Several filters in one process ----


def test_two_filters_with_one_path(ffmpeg, run):
    """The second never overwrites the first one's log."""
    result = ffmpeg(
        *run.inputs,
        "-filter_complex",
        "[0:v]split=3[a][b][c];[1:v]split=3[x][y][z];"
        "[a][x]vmaf_gpu=feature=psnr:log_path=log.csv:log_fmt=csv,nullsink;"
        "[b][y]vmaf_gpu=feature=float_ssim:log_path=./log.csv:log_fmt=csv,nullsink;"
        "[c][z]vmaf_gpu=feature=motion:log_path=log.csv:log_fmt=csv",
        *("-f", "null", "-"),
    )
    names = ["log.csv", "log.csv.2", "log.csv.3"]
    heads = [(ffmpeg.folder / name).read_text().split("\n")[0] for name in names]
    assert sorted(heads) == [
        "Frame,VMAF_integer_feature_motion_sad_score,integer_motion2,integer_motion3,",
        "Frame,float_ssim,",
        "Frame,psnr_y,psnr_cb,psnr_cr,",
    ]
    assert len(result.warnings) == 2
    assert all("log.csv is the log of another vmaf_gpu filter of this run" in text for text in result.warnings)


@pytest.fixture
def changing_stream(ffmpeg):
    """H.264 of 200 frames that changes its size after 100; and a filter graph's inputs that compare it with a plain one."""
    stream = b""
    for number, size in enumerate(("64x48", "96x64")):
        ffmpeg(
            *("-f", "lavfi", "-i", f"color=gray:s={size}:d=4:r=25", "-c:v", "libx264", "-qp", "0", "-bf", "0"),
            *("-preset", "ultrafast", "-pix_fmt", "yuv420p", "-f", "h264", f"{number}.h264"),
        )
        stream += (ffmpeg.folder / f"{number}.h264").read_bytes()
    (ffmpeg.folder / "d.h264").write_bytes(stream)
    return (
        *("-framerate", "25", "-i", "d.h264", "-f", "lavfi", "-i", "color=gray:s=64x48:d=8:r=25,format=yuv420p"),
        *("-lavfi", "[0:v]scale=64:48[d];[d][1:v]vmaf_gpu=feature=psnr:log_path=log.json:log_fmt=json", "-f", "null", "-"),
    )


def test_parameter_change_in_mid_stream(ffmpeg, changing_stream):
    """
    The program makes the graph anew, and the second one's scores go to PATH.2. (The program drops frames of the other
    input that it has put into the first graph, so the second part may begin late.)
    """
    result = ffmpeg(*changing_stream, log="info")
    assert "Reconfiguring filter graph" in result.stderr
    told = re.findall("log.json is the log of another vmaf_gpu filter of this run.*", result.stderr)
    assert len(told) == 1 and "the scores of this one go to log.json.2" in told[0] and "-reinit_filter 0" in told[0]
    parts = [read_rows(ffmpeg.folder / name) for name in ("log.json", "log.json.2")]
    assert all(50 <= len(part) <= 100 for part in parts)
    assert all(row["psnr_y"] == 60 for part in parts for row in part)
    assert not (ffmpeg.folder / "log.json.3").exists()


def test_parameter_change_in_one_graph(ffmpeg, changing_stream):
    """With -reinit_filter 0 the scale filter takes the change, and all frames have their scores in one log."""
    result = ffmpeg("-reinit_filter", "0", *changing_stream)
    assert len(read_rows(ffmpeg.folder / "log.json")) == 200
    assert not (ffmpeg.folder / "log.json.2").exists()
    assert not result.warnings


def test_pair_that_waits_when_the_graph_is_made_anew(ffmpeg, changing_stream):
    """Time stamps that differ by 3 ms need a look at the next frame; where none comes, the pair is scored all the same."""
    graph = (
        "[0:v]scale=64:48[d];color=gray:s=64x48:r=25,format=yuv420p,settb=1/1000,setpts=PTS+3[r];"
        "[d][r]vmaf_gpu=feature=psnr:log_path=log.json:log_fmt=json"
    )
    ffmpeg(*changing_stream[:4], "-filter_complex", graph, "-f", "null", "-")
    assert len(read_rows(ffmpeg.folder / "log.json")) == 100
