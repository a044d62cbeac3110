/* Building a case: storage with guards, fills. Running it against ref on each team. */
#include "conformance.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_element.h"
#include "bw_mem.h"
#include "bw_quant.h"
#include "bw_sanitizer.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#endif
#if defined(HAS_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, n_bytes) ((void)(address), (void)(n_bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, n_bytes) ((void)(address), (void)(n_bytes))
#endif

enum { SHIFT_ROOM = 512 }; /* more than the largest block */
enum { GUARD_BYTE = 0xa7, POISON = 0xff, OTHER_POISON = 0x5a, MAX_VARIANTS = 16 };

void *must_alloc(size_t n_bytes)
{
    void *p = bw_alloc_aligned(n_bytes ? n_bytes : 1);
    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", n_bytes);
        exit(2);
    }
    return p;
}

bw_rng *bw_cases_rng(bw_case_sink *sink)
{
    return &sink->rng;
}

int bw_cases_n_random(bw_case_sink *sink)
{
    return sink->is_list ? 0 : sink->is_nightly ? 400 : 12;
}

const bw_cpu_features *bw_cases_cpu(bw_case_sink *sink)
{
    return sink->cpu->cpu;
}

const bw_device *bw_cases_device(bw_case_sink *sink)
{
    return sink->devices[0] ? sink->devices[0] : sink->cpu;
}

int64_t bw_cases_between(bw_case_sink *sink, int64_t low, int64_t high)
{
    return low + (int64_t)bw_rng_below(&sink->rng, (uint64_t)(high - low + 1));
}

bw_case *bw_case_begin(bw_case_sink *sink, bw_op op, const char *name_format, ...)
{
    bw_case *c = must_alloc(sizeof *c);
    memset(c, 0, sizeof *c);
    c->sink = sink;
    c->op = op;
    c->reduction = 1;
    va_list args;
    va_start(args, name_format);
    vsnprintf(c->name, sizeof c->name, name_format, args);
    va_end(args);
    sink->n_cases++;
    return c;
}

static void set_guards(storage *s)
{
    memset(s->data - GUARD, GUARD_BYTE, GUARD);
    memset(s->data + s->n_bytes, GUARD_BYTE, GUARD);
}

/* While a kernel runs, AddressSanitizer reports who reads the guards; before and after, the runner does. */
static void forbid_guards(const storage *s, bool is_forbidden)
{
    if (!s->block) /* an input that is not there */
        return;
    uint8_t *end = s->block + s->n_bytes + 2 * GUARD + SHIFT_ROOM;
    if (is_forbidden) {
        ASAN_POISON_MEMORY_REGION(s->block, (size_t)(s->data - s->block));
        ASAN_POISON_MEMORY_REGION(s->data + s->n_bytes, (size_t)(end - s->data) - s->n_bytes);
    } else {
        ASAN_UNPOISON_MEMORY_REGION(s->block, (size_t)(end - s->block));
    }
}

static bool guards_are_whole(const storage *s)
{
    for (size_t i = 0; i < GUARD; i++)
        if ((s->data - GUARD)[i] != GUARD_BYTE || s->data[s->n_bytes + i] != GUARD_BYTE)
            return false;
    return true;
}

static bw_tensor *add_operand(operand *o, const bw_tensor *like, size_t n_bytes, size_t shift)
{
    *o = (operand){.tensor = *like, .alias = -1};
    o->live.n_bytes = n_bytes;
    o->live.block = must_alloc(n_bytes + 2 * GUARD + SHIFT_ROOM);
    o->live.data = o->live.block + GUARD + shift;
    o->initial = must_alloc(n_bytes);
    o->expected = must_alloc(n_bytes);
    memset(o->live.data, 0, n_bytes);
    set_guards(&o->live);
    o->tensor.data = o->live.data;
    return &o->tensor;
}

