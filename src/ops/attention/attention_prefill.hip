/* ATTENTION on a GPU where sequences have many tokens in a step: flash attention (Dao, arXiv:2307.08691) on matrix
 * tiles. A workgroup takes one KV head and 64 query rows of one sequence: tokens times the query heads of that KV head.
 * A wave has 16 or 32 of them and goes through all keys that any of them sees, 32 at a time through shared memory.
 *
 * Scores are found transposed, keys by queries, so that softmax goes along a lane's own results and the weights are the
 * operand of the second product as they lie; that gives the output transposed. Queries and weights are split into two
 * numbers of the cache's type each, which keeps f32's precision with f16 (with bf16: 16 bits); before that a row of q
 * is brought to 2^12, and weights are counted in 2^-12, so that the second numbers are far from subnormal ones, which
 * gfx90a takes for 0. */
#include "bw_kernel.h"
#include "bw_tile.h"
#include "attention/bw_attention_args.h"
#include "attention/bw_attention_kernel.h"

enum {
    BLOCK = BW_ATTENTION_TILE_BLOCK,
    ROWS = BW_ATTENTION_TILE_ROWS,
    WAVES = BLOCK / BW_WAVE,
    TILES = ROWS / 16 / WAVES, /* of 16 query rows, in a wave */
    KEYS = 32,
    PAD = 8, /* elements after each row of shared memory: rows then begin in different banks */
    SHIFT = 12
};
#define LOG2E 1.44269504f

/* A workgroup's tokens, all of one sequence. */
struct part {
    int32_t token, n_tokens, position, pages; /* the first one's number in the step and position in the sequence */
};

/* Sequences follow each other in a step, so the parts of the s-th begin at workgroup first_token / slot_tokens + s:
 * there is room for all of them before the next one's. */
BW_DEVICE part find_part(const bw_attention_args &p, int32_t slot, const int32_t *seqs)
{
    BW_SHARED part found;
    if (bw_thread() == 0)
        found.n_tokens = 0;
    bw_barrier();
    for (int s = bw_thread(); s < p.n_seqs; s += BLOCK) {
        const int32_t *seq = seqs + s * 4;
        const int32_t n = seq[1], at = (slot - seq[0] / p.slot_tokens - s) * p.slot_tokens;
        if (at >= 0 && at < n && n >= p.least && n <= p.most) {
            found.token = seq[0] + at;
            found.n_tokens = n - at < p.slot_tokens ? n - at : p.slot_tokens;
            found.position = seq[2] - n + at;
            found.pages = seq[3];
        }
    }
    bw_barrier();
    part own = found;
    return own;
}

/* Two numbers of T whose sum is x. */
template <typename T> struct split {
    float high, low;
};
template <typename T> BW_DEVICE split<T> split_of(float x)
{
    split<T> s;
    s.high = bw_get(bw_put<T>(x));
    s.low = x - s.high;
    return s;
}

/* Shared memory. V lies as the cache has it where fragments can be loaded across (BW_FRAG_LOADS_T), else transposed.
 * Queries have a place where a lane's fragments are too large for registers. */
template <int D> struct tiles {
    static constexpr bool HAS_QUERIES = !BW_FRAG_LOADS_T && BW_FRAG_PAIRS * (D / 16) >= 32;
    static constexpr int V_ROWS = BW_FRAG_LOADS_T ? (int)KEYS : D, V_STRIDE = (BW_FRAG_LOADS_T ? D : (int)KEYS) + PAD;
    static constexpr int STRIDE = D + PAD;
    alignas(16) uint16_t keys[KEYS * STRIDE];
    alignas(16) uint16_t values[V_ROWS * V_STRIDE];
    alignas(16) uint16_t queries[HAS_QUERIES ? 2 * ROWS * STRIDE : 8];
    float factors[ROWS]; /* what a row of q was divided by */
};

