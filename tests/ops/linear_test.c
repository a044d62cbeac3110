/* Matrix products: every weight type, every kernel that this processor has, against a sum in double over the decoded
 * weights and activations. Buffers have their exact sizes, so that a sanitizer sees every over-read. */
#include "../bw_test.h"

#include <math.h>

#include "linear/bw_linear.h"
#include "bw_mem.h"
#include "bw_quant.h"
#include "bw_rng.h"

static bw_device *devices[4]; /* [n] has n threads */
static uint64_t rng_state = 88172645463325252u;

static uint32_t random_u32(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)(rng_state >> 32);
}

static float random_f32(void)
{
    return (float)random_u32() * 0x1p-31f - 1;
}

typedef enum fill { FILL_RANDOM, FILL_ONES, FILL_ZEROS, FILL_TOP } fill;

/* Where the f16 scales of a block lie; -1 ends. */
static const int scale_offsets[BW_DTYPE_COUNT][3] = {
    [BW_Q4_0] = {0, -1},    [BW_Q4_1] = {0, 2, -1},   [BW_Q5_0] = {0, -1},   [BW_Q5_1] = {0, 2, -1},
    [BW_Q8_0] = {0, -1},    [BW_Q2_K] = {80, 82, -1}, [BW_Q3_K] = {108, -1}, [BW_Q4_K] = {0, 2, -1},
    [BW_Q5_K] = {0, 2, -1}, [BW_Q6_K] = {208, -1},    [BW_IQ4_NL] = {0, -1}, [BW_IQ4_XS] = {0, -1},
};

static void fill_block(bw_dtype dtype, fill how, uint8_t *block)
{
    static const uint8_t bytes[] = {[FILL_ONES] = 0xff, [FILL_ZEROS] = 0, [FILL_TOP] = 0x80};
    for (int64_t i = 0; i < bw_dtype_block_bytes(dtype); i++)
        block[i] = how == FILL_RANDOM ? (uint8_t)random_u32() : bytes[how];
    if (dtype == BW_MXFP4)
        block[0] = (uint8_t)(122 + random_u32() % 8);
    for (const int *o = scale_offsets[dtype]; (o[0] || o[1]) && *o >= 0 && o < scale_offsets[dtype] + 3; o++) {
        uint16_t h = bw_f32_to_f16(random_f32() * 0.01f);
        memcpy(block + *o, &h, 2);
    }
}

/* A plain weight row of k elements whose values are all finite. */
static void fill_row(bw_dtype dtype, fill how, uint8_t *row, int64_t k)
{
    int64_t elements = bw_dtype_block_elements(dtype), bytes = bw_dtype_block_bytes(dtype);
    for (int64_t i = 0; i < k; i += elements, row += bytes) {
        if (dtype == BW_F32 || dtype == BW_F16 || dtype == BW_BF16) {
            float v = how == FILL_RANDOM ? random_f32() : (float)how;
            uint16_t h = dtype == BW_F16 ? bw_f32_to_f16(v) : bw_f32_to_bf16(v);
            memcpy(row, dtype == BW_F32 ? (void *)&v : (void *)&h, (size_t)bytes);
            continue;
        }
        bool finite = false;
        for (int attempt = 0; !finite && attempt < 1000; attempt++) {
            float values[256];
            fill_block(dtype, attempt < 10 ? how : FILL_RANDOM, row);
            assert_int_equal(bw_decode_row(dtype, row, values, elements, NULL), BW_OK);
            finite = true;
            for (int64_t j = 0; j < elements; j++)
                finite = finite && fabsf(values[j]) < 1e15f;
        }
        assert_true(finite);
    }
}

typedef struct problem {
    bw_dtype dtype;
    int64_t n, k, t;
    bool with_bias, strided;
    fill how;
    uint8_t *plain;   /* [n rows] */
    float *w;         /* decoded [n, k] */
    bw_tensor packed; /* [n, k] */
    float *x;         /* [t, k] */
    float *bias;      /* [n] */
    void *act;        /* as the kernel wants it */
    bw_tensor x_tensor;
    float *x_decoded; /* [t, k] */
} problem;

static void *must(void *p)
{
    assert_non_null(p);
    return p;
}

