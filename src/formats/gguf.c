/* Opening GGUF: header, metadata, tensor table, parts of a split model. Format: ggml's docs/gguf.md.
 *
 * Owns every check on what a file says. Nothing is allocated from a number in the file before the file was seen to be
 * long enough for it. Tensor data is never copied. Refuses big-endian files, version 1, unknown types, duplicate keys
 * and tensors, offsets outside the file, tensors that overlap. */
#include "gguf_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bw_mem.h"
#include "bw_str.h"

enum {
    MAX_PAIRS = 1 << 20,
    MAX_TENSORS = 1 << 20,
    MAX_NAME = 1 << 10,   /* bytes of a key or a tensor's name are below this */
    MAX_NESTED = 1 << 20, /* arrays in an array */
    MAX_DEPTH = 4,
    MAX_PARTS = 10000
};

typedef struct cursor {
    const unsigned char *data;
    size_t pos, n_bytes; /* pos <= n_bytes */
    const char *path;
    bw_gguf *gguf;
    bw_err *err;
} cursor;

size_t bw_gguf_type_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

bw_name bw_gguf_name_of_pair(const void *items, size_t i)
{
    const gguf_pair *pair = (const gguf_pair *)items + i;
    return (bw_name){pair->key, pair->n_key};
}

bw_name bw_gguf_name_of_tensor(const void *items, size_t i)
{
    const bw_gguf_tensor *t = (const bw_gguf_tensor *)items + i;
    return (bw_name){t->name.data, t->name.n_bytes};
}

/* ---- numbers and strings ---- */

static bw_status read_raw(cursor *c, void *out, size_t n, const char *what)
{
    if (c->n_bytes - c->pos < n)
        return bw_fail(c->err, BW_E_FORMAT, "%s is cut short: %s at byte %zu needs %zu bytes, and %zu are left",
                       c->path, what, c->pos, n, c->n_bytes - c->pos);
    memcpy(out, c->data + c->pos, n);
    c->pos += n;
    return BW_OK;
}

static bw_status read_u32(cursor *c, uint32_t *out, const char *what)
{
    return read_raw(c, out, sizeof *out, what);
}

static bw_status read_u64(cursor *c, uint64_t *out, const char *what)
{
    return read_raw(c, out, sizeof *out, what);
}

static bw_status read_string(cursor *c, bw_gguf_string *out, const char *what)
{
    uint64_t n = 0;
    size_t at = c->pos;
    BW_TRY(read_u64(c, &n, what));
    if (n > c->n_bytes - c->pos)
        return bw_fail(c->err, BW_E_FORMAT,
                       "%s is damaged: the string of %s at byte %zu says it has %" PRIu64
                       " bytes, and %zu are left in the file",
                       c->path, what, at, n, c->n_bytes - c->pos);
    out->data = (const char *)c->data + c->pos;
    out->n_bytes = (size_t)n;
    c->pos += (size_t)n;
    return BW_OK;
}

/* A key or a tensor's name: not empty, not long, no NUL inside. */
static bw_status read_name(cursor *c, bw_gguf_string *out, const char *what)
{
    size_t at = c->pos;
    BW_TRY(read_string(c, out, what));
    if (out->n_bytes == 0 || out->n_bytes >= MAX_NAME)
        return bw_fail(c->err, BW_E_FORMAT,
                       "%s is damaged: %s at byte %zu has a name of %zu bytes; 1 to %d are allowed", c->path, what, at,
                       out->n_bytes, MAX_NAME - 1);
    if (memchr(out->data, 0, out->n_bytes))
        return bw_fail(c->err, BW_E_FORMAT, "%s is damaged: the name of %s at byte %zu contains a zero byte", c->path,
                       what, at);
    return BW_OK;
}

/* ---- values ---- */

