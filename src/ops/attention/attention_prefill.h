/* Prefill: a block of tokens, all query heads of one KV head, against the keys they see, tile by tile. A tile of keys
 * is converted to f32 and transposed into panels [columns / NR][d][NR], a tile of values into [d_v / NR][keys][NR];
 * then both products are one small matrix kernel, MR rows by NR columns. Causal and window masks cut whole panels and
 * key ranges, so only single rows at the edge do needless work. Included by attention_simd.h. */

/* Rows and columns of the matrix kernel: as many accumulators as the registers hold. */
enum { MR = VF_N == 16 ? 12 : VF_N == 8 ? 6 : 4, NR = 2 * VF_N };

/* c [rows, NR] = (alpha ? alpha[r] * c : 0) + a [rows, n] b [n, NR]. */
BW_INLINE void multiply_rows(int n_rows, const float *a, int64_t a_stride, const float *b, int64_t n,
                             const float *alpha, float *c, int64_t c_stride)
{
    vf acc[MR][2];
    BW_UNROLL
    for (int r = 0; r < n_rows; r++) {
        const vf factor = vf_set1(alpha ? alpha[r] : 0.0f);
        acc[r][0] = alpha ? vf_mul(vf_load(c + r * c_stride), factor) : factor;
        acc[r][1] = alpha ? vf_mul(vf_load(c + r * c_stride + VF_N), factor) : factor;
    }
    for (int64_t i = 0; i < n; i++) {
        const vf b0 = vf_load(b + i * NR), b1 = vf_load(b + i * NR + VF_N);
        BW_UNROLL
        for (int r = 0; r < n_rows; r++) {
            const vf x = vf_set1(a[r * a_stride + i]);
            acc[r][0] = vf_fma(x, b0, acc[r][0]);
            acc[r][1] = vf_fma(x, b1, acc[r][1]);
        }
    }
    BW_UNROLL
    for (int r = 0; r < n_rows; r++) {
        vf_store(c + r * c_stride, acc[r][0]);
        vf_store(c + r * c_stride + VF_N, acc[r][1]);
    }
}

static __attribute__((noinline)) void multiply(int64_t n_rows, const float *a, int64_t a_stride, const float *b,
                                               int64_t n, const float *alpha, float *c, int64_t c_stride)
{
#define ROWS(count)                                                                                                    \
    case count:                                                                                                        \
        if (alpha)                                                                                                     \
            multiply_rows(count, a, a_stride, b, n, alpha, c, c_stride);                                               \
        else                                                                                                           \
            multiply_rows(count, a, a_stride, b, n, NULL, c, c_stride);                                                \
        break
    switch (n_rows) {
#if defined(BW_VEC_AVX512)
        ROWS(12);
        ROWS(11);
        ROWS(10);
        ROWS(9);
        ROWS(8);
        ROWS(7);
#endif
#if !defined(BW_VEC_PLAIN)
        ROWS(6);
        ROWS(5);
#endif
        ROWS(4);
        ROWS(3);
        ROWS(2);
        ROWS(1);
    default:
        break;
    }
#undef ROWS
}

#if defined(BW_VEC_PLAIN)
/* VF_N values of a cache row at column c. */
BW_INLINE vf load_values(bw_dtype dtype, const char *row, int64_t c)
{
    if (dtype != BW_Q8_0)
        return vf_load_as(dtype, row, c);
    const char *block = row + c / 32 * 34;
    return vf_mul(vf_load_i8((const int8_t *)block + 2 + c % 32), vf_set1(bw_load_f16(block)));
}

/* Keys [n_keys] to panels; rows has whole panels of addresses. */
BW_INLINE void pack_keys_as(bw_dtype dtype, const char *const *rows, int64_t n_keys, int64_t d, float *panels)
{
    for (int64_t j = 0; j < (n_keys + NR - 1) / NR * NR; j++) {
        float *panel = panels + j / NR * d * NR + j % NR;
        for (int64_t c = 0; c < d; c += VF_N) {
            vf x = load_values(dtype, rows[j], c);
            for (int i = 0; i < VF_N; i++)
                panel[(c + i) * NR] = x[i];
        }
    }
}
#else
/* Eight values of a cache row at column c. */
BW_INLINE __m256 load_eight(bw_dtype dtype, const char *row, int64_t c)
{
    if (dtype == BW_F16)
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(row + c * 2)));
    if (dtype == BW_BF16)
        return _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(row + c * 2))), 16));
    const char *block = row + c / 32 * 34;
    __m256i quants = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(block + 2 + c % 32)));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(quants), _mm256_set1_ps(bw_load_f16(block)));
}

