/* A team of threads that run one function together (single program, multiple data), for compute kernels.
 *
 * The caller's thread is member 0. Between runs the others sleep in the kernel: after a run they spin for a few
 * microseconds at most, so an idle team uses no CPU time. Barriers spin briefly, then sleep.
 */
#ifndef BW_TEAM_H
#define BW_TEAM_H

#include <stdatomic.h>

#include "bw_err.h"

typedef struct bw_team bw_team;

/* One member's view during a run. */
typedef struct bw_member {
    bw_team *team;
    int rank, size; /* rank 0..size-1 */
    uint32_t sense; /* the barrier's private phase */
} bw_member;

typedef void bw_team_fn(void *arg, bw_member *member);

/* n_threads >= 1, at most 256; 0 = bw_cpu_count(). */
bw_status bw_team_new(int n_threads, bw_team **team, bw_err *err);
void bw_team_free(bw_team *team);
int bw_team_size(const bw_team *team);
/* Run fn on every member; returns when all have returned. One run at a time, always from the same or a synchronised
 * thread. What the caller wrote before is visible to the members, and what they wrote is visible afterwards. */
void bw_team_run(bw_team *team, bw_team_fn *fn, void *arg);
/* Inside a run: wait until every member is here. */
void bw_team_barrier(bw_member *member);
/* Inside a run: take the next `count` of `total` items from a shared counter (0 at the start of the loop); false when
 * none are left. Balances uneven cores better than a fixed split. */
static inline bool bw_team_take(_Atomic int64_t *next, int64_t total, int64_t count, int64_t *begin, int64_t *end)
{
    int64_t b = atomic_fetch_add_explicit(next, count, memory_order_relaxed);
    if (b >= total)
        return false;
    *begin = b;
    *end = b + count < total ? b + count : total;
    return true;
}
/* A fixed split of [0, total) in units of `unit`. */
static inline void bw_team_split(const bw_member *member, int64_t total, int64_t unit, int64_t *begin, int64_t *end)
{
    int64_t units = (total + unit - 1) / unit;
    int64_t b = units * member->rank / member->size * unit, e = units * (member->rank + 1) / member->size * unit;
    *begin = b < total ? b : total;
    *end = e < total ? e : total;
}
/* Threads that a team takes unless told otherwise: bw_limits_threads, at most 256. */
int bw_cpu_count(void);

#endif
