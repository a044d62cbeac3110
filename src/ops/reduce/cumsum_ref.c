/* CUMSUM: sums along one axis. */
#include "bw_op_check.h"
#include "reduce/cumsum_view.h"

bw_status bw_op_cumsum_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 1, true, err));
    const bw_tensor *x = call->in[0];
    BW_TRY(bw_op_check_plain(call, x, "in0", BW_MASK_F4, err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", BW_MASK(x->dtype), err));
    if (!bw_op_same_shape(x, call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must have one shape");
    int32_t axis = ((const bw_cumsum_params *)call->params)->axis;
    if (axis < 0 || axis >= x->n_dims)
        return bw_op_fail(call, err, "in0 has no dimension %d", (int)axis);
    return BW_OK;
}

void bw_op_cumsum_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]);
    *cost = (bw_op_cost){.flops = n, .bytes = 2 * n * (double)bw_dtype_block_bytes(call->in[0]->dtype)};
}

void bw_cumsum_view_init(bw_cumsum_view *v, const bw_op_call *call)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    int axis = ((const bw_cumsum_params *)call->params)->axis;
    bw_tensor rest_x = {0}, rest_y = {0};
    for (int d = 0; d < x->n_dims; d++) {
        if (d == axis)
            continue;
        rest_x.dims[rest_x.n_dims] = rest_y.dims[rest_x.n_dims] = x->dims[d];
        rest_x.strides[rest_x.n_dims] = x->strides[d];
        rest_y.strides[rest_x.n_dims++] = y->strides[d];
    }
    rest_y.n_dims = rest_x.n_dims;
    bw_loop_init(&v->rest, rest_x.n_dims, rest_x.dims, 2, (const bw_tensor *[]){&rest_x, &rest_y});
    v->n = x->dims[axis];
    v->x_step = x->strides[axis];
    v->y_step = y->strides[axis];
}

void bw_op_cumsum_ref(const bw_op_call *call)
{
    bw_cumsum_view v;
    bw_cumsum_view_init(&v, call);
    bw_dtype dtype = call->in[0]->dtype;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &v.rest, 0, v.rest.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++) {
            int64_t from = span.offset[0] + i * bw_loop_step(&v.rest, 0),
                    to = span.offset[1] + i * bw_loop_step(&v.rest, 1);
            double sum = 0;
            for (int64_t k = 0; k < v.n; k++) {
                sum += bw_element_f64(dtype, call->in[0]->data, from + k * v.x_step);
                bw_element_set_f64(dtype, call->out[0]->data, to + k * v.y_step, sum);
            }
        }
}
