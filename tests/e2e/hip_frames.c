/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * HIP devices and frames through libavutil's own interface: what the ffmpeg program cannot be made to do without an AMD
 * device. test_hip.py compiles it with the libavutil of the tree under test and runs it on the HIP stand-in:
 *
 *     hip_frames transfers           every format, odd sizes, pictures upside down, copies between frames
 *     hip_frames device              the user's device and stream; what must be refused
 *     hip_frames derive LINK...      devices from a DRM device whose link in /sys is LINK
 *     hip_frames map FORMAT KIND     surfaces made of memfds, as decoders export them: KIND is layers, planes or objects
 *     hip_frames modifier NUMBER     one with this DRM modifier
 *     hip_frames broken CASE         one that is not what it says
 *     hip_frames other               surfaces of another GPU
 *     hip_frames many                more surfaces than imports are kept
 *     hip_frames filter devices      frames of two devices into the filter vmaf_gpu, which must refuse them
 *     hip_frames filter contexts     frames of one device, made twice
 *     hip_frames filter surfaces     mapped surfaces; d.raw and r.raw are what is in them, the log is log.json
 *     hip_frames filter hwmap        the same, mapped by the filter hwmap
 *     hip_frames all                 what the calls made to fail in turn are made by
 *
 * The exit status is 0 if all was as it must be, 1 if something is wrong (it is printed), 2 if a call of libavutil's failed
 * that need not fail.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libavfilter/avfilter.h"
#include "libavfilter/buffersink.h"
#include "libavfilter/buffersrc.h"
#include "libavutil/error.h"
#include "libavutil/hwcontext.h"
#include "libavutil/hwcontext_drm.h"
#include "libavutil/hwcontext_hip.h"
#include "libavutil/imgutils.h"
#include "libavutil/mem.h"
#include "libavutil/pixdesc.h"

static void fail(int line, const char *condition, const char *format, ...)
{
    va_list list;

    printf("line %d: %s ", line, condition);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    exit(1);
}

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail(__LINE__, #condition, "" __VA_ARGS__);                                                                \
    } while (0)

