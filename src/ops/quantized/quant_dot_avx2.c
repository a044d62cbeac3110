/* Integer products of quantised rows with q8_1 columns, and values of blocks, in AVX2. Levels are multiplied and summed
 * as integers within halves of a group of 32, scales are applied in f32. Weights of -128 to 127 and columns of -127 to
 * 127: a pair of products is at most 32512, which 16 bits hold. Columns with a -128 among them, which QUANTIZE_Q8_1
 * never makes, are multiplied in 16 bits. */
#define BW_VEC_AVX2
#include "bw_each.h"
#include "quant_unpack_avx2.h"

bw_op_kernel bw_quant_dot_avx2, bw_dequantize_blocks_avx2, bw_dequantize_mul_mat_vec_blocks_avx2;

/* d[0] in the lower half, d[1] in the upper. */
BW_INLINE __m256 halves(const float *d)
{
    return _mm256_blend_ps(_mm256_broadcast_ss(d), _mm256_broadcast_ss(d + 1), 0xf0);
}

/* Sums of four products each, those of the first 16 in the lower half. */
BW_INLINE __m256i products_wide(__m256i w, __m256i q)
{
    __m256i low = _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(w)),
                                    _mm256_cvtepi8_epi16(_mm256_castsi256_si128(q)));
    __m256i high = _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm256_extracti128_si256(w, 1)),
                                     _mm256_cvtepi8_epi16(_mm256_extracti128_si256(q, 1)));
    return _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
}

/* n_r rows, `stride` groups apart, times n_c columns, x_row bytes apart; sums[c * BW_QUANT_ROWS + r]. is_wide: a column
 * may hold -128. n_r, n_c, has_min and is_wide are constants where it is called. */
BW_INLINE void dot_tile(int n_r, int n_c, bool has_min, bool is_wide, const bw_quant_group *g, int64_t stride,
                        int64_t n_groups, const uint8_t *x, int64_t x_row, float *sums)
{
    const __m256i ones16 = _mm256_set1_epi16(1), ones8 = _mm256_set1_epi8(1);
    __m256 acc[16];
    BW_UNROLL for (int i = 0; i < n_r * n_c; i++) acc[i] = _mm256_setzero_ps();
    for (int64_t i = 0; i < n_groups; i++, g++, x += 36) {
        __m256i w[4], size[4];
        __m256 d[4];
        BW_UNROLL for (int r = 0; r < n_r; r++)
        {
            w[r] = unpack_load((const uint8_t *)g[r * stride].q);
            size[r] = _mm256_abs_epi8(w[r]);
            d[r] = halves(g[r * stride].d);
        }
        BW_UNROLL for (int c = 0; c < n_c; c++)
        {
            const uint8_t *xc = x + c * x_row;
            const __m256i q = unpack_load(xc + 4);
            const __m256 dx = _mm256_set1_ps(bw_load_f16(xc));
            __m256 q_sum = _mm256_setzero_ps();
            if (has_min)
                q_sum =
                    _mm256_mul_ps(dx, _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_maddubs_epi16(ones8, q), ones16)));
            BW_UNROLL for (int r = 0; r < n_r; r++)
            {
                __m256 *a = &acc[c * n_r + r];
                __m256i p = is_wide
                                ? products_wide(w[r], q)
                                : _mm256_madd_epi16(_mm256_maddubs_epi16(size[r], _mm256_sign_epi8(q, w[r])), ones16);
                *a = _mm256_fmadd_ps(_mm256_cvtepi32_ps(p), _mm256_mul_ps(d[r], dx), *a);
                if (has_min)
                    *a = _mm256_fnmadd_ps(q_sum, halves(g[r * stride].m), *a);
            }
        }
    }
    BW_UNROLL for (int c = 0; c < n_c; c++) BW_UNROLL for (int r = 0; r < n_r; r++) sums[c * BW_QUANT_ROWS + r] =
        vf_sum(acc[c * n_r + r]);
}

/* BW_QUANT_ROWS rows times n_c columns (4 or fewer). */
BW_INLINE void dot_rows(bool has_min, bool is_wide, const bw_quant_group *g, int64_t n_groups, const uint8_t *x,
                        int64_t x_row, int64_t n_c, float *sums)
{
    if (n_c == 4) {
        dot_tile(2, 4, has_min, is_wide, g, n_groups, n_groups, x, x_row, sums);
        dot_tile(2, 4, has_min, is_wide, g + 2 * n_groups, n_groups, n_groups, x, x_row, sums + 2);
        return;
    }
    for (int64_t c = 0; c < n_c; c++)
        dot_tile(4, 1, has_min, is_wide, g, n_groups, n_groups, x + c * x_row, x_row, sums + c * BW_QUANT_ROWS);
}

static bool has_min(bw_dtype dtype)
{
    return dtype == BW_Q4_1 || dtype == BW_Q5_1 || dtype == BW_Q2_K || dtype == BW_Q4_K || dtype == BW_Q5_K;
}

static bool holds_least(const bw_quant_job *job, const uint8_t *x)
{
    const __m256i least = _mm256_set1_epi8(-128);
    for (int64_t t = 0; t < job->n_columns; t++) {
        __m256i found = _mm256_setzero_si256();
        for (int64_t i = 0; i < job->k / 32; i++)
            found = _mm256_or_si256(found, _mm256_cmpeq_epi8(unpack_load(x + t * job->x_row + i * 36 + 4), least));
        if (_mm256_movemask_epi8(found))
            return true;
    }
    return false;
}

