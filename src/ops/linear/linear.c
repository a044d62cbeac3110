/* QUANTISE_ACT and LINEAR: what a call must look like, what it costs, the reference, and the kernels in plain C that
 * serve every type on every processor. Fast kernels stand beside this file, one per CPU level. */
#include <string.h>

#include "bw_quant.h"
#include "linear/bw_linear_gpu.h"
#include "linear_layout.h"
#include "linear_planes.h"

/* ---- QUANTISE_ACT ----------------------------------------------------------------------------------------------- */

bw_status bw_op_quantise_act_check(const bw_op_call *call, bw_err *err)
{
    const bw_tensor *x = call->n_in == 1 ? call->in[0] : NULL, *y = call->n_out == 1 ? call->out[0] : NULL;
    if (!x || !y)
        return bw_op_fail(call, err, "one input and one output are needed");
    if (x->dtype != BW_F32 || x->layout || x->n_dims != 2 || (x->dims[1] > 1 && x->strides[1] != 1))
        return bw_op_fail(call, err, "the input must be f32 [T, K] with contiguous rows");
    if (y->layout != BW_ACT_Q8 && y->layout != BW_ACT_GPU)
        return bw_op_fail(call, err, "activation format %u does not exist", (unsigned)y->layout);
    int64_t bytes = bw_act_row_bytes(y->layout, x->dims[1]);
    if (bytes < 0)
        return bw_op_fail(call, err, "K = %lld is no multiple of 32", (long long)x->dims[1]);
    if (y->dtype != BW_U8 || y->n_dims != 2 || y->dims[0] != x->dims[0] || y->dims[1] != bytes ||
        !bw_tensor_is_contiguous(y))
        return bw_op_fail(call, err, "the output must be contiguous u8 [T, %lld]", (long long)bytes);
    return BW_OK;
}

void bw_op_quantise_act_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double t = (double)call->in[0]->dims[0], k = (double)call->in[0]->dims[1];
    cost->flops = 4 * t * k;
    cost->bytes = t * (4 * k + (double)call->out[0]->dims[1]);
}

static const float *x_row(const bw_tensor *x, int64_t t)
{
    return (const float *)x->data + t * x->strides[0];
}

void bw_op_quantise_act_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    for (int64_t t = 0; t < x->dims[0]; t++)
        bw_act_encode_row(y->layout, x->dims[0], x_row(x, t), (char *)y->data + t * y->dims[1], x->dims[1]);
}

void bw_op_quantise_act_plain(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    int64_t begin, end, n_blocks = x->dims[1] / 32;
    if (y->layout == BW_ACT_GPU) {
        bw_team_split(member, x->dims[0], 1, &begin, &end);
        for (int64_t t = begin; t < end; t++)
            bw_act_encode_row(y->layout, x->dims[0], x_row(x, t), (char *)y->data + t * y->dims[1], x->dims[1]);
        return;
    }
    bw_team_split(member, x->dims[0] * n_blocks, 8, &begin, &end);
    while (begin < end) {
        int64_t t = begin / n_blocks, b = begin % n_blocks, stop = n_blocks;
        if (end - begin < stop - b)
            stop = b + end - begin;
        bw_act_q8_blocks(x_row(x, t), (char *)y->data + t * y->dims[1], x->dims[1], b, stop);
        begin += stop - b;
    }
}

/* ---- LINEAR ----------------------------------------------------------------------------------------------------- */

static bool weight_is_valid(const bw_tensor *w)
{
    if (w->n_dims != 2 || w->dims[0] < 1 || w->dims[1] < 1)
        return false;
    if (w->layout)
        return bw_linear_layout_bytes(w->layout, w->dtype, w->dims[0], w->dims[1]) >= 0;
    int64_t block = bw_dtype_block_elements(w->dtype);
    if (w->dims[1] % block)
        return false;
    return (w->dims[1] == 1 || w->strides[1] == 1) &&
           (w->dims[0] == 1 || (w->strides[0] >= w->dims[1] && w->strides[0] % block == 0));
}

