/* Loading a model and starting its thread; the queue's entrance; what can be asked of a running engine. */
#include "engine_private.h"

#include <string.h>

#include "bw_clock.h"
#include "bw_gpu_library.h"
#include "bw_log.h"
#include "bw_map.h"
#include "bw_mem.h"

enum {
    MAX_PARALLEL = 64,
    MAX_TOKENS = 1 << 24, /* of a context or a batch */
    ECHO_BYTES = 8 << 20, /* of logits beyond one row per sequence, for echoed prompts */
    WARM_UP_MOST = 2048,  /* tokens */
    CTX_DEFAULT = 4096,
    CTX_PROMISED = 32768 + 2048 /* characters of a prompt, each at worst a token of its own, and tokens of an answer */
};

void bw_engine_options_init(bw_engine_options *options)
{
    *options = (bw_engine_options){.struct_size = sizeof *options};
}

static bw_status check_number(const char *name, int64_t value, int64_t least, int64_t most, bw_err *err)
{
    if (value >= least && value <= most)
        return BW_OK;
    return bw_fail(err, BW_E_RANGE, "%s is %lld; it must be from %lld to %lld", name, (long long)value,
                   (long long)least, (long long)most);
}

/* The options with their defaults filled in, except n_ctx and kv_tokens, which need the file. */
static bw_status read_options(const bw_engine_options *options, bw_engine_options *o, bw_err *err)
{
    bw_engine_options_init(o);
    size_t n = options->struct_size;
    if (n < offsetof(bw_engine_options, n_threads) || n > sizeof *o)
        return bw_fail(err, BW_E_ARG, "the options' struct_size is %zu; bw_engine_options_init sets it to %zu", n,
                       sizeof *o);
    memcpy(o, options, n);
    if (!o->model || !*o->model)
        return bw_fail(err, BW_E_ARG, "no model was named");
    o->n_parallel = o->n_parallel ? o->n_parallel : 4;
    o->n_queue = o->n_queue ? o->n_queue : 512;
    o->n_batch = o->n_batch ? o->n_batch : 512;
    BW_TRY(check_number("n_threads", o->n_threads, 0, 256, err));
    BW_TRY(check_number("n_ctx", o->n_ctx, BW_CTX_MODEL, MAX_TOKENS, err));
    BW_TRY(check_number("n_parallel", o->n_parallel, 1, MAX_PARALLEL, err));
    BW_TRY(check_number("n_queue", o->n_queue, 1, 1 << 20, err));
    BW_TRY(check_number("n_batch", o->n_batch, 1, 1 << 16, err));
    BW_TRY(check_number("n_gpu_layers", o->n_gpu_layers, 0, 1 << 20, err));
    BW_TRY(check_number("kv_tokens", o->kv_tokens, 0, (int64_t)MAX_TOKENS * MAX_PARALLEL, err));
    if (o->n_batch < o->n_parallel)
        return bw_fail(err, BW_E_RANGE, "n_batch is %d; it must be at least n_parallel, which is %d", (int)o->n_batch,
                       (int)o->n_parallel);
    return check_number("kv_dtype", o->kv_dtype, BW_KV_F16, BW_KV_Q8_0, err);
}

/* ---- sizes --------------------------------------------------------------------------------------------------- */

static void say_reduced(const char *what, int64_t from, int64_t to, const char *why)
{
    bw_log_warn("%s reduced from %lld to %lld: %s", what, (long long)from, (long long)to, why);
}

/* Half of the device's free memory in pages of the KV cache, on a GPU half of what the weights leave of it but a
 * quarter at least; INT64_MAX when unknown. */
static int64_t affordable_pages(bw_device *device, const bw_lm_info *file)
{
    int64_t free_bytes = 0, total_bytes = 0;
    bw_err err = {0};
    if (file->kv_page_bytes <= 0 || device->vtable->memory_info(device, &free_bytes, &total_bytes, &err) != BW_OK)
        return INT64_MAX;
    int64_t left = free_bytes;
    if (device->kind != BW_DEVICE_CPU)
        left = free_bytes - file->weight_bytes > free_bytes / 2 ? free_bytes - file->weight_bytes : free_bytes / 2;
    return left / 2 / file->kv_page_bytes;
}

/* BW_CTX_MODEL in tokens: what every one of n_parallel sequences can have at once, or what is promised to each, though
 * then not to all at once. */
