/* plan: values, memory reuse, barriers, symbolic dimensions, errors of the builder, probes, profiles. BW_TEST_DEVICE
 * names the device, cpu:0; on a GPU also graphs: made, replayed, left for others, turned off and failing. */
#include "../bw_test.h"

#include <math.h>
#include <stdlib.h>

#include "bw_mem.h"
#include "bw_plan.h"

enum { MAX_ROWS = 64, D = 96 };

static const char *device_name = "cpu:0";
static bw_device *device;
static bool on_gpu;

static int open_device(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_status status = bw_device_open(device_name, 3, &device, &err);
    if (status != BW_OK)
        print_error("%s\n", err.text);
    return status == BW_OK ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    bw_device_close(device);
    return 0;
}

static bw_plan *new_plan(const char *variant)
{
    bw_err err = {0};
    bw_plan *plan;
    assert_ok(bw_plan_new(device, (int64_t[BW_DIM_COUNT]){MAX_ROWS, 8, 4, 16}, variant, &plan, &err), err);
    return plan;
}

static bw_value affine(bw_plan *plan, bw_value x, float mul, float add)
{
    bw_affine_params params = {mul, add};
    bw_value y = bw_plan_temp(plan, BW_F32, 0, 2, (int64_t[]){BW_DIM_TOKENS, D});
    bw_plan_call(plan, BW_OP_AFFINE, 1, &x, 1, &y, &params, sizeof params);
    return y;
}

static bw_value add(bw_plan *plan, bw_value a, bw_value b)
{
    bw_value in[2] = {a, b}, y = bw_plan_temp(plan, BW_F32, 0, 2, (int64_t[]){BW_DIM_TOKENS, D});
    bw_plan_call(plan, BW_OP_BADD, 2, in, 1, &y, NULL, 0);
    return y;
}

/* An input of a run: the host's memory and, on a GPU, where it lies there. */
typedef struct input {
    bw_value value;
    void *host;
    size_t n_bytes;
    bw_buffer buffer; /* on a GPU */
} input;

static input bind(bw_plan *plan, bw_value value, void *host, size_t n_bytes)
{
    bw_err err = {0};
    input in = {.value = value, .host = host, .n_bytes = n_bytes};
    if (on_gpu)
        assert_ok(device->vtable->alloc(device, n_bytes, BW_MEMORY_DENSE, "an input", &in.buffer, &err), err);
    bw_plan_bind(plan, value, on_gpu ? in.buffer.data : host);
    return in;
}

static void send(const input *in)
{
    bw_err err = {0};
    if (on_gpu)
        assert_ok(device->vtable->upload(device, in->buffer.data, in->host, in->n_bytes, &err), err);
}

static void unbind(input *in)
{
    if (on_gpu)
        device->vtable->release(device, &in->buffer);
}

/* n_bytes of a kept value; on a GPU a copy, good until `which` is taken again. */
static const void *take(const bw_plan *plan, bw_value value, size_t n_bytes, int which)
{
    static float copies[2][MAX_ROWS * D];
    bw_err err = {0};
    if (!on_gpu)
        return bw_plan_data(plan, value);
    assert_true(n_bytes <= sizeof copies[0]);
    assert_ok(device->vtable->download(device, copies[which], bw_plan_data(plan, value), n_bytes, &err), err);
    return copies[which];
}

static void check_chain(const float *x, const float *got, int rows)
{
    for (int k = 0; k < rows * D; k++) {
        float a = x[k], b = x[k];
        for (int i = 0; i < 40; i++) {
            a = a * 0.5f + 1;
            b = b * 0.25f + (float)i;
            if (i % 8 == 7)
                a = a + b;
        }
        if (!(fabsf(got[k] - a) <= 1e-4f * fabsf(a)))
            fail_msg("%d rows, element %d: %g instead of %g", rows, k, (double)got[k], (double)a);
    }
}

