# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""Small raw video clips whose samples are known, and their PSNR, computed here and not by the code under test."""

import math
import random
import sys
from array import array

CHROMA = {"400": None, "420": (1, 1), "422": (1, 0), "444": (0, 0)}


def _layouts():
    """Every pixel format that the filter reads in place: name -> (chroma, depth, arrangement, shift)."""
    table = {"gray": ("400", 8, "planar", 0)}
    for depth in (9, 10, 12, 14, 16):
        table[f"gray{depth}"] = ("400", depth, "planar", 0)
    for chroma in ("420", "422", "444"):
        table[f"yuv{chroma}p"] = (chroma, 8, "planar", 0)
        table[f"yuvj{chroma}p"] = (chroma, 8, "planar", 0)
        for depth in (9, 10, 12, 14, 16):
            table[f"yuv{chroma}p{depth}"] = (chroma, depth, "planar", 0)
    table |= {
        "nv12": ("420", 8, "uv", 0),
        "nv21": ("420", 8, "vu", 0),
        "nv16": ("422", 8, "uv", 0),
        "nv24": ("444", 8, "uv", 0),
        "nv42": ("444", 8, "vu", 0),
        "nv20": ("422", 10, "uv", 0),
    }
    for digit, chroma in (("0", "420"), ("2", "422"), ("4", "444")):
        for depth in (10, 12, 16):
            table[f"p{digit}{depth}"] = (chroma, depth, "uv", 16 - depth)
    return table


LAYOUTS = _layouts()


def planar(chroma, depth):
    """The planar format of a chroma subsampling and depth."""
    return ("gray" if chroma == "400" else f"yuv{chroma}p") + ("" if depth == 8 else str(depth))


def ffmpeg_name(pix_fmt):
    """FFmpeg's full name: formats of more than 8 bits end in the byte order."""
    return pix_fmt if LAYOUTS[pix_fmt][1] == 8 else pix_fmt + ("le" if sys.byteorder == "little" else "be")


