# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""The steps of tests/hw/run, on what was packed, and the report. Needs nothing but Python's standard library."""

import concurrent.futures
import contextlib
import datetime
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

FEATURES = "psnr|float_ssim|motion|cambi|speed_chroma|speed_temporal"
# CAMBI as the v1 models of VMAF ask for it.
CAMBI_V1 = "cambi:cambi_high_res_speedup=1080:cambi_vis_lum_threshold=0.06:cambi_max_val=17"
# Every option that changes what kernels do; float_ssim at full size, and CAMBI and SpEED at other sizes, are runs of their own.
ALL_OPTIONS = r"psnr\\:enable_mse=true|float_ssim\\:enable_lcs=true|motion\\:motion_five_frame_window=true"
ALL_OPTIONS += r"|cambi\\:full_ref=true|speed_chroma\\:speed_weight_var_mode=5|speed_temporal\\:speed_use_ref_diff=true"
FULL_SIZE = r"float_ssim\\:scale=1\\:enable_lcs=true|motion|" + CAMBI_V1.replace(":", r"\\:")
FULL_SIZE += r"|speed_chroma\\:speed_kernelscale=2|speed_temporal"
RESIZED = r"cambi\\:full_ref=true\\:enc_width=300\\:enc_height=200\\:enc_bitdepth=8\\:max_log_contrast=3\\:eotf=pq\\:topk=0.3"
RESIZED += r"|speed_chroma\\:speed_prescale=1.2\\:speed_prescale_method=bicubic"
RESIZED += r"|speed_temporal\\:speed_prescale=0.75\\:speed_prescale_method=lanczos4"
# The least picture that everything here can score: CAMBI wants 216 samples in a row or a column, SpEED 80 in those of chroma.
SMALL = "216x160"
SIZES = ["576x324", "1280x720", "1920x1080", "3840x2160", "7680x4320"]


class Stop(Exception):
    """The rest of a step has no sense."""


class Step:
    """What one step found."""

    def __init__(self, run, name):
        self.run, self.name = run, name
        self.passed, self.failed, self.skipped, self.texts = [], [], [], []
        self.begin = time.monotonic()
        self.seconds = 0.0
        self.lock = threading.Lock()

    def check(self, good, name, detail=""):
        with self.lock:
            if good:
                self.passed.append(name)
            else:
                self.failed.append((name, detail))
                say(f"    FAILED: {name}: {detail[:400]}")
        return good

    def skip(self, name, reason):
        with self.lock:
            self.skipped.append((name, reason))

    def text(self, markdown):
        with self.lock:
            self.texts.append(markdown)

    def left(self):
        """Seconds that a program of this step may still take."""
        return max(1.0, LIMITS[self.name] - (time.monotonic() - self.begin))


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def words(self):
        """How the program ended, and its errors or the end of what it said."""
        errors = re.findall(r"^.*\[(?:error|fatal)\] .*", self.err, re.M)
        how = "out of time" if self.code is None else f"exit status {self.code}"
        return f"{how}; " + ("; ".join(errors[:3]) or (self.err or self.out).strip()[-600:])


def say(text):
    print(text, file=sys.stderr, flush=True)


RENDER_NODE = "/dev/dri/renderD128"


