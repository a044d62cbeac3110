/* Vector forms that reductions need beyond bw_vec.h (which it includes), per CPU level; and rows of any float type and
 * stride as pieces of f32. */
#ifndef BW_REDUCE_VEC_H
#define BW_REDUCE_VEC_H

#include "bw_each.h"

/* As vf_max: where x is NaN the second operand is taken. */
BW_INLINE vf vf_min(vf a, vf b)
{
#if defined(BW_VEC_AVX512)
    return _mm512_min_ps(a, b);
#elif defined(BW_VEC_AVX2)
    return _mm256_min_ps(a, b);
#else
    return vf_select(a < b, a, b);
#endif
}
BW_INLINE float vf_min_lane(vf v)
{
    return -vf_max_lane(vf_neg(v));
}
/* s + x */
BW_INLINE vd vd_add(vd s, vf x)
{
#if defined(BW_VEC_AVX512)
    return (vd){_mm512_add_pd(s.low, _mm512_cvtps_pd(vf_low(x))), _mm512_add_pd(s.high, _mm512_cvtps_pd(vf_high(x)))};
#elif defined(BW_VEC_AVX2)
    return (vd){_mm256_add_pd(s.low, _mm256_cvtps_pd(_mm256_castps256_ps128(x))),
                _mm256_add_pd(s.high, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)))};
#else
    for (int i = 0; i < VF_N; i++)
        s.lanes[i] += (double)x[i];
    return s;
#endif
}
BW_INLINE vd vd_add_vd(vd a, vd b)
{
#if defined(BW_VEC_AVX512)
    return (vd){_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)};
#elif defined(BW_VEC_AVX2)
    return (vd){_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)};
#else
    for (int i = 0; i < VF_N; i++)
        a.lanes[i] += b.lanes[i];
    return a;
#endif
}
/* d = x - shift in f64; *sum += d, *squares += d^2 */
BW_INLINE void vd_add_moments(vd *sum, vd *squares, vf x, double shift)
{
#if defined(BW_VEC_AVX512)
    const __m512d k = _mm512_set1_pd(shift);
    __m512d a = _mm512_sub_pd(_mm512_cvtps_pd(vf_low(x)), k), b = _mm512_sub_pd(_mm512_cvtps_pd(vf_high(x)), k);
    *sum = (vd){_mm512_add_pd(sum->low, a), _mm512_add_pd(sum->high, b)};
    *squares = (vd){_mm512_fmadd_pd(a, a, squares->low), _mm512_fmadd_pd(b, b, squares->high)};
#elif defined(BW_VEC_AVX2)
    const __m256d k = _mm256_set1_pd(shift);
    __m256d a = _mm256_sub_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(x)), k);
    __m256d b = _mm256_sub_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)), k);
    *sum = (vd){_mm256_add_pd(sum->low, a), _mm256_add_pd(sum->high, b)};
    *squares = (vd){_mm256_fmadd_pd(a, a, squares->low), _mm256_fmadd_pd(b, b, squares->high)};
#else
    for (int i = 0; i < VF_N; i++) {
        double d = (double)x[i] - shift;
        sum->lanes[i] += d;
        squares->lanes[i] += d * d;
    }
#endif
}
/* VF_N f64 at p. */
BW_INLINE vd vd_load(const double *p)
{
    vd v;
    memcpy(&v, p, sizeof v);
    return v;
}
BW_INLINE void vd_store(double *p, vd v)
{
    memcpy(p, &v, sizeof v);
}
/* p[0..VF_N / 2), each twice: (p0, p0, p1, p1, ...) */
BW_INLINE vf vf_load_twice(const float *p)
{
#if defined(BW_VEC_AVX512)
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                                 _mm512_castps256_ps512(_mm256_loadu_ps(p)));
#elif defined(BW_VEC_AVX2)
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
#else
    return (vf){p[0], p[0], p[1], p[1]};
#endif
}

BW_INLINE double sum_squares(const float *x, int64_t n)
{
    vd s0 = vd_zero(), s1 = vd_zero();
    int64_t i = 0;
    for (; i + 2 * VF_N <= n; i += 2 * VF_N) {
        s0 = vd_add_square(s0, vf_load(x + i));
        s1 = vd_add_square(s1, vf_load(x + i + VF_N));
    }
    for (; i + VF_N <= n; i += VF_N)
        s0 = vd_add_square(s0, vf_load(x + i));
    if (i < n)
        s1 = vd_add_square(s1, vf_load_n(x + i, n - i));
    return vd_sum(vd_add_vd(s0, s1));
}

/* Whether a norm's factor, 1 / deviation or that times a weight, is one that f32 does not hold, or belongs to values
 * whose difference from the mean may be beyond f32: then a row is computed in f64. False for NaN, and for a weight's 0.
 */
BW_INLINE bool is_extreme(double factor)
{
    double size = fabs(factor);
    return size > 1e37 || (size < 1e-30 && size > 0);
}

/* A row of a plain float type. */
typedef struct bw_row {
    char *data;
    int64_t step, n; /* elements apart; how many */
    bw_dtype dtype;
    bool is_direct; /* contiguous f32 */
} bw_row;

BW_INLINE bw_row bw_row_at(const bw_tensor *t, int64_t offset, int64_t step, int64_t n)
{
    return (bw_row){(char *)t->data + offset * bw_dtype_block_bytes(t->dtype), step, n, t->dtype,
                    t->dtype == BW_F32 && (step == 1 || n == 1)};
}

/* How many elements a pass may take at once: everything where no conversion is needed. */
BW_INLINE int64_t bw_row_piece(const bw_row *row)
{
    return row->is_direct ? row->n : BW_EACH_BLOCK;
}

/* Elements [i, i + n) as f32: in place, or converted into buffer [BW_EACH_BLOCK]. */
BW_INLINE const float *bw_row_load(const bw_row *row, int64_t i, int64_t n, float *buffer)
{
    if (row->is_direct)
        return (const float *)(const void *)row->data + i;
    bw_each_load(row->dtype, row->data + i * row->step * bw_dtype_block_bytes(row->dtype), row->step, buffer, n);
    return buffer;
}

/* Where to compute elements of y, and how they get home. */
BW_INLINE float *bw_row_place(const bw_row *row, int64_t i, float *buffer)
{
    return row->is_direct ? (float *)(void *)row->data + i : buffer;
}
BW_INLINE void bw_row_store(const bw_row *row, int64_t i, int64_t n, const float *buffer)
{
    if (!row->is_direct)
        bw_each_store(row->dtype, row->data + i * row->step * bw_dtype_block_bytes(row->dtype), row->step, buffer, n);
}

#endif
