/* QUANTISE_ACT and LINEAR with AVX2: 16 rows of a packed weight at a time, rows in the vector's lanes, activations
 * broadcast, so no sum across lanes is ever needed. Integer products are exact. */
#include <math.h>

#include "linear_avx2.h"
#include "linear_levels.h"

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
        if (BW_ACT_SCALE_IS_NORMAL(d))
            d = _cvtsh_ss(_cvtss_sh(d, 0));
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

/* ---- LINEAR with 8-bit activations ------------------------------------------------------------------------------ */

#define TEMPLATE "linear_avx2.inc"
#include "linear_types.inc"

typedef struct type_fns {
    bw_group_fn *group;
    void (*unpack)(const uint8_t *w, int64_t n_blocks, uint8_t *quants, void *states);
    void (*rows)(const uint8_t *quants, const void *states, int64_t n_blocks, const bw_act_q8 *x, int m, float *out);
    size_t state_bytes; /* of a block of 16 rows */
} type_fns;

#define ROW(NAME, name) [BW_##NAME] = {name##_group, name##_unpack, name##_rows, 2 * sizeof(name##_state)},
static const type_fns fns[BW_DTYPE_COUNT] = {BW_PACKED_TYPES(ROW)};
#undef ROW

/* From this many activation rows on, a group is unpacked first; measured to pay (by a tenth to a half) for the types
 * with blocks of 256 alone. */
enum { UNPACK_TOKENS = 12 };
static bool is_unpacked(const bw_op_call *call)
{
    return call->in[0]->layout == BW_ACT_Q8 && call->in[0]->dims[0] >= UNPACK_TOKENS &&
           bw_dtype_block_elements(call->in[1]->dtype) == 256;
}

/* Scratch: 16 * K quants, then the states. */
size_t bw_op_linear_avx2_scratch(const bw_op_call *call)
{
    const bw_tensor *w = call->in[1];
    if (!is_unpacked(call))
        return 0;
    size_t k = (size_t)w->dims[1], n_blocks = k / (size_t)bw_dtype_block_elements(w->dtype);
    return BW_GROUP * k + n_blocks * fns[w->dtype].state_bytes;
}

/* Many activation rows: every group once unpacked for each block of them. */
static void linear_unpacked(const bw_op_call *call, bw_member *member)
{
    bw_drive d = bw_drive_begin(call, member);
    const type_fns *f = &fns[d.w->dtype];
    uint8_t *quants = bw_op_member_scratch(call, member);
    void *states = quants + BW_GROUP * (size_t)d.k;
    int64_t begin, end;
    while (bw_drive_take(call, &d, &begin, &end))
        for (int64_t i = begin; i < end; i++) {
            int64_t g = i % d.n_groups, t = i / d.n_groups * d.block_tokens, stop = t + d.block_tokens;
            stop = stop < d.n_tokens ? stop : d.n_tokens;
            f->unpack((const uint8_t *)d.w->data + (size_t)g * d.group_bytes, d.n_blocks, quants, states);
            for (; t < stop; t += 4) {
                int m = stop - t < 4 ? (int)(stop - t) : 4;
                float tile[4 * BW_GROUP];
                bw_act_q8 rows[4];
                for (int j = 0; j < m; j++)
                    rows[j] = bw_act_q8_view(bw_drive_row(&d, t + j), d.k);
                f->rows(quants, states, d.n_blocks, rows, m, tile);
                bw_store_tile(&d, t, m, g * BW_GROUP, tile);
            }
        }
}

/* ---- LINEAR with f32 activations -------------------------------------------------------------------------------- */

BW_INLINE __m256 load_f32_at(const void *w, int64_t i)
{
    return _mm256_loadu_ps((const float *)w + i);
}
BW_INLINE __m256 load_f16_at(const void *w, int64_t i)
{
    return load_f16((const uint8_t *)w + 2 * i);
}
BW_INLINE __m256 load_bf16_at(const void *w, int64_t i)
{
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)((const uint8_t *)w + 2 * i));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}

/* 16 rows of w [k, 16] times m rows of x. */
#define FLOAT_GROUP(name)                                                                                              \
    BW_INLINE void name##_tile(const void *w, int64_t k, const float *const *x, int m, float *out)                     \
    {                                                                                                                  \
        __m256 acc[4][2];                                                                                              \
        for (int t = 0; t < m; t++)                                                                                    \
            acc[t][0] = acc[t][1] = _mm256_setzero_ps();                                                               \
        for (int64_t i = 0; i < k; i++) {                                                                              \
            __m256 w0 = load_##name##_at(w, BW_GROUP * i), w1 = load_##name##_at(w, BW_GROUP * i + 8);                 \
            BW_UNROLL for (int t = 0; t < m; t++)                                                                      \
            {                                                                                                          \
                __m256 v = bcast_f32(x[t][i]);                                                                         \
                acc[t][0] = _mm256_fmadd_ps(w0, v, acc[t][0]);                                                         \
                acc[t][1] = _mm256_fmadd_ps(w1, v, acc[t][1]);                                                         \
            }                                                                                                          \
        }                                                                                                              \
        for (int t = 0; t < m; t++) {                                                                                  \
            _mm256_storeu_ps(out + 16 * t, acc[t][0]);                                                                 \
            _mm256_storeu_ps(out + 16 * t + 8, acc[t][1]);                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void name##_group(const void *w, int64_t k, const float *const *x, int m, float *out)                       \
    {                                                                                                                  \
        if (m == 1)                                                                                                    \
            name##_tile(w, k, x, 1, out);                                                                              \
        else if (m == 2)                                                                                               \
            name##_tile(w, k, x, 2, out);                                                                              \
        else if (m == 3)                                                                                               \
            name##_tile(w, k, x, 3, out);                                                                              \
        else                                                                                                           \
            name##_tile(w, k, x, 4, out);                                                                              \
    }
FLOAT_GROUP(f32)
FLOAT_GROUP(f16)
FLOAT_GROUP(bf16)

static bw_float_group_fn *const float_fns[BW_DTYPE_COUNT] = {
    [BW_F32] = f32_group, [BW_F16] = f16_group, [BW_BF16] = bf16_group};

bool bw_op_linear_avx2_supports(const bw_op_call *call, const bw_cpu_features *cpu)
{
    const bw_tensor *x = call->in[0], *w = call->in[1];
    if (!cpu->avx2 || w->layout != BW_LAYOUT_ROWS16)
        return false;
    return x->layout == BW_ACT_Q8 ? fns[w->dtype].group != NULL : float_fns[w->dtype] != NULL;
}

void bw_op_linear_avx2(const bw_op_call *call, bw_member *member)
{
    bw_dtype dtype = call->in[1]->dtype;
    if (is_unpacked(call))
        linear_unpacked(call, member);
    else if (call->in[0]->layout == BW_ACT_Q8)
        bw_drive_q8(call, member, fns[dtype].group, 4);
    else
        bw_drive_float(call, member, float_fns[dtype], 4);
}
