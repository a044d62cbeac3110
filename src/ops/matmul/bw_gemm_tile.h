/* Products of tiles on matrix units (bw_tile.h): how a workgroup's waves divide SIZE x SIZE results among themselves,
 * for LINEAR, MATMUL and convolutions, and, for the first two, whose operands lie in memory, how these come to shared
 * memory and the whole sum. T: bw_f16 or bw_bf16. */
#ifndef BW_GEMM_TILE_H
#define BW_GEMM_TILE_H

#include "bw_tile.h"
#include "matmul/bw_gpu_gemm.h"

/* 2 waves along the tile's rows (a's), the others along its columns (b's rows): each MT x NT pieces of 16 x 16 from
 * row() and column() on. */
template <int SIZE> struct bw_gemm_share {
    static constexpr int ACROSS = BW_GPU_GEMM_BLOCK / BW_WAVE / 2;
    static constexpr int MT = SIZE / 2 / 16, NT = SIZE / ACROSS / 16;

    BW_DEVICE_SPECIAL static int row(void)
    {
        return bw_thread() / BW_WAVE / ACROSS * (SIZE / 2);
    }
    BW_DEVICE_SPECIAL static int column(void)
    {
        return bw_thread() / BW_WAVE % ACROSS * (SIZE / ACROSS);
    }
};

/* How many stages of K lie in shared memory where copies pass through registers: one leaves room for other workgroups
 * on a compute unit of waves of 64. */
enum { BW_GEMM_REGISTER_STAGES = BW_WAVE == 64 ? 1 : 2 };

template <int MT, int NT> BW_DEVICE void bw_acc_zero(bw_acc (&acc)[MT][NT])
{
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
            bw_acc_zero(acc[i][j]);
}

/* One operand from the workgroup's first row and k on. A row is one of a's rows or of b's columns. */
template <typename T> struct bw_gemm_operand {
    const T *data;
    int64_t row, k; /* strides, one of which is 1 */
    int n_rows, n_k;
    bool is_aligned; /* whether everything lies in chunks of 8 elements at multiples of 16 bytes */
};

/* n of 8 neighbouring elements, then zeros. */
template <typename T> BW_DEVICE bw_16 bw_gemm_gather(const T *from, int n)
{
    const uint16_t *bits = (const uint16_t *)(const void *)from;
    bw_16 v;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t low = 2 * i < n ? bits[2 * i] : 0, high = 2 * i + 1 < n ? bits[2 * i + 1] : 0;
        v.w[i] = high << 16 | low;
    }
    return v;
}

/* How a tile of ROWS rows and BW_GPU_GEMM_K k lies in shared memory (in STRIDE * LINES elements), comes there and
 * becomes fragments. begin and end are bw_copy's; k: where the tile begins; all threads call them. */
enum { BW_BY_K, BW_ACROSS, BW_IN_PAIRS };
enum { BW_NOT_BY_K = BW_FRAG_LOADS_T ? BW_ACROSS : BW_IN_PAIRS };
template <typename T, int ROWS, int WAY> struct bw_gemm_stage;

/* Lines of CHUNKS * 8 neighbouring elements, STRIDE apart in shared memory. */
template <typename T, int LINES_, int CHUNKS, int STRIDE_> struct bw_gemm_lines {
    static constexpr int LINES = LINES_, STRIDE = STRIDE_, EACH = LINES * CHUNKS / BW_GPU_GEMM_BLOCK;
    bw_copy copies[EACH];

    BW_DEVICE_SPECIAL static T *place(T *shared, int e)
    {
        const int at = e * BW_GPU_GEMM_BLOCK + bw_thread();
        return shared + at / CHUNKS * STRIDE + at % CHUNKS * 8;
    }
    /* From line and element on, of n_lines of n elements that lie `apart`; elsewhere zeros. */
    BW_DEVICE_SPECIAL void begin_lines(T *shared, const bw_gemm_operand<T> &o, int64_t apart, int line, int n_lines,
                                       int element, int n)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int at = e * BW_GPU_GEMM_BLOCK + bw_thread();
            const int own_line = line + at / CHUNKS, own = element + at % CHUNKS * 8;
            const int left = own_line < n_lines ? n - own : 0;
            const T *from = o.data + own_line * apart + own;
            if (o.is_aligned)
                copies[e].begin(place(shared, e), left > 0 ? from : o.data, left > 0);
            else
                copies[e].put(place(shared, e), bw_gemm_gather(from, left));
        }
    }
    BW_DEVICE_SPECIAL void end(T *shared)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            copies[e].end(place(shared, e));
    }
};

