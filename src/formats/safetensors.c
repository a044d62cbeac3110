/* Opening safetensors: one file, several, or those an index.json names. Format: the safetensors README, "Format".
 *
 * Owns every check on what a header says: lengths, JSON, names, types, shapes, that each tensor lies inside the file
 * and no two overlap. Tensor data is never copied. */
#include "safetensors_file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "bw_json_object.h"
#include "bw_mem.h"
#include "bw_str.h"

enum { MAX_INDEX = 256 << 20, MAX_METADATA = 1 << 16, MAX_FILES = 10000 };

static const struct {
    const char *name;
    bw_dtype dtype;
} dtype_names[] = {{"F64", BW_F64}, {"F32", BW_F32}, {"F16", BW_F16},         {"BF16", BW_BF16},
                   {"I64", BW_I64}, {"I32", BW_I32}, {"I16", BW_I16},         {"I8", BW_I8},
                   {"U8", BW_U8},   {"U32", BW_U32}, {"F8_E4M3", BW_F8_E4M3}, {"BOOL", BW_U8}};

const char *bw_safetensors_dtype_name(bw_dtype dtype)
{
    for (size_t i = 0; i < sizeof dtype_names / sizeof dtype_names[0]; i++)
        if (dtype_names[i].dtype == dtype)
            return dtype_names[i].name;
    return NULL;
}

static bw_dtype dtype_of(const char *name)
{
    for (size_t i = 0; i < sizeof dtype_names / sizeof dtype_names[0]; i++)
        if (strcmp(dtype_names[i].name, name) == 0)
            return dtype_names[i].dtype;
    return BW_DTYPE_COUNT;
}

static bw_name name_of_tensor(const void *items, size_t i)
{
    const char *name = ((const bw_safetensor *)items)[i].name;
    return (bw_name){name, strlen(name)};
}

/* ---- one file's header ---- */

static bw_status read_shape(bw_safetensor *t, const json_t *shape, const char *path, const char *shown, bw_err *err)
{
    if (!json_is_array(shape))
        return bw_fail(err, BW_E_FORMAT, "%s: tensor %s has no shape", path, shown);
    size_t n = json_array_size(shape);
    if (n > BW_MAX_DIMS)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: tensor %s has %zu dimensions; at most %d can be read", path, shown,
                       n, BW_MAX_DIMS);
    t->n_dims = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return bw_fail(err, BW_E_FORMAT, "%s: tensor %s has a dimension that is no number from 0 on", path, shown);
        t->dims[i] = json_integer_value(dim);
    }
    return BW_OK;
}

static bw_status read_tensor(bw_safetensors *st, const file_part *f, const char *key, const json_t *value,
                             bw_safetensor *t, bw_err *err)
{
    char shown[BW_NAME_SHOWN];
    bw_name_show(shown, key, strlen(key));
    *t = (bw_safetensor){.part = f->part};
    const char *type = json_string_value(json_object_get(value, "dtype"));
    const json_t *offsets = json_object_get(value, "data_offsets");
    if (!type)
        return bw_fail(err, BW_E_FORMAT, "%s: tensor %s has no dtype", f->path, shown);
    t->dtype = dtype_of(type);
    if (t->dtype == BW_DTYPE_COUNT) {
        char shown_type[BW_NAME_SHOWN];
        return bw_fail(err, BW_E_UNSUPPORTED,
                       "%s: tensor %s has the dtype %s, which cannot be read (F64 F32 F16 BF16 I64 "
                       "I32 I16 I8 U8 U32 BOOL F8_E4M3 can)",
                       f->path, shown, bw_name_show(shown_type, type, strlen(type)));
    }
    BW_TRY(read_shape(t, json_object_get(value, "shape"), f->path, shown, err));
    const json_t *b = json_array_get(offsets, 0), *e = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return bw_fail(err, BW_E_FORMAT, "%s: tensor %s has no data_offsets of two numbers", f->path, shown);
    int64_t begin = json_integer_value(b), end = json_integer_value(e),
            need = bw_tensor_bytes(t->dtype, t->n_dims, t->dims);
    if (begin < 0 || end < begin || (uint64_t)end > f->n_data)
        return bw_fail(err, BW_E_FORMAT,
                       "%s is cut short or damaged: tensor %s lies at bytes %" PRId64 " to %" PRId64
                       " of the data, which has %zu",
                       f->path, shown, begin, end, f->n_data);
    if (need < 0)
        return bw_fail(err, BW_E_FORMAT, "%s: tensor %s has a shape whose size is beyond 2^63 bytes", f->path, shown);
    if (need != end - begin)
        return bw_fail(err, BW_E_FORMAT,
                       "%s: tensor %s takes %" PRId64 " bytes by its shape, and %" PRId64 " by its data_offsets",
                       f->path, shown, need, end - begin);
    t->name = bw_arena_strndup(&st->arena, key, strlen(key));
    if (!t->name)
        return bw_fail_memory(err, strlen(key), "a tensor's name");
    t->data = f->data + begin;
    t->n_bytes = (size_t)need;
    return BW_OK;
}