/* A tile of keys or values on its way from the cache to shared memory: chunks of 8 elements of a key's row. */
template <typename T, int D> struct staging {
    static constexpr int PARTS = D / 8, EACH = (KEYS * PARTS + BLOCK - 1) / BLOCK;
    bw_16 chunks[EACH];

    BW_DEVICE_SPECIAL static int number(int e)
    {
        return e * BLOCK + bw_thread();
    }
    BW_DEVICE_SPECIAL static bool is_there(int e)
    {
        return KEYS * PARTS % BLOCK == 0 || number(e) < KEYS * PARTS;
    }
    /* Neighbouring threads take neighbouring chunks of a row, or where it will be transposed, the same one of
     * neighbouring rows. */
    template <bool TRANSPOSES> BW_DEVICE_SPECIAL static int key(int e)
    {
        return TRANSPOSES ? number(e) % KEYS : number(e) / PARTS;
    }
    template <bool TRANSPOSES> BW_DEVICE_SPECIAL static int element(int e)
    {
        return (TRANSPOSES ? number(e) / KEYS : number(e) % PARTS) * 8;
    }
    template <bool TRANSPOSES>
    BW_DEVICE_SPECIAL void load(const bw_attention_args &p, const T *cache, const int32_t *pages, int head, int base,
                                int last)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            if (!is_there(e))
                continue;
            int position = base + key<TRANSPOSES>(e);
            int64_t row = bw_cache_row(p, pages, head, position < last ? position : last);
            chunks[e] = bw_load16(cache + row * D + element<TRANSPOSES>(e));
        }
    }
    template <bool TRANSPOSES> BW_DEVICE_SPECIAL void store(uint16_t *shared, int stride) const
    {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            if (!is_there(e))
                continue;
            if constexpr (TRANSPOSES) {
                uint16_t *to = shared + element<TRANSPOSES>(e) * stride + key<TRANSPOSES>(e);
#pragma unroll
                for (int j = 0; j < 8; j++)
                    to[j * stride] = (uint16_t)(chunks[e].w[j / 2] >> 16 * (j % 2));
            } else {
                bw_store16(shared + key<TRANSPOSES>(e) * stride + element<TRANSPOSES>(e), chunks[e]);
            }
        }
    }
};

/* A wave's queries: fragments of the high and of the low numbers, in registers or in shared memory. */
template <typename T, int D> struct queries {
    static constexpr int STEPS = D / 16;
    bw_frag<T> own[tiles<D>::HAS_QUERIES ? 1 : TILES][tiles<D>::HAS_QUERIES ? 1 : STEPS][2];

    /* Steps of 16 elements, in turn where fragments need no registers of their own. */
    template <typename F> BW_DEVICE_SPECIAL static void each_step(F body)
    {
        if constexpr (tiles<D>::HAS_QUERIES) {
#pragma unroll 1
            for (int s = 0; s < STEPS; s++)
                body(s);
        } else {
#pragma unroll
            for (int s = 0; s < STEPS; s++)
                body(s);
        }
    }

    /* row(r): where query row r lies, NULL where there is none. */
    template <typename F> BW_DEVICE_SPECIAL void load(tiles<D> &shared, int first_row, F row)
    {
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < BW_FRAG_ROWS; i++) {
                const int r = first_row + t * 16 + bw_frag_row(i);
                const float *q = row(r);
                float most = 0;
                each_step([&](int s) {
#pragma unroll
                    for (int e = 0; e < BW_FRAG_PAIRS * 2; e++) {
                        float x = q ? q[s * 16 + bw_frag_k(e / 2) + e % 2] : 0.0f, size = x < 0 ? -x : x;
                        most = size > most ? size : most;
                    }
                });
                /* 2^(exponent - 12), from the exponent's bits */
                int exponent = (int)(bw_bits(bw_frag_max_groups(most)) >> 23);
                exponent = exponent < SHIFT + 1 ? SHIFT + 1 : exponent > 254 ? 254 : exponent;
                const float scale = bw_from_bits((uint32_t)(254 + SHIFT - exponent) << 23);
                shared.factors[r] = bw_from_bits((uint32_t)(exponent - SHIFT) << 23);
                each_step([&](int s) {
#pragma unroll
                    for (int j = 0; j < BW_FRAG_PAIRS; j++) {
                        const int k = s * 16 + bw_frag_k(j);
                        split<T> a = split_of<T>(q ? q[k] * scale : 0.0f), b = split_of<T>(q ? q[k + 1] * scale : 0.0f);
                        uint32_t high = bw_pair_put<T>(a.high, b.high), low = bw_pair_put<T>(a.low, b.low);
                        if constexpr (tiles<D>::HAS_QUERIES) {
                            uint16_t *to = shared.queries + r * tiles<D>::STRIDE + k;
                            *(uint32_t *)(void *)to = high;
                            *(uint32_t *)(void *)(to + ROWS * tiles<D>::STRIDE) = low;
                        } else {
                            own[t][s][0].w[bw_frag_word(i, j)] = high;
                            own[t][s][1].w[bw_frag_word(i, j)] = low;
                        }
                    }
                });
            }
    }
    /* Fragment of tile t, step s. */
    BW_DEVICE_SPECIAL bw_frag<T> get(const tiles<D> &shared, int first_row, int t, int s, int which) const
    {
        if constexpr (tiles<D>::HAS_QUERIES) {
            bw_frag<T> f;
            bw_frag_load(f, (const T *)(const void *)(shared.queries + (which * ROWS + first_row + t * 16) * tiles<D>::STRIDE) + s * 16,
                         tiles<D>::STRIDE);
            return f;
        } else {
            return own[t][s][which];
        }
    }
};

