/* Sessions as their owners see them: checking and copying a request, events, cancelling, freeing. */
#include "engine_private.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "bw_clock.h"
#include "bw_mem.h"

void bw_request_init(bw_request *request)
{
    *request = (bw_request){.struct_size = sizeof *request,
                            .prompt_bytes = SIZE_MAX,
                            .add_special = true,
                            .max_tokens = 100,
                            .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
                            .n_logprobs = -1};
}

/* ---- making -------------------------------------------------------------------------------------------------- */

static bw_status read_request(const bw_request *request, bw_request *r, bw_err *err)
{
    bw_request_init(r);
    size_t n = request->struct_size;
    if (n < offsetof(bw_request, max_tokens) || n > sizeof *r)
        return bw_fail(err, BW_E_ARG, "the request's struct_size is %zu; bw_request_init sets it to %zu", n, sizeof *r);
    memcpy(r, request, n);
    if (r->max_tokens < 0)
        return bw_fail(err, BW_E_RANGE, "max_tokens is %d; it must be 0 or more", (int)r->max_tokens);
    if (r->n_logprobs < -1 || r->n_logprobs > BW_SAMPLE_TOP_MAX)
        return bw_fail(err, BW_E_RANGE, "n_logprobs is %d; it must be from -1 (none) to %d", (int)r->n_logprobs,
                       (int)BW_SAMPLE_TOP_MAX);
    if (r->min_tokens < 0)
        return bw_fail(err, BW_E_RANGE, "min_tokens is %d; it must be 0 or more", (int)r->min_tokens);
    if (r->n_stop_tokens > 0 && !r->stop_tokens)
        return bw_fail(err, BW_E_ARG, "stop_tokens is NULL but n_stop_tokens is %zu", r->n_stop_tokens);
    if (r->n_bad_words > 0 && !r->bad_words)
        return bw_fail(err, BW_E_ARG, "bad_words is NULL but n_bad_words is %zu", r->n_bad_words);
    if (!r->prompt && !r->tokens)
        return bw_fail(err, BW_E_ARG, "the request has neither a prompt nor tokens");
    if (r->prompt && r->prompt_bytes == SIZE_MAX)
        r->prompt_bytes = strlen(r->prompt);
    return BW_OK;
}

/* Texts of so many bytes are encoded whole, so that the refusal of one that is too long says how long it is. */
enum { COUNTED_BYTES = 64 << 10 };

static bw_status encode_prompt(const bw_engine *engine, const bw_request *r, int32_t **tokens, size_t *n, bw_err *err)
{
    bw_encode_options options = {.add_special = r->add_special,
                                 .parse_special = r->parse_special,
                                 .once = true,
                                 .literal = r->literal,
                                 .n_literal = r->n_literal};
    if (r->prompt_bytes > COUNTED_BYTES)
        options.max_tokens = (size_t)engine->info.n_ctx;
    bw_err why = {0};
    bw_status status = bw_tokenizer_encode(engine->tokenizer, r->prompt, r->prompt_bytes, &options, tokens, n, &why);
    if (status == BW_E_RANGE && options.max_tokens)
        return bw_fail(err, status, "the prompt has more than %d tokens (%zu bytes); the context holds %d",
                       (int)engine->info.n_ctx, r->prompt_bytes, (int)engine->info.n_ctx);
    if (status != BW_OK && err)
        *err = why;
    return status;
}

/* The prompt's tokens, freed by the caller. A text without tokens becomes the token that begins a text. */
static bw_status read_prompt(const bw_engine *engine, const bw_request *r, int32_t **tokens, size_t *n, bw_err *err)
{
    const bw_tokenizer *tokenizer = engine->tokenizer;
    *tokens = NULL;
    *n = 0;
    if (r->prompt) {
        BW_TRY(encode_prompt(engine, r, tokens, n, err));
        int32_t begin = bw_tokenizer_bos(tokenizer);
        if (begin < 0)
            begin = bw_tokenizer_eos(tokenizer);
        if (*n > 0 || !r->add_special || begin < 0)
            return BW_OK;
        bw_free(*tokens);
        *tokens = bw_alloc_array(1, sizeof **tokens);
        if (!*tokens)
            return bw_fail_memory(err, sizeof **tokens, "the prompt's tokens");
        **tokens = begin;
        *n = 1;
        return BW_OK;
    }
    *tokens = bw_alloc_array(r->n_tokens, sizeof **tokens);
    if (!*tokens)
        return bw_fail_memory(err, r->n_tokens * sizeof **tokens, "the prompt's tokens");
    memcpy(*tokens, r->tokens, r->n_tokens * sizeof **tokens);
    *n = r->n_tokens;
    return BW_OK;
}

