/* ATTENTION on a GPU where sequences have many tokens in a step: flash attention (Dao, arXiv:2307.08691) on matrix
 * tiles. A workgroup takes one KV head and 64 query rows of one sequence: tokens times the query heads of that KV head.
 * A wave has 16 or 32 of them and goes through all keys that any of them sees, 32 at a time through shared memory.
 * Heads wider than 128 are cut into four parts, whose waves have the same query rows, 32 in a workgroup: each finds its
 * part's share of the scores, adds the others' through shared memory, and sums its part of the values.
 *
 * Scores are found transposed, keys by queries, so that softmax goes along a lane's own results and the weights are the
 * operand of the second product as they lie; that gives the output transposed. Queries and weights are split into two
 * numbers of the cache's type each, which keeps f32's precision with f16 (with bf16: 16 bits); before that a row of q
 * is brought to 2^12, and weights are counted in small units (bw_weight_shift), so that the second numbers are far from
 * subnormal ones, which have fewer bits. Keys and values of a q8_0 cache become f16 on their way to shared memory: rounded to 11 bits, of
 * numbers that have 8. */
#include "bw_kernel.h"
#include "attention/bw_attention_args.h"
#include "attention/bw_attention_kernel.h"
#include "attention/bw_attention_tile.h"

enum { SHIFT = 12 /* of queries */ };

/* How the work is shared. Wave w has part w % PARTS of a head's elements and the (w / PARTS)-th TILES tiles of 16 query
 * rows. */
template <int D> struct shape {
    static constexpr bool IS_WIDE = D > BW_ATTENTION_TILE_WIDTH;
    static constexpr int PARTS = IS_WIDE ? 4 : 1, OWN = D / PARTS, KEYS = IS_WIDE ? 16 : 32;
    static constexpr int BLOCK = IS_WIDE ? BW_ATTENTION_WIDE_BLOCK : BW_ATTENTION_TILE_BLOCK;
    static constexpr int ROWS = IS_WIDE ? BW_ATTENTION_WIDE_ROWS : BW_ATTENTION_TILE_ROWS;
    static constexpr int WAVES = BLOCK / BW_WAVE, TILES = ROWS / 16 / (WAVES / PARTS);
    static constexpr int KEY_TILES = KEYS / 16, STEPS = OWN / 16;
    static_assert(D % (16 * PARTS) == 0 && TILES * 16 * WAVES == ROWS * PARTS, "whole tiles");

    BW_DEVICE_SPECIAL static int first_row(void)
    {
        return bw_thread() / BW_WAVE / PARTS * TILES * 16;
    }
    BW_DEVICE_SPECIAL static int part(void)
    {
        return PARTS == 1 ? 0 : bw_thread() / BW_WAVE % PARTS;
    }
};

/* A workgroup's tokens, all of one sequence. */
struct part {
    int32_t token, n_tokens, position, pages; /* the first one's number in the step and position in the sequence */
};

/* Sequences follow each other in a step, so the parts of the s-th begin at workgroup first_token / slot_tokens + s:
 * there is room for all of them before the next one's. */
template <int BLOCK> BW_DEVICE part find_part(const bw_attention_args &p, int32_t slot, const int32_t *seqs)
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
    static constexpr int KEYS = shape<D>::KEYS, ROWS = shape<D>::ROWS;
    static constexpr bool HAS_QUERIES = !shape<D>::IS_WIDE && !BW_FRAG_LOADS_T && BW_FRAG_PAIRS * (D / 16) >= 32;
    static constexpr int V_ROWS = BW_FRAG_LOADS_T ? KEYS : D, V_STRIDE = (BW_FRAG_LOADS_T ? D : KEYS) + BW_TILE_PAD;
    static constexpr int STRIDE = D + BW_TILE_PAD;
    alignas(16) uint16_t keys[KEYS * STRIDE];
    alignas(16) uint16_t values[V_ROWS * V_STRIDE];
    alignas(16) uint16_t queries[HAS_QUERIES ? 2 * ROWS * STRIDE : 8];
    float factors[shape<D>::PARTS * ROWS]; /* what a row of q was divided by, each part on its own */
};

