/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * cambi's pixel pass, compiled once for every instruction set: the including file defines VG_RUN, the function's name,
 * and VG_LINKAGE, static or nothing.
 *
 * It may also define hand-written functions: VG_SCALE_VALUES(scale), which fills scale->scratch->values and returns 1, or
 * returns 0 if it does not do such a scale; and the loops VG_MODE_ROW, VG_ADD_ABOVE and VG_COUNT_KEYS, which return how many
 * elements from the first on they have done. The C loops do the rest.
 */
#include <string.h>

#include "cpu_ref/cambi.h"
#include "cpu_ref/cpu_ref.h"
#include "cpu_ref/rows.h"

#ifndef VG_SCALE_VALUES
#define VG_SCALE_VALUES(scale) 0
#endif
#ifndef VG_MODE_ROW
#define VG_MODE_ROW(a, b, c, width, out) 0
#endif
#ifndef VG_ADD_ABOVE
#define VG_ADD_ABOVE(values, n, least, sums) 0
#endif
#ifndef VG_COUNT_KEYS
#define VG_COUNT_KEYS(values, n, shift, first, last, bins) 0
#endif

/* ---- Levels ------------------------------------------------------------------------------------------------------- */

/* For each of `resampled_size` positions, the nearest one in `size`. The identity if the sizes are equal. */
static void nearest_positions(int32_t size, int32_t resampled_size, int32_t *nearest)
{
    const float ratio = vg_cambi_ratio(size, resampled_size);
    float position = vg_cambi_position(ratio);

    for (int32_t i = 0; i < resampled_size; i++) {
        nearest[i] = vg_cambi_nearest(position, size);
        position += ratio;
    }
}

VG_TEMPLATE void level_row(const void *row, int32_t width, const int32_t *columns, int32_t bit_depth,
                           uint16_t *restrict levels, const int bytes)
{
    if (columns) {
        for (int32_t x = 0; x < width; x++)
            levels[x] = (uint16_t)vg_cambi_level(vg_sample(row, columns[x], bytes), bit_depth);
    } else {
        for (int32_t x = 0; x < width; x++)
            levels[x] = (uint16_t)vg_cambi_level(vg_sample(row, x, bytes), bit_depth);
    }
}

VG_TEMPLATE void level_plane(const VgCambiParams *params, const VgPlane *luma, const VgCambiSide *side,
                             const VgCambiScratch *scratch, const int bytes)
{
    const int32_t width = side->width;
    const int resampled = width != params->width || side->height != params->height;
    const float ratio = vg_cambi_ratio(params->height, side->height);
    float position = vg_cambi_position(ratio);

    if (resampled)
        nearest_positions(params->width, width, scratch->columns);
    for (int32_t y = 0; y < side->height; y++) {
        level_row(vg_row(luma, vg_cambi_nearest(position, params->height), scratch->samples, bytes), width,
                  resampled ? scratch->columns : NULL, params->bit_depth, scratch->pixels + (size_t)y * width, bytes);
        position += ratio;
    }
}

/* In raster order, each sample may take the place of the one it is made from: what is read later is to the right or below. */
static void anti_dither(uint16_t *levels, int32_t width, int32_t height)
{
    for (int32_t y = 0; y < height; y++) {
        uint16_t *row = levels + (size_t)y * width;
        const uint16_t *below = y < height - 1 ? row + width : row;
        for (int32_t x = 0; x < width - 1; x++)
            row[x] = (uint16_t)vg_cambi_anti_dithered(row[x], row[x + 1], below[x], below[x + 1]);
        const int32_t last = row[width - 1], last_below = below[width - 1];
        row[width - 1] = (uint16_t)vg_cambi_anti_dithered(last, last, last_below, last_below);
    }
}

VG_TEMPLATE uint32_t largest_of_row(const uint16_t *row, int32_t width)
{
    uint16_t largest = 0;
    for (int32_t x = 0; x < width; x++)
        largest = row[x] > largest ? row[x] : largest;
    return largest;
}

/* Of the whole plane, whether resampling looks at the sample or not. */
static uint32_t largest_sample(const VgPlane *luma, void *scratch)
{
    uint32_t largest = 0;

    for (int32_t y = 0; y < luma->height; y++) {
        const uint32_t of_row = largest_of_row(vg_row(luma, y, scratch, 2), luma->width);
        largest = of_row > largest ? of_row : largest;
    }
    return largest;
}