/* A long chain with branches, run with many row counts: memory is reused, every result right each time. */
static void chain(void **state)
{
    (void)state;
    for (int forced = 0; forced < (on_gpu ? 1 : 2); forced++) { /* the reference runs on the CPU alone */
        bw_err err = {0};
        bw_plan *plan = new_plan(forced ? "ref" : NULL);
        static float x[MAX_ROWS * D];
        bw_value in = bw_plan_input(plan, BW_F32, 2, (int64_t[]){BW_DIM_TOKENS, D}), v = in, w = in;
        for (int i = 0; i < 40; i++) {
            v = affine(plan, v, 0.5f, 1);         /* two independent calls ... */
            w = affine(plan, w, 0.25f, (float)i); /* ... and a join now and then */
            if (i % 8 == 7)
                v = add(plan, v, w);
        }
        bw_plan_keep(plan, v);
        assert_ok(bw_plan_finish(plan, &err), err);
        assert_true(bw_plan_memory_bytes(plan) < (int64_t)10 * MAX_ROWS * D * 4);
        input bound = bind(plan, in, x, sizeof x);
        for (int rows = 0; rows <= MAX_ROWS; rows += rows < 4 ? 1 : 15)
            for (int again = 0; again < (on_gpu ? 3 : 1); again++) { /* launched, captured, replayed */
                for (int i = 0; i < rows * D; i++)
                    x[i] = sinf((float)(i + rows + 7 * again));
                send(&bound);
                assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){rows, 0, 0, 0}, &err), err);
                const float *got = take(plan, v, (size_t)(rows * D) * sizeof *got, 0);
                check_chain(x, got, rows);
            }
        unbind(&bound);
        bw_plan_free(plan);
    }
}

static void views(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_plan *plan = new_plan(NULL);
    static float x[MAX_ROWS * D * 2];
    bw_value in = bw_plan_input(plan, BW_F32, 2, (int64_t[]){BW_DIM_TOKENS, 2 * D});
    bw_value halves[2], y = bw_plan_temp(plan, BW_F32, 0, 2, (int64_t[]){BW_DIM_TOKENS, D});
    for (int i = 0; i < 2; i++)
        halves[i] = bw_plan_view(plan, in, 2, (int64_t[]){BW_DIM_TOKENS, D}, (int64_t[]){2 * D, 1}, i * D);
    bw_glu_params params = {BW_ACTIVATION_SILU};
    bw_plan_call(plan, BW_OP_GLU, 2, halves, 1, &y, &params, sizeof params);
    bw_plan_keep(plan, y);
    assert_ok(bw_plan_finish(plan, &err), err);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)(i % 17) - 8;
    input bound = bind(plan, in, x, sizeof x);
    send(&bound);
    assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){5, 0, 0, 0}, &err), err);
    const float *got = take(plan, y, 5 * D * sizeof *got, 0);
    for (int r = 0; r < 5; r++)
        for (int j = 0; j < D; j++) {
            double g = x[r * 2 * D + j], u = x[r * 2 * D + D + j], want = g / (1 + exp(-g)) * u;
            assert_true(fabs(got[r * D + j] - want) <= 1e-5 * (fabs(want) + 1));
        }
    unbind(&bound);
    bw_plan_free(plan);
}

/* Calls of the outputs' rows between two that depend on each other, in a run without outputs: the calls that are left
 * out pass their barriers on. Run often, since a missing barrier does harm only now and then (and the thread sanitizer
 * sees it every time). */
