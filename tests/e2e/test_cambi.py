# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""CAMBI through ffmpeg: scores by definition, options and keys, heatmap files, refusals."""

import pytest

from banding import bands, cambi, heatmaps
from clips import LAYOUTS
from conftest import scores

REFERENCE, DISTORTED = bands(700, 3), bands(701, 5).pick([2, 3, 4])


@pytest.fixture
def clips(ffmpeg):
    return DISTORTED.write(ffmpeg.folder / "d.raw"), REFERENCE.write(ffmpeg.folder / "r.raw")


def expected_rows(distorted, reference, cap=1000.0, suffix="", plain=True, **options):
    """With full_ref."""
    (d, capped), (r, capped_r) = (cambi(clip, cap=cap, **options) for clip in (distorted, reference))
    return [
        {
            "cambi" + suffix: a,
            "cambi_source" + ("" if plain else suffix): b,
            "cambi_full_reference" + ("" if plain else suffix): min(max(x - y, 0.0), cap),
        }
        for a, b, x, y in zip(capped, capped_r, d, r)
    ]


# ---- Scores ----


@pytest.mark.parametrize(
    "pix_fmt", ["gray", "yuv420p", "nv12", "gray9", "yuv420p9", "yuv444p10", "p010", "nv20", "yuv422p12", "gray14", "yuv420p14", "p016"]
)
def test_scores_of_every_depth(ffmpeg, pix_fmt):
    chroma, depth, _, _ = LAYOUTS[pix_fmt]
    reference, distorted = bands(703, 2, chroma=chroma, depth=depth), bands(704, 2, 217, 33, chroma=chroma, depth=depth)
    result = ffmpeg.score(
        *(clip.write(ffmpeg.folder / f"{clip.width}.raw", pix_fmt) for clip in (reference, reference)), "feature=cambi"
    )
    expected = cambi(reference)[0]
    assert min(expected) > 0.01
    assert result.rows == [{"cambi": score} for score in expected]
    source = distorted.write(ffmpeg.folder / "odd.raw", pix_fmt)
    assert ffmpeg.score(source, source, "feature=cambi").rows == [{"cambi": score} for score in cambi(distorted)[0]]


@pytest.mark.parametrize("depth", [9, 11, 13, 14, 15])
def test_depths_without_a_format_of_their_own(ffmpeg, depth):
    clip = bands(705, 2, depth=depth)
    source = clip.write(ffmpeg.folder / "r.raw", "yuv420p16")
    result = ffmpeg.score(source, source, f"feature=cambi:bit_depth={depth}")
    assert result.rows == [{"cambi": score} for score in cambi(clip)[0]]


@pytest.mark.parametrize(
    "feature, suffix, options",
    [
        ("full_ref=true", "", {}),
        ("full_ref=true:window_size=127:topk=0.25", "_topk_0.25_ws_127", {"window_size": 127, "topk": 0.25}),
        ("cambi_topk=0.3:full_ref=true:max_log_contrast=3", "_ctpk_0.3_mlc_3", {"topk": 0.3, "max_log_contrast": 3}),
        ("full_ref=true:eotf=pq", "_eotf_pq", {"eotf": "pq"}),
        ("full_ref=true:cambi_eotf=pq:eotf=none", "_ceot_pq_eotf_none", {"eotf": "pq"}),
        ("full_ref=true:enc_bitdepth=10:max_log_contrast=4", "_encbd_10_mlc_4", {"enc_bitdepth": 10, "max_log_contrast": 4}),
        ("full_ref=true:cambi_vis_lum_threshold=0.06", "_vlt_0.06", {"dark": 78}),
        ("full_ref=true:cambi_max_val=0.5", "_cmxv_0.5", {"cap": 0.5}),
        ("full_ref=true:enc_width=640:enc_height=360:cambi_high_res_speedup=1080", "_hrs_1080_ench_360_encw_640", {}),
        # the dark limit is above all levels that count: nothing does
        ("full_ref=true:cambi_vis_lum_threshold=300:max_log_contrast=0", "_vlt_300_mlc_0", {"dark": 940, "max_log_contrast": 0}),
    ],
)
def test_options_and_keys(ffmpeg, clips, feature, suffix, options):
    """As libvmaf's users write them."""
    result = ffmpeg.score(*clips, "feature='name=cambi:{}'".format(feature).replace(":", r"\:"))
    assert result.rows == expected_rows(DISTORTED, REFERENCE, suffix=suffix, **options)
    assert not result.warnings