/* [ROWS][STRIDE], from k as neighbouring elements. */
template <typename T, int ROWS>
struct bw_gemm_stage<T, ROWS, BW_BY_K> : bw_gemm_lines<T, ROWS, BW_GPU_GEMM_K / 8, BW_GPU_GEMM_STRIDE> {
    BW_DEVICE_SPECIAL void begin(T *shared, const bw_gemm_operand<T> &o, int k)
    {
        this->begin_lines(shared, o, o.row, 0, o.n_rows, k, o.n_k);
    }
    BW_DEVICE_SPECIAL static void load(bw_frag<T> &f, const T *shared, int row, int k)
    {
        bw_frag_load(f, shared + row * bw_gemm_stage::STRIDE + k, bw_gemm_stage::STRIDE);
    }
};

/* [BW_GPU_GEMM_K][STRIDE], from rows as neighbouring elements, where fragments can be loaded across. */
template <typename T, int ROWS>
struct bw_gemm_stage<T, ROWS, BW_ACROSS> : bw_gemm_lines<T, BW_GPU_GEMM_K, ROWS / 8, ROWS + 8> {
    BW_DEVICE_SPECIAL void begin(T *shared, const bw_gemm_operand<T> &o, int k)
    {
        this->begin_lines(shared, o, o.k, k, o.n_k, 0, o.n_rows);
    }
    BW_DEVICE_SPECIAL static void load(bw_frag<T> &f, const T *shared, int row, int k)
    {
        bw_frag_load_t(f, shared + k * bw_gemm_stage::STRIDE + row, bw_gemm_stage::STRIDE);
    }
};

/* Words [BW_GPU_GEMM_K / 2][STRIDE / 2], a pair of k for each row, from rows as neighbouring elements: fragments are
 * loaded in whole words, neighbouring lanes from neighbouring ones. What follows the rows keeps the groups of a wave's
 * lanes in different banks. */
template <typename T, int ROWS> struct bw_gemm_stage<T, ROWS, BW_IN_PAIRS> {
    static constexpr int WORDS = ROWS + (BW_FRAG_GROUPS > 2 ? 8 : 4), STRIDE = 2 * WORDS, LINES = BW_GPU_GEMM_K / 2;
    static constexpr int CHUNKS = ROWS / 8, ITEMS = BW_GPU_GEMM_K / 2 * CHUNKS,
                         EACH = (ITEMS + BW_GPU_GEMM_BLOCK - 1) / BW_GPU_GEMM_BLOCK;
    bw_16 even[EACH], odd[EACH];

    BW_DEVICE_SPECIAL static bw_16 fetch(const bw_gemm_operand<T> &o, int k, int row)
    {
        const int left = k < o.n_k ? o.n_rows - row : 0;
        const T *from = o.data + k * o.k + row;
        if (!o.is_aligned)
            return bw_gemm_gather(from, left);
        bw_16 v = {{0, 0, 0, 0}};
        if (left > 0)
            v = bw_load16(from);
        return v;
    }
    BW_DEVICE_SPECIAL void begin(T *shared, const bw_gemm_operand<T> &o, int k)
    {
        (void)shared;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int at = e * BW_GPU_GEMM_BLOCK + bw_thread();
            if (ITEMS % BW_GPU_GEMM_BLOCK != 0 && at >= ITEMS)
                continue;
            even[e] = fetch(o, k + at / CHUNKS * 2, at % CHUNKS * 8);
            odd[e] = fetch(o, k + at / CHUNKS * 2 + 1, at % CHUNKS * 8);
        }
    }
    BW_DEVICE_SPECIAL void end(T *shared)
    {
        uint32_t *words = (uint32_t *)(void *)shared;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int at = e * BW_GPU_GEMM_BLOCK + bw_thread();
            if (ITEMS % BW_GPU_GEMM_BLOCK != 0 && at >= ITEMS)
                continue;
            uint32_t *to = words + at / CHUNKS * WORDS + at % CHUNKS * 8;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                bw_16 rows;
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    rows.w[2 * j] = bw_bytes<0x5410>(even[e].w[2 * i + j], odd[e].w[2 * i + j]);
                    rows.w[2 * j + 1] = bw_bytes<0x7632>(even[e].w[2 * i + j], odd[e].w[2 * i + j]);
                }
                bw_store16(to + 4 * i, rows);
            }
        }
    }
    BW_DEVICE_SPECIAL static void load(bw_frag<T> &f, const T *shared, int row, int k)
    {
        const uint32_t *words = (const uint32_t *)(const void *)shared;
#pragma unroll
        for (int i = 0; i < BW_FRAG_ROWS; i++)
#pragma unroll
            for (int j = 0; j < BW_FRAG_PAIRS; j++)
                f.w[bw_frag_word(i, j)] = words[(k + bw_frag_k(j)) / 2 * WORDS + row + bw_frag_row(i)];
    }
};

