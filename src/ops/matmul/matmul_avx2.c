/* QUANTISE_ACT and MATMUL with AVX2: 16 rows of a packed weight at a time, rows in the vector's lanes, activations
 * broadcast, so no sum across lanes is ever needed. Integer products are exact. */
#include <math.h>

#include "matmul_avx2.h"

bool bw_op_quantise_act_avx2_supports(const bw_op_call *call, const bw_cpu_features *cpu);
void bw_op_quantise_act_avx2(const bw_op_call *call, bw_member *member);
bool bw_op_matmul_avx2_supports(const bw_op_call *call, const bw_cpu_features *cpu);
void bw_op_matmul_avx2(const bw_op_call *call, bw_member *member);

/* ---- QUANTISE_ACT ----------------------------------------------------------------------------------------------- */

bool bw_op_quantise_act_avx2_supports(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return cpu->avx2 && call->out[0]->layout == BW_ACT_Q8;
}

BW_INLINE int32_t sum_epi32(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

BW_INLINE float max_ps(__m256 v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

/* As bw_act_q8_blocks. */
static void quantise_blocks(const float *x, char *row, int64_t k, int64_t begin, int64_t end)
{
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    float *d_out = (float *)(void *)(row + k), *s_out = (float *)(void *)(row + k + k / 8);
    int16_t *sum16 = (int16_t *)(void *)(row + k + k / 4);
    for (int64_t b = begin; b < end; b++) {
        __m256 v[4], max = _mm256_setzero_ps(), bad = _mm256_setzero_ps();
        __m256i q[4];
        for (int i = 0; i < 4; i++) {
            v[i] = _mm256_loadu_ps(x + 32 * b + 8 * i);
            __m256 a = _mm256_and_ps(v[i], magnitude);
            max = _mm256_max_ps(max, a);
            bad = _mm256_add_ps(bad, _mm256_sub_ps(a, a)); /* NaN when v is NaN or infinite */
        }
        float m = max_ps(max), d = m < 1e-30f ? 0.0f : m / 127.0f, inverse = m < 1e-30f ? 0.0f : 127.0f / m;
        if (_mm256_movemask_ps(_mm256_cmp_ps(bad, bad, _CMP_UNORD_Q))) {
            d = NAN;
            for (int i = 0; i < 4; i++)
                v[i] = _mm256_setzero_ps();
            inverse = 0;
        }
        for (int i = 0; i < 4; i++)
            q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(inverse)));
        int32_t s0 = sum_epi32(_mm256_add_epi32(q[0], q[1])), s1 = sum_epi32(_mm256_add_epi32(q[2], q[3]));
        __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        _mm256_storeu_si256((__m256i *)(void *)(row + 32 * b), _mm256_permutevar8x32_epi32(packed, order));
        d_out[b] = d;
        s_out[b] = d * (float)(s0 + s1);
        sum16[2 * b] = (int16_t)s0;
        sum16[2 * b + 1] = (int16_t)s1;
    }
}

void bw_op_quantise_act_avx2(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    int64_t begin, end, k = x->dims[1], n_blocks = k / 32;
    bw_team_split(member, x->dims[0] * n_blocks, 8, &begin, &end);
    while (begin < end) {
        int64_t t = begin / n_blocks, b = begin % n_blocks, stop = n_blocks;
        if (end - begin < stop - b)
            stop = b + end - begin;
        quantise_blocks((const float *)x->data + t * x->strides[0], (char *)y->data + t * y->dims[1], k, b, stop);
        begin += stop - b;
    }
}

/* ---- MATMUL with 8-bit activations ------------------------------------------------------------------------------ */

/* Low and high nibbles of the same bytes in turn. */
#define NIBBLES(j) (j / 2 + j % 2 * 4)
#define IN_ORDER(j) (j)

#define NAME q4_0
#define SUBS 1
#define UNROLL 1
#define BLOCK_BYTES (BW_GROUP * 18)
#define RUN RUN_U4
#define STEP NIBBLES
#include "matmul_avx2.inc"

#define NAME q4_1
#define SUBS 1
#define UNROLL 1
#define BLOCK_BYTES (BW_GROUP * 20)
#define RUN RUN_U4
#define STEP NIBBLES
#include "matmul_avx2.inc"

#define NAME q5_0
#define SUBS 1
#define UNROLL 1
#define BLOCK_BYTES (BW_GROUP * 22)
#define RUN RUN_U5
#define STEP NIBBLES
#include "matmul_avx2.inc"

