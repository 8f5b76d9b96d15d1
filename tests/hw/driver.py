#!/usr/bin/python3
# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""Questions to whichever libcuda.so.1 or libamdhip64.so the loader finds, through its own interface; needs nothing but Python.

    driver.py KIND info    prints what is there, as JSON; KIND is cuda or hip
    driver.py KIND watch   prints the free bytes of the first device for each line of standard input
    driver.py KIND fill MB takes all memory of the first device but about MB, prints what it took, waits for the end of input
    driver.py KIND take MB takes MB of it, prints their bytes, waits for the end of input
"""

import ctypes
import json
import os
import sys


class DriverError(Exception):
    pass


class CudaDevice:
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
            "driver": f"CUDA {version.value // 1000}.{version.value % 1000 // 10}",
            "capability": f"compute capability {major.value}.{minor.value}",
            "multiprocessors": units.value,
            "memory": total.value,
            "software": self.software,
        }

    def free(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def allocate(self, size):
        address = ctypes.c_uint64()
        return not self.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))


class HipDevice:
    """The same of AMD's: the first device is the current one."""

    def __init__(self):
        errors = []
        for name in ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"):
            try:
                self.library = ctypes.CDLL(name)
                break
            except OSError as error:
                errors.append(str(error))
        else:
            raise DriverError(f"no HIP runtime: {'; '.join(errors)}")
        self.call("hipInit", 0)
        self.count = ctypes.c_int()
        self.call("hipGetDeviceCount", ctypes.byref(self.count))
        # The stand-in is given an image where it stands over NVIDIA's driver.
        self.software = hasattr(self.library, "hipstand_calls") and not os.environ.get("HIPSTAND_IMAGE")

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result:
            raise DriverError(f"{name}: error {result}")

    def open(self):
        self.call("hipSetDevice", 0)
        return self

    def info(self):
        name, version = ctypes.create_string_buffer(256), ctypes.c_int()
        values = {}
        self.call("hipDeviceGetName", name, len(name), 0)
        self.call("hipRuntimeGetVersion", ctypes.byref(version))
        # Numbers of attributes: HIP's hipDeviceAttribute_t, the same in ROCm 5, 6 and 7.
        for what, number in (("units", 63), ("wave", 87)):
            value = ctypes.c_int()
            self.call("hipDeviceGetAttribute", ctypes.byref(value), number, 0)
            values[what] = value.value
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return {
            "name": name.value.decode(),
            "count": self.count.value,
            "driver": f"HIP {version.value // 10000000}.{version.value // 100000 % 100} ({version.value})",
            "capability": f"waves of {values['wave']}",
            "multiprocessors": values["units"],
            "memory": total.value,
            "software": self.software,
        }

    def free(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def allocate(self, size):
        address = ctypes.c_void_p()
        return not self.library.hipMalloc(ctypes.byref(address), ctypes.c_size_t(size))


KINDS = {"cuda": CudaDevice, "hip": HipDevice}


def fill(device, leave):
    size, taken = 1 << 30, 0
    while size >= 1 << 20:
        if device.free() < leave + size or not device.allocate(size):
            size //= 2
        else:
            taken += size
    return taken


def main():
    kind, words = KINDS.get(sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    try:
        if kind and words == ["info"]:
            print(json.dumps(kind().info()))
        elif kind and words == ["watch"]:
            device = kind().open()
            for _ in sys.stdin:
                print(device.free(), flush=True)
        elif kind and len(words) == 2 and words[0] == "fill":
            device = kind().open()
            print(fill(device, int(words[1]) << 20), device.free(), flush=True)
            sys.stdin.read()
        elif kind and len(words) == 2 and words[0] == "take":
            size = int(words[1]) << 20
            if not kind().open().allocate(size):
                raise DriverError(f"the first device has no {size} bytes")
            print(size, flush=True)
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
