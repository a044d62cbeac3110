/* What QUANTISE_ACT and LINEAR are tried with. */
#include "bw_cases.h"

#include <math.h>

#include "bw_quant.h"
#include "linear/bw_linear_gpu.h"
#include "linear_layout.h"

/* ---- QUANTISE_ACT ----------------------------------------------------------------------------------------------- */

static void decode_act(const bw_tensor *t, int64_t row, float *dst, int64_t n_columns)
{
    bw_act_decode_row(t->layout, t->dims[0], (const char *)t->data + row * t->dims[1], dst, n_columns);
}

static void act_out(bw_case_sink *sink, bw_case *c, int64_t t, int64_t k)
{
    bw_tensor like = bw_tensor_view(BW_Q8_0, 2, (int64_t[]){16, k}, NULL);
    like.layout = bw_cases_device(sink)->kind == BW_DEVICE_CPU ? BW_LAYOUT_ROWS16 : BW_LAYOUT_PLANES;
    uint32_t format = bw_linear_act_format(bw_cases_device(sink), &like);
    int64_t bytes = bw_act_row_bytes(format, k);
    like = bw_tensor_view(BW_U8, 2, (int64_t[]){t, bytes}, NULL);
    like.layout = format;
    bw_case_out_bytes(c, &like, (size_t)(t * bytes));
    bw_case_decoder(c, decode_act, k);
}

static void quantise_case(bw_case_sink *sink, int64_t t, int64_t k, int64_t stride, int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_QUANTISE_ACT, "t %lld, k %lld, stride %lld, %d special", (long long)t,
                               (long long)k, (long long)stride, n_special);
    bw_tensor *x = bw_case_in_strided(c, BW_F32, 2, (int64_t[]){t, k}, (int64_t[]){stride, 1});
    bw_case_fill_normal(c, x, 1);
    bw_case_fill_special(c, x, n_special);
    act_out(sink, c, t, k);
    bw_case_tolerance(c, 1, 0, 0);
    bw_case_run(c);
}

void bw_op_quantise_act_cases(bw_case_sink *sink)
{
    quantise_case(sink, 1, 32, 32, 0);
    quantise_case(sink, 1, 576, 576, 0);
    quantise_case(sink, 5, 96, 100, 0);
    quantise_case(sink, 3, 2048, 2048, 0);
    quantise_case(sink, 9, 640, 640, 20);
    for (int i = 0; i < bw_cases_n_random(sink); i++) {
        int64_t k = 32 * bw_cases_between(sink, 1, 70);
        quantise_case(sink, bw_cases_between(sink, 1, 40), k, k + bw_cases_between(sink, 0, 5),
                      (int)bw_cases_between(sink, 0, 9));
    }
    bw_case *c = bw_case_begin(sink, BW_OP_QUANTISE_ACT, "k no multiple of 32");
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 33});
    act_out(sink, c, 2, 32);
    bw_case_refuse(c);
}

/* ---- LINEAR ----------------------------------------------------------------------------------------------------- */

enum { MAX_WEIGHTS = 96 * 1024, MAX_X = 96 * 1024 };

/* A block of a type that has no encoder: random bytes that decode to numbers of moderate size. */
static void fill_block(bw_case_sink *sink, bw_dtype dtype, uint8_t *block)
{
    enum { MOST_ELEMENTS = 256 };
    float values[MOST_ELEMENTS];
    bool fits = false;
    while (!fits) {
        for (int64_t i = 0; i < bw_dtype_block_bytes(dtype); i++)
            block[i] = (uint8_t)bw_cases_between(sink, 0, 255);
        bw_decode_row(dtype, block, values, bw_dtype_block_elements(dtype), NULL);
        fits = true;
        for (int64_t i = 0; i < bw_dtype_block_elements(dtype); i++)
            fits = fits && fabsf(values[i]) <= 2; /* not NaN either */
    }
}

/* A plain weight [n, k], normal values where the type can be encoded. */
static void fill_plain(bw_case_sink *sink, bw_dtype dtype, int64_t n, int64_t k, uint8_t *plain)
{
    static float row[MAX_WEIGHTS];
    int64_t row_bytes = bw_dtype_bytes(dtype, k);
    if (!bw_can_encode(dtype)) {
        for (int64_t i = 0; i < n * row_bytes; i += bw_dtype_block_bytes(dtype))
            fill_block(sink, dtype, plain + i);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < k; j++)
            row[j] = (float)bw_rng_normal(bw_cases_rng(sink));
        bw_encode_row(dtype, row, plain + i * row_bytes, k, NULL, NULL);
    }
}

