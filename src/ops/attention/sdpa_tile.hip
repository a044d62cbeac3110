/* SDPA of f16 and bf16 on matrix tiles: flash attention (Dao, arXiv:2307.08691). A workgroup takes 64 queries of one head
 * (grid x) and up to 128 columns of its output (y), a wave 16 or 32 of them, which go through the keys in tiles in shared
 * memory. q of any strides; k and v in chunks of 8 elements at multiples of 16 bytes, y with neighbouring elements; other
 * strides, and heads wider than BW_SDPA_TILE_WIDTH, are sdpa.hip's.
 *
 * Scores are found transposed, keys by queries, as in attention_prefill.hip: softmax goes along a lane's own results and
 * the weights are the operand of the second product as they lie. Weights are split into two numbers of the type each;
 * f16 then has f32's precision, bf16 16 bits.
 *
 * A weight of 0 must hide values that are not finite. They are taken for 0, and where there were any, what they do to the
 * results is found in the end, score by score. */
#include "bw_kernel.h"
#include "attention/bw_attention_kernel.h"
#include "attention/bw_attention_tile.h"
#include "attention/bw_sdpa_args.h"

enum {
    BLOCK = BW_SDPA_TILE_BLOCK,
    ROWS = BW_SDPA_TILE_QUERIES,
    WAVES = BLOCK / BW_WAVE,
    TILES = ROWS / 16 / WAVES /* of 16 queries, in a wave */
};
#define NEVER (-__builtin_inff())

/* Where the workgroup's rows begin, and from row to row; the first row's end and how much later the next one's is. */
enum { Q, Q_ROW, Q_COLUMN, K, K_ROW, V, V_ROW, Y, Y_ROW, MASK, MASK_ROW, MASK_COLUMN, END, END_STEP, N_LATE };

/* Shared memory. V lies as it comes where fragments can be loaded across (BW_FRAG_LOADS_T), else transposed. Queries
 * have a place where a lane's fragments are too large for registers. */
template <int D> struct tiles {
    static constexpr bool HAS_QUERIES = D > 128 || (!BW_FRAG_LOADS_T && BW_FRAG_PAIRS * (D / 16) >= 32);
    static constexpr int KEYS = D > 128 ? 16 : 32, WIDTH = D > 128 ? 128 : D; /* of values */
    static constexpr int V_ROWS = BW_FRAG_LOADS_T ? KEYS : WIDTH, V_STRIDE = (BW_FRAG_LOADS_T ? WIDTH : KEYS) + BW_TILE_PAD;
    static constexpr int STRIDE = D + BW_TILE_PAD;
    alignas(16) uint16_t keys[KEYS * STRIDE];
    alignas(16) uint16_t values[V_ROWS * V_STRIDE];
    alignas(16) uint16_t queries[HAS_QUERIES ? ROWS * STRIDE : 8];
    int64_t late[N_LATE]; /* what is needed after the last key and would keep scalar registers until then */
    float most[ROWS];     /* each query's largest score, in the end */
    int32_t has_infinite; /* whether some value is not finite */
};

/* Keys, values or queries of one head: rows of `width` elements, `row` apart. */
template <typename T> struct source {
    const T *data;
    int64_t row;
    int n_rows, width;
};

/* 1 in the place of each number of a pair that is not finite: its exponent is all ones. */
template <typename T> struct least_infinite;
template <> struct least_infinite<bw_f16> {
    static constexpr uint32_t BITS = 0x7c00;
};
template <> struct least_infinite<bw_bf16> {
    static constexpr uint32_t BITS = 0x7f80;
};
template <typename T> BW_DEVICE uint32_t find_infinite(uint32_t pair)
{
    return ((pair & 0x7fff7fffu) + (0x8000 - least_infinite<T>::BITS) * 0x10001u) >> 15 & 0x10001u;
}

