/* Files written whole or not at all: a buffer in front of NAME.tmp (NAME.tmp2 and so on while that is taken), fsync,
 * rename. A link is followed, and a file that is written over keeps its permissions. Refuses to write over what is no
 * regular file; what the operating system refuses (a full disk, a missing folder) becomes BW_E_IO and leaves no half
 * file. */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bw_mem.h"

enum { BUFFER = 1 << 20, MAX_TEMPORARY = 100 };

static void release(bw_sink *sink)
{
    if (sink->fd >= 0)
        close(sink->fd);
    bw_free(sink->path);
    bw_free(sink->temporary);
    bw_free(sink->buffer);
    *sink = (bw_sink){.fd = -1};
}

/* The file itself where path is a link to one, else path; *mode: its permissions, or -1 where it is not there yet. */
static bw_status find_target(const char *path, char target[PATH_MAX], int *mode, bw_err *err)
{
    struct stat s;
    *mode = -1;
    snprintf(target, PATH_MAX, "%s", path);
    if (strlen(path) >= PATH_MAX)
        return bw_fail_errno(err, ENAMETOOLONG, "%.80s.. cannot be created", path);
    if (lstat(path, &s) != 0)
        return BW_OK; /* what the reason is, opening will say */
    if (S_ISLNK(s.st_mode) && (!realpath(path, target) || stat(target, &s) != 0))
        return bw_fail_errno(err, errno, "%s is a link that leads nowhere", path);
    if (!S_ISREG(s.st_mode))
        return bw_fail(err, BW_E_IO, "%s is no regular file, and is not written over", path);
    *mode = (int)(s.st_mode & 07777);
    return BW_OK;
}

bw_status bw_sink_open(bw_sink *sink, const char *wanted, bw_err *err)
{
    char path[PATH_MAX];
    int mode;
    BW_TRY(find_target(wanted, path, &mode, err));
    size_t n = strlen(path);
    *sink = (bw_sink){.fd = -1};
    sink->path = bw_strdup(path);
    sink->temporary = bw_alloc(n + 16);
    sink->buffer = bw_alloc(BUFFER);
    if (!sink->path || !sink->temporary || !sink->buffer) {
        release(sink);
        return bw_fail_memory(err, BUFFER, "a file's write buffer");
    }
    /* Only ever a file of our own: one that is there may be the very input, another program's, or a link elsewhere. */
    for (int i = 1; i <= MAX_TEMPORARY && sink->fd < 0; i++) {
        if (i == 1)
            snprintf(sink->temporary, n + 16, "%s.tmp", path);
        else
            snprintf(sink->temporary, n + 16, "%s.tmp%d", path, i);
        sink->fd = open(sink->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode < 0 ? 0666 : 0600);
        if (sink->fd < 0 && errno != EEXIST)
            break;
    }
    if (sink->fd < 0) {
        bw_fail_errno(err, errno, "%s cannot be created", sink->temporary);
        release(sink);
        return BW_E_IO;
    }
    if (mode >= 0 && fchmod(sink->fd, (mode_t)mode) != 0) {
        bw_fail_errno(err, errno, "%s cannot have the permissions of %s", sink->temporary, path);
        bw_sink_abort(sink);
        return BW_E_IO;
    }
    return BW_OK;
}

static bw_status write_all(bw_sink *sink, const unsigned char *p, size_t n, bw_err *err)
{
    while (n > 0) {
        ssize_t done = write(sink->fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return bw_fail_errno(err, errno, "%s cannot be written (after %llu bytes)", sink->temporary,
                                 (unsigned long long)sink->written);
        p += done;
        n -= (size_t)done;
    }
    return BW_OK;
}

static bw_status flush(bw_sink *sink, bw_err *err)
{
    size_t n = sink->used;
    sink->used = 0;
    return write_all(sink, sink->buffer, n, err);
}

bw_status bw_sink_put(bw_sink *sink, const void *bytes, size_t n_bytes, bw_err *err)
{
    if (n_bytes > BUFFER - sink->used)
        BW_TRY(flush(sink, err));
    if (n_bytes >= BUFFER) {
        BW_TRY(write_all(sink, bytes, n_bytes, err));
    } else if (n_bytes > 0) {
        memcpy(sink->buffer + sink->used, bytes, n_bytes);
        sink->used += n_bytes;
    }
    sink->written += n_bytes;
    return BW_OK;
}

bw_status bw_sink_put_zeros(bw_sink *sink, uint64_t n_bytes, bw_err *err)
{
    static const unsigned char zeros[4096];
    while (n_bytes > 0) {
        size_t n = n_bytes < sizeof zeros ? (size_t)n_bytes : sizeof zeros;
        BW_TRY(bw_sink_put(sink, zeros, n, err));
        n_bytes -= n;
    }
    return BW_OK;
}

bw_status bw_sink_commit(bw_sink *sink, bw_err *err)
{
    bw_status status = flush(sink, err);
    if (status == BW_OK && fsync(sink->fd) != 0 && errno != EINVAL && errno != EROFS)
        status = bw_fail_errno(err, errno, "%s cannot be written to the disk", sink->temporary);
    int fd = sink->fd;
    sink->fd = -1;
    if (close(fd) != 0 && status == BW_OK)
        status = bw_fail_errno(err, errno, "%s cannot be closed", sink->temporary);
    if (status == BW_OK && rename(sink->temporary, sink->path) != 0)
        status = bw_fail_errno(err, errno, "%s cannot be renamed to %s", sink->temporary, sink->path);
    if (status != BW_OK)
        unlink(sink->temporary);
    release(sink);
    return status;
}

void bw_sink_abort(bw_sink *sink)
{
    if (sink->temporary)
        unlink(sink->temporary);
    release(sink);
}
