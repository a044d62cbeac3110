/* GLU: y = act(gate) * up, the gated unit of "GLU Variants Improve Transformer" (Shazeer, arXiv:2002.05202). silu(x) =
 * x / (1 + e^-x); gelu_erf(x) = x (1 + erf(x / sqrt 2)) / 2; gelu_tanh is its tanh approximation (Hendrycks and Gimpel,
 * arXiv:1606.08415). */
#include "binary/binary_scalar.h"
#include "bw_op_check.h"

bw_status bw_op_glu_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 2, 1, true, err));
    BW_TRY(bw_op_check_plain(call, call->in[0], "in0", BW_MASK_F5, err));
    BW_TRY(bw_op_check_plain(call, call->in[1], "in1", BW_MASK(call->in[0]->dtype), err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", BW_MASK(call->in[0]->dtype), err));
    if (!bw_op_same_shape(call->in[0], call->in[1]) || !bw_op_same_shape(call->in[0], call->out[0]))
        return bw_op_fail(call, err, "in0, in1 and out0 must have one shape");
    bw_activation activation = ((const bw_glu_params *)call->params)->activation;
    if (activation != BW_ACTIVATION_SILU && activation != BW_ACTIVATION_GELU_TANH &&
        activation != BW_ACTIVATION_GELU_ERF)
        return bw_op_fail(call, err, "activation %d does not exist", (int)activation);
    return BW_OK;
}

void bw_op_glu_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]), size = (double)bw_dtype_block_bytes(call->in[0]->dtype);
    *cost = (bw_op_cost){.flops = 20 * n, .bytes = 3 * size * n};
}

void bw_op_glu_ref(const bw_op_call *call)
{
    const bw_glu_params *params = call->params;
    const bw_tensor *gate = call->in[0], *up = call->in[1];
    bw_tensor *y = call->out[0];
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 3, (const bw_tensor *[]){gate, up, y});
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, 0, loop.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++) {
            double g = bw_element_f64(gate->dtype, gate->data, span.offset[0] + i * bw_loop_step(&loop, 0));
            double u = bw_element_f64(up->dtype, up->data, span.offset[1] + i * bw_loop_step(&loop, 1));
            bw_element_set_f64(y->dtype, y->data, span.offset[2] + i * bw_loop_step(&loop, 2),
                               bw_activate_f64(params->activation, g) * u);
        }
}