/* The model's embedding has a row for every token it knows. A tokenizer may know more, and such a token would fail the
 * step of everybody beside it. */
static bw_status check_known(const bw_engine *engine, const bw_request *r, const int32_t *tokens, size_t n, bw_err *err)
{
    int32_t n_vocab = engine->info.n_vocab;
    for (size_t i = 0; i < n; i++) {
        if (tokens[i] >= 0 && tokens[i] < n_vocab)
            continue;
        if (!r->prompt)
            return bw_fail(err, BW_E_ARG, "token %zu of the prompt is %d; the vocabulary has %d", i, (int)tokens[i],
                           (int)n_vocab);
        const char *spelling = bw_tokenizer_spelling(engine->tokenizer, tokens[i]);
        return bw_fail(err, BW_E_ARG,
                       "the prompt's text \"%.60s\" is token %d, which the model does not have: its tokenizer knows %d "
                       "tokens, its embedding %d; leave that text out",
                       spelling ? spelling : "", (int)tokens[i], (int)bw_tokenizer_n_tokens(engine->tokenizer),
                       (int)n_vocab);
    }
    return BW_OK;
}

static bw_status check_fit(const bw_engine *engine, const bw_request *r, size_t n, bw_err *err)
{
    int32_t n_ctx = engine->info.n_ctx;
    if (n == 0)
        return bw_fail(err, BW_E_ARG, "the prompt has no tokens");
    if (n > (size_t)n_ctx)
        return bw_fail(err, BW_E_RANGE, "the prompt has %zu tokens; the context holds %d", n, (int)n_ctx);
    if (n == (size_t)n_ctx && r->max_tokens > 0)
        return bw_fail(err, BW_E_RANGE,
                       "the prompt has %zu tokens and fills the context of %d: there is no room to generate", n,
                       (int)n_ctx);
    return BW_OK;
}

/* ---- what may not be generated ---- */

/* An array of token ids that grows. */
typedef struct id_list {
    int32_t *ids;
    size_t n, capacity;
} id_list;

static bw_status add_ids(id_list *list, const int32_t *ids, size_t n, bw_err *err)
{
    if (list->n + n > list->capacity) {
        size_t capacity = 2 * list->capacity + n + 16;
        int32_t *more = bw_alloc_array(capacity, sizeof *more);
        if (!more)
            return bw_fail_memory(err, capacity * sizeof *more, "forbidden tokens");
        if (list->n > 0)
            memcpy(more, list->ids, list->n * sizeof *more);
        bw_free(list->ids);
        list->ids = more;
        list->capacity = capacity;
    }
    memcpy(list->ids + list->n, ids, n * sizeof *ids);
    list->n += n;
    return BW_OK;
}

static bw_status copy_stop_tokens(const bw_engine *engine, const bw_request *r, bw_session *s, bw_err *err)
{
    for (size_t i = 0; i < r->n_stop_tokens; i++)
        if (r->stop_tokens[i] < 0 || r->stop_tokens[i] >= engine->info.n_vocab)
            return bw_fail(err, BW_E_ARG, "stop token %zu is %d; the vocabulary has %d", i, (int)r->stop_tokens[i],
                           (int)engine->info.n_vocab);
    if (r->n_stop_tokens == 0)
        return BW_OK;
    s->stop_tokens = bw_alloc_array(r->n_stop_tokens, sizeof *s->stop_tokens);
    if (!s->stop_tokens)
        return bw_fail_memory(err, r->n_stop_tokens * sizeof *s->stop_tokens, "stop tokens");
    memcpy(s->stop_tokens, r->stop_tokens, r->n_stop_tokens * sizeof *s->stop_tokens);
    s->n_stop_tokens = r->n_stop_tokens;
    return BW_OK;
}