/* A tile of ROWS of WIDTH elements on its way from device to shared memory: chunks of 8 elements of a row. */
template <typename T, int N, int WIDTH> struct staging {
    typedef bw_tile_chunks<BLOCK, N, WIDTH> place;
    bw_16 chunks[place::EACH];

    template <bool TRANSPOSES> BW_DEVICE_SPECIAL void load(const source<T> &s, int base)
    {
#pragma unroll
        for (int e = 0; e < place::EACH; e++) {
            const int row = base + place::template row<TRANSPOSES>(e), column = place::template element<TRANSPOSES>(e);
            chunks[e] = bw_16{{0, 0, 0, 0}};
            if (place::is_there(e) && row < s.n_rows && column < s.width)
                chunks[e] = bw_load16(s.data + row * s.row + column);
        }
    }
    /* Not 0 when there were numbers that are not finite. */
    BW_DEVICE_SPECIAL uint32_t take_infinite()
    {
        uint32_t found = 0;
#pragma unroll
        for (int e = 0; e < place::EACH; e++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t own = find_infinite<T>(chunks[e].w[i]);
                chunks[e].w[i] &= ~(own * 0xffff);
                found |= own;
            }
        return found;
    }
    template <bool TRANSPOSES> BW_DEVICE_SPECIAL void store(uint16_t *shared, int stride) const
    {
#pragma unroll
        for (int e = 0; e < place::EACH; e++)
            if (place::is_there(e))
                place::template store<TRANSPOSES>(e, shared, stride, chunks[e]);
    }
};

/* A wave's queries: fragments, in registers or in shared memory. */
template <typename T, int D> struct queries {
    static constexpr int STEPS = D / 16;
    static constexpr bool IS_SHARED = tiles<D>::HAS_QUERIES;
    bw_frag<T> own[IS_SHARED ? 1 : TILES][IS_SHARED ? 1 : STEPS];

    /* Steps of 16 elements, in turn where fragments need no registers of their own. */
    template <typename F> BW_DEVICE_SPECIAL static void each_step(F body)
    {
        bw_each_step<STEPS, IS_SHARED>(body);
    }
    BW_DEVICE_SPECIAL void load(tiles<D> &shared, const source<T> &q, int64_t column, int first_row)
    {
        const uint16_t *bits = (const uint16_t *)(const void *)q.data;
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < BW_FRAG_ROWS; i++) {
                const int r = first_row + t * 16 + bw_frag_row(i), width = r < q.n_rows ? q.width : 0;
                each_step([&](int s) {
#pragma unroll
                    for (int j = 0; j < BW_FRAG_PAIRS; j++) {
                        const int k = s * 16 + bw_frag_k(j);
                        const int64_t at = r * q.row + k * column;
                        uint32_t low = k < width ? bits[at] : 0, high = k + 1 < width ? bits[at + column] : 0;
                        if constexpr (IS_SHARED)
                            *(uint32_t *)(void *)(shared.queries + r * tiles<D>::STRIDE + k) = high << 16 | low;
                        else
                            own[t][s].w[bw_frag_word(i, j)] = high << 16 | low;
                    }
                });
            }
    }
    BW_DEVICE_SPECIAL bw_frag<T> get(const tiles<D> &shared, int first_row, int t, int s) const
    {
        if constexpr (IS_SHARED) {
            const uint16_t *from = shared.queries + (first_row + t * 16) * tiles<D>::STRIDE + s * 16;
            bw_frag<T> f;
            bw_frag_load(f, (const T *)(const void *)from, tiles<D>::STRIDE);
            return f;
        } else {
            return own[t][s];
        }
    }
};

/* What a lane knows of the queries of its columns in one tile. */
struct columns {
    int32_t end[BW_ACC_COLUMNS];  /* a query sees the keys before this one */
    int64_t mask[BW_ACC_COLUMNS]; /* where its row of the mask begins */
    float most[BW_ACC_COLUMNS], total[BW_ACC_COLUMNS];
};

