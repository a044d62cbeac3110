/* Pooling, upsampling, IM2COL, IM2COL1D and COL2IM1D on a GPU: a thread per element of the output, in its order. Positions
 * are found in f64 as the reference finds them, without fused multiply-adds: they decide which elements are read. */
#include "bw_kernel.h"

#include "conv/bw_conv.h"
#include "conv/bw_conv_args.h"

/* This thread's element of the output; -1: none. The host sees to it that all are below 2^31. */
BW_DEVICE int32_t own_element(int64_t n)
{
    int64_t i = bw_grid_thread();
    return i < n ? (int32_t)i : -1;
}
/* i / d, and what is left in i. */
BW_DEVICE int32_t divide(int32_t &i, int64_t d)
{
    uint32_t q = (uint32_t)i / (uint32_t)d;
    i = (int32_t)((uint32_t)i - q * (uint32_t)d);
    return (int32_t)q;
}

struct place {
    int64_t x, y; /* offsets: where the plane begins in x, the element's in y */
    int64_t row, column;
};
BW_DEVICE place find_place(const bw_planes &p, int32_t i)
{
    place r;
    int32_t plane = divide(i, p.out_h * p.out_w);
    r.row = divide(i, p.out_w);
    r.column = i;
    const int64_t n = divide(plane, p.channels);
    const int64_t c = plane;
    r.x = n * p.x[0] + c * p.x[1];
    r.y = n * p.y[0] + c * p.y[1] + r.row * p.y[2] + r.column * p.y[3];
    return r;
}

/* S: what elements are summed in. */
template <typename T, typename S>
BW_DEVICE void avg_pool(const bw_planes &p, int64_t n_all, const T *x, T *y, const bw_pool2d_params &k)
{
    int32_t i = own_element(n_all);
    if (i < 0)
        return;
    const place at = find_place(p, i);
    S sum = 0;
    for (int64_t r = 0; r < k.kernel_h; r++)
        for (int64_t s = 0; s < k.kernel_w; s++)
            sum += (S)bw_get(x[at.x + (at.row * k.stride_h + r) * p.x[2] + (at.column * k.stride_w + s) * p.x[3]]);
    y[at.y] = bw_put<T>((typename bw_wide<T>::type)(sum / (S)(k.kernel_h * k.kernel_w)));
}

template <typename T>
BW_DEVICE void max_pool(const bw_planes &p, int64_t n_all, const T *x, T *y, const bw_pool2d_params &k)
{
    int32_t i = own_element(n_all);
    if (i < 0)
        return;
    const place at = find_place(p, i);
    const T *window = x + at.x + at.row * k.stride_h * p.x[2] + at.column * k.stride_w * p.x[3];
    T most = *window;
    for (int64_t r = 0; r < k.kernel_h; r++)
        for (int64_t s = 0; s < k.kernel_w; s++) {
            T one = window[r * p.x[2] + s * p.x[3]];
            bool is_known = bw_get(most) == bw_get(most); /* the first NaN stays */
            if (is_known && !(bw_get(one) <= bw_get(most)))
                most = one;
        }
    y[at.y] = most;
}

BW_DEVICE int64_t nearest_find(int64_t at, int64_t size, int64_t out, double step)
{
    double s = (double)at * (step > 0 ? step : (double)size / (double)out);
    return s < (double)(size - 1) ? (int64_t)s : size - 1;
}
template <typename T>
BW_DEVICE void nearest(const bw_planes &p, int64_t n_all, const T *x, T *y, const bw_upsample_nearest2d_params &k)
{
    int32_t i = own_element(n_all);
    if (i < 0)
        return;
    const place at = find_place(p, i);
    int64_t row = nearest_find(at.row, p.h, p.out_h, k.step_h), column = nearest_find(at.column, p.w, p.out_w, k.step_w);
    y[at.y] = x[at.x + row * p.x[2] + column * p.x[3]];
}

/* The two inputs that output `at` lies between, and the second's weight. */
BW_DEVICE double bilinear_find(int64_t at, int64_t size, int64_t out, double scale, bool align_corners, int64_t &low, int64_t &high)
{
    double s;
    if (align_corners)
        s = (out > 1 ? (double)(size - 1) / (double)(out - 1) : 0.0) * (double)at;
    else
        s = (scale > 0 ? 1 / scale : (double)size / (double)out) * ((double)at + 0.5) - 0.5;
    s = s > 0 ? s : 0.0;
    s = s > (double)(size - 1) ? (double)(size - 1) : s;
    low = (int64_t)s;
    high = low + 1 < size ? low + 1 : size - 1;
    return s - (double)low;
}
template <typename T>
BW_DEVICE void bilinear(const bw_planes &p, int64_t n_all, const T *x, T *y, const bw_upsample_bilinear2d_params &k)
{
    int32_t i = own_element(n_all);
    if (i < 0)
        return;
    const place at = find_place(p, i);
    int64_t top, bottom, left, right;
    const double down = bilinear_find(at.row, p.h, p.out_h, k.scale_h, k.align_corners != 0, top, bottom);
    const double across = bilinear_find(at.column, p.w, p.out_w, k.scale_w, k.align_corners != 0, left, right);
    x += at.x;
    double a = (double)bw_get(x[top * p.x[2] + left * p.x[3]]) * (1 - across) +
               (double)bw_get(x[top * p.x[2] + right * p.x[3]]) * across;
    double b = (double)bw_get(x[bottom * p.x[2] + left * p.x[3]]) * (1 - across) +
               (double)bw_get(x[bottom * p.x[2] + right * p.x[3]]) * across;
    y[at.y] = bw_put<T>((typename bw_wide<T>::type)(a * (1 - down) + b * down));
}

