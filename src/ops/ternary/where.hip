/* WHERE on a GPU: y = c ? a : b, values as the bits they are. */
#include "bw_kernel.h"

#define KERNEL(ids, C, type, T)                                                                                        \
    BW_KERNEL(256, where_##ids##_##type)(const bw_loop loop, const C *c, const T *a, const T *b, T *y)                 \
    {                                                                                                                  \
        bw_for_each<4>(loop, [=](const int64_t(&at)[4]) { y[at[3]] = c[at[0]] ? a[at[1]] : b[at[2]]; });               \
    }
#define CONDITION(ids, C)                                                                                              \
    KERNEL(ids, C, f32, uint32_t)                                                                                      \
    KERNEL(ids, C, f64, uint64_t)                                                                                      \
    KERNEL(ids, C, f16, uint16_t)                                                                                      \
    KERNEL(ids, C, bf16, uint16_t)                                                                                     \
    KERNEL(ids, C, f8_e4m3, uint8_t)                                                                                   \
    KERNEL(ids, C, u8, uint8_t)                                                                                        \
    KERNEL(ids, C, u32, uint32_t)                                                                                      \
    KERNEL(ids, C, i16, uint16_t)                                                                                      \
    KERNEL(ids, C, i32, uint32_t)                                                                                      \
    KERNEL(ids, C, i64, uint64_t)
CONDITION(u8, uint8_t)
CONDITION(u32, uint32_t)
CONDITION(i64, int64_t)
CONDITION(i16, int16_t)
CONDITION(i32, int32_t)
