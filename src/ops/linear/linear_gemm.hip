/* LINEAR on a GPU for many rows of activations, on matrix units: tiles of activations and weights, both 16 bits, through
 * shared memory, several stages of copies under way where the hardware copies by itself, else one in registers. grid x:
 * tiles of activations (neighbours share the weights' tile, which so is read once), y: tiles of weights, z: parts of K.
 */
#include "bw_tile.h"
#include "linear/bw_linear_gpu.h"

enum { BLOCK = 256, DEPTH = BW_GEMM_K, STRIDE = BW_GEMM_STRIDE, CHUNKS = DEPTH / 8 };

/* A tile's copies: ROWS rows of DEPTH elements, 16 bytes at a time. */
template <typename T, int ROWS> struct tile_copy {
    static constexpr int EACH = ROWS * CHUNKS / BLOCK;
    bw_copy copies[EACH];

    BW_DEVICE_SPECIAL void begin(T *shared, const uint8_t *rows, int64_t row_bytes, int n_rows, int k, int k_end)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int at = e * BLOCK + bw_thread(), row = at / CHUNKS, own = at % CHUNKS * 8;
            const bool is_there = row < n_rows && k + own < k_end;
            copies[e].begin(shared + row * STRIDE + own, is_there ? rows + row * row_bytes + 2 * (k + own) : rows,
                            is_there);
        }
    }
    BW_DEVICE_SPECIAL void end(T *shared)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int at = e * BLOCK + bw_thread();
            copies[e].end(shared + at / CHUNKS * STRIDE + at % CHUNKS * 8);
        }
    }
};

/* out: y, or with IS_PART the z-th [t][n] array of parts. */
template <typename T, int SIZE, bool IS_PART>
BW_DEVICE void gemm(const bw_linear_args &p, int t0, int n0, const uint8_t *w, const uint8_t *x, const float *bias,
                    float *out)
{
    /* Where copies pass through registers, one stage leaves room for other workgroups on a compute unit of waves of 64. */
    constexpr int STAGES = bw_copy::IS_ASYNCHRONOUS ? BW_GEMM_STAGES : BW_WAVE == 64 ? 1 : 2, TILE = SIZE * STRIDE;
    constexpr int AHEAD = STAGES > 1 ? STAGES - 1 : 1;
    constexpr int WAVES = BLOCK / BW_WAVE, WAVES_N = WAVES / 2; /* 2 waves along the activations */
    constexpr int MT = SIZE / 2 / 16, NT = SIZE / WAVES_N / 16;
    BW_SHARED_LARGE(memory, STAGES * 2 * TILE * 2);
    T *const shared = (T *)memory; /* per stage: activations [SIZE][STRIDE], weights [SIZE][STRIDE] */
    const int wave = bw_thread() / BW_WAVE;
    const int own_t = wave / WAVES_N * (SIZE / 2), own_n = wave % WAVES_N * (SIZE / WAVES_N);
    const int k0 = (int)bw_block_z() * p.split_k, k_end = p.k - k0 < p.split_k ? p.k : k0 + p.split_k;
    const uint8_t *const x_rows = x + t0 * p.x_row, *const w_rows = w + n0 * p.w_row;
    const int n_steps = (k_end - k0 + DEPTH - 1) / DEPTH;
    tile_copy<T, SIZE> copy_x, copy_w;
    bw_acc acc[MT][NT];
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
            bw_acc_zero(acc[i][j]);

#pragma unroll
    for (int s = 0; s < AHEAD; s++) {
        copy_x.begin(shared + s * 2 * TILE, x_rows, p.x_row, p.t - t0, k0 + s * DEPTH, k_end);
        copy_w.begin(shared + s * 2 * TILE + TILE, w_rows, p.w_row, p.n - n0, k0 + s * DEPTH, k_end);
        bw_copies_commit();
        copy_x.end(shared + s * 2 * TILE);
        copy_w.end(shared + s * 2 * TILE + TILE);
    }
    for (int step = 0; step < n_steps; step++) {
        bw_copies_wait<AHEAD - 1>();
        bw_barrier();
        const int next = step + AHEAD;
        T *const to = shared + next % STAGES * 2 * TILE;
        copy_x.begin(to, x_rows, p.x_row, p.t - t0, k0 + next * DEPTH, k_end);
        copy_w.begin(to + TILE, w_rows, p.w_row, p.n - n0, k0 + next * DEPTH, k_end);
        bw_copies_commit();
        const T *const a = shared + step % STAGES * 2 * TILE + own_t * STRIDE;
        const T *const b = shared + step % STAGES * 2 * TILE + TILE + own_n * STRIDE;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            bw_frag<T> fa[MT], fb[NT];
#pragma unroll
            for (int i = 0; i < MT; i++)
                bw_frag_load(fa[i], a + i * 16 * STRIDE + k, STRIDE);
#pragma unroll
            for (int j = 0; j < NT; j++)
                bw_frag_load(fb[j], b + j * 16 * STRIDE + k, STRIDE);
#pragma unroll
            for (int i = 0; i < MT; i++)
#pragma unroll
                for (int j = 0; j < NT; j++)
                    bw_mma(acc[i][j], fa[i], fb[j]);
        }
        if constexpr (STAGES == 1)
            bw_barrier();
        copy_x.end(to);
        copy_w.end(to + TILE);
    }
    float *const part = out + bw_block_z() * p.t * p.n;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int e = 0; e < BW_ACC_EACH; e++) {
            const int t = t0 + own_t + i * 16 + bw_acc_row(e);
            if (t >= p.t)
                continue;
            const float scale = *(const float *)(x + t * p.x_row + 2 * p.k);
#pragma unroll
            for (int j = 0; j < NT; j++) {
                const int n = n0 + own_n + j * 16 + bw_acc_column(e);
                if (n >= p.n)
                    continue;
                if constexpr (IS_PART)
                    part[(int64_t)t * p.n + n] = acc[i][j].x[e] * scale;
                else
                    out[t * p.y_row + n] = bias ? bw_fma(acc[i][j].x[e], scale, bias[n]) : acc[i][j].x[e] * scale;
            }
        }
}

