/* GLU: y = act(gate) * up, the gated unit of "GLU Variants Improve Transformer" (Shazeer, arXiv:2002.05202). silu(x) =
 * x / (1 + e^-x); gelu_erf(x) = x (1 + erf(x / sqrt 2)) / 2; gelu_tanh is its tanh approximation (Hendrycks and Gimpel,
 * arXiv:1606.08415). */
#include <math.h>

#include "bw_op_check.h"

bw_status bw_op_glu_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 2, 1, true, err));
    BW_TRY(bw_op_check_f32(call, call->in[0], "in0", err));
    BW_TRY(bw_op_check_f32(call, call->in[1], "in1", err));
    BW_TRY(bw_op_check_f32(call, call->out[0], "out0", err));
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
    double n = (double)bw_tensor_elements(call->in[0]);
    *cost = (bw_op_cost){.flops = 20 * n, .bytes = 12 * n};
}

static double activate(bw_activation activation, double x)
{
    if (activation == BW_ACTIVATION_SILU)
        return x / (1 + exp(-x));
    if (activation == BW_ACTIVATION_GELU_ERF)
        return 0.5 * x * erfc(-x * 0.70710678118654752440);
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-2 * u)); /* (1 + tanh u) / 2 is the logistic function of 2u */
}

void bw_op_glu_ref(const bw_op_call *call)
{
    const bw_glu_params *params = call->params;
    bw_rows g, u, y;
    bw_rows_init(&g, call->in[0]);
    bw_rows_init(&u, call->in[1]);
    bw_rows_init(&y, call->out[0]);
    for (int64_t r = 0; r < g.n_rows; r++) {
        const float *gate = (const float *)call->in[0]->data + bw_rows_offset(&g, r);
        const float *up = (const float *)call->in[1]->data + bw_rows_offset(&u, r);
        float *dst = (float *)call->out[0]->data + bw_rows_offset(&y, r);
        for (int64_t i = 0; i < g.n_columns; i++)
            dst[i] = (float)(activate(params->activation, (double)gate[i]) * (double)up[i]);
    }
}
