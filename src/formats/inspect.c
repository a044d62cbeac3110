/* Listing a model file for people and for programs. One walk serves both forms and both formats. */
#include "bw_inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "bw_gguf.h"
#include "bw_mem.h"
#include "bw_recognise.h"
#include "gguf_file.h"
#include "safetensors_file.h"

enum { SHOWN_ELEMENTS = 8 };

/* A tensor of either format. */
typedef struct row {
    const char *name;
    size_t n_name;
    bw_dtype dtype;
    int n_dims;
    const int64_t *dims;
    size_t n_bytes, offset;
    int part;
} row;
typedef row row_fn(const void *model, size_t i);

static row gguf_row(const void *model, size_t i)
{
    const bw_gguf_tensor *t = bw_gguf_tensor_at(model, i);
    const bw_map *map = bw_gguf_map(model, t->part);
    return (row){t->name.data,
                 t->name.n_bytes,
                 t->dtype,
                 t->n_dims,
                 t->dims,
                 t->n_bytes,
                 (size_t)((const unsigned char *)t->data - map->data),
                 t->part};
}

static row safetensors_row(const void *model, size_t i)
{
    const bw_safetensor *t = bw_safetensors_at(model, i);
    const bw_map *map = bw_safetensors_map(model, t->part);
    return (row){t->name,
                 strlen(t->name),
                 t->dtype,
                 t->n_dims,
                 t->dims,
                 t->n_bytes,
                 (size_t)((const unsigned char *)t->data - map->data),
                 t->part};
}

static void add_shown(bw_str *out, const char *text, size_t n)
{
    char shown[BW_NAME_SHOWN];
    bw_str_add(out, bw_name_show(shown, text, n));
}

static void add_dims(bw_str *out, const row *r)
{
    bw_str_add_char(out, '[');
    for (int d = 0; d < r->n_dims; d++)
        bw_str_add_format(out, "%s%" PRId64, d ? ", " : "", r->dims[d]);
    bw_str_add_char(out, ']');
}

/* ---- metadata values ---- */

static void add_number(bw_str *out, bool json, double f)
{
    if (json && !isfinite(f))
        bw_str_add(out, "null");
    else
        bw_str_add_format(out, "%.9g", f);
}

/* Above 2^63 - 1 as a JSON string: many readers of JSON fail at such a number. */
static void add_unsigned(bw_str *out, bool json, uint64_t u)
{
    bw_str_add_format(out, json && u > INT64_MAX ? "\"%" PRIu64 "\"" : "%" PRIu64, u);
}

static void add_value(bw_str *out, bool json, const bw_gguf_value *v);

/* Element i of an array. */
static void add_element(bw_str *out, bool json, const bw_gguf_value *array, uint64_t i)
{
    if (array->a.type == BW_GGUF_STRING) {
        if (json)
            bw_str_add_json(out, array->a.strings[i].data, array->a.strings[i].n_bytes);
        else {
            bw_str_add_char(out, '"');
            add_shown(out, array->a.strings[i].data, array->a.strings[i].n_bytes);
            bw_str_add_char(out, '"');
        }
    } else if (array->a.type == BW_GGUF_ARRAY) {
        add_value(out, json, &array->a.arrays[i]);
    } else if (array->a.type == BW_GGUF_F32 || array->a.type == BW_GGUF_F64) {
        add_number(out, json, bw_gguf_array_f64(array, i));
    } else if (array->a.type == BW_GGUF_BOOL) {
        bw_str_add(out, bw_gguf_array_i64(array, i) ? "true" : "false");
    } else if (array->a.type == BW_GGUF_U64) {
        uint64_t u;
        memcpy(&u, array->a.data + i * 8, 8);
        add_unsigned(out, json, u);
    } else {
        bw_str_add_format(out, "%" PRId64, bw_gguf_array_i64(array, i));
    }
}

static void add_array(bw_str *out, bool json, const bw_gguf_value *v)
{
    uint64_t n = v->a.n < SHOWN_ELEMENTS ? v->a.n : SHOWN_ELEMENTS;
    if (json)
        bw_str_add_format(out, "{\"element_type\":\"%s\",\"length\":%" PRIu64 ",\"first\":[",
                          bw_gguf_type_name(v->a.type), v->a.n);
    else
        bw_str_add_format(out, "%" PRIu64 " of %s [", v->a.n, bw_gguf_type_name(v->a.type));
    for (uint64_t i = 0; i < n; i++) {
        if (i > 0)
            bw_str_add(out, json ? "," : ", ");
        add_element(out, json, v, i);
    }
    if (json)
        bw_str_add(out, "]}");
    else
        bw_str_add(out, n < v->a.n ? ", ...]" : "]");
}

