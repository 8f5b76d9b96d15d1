# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""
Which frames are compared, and what is said of those that are not.

In these clips every pair of frames, partners or not, has a PSNR of its own: the scores tell which frames were paired.
"""

import pytest

from clips import Clip, psnr

REFERENCE = Clip.noise(100, 12)
DISTORTED = REFERENCE.distorted(101)


def pairs(*numbers):
    """Expected scores of (distorted, reference) frame numbers."""
    return psnr(DISTORTED.pick([d for d, _ in numbers]), REFERENCE.pick([r for _, r in numbers]))


def same(*numbers):
    return pairs(*((n, n) for n in numbers))


@pytest.fixture
def clips(ffmpeg):
    """Arguments that read the first frames of both clips."""

    def write(n_distorted=12, n_reference=12, rate_distorted="25", rate_reference="25"):
        return (
            DISTORTED.pick(range(n_distorted)).write(ffmpeg.folder / "d.raw", rate=rate_distorted),
            REFERENCE.pick(range(n_reference)).write(ffmpeg.folder / "r.raw", rate=rate_reference),
        )

    return write


def output_size(ffmpeg):
    return (ffmpeg.folder / "out.raw").stat().st_size // (64 * 48 * 3 // 2)


RAW_OUTPUT = ("-fps_mode", "passthrough", "-f", "rawvideo", "out.raw")


# ---- Different lengths ----


@pytest.mark.parametrize("pair", ["nearest", "index"])
def test_short_reference(ffmpeg, clips, pair):
    """The distorted video passes to its end; what has no partner is not scored, but counted and named."""
    result = ffmpeg.score(*clips(5, 3), f"feature=psnr:pair={pair}", output=RAW_OUTPUT)
    assert result.rows == same(0, 1, 2)
    assert output_size(ffmpeg) == 5
    assert len(result.warnings) == 1
    where = "(at 0.120000, 0.160000 s)" if pair == "nearest" else "(number 3, 4)"
    assert f"2 of 5 distorted frames {where} and 0 of 3 reference frames had no partner" in result.warnings[0]


@pytest.mark.parametrize("pair", ["nearest", "index"])
def test_short_distorted(ffmpeg, clips, pair):
    result = ffmpeg.score(*clips(3, 5), f"feature=psnr:pair={pair}", output=RAW_OUTPUT)
    assert result.rows == same(0, 1, 2)
    assert output_size(ffmpeg) == 3
    assert len(result.warnings) == 1
    where = "(at 0.120000, 0.160000 s)" if pair == "nearest" else "(number 3, 4)"
    assert f"0 of 3 distorted frames and 2 of 5 reference frames {where} had no partner" in result.warnings[0]


def test_much_longer_reference_is_not_read_to_its_end(ffmpeg):
    """An endless reference: the run ends with the distorted video, and says that there was more."""
    result = ffmpeg.graph("testsrc2=s=32x32:d=0.4[d];testsrc2=s=32x32[r];[d][r]vmaf_gpu=feature=psnr")
    assert len(result.warnings) == 1
    assert "0 of 10 distorted frames and 33 or more of 43 or more reference frames (at 0.400000, 0.440000," in result.warnings[0]


@pytest.mark.parametrize("lengths", [(5, 3), (3, 5)])
def test_shortest(ffmpeg, clips, lengths):
    """The output too ends with the shorter input, and what the longer one has more is no fault."""
    result = ffmpeg.score(*clips(*lengths), "feature=psnr:shortest=1:strict=1", output=RAW_OUTPUT)
    assert result.rows == same(0, 1, 2)
    assert not result.warnings
    assert output_size(ffmpeg) == 3


@pytest.mark.parametrize("missing", [0, 4, 11])
@pytest.mark.parametrize("side", ["d", "r"])
def test_missing_frame(ffmpeg, clips, side, missing):
    """One frame is lost on one side: all others still find their partners."""
    other = "r" if side == "d" else "d"
    inputs = {"d": 0, "r": 1}
    drop = rf"[{inputs[side]}:v]select=not(eq(n\,{missing}))[{side}];[{inputs[other]}:v]null[{other}];[d][r]{{filter}}"
    result = ffmpeg.score(*clips(), graph=drop)
    assert result.rows == same(*(n for n in range(12) if n != missing))
    assert len(result.warnings) == 1 + (missing == 0)
    alone = f"1 of 12 {'reference' if side == 'd' else 'distorted'} frames (at {missing * 0.04:.6f} s)"
    assert alone in result.warnings[0]
    if missing == 0:
        assert "the streams begin at different times" in result.warnings[1]


# ---- Time stamps ----


def test_variable_frame_rate(ffmpeg, clips):
    """Steps of 1 to 6 units, and the two sides in different time bases."""
    times = "0.01*(N*(N+1)/2+N)"
    result = ffmpeg.score(
        *clips(), graph=f"[0:v]settb=1/1000,setpts={times}/TB[d];[1:v]settb=1/90000,setpts={times}/TB[r];[d][r]{{filter}}"
    )
    assert result.rows == same(*range(12))
    assert not result.warnings


def test_rounded_time_stamps(ffmpeg, clips):
    """29.97 fps in milliseconds against exact time stamps, both in mp4's time base and rounded to another's."""
    for base in ("1/30000", "1/1000", "1/600", "1001/30000"):
        result = ffmpeg.score(
            *clips(rate_distorted="30000/1001", rate_reference="30000/1001"),
            graph=f"[0:v]settb={base}[d];[1:v]settb=1/1000[r];[d][r]{{filter}}",
        )
        assert result.rows == same(*range(12)), base
        assert not result.warnings, base


@pytest.mark.parametrize("order", [("mp4", "mkv"), ("mkv", "mp4"), ("mkv", "ts"), ("mp4", "nut"), ("flv", "mp4")])
def test_one_stream_in_two_containers(ffmpeg, order):
    """The same H.264 stream in files with different time bases is identical to itself, in silence."""
    ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=s=64x48:r=30000/1001:d=3", "-c:v", "libx264", "-preset", "ultrafast", "-bf", "2"),
        *("-threads", "1", "-pix_fmt", "yuv420p", "a.mp4"),
    )
    files = []
    for number, name in enumerate(order):
        file = f"{number}.{name}"
        ffmpeg("-i", "a.mp4", "-c", "copy", *(["-f", "mpegts"] if name == "ts" else []), file)
        files.append(["-i", file])
    result = ffmpeg.score(*files, "feature=psnr:strict=1")
    assert result.rows == [{"psnr_y": 60.0, "psnr_cb": 60.0, "psnr_cr": 60.0}] * 90
    assert not result.warnings


@pytest.mark.parametrize("offset", [0.01, -0.019])
def test_constant_offset_within_half_a_frame(ffmpeg, clips, offset):
    result = ffmpeg.score(*clips(), graph=f"[0:v]settb=1/1000[d];[1:v]settb=1/1000,setpts=PTS+{offset}/TB[r];[d][r]{{filter}}")
    assert result.rows == same(*range(12))
    assert len(result.warnings) == 1
    word = "later" if offset > 0 else "earlier"
    assert f"constant offset: each reference frame is about {abs(offset):.6f} s {word} than its partner" in result.warnings[0]
    assert "setpts=PTS-STARTPTS" in result.warnings[0]


def test_offset_of_frames(ffmpeg, clips):
    """Time stamps decide: a reference that begins two frames later is compared from there on."""
    result = ffmpeg.score(*clips(), graph="[1:v]setpts=PTS+0.08/TB[r];[0:v][r]{filter}")
    assert result.rows == pairs(*((n + 2, n) for n in range(10)))
    assert len(result.warnings) == 2
    assert (
        "2 of 12 distorted frames (at 0.000000, 0.040000 s) and 2 of 12 reference frames (at 0.480000, 0.520000 s)"
        in result.warnings[0]
    )
    assert "distorted at 0.000000 s, reference at 0.080000 s, offset 0.080000 s" in result.warnings[1]


def test_offset_is_cured_by_the_filter_that_is_named(ffmpeg, clips):
    result = ffmpeg.score(
        *clips(),
        "feature=psnr:strict=1",
        graph="[0:v]setpts=PTS-STARTPTS[d];[1:v]setpts=PTS+0.08/TB,setpts=PTS-STARTPTS[r];[d][r]{filter}",
    )
    assert result.rows == same(*range(12))
    assert not result.warnings


def test_no_frame_has_a_partner(ffmpeg, clips):
    result = ffmpeg.score(*clips(), graph="[1:v]setpts=PTS+60/TB[r];[0:v][r]{filter}", output=RAW_OUTPUT)
    assert not result.rows and not result.log.exists()
    assert output_size(ffmpeg) == 12
    assert any("distorted 0.000000 to 0.440000 s, reference 60.000000 to 60.440000 s; insert setpts" in w for w in result.warnings)
    assert any("no frames were scored, and no log is written" in w for w in result.warnings)


def test_nearest_neighbour_wins(ffmpeg, clips):
    """
    Of two distorted frames within the tolerance of one reference frame the nearer is its partner; the other stays alone.
    Times in ms: distorted 0 40 [84 95] 120..., reference 0 40 [97] 120....
    """
    distorted = "if(eq(N,2),84,if(eq(N,3),95,if(gt(N,3),(N-1)*40,N*40)))"
    result = ffmpeg.score(
        *clips(), graph=f"[0:v]settb=1/1000,setpts='{distorted}'[d];[1:v]settb=1/1000,setpts='if(eq(N,2),97,N*40)'[r];[d][r]{{filter}}"
    )
    expected = [(0, 0), (1, 1), (3, 2)] + [(n + 1, n) for n in range(3, 11)]
    assert result.rows == pairs(*expected)
    assert "1 of 12 distorted frames (at 0.084000 s) and 1 of 12 reference frames (at 0.440000 s)" in result.warnings[0]


def test_neighbour_with_a_nearer_partner_is_left_to_it(ffmpeg, clips):
    """
    Times in ms: distorted ... 80 115 ..., reference ... 98 116 .... Frame 3 of the distorted clip is nearer to the reference's
    frame 2 than frame 2 is, but belongs to frame 3.
    """
    result = ffmpeg.score(
        *clips(),
        graph="[0:v]settb=1/1000,setpts='if(eq(N,3),115,N*40)'[d];"
        "[1:v]settb=1/1000,setpts='if(eq(N,2),98,if(eq(N,3),116,N*40))'[r];[d][r]{filter}",
    )
    assert result.rows == same(*range(12))
    assert not result.warnings


def test_each_reference_frame_is_used_once(ffmpeg, clips):
    """50 fps against 25: every second frame has a partner, and the rates are named."""
    result = ffmpeg.score(*clips(12, 6, rate_distorted="50"))
    assert result.rows == pairs(*((2 * n, n) for n in range(6)))
    assert len(result.warnings) == 2
    assert "the frame rates differ: distorted 50.000 fps, reference 25.000 fps" in result.warnings[0]
    assert "6 of 12 distorted frames" in result.warnings[1]


def test_nearly_equal_rates_are_the_same(ffmpeg, clips):
    result = ffmpeg.score(*clips(rate_distorted="2997/100", rate_reference="30000/1001"), "feature=psnr:strict=1")
    assert result.rows == same(*range(12))
    assert not result.warnings


def test_wrong_guess_of_the_frame_rate(ffmpeg):
    """A variable rate: containers guess 25 and 2000 fps for one stream. Its time stamps are the same, so nothing is said."""
    ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=s=64x48:d=2,settb=1/1000,setpts='(40*N+15*mod(N,3))/1000/TB'"),
        *("-fps_mode", "passthrough", "-enc_time_base", "1/1000", "-c:v", "libx264", "-preset", "ultrafast", "-bf", "0", "a.mp4"),
    )
    ffmpeg("-i", "a.mp4", "-c", "copy", "a.nut")
    for files in ("a.mp4", "a.nut"), ("a.nut", "a.mp4"):
        result = ffmpeg.score(["-i", files[0]], ["-i", files[1]], "feature=psnr:strict=1")
        assert [row["psnr_y"] for row in result.rows] == [60.0] * 50
        assert not result.warnings


def test_slightly_different_rates_are_found(ffmpeg):
    """25 against 25.1 fps: for a minute frames drift apart unseen; said early, in the run."""
    result = ffmpeg.graph("testsrc2=s=32x32:d=3[d];testsrc2=s=32x32:d=3:r=25.1[r];[d][r]vmaf_gpu=feature=psnr")
    assert "the frame rates differ: distorted 25.000 fps, reference 25.100 fps; bring both to one with fps" in result.warnings[0]


def test_unknown_frame_rate(ffmpeg, clips):
    """setpts leaves the rate of its output unknown (1/0): the steps of time stamps are all there is."""
    result = ffmpeg.score(*clips(), graph="[0:v]setpts=PTS[d];[1:v]setpts=PTS[r];[d][r]{filter}")
    assert result.rows == same(*range(12))
    assert not result.warnings


def test_single_frames_of_unknown_rate_are_partners(ffmpeg, clips):
    result = ffmpeg.score(*clips(1, 1), graph="[0:v]setpts=0[d];[1:v]setpts=0.5/TB[r];[d][r]{filter}")
    assert result.rows == same(0)


def test_frames_without_time_stamps(ffmpeg, clips):
    result = ffmpeg.score(*clips(), graph="[0:v]setpts=NAN[d];[d][1:v]{filter}", fails=True)
    assert "distorted frame 0 has no time stamp: use pair=index" in result.errors[0]

    result = ffmpeg.score(*clips(), "feature=psnr:pair=index", graph="[0:v]setpts=NAN[d];[d][1:v]{filter}", fails=None)
    assert result.rows == same(*range(12))


@pytest.mark.parametrize("pts", ["9e18", "-9e18", r"if(N\,9e18\,-9e18)"])
def test_time_stamps_beyond_all_bounds(ffmpeg, clips, pts):
    graph = f"[0:v]settb=1,setpts='{pts}'[d];[d][1:v]{{filter}}"
    result = ffmpeg.score(*clips(), graph=graph, fails=True)
    assert any("has the time stamp" in text and "out of range: insert setpts" in text for text in result.errors)


def test_time_stamps_that_go_back_do_not_hang(ffmpeg, clips):
    result = ffmpeg.score(*clips(), graph=r"[0:v]setpts='if(eq(mod(N\,3)\,2)\,N-2\,N)/25/TB'[d];[d][1:v]{filter}", fails=None)
    assert 4 <= len(result.rows) <= 12


# ---- pair=index ----


def test_index_ignores_time_stamps(ffmpeg, clips):
    result = ffmpeg.score(
        *clips(10, 10, "25", "60"), "feature=psnr:pair=index", graph="[0:v]setpts=PTS+7/TB[d];[d][1:v]{filter}"
    )
    assert result.rows == same(*range(10))


# ---- pair=framesync: libvmaf's behaviour ----


@pytest.mark.parametrize(
    "lengths, options, expected",
    [
        ((3, 5), "", [(0, 0), (1, 1), (2, 2), (2, 3), (2, 4)]),
        ((5, 3), "", [(0, 0), (1, 1), (2, 2), (3, 2), (4, 2)]),
        ((5, 3), "shortest=1", [(0, 0), (1, 1), (2, 2)]),
        ((3, 5), "shortest=1", [(0, 0), (1, 1), (2, 2)]),
        ((5, 3), "eof_action=endall", [(0, 0), (1, 1), (2, 2)]),
        ((5, 3), "eof_action=pass", [(0, 0), (1, 1), (2, 2)]),
        ((5, 3), "eof_action=repeat", [(0, 0), (1, 1), (2, 2), (3, 2), (4, 2)]),
        ((5, 3), "repeatlast=0", [(0, 0), (1, 1), (2, 2)]),
    ],
)
@pytest.mark.parametrize("metadata", [0, 1])
def test_framesync_lengths(ffmpeg, clips, lengths, options, expected, metadata):
    result = ffmpeg.score(
        *clips(*lengths), ":".join(filter(None, ("feature=psnr:pair=framesync", f"metadata={metadata}", options))), output=RAW_OUTPUT
    )
    assert result.rows == pairs(*expected)
    passes = "pass" in options or "repeatlast=0" in options
    assert output_size(ffmpeg) == (5 if passes else len(expected))
    if passes:
        assert "2 of 5 distorted frames (at 0.120000, 0.160000 s) had no partner" in result.warnings[0]
    else:
        assert not result.warnings


def test_framesync_pairs_with_the_earlier_frame(ffmpeg, clips):
    """Frames before the reference's first pass unscored; afterwards the latest reference frame that is not later."""
    graph = "[0:v]settb=1/1000[d];[1:v]settb=1/1000,setpts=PTS+0.01/TB[r];[d][r]{filter}"
    result = ffmpeg.score(*clips(5, 5), "feature=psnr:pair=framesync:shortest=1", graph=graph)
    assert result.rows == pairs((1, 0), (2, 1), (3, 2), (4, 3))
    assert "1 of 5 distorted frames (at 0.000000 s) had no partner" in result.warnings[0]

    result = ffmpeg.score(*clips(5, 5), "feature=psnr:pair=framesync:ts_sync_mode=nearest:eof_action=endall", graph=graph)
    assert result.rows[:3] == same(1, 2, 3)


