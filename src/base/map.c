#include "bw_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bw_log.h"
#include "bw_mem.h"

static bw_status open_regular(const char *path, int *fd, size_t *n_bytes, bw_err *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return bw_fail_errno(err, errno, "%s cannot be opened", path);
    struct stat st;
    if (fstat(*fd, &st) != 0) {
        int e = errno;
        close(*fd);
        return bw_fail_errno(err, e, "%s cannot be examined", path);
    }
    if (!S_ISREG(st.st_mode)) {
        close(*fd);
        return bw_fail(err, BW_E_ARG, "%s is not a regular file", path);
    }
    *n_bytes = (size_t)st.st_size;
    return BW_OK;
}

static bw_status read_all(int fd, const char *path, char *data, size_t n_bytes, bw_err *err)
{
    size_t done = 0;
    while (done < n_bytes) {
        ssize_t n = read(fd, data + done, n_bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bw_fail_errno(err, errno, "%s cannot be read", path);
        if (n == 0)
            return bw_fail(err, BW_E_IO, "%s ended at byte %zu of %zu while it was read", path, done, n_bytes);
        done += (size_t)n;
    }
    return BW_OK;
}

bw_status bw_map_open(const char *path, bw_map *map, bw_err *err)
{
    *map = (bw_map){0};
    int fd;
    size_t n_bytes = 0;
    BW_TRY(open_regular(path, &fd, &n_bytes, err));
    bw_status status = BW_OK;
    if (n_bytes > 0) {
        void *data = mmap(NULL, n_bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (data != MAP_FAILED) {
            map->data = data;
            map->n_bytes = n_bytes;
            map->readable_by_map = true;
        } else {
            int e = errno;
            char *copy = bw_alloc(n_bytes);
            bw_log_warn("%s cannot be mapped (%s): it is read into memory", path, strerrorname_np(e));
            if (!copy)
                status = bw_fail_memory(err, n_bytes, path);
            else if ((status = read_all(fd, path, copy, n_bytes, err)) != BW_OK)
                bw_free(copy);
            else {
                map->data = (unsigned char *)copy;
                map->n_bytes = n_bytes;
            }
        }
    }
    close(fd);
    return status;
}

void bw_map_close(bw_map *map)
{
    if (map->data) {
        if (map->readable_by_map)
            munmap((void *)(uintptr_t)map->data, map->n_bytes);
        else
            bw_free((void *)(uintptr_t)map->data);
    }
    *map = (bw_map){0};
}

static void advise(const bw_map *map, size_t offset, size_t n_bytes, int advice)
{
    if (!map->readable_by_map || offset >= map->n_bytes)
        return;
    if (n_bytes > map->n_bytes - offset)
        n_bytes = map->n_bytes - offset;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = offset, end = offset + n_bytes;
    if (advice == MADV_DONTNEED) { /* only pages that lie wholly inside */
        begin = (begin + page - 1) / page * page;
        end = end / page * page;
    } else {
        begin = begin / page * page;
    }
    if (end > begin)
        madvise((void *)(uintptr_t)(map->data + begin), end - begin, advice);
}

void bw_map_will_need(const bw_map *map, size_t offset, size_t n_bytes)
{
    advise(map, offset, n_bytes, MADV_WILLNEED);
}

void bw_map_drop(const bw_map *map, size_t offset, size_t n_bytes)
{
    advise(map, offset, n_bytes, MADV_DONTNEED);
}

bw_status bw_file_read(const char *path, size_t max_bytes, char **data, size_t *n_bytes, bw_err *err)
{
    *data = NULL;
    int fd;
    size_t size = 0;
    BW_TRY(open_regular(path, &fd, &size, err));
    bw_status status = BW_OK;
    char *copy = NULL;
    if (size > max_bytes)
        status = bw_fail(err, BW_E_RANGE, "%s has %zu bytes; at most %zu are read", path, size, max_bytes);
    else if (!(copy = bw_alloc(size + 1)))
        status = bw_fail_memory(err, size + 1, path);
    else
        status = read_all(fd, path, copy, size, err);
    close(fd);
    if (status != BW_OK) {
        bw_free(copy);
        return status;
    }
    copy[size] = 0;
    *data = copy;
    if (n_bytes)
        *n_bytes = size;
    return BW_OK;
}

bool bw_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool bw_dir_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bw_status bw_dir_make(const char *path, bw_err *err)
{
    if (!*path)
        return bw_fail(err, BW_E_ARG, "a directory without a name cannot be made");
    char *copy = bw_strdup(path);
    if (!copy)
        return bw_fail_memory(err, strlen(path) + 1, "a path");
    bw_status status = BW_OK;
    for (char *p = copy + 1;; p++) {
        if (*p != '/' && *p != 0)
            continue;
        char saved = *p;
        *p = 0;
        int failed = mkdir(copy, 0777) != 0 ? errno : 0;
        if (failed == EEXIST && bw_dir_exists(copy))
            failed = 0;
        if (failed) {
            status = bw_fail_errno(err, failed, "directory %s cannot be made", copy);
            break;
        }
        *p = saved;
        if (saved == 0)
            break;
    }
    bw_free(copy);
    return status;
}
