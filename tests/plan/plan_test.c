/* plan: values, memory reuse, barriers, symbolic dimensions, errors of the builder, probes, profiles. */
#include "../bw_test.h"

#include <math.h>

#include "bw_mem.h"
#include "bw_plan.h"

enum { MAX_ROWS = 64, D = 96 };

static bw_device *device;

static int open_device(void **state)
{
    (void)state;
    bw_err err = {0};
    return bw_device_open("cpu:0", 3, &device, &err) == BW_OK ? 0 : -1;
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

/* A long chain with branches, run with many row counts: memory is reused, every result right each time. */
static void chain(void **state)
{
    (void)state;
    for (int forced = 0; forced < 2; forced++) {
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
        bw_plan_bind(plan, in, x);
        for (int rows = 0; rows <= MAX_ROWS; rows += rows < 4 ? 1 : 15) {
            for (int i = 0; i < rows * D; i++)
                x[i] = sinf((float)(i + rows));
            assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){rows, 0, 0, 0}, &err), err);
            const float *got = bw_plan_data(plan, v);
            for (int k = 0; k < rows * D; k++) {
                float a = x[k], b = x[k];
                for (int i = 0; i < 40; i++) {
                    a = a * 0.5f + 1;
                    b = b * 0.25f + (float)i;
                    if (i % 8 == 7)
                        a = a + b;
                }
                assert_true(fabsf(got[k] - a) <= 1e-4f * fabsf(a));
            }
        }
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
    bw_plan_bind(plan, in, x);
    assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){5, 0, 0, 0}, &err), err);
    const float *got = bw_plan_data(plan, y);
    for (int r = 0; r < 5; r++)
        for (int j = 0; j < D; j++) {
            double g = x[r * 2 * D + j], u = x[r * 2 * D + D + j], want = g / (1 + exp(-g)) * u;
            assert_true(fabs(got[r * D + j] - want) <= 1e-5 * (fabs(want) + 1));
        }
    bw_plan_free(plan);
}

/* Calls of the outputs' rows between two that depend on each other, in a run without outputs: the calls that are left
 * out pass their barriers on. Run often, since a missing barrier does harm only now and then (and the thread sanitizer
 * sees it every time). */
static void skipped_calls(void **state)
{
    (void)state;
    enum { ROWS = 7, RUNS = 400 };
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
    bw_plan_bind(plan, in, x);
    bw_plan_bind(plan, rows, ids);
    for (int run = 0; run < RUNS; run++) {
        int n_outputs = run % 2 ? 2 : 0, n_rows = run % 3 ? ROWS : MAX_ROWS;
        for (int i = 0; i < n_rows * D; i++)
            x[i] = (float)(run + i % 5);
        ids[1] = n_rows - 1;
        assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){n_rows, n_outputs, 0, 0}, &err), err);
        const float *got = bw_plan_data(plan, v), *two = bw_plan_data(plan, picked);
        for (int i = 0; i < n_rows * D; i++) {
            float want = x[i];
            for (int k = 0; k < 12; k++)
                want = want * 0.5f + 1;
            assert_true(fabsf(got[i] - want) < 1e-4f);
        }
        assert_true(n_outputs == 0 || memcmp(two + D, got + (n_rows - 1) * D, D * sizeof *got) == 0);
    }
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
    assert_int_equal(bw_plan_finish(plan, &err), BW_E_ARG);
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
    bw_plan_bind(plan, in, x);
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
    bw_str_clear(&report);
    bw_plan_report(plan, true, &report);
    assert_int_equal(report.len, 0);
    bw_str_deinit(&report);
    bw_plan_free(plan);
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
    const struct CMUnitTest tests[] = {
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
    return cmocka_run_group_tests(tests, open_device, close_device);
}