static bw_status read_scalar(cursor *c, uint32_t type, bw_gguf_value *v, const char *key)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        float f32;
        uint64_t u64;
        int64_t i64;
        double f64;
    } raw;
    BW_TRY(read_raw(c, &raw, bw_gguf_type_bytes(type), key));
    switch ((bw_gguf_type)type) {
    case BW_GGUF_U8:
        v->u = raw.u8;
        break;
    case BW_GGUF_I8:
        v->i = raw.i8;
        break;
    case BW_GGUF_U16:
        v->u = raw.u16;
        break;
    case BW_GGUF_I16:
        v->i = raw.i16;
        break;
    case BW_GGUF_U32:
        v->u = raw.u32;
        break;
    case BW_GGUF_I32:
        v->i = raw.i32;
        break;
    case BW_GGUF_F32:
        v->f = (double)raw.f32;
        break;
    case BW_GGUF_BOOL:
        if (raw.u8 > 1)
            return bw_fail(c->err, BW_E_FORMAT, "%s is damaged: %s is a bool of value %u; only 0 and 1 are allowed",
                           c->path, key, raw.u8);
        v->u = raw.u8;
        break;
    case BW_GGUF_U64:
        v->u = raw.u64;
        break;
    case BW_GGUF_I64:
        v->i = raw.i64;
        break;
    default:
        v->f = raw.f64;
        break;
    }
    return BW_OK;
}

/* Walk over n strings once to see that they are there, then make their table. */
static bw_status read_string_array(cursor *c, bw_gguf_value *v, uint64_t n, const char *key)
{
    size_t begin = c->pos;
    bw_gguf_string s;
    for (uint64_t i = 0; i < n; i++)
        BW_TRY(read_string(c, &s, key));
    if (n == 0)
        return BW_OK;
    bw_gguf_string *table = bw_arena_alloc_zero(&c->gguf->arena, (size_t)n, sizeof *table);
    if (!table)
        return bw_fail_memory(c->err, (size_t)n * sizeof *table, "an array of strings");
    c->pos = begin;
    for (uint64_t i = 0; i < n; i++)
        BW_TRY(read_string(c, &table[i], key));
    v->a.strings = table;
    return BW_OK;
}

static bw_status read_array(cursor *c, bw_gguf_value *v, const char *key, int depth)
{
    uint32_t type = 0;
    uint64_t n = 0;
    BW_TRY(read_u32(c, &type, key));
    BW_TRY(read_u64(c, &n, key));
    if (type > BW_GGUF_F64)
        return bw_fail(c->err, BW_E_FORMAT, "%s is damaged: %s is an array of elements of unknown type %" PRIu32,
                       c->path, key, type);
    size_t width = bw_gguf_type_bytes(type), left = c->n_bytes - c->pos;
    size_t least = width ? width : type == BW_GGUF_STRING ? 8 : 12; /* bytes that an element takes at least */
    if (n > left / least)
        return bw_fail(c->err, BW_E_FORMAT,
                       "%s is damaged: %s says it has %" PRIu64
                       " elements, more than the %zu bytes left in the file can hold",
                       c->path, key, n, left);
    v->type = BW_GGUF_ARRAY;
    v->a.type = (bw_gguf_type)type;
    v->a.n = n;
    if (width) {
        v->a.data = c->data + c->pos;
        c->pos += (size_t)n * width;
        return BW_OK;
    }
    if (type == BW_GGUF_STRING)
        return read_string_array(c, v, n, key);
    if (depth >= MAX_DEPTH || n > MAX_NESTED)
        return bw_fail(c->err, BW_E_FORMAT,
                       "%s: %s nests arrays too deeply or too often (%d deep and %d arrays are "
                       "allowed)",
                       c->path, key, MAX_DEPTH, MAX_NESTED);
    bw_gguf_value *items = n ? bw_arena_alloc_zero(&c->gguf->arena, (size_t)n, sizeof *items) : NULL;
    if (n && !items)
        return bw_fail_memory(c->err, (size_t)n * sizeof *items, "a nested array");
    v->a.arrays = items;
    for (uint64_t i = 0; i < n; i++)
        BW_TRY(read_array(c, &items[i], key, depth + 1));
    return BW_OK;
}

