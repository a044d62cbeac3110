/* What the files of the engine share: the engine, a session, and who may touch which of their fields.
 *
 * Locks. engine->lock guards the waiting list, `closing`, the statistics and changes of the running list. session->lock
 * guards what the owner's thread and the engine's thread exchange: the filled event buffer and how the session ended.
 * session->notify_lock is held while notify runs, and is recursive so that notify may free the session. No lock is
 * taken while another is held. Fields marked "engine's thread" need no lock.
 */
#ifndef BW_ENGINE_PRIVATE_H
#define BW_ENGINE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "bw_device.h"
#include "bw_events.h"
#include "bw_fair.h"
#include "bw_jinja.h"
#include "bw_kv.h"
#include "bw_lm.h"
#include "bw_sampler.h"
#include "bw_stream.h"

_Static_assert((int)BW_KV_PAGE == (int)BW_LM_PAGE_TOKENS, "one page size");

struct bw_session {
    _Atomic int refs; /* the owner's and the engine's */
    _Atomic bool cancelled;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bw_events filled; /* lock */
    bool ended;       /* lock: no more events come but the last one below */
    bool closed;      /* lock: ended because the engine went away */
    bw_event last;    /* lock: END or ERROR */
    bw_err err;       /* lock: what ERROR says */

    bw_events drained; /* owner's thread */
    bool delivered;    /* owner's thread: the last event was given out */

    pthread_mutex_t notify_lock;
    void (*notify)(void *user); /* notify_lock */
    void *notify_user;

    /* fixed at submit */
    int64_t number;          /* order of arrival */
    uint64_t client, kind;   /* whose it is; and the number of his requests of such a length */
    int32_t n_prompt, limit; /* tokens of the prompt; most tokens of all */
    int32_t n_logprobs;      /* -1 = none */
    bool ignore_eos, echo, bos_added;
    int32_t *stop_tokens; /* [n_stop_tokens] */
    size_t n_stop_tokens;

    /* engine's thread */
    struct bw_session *next;    /* waiting list: under engine->lock */
    int32_t *tokens;            /* [limit] prompt and generated */
    int32_t n_tokens, n_cached; /* known; of these in the KV cache */
    int32_t *pages;             /* [ceil(limit / page)] */
    int32_t n_pages;
    int32_t n_registered; /* whole pages given to the prefix index */
    uint64_t serial;      /* of the last of them */
    int32_t n_echoed;     /* prompt tokens reported */
    int32_t n_found;      /* prompt tokens found in the prefix cache at first admission */
    bool admitted_before;
    int32_t take, first_output, n_outputs; /* in this step: tokens; its rows of logits */
    int32_t n_whole_rows;                  /* so many of its next rows are fetched whole, where few may be enough */
    bool has_random;                       /* `random` is for the next token, which no step has given yet */
    uint32_t random;
    int32_t n_yielded; /* so often it gave its place to a shorter prompt */
    int64_t submitted_ns, admitted_ns, first_token_ns, last_token_ns;
    bw_sampler sampler;
    bw_stream stream;
    bw_detokenizer echo_text;
};

/* How a chat template wants messages to be written. */
typedef struct bw_chat_habits {
    bool null_content;    /* an assistant's message that only calls tools: content is none rather than "" */
    bool text_arguments;  /* arguments of tool calls: JSON text rather than an object */
    bool shows_tools;     /* tools that are given appear in the prompt */
    bool knows_developer; /* the role */
} bw_chat_habits;

struct bw_engine {
    bw_device *device;
    bw_lm *lm;
    const bw_tokenizer *tokenizer;
    bw_model_info info;
    bw_jinja *chat, *chat_tools; /* templates; chat_tools may be NULL */
    bw_err chat_err;             /* why chat is NULL */
    bw_chat_habits chat_habits, chat_tools_habits;
    int32_t n_batch, n_queue, max_outputs;

    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool closing;     /* lock */
    char notice[640]; /* the model info's */
    bool lost;        /* lock: the device is; lost_err says how */
    bw_err lost_err;  /* lock */
    void (*on_lost)(void *user, const bw_err *err);
    void *on_lost_user;
    bw_session *first, *last;   /* lock: waiting */
    bw_session *next_up;        /* lock: of these, who is next whatever comes, once there is room */
    bool queue_changed;         /* lock: somebody was added */
    bw_fair by_client, by_kind; /* lock: tokens computed */
    int32_t n_of_client[BW_FAIR_COUNTERS], n_of_kind[BW_FAIR_COUNTERS]; /* lock: sessions that have not ended */
    bw_engine_stats stats;                                              /* lock */
    bw_histogram latencies[BW_LATENCY_COUNT];                           /* lock */
    bw_engine_memory memory;                                            /* lock */
    int64_t looked_ns;                                                  /* engine's thread: at the memory */
    int64_t next_number;                                                /* lock */

