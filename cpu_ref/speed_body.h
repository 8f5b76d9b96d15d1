/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * SpEED's pixel pass, compiled once for every instruction set: the including file defines VG_RUN, the function's name, and
 * VG_LINKAGE, static or nothing.
 *
 * It may also define VG_COVARIANCE_SUMS and VG_ADD_ENTROPIES, other covariance_sums() and add_entropies(), and VG_VERTICAL,
 * a hand-written vertical filter of rows in place for the first columns, which returns how many columns it has done; the C
 * loops do the rest.
 *
 * Loops run over columns, matrix columns or blocks inside, and over what a running sum adds outside: so compilers find
 * vectors, and every sum keeps its order.
 */
#include <string.h>

#include "cpu_ref/rows.h"
#include "cpu_ref/speed.h"
#include "shared_math/speed_tables.h"

#ifndef VG_VERTICAL
#define VG_VERTICAL(rows, taps, columns, out) ((void)(rows), (void)(taps), (void)(columns), (void)(out), 0)
#endif

#define N     VG_SPEED_N
#define PITCH VG_SPEED_PITCH
#define SIDE  VG_SPEED_SIDE
#define CHUNK VG_SPEED_CHUNK

static void show(const VgSpeedObserver *observer, int side, VgSpeedStage stage, const void *values, int32_t rows,
                 int32_t columns, ptrdiff_t pitch)
{
    if (observer)
        observer->see(observer->opaque, side, stage, values, rows, columns, pitch);
}

/* ---- Rows of the source as floats --------------------------------------------------------------------------------- */

/* A picture's plane, or two of which the difference is scored: `current` is subtracted from `earlier`. */
typedef struct Source {
    const VgPlane *current, *earlier; /* earlier NULL: none */
    int bytes;                        /* of samples as vg_row() is to hand them out */
    float unit;
} Source;

/* Columns from `first` to before `end`. */
VG_TEMPLATE void convert_row(const Source *source, int32_t y, int32_t first, int32_t end, const VgSpeedScratch *scratch,
                             float *restrict out, const int bytes)
{
    const void *current = vg_row(source->current, y, scratch->samples[0], bytes);
    const float unit = source->unit;

    if (source->earlier) {
        const void *earlier = vg_row(source->earlier, y, scratch->samples[1], bytes);
        for (int32_t x = first; x < end; x++)
            out[x] = vg_speed_difference(vg_sample(earlier, x, bytes), vg_sample(current, x, bytes), unit);
    } else {
        for (int32_t x = first; x < end; x++)
            out[x] = vg_speed_sample(vg_sample(current, x, bytes), unit);
    }
}

static void source_row(const Source *source, int32_t y, int32_t first, int32_t end, const VgSpeedScratch *scratch,
                       float *out)
{
    if (source->bytes == 1)
        convert_row(source, y, first, end, scratch, out, 1);
    else
        convert_row(source, y, first, end, scratch, out, 2);
}

/* ---- Resampling --------------------------------------------------------------------------------------------------- */

/* Columns of the low pass's windows, one window behind the other. */
static int32_t n_window_columns(const VgSpeedParams *params)
{
    return vg_speed_decimated(params->scaled_width) * params->n_taps;
}

static void make_columns(const VgSpeedParams *params, const VgSpeedScratch *scratch)
{
    const int32_t n = params->n_taps, columns = n_window_columns(params), offsets = vg_speed_offsets(params->method);

    for (int32_t c = 0; c < columns; c++) {
        const int32_t x = vg_speed_mirror(c / n * VG_SPEED_STEP - (n - 1) / 2 + c % n, params->scaled_width);
        int32_t at[VG_SPEED_LANCZOS_TAPS];
        float weights[VG_SPEED_LANCZOS_TAPS];
        vg_speed_sources(params->method, x, params->ratio_x, params->width, at, weights);
        for (int32_t k = 0; k < offsets; k++) {
            scratch->columns[k][c] = at[k];
            scratch->weights[k][c] = weights[k];
        }
    }
}

