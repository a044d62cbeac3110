/* RAND_UNIFORM, RAND_NORMAL and RAND_BITS, element by element in f64. */
#include <math.h>

#include "random/random_core.h"

/* Calls one(context, element number, offset in elements) for every element in order. */
typedef void element_fn(const void *context, int64_t i, int64_t offset);

static void for_each(const bw_tensor *y, element_fn *one, const void *context)
{
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 1, (const bw_tensor *[]){y});
    bw_loop_cursor cursor;
    bw_span span;
    int64_t i = 0;
    bw_loop_begin(&cursor, &loop, 0, loop.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t k = 0; k < span.n; k++)
            one(context, i++, span.offset[0] + k * bw_loop_step(&loop, 0));
}

typedef struct job {
    random_blocks blocks;
    bw_tensor *y;
    double a, b; /* lo and up, or mean and std */
} job;

/* Uniform numbers of an element's block: number k of a block, in [0, 1) for PHILOX, in (0, 1] for TORCH_CUDA. */
static double philox_unit(const job *j, const uint32_t words[4], int k)
{
    if (j->y->dtype == BW_F64)
        return (double)(random_pair(&j->blocks, words, k) >> 11) * 0x1p-53;
    return (double)(words[k] >> 8) * 0x1p-24;
}

static double curand_unit(const job *j, const uint32_t words[4], int k)
{
    if (j->y->dtype == BW_F64)
        return (double)random_curand_53(words + 2 * k) * 0x1p-53 + 0x1p-54;
    return (double)((float)words[k] * 0x1p-32f + 0x1p-33f);
}

/* unit * range + lo, rounded once in f64 or f32, then to the type: what bw_random.h says, bit for bit. */
static double scaled(bw_dtype dtype, double unit, double range, double lo)
{
    if (dtype == BW_F64)
        return fma(unit, range, lo);
    return bw_element_round(dtype, (double)fmaf((float)unit, (float)range, (float)lo));
}

static void uniform_element(const void *context, int64_t i, int64_t offset)
{
    const job *j = context;
    bw_dtype dtype = j->y->dtype;
    uint32_t words[4];
    random_place place = random_blocks_place(&j->blocks, i);
    random_blocks_draw(&j->blocks, &place, words);
    double v;
    if (j->blocks.source.mode == BW_RANDOM_TORCH_CUDA) {
        double lo = bw_element_round(dtype, j->a), up = bw_element_round(dtype, j->b);
        v = scaled(dtype, curand_unit(j, words, place.slot), bw_element_round(dtype, up - lo), lo);
        v = v == up ? lo : v;
    } else {
        v = scaled(dtype, philox_unit(j, words, place.slot), j->b - j->a, j->a);
        if (v >= j->b && j->a < j->b)
            v = fmax(bw_random_below(dtype, j->b), bw_element_round(dtype, j->a));
    }
    bw_element_set_f64(dtype, j->y->data, offset, v);
}

/* The angle of cuRAND's Box and Muller transform: f32 as a card computes it (one rounding for a * b + c), f64 as a
 * multiple of pi. */
static double curand_angle(const job *j, const uint32_t words[4], int k)
{
    const double pi = 3.14159265358979323846;
    if (j->y->dtype == BW_F64)
        return ((double)random_curand_53(words + 2 * k) * 0x1p-52 + 0x1p-53) * pi;
    const float scale = 0x1p-32f * 6.2831855f;
    return (double)fmaf((float)words[k], scale, scale / 2);
}

static void normal_element(const void *context, int64_t i, int64_t offset)
{
    const job *j = context;
    const double pi = 3.14159265358979323846;
    uint32_t words[4];
    random_place place = random_blocks_place(&j->blocks, i);
    random_blocks_draw(&j->blocks, &place, words);
    int first = place.slot & ~1; /* a pair of elements shares two uniform numbers */
    bool is_second = place.slot & 1;
    double z;
    if (j->blocks.source.mode == BW_RANDOM_TORCH_CUDA) {
        double radius = sqrt(-2 * log(curand_unit(j, words, first))), angle = curand_angle(j, words, first + 1);
        z = radius * (is_second ? cos(angle) : sin(angle));
    } else {
        double least = j->y->dtype == BW_F64 ? 0x1p-53 : 0x1p-24;
        double radius = sqrt(-2 * log(philox_unit(j, words, first) + least));
        double angle = 2 * pi * philox_unit(j, words, first + 1);
        z = radius * (is_second ? sin(angle) : cos(angle));
    }
    bw_element_set_f64(j->y->dtype, j->y->data, offset, z * j->b + j->a);
}

static void bits_element(const void *context, int64_t i, int64_t offset)
{
    const job *j = context;
    uint32_t words[4];
    random_place place = random_blocks_place(&j->blocks, i);
    random_blocks_draw(&j->blocks, &place, words);
    uint64_t v = j->y->dtype == BW_I64 ? random_pair(&j->blocks, words, place.slot) : words[place.slot];
    bw_element_set_i64(j->y->dtype, j->y->data, offset, (int64_t)v);
}

static void run(const bw_op_call *call, const bw_random_source *source, element_fn *one, double a, double b)
{
    if (source->mode == BW_RANDOM_TORCH_CPU) {
        bw_random_torch_cpu(call, source);
        return;
    }
    job j = {.y = call->out[0], .a = a, .b = b};
    random_blocks_init(&j.blocks, source, j.y);
    for_each(j.y, one, &j);
}

void bw_op_rand_uniform_ref(const bw_op_call *call)
{
    const bw_rand_uniform_params *p = call->params;
    run(call, &p->source, uniform_element, p->lo, p->up);
}

void bw_op_rand_normal_ref(const bw_op_call *call)
{
    const bw_rand_normal_params *p = call->params;
    run(call, &p->source, normal_element, p->mean, p->std);
}

void bw_op_rand_bits_ref(const bw_op_call *call)
{
    const bw_rand_bits_params *p = call->params;
    run(call, &p->source, bits_element, 0, 0);
}
