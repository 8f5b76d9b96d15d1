/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * cambi for CPUs with AVX2. Counting is written by hand, for 16 columns at a time. It lives on how little changes from a
 * row to the next, and on how few levels meet in 16 pixels:
 *   - windows move down by runs of pixels that are alike both in the row that enters and in the one that leaves; where
 *     these rows are equal there is nothing to do;
 *   - values are made for each level that occurs in the 16 pixels, and only for differences whose levels are there.
 * Columns are worked on in strips, so that their counts stay in the fast caches.
 */
#include <immintrin.h>
#include <string.h>

#include "cpu_ref/cambi.h"
#include "cpu_ref/rows.h"
#include "cpu_ref/x86/variants.h"

/*
 * Widest window for which 31 bits hold weight * own * other, 9 * (W * W / 2)^2: conversions to float are of signed integers.
 * Counts, at most W * W = 30625, fit 16 bits with a sign.
 */
#define MOST_WINDOW 175

#define LANES 16
#define STRIP 256             /* columns */
#define PITCH (STRIP + LANES) /* from a level's counts to the next one's: not a power of two */
#define WORDS ((STRIP + MOST_WINDOW) / 64 + 1)

_Static_assert(PITCH * sizeof(uint16_t) <= VG_CAMBI_STRIP, "scratch memory has room for a strip's counts");

static const uint8_t difference_weights[] = VG_CAMBI_WEIGHTS;

/* Levels that have values, and those that are counted for them. */
typedef struct Levels {
    int32_t first_output, last_output, first_counted, last_counted;
} Levels;

typedef struct Strip {
    const VgCambiScale *scale;
    Levels levels;
    int32_t start, end; /* columns */
    int32_t from, to;   /* columns that windows reach */
    uint16_t *counts;   /* of level first_output - n on: [level][column - start] */
} Strip;

static Levels levels_of(const VgCambiScale *s)
{
    const uint8_t *first = s->scratch->first_difference;
    const int32_t n = s->params->n_differences;
    Levels l = { .first_output = 0, .last_output = VG_CAMBI_TOP_LEVEL };

    while (l.first_output <= VG_CAMBI_TOP_LEVEL && first[l.first_output] > n)
        l.first_output++;
    while (l.last_output >= l.first_output && first[l.last_output] > n)
        l.last_output--;
    l.first_counted = l.first_output > n ? l.first_output - n : 0;
    l.last_counted = l.last_output + n < VG_CAMBI_TOP_LEVEL ? l.last_output + n : VG_CAMBI_TOP_LEVEL;
    return l;
}

static inline __m256i load(const uint16_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

static inline void store(uint16_t *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, v);
}

/* Lanes whose pixels are masked and have a level from first to last. */
static inline __m256i between(__m256i pixels, int32_t first, int32_t last)
{
    const __m256i above = _mm256_sub_epi16(pixels, _mm256_set1_epi16((short)(first | VG_CAMBI_MASKED)));
    return _mm256_cmpeq_epi16(above, _mm256_min_epu16(above, _mm256_set1_epi16((short)(last - first))));
}

/* A bit for each of 32 lanes. */
static inline uint32_t lane_bits(__m256i low, __m256i high)
{
    const __m256i packed = _mm256_packs_epi16(low, high); /* lanes 0-7, 16-23, 8-15, 24-31 */
    return (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(packed, 0xd8));
}

