/* What GLU is tried with. */
#include "bw_cases.h"

static void one(bw_case_sink *sink, bw_activation activation, int64_t t, int64_t f, int64_t stride, double scale,
                int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_GLU, "activation %d, [%lld, %lld], stride %lld, scale %g", (int)activation,
                               (long long)t, (long long)f, (long long)stride, scale);
    int64_t dims[] = {t, f}, strides[] = {stride, 1};
    bw_tensor *gate = bw_case_in_strided(c, BW_F32, 2, dims, strides);
    bw_tensor *up = bw_case_in_strided(c, BW_F32, 2, dims, strides);
    bw_case_fill_normal(c, gate, scale);
    bw_case_fill_normal(c, up, 1);
    bw_case_fill_special(c, gate, n_special);
    bw_case_out(c, BW_F32, 2, dims);
    bw_case_params(c, &(bw_glu_params){activation}, sizeof(bw_glu_params));
    /* Far down the negative side the result's relative error is that of its argument times its size; there only its
     * absolute error matters, at the size of gate times up. Elsewhere 16 * 2^-23, that is 2e-6, is allowed. */
    bw_case_tolerance(c, 64, 0.02, 0);
    bw_case_run(c);
}

/* Every type and layout. */
static void typed(bw_case_sink *sink, bw_activation activation, bw_dtype dtype)
{
    int n_dims;
    int64_t dims[6];
    for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++)
        for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++) {
            bw_case *c = bw_case_begin(sink, BW_OP_GLU, "activation %d, %s, %d dims, layout %d", (int)activation,
                                       bw_dtype_name(dtype), n_dims, layout);
            bw_tensor *gate = bw_case_in_layout(c, dtype, n_dims, dims, (bw_case_layout)layout);
            bw_case_fill_normal(c, gate, 3);
            bw_case_fill_special(c, gate, i);
            bw_case_fill_normal(c, bw_case_in_layout(c, dtype, n_dims, dims, (bw_case_layout)(i % BW_CASE_N_LAYOUTS)),
                                1);
            bw_case_out(c, dtype, n_dims, dims);
            bw_case_params(c, &(bw_glu_params){activation}, sizeof(bw_glu_params));
            bw_case_tolerance(c, 64, 0.02, 0);
            bw_case_run(c);
        }
    for (int k = 0; k < 2; k++) { /* an output that is not contiguous */
        static const int64_t strided[] = {3, 5, 67};
        bw_case *c = bw_case_begin(sink, BW_OP_GLU, "activation %d, %s, a strided output %d", (int)activation,
                                   bw_dtype_name(dtype), k);
        bw_case_fill_normal(c, bw_case_in(c, dtype, 3, strided), 3);
        bw_case_fill_normal(c, bw_case_in(c, dtype, 3, strided), 1);
        bw_case_out_layout(c, dtype, 3, strided, k ? BW_CASE_TRANSPOSED : BW_CASE_GAPS);
        bw_case_params(c, &(bw_glu_params){activation}, sizeof(bw_glu_params));
        bw_case_tolerance(c, 64, 0.02, 0);
        bw_case_run(c);
    }
}

/* Every gate from -12 to 12, up 1: the activation's own error. */
static void sweep(bw_case_sink *sink, bw_activation activation)
{
    enum { N = 24001 };
    bw_case *c = bw_case_begin(sink, BW_OP_GLU, "activation %d, a sweep", (int)activation);
    bw_tensor *gate = bw_case_in(c, BW_F32, 2, (int64_t[]){1, N}), *up = bw_case_in(c, BW_F32, 2, (int64_t[]){1, N});
    for (int i = 0; i < N; i++) {
        ((float *)gate->data)[i] = (float)(i - N / 2) * 1e-3f;
        ((float *)up->data)[i] = 1;
    }
    bw_case_out(c, BW_F32, 2, (int64_t[]){1, N});
    bw_case_params(c, &(bw_glu_params){activation}, sizeof(bw_glu_params));
    bw_case_tolerance(c, 64, 0.02, 0);
    bw_case_run(c);
}

void bw_op_glu_cases(bw_case_sink *sink)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 17, 31, 33, 255, 256, 257, 1536};
    for (int a = BW_ACTIVATION_SILU; a <= BW_ACTIVATION_GELU_ERF; a++) {
        bw_activation activation = (bw_activation)a;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            one(sink, activation, 1, sizes[i], sizes[i], 2, 0);
        one(sink, activation, 5, 1536, 3072, 2, 0);
        one(sink, activation, 67, 129, 130, 8, 20);
        one(sink, activation, 0, 64, 64, 1, 0);
        one(sink, activation, 3, 100, 100, 100, 30);
        one(sink, activation, 3, 100, 100, 1e-3, 0);
        sweep(sink, activation);
        static const bw_dtype types[] = {BW_F32, BW_F16, BW_BF16, BW_F64, BW_F8_E4M3};
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            typed(sink, activation, types[i]);
        for (int k = 0; k < bw_cases_n_random(sink); k++) {
            int64_t f = bw_cases_between(sink, 1, 2000);
            one(sink, activation, bw_cases_between(sink, 1, 20), f, f + bw_cases_between(sink, 0, 9), 4,
                (int)bw_cases_between(sink, 0, 9));
        }
    }
    bw_case *c = bw_case_begin(sink, BW_OP_GLU, "unknown activation");
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_params(c, &(bw_glu_params){(bw_activation)3}, sizeof(bw_glu_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_GLU, "shapes that differ");
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 9});
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_params(c, &(bw_glu_params){BW_ACTIVATION_SILU}, sizeof(bw_glu_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_GLU, "integers");
    bw_case_in(c, BW_I32, 2, (int64_t[]){2, 8});
    bw_case_in(c, BW_I32, 2, (int64_t[]){2, 8});
    bw_case_out(c, BW_I32, 2, (int64_t[]){2, 8});
    bw_case_params(c, &(bw_glu_params){BW_ACTIVATION_SILU}, sizeof(bw_glu_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_GLU, "no up");
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_in_absent(c);
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_params(c, &(bw_glu_params){BW_ACTIVATION_SILU}, sizeof(bw_glu_params));
    bw_case_refuse(c);
}
