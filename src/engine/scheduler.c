/* The engine's thread: who runs, what a step computes, what becomes of its logits.
 *
 * One turn: drop what was cancelled, admit what waits while places and pages last, put a batch together, run it,
 * sample. A batch takes first one token of every sequence that generates, then shares what is left of n_batch evenly
 * among the prompts. When pages run out the youngest sequence gives its pages back and waits again; its prompt and what
 * it generated are computed anew later, so its text does not change. The oldest always finds room, since a request that
 * could not fit alone was refused at submit.
 */
#include "engine_private.h"

#include <string.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_map.h"

/* ---- the lists ----------------------------------------------------------------------------------------------- */

/* keep: leave the tokens for others to find; else forget them, because what went wrong may lie in them. */
static void release_pages(bw_engine *e, bw_session *s, bool keep)
{
    int32_t rest = s->n_cached % BW_KV_PAGE, whole = s->n_cached / BW_KV_PAGE;
    if (keep && rest > 0 && s->n_registered == whole && whole < s->n_pages)
        bw_kv_register(&e->kv, s->pages[whole], s->serial, s->tokens + s->n_cached - rest, rest);
    for (int32_t i = 0; i < s->n_pages && !keep; i++)
        bw_kv_forget(&e->kv, s->pages[i]);
    while (s->n_pages > 0) /* the last page first, so that beginnings stay longest */
        bw_kv_unref(&e->kv, s->pages[--s->n_pages]);
    s->n_cached = s->n_registered = 0;
    s->serial = 0;
}

static void remove_running(bw_engine *e, bw_session *s)
{
    int32_t i = 0;
    while (e->running[i] != s)
        i++;
    pthread_mutex_lock(&e->lock);
    e->n_running--;
    memmove(e->running + i, e->running + i + 1, (size_t)(e->n_running - i) * sizeof *e->running);
    pthread_mutex_unlock(&e->lock);
}

/* With the lock held: what readers of the statistics see. */
static void publish_locked(bw_engine *e)
{
    e->stats.n_running = e->n_running;
    e->stats.kv_pages_used = e->kv.n_pages - bw_kv_available(&e->kv);
}

static void publish(bw_engine *e)
{
    pthread_mutex_lock(&e->lock);
    publish_locked(e);
    pthread_mutex_unlock(&e->lock);
}

/* Count the end, tell the owner, drop the engine's reference. The session is in no list any more. */
static void end_session(bw_engine *e, bw_session *s, bw_finish finish, const bw_err *err, bool closed)
{
    pthread_mutex_lock(&e->lock);
    if (err) {
        e->stats.n_failed++;
    } else if (finish == BW_FINISH_CANCELLED) {
        e->stats.n_cancelled++;
    } else {
        e->stats.n_completed++;
        bw_measure_latency(e, BW_LATENCY_END_TO_END, bw_clock_now_ns() - s->submitted_ns);
    }
    bw_queue_leave(e, s);
    publish_locked(e);
    pthread_mutex_unlock(&e->lock);
    bw_session_end(s, finish, err, closed);
    bw_session_unref(s);
}

static void stop_running(bw_engine *e, bw_session *s, bw_finish finish, const bw_err *err, bool closed)
{
    /* a request's own mistake or a lack of memory says nothing against the pages */
    bool sound = !err || err->status == BW_E_ARG || err->status == BW_E_MEMORY;
    release_pages(e, s, sound);
    remove_running(e, s);
    end_session(e, s, finish, err, closed);
}

/* The text so far, then END; ERROR when even that fails. */
static void finish_running(bw_engine *e, bw_session *s, bw_finish finish)
{
    bw_err err = {0};
    pthread_mutex_lock(&s->lock);
    bw_status status = bw_stream_finish(&s->stream, &s->filled, &err);
    pthread_mutex_unlock(&s->lock);
    if (status == BW_OK && finish != BW_FINISH_CANCELLED && s->stream.matched)
        finish = BW_FINISH_STOP;
    if (status == BW_OK)
        stop_running(e, s, finish, NULL, false);
    else
        stop_running(e, s, BW_FINISH_ERROR, &err, false);
}