#define NAME q5_1
#define SUBS 1
#define UNROLL 1
#define BLOCK_BYTES (BW_GROUP * 24)
#define RUN RUN_U5
#define STEP NIBBLES
#include "matmul_avx2.inc"

#define NAME q8_0
#define SUBS 1
#define UNROLL 1
#define BLOCK_BYTES (BW_GROUP * 34)
#define RUN RUN_S8
#define STEP IN_ORDER
#include "matmul_avx2.inc"

#define NAME iq4_nl
#define SUBS 1
#define UNROLL 1
#define BLOCK_BYTES (BW_GROUP * 18)
#define RUN RUN_S8
#define STEP NIBBLES
#include "matmul_avx2.inc"

#define NAME mxfp4
#define SUBS 1
#define UNROLL 1
#define BLOCK_BYTES (BW_GROUP * 17)
#define RUN RUN_U5
#define STEP NIBBLES
#include "matmul_avx2.inc"

#define NAME q4_k
#define SUBS 8
#define UNROLL 2
#define BLOCK_BYTES (BW_GROUP * 144)
#define RUN RUN_U4
#define STEP IN_ORDER
#include "matmul_avx2.inc"

#define NAME q5_k
#define SUBS 8
#define UNROLL 2
#define BLOCK_BYTES (BW_GROUP * 176)
#define RUN RUN_U5
#define STEP IN_ORDER
#include "matmul_avx2.inc"

#define NAME iq4_xs
#define SUBS 8
#define UNROLL 1
#define BLOCK_BYTES (BW_GROUP * 136)
#define RUN RUN_S8
#define STEP NIBBLES
#include "matmul_avx2.inc"

#define NAME q2_k
#define SUBS 8
#define UNROLL 4
#define BLOCK_BYTES (BW_GROUP * 84)
#define RUN RUN_U4_HALF
#define STEP IN_ORDER
#include "matmul_avx2.inc"

#define NAME q3_k
#define SUBS 8
#define UNROLL 4
#define BLOCK_BYTES (BW_GROUP * 110)
#define RUN RUN_U4_HALF
#define STEP IN_ORDER
#include "matmul_avx2.inc"

#define NAME q6_k
#define SUBS 8
#define UNROLL 4
#define BLOCK_BYTES (BW_GROUP * 210)
#define RUN RUN_U6
#define STEP IN_ORDER
#include "matmul_avx2.inc"

/* out f32 [m, 16]: one group of 16 rows times m activation rows, 1 <= m <= 4. */
typedef void group_fn(const uint8_t *w, int64_t n_blocks, const bw_act_q8 *x, int m, float *out);

static group_fn *const group_fns[BW_DTYPE_COUNT] = {
    [BW_Q4_0] = q4_0_group, [BW_Q4_1] = q4_1_group,     [BW_Q5_0] = q5_0_group,   [BW_Q5_1] = q5_1_group,
    [BW_Q8_0] = q8_0_group, [BW_IQ4_NL] = iq4_nl_group, [BW_MXFP4] = mxfp4_group, [BW_Q4_K] = q4_k_group,
    [BW_Q5_K] = q5_k_group, [BW_IQ4_XS] = iq4_xs_group, [BW_Q2_K] = q2_k_group,   [BW_Q3_K] = q3_k_group,
    [BW_Q6_K] = q6_k_group,
};

/* Write up to 16 columns of m rows. */
static void store_tile(const bw_tensor *y, const bw_tensor *bias, int64_t t, int m, int64_t row, const float *tile)
{
    int64_t n = y->dims[1] - row < BW_GROUP ? y->dims[1] - row : BW_GROUP;
    const float *b = bias ? (const float *)bias->data + row : NULL;
    for (int i = 0; i < m; i++) {
        float *out = (float *)y->data + (t + i) * y->strides[0] + row;
        for (int64_t j = 0; j < n; j++)
            out[j] = tile[16 * i + j] + (b ? b[j] : 0.0f);
    }
}

