/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Times every metric's kernels on frames that are in device memory: see usage(), below.
 *
 * A frame's time is taken by device events around many frames, which rotate through more memory than caches hold. The
 * frames' launches are recorded once and replayed, so that the device and not the host sets the pace; --direct launches
 * each kernel as the library does. Before the first event the same work is put in front, so that the device is busy and
 * the clock does not run while the host enqueues.
 *
 * Bytes are those that a metric must read: each plane that it looks at, once. A copy that moves as many bytes, half of
 * them read and half written, is timed in the same way and the same run; "copy" is its time over the metric's: 1.00
 * would be a metric that takes no longer than such a copy.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/device.h"
#include "engine/features.h"
#include "kernels/kernel_host.h"
#include "shared_math/motion.h"
#include "shared_math/psnr.h"
#include "shared_math/speed.h"

enum {
    PITCH_ALIGNMENT = 512, /* of rows, as FFmpeg lays frames out on devices */
    MOST_PAIRS = 4096,     /* in turn */
    LEAST_PAIRS = 8,
    MADE_PAIRS = 8, /* of different content; the others are copies */
    MOST_PASSES = 8,
    MOST_LISTED = 32,
    LEAST_FRAMES = 32, /* between two events */
    WARM_UP_MS = 100,
    MOST_LANES = 4
};

static void usage(FILE *to)
{
    fputs("usage: bench_gpu [OPTION]...\n"
          "Times metrics on pairs of frames in device memory.\n"
          "  --size WxH          may be given again (576x324 1280x720 1920x1080 3840x2160 7680x4320)\n"
          "  --depth 8|10|12|16  may be given again (8)\n"
          "  --layout NAME       semiplanar (NV12, P010 and the like) or planar (semiplanar)\n"
          "  --feature FEATURE   as the filter's option; several joined by '|' are timed together; may be given again\n"
          "  --content NAME      natural (moving shapes and texture, with errors as of a coder), banded (the same "
          "without\n"
          "                      texture over two thirds of the picture, in steps of 8 bits), blocks (of 4x4 samples,\n"
          "                      each of one value) or noise (natural)\n"
          "  --yuv DIST REF      raw planar 4:2:0 files of the only size and depth given, instead of --content\n"
          "  --history NAME      where earlier frames are: cold (not in caches) or warm (the frame before) "
          "(cold)\n"
          "  --memory MB         frames in turn (512)\n"
          "  --runs N            of which the median is shown (15)\n"
          "  --lanes N           streams that frames take turns in, as the library does with frames in flight; the "
          "time is\n"
          "                      then of a frame among others, not of a frame alone (1)\n"
          "  --direct            launch every kernel from the host instead of replaying a recording\n"
          "  --backend NAME      cuda or hip (cuda)\n"
          "  --device WHICH      index or PCI id (0)\n"
          "  --tsv               tab-separated values\n",
          to);
}

typedef struct Settings {
    struct {
        uint32_t width, height;
    } sizes[MOST_LISTED];
    unsigned n_sizes;
    uint32_t depths[MOST_LISTED];
    unsigned n_depths;
    const char *features[MOST_LISTED];
    unsigned n_features;
    int planar, warm_history, direct, tsv, hip;
    unsigned content;            /* index into contents[] */
    const char *yuv[VG_N_SIDES]; /* by VgSide */
    const char *which;
    size_t memory;
    unsigned runs, lanes;
} Settings;

static const char *const default_features[] = {
    "psnr",
    "psnr:enable_chroma=false",
    "motion",
    "motion:motion_five_frame_window=true",
    "float_ssim",
    "float_ssim:enable_lcs=true",
    "float_ssim:scale=1",
    "float_ssim:scale=1:enable_lcs=true",
    "float_ssim:scale=2",
    "psnr|float_ssim|motion",
    "cambi",
    "cambi:cambi_high_res_speedup=1080:cambi_vis_lum_threshold=0.06:cambi_max_val=17",
    "speed_chroma",
    "speed_temporal",
};

static const uint32_t default_sizes[][2] = {
    { 576, 324 }, { 1280, 720 }, { 1920, 1080 }, { 3840, 2160 }, { 7680, 4320 },
};

/** A device at work. Errors end the program: it owns nothing that outlives it. */
typedef struct Bench {
    const VgDeviceTable *table;
    VgDevice *device;
    VgLog log;
    VgModule module;
    VgStream stream;            /* what is timed begins and ends here */
    VgStream lanes[MOST_LANES]; /* that frames take turns in: the first is `stream` */
    VgEvent fork, join[MOST_LANES];
    unsigned lane; /* of the frame that is being enqueued */
    VgEvent start, end;
    struct {
        const char *name;
        VgFunction function;
        uint32_t dynamic_shared;
    } functions[64];
    unsigned n_functions;
    const Settings *settings;
} Bench;

