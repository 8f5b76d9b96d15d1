/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What every HIP call begins and ends with: the driver below, the count, failures made to order; devices, errors.
 */
#include "hipstand.h"
#include "internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

HsDriver hs_driver;
_Thread_local int hs_device;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct {
    int error; /* the driver could not be started; or 0 */
    int n_devices;
    CUcontext contexts[HS_MAX_DEVICES]; /* primary ones, held until exit; NULL: not asked for yet */
    char arch[64];
    int arch_is_given, version;
    unsigned long calls, complaints;
    unsigned long fail_in; /* matching calls up to the one that fails, or 0 */
    char fail_name[64];    /* calls that match, or empty: all */
    int fail_code, lost, trace;
} hs;

__attribute__((noreturn)) static void die(const char *name, const char *text)
{
    fprintf(stderr, "hipstand: %s=%s makes no sense\n", name, text);
    fflush(stderr);
    abort();
}

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return otherwise;
    const long n = strtol(text, &end, 10);
    if (*end || n < 0 || n > 0x7fffffff)
        die(name, text);
    return (int)n;
}

static void set_failure(const char *name, unsigned long n, int code)
{
    snprintf(hs.fail_name, sizeof(hs.fail_name), "%s", name ? name : "");
    hs.fail_in = n;
    hs.fail_code = code;
    if (!n)
        hs.lost = 0;
}

static void set_arch(const char *name)
{
    hs.arch_is_given = name != NULL;
    snprintf(hs.arch, sizeof(hs.arch), "%s", name ? name : "");
}

/* Runs before the driver's own end. */
static void at_exit(void)
{
    for (int i = 0; i < HS_MAX_DEVICES; i++)
        if (hs.contexts[i])
            (void)hs_driver.cuDevicePrimaryCtxRelease(i);
    const char *path = getenv("HIPSTAND_COUNT");
    FILE *file = path && *path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%lu\n", hs.calls);
        fclose(file);
    }
}

/* With the first call, whichever it is, as HIP itself does. */
static void start(void)
{
    hs.version = setting("HIPSTAND_VERSION", 60342134);
    hs.trace = setting("HIPSTAND_TRACE", 0);
    set_arch(getenv("HIPSTAND_ARCH"));
    const int code = setting("HIPSTAND_FAIL_CODE", hipErrorOutOfMemory);
    const char *text = getenv("HIPSTAND_FAIL");
    if (text && *text) {
        char name[64] = "", *end;
        const char *colon = strchr(text, ':');
        if (colon)
            snprintf(name, sizeof(name), "%.*s", (int)(colon - text), text);
        const unsigned long n = strtoul(colon ? colon + 1 : text, &end, 10);
        if (*end || !n)
            die("HIPSTAND_FAIL", text);
        set_failure(name, n, code);
    }

    hs.error = hipErrorNoDevice;
    HsDriver driver;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        fprintf(stderr, "hipstand: %s\n", dlerror());
        return;
    }
#define LOOK_UP(name)                                                                                                  \
    *(void **)&driver.name = dlsym(library, #name);                                                                    \
    if (!driver.name) {                                                                                                \
        fprintf(stderr, "hipstand: libcuda.so.1 has no %s\n", #name);                                                  \
        return;                                                                                                        \
    }
    HS_DRIVER(LOOK_UP)
#undef LOOK_UP
    hs.error = (int)driver.cuInit(0);
    if (!hs.error)
        hs.error = (int)driver.cuDeviceGetCount(&hs.n_devices);
    if (hs.error)
        return;
    if (hs.n_devices > HS_MAX_DEVICES)
        hs.n_devices = HS_MAX_DEVICES;
    hs_driver = driver;
    atexit(at_exit);
}

/** Errors after which a device answers nothing else. */
static int ends_device(int code)
{
    return code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719);
}

hipError_t hs_enter(const char *name)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
    int err = hs.error;
    hs.calls++;
    if (hs.trace)
        fprintf(stderr, "hipstand: call %lu: %s\n", hs.calls, name);
    if (hs.fail_in && (!hs.fail_name[0] || !strcmp(hs.fail_name, name)) && !--hs.fail_in) {
        err = hs.fail_code;
        if (ends_device(err))
            hs.lost = err;
    }
    if (hs.lost && strcmp(name, "hipSetDevice") && strcmp(name, "hipGetDevice")) /* which ask no device */
        err = hs.lost;
    pthread_mutex_unlock(&mutex);
    return (hipError_t)err;
}

