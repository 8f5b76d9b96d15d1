/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The scorer: takes pairs of pictures into a ring of slots, has a back end turn them into raw records, and turns the
 * records into scores, in order of frames.
 */
#include "engine/scorer.h"
#include "engine/worker_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_IN_FLIGHT 3
#define NO_COLUMN         (~0u)

/* Sizes of the structs before devices came in: what every program's have at least. */
#define VG_LEAST_CONFIG  (offsetof(VgScorerConfig, log_opaque) + sizeof(void *))
#define VG_LEAST_PICTURE (offsetof(VgPicture, ref) + sizeof(void *))

/* ---- Emission: from a metric's key to its column ---------------------------------------------------------------- */

typedef struct EmitTarget {
    VgScorer *scorer;
    VgInstance *instance;
} EmitTarget;

int vg_emit(VgEmit *emit, unsigned key, uint64_t frame, double value)
{
    return emit->put(emit->opaque, key, frame, value);
}

int vg_emit_aggregate(VgEmit *emit, unsigned key, double value)
{
    return emit->put_aggregate(emit->opaque, key, value);
}

static int put(void *opaque, unsigned key, uint64_t frame, double value)
{
    EmitTarget *t = opaque;
    unsigned column = t->instance->columns[key];
    /* -EINVAL: a key that active_keys() does not name */
    int err = column == NO_COLUMN ? -EINVAL : vg_store_put(&t->scorer->store, column, frame, value);
    if (err)
        vg_log(&t->scorer->log, VG_LOG_ERROR, "%s of frame %llu could not be stored: %s",
               t->instance->feature.metric->info.name, (unsigned long long)frame, strerror(-err));
    return err;
}

static int put_aggregate(void *opaque, unsigned key, double value)
{
    return put(opaque, key, 0, value);
}

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

static const char *chroma_name(VgChroma chroma)
{
    static const char *const names[] = { "4:0:0", "4:2:0", "4:2:2", "4:4:4" };
    return chroma <= VG_CHROMA_444 ? names[chroma] : "?";
}

static int check_geometry(const VgLog *log, const VgGeometry *g)
{
    if (g->width < 1 || g->height < 1 || g->width > VG_MAX_SIDE || g->height > VG_MAX_SIDE) {
        vg_log(log, VG_LOG_ERROR, "pictures of %ux%u cannot be scored: sides must be 1 to %d samples", g->width,
               g->height, VG_MAX_SIDE);
        return -EINVAL;
    }
    if (g->bit_depth < 8 || g->bit_depth > 16) {
        vg_log(log, VG_LOG_ERROR, "a bit depth of %u cannot be scored: it must be 8 to 16", g->bit_depth);
        return -EINVAL;
    }
    if ((unsigned)g->chroma > VG_CHROMA_444) {
        vg_log(log, VG_LOG_ERROR, "chroma format %d is unknown", (int)g->chroma);
        return -EINVAL;
    }
    return 0;
}

/* Finds a pass that serves this feature, or makes one. */
static int find_pass(VgScorer *s, const VgFeature *feature, unsigned *index)
{
    const VgMetric *metric = feature->metric;
    void *params = calloc(1, metric->params_size);
    if (!params)
        return -ENOMEM;
    metric->make_params(&s->geometry, feature->options, params);
    for (unsigned i = 0; i < s->plan.n_passes; i++) {
        VgPass *pass = &s->plan.passes[i];
        if (pass->metric == metric && (!memcmp(pass->params, params, metric->params_size) ||
                                       (metric->merge_params && metric->merge_params(pass->params, params)))) {
            free(params);
            *index = i;
            return 0;
        }
    }
    *index = s->plan.n_passes;
    vg_plan_add(&s->plan, metric, params);
    return 0;
}

