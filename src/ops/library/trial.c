/* Timed trials: the table of what was found, and running both. */
#include "library/bw_trial.h"

#include <pthread.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_log.h"

enum {
    N_TRIALS = 1024, /* remembered: what comes when the table is full is ours, untried */
    ROUNDS = 3,
    MARGIN_PERCENT = 5 /* what the library must win by: a draw is ours, so that close calls do not flip */
};

static struct {
    bw_trial_key key;
    bw_trial_choice choice;
} trials[N_TRIALS];
static uint64_t hashes[N_TRIALS]; /* of their keys, by themselves: looked through at every call */
static int n_trials;
static bool said_full;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int64_t bw_trial_round(int64_t size)
{
    int shift = 0;
    while (size >> shift > 7)
        shift++;
    return size >> shift << shift;
}

/* FNV-1a over 64-bit words */
static uint64_t hash_key(const bw_trial_key *key)
{
    uint64_t h = 14695981039346656037u;
    for (int i = 0; i < BW_TRIAL_WORDS; i++) {
        h = (h ^ (uint64_t)key->words[i]) * 1099511628211u;
        h ^= h >> 29;
    }
    return h;
}

static int find(const bw_trial_key *key)
{
    uint64_t hash = hash_key(key);
    for (int i = 0; i < n_trials; i++)
        if (hashes[i] == hash && memcmp(&trials[i].key, key, sizeof *key) == 0)
            return i;
    return -1;
}

bw_trial_choice bw_trial_find(const bw_trial_key *key)
{
    pthread_mutex_lock(&mutex);
    int i = find(key);
    bw_trial_choice choice = i < 0 ? BW_TRIAL_NEW : trials[i].choice;
    pthread_mutex_unlock(&mutex);
    return choice;
}

/* What is known; BW_TRIAL_NEW: nothing, and the caller must try and then call settle. Nothing is forgotten: a program
 * whose kinds came round in a table too small for them would try at every call. */
static bw_trial_choice begin(const bw_trial_key *key)
{
    bool is_full = false;
    pthread_mutex_lock(&mutex);
    int i = find(key);
    bw_trial_choice choice = i < 0 ? BW_TRIAL_NEW : trials[i].choice;
    if (i < 0 && n_trials == N_TRIALS) {
        choice = BW_TRIAL_OURS;
        is_full = !said_full;
        said_full = true;
    } else if (i < 0) {
        trials[n_trials].key = *key;
        trials[n_trials].choice = BW_TRIAL_RUNNING;
        hashes[n_trials++] = hash_key(key);
    }
    pthread_mutex_unlock(&mutex);
    if (is_full)
        bw_log_info("%d kinds of calls have been tried with the library: further ones use our own kernels", N_TRIALS);
    return choice;
}

static void settle(const bw_trial_key *key, bw_trial_choice choice)
{
    pthread_mutex_lock(&mutex);
    int i = find(key);
    if (i >= 0)
        trials[i].choice = choice;
    pthread_mutex_unlock(&mutex);
}

/* What the members share during one call. */
typedef struct shared {
    _Atomic int has_failed;
    bw_trial_choice choice;
    int64_t began, ours_ns, theirs_ns; /* the best of each */
} shared;
_Static_assert(sizeof(shared) <= BW_TRIAL_SCRATCH - 64, "it fits where it is put");

/* In member 0's scratch, after what kernels use of it. */
static shared *find_shared(const bw_op_call *call)
{
    return (void *)((char *)call->scratch + (call->scratch_bytes / 64 - 1) * 64);
}

/* One of the two, from a counter at 0 and with every member there before and after. NULL: the library's. */
static void run_one(const bw_op_call *call, bw_member *member, shared *s, bw_op_kernel *ours, bw_library_kernel *theirs)
{
    if (member->rank == 0) {
        atomic_store_explicit(call->next, 0, memory_order_relaxed);
        s->began = bw_clock_now_ns();
    }
    bw_team_barrier(member);
    if (ours)
        ours(call, member);
    else if (!theirs(call, member))
        atomic_store(&s->has_failed, 1);
    bw_team_barrier(member);
}

void bw_library_run(const bw_op_call *call, bw_member *member, bw_op_kernel *ours, bw_library_kernel *theirs)
{
    shared *s = find_shared(call);
    bw_team_barrier(member); /* nobody may still use member 0's scratch for an earlier call */
    if (member->rank == 0)
        atomic_store(&s->has_failed, 0);
    run_one(call, member, s, NULL, theirs);
    bool has_failed = atomic_load(&s->has_failed);
    bw_team_barrier(member); /* all have seen it */
    if (has_failed)
        run_one(call, member, s, ours, NULL);
}

static void note_time(shared *s, int64_t *best)
{
    int64_t ns = bw_clock_now_ns() - s->began;
    *best = *best == 0 || ns < *best ? ns : *best;
}

/* Member 0, after the rounds. */
static void decide(const bw_op_call *call, const bw_trial_key *key, shared *s)
{
    bool wins = !atomic_load(&s->has_failed) && s->theirs_ns < s->ours_ns - s->ours_ns / 100 * MARGIN_PERCENT;
    s->choice = wins ? BW_TRIAL_THEIRS : BW_TRIAL_OURS;
    settle(key, s->choice);
    char out[128];
    bw_log_debug("%s to %s: ours %.3f ms, the library's %.3f ms%s", bw_op_get(call->op)->name,
                 bw_tensor_describe(call->out[0], out, sizeof out), (double)s->ours_ns * 1e-6,
                 (double)s->theirs_ns * 1e-6, atomic_load(&s->has_failed) ? ", which failed" : "");
}

static void try_both(const bw_op_call *call, bw_member *member, const bw_trial_key *key, shared *s, bw_op_kernel *ours,
                     bw_library_kernel *theirs)
{
    bool has_failed = false;
    for (int i = 0; i < ROUNDS && !has_failed; i++) {
        run_one(call, member, s, ours, NULL);
        if (member->rank == 0)
            note_time(s, &s->ours_ns);
        run_one(call, member, s, NULL, theirs);
        if (member->rank == 0)
            note_time(s, &s->theirs_ns);
        has_failed = atomic_load(&s->has_failed);
        bw_team_barrier(member); /* all have seen it before anybody may set it again */
    }
    if (member->rank == 0)
        decide(call, key, s);
    bw_team_barrier(member);
    bool is_ours = s->choice == BW_TRIAL_OURS;
    bw_team_barrier(member);
    if (is_ours) /* the result is the winner's, as in every later call */
        run_one(call, member, s, ours, NULL);
}

void bw_trial_run(const bw_op_call *call, bw_member *member, const bw_trial_key *key, bw_op_kernel *ours,
                  bw_library_kernel *theirs)
{
    shared *s = find_shared(call);
    bw_team_barrier(member);
    if (member->rank == 0) {
        *s = (shared){0};
        s->choice = begin(key);
    }
    bw_team_barrier(member);
    bw_trial_choice choice = s->choice;
    bw_team_barrier(member); /* all have read it: the next call may use this scratch */
    if (choice == BW_TRIAL_NEW)
        try_both(call, member, key, s, ours, theirs);
    else if (choice == BW_TRIAL_THEIRS)
        bw_library_run(call, member, ours, theirs);
    else
        ours(call, member);
}