/* Ends a run in which a call fails: what was made is released, as a program would. */
static int status;

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int error_ = (call);                                                                                           \
        if (error_ < 0) {                                                                                              \
            printf("%s: %s\n", #call, av_err2str(error_));                                                             \
            status = 2;                                                                                                \
            goto end;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* ---- Pictures --------------------------------------------------------------------------------------------------- */

static uint32_t seed = 1;

static void fill(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (seed = seed * 1664525 + 1013904223) >> 24;
}

static AVFrame *make_picture(enum AVPixelFormat format, int width, int height)
{
    AVFrame *frame = av_frame_alloc();

    CHECK(frame);
    frame->format = format;
    frame->width = width;
    frame->height = height;
    CHECK(av_frame_get_buffer(frame, 0) >= 0);
    for (int i = 0; i < 4 && frame->buf[i]; i++)
        fill(frame->buf[i]->data, frame->buf[i]->size);
    return frame;
}

static int plane_rows(enum AVPixelFormat format, int plane, int height)
{
    const AVPixFmtDescriptor *desc = av_pix_fmt_desc_get(format);

    return plane == 1 || plane == 2 ? AV_CEIL_RSHIFT(height, desc->log2_chroma_h) : height;
}

static void compare(const AVFrame *a, const AVFrame *b)
{
    for (int i = 0; i < av_pix_fmt_count_planes(a->format); i++)
        for (int y = 0; y < plane_rows(a->format, i, a->height); y++)
            CHECK(!memcmp(a->data[i] + y * (ptrdiff_t)a->linesize[i], b->data[i] + y * (ptrdiff_t)b->linesize[i],
                          av_image_get_linesize(a->format, a->width, i)),
                  "(%s, plane %d, row %d)", av_get_pix_fmt_name(a->format), i, y);
}

static void turn_over(AVFrame *frame)
{
    for (int i = 0; i < av_pix_fmt_count_planes(frame->format); i++) {
        frame->data[i] += (plane_rows(frame->format, i, frame->height) - 1) * (ptrdiff_t)frame->linesize[i];
        frame->linesize[i] = -frame->linesize[i];
    }
}

/* ---- HIP -------------------------------------------------------------------------------------------------------- */

static int (*hip_get_device)(int *);
static int (*hip_set_device)(int);
static int (*hip_stream_create)(void **, unsigned);
static int (*hip_stream_destroy)(void *);

static void find_hip(void)
{
    void *library = dlopen("libamdhip64.so.7", RTLD_NOW);

    CHECK(library);
    CHECK((hip_get_device = (int (*)(int *))dlsym(library, "hipGetDevice")));
    CHECK((hip_set_device = (int (*)(int))dlsym(library, "hipSetDevice")));
    CHECK((hip_stream_create = (int (*)(void **, unsigned))dlsym(library, "hipStreamCreateWithFlags")));
    CHECK((hip_stream_destroy = (int (*)(void *))dlsym(library, "hipStreamDestroy")));
}

static int make_frames(AVBufferRef **frames, AVBufferRef *device, enum AVPixelFormat format, int width, int height)
{
    AVHWFramesContext *ctx;
    int ret;

    CHECK((*frames = av_hwframe_ctx_alloc(device)));
    ctx = (AVHWFramesContext *)(*frames)->data;
    ctx->format = AV_PIX_FMT_HIP;
    ctx->sw_format = format;
    ctx->width = width;
    ctx->height = height;
    if ((ret = av_hwframe_ctx_init(*frames)) < 0)
        av_buffer_unref(frames);
    return ret;
}

/* ---- Transfers -------------------------------------------------------------------------------------------------- */

/* Up, across to another frame and perhaps another context of the device, and down again. */
static int round_trip(AVBufferRef *from, AVBufferRef *to, enum AVPixelFormat format, int width, int height, int over)
{
    AVFrame *picture = make_picture(format, width, height), *back = make_picture(format, width, height);
    AVFrame *a = av_frame_alloc(), *b = av_frame_alloc();
    AVBufferRef *frames_a = NULL, *frames_b = NULL;

    if (over) {
        turn_over(picture);
        turn_over(back);
    }
    TRY(make_frames(&frames_a, from, format, width, height));
    TRY(make_frames(&frames_b, to, format, width, height));
    TRY(av_hwframe_get_buffer(frames_a, a, 0));
    TRY(av_hwframe_get_buffer(frames_b, b, 0));
    for (int i = 0; i < av_pix_fmt_count_planes(format); i++)
        CHECK(a->data[i] && (uintptr_t)a->data[i] % 256 == 0 && a->linesize[i] % 256 == 0);
    TRY(av_hwframe_transfer_data(a, picture, 0));
    TRY(av_hwframe_transfer_data(b, a, 0));
    TRY(av_hwframe_transfer_data(back, b, 0));
    compare(picture, back);
    av_frame_unref(back); /* now into a frame that libavutil makes */
    TRY(av_hwframe_transfer_data(back, a, 0));
    CHECK(back->format == format && back->width == width && back->height == height);
    compare(picture, back);
end:
    av_frame_free(&a);
    av_frame_free(&b);
    av_buffer_unref(&frames_a);
    av_buffer_unref(&frames_b);
    av_frame_free(&picture);
    av_frame_free(&back);
    return -status;
}

static int transfers(void)
{
    AVBufferRef *first = NULL, *second = NULL;
    AVHWFramesConstraints *can = NULL;
    int n = 0;

    TRY(av_hwdevice_ctx_create(&first, AV_HWDEVICE_TYPE_HIP, NULL, NULL, 0));
    TRY(av_hwdevice_ctx_create(&second, AV_HWDEVICE_TYPE_HIP, "0", NULL, 0));
    CHECK((can = av_hwdevice_get_hwframe_constraints(first, NULL)));
    CHECK(can->valid_hw_formats[0] == AV_PIX_FMT_HIP && can->valid_hw_formats[1] == AV_PIX_FMT_NONE);
    for (; can->valid_sw_formats[n] != AV_PIX_FMT_NONE; n++) {
        TRY(round_trip(first, first, can->valid_sw_formats[n], 37, 23, 0));
        TRY(round_trip(first, n % 2 ? first : second, can->valid_sw_formats[n], 5, 1, n % 3 == 0));
    }
    TRY(round_trip(second, first, AV_PIX_FMT_YUV420P10, 301, 155, 1));
    printf("%d formats\n", n);
end:
    av_hwframe_constraints_free(&can);
    av_buffer_unref(&first);
    av_buffer_unref(&second);
    return status;
}

/* ---- Devices ---------------------------------------------------------------------------------------------------- */

static int make_user_device(AVBufferRef **device, int index, void *stream)
{
    AVHIPDeviceContext *hip;
    int ret;

    CHECK((*device = av_hwdevice_ctx_alloc(AV_HWDEVICE_TYPE_HIP)));
    hip = ((AVHWDeviceContext *)(*device)->data)->hwctx;
    hip->device = index;
    hip->stream = stream;
    if ((ret = av_hwdevice_ctx_init(*device)) < 0)
        av_buffer_unref(device);
    return ret;
}

static int device(void)
{
    AVBufferRef *user = NULL, *other = NULL, *first = NULL, *bad = NULL, *frames = NULL, *frames_away = NULL;
    AVFrame *picture = make_picture(AV_PIX_FMT_NV12, 64, 48), *wrong = make_picture(AV_PIX_FMT_YUV420P, 64, 48);
    AVFrame *frame = av_frame_alloc(), *away = av_frame_alloc(), *cuda = NULL, *big = NULL;
    void *streams[2] = { NULL };
    int current = -1;

    find_hip();
    CHECK(!hip_set_device(1));
    for (int i = 0; i < 2; i++)
        CHECK(!hip_stream_create(&streams[i], 1));
    CHECK(!hip_set_device(0));
    TRY(make_user_device(&user, 1, streams[0]));
    TRY(make_user_device(&other, 1, streams[1]));
    TRY(make_user_device(&first, 0, NULL));
    printf("%s\n", ((AVHIPDeviceContext *)((AVHWDeviceContext *)user->data)->hwctx)->description);
    TRY(round_trip(user, user, AV_PIX_FMT_NV12, 64, 48, 0));
    TRY(round_trip(user, other, AV_PIX_FMT_NV12, 64, 48, 0));
    TRY(round_trip(first, first, AV_PIX_FMT_NV12, 64, 48, 0));
    CHECK(!hip_get_device(&current) && current == 0);

    CHECK(make_user_device(&bad, 2, NULL) < 0);
    CHECK(make_user_device(&bad, -1, NULL) < 0);
    CHECK(make_frames(&frames, user, AV_PIX_FMT_PAL8, 64, 48) < 0);
    CHECK(make_frames(&frames, user, AV_PIX_FMT_YUV420P10BE, 64, 48) < 0);
    CHECK(make_frames(&frames, user, AV_PIX_FMT_CUDA, 64, 48) < 0);
    TRY(make_frames(&frames, user, AV_PIX_FMT_NV12, 64, 48));
    TRY(av_hwframe_get_buffer(frames, frame, 0));
    CHECK(av_hwframe_transfer_data(frame, wrong, 0) == AVERROR(EINVAL));
    TRY(av_hwframe_transfer_data(frame, picture, 0));
    CHECK(av_hwframe_transfer_data(wrong, frame, 0) == AVERROR(EINVAL));
    big = make_picture(AV_PIX_FMT_NV12, 72, 56);
    frame->width = big->width;
    CHECK(av_hwframe_transfer_data(frame, big, 0) == AVERROR(EINVAL));
    frame->height = big->height;
    CHECK(av_hwframe_transfer_data(frame, big, 0) == AVERROR(EINVAL));
    frame->width = 64;
    frame->height = 48;
    TRY(make_frames(&frames_away, first, AV_PIX_FMT_NV12, 64, 48));
    TRY(av_hwframe_get_buffer(frames_away, away, 0));
    CHECK(av_hwframe_transfer_data(away, frame, 0) == AVERROR(EINVAL));
    CHECK((cuda = av_frame_alloc()));
    cuda->format = AV_PIX_FMT_NV12;
    CHECK(av_hwframe_map(cuda, frame, AV_HWFRAME_MAP_READ) == AVERROR(ENOSYS));
end:
    av_frame_free(&cuda);
    av_frame_free(&big);
    av_frame_free(&away);
    av_frame_free(&frame);
    av_frame_free(&picture);
    av_frame_free(&wrong);
    av_buffer_unref(&frames_away);
    av_buffer_unref(&frames);
    av_buffer_unref(&user);
    av_buffer_unref(&other);
    av_buffer_unref(&first);
    for (int i = 0; i < 2; i++)
        if (streams[i])
            hip_stream_destroy(streams[i]);
    return status;
}

/* ---- DRM -------------------------------------------------------------------------------------------------------- */

static const char *sysfs_link; /* what /sys says of the DRM device */

/* Stands before the C library's: libavutil, linked statically, asks this one. */
ssize_t readlink(const char *path, char *target, size_t size)
{
    if (!sysfs_link || strncmp(path, "/sys/dev/char/1:3/device", size)) /* /dev/null */
        return -1;
    snprintf(target, size, "%s", sysfs_link);
    return (ssize_t)strlen(target);
}

static int make_drm(AVBufferRef **drm, int fd)
{
    CHECK((*drm = av_hwdevice_ctx_alloc(AV_HWDEVICE_TYPE_DRM)));
    ((AVDRMDeviceContext *)((AVHWDeviceContext *)(*drm)->data)->hwctx)->fd = fd;
    return av_hwdevice_ctx_init(*drm);
}

/* What /sys would say of the first HIP device. */
static const char *link_of_first(void)
{
    static char link[64];
    AVBufferRef *hip = NULL;
    const char *pci;

    CHECK(av_hwdevice_ctx_create(&hip, AV_HWDEVICE_TYPE_HIP, NULL, NULL, 0) >= 0);
    CHECK((pci = strrchr(((AVHIPDeviceContext *)((AVHWDeviceContext *)hip->data)->hwctx)->description, '(')));
    snprintf(link, sizeof(link), "../../%.*s", (int)strcspn(pci + 1, ")"), pci + 1);
    av_buffer_unref(&hip);
    return link;
}

static int derive(char **links)
{
    AVBufferRef *drm = NULL, *hip = NULL;
    int null = open("/dev/null", O_RDWR);

    CHECK(null >= 0);
    for (; *links; links++) {
        int ret;

        sysfs_link = **links ? *links : NULL;
        TRY(make_drm(&drm, null));
        ret = av_hwdevice_ctx_create_derived(&hip, AV_HWDEVICE_TYPE_HIP, drm, 0);
        if (ret < 0)
            printf("%s\n", av_err2str(ret));
        else
            printf("%s\n", ((AVHIPDeviceContext *)((AVHWDeviceContext *)hip->data)->hwctx)->description);
        av_buffer_unref(&hip);
        av_buffer_unref(&drm);
    }
end:
    av_buffer_unref(&drm);
    close(null);
    return status;
}

/* What a decoder exports: one or more objects, of which the frame owns the descriptors. */
enum Kind { LAYERS, PLANES, OBJECTS };

#define PADDING 4096 /* before each plane, and more than a row behind it */

static int n_closed;

static void close_objects(void *opaque, uint8_t *data)
{
    AVDRMFrameDescriptor *drm = (AVDRMFrameDescriptor *)data;

    for (int i = 0; i < drm->nb_objects; i++) {
        CHECK(fcntl(drm->objects[i].fd, F_GETFD) >= 0, "(somebody else has closed it)");
        close(drm->objects[i].fd);
        n_closed++;
    }
    av_free(drm);
}

/* A surface's memory: one memfd, or one for each plane. */
typedef struct Surface {
    int fd[4], n_fds, n_planes;
    size_t size[4];
    ptrdiff_t offset[4], pitch[4];
    enum Kind kind;
} Surface;

static Surface make_surface(const AVFrame *picture, enum Kind kind)
{
    Surface s = { .kind = kind, .n_planes = av_pix_fmt_count_planes(picture->format) };

    for (int i = 0; i < s.n_planes; i++) {
        int bytes = av_image_get_linesize(picture->format, picture->width, i);
        int rows = plane_rows(picture->format, i, picture->height), n = kind == OBJECTS ? i : 0;
        uint8_t *map;

        if (kind == OBJECTS || !i) {
            CHECK((s.fd[n] = memfd_create("surface", 0)) >= 0);
            s.n_fds++;
        }
        s.pitch[i] = FFALIGN(bytes, 128) + 128;
        s.offset[i] = s.size[n] + PADDING;
        s.size[n] = FFALIGN(s.offset[i] + s.pitch[i] * rows, 4096);
        CHECK(!ftruncate(s.fd[n], s.size[n]));
        map = mmap(NULL, s.size[n], PROT_READ | PROT_WRITE, MAP_SHARED, s.fd[n], 0);
        CHECK(map != MAP_FAILED);
        for (int y = 0; y < rows; y++)
            memcpy(map + s.offset[i] + y * s.pitch[i], picture->data[i] + y * (ptrdiff_t)picture->linesize[i], bytes);
        munmap(map, s.size[n]);
    }
    return s;
}

static void close_surface(Surface *s)
{
    for (int i = 0; i < s->n_fds; i++)
        close(s->fd[i]);
}

/* Exports a surface anew: other descriptors of the same memory. */
static AVFrame *export_surface(const Surface *s, AVBufferRef *frames, int width, int height)
{
    AVDRMFrameDescriptor *drm = av_mallocz(sizeof(*drm));
    AVFrame *frame = av_frame_alloc();

    CHECK(drm && frame);
    drm->nb_objects = s->n_fds;
    for (int i = 0; i < s->n_fds; i++)
        drm->objects[i] = (AVDRMObjectDescriptor){ .fd = dup(s->fd[i]), .size = s->size[i] };
    drm->nb_layers = s->kind == PLANES ? 1 : s->n_planes;
    for (int i = 0; i < s->n_planes; i++) {
        AVDRMLayerDescriptor *layer = &drm->layers[s->kind == PLANES ? 0 : i];

        layer->planes[layer->nb_planes++] =
            (AVDRMPlaneDescriptor){ s->kind == OBJECTS ? i : 0, s->offset[i], s->pitch[i] };
    }
    CHECK((frame->buf[0] = av_buffer_create((uint8_t *)drm, sizeof(*drm), close_objects, NULL, 0)));
    frame->data[0] = (uint8_t *)drm;
    frame->format = AV_PIX_FMT_DRM_PRIME;
    frame->width = width;
    frame->height = height;
    CHECK((frame->hw_frames_ctx = av_buffer_ref(frames)));
    return frame;
}

static int make_drm_frames(AVBufferRef **frames, AVBufferRef *drm, enum AVPixelFormat format, int width, int height)
{
    AVHWFramesContext *ctx;

    CHECK((*frames = av_hwframe_ctx_alloc(drm)));
    ctx = (AVHWFramesContext *)(*frames)->data;
    ctx->format = AV_PIX_FMT_DRM_PRIME;
    ctx->sw_format = format;
    ctx->width = width;
    ctx->height = height;
    return av_hwframe_ctx_init(*frames);
}

static int map_surface(AVFrame *mapped, AVBufferRef *frames, const AVFrame *exported)
{
    mapped->format = AV_PIX_FMT_HIP;
    CHECK((mapped->hw_frames_ctx = av_buffer_ref(frames)));
    return av_hwframe_map(mapped, exported, AV_HWFRAME_MAP_READ);
}

/* Of surfaces: drivers open what they like. */
static int count_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++) {
        char name[40], target[16];

        snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
        n += readlinkat(AT_FDCWD, name, target, sizeof(target)) > 7 && !strncmp(target, "/memfd:", 7);
    }
    return n;
}

