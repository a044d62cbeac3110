/* Sharing among parties that are known by a number, such as clients: who had least so far is next. Parties whose
 * numbers meet in one of the counters share what one of them gets. No state beyond the counters, no locks. */
#ifndef BW_FAIR_H
#define BW_FAIR_H

#include <stdbool.h>
#include <stdint.h>

enum { BW_FAIR_COUNTERS = 256 };

typedef struct bw_fair {
    uint64_t had[BW_FAIR_COUNTERS]; /* in any unit of work */
    uint64_t now;                   /* what the last one that took something had had */
} bw_fair;                          /* zero-initialised */

/* Which counter is a party's: 0 to BW_FAIR_COUNTERS - 1. */
static inline unsigned bw_fair_counter(uint64_t party)
{
    return (unsigned)((party * 0x9e3779b97f4a7c15u) >> 56);
}

/* The party begins to wait, after having had nothing to wait for: time without a wish is no claim. */
static inline void bw_fair_begin(bw_fair *fair, uint64_t party)
{
    uint64_t *had = &fair->had[bw_fair_counter(party)];
    *had = *had < fair->now ? fair->now : *had;
}

static inline uint64_t bw_fair_had(const bw_fair *fair, uint64_t party)
{
    return fair->had[bw_fair_counter(party)];
}

static inline void bw_fair_take(bw_fair *fair, uint64_t party, uint64_t amount)
{
    uint64_t *had = &fair->had[bw_fair_counter(party)];
    fair->now = *had > fair->now ? *had : fair->now;
    *had += amount;
}

/* Whether one more of a party may wait where `taken` of `places` are taken, `own` of them by itself, and n_parties wait
 * with it (itself included): a party that has less than its share finds a place even when none is left, so that nobody
 * can keep others out by filling all. So at most twice the places are ever taken. */
static inline bool bw_fair_admits(int64_t places, int64_t taken, int64_t own, int64_t n_parties)
{
    return taken < places || (taken < 2 * places && own < places / (n_parties > 0 ? n_parties : 1) && n_parties > 1);
}

#endif