static bw_tensor *add_plain(bw_case *c, operand *o, bw_dtype dtype, int n_dims, const int64_t *dims,
                            const int64_t *strides)
{
    bw_tensor t = bw_tensor_view(dtype, n_dims, dims, NULL);
    int64_t elements = bw_tensor_elements(&t);
    if (strides) {
        int64_t last = 1; /* for quantised types, whose last stride is 1, this is a whole number of blocks too */
        for (int i = 0; i < n_dims; i++) {
            t.strides[i] = strides[i];
            last += (dims[i] - 1) * strides[i];
        }
        elements = elements ? last : 0;
    }
    int64_t block_bytes = bw_dtype_block_bytes(dtype);
    /* every other case does not begin where the memory does: by an element, by a block on a GPU (whose memory begins
     * evenly and whose kernels read words), by 2 bytes on the CPU, where blocks lie as a file has them */
    bool in_file = bw_dtype_is_quantised(dtype) && c->sink->devices[0]->kind == BW_DEVICE_CPU;
    size_t shift = c->sink->n_cases % 2 == 0 ? 0 : in_file ? 2 : (size_t)block_bytes;
    return add_operand(o, &t, (size_t)(elements / bw_dtype_block_elements(dtype) * block_bytes), shift);
}

bw_tensor *bw_case_in(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims)
{
    return add_plain(c, &c->in[c->n_in++], dtype, n_dims, dims, NULL);
}

bw_tensor *bw_case_in_strided(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims, const int64_t *strides)
{
    return add_plain(c, &c->in[c->n_in++], dtype, n_dims, dims, strides);
}

static bw_tensor *add_layout(bw_case *c, operand *o, bw_dtype dtype, int n_dims, const int64_t *dims,
                             bw_case_layout layout)
{
    int64_t strides[BW_MAX_DIMS], step = layout == BW_CASE_GAPS ? 2 : 1;
    for (int i = n_dims - 1; i >= 0; i--) {
        strides[i] = step;
        step *= dims[i] > 1 ? dims[i] : 1;
        step += layout == BW_CASE_GAPS ? 3 : 0;
    }
    if (layout == BW_CASE_TRANSPOSED && n_dims > 1) {
        strides[n_dims - 2] = 1;
        strides[n_dims - 1] = dims[n_dims - 2] > 1 ? dims[n_dims - 2] : 1;
    }
    if (layout == BW_CASE_BROADCAST && n_dims > 0)
        strides[c->sink->n_cases % n_dims] = 0;
    return add_plain(c, o, dtype, n_dims, dims, strides);
}

bw_tensor *bw_case_in_layout(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims, bw_case_layout layout)
{
    return add_layout(c, &c->in[c->n_in++], dtype, n_dims, dims, layout);
}

bw_tensor *bw_case_out_layout(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims, bw_case_layout layout)
{
    return add_layout(c, &c->out[c->n_out++], dtype, n_dims, dims, layout);
}

bool bw_cases_shape(int index, int *n_dims, int64_t *dims)
{
    static const struct {
        int n_dims;
        int64_t dims[BW_MAX_DIMS];
    } shapes[] = {{1, {1}},     {1, {7}},       {1, {31}},         {1, {8209}},       {0, {0}},
                  {2, {5, 67}}, {2, {64, 33}},  {3, {3, 17, 129}}, {4, {2, 3, 5, 7}}, {6, {2, 1, 3, 2, 1, 5}},
                  {1, {0}},     {3, {4, 0, 3}}, {2, {1, 1024}},    {2, {1031, 1}}};
    if (index < 0 || index >= (int)(sizeof shapes / sizeof *shapes))
        return false;
    *n_dims = shapes[index].n_dims;
    memcpy(dims, shapes[index].dims, sizeof shapes[index].dims);
    return true;
}

bw_tensor *bw_case_in_bytes(bw_case *c, const bw_tensor *like, size_t n_bytes)
{
    return add_operand(&c->in[c->n_in++], like, n_bytes, 0);
}

