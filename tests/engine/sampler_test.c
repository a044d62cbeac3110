/* The sampler against a plain implementation in double precision that sorts everything. */
#include "../bw_test.h"

#include <math.h>
#include <stdlib.h>

#include "bw_clock.h"
#include "bw_mem.h"
#include "bw_sampler.h"
#include "chi_square.h"
#include "sampler_row.h"

enum { MAX_VOCAB = 4096 };

typedef struct naive_item {
    int32_t token;
    double logit, p;
} naive_item;

static int compare_items(const void *a, const void *b)
{
    const naive_item *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

/* Penalties and bias, in the float steps that the interface promises. */
static void naive_adjust(const bw_sampling *o, float *row, int32_t n_vocab, const int32_t *tokens, int32_t n,
                         int32_t n_prompt)
{
    int32_t begin = o->repeat_last_n > 0 && n > o->repeat_last_n ? n - o->repeat_last_n : 0;
    for (int32_t t = 0; t < n_vocab; t++) {
        int32_t all = 0, generated = 0;
        for (int32_t i = begin; i < n; i++) {
            all += tokens[i] == t;
            generated += tokens[i] == t && i >= n_prompt;
        }
        if (all > 0)
            row[t] = row[t] > 0 ? row[t] / o->repetition_penalty : row[t] * o->repetition_penalty;
        row[t] -= o->frequency_penalty * (float)generated + (generated > 0 ? o->presence_penalty : 0);
    }
    for (size_t i = 0; i < o->n_logit_bias; i++)
        row[o->logit_bias[i].token] += o->logit_bias[i].bias;
}

/* The candidates with their probabilities, likeliest first. *border: how near the choice was to another one. */
static int32_t naive_filter(const bw_sampling *o, const float *row, int32_t n_vocab, naive_item *items, double *border)
{
    double total = 0;
    int32_t n = n_vocab;
    *border = 1;
    for (int32_t i = 0; i < n; i++)
        items[i] = (naive_item){.token = i, .logit = (double)row[i]};
    qsort(items, (size_t)n, sizeof *items, compare_items);
    if (o->top_k > 0 && o->top_k < n)
        n = o->top_k;
    for (int32_t i = 0; i < n; i++) {
        items[i].p = exp((items[i].logit - items[0].logit) / (double)o->temperature);
        total += items[i].p;
    }
    if (o->top_p < 1) {
        double sum = 0;
        int32_t m = 0;
        while (m < n && sum < (double)o->top_p * total) {
            sum += items[m++].p;
            double distance = fabs(sum / total - (double)o->top_p);
            *border = distance < *border ? distance : *border;
        }
        n = m;
    }
    int32_t m = 0;
    while (m < n && (o->min_p <= 0 || items[m].p >= (double)o->min_p))
        m++;
    for (int32_t i = 0; i < n && o->min_p > 0; i++) {
        double distance = fabs(items[i].p / (double)o->min_p - 1);
        *border = distance < *border ? distance : *border;
    }
    for (int32_t i = 0; i < m; i++)
        if (fabs(log(items[i].p + 1e-300) + 87) < 0.01)
            *border = 0;
    while (m > 1 && items[m - 1].p < exp(-87)) /* the sampler gives these no weight */
        m--;
    total = 0;
    for (int32_t i = 0; i < m; i++)
        total += items[i].p;
    for (int32_t i = 0; i < m; i++)
        items[i].p /= total;
    return m;
}

static float uniform(bw_rng *rng, double from, double to)
{
    return (float)(from + (to - from) * bw_rng_f64(rng));
}

static bw_sampling random_options(bw_rng *rng, int32_t n_vocab)
{
    bw_sampling o = {.temperature = uniform(rng, 0.1, 2.5), .top_p = 1, .repetition_penalty = 1, .has_seed = true};
    if (bw_rng_below(rng, 2))
        o.top_p = uniform(rng, 0.05, 1);
    if (bw_rng_below(rng, 2))
        o.min_p = uniform(rng, 0, 0.5);
    if (bw_rng_below(rng, 2))
        o.top_k = (int32_t)bw_rng_below(rng, (uint64_t)n_vocab + 5);
    if (bw_rng_below(rng, 3) == 0)
        o.repetition_penalty = uniform(rng, 0.5, 2);
    if (bw_rng_below(rng, 3) == 0)
        o.frequency_penalty = uniform(rng, -1, 1);
    if (bw_rng_below(rng, 3) == 0)
        o.presence_penalty = uniform(rng, -1, 1);
    o.repeat_last_n = (int32_t)bw_rng_below(rng, 40);
    return o;
}

static void candidates_are_exact(void **state)
{
    (void)state;
    static float row[MAX_VOCAB], adjusted[MAX_VOCAB];
    static naive_item items[MAX_VOCAB];
    static int32_t tokens[200];
    bw_rng rng;
    bw_err err = {0};
    bw_rng_init(&rng, 5);
    int checked = 0;
    for (int trial = 0; trial < 800; trial++) {
        int32_t n_vocab = 1 + (int32_t)bw_rng_below(&rng, trial % 10 == 0 ? MAX_VOCAB - 1 : 300);
        bool coarse = bw_rng_below(&rng, 3) == 0; /* many equal logits */
        double spread = (double)uniform(&rng, 0.1, 15);
        for (int32_t i = 0; i < n_vocab; i++) {
            row[i] = (float)(bw_rng_normal(&rng) * spread);
            if (coarse)
                row[i] = roundf(row[i]);
        }
        bw_sampling o = random_options(&rng, n_vocab);
        bw_logit_bias bias[3];
        for (int i = 0; i < 3; i++)
            bias[i] = (bw_logit_bias){(int32_t)bw_rng_below(&rng, (uint64_t)n_vocab),
                                      n_vocab > 5 && i == 0 ? -INFINITY : uniform(&rng, -5, 5)};
        o.logit_bias = bias;
        o.n_logit_bias = bw_rng_below(&rng, 4);
        bw_sampler s;
        bw_sample_scratch scratch;
        assert_ok(bw_sampler_init(&s, &o, n_vocab, 200, &err), err);
        assert_ok(bw_sample_scratch_init(&scratch, n_vocab, &err), err);
        int32_t n_tokens = (int32_t)bw_rng_below(&rng, 200), n_prompt = n_tokens / 2, n;
        for (int32_t i = 0; i < n_tokens; i++) {
            tokens[i] = (int32_t)bw_rng_below(&rng, (uint64_t)n_vocab);
            bw_sampler_accept(&s, tokens, i + 1, n_prompt);
        }
        memcpy(adjusted, row, sizeof row);
        naive_adjust(&o, adjusted, n_vocab, tokens, n_tokens, n_prompt);
        double border, total = 0, sum = 0;
        int32_t wanted = naive_filter(&o, adjusted, n_vocab, items, &border);
        assert_ok(bw_sampler_filter(&s, &scratch, row, &n, &total, &err), err);
        if (border > 1e-5) {
            checked++;
            if (n != wanted)
                fail_msg("trial %d: %d candidates instead of %d: temperature %g, top_k %d, top_p %g, min_p %g", trial,
                         n, wanted, (double)o.temperature, (int)o.top_k, (double)o.top_p, (double)o.min_p);
            for (int32_t i = 0; i < n; i++) {
                const bw_candidate *c = &scratch.candidates[i];
                int32_t j = 0;
                while (j < wanted && items[j].token != c->token)
                    j++;
                assert_true(j < wanted);
                assert_true(i == 0 || c[-1].token < c->token);
                assert_true(fabs((double)c->weight / total - items[j].p) < 2e-6 * (items[j].p + 1e-3));
                sum += (double)c->weight;
            }
            assert_true(fabs(sum / total - 1) < 1e-9);
        }
        bw_sampler_deinit(&s);
        bw_sample_scratch_deinit(&scratch);
    }
    assert_true(checked > 700);
}

static int compare_candidates(const void *a, const void *b)
{
    const bw_candidate *x = a, *y = b;
    return x->logit > y->logit || (x->logit == y->logit && x->token < y->token) ? -1 : 1;
}

/* From the first few of a row comes what comes from the whole row, draw for draw. */
static void first_few_are_enough(void **state)
{
    (void)state;
    static float row[MAX_VOCAB], values[MAX_VOCAB];
    static bw_candidate order[MAX_VOCAB];
    static int32_t tokens[MAX_VOCAB];
    bw_rng rng;
    bw_err err = {0};
    bw_rng_init(&rng, 6);
    int64_t checked = 0, alike = 0;
    for (int trial = 0; trial < 600; trial++) {
        int32_t n_vocab = 2 + (int32_t)bw_rng_below(&rng, trial % 10 == 0 ? MAX_VOCAB - 2 : 300);
        bool coarse = bw_rng_below(&rng, 2) == 0; /* equal logits also where top-k cuts, 0 and -0 among them */
        double spread = (double)uniform(&rng, 0.1, 15);
        for (int32_t i = 0; i < n_vocab; i++) {
            row[i] = (float)(bw_rng_normal(&rng) * spread);
            row[i] = coarse ? roundf(row[i]) : row[i];
            order[i] = (bw_candidate){.logit = row[i], .token = i};
        }
        qsort(order, (size_t)n_vocab, sizeof *order, compare_candidates);
        bw_sampling o = random_options(&rng, n_vocab);
        o.repetition_penalty = 1;
        o.frequency_penalty = o.presence_penalty = 0;
        o.temperature = trial % 7 == 0 ? 1e-7f * (float)(trial % 2) : o.temperature;
        o.seed = (uint64_t)trial;
        bw_sampler whole, few;
        bw_sample_scratch scratch;
        assert_ok(bw_sampler_init(&whole, &o, n_vocab, 200, &err), err);
        assert_ok(bw_sampler_init(&few, &o, n_vocab, 200, &err), err);
        assert_ok(bw_sample_scratch_init(&scratch, n_vocab, &err), err);
        int32_t need = bw_sampler_need(&few);
        assert_int_equal(need, trial % 7 == 0 ? 1 : o.top_k < n_vocab ? o.top_k : 0);
        assert_int_equal(bw_sampler_draws_whole(&few), need == 0 && o.top_p >= 1);
        for (int32_t i = 0; i < need; i++) {
            values[i] = order[i].logit;
            tokens[i] = order[i].token;
        }
        for (int i = 0; i < 40 && need > 0; i++, checked++) {
            bw_sample a, b;
            assert_ok(bw_sampler_sample(&whole, &scratch, row, -1, &a, &err), err);
            assert_ok(bw_sampler_sample_top(&few, &scratch, need == 1 ? NULL : values, tokens, &b, &err), err);
            assert_int_equal(a.token, b.token);
            assert_true(isnan(b.logprob) && b.n_top == 0);
            alike += a.token == order[0].token;
        }
        tokens[0] = -1;
        if (need > 0)
            assert_int_equal(bw_sampler_sample_top(&few, &scratch, values, tokens, &(bw_sample){0}, &err), BW_E_DEVICE);
        bw_sampler_deinit(&whole);
        bw_sampler_deinit(&few);
        bw_sample_scratch_deinit(&scratch);
    }
    assert_true(checked > 8000 && alike < checked * 9 / 10);
    /* who needs more than the model's own row */
    bw_sampler s;
    bw_logit_bias bias = {3, 1};
    bw_sampling o = {.temperature = 1, .top_p = 1, .top_k = 5, .repetition_penalty = 1.1f};
    assert_ok(bw_sampler_init(&s, &o, 100, 16, &err), err);
    assert_int_equal(bw_sampler_need(&s), 0);
    assert_false(bw_sampler_draws_whole(&s));
    bw_sampler_deinit(&s);
    o.repetition_penalty = 1;
    o.logit_bias = &bias;
    o.n_logit_bias = 1;
    assert_ok(bw_sampler_init(&s, &o, 100, 16, &err), err);
    assert_int_equal(bw_sampler_need(&s), 0);
    assert_false(bw_sampler_draws_whole(&s));
    bw_sampler_deinit(&s);
}

/* Top-p alone: where the first few weigh enough, they give the token that the whole row gives; else nothing is drawn.
 */
static void few_are_enough_for_top_p(void **state)
{
    (void)state;
    static float row[MAX_VOCAB], values[MAX_VOCAB], weights[MAX_VOCAB];
    static double blocks[MAX_VOCAB];
    static bw_candidate order[MAX_VOCAB];
    static int32_t tokens[MAX_VOCAB];
    bw_rng rng;
    bw_err err = {0};
    bw_rng_init(&rng, 16);
    int64_t n_enough = 0, n_lacking = 0, unlike = 0;
    for (int trial = 0; trial < 400; trial++) {
        int32_t n_vocab = 2 + (int32_t)bw_rng_below(&rng, trial % 10 == 0 ? MAX_VOCAB - 2 : 300);
        bool coarse = bw_rng_below(&rng, 2) == 0;
        double spread = (double)uniform(&rng, 0.1, 8);
        for (int32_t i = 0; i < n_vocab; i++) {
            row[i] = (float)(bw_rng_normal(&rng) * spread);
            row[i] = coarse ? roundf(row[i]) : row[i];
            order[i] = (bw_candidate){.logit = row[i], .token = i};
        }
        qsort(order, (size_t)n_vocab, sizeof *order, compare_candidates);
        int32_t n = 1 + (int32_t)bw_rng_below(&rng, (uint64_t)(n_vocab < 64 ? n_vocab : 64));
        for (int32_t i = 0; i < n; i++) {
            values[i] = order[i].logit;
            tokens[i] = order[i].token;
        }
        bw_sampling o = {.temperature = uniform(&rng, 0.3, 3),
                         .top_p = trial % 5 == 0 ? 0 : uniform(&rng, 0.2, 0.99),
                         .min_p = trial % 3 == 0 ? 0.05f : 0,
                         .repetition_penalty = 1,
                         .has_seed = true,
                         .seed = (uint64_t)trial};
        bw_sampler whole, few;
        bw_sample_scratch scratch;
        assert_ok(bw_sampler_init(&whole, &o, n_vocab, 200, &err), err);
        assert_ok(bw_sampler_init(&few, &o, n_vocab, 200, &err), err);
        assert_ok(bw_sample_scratch_init(&scratch, n_vocab, &err), err);
        assert_true(bw_sampler_takes_nucleus(&few) && !bw_sampler_draws_whole(&few));
        double sum = bw_row_weigh(row, n_vocab, order[0].logit, o.temperature, weights, blocks), mass = 0;
        for (int32_t i = 0; i < n; i++)
            mass += exp(((double)values[i] - (double)values[0]) / (double)o.temperature);
        for (int i = 0; i < 20; i++) {
            bw_sample a, b = {0};
            bool is_enough;
            assert_ok(bw_sampler_sample_nucleus(&few, &scratch, values, tokens, n, (float)sum, &is_enough, &b, &err),
                      err);
            if (fabs(mass - (double)o.top_p * sum) > 1e-5 * sum)
                assert_int_equal(is_enough, mass > (double)o.top_p * sum);
            if (is_enough) {
                assert_ok(bw_sampler_sample(&whole, &scratch, row, -1, &a, &err), err);
                unlike += a.token != b.token;
            }
            n_enough += is_enough;
            n_lacking += !is_enough;
        }
        /* it has drawn as often as the other one */
        assert_true(bw_rng_u32(&few.rng) == bw_rng_u32(&whole.rng));
        tokens[0] = -1;
        bool is_enough;
        assert_int_equal(
            bw_sampler_sample_nucleus(&few, &scratch, values, tokens, n, (float)sum, &is_enough, &(bw_sample){0}, &err),
            BW_E_DEVICE);
        bw_sampler_deinit(&whole);
        bw_sampler_deinit(&few);
        bw_sample_scratch_deinit(&scratch);
    }
    assert_true(n_enough > 2000 && n_lacking > 500);
    assert_true(unlike <= 2); /* where the sum's rounding moves the border of the nucleus */
}

/* The number that a device draws by is the one that the sampler itself would have drawn by. */
static void random_of_a_draw(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_sampler s;
    bw_rng rng;
    bw_logit_bias bias = {3, 1};
    bw_sampling o = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .has_seed = true, .seed = 5};
    assert_ok(bw_sampler_init(&s, &o, 100, 16, &err), err);
    assert_true(bw_sampler_draws_whole(&s));
    bw_rng_init(&rng, 5);
    for (int i = 0; i < 1000; i++)
        assert_true(bw_sampler_next_random(&s) == (uint32_t)floor(bw_rng_f64(&rng) * 4294967296.0));
    bw_sampler_deinit(&s);
    for (int k = 0; k < 7; k++) { /* who does not draw from the whole row of the model, or not at all */
        bw_sampling other = o;
        other.temperature = k == 0 ? 0 : 1;
        other.top_k = k == 1 ? 99 : k == 2 ? 100 : 0;
        other.top_p = k == 3 ? 0.99f : 1;
        other.presence_penalty = k == 4 ? 0.1f : 0;
        other.logit_bias = k == 5 ? &bias : NULL;
        other.n_logit_bias = k == 5;
        other.min_p = k == 6 ? 0.5f : 0;
        assert_ok(bw_sampler_init(&s, &other, 100, 16, &err), err);
        assert_int_equal(bw_sampler_draws_whole(&s), k == 2 || k == 6);
        assert_int_equal(bw_sampler_takes_nucleus(&s), k == 3);
        bw_sampler_deinit(&s);
    }
    bw_sample sample;
    assert_ok(bw_sample_take(7, &sample, &err), err);
    assert_true(sample.token == 7 && isnan(sample.logprob) && sample.n_top == 0);
    assert_int_equal(bw_sample_take(-1, &sample, &err), BW_E_DEVICE);
}

