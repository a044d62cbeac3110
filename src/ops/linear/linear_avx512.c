/* LINEAR with AVX-512: all 16 rows of a group in one vector. Compiled without VNNI, which not every AVX-512 processor
 * has; byte products stand in linear_avx512vnni.c. */
#include "linear_avx512.h"

#include "linear_levels.h"

BW_INLINE __m512 load_f32_at(const void *w, int64_t i)
{
    return _mm512_loadu_ps((const float *)w + i);
}
BW_INLINE __m512 load_f16_at(const void *w, int64_t i)
{
    return load_f16((const uint8_t *)w + 2 * i);
}
BW_INLINE __m512 load_bf16_at(const void *w, int64_t i)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)((const uint8_t *)w + 2 * i));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}

/* 16 rows of w [k, 16] times m rows of x. */
#define FLOAT_GROUP(name)                                                                                              \
    BW_INLINE void name##_tile(const void *w, int64_t k, const float *const *x, int m, float *out)                     \
    {                                                                                                                  \
        __m512 acc[8];                                                                                                 \
        for (int t = 0; t < m; t++)                                                                                    \
            acc[t] = _mm512_setzero_ps();                                                                              \
        for (int64_t i = 0; i < k; i++) {                                                                              \
            __m512 v = load_##name##_at(w, BW_GROUP * i);                                                              \
            BW_UNROLL for (int t = 0; t < m; t++) acc[t] = _mm512_fmadd_ps(v, _mm512_set1_ps(x[t][i]), acc[t]);        \
        }                                                                                                              \
        for (int t = 0; t < m; t++)                                                                                    \
            _mm512_storeu_ps(out + BW_GROUP * t, acc[t]);                                                              \
    }                                                                                                                  \
    static void name##_group(const void *w, int64_t k, const float *const *x, int m, float *out)                       \
    {                                                                                                                  \
        if (m == 8) {                                                                                                  \
            name##_tile(w, k, x, 8, out);                                                                              \
            return;                                                                                                    \
        }                                                                                                              \
        if (m >= 4) {                                                                                                  \
            name##_tile(w, k, x, 4, out);                                                                              \
            x += 4;                                                                                                    \
            out += 4 * BW_GROUP;                                                                                       \
            m -= 4;                                                                                                    \
        }                                                                                                              \
        if (m == 3)                                                                                                    \
            name##_tile(w, k, x, 3, out);                                                                              \
        else if (m == 2)                                                                                               \
            name##_tile(w, k, x, 2, out);                                                                              \
        else if (m == 1)                                                                                               \
            name##_tile(w, k, x, 1, out);                                                                              \
    }
FLOAT_GROUP(f32)
FLOAT_GROUP(f16)
FLOAT_GROUP(bf16)

static bw_float_group_fn *const float_fns[BW_DTYPE_COUNT] = {
    [BW_F32] = f32_group, [BW_F16] = f16_group, [BW_BF16] = bf16_group};

bool bw_op_linear_avx512_supports(const bw_op_call *call, const bw_cpu_features *cpu)
{
    const bw_tensor *x = call->in[0], *w = call->in[1];
    if (!cpu->avx512 || w->layout != BW_LAYOUT_ROWS16)
        return false;
    if (x->layout == BW_ACT_Q8)
        return cpu->avx512_vnni && bw_linear_avx512_groups[w->dtype];
    return float_fns[w->dtype] != NULL;
}

void bw_op_linear_avx512(const bw_op_call *call, bw_member *member)
{
    bw_dtype dtype = call->in[1]->dtype;
    if (call->in[0]->layout == BW_ACT_Q8)
        bw_drive_q8(call, member, bw_linear_avx512_groups[dtype], 8);
    else
        bw_drive_float(call, member, float_fns[dtype], 8);
}
