/* The functions of unary.def for f64, and which kernel takes which type. */
#include "bw_op_check.h"
#include "unary/unary_f64.h"

bw_op_kernel bw_unary_typed;

typedef void row_fn(const double *x, int64_t from, double *y, int64_t to, int64_t n, double p);

#define BW_UNARY(NAME, name, has_param, f64, vector, limit, is_exact, magnitude, step, formula)                        \
    static void name##_row(const double *x, int64_t from, double *y, int64_t to, int64_t n, double p)                  \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i * to] = name##_f64(x[i * from], p);                                                                    \
    }
#include "unary/unary.def"
#undef BW_UNARY

void bw_unary_typed(const bw_op_call *call, bw_member *member)
{
    static row_fn *const rows[] = {
#define BW_UNARY(NAME, name, has_param, f64, vector, limit, is_exact, magnitude, step, formula)                        \
    [BW_OP_##NAME - BW_OP_UNEG] = name##_row,
#include "unary/unary.def"
#undef BW_UNARY
    };
    const bw_unary_params *params = call->params;
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 2, (const bw_tensor *[]){x, y});
    int64_t begin, end, from = bw_loop_step(&loop, 0), to = bw_loop_step(&loop, 1);
    if (!bw_op_my_share(member, loop.n, 1, 1024, &begin, &end))
        return;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, begin, end);
    while (bw_loop_next(&cursor, &span))
        rows[call->op - BW_OP_UNEG]((const double *)x->data + span.offset[0], from, (double *)y->data + span.offset[1],
                                    to, span.n, params ? params->param : 0);
}
