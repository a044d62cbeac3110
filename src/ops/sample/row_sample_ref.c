/* ROW_SAMPLE: see bw_sample.h. */
#include <math.h>

#include "bw_op_check.h"
#include "sample/row_key.h"

static bw_status check_vector(const bw_op_call *call, int i, bw_dtype dtype, int64_t n, bw_err *err)
{
    const char *what[] = {"in0", "in1", "in2", "in3"};
    const bw_tensor *t = call->in[i];
    BW_TRY(bw_op_check_plain(call, t, what[i], BW_MASK(dtype), err));
    if (t->n_dims != 1 || t->dims[0] != n || !bw_tensor_is_contiguous(t))
        return bw_op_fail(call, err, "%s must be [%lld]", what[i], (long long)n);
    return BW_OK;
}

bw_status bw_op_row_sample_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 4, 2, false, err));
    const bw_tensor *x = call->in[0];
    BW_TRY(bw_op_check_f32(call, x, "in0", err));
    if (x->n_dims != 2 || x->dims[1] < 1 || x->dims[1] > INT32_MAX)
        return bw_op_fail(call, err, "in0 must be [O, V] with V from 1 to 2^31 - 1");
    for (int i = 1; i < 4; i++)
        BW_TRY(check_vector(call, i, i == 3 ? BW_U32 : BW_F32, x->dims[0], err));
    BW_TRY(bw_op_check_i32(call, call->out[0], "out0", x->dims[0], err));
    return bw_op_check_i32(call, call->out[1], "out1", x->dims[0], err);
}

void bw_op_row_sample_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]);
    *cost = (bw_op_cost){.flops = 6 * n, .bytes = 8 * n + 20 * (double)call->in[0]->dims[0]};
}

static double weigh(float x, float largest, double temperature, double least)
{
    double w = x < largest ? exp(((double)x - (double)largest) / temperature) : 1;
    return w < least ? 0 : w;
}

static int64_t sample(const float *row, int64_t n, float largest, double temperature, double least, double share)
{
    double total = 0, sum = 0;
    int64_t last = -1;
    for (int64_t i = 0; i < n; i++)
        total += weigh(row[i], largest, temperature, least);
    for (int64_t i = 0; i < n && (last < 0 || sum <= share * total); i++) {
        double w = weigh(row[i], largest, temperature, least);
        last = w > 0 ? i : last;
        sum += w;
    }
    return last;
}

void bw_op_row_sample_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    for (int64_t r = 0; r < x->dims[0]; r++) {
        const float *row = (const float *)x->data + r * x->strides[0];
        bool finite = true, drawable = false;
        float largest = -INFINITY;
        for (int64_t i = 0; i < x->dims[1]; i++) {
            finite = finite && bw_row_is_finite(row[i]);
            largest = row[i] > largest ? row[i] : largest;
            drawable = drawable || bw_row_is_finite(row[i]);
        }
        for (int64_t i = 0; i < x->dims[1]; i++)
            drawable = drawable && !bw_row_is_undrawable(row[i]);
        double share = (double)((const uint32_t *)call->in[3]->data)[r] / 4294967296.0;
        ((int32_t *)call->out[0]->data)[r] =
            drawable ? (int32_t)sample(row, x->dims[1], largest, (double)((const float *)call->in[1]->data)[r],
                                       (double)((const float *)call->in[2]->data)[r], share)
                     : -1;
        ((int32_t *)call->out[1]->data)[r] = finite;
    }
}