void bw_case_in_absent(bw_case *c)
{
    c->in[c->n_in++] = (operand){.absent = true, .alias = -1};
}

bw_tensor *bw_case_out(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims)
{
    return add_plain(c, &c->out[c->n_out++], dtype, n_dims, dims, NULL);
}

bw_tensor *bw_case_out_strided(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims, const int64_t *strides)
{
    return add_plain(c, &c->out[c->n_out++], dtype, n_dims, dims, strides);
}

bw_tensor *bw_case_out_bytes(bw_case *c, const bw_tensor *like, size_t n_bytes)
{
    return add_operand(&c->out[c->n_out++], like, n_bytes, 0);
}

bw_tensor *bw_case_out_kept(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims)
{
    bw_tensor *t = bw_case_out(c, dtype, n_dims, dims);
    c->out[c->n_out - 1].kept = true;
    return t;
}

void bw_case_out_alias(bw_case *c, int in)
{
    operand *o = &c->out[c->n_out++];
    *o = c->in[in];
    o->alias = in;
    o->expected = must_alloc(o->live.n_bytes);
}

void bw_case_params(bw_case *c, const void *params, size_t n_bytes)
{
    if (n_bytes > sizeof c->params) {
        fprintf(stderr, "params of %zu bytes are more than a case holds\n", n_bytes);
        exit(2);
    }
    memcpy(c->params, params, n_bytes);
    c->has_params = true;
}

void bw_case_decoder(bw_case *c, bw_case_decode_fn *decode, int64_t n_columns)
{
    c->out[c->n_out - 1].decode = decode;
    c->out[c->n_out - 1].n_columns = n_columns;
}

void bw_case_expect(bw_case *c, int out, const void *expected, const void *initial)
{
    operand *o = &c->out[out];
    memcpy(o->expected, expected, o->live.n_bytes);
    if (initial)
        memcpy(o->initial, initial, o->live.n_bytes);
    o->kept = initial != NULL;
    c->has_expected = true;
}

void bw_case_exact(bw_case *c)
{
    c->is_exact = true;
}

void bw_case_equal(bw_case *c)
{
    c->is_equal = true;
}

void bw_case_tolerance(bw_case *c, int64_t reduction, double magnitude, double step)
{
    c->reduction = reduction;
    c->magnitude = magnitude;
    c->step = step;
}

/* The operand a tensor belongs to. */
static operand *find_operand(bw_case *c, const bw_tensor *t)
{
    for (int i = 0; i < c->n_in; i++)
        if (&c->in[i].tensor == t)
            return &c->in[i];
    for (int i = 0; i < c->n_out; i++)
        if (&c->out[i].tensor == t)
            return &c->out[i];
    return NULL;
}

void bw_case_fill_normal(bw_case *c, bw_tensor *t, double scale)
{
    operand *o = find_operand(c, t);
    bw_rng *rng = &c->sink->rng;
    if (operand_is_plain(o)) { /* the whole storage: gaps too */
        int64_t size = bw_dtype_block_bytes(t->dtype);
        for (int64_t i = 0; i < (int64_t)o->live.n_bytes / size; i++)
            bw_element_set_f64(t->dtype, o->live.data, i,
                               bw_dtype_is_integer(t->dtype)
                                   ? (double)bw_rng_below(rng, 256) - (t->dtype == BW_U8 ? 0 : 100)
                                   : bw_rng_normal(rng) * scale);
        return;
    }
    if (t->layout || !bw_can_encode(t->dtype)) {
        for (size_t i = 0; i < o->live.n_bytes; i++)
            o->live.data[i] = (uint8_t)bw_rng_u32(rng);
        return;
    }
    int64_t n = t->dims[t->n_dims - 1];
    float *row = must_alloc((size_t)n * 4);
    for (int64_t r = 0; r < operand_rows(o); r++) {
        size_t offset;
        operand_row_bytes(o, r, &offset);
        for (int64_t i = 0; i < n; i++)
            row[i] = (float)(bw_rng_normal(rng) * scale);
        bw_err err = {0};
        if (bw_encode_row(t->dtype, row, o->live.data + offset, n, NULL, &err) != BW_OK) {
            fprintf(stderr, "a %s row could not be made: %s\n", bw_dtype_name(t->dtype), err.text);
            exit(2);
        }
    }
    bw_free(row);
}

