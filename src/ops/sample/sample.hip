/* ROW_ARGMAX, ROW_TOP_K and ROW_SAMPLE on a GPU (bw_sample.h). Workgroups take parts of a row, then one puts each row's
 * parts together. The K first of keys that lie in registers are found by the bits of the K-th: 32 counts, fewer when a count
 * happens to be K. */
#include "bw_kernel.h"
#include "bw_words.h"
#include "sample/bw_sample.h"
#include "sample/bw_sample_args.h"

enum { BLOCK = BW_SAMPLE_BLOCK, EACH = BW_SAMPLE_EACH };

/* As row_key.h has it. */
BW_DEVICE uint32_t key_of(float x)
{
    uint32_t b = bw_bits(x);
    b = b == 0x80000000u ? 0 : b;
    b ^= b >> 31 ? 0xffffffffu : 0x80000000u;
    return b ? b : 1;
}
BW_DEVICE bool is_finite(float x)
{
    return (bw_bits(x) & 0x7f800000u) != 0x7f800000u;
}

/* ---- ROW_ARGMAX ------------------------------------------------------------------------------------------------ */

BW_DEVICE bw_sample_best better(bw_sample_best a, bw_sample_best b)
{
    const bool takes_b = b.key > a.key || (b.key == a.key && b.token < a.token);
    bw_sample_best r;
    r.key = takes_b ? b.key : a.key;
    r.token = takes_b ? b.token : a.token;
    r.bad = a.bad | b.bad;
    return r;
}

template <int THREADS> BW_DEVICE bw_sample_best block_best(bw_sample_best own)
{
    BW_SHARED bw_sample_best shared[THREADS / BW_WAVE];
#pragma unroll
    for (int mask = BW_WAVE / 2; mask > 0; mask >>= 1) {
        bw_sample_best other;
        other.key = bw_shuffle(own.key, bw_lane() ^ mask);
        other.token = bw_shuffle(own.token, bw_lane() ^ mask);
        other.bad = bw_shuffle(own.bad, bw_lane() ^ mask);
        own = better(own, other);
    }
    if (bw_lane() == 0)
        shared[bw_thread() / BW_WAVE] = own;
    bw_barrier();
    bw_sample_best all = shared[0];
#pragma unroll
    for (int i = 1; i < THREADS / BW_WAVE; i++)
        all = better(all, shared[i]);
    return all;
}

BW_DEVICE bw_sample_best no_best(void)
{
    bw_sample_best b;
    b.key = 0;
    b.token = 0xffffffffu;
    b.bad = 0;
    return b;
}

/* is_packed: every row begins at a multiple of 16 bytes. */
BW_KERNEL(BLOCK, row_argmax_parts)
(const bw_sample_args p, const float *logits, bw_sample_best *parts, int32_t is_packed)
{
    const int64_t row = p.first_row + bw_block_y();
    const int begin = (int)bw_block() * BW_SAMPLE_PART, left = p.n - begin;
    logits += row * p.row + begin;
    bw_sample_best best = no_best();
    auto take = [&](float x, int i) {
        bw_sample_best one;
        one.key = key_of(x);
        one.token = (uint32_t)(begin + i);
        one.bad = is_finite(x) ? 0u : 1u;
        best = better(best, one);
    };
    if (is_packed && left >= BW_SAMPLE_PART) {
        bw_16 v[EACH / 4];
#pragma unroll
        for (int e = 0; e < EACH / 4; e++)
            v[e] = bw_load16(logits + (e * BLOCK + bw_thread()) * 4);
#pragma unroll
        for (int e = 0; e < EACH / 4; e++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                take(bw_from_bits(v[e].w[j]), (e * BLOCK + bw_thread()) * 4 + j);
    } else {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            int i = e * BLOCK + bw_thread();
            if (i < left)
                take(logits[i], i);
        }
    }
    best = block_best<BLOCK>(best);
    if (bw_thread() == 0)
        parts[row * p.n_parts + bw_block()] = best;
}

BW_KERNEL(BLOCK, row_argmax_join)
(const bw_sample_args p, const bw_sample_best *parts, int32_t *tokens, int32_t *finite)
{
    const int64_t row = p.first_row + bw_block();
    bw_sample_best best = no_best();
    for (int i = bw_thread(); i < p.n_parts; i += BLOCK)
        best = better(best, parts[row * p.n_parts + i]);
    best = block_best<BLOCK>(best);
    if (bw_thread() == 0) {
        tokens[row] = (int32_t)best.token;
        finite[row] = best.bad ? 0 : 1;
    }
}