/* Eight neighbouring elements of a row of the cache C, as they are loaded; in shared memory they are numbers of `type`. */
template <typename C> struct chunk {
    typedef C type;
    bw_16 raw;
    BW_DEVICE_SPECIAL void load(const C *cache, int64_t row, int d, int i)
    {
        raw = bw_load16(cache + row * d + i);
    }
    BW_DEVICE_SPECIAL bw_16 get(void) const
    {
        return raw;
    }
};
/* A block of q8_0 begins at any even address: what is read are the words that its bytes lie in. Those may end two bytes
 * beyond a block with an even number, which is never the last: pages hold a multiple of 8 rows. */
template <> struct chunk<bw_q8_0> {
    typedef bw_f16 type;
    uint32_t w[3];
    uint32_t scale; /* its bits, and in the upper half how many bits of w stand before the first element */
    BW_DEVICE_SPECIAL void load(const bw_q8_0 *cache, int64_t row, int d, int i)
    {
        const int64_t block = row * (d / 32) + i / 32;
        const uint8_t *from = cache[block].bytes;
        const int odd = (int)(block & 1) * 2; /* 34 block is a multiple of 4, or 2 more than one */
        scale = *(const uint16_t *)(const void *)from | (odd ? 0u : 16u << 16);
        const uint8_t *words = from + i % 32 + odd;
        w[0] = *(const uint32_t *)(const void *)words;
        w[1] = *(const uint32_t *)(const void *)(words + 4);
        w[2] = *(const uint32_t *)(const void *)(words + (odd ? 4 : 8));
    }
    BW_DEVICE_SPECIAL bw_16 get(void) const
    {
        const float x = bw_f16_of_bits((uint16_t)scale);
        const int skip = (int)(scale >> 16);
        bw_16 r;
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint32_t q = (uint32_t)(((uint64_t)w[k + 1] << 32 | w[k]) >> skip);
#pragma unroll
            for (int j = 0; j < 2; j++)
                r.w[2 * k + j] = bw_pair_put<bw_f16>(x * (float)(int8_t)(q >> 16 * j), x * (float)(int8_t)(q >> (16 * j + 8)));
        }
        return r;
    }
};

/* A tile of keys or values on its way from the cache to shared memory: chunks of 8 elements of a key's row. */
template <typename C, int D> struct staging {
    typedef bw_tile_chunks<shape<D>::BLOCK, shape<D>::KEYS, D> place;
    chunk<C> chunks[place::EACH];

    template <bool TRANSPOSES>
    BW_DEVICE_SPECIAL void load(const bw_attention_args &p, const C *cache, const int32_t *pages, int head, int base,
                                int last)
    {
#pragma unroll
        for (int e = 0; e < place::EACH; e++) {
            if (!place::is_there(e))
                continue;
            int position = base + place::template row<TRANSPOSES>(e);
            int64_t row = bw_cache_row(p, pages, head, position < last ? position : last);
            chunks[e].load(cache, row, D, place::template element<TRANSPOSES>(e));
        }
    }
    template <bool TRANSPOSES> BW_DEVICE_SPECIAL void store(uint16_t *shared, int stride) const
    {
#pragma unroll
        for (int e = 0; e < place::EACH; e++)
            if (place::is_there(e))
                place::template store<TRANSPOSES>(e, shared, stride, chunks[e].get());
    }
};