static const float *kept_row(const VgSpeedParams *params, const Source *source, int32_t y, VgSpeedScratch *scratch)
{
    const int32_t place = y & (VG_SPEED_KEPT_ROWS - 1);

    if (scratch->kept_rows[place] != y) {
        source_row(source, y, 0, params->width, scratch, scratch->kept[place]);
        scratch->kept_rows[place] = y;
    }
    return scratch->kept[place];
}

static void bilinear_row(const float *first, const float *second, float dy, const VgSpeedScratch *scratch, int32_t n,
                         float *restrict out)
{
    const int32_t *x1 = scratch->columns[0], *x2 = scratch->columns[1];
    const float *dx = scratch->weights[1];

    for (int32_t c = 0; c < n; c++)
        out[c] = vg_speed_bilinear(first[x1[c]], first[x2[c]], second[x1[c]], second[x2[c]], dx[c], dy);
}

/* Adds a row's samples at one offset, and their weights. */
static void add_weighted(const float *row, const int32_t *columns, const float *weights, float row_weight, int32_t n,
                         float *restrict out, float *restrict sums)
{
    for (int32_t c = 0; c < n; c++) {
        const float weight = weights[c] * row_weight;
        out[c] = vg_speed_add_tap(out[c], weight, row[columns[c]]);
        sums[c] += weight;
    }
}

/* Row y of the resampled plane, in the columns of the low pass's windows. */
static void resample_row(const VgSpeedParams *params, const Source *source, int32_t y, VgSpeedScratch *scratch)
{
    const int32_t n = n_window_columns(params), offsets = vg_speed_offsets(params->method);
    const float *rows[VG_SPEED_LANCZOS_TAPS];
    float *restrict out = scratch->resampled, *restrict sums = scratch->resampled_weight;
    float weights[VG_SPEED_LANCZOS_TAPS];
    int32_t at[VG_SPEED_LANCZOS_TAPS];

    vg_speed_sources(params->method, y, params->ratio_y, params->height, at, weights);
    for (int32_t j = 0; j < offsets; j++)
        rows[j] = kept_row(params, source, at[j], scratch);
    if (params->method == VG_SPEED_NEAREST) {
        for (int32_t c = 0; c < n; c++)
            out[c] = rows[0][scratch->columns[0][c]];
        return;
    }
    if (params->method == VG_SPEED_BILINEAR) {
        bilinear_row(rows[0], rows[1], weights[1], scratch, n, out);
        return;
    }
    memset(out, 0, (size_t)n * sizeof(*out));
    memset(sums, 0, (size_t)n * sizeof(*sums));
    for (int32_t j = 0; j < offsets; j++)
        for (int32_t i = 0; i < offsets; i++)
            add_weighted(rows[j], scratch->columns[i], scratch->weights[i], weights[j], n, out, sums);
    if (params->method == VG_SPEED_LANCZOS4)
        for (int32_t c = 0; c < n; c++)
            out[c] /= sums[c];
}

/* ---- Low pass and local mean -------------------------------------------------------------------------------------- */

static void add_row(const float *row, float tap, int32_t n, float *restrict sums)
{
    for (int32_t x = 0; x < n; x++)
        sums[x] = vg_speed_add_tap(sums[x], tap, row[x]);
}

/* Fills elements from -left to before `end` that lie outside a row of n. */
static void mirror_ends(float *row, int32_t n, int32_t left, int32_t end)
{
    for (int32_t i = -left; i < 0; i++)
        row[i] = row[vg_speed_mirror(i, n)];
    for (int32_t i = n; i < end; i++)
        row[i] = row[vg_speed_mirror(i, n)];
}

/* End of the columns that the low pass reads; those outside the plane are mirrored. */
static int32_t low_end(const VgSpeedParams *params)
{
    return (vg_speed_decimated(params->scaled_width) - 1) * VG_SPEED_STEP + (params->n_taps - 1) / 2 + 1;
}

/* Whether rows are samples of so many bytes without gaps. */
static int is_packed(const VgPlane *plane, int bytes)
{
    return plane->sample_bytes == bytes && plane->step == bytes;
}

