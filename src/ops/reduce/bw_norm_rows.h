/* Device code: a row of a norm by one workgroup of BW_ROWS_THREADS threads. Owns RMSNORM and LAYERNORM of a row held in
 * registers (bw_norm_packs, for whatever else wants to norm what it has just computed) or read from memory; refuses to
 * know where rows lie.
 *
 * f32 and shorter types are computed in f32. Where the sum of squares leaves the range in which that is exact enough
 * (squares beyond f32 or below it, a row of zeros), the workgroup computes the row again in f64. */
#ifndef BW_NORM_ROWS_H
#define BW_NORM_ROWS_H

#include "bw_kernel.h"
#include "reduce/bw_rows_args.h"

/* 16 bytes of a row, loaded and stored at once. */
template <typename T> struct alignas(16) bw_pack {
    enum { N = 16 / sizeof(T) };
    T v[16 / sizeof(T)];
};

/* Thread t holds the packs t, t + BW_ROWS_THREADS, ... of a row of n_packs; zeros beyond its end. x: 16-byte aligned.
 */
template <typename T, int R> BW_DEVICE void bw_load_packs(bw_pack<T> (&packs)[R], const T *x, int n_packs)
{
    const bw_pack<T> *from = (const bw_pack<T> *)x;
#pragma unroll
    for (int k = 0; k < R; k++) {
        int i = bw_thread() + k * BW_ROWS_THREADS;
        packs[k] = bw_pack<T>();
        if (i < n_packs)
            packs[k] = from[i];
    }
}

enum { BW_NORM_MOST = 65536 }; /* columns whose sum f32 carries: longer rows are computed in f64 */

/* Whether a sum of squares in W says what it should. */
BW_DEVICE bool bw_norm_is_exact(float squares)
{
    return squares > 1e-30f && squares < 1e37f;
}
BW_DEVICE bool bw_norm_is_exact(double)
{
    return true;
}

/* What turns x into (x - mean) * scale: x - high - low. */
template <typename W> struct bw_moments {
    W high, low, scale, squares;
};

template <typename W> BW_DEVICE W bw_rows_sum(W x)
{
    BW_SHARED W shared[BW_ROWS_THREADS / BW_WAVE];
    return bw_block_sum<BW_ROWS_THREADS>(x, shared);
}

/* The mean in two parts from the sum of x - first: the sum of the two numbers without their rounding (Knuth). */
template <typename W> BW_DEVICE void bw_moments_centre(bw_moments<W> &m, W first, W sum, W n)
{
    W more = sum / n;
    m.high = first + more;
    W part = m.high - first;
    m.low = (first - (m.high - part)) + (more - part);
}

/* After the pass over d = x - high - low: its sum corrects the mean, whose own sum was rounded. */
template <typename W> BW_DEVICE void bw_moments_finish(bw_moments<W> &m, W sum, W squares, W n, W eps)
{
    W more = sum / n, variance = squares / n - more * more;
    m.low += more;
    m.squares = squares;
    m.scale = 1 / bw_sqrt((variance > 0 ? variance : variance - variance) + eps);
}

/* ---- rows in registers ------------------------------------------------------------------------------------------- */

template <typename W, bool CENTRED, typename T, int R>
BW_DEVICE bw_moments<W> bw_moments_of_packs(const bw_pack<T> (&x)[R], W first, int n_packs, int64_t n, W eps)
{
    bw_moments<W> m = {0, 0, 0, 0};
    W sum = 0, squares = 0;
    if (CENTRED) {
#pragma unroll
        for (int k = 0; k < R; k++) {
            W part = 0;
#pragma unroll
            for (int i = 0; i < bw_pack<T>::N; i++)
                part += (W)bw_get(x[k].v[i]) - first;
            sum += bw_thread() + k * BW_ROWS_THREADS < n_packs ? part : 0;
        }
        bw_moments_centre<W>(m, first, bw_rows_sum(sum), (W)n);
        sum = 0;
    }
#pragma unroll
    for (int k = 0; k < R; k++) {
        W part = 0, part_squares = 0;
#pragma unroll
        for (int i = 0; i < bw_pack<T>::N; i++) {
            W d = (W)bw_get(x[k].v[i]);
            if (CENTRED)
                d = d - m.high - m.low;
            part += d;
            part_squares = bw_fma(d, d, part_squares);
        }
        bool is_there = bw_thread() + k * BW_ROWS_THREADS < n_packs;
        sum += is_there ? part : 0;
        squares += is_there ? part_squares : 0;
    }
    sum = CENTRED ? bw_rows_sum(sum) : 0;
    bw_moments_finish<W>(m, sum, bw_rows_sum(squares), (W)n, eps);
    return m;
}