static bw_status read_pair(cursor *c, gguf_pair *pair)
{
    bw_gguf_string key;
    char shown[BW_NAME_SHOWN];
    uint32_t type = 0;
    BW_TRY(read_name(c, &key, "a metadata key"));
    bw_name_show(shown, key.data, key.n_bytes);
    BW_TRY(read_u32(c, &type, shown));
    char *copy = bw_arena_strndup(&c->gguf->arena, key.data, key.n_bytes);
    if (!copy)
        return bw_fail_memory(c->err, key.n_bytes + 1, "a metadata key");
    pair->key = copy;
    pair->n_key = key.n_bytes;
    pair->value = (bw_gguf_value){0};
    pair->value.type = (bw_gguf_type)type;
    if (type > BW_GGUF_F64)
        return bw_fail(c->err, BW_E_FORMAT, "%s is damaged: %s has the unknown metadata type %" PRIu32, c->path, shown,
                       type);
    if (type == BW_GGUF_STRING)
        return read_string(c, &pair->value.s, shown);
    if (type == BW_GGUF_ARRAY)
        return read_array(c, &pair->value, shown, 1);
    return read_scalar(c, type, &pair->value, shown);
}

/* pairs and keys of one part; for parts after the first they are read into scratch places and dropped. */
static bw_status read_pairs(cursor *c, uint64_t n, gguf_pair **pairs, bw_name_index *keys)
{
    if (n > MAX_PAIRS || n > (c->n_bytes - c->pos) / 13)
        return bw_fail(c->err, BW_E_FORMAT,
                       "%s is damaged: it says it has %" PRIu64
                       " metadata entries, more than its %zu bytes can hold or than %d",
                       c->path, n, c->n_bytes, MAX_PAIRS);
    *pairs = bw_alloc_zero((size_t)n, sizeof **pairs);
    if (!*pairs || !bw_name_index_init(keys, (size_t)n))
        return bw_fail_memory(c->err, (size_t)n * sizeof **pairs, "the metadata");
    for (size_t i = 0; i < n; i++) {
        BW_TRY(read_pair(c, *pairs + i));
        if (bw_name_index_add(keys, *pairs, bw_gguf_name_of_pair, i) != SIZE_MAX) {
            char shown[BW_NAME_SHOWN];
            return bw_fail(c->err, BW_E_FORMAT, "%s is damaged: the metadata key %s appears twice", c->path,
                           bw_name_show(shown, (*pairs)[i].key, (*pairs)[i].n_key));
        }
    }
    return BW_OK;
}

/* ---- tensors ---- */

