/* What ATTENTION is tried with. */
#include <math.h>
#include <string.h>

#include "attention/bw_attention_args.h"
#include "bw_cases.h"

enum { MAX_SEQS = 8 };

typedef struct shape {
    int64_t n_q, n_kv, d, d_v, page_tokens;
    bw_dtype cache;
    int32_t window;
    float softcap;
    double size; /* of q; large makes the softmax sharp */
    int n_seqs;
    int32_t n_tokens[MAX_SEQS], n_cached[MAX_SEQS];
} shape;

/* v_size: of values. */
static void one_of(bw_case_sink *sink, const shape *s, double v_size)
{
    int64_t t = 0, n_pages = 0;
    for (int i = 0; i < s->n_seqs; i++) {
        t += s->n_tokens[i];
        n_pages += (s->n_cached[i] + s->page_tokens - 1) / s->page_tokens;
    }
    bw_case *c = bw_case_begin(
        sink, BW_OP_ATTENTION, "%lld/%lld heads of %lld/%lld, pages of %lld, %s, window %d, cap %g, %d seqs, %d of %d",
        (long long)s->n_q, (long long)s->n_kv, (long long)s->d, (long long)s->d_v, (long long)s->page_tokens,
        bw_dtype_name(s->cache), s->window, (double)s->softcap, s->n_seqs, s->n_tokens[0], s->n_cached[0]);
    int64_t width = s->n_q * s->d;
    bool is_strided = bw_cases_between(sink, 0, 1);
    bw_tensor *q = bw_case_in_strided(c, BW_F32, 3, (int64_t[]){t, s->n_q, s->d},
                                      (int64_t[]){is_strided ? width + 3 : width, s->d, 1});
    bw_case_fill_normal(c, q, s->size);
    /* One page more than needed, which belongs to nobody and holds huge values. */
    bw_tensor *k = bw_case_in(c, s->cache, 4, (int64_t[]){n_pages + 1, s->n_kv, s->page_tokens, s->d});
    bw_tensor *v = bw_case_in(c, s->cache, 4, (int64_t[]){n_pages + 1, s->n_kv, s->page_tokens, s->d_v});
    bw_case_fill_normal(c, k, 1);
    bw_case_fill_normal(c, v, v_size);
    memset(k->data, 0x7b, (size_t)(s->n_kv * s->page_tokens * bw_dtype_bytes(s->cache, s->d)));
    memset(v->data, 0x7b, (size_t)(s->n_kv * s->page_tokens * bw_dtype_bytes(s->cache, s->d_v)));
    int32_t *seqs = bw_case_in(c, BW_I32, 2, (int64_t[]){s->n_seqs, 4})->data;
    int32_t *pages = bw_case_in(c, BW_I32, 1, &n_pages)->data;
    /* Pages in a shuffled order. */
    for (int64_t i = 0; i < n_pages; i++)
        pages[i] = (int32_t)i + 1;
    for (int64_t i = n_pages - 1; i > 0; i--) {
        int64_t other = bw_cases_between(sink, 0, i);
        int32_t kept = pages[i];
        pages[i] = pages[other];
        pages[other] = kept;
    }
    int32_t token = 0, page = 0;
    for (int i = 0; i < s->n_seqs; i++) {
        seqs[i * 4] = token;
        seqs[i * 4 + 1] = s->n_tokens[i];
        seqs[i * 4 + 2] = s->n_cached[i];
        seqs[i * 4 + 3] = page;
        token += s->n_tokens[i];
        page += (int32_t)((s->n_cached[i] + s->page_tokens - 1) / s->page_tokens);
    }
    bw_case_out(c, BW_F32, 3, (int64_t[]){t, s->n_q, s->d_v});
    float scale = (float)(1 / sqrt((double)s->d));
    bw_case_params(c, &(bw_attention_params){scale, s->window, s->softcap}, sizeof(bw_attention_params));
    /* A score's error, eps sqrt(D) |score|, becomes the weight's relative error. Matrix units multiply a bf16
     * cache by two bf16 numbers for each of q's, which have 16 bits of it. What GPUs' take from a q8_0 cache is rounded
     * to f16, where a sequence has more than a few tokens. */
    bool is_rounded = false;
    if (s->cache == BW_Q8_0 && bw_cases_device(sink)->kind != BW_DEVICE_CPU)
        for (int i = 0; i < s->n_seqs; i++)
            is_rounded = is_rounded || s->n_tokens[i] > BW_ATTENTION_FEW;
    bw_case_tolerance(c, s->d, (1 + s->size * 2) * v_size * (s->cache == BW_BF16 ? 4 : 1),
                      is_rounded ? 0x1p-9 * s->size * v_size : 0);
    bw_case_run(c);
}

static void one(bw_case_sink *sink, const shape *s)
{
    one_of(sink, s, 1);
}

