/* ROW_TOP_K: see bw_sample.h. */
#include <math.h>

#include "bw_op_check.h"
#include "sample/row_key.h"

bw_status bw_op_row_top_k_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 2, 3, false, err));
    const bw_tensor *x = call->in[0], *temperatures = call->in[1], *values = call->out[0], *tokens = call->out[1];
    const bw_tensor *sums = call->out[2];
    BW_TRY(bw_op_check_f32(call, x, "in0", err));
    BW_TRY(bw_op_check_f32(call, temperatures, "in1", err));
    BW_TRY(bw_op_check_f32(call, values, "out0", err));
    BW_TRY(bw_op_check_plain(call, tokens, "out1", BW_MASK(BW_I32), err));
    BW_TRY(bw_op_check_f32(call, sums, "out2", err));
    if (x->n_dims != 2 || x->dims[1] < 1 || x->dims[1] > INT32_MAX)
        return bw_op_fail(call, err, "in0 must be [O, V] with V from 1 to 2^31 - 1");
    int64_t n = x->dims[0];
    if (temperatures->n_dims != 1 || temperatures->dims[0] != n)
        return bw_op_fail(call, err, "in1 must be [%lld]", (long long)n);
    if (values->n_dims != 2 || values->dims[0] != n || values->dims[1] < 1 || values->dims[1] > x->dims[1])
        return bw_op_fail(call, err, "out0 must be [O, K] with K from 1 to V");
    if (!bw_op_same_shape(values, tokens) || sums->n_dims != 2 || sums->dims[0] != n || sums->dims[1] != BW_ROW_SUMS)
        return bw_op_fail(call, err, "out1 must be like out0, and out2 [O, %d]", BW_ROW_SUMS);
    if (!bw_tensor_is_contiguous(values) || !bw_tensor_is_contiguous(tokens) || !bw_tensor_is_contiguous(sums))
        return bw_op_fail(call, err, "outputs must be contiguous");
    return BW_OK;
}

void bw_op_row_top_k_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]), k = (double)bw_tensor_elements(call->out[0]);
    *cost = (bw_op_cost){.flops = 6 * n, .bytes = 4 * n + 8 * k};
}

static bool comes_before(const float *row, int64_t a, int64_t b)
{
    uint32_t key_a = bw_row_key(row[a]), key_b = bw_row_key(row[b]);
    return key_a > key_b || (key_a == key_b && a < b);
}

/* One after another: of those that come after the last one taken, the first. */
static void select(const float *row, int64_t n, float *values, int32_t *tokens, int64_t k)
{
    int64_t last = -1;
    for (int64_t j = 0; j < k; j++) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++)
            if ((last < 0 || comes_before(row, last, i)) && (best < 0 || comes_before(row, i, best)))
                best = i;
        values[j] = row[best];
        tokens[j] = (int32_t)best;
        last = best;
    }
}

void bw_op_row_top_k_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    int64_t n = x->dims[1], k = call->out[0]->dims[1];
    for (int64_t r = 0; r < x->dims[0]; r++) {
        const float *row = (const float *)x->data + r * x->strides[0];
        float *values = (float *)call->out[0]->data + r * k, *sums = (float *)call->out[2]->data + r * BW_ROW_SUMS;
        select(row, n, values, (int32_t *)call->out[1]->data + r * k, k);
        double temperature = (double)((const float *)call->in[1]->data)[r], weight = 0, likelihood = 0;
        bool finite = true;
        for (int64_t i = 0; i < n; i++) {
            double below = (double)row[i] - (double)values[0];
            finite = finite && bw_row_is_finite(row[i]);
            weight += exp(below / temperature);
            likelihood += exp(below);
        }
        sums[BW_ROW_LARGEST] = finite ? values[0] : 0;
        sums[BW_ROW_WEIGHT] = finite ? (float)weight : 0;
        sums[BW_ROW_LIKELIHOOD] = finite ? (float)likelihood : 0;
        sums[BW_ROW_FINITE] = finite;
    }
}