BW_INLINE vf load_values(bw_dtype dtype, const char *row, int64_t c)
{
#if defined(BW_VEC_AVX512)
    if (dtype != BW_Q8_0)
        return vf_load_as(dtype, row, c);
    const char *block = row + c / 32 * 34;
    return vf_mul(vf_load_i8((const int8_t *)block + 2 + c % 32), vf_set1(bw_load_f16(block)));
#else
    return load_eight(dtype, row, c);
#endif
}

/* x[key][column] to dst[column * NR + key], both 0..7. */
BW_INLINE void store_transposed(const __m256 x[8], float *dst)
{
    __m256 t[8], u[8];
    BW_UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    BW_UNROLL
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    BW_UNROLL
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(dst + i * NR, _mm256_permute2f128_ps(u[i], u[i + 4], 0x20));
        _mm256_storeu_ps(dst + (i + 4) * NR, _mm256_permute2f128_ps(u[i], u[i + 4], 0x31));
    }
}

/* Keys [n_keys] to panels; rows has whole panels of addresses. */
BW_INLINE void pack_keys_as(bw_dtype dtype, const char *const *rows, int64_t n_keys, int64_t d, float *panels)
{
    for (int64_t j = 0; j < (n_keys + NR - 1) / NR * NR; j += 8) {
        float *panel = panels + j / NR * d * NR + j % NR;
        for (int64_t c = 0; c < d; c += 8) {
            __m256 x[8];
            BW_UNROLL
            for (int i = 0; i < 8; i++)
                x[i] = load_eight(dtype, rows[j + i], c);
            store_transposed(x, panel + c * NR);
        }
    }
}
#endif

/* Values [n_keys, d_v] to panels [d_v / NR][BW_ATTENTION_KEYS][NR]; columns past d_v are zero. */
BW_INLINE void pack_values_as(bw_dtype dtype, const char *const *rows, int64_t n_keys, int64_t d_v, float *panels)
{
    for (int64_t c = 0; c < (d_v + NR - 1) / NR * NR; c += VF_N) {
        float *panel = panels + c / NR * BW_ATTENTION_KEYS * NR + c % NR;
        for (int64_t j = 0; j < n_keys; j++)
            vf_store(panel + j * NR, c < d_v ? load_values(dtype, rows[j], c) : vf_set1(0.0f));
    }
}

static void pack_keys(bw_dtype dtype, const char *const *rows, int64_t n_keys, int64_t d, float *panels)
{
    if (dtype == BW_F16)
        pack_keys_as(BW_F16, rows, n_keys, d, panels);
    else if (dtype == BW_BF16)
        pack_keys_as(BW_BF16, rows, n_keys, d, panels);
    else
        pack_keys_as(BW_Q8_0, rows, n_keys, d, panels);
}

static void pack_values(bw_dtype dtype, const char *const *rows, int64_t n_keys, int64_t d_v, float *panels)
{
    if (dtype == BW_F16)
        pack_values_as(BW_F16, rows, n_keys, d_v, panels);
    else if (dtype == BW_BF16)
        pack_values_as(BW_BF16, rows, n_keys, d_v, panels);
    else
        pack_values_as(BW_Q8_0, rows, n_keys, d_v, panels);
}

/* A block at work. Row r is token r / group of the block, head r % group of the group. */
typedef struct query_block {
    const view *a;
    int64_t n_tokens, n_rows, d_v_padded;
    int64_t position;                         /* of the block's first token in the cache */
    float *q, *sums, *scores, *m, *l, *alpha; /* [n_rows, d], [n_rows, d_v_padded], [n_rows, SCORES], [n_rows] */
    float *keys, *values;                     /* panels */
    int64_t tile, n_keys;                     /* the tile's first key and how many */
} query_block;

BW_INLINE float *take_floats(char **scratch, int64_t n)
{
    float *p = (float *)*scratch;
    *scratch += (n + 15) / 16 * 64;
    return p;
}

/* The tile's keys [*begin, *end) that row r's token sees; empty when begin >= end. */
BW_INLINE void seen_keys(const query_block *b, int64_t r, int64_t *begin, int64_t *end)
{
    int64_t position = b->position + r / b->a->group, first = first_key(b->a, position) - b->tile;
    int64_t past = position + 1 - b->tile;
    *begin = first > 0 ? first : 0;
    *end = past < b->n_keys ? past : b->n_keys;
}

static void score_block(const query_block *b)
{
    int64_t group = b->a->group, d = b->a->d, window = b->a->params->window;
    for (int64_t j = 0; j < b->n_keys; j += NR) {
        /* Tokens at or after the panel's first key, and near enough to its last. */
        int64_t from = b->tile + j - b->position, to = b->n_tokens;
        from = from > 0 ? from : 0;
        if (window > 0 && b->tile + j + NR - 1 + window - b->position < to)
            to = b->tile + j + NR - 1 + window - b->position;
        for (int64_t r = from * group; r < to * group; r += MR) {
            int64_t n = to * group - r < MR ? to * group - r : MR;
            multiply(n, b->q + r * d, d, b->keys + j * d, d, NULL, b->scores + r * BW_ATTENTION_SCORES + j,
                     BW_ATTENTION_SCORES);
        }
    }
}

