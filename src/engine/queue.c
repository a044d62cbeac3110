/* The queue of an engine: who may wait, and who is next. The engine's lock is held in every function.
 *
 * Clients take turns: next is a session of the client that has the fewest running, among equals of the one for which
 * least was computed so far. The requests of one client are shared in the same way between kinds of prompts, by their
 * lengths, so that a short one does not wait behind a hundred long ones. Within a kind whoever came first is first.
 * Nobody starves: whatever waits, for everyone else more and more is computed, and so its turn comes. */
#include "engine_private.h"

/* Lengths that differ by less than a factor of four are of one kind. */
static uint64_t kind_of(const bw_session *s)
{
    uint64_t kind = 0;
    for (int32_t n = s->n_prompt; n > 128; n /= 4)
        kind++;
    return s->client * 31 + kind;
}

/* Most prompt tokens that all sessions hold together, as far as clients do not have less than their share: 128 MiB. */
enum { PROMPT_TOKENS = 32 << 20 };

typedef struct own_part {
    int32_t n;
    int64_t n_tokens;
} own_part;

static void count_session(const bw_session *s, uint64_t client, own_part *own, int64_t *n_tokens)
{
    *n_tokens += s->n_prompt;
    if (s->client != client)
        return;
    own->n++;
    own->n_tokens += s->n_prompt;
}

bw_status bw_queue_check(const bw_engine *e, uint64_t client, int32_t n_prompt, bw_err *err)
{
    if (e->closing)
        return bw_fail(err, BW_E_CLOSED, "the engine is shutting down");
    if (e->lost)
        return bw_fail(err, BW_E_LOST, "%s", e->lost_err.text);
    int32_t places = e->n_queue + e->info.n_parallel, taken = e->stats.n_waiting + e->stats.n_running;
    own_part own = {0}; /* exactly: of those that share its counter it has nothing */
    int64_t n_tokens = n_prompt;
    for (const bw_session *s = e->first; s; s = s->next)
        count_session(s, client, &own, &n_tokens);
    for (int32_t i = 0; i < e->n_running; i++)
        count_session(e->running[i], client, &own, &n_tokens);
    int32_t n_clients = e->n_of_client[bw_fair_counter(client)] == 0;
    for (int i = 0; i < BW_FAIR_COUNTERS; i++)
        n_clients += e->n_of_client[i] > 0;
    n_clients += own.n == 0 && n_clients == 1 && taken > 0; /* all others share its counter */
    if (!bw_fair_admits(places, taken, own.n, n_clients))
        return bw_fail(err, BW_E_FULL, "the queue is full: %d requests run and %d wait; try again later",
                       (int)e->stats.n_running, (int)e->stats.n_waiting);
    if (!bw_fair_admits(PROMPT_TOKENS, n_tokens, own.n_tokens, n_clients))
        return bw_fail(err, BW_E_FULL,
                       "the queue is full: %d requests run and %d wait, of %lld tokens together; try again later",
                       (int)e->stats.n_running, (int)e->stats.n_waiting, (long long)n_tokens);
    return BW_OK;
}

void bw_queue_enter(bw_engine *e, bw_session *s)
{
    s->kind = kind_of(s);
    if (e->n_of_client[bw_fair_counter(s->client)]++ == 0)
        bw_fair_begin(&e->by_client, s->client);
    if (e->n_of_kind[bw_fair_counter(s->kind)]++ == 0)
        bw_fair_begin(&e->by_kind, s->kind);
    bw_queue_add(e, s);
}

void bw_queue_leave(bw_engine *e, const bw_session *s)
{
    e->n_of_client[bw_fair_counter(s->client)]--;
    e->n_of_kind[bw_fair_counter(s->kind)]--;
}

void bw_queue_add(bw_engine *e, bw_session *s)
{
    bw_session **at = &e->first;
    if (e->last && e->last->number < s->number)
        at = &e->last->next;
    while (*at && (*at)->number < s->number)
        at = &(*at)->next;
    s->next = *at;
    *at = s;
    if (!s->next)
        e->last = s;
    e->stats.n_waiting++;
    e->queue_changed = true;
}

void bw_queue_remove(bw_engine *e, bw_session *s)
{
    bw_session *before = NULL;
    for (bw_session *other = e->first; other != s; other = other->next)
        before = other;
    *(before ? &before->next : &e->first) = s->next;
    if (e->last == s)
        e->last = before;
    if (e->next_up == s)
        e->next_up = NULL;
    s->next = NULL;
    e->stats.n_waiting--;
}

/* Whether a comes before b, which came earlier. */
static bool comes_before(const bw_engine *e, const bw_session *a, const bw_session *b, const int32_t *clients,
                         const int32_t *kinds)
{
    int32_t run_a = clients[bw_fair_counter(a->client)], run_b = clients[bw_fair_counter(b->client)];
    uint64_t had_a = bw_fair_had(&e->by_client, a->client), had_b = bw_fair_had(&e->by_client, b->client);
    if (run_a != run_b || had_a != had_b)
        return run_a < run_b || (run_a == run_b && had_a < had_b);
    run_a = kinds[bw_fair_counter(a->kind)];
    run_b = kinds[bw_fair_counter(b->kind)];
    had_a = bw_fair_had(&e->by_kind, a->kind);
    had_b = bw_fair_had(&e->by_kind, b->kind);
    return run_a < run_b || (run_a == run_b && had_a < had_b);
}

bw_session *bw_queue_next(bw_engine *e)
{
    int32_t clients[BW_FAIR_COUNTERS] = {0}, kinds[BW_FAIR_COUNTERS] = {0};
    if (e->next_up || !e->first)
        return e->next_up;
    for (int32_t i = 0; i < e->n_running; i++) {
        clients[bw_fair_counter(e->running[i]->client)]++;
        kinds[bw_fair_counter(e->running[i]->kind)]++;
    }
    bw_session *best = e->first;
    for (bw_session *s = best->next; s; s = s->next)
        if (comes_before(e, s, best, clients, kinds))
            best = s;
    return best;
}

void bw_queue_count(bw_engine *e, const bw_session *s, int32_t n_tokens)
{
    bw_fair_take(&e->by_client, s->client, (uint64_t)n_tokens);
    bw_fair_take(&e->by_kind, s->kind, (uint64_t)n_tokens);
}
