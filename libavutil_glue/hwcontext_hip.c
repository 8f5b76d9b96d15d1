/*
 * Copyright (c) 2026 the vmaf_gpu authors
 *
 * Redistribution and use in source and binary forms, with or without
 * modification, are permitted provided that the following conditions are met:
 *
 * 1. Redistributions of source code must retain the above copyright notice, this
 *    list of conditions and the following disclaimer.
 *
 * 2. Redistributions in binary form must reproduce the above copyright notice,
 *    this list of conditions and the following disclaimer in the documentation
 *    and/or other materials provided with the distribution.
 *
 * THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS"
 * AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE
 * IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
 * DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE
 * FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
 * DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
 * SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
 * CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,
 * OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
 * OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
 */

/**
 * @file
 * Devices of type HIP: AMD GPUs, through ROCm's HIP runtime, which is opened at run time.
 *
 * No ROCm header is needed: the entry points that are used have been the same since ROCm 5.
 */

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "config.h"

#include "avstring.h"
#include "bprint.h"
#include "buffer.h"
#include "common.h"
#include "error.h"
#include "frame.h"
#include "hwcontext.h"
#include "hwcontext_drm.h"
#include "hwcontext_hip.h"
#include "hwcontext_internal.h"
#include "imgutils.h"
#include "log.h"
#include "mem.h"
#include "pixdesc.h"
#include "thread.h"
#include "version.h"

/* Where a frames context's own pool lives: the only thing that differs between FFmpeg's releases. */
#if LIBAVUTIL_VERSION_MAJOR < 59
#define POOL(ctx) ((ctx)->internal->pool_internal)
#else
#define POOL(ctx) (ffhwframesctx(ctx)->pool_internal)
#endif

/* ---- The runtime ------------------------------------------------------------------------------------------------ */

/* As in hip_runtime_api.h of ROCm 5, 6 and 7. */
enum { HIP_SUCCESS = 0, HIP_INVALID_VALUE = 1, HIP_OUT_OF_MEMORY = 2, HIP_NO_DEVICE = 100, HIP_INVALID_DEVICE = 101 };
enum { HIP_HOST_TO_DEVICE = 1, HIP_DEVICE_TO_HOST = 2, HIP_DEVICE_TO_DEVICE = 3 };
enum { HIP_OPAQUE_FD = 1 }; /* type of external memory */
enum { ROCM_5_7 = 50700000 };

/* Both have grown: later fields are reserved and zero, and earlier runtimes do not look at them. */
typedef struct ExternalMemory {
    int type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
    } handle;
    unsigned long long size;
    unsigned flags;
    unsigned reserved[16];
} ExternalMemory;

typedef struct ExternalBuffer {
    unsigned long long offset, size;
    unsigned flags;
    unsigned reserved[16];
} ExternalBuffer;

#define HIP_FUNCTIONS(F)                                                                                               \
    F(int, hipInit, (unsigned flags))                                                                                  \
    F(int, hipRuntimeGetVersion, (int *version))                                                                       \
    F(int, hipGetDeviceCount, (int *count))                                                                            \
    F(int, hipGetDevice, (int *device))                                                                                \
    F(int, hipSetDevice, (int device))                                                                                 \
    F(int, hipDeviceGetName, (char *name, int size, int device))                                                       \
    F(int, hipDeviceGetPCIBusId, (char *id, int size, int device))                                                     \
    F(int, hipMalloc, (void **address, size_t size))                                                                   \
    F(int, hipFree, (void *address))                                                                                   \
    F(int, hipMemcpy2DAsync,                                                                                           \
      (void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height, int kind,          \
       void *stream))                                                                                                  \
    F(int, hipStreamSynchronize, (void *stream))                                                                       \
    F(int, hipImportExternalMemory, (void **memory, const ExternalMemory *what))                                       \
    F(int, hipExternalMemoryGetMappedBuffer, (void **address, void *memory, const ExternalBuffer *what))               \
    F(int, hipDestroyExternalMemory, (void *memory))                                                                   \
    F(const char *, hipGetErrorName, (int error))

typedef struct Hip {
    void *library; ///< NULL: not opened
#define POINTER(type, name, arguments) type(*name) arguments;
    HIP_FUNCTIONS(POINTER)
#undef POINTER
} Hip;

#define NAME_SIZE 100
#define PCI_SIZE  24 /* "0000:03:00.0"; domains can be longer */

typedef struct HIPDeviceContext {
    AVHIPDeviceContext p;
    Hip hip;
    char description[NAME_SIZE + PCI_SIZE + 4];
} HIPDeviceContext;

static Hip *hip_of(const AVHWDeviceContext *ctx)
{
    return &((HIPDeviceContext *)ctx->hwctx)->hip;
}

/* Translates the result of a call; reports an error. */
static int check(AVHWDeviceContext *ctx, int error, const char *call)
{
    const char *name;

    if (error == HIP_SUCCESS)
        return 0;
    name = hip_of(ctx)->hipGetErrorName(error);
    av_log(ctx, AV_LOG_ERROR, "%s failed: %s (%d)\n", call, name ? name : "unknown error", error);
    switch (error) {
    case HIP_INVALID_VALUE:
        return AVERROR(EINVAL);
    case HIP_OUT_OF_MEMORY:
        return AVERROR(ENOMEM);
    case HIP_NO_DEVICE:
    case HIP_INVALID_DEVICE:
        return AVERROR(ENODEV);
    default:
        return AVERROR_EXTERNAL;
    }
}

