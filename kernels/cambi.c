/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * CAMBI on the device, up to the values of all scales; kernels/cambi_pool.c sums them. Definition: docs/numerics.md, cambi.
 *
 * Launches, for each side: planes, from samples to the pixels of the first scale; pyramid, to those of the others; counts
 * and values of all scales. Planes and pyramid also note the extreme levels of small cells of pixels, so that counting knows
 * which levels it has to do with, if any.
 *
 * Everything is an integer but a value's last two operations, each of which rounds, so the order of work is free.
 */
#include "kernels/block.h"
#include "kernels/cambi_args.h"
#include "kernels/cambi_pool_args.h"
#include "kernels/gpu.h"
#include "kernels/samples.h"

GPU_CONST uint8_t cambi_weights[] = VG_CAMBI_WEIGHTS;

/* Words in arrays of pixels or counts. */
typedef uint64_t __attribute__((may_alias)) CambiWord;
typedef uint32_t __attribute__((may_alias)) CambiHalfWord;

GPU_FN uint32_t cambi_larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

GPU_FN int32_t cambi_clamp(int32_t i, int32_t size)
{
    return i < 0 ? 0 : i < size ? i : size - 1;
}

/** Whether the scale has a pixel there. */
GPU_FN int cambi_inside(const VgCambiDeviceScale *scale, int32_t x, int32_t y)
{
    return (uint32_t)x < (uint32_t)scale->width && (uint32_t)y < (uint32_t)scale->height;
}

/* ---- Pixels ------------------------------------------------------------------------------------------------------- */

GPU_FN int32_t cambi_level_of(uint32_t pixel)
{
    return (int32_t)(pixel & (VG_CAMBI_MASKED - 1));
}

/* The first half of the mode filter, along a row: pixels `before` and `after` the one in question, which are the same as
   that at the plane's edges. */
GPU_FN int32_t cambi_mode_along(const uint16_t *row, int32_t before, int32_t x, int32_t after)
{
    return vg_cambi_mode3(cambi_level_of(row[before]), cambi_level_of(row[x]), cambi_level_of(row[after]));
}

GPU_FN void cambi_store_pixel(const VgCambiDeviceScale *scale, int32_t x, int32_t y, uint32_t pixel)
{
    ((GPU_GLOBAL uint16_t *)scale->pixels)[(int64_t)y * scale->pitch + x] = (uint16_t)pixel;
}

/* Extremes of levels: as numbers of which the larger counts, 0 for none. */
typedef struct CambiExtremes {
    uint32_t highest, lowest; /* 0xffff - lowest */
} CambiExtremes;

/* Whether the pixel is masked and of a level that has values. Without the mask it is beyond all levels. */
GPU_FN int cambi_has_values(const VgCambiArgs *args, uint32_t pixel)
{
    return (pixel ^ VG_CAMBI_MASKED) - (uint32_t)args->has_values[0] < (uint32_t)args->has_values[1];
}

GPU_FN void cambi_take(const VgCambiArgs *args, uint32_t pixel, CambiExtremes *extremes)
{
    const uint32_t level = pixel ^ VG_CAMBI_MASKED;

    if (cambi_has_values(args, pixel)) {
        extremes->highest = cambi_larger(extremes->highest, level);
        extremes->lowest = cambi_larger(extremes->lowest, VG_CAMBI_EMPTY_CELL - level);
    }
}

/* Joins what the lanes of each group of lanes have taken; `lanes` is a power of two and not above the wave's. */
GPU_FN void cambi_join(CambiExtremes *extremes, const uint32_t lanes)
{
    for (uint32_t by = lanes / 2; by; by /= 2) {
        extremes->highest = cambi_larger(extremes->highest, gpu_shfl_xor32(extremes->highest, by));
        extremes->lowest = cambi_larger(extremes->lowest, gpu_shfl_xor32(extremes->lowest, by));
    }
}

/* Writes the cell that pixel (x, y) is in: what `lanes` lanes, each with some of its columns, have taken of it. */
GPU_FN void cambi_store_cell(const VgCambiDeviceScale *scale, int32_t x, int32_t y, CambiExtremes extremes,
                             const uint32_t lanes)
{
    cambi_join(&extremes, lanes);
    if (gpu_lane() % lanes == 0 && cambi_inside(scale, x, y))
        ((GPU_GLOBAL uint32_t *)scale->cells)[y / VG_CAMBI_CELL_ROWS * scale->cells_pitch + x / VG_CAMBI_CELL_COLUMNS] =
            (VG_CAMBI_EMPTY_CELL - extremes.lowest) | extremes.highest << 16;
}

/* ---- Planes ------------------------------------------------------------------------------------------------------- */

/*
 * A tile of levels has a halo: of three pixels for the mask and one more to its right and below, whose equality counts.
 * The filter needs less, even if it looks at every other pixel. One more column to the left is for alignment.
 */
#define TILE_LEFT  4
#define TILE_ABOVE VG_CAMBI_MASK_HALF
#define TILE_PITCH (VG_CAMBI_TILE_COLUMNS + 8)
#define TILE_ROWS  (VG_CAMBI_TILE_ROWS + VG_CAMBI_MASK_SIDE)

/* Threads load groups of four columns, so many rows each. */
#define LOAD_GROUPS (TILE_PITCH / 4)
#define LOAD_ROWS   6
#if LOAD_GROUPS * ((TILE_ROWS + LOAD_ROWS - 1) / LOAD_ROWS) > VG_CAMBI_BLOCK
#error "not enough threads to load a tile"
#endif

/* Bits of equality, a row for each of the tile's but the last: for every eight columns those of sixteen, so that seven or
   eight that begin anywhere are in one word. */
#define EQUAL_ROWS    (VG_CAMBI_TILE_ROWS + VG_CAMBI_MASK_SIDE - 1)
#define EQUAL_BYTES   (TILE_PITCH / 8)
#define EQUAL_WINDOWS (EQUAL_BYTES + 1)

/* Words of a row's samples: four of bytes or 16 bits, and the one to their right. */
typedef struct CambiSamples {
    uint32_t w[2], next;
} CambiSamples;

GPU_FN uint32_t cambi_word(const VgCambiArgs *args, uint64_t row, int32_t x)
{
    const int32_t column = cambi_clamp(x, args->params.sides[args->side].width);
    return gpu_row_word(&args->luma, row,
                        args->columns ? (int32_t)gpu_load16(args->columns + 2 * (uint64_t)column) : column);
}

/* Samples of row y of the resampled plane, from column x on. Those outside are those at the edge. The fifth is there if it
   is asked for. */
GPU_FN CambiSamples cambi_load(const VgCambiArgs *args, int32_t x, int32_t y, const int bytes, const int five)
{
    const int32_t width = args->params.sides[args->side].width;
    const int32_t line = cambi_clamp(y, args->params.sides[args->side].height);
    const uint64_t row = gpu_row(&args->luma, args->rows ? (int32_t)gpu_load16(args->rows + 2 * (uint64_t)line) : line);
    CambiSamples samples = { { 0, 0 }, 0 };

    if (args->luma.vector && x >= 0 && x + 4 <= width) {
        if (bytes == 1) {
            samples.w[0] = gpu_load32(row + (uint64_t)x);
        } else {
            const GpuWords words = gpu_load64(row + 2 * (uint64_t)x);
            samples.w[0] = words.w[0];
            samples.w[1] = words.w[1];
        }
    } else {
        for (int i = 0; i < 4; i++)
            samples.w[i * bytes / 4] |= cambi_word(args, row, x + i) << (i * bytes % 4 * 8);
    }
    if (five)
        samples.next = cambi_word(args, row, x + 4);
    return samples;
}

/* Levels of the four or five samples; returns the largest sample. */
GPU_FN uint32_t cambi_levels(const VgCambiArgs *args, const CambiSamples *samples, int32_t *levels, const int bytes,
                             const int five)
{
    uint32_t largest = 0;

    GPU_UNROLL
    for (int i = 0; i < 4 + five; i++) {
        const uint32_t word =
            i == 4 ? samples->next : samples->w[i * bytes / 4] >> (i * bytes % 4 * 8) & (bytes == 1 ? 0xff : 0xffff);
        /* Single bytes have eight bits. */
        const uint32_t sample = bytes == 1 ? word : word >> args->luma.shift;
        largest = cambi_larger(largest, sample);
        levels[i] = vg_cambi_level((int32_t)sample, bytes == 1 ? 8 : args->params.bit_depth);
    }
    return largest;
}

