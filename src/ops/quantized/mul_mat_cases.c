/* What the products with quantised weights are tried with: every quantised type. */
#include "bw_cases.h"

#include <math.h>

#include "bw_element.h"
#include "bw_mem.h"
#include "bw_quant.h"

/* Where the scales lie in blocks that have no encoder: random bytes there would be infinite or not numbers. */
static const struct {
    bw_dtype dtype;
    int at, n; /* n halves from byte `at` on */
} scales[] = {{BW_Q8_1, 0, 2},    {BW_IQ2_XXS, 0, 1}, {BW_IQ2_XS, 0, 1}, {BW_IQ2_S, 0, 1},
              {BW_IQ3_XXS, 0, 1}, {BW_IQ3_S, 0, 1},   {BW_IQ1_S, 0, 1},  {BW_TQ1_0, 52, 1},
              {BW_TQ2_0, 64, 1},  {BW_Q1_0, 0, 1},    {BW_Q2_0, 0, 1}};

static void fill_weights(bw_case_sink *sink, bw_case *c, bw_tensor *w)
{
    bw_case_fill_normal(c, w, 1);
    if (bw_can_encode(w->dtype))
        return;
    int64_t bytes = bw_dtype_block_bytes(w->dtype);
    int64_t n = bw_tensor_elements(w) / bw_dtype_block_elements(w->dtype);
    for (int64_t i = 0; i < n; i++) {
        uint8_t *b = (uint8_t *)w->data + i * bytes;
        float f = (float)(0.01 + 0.02 * bw_rng_f64(bw_cases_rng(sink)));
        if (w->dtype == BW_Q8_K)
            memcpy(b, &f, 4);
        else if (w->dtype == BW_IQ1_M)
            b[55] = (uint8_t)((b[55] & 15) | 0x20);
        else if (w->dtype == BW_NVFP4)
            memset(b, 0x30, 4);
        for (int k = 0; k < (int)(sizeof scales / sizeof *scales); k++)
            for (int j = 0; scales[k].dtype == w->dtype && j < scales[k].n; j++)
                bw_element_set_f64(BW_F16, b + scales[k].at + 2 * j, 0, (double)f);
    }
}

/* Blocks of QUANTIZE_Q8_1's kind, [rows, k]. */
static void fill_columns(bw_case_sink *sink, bw_tensor *x)
{
    int64_t n = bw_tensor_elements(x) / 32;
    for (int64_t i = 0; i < n; i++) {
        uint8_t *b = (uint8_t *)x->data + i * 36;
        bw_element_set_f64(BW_F16, b, 0, 0.005 + 0.02 * bw_rng_f64(bw_cases_rng(sink)));
        bw_element_set_f64(BW_F16, b + 2, 0, bw_rng_normal(bw_cases_rng(sink)));
        for (int j = 0; j < 32; j++)
            b[4 + j] = (uint8_t)(int8_t)bw_cases_between(sink, -128, 127);
    }
}

/* A bound on sum |w x| of any row and column, from the largest values of each. */
static double magnitude(const bw_tensor *w, int64_t k)
{
    double sum = 0;
    int64_t n = bw_tensor_elements(w);
    float *values = bw_alloc_array((size_t)n + 1, 4);
    if (!values || n == 0 || bw_decode_row(w->dtype, w->data, values, n, NULL) != BW_OK) {
        bw_free(values);
        return 1;
    }
    for (int64_t i = 0; i < n; i++)
        sum += fabs((double)values[i]);
    bw_free(values);
    return sum / (double)n * (double)k * 1.6; /* columns hold 0.015 * 127 * (0 to 1), here and there more */
}

static void mul(bw_case_sink *sink, bw_op op, bw_dtype dtype, int64_t n, int64_t k, int64_t t, int64_t padding)
{
    bw_case *c = bw_case_begin(sink, op, "%s [%lld, %lld], %lld columns of + %lld", bw_dtype_name(dtype), (long long)n,
                               (long long)k, (long long)t, (long long)padding);
    bw_tensor *w = bw_case_in(c, dtype, 2, (int64_t[]){n, k});
    fill_weights(sink, c, w);
    fill_columns(sink, bw_case_in(c, BW_Q8_1, 2, (int64_t[]){t, k + padding}));
    bw_case_out(c, BW_F32, 2, (int64_t[]){t, n});
    bw_case_tolerance(c, k, magnitude(w, k), 0);
    bw_case_run(c);
}

