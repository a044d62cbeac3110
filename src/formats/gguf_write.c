/* Writing GGUF version 3: values and tensors are declared (copied here), then one pass writes the file. */
#include <inttypes.h>

#include "bw_mem.h"
#include "bw_str.h"
#include "gguf_file.h"
#include "sink.h"

enum { MAX_NAME = 1 << 10, MAX_DEPTH = 4 };

typedef struct declared_tensor {
    char *name;
    bw_dtype dtype;
    int n_dims;
    int64_t dims[BW_MAX_DIMS];
    uint64_t n_bytes;
} declared_tensor;

struct bw_gguf_writer {
    bw_arena arena;
    gguf_pair *pairs;
    size_t n_pairs, cap_pairs;
    bw_name_index keys; /* has room for n_keys pairs */
    size_t n_keys;
    declared_tensor *tensors;
    size_t n_tensors, cap_tensors;
    uint64_t alignment;
    bw_sink *sink; /* while writing */
    uint64_t left; /* bytes that the current tensor still lacks */
};

bw_status bw_gguf_writer_new(bw_gguf_writer **writer, bw_err *err)
{
    *writer = bw_alloc_zero(1, sizeof **writer);
    if (!*writer)
        return bw_fail_memory(err, sizeof **writer, "a GGUF writer");
    bw_arena_init(&(*writer)->arena, 0);
    (*writer)->alignment = 32;
    return BW_OK;
}

void bw_gguf_writer_free(bw_gguf_writer *writer)
{
    if (!writer)
        return;
    bw_free(writer->pairs);
    bw_name_index_deinit(&writer->keys);
    bw_free(writer->tensors);
    bw_arena_deinit(&writer->arena);
    bw_free(writer);
}

/* ---- values ---- */

static bw_status copy_bytes(bw_gguf_writer *w, const void *bytes, size_t n, const void **out, bw_err *err)
{
    void *copy = bw_arena_alloc(&w->arena, n ? n : 1);
    if (!copy)
        return bw_fail_memory(err, n, "a metadata value");
    if (n)
        memcpy(copy, bytes, n);
    *out = copy;
    return BW_OK;
}

static bw_status copy_value(bw_gguf_writer *w, const char *key, const bw_gguf_value *from, bw_gguf_value *to, int depth,
                            bw_err *err);

static bw_status copy_array(bw_gguf_writer *w, const char *key, const bw_gguf_value *from, bw_gguf_value *to, int depth,
                            bw_err *err)
{
    size_t width = bw_gguf_type_bytes(from->a.type), n = (size_t)from->a.n, bytes = 0;
    size_t item = from->a.type == BW_GGUF_STRING ? sizeof(bw_gguf_string) : width ? width : sizeof(bw_gguf_value);
    if ((unsigned)from->a.type > BW_GGUF_F64 || !bw_mul_size(n, item, &bytes) || depth > MAX_DEPTH)
        return bw_fail(err, BW_E_ARG, "the array %s cannot be written: unknown type, too long or nested too deeply",
                       key);
    if (width)
        return copy_bytes(w, from->a.data, bytes, (const void **)&to->a.data, err);
    if (from->a.type == BW_GGUF_STRING) {
        bw_gguf_string *strings = bw_arena_alloc_zero(&w->arena, n ? n : 1, sizeof *strings);
        if (!strings)
            return bw_fail_memory(err, bytes, "a metadata array");
        for (size_t i = 0; i < n; i++) {
            strings[i].n_bytes = from->a.strings[i].n_bytes;
            BW_TRY(copy_bytes(w, from->a.strings[i].data, strings[i].n_bytes, (const void **)&strings[i].data, err));
        }
        to->a.strings = strings;
        return BW_OK;
    }
    bw_gguf_value *arrays = bw_arena_alloc_zero(&w->arena, n ? n : 1, sizeof *arrays);
    if (!arrays)
        return bw_fail_memory(err, bytes, "a metadata array");
    for (size_t i = 0; i < n; i++) {
        if (from->a.arrays[i].type != BW_GGUF_ARRAY)
            return bw_fail(err, BW_E_ARG, "the array of arrays %s holds something else", key);
        BW_TRY(copy_value(w, key, &from->a.arrays[i], &arrays[i], depth + 1, err));
    }
    to->a.arrays = arrays;
    return BW_OK;
}

