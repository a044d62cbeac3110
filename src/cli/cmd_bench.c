/* beeswax bench: how fast a model runs, and how much of the machine's memory bandwidth that is.
 *
 * Prompts are random tokens, new ones for every run, so that nothing comes from the prefix cache and no tokenizer is
 * needed. Every number is the median over the repetitions, after one run that does not count. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_mem.h"
#include "bw_model_path.h"
#include "bw_rng.h"

enum { MAX_REPETITIONS = 100, MAX_PARALLEL = 64, MAX_SAMPLES = MAX_REPETITIONS + 4 };

static void init(void *settings)
{
    bench_settings *s = settings;
    s->n_prompt = 512;
    s->n_generate = 128;
    s->n_repetitions = 3;
}

static const cli_option options[] = {
    {"n-prompt", 'p', CLI_I32, offsetof(bench_settings, n_prompt), "N",
     "tokens of the prompt; 0 leaves it out (default 512)", 0, 1048576, NULL},
    {"n-generate", 'n', CLI_I32, offsetof(bench_settings, n_generate), "N",
     "tokens to generate; 0 leaves it out (default 128)", 0, 1048576, NULL},
    {"parallel", 0, CLI_I32, offsetof(bench_settings, n_parallel), "N",
     "also generate N sequences at once and count all their tokens", 1, MAX_PARALLEL, NULL},
    {"repetitions", 'r', CLI_I32, offsetof(bench_settings, n_repetitions), "N",
     "runs of each kind, of which the median counts (default 3)", 1, MAX_REPETITIONS, NULL},
    {"json", 0, CLI_FLAG, offsetof(bench_settings, json), NULL, "print one JSON object", 0, 0, NULL},
    {"profile", 0, CLI_FLAG, offsetof(bench_settings, profile), NULL,
     "also show where the time of a prompt and of a token goes, by operation", 0, 0, NULL},
    {"no-bandwidth", 0, CLI_FLAG, offsetof(bench_settings, no_bandwidth), NULL,
     "do not measure memory bandwidth beside the runs (it needs a large buffer)", 0, 0, NULL},
};
static const cli_group group = {"Options", options, sizeof options / sizeof *options};

typedef struct samples {
    double rates[MAX_SAMPLES]; /* tokens or bytes per second */
    int n;
} samples;

typedef struct bench {
    const bench_settings *settings;
    char *path;
    bw_engine *engine;
    bw_model_info info;
    bw_rng rng;
    int32_t *tokens; /* [max(n_prompt, 1)] */
    samples prompt, generate, batch;
    int64_t rss_bytes, peak_bytes;
    cli_bandwidth *memory; /* NULL = not open */
    samples bandwidth;     /* before, between and after the runs */
    bw_str prompt_profile, generate_profile;
    char *name, *architecture, *quantisation, *device; /* outlive the engine */
} bench;

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static void fill_request(bench *b, int32_t n_prompt, int32_t n_generate, bw_request *r)
{
    bw_request_init(r);
    for (int32_t i = 0; i < n_prompt; i++)
        b->tokens[i] = (int32_t)bw_rng_below(&b->rng, (uint64_t)b->info.n_vocab);
    r->tokens = b->tokens;
    r->n_tokens = (size_t)n_prompt;
    r->max_tokens = n_generate;
    r->ignore_eos = true;
    r->sampling.temperature = 0;
}

static bw_status check_count(const char *what, int32_t got, int32_t want, bw_err *err)
{
    return got == want ? BW_OK
                       : bw_fail(err, BW_E_INTERNAL, "the bench asked for %d %s and got %d", (int)want, what, (int)got);
}

/* A prompt alone: from its first step to the logits of its last token. */
static bw_status measure_prompt(bench *b, int32_t n, double *rate, bw_err *err)
{
    bw_request request;
    cli_result result;
    fill_request(b, n, 0, &request);
    BW_TRY(cli_generate(b->engine, &request, false, NULL, &result, err));
    BW_TRY(check_count("prompt tokens", result.n_prompt - result.n_cached, n, err));
    *rate = cli_prompt_rate(&result);
    return BW_OK;
}

