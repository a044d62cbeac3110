/* ATTENTION over vectors, by online softmax (Milakov and Gimelshein, arXiv:1805.02867; Dao et al., arXiv:2205.14135):
 * no buffer grows with the context, and no n x n matrix exists.
 *
 * Work items, taken by the members as they come free: for a sequence with several tokens in this step (prefill), a KV
 * head and a block of its tokens; for one with a single token (decode), a KV head and a range of keys. Where a head's
 * keys are cut into several ranges, each leaves a partial result in scratch, and after a barrier they are merged.
 * All query heads of a KV head are served together, so each key and value is read once for them.
 */
#include "attention/attention.h"
#include "bw_op_check.h"
#include "bw_vec.h"

bw_op_kernel BW_LEVEL(bw_attention);

/* Where everything of one call lies. */
typedef struct view {
    const bw_attention_params *params;
    const bw_tensor *q, *k, *v, *y;
    const int32_t *seqs, *pages; /* [S, 4], [P] */
    int64_t n_seqs, n_kv, group, d, d_v;
} view;

/* One sequence of seqs. */
typedef struct sequence {
    int64_t first_token, n_tokens, n_cached;
    const int32_t *pages;
} sequence;

BW_INLINE sequence get_sequence(const view *a, int64_t s)
{
    const int32_t *row = a->seqs + s * 4;
    return (sequence){row[0], row[1], row[2], a->pages + row[3]};
}

/* The first key that a token at cache position `position` sees. */
BW_INLINE int64_t first_key(const view *a, int64_t position)
{
    int64_t window = a->params->window;
    return window > 0 && position + 1 > window ? position + 1 - window : 0;
}

/* Addresses of the cache rows of one head at positions [begin, begin + n). */
BW_INLINE void find_rows(const bw_tensor *cache, int64_t row_bytes, const int32_t *pages, int64_t head, int64_t begin,
                         int64_t n, const char **rows)
{
    int64_t page_tokens = cache->dims[2], page = begin / page_tokens, place = begin % page_tokens;
    for (int64_t i = 0; i < n;) {
        const char *row =
            (const char *)cache->data + ((pages[page] * cache->dims[1] + head) * page_tokens + place) * row_bytes;
        for (; place < page_tokens && i < n; place++, i++, row += row_bytes)
            rows[i] = row;
        place = 0;
        page++;
    }
}

BW_INLINE int64_t get_row_bytes(const bw_tensor *cache)
{
    return cache->dims[3] / bw_dtype_block_elements(cache->dtype) * bw_dtype_block_bytes(cache->dtype);
}

/* One row's scores s[0..n) become weights e^(s - m) of the running maximum m; the running sum l follows. What lies up
 * to a whole vector past n is overwritten. Returns the factor for what was summed under the old maximum. */
BW_INLINE float soften_row(float *s, int64_t n, float *m, float *l)
{
    int64_t i = 0;
    for (int64_t k = n; k % VF_N != 0; k++)
        s[k] = -INFINITY;
    vf most = vf_set1(*m);
    for (; i < n; i += VF_N)
        most = vf_max(vf_load(s + i), most);
    float new_m = vf_max_lane(most);
    const vf base = vf_set1(new_m);
    vf sum = vf_set1(0.0f);
    for (i = 0; i < n; i += VF_N) {
        vf e = vf_exp(vf_sub(vf_load(s + i), base));
        vf_store(s + i, e);
        sum = vf_add(sum, e);
    }
    float alpha = new_m == *m ? 1.0f : expf(*m - new_m);
    *m = new_m;
    *l = *l * alpha + vf_sum(sum);
    return alpha;
}

/* s = cap * tanh(s / cap), up to a whole vector past n. */
BW_INLINE void cap_row(float *s, int64_t n, float cap)
{
    const vf c = vf_set1(cap), inverse = vf_set1(1.0f / cap);
    for (int64_t i = 0; i < n; i += VF_N)
        vf_store(s + i, vf_mul(vf_tanh(vf_mul(vf_load(s + i), inverse)), c));
}

BW_INLINE void scale_row(const float *x, float scale, float *y, int64_t n)
{
    const vf s = vf_set1(scale);
    for (int64_t i = 0; i < n; i += VF_N)
        vf_store(y + i, vf_mul(vf_load(x + i), s));
}

#include "attention/attention_decode.h"
#include "attention/attention_prefill.h"

/* The work of one call, the same for every member. */
typedef struct work {
    int64_t chunk;        /* keys of a decode item, at most */
    int64_t block_tokens; /* tokens of a prefill item, at most */
    int64_t n_prefill, n_decode;
    bool has_partials;
} work;

BW_INLINE int64_t decode_keys(const view *a, sequence seq)
{
    return seq.n_cached - first_key(a, seq.n_cached - 1);
}

BW_INLINE int64_t n_chunks(const work *w, int64_t n_keys)
{
    return (n_keys + w->chunk - 1) / w->chunk;
}