static int add_instance(VgScorer *s, const VgFeature *feature)
{
    const VgMetric *metric = feature->metric;
    char why[400] = "";
    if (metric->check(&s->geometry, feature->options, why, sizeof(why))) {
        vg_log(&s->log, VG_LOG_ERROR, "%s", why);
        return -EINVAL;
    }
    VgInstance *instance = &s->instances[s->n_instances++];
    instance->feature = *feature;
    unsigned n_keys = 0;
    while (metric->keys[n_keys].name)
        n_keys++;
    instance->state = calloc(1, metric->state_size ? metric->state_size : 1);
    instance->columns = malloc((n_keys + 1) * sizeof(*instance->columns));
    if (!instance->state || !instance->columns)
        return -ENOMEM;
    for (unsigned k = 0; k < n_keys; k++)
        instance->columns[k] = NO_COLUMN;
    VgNeeds needs = { .lookahead = 0 };
    if (metric->needs)
        needs = metric->needs(feature->options);
    for (int side = 0; side < VG_N_SIDES; side++) {
        if (needs.lag[side] > s->plan.lag[side])
            s->plan.lag[side] = needs.lag[side];
        s->plan.planes[side] |= needs.planes[side];
    }
    if (needs.lookahead > s->lookahead)
        s->lookahead = needs.lookahead;
    return find_pass(s, feature, &instance->pass);
}

static int publishes(const VgScorer *s, const VgInstance *instance, unsigned key)
{
    return instance->feature.metric->active_keys(&s->geometry, instance->feature.options) >> key & 1;
}

static const char *suffix_of(const VgScorer *s, const VgInstance *instance, unsigned key)
{
    const VgMetric *metric = instance->feature.metric;
    unsigned n = 0;
    for (unsigned i = 0; i < s->n_instances; i++)
        n += s->instances[i].feature.metric == metric && publishes(s, &s->instances[i], key);
    return metric->keys[key].plain && n == 1 ? "" : instance->feature.suffix;
}

/*
 * Columns stand in the order in which libvmaf, on one thread, first stores a value under them: frame 0's keys in order of
 * registration, then those that are stored at the flush. Scores may be known here at other times.
 */
static int add_columns(VgScorer *s, VgKeyPhase phase)
{
    for (unsigned i = 0; i < s->n_instances; i++) {
        VgInstance *instance = &s->instances[i];
        const VgMetric *metric = instance->feature.metric;
        for (unsigned k = 0; metric->keys[k].name; k++) {
            const VgKey *key = &metric->keys[k];
            if (!publishes(s, instance, k) || key->phase != phase)
                continue;
            char name[2 * VG_KEY_SIZE];
            snprintf(name, sizeof(name), "%s%s", key->alias ? key->alias : key->name, suffix_of(s, instance, k));
            name[VG_KEY_SIZE - 1] = 0; /* where libvmaf cuts */
            int err = vg_store_add(&s->store, name, key->aggregate, &instance->columns[k]);
            if (err)
                return err;
        }
    }
    return 0;
}

static int choose_backend(VgScorer *s, const VgScorerConfig *config, const VgBackend *given)
{
    int err = vg_backend_choose(&s->backend, &s->plan, config, &s->log);
    if (err)
        return err;
    if (given)
        s->backend = given;
    if (s->plan.choice.which) {
        s->device = strdup(s->plan.choice.which);
        if (!s->device) {
            vg_log(&s->log, VG_LOG_ERROR, "out of memory");
            return -ENOMEM;
        }
        s->plan.choice.which = s->device;
    }
    return 0;
}

static int prepare(VgScorer *s, const VgScorerConfig *config, const VgBackend *backend)
{
    int err = check_geometry(&s->log, &s->geometry);
    if (err)
        return err;
    err = vg_features_parse(&s->log, config->features, &s->features);
    if (err)
        return err;
    s->instances = calloc(s->features.n, sizeof(*s->instances));
    s->plan.passes = calloc(s->features.n, sizeof(*s->plan.passes));
    err = s->instances && s->plan.passes ? 0 : -ENOMEM;
    for (unsigned i = 0; !err && i < s->features.n; i++)
        err = add_instance(s, &s->features.features[i]);
    if (!err)
        err = add_columns(s, VG_PHASE_FRAME_0);
    if (!err)
        err = add_columns(s, VG_PHASE_FLUSH);
    if (err == -ENOMEM)
        vg_log(&s->log, VG_LOG_ERROR, "out of memory");
    if (err)
        return err;

    vg_plan_layout(&s->plan);
    s->plan.geometry = s->geometry;
    s->plan.in_flight = config->in_flight ? config->in_flight : DEFAULT_IN_FLIGHT;
    if (s->plan.in_flight > VG_MAX_IN_FLIGHT) {
        vg_log(&s->log, VG_LOG_ERROR, "in_flight=%u is out of range: give 1 to %d", s->plan.in_flight,
               VG_MAX_IN_FLIGHT);
        return -EINVAL;
    }
    s->plan.n_threads = config->n_threads ? config->n_threads : vg_cpu_count();
    if (s->plan.n_threads > VG_MAX_THREADS)
        s->plan.n_threads = VG_MAX_THREADS;
    err = choose_backend(s, config, backend);
    if (err)
        return err;
    s->ref.lag = s->plan.copy_history ? 0 : s->plan.lag[VG_REF];
    s->dist.lag = s->plan.copy_history ? 0 : s->plan.lag[VG_DIST];
    s->ref.capacity = s->plan.in_flight + s->ref.lag;
    s->dist.capacity = s->plan.in_flight + s->dist.lag;
    return s->backend->open(&s->context, &s->plan, &s->log);
}