static void insert_running(bw_engine *e, bw_session *s)
{
    pthread_mutex_lock(&e->lock);
    int32_t i = e->n_running++;
    for (; i > 0 && e->running[i - 1]->number > s->number; i--)
        e->running[i] = e->running[i - 1];
    e->running[i] = s;
    pthread_mutex_unlock(&e->lock);
}

static void preempt(bw_engine *e, bw_session *s)
{
    bw_log_debug("session %lld gives back its %d KV pages and waits", (long long)s->number, (int)s->n_pages);
    release_pages(e, s, true);
    remove_running(e, s);
    s->take = 0;
    pthread_mutex_lock(&e->lock);
    bw_queue_add(e, s);
    publish_locked(e);
    pthread_mutex_unlock(&e->lock);
}

static bool is_cancelled(bw_session *s)
{
    return atomic_load_explicit(&s->cancelled, memory_order_relaxed);
}

/* Take the first waiting session for which `all` or cancelled holds; NULL when there is none. */
static bw_session *take_waiting(bw_engine *e, bool all)
{
    pthread_mutex_lock(&e->lock);
    bw_session *s = e->first;
    while (s && !all && !is_cancelled(s))
        s = s->next;
    if (s)
        bw_queue_remove(e, s);
    pthread_mutex_unlock(&e->lock);
    return s;
}

/* ---- admission ----------------------------------------------------------------------------------------------- */

/* Pages that the running sequences still need for the tokens they know, and one more for each to grow into. */
static int32_t pages_promised(const bw_engine *e)
{
    int32_t n = 0;
    for (int32_t i = 0; i < e->n_running; i++) {
        int32_t need = bw_pages_of(e->running[i]->n_tokens) - e->running[i]->n_pages;
        n += (need > 0 ? need : 0) + 1;
    }
    return n;
}

/* Reuse what the cache knows of the beginning. At least one token is left to compute, and for echoed log probabilities
 * all those whose logits are still to be reported. */
static void reuse_prefix(bw_engine *e, bw_session *s)
{
    int32_t usable = s->n_tokens - 1;
    if (bw_wants_all_rows(s))
        usable = s->n_echoed > 0 ? s->n_echoed - 1 : 0;
    bw_kv_match match = bw_kv_find(&e->kv, s->tokens, usable, s->pages);
    s->n_pages = s->n_registered = match.n_pages;
    s->serial = match.serial;
    s->n_cached = match.n_pages * BW_KV_PAGE;
    if (match.partial < 0)
        return;
    int32_t page = bw_kv_alloc(&e->kv);
    bw_err err = {0};
    if (page >= 0 && bw_lm_copy_page(e->lm, page, match.partial, match.partial_tokens, &err) == BW_OK) {
        s->pages[s->n_pages++] = page;
        s->n_cached += match.partial_tokens;
    } else if (page >= 0) {
        bw_log_warn("a KV page could not be copied (%s): its tokens are computed again", err.text);
        bw_kv_unref(&e->kv, page);
    }
    bw_kv_unref(&e->kv, match.partial);
}

static bw_status echo_prompt(bw_engine *e, bw_session *s, const float *logits, bw_err *err);

static void admit(bw_engine *e, bw_session *s)
{
    insert_running(e, s);
    reuse_prefix(e, s);
    bw_err err = {0};
    bw_status status = BW_OK;
    bool is_first = !s->admitted_before;
    if (is_first) {
        s->admitted_before = true;
        s->admitted_ns = bw_clock_now_ns();
        s->n_found = s->n_cached;
    }
    pthread_mutex_lock(&e->lock);
    e->stats.n_cached_tokens += s->n_cached;
    if (is_first)
        bw_measure_latency(e, BW_LATENCY_QUEUE, s->admitted_ns - s->submitted_ns);
    publish_locked(e);
    pthread_mutex_unlock(&e->lock);
    /* without log probabilities the prompt's tokens need not wait for logits; the first one never does */
    while (s->echo && status == BW_OK && s->n_echoed < (s->n_logprobs < 0 ? s->n_prompt : 1))
        status = echo_prompt(e, s, NULL, &err);
    if (status != BW_OK)
        stop_running(e, s, BW_FINISH_ERROR, &err, false);
    else if (s->echo)
        bw_session_signal(s);
}