bw_status bw_op_linear_check(const bw_op_call *call, bw_err *err)
{
    const bw_linear_params *params = call->params;
    if (call->n_in < 2 || call->n_in > 3 || call->n_out != 1 || !params || !call->in[0] || !call->in[1] ||
        !call->out[0])
        return bw_op_fail(call, err, "x, w, an optional bias, one output and params are needed");
    const bw_tensor *x = call->in[0], *w = call->in[1], *bias = call->n_in > 2 ? call->in[2] : NULL;
    const bw_tensor *y = call->out[0];
    if (!weight_is_valid(w))
        return bw_op_fail(call, err, "w must be [N, K] with contiguous rows of whole blocks, or packed");
    if (params->k != w->dims[1])
        return bw_op_fail(call, err, "K is %lld in params but %lld in w", (long long)params->k, (long long)w->dims[1]);
    if (x->layout == BW_ACT_F32) {
        if (x->dtype != BW_F32 || x->n_dims != 2 || x->dims[1] != params->k || (x->dims[1] > 1 && x->strides[1] != 1))
            return bw_op_fail(call, err, "x must be f32 [T, %lld] with contiguous rows", (long long)params->k);
    } else if (x->dtype != BW_U8 || x->n_dims != 2 || bw_act_row_bytes(x->layout, params->k) != x->dims[1] ||
               !bw_tensor_is_contiguous(x)) {
        return bw_op_fail(call, err, "x is no row-contiguous activation block of K = %lld", (long long)params->k);
    }
    if (y->dtype != BW_F32 || y->n_dims != 2 || y->layout || y->dims[0] != x->dims[0] || y->dims[1] != w->dims[0] ||
        (y->dims[1] > 1 && y->strides[1] != 1))
        return bw_op_fail(call, err, "out must be f32 [%lld, %lld] with contiguous rows", (long long)x->dims[0],
                          (long long)w->dims[0]);
    if (bias && (bias->dtype != BW_F32 || bias->layout || bias->n_dims != 1 || bias->dims[0] != w->dims[0] ||
                 !bw_tensor_is_contiguous(bias)))
        return bw_op_fail(call, err, "bias must be f32 [%lld]", (long long)w->dims[0]);
    return BW_OK;
}

void bw_op_linear_cost(const bw_op_call *call, bw_op_cost *cost)
{
    const bw_tensor *w = call->in[1];
    double t = (double)call->in[0]->dims[0], n = (double)w->dims[0], k = (double)w->dims[1];
    cost->flops = 2 * t * n * k;
    cost->bytes = (double)bw_linear_layout_bytes(w->layout, w->dtype, w->dims[0], w->dims[1]) +
                  t * ((double)bw_act_row_bytes(call->in[0]->layout, w->dims[1]) + 4 * n);
}

static const void *act_row(const bw_tensor *x, int64_t t)
{
    if (x->layout == BW_ACT_F32)
        return x_row(x, t);
    return (const char *)x->data + t * x->dims[1];
}

/* Element i of an activation row in any form. */
static double act_element(const bw_tensor *x, const void *row, int64_t k, int64_t i)
{
    if (x->layout == BW_ACT_F32)
        return ((const float *)row)[i];
    if (x->layout == BW_ACT_GPU && x->dims[0] > BW_LINEAR_FEW) {
        float scale;
        memcpy(&scale, (const char *)row + 2 * k, sizeof scale);
        return (double)bw_f16_to_f32(((const uint16_t *)row)[i]) * scale;
    }
    bw_act_q8 q = bw_act_q8_view(row, k);
    return (double)q.d[i / 32] * q.q[i];
}

enum { PIECE = 1024 }; /* elements decoded at a time: a multiple of every block */

