/* The functions of binary.def and GLU for the types that vectors of f32 do not serve: f64 and the integers. */
#include "binary/binary_scalar.h"
#include "bw_op_check.h"

bw_op_kernel bw_binary_typed, bw_glu_typed;

/* n elements; a, b and y step by sa, sb, sy elements. */
typedef void row_fn(const void *a, int64_t sa, const void *b, int64_t sb, void *y, int64_t sy, int64_t n);

#define OUT_0(type) type
#define OUT_1(type) uint8_t
/* The contiguous loop stands apart so that compilers make vectors of it. */
#define ROW(name, suffix, type, wide, out)                                                                             \
    static void name##_##suffix(const void *a, int64_t sa, const void *b, int64_t sb, void *y, int64_t sy, int64_t n)  \
    {                                                                                                                  \
        const type *pa = a, *pb = b;                                                                                   \
        out *py = y;                                                                                                   \
        if (sa == 1 && sb == 1 && sy == 1) {                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                py[i] = (out)name##_##wide(pa[i], pb[i]);                                                              \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                            \
                py[i * sy] = (out)name##_##wide(pa[i * sa], pb[i * sb]);                                               \
        }                                                                                                              \
    }
#define BW_BINARY(NAME, name, is_compare, f64_, i64_, vector, formula)                                                 \
    ROW(name, row_f64, double, f64, OUT_##is_compare(double))                                                          \
    ROW(name, row_u8, uint8_t, i64, OUT_##is_compare(uint8_t))                                                         \
    ROW(name, row_i16, int16_t, i64, OUT_##is_compare(int16_t))                                                        \
    ROW(name, row_i32, int32_t, i64, OUT_##is_compare(int32_t))                                                        \
    ROW(name, row_u32, uint32_t, i64, OUT_##is_compare(uint32_t))                                                      \
    ROW(name, row_i64, int64_t, i64, OUT_##is_compare(int64_t))
#include "binary/binary.def"
#undef BW_BINARY

void bw_binary_typed(const bw_op_call *call, bw_member *member)
{
    static row_fn *const rows[][BW_U32 + 1] = {
#define BW_BINARY(NAME, name, is_compare, f64, i64, vector, formula)                                                   \
    [BW_OP_##NAME - BW_OP_BADD] = {[BW_F64] = name##_row_f64, [BW_U8] = name##_row_u8,   [BW_I16] = name##_row_i16,    \
                                   [BW_I32] = name##_row_i32, [BW_U32] = name##_row_u32, [BW_I64] = name##_row_i64},
#include "binary/binary.def"
#undef BW_BINARY
    };
    const bw_tensor *a = call->in[0], *b = call->in[1];
    bw_tensor *y = call->out[0];
    row_fn *row = rows[call->op - BW_OP_BADD][a->dtype];
    int64_t size = bw_dtype_block_bytes(a->dtype), out_size = bw_dtype_block_bytes(y->dtype);
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 3, (const bw_tensor *[]){a, b, y});
    int64_t begin, end;
    if (!bw_op_my_share(member, (loop.n + 63) / 64, 64, 4096, &begin, &end))
        return;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, begin * 64, end * 64 < loop.n ? end * 64 : loop.n);
    while (bw_loop_next(&cursor, &span))
        row((const char *)a->data + span.offset[0] * size, bw_loop_step(&loop, 0),
            (const char *)b->data + span.offset[1] * size, bw_loop_step(&loop, 1),
            (char *)y->data + span.offset[2] * out_size, bw_loop_step(&loop, 2), span.n);
}

void bw_glu_typed(const bw_op_call *call, bw_member *member)
{
    const bw_glu_params *params = call->params;
    const double *gate = call->in[0]->data, *up = call->in[1]->data;
    double *y = call->out[0]->data;
    bw_loop loop;
    bw_loop_init(&loop, call->out[0]->n_dims, call->out[0]->dims, 3,
                 (const bw_tensor *[]){call->in[0], call->in[1], call->out[0]});
    int64_t begin, end, steps[3];
    for (int k = 0; k < 3; k++)
        steps[k] = bw_loop_step(&loop, k);
    if (!bw_op_my_share(member, loop.n, 1, 512, &begin, &end))
        return;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, begin, end);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++)
            y[span.offset[2] + i * steps[2]] =
                bw_activate_f64(params->activation, gate[span.offset[0] + i * steps[0]]) *
                up[span.offset[1] + i * steps[1]];
}
