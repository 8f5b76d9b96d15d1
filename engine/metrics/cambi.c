/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * cambi: options, keys and score rules. Definition: docs/numerics.md, cambi. In double, without fused operations; powers
 * are the host's.
 */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cpu_ref/metrics.h"
#include "engine/metric.h"
#include "engine/metrics/cambi_heatmaps.h"
#include "engine/metrics/order.h"
#include "kernels/kernel_host.h"
#include "shared_math/cambi.h"

/* One direction at least must have so many samples. */
#define LEAST_SIDE 216

/* Most pixels worked on: those of all scales together can be counted in 31 bits. */
#define MOST_PIXELS (1 << 30)

/* Codes of black and white. What is outside has their luminance. */
#define BLACK 64
#define WHITE 940

#define DEFAULT_TOPK 0.6
#define DEFAULT_EOTF "bt1886"

typedef struct CambiOptions {
    double max_val;
    int enc_width, enc_height, enc_bitdepth, src_width, src_height, window_size;
    double topk, cambi_topk, tvi_threshold, vis_lum_threshold;
    int max_log_contrast;
    char *heatmaps_path;
    int full_ref;
    char *eotf, *cambi_eotf;
    int high_res_speedup;
} CambiOptions;

#define IN_KEY    VG_OPTION_IN_KEY
#define FIELD(of) offsetof(CambiOptions, of)

/* Sizes and enc_bitdepth default to 0, which cannot be asked for: their ranges are libvmaf's, and leave it out. */
static const VgOption options[] = {
    { "cambi_max_val", "cmxv", VG_OPTION_DOUBLE, 1000, 0, 1000, NULL, FIELD(max_val), IN_KEY, "cap on every score" },
    { "enc_width", "encw", VG_OPTION_INT, 0, 180, 7680, NULL, FIELD(enc_width), IN_KEY,
      "width of the encode, to which the distorted picture is resampled if it has at least this size; 0: its own. Only "
      "together with enc_height" },
    { "enc_height", "ench", VG_OPTION_INT, 0, 150, 7680, NULL, FIELD(enc_height), IN_KEY,
      "height of the encode; only together with enc_width" },
    { "enc_bitdepth", "encbd", VG_OPTION_INT, 0, 6, 16, NULL, FIELD(enc_bitdepth), IN_KEY,
      "depth of the encode; 0: that of the pictures. Below 10, both pictures are smoothed as against dithering" },
    { "src_width", "srcw", VG_OPTION_INT, 0, 320, 7680, NULL, FIELD(src_width), IN_KEY,
      "width to which the reference is resampled; 0: its own. Only together with src_height" },
    { "src_height", "srch", VG_OPTION_INT, 0, 200, 4320, NULL, FIELD(src_height), IN_KEY,
      "height to which the reference is resampled; only together with src_width" },
    { "window_size", "ws", VG_OPTION_INT, 65, 15, 127, NULL, FIELD(window_size), IN_KEY,
      "side of the window at 3840x2160; it follows the size" },
    { "topk", "topk", VG_OPTION_DOUBLE, DEFAULT_TOPK, 0.0001, 1, NULL, FIELD(topk), IN_KEY,
      "share of the pixels, those with most banding, whose mean is the score; another value than 0.6 goes before "
      "cambi_topk" },
    { "cambi_topk", "ctpk", VG_OPTION_DOUBLE, DEFAULT_TOPK, 0.0001, 1, NULL, FIELD(cambi_topk), IN_KEY,
      "another name of topk" },
    { "tvi_threshold", "tvit", VG_OPTION_DOUBLE, 0.019, 0.0001, 1, NULL, FIELD(tvi_threshold), IN_KEY,
      "relative step of luminance that can be seen" },
    { "cambi_vis_lum_threshold", "vlt", VG_OPTION_DOUBLE, 0, 0, 300, NULL, FIELD(vis_lum_threshold), IN_KEY,
      "luminance in cd/m^2 below which banding does not count" },
    { "max_log_contrast", "mlc", VG_OPTION_INT, 2, 0, 5, NULL, FIELD(max_log_contrast), IN_KEY,
      "binary logarithm of the largest step between bands, in 10-bit levels" },
    { "heatmaps_path", NULL, VG_OPTION_STRING, 0, 0, 0, NULL, FIELD(heatmaps_path), VG_OPTION_OUTPUT,
      "folder, made if it is not there, for files that show where banding is seen in the distorted picture; those of "
      "earlier runs are overwritten. Names and samples: numerics.md" },
    { "full_ref", NULL, VG_OPTION_BOOL, 0, 0, 1, NULL, FIELD(full_ref), 0,
      "also score the reference, and what the distorted picture has more" },
    { "eotf", "eotf", VG_OPTION_STRING, 0, 0, 0, DEFAULT_EOTF, FIELD(eotf), IN_KEY,
      "how codes become light: bt1886 or pq" },
    { "cambi_eotf", "ceot", VG_OPTION_STRING, 0, 0, 0, DEFAULT_EOTF, FIELD(cambi_eotf), IN_KEY,
      "another name of eotf; another value than bt1886 goes before it" },
    { "cambi_high_res_speedup", "hrs", VG_OPTION_INT, 0, 0, 2160, NULL, FIELD(high_res_speedup), IN_KEY,
      "1080, 1440 or 2160: work on half the size from 1920x1080, 2560x1440 or 3840x2160 on; other values do nothing" },
    { 0 },
};

