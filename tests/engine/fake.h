/* A model, a tokenizer and a template engine for the engine's tests.
 *
 * The model stores the token numbers themselves in its KV pages and computes every row of logits from what it reads
 * back through the page table: a wrong page, a page overwritten too early or a wrong copy changes what is generated,
 * or is refused by the step when it sees it.
 *
 * Scripts: in a sequence that begins <script> a b c <go>, the model generates a, b, c and then EOS, each with a logit
 * far above the others.
 */
#ifndef FAKE_H
#define FAKE_H

#include "bw_lm.h"

enum {
    FAKE_EOS,
    FAKE_BOS,
    FAKE_SCRIPT,
    FAKE_GO,
    FAKE_TURN,      /* <turn>, an EOS too */
    FAKE_BYTE = 16, /* 256 tokens of one byte */
    FAKE_PIECES = FAKE_BYTE + 256,
    FAKE_VOCAB = FAKE_PIECES + 24
};

typedef struct fake_settings {
    int32_t n_ctx_train;   /* 0 = 4096 */
    int64_t page_bytes;    /* 0 = 4096 */
    int32_t n_vocab_extra; /* more tokens, without text */
    int32_t n_vocab_pad;   /* rows of the model beyond the tokenizer's vocabulary; below 0: so many are missing */
    int step_us;           /* a step takes this long */
    int token_us;          /* and this much longer for each of its tokens */
    int64_t fail_step;     /* this step fails, counted from 1; 0 = none */
    int64_t nan_step;      /* this step gives NaN in every row */
    int32_t poison_token;  /* a step that computes this token fails with poison_status, unless that is 0 */
    bw_status poison_status;
    bool poison_nan;     /* a row that follows this token is not finite, and the step does not fail */
    int32_t most_tokens; /* a step of more tokens fails for want of memory; 0 = none does */
    int64_t fail_copy;   /* this copy fails */
    bool fail_open;
    bool can_choose; /* the device finds the largest logits itself */
    int32_t top_k;   /* and so many of the first */
    bool can_draw;   /* and draws tokens itself */
    bool lost_fetch; /* the device is lost when a row is fetched */
    const char *chat_template;
} fake_settings;
extern fake_settings fake;

/* What the model has seen since fake_reset. */
typedef struct fake_counts {
    int64_t steps, tokens, rows, copies, max_batch_tokens, max_seqs, mixed_steps, chosen_steps, top_steps, drawn_steps,
        row_steps, fetched_rows;
} fake_counts;
fake_counts fake_get_counts(void);
/* The row of logits [n_vocab] that follows tokens[0..n): what the model must give whatever pages they lie in. */
void fake_logits(const int32_t *tokens, int32_t n, int32_t n_vocab, float *row);
void fake_reset(void);

#endif
