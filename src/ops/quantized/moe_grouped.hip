/* INDEXED_MOE_FORWARD on a GPU with many tasks (pairs of token and slot): the tasks are grouped by expert on the device, and
 * a tile of weights is decoded once for up to BW_QUANT_MOE_TASKS of them. Owns both kernels; refuses to know when they pay
 * (mul_mat_gpu.c).
 *
 * On matrix units weights are operand a, activations operand b, both bf16: a byte q of q8_1 is exact in that, a weight is
 * taken as the sum of two, the nearest and the nearest to what is left: what is lost is below 2^-18 of it, at any scale
 * (f16 would lose small and large ones). Every 32 products are multiplied by their block's d in f32. A weight that is not
 * finite gives NaN.
 */
#include "bw_tile.h"
#include "quantized/bw_quant_tile.h"

enum { BLOCK = 256, TASKS = BW_QUANT_MOE_TASKS, ROWS = BW_QUANT_MOE_ROWS };
static_assert((int)TASKS == (int)BW_QUANT_TILE && (int)ROWS == (int)BW_QUANT_TILE, "bw_quant_tile.h's tile");

/* A thread's tasks are its own number and every BLOCK-th after it, and their tokens and slots without divisions. */
struct walk {
    uint32_t task;
    int64_t token, slot;

    BW_DEVICE_SPECIAL void begin(const bw_indexed_moe_args &p)
    {
        task = (uint32_t)bw_thread();
        token = task / (uint32_t)p.n_slots;
        slot = task - token * p.n_slots;
    }
    BW_DEVICE_SPECIAL void next(const bw_indexed_moe_args &p, uint32_t tokens, uint32_t slots)
    {
        task += BLOCK;
        token += tokens;
        slot += slots;
        if (slot >= p.n_slots) {
            slot -= p.n_slots;
            token++;
        }
    }
};

/* Workgroup g finds group g's tasks (by thread, then by number: always the same order), where they begin in the list, which
 * is how many ids are smaller, and its tiles. Everybody reads all ids, so nobody waits for another. */
BW_KERNEL(BLOCK, indexed_moe_groups)
(const bw_indexed_moe_args p, uint32_t n_tasks, const uint32_t *ids, bw_moe_tile *tiles, uint32_t *tasks)
{
    BW_SHARED uint32_t shared[2][BLOCK];
    const uint32_t group = (uint32_t)bw_block(), n_groups = (uint32_t)p.n_experts;
    const uint32_t tokens = BLOCK / (uint32_t)p.n_slots, slots = BLOCK - tokens * (uint32_t)p.n_slots;
    uint32_t smaller = 0, own = 0;
    walk w;
    for (w.begin(p); w.task < n_tasks; w.next(p, tokens, slots)) {
        const uint32_t id = ids[w.token * p.ids_token + w.slot * p.ids_slot], g = id < n_groups ? id : n_groups;
        smaller += g < group;
        own += g == group;
    }
    /* sums over this thread and those before it */
    uint32_t all_smaller = smaller, all_own = own;
    shared[0][bw_thread()] = smaller;
    shared[1][bw_thread()] = own;
    bw_barrier();
#pragma unroll 1
    for (int step = 1; step < BLOCK; step *= 2) {
        if (bw_thread() >= step) {
            all_smaller += shared[0][bw_thread() - step];
            all_own += shared[1][bw_thread() - step];
        }
        bw_barrier();
        shared[0][bw_thread()] = all_smaller;
        shared[1][bw_thread()] = all_own;
        bw_barrier();
    }
    const uint32_t begin = shared[0][BLOCK - 1], n = shared[1][BLOCK - 1];
    uint32_t to = begin + all_own - own;
    for (w.begin(p); w.task < n_tasks; w.next(p, tokens, slots)) {
        const uint32_t id = ids[w.token * p.ids_token + w.slot * p.ids_slot], g = id < n_groups ? id : n_groups;
        if (g == group)
            tasks[to++] = w.task;
    }
    const uint32_t first = bw_moe_first_tile(begin, group), end = bw_moe_first_tile(begin + n, group + 1);
    for (uint32_t i = first + (uint32_t)bw_thread(); i < end; i += BLOCK) {
        const uint32_t from = (i - first) * TASKS;
        bw_moe_tile tile;
        tile.group = group;
        tile.begin = begin + from;
        tile.n = from >= n ? 0 : n - from < TASKS ? n - from : TASKS;
        tile.unused = 0;
        tiles[i] = tile;
    }
}

/* Where number i of a tile's tasks has its column of x, and its row of y. */
struct place {
    int64_t token, slot;

