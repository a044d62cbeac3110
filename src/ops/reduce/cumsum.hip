/* CUMSUM on a GPU, accumulated in f64. A workgroup walks one row along the axis in tiles (each thread a few consecutive
 * elements, their sums scanned in shared memory), or, where rows are short or many side by side, each thread walks one. */
#include "bw_kernel.h"

enum { BLOCK = 256, EACH = 8 };

template <typename T>
BW_DEVICE void by_workgroup(const bw_loop &rest, int64_t first, const T *x, T *y, int64_t n, int64_t x_step, int64_t y_step)
{
    BW_SHARED double sums[2][BLOCK]; /* one is read while the other is written */
    const int thread = bw_thread();
    int64_t at[2];
    bw_loop_offsets<2, uint64_t>(rest, (uint64_t)(first + bw_block()), at);
    x += at[0];
    y += at[1];
    double before = 0; /* of the tiles so far */
    for (int64_t tile = 0; tile < n; tile += BLOCK * EACH) {
        double own[EACH], sum = 0;
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            int64_t i = tile + thread * EACH + k;
            sum += i < n ? (double)bw_get(x[i * x_step]) : 0;
            own[k] = sum;
        }
        int which = 0;
        sums[0][thread] = sum;
#pragma unroll
        for (int distance = 1; distance < BLOCK; distance *= 2) {
            bw_barrier();
            double more = sums[which][thread];
            if (thread >= distance)
                more = sums[which][thread - distance] + more;
            which ^= 1;
            sums[which][thread] = more;
        }
        bw_barrier();
        double start = thread > 0 ? before + sums[which][thread - 1] : before;
        before += sums[which][BLOCK - 1];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            int64_t i = tile + thread * EACH + k;
            if (i < n)
                y[i * y_step] = bw_put<T>((typename bw_wide<T>::type)(start + own[k]));
        }
        bw_barrier(); /* the next tile begins in sums[0] */
    }
}

template <typename T>
BW_DEVICE void by_thread(const bw_loop &rest, int64_t first, const T *x, T *y, int64_t n, int64_t x_step, int64_t y_step)
{
    int64_t at[2], column = first + bw_grid_thread();
    if (column >= rest.n)
        return;
    bw_loop_offsets<2, uint64_t>(rest, (uint64_t)column, at);
    x += at[0];
    y += at[1];
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)bw_get(x[i * x_step]);
        y[i * y_step] = bw_put<T>((typename bw_wide<T>::type)sum);
    }
}

#define KERNELS(type, T)                                                                                               \
    BW_KERNEL(BLOCK, cumsum_##type)                                                                                    \
    (const bw_loop rest, int64_t first, const T *x, T *y, int64_t n, int64_t x_step, int64_t y_step)                   \
    {                                                                                                                  \
        by_workgroup<T>(rest, first, x, y, n, x_step, y_step);                                                         \
    }                                                                                                                  \
    BW_KERNEL(BLOCK, cumsum_columns_##type)                                                                            \
    (const bw_loop rest, int64_t first, const T *x, T *y, int64_t n, int64_t x_step, int64_t y_step)                   \
    {                                                                                                                  \
        by_thread<T>(rest, first, x, y, n, x_step, y_step);                                                            \
    }
KERNELS(f32, float)
KERNELS(f64, double)
KERNELS(f16, bw_f16)
KERNELS(bf16, bw_bf16)
