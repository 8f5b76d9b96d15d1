/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The software device: a libcuda.so.1 for tests, never installed, that runs our kernels on the CPU.
 *
 * Environment variables, read at the first call:
 *
 *   SOFTGPU_WAVE=16|32|64    wave size (32)
 *   SOFTGPU_ORDER=N          when work runs: 0 at once (default); 1 only when something waits for it; larger numbers
 *                            seed random progress of the streams, and the order of blocks and threads
 *   SOFTGPU_THREADS=N        threads that run blocks, the caller included (the number of processors, at most 16)
 *   SOFTGPU_DEVICES=N        devices, 0 to 8 (1)
 *   SOFTGPU_MEMORY=BYTES     memory of each device (8 GiB)
 *   SOFTGPU_SHARED=BYTES     most shared memory of a block, 49152 to 232448 (232448); 49152 can be had without asking
 *   SOFTGPU_IMAGES=LIST      module images that load, out of ptx, elf, fatbin (all); others: error 209
 *   SOFTGPU_FAIL=N           the Nth driver call of the program fails
 *   SOFTGPU_FAIL=NAME:N      the Nth call of this entry point fails (cuMemAlloc_v2:3)
 *   SOFTGPU_FAIL_CODE=CODE   how it fails (2, out of memory); 700, 702, 710 and 714 to 719 are the end of the device:
 *                            from then on all calls fail with that code
 *   SOFTGPU_FLIP=N:BYTE      the Nth copy from a device to pinned memory delivers this byte (0 if not given) with its
 *                            lowest bit flipped
 *   SOFTGPU_COUNT=PATH       at exit, writes the number of driver calls
 *   SOFTGPU_LIVE=PATH        at exit, writes what was not released: one "KIND NUMBER" a line, nothing if all was
 *   SOFTGPU_TRACE=1          prints every driver call to standard error
 *
 * What ends the program with a message and SIGABRT, because no error code would reach the test that caused it: a write
 * beside a buffer (looked for after each kernel, at each release and at exit), threads of a block that do not meet at
 * the same barrier or wave operation, a kernel given memory of another device, shared arrays (as far as they are
 * written to) that together with dynamic shared memory exceed the limit. Misuse that a driver answers with an
 * error code is answered with that code, explained in a line on standard error.
 *
 * Releasing calls (free, destroy, unload, release, pop) that are made to fail do their work all the same, as a driver's
 * do when they report an earlier launch's failure.
 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include <stddef.h>

/** The n-th driver call from now on fails with `code`; n = 0: none does, and a lost device is well again. */
void softgpu_fail_at(unsigned long n, int code);
/** The same, counting only calls of one entry point, by its name in the library. NULL: as softgpu_fail_at(). */
void softgpu_fail_call(const char *name, unsigned long n, int code);

/** Driver calls so far. cuGetErrorName() and cuGetErrorString(), which cannot fail, are not counted. */
unsigned long softgpu_calls(void);

/**
 * Contexts (each retain of a primary one counts), allocations, pinned memory, streams, events, modules and graphs that
 * have not been released. What a destroyed context took with it stays counted: nobody released it.
 */
size_t softgpu_live_objects(void);
/** The same for the bytes of device and pinned memory. */
size_t softgpu_live_bytes(void);
/** Prints a line for each kind of live objects to standard error. */
void softgpu_print_live(void);

/** Changes SOFTGPU_ORDER; work not yet done is done first. */
void softgpu_set_order(unsigned long order);
/** Changes SOFTGPU_WAVE; no work may be pending. */
void softgpu_set_wave(unsigned size);
/** Changes SOFTGPU_MEMORY. */
void softgpu_set_memory(size_t bytes);

/**
 * How often the host waited for the device: for streams, events, contexts, in copies that wait. `spinning` (may be
 * NULL): how many of them did not ask for a blocking wait, by the event's or the context's flag.
 */
unsigned long softgpu_waits(unsigned long *spinning);

/** Operations that are enqueued and not done yet, in all streams. */
size_t softgpu_pending(void);

/** Calls answered with an error because of misuse, each explained on standard error. */
unsigned long softgpu_complaints(void);

/** Looks at the guards of all buffers now; ends the program if one was written to. */
void softgpu_check_guards(void);

#endif