/** One frame of a side: in a common block of memory. */
typedef struct Layout {
    VgGeometry geometry;
    size_t offset[3];
    int64_t pitch[3];
    int32_t width[3], height[3];
    int32_t step[3];
    int32_t bytes, shift; /* of a sample */
    size_t size;          /* of a frame, a multiple of 512 */
} Layout;

typedef struct Frames {
    Layout layout;
    uint64_t memory; /* [n_pairs][VG_N_SIDES] frames */
    uint64_t target; /* of copies, as large */
    unsigned n_pairs;
} Frames;

typedef struct Pass {
    const VgMetric *metric;
    uint8_t params[256];
    uint64_t work[MOST_LANES], record[MOST_LANES];
    size_t bytes; /* that must be read for a frame */
} Pass;

/** What is done for a frame: passes, or a copy of `copy` bytes. */
typedef struct Work {
    Pass passes[MOST_PASSES];
    unsigned n_passes;
    size_t bytes, copy;
} Work;

static void print_message(void *opaque, VgLogLevel level, const char *message)
{
    (void)opaque;
    if (level <= VG_LOG_WARNING)
        fprintf(stderr, "%s\n", message);
}

/* Ends the program if a call failed. */
static void check(const Bench *b, int err, const char *doing)
{
    if (!err)
        return;
    vg_device_report(b->device, &b->log, err, "%s", doing);
    exit(1);
}

static void require(int condition, const char *message)
{
    if (condition)
        return;
    fprintf(stderr, "bench_gpu: %s\n", message);
    exit(2);
}

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

/* Looks a kernel up when it is first launched, which is before anything is timed or recorded. */
static VgFunction function_of(Bench *b, const char *kernel, uint32_t dynamic_shared)
{
    unsigned i = 0;

    while (i < b->n_functions && strcmp(b->functions[i].name, kernel))
        i++;
    if (i == b->n_functions || b->functions[i].dynamic_shared < dynamic_shared) {
        require(i < sizeof(b->functions) / sizeof(b->functions[0]), "too many kernels");
        check(b, b->table->function(b->device, b->module, kernel, dynamic_shared, &b->functions[i].function), kernel);
        b->functions[i].name = kernel;
        b->functions[i].dynamic_shared = dynamic_shared;
        b->n_functions += i == b->n_functions;
    }
    return b->functions[i].function;
}

static int launch(void *context, const char *kernel, const uint32_t grid[3], uint32_t block, uint32_t dynamic_shared,
                  const void *args, size_t args_size)
{
    Bench *b = context;
    const VgFunction function = function_of(b, kernel, dynamic_shared);
    return b->table->launch(b->device, function, grid, block, dynamic_shared, args, args_size, b->lanes[b->lane]);
}

static int fill(void *context, uint64_t address, uint8_t value, size_t size)
{
    Bench *b = context;
    return b->table->fill(b->device, address, value, size, b->lanes[b->lane]);
}

static void bench_open(Bench *b, const Settings *settings)
{
    const VgDeviceChoice choice = { .which = settings->which };

    *b = (Bench){ .table = vg_device_table(settings->hip ? VG_BACKEND_HIP : VG_BACKEND_CUDA),
                  .log = { print_message, NULL },
                  .settings = settings };
    require(b->table != NULL, "this build has no such back end: see --backend");
    if (b->table->open(&b->device, &choice, &b->log))
        exit(1);
    check(b, b->table->enter(b->device), "entering the device");
    check(b, b->table->module_load(b->device, &b->log, &b->module), "loading the kernels");
    for (unsigned l = 0; l < settings->lanes; l++) {
        check(b, b->table->stream_create(b->device, &b->lanes[l]), "making a stream");
        check(b, b->table->event_create(b->device, 0, &b->join[l]), "making an event");
    }
    b->stream = b->lanes[0];
    check(b, b->table->event_create(b->device, 0, &b->fork), "making an event");
    check(b, b->table->event_create(b->device, 1, &b->start), "making an event");
    check(b, b->table->event_create(b->device, 1, &b->end), "making an event");
}

