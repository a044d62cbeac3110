/* Device code: what LINEAR's kernels for a few rows of activations share: a workgroup of up to BLOCK threads computes
 * ROWS rows of the weight, its threads sharing K.
 */
#ifndef BW_LINEAR_VEC_H
#define BW_LINEAR_VEC_H

#include "bw_words.h"
#include "linear/bw_linear_gpu.h"

enum { BLOCK = 256, ROWS = BW_LINEAR_VEC_ROWS, MOST = ROWS * BW_LINEAR_FEW };

/* The sums over all lanes of C values, a power of two: returns the one of index bw_lane() / (BW_WAVE / C). At each step
 * a lane keeps half of the values and gives the others away. */
template <int C> BW_DEVICE float sum_lanes(float (&v)[C], int mask)
{
    if constexpr (C == 1) {
        float x = v[0];
        for (; mask > 0; mask >>= 1)
            x += bw_shuffle_xor(x, mask);
        return x;
    } else {
        const bool upper = bw_lane() & mask;
        float half[C / 2];
#pragma unroll
        for (int i = 0; i < C / 2; i++) {
            float give = upper ? v[i] : v[i + C / 2], keep = upper ? v[i + C / 2] : v[i];
            half[i] = keep + bw_shuffle_xor(give, mask);
        }
        return sum_lanes<C / 2>(half, mask >> 1);
    }
}

/* Adds up sums [t][row] of all threads and writes them with the bias. n0, t0: the workgroup's corner. */
template <int T>
BW_DEVICE void finish(const bw_linear_args &p, float (&sums)[T * ROWS], int n0, int t0, const float *bias, float *y)
{
    BW_SHARED float shared[BLOCK / BW_WAVE][MOST];
    constexpr int C = T * ROWS, SOME = C < 16 ? C : 16, EACH = BW_WAVE / SOME;
    const int n_waves = bw_block_threads() / BW_WAVE;
#pragma unroll
    for (int first = 0; first < C; first += SOME) {
        float some[SOME];
#pragma unroll
        for (int i = 0; i < SOME; i++)
            some[i] = sums[first + i];
        float sum = sum_lanes<SOME>(some, BW_WAVE / 2);
        if (bw_lane() % EACH == 0)
            shared[bw_thread() / BW_WAVE][first + bw_lane() / EACH] = sum;
    }
    bw_barrier();
    const int t = t0 + bw_thread() / ROWS, n = n0 + bw_thread() % ROWS;
    if (bw_thread() < C && t < p.t && n < p.n) {
        float total = bias ? bias[n] : 0;
        for (int i = 0; i < n_waves; i++)
            total += shared[i][bw_thread()];
        y[t * p.y_row + n] = total;
    }
}

/* Eight neighbouring activations. */
BW_DEVICE void load_activations(const bw_linear_args &p, const float *x, float (&v)[8])
{
    if (p.x_is_aligned) {
        bw_16 a = bw_load16(x), b = bw_load16(x + 4);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = bw_from_bits(a.w[i]);
            v[i + 4] = bw_from_bits(b.w[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] = x[i];
    }
}

#endif