def test_several_instances(ffmpeg, clips):
    """One with full_ref has libvmaf's keys. Of several each has its own, where libvmaf's would collide."""
    one = ffmpeg.score(*clips, r"feature='cambi\:eotf=pq|cambi\:full_ref=true\:topk=0.5'")
    rows = expected_rows(DISTORTED, REFERENCE, suffix="_topk_0.5", topk=0.5)
    assert one.rows == [{"cambi_eotf_pq": score} | row for score, row in zip(cambi(DISTORTED, eotf="pq")[0], rows)]

    several = ffmpeg.score(*clips, r"feature='cambi\:full_ref=true|cambi\:full_ref=true\:topk=0.5|psnr'", log="verbose")
    plain, suffixed = expected_rows(DISTORTED, REFERENCE), expected_rows(DISTORTED, REFERENCE, suffix="_topk_0.5", plain=False, topk=0.5)
    for row, a, b in zip(several.rows, plain, suffixed):
        assert [*row][:6] == [*a, *b]
        assert row.items() >= (a | b).items()


def test_passes_are_shared(ffmpeg, clips):
    """Instances that differ only in what is made of the scores, or in full_ref, are one pass."""
    result = ffmpeg.score(*clips, r"feature='cambi\:cambi_max_val=0.5|cambi\:full_ref=true|cambi'", log="verbose")
    assert result.stderr.count("cambi on the CPU: ") == 1
    for row, expected in zip(result.rows, expected_rows(DISTORTED, REFERENCE)):
        assert row == {"cambi_cmxv_0.5": min(expected["cambi"], 0.5)} | expected


# ---- Heatmaps ----


def files_of(folder, clip):
    width, height, contents = clip.width, clip.height, []
    assert len(list(folder.iterdir())) == 5
    for scale in range(5):
        contents.append((folder / f"cambi_heatmap_scale_{scale}_{width}x{height}_16b.gray").read_bytes())
        width, height = (width + 1) // 2, (height + 1) // 2
    return contents


def test_heatmaps(ffmpeg, clips):
    """In frame order, of the distorted picture, whatever the number of threads; a second run begins anew."""
    folder = ffmpeg.folder / "maps"
    expected = heatmaps(DISTORTED)
    for threads in (1, 3):
        result = ffmpeg.score(*clips, rf"feature='name=cambi\:full_ref=true\:heatmaps_path={folder}':n_threads={threads}")
        assert files_of(folder, DISTORTED) == expected
        assert result.rows == expected_rows(DISTORTED, REFERENCE)
    assert any(any(file) for file in expected)

    # room is left for frames that are not scored
    ffmpeg.score(*clips, rf"feature='name=cambi\:heatmaps_path={folder}':n_subsample=2")
    for file, whole in zip(files_of(folder, DISTORTED), expected):
        size = len(whole) // 3
        assert file == whole[:size] + bytes(size) + whole[2 * size :]


def test_heatmaps_of_two_instances(ffmpeg, clips):
    ffmpeg.score(*clips, r"feature='cambi\:heatmaps_path=a|cambi\:max_log_contrast=3\:heatmaps_path=b'")
    assert files_of(ffmpeg.folder / "a", DISTORTED) == heatmaps(DISTORTED)
    assert files_of(ffmpeg.folder / "b", DISTORTED) == heatmaps(DISTORTED, max_log_contrast=3)


