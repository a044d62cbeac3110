/* AFFINE for the types that vectors of f32 do not serve: f64 and the integers. */
#include "bw_op_check.h"

bw_op_kernel bw_affine_typed;

/* Every integer type in unsigned arithmetic of its width, which wraps as the signed types do. */
#define ROW(type, wide, mul, add)                                                                                      \
    do {                                                                                                               \
        const type *src = (const type *)x->data + span.offset[0];                                                      \
        type *dst = (type *)y->data + span.offset[1];                                                                  \
        const wide m = (wide)(mul), a = (wide)(add);                                                                   \
        for (int64_t i = 0; i < span.n; i++)                                                                           \
            dst[i * to] = (type)((wide)src[i * from] * m + a);                                                         \
    } while (0)

void bw_affine_typed(const bw_op_call *call, bw_member *member)
{
    const bw_affine_params *params = call->params;
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 2, (const bw_tensor *[]){x, y});
    int64_t begin, end, from = bw_loop_step(&loop, 0), to = bw_loop_step(&loop, 1);
    if (!bw_op_my_share(member, loop.n, 1, 4096, &begin, &end))
        return;
    int64_t mul = bw_f64_to_i64(params->mul), add = bw_f64_to_i64(params->add);
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, begin, end);
    while (bw_loop_next(&cursor, &span)) {
        if (x->dtype == BW_F64)
            ROW(double, double, params->mul, params->add);
        else if (x->dtype == BW_I64)
            ROW(uint64_t, uint64_t, mul, add);
        else if (x->dtype == BW_U32 || x->dtype == BW_I32)
            ROW(uint32_t, uint32_t, mul, add);
        else if (x->dtype == BW_I16)
            ROW(uint16_t, uint32_t, mul, add);
        else
            ROW(uint8_t, uint32_t, mul, add);
    }
}