hipError_t hs_leave(int err)
{
    if (hs.trace && err)
        fprintf(stderr, "hipstand: ... returns %d\n", err);
    return (hipError_t)err;
}

/* The device's primary context, which is kept. */
static int context_of(int device, CUcontext *context)
{
    pthread_mutex_lock(&mutex);
    int err = 0;
    if (!hs.contexts[device])
        err = (int)hs_driver.cuDevicePrimaryCtxRetain(&hs.contexts[device], device);
    *context = hs.contexts[device];
    pthread_mutex_unlock(&mutex);
    return err;
}

hipError_t hs_enter_device(const char *name, int *entered)
{
    const hipError_t err = hs_enter(name);
    *entered = 0;
    if (hs.error) /* nothing could be entered */
        return err;
    CUcontext context = NULL;
    int own = context_of(hs_device, &context);
    if (!own)
        own = (int)hs_driver.cuCtxPushCurrent_v2(context);
    *entered = !own;
    return err ? err : (hipError_t)own;
}

hipError_t hs_leave_device(int err, int entered)
{
    CUcontext popped;
    if (entered)
        (void)hs_driver.cuCtxPopCurrent_v2(&popped);
    return hs_leave(err);
}

hipError_t hs_complain(hipError_t err, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char text[400];
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "hipstand: error %d: %s\n", err, text);
    pthread_mutex_lock(&mutex);
    hs.complaints++;
    pthread_mutex_unlock(&mutex);
    return err;
}

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

static hipError_t enter_about(const char *name, int device)
{
    const hipError_t err = hs_enter(name);
    return err ? err : device < 0 || device >= hs.n_devices ? hipErrorInvalidDevice : hipSuccess;
}

HS_API hipError_t hipInit(unsigned flags)
{
    const hipError_t err = hs_enter(__func__);
    return hs_leave((int)(err ? err : flags ? hipErrorInvalidValue : hipSuccess));
}

HS_API hipError_t hipRuntimeGetVersion(int *version)
{
    const hipError_t err = hs_enter(__func__);
    if (!err)
        *version = hs.version;
    return hs_leave((int)err);
}

HS_API hipError_t hipDriverGetVersion(int *version)
{
    const hipError_t err = hs_enter(__func__);
    if (!err)
        *version = hs.version;
    return hs_leave((int)err);
}

HS_API hipError_t hipGetDeviceCount(int *count)
{
    const hipError_t err = hs_enter(__func__);
    *count = err ? 0 : hs.n_devices;
    return hs_leave((int)(err ? err : hs.n_devices ? hipSuccess : hipErrorNoDevice));
}

HS_API hipError_t hipDeviceGet(hipDevice_t *device, int ordinal)
{
    const hipError_t err = enter_about(__func__, ordinal);
    if (!err)
        *device = ordinal;
    return hs_leave((int)err);
}

HS_API hipError_t hipSetDevice(int device)
{
    const hipError_t err = enter_about(__func__, device);
    if (!err)
        hs_device = device;
    return hs_leave((int)err);
}

HS_API hipError_t hipGetDevice(int *device)
{
    const hipError_t err = hs_enter(__func__);
    if (!err)
        *device = hs_device;
    return hs_leave((int)err);
}

HS_API hipError_t hipDeviceGetName(char *name, int size, hipDevice_t device)
{
    hipError_t err = enter_about(__func__, device);
    if (!err)
        err = (hipError_t)hs_driver.cuDeviceGetName(name, size, device);
    return hs_leave((int)err);
}

HS_API hipError_t hipDeviceGetPCIBusId(char *id, int size, int device)
{
    hipError_t err = enter_about(__func__, device);
    if (!err)
        err = (hipError_t)hs_driver.cuDeviceGetPCIBusId(id, size, device);
    return hs_leave((int)err);
}

HS_API hipError_t hipDeviceGetByPCIBusId(int *device, const char *id)
{
    hipError_t err = hs_enter(__func__);
    if (!err)
        err = (hipError_t)hs_driver.cuDeviceGetByPCIBusId(device, id);
    return hs_leave((int)err);
}

HS_API hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    hipError_t err = enter_about(__func__, device);
    if (!err)
        err = (hipError_t)hs_driver.cuDeviceTotalMem_v2(bytes, device);
    return hs_leave((int)err);
}

int hs_wave(int device)
{
    int wave = 0;
    return hs_driver.cuDeviceGetAttribute(&wave, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device) ? 0 : wave;
}

