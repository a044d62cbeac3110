/* The family's kernels for any type of blocks: these are decoded (bw_decode_row) where they are used, the arithmetic
 * around that is in f32 vectors. */
#include "bw_each.h"
#include "quantized.h"

bw_op_kernel BW_LEVEL(bw_dequantize), BW_LEVEL(bw_quantize_q8_1), BW_LEVEL(bw_dequantize_mul_mat_vec);
bw_op_kernel BW_LEVEL(bw_quant_mul);

void BW_LEVEL(bw_dequantize)(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    bw_rows from, to;
    bw_rows_init(&from, x);
    bw_rows_init(&to, y);
    int64_t step = y->strides[y->n_dims - 1], size = bw_dtype_block_bytes(y->dtype);
    int64_t per_row = (from.n_columns + BW_QUANT_MOST - 1) / BW_QUANT_MOST, begin, end;
    if (!bw_op_my_share(member, from.n_rows * per_row, BW_QUANT_MOST, 4096, &begin, &end))
        return;
    float values[BW_QUANT_MOST];
    for (int64_t c = begin; c < end; c++) {
        int64_t r = c / per_row, i = c % per_row * BW_QUANT_MOST;
        int64_t n = from.n_columns - i < BW_QUANT_MOST ? from.n_columns - i : BW_QUANT_MOST;
        const char *src = (const char *)x->data + bw_quant_bytes(x->dtype, bw_rows_offset(&from, r) + i);
        char *dst = (char *)y->data + (bw_rows_offset(&to, r) + i * step) * size;
        if (y->dtype == BW_F32 && step == 1) {
            bw_decode_row(x->dtype, src, (float *)(void *)dst, n, NULL);
        } else {
            bw_decode_row(x->dtype, src, values, n, NULL);
            bw_each_store(y->dtype, dst, step, values, n);
        }
    }
}

/* The nearest integer to v, halves away from zero, from -127 to 127; NaN to 0. */
BW_INLINE vf q8_1_round(vf v)
{
    const vf most = vf_set1(127), half = vf_set1(0x1.fffffep-2f); /* the largest float below one half */
    vf a = vf_abs(v);
    vf low = vf_select_less(most, a, most, a), even = vf_round(low);
    vf away = vf_select_less(half, vf_sub(low, even), vf_add(even, vf_set1(1)), even);
    return vf_copysign(vf_select_less(low, vf_set1(128), away, vf_set1(0)), v);
}

/* bw_quantize_block_q8_1 of 32 values. */
BW_INLINE void q8_1_block(const float *x, uint8_t *dst)
{
    float sums[16];
    vf most = vf_set1(0);
    for (int i = 0; i < 16; i += VF_N) {
        vf low = vf_load(x + i), high = vf_load(x + i + 16), a = vf_abs(low), b = vf_abs(high);
        most = vf_select_less(most, a, a, most); /* NaN does not count */
        most = vf_select_less(most, b, b, most);
        vf_store(sums + i, vf_add(low, high));
    }
    for (int half = 8; half > 0; half /= 2) {
        int i = 0;
        for (; i + VF_N <= half; i += VF_N)
            vf_store(sums + i, vf_add(vf_load(sums + i), vf_load(sums + i + half)));
        for (; i < half; i++)
            sums[i] += sums[i + half];
    }
    float d = vf_max_lane(most) / 127.0f;
    if (d > 0)
        for (int i = 0; i < 32; i += VF_N)
            vf_store_i8((int8_t *)dst + 4 + i, q8_1_round(vf_div(vf_load(x + i), vf_set1(d))));
    else
        memset(dst + 4, 0, 32);
    uint16_t halves[2] = {bw_f32_to_f16(d), bw_f32_to_f16(sums[0] == sums[0] ? sums[0] : NAN)};
    for (int i = 0; i < 2; i++) {
        dst[2 * i] = (uint8_t)halves[i];
        dst[2 * i + 1] = (uint8_t)(halves[i] >> 8);
    }
}

void BW_LEVEL(bw_quantize_q8_1)(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    bw_rows from, to;
    bw_rows_init(&from, x);
    bw_rows_init(&to, y);
    int64_t per_row = to.n_columns / 32, begin, end;
    if (!bw_op_my_share(member, to.n_rows * per_row, 32, 4096, &begin, &end))
        return;
    for (int64_t b = begin; b < end; b++) {
        int64_t r = b / per_row, i = b % per_row * 32, left = from.n_columns - i;
        uint8_t *dst = (uint8_t *)y->data + bw_quant_bytes(BW_Q8_1, bw_rows_offset(&to, r) + i);
        const float *src = (const float *)x->data + bw_rows_offset(&from, r);
        if (left >= 32)
            q8_1_block(src + i, dst);
        else if (left > 0)
            bw_quantize_block_q8_1(src + i, left, dst);
        else
            memset(dst, 0, 36);
    }
}

void BW_LEVEL(bw_dequantize_mul_mat_vec)(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *w = call->in[0];
    const float *x = call->in[1]->data;
    float *y = call->out[0]->data, values[BW_QUANT_MOST];
    int64_t k = w->dims[1], begin, end;
    if (!bw_op_my_share(member, w->dims[0], k ? k : 1, 4096, &begin, &end))
        return;
    for (int64_t n = begin; n < end; n++) {
        const char *row = (const char *)w->data + bw_quant_bytes(w->dtype, n * w->strides[0]);
        vf sum = vf_set1(0), sum2 = sum;
        for (int64_t i = 0; i < k; i += BW_QUANT_MOST) {
            int64_t m = k - i < BW_QUANT_MOST ? k - i : BW_QUANT_MOST;
            bw_decode_row(w->dtype, row + bw_quant_bytes(w->dtype, i), values, m, NULL);
            for (int64_t j = 0; j < m; j += 2 * VF_N) { /* blocks are of 32 at least */
                sum = vf_fma(vf_load(values + j), vf_load(x + i + j), sum);
                sum2 = vf_fma(vf_load(values + j + VF_N), vf_load(x + i + j + VF_N), sum2);
            }
        }
        y[n] = vf_sum(vf_add(sum, sum2));
    }
}

/* A decoded row [k] times a row of q8_1 blocks. */
BW_INLINE float row_dot(const float *w, const uint8_t *x, int64_t k)
{
    vf sum = vf_set1(0);
    for (int64_t i = 0; i < k; i += 32, x += 36) {
        vf part = vf_set1(0);
        for (int j = 0; j < 32; j += VF_N)
            part = vf_fma(vf_load(w + i + j), vf_load_i8((const int8_t *)x + 4 + j), part);
        sum = vf_fma(part, vf_set1(bw_f16_to_f32((uint16_t)(x[0] | x[1] << 8))), sum);
    }
    return vf_sum(sum);
}

BW_INLINE void mul_rows(const bw_quant_job *job, const bw_quant_task *task, int64_t row, int64_t n_rows, void *scratch)
{
    float *w = scratch; /* [k] */
    for (int64_t n = row; n < row + n_rows; n++) {
        bw_decode_row(job->dtype, task->w + n * job->w_row, w, job->k, NULL);
        for (int64_t t = 0; t < job->n_columns; t++)
            task->y[t * job->y_row + n] = row_dot(w, task->x + t * job->x_row, job->k);
    }
}

void BW_LEVEL(bw_quant_mul)(const bw_op_call *call, bw_member *member)
{
    bw_quant_job_run(call, member, mul_rows);
}
