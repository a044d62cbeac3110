/* What the flash attentions on matrix tiles share (attention_prefill.hip, sdpa_tile.hip): rows on their way to shared
 * memory, weights as operands, the product of values and weights. */
#ifndef BW_ATTENTION_TILE_H
#define BW_ATTENTION_TILE_H

#include "bw_pack.h"
#include "bw_tile.h"

enum { BW_TILE_PAD = 8 /* elements after each row of shared memory: rows then begin in different banks */ };
#define BW_LOG2E 1.44269504f

/* Which chunk of 8 elements is a thread's e-th, of ROWS rows of WIDTH elements. Neighbouring threads take neighbouring
 * chunks of a row, or where it will be transposed, the same one of neighbouring rows. */
template <int BLOCK, int ROWS, int WIDTH> struct bw_tile_chunks {
    static constexpr int PARTS = WIDTH / 8, EACH = (ROWS * PARTS + BLOCK - 1) / BLOCK;

    BW_DEVICE_SPECIAL static int number(int e)
    {
        return e * BLOCK + bw_thread();
    }
    BW_DEVICE_SPECIAL static bool is_there(int e)
    {
        return ROWS * PARTS % BLOCK == 0 || number(e) < ROWS * PARTS;
    }
    template <bool TRANSPOSES> BW_DEVICE_SPECIAL static int row(int e)
    {
        return TRANSPOSES ? number(e) % ROWS : number(e) / PARTS;
    }
    template <bool TRANSPOSES> BW_DEVICE_SPECIAL static int element(int e)
    {
        return (TRANSPOSES ? number(e) / ROWS : number(e) % PARTS) * 8;
    }
    /* To rows, or columns, of shared memory `stride` elements apart. */
    template <bool TRANSPOSES> BW_DEVICE_SPECIAL static void store(int e, uint16_t *shared, int stride, const bw_16 &x)
    {
        if constexpr (TRANSPOSES) {
            uint16_t *to = shared + element<TRANSPOSES>(e) * stride + row<TRANSPOSES>(e);
#pragma unroll
            for (int j = 0; j < 8; j++)
                to[j * stride] = (uint16_t)(x.w[j / 2] >> 16 * (j % 2));
        } else {
            bw_store16(shared + row<TRANSPOSES>(e) * stride + element<TRANSPOSES>(e), x);
        }
    }
};

/* body(0) to body(N - 1), one after another or, so that what is kept of each may lie in registers, side by side. */
template <int N, bool IN_TURN, typename F> BW_DEVICE void bw_each_step(F body)
{
    if constexpr (IN_TURN) {
#pragma unroll 1
        for (int s = 0; s < N; s++)
            body(s);
    } else {
#pragma unroll
        for (int s = 0; s < N; s++)
            body(s);
    }
}

/* Weights as two operands whose sum they are but for the second's rounding. */
template <typename T> BW_DEVICE void bw_split_weights(const bw_acc &weights, bw_frag<T> (&f)[2])
{
    bw_acc high, low;
#pragma unroll
    for (int i = 0; i < BW_ACC_EACH; i++) {
        high.x[i] = bw_get(bw_put<T>(weights.x[i]));
        low.x[i] = weights.x[i] - high.x[i];
    }
    bw_frag_of_acc(f[0], high);
    bw_frag_of_acc(f[1], low);
}

/* Scales a tile's sums to the new largest scores of its queries. */
template <int STEPS> BW_DEVICE void bw_shrink_sums(bw_acc (&out)[STEPS], const float (&shrink)[BW_ACC_COLUMNS])
{
#pragma unroll
    for (int d = 0; d < STEPS; d++)
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++)
            out[d].x[i] *= shrink[bw_acc_column_slot(i)];
}

/* out += values times a wave's weights. values: rows of keys STRIDE apart, or rows of elements where fragments are not
 * loaded across. */
template <typename T, int STRIDE, int TILES, int KEY_TILES, int STEPS>
BW_DEVICE void bw_add_values(const T *values, const bw_acc (&weights)[TILES][KEY_TILES], bw_acc (&out)[TILES][STEPS])
{
#pragma unroll
    for (int kt = 0; kt < KEY_TILES; kt++) {
        bw_frag<T> weight[TILES][2];
#pragma unroll
        for (int t = 0; t < TILES; t++)
            bw_split_weights(weights[t][kt], weight[t]);
#pragma unroll
        for (int d = 0; d < STEPS; d++) {
            bw_frag<T> f;
            if constexpr (BW_FRAG_LOADS_T)
                bw_frag_load_t(f, values + kt * 16 * STRIDE + d * 16, STRIDE);
            else
                bw_frag_load(f, values + d * 16 * STRIDE + kt * 16, STRIDE);
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int which = 0; which < 2; which++)
                    bw_mma(out[t][d], f, weight[t][which]);
        }
    }
}

#endif