class Run:
    """A packed folder, a driver, and a folder for what the steps write."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.out = pathlib.Path(options.out).resolve() if options.out else folder / "out"
        self.out.mkdir(parents=True, exist_ok=True)
        self.manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self.quick = options.quick
        self.device = {}
        self.unseen = None  # see unseen_memory()
        paths = [*(str(pathlib.Path(path).resolve()) for path in options.driver), str(folder / "lib")]
        if os.environ.get("LD_LIBRARY_PATH"):
            paths.append(os.environ["LD_LIBRARY_PATH"])
        if not can_open("libva.so.2"):
            paths.append(str(folder / "drivers"))
        if os.path.isdir("/opt/rocm/lib"): # after what the loader knows itself
            paths.append("/opt/rocm/lib")
        self.environment = os.environ | {"LD_LIBRARY_PATH": ":".join(paths), "LC_ALL": "C.UTF-8"}
        self.ffmpeg = folder / "bin" / "ffmpeg"
        self.kind = options.kind or ("hip" if self.has("hip") and not self.has("cuda") else "cuda")
        self.upload = ["-init_hw_device", f"{self.kind}=gpu:0", "-filter_hw_device", "gpu"]

    def has(self, kind):
        """Whether a device of this kind answers."""
        command = [sys.executable, str(self.folder / "driver.py"), kind, "info"]
        return subprocess.run(command, env=self.environment, capture_output=True, check=False).returncode == 0

    def start(self, command, environment=None, **pipes):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | pipes
        return subprocess.Popen([str(word) for word in command], cwd=self.out, env=self.environment | (environment or {}),
                                start_new_session=True, **pipes)

    def call(self, step, command, environment=None, limit=None):
        """Runs a program. Out of time it is killed, with all that it started, and its exit status is None."""
        begin = time.monotonic()
        with self.start(command, environment) as process:
            try:
                out, err = process.communicate(timeout=min(limit or 1e9, step.left()))
                code = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                code = None
        return Result(code, out.decode(errors="replace"), err.decode(errors="replace"), time.monotonic() - begin)

    def score(self, step, name, inputs, graph, options, environment=None, limit=90, level="info"):
        """Runs the filter. The result's `rows` are the scores of all frames, every digit."""
        log = self.out / "logs" / f"{re.sub('[^A-Za-z0-9]+', '_', name)}.json"
        log.parent.mkdir(exist_ok=True)
        log.unlink(missing_ok=True)
        text = f"vmaf_gpu=log_fmt=json:log_precision=17:log_path=logs/{log.name}:{options}"
        command = [self.ffmpeg, "-nostdin", "-hide_banner", "-nostats", "-y", "-v", f"level+{level}", *inputs, "-filter_complex",
                   graph.format(filter=text), "-f", "null", "-"]
        result = self.call(step, command, environment, limit)
        result.rows = [f["metrics"] for f in json.loads(log.read_text(encoding="utf-8"))["frames"]] if log.exists() else []
        return result

    def parity(self, step, name, inputs, graph, options, environment=None, limit=90):
        """Scores on the device, every frame compared with the CPU's: a check of its own."""
        result = self.score(step, name, inputs, graph, f"backend={self.kind}:parity=strict:{options}", environment, limit)
        step.check(result.code == 0 and result.rows, name, result.words())
        return result

    def clip(self, step, name):
        """The two files of a clip, distorted first, or None; then it is reported as skipped."""
        clip = self.manifest["clips"].get(name, "not packed")
        if isinstance(clip, str):
            step.skip(f"clip {name}", clip)
            return None
        return [self.folder / file for file in clip]

    def decoder(self):
        """The reason why the GPU's decoder cannot be used, or None."""
        if self.device.get("software"):
            return "the software device has no decoder"
        if self.kind == "hip":
            command = [self.ffmpeg, "-v", "error", "-init_hw_device", f"vaapi=va:{RENDER_NODE}", "-f", "lavfi", "-i", "color=s=16x16:d=0.04",
                       "-f", "null", "-"]
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
            return None if done.returncode == 0 else f"no decoder (VAAPI on {RENDER_NODE}): {done.stderr.strip()[-300:]}"
        done = subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libnvcuvid.so.1')"], env=self.environment,
                              capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else f"no decoder: {done.stderr.strip().splitlines()[-1]}"

    def driver(self, step, *words):
        return self.call(step, [sys.executable, self.folder / "driver.py", self.kind, *words])

    def decoded(self, files):
        """Arguments to decode files on the device, and the filter that brings their frames to where they are scored."""
        arguments = []
        if self.kind == "hip":
            arguments = ["-init_hw_device", f"drm=dr:{RENDER_NODE}", "-init_hw_device", "vaapi=va@dr"]
        for file in files:
            rate = ["-r", "25"] if pathlib.Path(file).suffix == ".hevc" else []
            where = ["cuda", "-hwaccel_output_format", "cuda"]
            if self.kind == "hip":
                where = ["vaapi", "-hwaccel_device", "va", "-hwaccel_output_format", "vaapi"]
            arguments += ["-hwaccel", *where, *rate, "-i", file]
        return arguments, "hwmap=derive_device=hip,format=hip" if self.kind == "hip" else "null"


def can_open(library):
    done = subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL('{library}')"], capture_output=True, check=False)
    return done.returncode == 0


def side_by_side(jobs, function, items):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(function, items))


