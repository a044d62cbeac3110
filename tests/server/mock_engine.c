/* A deterministic engine behind the API of beeswax.h: words are tokens, and the answer depends on prompt and seed.
 *
 * Faithful to the header where a server can notice: own thread, bounded queue, n_parallel sequences in one step, notify
 * from the engine's thread, END after cancel, BW_E_CLOSED afterwards. The generated text repeats the prompt's plain
 * words, each with a space before it. Words of the prompt that begin with @ steer it:
 *   @eos=N    EOS after N tokens         @fail=N   BW_EVENT_ERROR after N tokens
 *   @slow=N   N ms per token             @nl       a token holds a newline
 *   @blank    a token without text       @seed     the first word is the seed
 *   @literal  the first word is how many stretches of the prompt are literal
 * A model file that begins with "bad" cannot be loaded. A prompt of more words than n_ctx is BW_E_RANGE. */
#include "mock_engine.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_err.h"
#include "bw_map.h"
#include "bw_mem.h"
#include "bw_str.h"

#pragma weak bw_device_close /* only the worker's program has devices */

enum { MAX_WORDS = 4096, QUEUE_EVENTS = 64 };

int mock_token_us = 200, mock_load_ms = 0, mock_read_ms = 0;
static atomic_int live_sessions;

int mock_live_sessions(void)
{
    return atomic_load(&live_sessions);
}

/* ---- words and their numbers ---- */

static pthread_mutex_t words_lock = PTHREAD_MUTEX_INITIALIZER;
static char *words[MAX_WORDS];
static int32_t n_words;

static int32_t word_number(const char *text, size_t n_bytes)
{
    pthread_mutex_lock(&words_lock);
    int32_t i = 0;
    while (i < n_words && !(strlen(words[i]) == n_bytes && memcmp(words[i], text, n_bytes) == 0))
        i++;
    if (i == n_words) {
        if (n_words < MAX_WORDS && (words[i] = strndup(text, n_bytes)) != NULL)
            n_words++;
        else
            i = 0;
    }
    pthread_mutex_unlock(&words_lock);
    return i;
}

static void add_word(bw_str *out, int32_t number)
{
    pthread_mutex_lock(&words_lock);
    bw_str_add(out, number >= 0 && number < n_words ? words[number] : "?");
    pthread_mutex_unlock(&words_lock);
}

/* ---- engine and sessions ---- */

typedef struct queued_event {
    bw_event event;
    bw_str text, top_text[2];
    bw_token_logprob token, top[2];
    bw_err err;
    struct queued_event *next;
} queued_event;

struct bw_session {
    bw_engine *engine;
    bw_session *next; /* the engine's list; the engine's lock guards all of this */
    int32_t *prompt;
    size_t n_prompt, n_plain;
    int32_t max_tokens, n_generated, eos_after, fail_after, n_logprobs;
    int slow_us;
    size_t n_literal;
    bool newline, blank, say_seed, say_literal, echo, running, cancelled, closed, ended, ignore_eos;
    uint64_t seed;
    char *stop;
    void (*notify)(void *user);
    void *notify_user;
    bool notifying;
    queued_event *first, *last, *current;
    bool delivered_end;
};

struct bw_engine {
    bw_device *opened;
    pthread_mutex_t lock;
    pthread_cond_t work, events;
    pthread_t thread;
    bool quit;
    int32_t n_parallel, n_queue, n_ctx, n_waiting, n_running;
    bw_session *sessions;
    bw_engine_stats stats;
};

void bw_engine_options_init(bw_engine_options *options)
{
    *options = (bw_engine_options){.struct_size = sizeof *options};
}

void bw_request_init(bw_request *request)
{
    *request = (bw_request){.struct_size = sizeof *request,
                            .prompt_bytes = SIZE_MAX,
                            .add_special = true,
                            .max_tokens = 100,
                            .n_logprobs = -1,
                            .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1}};
}

static void event_free(queued_event *e)
{
    if (!e)
        return;
    bw_str_deinit(&e->text);
    bw_str_deinit(&e->top_text[0]);
    bw_str_deinit(&e->top_text[1]);
    free(e);
}