static void draws_follow_the_distribution(void **state)
{
    (void)state;
    enum { VOCAB = 120, DRAWS = 40000 };
    static float row[VOCAB];
    static naive_item items[VOCAB];
    static int64_t counts[VOCAB];
    static const bw_sampling options[] = {
        {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 0.7f, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 1.5f, .top_p = 0.9f, .repetition_penalty = 1},
        {.temperature = 1, .top_p = 1, .top_k = 20, .repetition_penalty = 1},
        {.temperature = 1, .top_p = 1, .min_p = 0.05f, .repetition_penalty = 1},
        {.temperature = 2, .top_p = 0.8f, .top_k = 50, .min_p = 0.1f, .repetition_penalty = 1},
    };
    bw_rng rng;
    bw_err err = {0};
    bw_rng_init(&rng, 9);
    for (int32_t i = 0; i < VOCAB; i++)
        row[i] = (float)bw_rng_normal(&rng) * 1.5f;
    bw_sample_scratch scratch;
    assert_ok(bw_sample_scratch_init(&scratch, VOCAB, &err), err);
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        bw_sampling o = options[k];
        o.has_seed = true;
        o.seed = 100 + k;
        bw_sampler s;
        double border, chi = 0;
        assert_ok(bw_sampler_init(&s, &o, VOCAB, 16, &err), err);
        int32_t n = naive_filter(&o, row, VOCAB, items, &border), freedom = -1;
        memset(counts, 0, sizeof counts);
        int64_t asked = bw_mem_count();
        for (int i = 0; i < DRAWS; i++) {
            bw_sample sample;
            assert_ok(bw_sampler_sample(&s, &scratch, row, -1, &sample, &err), err);
            counts[sample.token]++;
        }
        assert_int_equal(bw_mem_count(), asked); /* nothing allocates */
        double rest_p = 0, rest_n = 0;
        int64_t seen = 0;
        for (int32_t i = 0; i < n; i++) {
            double expected = items[i].p * DRAWS, got = (double)counts[items[i].token];
            seen += counts[items[i].token];
            if (expected < 20) {
                rest_p += expected;
                rest_n += got;
                continue;
            }
            chi += (got - expected) * (got - expected) / expected;
            freedom++;
        }
        if (rest_p > 5) {
            chi += (rest_n - rest_p) * (rest_n - rest_p) / rest_p;
            freedom++;
        }
        assert_int_equal(seen, DRAWS); /* nothing else is ever drawn */
        if (chi > chi_square_limit(freedom))
            fail_msg("options %zu: chi-square %f of %d degrees of freedom", k, chi, freedom);
        bw_sampler_deinit(&s);
    }
    bw_sample_scratch_deinit(&scratch);
}

