/* The tolerance rule, and how elements of any type are read. */
#include "conformance.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bw_element.h"
#include "bw_mem.h"
#include "bw_quant.h"

int64_t operand_rows(const operand *o)
{
    return o->tensor.n_dims == 0 ? 1 : bw_shape_elements(o->tensor.dims, o->tensor.n_dims - 1);
}

int64_t operand_columns(const operand *o)
{
    return o->decode ? o->n_columns : o->tensor.n_dims == 0 ? 1 : o->tensor.dims[o->tensor.n_dims - 1];
}

bool operand_is_plain(const operand *o)
{
    return !o->decode && !o->tensor.layout && !bw_dtype_is_quantised(o->tensor.dtype);
}

/* Elements from the first one to row r's first. */
static int64_t row_elements(const operand *o, int64_t row)
{
    const bw_tensor *t = &o->tensor;
    int64_t elements = 0;
    for (int i = t->n_dims - 2; i >= 0; i--) {
        elements += row % t->dims[i] * t->strides[i];
        row /= t->dims[i];
    }
    return elements;
}

int64_t operand_element(const operand *o, int64_t row, int64_t column)
{
    const bw_tensor *t = &o->tensor;
    return row_elements(o, row) + (t->n_dims ? column * t->strides[t->n_dims - 1] : 0);
}

size_t operand_row_bytes(const operand *o, int64_t row, size_t *offset)
{
    const bw_tensor *t = &o->tensor;
    int64_t block = bw_dtype_block_elements(t->dtype);
    *offset = (size_t)(row_elements(o, row) / block * bw_dtype_block_bytes(t->dtype));
    return t->layout ? 0 : (size_t)bw_dtype_bytes(t->dtype, operand_columns(o));
}

void operand_decode(const operand *o, const uint8_t *bytes, int64_t row, double *dst)
{
    int64_t n = operand_columns(o);
    if (operand_is_plain(o)) {
        for (int64_t i = 0; i < n; i++)
            dst[i] = bw_element_f64(o->tensor.dtype, bytes, operand_element(o, row, i));
        return;
    }
    float *values = must_alloc((size_t)n * 4);
    if (o->decode) {
        bw_tensor t = o->tensor;
        t.data = (void *)(uintptr_t)bytes;
        o->decode(&t, row, values, n);
    } else {
        size_t offset;
        operand_row_bytes(o, row, &offset);
        bw_decode_row(o->tensor.dtype, bytes + offset, values, n, NULL);
    }
    for (int64_t i = 0; i < n; i++)
        dst[i] = (double)values[i];
    bw_free(values);
}

void operand_mark(const operand *o, uint8_t *mask)
{
    if (o->tensor.layout) {
        memset(mask, 1, o->live.n_bytes);
        return;
    }
    memset(mask, 0, o->live.n_bytes);
    size_t size = (size_t)bw_dtype_block_bytes(o->tensor.dtype), offset;
    for (int64_t r = 0; r < operand_rows(o); r++) {
        if (operand_is_plain(o)) {
            for (int64_t i = 0; i < operand_columns(o); i++)
                memset(mask + (size_t)operand_element(o, r, i) * size, 1, size);
        } else {
            size_t n = operand_row_bytes(o, r, &offset);
            memset(mask + offset, 1, n);
        }
    }
}

/* u of the rule for one element: how far apart the type's neighbours are, and half of that again for a value that was
 * rounded from the other side. */
static double storage_error(const operand *o, const double *row, int64_t i, int64_t n)
{
    double most = 0;
    switch (o->tensor.dtype) {
    case BW_F16:
        return 0x1p-10 * fabs(row[i]) + 0x1p-24;
    case BW_BF16:
        return 0x1p-7 * fabs(row[i]);
    case BW_F8_E4M3:
        return 0x1p-3 * fabs(row[i]) + 0x1p-9;
    case BW_Q8_0:
        for (int64_t k = i / 32 * 32; k < i / 32 * 32 + 32 && k < n; k++)
            most = fabs(row[k]) > most ? fabs(row[k]) : most;
        return most / 127;
    default:
        return 0;
    }
}

static bool is_exact(const bw_case *c, const operand *o)
{
    return c->is_equal || c->is_exact ||
           (!o->decode && o->tensor.dtype != BW_Q8_0 && !bw_dtype_is_float(o->tensor.dtype));
}