/* A score as softmax sees it; NEVER where the key is not seen. */
BW_DEVICE float finish_score(const bw_sdpa_args &p, float product, const float *mask, int64_t mask_at)
{
    float x = product * p.scale;
    if (p.softcap > 0)
        x = p.softcap * bw_score_tanh(x / p.softcap);
    return mask ? x + mask[mask_at] : x;
}
/* A weight as bw_weight_shift counts it; NaN stays. */
template <typename T> BW_DEVICE float weight_of(float score, float most)
{
    return score == NEVER ? 0.0f : bw_exp2(bw_fma(score - most, BW_LOG2E, (float)bw_weight_shift<T>::BITS));
}

/* Scores to weights, in place, of keys base.. by one tile of queries; the shrinking of what has been summed so far. */
template <typename T, int N>
BW_DEVICE void softmax(const bw_sdpa_args &p, bw_acc (&s)[N], columns &c, int base, bool is_masked, const float *mask,
                       float (&shrink)[BW_ACC_COLUMNS])
{
    float most[BW_ACC_COLUMNS];
#pragma unroll
    for (int k = 0; k < BW_ACC_COLUMNS; k++)
        most[k] = c.most[k];
#pragma unroll
    for (int kt = 0; kt < N; kt++)
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++) {
            const int k = bw_acc_column_slot(i);
            const int key = base + kt * 16 + bw_acc_row(i);
            const bool is_seen = !is_masked || key < c.end[k];
            float x = finish_score(p, s[kt].x[i], is_seen ? mask : nullptr, c.mask[k] + key * p.mask[3]);
            x = is_seen ? x : NEVER;
            s[kt].x[i] = x;
            most[k] = x > most[k] ? x : most[k];
        }
#pragma unroll
    for (int k = 0; k < BW_ACC_COLUMNS; k++) {
        most[k] = bw_acc_max_rows(most[k]);
        shrink[k] = c.most[k] == most[k] ? 1.0f : bw_exp2((c.most[k] - most[k]) * BW_LOG2E);
        c.most[k] = most[k];
        c.total[k] *= shrink[k];
    }
#pragma unroll
    for (int kt = 0; kt < N; kt++)
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++) {
            const int k = bw_acc_column_slot(i);
            s[kt].x[i] = weight_of<T>(s[kt].x[i], most[k]);
            c.total[k] += s[kt].x[i];
        }
}

/* Products of a tile of keys with a wave's queries. */
template <typename T, int D>
BW_DEVICE void multiply_keys(const tiles<D> &shared, const queries<T, D> &query, int first_row,
                             bw_acc (&scores)[TILES][tiles<D>::KEYS / 16])
{
    constexpr int N = tiles<D>::KEYS / 16;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int kt = 0; kt < N; kt++)
            bw_acc_zero(scores[t][kt]);
    queries<T, D>::each_step([&](int s) {
        bw_frag<T> keys[N];
#pragma unroll
        for (int kt = 0; kt < N; kt++)
            bw_frag_load(keys[kt], (const T *)(const void *)(shared.keys + kt * 16 * tiles<D>::STRIDE + s * 16),
                         tiles<D>::STRIDE);
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            bw_frag<T> f = query.get(shared, first_row, t, s);
#pragma unroll
            for (int kt = 0; kt < N; kt++)
                bw_mma(scores[t][kt], keys[kt], f);
        }
    });
}

template <typename T, int D>
BW_DEVICE void store_rows(const tiles<D> &shared, int first_row, int n_rows, const columns (&column)[TILES],
                          const bw_acc (&out)[TILES][tiles<D>::WIDTH / 16], int width, T *y)
{
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        float inverse[BW_ACC_COLUMNS];
#pragma unroll
        for (int k = 0; k < BW_ACC_COLUMNS; k++) {
            const float total = bw_acc_sum_rows(column[t].total[k]);
            inverse[k] = total == 0 ? 0.0f : 1 / total; /* no key is seen: zeros */
        }
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++) {
            const int r = first_row + t * 16 + bw_acc_column(i);
            if (r >= n_rows)
                continue;
            T *const to = y + shared.late[Y] + r * shared.late[Y_ROW] + bw_acc_row(i);
            const int left = width - bw_acc_row(i);
#pragma unroll
            for (int d = 0; d < tiles<D>::WIDTH / 16; d++)
                if (d * 16 < left)
                    to[d * 16] = bw_put<T>(out[t][d].x[i] * inverse[bw_acc_column_slot(i)]);
        }
    }
}