/* One sequence after a prompt of one token. */
static bw_status measure_generate(bench *b, int32_t n, double *rate, bw_err *err)
{
    bw_request request;
    cli_result result;
    fill_request(b, 1, n, &request);
    BW_TRY(cli_generate(b->engine, &request, false, NULL, &result, err));
    BW_TRY(check_count("generated tokens", result.n_generated, n, err));
    /* of a single token there is no rate between tokens: its prompt's time holds it */
    *rate = n > 1 ? cli_generate_rate(&result) : result.prompt_ms > 0 ? 1e3 / result.prompt_ms : 0;
    return BW_OK;
}

static bw_status wait_end(bw_session *session, int32_t *n_generated, bw_err *err)
{
    for (;;) {
        bw_event event;
        BW_TRY(bw_session_next(session, -1, &event, err));
        if (event.type == BW_EVENT_ERROR)
            return err->status ? err->status : BW_E_INTERNAL;
        if (event.type == BW_EVENT_END) {
            *n_generated = event.n_generated_tokens;
            return BW_OK;
        }
    }
}

/* n_parallel sequences at once: all tokens over the time from the first submit to the last end. */
static bw_status measure_batch(bench *b, int32_t n, double *rate, bw_err *err)
{
    bw_session *sessions[MAX_PARALLEL] = {0};
    int32_t n_parallel = b->settings->n_parallel;
    bw_status status = BW_OK;
    int64_t start = bw_clock_now_ns();
    for (int32_t i = 0; i < n_parallel && status == BW_OK; i++) {
        bw_request request;
        fill_request(b, 1, n, &request);
        status = bw_engine_submit(b->engine, &request, &sessions[i], err);
    }
    for (int32_t i = 0; i < n_parallel && status == BW_OK; i++) {
        int32_t got = 0;
        status = wait_end(sessions[i], &got, err);
        if (status == BW_OK)
            status = check_count("generated tokens", got, n, err);
    }
    int64_t ns = bw_clock_now_ns() - start;
    for (int32_t i = 0; i < n_parallel; i++)
        bw_session_free(sessions[i]);
    *rate = ns > 0 ? (double)n_parallel * n * 1e9 / (double)ns : 0;
    return status;
}

/* The machine's bandwidth now, while the engine rests. A card is opened for each measurement anew: a second user whose
 * memory stays there slows every launch of the engine's (on an H200 392 instead of 423 tokens/s). */
static bw_status measure_bandwidth(bench *b, bw_err *err)
{
    samples *s = &b->bandwidth;
    if (b->settings->no_bandwidth || s->n >= MAX_SAMPLES)
        return BW_OK;
    if (!b->memory)
        BW_TRY(cli_bandwidth_open(b->device, b->settings->engine.n_threads, &b->memory, err));
    BW_TRY(cli_bandwidth_measure(b->memory, &s->rates[s->n++], err));
    if (cli_bandwidth_host_bytes(b->memory) == 0) {
        cli_bandwidth_close(b->memory);
        b->memory = NULL;
    }
    return BW_OK;
}

typedef bw_status measure_fn(bench *b, int32_t n, double *rate, bw_err *err);

static bw_status repeat(bench *b, measure_fn *measure, int32_t n, samples *out, bw_err *err)
{
    double warm_up;
    if (n == 0)
        return BW_OK;
    BW_TRY(measure(b, n, &warm_up, err));
    for (out->n = 0; out->n < b->settings->n_repetitions; out->n++) {
        BW_TRY(measure(b, n, &out->rates[out->n], err));
        if (measure == measure_generate) /* what the bandwidth is compared with */
            BW_TRY(measure_bandwidth(b, err));
    }
    return measure == measure_generate ? BW_OK : measure_bandwidth(b, err);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const samples *s)
{
    samples sorted = *s;
    qsort(sorted.rates, (size_t)sorted.n, sizeof *sorted.rates, compare);
    if (sorted.n == 0)
        return 0;
    return (sorted.rates[(sorted.n - 1) / 2] + sorted.rates[sorted.n / 2]) / 2;
}