enum { KEY_CAMBI, KEY_SOURCE, KEY_FULL_REFERENCE };

static const VgKey keys[] = {
    { "Cambi_feature_cambi_score", "cambi", VG_PHASE_FRAME_0, 0, NULL, 0 },
    { "cambi_source", NULL, VG_PHASE_FRAME_0, 0, "full_ref", 1 },
    { "cambi_full_reference", NULL, VG_PHASE_FRAME_0, 0, "full_ref", 1 },
    { 0 },
};

static uint32_t active_keys(const VgGeometry *geometry, const void *options_v)
{
    const CambiOptions *o = options_v;
    (void)geometry;
    return o->full_ref ? 1u << KEY_CAMBI | 1u << KEY_SOURCE | 1u << KEY_FULL_REFERENCE : 1u << KEY_CAMBI;
}

/* ---- Sizes -------------------------------------------------------------------------------------------------------- */

typedef struct Size {
    int32_t width, height;
} Size;

/* Size that a side's luma is resampled to. */
static Size size_of(const VgGeometry *geometry, const CambiOptions *o, int side)
{
    const Size own = { (int32_t)geometry->width, (int32_t)geometry->height };
    const Size asked =
        side == VG_CAMBI_DIST ? (Size){ o->enc_width, o->enc_height } : (Size){ o->src_width, o->src_height };

    if (!asked.width || !asked.height)
        return own;
    if (side == VG_CAMBI_DIST && (asked.width > own.width || asked.height > own.height))
        return own; /* only the reference may be enlarged */
    return asked;
}

static int64_t area(Size size)
{
    return (int64_t)size.width * size.height;
}

/* Decided by the distorted side for both. */
static int speedup_of(const VgGeometry *geometry, const CambiOptions *o)
{
    const int64_t pixels = area(size_of(geometry, o, VG_CAMBI_DIST));

    switch (o->high_res_speedup) {
    case 1080:
        return pixels >= 1920 * 1080;
    case 1440:
        return pixels >= 2560 * 1440;
    case 2160:
        return pixels >= 3840 * 2160;
    default:
        return 0;
    }
}

static int32_t window_of(Size size, int window_size, int speedup)
{
    const int32_t window = window_size * (size.width + size.height) / 375 / 16;
    return (speedup ? (window + 1) / 2 : window) | 1;
}

static int32_t mask_index_of(Size size)
{
    const int32_t blocks = (size.width / 64) * (size.height / 64);
    int32_t log2 = 0;

    while (log2 < 31 && 1ll << log2 < blocks)
        log2++;
    return (15 + 3 * log2) / 2;
}

static double share_of(const CambiOptions *o)
{
    return o->topk != DEFAULT_TOPK ? o->topk : o->cambi_topk;
}

/* Truncated after a product in double. */
static int32_t top_of(Size size, int speedup, int scale, double share)
{
    const int32_t pixels = vg_cambi_size(size.width, speedup, scale) * vg_cambi_size(size.height, speedup, scale);
    const int32_t top = (int32_t)(share * (double)pixels);
    return top < 1 ? 1 : top > pixels ? pixels : top;
}

static VgCambiSide side_of(const VgGeometry *geometry, const CambiOptions *o, int side)
{
    const Size size = size_of(geometry, o, side);
    const int speedup = speedup_of(geometry, o);
    VgCambiSide s = {
        .width = size.width,
        .height = size.height,
        .window = window_of(size, o->window_size, speedup),
        .mask_index = mask_index_of(size),
    };

    for (int scale = 0; scale < VG_CAMBI_SCALES; scale++)
        s.top[scale] = top_of(size, speedup, scale, share_of(o));
    return s;
}