/* A wave's queries: fragments of the high and of the low numbers, in registers or in shared memory. */
template <typename T, int D> struct queries {
    static constexpr int STEPS = shape<D>::STEPS, TILES = shape<D>::TILES, ROWS = shape<D>::ROWS;
    bw_frag<T> own[tiles<D>::HAS_QUERIES ? 1 : TILES][tiles<D>::HAS_QUERIES ? 1 : STEPS][2];

    /* Steps of 16 elements, in turn where fragments need no registers of their own. */
    template <typename F> BW_DEVICE_SPECIAL static void each_step(F body)
    {
        bw_each_step<STEPS, tiles<D>::HAS_QUERIES>(body);
    }

    /* row(r): where the wave's part of query row r lies, NULL where there is none. */
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
                shared.factors[shape<D>::part() * ROWS + r] = bw_from_bits((uint32_t)(exponent - SHIFT) << 23);
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

/* Scores to weights, in place, of keys base.. by one tile of queries; the shrinking of what has been summed so far.
 * HAS_FACTOR: the scores have been multiplied by theirs. */
template <typename T, bool HAS_FACTOR, int KEY_TILES>
BW_DEVICE void softmax(const bw_attention_args &p, bw_acc (&s)[KEY_TILES], columns &c, int base, bool is_masked,
                       float (&shrink)[BW_ACC_COLUMNS])
{
    float most[BW_ACC_COLUMNS];
#pragma unroll
    for (int k = 0; k < BW_ACC_COLUMNS; k++)
        most[k] = c.most[k];
#pragma unroll
    for (int kt = 0; kt < KEY_TILES; kt++)
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++) {
            const int k = bw_acc_column_slot(i);
            float x = HAS_FACTOR ? s[kt].x[i] : s[kt].x[i] * c.factor[k];
            if (p.softcap > 0)
                x = bw_capped(p, x) * BW_LOG2E;
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
        most[k] -= bw_weight_shift<T>::BITS;
    }
#pragma unroll
    for (int kt = 0; kt < KEY_TILES; kt++)
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++) {
            const int k = bw_acc_column_slot(i);
            s[kt].x[i] = bw_exp2(s[kt].x[i] - most[k]);
            c.total[k] += s[kt].x[i];
        }
}

/* A wave's columns and sums before the first key. rows: query rows of the workgroup. */
template <int D>
BW_DEVICE void begin_rows(const bw_attention_args &p, const part &own, const tiles<D> &shared, int first_row, int rows,
                          columns (&column)[shape<D>::TILES], bw_acc (&out)[shape<D>::TILES][shape<D>::STEPS])
{
    const float *factors = shared.factors + shape<D>::part() * shape<D>::ROWS;
#pragma unroll
    for (int t = 0; t < shape<D>::TILES; t++) {
#pragma unroll
        for (int i = 0; i < BW_ACC_EACH; i++) { /* every slot once or more */
            const int k = bw_acc_column_slot(i), r = first_row + t * 16 + bw_acc_column(i);
            columns &c = column[t];
            c.end[k] = r < rows ? own.position + r / p.group + 1 : 0;
            c.first[k] = p.window > 0 ? c.end[k] - p.window : 0;
            c.factor[k] = factors[r] * p.scale * (p.softcap > 0 ? 1.0f : BW_LOG2E);
            c.most[k] = BW_NO_SCORE;
            c.total[k] = 0;
        }
#pragma unroll
        for (int d = 0; d < shape<D>::STEPS; d++)
            bw_acc_zero(out[t][d]);
    }
}

/* Products of a tile of keys with a wave's queries: with its part of them. */
template <typename T, int D>
BW_DEVICE void multiply_keys(const tiles<D> &shared, const queries<T, D> &query, int first_row,
                             bw_acc (&scores)[shape<D>::TILES][shape<D>::KEY_TILES])
{
    constexpr int TILES = shape<D>::TILES, KEY_TILES = shape<D>::KEY_TILES;
    const T *from = (const T *)(const void *)shared.keys + shape<D>::part() * shape<D>::OWN;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int kt = 0; kt < KEY_TILES; kt++)
            bw_acc_zero(scores[t][kt]);
    queries<T, D>::each_step([&](int s) {
        bw_frag<T> keys[KEY_TILES];
#pragma unroll
        for (int kt = 0; kt < KEY_TILES; kt++)
            bw_frag_load(keys[kt], from + kt * 16 * tiles<D>::STRIDE + s * 16, tiles<D>::STRIDE);
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int which = 0; which < 2; which++) {
                bw_frag<T> f = query.get(shared, first_row, t, s, which);
#pragma unroll
                for (int kt = 0; kt < KEY_TILES; kt++)
                    bw_mma(scores[t][kt], keys[kt], f);
            }
    });
}