/* Lock held. */
static queued_event *push(bw_session *s, bw_event_type type)
{
    queued_event *e = calloc(1, sizeof *e); /* not bw_mem.h's: the server's memory is under test, not the mock's */
    if (!e)
        abort();
    e->event = (bw_event){.type = type,
                          .n_prompt_tokens = (int32_t)s->n_prompt,
                          .n_generated_tokens = s->n_generated,
                          .prompt_ms = 1,
                          .generate_ms = s->n_generated};
    if (s->last)
        s->last->next = e;
    else
        s->first = e;
    s->last = e;
    pthread_cond_broadcast(&s->engine->events);
    return e;
}

/* Lock held. One token's text and, when asked for, its log probabilities. */
static void push_token(bw_session *s, bw_event_type type, int32_t number, const char *text)
{
    queued_event *e = push(s, type);
    bw_str_add(&e->text, text);
    e->event.text = e->text.data ? e->text.data : "";
    e->event.text_bytes = e->text.len;
    e->token = (bw_token_logprob){number, NAN, e->event.text, e->text.len};
    e->event.tokens = &e->token;
    e->event.n_tokens = 1;
    if (s->n_logprobs >= 0 && !(type == BW_EVENT_PROMPT && s->first == e)) {
        e->token.logprob = -0.25f;
        size_t n = s->n_logprobs < 2 ? (size_t)s->n_logprobs : 2;
        bw_str_add(&e->top_text[0], text);
        bw_str_add(&e->top_text[1], "\xE2\x9C"); /* half a character, as byte tokens have */
        for (size_t i = 0; i < n; i++)
            e->top[i] = (bw_token_logprob){number + (int32_t)i, -0.25f - (float)i,
                                           e->top_text[i].data ? e->top_text[i].data : "", e->top_text[i].len};
        e->event.top = n ? e->top : NULL;
        e->event.n_top = n;
    }
}

/* Lock held. */
static void end_session(bw_session *s, bw_finish finish)
{
    queued_event *e = push(s, finish == BW_FINISH_ERROR ? BW_EVENT_ERROR : BW_EVENT_END);
    e->event.finish = finish;
    e->event.stop_matched = finish == BW_FINISH_STOP ? s->stop : NULL;
    if (finish == BW_FINISH_ERROR)
        bw_fail(&e->err, BW_E_DEVICE, "the mock device failed\nafter %d tokens of /secret/store/model.gguf",
                s->n_generated);
    s->ended = true;
    if (s->running)
        s->engine->n_running--;
    else
        s->engine->n_waiting--;
    s->running = false;
    s->engine->stats.n_completed += finish != BW_FINISH_ERROR && finish != BW_FINISH_CANCELLED;
    s->engine->stats.n_cancelled += finish == BW_FINISH_CANCELLED;
    s->engine->stats.n_failed += finish == BW_FINISH_ERROR;
}

/* Lock held. One token of one session. */
static void step_session(bw_session *s)
{
    if (s->cancelled) {
        end_session(s, BW_FINISH_CANCELLED);
        return;
    }
    if (s->n_generated == 0 && s->echo) {
        for (size_t i = 0; i < s->n_prompt; i++) {
            bw_str word = {0};
            if (i)
                bw_str_add_char(&word, ' ');
            add_word(&word, s->prompt[i]);
            push_token(s, BW_EVENT_PROMPT, s->prompt[i], word.data ? word.data : "");
            bw_str_deinit(&word);
        }
    }
    if (s->fail_after >= 0 && s->n_generated >= s->fail_after) {
        end_session(s, BW_FINISH_ERROR);
        return;
    }
    if (s->eos_after >= 0 && s->n_generated >= s->eos_after && !s->ignore_eos) {
        end_session(s, BW_FINISH_EOS);
        return;
    }
    if (s->n_generated >= s->max_tokens || s->n_generated + (int32_t)s->n_prompt >= s->engine->n_ctx) {
        end_session(s, BW_FINISH_LENGTH);
        return;
    }
    bw_str text = {0};
    bool first = s->n_generated == 0;
    int32_t number = s->n_prompt ? s->prompt[(size_t)s->n_generated % s->n_prompt] : 0;
    if (s->say_literal && first) {
        bw_str_add_format(&text, " literal=%zu", s->n_literal);
    } else if (s->say_seed && first) {
        bw_str_add_format(&text, " %llu", (unsigned long long)s->seed);
    } else if (s->newline && s->n_generated == 1) {
        bw_str_add(&text, "\n\n\"");
    } else if (!(s->blank && s->n_generated == 1)) {
        bw_str_add_char(&text, ' ');
        add_word(&text, number);
    }
    if (s->stop && text.data && strstr(text.data, s->stop)) {
        end_session(s, BW_FINISH_STOP);
    } else {
        s->n_generated++;
        s->engine->stats.n_generated_tokens++;
        push_token(s, BW_EVENT_TEXT, number, text.data ? text.data : "");
    }
    bw_str_deinit(&text);
}

