/* GROUP_NORM on a GPU: one workgroup per group of a sample, three passes over its values: the mean, the sum of squares
 * around it, the result. f32, or f64 where a group is long or its squares leave f32's range (reduce/bw_norm_rows.h). */
#include "bw_kernel.h"

#include "norm/bw_group_norm_args.h"
#include "reduce/bw_norm_rows.h"

/* A group: its first channel, and where that begins. */
struct group {
    int64_t x, y, channel;
};

/* body(x's offset, y's offset, channel) for each of this thread's values, of which the host allows less than 2^31. */
template <typename F>
BW_DEVICE void for_values(const bw_loop &space, const bw_group_norm_args &a, const group &g, F body)
{
    for (uint32_t i = (uint32_t)bw_thread(); i < a.n_values; i += BW_ROWS_THREADS) {
        const uint32_t n = (uint32_t)space.n, channel = i / n;
        int64_t at[2];
        bw_loop_offsets<2, uint32_t>(space, i - channel * n, at);
        body(g.x + channel * a.x_strides[1] + at[0], g.y + channel * a.y_strides[1] + at[1], g.channel + channel);
    }
}

template <typename W, typename T>
BW_DEVICE bw_moments<W> moments_of(const bw_loop &space, const bw_group_norm_args &a, const group &g, const T *x)
{
    const W first = (W)bw_get(x[g.x]), n = (W)a.n_values;
    bw_moments<W> m = {0, 0, 0, 0};
    W sum = 0, squares = 0;
    for_values(space, a, g, [&](int64_t from, int64_t, int64_t) { sum += (W)bw_get(x[from]) - first; });
    bw_moments_centre<W>(m, first, bw_rows_sum(sum), n);
    sum = 0;
    for_values(space, a, g, [&](int64_t from, int64_t, int64_t) {
        W d = (W)bw_get(x[from]) - m.high - m.low;
        sum += d;
        squares = bw_fma(d, d, squares);
    });
    sum = bw_rows_sum(sum);
    bw_moments_finish<W>(m, sum, bw_rows_sum(squares), n, (W)a.eps);
    return m;
}

template <typename W, typename T>
BW_DEVICE void store_normed(const bw_loop &space, const bw_group_norm_args &a, const group &g, const bw_moments<W> &m,
                            const T *x, const T *w, const T *b, T *y)
{
    for_values(space, a, g, [&](int64_t from, int64_t to, int64_t channel) {
        W v = ((W)bw_get(x[from]) - m.high - m.low) * m.scale;
        v = w ? v * (W)bw_get(w[channel * a.w_step]) : v;
        v = b ? v + (W)bw_get(b[channel * a.b_step]) : v;
        y[to] = bw_put<T>((typename bw_wide<T>::type)v);
    });
}

template <typename T>
BW_DEVICE void group_norm(const bw_loop &space, const bw_group_norm_args &a, const T *x, const T *w, const T *b, T *y)
{
    typedef typename bw_wide<T>::type W;
    const int64_t number = a.first + bw_block(), sample = number / a.groups;
    group g;
    g.channel = (number - sample * a.groups) * a.per_group;
    g.x = sample * a.x_strides[0] + g.channel * a.x_strides[1];
    g.y = sample * a.y_strides[0] + g.channel * a.y_strides[1];
    bw_moments<W> m = {0, 0, 0, 0};
    if (a.n_values <= BW_NORM_MOST)
        m = moments_of<W>(space, a, g, x);
    if (a.n_values <= BW_NORM_MOST && bw_norm_is_exact(m.squares))
        store_normed<W>(space, a, g, m, x, w, b, y);
    else
        store_normed<double>(space, a, g, moments_of<double>(space, a, g, x), x, w, b, y);
}

#define KERNEL(type, T)                                                                                                \
    BW_KERNEL(BW_ROWS_THREADS, group_norm_##type)                                                                      \
    (const bw_loop space, const bw_group_norm_args a, const T *x, const T *w, const T *b, T *y)                        \
    {                                                                                                                  \
        group_norm<T>(space, a, x, w, b, y);                                                                           \
    }
KERNEL(f32, float)
KERNEL(f64, double)
KERNEL(f16, bw_f16)
KERNEL(bf16, bw_bf16)