/* What a lane knows of the query rows of its columns in one tile. */
struct columns {
    int32_t first[BW_ACC_COLUMNS], end[BW_ACC_COLUMNS]; /* the keys a row sees */
    float factor[BW_ACC_COLUMNS];                       /* of its scores */
    float most[BW_ACC_COLUMNS], total[BW_ACC_COLUMNS];
};

/* Scores to weights, in place, of keys base.. by one tile of queries; the shrinking of what has been summed so far. */
BW_DEVICE void softmax(const bw_attention_args &p, bw_acc (&s)[KEYS / 16], columns &c, int base, bool is_masked,
                       float (&shrink)[BW_ACC_COLUMNS])
{
    float most[BW_ACC_COLUMNS];
#pragma unroll
    for (int k = 0; k < BW_ACC_COLUMNS; k++)
        most[k] = c.most[k];
#pragma unroll
    for (int kt = 0; kt < KEYS / 16; kt++)
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++) {
            const int k = bw_acc_column_slot(i);
            float x = s[kt].x[i] * c.factor[k];
            if (p.softcap > 0)
                x = bw_capped(p, x) * LOG2E;
            if (is_masked) {
                int key = base + kt * 16 + bw_acc_row(i);
                x = key >= c.first[k] && key < c.end[k] ? x : -__builtin_inff();
            }
            s[kt].x[i] = x;
            most[k] = x > most[k] ? x : most[k];
        }
#pragma unroll
    for (int k = 0; k < BW_ACC_COLUMNS; k++) {
        most[k] = bw_acc_max_rows(most[k]);
        shrink[k] = bw_exp2(c.most[k] - most[k]);
        c.most[k] = most[k];
        c.total[k] *= shrink[k];
        most[k] -= SHIFT;
    }
#pragma unroll
    for (int kt = 0; kt < KEYS / 16; kt++)
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++) {
            const int k = bw_acc_column_slot(i);
            s[kt].x[i] = bw_exp2(s[kt].x[i] - most[k]);
            c.total[k] += s[kt].x[i];
        }
}

