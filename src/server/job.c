/* Jobs: from a request to sessions of the engine and back to bytes of a stream. Owns their life: held while the model
 * loads, submitted, read by the hub, ended, forgotten. See internal.h. */
#include <stdio.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "bw_rng.h"
#include "internal.h"

enum { EVENTS_PER_TURN = 256 };

/* ---- birth and death ---- */

static void job_destroy(bw_pipe *stream)
{
    bw_job *job = (bw_job *)stream;
    for (size_t i = 0; job->choices && i < job->n_choices; i++) {
        bw_choice *choice = &job->choices[i];
        bw_str_deinit(&choice->text);
        for (int j = 0; j < 4; j++)
            bw_str_deinit(&choice->logprobs[j]);
        bw_free(choice->stop_matched);
    }
    bw_free(job->choices);
    bw_str_deinit(&job->body);
    bw_ask_deinit(&job->ask);
    bw_reply_deinit(&job->reply);
    bw_free(job);
}

static void make_id(char id[64], const char *prefix)
{
    unsigned char b[16];
    bw_rng_entropy(b, sizeof b);
    b[6] = (unsigned char)((b[6] & 0x0F) | 0x40); /* RFC 9562 version 4 */
    b[8] = (unsigned char)((b[8] & 0x3F) | 0x80);
    snprintf(id, 64, "%s%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", prefix, b[0], b[1], b[2],
             b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static void job_work(bw_pipe *stream);

static void job_gone(bw_pipe *stream)
{
    bw_job *job = (bw_job *)stream;
    if (bw_job_cancel(job)) {
        pthread_mutex_lock(&job->server->lock);
        job->server->n_gone++;
        pthread_mutex_unlock(&job->server->lock);
    }
}

bw_job *bw_job_new(bw_server *server, bw_ask_api api, bw_str *body, uint64_t client)
{
    static const char *const prefixes[] = {
        [BW_ASK_RBEE] = "job-", [BW_ASK_COMPLETION] = "cmpl-", [BW_ASK_CHAT] = "chatcmpl-"};
    bw_job *job = bw_alloc_zero(1, sizeof *job);
    if (!job || !bw_pipe_init(&job->stream, server->hub)) {
        bw_free(job);
        bw_str_deinit(body);
        return NULL;
    }
    job->stream.on_work = job_work;
    job->stream.on_gone = job_gone;
    job->stream.on_destroy = job_destroy;
    job->server = server;
    job->ask.api = api;
    job->n_asked_bytes = body->len;
    job->body = *body;
    *body = (bw_str){0};
    job->client = client;
    job->remember = api == BW_ASK_RBEE;
    make_id(job->id, prefixes[api]);
    job->created_unix = bw_clock_unix_s();
    job->created_ns = bw_clock_now_ns();
    return job;
}

/* ---- submission ---- */

static void job_notify(void *user)
{
    bw_hub_mark(user);
}

/* The rendered conversation, and where no control token is read in it. */
static bw_status render_chat(bw_job *job, bw_engine *engine, bw_ask_prompt *prompt, bw_err *err)
{
    bw_ask *ask = &job->ask;
    bw_chat_text chat;
    bw_status status =
        bw_engine_render_chat(engine, ask->messages_json, ask->extra_json, ask->add_generation_prompt, &chat, err);
    if (status == BW_E_UNSUPPORTED) /* what it says of a template without a place for tools */
        job->bad_param = "tools";
    BW_TRY(status);
    size_t n = job->server->options.control_tokens_in_messages ? 0 : chat.n_literal;
    char *copy = bw_arena_strndup(&ask->arena, chat.text, chat.text_bytes);
    bw_text_span *literal = bw_arena_alloc_zero(&ask->arena, n + 1, sizeof *literal);
    if (copy && literal) {
        if (n)
            memcpy(literal, chat.literal, n * sizeof *literal);
        *prompt = (bw_ask_prompt){.text = copy, .n_bytes = chat.text_bytes, .literal = literal, .n_literal = n};
    } else {
        status = bw_fail_memory(err, chat.text_bytes, "a prompt");
    }
    bw_chat_text_free(&chat);
    return status;
}

/* Chat templates, and the text of token prompts that are to be echoed. */
static bw_status prepare_prompts(bw_job *job, bw_engine *engine, bw_err *err)
{
    bw_ask *ask = &job->ask;
    char *text = NULL;
    size_t n_bytes = 0;
    if (ask->api == BW_ASK_CHAT && !ask->prompts[0].text)
        BW_TRY(render_chat(job, engine, &ask->prompts[0], err));
    for (size_t i = 0; ask->echo && i < job->n_choices; i++) {
        bw_ask_prompt *prompt = &ask->prompts[job->choices[i].prompt];
        bw_str *out = &job->choices[i].text;
        if (out->len)
            continue;
        if (prompt->text) {
            bw_str_add_bytes(out, prompt->text, prompt->n_bytes);
        } else {
            BW_TRY(bw_engine_detokenize(engine, prompt->tokens, prompt->n_tokens, true, &text, &n_bytes, err));
            bw_str_add_bytes(out, text, n_bytes);
            bw_free(text);
        }
        if (out->failed)
            return bw_fail_memory(err, n_bytes, "an echoed prompt");
    }
    return BW_OK;
}

/* What can only be checked once there is a model. */
static bw_status check_ask(bw_job *job, const bw_model_info *info, bw_err *err)
{
    const bw_ask *ask = &job->ask;
    int64_t places = (int64_t)info->n_parallel + info->n_queue;
    if ((int64_t)job->n_choices > places) { /* waiting would not help */
        job->bad_param = "n";
        return bw_fail(err, BW_E_ARG, "the request asks for %zu answers; this server has room for %lld at once",
                       job->n_choices, (long long)places);
    }
    for (size_t i = 0; i < ask->sampling.n_logit_bias; i++) {
        if (ask->sampling.logit_bias[i].token < info->n_vocab)
            continue;
        job->bad_param = "logit_bias";
        return bw_fail(err, BW_E_ARG, "logit_bias names token %d; the vocabulary has %d",
                       (int)ask->sampling.logit_bias[i].token, (int)info->n_vocab);
    }
    for (size_t i = 0; i < ask->n_stop_tokens; i++) {
        if (ask->stop_tokens[i] < info->n_vocab)
            continue;
        job->bad_param = "stop_token_ids";
        return bw_fail(err, BW_E_ARG, "stop_token_ids names token %d; the vocabulary has %d", (int)ask->stop_tokens[i],
                       (int)info->n_vocab);
    }
    for (size_t i = 0; i < ask->n_prompts; i++)
        for (size_t j = 0; j < ask->prompts[i].n_tokens; j++)
            if (ask->prompts[i].tokens[j] >= info->n_vocab)
                return bw_fail(err, BW_E_ARG, "token %zu of the prompt is %d; the vocabulary has %d", j,
                               (int)ask->prompts[i].tokens[j], (int)info->n_vocab);
    return BW_OK;
}

static bw_status submit_choice(bw_job *job, bw_engine *engine, size_t index, const bw_model_info *info, bw_err *err)
{
    bw_ask *ask = &job->ask;
    bw_choice *choice = &job->choices[index];
    const bw_ask_prompt *prompt = &ask->prompts[choice->prompt];
    bw_request request;
    bw_request_init(&request);
    request.prompt = prompt->tokens ? NULL : prompt->text;
    request.prompt_bytes = prompt->n_bytes;
    request.tokens = prompt->tokens;
    request.n_tokens = prompt->n_tokens;
    request.add_special = true;
    request.parse_special = true;
    request.literal = prompt->literal;
    request.n_literal = prompt->n_literal;
    request.max_tokens = ask->max_tokens < 0 ? info->n_ctx : ask->max_tokens;
    request.ignore_eos = ask->ignore_eos;
    request.sampling = ask->sampling;
    if (ask->sampling.has_seed) /* the choices of one request differ, and do so again next time */
        request.sampling.seed = ask->sampling.seed + index;
    request.stop = ask->stop;
    request.n_stop = ask->n_stop;
    request.min_tokens = ask->min_tokens;
    request.stop_tokens = ask->stop_tokens;
    request.n_stop_tokens = ask->n_stop_tokens;
    request.bad_words = ask->bad_words;
    request.n_bad_words = ask->n_bad_words;
    request.n_logprobs = ask->n_logprobs;
    request.echo_logprobs = ask->echo && ask->n_logprobs >= 0;
    request.notify = job_notify;
    request.notify_user = &job->stream;
    request.client = job->client;
    bw_session *session = NULL;
    BW_TRY(bw_engine_submit(engine, &request, &session, err));
    pthread_mutex_lock(&job->stream.lock);
    choice->session = session;
    if (job->cancelled)
        bw_session_cancel(session);
    pthread_mutex_unlock(&job->stream.lock);
    return BW_OK;
}

bw_status bw_job_submit(bw_job *job, bw_engine *engine, bw_err *err)
{
    bw_model_info info = {0};
    bw_engine_info(engine, &info);
    bw_status status = check_ask(job, &info, err);
    if (status == BW_OK) /* before a template is rendered */
        status = bw_engine_check_room(engine, job->client, err);
    if (status == BW_OK)
        status = prepare_prompts(job, engine, err);
    for (size_t i = 0; status == BW_OK && i < job->n_choices; i++)
        status = submit_choice(job, engine, i, &info, err);
    if (status != BW_OK) { /* the hub reads no session of a job that is not admitted: they are ours to end */
        for (size_t i = 0; i < job->n_choices; i++) {
            pthread_mutex_lock(&job->stream.lock);
            bw_session *session = job->choices[i].session;
            job->choices[i].session = NULL;
            pthread_mutex_unlock(&job->stream.lock);
            bw_session_free(session);
        }
        return status;
    }
    pthread_mutex_lock(&job->stream.lock);
    job->engine = engine;
    job->admitted = true;
    bw_ask_release(&job->ask); /* the engine has copies */
    bw_format_begin(job);
    bw_pipe_wake(&job->stream);
    pthread_mutex_unlock(&job->stream.lock);
    bw_hub_mark(&job->stream);
    return BW_OK;
}

/* ---- lists, under the server's lock ---- */

static void list_active(bw_job *job)
{
    bw_server *server = job->server;
    job->active_next = server->active;
    if (server->active)
        server->active->active_link = &job->active_next;
    job->active_link = &server->active;
    server->active = job;
    if (server->n_active++ == 0)
        bw_heartbeat_poke(server->heartbeat); /* busy */
    bw_pipe_ref(&job->stream);
}

/* true: it was listed, and the list's reference is now the caller's. */
static bool unlist_active(bw_job *job)
{
    if (!job->active_link)
        return false;
    *job->active_link = job->active_next;
    if (job->active_next)
        job->active_next->active_link = job->active_link;
    job->active_link = NULL;
    if (--job->server->n_active == 0)
        bw_heartbeat_poke(job->server->heartbeat); /* idle */
    return true;
}

bool bw_job_unlist_held(bw_job *job)
{
    bw_server *server = job->server;
    for (bw_job **link = &server->held; *link; link = &(*link)->held_next) {
        if (*link == job) {
            *link = job->held_next;
            if (!*link)
                server->held_last = link;
            server->n_held--;
            return true;
        }
    }
    return false;
}

/* ---- start ---- */

/* The server's lock is held. */
static bool holds_for(const bw_server *server, uint64_t client)
{
    const bw_job *job = server->held;
    while (job && job->client != client)
        job = job->held_next;
    return job != NULL;
}

static void list_held(bw_job *job)
{
    bw_server *server = job->server;
    job->held_next = NULL;
    *server->held_last = job;
    server->held_last = &job->held_next;
    server->n_held++;
    bw_pipe_ref(&job->stream);
}

/* The engine's queue is full: the job waits here, in order, until there is a place. Only rbee's do, whose queue has no
 * other bound than the room for jobs. */
static void hold(bw_job *job)
{
    pthread_mutex_lock(&job->server->lock);
    list_held(job);
    pthread_mutex_unlock(&job->server->lock);
    bw_hub_mark(&job->stream);     /* it may have been cancelled meanwhile */
    bw_hub_wake(job->server->hub); /* and a place may have come free */
}

/* Register, and say whether to submit now (engine), later (NULL engine) or not at all (false). */
static bool admit(bw_job *job, bw_engine **engine, bw_reply *reply)
{
    bw_server *server = job->server;
    bw_job *evicted = NULL;
    char why[300] = "";
    bool good = false;
    pthread_mutex_lock(&server->lock);
    *engine = server->engine;
    if (server->stopping) {
        bw_err err = {BW_E_CLOSED, "the server is shutting down"};
        bw_job_reply_failure(job, &err, reply);
    } else if (server->load_error[0]) {
        bw_err err = {.status = BW_E_CLOSED};
        snprintf(err.text, sizeof err.text, "%s", server->load_error);
        bw_job_reply_failure(job, &err, reply);
    } else if (!*engine && !job->remember && server->n_held >= server->options.max_held) {
        bw_job_reply_busy(job, reply, "too many requests wait for the model to load");
    } else if (job->remember && !bw_job_make_room(job, &evicted, why, sizeof why)) {
        bw_job_reply_busy(job, reply, why);
    } else {
        good = true;
        list_active(job);
        if (job->remember) {
            job->known_next = server->known;
            server->known = job;
            server->n_known++;
            bw_pipe_ref(&job->stream);
        }
        if (job->remember && holds_for(server, job->client))
            *engine = NULL; /* behind the client's own */
        if (!*engine)
            list_held(job);
    }
    if (!good)
        server->n_refused++;
    pthread_mutex_unlock(&server->lock);
    while (evicted) { /* no list has them any more */
        bw_job *next = evicted->known_next;
        bw_pipe_unref(&evicted->stream);
        evicted = next;
    }
    return good;
}

bool bw_job_start(bw_job *job, bw_reply *reply)
{
    bw_engine *engine = NULL;
    bw_err err = {0};
    if (!admit(job, &engine, reply))
        return false;
    bool good = !engine || bw_job_submit(job, engine, &err) == BW_OK;
    if (!engine)
        bw_hub_mark(&job->stream); /* it may have been cancelled before it was held */
    if (!good && job->remember && err.status == BW_E_FULL) {
        hold(job);
        good = true;
    }
    pthread_mutex_lock(&job->server->lock);
    job->server->n_jobs += good;
    pthread_mutex_unlock(&job->server->lock);
    if (good)
        return true;
    bw_job_reply_failure(job, &err, reply);
    pthread_mutex_lock(&job->server->lock);
    bool was_active = unlist_active(job), was_known = bw_job_unlist_known(job);
    job->server->n_refused++;
    pthread_mutex_unlock(&job->server->lock);
    if (was_active)
        bw_pipe_unref(&job->stream);
    if (was_known)
        bw_pipe_unref(&job->stream);
    return false;
}

/* ---- the end ---- */

void bw_job_end(bw_job *job)
{
    pthread_mutex_lock(&job->stream.lock);
    if (job->err.status != BW_OK)
        job->state = BW_JOB_FAILED;
    else if (job->cancelled)
        job->state = BW_JOB_CANCELLED;
    else
        job->state = BW_JOB_DONE;
    job->ended_ns = bw_clock_now_ns();
    bw_format_end(job);
    job->stream.finished = true;
    bw_pipe_wake(&job->stream);
    pthread_mutex_unlock(&job->stream.lock);
    pthread_mutex_lock(&job->server->lock);
    bool was_active = unlist_active(job), others_wait = job->server->n_held > 0;
    pthread_mutex_unlock(&job->server->lock);
    if (others_wait)
        bw_hub_wake(job->server->hub); /* there is a place now */
    if (was_active)
        bw_pipe_unref(&job->stream);
}

bool bw_job_cancel(bw_job *job)
{
    pthread_mutex_lock(&job->stream.lock);
    bool first = !job->cancelled && job->ended_ns == 0;
    if (first) {
        job->cancelled = true;
        for (size_t i = 0; i < job->n_choices; i++)
            if (job->choices[i].session)
                bw_session_cancel(job->choices[i].session);
    }
    pthread_mutex_unlock(&job->stream.lock);
    if (first)
        bw_hub_mark(&job->stream); /* one that is held has no session to speak for it */
    return first;
}

/* The stream's lock is held. A reader that does not read, or no memory for what it should read. */
static void check_buffer(bw_job *job)
{
    bw_str *out = &job->stream.out;
    bool full = out->len - job->stream.pos > job->server->options.max_buffer;
    if ((!full && !out->failed) || job->dropped)
        return;
    job->dropped = true;
    bw_fail(&job->err, full ? BW_E_FULL : BW_E_MEMORY, "%s",
            full ? "the client does not read its stream" : "no memory");
    job->cancelled = true;
    for (size_t i = 0; i < job->n_choices; i++)
        if (job->choices[i].session)
            bw_session_cancel(job->choices[i].session);
}

static void take_event(bw_job *job, bw_choice *choice, const bw_event *event, const bw_err *err)
{
    pthread_mutex_lock(&job->stream.lock);
    if (event->type == BW_EVENT_END || event->type == BW_EVENT_ERROR) {
        choice->done = true;
        choice->finish = event->finish;
        choice->n_prompt = event->n_prompt_tokens;
        choice->n_cached = event->n_cached_tokens;
        choice->n_generated = event->n_generated_tokens;
        choice->generate_ms = event->generate_ms;
        if (event->stop_matched)
            choice->stop_matched = bw_strdup(event->stop_matched);
        job->n_done++;
        if (event->type == BW_EVENT_ERROR && job->err.status == BW_OK) {
            job->err = *err;
            bw_server_hide_folder(job->server, job->err.text);
            if (job->err.status == BW_OK)
                bw_fail(&job->err, BW_E_INTERNAL, "the engine reported an error without saying which");
            for (size_t i = 0; i < job->n_choices; i++)
                if (job->choices[i].session && !job->choices[i].done)
                    bw_session_cancel(job->choices[i].session);
        }
    }
    if (!job->dropped) {
        bw_format_event(job, choice, event);
        check_buffer(job);
        bw_pipe_wake(&job->stream);
    }
    pthread_mutex_unlock(&job->stream.lock);
}

/* Read what one choice's session has. false: there may be more. */
static bool read_choice(bw_job *job, bw_choice *choice, int *budget)
{
    bw_err err = {0};
    while (*budget > 0) {
        bw_event event = {0};
        err = (bw_err){0};
        bw_status status = bw_session_next(choice->session, 0, &event, &err);
        if (status == BW_E_TIMEOUT)
            return true;
        if (status != BW_OK && event.type != BW_EVENT_ERROR && event.type != BW_EVENT_END) {
            event = (bw_event){.type = BW_EVENT_ERROR, .finish = BW_FINISH_ERROR};
            if (err.status == BW_OK)
                bw_fail(&err, status, "the session ended: %s", bw_status_name(status));
        }
        take_event(job, choice, &event, &err);
        if (choice->done) {
            pthread_mutex_lock(&job->stream.lock);
            bw_session *session = choice->session;
            choice->session = NULL;
            pthread_mutex_unlock(&job->stream.lock);
            bw_session_free(session);
            return true;
        }
        (*budget)--;
    }
    return false;
}

static void job_work(bw_pipe *stream)
{
    bw_job *job = (bw_job *)stream;
    pthread_mutex_lock(&stream->lock);
    bool admitted = job->admitted, cancelled = job->cancelled, ended = job->ended_ns != 0;
    pthread_mutex_unlock(&stream->lock);
    if (ended)
        return;
    if (!admitted) {
        if (!cancelled)
            return;
        pthread_mutex_lock(&job->server->lock);
        bool was_held = !job->submitting && bw_job_unlist_held(job); /* who submits it marks it anew */
        pthread_mutex_unlock(&job->server->lock);
        if (was_held) {
            bw_job_end(job);
            bw_pipe_unref(stream);
        }
        return;
    }
    int budget = EVENTS_PER_TURN;
    bool all = true;
    for (size_t i = 0; i < job->n_choices; i++)
        if (!job->choices[i].done)
            all &= read_choice(job, &job->choices[i], &budget);
    if (job->n_done == job->n_choices)
        bw_job_end(job);
    else if (!all)
        bw_hub_mark(stream);
}

/* ---- finding and forgetting ---- */

bw_job *bw_job_find(bw_server *server, const char *id, size_t n_bytes)
{
    pthread_mutex_lock(&server->lock);
    bw_job *job = server->known;
    while (job && !(strlen(job->id) == n_bytes && memcmp(job->id, id, n_bytes) == 0))
        job = job->known_next;
    if (job)
        bw_pipe_ref(&job->stream);
    pthread_mutex_unlock(&server->lock);
    return job;
}

static void drop_expired(bw_server *server, int64_t now_ns)
{
    int64_t limit_ns = server->options.job_expiry_ms * 1000000;
    bw_job *expired = NULL;
    pthread_mutex_lock(&server->lock);
    for (bw_job **link = &server->known; *link;) { /* once: there may be thousands, and every stream waits for this */
        bw_job *job = *link;
        pthread_mutex_lock(&job->stream.lock);
        int64_t since = job->ended_ns ? job->ended_ns : job->claimed ? now_ns : job->created_ns;
        bool is_over = now_ns - since > limit_ns && !job->stream.conn;
        pthread_mutex_unlock(&job->stream.lock);
        if (!is_over) {
            link = &job->known_next;
            continue;
        }
        *link = job->known_next;
        server->n_known--;
        job->known_next = expired;
        expired = job;
    }
    pthread_mutex_unlock(&server->lock);
    while (expired) {
        bw_job *job = expired;
        expired = job->known_next;
        bw_job_cancel(job);
        bw_pipe_unref(&job->stream);
    }
}

void bw_jobs_tick(bw_server *server)
{
    bw_jobs_submit_held(server);
    drop_expired(server, bw_clock_now_ns());
}

void bw_jobs_cancel_all(bw_server *server)
{
    pthread_mutex_lock(&server->lock);
    for (bw_job *job = server->active; job; job = job->active_next)
        bw_job_cancel(job);
    pthread_mutex_unlock(&server->lock);
}

void bw_jobs_end_all(bw_server *server)
{
    pthread_mutex_lock(&server->lock);
    for (bw_job *job = server->active; job; job = job->active_next) {
        pthread_mutex_lock(&job->stream.lock);
        if (job->ended_ns == 0) {
            job->state = job->err.status != BW_OK ? BW_JOB_FAILED : BW_JOB_CANCELLED;
            job->ended_ns = bw_clock_now_ns();
            bw_format_end(job);
            job->stream.finished = true;
            bw_pipe_wake(&job->stream);
        }
        pthread_mutex_unlock(&job->stream.lock);
    }
    pthread_mutex_unlock(&server->lock);
}

static void forget_known(bw_server *server)
{
    for (;;) {
        pthread_mutex_lock(&server->lock);
        bw_job *job = server->known;
        if (job) {
            server->known = job->known_next;
            server->n_known--;
        }
        pthread_mutex_unlock(&server->lock);
        if (!job)
            return;
        bw_pipe_unref(&job->stream);
    }
}

void bw_jobs_forget_all(bw_server *server)
{
    forget_known(server);
    for (;;) {
        pthread_mutex_lock(&server->lock);
        bw_job *job = server->active;
        bool was_held = false;
        if (job) {
            unlist_active(job);
            was_held = bw_job_unlist_held(job);
        }
        pthread_mutex_unlock(&server->lock);
        if (!job)
            return;
        for (size_t i = 0; i < job->n_choices; i++)
            bw_session_free(job->choices[i].session);
        if (was_held)
            bw_pipe_unref(&job->stream);
        bw_pipe_unref(&job->stream);
    }
}
