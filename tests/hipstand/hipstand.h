/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The HIP stand-in: a libamdhip64.so.7 for tests, never installed, that hands HIP's calls to whichever libcuda.so.1 the
 * loader finds: the software device (tests/softgpu) or NVIDIA's driver. So the host's side of HIP runs without an AMD
 * device; what AMD's compiler made of the kernels is looked at, but not run: the module of the driver below is.
 *
 * Environment variables, read at the first call:
 *
 *   HIPSTAND_ARCH=NAME       architecture that devices say they have, with features if wanted (gfx90a:sramecc+:xnack-).
 *                            Default: gfx1100, or gfx90a if the driver's waves have 64 lanes. Empty: devices do not tell,
 *                            and are gfx1100 or gfx90a
 *   HIPSTAND_VERSION=N       version of the runtime (60342134); below 60000000 device properties have their old form
 *   HIPSTAND_IMAGE=PATH      what the driver below is given for a module: PTX, ELF or a fat binary with the same kernels.
 *                            Default: a beginning of PTX, which is enough for the software device
 *   HIPSTAND_FAIL=N          the Nth HIP call of the program fails
 *   HIPSTAND_FAIL=NAME:N     the Nth call of this entry point fails (hipMalloc:3)
 *   HIPSTAND_FAIL_CODE=CODE  how it fails (2, out of memory); 700, 702, 710 and 714 to 719 are the end of the device:
 *                            from then on all calls fail with that code
 *   HIPSTAND_COUNT=PATH      at exit, writes the number of HIP calls
 *   HIPSTAND_TRACE=1         prints every HIP call to standard error
 *
 * The software device's own variables (SOFTGPU_*) serve as well: SOFTGPU_LIVE tells what was not released, once the
 * stand-in has released its contexts, which it does at exit.
 *
 * Devices, streams and memory are the driver's. The current device is each thread's own, 0 at first; a call that works on
 * a device makes its primary context current, and the one before afterwards.
 *
 * A module must be an AMD code object (ELF) for the device's architecture or a bundle with an entry for it: else error 209
 * or 200. A function must have a kernel descriptor there; launches are checked against it: bytes of arguments, local memory
 * (64 KiB at most), lanes of a wave. Misuse is answered with an error code, explained in a line on standard error.
 *
 * External memory: opaque file descriptors that can be mapped (memfd). The descriptor stays the caller's. Buffers that are
 * mapped there are released by hipFree(), before the memory goes.
 *
 * Releasing calls that are made to fail do their work all the same.
 */
#ifndef HIPSTAND_H
#define HIPSTAND_H

#include <stddef.h>

/** The n-th HIP call from now on fails with `code`; n = 0: none does, and a lost device is well again. */
void hipstand_fail_at(unsigned long n, int code);
/** The same, counting only calls of one entry point. NULL: as hipstand_fail_at(). */
void hipstand_fail_call(const char *name, unsigned long n, int code);

/** HIP calls so far. hipGetErrorName() and hipGetErrorString(), which cannot fail, are not counted. */
unsigned long hipstand_calls(void);
/** Calls answered with an error because of misuse, each explained on standard error. */
unsigned long hipstand_complaints(void);
/** Changes HIPSTAND_ARCH; NULL: its default. */
void hipstand_set_arch(const char *name);

#endif