static bw_status copy_value(bw_gguf_writer *w, const char *key, const bw_gguf_value *from, bw_gguf_value *to, int depth,
                            bw_err *err)
{
    *to = *from;
    if (from->type == BW_GGUF_STRING)
        return copy_bytes(w, from->s.data, from->s.n_bytes, (const void **)&to->s.data, err);
    if (from->type == BW_GGUF_ARRAY)
        return copy_array(w, key, from, to, depth, err);
    return BW_OK;
}

/* Room in the index for one pair more; it doubles, so that many thousand keys cost no more than they should. */
static bool grow_keys(bw_gguf_writer *w)
{
    if (w->n_pairs < w->n_keys)
        return true;
    bw_name_index larger;
    size_t n_keys = w->n_keys ? w->n_keys * 2 : 64;
    if (!bw_name_index_init(&larger, n_keys))
        return false;
    for (size_t i = 0; i < w->n_pairs; i++)
        bw_name_index_add(&larger, w->pairs, bw_gguf_name_of_pair, i);
    bw_name_index_deinit(&w->keys);
    w->keys = larger;
    w->n_keys = n_keys;
    return true;
}

bw_status bw_gguf_writer_set(bw_gguf_writer *w, const char *key, const bw_gguf_value *value, bw_err *err)
{
    size_t n = strlen(key);
    if (n == 0 || n >= MAX_NAME || (unsigned)value->type > BW_GGUF_F64)
        return bw_fail(err, BW_E_ARG, "a metadata key of %zu bytes or type %d cannot be written", n, (int)value->type);
    if (strcmp(key, "general.alignment") == 0) {
        if (value->type != BW_GGUF_U32 || value->u < 8 || value->u > 1u << 30 || (value->u & (value->u - 1)) != 0)
            return bw_fail(err, BW_E_ARG, "general.alignment must be a u32 and a power of two from 8 to 2^30");
        w->alignment = value->u;
    }
    bw_gguf_value copy;
    BW_TRY(copy_value(w, key, value, &copy, 1, err));
    size_t there = bw_name_index_find(&w->keys, w->pairs, bw_gguf_name_of_pair, key, n);
    if (there != SIZE_MAX) {
        w->pairs[there].value = copy;
        return BW_OK;
    }
    char *name = bw_arena_strndup(&w->arena, key, n);
    if (!name || !grow_keys(w) || !bw_reserve((void **)&w->pairs, &w->cap_pairs, w->n_pairs + 1, sizeof *w->pairs))
        return bw_fail_memory(err, n, "a metadata value");
    w->pairs[w->n_pairs++] = (gguf_pair){name, n, copy};
    bw_name_index_add(&w->keys, w->pairs, bw_gguf_name_of_pair, w->n_pairs - 1);
    return BW_OK;
}

bw_status bw_gguf_writer_set_u32(bw_gguf_writer *writer, const char *key, uint32_t value, bw_err *err)
{
    return bw_gguf_writer_set(writer, key, &(bw_gguf_value){.type = BW_GGUF_U32, .u = value}, err);
}

bw_status bw_gguf_writer_set_f32(bw_gguf_writer *writer, const char *key, float value, bw_err *err)
{
    return bw_gguf_writer_set(writer, key, &(bw_gguf_value){.type = BW_GGUF_F32, .f = (double)value}, err);
}

bw_status bw_gguf_writer_set_bool(bw_gguf_writer *writer, const char *key, bool value, bw_err *err)
{
    return bw_gguf_writer_set(writer, key, &(bw_gguf_value){.type = BW_GGUF_BOOL, .u = value}, err);
}

bw_status bw_gguf_writer_set_string(bw_gguf_writer *writer, const char *key, const char *value, bw_err *err)
{
    return bw_gguf_writer_set(writer, key, &(bw_gguf_value){.type = BW_GGUF_STRING, .s = {value, strlen(value)}}, err);
}