/* Weight [n, k] of dtype as this processor wants it, or plain. */
static bw_tensor *weight_in(bw_case_sink *sink, bw_case *c, bw_dtype dtype, int64_t n, int64_t k, bool packed)
{
    static uint8_t plain[MAX_WEIGHTS * 4];
    uint32_t layout = packed ? bw_linear_choose_layout(bw_cases_device(sink), dtype, n, k) : BW_LAYOUT_PLAIN;
    bw_tensor like = bw_tensor_view(dtype, 2, (int64_t[]){n, k}, NULL);
    like.layout = layout;
    bw_tensor *w = bw_case_in_bytes(c, &like, (size_t)bw_linear_layout_bytes(layout, dtype, n, k));
    fill_plain(sink, dtype, n, k, plain);
    bw_linear_pack_rows(layout, dtype, n, k, 0, n, plain, w->data);
    return w;
}

static void x_in(bw_case_sink *sink, bw_case *c, uint32_t format, int64_t t, int64_t k)
{
    if (format == BW_ACT_F32) {
        bw_case_fill_normal(c, bw_case_in(c, BW_F32, 2, (int64_t[]){t, k}), 1);
        return;
    }
    static float x[MAX_X];
    int64_t bytes = bw_act_row_bytes(format, k);
    bw_tensor like = bw_tensor_view(BW_U8, 2, (int64_t[]){t, bytes}, NULL);
    like.layout = format;
    bw_tensor *a = bw_case_in_bytes(c, &like, (size_t)(t * bytes));
    for (int64_t i = 0; i < t; i++) {
        for (int64_t j = 0; j < k; j++)
            x[j] = (float)bw_rng_normal(bw_cases_rng(sink));
        bw_act_encode_row(format, t, x, (char *)a->data + i * bytes, k);
    }
}

typedef struct linear_case {
    bw_dtype dtype;
    int64_t n, k, t;
    bool packed, with_bias;
    int64_t out_gap; /* elements between output rows */
} linear_case;

/* What matrix units add to an element's error: GPUs round to 16 bits what they multiply when there are more than
 * BW_LINEAR_FEW rows (and always for blocks of packed types that are in GGUF's own order), float weights' activations
 * (quantised weights' arrive rounded) and quantised weights. Roundings are independent, so the errors of k products of
 * mean size 1 add up to sqrt(k) of one's, at most 2^-11 of it (bf16 2^-8), 0.4 of that on average; a scale's and a
 * weight's own rounding are two; 4 is then six standard deviations. */
static double half_step(bw_case_sink *sink, bw_dtype dtype, bool is_packed, int64_t t, int64_t k)
{
    bool has_planes = bw_linear_choose_layout(bw_cases_device(sink), dtype, 1, 256) != BW_LAYOUT_PLAIN;
    bool is_exact = t <= BW_LINEAR_FEW && (is_packed || !has_planes);
    if (bw_cases_device(sink)->kind == BW_DEVICE_CPU || is_exact || dtype == BW_F32)
        return 0;
    return 4 * (dtype == BW_BF16 ? 0x1p-8 : 0x1p-11) * sqrt((double)k);
}

static void try_linear(bw_case_sink *sink, linear_case m)
{
    bw_case *c = bw_case_begin(sink, BW_OP_LINEAR, "%s%s, n %lld, k %lld, t %lld%s, gap %lld", bw_dtype_name(m.dtype),
                               m.packed ? " packed" : "", (long long)m.n, (long long)m.k, (long long)m.t,
                               m.with_bias ? ", bias" : "", (long long)m.out_gap);
    bw_tensor like = bw_tensor_view(m.dtype, 2, (int64_t[]){m.n, m.k}, NULL);
    like.layout = m.packed ? bw_linear_choose_layout(bw_cases_device(sink), m.dtype, m.n, m.k) : BW_LAYOUT_PLAIN;
    x_in(sink, c, bw_linear_act_format(bw_cases_device(sink), &like), m.t, m.k);
    weight_in(sink, c, m.dtype, m.n, m.k, m.packed);
    if (m.with_bias)
        bw_case_fill_normal(c, bw_case_in(c, BW_F32, 1, &m.n), 1);
    else
        bw_case_in_absent(c);
    bw_case_out_strided(c, BW_F32, 2, (int64_t[]){m.t, m.n}, (int64_t[]){m.n + m.out_gap, 1});
    bw_case_params(c, &(bw_linear_params){m.k}, sizeof(bw_linear_params));
    /* terms of mean size 2 / pi, and the zero points' */
    bw_case_tolerance(c, m.k, (double)m.k, half_step(sink, m.dtype, m.packed, m.t, m.k));
    bw_case_run(c);
}

