#!/usr/bin/python3
# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""Questions to whichever libcuda.so.1 the loader finds, through its own interface; needs nothing but Python.

    driver.py info         prints what is there, as JSON
    driver.py watch        prints the free bytes of the first device for each line of standard input
    driver.py fill MB      takes all memory of the first device but about MB, prints what it took, waits for the end of input
"""

import ctypes
import json
import sys


class DriverError(Exception):
    pass


class Device:
    """The first device, with a context of this program's own."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise DriverError(f"no driver: {error}") from error
        self.call("cuInit", 0)
        self.count, self.ordinal, self.context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGetCount", ctypes.byref(self.count))
        self.call("cuDeviceGet", ctypes.byref(self.ordinal), 0)
        self.software = hasattr(self.library, "softgpu_calls")

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result:
            raise DriverError(f"{name}: error {result}")

    def open(self):
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.ordinal)
        self.call("cuCtxPushCurrent_v2", self.context)
        return self

    def info(self):
        name, version = ctypes.create_string_buffer(256), ctypes.c_int()
        major, minor = ctypes.c_int(), ctypes.c_int()
        total, units = ctypes.c_size_t(), ctypes.c_int()
        self.call("cuDeviceGetName", name, len(name), self.ordinal)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        # Numbers of attributes: CUDA Driver API, CUdevice_attribute.
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, self.ordinal)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, self.ordinal)
        self.call("cuDeviceGetAttribute", ctypes.byref(units), 16, self.ordinal)
        self.call("cuDeviceTotalMem_v2", ctypes.byref(total), self.ordinal)
        return {
            "name": name.value.decode(),
            "count": self.count.value,
            "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}",
            "capability": f"{major.value}.{minor.value}",
            "multiprocessors": units.value,
            "memory": total.value,
            "software": self.software,
        }

    def free(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def fill(self, leave):
        size, taken = 1 << 30, 0
        while size >= 1 << 20:
            address = ctypes.c_uint64()
            if self.free() < leave + size or self.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)):
                size //= 2
            else:
                taken += size
        return taken


def main():
    words = sys.argv[1:]
    try:
        if words == ["info"]:
            print(json.dumps(Device().info()))
        elif words == ["watch"]:
            device = Device().open()
            for _ in sys.stdin:
                print(device.free(), flush=True)
        elif len(words) == 2 and words[0] == "fill":
            device = Device().open()
            print(device.fill(int(words[1]) << 20), device.free(), flush=True)
            sys.stdin.read()
        else:
            print(__doc__.strip(), file=sys.stderr)
            return 2
    except DriverError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