static bool is_close(const bw_case *c, const operand *o, const double *expected, double got, int64_t i, int64_t n)
{
    double want = expected[i];
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (is_exact(c, o))
        return want == got;
    bool is_double = o->tensor.dtype == BW_F64;
    double largest = o->tensor.dtype == BW_F16 ? 65504 : o->tensor.dtype == BW_F8_E4M3 ? 448 : (double)3.4028235e38f;
    if (isinf(want) || isinf(got)) {
        /* one rounding step below the largest value is as good as infinity */
        if (want == got || is_double)
            return want == got;
        double finite = isinf(want) ? got : want, infinite = isinf(want) ? want : got;
        return (finite > 0) == (infinite > 0) && !isinf(finite) && fabs(finite) >= largest * (1 - 0x1p-7) &&
               (c->reduction > 1 || o->tensor.dtype != BW_F32);
    }
    double size = fabs(want) > c->magnitude ? fabs(want) : c->magnitude;
    double unit = is_double ? 0x1p-52 : 0x1p-23;
    double tolerance = unit * (8 + sqrt((double)c->reduction)) * size + c->step + storage_error(o, expected, i, n);
    return fabs(want - got) <= tolerance + (is_double ? 0 : 0x1p-149);
}

/* Bytes that hold nothing (gaps and, in plain types, whatever no row reaches) must be as they were. */
static bool gaps_are_whole(const operand *o)
{
    if (o->tensor.layout)
        return true;
    uint8_t *mask = must_alloc(o->live.n_bytes);
    operand_mark(o, mask);
    bool whole = true;
    for (size_t i = 0; i < o->live.n_bytes && whole; i++)
        whole = mask[i] || o->live.data[i] == o->initial[i];
    bw_free(mask);
    return whole;
}

/* Whether ref left an element (of a plain type) or a whole row (of others) as it was. */
static bool is_untouched(const operand *o, const uint8_t *bytes, int64_t row, int64_t column)
{
    size_t offset, n_bytes = operand_row_bytes(o, row, &offset);
    if (operand_is_plain(o)) {
        n_bytes = (size_t)bw_dtype_block_bytes(o->tensor.dtype);
        offset = (size_t)operand_element(o, row, column) * n_bytes;
    }
    return memcmp(bytes + offset, o->initial + offset, n_bytes) == 0;
}

/* Whether an element of a plain type is ref's byte for byte. */
static bool is_same_element(const operand *o, int64_t row, int64_t column)
{
    size_t size = (size_t)bw_dtype_block_bytes(o->tensor.dtype);
    size_t offset = (size_t)operand_element(o, row, column) * size;
    return memcmp(o->live.data + offset, o->expected + offset, size) == 0;
}

/* Values by the rule; integers, of which those beyond 2^53 look alike as f64, and what must be exact, by their bytes.
 */
static bool is_equal(const bw_case *c, const operand *o, const double *want, double got, int64_t row, int64_t column)
{
    if (operand_is_plain(o) && (c->is_exact || o->tensor.dtype == BW_I64))
        return is_same_element(o, row, column);
    return is_close(c, o, want, got, column, operand_columns(o));
}

/* Rows of blocks that must be exact: all their bytes, also those that no value depends on. */
static bool is_same_blocks(const operand *o, int64_t row)
{
    size_t offset, n_bytes = operand_row_bytes(o, row, &offset);
    return operand_is_plain(o) || o->decode || memcmp(o->live.data + offset, o->expected + offset, n_bytes) == 0;
}

const char *compare_output(const bw_case *c, const operand *o, int index)
{
    static char sentence[240];
    int64_t n_rows = operand_rows(o), n = operand_columns(o);
    double *want = must_alloc((size_t)n * 8), *got = must_alloc((size_t)n * 8);
    const char *failure = NULL;
    for (int64_t r = 0; r < n_rows && !failure; r++) {
        operand_decode(o, o->expected, r, want);
        operand_decode(o, o->live.data, r, got);
        for (int64_t i = 0; i < n && !failure; i++) {
            const char *what = NULL;
            if (o->kept && is_untouched(o, o->expected, r, i) && !is_untouched(o, o->live.data, r, i))
                what = "was written, and must not be";
            else if (!is_equal(c, o, want, got[i], r, i))
                what = "differs";
            else if (o->tensor.dtype == BW_F32 && operand_is_plain(o) && !o->kept && !isnan(want[i]) &&
                     bw_f32_bits(((const float *)(const void *)o->live.data)[operand_element(o, r, i)]) == 0xffffffffu)
                what = "was never written";
            if (!what)
                continue;
            snprintf(sentence, sizeof sentence,
                     "out%d row %" PRId64 " column %" PRId64 " %s: %.17g, expected %.17g (%s)", index, r, i, what,
                     got[i], want[i], bw_dtype_name(o->tensor.dtype));
            failure = sentence;
        }
        if (!failure && (c->is_exact || c->is_equal) && !is_same_blocks(o, r)) {
            snprintf(sentence, sizeof sentence, "out%d row %" PRId64 ": other bytes (%s)", index, r,
                     bw_dtype_name(o->tensor.dtype));
            failure = sentence;
        }
    }
    bw_free(want);
    bw_free(got);
    if (!failure && !gaps_are_whole(o)) {
        snprintf(sentence, sizeof sentence, "out%d was written between its elements", index);
        failure = sentence;
    }
    return failure;
}