bw_status bw_gguf_writer_add_tensor(bw_gguf_writer *w, const char *name, bw_dtype dtype, int n_dims,
                                    const int64_t *dims, bw_err *err)
{
    size_t n = strlen(name);
    if (n == 0 || n >= MAX_NAME)
        return bw_fail(err, BW_E_ARG, "a tensor's name of %zu bytes cannot be written (1 to %d)", n, MAX_NAME - 1);
    if (bw_dtype_gguf(dtype) < 0)
        return bw_fail(err, BW_E_UNSUPPORTED, "tensor %s: GGUF has no type %s", name, bw_dtype_name(dtype));
    int64_t bytes = n_dims >= 1 ? bw_tensor_bytes(dtype, n_dims, dims) : -1;
    if (bytes <= 0)
        return bw_fail(err, BW_E_ARG,
                       "tensor %s of type %s with %d dimensions cannot be written: 1 to %d dimensions above "
                       "zero, rows a multiple of %" PRId64,
                       name, bw_dtype_name(dtype), n_dims, BW_MAX_DIMS, bw_dtype_block_elements(dtype));
    char *copy = bw_arena_strndup(&w->arena, name, n);
    if (!copy || !bw_reserve((void **)&w->tensors, &w->cap_tensors, w->n_tensors + 1, sizeof *w->tensors))
        return bw_fail_memory(err, n, "a tensor's name");
    declared_tensor *t = &w->tensors[w->n_tensors++];
    *t = (declared_tensor){.name = copy, .dtype = dtype, .n_dims = n_dims, .n_bytes = (uint64_t)bytes};
    memcpy(t->dims, dims, (size_t)n_dims * sizeof *dims);
    return BW_OK;
}

/* ---- the file ---- */

static bw_status put_u32(bw_sink *sink, uint32_t v, bw_err *err)
{
    return bw_sink_put(sink, &v, sizeof v, err);
}

static bw_status put_u64(bw_sink *sink, uint64_t v, bw_err *err)
{
    return bw_sink_put(sink, &v, sizeof v, err);
}

static bw_status put_string(bw_sink *sink, const char *data, size_t n, bw_err *err)
{
    BW_TRY(put_u64(sink, n, err));
    return bw_sink_put(sink, data, n, err);
}

static bw_status put_scalar(bw_sink *sink, const bw_gguf_value *v, bw_err *err)
{
    if (v->type == BW_GGUF_F32) {
        float f = (float)v->f;
        return bw_sink_put(sink, &f, sizeof f, err);
    }
    if (v->type == BW_GGUF_F64)
        return bw_sink_put(sink, &v->f, sizeof v->f, err);
    return bw_sink_put(sink, &v->u, bw_gguf_type_bytes(v->type), err); /* little-endian: the low bytes come first */
}

static bw_status put_array(bw_sink *sink, const bw_gguf_value *v, bw_err *err)
{
    BW_TRY(put_u32(sink, v->a.type, err));
    BW_TRY(put_u64(sink, v->a.n, err));
    size_t width = bw_gguf_type_bytes(v->a.type);
    if (width)
        return bw_sink_put(sink, v->a.data, (size_t)v->a.n * width, err);
    for (uint64_t i = 0; i < v->a.n; i++)
        if (v->a.type == BW_GGUF_STRING)
            BW_TRY(put_string(sink, v->a.strings[i].data, v->a.strings[i].n_bytes, err));
        else
            BW_TRY(put_array(sink, &v->a.arrays[i], err));
    return BW_OK;
}

static bw_status put_pair(bw_sink *sink, const gguf_pair *pair, bw_err *err)
{
    BW_TRY(put_string(sink, pair->key, pair->n_key, err));
    BW_TRY(put_u32(sink, pair->value.type, err));
    if (pair->value.type == BW_GGUF_STRING)
        return put_string(sink, pair->value.s.data, pair->value.s.n_bytes, err);
    if (pair->value.type == BW_GGUF_ARRAY)
        return put_array(sink, &pair->value, err);
    return put_scalar(sink, &pair->value, err);
}

