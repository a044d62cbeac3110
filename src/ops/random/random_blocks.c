/* The random family shared between the members: the counter of a block is computed, so everyone begins anywhere. */
#include <math.h>

#include "random/random_core.h"

bool bw_random_supports_blocks(const bw_op_call *call, const bw_cpu_features *cpu);
bw_op_kernel bw_rand_uniform_blocks, bw_rand_normal_blocks, bw_rand_bits_blocks;

bool bw_random_supports_blocks(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)cpu;
    const bw_random_source *source = call->params; /* the first member of each params struct */
    return source->mode != BW_RANDOM_TORCH_CPU;
}

typedef struct job {
    random_blocks blocks;
    bw_tensor *y;
    double a, b; /* lo and up - lo, or mean and std */
    double up, below, least;
    uint32_t words[4];
    double values[4]; /* what the last block gave */
} job;

/* All values of j->words, into j->values. */
typedef void values_fn(job *j);

static void uniform_philox(job *j)
{
    bool is_wide = j->y->dtype == BW_F64;
    for (int k = 0; k < j->blocks.per_block; k++) {
        double v;
        if (is_wide)
            v = fma((double)(random_pair(&j->blocks, j->words, k) >> 11) * 0x1p-53, j->b, j->a);
        else
            v = bw_element_round(j->y->dtype,
                                 (double)fmaf((float)(j->words[k] >> 8) * 0x1p-24f, (float)j->b, (float)j->a));
        j->values[k] = v >= j->up && j->least < j->up ? j->below : v;
    }
}

static void uniform_cuda(job *j)
{
    bool is_wide = j->y->dtype == BW_F64;
    for (int k = 0; k < j->blocks.per_block; k++) {
        double v;
        if (is_wide)
            v = fma((double)random_curand_53(j->words + 2 * k) * 0x1p-53 + 0x1p-54, j->b, j->a);
        else
            v = bw_element_round(j->y->dtype,
                                 (double)fmaf((float)j->words[k] * 0x1p-32f + 0x1p-33f, (float)j->b, (float)j->a));
        j->values[k] = v == j->up ? j->a : v;
    }
}

/* sin and cos of a quarter turn times q, 0 <= q <= 4, in f32: the nearest whole quarter is taken off exactly. */
static void sincos_quarters(float q, float *sine, float *cosine)
{
    float whole = rintf(q), angle = (q - whole) * 1.57079633f;
    float s = sinf(angle), c = cosf(angle);
    int quarter = (int)whole & 3;
    *sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
    *cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
}

static void normal_philox(job *j)
{
    if (j->y->dtype == BW_F64) {
        double u1 = (double)(random_pair(&j->blocks, j->words, 0) >> 11) * 0x1p-53 + 0x1p-53;
        double angle = 2 * 3.14159265358979323846 * ((double)(random_pair(&j->blocks, j->words, 1) >> 11) * 0x1p-53);
        double radius = sqrt(-2 * log(u1));
        j->values[0] = fma(radius * cos(angle), j->b, j->a);
        j->values[1] = fma(radius * sin(angle), j->b, j->a);
        return;
    }
    for (int k = 0; k < 4; k += 2) {
        float u1 = (float)((j->words[k] >> 8) + 1) * 0x1p-24f, radius = sqrtf(-2 * logf(u1)), s, c;
        sincos_quarters((float)(j->words[k + 1] >> 8) * 0x1p-22f, &s, &c);
        j->values[k] = (double)fmaf(radius * c, (float)j->b, (float)j->a);
        j->values[k + 1] = (double)fmaf(radius * s, (float)j->b, (float)j->a);
    }
}

static void normal_cuda(job *j)
{
    if (j->y->dtype == BW_F64) {
        double angle = ((double)random_curand_53(j->words + 2) * 0x1p-52 + 0x1p-53) * 3.14159265358979323846;
        double radius = sqrt(-2 * log((double)random_curand_53(j->words) * 0x1p-53 + 0x1p-54));
        j->values[0] = fma(radius * sin(angle), j->b, j->a);
        j->values[1] = fma(radius * cos(angle), j->b, j->a);
        return;
    }
    const float scale = 0x1p-32f * 6.2831855f;
    for (int k = 0; k < 4; k += 2) {
        float radius = sqrtf(-2 * logf((float)j->words[k] * 0x1p-32f + 0x1p-33f));
        float angle = fmaf((float)j->words[k + 1], scale, scale / 2);
        j->values[k] = (double)fmaf(sinf(angle) * radius, (float)j->b, (float)j->a);
        j->values[k + 1] = (double)fmaf(cosf(angle) * radius, (float)j->b, (float)j->a);
    }
}