static void bench_close(Bench *b)
{
    b->table->event_destroy(b->device, b->end);
    b->table->event_destroy(b->device, b->start);
    b->table->event_destroy(b->device, b->fork);
    for (unsigned l = 0; l < b->settings->lanes; l++) {
        b->table->event_destroy(b->device, b->join[l]);
        b->table->stream_destroy(b->device, b->lanes[l]);
    }
    b->table->module_unload(b->device, b->module);
    b->table->leave(b->device);
    b->table->close(&b->device);
}

static void synchronize(const Bench *b)
{
    check(b, b->table->stream_synchronize(b->device, b->stream), "waiting for the device");
}

static uint64_t allocate(const Bench *b, size_t size)
{
    uint64_t address;
    check(b, b->table->alloc(b->device, size, &address), "reserving device memory");
    return address;
}

/* ---- Frames ------------------------------------------------------------------------------------------------------ */

static size_t align(size_t n, size_t alignment)
{
    return (n + alignment - 1) / alignment * alignment;
}

static Layout layout_of(const Settings *settings, uint32_t width, uint32_t height, uint32_t depth)
{
    Layout l = { .geometry = { width, height, VG_CHROMA_420, depth }, .bytes = depth > 8 ? 2 : 1 };

    l.shift = l.bytes == 2 && !settings->planar ? 16 - (int32_t)depth : 0;
    for (int c = 0; c < 3; c++) {
        const int32_t per_step = c && !settings->planar ? 2 : 1;
        l.width[c] = (int32_t)(c ? (width + 1) / 2 : width);
        l.height[c] = (int32_t)(c ? (height + 1) / 2 : height);
        l.step[c] = per_step * l.bytes;
        l.pitch[c] = (int64_t)align((size_t)(l.width[c] * l.step[c]), PITCH_ALIGNMENT);
        l.offset[c] = l.size;
        if (c == 2 && !settings->planar)
            l.offset[c] = l.offset[1] + (size_t)l.bytes;
        else
            l.size += (size_t)l.pitch[c] * (size_t)l.height[c];
    }
    return l;
}

static uint64_t frame_address(const Frames *f, unsigned pair, VgSide side)
{
    return f->memory + ((uint64_t)pair * VG_N_SIDES + (unsigned)side) * f->layout.size;
}

static void planes_of(const Frames *f, unsigned pair, VgSide side, VgDevicePlane planes[3])
{
    const Layout *l = &f->layout;

    for (int c = 0; c < 3; c++) {
        uint32_t width, height;
        vg_plane_size(&l->geometry, c, &width, &height);
        planes[c] = (VgDevicePlane){
            .address = frame_address(f, pair, side) + l->offset[c],
            .pitch = l->pitch[c],
            .width = (int32_t)width,
            .height = (int32_t)height,
            .step = l->step[c],
            .sample_bytes = l->bytes,
            .shift = l->shift,
        };
    }
}

/* Frame number `pair` of the rotation. The earlier ones of a cold history were last read half a rotation ago. */
static VgDeviceFrame frame_of(const Bench *b, const Frames *f, unsigned pair)
{
    VgDeviceFrame frame = { .index = VG_MAX_LAG };

    for (unsigned k = 0; k <= VG_MAX_LAG; k++) {
        const unsigned back = k == 0 || b->settings->warm_history ? k : f->n_pairs / 2 + k - 1;
        const unsigned earlier = (pair + f->n_pairs - back) % f->n_pairs;
        planes_of(f, earlier, VG_REF, frame.ref[k]);
        planes_of(f, earlier, VG_DIST, frame.dist[k]);
    }
    return frame;
}

static uint32_t hash(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352d;
    x = (x ^ x >> 15) * 0x846ca68b;
    return x ^ x >> 16;
}

/* 0 to 65535 and back over a period of 2^17. */
static uint32_t wave(uint32_t x)
{
    return (x & 65536 ? ~x : x) & 65535;
}

/*
 * Samples of 16 bits: shapes that move, and texture that moves with them. The distorted side is coarser, and off by what
 * differs from block to block.
 */
static uint32_t natural(uint32_t x, uint32_t y, uint32_t t, int c, int dist)
{
    const uint32_t u = x + 3 * t, v = y + t;
    const uint32_t shapes = wave(u * 331 + (uint32_t)c * 40000) / 2 + wave(v * 277 + u * 91) / 4;
    const uint32_t texture = hash(u / 2 * 65537 + v / 2) >> (c ? 22 : 20) & 4095;
    uint32_t value = 4096 + shapes + texture;

    if (dist) {
        const uint32_t block = hash((x / 8) * 8191 + (y / 8) * 131 + t);
        value = value / 1024 * 1024 + 256 + block % 1024 + hash(x * 9973 + y * 389 + t) % 256;
    }
    return value < 65535 ? value : 65535;
}