/* The lock is held on entry and exit, not during the callback. */
static void notify(bw_engine *engine, bw_session *s)
{
    if (!s->notify)
        return;
    s->notifying = true;
    pthread_mutex_unlock(&engine->lock);
    s->notify(s->notify_user);
    pthread_mutex_lock(&engine->lock);
    s->notifying = false;
    pthread_cond_broadcast(&engine->events);
}

static bool step(bw_engine *engine)
{
    int slow_us = 0;
    for (bw_session *s = engine->sessions; s; s = s->next) { /* oldest first */
        if (!s->running && !s->ended && engine->n_running < engine->n_parallel) {
            s->running = true;
            engine->n_running++;
            engine->n_waiting--;
            engine->stats.n_prompt_tokens += (int64_t)s->n_prompt;
        }
        if (!s->ended && (s->running || s->cancelled) && s->slow_us > slow_us)
            slow_us = s->slow_us;
    }
    if (engine->n_running == 0)
        return false;
    engine->stats.n_steps++;
    pthread_mutex_unlock(&engine->lock);
    for (int left = slow_us ? slow_us : mock_token_us; left > 0; left -= 1000)
        usleep((unsigned)(left < 1000 ? left : 1000));
    pthread_mutex_lock(&engine->lock);
    for (bw_session *s = engine->sessions, *next; s; s = next) {
        bool active = !s->ended && (s->running || s->cancelled);
        if (active) {
            step_session(s);
            notify(engine, s); /* keeps s: its owner waits for notifying */
        }
        next = s->next;
    }
    return true;
}

