/* The tolerance rule, and how rows of any type are read. */
#include "conformance.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bw_mem.h"
#include "bw_quant.h"

int64_t operand_rows(const operand *o)
{
    return bw_shape_elements(o->tensor.dims, o->tensor.n_dims - 1);
}

int64_t operand_columns(const operand *o)
{
    return o->decode ? o->n_columns : o->tensor.dims[o->tensor.n_dims - 1];
}

size_t operand_row_bytes(const operand *o, int64_t row, size_t *offset)
{
    const bw_tensor *t = &o->tensor;
    int64_t block = bw_dtype_block_elements(t->dtype), elements = 0;
    for (int i = t->n_dims - 2; i >= 0; i--) {
        elements += row % t->dims[i] * t->strides[i];
        row /= t->dims[i];
    }
    *offset = (size_t)(elements / block * bw_dtype_block_bytes(t->dtype));
    return t->layout ? 0 : (size_t)bw_dtype_bytes(t->dtype, t->dims[t->n_dims - 1]);
}

void operand_decode(const operand *o, const uint8_t *bytes, int64_t row, float *dst)
{
    if (o->decode) {
        bw_tensor t = o->tensor;
        t.data = (void *)(uintptr_t)bytes;
        o->decode(&t, row, dst, o->n_columns);
    } else {
        size_t offset;
        operand_row_bytes(o, row, &offset);
        bw_decode_row(o->tensor.dtype, bytes + offset, dst, operand_columns(o), NULL);
    }
}

void operand_mark(const operand *o, uint8_t *mask)
{
    if (o->tensor.layout) {
        memset(mask, 1, o->live.n_bytes);
        return;
    }
    memset(mask, 0, o->live.n_bytes);
    for (int64_t r = 0; r < operand_rows(o); r++) {
        size_t offset, n = operand_row_bytes(o, r, &offset);
        memset(mask + offset, 1, n);
    }
}

/* u of the rule for one element. */
static double storage_error(const operand *o, const float *row, int64_t i, int64_t n)
{
    double most = 0;
    switch (o->tensor.dtype) {
    case BW_F16:
        return 0x1p-10 * fabs((double)row[i]) + 0x1p-24;
    case BW_BF16:
        return 0x1p-7 * fabs((double)row[i]);
    case BW_Q8_0:
        for (int64_t k = i / 32 * 32; k < i / 32 * 32 + 32 && k < n; k++)
            most = fabs((double)row[k]) > most ? fabs((double)row[k]) : most;
        return most / 127;
    default:
        return 0;
    }
}

static bool is_exact(const operand *o)
{
    switch (o->tensor.dtype) {
    case BW_F32:
    case BW_F16:
    case BW_BF16:
    case BW_F64:
    case BW_Q8_0:
        return false;
    default:
        return !o->decode;
    }
}

static bool is_close(const bw_case *c, const operand *o, const float *expected, float got, int64_t i, int64_t n)
{
    float want = expected[i];
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got) || is_exact(o))
        return want == got;
    double size = fabs((double)want) > c->magnitude ? fabs((double)want) : c->magnitude;
    double tolerance = 0x1p-23 * (8 + sqrt((double)c->reduction)) * size + c->step + storage_error(o, expected, i, n);
    return fabs((double)want - (double)got) <= tolerance + 0x1p-149;
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

const char *compare_output(const bw_case *c, const operand *o, int index)
{
    static char sentence[240];
    int64_t n_rows = operand_rows(o), n = operand_columns(o);
    float *want = must_alloc((size_t)n * 4), *got = must_alloc((size_t)n * 4);
    const char *failure = NULL;
    for (int64_t r = 0; r < n_rows && !failure; r++) {
        size_t offset, n_bytes = operand_row_bytes(o, r, &offset);
        if (o->kept && memcmp(o->expected + offset, o->initial + offset, n_bytes) == 0 &&
            memcmp(o->live.data + offset, o->initial + offset, n_bytes) != 0) {
            snprintf(sentence, sizeof sentence, "out%d row %" PRId64 " was written, and must not be", index, r);
            failure = sentence;
        }
        operand_decode(o, o->expected, r, want);
        operand_decode(o, o->live.data, r, got);
        for (int64_t i = 0; i < n && !failure; i++) {
            if (is_close(c, o, want, got[i], i, n))
                continue;
            snprintf(sentence, sizeof sentence, "out%d row %" PRId64 " column %" PRId64 ": %.9g, ref %.9g (%s)", index,
                     r, i, (double)got[i], (double)want[i], bw_dtype_name(o->tensor.dtype));
            failure = sentence;
        }
        if (o->tensor.dtype != BW_F32 || o->tensor.layout)
            continue;
        for (int64_t i = 0; i < n && !failure; i++) {
            if (bw_f32_bits(got[i]) != 0xffffffffu)
                continue;
            snprintf(sentence, sizeof sentence, "out%d row %" PRId64 " column %" PRId64 " was never written", index, r,
                     i);
            failure = sentence;
        }
    }
    bw_free(want);
    bw_free(got);
    if (!failure && !gaps_are_whole(o)) {
        snprintf(sentence, sizeof sentence, "out%d was written between its rows", index);
        failure = sentence;
    }
    return failure;
}