typedef struct Scene {
    AVBufferRef *drm, *drm_frames, *hip, *hip_frames;
} Scene;

static int open_scene(Scene *s, enum AVPixelFormat format, int width, int height)
{
    TRY(av_hwdevice_ctx_create(&s->hip, AV_HWDEVICE_TYPE_HIP, NULL, NULL, 0));
    TRY(make_drm(&s->drm, -1));
    TRY(make_drm_frames(&s->drm_frames, s->drm, format, width, height));
    TRY(av_hwframe_ctx_create_derived(&s->hip_frames, AV_PIX_FMT_HIP, s->hip, s->drm_frames, AV_HWFRAME_MAP_READ));
end:
    return -status;
}

static void close_scene(Scene *s)
{
    av_buffer_unref(&s->hip_frames);
    av_buffer_unref(&s->drm_frames);
    av_buffer_unref(&s->drm);
    av_buffer_unref(&s->hip);
}

/* Three times the same surface, twice at once; another in between. */
static int map(enum AVPixelFormat format, enum Kind kind)
{
    const int width = 61, height = 35;
    AVFrame *pictures[2] = { make_picture(format, width, height), make_picture(format, width, height) };
    Surface surfaces[2] = { make_surface(pictures[0], kind), make_surface(pictures[1], kind) };
    AVFrame *exported = NULL, *mapped[4], *back = NULL, *source = NULL;
    Scene s = { NULL };
    int before, n_fds = surfaces[0].n_fds;

    for (int i = 0; i < 4; i++)
        CHECK((mapped[i] = av_frame_alloc()));
    TRY(open_scene(&s, format, width, height));
    before = count_descriptors();
    for (int i = 0; i < 4; i++) {
        exported = export_surface(&surfaces[i == 1], s.drm_frames, width, height);
        TRY(map_surface(mapped[i], s.hip_frames, exported));
        av_frame_free(&exported);
        CHECK(mapped[i]->width == width && mapped[i]->height == height);
        CHECK((back = av_frame_alloc()));
        TRY(av_hwframe_transfer_data(back, mapped[i], 0));
        compare(pictures[i == 1], back);
        av_frame_free(&back);
        CHECK(count_descriptors() == before + (i == 2 ? 2 : i == 3 ? 2 : i + 1) * n_fds, "(mapping %d)", i);
        if (i == 1)
            av_frame_unref(mapped[0]);
        if (i == 2)
            av_frame_unref(mapped[1]);
    }
    CHECK(mapped[2]->data[0] == mapped[3]->data[0]);

    /* The way back is the surface that was mapped. */
    CHECK((source = av_frame_alloc()));
    source->format = AV_PIX_FMT_DRM_PRIME;
    CHECK((source->hw_frames_ctx = av_buffer_ref(s.drm_frames)));
    TRY(av_hwframe_map(source, mapped[2], 0));
    CHECK(source->data[0] && ((AVDRMFrameDescriptor *)source->data[0])->nb_objects == n_fds);
    CHECK(n_closed == 2 * n_fds);
end:
    av_frame_free(&source);
    av_frame_free(&back);
    av_frame_free(&exported);
    for (int i = 0; i < 4; i++)
        av_frame_free(&mapped[i]);
    if (!status)
        CHECK(n_closed == 4 * n_fds && count_descriptors() == before);
    close_scene(&s);
    for (int i = 0; i < 2; i++) {
        close_surface(&surfaces[i]);
        av_frame_free(&pictures[i]);
    }
    return status;
}