/* Fills the tile whose first column and row without halo are given. Returns the largest of the thread's samples. */
GPU_FN uint32_t cambi_load_tile(const VgCambiArgs *args, uint16_t *tile, int32_t first_x, int32_t first_y,
                                const int bytes, const int anti_dither)
{
    const int32_t group = (int32_t)gpu_tid(0) % LOAD_GROUPS, first_row = (int32_t)gpu_tid(0) / LOAD_GROUPS * LOAD_ROWS;
    const int32_t x = first_x - TILE_LEFT + 4 * group, y = first_y - TILE_ABOVE + first_row;
    CambiSamples samples[LOAD_ROWS + 1];
    int32_t above[5] = { 0 }, levels[5];
    uint32_t largest = 0;

    if (first_row >= TILE_ROWS)
        return 0;
    GPU_UNROLL
    for (int r = 0; r < LOAD_ROWS + anti_dither; r++)
        samples[r] = cambi_load(args, x, y + r, bytes, anti_dither);
    GPU_UNROLL
    for (int r = 0; r < LOAD_ROWS + anti_dither; r++) {
        largest = cambi_larger(largest, cambi_levels(args, &samples[r], levels, bytes, anti_dither));
        const int row = first_row + r - anti_dither;
        if ((!anti_dither || r > 0) && row < TILE_ROWS) {
            uint64_t word = 0;
            GPU_UNROLL
            for (int i = 0; i < 4; i++) {
                const int32_t level =
                    anti_dither ? vg_cambi_anti_dithered(above[i], above[i + 1], levels[i], levels[i + 1]) : levels[i];
                word |= (uint64_t)(uint32_t)level << (16 * i);
            }
            *(CambiWord *)(tile + row * TILE_PITCH + 4 * group) = word;
        }
        GPU_UNROLL
        for (int i = 0; i < 4 + anti_dither; i++)
            above[i] = levels[i];
    }
    return largest;
}

GPU_FN uint32_t cambi_load_any_tile(const VgCambiArgs *args, uint16_t *tile, int32_t first_x, int32_t first_y)
{
    const int bytes = args->luma.sample_bytes;

    if (args->params.anti_dither)
        return bytes == 1 ? cambi_load_tile(args, tile, first_x, first_y, 1, 1)
                          : cambi_load_tile(args, tile, first_x, first_y, 2, 1);
    return bytes == 1 ? cambi_load_tile(args, tile, first_x, first_y, 1, 0)
                      : cambi_load_tile(args, tile, first_x, first_y, 2, 0);
}

/* Bits 15 and 31: the level in that half of the word is not 0. Levels are far below 0x7fff: nothing is carried over. */
GPU_FN uint32_t cambi_not_zero(uint32_t levels)
{
    return levels + 0x7fff7fff;
}

/* Bits of the tile's pixels that are in the plane and equal the next ones in their row and column: eight pixels at a time.
   Behind the plane's last ones the tile has the same levels again. The last pixel of a row has no next one; nobody asks. */
GPU_FN void cambi_compare(const VgCambiArgs *args, const uint16_t *tile, uint16_t (*equal)[EQUAL_WINDOWS],
                          int32_t first_x, int32_t first_y)
{
    const int32_t width = args->params.sides[args->side].width, height = args->params.sides[args->side].height;

    for (int32_t i = (int32_t)gpu_tid(0); i < EQUAL_ROWS * EQUAL_BYTES; i += VG_CAMBI_BLOCK) {
        const int32_t row = i / EQUAL_BYTES, byte = i % EQUAL_BYTES;
        const int32_t x = first_x - TILE_LEFT + 8 * byte, y = first_y - TILE_ABOVE + row;
        const uint16_t *const at = tile + row * TILE_PITCH + 8 * byte;
        const CambiWord own[2] = { ((const CambiWord *)at)[0], ((const CambiWord *)at)[1] };
        const CambiWord below[2] = { ((const CambiWord *)(at + TILE_PITCH))[0],
                                     ((const CambiWord *)(at + TILE_PITCH))[1] };
        const uint32_t levels[5] = { (uint32_t)own[0], (uint32_t)(own[0] >> 32), (uint32_t)own[1],
                                     (uint32_t)(own[1] >> 32), at[8] };
        const uint32_t next[4] = { (uint32_t)below[0], (uint32_t)(below[0] >> 32), (uint32_t)below[1],
                                   (uint32_t)(below[1] >> 32) };
        uint32_t bits = 0;

        GPU_UNROLL
        for (int k = 0; k < 4; k++) {
            const uint32_t right = levels[k] >> 16 | levels[k + 1] << 16;
            const uint32_t same = ~cambi_not_zero((levels[k] ^ right) | (levels[k] ^ next[k]));
            bits |= ((same >> 15 & 1) | (same >> 30 & 2)) << (2 * k);
        }
        if (x < 0)
            bits &= x > -8 ? 0xffu << -x : 0;
        if (x + 8 > width)
            bits &= x < width ? 0xffu >> (x + 8 - width) : 0;
        if ((uint32_t)y >= (uint32_t)height)
            bits = 0;
        ((uint8_t *)(equal[row] + byte))[0] = (uint8_t)bits;
        if (byte > 0)
            ((uint8_t *)(equal[row] + byte - 1))[1] = (uint8_t)bits;
    }
}

/* Numbers of equal pixels of seven in the tile's row, around column `column` of it, and in the upper half around the next
   column if `two`. */
GPU_FN uint32_t cambi_equal_of_row(const uint16_t *equal, int32_t column, const int two)
{
    const int32_t first = column - VG_CAMBI_MASK_HALF;
    const uint32_t bits = (uint32_t)equal[first / 8] >> first % 8, seven = (1u << VG_CAMBI_MASK_SIDE) - 1;

    return gpu_popc32(bits & seven) + (two ? gpu_popc32(bits >> 1 & seven) << 16 : 0);
}

/* The row's modes at column `at` of the tile and, in the upper half if `two`, at the next. A column at the plane's edge
   keeps its level. */
GPU_FN uint32_t cambi_modes_along(const uint16_t *row, int32_t at, int32_t before, int32_t after, const int two)
{
    if (!two)
        return (uint32_t)cambi_mode_along(row, before, at, after);
    const uint32_t own = *(const CambiHalfWord *)(row + at);
    const int32_t first = (int32_t)(own & 0xffff), second = (int32_t)(own >> 16);
    return (uint32_t)vg_cambi_mode3(row[before], first, second) | (uint32_t)vg_cambi_mode3(first, second, row[after])
                                                                      << 16;
}

/* The same along columns, for one or two pixels. */
GPU_FN uint32_t cambi_modes_across(const uint32_t *modes, const int two)
{
    const uint32_t first = (uint32_t)vg_cambi_mode3((int32_t)(modes[0] & 0xffff), (int32_t)(modes[1] & 0xffff),
                                                    (int32_t)(modes[2] & 0xffff));
    if (!two)
        return first;
    return first |
           (uint32_t)vg_cambi_mode3((int32_t)(modes[0] >> 16), (int32_t)(modes[1] >> 16), (int32_t)(modes[2] >> 16))
               << 16;
}

/*
 * Masks and filters the tile's pixels, every `stride`th of each row and column, which is the first scale. A thread marches
 * down some rows of two columns; of one, if every other is left out.
 */