static void *engine_main(void *arg)
{
    bw_engine *engine = arg;
    pthread_mutex_lock(&engine->lock);
    while (!engine->quit)
        if (!step(engine))
            pthread_cond_wait(&engine->work, &engine->lock);
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

static int env_int(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

bw_status bw_engine_new(const bw_engine_options *options, bw_engine **out, bw_err *err)
{
    *out = NULL;
    mock_token_us = env_int("MOCK_TOKEN_US", mock_token_us);
    int load_ms = env_int("MOCK_LOAD_MS", mock_load_ms);
    for (int i = 0; i < 4; i++) {
        bw_progress progress = {"loading", i * 2, 8, (uint64_t)i << 20, 4 << 20};
        if (options->progress)
            options->progress(options->progress_user, &progress);
        bw_clock_sleep_ms(load_ms / 4);
    }
    if (options->model && !bw_dir_exists(options->model)) {
        char *data = NULL;
        size_t n_bytes = 0;
        BW_TRY(bw_file_read(options->model, 1 << 20, &data, &n_bytes, err));
        bool bad = bw_str_starts(data, "bad");
        bw_free(data);
        if (bad)
            return bw_fail(err, BW_E_FORMAT, "%s: not a model", options->model);
    }
    bw_engine *engine = bw_alloc_zero(1, sizeof *engine);
    if (!engine)
        return bw_fail_memory(err, sizeof *engine, "the mock engine");
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->work, NULL);
    pthread_cond_init(&engine->events, NULL);
    engine->n_parallel = options->n_parallel ? options->n_parallel : 4;
    engine->n_queue = options->n_queue ? options->n_queue : 512;
    engine->n_ctx = options->n_ctx > 0 ? options->n_ctx : 4096;
    engine->opened = options->opened;
    pthread_create(&engine->thread, NULL, engine_main, engine);
    *out = engine;
    return BW_OK;
}

void bw_engine_free(bw_engine *engine)
{
    if (!engine)
        return;
    pthread_mutex_lock(&engine->lock);
    engine->quit = true;
    pthread_cond_broadcast(&engine->work);
    pthread_mutex_unlock(&engine->lock);
    pthread_join(engine->thread, NULL);
    pthread_cond_destroy(&engine->work);
    pthread_cond_destroy(&engine->events);
    pthread_mutex_destroy(&engine->lock);
    if (engine->opened)
        bw_device_close(engine->opened);
    bw_free(engine);
}

void bw_engine_info(const bw_engine *engine, bw_model_info *info)
{
    *info = (bw_model_info){.architecture = "mock",
                            .name = "mock words",
                            .quantisation = "none",
                            .device = "cpu:0",
                            .n_vocab = MAX_WORDS,
                            .n_ctx = engine->n_ctx,
                            .n_ctx_train = engine->n_ctx,
                            .n_layers = 8,
                            .n_embd = 1,
                            .n_params = 1,
                            .n_threads = 1,
                            .n_parallel = engine->n_parallel,
                            .n_queue = engine->n_queue,
                            .has_chat_template = true};
}

void bw_engine_get_stats(const bw_engine *engine, bw_engine_stats *stats)
{
    bw_engine *e = (bw_engine *)(uintptr_t)engine;
    pthread_mutex_lock(&e->lock);
    *stats = e->stats;
    stats->n_running = e->n_running;
    stats->n_waiting = e->n_waiting;
    pthread_mutex_unlock(&e->lock);
}

void bw_engine_get_memory(const bw_engine *engine, bw_engine_memory *memory)
{
    (void)engine;
    *memory = (bw_engine_memory){
        .weights = 7000, .kv = 500, .scratch = 40, .vram = 7540, .vram_free = 20000, .vram_total = 30000};
}

static double bounds[BW_HISTOGRAM_BUCKETS];
static pthread_once_t bounds_once = PTHREAD_ONCE_INIT;

static void fill_bounds(void)
{
    for (int i = 0; i < BW_HISTOGRAM_BUCKETS; i++)
        bounds[i] = 0.5 * (i + 1);
}

const double *bw_histogram_bounds(void)
{
    pthread_once(&bounds_once, fill_bounds); /* two threads of HTTP may ask at once */
    return bounds;
}

void bw_engine_get_latencies(const bw_engine *engine, bw_histogram latencies[BW_LATENCY_COUNT])
{
    (void)engine;
    for (int i = 0; i < BW_LATENCY_COUNT; i++)
        latencies[i] = (bw_histogram){.counts = {1, 2, [BW_HISTOGRAM_BUCKETS] = 3}, .sum = 1.5 * i};
}

/* ---- text ---- */

bw_status bw_engine_tokenize(const bw_engine *engine, const char *text, size_t text_bytes, bool add_special,
                             bool parse_special, int32_t **tokens, size_t *n_tokens, bw_err *err)
{
    (void)engine, (void)add_special, (void)parse_special;
    if (text_bytes == SIZE_MAX)
        text_bytes = strlen(text);
    int32_t *out = bw_alloc_array(text_bytes + 1, sizeof *out);
    if (!out)
        return bw_fail_memory(err, text_bytes, "tokens");
    size_t n = 0;
    for (size_t i = 0; i < text_bytes;) {
        size_t end = i;
        while (end < text_bytes && text[end] != ' ' && text[end] != '\n')
            end++;
        if (end > i)
            out[n++] = word_number(text + i, end - i);
        i = end + 1;
    }
    *tokens = out;
    *n_tokens = n;
    return BW_OK;
}

bw_status bw_engine_detokenize(const bw_engine *engine, const int32_t *tokens, size_t n_tokens, bool special,
                               char **text, size_t *text_bytes, bw_err *err)
{
    (void)engine, (void)special;
    bw_str out = {0};
    for (size_t i = 0; i < n_tokens; i++) {
        if (i)
            bw_str_add_char(&out, ' ');
        add_word(&out, tokens[i]);
    }
    *text = bw_str_take(&out, text_bytes);
    return *text ? BW_OK : bw_fail_memory(err, n_tokens, "text");
}

/* "template" of a JSON text: the messages as they are, between marks. */
bw_status bw_engine_render_chat(const bw_engine *engine, const char *messages_json, const char *extra_json,
                                bool add_generation_prompt, bw_chat_text *chat, bw_err *err)
{
    (void)engine;
    *chat = (bw_chat_text){0};
    if (strstr(messages_json, "@badtemplate"))
        return bw_fail(err, BW_E_FORMAT, "/secret/store/tokenizer.json: the template refuses these messages");
    bw_str out = {0};
    size_t capacity = 0;
    for (const char *at = messages_json; (at = strstr(at, "\"content\":\"")) != NULL;) {
        at += strlen("\"content\":\"");
        size_t n = strcspn(at, "\"");
        if (!bw_reserve((void **)&chat->literal, &capacity, chat->n_literal + 1, sizeof *chat->literal)) {
            out.failed = true;
            break;
        }
        chat->literal[chat->n_literal++] = (bw_text_span){out.len, out.len + n};
        bw_str_add_bytes(&out, at, n);
        bw_str_add_char(&out, ' ');
    }
    if (extra_json)
        bw_str_add_format(&out, "extra%s ", strstr(extra_json, "tools") ? "-tools" : "");
    if (add_generation_prompt)
        bw_str_add(&out, "assistant:");
    chat->text = bw_str_take(&out, &chat->text_bytes);
    if (chat->text)
        return BW_OK;
    bw_chat_text_free(chat);
    return bw_fail_memory(err, 1, "text");
}

void bw_chat_text_free(bw_chat_text *chat)
{
    bw_free(chat->text);
    bw_free(chat->literal);
    *chat = (bw_chat_text){0};
}

/* ---- sessions ---- */

static void read_directives(bw_session *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_prompt; i++) {
        bw_str word = {0};
        add_word(&word, s->prompt[i]);
        const char *w = word.data ? word.data : "", *value = strchr(w, '=');
        int number = value ? atoi(value + 1) : 0;
        if (bw_str_starts(w, "@eos="))
            s->eos_after = number;
        else if (bw_str_starts(w, "@fail="))
            s->fail_after = number;
        else if (bw_str_starts(w, "@slow="))
            s->slow_us = number * 1000;
        else if (strcmp(w, "@nl") == 0)
            s->newline = true;
        else if (strcmp(w, "@blank") == 0)
            s->blank = true;
        else if (strcmp(w, "@seed") == 0)
            s->say_seed = true;
        else if (strcmp(w, "@literal") == 0)
            s->say_literal = true;
        n += w[0] != '@';
        bw_str_deinit(&word);
    }
    s->n_plain = n;
}

