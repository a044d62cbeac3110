/* ADD_RMS_NORM: h = x + r, or x + rms_norm(r) * w_r; y = rms_norm(h) * w. The residual addition and the norm that
 * follows it, in one pass. h may lie where x lies. y is the norm of h as stored in f32. */
#include <math.h>

#include "bw_op_check.h"

bw_status bw_op_add_rms_norm_check(const bw_op_call *call, bw_err *err)
{
    static const char *const names[] = {"in0", "in1", "in2", "in3"};
    BW_TRY(bw_op_check_counts(call, 4, 2, true, err));
    for (int i = 0; i < 4; i++)
        if (i < 3 || call->in[i])
            BW_TRY(bw_op_check_f32(call, call->in[i], names[i], err));
    BW_TRY(bw_op_check_f32(call, call->out[0], "out0", err));
    BW_TRY(bw_op_check_f32(call, call->out[1], "out1", err));
    const bw_tensor *x = call->in[0];
    int64_t d = x->dims[x->n_dims - 1];
    if (!bw_op_same_shape(x, call->in[1]) || !bw_op_same_shape(x, call->out[0]) || !bw_op_same_shape(x, call->out[1]))
        return bw_op_fail(call, err, "in0, in1, out0 and out1 must have one shape");
    for (int i = 2; i < 4; i++)
        if (call->in[i] && (call->in[i]->n_dims != 1 || call->in[i]->dims[0] != d))
            return bw_op_fail(call, err, "%s must be [%lld]", names[i], (long long)d);
    float eps = ((const bw_rms_norm_params *)call->params)->eps;
    if (!(eps >= 0) || isinf(eps))
        return bw_op_fail(call, err, "eps must be a number from 0 on, not %g", (double)eps);
    return BW_OK;
}

void bw_op_add_rms_norm_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]), d = (double)call->in[2]->dims[0];
    bool twice = call->in[3] != NULL;
    *cost = (bw_op_cost){.flops = (twice ? 9 : 5) * n, .bytes = 16 * n + (twice ? 8 : 4) * d};
}

static double inverse_rms(const float *x, int64_t n, double eps)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return 1 / sqrt(sum / (double)n + eps);
}

void bw_op_add_rms_norm_ref(const bw_op_call *call)
{
    double eps = (double)((const bw_rms_norm_params *)call->params)->eps;
    const float *w = call->in[2]->data, *w_r = call->in[3] ? call->in[3]->data : NULL;
    bw_rows x, r, h, y;
    bw_rows_init(&x, call->in[0]);
    bw_rows_init(&r, call->in[1]);
    bw_rows_init(&h, call->out[0]);
    bw_rows_init(&y, call->out[1]);
    int64_t d = x.n_columns;
    for (int64_t row = 0; row < x.n_rows; row++) {
        const float *px = (const float *)call->in[0]->data + bw_rows_offset(&x, row);
        const float *pr = (const float *)call->in[1]->data + bw_rows_offset(&r, row);
        float *ph = (float *)call->out[0]->data + bw_rows_offset(&h, row);
        float *py = (float *)call->out[1]->data + bw_rows_offset(&y, row);
        double scale_r = w_r ? inverse_rms(pr, d, eps) : 1;
        for (int64_t i = 0; i < d; i++)
            ph[i] = (float)((double)px[i] + (double)pr[i] * scale_r * (w_r ? (double)w_r[i] : 1.0));
        double scale = inverse_rms(ph, d, eps);
        for (int64_t i = 0; i < d; i++)
            py[i] = (float)((double)ph[i] * scale * (double)w[i]);
    }
}