/* ---- ROW_TOP_K ------------------------------------------------------------------------------------------------- */

/* Sums over a workgroup; each call with the other half of `shared`, so that one barrier is enough. */
template <int THREADS> BW_DEVICE float count_all(int own, float (&shared)[2][THREADS / BW_WAVE], int half)
{
    float sum = bw_wave_sum((float)own); /* below 2^24: exact */
    if (bw_lane() == 0)
        shared[half][bw_thread() / BW_WAVE] = sum;
    bw_barrier();
    sum = 0;
#pragma unroll
    for (int i = 0; i < THREADS / BW_WAVE; i++)
        sum += shared[half][i];
    return sum;
}

BW_DEVICE uint32_t from_lane(uint32_t x, int lane)
{
    return bw_shuffle(x, lane);
}
BW_DEVICE uint64_t from_lane(uint64_t x, int lane)
{
    const uint32_t low = bw_shuffle((uint32_t)x, lane), high = bw_shuffle((uint32_t)(x >> 32), lane);
    return (uint64_t)high << 32 | low;
}

/* The sum of `own` over the threads before this one, and over all. */
template <int THREADS, typename T> BW_DEVICE T count_before(T own, T *all)
{
    BW_SHARED T shared[THREADS / BW_WAVE];
    T sum = own;
#pragma unroll
    for (int step = 1; step < BW_WAVE; step *= 2) {
        T other = from_lane(sum, (bw_lane() - step) & (BW_WAVE - 1));
        sum += bw_lane() >= step ? other : 0;
    }
    bw_barrier(); /* for a call before */
    if (bw_lane() == BW_WAVE - 1)
        shared[bw_thread() / BW_WAVE] = sum;
    bw_barrier();
    T before = sum - own, total = 0;
#pragma unroll
    for (int i = 0; i < THREADS / BW_WAVE; i++) {
        before += i < bw_thread() / BW_WAVE ? shared[i] : 0;
        total += shared[i];
    }
    *all = total;
    return before;
}

/* Of keys that lie in registers, in the order of threads and then of e, the k first by (key, order); keys of 0 are
 * none (no number has it). put(place, e): that key e of this thread belongs to them; places are 0, 1, ... in no order of
 * keys, but equal keys keep theirs. Fewer than k keys: all of them. Returns how many. */
template <int THREADS, int N, typename F> BW_DEVICE int select(const uint32_t (&keys)[N], int k, F put)
{
    BW_SHARED float shared[2][THREADS / BW_WAVE];
    uint32_t least = 0;
    bool is_exact = false;
    for (int bit = 31; bit >= 0 && !is_exact; bit--) { /* the same for all threads */
        const uint32_t tried = least | 1u << bit;
        int own = 0;
#pragma unroll
        for (int e = 0; e < N; e++)
            own += keys[e] >= tried;
        float n = count_all<THREADS>(own, shared, bit & 1);
        least = n >= (float)k ? tried : least;
        is_exact = n == (float)k;
    }
    /* The k-th key is `least`, or with is_exact those from `least` on are k. */
    uint32_t above = 0, equal = 0, all_above, all_equal;
#pragma unroll
    for (int e = 0; e < N; e++) {
        above += keys[e] > least;
        equal += keys[e] == least && least != 0;
    }
    above = count_before<THREADS>(above, &all_above);
    equal = count_before<THREADS>(equal, &all_equal) + all_above;
    /* Another name for it: the comparisons above would be kept, two for each key, in more scalar registers than there
     * are. */
    const uint32_t bound = bw_shuffle(least, bw_lane());
#pragma unroll
    for (int e = 0; e < N; e++) {
        if (keys[e] > bound)
            put((int)above++, e);
        else if (keys[e] == bound && bound != 0 && equal < (uint32_t)k)
            put((int)equal++, e);
    }
    uint32_t n = all_above + all_equal;
    return n < (uint32_t)k ? (int)n : k;
}