static int64_t context_of_model(bw_engine *e, const bw_engine_options *o, const bw_lm_info *file)
{
    int64_t own = file->n_ctx_train > 0 ? file->n_ctx_train : CTX_DEFAULT;
    own = own < MAX_TOKENS ? own : MAX_TOKENS;
    int64_t pages = o->kv_tokens ? o->kv_tokens / BW_KV_PAGE : affordable_pages(e->device, file);
    int64_t share = pages / o->n_parallel, least = own < CTX_PROMISED ? own : CTX_PROMISED;
    int64_t n_ctx = share < own / BW_KV_PAGE ? share * BW_KV_PAGE : own;
    n_ctx = n_ctx > least ? n_ctx : least;
    bw_log_info("the context is %lld tokens for each request; the model's own is %d", (long long)n_ctx,
                (int)file->n_ctx_train);
    return n_ctx;
}

/* Tokens of a context and pages of the cache. What the caller asked for is kept; what is a default gives way to half
 * of the free memory, and says so. */
static void choose_sizes(bw_engine *e, const bw_engine_options *o, const bw_lm_info *file, int32_t *n_pages)
{
    int64_t n_ctx = o->n_ctx, tokens = o->kv_tokens;
    if (n_ctx == 0) {
        n_ctx = file->n_ctx_train > 0 && file->n_ctx_train < CTX_DEFAULT ? file->n_ctx_train : CTX_DEFAULT;
    } else if (n_ctx == BW_CTX_MODEL) {
        n_ctx = context_of_model(e, o, file);
    } else if (file->n_ctx_train > 0 && n_ctx > file->n_ctx_train) {
        bw_log_warn("n_ctx is %lld, but the model was trained with %d: long texts may lose sense", (long long)n_ctx,
                    (int)file->n_ctx_train);
    }
    if (tokens == 0) {
        int64_t pages = affordable_pages(e->device, file);
        tokens = n_ctx * o->n_parallel;
        if (bw_pages_of((int32_t)n_ctx) * (int64_t)o->n_parallel > pages) {
            int64_t least = o->n_ctx > 0 ? bw_pages_of((int32_t)n_ctx) : 1;
            int64_t room = (pages > least ? pages : least) * BW_KV_PAGE;
            if (room < tokens) {
                say_reduced(
                    "kv_tokens", tokens, room,
                    e->device->kind == BW_DEVICE_CPU
                        ? "the KV cache may take half of the free memory"
                        : "the KV cache may take half of what the weights leave free, at least a quarter of all");
                tokens = room;
            }
        }
    }
    int64_t pages = tokens / BW_KV_PAGE + (tokens % BW_KV_PAGE != 0);
    if (o->kv_tokens == 0 && tokens == n_ctx * o->n_parallel)
        pages = bw_pages_of((int32_t)n_ctx) * (int64_t)o->n_parallel;
    if (pages * BW_KV_PAGE < n_ctx) {
        say_reduced("n_ctx", n_ctx, pages * BW_KV_PAGE, "the KV cache holds no more");
        n_ctx = pages * BW_KV_PAGE;
    }
    e->info.n_ctx = (int32_t)n_ctx;
    *n_pages = (int32_t)pages;
}

/* ---- making -------------------------------------------------------------------------------------------------- */

static bw_status place_model(bw_engine *e, const bw_engine_options *o, bw_err *err)
{
    static const bw_dtype dtypes[] = {[BW_KV_F16] = BW_F16, [BW_KV_BF16] = BW_BF16, [BW_KV_Q8_0] = BW_Q8_0};
    bw_progress opening = {.stage = "open"};
    if (o->progress)
        o->progress(o->progress_user, &opening);
    bw_err why_cpu = {0};
    if (!e->device)
        BW_TRY(bw_lm_open_device(o->device, o->n_threads, &e->device, &why_cpu, err));
    bool is_cpu = e->device->kind == BW_DEVICE_CPU;
    const char *why = why_cpu.text[0] ? why_cpu.text : "it was named";
    if (o->n_gpu_layers > 0 && is_cpu)
        return bw_fail(err, BW_E_DEVICE, "a GPU was asked to compute layers (%d), but only the CPU can be used: %s",
                       o->n_gpu_layers, why);
    if (is_cpu && why_cpu.text[0])
        snprintf(e->notice, sizeof e->notice, "computing on the CPU: %s", why_cpu.text);
    if (o->require_gpu && is_cpu)
        return bw_fail(err, BW_E_DEVICE, "a GPU is required, but only the CPU can be used: %s", why);
    bw_lm_file *file = NULL;
    BW_TRY(bw_lm_file_open(o->model, &file, err));
    bw_lm_info info;
    bw_dtype dtype = dtypes[o->kv_dtype];
    bw_lm_file_info(file, dtype, &info);
    int32_t n_pages = 0;
    choose_sizes(e, o, &info, &n_pages);
    int64_t echo_rows = ECHO_BYTES / ((int64_t)info.n_vocab * 4 + 1) + 1;
    e->max_outputs = o->n_parallel + (int32_t)(echo_rows < o->n_batch ? echo_rows : o->n_batch);
    bw_lm_options lm = {.kv_dtype = dtype,
                        .n_pages = n_pages,
                        .max_tokens = o->n_batch,
                        .max_seqs = o->n_parallel,
                        .max_outputs = e->max_outputs,
                        .max_seq_pages = bw_pages_of(e->info.n_ctx),
                        .n_gpu_layers = o->n_gpu_layers,
                        .require_gpu = o->require_gpu,
                        .n_threads = o->n_threads,
                        .progress = o->progress,
                        .progress_user = o->progress_user};
    BW_TRY(bw_lm_new(file, e->device, &lm, &e->lm, err));
    e->tokenizer = bw_lm_tokenizer(e->lm);
    return bw_kv_init(&e->kv, n_pages, err);
}

