/* FILL, CONST_SET, COPY2D and UCOPY on a GPU: values as the bits they are. */
#include "bw_kernel.h"

#define KERNELS(type, T)                                                                                               \
    BW_KERNEL(256, fill_##type)(const bw_loop loop, T *y, uint64_t bits)                                               \
    {                                                                                                                  \
        bw_for_each<1>(loop, [=](const int64_t(&at)[1]) { y[at[0]] = (T)bits; });                                      \
    }                                                                                                                  \
    BW_KERNEL(256, const_set_##type)(const bw_loop loop, T *y, uint64_t bits)                                          \
    {                                                                                                                  \
        bw_for_each<1>(loop, [=](const int64_t(&at)[1]) { y[at[0]] = (T)bits; });                                      \
    }                                                                                                                  \
    BW_KERNEL(256, copy2d_##type)(const bw_loop loop, const T *x, T *y)                                                \
    {                                                                                                                  \
        bw_for_each<2>(loop, [=](const int64_t(&at)[2]) { y[at[1]] = x[at[0]]; });                                     \
    }                                                                                                                  \
    BW_KERNEL(256, ucopy_##type)(const bw_loop loop, const T *x, T *y)                                                 \
    {                                                                                                                  \
        bw_for_each<2>(loop, [=](const int64_t(&at)[2]) { y[at[1]] = x[at[0]]; });                                     \
    }
KERNELS(f32, uint32_t)
KERNELS(f64, uint64_t)
KERNELS(f16, uint16_t)
KERNELS(bf16, uint16_t)
KERNELS(f8_e4m3, uint8_t)
KERNELS(u8, uint8_t)
KERNELS(u32, uint32_t)
KERNELS(i16, uint16_t)
KERNELS(i32, uint32_t)
KERNELS(i64, uint64_t)
