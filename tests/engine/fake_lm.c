#include "fake.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_mem.h"

fake_settings fake;

static struct {
    _Atomic int64_t steps, tokens, rows, copies, max_batch_tokens, max_seqs, mixed_steps, chosen_steps, top_steps;
    _Atomic int64_t drawn_steps, row_steps, fetched_rows;
} counts;

struct bw_lm_file {
    char *path;
};

struct bw_lm {
    bw_lm_file *file;
    bw_lm_options options;
    int32_t n_vocab;
    int32_t *slots;   /* [n_pages, BW_LM_PAGE_TOKENS] token, -1 = never written */
    int32_t *owners;  /* [n_pages] the sequence that writes the page in this step, -1 = none */
    int32_t *history; /* [max_seq_pages * BW_LM_PAGE_TOKENS] */
    float *logits;    /* [max_outputs, n_vocab] */
    bw_tokenizer *tokenizer;
};

/* fake_tokenizer.c */
bw_tokenizer *fake_tokenizer_new(int32_t n_extra);

fake_counts fake_get_counts(void)
{
    return (fake_counts){.steps = counts.steps,
                         .tokens = counts.tokens,
                         .rows = counts.rows,
                         .copies = counts.copies,
                         .max_batch_tokens = counts.max_batch_tokens,
                         .max_seqs = counts.max_seqs,
                         .mixed_steps = counts.mixed_steps,
                         .chosen_steps = counts.chosen_steps,
                         .top_steps = counts.top_steps,
                         .drawn_steps = counts.drawn_steps,
                         .row_steps = counts.row_steps,
                         .fetched_rows = counts.fetched_rows};
}

void fake_reset(void)
{
    fake = (fake_settings){0};
    counts.steps = counts.tokens = counts.rows = counts.copies = 0;
    counts.max_batch_tokens = counts.max_seqs = counts.mixed_steps = counts.chosen_steps = counts.top_steps = 0;
    counts.drawn_steps = counts.row_steps = counts.fetched_rows = 0;
}

bw_status bw_lm_open_device(const char *name, int n_threads, bw_device **device, bw_err *why_cpu, bw_err *err)
{
    (void)why_cpu;
    return bw_device_open(name, n_threads, device, err);
}

bw_status bw_lm_file_open(const char *path, bw_lm_file **file, bw_err *err)
{
    *file = NULL;
    if (fake.fail_open)
        return bw_fail(err, BW_E_IO, "%s cannot be opened", path);
    *file = bw_alloc_zero(1, sizeof **file);
    if (!*file || !((*file)->path = bw_strdup(path))) {
        bw_free(*file);
        *file = NULL;
        return bw_fail_memory(err, sizeof **file, "a model file");
    }
    return BW_OK;
}

void bw_lm_file_close(bw_lm_file *file)
{
    if (file)
        bw_free(file->path);
    bw_free(file);
}

void bw_lm_file_info(const bw_lm_file *file, bw_dtype kv_dtype, bw_lm_info *info)
{
    (void)file;
    (void)kv_dtype;
    *info = (bw_lm_info){.architecture = "fake",
                         .name = "fake model",
                         .quantisation = "F32",
                         .n_params = 12345,
                         .weight_bytes = 49380,
                         .token_bytes = 49380,
                         .kv_page_bytes = fake.page_bytes ? fake.page_bytes : 4096,
                         .n_vocab = FAKE_VOCAB + fake.n_vocab_extra + fake.n_vocab_pad,
                         .n_layers = 2,
                         .n_embd = 8,
                         .n_ctx_train = fake.n_ctx_train ? fake.n_ctx_train : 4096};
}

