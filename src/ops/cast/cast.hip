/* CAST on a GPU: every pair of the ten types. Floats to integers truncate and saturate, NaN is 0; integers wrap; a type to
 * itself is copied bit for bit. */
#include "bw_kernel.h"

template <typename T> struct limits;
#define LIMITS(T, low_value, high_value)                                                                               \
    template <> struct limits<T> {                                                                                     \
        static constexpr int64_t low = low_value, high = high_value;                                                   \
    };
LIMITS(uint8_t, 0, 255)
LIMITS(uint32_t, 0, 4294967295ll)
LIMITS(int16_t, -32768, 32767)
LIMITS(int32_t, -2147483647ll - 1, 2147483647ll)
LIMITS(int64_t, -9223372036854775807ll - 1, 9223372036854775807ll)

/* value: f32 or f64. The comparisons are exact: each limit or its successor is a power of two in either type. */
template <typename R, typename W> BW_DEVICE R to_integer(W value)
{
    const W past_high = (W)limits<R>::high + (W)1; /* rounds to the power of two for the wide types */
    if (!(value == value))
        return 0;
    if (value >= past_high)
        return (R)limits<R>::high;
    return value <= (W)limits<R>::low ? (R)limits<R>::low : (R)(int64_t)value;
}

/* An integer to f32 or f64 with one rounding, and an f64 to the short types likewise: through an f32 that is odd where it
 * is inexact. */
BW_DEVICE float to_f32_odd(double x)
{
    float f = (float)x;
    if (x != x || (double)f == x)
        return f;
    uint32_t bits = bw_bits(f);
    double back = (double)f;
    if ((back < 0 ? -back : back) > (x < 0 ? -x : x))
        bits--;
    return bw_from_bits(bits | 1);
}
BW_DEVICE float to_f32_odd(int64_t x)
{
    /* the double may be rounded as well: odd once more */
    double d = (double)x;
    if (x > -(1ll << 53) && x < (1ll << 53))
        return to_f32_odd(d);
    int64_t low = x & 0x7ff; /* what lies below the double's 53 bits at most */
    return to_f32_odd((double)(x & ~0x7ffll) + (low ? 1024.0 : 0.0));
}

enum { FLOAT, INTEGER };
template <typename T> struct kind {
    static constexpr int value = INTEGER;
};
#define IS_FLOAT(T)                                                                                                    \
    template <> struct kind<T> {                                                                                       \
        static constexpr int value = FLOAT;                                                                            \
    };
IS_FLOAT(float)
IS_FLOAT(double)
IS_FLOAT(bw_f16)
IS_FLOAT(bw_bf16)
IS_FLOAT(bw_f8)

template <typename R, typename W> BW_DEVICE R to_short(W x)
{
    return bw_put<R>(to_f32_odd(x));
}
template <> BW_DEVICE_SPECIAL float to_short<float, double>(double x)
{
    return (float)x;
}
template <> BW_DEVICE_SPECIAL double to_short<double, double>(double x)
{
    return x;
}
template <> BW_DEVICE_SPECIAL float to_short<float, int64_t>(int64_t x)
{
    return (float)x;
}
template <> BW_DEVICE_SPECIAL double to_short<double, int64_t>(int64_t x)
{
    return (double)x;
}

template <typename T, typename R, int FROM, int TO> struct cast;
template <typename T, typename R> struct cast<T, R, FLOAT, FLOAT> {
    BW_DEVICE R of(T x)
    {
        return to_short<R, double>((double)bw_get(x));
    }
};
template <typename T, typename R> struct cast<T, R, FLOAT, INTEGER> {
    BW_DEVICE R of(T x)
    {
        return to_integer<R>(bw_get(x));
    }
};
template <typename T, typename R> struct cast<T, R, INTEGER, FLOAT> {
    BW_DEVICE R of(T x)
    {
        return to_short<R, int64_t>((int64_t)x);
    }
};
template <typename T, typename R> struct cast<T, R, INTEGER, INTEGER> {
    BW_DEVICE R of(T x)
    {
        return (R)x;
    }
};
#define SAME(T)                                                                                                        \
    template <> struct cast<T, T, FLOAT, FLOAT> {                                                                      \
        BW_DEVICE T of(T x)                                                                                            \
        {                                                                                                              \
            return x;                                                                                                  \
        }                                                                                                              \
    };
SAME(float)
SAME(double)
SAME(bw_f16)
SAME(bw_bf16)
SAME(bw_f8)

#define KERNEL(from, T, to, R)                                                                                         \
    BW_KERNEL(256, cast_##from##_##to)(const bw_loop loop, const T *x, R *y)                                           \
    {                                                                                                                  \
        bw_for_each<2>(loop, [=](const int64_t(&at)[2]) {                                                              \
            y[at[1]] = cast<T, R, kind<T>::value, kind<R>::value>::of(x[at[0]]);                                       \
        });                                                                                                            \
    }
#define FROM(from, T)                                                                                                  \
    KERNEL(from, T, f32, float)                                                                                        \
    KERNEL(from, T, f64, double)                                                                                       \
    KERNEL(from, T, f16, bw_f16)                                                                                       \
    KERNEL(from, T, bf16, bw_bf16)                                                                                     \
    KERNEL(from, T, f8_e4m3, bw_f8)                                                                                    \
    KERNEL(from, T, u8, uint8_t)                                                                                       \
    KERNEL(from, T, u32, uint32_t)                                                                                     \
    KERNEL(from, T, i16, int16_t)                                                                                      \
    KERNEL(from, T, i32, int32_t)                                                                                      \
    KERNEL(from, T, i64, int64_t)
FROM(f32, float)
FROM(f64, double)
FROM(f16, bw_f16)
FROM(bf16, bw_bf16)
FROM(f8_e4m3, bw_f8)
FROM(u8, uint8_t)
FROM(u32, uint32_t)
FROM(i16, int16_t)
FROM(i32, int32_t)
FROM(i64, int64_t)