/* A surface that must be refused; libavutil says why. */
static int refuse(const char *what, uint64_t modifier)
{
    const int width = 64, height = 48;
    AVFrame *picture = make_picture(AV_PIX_FMT_NV12, width, height), *exported, *mapped = av_frame_alloc();
    Surface surface = make_surface(picture, LAYERS);
    AVDRMFrameDescriptor *drm;
    AVBufferRef *frames = NULL;
    Scene s = { NULL };
    int before, ret;

    CHECK(mapped);
    TRY(open_scene(&s, AV_PIX_FMT_NV12, width, height));
    before = count_descriptors();
    exported = export_surface(&surface, s.drm_frames, width, height);
    drm = (AVDRMFrameDescriptor *)exported->data[0];
    drm->objects[0].format_modifier = modifier;
    if (!strcmp(what, "pitch"))
        drm->layers[0].planes[0].pitch = width - 1;
    else if (!strcmp(what, "offset"))
        drm->layers[1].planes[0].offset = surface.size[0] - surface.pitch[1] * (height / 2 - 1) - width + 1;
    else if (!strcmp(what, "negative"))
        drm->layers[1].planes[0].offset = -1;
    else if (!strcmp(what, "object"))
        drm->layers[1].planes[0].object_index = 1;
    else if (!strcmp(what, "planes"))
        drm->nb_layers = 1;
    else if (!strcmp(what, "objects"))
        drm->nb_objects = 5;
    else if (!strcmp(what, "closed"))
        close(drm->objects[0].fd), drm->objects[0].fd = -1;
    else if (!strcmp(what, "nothing"))
        exported->data[0] = NULL;
    else
        CHECK(!strcmp(what, "modifier"));
    ret = map_surface(mapped, s.hip_frames, exported);
    printf("%s\n", ret < 0 ? av_err2str(ret) : "mapped");
    CHECK(ret < 0 && !mapped->buf[0]);
    /* as it was, for its own end */
    drm->nb_objects = 1;
    if (drm->objects[0].fd < 0)
        drm->objects[0].fd = dup(surface.fd[0]);
    av_frame_free(&exported);
    CHECK(count_descriptors() == before && n_closed == 1);

    /* Frames of a format of their own take no surfaces of another. */
    TRY(make_frames(&frames, s.hip, AV_PIX_FMT_P010, width, height));
    exported = export_surface(&surface, s.drm_frames, width, height);
    av_frame_unref(mapped);
    CHECK(map_surface(mapped, frames, exported) == AVERROR(EINVAL));
    av_frame_free(&exported);
end:
    av_frame_free(&mapped);
    av_buffer_unref(&frames);
    close_scene(&s);
    close_surface(&surface);
    av_frame_free(&picture);
    return status;
}

