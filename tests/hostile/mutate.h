/* Damage to files: one change at a time, from a seeded stream of random numbers. */
#ifndef BW_TEST_MUTATE_H
#define BW_TEST_MUTATE_H

#include <string.h>

#include "bw_rng.h"

static const uint64_t extremes[] = {
    0,          1,          2,          255,        256,       65535,      1u << 20,   0x7fffffff,     0x80000000,
    0xffffffff, 1ull << 32, 1ull << 61, 1ull << 62, INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 31};

/* One change to data [n], most often in its first n_header bytes; returns the new length. There is room for n + 64. */
static inline size_t mutate(unsigned char *data, size_t n, size_t n_header, bw_rng *rng)
{
    size_t at = (size_t)bw_rng_below(rng, bw_rng_below(rng, 4) ? n_header : n);
    uint64_t word = extremes[bw_rng_below(rng, sizeof extremes / sizeof extremes[0])];
    switch (bw_rng_below(rng, 7)) {
    case 0:
        data[at] = (unsigned char)bw_rng_u32(rng);
        return n;
    case 1:
        data[at] = (unsigned char)(data[at] ^ 1u << bw_rng_below(rng, 8));
        return n;
    case 2:
        memcpy(data + (at + 4 <= n ? at : n - 4), &word, 4);
        return n;
    case 3:
        memcpy(data + (at + 8 <= n ? at : n - 8), &word, 8);
        return n;
    case 4: /* cut */
        return at;
    case 5: { /* take bytes out */
        size_t gone = 1 + (size_t)bw_rng_below(rng, 16);
        gone = gone < n - at ? gone : n - at;
        memmove(data + at, data + at + gone, n - at - gone);
        return n - gone;
    }
    default: { /* repeat bytes */
        size_t more = 1 + (size_t)bw_rng_below(rng, 48);
        more = more < n - at ? more : n - at;
        memmove(data + at + more, data + at, n - at);
        return n + more;
    }
    }
}

#endif