#define GEMM(name, T, SIZE, IS_PART)                                                                                   \
    BW_KERNEL(BLOCK, linear_##name)                                                                                    \
    (const bw_linear_args p, const uint8_t *w, const uint8_t *x, const float *bias, float *out)                        \
    {                                                                                                                  \
        const int t0 = (int)bw_block() * SIZE, n0 = (int)bw_block_y() * SIZE;                                          \
        if constexpr (BW_TILE_IS_PLAIN && SIZE > BW_GEMM_SMALL) {                                                      \
            _Pragma("unroll 1") for (int i = 0; i < 4; i++)                                                            \
            {                                                                                                          \
                bw_barrier();                                                                                          \
                gemm<T, BW_GEMM_SMALL, IS_PART>(p, t0 + i % 2 * BW_GEMM_SMALL, n0 + i / 2 * BW_GEMM_SMALL, w, x, bias, \
                                                out);                                                                  \
            }                                                                                                          \
        } else {                                                                                                       \
            gemm<T, SIZE, IS_PART>(p, t0, n0, w, x, bias, out);                                                        \
        }                                                                                                              \
    }
GEMM(big_f16, bw_f16, BW_GEMM_BIG, false)
GEMM(big_bf16, bw_bf16, BW_GEMM_BIG, false)
GEMM(small_f16, bw_f16, BW_GEMM_SMALL, false)
GEMM(small_bf16, bw_bf16, BW_GEMM_SMALL, false)
GEMM(part_f16, bw_f16, BW_GEMM_SMALL, true)
GEMM(part_bf16, bw_bf16, BW_GEMM_SMALL, true)
