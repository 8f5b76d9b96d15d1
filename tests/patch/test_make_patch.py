# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause

"""The committed patches are what patches/make_patch writes, they apply, and the generator refuses what it cannot do."""

import importlib.machinery
import importlib.util
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "patches" / "make_patch"
PATCHES = sorted((ROOT / "patches").glob("ffmpeg-*.patch"))


def load_generator():
    loader = importlib.machinery.SourceFileLoader("make_patch", str(GENERATOR))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_patch", loader))
    loader.exec_module(module)
    return module


make_patch = load_generator()


def run(*command, **options):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, **options)


@pytest.fixture(params=PATCHES, ids=lambda path: path.stem)
def patch(request):
    return request.param


@pytest.fixture(scope="session")
def originals(tmp_path_factory):
    """Per patch the files of FFmpeg that it changes."""
    folders = {}
    for path in PATCHES:
        folders[path] = tmp_path_factory.mktemp(path.stem) / "ffmpeg"
        release = path.stem.removeprefix("ffmpeg-")
        done = run(ROOT / "tools" / "ffmpeg_source", release, folders[path], *make_patch.files())
        assert done.returncode == 0, done.stderr
    return folders


@pytest.fixture
def source(patch, originals, tmp_path):
    return pathlib.Path(shutil.copytree(originals[patch], tmp_path / "ffmpeg"))


def test_a_patch_is_there():
    assert PATCHES


def test_committed_patch_is_current(patch, source):
    done = run(GENERATOR, source, "--check", patch)
    assert done.returncode == 0, done.stderr


def test_patch_applies_and_only_adds(patch, source):
    before = {name: (source / name).read_text(encoding="latin-1").splitlines() for name in make_patch.files()}
    done = run("patch", "-p1", "--fuzz=0", "-d", source, "-i", patch)
    assert done.returncode == 0, done.stdout
    added = []
    for name, old in before.items():
        rest = iter(old)
        expected = next(rest, None)
        for line in (source / name).read_text(encoding="latin-1").splitlines():
            if line == expected:
                expected = next(rest, None)
            else:
                added.append(line)
        assert expected is None, f"{name}: '{expected}' is gone"
    wanted = [line for edit in make_patch.EDITS for line in edit[3].splitlines()]
    assert sorted(re.sub("AVFilter|FFFilter", "{FILTER}", line) for line in added) == sorted(wanted)
    assert run("sh", "-n", source / "configure").returncode == 0


def test_patched_source_is_refused(patch, source):
    assert run("patch", "-p1", "-d", source, "-i", patch).returncode == 0
    done = run(GENERATOR, source)
    assert done.returncode == 1
    assert "patched already" in done.stderr


@pytest.mark.parametrize("edit", make_patch.EDITS, ids=lambda edit: f"{edit[0]}-{edit[3].split()[0].strip('-')}")
def test_missing_and_doubled_anchors_are_named(edit, source):
    name, _, anchor, _ = edit
    file = source / name
    text = file.read_text(encoding="latin-1")
    line = re.search(f"^{anchor}\n", text, re.MULTILINE).group()

    file.write_text(text.replace(line, "", 1), encoding="latin-1")
    done = run(GENERATOR, source)
    assert done.returncode == 1
    assert done.stderr.startswith(f"make_patch: {name}: no line matches the anchor '{anchor}'")

    file.write_text(text.replace(line, line + line, 1), encoding="latin-1")
    done = run(GENERATOR, source)
    assert done.returncode == 1
    assert done.stderr.startswith(f"make_patch: {name}: 2 lines match the anchor '{anchor}'")


@pytest.mark.parametrize("edit", [edit for edit in make_patch.EDITS if edit[1] == "end"], ids=lambda edit: edit[0])
def test_blocks_without_an_end_are_named(edit, source):
    name, _, anchor, _ = edit
    file = source / name
    text = file.read_text(encoding="latin-1")
    match = re.search(f"^{anchor}\n", text, re.MULTILINE)
    file.write_text(text[: match.end()], encoding="latin-1")
    done = run(GENERATOR, source)
    assert done.returncode == 1
    assert done.stderr.startswith(f"make_patch: {name}: no line '}};' ends what begins with ")


def test_additions_stand_where_they_must(patch, source):
    """Values that follow would move: the device type is the last of its list, the pixel format the last before the end mark."""
    assert run("patch", "-p1", "-d", source, "-i", patch).returncode == 0
    types = re.search(r"^enum AVHWDeviceType \{\n(.*?)^\};", (source / "libavutil/hwcontext.h").read_text(), re.MULTILINE | re.DOTALL)
    assert types[1].splitlines()[-1] == "    AV_HWDEVICE_TYPE_HIP = 64,"
    formats = re.search(r"^enum AVPixelFormat \{\n(.*?)^\};", (source / "libavutil/pixfmt.h").read_text(), re.MULTILINE | re.DOTALL)
    names = re.findall(r"^    (AV_PIX_FMT_\w+)", formats[1], re.MULTILINE)
    assert names[-2:] == ["AV_PIX_FMT_HIP", "AV_PIX_FMT_NB"]


def test_check_finds_changes_but_not_shifts(patch, source, tmp_path):
    text = patch.read_text(encoding="latin-1")
    shifted = tmp_path / "shifted.patch"
    shifted.write_text(re.sub(r"@@ -\d+,", "@@ -7,", text), encoding="latin-1")
    assert run(GENERATOR, source, "--check", shifted).returncode == 0

    changed = tmp_path / "changed.patch"
    changed.write_text(text.replace("vf_vmaf_gpu.o", "vf_vmafgpu.o"), encoding="latin-1")
    done = run(GENERATOR, source, "--check", changed)
    assert done.returncode == 1
    assert "out of date" in done.stderr


def test_filter_type_follows_the_release(source):
    file = source / "libavfilter" / "allfilters.c"
    text = file.read_text(encoding="latin-1")
    for filter_type in "AVFilter", "FFFilter":
        file.write_text(re.sub(r"^extern const \w+ ff_", f"extern const {filter_type} ff_", text, flags=re.MULTILINE),
                        encoding="latin-1")
        done = run(GENERATOR, source)
        assert done.returncode == 0, done.stderr
        assert f"+extern const {filter_type} ff_vf_vmaf_gpu;\n" in done.stdout


def test_other_folders_are_refused(tmp_path):
    done = run(GENERATOR, tmp_path)
    assert done.returncode == 1
    assert "not an unpacked FFmpeg source" in done.stderr