#define CALL(ctx, function, ...) check(ctx, hip_of(ctx)->function(__VA_ARGS__), #function)

static void close_runtime(Hip *hip)
{
    if (hip->library)
        dlclose(hip->library);
    memset(hip, 0, sizeof(*hip));
}

static int open_runtime(AVHWDeviceContext *ctx)
{
    static const char *const names[] = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so" };
    Hip *hip = hip_of(ctx);
    const char *missing = NULL, *name = NULL;
    char reason[300] = "";
    int n = FF_ARRAY_ELEMS(names), is_absent = 0;

    if (hip->library)
        return 0;
    /* First one that is in the process already: to a second runtime its streams and its memory would mean nothing. */
    for (int i = 0; i < 2 * n && !hip->library; i++) {
        const char *error;

        name = names[i % n];
        /* It stays in memory when it is closed: it has threads of its own. */
        hip->library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | (i < n ? RTLD_NOLOAD : 0));
        if (hip->library || i < n || !(error = dlerror()))
            continue;
        /* That the first one is not there says less than what another one that is there lacks. */
        if (!*reason || (is_absent && !av_strstart(error, name, NULL))) {
            av_strlcpy(reason, error, sizeof(reason));
            is_absent = av_strstart(error, name, NULL);
        }
    }
    if (!hip->library) {
        av_log(ctx, AV_LOG_ERROR,
               "ROCm's HIP runtime cannot be opened (%s): install it, or put its folder, usually /opt/rocm/lib, into "
               "LD_LIBRARY_PATH\n",
               reason);
        return AVERROR(ENODEV);
    }