static void soften_block(const query_block *b)
{
    float softcap = b->a->params->softcap;
    for (int64_t r = 0; r < b->n_rows; r++) {
        float *s = b->scores + r * BW_ATTENTION_SCORES;
        int64_t begin, end;
        seen_keys(b, r, &begin, &end);
        if (begin >= end) {
            b->alpha[r] = 1;
            begin = end = 0;
        } else {
            if (softcap > 0)
                cap_row(s + begin, end - begin, softcap);
            b->alpha[r] = soften_row(s + begin, end - begin, &b->m[r], &b->l[r]);
        }
        for (int64_t i = 0; i < begin; i++)
            s[i] = 0;
        for (int64_t i = end; i < b->n_keys; i++)
            s[i] = 0;
    }
}

static void weigh_block(const query_block *b)
{
    for (int64_t c = 0; c < b->d_v_padded; c += NR) {
        const float *panel = b->values + c * BW_ATTENTION_KEYS;
        for (int64_t r = 0; r < b->n_rows; r += MR) {
            int64_t n = b->n_rows - r < MR ? b->n_rows - r : MR, begin, end, unused;
            seen_keys(b, r, &begin, &unused);
            seen_keys(b, r + n - 1, &unused, &end);
            if (begin < end)
                multiply(n, b->scores + r * BW_ATTENTION_SCORES + begin, BW_ATTENTION_SCORES, panel + begin * NR,
                         end - begin, b->alpha + r, b->sums + r * b->d_v_padded + c, b->d_v_padded);
        }
    }
}

/* Tokens [begin, end) of a sequence's tokens in this step, all query heads of KV head `head`. */
static void attend_block(const view *a, sequence seq, int64_t head, int64_t begin, int64_t end, char *scratch)
{
    query_block b = {.a = a, .n_tokens = end - begin, .n_rows = (end - begin) * a->group};
    b.d_v_padded = (a->d_v + NR - 1) / NR * NR;
    b.position = seq.n_cached - seq.n_tokens + begin;
    b.q = take_floats(&scratch, b.n_rows * a->d);
    b.sums = take_floats(&scratch, b.n_rows * b.d_v_padded);
    b.scores = take_floats(&scratch, b.n_rows * BW_ATTENTION_SCORES);
    b.m = take_floats(&scratch, b.n_rows);
    b.l = take_floats(&scratch, b.n_rows);
    b.alpha = take_floats(&scratch, b.n_rows);
    b.keys = take_floats(&scratch, BW_ATTENTION_KEYS * a->d);
    b.values = take_floats(&scratch, BW_ATTENTION_KEYS * b.d_v_padded);
    for (int64_t r = 0; r < b.n_rows; r++) {
        int64_t token = seq.first_token + begin + r / a->group, h = head * a->group + r % a->group;
        scale_row((const float *)a->q->data + token * a->q->strides[0] + h * a->q->strides[1], a->params->scale,
                  b.q + r * a->d, a->d);
        b.m[r] = -INFINITY;
        b.l[r] = 0;
    }
    memset(b.sums, 0, (size_t)(b.n_rows * b.d_v_padded) * sizeof *b.sums);
    int64_t k_bytes = get_row_bytes(a->k), v_bytes = get_row_bytes(a->v), past = b.position + b.n_tokens;
    const char *rows[BW_ATTENTION_KEYS];
    for (b.tile = first_key(a, b.position); b.tile < past; b.tile += BW_ATTENTION_KEYS) {
        b.n_keys = past - b.tile < BW_ATTENTION_KEYS ? past - b.tile : BW_ATTENTION_KEYS;
        find_rows(a->k, k_bytes, seq.pages, head, b.tile, b.n_keys, rows);
        for (int64_t i = b.n_keys; i < (b.n_keys + NR - 1) / NR * NR; i++)
            rows[i] = rows[b.n_keys - 1];
        pack_keys(a->k->dtype, rows, b.n_keys, a->d, b.keys);
        score_block(&b);
        soften_block(&b);
        find_rows(a->v, v_bytes, seq.pages, head, b.tile, b.n_keys, rows);
        pack_values(a->v->dtype, rows, b.n_keys, a->d_v, b.values);
        weigh_block(&b);
    }
    for (int64_t r = 0; r < b.n_rows; r++) {
        int64_t token = seq.first_token + begin + r / a->group, h = head * a->group + r % a->group;
        scale_row(b.sums + r * b.d_v_padded, 1 / b.l[r],
                  (float *)a->y->data + token * a->y->strides[0] + h * a->y->strides[1], a->d_v);
    }
}
