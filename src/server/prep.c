/* Threads for long requests; see prep.h. */
#include "prep.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_fair.h"
#include "bw_mem.h"

enum { N_THREADS = 2, PLACES = 64, NICE = 10 };

struct bw_prep {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t wake;
    bw_job *first, **last; /* each with a reference */
    int32_t n_waiting;
    bool stopping;
    bw_fair fair; /* bytes */
    pthread_t threads[N_THREADS];
    int n_threads;
};

/* ---- one request ---- */

/* What the body says becomes the job's ask and choices. false: *reply says what is wrong with it. */
static bool read_body(bw_job *job, bw_reply *reply)
{
    bw_ask_api api = job->ask.api;
    bw_ask ask;
    bool good = api == BW_ASK_RBEE ? bw_ask_read_rbee(job->body.data, job->body.len, &ask, reply)
                                   : bw_ask_read_openai(job->body.data, job->body.len, api == BW_ASK_CHAT, &ask, reply);
    bw_str_deinit(&job->body);
    if (!good)
        return false;
    size_t n = ask.n_prompts * (size_t)ask.n;
    bw_choice *choices = bw_alloc_zero(n, sizeof *choices);
    if (!choices) {
        bw_err err = {0};
        bw_ask_deinit(&ask);
        bw_fail_memory(&err, n * sizeof *choices, "a request");
        bw_job_reply_failure(job, &err, reply);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        choices[i].prompt = i / (size_t)ask.n;
    pthread_mutex_lock(&job->stream.lock);
    job->ask = ask;
    job->choices = choices;
    job->n_choices = n;
    pthread_mutex_unlock(&job->stream.lock);
    return true;
}

bool bw_job_has_room(bw_job *job, bw_reply *reply)
{
    bw_server *server = job->server;
    bw_err err = {0};
    pthread_mutex_lock(&server->lock);
    bw_engine *engine = server->engine;
    pthread_mutex_unlock(&server->lock);
    if (!engine || job->remember || /* rbee's wait for a place */
        bw_engine_check_room(engine, job->client, &err) == BW_OK)
        return true;
    bw_job_reply_failure(job, &err, reply);
    pthread_mutex_lock(&server->lock);
    server->n_refused++;
    pthread_mutex_unlock(&server->lock);
    return false;
}

void bw_job_refuse(bw_job *job, bw_reply *reply)
{
    pthread_mutex_lock(&job->stream.lock);
    job->reply = *reply;
    *reply = (bw_reply){0};
    job->has_reply = true;
    job->state = BW_JOB_FAILED;
    job->ended_ns = bw_clock_now_ns(); /* it was never accepted, so its end is no disconnect */
    job->stream.finished = true;
    bw_pipe_wake(&job->stream);
    pthread_mutex_unlock(&job->stream.lock);
}

void bw_job_prepare(bw_job *job)
{
    bw_reply reply = {0};
    pthread_mutex_lock(&job->stream.lock);
    bool cancelled = job->cancelled, was_read = job->n_choices > 0;
    pthread_mutex_unlock(&job->stream.lock);
    if (was_read) {
        bw_job_submit_held(job);
        return;
    }
    if (cancelled)
        return; /* whoever asked for it is gone */
    pthread_mutex_lock(&job->server->lock);
    bool stopping = job->server->stopping;
    pthread_mutex_unlock(&job->server->lock);
    if (stopping) {
        bw_err err = {BW_E_CLOSED, "the server is shutting down"};
        bw_job_reply_failure(job, &err, &reply);
    }
    if (stopping || !read_body(job, &reply) || !bw_job_start(job, &reply)) {
        bw_job_refuse(job, &reply);
        return;
    }
    pthread_mutex_lock(&job->stream.lock);
    job->started = true;
    bw_pipe_wake(&job->stream);
    pthread_mutex_unlock(&job->stream.lock);
}

/* ---- the threads ---- */

/* The lock is held. How many wait of this client, and how many clients with it. */
static int64_t count_own(const bw_prep *prep, uint64_t client, int64_t *n_clients)
{
    bool seen[BW_FAIR_COUNTERS] = {false};
    int64_t own = 0;
    seen[bw_fair_counter(client)] = true;
    *n_clients = 1;
    for (const bw_job *job = prep->first; job; job = job->prep_next) {
        unsigned other = bw_fair_counter(job->client);
        own += job->client == client;
        *n_clients += !seen[other];
        seen[other] = true;
    }
    *n_clients += own == 0 && *n_clients == 1 && prep->first; /* all others share its counter */
    return own;
}

bw_status bw_prep_add(bw_prep *prep, bw_job *job, bw_err *err)
{
    pthread_mutex_lock(&prep->lock);
    int64_t n_clients, own = count_own(prep, job->client, &n_clients);
    bool fits = !prep->stopping && bw_fair_admits(PLACES, prep->n_waiting, own, n_clients);
    int32_t n_waiting = prep->n_waiting;
    if (fits) {
        if (own == 0)
            bw_fair_begin(&prep->fair, job->client);
        bw_pipe_ref(&job->stream);
        job->prep_next = NULL;
        *prep->last = job;
        prep->last = &job->prep_next;
        prep->n_waiting++;
        pthread_cond_signal(&prep->wake);
    }
    pthread_mutex_unlock(&prep->lock);
    if (fits)
        return BW_OK;
    return bw_fail(err, BW_E_FULL, "%d long requests wait to be read; try again later", (int)n_waiting);
}

/* The lock is held: the first of the client that had least. */
static bw_job *take_next(bw_prep *prep)
{
    bw_job **best = NULL;
    uint64_t least = UINT64_MAX;
    for (bw_job **link = &prep->first; *link; link = &(*link)->prep_next) {
        uint64_t had = bw_fair_had(&prep->fair, (*link)->client);
        if (had < least) {
            least = had;
            best = link;
        }
    }
    if (!best)
        return NULL;
    bw_job *job = *best;
    *best = job->prep_next;
    if (!*best)
        prep->last = best;
    prep->n_waiting--;
    bw_fair_take(&prep->fair, job->client, job->n_asked_bytes);
    return job;
}

static void *prep_main(void *arg)
{
    bw_prep *prep = arg;
    /* long requests are work for when the model's threads and those of HTTP leave time */
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    pthread_mutex_lock(&prep->lock);
    for (;;) {
        bw_job *job = take_next(prep);
        if (!job && prep->stopping)
            break;
        if (!job) {
            pthread_cond_wait(&prep->wake, &prep->lock);
            continue;
        }
        pthread_mutex_unlock(&prep->lock);
        bw_job_prepare(job);
        bw_pipe_unref(&job->stream);
        pthread_mutex_lock(&prep->lock);
    }
    pthread_mutex_unlock(&prep->lock);
    return NULL;
}

bw_status bw_prep_new(bw_prep **out, bw_err *err)
{
    *out = NULL;
    bw_prep *prep = bw_alloc_zero(1, sizeof *prep);
    if (!prep)
        return bw_fail_memory(err, sizeof *prep, "the threads for long requests");
    pthread_mutex_init(&prep->lock, NULL);
    pthread_cond_init(&prep->wake, NULL);
    prep->last = &prep->first;
    while (prep->n_threads < N_THREADS) {
        int failed = pthread_create(&prep->threads[prep->n_threads], NULL, prep_main, prep);
        if (failed) {
            bw_prep_stop(prep);
            bw_prep_free(prep);
            return bw_fail_errno(err, failed, "cannot start a thread for long requests");
        }
        prep->n_threads++;
    }
    *out = prep;
    return BW_OK;
}

void bw_prep_stop(bw_prep *prep)
{
    if (!prep)
        return;
    pthread_mutex_lock(&prep->lock);
    prep->stopping = true;
    pthread_cond_broadcast(&prep->wake);
    pthread_mutex_unlock(&prep->lock);
    while (prep->n_threads > 0)
        pthread_join(prep->threads[--prep->n_threads], NULL);
}

void bw_prep_free(bw_prep *prep)
{
    if (!prep)
        return;
    pthread_cond_destroy(&prep->wake);
    pthread_mutex_destroy(&prep->lock);
    bw_free(prep);
}
