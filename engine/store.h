/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Score store: one column of doubles by frame index for each key, each value present or absent, and aggregates.
 */
#ifndef VG_STORE_H
#define VG_STORE_H

#include <stdint.h>

/* Frames to a chunk. A chunk takes 8 bytes and a bit a frame; the table of chunks adds 8 bytes for each 512 frames. */
#define VG_STORE_CHUNK 512

typedef struct VgStoreChunk {
    double value[VG_STORE_CHUNK];
    uint64_t present[VG_STORE_CHUNK / 64];
} VgStoreChunk;

typedef struct VgStoreColumn {
    char *name;
    VgStoreChunk **chunks;
    uint64_t n_chunks;
    int aggregate; /* one value, kept as that of frame 0 */
} VgStoreColumn;

typedef struct VgStore {
    VgStoreColumn *columns; /* in the order of the report */
    unsigned n_columns;
} VgStore;

/** Appends a column; its index in *index. Returns 0 or -ENOMEM. */
int vg_store_add(VgStore *store, const char *name, int aggregate, unsigned *index);

/** Stores a value. Returns 0, -EEXIST if there is one already, -ENOMEM. */
int vg_store_put(VgStore *store, unsigned column, uint64_t frame, double value);

/** Returns 0 and the value, or -ENOENT. */
int vg_store_get(const VgStore *store, unsigned column, uint64_t frame, double *value);

void vg_store_free(VgStore *store);

#endif