/* Of n bits from the lowest. */
static inline uint64_t low_bits(int32_t n)
{
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

static inline uint16_t *counts_of(const Strip *strip, int32_t level)
{
    return strip->counts +
           (ptrdiff_t)(level - strip->levels.first_output + strip->scale->params->n_differences) * PITCH;
}

/*
 * A run of pixels enters windows, another leaves them: columns `first` to `first` + `length` - 1, from the strip's start.
 * A column's window takes as many of them as are within half a window of it. `in`, `out`: counts of their levels, or NULL.
 */
static inline void move_run(const Strip *strip, int32_t first, int32_t length, uint16_t *in, uint16_t *out)
{
    const int32_t window = strip->scale->window, half = window / 2;
    const int32_t begin = first - half, last = first + length - 1 + half; /* columns with any */
    const int32_t end = last < strip->end - strip->start ? last + 1 : strip->end - strip->start;
    const __m256i iota = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m256i most = _mm256_set1_epi16((short)(length < window ? length : window)), zero = _mm256_setzero_si256();

    for (int32_t x = begin > 0 ? begin & -LANES : 0; x < end; x += LANES) {
        const __m256i up = _mm256_add_epi16(_mm256_set1_epi16((short)(x - begin + 1)), iota);
        const __m256i down = _mm256_sub_epi16(_mm256_set1_epi16((short)(last - x + 1)), iota);
        const __m256i n = _mm256_max_epi16(_mm256_min_epi16(_mm256_min_epi16(up, down), most), zero);
        if (in)
            store(in + x, _mm256_add_epi16(load(in + x), n));
        if (out)
            store(out + x, _mm256_sub_epi16(load(out + x), n));
    }
}

/*
 * Moves the strip's windows by one row. Bits tell the pixels that are to be counted in either row, unless the rows are
 * equal, and those whose right neighbours are not like them in both rows.
 */
static void move_strip(const Strip *strip, const uint16_t *entering, const uint16_t *leaving)
{
    const Levels *l = &strip->levels;
    const int32_t n = strip->to - strip->from;
    uint64_t moves[WORDS], ends[WORDS];

    for (int32_t word = 0; word * 64 < n; word++) {
        moves[word] = ends[word] = 0;
        for (int32_t i = 0; i < 64; i += 2 * LANES) {
            __m256i move[2], end[2];
            for (int32_t k = 0; k < 2; k++) {
                const uint16_t *a = entering + strip->from + word * 64 + i + k * LANES;
                const uint16_t *b = leaving + strip->from + word * 64 + i + k * LANES;
                const __m256i in = load(a), out = load(b);
                const __m256i counted = _mm256_or_si256(between(in, l->first_counted, l->last_counted),
                                                        between(out, l->first_counted, l->last_counted));
                move[k] = _mm256_andnot_si256(_mm256_cmpeq_epi16(in, out), counted);
                end[k] = _mm256_and_si256(_mm256_cmpeq_epi16(in, load(a + 1)), _mm256_cmpeq_epi16(out, load(b + 1)));
            }
            moves[word] |= (uint64_t)lane_bits(move[0], move[1]) << i;
            ends[word] |= (uint64_t)(uint32_t)~lane_bits(end[0], end[1]) << i;
        }
    }
    moves[(n - 1) / 64] &= low_bits(n - (n - 1) / 64 * 64);
    ends[(n - 1) / 64] |= (uint64_t)1 << (n - 1) % 64;

    for (int32_t word = 0; word * 64 < n; word++) {
        while (moves[word]) {
            const int32_t bit = __builtin_ctzll(moves[word]), first = word * 64 + bit;
            uint64_t after = ends[word] & ~low_bits(bit);
            while (!after) {
                moves[word] = 0;
                after = ends[++word];
            }
            const int32_t last_bit = __builtin_ctzll(after), column = strip->from + first;
            const int32_t in = entering[column] ^ VG_CAMBI_MASKED, out = leaving[column] ^ VG_CAMBI_MASKED;
            move_run(strip, column - strip->start, word * 64 + last_bit - first + 1,
                     in >= l->first_counted && in <= l->last_counted ? counts_of(strip, in) : NULL,
                     out >= l->first_counted && out <= l->last_counted ? counts_of(strip, out) : NULL);
            moves[word] &= ~low_bits(last_bit + 1);
        }
    }
}

/* Eight values of one difference. */
static inline __m256 values_of_8(__m128i own, __m128i other, __m256i weight, const float *reciprocals)
{
    const __m256i p = _mm256_cvtepu16_epi32(own), q = _mm256_cvtepu16_epi32(other);
    const __m256i product = _mm256_mullo_epi32(_mm256_madd_epi16(p, q), weight);
    return _mm256_mul_ps(_mm256_cvtepi32_ps(product), _mm256_i32gather_ps(reciprocals, _mm256_add_epi32(p, q), 4));
}

/* Values of 16 pixels: a level at a time, whose values are 0 in the lanes of others. */
static inline void values_of_16(const Strip *strip, const uint16_t *pixels, int32_t x, __m256i outputs,
                                __m256 values[2])
{
    const VgCambiScratch *scratch = strip->scale->scratch;
    const int32_t n = strip->scale->params->n_differences;
    const __m256i all = load(pixels);
    uint32_t left = (uint32_t)_mm256_movemask_epi8(outputs); /* two bits a lane */

    values[0] = values[1] = _mm256_setzero_ps();
    while (left) {
        const uint16_t pixel = pixels[__builtin_ctz(left) / 2];
        const int32_t level = pixel ^ VG_CAMBI_MASKED;
        const __m256i lanes = _mm256_cmpeq_epi16(all, _mm256_set1_epi16((short)pixel));
        const uint16_t *counts = counts_of(strip, level) + x;
        const __m256i own = load(counts);

        left &= ~(uint32_t)_mm256_movemask_epi8(lanes);
        for (int32_t d = scratch->first_difference[level]; d <= n; d++) {
            const __m256i larger = _mm256_max_epu16(load(counts + d * PITCH), load(counts - d * PITCH));
            const __m256i other = _mm256_and_si256(larger, lanes);
            if (_mm256_testz_si256(other, other))
                continue;
            const __m256i weight = _mm256_set1_epi32(difference_weights[d - 1]);
            values[0] = _mm256_max_ps(values[0], values_of_8(_mm256_castsi256_si128(own), _mm256_castsi256_si128(other),
                                                             weight, scratch->reciprocals));
            values[1] =
                _mm256_max_ps(values[1], values_of_8(_mm256_extracti128_si256(own, 1),
                                                     _mm256_extracti128_si256(other, 1), weight, scratch->reciprocals));
        }
    }
}

/* All bits of the first n lanes. */
static inline __m256i first_lanes(int32_t n)
{
    const __m256i numbers = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm256_cmpgt_epi16(_mm256_set1_epi16((short)n), numbers);
}

/* Row y of the strip's values. */
static void values_of_row(const Strip *strip, int32_t y)
{
    const Levels *l = &strip->levels;
    const size_t start = (size_t)y * strip->scale->width + strip->start;
    const int32_t width = strip->end - strip->start;
    const uint16_t *pixels = strip->scale->scratch->pixels + start;
    float *out = strip->scale->scratch->values + start;

    for (int32_t x = 0; x < width; x += LANES) {
        __m256i outputs = between(load(pixels + x), l->first_output, l->last_output);
        __m256 values[2];
        if (x + LANES > width) /* what is beyond the row may never have been written */
            outputs = _mm256_and_si256(outputs, first_lanes(width - x));
        values_of_16(strip, pixels + x, x, outputs, values);
        if (x + LANES <= width) {
            _mm256_storeu_ps(out + x, values[0]);
            _mm256_storeu_ps(out + x + 8, values[1]);
        } else { /* what follows may be another row's */
            float last[LANES];
            _mm256_storeu_ps(last, values[0]);
            _mm256_storeu_ps(last + 8, values[1]);
            memcpy(out + x, last, (size_t)(width - x) * sizeof(*last));
        }
    }
}

static int scale_counted(const VgCambiScale *s)
{
    const int32_t half = s->window / 2, n = s->params->n_differences;
    const Levels levels = levels_of(s);
    const uint16_t *pixels = s->scratch->pixels, *nothing = s->scratch->nothing;

    if (s->window > MOST_WINDOW)
        return 0;
    if (levels.first_output > levels.last_output) {
        memset(s->scratch->values, 0, (size_t)s->width * s->height * sizeof(float));
        return 1;
    }
    for (int32_t start = 0; start < s->width; start += STRIP) {
        Strip strip = { .scale = s, .levels = levels, .start = start, .counts = s->scratch->counts };
        strip.end = start + STRIP < s->width ? start + STRIP : s->width;
        strip.from = start > half ? start - half : 0;
        strip.to = strip.end + half < s->width ? strip.end + half : s->width;
        memset(strip.counts, 0,
               (size_t)(levels.last_output - levels.first_output + 1 + 2 * n) * PITCH * sizeof(*strip.counts));
        for (int32_t y = -half; y < s->height; y++) {
            const int32_t entering = y + half, leaving = y - half - 1;
            move_strip(&strip, entering < s->height ? pixels + (size_t)entering * s->width : nothing,
                       leaving >= 0 ? pixels + (size_t)leaving * s->width : nothing);
            if (y >= 0)
                values_of_row(&strip, y);
        }
    }
    return 1;
}

/* vg_cambi_mode3() of levels for 16 columns at a time, with the mask of b. */
static inline int32_t modes(const uint16_t *a, const uint16_t *b, const uint16_t *c, int32_t width, uint16_t *out)
{
    const __m256i mask = _mm256_set1_epi16((short)VG_CAMBI_MASKED);
    int32_t x;

    for (x = 0; x <= width - LANES; x += LANES) {
        const __m256i pixel = load(b + x);
        const __m256i p = _mm256_andnot_si256(mask, load(a + x)), q = _mm256_andnot_si256(mask, pixel);
        const __m256i r = _mm256_andnot_si256(mask, load(c + x));
        const __m256i smaller = _mm256_min_epu16(p, q);
        __m256i mode = _mm256_min_epu16(smaller, r);
        mode = _mm256_blendv_epi8(mode, q, _mm256_cmpeq_epi16(q, r));
        mode = _mm256_blendv_epi8(mode, p, _mm256_or_si256(_mm256_cmpeq_epi16(p, q), _mm256_cmpeq_epi16(p, r)));
        store(out + x, _mm256_or_si256(mode, _mm256_and_si256(pixel, mask)));
    }
    return x;
}

/* Units of four values by their bits: a mantissa of 24 bits, moved to where the exponent says. */
static inline __m256i units_of_4(__m128i bits)
{
    const __m256i wide = _mm256_cvtepu32_epi64(bits);
    const __m256i mantissa =
        _mm256_or_si256(_mm256_and_si256(wide, _mm256_set1_epi64x(0x7fffff)), _mm256_set1_epi64x(0x800000));
    return _mm256_sllv_epi64(mantissa, _mm256_sub_epi64(_mm256_srli_epi64(wide, 23), _mm256_set1_epi64x(126)));
}

static inline int32_t add_units(const float *values, int32_t n, uint32_t least, VgCambiUnits *sums)
{
    const __m256i floor = _mm256_set1_epi32((int)least);
    __m256i sum = _mm256_setzero_si256(), bits = sum;
    uint64_t lanes[8];
    int32_t i;

    for (i = 0; i <= n - 8; i += 8) {
        const __m256i eight = _mm256_castps_si256(_mm256_loadu_ps(values + i));
        const __m256i above = _mm256_cmpgt_epi32(eight, floor);
        if (_mm256_testz_si256(above, above))
            continue;
        const __m256i mask0 = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(above));
        const __m256i mask1 = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(above, 1));
        const __m256i units0 = _mm256_and_si256(mask0, units_of_4(_mm256_castsi256_si128(eight)));
        const __m256i units1 = _mm256_and_si256(mask1, units_of_4(_mm256_extracti128_si256(eight, 1)));
        sum = _mm256_add_epi64(sum, _mm256_add_epi64(units0, units1));
        bits = _mm256_or_si256(bits, _mm256_or_si256(units0, units1));
    }
    _mm256_storeu_si256((__m256i *)(void *)lanes, sum);
    _mm256_storeu_si256((__m256i *)(void *)(lanes + 4), bits);
    for (int32_t k = 0; k < 4; k++) {
        sums->sum += lanes[k];
        sums->bits |= lanes[4 + k];
    }
    return i;
}