GPU_FN void cambi_first_scale(const VgCambiArgs *args, const uint16_t *tile, const uint16_t (*equal)[EQUAL_WINDOWS],
                              const int stride)
{
    const int two = stride == 1, across = VG_CAMBI_TILE_COLUMNS / 2; /* threads in a row */
    const int n_rows = VG_CAMBI_TILE_ROWS / stride * across / VG_CAMBI_BLOCK;
    const VgCambiDeviceScale *const scale = &args->scales[0];
    const int32_t column = (int32_t)gpu_tid(0) % across, row = (int32_t)gpu_tid(0) / across * n_rows;
    const int32_t x = ((int32_t)gpu_bid(0) * across + column) * (1 + two);
    const int32_t y = (int32_t)gpu_bid(1) * (VG_CAMBI_TILE_ROWS / stride) + row;
    const int32_t at = 2 * column + TILE_LEFT, last = two ? at + 1 : at; /* columns of the tile */
    const int32_t before = x > 0 ? at - stride : at, after = x + two < scale->width - 1 ? last + stride : last;
    const uint16_t *const pixels = tile + (row * stride + TILE_ABOVE) * TILE_PITCH;
    const uint32_t mask_index = (uint32_t)args->params.sides[args->side].mask_index;
    CambiExtremes extremes = { 0, 0 };
    uint32_t equals[VG_CAMBI_TILE_ROWS / 4 + VG_CAMBI_MASK_SIDE], modes[VG_CAMBI_TILE_ROWS / 4 + 2], sum = 0;

    GPU_UNROLL
    for (int i = 0; i < VG_CAMBI_MASK_SIDE - stride; i++) {
        equals[i] = cambi_equal_of_row(equal[row * stride + i], at, two);
        sum += equals[i];
    }
    GPU_UNROLL
    for (int i = 0; i < 2; i++)
        modes[i] = cambi_modes_along(pixels + (i - 1) * stride * TILE_PITCH, at, before, after, two);
    GPU_UNROLL
    for (int r = 0; r < n_rows; r++) {
        GPU_UNROLL
        for (int i = (r - 1) * stride + VG_CAMBI_MASK_SIDE; i < r * stride + VG_CAMBI_MASK_SIDE; i++) {
            equals[i] = cambi_equal_of_row(equal[row * stride + i], at, two);
            sum += equals[i];
        }
        modes[r + 2] = cambi_modes_along(pixels + (r + 1) * stride * TILE_PITCH, at, before, after, two);
        uint32_t levels = cambi_modes_across(modes + r, two);
        if (y + r == 0 || y + r == scale->height - 1)
            levels = two ? *(const CambiHalfWord *)(pixels + r * stride * TILE_PITCH + at)
                         : pixels[r * stride * TILE_PITCH + at];
        levels |= ((sum & 0xffff) > mask_index ? VG_CAMBI_MASKED : 0) |
                  (two && sum >> 16 > mask_index ? VG_CAMBI_MASKED << 16 : 0);
        if (cambi_inside(scale, x, y + r)) {
            cambi_take(args, levels & 0xffff, &extremes);
            if (two && x + 1 < scale->width) {
                cambi_take(args, levels >> 16, &extremes);
                *(GPU_GLOBAL uint32_t *)(scale->pixels + 2 * (uint64_t)((y + r) * scale->pitch + x)) = levels;
            } else {
                cambi_store_pixel(scale, x, y + r, levels & 0xffff);
            }
        }
        GPU_UNROLL
        for (int i = r * stride; i < (r + 1) * stride; i++)
            sum -= equals[i];
        if (r % VG_CAMBI_CELL_ROWS == VG_CAMBI_CELL_ROWS - 1) {
            cambi_store_cell(scale, x, y + r - (VG_CAMBI_CELL_ROWS - 1), extremes, VG_CAMBI_CELL_COLUMNS / (1 + two));
            extremes.highest = extremes.lowest = 0;
        }
    }
}

/* Adds the block's largest sample to the frame's. */
GPU_FN void cambi_add_largest(const VgCambiArgs *args, uint32_t largest)
{
    GPU_SHARED uint32_t of_block;

    if (gpu_tid(0) == 0)
        of_block = 0;
    gpu_barrier();
    for (uint32_t by = gpu_wave() / 2; by; by /= 2)
        largest = cambi_larger(largest, gpu_shfl_xor32(largest, by));
    if (gpu_lane() == 0)
        gpu_atomic_max32(&of_block, largest);
    gpu_barrier();
    if (gpu_tid(0) == 0)
        gpu_atomic_max32((uint32_t *)args->largest, of_block);
}

GPU_FN void cambi_make_planes(const VgCambiArgs *args, const int stride)
{
    GPU_SHARED uint64_t tile_words[TILE_ROWS * TILE_PITCH / 4];
    GPU_SHARED uint16_t equal[EQUAL_ROWS][EQUAL_WINDOWS];
    uint16_t *const tile = (uint16_t *)(void *)tile_words;
    const int32_t first_x = (int32_t)gpu_bid(0) * VG_CAMBI_TILE_COLUMNS;
    const int32_t first_y = (int32_t)gpu_bid(1) * VG_CAMBI_TILE_ROWS;

    const uint32_t largest = cambi_load_any_tile(args, tile, first_x, first_y);
    if (args->params.bit_depth > 8 && !args->columns)
        cambi_add_largest(args, largest);
    gpu_barrier();
    cambi_compare(args, tile, equal, first_x, first_y);
    gpu_barrier();
    cambi_first_scale(args, tile, (const uint16_t(*)[EQUAL_WINDOWS])equal, stride);
}

GPU_KERNEL_RESIDENT(cambi_planes, VgCambiArgs, VG_CAMBI_BLOCK, 4)
{
    cambi_make_planes(&args, 1);
}

/* The first scale is halved already. */
GPU_KERNEL_RESIDENT(cambi_planes_halved, VgCambiArgs, VG_CAMBI_BLOCK, 4)
{
    cambi_make_planes(&args, 2);
}

/* Of planes that are resampled, which does not look at all samples. A block takes every so manyth row. */
GPU_KERNEL(cambi_largest, VgCambiArgs, VG_CAMBI_BLOCK)
{
    uint32_t largest = 0;

    for (int32_t y = (int32_t)gpu_bid(0); y < args.params.height; y += (int32_t)gpu_grid(0)) {
        const uint64_t row = gpu_row(&args.luma, y);
        for (int32_t x = (int32_t)gpu_tid(0); x < args.params.width; x += VG_CAMBI_BLOCK)
            largest = cambi_larger(largest, (uint32_t)gpu_row_sample(&args.luma, row, x));
    }
    cambi_add_largest(&args, largest);
}

/* ---- Pyramid ------------------------------------------------------------------------------------------------------ */

/*
 * Of each scale a block owns so much, beginning at a multiple of that, and has unfiltered pixels around it, which are the
 * filtered ones of the scale before with even coordinates.
 */
#define OWN_COLUMNS(s)    (VG_CAMBI_PYRAMID_COLUMNS << (VG_CAMBI_SCALES - 1 - (s)))
#define OWN_ROWS(s)       (VG_CAMBI_PYRAMID_ROWS << (VG_CAMBI_SCALES - 1 - (s)))
#define MARGIN_BEFORE(s)  ((2 << (VG_CAMBI_SCALES - 1 - (s))) - 1)
#define MARGIN_BEHIND(s)  (1 << (VG_CAMBI_SCALES - 1 - (s)))
#define REGION_COLUMNS(s) (OWN_COLUMNS(s) + MARGIN_BEFORE(s) + MARGIN_BEHIND(s))
#define REGION_ROWS(s)    (OWN_ROWS(s) + MARGIN_BEFORE(s) + MARGIN_BEHIND(s))
#define REGION_PIXELS(s)  (REGION_COLUMNS(s) * REGION_ROWS(s))

typedef struct CambiRegion {
    uint16_t *pixels;
    int32_t x, y; /* of the first */
} CambiRegion;

GPU_FN CambiRegion cambi_region(uint16_t *pixels, const int s)
{
    const CambiRegion region = { pixels, (int32_t)gpu_bid(0) * OWN_COLUMNS(s) - MARGIN_BEFORE(s),
                                 (int32_t)gpu_bid(1) * OWN_ROWS(s) - MARGIN_BEFORE(s) };
    return region;
}

/* Modes along row y around column x. Only for rows and columns of the plane. */
GPU_FN int32_t cambi_region_mode(const VgCambiDeviceScale *scale, const CambiRegion *region, int32_t x, int32_t y,
                                 const int s)
{
    const int32_t at = x - region->x;
    return cambi_mode_along(region->pixels + (y - region->y) * REGION_COLUMNS(s), x > 0 ? at - 1 : at, at,
                            x < scale->width - 1 ? at + 1 : at);
}

GPU_FN uint32_t cambi_region_pixel(const CambiRegion *region, int32_t x, int32_t y, const int s)
{
    return region->pixels[(y - region->y) * REGION_COLUMNS(s) + x - region->x];
}

