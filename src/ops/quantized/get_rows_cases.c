/* What GET_ROWS is tried with: every element type, and every packed layout that linear would choose here. */
#include "bw_cases.h"
#include "linear/bw_linear.h"

#include <stdlib.h>

static void one(bw_case_sink *sink, bw_dtype dtype, int64_t n, int64_t d, int64_t t, float scale)
{
    bw_case *c = bw_case_begin(sink, BW_OP_GET_ROWS, "%s [%lld, %lld], %lld rows", bw_dtype_name(dtype), (long long)n,
                               (long long)d, (long long)t);
    bw_case_fill_normal(c, bw_case_in(c, dtype, 2, (int64_t[]){n, d}), 1);
    bw_case_fill_i32(c, bw_case_in(c, BW_I32, 1, &t), 0, (int32_t)n - 1);
    bw_case_out(c, BW_F32, 2, (int64_t[]){t, d});
    bw_case_params(c, &(bw_get_rows_params){scale}, sizeof(bw_get_rows_params));
    bw_case_run(c);
}

/* The same weight in the layout that linear likes best. */
static void one_packed(bw_case_sink *sink, bw_dtype dtype, int64_t n, int64_t d, int64_t t)
{
    uint32_t layout = bw_linear_choose_layout(bw_cases_device(sink), dtype, n, d);
    int64_t n_bytes = layout ? bw_linear_layout_bytes(layout, dtype, n, d) : -1;
    if (n_bytes < 0)
        return;
    bw_case *plain = bw_case_begin(sink, BW_OP_GET_ROWS, "%s, to be packed", bw_dtype_name(dtype));
    bw_tensor *w = bw_case_in(plain, dtype, 2, (int64_t[]){n, d});
    bw_case_fill_normal(plain, w, 1);

    bw_case *c = bw_case_begin(sink, BW_OP_GET_ROWS, "%s [%lld, %lld] in layout %u, %lld rows", bw_dtype_name(dtype),
                               (long long)n, (long long)d, layout, (long long)t);
    bw_tensor like = bw_tensor_view(dtype, 2, (int64_t[]){n, d}, NULL);
    like.layout = layout;
    bw_tensor *packed = bw_case_in_bytes(c, &like, (size_t)n_bytes);
    bw_linear_pack_rows(layout, dtype, n, d, 0, n, w->data, packed->data);
    bw_case_fill_i32(c, bw_case_in(c, BW_I32, 1, &t), 0, (int32_t)n - 1);
    bw_case_out(c, BW_F32, 2, (int64_t[]){t, d});
    bw_case_params(c, &(bw_get_rows_params){1}, sizeof(bw_get_rows_params));
    bw_case_run(c);

    bw_case_fill_i32(plain, bw_case_in(plain, BW_I32, 1, &t), 0, (int32_t)n - 1);
    bw_case_out(plain, BW_F32, 2, (int64_t[]){t, d});
    bw_case_params(plain, &(bw_get_rows_params){1}, sizeof(bw_get_rows_params));
    bw_case_run(plain);
}

/* A layout that no kernel has, and one that this type has not. */
static void refuse_layout(bw_case_sink *sink, bw_dtype dtype, uint32_t layout)
{
    bw_case *c = bw_case_begin(sink, BW_OP_GET_ROWS, "%s in layout %u", bw_dtype_name(dtype), layout);
    bw_case_in(c, dtype, 2, (int64_t[]){32, 256})->layout = layout;
    bw_case_in(c, BW_I32, 1, (int64_t[]){3});
    bw_case_out(c, BW_F32, 2, (int64_t[]){3, 256});
    bw_case_params(c, &(bw_get_rows_params){1}, sizeof(bw_get_rows_params));
    bw_case_refuse(c);
}

static void refuse(bw_case_sink *sink, const char *name, int64_t d, bw_dtype ids, int64_t n_ids)
{
    bw_case *c = bw_case_begin(sink, BW_OP_GET_ROWS, "%s", name);
    bw_case_in(c, BW_F32, 2, (int64_t[]){5, 8});
    bw_case_in(c, ids, 1, &n_ids);
    bw_case_out(c, BW_F32, 2, (int64_t[]){3, d});
    bw_case_params(c, &(bw_get_rows_params){1}, sizeof(bw_get_rows_params));
    bw_case_refuse(c);
}

void bw_op_get_rows_cases(bw_case_sink *sink)
{
    for (int k = 0; k < BW_DTYPE_COUNT; k++) {
        bw_dtype dtype = (bw_dtype)k;
        int64_t block = bw_dtype_block_elements(dtype);
        one(sink, dtype, 5, block, 1, 1);
        one(sink, dtype, 19, block * 3, 7, 1);
        one(sink, dtype, 19, block * 2, 31, 25.3f);
        one_packed(sink, dtype, 32, 512, 9);
    }
    one(sink, BW_F32, 3, 577, 2, 1);
    one(sink, BW_F32, 3, 1, 1, 2);
    one(sink, BW_F16, 3, 7, 0, 1);
    for (int k = 0; k < bw_cases_n_random(sink); k++) {
        bw_dtype dtype = (bw_dtype)bw_cases_between(sink, 0, BW_DTYPE_COUNT - 1);
        one(sink, dtype, bw_cases_between(sink, 1, 30), bw_dtype_block_elements(dtype) * bw_cases_between(sink, 1, 5),
            bw_cases_between(sink, 1, 40), (float)bw_rng_normal(bw_cases_rng(sink)));
    }
    bw_case *c = bw_case_begin(sink, BW_OP_GET_ROWS, "table and output strided");
    bw_case_fill_normal(c, bw_case_in_strided(c, BW_F16, 2, (int64_t[]){9, 33}, (int64_t[]){50, 1}), 1);
    bw_case_fill_i32(c, bw_case_in(c, BW_I32, 1, (int64_t[]){40}), 0, 8);
    bw_case_out_strided(c, BW_F32, 2, (int64_t[]){40, 33}, (int64_t[]){40, 1});
    bw_case_params(c, &(bw_get_rows_params){0.5f}, sizeof(bw_get_rows_params));
    bw_case_run(c);
    c = bw_case_begin(sink, BW_OP_GET_ROWS, "rows that begin within a block");
    bw_case_in(c, BW_Q8_0, 2, (int64_t[]){4, 64})->strides[0] = 48;
    bw_case_in(c, BW_I32, 1, (int64_t[]){3});
    bw_case_out(c, BW_F32, 2, (int64_t[]){3, 64});
    bw_case_params(c, &(bw_get_rows_params){1}, sizeof(bw_get_rows_params));
    bw_case_refuse(c);
    refuse(sink, "another width", 7, BW_I32, 3);
    refuse(sink, "another number of ids", 8, BW_I32, 4);
    refuse(sink, "f32 ids", 8, BW_F32, 3);
    refuse_layout(sink, BW_F32, 99);
    refuse_layout(sink, BW_IQ1_S, 1);
}