static void skipped_calls(void **state)
{
    (void)state;
    enum { ROWS = 7 };
    const int n_all = on_gpu ? 24 : 400;
    bw_err err = {0};
    bw_plan *plan = new_plan(NULL);
    static float x[MAX_ROWS * D];
    static int32_t ids[8];
    bw_value in = bw_plan_input(plan, BW_F32, 2, (int64_t[]){BW_DIM_TOKENS, D}), v = in, picked = BW_NO_VALUE;
    bw_value rows = bw_plan_input(plan, BW_I32, 1, (int64_t[]){BW_DIM_OUTPUTS});
    for (int i = 0; i < 12; i++) {
        v = affine(plan, v, 0.5f, 1);
        bw_value pick[2] = {v, rows};
        picked = bw_plan_temp(plan, BW_F32, 0, 2, (int64_t[]){BW_DIM_OUTPUTS, D});
        bw_plan_call(plan, BW_OP_GET_ROWS, 2, pick, 1, &picked, &(bw_get_rows_params){1}, sizeof(bw_get_rows_params));
    }
    bw_plan_keep(plan, v);
    bw_plan_keep(plan, picked);
    assert_ok(bw_plan_finish(plan, &err), err);
    input bound_x = bind(plan, in, x, sizeof x), bound_ids = bind(plan, rows, ids, sizeof ids);
    for (int run = 0; run < n_all; run++) {
        int n_outputs = run % 2 ? 2 : 0, n_rows = run % 3 ? ROWS : MAX_ROWS;
        for (int i = 0; i < n_rows * D; i++)
            x[i] = (float)(run + i % 5);
        ids[1] = n_rows - 1;
        send(&bound_x);
        send(&bound_ids);
        assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){n_rows, n_outputs, 0, 0}, &err), err);
        const float *got = take(plan, v, (size_t)(n_rows * D) * sizeof *got, 0);
        const float *two = take(plan, picked, (size_t)(n_outputs * D) * sizeof *two, 1);
        for (int i = 0; i < n_rows * D; i++) {
            float want = x[i];
            for (int k = 0; k < 12; k++)
                want = want * 0.5f + 1;
            assert_true(fabsf(got[i] - want) < 1e-4f);
        }
        assert_true(n_outputs == 0 || memcmp(two + D, got + (n_rows - 1) * D, D * sizeof *got) == 0);
    }
    unbind(&bound_x);
    unbind(&bound_ids);
    bw_plan_free(plan);
}

/* Independent calls whose scratch differs in size stand without a barrier between them: members are in different calls
 * at one time, and each member's scratch must stay where nobody else's is. */
static void scratch_of_different_sizes(void **state)
{
    (void)state;
    enum { N = 48, SHORT = 32, LONG = 2048, RUNS = 300 };
    static const int64_t widths[4] = {LONG, SHORT, LONG, SHORT};
    static float x[2 * LONG], w[4][N * LONG], want[4][2 * N]; /* small integers: sums are exact */
    bw_err err = {0};
    bw_plan *plan = new_plan("plain");
    bw_value in[4], y[4];
    for (int k = 0; k < 4; k++) {
        for (int64_t i = 0; i < N * widths[k]; i++)
            w[k][i] = (float)((i * (k + 3)) % 7 - 3);
        bw_tensor weight = bw_tensor_view(BW_F32, 2, (int64_t[]){N, widths[k]}, w[k]);
        in[k] = bw_plan_input(plan, BW_F32, 2, (int64_t[]){2, widths[k]});
        y[k] = bw_plan_temp(plan, BW_F32, 0, 2, (int64_t[]){2, N});
        bw_value operands[3] = {in[k], bw_plan_const(plan, &weight), BW_NO_VALUE};
        bw_plan_call(plan, BW_OP_LINEAR, 3, operands, 1, &y[k], &(bw_linear_params){widths[k]},
                     sizeof(bw_linear_params));
        bw_plan_keep(plan, y[k]);
    }
    assert_ok(bw_plan_finish(plan, &err), err);
    for (int64_t i = 0; i < 2 * LONG; i++)
        x[i] = (float)(i % 5 - 2);
    for (int k = 0; k < 4; k++)
        bw_plan_bind(plan, in[k], x);
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; i < 2 * N * widths[k]; i++) {
            int64_t t = i / widths[k] / N, n = i / widths[k] % N, j = i % widths[k];
            want[k][t * N + n] += x[t * widths[k] + j] * w[k][n * widths[k] + j];
        }
    for (int run = 0; run < RUNS; run++) {
        assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){1, 0, 0, 0}, &err), err);
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 2 * N; i++) {
                float got = ((const float *)bw_plan_data(plan, y[k]))[i];
                if (got != want[k][i])
                    fail_msg("run %d, call %d, element %d: %g instead of %g", run, k, i, (double)got,
                             (double)want[k][i]);
            }
    }
    bw_plan_free(plan);
}