/* The block's cells of scale s: filters them, writes them and what the next scale takes of them. */
GPU_FN void cambi_filter_own(const VgCambiArgs *args, const CambiRegion *region, const CambiRegion *next, const int s)
{
    const VgCambiDeviceScale *const scale = &args->scales[s];
    const int across = OWN_COLUMNS(s) / VG_CAMBI_CELL_COLUMNS, cells = across * (OWN_ROWS(s) / VG_CAMBI_CELL_ROWS);
    const int at_once = VG_CAMBI_BLOCK / VG_CAMBI_CELL_COLUMNS;

    for (int first = 0; first < cells; first += at_once) { /* all threads stay to the end: lanes shuffle */
        const int cell = first + (int)gpu_tid(0) / VG_CAMBI_CELL_COLUMNS;
        const int32_t x = region->x + MARGIN_BEFORE(s) + cell % across * VG_CAMBI_CELL_COLUMNS +
                          (int32_t)gpu_tid(0) % VG_CAMBI_CELL_COLUMNS;
        const int32_t y = region->y + MARGIN_BEFORE(s) + cell / across * VG_CAMBI_CELL_ROWS;
        const int32_t height = scale->height;
        const int inside = cell < cells && x < scale->width;
        CambiExtremes extremes = { 0, 0 };
        int32_t modes[VG_CAMBI_CELL_ROWS + 2];

        GPU_UNROLL
        for (int r = 0; r < VG_CAMBI_CELL_ROWS + 2; r++)
            modes[r] = inside && y + r >= 1 && y + r <= height ? cambi_region_mode(scale, region, x, y + r - 1, s) : 0;
        GPU_UNROLL
        for (int r = 0; r < VG_CAMBI_CELL_ROWS; r++) {
            if (!inside || y + r >= height)
                continue;
            uint32_t pixel = cambi_region_pixel(region, x, y + r, s);
            if (y + r > 0 && y + r < height - 1)
                pixel = (pixel & VG_CAMBI_MASKED) | (uint32_t)vg_cambi_mode3(modes[r], modes[r + 1], modes[r + 2]);
            cambi_store_pixel(scale, x, y + r, pixel);
            cambi_take(args, pixel, &extremes);
            if (s < VG_CAMBI_SCALES - 1 && (x | r) % 2 == 0)
                next->pixels[((y + r) / 2 - next->y) * REGION_COLUMNS(s + 1) + x / 2 - next->x] = (uint16_t)pixel;
        }
        cambi_store_cell(scale, cell < cells ? x : scale->width, y, extremes, VG_CAMBI_CELL_COLUMNS);
    }
}

/* What the next scale takes of others' pixels of scale s. */
GPU_FN void cambi_filter_around(const VgCambiArgs *args, const CambiRegion *region, const CambiRegion *next,
                                const int s)
{
    const VgCambiDeviceScale *const scale = &args->scales[s];

    for (int i = (int)gpu_tid(0); i < REGION_PIXELS(s + 1); i += VG_CAMBI_BLOCK) {
        const int32_t column = i % REGION_COLUMNS(s + 1), row = i / REGION_COLUMNS(s + 1);
        const int32_t x = 2 * (next->x + column), y = 2 * (next->y + row);
        const int own = (uint32_t)(column - MARGIN_BEFORE(s + 1)) < (uint32_t)OWN_COLUMNS(s + 1) &&
                        (uint32_t)(row - MARGIN_BEFORE(s + 1)) < (uint32_t)OWN_ROWS(s + 1);
        if (own || !cambi_inside(scale, x, y))
            continue;
        uint32_t pixel = cambi_region_pixel(region, x, y, s);
        if (y > 0 && y < scale->height - 1)
            pixel = (pixel & VG_CAMBI_MASKED) | (uint32_t)vg_cambi_mode3(cambi_region_mode(scale, region, x, y - 1, s),
                                                                         cambi_region_mode(scale, region, x, y, s),
                                                                         cambi_region_mode(scale, region, x, y + 1, s));
        next->pixels[i] = (uint16_t)pixel;
    }
}

GPU_FN void cambi_load_region(const VgCambiArgs *args, const CambiRegion *region)
{
    const VgCambiDeviceScale *const before = &args->scales[0];

    for (int i = (int)gpu_tid(0); i < REGION_PIXELS(1); i += VG_CAMBI_BLOCK) {
        const int32_t x = 2 * (region->x + i % REGION_COLUMNS(1)), y = 2 * (region->y + i / REGION_COLUMNS(1));
        if (cambi_inside(before, x, y))
            region->pixels[i] = (uint16_t)gpu_load16(before->pixels + 2 * (uint64_t)((int64_t)y * before->pitch + x));
    }
}

/* What is known of the frame when all planes are read. */
GPU_FN void cambi_finish_planes(const VgCambiArgs *args)
{
    GPU_GLOBAL VgCambiRecord *const record = (GPU_GLOBAL VgCambiRecord *)args->record;
    GPU_GLOBAL uint32_t *const largest = (GPU_GLOBAL uint32_t *)args->largest;
    const int32_t other = VG_CAMBI_SIDES - 1 - args->side;

    record->largest[args->side] = *largest;
    *largest = 0;
    if (!args->alone)
        return;
    record->largest[other] = 0;
    /* Sums of 0 as their bits, so that the kernel has nothing to do with doubles. */
    GPU_GLOBAL uint64_t *const sums = (GPU_GLOBAL uint64_t *)(args->record + offsetof(VgCambiRecord, sums));
    for (int s = 0; s < VG_CAMBI_SCALES; s++)
        sums[other * VG_CAMBI_SCALES + s] = 0;
}

GPU_KERNEL(cambi_pyramid, VgCambiArgs, VG_CAMBI_BLOCK)
{
    GPU_SHARED uint16_t pixels1[REGION_PIXELS(1)];
    GPU_SHARED uint16_t pixels2[REGION_PIXELS(2)], pixels3[REGION_PIXELS(3)], pixels4[REGION_PIXELS(4)];
    const CambiRegion region1 = cambi_region(pixels1, 1), region2 = cambi_region(pixels2, 2);
    const CambiRegion region3 = cambi_region(pixels3, 3), region4 = cambi_region(pixels4, 4);

    if (gpu_tid(0) == 0 && gpu_bid(0) == 0 && gpu_bid(1) == 0)
        cambi_finish_planes(&args);
    cambi_load_region(&args, &region1);
    gpu_barrier();
    cambi_filter_own(&args, &region1, &region2, 1);
    cambi_filter_around(&args, &region1, &region2, 1);
    gpu_barrier();
    cambi_filter_own(&args, &region2, &region3, 2);
    cambi_filter_around(&args, &region2, &region3, 2);
    gpu_barrier();
    cambi_filter_own(&args, &region3, &region4, 3);
    cambi_filter_around(&args, &region3, &region4, 3);
    gpu_barrier();
    cambi_filter_own(&args, &region4, &region4, 4);
}

/* ---- Counting: what all kernels share ----------------------------------------------------------------------------- */

/* A block's pixels of a scale: a strip of columns of a segment of rows. */
typedef struct CambiStrip {
    VgCambiDeviceScale scale;
    uint64_t totals;
    int32_t first_x, first_y, end_y;
    int32_t lowest, highest; /* of levels that have values; lowest > highest: none */
} CambiStrip;

/* Lanes that reduce together: those of a wave, or of half of one. Blocks are multiples of 32. */
GPU_FN uint32_t cambi_group(void)
{
    return gpu_wave() < 32 ? gpu_wave() : 32;
}

GPU_FN void cambi_find_levels(CambiStrip *strip, const uint32_t block_size, const int columns)
{
    GPU_SHARED uint32_t extremes_of_block[2];
    const int32_t first = strip->first_x / VG_CAMBI_CELL_COLUMNS, left = strip->scale.cells_pitch - first;
    const int32_t across = left < columns / VG_CAMBI_CELL_COLUMNS ? left : columns / VG_CAMBI_CELL_COLUMNS;
    const int32_t down = (strip->end_y - strip->first_y + VG_CAMBI_CELL_ROWS - 1) / VG_CAMBI_CELL_ROWS;
    const uint64_t cells =
        strip->scale.cells + 4 * (uint64_t)(strip->first_y / VG_CAMBI_CELL_ROWS * strip->scale.cells_pitch + first);
    CambiExtremes extremes = { 0, 0 };

    if (gpu_tid(0) == 0)
        extremes_of_block[0] = extremes_of_block[1] = 0;
    gpu_barrier();
    for (int32_t i = (int32_t)gpu_tid(0); i < columns / VG_CAMBI_CELL_COLUMNS * down; i += (int32_t)block_size) {
        const int32_t column = i % (columns / VG_CAMBI_CELL_COLUMNS), row = i / (columns / VG_CAMBI_CELL_COLUMNS);
        if (column < across) {
            const uint32_t cell = gpu_load32(cells + 4 * (uint64_t)(row * strip->scale.cells_pitch + column));
            extremes.highest = cambi_larger(extremes.highest, cell >> 16);
            extremes.lowest = cambi_larger(extremes.lowest, VG_CAMBI_EMPTY_CELL - (cell & 0xffff));
        }
    }
    cambi_join(&extremes, cambi_group());
    if (gpu_lane() % cambi_group() == 0 && extremes.lowest) {
        gpu_atomic_max32(&extremes_of_block[0], extremes.highest);
        gpu_atomic_max32(&extremes_of_block[1], extremes.lowest);
    }
    gpu_barrier();
    strip->highest = (int32_t)extremes_of_block[0];
    strip->lowest = (int32_t)(VG_CAMBI_EMPTY_CELL - extremes_of_block[1]);
}