BW_KERNEL(BLOCK, row_top_k_parts)
(const bw_sample_args p, const float *logits, const float *temperatures, bw_sample_candidate *candidates,
 bw_sample_sums *sums)
{
    BW_SHARED float shared[BLOCK / BW_WAVE];
    const int64_t row = p.first_row + bw_block_y(), part = row * p.n_parts + bw_block();
    const int begin = (int)bw_block() * BW_SAMPLE_PART, left = p.n - begin, first = bw_thread() * EACH;
    logits += row * p.row + begin;
    candidates += part * p.k;
    uint32_t keys[EACH];
    float x[EACH], most = -__builtin_inff(), bad = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const bool is_there = first + e < left;
        x[e] = is_there ? logits[first + e] : -__builtin_inff();
        keys[e] = is_there ? key_of(x[e]) : 0;
        bad = is_there && !is_finite(x[e]) ? 1.0f : bad;
        most = x[e] > most ? x[e] : most;
    }
    most = bw_block_max<BLOCK>(most, shared);
    const float inverse = 1 / temperatures[row];
    float weight = 0, likelihood = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        float below = first + e < left ? x[e] - most : -__builtin_inff();
        weight += bw_exp(below * inverse);
        likelihood += bw_exp(below);
    }
    weight = bw_block_sum<BLOCK>(weight, shared);
    likelihood = bw_block_sum<BLOCK>(likelihood, shared);
    bad = bw_block_max<BLOCK>(bad, shared);
    if (bw_thread() == 0) {
        bw_sample_sums s;
        s.largest = most;
        s.weight = weight;
        s.likelihood = likelihood;
        s.bad = bad;
        sums[part] = s;
    }
    int n = select<BLOCK>(keys, p.k, [&](int place, int e) {
        bw_sample_candidate c;
        c.key = keys[e];
        c.token = begin + first + e;
        candidates[place] = c;
    });
    for (int i = n + bw_thread(); i < p.k; i += BLOCK) {
        bw_sample_candidate none;
        none.key = 0;
        none.token = -1;
        candidates[i] = none;
    }
}

BW_KERNEL(BW_SAMPLE_JOIN, row_top_k_join)
(const bw_sample_args p, const float *logits, const float *temperatures, const bw_sample_candidate *candidates,
 const bw_sample_sums *parts, float *values, int32_t *tokens, float *sums)
{
    enum { THREADS = BW_SAMPLE_JOIN, N = BW_SAMPLE_JOIN_EACH };
    BW_SHARED bw_sample_candidate best[BW_SAMPLE_MOST_K];
    BW_SHARED float shared[THREADS / BW_WAVE];
    const int64_t row = p.first_row + bw_block();
    candidates += row * p.n_parts * p.k;
    parts += row * p.n_parts;
    const int n = p.n_parts * p.k, each = (n + THREADS - 1) / THREADS, first = bw_thread() * each;
    uint32_t keys[N];
#pragma unroll
    for (int e = 0; e < N; e++)
        keys[e] = e < each && first + e < n ? candidates[first + e].key : 0;
    select<THREADS>(keys, p.k, [&](int place, int e) { best[place] = candidates[first + e]; });
    bw_barrier();
    /* Each finds its place among the K. */
    if (bw_thread() < p.k) {
        const bw_sample_candidate own = best[bw_thread()];
        int place = 0;
        for (int i = 0; i < p.k; i++) {
            const bw_sample_candidate other = best[i];
            place += other.key > own.key || (other.key == own.key && other.token < own.token);
        }
        values[row * p.k + place] = logits[row * p.row + own.token];
        tokens[row * p.k + place] = own.token;
    }
    float most = -__builtin_inff(), weight = 0, likelihood = 0, bad = 0;
    for (int i = bw_thread(); i < p.n_parts; i += THREADS) {
        most = parts[i].largest > most ? parts[i].largest : most;
        bad = parts[i].bad > bad ? parts[i].bad : bad;
    }
    most = bw_block_max<THREADS>(most, shared);
    bad = bw_block_max<THREADS>(bad, shared);
    const float inverse = 1 / temperatures[row];
    for (int i = bw_thread(); i < p.n_parts; i += THREADS) {
        float below = parts[i].largest - most;
        weight += parts[i].weight * bw_exp(below * inverse);
        likelihood += parts[i].likelihood * bw_exp(below);
    }
    weight = bw_block_sum<THREADS>(weight, shared);
    likelihood = bw_block_sum<THREADS>(likelihood, shared);
    if (bw_thread() == 0) {
        const bool finite = bad == 0;
        sums += row * BW_ROW_SUMS;
        sums[BW_ROW_LARGEST] = finite ? most : 0.0f;
        sums[BW_ROW_WEIGHT] = finite ? weight : 0.0f;
        sums[BW_ROW_LIKELIHOOD] = finite ? likelihood : 0.0f;
        sums[BW_ROW_FINITE] = finite ? 1.0f : 0.0f;
    }
}

/* ---- ROW_SAMPLE ------------------------------------------------------------------------------------------------ */