def jobs():
    return max(1, min(8, (os.cpu_count() or 2) // 2))


def by_cpu(files):
    arguments = []
    for file in files:
        arguments += [*(["-r", "25"] if file.suffix == ".hevc" else []), "-i", file]
    return arguments


# ---- What is there ---------------------------------------------------------------------------------------------------

def ask_rocm(run, step, lines):
    """What the library and AMD's own programs say."""
    result = run.score(step, "device", source(SMALL, 1), graph_of("yuv420p", False), "backend=hip:feature=psnr", level="verbose")
    lines += [("library", text) for text in re.findall(r"\[verbose\] ((?:HIP device|kernels): .*)", result.err)]
    if run.device["software"]:
        return
    for command, wanted in ((["rocminfo"], r"^\s*(?:Name|Marketing Name|Compute Unit):.*gfx.*|^\s*Name:\s+amdgcn\S+"),
                            (["rocm-smi", "--showdriverversion", "--showclocks", "--showperflevel"], r"^GPU\[0\].*|^Driver.*"),
                            (["vainfo", "--display", "drm", "--device", RENDER_NODE], r"^.*Driver version.*")):
        program = shutil.which(command[0]) or shutil.which(f"/opt/rocm/bin/{command[0]}")
        done = run.call(step, [program, *command[1:]], limit=30) if program else None
        if done and done.code == 0:
            lines.append((command[0], "; ".join(line.strip() for line in re.findall(wanted, done.out + done.err, re.M))[:900]))
        else:
            step.skip(command[0], done.words() if done else "not here")
    version = pathlib.Path("/sys/module/amdgpu/version")
    lines.append(("amdgpu", version.read_text(encoding="ascii").strip() if version.exists() else "the kernel's own"))


def step_device(run, step):
    done = run.driver(step, "info")
    if not step.check(done.code == 0, "a device answers", done.words()):
        raise Stop
    run.device = json.loads(done.out)
    d = run.device
    lines = [("device", f"{d['name']}, {d['capability']}, {d['multiprocessors']} multiprocessors, "
                        f"{d['memory'] / 2**20:.0f} MiB" + (f"; {d['count']} devices" if d["count"] > 1 else "")),
             ("driver", d["driver"])]
    if run.kind == "hip":
        ask_rocm(run, step, lines)
    elif shutil.which("nvidia-smi") and not d["software"]:
        fields = "driver_version,pstate,clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,ecc.mode.current,mig.mode.current"
        smi = run.call(step, ["nvidia-smi", "--format=csv,noheader", f"--query-gpu={fields}", "--id=0"], limit=30)
        if smi.code == 0:
            lines.append(("nvidia-smi (" + fields + ")", smi.out.strip()))
        else:
            step.skip("nvidia-smi", smi.words())
    else:
        step.skip("nvidia-smi", "not here")
    lines += [("decoder", run.decoder() or ("VAAPI is there" if run.kind == "hip" else "libnvcuvid.so.1 is there")),
              ("host", f"{platform.system()} {platform.release()}, {os.cpu_count()} processors, {platform.libc_ver()[1]}"),
              ("vmaf_gpu", f"{run.manifest['version']}, packed {run.manifest['packed']}")]
    step.text("\n".join(f"- {name}: {value}" for name, value in lines))


# ---- Parity ----------------------------------------------------------------------------------------------------------

def count_tap(run, step, name, result):
    """Each line of a TAP test is a check, by the rules of tools/count_tests."""
    path = str(run.folder / "count_tests")
    loader = importlib.machinery.SourceFileLoader("count_tests", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("count_tests", loader))
    loader.exec_module(module)
    count = module.Count()
    state = "TIMEOUT" if result.code is None else "OK" if result.code == 0 else "FAIL"
    module.count_tap(count, name, {"stdout": result.out, "returncode": result.code, "result": state})
    for test in count.passed:
        step.check(True, test)
    for test in count.skipped:
        step.skip(test, "by the test itself: only the software device can do it")
    for test in count.failed:
        step.check(False, test, result.words() + " | " + result.out.strip()[-600:])


# Tests of kernels alone, without the engine: what checkers of memory can run.
KERNEL_TESTS = ("kernels", "cambi_kernels", "cambi_pool", "speed_kernels")


def step_units(run, step):
    """The library's tests of devices, on this driver."""
    (run.out / "logs").mkdir(exist_ok=True)
    runs = []
    for name, test in run.manifest["tests"].items():
        if isinstance(test, str):
            step.skip(f"test {name}", test)
            continue
        environment = {key: str(run.folder / value) if key == "GOLDEN_DIR" else value for key, value in test["environment"].items()}
        environment["KERNELS_BACKEND"] = run.kind
        if run.quick:
            environment["KERNELS_SMALL"] = "brief"
        runs.append((name, test["program"], environment))
        if name in KERNEL_TESTS and not run.quick and not run.device["software"] and run.kind == "cuda":
            runs.append((f"{name}, PTX", test["program"], environment | {"KERNELS_IMAGE": "ptx", "KERNELS_SMALL": "all"}))

    def one(item):
        name, program, environment = item
        result = run.call(step, [run.folder / "bin" / program], environment)
        (run.out / "logs" / f"{re.sub('[^a-z_]+', '_', name.lower())}.txt").write_text(result.out + result.err, encoding="utf-8")
        count_tap(run, step, name, result)

    side_by_side(min(4, jobs()), one, runs)


def source(size, frames):
    return ["-f", "lavfi", "-i", f"testsrc2=s={size}:r=25,trim=end_frame={frames}"]


# Semi-planar formats and the planar ones of the same content, which a blur can work on.
PLANAR = {"nv12": "yuv420p", "nv21": "yuv420p", "nv16": "yuv422p", "nv24": "yuv444p", "nv42": "yuv444p", "nv20": "yuv422p10"}
PLANAR |= {f"p{digit}{depth}": f"yuv{chroma}p{depth}" for digit, chroma in (("0", "420"), ("2", "422"), ("4", "444"))
           for depth in ("10", "12", "16")}
FORMATS = ["gray", "gray10", "gray12", "gray16"]
FORMATS += [f"yuv{c}p{d}" for c in ("420", "422", "444") for d in ("", "10", "12", "16")]
FORMATS += ["yuvj420p", *PLANAR]


def graph_of(form, upload, blur=2):
    plain, up = PLANAR.get(form, form), ",hwupload" if upload else ""
    return (f"[0:v]scale=flags=bitexact+accurate_rnd,format={plain},split[a][b];[a]avgblur={blur},format={form}{up}[d];"
            f"[b]format={form}{up}[r];[d][r]{{filter}}")


def scored(features, form):
    """Those of the features that score the format: gray has no chroma."""
    return "|".join(f for f in features.split("|") if not (form.startswith("gray") and f.startswith("speed_chroma")))


def step_formats(run, step):
    """Every pixel format, from software frames and from uploaded ones, against the CPU."""
    formats = ["yuv420p", "nv12", "p010"] if run.quick else FORMATS
    size = SMALL if run.quick else "354x289"
    cases = [(f, upload, features) for f in formats for upload in (False, True) for features in (ALL_OPTIONS, FULL_SIZE, RESIZED)]
    not_made = set()

    def one(case):
        form, upload, features = case
        how = "hwupload" if upload else "software frames"
        name = f"{form}, {how}, {features.split('|', 1)[0]}".replace("\\", "")
        result = run.score(step, name, [*(run.upload if upload else []), *source(size, 4)], graph_of(form, upload),
                           f"backend={run.kind}:parity=strict:feature={scored(features, form)}", level="verbose")
        # What reached the filter: FFmpeg converts to what it can upload, and cannot convert to everything.
        seen = re.search(r"distorted (\S+?)(?: \(\w+\))? against reference (\S+?)[ ,]", result.err)
        refused = re.search(r"(?:cuda|hip) frames of format \S+, which is not scored|Function not implemented", result.err)
        if refused or (upload and seen and set(seen.groups()) != {form}):
            not_made.add((form, how))
            return
        step.check(result.code == 0 and len(result.rows) == 4 and seen and set(seen.groups()) == {form}, name, result.words())

    side_by_side(jobs(), one, cases)
    for form, how in sorted(not_made):
        step.skip(f"{form}, {how}", "FFmpeg makes no such frames")


def step_sizes(run, step):
    """Sizes up to 8K, 8 and 10 bits, against the CPU."""
    sizes = [SMALL] if run.quick else SIZES
    (run.out / "heatmaps").mkdir(exist_ok=True)
    cases = [(s, f, u) for s in sizes for f in ("nv12", "p010", "yuv420p") for u in (False, True)]

    def one(case):
        size, form, upload = case
        device = run.upload if upload else []
        run.parity(step, f"{size} {form}, {'hwupload' if upload else 'software frames'}", [*device, *source(size, 3)],
                   graph_of(form, upload), f"feature={ALL_OPTIONS}")
        if form != "yuv420p" and not upload:
            run.parity(step, f"{size} {form}, float_ssim at scale 1", source(size, 2), graph_of(form, False), f"feature={FULL_SIZE}")
        if size == sizes[0]:
            maps = "heatmaps/" + re.sub("[^a-z0-9]+", "_", f"{form}_{upload}".lower())
            run.parity(step, f"{size} {form}, {'hwupload' if upload else 'software frames'}, heatmaps", [*device, *source(size, 2)],
                       graph_of(form, upload), rf"feature=cambi\\:full_ref=true\\:heatmaps_path={maps}")

    side_by_side(min(4, jobs()), one, cases)


def step_decoder(run, step):
    """Clips through the GPU's decoder (NVDEC, or VAAPI and hwmap): parity, and the CPU's scores of the same frames, decoded by either."""
    reason = run.decoder()
    if reason:
        step.skip("decoding on the device", reason)
        return
    for name in ("h264_8", "hevc_8", "hevc_10"):
        clip = run.clip(step, name)
        if not clip:
            continue
        form = "p010" if name.endswith("10") else "nv12"
        down = f"[0:v]hwdownload,format={form}[d];[1:v]hwdownload,format={form}[r];[d][r]{{filter}}"
        inputs, bring = run.decoded(clip)
        graph = f"[0:v]{bring}[d];[1:v]{bring}[r];[d][r]{{filter}}"
        device = run.parity(step, f"{name}: parity", inputs, graph, f"feature={FEATURES}")
        cpu = run.score(step, f"{name} cpu", inputs, down, f"backend=cpu:feature={FEATURES}")
        soft = run.score(step, f"{name} software", by_cpu(clip), "[0:v][1:v]{filter}", f"backend=cpu:feature={FEATURES}")
        step.check(cpu.code == 0 and cpu.rows and cpu.rows == device.rows, f"{name}: the CPU's scores of downloaded frames",
                   cpu.words() + f"; {len(cpu.rows)} and {len(device.rows)} frames")
        step.check(soft.code == 0 and soft.rows == device.rows, f"{name}: the CPU's scores of frames that it decoded",
                   soft.words() + f"; {len(soft.rows)} and {len(device.rows)} frames")
        run.parity(step, f"{name}: parity, history=copy, in_flight=8", inputs, graph,
                   f"feature=motion\\\\:motion_five_frame_window=true|psnr|speed_temporal:history=copy:in_flight=8")


def step_sanitizer(run, step):
    """compute-sanitizer's four tools on the tests of kernels, on small pictures."""
    program = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if run.device["software"] or run.kind == "hip" or not program:
        step.skip("compute-sanitizer", "the software device cannot use it" if run.device["software"] else "not here")
        return
    environment = {"KERNELS_SMALL": "all", "GOLDEN_DIR": str(run.folder / "golden"), "CMOCKA_MESSAGE_OUTPUT": "TAP"}

    def one(case):
        name, tool = case
        test = run.manifest["tests"].get(name, "not packed")
        if isinstance(test, str):
            step.skip(f"{name}, {tool}", test)
            return
        command = [program, "--tool", tool, "--error-exitcode", "99", run.folder / "bin" / test["program"]]
        result = run.call(step, command, environment)
        (run.out / "logs").mkdir(exist_ok=True)
        (run.out / "logs" / f"sanitizer_{name}_{tool}.txt").write_text(result.out + result.err, encoding="utf-8")
        if "Device not supported" in result.out + result.err:
            step.skip(f"{name}, {tool}", "compute-sanitizer says: device not supported")
            return
        clean = re.search(r"(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)", result.out + result.err)
        step.check(result.code == 0 and clean, f"{name}, {tool} is clean", result.words() + " | " + result.out.strip()[-400:])

    # The slowest first.
    side_by_side(4, one, [(name, tool) for tool in ("racecheck", "memcheck", "initcheck", "synccheck") for name in KERNEL_TESTS])


# ---- Endurance -------------------------------------------------------------------------------------------------------

class Watch:
    """Free memory of the device as another program sees it."""

    def __init__(self, run):
        self.process = run.start([sys.executable, run.folder / "driver.py", run.kind, "watch"], stdin=subprocess.PIPE, stderr=None)

    def free(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@contextlib.contextmanager
def watching(run):
    watch = Watch(run)
    try:
        yield watch
    finally:
        watch.close()


@contextlib.contextmanager
def taken_memory(run, *words):
    """Memory that driver.py takes, called with these words, and holds meanwhile."""
    with run.start([sys.executable, run.folder / "driver.py", run.kind, *words], stdin=subprocess.PIPE) as process:
        try:
            if not process.stdout.readline():
                raise Stop(process.stderr.read().decode(errors="replace"))
            yield
        finally:
            process.stdin.close()
            process.wait(60)


def unseen_memory(run, watch):
    """The reason why `watch` does not see what other programs take of the device's memory, or None. Found out once a run."""
    if run.unseen is None:
        before = watch.free()
        with taken_memory(run, "take", "64"):
            missing = before - watch.free()
        run.unseen = ""
        if missing < 48 << 20:
            run.unseen = (f"the driver counts each program's own memory only: of 64 MiB that another program took, {missing / 2**20:.0f} "
                          "were missing")
            if run.device["software"]:
                run.unseen = "memory of the software device belongs to one program"
    return run.unseen or None


def long_job(run, step, frames):
    """Arguments of ffmpeg for a job of so many frames: by the decoder if there is one."""
    clip = run.clip(step, "h264_8")
    if clip and not run.decoder():
        loops = str(max(0, -(-frames // 150) - 1))  # clips of 150 frames
        files = []
        for file in clip:
            # Repeated in a file of its own: a decoder that begins anew has ffmpeg make the graph anew.
            longer = run.out / f"long_{pathlib.Path(file).stem}.mkv"
            result = run.call(step, [run.ffmpeg, "-nostdin", "-v", "error", "-y", "-stream_loop", loops, "-i", file, "-map", "0:v:0", "-c", "copy", longer])
            if result.code:
                step.check(False, "a long clip", result.words())
            files.append(longer)
        inputs, bring = run.decoded(files)
        graph = f"[0:v]{bring}[d];[1:v]{bring}[r];[d][r]vmaf_gpu=feature={FEATURES}:backend={run.kind}"
        return [*inputs, "-filter_complex", graph], "decoded on the device"
    size = SMALL if run.device["software"] else "576x324"
    graph = f"[0:v]format=nv12,split[a][b];[a]hwupload[d];[b]hwupload[r];[d][r]vmaf_gpu=feature={FEATURES}:backend={run.kind}"
    return [*run.upload, *source(size, frames), "-filter_complex", graph], "uploaded"


def resident(pid):
    """Memory of a program in bytes, or None: one that ends has none any more, while what it said last is still to be read."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmRSS:\s*(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
        return int(found.group(1)) * 1024 if found else None
    return None


def start_long(run, arguments):
    period = "0.05" if run.quick else "0.2"
    command = [run.ffmpeg, "-nostdin", "-hide_banner", "-v", "error", "-progress", "pipe:1", "-stats_period", period, *arguments,
               "-f", "null", "-"]
    with open(run.out / "logs" / "long.txt", "wb") as log:
        return run.start(command, stderr=log)


def frames_done(process):
    """How many frames are done, each time that ffmpeg says it, up to the end of its output."""
    for line in process.stdout:
        found = re.match(rb"frame=\s*(\d+)", line)
        if found:
            yield int(found.group(1))


def step_long(run, step):
    """Twenty thousand frames: neither host nor device memory grows."""
    frames = 200 if run.quick else 20000
    arguments, how = long_job(run, step, frames)
    (run.out / "logs").mkdir(exist_ok=True)
    with watching(run) as watch:
        unseen = unseen_memory(run, watch)
    samples, done, begin = [], 0, time.monotonic()
    with watching(run) as watch, start_long(run, arguments) as process:
        timer = threading.Timer(step.left(), process.kill)
        timer.start()
        told = 0
        for done in frames_done(process):
            memory = resident(process.pid)
            if memory and done > (samples[-1][0] if samples else 0):
                samples.append((done, memory, watch.free()))
            if time.monotonic() - told > 10:
                told = time.monotonic()
                say(f"    {done} frames")
        code = process.wait()
        timer.cancel()
    seconds = time.monotonic() - begin
    words = (run.out / "logs" / "long.txt").read_text(encoding="utf-8", errors="replace")[-500:]
    if step.check(code == 0 and done >= frames * 0.98, f"{frames} frames, {how}", f"exit status {code}, {done} frames; {words}"):
        step.text(f"{done} frames in {seconds:.1f} s, {how}.")
        compare_memory(step, samples, done, unseen)


def compare_memory(step, samples, done, unseen):
    """
    Samples (frame, host's memory, device's free memory) from the second sixth of a run with those of its last fifth; `unseen`
    says why the device's are not to be compared.
    """
    warm = [s for s in samples if s[0] >= done * 0.15]  # before that buffers are still being made
    early = [s for s in warm if s[0] <= done * 0.4] or warm[:1]
    late = [s for s in warm if s[0] >= done * 0.8 and s not in early] or warm[len(early):][-1:]
    if not step.check(late, "memory is looked at early and late", f"after frames {[s[0] for s in samples]} of {done} only"):
        return
    host = statistics.median(s[1] for s in late) - statistics.median(s[1] for s in early)
    device = statistics.median(s[2] for s in early) - statistics.median(s[2] for s in late)
    step.text(f"Host memory: {early[0][1] / 1e6:.1f} MB early ({len(early)} samples), {late[-1][1] / 1e6:.1f} MB at the end "
              f"({len(late)} samples), growth of medians {host / 1e6:.2f} MB."
              + ("" if unseen else f" Device memory: growth of medians {device / 1e6:.2f} MB."))
    # Scores are kept to the end: eight doubles a frame.
    allowed = 4e6 + 20 * 8 * done
    step.check(host <= allowed, "host memory does not grow", f"by {host / 1e6:.2f} MB; {allowed / 1e6:.1f} MB allowed")
    if unseen:
        step.skip("device memory does not grow", unseen)
    else:
        step.check(device <= 4e6, "device memory does not grow", f"by {device / 1e6:.2f} MB; 4 MB allowed")


def small_job(run, step, name):
    run.parity(step, name, [*run.upload, *source(SMALL, 5)], graph_of("nv12", True), f"feature={FEATURES}")


def step_killed(run, step):
    """A program killed in mid-run leaves the device usable, and its memory free."""
    (run.out / "logs").mkdir(exist_ok=True)
    with watching(run) as watch:
        unseen = unseen_memory(run, watch)
        for name, number in (("SIGKILL", signal.SIGKILL), ("SIGINT", signal.SIGINT)):
            before = watch.free()
            arguments, _ = long_job(run, step, 200000)
            with start_long(run, arguments) as process:
                timer = threading.Timer(60, process.kill)
                timer.start()
                frame = next((f for f in frames_done(process) if f >= 30), None)
                os.kill(process.pid, number)
                begin = time.monotonic()
                process.stdout.read()
                code = process.wait()
                timer.cancel()
            words = f"exit status {code} after frame {frame}, {time.monotonic() - begin:.1f} s after the signal"
            wanted = -signal.SIGKILL if number == signal.SIGKILL else 255
            step.check(frame and code == wanted, f"{name} ends the program", words)
            small_job(run, step, f"scores after {name}")
            if unseen:
                step.skip(f"device memory is free after {name}", unseen)
                continue
            for _ in range(50):
                lost = before - watch.free()
                if lost < 8e6:
                    break
                time.sleep(0.1)
            step.check(lost < 8e6, f"device memory is free after {name}", f"{lost / 1e6:.1f} MB are not")


@contextlib.contextmanager
def full_device(run, leave):
    """All of the device's memory but `leave` MB is taken. Yields the environment for programs."""
    if run.device["software"]:
        yield {"SOFTGPU_MEMORY": str(leave << 20)}
        return
    with taken_memory(run, "fill", str(leave)):
        yield {}


def step_full(run, step):
    """A full device gives one clear error, or with fallback=cpu the CPU's scores."""
    software = run.device["software"]
    # Too little for a context; enough for a context but not for what a job of large pictures needs.
    cases = [("no memory to start", 1 if software else 80, "640x360" if software else "1920x1080", ""),
             ("no memory for large pictures", 4 if software else 1200, "1280x720" if software else "7680x4320", ":in_flight=16")]
    for name, leave, size, more in cases:
        with full_device(run, leave) as environment:
            for fallback in ("error", "cpu"):
                result = run.score(step, f"full {name} {fallback}", source(size, 2), graph_of("yuv420p", False),
                                   f"backend={run.kind}:fallback={fallback}:feature={FEATURES}{more}", environment)
                ours = re.findall(r"^\[Parsed_vmaf_gpu\S* @ \S+\] \[(error|warning)\] (.*)", result.err, re.M)
                # The last one is FFmpeg's own, in the filter's name.
                errors = [text for level, text in ours if level == "error" and not text.startswith("Failed to configure")]
                if fallback == "error":
                    step.check(result.code not in (0, None) and result.code > 0 and len(errors) == 1,
                               f"{name}: one error", f"{len(errors)} errors: {errors}; {result.words()}")
                    step.text(f"{name}: `{errors[0] if errors else ''}`")
                    continue
                cpu = run.score(step, f"full {name} reference", source(size, 2), graph_of("yuv420p", False),
                                f"backend=cpu:feature={FEATURES}")
                step.check(result.code == 0 and result.rows and result.rows == cpu.rows, f"{name}: fallback=cpu gives the CPU's scores",
                           result.words())
                step.check(any(level == "warning" for level, _ in ours), f"{name}: fallback=cpu says why", result.words())
    small_job(run, step, "scores after the memory is free again")


def step_start(run, step):
    """How long a job of ten frames takes."""
    size = SMALL if run.device["software"] else "1920x1080"
    cases = {
        "backend=cpu": ("backend=cpu", {}),
        f"backend={run.kind}": (f"backend={run.kind}", {}),
    }
    cases |= {} if run.kind == "hip" else {
        "backend=cuda, driver's compiler cache off": ("backend=cuda", {"CUDA_CACHE_DISABLE": "1"}),
        "backend=cuda, PTX compiled at the start": ("backend=cuda", {"CUDA_CACHE_DISABLE": "1", "CUDA_FORCE_PTX_JIT": "1"}),
    }
    rows = {name: [] for name in cases}
    for _ in range(1 if run.quick else 3):
        for name, (options, environment) in cases.items():
            result = run.score(step, "start", source(size, 10), graph_of("yuv420p", False), f"{options}:feature={FEATURES}", environment)
            if step.check(result.code == 0 and len(result.rows) == 10, f"ten frames, {name}", result.words()):
                rows[name].append(result.seconds)
    step.text(f"Ten frames of {size}, software frames, whole program:\n\n| | seconds, median | least |\n|---|---|---|\n" + "\n".join(
        f"| {name} | {statistics.median(times):.2f} | {min(times):.2f} |" for name, times in rows.items() if times))


# ---- Speed -----------------------------------------------------------------------------------------------------------

def bench_gpu(run, step, content, lanes, sizes, depths, more):
    """A table of bench/gpu's, frames taking turns in so many streams. All its features, of contents but natural ones CAMBI's alone."""
    command = [run.folder / "bin" / "bench_gpu", "--backend", run.kind, "--tsv", "--content", content, "--lanes", str(lanes), *more]
    features = 14 if content == "natural" else 2
    if content != "natural":
        command += ["--feature", "cambi", "--feature", CAMBI_V1]
    for size in sizes:
        command += ["--size", size]
    for depth in depths:
        command += ["--depth", depth]
    result = run.call(step, command)
    (run.out / f"bench_gpu_{content}_{lanes}.tsv").write_text(result.out, encoding="utf-8")
    rows = [dict(zip(result.out.splitlines()[0].split("\t"), line.split("\t"))) for line in result.out.splitlines()[1:]]
    good = [row for row in rows if float(row["microseconds"]) > 0 and float(row["copy_microseconds"]) > 0]
    step.check(result.code == 0 and len(good) == len(rows) == features * len(sizes) * len(depths), f"bench_gpu, {content}, {lanes} lanes",
               f"{len(good)} of {len(rows)} rows; " + result.words())
    order = "one after the other" if lanes == 1 else f"taking turns in {lanes} streams, as the filter has them"
    step.text(f"Frames of {content} content, {order}. Microseconds a frame pair, device events, median; `copy`: the time of a device "
              "copy that moves as many bytes, over the metric's.\n\n| size | bits | metric | us | bytes | GB/s | copy us | copy |\n"
              "|---|---|---|---|---|---|---|---|\n" + "\n".join(
                  "| {size} | {depth} | {name} | {microseconds} | {bytes} | {gigabytes_per_second} | {copy_microseconds} | {copy_ratio} |"
                  .format(**row, name=row["feature"].replace("|", ", ")) for row in good))


def step_bench(run, step):
    """bench/gpu: the kernels on resident frames; CAMBI, whose time depends on the picture, also on banded frames and hostile ones."""
    if run.quick or run.device["software"]:
        for content in ("natural", "banded", "blocks"):
            bench_gpu(run, step, content, 1, [SMALL], ["8"], ["--memory", "1", "--runs", "1"])
        return
    for content in ("natural", "banded", "blocks"):
        # Contents of CAMBI take the host long to make.
        bench_gpu(run, step, content, 1, SIZES if content == "natural" else SIZES[2:4], ["8", "10"], [])
        bench_gpu(run, step, content, 3, SIZES[2:4], ["8"], [])


def step_whole(run, step):
    """bench/ffmpeg_gpu: the frame rate of ffmpeg with and without scoring."""
    reason = run.decoder()
    if reason:
        step.skip("bench/ffmpeg_gpu", reason)
        return
    clip = run.clip(step, "h264_8" if run.quick else "h264_8_4k")
    if clip:
        more = ["--runs", "1", "--frames", "150"] if run.quick else []
        more += ["--hip"] if run.kind == "hip" else []
        command = [sys.executable, run.folder / "ffmpeg_gpu", "--ffmpeg", run.ffmpeg, "--markdown", *more, *clip]
        result = run.call(step, command)
        step.check(result.code == 0, "bench/ffmpeg_gpu", result.words())
        step.text(result.out)


# ---- Report ----------------------------------------------------------------------------------------------------------

# Name -> function and most seconds.
STEPS = {
    "device": (step_device, 30),
    "units": (step_units, 150),
    "formats": (step_formats, 120),
    "sizes": (step_sizes, 120),
    "decoder": (step_decoder, 90),
    "sanitizer": (step_sanitizer, 150),
    "long": (step_long, 120),
    "killed": (step_killed, 60),
    "full": (step_full, 90),
    "start": (step_start, 60),
    "bench": (step_bench, 180),
    "whole": (step_whole, 220),
}
NAMES = tuple(STEPS)
LIMITS = {name: limit for name, (_, limit) in STEPS.items()}


def report(run, steps, seconds):
    totals = [sum(len(getattr(s, kind)) for s in steps) for kind in ("passed", "failed", "skipped")]
    lines = ["# vmaf_gpu on hardware", "", f"{datetime.datetime.now().astimezone().strftime('%Y-%m-%d %H:%M %Z')}, vmaf_gpu "
             f"{run.manifest['version']}: {totals[0]} passed, {totals[1]} failed, {totals[2]} skipped in {seconds:.0f} s"
             + (" (quick run)" if run.quick else "") + ".", "", "| step | passed | failed | skipped | seconds |", "|---|---|---|---|---|"]
    lines += [f"| {s.name} | {len(s.passed)} | {len(s.failed)} | {len(s.skipped)} | {s.seconds:.1f} |" for s in steps]
    for s in steps:
        lines += ["", f"## {s.name}", "", (STEPS[s.name][0].__doc__ or "What is here.").strip()]
        for text in s.texts:
            lines += ["", text.strip()]
        if s.failed:
            lines += ["", "Failed:", ""] + [f"- {name}: {' '.join(detail.split())[:900]}" for name, detail in s.failed]
        if s.skipped:
            lines += ["", "Skipped:", ""] + [f"- {name}: {reason}" for name, reason in s.skipped]
    return "\n".join(lines) + "\n"


def run(folder, only, options):
    this = Run(folder, options)
    begin, done = time.monotonic(), []
    for name in ["device", *(n for n in NAMES if n in only and n != "device")]:
        step = Step(this, name)
        done.append(step)
        if time.monotonic() - begin > options.total:
            step.check(False, name, "not begun: the time for all steps was over")
            continue
        say(f"{name} ...")
        try:
            STEPS[name][0](this, step)
        except Stop as stop:
            if str(stop):
                step.check(False, name, str(stop))
        except Exception as error:  # pylint: disable=broad-exception-caught
            step.check(False, name, f"the script itself: {type(error).__name__}: {error}")
        step.seconds = time.monotonic() - step.begin
        say(f"    {len(step.passed)} passed, {len(step.failed)} failed, {len(step.skipped)} skipped, {step.seconds:.1f} s")
        if name == "device" and step.failed:
            break
    text = report(this, done, time.monotonic() - begin)
    (this.out / "report.md").write_text(text, encoding="utf-8")
    print(text)
    return 1 if any(step.failed for step in done) or not any(step.passed for step in done) else 0
