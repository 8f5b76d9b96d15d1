/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Comparison of records.
 */
#include "engine/parity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VALUE_SIZE (VG_NUMBER_SIZE + 24)

size_t vg_record_field_size(const VgRecordField *field)
{
    switch (field->type) {
    case VG_FIELD_I32:
    case VG_FIELD_U32:
    case VG_FIELD_F32:
        return 4;
    default:
        return 8;
    }
}

/* Integers in decimal; floats in full, and their bits, because zeros and NaNs look alike. */
static void value_text(const VgRecordField *field, const uint8_t *bytes, char text[VALUE_SIZE])
{
    uint32_t u32 = 0;
    uint64_t u64 = 0;
    float f32;
    double f64;
    char number[VG_NUMBER_SIZE];
    memcpy(vg_record_field_size(field) == 4 ? (void *)&u32 : (void *)&u64, bytes, vg_record_field_size(field));
    memcpy(&f32, &u32, sizeof(f32));
    memcpy(&f64, &u64, sizeof(f64));
    vg_number_text(field->type == VG_FIELD_F32 ? (double)f32 : f64, VG_PRECISION_FULL, number);
    switch (field->type) {
    case VG_FIELD_I32:
        snprintf(text, VALUE_SIZE, "%" PRId32, (int32_t)u32);
        break;
    case VG_FIELD_U32:
        snprintf(text, VALUE_SIZE, "%" PRIu32, u32);
        break;
    case VG_FIELD_I64:
        snprintf(text, VALUE_SIZE, "%" PRId64, (int64_t)u64);
        break;
    case VG_FIELD_U64:
        snprintf(text, VALUE_SIZE, "%" PRIu64, u64);
        break;
    case VG_FIELD_F32:
        snprintf(text, VALUE_SIZE, "%s (0x%08" PRIx32 ")", number, u32);
        break;
    case VG_FIELD_F64:
        snprintf(text, VALUE_SIZE, "%s (0x%016" PRIx64 ")", number, u64);
        break;
    }
}

/* The first sample in which planes behind records differ. */
static void report_sample(const VgLog *log, VgLogLevel level, uint64_t frame, const VgMetric *metric,
                          const void *params, const uint8_t *device, const uint8_t *cpu)
{
    const size_t n = metric->planes_size(params) / sizeof(uint16_t);
    uint16_t device_sample, cpu_sample;
    char name[100];
    size_t i = 0;

    while (i + 1 < n && !memcmp(device + 2 * i, cpu + 2 * i, 2))
        i++;
    memcpy(&device_sample, device + 2 * i, 2);
    memcpy(&cpu_sample, cpu + 2 * i, 2);
    metric->sample_name(params, i, name, sizeof(name));
    vg_log(log, level, "parity: frame %" PRIu64 ", %s, %s: the device has %u, the CPU %u", frame, metric->info.name,
           name, device_sample, cpu_sample);
}

/* Reports the first element in which two records differ. */
static void report(const VgLog *log, VgLogLevel level, uint64_t frame, const VgMetric *metric, const void *params,
                   const uint8_t *device, const uint8_t *cpu)
{
    for (const VgRecordField *field = metric->fields; field->name; field++) {
        const size_t size = vg_record_field_size(field);
        for (unsigned i = 0; i < field->count; i++) {
            const size_t at = field->offset + i * size;
            char index[16] = "", device_text[VALUE_SIZE], cpu_text[VALUE_SIZE];
            if (!memcmp(device + at, cpu + at, size))
                continue;
            if (field->count > 1)
                snprintf(index, sizeof(index), "[%u]", i);
            value_text(field, device + at, device_text);
            value_text(field, cpu + at, cpu_text);
            vg_log(log, level, "parity: frame %" PRIu64 ", %s, %s%s: the device has %s, the CPU %s", frame,
                   metric->info.name, field->name, index, device_text, cpu_text);
            return;
        }
    }
    if (metric->planes_size)
        report_sample(log, level, frame, metric, params, device + metric->record_size, cpu + metric->record_size);
}

void vg_parity_compare(VgParity *parity, const VgLog *log, uint64_t frame, const VgMetric *metric, const void *params,
                       const void *device, const void *cpu)
{
    parity->compared++;
    if (!memcmp(device, cpu, vg_record_size(metric, params)))
        return;
    if (!parity->different++)
        parity->first = frame;
    report(log, parity->different == 1 ? VG_LOG_ERROR : VG_LOG_DEBUG, frame, metric, params, device, cpu);
}

void vg_parity_total(const VgParity *parity, const VgLog *log)
{
    if (!parity->different)
        vg_log(log, VG_LOG_INFO, "parity: %" PRIu64 " records of %" PRIu64 " frames compared, all equal",
               parity->compared, parity->frames);
    else
        vg_log(log, VG_LOG_ERROR,
               "parity: %" PRIu64 " records of %" PRIu64 " frames compared, %" PRIu64
               " differ, first in frame %" PRIu64,
               parity->compared, parity->frames, parity->different, parity->first);
}