static void refuse_mul(bw_case_sink *sink, bw_op op, const char *name, bw_dtype w, bw_dtype x, int64_t k, int64_t x_k,
                       int64_t n, int64_t t)
{
    bw_case *c = bw_case_begin(sink, op, "%s", name);
    bw_case_in(c, w, 2, (int64_t[]){5, k});
    bw_case_in(c, x, 2, (int64_t[]){t, x_k});
    bw_case_out(c, BW_F32, 2, (int64_t[]){t, n});
    bw_case_refuse(c);
}

static void refusals(bw_case_sink *sink, bw_op op)
{
    refuse_mul(sink, op, "f32 weights", BW_F32, BW_Q8_1, 64, 64, 5, 1);
    refuse_mul(sink, op, "f32 columns", BW_Q4_0, BW_F32, 64, 64, 5, 1);
    refuse_mul(sink, op, "short columns", BW_Q4_0, BW_Q8_1, 64, 32, 5, 1);
    refuse_mul(sink, op, "another output", BW_Q4_0, BW_Q8_1, 64, 64, 4, 1);
    bw_case *c = bw_case_begin(sink, op, "weights in a packed layout");
    bw_case_in(c, BW_Q4_0, 2, (int64_t[]){5, 64})->layout = 1;
    bw_case_in(c, BW_Q8_1, 2, (int64_t[]){1, 64});
    bw_case_out(c, BW_F32, 2, (int64_t[]){1, 5});
    bw_case_refuse(c);
}

void bw_op_mul_mat_vec_cases(bw_case_sink *sink)
{
    for (int k = 0; k < BW_DTYPE_COUNT; k++) {
        bw_dtype dtype = (bw_dtype)k;
        if (!bw_dtype_is_quantised(dtype))
            continue;
        int64_t block = bw_dtype_block_elements(dtype);
        for (int64_t t = 1; t <= 8; t++)
            mul(sink, BW_OP_MUL_MAT_VEC, dtype, 3 + t, block * (t % 3 + 1), t, t % 2 * 32);
        mul(sink, BW_OP_MUL_MAT_VEC, dtype, 37, 2048, 1, 0);
    }
    refusals(sink, BW_OP_MUL_MAT_VEC);
    refuse_mul(sink, BW_OP_MUL_MAT_VEC, "9 columns", BW_Q4_0, BW_Q8_1, 64, 64, 5, 9);
    refuse_mul(sink, BW_OP_MUL_MAT_VEC, "no columns", BW_Q4_0, BW_Q8_1, 64, 64, 5, 0);
}

void bw_op_mul_mat_cases(bw_case_sink *sink)
{
    for (int k = 0; k < BW_DTYPE_COUNT; k++) {
        bw_dtype dtype = (bw_dtype)k;
        if (!bw_dtype_is_quantised(dtype))
            continue;
        int64_t block = bw_dtype_block_elements(dtype);
        mul(sink, BW_OP_MUL_MAT, dtype, 1, block, 1, 0);
        mul(sink, BW_OP_MUL_MAT, dtype, 19, block * 3, 13, 64);
        mul(sink, BW_OP_MUL_MAT, dtype, 66, 768, 33, 0);
        mul(sink, BW_OP_MUL_MAT, dtype, 5, 0, 3, 0);
        mul(sink, BW_OP_MUL_MAT, dtype, 0, block, 3, 0);
        mul(sink, BW_OP_MUL_MAT, dtype, 5, block, 0, 0);
        for (int i = 0; i < bw_cases_n_random(sink) / 4; i++)
            mul(sink, BW_OP_MUL_MAT, dtype, bw_cases_between(sink, 1, 70), block * bw_cases_between(sink, 1, 6),
                bw_cases_between(sink, 1, 40), 32 * bw_cases_between(sink, 0, 3));
    }
    bw_case *c = bw_case_begin(sink, BW_OP_MUL_MAT, "everything strided");
    bw_tensor *w = bw_case_in_strided(c, BW_Q4_K, 2, (int64_t[]){9, 256}, (int64_t[]){512, 1});
    for (int64_t i = 0; i < 9; i++) {
        bw_tensor row = bw_tensor_view(BW_Q4_K, 1, (int64_t[]){256}, (char *)w->data + i * 288);
        uint8_t *b = row.data;
        memset(b, 0, 144);
        bw_element_set_f64(BW_F16, b, 0, 0.02);
        for (int j = 4; j < 144; j++)
            b[j] = (uint8_t)bw_cases_between(sink, 0, 255);
    }
    bw_tensor *x = bw_case_in_strided(c, BW_Q8_1, 2, (int64_t[]){3, 256}, (int64_t[]){320, 1});
    for (int64_t i = 0; i < 3; i++) {
        bw_tensor row = bw_tensor_view(BW_Q8_1, 1, (int64_t[]){256}, (char *)x->data + i * 360);
        fill_columns(sink, &row);
    }
    bw_case_out_strided(c, BW_F32, 2, (int64_t[]){3, 9}, (int64_t[]){11, 1});
    bw_case_tolerance(c, 256, 256 * 10, 0);
    bw_case_run(c);
    refusals(sink, BW_OP_MUL_MAT);
}