# ---- strict ----


@pytest.mark.parametrize(
    "options, lengths, graph, word",
    [
        ("", (5, 3), "[0:v][1:v]{filter}", "2 of 5 distorted frames"),
        ("", (3, 5), "[0:v][1:v]{filter}", "2 of 5 reference frames"),
        (":pair=index", (3, 5), "[0:v][1:v]{filter}", "2 of 5 reference frames"),
        ("", (5, 5), "[1:v]setpts=PTS+0.08/TB[r];[0:v][r]{filter}", "begin at different times"),
        ("", (5, 5), "[0:v]settb=1/1000[d];[1:v]settb=1/1000,setpts=PTS+0.015/TB[r];[d][r]{filter}", "constant offset"),
        ("", (5, 5), "[1:v]setpts=PTS+60/TB[r];[0:v][r]{filter}", "the time stamps do not meet"),
        (":pair=framesync:eof_action=pass", (5, 3), "[0:v][1:v]{filter}", "2 of 5 distorted frames"),
    ],
)
def test_strict_makes_errors_of_warnings(ffmpeg, clips, options, lengths, graph, word):
    """The exit status tells; log and summary are there all the same."""
    lax = ffmpeg.score(*clips(*lengths), "feature=psnr" + options, graph=graph)
    strict = ffmpeg.score(*clips(*lengths), "feature=psnr:strict=1" + options, graph=graph, fails=True, log="info")
    assert strict.rows == lax.rows
    assert word in strict.stderr
    assert any(word in text for text in lax.warnings)
    assert not any(word in text for text in strict.warnings)
    if lax.rows:
        assert " psnr_y " in strict.stderr


@pytest.mark.parametrize("lengths, again", [((5, 3), (0, 2)), ((3, 5), (2, 0))])
def test_strict_sees_what_framesync_repeats(ffmpeg, clips, lengths, again):
    """FFmpeg's framesync repeats frames in silence: said at level info, an error with strict."""
    told = "of 5 pairs, %d use a distorted and %d a reference frame again" % again
    lax = ffmpeg.score(*clips(*lengths), "feature=psnr:pair=framesync", log="info")
    assert told in lax.stderr and not lax.warnings
    strict = ffmpeg.score(*clips(*lengths), "feature=psnr:pair=framesync:strict=1", fails=True)
    assert strict.errors == [told]
    assert strict.rows == lax.rows
    ffmpeg.score(*clips(5, 5), "feature=psnr:pair=framesync:strict=1")


def test_strict_refuses_different_rates(ffmpeg, clips):
    result = ffmpeg.score(*clips(6, 12, rate_reference="50"), "feature=psnr:strict=1", fails=True)
    assert any("the frame rates differ" in text for text in result.errors)


def test_strict_accepts_what_fits(ffmpeg, clips):
    result = ffmpeg.score(*clips(), "feature=psnr:strict=1")
    assert result.rows == same(*range(12))
    assert not result.errors
