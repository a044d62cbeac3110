#include "bw_map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
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

/* ---- files that shrink ------------------------------------------------------------------------------------------- */

/* What the handler of SIGBUS looks at: slots are taken and left under guard_lock, and read without it. begin is written
 * last and cleared first, so a slot that is seen is whole. */
typedef struct guard {
    _Atomic uintptr_t begin; /* 0 = free */
    _Atomic size_t n_bytes;
    int fd; /* kept to ask about the file */
    struct timespec written;
    char *path; /* as it was opened */
} guard;

enum { MOST_GUARDS = 4096 };
static guard guards[MOST_GUARDS];
static _Atomic int n_guards; /* slots that were ever used */
static _Atomic int lost;     /* 1 + the slot whose page could not be read; stays */
static pthread_mutex_t guard_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;
static size_t page_bytes;

/* Calls nothing but what a handler may: mmap is a bare system call. */
static void on_bus(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    int n = atomic_load(&n_guards);
    for (int i = 0; info->si_code > 0 && i < n; i++) { /* by the kernel, not by kill() */
        uintptr_t begin = atomic_load(&guards[i].begin);
        if (!begin || at < begin || at - begin >= atomic_load(&guards[i].n_bytes))
            continue;
        int saved = errno;
        void *page = (void *)(at / page_bytes * page_bytes);
        void *zeros = mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        errno = saved;
        int none = 0;
        atomic_compare_exchange_strong(&lost, &none, i + 1);
        if (zeros != MAP_FAILED)
            return;
    }
    if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else { /* the instruction is run again, and this time it ends the process */
        signal(number, SIG_DFL);
        if (info->si_code <= 0)
            raise(number);
    }
}

/* guard_lock is held. Others, such as a GPU's driver, may have put theirs in our place: ours goes on to it. */
static void install_handler(void)
{
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK}, now;
    sigemptyset(&action.sa_mask);
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (sigaction(SIGBUS, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_bus))
        return;
    before = now;
    sigaction(SIGBUS, &action, NULL);
}

/* Takes over fd when there is a slot, else leaves it and closes nothing. */
static bw_status guard_add(const bw_map *map, int *fd, const char *path, bw_err *err)
{
    char *copy = bw_strdup(path);
    if (!copy)
        return bw_fail_memory(err, strlen(path) + 1, "a path");
    pthread_mutex_lock(&guard_lock);
    install_handler();
    int i = 0;
    while (i < MOST_GUARDS && atomic_load(&guards[i].begin))
        i++;
    struct stat st;
    if (i < MOST_GUARDS) {
        guards[i].fd = *fd;
        guards[i].written = fstat(*fd, &st) == 0 ? st.st_mtim : (struct timespec){0};
        guards[i].path = copy;
        atomic_store(&guards[i].n_bytes, map->n_bytes);
        if (i >= atomic_load(&n_guards))
            atomic_store(&n_guards, i + 1);
        atomic_store(&guards[i].begin, (uintptr_t)map->data);
    }
    pthread_mutex_unlock(&guard_lock);
    if (i == MOST_GUARDS)
        bw_free(copy);
    else
        *fd = -1;
    return BW_OK;
}

static void guard_remove(const bw_map *map)
{
    pthread_mutex_lock(&guard_lock);
    for (int i = 0; i < MOST_GUARDS; i++)
        if (atomic_load(&guards[i].begin) == (uintptr_t)map->data) {
            atomic_store(&guards[i].begin, 0);
            int none = i + 1; /* what was wrong with it is over */
            atomic_compare_exchange_strong(&lost, &none, 0);
            close(guards[i].fd);
            bw_free(guards[i].path);
            break;
        }
    pthread_mutex_unlock(&guard_lock);
}

/* guard_lock is held. A file of another size is another file; of the same size it may have been touched only. */
static bw_status check_guard(guard *g, bool is_lost, bool look, bw_err *err)
{
    struct stat st;
    size_t was = atomic_load(&g->n_bytes);
    bool seen = (is_lost || look) && fstat(g->fd, &st) == 0;
    if (seen && (size_t)st.st_size != was)
        return bw_fail(
            err, BW_E_LOST,
            "%s was changed from %zu to %zu bytes while it was in use: start the program again with the whole "
            "file",
            g->path, was, (size_t)st.st_size);
    if (is_lost)
        return bw_fail(err, BW_E_LOST, "%s cannot be read any more, though it was in use: its disk may have failed",
                       g->path);
    if (seen && (st.st_mtim.tv_sec != g->written.tv_sec || st.st_mtim.tv_nsec != g->written.tv_nsec)) {
        g->written = st.st_mtim;
        bw_log_warn("%s was written to while it is in use: where its content changed, start the program again",
                    g->path);
    }
    return BW_OK;
}

bw_status bw_map_check(bool look, bw_err *err)
{
    int which = atomic_load(&lost);
    if (!which && !look)
        return BW_OK;
    bw_status status = BW_OK;
    pthread_mutex_lock(&guard_lock);
    int n = atomic_load(&n_guards);
    for (int i = 0; status == BW_OK && i < n; i++)
        if (atomic_load(&guards[i].begin))
            status = check_guard(&guards[i], i + 1 == which, look, err);
    pthread_mutex_unlock(&guard_lock);
    return status;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

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
            status = guard_add(map, &fd, path, err);
            if (status != BW_OK) {
                munmap(data, n_bytes);
                *map = (bw_map){0};
            }
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
    if (fd >= 0)
        close(fd);
    return status;
}

void bw_map_close(bw_map *map)
{
    if (map->data) {
        if (map->readable_by_map) {
            guard_remove(map);
            munmap((void *)(uintptr_t)map->data, map->n_bytes);
        } else {
            bw_free((void *)(uintptr_t)map->data);
        }
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
