# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""Frames on their way: metadata, ends of every kind, interruption, memory."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from clips import Clip, psnr
from conftest import SANITIZED, read_rows

REFERENCE = Clip.noise(400, 10)
DISTORTED = REFERENCE.distorted(401)


@pytest.fixture
def clips(ffmpeg):
    return DISTORTED.write(ffmpeg.folder / "d.raw"), REFERENCE.write(ffmpeg.folder / "r.raw")


def read_metadata(path):
    """What the filter metadata=print wrote: a list of (time, {key: text})."""
    frames = []
    for line in path.read_text().splitlines():
        if match := re.match(r"frame:\d+ +pts:\S+ +pts_time:(\S+)", line):
            frames.append((float(match[1]), {}))
        else:
            key, value = line.split("=", 1)
            assert key.startswith("lavfi.vmaf_gpu.")
            frames[-1][1][key.removeprefix("lavfi.vmaf_gpu.")] = value
    return frames


PRINT = "metadata=print:file=meta.txt"
MOTION = ["VMAF_integer_feature_motion_sad_score", "integer_motion2", "integer_motion3"]


# ---- Metadata ----


@pytest.mark.parametrize("precision", [6, 17])
@pytest.mark.parametrize("in_flight", [1, 3, 16])
@pytest.mark.parametrize("pair", ["nearest", "index", "framesync"])
def test_metadata_equals_the_log(ffmpeg, clips, precision, in_flight, pair):
    """Every score of every frame, as the log has it; time stamps and order unchanged; the last frame complete."""
    ffmpeg(
        *(*clips[0], *clips[1], "-lavfi"),
        f"vmaf_gpu=metadata=1:in_flight={in_flight}:pair={pair}:log_path=log.csv:log_fmt=csv:log_precision={precision},{PRINT}",
        *("-f", "null", "-"),
    )
    head, *lines = (line.split(",")[:-1] for line in (ffmpeg.folder / "log.csv").read_text().splitlines())
    log = [dict(zip(head[1:], line[1:])) for line in lines]
    frames = read_metadata(ffmpeg.folder / "meta.txt")
    assert [scores for _, scores in frames] == log
    assert [time for time, _ in frames] == pytest.approx([n / 25 for n in range(10)])
    if precision == 17:
        assert [float(row["psnr_y"]) for row in log] == [row["psnr_y"] for row in psnr(DISTORTED, REFERENCE)]


def test_no_metadata_without_the_option(ffmpeg, clips):
    ffmpeg.score(*clips, graph="[0:v][1:v]{filter}," + PRINT)
    assert not (ffmpeg.folder / "meta.txt").exists() or not (ffmpeg.folder / "meta.txt").read_text()


def test_metadata_of_frames_without_a_partner(ffmpeg, clips):
    """They keep their place, and carry nothing."""
    result = ffmpeg.score(
        *clips, "metadata=1", graph=r"[1:v]select=not(between(n\,3\,5)+between(n\,8\,9))[r];[0:v][r]{filter}," + PRINT, log="verbose"
    )
    frames = read_metadata(ffmpeg.folder / "meta.txt")
    scored = [0, 1, 2, 6, 7]
    # metadata=print leaves out frames without any
    assert [time for time, _ in frames] == pytest.approx([n / 25 for n in scored])
    assert all(len(scores) == 7 for _, scores in frames)
    assert len(result.rows) == 5
    assert "10 frames encoded" in result.stderr


def test_metadata_with_subsampling(ffmpeg, clips):
    """Frames that are not scored carry what they have: psnr and motion see every frame, float_ssim every third."""
    ffmpeg(
        *(*clips[0], *clips[1], "-lavfi"), f"vmaf_gpu=n_subsample=3:metadata=1,{PRINT}", *("-f", "null", "-")
    )  # fmt: skip
    frames = read_metadata(ffmpeg.folder / "meta.txt")
    assert len(frames) == 10
    for n, (_, scores) in enumerate(frames):
        assert ("float_ssim" in scores) == (n % 3 == 0)
    expected = psnr(DISTORTED, REFERENCE)
    for n in range(0, 10, 3):
        assert frames[n][1]["psnr_y"] == f"{expected[n]['psnr_y']:.6f}"


def passage(ffmpeg, options, n=30, n_reference=None):
    """
    Runs n frames from sources that are asked for one frame at a time. Gives for each how many more had come when it left.
    """
    note = "metadata={}:key=side:value={},metadata=print:key=side:file=-:direct=1"
    result = ffmpeg.graph(
        f"testsrc2=s=64x48:d={n / 25},{note.format('add', 'in')}[d];testsrc2=s=64x48:d={(n_reference or n) / 25}[r];"
        f"[d][r]vmaf_gpu={options},{note.format('modify', 'out')}"
    )
    events = re.findall(r"frame:(\d+) +pts:(\d+).*\nside=(in|out)", result.stdout.decode())
    came = [(int(number), int(pts)) for number, pts, side in events if side == "in"]
    gone = [(int(number), int(pts)) for number, pts, side in events if side == "out"]
    assert came == gone == [(k, k) for k in range(n)]
    order = [(side, int(number)) for number, _, side in events]
    return [sum(side == "in" for side, _ in order[: order.index(("out", k))]) - 1 - k for k in range(n)]