static void put_sample(const Layout *l, uint8_t *frame, int c, uint32_t x, uint32_t y, uint32_t value)
{
    uint8_t *at = frame + l->offset[c] + (size_t)y * (size_t)l->pitch[c] + (size_t)x * (size_t)l->step[c];

    if (l->bytes == 1) {
        *at = (uint8_t)value;
    } else {
        const uint16_t word = (uint16_t)(value << l->shift);
        memcpy(at, &word, sizeof(word));
    }
}

/* Slow gradients in steps of 8 bits, and natural content in one of three squares. */
static uint32_t banded(uint32_t x, uint32_t y, uint32_t t, int c, int dist)
{
    const uint32_t u = x + 3 * t, v = y + t;

    if (hash(u / 256 * 8191 + v / 256) % 3 == 0)
        return natural(x, y, t, c, dist);
    return (8192 + wave(u * 29 + (uint32_t)c * 40000) / 2 + wave(v * 37 + u * 7) / 4) & 0xff00;
}

static uint32_t blocks(uint32_t x, uint32_t y, uint32_t t, int c, int dist)
{
    return hash(((t * 2 + (uint32_t)dist) * 3 + (uint32_t)c) * 0x9e3779b9 + y / 4 * 65536 + x / 4) & 65535;
}

static uint32_t noise(uint32_t x, uint32_t y, uint32_t t, int c, int dist)
{
    return hash(((t * 2 + (uint32_t)dist) * 3 + (uint32_t)c) * 0x9e3779b9 + y * 65536 + x) & 65535;
}

static const struct Content {
    const char *name;
    uint32_t (*sample)(uint32_t x, uint32_t y, uint32_t t, int c, int dist); /* of 16 bits */
} contents[] = { { "natural", natural }, { "banded", banded }, { "blocks", blocks }, { "noise", noise }, { 0 } };

static void make_frame(const Layout *l, uint8_t *frame, unsigned t, VgSide side, const struct Content *content)
{
    const int reduce = 16 - (int)l->geometry.bit_depth;

    for (int c = 0; c < 3; c++)
        for (uint32_t y = 0; y < (uint32_t)l->height[c]; y++)
            for (uint32_t x = 0; x < (uint32_t)l->width[c]; x++)
                put_sample(l, frame, c, x, y, content->sample(x, y, t, c, side == VG_DIST) >> reduce);
}

/* The next frame of a raw file; after the last one the first. */
static void read_frame(const Layout *l, uint8_t *frame, FILE *file, const char *path)
{
    const uint32_t most = (1u << l->geometry.bit_depth) - 1;

    for (int c = 0; c < 3; c++)
        for (uint32_t y = 0; y < (uint32_t)l->height[c]; y++) {
            uint8_t row[2 * VG_MAX_SIDE];
            const size_t size = (size_t)l->width[c] * (size_t)l->bytes;
            if (fread(row, 1, size, file) != size) {
                const int first = c == 0 && y == 0 && ftell(file) > 0;
                if (!first || fseek(file, 0, SEEK_SET) || fread(row, 1, size, file) != size) {
                    fprintf(stderr, "bench_gpu: %s: no whole frame of this size and depth\n", path);
                    exit(2);
                }
            }
            for (uint32_t x = 0; x < (uint32_t)l->width[c]; x++) {
                const uint32_t value = l->bytes == 1 ? row[x] : row[2 * x] | (uint32_t)row[2 * x + 1] << 8;
                put_sample(l, frame, c, x, y, value < most ? value : most);
            }
        }
}

static void copy_row(const Bench *b, int kind, uint64_t to, uint64_t from, size_t size)
{
    const VgCopy copy = { .kind = kind, .to = to, .from = from, .width = size, .rows = 1 };
    check(b, b->table->copy(b->device, &copy, b->stream), "copying");
}

