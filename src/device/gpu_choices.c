/* The table of choices is open addressing over a power of two; the file is its rows after a header:
 *
 *   beeswax GPU trials 1
 *   <identity, any lines>
 *
 *   <shape, 16 hexadecimal digits> <choice>
 *
 * A file is taken whole or not at all. It is replaced by a new one that was written beside it (mkostemp, rename), so
 * that readers and other writers never see a part; of two writers at the same time the last one's rows stay. Nothing is
 * synchronised to disk: what a power failure takes is measured again.
 */
#include "gpu_choices.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bw_gpu_library.h"
#include "bw_log.h"
#include "bw_map.h"
#include "bw_mem.h"
#include "bw_probe.h"
#include "bw_str.h"

typedef struct row {
    uint64_t shape;
    int choice;      /* 0: an empty place */
    bool is_passing; /* not for the file */
} row;

struct bw_gpu_choices {
    row *rows;
    size_t n_rows, n_places; /* places are a power of two, at most half of them taken */
    char *folder, *path;     /* NULL: no file */
    char *header;
    bool has_news;
};

static const char first_line[] = "beeswax GPU trials 1\n";

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* The row of a shape, or the empty one where it belongs. */
static row *place_of(row *rows, size_t n_places, uint64_t shape)
{
    uint64_t h = (shape ^ shape >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(h >> 32) & (n_places - 1);
    while (rows[i].choice && rows[i].shape != shape)
        i = (i + 1) & (n_places - 1);
    return &rows[i];
}

static bool grow(bw_gpu_choices *c)
{
    size_t n = c->n_places ? c->n_places * 2 : 64;
    row *rows = bw_alloc_zero(n, sizeof *rows);
    if (!rows)
        return false;
    for (size_t i = 0; i < c->n_places; i++)
        if (c->rows[i].choice)
            *place_of(rows, n, c->rows[i].shape) = c->rows[i];
    bw_free(c->rows);
    c->rows = rows;
    c->n_places = n;
    return true;
}

int bw_gpu_choices_get(const bw_gpu_choices *c, uint64_t shape)
{
    return c->n_places ? place_of(c->rows, c->n_places, shape)->choice : 0;
}

static bool is_kept(const bw_gpu_choices *c, uint64_t shape)
{
    const row *r = c->n_places ? place_of(c->rows, c->n_places, shape) : NULL;
    return r && r->choice && !r->is_passing;
}

/* Whether it was put there; false also where there is no memory for it: then it is tried again. */
static bool put(bw_gpu_choices *c, uint64_t shape, int choice, bool is_passing)
{
    if ((c->n_rows + 1) * 2 > c->n_places && !grow(c))
        return false;
    row *r = place_of(c->rows, c->n_places, shape);
    if (r->choice == choice && r->is_passing == is_passing)
        return false;
    c->n_rows += r->choice == 0;
    *r = (row){shape, choice, is_passing};
    return true;
}

void bw_gpu_choices_set(bw_gpu_choices *c, uint64_t shape, int choice, bool is_passing)
{
    if (choice > 0 && choice <= BW_GPU_CHOICES_LARGEST && put(c, shape, choice, is_passing) && !is_passing)
        c->has_news = true;
}

/* ---- where the file lies ------------------------------------------------------------------------------------------
 */

static bool add_variable(bw_str *out, const char *name, const char *behind)
{
    const char *value = getenv(name);
    if (!value || !*value)
        return false;
    bw_str_add(out, value);
    bw_str_add(out, behind);
    return true;
}

/* Letters, digits and - . stay, whatever else is one _. */
static void add_file_name(bw_str *out, const char *name)
{
    bool was_other = true;
    for (size_t i = 0; name[i] && i < 160; i++) {
        char ch = name[i];
        bool is_plain =
            (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '-' || ch == '.';
        if (is_plain || !was_other)
            bw_str_add_char(out, is_plain ? ch : '_');
        was_other = !is_plain;
    }
    bw_str_add(out, ".txt");
}

static void find_file(bw_gpu_choices *c, const char *name)
{
    const char *wish = getenv("BW_GPU_TRIALS");
    bw_str path = {0};
    if ((wish && strcmp(wish, "0") == 0) ||
        (!add_variable(&path, "BW_CACHE_DIR", "") && !add_variable(&path, "XDG_CACHE_HOME", "/beeswax") &&
         !add_variable(&path, "HOME", "/.cache/beeswax")))
        return;
    bw_str_add(&path, "/trials");
    c->folder = path.failed ? NULL : bw_strdup(path.data);
    bw_str_add_char(&path, '/');
    add_file_name(&path, name);
    c->path = c->folder ? bw_str_take(&path, NULL) : NULL;
    bw_str_deinit(&path);
}

/* ---- reading ------------------------------------------------------------------------------------------------------
 */

/* A link is not followed, and nothing that might wait (a pipe, a device) is read. text: [n_bytes + 1] with a NUL
 * behind; *is_there: there is something of that name. */
static bw_status read_file(const char *path, char **text, size_t *n_bytes, bool *is_there, bw_err *err)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat s;
    *is_there = fd >= 0 || errno != ENOENT;
    if (fd < 0)
        return bw_fail_errno(err, errno, "%s cannot be read", path);
    bw_status status = BW_OK;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_size > BW_GPU_CHOICES_BYTES)
        status = bw_fail(err, BW_E_FORMAT, "%s is no file, or too large", path);
    else if (!(*text = bw_alloc((size_t)s.st_size + 1)))
        status = bw_fail_memory(err, (size_t)s.st_size, path);
    else if (read(fd, *text, (size_t)s.st_size) != (ssize_t)s.st_size)
        status = bw_fail(err, BW_E_IO, "%s cannot be read whole", path);
    else
        (*text)[ *n_bytes = (size_t)s.st_size] = 0;
    close(fd);
    return status;
}

