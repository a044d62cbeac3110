/* The sampler's options, its counts and the order of its steps; the passes over a row are in sampler_row.c. */
#include "bw_sampler.h"

#include <math.h>
#include <string.h>

#include "bw_mem.h"
#include "sampler_row.h"

bw_status bw_sample_scratch_init(bw_sample_scratch *scratch, int32_t n_vocab, bw_err *err)
{
    size_t n = (size_t)n_vocab;
    *scratch = (bw_sample_scratch){.n_vocab = n_vocab};
    scratch->adjusted = bw_alloc_array(n, sizeof *scratch->adjusted);
    scratch->weights = bw_alloc_array(n, sizeof *scratch->weights);
    scratch->candidates = bw_alloc_array(n, sizeof *scratch->candidates);
    scratch->work = bw_alloc_array(n, sizeof *scratch->work);
    scratch->blocks = bw_alloc_array(n / BW_ROW_BLOCK + 1, sizeof *scratch->blocks);
    if (scratch->adjusted && scratch->weights && scratch->candidates && scratch->work && scratch->blocks)
        return BW_OK;
    bw_sample_scratch_deinit(scratch);
    return bw_fail_memory(err, n * (2 * sizeof(float) + 2 * sizeof(bw_candidate)), "the sampler's working memory");
}

void bw_sample_scratch_deinit(bw_sample_scratch *scratch)
{
    bw_free(scratch->adjusted);
    bw_free(scratch->weights);
    bw_free(scratch->candidates);
    bw_free(scratch->work);
    bw_free(scratch->blocks);
    *scratch = (bw_sample_scratch){0};
}

