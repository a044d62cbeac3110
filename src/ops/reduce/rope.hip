/* ROPE, ROPE_I and ROPE_THD on a GPU: one thread per pair, in the type's own width or f32. */
#include "bw_kernel.h"

#include "reduce/bw_rope_args.h"

template <typename T> BW_DEVICE void rope(const bw_rope_args &a, const T *x, const T *cos, const T *sin, T *y)
{
    typedef typename bw_wide<T>::type W;
    const int64_t pair = a.first + bw_grid_thread();
    if (pair >= a.n_pairs)
        return;
    const int64_t row = pair / a.half, i = pair - row * a.half, line = row / a.t, t = row - line * a.t, b = line / a.h,
                  h = line - b * a.h;
    const int64_t first = a.interleaved ? 2 * i : i, second = a.interleaved ? 2 * i + 1 : i + a.half;
    x += b * a.x_strides[0] + h * a.x_strides[1] + t * a.x_strides[2];
    y += b * a.y_strides[0] + h * a.y_strides[1] + t * a.y_strides[2];
    W c = bw_get(cos[b * a.cos_strides[0] + t * a.cos_strides[1] + i * a.cos_step]);
    W s = bw_get(sin[b * a.sin_strides[0] + t * a.sin_strides[1] + i * a.sin_step]);
    W u = bw_get(x[first * a.x_step]), v = bw_get(x[second * a.x_step]);
    y[first * a.y_step] = bw_put<T>(bw_fma(u, c, -(v * s)));
    y[second * a.y_step] = bw_put<T>(bw_fma(u, s, v * c));
}

#define KERNEL(name, type, T)                                                                                          \
    BW_KERNEL(256, name##_##type)(const bw_rope_args a, const T *x, const T *cos, const T *sin, T *y)                  \
    {                                                                                                                  \
        rope<T>(a, x, cos, sin, y);                                                                                    \
    }
#define KERNELS(type, T)                                                                                               \
    KERNEL(rope, type, T)                                                                                              \
    KERNEL(rope_i, type, T)                                                                                            \
    KERNEL(rope_thd, type, T)
KERNELS(f32, float)
KERNELS(f64, double)
KERNELS(f16, bw_f16)
KERNELS(bf16, bw_bf16)