GPU_FN CambiStrip cambi_strip_of_block(const VgCambiArgs *args, const uint32_t block_size, const int columns)
{
    CambiStrip strip;
    int s = 0;

    for (int i = 1; i < VG_CAMBI_SCALES; i++)
        s += gpu_bid(0) >= args->scales[i].first_block;
    strip.scale = args->scales[s];
    strip.totals = args->totals + (uint64_t)s * sizeof(VgCambiTotals);
    const uint32_t block = gpu_bid(0) - strip.scale.first_block;
    strip.first_x = (int32_t)(block % strip.scale.strips) * columns;
    strip.first_y = (int32_t)(block / strip.scale.strips) * strip.scale.rows;
    const int32_t end = strip.first_y + strip.scale.rows;
    strip.end_y = end < strip.scale.height ? end : strip.scale.height;
    cambi_find_levels(&strip, block_size, columns);
    return strip;
}

GPU_FN void cambi_store_value(const CambiStrip *strip, int32_t x, int32_t y, float value)
{
    ((GPU_GLOBAL float *)strip->scale.values)[(int64_t)y * strip->scale.width + x] = value;
}

/* Values of a strip without levels that have any. */
GPU_FN void cambi_store_zeros(const CambiStrip *strip, const uint32_t block_size, const int columns)
{
    const int32_t x = strip->first_x + (int32_t)gpu_tid(0) % columns;
    const int32_t at_once = (int32_t)block_size / columns, first = (int32_t)gpu_tid(0) / columns;

    if (x >= strip->scale.width || first >= at_once)
        return;
    for (int32_t y = strip->first_y + first; y < strip->end_y; y += at_once)
        cambi_store_value(strip, x, y, 0);
}

/* Pixel (x, y), or one without mask outside the plane. */
GPU_FN uint32_t cambi_pixel(const VgCambiDeviceScale *scale, int32_t x, int32_t y)
{
    return cambi_inside(scale, x, y) ? gpu_load16(scale->pixels + 2 * (uint64_t)(y * scale->pitch + x)) : 0;
}

/* Levels that a strip keeps counts of at a time, of which those that lie n inside have all that a value needs. */
typedef struct CambiBand {
    int32_t first, levels; /* slot i is level first + i, which may be below 0 */
    int32_t n;
    int32_t is_first; /* of the strip's bands: it answers for pixels without values */
} CambiBand;

/* Slot of a pixel's level; beyond all slots if it is not masked or of another band. */
GPU_FN uint32_t cambi_slot(const CambiBand *band, uint32_t pixel)
{
    return (pixel ^ VG_CAMBI_MASKED) - (uint32_t)band->first;
}

/* The first difference that counts for a slot, in a table of the band's slots; n + 1 if none or not here. */
GPU_FN int32_t cambi_first_of_slot(const CambiBand *band, const uint8_t *first_differences, uint32_t slot)
{
    return slot - (uint32_t)band->n < (uint32_t)(band->levels - 2 * band->n) ? first_differences[slot] : band->n + 1;
}

GPU_FN void cambi_list_differences(const VgCambiArgs *args, const CambiBand *band, uint8_t *first_differences,
                                   const uint32_t block_size)
{
    for (int32_t slot = (int32_t)gpu_tid(0); slot < band->levels; slot += (int32_t)block_size)
        first_differences[slot] = (uint8_t)vg_cambi_first_difference(&args->params, band->first + slot);
}

/* A thread's share of a scale's totals. */
typedef struct CambiTotals {
    uint64_t sum, bits;
    uint32_t nonzero;
} CambiTotals;

GPU_FN void cambi_total(CambiTotals *totals, float value)
{
    const uint64_t units = vg_cambi_units(value);

    totals->sum += units;
    totals->bits |= units;
    totals->nonzero += value != 0;
}

/* All threads of the block take part. */
GPU_FN void cambi_add_totals(const CambiStrip *strip, CambiTotals t)
{
    VgCambiTotals *const totals = (VgCambiTotals *)strip->totals;
    uint32_t *const bits = (uint32_t *)&totals->bits;

    for (uint32_t by = cambi_group() / 2; by; by /= 2) {
        t.sum += gpu_shfl_down64(t.sum, by);
        t.bits |= gpu_shfl_down64(t.bits, by);
        t.nonzero += gpu_shfl_down32(t.nonzero, by);
    }
    if (gpu_lane() % cambi_group() != 0 || t.nonzero == 0)
        return;
    gpu_atomic_add64(&totals->sum, t.sum);
    gpu_atomic_or32(&bits[0], (uint32_t)t.bits);
    gpu_atomic_or32(&bits[1], (uint32_t)(t.bits >> 32));
    gpu_atomic_add32(&totals->nonzero, t.nonzero);
}

/* The value of difference d, from the windows' counts of the pixel's own level and of those d above and below. */
GPU_FN float cambi_value(const VgCambiArgs *args, uint32_t own, uint32_t above, uint32_t below, int32_t d,
                         const int wide)
{
    const uint32_t other = cambi_larger(above, below);
    const float reciprocal = gpu_loadf(args->reciprocals + 4 * (uint64_t)(own + other));
    return wide ? vg_cambi_value_wide(cambi_weights[d - 1], own, other, reciprocal)
                : vg_cambi_value(cambi_weights[d - 1], own, other, reciprocal);
}

/* ---- Counting in strips ------------------------------------------------------------------------------------------- */

/*
 * A block marches down its strip and keeps, for each level of the band and each column, the number of masked pixels of
 * that level in the window's rows, in a byte. A window's count is a sum of neighbouring bytes.
 *
 * First, one thread for each column moves the counts down a row; at the same time one thread for each pixel makes the
 * values of the row before from its window counts, and a wave lists the row's tasks: runs of equal pixels in an octet, eight
 * columns from a multiple of eight on. Then, after a barrier, all threads do the tasks, each of them as many times as there
 * are levels to count: eight windows at a time.
 */
#define STRIP_COLUMNS VG_CAMBI_STRIP_COLUMNS
#define STRIP_BLOCK   VG_CAMBI_STRIP_BLOCK
#define FIRST_VALUER  VG_CAMBI_STRIP_UPDATERS
#define FIRST_LISTER  (VG_CAMBI_STRIP_UPDATERS + VG_CAMBI_STRIP_COLUMNS)
#define MOST_TASKS    STRIP_COLUMNS
#define INVERSE_BITS  21

/* A task: slot, octet, which of the octet's pixels, and the first difference that counts. */
#define TASK(slot, octet, pixels, first) ((slot) | (octet) << 12 | (pixels) << 16 | (uint32_t)(first) << 24)
#define TASK_SLOT(task)                  ((task)&0xfff)
#define TASK_OCTET(task)                 ((task) >> 12 & 0xf)
#define TASK_PIXELS(task)                ((task) >> 16 & 0xff)
#define TASK_FIRST(task)                 ((int32_t)((task) >> 24))

/* A block's dynamic shared memory. */
typedef struct CambiCounts {
    uint8_t *columns;           /* [levels][pitch] */
    uint16_t *windows;          /* [2 * n + 1][STRIP_COLUMNS]: own level, then above and below of n, n - 1, .. 1 */
    uint32_t *tasks;            /* [MOST_TASKS] */
    uint8_t *first_differences; /* [levels] */
    int32_t pitch;
} CambiCounts;

/* What a thread has read of a row for its part, two rows ahead. */
typedef struct CambiAhead {
    uint32_t a, b;
} CambiAhead;

/* The pixels of the thread's column in a row, in the lower half, and of the one that is UPDATERS to the right. */
GPU_FN uint32_t cambi_load_columns(const VgCambiDeviceScale *scale, int32_t y, int32_t x, int32_t second_x,
                                   const int two)
{
    uint32_t pixels = cambi_pixel(scale, x, y);
    if (two)
        pixels |= cambi_pixel(scale, second_x, y) << 16;
    return pixels;
}