/* min_tokens: every token that could end the text. */
static bw_status hold_back_ends(const bw_engine *engine, const bw_request *r, bw_session *s, bw_err *err)
{
    id_list ends = {0};
    int32_t n = min32(bw_tokenizer_n_tokens(engine->tokenizer), engine->info.n_vocab);
    bw_status status = BW_OK;
    for (int32_t id = 0; r->min_tokens > 0 && !r->ignore_eos && id < n && status == BW_OK; id++)
        if (bw_tokenizer_is_eos(engine->tokenizer, id))
            status = add_ids(&ends, &id, 1, err);
    if (status == BW_OK && r->min_tokens > 0 && s->n_stop_tokens > 0)
        status = add_ids(&ends, s->stop_tokens, s->n_stop_tokens, err);
    if (status == BW_OK)
        status = bw_sampler_hold_back(&s->sampler, ends.ids, ends.n, r->min_tokens, err);
    bw_free(ends.ids);
    return status;
}

/* One spelling of a bad word: its length and its tokens. Tokens that the model does not have never come anyway. */
static bw_status add_bad_word(const bw_engine *engine, const char *word, size_t n_bytes, id_list *list, bw_err *err)
{
    int32_t *tokens = NULL;
    size_t n = 0;
    bool known = true;
    BW_TRY(bw_engine_tokenize(engine, word, n_bytes, false, false, &tokens, &n, err));
    for (size_t i = 0; i < n; i++)
        known = known && tokens[i] >= 0 && tokens[i] < engine->info.n_vocab;
    int32_t length = (int32_t)n;
    bw_status status = BW_OK;
    if (n > 0 && n < 4096 && known) {
        status = add_ids(list, &length, 1, err);
        if (status == BW_OK)
            status = add_ids(list, tokens, n, err);
    }
    bw_free(tokens);
    return status;
}

/* bad_words, as they stand at the beginning of a text or a line and as they stand after another word. */
static bw_status forbid_words(const bw_engine *engine, const bw_request *r, bw_session *s, bw_err *err)
{
    id_list list = {0};
    bw_str spaced = {0};
    bw_status status = BW_OK;
    for (size_t i = 0; i < r->n_bad_words && status == BW_OK; i++) {
        const char *word = r->bad_words[i] + strspn(r->bad_words[i], " ");
        bw_str_clear(&spaced);
        bw_str_add_char(&spaced, ' ');
        bw_str_add(&spaced, word);
        if (spaced.failed)
            status = bw_fail_memory(err, strlen(word), "a bad word");
        if (status == BW_OK)
            status = add_bad_word(engine, word, strlen(word), &list, err);
        if (status == BW_OK && *word)
            status = add_bad_word(engine, spaced.data, spaced.len, &list, err);
    }
    if (status == BW_OK)
        status = bw_sampler_forbid(&s->sampler, list.ids, list.n, err);
    bw_str_deinit(&spaced);
    bw_free(list.ids);
    return status;
}

/* Whether the prompt's first token was put before its text, so that an echo of the text leaves it out. */
static bool bos_was_added(const bw_tokenizer *tokenizer, const bw_request *r, const int32_t *tokens)
{
    int32_t bos = bw_tokenizer_bos(tokenizer);
    if (!r->prompt || !r->add_special || !bw_tokenizer_adds_bos(tokenizer) || tokens[0] != bos)
        return false;
    const char *spelling = bw_tokenizer_spelling(tokenizer, bos);
    size_t n = spelling ? strlen(spelling) : 0;
    return !(r->parse_special && n && r->prompt_bytes >= n && memcmp(r->prompt, spelling, n) == 0);
}