/* acc: this wave's share of the tile's results, the sum over all of a's and b's n_k. Several stages of copies are under
 * way where the hardware copies by itself, else one in registers. All threads of the workgroup call it;
 * who calls it again needs a barrier between. */
template <typename T, int SIZE, int A_WAY, int B_WAY, int MT, int NT>
BW_DEVICE void bw_gemm_sum(bw_acc (&acc)[MT][NT], const bw_gemm_operand<T> &a, const bw_gemm_operand<T> &b)
{
    typedef bw_gemm_stage<T, SIZE, A_WAY> stage_a;
    typedef bw_gemm_stage<T, SIZE, B_WAY> stage_b;
    constexpr int STAGES = bw_copy::IS_ASYNCHRONOUS ? (int)BW_GPU_GEMM_STAGES : (int)BW_GEMM_REGISTER_STAGES;
    constexpr int AHEAD = STAGES > 1 ? STAGES - 1 : 1;
    constexpr int A_TILE = stage_a::STRIDE * stage_a::LINES, TILE = A_TILE + stage_b::STRIDE * stage_b::LINES;
    BW_SHARED_LARGE(memory, STAGES * TILE * 2);
    static_assert(BW_GPU_GEMM_STAGES * TILE * 2 <= BW_GPU_GEMM_SHARED(SIZE), "what the host asks for");
    T *const shared = (T *)memory;
    const int own_a = bw_gemm_share<SIZE>::row(), own_b = bw_gemm_share<SIZE>::column();
    const int n_steps = (a.n_k + BW_GPU_GEMM_K - 1) / BW_GPU_GEMM_K;
    stage_a copy_a;
    stage_b copy_b;
    bw_acc_zero(acc);
#pragma unroll 1
    for (int s = 0; s < AHEAD; s++) {
        copy_a.begin(shared + s * TILE, a, s * BW_GPU_GEMM_K);
        copy_b.begin(shared + s * TILE + A_TILE, b, s * BW_GPU_GEMM_K);
        bw_copies_commit();
        copy_a.end(shared + s * TILE);
        copy_b.end(shared + s * TILE + A_TILE);
    }
    for (int step = 0; step < n_steps; step++) {
        bw_copies_wait<AHEAD - 1>();
        bw_barrier();
        const int next = step + AHEAD;
        T *const to = shared + next % STAGES * TILE;
        copy_a.begin(to, a, next * BW_GPU_GEMM_K);
        copy_b.begin(to + A_TILE, b, next * BW_GPU_GEMM_K);
        bw_copies_commit();
        const T *const from = shared + step % STAGES * TILE;
#pragma unroll
        for (int k = 0; k < BW_GPU_GEMM_K; k += 16) {
            bw_frag<T> fa[MT], fb[NT];
#pragma unroll
            for (int i = 0; i < MT; i++)
                stage_a::load(fa[i], from, own_a + i * 16, k);
#pragma unroll
            for (int j = 0; j < NT; j++)
                stage_b::load(fb[j], from + A_TILE, own_b + j * 16, k);
#pragma unroll
            for (int i = 0; i < MT; i++)
#pragma unroll
                for (int j = 0; j < NT; j++)
                    bw_mma(acc[i][j], fa[i], fb[j]);
        }
        if constexpr (STAGES == 1)
            bw_barrier();
        copy_a.end(to);
        copy_b.end(to + A_TILE);
    }
}

#endif