def test_heatmaps_that_cannot_be_written(ffmpeg, clips):
    (ffmpeg.folder / "file").write_text("mine")
    for path, words in (("file", "Not a directory"), ("no/folder", "No such file or directory")):
        result = ffmpeg.score(*clips, rf"feature='cambi\:heatmaps_path={path}'", fails=True)
        errors = [text for text in result.errors if "heatmaps" in text]
        assert len(errors) == 1
        assert errors[0].startswith(f"cambi, frame 0: could not write heatmaps to '{path}")
        assert errors[0].endswith(f"{words}: give heatmaps_path a folder that can be written to, or leave it out")
    assert (ffmpeg.folder / "file").read_text() == "mine"
    # nothing is left of the scales before the one that cannot be written
    folder = ffmpeg.folder / "maps"
    blocker = folder / "cambi_heatmap_scale_2_{}x{}_16b.gray".format(*((size + 3) // 4 for size in (DISTORTED.width, DISTORTED.height)))
    blocker.mkdir(parents=True)
    ffmpeg.score(*clips, rf"feature='cambi\:heatmaps_path={folder}'", fails=True)
    assert list(folder.iterdir()) == [blocker]


def test_heatmaps_in_the_same_folder(ffmpeg, clips):
    """By other names, which no comparison of options finds: the later ones win, and that is said."""
    result = ffmpeg.score(*clips, r"feature='cambi\:heatmaps_path=a|cambi\:max_log_contrast=3\:heatmaps_path=./a'")
    warnings = [text for text in result.warnings if "heatmaps" in text]
    assert len(warnings) == 1 and warnings[0].endswith("give each a heatmaps_path of its own")
    ffmpeg.score(*clips, r"feature='cambi\:heatmaps_path=a'")  # another run may


def test_errors_in_the_last_frames_leave_no_log(ffmpeg):
    """Whether they are found while frames still come or at the end, which is a matter of chance."""
    clip = bands(707, 6, depth=10)
    good = clip.write(ffmpeg.folder / "good.raw")
    bad = with_sample(clip, 4, 1040).write(ffmpeg.folder / "bad.raw")
    for _ in range(12):
        assert not ffmpeg.score(bad, good, "feature=cambi", fails=True).log.exists()


# ---- Refusals ----


def with_sample(clip, frame, value):
    frames = [[plane[:] for plane in planes] for planes in clip.frames]
    frames[frame][0][1000] = value
    return clip.with_frames(frames)


def test_samples_beyond_the_depth(ffmpeg):
    """End the run, on the side that is scored, before the frame's score is in the log."""
    clip = bands(706, 3, depth=10)
    good = clip.write(ffmpeg.folder / "good.raw")
    bad = with_sample(clip, 1, 1040).write(ffmpeg.folder / "bad.raw")
    message = (
        "cambi, frame 1: the {} picture has a luma sample of 1040, but 10 bits end at 1023: give the depth that the samples have, or "
        "limit them first"
    )

    result = ffmpeg.score(bad, good, "feature=cambi", fails=True)
    assert [text for text in result.errors if "sample" in text] == [message.format("distorted")]
    result = ffmpeg.score(good, bad, r"feature=cambi\\:full_ref=true", fails=True)
    assert [text for text in result.errors if "sample" in text] == [message.format("reference")]
    # the reference is not looked at without full_ref
    assert ffmpeg.score(good, bad, "feature=cambi").rows == [{"cambi": score} for score in cambi(clip)[0]]


@pytest.mark.parametrize(
    "options, message",
    [
        ("enc_width=179", "enc_width=179 is out of range: give a value from 180 to 7680"),
        ("enc_height=0", "enc_height=0 is out of range: give a value from 150 to 7680"),
        ("window_size=14", "window_size=14 is out of range: give a value from 15 to 127"),
        ("full_ref=1", "full_ref='1' is not a boolean: give 'true' or 'false'"),
        ("topk=0", "topk=0 is out of range: give a value from 0.0001 to 1"),
        ("encw=640", "unknown option 'encw' of cambi, nearest is 'enc_width'"),
        ("eotf=hlg", "cambi does not know eotf=hlg: give bt1886 or pq"),
        ("cambi_eotf=hlg", "cambi does not know cambi_eotf=hlg: give bt1886 or pq"),
        ("enc_width=200:enc_height=150", "enc_width and enc_height ask for 200x150: raise one of them"),
        ("src_width=320:src_height=200", "is wider and lower than the distorted picture's"),
        ("heatmaps_path=", "cambi's heatmaps_path is empty: give a folder, or leave it out"),
    ],
)
def test_bad_options(ffmpeg, options, message):
    feature = options.replace(":", r"\:")
    result = ffmpeg.graph(rf"color=s=300x240:d=1,split[d][r];[d][r]vmaf_gpu=feature='cambi\:{feature}'", fails=True)
    assert sum(message in text for text in result.errors) == 1, result.errors
    assert "no frames were scored" not in result.stderr


@pytest.mark.parametrize(
    "size, feature, message",
    [
        ("200x120", "cambi", "at least 216 samples wide or high, got 200x120: leave it out"),
        ("16384x8640", "cambi", "window_size=65 gives 271 at 16384x8640: use a smaller window_size, or set enc_width and enc_height"),
        ("300x240", r"cambi\\:heatmaps_path=x|cambi\\:eotf=pq\\:heatmaps_path=x", "with heatmaps_path=x, and one would overwrite"),
    ],
)
def test_what_cannot_be_scored(ffmpeg, size, feature, message):
    result = ffmpeg.graph(rf"color=s={size}:d=0.04,split[d][r];[d][r]vmaf_gpu=feature={feature}", fails=True)
    assert sum(message in text for text in result.errors) == 1, result.errors


def test_windows_that_libvmaf_refuses(ffmpeg):
    """DCI 4K by default, and a resampled size with a large window."""
    result = ffmpeg.graph("color=s=4096x2160:d=0.04:c=gray,split[d][r];[d][r]vmaf_gpu=feature=cambi:log_path=log.json:log_fmt=json")
    assert not result.errors
    assert '"cambi": 0.000000' in (ffmpeg.folder / "log.json").read_text()


# ---- On a device ----

INSTANCES = (
    r"feature='psnr|cambi|cambi\:full_ref=true\:cambi_high_res_speedup=1080\:cambi_vis_lum_threshold=0.06\:cambi_max_val=17|"
    r"cambi\:window_size=127\:max_log_contrast=5\:eotf=pq\:full_ref=true\:src_width=320\:src_height=200'"
)


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "nv12", "gray9", "p010", "yuv444p12", "yuv420p14", "p016"])
def test_software_frames_on_the_device(ffmpeg, gpu, pix_fmt):
    """Device and CPU agree in every record, and the log is the CPU's."""
    chroma, depth, _, _ = LAYOUTS[pix_fmt]
    clips = [bands(seed, 4, chroma=chroma, depth=depth).write(gpu.folder / f"{seed}.raw", pix_fmt) for seed in (710, 711)]
    features = INSTANCES if depth not in (9, 14) else INSTANCES.replace("psnr|", "")
    expected = scores(ffmpeg.score(*clips, features + ":backend=cpu"))
    for device in ({}, {"ORDER": 3, "WAVE": 64}, {"WAVE": 16, "SHARED": 65536}):
        result = gpu.score(*clips, features + ":backend=cuda:parity=strict", device=device, log="info")
        assert scores(result) == expected
        assert "of 4 frames compared, all equal" in result.stderr