/* As dot_rows for any type and columns. */
static void dot_any(bool has_min, bool is_wide, const bw_quant_group *g, int64_t n_groups, const uint8_t *x,
                    int64_t x_row, int64_t n_c, float *sums)
{
    if (has_min && is_wide)
        dot_rows(true, true, g, n_groups, x, x_row, n_c, sums);
    else if (has_min)
        dot_rows(true, false, g, n_groups, x, x_row, n_c, sums);
    else if (is_wide)
        dot_rows(false, true, g, n_groups, x, x_row, n_c, sums);
    else
        dot_rows(false, false, g, n_groups, x, x_row, n_c, sums);
}

static void rows_dot(const bw_quant_job *job, const bw_quant_task *task, int64_t row, int64_t n_rows, void *scratch)
{
    bw_quant_group *groups = scratch; /* [BW_QUANT_ROWS, k / 32] */
    int64_t n_groups = job->k / 32;
    bool is_wide = holds_least(job, task->x);
    for (int64_t n = row; n < row + n_rows; n += BW_QUANT_ROWS) {
        int64_t n_here = row + n_rows - n < BW_QUANT_ROWS ? row + n_rows - n : BW_QUANT_ROWS;
        for (int64_t r = 0; r < BW_QUANT_ROWS; r++) /* the last ones may repeat a row */
            unpack_groups(job->dtype, task->w + (n + (r < n_here ? r : 0)) * job->w_row, job->k, groups + r * n_groups);
        for (int64_t t = 0; t < job->n_columns; t += 4) {
            float sums[4 * BW_QUANT_ROWS];
            const uint8_t *x = task->x + t * job->x_row;
            int64_t n_c = job->n_columns - t < 4 ? job->n_columns - t : 4;
            dot_any(has_min(job->dtype), is_wide, groups, n_groups, x, job->x_row, n_c, sums);
            for (int64_t c = 0; c < n_c; c++)
                memcpy(&task->y[(t + c) * job->y_row + n], sums + c * BW_QUANT_ROWS, (size_t)n_here * 4);
        }
    }
}

void bw_quant_dot_avx2(const bw_op_call *call, bw_member *member)
{
    bw_quant_job_run(call, member, rows_dot);
}

/* Values of n_groups groups: multiplied, then subtracted, each rounded. */
BW_INLINE void group_values(const bw_quant_group *g, int64_t n_groups, float *y)
{
    for (int64_t i = 0; i < n_groups; i++, y += 32)
        for (int j = 0; j < 4; j++) {
            vf v = _mm256_mul_ps(vf_set1(g[i].d[j / 2]), vf_load_i8(g[i].q + j * 8));
            vf_store(y + j * 8, _mm256_sub_ps(v, vf_set1(g[i].m[j / 2])));
        }
}

void bw_dequantize_blocks_avx2(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    bw_rows from, to;
    bw_rows_init(&from, x);
    bw_rows_init(&to, y);
    int64_t step = y->strides[y->n_dims - 1], size = bw_dtype_block_bytes(y->dtype);
    int64_t per_row = (from.n_columns + BW_QUANT_MOST - 1) / BW_QUANT_MOST, begin, end;
    if (!bw_op_my_share(member, from.n_rows * per_row, BW_QUANT_MOST, 4096, &begin, &end))
        return;
    bw_quant_group groups[BW_QUANT_MOST / 32];
    float values[BW_QUANT_MOST];
    for (int64_t c = begin; c < end; c++) {
        int64_t r = c / per_row, i = c % per_row * BW_QUANT_MOST;
        int64_t n = from.n_columns - i < BW_QUANT_MOST ? from.n_columns - i : BW_QUANT_MOST;
        const uint8_t *src = (const uint8_t *)x->data + bw_quant_bytes(x->dtype, bw_rows_offset(&from, r) + i);
        char *dst = (char *)y->data + (bw_rows_offset(&to, r) + i * step) * size;
        bool is_direct = y->dtype == BW_F32 && step == 1;
        unpack_groups(x->dtype, src, n, groups);
        group_values(groups, n / 32, is_direct ? (float *)(void *)dst : values);
        if (!is_direct)
            bw_each_store(y->dtype, dst, step, values, n);
    }
}

/* Groups times f32 values, in four sums. */
BW_INLINE void dot_values(const bw_quant_group *g, int64_t n_groups, const float *x, __m256 acc[4])
{
    for (int64_t i = 0; i < n_groups; i++, x += 32)
        BW_UNROLL for (int j = 0; j < 4; j++)
        {
            vf w = _mm256_mul_ps(vf_set1(g[i].d[j / 2]), vf_load_i8(g[i].q + j * 8));
            acc[j] = _mm256_fmadd_ps(_mm256_sub_ps(w, vf_set1(g[i].m[j / 2])), vf_load(x + j * 8), acc[j]);
        }
}

void bw_dequantize_mul_mat_vec_blocks_avx2(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *w = call->in[0];
    const float *x = call->in[1]->data;
    int64_t k = w->dims[1], begin, end;
    if (!bw_op_my_share(member, w->dims[0], k ? k : 1, 4096, &begin, &end))
        return;
    bw_quant_group groups[BW_QUANT_MOST / 32];
    for (int64_t n = begin; n < end; n++) {
        const uint8_t *row = (const uint8_t *)w->data + bw_quant_bytes(w->dtype, n * w->strides[0]);
        __m256 acc[4];
        BW_UNROLL for (int j = 0; j < 4; j++) acc[j] = _mm256_setzero_ps();
        for (int64_t i = 0; i < k; i += BW_QUANT_MOST) {
            int64_t m = k - i < BW_QUANT_MOST ? k - i : BW_QUANT_MOST;
            unpack_groups(w->dtype, row + bw_quant_bytes(w->dtype, i), m, groups);
            dot_values(groups, m / 32, x + i, acc);
        }
        ((float *)call->out[0]->data)[n] = vf_sum(vf_add(vf_add(acc[0], acc[1]), vf_add(acc[2], acc[3])));
    }
}