/* Elements [begin, begin + n) of row `row` of w as f32; begin a multiple of PIECE. */
static void decode_piece(const bw_tensor *w, int64_t row, int64_t begin, int64_t n, float *dst)
{
    bw_planes planes;
    if (w->layout == BW_LAYOUT_PLANES && bw_planes_init(&planes, w->dtype, w->dims[1])) {
        const uint8_t *at = (const uint8_t *)w->data + row * planes.row_bytes;
        bw_planes_decode(&planes, w->dtype, w->dims[1], at, begin, n, dst);
        return;
    }
    bw_tensor part = *w;
    int64_t group = w->layout ? row / BW_GROUP : 0;
    size_t row_bytes = (size_t)bw_dtype_bytes(w->dtype, w->dims[1]);
    size_t skip = (size_t)bw_dtype_bytes(w->dtype, begin);
    part.dims[1] = n;
    if (w->layout) {
        part.data = (char *)w->data + (size_t)group * BW_GROUP * row_bytes + BW_GROUP * skip;
        bw_linear_decode_row(&part, row - group * BW_GROUP, dst);
    } else {
        part.data = (char *)w->data + skip;
        bw_linear_decode_row(&part, row, dst);
    }
}

void bw_op_linear_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0], *w = call->in[1], *bias = call->n_in > 2 ? call->in[2] : NULL;
    const bw_tensor *y = call->out[0];
    int64_t k = w->dims[1];
    float piece[PIECE];
    for (int64_t n = 0; n < w->dims[0]; n++) {
        for (int64_t t = 0; t < x->dims[0]; t++) {
            double sum = bias ? ((const float *)bias->data)[n] : 0;
            const void *row = act_row(x, t);
            for (int64_t begin = 0; begin < k; begin += PIECE) {
                int64_t count = k - begin < PIECE ? k - begin : PIECE;
                if (t == 0 || k > PIECE)
                    decode_piece(w, n, begin, count, piece);
                for (int64_t i = 0; i < count; i++)
                    sum += (double)piece[i] * act_element(x, row, k, begin + i);
            }
            ((float *)y->data)[t * y->strides[0] + n] = (float)sum;
        }
    }
}

/* ---- any type, any processor ------------------------------------------------------------------------------------ */

/* Member's scratch: one decoded weight row and one decoded activation row. */
size_t bw_op_linear_plain_scratch(const bw_op_call *call)
{
    return 2 * sizeof(float) * (size_t)call->in[1]->dims[1];
}

/* 16 partial sums, which the compiler keeps in vectors. */
static float dot(const float *a, const float *b, int64_t k)
{
    float part[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= k; i += 16)
        for (int j = 0; j < 16; j++)
            part[j] += a[i + j] * b[i + j];
    for (int width = 8; width; width /= 2)
        for (int j = 0; j < width; j++)
            part[j] += part[j + width];
    for (; i < k; i++)
        sum += a[i] * b[i];
    return part[0] + sum;
}

void bw_op_linear_plain(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0], *w = call->in[1], *bias = call->n_in > 2 ? call->in[2] : NULL;
    const bw_tensor *y = call->out[0];
    int64_t n = w->dims[0], k = w->dims[1], begin, end;
    float *w_row = bw_op_member_scratch(call, member), *x_plain = w_row + k;
    int64_t chunk = n / ((int64_t)member->size * 8) + 1;
    while (bw_team_take(call->next, n, chunk, &begin, &end)) {
        for (int64_t i = begin; i < end; i++) {
            bw_linear_decode_row(w, i, w_row);
            for (int64_t t = 0; t < x->dims[0]; t++) {
                const float *row = act_row(x, t);
                if (x->layout != BW_ACT_F32) {
                    bw_act_decode_row(x->layout, x->dims[0], row, x_plain, k);
                    row = x_plain;
                }
                float sum = dot(w_row, row, k) + (bias ? ((const float *)bias->data)[i] : 0.0f);
                ((float *)y->data)[t * y->strides[0] + i] = sum;
            }
        }
    }
}