/* ---- Mask --------------------------------------------------------------------------------------------------------- */

/* Whether pixels equal the next one in their row and in their column; there is none behind the last, which counts as equal. */
static void equal_row(const uint16_t *levels, int32_t width, int last_row, uint8_t *restrict equal)
{
    const uint16_t *below = last_row ? levels : levels + width;

    for (int32_t x = 0; x < width - 1; x++)
        equal[x] = (uint8_t)((levels[x] == levels[x + 1]) & (levels[x] == below[x]));
    equal[width - 1] = levels[width - 1] == below[width - 1];
}

static void mask_row(const uint8_t *sums, int32_t width, int32_t mask_index, uint16_t *restrict pixels)
{
    for (int32_t x = 0; x < width; x++) {
        uint8_t sum = 0; /* at most 49 */
        for (int32_t i = -VG_CAMBI_MASK_HALF; i <= VG_CAMBI_MASK_HALF; i++)
            sum = (uint8_t)(sum + sums[x + i]);
        pixels[x] |= sum > mask_index ? VG_CAMBI_MASKED : 0;
    }
}

/*
 * Sums of squares by sums of columns. Rows of equality are made VG_CAMBI_MASK_HALF ahead of the row that is masked, and
 * look one further, so that they see levels alone.
 */
static void mask_plane(uint16_t *pixels, int32_t width, int32_t height, int32_t mask_index,
                       const VgCambiScratch *scratch)
{
    uint8_t *sums = scratch->equal_sums + VG_CAMBI_MASK_HALF;

    memset(scratch->equal_sums, 0, (size_t)width + 2 * VG_CAMBI_MASK_HALF);
    for (int32_t y = -VG_CAMBI_MASK_HALF; y < height; y++) {
        const int32_t entering = y + VG_CAMBI_MASK_HALF, leaving = y - VG_CAMBI_MASK_HALF - 1;
        if (entering < height) {
            uint8_t *equal = scratch->equal[entering % (VG_CAMBI_MASK_SIDE + 1)];
            equal_row(pixels + (size_t)entering * width, width, entering == height - 1, equal);
            for (int32_t x = 0; x < width; x++)
                sums[x] = (uint8_t)(sums[x] + equal[x]);
        }
        if (leaving >= 0) {
            const uint8_t *equal = scratch->equal[leaving % (VG_CAMBI_MASK_SIDE + 1)];
            for (int32_t x = 0; x < width; x++)
                sums[x] = (uint8_t)(sums[x] - equal[x]);
        }
        if (y >= 0)
            mask_row(sums, width, mask_index, pixels + (size_t)y * width);
    }
}

/* ---- Scales ------------------------------------------------------------------------------------------------------- */

/* Keeps even rows and columns, in place: no pixel is written that is still to be read. */
static void halve(uint16_t *pixels, int32_t width, int32_t height)
{
    uint16_t *out = pixels;

    for (int32_t y = 0; y < height; y += 2)
        for (int32_t x = 0; x < width; x += 2)
            *out++ = pixels[(size_t)y * width + x];
}

/* Modes of levels; b gives the mask. */
static void mode_row(const uint16_t *a, const uint16_t *b, const uint16_t *c, int32_t width, uint16_t *out)
{
    const int32_t level = VG_CAMBI_MASKED - 1;

    for (int32_t x = VG_MODE_ROW(a, b, c, width, out); x < width; x++)
        out[x] = (uint16_t)(vg_cambi_mode3(a[x] & level, b[x] & level, c[x] & level) | (b[x] & VG_CAMBI_MASKED));
}

static void mode_along_row(const uint16_t *pixels, int32_t width, uint16_t *out)
{
    out[0] = pixels[0];
    out[width - 1] = pixels[width - 1];
    mode_row(pixels, pixels + 1, pixels + 2, width - 2, out + 1);
}

/* The mode filter; the mask and the levels of the first and the last row stay. */
static void filter_plane(uint16_t *pixels, int32_t width, int32_t height, uint16_t *const rows[3])
{
    if (height < 3)
        return;
    mode_along_row(pixels, width, rows[0]);
    mode_along_row(pixels + width, width, rows[1]);
    for (int32_t y = 1; y < height - 1; y++) {
        mode_along_row(pixels + (size_t)(y + 1) * width, width, rows[(y + 1) % 3]);
        mode_row(rows[(y - 1) % 3], rows[y % 3], rows[(y + 1) % 3], width, pixels + (size_t)y * width);
    }
}