/* A product whose members each work alone, then one that does not depend on it and whose members pack one matrix into
 * every member's scratch: the second must wait for those that are still in the first. */
static void scratch_written_by_others(void **state)
{
    (void)state;
    enum { M1 = 200, K1 = 256, N1 = 768, M2 = 2048, K2 = 256, N2 = 512, RUNS = 60 };
    static const int64_t dims[4][2] = {{M1, K1}, {K1, N1}, {M2, K2}, {K2, N2}};
    static uint16_t a1[M1 * K1], b1[K1 * N1];
    static float a2[M2 * K2], b2[K2 * N2];
    void *const data[4] = {a1, b1, a2, b2};
    bw_err err = {0};
    bw_device *two;
    bw_plan *plan;
    assert_ok(bw_device_open("cpu:0", 2, &two, &err), err);
    assert_ok(bw_plan_new(two, (int64_t[BW_DIM_COUNT]){1, 1, 1, 1}, NULL, &plan, &err), err);
    for (int i = 0; i < M1 * K1; i++)
        a1[i] = 0x3f80; /* 1 in bf16 */
    for (int i = 0; i < K1 * N1; i++)
        b1[i] = 0x3f80;
    for (int i = 0; i < M2 * K2; i++)
        a2[i] = 2;
    for (int i = 0; i < K2 * N2; i++)
        b2[i] = 3;
    bw_value in[4], y[2];
    for (int i = 0; i < 4; i++)
        in[i] = bw_plan_input(plan, i < 2 ? BW_BF16 : BW_F32, 2, dims[i]);
    y[0] = bw_plan_temp(plan, BW_BF16, 0, 2, (int64_t[]){M1, N1});
    y[1] = bw_plan_temp(plan, BW_F32, 0, 2, (int64_t[]){M2, N2});
    for (int k = 0; k < 2; k++) {
        bw_plan_call(plan, BW_OP_MATMUL, 2, in + 2 * k, 1, &y[k], NULL, 0);
        bw_plan_keep(plan, y[k]);
    }
    assert_ok(bw_plan_finish(plan, &err), err);
    for (int i = 0; i < 4; i++)
        bw_plan_bind(plan, in[i], data[i]);
    for (int run = 0; run < RUNS; run++) {
        assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){1, 1, 1, 1}, &err), err);
        const uint16_t *y1 = bw_plan_data(plan, y[0]);
        const float *y2 = bw_plan_data(plan, y[1]);
        int wrong = 0;
        for (int i = 0; i < M1 * N1; i++)
            wrong += y1[i] != 0x4380; /* 256 */
        for (int i = 0; i < M2 * N2; i++)
            wrong += y2[i] != 6 * K2;
        if (wrong)
            fail_msg("run %d: %d elements are wrong", run, wrong);
    }
    bw_plan_free(plan);
    bw_device_close(two);
}