static bool has_room(const bw_engine *e, const bw_session *s)
{
    int32_t room = bw_kv_available(&e->kv) - pages_promised(e), need = bw_pages_of(s->n_tokens);
    if (e->n_running == 0 || need <= room)
        return true;
    if (bw_wants_all_rows(s)) /* computes everything anew */
        return false;
    return need - bw_kv_count_held(&e->kv, s->tokens, s->n_tokens - 1) <= room;
}

/* All places are taken. Of those whose prompts are far from done the one with most left gives its place to a prompt
 * that is much shorter, unless that belongs to a client who has more places than it; it finds in the prefix cache again
 * what was computed. The oldest stays, and nobody yields often. */
static bool make_place(bw_engine *e, const bw_session *next)
{
    enum { MOST_YIELDS = 4, FACTOR = 4, LEAST_LEFT = 256 };
    bw_session *best = NULL;
    int32_t most = next->n_tokens > LEAST_LEFT / FACTOR ? next->n_tokens * FACTOR : LEAST_LEFT;
    int32_t counts[BW_FAIR_COUNTERS] = {0};
    for (int32_t i = 0; i < e->n_running; i++)
        counts[bw_fair_counter(e->running[i]->client)]++;
    for (int32_t i = 1; i < e->n_running; i++) {
        bw_session *s = e->running[i];
        bool may =
            s->client == next->client || counts[bw_fair_counter(s->client)] > counts[bw_fair_counter(next->client)];
        int32_t left = s->n_tokens - s->n_cached;
        if (!may || left < most || s->n_yielded >= MOST_YIELDS)
            continue;
        most = left;
        best = s;
    }
    if (!best)
        return false;
    best->n_yielded++;
    preempt(e, best);
    return true;
}

/* Who is next, once more or for the first time since somebody came; NULL: nobody. */
static bw_session *choose_next(bw_engine *e, bool has_place)
{
    pthread_mutex_lock(&e->lock);
    bw_session *s = has_place || e->queue_changed ? bw_queue_next(e) : NULL;
    if (!has_place)
        e->queue_changed = false;
    pthread_mutex_unlock(&e->lock);
    return s;
}

/* Whoever has a place but no room yet keeps the place: pages would never be enough if others took them. */
static void admit_waiting(bw_engine *e)
{
    for (;;) {
        bool has_place = e->n_running < e->info.n_parallel;
        bw_session *s = choose_next(e, has_place);
        if (!s || (!has_place && !make_place(e, s)))
            return;
        bool fits = has_room(e, s);
        pthread_mutex_lock(&e->lock);
        e->next_up = s;
        if (fits)
            bw_queue_remove(e, s);
        pthread_mutex_unlock(&e->lock);
        if (!fits)
            return;
        admit(e, s);
    }
}

/* ---- the batch ----------------------------------------------------------------------------------------------- */

/* How many rows of logits the next `take` tokens give: the last token's when the sequence is then complete and
 * something is to be generated, and those that say how likely the next prompt token is. */
static int32_t rows_of(const bw_session *s, int32_t take)
{
    int32_t end = s->n_cached + take, rows = end == s->n_tokens && s->n_tokens < s->limit ? 1 : 0;
    if (!bw_wants_all_rows(s))
        return rows;
    int32_t first = s->n_echoed - 1 > s->n_cached ? s->n_echoed - 1 : s->n_cached;
    int32_t last = end < s->n_prompt - 1 ? end : s->n_prompt - 1; /* row i tells of token i + 1 */
    return rows + (last > first ? last - first : 0);
}