/* A wave's shares of scores, for the waves that have the same rows: [wave][tile][tile of keys][number][lane]. */
template <int D> struct shares {
    float x[shape<D>::WAVES][shape<D>::TILES][shape<D>::KEY_TILES][BW_ACC_EACH][BW_WAVE];
};

template <int D>
BW_DEVICE void share_scores(shares<D> &shared, const columns (&column)[shape<D>::TILES],
                            const bw_acc (&scores)[shape<D>::TILES][shape<D>::KEY_TILES])
{
#pragma unroll
    for (int t = 0; t < shape<D>::TILES; t++)
#pragma unroll
        for (int kt = 0; kt < shape<D>::KEY_TILES; kt++)
#pragma unroll
            for (int i = 0; i < BW_ACC_EACH; i++)
                shared.x[bw_thread() / BW_WAVE][t][kt][i][bw_lane()] =
                    scores[t][kt].x[i] * column[t].factor[bw_acc_column_slot(i)];
}

/* In the same order in every wave, which so gets the same sums. */
template <int D>
BW_DEVICE void sum_scores(const shares<D> &shared, bw_acc (&scores)[shape<D>::TILES][shape<D>::KEY_TILES])
{
    const int first = bw_thread() / BW_WAVE - shape<D>::part();
#pragma unroll
    for (int t = 0; t < shape<D>::TILES; t++)
#pragma unroll
        for (int kt = 0; kt < shape<D>::KEY_TILES; kt++)
#pragma unroll
            for (int i = 0; i < BW_ACC_EACH; i++) {
                float sum = shared.x[first][t][kt][i][bw_lane()];
#pragma unroll
                for (int w = 1; w < shape<D>::PARTS; w++)
                    sum += shared.x[first + w][t][kt][i][bw_lane()];
                scores[t][kt].x[i] = sum;
            }
}

template <int D>
BW_DEVICE void store_rows(const bw_attention_args &p, const part &own, int head, int first_row, int rows,
                          const columns (&column)[shape<D>::TILES], const bw_acc (&out)[shape<D>::TILES][shape<D>::STEPS], float *y)
{
    y += shape<D>::part() * shape<D>::OWN;
#pragma unroll
    for (int t = 0; t < shape<D>::TILES; t++) {
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
            for (int d = 0; d < shape<D>::STEPS; d++)
                to[d * 16 + bw_acc_row(i)] = out[t][d].x[i] * inverse[bw_acc_column_slot(i)];
        }
    }
}

