/* What CAST is tried with: every pair of the ten types. */
#include "bw_cases.h"
#include "bw_element.h"

static const bw_dtype types[] = {BW_F32, BW_BF16, BW_F16, BW_F64, BW_F8_E4M3, BW_U8, BW_U32, BW_I16, BW_I32, BW_I64};
enum { N_TYPES = sizeof types / sizeof *types };

/* Values of every magnitude the type has: what rounds, wraps and saturates. */
static void fill(bw_case_sink *sink, bw_tensor *t, int64_t n_stored)
{
    bw_rng *rng = bw_cases_rng(sink);
    for (int64_t i = 0; i < n_stored; i++) {
        int shift = (int)bw_rng_below(rng, 64);
        uint64_t bits = (uint64_t)bw_rng_u32(rng) << 32 | bw_rng_u32(rng);
        double v = (double)(int64_t)bits / (double)((uint64_t)1 << shift);
        if (bw_dtype_is_integer(t->dtype))
            bw_element_set_i64(t->dtype, t->data, i, (int64_t)bits >> shift);
        else
            bw_element_set_f64(t->dtype, t->data, i, i % 3 == 0 ? v * 0x1p-20 : v);
    }
}

static void one(bw_case_sink *sink, bw_dtype from, bw_dtype to, int n_dims, const int64_t *dims, bw_case_layout layout,
                int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_CAST, "%s to %s, %d dims, layout %d", bw_dtype_name(from), bw_dtype_name(to),
                               n_dims, (int)layout);
    bw_tensor *x = bw_case_in_layout(c, from, n_dims, dims, layout);
    bw_case_fill_normal(c, x, 100); /* between the elements too */
    if (layout == BW_CASE_CONTIGUOUS)
        fill(sink, x, bw_tensor_elements(x));
    bw_case_fill_special(c, x, n_special);
    bw_case_out(c, to, n_dims, dims);
    if (from == to)
        bw_case_exact(c);
    else /* a NaN's bits are the processor's own */
        bw_case_equal(c);
    bw_case_run(c);
}

/* Halfway cases, where rounding twice would show: a long integer just past the middle of two bf16 values. */
static void halves(bw_case_sink *sink, bw_dtype from, bw_dtype to)
{
    bw_case *c =
        bw_case_begin(sink, BW_OP_CAST, "%s to %s, next to the middle", bw_dtype_name(from), bw_dtype_name(to));
    enum { N = 8 * 40 };
    bw_tensor *x = bw_case_in(c, from, 1, (int64_t[]){N});
    for (int i = 0; i < N; i++) {
        int bits = i / 8 + 12, low = i % 4 - 1;
        int64_t v = ((int64_t)1 << bits) + ((int64_t)1 << (bits - 8)) + ((int64_t)1 << (bits - 4)) + low;
        if (bw_dtype_is_integer(from))
            bw_element_set_i64(from, x->data, i, i % 8 < 4 ? v : -v);
        else
            bw_element_set_f64(from, x->data, i, (double)(i % 8 < 4 ? v : -v));
    }
    bw_case_out(c, to, 1, (int64_t[]){N});
    bw_case_exact(c);
    bw_case_run(c);
}

void bw_op_cast_cases(bw_case_sink *sink)
{
    int n_dims, k = 0;
    int64_t dims[6];
    for (int a = 0; a < N_TYPES; a++)
        for (int b = 0; b < N_TYPES; b++) {
            for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++, k++) {
                one(sink, types[a], types[b], n_dims, dims, BW_CASE_CONTIGUOUS, i);
                one(sink, types[a], types[b], n_dims, dims, (bw_case_layout)(1 + k % 3), i);
            }
            halves(sink, types[a], types[b]);
            bw_case *c = bw_case_begin(sink, BW_OP_CAST, "%s to %s, into gaps", bw_dtype_name(types[a]),
                                       bw_dtype_name(types[b]));
            bw_case_fill_normal(c, bw_case_in(c, types[a], 2, (int64_t[]){37, 31}), 9);
            bw_case_out_strided(c, types[b], 2, (int64_t[]){37, 31}, (int64_t[]){2, 80});
            bw_case_exact(c);
            bw_case_run(c);
        }
    for (int i = 0; i < bw_cases_n_random(sink); i++)
        one(sink, types[bw_cases_between(sink, 0, N_TYPES - 1)], types[bw_cases_between(sink, 0, N_TYPES - 1)], 3,
            (int64_t[]){bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 700)},
            (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1), (int)bw_cases_between(sink, 0, 20));

    if (bw_cases_n_random(sink)) { /* past the caches */
        static const int64_t shape[] = {(1 << 12) + 7, 1 << 10};
        bw_case *large = bw_case_begin(sink, BW_OP_CAST, "32 MiB");
        bw_case_fill_uniform(large, bw_case_in(large, BW_F32, 2, shape), -9, 9);
        bw_case_out(large, BW_F64, 2, shape);
        bw_case_exact(large);
        bw_case_run(large);
        /* rows of odd length, one value for each: some rows' first streamed block is one element */
        static const int64_t odd[] = {9000, 1001};
        large = bw_case_begin(sink, BW_OP_CAST, "large rows, broadcast");
        bw_case_fill_uniform(large, bw_case_in_strided(large, BW_F64, 2, odd, (int64_t[]){1, 0}), -9, 9);
        bw_case_out(large, BW_F32, 2, odd);
        bw_case_exact(large);
        bw_case_run(large);
    }
    bw_case *c = bw_case_begin(sink, BW_OP_CAST, "other output shape");
    bw_case_in(c, BW_F32, 1, (int64_t[]){4});
    bw_case_out(c, BW_F16, 1, (int64_t[]){5});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_CAST, "from a quantised type");
    bw_case_in(c, BW_Q8_0, 1, (int64_t[]){32});
    bw_case_out(c, BW_F32, 1, (int64_t[]){32});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_CAST, "to a quantised type");
    bw_case_in(c, BW_F32, 1, (int64_t[]){32});
    bw_case_out(c, BW_Q8_0, 1, (int64_t[]){32});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_CAST, "no input");
    bw_case_in_absent(c);
    bw_case_out(c, BW_F32, 1, (int64_t[]){4});
    bw_case_refuse(c);
}