/* Pages for every sequence's tokens, the oldest first. */
static void find_pages(bw_engine *e)
{
    for (int32_t i = 0; i < e->n_running; i++) {
        bw_session *s = e->running[i];
        int32_t need = bw_pages_of(s->n_cached + s->take);
        while (s->n_pages < need && i < e->n_running && e->running[i] == s) {
            int32_t page = bw_kv_alloc(&e->kv);
            if (page >= 0)
                s->pages[s->n_pages++] = page;
            else
                preempt(e, e->running[e->n_running - 1]);
        }
    }
    publish(e);
}

/* Who takes part in this step; returns how many. */
static int32_t list_takers(bw_engine *e)
{
    int32_t n = 0;
    for (int32_t i = 0; i < e->n_running; i++)
        if (e->running[i]->take > 0)
            e->batch_sessions[n++] = e->running[i];
    return n;
}

static void build_batch(bw_engine *e, bw_session *const *sessions, int32_t n, bw_lm_batch *batch)
{
    *batch = (bw_lm_batch){
        .tokens = e->batch_tokens, .seqs = e->batch_seqs, .outputs = e->batch_outputs, .draws = e->batch_draws};
    for (int32_t i = 0; i < n; i++) {
        bw_session *s = sessions[i];
        int32_t first = batch->n_tokens, end = s->n_cached + s->take;
        e->batch_seqs[batch->n_seqs++] =
            (bw_lm_seq){.first_token = first, .n_tokens = s->take, .n_cached = end, .pages = s->pages};
        memcpy(e->batch_tokens + first, s->tokens + s->n_cached, (size_t)s->take * sizeof *s->tokens);
        batch->n_tokens += s->take;
        /* its rows are the last ones of its tokens, except that a prompt without generation needs none for the last */
        s->first_output = batch->n_outputs;
        s->n_outputs = rows_of(s, s->take);
        int32_t after_last = end == s->n_tokens && s->n_tokens == s->limit ? end - 1 : end;
        for (int32_t j = after_last - s->n_outputs; j < after_last; j++)
            e->batch_outputs[batch->n_outputs++] = first + j - s->n_cached;
    }
}

/* ---- after the step ------------------------------------------------------------------------------------------ */

/* Report one prompt token; logits: the row before it, or NULL. */
static bw_status echo_prompt(bw_engine *e, bw_session *s, const float *logits, bw_err *err)
{
    int32_t i = s->n_echoed;
    bw_sample sample = {.token = s->tokens[i], .logprob = __builtin_nanf("")};
    if (logits)
        BW_TRY(bw_sample_logprobs(&e->scratch, logits, sample.token, s->n_logprobs, &sample, err));
    bw_str_clear(&e->echo_piece);
    if (i > 0 || !s->bos_added) /* a BOS that was added is no part of the text */
        BW_TRY(bw_detokenizer_add(&s->echo_text, sample.token, &e->echo_piece, err));
    if (i == s->n_prompt - 1)
        BW_TRY(bw_detokenizer_finish(&s->echo_text, &e->echo_piece, err));
    if (e->echo_piece.failed) {
        bw_str_deinit(&e->echo_piece);
        return bw_fail_memory(err, 64, "the text of a prompt token");
    }
    bw_event_token token = {.token = sample.token, .logprob = sample.logprob, .top = sample.top};
    pthread_mutex_lock(&s->lock);
    bw_status status = bw_events_push(&s->filled, e->tokenizer, BW_EVENT_PROMPT, e->echo_piece.data, e->echo_piece.len,
                                      &token, 1, (size_t)sample.n_top, err);
    pthread_mutex_unlock(&s->lock);
    if (status == BW_OK)
        s->n_echoed++;
    return status;
}

static void register_pages(bw_engine *e, bw_session *s)
{
    for (; s->n_registered < s->n_cached / BW_KV_PAGE; s->n_registered++)
        s->serial = bw_kv_register(&e->kv, s->pages[s->n_registered], s->serial,
                                   s->tokens + s->n_registered * BW_KV_PAGE, BW_KV_PAGE);
}