/* NaN fails every comparison, so the conditions are written as what must hold. */
static bw_status check_options(const bw_sampling *o, int32_t n_vocab, bw_err *err)
{
    if (!(o->temperature >= 0 && o->temperature <= 1000))
        return bw_fail(err, BW_E_RANGE, "temperature is %g; it must be from 0 to 1000", (double)o->temperature);
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return bw_fail(err, BW_E_RANGE, "top_p is %g; it must be from 0 to 1", (double)o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return bw_fail(err, BW_E_RANGE, "min_p is %g; it must be from 0 to 1", (double)o->min_p);
    if (o->top_k < 0)
        return bw_fail(err, BW_E_RANGE, "top_k is %d; it must be 0 (off) or more", (int)o->top_k);
    if (!(o->repetition_penalty >= 0.01f && o->repetition_penalty <= 100))
        return bw_fail(err, BW_E_RANGE, "repetition_penalty is %g; it must be from 0.01 to 100",
                       (double)o->repetition_penalty);
    if (!(fabsf(o->frequency_penalty) <= 100))
        return bw_fail(err, BW_E_RANGE, "frequency_penalty is %g; it must be from -100 to 100",
                       (double)o->frequency_penalty);
    if (!(fabsf(o->presence_penalty) <= 100))
        return bw_fail(err, BW_E_RANGE, "presence_penalty is %g; it must be from -100 to 100",
                       (double)o->presence_penalty);
    if (o->repeat_last_n < 0)
        return bw_fail(err, BW_E_RANGE, "repeat_last_n is %d; it must be 0 (everything) or more",
                       (int)o->repeat_last_n);
    if (o->n_logit_bias > 0 && !o->logit_bias)
        return bw_fail(err, BW_E_ARG, "logit_bias is NULL but n_logit_bias is %zu", o->n_logit_bias);
    for (size_t i = 0; i < o->n_logit_bias; i++) {
        const bw_logit_bias *b = &o->logit_bias[i];
        if (b->token < 0 || b->token >= n_vocab)
            return bw_fail(err, BW_E_ARG, "logit_bias names token %d; the vocabulary has %d", (int)b->token,
                           (int)n_vocab);
        if (!(b->bias <= 1e6f && (b->bias >= -1e6f || b->bias == -INFINITY)))
            return bw_fail(err, BW_E_RANGE, "logit_bias of token %d is %g; it must be from -1e6 to 1e6, or -infinity",
                           (int)b->token, (double)b->bias);
    }
    return BW_OK;
}

static bw_status init_counts(bw_sampler *s, int32_t n_context, bw_err *err)
{
    int32_t last_n = s->options.repeat_last_n;
    s->window = last_n > 0 && last_n < n_context ? last_n : n_context;
    int32_t distinct = s->window < s->n_vocab ? s->window : s->n_vocab;
    s->n_slots = 16;
    while (s->n_slots / 2 <= distinct)
        s->n_slots *= 2;
    /* one more than the window: a token enters before the oldest leaves */
    s->counts = bw_alloc_array((size_t)distinct + 1, sizeof *s->counts);
    s->slots = bw_alloc_array((size_t)s->n_slots, sizeof *s->slots);
    if (!s->counts || !s->slots)
        return bw_fail_memory(err, (size_t)distinct * sizeof *s->counts + (size_t)s->n_slots * 4, "penalty counts");
    memset(s->slots, 0xff, (size_t)s->n_slots * sizeof *s->slots);
    return BW_OK;
}

bw_status bw_sampler_init(bw_sampler *s, const bw_sampling *options, int32_t n_vocab, int32_t n_context, bw_err *err)
{
    *s = (bw_sampler){.options = *options, .n_vocab = n_vocab};
    s->options.logit_bias = NULL;
    BW_TRY(check_options(options, n_vocab, err));
    bw_status status = BW_OK;
    if (options->n_logit_bias > 0) {
        s->bias = bw_alloc_array(options->n_logit_bias, sizeof *s->bias);
        if (!s->bias)
            return bw_fail_memory(err, options->n_logit_bias * sizeof *s->bias, "logit_bias");
        memcpy(s->bias, options->logit_bias, options->n_logit_bias * sizeof *s->bias);
        s->options.logit_bias = s->bias;
    }
    s->has_penalties =
        options->repetition_penalty != 1 || options->frequency_penalty != 0 || options->presence_penalty != 0;
    if (s->has_penalties)
        status = init_counts(s, n_context, err);
    if (status != BW_OK) {
        bw_sampler_deinit(s);
        return status;
    }
    if (!options->has_seed)
        bw_rng_entropy(&s->options.seed, sizeof s->options.seed);
    bw_rng_init(&s->rng, s->options.seed);
    return BW_OK;
}

void bw_sampler_deinit(bw_sampler *s)
{
    bw_free(s->bias);
    bw_free(s->counts);
    bw_free(s->slots);
    bw_free(s->forbidden);
    bw_free(s->held);
    *s = (bw_sampler){0};
}

static int32_t slot_of(const bw_sampler *s, int32_t token)
{
    uint32_t h = (uint32_t)token * 2654435761u;
    return (int32_t)((h ^ h >> 15) & (uint32_t)(s->n_slots - 1));
}

/* The slot that holds token, or the empty one where it belongs. */
static int32_t find_slot(const bw_sampler *s, int32_t token)
{
    int32_t i = slot_of(s, token);
    while (s->slots[i] >= 0 && s->counts[s->slots[i]].token != token)
        i = (i + 1) & (s->n_slots - 1);
    return i;
}

static void remove_slot(bw_sampler *s, int32_t hole)
{
    int32_t mask = s->n_slots - 1;
    for (int32_t i = (hole + 1) & mask; s->slots[i] >= 0; i = (i + 1) & mask) {
        int32_t home = slot_of(s, s->counts[s->slots[i]].token);
        /* may move back to the hole unless its home lies between the hole (excluded) and itself */
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            s->slots[hole] = s->slots[i];
            hole = i;
        }
    }
    s->slots[hole] = -1;
}

static void count_add(bw_sampler *s, int32_t token, bool generated)
{
    int32_t i = find_slot(s, token);
    if (s->slots[i] < 0) {
        s->slots[i] = s->n_counts;
        s->counts[s->n_counts++] = (bw_sampler_count){.token = token};
    }
    bw_sampler_count *c = &s->counts[s->slots[i]];
    c->n_all++;
    c->n_generated += generated;
}

static void count_remove(bw_sampler *s, int32_t token, bool generated)
{
    int32_t i = find_slot(s, token), at = s->slots[i];
    bw_sampler_count *c = &s->counts[at];
    c->n_generated -= generated;
    if (--c->n_all > 0)
        return;
    remove_slot(s, i);
    int32_t last = s->n_counts - 1;
    if (at != last)
        s->slots[find_slot(s, s->counts[last].token)] = at;
    s->counts[at] = s->counts[last];
    s->n_counts = last;
}

static bw_status copy_tokens(bw_sampler *s, const int32_t *tokens, size_t n, int32_t **copy, bw_err *err)
{
    *copy = bw_alloc_array(n, sizeof **copy);
    if (!*copy)
        return bw_fail_memory(err, n * sizeof **copy, "forbidden tokens");
    memcpy(*copy, tokens, n * sizeof **copy);
    s->has_bans = true;
    return BW_OK;
}