static bw_status fill_session(bw_engine *engine, const bw_request *r, bw_session *s, bw_err *err)
{
    *s = (bw_session){.engine = engine,
                      .max_tokens = r->max_tokens,
                      .eos_after = -1,
                      .fail_after = -1,
                      .n_logprobs = r->n_logprobs,
                      .echo = r->echo_logprobs,
                      .ignore_eos = r->ignore_eos,
                      .n_literal = r->n_literal,
                      .seed = r->sampling.has_seed ? r->sampling.seed : 4711,
                      .notify = r->notify,
                      .notify_user = r->notify_user};
    if (r->prompt) {
        if (mock_read_ms && r->prompt_bytes > 65536)
            bw_clock_sleep_ms(mock_read_ms);
        BW_TRY(bw_engine_tokenize(engine, r->prompt, r->prompt_bytes, r->add_special, r->parse_special, &s->prompt,
                                  &s->n_prompt, err));
    } else {
        s->prompt = bw_alloc_array(r->n_tokens + 1, sizeof *s->prompt);
        if (!s->prompt)
            return bw_fail_memory(err, r->n_tokens, "tokens");
        for (size_t i = 0; i < r->n_tokens; i++) {
            if (r->tokens[i] < 0 || r->tokens[i] >= MAX_WORDS)
                return bw_fail(err, BW_E_ARG, "token %d is not in the vocabulary of %d", r->tokens[i], MAX_WORDS);
            s->prompt[i] = r->tokens[i];
        }
        s->n_prompt = r->n_tokens;
    }
    if (s->n_prompt == 0)
        return bw_fail(err, BW_E_ARG, "the prompt has no tokens");
    if ((int64_t)s->n_prompt >= engine->n_ctx)
        return bw_fail(err, BW_E_RANGE, "the prompt has %zu tokens, the context holds %d", s->n_prompt, engine->n_ctx);
    if (r->n_stop) {
        s->stop = bw_strdup(r->stop[0]);
        if (!s->stop)
            return bw_fail_memory(err, 1, "a stop string");
    }
    read_directives(s);
    return BW_OK;
}