bw_status bw_lm_new(bw_lm_file *file, bw_device *device, const bw_lm_options *options, bw_lm **out, bw_err *err)
{
    (void)device;
    *out = NULL;
    bw_lm *lm = bw_alloc_zero(1, sizeof *lm);
    if (!lm) {
        bw_lm_file_close(file);
        return bw_fail_memory(err, sizeof *lm, "a model");
    }
    lm->file = file;
    lm->options = *options;
    lm->n_vocab = FAKE_VOCAB + fake.n_vocab_extra + fake.n_vocab_pad;
    size_t n_slots = (size_t)options->n_pages * BW_LM_PAGE_TOKENS;
    lm->slots = bw_alloc_array(n_slots, sizeof *lm->slots);
    lm->owners = bw_alloc_array((size_t)options->n_pages, sizeof *lm->owners);
    lm->history = bw_alloc_array((size_t)options->max_seq_pages * BW_LM_PAGE_TOKENS, sizeof *lm->history);
    lm->logits = bw_alloc_array((size_t)options->max_outputs * (size_t)lm->n_vocab, sizeof *lm->logits);
    lm->tokenizer = fake_tokenizer_new(fake.n_vocab_extra);
    if (!lm->slots || !lm->owners || !lm->history || !lm->logits || !lm->tokenizer) {
        bw_lm_free(lm);
        return bw_fail_memory(err, n_slots * 4, "the model's pages");
    }
    memset(lm->slots, 0xff, n_slots * sizeof *lm->slots);
    *out = lm;
    return BW_OK;
}

void bw_lm_free(bw_lm *lm)
{
    if (!lm)
        return;
    bw_lm_file_close(lm->file);
    bw_free(lm->slots);
    bw_free(lm->owners);
    bw_free(lm->history);
    bw_free(lm->logits);
    bw_tokenizer_free(lm->tokenizer);
    bw_free(lm);
}

void bw_lm_get_info(const bw_lm *lm, bw_lm_info *info)
{
    bw_lm_file_info(lm->file, lm->options.kv_dtype, info);
    info->device = "cpu:0";
}

int bw_lm_can_give(const bw_lm *lm)
{
    (void)lm;
    return BW_LM_LOGITS | (fake.can_choose ? BW_LM_BEST : 0) | (fake.top_k > 0 ? BW_LM_TOP : 0) |
           (fake.can_draw ? BW_LM_DRAWN : 0);
}

int32_t bw_lm_top_k(const bw_lm *lm)
{
    (void)lm;
    return fake.top_k;
}

static bool is_finite(const float *row, int32_t n)
{
    bool finite = true;
    for (int32_t t = 0; t < n; t++)
        finite = finite && isfinite(row[t]);
    return finite;
}

static int32_t largest(const float *row, int32_t n)
{
    int32_t best = 0;
    for (int32_t t = 1; t < n; t++)
        best = row[t] > row[best] ? t : best;
    return best;
}

/* As ROW_SAMPLE, with the host's sampler's numbers: 1 / temperature and e^x in f32. */
static int32_t draw(const float *row, int32_t n, const bw_lm_draw *d)
{
    static float weights[4096];
    float most = row[largest(row, n)];
    double total = 0, sum = 0;
    for (int32_t t = 0; t < n; t++) {
        float w = row[t] < most ? expf((row[t] - most) * (1 / d->temperature)) : 1;
        weights[t] = w < d->min_p ? 0 : w;
        total += (double)weights[t];
    }
    for (int32_t t = 0; t < n; t++) {
        sum += (double)weights[t];
        if (sum > d->random / 4294967296.0 * total)
            return t;
    }
    return -1;
}

static void find_top(const float *row, int32_t n, int32_t *first, float *values)
{
    for (int32_t k = 0; k < fake.top_k; k++) {
        int32_t best = -1; /* of those that come after the last one */
        for (int32_t t = 0; t < n; t++) {
            bool is_left = k == 0 || row[t] < row[first[k - 1]] || (row[t] == row[first[k - 1]] && t > first[k - 1]);
            if (is_left && (best < 0 || row[t] > row[best]))
                best = t;
        }
        first[k] = best;
        values[k] = row[best];
    }
}