/* ---- Values ------------------------------------------------------------------------------------------------------- */

static const uint8_t weights[] = VG_CAMBI_WEIGHTS;

/*
 * Counts, by level and column, of the masked pixels in the windows of a row. Up to VG_CAMBI_NARROW_WINDOW 16 bits hold them
 * (W * W = 43681); the widest window has 70225 pixels.
 */
VG_TEMPLATE void add_to_windows(void *counts, int32_t width, int32_t half, uint16_t pixel, int32_t x, int one,
                                const int wide)
{
    const int32_t first = x > half ? x - half : 0, end = x < width - half ? x + half + 1 : width;
    const size_t row = (size_t)((pixel & ~VG_CAMBI_MASKED) + VG_CAMBI_MOST_DIFFERENCES) * width;

    if (!(pixel & VG_CAMBI_MASKED))
        return;
    for (int32_t i = first; i < end; i++) {
        if (wide)
            ((uint32_t *)counts)[row + i] += (uint32_t)one;
        else
            ((uint16_t *)counts)[row + i] += (uint16_t)one;
    }
}

VG_TEMPLATE uint32_t count_at(const void *counts, size_t index, const int wide)
{
    return wide ? ((const uint32_t *)counts)[index] : ((const uint16_t *)counts)[index];
}

/* Moves windows down to row y. */
VG_TEMPLATE void move_windows(const VgCambiScale *s, int32_t y, const int wide)
{
    const int32_t half = s->window / 2, width = s->width;
    const int32_t entering = y + half, leaving = y - half - 1;

    for (int32_t x = 0; x < width; x++) {
        const uint16_t in = entering < s->height ? s->scratch->pixels[(size_t)entering * width + x] : 0;
        const uint16_t out = leaving >= 0 ? s->scratch->pixels[(size_t)leaving * width + x] : 0;
        if (in == out)
            continue;
        add_to_windows(s->scratch->counts, width, half, in, x, 1, wide);
        add_to_windows(s->scratch->counts, width, half, out, x, -1, wide);
    }
}

/* The largest of a masked pixel's values. The larger count of a difference comes first: values need not rise with counts. */
VG_TEMPLATE float value_at(const VgCambiScale *s, int32_t level, int32_t x, const int wide)
{
    const size_t own_index = (size_t)(level + VG_CAMBI_MOST_DIFFERENCES) * s->width + x;
    const uint32_t own = count_at(s->scratch->counts, own_index, wide);
    float largest = 0;

    for (int32_t d = s->scratch->first_difference[level]; d <= s->params->n_differences; d++) {
        const uint32_t above = count_at(s->scratch->counts, own_index + (size_t)d * s->width, wide);
        const uint32_t below = count_at(s->scratch->counts, own_index - (size_t)d * s->width, wide);
        const uint32_t other = above > below ? above : below;
        const float reciprocal = s->scratch->reciprocals[own + other];
        const float value = wide ? vg_cambi_value_wide(weights[d - 1], own, other, reciprocal)
                                 : vg_cambi_value(weights[d - 1], own, other, reciprocal);
        largest = value > largest ? value : largest;
    }
    return largest;
}

VG_TEMPLATE void values_of(const VgCambiScale *s, const int wide)
{
    const int32_t width = s->width;

    memset(s->scratch->counts, 0, (size_t)VG_CAMBI_LEVELS * width * (wide ? sizeof(uint32_t) : sizeof(uint16_t)));
    for (int32_t y = -(s->window / 2); y < s->height; y++) {
        move_windows(s, y, wide);
        for (int32_t x = 0; y >= 0 && x < width; x++) {
            const size_t i = (size_t)y * width + x;
            const uint16_t pixel = s->scratch->pixels[i];
            s->scratch->values[i] = pixel & VG_CAMBI_MASKED ? value_at(s, pixel & ~VG_CAMBI_MASKED, x, wide) : 0;
        }
    }
}

static void scale_values(const VgCambiScale *s)
{
    if (VG_SCALE_VALUES(s))
        return;
    if (s->window > VG_CAMBI_NARROW_WINDOW)
        values_of(s, 1);
    else
        values_of(s, 0);
}