static void fill_info(bw_engine *e, const bw_engine_options *o)
{
    bw_lm_info lm;
    bw_lm_get_info(e->lm, &lm);
    bw_model_info *info = &e->info;
    info->architecture = lm.architecture;
    info->name = lm.name;
    info->quantisation = lm.quantisation;
    info->device = lm.device;
    if (e->device->kind != BW_DEVICE_CPU && strstr(lm.device, "cpu"))
        snprintf(e->notice, sizeof e->notice, "the CPU computes some of the layers: %s", lm.device);
    info->notice = e->notice[0] ? e->notice : NULL;
    info->n_params = lm.n_params;
    info->weight_bytes = lm.weight_bytes;
    info->token_bytes = lm.token_bytes;
    info->kv_bytes = lm.kv_page_bytes * e->kv.n_pages;
    info->n_vocab = lm.n_vocab;
    info->n_layers = lm.n_layers;
    info->n_embd = lm.n_embd;
    info->n_ctx_train = lm.n_ctx_train;
    info->n_threads = e->device->team ? bw_team_size(e->device->team) : 1;
    info->n_parallel = o->n_parallel;
    info->n_queue = o->n_queue;
    info->has_chat_template = bw_tokenizer_chat_template(e->tokenizer, NULL) != NULL;
    e->stats.kv_pages_total = e->kv.n_pages;
    int32_t n_tokens = bw_tokenizer_n_tokens(e->tokenizer);
    if (n_tokens > info->n_vocab)
        bw_log_warn("the tokenizer knows %d tokens, but the model's embedding has %d rows: requests whose text becomes "
                    "one of the last %d are refused",
                    (int)n_tokens, (int)info->n_vocab, (int)(n_tokens - info->n_vocab));
}

/* A template that does not parse is no reason to refuse the model: rendering reports it. */
static bw_status parse_templates(bw_engine *e, bw_err *err)
{
    const char *text = bw_tokenizer_chat_template(e->tokenizer, NULL);
    if (!text) {
        text = bw_jinja_chatml;
        bw_log_info("the model has no chat template of its own: conversations are written as ChatML");
    }
    bw_status status = bw_jinja_parse(text, strlen(text), &e->chat, &e->chat_err);
    if (status == BW_E_MEMORY)
        return bw_fail(err, status, "%s", e->chat_err.text);
    if (status != BW_OK)
        bw_log_warn("the model's chat template cannot be used: %s", e->chat_err.text);
    else
        BW_TRY(bw_chat_learn(e->chat, text, &e->chat_habits, err));
    text = bw_tokenizer_chat_template(e->tokenizer, "tool_use");
    if (!text)
        return BW_OK;
    bw_err tools_err = {0};
    status = bw_jinja_parse(text, strlen(text), &e->chat_tools, &tools_err);
    if (status == BW_E_MEMORY)
        return bw_fail(err, status, "%s", tools_err.text);
    if (status != BW_OK)
        bw_log_warn("the model's chat template for tools cannot be used: %s", tools_err.text);
    return status == BW_OK ? bw_chat_learn(e->chat_tools, text, &e->chat_tools_habits, err) : BW_OK;
}