/* Moves a column's counts: a pixel enters, another leaves. They are not at the same place unless they are equal. */
GPU_FN void cambi_move(const CambiBand *band, uint8_t *column, int32_t pitch, uint32_t entering, uint32_t leaving)
{
    const uint32_t in = cambi_slot(band, entering), out = cambi_slot(band, leaving);
    const int enters = in < (uint32_t)band->levels, leaves = out < (uint32_t)band->levels;
    uint8_t *const to = column + (enters ? in : 0) * (uint32_t)pitch;
    uint8_t *const from = column + (leaves ? out : 0) * (uint32_t)pitch;

    if (entering == leaving)
        return;
    const uint32_t more = *to + 1u, fewer = *from - 1u;
    if (enters)
        *to = (uint8_t)more;
    if (leaves)
        *from = (uint8_t)fewer;
}

/* Columns and their counts before the segment's first row: those of the rows above it that its window has. */
GPU_FN void cambi_begin_columns(const CambiStrip *strip, const CambiBand *band, const CambiCounts *counts, int32_t half,
                                int32_t x, int32_t second_x, const int two)
{
    const int32_t first = strip->first_y - half > 0 ? strip->first_y - half : 0;
    const int32_t last = strip->first_y + half < strip->scale.height ? strip->first_y + half : strip->scale.height;
    uint8_t *const column = counts->columns + gpu_tid(0);

    for (int32_t y = first; y < last; y += 8) {
        uint32_t pixels[8];
        GPU_UNROLL
        for (int i = 0; i < 8; i++)
            pixels[i] = y + i < last ? cambi_load_columns(&strip->scale, y + i, x, second_x, two) : 0;
        GPU_UNROLL
        for (int i = 0; i < 8; i++) {
            cambi_move(band, column, counts->pitch, pixels[i] & 0xffff, 0);
            if (two)
                cambi_move(band, column + VG_CAMBI_STRIP_UPDATERS, counts->pitch, pixels[i] >> 16, 0);
        }
    }
}

/* Four pixels from x on, in two words; those beyond the plane are not masked. */
GPU_FN CambiAhead cambi_load_four(const VgCambiDeviceScale *scale, int32_t x, int32_t y)
{
    const int32_t left = scale->width - x;
    CambiAhead four = { 0, 0 };

    if (left <= 0)
        return four;
    const GpuWords words = gpu_load64(scale->pixels + 2 * (uint64_t)(y * scale->pitch + x));
    four.a = left > 1 ? words.w[0] : words.w[0] & 0xffff;
    four.b = left > 3 ? words.w[1] : left > 2 ? words.w[1] & 0xffff : 0;
    return four;
}

/* Whatever the thread needs to know for row y, of which the values are those of the row before. */
GPU_FN CambiAhead cambi_look_ahead(const CambiStrip *strip, int32_t y, int32_t half, int32_t x, int32_t second_x,
                                   const int two)
{
    CambiAhead ahead = { 0, 0 };

    if (gpu_tid(0) < FIRST_VALUER) {
        if (y < strip->end_y)
            ahead.a = cambi_load_columns(&strip->scale, y + half, x, second_x, two);
        if (y > strip->first_y && y < strip->end_y)
            ahead.b = cambi_load_columns(&strip->scale, y - half - 1, x, second_x, two);
    } else if (gpu_tid(0) < FIRST_LISTER) {
        if (y > strip->first_y && y <= strip->end_y)
            ahead.a = cambi_pixel(&strip->scale, x, y - 1);
    } else if (y < strip->end_y) {
        ahead = cambi_load_four(&strip->scale, x, y);
    }
    return ahead;
}

/*
 * Lists the tasks of four pixels of each lane; `four` is the number of the lane's four in the strip, an even one in the
 * wave's first lane. `before` are listed already; returns how many are then. All lanes take part.
 */
GPU_FN uint32_t cambi_list_tasks(const CambiBand *band, const CambiCounts *counts, CambiAhead pixels, uint32_t four,
                                 uint32_t before)
{
    const uint32_t none = 0xffff, below = (1u << gpu_lane() % 32) - 1;
    uint32_t slots[4], heads = 0, joined = 0, index = before, n = before;
    int32_t firsts[4];

    GPU_UNROLL
    for (int j = 0; j < 4; j++) {
        const uint32_t slot = cambi_slot(band, (j < 2 ? pixels.a : pixels.b) >> (16 * (j & 1)) & 0xffff);
        firsts[j] = cambi_first_of_slot(band, counts->first_differences, slot);
        slots[j] = firsts[j] <= band->n ? slot : none;
    }
    uint32_t left = gpu_shfl_up32(slots[3], 1);
    if (four % 2 == 0)
        left = none;
    GPU_UNROLL
    for (int j = 0; j < 4; j++) {
        const uint32_t needed = slots[j] != none, same = slots[j] == (j ? slots[j - 1] : left);
        heads |= (needed & !same) << j;
        joined |= (needed & same) << j;
        const uint32_t votes = (uint32_t)gpu_ballot(heads >> j & 1);
        index += gpu_popc32(votes & below);
        n += gpu_popc32(votes);
    }
    const uint32_t shift = four % 2 * 4; /* of the lane's pixels in the octet */
    joined = joined << shift | gpu_shfl_xor32(joined, 1) << (4 - shift);
    GPU_UNROLL
    for (int j = 0; j < 4; j++) {
        const uint32_t first = shift + (uint32_t)j, behind = joined >> (first + 1);
        const uint32_t run = 1 | (behind ^ (behind + 1)) >> 1 << 1; /* the ones at the end of `behind` */
        if (heads >> j & 1)
            counts->tasks[index++] = TASK(slots[j], four / 2, run << first, firsts[j]);
    }
    return n;
}

/* Lists the tasks of row y, of which `pixels` are the lane's first four. A wave does that, if it is a small one in turns. */
GPU_FN void cambi_list_row(const CambiStrip *strip, const CambiBand *band, const CambiCounts *counts, CambiAhead pixels,
                           int32_t y, uint32_t *n_tasks)
{
    uint32_t n = 0;

    for (uint32_t four = gpu_lane(); four < VG_CAMBI_STRIP_LISTERS; four += cambi_group()) {
        if (four >= cambi_group())
            pixels = cambi_load_four(&strip->scale, strip->first_x + 4 * (int32_t)four, y);
        n = cambi_list_tasks(band, counts, pixels, four, n);
    }
    if (gpu_lane() == 0)
        *n_tasks = n;
}

/* Windows of an octet's pixels, counted in a row of the columns' counts, from the octet's first column on. */
typedef struct CambiOctet {
    uint32_t counts[8];
} CambiOctet;

GPU_FN uint32_t cambi_four_bytes(uint32_t low, uint32_t high, uint32_t shift)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> shift);
}

/*
 * The row begins `spare` columns, 0 to 3, before the first window. Windows have the bytes between eight at their left and
 * eight at their right in common; of those at the left each has one fewer than the one before, of those at the right one
 * more.
 */
GPU_FN CambiOctet cambi_count_octet(const uint8_t *row, const int halo, uint32_t spare)
{
    const uint32_t ones = 0x01010101;
    const CambiWord *const words = (const CambiWord *)(const void *)row;
    const uint64_t word0 = words[0], word1 = words[1];
    const uint32_t middle = (uint32_t)word1;
    uint32_t inner = gpu_dp4a(middle, ones << (8 * spare), 0), last = (uint32_t)(word1 >> 32);
    CambiOctet octet;

    for (int i = 2; i < halo / 4; i++) {
        const uint64_t word = words[i];
        inner = gpu_dp4a(last, ones, inner);
        inner = gpu_dp4a((uint32_t)word, ones, inner);
        last = (uint32_t)(word >> 32);
    }
    inner = gpu_dp4a(last, ones >> (8 * spare), inner);
    const uint64_t end = words[halo / 4];
    const uint32_t left0 = cambi_four_bytes((uint32_t)word0, (uint32_t)(word0 >> 32), 8 * spare);
    const uint32_t left1 = cambi_four_bytes((uint32_t)(word0 >> 32), middle, 8 * spare);
    const uint32_t right0 = cambi_four_bytes(last, (uint32_t)end, 32 - 8 * spare);
    const uint32_t right1 = cambi_four_bytes((uint32_t)end, (uint32_t)(end >> 32), 32 - 8 * spare);
    const uint32_t lefts = gpu_dp4a(left1, ones, inner), rights = gpu_dp4a(right0, ones, inner);
    const uint32_t both = gpu_dp4a(left1, ones, rights);

    octet.counts[0] = gpu_dp4a(left0, ones, gpu_dp4a(right0, ones >> 24, lefts));
    octet.counts[1] = gpu_dp4a(left0, ones << 8, gpu_dp4a(right0, ones >> 16, lefts));
    octet.counts[2] = gpu_dp4a(left0, ones << 16, gpu_dp4a(right0, ones >> 8, lefts));
    octet.counts[3] = gpu_dp4a(left0, ones << 24, both);
    octet.counts[4] = gpu_dp4a(right1, ones >> 24, both);
    octet.counts[5] = gpu_dp4a(left1, ones << 8, gpu_dp4a(right1, ones >> 16, rights));
    octet.counts[6] = gpu_dp4a(left1, ones << 16, gpu_dp4a(right1, ones >> 8, rights));
    octet.counts[7] = gpu_dp4a(left1, ones << 24, gpu_dp4a(right1, ones, rights));
    return octet;
}