/* ---- Visibility --------------------------------------------------------------------------------------------------- */

static const char *eotf_of(const CambiOptions *o)
{
    return strcmp(o->cambi_eotf, DEFAULT_EOTF) ? o->cambi_eotf : o->eotf;
}

/* ITU-R BT.1886, annex 1, with a white of 300 and a black of 0.01 cd/m^2. */
static double bt1886(double v)
{
    const double white = pow(300, 1 / 2.4), black = pow(0.01, 1 / 2.4);
    const double lift = black / (white - black);
    return pow(white - black, 2.4) * pow(vg_greater(v + lift, 0), 2.4);
}

/* SMPTE ST 2084. */
static double pq(double v)
{
    const double u = pow(v, 1 / 78.84375);
    return 10000 * pow(vg_greater(u - 0.8359375, 0) / (18.8515625 - 18.6875 * u), 1 / 0.1593017578125);
}

/* Luminance of a level, as of limited range whatever the stream says. */
static double luminance(const CambiOptions *o, int level)
{
    const int clamped = level < BLACK ? BLACK : level > WHITE ? WHITE : level;
    const double v = (clamped - BLACK) / (double)(WHITE - BLACK);
    return strcmp(eotf_of(o), "pq") ? bt1886(v) : pq(v);
}

/* Whether a step of d levels up from this one can be seen. */
static int visible(const CambiOptions *o, int level, int d)
{
    const double dark = luminance(o, level);
    return luminance(o, level + d) - dark > o->tvi_threshold * dark;
}

/* T_d: the last level from which a step of d can be seen, found by bisection: it can up to there, and no further. */
static int32_t limit_of(const CambiOptions *o, int d)
{
    const int last = WHITE - d - 1, last_seen = visible(o, last, d);
    int seen = BLACK, unseen = last_seen ? last + 1 : last;

    if (!visible(o, BLACK, d))
        return 0;
    if (last_seen && visible(o, last + 1, d))
        return 1023;
    while (unseen - seen > 1) {
        const int middle = (seen + unseen) / 2;
        if (visible(o, middle, d))
            seen = middle;
        else
            unseen = middle;
    }
    return seen;
}

/* D: the first level of the luminance that counts; black counts with all below it. */
static int32_t dark_of(const CambiOptions *o)
{
    int level = BLACK;

    while (level < WHITE && luminance(o, level) < o->vis_lum_threshold)
        level++;
    return level == BLACK ? 0 : level;
}

/* ---- Acceptance and parameters ------------------------------------------------------------------------------------ */

static int refuse_size(const VgGeometry *geometry, int side, Size size, char *why, size_t why_size)
{
    const char *prefix = side == VG_CAMBI_DIST ? "enc" : "src";

    if (geometry->width < LEAST_SIDE && geometry->height < LEAST_SIDE)
        snprintf(why, why_size,
                 "cambi needs pictures that are at least %d samples wide or high, got %ux%u: leave it out", LEAST_SIDE,
                 geometry->width, geometry->height);
    else
        snprintf(
            why, why_size,
            "cambi works on at least %d samples in width or height, but %s_width and %s_height ask for %dx%d: raise "
            "one of them",
            LEAST_SIDE, prefix, prefix, size.width, size.height);
    return -1;
}

static int check_side(const VgGeometry *geometry, const CambiOptions *o, int side, char *why, size_t why_size)
{
    const char *prefix = side == VG_CAMBI_DIST ? "enc" : "src";
    const Size size = size_of(geometry, o, side);
    const int32_t window = window_of(size, o->window_size, speedup_of(geometry, o));

    if (size.width < LEAST_SIDE && size.height < LEAST_SIDE)
        return refuse_size(geometry, side, size, why, why_size);
    if (window > VG_CAMBI_MOST_WINDOW) {
        snprintf(why, why_size,
                 "cambi's window may have a side of %d at most, but window_size=%d gives %d at %dx%d: use a smaller "
                 "window_size, or set %s_width and %s_height",
                 VG_CAMBI_MOST_WINDOW, o->window_size, window, size.width, size.height, prefix, prefix);
        return -1;
    }
    if (area(size) > MOST_PIXELS) {
        snprintf(why, why_size, "cambi works on at most %d pixels, not on %dx%d: set %s_width and %s_height",
                 MOST_PIXELS, size.width, size.height, prefix, prefix);
        return -1;
    }
    return 0;
}