static bw_status allocate(bw_engine *e, const bw_engine_options *o, bw_err *err)
{
    size_t n_parallel = (size_t)o->n_parallel, n_batch = (size_t)o->n_batch, n_out = (size_t)e->max_outputs;
    e->running = bw_alloc_array(n_parallel, sizeof(bw_session *));
    e->batch_sessions = bw_alloc_array(n_parallel, sizeof(bw_session *));
    e->batch_seqs = bw_alloc_array(n_parallel, sizeof *e->batch_seqs);
    e->batch_tokens = bw_alloc_array(n_batch, sizeof *e->batch_tokens);
    e->batch_outputs = bw_alloc_array(n_out, sizeof *e->batch_outputs);
    e->batch_draws = bw_alloc_array(n_out, sizeof *e->batch_draws);
    if (!e->running || !e->batch_sessions || !e->batch_seqs || !e->batch_tokens || !e->batch_outputs || !e->batch_draws)
        return bw_fail_memory(err, n_parallel * (16 + sizeof *e->batch_seqs) + (n_batch + n_out) * 4, "the batch");
    return bw_sample_scratch_init(&e->scratch, e->info.n_vocab, err);
}

/* A sequence of n_tokens times the same token, which is forgotten again. */
static bw_status warm_up_with(bw_engine *e, int32_t n_tokens, bw_err *err)
{
    int32_t pages[WARM_UP_MOST / BW_KV_PAGE + 1], n_pages = 0, token = bw_tokenizer_bos(e->tokenizer);
    int32_t output = n_tokens - 1;
    for (int32_t i = 0; i < n_tokens; i++)
        e->batch_tokens[i] = token < 0 || token >= e->info.n_vocab ? 0 : token;
    while (n_pages < bw_pages_of(n_tokens))
        pages[n_pages++] = bw_kv_alloc(&e->kv);
    bw_lm_seq seq = {.n_tokens = n_tokens, .n_cached = n_tokens, .pages = pages};
    bw_lm_batch batch = {
        .n_tokens = n_tokens, .tokens = e->batch_tokens, .n_seqs = 1, .seqs = &seq, .n_outputs = 1, .outputs = &output};
    const float *logits = NULL;
    bw_status status = bw_lm_step(e->lm, &batch, &logits, err);
    while (n_pages > 0)
        bw_kv_unref(&e->kv, pages[--n_pages]);
    return status;
}

/* On a GPU the first prompt would also pay for loading a vendor's matrix library, for trials of it at each size
 * (powers of two) and for loading kernels: larger and larger steps, as long as the next one can be expected to end in
 * time. That it can, a step's time says: one of twice the tokens takes at most a little more than twice as long. */
static bw_status warm_up_prompts(bw_engine *e, bw_err *err)
{
    const int64_t most_ns = INT64_C(1500000000);
    int32_t most = min32(min32(e->n_batch, e->info.n_ctx), min32(e->kv.n_pages * BW_KV_PAGE, WARM_UP_MOST));
    const char *library = bw_gpu_library(e->device);
    int64_t begin = bw_clock_now_ns(), before = begin, last = 0;
    int32_t n = 16, n_done = 1;
    for (; n_done < most && before - begin + 3 * last < most_ns; n *= 2) {
        n_done = min32(n, most);
        BW_TRY(warm_up_with(e, n_done, err));
        last = bw_clock_now_ns() - before;
        before += last;
    }
    bw_log_debug("%s: warmed up with prompts of up to %d tokens in %.2f s, %s", e->device->name, (int)n_done,
                 (double)(before - begin) / 1e9, library ? library : "without a matrix library");
    e->device->vtable->rest(e->device);
    return BW_OK;
}

/* One token through everything, so that the first request does not pay for page faults. */
static bw_status warm_up(bw_engine *e, const bw_engine_options *o, bw_err *err)
{
    bw_progress progress = {.stage = "warmup", .layers_done = e->info.n_layers, .layers_total = e->info.n_layers};
    if (o->progress)
        o->progress(o->progress_user, &progress);
    if (o->no_warmup)
        return BW_OK;
    BW_TRY(warm_up_with(e, 1, err));
    return e->device->kind == BW_DEVICE_CPU ? BW_OK : warm_up_prompts(e, err);
}

static bw_status start_thread(bw_engine *e, bw_err *err)
{
    int error = pthread_create(&e->thread, NULL, bw_engine_thread, e);
    if (error != 0)
        return bw_fail_errno(err, error, "the engine's thread cannot be started");
    e->thread_runs = true;
    return BW_OK;
}

