/* Decode: one token's query heads against a range of keys. Keys and values are converted as they are loaded; up to four
 * query rows share each load. Included by attention_simd.h. */

/* Vectors of accumulators: keys at once for the scores, columns at once for the sums. */
BW_INLINE int keys_at_once(int n_rows)
{
    return n_rows == 1 ? 8 : n_rows < 4 || VF_N == 16 ? 4 : 2;
}

/* The scale of a q8_0 block. */
BW_INLINE vf block_scale(const char *block)
{
    return vf_set1(bw_load_f16(block));
}

/* Ask for the cache lines of a row of the next tile. The processor's own prefetching ends at a page of memory, and a
 * page of the cache is seldom longer. */
BW_INLINE void prefetch_row(const char *row, int64_t n_bytes)
{
    for (int64_t i = 0; i < n_bytes; i += 64)
        __builtin_prefetch(row + i, 0, 3);
}

/* Scores of n_rows query rows q [n_rows, d] with n cache rows; n is a multiple of keys_at_once.
 * s [n_rows, BW_ATTENTION_SCORES]. */
BW_INLINE void score_keys(bw_dtype dtype, int n_rows, const float *q, int64_t d, const char *const *rows,
                          const char *const *next_rows, int64_t row_bytes, int64_t n, float *s)
{
    const int at_once = keys_at_once(n_rows);
    for (int64_t j = 0; j < n; j += at_once) {
        vf acc[4][8];
        for (int i = 0; i < at_once && next_rows; i++)
            prefetch_row(next_rows[j + i], row_bytes);
        BW_UNROLL
        for (int r = 0; r < n_rows; r++) {
            BW_UNROLL
            for (int i = 0; i < at_once; i++)
                acc[r][i] = vf_set1(0.0f);
        }
        if (dtype == BW_Q8_0) {
            for (int64_t b = 0; b < d / 32; b++) {
                BW_UNROLL
                for (int i = 0; i < at_once; i++) {
                    const char *block = rows[j + i] + b * 34;
                    vf scale = block_scale(block);
                    BW_UNROLL
                    for (int c = 0; c < 32; c += VF_N) {
                        vf x = vf_mul(vf_load_i8((const int8_t *)block + 2 + c), scale);
                        BW_UNROLL
                        for (int r = 0; r < n_rows; r++)
                            acc[r][i] = vf_fma(x, vf_load(q + r * d + b * 32 + c), acc[r][i]);
                    }
                }
            }
        } else {
            for (int64_t c = 0; c < d; c += VF_N) {
                BW_UNROLL
                for (int i = 0; i < at_once; i++) {
                    vf x = vf_load_as(dtype, rows[j + i], c);
                    BW_UNROLL
                    for (int r = 0; r < n_rows; r++)
                        acc[r][i] = vf_fma(x, vf_load(q + r * d + c), acc[r][i]);
                }
            }
        }
        if (at_once == 2) {
            BW_UNROLL
            for (int r = 0; r < n_rows; r += 2) {
                float sums[4];
                vf_store_sum4(sums, acc[r][0], acc[r][1], acc[r + 1][0], acc[r + 1][1]);
                memcpy(s + r * BW_ATTENTION_SCORES + j, sums, 8);
                memcpy(s + (r + 1) * BW_ATTENTION_SCORES + j, sums + 2, 8);
            }
        } else {
            BW_UNROLL
            for (int r = 0; r < n_rows; r++) {
                BW_UNROLL
                for (int i = 0; i < at_once; i += 4)
                    vf_store_sum4(s + r * BW_ATTENTION_SCORES + j + i, acc[r][i], acc[r][i + 1], acc[r][i + 2],
                                  acc[r][i + 3]);
            }
        }
    }
}