static void greedy_and_logprobs(void **state)
{
    (void)state;
    static float row[1000];
    bw_rng rng;
    bw_err err = {0};
    bw_rng_init(&rng, 11);
    bw_sampling o = {.temperature = 0, .top_p = 1, .repetition_penalty = 1};
    for (int trial = 0; trial < 300; trial++) {
        int32_t n = 1 + (int32_t)bw_rng_below(&rng, 1000), best = 0;
        for (int32_t i = 0; i < n; i++) {
            row[i] = (float)(bw_rng_normal(&rng) * 3);
            if (trial % 3 == 0)
                row[i] = roundf(row[i]) - (trial % 2 ? 30 : 0);
            if (row[i] > row[best])
                best = i;
        }
        bw_sampler s;
        bw_sample_scratch scratch;
        bw_sample sample;
        assert_ok(bw_sampler_init(&s, &o, n, 16, &err), err);
        assert_ok(bw_sample_scratch_init(&scratch, n, &err), err);
        assert_ok(bw_sampler_sample(&s, &scratch, row, 20, &sample, &err), err);
        assert_int_equal(sample.token, best);
        assert_int_equal(sample.n_top, n < 20 ? n : 20);
        double total = 0;
        for (int32_t i = 0; i < n; i++)
            total += exp((double)row[i]);
        assert_true(fabs((double)sample.logprob - ((double)row[best] - log(total))) < 2e-6);
        assert_int_equal(sample.top[0].token, best);
        for (int i = 0; i < sample.n_top; i++) {
            assert_true(fabs((double)sample.top[i].logprob - ((double)row[sample.top[i].token] - log(total))) < 2e-6);
            assert_true(i == 0 || sample.top[i].logprob <= sample.top[i - 1].logprob);
        }
        int32_t above = 0;
        for (int32_t i = 0; i < n; i++)
            above += row[i] > row[sample.top[sample.n_top - 1].token];
        assert_true(above < sample.n_top);
        bw_sampler_deinit(&s);
        bw_sample_scratch_deinit(&scratch);
    }
}

