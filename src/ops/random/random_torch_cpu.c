/* The random family as PyTorch's CPU generator: MT19937 and, for normal numbers, blocks of sixteen. One sequence, so
 * one thread; refuses nothing (random_check.c did). */
#include <math.h>

#include "random/random_core.h"

enum { N = 624, M = 397 };

typedef struct twister {
    uint32_t state[N];
    int at;
} twister;

static void seed_twister(twister *t, uint32_t seed)
{
    t->state[0] = seed;
    for (uint32_t i = 1; i < N; i++) {
        uint32_t x = t->state[i - 1];
        t->state[i] = 1812433253u * (x ^ x >> 30) + i;
    }
    t->at = N;
}

static uint32_t next_u32(twister *t)
{
    if (t->at == N) {
        for (int i = 0; i < N; i++) {
            uint32_t y = (t->state[i] & 0x80000000u) | (t->state[(i + 1) % N] & 0x7fffffffu);
            t->state[i] = t->state[(i + M) % N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        t->at = 0;
    }
    uint32_t y = t->state[t->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

static uint64_t next_u64(twister *t)
{
    uint64_t high = next_u32(t);
    return high << 32 | next_u32(t);
}

/* In [0, 1): 53 bits for f64, 24 for the others. */
static double next_unit(twister *t, bw_dtype dtype)
{
    if (dtype == BW_F64)
        return (double)(next_u64(t) & (((uint64_t)1 << 53) - 1)) * 0x1p-53;
    return (double)(next_u32(t) & ((1u << 24) - 1)) * 0x1p-24;
}

/* Where logical element i lies. */
static int64_t offset_of(const bw_tensor *y, int64_t i)
{
    int64_t offset = 0;
    for (int d = y->n_dims - 1; d >= 0; d--) {
        offset += i % y->dims[d] * y->strides[d];
        i /= y->dims[d];
    }
    return offset;
}

static void store(const bw_tensor *y, int64_t i, double value)
{
    if (y->dtype != BW_F64)
        value = (double)(float)value;
    bw_element_set_f64(y->dtype, y->data, offset_of(y, i), value);
}

/* Sixteen normal numbers from sixteen uniform ones: number j and number j + 8 make a pair. The first n are stored. */
static void store_sixteen(twister *t, const bw_tensor *y, int64_t first, int64_t n, double mean, double std)
{
    const double two_pi = 2 * 3.14159265358979323846;
    double u[16];
    for (int j = 0; j < 16; j++)
        u[j] = next_unit(t, y->dtype);
    for (int j = 0; j < 8; j++) {
        double radius = sqrt(-2 * log(1 - u[j]));
        double angle = y->dtype == BW_F64 ? two_pi * u[j + 8] : (double)((float)two_pi * (float)u[j + 8]);
        if (j < n)
            store(y, first + j, radius * cos(angle) * std + mean);
        if (j + 8 < n)
            store(y, first + j + 8, radius * sin(angle) * std + mean);
    }
}

static void normal(twister *t, const bw_tensor *y, double mean, double std)
{
    const double two_pi = 2 * 3.14159265358979323846;
    int64_t n = bw_tensor_elements(y);
    if (n < 16) { /* pairs from two f64 numbers each, whatever the type */
        for (int64_t i = 0; i < n; i += 2) {
            double angle = two_pi * next_unit(t, BW_F64), radius = sqrt(-2 * log1p(-next_unit(t, BW_F64)));
            store(y, i, radius * cos(angle) * std + mean);
            if (i + 1 < n)
                store(y, i + 1, radius * sin(angle) * std + mean);
        }
        return;
    }
    int64_t kept = n % 16 == 0 ? n : n - 16; /* a remainder has the last sixteen drawn anew, after all the others */
    for (int64_t i = 0; i + 16 <= n; i += 16)
        store_sixteen(t, y, i, i + 16 <= kept ? 16 : kept - i, mean, std);
    if (kept < n) { /* f32 and f64 first draw the remainder's own numbers, f16 and bf16 do not */
        bool draws_all = y->dtype == BW_F32 || y->dtype == BW_F64;
        for (int64_t i = 0; i < n % 16 && draws_all; i++)
            next_unit(t, y->dtype);
        store_sixteen(t, y, kept, 16, mean, std);
    }
}

void bw_random_torch_cpu(const bw_op_call *call, const bw_random_source *source)
{
    twister t;
    const bw_tensor *y = call->out[0];
    int64_t n = bw_tensor_elements(y);
    seed_twister(&t, (uint32_t)source->seed);
    for (uint64_t i = 0; i < source->offset; i++)
        next_u32(&t);
    if (call->op == BW_OP_RAND_NORMAL) {
        const bw_rand_normal_params *p = call->params;
        normal(&t, y, p->mean, p->std);
    } else if (call->op == BW_OP_RAND_UNIFORM) {
        const bw_rand_uniform_params *p = call->params;
        double lo = bw_element_round(y->dtype, p->lo), up = bw_element_round(y->dtype, p->up);
        for (int64_t i = 0; i < n; i++) {
            double u = next_unit(&t, y->dtype);
            double v = y->dtype == BW_F64 ? u * (up - lo) + lo : (double)((float)u * (float)(up - lo) + (float)lo);
            v = bw_element_round(y->dtype, v);
            store(y, i, v == up ? lo : v);
        }
    } else {
        for (int64_t i = 0; i < n; i++)
            bw_element_set_i64(y->dtype, y->data, offset_of(y, i),
                               y->dtype == BW_I64 ? (int64_t)next_u64(&t) : (int64_t)next_u32(&t));
    }
}