int vg_scorer_create(VgScorer **scorer, const VgScorerConfig *config)
{
    return vg_scorer_create_on(scorer, config, NULL);
}

int vg_scorer_create_on(VgScorer **scorer, const VgScorerConfig *given, const VgBackend *backend)
{
    *scorer = NULL;
    if (given->size < VG_LEAST_CONFIG)
        return -EINVAL;
    /* Fields that an older program's struct does not have keep their defaults. */
    VgScorerConfig config = VG_SCORER_CONFIG_INIT;
    memcpy(&config, given, given->size < sizeof(config) ? given->size : sizeof(config));
    VgScorer *s = calloc(1, sizeof(*s));
    VgLog log = { config.log, config.log_opaque };
    int err = s ? 0 : -ENOMEM;
    if (!s)
        vg_log(&log, VG_LOG_ERROR, "out of memory");
    if (s) {
        s->log = log;
        s->geometry = config.geometry;
        s->n_subsample = config.n_subsample ? config.n_subsample : 1;
        err = prepare(s, &config, backend);
    }
    if (err) {
        vg_scorer_free(&s);
        return err;
    }
    *scorer = s;
    return 0;
}

/* ---- Surfaces ---------------------------------------------------------------------------------------------------- */

static VgSurface *surface_take(VgSurfaceRing *ring, const VgPicture *picture)
{
    for (unsigned i = 0; i < ring->capacity; i++) {
        if (!ring->surfaces[i].users) {
            ring->surfaces[i] = (VgSurface){ .picture = *picture, .users = 1 };
            return &ring->surfaces[i];
        }
    }
    /* Frames in flight hold their own surfaces and those of at most `lag` frames before the oldest: never more. */
    return NULL;
}

static void surface_drop(VgSurface **surface)
{
    VgSurface *s = *surface;
    *surface = NULL;
    if (s && !--s->users && s->picture.release)
        s->picture.release(s->picture.ref);
}

/* The slot's surfaces: the new one and, as long as the frame is in flight, those of the frames before. */
static void slot_fill(VgSurfaceRing *ring, VgSurface *surfaces[VG_MAX_LAG + 1], VgSurface *current)
{
    surfaces[0] = current;
    for (unsigned k = 0; k < ring->lag; k++) {
        surfaces[k + 1] = ring->history[k];
        if (ring->history[k])
            ring->history[k]->users++;
    }
}

static void history_push(VgSurfaceRing *ring, VgSurface *current)
{
    if (!ring->lag)
        return;
    surface_drop(&ring->history[ring->lag - 1]);
    for (unsigned k = ring->lag - 1; k > 0; k--)
        ring->history[k] = ring->history[k - 1];
    ring->history[0] = current;
    current->users++;
}

static void slot_release(VgSlot *slot)
{
    for (int k = 0; k <= VG_MAX_LAG; k++) {
        surface_drop(&slot->ref[k]);
        surface_drop(&slot->dist[k]);
    }
}

static void release_history(VgScorer *s)
{
    for (int k = 0; k < VG_MAX_LAG; k++) {
        surface_drop(&s->ref.history[k]);
        surface_drop(&s->dist.history[k]);
    }
}