static void bad_rows(void **state)
{
    (void)state;
    float row[300] = {0};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    bw_err err = {0};
    bw_sampler s;
    bw_sample_scratch scratch;
    bw_sample sample;
    assert_ok(bw_sample_scratch_init(&scratch, 300, &err), err);
    for (int greedy = 0; greedy < 2; greedy++) {
        bw_sampling o = {.temperature = greedy ? 0 : 1, .top_p = 0.5f, .repetition_penalty = 1};
        assert_ok(bw_sampler_init(&s, &o, 300, 16, &err), err);
        for (int i = 0; i < 3; i++) {
            row[299] = bad[i];
            assert_int_equal(bw_sampler_sample(&s, &scratch, row, 0, &sample, &err), BW_E_DEVICE);
            assert_non_null(strstr(err.text, "token 299"));
            assert_int_equal(bw_sample_logprobs(&scratch, row, 3, 0, &sample, &err), BW_E_DEVICE);
        }
        row[299] = 0;
        bw_sampler_deinit(&s);
    }
    /* a bias may ban any token but not all; the largest floats do no harm */
    bw_logit_bias bias[300];
    for (int i = 0; i < 300; i++)
        bias[i] = (bw_logit_bias){i, -INFINITY};
    for (size_t n = 299; n <= 300; n++) {
        bw_sampling o = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .logit_bias = bias, .n_logit_bias = n};
        assert_ok(bw_sampler_init(&s, &o, 300, 16, &err), err);
        if (n == 299) {
            assert_ok(bw_sampler_sample(&s, &scratch, row, 0, &sample, &err), err);
            assert_int_equal(sample.token, 299);
        } else {
            assert_int_equal(bw_sampler_sample(&s, &scratch, row, 0, &sample, &err), BW_E_ARG);
        }
        bw_sampler_deinit(&s);
    }
    for (int i = 0; i < 300; i++)
        row[i] = i % 2 ? 3e38f : -3e38f;
    for (int k = 0; k < 3; k++) {
        bw_sampling o = {.temperature = k == 0 ? 1e-6f : 1000, .top_p = k == 2 ? 0.5f : 1, .repetition_penalty = 1};
        assert_ok(bw_sampler_init(&s, &o, 300, 16, &err), err);
        for (int i = 0; i < 100; i++) {
            assert_ok(bw_sampler_sample(&s, &scratch, row, 2, &sample, &err), err);
            assert_int_equal(sample.token % 2, 1);
        }
        bw_sampler_deinit(&s);
    }
    bw_sample_scratch_deinit(&scratch);
}

