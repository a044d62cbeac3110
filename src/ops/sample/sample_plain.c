/* ROW_ARGMAX, ROW_TOP_K and ROW_SAMPLE on a CPU: members share the rows. */
#include <math.h>

#include "bw_op_check.h"
#include "sample/bw_sample_args.h"
#include "sample/row_key.h"

bw_op_kernel bw_row_argmax_plain, bw_row_top_k_plain, bw_row_sample_plain;

enum { BLOCK = 256 };

/* Blocks first: a loop that compilers turn into vector instructions. */
static int64_t argmax(const float *row, int64_t n, bool *finite)
{
    uint32_t best = 0, bad = 0;
    int64_t best_block = 0;
    for (int64_t b = 0; b < n; b += BLOCK) {
        int64_t end = n - b < BLOCK ? n : b + BLOCK;
        uint32_t most = 0;
        for (int64_t i = b; i < end; i++) {
            uint32_t key = bw_row_key(row[i]);
            most = key > most ? key : most;
            bad |= !bw_row_is_finite(row[i]);
        }
        if (most > best) {
            best = most;
            best_block = b;
        }
    }
    *finite = !bad;
    int64_t i = best_block;
    while (bw_row_key(row[i]) != best)
        i++;
    return i;
}

void bw_row_argmax_plain(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0];
    int64_t begin, end;
    while (bw_team_take(call->next, x->dims[0], 1, &begin, &end)) {
        bool finite;
        int64_t best = argmax((const float *)x->data + begin * x->strides[0], x->dims[1], &finite);
        ((int32_t *)call->out[0]->data)[begin] = (int32_t)best;
        ((int32_t *)call->out[1]->data)[begin] = finite;
    }
    (void)member;
}

/* The K first so far, as a heap in the outputs themselves: the last of them on top. */
typedef struct heap {
    float *values;
    int32_t *tokens;
    int64_t n;
} heap;

static bool is_after(const heap *h, int64_t a, int64_t b)
{
    uint32_t key_a = bw_row_key(h->values[a]), key_b = bw_row_key(h->values[b]);
    return key_a < key_b || (key_a == key_b && h->tokens[a] > h->tokens[b]);
}

static void swap(heap *h, int64_t a, int64_t b)
{
    float value = h->values[a];
    int32_t token = h->tokens[a];
    h->values[a] = h->values[b];
    h->tokens[a] = h->tokens[b];
    h->values[b] = value;
    h->tokens[b] = token;
}

static void sink(heap *h, int64_t i)
{
    for (int64_t child = 2 * i + 1; child < h->n; child = 2 * i + 1) {
        if (child + 1 < h->n && is_after(h, child + 1, child))
            child++;
        if (!is_after(h, child, i))
            return;
        swap(h, i, child);
        i = child;
    }
}

static void select(const float *row, int64_t n, heap *h)
{
    int64_t k = h->n;
    for (int64_t i = 0; i < k; i++) {
        h->values[i] = row[i];
        h->tokens[i] = (int32_t)i;
    }
    for (int64_t i = k / 2; i-- > 0;)
        sink(h, i);
    for (int64_t i = k; i < n; i++) {
        if (bw_row_key(row[i]) <= bw_row_key(h->values[0]))
            continue; /* an equal one with a larger token comes after */
        h->values[0] = row[i];
        h->tokens[0] = (int32_t)i;
        sink(h, 0);
    }
    while (h->n > 1) { /* the last one goes to the end */
        h->n--;
        swap(h, 0, h->n);
        sink(h, 0);
    }
}

void bw_row_top_k_plain(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0];
    int64_t begin, end, n = x->dims[1], k = call->out[0]->dims[1];
    while (bw_team_take(call->next, x->dims[0], 1, &begin, &end)) {
        const float *row = (const float *)x->data + begin * x->strides[0];
        float *values = (float *)call->out[0]->data + begin * k;
        float *sums = (float *)call->out[2]->data + begin * BW_ROW_SUMS;
        select(row, n, &(heap){values, (int32_t *)call->out[1]->data + begin * k, k});
        double temperature = (double)((const float *)call->in[1]->data)[begin], weight = 0, likelihood = 0;
        bool finite = true;
        for (int64_t i = 0; i < n; i++) {
            finite = finite && bw_row_is_finite(row[i]);
            weight += exp(((double)row[i] - (double)values[0]) / temperature);
            likelihood += exp((double)row[i] - (double)values[0]);
        }
        sums[BW_ROW_LARGEST] = finite ? values[0] : 0;
        sums[BW_ROW_WEIGHT] = finite ? (float)weight : 0;
        sums[BW_ROW_LIKELIHOOD] = finite ? (float)likelihood : 0;
        sums[BW_ROW_FINITE] = finite;
    }
    (void)member;
}

/* In multiples of BW_SAMPLE_UNIT, as the GPU's kernels count: `at` is then below the sum, so some token exceeds it. n
 * is below 2^21, where an unsigned sum fits, or the unit is larger. */
static uint64_t weigh(float x, float largest, float temperature, float least, int bits)
{
    float w = x < largest ? expf((x - largest) / temperature) : 1;
    return w < least ? 0 : (uint64_t)ldexpf(w, bits);
}

static int64_t sample(const float *row, int64_t n, float largest, float temperature, float least, uint32_t random)
{
    int bits = BW_SAMPLE_BITS;
    while (n >> (63 - bits) > 1)
        bits--;
    uint64_t total = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        total += weigh(row[i], largest, temperature, least, bits);
    const uint64_t at = (total >> 32) * random + ((total & 0xffffffffu) * random >> 32);
    for (int64_t i = 0; i < n; i++) {
        sum += weigh(row[i], largest, temperature, least, bits);
        if (sum > at)
            return i;
    }
    return -1;
}

void bw_row_sample_plain(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0];
    int64_t begin, end, n = x->dims[1];
    while (bw_team_take(call->next, x->dims[0], 1, &begin, &end)) {
        const float *row = (const float *)x->data + begin * x->strides[0];
        bool finite, drawable = true;
        float largest = row[argmax(row, n, &finite)];
        for (int64_t i = 0; i < n && !finite; i++)
            drawable = drawable && !bw_row_is_undrawable(row[i]);
        drawable = drawable && bw_row_is_finite(largest);
        ((int32_t *)call->out[0]->data)[begin] =
            drawable ? (int32_t)sample(row, n, largest, ((const float *)call->in[1]->data)[begin],
                                       ((const float *)call->in[2]->data)[begin],
                                       ((const uint32_t *)call->in[3]->data)[begin])
                     : -1;
        ((int32_t *)call->out[1]->data)[begin] = finite;
    }
    (void)member;
}