@pytest.mark.parametrize("pix_fmt", ["nv12", "p010"])
def test_uploaded_frames(ffmpeg, gpu, pix_fmt):
    chroma, depth, _, _ = LAYOUTS[pix_fmt]
    clips = [bands(seed, 4, chroma=chroma, depth=depth).write(gpu.folder / f"{seed}.raw", pix_fmt) for seed in (712, 713)]
    expected = scores(ffmpeg.score(*clips, INSTANCES + ":backend=cpu"))
    assert scores(gpu.upload(*clips, INSTANCES)) == expected
    assert scores(gpu.upload(*clips, INSTANCES + ":parity=strict")) == expected


def test_heatmaps_from_the_device(ffmpeg, gpu, clips):
    """The files are the CPU's; parity compares them, too, and names the first sample that differs."""
    feature = rf"feature='name=cambi\:full_ref=true\:heatmaps_path={gpu.folder / 'maps'}':backend=cuda"
    gpu.score(*clips, feature)
    assert files_of(gpu.folder / "maps", DISTORTED) == heatmaps(DISTORTED)
    gpu.score(*clips, feature + ":parity=strict")
    assert files_of(gpu.folder / "maps", DISTORTED) == heatmaps(DISTORTED)

    record, sample = 2 * 5 * 8 + 2 * 4, 3 * DISTORTED.width + 7
    result = gpu.score(*clips, feature + ":parity=strict", device={"FLIP": f"2:{record + 2 * sample}"}, fails=True)
    assert [text for text in result.errors if "parity: frame 1, cambi, heatmap of scale 0 at x 7, y 3: the device has" in text]


def test_samples_beyond_the_depth_on_the_device(gpu):
    clip = bands(714, 3, depth=10)
    bad = with_sample(clip, 1, 1040).write(gpu.folder / "bad.raw")
    good = clip.write(gpu.folder / "good.raw")
    result = gpu.score(bad, good, "feature=cambi:backend=cuda", fails=True)
    assert [text for text in result.errors if "frame 1: the distorted picture has a luma sample of 1040" in text]
    assert gpu.score(good, bad, "feature=cambi:backend=cuda").rows == [{"cambi": score} for score in cambi(clip)[0]]