/* Surfaces on one GPU, the device another. */
static int other_device(void)
{
    AVBufferRef *drm = NULL, *frames = NULL, *hip = NULL, *derived = NULL;
    int null = open("/dev/null", O_RDWR);

    TRY(av_hwdevice_ctx_create(&hip, AV_HWDEVICE_TYPE_HIP, NULL, NULL, 0));
    TRY(make_drm(&drm, null));
    TRY(make_drm_frames(&frames, drm, AV_PIX_FMT_NV12, 64, 48));
    CHECK(av_hwframe_ctx_create_derived(&derived, AV_PIX_FMT_HIP, hip, frames, 0) < 0);
    sysfs_link = "../../0000:02:00.0";
    CHECK(av_hwframe_ctx_create_derived(&derived, AV_PIX_FMT_HIP, hip, frames, 0) == AVERROR(EINVAL));
    sysfs_link = link_of_first();
    TRY(av_hwframe_ctx_create_derived(&derived, AV_PIX_FMT_HIP, hip, frames, 0));
end:
    av_buffer_unref(&derived);
    av_buffer_unref(&frames);
    av_buffer_unref(&drm);
    av_buffer_unref(&hip);
    close(null);
    return status;
}

/* Ninety surfaces, one after the other, and then the first ones again. */
static int many(void)
{
    const int width = 16, height = 16;
    AVFrame *picture = make_picture(AV_PIX_FMT_NV12, width, height), *mapped = av_frame_alloc(), *exported;
    Surface surfaces[90];
    Scene s = { NULL };

    CHECK(mapped);
    for (int i = 0; i < 90; i++)
        surfaces[i] = make_surface(picture, LAYERS);
    TRY(open_scene(&s, AV_PIX_FMT_NV12, width, height));
    for (int i = 0; i < 92; i++) {
        exported = export_surface(&surfaces[i % 90], s.drm_frames, width, height);
        TRY(map_surface(mapped, s.hip_frames, exported));
        av_frame_free(&exported);
        av_frame_unref(mapped);
    }
end:
    av_frame_free(&mapped);
    close_scene(&s);
    for (int i = 0; i < 90; i++)
        close_surface(&surfaces[i]);
    av_frame_free(&picture);
    return status;
}