/* Filters row i vertically, if rows can be read in place. Returns how many columns are done. */
static int32_t rows_in_place(const VgSpeedParams *params, const Source *source, int32_t i, int32_t columns, float *low)
{
    const VgPlane *current = source->current, *earlier = source->earlier;
    const int32_t n = params->n_taps, reach = (n - 1) / 2;
    VgSpeedRows rows = { .n = n, .bytes = source->bytes, .shift = current->shift, .unit = source->unit };

    if (!is_packed(current, rows.bytes) || (earlier && !is_packed(earlier, rows.bytes)))
        return 0;
    for (int32_t k = 0; k < n; k++) {
        const int32_t y = vg_speed_mirror(i * VG_SPEED_STEP - reach + k, params->scaled_height);
        rows.current[k] = current->data + y * current->pitch;
        rows.earlier[k] = earlier ? earlier->data + y * earlier->pitch : NULL;
    }
    rows.earlier_shift = earlier ? earlier->shift : 0;
    return VG_VERTICAL(&rows, params->taps, columns, low);
}

/* Row i of the decimated plane. */
static void decimated_row(const VgSpeedParams *params, const Source *source, int32_t i, VgSpeedScratch *scratch)
{
    const int32_t n = params->n_taps, reach = (n - 1) / 2, width = vg_speed_decimated(params->scaled_width);
    const int plain = params->method == VG_SPEED_PLAIN;
    const int32_t end = low_end(params), plain_columns = end < params->scaled_width ? end : params->scaled_width;
    const int32_t columns = plain ? plain_columns : n_window_columns(params);
    float *restrict low = scratch->low, *restrict out = scratch->decimated + i * scratch->pitch;

    const int32_t done = plain ? rows_in_place(params, source, i, columns, low) : 0;

    memset(low + done, 0, (size_t)(columns - done) * sizeof(*low));
    for (int32_t k = 0; k < n && done < columns; k++) {
        const int32_t y = vg_speed_mirror(i * VG_SPEED_STEP - reach + k, params->scaled_height);
        if (plain)
            source_row(source, y, done, columns, scratch, scratch->resampled);
        else
            resample_row(params, source, y, scratch);
        add_row(scratch->resampled + done, params->taps[k], columns - done, low + done);
    }
    if (plain)
        mirror_ends(low, params->scaled_width, reach, end);

    const float *window = plain ? low - reach : low;
    const ptrdiff_t step = plain ? VG_SPEED_STEP : n;
    for (int32_t j = 0; j < width; j++) {
        float sum = 0;
        for (int32_t k = 0; k < n; k++)
            sum = vg_speed_add_tap(sum, params->taps[k], window[j * step + k]);
        out[j] = sum;
    }
}

/* The decimated plane less its local mean. */
static void remove_mean(const VgSpeedParams *params, const VgSpeedScratch *scratch)
{
    const int32_t width = vg_speed_decimated(params->scaled_width), height = vg_speed_decimated(params->scaled_height);
    const int32_t n = params->n_mean_taps, reach = (n - 1) / 2;
    const ptrdiff_t pitch = scratch->pitch;
    float *low = scratch->low;

    for (int32_t y = 0; y < height; y++) {
        const float *row = scratch->decimated + y * pitch;
        float *restrict out = scratch->plane + y * pitch;
        double *restrict wide = scratch->wide + y * pitch;

        memset(low, 0, (size_t)width * sizeof(*low));
        for (int32_t k = 0; k < n; k++)
            add_row(scratch->decimated + vg_speed_mirror(y - reach + k, height) * pitch, params->mean_taps[k], width,
                    low);
        mirror_ends(low, width, reach, width + reach);
        memset(out, 0, (size_t)pitch * sizeof(*out));
        for (int32_t k = 0; k < n; k++)
            add_row(low - reach + k, params->mean_taps[k], width, out);
        for (int32_t x = 0; x < width; x++)
            out[x] = row[x] - out[x];
        for (int32_t x = 0; x < pitch; x++)
            wide[x] = (double)out[x];
    }
}

/* ---- Covariance --------------------------------------------------------------------------------------------------- */

