#include "bw_rng.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "bw_clock.h"

static uint32_t mulhilo(uint32_t a, uint32_t b, uint32_t *hi)
{
    uint64_t p = (uint64_t)a * b;
    *hi = (uint32_t)(p >> 32);
    return (uint32_t)p;
}

void bw_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint32_t hi0, hi1;
        uint32_t lo0 = mulhilo(0xD2511F53u, c0, &hi0), lo1 = mulhilo(0xCD9E8D57u, c2, &hi1);
        c0 = hi1 ^ c1 ^ k0;
        c1 = lo1;
        c2 = hi0 ^ c3 ^ k1;
        c3 = lo0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void bw_rng_init(bw_rng *rng, uint64_t seed)
{
    *rng = (bw_rng){.seed = seed};
}

uint32_t bw_rng_u32(bw_rng *rng)
{
    if (rng->n_words == 0) {
        uint32_t counter[4] = {(uint32_t)rng->index, (uint32_t)(rng->index >> 32), 0, 0};
        uint32_t key[2] = {(uint32_t)rng->seed, (uint32_t)(rng->seed >> 32)};
        bw_philox4x32(counter, key, rng->words);
        rng->index++;
        rng->n_words = 4;
    }
    return rng->words[4 - rng->n_words--];
}

double bw_rng_f64(bw_rng *rng)
{
    uint64_t hi = bw_rng_u32(rng), lo = bw_rng_u32(rng);
    return (double)((hi << 32 | lo) >> 11) * 0x1p-53;
}

uint64_t bw_rng_below(bw_rng *rng, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    for (;;) {
        uint64_t hi = bw_rng_u32(rng), v = hi << 32 | bw_rng_u32(rng);
        if (v < limit)
            return v % n;
    }
}

double bw_rng_normal(bw_rng *rng)
{
    double u = 1.0 - bw_rng_f64(rng), v = bw_rng_f64(rng);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

void bw_rng_entropy(void *out, size_t n_bytes)
{
    unsigned char *p = out;
    size_t done = 0;
    while (done < n_bytes) {
        ssize_t n = getrandom(p + done, n_bytes - done, 0);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    if (done < n_bytes) {
        bw_rng rng;
        bw_rng_init(&rng, (uint64_t)bw_clock_now_ns() ^ (uint64_t)(uintptr_t)out ^ (uint64_t)getpid() << 40);
        for (; done < n_bytes; done++)
            p[done] = (unsigned char)bw_rng_u32(&rng);
    }
}