/* ---- Frames ------------------------------------------------------------------------------------------------------ */

static const char *memory_name(VgMemory memory)
{
    static const char *const names[] = { "host", "CUDA", "HIP" };
    return (unsigned)memory <= VG_MEMORY_HIP ? names[memory] : "unknown";
}

static int refuse_picture(const VgScorer *s, const char *side, const char *what, long value, const char *remedy)
{
    vg_log(&s->log, VG_LOG_ERROR, "%s picture of frame %llu: %s %ld %s", side, (unsigned long long)s->submitted, what,
           value, remedy);
    return -EINVAL;
}

static int check_picture(const VgScorer *s, const VgPicture *p, const char *side)
{
    const VgGeometry *g = &s->geometry, *pg = &p->geometry;
    if (p->memory != s->plan.memory) {
        vg_log(&s->log, VG_LOG_ERROR, "%s picture of frame %llu is in %s memory, the scorer was made for %s memory",
               side, (unsigned long long)s->submitted, memory_name(p->memory), memory_name(s->plan.memory));
        return -EINVAL;
    }
    if (pg->width != g->width || pg->height != g->height || pg->chroma != g->chroma || pg->bit_depth != g->bit_depth) {
        vg_log(&s->log, VG_LOG_ERROR,
               "%s picture of frame %llu is %ux%u %s %u bits, the scorer was made for %ux%u %s %u bits", side,
               (unsigned long long)s->submitted, pg->width, pg->height, chroma_name(pg->chroma), pg->bit_depth,
               g->width, g->height, chroma_name(g->chroma), g->bit_depth);
        return -EINVAL;
    }
    if (p->sample_bytes != 1 && p->sample_bytes != 2)
        return refuse_picture(s, side, "samples of", (long)p->sample_bytes, "bytes: only 1 and 2 are possible");
    if (p->shift > 8 * p->sample_bytes || p->shift + g->bit_depth > 8 * p->sample_bytes)
        return refuse_picture(s, side, "a shift of", (long)p->shift, "leaves fewer bits than the depth has");
    int planes = g->chroma == VG_CHROMA_400 ? 1 : 3;
    for (int c = 0; c < planes; c++) {
        if (!p->data[c])
            return refuse_picture(s, side, "plane", c, "is missing");
        if (p->step[c] < p->sample_bytes || p->step[c] > 64 || p->step[c] % p->sample_bytes)
            return refuse_picture(s, side, "a step of", (long)p->step[c], "bytes between samples is not possible");
        if (((uintptr_t)p->data[c] | (uintptr_t)p->pitch[c]) % p->sample_bytes)
            return refuse_picture(s, side, "plane", c, "has an odd address or pitch: 16-bit samples must be aligned");
        const int64_t pitch = p->pitch[c]; /* which kernels multiply as 32 bits */
        if (pitch > INT32_MAX || pitch < -INT32_MAX)
            return refuse_picture(s, side, "a pitch of", (long)pitch,
                                  "bytes from row to row is not possible: it must be below 2^31, up or down");
    }
    return 0;
}

/* Checks a caller's picture and copies it. Fields that an older program's struct does not have keep their defaults. */
static int take_picture(const VgScorer *s, VgPicture *copy, const VgPicture *given, const char *side)
{
    if (given->size < VG_LEAST_PICTURE)
        return refuse_picture(s, side, "a struct of", (long)given->size,
                              "bytes is too small: set size = sizeof(VgPicture)");
    *copy = (VgPicture){ 0 };
    memcpy(copy, given, given->size < sizeof(*copy) ? given->size : sizeof(*copy));
    copy->size = sizeof(*copy);
    return check_picture(s, copy, side);
}

static const VgPicture *picture_of(const VgSurface *surface)
{
    return surface ? &surface->picture : NULL;
}