static void frames_make(const Bench *b, Frames *f, const Layout *layout)
{
    const size_t pair = VG_N_SIDES * layout->size;
    size_t n = (b->settings->memory + pair - 1) / pair;
    FILE *files[VG_N_SIDES] = { NULL };
    void *host;

    n = n < LEAST_PAIRS ? LEAST_PAIRS : n > MOST_PAIRS ? MOST_PAIRS : n;
    *f = (Frames){ .layout = *layout, .n_pairs = (unsigned)n };
    f->memory = allocate(b, n * pair);
    f->target = allocate(b, n * pair);
    check(b, b->table->fill(b->device, f->target, 1, n * pair, b->stream), "filling");
    check(b, b->table->alloc_host(b->device, layout->size, &host), "reserving pinned memory");
    memset(host, 0, layout->size);
    for (unsigned side = 0; side < VG_N_SIDES; side++) {
        if (b->settings->yuv[side]) {
            files[side] = fopen(b->settings->yuv[side], "rb");
            if (!files[side]) {
                perror(b->settings->yuv[side]);
                exit(2);
            }
        }
        for (unsigned p = 0; p < MADE_PAIRS; p++) {
            if (files[side])
                read_frame(layout, host, files[side], b->settings->yuv[side]);
            else
                make_frame(layout, host, p, (VgSide)side, &contents[b->settings->content]);
            copy_row(b, VG_COPY_TO_DEVICE, frame_address(f, p, (VgSide)side), (uintptr_t)host, layout->size);
            synchronize(b);
        }
        if (files[side])
            fclose(files[side]);
    }
    for (unsigned p = MADE_PAIRS; p < f->n_pairs; p++)
        copy_row(b, VG_COPY_ON_DEVICE, frame_address(f, p, VG_REF), frame_address(f, p % MADE_PAIRS, VG_REF), pair);
    synchronize(b);
    b->table->free_host(b->device, host);
}

static void frames_free(const Bench *b, Frames *f)
{
    b->table->free(b->device, f->memory);
    b->table->free(b->device, f->target);
}

/* ---- Work -------------------------------------------------------------------------------------------------------- */

/* Of SpEED's planes: rows of the low pass's windows, whole. */
static size_t bytes_read_by_speed(const VgSpeedParams *p, const Layout *l)
{
    const size_t rows = (size_t)(vg_speed_decimated(p->scaled_height) * p->n_taps);
    const int some = p->method == VG_SPEED_PLAIN && p->n_taps < VG_SPEED_STEP;
    const size_t plane = (size_t)p->width * (some ? rows : (size_t)p->height) * (size_t)l->bytes;

    if (!p->temporal)
        return VG_N_SIDES * VG_SPEED_MOST_PLANES * plane;
    return (p->use_ref_diff ? 3 : 4) * plane; /* the frames before, and the current ones */
}

/* Bytes of the planes that a pass looks at, each counted once. */
static size_t bytes_read(const VgMetric *metric, const void *params, const Layout *l)
{
    const size_t luma = (size_t)l->geometry.width * l->geometry.height * (size_t)l->bytes;
    size_t n = 0;

    if (metric == &vg_metric_psnr) {
        const VgPsnrParams *p = params;
        for (int c = 0; c < 3; c++)
            n += VG_N_SIDES * (size_t)p->width[c] * (size_t)p->height[c] * (size_t)l->bytes;
        return n;
    }
    if (metric == &vg_metric_motion) {
        const VgMotionParams *p = params;
        n = (size_t)__builtin_popcount((unsigned)p->lags);
        return n ? luma * (1 + n) : 0;
    }
    if (metric == &vg_metric_speed_chroma || metric == &vg_metric_speed_temporal)
        return bytes_read_by_speed(params, l);
    return VG_N_SIDES * luma;
}

/* Returns 0 if a metric cannot do this size or depth, with the reason in `why`. */
static int work_make(Bench *b, Work *w, const char *text, const Layout *l, char *why, size_t why_size)
{
    VgFeatureList list;
    int done = 1;

    *w = (Work){ 0 };
    if (vg_features_parse(&b->log, text, &list))
        exit(2);
    require(list.n <= MOST_PASSES, "too many features at once");
    for (unsigned i = 0; i < list.n && done; i++) {
        const VgFeature *feature = &list.features[i];
        const VgMetric *metric = feature->metric;
        Pass *pass = &w->passes[w->n_passes];
        require(metric->device != NULL, "a metric that has no kernels");
        require(metric->params_size <= sizeof(pass->params), "params too large");
        if (metric->check(&l->geometry, feature->options, why, why_size)) {
            done = 0;
            break;
        }
        pass->metric = metric;
        metric->make_params(&l->geometry, feature->options, pass->params);
        if (metric->device->check && metric->device->check(pass->params, why, why_size)) {
            done = 0;
            break;
        }
        const VgLauncher launcher = { b, launch, fill };
        const size_t size = metric->device->work_size(pass->params);
        for (b->lane = 0; b->lane < b->settings->lanes; b->lane++) {
            pass->work[b->lane] = size ? allocate(b, size) : 0;
            pass->record[b->lane] = allocate(b, vg_record_size(metric, pass->params));
            check(b, metric->device->plan(pass->params, &launcher, pass->work[b->lane]), "preparing a metric");
        }
        b->lane = 0;
        pass->bytes = bytes_read(metric, pass->params, l);
        w->bytes += pass->bytes;
        w->n_passes++;
    }
    vg_features_free(&list);
    return done;
}