class Clip:
    """Frames of one size; each a list of planes; each plane an array of samples in raster order."""

    def __init__(self, frames, width, height, chroma="420", depth=8):
        self.frames, self.width, self.height, self.chroma, self.depth = frames, width, height, chroma, depth

    def __len__(self):
        return len(self.frames)

    @staticmethod
    def plane_sizes(width, height, chroma):
        sizes = [(width, height)]
        if CHROMA[chroma] is not None:
            across, down = CHROMA[chroma]
            sizes += [(-(-width >> across), -(-height >> down))] * 2
        return sizes

    @classmethod
    def noise(cls, seed, n, width=64, height=48, chroma="420", depth=8):
        """Frames of random samples."""
        source = random.Random(seed)
        sizes = cls.plane_sizes(width, height, chroma)

        def plane(w, h):
            words = array("H", source.randbytes(2 * w * h))
            return array("H", (word >> (16 - depth) for word in words))

        return cls([[plane(*size) for size in sizes] for _ in range(n)], width, height, chroma, depth)

    def distorted(self, seed, strength=1):
        """A copy with errors that grow from frame to frame, so that every pair of frames has a PSNR of its own."""
        source = random.Random(seed)
        peak = (1 << self.depth) - 1
        unit = strength << (self.depth - 8)

        def disturb(plane, number):
            reach = unit * (number + 1)
            return array("H", (min(max(v + source.randint(-reach, reach), 0), peak) for v in plane))

        return self.with_frames([[disturb(p, i) for p in frame] for i, frame in enumerate(self.frames)])

    def with_frames(self, frames):
        return Clip(frames, self.width, self.height, self.chroma, self.depth)

    def pick(self, numbers):
        return self.with_frames([self.frames[i] for i in numbers])

    def crop(self, x, y, width, height):
        """Part of the picture; x and y must be multiples of the chroma's subsampling."""
        across, down = CHROMA[self.chroma] or (0, 0)

        def cut(plane, index, full_width):
            sx, sy = (across, down) if index else (0, 0)
            w, h = -(-width >> sx), -(-height >> sy)
            stride = -(-full_width >> sx)
            out = array("H")
            for row in range(y >> sy, (y >> sy) + h):
                start = row * stride + (x >> sx)
                out += plane[start : start + w]
            return out

        frames = [[cut(p, i, self.width) for i, p in enumerate(frame)] for frame in self.frames]
        return Clip(frames, width, height, self.chroma, self.depth)

    def flip(self):
        """Upside down."""
        sizes = self.plane_sizes(self.width, self.height, self.chroma)

        def turn(plane, size):
            w, h = size
            out = array("H")
            for row in reversed(range(h)):
                out += plane[row * w : (row + 1) * w]
            return out

        return self.with_frames([[turn(p, s) for p, s in zip(frame, sizes)] for frame in self.frames])

    def luma(self):
        return Clip([frame[:1] for frame in self.frames], self.width, self.height, "400", self.depth)

    def write(self, path, pix_fmt=None, rate="25"):
        """Writes a raw file; gives ffmpeg's arguments to read it."""
        pix_fmt = pix_fmt or planar(self.chroma, self.depth)
        chroma, depth, arrangement, shift = LAYOUTS[pix_fmt]
        assert chroma == self.chroma and depth >= self.depth
        wide = depth + shift > 8
        shift += depth - self.depth  # a shallower clip has its samples in the upper bits
        with open(path, "wb") as file:
            for frame in self.frames:
                planes = list(frame)
                if arrangement != "planar":
                    pair = array("H", bytes(4 * len(planes[1])))
                    first = 0 if arrangement == "uv" else 1
                    pair[first::2], pair[1 - first :: 2] = planes[1], planes[2]
                    planes = [planes[0], pair]
                for plane in planes:
                    file.write(array("H", (v << shift for v in plane)).tobytes() if wide else bytes(plane.tolist()))
        return raw_input(path, pix_fmt, self.width, self.height, rate)


def raw_input(path, pix_fmt, width, height, rate="25"):
    return [
        "-f", "rawvideo", "-pixel_format", ffmpeg_name(pix_fmt), "-video_size", f"{width}x{height}",
        "-framerate", rate, "-i", str(path),
    ]  # fmt: skip


def write_pair(folder, layouts, size=(64, 48), n=3, depth=None):
    """Two clips of one content in two layouts, and the arguments to read them."""
    chroma, format_depth, _, _ = LAYOUTS[layouts[0]]
    reference = Clip.noise(602, n, *size, chroma=chroma, depth=depth or format_depth)
    distorted = reference.distorted(603, strength=3)
    return (
        *(distorted, reference),
        *(distorted.write(folder / "d.raw", layouts[0]), reference.write(folder / "r.raw", layouts[1])),
    )


def psnr(distorted, reference):
    """PSNR of every pair of frames by its definition: chroma of odd-sized pictures without its last column and row."""
    depth = reference.depth
    peak2 = float(((1 << depth) - 1) ** 2)
    cap = 6.0 * depth + 12.0
    across, down = CHROMA[reference.chroma] or (0, 0)
    sizes = Clip.plane_sizes(reference.width, reference.height, reference.chroma)
    rows = []
    for d, r in zip(distorted.frames, reference.frames):
        row = {}
        for index, name in enumerate(("psnr_y", "psnr_cb", "psnr_cr")[: len(sizes)]):
            stride = sizes[index][0]
            w = reference.width >> (across if index else 0)
            h = reference.height >> (down if index else 0)
            sse = 0
            for y in range(h):
                start = y * stride
                line = zip(d[index][start : start + w], r[index][start : start + w])
                sse += sum((a - b) * (a - b) for a, b in line)
            mse = sse / (w * h) if w * h else 0.0
            row[name] = min(10.0 * math.log10(peak2 / max(mse, 1e-16)), cap)
        rows.append(row)
    return rows