static uint64_t aligned(const bw_gguf_writer *w, uint64_t n)
{
    return (n + w->alignment - 1) & ~(w->alignment - 1);
}

static bw_status put_header(const bw_gguf_writer *w, bw_sink *sink, bw_err *err)
{
    BW_TRY(bw_sink_put(sink, "GGUF", 4, err));
    BW_TRY(put_u32(sink, 3, err));
    BW_TRY(put_u64(sink, w->n_tensors, err));
    BW_TRY(put_u64(sink, w->n_pairs, err));
    for (size_t i = 0; i < w->n_pairs; i++)
        BW_TRY(put_pair(sink, &w->pairs[i], err));
    uint64_t offset = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        const declared_tensor *t = &w->tensors[i];
        BW_TRY(put_string(sink, t->name, strlen(t->name), err));
        BW_TRY(put_u32(sink, (uint32_t)t->n_dims, err));
        for (int d = t->n_dims - 1; d >= 0; d--)
            BW_TRY(put_u64(sink, (uint64_t)t->dims[d], err));
        BW_TRY(put_u32(sink, (uint32_t)bw_dtype_gguf(t->dtype), err));
        BW_TRY(put_u64(sink, offset, err));
        uint64_t size = aligned(w, t->n_bytes);
        if (size < t->n_bytes || offset + size < offset)
            return bw_fail(err, BW_E_RANGE, "the tensors together exceed 2^64 bytes");
        offset += size;
    }
    return bw_sink_put_zeros(sink, aligned(w, sink->written) - sink->written, err);
}

bw_status bw_gguf_writer_put(bw_gguf_writer *w, const void *bytes, size_t n_bytes, bw_err *err)
{
    if (!w->sink || n_bytes > w->left)
        return bw_fail(err, BW_E_ARG, "%zu bytes were put into a tensor that has room for %" PRIu64, n_bytes, w->left);
    w->left -= n_bytes;
    return bw_sink_put(w->sink, bytes, n_bytes, err);
}

static bw_status put_tensors(bw_gguf_writer *w, bw_gguf_fill_fn *fill, void *user, bw_err *err)
{
    for (size_t i = 0; i < w->n_tensors; i++) {
        w->left = w->tensors[i].n_bytes;
        BW_TRY(fill(user, w, i, err));
        if (w->left != 0)
            return bw_fail(err, BW_E_ARG, "tensor %s lacks %" PRIu64 " of its bytes", w->tensors[i].name, w->left);
        BW_TRY(bw_sink_put_zeros(w->sink, aligned(w, w->sink->written) - w->sink->written, err));
    }
    return BW_OK;
}

static bw_name name_of_declared(const void *items, size_t i)
{
    const declared_tensor *t = (const declared_tensor *)items + i;
    return (bw_name){t->name, strlen(t->name)};
}

static bw_status refuse_duplicates(const bw_gguf_writer *w, bw_err *err)
{
    bw_name_index index;
    bw_status status = BW_OK;
    if (!bw_name_index_init(&index, w->n_tensors))
        return bw_fail_memory(err, w->n_tensors * 8, "the tensor index");
    for (size_t i = 0; status == BW_OK && i < w->n_tensors; i++)
        if (bw_name_index_add(&index, w->tensors, name_of_declared, i) != SIZE_MAX)
            status = bw_fail(err, BW_E_ARG, "the tensor %s was declared twice", w->tensors[i].name);
    bw_name_index_deinit(&index);
    return status;
}

bw_status bw_gguf_writer_write(bw_gguf_writer *w, const char *path, bw_gguf_fill_fn *fill, void *user, bw_err *err)
{
    bw_sink sink;
    BW_TRY(refuse_duplicates(w, err));
    BW_TRY(bw_sink_open(&sink, path, err));
    w->sink = &sink;
    bw_status status = put_header(w, &sink, err);
    if (status == BW_OK)
        status = put_tensors(w, fill, user, err);
    w->sink = NULL;
    w->left = 0;
    if (status == BW_OK)
        return bw_sink_commit(&sink, err);
    bw_sink_abort(&sink);
    return status;
}
