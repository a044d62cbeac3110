/* How the tokens of a step are shared among those that run, and what steps take. */
#include "engine_private.h"

/* How many tokens of prompts a step takes while somebody waits for his next token: as many as take CHUNK_NS, or as long
 * as a step without them where that is longer. Alone, prompts take all. */
static int32_t prompt_budget(const bw_engine *e, int32_t left, bool somebody_waits)
{
    enum { CHUNK_NS = 40 * 1000 * 1000, LEAST = 16, UNKNOWN = 64 };
    if (!somebody_waits || left <= LEAST)
        return left;
    if (e->prompt_token_ns == 0)
        return min32(left, UNKNOWN);
    int64_t ns = e->decode_ns > CHUNK_NS ? e->decode_ns : CHUNK_NS, n = ns / e->prompt_token_ns;
    return n < LEAST ? LEAST : n < left ? (int32_t)n : left;
}

/* A prompt's part of what there is for prompts: clients have equal parts, and a client's prompts. */
static int32_t share_of(const bw_engine *e, const bw_session *s, int32_t budget)
{
    int32_t n_own = 0, n_clients = 0, counts[BW_FAIR_COUNTERS] = {0};
    for (int32_t i = 0; i < e->n_running; i++) {
        const bw_session *other = e->running[i];
        if (other->n_tokens - other->n_cached == 1)
            continue;
        unsigned counter = bw_fair_counter(other->client);
        n_own += counter == bw_fair_counter(s->client);
        n_clients += counts[counter]++ == 0;
    }
    int32_t parts = n_own * n_clients;
    return (budget + parts - 1) / (parts > 0 ? parts : 1);
}

/* How many tokens of each sequence this step takes. */
void bw_share_out(bw_engine *e)
{
    int32_t left = e->n_step, rows = e->max_outputs, n_prompts = 0;
    bool somebody_waits = false;
    for (int32_t i = 0; i < e->n_running; i++) {
        bw_session *s = e->running[i];
        s->take = bw_is_prompt(s) ? 0 : 1;
        left -= s->take;
        rows--; /* every sequence may need one */
        n_prompts += bw_is_prompt(s);
        somebody_waits = somebody_waits || !bw_is_prompt(s);
    }
    for (int32_t i = 0; i < e->n_running && n_prompts > 1; i++) /* or for his first one, which this step can bring */
        somebody_waits = somebody_waits || e->running[i]->n_tokens - e->running[i]->n_cached <= left / n_prompts / 4;
    left = prompt_budget(e, left, somebody_waits);
    int32_t budget = left;
    for (int round = 0; round < 2; round++) {
        for (int32_t i = 0; i < e->n_running; i++) {
            bw_session *s = e->running[i];
            if (!bw_is_prompt(s))
                continue;
            /* the first round gives each prompt its share, the second what others left over */
            int32_t share = round == 0 ? share_of(e, s, budget) : left;
            int32_t more = min32(s->n_tokens - s->n_cached - s->take, min32(share, left));
            if (bw_wants_all_rows(s))
                more = min32(more, rows > 0 ? rows : (s->take == 0));
            if (bw_wants_all_rows(s))
                rows -= more;
            s->take += more;
            left -= more;
        }
    }
}

static int64_t blend(int64_t mean, int64_t value)
{
    return mean == 0 ? value : mean + (value - mean) / 8;
}

/* For prompt_budget: what a prompt's token adds is found from enough of them at once. */
void bw_share_learn(bw_engine *e, int64_t ns, int32_t n_prompt, int32_t n_generating)
{
    enum { ENOUGH = 8 };
    if (n_prompt == 0)
        e->decode_ns = blend(e->decode_ns, ns);
    else if (n_prompt >= ENOUGH && ns > (n_generating ? e->decode_ns : 0))
        e->prompt_token_ns = blend(e->prompt_token_ns, (ns - (n_generating ? e->decode_ns : 0)) / n_prompt + 1);
}
