/* ADD_RMS_NORM on a GPU: h = x + r, or x + rms_norm(r) * w_r; y = rms_norm(h) * w. A workgroup takes a row. Rows of
 * whole 16-byte packs up to 8192 columns stay in registers between the passes; all others are read again. Squares are
 * summed in f32, and once more in f64 where that sum says that f32 does not hold them. */
#include "bw_kernel.h"
#include "bw_pack.h"
#include "norm/bw_add_norm_args.h"

enum { BLOCK = 256 };

/* Within these a sum of squares and what is made of it are good to a few roundings. */
BW_DEVICE bool is_usual(float sum)
{
    return sum > 1e-30f && sum < 1e36f;
}

/* A row's scale: in f32, or where is_wide, in f64. */
struct scale {
    float narrow;
    double wide;
    bool is_wide;
};

/* What is left of a value: x * scale * w. */
BW_DEVICE float scaled(float x, const scale &s, float w)
{
    return s.is_wide ? (float)((double)x * s.wide * (double)w) : x * s.narrow * w;
}
BW_DEVICE float added(float x, float r, const scale &s, float w)
{
    return s.is_wide ? (float)((double)x + (double)r * s.wide * (double)w) : x + r * s.narrow * w;
}

/* sum: this thread's part of the squares' sum in f32; again() finds it in f64. All threads call it. */
template <typename F> BW_DEVICE scale find_scale(float sum, int64_t n, float eps, F again)
{
    BW_SHARED float shared[BLOCK / BW_WAVE];
    BW_SHARED double shared_wide[BLOCK / BW_WAVE];
    scale s;
    sum = bw_block_sum<BLOCK>(sum, shared);
    s.is_wide = !is_usual(sum);
    s.narrow = 0;
    s.wide = 0;
    if (s.is_wide)
        s.wide = 1 / bw_sqrt(bw_block_sum<BLOCK>(again(), shared_wide) / (double)n + (double)eps);
    else
        s.narrow = 1 / bw_sqrt(sum / (float)n + eps);
    return s;
}

struct row {
    const float *x, *r;
    float *h, *y;
};

BW_DEVICE row this_row(const bw_add_norm_args &p, const float *x, const float *r, float *h, float *y)
{
    int64_t at[4], i = p.first_row + bw_block();
    if (p.rows.n_dims == 1) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            at[k] = i * p.rows.strides[k][0];
    } else {
        bw_loop_offsets<4, uint64_t>(p.rows, (uint64_t)i, at);
    }
    row a;
    a.x = x + at[0];
    a.r = r + at[1];
    a.h = h + at[2];
    a.y = y + at[3];
    return a;
}

/* EACH packs per thread, of which the last may lie beyond the row. */
template <int EACH>
BW_DEVICE void in_registers(const bw_add_norm_args &p, const row &a, const float *w, const float *w_r)
{
    bw_float4 h[EACH];
    const int n = (int)p.n;
    auto each = [&](auto body) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            int i = (e * BLOCK + bw_thread()) * 4;
            if (i < n)
                body(h[e], i);
        }
    };
    auto squares = [&]() {
        float sum = 0;
        each([&](bw_float4 &v, int) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum = bw_fma(v.at[j], v.at[j], sum);
        });
        return sum;
    };
    auto wide_squares = [&]() {
        double sum = 0;
        each([&](bw_float4 &v, int) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum = bw_fma((double)v.at[j], (double)v.at[j], sum);
        });
        return sum;
    };
    each([&](bw_float4 &v, int i) { v = bw_load_pack<bw_float4>(a.r + i); });
    if (w_r) {
        scale s = find_scale(squares(), p.n, p.eps, wide_squares);
        each([&](bw_float4 &v, int i) {
            bw_float4 x = bw_load_pack<bw_float4>(a.x + i), f = bw_load_pack<bw_float4>(w_r + i);
#pragma unroll
            for (int j = 0; j < 4; j++)
                v.at[j] = added(x.at[j], v.at[j], s, f.at[j]);
        });
    } else {
        each([&](bw_float4 &v, int i) {
            bw_float4 x = bw_load_pack<bw_float4>(a.x + i);
#pragma unroll
            for (int j = 0; j < 4; j++)
                v.at[j] += x.at[j];
        });
    }
    each([&](bw_float4 &v, int i) { bw_store_pack(a.h + i, v); });
    scale s = find_scale(squares(), p.n, p.eps, wide_squares);
    each([&](bw_float4 &v, int i) {
        bw_float4 f = bw_load_pack<bw_float4>(w + i);
#pragma unroll
        for (int j = 0; j < 4; j++)
            v.at[j] = scaled(v.at[j], s, f.at[j]);
        bw_store_pack(a.y + i, v);
    });
}

/* Any row. A thread reads only what of h it has written itself. */
BW_DEVICE void in_memory(const bw_add_norm_args &p, const row &a, const float *w, const float *w_r)
{
    auto wide_squares = [&](const float *x) {
        double sum = 0;
        for (int64_t i = bw_thread(); i < p.n; i += BLOCK)
            sum = bw_fma((double)x[i], (double)x[i], sum);
        return sum;
    };
    scale s;
    s.narrow = 1;
    s.wide = 1;
    s.is_wide = false;
    float sum = 0;
    if (w_r) {
        for (int64_t i = bw_thread(); i < p.n; i += BLOCK)
            sum = bw_fma(a.r[i], a.r[i], sum);
        s = find_scale(sum, p.n, p.eps, [&]() { return wide_squares(a.r); });
        sum = 0;
    }
    for (int64_t i = bw_thread(); i < p.n; i += BLOCK) {
        float h = added(a.x[i], a.r[i], s, w_r ? w_r[i] : 1.0f);
        a.h[i] = h;
        sum = bw_fma(h, h, sum);
    }
    s = find_scale(sum, p.n, p.eps, [&]() { return wide_squares(a.h); });
    for (int64_t i = bw_thread(); i < p.n; i += BLOCK)
        a.y[i] = scaled(a.h[i], s, w[i]);
}

#define PACKED(each)                                                                                                   \
    BW_KERNEL(BLOCK, add_rms_norm_packs_##each)                                                                        \
    (const bw_add_norm_args p, const float *x, const float *r, const float *w, const float *w_r, float *h, float *y)   \
    {                                                                                                                  \
        in_registers<each>(p, this_row(p, x, r, h, y), w, w_r);                                                        \
    }
PACKED(1)
PACKED(2)
PACKED(4)
PACKED(8)

BW_KERNEL(BLOCK, add_rms_norm_any)
(const bw_add_norm_args p, const float *x, const float *r, const float *w, const float *w_r, float *h, float *y)
{
    in_memory(p, this_row(p, x, r, h, y), w, w_r);
}