/* Means of the 25 windows: 25 chains of additions side by side. Vectors of eight hold five that count. */
static void window_means(const VgSpeedScratch *scratch, int32_t width, int32_t height, float means[N])
{
    typedef float Vector __attribute__((vector_size(32), aligned(4), may_alias));
    Vector sums[SIDE] = { { 0 } };

    for (int32_t y = 0; y < height; y++) {
        const float *row = scratch->plane + y * scratch->pitch;
        for (int32_t x = 0; x < width; x++)
            for (int r = 0; r < SIDE; r++)
                sums[r] += *(const Vector *)(const void *)(row + r * scratch->pitch + x);
    }
    for (int p = 0; p < N; p++)
        means[p] = sums[p / SIDE][p % SIDE] / (float)(width * height);
}

#ifndef VG_COVARIANCE_SUMS
/* Sum of products of two windows less their means. */
static double covariance_sum(const double *a, const double *b, ptrdiff_t pitch, int32_t width, int32_t height,
                             double mean_a, double mean_b)
{
    double lanes[VG_SPEED_LANES + 1] = { 0 };
    int32_t x;

    for (int32_t y = 0; y < height; y++, a += pitch, b += pitch) {
        for (x = 0; x < (width & ~15); x += 16)
            for (int l = 0; l < 16; l++)
                lanes[l] = vg_speed_add_product(lanes[l], a[x + l] - mean_a, b[x + l] - mean_b);
        for (; x < (width & ~7); x += 8)
            for (int l = 0; l < 8; l++)
                lanes[l] = vg_speed_add_product(lanes[l], a[x + l] - mean_a, b[x + l] - mean_b);
        for (; x < width; x++)
            lanes[VG_SPEED_LANES] = vg_speed_add_rounded(lanes[VG_SPEED_LANES], a[x] - mean_a, b[x] - mean_b);
    }
    return vg_speed_join_lanes(lanes);
}

static void covariance_sums(const VgSpeedScratch *scratch, int32_t width, int32_t height, const float means[N],
                            double sums[VG_SPEED_PAIRS])
{
    const double *wide = scratch->wide;
    const ptrdiff_t pitch = scratch->pitch;

    for (int p = 0; p < N; p++)
        for (int q = 0; q <= p; q++)
            sums[vg_speed_pair(p, q)] =
                covariance_sum(wide + p / SIDE * pitch + p % SIDE, wide + q / SIDE * pitch + q % SIDE, pitch, width,
                               height, (double)means[p], (double)means[q]);
}
#define VG_COVARIANCE_SUMS covariance_sums
#endif

static void covariance_matrix(const double sums[VG_SPEED_PAIRS], int32_t n, VgSpeedMatrix k)
{
    memset(k, 0, sizeof(VgSpeedMatrix));
    for (int p = 0; p < N; p++)
        for (int q = 0; q <= p; q++)
            k[p][q] = k[q][p] = vg_speed_covariance(sums[vg_speed_pair(p, q)], n);
}

/* ---- Eigenvalues -------------------------------------------------------------------------------------------------- */

/* Length of x[first..24]. */
static float length_of(const float *x, int first)
{
    float sum = 0;

    for (int i = first; i < N; i++)
        sum += x[i] * x[i];
    return VG_SQRTF(sum);
}

/* u = M v and then w = u + h v, from `first` on; M is symmetric, so that its rows do for columns. Vectors are 0 before. */
static void reflected(VgSpeedMatrix m, int first, float tau, const float *restrict v, float *restrict w)
{
    float g = 0;

    memset(w, 0, PITCH * sizeof(*w));
    for (int c = first; c < N; c++)
        for (int r = first & ~7; r < PITCH; r++)
            w[r] = vg_speed_add_reflected(w[r], tau, m[c][r], v[c]);
    for (int r = 0; r < first; r++)
        w[r] = 0;
    for (int r = first; r < N; r++)
        g += w[r] * v[r];
    const float h = vg_speed_half(tau, g);
    for (int r = first; r < N; r++)
        w[r] += h * v[r];
}