/* With its features; empty if the device does not tell. */
static void told_arch(int device, char name[64])
{
    pthread_mutex_lock(&mutex);
    snprintf(name, 64, "%s", hs.arch_is_given ? hs.arch : hs_wave(device) == 64 ? "gfx90a" : "gfx1100");
    pthread_mutex_unlock(&mutex);
}

void hs_arch(int device, char name[32])
{
    char told[64];
    told_arch(device, told);
    if (!told[0])
        snprintf(told, sizeof(told), "%s", hs_wave(device) == 64 ? "gfx90a" : "gfx1100");
    snprintf(name, 32, "%.*s", (int)(strcspn(told, ":") < 31 ? strcspn(told, ":") : 31), told);
}

HS_API hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device)
{
    /* HIP's number and the driver's. Not all runtimes have those of the PCI id, 67 to 69. */
    static const struct {
        int hip, driver;
    } attributes[] = {
        { hipDeviceAttributeWarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE },
        { 56, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK },
        { 63, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT },
        { 74, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK },
    };
    const hipError_t err = enter_about(__func__, device);
    if (err)
        return hs_leave((int)err);
    for (unsigned i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
        if (attributes[i].hip == (int)attribute)
            return hs_leave(
                (int)hs_driver.cuDeviceGetAttribute(value, (CUdevice_attribute)attributes[i].driver, device));
    return hs_leave((int)hs_complain(hipErrorInvalidValue, "%s: attribute %d", __func__, attribute));
}

/* Of the properties, which are many, name and architecture. They are `size` bytes, the architecture at `arch`. */
static hipError_t properties(const char *call, char *to, int device, size_t size, size_t arch)
{
    hipError_t err = enter_about(call, device);
    if (!err) {
        memset(to, 0, size);
        err = (hipError_t)hs_driver.cuDeviceGetName(to, 256, device);
        told_arch(device, to + arch);
    }
    return hs_leave((int)err);
}

HS_API hipError_t hipGetDeviceProperties(void *to, int device)
{
    return properties(__func__, to, device, 792, 396);
}

HS_API hipError_t hipGetDevicePropertiesR0600(void *to, int device)
{
    return properties(__func__, to, device, 1472, 1160);
}

HS_API hipError_t hipDeviceSynchronize(void)
{
    HS_CALL(hs_driver.cuCtxSynchronize());
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static const struct {
    int error;
    const char *name, *text;
} errors[] = {
    { 0, "hipSuccess", "no error" },
    { 1, "hipErrorInvalidValue", "invalid argument" },
    { 2, "hipErrorOutOfMemory", "out of memory" },
    { 3, "hipErrorNotInitialized", "initialization error" },
    { 98, "hipErrorInvalidDeviceFunction", "invalid device function" },
    { 100, "hipErrorNoDevice", "no ROCm-capable device is detected" },
    { 101, "hipErrorInvalidDevice", "invalid device ordinal" },
    { 200, "hipErrorInvalidImage", "device kernel image is invalid" },
    { 209, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device" },
    { 400, "hipErrorInvalidHandle", "invalid resource handle" },
    { 500, "hipErrorNotFound", "named symbol not found" },
    { 600, "hipErrorNotReady", "device not ready" },
    { 700, "hipErrorIllegalAddress", "an illegal memory access was encountered" },
    { 719, "hipErrorLaunchFailure", "unspecified launch failure" },
    { 801, "hipErrorNotSupported", "operation not supported" },
};

HS_API const char *hipGetErrorName(hipError_t error)
{
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].error == (int)error)
            return errors[i].name;
    return "hipErrorUnknown";
}

HS_API const char *hipGetErrorString(hipError_t error)
{
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].error == (int)error)
            return errors[i].text;
    return "unknown error";
}

/* ---- For tests --------------------------------------------------------------------------------------------------- */

HS_API void hipstand_fail_at(unsigned long n, int code)
{
    hipstand_fail_call(NULL, n, code);
}

HS_API void hipstand_fail_call(const char *name, unsigned long n, int code)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
    set_failure(name, n, code);
    pthread_mutex_unlock(&mutex);
}

HS_API unsigned long hipstand_calls(void)
{
    pthread_mutex_lock(&mutex);
    const unsigned long n = hs.calls;
    pthread_mutex_unlock(&mutex);
    return n;
}

HS_API unsigned long hipstand_complaints(void)
{
    pthread_mutex_lock(&mutex);
    const unsigned long n = hs.complaints;
    pthread_mutex_unlock(&mutex);
    return n;
}

HS_API void hipstand_set_arch(const char *name)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
    set_arch(name);
    pthread_mutex_unlock(&mutex);
}
