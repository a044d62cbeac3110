/* ADD_RMS_NORM over vectors. Squares are summed in f64: the conversions cost less than the loads, and no
 * activation can overflow the sum. */
#include "reduce/reduce_vec.h"

bw_op_kernel BW_LEVEL(bw_add_rms_norm);

BW_INLINE double inverse_rms(double sum, int64_t n, float eps)
{
    return 1 / sqrt(sum / (double)n + (double)eps);
}

/* y = x * scale * w */
BW_INLINE void scale_row(const float *x, double scale, const float *w, float *y, int64_t n)
{
    const vf s = vf_set1((float)scale);
    int64_t i = 0;
    if (is_extreme(scale)) {
        for (; i < n; i++)
            y[i] = (float)((double)x[i] * scale * (double)w[i]);
        return;
    }
    for (; i + VF_N <= n; i += VF_N)
        vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), s), vf_load(w + i)));
    if (i < n)
        vf_store_n(y + i, vf_mul(vf_mul(vf_load_n(x + i, n - i), s), vf_load_n(w + i, n - i)), n - i);
}

/* h = x + r, or x + r * scale * w_r; returns the sum of h's squares. */
BW_INLINE double add_row(const float *x, const float *r, const float *w_r, double scale, float *h, int64_t n)
{
    const vf s = vf_set1((float)scale);
    vd sum = vd_zero();
    int64_t i = 0;
    if (is_extreme(scale)) {
        for (; i < n; i++)
            h[i] = (float)((double)x[i] + (double)r[i] * scale * (double)w_r[i]);
        return sum_squares(h, n);
    }
    for (; i + VF_N <= n; i += VF_N) {
        vf v = vf_load(r + i);
        if (w_r)
            v = vf_mul(vf_mul(v, s), vf_load(w_r + i));
        v = vf_add(vf_load(x + i), v);
        vf_store(h + i, v);
        sum = vd_add_square(sum, v);
    }
    if (i < n) {
        vf v = vf_load_n(r + i, n - i);
        if (w_r)
            v = vf_mul(vf_mul(v, s), vf_load_n(w_r + i, n - i));
        v = vf_add(vf_load_n(x + i, n - i), v);
        vf_store_n(h + i, v, n - i);
        sum = vd_add_square(sum, v);
    }
    return vd_sum(sum);
}

void BW_LEVEL(bw_add_rms_norm)(const bw_op_call *call, bw_member *member)
{
    float eps = ((const bw_rms_norm_params *)call->params)->eps;
    const float *w = call->in[2]->data, *w_r = call->in[3] ? call->in[3]->data : NULL;
    bw_rows x, r, h, y;
    bw_rows_init(&x, call->in[0]);
    bw_rows_init(&r, call->in[1]);
    bw_rows_init(&h, call->out[0]);
    bw_rows_init(&y, call->out[1]);
    int64_t begin, end, d = x.n_columns;
    if (!bw_op_my_share(member, x.n_rows, d, 2048, &begin, &end))
        return;
    for (int64_t row = begin; row < end; row++) {
        const float *px = (const float *)call->in[0]->data + bw_rows_offset(&x, row);
        const float *pr = (const float *)call->in[1]->data + bw_rows_offset(&r, row);
        float *ph = (float *)call->out[0]->data + bw_rows_offset(&h, row);
        double sum;
        if (w_r)
            sum = add_row(px, pr, w_r, inverse_rms(sum_squares(pr, d), d, eps), ph, d);
        else
            sum = add_row(px, pr, NULL, 1, ph, d);
        scale_row(ph, inverse_rms(sum, d, eps), w, (float *)call->out[1]->data + bw_rows_offset(&y, row), d);
    }
}