/* Whether its rows themselves must come to the host, whatever the sampler needs. */
static bool asks_for_rows(const bw_session *s)
{
    return s->n_logprobs >= 0 || s->echo;
}

/* Whether the device draws its tokens, in every step. */
static bool is_drawn_there(const bw_engine *e, const bw_session *s)
{
    return (bw_lm_can_give(e->lm) & BW_LM_DRAWN) != 0 && !asks_for_rows(s) && bw_sampler_draws_whole(&s->sampler);
}

enum { WHOLE_ROWS = 8 };

/* Whether the first few that the device finds may be enough for its top-p. Which way a token goes depends on its own
 * session alone, not on who shares the step: sums on the device and on the host may differ in their last bits. */
static bool takes_few(const bw_engine *e, const bw_session *s)
{
    return bw_lm_top_k(e->lm) > 1 && !asks_for_rows(s) && bw_sampler_takes_nucleus(&s->sampler);
}

/* The first few are enough for most of what models say; where not, the row is fetched after all, and so are the next
 * ones at once: how sure a model is and what temperature is asked for change slowly. */
static bw_status choose_nucleus(bw_engine *e, bw_session *s, const bw_lm_top *top, int32_t row, bw_sample *sample,
                                bw_err *err)
{
    bool is_enough;
    const float *logits;
    size_t at = (size_t)row * (size_t)top->k;
    BW_TRY(bw_sampler_sample_nucleus(&s->sampler, &e->scratch, top->values + at, top->tokens + at, top->k,
                                     top->sums[row], &is_enough, sample, err));
    if (is_enough)
        return BW_OK;
    s->n_whole_rows = WHOLE_ROWS;
    BW_TRY(bw_lm_fetch_row(e->lm, row, &logits, err));
    return bw_sampler_sample(&s->sampler, &e->scratch, logits, -1, sample, err);
}

/* From what the step gave: a token that the device drew, a row, or the first few or the first of one. */
static bw_status choose(bw_engine *e, bw_session *s, const bw_lm_results *r, int32_t row, bw_sample *sample,
                        bw_err *err)
{
    if (is_drawn_there(e, s))
        return bw_sample_take(r->drawn[row], sample, err);
    if (takes_few(e, s)) {
        if (s->n_whole_rows == 0)
            return choose_nucleus(e, s, &r->top, row, sample, err);
        const float *logits = r->logits ? r->logits + (size_t)row * (size_t)e->info.n_vocab : NULL;
        s->n_whole_rows--;
        if (!logits)
            BW_TRY(bw_lm_fetch_row(e->lm, row, &logits, err));
        return bw_sampler_sample(&s->sampler, &e->scratch, logits, -1, sample, err);
    }
    if (r->logits)
        return bw_sampler_sample(&s->sampler, &e->scratch, r->logits + (size_t)row * (size_t)e->info.n_vocab,
                                 s->n_logprobs, sample, err);
    if (r->top.k == 0)
        return bw_sample_take(r->best ? r->best[row] : r->drawn[row], sample, err);
    size_t at = (size_t)row * (size_t)r->top.k;
    return bw_sampler_sample_top(&s->sampler, &e->scratch, r->top.values + at, r->top.tokens + at, sample, err);
}

static bool is_stop_token(const bw_session *s, int32_t token)
{
    for (size_t i = 0; i < s->n_stop_tokens; i++)
        if (s->stop_tokens[i] == token)
            return true;
    return false;
}