/* Weights as two operands. */
template <typename T> BW_DEVICE void split_weights(const bw_acc &weights, bw_frag<T> (&f)[2])
{
    bw_acc high, low;
#pragma unroll
    for (int i = 0; i < BW_ACC_EACH; i++) {
        split<T> s = split_of<T>(weights.x[i]);
        high.x[i] = s.high;
        low.x[i] = s.low;
    }
    bw_frag_of_acc(f[0], high);
    bw_frag_of_acc(f[1], low);
}

/* A wave's columns and sums before the first key. rows: query rows of the workgroup. */
template <int D>
BW_DEVICE void begin_rows(const bw_attention_args &p, const part &own, const tiles<D> &shared, int first_row, int rows,
                          columns (&column)[TILES], bw_acc (&out)[TILES][D / 16])
{
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++) { /* every slot once or more */
            const int k = bw_acc_column_slot(i), r = first_row + t * 16 + bw_acc_column(i);
            columns &c = column[t];
            c.end[k] = r < rows ? own.position + r / p.group + 1 : 0;
            c.first[k] = p.window > 0 ? c.end[k] - p.window : 0;
            c.factor[k] = shared.factors[r] * p.scale * (p.softcap > 0 ? 1.0f : LOG2E);
            c.most[k] = BW_NO_SCORE;
            c.total[k] = 0;
        }
#pragma unroll
        for (int d = 0; d < D / 16; d++)
            bw_acc_zero(out[t][d]);
    }
}

/* Products of a tile of keys with a wave's queries. */
template <typename T, int D>
BW_DEVICE void multiply_keys(const tiles<D> &shared, const queries<T, D> &query, int first_row,
                             bw_acc (&scores)[TILES][KEYS / 16])
{
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int kt = 0; kt < KEYS / 16; kt++)
            bw_acc_zero(scores[t][kt]);
    queries<T, D>::each_step([&](int s) {
        bw_frag<T> keys[KEYS / 16];
#pragma unroll
        for (int kt = 0; kt < KEYS / 16; kt++)
            bw_frag_load(keys[kt], (const T *)(const void *)(shared.keys + kt * 16 * tiles<D>::STRIDE + s * 16),
                         tiles<D>::STRIDE);
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int which = 0; which < 2; which++) {
                bw_frag<T> f = query.get(shared, first_row, t, s, which);
#pragma unroll
                for (int kt = 0; kt < KEYS / 16; kt++)
                    bw_mma(scores[t][kt], keys[kt], f);
            }
    });
}

/* out += a tile of values times a wave's weights. */
template <typename T, int D>
BW_DEVICE void add_values(const tiles<D> &shared, const bw_acc (&weights)[TILES][KEYS / 16],
                          bw_acc (&out)[TILES][D / 16])
{
#pragma unroll
    for (int kt = 0; kt < KEYS / 16; kt++) {
        bw_frag<T> weight[TILES][2];
#pragma unroll
        for (int t = 0; t < TILES; t++)
            split_weights(weights[t][kt], weight[t]);
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            bw_frag<T> values;
            const T *from = (const T *)(const void *)shared.values;
            if constexpr (BW_FRAG_LOADS_T)
                bw_frag_load_t(values, from + kt * 16 * tiles<D>::V_STRIDE + d * 16, tiles<D>::V_STRIDE);
            else
                bw_frag_load(values, from + d * 16 * tiles<D>::V_STRIDE + kt * 16, tiles<D>::V_STRIDE);
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int which = 0; which < 2; which++)
                    bw_mma(out[t][d], values, weight[t][which]);
        }
    }
}

template <int D>
BW_DEVICE void store_rows(const bw_attention_args &p, const part &own, int head, int first_row, int rows,
                          const columns (&column)[TILES], const bw_acc (&out)[TILES][D / 16], float *y)
{
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        float inverse[BW_ACC_COLUMNS];
#pragma unroll
        for (int k = 0; k < BW_ACC_COLUMNS; k++)
            inverse[k] = 1 / bw_acc_sum_rows(column[t].total[k]);
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++) {
            const int r = first_row + t * 16 + bw_acc_column(i);
            if (r >= rows)
                continue;
            float *to = y + (own.token + r / p.group) * p.y_token + (head * p.group + r % p.group) * p.y_head;
#pragma unroll
            for (int d = 0; d < D / 16; d++)
                to[d * 16 + bw_acc_row(i)] = out[t][d].x[i] * inverse[bw_acc_column_slot(i)];
        }
    }
}