static void add_value(bw_str *out, bool json, const bw_gguf_value *v)
{
    switch (v->type) {
    case BW_GGUF_BOOL:
        bw_str_add(out, v->u ? "true" : "false");
        break;
    case BW_GGUF_STRING:
        if (json)
            bw_str_add_json(out, v->s.data, v->s.n_bytes);
        else
            add_shown(out, v->s.data, v->s.n_bytes);
        break;
    case BW_GGUF_ARRAY:
        add_array(out, json, v);
        break;
    case BW_GGUF_F32:
    case BW_GGUF_F64:
        add_number(out, json, v->f);
        break;
    case BW_GGUF_I8:
    case BW_GGUF_I16:
    case BW_GGUF_I32:
    case BW_GGUF_I64:
        bw_str_add_format(out, "%" PRId64, v->i);
        break;
    default:
        add_unsigned(out, json, v->u);
        break;
    }
}

static void add_gguf_metadata(bw_str *out, bool json, const bw_gguf *g)
{
    size_t n = bw_gguf_n_values(g);
    if (json)
        bw_str_add(out, "\"metadata\":[");
    else
        bw_str_add_format(out, "metadata (%zu)\n", n);
    for (size_t i = 0; i < n; i++) {
        const char *key = bw_gguf_key(g, i);
        const bw_gguf_value *v = bw_gguf_value_at(g, i);
        if (json) {
            bw_str_add(out, i ? ",{\"key\":" : "{\"key\":");
            bw_str_add_json(out, key, strlen(key));
            bw_str_add_format(out, ",\"type\":\"%s\",\"value\":", bw_gguf_type_name(v->type));
            add_value(out, json, v);
            bw_str_add_char(out, '}');
        } else {
            bw_str_add(out, "  ");
            add_shown(out, key, strlen(key));
            bw_str_add_format(out, " (%s) = ", bw_gguf_type_name(v->type));
            add_value(out, json, v);
            bw_str_add_char(out, '\n');
        }
    }
    if (json)
        bw_str_add(out, "],");
}

static void add_safetensors_metadata(bw_str *out, bool json, const bw_safetensors *st)
{
    if (json)
        bw_str_add(out, "\"metadata\":[");
    else
        bw_str_add_format(out, "metadata (%zu)\n", st->n_metadata);
    for (size_t i = 0; i < st->n_metadata; i++) {
        const metadata_entry *m = &st->metadata[i];
        if (json) {
            bw_str_add(out, i ? ",{\"key\":" : "{\"key\":");
            bw_str_add_json(out, m->key, strlen(m->key));
            bw_str_add(out, ",\"type\":\"string\",\"value\":");
            bw_str_add_json(out, m->value, strlen(m->value));
            bw_str_add_char(out, '}');
        } else {
            bw_str_add(out, "  ");
            add_shown(out, m->key, strlen(m->key));
            bw_str_add(out, " = ");
            add_shown(out, m->value, strlen(m->value));
            bw_str_add_char(out, '\n');
        }
    }
    if (json)
        bw_str_add(out, "],");
}

/* ---- tensors and totals ---- */

typedef struct total {
    uint64_t n_tensors, n_elements, n_bytes;
} total;

static void add_tensor(bw_str *out, bool json, const row *r, bool first)
{
    if (json) {
        bw_str_add(out, first ? "{\"name\":" : ",{\"name\":");
        bw_str_add_json(out, r->name, r->n_name);
        bw_str_add_format(out, ",\"type\":\"%s\",\"shape\":", bw_dtype_name(r->dtype));
        add_dims(out, r);
        bw_str_add_format(out, ",\"bytes\":%zu,\"offset\":%zu,\"part\":%d}", r->n_bytes, r->offset, r->part);
    } else {
        bw_str_add(out, "  ");
        add_shown(out, r->name, r->n_name);
        bw_str_add_format(out, "  %s ", bw_dtype_name(r->dtype));
        add_dims(out, r);
        bw_str_add_format(out, "  %zu bytes at %zu", r->n_bytes, r->offset);
        if (r->part > 0)
            bw_str_add_format(out, " of part %d", r->part + 1);
        bw_str_add_char(out, '\n');
    }
}