static void make_tables(const VgCambiParams *params, int32_t window, const VgCambiScratch *scratch)
{
    for (int32_t level = 0; level <= VG_CAMBI_TOP_LEVEL; level++)
        scratch->first_difference[level] = (uint8_t)vg_cambi_first_difference(params, level);
    for (int32_t i = 0; i <= window * window; i++)
        scratch->reciprocals[i] = vg_cambi_reciprocal(i);
}

/* ---- Sums --------------------------------------------------------------------------------------------------------- */

/* 0 aside, values are at least 0.5 and below 2^18: their bits, which are in order as they are, take 27 bits above those of 0.5. */
#define LEAST_BITS 0x3f000000

/*
 * Sorts what lies from `first` to `last`, bits of values, into bins of 2^shift of them. Zeros are no such values.
 */
static void count_keys(const float *values, int32_t n, int shift, uint32_t first, uint32_t last, uint32_t *bins)
{
    for (int32_t i = VG_COUNT_KEYS(values, n, shift, first, last, bins); i < n; i++) {
        const uint32_t key = vg_float_bits(values[i]) - first;
        if (key <= last - first)
            bins[key >> shift]++;
    }
}

/* The k-th largest value, which is not 0. Narrows down its bits from the highest on. */
static VgCambiLargest find_largest(const float *values, int32_t n, int32_t top, uint32_t bins[VG_CAMBI_BINS])
{
    uint32_t first = LEAST_BITS, n_bins = VG_CAMBI_BINS;
    VgCambiLargest found = { 0, 0 };

    for (int shift = 16; shift >= 0; shift -= 8, n_bins = 256) {
        uint32_t bin = n_bins - 1;
        memset(bins, 0, n_bins * sizeof(*bins));
        count_keys(values, n, shift, first, first + (n_bins << shift) - 1, bins);
        while (found.more + bins[bin] < (uint32_t)top)
            found.more += bins[bin--];
        first += bin << shift;
    }
    found.bits = first;
    return found;
}

/* Adds, in units, the values whose bits are above `least`. */
static void add_above(const float *values, int32_t n, uint32_t least, VgCambiUnits *sums)
{
    for (int32_t i = VG_ADD_ABOVE(values, n, least, sums); i < n; i++) {
        const uint64_t units = vg_float_bits(values[i]) > least ? vg_cambi_units(values[i]) : 0;
        sums->sum += units;
        sums->bits |= units;
    }
}

/*
 * Hoare's selection: leaves the `top` largest values in front, in the order of the definition. Which values change places
 * decides that order, so nothing here is free: the pivot is what stands at index `top` when a round begins, and values
 * equal to it change places, too.
 */
static void select_largest(float *values, int64_t n, int64_t top)
{
    int64_t first = 0, last = n - 1;

    while (first < last) {
        const float pivot = values[top];
        int64_t i = first, j = last;
        do {
            while (values[i] > pivot)
                i++;
            while (values[j] < pivot)
                j--;
            if (i <= j) {
                const float value = values[i];
                values[i++] = values[j];
                values[j--] = value;
            }
        } while (i <= j);
        if (j < top)
            first = i;
        if (top < i)
            last = j;
    }
}

static double ordered_sum(float *values, int32_t n, int32_t top)
{
    double sum = 0;

    if (top < n)
        select_largest(values, n, top);
    for (int32_t i = 0; i < top; i++)
        sum += (double)values[i];
    return sum;
}

/* Where the order does not matter: all that is not 0 if there is no more of that, else all above the k-th, and its equals. */
static VgCambiUnits sum_in_units(const float *values, int32_t n, int32_t top, uint32_t bins[VG_CAMBI_BINS])
{
    VgCambiUnits sums = { 0, 0 };
    int32_t not_zero = 0;

    for (int32_t i = 0; i < n; i++)
        not_zero += values[i] != 0;
    if (not_zero <= top) {
        add_above(values, n, 0, &sums);
        return sums;
    }
    const VgCambiLargest largest = find_largest(values, n, top, bins);
    const uint64_t units = vg_cambi_units(vg_bits_float(largest.bits));
    add_above(values, n, largest.bits, &sums);
    sums.sum += ((uint32_t)top - largest.more) * units;
    sums.bits |= units;
    return sums;
}

/* See vg_cambi_sum_of_largest(). */
static double sum_of_largest(const VgCambiParams *params, int side, float *values, int32_t n, int32_t top,
                             uint32_t bins[VG_CAMBI_BINS])
{
    if (vg_cambi_sum_may_overflow(top, params->n_differences, params->sides[side].window))
        return ordered_sum(values, n, top);
    const VgCambiUnits sums = sum_in_units(values, n, top, bins);
    return vg_cambi_sum_exact(sums.sum, sums.bits) ? vg_cambi_sum(sums.sum) : ordered_sum(values, n, top);
}