static void make_weight(problem *p, const bw_device *device)
{
    int64_t row_bytes = bw_dtype_bytes(p->dtype, p->k);
    p->plain = must(bw_alloc((size_t)(p->n * row_bytes)));
    p->w = must(bw_alloc_array((size_t)(p->n * p->k), sizeof *p->w));
    for (int64_t i = 0; i < p->n; i++) {
        fill_row(p->dtype, p->how, p->plain + i * row_bytes, p->k);
        assert_int_equal(bw_decode_row(p->dtype, p->plain + i * row_bytes, p->w + i * p->k, p->k, NULL), BW_OK);
    }
    uint32_t layout = bw_linear_choose_layout(device, p->dtype, p->n, p->k);
    int64_t bytes = bw_linear_layout_bytes(layout, p->dtype, p->n, p->k), rows = bw_linear_layout_rows(layout);
    assert_true(bytes >= p->n * row_bytes && bytes < (p->n + rows) * row_bytes);
    void *data = must(bw_alloc_aligned((size_t)bytes));
    memset(data, 0xaa, (size_t)bytes);
    int64_t middle = p->n / 2 / rows * rows; /* in two pieces, the later one first */
    bw_linear_pack_rows(layout, p->dtype, p->n, p->k, middle, p->n, p->plain + middle * row_bytes, data);
    bw_linear_pack_rows(layout, p->dtype, p->n, p->k, 0, middle, p->plain, data);
    p->packed = bw_tensor_view(p->dtype, 2, (int64_t[]){p->n, p->k}, data);
    p->packed.layout = layout;
    float *row = must(bw_alloc_array((size_t)p->k, sizeof *row));
    for (int64_t i = 0; i < p->n; i++) {
        bw_linear_decode_row(&p->packed, i, row);
        assert_memory_equal(row, p->w + i * p->k, (size_t)p->k * sizeof *row);
    }
    bw_free(row);
}

static void make_x(problem *p, bw_device *device)
{
    p->x = must(bw_alloc_array((size_t)(p->t * p->k), sizeof *p->x));
    for (int64_t i = 0; i < p->t * p->k; i++)
        p->x[i] = p->how == FILL_RANDOM ? random_f32() : i / p->k % 2 ? -3.0f : 3.0f;
    p->bias = must(bw_alloc_array((size_t)p->n, sizeof *p->bias));
    for (int64_t i = 0; i < p->n; i++)
        p->bias[i] = random_f32();
    uint32_t format = bw_linear_act_format(device, &p->packed);
    int64_t row_bytes = bw_act_row_bytes(format, p->k);
    bw_tensor plain = bw_tensor_view(BW_F32, 2, (int64_t[]){p->t, p->k}, p->x);
    p->act = must(bw_alloc_aligned((size_t)(p->t * row_bytes)));
    if (format == BW_ACT_F32) {
        memcpy(p->act, p->x, (size_t)(p->t * row_bytes));
        p->x_tensor = plain;
        p->x_tensor.data = p->act;
    } else {
        bw_err err = {0};
        memset(p->act, 0, (size_t)(p->t * row_bytes));
        p->x_tensor = bw_tensor_view(BW_U8, 2, (int64_t[]){p->t, row_bytes}, p->act);
        p->x_tensor.layout = format;
        bw_op_call call = {.op = BW_OP_QUANTISE_ACT, .n_in = 1, .n_out = 1, .in = {&plain}, .out = {&p->x_tensor}};
        assert_ok(bw_op_prepare(&call, device, NULL, &err), err);
        assert_ok(bw_op_run(&call, device, &err), err);
    }
    p->x_decoded = must(bw_alloc_array((size_t)(p->t * p->k), sizeof *p->x_decoded));
    for (int64_t i = 0; i < p->t; i++)
        bw_act_decode_row(format, p->t, (char *)p->act + i * row_bytes, p->x_decoded + i * p->k, p->k);
    for (int64_t i = 0; i < p->t * p->k; i++)
        assert_true(fabsf(p->x_decoded[i] - p->x[i]) <= 3.0f / 127 * 0.5001f);
}

static void free_problem(problem *p)
{
    bw_free(p->plain);
    bw_free(p->w);
    bw_free(p->packed.data);
    bw_free(p->x);
    bw_free(p->bias);
    bw_free(p->act);
    bw_free(p->x_decoded);
}

static const float untouched = 12345.0f;