/* ---- the whole run ----------------------------------------------------------------------------------------------- */

static bw_status open_engine(bench *b, bw_err *err)
{
    const bench_settings *s = b->settings;
    int32_t longest = s->n_prompt > s->n_generate + 1 ? s->n_prompt : s->n_generate + 1;
    cli_bar bar = {0};
    bw_engine_options o;
    cli_engine_fill(&s->engine, &o);
    o.model = b->path;
    if (o.n_ctx == 0)
        o.n_ctx = longest;
    if (o.n_ctx < longest)
        return bw_fail(err, BW_E_RANGE, "--ctx %d is too small for %d tokens", (int)o.n_ctx, (int)longest);
    o.n_parallel = s->n_parallel > 0 ? s->n_parallel : 1;
    o.progress = cli_bar_progress;
    o.progress_user = &bar;
    bw_status status = bw_engine_new(&o, &b->engine, err);
    cli_bar_clear(&bar);
    BW_TRY(status);
    bw_engine_info(b->engine, &b->info);
    b->name = bw_strdup(b->info.name);
    b->architecture = bw_strdup(b->info.architecture);
    b->quantisation = bw_strdup(b->info.quantisation);
    b->device = bw_strdup(b->info.device);
    b->tokens = bw_alloc_array((size_t)(s->n_prompt > 0 ? s->n_prompt : 1), sizeof *b->tokens);
    if (!b->name || !b->architecture || !b->quantisation || !b->device || !b->tokens)
        return bw_fail_memory(err, (size_t)s->n_prompt * sizeof *b->tokens, "the bench's tokens");
    return BW_OK;
}