/* sums[r, c..c + n_vectors * VF_N) = alpha[r] * itself + sum over keys of weight[r, key] * value[key, ...]. */
BW_INLINE void weigh_columns(bw_dtype dtype, int n_rows, int n_vectors, const char *const *rows,
                             const char *const *next_rows, int64_t row_bytes, int64_t n_keys, const float *weights,
                             const float *alpha, float *sums, int64_t d_v, int64_t c)
{
    vf acc[4][8];
    BW_UNROLL
    for (int r = 0; r < n_rows; r++) {
        BW_UNROLL
        for (int i = 0; i < n_vectors; i++)
            acc[r][i] = vf_mul(vf_load(sums + r * d_v + c + i * VF_N), vf_set1(alpha[r]));
    }
    for (int64_t j = 0; j < n_keys; j++) {
        vf weight[4];
        if (next_rows)
            prefetch_row(next_rows[j], row_bytes);
        BW_UNROLL
        for (int r = 0; r < n_rows; r++)
            weight[r] = vf_set1(weights[r * BW_ATTENTION_SCORES + j]);
        BW_UNROLL
        for (int i = 0; i < n_vectors; i++) {
            vf x;
            if (dtype == BW_Q8_0) {
                int64_t column = c + i * VF_N;
                const char *block = rows[j] + column / 32 * 34;
                x = vf_mul(vf_load_i8((const int8_t *)block + 2 + column % 32), block_scale(block));
            } else {
                x = vf_load_as(dtype, rows[j], c + i * VF_N);
            }
            BW_UNROLL
            for (int r = 0; r < n_rows; r++)
                acc[r][i] = vf_fma(x, weight[r], acc[r][i]);
        }
    }
    BW_UNROLL
    for (int r = 0; r < n_rows; r++) {
        BW_UNROLL
        for (int i = 0; i < n_vectors; i++)
            vf_store(sums + r * d_v + c + i * VF_N, acc[r][i]);
    }
}

BW_INLINE void weigh_values(bw_dtype dtype, int n_rows, const char *const *rows, const char *const *next_rows,
                            int64_t row_bytes, int64_t n_keys, const float *weights, const float *alpha, float *sums,
                            int64_t d_v)
{
    const int at_once = n_rows == 1 ? 8 : n_rows == 4 ? 2 : 4;
    int64_t c = 0;
    for (; c + at_once * VF_N <= d_v; c += at_once * VF_N) {
        weigh_columns(dtype, n_rows, at_once, rows, next_rows, row_bytes, n_keys, weights, alpha, sums, d_v, c);
        next_rows = NULL; /* asked for once */
    }
    for (; c < d_v; c += VF_N)
        weigh_columns(dtype, n_rows, 1, rows, NULL, 0, n_keys, weights, alpha, sums, d_v, c);
}

/* The choice among types and numbers of rows, once per tile. */
#define CASES(function, dtype, n_rows, ...)                                                                            \
    do {                                                                                                               \
        if ((n_rows) == 1)                                                                                             \
            function(dtype, 1, __VA_ARGS__);                                                                           \
        else if ((n_rows) == 2)                                                                                        \
            function(dtype, 2, __VA_ARGS__);                                                                           \
        else if ((n_rows) == 3)                                                                                        \
            function(dtype, 3, __VA_ARGS__);                                                                           \
        else                                                                                                           \
            function(dtype, 4, __VA_ARGS__);                                                                           \
    } while (0)

static void score_tile(bw_dtype dtype, int n_rows, const float *q, int64_t d, const char *const *rows,
                       const char *const *next_rows, int64_t row_bytes, int64_t n, float *s)
{
    if (dtype == BW_F16)
        CASES(score_keys, BW_F16, n_rows, q, d, rows, next_rows, row_bytes, n, s);
    else if (dtype == BW_BF16)
        CASES(score_keys, BW_BF16, n_rows, q, d, rows, next_rows, row_bytes, n, s);
    else
        CASES(score_keys, BW_Q8_0, n_rows, q, d, rows, next_rows, row_bytes, n, s);
}

static void weigh_tile(bw_dtype dtype, int n_rows, const char *const *rows, const char *const *next_rows,
                       int64_t row_bytes, int64_t n_keys, const float *weights, const float *alpha, float *sums,
                       int64_t d_v)
{
    if (dtype == BW_F16)
        CASES(weigh_values, BW_F16, n_rows, rows, next_rows, row_bytes, n_keys, weights, alpha, sums, d_v);
    else if (dtype == BW_BF16)
        CASES(weigh_values, BW_BF16, n_rows, rows, next_rows, row_bytes, n_keys, weights, alpha, sums, d_v);
    else
        CASES(weigh_values, BW_Q8_0, n_rows, rows, next_rows, row_bytes, n_keys, weights, alpha, sums, d_v);
}

#undef CASES

/* Scratch of a decode item: q [group, d], sums [group, d_v], m and l [group]. */
typedef struct decode_state {
    float *q, *sums, *m, *l;
} decode_state;