static void compare(const problem *p, const float *out, int64_t stride, const char *variant, int threads)
{
    for (int64_t t = 0; t < p->t; t++) {
        for (int64_t n = 0; n < p->n; n++) {
            double sum = p->with_bias ? p->bias[n] : 0, size = fabs(sum);
            const float *x = p->x_decoded + t * p->k, *w = p->w + n * p->k;
            for (int64_t k = 0; k < p->k; k++) {
                double product = (double)x[k] * w[k];
                sum += product;
                size += fabs(product);
            }
            double got = out[t * stride + n];
            if (!(fabs(got - sum) <= 1e-5 * size + 1e-30))
                fail_msg("%s %s, %d threads, n %lld k %lld t %lld, fill %d: [%lld, %lld] is %.9g, not %.9g (of %.3g)",
                         bw_dtype_name(p->dtype), variant, threads, (long long)p->n, (long long)p->k, (long long)p->t,
                         (int)p->how, (long long)t, (long long)n, got, sum, size);
        }
        for (int64_t n = p->n; n < stride; n++)
            assert_true(out[t * stride + n] == untouched);
    }
}

static void run_problem(problem p)
{
    make_weight(&p, devices[1]);
    make_x(&p, devices[1]);
    int64_t stride = p.n + (p.strided ? 3 : 0);
    float *out = must(bw_alloc_array((size_t)(p.t * stride), sizeof *out));
    bw_tensor y = bw_tensor_view(BW_F32, 2, (int64_t[]){p.t, p.n}, out);
    y.strides[0] = stride;
    bw_tensor bias = bw_tensor_view(BW_F32, 1, &p.n, p.bias);
    bw_linear_params params = {.k = p.k};
    bw_op_call call = {.op = BW_OP_LINEAR,
                       .n_in = 3,
                       .n_out = 1,
                       .in = {&p.x_tensor, &p.packed, p.with_bias ? &bias : NULL},
                       .out = {&y},
                       .params = &params};
    const char *names[16];
    int n_names = bw_op_list_variants(&call, devices[1], names, 16);
    assert_true(n_names >= 2);
    for (int v = 0; v < n_names; v++) {
        if (strcmp(names[v], "ref") == 0 && p.n * p.k * p.t > 400000)
            continue;
        int threads = 1 + (int)(random_u32() % 3);
        bw_err err = {0};
        for (int64_t i = 0; i < p.t * stride; i++)
            out[i] = untouched;
        assert_ok(bw_op_prepare(&call, devices[threads], names[v], &err), err);
        assert_ok(bw_op_run(&call, devices[threads], &err), err);
        compare(&p, out, stride, names[v], threads);
    }
    bw_free(out);
    free_problem(&p);
}

static const bw_dtype types[] = {BW_Q4_0, BW_Q4_1, BW_Q5_0, BW_Q5_1, BW_Q8_0, BW_Q2_K,   BW_Q3_K,   BW_Q4_K,
                                 BW_Q5_K, BW_Q6_K, BW_F32,  BW_F16,  BW_BF16, BW_IQ4_NL, BW_IQ4_XS, BW_MXFP4};
enum { N_TYPES = sizeof types / sizeof *types };

/* One k for each type: the block, or more. */
static void each_type(int64_t n, int64_t k, int64_t t, fill how)
{
    for (int i = 0; i < N_TYPES; i++)
        if (k % bw_dtype_block_elements(types[i]) == 0)
            run_problem((problem){.dtype = types[i],
                                  .n = n,
                                  .k = k,
                                  .t = t,
                                  .how = how,
                                  .with_bias = random_u32() % 2,
                                  .strided = random_u32() % 2});
}