int vg_scorer_submit(VgScorer *s, const VgPicture *distorted, const VgPicture *reference)
{
    if (s->error)
        return s->error;
    if (s->flushed)
        return -EPIPE;
    if (s->submitted - s->collected == s->plan.in_flight)
        return -EAGAIN;
    VgPicture dist, ref;
    int err = take_picture(s, &dist, distorted, "distorted");
    if (!err)
        err = take_picture(s, &ref, reference, "reference");
    if (err)
        return err;

    if (!s->submitted)
        clock_gettime(CLOCK_MONOTONIC, &s->first_submit);
    unsigned index = (unsigned)(s->submitted % s->plan.in_flight);
    VgSlot *slot = &s->slots[index];
    slot->scored = s->submitted % s->n_subsample == 0;
    VgSurface *new_dist = surface_take(&s->dist, &dist), *new_ref = surface_take(&s->ref, &ref);
    if (!new_dist || !new_ref) {
        vg_log(&s->log, VG_LOG_ERROR, "frame %llu: more pictures are held than in_flight + look-back",
               (unsigned long long)s->submitted);
        s->error = -EINVAL;
        return s->error;
    }
    slot_fill(&s->dist, slot->dist, new_dist);
    slot_fill(&s->ref, slot->ref, new_ref);
    VgFramePictures pictures = { .frame = s->submitted };
    for (int k = 0; k <= VG_MAX_LAG; k++) {
        pictures.ref[k] = picture_of(slot->ref[k]);
        pictures.dist[k] = picture_of(slot->dist[k]);
    }
    err = s->backend->submit(s->context, index, &pictures, slot->scored);
    if (err == -EAGAIN)
        err = -EIO; /* that would ask for another try */
    if (err) {
        /* The caller keeps its pictures: forget them without releasing. */
        slot->dist[0]->picture.release = NULL;
        slot->ref[0]->picture.release = NULL;
        slot_release(slot);
        s->error = err;
        return err;
    }
    history_push(&s->dist, slot->dist[0]);
    history_push(&s->ref, slot->ref[0]);
    s->submitted++;
    return 0;
}

static VgScoreContext context_of(const VgScorer *s, const VgInstance *instance)
{
    return (VgScoreContext){ &s->geometry, instance->feature.options, &s->log, instance->feature.suffix };
}

/* Turns the records of the oldest frame into scores. */
static int score_frame(VgScorer *s, int scored, const uint8_t *records)
{
    for (unsigned i = 0; i < s->n_instances; i++) {
        VgInstance *instance = &s->instances[i];
        const VgMetric *metric = instance->feature.metric;
        const VgPass *pass = &s->plan.passes[instance->pass];
        if (!scored && !metric->every_frame)
            continue;
        EmitTarget target = { s, instance };
        VgEmit emit = { put, put_aggregate, &target };
        VgScoreContext context = context_of(s, instance);
        int err = metric->score(&context, instance->state, s->collected, records + pass->record_offset, &emit);
        if (err)
            return err;
    }
    return 0;
}

/* Takes the oldest frame: 1 taken, 0 not finished, or an error. */
static int collect_one(VgScorer *s, int wait)
{
    unsigned index = (unsigned)(s->collected % s->plan.in_flight);
    VgSlot *slot = &s->slots[index];
    const uint8_t *records = NULL;
    int done = s->backend->finish(s->context, index, wait, &records);
    if (!done)
        return 0;
    int err = done == -EAGAIN ? -EIO : done < 0 ? done : score_frame(s, slot->scored, records);
    slot_release(slot);
    if (err) {
        s->error = err; /* frames still in flight end with the scorer */
        return err;
    }
    s->collected++;
    clock_gettime(CLOCK_MONOTONIC, &s->last_collect);
    return 1;
}

int vg_scorer_collect(VgScorer *s, VgWait wait)
{
    int n = 0;
    while (s->collected < s->submitted) {
        if (s->error)
            return s->error;
        int taken = collect_one(s, wait == VG_WAIT_ALL || (wait == VG_WAIT_ONE && !n));
        if (taken < 0)
            return taken;
        if (!taken)
            break;
        n++;
    }
    return s->error ? s->error : n;
}

