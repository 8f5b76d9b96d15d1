/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Score store.
 */
#include "engine/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int vg_store_add(VgStore *store, const char *name, int aggregate, unsigned *index)
{
    VgStoreColumn *grown = realloc(store->columns, (store->n_columns + 1) * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    store->columns = grown;
    VgStoreColumn column = { .name = strdup(name), .aggregate = aggregate };
    if (!column.name)
        return -ENOMEM;
    *index = store->n_columns;
    store->columns[store->n_columns++] = column;
    return 0;
}

int vg_store_put(VgStore *store, unsigned column, uint64_t frame, double value)
{
    VgStoreColumn *c = &store->columns[column];
    uint64_t chunk = frame / VG_STORE_CHUNK, i = frame % VG_STORE_CHUNK;
    if (chunk >= c->n_chunks) {
        VgStoreChunk **grown = realloc(c->chunks, (chunk + 1) * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        memset(grown + c->n_chunks, 0, (chunk + 1 - c->n_chunks) * sizeof(*grown));
        c->chunks = grown;
        c->n_chunks = chunk + 1;
    }
    if (!c->chunks[chunk] && !(c->chunks[chunk] = calloc(1, sizeof(VgStoreChunk))))
        return -ENOMEM;
    uint64_t *word = &c->chunks[chunk]->present[i / 64], bit = 1ull << (i % 64);
    if (*word & bit)
        return -EEXIST;
    *word |= bit;
    c->chunks[chunk]->value[i] = value;
    return 0;
}

int vg_store_get(const VgStore *store, unsigned column, uint64_t frame, double *value)
{
    if (column >= store->n_columns)
        return -ENOENT;
    const VgStoreColumn *c = &store->columns[column];
    uint64_t chunk = frame / VG_STORE_CHUNK, i = frame % VG_STORE_CHUNK;
    if (chunk >= c->n_chunks || !c->chunks[chunk] || !(c->chunks[chunk]->present[i / 64] >> (i % 64) & 1))
        return -ENOENT;
    *value = c->chunks[chunk]->value[i];
    return 0;
}

void vg_store_free(VgStore *store)
{
    for (unsigned i = 0; i < store->n_columns; i++) {
        VgStoreColumn *c = &store->columns[i];
        for (uint64_t k = 0; k < c->n_chunks; k++)
            free(c->chunks[k]);
        free(c->chunks);
        free(c->name);
    }
    free(store->columns);
    *store = (VgStore){ 0 };
}