template <typename T, int D>
BW_DEVICE void prefill(const bw_attention_args &p, const float *q, const T *k_cache, const T *v_cache,
                       const int32_t *seqs, const int32_t *pages, float *y)
{
    BW_SHARED tiles<D> shared;
    const int head = (int)bw_block_y(), first_row = bw_thread() / BW_WAVE * TILES * 16;
    /* The parts that come last see the most keys and begin first. */
    const part own = find_part(p, p.n_slots - 1 - (int)bw_block(), seqs);
    if (own.n_tokens == 0)
        return;
    pages += own.pages;
    const int rows = own.n_tokens * p.group, end = own.position + own.n_tokens;
    const int begin = p.window > 0 && own.position + 1 > p.window ? own.position + 1 - p.window : 0;

    staging<T, D> next;
    next.template load<false>(p, k_cache, pages, head, begin, end - 1);
    queries<T, D> query;
    query.load(shared, first_row, [&](int r) -> const float * {
        if (r >= rows)
            return nullptr;
        return q + (own.token + r / p.group) * p.q_token + (head * p.group + r % p.group) * p.q_head;
    });
    bw_barrier(); /* for the factors, and queries in shared memory */
    columns column[TILES];
    bw_acc out[TILES][D / 16];
    begin_rows<D>(p, own, shared, first_row, rows, column, out);

    for (int base = begin; base < end; base += KEYS) {
        /* All have passed the second barrier since they read keys: there is room for new ones. */
        next.template store<false>(shared.keys, tiles<D>::STRIDE);
        next.template load<!BW_FRAG_LOADS_T>(p, v_cache, pages, head, base, end - 1);
        bw_barrier();
        bw_acc weights[TILES][KEYS / 16];
        multiply_keys<T, D>(shared, query, first_row, weights);
        next.template store<!BW_FRAG_LOADS_T>(shared.values, tiles<D>::V_STRIDE);
        if (base + KEYS < end)
            next.template load<false>(p, k_cache, pages, head, base + KEYS, end - 1);
        bw_barrier();
        /* Whether some row does not see all of this tile. */
        const bool is_masked =
            base + KEYS > own.position + 1 || (p.window > 0 && base < end - p.window);
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float shrink[BW_ACC_COLUMNS];
            softmax(p, weights[t], column[t], base, is_masked, shrink);
#pragma unroll
            for (int d = 0; d < D / 16; d++)
#pragma unroll
                for (int i = 0; i < BW_ACC_EACH; i++)
                    out[t][d].x[i] *= shrink[bw_acc_column_slot(i)];
        }
        add_values<T, D>(shared, weights, out);
    }
    store_rows<D>(p, own, head, first_row, rows, column, out, y);
}

#define PREFILL(name, T, d)                                                                                            \
    BW_KERNEL(BLOCK, attention_prefill_##name##_##d)                                                                   \
    (const bw_attention_args p, const float *q, const T *k_cache, const T *v_cache, const int32_t *seqs,               \
     const int32_t *pages, float *y)                                                                                   \
    {                                                                                                                  \
        prefill<T, d>(p, q, k_cache, v_cache, seqs, pages, y);                                                         \
    }
#define ALL(name, T)                                                                                                   \
    PREFILL(name, T, 64)                                                                                               \
    PREFILL(name, T, 80)                                                                                               \
    PREFILL(name, T, 96)                                                                                               \
    PREFILL(name, T, 128)
ALL(f16, bw_f16)
ALL(bf16, bw_bf16)
