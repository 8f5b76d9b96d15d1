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
 * Full-reference video quality scores: the filter vmaf_gpu, on the library libvmafgpu.
 *
 * The first input is the distorted video, which passes through; the second is the reference. Frames are paired here
 * (see next_move()); the library scores the pairs, pools the scores and writes the log.
 */

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <vmafgpu.h>

#include "libavutil/avstring.h"
#include "libavutil/avutil.h"
#include "libavutil/bprint.h"
#include "libavutil/common.h"
#include "libavutil/dict.h"
#include "libavutil/frame.h"
#include "libavutil/hwcontext.h"
#include "libavutil/mathematics.h"
#include "libavutil/mem.h"
#include "libavutil/opt.h"
#include "libavutil/pixdesc.h"
#include "libavutil/thread.h"

#include "avfilter.h"
#include "filters.h"
#include "formats.h"
#include "framesync.h"
#include "vmaf_gpu_compat.h"
#include "vmaf_gpu_options.h"

#define NS_PER_SECOND 1000000000      /* of the common time base in which frames are paired */
#define MAX_TIME      (INT64_MAX / 4) /* differences of times and their sums with steps fit 64 bits */
#define N_STEPS       32              /* latest steps of time stamps whose median is taken */
#define N_NAMED       4               /* frames without a partner that the closing message names */
#define MAX_TAIL      32 /* reference frames that are read beyond the end of the distorted video, to count them */
#define MAX_HELD      64 /* frames that wait for their scores (metadata=1) */

enum Side { DISTORTED, REFERENCE };

static const char *const side_names[] = { "distorted", "reference" };
static const char *const side_labels[] = { "d", "r" }; /* of links in the graphs that messages propose */

/* In the order of the option table; what the library names has its order there, too. */
enum Pairing { PAIR_NEAREST, PAIR_INDEX, PAIR_FRAMESYNC };
enum Parity { PARITY_OFF, PARITY_CHECK, PARITY_STRICT };

/* A kind of hardware frames that are scored where they are. */
typedef struct Hardware {
    enum AVPixelFormat format;
    enum AVHWDeviceType device;
    VgMemory memory;
    VgBackendKind backend;
    const char *name, *option; ///< of the kind, and of its devices in ffmpeg's options and ours
    const char *scaler;        ///< filter that changes size and format on the device; NULL: there is none
    int built_in;              ///< FFmpeg was configured with them
} Hardware;

static const Hardware hardware_kinds[] = {
    { AV_PIX_FMT_CUDA, AV_HWDEVICE_TYPE_CUDA, VG_MEMORY_CUDA, VG_BACKEND_CUDA, "CUDA", "cuda", "scale_cuda",
      VG_HAS_CUDA },
    { AV_PIX_FMT_HIP, AV_HWDEVICE_TYPE_HIP, VG_MEMORY_HIP, VG_BACKEND_HIP, "HIP", "hip", NULL, VG_HAS_HIP },
};

/* One of the two inputs. Times are in nanoseconds. */
typedef struct Input {
    /* Format */
    VgPicture picture;         ///< what all its frames have in common; addresses, pitches and owner are not set
    int plane[3];              ///< of Y, Cb, Cr
    int offset[3];             ///< of their first sample in the plane, in bytes
    enum AVPixelFormat format; ///< of the samples, wherever they are
    const Hardware *hardware;  ///< hardware frames: their kind; else NULL
    AVBufferRef *hw_frames;    ///< hardware frames: what they have in common; it keeps the device, too. Else NULL

    /* Frames that wait for a partner: the first, and the one after it */
    AVFrame *frame[2];
    int64_t time[2];
    int n;
    int eof;
    int status;         ///< with which the input ended
    int64_t status_pts; ///< when

    /* What was seen of it */
    int64_t n_frames;
    int64_t n_alone;             ///< frames without a partner
    int64_t n_again;             ///< pair=framesync: pairs that use a frame of it again
    int64_t sync_pts;            ///< pair=framesync: time stamp of the frame that the latest pair used
    int cut;                     ///< there were more of them, not counted
    int64_t alone_time[N_NAMED]; ///< the first ones' time stamps; index mode: their numbers
    int64_t first, last;
    int64_t step[N_STEPS]; ///< ring of the latest differences of time stamps
    int64_t n_steps;
    int64_t nominal_step;                 ///< from the link's frame rate; 0: unknown
    int64_t pair_number[2], pair_time[2]; ///< of the frames in the first and the latest pair
    int64_t tick;                         ///< of the time base
} Input;

typedef struct Held {
    AVFrame *frame;
    int64_t index; ///< of its scores; -1: it has none
} Held;

typedef struct VmafGpuContext {
    const AVClass *class;

    /* Options */
#define TEXT(name, help)          char *name;
#define CHOICE(name, value, help) char *name;
#define VALUE(option, value, help)
#define NUMBER(name, value, low, high, help) int name;
#define FLAG(name, value, help)              int name;
    VMAF_GPU_OPTIONS(TEXT, CHOICE, VALUE, NUMBER, FLAG)
#undef TEXT
#undef CHOICE
#undef VALUE
#undef NUMBER
#undef FLAG
    enum Pairing pairing;
    VgBackendKind backend_kind;
    VgFallback fallback_kind;
    enum Parity parity_kind;
    VgHistory history_kind;
    VgReport report;
    int precision;
    VgPool pooling;

    FFFrameSync fs; ///< pair=framesync only
    Input input[2];
    VgScorer *scorer;

    /* Ring of frames that wait for their scores */
    Held held[MAX_HELD];
    unsigned first_held, n_held;

    int64_t n_pairs;
    int64_t min_offset, max_offset; ///< of a reference frame's time stamp from its partner's
    int64_t tail;                   ///< reference frames beyond the end of the distorted video
    int rates_checked, rates_differ;
    int sent;    ///< a frame was sent in this activation
    int closed;  ///< the output wants no more
    int flushed; ///< nothing more is scored
    int flush_error;
    int finished; ///< summary and log are out
    int second;   ///< an earlier filter of this run has written the log: the graph was probably made anew
    int failed;
} VmafGpuContext;

#define OFFSET(field) offsetof(VmafGpuContext, field)
#define FLAGS         (AV_OPT_FLAG_FILTERING_PARAM | AV_OPT_FLAG_VIDEO_PARAM)

