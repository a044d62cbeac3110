/* What the random family is tried with. The values themselves are held against PyTorch by fixtures and, for Philox,
 * against the vectors of its paper in bits_known. */
#include "bw_cases.h"

static const bw_dtype floats[] = {BW_F32, BW_F64, BW_F16, BW_BF16};
static const bw_dtype words[] = {BW_U32, BW_I64};

static bw_random_source source_of(bw_case_sink *sink, int mode)
{
    bw_random_source s = {.mode = mode};
    s.seed = (uint64_t)bw_cases_between(sink, 0, INT64_MAX - 1);
    s.offset = (uint64_t)bw_cases_between(sink, 0, mode == BW_RANDOM_TORCH_CPU ? 2000 : INT64_MAX - 1) * 4;
    s.cuda_threads = mode == BW_RANDOM_TORCH_CUDA ? bw_cases_between(sink, 0, 3) * 256 : 0;
    return s;
}

/* strides: NULL = contiguous. */
static void one(bw_case_sink *sink, bw_op op, int mode, bw_dtype dtype, int n_dims, const int64_t *dims,
                const int64_t *strides, double a, double b)
{
    bw_case *c = bw_case_begin(sink, op, "generator %d, %s, %d dims, %g, %g", mode, bw_dtype_name(dtype), n_dims, a, b);
    if (strides)
        bw_case_out_strided(c, dtype, n_dims, dims, strides);
    else
        bw_case_out(c, dtype, n_dims, dims);
    bw_random_source source = source_of(sink, mode);
    double size = (a < 0 ? -a : a) + 6 * (b < 0 ? -b : b);
    if (op == BW_OP_RAND_UNIFORM)
        bw_case_params(c, &(bw_rand_uniform_params){source, a, b}, sizeof(bw_rand_uniform_params));
    else if (op == BW_OP_RAND_NORMAL)
        bw_case_params(c, &(bw_rand_normal_params){source, a, b}, sizeof(bw_rand_normal_params));
    else
        bw_case_params(c, &(bw_rand_bits_params){source}, sizeof(bw_rand_bits_params));
    if (op == BW_OP_RAND_NORMAL)
        bw_case_tolerance(c, 1, size, 0);
    else
        bw_case_exact(c);
    bw_case_run(c);
}

static void all_shapes(bw_case_sink *sink, bw_op op, const bw_dtype *types, int n_types, double a, double b)
{
    int n_dims;
    int64_t dims[6];
    for (int mode = 0; mode < BW_RANDOM_N_MODES; mode++)
        for (int t = 0; t < n_types; t++) {
            for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++)
                one(sink, op, mode, types[t], n_dims, dims, NULL, a, b);
            one(sink, op, mode, types[t], 2, (int64_t[]){37, 101}, (int64_t[]){2, 80}, a, b);
            for (int64_t n = 1; n < 36; n += 7)
                one(sink, op, mode, types[t], 1, &n, NULL, a, b);
        }
    for (int k = 0; k < bw_cases_n_random(sink); k++)
        one(sink, op, (int)bw_cases_between(sink, 0, BW_RANDOM_N_MODES - 1),
            types[bw_cases_between(sink, 0, n_types - 1)], 2,
            (int64_t[]){bw_cases_between(sink, 0, 9), bw_cases_between(sink, 1, 999)}, NULL, a, b);
}

static void refuse(bw_case_sink *sink, bw_op op, const char *why, bw_dtype dtype, const void *params, size_t n_bytes)
{
    bw_case *c = bw_case_begin(sink, op, "%s", why);
    bw_case_out(c, dtype, 1, (int64_t[]){4});
    if (params)
        bw_case_params(c, params, n_bytes);
    bw_case_refuse(c);
}

static void refuse_uniform(bw_case_sink *sink, const char *why, bw_dtype dtype, bw_rand_uniform_params p)
{
    refuse(sink, BW_OP_RAND_UNIFORM, why, dtype, &p, sizeof p);
}

static void refuse_normal(bw_case_sink *sink, const char *why, bw_dtype dtype, bw_rand_normal_params p)
{
    refuse(sink, BW_OP_RAND_NORMAL, why, dtype, &p, sizeof p);
}