void bw_op_dequantize_mul_mat_vec_cases(bw_case_sink *sink)
{
    for (int i = 0; i < BW_DTYPE_COUNT * 4; i++) {
        bw_dtype dtype = (bw_dtype)(i / 4);
        if (!bw_dtype_is_quantised(dtype))
            continue;
        int64_t block = bw_dtype_block_elements(dtype), n = i % 4 == 0 ? 1 : i % 4 == 1 ? 33 : i % 4 == 2 ? 7 : 0;
        int64_t k = i % 4 == 0 ? block : i % 4 == 1 ? 2048 : i % 4 == 2 ? block * 5 : block;
        bw_case *c = bw_case_begin(sink, BW_OP_DEQUANTIZE_MUL_MAT_VEC, "%s [%lld, %lld]", bw_dtype_name(dtype),
                                   (long long)n, (long long)k);
        bw_tensor *w = bw_case_in(c, dtype, 2, (int64_t[]){n, k});
        fill_weights(sink, c, w);
        bw_case_fill_uniform(c, bw_case_in(c, BW_F32, 1, &k), -1.5, 1.5);
        bw_case_out(c, BW_F32, 1, &n);
        bw_case_tolerance(c, k, magnitude(w, k), 0);
        bw_case_run(c);
    }
    static const struct {
        const char *name;
        bw_dtype dtype;
        int64_t k, n;
    } bad[] = {{"f32 weights", BW_F32, 64, 3}, {"another length", BW_Q4_0, 32, 3}, {"another output", BW_Q4_0, 64, 4}};
    for (int i = 0; i < 3; i++) {
        bw_case *c = bw_case_begin(sink, BW_OP_DEQUANTIZE_MUL_MAT_VEC, "%s", bad[i].name);
        bw_case_in(c, bad[i].dtype, 2, (int64_t[]){3, 64});
        bw_case_in(c, BW_F32, 1, &bad[i].k);
        bw_case_out(c, BW_F32, 1, &bad[i].n);
        bw_case_refuse(c);
    }
}

static bw_case *moe(bw_case_sink *sink, bw_dtype dtype, const int64_t e_n_k[3], int64_t t, int64_t s, bool shared)
{
    bw_case *c = bw_case_begin(sink, BW_OP_INDEXED_MOE_FORWARD, "%s, %lld experts [%lld, %lld], %lld tokens of %lld%s",
                               bw_dtype_name(dtype), (long long)e_n_k[0], (long long)e_n_k[1], (long long)e_n_k[2],
                               (long long)t, (long long)s, shared ? ", one row for all slots" : "");
    bw_tensor *w = bw_case_in(c, dtype, 3, e_n_k);
    fill_weights(sink, c, w);
    fill_columns(sink, bw_case_in(c, BW_Q8_1, 3, (int64_t[]){t, shared ? 1 : s, (e_n_k[2] + 511) / 512 * 512}));
    uint32_t *ids = bw_case_in(c, BW_U32, 2, (int64_t[]){t, s})->data;
    for (int64_t i = 0; i < t * s; i++)
        ids[i] = i % 5 == 4 ? UINT32_MAX - (uint32_t)(i % 2) : (uint32_t)bw_cases_between(sink, 0, e_n_k[0]);
    bw_case_out(c, BW_F32, 3, (int64_t[]){t, s, e_n_k[1]});
    bw_case_tolerance(c, e_n_k[2], magnitude(w, e_n_k[2]), 0);
    return c;
}

