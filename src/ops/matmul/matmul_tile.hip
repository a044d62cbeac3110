/* MATMUL of f16 and bf16 on matrix units: tiles of both operands through shared memory, several stages of copies under
 * way where the hardware copies by itself, else one in registers. Either operand lies with k as its neighbouring elements
 * ("by k") or with its rows (a's) or columns (b's), whichever way has a stride of 1; other strides are matmul.hip's.
 * Without matrix units these kernels are matmul.hip's, as they are where f32 is asked for and the units take subnormal
 * f16 for 0 (in a result of f16 that is seldom seen).
 *
 * grid x: tiles, in groups of GROUP rows of them, so that workgroups that run at one time share rows and columns; z: the
 * batch. */
#include "bw_tile.h"
#include "matmul/bw_matmul_plain.h"

enum { BLOCK = BW_MATMUL_BLOCK, DEPTH = BW_MATMUL_TILE_K, GROUP = 8 };

/* One operand from the workgroup's first row on. A row is one of a's rows or of b's columns. */
template <typename T> struct operand {
    const T *data;
    int64_t row, k; /* strides, one of which is 1 */
    int n_rows, n_k;
    bool is_aligned; /* whether everything lies in chunks of 8 elements at multiples of 16 bytes */
};

/* n of 8 neighbouring elements, then zeros. */
template <typename T> BW_DEVICE bw_16 gather(const T *from, int n)
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

/* How a tile of ROWS rows and DEPTH k lies in shared memory (in STRIDE * LINES elements), comes there and becomes
 * fragments. begin and end are bw_copy's; k: where the tile begins; all threads call them. */
enum { BY_K, ACROSS, IN_PAIRS };
template <typename T, int ROWS, int WAY> struct stage;

/* [ROWS][STRIDE], from k as neighbouring elements. */
template <typename T, int ROWS> struct stage<T, ROWS, BY_K> {
    static constexpr int STRIDE = DEPTH + 8, LINES = ROWS, CHUNKS = DEPTH / 8, EACH = ROWS * CHUNKS / BLOCK;
    bw_copy copies[EACH];

    BW_DEVICE_SPECIAL static T *place(T *shared, int e)
    {
        const int at = e * BLOCK + bw_thread();
        return shared + at / CHUNKS * STRIDE + at % CHUNKS * 8;
    }
    BW_DEVICE_SPECIAL void begin(T *shared, const operand<T> &o, int k)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int at = e * BLOCK + bw_thread(), row = at / CHUNKS, own = k + at % CHUNKS * 8;
            const int left = row < o.n_rows ? o.n_k - own : 0;
            const T *from = o.data + row * o.row + own;
            if (o.is_aligned)
                copies[e].begin(place(shared, e), left > 0 ? from : o.data, left > 0);
            else
                copies[e].put(place(shared, e), gather(from, left));
        }
    }
    BW_DEVICE_SPECIAL void end(T *shared)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            copies[e].end(place(shared, e));
    }
    BW_DEVICE_SPECIAL static void load(bw_frag<T> &f, const T *shared, int row, int k)
    {
        bw_frag_load(f, shared + row * STRIDE + k, STRIDE);
    }
};

/* [DEPTH][STRIDE], from rows as neighbouring elements, where fragments can be loaded across. */
template <typename T, int ROWS> struct stage<T, ROWS, ACROSS> {
    static constexpr int STRIDE = ROWS + 8, LINES = DEPTH, CHUNKS = ROWS / 8, EACH = DEPTH * CHUNKS / BLOCK;
    bw_copy copies[EACH];

    BW_DEVICE_SPECIAL static T *place(T *shared, int e)
    {
        const int at = e * BLOCK + bw_thread();
        return shared + at / CHUNKS * STRIDE + at % CHUNKS * 8;
    }
    BW_DEVICE_SPECIAL void begin(T *shared, const operand<T> &o, int k)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int at = e * BLOCK + bw_thread(), own = k + at / CHUNKS, row = at % CHUNKS * 8;
            const int left = own < o.n_k ? o.n_rows - row : 0;
            const T *from = o.data + own * o.k + row;
            if (o.is_aligned)
                copies[e].begin(place(shared, e), left > 0 ? from : o.data, left > 0);
            else
                copies[e].put(place(shared, e), gather(from, left));
        }
    }
    BW_DEVICE_SPECIAL void end(T *shared)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            copies[e].end(place(shared, e));
    }
    BW_DEVICE_SPECIAL static void load(bw_frag<T> &f, const T *shared, int row, int k)
    {
        bw_frag_load_t(f, shared + k * STRIDE + row, STRIDE);
    }
};

