/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What the files of the HIP stand-in share.
 */
#ifndef HIPSTAND_INTERNAL_H
#define HIPSTAND_INTERNAL_H

#include "engine/hip_api.h"
#include "tests/softgpu/driver_api.h"

#define HS_API __attribute__((visibility("default")))

enum { HS_MAX_DEVICES = 8 };

/* More of HIP, for FFmpeg's side and for tests. */
typedef struct ihipExternalMemory *hipExternalMemory_t;

enum { hipExternalMemoryHandleTypeOpaqueFd = 1 };

/* As CUDA has it: HIP's own is the same, but shorter in older releases. */
typedef struct hipExternalMemoryHandleDesc {
    int type;
    union {
        int fd;
        void *pointers[2];
    } handle;
    unsigned long long size;
    unsigned flags;
} hipExternalMemoryHandleDesc;

typedef struct hipExternalMemoryBufferDesc {
    unsigned long long offset, size;
    unsigned flags;
} hipExternalMemoryBufferDesc;

hipError_t hipDriverGetVersion(int *version);
hipError_t hipDeviceGet(hipDevice_t *device, int ordinal);
hipError_t hipDeviceGetByPCIBusId(int *device, const char *id);
hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device);
hipError_t hipDeviceSynchronize(void);
hipError_t hipGetDeviceProperties(void *properties, int device);
hipError_t hipGetDevicePropertiesR0600(void *properties, int device);
hipError_t hipMemGetInfo(size_t *free_bytes, size_t *total_bytes);
hipError_t hipMallocPitch(void **address, size_t *pitch, size_t width, size_t height);
hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                       hipMemcpyKind kind);
hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, const void *src, size_t size);
hipError_t hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size);
hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size);
hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t n);
hipError_t hipMemsetAsync(void *dst, int value, size_t n, hipStream_t stream);
hipError_t hipMemset2DAsync(void *dst, size_t pitch, int value, size_t width, size_t height, hipStream_t stream);
hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamIsCapturing(hipStream_t stream, int *status);
hipError_t hipEventCreate(hipEvent_t *event);
hipError_t hipImportExternalMemory(hipExternalMemory_t *memory, const hipExternalMemoryHandleDesc *desc);
hipError_t hipExternalMemoryGetMappedBuffer(void **address, hipExternalMemory_t memory,
                                            const hipExternalMemoryBufferDesc *desc);
hipError_t hipDestroyExternalMemory(hipExternalMemory_t memory);

/* The driver below. */
#define HS_DRIVER(F)                                                                                                   \
    F(cuInit)                                                                                                          \
    F(cuDeviceGetCount)                                                                                                \
    F(cuDeviceGet)                                                                                                     \
    F(cuDeviceGetName)                                                                                                 \
    F(cuDeviceGetAttribute)                                                                                            \
    F(cuDeviceGetPCIBusId)                                                                                             \
    F(cuDeviceGetByPCIBusId)                                                                                           \
    F(cuDeviceTotalMem_v2)                                                                                             \
    F(cuDevicePrimaryCtxRetain)                                                                                        \
    F(cuDevicePrimaryCtxRelease)                                                                                       \
    F(cuCtxPushCurrent_v2)                                                                                             \
    F(cuCtxPopCurrent_v2)                                                                                              \
    F(cuCtxSynchronize)                                                                                                \
    F(cuMemGetInfo_v2)                                                                                                 \
    F(cuMemAlloc_v2)                                                                                                   \
    F(cuMemAllocPitch_v2)                                                                                              \
    F(cuMemFree_v2)                                                                                                    \
    F(cuMemAllocHost_v2)                                                                                               \
    F(cuMemFreeHost)                                                                                                   \
    F(cuMemHostRegister_v2)                                                                                            \
    F(cuMemHostUnregister)                                                                                             \
    F(cuMemHostGetDevicePointer_v2)                                                                                    \
    F(cuMemcpy)                                                                                                        \
    F(cuMemcpyAsync)                                                                                                   \
    F(cuMemcpyHtoD_v2)                                                                                                 \
    F(cuMemcpyDtoH_v2)                                                                                                 \
    F(cuMemcpyDtoD_v2)                                                                                                 \
    F(cuMemcpyHtoDAsync_v2)                                                                                            \
    F(cuMemcpyDtoHAsync_v2)                                                                                            \
    F(cuMemcpyDtoDAsync_v2)                                                                                            \
    F(cuMemcpy2D_v2)                                                                                                   \
    F(cuMemcpy2DAsync_v2)                                                                                              \
    F(cuMemsetD8_v2)                                                                                                   \
    F(cuMemsetD8Async)                                                                                                 \
    F(cuMemsetD2D8Async)                                                                                               \
    F(cuStreamCreate)                                                                                                  \
    F(cuStreamDestroy_v2)                                                                                              \
    F(cuStreamSynchronize)                                                                                             \
    F(cuStreamQuery)                                                                                                   \
    F(cuStreamWaitEvent)                                                                                               \
    F(cuStreamIsCapturing)                                                                                             \
    F(cuStreamBeginCapture_v2)                                                                                         \
    F(cuStreamEndCapture)                                                                                              \
    F(cuEventCreate)                                                                                                   \
    F(cuEventDestroy_v2)                                                                                               \
    F(cuEventRecord)                                                                                                   \
    F(cuEventQuery)                                                                                                    \
    F(cuEventSynchronize)                                                                                              \
    F(cuEventElapsedTime)                                                                                              \
    F(cuModuleLoadData)                                                                                                \
    F(cuModuleUnload)                                                                                                  \
    F(cuModuleGetFunction)                                                                                             \
    F(cuFuncSetAttribute)                                                                                              \
    F(cuLaunchKernel)                                                                                                  \
    F(cuGraphInstantiateWithFlags)                                                                                     \
    F(cuGraphLaunch)                                                                                                   \
    F(cuGraphExecDestroy)                                                                                              \
    F(cuGraphDestroy)