void bw_case_fill_special(bw_case *c, bw_tensor *t, int n)
{
    static const double values[] = {NAN,  INFINITY, -INFINITY, 0.0,  -0.0, 1e-40, -1e-45, 1.0e38, -3.0e38,
                                    88.7, -88.7,    104.0,     -104, 0.5,  -1.5,  2.5,    1e-3,   65504};
    static const int64_t integers[] = {0, 1, -1, INT64_MAX, INT64_MIN, 127, 128, 255, 32767, 32768, 2147483647};
    operand *o = find_operand(c, t);
    bw_rng *rng = &c->sink->rng;
    int64_t n_rows = operand_rows(o), n_columns = operand_columns(o);
    for (int k = 0; k < n && n_rows * n_columns > 0; k++) {
        int64_t at =
            operand_element(o, bw_cases_between(c->sink, 0, n_rows - 1), bw_cases_between(c->sink, 0, n_columns - 1));
        if (bw_dtype_is_integer(t->dtype))
            bw_element_set_i64(t->dtype, o->live.data, at,
                               integers[bw_rng_below(rng, sizeof integers / sizeof *integers)]);
        else
            bw_element_set_f64(t->dtype, o->live.data, at, values[bw_rng_below(rng, sizeof values / sizeof *values)]);
    }
}

void bw_case_fill_uniform(bw_case *c, bw_tensor *t, double low, double high)
{
    operand *o = find_operand(c, t);
    int64_t size = bw_dtype_block_bytes(t->dtype);
    for (int64_t i = 0; i < (int64_t)o->live.n_bytes / size; i++)
        if (bw_dtype_is_integer(t->dtype))
            bw_element_set_i64(t->dtype, o->live.data, i, bw_cases_between(c->sink, (int64_t)low, (int64_t)high));
        else
            bw_element_set_f64(t->dtype, o->live.data, i, low + bw_rng_f64(&c->sink->rng) * (high - low));
}