/* Rows of no columns, more than could ever be walked, are no work. */
static void endless_rows_of_nothing(void **state)
{
    (void)state;
    const int64_t dims[] = {(int64_t)1 << 62, 0};
    static const struct {
        bw_op op;
        int n_in;
        bw_dtype out;
    } ops[] = {{BW_OP_AFFINE, 1, BW_F32},  {BW_OP_BADD, 2, BW_F32},    {BW_OP_SOFTMAX, 1, BW_F32},
               {BW_OP_RMSNORM, 2, BW_F32}, {BW_OP_CUMSUM, 1, BW_F32},  {BW_OP_ASORT_ASC, 1, BW_U32},
               {BW_OP_CAST, 1, BW_F16},    {BW_OP_QUANTIZE, 2, BW_F16}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int wide = 0; wide < 2; wide++) {
            char storage[64];
            const char *names[16];
            bw_err err = {0};
            bool is_wide = wide && ops[i].op != BW_OP_QUANTIZE;
            bw_tensor x = bw_tensor_view(is_wide ? BW_F64 : BW_F32, 2, dims, storage);
            bw_tensor y = bw_tensor_view(is_wide && ops[i].out == BW_F32 ? BW_F64 : ops[i].out, 2, dims, storage);
            bw_affine_params affine_params = {1, 0};
            bw_rms_norm_params norm_params = {1e-5f};
            bw_cumsum_params cumsum_params = {1};
            bw_op_call call = {.op = ops[i].op, .n_in = ops[i].n_in, .n_out = 1, .in = {&x}, .out = {&y}};
            if (ops[i].op == BW_OP_BADD)
                call.in[1] = &x;
            call.params = ops[i].op == BW_OP_AFFINE    ? (const void *)&affine_params
                          : ops[i].op == BW_OP_RMSNORM ? (const void *)&norm_params
                          : ops[i].op == BW_OP_CUMSUM  ? (const void *)&cumsum_params
                                                       : NULL;
            assert_ok(bw_op_prepare(&call, device, NULL, &err), err);
            int n = bw_op_list_variants(&call, device, names, 16);
            assert_true(n > 0);
            for (int k = 0; k < n; k++) {
                assert_ok(bw_op_prepare(&call, device, names[k], &err), err);
                assert_ok(bw_op_run(&call, device, &err), err);
            }
        }
}

static void builder_errors(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_plan *plan = new_plan(NULL);
    bw_value in = bw_plan_input(plan, BW_F32, 9, (int64_t[9]){1, 1, 1, 1, 1, 1, 1, 1, 1});
    assert_int_equal(in, BW_NO_VALUE);
    affine(plan, in, 1, 1); /* harmless afterwards */
    bw_plan_keep(plan, in);
    assert_int_equal(bw_plan_finish(plan, &err), BW_E_INTERNAL);
    assert_int_equal(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){1, 0, 0, 0}, &err), BW_E_INTERNAL);
    bw_plan_free(plan);
    plan = new_plan(NULL);
    bw_value a = bw_plan_input(plan, BW_F32, 2, (int64_t[]){BW_DIM_TOKENS, D});
    bw_value b = bw_plan_input(plan, BW_F32, 2, (int64_t[]){BW_DIM_TOKENS, D + 1});
    add(plan, a, b);
    assert_int_equal(bw_plan_finish(plan, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "add"));
    bw_plan_free(plan);
    plan = new_plan("no such variant");
    affine(plan, bw_plan_input(plan, BW_F32, 2, (int64_t[]){BW_DIM_TOKENS, D}), 1, 1);
    assert_int_equal(bw_plan_finish(plan, &err), on_gpu ? BW_E_UNSUPPORTED : BW_E_ARG);
    bw_plan_free(plan);
    plan = new_plan(NULL);
    bw_value y = affine(plan, bw_plan_input(plan, BW_F32, 2, (int64_t[]){BW_DIM_TOKENS, D}), 1, 1);
    bw_plan_keep(plan, y);
    assert_ok(bw_plan_finish(plan, &err), err);
    assert_int_equal(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){MAX_ROWS + 1, 0, 0, 0}, &err), BW_E_RANGE);
    assert_int_equal(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){-1, 0, 0, 0}, &err), BW_E_RANGE);
    bw_plan_free(plan);
}

static void count_names(void *user, const char *name, const bw_tensor *t)
{
    int *n = user;
    assert_true(strncmp(name, "value.", 6) == 0);
    assert_int_equal(t->dims[0], 7);
    assert_true(fabsf(((const float *)t->data)[0] - (float)(*n + 1)) < 1e-6f);
    ++*n;
}