static bw_status read_tensor(cursor *c, bw_gguf_tensor *t, uint64_t *offset)
{
    char shown[BW_NAME_SHOWN];
    uint32_t n_dims = 0, type = 0;
    BW_TRY(read_name(c, &t->name, "a tensor"));
    bw_name_show(shown, t->name.data, t->name.n_bytes);
    BW_TRY(read_u32(c, &n_dims, shown));
    if (n_dims < 1 || n_dims > BW_MAX_DIMS)
        return bw_fail(c->err, BW_E_FORMAT, "%s: tensor %s has %" PRIu32 " dimensions; 1 to %d are allowed", c->path,
                       shown, n_dims, BW_MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (uint32_t i = 0; i < n_dims; i++) {
        uint64_t dim = 0;
        BW_TRY(read_u64(c, &dim, shown));
        if (dim == 0 || dim > INT64_MAX)
            return bw_fail(c->err, BW_E_FORMAT, "%s: tensor %s has a dimension of %" PRIu64, c->path, shown, dim);
        t->dims[n_dims - 1 - i] = (int64_t)dim;
    }
    BW_TRY(read_u32(c, &type, shown));
    t->dtype = bw_dtype_from_gguf(type);
    if (t->dtype == BW_DTYPE_COUNT)
        return bw_fail(c->err, BW_E_UNSUPPORTED,
                       "%s: tensor %s has the type number %" PRIu32
                       ", which is unknown or was withdrawn from GGUF; convert the model anew",
                       c->path, shown, type);
    int64_t block = bw_dtype_block_elements(t->dtype), row = t->dims[n_dims - 1];
    if (row % block != 0)
        return bw_fail(c->err, BW_E_FORMAT,
                       "%s: tensor %s has rows of %" PRId64 " elements, no multiple of %s's %" PRId64, c->path, shown,
                       row, bw_dtype_name(t->dtype), block);
    int64_t bytes = bw_tensor_bytes(t->dtype, t->n_dims, t->dims);
    if (bytes < 0)
        return bw_fail(c->err, BW_E_FORMAT, "%s: tensor %s is larger than 2^63 bytes", c->path, shown);
    t->n_bytes = (size_t)bytes;
    return read_u64(c, offset, shown);
}

typedef struct extent {
    uint64_t offset, n_bytes;
    size_t tensor;
} extent;

static int by_offset(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    return x->offset != y->offset ? (x->offset < y->offset ? -1 : 1) : (x->tensor < y->tensor ? -1 : 1);
}

/* Of the n tensors from `first` on, all of one part. The table keeps the file's order. */
static bw_status refuse_overlaps(cursor *c, size_t first, size_t n, const uint64_t *offsets)
{
    const bw_gguf_tensor *t = c->gguf->tensors + first;
    extent *sorted = bw_alloc_array(n, sizeof *sorted);
    if (!sorted)
        return bw_fail_memory(c->err, n * sizeof *sorted, "the tensor table");
    for (size_t i = 0; i < n; i++)
        sorted[i] = (extent){offsets[i], t[i].n_bytes, i};
    if (n > 1)
        qsort(sorted, n, sizeof *sorted, by_offset);
    bw_status status = BW_OK;
    for (size_t i = 1; status == BW_OK && i < n; i++) {
        const bw_gguf_string *a = &t[sorted[i - 1].tensor].name, *b = &t[sorted[i].tensor].name;
        char shown[2][BW_NAME_SHOWN];
        if (sorted[i].offset - sorted[i - 1].offset < sorted[i - 1].n_bytes)
            status = bw_fail(c->err, BW_E_FORMAT, "%s is damaged: the data of the tensors %s and %s overlap", c->path,
                             bw_name_show(shown[0], a->data, a->n_bytes), bw_name_show(shown[1], b->data, b->n_bytes));
    }
    bw_free(sorted);
    return status;
}

/* Tensor records of one part, appended to gguf->tensors; then their data pointers. */
static bw_status read_tensors(cursor *c, uint64_t n, uint64_t alignment, int part)
{
    bw_gguf *g = c->gguf;
    if (n > MAX_TENSORS || n > (c->n_bytes - c->pos) / 33 || g->n_tensors + n > MAX_TENSORS)
        return bw_fail(c->err, BW_E_FORMAT,
                       "%s is damaged: it says it has %" PRIu64 " tensors, more than its %zu bytes can hold or than %d",
                       c->path, n, c->n_bytes, MAX_TENSORS);
    size_t first = g->n_tensors, total = first + (size_t)n;
    bw_gguf_tensor *grown = bw_realloc_array(g->tensors, total ? total : 1, sizeof *grown);
    if (!grown)
        return bw_fail_memory(c->err, total * sizeof *grown, "the tensor table");
    g->tensors = grown;
    uint64_t *offsets = bw_alloc_array((size_t)n, sizeof *offsets);
    if (!offsets)
        return bw_fail_memory(c->err, (size_t)n * sizeof *offsets, "the tensor table");
    bw_status status = BW_OK;
    for (size_t i = 0; status == BW_OK && i < n; i++) {
        g->tensors[first + i] = (bw_gguf_tensor){.part = part};
        status = read_tensor(c, &g->tensors[first + i], &offsets[i]);
    }
    uint64_t begin = (c->pos + alignment - 1) / alignment * alignment;
    uint64_t room = begin <= c->n_bytes ? c->n_bytes - begin : 0;
    for (size_t i = 0; status == BW_OK && i < n; i++) {
        bw_gguf_tensor *t = &g->tensors[first + i];
        char shown[BW_NAME_SHOWN];
        if (offsets[i] % alignment != 0)
            status = bw_fail(c->err, BW_E_FORMAT,
                             "%s: tensor %s lies at offset %" PRIu64 ", no multiple of the alignment %" PRIu64, c->path,
                             bw_name_show(shown, t->name.data, t->name.n_bytes), offsets[i], alignment);
        else if (offsets[i] > room || t->n_bytes > room - offsets[i])
            status = bw_fail(c->err, BW_E_FORMAT,
                             "%s is cut short or damaged: tensor %s needs %zu bytes at offset %" PRIu64
                             " of the data, which has %" PRIu64,
                             c->path, bw_name_show(shown, t->name.data, t->name.n_bytes), t->n_bytes, offsets[i], room);
        else
            t->data = c->data + begin + offsets[i];
    }
    if (status == BW_OK)
        status = refuse_overlaps(c, first, (size_t)n, offsets);
    bw_free(offsets);
    g->n_tensors = total;
    return status;
}

static bw_status index_tensors(bw_gguf *g, bw_err *err)
{
    if (!bw_name_index_init(&g->names, g->n_tensors))
        return bw_fail_memory(err, g->n_tensors * 8, "the tensor index");
    for (size_t i = 0; i < g->n_tensors; i++)
        if (bw_name_index_add(&g->names, g->tensors, bw_gguf_name_of_tensor, i) != SIZE_MAX) {
            char shown[BW_NAME_SHOWN];
            return bw_fail(err, BW_E_FORMAT, "%s is damaged: the tensor %s appears twice", g->path,
                           bw_name_show(shown, g->tensors[i].name.data, g->tensors[i].name.n_bytes));
        }
    return BW_OK;
}

/* ---- one part ---- */

static bw_status read_header(cursor *c, uint32_t *version, uint64_t *n_tensors, uint64_t *n_pairs)
{
    char magic[4];
    if (c->n_bytes < 4 || memcmp(c->data, "GGUF", 4) != 0)
        return bw_fail(c->err, BW_E_FORMAT, "%s is not a GGUF file: it does not begin with \"GGUF\"", c->path);
    BW_TRY(read_raw(c, magic, 4, "the magic"));
    BW_TRY(read_u32(c, version, "the version"));
    if ((*version & 0xffff) == 0 && *version != 0)
        return bw_fail(c->err, BW_E_UNSUPPORTED, "%s is a big-endian GGUF file; only little-endian ones can be read",
                       c->path);
    if (*version != 2 && *version != 3)
        return bw_fail(c->err, BW_E_UNSUPPORTED,
                       "%s has GGUF version %" PRIu32 "; versions 2 and 3 can be read: convert the model anew", c->path,
                       *version);
    BW_TRY(read_u64(c, n_tensors, "the number of tensors"));
    return read_u64(c, n_pairs, "the number of metadata entries");
}

static const bw_gguf_value *find_value(const gguf_pair *pairs, const bw_name_index *keys, const char *key)
{
    size_t i = bw_name_index_find(keys, pairs, bw_gguf_name_of_pair, key, strlen(key));
    return i == SIZE_MAX ? NULL : &pairs[i].value;
}

static bw_status read_alignment(cursor *c, const gguf_pair *pairs, const bw_name_index *keys, uint64_t *alignment)
{
    const bw_gguf_value *v = find_value(pairs, keys, "general.alignment");
    *alignment = 32;
    if (!v)
        return BW_OK;
    if (v->type != BW_GGUF_U32)
        return bw_fail(c->err, BW_E_FORMAT, "%s: general.alignment must be a u32, and is a %s", c->path,
                       bw_gguf_type_name(v->type));
    if (v->u < 8 || v->u > 1u << 30 || (v->u & (v->u - 1)) != 0)
        return bw_fail(c->err, BW_E_FORMAT,
                       "%s: general.alignment is %" PRIu64 "; a power of two from 8 to 2^30 is allowed", c->path, v->u);
    *alignment = v->u;
    return BW_OK;
}

/* An unsigned number of any integer type, or `absent`. */
static uint64_t small_number(const gguf_pair *pairs, const bw_name_index *keys, const char *key, uint64_t absent)
{
    const bw_gguf_value *v = find_value(pairs, keys, key);
    if (!v)
        return absent;
    switch (v->type) {
    case BW_GGUF_U8:
    case BW_GGUF_U16:
    case BW_GGUF_U32:
    case BW_GGUF_U64:
        return v->u;
    case BW_GGUF_I8:
    case BW_GGUF_I16:
    case BW_GGUF_I32:
    case BW_GGUF_I64:
        return v->i < 0 ? UINT64_MAX : (uint64_t)v->i;
    default:
        return UINT64_MAX;
    }
}

typedef struct split_info {
    uint64_t number, count, n_tensors; /* count 0 or 1: not split; n_tensors UINT64_MAX: not said */
} split_info;

/* Read part `part` from g->maps[part]. The first part's metadata become the model's. */
static bw_status read_part(bw_gguf *g, int part, const char *path, split_info *split, bw_err *err)
{
    const bw_map *map = &g->maps[part];
    cursor c = {map->data, 0, map->n_bytes, path, g, err};
    uint32_t version = 0;
    uint64_t n_tensors = 0, n_pairs = 0, alignment = 0;
    gguf_pair *pairs = NULL;
    bw_name_index keys = {0};
    bw_status status = read_header(&c, &version, &n_tensors, &n_pairs);
    if (status == BW_OK)
        status = read_pairs(&c, n_pairs, &pairs, &keys);
    if (status == BW_OK)
        status = read_alignment(&c, pairs, &keys, &alignment);
    if (status == BW_OK)
        status = read_tensors(&c, n_tensors, alignment, part);
    if (status == BW_OK)
        *split = (split_info){small_number(pairs, &keys, "split.no", 0), small_number(pairs, &keys, "split.count", 0),
                              small_number(pairs, &keys, "split.tensors.count", UINT64_MAX)};
    if (status == BW_OK && part == 0) {
        g->version = version;
        g->alignment = alignment;
        g->pairs = pairs;
        g->n_pairs = (size_t)n_pairs;
        g->keys = keys;
    } else {
        bw_free(pairs);
        bw_name_index_deinit(&keys);
    }
    return status;
}

/* ---- split models ---- */

/* Where "-00001-of-00003.gguf" begins in path, or NULL; checks the numbers against those in the file. */
static bw_status split_stem(const char *path, uint64_t count, size_t *n_stem, bw_err *err)
{
    char suffix[40];
    snprintf(suffix, sizeof suffix, "-00001-of-%05" PRIu64 ".gguf", count);
    if (!bw_str_ends(path, suffix))
        return bw_fail(err, BW_E_FORMAT,
                       "%s is the first of %" PRIu64 " parts of a split model, but its name does not end "
                       "in %s, so the other parts cannot be found: rename it",
                       path, count, suffix);
    *n_stem = strlen(path) - strlen(suffix);
    return BW_OK;
}

static bw_status open_other_part(bw_gguf *g, int part, uint64_t count, size_t n_stem, bw_err *err)
{
    bw_str name = {0};
    bw_str_add_bytes(&name, g->path, n_stem);
    bw_str_add_format(&name, "-%05d-of-%05" PRIu64 ".gguf", part + 1, count);
    if (name.failed) {
        bw_str_deinit(&name);
        return bw_fail_memory(err, n_stem + 32, "a part's name");
    }
    split_info split = {0};
    bw_status status = bw_map_open(name.data, &g->maps[part], err);
    if (status == BW_OK) {
        g->n_maps = (size_t)part + 1;
        status = read_part(g, part, name.data, &split, err);
    }
    if (status == BW_OK && (split.number != (uint64_t)part || split.count != count))
        status = bw_fail(err, BW_E_FORMAT,
                         "%s says it is part %" PRIu64 " of %" PRIu64 ", and should be part %d of %" PRIu64
                         " (counted from 0)",
                         name.data, split.number, split.count, part, count);
    bw_str_deinit(&name);
    return status;
}

static bw_status open_parts(bw_gguf *g, const split_info *first, bw_err *err)
{
    if (g->borrowed)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s is one part of a split model, which cannot be opened from memory",
                       g->path);
    if (first->count > MAX_PARTS || first->number >= first->count)
        return bw_fail(err, BW_E_FORMAT, "%s says it is part %" PRIu64 " of %" PRIu64 " (counted from 0)", g->path,
                       first->number, first->count);
    if (first->number != 0)
        return bw_fail(err, BW_E_ARG,
                       "%s is part %" PRIu64 " of a model split into %" PRIu64
                       " files: open the first one, which ends in -00001-of-%05" PRIu64 ".gguf",
                       g->path, first->number + 1, first->count, first->count);
    size_t n_stem = 0;
    BW_TRY(split_stem(g->path, first->count, &n_stem, err));
    bw_map *maps = bw_alloc_zero((size_t)first->count, sizeof *maps);
    if (!maps)
        return bw_fail_memory(err, (size_t)first->count * sizeof *maps, "the parts");
    maps[0] = g->maps[0];
    bw_free(g->maps);
    g->maps = maps;
    for (int part = 1; part < (int)first->count; part++)
        BW_TRY(open_other_part(g, part, first->count, n_stem, err));
    if (first->n_tensors != UINT64_MAX && first->n_tensors != g->n_tensors)
        return bw_fail(err, BW_E_FORMAT,
                       "%s: the model's %" PRIu64 " parts hold %zu tensors, and split.tensors.count says %" PRIu64,
                       g->path, first->count, g->n_tensors, first->n_tensors);
    return BW_OK;
}