static float sum_weights(const float *row, int32_t n, float temperature)
{
    double sum = 0, most = (double)row[largest(row, n)];
    for (int32_t t = 0; t < n; t++)
        sum += exp(((double)row[t] - most) / (double)temperature);
    return (float)sum;
}

bw_status bw_lm_fetch_row(bw_lm *lm, int32_t output, const float **logits, bw_err *err)
{
    counts.fetched_rows++;
    if (fake.lost_fetch)
        return bw_fail(err, BW_E_LOST, "lost while a row was fetched");
    *logits = lm->logits + (size_t)output * (size_t)lm->n_vocab;
    return BW_OK;
}

bw_status bw_lm_step_for(bw_lm *lm, const bw_lm_batch *batch, int wants, bw_lm_results *results, bw_err *err)
{
    static float values[4096], sums[4096];
    static int32_t tokens[4096], best[4096], drawn[4096];
    const float *logits;
    if (wants == 0 || (wants & ~bw_lm_can_give(lm)) != 0)
        return bw_fail(err, BW_E_INTERNAL, "wants %d of %d", wants, bw_lm_can_give(lm));
    BW_TRY(bw_lm_step(lm, batch, &logits, err));
    for (int32_t i = 0; i < batch->n_outputs; i++) {
        const float *row = logits + (size_t)i * (size_t)lm->n_vocab;
        bool finite = is_finite(row, lm->n_vocab);
        int32_t *first = tokens + (size_t)i * (size_t)fake.top_k;
        if (wants & BW_LM_BEST)
            best[i] = finite ? largest(row, lm->n_vocab) : -1;
        if (wants & BW_LM_DRAWN)
            drawn[i] = finite ? draw(row, lm->n_vocab, &batch->draws[i]) : -1;
        if (wants & BW_LM_TOP)
            find_top(row, lm->n_vocab, first, values + (size_t)i * (size_t)fake.top_k);
        if ((wants & BW_LM_TOP) && !finite)
            first[0] = -1;
        float temperature = batch->draws && batch->draws[i].temperature > 0 ? batch->draws[i].temperature : 1;
        sums[i] = sum_weights(row, lm->n_vocab, temperature);
    }
    counts.chosen_steps += (wants & BW_LM_BEST) != 0;
    counts.drawn_steps += (wants & BW_LM_DRAWN) != 0;
    counts.top_steps += (wants & BW_LM_TOP) != 0;
    counts.row_steps += (wants & BW_LM_LOGITS) != 0;
    *results = (bw_lm_results){.logits = wants & BW_LM_LOGITS ? logits : NULL,
                               .best = wants & BW_LM_BEST ? best : NULL,
                               .drawn = wants & BW_LM_DRAWN ? drawn : NULL};
    if (wants & BW_LM_TOP)
        results->top = (bw_lm_top){fake.top_k, values, tokens, sums};
    return BW_OK;
}

const bw_tokenizer *bw_lm_tokenizer(const bw_lm *lm)
{
    return lm->tokenizer;
}

static int32_t *slot(bw_lm *lm, const bw_lm_seq *seq, int32_t position)
{
    return &lm->slots[(size_t)seq->pages[position / BW_LM_PAGE_TOKENS] * BW_LM_PAGE_TOKENS +
                      (size_t)(position % BW_LM_PAGE_TOKENS)];
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 31;
    h *= 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    return h * 0xbf58476d1ce4e5b9u;
}

/* The token that a script asks for after tokens[0..n), -1 when there is no script. */
static int32_t scripted(const int32_t *tokens, int32_t n)
{
    int32_t i = tokens[0] == FAKE_BOS ? 1 : 0, go;
    if (i >= n || tokens[i] != FAKE_SCRIPT)
        return -1;
    for (go = i + 1; go < n && tokens[go] != FAKE_GO; go++)
        ;
    if (go == n)
        return -1;
    int32_t source = i + 1 + (n - 1 - go);
    return source < go ? tokens[source] : FAKE_EOS;
}