static void probes_and_profile(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_plan *plan = new_plan(NULL);
    static float x[MAX_ROWS * D];
    bw_value in = bw_plan_input(plan, BW_F32, 2, (int64_t[]){BW_DIM_TOKENS, D}), v = in;
    for (int i = 0; i < 5; i++) {
        v = affine(plan, v, 1, 1);
        bw_plan_name(plan, v, "value.%d", i);
    }
    assert_ok(bw_plan_finish(plan, &err), err);
    input bound = bind(plan, in, x, sizeof x);
    send(&bound);
    int n = 0;
    bw_plan_set_probe(plan, count_names, &n);
    assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){7, 0, 0, 0}, &err), err);
    assert_int_equal(n, 5);
    bw_plan_set_probe(plan, NULL, NULL);
    bw_plan_set_profile(plan, true);
    assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){7, 0, 0, 0}, &err), err);
    bw_str report = {0};
    bw_plan_report(plan, true, &report);
    assert_non_null(strstr(report.data, "affine"));
    assert_non_null(strstr(report.data, on_gpu ? " 5 calls" : " 10 calls")); /* on the CPU the probe counted too */
    bw_str_clear(&report);
    bw_plan_report(plan, true, &report);
    assert_int_equal(report.len, 0);
    bw_str_deinit(&report);
    unbind(&bound);
    bw_plan_free(plan);
}

/* ---- on a GPU ---------------------------------------------------------------------------------------------------- */

/* x + 1 five times, run with `rows` rows of other values than the last. */
static void run_sums(bw_plan *plan, input *bound, bw_value out, int rows)
{
    static int n;
    bw_err err = {0};
    float *x = bound->host;
    n++;
    for (int i = 0; i < rows * D; i++)
        x[i] = (float)(n * 3 + i % 11);
    send(bound);
    assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){rows, 0, 0, 0}, &err), err);
    const float *got = take(plan, out, (size_t)(rows * D) * sizeof *got, 0);
    for (int i = 0; i < rows * D; i++)
        if (got[i] != x[i] + 5)
            fail_msg("%d rows: element %d is %g, not %g", rows, i, (double)got[i], (double)(x[i] + 5));
}

static bw_plan *new_sums(input *bound, bw_value *out)
{
    static float x[MAX_ROWS * D];
    bw_err err = {0};
    bw_plan *plan = new_plan(NULL);
    bw_value in = bw_plan_input(plan, BW_F32, 2, (int64_t[]){BW_DIM_TOKENS, D});
    *out = in;
    for (int i = 0; i < 5; i++)
        *out = affine(plan, *out, 1, 1);
    bw_plan_keep(plan, *out);
    assert_ok(bw_plan_finish(plan, &err), err);
    *bound = bind(plan, in, x, sizeof x);
    return plan;
}

/* More sizes than graphs are kept for: the oldest make room, and are captured anew when they come again. */
static void many_graphs(void **state)
{
    (void)state;
    input bound;
    bw_value out;
    bw_plan *plan = new_sums(&bound, &out);
    for (int round = 0; round < 2; round++)
        for (int rows = 1; rows <= MAX_ROWS; rows++)
            for (int again = 0; again < 3; again++)
                run_sums(plan, &bound, out, rows);
    for (int rows = MAX_ROWS; rows > 0; rows -= 9)
        run_sums(plan, &bound, out, rows);
    unbind(&bound);
    bw_plan_free(plan);
}

/* A profile or a probe between two runs of one size leaves its graph as it was. */
static void graphs_beside_others(void **state)
{
    (void)state;
    input bound;
    bw_value out;
    bw_plan *plan = new_sums(&bound, &out);
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 3; i++)
            run_sums(plan, &bound, out, 9);
        bw_plan_set_profile(plan, true);
        run_sums(plan, &bound, out, 9);
        bw_plan_set_profile(plan, false);
    }
    unbind(&bound);
    bw_plan_free(plan);
}

static void without_graphs(void **state)
{
    (void)state;
    static const char *const where[] = {"begin", "launch", "end"};
    input bound;
    bw_value out;
    setenv("BW_GPU_GRAPHS", "0", 1);
    bw_plan *plan = new_sums(&bound, &out);
    for (int i = 0; i < 4; i++)
        run_sums(plan, &bound, out, 5);
    unsetenv("BW_GPU_GRAPHS");
    unbind(&bound);
    bw_plan_free(plan);
    for (int k = 0; k < 3; k++) { /* a capture that fails is no failure of the step, nor of later ones */
        plan = new_sums(&bound, &out);
        run_sums(plan, &bound, out, 5);
        setenv("BW_SIM_CAPTURE_FAILS", where[k], 1);
        for (int i = 0; i < 3; i++)
            run_sums(plan, &bound, out, 5);
        unsetenv("BW_SIM_CAPTURE_FAILS");
        for (int i = 0; i < 4; i++)
            run_sums(plan, &bound, out, 6);
        unbind(&bound);
        bw_plan_free(plan);
    }
}