static bw_status open_model(bw_gguf *g, bw_err *err)
{
    split_info split = {0};
    BW_TRY(read_part(g, 0, g->path, &split, err));
    if (split.count > 1)
        BW_TRY(open_parts(g, &split, err));
    return index_tensors(g, err);
}

static bw_status new_model(const char *path, bw_gguf **gguf, bw_err *err)
{
    *gguf = NULL;
    bw_gguf *g = bw_alloc_zero(1, sizeof *g);
    if (!g)
        return bw_fail_memory(err, sizeof *g, "a GGUF file");
    bw_arena_init(&g->arena, 0);
    g->path = bw_strdup(path);
    g->maps = bw_alloc_zero(1, sizeof *g->maps);
    if (!g->path || !g->maps) {
        bw_gguf_close(g);
        return bw_fail_memory(err, strlen(path) + 1, "a GGUF file");
    }
    *gguf = g;
    return BW_OK;
}

bw_status bw_gguf_open(const char *path, bw_gguf **gguf, bw_err *err)
{
    BW_TRY(new_model(path, gguf, err));
    bw_status status = bw_map_open(path, &(*gguf)->maps[0], err);
    if (status == BW_OK) {
        (*gguf)->n_maps = 1;
        status = open_model(*gguf, err);
    }
    if (status != BW_OK) {
        bw_gguf_close(*gguf);
        *gguf = NULL;
    }
    return status;
}

bw_status bw_gguf_open_memory(const void *data, size_t n_bytes, const char *path, bw_gguf **gguf, bw_err *err)
{
    BW_TRY(new_model(path, gguf, err));
    (*gguf)->maps[0] = (bw_map){data, n_bytes, false};
    (*gguf)->n_maps = 1;
    (*gguf)->borrowed = true;
    bw_status status = open_model(*gguf, err);
    if (status != BW_OK) {
        bw_gguf_close(*gguf);
        *gguf = NULL;
    }
    return status;
}

void bw_gguf_close(bw_gguf *gguf)
{
    if (!gguf)
        return;
    for (size_t i = 0; !gguf->borrowed && i < gguf->n_maps; i++)
        bw_map_close(&gguf->maps[i]);
    bw_free(gguf->maps);
    bw_free(gguf->pairs);
    bw_free(gguf->tensors);
    bw_name_index_deinit(&gguf->keys);
    bw_name_index_deinit(&gguf->names);
    bw_arena_deinit(&gguf->arena);
    bw_free(gguf->path);
    bw_free(gguf);
}