/* ---- A side ------------------------------------------------------------------------------------------------------- */

static void show(const VgCambiObserver *observer, VgCambiStage stage, int32_t scale, const void *plane, int32_t width,
                 int32_t height)
{
    if (observer)
        observer->see(observer->opaque, stage, scale, plane, width, height);
}

/* The pixels before the first scale. */
static void make_pixels(const VgCambiParams *params, const VgPlane *luma, const VgCambiSide *side,
                        const VgCambiScratch *scratch, const VgCambiObserver *observer)
{
    uint16_t *pixels = scratch->pixels;

    if (luma->sample_bytes == 1)
        level_plane(params, luma, side, scratch, 1);
    else
        level_plane(params, luma, side, scratch, 2);
    if (params->anti_dither)
        anti_dither(pixels, side->width, side->height);
    show(observer, VG_CAMBI_STAGE_LEVELS, 0, pixels, side->width, side->height);
    mask_plane(pixels, side->width, side->height, side->mask_index, scratch);
    show(observer, VG_CAMBI_STAGE_MASKED, 0, pixels, side->width, side->height);
}

static uint16_t *write_heatmap(const float *values, int64_t n, double factor, uint16_t *heatmap)
{
    for (int64_t i = 0; i < n; i++)
        heatmap[i] = vg_cambi_heatmap(values[i], factor);
    return heatmap + n;
}

/* All scales of a side. `heatmaps` NULL: they are not wanted. */
static void score_side(const VgCambiParams *params, const VgPlane *luma, int which, void *memory, double *sums,
                       uint16_t *heatmaps, const VgCambiObserver *observer)
{
    const VgCambiSide *side = &params->sides[which];
    int32_t width = side->width, height = side->height;
    VgCambiScratch scratch;

    vg_cambi_scratch(params, which, memory, &scratch);
    memset(scratch.nothing, 0, (size_t)side->width * sizeof(*scratch.nothing));
    make_tables(params, side->window, &scratch);
    make_pixels(params, luma, side, &scratch, observer);
    for (int32_t scale = 0; scale < VG_CAMBI_SCALES; scale++) {
        if (scale > 0 || params->speedup)
            halve(scratch.pixels, width, height);
        width = vg_cambi_size(side->width, params->speedup, scale);
        height = vg_cambi_size(side->height, params->speedup, scale);
        filter_plane(scratch.pixels, width, height, scratch.filtered);
        show(observer, VG_CAMBI_STAGE_PIXELS, scale, scratch.pixels, width, height);

        const VgCambiScale s = { params, &scratch, width, height, side->window };
        const int32_t n = width * height;
        scale_values(&s);
        show(observer, VG_CAMBI_STAGE_VALUES, scale, scratch.values, width, height);
        if (heatmaps)
            heatmaps = write_heatmap(scratch.values, n, vg_cambi_heatmap_factor(params), heatmaps);
        sums[scale] = sum_of_largest(params, which, scratch.values, n, side->top[scale], scratch.bins);
    }
}

/* Each side is one band's work. */
VG_LINKAGE void VG_RUN(const void *params_v, const VgCpuFrame *frame, int band, int n_bands, void *scratch,
                       void *partial)
{
    const VgCambiParams *params = params_v;
    const VgPlane *const lumas[] = { &frame->dist[0][0], &frame->ref[0][0] };
    VgCambiRecord record = { { { 0 } }, { 0 } };

    for (int side = 0; side < VG_CAMBI_SIDES; side++) {
        uint16_t *heatmaps =
            side == VG_CAMBI_DIST && params->heatmaps ? (void *)((uint8_t *)partial + sizeof(record)) : NULL;
        if (!params->sides[side].window || band != (side < n_bands ? side : n_bands - 1))
            continue;
        score_side(params, lumas[side], side, scratch, record.sums[side], heatmaps, NULL);
        if (params->bit_depth > 8)
            record.largest[side] = largest_sample(lumas[side], scratch);
    }
    memcpy(partial, &record, sizeof(record));
}

#undef VG_SCALE_VALUES
#undef VG_MODE_ROW
#undef VG_ADD_ABOVE
#undef VG_COUNT_KEYS
#undef LEAST_BITS
