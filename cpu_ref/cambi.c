/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * cambi on the CPU.
 */
#include "cpu_ref/cpu.h"
#include "cpu_ref/metrics.h"
#include "cpu_ref/x86/variants.h"

#define VG_LINKAGE static
#define VG_RUN     cambi_c
#include "cpu_ref/cambi_body.h"

void vg_cambi_show_stages(const VgCambiParams *params, const VgPlane *luma, int side, void *scratch,
                          const VgCambiObserver *observer)
{
    double sums[VG_CAMBI_SCALES];
    score_side(params, luma, side, scratch, sums, NULL, observer);
}

/* ---- Sums --------------------------------------------------------------------------------------------------------- */

/* Values are not negative, so that they are in order as their bits are. */
typedef struct Largest {
    uint32_t least; /* bits of the k-th largest */
    int64_t more;   /* how many are larger */
} Largest;

/* Narrows down the bits of the k-th largest value from the highest bits on: 11, 11 and 10 of them. */
static Largest find_largest(const float *values, int64_t n, int32_t top, uint32_t bins[VG_CAMBI_BINS])
{
    static const int shifts[] = { 21, 10, 0 }, widths[] = { 11, 11, 10 };
    Largest found = { 0, 0 };

    for (int pass = 0; pass < 3; pass++) {
        const int known = shifts[pass] + widths[pass];
        const uint32_t digit = (1u << widths[pass]) - 1;
        memset(bins, 0, VG_CAMBI_BINS * sizeof(*bins));
        for (int64_t i = 0; i < n; i++) {
            const uint32_t bits = vg_float_bits(values[i]);
            if ((uint64_t)bits >> known == (uint64_t)found.least >> known)
                bins[bits >> shifts[pass] & digit]++;
        }
        uint32_t bin = digit;
        while (found.more + bins[bin] < top)
            found.more += bins[bin--];
        found.least |= bin << shifts[pass];
    }
    return found;
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

static double ordered_sum(float *values, int64_t n, int32_t top)
{
    double sum = 0;

    if (top < n)
        select_largest(values, n, top);
    for (int64_t i = 0; i < top; i++)
        sum += (double)values[i];
    return sum;
}

double vg_cambi_sum_of_largest(const VgCambiParams *params, int side, float *values, int64_t n, int32_t top,
                               uint32_t bins[VG_CAMBI_BINS])
{
    uint64_t sum = 0, bits = 0;

    if (vg_cambi_sum_may_overflow(top, params->n_differences, params->sides[side].window))
        return ordered_sum(values, n, top);

    const Largest largest = find_largest(values, n, top, bins);
    for (int64_t i = 0; i < n; i++) {
        if (vg_float_bits(values[i]) <= largest.least)
            continue;
        sum += vg_cambi_units(values[i]);
        bits |= vg_cambi_units(values[i]);
    }
    /* At least one: the k-th itself. */
    sum += (uint64_t)(top - largest.more) * vg_cambi_units(vg_bits_float(largest.least));
    bits |= vg_cambi_units(vg_bits_float(largest.least));
    return vg_cambi_sum_exact(sum, bits) ? vg_cambi_sum(sum) : ordered_sum(values, n, top);
}

/* ---- Memory and bands --------------------------------------------------------------------------------------------- */

static void *take(uint8_t *memory, size_t *used, int64_t n, size_t element_size)
{
    void *row = memory ? memory + *used : NULL;
    *used += vg_row_size(n, element_size);
    return row;
}

size_t vg_cambi_scratch(const VgCambiParams *params, int side, void *memory, VgCambiScratch *scratch)
{
    const VgCambiSide *p = &params->sides[side];
    const int64_t first_width = vg_cambi_size(p->width, params->speedup, 0);
    const int64_t first_height = vg_cambi_size(p->height, params->speedup, 0);
    size_t used = 0;

    scratch->samples = take(memory, &used, params->width, sizeof(uint16_t));
    scratch->pixels = take(memory, &used, (int64_t)p->width * p->height, sizeof(uint16_t));
    scratch->values = take(memory, &used, first_width * first_height, sizeof(float));
    scratch->columns = take(memory, &used, p->width, sizeof(int32_t));
    for (int i = 0; i < 3; i++)
        scratch->filtered[i] = take(memory, &used, first_width, sizeof(uint16_t));
    for (int i = 0; i <= VG_CAMBI_MASK_SIDE; i++)
        scratch->equal[i] = take(memory, &used, p->width, 1);
    scratch->equal_sums = take(memory, &used, (int64_t)p->width + 2 * VG_CAMBI_MASK_HALF, 1);
    scratch->first_difference = take(memory, &used, VG_CAMBI_TOP_LEVEL + 1, 1);
    scratch->reciprocals = take(memory, &used, (int64_t)p->window * p->window + 1, sizeof(float));
    scratch->bins = take(memory, &used, VG_CAMBI_BINS, sizeof(uint32_t));
    scratch->counts = take(memory, &used, VG_CAMBI_LEVELS * first_width, sizeof(uint32_t));
    return used;
}

static size_t scratch_size(const void *params)
{
    size_t most = 0;

    for (int side = 0; side < VG_CAMBI_SIDES; side++) {
        VgCambiScratch scratch;
        const size_t size = vg_cambi_scratch(params, side, NULL, &scratch);
        most = size > most ? size : most;
    }
    return most;
}

static int max_bands(const void *params)
{
    const VgCambiParams *p = params;
    return p->sides[VG_CAMBI_SOURCE].window ? VG_CAMBI_SIDES : 1;
}

/* Each band has left the other's side 0. Heatmaps are the first band's. */
static void add(void *record, const void *other)
{
    VgCambiRecord *sum = record;
    const VgCambiRecord *part = other;

    for (int side = 0; side < VG_CAMBI_SIDES; side++) {
        for (int scale = 0; scale < VG_CAMBI_SCALES; scale++)
            sum->sums[side][scale] += part->sums[side][scale];
        sum->largest[side] += part->largest[side];
    }
}

static const VgCpuVariant variants[] = {
    { "c", vg_cpu_any, cambi_c },
    { 0 },
};

const VgCpuMetric vg_cpu_cambi = {
    .scratch_size = scratch_size,
    .max_bands = max_bands,
    .add = add,
    .variants = variants,
};