static const char *find_metadata(const bw_safetensors *st, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(st->metadata[i].key, key) == 0)
            return st->metadata[i].value;
    return NULL;
}

static bw_status read_metadata(bw_safetensors *st, const file_part *f, json_t *object, bw_err *err)
{
    size_t n_earlier = st->n_metadata; /* of other files; within one, JSON's keys differ */
    if (!json_is_object(object))
        return bw_fail(err, BW_E_FORMAT, "%s: __metadata__ is not an object", f->path);
    if (json_object_size(object) > MAX_METADATA - n_earlier)
        return bw_fail(err, BW_E_FORMAT, "%s has %zu metadata entries; at most %d can be read", f->path,
                       json_object_size(object), MAX_METADATA);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value))
            return bw_fail(err, BW_E_FORMAT, "%s: __metadata__ holds something else than strings", f->path);
        if (find_metadata(st, n_earlier, key))
            continue; /* an earlier file's */
        char *k = bw_arena_strndup(&st->arena, key, strlen(key));
        char *v = bw_arena_strndup(&st->arena, json_string_value(value), json_string_length(value));
        if (!k || !v ||
            !bw_reserve((void **)&st->metadata, &st->cap_metadata, st->n_metadata + 1, sizeof *st->metadata))
            return bw_fail_memory(err, strlen(key), "metadata");
        st->metadata[st->n_metadata++] = (metadata_entry){k, v};
    }
    return BW_OK;
}

static int by_data(const void *a, const void *b)
{
    const bw_safetensor *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

static bw_status refuse_overlaps(const file_part *f, bw_safetensor *t, size_t n, bw_err *err)
{
    if (n > 1)
        qsort(t, n, sizeof *t, by_data);
    for (size_t i = 1; i < n; i++)
        if ((const char *)t[i].data < (const char *)t[i - 1].data + t[i - 1].n_bytes) {
            char a[BW_NAME_SHOWN], b[BW_NAME_SHOWN];
            return bw_fail(err, BW_E_FORMAT, "%s is damaged: the data of the tensors %s and %s overlap", f->path,
                           bw_name_show(a, t[i - 1].name, strlen(t[i - 1].name)),
                           bw_name_show(b, t[i].name, strlen(t[i].name)));
        }
    return BW_OK;
}

static bw_status read_entries(bw_safetensors *st, const file_part *f, json_t *root, bw_err *err)
{
    size_t n = json_object_size(root), first = st->n_tensors;
    if (n > SAFETENSORS_MAX_TENSORS - first)
        return bw_fail(err, BW_E_FORMAT, "%s has %zu tensors; at most %d can be read", f->path, n,
                       SAFETENSORS_MAX_TENSORS);
    bw_safetensor *grown = bw_realloc_array(st->tensors, first + n + 1, sizeof *grown);
    if (!grown)
        return bw_fail_memory(err, (first + n + 1) * sizeof *grown, "the tensor table");
    st->tensors = grown;
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "__metadata__") == 0) {
            BW_TRY(read_metadata(st, f, value, err));
        } else {
            BW_TRY(read_tensor(st, f, key, value, &st->tensors[st->n_tensors], err));
            st->n_tensors++;
        }
    }
    return refuse_overlaps(f, st->tensors + first, st->n_tensors - first, err);
}