static bw_status measure_all(bench *b, bw_err *err)
{
    const bench_settings *s = b->settings;
    BW_TRY(open_engine(b, err));
    int64_t peak_before = cli_proc_bytes("/proc/self/status", "VmHWM");
    BW_TRY(measure_bandwidth(b, err));
    BW_TRY(repeat(b, measure_prompt, s->n_prompt, &b->prompt, err));
    BW_TRY(repeat(b, measure_generate, s->n_generate, &b->generate, err));
    if (s->n_parallel > 0)
        BW_TRY(repeat(b, measure_batch, s->n_generate, &b->batch, err));
    int64_t buffer = cli_bandwidth_host_bytes(b->memory); /* resident all the while, and none of the model's */
    b->rss_bytes = cli_proc_bytes("/proc/self/status", "VmRSS") - buffer;
    b->peak_bytes = cli_proc_bytes("/proc/self/status", "VmHWM") - buffer;
    b->peak_bytes = b->peak_bytes > peak_before ? b->peak_bytes : peak_before;
    cli_bandwidth_close(b->memory);
    b->memory = NULL;
    /* The engine is put away first: what comes now is not to share memory with it. */
    bw_engine_free(b->engine);
    b->engine = NULL;
    if (s->profile)
        BW_TRY(cli_bench_profile(s, b->path, &b->prompt_profile, &b->generate_profile, err));
    return BW_OK;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static void add_samples_json(bw_str *out, const char *name, const samples *s)
{
    if (s->n == 0)
        return;
    bw_str_add_format(out, ",\"%s_tokens_per_s\":%.3f,\"%s_samples\":[", name, median(s), name);
    for (int i = 0; i < s->n; i++)
        bw_str_add_format(out, "%s%.3f", i ? "," : "", s->rates[i]);
    bw_str_add_char(out, ']');
}

static void add_text_json(bw_str *out, const char *name, const char *text)
{
    bw_str_add_format(out, ",\"%s\":", name);
    bw_str_add_json(out, text ? text : "", text ? strlen(text) : 0);
}

/* Bytes of weights per second that generating reads. */
static double generate_bytes(const bench *b)
{
    return (double)b->info.token_bytes * median(&b->generate);
}

static double share(const bench *b)
{
    return generate_bytes(b) / median(&b->bandwidth);
}

static void add_json(const bench *b, bw_str *out)
{
    const bench_settings *s = b->settings;
    bw_str_add_format(out, "{\"version\":\"%s\"", bw_version());
    add_text_json(out, "model", b->name);
    add_text_json(out, "architecture", b->architecture);
    add_text_json(out, "quantisation", b->quantisation);
    add_text_json(out, "device", b->device);
    bw_str_add_format(out,
                      ",\"threads\":%d,\"n_params\":%lld,\"prompt_tokens\":%d,"
                      "\"generate_tokens\":%d,\"parallel\":%d,\"repetitions\":%d",
                      (int)b->info.n_threads, (long long)b->info.n_params, (int)s->n_prompt, (int)s->n_generate,
                      (int)s->n_parallel, (int)s->n_repetitions);
    add_samples_json(out, "prompt", &b->prompt);
    add_samples_json(out, "generate", &b->generate);
    add_samples_json(out, "batch", &b->batch);
    bw_str_add_format(out,
                      ",\"rss_bytes\":%lld,\"peak_rss_bytes\":%lld,\"weight_bytes\":%lld,\"token_bytes\":%lld,"
                      "\"kv_bytes\":%lld",
                      (long long)b->rss_bytes, (long long)b->peak_bytes, (long long)b->info.weight_bytes,
                      (long long)b->info.token_bytes, (long long)b->info.kv_bytes);
    if (b->bandwidth.n > 0) {
        bw_str_add_format(out, ",\"read_bytes_per_s\":%.0f,\"read_samples\":[", median(&b->bandwidth));
        for (int i = 0; i < b->bandwidth.n; i++)
            bw_str_add_format(out, "%s%.0f", i ? "," : "", b->bandwidth.rates[i]);
        bw_str_add_char(out, ']');
        if (b->generate.n > 0)
            bw_str_add_format(out, ",\"generate_bytes_per_s\":%.0f,\"bandwidth_share\":%.4f", generate_bytes(b),
                              share(b));
    }
    if (s->profile) {
        add_text_json(out, "prompt_profile", b->prompt_profile.data);
        add_text_json(out, "generate_profile", b->generate_profile.data);
    }
    bw_str_add(out, "}\n");
}

static void range(const samples *s, double *lowest, double *highest)
{
    *lowest = *highest = s->rates[0];
    for (int i = 1; i < s->n; i++) {
        *lowest = s->rates[i] < *lowest ? s->rates[i] : *lowest;
        *highest = s->rates[i] > *highest ? s->rates[i] : *highest;
    }
}

static void add_samples(bw_str *out, const char *what, int64_t n_tokens, const samples *s)
{
    double lowest, highest;
    if (s->n == 0)
        return;
    range(s, &lowest, &highest);
    bw_str_add_format(out, "%-12s %6lld tokens  %9.2f tokens/s", what, (long long)n_tokens, median(s));
    if (s->n > 1)
        bw_str_add_format(out, "   (%.2f to %.2f in %d runs)", lowest, highest, s->n);
    bw_str_add_char(out, '\n');
}

static void add_text(const bench *b, bw_str *out)
{
    const bench_settings *s = b->settings;
    char a[16], c[16], d[16], e[16], at_once[24] = "";
    bw_str_add_format(out, "%s: %s, %s parameters, %s, %s", b->name, b->architecture,
                      cli_format_count(a, (double)b->info.n_params), b->quantisation, b->device);
    if (strncmp(b->device, "cpu", 3) == 0)
        bw_str_add_format(out, " with %d thread%s", (int)b->info.n_threads, b->info.n_threads == 1 ? "" : "s");
    bw_str_add(out, "\n\n");
    add_samples(out, "prompt", s->n_prompt, &b->prompt);
    add_samples(out, "generation", s->n_generate, &b->generate);
    snprintf(at_once, sizeof at_once, "%d at once", (int)s->n_parallel);
    add_samples(out, at_once, (int64_t)s->n_parallel * s->n_generate, &b->batch);
    bw_str_add_format(out, "memory       %s resident, %s at most; weights %s, KV cache %s\n",
                      cli_format_bytes(a, (double)b->rss_bytes), cli_format_bytes(c, (double)b->peak_bytes),
                      cli_format_bytes(d, (double)b->info.weight_bytes), cli_format_bytes(e, (double)b->info.kv_bytes));
    if (b->bandwidth.n > 0) {
        double lowest, highest;
        range(&b->bandwidth, &lowest, &highest);
        bw_str_add_format(out, "bandwidth    %.1f GB/s can be read (%.1f to %.1f, measured %d times beside the runs)\n",
                          median(&b->bandwidth) / 1e9, lowest / 1e9, highest / 1e9, b->bandwidth.n);
        if (b->generate.n > 0)
            bw_str_add_format(out, "             a token reads %s of weights: %.1f GB/s, %.0f%%\n",
                              cli_format_bytes(a, (double)b->info.token_bytes), generate_bytes(b) / 1e9,
                              share(b) * 100);
    }
    if (b->prompt_profile.len > 0)
        bw_str_add_format(out, "\nOne step of a prompt, by operation:\n%s", b->prompt_profile.data);
    if (b->generate_profile.len > 0)
        bw_str_add_format(out, "\nGenerating, by operation:\n%s", b->generate_profile.data);
}

static int run(const cli_command *command, void *settings, char **words, int n_words)
{
    bench b = {.settings = settings};
    bw_err err = {0};
    bw_str out = {0};
    if (n_words == 0)
        return cli_usage(command, "bench needs a model");
    if (n_words > 1)
        return cli_usage(command, "\"%.60s\" is one word too many", words[1]);
    bw_rng_init(&b.rng, 1);
    bw_status status = bw_model_path_find(words[0], &b.path, &err);
    if (status == BW_OK)
        status = measure_all(&b, &err);
    int code = CLI_OK;
    if (status != BW_OK) {
        code = cli_fail_err(&err);
    } else {
        if (b.settings->json)
            add_json(&b, &out);
        else
            add_text(&b, &out);
        out.failed = out.failed || b.prompt_profile.failed || b.generate_profile.failed;
        code = cli_out_str(&out);
    }
    cli_bandwidth_close(b.memory);
    bw_engine_free(b.engine);
    bw_str_deinit(&b.prompt_profile);
    bw_str_deinit(&b.generate_profile);
    bw_free(b.tokens);
    bw_free(b.name);
    bw_free(b.architecture);
    bw_free(b.quantisation);
    bw_free(b.device);
    bw_free(b.path);
    return code;
}

const cli_command cli_cmd_bench = {
    .name = "bench",
    .usage = "MODEL [-p N] [-n N] [--parallel N] [options]",
    .summary = "measure how fast a model runs",
    .details = "Prompt: tokens per second of a prompt that is not in any cache. Generation: tokens per second of one\n"
               "sequence. With --parallel N: of N sequences at once, all tokens together. Generating reads every\n"
               "weight once per token (of an embedding that is not the output matrix as well, one row), so the\n"
               "share of the memory bandwidth that it uses tells how much faster it could be. That bandwidth is\n"
               "measured before, between and after the runs: its median counts. The model needs no tokenizer.\n",
    .groups = {&group, &cli_engine_group, &cli_common_group},
    .settings_bytes = sizeof(bench_settings),
    .init = init,
    .run = run,
};
