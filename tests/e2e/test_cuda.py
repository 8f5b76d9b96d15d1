# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""
What only CUDA frames have, on the software device: contexts, FFmpeg's hwupload_cuda, formats that CUDA frames lack. What they
share with other kinds of frames is in test_devices.py.
"""

import re

from clips import Clip
from conftest import ALL, scores


def test_hwupload_cuda(gpu, clips, on_cpu):
    """It makes a context of its own: one of them may serve both inputs."""
    join = "[0:v][1:v]interleave,hwupload_cuda,split[a][b];[a]select=not(mod(n\\,2))[d];[b]select=mod(n\\,2)[r];[d][r]{filter}"
    # equal time stamps: interleave takes the first input's frame first
    result = gpu.score(*clips, ALL + ":pair=index", graph=join)
    assert scores(result) == on_cpu()


def test_hwupload_cuda_twice_is_refused(gpu, clips):
    graph = "[0:v]hwupload_cuda[d];[1:v]hwupload_cuda[r];[d][r]{filter}"
    result = gpu.score(*clips, graph=graph, fails=True)
    name = r"(.* \(0000:01:00\.0\))"
    match = re.match(rf"distorted frames are on {name}, reference frames on {name}, in another context: make one device", result.errors[0])
    assert match and match[1] == match[2]
    assert len(result.errors) == 1 and not result.log.exists()


def test_two_devices_are_refused(gpu, clips):
    graph = "[0:v]hwupload_cuda=device=0[d];[1:v]hwupload_cuda=device=1[r];[d][r]{filter}"
    result = gpu.score(*clips, graph=graph, fails=True, device={"DEVICES": 2})
    assert re.match(
        r"distorted frames are on .* \(0000:01:00\.0\), reference frames on .* \(0000:02:00\.0\): make one device for both, "
        r"e\.g\. -init_hw_device cuda=gpu, and name it by -hwaccel_device gpu before each input",
        result.errors[0],
    )
    assert len(result.errors) == 1 and not result.log.exists()


def test_mixed_frames_in_a_format_that_the_device_does_not_take(gpu):
    """No release of FFmpeg uploads gray."""
    distorted = Clip.noise(603, 3).write(gpu.folder / "d.raw", "nv12")
    reference = Clip.noise(604, 3, chroma="400").write(gpu.folder / "r.raw", "gray")
    result = gpu.upload(distorted, reference, graph="[0:v]hwupload[d];[d][1:v]{filter}", fails=True)
    assert "insert hwdownload,format=nv12 on the distorted input, e.g. -lavfi '[0:v]hwdownload,format=nv12[d];[d][1:v]vmaf_gpu'" in result.errors[0]