int vg_scorer_flush(VgScorer *s)
{
    if (s->flushed || s->error)
        return s->error;
    int err = vg_scorer_collect(s, VG_WAIT_ALL);
    if (err < 0)
        return err;
    s->flushed = 1;
    release_history(s);
    if (s->backend->flush)
        s->backend->flush(s->context);
    for (unsigned i = 0; s->submitted && i < s->n_instances; i++) {
        VgInstance *instance = &s->instances[i];
        const VgMetric *metric = instance->feature.metric;
        if (!metric->flush)
            continue;
        EmitTarget target = { s, instance };
        VgEmit emit = { put, put_aggregate, &target };
        VgScoreContext context = context_of(s, instance);
        err = metric->flush(&context, instance->state, s->submitted, &emit);
        if (err) {
            s->error = err;
            return err;
        }
    }
    return 0;
}

void vg_scorer_free(VgScorer **scorer)
{
    VgScorer *s = scorer ? *scorer : NULL;
    if (!s)
        return;
    *scorer = NULL;
    if (s->context)
        s->backend->close(&s->context);
    for (unsigned i = 0; i < VG_MAX_IN_FLIGHT; i++)
        slot_release(&s->slots[i]);
    release_history(s);
    for (unsigned i = 0; i < s->n_instances; i++) {
        free(s->instances[i].state);
        free(s->instances[i].columns);
    }
    free(s->instances);
    for (unsigned i = 0; i < s->plan.n_passes; i++)
        free(s->plan.passes[i].params);
    free(s->plan.passes);
    free(s->device);
    vg_features_free(&s->features);
    vg_store_free(&s->store);
    free(s);
}

/* ---- Questions --------------------------------------------------------------------------------------------------- */

uint64_t vg_scorer_submitted(const VgScorer *s)
{
    return s->submitted;
}

uint64_t vg_scorer_final(const VgScorer *s)
{
    if (s->flushed)
        return s->submitted;
    return s->collected > s->lookahead ? s->collected - s->lookahead : 0;
}

unsigned vg_scorer_lookahead(const VgScorer *s)
{
    return s->lookahead;
}

unsigned vg_scorer_lookback(const VgScorer *s)
{
    return s->ref.lag > s->dist.lag ? s->ref.lag : s->dist.lag;
}

uint64_t vg_scorer_parity(const VgScorer *s, uint64_t *compared)
{
    *compared = 0;
    return s->backend->parity ? s->backend->parity(s->context, compared) : 0;
}

/* Keys and aggregates share the store; each is numbered in its own right, in order of columns. */
static unsigned nth_column(const VgStore *store, int aggregate, unsigned index)
{
    for (unsigned c = 0; c < store->n_columns; c++)
        if (store->columns[c].aggregate == aggregate && !index--)
            return c;
    return NO_COLUMN;
}

static unsigned count_columns(const VgStore *store, int aggregate)
{
    unsigned n = 0;
    for (unsigned c = 0; c < store->n_columns; c++)
        n += store->columns[c].aggregate == aggregate;
    return n;
}

unsigned vg_scorer_n_keys(const VgScorer *s)
{
    return count_columns(&s->store, 0);
}

const char *vg_scorer_key(const VgScorer *s, unsigned key)
{
    unsigned c = nth_column(&s->store, 0, key);
    return c == NO_COLUMN ? NULL : s->store.columns[c].name;
}

int vg_scorer_score(const VgScorer *s, unsigned key, uint64_t frame, double *value)
{
    return vg_store_get(&s->store, nth_column(&s->store, 0, key), frame, value);
}

int vg_scorer_pool(const VgScorer *s, unsigned key, VgPool pool, double *value)
{
    return vg_store_pool(&s->store, nth_column(&s->store, 0, key), s->submitted, s->n_subsample, pool, value);
}

unsigned vg_scorer_n_aggregates(const VgScorer *s)
{
    return count_columns(&s->store, 1);
}

int vg_scorer_aggregate(const VgScorer *s, unsigned index, const char **name, double *value)
{
    unsigned c = nth_column(&s->store, 1, index);
    if (c == NO_COLUMN)
        return -ENOENT;
    *name = s->store.columns[c].name;
    return vg_store_get(&s->store, c, 0, value);
}

double vg_scorer_fps(const VgScorer *s)
{
    double seconds = (double)(s->last_collect.tv_sec - s->first_submit.tv_sec) +
                     (double)(s->last_collect.tv_nsec - s->first_submit.tv_nsec) * 1e-9;
    return (double)s->submitted / seconds;
}
