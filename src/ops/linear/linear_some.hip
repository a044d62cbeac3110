/* LINEAR on a GPU for up to BW_LINEAR_SOME rows of activations, on matrix units without shared memory: every wave takes
 * pieces of K, fills fragments straight from device memory (any order of k will do where both operands agree: bw_tile.h),
 * and the waves' sums are added at the end. So each weight is read and decoded once, and many loads are under way.
 *
 * The weight is operand a, the activations (16 bits, bw_linear_gpu.h) operand b.
 */
#include "bw_tile.h"
#include "linear/bw_linear_blocks.h"

enum { BLOCK = 256 };

/* The workgroup's results, [TILES][16 x 16] of every wave added up, to y with scales and bias. Tiles: r * TT + t. */
template <int RT, int TT>
BW_DEVICE void finish(const bw_linear_args &p, bw_acc (&acc)[RT][TT], int n0, int t0, const uint8_t *x,
                      const float *bias, float *y)
{
    constexpr int WAVES = BLOCK / BW_WAVE;
    BW_SHARED float shared[WAVES / 2][RT * TT * 256];
    const int wave = bw_thread() / BW_WAVE;
#pragma unroll
    for (int half = WAVES / 2; half > 0; half /= 2) {
        if (wave >= half && wave < 2 * half) {
#pragma unroll
            for (int i = 0; i < RT * TT * BW_ACC_EACH; i++)
                shared[wave - half][i * BW_WAVE + bw_lane()] =
                    acc[i / BW_ACC_EACH / TT][i / BW_ACC_EACH % TT].x[i % BW_ACC_EACH];
        }
        bw_barrier();
        if (wave < half) {
#pragma unroll
            for (int i = 0; i < RT * TT * BW_ACC_EACH; i++)
                acc[i / BW_ACC_EACH / TT][i / BW_ACC_EACH % TT].x[i % BW_ACC_EACH] +=
                    shared[wave][i * BW_WAVE + bw_lane()];
        }
        bw_barrier();
    }
    if (wave != 0)
        return;
#pragma unroll
    for (int r = 0; r < RT; r++)
#pragma unroll
        for (int t = 0; t < TT; t++)
#pragma unroll
            for (int i = 0; i < BW_ACC_EACH; i++) {
                const int n = n0 + r * 16 + bw_acc_row(i), token = t0 + t * 16 + bw_acc_column(i);
                if (n < p.n && token < p.t) {
                    const float scale = *(const float *)(x + token * p.x_row + 2 * p.k);
                    const float value = acc[r][t].x[i] * scale;
                    y[token * p.y_row + n] = bias ? value + bias[n] : value;
                }
            }
}

/* PAIRS pairs of a row from k on. Nothing here is conditional, so that loads may be moved ahead: past the end of K a lane
 * reads what the row begins with, and the activations there count as zeros. IS_ONCE: nobody else reads them. */
template <int PAIRS, bool IS_ONCE> BW_DEVICE void take(uint32_t (&to)[PAIRS], const uint8_t *row, int k)
{
#pragma unroll
    for (int i = 0; i < PAIRS; i += 4) {
        bw_16 v = IS_ONCE ? bw_load16_once(row + 2 * k + 4 * i) : bw_load16(row + 2 * k + 4 * i);
#pragma unroll
        for (int j = 0; j < 4; j++)
            to[i + j] = v.w[j];
    }
}
template <int PAIRS> BW_DEVICE void zero_unless(uint32_t (&pairs)[PAIRS], bool is_there)
{
#pragma unroll
    for (int i = 0; i < PAIRS; i++)
        pairs[i] = is_there ? pairs[i] : 0;
}

/* acc += the products of PAIRS pairs of each lane's rows. */
template <typename T, int PAIRS>
BW_DEVICE void multiply(bw_acc &acc, const uint32_t (&a)[BW_FRAG_ROWS][PAIRS], const uint32_t (&b)[BW_FRAG_ROWS][PAIRS])
{
#pragma unroll
    for (int step = 0; step < PAIRS / BW_FRAG_PAIRS; step++) {
        bw_frag<T> fa, fb;
#pragma unroll
        for (int i = 0; i < BW_FRAG_ROWS; i++)
#pragma unroll
            for (int j = 0; j < BW_FRAG_PAIRS; j++) {
                fa.w[bw_frag_word(i, j)] = a[i][step * BW_FRAG_PAIRS + j];
                fb.w[bw_frag_word(i, j)] = b[i][step * BW_FRAG_PAIRS + j];
            }
        bw_mma(acc, fa, fb);
    }
}

template <int RT, int TT> BW_DEVICE void clear(bw_acc (&acc)[RT][TT])
{
#pragma unroll
    for (int r = 0; r < RT; r++)
#pragma unroll
        for (int t = 0; t < TT; t++)
            bw_acc_zero(acc[r][t]);
}