/* "00c0ffee00000001 2\n"; returns what follows, or NULL. */
static const char *parse_row(const char *at, row *out)
{
    static const char digits[] = "0123456789abcdef";
    *out = (row){0};
    for (int i = 0; i < 16; i++, at++) {
        const char *digit = *at ? strchr(digits, *at) : NULL;
        if (!digit)
            return NULL;
        out->shape = out->shape << 4 | (uint64_t)(digit - digits);
    }
    if (*at++ != ' ')
        return NULL;
    for (; *at >= '0' && *at <= '9' && out->choice <= BW_GPU_CHOICES_LARGEST; at++)
        out->choice = out->choice * 10 + (*at - '0');
    return *at == '\n' && out->choice > 0 && out->choice <= BW_GPU_CHOICES_LARGEST ? at + 1 : NULL;
}

/* The rows behind the header of a file; NULL where it is not ours. */
static const char *rows_of(const bw_gpu_choices *c, const char *text, size_t n_bytes)
{
    size_t n = strlen(c->header);
    if (n_bytes < n || memcmp(text, c->header, n) != 0)
        return NULL;
    const char *at = text + n, *end = text + n_bytes;
    row r;
    for (size_t i = 0; at && at < end; i++)
        at = i < BW_GPU_CHOICES_MOST ? parse_row(at, &r) : NULL;
    return at ? text + n : NULL;
}

/* Rows that this process does not have, or only in passing. */
static void read_rows(bw_gpu_choices *c)
{
    char *text = NULL;
    size_t n_bytes = 0;
    bool is_there = true;
    bw_err err = {0};
    if (read_file(c->path, &text, &n_bytes, &is_there, &err) == BW_OK) {
        row r;
        const char *at = rows_of(c, text, n_bytes);
        if (!at)
            bw_fail(&err, BW_E_FORMAT, "%s holds something else, or is damaged", c->path);
        for (const char *end = text + n_bytes; at && at < end && (at = parse_row(at, &r)) != NULL;)
            if (!is_kept(c, r.shape))
                put(c, r.shape, r.choice, false);
    }
    if (err.status != BW_OK && is_there)
        bw_log_debug("%s; timed trials are made anew", err.text);
    bw_free(text);
}

bw_gpu_choices *bw_gpu_choices_new(const char *name, const char *identity)
{
    bw_gpu_choices *c = bw_alloc_zero(1, sizeof *c);
    if (!c)
        return NULL;
    bw_str header = {0};
    bw_str_add(&header, first_line);
    bw_str_add(&header, identity);
    bw_str_add_char(&header, '\n');
    c->header = bw_str_take(&header, NULL);
    bw_str_deinit(&header);
    if (c->header)
        find_file(c, name);
    if (c->path)
        read_rows(c);
    return c;
}

/* ---- writing ------------------------------------------------------------------------------------------------------
 */

