/* Choosing the next token from a row of logits.
 *
 * Owns the order of the filters, the penalties' counts and the random stream of one session; refuses to know text,
 * sessions or the model. The order is fixed:
 *
 *   repetition, frequency, presence penalty -> logit bias -> forbidden tokens -> [greedy: the largest] -> temperature
 * -> top-k -> top-p -> min-p -> draw
 *
 * Each filter sees the distribution that the one before it left over. Equal logits count in ascending order of their
 * token numbers. Log probabilities are those of the model's own distribution: before penalties, bias and temperature.
 * After bw_sampler_init and bw_sample_scratch_init nothing allocates.
 */
#ifndef BW_SAMPLER_H
#define BW_SAMPLER_H

#include "bw_err.h"
#include "bw_rng.h"

enum { BW_SAMPLE_TOP_MAX = 20 };

/* Working memory for one row at a time; shared by all sessions of a thread. */
typedef struct bw_candidate {
    float logit;  /* after penalties and bias */
    float weight; /* exp((logit - largest) / temperature) */
    int32_t token;
} bw_candidate;

typedef struct bw_sample_scratch {
    int32_t n_vocab;
    float *adjusted;          /* [n_vocab] */
    float *weights;           /* [n_vocab] */
    bw_candidate *candidates; /* [n_vocab] */
    bw_candidate *work;       /* [n_vocab] */
    double *blocks;           /* [ceil(n_vocab / 256)] sums of weights */
} bw_sample_scratch;

bw_status bw_sample_scratch_init(bw_sample_scratch *scratch, int32_t n_vocab, bw_err *err);
void bw_sample_scratch_deinit(bw_sample_scratch *scratch);

typedef struct bw_top_logprob {
    int32_t token;
    float logprob;
} bw_top_logprob;

typedef struct bw_sample {
    int32_t token;
    float logprob; /* NAN unless logprobs were asked for */
    int32_t n_top;
    bw_top_logprob top[BW_SAMPLE_TOP_MAX]; /* likeliest first */
} bw_sample;

/* How often a token stands in the penalties' window. */
typedef struct bw_sampler_count {
    int32_t token, n_all, n_generated;
} bw_sampler_count;

typedef struct bw_sampler {
    bw_sampling options; /* logit_bias points to `bias` */
    int32_t n_vocab;
    bw_rng rng;
    bw_logit_bias *bias;
    bool has_penalties, has_bans;
    int32_t *forbidden; /* [n_forbidden] sequences one after the other, each behind its length */
    size_t n_forbidden;
    int32_t *held; /* [n_held] tokens that are forbidden before n_min are generated */
    size_t n_held;
    int32_t n_min;
    const int32_t *tokens; /* as bw_sampler_accept had them last */
    int32_t n_tokens, n_prompt;
    int32_t window; /* tokens */
    /* the distinct tokens of the window, dense, and an open-addressed index of them */
    bw_sampler_count *counts;
    int32_t n_counts;
    int32_t *slots; /* [n_slots] index into counts, -1 = empty */
    int32_t n_slots;
} bw_sampler;

/* Checks and copies the options. n_context: the most tokens the session can have. BW_E_RANGE or BW_E_ARG names the
 * field and the number; tokens of the bias must be below n_vocab. */
bw_status bw_sampler_init(bw_sampler *sampler, const bw_sampling *options, int32_t n_vocab, int32_t n_context,
                          bw_err *err);
void bw_sampler_deinit(bw_sampler *sampler);
/* Once each, before the first token is chosen. sequences [n]: of each its length, 1 or more, then its tokens, which
 * will never be generated one after the other. tokens [n]: not generated before n_min others. Copied; every token must
 * be below n_vocab. */
bw_status bw_sampler_forbid(bw_sampler *sampler, const int32_t *sequences, size_t n, bw_err *err);
bw_status bw_sampler_hold_back(bw_sampler *sampler, const int32_t *tokens, size_t n, int32_t n_min, bw_err *err);
/* The sequence now has n tokens, of which tokens[n - 1] is new; the first n_prompt are the prompt. Repetition penalty
 * counts both, frequency and presence penalty the generated ones only. tokens must stay where they are. O(1). */
void bw_sampler_accept(bw_sampler *sampler, const int32_t *tokens, int32_t n, int32_t n_prompt);
/* logits f32 [n_vocab]. n_logprobs: -1 none, else the chosen token's and this many of the likeliest. Logits that are
 * not finite are BW_E_DEVICE; that every token is banned is BW_E_ARG. */
bw_status bw_sampler_sample(bw_sampler *sampler, bw_sample_scratch *scratch, const float *logits, int n_logprobs,
                            bw_sample *out, bw_err *err);
/* Whether it draws from the whole of the model's own row, from which min-p alone takes tokens: then a device can draw
 * in its place, by the options' temperature and min-p and bw_sampler_next_random. Never changes. */
bool bw_sampler_draws_whole(const bw_sampler *sampler);
/* The random number of the next draw, uniform over 2^32, which bw_sampler_sample then does not make: what the device
 * draws by it is what bw_sampler_sample would have drawn, unless it falls on the border between two tokens. */
uint32_t bw_sampler_next_random(bw_sampler *sampler);
/* Whether it takes tokens from the whole of the model's own row by top-p (and then min-p) alone. Never changes. */
bool bw_sampler_takes_nucleus(const bw_sampler *sampler);
/* For such a one: from the row's n first, as bw_sampler_sample_top has them, and the sum of all the row's weights
 * e^((logit - largest) / temperature): what bw_sampler_sample would choose, unless by the sum's rounding it takes one
 * token more or less. Where the n do not weigh top-p of the sum, *is_enough is false and no random number was drawn. */
bw_status bw_sampler_sample_nucleus(bw_sampler *sampler, bw_sample_scratch *scratch, const float *values,
                                    const int32_t *tokens, int32_t n, float sum, bool *is_enough, bw_sample *out,
                                    bw_err *err);
/* A token that the device chose; below 0 the row is not finite: BW_E_DEVICE. */
bw_status bw_sample_take(int32_t token, bw_sample *out, bw_err *err);
/* How many of the first logits of the model's own row it chooses from (1: it takes the largest); 0: from all, or others
 * than the model's. Never changes. */
int32_t bw_sampler_need(const bw_sampler *sampler);
/* From the row's n first alone, n at least bw_sampler_need, values f32 [n] and tokens i32 [n] in order (equal logits by
 * their tokens; values may be NULL where one is needed): what bw_sampler_sample would choose from the row, to the bit,
 * and no logprobs. A first token below 0 says that the row is not finite: BW_E_DEVICE. */
bw_status bw_sampler_sample_top(bw_sampler *sampler, bw_sample_scratch *scratch, const float *values,
                                const int32_t *tokens, bw_sample *out, bw_err *err);
/* The model's log probability of `token` and of the n_top likeliest, for a prompt's tokens. */
bw_status bw_sample_logprobs(bw_sample_scratch *scratch, const float *logits, int32_t token, int n_top, bw_sample *out,
                             bw_err *err);

/* What the sampler would draw from for this row: candidates [n_vocab at most] in ascending order of tokens and the sum
 * of their weights. For temperature > 0. For tests: bw_sampler_sample takes the same way. */
bw_status bw_sampler_filter(bw_sampler *sampler, bw_sample_scratch *scratch, const float *logits, int32_t *n,
                            double *total, bw_err *err);

#endif