@pytest.mark.parametrize("options", ["feature=psnr", "feature=motion:in_flight=16"])
def test_frames_pass_at_once_without_metadata(ffmpeg, options):
    assert max(passage(ffmpeg, options)) == 0


@pytest.mark.parametrize(
    "feature, look_ahead", [("psnr", 0), ("psnr|float_ssim", 0), ("motion", 1), (r"name=motion\\:motion_five_frame_window=true", 2)]
)
def test_metadata_with_one_frame_in_flight(ffmpeg, feature, look_ahead):
    """Each frame's scores are waited for: it leaves by the submit of the last frame that its scores depend on."""
    delays = passage(ffmpeg, f"feature={feature}:metadata=1:in_flight=1")
    assert max(delays) == look_ahead


@pytest.mark.parametrize("feature", ["psnr", "psnr|motion"])
@pytest.mark.parametrize("in_flight", [2, 5, 16])
def test_metadata_delay_is_bounded(ffmpeg, feature, in_flight):
    """Frame n leaves by the submit of frame n + max(in_flight, look-ahead)."""
    delays = passage(ffmpeg, f"feature={feature}:metadata=1:in_flight={in_flight}", n=60)
    assert max(delays) <= in_flight


def test_metadata_after_the_end_of_the_reference(ffmpeg):
    """No pair can follow: the last scored frame need not wait for one."""
    delays = passage(ffmpeg, "feature=motion:metadata=1:in_flight=16", n=60, n_reference=40)
    assert max(delays[:40]) <= 16
    assert max(delays[40:]) == 0


@pytest.mark.parametrize("hole", [(20, 250), (20, 300)])
def test_many_frames_without_a_partner(ffmpeg, hole):
    """A hole of hundreds of frames in the reference behind a frame that waits for its successor: bounded, and in order."""
    ffmpeg.graph(
        "testsrc2=s=64x48:d=12[d];"
        rf"testsrc2=s=64x48:d=12,select=not(between(n\,{hole[0]}\,{hole[1] - 1}))[r];"
        f"[d][r]vmaf_gpu=feature=psnr|motion:metadata=1:log_path=log.json:log_fmt=json,{PRINT}",
        output=("-f", "framecrc", "out.crc"),
    )
    rows = read_rows(ffmpeg.folder / "log.json")
    assert len(rows) == 300 - (hole[1] - hole[0])
    times = [int(line.split(",")[2]) for line in (ffmpeg.folder / "out.crc").read_text().splitlines() if line[0] != "#"]
    assert times == list(range(300))
    frames = read_metadata(ffmpeg.folder / "meta.txt")
    assert len(frames) == len(rows)
    for (_, scores), row in zip(frames, rows):
        assert scores["psnr_y"] == "60.000000"
        for key, value in scores.items():
            assert value == f"{row[key]:.6f}"


# ---- Ends ----


@pytest.mark.parametrize("options", ["", ":metadata=1", ":pair=index", ":pair=framesync"])
def test_one_frame(ffmpeg, clips, options):
    result = ffmpeg.score(*clips, f"feature=psnr|motion{options}", graph="[0:v]trim=end_frame=1[d];[1:v]trim=end_frame=1[r];[d][r]{filter}")
    expected = psnr(DISTORTED, REFERENCE)[0] | dict.fromkeys(MOTION, 0.0)
    assert result.rows == [expected]
    assert not result.warnings


@pytest.mark.parametrize("pair", ["nearest", "index", "framesync"])
@pytest.mark.parametrize("empty", ["d", "r", "both"])
def test_no_frames(ffmpeg, clips, pair, empty):
    """Nothing to score: said, and no file is written."""
    graph = f"[0:v]{'select=0' if empty != 'r' else 'null'}[d];[1:v]{'select=0' if empty != 'd' else 'null'}[r];[d][r]{{filter}}"
    result = ffmpeg.score(*clips, f"feature=psnr:pair={pair}", graph=graph, fails=None, log="info")
    assert not result.log.exists()
    assert "no frames were scored, and no log is written" in result.stderr
    assert " psnr_y " not in result.stderr


def test_strict_wants_something_scored(ffmpeg, clips):
    result = ffmpeg.score(*clips, "feature=psnr:strict=1", graph="[0:v]trim=end_frame=0[d];[1:v]trim=end_frame=0[r];[d][r]{filter}", fails=True)
    assert "no frames were scored, and no log is written" in result.errors