/* Choose the next token and pass on its text; *finish says whether that was the last. */
static bw_status generate(bw_engine *e, bw_session *s, const bw_lm_results *r, int32_t row, bw_finish *finish,
                          bw_err *err)
{
    bw_sample sample;
    BW_TRY(choose(e, s, r, row, &sample, err));
    int64_t now_ns = bw_clock_now_ns();
    if (!s->first_token_ns)
        s->first_token_ns = now_ns;
    if (!s->ignore_eos && bw_tokenizer_is_eos(e->tokenizer, sample.token)) {
        *finish = BW_FINISH_EOS;
        return BW_OK;
    }
    if (is_stop_token(s, sample.token)) {
        *finish = BW_FINISH_STOP;
        return BW_OK;
    }
    pthread_mutex_lock(&e->lock);
    e->stats.n_generated_tokens++;
    if (s->last_token_ns)
        bw_measure_latency(e, BW_LATENCY_BETWEEN_TOKENS, now_ns - s->last_token_ns);
    else
        bw_measure_latency(e, BW_LATENCY_FIRST_TOKEN, now_ns - s->submitted_ns);
    s->last_token_ns = now_ns;
    pthread_mutex_unlock(&e->lock);
    s->tokens[s->n_tokens++] = sample.token;
    s->has_random = false;
    bw_sampler_accept(&s->sampler, s->tokens, s->n_tokens, s->n_prompt);
    pthread_mutex_lock(&s->lock);
    size_t before = s->filled.len;
    bw_status status = bw_stream_add(&s->stream, &sample, &s->filled, err);
    bool news = s->filled.len > before;
    pthread_mutex_unlock(&s->lock);
    if (status == BW_OK && s->stream.matched)
        *finish = BW_FINISH_STOP;
    else if (status == BW_OK && s->n_tokens == s->limit)
        *finish = BW_FINISH_LENGTH;
    else if (status == BW_OK && news)
        bw_session_signal(s);
    return status;
}

static bw_status take_results(bw_engine *e, bw_session *s, const bw_lm_results *r, bw_err *err)
{
    bw_status status = BW_OK;
    bw_finish finish = BW_FINISH_NONE;
    int32_t rows = s->n_outputs, row = s->first_output;
    size_t n_vocab = (size_t)e->info.n_vocab;
    s->n_cached += s->take;
    register_pages(e, s);
    bool complete = s->n_cached == s->n_tokens, generates = complete && s->n_tokens < s->limit;
    bool echoes = rows > (generates ? 1 : 0);
    for (; status == BW_OK && rows > (generates ? 1 : 0); rows--, row++)
        status = echo_prompt(e, s, r->logits + (size_t)row * n_vocab, err);
    if (status == BW_OK && generates)
        status = generate(e, s, r, row, &finish, err);
    else if (complete)
        finish = BW_FINISH_LENGTH;
    if (status != BW_OK)
        stop_running(e, s, BW_FINISH_ERROR, err, false);
    else if (finish != BW_FINISH_NONE)
        finish_running(e, s, finish);
    else if (echoes)
        bw_session_signal(s);
    return status;
}

static void count_step(bw_engine *e, bw_session *const *sessions, int32_t n, int64_t began_ns)
{
    int64_t ns = bw_clock_now_ns() - began_ns;
    int32_t n_prompt = 0, n_new = 0, n_generating = 0;
    pthread_mutex_lock(&e->lock);
    for (int32_t i = 0; i < n; i++) {
        const bw_session *s = sessions[i];
        n_new += s->n_cached < s->n_prompt ? min32(s->take, s->n_prompt - s->n_cached) : 0;
        n_prompt += bw_is_prompt(s) ? s->take : 0;
        n_generating += !bw_is_prompt(s);
        bw_queue_count(e, s, s->take);
    }
    e->stats.n_steps++;
    e->stats.step_seconds += (double)ns / 1e9;
    e->stats.n_prompt_tokens += n_new;
    pthread_mutex_unlock(&e->lock);
    bw_share_learn(e, ns, n_prompt, n_generating);
}

/* What is wanted of every row, so that what need not leave the device stays there; greedy requests take the first of
 * the few, or a draw with temperature 0. */