static void add_totals(bw_str *out, bool json, const total *by_type)
{
    uint64_t n_elements = 0, n_bytes = 0;
    bool first = true;
    bw_str_add(out, json ? "\"types\":[" : "types\n");
    for (int d = 0; d < BW_DTYPE_COUNT; d++) {
        const total *t = &by_type[d];
        n_elements += t->n_elements;
        n_bytes += t->n_bytes;
        if (t->n_tensors == 0)
            continue;
        if (json)
            bw_str_add_format(
                out, "%s{\"type\":\"%s\",\"tensors\":%" PRIu64 ",\"parameters\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
                first ? "" : ",", bw_dtype_name((bw_dtype)d), t->n_tensors, t->n_elements, t->n_bytes);
        else
            bw_str_add_format(out, "  %-8s %6" PRIu64 " tensors %15" PRIu64 " parameters %15" PRIu64 " bytes\n",
                              bw_dtype_name((bw_dtype)d), t->n_tensors, t->n_elements, t->n_bytes);
        first = false;
    }
    if (json)
        bw_str_add_format(out, "],\"parameters\":%" PRIu64 ",\"tensor_bytes\":%" PRIu64 "}\n", n_elements, n_bytes);
    else
        bw_str_add_format(out, "parameters: %" PRIu64 " in %" PRIu64 " bytes (%.2f bits each)\n", n_elements, n_bytes,
                          n_elements ? (double)n_bytes * 8 / (double)n_elements : 0.0);
}

static void add_tensors(bw_str *out, bool json, const void *model, size_t n, row_fn *get)
{
    total by_type[BW_DTYPE_COUNT] = {{0}};
    if (json)
        bw_str_add(out, "\"tensors\":[");
    else
        bw_str_add_format(out, "tensors (%zu)\n", n);
    for (size_t i = 0; i < n; i++) {
        row r = get(model, i);
        add_tensor(out, json, &r, i == 0);
        total *t = &by_type[r.dtype];
        t->n_tensors++;
        t->n_elements += (uint64_t)bw_shape_elements(r.dims, r.n_dims);
        t->n_bytes += r.n_bytes;
    }
    if (json)
        bw_str_add(out, "],");
    add_totals(out, json, by_type);
}

/* path, format, version (0: the format has none), files and their bytes */
static void add_head(bw_str *out, bool json, const char *path, const char *format, uint32_t version, const bw_map *maps,
                     size_t n_maps)
{
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < n_maps; i++)
        n_bytes += maps[i].n_bytes;
    if (json) {
        bw_str_add(out, "{\"path\":");
        bw_str_add_json(out, path, strlen(path));
        bw_str_add_format(out, ",\"format\":\"%s\",", format);
        if (version)
            bw_str_add_format(out, "\"version\":%" PRIu32 ",", version);
        bw_str_add_format(out, "\"files\":%zu,\"file_bytes\":%" PRIu64 ",", n_maps, n_bytes);
    } else {
        add_shown(out, path, strlen(path));
        bw_str_add_format(out, "\nformat: %s", format);
        if (version)
            bw_str_add_format(out, ", version %" PRIu32, version);
        bw_str_add_format(out, "\nfiles: %zu, %" PRIu64 " bytes\n", n_maps, n_bytes);
    }
}

static bw_status inspect_gguf(const char *path, bool json, bw_str *out, bw_err *err)
{
    bw_gguf *g;
    BW_TRY(bw_gguf_open(path, &g, err));
    add_head(out, json, path, "gguf", g->version, g->maps, g->n_maps);
    if (json)
        bw_str_add_format(out, "\"alignment\":%" PRIu64 ",", g->alignment);
    add_gguf_metadata(out, json, g);
    add_tensors(out, json, g, g->n_tensors, gguf_row);
    bw_gguf_close(g);
    return BW_OK;
}

static bw_status inspect_safetensors(const char *path, bool json, bw_str *out, bw_err *err)
{
    bw_safetensors *st;
    BW_TRY(bw_safetensors_open(path, &st, err));
    add_head(out, json, path, "safetensors", 0, st->maps, st->n_maps);
    add_safetensors_metadata(out, json, st);
    add_tensors(out, json, st, st->n_tensors, safetensors_row);
    bw_safetensors_close(st);
    return BW_OK;
}

bw_status bw_formats_inspect(const char *path, bool json, bw_str *out, bw_err *err)
{
    bw_format format;
    BW_TRY(bw_formats_recognise(path, &format, err));
    bw_status status =
        format == BW_FORMAT_GGUF ? inspect_gguf(path, json, out, err) : inspect_safetensors(path, json, out, err);
    if (status == BW_OK && out->failed)
        status = bw_fail_memory(err, out->len, "the listing");
    return status;
}