#define LOOK_UP(type, name, arguments)                                                                                 \
    if (!(hip->name = (type(*) arguments)dlsym(hip->library, #name)) && !missing)                                      \
        missing = #name;
    HIP_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    if (missing) {
        av_log(ctx, AV_LOG_ERROR, "%s has no function %s: install the HIP runtime of ROCm 5 or later\n", name, missing);
        close_runtime(hip);
        return AVERROR(ENOSYS);
    }
    return 0;
}

/* Makes a device the thread's current one; leave_device() restores what was. */
static int enter_device(AVHWDeviceContext *ctx, int *before)
{
    const AVHIPDeviceContext *hwctx = ctx->hwctx;
    int ret = CALL(ctx, hipGetDevice, before);

    if (ret >= 0 && *before != hwctx->device)
        ret = CALL(ctx, hipSetDevice, hwctx->device);
    return ret;
}

/* Gives `ret`, or the error of leaving if that is none. */
static int leave_device(AVHWDeviceContext *ctx, int before, int ret)
{
    const AVHIPDeviceContext *hwctx = ctx->hwctx;
    int error = before != hwctx->device ? CALL(ctx, hipSetDevice, before) : 0;

    return ret < 0 ? ret : error;
}

/* ---- Devices ---------------------------------------------------------------------------------------------------- */

/* "0000:03:00.0" or "03:00.0" in any case as HIP's devices have it. */
static int normalise_pci(const char *text, char pci[PCI_SIZE])
{
    unsigned domain, bus, slot, function;
    int end = 0;

    if (sscanf(text, "%x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &end) != 4 || text[end]) {
        domain = end = 0;
        if (sscanf(text, "%2x:%2x.%1x%n", &bus, &slot, &function, &end) != 3 || text[end])
            return 0;
    }
    snprintf(pci, PCI_SIZE, "%04x:%02x:%02x.%x", domain, bus & 0xff, slot & 0xff, function & 0xf);
    return 1;
}

/* The attributes that would tell the PCI id are not in all runtimes. */
static int describe_device(AVHWDeviceContext *ctx, int device, char name[NAME_SIZE], char pci[PCI_SIZE])
{
    char id[32];
    int ret;

    if ((ret = CALL(ctx, hipDeviceGetName, name, NAME_SIZE, device)) < 0 ||
        (ret = CALL(ctx, hipDeviceGetPCIBusId, id, sizeof(id), device)) < 0)
        return ret;
    if (!normalise_pci(id, pci))
        av_strlcpy(pci, id, PCI_SIZE);
    return 0;
}

/* Number of devices; none is an error. */
static int count_devices(AVHWDeviceContext *ctx)
{
    const char *call = "hipInit";
    int count = 0, error, ret;

    if ((ret = open_runtime(ctx)) < 0)
        return ret;
    error = hip_of(ctx)->hipInit(0);
    if (error == HIP_SUCCESS) {
        call = "hipGetDeviceCount";
        error = hip_of(ctx)->hipGetDeviceCount(&count);
    }
    if (error == HIP_NO_DEVICE || error == HIP_INVALID_DEVICE || (error == HIP_SUCCESS && count <= 0)) {
        av_log(ctx, AV_LOG_ERROR,
               "HIP finds no AMD GPU: is one installed that ROCm supports, the amdgpu driver loaded, and may this user "
               "open /dev/kfd and /dev/dri/renderD* (groups render and video)?\n");
        return AVERROR(ENODEV);
    }
    ret = check(ctx, error, call);
    return ret < 0 ? ret : count;
}

static int refuse_device(AVHWDeviceContext *ctx, const char *wanted, int count)
{
    char name[NAME_SIZE], pci[PCI_SIZE];
    AVBPrint all;

    av_bprint_init(&all, 0, AV_BPRINT_SIZE_AUTOMATIC);
    for (int i = 0; i < count; i++)
        if (describe_device(ctx, i, name, pci) >= 0)
            av_bprintf(&all, "%s%d (%s, %s)", i ? ", " : "", i, pci, name);
    av_log(ctx, AV_LOG_ERROR, "there is no HIP device \"%s\": give the index or the PCI id of one of %s\n", wanted,
           all.str);
    return AVERROR(ENODEV);
}

/* Finds a device by index or PCI id; the first one if nothing is given. */
static int find_device(AVHWDeviceContext *ctx, const char *wanted)
{
    int count = count_devices(ctx), ret;
    char name[NAME_SIZE], pci[PCI_SIZE], wanted_pci[PCI_SIZE], *end;
    long index;

    if (count < 0)
        return count;
    if (!wanted || !*wanted)
        return 0;

    index = strtol(wanted, &end, 10);
    if (av_isdigit(*wanted) && !*end && index < count)
        return index;
    if (normalise_pci(wanted, wanted_pci))
        for (int i = 0; i < count; i++) {
            if ((ret = describe_device(ctx, i, name, pci)) < 0)
                return ret;
            if (!strcmp(pci, wanted_pci))
                return i;
        }
    return refuse_device(ctx, wanted, count);
}

static void hip_device_uninit(AVHWDeviceContext *ctx)
{
    close_runtime(hip_of(ctx));
}

static int hip_device_init(AVHWDeviceContext *ctx)
{
    HIPDeviceContext *hwctx = ctx->hwctx;
    char name[NAME_SIZE], pci[PCI_SIZE], index[16];
    int count = count_devices(ctx), ret;

    if (count < 0)
        return count;
    if (hwctx->p.device < 0 || hwctx->p.device >= count) {
        snprintf(index, sizeof(index), "%d", hwctx->p.device);
        return refuse_device(ctx, index, count);
    }
    if ((ret = describe_device(ctx, hwctx->p.device, name, pci)) < 0)
        return ret;
    snprintf(hwctx->description, sizeof(hwctx->description), "%s (%s)", name, pci);
    hwctx->p.description = hwctx->description;
    av_log(ctx, AV_LOG_VERBOSE, "HIP device %d: %s\n", hwctx->p.device, hwctx->description);
    return 0;
}

static int hip_device_create(AVHWDeviceContext *ctx, const char *device, AVDictionary *opts, int flags)
{
    AVHIPDeviceContext *hwctx = ctx->hwctx;
    int ret = find_device(ctx, device);

    if (ret < 0)
        return ret;
    hwctx->device = ret;
    return 0;
}

/* PCI id of the GPU behind a file descriptor of its DRM device. */
static int find_pci(AVHWDeviceContext *ctx, int fd, char pci[PCI_SIZE])
{
    char path[64], target[PATH_MAX];
    struct stat file;
    ssize_t size = -1;

    if (!fstat(fd, &file)) {
        snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/device", major(file.st_rdev), minor(file.st_rdev));
        size = readlink(path, target, sizeof(target) - 1);
    }
    if (size > 0) {
        target[size] = 0;
        if (normalise_pci(av_basename(target), pci))
            return 0;
    }
    av_log(ctx, AV_LOG_ERROR, "the DRM device is not that of a GPU with a PCI id (%s)\n",
           size > 0 ? target : "not in /sys");
    return AVERROR(ENODEV);
}

static int hip_device_derive(AVHWDeviceContext *ctx, AVHWDeviceContext *src, AVDictionary *opts, int flags)
{
    AVHIPDeviceContext *hwctx = ctx->hwctx;
    char pci[PCI_SIZE];
    int ret;

    if (src->type == AV_HWDEVICE_TYPE_DRM) {
        if ((ret = find_pci(ctx, ((AVDRMDeviceContext *)src->hwctx)->fd, pci)) < 0 || (ret = find_device(ctx, pci)) < 0)
            return ret;
        hwctx->device = ret;
        return 0;
    }
    if (src->type == AV_HWDEVICE_TYPE_VAAPI) {
        if ((ret = count_devices(ctx)) < 0)
            return ret;
        if (ret == 1)
            return 0;
        av_log(ctx, AV_LOG_INFO,
               "VAAPI does not tell which of %d GPUs it uses; its DRM device does, if it was made from one: "
               "-init_hw_device drm=dr:/dev/dri/renderD128 -init_hw_device vaapi=va@dr\n",
               ret);
    }
    return AVERROR(ENOSYS); /* libavutil then asks for the device that `src` was derived from */
}

/* ---- Frames ----------------------------------------------------------------------------------------------------- */

/* Imports that no frame uses are kept up to this number: surfaces come back. */
#define MAX_IDLE 64

/* Memory of another device, mapped: one DRM object. */
typedef struct Import {
    struct Import *next;
    dev_t device; ///< these three say which dma-buf it is
    ino_t inode;
    size_t size;
    void *memory, *address;
    int users; ///< frames that use it
} Import;

typedef struct HIPFramesContext {
    AVMutex lock; ///< of the imports
    int has_lock;
    Import *imports; ///< the latest used first
} HIPFramesContext;

/* Whole native-endian bytes or words, in up to four planes. */
static int is_supported(const AVPixFmtDescriptor *desc)
{
    const uint64_t others =
        AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BAYER;
    int depth = 0;

    if (!desc || !desc->nb_components || desc->flags & others)
        return 0;
    for (int c = 0; c < desc->nb_components; c++)
        depth = FFMAX(depth, desc->comp[c].depth + desc->comp[c].shift);
    return depth <= 8 || !(desc->flags & AV_PIX_FMT_FLAG_BE) == !AV_HAVE_BIGENDIAN;
}

static int check_format(AVHWFramesContext *ctx)
{
    if (is_supported(av_pix_fmt_desc_get(ctx->sw_format)))
        return 0;
    av_log(ctx, AV_LOG_ERROR, "HIP frames cannot have the format %s\n", av_get_pix_fmt_name(ctx->sw_format));
    return AVERROR(EINVAL);
}

static int hip_frames_get_constraints(AVHWDeviceContext *ctx, const void *hwconfig, AVHWFramesConstraints *constraints)
{
    const AVPixFmtDescriptor *desc = NULL;
    int n = 0;

    while ((desc = av_pix_fmt_desc_next(desc)))
        n += is_supported(desc);
    constraints->valid_sw_formats = av_malloc_array(n + 1, sizeof(*constraints->valid_sw_formats));
    constraints->valid_hw_formats = av_malloc_array(2, sizeof(*constraints->valid_hw_formats));
    if (!constraints->valid_sw_formats || !constraints->valid_hw_formats)
        return AVERROR(ENOMEM);

    for (n = 0; (desc = av_pix_fmt_desc_next(desc));)
        if (is_supported(desc))
            constraints->valid_sw_formats[n++] = av_pix_fmt_desc_get_id(desc);
    constraints->valid_sw_formats[n] = AV_PIX_FMT_NONE;
    constraints->valid_hw_formats[0] = AV_PIX_FMT_HIP;
    constraints->valid_hw_formats[1] = AV_PIX_FMT_NONE;
    return 0;
}

static void free_memory(void *opaque, uint8_t *data)
{
    AVHWDeviceContext *ctx = ((AVHWFramesContext *)opaque)->device_ctx;

    CALL(ctx, hipFree, data); /* whatever device is current */
}

static AVBufferRef *allocate_memory(void *opaque, size_t size)
{
    AVHWDeviceContext *ctx = ((AVHWFramesContext *)opaque)->device_ctx;
    AVBufferRef *buffer = NULL;
    void *data = NULL;
    int before;

    if (enter_device(ctx, &before) < 0)
        return NULL;
    if (CALL(ctx, hipMalloc, &data, size) >= 0) {
        buffer = av_buffer_create(data, size, free_memory, opaque, 0);
        if (!buffer)
            CALL(ctx, hipFree, data);
    }
    leave_device(ctx, before, 0);
    return buffer;
}

static int init_lock(HIPFramesContext *frames)
{
    int error = frames->has_lock ? 0 : ff_mutex_init(&frames->lock, NULL);

    frames->has_lock = !error;
    return AVERROR(error);
}

static int hip_frames_init(AVHWFramesContext *ctx)
{
    int ret, size;

    if ((ret = check_format(ctx)) < 0 || (ret = init_lock(ctx->hwctx)) < 0)
        return ret;
    if (ctx->pool)
        return 0;
    size = av_image_get_buffer_size(ctx->sw_format, ctx->width, ctx->height, AV_HIP_ALIGNMENT);
    if (size < 0)
        return size;
    POOL(ctx) = av_buffer_pool_init2(size, ctx, allocate_memory, NULL);
    return POOL(ctx) ? 0 : AVERROR(ENOMEM);
}

static int hip_frames_get_buffer(AVHWFramesContext *ctx, AVFrame *frame)
{
    int ret;

    frame->buf[0] = av_buffer_pool_get(ctx->pool);
    if (!frame->buf[0])
        return AVERROR(ENOMEM);
    ret = av_image_fill_arrays(frame->data, frame->linesize, frame->buf[0]->data, ctx->sw_format, ctx->width,
                               ctx->height, AV_HIP_ALIGNMENT);
    if (ret < 0)
        return ret;
    frame->format = AV_PIX_FMT_HIP;
    frame->width = ctx->width;
    frame->height = ctx->height;
    return 0;
}

/* ---- Transfers -------------------------------------------------------------------------------------------------- */

static int hip_transfer_get_formats(AVHWFramesContext *ctx, enum AVHWFrameTransferDirection dir,
                                    enum AVPixelFormat **formats)
{
    *formats = av_malloc_array(2, sizeof(**formats));
    if (!*formats)
        return AVERROR(ENOMEM);
    (*formats)[0] = ctx->sw_format;
    (*formats)[1] = AV_PIX_FMT_NONE;
    return 0;
}

/* Rows of a plane of a picture that is `height` high. */
static int plane_rows(const AVPixFmtDescriptor *desc, int plane, int height)
{
    return plane == 1 || plane == 2 ? AV_CEIL_RSHIFT(height, desc->log2_chroma_h) : height;
}

/* Only what the frames have room for, and where they say: filters can have moved a frame's planes. */
static int check_frame(AVHWFramesContext *ctx, const AVFrame *frame, int width, int height)
{
    int n_planes = av_pix_fmt_count_planes(ctx->sw_format);

    if (width > ctx->width || height > ctx->height) {
        av_log(ctx, AV_LOG_ERROR, "a frame is %dx%d, but those on the device are %dx%d: insert scale before hwupload\n",
               width, height, ctx->width, ctx->height);
        return AVERROR(EINVAL);
    }
    for (int i = 0; i < n_planes; i++)
        if (frame->linesize[i] <= 0) {
            av_log(
                ctx, AV_LOG_ERROR,
                "a frame on the device lies upside down (pitch %d), its chroma anywhere: put vflip before hwupload or "
                "behind hwdownload\n",
                frame->linesize[i]);
            return AVERROR(EINVAL);
        }
    return 0;
}

/* Enqueues the copy of a picture. */
static int copy_planes(AVHWFramesContext *ctx, AVFrame *dst, const AVFrame *src, int kind)
{
    AVHWDeviceContext *device = ctx->device_ctx;
    void *stream = ((AVHIPDeviceContext *)device->hwctx)->stream;
    const AVPixFmtDescriptor *desc = av_pix_fmt_desc_get(ctx->sw_format);
    int n_planes = av_pix_fmt_count_planes(ctx->sw_format), ret = 0;
    int width = FFMIN(dst->width, src->width), height = FFMIN(dst->height, src->height);

    if (kind != HIP_HOST_TO_DEVICE)
        ret = check_frame(ctx, src, width, height);
    if (kind != HIP_DEVICE_TO_HOST && ret >= 0)
        ret = check_frame(ctx, dst, width, height);
    for (int i = 0; i < n_planes && ret >= 0; i++) {
        ptrdiff_t to = dst->linesize[i], from = src->linesize[i];
        int bytes = av_image_get_linesize(ctx->sw_format, width, i);
        int rows = plane_rows(desc, i, height);

        if (bytes < 0)
            return bytes;
        if (to > 0 && from > 0) {
            ret = CALL(device, hipMemcpy2DAsync, dst->data[i], to, src->data[i], from, bytes, rows, kind, stream);
            continue;
        }
        /* A picture upside down: HIP knows no pitch below zero. */
        for (int y = 0; y < rows && ret >= 0; y++)
            ret = CALL(device, hipMemcpy2DAsync, dst->data[i] + y * to, bytes, src->data[i] + y * from, bytes, bytes, 1,
                       kind, stream);
    }
    return ret;
}

/* Waits for the device's stream, whatever has happened so far; gives the first error. */
static int finish_stream(AVHWDeviceContext *ctx, int ret)
{
    int error = hip_of(ctx)->hipStreamSynchronize(((AVHIPDeviceContext *)ctx->hwctx)->stream);

    return ret < 0 ? ret : check(ctx, error, "hipStreamSynchronize");
}

/*
 * From and to the host. Both wait: ROCm may still read pageable memory of the host when the call that copies it has
 * returned, and the caller may reuse the frame when we have.
 */
static int transfer_host(AVHWFramesContext *ctx, AVFrame *dst, const AVFrame *src, int kind)
{
    AVHWDeviceContext *device = ctx->device_ctx;
    const AVFrame *host = kind == HIP_HOST_TO_DEVICE ? src : dst;
    int before, ret;

    if (host->format != ctx->sw_format) {
        av_log(ctx, AV_LOG_ERROR, "the frame in host memory is %s, but the device's frames are %s\n",
               av_get_pix_fmt_name(host->format), av_get_pix_fmt_name(ctx->sw_format));
        return AVERROR(EINVAL);
    }
    if ((ret = enter_device(device, &before)) < 0)
        return ret;
    ret = finish_stream(device, copy_planes(ctx, dst, src, kind));
    return leave_device(device, before, ret);
}

/* On one device, of which there may be two contexts with a stream each. */
static int transfer_device(AVHWFramesContext *ctx, AVFrame *dst, const AVFrame *src)
{
    const AVHWFramesContext *to = (AVHWFramesContext *)dst->hw_frames_ctx->data;
    const AVHWFramesContext *from = (AVHWFramesContext *)src->hw_frames_ctx->data;
    const AVHIPDeviceContext *a = to->device_ctx->hwctx, *b = from->device_ctx->hwctx;
    AVHWDeviceContext *device = ctx->device_ctx, *other = to->device_ctx == device ? from->device_ctx : to->device_ctx;
    int before, ret;

    if (to->sw_format != from->sw_format) {
        av_log(ctx, AV_LOG_ERROR, "a frame of format %s cannot be copied to one of format %s\n",
               av_get_pix_fmt_name(from->sw_format), av_get_pix_fmt_name(to->sw_format));
        return AVERROR(EINVAL);
    }
    if (a->device != b->device) {
        av_log(ctx, AV_LOG_ERROR, "a frame on %s cannot be copied to %s: copy it by hwdownload,hwupload\n",
               b->description, a->description);
        return AVERROR(EINVAL);
    }
    if ((ret = enter_device(device, &before)) < 0)
        return ret;
    /* Two streams know nothing of each other: what the other has begun must be over before, and the copy afterwards. */
    if (a->stream != b->stream)
        ret = finish_stream(other, 0);
    if (ret >= 0)
        ret = copy_planes(ctx, dst, src, HIP_DEVICE_TO_DEVICE);
    if (a->stream != b->stream || ret < 0)
        ret = finish_stream(device, ret);
    return leave_device(device, before, ret);
}

static int hip_transfer_data(AVHWFramesContext *ctx, AVFrame *dst, const AVFrame *src)
{
    if (!src->hw_frames_ctx)
        return transfer_host(ctx, dst, src, HIP_HOST_TO_DEVICE);
    if (!dst->hw_frames_ctx)
        return transfer_host(ctx, dst, src, HIP_DEVICE_TO_HOST);
    if (src->format != AV_PIX_FMT_HIP || dst->format != AV_PIX_FMT_HIP)
        return AVERROR(ENOSYS);
    return transfer_device(ctx, dst, src);
}

/* ---- Mapping ---------------------------------------------------------------------------------------------------- */

/* What a mapped frame uses. */
typedef struct Mapping {
    Import *import[AV_DRM_MAX_PLANES];
    int n;
} Mapping;

static void free_import(AVHWDeviceContext *ctx, Import *import)
{
    int before, entered = enter_device(ctx, &before) >= 0;

    if (import->address)
        CALL(ctx, hipFree, import->address);
    if (import->memory)
        CALL(ctx, hipDestroyExternalMemory, import->memory);
    if (entered)
        leave_device(ctx, before, 0);
    av_free(import);
}

/* Frees what has not been used for longest. */
static void trim_imports(AVHWDeviceContext *ctx, HIPFramesContext *frames, int idle)
{
    Import **at = &frames->imports;

    while (*at) {
        Import *import = *at;

        if (import->users || idle-- > 0) {
            at = &import->next;
        } else {
            *at = import->next;
            free_import(ctx, import);
        }
    }
}

static void hip_frames_uninit(AVHWFramesContext *ctx)
{
    HIPFramesContext *frames = ctx->hwctx;

    if (!frames->has_lock)
        return;
    trim_imports(ctx->device_ctx, frames, 0);
    ff_mutex_destroy(&frames->lock);
    frames->has_lock = 0;
}

/* Maps a DRM object. The descriptor stays its owner's; the import keeps the memory. */
static int map_object(AVHWDeviceContext *ctx, Import *import, int fd)
{
    ExternalMemory memory;
    ExternalBuffer buffer;
    int before, ret;

    memset(&memory, 0, sizeof(memory));
    memory.type = HIP_OPAQUE_FD;
    memory.handle.fd = fd;
    memory.size = import->size;
    memset(&buffer, 0, sizeof(buffer));
    buffer.size = import->size;

    if ((ret = enter_device(ctx, &before)) < 0)
        return ret;
    if ((ret = CALL(ctx, hipImportExternalMemory, &import->memory, &memory)) < 0)
        import->memory = NULL;
    else if ((ret = CALL(ctx, hipExternalMemoryGetMappedBuffer, &import->address, import->memory, &buffer)) < 0)
        import->address = NULL;
    else if (!import->address) /* what some runtimes call a success */
        ret = AVERROR_EXTERNAL;
    ret = leave_device(ctx, before, ret);
    if (ret < 0)
        av_log(ctx, AV_LOG_ERROR,
               "a surface cannot be mapped on %s: the runtime cannot import it, or it is in another GPU's memory; "
               "otherwise copy it, by hwdownload,hwupload\n",
               ((AVHIPDeviceContext *)ctx->hwctx)->description);
    return ret;
}

/* Gives the import of a DRM object, a new one or one that is known; the caller holds the lock. */
static int get_import(AVHWFramesContext *ctx, const AVDRMObjectDescriptor *object, Import **result)
{
    HIPFramesContext *frames = ctx->hwctx;
    Import *import = NULL, **at;
    struct stat file;
    off_t size;
    int ret;

    if (fstat(object->fd, &file) < 0 || (size = lseek(object->fd, 0, SEEK_END)) < 0) {
        ret = AVERROR(errno);
        av_log(ctx, AV_LOG_ERROR, "a surface's file descriptor %d cannot be used: %s\n", object->fd, av_err2str(ret));
        return ret;
    }

    /* Before Linux 5.3 all dma-bufs have one inode, and its size is 0: they are told apart by nothing. */
    for (at = &frames->imports; *at; at = &(*at)->next)
        if (file.st_size && (*at)->inode == file.st_ino && (*at)->device == file.st_dev &&
            (*at)->size == (size_t)size) {
            import = *at;
            *at = import->next;
            break;
        }
    if (!import) {
        if (!(import = av_mallocz(sizeof(*import))))
            return AVERROR(ENOMEM);
        import->device = file.st_dev;
        import->inode = file.st_ino;
        import->size = size;
        if ((ret = map_object(ctx->device_ctx, import, object->fd)) < 0) {
            free_import(ctx->device_ctx, import);
            return ret;
        }
    }
    import->next = frames->imports;
    frames->imports = import;
    *result = import;
    return 0;
}

static void release_mapping(AVHWFramesContext *ctx, Mapping *mapping)
{
    HIPFramesContext *frames = ctx->hwctx;

    ff_mutex_lock(&frames->lock);
    for (int i = 0; i < mapping->n; i++)
        mapping->import[i]->users--;
    trim_imports(ctx->device_ctx, frames, MAX_IDLE);
    ff_mutex_unlock(&frames->lock);
    av_free(mapping);
}

static void unmap(AVHWFramesContext *ctx, HWMapDescriptor *map)
{
    release_mapping(ctx, map->priv);
}

/* Waits until whoever writes an object has finished, as far as it says so (implicit fences of the dma-buf). */
static int wait_for_object(AVHWFramesContext *ctx, const AVDRMObjectDescriptor *object)
{
    struct pollfd written = { .fd = object->fd, .events = POLLIN };
    int ret;

    do {
        ret = poll(&written, 1, 10000);
    } while (ret < 0 && errno == EINTR);
    if (ret > 0)
        return 0;
    ret = ret ? AVERROR(errno) : AVERROR(ETIMEDOUT);
    av_log(ctx, AV_LOG_ERROR, "waiting for a surface failed: %s\n", av_err2str(ret));
    return ret;
}

/* Only lines of samples from left to right, one below the other, are what kernels read. */
static int check_modifiers(AVHWFramesContext *ctx, const AVDRMFrameDescriptor *drm)
{
    const uint64_t linear = 0, unknown = ((uint64_t)1 << 56) - 1;

    for (int i = 0; i < drm->nb_objects; i++) {
        uint64_t modifier = drm->objects[i].format_modifier;

        if (modifier == linear)
            continue;
        av_log(ctx, AV_LOG_ERROR,
               "a surface's layout is DRM modifier 0x%" PRIx64 "%s, and only linear ones (0x0) can be mapped: copy the "
               "frames instead, by hwdownload,format=%s,hwupload in place of hwmap\n",
               modifier, modifier == unknown ? " (not told)" : "", av_get_pix_fmt_name(ctx->sw_format));
        return AVERROR(ENOTSUP);
    }
    return 0;
}

/* The planes of a surface in the order of the software format; each must lie within its object. */
static int find_planes(AVHWFramesContext *ctx, const AVDRMFrameDescriptor *drm, const AVFrame *src,
                       const AVDRMPlaneDescriptor *planes[AV_DRM_MAX_PLANES])
{
    const AVPixFmtDescriptor *desc = av_pix_fmt_desc_get(ctx->sw_format);
    int wanted = av_pix_fmt_count_planes(ctx->sw_format), n = 0;

    for (int i = 0; i < drm->nb_layers && i < AV_DRM_MAX_PLANES; i++)
        for (int j = 0; j < drm->layers[i].nb_planes && j < AV_DRM_MAX_PLANES; j++, n++)
            if (n < AV_DRM_MAX_PLANES)
                planes[n] = &drm->layers[i].planes[j];
    if (n != wanted) {
        av_log(ctx, AV_LOG_ERROR, "a surface has %d planes, but %s has %d\n", n, desc->name, wanted);
        return AVERROR(EINVAL);
    }

    for (int i = 0; i < n; i++) {
        const AVDRMPlaneDescriptor *p = planes[i];
        int bytes = av_image_get_linesize(ctx->sw_format, src->width, i);
        int64_t rows = plane_rows(desc, i, src->height);
        off_t size = -1;

        if (p->object_index >= 0 && p->object_index < drm->nb_objects)
            size = lseek(drm->objects[p->object_index].fd, 0, SEEK_END);
        if (bytes < 0 || rows <= 0 || p->pitch < bytes || p->pitch > INT_MAX || p->offset < 0 || p->offset > size ||
            (rows - 1) * p->pitch + bytes > size - p->offset) {
            av_log(ctx, AV_LOG_ERROR,
                   "plane %d of a surface of %dx%d (%s), with pitch %td from byte %td on, is not within its object of "
                   "%" PRId64 " bytes\n",
                   i, src->width, src->height, desc->name, p->pitch, p->offset, (int64_t)size);
            return AVERROR(EINVAL);
        }
    }
    return 0;
}

static int map_drm(AVHWFramesContext *ctx, AVFrame *dst, const AVFrame *src)
{
    HIPFramesContext *frames = ctx->hwctx;
    const AVDRMFrameDescriptor *drm = (const AVDRMFrameDescriptor *)src->data[0];
    const AVDRMPlaneDescriptor *planes[AV_DRM_MAX_PLANES];
    int n_planes = av_pix_fmt_count_planes(ctx->sw_format), ret;
    Mapping *mapping;

    if (!drm || drm->nb_objects < 1 || drm->nb_objects > AV_DRM_MAX_PLANES) {
        av_log(ctx, AV_LOG_ERROR, "a surface has %d objects\n", drm ? drm->nb_objects : 0);
        return AVERROR(EINVAL);
    }
    if ((ret = check_modifiers(ctx, drm)) < 0 || (ret = find_planes(ctx, drm, src, planes)) < 0)
        return ret;
    if (!(mapping = av_mallocz(sizeof(*mapping))))
        return AVERROR(ENOMEM);

    for (int i = 0; i < drm->nb_objects && ret >= 0; i++)
        ret = wait_for_object(ctx, &drm->objects[i]);
    ff_mutex_lock(&frames->lock);
    while (mapping->n < drm->nb_objects && ret >= 0)
        if ((ret = get_import(ctx, &drm->objects[mapping->n], &mapping->import[mapping->n])) >= 0)
            mapping->import[mapping->n++]->users++;
    ff_mutex_unlock(&frames->lock);
    if (ret < 0 || (ret = ff_hwframe_map_create(dst->hw_frames_ctx, dst, src, unmap, mapping)) < 0) {
        release_mapping(ctx, mapping);
        return ret;
    }

    for (int i = 0; i < n_planes; i++) {
        dst->data[i] = (uint8_t *)mapping->import[planes[i]->object_index]->address + planes[i]->offset;
        dst->linesize[i] = planes[i]->pitch;
    }
    dst->width = src->width;
    dst->height = src->height;
    return 0;
}

/* By way of DRM, whose descriptors the import does not need any longer. */
static int map_vaapi(AVHWFramesContext *ctx, AVFrame *dst, const AVFrame *src, int flags)
{
    AVFrame *drm = av_frame_alloc();
    int ret;

    if (!drm)
        return AVERROR(ENOMEM);
    drm->format = AV_PIX_FMT_DRM_PRIME;
    /* Mapping for reading waits for the decoder. */
    if ((ret = av_hwframe_map(drm, src, flags | AV_HWFRAME_MAP_READ)) >= 0 && (ret = map_drm(ctx, dst, drm)) >= 0)
        ret = ff_hwframe_map_replace(dst, src);
    av_frame_free(&drm);
    return ret;
}

static int hip_map_to(AVHWFramesContext *ctx, AVFrame *dst, const AVFrame *src, int flags)
{
    if (src->hw_frames_ctx && ((AVHWFramesContext *)src->hw_frames_ctx->data)->sw_format != ctx->sw_format) {
        av_log(ctx, AV_LOG_ERROR, "surfaces of format %s cannot be mapped as %s\n",
               av_get_pix_fmt_name(((AVHWFramesContext *)src->hw_frames_ctx->data)->sw_format),
               av_get_pix_fmt_name(ctx->sw_format));
        return AVERROR(EINVAL);
    }
    if (src->format == AV_PIX_FMT_DRM_PRIME)
        return map_drm(ctx, dst, src);
    if (src->format == AV_PIX_FMT_VAAPI)
        return map_vaapi(ctx, dst, src, flags);
    return AVERROR(ENOSYS);
}

/* The way back to the host there is not. */
static int hip_map_from(AVHWFramesContext *ctx, AVFrame *dst, const AVFrame *src, int flags)
{
    av_log(ctx, AV_LOG_ERROR, "HIP frames cannot be mapped: insert hwdownload,format=%s instead of hwmap\n",
           av_get_pix_fmt_name(ctx->sw_format));
    return AVERROR(ENOSYS);
}

/* Earlier runtimes have all that mapping calls, but what they map can neither be copied nor given back. */
static int check_version(AVHWDeviceContext *ctx)
{
    int version = 0, ret = CALL(ctx, hipRuntimeGetVersion, &version);

    if (ret < 0 || version >= ROCM_5_7)
        return ret;
    av_log(ctx, AV_LOG_ERROR,
           "surfaces cannot be mapped by HIP %d.%d: this needs ROCm 5.7 or later; otherwise copy them, by "
           "hwdownload,hwupload\n",
           version / 10000000, version / 100000 % 100);
    return AVERROR(ENOTSUP); /* libavutil takes ENOSYS for nothing to be done */
}

/* Frames into which those of another device are mapped; hip_frames_init() is not called for them. */
static int hip_frames_derive_to(AVHWFramesContext *dst, AVHWFramesContext *src, int flags)
{
    const AVHWDeviceContext *device = src->device_ctx;
    char pci[PCI_SIZE];
    int ret;

    if (src->format != AV_PIX_FMT_DRM_PRIME && src->format != AV_PIX_FMT_VAAPI) {
        av_log(dst, AV_LOG_ERROR,
               "%s frames cannot be mapped as HIP frames: insert hwdownload,hwupload instead of hwmap\n",
               av_get_pix_fmt_name(src->format));
        return AVERROR(EINVAL);
    }
    if (device->type == AV_HWDEVICE_TYPE_DRM && ((AVDRMDeviceContext *)device->hwctx)->fd >= 0) {
        const AVHIPDeviceContext *hwctx = dst->device_ctx->hwctx;

        if ((ret = find_pci(dst->device_ctx, ((AVDRMDeviceContext *)device->hwctx)->fd, pci)) < 0)
            return ret;
        if (!strstr(hwctx->description, pci)) {
            av_log(dst, AV_LOG_ERROR,
                   "the surfaces are on the GPU %s, but the HIP device is %s: derive it from theirs, e.g. "
                   "hwmap=derive_device=hip,format=hip\n",
                   pci, hwctx->description);
            return AVERROR(EINVAL);
        }
    }
    if ((ret = check_version(dst->device_ctx)) < 0 || (ret = check_format(dst)) < 0)
        return ret;
    return init_lock(dst->hwctx);
}

const HWContextType ff_hwcontext_type_hip = {
    .type = AV_HWDEVICE_TYPE_HIP,
    .name = "HIP",

    .device_hwctx_size = sizeof(HIPDeviceContext),
    .frames_hwctx_size = sizeof(HIPFramesContext),

    .device_create = hip_device_create,
    .device_derive = hip_device_derive,
    .device_init = hip_device_init,
    .device_uninit = hip_device_uninit,
    .frames_get_constraints = hip_frames_get_constraints,
    .frames_init = hip_frames_init,
    .frames_uninit = hip_frames_uninit,
    .frames_get_buffer = hip_frames_get_buffer,
    .transfer_get_formats = hip_transfer_get_formats,
    .transfer_data_to = hip_transfer_data,
    .transfer_data_from = hip_transfer_data,
    .map_to = hip_map_to,
    .map_from = hip_map_from,
    .frames_derive_to = hip_frames_derive_to,

    .pix_fmts = (const enum AVPixelFormat[]){ AV_PIX_FMT_HIP, AV_PIX_FMT_NONE },
};
