/* See sampler_row.h. Selection is by quickselect with a pivot from three elements; the result never depends on how the
 * partitions fell, because only a threshold is taken from them. */
#include "sampler_row.h"

#include <math.h>
#include <string.h>

static int32_t bits_of(float x)
{
    int32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

/* Signed integers in the order of the floats; -0 counts as +0. */
static int32_t key_of(float x)
{
    int32_t b = bits_of(x + 0.0f);
    return b ^ (b >> 31 & 0x7fffffff);
}

int32_t bw_row_argmax(const float *row, int32_t n, bool *finite)
{
    int32_t best = INT32_MIN, best_block = 0, bad = 0;
    for (int32_t b = 0; b < n; b += BW_ROW_BLOCK) {
        int32_t end = n - b < BW_ROW_BLOCK ? n : b + BW_ROW_BLOCK, m = INT32_MIN;
        for (int32_t i = b; i < end; i++) {
            int32_t k = key_of(row[i]);
            m = k > m ? k : m;
            bad |= (bits_of(row[i]) & 0x7f800000) == 0x7f800000;
        }
        if (m > best) {
            best = m;
            best_block = b;
        }
    }
    *finite = bad == 0;
    int32_t i = best_block;
    while (key_of(row[i]) != best)
        i++;
    return i;
}

static int32_t largest_key(const float *row, int32_t n)
{
    int32_t m = INT32_MIN;
    for (int32_t i = 0; i < n; i++) {
        int32_t k = key_of(row[i]);
        m = k > m ? k : m;
    }
    return m;
}

/* exp for x <= 0: 2^n times a polynomial in the rest, |rest| <= ln 2 / 2 (the Taylor series to the 6th power). */
static inline float exp_negative(float x)
{
    float y = x < -87.0f ? -87.0f : x;
    int32_t n = (int32_t)(y * 1.44269504f - 0.5f); /* truncates towards 0, so this rounds to nearest */
    float f = (float)n;
    float r = (y - f * 0.693359375f) + f * 2.12194440e-4f;
    float p = 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t scale = (n + 127) << 23;
    float s;
    memcpy(&s, &scale, sizeof s);
    return x < -87.0f ? 0.0f : p * s;
}

double bw_row_weigh(const float *row, int32_t n, float largest, float temperature, float *weights, double *blocks)
{
    float inverse = 1.0f / temperature;
    double total = 0;
    for (int32_t b = 0; b < n; b += BW_ROW_BLOCK) {
        int32_t end = n - b < BW_ROW_BLOCK ? n : b + BW_ROW_BLOCK;
        for (int32_t i = b; i < end; i++)
            weights[i] = exp_negative((row[i] - largest) * inverse);
        double lanes[8] = {0};
        int32_t i = b;
        for (; i + 8 <= end; i += 8)
            for (int32_t j = 0; j < 8; j++)
                lanes[j] += (double)weights[i + j];
        for (; i < end; i++)
            lanes[0] += (double)weights[i];
        double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
        blocks[b / BW_ROW_BLOCK] = sum;
        total += sum;
    }
    return total;
}

int32_t bw_row_gather(const float *row, const float *weights, const double *blocks, int32_t n, float least,
                      bw_candidate *out)
{
    int32_t m = 0;
    for (int32_t b = 0; b < n; b += BW_ROW_BLOCK) {
        int32_t end = n - b < BW_ROW_BLOCK ? n : b + BW_ROW_BLOCK;
        if (blocks[b / BW_ROW_BLOCK] < (double)least)
            continue;
        for (int32_t i = b; i < end; i++) {
            if (weights[i] >= least && weights[i] > 0)
                out[m++] = (bw_candidate){.logit = row[i], .weight = weights[i], .token = i};
        }
    }
    return m;
}

int32_t bw_row_pick(const float *weights, const double *blocks, int32_t n, double at)
{
    double sum = 0;
    int32_t b = 0, last = 0;
    while ((b + 1) * BW_ROW_BLOCK < n && sum + blocks[b] <= at)
        sum += blocks[b++];
    for (int32_t i = b * BW_ROW_BLOCK; i < n; i++) {
        if (weights[i] <= 0)
            continue;
        last = i;
        sum += (double)weights[i];
        if (sum > at)
            return i;
    }
    /* rounding left `at` at or above the whole sum: the last one that has weight */
    for (int32_t i = n - 1; i > last; i--)
        if (weights[i] > 0)
            return i;
    while (last > 0 && weights[last] <= 0)
        last--;
    return last;
}

static void swap(bw_candidate *a, bw_candidate *b)
{
    bw_candidate t = *a;
    *a = *b;
    *b = t;
}

/* Partition list[lo..hi) around one of its elements; returns where that element ended: all before it come before. */
static int32_t partition(bw_candidate *list, int32_t lo, int32_t hi)
{
    int32_t mid = lo + (hi - lo) / 2, last = hi - 1;
    if (bw_candidate_before(&list[mid], &list[lo]))
        swap(&list[mid], &list[lo]);
    if (bw_candidate_before(&list[last], &list[lo]))
        swap(&list[last], &list[lo]);
    if (bw_candidate_before(&list[mid], &list[last]))
        swap(&list[mid], &list[last]);
    bw_candidate pivot = list[last];
    int32_t at = lo;
    for (int32_t i = lo; i < last; i++)
        if (bw_candidate_before(&list[i], &pivot))
            swap(&list[i], &list[at++]);
    swap(&list[at], &list[last]);
    return at;
}

/* Reorder so that the k first come first (1 <= k <= n); returns the k-th. */
static bw_candidate select_k(bw_candidate *list, int32_t n, int32_t k)
{
    int32_t lo = 0, hi = n;
    while (hi - lo > 1) {
        int32_t at = partition(list, lo, hi);
        if (at == k - 1)
            break;
        if (at > k - 1)
            hi = at;
        else
            lo = at + 1;
    }
    return list[k - 1];
}

static int32_t keep_until(bw_candidate *list, int32_t n, const bw_candidate *last)
{
    int32_t m = 0;
    for (int32_t i = 0; i < n; i++)
        if (!bw_candidate_before(last, &list[i]))
            list[m++] = list[i];
    return m;
}

int32_t bw_row_top_k(const float *row, int32_t n, int32_t k, bw_candidate *out, bw_candidate *work)
{
    /* Collect into `work` what is not below the k-th of those seen so far; when it is full, cut it back to k. */
    int32_t cap = k > n / 4 ? n : (k < 64 ? 256 : 4 * k), m = 0;
    float least = -INFINITY;
    if (cap > n)
        cap = n;
    for (int32_t b = 0; b < n; b += BW_ROW_BLOCK) {
        int32_t end = n - b < BW_ROW_BLOCK ? n : b + BW_ROW_BLOCK;
        if (m >= k && largest_key(row + b, end - b) <= key_of(least))
            continue;
        for (int32_t i = b; i < end; i++) {
            /* equal to the k-th with a larger token: comes after it, so it cannot enter */
            if (m >= k && !(row[i] > least))
                continue;
            work[m++] = (bw_candidate){.logit = row[i], .token = i};
            if (m == cap && i + 1 < n) {
                least = select_k(work, m, k).logit;
                m = k;
            }
        }
    }
    bw_candidate last = select_k(work, m, k);
    m = 0;
    for (int32_t b = 0; b < n; b += BW_ROW_BLOCK) {
        int32_t end = n - b < BW_ROW_BLOCK ? n : b + BW_ROW_BLOCK;
        if (largest_key(row + b, end - b) < key_of(last.logit))
            continue;
        for (int32_t i = b; i < end; i++)
            if (row[i] > last.logit || (row[i] == last.logit && i <= last.token))
                out[m++] = (bw_candidate){.logit = row[i], .token = i};
    }
    return m;
}

void bw_candidates_weigh(bw_candidate *list, int32_t n, float largest, float temperature)
{
    float inverse = 1.0f / temperature;
    for (int32_t i = 0; i < n; i++)
        list[i].weight = exp_negative((list[i].logit - largest) * inverse);
}

double bw_candidates_total(const bw_candidate *list, int32_t n)
{
    double total = 0;
    for (int32_t i = 0; i < n; i++)
        total += (double)list[i].weight;
    return total;
}

int32_t bw_candidates_top_p(bw_candidate *list, int32_t n, double mass, bw_candidate *work)
{
    if (n <= 1)
        return n;
    memcpy(work, list, (size_t)n * sizeof *work);
    int32_t lo = 0, hi = n;
    double before = 0; /* the weight of work[0..lo), all of which is kept */
    while (hi - lo > 1) {
        int32_t at = partition(work, lo, hi);
        double head = before + bw_candidates_total(work + lo, at - lo);
        if (head >= mass && at > lo) {
            hi = at;
        } else if (head + (double)work[at].weight >= mass || at + 1 >= hi) {
            lo = at;
            break;
        } else {
            before = head + (double)work[at].weight;
            lo = at + 1;
        }
    }
    bw_candidate last = work[lo];
    return keep_until(list, n, &last);
}

int32_t bw_candidates_min_weight(bw_candidate *list, int32_t n, float least)
{
    int32_t m = 0;
    for (int32_t i = 0; i < n; i++)
        if (list[i].weight >= least && list[i].weight > 0)
            list[m++] = list[i];
    return m;
}

int32_t bw_candidates_pick(const bw_candidate *list, int32_t n, double at)
{
    double sum = 0;
    int32_t last = list[0].token;
    for (int32_t i = 0; i < n; i++) {
        if (list[i].weight <= 0)
            continue;
        last = list[i].token;
        sum += (double)list[i].weight;
        if (sum > at)
            break;
    }
    return last;
}

void bw_candidates_sort(bw_candidate *list, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        for (int32_t j = i; j > 0 && bw_candidate_before(&list[j], &list[j - 1]); j--)
            swap(&list[j], &list[j - 1]);
}
