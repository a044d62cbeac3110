/* The functions of unary.def on a GPU. f64: the row's formula in f64. f32 and the shorter types: the row's formula for
 * vectors, of one element here, and from the row's limit on the f64 one. A NaN that stays one keeps its bits. */
#include "bw_kernel.h"

#define INFINITY __builtin_inff()
#define BW_SQRT_HALF 0.70710678118654752440

/* What the f64 formulas call. */
#define exp(x) bw_exp(x)
#define log(x) bw_log(x)
#define sin(x) bw_sin(x)
#define cos(x) bw_cos(x)
#define tanh(x) bw_tanh(x)
#define erf(x) bw_erf(x)
#define erfc(x) bw_erfc(x)
#define expm1(x) bw_expm1(x)
#define pow(x, p) bw_pow(x, p)
#define sqrt(x) bw_sqrt(x)
#define fabs(x) bw_fabs(x)
#define ceil(x) bw_ceil(x)
#define floor(x) bw_floor(x)
#define round(x) bw_round_away(x)

BW_DEVICE double bw_gelu_tanh_f64(double x)
{
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x / (1 + bw_exp(-2 * u));
}

/* And the formulas for vectors. */
#define vf_neg(x) (-(x))
#define vf_set1(x) (x)
#define vf_div(a, b) ((a) / (b))
#define vf_mul(a, b) ((a) * (b))
#define vf_exp_all(x) bw_exp(x)
#define vf_log(x) bw_log(x)
#define vf_sin(x) bw_sin(x)
#define vf_cos(x) bw_cos(x)
#define vf_tanh(x) bw_tanh(x)
#define vf_erf(x) bw_erf(x)
#define vf_normcdf(x) bw_normcdf(x)
#define vf_sqrt(x) bw_sqrt(x)
#define vf_abs(x) bw_fabs(x)
#define vf_ceil(x) bw_ceil(x)
#define vf_floor(x) bw_floor(x)
#define vf_round_away(x) bw_round_away(x)
#define vf_relu(x) ((x) > 0 ? (x) : 0.0f)
#define vf_sign(x) ((float)(((x) > 0) - ((x) < 0)))
#define vf_pow(x, p) bw_pow(x, p)

BW_DEVICE float vf_logistic(float x)
{
    float e = bw_exp(-bw_fabs(x)); /* never overflows, and keeps what is small on the negative side */
    return (x < 0 ? e : 1.0f) / (1 + e);
}
BW_DEVICE float vf_gelu_tanh(float x)
{
    float u = 0.797884561f * (x + 0.044715f * x * x * x);
    return x / (1 + bw_exp(-2 * u));
}
BW_DEVICE float vf_gelu_erf(float x)
{
    return x * bw_normcdf(x);
}
BW_DEVICE float vf_elu(float x, double p)
{
    return x > 0 ? x : (float)p * bw_expm1(x);
}

/* One type per row, with its function in both widths. */
#define BW_UNARY(NAME, name, has_param, f64, vector, limit, is_exact, magnitude, step, formula)                        \
    struct name##_row {                                                                                                \
        static BW_DEVICE_SPECIAL double of(double x, double p)                                                         \
        {                                                                                                              \
            (void)p;                                                                                                   \
            return f64;                                                                                                \
        }                                                                                                              \
        static BW_DEVICE_SPECIAL float of(float x, double p)                                                           \
        {                                                                                                              \
            if (bw_fabs(x) >= limit && limit < INFINITY)                                                               \
                return (float)of((double)x, p);                                                                        \
            return vector;                                                                                             \
        }                                                                                                              \
    };
#include "unary/unary.def"
#undef BW_UNARY

template <typename ROW, typename T> BW_DEVICE void unary(ROW, const bw_loop &loop, const T *x, T *y, double p)
{
    bw_for_each_once<2>(loop, [=](const int64_t(&at)[2]) {
        T own = x[at[0]];
        typename bw_wide<T>::type v = bw_get(own), result = ROW::of(v, p);
        T stored = bw_put<T>(result);
        y[at[1]] = v != v && result != result ? own : stored;
    });
}

/* UNEG and UABS work on the bits: B of as many as T. */
template <int BYTES> struct bits_of;
template <> struct bits_of<1> {
    typedef uint8_t type;
};
template <> struct bits_of<2> {
    typedef uint16_t type;
};
template <> struct bits_of<4> {
    typedef uint32_t type;
};
template <> struct bits_of<8> {
    typedef uint64_t type;
};
/* Kept: all bits, or all but the sign; then the sign is turned over or left. */
template <bool KEEPS, typename T> BW_DEVICE void set_sign(const bw_loop &loop, const T *x, T *y)
{
    typedef typename bits_of<sizeof(T)>::type B;
    const B top = (B)((B)1 << (8 * sizeof(B) - 1)), keep = KEEPS ? (B)~(B)0 : (B)~top, turn = KEEPS ? top : (B)0;
    const B *from = (const B *)x;
    B *to = (B *)y;
    bw_for_each_once<2>(loop, [=](const int64_t(&at)[2]) { to[at[1]] = (B)((from[at[0]] & keep) ^ turn); });
}
template <typename T> BW_DEVICE void unary(uneg_row, const bw_loop &loop, const T *x, T *y, double)
{
    set_sign<true>(loop, x, y);
}
template <typename T> BW_DEVICE void unary(uabs_row, const bw_loop &loop, const T *x, T *y, double)
{
    set_sign<false>(loop, x, y);
}

#define KERNEL(name, type, T)                                                                                          \
    BW_KERNEL(256, name##_##type)(const bw_loop loop, const T *x, T *y, double p)                                      \
    {                                                                                                                  \
        unary(name##_row(), loop, x, y, p);                                                                            \
    }
#define BW_UNARY(NAME, name, has_param, in_f64, vector, limit, is_exact, magnitude, step, formula)                     \
    KERNEL(name, f32, float)                                                                                           \
    KERNEL(name, f64, double)                                                                                          \
    KERNEL(name, f16, bw_f16)                                                                                          \
    KERNEL(name, bf16, bw_bf16)                                                                                        \
    KERNEL(name, f8_e4m3, bw_f8)
#include "unary/unary.def"
#undef BW_UNARY
