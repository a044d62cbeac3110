/* What DEQUANTIZE_BLOCK, QUANTIZE and QUANTIZE_Q8_1 are tried with. */
#include "bw_cases.h"

#include "bw_quant.h"

static const bw_dtype outputs[] = {BW_F32, BW_F16, BW_BF16};

static void dequantize(bw_case_sink *sink, bw_dtype dtype, bw_dtype out, int64_t rows, int64_t k)
{
    bw_case *c = bw_case_begin(sink, BW_OP_DEQUANTIZE_BLOCK, "%s [%lld, %lld] to %s", bw_dtype_name(dtype),
                               (long long)rows, (long long)k, bw_dtype_name(out));
    bw_case_fill_normal(c, bw_case_in(c, dtype, 2, (int64_t[]){rows, k}), 1);
    bw_case_out(c, out, 2, (int64_t[]){rows, k});
    bw_case_equal(c); /* random scales give NaN, of any payload */
    bw_case_run(c);
}

/* Any bytes at all: scales that are infinite or not numbers too. */
static void dequantize_bytes(bw_case_sink *sink, bw_dtype dtype)
{
    int64_t k = bw_dtype_block_elements(dtype) * 40;
    bw_case *c = bw_case_begin(sink, BW_OP_DEQUANTIZE_BLOCK, "%s, any bytes", bw_dtype_name(dtype));
    bw_tensor *x = bw_case_in(c, dtype, 1, &k);
    for (int64_t i = 0; i < bw_dtype_bytes(dtype, k); i++)
        ((uint8_t *)x->data)[i] = (uint8_t)bw_rng_u32(bw_cases_rng(sink));
    bw_case_out(c, BW_F32, 1, &k);
    bw_case_equal(c); /* random scales give NaN, of any payload */
    bw_case_run(c);
}

void bw_op_dequantize_block_cases(bw_case_sink *sink)
{
    for (int k = 0; k < BW_DTYPE_COUNT; k++)
        for (int o = 0; o < 3; o++) {
            int64_t block = bw_dtype_block_elements((bw_dtype)k);
            dequantize(sink, (bw_dtype)k, outputs[o], 1, block);
            dequantize(sink, (bw_dtype)k, outputs[o], 5, block * 3);
            dequantize(sink, (bw_dtype)k, outputs[o], 7, 2048 + block);
            dequantize(sink, (bw_dtype)k, outputs[o], 3, 0);
        }
    for (int k = 0; k < BW_DTYPE_COUNT; k++)
        dequantize_bytes(sink, (bw_dtype)k);
    bw_case *c = bw_case_begin(sink, BW_OP_DEQUANTIZE_BLOCK, "one dimension");
    bw_case_fill_normal(c, bw_case_in(c, BW_Q4_K, 1, (int64_t[]){4096}), 1);
    bw_case_out(c, BW_F32, 1, (int64_t[]){4096});
    bw_case_exact(c);
    bw_case_run(c);
    c = bw_case_begin(sink, BW_OP_DEQUANTIZE_BLOCK, "rows apart, output transposed");
    bw_case_fill_normal(c, bw_case_in_strided(c, BW_Q5_1, 3, (int64_t[]){2, 3, 64}, (int64_t[]){640, 192, 1}), 1);
    bw_case_out_strided(c, BW_F16, 3, (int64_t[]){2, 3, 64}, (int64_t[]){192, 1, 3});
    bw_case_exact(c);
    bw_case_run(c);
    c = bw_case_begin(sink, BW_OP_DEQUANTIZE_BLOCK, "no whole number of blocks");
    bw_case_in(c, BW_F32, 1, (int64_t[]){33})->dtype = BW_Q4_0;
    bw_case_out(c, BW_F32, 1, (int64_t[]){33});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_DEQUANTIZE_BLOCK, "to integers");
    bw_case_in(c, BW_Q4_0, 1, (int64_t[]){32});
    bw_case_out(c, BW_I32, 1, (int64_t[]){32});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_DEQUANTIZE_BLOCK, "another shape");
    bw_case_in(c, BW_Q4_0, 1, (int64_t[]){32});
    bw_case_out(c, BW_F32, 2, (int64_t[]){1, 32});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_DEQUANTIZE_BLOCK, "a stride within a block");
    bw_case_in(c, BW_Q4_0, 2, (int64_t[]){2, 64})->strides[0] = 48;
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 64});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_DEQUANTIZE_BLOCK, "a packed layout");
    bw_case_in(c, BW_Q4_0, 2, (int64_t[]){2, 64})->layout = 1;
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 64});
    bw_case_refuse(c);
}

static void quantize(bw_case_sink *sink, bw_dtype dtype, int64_t rows, int64_t k, bool weighted, int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_QUANTIZE, "[%lld, %lld] to %s%s, %d special values", (long long)rows,
                               (long long)k, bw_dtype_name(dtype), weighted ? " with importance" : "", n_special);
    bw_tensor *x = bw_case_in(c, BW_F32, 2, (int64_t[]){rows, k});
    bw_case_fill_normal(c, x, 0.3);
    bw_case_fill_special(c, x, n_special);
    if (weighted) {
        bw_tensor *w = bw_case_in(c, BW_F32, 1, &k);
        bw_case_fill_uniform(c, w, 0, 10);
        bw_case_fill_special(c, w, n_special);
    } else if (k % 512 == 0) {
        bw_case_in_absent(c);
    }
    bw_case_out(c, dtype, 2, (int64_t[]){rows, k});
    bw_case_exact(c);
    bw_case_run(c);
}