static void fixed_cases(bw_case_sink *sink)
{
    static const bw_dtype caches[] = {BW_F16, BW_BF16, BW_Q8_0};
    static const int64_t widths[] = {32, 64, 80, 96, 128, 192, 256};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        for (int k = 0; k < 3; k++) {
            int64_t d = widths[i];
            if (caches[k] == BW_Q8_0 && d % 32 != 0)
                continue;
            one(sink, &(shape){6, 2, d, d, 32, caches[k], 0, 0, 1, 1, {1}, {150}});
            one(sink, &(shape){6, 2, d, d, 32, caches[k], 0, 0, 1, 1, {45}, {45}});
            one(sink, &(shape){3, 1, d, d, 8, caches[k], 20, 30, 2, 3, {1, 20, 1}, {70, 90, 3}});
            /* a later piece of a prompt; the others begin at odd places */
            one(sink, &(shape){2, 1, d, d, 16, caches[k], k * 21, 0, 1, 3, {41, 9, 19}, {130, 9, 52}});
        }
    }
    /* Sums must not leave f32 on the way to a mean. Storage begins at an even place in every second case. */
    for (int d = 64; d <= 256; d *= 4)
        for (int k = 0; k < 3; k++)
            one_of(sink, &(shape){4, 2, d, d, 16, BW_BF16, 0, 0, 1, 1, {45}, {45}}, 1e35);
    for (int group = 1; group <= 33; group += 8) { /* up to one more than a workgroup of wide heads has rows */
        one(sink, &(shape){group, 1, 256, 256, 16, BW_F16, 50, 0, 1, 2, {20, 1}, {77, 20}});
        one(sink, &(shape){group, 1, 256, 256, 16, BW_Q8_0, 0, 0, 1, 2, {9, 3}, {50, 20}});
    }
    one(sink, &(shape){4, 2, 64, 64, 32, BW_F32, 0, 0, 1, 2, {1, 20}, {70, 40}});
    one(sink, &(shape){3, 1, 40, 24, 8, BW_F32, 17, 20, 1, 2, {1, 20}, {70, 40}});
    for (int group = 1; group <= 9; group++) {
        one(sink, &(shape){group * 2, 2, 32, 64, 16, BW_F16, 0, 0, 1, 2, {1, 7}, {100, 50}});
        one(sink, &(shape){group, 1, 64, 32, 16, BW_Q8_0, 0, 0, 1, 2, {1, 7}, {100, 50}});
    }
    for (int group = 1; group <= 9; group += 2) { /* prefill beside decode, in any order */
        one(sink, &(shape){group * 2, 2, 64, 64, 16, BW_F16, 0, 0, 1, 4, {1, 37, 8, 9}, {100, 50, 40, 90}});
        one(sink, &(shape){group, 1, 80, 80, 32, BW_F16, 40, 0, 1, 3, {70, 0, 1}, {70, 0, 99}});
    }
    one(sink, &(shape){64, 1, 64, 64, 16, BW_F16, 0, 0, 1, 2, {11, 1}, {30, 20}});
    /* long ones beside a prompt: their keys are cut into parts */
    one(sink, &(shape){2, 1, 64, 64, 32, BW_F16, 0, 0, 1, 4, {1, 40, 0, 3}, {900, 40, 7, 500}});
    one(sink, &(shape){8, 1, 128, 128, 16, BW_BF16, 300, 0, 1, 3, {33, 8, 1}, {33, 700, 800}});
    one(sink, &(shape){1, 1, 32, 32, 8, BW_F16, 0, 0, 1, 1, {1}, {1}});
    one(sink, &(shape){2, 1, 64, 64, 32, BW_F16, 1, 0, 1, 2, {1, 70}, {500, 80}}); /* each sees itself only */
    one(sink, &(shape){2, 1, 64, 64, 32, BW_F16, 64, 0, 1, 2, {1, 200}, {500, 200}});
    one(sink, &(shape){2, 1, 64, 64, 32, BW_F16, 63, 0, 1, 1, {130}, {300}});
    one(sink, &(shape){9, 3, 64, 64, 32, BW_F16, 0, 0, 1, 1, {1}, {1025}});
    one(sink, &(shape){4, 1, 256, 256, 32, BW_F16, 512, 0, 1, 1, {1}, {1500}});
    one(sink, &(shape){9, 3, 64, 64, 32, BW_F16, 0, 0, 1, 1, {129}, {400}});
    one(sink, &(shape){9, 3, 64, 64, 32, BW_F16, 0, 0, 30, 2, {33, 1}, {97, 97}}); /* a sharp softmax */
    one(sink, &(shape){9, 3, 64, 64, 32, BW_F16, 0, 50, 30, 2, {33, 1}, {97, 97}});
    one(sink, &(shape){128, 1, 32, 32, 8, BW_F16, 0, 0, 1, 2, {3, 1}, {20, 40}}); /* more heads than block rows */
    one(sink, &(shape){2, 2, 20, 12, 8, BW_F16, 0, 0, 1, 2, {3, 1}, {20, 40}});   /* no variant but plain */
    one(sink, &(shape){2, 2, 5, 3, 8, BW_F16, 0, 0, 1, 2, {3, 1}, {20, 40}});     /* ref only */
    one(sink,
        &(shape){4, 2, 64, 64, 32, BW_F16, 0, 0, 1, 8, {1, 1, 1, 1, 1, 1, 1, 1}, {1, 31, 32, 33, 64, 65, 200, 511}});
    one(sink, &(shape){4, 2, 64, 64, 32, BW_F16, 0, 0, 1, 3, {0, 5, 0}, {4, 9, 0}}); /* nothing to do for some */
    one(sink, &(shape){4, 2, 64, 64, 32, BW_F16, 0, 0, 1, 0, {0}, {0}});
}