/* The device is lost while a step is launched, or a graph is: that run and every later one say so, and no graph is
 * made. */
static void lost_device(void **state)
{
    (void)state;
    for (int warm = 0; warm <= 3; warm++) {
        input bound;
        bw_value out;
        bw_err err = {0};
        bw_plan *plan = new_sums(&bound, &out);
        for (int i = 0; i < warm; i++)
            run_sums(plan, &bound, out, 5);
        setenv("BW_SIM_LOST_AT", "3", 1);
        bw_status status = bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){5, 0, 0, 0}, &err);
        assert_int_equal(status, BW_E_LOST);
        assert_non_null(strstr(err.text, device_name));
        unsetenv("BW_SIM_LOST_AT");
        for (int i = 0; i < 3; i++) /* remembered, although the simulated card would work again */
            assert_int_equal(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){5, 0, 0, 0}, &err), BW_E_LOST);
        unbind(&bound);
        bw_plan_free(plan);
        bw_device_close(device);
        assert_int_equal(open_device(NULL), 0);
    }
}

static void failing_allocations(void **state)
{
    (void)state;
    for (int n = 1;; n++) {
        int64_t live = bw_mem_live();
        bw_err err = {0};
        bw_plan *plan = NULL;
        bw_mem_fail_at(n);
        bw_status status = bw_plan_new(device, (int64_t[BW_DIM_COUNT]){MAX_ROWS, 8, 4, 16}, NULL, &plan, &err);
        if (status == BW_OK) {
            bw_value v = bw_plan_input(plan, BW_F32, 2, (int64_t[]){BW_DIM_TOKENS, D});
            for (int i = 0; i < 30; i++) {
                v = affine(plan, v, 1, 1);
                bw_plan_name(plan, v, "value.%d", i);
            }
            status = bw_plan_finish(plan, &err);
        }
        bw_mem_fail_at(0);
        bw_plan_free(plan);
        assert_int_equal(bw_mem_live(), live);
        if (status == BW_OK) {
            assert_true(n > 5);
            break;
        }
        assert_int_equal(status, BW_E_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest on_cpu_tests[] = {
        cmocka_unit_test(chain),
        cmocka_unit_test(views),
        cmocka_unit_test(skipped_calls),
        cmocka_unit_test(scratch_of_different_sizes),
        cmocka_unit_test(scratch_written_by_others),
        cmocka_unit_test(endless_rows_of_nothing),
        cmocka_unit_test(builder_errors),
        cmocka_unit_test(probes_and_profile),
        cmocka_unit_test(failing_allocations),
    };
    const struct CMUnitTest on_gpu_tests[] = {
        cmocka_unit_test(chain),
        cmocka_unit_test(views),
        cmocka_unit_test(skipped_calls),
        cmocka_unit_test(endless_rows_of_nothing),
        cmocka_unit_test(builder_errors),
        cmocka_unit_test(probes_and_profile),
        cmocka_unit_test(failing_allocations),
        cmocka_unit_test(many_graphs),
        cmocka_unit_test(graphs_beside_others),
        cmocka_unit_test(without_graphs),
        cmocka_unit_test(lost_device), /* last, and only with the simulated card */
    };
    const char *named = getenv("BW_TEST_DEVICE");
    if (named)
        device_name = named;
    on_gpu = strncmp(device_name, "cpu", 3) != 0;
    if (!on_gpu)
        return cmocka_run_group_tests(on_cpu_tests, open_device, close_device);
    size_t n = sizeof on_gpu_tests / sizeof *on_gpu_tests - !getenv("BW_SIM_MEMORY_MIB");
    return _cmocka_run_group_tests("plan on a GPU", on_gpu_tests, n, open_device, close_device);
}