/* ---- The filter ------------------------------------------------------------------------------------------------- */

#define N_SCORED 7

/* Appends what docs/hip.md says that maps surfaces. */
static int map_input(AVFilterGraph *graph, AVFilterContext **last)
{
    static const char *const chain[][2] = { { "hwmap", "derive_device=hip" }, { "format", "hip" } };

    for (int i = 0; i < 2; i++) {
        AVFilterContext *next;

        TRY(avfilter_graph_create_filter(&next, avfilter_get_by_name(chain[i][0]), NULL, chain[i][1], NULL, graph));
        TRY(avfilter_link(*last, 0, next, 0));
        *last = next;
    }
end:
    return -status;
}

static int make_graph(AVFilterGraph *graph, AVBufferRef *const frames[2], AVFilterContext *sources[2],
                      AVFilterContext **sink)
{
    AVFilterContext *filter, *last;

    TRY(avfilter_graph_create_filter(&filter, avfilter_get_by_name("vmaf_gpu"), "score",
                                     "feature=psnr|motion:log_path=log.json:log_fmt=json:log_precision=17", NULL,
                                     graph));
    TRY(avfilter_graph_create_filter(sink, avfilter_get_by_name("buffersink"), "sink", NULL, NULL, graph));
    TRY(avfilter_link(filter, 0, *sink, 0));
    for (int i = 0; i < 2; i++) {
        const AVHWFramesContext *ctx = (AVHWFramesContext *)frames[i]->data;
        AVBufferSrcParameters *p = av_buffersrc_parameters_alloc();

        CHECK(p && (sources[i] = avfilter_graph_alloc_filter(graph, avfilter_get_by_name("buffer"), i ? "r" : "d")));
        p->format = ctx->format;
        p->width = ctx->width;
        p->height = ctx->height;
        p->time_base = (AVRational){ 1, 25 };
        p->hw_frames_ctx = frames[i];
        CHECK(av_buffersrc_parameters_set(sources[i], p) >= 0);
        av_free(p);
        TRY(avfilter_init_str(sources[i], NULL));
        last = sources[i];
        if (ctx->format == AV_PIX_FMT_DRM_PRIME)
            TRY(map_input(graph, &last));
        TRY(avfilter_link(last, 0, filter, i));
    }
    TRY(avfilter_graph_config(graph, NULL));
end:
    return -status;
}

