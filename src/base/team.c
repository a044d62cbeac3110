#include "bw_team.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bw_limits.h"
#include "bw_mem.h"

#if defined(__x86_64__) || defined(__i386__)
#define cpu_relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define cpu_relax() __asm__ volatile("yield")
#else
#define cpu_relax() ((void)0)
#endif

/* How long a barrier or an idle member spins before it sleeps. A pause is some 10 to 40 ns: a few tens of
 * microseconds, the length of a small matrix product. */
enum { SPINS = 1500, MOST_THREADS = 256 };

struct thread {
    bw_team *team;
    int rank;
    pthread_t id;
};

struct bw_team {
    int size;
    struct thread *threads; /* [size - 1] */
    bw_team_fn *fn;
    void *arg;
    _Alignas(64) _Atomic uint32_t generation; /* a new value starts a run */
    _Atomic uint32_t sleepers;                /* members asleep on generation */
    _Alignas(64) _Atomic uint32_t n_arrived;  /* at the barrier */
    _Alignas(64) _Atomic uint32_t phase;      /* the barrier's phase */
    _Atomic uint32_t phase_sleepers;
    _Atomic bool stop;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Wait until *word differs from value. */
static void wait_change(_Atomic uint32_t *word, uint32_t value, _Atomic uint32_t *sleepers)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return;
        cpu_relax();
    }
    atomic_fetch_add(sleepers, 1);
    while (atomic_load(word) == value)
        futex_wait(word, value);
    atomic_fetch_sub(sleepers, 1);
}

void bw_team_barrier(bw_member *member)
{
    bw_team *team = member->team;
    if (team->size == 1)
        return;
    uint32_t phase = member->sense;
    member->sense = phase + 1;
    if (atomic_fetch_add_explicit(&team->n_arrived, 1, memory_order_acq_rel) + 1 == (uint32_t)team->size) {
        atomic_store_explicit(&team->n_arrived, 0, memory_order_relaxed);
        atomic_store(&team->phase, phase + 1);
        if (atomic_load(&team->phase_sleepers))
            futex_wake_all(&team->phase);
    } else {
        wait_change(&team->phase, phase, &team->phase_sleepers);
    }
}

static void *member_main(void *arg)
{
    const struct thread *self = arg;
    bw_team *team = self->team;
    bw_member member = {.team = team, .rank = self->rank, .size = team->size};
    uint32_t generation = 0;
    for (;;) {
        wait_change(&team->generation, generation, &team->sleepers);
        generation++;
        if (atomic_load(&team->stop))
            return NULL;
        team->fn(team->arg, &member);
        bw_team_barrier(&member);
    }
}

void bw_team_run(bw_team *team, bw_team_fn *fn, void *arg)
{
    bw_member member = {
        .team = team, .rank = 0, .size = team->size, .sense = atomic_load_explicit(&team->phase, memory_order_relaxed)};
    if (team->size > 1) {
        team->fn = fn;
        team->arg = arg;
        atomic_fetch_add(&team->generation, 1);
        if (atomic_load(&team->sleepers))
            futex_wake_all(&team->generation);
    }
    fn(arg, &member);
    bw_team_barrier(&member);
}

int bw_cpu_count(void)
{
    bw_limits limits;
    bw_limits_read("", &limits);
    int n = bw_limits_threads(&limits);
    return n < MOST_THREADS ? n : MOST_THREADS;
}

/* Ends the first n threads and frees the team. */
static void stop_threads(bw_team *team, int n)
{
    atomic_store(&team->stop, true);
    atomic_fetch_add(&team->generation, 1);
    futex_wake_all(&team->generation);
    for (int i = 0; i < n; i++)
        pthread_join(team->threads[i].id, NULL);
    bw_free(team->threads);
    bw_free(team);
}

bw_status bw_team_new(int n_threads, bw_team **out, bw_err *err)
{
    *out = NULL;
    if (n_threads == 0)
        n_threads = bw_cpu_count();
    if (n_threads < 1 || n_threads > MOST_THREADS)
        return bw_fail(err, BW_E_RANGE, "a team of %d threads was asked for; 1 to %d are possible", n_threads,
                       (int)MOST_THREADS);
    bw_team *team = bw_alloc_aligned(sizeof *team);
    if (!team)
        return bw_fail_memory(err, sizeof *team, "a thread team");
    *team = (bw_team){.size = 1};
    if (n_threads > 1) {
        team->threads = bw_alloc_array((size_t)n_threads - 1, sizeof *team->threads);
        if (!team->threads) {
            bw_free(team);
            return bw_fail_memory(err, (size_t)n_threads * sizeof *team->threads, "a thread team");
        }
    }
    /* The size is final before the first thread reads it; a failed start stops those that already run. */
    team->size = n_threads;
    for (int i = 1; i < n_threads; i++) {
        struct thread *thread = &team->threads[i - 1];
        thread->team = team;
        thread->rank = i;
        int failed = pthread_create(&thread->id, NULL, member_main, thread);
        if (failed) {
            stop_threads(team, i - 1);
            return bw_fail_errno(err, failed, "compute thread %d of %d could not be started", i + 1, n_threads);
        }
    }
    *out = team;
    return BW_OK;
}

void bw_team_free(bw_team *team)
{
    if (team)
        stop_threads(team, team->size - 1);
}

int bw_team_size(const bw_team *team)
{
    return team->size;
}