static void counts_follow_the_window(void **state)
{
    (void)state;
    static int32_t tokens[5000];
    bw_rng rng;
    bw_err err = {0};
    bw_rng_init(&rng, 21);
    for (int trial = 0; trial < 30; trial++) {
        int32_t n_vocab = 3 + (int32_t)bw_rng_below(&rng, 500), window = 1 + (int32_t)bw_rng_below(&rng, 200);
        bw_sampling o = {.temperature = 1, .top_p = 1, .repetition_penalty = 2, .repeat_last_n = window};
        bw_sampler s;
        assert_ok(bw_sampler_init(&s, &o, n_vocab, 5000, &err), err);
        for (int32_t n = 1; n <= 2000; n++) {
            tokens[n - 1] = (int32_t)bw_rng_below(&rng, (uint64_t)n_vocab);
            bw_sampler_accept(&s, tokens, n, 700);
            if (n % 97)
                continue;
            int32_t distinct = 0;
            for (int32_t t = 0; t < n_vocab; t++) {
                int32_t all = 0, generated = 0, found = 0;
                for (int32_t i = n > window ? n - window : 0; i < n; i++) {
                    all += tokens[i] == t;
                    generated += tokens[i] == t && i >= 700;
                }
                distinct += all > 0;
                for (int32_t i = 0; i < s.n_counts; i++) {
                    if (s.counts[i].token != t)
                        continue;
                    found++;
                    assert_int_equal(s.counts[i].n_all, all);
                    assert_int_equal(s.counts[i].n_generated, generated);
                }
                assert_int_equal(found, all > 0);
            }
            assert_int_equal(s.n_counts, distinct);
        }
        bw_sampler_deinit(&s);
    }
}