static const AVOption vmaf_gpu_options[] = {
#define TEXT(name, help) { #name, help, OFFSET(name), AV_OPT_TYPE_STRING, { .str = NULL }, 0, 0, FLAGS, NULL },
#define CHOICE(name, value, help)                                                                                      \
    { #name, help, OFFSET(name), AV_OPT_TYPE_STRING, { .str = value }, 0, 0, FLAGS, #name },
#define VALUE(option, value, help) { value, help, 0, AV_OPT_TYPE_CONST, { .i64 = 0 }, 0, 0, FLAGS, #option },
#define NUMBER(name, value, low, high, help)                                                                           \
    { #name, help, OFFSET(name), AV_OPT_TYPE_INT, { .i64 = value }, low, high, FLAGS, NULL },
#define FLAG(name, value, help)                                                                                        \
    { #name, help, OFFSET(name), AV_OPT_TYPE_BOOL, { .i64 = value }, FFMIN(value, 0), 1, FLAGS, NULL },
    VMAF_GPU_OPTIONS(TEXT, CHOICE, VALUE, NUMBER, FLAG)
#undef TEXT
#undef CHOICE
#undef VALUE
#undef NUMBER
#undef FLAG
        { .name = NULL }
};

AVFILTER_DEFINE_CLASS(vmaf_gpu);

/* ---- Options ---------------------------------------------------------------------------------------------------- */

static void print_message(void *ctx, VgLogLevel level, const char *message)
{
    static const int levels[] = {
        [VG_LOG_ERROR] = AV_LOG_ERROR,     [VG_LOG_WARNING] = AV_LOG_WARNING, [VG_LOG_INFO] = AV_LOG_INFO,
        [VG_LOG_VERBOSE] = AV_LOG_VERBOSE, [VG_LOG_DEBUG] = AV_LOG_DEBUG,
    };

    av_log(ctx, (unsigned)level < FF_ARRAY_ELEMS(levels) ? levels[level] : AV_LOG_DEBUG, "%s\n", message);
}

/* Gives the place of a value among those that the table lists for an option, or refuses it. */
static int find_choice(AVFilterContext *ctx, const char *option, const char *value)
{
    AVBPrint names;
    int n = 0;

    for (const AVOption *o = vmaf_gpu_options; o->name; o++) {
        if (o->type != AV_OPT_TYPE_CONST || strcmp(o->unit, option))
            continue;
        if (!strcmp(o->name, value))
            return n;
        n++;
    }

    av_bprint_init(&names, 0, AV_BPRINT_SIZE_AUTOMATIC);
    for (const AVOption *o = vmaf_gpu_options; o->name; o++)
        if (o->type == AV_OPT_TYPE_CONST && !strcmp(o->unit, option))
            av_bprintf(&names, "%s%s", !names.len ? "" : --n > 1 ? ", " : " or ", o->name);
    av_log(ctx, AV_LOG_ERROR, "%s=%s is unknown: use %s\n", option, value, names.str);
    return AVERROR(EINVAL);
}

/* Options of the device that scores; see also config_device(). */
static int init_device_options(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    int ret;

    if ((ret = find_choice(ctx, "backend", s->backend)) < 0)
        return ret;
    s->backend_kind = ret;
    if ((ret = find_choice(ctx, "fallback", s->fallback)) < 0)
        return ret;
    s->fallback_kind = ret;
    if ((ret = find_choice(ctx, "parity", s->parity)) < 0)
        return ret;
    s->parity_kind = ret;
    if ((ret = find_choice(ctx, "history", s->history)) < 0)
        return ret;
    s->history_kind = ret;

    if (s->parity_every != 1 && s->parity_kind == PARITY_OFF) {
        av_log(ctx, AV_LOG_ERROR, "parity_every has no meaning with parity=off: leave it out, or add parity=check\n");
        return AVERROR(EINVAL);
    }
    return 0;
}

/* The options that only FFmpeg's framesync understands: handed to it, or refused. */
static int init_framesync_options(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    const char *given = s->eof_action        ? "eof_action"
                        : s->repeatlast >= 0 ? "repeatlast"
                        : s->ts_sync_mode    ? "ts_sync_mode"
                        : !s->shortest       ? "shortest=0"
                                             : NULL;
    int ret;

    if (s->pairing != PAIR_FRAMESYNC) {
        if (!given)
            return 0;
        av_log(ctx, AV_LOG_ERROR, "%s has no meaning with pair=%s: leave it out, or add pair=framesync\n", given,
               s->pair);
        return AVERROR(EINVAL);
    }

    if (s->shortest >= 0)
        s->fs.opt_shortest = s->shortest;
    if (s->repeatlast >= 0)
        s->fs.opt_repeatlast = s->repeatlast;
    if (s->eof_action) {
        if ((ret = find_choice(ctx, "eof_action", s->eof_action)) < 0)
            return ret;
        s->fs.opt_eof_action = ret;
    }
    if (s->ts_sync_mode) {
        if ((ret = find_choice(ctx, "ts_sync_mode", s->ts_sync_mode)) < 0)
            return ret;
#if VG_HAS_TS_SYNC_MODE
        s->fs.opt_ts_sync_mode = ret;
#else
        av_log(ctx, AV_LOG_ERROR, "ts_sync_mode needs FFmpeg 6.0 or later, this is %s: leave it out\n",
               av_version_info());
        return AVERROR(EINVAL);
#endif
    }
    return 0;
}

static av_cold int preinit(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;

    ff_framesync_preinit(&s->fs);
    return 0;
}

static av_cold int init(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    int ret;

    if (s->model && *s->model) {
        av_log(ctx, AV_LOG_ERROR,
               "model='%s': VMAF models are not built in yet; leave model out and score features, "
               "e.g. feature=" VG_DEFAULT_FEATURES "\n",
               s->model);
        return AVERROR(EINVAL);
    }
    if (s->feature && *s->feature && (ret = vg_features_check(s->feature, print_message, ctx)) < 0)
        return ret;

    if ((ret = find_choice(ctx, "log_fmt", s->log_fmt)) < 0)
        return ret;
    s->report = ret;
    if (strcmp(vg_report_name(s->report), s->log_fmt)) /* the option table has another order than the library */
        return AVERROR_BUG;
    if ((ret = find_choice(ctx, "log_precision", s->log_precision)) < 0)
        return ret;
    s->precision = ret ? VG_PRECISION_FULL : VG_PRECISION_LIBVMAF;
    if (s->log_path && (ret = vg_report_check(s->log_path, print_message, ctx)) < 0)
        return ret;

    if ((ret = find_choice(ctx, "pool", s->pool)) < 0)
        return ret;
    s->pooling = ret;
    if (strcmp(vg_pool_name(s->pooling), s->pool))
        return AVERROR_BUG;

    if ((ret = find_choice(ctx, "pair", s->pair)) < 0)
        return ret;
    s->pairing = ret;
    if ((ret = init_framesync_options(ctx)) < 0)
        return ret;

    if ((ret = init_device_options(ctx)) < 0)
        return ret;
    if (s->bit_depth && s->bit_depth < 8) {
        av_log(ctx, AV_LOG_ERROR, "bit_depth=%d: depths from 8 to 16 are scored; 0 takes the format's\n", s->bit_depth);
        return AVERROR(EINVAL);
    }

    s->input[DISTORTED].format = s->input[REFERENCE].format = AV_PIX_FMT_NONE;
    s->min_offset = INT64_MAX;
    s->max_offset = INT64_MIN;
    return 0;
}

/* ---- Formats ---------------------------------------------------------------------------------------------------- */

/*
 * Describes a pixel format as a picture of unknown size. True for what is read in place: luma in a plane of its own,
 * native-endian samples of 8 to 16 bits, chroma planar or interleaved, at 4:0:0, 4:2:0, 4:2:2 or 4:4:4.
 */
static int describe_format(Input *in, enum AVPixelFormat format)
{
    const AVPixFmtDescriptor *desc = av_pix_fmt_desc_get(format);
    const uint64_t others = AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL |
                            AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_ALPHA | AV_PIX_FMT_FLAG_BAYER | AV_PIX_FMT_FLAG_FLOAT;
    VgPicture picture = { .size = sizeof(picture) };
    int subsampling;

    if (!desc || desc->flags & others || (desc->nb_components != 1 && desc->nb_components != 3))
        return 0;

    picture.geometry.bit_depth = desc->comp[0].depth;
    picture.shift = desc->comp[0].shift;
    picture.sample_bytes = desc->comp[0].depth + desc->comp[0].shift > 8 ? 2 : 1;
    if (desc->comp[0].depth < 8 || desc->comp[0].depth > 16)
        return 0;
    if (picture.sample_bytes > 1 && !(desc->flags & AV_PIX_FMT_FLAG_BE) == AV_HAVE_BIGENDIAN)
        return 0;

    subsampling = desc->log2_chroma_w << 4 | desc->log2_chroma_h;
    if (desc->nb_components == 1)
        picture.geometry.chroma = VG_CHROMA_400;
    else if (subsampling == 0x11)
        picture.geometry.chroma = VG_CHROMA_420;
    else if (subsampling == 0x10)
        picture.geometry.chroma = VG_CHROMA_422;
    else if (subsampling == 0x00)
        picture.geometry.chroma = VG_CHROMA_444;
    else
        return 0;

    for (int c = 0; c < desc->nb_components; c++) {
        const AVComponentDescriptor *comp = &desc->comp[c];

        if (!c != !comp->plane || comp->depth != desc->comp[0].depth || comp->shift != desc->comp[0].shift)
            return 0;
        in->plane[c] = comp->plane;
        in->offset[c] = comp->offset;
        picture.step[c] = comp->step;
    }
    in->picture = picture;
    in->format = format;
    return 1;
}

static int query_formats(AVFilterContext *ctx)
{
    /* Lists of its own for each input: what they shared, libavfilter would convert to the first one's. */
    for (int side = DISTORTED; side <= REFERENCE; side++) {
        const AVPixFmtDescriptor *desc = NULL;
        AVFilterFormats *formats = NULL;
        int ret;

        while ((desc = av_pix_fmt_desc_next(desc))) {
            enum AVPixelFormat format = av_pix_fmt_desc_get_id(desc);
            Input in;

            /* All hardware formats are listed so that config_hardware() can refuse others with a useful message. */
            if ((describe_format(&in, format) || desc->flags & AV_PIX_FMT_FLAG_HWACCEL) &&
                (ret = ff_add_format(&formats, format)) < 0)
                return ret;
        }
        if ((ret = ff_formats_ref(formats, &ctx->inputs[side]->outcfg.formats)) < 0)
            return ret;
        if (side == DISTORTED)
            ret = ff_formats_ref(formats, &ctx->outputs[0]->incfg.formats);
        else
            ret = vg_free_colour(ctx->inputs[side]);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* A format's name as people write it: without the ending of the native byte order. */
static const char *format_name(char name[32], enum AVPixelFormat format)
{
    const char *full = av_get_pix_fmt_name(format);
    const char *end = full ? av_stristr(full, AV_HAVE_BIGENDIAN ? "be" : "le") : NULL;

    av_strlcpy(name, full ? full : "none", 32);
    if (end && !end[2])
        name[end - full] = 0;
    return name;
}

/* The planar format of a chroma subsampling and depth. */
static enum AVPixelFormat find_planar(VgChroma chroma, uint32_t bit_depth)
{
    const AVPixFmtDescriptor *desc = NULL;
    Input in;

    while ((desc = av_pix_fmt_desc_next(desc)))
        if (describe_format(&in, av_pix_fmt_desc_get_id(desc)) && in.picture.geometry.chroma == chroma &&
            in.picture.geometry.bit_depth == bit_depth && !in.picture.shift &&
            in.plane[desc->nb_components - 1] == desc->nb_components - 1)
            return in.format;
    return AV_PIX_FMT_NONE;
}

/* The format of an input's samples, and where they are. */
static const char *input_format(char text[48], const Input *in)
{
    format_name(text, in->format);
    if (in->hardware)
        av_strlcatf(text, 48, " (%s)", in->hardware->name);
    return text;
}

static AVHWFramesContext *frames_of(const AVBufferRef *hw_frames)
{
    return (AVHWFramesContext *)hw_frames->data;
}

/* The kind of hardware frames that a pixel format stands for, or NULL. */
static const Hardware *find_hardware(enum AVPixelFormat format)
{
    for (int i = 0; i < FF_ARRAY_ELEMS(hardware_kinds); i++)
        if (hardware_kinds[i].format == format && hardware_kinds[i].built_in &&
            vg_backend_built_in(hardware_kinds[i].backend))
            return &hardware_kinds[i];
    return NULL;
}

/* The stream in which a device's frames are made. */
static void *device_stream(const AVHWDeviceContext *device)
{
    return device->type == AV_HWDEVICE_TYPE_HIP ? ((AVHIPDeviceContext *)device->hwctx)->stream
                                                : vg_cuda_stream(device);
}

static void device_name(char text[VG_DEVICE_NAME_SIZE], const AVHWDeviceContext *device)
{
    if (device->type == AV_HWDEVICE_TYPE_HIP)
        av_strlcpy(text, ((AVHIPDeviceContext *)device->hwctx)->description, VG_DEVICE_NAME_SIZE);
    else
        vg_cuda_name(text, device);
}

/* Whether frames of two devices of one kind can be scored together: addresses in one can be used in the other. */
static int devices_agree(const AVHWDeviceContext *a, const AVHWDeviceContext *b)
{
    if (a->type == AV_HWDEVICE_TYPE_HIP)
        return ((AVHIPDeviceContext *)a->hwctx)->device == ((AVHIPDeviceContext *)b->hwctx)->device;
    return vg_cuda_context(a) == vg_cuda_context(b);
}

/* Whether frames on a device can have samples of this format. */
static int device_has(AVBufferRef *device, enum AVPixelFormat wanted)
{
    AVHWFramesConstraints *can = av_hwdevice_get_hwframe_constraints(device, NULL);
    const enum AVPixelFormat *format = can ? can->valid_sw_formats : NULL;
    int has = 0;

    for (; format && *format != AV_PIX_FMT_NONE; format++)
        has |= *format == wanted;
    av_hwframe_constraints_free(&can);
    return has;
}

/*
 * The format to bring inputs to: planar or, if `device` is given, one that its frames can have. Not every depth has one:
 * *depth grows to one that has.
 */
static enum AVPixelFormat find_common(VgChroma chroma, uint32_t *depth, AVBufferRef *device)
{
    const AVPixFmtDescriptor *desc = NULL;
    enum AVPixelFormat format = AV_PIX_FMT_NONE;
    Input in;

    for (uint32_t d = *depth; format == AV_PIX_FMT_NONE && d <= 16; d++) {
        if (!device)
            format = find_planar(chroma, d);
        while (device && format == AV_PIX_FMT_NONE && (desc = av_pix_fmt_desc_next(desc)))
            if (describe_format(&in, av_pix_fmt_desc_get_id(desc)) && in.picture.geometry.chroma == chroma &&
                in.picture.geometry.bit_depth == d && device_has(device, in.format))
                format = in.format;
        if (format != AV_PIX_FMT_NONE)
            *depth = d;
    }
    return format;
}

/* "FILTERS on the distorted input, e.g. -lavfi 'GRAPH'", for the filters that each side needs; the caller frees it. */
static void describe_remedy(AVBPrint *text, const AVBPrint filters[2])
{
    int n = 0;

    av_bprint_init(text, 0, AV_BPRINT_SIZE_UNLIMITED);
    for (int side = DISTORTED; side <= REFERENCE; side++)
        if (filters[side].len)
            av_bprintf(text, "%s%s on the %s input", n++ ? " and " : "", filters[side].str, side_names[side]);
    av_bprintf(text, ", e.g. -lavfi '");
    for (int side = DISTORTED; side <= REFERENCE; side++)
        if (filters[side].len)
            av_bprintf(text, "[%d:v]%s[%s];", side, filters[side].str, side_labels[side]);
    for (int side = DISTORTED; side <= REFERENCE; side++)
        if (filters[side].len)
            av_bprintf(text, "[%s]", side_labels[side]);
        else
            av_bprintf(text, "[%d:v]", side);
    av_bprintf(text, "vmaf_gpu'");
}

/* Refuses inputs that differ, with the filters that make them alike. */
static int refuse_difference(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    const VgGeometry *d = &s->input[DISTORTED].picture.geometry;
    const VgGeometry *r = &s->input[REFERENCE].picture.geometry;
    /* Chroma that is missing cannot be made up; depth that is there is not thrown away. Not every depth has a format. */
    VgChroma chroma = d->chroma == VG_CHROMA_400 ? VG_CHROMA_400 : r->chroma;
    uint32_t depth = FFMAX(d->bit_depth, r->bit_depth);
    AVBufferRef *frames = s->input[DISTORTED].hw_frames;
    const char *scaler = frames ? s->input[DISTORTED].hardware->scaler : NULL;
    enum AVPixelFormat common = AV_PIX_FMT_NONE;
    char names[2][48], common_name[32];
    AVBPrint filters[2], remedy;
    int on_device;

    if (frames)
        common = find_common(chroma, &depth, frames_of(frames)->device_ref);
    on_device = common != AV_PIX_FMT_NONE; /* what the device has a format for can stay, or come back */
    if (!on_device)
        common = find_common(chroma, &depth, NULL);

    for (int side = DISTORTED; side <= REFERENCE; side++) {
        const VgGeometry *g = &s->input[side].picture.geometry;
        int resize = side == DISTORTED && (d->width != r->width || d->height != r->height);
        int extract = g->chroma != chroma && chroma == VG_CHROMA_400; /* format=gray would make limited range full */
        int convert = common != AV_PIX_FMT_NONE && (g->bit_depth != depth || (g->chroma != chroma && !extract));
        AVBPrint *f = &filters[side];

        av_bprint_init(f, 0, AV_BPRINT_SIZE_AUTOMATIC);
        format_name(common_name, common);
        if (on_device && !resize && !convert && !extract)
            continue;
        if (on_device && scaler && !extract) { /* one filter does all */
            av_bprintf(f, "%s=", scaler);
            if (resize)
                av_bprintf(f, "%u:%u%s", r->width, r->height, convert ? ":" : "");
            if (convert)
                av_bprintf(f, "format=%s", common_name);
            continue;
        }
        if (frames)
            av_bprintf(f, "hwdownload,format=%s", format_name(names[side], s->input[side].format));
        if (resize)
            av_bprintf(f, "%sscale=%u:%u:flags=bicubic", f->len ? "," : "", r->width, r->height);
        if (extract)
            av_bprintf(f, "%sextractplanes=y", f->len ? "," : "");
        if (convert)
            av_bprintf(f, "%sformat=%s", f->len ? "," : "", common_name);
        if (on_device)
            av_bprintf(f, ",hwupload");
    }

    describe_remedy(&remedy, filters);
    av_log(ctx, AV_LOG_ERROR, "distorted is %ux%u %s, reference is %ux%u %s: insert %s\n", d->width, d->height,
           input_format(names[DISTORTED], &s->input[DISTORTED]), r->width, r->height,
           input_format(names[REFERENCE], &s->input[REFERENCE]), remedy.str);
    av_bprint_finalize(&remedy, NULL);
    return AVERROR(EINVAL);
}

/* Refuses hardware frames against software frames, or against those of another kind. */
static int refuse_mixture(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    enum Side hard = s->input[DISTORTED].hw_frames ? DISTORTED : REFERENCE, soft = !hard;
    AVBufferRef *device = frames_of(s->input[hard].hw_frames)->device_ref;
    int both = !!s->input[soft].hw_frames;
    char names[2][48], download[32];
    AVBPrint filters[2], remedy;

    for (int side = DISTORTED; side <= REFERENCE; side++) {
        input_format(names[side], &s->input[side]);
        av_bprint_init(&filters[side], 0, AV_BPRINT_SIZE_AUTOMATIC);
        if (both)
            av_bprintf(&filters[side], "hwdownload,format=%s", format_name(download, s->input[side].format));
    }
    /* hwupload_cuda would make a context of its own; what the device does not take, hwupload would have converted. */
    if (!both && device_has(device, s->input[soft].format))
        av_bprintf(&filters[soft], "hwupload");
    else if (!both)
        av_bprintf(&filters[hard], "hwdownload,format=%s", format_name(download, s->input[hard].format));
    describe_remedy(&remedy, filters);
    format_name(download, s->input[hard].format);
    if (!both && filters[soft].len)
        av_bprintf(&remedy, ", or hwdownload,format=%s on the %s input", download, side_names[hard]);
    av_log(ctx, AV_LOG_ERROR, "distorted is %s, reference is %s: insert %s\n", names[DISTORTED], names[REFERENCE],
           remedy.str);
    av_bprint_finalize(&remedy, NULL);
    return AVERROR(EINVAL);
}

/* Refuses inputs on two devices, or in two contexts of one. */
static int refuse_devices(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    const Hardware *kind = s->input[DISTORTED].hardware;
    char devices[2][VG_DEVICE_NAME_SIZE];

    for (int side = DISTORTED; side <= REFERENCE; side++)
        device_name(devices[side], frames_of(s->input[side].hw_frames)->device_ctx);
    av_log(ctx, AV_LOG_ERROR,
           "distorted frames are on %s, reference frames on %s%s: make one device for both, e.g. -init_hw_device "
           "%s=gpu, and name it by %s\n",
           devices[DISTORTED], devices[REFERENCE],
           strcmp(devices[DISTORTED], devices[REFERENCE]) ? ""
           : kind->device == AV_HWDEVICE_TYPE_CUDA        ? ", in another context"
                                                          : ", another partition of it",
           kind->option,
           kind->device == AV_HWDEVICE_TYPE_CUDA
               ? "-hwaccel_device gpu before each input that is decoded there and -filter_hw_device gpu for hwupload "
                 "(hwupload_cuda always makes a context of its own)"
               : "-filter_hw_device gpu for hwupload; decode both on that GPU where frames come by hwmap");
    return AVERROR(EINVAL);
}

/* Takes the format of an input's hardware frames from their frames context. */
static int config_hardware(AVFilterContext *ctx, enum Side side)
{
    AVFilterLink *link = ctx->inputs[side];
    AVBufferRef *hw_frames = vg_filter_link(link)->hw_frames_ctx;
    Input *in = &((VmafGpuContext *)ctx->priv)->input[side];
    const Hardware *kind = find_hardware(link->format);
    const char *hard = av_get_pix_fmt_name(link->format);
    char name[32];

    if (!kind) {
        av_log(ctx, AV_LOG_ERROR,
               "the %s input has hardware frames (%s), which this build does not score: insert hwdownload and the "
               "format that it delivers, e.g. hwdownload,format=%s\n",
               side_names[side], hard, hw_frames ? format_name(name, frames_of(hw_frames)->sw_format) : "nv12");
        return AVERROR(EINVAL);
    }
    if (!hw_frames) {
        av_log(ctx, AV_LOG_ERROR, "the %s input has %s frames that belong to no device: insert hwupload before\n",
               side_names[side], hard);
        return AVERROR(EINVAL);
    }
    if (!describe_format(in, frames_of(hw_frames)->sw_format)) {
        format_name(name, frames_of(hw_frames)->sw_format);
        av_log(ctx, AV_LOG_ERROR,
               "the %s input has %s frames of format %s, which is not scored: insert hwdownload,format=%s\n",
               side_names[side], hard, name, name);
        return AVERROR(EINVAL);
    }
    in->hardware = kind;
    return av_buffer_replace(&in->hw_frames, hw_frames);
}

static int config_input(AVFilterContext *ctx, enum Side side)
{
    VmafGpuContext *s = ctx->priv;
    AVFilterLink *link = ctx->inputs[side];
    AVRational rate = vg_filter_link(link)->frame_rate;
    Input *in = &s->input[side];
    const char *name = side_names[side];
    const AVFilterContext *source = link->src;
    uint32_t own_depth;
    char text[48];
    int ret;

    if (!describe_format(in, link->format) && (ret = config_hardware(ctx, side)) < 0)
        return ret;
    if (source->name && !strncmp(source->name, "auto_scale", 10) && source->nb_inputs == 1)
        av_log(ctx, AV_LOG_WARNING, "the %s input is converted from %s to %s before it is scored\n", name,
               av_get_pix_fmt_name(source->inputs[0]->format), av_get_pix_fmt_name(link->format));

    in->picture.geometry.width = link->w;
    in->picture.geometry.height = link->h;
    own_depth = in->picture.geometry.bit_depth;
    if (s->bit_depth) {
        if ((uint32_t)s->bit_depth > own_depth) {
            av_log(ctx, AV_LOG_ERROR, "bit_depth=%d: the %s input has %u bits (%s); leave bit_depth out\n",
                   s->bit_depth, name, own_depth, input_format(text, in));
            return AVERROR(EINVAL);
        }
        in->picture.shift += own_depth - s->bit_depth;
        in->picture.geometry.bit_depth = s->bit_depth;
    }

    in->tick = av_rescale_q(1, link->time_base, (AVRational){ 1, NS_PER_SECOND });
    if (rate.num > 0 && rate.den > 0)
        in->nominal_step = av_rescale_q(1, av_inv_q(rate), (AVRational){ 1, NS_PER_SECOND });
    return 0;
}

/* Depths that many metrics do not score: the library has said so, and not how FFmpeg converts them. */
static void suggest_depth(AVFilterContext *ctx, const VgGeometry *g)
{
    enum AVPixelFormat format = find_planar(g->chroma, g->bit_depth <= 10 ? 10 : g->bit_depth <= 12 ? 12 : 16);
    char name[32];

    if (g->bit_depth == 8 || g->bit_depth == 10 || g->bit_depth == 12 || g->bit_depth == 16)
        return;
    format_name(name, format);
    av_log(ctx, AV_LOG_ERROR,
           "inputs of %u bits: to convert them, insert format=%s on both, e.g. -lavfi "
           "'[0:v]format=%s[d];[1:v]format=%s[r];[d][r]vmaf_gpu'\n",
           g->bit_depth, name, name, name);
}

/* Gives the library a device of FFmpeg's. `index` must live until the scorer is made. */
static void use_device(VgScorerConfig *config, const AVHWDeviceContext *device, char index[16])
{
    if (device->type != AV_HWDEVICE_TYPE_HIP) {
        config->device_context = vg_cuda_context(device);
        return;
    }
    snprintf(index, 16, "%d", ((AVHIPDeviceContext *)device->hwctx)->device);
    config->device = index;
}

/* Where scores are computed, and what of the options about it cannot be meant. */
static int config_device(AVFilterContext *ctx, VgScorerConfig *config, char index[16])
{
    VmafGpuContext *s = ctx->priv;
    const Input *in = &s->input[DISTORTED];
    const AVHWDeviceContext *device = ctx->hw_device_ctx ? (AVHWDeviceContext *)ctx->hw_device_ctx->data : NULL;
    int on_device = s->backend_kind == VG_BACKEND_AUTO ? !!in->hw_frames : s->backend_kind != VG_BACKEND_CPU;
    enum AVHWDeviceType wanted = s->backend_kind == VG_BACKEND_HIP ? AV_HWDEVICE_TYPE_HIP : AV_HWDEVICE_TYPE_CUDA;

    if (in->hw_frames)
        device = frames_of(in->hw_frames)->device_ctx;
    else if (!on_device || (device && device->type != wanted))
        device = NULL;

    if (!on_device && s->parity_kind != PARITY_OFF) {
        av_log(
            ctx, AV_LOG_ERROR,
            "parity=%s compares a device's work with the CPU's, but with backend=%s the CPU scores these inputs: leave "
            "parity out, or use backend=%s\n",
            s->parity, s->backend, in->hw_frames ? "auto" : "cuda or hip");
        return AVERROR(EINVAL);
    }
    if (s->device && *s->device && (device || !on_device)) {
        av_log(ctx, AV_LOG_ERROR, "device=%s has no meaning %s%s%s: leave it out%s\n", s->device,
               in->hw_frames ? "with "
               : on_device   ? "where ffmpeg hands the filter a device (-filter_hw_device or the last one that it made)"
                             : "where the CPU scores",
               in->hw_frames ? in->hardware->name : "", in->hw_frames ? " frames, which are on a device already" : "",
               on_device ? "" : ", or use backend=cuda or hip");
        return AVERROR(EINVAL);
    }

    config->backend = s->backend_kind;
    config->memory = in->hw_frames ? in->hardware->memory : VG_MEMORY_HOST;
    config->device = s->device;
    if (device)
        use_device(config, device, index);
    config->fallback = s->fallback_kind;
    config->history = s->history_kind;
    if (s->history_kind == VG_HISTORY_AUTO && in->hw_frames && VG_DECODERS_LEND_SURFACES)
        config->history = VG_HISTORY_COPY;
    config->parity_every = s->parity_kind == PARITY_OFF ? 0 : s->parity_every;
    return 0;
}

static int score_synchronised(FFFrameSync *fs);

static int config_output(AVFilterLink *outlink)
{
    AVFilterContext *ctx = outlink->src;
    VmafGpuContext *s = ctx->priv;
    AVFilterLink *main = ctx->inputs[DISTORTED];
    const Input *in = s->input;
    VgScorerConfig config = VG_SCORER_CONFIG_INIT;
    const VgGeometry *d = &s->input[DISTORTED].picture.geometry;
    const VgGeometry *r = &s->input[REFERENCE].picture.geometry;
    AVBufferRef *frames_d, *frames_r;
    char names[2][48], index[16];
    int ret;

    if ((ret = config_input(ctx, DISTORTED)) < 0 || (ret = config_input(ctx, REFERENCE)) < 0)
        return ret;
    frames_d = in[DISTORTED].hw_frames;
    frames_r = in[REFERENCE].hw_frames;
    if (in[DISTORTED].hardware != in[REFERENCE].hardware)
        return refuse_mixture(ctx);
    if (d->width != r->width || d->height != r->height || d->chroma != r->chroma || d->bit_depth != r->bit_depth)
        return refuse_difference(ctx);
    if (frames_d && !devices_agree(frames_of(frames_d)->device_ctx, frames_of(frames_r)->device_ctx))
        return refuse_devices(ctx);

    av_log(ctx, AV_LOG_VERBOSE,
           "FFmpeg %s, libvmafgpu %u.%u.%u: distorted %s against reference %s, %ux%u, %u bits, pair=%s\n",
           av_version_info(), vg_version() / 10000, vg_version() / 100 % 100, vg_version() % 100,
           input_format(names[DISTORTED], &in[DISTORTED]), input_format(names[REFERENCE], &in[REFERENCE]), d->width,
           d->height, d->bit_depth, s->pair);

    config.geometry = *d;
    config.features = s->feature;
    config.n_threads = s->n_threads;
    config.n_subsample = s->n_subsample;
    config.in_flight = s->in_flight;
    config.log = print_message;
    config.log_opaque = ctx;
    if ((ret = config_device(ctx, &config, index)) < 0)
        return ret;
    if ((ret = vg_scorer_create(&s->scorer, &config)) < 0) {
        if (ret == AVERROR(EINVAL) && !frames_d && !s->bit_depth)
            suggest_depth(ctx, d);
        return ret == AVERROR(EAGAIN) ? AVERROR_EXTERNAL : ret; /* libavfilter takes EAGAIN for "later" */
    }

    outlink->w = main->w;
    outlink->h = main->h;
    outlink->time_base = main->time_base;
    outlink->sample_aspect_ratio = main->sample_aspect_ratio;
    vg_filter_link(outlink)->frame_rate = vg_filter_link(main)->frame_rate;
    if (frames_d && (ret = av_buffer_replace(&vg_filter_link(outlink)->hw_frames_ctx, frames_d)) < 0)
        return ret;

    if (s->pairing == PAIR_FRAMESYNC) {
        if ((ret = ff_framesync_init_dualinput(&s->fs, ctx)) < 0)
            return ret;
        s->fs.on_event = score_synchronised;
        if ((ret = ff_framesync_configure(&s->fs)) < 0)
            return ret;
        outlink->time_base = s->fs.time_base;
    }
    return 0;
}

/* ---- Scoring ---------------------------------------------------------------------------------------------------- */

static int is_full_range(const AVFrame *frame)
{
    const char *name = av_get_pix_fmt_name(frame->format);

    return frame->color_range == AVCOL_RANGE_JPEG || (name && !strncmp(name, "yuvj", 4));
}

static void check_colour(AVFilterContext *ctx, const AVFrame *distorted, const AVFrame *reference)
{
    if (is_full_range(distorted) != is_full_range(reference))
        av_log(
            ctx, AV_LOG_WARNING,
            "the colour ranges differ (distorted: %s, reference: %s) and samples are compared as they are: bring the "
            "distorted input to the reference's with scale=out_range=%s\n",
            is_full_range(distorted) ? "full" : "limited", is_full_range(reference) ? "full" : "limited",
            is_full_range(reference) ? "full" : "limited");
    if (distorted->colorspace != reference->colorspace && distorted->colorspace != AVCOL_SPC_UNSPECIFIED &&
        reference->colorspace != AVCOL_SPC_UNSPECIFIED)
        av_log(ctx, AV_LOG_WARNING,
               "the colour spaces differ (distorted: %s, reference: %s) and samples are compared as they are\n",
               av_color_space_name(distorted->colorspace), av_color_space_name(reference->colorspace));
}

static void release_frame(void *ref)
{
    AVFrame *frame = ref;

    av_frame_free(&frame);
}

/* Refuses a frame that is not what its input promised: decoders can change in mid-stream. */
static int refuse_frame(AVFilterContext *ctx, enum Side side, const AVFrame *frame, const Input *is)
{
    const Input *in = &((VmafGpuContext *)ctx->priv)->input[side];
    char agreed[48], name[48];

    av_log(ctx, AV_LOG_ERROR, "a %s frame is %dx%d %s, but %ux%u %s was agreed on: insert %s before the filter\n",
           side_names[side], frame->width, frame->height, input_format(name, is), in->picture.geometry.width,
           in->picture.geometry.height, input_format(agreed, in),
           in->hardware && in->hardware->scaler ? in->hardware->scaler
           : in->hardware                       ? "hwdownload,scale,hwupload"
                                                : "scale");
    return AVERROR(EINVAL);
}

/* Refuses a frame on another device than those before it. */
static int refuse_device(AVFilterContext *ctx, enum Side side, const Hardware *kind)
{
    av_log(ctx, AV_LOG_ERROR, "a %s frame is %s than those before it: make one device for all decoders, e.g. %s\n",
           side_names[side],
           kind->device == AV_HWDEVICE_TYPE_CUDA ? "in another CUDA context" : "on another HIP device",
           kind->device == AV_HWDEVICE_TYPE_CUDA ? "-init_hw_device cuda=gpu and -hwaccel_device gpu"
                                                 : "-init_hw_device hip=gpu and -filter_hw_device gpu");
    return AVERROR(EINVAL);
}

/* Describes a frame in place. The frame goes with the picture once that has been submitted. */
/* Filters that move samples by changing a frame's fields know nothing of the chroma of hardware frames, or of us. */
static int check_hardware_frame(AVFilterContext *ctx, enum Side side, const AVFrame *frame, const Input *is)
{
    const char *filter = frame->crop_left || frame->crop_top || frame->crop_right || frame->crop_bottom ? "crop" : NULL;
    char name[32];

    for (int i = 0; i < FF_ARRAY_ELEMS(is->plane) && !filter; i++)
        if (frame->linesize[is->plane[i]] < 0)
            filter = "vflip";
    if (!filter)
        return 0;
    format_name(name, is->format);
    av_log(ctx, AV_LOG_ERROR,
           "a %s frame in the memory of a %s device %s: put %s before the upload, or insert "
           "hwdownload,format=%s,%s,hwupload in its place\n",
           side_names[side], is->hardware->name,
           *filter == 'c' ? "is to be cropped, which is not done there" : "lies upside down, its chroma anywhere",
           filter, name, filter);
    return AVERROR(EINVAL);
}

static int describe_frame(AVFilterContext *ctx, enum Side side, AVFrame *frame, VgPicture *picture)
{
    VmafGpuContext *s = ctx->priv;
    const Input *in = &s->input[side];
    const Hardware *kind = frame->hw_frames_ctx ? find_hardware(frame->format) : NULL;
    const AVHWFramesContext *frames = kind ? frames_of(frame->hw_frames_ctx) : NULL;
    const Input is = { .hardware = kind, .format = frames ? frames->sw_format : (enum AVPixelFormat)frame->format };
    int n_planes = in->picture.geometry.chroma == VG_CHROMA_400 ? 1 : 3, ret;

    *picture = in->picture;
    if ((uint32_t)frame->width != picture->geometry.width || (uint32_t)frame->height != picture->geometry.height ||
        kind != in->hardware || is.format != in->format)
        return refuse_frame(ctx, side, frame, &is);
    if (frames) {
        if (!devices_agree(frames->device_ctx, frames_of(in->hw_frames)->device_ctx))
            return refuse_device(ctx, side, kind);
        if ((ret = check_hardware_frame(ctx, side, frame, in)) < 0)
            return ret;
        picture->memory = kind->memory;
        picture->stream = device_stream(frames->device_ctx);
    }
    for (int c = 0; c < n_planes; c++) {
        picture->data[c] = frame->data[in->plane[c]] + in->offset[c];
        picture->pitch[c] = frame->linesize[in->plane[c]];
    }
    picture->release = release_frame;
    picture->ref = frame;
    return 0;
}

/* Hands a pair to the library, and with it both frames (on failure too). */
static int submit_pair(AVFilterContext *ctx, AVFrame *distorted, AVFrame *reference)
{
    VmafGpuContext *s = ctx->priv;
    VgPicture pictures[2];
    int ret = AVERROR(ENOMEM);

    if (!distorted || !reference)
        goto fail;
    if ((ret = describe_frame(ctx, DISTORTED, distorted, &pictures[DISTORTED])) < 0 ||
        (ret = describe_frame(ctx, REFERENCE, reference, &pictures[REFERENCE])) < 0)
        goto fail;
    if (!s->n_pairs) {
        if (!s->feature || !*s->feature)
            av_log(ctx, AV_LOG_INFO, "no feature is given: " VG_DEFAULT_FEATURES " are scored\n");
        check_colour(ctx, distorted, reference);
    }

    while ((ret = vg_scorer_submit(s->scorer, &pictures[DISTORTED], &pictures[REFERENCE])) == AVERROR(EAGAIN)) {
        ret = vg_scorer_collect(s->scorer, VG_WAIT_ONE);
        if (ret <= 0) {
            ret = ret ? ret : AVERROR_BUG; /* a full ring has an oldest frame */
            goto fail;
        }
    }
    if (ret < 0)
        goto fail;
    s->n_pairs++;
    return 0;

fail:
    av_frame_free(&distorted);
    av_frame_free(&reference);
    return ret;
}

/* Ends scoring: from here on all scores are final. Asked again, gives the same answer: what failed stays so. */
static int flush_scorer(VmafGpuContext *s)
{
    if (!s->flushed)
        s->flush_error = vg_scorer_flush(s->scorer);
    s->flushed = 1;
    return s->flush_error;
}

/* ---- Output ----------------------------------------------------------------------------------------------------- */

static int attach_scores(VmafGpuContext *s, AVFrame *frame, int64_t index)
{
    for (unsigned key = 0; key < vg_scorer_n_keys(s->scorer); key++) {
        char name[320], text[VG_NUMBER_SIZE];
        double score;
        int ret;

        if (vg_scorer_score(s->scorer, key, index, &score) < 0)
            continue;
        snprintf(name, sizeof(name), "lavfi.vmaf_gpu.%s", vg_scorer_key(s->scorer, key));
        vg_number_text(score, s->precision, text);
        if ((ret = av_dict_set(&frame->metadata, name, text, 0)) < 0)
            return ret;
    }
    return 0;
}

/* Sends the frames whose scores are final, in order, and at least `n` frames. */
static int send_held(AVFilterContext *ctx, unsigned n)
{
    VmafGpuContext *s = ctx->priv;
    int64_t final = s->scorer ? vg_scorer_final(s->scorer) : 0;

    for (unsigned i = 0; s->n_held; i++) {
        Held *h = &s->held[s->first_held];
        int ret = 0;

        if (i >= n && h->index >= final)
            break;
        s->first_held = (s->first_held + 1) % MAX_HELD;
        s->n_held--;
        if (h->index >= 0 && (ret = attach_scores(s, h->frame, h->index)) < 0) {
            av_frame_free(&h->frame);
            return ret;
        }
        s->sent = 1;
        if ((ret = ff_filter_frame(ctx->outputs[0], h->frame)) < 0)
            return ret;
    }
    return 0;
}

/*
 * Passes a distorted frame on: at once, or with metadata=1 as soon as its scores are final, but not later than
 * max(in_flight, look-ahead) pairs after it.
 */
static int pass_on(AVFilterContext *ctx, AVFrame *frame, int64_t index)
{
    VmafGpuContext *s = ctx->priv;
    int64_t delay;
    int ret;

    if (!s->metadata) {
        s->sent = 1;
        return ff_filter_frame(ctx->outputs[0], frame);
    }

    /* Many frames without a partner may follow one that waits for its successor: the wait has to end somewhere. */
    if (s->n_held == MAX_HELD &&
        ((ret = vg_scorer_collect(s->scorer, VG_WAIT_ALL)) < 0 || (ret = send_held(ctx, 1)) < 0)) {
        av_frame_free(&frame);
        return ret;
    }
    s->held[(s->first_held + s->n_held) % MAX_HELD] = (Held){ frame, index };
    s->n_held++;

    /* With a single frame in flight each one's scores are waited for. */
    delay = s->in_flight == 1 ? 0 : FFMAX((unsigned)s->in_flight, vg_scorer_lookahead(s->scorer));
    while (!s->flushed && (int64_t)vg_scorer_final(s->scorer) < s->n_pairs - delay) {
        if ((ret = vg_scorer_collect(s->scorer, VG_WAIT_ONE)) < 0)
            return ret;
        if (!ret)
            break;
    }
    return send_held(ctx, 0);
}

/* ---- End -------------------------------------------------------------------------------------------------------- */

/*
 * The program ffmpeg makes the graph anew when its input's size or format changes. The logs that this process has
 * written are remembered, so that no later filter takes an earlier one's for its own. The list lives as long as the
 * process: the only state that filters share.
 */
static AVMutex logs_mutex = AV_MUTEX_INITIALIZER;
static char **logs;
static int n_logs;

/* One spelling for every path of a file that exists or could be made; the caller frees it. */
static char *canonical_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    char resolved[PATH_MAX], *folder, *name = NULL;

    if (realpath(path, resolved))
        return av_strdup(resolved);
    if (!(folder = slash ? av_strndup(path, FFMAX(slash - path, 1)) : av_strdup(".")))
        return NULL;
    if (realpath(folder, resolved))
        name = av_asprintf("%s/%s", resolved, slash ? slash + 1 : path);
    else
        name = av_strdup(path);
    av_free(folder);
    return name;
}

/* Gives the first of PATH, PATH.2, PATH.3, ... that this process has not written yet; the caller frees it. */
static char *claim_log(const char *path)
{
    struct stat file;
    char *name = av_strdup(path), *canonical;

    if (!stat(path, &file) && !S_ISREG(file.st_mode)) /* a pipe or device keeps nothing that could be overwritten */
        return name;

    ff_mutex_lock(&logs_mutex);
    canonical = canonical_path(path);
    for (int number = 2, i = 0; name && canonical && i < n_logs; i++) {
        if (!strcmp(canonical, logs[i])) {
            av_free(name);
            av_free(canonical);
            name = av_asprintf("%s.%d", path, number++);
            canonical = name ? canonical_path(name) : NULL;
            i = -1;
        }
    }
    if (!name || !canonical || av_dynarray_add_nofree(&logs, &n_logs, canonical) < 0) {
        av_free(canonical);
        av_freep(&name);
    }
    ff_mutex_unlock(&logs_mutex);
    return name;
}

static int write_log(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    char *path = claim_log(s->log_path);
    int ret;

    if (!path)
        return AVERROR(ENOMEM);
    s->second = strcmp(path, s->log_path) != 0;
    if (s->second)
        av_log(
            ctx, AV_LOG_WARNING,
            "%s is the log of another vmaf_gpu filter of this run: the scores of this one go to %s (if the program "
            "made its graph anew for an input that changed: -reinit_filter 0 before that input, and scale behind it, "
            "keep one log)\n",
            s->log_path, path);
    ret = vg_scorer_write_report(s->scorer, path, s->report, s->precision);
    av_free(path);
    return ret;
}

static void count_alone(VmafGpuContext *s, enum Side side, int64_t time)
{
    Input *in = &s->input[side];

    if (in->n_alone < N_NAMED)
        in->alone_time[in->n_alone] = time;
    in->n_alone++;
}

/* "2 of 5 distorted frames (at 0.12, 0.16 s)" */
static void describe_alone(const VmafGpuContext *s, enum Side side, AVBPrint *text)
{
    const Input *in = &s->input[side];
    const char *more = in->cut ? " or more" : "";

    av_bprintf(text, "%" PRId64 "%s of %" PRId64 "%s %s frames", in->n_alone, more, in->n_frames, more,
               side_names[side]);
    for (int i = 0; i < FFMIN(in->n_alone, N_NAMED); i++)
        if (s->pairing == PAIR_INDEX)
            av_bprintf(text, "%s%" PRId64, i ? ", " : " (number ", in->alone_time[i]);
        else
            av_bprintf(text, "%s%f", i ? ", " : " (at ", (double)in->alone_time[i] / NS_PER_SECOND);
    if (in->n_alone)
        av_bprintf(text, "%s%s)", in->n_alone > N_NAMED ? ", ..." : "", s->pairing == PAIR_INDEX ? "" : " s");
}

static int64_t tolerance(const VmafGpuContext *s);

/* Nanoseconds a frame between the first and the latest pair, and how far rounded time stamps may move it; 0: unknown. */
static int64_t measured_step(const Input *in, int64_t *error)
{
    int64_t n = in->pair_number[1] - in->pair_number[0];
    int64_t step = n > 0 ? (in->pair_time[1] - in->pair_time[0]) / n : 0;

    *error = n > 0 && in->tick <= step / 2 ? in->tick / n : 0; /* a time base of one tick a frame rounds nothing */
    return step;
}

/*
 * Compares the frame rates that the links promise. A container's promise may be a guess: where the frames themselves went
 * at one rate, to 0.1 % beside the rounding of time stamps, they are believed.
 */
static void check_rates(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    const Input *d = &s->input[DISTORTED], *r = &s->input[REFERENCE];
    int64_t error_d, error_r, step_d = measured_step(d, &error_d), step_r = measured_step(r, &error_r);

    if (s->rates_checked || s->pairing != PAIR_NEAREST || !d->nominal_step || !r->nominal_step)
        return;
    s->rates_checked = 1;
    if (FFABS(d->nominal_step - r->nominal_step) <= r->nominal_step / 1000)
        return;
    if (step_d > 0 && step_r > 0 && FFABS(step_d - step_r) <= step_r / 1000 + error_d + error_r)
        return;
    s->rates_differ = 1;
    av_log(ctx, s->strict ? AV_LOG_ERROR : AV_LOG_WARNING,
           "the frame rates differ: distorted %.3f fps, reference %.3f fps; bring both to one with fps\n",
           (double)NS_PER_SECOND / d->nominal_step, (double)NS_PER_SECOND / r->nominal_step);
}

/* Says what did not fit together, and whether anything did not. */
static int report_pairing(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    const Input *d = &s->input[DISTORTED], *r = &s->input[REFERENCE];
    int level = s->strict ? AV_LOG_ERROR : AV_LOG_WARNING;
    int faults;
    AVBPrint text;

    check_rates(ctx);
    faults = s->rates_differ;
    if (d->n_alone || r->n_alone) {
        faults++;
        av_bprint_init(&text, 0, AV_BPRINT_SIZE_UNLIMITED);
        describe_alone(s, DISTORTED, &text);
        if (s->pairing != PAIR_FRAMESYNC) {
            av_bprintf(&text, " and ");
            describe_alone(s, REFERENCE, &text);
        }
        av_log(ctx, level, "%s had no partner and were not scored\n", text.str);
        av_bprint_finalize(&text, NULL);
    }
    if (s->pairing == PAIR_FRAMESYNC && (d->n_again || r->n_again)) {
        faults++;
        av_log(ctx, s->strict ? AV_LOG_ERROR : AV_LOG_INFO,
               "of %" PRId64 " pairs, %" PRId64 " use a distorted and %" PRId64 " a reference frame again\n",
               s->n_pairs, d->n_again, r->n_again);
    }
    if (s->pairing != PAIR_NEAREST || !d->n_frames || !r->n_frames)
        return faults;

    if (!s->n_pairs && s->failed)
        return faults;
    if (!s->n_pairs) {
        faults++;
        av_log(ctx, level,
               "the time stamps do not meet: distorted %f to %f s, reference %f to %f s; insert "
               "setpts=PTS-STARTPTS on both inputs, or use pair=index\n",
               (double)d->first / NS_PER_SECOND, (double)d->last / NS_PER_SECOND, (double)r->first / NS_PER_SECOND,
               (double)r->last / NS_PER_SECOND);
    } else if (FFABS(r->first - d->first) > tolerance(s)) {
        faults++;
        av_log(ctx, level,
               "the streams begin at different times: distorted at %f s, reference at %f s, offset %f s; %s\n",
               (double)d->first / NS_PER_SECOND, (double)r->first / NS_PER_SECOND,
               (double)(r->first - d->first) / NS_PER_SECOND,
               s->second ? "a graph that is made anew loses frames that were queued in the old one"
                         : "if they show the same pictures, insert setpts=PTS-STARTPTS on both inputs");
    } else if (FFMIN(FFABS(s->min_offset), FFABS(s->max_offset)) > d->tick + r->tick &&
               (s->min_offset > 0) == (s->max_offset > 0)) {
        faults++;
        av_log(ctx, level,
               "the streams have a constant offset: each reference frame is about %f s %s than its partner; if "
               "they show the same pictures, insert setpts=PTS-STARTPTS on both inputs\n",
               (double)FFABS(s->min_offset / 2 + s->max_offset / 2) / NS_PER_SECOND,
               s->min_offset > 0 ? "later" : "earlier");
    }
    return faults;
}

/* Whether parity=strict is content; the library has reported what differed. */
static int check_parity(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    uint64_t compared, different = vg_scorer_parity(s->scorer, &compared);

    if (s->parity_kind != PARITY_STRICT || (compared && !different))
        return 0;
    if (!compared)
        av_log(ctx, AV_LOG_ERROR, "parity=strict: %s, nothing was compared\n",
               s->n_pairs ? "no device has scored" : "no frames were scored");
    return AVERROR(EINVAL);
}

/* Scores that are left, summary, log, and what to know about them. `whole`: both inputs were seen to their end. */
static int finish(AVFilterContext *ctx, int whole)
{
    VmafGpuContext *s = ctx->priv;
    int ret, error;

    if (s->finished || !s->scorer)
        return 0;
    s->finished = 1;

    ret = flush_scorer(s);
    if (ret >= 0 && s->n_pairs) {
        vg_scorer_print_summary(s->scorer, s->pooling);
        if (s->log_path && (error = write_log(ctx)) < 0)
            ret = error;
    }
    if (ret >= 0 && (s->n_pairs || whole) && (error = check_parity(ctx)) < 0)
        ret = error;
    if (report_pairing(ctx) && s->strict && ret >= 0)
        ret = AVERROR(EINVAL);
    if (!s->n_pairs && whole) {
        av_log(ctx, s->strict ? AV_LOG_ERROR : AV_LOG_WARNING, "no frames were scored%s\n",
               s->log_path ? ", and no log is written" : "");
        if (s->strict && ret >= 0)
            ret = AVERROR(EINVAL);
    }
    return ret;
}

/* ---- Pairing ---------------------------------------------------------------------------------------------------- */

static int compare_steps(const void *a, const void *b)
{
    return FFDIFFSIGN(*(const int64_t *)a, *(const int64_t *)b);
}

/* Half of a frame's duration: of the median step of time stamps, or of what the link says before there are two. */
static int64_t tolerance(const VmafGpuContext *s)
{
    int64_t shortest = INT64_MAX;

    for (int side = DISTORTED; side <= REFERENCE; side++) {
        const Input *in = &s->input[side];
        int64_t step = in->nominal_step, sorted[N_STEPS];
        int n = FFMIN(in->n_steps, N_STEPS);

        if (n) {
            memcpy(sorted, in->step, n * sizeof(*sorted));
            qsort(sorted, n, sizeof(*sorted), compare_steps);
            step = sorted[n / 2];
        }
        if (step)
            shortest = FFMIN(shortest, step);
    }
    return shortest == INT64_MAX ? shortest : shortest / 2;
}

/* Takes frames from a link until `want` of them wait; sets eof. */
static int take_frames(AVFilterContext *ctx, enum Side side, int want)
{
    VmafGpuContext *s = ctx->priv;
    AVFilterLink *link = ctx->inputs[side];
    Input *in = &s->input[side];

    while (in->n < want && !in->eof) {
        AVFrame *frame;
        int64_t time;
        int ret = ff_inlink_consume_frame(link, &frame);

        if (ret < 0)
            return ret;
        if (!ret) {
            in->eof = !!ff_inlink_acknowledge_status(link, &in->status, &in->status_pts);
            break;
        }

        time = in->n_frames;
        if (s->pairing == PAIR_NEAREST) {
            if (frame->pts == AV_NOPTS_VALUE) {
                av_log(ctx, AV_LOG_ERROR,
                       "%s frame %" PRId64
                       " has no time stamp: use pair=index, or number the frames of both inputs, e.g. "
                       "setpts=N/(25*TB)\n",
                       side_names[side], in->n_frames);
                av_frame_free(&frame);
                return AVERROR(EINVAL);
            }
            time = av_rescale_q(frame->pts, link->time_base, (AVRational){ 1, NS_PER_SECOND });
            if (time < -MAX_TIME || time > MAX_TIME) { /* also what av_rescale_q() gives where it overflows */
                av_log(ctx, AV_LOG_ERROR,
                       "%s frame %" PRId64 " has the time stamp %" PRId64 " of time base %d/%d, which is out of range: "
                       "insert setpts, or use pair=index\n",
                       side_names[side], in->n_frames, frame->pts, link->time_base.num, link->time_base.den);
                av_frame_free(&frame);
                return AVERROR(EINVAL);
            }
            if (!in->n_frames)
                in->first = time;
            else if (time > in->last)
                in->step[in->n_steps++ % N_STEPS] = time - in->last;
            in->last = time;
        }
        in->frame[in->n] = frame;
        in->time[in->n] = time;
        in->n++;
        in->n_frames++;
    }
    return 0;
}

static AVFrame *pop_frame(Input *in)
{
    AVFrame *frame = in->frame[0];

    in->frame[0] = in->frame[1];
    in->time[0] = in->time[1];
    in->frame[1] = NULL;
    in->n--;
    return frame;
}

enum Move { WAIT, PAIR, SKIP_DISTORTED, SKIP_REFERENCE, END };

/*
 * What to do with the first frame of each input.
 *
 * Nearest: they are partners if they are no further apart than the tolerance, unless the frame after the earlier one is
 * nearer to the later one and has no partner that is nearer still. So each frame is used once, and time stamps that
 * containers have rounded differently find each other.
 */
static enum Move next_move(const VmafGpuContext *s)
{
    const Input *d = &s->input[DISTORTED], *r = &s->input[REFERENCE], *earlier, *later;
    int64_t distance, rival;

    if (!d->n) {
        if (!d->eof)
            return WAIT;
        if (s->shortest == 1)
            return END;
        /* How far the reference goes on is worth knowing, but not worth decoding a film for. */
        if (r->n)
            return s->tail < MAX_TAIL ? SKIP_REFERENCE : END;
        return r->eof ? END : WAIT;
    }
    if (!r->n) {
        if (!r->eof)
            return WAIT;
        return s->shortest == 1 ? END : SKIP_DISTORTED;
    }
    if (s->pairing == PAIR_INDEX || d->time[0] == r->time[0])
        return PAIR;
    if ((d->n < 2 && !d->eof) || (r->n < 2 && !r->eof))
        return WAIT;

    earlier = d->time[0] < r->time[0] ? d : r;
    later = earlier == d ? r : d;
    distance = later->time[0] - earlier->time[0];
    if (distance > tolerance(s))
        return earlier == d ? SKIP_DISTORTED : SKIP_REFERENCE;
    if (earlier->n == 2) {
        rival = FFABS(earlier->time[1] - later->time[0]);
        if (rival < distance && (later->n < 2 || FFABS(earlier->time[1] - later->time[1]) >= rival))
            return earlier == d ? SKIP_DISTORTED : SKIP_REFERENCE;
    }
    return PAIR;
}

/* Takes down times and numbers of the frames that are paired now. */
static void note_pair(VmafGpuContext *s)
{
    int64_t offset = s->input[REFERENCE].time[0] - s->input[DISTORTED].time[0];

    s->min_offset = FFMIN(s->min_offset, offset);
    s->max_offset = FFMAX(s->max_offset, offset);
    for (int side = DISTORTED; side <= REFERENCE; side++) {
        Input *in = &s->input[side];

        for (int i = s->n_pairs > 0; i < 2; i++) {
            in->pair_number[i] = in->n_frames - in->n;
            in->pair_time[i] = in->time[0];
        }
    }
}

/* Everything is paired: what is left goes out, then the end. */
static int end_output(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    Input *d = &s->input[DISTORTED];
    int ret;

    for (int side = DISTORTED; side <= REFERENCE; side++) {
        Input *in = &s->input[side];

        in->cut = !in->eof && s->shortest != 1;
        while (in->n) {
            AVFrame *frame;

            if (s->shortest == 1) /* frames beyond the shorter input are not wanted */
                in->n_frames--;
            else
                count_alone(s, side, in->time[0]);
            frame = pop_frame(in);
            av_frame_free(&frame);
        }
    }
    if ((ret = flush_scorer(s)) < 0 || (ret = send_held(ctx, MAX_HELD)) < 0)
        return ret;
    ret = finish(ctx, 1);
    for (int side = DISTORTED; side <= REFERENCE; side++)
        ff_inlink_set_status(ctx->inputs[side], AVERROR_EOF);
    if (ret < 0)
        return ret;
    ff_outlink_set_status(ctx->outputs[0], d->eof ? d->status : AVERROR_EOF, d->eof ? d->status_pts : AV_NOPTS_VALUE);
    return 0;
}

static int activate_own(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    Input *d = &s->input[DISTORTED], *r = &s->input[REFERENCE];
    int want = s->pairing == PAIR_NEAREST ? 2 : 1;
    int64_t seen = d->n_frames + r->n_frames;
    AVFrame *frame, *copy;
    enum Move move;
    int ret;

    if (s->finished)
        return FFERROR_NOT_READY;

    do {
        if ((ret = take_frames(ctx, DISTORTED, want)) < 0 || (ret = take_frames(ctx, REFERENCE, want)) < 0)
            return ret;

        switch (move = next_move(s)) {
        case PAIR:
            note_pair(s);
            if (s->n_pairs == N_STEPS)
                check_rates(ctx);
            frame = pop_frame(d);
            copy = av_frame_clone(frame);
            if ((ret = submit_pair(ctx, copy, pop_frame(r))) < 0) {
                av_frame_free(&frame);
                return ret;
            }
            ret = pass_on(ctx, frame, s->n_pairs - 1);
            break;
        case SKIP_DISTORTED:
            count_alone(s, DISTORTED, d->time[0]);
            if (!r->n && r->eof && (ret = flush_scorer(s)) < 0) /* no pair can follow */
                return ret;
            ret = pass_on(ctx, pop_frame(d), -1);
            break;
        case SKIP_REFERENCE:
            count_alone(s, REFERENCE, r->time[0]);
            s->tail += d->eof && !d->n;
            frame = pop_frame(r);
            av_frame_free(&frame);
            break;
        case END:
            return end_output(ctx);
        case WAIT:
            break;
        }
        if (ret < 0)
            return ret;
    } while (move != WAIT && !s->sent);

    if (move == WAIT && ff_outlink_frame_wanted(ctx->outputs[0])) {
        int look_ahead = d->n && r->n; /* only then is the frame after the first of interest */

        for (int side = DISTORTED; side <= REFERENCE; side++)
            if (s->input[side].n < 1 + look_ahead && !s->input[side].eof)
                ff_inlink_request_frame(ctx->inputs[side]);
    }
    /* There may be more to do; and FFmpeg 5.1 waits for ever if a frame is taken and none sent without this. */
    if (move != WAIT || (!s->sent && seen != d->n_frames + r->n_frames))
        ff_filter_set_ready(ctx, 100);
    return 0;
}

/* pair=framesync: called with a distorted frame and the reference frame that FFmpeg's framesync has found for it. */
static int score_synchronised(FFFrameSync *fs)
{
    AVFilterContext *ctx = fs->parent;
    VmafGpuContext *s = ctx->priv;
    AVFrame *distorted, *reference;
    int64_t index = -1;
    int ret;

    if ((ret = ff_framesync_dualinput_get(fs, &distorted, &reference)) < 0)
        return ret;

    s->input[DISTORTED].n_frames++;
    if (reference) {
        for (int side = DISTORTED; side <= REFERENCE; side++) {
            s->input[side].n_again += s->n_pairs && s->input[side].sync_pts == fs->in[side].pts;
            s->input[side].sync_pts = fs->in[side].pts;
        }
        ret = submit_pair(ctx, av_frame_clone(distorted), av_frame_clone(reference));
        index = s->n_pairs - 1;
    } else {
        count_alone(s, DISTORTED, av_rescale_q(fs->pts, fs->time_base, (AVRational){ 1, NS_PER_SECOND }));
    }
    if (ret < 0) {
        av_frame_free(&distorted);
        return ret;
    }
    return pass_on(ctx, distorted, index);
}

static int activate_framesync(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    int64_t seen = s->input[DISTORTED].n_frames;
    int ret = ff_framesync_activate(&s->fs);

    if (ret < 0)
        return ret;
    /* framesync has set the output's status already; frames that are queued before it is noticed still count. */
    if (s->fs.eof && !s->finished) {
        if ((ret = flush_scorer(s)) < 0 || (ret = send_held(ctx, MAX_HELD)) < 0)
            return ret;
        return finish(ctx, 1);
    }
    if (!s->sent && seen != s->input[DISTORTED].n_frames)
        ff_filter_set_ready(ctx, 100);
    return 0;
}

static int activate(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    AVFilterLink *outlink = ctx->outputs[0];
    int ret;

    s->sent = 0;
    if (ff_outlink_get_status(outlink)) {
        s->closed = 1;
        if ((ret = finish(ctx, 0)) < 0)
            return ret;
    }
    FF_FILTER_FORWARD_STATUS_BACK_ALL(outlink, ctx);

    if ((ret = vg_scorer_collect(s->scorer, VG_WAIT_NONE)) >= 0 && (ret = send_held(ctx, 0)) >= 0)
        ret = s->pairing == PAIR_FRAMESYNC ? activate_framesync(ctx) : activate_own(ctx);
    if (ret < 0 && ret != FFERROR_NOT_READY)
        s->failed = 1;
    return ret;
}

static av_cold void uninit(AVFilterContext *ctx)
{
    VmafGpuContext *s = ctx->priv;
    Input *d = &s->input[DISTORTED], *r = &s->input[REFERENCE];

    /* No end was seen: the run was interrupted, or the graph is made anew. Frames that wait have their partners here. */
    if (s->scorer && !s->finished && !s->failed && !s->closed && !s->flushed && s->pairing != PAIR_FRAMESYNC) {
        d->eof = r->eof = 1;
        while (d->n && r->n && !s->failed) {
            AVFrame *frame;

            switch (next_move(s)) {
            case SKIP_DISTORTED:
                count_alone(s, DISTORTED, d->time[0]);
                frame = pop_frame(d);
                av_frame_free(&frame);
                break;
            case SKIP_REFERENCE:
                count_alone(s, REFERENCE, r->time[0]);
                frame = pop_frame(r);
                av_frame_free(&frame);
                break;
            default:
                note_pair(s);
                frame = pop_frame(d);
                s->failed = submit_pair(ctx, frame, pop_frame(r)) < 0;
            }
        }
    }
    finish(ctx, 0);

    for (int side = DISTORTED; side <= REFERENCE; side++)
        while (s->input[side].n) {
            AVFrame *frame = pop_frame(&s->input[side]);
            av_frame_free(&frame);
        }
    for (; s->n_held; s->n_held--) {
        av_frame_free(&s->held[s->first_held].frame);
        s->first_held = (s->first_held + 1) % MAX_HELD;
    }
    vg_scorer_free(&s->scorer);
    for (int side = DISTORTED; side <= REFERENCE; side++)
        av_buffer_unref(&s->input[side].hw_frames);
    ff_framesync_uninit(&s->fs);
}

/* ---- Definition ------------------------------------------------------------------------------------------------- */

static const AVFilterPad vmaf_gpu_inputs[] = {
    { .name = "distorted", .type = AVMEDIA_TYPE_VIDEO },
    { .name = "reference", .type = AVMEDIA_TYPE_VIDEO },
};

static const AVFilterPad vmaf_gpu_outputs[] = {
    { .name = "default", .type = AVMEDIA_TYPE_VIDEO, .config_props = config_output },
};

VG_FILTER ff_vf_vmaf_gpu = {
    VG_PUB(name) = "vmaf_gpu",
    VG_PUB(description) =
        NULL_IF_CONFIG_SMALL("Score a distorted video against its reference: PSNR, SSIM, motion, CAMBI, SpEED."),
    VG_PUB(priv_class) = &vmaf_gpu_class,
    VG_PUB(flags) = AVFILTER_FLAG_METADATA_ONLY | AVFILTER_FLAG_HWDEVICE,
    .flags_internal = FF_FILTER_FLAG_HWFRAME_AWARE,
    .preinit = preinit,
    .init = init,
    .uninit = uninit,
    .activate = activate,
    .priv_size = sizeof(VmafGpuContext),
    FILTER_INPUTS(vmaf_gpu_inputs),
    FILTER_OUTPUTS(vmaf_gpu_outputs),
    FILTER_QUERY_FUNC(query_formats),
};