bw_status bw_sampler_forbid(bw_sampler *s, const int32_t *sequences, size_t n, bw_err *err)
{
    if (n == 0)
        return BW_OK;
    s->n_forbidden = n;
    return copy_tokens(s, sequences, n, &s->forbidden, err);
}

bw_status bw_sampler_hold_back(bw_sampler *s, const int32_t *tokens, size_t n, int32_t n_min, bw_err *err)
{
    if (n == 0 || n_min <= 0)
        return BW_OK;
    s->n_held = n;
    s->n_min = n_min;
    return copy_tokens(s, tokens, n, &s->held, err);
}

/* What may not come next, at the end of what was generated. */
static void ban(const bw_sampler *s, float *row)
{
    int32_t n_generated = s->n_tokens - s->n_prompt;
    for (size_t i = 0; i < s->n_held && n_generated < s->n_min; i++)
        row[s->held[i]] = -INFINITY;
    for (size_t at = 0; at < s->n_forbidden; at += 1 + (size_t)s->forbidden[at]) {
        int32_t before = s->forbidden[at] - 1;
        const int32_t *sequence = s->forbidden + at + 1;
        if (before == 0 || (before <= n_generated &&
                            memcmp(sequence, s->tokens + s->n_tokens - before, (size_t)before * sizeof *sequence) == 0))
            row[sequence[before]] = -INFINITY;
    }
}

void bw_sampler_accept(bw_sampler *s, const int32_t *tokens, int32_t n, int32_t n_prompt)
{
    s->tokens = tokens;
    s->n_tokens = n;
    s->n_prompt = n_prompt;
    if (!s->has_penalties)
        return;
    int32_t leaving = n - 1 - s->window;
    if (leaving >= 0)
        count_remove(s, tokens[leaving], leaving >= n_prompt);
    count_add(s, tokens[n - 1], n - 1 >= n_prompt);
}

/* Below a millionth the largest has all the weight, and the division would overflow. */
static bool is_greedy(const bw_sampler *s)
{
    return s->options.temperature < 1e-6f;
}

/* Penalties, bias and bans make another row of it. */
static bool takes_own_row(const bw_sampler *s)
{
    return !s->has_penalties && s->options.n_logit_bias == 0 && !s->has_bans;
}

int32_t bw_sampler_need(const bw_sampler *s)
{
    if (!takes_own_row(s))
        return 0;
    return is_greedy(s) ? 1 : s->options.top_k < s->n_vocab ? s->options.top_k : 0;
}

bool bw_sampler_draws_whole(const bw_sampler *s)
{
    return takes_own_row(s) && bw_sampler_need(s) == 0 && s->options.top_p >= 1;
}

bool bw_sampler_takes_nucleus(const bw_sampler *s)
{
    return takes_own_row(s) && bw_sampler_need(s) == 0 && s->options.top_p < 1;
}

uint32_t bw_sampler_next_random(bw_sampler *s)
{
    return (uint32_t)(bw_rng_f64(&s->rng) * 4294967296.0);
}

bw_status bw_sample_take(int32_t token, bw_sample *out, bw_err *err)
{
    *out = (bw_sample){.token = token, .logprob = NAN};
    if (token < 0)
        return bw_fail(err, BW_E_DEVICE, "the model gave logits that are not finite numbers");
    return BW_OK;
}

/* The row after penalties, bias and bans: the model's own where there are none. */
static const float *adjust(bw_sampler *s, bw_sample_scratch *scratch, const float *logits)
{
    if ((!s->has_penalties || s->n_counts == 0) && s->options.n_logit_bias == 0 && !s->has_bans)
        return logits;
    float *row = scratch->adjusted;
    memcpy(row, logits, (size_t)s->n_vocab * sizeof *row);
    const bw_sampling *o = &s->options;
    for (int32_t i = 0; i < s->n_counts; i++) {
        const bw_sampler_count *c = &s->counts[i];
        float x = row[c->token];
        x = x > 0 ? x / o->repetition_penalty : x * o->repetition_penalty;
        x -= o->frequency_penalty * (float)c->n_generated + (c->n_generated > 0 ? o->presence_penalty : 0);
        row[c->token] = x;
    }
    for (size_t i = 0; i < o->n_logit_bias; i++)
        row[o->logit_bias[i].token] += o->logit_bias[i].bias;
    if (s->has_bans)
        ban(s, row);
    return row;
}