static void session_destroy(bw_session *s)
{
    bw_free(s->prompt);
    bw_free(s->stop);
    event_free(s->current);
    for (queued_event *e = s->first, *next; e; e = next) {
        next = e->next;
        event_free(e);
    }
    bw_free(s);
}

bw_status bw_engine_check_room(bw_engine *engine, uint64_t client, bw_err *err)
{
    (void)client;
    pthread_mutex_lock(&engine->lock);
    int32_t n = engine->n_waiting;
    bool full = n >= engine->n_queue;
    pthread_mutex_unlock(&engine->lock);
    return full ? bw_fail(err, BW_E_FULL, "%d requests wait already", n) : BW_OK;
}

bw_status bw_engine_submit(bw_engine *engine, const bw_request *request, bw_session **session, bw_err *err)
{
    *session = NULL;
    bw_session *s = bw_alloc(sizeof *s);
    if (!s)
        return bw_fail_memory(err, sizeof *s, "a session");
    bw_status status = fill_session(engine, request, s, err);
    pthread_mutex_lock(&engine->lock);
    if (status == BW_OK && engine->n_waiting >= engine->n_queue)
        status = bw_fail(err, BW_E_FULL, "%d requests wait already", engine->n_waiting);
    if (status == BW_OK) {
        bw_session **link = &engine->sessions;
        while (*link)
            link = &(*link)->next;
        *link = s;
        engine->n_waiting++;
        engine->stats.n_requests++;
        atomic_fetch_add(&live_sessions, 1);
        pthread_cond_signal(&engine->work);
        *session = s;
    } else {
        engine->stats.n_rejected++;
    }
    pthread_mutex_unlock(&engine->lock);
    if (status != BW_OK)
        session_destroy(s);
    return status;
}

bw_status bw_session_next(bw_session *s, int timeout_ms, bw_event *event, bw_err *err)
{
    bw_engine *engine = s->engine;
    bw_status status = BW_OK;
    pthread_mutex_lock(&engine->lock);
    if (s->delivered_end)
        status = bw_fail(err, BW_E_CLOSED, "this session has ended");
    while (status == BW_OK && !s->first) {
        if (timeout_ms < 0)
            pthread_cond_wait(&engine->events, &engine->lock);
        else
            status = BW_E_TIMEOUT; /* the tests only poll or wait for ever */
    }
    if (status == BW_OK) {
        event_free(s->current);
        queued_event *e = s->current = s->first;
        s->first = e->next;
        if (!s->first)
            s->last = NULL;
        *event = e->event;
        if (e->err.status != BW_OK && err)
            *err = e->err;
        s->delivered_end = event->type == BW_EVENT_END || event->type == BW_EVENT_ERROR;
    }
    pthread_mutex_unlock(&engine->lock);
    return status;
}

void bw_session_cancel(bw_session *s)
{
    pthread_mutex_lock(&s->engine->lock);
    s->cancelled = true;
    pthread_cond_signal(&s->engine->work);
    pthread_mutex_unlock(&s->engine->lock);
}

void bw_session_free(bw_session *s)
{
    if (!s)
        return;
    bw_engine *engine = s->engine;
    pthread_mutex_lock(&engine->lock);
    while (s->notifying)
        pthread_cond_wait(&engine->events, &engine->lock);
    if (!s->ended)
        end_session(s, BW_FINISH_CANCELLED);
    bw_session **link = &engine->sessions;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    pthread_mutex_unlock(&engine->lock);
    session_destroy(s);
    atomic_fetch_sub(&live_sessions, 1);
}