static void reflect(VgSpeedMatrix m, int first, const float *restrict v, const float *restrict w)
{
    for (int r = first; r < N; r++)
        for (int c = first & ~7; c < PITCH; c++)
            m[r][c] = vg_speed_reflect(m[r][c], v[r], w[r], v[c], w[c]);
}

/* Takes the symmetric m apart. Its columns are its rows. */
static void tridiagonalise(VgSpeedMatrix m, float d[N], float e[N])
{
    for (int i = 0; i < N - 2; i++) {
        const int s = i + 1;
        const float n = length_of(m[i], s + 1);
        float v[PITCH] __attribute__((aligned(64))) = { 0 }, w[PITCH] __attribute__((aligned(64)));

        d[i] = m[i][i];
        e[i] = m[i][s];
        if (n == 0)
            continue;
        const VgSpeedReflector reflector = vg_speed_reflector(m[i][s], n);
        e[i] = reflector.b;
        v[s] = 1;
        for (int r = s + 1; r < N; r++)
            v[r] = m[i][r] / reflector.divisor;
        reflected(m, s, (reflector.b - m[i][s]) / reflector.b, v, w);
        reflect(m, s, v, w);
    }
    d[N - 2] = m[N - 2][N - 2];
    d[N - 1] = m[N - 1][N - 1];
    e[N - 2] = m[N - 2][N - 1];
}

/* Sets off-diagonals that are nothing beside their neighbours to 0. */
static void deflate(const float d[N], float e[N], int first, int last)
{
    for (int i = first; i < last; i++)
        if (vg_speed_negligible(e[i], d[i], d[i + 1]))
            e[i] = 0;
}

static void sweep(float d[N], float e[N], int first, int last)
{
    const float mu = vg_speed_shift(d[last - 1], d[last], e[last - 1], d[first], e[first]);
    VgSpeedChase chase = vg_speed_chase(d[first], e[first], d[first + 1], last - first > 1 ? e[first + 1] : 0, mu);

    for (int k = first; k < last; k++) {
        const VgSpeedTurn turn = vg_speed_turn(&chase, vg_speed_rotation(chase.phi, chase.psi));
        if (k > first)
            e[k - 1] = vg_speed_turned_off_diagonal(&turn);
        d[k] = vg_speed_turned_diagonal(&turn);
        chase.alpha = vg_speed_turned_alpha(&turn);
        chase.gamma = k + 2 <= last ? d[k + 2] : 0;
        chase.delta = k + 3 <= last ? e[k + 2] : 0;
    }
    d[last] = chase.alpha;
    e[last - 1] = chase.phi;
}

/* Eigenvalues, in the order in which the sweeps leave them, of the tridiagonal matrix in d. */
static void diagonalise(float d[N], float e[N])
{
    int last = N - 1, sweeps = 0;

    deflate(d, e, 0, N - 1);
    while (last > 0 && sweeps < VG_SPEED_MOST_SWEEPS) {
        if (e[last - 1] == 0) {
            last--;
            continue;
        }
        int first = last - 1;
        while (first > 0 && e[first - 1] != 0)
            first--;
        sweep(d, e, first, last);
        deflate(d, e, first, last);
        sweeps++;
    }
}

static int any_singular(const float d[N])
{
    int singular = 0;

    for (int i = 0; i < N; i++)
        singular |= vg_speed_is_singular(d[i]);
    return singular;
}

/* ---- Variances ---------------------------------------------------------------------------------------------------- */

/*
 * Rows first.. of `m` times the reflection I - 2 u u^T, in columns from 8 * start on. A row's sums are kept in vectors, which
 * compilers do not make of an array that is added to again and again: vg_speed_add_entry() of eight.
 */