static int drain(AVFilterContext *sink, int *n)
{
    AVFrame *frame = av_frame_alloc();
    int ret;

    CHECK(frame);
    while ((ret = av_buffersink_get_frame(sink, frame)) >= 0) {
        CHECK(frame->format == AV_PIX_FMT_HIP && frame->hw_frames_ctx);
        av_frame_unref(frame);
        ++*n;
    }
    av_frame_free(&frame);
    return ret == AVERROR(EAGAIN) || ret == AVERROR_EOF ? 0 : ret;
}

static int filter(const char *what)
{
    const int width = 48, height = 36;
    AVBufferRef *devices[2] = { NULL }, *frames[2] = { NULL };
    AVFilterContext *sources[2], *sink;
    AVFilterGraph *graph = avfilter_graph_alloc();
    AVFrame *frame = NULL, *exported = NULL;
    int hwmap = !strcmp(what, "hwmap"), map = hwmap || !strcmp(what, "surfaces"), n = 0;
    int null = open("/dev/null", O_RDWR), before = count_descriptors();
    Scene s = { NULL };
    FILE *raw;

    CHECK(graph);
    if (hwmap) {
        sysfs_link = link_of_first();
        TRY(make_drm(&s.drm, null));
        TRY(make_drm_frames(&s.drm_frames, s.drm, AV_PIX_FMT_NV12, width, height));
        frames[0] = frames[1] = s.drm_frames;
    } else if (map) {
        TRY(open_scene(&s, AV_PIX_FMT_NV12, width, height));
        frames[0] = frames[1] = s.hip_frames;
    }
    for (int i = 0; i < 2 && !map; i++) {
        TRY(av_hwdevice_ctx_create(&devices[i], AV_HWDEVICE_TYPE_HIP, i && !strcmp(what, "devices") ? "1" : "0", NULL,
                                   0));
        TRY(make_frames(&frames[i], devices[i], AV_PIX_FMT_NV12, width, height));
    }
    TRY(make_graph(graph, frames, sources, &sink));
    for (int i = 0; i < 2 * N_SCORED; i++) {
        AVFrame *picture = make_picture(AV_PIX_FMT_NV12, width, height);

        CHECK((raw = fopen(i % 2 ? "r.raw" : "d.raw", i < 2 ? "wb" : "ab")));
        for (int p = 0; p < 2; p++)
            for (int y = 0; y < plane_rows(picture->format, p, height); y++)
                CHECK(fwrite(picture->data[p] + y * (ptrdiff_t)picture->linesize[p], width, 1, raw) == 1);
        CHECK(!fclose(raw));
        CHECK((frame = av_frame_alloc()));
        if (map) {
            Surface surface = make_surface(picture, LAYERS);

            exported = export_surface(&surface, s.drm_frames, width, height);
            close_surface(&surface);
            if (hwmap)
                av_frame_move_ref(frame, exported);
            else
                TRY(map_surface(frame, s.hip_frames, exported));
            av_frame_free(&exported);
        } else {
            TRY(av_hwframe_get_buffer(frames[i % 2], frame, 0));
            TRY(av_hwframe_transfer_data(frame, picture, 0));
        }
        av_frame_free(&picture);
        frame->pts = i / 2;
        TRY(av_buffersrc_add_frame(sources[i % 2], frame));
        av_frame_free(&frame);
        TRY(drain(sink, &n));
    }
    for (int i = 0; i < 2; i++)
        TRY(av_buffersrc_add_frame(sources[i], NULL));
    TRY(drain(sink, &n));
    CHECK(n == N_SCORED);
end:
    av_frame_free(&exported);
    av_frame_free(&frame);
    avfilter_graph_free(&graph);
    for (int i = 0; i < 2 && !map; i++) {
        av_buffer_unref(&frames[i]);
        av_buffer_unref(&devices[i]);
    }
    close_scene(&s);
    if (map && !status)
        CHECK(n_closed == 2 * N_SCORED && count_descriptors() == before);
    close(null);
    return status;
}