static work plan_work(const view *a, int n_members)
{
    work w = {.block_tokens = bw_attention_block_tokens(a->group)};
    int64_t keys = 0, tokens = 0;
    for (int64_t s = 0; s < a->n_seqs; s++) {
        sequence seq = get_sequence(a, s);
        if (seq.n_tokens == 1)
            keys += decode_keys(a, seq) * a->n_kv;
        else
            tokens += seq.n_tokens;
    }
    /* Some four items for each member, unless they become too small to be worth it. */
    w.chunk = keys / (BW_ATTENTION_ITEMS * n_members) + 1;
    w.chunk = n_members == 1 ? INT32_MAX : w.chunk < 64 ? 64 : w.chunk;
    while (n_members > 1 && w.block_tokens > 8 && tokens * a->n_kv < w.block_tokens * BW_ATTENTION_ITEMS * n_members)
        w.block_tokens = (w.block_tokens + 1) / 2;
    for (int64_t s = 0; s < a->n_seqs; s++) {
        sequence seq = get_sequence(a, s);
        if (seq.n_tokens == 1) {
            int64_t n = n_chunks(&w, decode_keys(a, seq));
            w.n_decode += n * a->n_kv;
            w.has_partials = w.has_partials || n > 1;
        } else {
            w.n_prefill += (seq.n_tokens + w.block_tokens - 1) / w.block_tokens * a->n_kv;
        }
    }
    return w;
}

/* A place in the list of items that only moves forward. */
typedef struct cursor {
    int64_t seq, first_item, first_slot;
} cursor;

static void run_prefill_item(const view *a, const work *w, cursor *at, int64_t item, char *scratch)
{
    for (;; at->seq++) {
        sequence seq = get_sequence(a, at->seq);
        int64_t blocks = seq.n_tokens == 1 ? 0 : (seq.n_tokens + w->block_tokens - 1) / w->block_tokens;
        if (item - at->first_item < blocks * a->n_kv) {
            int64_t i = item - at->first_item, block = blocks - 1 - i / a->n_kv; /* the longest first */
            int64_t begin = block * w->block_tokens, end = begin + w->block_tokens;
            attend_block(a, seq, i % a->n_kv, begin, end < seq.n_tokens ? end : seq.n_tokens, scratch);
            return;
        }
        at->first_item += blocks * a->n_kv;
    }
}

static float *partial_slot(const bw_op_call *call, const view *a, int64_t slot)
{
    bw_member owner = {.rank = (int)(slot / BW_ATTENTION_SLOTS)};
    return (float *)((char *)bw_op_member_scratch(call, &owner) + bw_attention_partials_offset(call)) +
           slot % BW_ATTENTION_SLOTS * a->group * (a->d_v + 2);
}

static void run_decode_item(const bw_op_call *call, const view *a, const work *w, cursor *at, int64_t item,
                            char *scratch)
{
    for (;; at->seq++) {
        sequence seq = get_sequence(a, at->seq);
        int64_t n_keys = seq.n_tokens == 1 ? decode_keys(a, seq) : 0, n = n_chunks(w, n_keys);
        int64_t i = item - at->first_item;
        if (i < n * a->n_kv) {
            int64_t head = i / n, c = i % n, first = seq.n_cached - n_keys;
            float *partial = n > 1 ? partial_slot(call, a, at->first_slot + i) : NULL;
            attend_range(a, seq, head, first + n_keys * c / n, first + n_keys * (c + 1) / n, partial, scratch);
            return;
        }
        at->first_item += n * a->n_kv;
        at->first_slot += n > 1 ? n * a->n_kv : 0;
    }
}

/* The partial results of one query head become its output. */
static void merge_head(const bw_op_call *call, const view *a, int64_t token, int64_t head, int64_t slot, int64_t n)
{
    int64_t g = head % a->group, width = a->d_v + 2;
    float *y = (float *)a->y->data + token * a->y->strides[0] + head * a->y->strides[1];
    float m = -INFINITY, l = 0;
    for (int64_t c = 0; c < n; c++) {
        const float *p = partial_slot(call, a, slot + c) + g * width;
        m = p[a->d_v] > m ? p[a->d_v] : m;
    }
    for (int64_t c = 0; c < n; c++) {
        const float *p = partial_slot(call, a, slot + c) + g * width;
        float weight = expf(p[a->d_v] - m);
        l += weight * p[a->d_v + 1];
        for (int64_t i = 0; i < a->d_v; i += VF_N) {
            vf sum = c == 0 ? vf_set1(0.0f) : vf_load(y + i);
            vf_store(y + i, vf_fma(vf_load(p + i), vf_set1(weight), sum));
        }
    }
    scale_row(y, 1 / l, y, a->d_v);
}

static void merge_partials(const bw_op_call *call, const view *a, const work *w, const bw_member *member)
{
    int64_t slot = 0, turn = 0;
    for (int64_t s = 0; s < a->n_seqs; s++) {
        sequence seq = get_sequence(a, s);
        int64_t n = seq.n_tokens == 1 ? n_chunks(w, decode_keys(a, seq)) : 0;
        if (n < 2)
            continue;
        for (int64_t head = 0; head < a->n_kv * a->group; head++)
            if (turn++ % member->size == member->rank)
                merge_head(call, a, seq.first_token, head, slot + head / a->group * n, n);
        slot += n * a->n_kv;
    }
}

void BW_LEVEL(bw_attention)(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *y = call->out[0];
    const view a = {call->params,
                    q,
                    k,
                    v,
                    y,
                    call->in[3]->data,
                    call->in[4]->data,
                    call->in[3]->dims[0],
                    k->dims[1],
                    q->dims[1] / k->dims[1],
                    q->dims[2],
                    y->dims[2]};
    const work w = plan_work(&a, member->size);
    char *scratch = bw_op_member_scratch(call, member);
    cursor prefill = {0}, decode = {0};
    int64_t item, end;
    while (bw_team_take(call->next, w.n_prefill + w.n_decode, 1, &item, &end)) {
        if (item < w.n_prefill)
            run_prefill_item(&a, &w, &prefill, item, scratch);
        else
            run_decode_item(call, &a, &w, &decode, item - w.n_prefill, scratch);
    }
    if (w.has_partials) {
        bw_team_barrier(member);
        merge_partials(call, &a, &w, member);
    }
}
