# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""The build machine's part of tests/hw/run: programs, libraries, clips and golden data in one folder that can be carried."""

import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "lib"
FFMPEG = ROOT / "build" / "ffmpeg-7.1" / "ffmpeg"
MOST = 100 << 20

# What every system with our C library has, and what belongs to the driver.
NOT_CARRIED = re.compile(r"(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|cuda|amdhip64|nvcuvid|nvidia-.*))\.so.*")
# What fits the drivers of a machine that has them: carried apart, for one that has none.
DRIVERS = re.compile(r"lib(va|drm)[-.\w]*\.so.*")

# Clips: codec and depth, size, frames, and the constant rate factors of reference and distorted.
CLIPS = {
    "h264_8": ("x264", 8, "576x324", 150, (18, 34)),
    "hevc_8": ("x265", 8, "576x324", 60, (18, 36)),
    "hevc_10": ("x265", 10, "576x324", 60, (18, 36)),
    "h264_8_4k": ("x264", 8, "3840x2160", 100, (24, 36)),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def call(*command, **options):
    """Runs a command; its output is shown if it fails, which ends the program."""
    command = [str(word) for word in command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nfailed ({done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def build():
    # Debian's runtime for AMD would only stand in the way of the one that is to be tested. What else is missing, the build says.
    subprocess.run([ROOT / "tools" / "setup", "--without", "libamdhip64-5"], check=False, stdout=sys.stderr)
    say("building")
    subprocess.run([ROOT / "tools" / "ffmpeg_build"], check=True, stdout=sys.stderr)
    call("ninja", "-C", BUILD, "bench_gpu")


def device_tests():
    """Tests that run on the software device in the build folder, by name: their programs, and environment."""
    for test in json.loads(call("meson", "introspect", "--tests", BUILD)):
        if "KERNELS_BACKEND" in test["env"]:
            continue  # the same program once more
        environment = {k: v for k, v in test["env"].items() if "softgpu" not in v}
        if len(environment) < len(test["env"]) and test["protocol"] == "tap" and len(test["cmd"]) == 1:
            yield test["name"], pathlib.Path(test["cmd"][0]), environment


def carry_program(source, folder):
    target = folder / "bin" / source.name
    shutil.copy2(source, target)
    call("strip", target)
    for line in call("ldd", source).splitlines():
        found = re.match(r"\s*(\S+) => (/\S+)", line)
        if found and not NOT_CARRIED.fullmatch(found.group(1)):
            library = folder / ("drivers" if DRIVERS.fullmatch(found.group(1)) else "lib") / found.group(1)
            shutil.copy2(os.path.realpath(found.group(2)), library)


def carry_tests(folder):
    """Copies what can run on a driver. Returns NAME -> environment or the reason why not."""
    tests = {}
    for name, program, environment in device_tests():
        if re.search(r"\bU softgpu_", call("nm", "-D", "--undefined-only", program)):
            tests[name] = "calls functions that only the software device has"
            continue
        carry_program(program, folder)
        golden = {k: "golden" for k, v in environment.items() if k == "GOLDEN_DIR"}
        tests[name] = {"program": program.name, "environment": environment | golden}
    return tests


# ---- Clips -----------------------------------------------------------------------------------------------------------

def find_x265():
    """Debian's x265: installed, or unpacked beside the build. Returns the command's path and its environment, or None."""
    if shutil.which("x265"):
        return shutil.which("x265"), {}
    folder = ROOT / "build" / "x265"
    libraries = list(folder.glob("usr/lib/*-linux-gnu"))
    if not libraries and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        folder.mkdir(parents=True, exist_ok=True)
        depends = subprocess.run(["apt-cache", "depends", "x265"], capture_output=True, text=True, check=False).stdout
        library = re.findall(r"Depends: (libx265-\d+)", depends)
        done = subprocess.run(["apt-get", "-o", "APT::Sandbox::User=root", "download", "x265", "libnuma1", *library], cwd=folder,
                              capture_output=True, text=True, check=False)
        if done.returncode == 0:
            for package in folder.glob("*.deb"):
                call("dpkg-deb", "-x", package, folder)
        libraries = list(folder.glob("usr/lib/*-linux-gnu"))
    program = folder / "usr" / "bin" / "x265"
    return (str(program), {"LD_LIBRARY_PATH": str(libraries[0])}) if libraries and program.exists() else None


def make_pair(encoder, depth, size, frames, rates, names, x265):
    """Encodes a moving test picture with grain twice."""
    source = f"testsrc2=s={size}:r=25,noise=alls=6:allf=t"
    form = "yuv420p" if depth == 8 else "yuv420p10"
    raw = [FFMPEG, "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", source, "-frames:v", frames, "-pix_fmt", form]
    for rate, name in zip(rates, names):
        if encoder == "x264":
            call(*raw, "-c:v", "libx264", "-preset", "veryfast", "-crf", rate, name)
            continue
        stream = name.with_suffix(".y4m")
        call(*raw, "-strict", "-1", "-f", "yuv4mpegpipe", stream)
        program, environment = x265
        call(program, "--y4m", stream, "--output-depth", depth, "--preset", "veryfast", "--crf", rate, "-o", name,
             env=os.environ | environment)
        stream.unlink()


def make_clips(folder, given, quick):
    """Returns NAME -> [distorted, reference], or the reason why there are none."""
    kept = ROOT / "build" / "hw-clips"
    kept.mkdir(parents=True, exist_ok=True)
    clips, x265 = {}, None
    for name, (encoder, depth, size, frames, rates) in CLIPS.items():
        if quick and size == "3840x2160":
            clips[name] = "not made for a quick run"
            continue
        ending = "mkv" if encoder == "x264" else "hevc"
        files = [f"{name}_{side}.{ending}" for side in ("reference", "distorted")]
        if given:
            found = [sorted(given.glob(f"{name}_{side}.*")) for side in ("reference", "distorted")]
            if not all(found):
                clips[name] = f"not among the given clips ({name}_reference.* and {name}_distorted.*)"
                continue
            sources = [paths[0] for paths in found]
            files = [path.name for path in sources]
        else:
            sources = [kept / file for file in files]
            if encoder == "x265" and not all(path.exists() for path in sources):
                x265 = x265 or find_x265()
                if not x265:
                    clips[name] = "no x265 on the build machine, and none to be had by apt-get"
                    continue
            if not all(path.exists() for path in sources):
                say(f"encoding {name} with {encoder}")
                fresh = [path.with_name("new_" + path.name) for path in sources]
                make_pair(encoder, depth, size, frames, rates, fresh, x265)
                for new, path in zip(fresh, sources):
                    new.rename(path)
        for path in sources:
            shutil.copy2(path, folder / "clips")
        clips[name] = [f"clips/{files[1]}", f"clips/{files[0]}"]
    return clips


def version():
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--tags"], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() or "unknown"


def make(folder, given, quick):
    build()
    if folder.exists() and not (folder / "manifest.json").exists() and any(folder.iterdir()):
        sys.exit(f"{folder} holds something else: give an empty folder")
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("bin", "lib", "drivers", "clips"):
        (folder / name).mkdir(parents=True)
    for program in (FFMPEG, BUILD / "bench_gpu"):
        carry_program(program, folder)
    tests = carry_tests(folder)
    here = pathlib.Path(__file__).parent
    for script in (here / "run", here / "steps.py", here / "driver.py", ROOT / "tools" / "count_tests", ROOT / "bench" / "ffmpeg_gpu"):
        shutil.copy2(script, folder)
    shutil.copytree(ROOT / "tests" / "golden", folder / "golden")
    clips = make_clips(folder, given, quick)
    manifest = {
        "version": version(),
        "packed": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "tests": tests,
        "clips": clips,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2), encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    say(f"{folder}: {size / 1e6:.1f} MB")
    if size > MOST:
        sys.exit(f"{folder} is larger than {MOST >> 20} MiB: give smaller clips")