VG_TEMPLATE void reflect_columns(const float *restrict u, int first, VgSpeedMatrix m, const int start)
{
    typedef float Vector __attribute__((vector_size(32), may_alias));
    enum { VECTORS = PITCH / 8 };
    VgSpeedMatrix product;

    for (int i = first; i < N; i++) {
        Vector sums[VECTORS] = { { 0 } };
        for (int l = first; l < N; l++) {
            const Vector *row = (const Vector *)(const void *)m[l];
            const float p = vg_speed_qr_entry(u[i], u[l], i == l);
            for (int v = start; v < VECTORS; v++)
                sums[v] += p * row[v];
        }
        for (int v = start; v < VECTORS; v++)
            ((Vector *)(void *)product[i])[v] = sums[v];
    }
    for (int i = first; i < N; i++)
        memcpy(m[i] + 8 * start, product[i] + 8 * start, (size_t)(PITCH - 8 * start) * sizeof(float));
}

/* The same in all columns that are used, which begin with `first_column`. */
static void apply_reflection(const float *u, int first, VgSpeedMatrix m, int first_column)
{
    switch (first_column / 8) {
    case 0:
        reflect_columns(u, first, m, 0);
        break;
    case 1:
        reflect_columns(u, first, m, 1);
        break;
    case 2:
        reflect_columns(u, first, m, 2);
        break;
    default:
        reflect_columns(u, first, m, 3);
    }
}

/* K = Q^T R. Of Z only what is left to be reduced is kept up: rows and columns from k on. */
static void factorise(VgSpeedMatrix covariances, VgSpeedMatrix q, VgSpeedMatrix r)
{
    VgSpeedMatrix z;

    memcpy(z, covariances, sizeof(z));
    memset(q, 0, sizeof(VgSpeedMatrix));
    for (int i = 0; i < N; i++)
        q[i][i] = 1;
    for (int k = 0; k < N - 1; k++) {
        float u[N] = { 0 };
        for (int i = k; i < N; i++)
            u[i] = z[i][k];
        u[k] = vg_speed_qr_pivot(u[k], length_of(u, k));
        const float n = length_of(u, k);
        for (int i = k; i < N; i++)
            u[i] /= n;
        apply_reflection(u, k, z, k);
        apply_reflection(u, k, q, 0);
    }
    memset(r, 0, sizeof(VgSpeedMatrix));
    for (int i = 0; i < N; i++)
        for (int l = 0; l < N; l++)
            for (int j = 0; j < PITCH; j++)
                r[i][j] = vg_speed_add_entry(r[i][j], q[i][l], covariances[l][j]);
}

/* Samples of blocks first.. as rows: sample of the block by block. Blocks behind the last one are 0. */
static void gather_blocks(const VgSpeedScratch *scratch, int32_t first, int32_t n_blocks, int32_t blocks_in_row,
                          float y[N][CHUNK])
{
    for (int b = 0; b < CHUNK; b++) {
        const int32_t block = first + b;
        const float *from =
            scratch->plane + block / blocks_in_row * SIDE * scratch->pitch + block % blocks_in_row * SIDE;
        for (int p = 0; p < N; p++)
            y[p][b] = block < n_blocks ? from[p / SIDE * scratch->pitch + p % SIDE] : 0;
    }
}

/* x = R^-1 Q y for a chunk of blocks. */
static void solve(VgSpeedMatrix q, VgSpeedMatrix r, float y[N][CHUNK], float *x, ptrdiff_t x_pitch)
{
    for (int i = N - 1; i >= 0; i--) {
        float t[CHUNK] __attribute__((aligned(64))) = { 0 };
        for (int j = 0; j < N; j++)
            for (int b = 0; b < CHUNK; b++)
                t[b] = vg_speed_add_entry(t[b], q[i][j], y[j][b]);
        for (int k = i + 1; k < N; k++)
            for (int b = 0; b < CHUNK; b++)
                t[b] = vg_speed_substitute(t[b], x[k * x_pitch + b], r[i][k]);
        for (int b = 0; b < CHUNK; b++)
            x[i * x_pitch + b] = t[b] / r[i][i];
    }
}

static void variances(float y[N][CHUNK], const float *x, ptrdiff_t x_pitch, float *restrict s)
{
    for (int b = 0; b < CHUNK; b++)
        s[b] = vg_speed_variance_term(x[b], y[0][b]);
    for (int p = 1; p < N; p++)
        for (int b = 0; b < CHUNK; b++)
            s[b] += vg_speed_variance_term(x[p * x_pitch + b], y[p][b]);
}