static void work_free(const Bench *b, Work *w)
{
    for (unsigned i = 0; i < w->n_passes; i++)
        for (unsigned l = 0; l < b->settings->lanes; l++) {
            if (w->passes[i].work[l])
                b->table->free(b->device, w->passes[i].work[l]);
            b->table->free(b->device, w->passes[i].record[l]);
        }
    *w = (Work){ 0 };
}

/* The lanes begin together and end together. */
static void fork_lanes(Bench *b)
{
    check(b, b->table->record(b->device, b->fork, b->stream), "recording an event");
    for (unsigned l = 1; l < b->settings->lanes; l++)
        check(b, b->table->stream_wait(b->device, b->lanes[l], b->fork), "waiting for an event");
}

static void join_lanes(Bench *b)
{
    for (unsigned l = 1; l < b->settings->lanes; l++) {
        check(b, b->table->record(b->device, b->join[l], b->lanes[l]), "recording an event");
        check(b, b->table->stream_wait(b->device, b->stream, b->join[l]), "waiting for an event");
    }
    b->lane = 0;
}

/* Every pair of frames once. */
static void enqueue_rotation(Bench *b, const Work *w, const Frames *f)
{
    const VgLauncher launcher = { b, launch, fill };
    const size_t all = f->n_pairs * VG_N_SIDES * f->layout.size;
    size_t at = 0;

    fork_lanes(b);
    for (unsigned p = 0; p < f->n_pairs; p++) {
        b->lane = p % b->settings->lanes;
        if (w->copy) {
            copy_row(b, VG_COPY_ON_DEVICE, f->target + at, f->memory + at, w->copy);
            at += align(w->copy, PITCH_ALIGNMENT);
            if (at + w->copy > all)
                at = 0;
            continue;
        }
        const VgDeviceFrame frame = frame_of(b, f, p);
        for (unsigned i = 0; i < w->n_passes; i++) {
            const Pass *pass = &w->passes[i];
            check(b,
                  pass->metric->device->enqueue(pass->params, &launcher, &frame, pass->work[b->lane],
                                                pass->record[b->lane]),
                  pass->metric->info.name);
        }
    }
    join_lanes(b);
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

typedef struct Time {
    double median, least, most; /* microseconds a frame */
} Time;

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void rotate(Bench *b, const Work *w, const Frames *f, VgGraph graph)
{
    if (graph)
        check(b, b->table->graph_launch(b->device, graph, b->stream), "replaying");
    else
        enqueue_rotation(b, w, f);
}

static Time time_work(Bench *b, const Work *w, const Frames *f)
{
    const unsigned repeats = (LEAST_FRAMES + f->n_pairs - 1) / f->n_pairs;
    const unsigned runs = b->settings->runs;
    float *times = malloc(runs * sizeof(*times));
    VgGraph graph = NULL;

    require(times != NULL, "out of memory");
    enqueue_rotation(b, w, f);
    synchronize(b);
    if (!b->settings->direct) {
        check(b, b->table->capture_begin(b->device, b->stream), "recording");
        enqueue_rotation(b, w, f);
        check(b, b->table->capture_end(b->device, b->stream, &graph), "recording");
    }
    const double begin = now_ms();
    do {
        rotate(b, w, f, graph);
        synchronize(b);
    } while (now_ms() - begin < WARM_UP_MS);
    for (unsigned r = 0; r < runs; r++) {
        rotate(b, w, f, graph); /* the device is busy while the host enqueues what is timed */
        check(b, b->table->record(b->device, b->start, b->stream), "recording an event");
        for (unsigned i = 0; i < repeats; i++)
            rotate(b, w, f, graph);
        check(b, b->table->record(b->device, b->end, b->stream), "recording an event");
        check(b, b->table->event_synchronize(b->device, b->end), "waiting for the device");
        check(b, b->table->event_elapsed(b->device, b->start, b->end, &times[r]), "reading events");
    }
    if (graph)
        b->table->graph_destroy(b->device, graph);
    qsort(times, runs, sizeof(times[0]), by_value);
    const double unit = 1000.0 / repeats / f->n_pairs;
    const Time time = { (times[(runs - 1) / 2] + times[runs / 2]) / 2.0 * unit, times[0] * unit,
                        times[runs - 1] * unit };
    free(times);
    return time;
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

static void print_head(const Bench *b)
{
    const Settings *s = b->settings;

    if (s->tsv) {
        printf("device\tsize\tdepth\tlayout\tcontent\thistory\tlaunches\tlanes\tfeature\tmicroseconds\tleast\tmost\tbyt"
               "es\t"
               "gigabytes_per_second\tcopy_microseconds\tcopy_ratio\n");
        return;
    }
    printf("%s, driver's CUDA %u.%u\n", b->device->name, b->device->driver / 1000, b->device->driver % 1000 / 10);
    printf("Microseconds a frame pair by device events, median of %u runs; launches %s; history %s; lanes: %u.\n",
           s->runs, s->direct ? "from the host" : "replayed", s->warm_history ? "warm" : "cold", s->lanes);
    printf("Bytes are those that must be read; copy: time of a device copy that moves as many, over the metric's.\n");
}

static void print_row(const Bench *b, const Frames *f, const char *feature, const Work *w, Time t, Time copy)
{
    const Settings *s = b->settings;
    const VgGeometry *g = &f->layout.geometry;
    const double speed = (double)w->bytes / t.median * 1e-3;

    if (s->tsv)
        printf("%s\t%ux%u\t%u\t%s\t%s\t%s\t%s\t%u\t%s\t%.3f\t%.3f\t%.3f\t%zu\t%.1f\t%.3f\t%.4f\n", b->device->name,
               g->width, g->height, g->bit_depth, s->planar ? "planar" : "semiplanar",
               s->yuv[0] ? "yuv" : contents[s->content].name, s->warm_history ? "warm" : "cold",
               s->direct ? "host" : "replayed", s->lanes, feature, t.median, t.least, t.most, w->bytes, speed,
               copy.median, copy.median / t.median);
    else
        printf("%-38s %9.2f %9.2f %9.2f %12zu %8.1f %9.2f %6.2f\n", feature, t.median, t.least, t.most, w->bytes, speed,
               copy.median, copy.median / t.median);
    fflush(stdout);
}

static void bench_frames(Bench *b, const Layout *layout)
{
    const Settings *s = b->settings;
    Frames frames;

    frames_make(b, &frames, layout);
    if (!s->tsv) {
        printf("\n%ux%u, %u bits, %s, %s; %u pairs of frames in turn, %.0f MB\n", layout->geometry.width,
               layout->geometry.height, layout->geometry.bit_depth, s->planar ? "planar" : "semi-planar",
               s->yuv[0] ? s->yuv[VG_DIST] : contents[s->content].name, frames.n_pairs,
               (double)(frames.n_pairs * VG_N_SIDES * layout->size) * 1e-6);
        printf("%-38s %9s %9s %9s %12s %8s %9s %6s\n", "", "us", "least", "most", "bytes", "GB/s", "copy us", "copy");
    }
    for (unsigned i = 0; i < s->n_features; i++) {
        char why[400] = "";
        Work work, copy = { 0 };
        if (!work_make(b, &work, s->features[i], layout, why, sizeof(why))) {
            fprintf(stderr, "%s: left out: %s\n", s->features[i], why);
        } else {
            const size_t half = frames.n_pairs * VG_N_SIDES * layout->size;
            copy.copy = work.bytes / 2 < half ? work.bytes / 2 : half;
            const Time copied = time_work(b, &copy, &frames), time = time_work(b, &work, &frames);
            print_row(b, &frames, s->features[i], &work, time, copied);
        }
        work_free(b, &work);
    }
    frames_free(b, &frames);
}

/* ---- Command line ------------------------------------------------------------------------------------------------ */

static void parse_size(Settings *s, const char *text)
{
    char end;

    require(s->n_sizes < MOST_LISTED &&
                sscanf(text, "%ux%u%c", &s->sizes[s->n_sizes].width, &s->sizes[s->n_sizes].height, &end) == 2 &&
                s->sizes[s->n_sizes].width - 1 < VG_MAX_SIDE && s->sizes[s->n_sizes].height - 1 < VG_MAX_SIDE,
            "--size wants WIDTHxHEIGHT");
    s->n_sizes++;
}

static unsigned parse_number(const char *text, unsigned most, const char *message)
{
    char *end;
    const unsigned long n = strtoul(text, &end, 10);

    require(*text && !*end && n >= 1 && n <= most, message);
    return (unsigned)n;
}

/* 0 or 1: which of two words it is. */
static int parse_choice(const char *text, const char *zero, const char *one, const char *message)
{
    require(!strcmp(text, zero) || !strcmp(text, one), message);
    return !strcmp(text, one);
}

static void parse(Settings *s, int argc, char **argv)
{
    static const struct option options[] = {
        { "size", 1, NULL, 's' },    { "depth", 1, NULL, 'd' },   { "layout", 1, NULL, 'l' },
        { "feature", 1, NULL, 'f' }, { "content", 1, NULL, 'c' }, { "yuv", 1, NULL, 'y' },
        { "history", 1, NULL, 'h' }, { "memory", 1, NULL, 'm' },  { "runs", 1, NULL, 'r' },
        { "direct", 0, NULL, 'D' },  { "device", 1, NULL, 'v' },  { "tsv", 0, NULL, 't' },
        { "lanes", 1, NULL, 'n' },   { "backend", 1, NULL, 'b' }, { "help", 0, NULL, 'H' },
        { NULL, 0, NULL, 0 },
    };
    int c;

    *s = (Settings){ .memory = (size_t)512 << 20, .runs = 15, .lanes = 1 };
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 's':
            parse_size(s, optarg);
            break;
        case 'd':
            require(s->n_depths < MOST_LISTED, "too many depths");
            s->depths[s->n_depths] = parse_number(optarg, 16, "--depth wants 8 to 16");
            require(s->depths[s->n_depths++] >= 8, "--depth wants 8 to 16");
            break;
        case 'l':
            s->planar = parse_choice(optarg, "semiplanar", "planar", "--layout wants semiplanar or planar");
            break;
        case 'f':
            require(s->n_features < MOST_LISTED, "too many features");
            s->features[s->n_features++] = optarg;
            break;
        case 'c':
            s->content = 0;
            while (contents[s->content].name && strcmp(optarg, contents[s->content].name))
                s->content++;
            require(contents[s->content].name != NULL, "--content wants natural, banded, blocks or noise");
            break;
        case 'y':
            require(optind < argc, "--yuv wants two files");
            s->yuv[VG_DIST] = optarg;
            s->yuv[VG_REF] = argv[optind++];
            break;
        case 'h':
            s->warm_history = parse_choice(optarg, "cold", "warm", "--history wants cold or warm");
            break;
        case 'm':
            s->memory = (size_t)parse_number(optarg, 1 << 20, "--memory wants megabytes") << 20;
            break;
        case 'r':
            s->runs = parse_number(optarg, 10000, "--runs wants a number from 1 on");
            break;
        case 'n':
            s->lanes = parse_number(optarg, MOST_LANES, "--lanes wants 1 to 4");
            break;
        case 'b':
            s->hip = parse_choice(optarg, "cuda", "hip", "--backend wants cuda or hip");
            break;
        case 'D':
            s->direct = 1;
            break;
        case 'v':
            s->which = optarg;
            break;
        case 't':
            s->tsv = 1;
            break;
        default:
            usage(c == 'H' ? stdout : stderr);
            exit(c == 'H' ? 0 : 2);
        }
    if (optind < argc) {
        usage(stderr);
        exit(2);
    }
    require(!s->yuv[VG_REF] || (s->n_sizes == 1 && s->n_depths <= 1), "--yuv goes with one --size and one --depth");
}

static void take_defaults(Settings *s)
{
    if (!s->n_depths)
        s->depths[s->n_depths++] = 8;
    if (!s->n_sizes)
        for (; s->n_sizes < sizeof(default_sizes) / sizeof(default_sizes[0]); s->n_sizes++) {
            s->sizes[s->n_sizes].width = default_sizes[s->n_sizes][0];
            s->sizes[s->n_sizes].height = default_sizes[s->n_sizes][1];
        }
    if (!s->n_features)
        for (; s->n_features < sizeof(default_features) / sizeof(default_features[0]); s->n_features++)
            s->features[s->n_features] = default_features[s->n_features];
}

int main(int argc, char **argv)
{
    Settings settings;
    Bench bench;

    parse(&settings, argc, argv);
    take_defaults(&settings);
    bench_open(&bench, &settings);
    print_head(&bench);
    for (unsigned i = 0; i < settings.n_sizes; i++)
        for (unsigned d = 0; d < settings.n_depths; d++) {
            const Layout layout =
                layout_of(&settings, settings.sizes[i].width, settings.sizes[i].height, settings.depths[d]);
            bench_frames(&bench, &layout);
        }
    bench_close(&bench);
    return 0;
}