    BW_DEVICE_SPECIAL place(const bw_indexed_moe_args &p, const uint32_t *tasks, int i)
    {
        const uint32_t task = tasks[i], t = task / (uint32_t)p.n_slots;
        token = t;
        slot = task - t * (uint32_t)p.n_slots;
    }
    BW_DEVICE_SPECIAL int64_t x(const bw_indexed_moe_args &p) const
    {
        return token * p.x_token + slot * p.x_slot;
    }
    BW_DEVICE_SPECIAL int64_t y(const bw_indexed_moe_args &p) const
    {
        return token * p.y_token + slot * p.y_slot;
    }
};

/* Without matrix units. w: the expert's first row of this tile, of which there are `rows`. */
template <int TYPE>
BW_DEVICE void grouped_plain(const bw_indexed_moe_args &p, const uint8_t *w, int rows, int64_t k, const uint8_t *x,
                             const uint32_t *tasks, int n, float *y)
{
    enum { EACH = BW_QUANT_TILE_EACH };
    const int line = bw_quant_tile_line(), row = bw_quant_tile_row(), column = bw_quant_tile_column();
    float sum[EACH][EACH];
    bw_quant_tile_sums<TYPE>(w + line * p.w_row, line < rows, x + place(p, tasks, line < n ? line : 0).x(p), line < n,
                             k, sum);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (column + i >= n)
            continue;
        float *const to = y + place(p, tasks, column + i).y(p) + row;
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (row + j < rows)
                to[j] = sum[i][j];
    }
}

/* x to the nearest bf16, a tie away from 0, in f32's place; the lower 16 bits hold anything. What is not finite is cut:
 * rounding would carry a NaN's bits into its sign. (One whose only bits are lower ones becomes an infinity, of which the
 * rest below makes a NaN again.) */
BW_DEVICE uint32_t near_bf16(float x)
{
    const uint32_t bits = bw_bits(x);
    return bits + ((bits & 0x7f800000u) == 0x7f800000u ? 0 : 0x8000u);
}
/* The upper halves of two words as a pair. */
BW_DEVICE uint32_t uppers(uint32_t low, uint32_t high)
{
    return bw_bytes<0x7632>(low, high);
}

/* Eight weights as pairs of bf16: the nearest, and the nearest to the rest. */
BW_DEVICE void split8(const float (&v)[8], bw_16 &high, bw_16 &low)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const uint32_t a = near_bf16(v[2 * j]), b = near_bf16(v[2 * j + 1]);
        high.w[j] = uppers(a, b);
        low.w[j] = uppers(near_bf16(v[2 * j] - bw_from_bits(a & 0xffff0000u)),
                          near_bf16(v[2 * j + 1] - bw_from_bits(b & 0xffff0000u)));
    }
}

template <int TYPE>
BW_DEVICE void grouped(const bw_indexed_moe_args &p, const uint8_t *w, int rows, uint32_t k, const uint8_t *x,
                       const uint32_t *tasks, int n, float *y)
{
    typedef bw_quant<TYPE> block;
    /* Blocks of 32 at a time: two, whose loads are under way together; with one, waves of 64 find room for other workgroups
     * on a compute unit, which does the same. */
    constexpr int BLOCKS = BW_WAVE == 64 ? 1 : 2, STRIDE = BLOCKS * 32 + 8;
    constexpr int WAVES = BLOCK / BW_WAVE, WAVES_N = ROWS / 16, WAVES_T = WAVES / WAVES_N; /* waves along w and x */
    constexpr int TT = TASKS / 16 / WAVES_T;
    static_assert(TASKS * 4 == BLOCK && ROWS * 4 == BLOCK, "four threads fill a row of each");
    BW_SHARED __attribute__((aligned(16))) bw_bf16 w_high[ROWS * STRIDE], w_low[ROWS * STRIDE];
    BW_SHARED __attribute__((aligned(16))) bw_bf16 x_tile[TASKS * STRIDE];
    BW_SHARED float d_tile[BLOCKS][TASKS];
    BW_SHARED int64_t y_at[TASKS];
    const int line = bw_thread() / 4, own = bw_thread() % 4 * 8, wave = bw_thread() / BW_WAVE;
    const int own_n = wave % WAVES_N * 16, own_t = wave / WAVES_N * 16; /* every WAVES_T-th 16 tasks */
    const place at(p, tasks, line < n ? line : 0); /* past the end the first again, unused */
    w += (line < rows ? line : rows - 1) * p.w_row;
    x += at.x(p);
    if (own == 0)
        y_at[line] = at.y(p);
    bw_acc acc[TT];
#pragma unroll
    for (int t = 0; t < TT; t++)
        bw_acc_zero(acc[t]);
    for (uint32_t k0 = 0; k0 < k; k0 += BLOCKS * 32) {
        const int n_blocks = bw_least((k - k0) / 32, BLOCKS); /* past k's end the first block stands again, unused */
        float v[BLOCKS][8];
        bw_bytes8 q[BLOCKS];
        uint32_t d[BLOCKS];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) { /* nothing is conditional, so that all loads may be under way at once */
            const uint8_t *from = x + (k0 / 32 + (b < n_blocks ? (uint32_t)b : 0)) * 36;
            q[b] = bw_bytes8_at<4>(from + 4 + own);
            d[b] = bw_u16_at(from);
        }
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            const uint32_t i = k0 + (b < n_blocks ? (uint32_t)b : 0) * 32 + (uint32_t)own;
            block::decode8(w + i / block::elements * block::bytes, (int)(i % block::elements), v[b]);
        }
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            bw_16 high, low, column;
            split8(v[b], high, low);