    /* engine's thread */
    bw_kv kv;
    bw_sample_scratch scratch;
    bw_str echo_piece;
    bw_session **running; /* [n_parallel] in order of arrival; changed with the lock, for the queue reads it */
    int32_t n_running;    /* likewise */
    int64_t file_looked_ns;
    int32_t *batch_tokens;       /* [n_batch] */
    int32_t *batch_outputs;      /* [max_outputs] */
    bw_lm_draw *batch_draws;     /* [max_outputs] */
    bw_lm_seq *batch_seqs;       /* [n_parallel] */
    bw_session **batch_sessions; /* [n_parallel] who takes part in the step */
    int32_t n_step;              /* most tokens of a step: n_batch, less for a while when memory was too small */
    int32_t n_good_steps;        /* since n_step became less */
    int64_t decode_ns;           /* about what a step takes that generates only, 0 = unknown */
    int64_t prompt_token_ns;     /* about what a prompt's token adds to a step, 0 = unknown */
};

/* scheduler.c: the engine's thread, arg is the engine. Returns when closing, with every session ended. */
void *bw_engine_thread(void *arg);

/* chat.c */
/* What the template does with a few small conversations. BW_E_MEMORY is the only error. */
bw_status bw_chat_learn(const bw_jinja *template, const char *source, bw_chat_habits *habits, bw_err *err);
/* Change messages, an array of objects, to what the template wants. BW_E_MEMORY is the only error. */
bw_status bw_chat_shape(const bw_chat_habits *habits, json_t *messages, bw_err *err);

/* queue.c; with the engine's lock held. check: BW_OK, BW_E_FULL, BW_E_CLOSED or BW_E_LOST. enter and leave: a session's
 * beginning and its end; add and remove: it waits, or not. next: who is to run next, NULL when nobody waits; on the
 * engine's thread. count: so much was computed for it. */
bw_status bw_queue_check(const bw_engine *engine, uint64_t client, int32_t n_prompt, bw_err *err);
void bw_queue_enter(bw_engine *engine, bw_session *session);
void bw_queue_leave(bw_engine *engine, const bw_session *session);
void bw_queue_add(bw_engine *engine, bw_session *session);
void bw_queue_remove(bw_engine *engine, bw_session *session);
bw_session *bw_queue_next(bw_engine *engine);
void bw_queue_count(bw_engine *engine, const bw_session *session, int32_t n_tokens);

/* measure.c; latency: with the engine's lock held. memory: on the engine's thread, every few seconds or now. */
void bw_measure_latency(bw_engine *engine, bw_latency which, int64_t ns);
void bw_measure_memory(bw_engine *engine, bool now);

/* share.c, on the engine's thread: how many tokens of each running sequence the next step takes; and what a step took,
 * n_prompt of its tokens belonging to prompts and n_generating to sequences that generate. */
void bw_share_out(bw_engine *engine);
void bw_share_learn(bw_engine *engine, int64_t ns, int32_t n_prompt, int32_t n_generating);

/* session.c */
/* A session from a request, not queued yet. */
bw_status bw_session_make(bw_engine *engine, const bw_request *request, bw_session **session, bw_err *err);
void bw_session_unref(bw_session *session);
/* Wake the owner and call notify. */
void bw_session_signal(bw_session *session);
/* No more events: END with `finish`, or ERROR with *err when err is not NULL. */
void bw_session_end(bw_session *session, bw_finish finish, const bw_err *err, bool closed);

static inline int32_t min32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* It has more to compute than the token that it generated last. */
static inline bool bw_is_prompt(const bw_session *s)
{
    return s->n_tokens - s->n_cached > 1;
}

/* Logits are wanted at every position of the prompt. */
static inline bool bw_wants_all_rows(const bw_session *s)
{
    return s->echo && s->n_logprobs >= 0 && s->n_echoed < s->n_prompt;
}

static inline int32_t bw_pages_of(int32_t n_tokens)
{
    return (n_tokens + BW_KV_PAGE - 1) / BW_KV_PAGE;
}

#endif