/* Not a test of speed: prints what a row costs at the largest vocabularies. */
static void large_vocabulary(void **state)
{
    (void)state;
    enum { N = 262144, ROUNDS = 20 };
    static const struct {
        const char *name;
        bw_sampling o;
        int n_logprobs;
    } cases[] = {
        {"greedy", {.temperature = 0, .top_p = 1, .repetition_penalty = 1}, -1},
        {"greedy, penalty", {.temperature = 0, .top_p = 1, .repetition_penalty = 1.1f}, -1},
        {"greedy, 5 logprobs", {.temperature = 0, .top_p = 1, .repetition_penalty = 1}, 5},
        {"temperature", {.temperature = 0.8f, .top_p = 1, .repetition_penalty = 1}, -1},
        {"top-k 40", {.temperature = 0.8f, .top_p = 1, .top_k = 40, .repetition_penalty = 1}, -1},
        {"top-p 0.9", {.temperature = 0.8f, .top_p = 0.9f, .repetition_penalty = 1}, -1},
        {"top-k 50, top-p 0.9, 1.1", {.temperature = 0.8f, .top_p = 0.9f, .top_k = 50, .repetition_penalty = 1.1f}, -1},
        {"min-p 0.05", {.temperature = 0.8f, .top_p = 1, .min_p = 0.05f, .repetition_penalty = 1}, -1},
    };
    float *row = bw_alloc_array(N, sizeof *row);
    bw_sample_scratch scratch;
    bw_rng rng;
    bw_err err = {0};
    assert_non_null(row);
    assert_ok(bw_sample_scratch_init(&scratch, N, &err), err);
    bw_rng_init(&rng, 3);
    for (int i = 0; i < N; i++)
        row[i] = (float)bw_rng_normal(&rng) * 2.5f + (i % 5000 == 0 ? 10.0f : 0);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        bw_sampler s;
        bw_sample sample;
        assert_ok(bw_sampler_init(&s, &cases[k].o, N, 4096, &err), err);
        int32_t tokens[64];
        for (int32_t i = 0; i < 64; i++) {
            tokens[i] = i * 1000;
            bw_sampler_accept(&s, tokens, i + 1, 10);
        }
        int64_t asked = bw_mem_count(), least = INT64_MAX;
        for (int i = 0; i < ROUNDS; i++) {
            int64_t began = bw_clock_now_ns();
            assert_ok(bw_sampler_sample(&s, &scratch, row, cases[k].n_logprobs, &sample, &err), err);
            int64_t ns = bw_clock_now_ns() - began;
            least = ns < least ? ns : least;
        }
        printf("%-28s %4lld us per row of %d\n", cases[k].name, (long long)(least / 1000), (int)N);
        assert_int_equal(bw_mem_count(), asked);
        assert_in_range(sample.token, 0, N - 1);
        bw_sampler_deinit(&s);
    }
    bw_sample_scratch_deinit(&scratch);
    bw_free(row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_are_exact),
        cmocka_unit_test(first_few_are_enough),
        cmocka_unit_test(random_of_a_draw),
        cmocka_unit_test(few_are_enough_for_top_p),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(greedy_and_logprobs),
        cmocka_unit_test(bad_rows),
        cmocka_unit_test(counts_follow_the_window),
        cmocka_unit_test(large_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