static int choose_wants(const bw_engine *e, bw_session *const *sessions, int32_t n_sessions)
{
    int32_t most = 0;
    int can = bw_lm_can_give(e->lm), wants = 0;
    for (int32_t i = 0; i < n_sessions; i++) {
        const bw_session *s = sessions[i];
        if (s->n_outputs == 0)
            continue;
        int32_t n = asks_for_rows(s) ? 0 : bw_sampler_need(&s->sampler);
        if (is_drawn_there(e, s))
            wants |= BW_LM_DRAWN;
        else if (takes_few(e, s)) /* else its row is fetched alone */
            wants |= s->n_whole_rows == 0 ? BW_LM_TOP : 0;
        else if (n == 0)
            wants |= BW_LM_LOGITS;
        most = n > most ? n : most;
    }
    if (most > 1 && !(wants & BW_LM_LOGITS))
        wants |= most <= bw_lm_top_k(e->lm) ? BW_LM_TOP : BW_LM_LOGITS;
    if (most == 1 && wants == 0)
        wants = can & BW_LM_BEST ? BW_LM_BEST : BW_LM_LOGITS;
    return wants != 0 ? wants : BW_LM_LOGITS; /* of no row */
}

/* Temperatures, and for who is drawn there also min-p and the next of its random numbers: the same one again where a
 * step is run anew. */
static void fill_draws(bw_engine *e, bw_session *const *sessions, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        bw_session *s = sessions[i];
        for (int32_t j = 0; j < s->n_outputs; j++) {
            bw_lm_draw draw = {0};
            if (is_drawn_there(e, s)) {
                s->random = s->has_random ? s->random : bw_sampler_next_random(&s->sampler);
                s->has_random = true;
                draw = (bw_lm_draw){.temperature = s->sampler.options.temperature,
                                    .min_p = s->sampler.options.min_p,
                                    .random = s->random};
            } else if (takes_few(e, s)) {
                draw.temperature = s->sampler.options.temperature;
            }
            e->batch_draws[s->first_output + j] = draw;
        }
    }
}

/* Nobody who waits will ever be served: tell them all, and whoever owns the engine. */
static void give_up(bw_engine *e, const bw_err *err)
{
    bw_session *s;
    pthread_mutex_lock(&e->lock);
    e->lost = true;
    e->lost_err = *err;
    pthread_mutex_unlock(&e->lock);
    while (e->n_running > 0)
        stop_running(e, e->running[e->n_running - 1], BW_FINISH_ERROR, err, false);
    while ((s = take_waiting(e, true)))
        end_session(e, s, BW_FINISH_ERROR, err, false);
    if (e->on_lost)
        e->on_lost(e->on_lost_user, err);
}

/* BW_E_LOST when the model's file changed under the weights that are read where they lie. A page that could not be read
 * shows at once, a file of another size once in a second. */
static bw_status check_file(bw_engine *e, int64_t now_ns, bw_err *err)
{
    bool look = now_ns - e->file_looked_ns > INT64_C(1000000000) && strstr(e->info.device, "cpu");
    if (look)
        e->file_looked_ns = now_ns;
    return bw_map_check(look, err);
}

/* Compute the step of these sessions and take what it gives. */
static bw_status run_part(bw_engine *e, bw_session *const *sessions, int32_t n, bw_err *err)
{
    bw_lm_batch batch;
    bw_lm_results r = {0};
    int64_t began_ns = bw_clock_now_ns();
    build_batch(e, sessions, n, &batch);
    int wants = choose_wants(e, sessions, n);
    if (wants & (BW_LM_DRAWN | BW_LM_TOP))
        fill_draws(e, sessions, n);
    bw_status status = bw_lm_step_for(e->lm, &batch, wants, &r, err);
    BW_TRY(check_file(e, began_ns, err)); /* first: a step that failed may have failed for that */
    BW_TRY(status);
    count_step(e, sessions, n, began_ns);
    for (int32_t i = 0; i < n; i++) {
        bw_err own = {0}; /* ends that session alone, unless the device is lost */
        if (take_results(e, sessions[i], &r, &own) == BW_E_LOST)
            return bw_fail(err, BW_E_LOST, "%s", own.text);
    }
    return BW_OK;
}