void bw_op_quantize_cases(bw_case_sink *sink)
{
    for (int k = 0; k < BW_DTYPE_COUNT; k++) {
        bw_dtype dtype = (bw_dtype)k;
        if (!bw_can_encode(dtype))
            continue;
        int64_t block = bw_dtype_block_elements(dtype);
        quantize(sink, dtype, 1, block, false, 0);
        quantize(sink, dtype, 5, block * 3, true, 0);
        quantize(sink, dtype, 3, 1024, false, 0);
        quantize(sink, dtype, 3, 768, true, 20);
        quantize(sink, dtype, 4, 0, false, 0);
        for (int i = 0; i < bw_cases_n_random(sink); i++)
            quantize(sink, dtype, bw_cases_between(sink, 1, 3), block * bw_cases_between(sink, 1, 4), i % 2,
                     (int)bw_cases_between(sink, 0, 40));
    }
    bw_case *c = bw_case_begin(sink, BW_OP_QUANTIZE, "rows apart");
    bw_case_fill_normal(c, bw_case_in_strided(c, BW_F32, 2, (int64_t[]){3, 64}, (int64_t[]){70, 1}), 1);
    bw_case_out_strided(c, BW_Q8_0, 2, (int64_t[]){3, 64}, (int64_t[]){96, 1});
    bw_case_exact(c);
    bw_case_run(c);
    c = bw_case_begin(sink, BW_OP_QUANTIZE, "a type without an encoder");
    bw_case_in(c, BW_F32, 1, (int64_t[]){256});
    bw_case_out(c, BW_IQ1_S, 1, (int64_t[]){256});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_QUANTIZE, "from f16");
    bw_case_in(c, BW_F16, 1, (int64_t[]){256});
    bw_case_out(c, BW_Q4_0, 1, (int64_t[]){256});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_QUANTIZE, "another shape");
    bw_case_in(c, BW_F32, 1, (int64_t[]){256});
    bw_case_out(c, BW_Q4_0, 1, (int64_t[]){288});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_QUANTIZE, "importance of another length");
    bw_case_in(c, BW_F32, 1, (int64_t[]){256});
    bw_case_in(c, BW_F32, 1, (int64_t[]){32});
    bw_case_out(c, BW_Q4_0, 1, (int64_t[]){256});
    bw_case_refuse(c);
}

static void quantize_q8_1(bw_case_sink *sink, int64_t rows, int64_t k, int64_t gap, double scale, int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_QUANTIZE_Q8_1, "[%lld, %lld] + %lld, scale %g, %d special values",
                               (long long)rows, (long long)k, (long long)gap, scale, n_special);
    bw_tensor *x = bw_case_in_strided(c, BW_F32, 2, (int64_t[]){rows, k}, (int64_t[]){k + gap, 1});
    bw_case_fill_normal(c, x, scale);
    bw_case_fill_special(c, x, n_special);
    bw_case_out(c, BW_Q8_1, 2, (int64_t[]){rows, (k + 511) / 512 * 512});
    bw_case_exact(c);
    bw_case_run(c);
}

void bw_op_quantize_q8_1_cases(bw_case_sink *sink)
{
    static const int64_t lengths[] = {1, 31, 32, 33, 511, 512, 513, 1024, 2000, 4096};
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++) {
        quantize_q8_1(sink, 1, lengths[i], 0, 1, 0);
        quantize_q8_1(sink, 5, lengths[i], i % 3, 10, 0);
        quantize_q8_1(sink, 2, lengths[i], 0, 1e-42, 0);
        quantize_q8_1(sink, 3, lengths[i], 0, 1, 9);
    }
    quantize_q8_1(sink, 3, 0, 0, 1, 0);
    quantize_q8_1(sink, 0, 5, 0, 1, 0);
    for (int i = 0; i < bw_cases_n_random(sink); i++)
        quantize_q8_1(sink, bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 3000), bw_cases_between(sink, 0, 9),
                      bw_rng_f64(bw_cases_rng(sink)), (int)bw_cases_between(sink, 0, 9));
    /* halves, which go away from zero, and their neighbours */
    bw_case *c = bw_case_begin(sink, BW_OP_QUANTIZE_Q8_1, "halves");
    float *x = bw_case_in(c, BW_F32, 1, (int64_t[]){512})->data;
    for (int i = 0; i < 512; i++)
        x[i] = i % 32 == 0 ? 127 : (float)(i - 256) * 0.25f + (i % 3 == 0 ? 0 : i % 3 == 1 ? 0x1p-18f : -0x1p-18f);
    bw_case_out(c, BW_Q8_1, 1, (int64_t[]){512});
    bw_case_exact(c);
    bw_case_run(c);
    c = bw_case_begin(sink, BW_OP_QUANTIZE_Q8_1, "not padded");
    bw_case_in(c, BW_F32, 1, (int64_t[]){64});
    bw_case_out(c, BW_Q8_1, 1, (int64_t[]){64});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_QUANTIZE_Q8_1, "to q8_0");
    bw_case_in(c, BW_F32, 1, (int64_t[]){512});
    bw_case_out(c, BW_Q8_0, 1, (int64_t[]){512});
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_QUANTIZE_Q8_1, "another number of rows");
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 512});
    bw_case_out(c, BW_Q8_1, 2, (int64_t[]){3, 512});
    bw_case_refuse(c);
}
