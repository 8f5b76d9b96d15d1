/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Scores raw 8-bit 4:2:0 video with the library alone, from memory-mapped files: what a metric costs without FFmpeg, and
 * an example of the interface.
 *
 *     score_raw WIDTH HEIGHT FRAMES THREADS FEATURES DISTORTED REFERENCE
 *
 * Files that are shorter than FRAMES are repeated.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/vmafgpu.h"

static void print_message(void *opaque, VgLogLevel level, const char *message)
{
    (void)opaque;
    if (level <= VG_LOG_INFO)
        fprintf(level == VG_LOG_INFO ? stdout : stderr, "%s\n", message);
}

/* Maps a whole file; *frames becomes the number of frames in it, if smaller. */
static const uint8_t *map_file(const char *path, size_t frame_size, size_t *frames)
{
    int fd = open(path, O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) || (size_t)st.st_size < frame_size) {
        fprintf(stderr, "%s: cannot be opened or is shorter than a frame of %zu bytes\n", path, frame_size);
        exit(1);
    }
    if ((size_t)st.st_size / frame_size < *frames)
        *frames = (size_t)st.st_size / frame_size;
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    return p;
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fprintf(stderr, "usage: %s WIDTH HEIGHT FRAMES THREADS FEATURES DISTORTED REFERENCE\n", argv[0]);
        return 2;
    }
    const uint32_t width = (uint32_t)atoi(argv[1]), height = (uint32_t)atoi(argv[2]);
    const size_t frames = (size_t)atoi(argv[3]);
    const size_t luma = (size_t)width * height, chroma = (size_t)((width + 1) / 2) * ((height + 1) / 2);
    const size_t frame_size = luma + 2 * chroma;
    size_t in_files = frames;
    const uint8_t *files[2];
    for (int side = 0; side < 2; side++)
        files[side] = map_file(argv[6 + side], frame_size, &in_files);

    VgScorerConfig config = VG_SCORER_CONFIG_INIT;
    config.geometry = (VgGeometry){ .width = width, .height = height, .chroma = VG_CHROMA_420, .bit_depth = 8 };
    config.features = argv[5];
    config.n_threads = (uint32_t)atoi(argv[4]);
    config.log = print_message;
    VgScorer *scorer;
    if (vg_scorer_create(&scorer, &config))
        return 1;
    for (size_t i = 0; i < frames; i++) {
        VgPicture pictures[2];
        for (int side = 0; side < 2; side++) {
            const uint8_t *y = files[side] + i % in_files * frame_size;
            pictures[side] = (VgPicture){ .size = sizeof(VgPicture),
                                          .geometry = config.geometry,
                                          .sample_bytes = 1,
                                          .data = { y, y + luma, y + luma + chroma },
                                          .pitch = { width, (width + 1) / 2, (width + 1) / 2 },
                                          .step = { 1, 1, 1 } };
        }
        int err;
        while ((err = vg_scorer_submit(scorer, &pictures[0], &pictures[1])) == -EAGAIN)
            if (vg_scorer_collect(scorer, VG_WAIT_ONE) < 0)
                return 1;
        if (err)
            return 1;
    }
    int err = vg_scorer_flush(scorer);
    if (!err)
        vg_scorer_print_summary(scorer, VG_POOL_MEAN);
    vg_scorer_free(&scorer);
    return err != 0;
}