/* Memory was too small for a step: smaller ones for a while. */
static void reduce_steps(bw_engine *e, int32_t n_tokens)
{
    int32_t half = n_tokens / 2;
    e->n_step = min32(e->n_step, half > e->info.n_parallel ? half : e->info.n_parallel);
    e->n_good_steps = 0;
}

static void enlarge_steps(bw_engine *e)
{
    enum { GOOD_STEPS = 64 };
    if (e->n_step == e->n_batch || ++e->n_good_steps < GOOD_STEPS)
        return;
    e->n_step = min32(e->n_batch, e->n_step * 2);
    e->n_good_steps = 0;
}

/* As run_part; but a step that fails is computed again in halves, until whoever spoils it is alone and ends alone. A
 * step writes the same values to the same places whenever it is run, so nobody's text changes. Fails when the device
 * is lost, and then only. */
static bw_status run_isolated(bw_engine *e, bw_session **sessions, int32_t n, bw_err *err)
{
    bw_err why = {0};
    bw_status status = run_part(e, sessions, n, &why);
    if (status == BW_OK)
        return BW_OK;
    if (status == BW_E_LOST)
        return bw_fail(err, status, "%s", why.text);
    int32_t n_tokens = 0;
    for (int32_t i = 0; i < n; i++)
        n_tokens += sessions[i]->take;
    bool is_culprit = n == 1 && (status != BW_E_MEMORY || n_tokens == 1);
    bw_log(is_culprit ? BW_LOG_ERROR : BW_LOG_DEBUG, "a step of %d tokens for %d sequences failed: %s", (int)n_tokens,
           (int)n, why.text);
    if (status == BW_E_MEMORY)
        reduce_steps(e, n_tokens);
    if (n > 1) {
        BW_TRY(run_isolated(e, sessions, n / 2, err));
        return run_isolated(e, sessions + n / 2, n - n / 2, err);
    }
    if (!is_culprit) {
        sessions[0]->take = n_tokens / 2;
        return run_isolated(e, sessions, 1, err);
    }
    stop_running(e, sessions[0], BW_FINISH_ERROR, &why, false);
    return BW_OK;
}

static void step(bw_engine *e)
{
    bw_err err = {0};
    bw_share_out(e);
    find_pages(e);
    int32_t n = list_takers(e);
    if (n == 0)
        return;
    if (run_isolated(e, e->batch_sessions, n, &err) != BW_OK) {
        give_up(e, &err);
    } else {
        enlarge_steps(e);
        bw_measure_memory(e, false);
    }
}

/* ---- the thread ---------------------------------------------------------------------------------------------- */

static void drop_cancelled(bw_engine *e)
{
    bw_session *s;
    while ((s = take_waiting(e, false)))
        end_session(e, s, BW_FINISH_CANCELLED, NULL, false);
    for (int32_t i = e->n_running; i-- > 0;)
        if (is_cancelled(e->running[i]))
            finish_running(e, e->running[i], BW_FINISH_CANCELLED);
}

static void close_all(bw_engine *e)
{
    bw_session *s;
    while (e->n_running > 0)
        stop_running(e, e->running[e->n_running - 1], BW_FINISH_CANCELLED, NULL, true);
    while ((s = take_waiting(e, true)))
        end_session(e, s, BW_FINISH_CANCELLED, NULL, true);
}

static bool has_nothing_to_do(bw_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool idle = !e->closing && !e->lost && !e->first && e->n_running == 0;
    pthread_mutex_unlock(&e->lock);
    return idle;
}

void *bw_engine_thread(void *arg)
{
    bw_engine *e = arg;
    for (;;) {
        if (has_nothing_to_do(e)) {
            e->device->vtable->rest(e->device);
            bw_measure_memory(e, true);
        }
        pthread_mutex_lock(&e->lock);
        while (!e->closing && !e->first && e->n_running == 0)
            pthread_cond_wait(&e->wake, &e->lock);
        bool closing = e->closing;
        pthread_mutex_unlock(&e->lock);
        if (closing)
            break;
        drop_cancelled(e);
        admit_waiting(e);
        step(e);
    }
    close_all(e);
    return NULL;
}