BW_INLINE decode_state place_decode(const view *a, char *scratch)
{
    decode_state st;
    st.q = (float *)scratch;
    st.sums = st.q + a->group * a->d;
    st.m = st.sums + a->group * a->d_v;
    st.l = st.m + a->group;
    return st;
}

/* The addresses of a tile's keys and values; past its end they repeat the last. */
typedef struct tile_rows {
    int64_t n;
    const char *k[BW_ATTENTION_KEYS], *v[BW_ATTENTION_KEYS];
} tile_rows;

BW_INLINE void find_tile(const view *a, sequence seq, int64_t head, int64_t begin, int64_t end, tile_rows *rows)
{
    rows->n = end - begin < BW_ATTENTION_KEYS ? end - begin : BW_ATTENTION_KEYS;
    find_rows(a->k, get_row_bytes(a->k), seq.pages, head, begin, rows->n, rows->k);
    find_rows(a->v, get_row_bytes(a->v), seq.pages, head, begin, rows->n, rows->v);
    for (int64_t i = rows->n; i < BW_ATTENTION_KEYS; i++) {
        rows->k[i] = rows->k[rows->n - 1];
        rows->v[i] = rows->v[rows->n - 1];
    }
}

/* All query heads of KV head `head` of a sequence's only token against keys [begin, end). To the output, or where
 * partial is given, to partial [group, d_v + 2]: sums, maximum, sum of weights. */
static void attend_range(const view *a, sequence seq, int64_t head, int64_t begin, int64_t end, float *partial,
                         char *scratch)
{
    decode_state st = place_decode(a, scratch);
    const float *q =
        (const float *)a->q->data + seq.first_token * a->q->strides[0] + head * a->group * a->q->strides[1];
    for (int64_t g = 0; g < a->group; g++) {
        scale_row(q + g * a->q->strides[1], a->params->scale, st.q + g * a->d, a->d);
        st.m[g] = -INFINITY;
        st.l[g] = 0;
    }
    memset(st.sums, 0, (size_t)(a->group * a->d_v) * sizeof *st.sums);
    int64_t k_bytes = get_row_bytes(a->k), v_bytes = get_row_bytes(a->v);
    tile_rows rows[2]; /* the tile at work and the next one, which is being fetched */
    float scores[4 * BW_ATTENTION_SCORES], alpha[4];
    find_tile(a, seq, head, begin, end, &rows[0]);
    for (int64_t tile = begin, turn = 0; tile < end; tile += BW_ATTENTION_KEYS, turn ^= 1) {
        const tile_rows *now = &rows[turn], *next = tile + BW_ATTENTION_KEYS < end ? &rows[turn ^ 1] : NULL;
        if (next)
            find_tile(a, seq, head, tile + BW_ATTENTION_KEYS, end, &rows[turn ^ 1]);
        for (int64_t g = 0; g < a->group;) {
            int64_t left = a->group - g, passes = (left + 3) / 4, n_rows = (left + passes - 1) / passes;
            score_tile(a->k->dtype, (int)n_rows, st.q + g * a->d, a->d, now->k, next ? next->k : NULL, k_bytes,
                       (now->n + 7) / 8 * 8, scores);
            for (int64_t r = 0; r < n_rows; r++) {
                float *s = scores + r * BW_ATTENTION_SCORES;
                if (a->params->softcap > 0)
                    cap_row(s, now->n, a->params->softcap);
                alpha[r] = soften_row(s, now->n, &st.m[g + r], &st.l[g + r]);
            }
            weigh_tile(a->v->dtype, (int)n_rows, now->v, next ? next->v : NULL, v_bytes, now->n, scores, alpha,
                       st.sums + g * a->d_v, a->d_v);
            next = NULL; /* asked for once */
            g += n_rows;
        }
    }
    for (int64_t g = 0; g < a->group; g++) {
        const float *sums = st.sums + g * a->d_v;
        if (partial) {
            float *p = partial + g * (a->d_v + 2);
            memcpy(p, sums, (size_t)a->d_v * sizeof *p);
            p[a->d_v] = st.m[g];
            p[a->d_v + 1] = st.l[g];
        } else {
            float *y =
                (float *)a->y->data + seq.first_token * a->y->strides[0] + (head * a->group + g) * a->y->strides[1];
            scale_row(sums, 1 / st.l[g], y, a->d_v);
        }
    }
}
