/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Files of cambi's heatmaps. They are opened for each frame: nothing is held between frames, and a run that ends early
 * leaves whole frames.
 */
#include "engine/metrics/cambi_heatmaps.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096

/* Samples that are written at once. */
#define RUN 32768

/* The name has the size of the picture worked on, halved from scale to scale: with the speed-up, data are half of that. */
static int make_path(char path[PATH_SIZE], const char *folder, const VgCambiSide *side, int scale)
{
    const int n = snprintf(path, PATH_SIZE, "%s/cambi_heatmap_scale_%d_%dx%d_16b.gray", folder, scale,
                           vg_cambi_size(side->width, 0, scale), vg_cambi_size(side->height, 0, scale));
    return n < PATH_SIZE ? 0 : -ENAMETOOLONG;
}

static int failed(const VgScoreContext *context, uint64_t frame, const char *path, int err)
{
    const int full = err == -ENOSPC || err == -EDQUOT || err == -EFBIG;
    vg_log(context->log, VG_LOG_ERROR, "cambi%s, frame %llu: could not write heatmaps to '%s': %s: %s", context->suffix,
           (unsigned long long)frame, path, strerror(-err),
           full ? "make room there, or leave heatmaps_path out"
                : "give heatmaps_path a folder that can be written to, or leave it out");
    return err;
}

static int write_samples(int file, const uint16_t *samples, size_t n, off_t at)
{
    uint8_t bytes[2 * RUN];

    for (size_t i = 0; i < n; i++) {
        bytes[2 * i] = (uint8_t)samples[i];
        bytes[2 * i + 1] = (uint8_t)(samples[i] >> 8);
    }
    for (size_t done = 0; done < 2 * n;) {
        const ssize_t written = pwrite(file, bytes + done, 2 * n - done, at + (off_t)done);
        if (written < 0 && errno != EINTR)
            return -errno;
        if (written == 0)
            return -ENOSPC;
        done += written > 0 ? (size_t)written : 0;
    }
    return 0;
}

/* Opens a file; a pipe or device, which may keep one waiting and has no places to write to, is refused. */
static int open_file(const char *path, int begin)
{
    struct stat st;
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (begin ? O_TRUNC : 0);
    const int file = open(path, flags, 0666);

    if (file < 0)
        return -errno;
    if (!fstat(file, &st) && S_ISREG(st.st_mode))
        return file;
    close(file);
    return -EINVAL;
}

static int write_plane(const char *path, int begin, const uint16_t *samples, size_t n, off_t at)
{
    const int file = open_file(path, begin);
    int err = file < 0 ? file : 0;

    for (size_t i = 0; !err && i < n; i += RUN)
        err = write_samples(file, samples + i, n - i < RUN ? n - i : RUN, at + 2 * (off_t)i);
    if (file >= 0 && close(file) && !err)
        err = -errno;
    return err;
}

static size_t pixels_of(const VgCambiSide *side, int32_t speedup, int scale)
{
    return (size_t)vg_cambi_size(side->width, speedup, scale) * (size_t)vg_cambi_size(side->height, speedup, scale);
}

/* Cuts files back to the frames that all of them hold; those that this run did not begin stay as they are. */
static void cut_back(const VgCambiHeatmaps *state, const char *folder, int32_t speedup, const VgCambiSide *side,
                     int n_scales)
{
    char path[PATH_SIZE];

    for (int scale = 0; scale < n_scales; scale++) {
        const off_t size = (off_t)(2 * state->frames * pixels_of(side, speedup, scale));
        struct stat st;
        if (make_path(path, folder, side, scale) || stat(path, &st) || !S_ISREG(st.st_mode))
            continue;
        /* Never made longer: a file may have been emptied by others. There is no remedy if this fails, too. */
        if (st.st_size > size)
            (void)!truncate(path, size);
        if (!size && !lstat(path, &st) && S_ISREG(st.st_mode))
            (void)!unlink(path);
    }
}

/* Files of the first scale that this process has begun, by any name. They are few, and are known to its end. */
static pthread_mutex_t begun_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct Begun {
    dev_t device;
    ino_t file;
} * begun;
static size_t n_begun;

/* Warns if an earlier or another scorer of the process, or another request of this one, writes to the same files. */
static void note_begun(const VgScoreContext *context, const char *folder, const char *path)
{
    struct stat st;
    size_t i = 0;

    if (stat(path, &st))
        return;
    pthread_mutex_lock(&begun_mutex);
    while (i < n_begun && (begun[i].device != st.st_dev || begun[i].file != st.st_ino))
        i++;
    const int again = i < n_begun;
    struct Begun *const more = again ? NULL : realloc(begun, (n_begun + 1) * sizeof(*begun));
    if (more) { /* else it goes unnoticed */
        begun = more;
        begun[n_begun++] = (struct Begun){ st.st_dev, st.st_ino };
    }
    pthread_mutex_unlock(&begun_mutex);
    if (again)
        vg_log(context->log, VG_LOG_WARNING,
               "cambi%s: heatmaps in '%s' overwrite those that this run has written there for another feature or an "
               "earlier input: give each a heatmaps_path of its own",
               context->suffix, folder);
}

int vg_cambi_write_heatmaps(VgCambiHeatmaps *state, const VgScoreContext *context, const char *folder, int32_t speedup,
                            const VgCambiSide *side, uint64_t frame, const uint16_t *heatmaps)
{
    char path[PATH_SIZE];

    if (!state->frames && mkdir(folder, 0770) && errno != EEXIST)
        return failed(context, frame, folder, -errno);
    for (int scale = 0; scale < VG_CAMBI_SCALES; scale++) {
        const size_t n = pixels_of(side, speedup, scale);
        int err = make_path(path, folder, side, scale);
        if (err)
            return failed(context, frame, folder, err);
        err = write_plane(path, !state->frames, heatmaps, n, (off_t)(2 * frame * n));
        if (err) {
            cut_back(state, folder, speedup, side, state->frames ? VG_CAMBI_SCALES : scale + 1);
            return failed(context, frame, path, err);
        }
        if (!state->frames && scale == 0)
            note_begun(context, folder, path);
        heatmaps += n;
    }
    state->frames = frame + 1;
    return 0;
}