void fake_logits(const int32_t *tokens, int32_t n, int32_t n_vocab, float *row)
{
    uint64_t h = 1;
    for (int32_t i = 0; i < n; i++)
        h = mix(h + (uint64_t)tokens[i] + 1);
    int32_t wanted = scripted(tokens, n);
    for (int32_t i = 0; i < n_vocab; i++) {
        h = mix(h + 77);
        row[i] = (float)(h >> 40) / 16777216.0f * 8.0f - 4.0f;
    }
    row[FAKE_EOS] -= 6;
    row[FAKE_TURN] -= 6;
    if (wanted >= 0)
        row[wanted] = 40;
}

static bool fill_row(bw_lm *lm, const bw_lm_seq *seq, int32_t position, float *row)
{
    for (int32_t i = 0; i <= position; i++) {
        lm->history[i] = *slot(lm, seq, i);
        if (lm->history[i] < 0)
            return false;
    }
    fake_logits(lm->history, position + 1, lm->n_vocab, row);
    return true;
}

/* The promises of bw_lm.h that the engine must keep. */
static const char *check(bw_lm *lm, const bw_lm_batch *b)
{
    if (b->n_tokens < 1 || b->n_tokens > lm->options.max_tokens)
        return "the number of tokens";
    if (b->n_seqs < 1 || b->n_seqs > lm->options.max_seqs)
        return "the number of sequences";
    if (b->n_outputs < 0 || b->n_outputs > lm->options.max_outputs)
        return "the number of outputs";
    for (int32_t i = 0; i < b->n_tokens; i++)
        if (b->tokens[i] < 0 || b->tokens[i] >= lm->n_vocab)
            return "a token outside the vocabulary";
    for (int32_t i = 0; i < b->n_outputs; i++)
        if (b->outputs[i] < 0 || b->outputs[i] >= b->n_tokens || (i > 0 && b->outputs[i] <= b->outputs[i - 1]))
            return "an output's index";
    for (int32_t i = 0; i < lm->options.n_pages; i++)
        lm->owners[i] = -1;
    int32_t at = 0;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        const bw_lm_seq *s = &b->seqs[i];
        if (s->first_token != at || s->n_tokens < 1 || s->n_cached < s->n_tokens)
            return "a sequence's place in the batch";
        at += s->n_tokens;
        int32_t n_pages = (s->n_cached + BW_LM_PAGE_TOKENS - 1) / BW_LM_PAGE_TOKENS;
        if (n_pages > lm->options.max_seq_pages)
            return "a sequence with too many pages";
        for (int32_t p = 0; p < n_pages; p++)
            if (s->pages[p] < 0 || s->pages[p] >= lm->options.n_pages)
                return "a page number";
        for (int32_t p = (s->n_cached - s->n_tokens) / BW_LM_PAGE_TOKENS; p < n_pages; p++) {
            if (lm->owners[s->pages[p]] >= 0)
                return "a page that two sequences write";
            lm->owners[s->pages[p]] = i;
        }
    }
    for (int32_t i = 0; i < b->n_seqs; i++) {
        const bw_lm_seq *s = &b->seqs[i];
        for (int32_t p = 0; p < (s->n_cached + BW_LM_PAGE_TOKENS - 1) / BW_LM_PAGE_TOKENS; p++)
            if (lm->owners[s->pages[p]] >= 0 && lm->owners[s->pages[p]] != i)
                return "a page that another sequence writes";
    }
    return at == b->n_tokens ? NULL : "tokens that belong to no sequence";
}

static void raise_to(_Atomic int64_t *most, int64_t value)
{
    if (value > *most)
        *most = value;
}