static void matmul_q8(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0], *w = call->in[1], *bias = call->n_in > 2 ? call->in[2] : NULL;
    const bw_tensor *y = call->out[0];
    int64_t n_groups = (w->dims[0] + BW_GROUP - 1) / BW_GROUP, k = w->dims[1], n_tokens = x->dims[0], begin, end;
    int64_t n_blocks = k / bw_dtype_block_elements(w->dtype);
    size_t group_bytes = BW_GROUP * (size_t)bw_dtype_bytes(w->dtype, k);
    group_fn *group = group_fns[w->dtype];
    int64_t chunk = n_groups / ((int64_t)member->size * 8);
    chunk = chunk < 1 ? 1 : chunk > 16 ? 16 : chunk;
    while (bw_team_take(call->next, n_groups, chunk, &begin, &end))
        for (int64_t g = begin; g < end; g++)
            for (int64_t t = 0; t < n_tokens; t += 4) {
                int m = n_tokens - t < 4 ? (int)(n_tokens - t) : 4;
                bw_act_q8 rows[4];
                float tile[4 * BW_GROUP];
                for (int i = 0; i < m; i++)
                    rows[i] = bw_act_q8_view((const char *)x->data + (t + i) * x->dims[1], k);
                group((const uint8_t *)w->data + (size_t)g * group_bytes, n_blocks, rows, m, tile);
                store_tile(y, bias, t, m, g * BW_GROUP, tile);
            }
}

/* ---- MATMUL with f32 activations -------------------------------------------------------------------------------- */

/* acc += 16 rows of w, f32 [k, 16], times m rows of x. */
BW_INLINE void f32_tile(const float *w, int64_t k, const float *const *x, int m, __m256 acc[4][2])
{
    for (int t = 0; t < m; t++)
        acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (int64_t i = 0; i < k; i++, w += BW_GROUP) {
        __m256 w0 = _mm256_loadu_ps(w), w1 = _mm256_loadu_ps(w + 8);
        for (int t = 0; t < m; t++) {
            __m256 v = _mm256_broadcast_ss(x[t] + i);
            acc[t][0] = _mm256_fmadd_ps(w0, v, acc[t][0]);
            acc[t][1] = _mm256_fmadd_ps(w1, v, acc[t][1]);
        }
    }
}

static void f32_group(const float *w, int64_t k, const float *const *x, int m, float *out)
{
    __m256 acc[4][2];
    if (m == 1)
        f32_tile(w, k, x, 1, acc);
    else if (m == 2)
        f32_tile(w, k, x, 2, acc);
    else if (m == 3)
        f32_tile(w, k, x, 3, acc);
    else
        f32_tile(w, k, x, 4, acc);
    for (int t = 0; t < m; t++) {
        _mm256_storeu_ps(out + 16 * t, acc[t][0]);
        _mm256_storeu_ps(out + 16 * t + 8, acc[t][1]);
    }
}

static void matmul_f32(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0], *w = call->in[1], *bias = call->n_in > 2 ? call->in[2] : NULL;
    const bw_tensor *y = call->out[0];
    int64_t n_groups = (w->dims[0] + BW_GROUP - 1) / BW_GROUP, k = w->dims[1], n_tokens = x->dims[0], begin, end;
    int64_t chunk = n_groups / ((int64_t)member->size * 8);
    chunk = chunk < 1 ? 1 : chunk > 16 ? 16 : chunk;
    while (bw_team_take(call->next, n_groups, chunk, &begin, &end))
        for (int64_t g = begin; g < end; g++)
            for (int64_t t = 0; t < n_tokens; t += 4) {
                int m = n_tokens - t < 4 ? (int)(n_tokens - t) : 4;
                const float *rows[4];
                float tile[4 * BW_GROUP];
                for (int i = 0; i < m; i++)
                    rows[i] = (const float *)x->data + (t + i) * x->strides[0];
                f32_group((const float *)w->data + g * BW_GROUP * k, k, rows, m, tile);
                store_tile(y, bias, t, m, g * BW_GROUP, tile);
            }
}

bool bw_op_matmul_avx2_supports(const bw_op_call *call, const bw_cpu_features *cpu)
{
    const bw_tensor *x = call->in[0], *w = call->in[1];
    if (!cpu->avx2 || w->layout != BW_LAYOUT_ROWS16)
        return false;
    if (w->dtype == BW_F32)
        return x->layout == BW_ACT_F32;
    return x->layout == BW_ACT_Q8 && group_fns[w->dtype];
}

void bw_op_matmul_avx2(const bw_op_call *call, bw_member *member)
{
    if (call->in[0]->layout == BW_ACT_Q8)
        matmul_q8(call, member);
    else
        matmul_f32(call, member);
}