static inline int32_t count_bins(const float *values, int32_t n, int shift, uint32_t first, uint32_t last,
                                 uint32_t *bins)
{
    const __m256i least = _mm256_set1_epi32((int)first), most = _mm256_set1_epi32((int)(last - first));
    const __m128i by = _mm_cvtsi32_si128(shift);
    int32_t i;

    for (i = 0; i <= n - 8; i += 8) {
        const __m256i eight = _mm256_castps_si256(_mm256_loadu_ps(values + i));
        const __m256i key = _mm256_sub_epi32(eight, least);
        const __m256i within = _mm256_cmpeq_epi32(key, _mm256_min_epu32(key, most));
        uint32_t left = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(within));
        if (!left)
            continue;
        uint32_t bin[8];
        _mm256_storeu_si256((__m256i *)(void *)bin, _mm256_srl_epi32(key, by));
        for (; left; left &= left - 1)
            bins[bin[__builtin_ctz(left)]]++;
    }
    return i;
}

#define VG_SCALE_VALUES scale_counted
#define VG_MODE_ROW     modes
#define VG_ADD_ABOVE    add_units
#define VG_COUNT_KEYS   count_bins
#define VG_LINKAGE
#define VG_RUN vg_cambi_avx2
#include "cpu_ref/cambi_body.h"