static void count(const bw_lm_batch *b)
{
    bool decodes = false, prefills = false;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        decodes |= b->seqs[i].n_tokens == 1 && b->seqs[i].n_cached > 1;
        prefills |= b->seqs[i].n_tokens > 1;
    }
    counts.steps++;
    counts.tokens += b->n_tokens;
    counts.rows += b->n_outputs;
    counts.mixed_steps += decodes && prefills;
    raise_to(&counts.max_batch_tokens, b->n_tokens);
    raise_to(&counts.max_seqs, b->n_seqs);
}

bw_status bw_lm_step(bw_lm *lm, const bw_lm_batch *b, const float **logits, bw_err *err)
{
    const char *wrong = check(lm, b);
    if (wrong)
        return bw_fail(err, BW_E_INTERNAL, "the batch breaks its rules: %s", wrong);
    count(b);
    if (fake.step_us)
        bw_clock_sleep_ms(fake.step_us / 1000);
    if (fake.token_us)
        bw_clock_sleep_ms(fake.token_us * b->n_tokens / 1000);
    for (int32_t i = 0; i < b->n_seqs; i++) {
        const bw_lm_seq *s = &b->seqs[i];
        for (int32_t j = 0; j < s->n_tokens; j++)
            *slot(lm, s, s->n_cached - s->n_tokens + j) = b->tokens[s->first_token + j];
    }
    if (fake.fail_step && counts.steps == fake.fail_step)
        return bw_fail(err, BW_E_DEVICE, "the fake device failed in step %lld", (long long)fake.fail_step);
    if (fake.most_tokens && b->n_tokens > fake.most_tokens)
        return bw_fail(err, BW_E_MEMORY, "the fake device has no memory for %d tokens", (int)b->n_tokens);
    for (int32_t i = 0; fake.poison_status != BW_OK && i < b->n_tokens; i++)
        if (b->tokens[i] == fake.poison_token)
            return bw_fail(err, fake.poison_status, "the fake device cannot bear token %d", (int)fake.poison_token);
    int32_t seq = 0;
    for (int32_t i = 0; i < b->n_outputs; i++) {
        while (b->outputs[i] >= b->seqs[seq].first_token + b->seqs[seq].n_tokens)
            seq++;
        const bw_lm_seq *s = &b->seqs[seq];
        float *row = lm->logits + (size_t)i * (size_t)lm->n_vocab;
        if (!fill_row(lm, s, s->n_cached - s->n_tokens + b->outputs[i] - s->first_token, row))
            return bw_fail(err, BW_E_INTERNAL, "a sequence reads a slot that was never written");
        if (fake.nan_step && counts.steps == fake.nan_step)
            row[7] = NAN;
        if (fake.poison_nan && b->tokens[b->outputs[i]] == fake.poison_token)
            row[7] = NAN;
    }
    *logits = lm->logits;
    return BW_OK;
}

bw_status bw_lm_copy_page(bw_lm *lm, int32_t dst, int32_t src, int32_t n_tokens, bw_err *err)
{
    if (dst < 0 || src < 0 || dst == src || dst >= lm->options.n_pages || src >= lm->options.n_pages || n_tokens < 1 ||
        n_tokens > BW_LM_PAGE_TOKENS)
        return bw_fail(err, BW_E_INTERNAL, "a copy of %d tokens from page %d to %d", n_tokens, src, dst);
    if (++counts.copies == fake.fail_copy)
        return bw_fail(err, BW_E_DEVICE, "the fake device failed in a copy");
    memset(lm->slots + (size_t)dst * BW_LM_PAGE_TOKENS, 0xff, BW_LM_PAGE_TOKENS * sizeof *lm->slots);
    memcpy(lm->slots + (size_t)dst * BW_LM_PAGE_TOKENS, lm->slots + (size_t)src * BW_LM_PAGE_TOKENS,
           (size_t)n_tokens * sizeof *lm->slots);
    return BW_OK;
}