/* Words [DEPTH / 2][STRIDE / 2], a pair of k for each row, from rows as neighbouring elements: fragments are loaded in
 * whole words, neighbouring lanes from neighbouring ones. What follows the rows keeps the groups of a wave's lanes in
 * different banks. */
template <typename T, int ROWS> struct stage<T, ROWS, IN_PAIRS> {
    static constexpr int WORDS = ROWS + (BW_FRAG_GROUPS > 2 ? 8 : 4), STRIDE = 2 * WORDS, LINES = DEPTH / 2;
    static constexpr int CHUNKS = ROWS / 8, ITEMS = DEPTH / 2 * CHUNKS, EACH = (ITEMS + BLOCK - 1) / BLOCK;
    bw_16 even[EACH], odd[EACH];

    BW_DEVICE_SPECIAL static bw_16 fetch(const operand<T> &o, int k, int row)
    {
        const int left = k < o.n_k ? o.n_rows - row : 0;
        const T *from = o.data + k * o.k + row;
        if (!o.is_aligned)
            return gather(from, left);
        bw_16 v = {{0, 0, 0, 0}};
        if (left > 0)
            v = bw_load16(from);
        return v;
    }
    BW_DEVICE_SPECIAL void begin(T *shared, const operand<T> &o, int k)
    {
        (void)shared;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int at = e * BLOCK + bw_thread();
            if (ITEMS % BLOCK != 0 && at >= ITEMS)
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
            const int at = e * BLOCK + bw_thread();
            if (ITEMS % BLOCK != 0 && at >= ITEMS)
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

/* What a workgroup multiplies: out from its first row and column on. */
template <typename T, typename R> struct corner {
    operand<T> a, b;
    R *out;
    int64_t out_row, out_column;

    BW_DEVICE_SPECIAL void put(int row, int column, float sum) const
    {
        out[row * out_row + column * out_column] = bw_put<R>(sum);
    }
};

template <typename T, typename R, int SIZE, int A_WAY, int B_WAY> BW_DEVICE void multiply(const corner<T, R> &c)
{
    typedef stage<T, SIZE, A_WAY> stage_a;
    typedef stage<T, SIZE, B_WAY> stage_b;
    /* Where copies pass through registers, one stage leaves room for other workgroups on a compute unit of waves of 64. */
    constexpr int STAGES = bw_copy::IS_ASYNCHRONOUS ? BW_MATMUL_TILE_STAGES : BW_WAVE == 64 ? 1 : 2;
    constexpr int AHEAD = STAGES > 1 ? STAGES - 1 : 1;
    constexpr int A_TILE = stage_a::STRIDE * stage_a::LINES, TILE = A_TILE + stage_b::STRIDE * stage_b::LINES;
    constexpr int WAVES = BLOCK / BW_WAVE, WAVES_N = WAVES / 2; /* 2 waves along a's rows */
    constexpr int MT = SIZE / 2 / 16, NT = SIZE / WAVES_N / 16;
    BW_SHARED_LARGE(memory, STAGES * TILE * 2);
    static_assert(TILE <= 2 * SIZE * BW_MATMUL_TILE_STRIDE, "what the host asks for");
    T *const shared = (T *)memory;
    const int wave = bw_thread() / BW_WAVE;
    const int own_a = wave / WAVES_N * (SIZE / 2), own_b = wave % WAVES_N * (SIZE / WAVES_N);
    const int n_steps = (c.a.n_k + DEPTH - 1) / DEPTH;
    stage_a copy_a;
    stage_b copy_b;
    bw_acc acc[MT][NT];
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
            bw_acc_zero(acc[i][j]);

#pragma unroll 1
    for (int s = 0; s < AHEAD; s++) {
        copy_a.begin(shared + s * TILE, c.a, s * DEPTH);
        copy_b.begin(shared + s * TILE + A_TILE, c.b, s * DEPTH);
        bw_copies_commit();
        copy_a.end(shared + s * TILE);
        copy_b.end(shared + s * TILE + A_TILE);
    }
    for (int step = 0; step < n_steps; step++) {
        bw_copies_wait<AHEAD - 1>();
        bw_barrier();
        const int next = step + AHEAD;
        T *const to = shared + next % STAGES * TILE;
        copy_a.begin(to, c.a, next * DEPTH);
        copy_b.begin(to + A_TILE, c.b, next * DEPTH);
        bw_copies_commit();
        const T *const from = shared + step % STAGES * TILE;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
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
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int e = 0; e < BW_ACC_EACH; e++) {
            const int row = own_a + i * 16 + bw_acc_row(e);
            if (row >= c.a.n_rows)
                continue;
#pragma unroll
            for (int j = 0; j < NT; j++) {
                const int column = own_b + j * 16 + bw_acc_column(e);
                if (column < c.b.n_rows)
                    c.put(row, column, acc[i][j].x[e]);
            }
        }
}

/* The same where there are no matrix units. */
template <typename T, typename R, int SIZE>
BW_DEVICE void multiply_plain(const bw_matmul_args &p, const corner<T, R> &c)
{
    constexpr int PART = BW_MATMUL_PLAIN_TILE, PARTS = SIZE / PART;
#pragma unroll 1
    for (int i = 0; i < PARTS * PARTS; i++) {
        const int row = i / PARTS * PART, column = i % PARTS * PART;
        bw_matmul_plain<T, float>(
            p, c.a.data + row * c.a.row, c.b.data + column * c.b.row, bw_least(c.a.n_rows - row, PART),
            bw_least(c.b.n_rows - column, PART),
            [&](int own_row, int own_column, float sum) { c.put(row + own_row, column + own_column, sum); });
    }
}

/* Whether matrix units give what the op's definition says. */
template <typename T, typename R> struct has_units {
    static constexpr bool VALUE = !BW_TILE_IS_PLAIN;
};
template <> struct has_units<bw_f16, float> {
    static constexpr bool VALUE = !BW_TILE_IS_PLAIN && !BW_TILE_FLUSHES;
};

template <typename T, typename R, int SIZE, bool A_BY_K, bool B_BY_K>
BW_DEVICE void matmul(const bw_matmul_args &p, const T *a, const T *b, R *out)
{
    constexpr int OTHER = BW_FRAG_LOADS_T ? ACROSS : IN_PAIRS;
    const uint32_t block = (uint32_t)bw_block(), group_tiles = GROUP * (uint32_t)p.n_tile_columns;
    const uint32_t group = block / group_tiles, within = block - group * group_tiles;
    const uint32_t rows = (uint32_t)bw_least(p.n_tile_rows - (int64_t)group * GROUP, GROUP);
    const uint32_t tile_column = within / rows;
    const int64_t row = (int64_t)(group * GROUP + within - tile_column * rows) * SIZE;
    const int64_t column = (int64_t)tile_column * SIZE;
    int64_t at[3];
    bw_loop_offsets<3, uint32_t>(p.batch, (uint32_t)(p.first_batch + bw_block_z()), at);
    corner<T, R> c;
    c.a = operand<T>{a + at[0] + row * p.a_row, p.a_row, p.a_column, bw_least(p.m - row, SIZE), (int)p.k,
                     p.a_is_aligned != 0};
    c.b = operand<T>{b + at[1] + column * p.b_column, p.b_column, p.b_row, bw_least(p.n - column, SIZE), (int)p.k,
                     p.b_is_aligned != 0};
    c.out = out + at[2] + row * p.out_row + column * p.out_column;
    c.out_row = p.out_row;
    c.out_column = p.out_column;
    if constexpr (has_units<T, R>::VALUE)
        multiply<T, R, SIZE, A_BY_K ? (int)BY_K : OTHER, B_BY_K ? (int)BY_K : OTHER>(c);
    else
        multiply_plain<T, R, SIZE>(p, c);
}

/* n: rows of a matrix are neighbouring elements; t: columns. a's are k, b's are not. tt is nn with a and b exchanged. */
#define MATMUL(name, T, R, size, way, a_by_k, b_by_k)                                                                  \
    BW_KERNEL(BLOCK, matmul_tile_##name##_##way##_##size)                                                              \
    (const bw_matmul_args p, const T *a, const T *b, R *out)                                                           \
    {                                                                                                                  \
        matmul<T, R, size, a_by_k, b_by_k>(p, a, b, out);                                                              \
    }
#define WAYS(name, T, R, size)                                                                                         \
    MATMUL(name, T, R, size, nn, true, false)                                                                          \
    MATMUL(name, T, R, size, nt, true, true)                                                                           \
    MATMUL(name, T, R, size, tn, false, false)
WAYS(f16_f16, bw_f16, bw_f16, 128)
WAYS(f16_f16, bw_f16, bw_f16, 64)
WAYS(f16_f32, bw_f16, float, 128)
WAYS(f16_f32, bw_f16, float, 64)
WAYS(bf16_bf16, bw_bf16, bw_bf16, 128)
WAYS(bf16_bf16, bw_bf16, bw_bf16, 64)
WAYS(bf16_f32, bw_bf16, float, 128)
WAYS(bf16_f32, bw_bf16, float, 64)
