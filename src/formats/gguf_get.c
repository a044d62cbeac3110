/* Looking things up in an open GGUF model. */
#include <inttypes.h>

#include "gguf_file.h"

const char *bw_gguf_type_name(uint32_t type)
{
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return type < sizeof names / sizeof names[0] ? names[type] : "?";
}

const char *bw_gguf_path(const bw_gguf *gguf)
{
    return gguf->path;
}

uint32_t bw_gguf_version(const bw_gguf *gguf)
{
    return gguf->version;
}

size_t bw_gguf_n_values(const bw_gguf *gguf)
{
    return gguf->n_pairs;
}

const char *bw_gguf_key(const bw_gguf *gguf, size_t i)
{
    return gguf->pairs[i].key;
}

const bw_gguf_value *bw_gguf_value_at(const bw_gguf *gguf, size_t i)
{
    return &gguf->pairs[i].value;
}

const bw_gguf_value *bw_gguf_find(const bw_gguf *gguf, const char *key)
{
    size_t i = bw_name_index_find(&gguf->keys, gguf->pairs, bw_gguf_name_of_pair, key, strlen(key));
    return i == SIZE_MAX ? NULL : &gguf->pairs[i].value;
}

size_t bw_gguf_n_tensors(const bw_gguf *gguf)
{
    return gguf->n_tensors;
}

const bw_gguf_tensor *bw_gguf_tensor_at(const bw_gguf *gguf, size_t i)
{
    return &gguf->tensors[i];
}

const bw_gguf_tensor *bw_gguf_find_tensor(const bw_gguf *gguf, const char *name)
{
    size_t i = bw_name_index_find(&gguf->names, gguf->tensors, bw_gguf_name_of_tensor, name, strlen(name));
    return i == SIZE_MAX ? NULL : &gguf->tensors[i];
}

const bw_map *bw_gguf_map(const bw_gguf *gguf, int part)
{
    return part >= 0 && (size_t)part < gguf->n_maps ? &gguf->maps[part] : NULL;
}

/* ---- typed look-ups ---- */

/* The value, or NULL; sets *found. */
static const bw_gguf_value *look_up(const bw_gguf *gguf, const char *key, bool *found)
{
    const bw_gguf_value *v = bw_gguf_find(gguf, key);
    if (found)
        *found = v != NULL;
    return v;
}

static bw_status wrong_type(const bw_gguf *gguf, const char *key, const char *want, const bw_gguf_value *v, bw_err *err)
{
    return bw_fail(err, BW_E_FORMAT, "%s: %s should be %s, and is of type %s", gguf->path, key, want,
                   bw_gguf_type_name(v->type));
}

static bool is_unsigned(bw_gguf_type type)
{
    return type == BW_GGUF_U8 || type == BW_GGUF_U16 || type == BW_GGUF_U32 || type == BW_GGUF_U64;
}

static bool is_signed(bw_gguf_type type)
{
    return type == BW_GGUF_I8 || type == BW_GGUF_I16 || type == BW_GGUF_I32 || type == BW_GGUF_I64;
}

bw_status bw_gguf_get_i64(const bw_gguf *gguf, const char *key, int64_t *out, bool *found, bw_err *err)
{
    const bw_gguf_value *v = look_up(gguf, key, found);
    if (!v)
        return BW_OK;
    if (is_signed(v->type)) {
        *out = v->i;
        return BW_OK;
    }
    if (!is_unsigned(v->type))
        return wrong_type(gguf, key, "an integer", v, err);
    if (v->u > INT64_MAX)
        return bw_fail(err, BW_E_FORMAT, "%s: %s is %" PRIu64 ", above 2^63 - 1", gguf->path, key, v->u);
    *out = (int64_t)v->u;
    return BW_OK;
}

bw_status bw_gguf_get_f64(const bw_gguf *gguf, const char *key, double *out, bool *found, bw_err *err)
{
    const bw_gguf_value *v = look_up(gguf, key, found);
    if (!v)
        return BW_OK;
    if (v->type == BW_GGUF_F32 || v->type == BW_GGUF_F64)
        *out = v->f;
    else if (is_unsigned(v->type))
        *out = (double)v->u;
    else if (is_signed(v->type))
        *out = (double)v->i;
    else
        return wrong_type(gguf, key, "a number", v, err);
    return BW_OK;
}

bw_status bw_gguf_get_bool(const bw_gguf *gguf, const char *key, bool *out, bool *found, bw_err *err)
{
    const bw_gguf_value *v = look_up(gguf, key, found);
    if (!v)
        return BW_OK;
    if (v->type != BW_GGUF_BOOL)
        return wrong_type(gguf, key, "a bool", v, err);
    *out = v->u != 0;
    return BW_OK;
}

bw_status bw_gguf_get_string(const bw_gguf *gguf, const char *key, bw_gguf_string *out, bool *found, bw_err *err)
{
    const bw_gguf_value *v = look_up(gguf, key, found);
    if (!v)
        return BW_OK;
    if (v->type != BW_GGUF_STRING)
        return wrong_type(gguf, key, "a string", v, err);
    *out = v->s;
    return BW_OK;
}

/* ---- numeric arrays ---- */

typedef union element {
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
} element;

static element load_element(const bw_gguf_value *array, uint64_t i)
{
    element e = {.u64 = 0};
    size_t width = bw_gguf_type_bytes(array->a.type);
    if (array->type == BW_GGUF_ARRAY && width > 0 && i < array->a.n)
        memcpy(&e, array->a.data + (size_t)i * width, width);
    return e;
}

double bw_gguf_array_f64(const bw_gguf_value *array, uint64_t i)
{
    element e = load_element(array, i);
    switch (array->a.type) {
    case BW_GGUF_F32:
        return (double)e.f32;
    case BW_GGUF_F64:
        return e.f64;
    case BW_GGUF_U64:
        return (double)e.u64;
    default:
        return (double)bw_gguf_array_i64(array, i);
    }
}

/* A float as an integer: towards zero, held within the range, NaN as 0. */
static int64_t to_i64(double f)
{
    if (!(f > -0x1p63))
        return f <= -0x1p63 ? INT64_MIN : 0;
    return f >= 0x1p63 ? INT64_MAX : (int64_t)f;
}

int64_t bw_gguf_array_i64(const bw_gguf_value *array, uint64_t i)
{
    element e = load_element(array, i);
    switch (array->a.type) {
    case BW_GGUF_U8:
    case BW_GGUF_BOOL:
        return e.u8;
    case BW_GGUF_I8:
        return e.i8;
    case BW_GGUF_U16:
        return e.u16;
    case BW_GGUF_I16:
        return e.i16;
    case BW_GGUF_U32:
        return e.u32;
    case BW_GGUF_I32:
        return e.i32;
    case BW_GGUF_F32:
        return to_i64((double)e.f32);
    case BW_GGUF_F64:
        return to_i64(e.f64);
    case BW_GGUF_U64:
        return e.u64 > INT64_MAX ? INT64_MAX : (int64_t)e.u64;
    case BW_GGUF_I64:
        return e.i64;
    default:
        return 0;
    }
}