/* What values that are not finite, which were taken for 0, add to the results that lie at y. */
template <typename T, int D>
BW_DEVICE void add_infinite(const bw_sdpa_args &p, const tiles<D> &shared, int n_rows, int width, const T *q, const T *k,
                            const T *v, const float *mask, T *y)
{
    const int64_t *const late = shared.late;
    const int n_keys = (int)p.n_keys, d = (int)p.d;
#pragma unroll 1
    for (int at = bw_thread(); at < n_rows * width; at += BLOCK) {
        const int row = at / width, column = at - row * width;
        const int end = bw_least(late[END] + late[END_STEP] * row, n_keys);
        float sum = 0;
#pragma unroll 1
        for (int key = 0; key < end && sum == sum; key++) {
            const float value = bw_get(v[late[V] + key * late[V_ROW] + column]);
            if (value - value == 0)
                continue;
            const T *const q_row = q + late[Q] + row * late[Q_ROW], *const k_row = k + late[K] + key * late[K_ROW];
            float product = 0;
#pragma unroll 1
            for (int i = 0; i < d; i++)
                product = bw_fma(bw_get(q_row[i * late[Q_COLUMN]]), bw_get(k_row[i]), product);
            const float score =
                finish_score(p, product, mask, late[MASK] + row * late[MASK_ROW] + key * late[MASK_COLUMN]);
            if (weight_of<T>(score, shared.most[row]) != 0)
                sum += value;
        }
        if (sum != 0) {
            T *const to = y + late[Y] + row * late[Y_ROW] + column;
            *to = bw_put<T>(bw_get(*to) + sum);
        }
    }
}

template <typename T, int D>
BW_DEVICE void sdpa(const bw_sdpa_args &p, const T *q, const T *k, const T *v, const float *mask, T *y)
{
    constexpr int KEYS = tiles<D>::KEYS, WIDTH = tiles<D>::WIDTH;
    BW_SHARED tiles<D> shared;
    const uint32_t which = (uint32_t)(p.first_head + bw_block_z()), batch = which / (uint32_t)p.n_heads;
    const uint32_t head = which - batch * (uint32_t)p.n_heads, kv_head = head / (uint32_t)p.heads_per_kv;
    /* Where later queries see more keys, they begin first. */
    const int64_t t0 = (p.n_tiles - 1 - bw_block()) * ROWS;
    const int n_rows = bw_least(p.n_queries - t0, ROWS), first_row = bw_thread() / BW_WAVE * TILES * 16;
    const int n_keys = (int)p.n_keys; /* the host sees to it */
    const int64_t column0 = bw_block_y() * WIDTH;
    const int width = bw_least(p.d_v - column0, WIDTH);
    /* Row r sees keys before first_end + r. */
    const int64_t first_end = p.causal ? t0 + 1 + p.n_keys - p.n_queries : p.n_keys;
    const int64_t step = p.causal ? 1 : 0;
    const int end = bw_least(first_end + step * (n_rows - 1), n_keys), whole = bw_least(first_end, n_keys);
    const int last_row = bw_least(n_rows, first_row + TILES * 16) - 1; /* of this wave; before first_row: it has none */
    const int wave_end = last_row < first_row ? 0 : bw_least(first_end + step * last_row, n_keys);

    if (bw_thread() == 0) {
        int64_t *const late = shared.late;
        late[Q] = batch * p.q[0] + head * p.q[1] + t0 * p.q[2];
        late[Q_ROW] = p.q[2];
        late[Q_COLUMN] = p.q[3];
        late[K] = batch * p.k[0] + kv_head * p.k[1];
        late[K_ROW] = p.k[2];
        late[V] = batch * p.v[0] + kv_head * p.v[1] + column0;
        late[V_ROW] = p.v[2];
        late[Y] = batch * p.y[0] + head * p.y[1] + t0 * p.y[2] + column0;
        late[Y_ROW] = p.y[2];
        late[MASK] = batch * p.mask[0] + head * p.mask[1] + t0 * p.mask[2];
        late[MASK_ROW] = p.mask[2];
        late[MASK_COLUMN] = p.mask[3];
        late[END] = first_end;
        late[END_STEP] = step;
        shared.has_infinite = 0;
    }
    bw_barrier();
    const source<T> q_rows = {q + shared.late[Q], p.q[2], n_rows, (int)p.d};
    const source<T> k_rows = {k + batch * p.k[0] + kv_head * p.k[1], p.k[2], n_keys, (int)p.d};
    const source<T> v_rows = {v + batch * p.v[0] + kv_head * p.v[1] + column0, p.v[2], n_keys, width};
    staging<T, KEYS, D> next_keys;
    staging<T, KEYS, WIDTH> next_values;
    next_keys.template load<false>(k_rows, 0);
    queries<T, D> query;
    query.load(shared, q_rows, p.q[3], first_row);
    columns column[TILES];
    bw_acc out[TILES][WIDTH / 16];
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++) { /* every slot once or more */
            const int slot = bw_acc_column_slot(i), r = first_row + t * 16 + bw_acc_column(i);
            column[t].end[slot] = r < n_rows ? bw_least(first_end + step * r, n_keys) : 0;
            column[t].mask[slot] = shared.late[MASK] + r * p.mask[2];
            column[t].most[slot] = NEVER;
            column[t].total[slot] = 0;
        }