static int all(void)
{
    AVBufferRef *device = NULL;

    TRY(av_hwdevice_ctx_create(&device, AV_HWDEVICE_TYPE_HIP, "0000:01:00.0", NULL, 0));
    TRY(round_trip(device, device, AV_PIX_FMT_YUV420P, 33, 17, 0));
    TRY(-map(AV_PIX_FMT_NV12, OBJECTS));
end:
    av_buffer_unref(&device);
    return status;
}

int main(int n, char **words)
{
    const char *what = n > 1 ? words[1] : "";

    if (!strcmp(what, "transfers"))
        return transfers();
    if (!strcmp(what, "device"))
        return device();
    if (!strcmp(what, "derive"))
        return derive(words + 2);
    if (!strcmp(what, "map") && n == 4)
        return map(av_get_pix_fmt(words[2]), !strcmp(words[3], "layers")   ? LAYERS
                                             : !strcmp(words[3], "planes") ? PLANES
                                                                           : OBJECTS);
    if (!strcmp(what, "modifier") && n == 3)
        return refuse(what, strtoull(words[2], NULL, 0));
    if (!strcmp(what, "broken") && n == 3)
        return refuse(words[2], 0);
    if (!strcmp(what, "other"))
        return other_device();
    if (!strcmp(what, "many"))
        return many();
    if (!strcmp(what, "filter") && n == 3)
        return filter(words[2]);
    if (!strcmp(what, "all"))
        return all();
    CHECK(0, "unknown: %s", what);
    return 1;
}