@pytest.mark.parametrize("limit", [("-frames:v", "3"), ("-t", "0.12")])
@pytest.mark.parametrize("options", ["", ":metadata=1", ":pair=framesync", ":pair=index"])
def test_output_that_closes_early(ffmpeg, limit, options):
    """What had been scored by then is logged: at least the frames of the output."""
    reference = Clip.noise(402, 200, 32, 32)
    distorted = reference.distorted(403)
    result = ffmpeg.score(
        distorted.write(ffmpeg.folder / "d.raw"),
        reference.write(ffmpeg.folder / "r.raw"),
        f"feature=psnr{options}",
        output=(*limit, "-f", "null", "-"),
        log="info",
    )
    assert 3 <= len(result.rows) <= 200
    assert result.rows == psnr(distorted, reference)[: len(result.rows)]
    assert " psnr_y " in result.stderr


def test_trimmed_output_in_the_graph(ffmpeg, clips):
    """A filter behind ours that wants no more."""
    result = ffmpeg.score(*clips, graph="[0:v][1:v]{filter},trim=end_frame=4")
    assert 4 <= len(result.rows) <= 10
    assert result.rows == psnr(DISTORTED, REFERENCE)[: len(result.rows)]
    assert not result.warnings


def test_failing_log_of_a_trimmed_output(ffmpeg, clips):
    """Even so the exit status tells that there is no log."""
    graph = "[0:v][1:v]vmaf_gpu=feature=psnr:log_path=/dev/full,trim=end_frame=4"
    result = ffmpeg(*clips[0], *clips[1], "-lavfi", graph, "-f", "null", "-", fails=True)
    assert "No space left on device" in result.errors[0]


def test_frame_that_does_not_fit_ends_the_run(ffmpeg):
    """A size that changes within one graph: an error that names both sizes; the scores until then are logged."""
    for number, size in enumerate(("64x48", "96x64")):
        ffmpeg(
            *("-f", "lavfi", "-i", f"color=gray:s={size}:d=0.4:r=25", "-c:v", "libx264", "-qp", "0", "-bf", "0"),
            *("-pix_fmt", "yuv420p", "-f", "h264", f"{number}.h264"),
        )
    data = b"".join((ffmpeg.folder / f"{number}.h264").read_bytes() for number in (0, 1))
    (ffmpeg.folder / "d.h264").write_bytes(data)
    result = ffmpeg.score(
        ["-reinit_filter", "0", "-framerate", "25", "-i", "d.h264"],
        ["-f", "lavfi", "-i", "color=gray:s=64x48:d=0.8:r=25,format=yuv420p"],
        fails=True,
    )
    assert "a distorted frame is 96x64 yuv420p, but 64x48 yuv420p was agreed on" in result.errors[0]
    assert len(result.rows) == 10


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", ["feature=psnr|motion", "feature=psnr|motion:metadata=1", "feature=psnr|motion:pair=framesync"])
def test_interrupted_run(ffmpeg, ending, options):
    """Ctrl-C: a complete log of what was scored, and the summary."""
    process = ffmpeg.start(
        *("-filter_complex", f"testsrc2=s=64x48,split[d][r];[d][r]vmaf_gpu={options}:log_path=log.json:log_fmt=json"),
        *("-flush_packets", "1", "-f", "framecrc", "-"),
        log="info",
    )
    lines = 0
    while lines < 60:
        assert process.stdout.readline()
        lines += 1
    process.send_signal(ending)
    result = ffmpeg.finish(process, fails=True)
    assert result.code == 255
    rows = read_rows(ffmpeg.folder / "log.json")
    sent = lines + len(result.stdout.splitlines()) - sum(line[:1] == b"#" for line in result.stdout.splitlines()) - 10
    assert len(rows) >= sent
    assert all(list(row) == ["psnr_y", "psnr_cb", "psnr_cr"] + MOTION for row in rows)
    assert " psnr_y " in result.stderr
    assert sorted(os.listdir(ffmpeg.folder)) == ["log.json"]


# ---- Memory ----


def peak_memory(ffmpeg, n):
    """Kilobytes that ffmpeg needs at most while it scores n small frames (read every few milliseconds)."""
    process = ffmpeg.start(
        "-filter_complex",
        f"testsrc2=s=16x16:d=1,loop=loop=-1:size=25,trim=end_frame={n},setpts=N,split[d][r];"
        "[d][r]vmaf_gpu=feature=psnr|motion:metadata=1:log_path=log.csv:log_fmt=csv",
        *("-f", "null", "-"),
    )
    peak = 0
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        if match := re.search(r"VmHWM:\s+(\d+) kB", status):
            peak = int(match[1])
        time.sleep(0.005)
    ffmpeg.finish(process)
    return peak


def test_memory_of_a_long_run(ffmpeg):
    """100,000 frames: nothing grows but the scores, at most 16 bytes a frame and key, and memory that threads share out."""
    if SANITIZED:
        pytest.skip("AddressSanitizer keeps freed memory: its peak says nothing about ours")
    short, long = peak_memory(ffmpeg, 1000), peak_memory(ffmpeg, 100_000)
    with open(ffmpeg.folder / "log.csv") as log:
        keys = len(next(log).split(",")) - 2
        assert sum(1 for _ in log) == 100_000
    assert keys == 6
    assert (long - short) * 1024 <= 16 * keys * 100_000 + 2 * 2**20