void bw_case_fill_i32(bw_case *c, bw_tensor *t, int32_t low, int32_t high)
{
    for (int64_t i = 0; i < bw_tensor_elements(t); i++)
        ((int32_t *)t->data)[i] = (int32_t)bw_cases_between(c->sink, low, high);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static bw_op_call make_call(bw_case *c)
{
    bw_op_call call = {.op = c->op, .n_in = c->n_in, .n_out = c->n_out, .params = c->has_params ? c->params : NULL};
    for (int i = 0; i < c->n_in; i++)
        call.in[i] = c->in[i].absent ? NULL : &c->in[i].tensor;
    for (int i = 0; i < c->n_out; i++)
        call.out[i] = &c->out[i].tensor;
    return call;
}

static void free_case(bw_case *c)
{
    for (int i = 0; i < c->n_in; i++) {
        bw_free(c->in[i].live.block);
        bw_free(c->in[i].initial);
        bw_free(c->in[i].expected);
    }
    for (int i = 0; i < c->n_out; i++) {
        bw_free(c->out[i].expected);
        if (c->out[i].alias < 0) {
            bw_free(c->out[i].live.block);
            bw_free(c->out[i].initial);
        }
    }
    bw_free(c);
}

/* Everything as before a run: inputs and kept outputs restored, other outputs poisoned. */
static void reset(bw_case *c, int poison)
{
    for (int i = 0; i < c->n_in; i++)
        if (!c->in[i].absent)
            memcpy(c->in[i].live.data, c->in[i].initial, c->in[i].live.n_bytes);
    for (int i = 0; i < c->n_out; i++) {
        operand *o = &c->out[i];
        if (o->alias >= 0)
            continue;
        if (!o->kept)
            memset(o->initial, poison, o->live.n_bytes);
        memcpy(o->live.data, o->initial, o->live.n_bytes);
        set_guards(&o->live);
    }
}

static const char *inspect(bw_case *c)
{
    static char sentence[100];
    for (int i = 0; i < c->n_out; i++) {
        const char *failure = compare_output(c, &c->out[i], i);
        if (failure)
            return failure;
        if (!guards_are_whole(&c->out[i].live)) {
            snprintf(sentence, sizeof sentence, "out%d was written beyond its end or before its start", i);
            return sentence;
        }
    }
    for (int i = 0; i < c->n_in; i++) {
        bool is_output = c->in[i].absent;
        for (int k = 0; k < c->n_out; k++)
            is_output = is_output || c->out[k].alias == i;
        if (!is_output && (memcmp(c->in[i].live.data, c->in[i].initial, c->in[i].live.n_bytes) != 0 ||
                           !guards_are_whole(&c->in[i].live))) {
            snprintf(sentence, sizeof sentence, "in%d was changed", i);
            return sentence;
        }
    }
    return NULL;
}

static void report(bw_case *c, const char *variant, int n_members, const char *failure)
{
    if (!failure) {
        c->sink->n_passed++;
        return;
    }
    c->sink->n_failed++;
    printf("FAILED %s [%s] on %s with %d member%s: %s\n", bw_op_get(c->op)->name, c->name, variant, n_members,
           n_members > 1 ? "s" : "", failure);
}

/* Leave one element of an output that now equals ref as each of the poisons; one of the comparisons must notice. */
static void self_test_unwritten(bw_case *c, const operand *o, int index, int64_t row)
{
    uint8_t before[16];
    size_t size = (size_t)bw_dtype_block_bytes(o->tensor.dtype);
    uint8_t *element = o->live.data + (size_t)operand_element(o, row, operand_columns(o) / 2) * size;
    memcpy(before, element, size);
    memset(element, POISON, size);
    bool is_noticed = compare_output(c, o, index) != NULL;
    memset(element, OTHER_POISON, size);
    is_noticed = compare_output(c, o, index) != NULL || is_noticed;
    memcpy(element, before, size);
    report(c, "self-test", 1, is_noticed ? NULL : "an element that was never written was not noticed");
}

/* Change one element of an output that now equals ref; the comparison must notice. */
static void self_test(bw_case *c)
{
    bw_case_sink *sink = c->sink;
    for (int i = 0; i < c->n_out; i++) {
        operand *o = &c->out[i];
        int64_t n_rows = operand_rows(o), n = operand_columns(o);
        if (n_rows * n == 0)
            continue;
        /* A byte whose change can be seen at all: padding and a scale's lowest bits cannot. */
        double *before = must_alloc((size_t)n * 8), *after = must_alloc((size_t)n * 8);
        int64_t row = bw_cases_between(sink, 0, n_rows - 1);
        size_t offset, n_bytes = operand_row_bytes(o, row, &offset);
        if (operand_is_plain(o)) {
            n_bytes = (size_t)bw_dtype_block_bytes(o->tensor.dtype);
            offset = (size_t)operand_element(o, row, bw_cases_between(sink, 0, n - 1)) * n_bytes;
        } else if (n_bytes == 0) {
            n_bytes = o->live.n_bytes / (size_t)n_rows;
            offset = n_bytes * (size_t)row;
        }
        operand_decode(o, o->live.data, row, before);
        size_t start = (size_t)bw_rng_below(&sink->rng, n_bytes);
        bool is_changed = false;
        uint8_t *byte = NULL;
        for (size_t k = 0; k < n_bytes && !is_changed; k++) {
            byte = o->live.data + offset + (start + k) % n_bytes;
            *byte ^= 0x55;
            operand_decode(o, o->live.data, row, after);
            for (int64_t j = 0; j < n && !is_changed; j++)
                is_changed = fabs(after[j] - before[j]) > 0.3 * fabs(before[j]) + c->magnitude;
            if (!is_changed)
                *byte ^= 0x55;
        }
        const char *failure = NULL;
        if (is_changed) {
            failure = compare_output(c, o, i) ? NULL : "a corrupted element was not noticed";
            *byte ^= 0x55;
            report(c, "self-test", 1, failure);
            sink->is_self_tested = true;
            if (operand_is_plain(o) && !o->kept)
                self_test_unwritten(c, o, i, row);
        }
        bw_free(before);
        bw_free(after);
    }
}

/* On a GPU: the operand's whole block, guards included, in device memory, and back. */
static bw_status stage(bw_device *device, operand *o, bw_buffer *buffer, bw_err *err)
{
    size_t n_bytes = o->live.n_bytes + 2 * GUARD + SHIFT_ROOM;
    BW_TRY(device->vtable->alloc(device, n_bytes, BW_MEMORY_DENSE, "a tensor", buffer, err));
    o->tensor.data = (char *)buffer->data + (o->live.data - o->live.block);
    return device->vtable->upload(device, buffer->data, o->live.block, n_bytes, err);
}

static bw_status run_on_gpu(bw_case *c, const char *variant, bw_device *device, bw_err *err)
{
    bw_buffer in[BW_OP_MAX_IN] = {0}, out[BW_OP_MAX_OUT] = {0};
    bw_status status = BW_OK;
    for (int i = 0; i < c->n_in && status == BW_OK; i++)
        if (!c->in[i].absent)
            status = stage(device, &c->in[i], &in[i], err);
    for (int i = 0; i < c->n_out && status == BW_OK; i++) {
        if (c->out[i].alias >= 0)
            c->out[i].tensor.data = c->in[c->out[i].alias].tensor.data;
        else
            status = stage(device, &c->out[i], &out[i], err);
    }
    bw_op_call call = make_call(c);
    if (status == BW_OK)
        status = bw_op_prepare(&call, device, variant, err);
    if (status == BW_OK)
        status = bw_op_run(&call, device, err);
    for (int i = 0; i < c->n_in; i++) {
        size_t n_bytes = c->in[i].live.n_bytes + 2 * GUARD + SHIFT_ROOM;
        if (status == BW_OK && !c->in[i].absent)
            status = device->vtable->download(device, c->in[i].live.block, in[i].data, n_bytes, err);
        device->vtable->release(device, &in[i]);
        c->in[i].tensor.data = c->in[i].live.data;
    }
    for (int i = 0; i < c->n_out; i++) {
        size_t n_bytes = c->out[i].live.n_bytes + 2 * GUARD + SHIFT_ROOM;
        if (status == BW_OK && c->out[i].alias < 0)
            status = device->vtable->download(device, c->out[i].live.block, out[i].data, n_bytes, err);
        device->vtable->release(device, &out[i]);
        c->out[i].tensor.data = c->out[i].live.data;
    }
    return status;
}

/* One call on the CPU, whose members may touch the tensors and nothing beside them. */
static bw_status run_on_cpu(bw_case *c, bw_op_call *call, bw_device *device, const char *variant, bw_err *err)
{
    BW_TRY(bw_op_prepare(call, device, variant, err));
    for (int i = 0; i < c->n_in; i++)
        forbid_guards(&c->in[i].live, true);
    for (int i = 0; i < c->n_out; i++)
        forbid_guards(&c->out[i].live, true);
    bw_status status = bw_op_run(call, device, err);
    for (int i = 0; i < c->n_in; i++)
        forbid_guards(&c->in[i].live, false);
    for (int i = 0; i < c->n_out; i++)
        forbid_guards(&c->out[i].live, false);
    return status;
}

/* A GPU has one team: it runs twice, for the two poisons. */
static void run_variant(bw_case *c, const char *variant, int run)
{
    bw_err err = {0};
    bw_op_call call = make_call(c);
    int team = c->sink->devices[run] ? run : 0;
    bw_device *device = c->sink->devices[team];
    reset(c, run % 2 ? OTHER_POISON : POISON);
    const char *failure = NULL;
    bw_status status;
    if (device->kind != BW_DEVICE_CPU)
        status = run_on_gpu(c, variant, device, &err);
    else
        status = run_on_cpu(c, &call, device, variant, &err);
    failure = status == BW_OK ? inspect(c) : err.text;
    report(c, variant, team + 1, failure);
}

/* The values every kernel is held against: ref's, or those the case came with. false when ref itself failed. */
static bool find_expected(bw_case *c)
{
    bw_case_sink *sink = c->sink;
    for (int i = 0; i < c->n_in; i++)
        if (!c->in[i].absent)
            memcpy(c->in[i].initial, c->in[i].live.data, c->in[i].live.n_bytes);
    for (int i = 0; i < c->n_out; i++)
        if (c->out[i].kept && !c->has_expected)
            memcpy(c->out[i].initial, c->out[i].live.data, c->out[i].live.n_bytes);
    bw_err err = {0};
    bw_op_call call = make_call(c);
    reset(c, POISON);
    if (run_on_cpu(c, &call, sink->cpu, "ref", &err) != BW_OK) {
        report(c, "ref", 1, err.text);
        return false;
    }
    for (int i = 0; i < c->n_out && !c->has_expected; i++)
        memcpy(c->out[i].expected, c->out[i].live.data, c->out[i].live.n_bytes);
    const char *failure = inspect(c);
    report(c, "ref", 1, failure);
    if (!failure && !sink->is_self_tested)
        self_test(c);
    return true;
}

void bw_case_run(bw_case *c)
{
    bw_case_sink *sink = c->sink;
    bw_op_call call = make_call(c);
    sink_note_entry(sink, &call);
    const char *names[MAX_VARIANTS];
    int n = sink->is_list ? 0 : bw_op_list_variants(&call, sink->devices[0], names, MAX_VARIANTS);
    bool is_left_out = (sink->is_quick && quick_leaves_out(c, names, n)) ||
                       (sink->most && sink->n_cases > sink->most && sink->is_self_tested);
    sink->n_left_out += is_left_out && !sink->is_list;
    if (sink->is_list || is_left_out || !find_expected(c)) {
        free_case(c);
        return;
    }
    if (n == 0)
        sink->n_skipped++; /* no kernel on this device; the op's line says so */
    for (int v = sink->devices[0]->kind == BW_DEVICE_CPU ? 1 : 0; v < n; v++) {
        if (sink->only_variant && strcmp(sink->only_variant, names[v]) != 0) {
            sink->n_skipped++;
            continue;
        }
        int n_runs = sink->devices[0]->kind == BW_DEVICE_CPU ? N_TEAMS : 2;
        int least = BW_HAS_TSAN && n_runs == N_TEAMS; /* a team of one cannot race */
        int first = sink->is_quick ? least + sink->n_cases % (n_runs - least) : least;
        for (int run = first; run < (sink->is_quick ? first + 1 : n_runs); run++)
            run_variant(c, names[v], run);
    }
    free_case(c);
}

void bw_case_drop(bw_case *c)
{
    free_case(c);
}

void bw_case_refuse(bw_case *c)
{
    if (c->sink->is_list) {
        free_case(c);
        return;
    }
    bw_err err = {0};
    bw_op_call call = make_call(c);
    const char *name = bw_op_get(c->op)->name, *failure = NULL;
    bw_status status = bw_op_prepare(&call, c->sink->cpu, NULL, &err);
    if (status == BW_OK)
        failure = "was accepted, and must be refused";
    else if (status != BW_E_ARG || strncmp(err.text, name, strlen(name)) != 0)
        failure = "was refused with another status than BW_E_ARG, or a sentence that does not begin with the op";
    report(c, "check", 1, failure);
    free_case(c);
}