/* One of the two sizes must hold the other. */
static int check_sizes(const VgGeometry *geometry, const CambiOptions *o, char *why, size_t why_size)
{
    const Size enc = size_of(geometry, o, VG_CAMBI_DIST), src = size_of(geometry, o, VG_CAMBI_SOURCE);
    const int wider = src.width > enc.width && src.height < enc.height;
    const int taller = src.width < enc.width && src.height > enc.height;

    if (!wider && !taller)
        return 0;
    snprintf(why, why_size,
             "cambi compares sizes of which one holds the other, but the reference's, %dx%d, is %s than the distorted "
             "picture's, %dx%d: change src_width and src_height or enc_width and enc_height",
             src.width, src.height, wider ? "wider and lower" : "narrower and taller", enc.width, enc.height);
    return -1;
}

static int check(const VgGeometry *geometry, const void *options_v, char *why, size_t why_size)
{
    const CambiOptions *o = options_v;
    const char *eotf = eotf_of(o);

    if (geometry->bit_depth < 8 || geometry->bit_depth > 16) {
        snprintf(why, why_size, "cambi scores 8 to 16 bits, not %u: convert both inputs first", geometry->bit_depth);
        return -1;
    }
    if (o->heatmaps_path && !*o->heatmaps_path) {
        snprintf(why, why_size, "cambi's heatmaps_path is empty: give a folder, or leave it out");
        return -1;
    }
    if (strcmp(eotf, "bt1886") && strcmp(eotf, "pq")) {
        snprintf(why, why_size, "cambi does not know %s=%s: give bt1886 or pq",
                 eotf == o->cambi_eotf ? "cambi_eotf" : "eotf", eotf);
        return -1;
    }
    for (int side = 0; side < VG_CAMBI_SIDES; side++)
        if (check_side(geometry, o, side, why, why_size))
            return -1;
    return check_sizes(geometry, o, why, why_size);
}

static void make_params(const VgGeometry *geometry, const void *options_v, void *params_v)
{
    const CambiOptions *o = options_v;
    VgCambiParams *params = params_v;
    const int depth = o->enc_bitdepth ? o->enc_bitdepth : (int)geometry->bit_depth;

    *params = (VgCambiParams){
        .width = (int32_t)geometry->width,
        .height = (int32_t)geometry->height,
        .bit_depth = (int32_t)geometry->bit_depth,
        .speedup = speedup_of(geometry, o),
        .anti_dither = depth < 10,
        .heatmaps = o->heatmaps_path != NULL,
        .dark = dark_of(o),
        .n_differences = 1 << o->max_log_contrast,
        .sides = { [VG_CAMBI_DIST] = side_of(geometry, o, VG_CAMBI_DIST) },
    };
    for (int d = 1; d <= params->n_differences; d++)
        params->limits[d - 1] = limit_of(o, d);
    if (o->full_ref)
        params->sides[VG_CAMBI_SOURCE] = side_of(geometry, o, VG_CAMBI_SOURCE);
}

/* Passes that differ only in heatmaps and in whether the reference is worked on, too, are one. */
static int merge_params(void *params_v, const void *other_v)
{
    VgCambiParams *params = params_v, merged = *params;
    VgCambiParams other = *(const VgCambiParams *)other_v;
    VgCambiSide *source = &merged.sides[VG_CAMBI_SOURCE], *other_source = &other.sides[VG_CAMBI_SOURCE];

    if (!source->width)
        *source = *other_source;
    if (!other_source->width)
        *other_source = *source;
    merged.heatmaps |= other.heatmaps;
    other.heatmaps |= merged.heatmaps;
    if (memcmp(&merged, &other, sizeof(merged)))
        return 0;
    *params = merged;
    return 1;
}

/* ---- Heatmaps behind the record ----------------------------------------------------------------------------------- */

static size_t planes_size(const void *params_v)
{
    const VgCambiParams *params = params_v;
    return params->heatmaps ? (size_t)vg_cambi_heatmap_pixels(params) * sizeof(uint16_t) : 0;
}

static void sample_name(const void *params_v, size_t index, char *name, size_t name_size)
{
    const VgCambiParams *params = params_v;
    const VgCambiSide *side = &params->sides[VG_CAMBI_DIST];
    size_t width = 1;

    for (int scale = 0; scale < VG_CAMBI_SCALES; scale++) {
        width = (size_t)vg_cambi_size(side->width, params->speedup, scale);
        const size_t pixels = width * (size_t)vg_cambi_size(side->height, params->speedup, scale);
        if (index < pixels) {
            snprintf(name, name_size, "heatmap of scale %d at x %zu, y %zu", scale, index % width, index / width);
            return;
        }
        index -= pixels;
    }
}

