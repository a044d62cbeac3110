/* Where the time of a token goes: the model alone, step by step, with the profile of its operations on. */
#include "bench.h"

#include "bw_lm.h"
#include "bw_mem.h"
#include "bw_rng.h"

typedef struct profiled {
    bw_device *device;
    bw_lm *lm;
    int32_t *tokens, *pages;
    int32_t n_prompt, n_steps, n_vocab;
} profiled;

static bw_status open_lm(const bench_settings *s, const char *path, profiled *p, bw_err *err)
{
    static const bw_dtype kv_dtypes[] = {[BW_KV_F16] = BW_F16, [BW_KV_BF16] = BW_BF16, [BW_KV_Q8_0] = BW_Q8_0};
    bw_lm_file *file;
    int32_t n_batch = s->engine.n_batch ? s->engine.n_batch : 512;
    p->n_prompt = s->n_prompt < n_batch ? s->n_prompt : n_batch;
    if (p->n_prompt < 1)
        p->n_prompt = 1;
    p->n_steps = s->n_generate < 32 ? s->n_generate : 32;
    int32_t n_pages = (p->n_prompt + p->n_steps + BW_LM_PAGE_TOKENS - 1) / BW_LM_PAGE_TOKENS;
    BW_TRY(bw_lm_open_device(s->engine.device, s->engine.n_threads, &p->device, NULL, err));
    BW_TRY(bw_lm_file_open(path, &file, err));
    bw_lm_options o = {.kv_dtype = kv_dtypes[s->engine.kv],
                       .n_pages = n_pages,
                       .max_tokens = p->n_prompt,
                       .max_seqs = 1,
                       .max_outputs = 1,
                       .max_seq_pages = n_pages};
    BW_TRY(bw_lm_new(file, p->device, &o, &p->lm, err));
    bw_lm_info info;
    bw_lm_get_info(p->lm, &info);
    p->n_vocab = info.n_vocab;
    p->tokens = bw_alloc_array((size_t)p->n_prompt, sizeof *p->tokens);
    p->pages = bw_alloc_array((size_t)n_pages, sizeof *p->pages);
    if (!p->tokens || !p->pages)
        return bw_fail_memory(err, (size_t)(p->n_prompt + n_pages) * 4, "the profile's tokens");
    for (int32_t i = 0; i < n_pages; i++)
        p->pages[i] = i;
    return BW_OK;
}

/* n tokens at the end of n_cached. */
static bw_status step(profiled *p, int32_t n, int32_t n_cached, bw_err *err)
{
    bw_rng rng;
    bw_rng_init(&rng, (uint64_t)n_cached);
    for (int32_t i = 0; i < n; i++)
        p->tokens[i] = (int32_t)bw_rng_below(&rng, (uint64_t)p->n_vocab);
    bw_lm_seq seq = {.n_tokens = n, .n_cached = n_cached, .pages = p->pages};
    int32_t last = n - 1;
    bw_lm_batch batch = {
        .n_tokens = n, .tokens = p->tokens, .n_seqs = 1, .seqs = &seq, .n_outputs = 1, .outputs = &last};
    const float *logits;
    return bw_lm_step(p->lm, &batch, &logits, err);
}

static bw_status measure(profiled *p, bw_str *prompt, bw_str *generate, bw_err *err)
{
    BW_TRY(step(p, p->n_prompt, p->n_prompt, err)); /* warm-up */
    bw_lm_set_profile(p->lm, true);
    BW_TRY(step(p, p->n_prompt, p->n_prompt, err));
    BW_TRY(bw_lm_get_profile(p->lm, true, prompt, err));
    if (p->n_steps == 0)
        return BW_OK;
    for (int32_t i = 1; i <= p->n_steps; i++)
        BW_TRY(step(p, 1, p->n_prompt + i, err));
    return bw_lm_get_profile(p->lm, true, generate, err);
}

bw_status cli_bench_profile(const bench_settings *settings, const char *path, bw_str *prompt, bw_str *generate,
                            bw_err *err)
{
    profiled p = {0};
    bw_status status = open_lm(settings, path, &p, err);
    if (status == BW_OK)
        status = measure(&p, prompt, generate, err);
    bw_free(p.tokens);
    bw_free(p.pages);
    bw_lm_free(p.lm);
    if (p.device)
        bw_device_close(p.device);
    return status;
}