template <typename C, int D>
BW_DEVICE void prefill(const bw_attention_args &p, const float *q, const C *k_cache, const C *v_cache,
                       const int32_t *seqs, const int32_t *pages, float *y)
{
    typedef typename chunk<C>::type T;
    constexpr int KEYS = shape<D>::KEYS, TILES = shape<D>::TILES;
    constexpr bool IS_WIDE = shape<D>::IS_WIDE;
    BW_SHARED tiles<D> shared;
    const int head = (int)bw_block_y(), first_row = shape<D>::first_row();
    /* The parts that come last see the most keys and begin first. */
    const part own = find_part<shape<D>::BLOCK>(p, p.n_slots - 1 - (int)bw_block(), seqs);
    if (own.n_tokens == 0)
        return;
    pages += own.pages;
    const int rows = own.n_tokens * p.group, end = own.position + own.n_tokens;
    const int begin = p.window > 0 && own.position + 1 > p.window ? own.position + 1 - p.window : 0;

    staging<C, D> next;
    next.template load<false>(p, k_cache, pages, head, begin, end - 1);
    queries<T, D> query;
    query.load(shared, first_row, [&](int r) -> const float * {
        if (r >= rows)
            return nullptr;
        return q + (own.token + r / p.group) * p.q_token + (head * p.group + r % p.group) * p.q_head +
               shape<D>::part() * shape<D>::OWN;
    });
    bw_barrier(); /* for the factors, and queries in shared memory */
    columns column[TILES];
    bw_acc out[TILES][shape<D>::STEPS];
    begin_rows<D>(p, own, shared, first_row, rows, column, out);

    for (int base = begin; base < end; base += KEYS) {
        /* All have passed the second barrier since they read keys: there is room for new ones. */
        next.template store<false>(shared.keys, tiles<D>::STRIDE);
        next.template load<!BW_FRAG_LOADS_T>(p, v_cache, pages, head, base, end - 1);
        bw_barrier();
        bw_acc weights[TILES][shape<D>::KEY_TILES];
        multiply_keys<T, D>(shared, query, first_row, weights);
        next.template store<!BW_FRAG_LOADS_T>(shared.values, tiles<D>::V_STRIDE);
        if (base + KEYS < end)
            next.template load<false>(p, k_cache, pages, head, base + KEYS, end - 1);
        if constexpr (IS_WIDE) {
            /* All have read the last tile's shares before the first barrier. */
            BW_SHARED shares<D> parts;
            share_scores<D>(parts, column, weights);
            bw_barrier();
            sum_scores<D>(parts, weights);
        } else {
            bw_barrier();
        }
        /* Whether some row does not see all of this tile. */
        const bool is_masked =
            base + KEYS > own.position + 1 || (p.window > 0 && base < end - p.window);
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float shrink[BW_ACC_COLUMNS];
            softmax<T, IS_WIDE>(p, weights[t], column[t], base, is_masked, shrink);
            bw_shrink_sums(out[t], shrink);
        }
        constexpr int FIRST = shape<D>::OWN * (BW_FRAG_LOADS_T ? 1 : tiles<D>::V_STRIDE);
        bw_add_values<T, tiles<D>::V_STRIDE>((const T *)(const void *)shared.values + shape<D>::part() * FIRST, weights,
                                             out);
    }
    store_rows<D>(p, own, head, first_row, rows, column, out, y);
}

#define PREFILL(name, C, d) PREFILL_AS(BW_KERNEL(shape<d>::BLOCK, attention_prefill_##name##_##d), C, d)
/* Two workgroups, so that one computes while the other waits for its tiles. */
#define PREFILL_WIDE(name, C, d)                                                                                       \
    PREFILL_AS(BW_KERNEL_SEVERAL(shape<d>::BLOCK, 2, attention_prefill_##name##_##d), C, d)
#define PREFILL_AS(kernel, C, d)                                                                                       \
    kernel                                                                                                             \
    (const bw_attention_args p, const float *q, const C *k_cache, const C *v_cache, const int32_t *seqs,               \
     const int32_t *pages, float *y)                                                                                   \
    {                                                                                                                  \
        prefill<C, d>(p, q, k_cache, v_cache, seqs, pages, y);                                                         \
    }
/* q8_0 has whole blocks of 32: no rows of 80 */
#define ALL(name, C)                                                                                                   \
    PREFILL(name, C, 64)                                                                                               \
    PREFILL(name, C, 96)                                                                                               \
    PREFILL(name, C, 128)                                                                                              \
    PREFILL_WIDE(name, C, 192)                                                                                         \
    PREFILL_WIDE(name, C, 256)
ALL(f16, bw_f16)
ALL(bf16, bw_bf16)
ALL(q8_0, bw_q8_0)
PREFILL(f16, bw_f16, 80)
PREFILL(bf16, bw_bf16, 80)
