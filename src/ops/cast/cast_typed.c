/* CAST between f64 and the integers, which f32 cannot hold; and which kernel takes which pair. */
#include "bw_op_check.h"
#include "cast/cast_saturate.h"

bool bw_cast_supports_copy(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_cast_supports_f32(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_cast_supports_typed(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_cast_supports_avx2(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_cast_supports_avx512(const bw_op_call *call, const bw_cpu_features *cpu);
bw_op_kernel bw_cast_typed;

bool bw_cast_supports_copy(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)cpu;
    return call->in[0]->dtype == call->out[0]->dtype;
}

bool bw_cast_supports_f32(const bw_op_call *call, const bw_cpu_features *cpu)
{
    uint64_t pair = BW_MASK(call->in[0]->dtype) | BW_MASK(call->out[0]->dtype);
    return !bw_cast_supports_copy(call, cpu) && pair & (BW_MASK_HALVES | BW_MASK(BW_F32) | BW_MASK(BW_F8_E4M3));
}

bool bw_cast_supports_typed(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return !bw_cast_supports_copy(call, cpu) && !bw_cast_supports_f32(call, cpu);
}

bool bw_cast_supports_avx2(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return cpu->avx2 && bw_cast_supports_f32(call, cpu);
}

bool bw_cast_supports_avx512(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return cpu->avx512 && bw_cast_supports_f32(call, cpu);
}

typedef void row_fn(const void *x, int64_t from, void *y, int64_t to, int64_t n);

#define ROW(src, src_type, dst, dst_type, convert)                                                                     \
    static void row_##src##_##dst(const void *x, int64_t from, void *y, int64_t to, int64_t n)                         \
    {                                                                                                                  \
        const src_type *s = x;                                                                                         \
        dst_type *d = y;                                                                                               \
        if (from == 1 && to == 1)                                                                                      \
            for (int64_t i = 0; i < n; i++)                                                                            \
                d[i] = convert(s[i]);                                                                                  \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                d[i * to] = convert(s[i * from]);                                                                      \
    }
#define TO_f64(v) (double)(v)
#define WRAP_u8(v) (uint8_t)(v)
#define WRAP_u32(v) (uint32_t)(v)
#define WRAP_i16(v) (int16_t)(v)
#define WRAP_i32(v) (int32_t)(v)
#define WRAP_i64(v) (int64_t)(v)
#define FROM(src, src_type)                                                                                            \
    ROW(src, src_type, f64, double, TO_f64)                                                                            \
    ROW(src, src_type, u8, uint8_t, WRAP_u8)                                                                           \
    ROW(src, src_type, u32, uint32_t, WRAP_u32)                                                                        \
    ROW(src, src_type, i16, int16_t, WRAP_i16)                                                                         \
    ROW(src, src_type, i32, int32_t, WRAP_i32)                                                                         \
    ROW(src, src_type, i64, int64_t, WRAP_i64)
FROM(u8, uint8_t)
FROM(u32, uint32_t)
FROM(i16, int16_t)
FROM(i32, int32_t)
FROM(i64, int64_t)
ROW(f64, double, u8, uint8_t, BW_CAST_TO_u8)
ROW(f64, double, u32, uint32_t, BW_CAST_TO_u32)
ROW(f64, double, i16, int16_t, BW_CAST_TO_i16)
ROW(f64, double, i32, int32_t, BW_CAST_TO_i32)
ROW(f64, double, i64, int64_t, BW_CAST_TO_i64)

#define ROWS(src)                                                                                                      \
    {                                                                                                                  \
        [BW_F64] = row_##src##_f64, [BW_U8] = row_##src##_u8, [BW_U32] = row_##src##_u32, [BW_I16] = row_##src##_i16,  \
        [BW_I32] = row_##src##_i32, [BW_I64] = row_##src##_i64,                                                        \
    }

void bw_cast_typed(const bw_op_call *call, bw_member *member)
{
    static row_fn *const rows[][BW_U32 + 1] = {
        [BW_F64] = {[BW_U8] = row_f64_u8,
                    [BW_U32] = row_f64_u32,
                    [BW_I16] = row_f64_i16,
                    [BW_I32] = row_f64_i32,
                    [BW_I64] = row_f64_i64},
        [BW_U8] = ROWS(u8),
        [BW_U32] = ROWS(u32),
        [BW_I16] = ROWS(i16),
        [BW_I32] = ROWS(i32),
        [BW_I64] = ROWS(i64),
    };
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    row_fn *row = rows[x->dtype][y->dtype];
    int64_t x_size = bw_dtype_block_bytes(x->dtype), y_size = bw_dtype_block_bytes(y->dtype);
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 2, (const bw_tensor *[]){x, y});
    int64_t begin, end;
    if (!bw_op_my_share(member, (loop.n + 63) / 64, 64, 8192, &begin, &end))
        return;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, begin * 64, end * 64 < loop.n ? end * 64 : loop.n);
    while (bw_loop_next(&cursor, &span))
        row((const char *)x->data + span.offset[0] * x_size, bw_loop_step(&loop, 0),
            (char *)y->data + span.offset[1] * y_size, bw_loop_step(&loop, 1), span.n);
}