/* The largest of the model's own row, which must be finite. */
static bw_status check_row(const float *logits, int32_t n_vocab, int32_t *largest, bw_err *err)
{
    bool finite;
    *largest = bw_row_argmax(logits, n_vocab, &finite);
    if (finite)
        return BW_OK;
    int32_t i = 0;
    while (i < n_vocab - 1 && isfinite(logits[i]))
        i++;
    return bw_fail(err, BW_E_DEVICE, "the model gave %g as the logit of token %d; it must be a finite number",
                   (double)logits[i], (int)i);
}

/* The row to choose from and the indices of the largest elements, of the model's row and of this. */
static bw_status prepare(bw_sampler *s, bw_sample_scratch *scratch, const float *logits, const float **row,
                         int32_t *raw_largest, int32_t *largest, bw_err *err)
{
    bool finite;
    BW_TRY(check_row(logits, s->n_vocab, raw_largest, err));
    *row = adjust(s, scratch, logits);
    *largest = *row == logits ? *raw_largest : bw_row_argmax(*row, s->n_vocab, &finite);
    if ((*row)[*largest] == -INFINITY)
        return bw_fail(err, BW_E_ARG,
                       "every token of the vocabulary is banned, by logit_bias, bad_words or min_tokens");
    return BW_OK;
}

/* What follows top-k, for n candidates that are weighed and weigh *total. */
static int32_t narrow(bw_sampler *s, bw_sample_scratch *scratch, int32_t n, double *total)
{
    const bw_sampling *o = &s->options;
    bw_candidate *list = scratch->candidates;
    if (o->top_p < 1)
        n = bw_candidates_top_p(list, n, (double)o->top_p * *total, scratch->work);
    n = bw_candidates_min_weight(list, n, o->min_p);
    *total = bw_candidates_total(list, n);
    return n;
}

/* The n of top-k, in ascending order of tokens. */
static int32_t weigh_top_k(bw_sampler *s, bw_sample_scratch *scratch, int32_t n, float largest, double *total)
{
    bw_candidates_weigh(scratch->candidates, n, largest, s->options.temperature);
    *total = bw_candidates_total(scratch->candidates, n);
    return narrow(s, scratch, n, total);
}

static int32_t filter(bw_sampler *s, bw_sample_scratch *scratch, const float *row, float largest, double *total)
{
    const bw_sampling *o = &s->options;
    bw_candidate *list = scratch->candidates;
    if (o->top_k > 0 && o->top_k < s->n_vocab)
        return weigh_top_k(s, scratch, bw_row_top_k(row, s->n_vocab, o->top_k, list, scratch->work), largest, total);
    *total = bw_row_weigh(row, s->n_vocab, largest, o->temperature, scratch->weights, scratch->blocks);
    /* What is lighter than this cannot be in the top-p set even if every token were: exact, and it leaves few. */
    float least = o->top_p < 1 ? (float)((1 - (double)o->top_p) * *total / s->n_vocab * 0.999) : 0;
    least = o->min_p > least ? o->min_p : least; /* min-p would drop these in the end */
    return narrow(s, scratch, bw_row_gather(row, scratch->weights, scratch->blocks, s->n_vocab, least, list), total);
}

bw_status bw_sampler_filter(bw_sampler *s, bw_sample_scratch *scratch, const float *logits, int32_t *n, double *total,
                            bw_err *err)
{
    const float *row;
    int32_t raw_largest, largest;
    BW_TRY(prepare(s, scratch, logits, &row, &raw_largest, &largest, err));
    *n = filter(s, scratch, row, row[largest], total);
    return BW_OK;
}

static int32_t draw(bw_sampler *s, bw_sample_scratch *scratch, const float *row, float largest)
{
    const bw_sampling *o = &s->options;
    bool whole = (o->top_k == 0 || o->top_k >= s->n_vocab) && o->top_p >= 1 && o->min_p <= 0;
    double u = bw_rng_f64(&s->rng), total;
    if (whole) {
        total = bw_row_weigh(row, s->n_vocab, largest, o->temperature, scratch->weights, scratch->blocks);
        return bw_row_pick(scratch->weights, scratch->blocks, s->n_vocab, u * total);
    }
    int32_t n = filter(s, scratch, row, largest, &total);
    return bw_candidates_pick(scratch->candidates, n, u * total);
}