/* A value to its place; f16 and bf16 are the f32 value rounded. */
static void store(const job *j, int64_t offset, double v)
{
    if (j->y->dtype == BW_F32)
        ((float *)j->y->data)[offset] = (float)v;
    else if (j->y->dtype == BW_F64)
        ((double *)j->y->data)[offset] = v;
    else
        bw_element_set_f64(j->y->dtype, j->y->data, offset, v);
}

/* Elements [begin, end) of the output; values == NULL: the words themselves. */
static void fill(job *j, values_fn *values, const bw_loop *loop, int64_t begin, int64_t end)
{
    bw_loop_cursor cursor;
    bw_span span;
    int64_t i = begin, step = bw_loop_step(loop, 0);
    bool has_block = false;
    uint32_t last[4] = {0};
    bw_loop_begin(&cursor, loop, begin, end);
    while (bw_loop_next(&cursor, &span))
        for (int64_t k = 0; k < span.n; k++, i++) {
            int64_t offset = span.offset[0] + k * step;
            random_place place = random_blocks_place(&j->blocks, i);
            if (!has_block || memcmp(last, place.counter, sizeof last) != 0) {
                memcpy(last, place.counter, sizeof last);
                has_block = true;
                random_blocks_draw(&j->blocks, &place, j->words);
                if (values)
                    values(j);
            }
            if (values)
                store(j, offset, j->values[place.slot]);
            else if (j->y->dtype == BW_I64)
                ((uint64_t *)j->y->data)[offset] = random_pair(&j->blocks, j->words, place.slot);
            else
                ((uint32_t *)j->y->data)[offset] = j->words[place.slot];
        }
}

static void run(job *j, const bw_random_source *source, bw_member *member, values_fn *values)
{
    bw_loop loop;
    int64_t begin, end;
    random_blocks_init(&j->blocks, source, j->y);
    bw_loop_init(&loop, j->y->n_dims, j->y->dims, 1, (const bw_tensor *[]){j->y});
    /* Shares begin at whole blocks. */
    if (bw_op_my_share(member, (loop.n + 3) / 4, 4, 1024, &begin, &end))
        fill(j, values, &loop, begin * 4, end * 4 < loop.n ? end * 4 : loop.n);
}

void bw_rand_uniform_blocks(const bw_op_call *call, bw_member *member)
{
    const bw_rand_uniform_params *p = call->params;
    bw_dtype dtype = call->out[0]->dtype;
    bool is_cuda = p->source.mode == BW_RANDOM_TORCH_CUDA;
    job j = {.y = call->out[0], .a = p->lo, .b = p->up - p->lo, .up = p->up};
    j.least = bw_element_round(dtype, p->lo);
    if (is_cuda) {
        j.a = j.least;
        j.up = bw_element_round(dtype, p->up);
        j.b = bw_element_round(dtype, j.up - j.a);
    } else {
        j.below = fmax(bw_random_below(dtype, p->up), j.least);
        j.least = p->lo;
    }
    run(&j, &p->source, member, is_cuda ? uniform_cuda : uniform_philox);
}

void bw_rand_normal_blocks(const bw_op_call *call, bw_member *member)
{
    const bw_rand_normal_params *p = call->params;
    job j = {.y = call->out[0], .a = p->mean, .b = p->std};
    run(&j, &p->source, member, p->source.mode == BW_RANDOM_TORCH_CUDA ? normal_cuda : normal_philox);
}

void bw_rand_bits_blocks(const bw_op_call *call, bw_member *member)
{
    const bw_rand_bits_params *p = call->params;
    job j = {.y = call->out[0]};
    run(&j, &p->source, member, NULL);
}
