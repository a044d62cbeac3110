/* CAST where one side is f32 or shorter: everything goes through blocks of f32, which hold such a side exactly; where
 * the other side does not fit and the result is rounded again, they are rounded to odd. */
#include "bw_each.h"
#include "cast/cast_saturate.h"
#include "cast/cast_scalar.h"

bw_op_kernel BW_LEVEL(bw_cast);

#define LOAD(type, convert)                                                                                            \
    do {                                                                                                               \
        const type *s = (const type *)src;                                                                             \
        if (step == 1)                                                                                                 \
            for (int64_t i = 0; i < n; i++)                                                                            \
                dst[i] = convert(s[i]);                                                                                \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                dst[i] = convert(s[i * step]);                                                                         \
        return;                                                                                                        \
    } while (0)
#define TO_F32(v) (float)(v)
#define TO_ODD(v) bw_f64_to_f32_odd((double)(v))
#define TO_STICKY_ODD(v) bw_f64_to_f32_odd(bw_cast_i64_sticky(v))

/* n elements of any type, `step` apart, to f32; to odd where short floats follow. */
static void cast_load(bw_dtype dtype, const void *src, int64_t step, float *dst, int64_t n, bool to_odd)
{
    switch (dtype) {
    case BW_F64:
        if (to_odd)
            LOAD(double, TO_ODD);
        LOAD(double, TO_F32);
    case BW_I64:
        if (to_odd)
            LOAD(int64_t, TO_STICKY_ODD);
        LOAD(int64_t, TO_F32);
    case BW_I32:
        if (to_odd)
            LOAD(int32_t, TO_ODD);
        LOAD(int32_t, TO_F32);
    case BW_U32:
        if (to_odd)
            LOAD(uint32_t, TO_ODD);
        LOAD(uint32_t, TO_F32);
    case BW_I16:
        LOAD(int16_t, TO_F32);
    case BW_U8:
        LOAD(uint8_t, TO_F32);
    default:
        bw_each_load(dtype, src, step, dst, n);
    }
}

#define STORE(type, convert)                                                                                           \
    do {                                                                                                               \
        type *d = (type *)dst;                                                                                         \
        if (step == 1)                                                                                                 \
            for (int64_t i = 0; i < n; i++)                                                                            \
                d[i] = convert(src[i]);                                                                                \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                d[i * step] = convert(src[i]);                                                                         \
        return;                                                                                                        \
    } while (0)
#define TO_F64(v) (double)(v)

static void cast_store(bw_dtype dtype, void *dst, int64_t step, const float *src, int64_t n)
{
    switch (dtype) {
    case BW_F64:
        STORE(double, TO_F64);
    case BW_I64:
        STORE(int64_t, BW_CAST_TO_i64);
    case BW_I32:
        STORE(int32_t, BW_CAST_TO_i32);
    case BW_U32:
        STORE(uint32_t, BW_CAST_TO_u32);
    case BW_I16:
        STORE(int16_t, BW_CAST_TO_i16);
    case BW_U8:
        STORE(uint8_t, BW_CAST_TO_u8);
    default:
        bw_each_store(dtype, dst, step, src, n);
    }
}

/* At most BW_EACH_BLOCK elements. */
static void cast_block(const bw_tensor *x, int64_t from, int64_t x_step, bw_tensor *y, void *dst, int64_t y_step,
                       int64_t n, bool is_streamed)
{
    float buffer[BW_EACH_BLOCK];
    uint64_t staged[BW_EACH_BLOCK];
    const float *middle = buffer;
    bool to_odd = y->dtype == BW_F16 || y->dtype == BW_BF16 || y->dtype == BW_F8_E4M3;
    if (x->dtype == BW_F32 && x_step == 1)
        middle = (const float *)x->data + from;
    else
        cast_load(x->dtype, (const char *)x->data + from * bw_dtype_block_bytes(x->dtype), x_step, buffer, n, to_odd);
    if (!is_streamed) {
        cast_store(y->dtype, dst, y_step, middle, n);
    } else {
        cast_store(y->dtype, staged, 1, middle, n);
        bw_stream_copy(dst, staged, (size_t)(n * bw_dtype_block_bytes(y->dtype)));
    }
}

void BW_LEVEL(bw_cast)(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    int64_t size = bw_dtype_block_bytes(y->dtype);
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 2, (const bw_tensor *[]){x, y});
    int64_t begin, end, from = bw_loop_step(&loop, 0), to = bw_loop_step(&loop, 1);
    if (!bw_op_my_share(member, (loop.n + 63) / 64, 64, 8192, &begin, &end))
        return;
    bool is_streamed = bw_each_is_streamed(call, &loop, 1);
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, begin * 64, end * 64 < loop.n ? end * 64 : loop.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0, n; i < span.n; i += n) {
            char *dst = (char *)y->data + (span.offset[1] + i * to) * size;
            n = span.n - i < BW_EACH_BLOCK ? span.n - i : BW_EACH_BLOCK;
            if (is_streamed && i == 0)
                n = bw_stream_head(dst, size, n);
            cast_block(x, span.offset[0] + i * from, from, y, dst, to, n, is_streamed);
        }
    if (is_streamed)
        bw_stream_end();
}