/* A NaN in one sequence's q, k or v stays in it. */
static void nan_case(bw_case_sink *sink, int n_tokens)
{
    bw_case *c = bw_case_begin(sink, BW_OP_ATTENTION, "NaN in q, %d tokens", n_tokens);
    int64_t t = 2 * n_tokens;
    bw_tensor *q = bw_case_in(c, BW_F32, 3, (int64_t[]){t, 4, 64});
    bw_case_fill_normal(c, q, 1);
    ((float *)q->data)[70] = NAN;
    ((float *)q->data)[130] = INFINITY;
    bw_case_fill_normal(c, bw_case_in(c, BW_F16, 4, (int64_t[]){4, 2, 32, 64}), 1);
    bw_case_fill_normal(c, bw_case_in(c, BW_F16, 4, (int64_t[]){4, 2, 32, 64}), 1);
    int32_t rows[8] = {0, n_tokens, 40, 0, n_tokens, n_tokens, 50, 2};
    memcpy(bw_case_in(c, BW_I32, 2, (int64_t[]){2, 4})->data, rows, sizeof rows);
    int32_t pages[4] = {3, 1, 0, 2};
    memcpy(bw_case_in(c, BW_I32, 1, (int64_t[]){4})->data, pages, sizeof pages);
    bw_case_out(c, BW_F32, 3, (int64_t[]){t, 4, 64});
    bw_case_params(c, &(bw_attention_params){0.125f, 0, 0}, sizeof(bw_attention_params));
    bw_case_tolerance(c, 64, 3, 0);
    bw_case_run(c);
}

static void random_cases(bw_case_sink *sink)
{
    static const bw_dtype caches[] = {BW_F16, BW_BF16, BW_Q8_0};
    for (int k = 0; k < bw_cases_n_random(sink); k++) {
        shape s = {.n_kv = bw_cases_between(sink, 1, 4), .d = 32 * bw_cases_between(sink, 1, 4)};
        s.n_q = s.n_kv * bw_cases_between(sink, 1, 6);
        s.d_v = 32 * bw_cases_between(sink, 1, 4);
        s.page_tokens = 8 * bw_cases_between(sink, 1, 8);
        s.cache = caches[bw_cases_between(sink, 0, 2)];
        s.window = (int32_t)(bw_cases_between(sink, 0, 1) * bw_cases_between(sink, 1, 200));
        s.softcap = (float)(bw_cases_between(sink, 0, 1) * 20);
        s.size = 1;
        s.n_seqs = (int)bw_cases_between(sink, 1, MAX_SEQS);
        for (int i = 0; i < s.n_seqs; i++) {
            s.n_tokens[i] = (int32_t)(bw_cases_between(sink, 0, 1) ? 1 : bw_cases_between(sink, 1, 40));
            s.n_cached[i] = s.n_tokens[i] + (int32_t)bw_cases_between(sink, 0, 200);
        }
        one(sink, &s);
    }
}

static void refuse(bw_case_sink *sink, const char *name, int64_t n_q, int64_t k_width, bw_dtype cache, int32_t window)
{
    bw_case *c = bw_case_begin(sink, BW_OP_ATTENTION, "%s", name);
    bw_case_in(c, BW_F32, 3, (int64_t[]){2, n_q, 64});
    bw_case_in(c, cache, 4, (int64_t[]){1, 2, 8, k_width});
    bw_case_in(c, cache, 4, (int64_t[]){1, 2, 8, 64});
    bw_case_in(c, BW_I32, 2, (int64_t[]){1, 4});
    bw_case_in(c, BW_I32, 1, (int64_t[]){1});
    bw_case_out(c, BW_F32, 3, (int64_t[]){2, n_q, 64});
    bw_case_params(c, &(bw_attention_params){1, window, 0}, sizeof(bw_attention_params));
    bw_case_refuse(c);
}

void bw_op_attention_cases(bw_case_sink *sink)
{
    fixed_cases(sink);
    nan_case(sink, 1);
    nan_case(sink, 5);
    random_cases(sink);
    refuse(sink, "heads that do not divide", 3, 64, BW_F16, 0);
    refuse(sink, "keys of another width", 4, 32, BW_F16, 0);
    refuse(sink, "f64 cache", 4, 64, BW_F64, 0);
    refuse(sink, "negative window", 4, 64, BW_F16, -1);
}
