/* AFFINE on a GPU: y = x * mul + add. One kernel per type, any strides. */
#include "bw_kernel.h"

/* mul and add are what the type computes in: f32, f64, or the integer itself (wrapping, so unsigned). */
template <typename T, typename W> BW_DEVICE void affine(const bw_loop &loop, const T *x, T *y, W mul, W add)
{
    bw_for_each<2>(loop, [=](const int64_t(&at)[2]) { y[at[1]] = bw_put<T>((W)((W)bw_get(x[at[0]]) * mul + add)); });
}

template <typename T> BW_DEVICE void affine_float(const bw_loop &loop, const T *x, T *y, double mul, double add)
{
    typedef typename bw_wide<T>::type W;
    const W m = (W)mul, a = (W)add;
    bw_for_each<2>(loop, [=](const int64_t(&at)[2]) { y[at[1]] = bw_put<T>(bw_fma(bw_get(x[at[0]]), m, a)); });
}

#define FLOAT(name, T)                                                                                                 \
    BW_KERNEL(256, affine_##name)(const bw_loop loop, const T *x, T *y, double mul, double add)                        \
    {                                                                                                                  \
        affine_float<T>(loop, x, y, mul, add);                                                                         \
    }
#define INTEGER(name, T, W)                                                                                            \
    BW_KERNEL(256, affine_##name)(const bw_loop loop, const T *x, T *y, int64_t mul, int64_t add)                      \
    {                                                                                                                  \
        affine<T, W>(loop, x, y, (W)mul, (W)add);                                                                      \
    }

FLOAT(f32, float)
FLOAT(f64, double)
FLOAT(f16, bw_f16)
FLOAT(bf16, bw_bf16)
FLOAT(f8_e4m3, bw_f8)
INTEGER(u8, uint8_t, uint32_t)
INTEGER(i16, int16_t, uint32_t)
INTEGER(i32, int32_t, uint32_t)
INTEGER(u32, uint32_t, uint32_t)
INTEGER(i64, int64_t, uint64_t)
