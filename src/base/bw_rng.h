/* Random numbers by Philox4x32-10 (Salmon et al., SC11): a counter and a key in, four words out; the same integers on
 * every device. */
#ifndef BW_RNG_H
#define BW_RNG_H

#include <stddef.h>
#include <stdint.h>

void bw_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* A stream of words from one seed. */
typedef struct bw_rng {
    uint64_t seed, index; /* the next block's counter */
    uint32_t words[4];
    int n_words; /* unused words left */
} bw_rng;

void bw_rng_init(bw_rng *rng, uint64_t seed);
uint32_t bw_rng_u32(bw_rng *rng);
/* Uniform in [0, 1) with 53 random bits. */
double bw_rng_f64(bw_rng *rng);
/* Uniform in [0, n), n > 0, without bias. */
uint64_t bw_rng_below(bw_rng *rng, uint64_t n);
/* Standard normal (Box-Muller). */
double bw_rng_normal(bw_rng *rng);
/* Bytes from the operating system; falls back to clock and address bits where the system call fails. */
void bw_rng_entropy(void *out, size_t n_bytes);

#endif