static bw_status make(bw_engine *e, const bw_engine_options *o, bw_err *err)
{
    BW_TRY(place_model(e, o, err));
    fill_info(e, o);
    e->n_batch = e->n_step = o->n_batch;
    e->n_queue = o->n_queue;
    e->on_lost = o->lost;
    e->on_lost_user = o->lost_user;
    BW_TRY(allocate(e, o, err));
    BW_TRY(parse_templates(e, err));
    BW_TRY(warm_up(e, o, err));
    bw_measure_memory(e, true);
    BW_TRY(bw_map_check(true, err)); /* what was read meanwhile may be zeros */
    BW_TRY(start_thread(e, err));
    bw_progress ready = {.stage = "ready",
                         .layers_done = e->info.n_layers,
                         .layers_total = e->info.n_layers,
                         .bytes_done = (uint64_t)e->info.weight_bytes,
                         .bytes_total = (uint64_t)e->info.weight_bytes};
    if (o->progress)
        o->progress(o->progress_user, &ready);
    return BW_OK;
}

bw_status bw_engine_new(const bw_engine_options *options, bw_engine **engine, bw_err *err)
{
    if (!options || !engine)
        return bw_fail(err, BW_E_ARG, "options or engine is NULL");
    *engine = NULL;
    bw_engine_options o;
    bw_status checked = read_options(options, &o, err);
    bw_engine *e = checked == BW_OK ? bw_alloc_zero(1, sizeof *e) : NULL;
    if (!e) {
        bw_device_close(o.opened);
        return checked == BW_OK ? bw_fail_memory(err, sizeof *e, "an engine") : checked;
    }
    e->device = o.opened;
    int error = pthread_mutex_init(&e->lock, NULL);
    if (error == 0 && (error = pthread_cond_init(&e->wake, NULL)) != 0)
        pthread_mutex_destroy(&e->lock);
    if (error != 0) {
        bw_device_close(e->device);
        bw_free(e);
        return bw_fail_errno(err, error, "the engine's lock");
    }
    bw_status status = make(e, &o, err);
    if (status != BW_OK) {
        bw_engine_free(e);
        return status;
    }
    *engine = e;
    return BW_OK;
}

void bw_engine_free(bw_engine *e)
{
    if (!e)
        return;
    if (e->thread_runs) {
        pthread_mutex_lock(&e->lock);
        e->closing = true;
        pthread_cond_signal(&e->wake);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->thread, NULL);
    }
    bw_jinja_free(e->chat);
    bw_jinja_free(e->chat_tools);
    bw_kv_deinit(&e->kv);
    bw_sample_scratch_deinit(&e->scratch);
    bw_str_deinit(&e->echo_piece);
    bw_free(e->running);
    bw_free(e->batch_sessions);
    bw_free(e->batch_seqs);
    bw_free(e->batch_tokens);
    bw_free(e->batch_outputs);
    bw_free(e->batch_draws);
    bw_lm_free(e->lm);
    bw_device_close(e->device);
    pthread_cond_destroy(&e->wake);
    pthread_mutex_destroy(&e->lock);
    bw_free(e);
}

/* ---- use ----------------------------------------------------------------------------------------------------- */

void bw_engine_info(const bw_engine *engine, bw_model_info *info)
{
    *info = engine->info;
}

void bw_engine_get_stats(const bw_engine *engine, bw_engine_stats *stats)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&engine->lock; /* the lock is no part of its value */
    pthread_mutex_lock(lock);
    *stats = engine->stats;
    pthread_mutex_unlock(lock);
}

bw_status bw_engine_check_room(bw_engine *e, uint64_t client, bw_err *err)
{
    if (!e)
        return bw_fail(err, BW_E_ARG, "engine is NULL");
    pthread_mutex_lock(&e->lock);
    bw_status status = bw_queue_check(e, client, 0, err);
    pthread_mutex_unlock(&e->lock);
    return status;
}

bw_status bw_engine_submit(bw_engine *e, const bw_request *request, bw_session **session, bw_err *err)
{
    if (!e || !request || !session)
        return bw_fail(err, BW_E_ARG, "engine, request or session is NULL");
    *session = NULL;
    uint64_t client = request->struct_size >= sizeof *request ? request->client : 0;
    bw_session *s = NULL;
    bw_status status = bw_engine_check_room(e, client, err); /* a full queue is said before the prompt is tokenised */
    if (status == BW_OK)
        status = bw_session_make(e, request, &s, err);
    pthread_mutex_lock(&e->lock);
    if (status == BW_OK)
        status = bw_queue_check(e, s->client, s->n_prompt, err);
    if (status != BW_OK) {
        e->stats.n_rejected++;
    } else {
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
        s->number = ++e->next_number;
        bw_queue_enter(e, s);
        e->stats.n_requests++;
        pthread_cond_signal(&e->wake);
    }
    pthread_mutex_unlock(&e->lock);
    if (status != BW_OK) {
        if (s)
            bw_session_unref(s);
        return status;
    }
    *session = s;
    return BW_OK;
}