GPU_FN void cambi_store_octet(uint16_t *windows, const CambiOctet *octet, uint32_t pixels)
{
    if (pixels == 0xff) {
        GPU_UNROLL
        for (int i = 0; i < 2; i++)
            ((CambiWord *)windows)[i] = (uint64_t)(octet->counts[4 * i + 2] | octet->counts[4 * i + 3] << 16) << 32 |
                                        (octet->counts[4 * i] | octet->counts[4 * i + 1] << 16);
        return;
    }
    GPU_UNROLL
    for (int i = 0; i < 8; i++)
        if (pixels >> i & 1)
            windows[i] = (uint16_t)octet->counts[i];
}

/* A row's tasks, for each level; those at the largest distance first, which are needed most. */
GPU_FN void cambi_do_tasks(const CambiCounts *counts, uint32_t n_tasks, uint32_t inverse, const int32_t n,
                           const int halo, uint32_t spare)
{
    for (uint32_t i = gpu_tid(0); i < (uint32_t)(2 * n + 1) * n_tasks; i += STRIP_BLOCK) {
        /* The quotient by n_tasks: the inverse is too large by at most n_tasks / 2^21, and i is below 2^21 / n_tasks. */
        const uint32_t k = i * inverse >> INVERSE_BITS, task = counts->tasks[i - k * n_tasks];
        const int32_t d = k ? n - (int32_t)(k - 1) / 2 : 0;
        if (k && d < TASK_FIRST(task))
            continue;
        const int32_t slot = (int32_t)TASK_SLOT(task) + (k & 1 ? d : -d);
        const uint8_t *const row = counts->columns + slot * counts->pitch + 8 * TASK_OCTET(task);
        const CambiOctet octet = cambi_count_octet(row, halo, spare);
        cambi_store_octet(counts->windows + k * STRIP_COLUMNS + 8 * TASK_OCTET(task), &octet, TASK_PIXELS(task));
    }
}

/* The value of a pixel, made from its window counts. */
GPU_FN float cambi_strip_value(const VgCambiArgs *args, const CambiCounts *counts, int32_t column, int32_t first,
                               const int32_t n)
{
    const uint16_t *const windows = counts->windows + column;
    const uint32_t own = windows[0];
    float largest = 0;

    for (int32_t d = n; d >= 1; d--) {
        const uint16_t *const others = windows + (2 * (n - d) + 1) * STRIP_COLUMNS;
        if (d < first)
            continue;
        const float value = cambi_value(args, own, others[0], others[STRIP_COLUMNS], d, 0);
        largest = value > largest ? value : largest;
    }
    return largest;
}

/* Value of pixel (x, y - 1), if this band has it to say. */
GPU_FN void cambi_value_before(const VgCambiArgs *args, const CambiStrip *strip, const CambiBand *band,
                               const CambiCounts *counts, uint32_t pixel, int32_t x, int32_t y, CambiTotals *totals,
                               const int32_t n)
{
    const int32_t first = cambi_first_of_slot(band, counts->first_differences, cambi_slot(band, pixel));

    if (first <= n) {
        const float value = cambi_strip_value(args, counts, x - strip->first_x, first, n);
        cambi_store_value(strip, x, y - 1, value);
        cambi_total(totals, value);
    } else if (band->is_first && !cambi_has_values(args, pixel)) {
        cambi_store_value(strip, x, y - 1, 0);
    }
}

/* One band of a strip. */
GPU_FN void cambi_march(const VgCambiArgs *args, const CambiStrip *strip, const CambiBand *band, CambiTotals *totals,
                        const int32_t n, const int halo)
{
    GPU_SHARED uint32_t n_tasks[2], inverses[MOST_TASKS + 1];
    const int two = VG_CAMBI_STRIP_PITCH(halo) > VG_CAMBI_STRIP_UPDATERS;
    const int32_t half = args->params.sides[args->side].window / 2, thread = (int32_t)gpu_tid(0);
    const uint32_t spare = (uint32_t)(halo - half);
    CambiCounts counts;
    int32_t x, second_x = -1;

    counts.pitch = VG_CAMBI_STRIP_PITCH(halo);
    counts.columns = (uint8_t *)gpu_dynamic_shared();
    counts.windows = (uint16_t *)(void *)(counts.columns + band->levels * counts.pitch);
    counts.tasks = (uint32_t *)(void *)(counts.windows + (2 * n + 1) * STRIP_COLUMNS);
    counts.first_differences = (uint8_t *)(counts.tasks + MOST_TASKS);

    if (thread < FIRST_VALUER) {
        x = thread < counts.pitch ? strip->first_x - halo + thread : -1;
        if (two && thread + VG_CAMBI_STRIP_UPDATERS < counts.pitch)
            second_x = strip->first_x - halo + thread + VG_CAMBI_STRIP_UPDATERS;
    } else if (thread < FIRST_LISTER) {
        x = strip->first_x + thread - FIRST_VALUER;
    } else {
        x = strip->first_x + 4 * (thread - FIRST_LISTER);
    }

    gpu_barrier(); /* the band before may still be in use */
    for (int32_t i = thread; i < band->levels * counts.pitch / 8; i += STRIP_BLOCK)
        ((CambiWord *)(void *)counts.columns)[i] = 0;
    for (uint32_t i = gpu_tid(0) + 1; i <= MOST_TASKS; i += STRIP_BLOCK)
        inverses[i] = (1u << INVERSE_BITS) / i + 1;
    cambi_list_differences(args, band, counts.first_differences, STRIP_BLOCK);
    gpu_barrier();
    if (thread < FIRST_VALUER)
        cambi_begin_columns(strip, band, &counts, half, x, second_x, two);

    CambiAhead now = cambi_look_ahead(strip, strip->first_y, half, x, second_x, two);
    CambiAhead next = cambi_look_ahead(strip, strip->first_y + 1, half, x, second_x, two);
    for (int32_t y = strip->first_y; y <= strip->end_y; y++) {
        const CambiAhead after_next = cambi_look_ahead(strip, y + 2, half, x, second_x, two);
        if (thread < FIRST_VALUER) {
            cambi_move(band, counts.columns + thread, counts.pitch, now.a & 0xffff, now.b & 0xffff);
            if (two)
                cambi_move(band, counts.columns + thread + VG_CAMBI_STRIP_UPDATERS, counts.pitch, now.a >> 16,
                           now.b >> 16);
        } else if (thread < FIRST_LISTER) {
            if (y > strip->first_y && x < strip->scale.width)
                cambi_value_before(args, strip, band, &counts, now.a, x, y, totals, n);
        } else if (y < strip->end_y && thread - FIRST_LISTER < (int32_t)cambi_group()) {
            cambi_list_row(strip, band, &counts, now, y, &n_tasks[y & 1]);
        }
        now = next;
        next = after_next;
        if (y == strip->end_y)
            break;
        gpu_barrier();
        /* Two numbers in turn: without tasks, the next row's list is made while others still look at this one's. */
        if (n_tasks[y & 1]) {
            cambi_do_tasks(&counts, n_tasks[y & 1], inverses[n_tasks[y & 1]], n, halo, spare);
            gpu_barrier();
        }
    }
}

GPU_FN void cambi_count_strips(const VgCambiArgs *args, const int32_t n, const int halo)
{
    const CambiStrip strip = cambi_strip_of_block(args, STRIP_BLOCK, STRIP_COLUMNS);
    CambiBand band = { strip.lowest - n, args->levels, n, 1 };
    CambiTotals totals = { 0, 0, 0 };

    if (strip.lowest > strip.highest) {
        cambi_store_zeros(&strip, STRIP_BLOCK, STRIP_COLUMNS);
        return;
    }
    for (; band.first + n <= strip.highest; band.first += band.levels - 2 * n) {
        cambi_march(args, &strip, &band, &totals, n, halo);
        band.is_first = 0;
    }
    cambi_add_totals(&strip, totals);
}

/* Windows of 59 to 65 columns, four differences: the defaults at 3840x2160. */
GPU_KERNEL_RESIDENT(cambi_count_65, VgCambiArgs, VG_CAMBI_STRIP_BLOCK, 3)
{
    cambi_count_strips(&args, 4, 32);
}