static bw_status read_part(bw_safetensors *st, int part, const char *path, bw_err *err)
{
    const bw_map *map = &st->maps[part];
    uint64_t n_header = 0;
    if (map->n_bytes < 8)
        return bw_fail(err, BW_E_FORMAT, "%s is not a safetensors file: it has %zu bytes, and 8 are the least", path,
                       map->n_bytes);
    memcpy(&n_header, map->data, 8);
    if (n_header > SAFETENSORS_MAX_HEADER || n_header > map->n_bytes - 8)
        return bw_fail(err, BW_E_FORMAT,
                       "%s is not a safetensors file, or cut short: its header should have %" PRIu64
                       " bytes, and the file has %zu (and %d are the most)",
                       path, n_header, map->n_bytes, SAFETENSORS_MAX_HEADER);
    file_part f = {path, part, map->data + 8 + n_header, map->n_bytes - 8 - (size_t)n_header};
    json_t *root = NULL;
    BW_TRY(bw_json_parse((const char *)map->data + 8, (size_t)n_header, path, "the header", &root, err));
    bw_status status = read_entries(st, &f, root, err);
    json_decref(root);
    return status;
}

static bw_status index_names(bw_safetensors *st, bw_err *err)
{
    if (!bw_name_index_init(&st->names, st->n_tensors))
        return bw_fail_memory(err, st->n_tensors * 8, "the tensor index");
    for (size_t i = 0; i < st->n_tensors; i++)
        if (bw_name_index_add(&st->names, st->tensors, name_of_tensor, i) != SIZE_MAX) {
            char shown[BW_NAME_SHOWN];
            return bw_fail(err, BW_E_FORMAT, "the tensor %s appears in two of the model's files",
                           bw_name_show(shown, st->tensors[i].name, strlen(st->tensors[i].name)));
        }
    return BW_OK;
}

/* ---- which files ---- */

typedef struct name_list {
    char **names; /* sorted, without repeats once finished */
    size_t n, cap;
} name_list;

static void name_list_deinit(name_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        bw_free(list->names[i]);
    bw_free(list->names);
    *list = (name_list){0};
}