/* Variances of all blocks; returns whether the matrix is singular. */
static int block_variances(VgSpeedMatrix covariances, int32_t n_blocks, int32_t blocks_in_row, int side,
                           const VgSpeedScratch *scratch, const VgSpeedObserver *observer)
{
    VgSpeedMatrix q, r;
    int singular = 0;

    factorise(covariances, q, r);
    for (int i = 0; i < N; i++)
        singular |= vg_speed_is_singular(vg_speed_magnitude(r[i][i]));
    show(observer, side, VG_SPEED_STAGE_Q, q, N, N, PITCH);
    show(observer, side, VG_SPEED_STAGE_R, r, N, N, PITCH);
    if (singular)
        return 1;
    for (int32_t first = 0; first < n_blocks; first += CHUNK) {
        float y[N][CHUNK] __attribute__((aligned(64)));
        gather_blocks(scratch, first, n_blocks, blocks_in_row, y);
        solve(q, r, y, scratch->x + first, scratch->x_pitch);
        variances(y, scratch->x + first, scratch->x_pitch, scratch->s[side] + first);
    }
    show(observer, side, VG_SPEED_STAGE_X, scratch->x, N, n_blocks, scratch->x_pitch);
    return 0;
}

/* ---- Entropies and the score -------------------------------------------------------------------------------------- */

#ifndef VG_ADD_ENTROPIES
/* Adds an eigenvalue's part to the entropies of a chunk of blocks. */
static void add_entropies(float eigenvalue, float sigma, const float s[CHUNK], float e[CHUNK])
{
    for (int b = 0; b < CHUNK; b++)
        e[b] = vg_speed_add_entropy_of(e[b], vg_speed_entropy_argument(eigenvalue, s[b], sigma));
}
#define VG_ADD_ENTROPIES add_entropies
#endif

/* Of whole chunks of blocks. */
static void block_entropies(const float d[N], float sigma, const float *s, int32_t n_blocks, float *e)
{
    memset(e, 0, (size_t)n_blocks * sizeof(*e));
    for (int32_t first = 0; first < n_blocks; first += CHUNK)
        for (int k = 0; k < N; k++)
            VG_ADD_ENTROPIES(d[k], sigma, s + first, e + first);
}

/* S and E of a side's blocks; returns whether its matrix is singular. */
static int side_entropies(const VgSpeedParams *params, const Source *source, int side, VgSpeedScratch *scratch,
                          const VgSpeedObserver *observer)
{
    const int32_t width = vg_speed_decimated(params->scaled_width), height = vg_speed_decimated(params->scaled_height);
    const int32_t windows_x = vg_speed_windows(width), windows_y = vg_speed_windows(height);
    const int32_t blocks_x = vg_speed_blocks(width), blocks_y = vg_speed_blocks(height), n_blocks = blocks_x * blocks_y;
    float means[N], d[N], e[N];
    double sums[VG_SPEED_PAIRS];
    VgSpeedMatrix covariances, m;

    for (int i = 0; i < VG_SPEED_KEPT_ROWS; i++)
        scratch->kept_rows[i] = -1;
    for (int32_t i = 0; i < height; i++)
        decimated_row(params, source, i, scratch);
    remove_mean(params, scratch);
    show(observer, side, VG_SPEED_STAGE_DECIMATED, scratch->decimated, height, width, scratch->pitch);
    show(observer, side, VG_SPEED_STAGE_PLANE, scratch->plane, height, width, scratch->pitch);

    window_means(scratch, windows_x, windows_y, means);
    VG_COVARIANCE_SUMS(scratch, windows_x, windows_y, means, sums);
    covariance_matrix(sums, windows_x * windows_y, covariances);
    show(observer, side, VG_SPEED_STAGE_MEANS, means, SIDE, SIDE, SIDE);
    show(observer, side, VG_SPEED_STAGE_SUMS, sums, 1, VG_SPEED_PAIRS, VG_SPEED_PAIRS);
    show(observer, side, VG_SPEED_STAGE_COVARIANCES, covariances, N, N, PITCH);

    memcpy(m, covariances, sizeof(m));
    tridiagonalise(m, d, e);
    show(observer, side, VG_SPEED_STAGE_DIAGONAL, d, 1, N, N);
    show(observer, side, VG_SPEED_STAGE_OFF_DIAGONAL, e, 1, N - 1, N - 1);
    diagonalise(d, e);
    show(observer, side, VG_SPEED_STAGE_EIGENVALUES, d, 1, N, N);

    int singular = any_singular(d);
    if (!singular)
        singular = block_variances(covariances, n_blocks, blocks_x, side, scratch, observer);
    if (singular)
        memset(scratch->s[side], 0, (size_t)scratch->x_pitch * sizeof(float));
    block_entropies(d, params->sigma, scratch->s[side], (int32_t)scratch->x_pitch, scratch->e[side]);
    show(observer, side, VG_SPEED_STAGE_S, scratch->s[side], blocks_y, blocks_x, blocks_x);
    show(observer, side, VG_SPEED_STAGE_E, scratch->e[side], blocks_y, blocks_x, blocks_x);
    return singular;
}

