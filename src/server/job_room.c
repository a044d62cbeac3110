/* The room for rbee's jobs, which stay until they have been read or expire: who has how much, and who gives way. The
 * server's lock is held in every function. See internal.h. */
#include <stdio.h>

#include "bw_clock.h"
#include "bw_fair.h"
#include "internal.h"

/* Of all jobs, or of one client's. */
typedef struct amount {
    uint32_t n;
    size_t n_bytes;
} amount;

typedef struct kept {
    amount all, own;
    amount by_counter[BW_FAIR_COUNTERS];
    uint32_t n_clients;                    /* with a job, the asking one included */
    bw_job *oldest_read, *oldest_own_read; /* or its cancelled */
} kept;

bool bw_job_unlist_known(bw_job *job)
{
    for (bw_job **link = &job->server->known; *link; link = &(*link)->known_next) {
        if (*link == job) {
            *link = job->known_next;
            job->server->n_known--;
            return true;
        }
    }
    return false;
}

static void add(amount *a, size_t n_bytes)
{
    a->n++;
    a->n_bytes += n_bytes;
}

/* Whoever cancels a job may still want its last words, but asks for them at once. */
static const int64_t last_words_ns = INT64_C(10000000000);

typedef enum use { IN_USE, UNREAD, CANCELLED, READ } use;

/* What a job holds, and what it is kept for. */
static size_t look_at(bw_job *job, int64_t now_ns, use *kept_for)
{
    pthread_mutex_lock(&job->stream.lock);
    *kept_for = job->ended_ns == 0 || job->active_link || job->stream.conn ? IN_USE
                : job->claimed                                             ? READ
                : job->state != BW_JOB_CANCELLED                           ? UNREAD
                : now_ns - job->ended_ns > last_words_ns                   ? READ
                                                                           : CANCELLED;
    size_t n_bytes = sizeof *job + job->n_choices * sizeof *job->choices + job->stream.out.len;
    n_bytes += job->ended_ns ? 0 : job->n_asked_bytes;
    pthread_mutex_unlock(&job->stream.lock);
    return n_bytes;
}

static kept count_kept(const bw_server *server, uint64_t client)
{
    const int64_t now_ns = bw_clock_now_ns();
    kept k = {0};
    use kept_for;
    k.n_clients = 1;
    for (bw_job *job = server->known; job; job = job->known_next) { /* newest first */
        size_t n_bytes = look_at(job, now_ns, &kept_for);
        amount *of_counter = &k.by_counter[bw_fair_counter(job->client)];
        k.n_clients += of_counter->n == 0 && bw_fair_counter(job->client) != bw_fair_counter(client);
        add(of_counter, n_bytes);
        add(&k.all, n_bytes);
        if (job->client == client)
            add(&k.own, n_bytes);
        if (kept_for == READ)
            k.oldest_read = job;
        if (job->client == client && (kept_for == READ || kept_for == CANCELLED))
            k.oldest_own_read = job;
    }
    return k;
}

static bool exceeds(const amount *a, size_t n_more_bytes, uint32_t most, size_t most_bytes)
{
    return a->n >= most || a->n_bytes + n_more_bytes > most_bytes;
}

/* The client that has most of the counter's jobs, if it has the majority of them. */
static uint64_t main_client(const bw_server *server, unsigned counter)
{
    uint64_t client = 0;
    uint32_t lead = 0;
    for (const bw_job *job = server->known; job; job = job->known_next) {
        if (bw_fair_counter(job->client) != counter)
            continue;
        if (lead == 0)
            client = job->client;
        lead = job->client == client ? lead + 1 : lead - 1;
    }
    return client;
}

/* All room is taken by what nobody has read. Who has less than its share gets a place from whoever has most of what is
 * short and more than that share: the oldest of its jobs that ended, which would expire first. NULL: nobody gives
 * way. */
static bw_job *find_displaced(const bw_server *server, const kept *k, const bw_job *job, uint32_t most,
                              size_t most_bytes)
{
    const uint32_t share = most / k->n_clients;
    const size_t share_bytes = most_bytes / k->n_clients;
    const bool by_number = k->all.n >= most;
    unsigned greediest = 0;
    if (exceeds(&k->own, job->n_asked_bytes, share, share_bytes))
        return NULL;
    for (unsigned i = 1; i < BW_FAIR_COUNTERS; i++)
        if (by_number ? k->by_counter[i].n > k->by_counter[greediest].n
                      : k->by_counter[i].n_bytes > k->by_counter[greediest].n_bytes)
            greediest = i;
    const uint64_t client = main_client(server, greediest);
    amount its = {0};
    bw_job *oldest = NULL;
    use kept_for;
    for (bw_job *other = server->known; other; other = other->known_next) {
        if (other->client != client)
            continue;
        add(&its, look_at(other, bw_clock_now_ns(), &kept_for));
        oldest = kept_for != IN_USE ? other : oldest;
    }
    return client != job->client && (by_number ? its.n > share : its.n_bytes > share_bytes) ? oldest : NULL;
}

/* How many jobs give way to one at most. */
enum { MOST_DISPLACED = 64 };

bool bw_job_make_room(const bw_job *job, bw_job **evicted, char *why, size_t why_bytes)
{
    bw_server *server = job->server;
    const uint32_t most = server->options.max_jobs, own = most - most / 4;
    const size_t most_bytes = server->options.max_job_bytes, own_bytes = most_bytes - most_bytes / 4;
    for (int i = 0;; i++) {
        const kept k = count_kept(server, job->client);
        const bool own_full = exceeds(&k.own, job->n_asked_bytes, own, own_bytes);
        const bool full = exceeds(&k.all, job->n_asked_bytes, most, most_bytes);
        if (!own_full && !full)
            return true;
        bw_job *gives_way = own_full ? k.oldest_own_read : k.oldest_read;
        if (!own_full && !gives_way)
            gives_way = find_displaced(server, &k, job, most, most_bytes);
        if (gives_way && i < MOST_DISPLACED) {
            bw_job_unlist_known(gives_way);
            gives_way->known_next = *evicted;
            *evicted = gives_way;
            continue;
        }
        if (own_full)
            snprintf(why, why_bytes,
                     "%u jobs of this client (%zu bytes) run or wait to be read, the limit is %u (%zu bytes); read "
                     "their streams or delete them",
                     k.own.n, k.own.n_bytes, own, own_bytes);
        else
            snprintf(why, why_bytes,
                     "%u jobs (%zu bytes) of %u clients run or wait to be read, the limit is %u (%zu bytes); %u of "
                     "them are this client's",
                     k.all.n, k.all.n_bytes, k.n_clients, most, most_bytes, k.own.n);
        return false;
    }
}