static void test_small(void **state)
{
    static const int64_t ts[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 33}, ns[] = {1, 7, 8, 17}, ks[] = {32, 256};
    (void)state;
    for (size_t i = 0; i < sizeof ts / sizeof *ts; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
            for (size_t l = 0; l < sizeof ks / sizeof *ks; l++)
                each_type(ns[j], ks[l], ts[i], FILL_RANDOM);
}

static void test_large(void **state)
{
    (void)state;
    each_type(192, 576, 1, FILL_RANDOM);
    each_type(192, 576, 8, FILL_RANDOM);
    each_type(48, 576, 130, FILL_RANDOM);
    each_type(576, 1536, 1, FILL_RANDOM);
    each_type(33, 1536, 130, FILL_RANDOM);
    each_type(40, 8192, 3, FILL_RANDOM);
    each_type(17, 2048, 70, FILL_RANDOM);
}

/* Every bit of the weights set, none, or the signs; activations all 127 or -127: nothing may saturate. */
static void test_extremes(void **state)
{
    (void)state;
    for (fill how = FILL_ONES; how <= FILL_TOP; how++) {
        each_type(17, 256, 1, how);
        each_type(17, 1536, 6, how);
        each_type(16, 256, 33, how);
    }
}

/* Types without a packed layout, through rows decoded one by one. */
static void test_other_types(void **state)
{
    (void)state;
    for (bw_dtype d = 0; d < BW_DTYPE_COUNT; d++) {
        if (bw_dtype_is_quantised(d)) {
            run_problem((problem){.dtype = d, .n = 19, .k = 768, .t = 1});
            run_problem((problem){.dtype = d, .n = 7, .k = 256, .t = 5, .strided = true, .with_bias = true});
        }
    }
}

/* What GPUs read, in pieces as it is uploaded, decodes to the very values of the plain rows: encoded ones, and random
 * bytes, in which every bit of every field is set some time. */
static void test_planes(void **state)
{
    (void)state;
    enum { N = 6, K = 1536 };
    bw_cpu_features features = {0};
    bw_device gpu = {.kind = BW_DEVICE_ROCM, .cpu = &features};
    bw_rng rng;
    bw_rng_init(&rng, 11);
    int n_packed = 0;
    for (int i = 0; i < BW_DTYPE_COUNT; i++) {
        bw_dtype dtype = (bw_dtype)i;
        uint32_t layout = bw_linear_choose_layout(&gpu, dtype, N, K);
        if (!layout)
            continue;
        n_packed++;
        int64_t row = bw_dtype_bytes(dtype, K), bytes = bw_linear_layout_bytes(layout, dtype, N, K);
        assert_int_equal(bw_linear_layout_bytes(layout, dtype, 1, K) * N, bytes);
        if (dtype == BW_Q4_K || dtype == BW_Q5_K) /* what most models are: on the card as large as the file */
            assert_int_equal(bytes, row * N);
        assert_true(bytes % (16 * N) == 0 && bytes <= row * N * 21 / 20 + N * 64);
        assert_int_equal(bw_linear_choose_layout(&gpu, dtype, N, 33), 0);
        uint8_t *plain = must(bw_alloc_aligned((size_t)(row * N))), *packed = must(bw_alloc_aligned((size_t)bytes));
        float *a = must(bw_alloc_array(K, sizeof *a)), *b = must(bw_alloc_array(K, sizeof *b));
        for (int64_t j = 0; j < row * N; j++)
            plain[j] = (uint8_t)bw_rng_below(&rng, 256);
        for (int64_t r = 0; r < N / 2; r++) {
            for (int j = 0; j < K; j++)
                a[j] = (float)bw_rng_normal(&rng);
            assert_int_equal(bw_encode_row(dtype, a, plain + r * row, K, NULL, NULL), BW_OK);
        }
        memset(packed, 0xa5, (size_t)bytes);
        bw_linear_pack_rows(layout, dtype, N, K, 2, N, plain + 2 * row, packed);
        bw_linear_pack_rows(layout, dtype, 2, K, 0, 2, plain, packed);
        bw_tensor w = bw_tensor_view(dtype, 2, (int64_t[]){N, K}, packed);
        w.layout = layout;
        for (int64_t r = 0; r < N; r++) {
            bw_decode_row(dtype, plain + r * row, a, K, NULL);
            bw_linear_decode_row(&w, r, b);
            for (int j = 0; j < K; j++)
                if (!(a[j] != a[j] && b[j] != b[j]))
                    assert_memory_equal(&a[j], &b[j], sizeof *a);
        }
        bw_free(a);
        bw_free(b);
        bw_free(plain);
        bw_free(packed);
    }
    assert_int_equal(n_packed, 13);
}

/* A baseline processor gets plain weights and f32 activations. */
static void test_baseline(void **state)
{
    (void)state;
    bw_cpu_features features = {0};
    bw_device none = {.kind = BW_DEVICE_CPU, .cpu = &features};
    for (int i = 0; i < N_TYPES; i++)
        assert_int_equal(bw_linear_choose_layout(&none, types[i], 64, 256), 0);
    assert_int_equal(bw_linear_layout_bytes(0, BW_Q4_0, 3, 64), 3 * 36);
    assert_int_equal(bw_linear_layout_bytes(0, BW_Q4_0, 3, 33), -1);
    assert_int_equal(bw_linear_layout_bytes(77, BW_Q4_0, 3, 64), -1);
    assert_int_equal(bw_linear_layout_bytes(0, BW_F32, INT64_MAX / 2, 64), -1);
    assert_int_equal(bw_act_row_bytes(0, INT64_MAX), -1);
    assert_int_equal(bw_act_row_bytes(1, INT64_MAX / 32 * 32), -1);
    assert_int_equal(bw_act_row_bytes(1, 33), -1);
}

/* Not-a-number and infinity are seen in the result of their own row, and nowhere else. */
static void test_not_finite(void **state)
{
    (void)state;
    enum { T = 5, K = 288 };
    static float x[T * K];
    for (int i = 0; i < T * K; i++)
        x[i] = random_f32();
    x[1 * K + 40] = NAN;
    x[2 * K + 287] = INFINITY;
    x[3 * K] = -INFINITY;
    for (int i = 0; i < 32; i++) { /* tiny and huge blocks stay finite */
        x[4 * K + i] = 1e-38f * random_f32();
        x[4 * K + 64 + i] = 3e38f * random_f32();
        x[4 * K + 128 + i] = 0;
    }
    int64_t row_bytes = bw_act_row_bytes(1, K);
    bw_tensor in = bw_tensor_view(BW_F32, 2, (int64_t[]){T, K}, x);
    uint8_t *memory[3];
    bw_op_call call = {.op = BW_OP_QUANTISE_ACT, .n_in = 1, .n_out = 1, .in = {&in}};
    const char *names[16];
    bw_tensor out = bw_tensor_view(BW_U8, 2, (int64_t[]){T, row_bytes}, NULL);
    out.layout = 1;
    call.out[0] = &out;
    int n_names = bw_op_list_variants(&call, devices[2], names, 16);
    for (int v = 0; v < n_names && v < 3; v++) {
        bw_err err = {0};
        memory[v] = must(bw_alloc_zero((size_t)(T * row_bytes), 1));
        out.data = memory[v];
        assert_ok(bw_op_prepare(&call, devices[2], names[v], &err), err);
        assert_ok(bw_op_run(&call, devices[2], &err), err);
        float row[K];
        for (int t = 0; t < T; t++) {
            int n_nan = 0;
            bw_act_decode_row(1, 1, memory[v] + t * row_bytes, row, K);
            for (int i = 0; i < K; i++)
                n_nan += isnan(row[i]) ? 1 : 0;
            assert_int_equal(n_nan, t >= 1 && t <= 3 ? 32 : 0);
        }
        assert_memory_equal(memory[v], memory[0], (size_t)(T * row_bytes));
    }
    for (int v = 0; v < n_names && v < 3; v++)
        bw_free(memory[v]);
}

static void test_check(void **state)
{
    (void)state;
    static float memory[64 * 64];
    bw_tensor x = bw_tensor_view(BW_F32, 2, (int64_t[]){2, 64}, memory), w = x, y = x;
    w.dims[0] = y.dims[1] = 3;
    y.strides[0] = 3;
    bw_linear_params params = {.k = 64};
    bw_op_call call = {.op = BW_OP_LINEAR, .n_in = 2, .n_out = 1, .in = {&x, &w}, .out = {&y}, .params = &params};
    bw_err err = {0};
    assert_ok(bw_op_prepare(&call, devices[1], NULL, &err), err);
    params.k = 32;
    assert_int_equal(bw_op_prepare(&call, devices[1], NULL, &err), BW_E_ARG);
    params.k = 64;
    y.dims[1] = 4;
    assert_int_equal(bw_op_prepare(&call, devices[1], NULL, &err), BW_E_ARG);
    y.dims[1] = 3;
    x.dtype = BW_U8;
    assert_int_equal(bw_op_prepare(&call, devices[1], NULL, &err), BW_E_ARG);
    x.dtype = BW_F32;
    w.layout = 9;
    assert_int_equal(bw_op_prepare(&call, devices[1], NULL, &err), BW_E_ARG);
    w.layout = 0;
    call.in[2] = &x;
    call.n_in = 3;
    assert_int_equal(bw_op_prepare(&call, devices[1], NULL, &err), BW_E_ARG);
    call.n_in = 2;
    w = bw_tensor_view(BW_Q8_0, 2, (int64_t[]){3, 64}, memory);
    w.strides[0] = 96;
    assert_ok(bw_op_prepare(&call, devices[1], NULL, &err), err);
    w.strides[0] = 80; /* two blocks and a half */
    assert_int_equal(bw_op_prepare(&call, devices[1], NULL, &err), BW_E_ARG);
}

static int open_devices(void **state)
{
    (void)state;
    for (int i = 1; i <= 3; i++)
        if (bw_device_open("cpu:0", i, &devices[i], NULL) != BW_OK)
            return -1;
    return 0;
}

static int close_devices(void **state)
{
    (void)state;
    for (int i = 1; i <= 3; i++)
        bw_device_close(devices[i]);
    return bw_mem_live() ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),       cmocka_unit_test(test_large),  cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_other_types), cmocka_unit_test(test_planes), cmocka_unit_test(test_baseline),
        cmocka_unit_test(test_not_finite),  cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
