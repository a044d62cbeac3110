/* Passes over one row of logits and over lists of candidates: plain numerical code that compilers turn into vector
 * instructions. No state, no allocation. */
#ifndef BW_SAMPLER_ROW_H
#define BW_SAMPLER_ROW_H

#include "bw_sampler.h"

enum { BW_ROW_BLOCK = 256 };

/* Candidates are ordered by logit, largest first, then by token, smallest first. */
static inline bool bw_candidate_before(const bw_candidate *a, const bw_candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

/* The first of the largest; *finite: there is no NaN and no infinity (with a NaN the index is any). */
int32_t bw_row_argmax(const float *row, int32_t n, bool *finite);
/* weights[i] = exp((row[i] - largest) / temperature), blocks[b] the sums of BW_ROW_BLOCK of them; returns their sum.
 * Relative error of a weight below 1e-6; below exp(-87) it is 0. */
double bw_row_weigh(const float *row, int32_t n, float largest, float temperature, float *weights, double *blocks);
/* Those with weight >= least (and > 0), in ascending order of tokens; returns how many. */
int32_t bw_row_gather(const float *row, const float *weights, const double *blocks, int32_t n, float least,
                      bw_candidate *out);
/* The k first candidates (k < n), in ascending order of tokens; work [n]. Returns k. */
int32_t bw_row_top_k(const float *row, int32_t n, int32_t k, bw_candidate *out, bw_candidate *work);
/* The token at which the running sum of weights exceeds `at`. */
int32_t bw_row_pick(const float *weights, const double *blocks, int32_t n, double at);

void bw_candidates_weigh(bw_candidate *list, int32_t n, float largest, float temperature);
double bw_candidates_total(const bw_candidate *list, int32_t n);
/* Keep the first ones whose weights add up to `mass` (the one that reaches it included, at least one); the list's own
 * order stays. */
int32_t bw_candidates_top_p(bw_candidate *list, int32_t n, double mass, bw_candidate *work);
/* Keep those with weight >= least (and > 0). */
int32_t bw_candidates_min_weight(bw_candidate *list, int32_t n, float least);
int32_t bw_candidates_pick(const bw_candidate *list, int32_t n, double at);
/* Likeliest first; for short lists. */
void bw_candidates_sort(bw_candidate *list, int32_t n);

#endif