template <typename W, bool CENTRED, typename T, int R>
BW_DEVICE void bw_store_normed(const bw_moments<W> &m, const bw_pack<T> (&x)[R], const T *w, const T *b, T *y,
                               int n_packs)
{
#pragma unroll
    for (int k = 0; k < R; k++) {
        int i = bw_thread() + k * BW_ROWS_THREADS;
        if (i < n_packs) {
            bw_pack<T> times = bw_pack<T>(), plus = bw_pack<T>(), result;
            if (w)
                times = ((const bw_pack<T> *)w)[i];
            if (b)
                plus = ((const bw_pack<T> *)b)[i];
#pragma unroll
            for (int j = 0; j < bw_pack<T>::N; j++) {
                W v = (W)bw_get(x[k].v[j]);
                if (CENTRED)
                    v = v - m.high - m.low;
                v *= m.scale;
                v = w ? v * (W)bw_get(times.v[j]) : v;
                v = b ? v + (W)bw_get(plus.v[j]) : v;
                result.v[j] = bw_put<T>((typename bw_wide<T>::type)v);
            }
            ((bw_pack<T> *)y)[i] = result;
        }
    }
}

/* y = (x - mean) / sqrt(variance + eps) * w + b (CENTRED), or x / sqrt(mean(x^2) + eps) * w. first: the row's first
 * element; w and b may be NULL; y and they are 16-byte aligned. All threads call it. */
template <bool CENTRED, typename T, int R>
BW_DEVICE void bw_norm_packs(const bw_pack<T> (&x)[R], T first, const T *w, const T *b, T *y, int64_t n, float eps)
{
    typedef typename bw_wide<T>::type W;
    const int n_packs = (int)(n / bw_pack<T>::N);
    bw_moments<W> m = bw_moments_of_packs<W, CENTRED>(x, (W)bw_get(first), n_packs, n, (W)eps);
    if (bw_norm_is_exact(m.squares)) {
        bw_store_normed<W, CENTRED>(m, x, w, b, y, n_packs);
    } else {
        bw_moments<double> d = bw_moments_of_packs<double, CENTRED>(x, (double)bw_get(first), n_packs, n, (double)eps);
        bw_store_normed<double, CENTRED>(d, x, w, b, y, n_packs);
    }
}

/* ---- rows in memory, any steps ----------------------------------------------------------------------------------- */

template <typename W, bool CENTRED, typename T>
BW_DEVICE bw_moments<W> bw_moments_of_row(const bw_rows_args &a, const T *x)
{
    const W first = (W)bw_get(x[0]), n = (W)a.n;
    bw_moments<W> m = {0, 0, 0, 0};
    W sum = 0, squares = 0;
    if (CENTRED) {
        for (int64_t i = bw_thread(); i < a.n; i += BW_ROWS_THREADS)
            sum += (W)bw_get(x[i * a.x_step]) - first;
        bw_moments_centre<W>(m, first, bw_rows_sum(sum), n);
        sum = 0;
    }
    for (int64_t i = bw_thread(); i < a.n; i += BW_ROWS_THREADS) {
        W d = (W)bw_get(x[i * a.x_step]);
        if (CENTRED)
            d = d - m.high - m.low;
        sum += d;
        squares = bw_fma(d, d, squares);
    }
    sum = CENTRED ? bw_rows_sum(sum) : 0;
    bw_moments_finish<W>(m, sum, bw_rows_sum(squares), n, (W)a.eps);
    return m;
}

template <typename W, bool CENTRED, typename T>
BW_DEVICE void bw_store_normed_row(const bw_moments<W> &m, const bw_rows_args &a, const T *x, const T *w, const T *b,
                                   T *y)
{
    for (int64_t i = bw_thread(); i < a.n; i += BW_ROWS_THREADS) {
        W v = (W)bw_get(x[i * a.x_step]);
        if (CENTRED)
            v = v - m.high - m.low;
        v *= m.scale;
        v = w ? v * (W)bw_get(w[i * a.w_step]) : v;
        v = b ? v + (W)bw_get(b[i * a.b_step]) : v;
        y[i * a.y_step] = bw_put<T>((typename bw_wide<T>::type)v);
    }
}

/* The same for a row at x, written to y; y may be x. */
template <bool CENTRED, typename T>
BW_DEVICE void bw_norm_row(const bw_rows_args &a, const T *x, const T *w, const T *b, T *y)
{
    typedef typename bw_wide<T>::type W;
    bw_moments<W> m = {0, 0, 0, 0};
    if (a.n <= BW_NORM_MOST)
        m = bw_moments_of_row<W, CENTRED>(a, x);
    if (a.n <= BW_NORM_MOST && bw_norm_is_exact(m.squares)) {
        bw_store_normed_row<W, CENTRED>(m, a, x, w, b, y);
    } else {
        bw_moments<double> d = bw_moments_of_row<double, CENTRED>(a, x);
        bw_store_normed_row<double, CENTRED>(d, a, x, w, b, y);
    }
}

#endif
