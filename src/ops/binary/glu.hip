/* GLU on a GPU: y = act(gate) * up, any strides. Short floats are computed in f32. */
#include "bw_kernel.h"

struct silu {
    template <typename W> BW_DEVICE W of(W x)
    {
        return x / (1 + bw_exp(-x));
    }
};
/* (1 + tanh u) / 2 is the logistic function of 2u, and loses nothing far down the negative side. */
struct gelu_tanh {
    template <typename W> BW_DEVICE W of(W x)
    {
        W u = (W)0.79788456080286535588 * (x + (W)0.044715 * x * x * x);
        return x / (1 + bw_exp(-2 * u));
    }
};
struct gelu_erf {
    BW_DEVICE float of(float x)
    {
        return x * bw_normcdf(x);
    }
    BW_DEVICE double of(double x)
    {
        return 0.5 * x * bw_erfc(-x * 0.70710678118654752440);
    }
};

/* A thread per element, also of dense loops: a loop over the formulas would keep their constants in scalar registers. */
template <typename A, typename T> BW_DEVICE void glu(const bw_loop &loop, const T *gate, const T *up, T *y)
{
    const int64_t i = bw_grid_thread();
    if (i >= loop.n)
        return;
    int64_t at[3] = {i, i, i};
    if (!bw_loop_is_dense(loop, 3))
        bw_loop_offsets<3, uint32_t>(loop, (uint32_t)i, at);
    y[at[2]] = bw_put<T>(A::of(bw_get(gate[at[0]])) * bw_get(up[at[1]]));
}

#define KERNEL(act, name, T)                                                                                           \
    BW_KERNEL(256, glu_##act##_##name)(const bw_loop loop, const T *gate, const T *up, T *y)                           \
    {                                                                                                                  \
        glu<act>(loop, gate, up, y);                                                                                   \
    }
#define TYPES(act)                                                                                                     \
    KERNEL(act, f32, float)                                                                                            \
    KERNEL(act, f64, double)                                                                                           \
    KERNEL(act, f16, bw_f16)                                                                                           \
    KERNEL(act, bf16, bw_bf16)                                                                                         \
    KERNEL(act, f8_e4m3, bw_f8)
TYPES(silu)
TYPES(gelu_tanh)
TYPES(gelu_erf)
