/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A file that is either complete or not there.
 */
#include "engine/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(const VgLog *log, const char *what, const char *path, int error)
{
    vg_log(log, VG_LOG_ERROR, "could not %s '%s': %s", what, path, strerror(error));
    return -error;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

int vg_report_check(const char *path, VgLogFn fn, void *opaque)
{
    VgLog log = { fn, opaque };
    struct stat st;
    if (!path || !*path) {
        vg_log(&log, VG_LOG_ERROR, "the path of the log is empty: give it a file name");
        return -EINVAL;
    }
    if (!stat(path, &st)) {
        if (S_ISDIR(st.st_mode)) {
            vg_log(&log, VG_LOG_ERROR, "could not open file '%s': it is a folder, give the name of a file", path);
            return -EISDIR;
        }
        return access(path, W_OK) ? failed(&log, "open file", path, errno) : 0;
    }
    if (errno != ENOENT)
        return failed(&log, "open file", path, errno);
    char *folder = folder_of(path);
    if (!folder)
        return failed(&log, "open file", path, ENOMEM);
    int err = 0;
    if (access(folder, W_OK | X_OK)) {
        err = -errno;
        vg_log(&log, VG_LOG_ERROR, "could not open file '%s': folder '%s': %s", path, folder, strerror(-err));
    }
    free(folder);
    return err;
}

/* Creates the temporary file beside the target, with the target's permissions or those of a new file. */
static int open_temporary(VgOutputFile *file, const struct stat *target)
{
    size_t size = strlen(file->path) + 40;
    file->temporary = malloc(size);
    if (!file->temporary)
        return -ENOMEM;
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        snprintf(file->temporary, size, "%s.%ld-%u.part", file->path, (long)getpid(), attempt);
        int fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0)
            break;
        if ((target && fchmod(fd, target->st_mode & 07777)) || !(file->stream = fdopen(fd, "w"))) {
            int error = errno;
            close(fd);
            unlink(file->temporary);
            errno = error;
            break;
        }
        return 0;
    }
    int error = errno;
    free(file->temporary);
    file->temporary = NULL;
    return -error;
}

int vg_output_open(VgOutputFile *file, const char *path, const VgLog *log)
{
    *file = (VgOutputFile){ .path = strdup(path) };
    if (!file->path)
        return failed(log, "open file", path, ENOMEM);
    struct stat st;
    int exists = !lstat(path, &st);
    int replaceable = exists ? S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_uid == geteuid() && !access(path, W_OK)
                             : errno == ENOENT;
    int err = replaceable ? open_temporary(file, exists ? &st : NULL) : 0;
    /* Where the folder takes no new file the file itself may still be writable. A full disk is no such case: opening the
       file would empty it. */
    if (!replaceable || err == -EACCES || err == -EPERM || err == -EROFS || err == -ENAMETOOLONG) {
        file->stream = fopen(path, "we");
        err = file->stream ? 0 : -errno;
    }
    if (err) {
        free(file->path);
        return failed(log, "open file", path, -err);
    }
    return 0;
}

int vg_output_close(VgOutputFile *file, const VgLog *log)
{
    /* A full disk may show in fwrite, fflush, fsync or fclose; devices and pipes know no fsync. */
    int err = 0;
    errno = 0;
    if (fflush(file->stream) || ferror(file->stream)) /* in this order: a failed flush sets errno anew */
        err = errno ? -errno : -EIO;
    if (!err && file->temporary && fsync(fileno(file->stream)) && errno != EINVAL && errno != ENOTSUP)
        err = -errno;
    if (fclose(file->stream) && !err)
        err = -errno;
    file->stream = NULL;
    if (!err && file->temporary && rename(file->temporary, file->path))
        err = -errno;
    if (err && file->temporary)
        unlink(file->temporary);
    if (err)
        failed(log, "write", file->path, -err);
    free(file->temporary);
    free(file->path);
    file->temporary = file->path = NULL;
    return err;
}