void bw_op_rand_uniform_cases(bw_case_sink *sink)
{
    const double inf = 1e308 * 10;
    all_shapes(sink, BW_OP_RAND_UNIFORM, floats, 4, -2.5, 7.25);
    for (int mode = 0; mode < BW_RANDOM_N_MODES; mode++)
        for (int t = 0; t < 4; t++) {
            one(sink, BW_OP_RAND_UNIFORM, mode, floats[t], 1, (int64_t[]){3}, NULL, 2, 2);
            one(sink, BW_OP_RAND_UNIFORM, mode, floats[t], 1, (int64_t[]){9999}, NULL, 0, 1);
            one(sink, BW_OP_RAND_UNIFORM, mode, floats[t], 1, (int64_t[]){9999}, NULL, 0.1, 0.7);
            one(sink, BW_OP_RAND_UNIFORM, mode, floats[t], 1, (int64_t[]){999}, NULL, 0.1, 0.1 + 1e-10);
        }
    refuse_uniform(sink, "no such generator", BW_F32, (bw_rand_uniform_params){{.mode = 3}, 0, 1});
    refuse_uniform(sink, "negative generator", BW_F32, (bw_rand_uniform_params){{.mode = -1}, 0, 1});
    refuse_uniform(sink, "odd CUDA offset", BW_F32, (bw_rand_uniform_params){{.mode = 1, .offset = 2}, 0, 1});
    refuse_uniform(sink, "odd CUDA threads", BW_F32, (bw_rand_uniform_params){{.mode = 1, .cuda_threads = 100}, 0, 1});
    refuse_uniform(sink, "endless offset", BW_F32, (bw_rand_uniform_params){{.mode = 2, .offset = UINT64_MAX}, 0, 1});
    refuse_uniform(sink, "turned around", BW_F32, (bw_rand_uniform_params){{0}, 1, 0});
    refuse_uniform(sink, "infinite", BW_F32, (bw_rand_uniform_params){{0}, 0, inf});
    refuse_uniform(sink, "not a number", BW_F64, (bw_rand_uniform_params){{0}, inf - inf, 1});
    refuse_uniform(sink, "too wide", BW_F16, (bw_rand_uniform_params){{0}, -65504, 65504});
    refuse_uniform(sink, "too large", BW_F16, (bw_rand_uniform_params){{0}, 0, 1e6});
    refuse_uniform(sink, "integers", BW_I32, (bw_rand_uniform_params){{0}, 0, 1});
    refuse(sink, BW_OP_RAND_UNIFORM, "no params", BW_F32, NULL, 0);
}

void bw_op_rand_normal_cases(bw_case_sink *sink)
{
    all_shapes(sink, BW_OP_RAND_NORMAL, floats, 4, 1.5, 0.75);
    for (int mode = 0; mode < BW_RANDOM_N_MODES; mode++)
        for (int t = 0; t < 4; t++) {
            one(sink, BW_OP_RAND_NORMAL, mode, floats[t], 1, (int64_t[]){17}, NULL, -3, 0);
            one(sink, BW_OP_RAND_NORMAL, mode, floats[t], 1, (int64_t[]){9999}, NULL, 0, 1);
        }
    refuse_normal(sink, "negative deviation", BW_F32, (bw_rand_normal_params){{0}, 0, -1});
    refuse_normal(sink, "infinite mean", BW_F16, (bw_rand_normal_params){{0}, 1e6, 1});
    refuse_normal(sink, "no such generator", BW_F32, (bw_rand_normal_params){{.mode = 9}, 0, 1});
    refuse(sink, BW_OP_RAND_NORMAL, "no params", BW_F32, NULL, 0);
}

/* Philox 4x32-10 of counter 0 and key 0: a known answer published with its paper. */
static void bits_known(bw_case_sink *sink)
{
    static const uint32_t zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    bw_case *c = bw_case_begin(sink, BW_OP_RAND_BITS, "known answer");
    bw_case_out(c, BW_U32, 1, (int64_t[]){4});
    bw_case_params(c, &(bw_rand_bits_params){{0}}, sizeof(bw_rand_bits_params));
    bw_case_expect(c, 0, zero, NULL);
    bw_case_run(c);
}

void bw_op_rand_bits_cases(bw_case_sink *sink)
{
    bits_known(sink);
    all_shapes(sink, BW_OP_RAND_BITS, words, 2, 0, 0);
    bw_rand_bits_params p = {{.mode = 5}};
    refuse(sink, BW_OP_RAND_BITS, "no such generator", BW_U32, &p, sizeof p);
    p.source.mode = 0;
    refuse(sink, BW_OP_RAND_BITS, "floats", BW_F32, &p, sizeof p);
    refuse(sink, BW_OP_RAND_BITS, "no params", BW_U32, NULL, 0);
}