/* Values as the bits they are. */
BW_DEVICE int64_t column_position(const bw_conv_axis &axis, int64_t at, int64_t tap)
{
    int64_t i = at * axis.stride + tap * axis.dilation - axis.padding;
    return i < axis.size ? i : -1;
}
template <typename B> BW_DEVICE void im2col(const bw_im2col_args &p, int64_t n_all, const B *x, B *y)
{
    int32_t i = own_element(n_all);
    if (i < 0)
        return;
    int32_t n = divide(i, p.rows * p.columns), row = divide(i, p.columns), column = i;
    B *to = y + n * p.c.y_batch + row * p.y_row + column * p.y_column;
    int32_t channel = divide(column, p.c.h.kernel * p.c.w.kernel), tap_y = divide(column, p.c.w.kernel), tap_x = column;
    int32_t out_y = divide(row, p.c.w.out), out_x = row;
    int64_t iy = column_position(p.c.h, out_y, tap_y), ix = column_position(p.c.w, out_x, tap_x);
    *to = iy < 0 || ix < 0 ? (B)0 : x[n * p.c.x_batch + channel * p.c.x_channel + iy * p.c.x_h + ix * p.c.x_w];
}

template <typename T, typename S>
BW_DEVICE void col2im1d(const bw_col2im1d_args &p, int64_t n_all, const T *x, T *y)
{
    int32_t i = own_element(n_all);
    if (i < 0)
        return;
    int32_t n = divide(i, p.channels * p.out), c = divide(i, p.out), at = i;
    S sum = 0;
    int64_t l = divide(at, p.stride), rest = at;
    for (; l >= 0 && rest < p.taps; l--, rest += p.stride)
        if (l < p.n_positions)
            sum += (S)bw_get(x[n * p.x[0] + l * p.x[1] + c * p.x[2] + rest * p.x[3]]);
    y[n * p.y[0] + c * p.y[1] + i * p.y[2]] = bw_put<T>((typename bw_wide<T>::type)sum);
}

/* B: what holds T's bits; S: what its elements are summed in. */
#define TYPE(name, T, B, S)                                                                                            \
    BW_KERNEL(256, avg_pool2d_##name)                                                                                  \
    (const bw_planes p, int64_t n_all, const T *x, T *y, const bw_pool2d_params k)                         \
    {                                                                                                                  \
        avg_pool<T, S>(p, n_all, x, y, k);                                                                             \
    }                                                                                                                  \
    BW_KERNEL(256, max_pool2d_##name)                                                                                  \
    (const bw_planes p, int64_t n_all, const T *x, T *y, const bw_pool2d_params k)                         \
    {                                                                                                                  \
        max_pool<T>(p, n_all, x, y, k);                                                                                \
    }                                                                                                                  \
    BW_KERNEL(256, upsample_nearest2d_##name)                                                                          \
    (const bw_planes p, int64_t n_all, const B *x, B *y, const bw_upsample_nearest2d_params k)             \
    {                                                                                                                  \
        nearest<B>(p, n_all, x, y, k);                                                                                 \
    }                                                                                                                  \
    BW_KERNEL(256, upsample_bilinear2d_##name)                                                                         \
    (const bw_planes p, int64_t n_all, const T *x, T *y, const bw_upsample_bilinear2d_params k)            \
    {                                                                                                                  \
        bilinear<T>(p, n_all, x, y, k);                                                                                \
    }                                                                                                                  \
    BW_KERNEL(256, im2col_##name)(const bw_im2col_args p, int64_t n_all, const B *x, B *y)                 \
    {                                                                                                                  \
        im2col<B>(p, n_all, x, y);                                                                                     \
    }                                                                                                                  \
    BW_KERNEL(256, im2col1d_##name)(const bw_im2col_args p, int64_t n_all, const B *x, B *y)               \
    {                                                                                                                  \
        im2col<B>(p, n_all, x, y);                                                                                     \
    }                                                                                                                  \
    BW_KERNEL(256, col2im1d_##name)(const bw_col2im1d_args p, int64_t n_all, const T *x, T *y)             \
    {                                                                                                                  \
        col2im1d<T, S>(p, n_all, x, y);                                                                                \
    }
TYPE(f32, float, uint32_t, float)
TYPE(f64, double, uint64_t, double)
TYPE(f16, bw_f16, uint16_t, float)
TYPE(bf16, bw_bf16, uint16_t, float)
TYPE(u8, uint8_t, uint8_t, uint64_t)
TYPE(u32, uint32_t, uint32_t, uint64_t)