/* Enough tasks for a GPU to group them by expert (mul_mat_gpu.c), spread as `where` says. */
typedef enum spread { EVEN, SOME_ARE_NONE, ONE_EXPERT, LAST_EXPERTS, NO_EXPERT, N_SPREADS } spread;
static void grouped(bw_case_sink *sink, bw_dtype dtype, const int64_t e_n_k[3], int64_t t, int64_t s, spread where)
{
    static const char *const names[] = {"even", "some without", "all on one", "two busy experts", "all without"};
    int64_t e = e_n_k[0], n = e_n_k[1], k = e_n_k[2], x_k = (k + 511) / 512 * 512;
    bool shared = where == SOME_ARE_NONE, has_gaps = where == LAST_EXPERTS;
    bw_case *c = bw_case_begin(sink, BW_OP_INDEXED_MOE_FORWARD,
                               "%s, %lld experts [%lld, %lld], %lld tokens of %lld, %s", bw_dtype_name(dtype),
                               (long long)e, (long long)n, (long long)k, (long long)t, (long long)s, names[where]);
    int64_t row = has_gaps && bw_can_encode(dtype) ? k + bw_dtype_block_elements(dtype) : k;
    bw_tensor *w = bw_case_in_strided(c, dtype, 3, e_n_k, (int64_t[]){n * row, row, 1});
    fill_weights(sink, c, w);
    bw_tensor first = bw_tensor_view(dtype, 2, (int64_t[]){row == k ? n : 1, k}, w->data);
    fill_columns(sink, bw_case_in(c, BW_Q8_1, 3, (int64_t[]){t, shared ? 1 : s, x_k}));
    int64_t ids_row = has_gaps ? s + 3 : s;
    uint32_t *ids = bw_case_in_strided(c, BW_U32, 2, (int64_t[]){t, s}, (int64_t[]){ids_row, 1})->data;
    for (int64_t i = 0; i < t * s; i++) {
        uint32_t id = (uint32_t)bw_cases_between(sink, 0, where == SOME_ARE_NONE ? e : e - 1);
        if (where == ONE_EXPERT)
            id = (uint32_t)(e / 2);
        else if (where == LAST_EXPERTS)
            id = (uint32_t)(i % 7 ? e - 1 : e - 3);
        else if (where == NO_EXPERT || (where == SOME_ARE_NONE && i % 9 == 4))
            id = i % 2 ? UINT32_MAX : (uint32_t)e;
        ids[i / s * ids_row + i % s] = id;
    }
    bw_case_out_strided(c, BW_F32, 3, (int64_t[]){t, s, n}, (int64_t[]){s * (n + has_gaps * 3), n + has_gaps * 3, 1});
    double size = magnitude(&first, k); /* matrix units take weights to 2^-18 (moe_grouped.hip) */
    bw_case_tolerance(c, k, size, bw_cases_device(sink)->kind == BW_DEVICE_CPU ? 0 : size * 0x1p-18);
    bw_case_run(c);
}

/* Scales that are NaN, of every kind of bits, spoil the results of their rows and no others: q8_0, whose blocks of 34
 * bytes begin with the scale in f16. */
static void not_numbers(bw_case_sink *sink, int64_t t)
{
    enum { E = 4, N = 9, K = 96, BLOCK_BYTES = 34, ROW = K / 32 * BLOCK_BYTES };
    static const uint16_t nans[] = {0x7fff, 0xffff, 0x7e00, 0x7c01, 0xfe00, 0x7dff};
    bw_case *c = bw_case_begin(sink, BW_OP_INDEXED_MOE_FORWARD, "scales that are NaN, %lld tokens", (long long)t);
    bw_tensor *w = bw_case_in(c, BW_Q8_0, 3, (int64_t[]){E, N, K});
    fill_weights(sink, c, w);
    bw_tensor first = bw_tensor_view(BW_Q8_0, 2, (int64_t[]){N, K}, w->data);
    double size = magnitude(&first, K);
    for (int i = 0; i < 6; i++) /* rows 0, 2, 5 and so on of all experts, another block each */
        memcpy((char *)w->data + (i * 5 + 2) * ROW + i % 3 * BLOCK_BYTES, &nans[i], 2);
    fill_columns(sink, bw_case_in(c, BW_Q8_1, 3, (int64_t[]){t, 1, 512}));
    uint32_t *ids = bw_case_in(c, BW_U32, 2, (int64_t[]){t, 1})->data;
    for (int64_t i = 0; i < t; i++)
        ids[i] = (uint32_t)(i % E);
    bw_case_out(c, BW_F32, 3, (int64_t[]){t, 1, N});
    bw_case_tolerance(c, K, size, bw_cases_device(sink)->kind == BW_DEVICE_CPU ? 0 : size * 0x1p-18);
    bw_case_run(c);
}