/* ---- Scores ------------------------------------------------------------------------------------------------------- */

static int check_samples(const VgScoreContext *context, uint64_t frame, const char *side, uint32_t largest)
{
    const uint32_t depth = context->geometry->bit_depth;

    if (largest >> depth == 0)
        return 0;
    vg_log(
        context->log, VG_LOG_ERROR,
        "cambi%s, frame %llu: the %s picture has a luma sample of %u, but %u bits end at %u: give the depth that the "
        "samples have, or limit them first",
        context->suffix, (unsigned long long)frame, side, largest, depth, (1u << depth) - 1);
    return -EINVAL;
}

/* Of one side, without cap. */
static double side_score(const VgCambiSide *side, const double sums[VG_CAMBI_SCALES])
{
    double weight = 1 << (VG_CAMBI_SCALES - 1), sum = 0;

    for (int scale = 0; scale < VG_CAMBI_SCALES; scale++, weight /= 2)
        sum += weight * (sums[scale] / side->top[scale]);
    return sum / (side->window * side->window);
}

static int write_heatmaps(const VgScoreContext *context, void *state, uint64_t frame, const VgCambiRecord *record)
{
    const CambiOptions *o = context->options;
    const VgCambiSide side = side_of(context->geometry, o, VG_CAMBI_DIST);
    return vg_cambi_write_heatmaps(state, context, o->heatmaps_path, speedup_of(context->geometry, o), &side, frame,
                                   (const void *)(record + 1));
}

static int score(const VgScoreContext *context, void *state, uint64_t frame, const void *record_v, VgEmit *emit)
{
    const CambiOptions *o = context->options;
    const VgCambiRecord *record = record_v;
    double scores[VG_CAMBI_SIDES] = { 0 };
    int err = 0;

    for (int side = 0; !err && side < (o->full_ref ? VG_CAMBI_SIDES : 1); side++) {
        const VgCambiSide size = side_of(context->geometry, o, side);
        err = check_samples(context, frame, side == VG_CAMBI_DIST ? "distorted" : "reference", record->largest[side]);
        scores[side] = side_score(&size, record->sums[side]);
    }
    if (!err && o->heatmaps_path)
        err = write_heatmaps(context, state, frame, record);
    if (!err)
        err = vg_emit(emit, KEY_CAMBI, frame, vg_lesser(scores[VG_CAMBI_DIST], o->max_val));
    if (err < 0 || !o->full_ref)
        return err;
    err = vg_emit(emit, KEY_SOURCE, frame, vg_lesser(scores[VG_CAMBI_SOURCE], o->max_val));
    if (err < 0)
        return err;
    const double more = vg_greater(scores[VG_CAMBI_DIST] - scores[VG_CAMBI_SOURCE], 0);
    return vg_emit(emit, KEY_FULL_REFERENCE, frame, vg_lesser(more, o->max_val));
}

static const VgRecordField fields[] = {
    { "sums of the distorted picture", VG_FIELD_F64, offsetof(VgCambiRecord, sums[VG_CAMBI_DIST]), VG_CAMBI_SCALES },
    { "sums of the reference", VG_FIELD_F64, offsetof(VgCambiRecord, sums[VG_CAMBI_SOURCE]), VG_CAMBI_SCALES },
    { "largest sample", VG_FIELD_U32, offsetof(VgCambiRecord, largest), VG_CAMBI_SIDES },
    { 0 },
};

const VgMetric vg_metric_cambi = {
    .info = {
        .name = "cambi",
        .help = "visibility of banding in the distorted picture: 0 for none, about 5 where it annoys",
        .inputs = "8 to 16 bits; any chroma format; at least 216 samples wide or high",
        .options = options,
    },
    .options_size = sizeof(CambiOptions),
    .params_size = sizeof(VgCambiParams),
    .record_size = sizeof(VgCambiRecord),
    .state_size = sizeof(VgCambiHeatmaps),
    .keys = keys,
    .active_keys = active_keys,
    .check = check,
    .make_params = make_params,
    .merge_params = merge_params,
    .planes_size = planes_size,
    .sample_name = sample_name,
    .cpu = &vg_cpu_cambi,
    .device = &vg_device_cambi,
    .fields = fields,
    .score = score,
};