static bw_status name_list_add(name_list *list, const char *folder, size_t n_folder, const char *name, bw_err *err)
{
    bw_str path = {0};
    bw_str_add_bytes(&path, folder, n_folder);
    if (n_folder > 0 && folder[n_folder - 1] != '/')
        bw_str_add_char(&path, '/');
    bw_str_add(&path, name);
    char *taken = bw_str_take(&path, NULL);
    if (!taken || !bw_reserve((void **)&list->names, &list->cap, list->n + 1, sizeof *list->names)) {
        bw_free(taken);
        return bw_fail_memory(err, n_folder + strlen(name), "a file's name");
    }
    list->names[list->n++] = taken;
    return BW_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void name_list_finish(name_list *list)
{
    size_t kept = 0;
    if (list->n > 1)
        qsort(list->names, list->n, sizeof *list->names, by_name);
    for (size_t i = 0; i < list->n; i++)
        if (kept > 0 && strcmp(list->names[kept - 1], list->names[i]) == 0)
            bw_free(list->names[i]);
        else
            list->names[kept++] = list->names[i];
    list->n = kept;
}

/* Map and read every file of the list. */
static bw_status read_files(bw_safetensors *st, const name_list *list, bw_err *err)
{
    if (list->n > MAX_FILES)
        return bw_fail(err, BW_E_FORMAT, "a model of %zu files is more than the %d that can be opened", list->n,
                       MAX_FILES);
    st->maps = bw_alloc_zero(list->n, sizeof *st->maps);
    if (!st->maps)
        return bw_fail_memory(err, list->n * sizeof *st->maps, "the files");
    for (size_t i = 0; i < list->n; i++) {
        BW_TRY(bw_map_open(list->names[i], &st->maps[i], err));
        st->n_maps = i + 1;
        BW_TRY(read_part(st, (int)i, list->names[i], err));
    }
    return index_names(st, err);
}

static bw_status check_weight_map(const bw_safetensors *st, const json_t *weights, const char *path, bw_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)weights, key, value)
    {
        (void)value;
        if (!bw_safetensors_find(st, key)) {
            char shown[BW_NAME_SHOWN];
            return bw_fail(err, BW_E_FORMAT, "%s names the tensor %s, which is in none of its files", path,
                           bw_name_show(shown, key, strlen(key)));
        }
    }
    return BW_OK;
}

static bw_status open_weight_map(bw_safetensors *st, const json_t *root, const char *path, bw_err *err)
{
    json_t *weights = json_object_get(root, "weight_map");
    if (!json_is_object(weights) || json_object_size(weights) == 0)
        return bw_fail(err, BW_E_FORMAT, "%s has no weight_map that names tensors and their files", path);
    const char *slash = strrchr(path, '/'), *key;
    size_t n_folder = slash ? (size_t)(slash - path) + 1 : 0;
    name_list list = {0};
    bw_status status = BW_OK;
    json_t *value;
    const char *last = NULL;
    json_object_foreach(weights, key, value)
    {
        const char *file = json_string_value(value);
        if (!file || !*file || strchr(file, '/') || strcmp(file, "..") == 0 || strcmp(file, ".") == 0) {
            char shown[BW_NAME_SHOWN];
            status = bw_fail(err, BW_E_FORMAT, "%s: the file of tensor %s must be a plain file name beside the index",
                             path, bw_name_show(shown, key, strlen(key)));
        } else if (!last || strcmp(last, file) != 0) {
            status = name_list_add(&list, path, n_folder, file, err);
            last = file;
        }
        if (status != BW_OK)
            break;
    }
    if (status == BW_OK) {
        name_list_finish(&list);
        status = read_files(st, &list, err);
    }
    if (status == BW_OK)
        status = check_weight_map(st, weights, path, err);
    name_list_deinit(&list);
    return status;
}

static bw_status open_index(bw_safetensors *st, const char *path, bw_err *err)
{
    char *text;
    size_t n_bytes;
    json_t *root = NULL;
    BW_TRY(bw_file_read(path, MAX_INDEX, &text, &n_bytes, err));
    bw_status status = bw_json_parse(text, n_bytes, path, "the index", &root, err);
    bw_free(text);
    if (status == BW_OK)
        status = open_weight_map(st, root, path, err);
    json_decref(root);
    return status;
}