static void grouped_cases(bw_case_sink *sink)
{
    not_numbers(sink, 5);
    not_numbers(sink, 40);
    static const bw_dtype some[] = {BW_Q4_0, BW_Q8_0, BW_Q4_K, BW_Q6_K};
    for (int i = 0; i < 4; i++) {
        grouped(sink, some[i], (int64_t[]){8, 65, 512}, 500, 2, EVEN); /* uneven groups of about 125, full tiles */
        grouped(sink, some[i], (int64_t[]){16, 33, 256}, 65, 1, ONE_EXPERT);
        grouped(sink, some[i], (int64_t[]){7, 130, 256}, 43, 3, LAST_EXPERTS);
        grouped(sink, some[i], (int64_t[]){4, 64, 256}, 1, 128, EVEN);
        grouped(sink, some[i], (int64_t[]){1, 17, 256}, 64, 1, EVEN);
        grouped(sink, some[i], (int64_t[]){2, 5, 256}, 300, 3, NO_EXPERT);
    }
    for (int i = 0; i < bw_cases_n_random(sink); i++) {
        bw_dtype dtype = some[i % 4];
        int64_t e = bw_cases_between(sink, 1, 40), s = bw_cases_between(sink, 1, 9);
        int64_t t = (e * 4 + 31) / s + bw_cases_between(sink, 1, 40);
        int64_t e_n_k[] = {e, bw_cases_between(sink, 1, 140), bw_cases_between(sink, 1, 3) * 256};
        grouped(sink, dtype, e_n_k, t, s, e < 3 ? EVEN : (spread)(i % N_SPREADS));
    }
}

void bw_op_indexed_moe_forward_cases(bw_case_sink *sink)
{
    for (int k = 0; k < BW_DTYPE_COUNT; k++) {
        bw_dtype dtype = (bw_dtype)k;
        if (!bw_dtype_is_quantised(dtype))
            continue;
        int64_t block = bw_dtype_block_elements(dtype);
        grouped(sink, dtype, (int64_t[]){3, 70, block * 3}, 20, 2, SOME_ARE_NONE);
        grouped(sink, dtype, (int64_t[]){5, 9, block}, 8, 4, (spread)(k % N_SPREADS));
        bw_case_run(moe(sink, dtype, (int64_t[]){1, 1, block}, 1, 1, false));
        bw_case_run(moe(sink, dtype, (int64_t[]){4, 13, block * 2}, 5, 2, true));
        bw_case_run(moe(sink, dtype, (int64_t[]){7, 34, 512}, 3, 4, false));
        bw_case_run(moe(sink, dtype, (int64_t[]){3, 5, block}, 0, 2, false));
    }
    grouped_cases(sink);
    for (int bad = 0; bad < 4; bad++) {
        bw_case *c = bw_case_begin(sink, BW_OP_INDEXED_MOE_FORWARD, "bad shapes %d", bad);
        bw_case_in(c, BW_Q4_0, 3, (int64_t[]){2, 3, 64});
        bw_case_in(c, BW_Q8_1, 3, (int64_t[]){5, bad == 0 ? 3 : 2, bad == 1 ? 32 : 64});
        bw_case_in(c, bad == 2 ? BW_I64 : BW_U32, 2, (int64_t[]){5, 2});
        bw_case_out(c, BW_F32, 3, (int64_t[]){5, 2, bad == 3 ? 4 : 3});
        bw_case_refuse(c);
    }
}
