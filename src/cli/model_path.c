/* From a model's name to a file or directory; see bw_model_path.h. */
#include "bw_model_path.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "bw_map.h"
#include "bw_mem.h"
#include "bw_str.h"

/* In the order in which rbee's hive looks for one. */
static const char *const preferred[] = {"Q4_K_M", "Q5_K_M", "Q4_0", "Q5_0", "Q8_0", "F16"};

static void add_cache_dir(bw_str *out)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && *xdg)
        bw_str_add(out, xdg);
    else
        bw_str_add_format(out, "%s/.cache", home && *home ? home : ".");
}

/* The directory's first entry, in order of names, that ends so; as an owned path, or NULL. */
static char *first_with_suffix(const char *dir, const char *suffix)
{
    struct dirent **names = NULL;
    char *found = NULL;
    int n = scandir(dir, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (!found && bw_str_ends(names[i]->d_name, suffix)) {
            bw_str path = {0};
            bw_str_add_format(&path, "%s/%s", dir, names[i]->d_name);
            found = bw_str_take(&path, NULL);
            bw_str_deinit(&path);
        }
        free(names[i]); /* scandir's, not ours */
    }
    free(names);
    return found;
}

static bool holds_safetensors(const char *dir)
{
    char *file = first_with_suffix(dir, ".safetensors");
    bw_free(file);
    return file != NULL;
}

/* store/<id with / and : as ->/model.gguf, that directory with safetensors, or that very file. */
static char *find_in_store(const char *store, const char *id)
{
    bw_str path = {0};
    add_cache_dir(&path);
    bw_str_add_format(&path, "/%s/models/", store);
    for (const char *c = id; *c; c++)
        bw_str_add_char(&path, *c == '/' || *c == ':' ? '-' : *c);
    size_t n = path.len;
    bw_str_add(&path, "/model.gguf");
    bool found = !path.failed && bw_file_exists(path.data);
    if (!found && !path.failed) {
        path.data[n] = 0;
        path.len = n;
        found = bw_file_exists(path.data) || (bw_dir_exists(path.data) && holds_safetensors(path.data));
    }
    char *result = found ? bw_str_take(&path, NULL) : NULL;
    bw_str_deinit(&path);
    return result;
}

/* The snapshot that refs/main names, else the first one. */
static char *find_snapshot(const char *repo_dir)
{
    bw_str path = {0};
    char *revision = NULL, *result = NULL;
    size_t n_bytes = 0;
    bw_str_add_format(&path, "%s/refs/main", repo_dir);
    if (!path.failed && bw_file_exists(path.data) && bw_file_read(path.data, 256, &revision, &n_bytes, NULL) == BW_OK) {
        revision[strcspn(revision, "\r\n/")] = 0;
        bw_str_clear(&path);
        bw_str_add_format(&path, "%s/snapshots/%s", repo_dir, revision);
        if (*revision && strstr(revision, "..") == NULL && !path.failed && bw_dir_exists(path.data))
            result = bw_str_take(&path, NULL);
    }
    bw_free(revision);
    bw_str_deinit(&path);
    if (result)
        return result;
    bw_str_add_format(&path, "%s/snapshots", repo_dir);
    struct dirent **names = NULL;
    int n = path.failed ? -1 : scandir(path.data, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (!result && names[i]->d_name[0] != '.') {
            bw_str snapshot = {0};
            bw_str_add_format(&snapshot, "%s/%s", path.data, names[i]->d_name);
            result = bw_str_take(&snapshot, NULL);
            bw_str_deinit(&snapshot);
        }
        free(names[i]);
    }
    free(names);
    bw_str_deinit(&path);
    return result;
}

/* In a snapshot: the file that was named, else a GGUF file by hive's preference, else the directory itself. */
static char *pick_in_snapshot(const char *snapshot, const char *file)
{
    bw_str path = {0};
    char *result = NULL;
    if (file) {
        bw_str_add_format(&path, "%s/%s", snapshot, file);
        if (strstr(file, "..") == NULL && !path.failed && bw_file_exists(path.data))
            result = bw_str_take(&path, NULL);
        bw_str_deinit(&path);
        return result;
    }
    for (size_t i = 0; !result && i < sizeof preferred / sizeof *preferred; i++) {
        bw_str_clear(&path);
        bw_str_add_format(&path, "-%s.gguf", preferred[i]);
        if (!path.failed)
            result = first_with_suffix(snapshot, path.data);
    }
    bw_str_deinit(&path);
    if (!result)
        result = first_with_suffix(snapshot, ".gguf");
    if (!result && holds_safetensors(snapshot))
        result = bw_strdup(snapshot);
    return result;
}