void bw_op_linear_cases(bw_case_sink *sink)
{
    static const bw_dtype types[] = {BW_Q4_0, BW_Q4_1, BW_Q5_0, BW_Q5_1, BW_Q8_0, BW_Q2_K,   BW_Q3_K,   BW_Q4_K,
                                     BW_Q5_K, BW_Q6_K, BW_F32,  BW_F16,  BW_BF16, BW_IQ4_NL, BW_IQ4_XS, BW_MXFP4};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        int64_t block = bw_dtype_block_elements(types[i]), k = block == 256 ? 768 : 576;
        try_linear(sink, (linear_case){types[i], 33, k, 1, true, false, 0});
        try_linear(sink, (linear_case){types[i], 24, k, 2, true, true, 0}); /* GPUs: 1, 2, 4, 8 rows at a time */
        try_linear(sink, (linear_case){types[i], 33, k, 4, true, false, 1});
        try_linear(sink, (linear_case){types[i], 48, k, 8, true, true, 0});
        try_linear(sink, (linear_case){types[i], 300, 256, 12, true, false, 0}); /* and more tiles of rows than one */
        try_linear(sink, (linear_case){types[i], 17, 256, 37, true, true, 3});
        try_linear(sink, (linear_case){types[i], 5, 256, 3, false, true, 1});
        try_linear(sink, (linear_case){types[i], 16, 256, 16, true, false, 0});
        try_linear(sink, (linear_case){types[i], 70, 256, 66, true, true, 2});
        for (int r = 0; r < bw_cases_n_random(sink); r++) {
            k = block == 256 ? 256 * bw_cases_between(sink, 1, 4) : 32 * bw_cases_between(sink, 1, 30);
            int64_t n = bw_cases_between(sink, 1, 90), t = bw_cases_between(sink, 1, 70);
            try_linear(sink, (linear_case){types[i], n, k, t, true, r % 2 == 0, bw_cases_between(sink, 0, 4)});
        }
    }
    for (int i = 0; i < BW_DTYPE_COUNT; i++) {
        bw_dtype dtype = (bw_dtype)i;
        if (!bw_dtype_is_quantised(dtype) || bw_can_encode(dtype))
            continue;
        try_linear(sink, (linear_case){dtype, 20, 256, 1, true, false, 0});
        try_linear(sink, (linear_case){dtype, 7, 768, 2, true, true, 1});
        try_linear(sink, (linear_case){dtype, 33, 512, 3, true, false, 0});
        try_linear(sink, (linear_case){dtype, 10, 2560, 8, true, true, 0}); /* more than a round of threads */
        try_linear(sink, (linear_case){dtype, 5, 512, 12, true, true, 1});
        try_linear(sink, (linear_case){dtype, 9, 256, 70, true, true, 0});
    }
    /* More of everything than a tile, and what divides into nothing. */
    try_linear(sink, (linear_case){BW_F16, 150, 288, 200, true, true, 0});
    try_linear(sink, (linear_case){BW_BF16, 130, 1040, 65, true, false, 5});
    try_linear(sink, (linear_case){BW_Q8_0, 150, 544, 131, true, true, 2});
    for (int64_t t = 1; t < 80; t += 26) {
        try_linear(sink, (linear_case){BW_F16, 7, 33, t, false, true, 0});
        try_linear(sink, (linear_case){BW_BF16, 9, 40, t, false, false, 1});
        try_linear(sink, (linear_case){BW_F32, 10, 1, t, false, true, 0});
        try_linear(sink, (linear_case){BW_F32, 11, 24, t, false, false, 0});
    }
    bw_case *c = bw_case_begin(sink, BW_OP_LINEAR, "K differs");
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 64});
    bw_case_in(c, BW_F32, 2, (int64_t[]){3, 32});
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 3});
    bw_case_params(c, &(bw_linear_params){64}, sizeof(bw_linear_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_LINEAR, "no params");
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 64});
    bw_case_in(c, BW_F32, 2, (int64_t[]){3, 64});
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 3});
    bw_case_refuse(c);
}