/* The names in a folder that end in suffix. */
static bw_status list_folder(const char *path, const char *suffix, name_list *list, bw_err *err)
{
    DIR *folder = opendir(path);
    if (!folder)
        return bw_fail_errno(err, errno, "%s cannot be listed", path);
    bw_status status = BW_OK;
    for (struct dirent *entry; status == BW_OK && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.' && bw_str_ends(entry->d_name, suffix))
            status = name_list_add(list, path, strlen(path), entry->d_name, err);
    closedir(folder);
    name_list_finish(list);
    return status;
}

static bw_status open_folder(bw_safetensors *st, const char *path, bw_err *err)
{
    name_list list = {0};
    bw_status status = list_folder(path, ".safetensors.index.json", &list, err);
    if (status == BW_OK && list.n > 0) {
        const char *chosen = list.names[0];
        for (size_t i = 0; i < list.n; i++)
            if (bw_str_ends(list.names[i], "/model.safetensors.index.json"))
                chosen = list.names[i];
        status = open_index(st, chosen, err);
    } else if (status == BW_OK) {
        status = list_folder(path, ".safetensors", &list, err);
        if (status == BW_OK && list.n == 0)
            status = bw_fail(err, BW_E_NOT_FOUND, "the folder %s holds no .safetensors file", path);
        if (status == BW_OK)
            status = read_files(st, &list, err);
    }
    name_list_deinit(&list);
    return status;
}

static bw_status open_file(bw_safetensors *st, const char *path, bw_err *err)
{
    name_list list = {0};
    bw_status status = name_list_add(&list, "", 0, path, err);
    if (status == BW_OK)
        status = read_files(st, &list, err);
    name_list_deinit(&list);
    return status;
}

/* ---- open and close ---- */

static bw_status new_model(bw_safetensors **st, bw_err *err)
{
    *st = bw_alloc_zero(1, sizeof **st);
    if (!*st)
        return bw_fail_memory(err, sizeof **st, "a safetensors model");
    bw_arena_init(&(*st)->arena, 0);
    return BW_OK;
}

static bw_status finish_open(bw_safetensors **st, bw_status status)
{
    if (status != BW_OK) {
        bw_safetensors_close(*st);
        *st = NULL;
    }
    return status;
}

bw_status bw_safetensors_open(const char *path, bw_safetensors **st, bw_err *err)
{
    BW_TRY(new_model(st, err));
    if (bw_dir_exists(path))
        return finish_open(st, open_folder(*st, path, err));
    if (bw_str_ends(path, ".index.json"))
        return finish_open(st, open_index(*st, path, err));
    return finish_open(st, open_file(*st, path, err));
}

bw_status bw_safetensors_open_memory(const void *data, size_t n_bytes, const char *path, bw_safetensors **st,
                                     bw_err *err)
{
    BW_TRY(new_model(st, err));
    (*st)->maps = bw_alloc_zero(1, sizeof *(*st)->maps);
    if (!(*st)->maps)
        return finish_open(st, bw_fail_memory(err, sizeof *(*st)->maps, "the file"));
    (*st)->maps[0] = (bw_map){data, n_bytes, false};
    (*st)->n_maps = 1;
    (*st)->borrowed = true;
    bw_status status = read_part(*st, 0, path, err);
    return finish_open(st, status == BW_OK ? index_names(*st, err) : status);
}

void bw_safetensors_close(bw_safetensors *st)
{
    if (!st)
        return;
    for (size_t i = 0; !st->borrowed && i < st->n_maps; i++)
        bw_map_close(&st->maps[i]);
    bw_free(st->maps);
    bw_free(st->tensors);
    bw_free(st->metadata);
    bw_name_index_deinit(&st->names);
    bw_arena_deinit(&st->arena);
    bw_free(st);
}

size_t bw_safetensors_count(const bw_safetensors *st)
{
    return st->n_tensors;
}

const bw_safetensor *bw_safetensors_at(const bw_safetensors *st, size_t i)
{
    return &st->tensors[i];
}

const bw_safetensor *bw_safetensors_find(const bw_safetensors *st, const char *name)
{
    size_t i = bw_name_index_find(&st->names, st->tensors, name_of_tensor, name, strlen(name));
    return i == SIZE_MAX ? NULL : &st->tensors[i];
}

const char *bw_safetensors_metadata(const bw_safetensors *st, const char *key)
{
    return find_metadata(st, st->n_metadata, key);
}

const bw_map *bw_safetensors_map(const bw_safetensors *st, int part)
{
    return part >= 0 && (size_t)part < st->n_maps ? &st->maps[part] : NULL;
}
