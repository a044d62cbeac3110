/* RMSNORM and LAYERNORM on a GPU: one workgroup per row. Contiguous rows whose bytes are a multiple of 16 and which fit
 * in registers are read once (the kernels named _packs); all others are read as often as they are needed. */
#include "bw_kernel.h"

#include "reduce/bw_norm_rows.h"

template <bool CENTRED, typename T>
BW_DEVICE void norm(const bw_loop &rows, const bw_rows_args &a, const T *x, const T *w, const T *b, T *y)
{
    int64_t at[2];
    bw_loop_offsets<2, uint64_t>(rows, (uint64_t)(a.first_row + bw_block()), at);
    bw_norm_row<CENTRED>(a, x + at[0], w, b, y + at[1]);
}

/* R packs at most in each thread's registers. */
template <bool CENTRED, int R, typename T>
BW_DEVICE void norm_packs(const bw_loop &rows, const bw_rows_args &a, const T *x, const T *w, const T *b, T *y)
{
    int64_t at[2];
    bw_loop_offsets<2, uint64_t>(rows, (uint64_t)(a.first_row + bw_block()), at);
    bw_pack<T> packs[R];
    bw_load_packs(packs, x + at[0], (int)(a.n / bw_pack<T>::N));
    bw_norm_packs<CENTRED>(packs, x[at[0]], w, b, y + at[1], a.n, a.eps);
}

#define KERNEL(name, T, function)                                                                                      \
    BW_KERNEL(BW_ROWS_THREADS, name)                                                                                   \
    (const bw_loop rows, const bw_rows_args a, const T *x, const T *w, const T *b, T *y)                               \
    {                                                                                                                  \
        function(rows, a, x, w, b, y);                                                                                 \
    }
#define KERNELS(type, T, MOST)                                                                                              \
    KERNEL(rmsnorm_##type, T, (norm<false, T>))                                                                        \
    KERNEL(rmsnorm_packs_few_##type, T, (norm_packs<false, BW_ROWS_FEW, T>))                                                       \
    KERNEL(rmsnorm_packs_most_##type, T, (norm_packs<false, MOST, T>))                                                       \
    KERNEL(layernorm_##type, T, (norm<true, T>))                                                                       \
    KERNEL(layernorm_packs_few_##type, T, (norm_packs<true, BW_ROWS_FEW, T>))                                                      \
    KERNEL(layernorm_packs_most_##type, T, (norm_packs<true, MOST, T>))
KERNELS(f32, float, BW_ROWS_PACKS)
KERNELS(f64, double, BW_ROWS_PACKS)
KERNELS(f16, bw_f16, BW_ROWS_PACKS / 2)
KERNELS(bf16, bw_bf16, BW_ROWS_PACKS / 2)