static bw_status fill(bw_engine *engine, const bw_request *r, const int32_t *tokens, size_t n, bw_session *s,
                      bw_err *err)
{
    int32_t n_ctx = engine->info.n_ctx, n_vocab = engine->info.n_vocab;
    s->n_prompt = s->n_tokens = (int32_t)n;
    s->limit = r->max_tokens < n_ctx - s->n_prompt ? s->n_prompt + r->max_tokens : n_ctx;
    s->n_logprobs = r->n_logprobs < n_vocab ? r->n_logprobs : n_vocab;
    s->client = r->client;
    s->submitted_ns = bw_clock_now_ns();
    s->ignore_eos = r->ignore_eos;
    s->echo = r->echo_logprobs;
    s->bos_added = bos_was_added(engine->tokenizer, r, tokens);
    s->notify = r->notify;
    s->notify_user = r->notify_user;
    bw_detokenizer_init(&s->echo_text, engine->tokenizer, true);
    size_t n_pages = (size_t)bw_pages_of(s->limit);
    s->tokens = bw_alloc_array((size_t)s->limit, sizeof *s->tokens);
    s->pages = bw_alloc_array(n_pages, sizeof *s->pages);
    if (!s->tokens || !s->pages)
        return bw_fail_memory(err, ((size_t)s->limit + n_pages) * sizeof *s->tokens, "a session's tokens");
    memcpy(s->tokens, tokens, n * sizeof *tokens);
    BW_TRY(bw_sampler_init(&s->sampler, &r->sampling, n_vocab, s->limit, err));
    for (int32_t i = 1; i <= s->n_prompt; i++)
        bw_sampler_accept(&s->sampler, s->tokens, i, s->n_prompt);
    BW_TRY(copy_stop_tokens(engine, r, s, err));
    BW_TRY(hold_back_ends(engine, r, s, err));
    BW_TRY(forbid_words(engine, r, s, err));
    return bw_stream_init(&s->stream, engine->tokenizer, r->stop, r->n_stop,
                          s->n_logprobs > 0 ? (size_t)s->n_logprobs : 0, err);
}

static bw_status init_locks(bw_session *s, bw_err *err)
{
    pthread_condattr_t cond;
    pthread_mutexattr_t recursive;
    int e = pthread_condattr_init(&cond);
    if (e == 0) {
        pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
        e = pthread_cond_init(&s->cond, &cond);
        pthread_condattr_destroy(&cond);
    }
    if (e != 0)
        return bw_fail_errno(err, e, "a session's condition variable");
    e = pthread_mutexattr_init(&recursive);
    if (e == 0) {
        pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
        e = pthread_mutex_init(&s->notify_lock, &recursive);
        pthread_mutexattr_destroy(&recursive);
    }
    if (e == 0) {
        e = pthread_mutex_init(&s->lock, NULL);
        if (e == 0)
            return BW_OK;
        pthread_mutex_destroy(&s->notify_lock);
    }
    pthread_cond_destroy(&s->cond);
    return bw_fail_errno(err, e, "a session's lock");
}

bw_status bw_session_make(bw_engine *engine, const bw_request *request, bw_session **session, bw_err *err)
{
    bw_request r;
    BW_TRY(read_request(request, &r, err));
    bw_session *s = bw_alloc_zero(1, sizeof *s);
    if (!s)
        return bw_fail_memory(err, sizeof *s, "a session");
    bw_status status = init_locks(s, err);
    if (status != BW_OK) {
        bw_free(s);
        return status;
    }
    atomic_init(&s->refs, 1);
    int32_t *tokens = NULL;
    size_t n = 0;
    status = read_prompt(engine, &r, &tokens, &n, err);
    if (status == BW_OK)
        status = check_fit(engine, &r, n, err);
    if (status == BW_OK)
        status = check_known(engine, &r, tokens, n, err);
    if (status == BW_OK)
        status = fill(engine, &r, tokens, n, s, err);
    bw_free(tokens);
    if (status != BW_OK) {
        bw_session_unref(s);
        return status;
    }
    *session = s;
    return BW_OK;
}

/* ---- ending -------------------------------------------------------------------------------------------------- */

void bw_session_unref(bw_session *s)
{
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1)
        return;
    bw_sampler_deinit(&s->sampler);
    bw_stream_deinit(&s->stream);
    bw_events_deinit(&s->filled);
    bw_events_deinit(&s->drained);
    bw_free(s->tokens);
    bw_free(s->pages);
    bw_free(s->stop_tokens);
    pthread_cond_destroy(&s->cond);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->notify_lock);
    bw_free(s);
}

