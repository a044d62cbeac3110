/* ROPE, ROPE_I and ROPE_THD for f64. */
#include "bw_op_check.h"
#include "reduce/rope_view.h"

bw_op_kernel bw_rope_typed, bw_rope_i_typed, bw_rope_thd_typed;

void bw_rope_typed(const bw_op_call *call, bw_member *member)
{
    bw_rope_view v;
    bw_rope_view_init(&v, call);
    int64_t begin, end, half = v.d / 2;
    bool is_interleaved = call->op == BW_OP_ROPE_I;
    int64_t x1_step = is_interleaved ? 2 * v.x_step : v.x_step, y1_step = is_interleaved ? 2 * v.y_step : v.y_step;
    int64_t x2 = is_interleaved ? v.x_step : half * v.x_step, y2 = is_interleaved ? v.y_step : half * v.y_step;
    if (!bw_op_my_share(member, v.dims[0] * v.dims[1] * v.dims[2], v.d, 2048, &begin, &end))
        return;
    for (int64_t row = begin; row < end; row++) {
        bw_rope_row r;
        bw_rope_view_row(&v, row, &r);
        const double *x = (const double *)call->in[0]->data + r.x, *cos = (const double *)call->in[1]->data + r.cos,
                     *sin = (const double *)call->in[2]->data + r.sin;
        double *y = (double *)call->out[0]->data + r.y;
        for (int64_t i = 0; i < half; i++) {
            double a = x[i * x1_step], b = x[x2 + i * x1_step];
            double c = cos[i * v.table_steps[0]], s = sin[i * v.table_steps[1]];
            y[i * y1_step] = a * c - b * s;
            y[y2 + i * y1_step] = a * s + b * c;
        }
    }
}

void bw_rope_i_typed(const bw_op_call *call, bw_member *member)
{
    bw_rope_typed(call, member);
}

void bw_rope_thd_typed(const bw_op_call *call, bw_member *member)
{
    bw_rope_typed(call, member);
}
