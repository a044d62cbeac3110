/* RMS_NORM: y = x / sqrt(mean(x^2) + eps) * w over the last dimension (Zhang and Sennrich, arXiv:1910.07467). */
#include <math.h>

#include "bw_op_check.h"

bw_status bw_op_rms_norm_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 2, 1, true, err));
    const bw_tensor *x = call->in[0], *w = call->in[1];
    BW_TRY(bw_op_check_f32(call, x, "in0", err));
    BW_TRY(bw_op_check_f32(call, w, "in1", err));
    BW_TRY(bw_op_check_f32(call, call->out[0], "out0", err));
    if (!bw_op_same_shape(x, call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must have one shape");
    if (w->n_dims != 1 || w->dims[0] != x->dims[x->n_dims - 1])
        return bw_op_fail(call, err, "in1 must be [%lld]", (long long)x->dims[x->n_dims - 1]);
    return BW_OK;
}

void bw_op_rms_norm_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]), d = (double)call->in[1]->dims[0];
    *cost = (bw_op_cost){.flops = 4 * n, .bytes = 8 * n + 4 * d};
}

void bw_op_rms_norm_ref(const bw_op_call *call)
{
    double eps = (double)((const bw_rms_norm_params *)call->params)->eps;
    const float *w = call->in[1]->data;
    bw_rows x, y;
    bw_rows_init(&x, call->in[0]);
    bw_rows_init(&y, call->out[0]);
    for (int64_t r = 0; r < x.n_rows; r++) {
        const float *src = (const float *)call->in[0]->data + bw_rows_offset(&x, r);
        float *dst = (float *)call->out[0]->data + bw_rows_offset(&y, r);
        double sum = 0;
        for (int64_t i = 0; i < x.n_columns; i++)
            sum += (double)src[i] * (double)src[i];
        double scale = 1 / sqrt(sum / (double)x.n_columns + eps);
        for (int64_t i = 0; i < x.n_columns; i++)
            dst[i] = (float)((double)src[i] * scale * (double)w[i]);
    }
}