#pragma unroll
            for (int j = 0; j < 4; j++)
                column.w[j] =
                    uppers(bw_bits(bw_signed_byte(q[b], 2 * j)), bw_bits(bw_signed_byte(q[b], 2 * j + 1)));
            bw_store16(w_high + line * STRIDE + b * 32 + own, high);
            bw_store16(w_low + line * STRIDE + b * 32 + own, low);
            bw_store16(x_tile + line * STRIDE + b * 32 + own, column);
            d_tile[b][line] = bw_half_of(d[b]); /* all four the same */
        }
        bw_barrier();
#pragma unroll 1
        for (int b = 0; b < n_blocks; b++) {
            bw_frag<bw_bf16> high[2], low[2];
#pragma unroll
            for (int s = 0; s < 2; s++) {
                bw_frag_load(high[s], w_high + own_n * STRIDE + b * 32 + s * 16, STRIDE);
                bw_frag_load(low[s], w_low + own_n * STRIDE + b * 32 + s * 16, STRIDE);
            }
#pragma unroll
            for (int t = 0; t < TT; t++) {
                const int t0 = own_t + t * WAVES_T * 16;
                if (t0 >= n) /* the same for the whole wave */
                    continue;
                bw_acc part;
                bw_acc_zero(part);
#pragma unroll
                for (int s = 0; s < 2; s++) {
                    bw_frag<bw_bf16> column;
                    bw_frag_load(column, x_tile + t0 * STRIDE + b * 32 + s * 16, STRIDE);
                    bw_mma(part, high[s], column);
                    bw_mma(part, low[s], column);
                }
#pragma unroll
                for (int e = 0; e < BW_ACC_EACH; e++)
                    acc[t].x[e] = bw_fma(part.x[e], d_tile[b][t0 + bw_acc_column(e)], acc[t].x[e]);
            }
        }
        bw_barrier();
    }
    bw_barrier(); /* y_at, where there was no step */
#pragma unroll
    for (int t = 0; t < TT; t++)
#pragma unroll
        for (int e = 0; e < BW_ACC_EACH; e++) {
            const int row = own_n + bw_acc_row(e), task = own_t + t * WAVES_T * 16 + bw_acc_column(e);
            if (row < rows && task < n)
                y[y_at[task] + row] = acc[t].x[e];
        }
}

/* grid x: tiles of tasks (neighbours share their expert's weights), y: tiles of rows */
template <int TYPE>
BW_DEVICE void indexed_moe_grouped(const bw_indexed_moe_args &p, const uint8_t *w, const uint8_t *x,
                                   const bw_moe_tile *tiles, const uint32_t *tasks, float *y)
{
    const bw_moe_tile tile = tiles[bw_block()];
    const int64_t n0 = bw_block_y() * ROWS;
    const int rows = bw_least(p.n - n0, ROWS), n = (int)tile.n;
    if (n == 0) /* the same for the whole workgroup */
        return;
    const bool has_expert = tile.group < p.n_experts; /* else no products: zeros */
    w += has_expert ? tile.group * p.w_expert + n0 * p.w_row : 0;
    const uint32_t k = has_expert ? (uint32_t)p.k : 0;
    if constexpr (BW_TILE_IS_PLAIN)
        grouped_plain<TYPE>(p, w, rows, k, x, tasks + tile.begin, n, y + n0);
    else
        grouped<TYPE>(p, w, rows, k, x, tasks + tile.begin, n, y + n0);
}

#define ROW(name, NAME)                                                                                                \
    BW_KERNEL(BLOCK, indexed_moe_grouped_##name)                                                                       \
    (const bw_indexed_moe_args p, const uint8_t *w, const uint8_t *x, const bw_moe_tile *tiles, const uint32_t *tasks, \
     float *y)                                                                                                         \
    {                                                                                                                  \
        indexed_moe_grouped<BW_##NAME>(p, w, x, tiles, tasks, y);                                                      \
    }
BW_QUANT_TYPES(ROW)
