/* CUMSUM for f64. */
#include "bw_op_check.h"
#include "reduce/cumsum_view.h"

bw_op_kernel bw_cumsum_typed;

void bw_cumsum_typed(const bw_op_call *call, bw_member *member)
{
    bw_cumsum_view v;
    bw_cumsum_view_init(&v, call);
    int64_t begin, end;
    if (!bw_op_my_share(member, v.rest.n, v.n, 2048, &begin, &end))
        return;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &v.rest, begin, end);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++) {
            const double *x = (const double *)call->in[0]->data + span.offset[0] + i * bw_loop_step(&v.rest, 0);
            double *y = (double *)call->out[0]->data + span.offset[1] + i * bw_loop_step(&v.rest, 1);
            double sum = 0;
            for (int64_t k = 0; k < v.n; k++) {
                sum += x[k * v.x_step];
                y[k * v.y_step] = sum;
            }
        }
}