/* Weights of 16 bits, rows aligned to 16 bytes, K a multiple of 16. */
template <typename T, int RT, int TT>
BW_DEVICE void some_halves(const bw_linear_args &p, int n0, int t0, const uint8_t *w, const uint8_t *x,
                           const float *bias, float *y)
{
    constexpr int PAIRS = BW_FRAG_PAIRS > 4 ? BW_FRAG_PAIRS : 4, PIECE = PAIRS * 2 * BW_FRAG_GROUPS;
    constexpr int WAVES = BLOCK / BW_WAVE, AHEAD = RT * TT > 2 ? 2 : 4;
    const int own = bw_frag_group() * PAIRS * 2;
    const uint8_t *rows[RT][BW_FRAG_ROWS], *tokens[TT][BW_FRAG_ROWS];
#pragma unroll
    for (int i = 0; i < BW_FRAG_ROWS; i++) {
#pragma unroll
        for (int r = 0; r < RT; r++) {
            const int n = n0 + r * 16 + bw_frag_row(i);
            rows[r][i] = w + (n < p.n ? n : p.n - 1) * p.w_row;
        }
#pragma unroll
        for (int t = 0; t < TT; t++) {
            const int token = t0 + t * 16 + bw_frag_row(i);
            tokens[t][i] = x + (token < p.t ? token : p.t - 1) * p.x_row;
        }
    }
    bw_acc acc[RT][TT];
    clear(acc);
    for (int k0 = bw_thread() / BW_WAVE * PIECE * AHEAD; k0 < p.k; k0 += WAVES * PIECE * AHEAD) {
        uint32_t a[AHEAD][RT][BW_FRAG_ROWS][PAIRS], b[AHEAD][TT][BW_FRAG_ROWS][PAIRS];
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            const bool is_there = k0 + s * PIECE + own < p.k;
            const int k = is_there ? k0 + s * PIECE + own : 0;
#pragma unroll
            for (int i = 0; i < BW_FRAG_ROWS; i++) {
#pragma unroll
                for (int r = 0; r < RT; r++)
                    take<PAIRS, true>(a[s][r][i], rows[r][i], k);
#pragma unroll
                for (int t = 0; t < TT; t++) {
                    take<PAIRS, false>(b[s][t][i], tokens[t][i], k);
                    zero_unless(b[s][t][i], is_there);
                }
            }
        }
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
#pragma unroll
            for (int r = 0; r < RT; r++)
#pragma unroll
                for (int t = 0; t < TT; t++)
                    multiply<T, PAIRS>(acc[r][t], a[s][r], b[s][t]);
    }
    finish(p, acc, n0, t0, x, bias, y);
}

/* Quantised weights: a lane decodes whole blocks of 32. */
template <typename B, int RT, int TT>
BW_DEVICE void some_blocks(const bw_linear_args &p, int n0, int t0, const uint8_t *w, const uint8_t *x,
                           const float *bias, float *y)
{
    constexpr int WAVES = BLOCK / BW_WAVE;
    const int n_blocks = p.k / 32;
    bw_acc acc[RT][TT];
    clear(acc);
    for (int b0 = bw_thread() / BW_WAVE * BW_FRAG_GROUPS; b0 < n_blocks; b0 += WAVES * BW_FRAG_GROUPS) {
        const bool is_there = b0 + bw_frag_group() < n_blocks;
        const int b = is_there ? b0 + bw_frag_group() : 0;
        B raw[RT][BW_FRAG_ROWS];
#pragma unroll
        for (int r = 0; r < RT; r++)
#pragma unroll
            for (int i = 0; i < BW_FRAG_ROWS; i++) {
                const int n = n0 + r * 16 + bw_frag_row(i);
                raw[r][i].load(w + (n < p.n ? n : p.n - 1) * p.w_row, p, b);
            }
        uint32_t a[RT][BW_FRAG_ROWS][16];
#pragma unroll
        for (int r = 0; r < RT; r++)
#pragma unroll
            for (int i = 0; i < BW_FRAG_ROWS; i++)
                raw[r][i].halves(a[r][i]);
#pragma unroll
        for (int t = 0; t < TT; t++) {
            uint32_t v[BW_FRAG_ROWS][16];
#pragma unroll
            for (int i = 0; i < BW_FRAG_ROWS; i++) {
                const int token = t0 + t * 16 + bw_frag_row(i);
                take<16, false>(v[i], x + (token < p.t ? token : p.t - 1) * p.x_row, b * 32);
                zero_unless(v[i], is_there);
            }
#pragma unroll
            for (int r = 0; r < RT; r++)
                multiply<bw_f16, 16>(acc[r][t], a[r], v);
        }
    }
    finish(p, acc, n0, t0, x, bias, y);
}

#define SOME(name, body, type, RT, TT)                                                                                 \
    BW_KERNEL_WIDE(BLOCK, linear_some_##name##_##RT##_##TT)                                                                 \
    (const bw_linear_args p, const uint8_t *w, const uint8_t *x, const float *bias, float *y)                          \
    {                                                                                                                  \
        const int n0 = (int)bw_block() * RT * 16;                                                                      \
        if constexpr (BW_TILE_IS_PLAIN) {                                                                              \
            _Pragma("unroll 1") for (int i = 0; i < RT * TT; i++)                                                      \
                body<BW_UNPAREN type, 1, 1>(p, n0 + i / TT * 16, i % TT * 16, w, x, bias, y);                          \
        } else {                                                                                                       \
            body<BW_UNPAREN type, RT, TT>(p, n0, 0, w, x, bias, y);                                                    \
        }                                                                                                              \
    }
#define SOMES(name, body, type)                                                                                        \
    SOME(name, body, type, 1, 1) SOME(name, body, type, 2, 1) SOME(name, body, type, 1, 2) SOME(name, body, type, 1, 4)
#define BLOCKS(name, type) SOMES(name, some_blocks, type)
SOMES(f16, some_halves, (bw_f16))
SOMES(bf16, some_halves, (bw_bf16))
BW_LINEAR_BLOCKS(BLOCKS)
