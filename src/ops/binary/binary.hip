/* The functions of binary.def on a GPU: floats in their own width or f32, integers exactly and then wrapped. */
#include "bw_kernel.h"

BW_DEVICE int64_t bw_wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
BW_DEVICE int64_t bw_wrap_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
BW_DEVICE int64_t bw_wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
BW_DEVICE int64_t bw_wrap_div(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? bw_wrap_sub(0, a) : a / b;
}

#define BW_BINARY(NAME, name, is_compare, f64, i64, vector, formula)                                                   \
    template <typename W> BW_DEVICE W name##_of(W a, W b)                                                              \
    {                                                                                                                  \
        return (W)(f64);                                                                                               \
    }                                                                                                                  \
    template <> BW_DEVICE_SPECIAL int64_t name##_of<int64_t>(int64_t a, int64_t b)                                     \
    {                                                                                                                  \
        return i64;                                                                                                    \
    }
#include "binary/binary.def"
#undef BW_BINARY

/* R: the result's type; W: what is computed in. */
#define KERNEL(name, suffix, T, R, W)                                                                                  \
    BW_KERNEL(256, name##_##suffix)(const bw_loop loop, const T *a, const T *b, R *y)                                  \
    {                                                                                                                  \
        bw_for_each<3>(loop, [=](const int64_t(&at)[3]) {                                                              \
            y[at[2]] = bw_put<R>((typename bw_wide<R>::type)name##_of<W>((W)bw_get(a[at[0]]), (W)bw_get(b[at[1]])));   \
        });                                                                                                            \
    }
#define KERNELS_0(name)                                                                                                \
    KERNEL(name, f32, float, float, float)                                                                             \
    KERNEL(name, f64, double, double, double)                                                                          \
    KERNEL(name, f16, bw_f16, bw_f16, float)                                                                           \
    KERNEL(name, bf16, bw_bf16, bw_bf16, float)                                                                        \
    KERNEL(name, f8_e4m3, bw_f8, bw_f8, float)                                                                         \
    KERNEL(name, u8, uint8_t, uint8_t, int64_t)                                                                        \
    KERNEL(name, u32, uint32_t, uint32_t, int64_t)                                                                     \
    KERNEL(name, i16, int16_t, int16_t, int64_t)                                                                       \
    KERNEL(name, i32, int32_t, int32_t, int64_t)                                                                       \
    KERNEL(name, i64, int64_t, int64_t, int64_t)
#define KERNELS_1(name)                                                                                                \
    KERNEL(name, f32, float, uint8_t, float)                                                                           \
    KERNEL(name, f64, double, uint8_t, double)                                                                         \
    KERNEL(name, f16, bw_f16, uint8_t, float)                                                                          \
    KERNEL(name, bf16, bw_bf16, uint8_t, float)                                                                        \
    KERNEL(name, f8_e4m3, bw_f8, uint8_t, float)                                                                       \
    KERNEL(name, u8, uint8_t, uint8_t, int64_t)                                                                        \
    KERNEL(name, u32, uint32_t, uint8_t, int64_t)                                                                      \
    KERNEL(name, i16, int16_t, uint8_t, int64_t)                                                                       \
    KERNEL(name, i32, int32_t, uint8_t, int64_t)                                                                       \
    KERNEL(name, i64, int64_t, uint8_t, int64_t)
#define BW_BINARY(NAME, name, is_compare, f64, i64, vector, formula) KERNELS_##is_compare(name)
#include "binary/binary.def"
