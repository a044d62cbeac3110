/* Jobs that are held, for the model or for a place in its queue: in which order and by whom they are submitted. */
#include <stdio.h>

#include "internal.h"
#include "prep.h"

enum { MOST_PASSED = 16 };
/* Clients whose held jobs must wait in this turn: the engine has no place for them, or one is being submitted. */
typedef struct passed {
    uint64_t clients[MOST_PASSED];
    int n;
} passed;

static bool was_passed(const passed *p, uint64_t client)
{
    for (int i = 0; i < p->n; i++)
        if (p->clients[i] == client)
            return true;
    return false;
}

static void pass_over(passed *p, uint64_t client)
{
    if (p->n < MOST_PASSED && !was_passed(p, client))
        p->clients[p->n++] = client;
}

/* The first held job of a client that was not passed over and, when there is one, the engine for it or the reason there
 * will be none. */
static bw_job *first_held(bw_server *server, passed *p, bw_engine **engine, bw_err *err)
{
    pthread_mutex_lock(&server->lock);
    bw_job *job = server->held;
    while (job && (job->submitting || was_passed(p, job->client))) {
        if (job->submitting)
            pass_over(p, job->client); /* the client's next one comes after it */
        job = job->held_next;
    }
    *engine = server->engine;
    if (server->load_error[0]) {
        err->status = BW_E_CLOSED;
        snprintf(err->text, sizeof err->text, "%s", server->load_error);
    } else if (!*engine || server->stopping) {
        job = NULL;
    }
    if (p->n == MOST_PASSED)
        job = NULL;
    if (job)
        bw_pipe_ref(&job->stream);
    pthread_mutex_unlock(&server->lock);
    return job;
}

/* After an attempt to submit a held job: it is held no longer. */
static void leave_held(bw_job *job, const bw_err *err)
{
    pthread_mutex_lock(&job->server->lock);
    bool was_held = bw_job_unlist_held(job);
    job->submitting = false;
    pthread_mutex_unlock(&job->server->lock);
    if (err->status != BW_OK) {
        pthread_mutex_lock(&job->stream.lock);
        job->err = *err;
        bw_server_hide_folder(job->server, job->err.text);
        pthread_mutex_unlock(&job->stream.lock);
        bw_job_end(job);
    }
    if (was_held)
        bw_pipe_unref(&job->stream);
}

static void stay_held(bw_job *job)
{
    pthread_mutex_lock(&job->server->lock);
    job->submitting = false;
    pthread_mutex_unlock(&job->server->lock);
}

void bw_job_submit_held(bw_job *job)
{
    bw_server *server = job->server;
    bw_err err = {0};
    pthread_mutex_lock(&server->lock);
    bw_engine *engine = server->stopping ? NULL : server->engine;
    pthread_mutex_unlock(&server->lock);
    pthread_mutex_lock(&job->stream.lock);
    bool cancelled = job->cancelled;
    pthread_mutex_unlock(&job->stream.lock);
    if (!engine || cancelled || bw_job_submit(job, engine, &err) == BW_E_FULL)
        stay_held(job);
    else
        leave_held(job, &err);
    bw_hub_mark(&job->stream); /* it may have been cancelled meanwhile */
    if (err.status != BW_E_FULL)
        bw_hub_wake(server->hub); /* for the client's next one */
}

/* A long one is no work for the hub, which every stream waits for. */
static void hand_over(bw_job *job, bw_engine *engine)
{
    bw_err err = {0};
    if (bw_engine_check_room(engine, job->client, &err) == BW_E_FULL)
        return;
    pthread_mutex_lock(&job->server->lock);
    job->submitting = true;
    pthread_mutex_unlock(&job->server->lock);
    if (bw_prep_add(job->server->prep, job, &err) != BW_OK)
        stay_held(job); /* until the next tick */
}

void bw_jobs_submit_held(bw_server *server)
{
    passed p = {.n = 0};
    for (;;) {
        bw_engine *engine = NULL;
        bw_err err = {0};
        bw_job *job = first_held(server, &p, &engine, &err);
        if (!job)
            return;
        bool is_long = err.status == BW_OK && job->n_asked_bytes > BW_PREP_INLINE_BYTES;
        if (is_long)
            hand_over(job, engine);
        else if (err.status == BW_OK)
            bw_job_submit(job, engine, &err);
        if (is_long || err.status == BW_E_FULL)
            pass_over(&p, job->client); /* it keeps its place; others may have one */
        else
            leave_held(job, &err);
        bw_pipe_unref(&job->stream);
    }
}