static bool write_all(int fd, const bw_str *text)
{
    size_t at = 0;
    while (at < text->len) {
        ssize_t n = write(fd, text->data + at, text->len - at);
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static void format_rows(const bw_gpu_choices *c, bw_str *out)
{
    size_t n = 0;
    bw_str_add(out, c->header);
    for (size_t i = 0; i < c->n_places && n < BW_GPU_CHOICES_MOST; i++) {
        if (!c->rows[i].choice || c->rows[i].is_passing)
            continue;
        bw_str_add_format(out, "%016" PRIx64 " %d\n", c->rows[i].shape, c->rows[i].choice);
        n++;
    }
}

/* Beside the file (of mode 0600), then in its place. */
static bw_status replace_file(const char *path, const bw_str *text, bw_err *err)
{
    bw_str temporary = {0};
    bw_str_add_format(&temporary, "%s.XXXXXX", path);
    if (temporary.failed || text->failed) {
        bw_str_deinit(&temporary);
        return bw_fail_memory(err, text->len, path);
    }
    int fd = mkostemp(temporary.data, O_CLOEXEC);
    bool done = fd >= 0 && write_all(fd, text);
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && done) {
        done = false;
        error = errno;
    }
    if (done && rename(temporary.data, path) != 0) {
        done = false;
        error = errno;
    }
    if (fd >= 0 && !done)
        unlink(temporary.data);
    bw_str_deinit(&temporary);
    return done ? BW_OK : bw_fail_errno(err, error, "%s cannot be written", path);
}

void bw_gpu_choices_save(bw_gpu_choices *c)
{
    if (!c->has_news || !c->path)
        return;
    bw_err err = {0};
    bw_str text = {0};
    c->has_news = false;
    bw_status status = bw_dir_make(c->folder, &err);
    if (status == BW_OK) {
        read_rows(c);
        format_rows(c, &text);
        status = replace_file(c->path, &text, &err);
    }
    bw_str_deinit(&text);
    if (status == BW_OK)
        return;
    bw_log_debug("%s; timed trials are not kept", err.text);
    bw_free(c->path); /* not again and again */
    c->path = NULL;
}

void bw_gpu_choices_free(bw_gpu_choices *c)
{
    if (!c)
        return;
    bw_free(c->rows);
    bw_free(c->folder);
    bw_free(c->path);
    bw_free(c->header);
    bw_free(c);
}

/* ---- of a device --------------------------------------------------------------------------------------------------
 */

/* Of all code objects, in whatever order they were found. */
static uint64_t hash_kernels(const bw_kernel_images *images)
{
    uint64_t all = 0;
    for (int i = 0; i < images->n_images; i++) {
        const bw_kernel_image *image = &images->images[i];
        uint64_t h = image->n_bytes, word;
        for (const char *at = image->family; *at; at++)
            h = (h ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
        for (size_t at = 0; at + sizeof word <= image->n_bytes; at += sizeof word) {
            memcpy(&word, (const char *)image->data + at, sizeof word);
            h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
            h ^= h >> 29;
        }
        all += h;
    }
    return all;
}

static bw_gpu_choices *open_choices(bw_gpu *g)
{
    char runtime[32] = "", driver[32] = "", kernel_driver[64] = "", library[64];
    g->driver->versions(runtime, driver);
    bw_probe_kernel_driver(g->driver->kind, "", kernel_driver);
    bw_gpu_library_version(g, library);
    bw_str name = {0}, identity = {0};
    bw_str_add_format(&name, "%s %s %s %s %s %s", g->driver->kind_name, g->info.name, g->info.target, kernel_driver,
                      runtime, library);
    bw_str_add_format(&identity, "card %s, %s, %d units, %lld MiB\n", g->info.name, g->info.target, g->info.units,
                      (long long)(g->info.memory_bytes >> 20));
    bw_str_add_format(&identity, "driver %s, runtime %s, %s\n", kernel_driver, runtime, driver);
    bw_str_add_format(&identity, "beeswax %s, kernels %s %016" PRIx64 "\n", bw_version(), g->images.target,
                      hash_kernels(&g->images));
    bw_str_add_format(&identity, "library %s\n", library);
    bw_gpu_choices *c = name.failed || identity.failed ? NULL : bw_gpu_choices_new(name.data, identity.data);
    bw_str_deinit(&name);
    bw_str_deinit(&identity);
    return c;
}

static bw_gpu_choices *choices_of(bw_device *device)
{
    bw_gpu *g = bw_gpu_of(device);
    if (!g->choices && !g->is_capturing) /* it loads the library */
        g->choices = open_choices(g);
    return g->choices;
}

int bw_gpu_choice(bw_device *device, uint64_t shape)
{
    const bw_gpu_choices *c = choices_of(device);
    return c ? bw_gpu_choices_get(c, shape) : 0;
}

void bw_gpu_choose(bw_device *device, uint64_t shape, int choice, bool is_passing)
{
    bw_gpu_choices *c = choices_of(device);
    if (c)
        bw_gpu_choices_set(c, shape, choice, is_passing);
}

void bw_gpu_rest(bw_device *device)
{
    bw_gpu *g = bw_gpu_of(device);
    if (g->choices)
        bw_gpu_choices_save(g->choices);
}

void bw_gpu_choices_close(bw_gpu *g)
{
    bw_gpu_rest(&g->device);
    bw_gpu_choices_free(g->choices);
    g->choices = NULL;
}