void bw_session_signal(bw_session *s)
{
    pthread_mutex_lock(&s->lock);
    pthread_cond_signal(&s->cond);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&s->notify_lock);
    if (s->notify)
        s->notify(s->notify_user);
    pthread_mutex_unlock(&s->notify_lock);
}

void bw_session_end(bw_session *s, bw_finish finish, const bw_err *err, bool closed)
{
    int64_t now = bw_clock_now_ns();
    bw_event last = {.type = err ? BW_EVENT_ERROR : BW_EVENT_END, .text = "", .finish = finish};
    if (finish == BW_FINISH_STOP)
        last.stop_matched = s->stream.matched ? s->stream.matched->text : NULL; /* a token */
    last.n_prompt_tokens = s->n_prompt;
    last.n_cached_tokens = s->n_found;
    last.n_generated_tokens = s->n_tokens - s->n_prompt;
    if (s->admitted_ns) {
        int64_t first = s->first_token_ns ? s->first_token_ns : now;
        last.prompt_ms = (double)(first - s->admitted_ns) / 1e6;
        last.generate_ms = (double)(now - first) / 1e6;
    }
    pthread_mutex_lock(&s->lock);
    s->last = last;
    if (err)
        s->err = *err;
    s->closed = closed;
    s->ended = true;
    pthread_mutex_unlock(&s->lock);
    bw_session_signal(s);
}

/* ---- the owner's side ---------------------------------------------------------------------------------------- */

static struct timespec deadline_after(int timeout_ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += timeout_ms / 1000;
    t.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (t.tv_nsec >= 1000000000L) {
        t.tv_nsec -= 1000000000L;
        t.tv_sec++;
    }
    return t;
}

/* With the lock held: wait until there is something to say. */
static bool wait_for_news(bw_session *s, int timeout_ms)
{
    struct timespec deadline = {0};
    if (timeout_ms > 0)
        deadline = deadline_after(timeout_ms);
    while (s->filled.len == 0 && !s->ended) {
        if (timeout_ms == 0)
            return false;
        int e = timeout_ms < 0 ? pthread_cond_wait(&s->cond, &s->lock)
                               : pthread_cond_timedwait(&s->cond, &s->lock, &deadline);
        if (e == ETIMEDOUT && s->filled.len == 0 && !s->ended)
            return false;
    }
    return true;
}

static bw_status last_event(bw_session *s, bw_event *event, bw_err *err)
{
    s->delivered = true;
    if (s->closed)
        return bw_fail(err, BW_E_CLOSED, "the engine was shut down before the session ended");
    *event = s->last;
    if (event->type == BW_EVENT_ERROR && err)
        *err = s->err;
    return BW_OK;
}

bw_status bw_session_next(bw_session *s, int timeout_ms, bw_event *event, bw_err *err)
{
    if (!s || !event)
        return bw_fail(err, BW_E_ARG, "session or event is NULL");
    *event = (bw_event){.text = ""};
    if (s->delivered)
        return bw_fail(err, BW_E_CLOSED, "the session has ended: its last event was given out");
    if (bw_events_pop(&s->drained, event))
        return BW_OK;
    bw_events_clear(&s->drained);
    pthread_mutex_lock(&s->lock);
    bool news = wait_for_news(s, timeout_ms);
    if (news) {
        bw_events full = s->filled;
        s->filled = s->drained;
        s->drained = full;
    }
    pthread_mutex_unlock(&s->lock);
    if (!news)
        return bw_fail(err, BW_E_TIMEOUT, "no event within %d ms", timeout_ms);
    if (bw_events_pop(&s->drained, event))
        return BW_OK;
    return last_event(s, event, err); /* ended: nothing changes any more */
}

void bw_session_cancel(bw_session *session)
{
    if (session)
        atomic_store_explicit(&session->cancelled, true, memory_order_relaxed);
}

void bw_session_free(bw_session *session)
{
    if (!session)
        return;
    bw_session_cancel(session);
    pthread_mutex_lock(&session->notify_lock);
    session->notify = NULL;
    pthread_mutex_unlock(&session->notify_lock);
    bw_session_unref(session);
}