static char *find_in_hugging_face(const char *id)
{
    const char *slash = strchr(id, '/'), *colon = strchr(id, ':');
    if (!slash || (colon && colon < slash))
        return NULL;
    const char *hub = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME");
    bw_str repo = {0};
    if (hub && *hub) {
        bw_str_add(&repo, hub);
    } else if (home && *home) {
        bw_str_add_format(&repo, "%s/hub", home);
    } else {
        add_cache_dir(&repo);
        bw_str_add(&repo, "/huggingface/hub");
    }
    bw_str_add(&repo, "/models--");
    for (const char *c = id; *c && c != colon; c++)
        bw_str_add(&repo, *c == '/' ? "--" : (char[]){*c, 0});
    char *snapshot = repo.failed ? NULL : find_snapshot(repo.data);
    char *result = snapshot ? pick_in_snapshot(snapshot, colon ? colon + 1 : NULL) : NULL;
    bw_free(snapshot);
    bw_str_deinit(&repo);
    return result;
}

bw_status bw_model_path_find(const char *model, char **path, bw_err *err)
{
    *path = NULL;
    if (!*model)
        return bw_fail(err, BW_E_ARG, "the model's name is empty; give a .gguf file, a directory or an id");
    const char *id = bw_str_starts(model, "hf:") ? model + 3 : model;
    if (bw_file_exists(model) || bw_dir_exists(model))
        *path = bw_strdup(model);
    else if (id != model && (bw_file_exists(id) || bw_dir_exists(id)))
        *path = bw_strdup(id);
    else if (access(model, F_OK) == 0)
        return bw_fail(err, BW_E_UNSUPPORTED,
                       "model '%.200s' is a device, a pipe or a socket; a model is a file or a directory", model);
    else if (!(*path = find_in_store("rbee", id)) && !(*path = find_in_store("beeswax", id)) &&
             !(*path = find_in_hugging_face(id)))
        return bw_fail(err, BW_E_NOT_FOUND,
                       "model '%.200s' is no file or directory, and neither rbee's store (~/.cache/rbee/models), "
                       "beeswax's (~/.cache/beeswax/models) nor the Hugging Face cache holds it",
                       model);
    return *path ? BW_OK : bw_fail_memory(err, strlen(model), "a model's path");
}

/* ---- names for clients ---- */

/* How many of n bytes are left without an ending, and without what numbers the parts of a split file. */
static size_t without_ending(const char *name, size_t n)
{
    static const char *const endings[] = {".gguf", ".safetensors"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t k = strlen(endings[i]);
        if (n > k && strncasecmp(name + n - k, endings[i], k) == 0)
            n -= k;
    }
    static const char part[] = "-00001-of-";
    const size_t k = sizeof part - 1 + 5;
    if (n > k && strncmp(name + n - k, part, sizeof part - 1) == 0)
        n -= k;
    return n;
}

static bool is_path(const char *model)
{
    return *model == '/' || *model == '.' || *model == '~' || access(model, F_OK) == 0;
}

/* The n bytes at the end of path[*end] behind the last slash; *end moves to before that slash. */
static const char *take_last(const char *path, size_t *end, size_t *n)
{
    while (*end > 0 && path[*end - 1] == '/')
        --*end;
    size_t stop = *end;
    while (*end > 0 && path[*end - 1] != '/')
        --*end;
    *n = stop - *end;
    return path + *end;
}

char *bw_model_name(const char *model)
{
    char *whole = NULL;
    if (!is_path(model))
        return strchr(model, '/') || strchr(model, ':') ? bw_strdup(model)
                                                        : bw_strndup(model, without_ending(model, strlen(model)));
    if (*model == '.' && (whole = realpath(model, NULL)))
        model = whole;
    size_t end = strlen(model), n, n_before;
    const char *name = take_last(model, &end, &n), *last = name;
    n = without_ending(name, n);
    const char *before = take_last(model, &end, &n_before);
    char *out;
    const char *snapshot = strstr(model, "/snapshots/"), *repo = snapshot;
    while (repo && repo > model && repo[-1] != '/')
        repo--;
    if (snapshot && bw_str_starts(repo, "models--") && strchr(snapshot + 11, '/') == NULL) { /* a whole repository */
        out = bw_strndup(repo + 8, (size_t)(snapshot - repo) - 8);
        char *dashes = out ? strstr(out, "--") : NULL;
        if (dashes) {
            *dashes = '/';
            memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
        }
    } else if (n == 5 && strncmp(last, "model", 5) == 0 && n_before > 0) {
        out = bw_strndup(before, n_before);
    } else {
        out = n > 0 ? bw_strndup(name, n) : bw_strdup("model");
    }
    free(whole);
    return out;
}