typedef struct HsDriver {
#define HS_MEMBER(name) __typeof__(name) *name;
    HS_DRIVER(HS_MEMBER)
#undef HS_MEMBER
} HsDriver;

extern HsDriver hs_driver;
extern _Thread_local int hs_device; /* the thread's current one */

/* calls.c */
/** Begins a call: starts the driver, counts. The error that the call must return, or 0. */
hipError_t hs_enter(const char *name);
/** Ends it. HIP's error numbers are CUDA's. */
hipError_t hs_leave(int err);
/** The same as hs_enter(), and makes the context of the thread's device current: to be ended by hs_leave_device(). */
hipError_t hs_enter_device(const char *name, int *entered);
hipError_t hs_leave_device(int err, int entered);
/** Explains an error that the caller's misuse causes. Returns `err`. */
hipError_t hs_complain(hipError_t err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Lanes of a wave of the driver's device; 0 if it does not tell. */
int hs_wave(int device);
/** The architecture without features; what it is even if the device does not tell. */
void hs_arch(int device, char name[32]);

/*
 * A call that works on the thread's device. RELEASE: one that releases something, which it does even if it is made to fail.
 */
#define HS_CALL(call)                                                                                                  \
    do {                                                                                                               \
        int entered_, err_ = (int)hs_enter_device(__func__, &entered_);                                                \
        if (!err_)                                                                                                     \
            err_ = (int)(call);                                                                                        \
        return hs_leave_device(err_, entered_);                                                                        \
    } while (0)
#define HS_RELEASE(call)                                                                                               \
    do {                                                                                                               \
        int entered_, err_ = (int)hs_enter_device(__func__, &entered_), own_ = 0;                                      \
        if (hs_driver.cuInit)                                                                                          \
            own_ = (int)(call);                                                                                        \
        return hs_leave_device(err_ ? err_ : own_, entered_);                                                          \
    } while (0)

/* external.c */
/** Whether the address lies in external memory: then *err is what freeing a buffer that was mapped there gives. */
int hs_free_external(const void *address, int *err);

/* code_object.c: AMD's ELF files. */
typedef struct HsKernel {
    char name[64];
    uint32_t args_size;    /* bytes of arguments */
    uint32_t local_memory; /* bytes that its arrays take */
    int wave;              /* lanes */
} HsKernel;

/**
 * Reads the kernels of the code object, or of a bundle's entry, for this architecture; *kernels is to be freed.
 * hipErrorInvalidImage if there is none of these, hipErrorNoBinaryForGpu if they are for other architectures.
 */
hipError_t hs_read_code(const void *image, const char *arch, HsKernel **kernels, unsigned *n);

#endif