static float sum_of_terms(const VgSpeedParams *params, const VgSpeedScratch *scratch, int32_t n_blocks)
{
    float sum = 0;

    for (int32_t b = 0; b < n_blocks; b++) {
        const VgSpeedWeights weights = vg_speed_weights(params->weighting, scratch->s[0][b], scratch->s[1][b]);
        sum += vg_speed_term(scratch->e[0][b], scratch->e[1][b], params->threshold, weights);
    }
    return sum;
}

static Source source_of(const VgSpeedParams *params, const VgCpuFrame *frame, int side, int plane)
{
    Source source = { .unit = vg_speed_unit(params->bit_depth) };

    if (params->temporal) {
        source.current = side && !params->use_ref_diff ? &frame->dist[0][0] : &frame->ref[0][0];
        source.earlier = side ? &frame->dist[1][0] : &frame->ref[1][0];
    } else {
        source.current = side ? &frame->dist[0][1 + plane] : &frame->ref[0][1 + plane];
    }
    source.bytes = source.current->sample_bytes == 2 || (source.earlier && source.earlier->sample_bytes == 2) ? 2 : 1;
    return source;
}

/* Scores one pair of planes: entry `plane` of the record. */
static void score_plane(const VgSpeedParams *params, const VgCpuFrame *frame, int plane, void *memory,
                        VgSpeedRecord *record, const VgSpeedObserver *observer)
{
    const int32_t n_blocks = vg_speed_blocks(vg_speed_decimated(params->scaled_width)) *
                             vg_speed_blocks(vg_speed_decimated(params->scaled_height));
    VgSpeedScratch scratch;
    uint32_t singular = 0;

    vg_speed_scratch(params, memory, &scratch);
    if (params->method != VG_SPEED_PLAIN)
        make_columns(params, &scratch);
    for (int side = 0; side < 2; side++) {
        const Source source = source_of(params, frame, side, plane);
        if (side_entropies(params, &source, side, &scratch, observer))
            singular |= side ? VG_SPEED_DIST_SINGULAR : VG_SPEED_REF_SINGULAR;
    }
    record->scores[plane] = vg_speed_score(sum_of_terms(params, &scratch, n_blocks), n_blocks, singular);
    record->singular[plane] = singular;
}

VG_LINKAGE void VG_RUN(const void *params_v, const VgCpuFrame *frame, int band, int n_bands, void *scratch,
                       void *partial)
{
    const VgSpeedParams *params = params_v;
    VgSpeedRecord record = { { 0 }, { 0 } };
    const int n_planes = params->temporal ? (frame->index ? 1 : 0) : VG_SPEED_MOST_PLANES;

    for (int plane = band; plane < n_planes; plane += n_bands)
        score_plane(params, frame, plane, scratch, &record, NULL);
    memcpy(partial, &record, sizeof(record));
}

#undef VG_COVARIANCE_SUMS
#undef VG_ADD_ENTROPIES
#undef VG_VERTICAL
#undef CHUNK
#undef SIDE
#undef PITCH
#undef N
