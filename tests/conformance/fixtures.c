/* Cases from files: inputs and expected outputs that another library computed (tools/fixtures/op_fixtures.py writes
 * them).
 *
 * A file, little-endian: "BWOPFIX1", u32 number of records; a record: op name and label (u8 length, text), u16 bytes of
 * params and the params struct, f64 reduction, magnitude, step, u8 exact, u8 inputs, u8 outputs, then the tensors; a
 * tensor: u8 present (0 ends it), dtype name (u8 length, text), u8 dimensions, u8 whether strides follow, i64 dims, i64
 * strides, u64 bytes, the bytes of its storage; an output then has u8 kept and, when kept, its bytes before the call.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_mem.h"

typedef struct reader {
    const uint8_t *at, *end;
    bool is_bad;
} reader;

static const void *take(reader *r, size_t n)
{
    static const uint8_t zeros[512];
    if (r->is_bad || (size_t)(r->end - r->at) < n) {
        r->is_bad = true;
        return n <= sizeof zeros ? zeros : NULL;
    }
    r->at += n;
    return r->at - n;
}

static uint64_t take_number(reader *r, size_t n)
{
    uint64_t v = 0;
    memcpy(&v, take(r, n), n);
    return v;
}

static double take_f64(reader *r)
{
    double v;
    memcpy(&v, take(r, 8), 8);
    return v;
}

static void take_text(reader *r, char text[256])
{
    size_t n = (size_t)take_number(r, 1);
    memcpy(text, take(r, n), n);
    text[n] = 0;
}

/* NULL: absent, or the file is bad. */
static bw_tensor *take_tensor(reader *r, bw_case *c, bool is_input, const uint8_t **bytes)
{
    char name[256];
    int64_t dims[BW_MAX_DIMS], strides[BW_MAX_DIMS];
    if (take_number(r, 1) == 0) {
        if (is_input)
            bw_case_in_absent(c);
        else
            r->is_bad = true;
        return NULL;
    }
    take_text(r, name);
    bw_dtype dtype = bw_dtype_from_name(name);
    int n_dims = (int)take_number(r, 1);
    bool has_strides = take_number(r, 1);
    if (r->is_bad || dtype == BW_DTYPE_COUNT || n_dims > BW_MAX_DIMS) {
        r->is_bad = true;
        return NULL;
    }
    for (int i = 0; i < n_dims; i++)
        dims[i] = (int64_t)take_number(r, 8);
    for (int i = 0; i < n_dims && has_strides; i++)
        strides[i] = (int64_t)take_number(r, 8);
    size_t n_bytes = (size_t)take_number(r, 8);
    *bytes = take(r, n_bytes);
    bw_tensor view = bw_tensor_view(dtype, n_dims, dims, NULL);
    if (r->is_bad || (has_strides ? 0 : bw_tensor_bytes(dtype, n_dims, dims) != (int64_t)n_bytes) ||
        bw_tensor_elements(&view) < 0 || bw_tensor_elements(&view) > 1 << 24) {
        r->is_bad = true;
        return NULL;
    }
    bw_tensor *t;
    if (is_input)
        t = has_strides ? bw_case_in_strided(c, dtype, n_dims, dims, strides) : bw_case_in(c, dtype, n_dims, dims);
    else
        t = has_strides ? bw_case_out_strided(c, dtype, n_dims, dims, strides) : bw_case_out(c, dtype, n_dims, dims);
    const operand *o = is_input ? &c->in[c->n_in - 1] : &c->out[c->n_out - 1];
    if (o->live.n_bytes != n_bytes) {
        r->is_bad = true;
        return NULL;
    }
    memcpy(t->data, *bytes, n_bytes);
    return t;
}

static void run_record(bw_case_sink *sink, reader *r, const char *wanted)
{
    char op_name[256], label[256];
    take_text(r, op_name);
    take_text(r, label);
    bw_op op = bw_op_from_name(op_name);
    if (r->is_bad || op == BW_OP_COUNT) {
        fprintf(stderr, "there is no operation \"%s\"\n", op_name);
        r->is_bad = true;
        return;
    }
    bw_case *c = bw_case_begin(sink, op, "fixture %s", label);
    size_t params_bytes = (size_t)take_number(r, 2);
    const void *params = take(r, params_bytes);
    if (params_bytes && !r->is_bad)
        bw_case_params(c, params, params_bytes);
    double reduction = take_f64(r), magnitude = take_f64(r), step = take_f64(r);
    bw_case_tolerance(c, (int64_t)reduction, magnitude, step);
    if (take_number(r, 1))
        bw_case_equal(c);
    int n_in = (int)take_number(r, 1), n_out = (int)take_number(r, 1);
    const uint8_t *bytes = NULL;
    r->is_bad = r->is_bad || n_in > BW_OP_MAX_IN || n_out > BW_OP_MAX_OUT;
    for (int i = 0; i < n_in && !r->is_bad; i++)
        take_tensor(r, c, true, &bytes);
    for (int i = 0; i < n_out && !r->is_bad; i++) {
        bw_tensor *t = take_tensor(r, c, false, &bytes);
        bool is_kept = take_number(r, 1);
        const uint8_t *initial = t && is_kept ? take(r, c->out[i].live.n_bytes) : NULL;
        if (!r->is_bad)
            bw_case_expect(c, i, bytes, initial);
    }
    if (r->is_bad || !op_is_wanted(wanted, op))
        bw_case_drop(c);
    else
        bw_case_run(c);
}

bool fixtures_run(bw_case_sink *sink, const char *path, const char *wanted)
{
    FILE *f = fopen(path, "rbe");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        if (f)
            fclose(f);
        return false;
    }
    long size = ftell(f);
    uint8_t *data = must_alloc(size > 0 ? (size_t)size : 0);
    rewind(f);
    bool ok = size >= 12 && fread(data, 1, (size_t)size, f) == (size_t)size && memcmp(data, "BWOPFIX1", 8) == 0;
    fclose(f);
    reader r = {data + 8, data + (ok ? size : 8), !ok};
    uint32_t n = (uint32_t)take_number(&r, 4);
    for (uint32_t i = 0; i < n && !r.is_bad; i++)
        run_record(sink, &r, wanted);
    bw_free(data);
    if (r.is_bad)
        fprintf(stderr, "%s is no fixture file, or damaged\n", path);
    return !r.is_bad;
}
