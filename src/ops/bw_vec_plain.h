/* The vector type without any CPU level: 4 floats by the compilers' vector extension, which becomes SSE2, NEON or plain
 * code. Included through bw_vec.h. */
#ifndef BW_VEC_PLAIN_H
#define BW_VEC_PLAIN_H

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define BW_LEVEL(name) name##_plain
enum { VF_N = 4 };
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vf_bits __attribute__((vector_size(16)));

BW_INLINE vf vf_load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
BW_INLINE void vf_store(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}
/* Past the caches where the other levels can; p is aligned to a vector. */
BW_INLINE void vf_stream(float *p, vf v)
{
#if defined(__SSE2__)
    _mm_stream_ps(p, (__m128)v);
#else
    vf_store(p, v);
#endif
}
BW_INLINE vf vf_load_n(const float *p, int64_t n)
{
    vf v = {0};
    for (int i = 0; i < VF_N; i++)
        if (i < n)
            v[i] = p[i];
    return v;
}
BW_INLINE void vf_store_n(float *p, vf v, int64_t n)
{
    for (int i = 0; i < VF_N; i++)
        if (i < n)
            p[i] = v[i];
}
BW_INLINE vf vf_set1(float x)
{
    return (vf){x, x, x, x};
}
BW_INLINE vf vf_add(vf a, vf b)
{
    return a + b;
}
BW_INLINE vf vf_sub(vf a, vf b)
{
    return a - b;
}
BW_INLINE vf vf_mul(vf a, vf b)
{
    return a * b;
}
BW_INLINE vf vf_div(vf a, vf b)
{
    return a / b;
}
BW_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return a * b + c;
}
/* c - a * b */
BW_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return c - a * b;
}
/* mask ? yes : no, mask all ones or zeros per lane */
BW_INLINE vf vf_select(vf_bits mask, vf yes, vf no)
{
    return (vf)((mask & (vf_bits)yes) | (~mask & (vf_bits)no));
}
BW_INLINE vf vf_max(vf a, vf b)
{
    return vf_select(a > b, a, b);
}
BW_INLINE vf vf_neg(vf a)
{
    return -a;
}
BW_INLINE vf vf_abs(vf a)
{
    return (vf)((vf_bits)a & 0x7fffffff);
}
BW_INLINE vf vf_copysign(vf magnitude, vf sign)
{
    return (vf)((vf_bits)magnitude | ((vf_bits)sign & (vf_bits)vf_set1(-0.0f)));
}
/* NaN stays NaN: no comparison with it holds. */
BW_INLINE vf vf_clamp(vf x, float low, float high)
{
    vf lo = vf_set1(low), hi = vf_set1(high);
    x = vf_select(x < lo, lo, x);
    return vf_select(x > hi, hi, x);
}
/* To an integer, for |x| < 2^22. */
BW_INLINE vf vf_round(vf x)
{
    const vf magic = vf_set1(12582912.0f);
    return (x + magic) - magic;
}
/* 2^n for integral n in [-126, 128]; 128 gives infinity. The sum holds n in its low bits. */
BW_INLINE vf vf_pow2(vf n)
{
    vf_bits i = (vf_bits)(n + vf_set1(12582912.0f)) - 0x4b400000;
    return (vf)((i + 127) << 23);
}
/* p 2^n for integral n in [-126, 128]. */
BW_INLINE vf vf_scale(vf p, vf n)
{
    return vf_mul(p, vf_pow2(n));
}
/* a / b for b in [1, 2], within an ulp. */
BW_INLINE vf vf_div_near(vf a, vf b)
{
    return vf_div(a, b);
}
/* v, but 0 where x < limit. */
BW_INLINE vf vf_zero_where_less(vf v, vf x, vf limit)
{
    return (vf)(~(vf_bits)(x < limit) & (vf_bits)v);
}
/* a < b ? yes : no */
BW_INLINE vf vf_select_less(vf a, vf b, vf yes, vf no)
{
    return vf_select(a < b, yes, no);
}
/* (x0, x1, x2, x3) to (x1, x0, x3, x2) */
BW_INLINE vf vf_swap_pairs(vf x)
{
    return (vf){x[1], x[0], x[3], x[2]};
}
BW_INLINE float vf_sum(vf v)
{
    return (v[0] + v[1]) + (v[2] + v[3]);
}
BW_INLINE float vf_max_lane(vf v)
{
    float a = v[0] > v[1] ? v[0] : v[1], b = v[2] > v[3] ? v[2] : v[3];
    return a > b ? a : b;
}
/* The sums of four vectors to p[0..4). */
BW_INLINE void vf_store_sum4(float *p, vf a, vf b, vf c, vf d)
{
    p[0] = vf_sum(a);
    p[1] = vf_sum(b);
    p[2] = vf_sum(c);
    p[3] = vf_sum(d);
}
BW_INLINE vf vf_load_f16(const uint16_t *p)
{
    return (vf){bw_f16_to_f32(p[0]), bw_f16_to_f32(p[1]), bw_f16_to_f32(p[2]), bw_f16_to_f32(p[3])};
}
BW_INLINE void vf_store_f16(uint16_t *p, vf v)
{
    for (int i = 0; i < VF_N; i++)
        p[i] = bw_f32_to_f16(v[i]);
}
BW_INLINE vf vf_load_bf16(const uint16_t *p)
{
    return (vf){bw_bf16_to_f32(p[0]), bw_bf16_to_f32(p[1]), bw_bf16_to_f32(p[2]), bw_bf16_to_f32(p[3])};
}
BW_INLINE void vf_store_bf16(uint16_t *p, vf v)
{
    for (int i = 0; i < VF_N; i++)
        p[i] = bw_f32_to_bf16(v[i]);
}
/* 2 VF_N values in two vectors; which values go into which one is the level's choice. */
BW_INLINE void vf_load_bf16_pairs(const uint16_t *p, vf *first, vf *second)
{
    *first = vf_load_bf16(p);
    *second = vf_load_bf16(p + VF_N);
}
/* The reverse. This level does not go past the caches here. */
BW_INLINE void vf_store_bf16_pairs(uint16_t *p, vf first, vf second, bool is_streamed)
{
    (void)is_streamed;
    vf_store_bf16(p, first);
    vf_store_bf16(p + VF_N, second);
}
BW_INLINE vf vf_load_i8(const int8_t *p)
{
    return (vf){p[0], p[1], p[2], p[3]};
}
/* Rounded to nearest even and saturated. */
BW_INLINE void vf_store_i8(int8_t *p, vf v)
{
    v = vf_round(vf_clamp(v, -128.0f, 127.0f));
    for (int i = 0; i < VF_N; i++)
        p[i] = v[i] == v[i] ? (int8_t)v[i] : 0;
}
BW_INLINE float bw_load_f16(const void *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return bw_f16_to_f32(h);
}

/* Sums of squares in f64. */
typedef struct vd {
    double lanes[VF_N];
} vd;
BW_INLINE vd vd_zero(void)
{
    return (vd){{0}};
}
BW_INLINE vd vd_add_square(vd s, vf x)
{
    for (int i = 0; i < VF_N; i++)
        s.lanes[i] += (double)x[i] * (double)x[i];
    return s;
}
BW_INLINE double vd_sum(vd s)
{
    return (s.lanes[0] + s.lanes[1]) + (s.lanes[2] + s.lanes[3]);
}

/* sin and cos of position * inv_freq[0..4). */
BW_INLINE void vf_sincos_angle(double position, vf inv_freq, vf *sin_out, vf *cos_out)
{
    for (int i = 0; i < VF_N; i++) {
        double angle = position * (double)inv_freq[i];
        (*sin_out)[i] = (float)sin(angle);
        (*cos_out)[i] = (float)cos(angle);
    }
}

#endif