/* Back from a key; of 0 and -0, which have the same, 0. */
BW_DEVICE float logit_of(uint32_t key)
{
    return bw_from_bits(key >> 31 ? key ^ 0x80000000u : ~key);
}

/* In multiples of BW_SAMPLE_UNIT. inverse: 1 / temperature, infinity for 0. */
BW_DEVICE uint64_t weigh(float x, float largest, float inverse, float least)
{
    const float w = x < largest ? bw_exp((x - largest) * inverse) : 1.0f;
    return w < least ? 0 : (uint64_t)(w * (1 / BW_SAMPLE_UNIT));
}

/* A row's best from those of its parts: BLOCK at most. */
BW_DEVICE bw_sample_best row_best(const bw_sample_best *parts, int n_parts)
{
    bw_sample_best best = no_best();
    if (bw_thread() < n_parts)
        best = parts[bw_thread()];
    return block_best<BLOCK>(best);
}

BW_KERNEL(BLOCK, row_sample_parts)
(const bw_sample_args p, const float *logits, const float *temperatures, const float *leasts,
 const bw_sample_best *parts, uint64_t *weights)
{
    BW_SHARED float shared[BLOCK / BW_WAVE];
    const int64_t row = p.first_row + bw_block_y();
    const int begin = (int)bw_block() * BW_SAMPLE_PART, left = p.n - begin;
    logits += row * p.row + begin;
    const float largest = logit_of(row_best(parts + row * p.n_parts, p.n_parts).key);
    const float inverse = 1 / temperatures[row], least = leasts[row];
    uint64_t own = 0, all;
    float bad = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int i = e * BLOCK + bw_thread();
        if (i < left) {
            const float x = logits[i];
            own += weigh(x, largest, inverse, least);
            bad = !is_finite(x) && bw_bits(x) != 0xff800000u ? 1.0f : bad;
        }
    }
    bad = bw_block_max<BLOCK>(bad, shared);
    count_before<BLOCK>(own, &all);
    if (bw_thread() == 0)
        weights[row * p.n_parts + bw_block()] = bad != 0 ? BW_SAMPLE_BAD : all;
}

/* Each thread has a part's sum, then in the part where the share of the whole lies some of its tokens. */
BW_KERNEL(BLOCK, row_sample_join)
(const bw_sample_args p, const float *logits, const float *temperatures, const float *leasts, const uint32_t *randoms,
 const bw_sample_best *parts, const uint64_t *weights, int32_t *tokens, int32_t *finite)
{
    BW_SHARED float shared[BLOCK / BW_WAVE];
    BW_SHARED uint64_t shared_at;
    BW_SHARED int shared_place;
    const int64_t row = p.first_row + bw_block();
    const bw_sample_best best = row_best(parts + row * p.n_parts, p.n_parts);
    const float largest = logit_of(best.key), inverse = 1 / temperatures[row], least = leasts[row];
    uint64_t own = bw_thread() < p.n_parts ? weights[row * p.n_parts + bw_thread()] : 0, all;
    const bool is_bad = bw_block_max<BLOCK>(own == BW_SAMPLE_BAD ? 1.0f : 0.0f, shared) != 0 || !is_finite(largest);
    if (bw_thread() == 0) {
        shared_at = 0;
        shared_place = (int)(best.token / BW_SAMPLE_PART);
        if (is_bad)
            tokens[row] = -1;
        finite[row] = best.bad ? 0 : 1;
    }
    if (is_bad)
        return; /* all threads */
    uint64_t before = count_before<BLOCK>(own, &all), random = randoms[row];
    uint64_t at = (all >> 32) * random + ((all & 0xffffffffu) * random >> 32);
    if (at >= before && at - before < own) { /* one thread: at < all */
        shared_at = at - before;
        shared_place = bw_thread();
    }
    bw_barrier();
    at = shared_at;
    const int begin = shared_place * BW_SAMPLE_PART, first = begin + bw_thread() * EACH;
    bw_barrier();
    if (bw_thread() == 0)
        shared_place = (int)best.token;
    logits += row * p.row;
    uint64_t w[EACH];
    own = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        w[e] = first + e < p.n ? weigh(logits[first + e], largest, inverse, least) : 0;
        own += w[e];
    }
    before = count_before<BLOCK>(own, &all);
    at = at < all ? at : all - 1; /* were the compiler to round a weight otherwise here than in the other kernel */
    if (at >= before && at - before < own) {
        int place = first;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            place = before <= at ? first + e : place;
            before += w[e];
        }
        shared_place = place;
    }
    bw_barrier();
    if (bw_thread() == 0)
        tokens[row] = shared_place;
}