static void fill_logprobs(bw_sample_scratch *scratch, const float *logits, int32_t largest, int n_top, bw_sample *out)
{
    int32_t n_vocab = scratch->n_vocab;
    double total = bw_row_weigh(logits, n_vocab, logits[largest], 1, scratch->weights, scratch->blocks);
    double log_total = (double)logits[largest] + log(total);
    out->logprob = (float)((double)logits[out->token] - log_total);
    if (n_top > n_vocab)
        n_top = n_vocab;
    if (n_top > BW_SAMPLE_TOP_MAX)
        n_top = BW_SAMPLE_TOP_MAX;
    out->n_top = n_top;
    if (n_top == 0)
        return;
    bw_row_top_k(logits, n_vocab, n_top, scratch->candidates, scratch->work);
    bw_candidates_sort(scratch->candidates, n_top);
    for (int i = 0; i < n_top; i++)
        out->top[i] = (bw_top_logprob){.token = scratch->candidates[i].token,
                                       .logprob = (float)((double)scratch->candidates[i].logit - log_total)};
}

bw_status bw_sampler_sample(bw_sampler *s, bw_sample_scratch *scratch, const float *logits, int n_logprobs,
                            bw_sample *out, bw_err *err)
{
    const float *row;
    int32_t raw_largest, largest;
    out->n_top = 0;
    out->logprob = NAN;
    BW_TRY(prepare(s, scratch, logits, &row, &raw_largest, &largest, err));
    out->token = is_greedy(s) ? largest : draw(s, scratch, row, row[largest]);
    if (n_logprobs >= 0)
        fill_logprobs(scratch, logits, raw_largest, n_logprobs, out);
    return BW_OK;
}

/* The n first of a row as candidates, in their order or that of their tokens: sums of weights depend on it. */
static void list_first(bw_candidate *list, const float *values, const int32_t *tokens, int32_t n, bool by_token)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t at = i;
        for (; by_token && at > 0 && list[at - 1].token > tokens[i]; at--)
            list[at] = list[at - 1];
        list[at] = (bw_candidate){.logit = values[i], .token = tokens[i]};
    }
}

bw_status bw_sampler_sample_nucleus(bw_sampler *s, bw_sample_scratch *scratch, const float *values,
                                    const int32_t *tokens, int32_t n, float sum, bool *is_enough, bw_sample *out,
                                    bw_err *err)
{
    bw_candidate *list = scratch->candidates;
    *is_enough = true;
    BW_TRY(bw_sample_take(tokens[0], out, err));
    list_first(list, values, tokens, n, false);
    bw_candidates_weigh(list, n, values[0], s->options.temperature);
    double mass = (double)s->options.top_p * (double)sum, reached = (double)list[0].weight;
    int32_t kept = 1;
    while (kept < n && reached < mass)
        reached += (double)list[kept++].weight;
    *is_enough = reached >= mass;
    if (!*is_enough)
        return BW_OK;
    list_first(list, values, tokens, kept, true);
    bw_candidates_weigh(list, kept, values[0], s->options.temperature);
    kept = bw_candidates_min_weight(list, kept, s->options.min_p);
    double u = bw_rng_f64(&s->rng);
    out->token = bw_candidates_pick(list, kept, u * bw_candidates_total(list, kept));
    return BW_OK;
}

bw_status bw_sampler_sample_top(bw_sampler *s, bw_sample_scratch *scratch, const float *values, const int32_t *tokens,
                                bw_sample *out, bw_err *err)
{
    BW_TRY(bw_sample_take(tokens[0], out, err));
    if (is_greedy(s) || s->options.top_k == 1)
        return BW_OK;
    bw_candidate *list = scratch->candidates;
    int32_t n = s->options.top_k;
    list_first(list, values, tokens, n, true); /* as draw() has them */
    double u = bw_rng_f64(&s->rng), total;
    n = weigh_top_k(s, scratch, n, values[0], &total);
    out->token = bw_candidates_pick(list, n, u * total);
    return BW_OK;
}

bw_status bw_sample_logprobs(bw_sample_scratch *scratch, const float *logits, int32_t token, int n_top, bw_sample *out,
                             bw_err *err)
{
    int32_t largest;
    BW_TRY(check_row(logits, scratch->n_vocab, &largest, err));
    out->token = token;
    fill_logprobs(scratch, logits, largest, n_top, out);
    return BW_OK;
}