#pragma unroll
        for (int d = 0; d < WIDTH / 16; d++)
            bw_acc_zero(out[t][d]);
    }
    uint32_t infinite = 0; /* whether this thread met any */

    for (int base = 0; base < end; base += KEYS) {
        /* All have passed the second barrier since they read keys: there is room for new ones. */
        next_keys.template store<false>(shared.keys, tiles<D>::STRIDE);
        next_values.template load<!BW_FRAG_LOADS_T>(v_rows, base);
        bw_barrier();
        const bool is_active = base < wave_end;
        bw_acc weights[TILES][KEYS / 16];
        if (is_active)
            multiply_keys<T, D>(shared, query, first_row, weights);
        infinite |= next_values.take_infinite();
        next_values.template store<!BW_FRAG_LOADS_T>(shared.values, tiles<D>::V_STRIDE);
        if (base + KEYS < end)
            next_keys.template load<false>(k_rows, base + KEYS);
        bw_barrier();
        if (!is_active)
            continue;
        const bool is_masked = mask || base + KEYS > whole;
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float shrink[BW_ACC_COLUMNS];
            softmax<T>(p, weights[t], column[t], base, is_masked, mask, shrink);
            bw_shrink_sums(out[t], shrink);
        }
        bw_add_values<T, tiles<D>::V_STRIDE>((const T *)(const void *)shared.values, weights, out);
    }
    store_rows<T, D>(shared, first_row, n_rows, column, out, width, y);
    if (infinite)
        shared.has_infinite = 1;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++)
            shared.most[first_row + t * 16 + bw_acc_column(i)] = column[t].most[bw_acc_column_slot(i)];
    bw_barrier();
    if (shared.has_infinite)
        add_infinite<T, D>(p, shared, n_rows, width, q, k, v, mask, y);
}

#define SDPA(name, T, d)                                                                                               \
    BW_KERNEL_WIDE(BLOCK, sdpa_tile_##name##_##d)                                                                      \
    (const bw_sdpa_args p, const T *q, const T *k, const T *v, const float *mask, T *y)                                \
    {                                                                                                                  \
        sdpa<T, d>(p, q, k, v, mask, y);                                                                               \
    }
#define ALL(name, T)                                                                                                   \
    SDPA(name, T, 64)                                                                                                  \
    SDPA(name, T, 96)                                                                                                  \
    SDPA(name, T, 128)                                                                                                 \
    SDPA(name, T, 256)
ALL(f16, bw_f16)
ALL(bf16, bw_bf16)