/* Windows of 27 to 33 columns, four differences: the defaults at 1920x1080, or at 3840x2160 with halved planes. */
GPU_KERNEL_RESIDENT(cambi_count_33, VgCambiArgs, VG_CAMBI_STRIP_BLOCK, 3)
{
    cambi_count_strips(&args, 4, 16);
}

/* Other windows, from 11 to VG_CAMBI_NARROW_WINDOW, and other numbers of differences. */
GPU_KERNEL_RESIDENT(cambi_count, VgCambiArgs, VG_CAMBI_STRIP_BLOCK, 3)
{
    cambi_count_strips(&args, args.params.n_differences, args.halo);
}

/* ---- Counting in other windows ------------------------------------------------------------------------------------ */

/* In narrower strips, with counts of columns in 16 bits, a window of a level to a thread. */
GPU_FN void cambi_move_plainly(const VgCambiDeviceScale *scale, const CambiBand *band, uint16_t *columns,
                               int32_t first_x, int32_t pitch, int32_t y, int32_t one)
{
    for (int32_t column = (int32_t)gpu_tid(0); column < pitch; column += VG_CAMBI_BLOCK) {
        const uint32_t slot = cambi_slot(band, cambi_pixel(scale, first_x + column, y));
        if (slot < (uint32_t)band->levels)
            columns[slot * (uint32_t)pitch + (uint32_t)column] =
                (uint16_t)(columns[slot * (uint32_t)pitch + (uint32_t)column] + one);
    }
}

GPU_FN void cambi_count_windows(const CambiStrip *strip, const CambiBand *band, const uint16_t *columns,
                                uint32_t *windows, const uint8_t *first_differences, int32_t half, int32_t y)
{
    const int32_t pitch = VG_CAMBI_PLAIN_PITCH(half);

    for (int32_t i = (int32_t)gpu_tid(0); i < (2 * band->n + 1) * VG_CAMBI_PLAIN_COLUMNS; i += VG_CAMBI_BLOCK) {
        const int32_t column = i % VG_CAMBI_PLAIN_COLUMNS, difference = i / VG_CAMBI_PLAIN_COLUMNS - band->n;
        const uint32_t slot = cambi_slot(band, cambi_pixel(&strip->scale, strip->first_x + column, y));
        uint32_t count = 0;
        if (cambi_first_of_slot(band, first_differences, slot) > band->n)
            continue;
        for (int32_t k = 0; k <= 2 * half; k++)
            count += columns[((int32_t)slot + difference) * pitch + column + k];
        windows[i] = count;
    }
}

GPU_FN void cambi_value_windows(const VgCambiArgs *args, const CambiStrip *strip, const CambiBand *band,
                                const uint32_t *windows, const uint8_t *first_differences, int32_t y,
                                CambiTotals *totals)
{
    const int32_t column = (int32_t)gpu_tid(0), x = strip->first_x + column, n = band->n;
    float largest = 0;

    if (column >= VG_CAMBI_PLAIN_COLUMNS || x >= strip->scale.width)
        return;
    const uint32_t *const own = windows + n * VG_CAMBI_PLAIN_COLUMNS + column;
    const uint32_t pixel = cambi_pixel(&strip->scale, x, y);
    const int32_t first = cambi_first_of_slot(band, first_differences, cambi_slot(band, pixel));
    for (int32_t d = first; d <= n; d++) {
        const float value =
            cambi_value(args, own[0], own[d * VG_CAMBI_PLAIN_COLUMNS], own[-d * VG_CAMBI_PLAIN_COLUMNS], d, 1);
        largest = value > largest ? value : largest;
    }
    if (first <= n || (band->is_first && !cambi_has_values(args, pixel)))
        cambi_store_value(strip, x, y, largest);
    cambi_total(totals, largest);
}

GPU_FN void cambi_march_plainly(const VgCambiArgs *args, const CambiStrip *strip, const CambiBand *band,
                                CambiTotals *totals)
{
    const int32_t half = args->params.sides[args->side].window / 2, pitch = VG_CAMBI_PLAIN_PITCH(half);
    const int32_t first_x = strip->first_x - half;
    uint32_t *const windows = (uint32_t *)gpu_dynamic_shared();
    uint16_t *const columns = (uint16_t *)(windows + (2 * band->n + 1) * VG_CAMBI_PLAIN_COLUMNS);
    uint8_t *const first_differences = (uint8_t *)(columns + band->levels * pitch);

    gpu_barrier();
    for (int32_t i = (int32_t)gpu_tid(0); i < band->levels * pitch; i += VG_CAMBI_BLOCK)
        columns[i] = 0;
    cambi_list_differences(args, band, first_differences, VG_CAMBI_BLOCK);
    gpu_barrier();
    /* A thread's columns are its own. */
    for (int32_t y = strip->first_y - half; y < strip->first_y + half; y++)
        cambi_move_plainly(&strip->scale, band, columns, first_x, pitch, y, 1);
    for (int32_t y = strip->first_y; y < strip->end_y; y++) {
        cambi_move_plainly(&strip->scale, band, columns, first_x, pitch, y + half, 1);
        if (y > strip->first_y)
            cambi_move_plainly(&strip->scale, band, columns, first_x, pitch, y - half - 1, -1);
        gpu_barrier();
        cambi_count_windows(strip, band, columns, windows, first_differences, half, y);
        gpu_barrier();
        cambi_value_windows(args, strip, band, windows, first_differences, y, totals);
        /* The next row's counts of columns are nobody's concern now; its windows come after a barrier. */
    }
}

/* The widest windows and the smallest. */
GPU_KERNEL(cambi_count_plainly, VgCambiArgs, VG_CAMBI_BLOCK)
{
    const CambiStrip strip = cambi_strip_of_block(&args, VG_CAMBI_BLOCK, VG_CAMBI_PLAIN_COLUMNS);
    const int32_t n = args.params.n_differences;
    CambiBand band = { strip.lowest - n, args.levels, n, 1 };
    CambiTotals totals = { 0, 0, 0 };

    if (strip.lowest > strip.highest) {
        cambi_store_zeros(&strip, VG_CAMBI_BLOCK, VG_CAMBI_PLAIN_COLUMNS);
        return;
    }
    for (; band.first + n <= strip.highest; band.first += band.levels - 2 * n) {
        cambi_march_plainly(&args, &strip, &band, &totals);
        band.is_first = 0;
    }
    cambi_add_totals(&strip, totals);
}

/* ---- Heatmaps and tables ------------------------------------------------------------------------------------------ */

/* Of all scales, a row of blocks for each. */
GPU_KERNEL(cambi_heatmaps, VgCambiArgs, VG_CAMBI_BLOCK)
{
    const VgCambiDeviceScale scale = args.scales[gpu_bid(1)];
    const int64_t n = (int64_t)scale.width * scale.height, threads = (int64_t)gpu_grid(0) * VG_CAMBI_BLOCK;

    for (int64_t i = (int64_t)gpu_bid(0) * VG_CAMBI_BLOCK + gpu_tid(0); i < n; i += threads)
        ((GPU_GLOBAL uint16_t *)scale.heatmap)[i] =
            vg_cambi_heatmap(gpu_loadf(scale.values + 4 * (uint64_t)i), args.heatmap_factor);
}

/* The first block finds nearest samples, a thread to a row or column of samples, which are running sums; the others
   make reciprocals. */
GPU_KERNEL(cambi_tables, VgCambiTablesArgs, VG_CAMBI_BLOCK)
{
    const int32_t thread = (int32_t)gpu_tid(0);

    if (gpu_bid(0) == 0) {
        if (thread >= 2 * VG_CAMBI_SIDES || !args.nearest[thread])
            return;
        const float ratio = vg_cambi_ratio(args.size[thread], args.resampled_size[thread]);
        float position = vg_cambi_position(ratio);
        for (int32_t i = 0; i < args.resampled_size[thread]; i++) {
            ((GPU_GLOBAL uint16_t *)args.nearest[thread])[i] = (uint16_t)vg_cambi_nearest(position, args.size[thread]);
            position += ratio;
        }
        return;
    }
    for (int32_t i = ((int32_t)gpu_bid(0) - 1) * VG_CAMBI_BLOCK + thread; i < args.n_reciprocals;
         i += ((int32_t)gpu_grid(0) - 1) * VG_CAMBI_BLOCK)
        ((GPU_GLOBAL float *)args.reciprocals)[i] = vg_cambi_reciprocal(i);
}
