/* tensor: element types, shapes, one-value conversions, block decoders against the `gguf` package's values. */
#include "../bw_test.h"

#include <math.h>

#include "bw_map.h"
#include "bw_mem.h"
#include "bw_quant.h"
#include "bw_rng.h"
#include "bw_tensor.h"

static void dtypes(void **state)
{
    (void)state;
    for (int i = 0; i < BW_DTYPE_COUNT; i++) {
        bw_dtype d = (bw_dtype)i;
        assert_int_equal(bw_dtype_from_name(bw_dtype_name(d)), d);
        if (bw_dtype_gguf(d) >= 0)
            assert_int_equal(bw_dtype_from_gguf((uint32_t)bw_dtype_gguf(d)), d);
        assert_int_equal(bw_dtype_bytes(d, bw_dtype_block_elements(d) * 3), bw_dtype_block_bytes(d) * 3);
        assert_int_equal(bw_dtype_bytes(d, 0), 0);
        assert_int_equal(bw_dtype_is_quantised(d), bw_dtype_block_elements(d) > 1);
    }
    assert_int_equal(bw_dtype_from_name("Q4_K"), BW_Q4_K);
    assert_int_equal(bw_dtype_from_name("q9"), BW_DTYPE_COUNT);
    assert_int_equal(bw_dtype_from_gguf(4), BW_DTYPE_COUNT);
    assert_int_equal(bw_dtype_from_gguf(UINT32_MAX), BW_DTYPE_COUNT);
    assert_int_equal(bw_dtype_gguf(BW_U8), -1);
    assert_string_equal(bw_dtype_name((bw_dtype)1000), "?");
    assert_int_equal(bw_dtype_bytes(BW_Q4_0, 33), -1);
    assert_int_equal(bw_dtype_bytes(BW_F32, -1), -1);
    assert_int_equal(bw_dtype_bytes(BW_F32, INT64_MAX / 2), -1);
    assert_int_equal(bw_dtype_bytes((bw_dtype)1000, 4), -1);
}

static void shapes(void **state)
{
    (void)state;
    int64_t dims[] = {3, 5, 64};
    assert_int_equal(bw_shape_elements(dims, 3), 960);
    assert_int_equal(bw_shape_elements(dims, 0), 1);
    assert_int_equal(bw_shape_elements((int64_t[]){1, -1}, 2), -1);
    assert_int_equal(bw_shape_elements((int64_t[]){INT64_MAX, 2}, 2), -1);
    assert_int_equal(bw_shape_elements((int64_t[]){INT64_MAX, 2, 0}, 3), 0);
    float data[960];
    bw_tensor t = bw_tensor_view(BW_F32, 3, dims, data);
    assert_int_equal(t.strides[0], 320);
    assert_int_equal(t.strides[2], 1);
    assert_ptr_equal(t.data, data);
    assert_int_equal(bw_tensor_elements(&t), 960);
    assert_true(bw_tensor_is_contiguous(&t));
    t.strides[1] = 128;
    assert_false(bw_tensor_is_contiguous(&t));
    t.dims[1] = 1;
    t.strides[0] = 64;
    assert_true(bw_tensor_is_contiguous(&t));
    assert_int_equal(bw_tensor_bytes(BW_Q4_0, 3, dims), 15 * 36);
    assert_int_equal(bw_tensor_bytes(BW_Q4_0, 2, dims), -1); /* rows of 5 */
    assert_int_equal(bw_tensor_bytes(BW_F32, 7, dims), -1);
    assert_int_equal(bw_tensor_bytes(BW_F64, 2, (int64_t[]){INT64_MAX, 1}), -1);
    char text[64], little[9];
    bw_tensor u = bw_tensor_view(BW_Q4_0, 2, (int64_t[]){576, 1536}, NULL);
    assert_string_equal(bw_tensor_describe(&u, text, sizeof text), "q4_0 [576, 1536]");
    assert_string_equal(bw_tensor_describe(&u, little, sizeof little), "q4_0 [57");
    /* dims as a damaged file may have them: no overflow, whatever they are */
    bw_tensor huge = bw_tensor_view(BW_F32, 4, (int64_t[]){2, INT64_MAX, INT64_MAX, 3}, NULL);
    assert_int_equal(huge.strides[2], 3);
    assert_int_equal(huge.strides[0], INT64_MAX);
    assert_int_equal(bw_tensor_elements(&huge), -1);
    assert_true(bw_tensor_is_contiguous(&huge));
    u.n_dims = 0;
    assert_string_equal(bw_tensor_describe(&u, text, sizeof text), "q4_0 []");
}

static void halves(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = bw_f16_to_f32((uint16_t)h), b = bw_bf16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true((bw_f32_to_f16(f) & 0x7e00) == 0x7e00);
        else
            assert_int_equal(bw_f32_to_f16(f), h);
        if (!isnan(b))
            assert_int_equal(bw_f32_to_bf16(b), h);
    }
    /* halfway between neighbours goes to the even one, a little more goes up */
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float low = bw_f16_to_f32((uint16_t)h), high = bw_f16_to_f32((uint16_t)(h + 1));
        float middle = (low + high) / 2;
        assert_int_equal(bw_f32_to_f16(middle), h & 1 ? h + 1 : h);
        assert_int_equal(bw_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(bw_f32_to_f16(nextafterf(middle, 0)), h);
    }
    assert_int_equal(bw_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(bw_f32_to_f16(65519.9f), 0x7bff);
}

static void floats_of_8_bits(void **state)
{
    (void)state;
    assert_true(bw_f8_e4m3_to_f32(0x38) == 1.0f);
    assert_true(bw_f8_e4m3_to_f32(0x7e) == 448.0f);
    assert_true(bw_f8_e4m3_to_f32(0x01) == 0x1p-9f);
    assert_true(isnan(bw_f8_e4m3_to_f32(0xff)));
    for (int v = 0; v < 256; v++) {
        float f = bw_f8_e4m3_to_f32((uint8_t)v);
        assert_int_equal(bw_f32_to_f8_e4m3(f), v);
        if ((v & 127) < 126) {
            float next = bw_f8_e4m3_to_f32((uint8_t)(v + 1)), middle = (f + next) / 2;
            assert_int_equal(bw_f32_to_f8_e4m3(middle), v & 1 ? v + 1 : v);
            assert_int_equal(bw_f32_to_f8_e4m3(nextafterf(middle, next * 2)), v + 1);
            assert_int_equal(bw_f32_to_f8_e4m3(nextafterf(middle, 0)), v);
        }
    }
    assert_int_equal(bw_f32_to_f8_e4m3(1e9f), 0x7e);
    assert_int_equal(bw_f32_to_f8_e4m3(-INFINITY), 0xfe);
}

static uint64_t fnv1a(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static uint32_t take_u32(const char **p)
{
    uint32_t v;
    memcpy(&v, *p, 4);
    *p += 4;
    return v;
}

/* A record's name as a type. */
static bw_dtype take_dtype(const char **p)
{
    char name[16] = {0};
    uint32_t n = take_u32(p);
    assert_true(n < sizeof name);
    memcpy(name, *p, n);
    *p += n;
    bw_dtype dtype = bw_dtype_from_name(name);
    if (dtype == BW_DTYPE_COUNT)
        fail_msg("unknown type %s", name);
    return dtype;
}

/* Every quantised type's random blocks decode to the very bits that the reference gives. */
static void decoding(void **state)
{
    (void)state;
    bw_err err = {0};
    char *file;
    size_t n_file;
    bool seen[BW_DTYPE_COUNT] = {0};
    assert_ok(bw_file_read(BW_TEST_DATA "/tensor/decode.bin", 1 << 20, &file, &n_file, &err), err);
    for (const char *p = file; p < file + n_file;) {
        bw_dtype dtype = take_dtype(&p);
        seen[dtype] = true;
        int64_t n_blocks = take_u32(&p), block = bw_dtype_block_elements(dtype), n = n_blocks * block;
        float *y = bw_alloc_array((size_t)n, sizeof *y);
        assert_non_null(y);
        assert_ok(bw_decode_row(dtype, p, y, n, &err), err);
        p += n_blocks * bw_dtype_block_bytes(dtype);
        uint64_t hash;
        memcpy(&hash, p, 8);
        p += 8;
        for (int64_t i = 0; i < block; i++) {
            float want;
            memcpy(&want, p + i * 4, 4);
            if (bw_f32_bits(want) != bw_f32_bits(y[i]) && (want != 0 || y[i] != 0))
                fail_msg("%s element %d: %.9g, should be %.9g", bw_dtype_name(dtype), (int)i, (double)y[i],
                         (double)want);
        }
        p += block * 4;
        if (fnv1a(y, (size_t)n * 4) != hash)
            fail_msg("%s: the hash over all blocks differs", bw_dtype_name(dtype));
        bw_free(y);
    }
    bw_free(file);
    for (int i = 0; i < BW_DTYPE_COUNT; i++)
        if (bw_dtype_is_quantised((bw_dtype)i) && !seen[i])
            fail_msg("%s has no fixture", bw_dtype_name((bw_dtype)i));
}

static void decoding_plain(void **state)
{
    (void)state;
    bw_err err = {0};
    float y[3];
#define CHECK(dtype, type, ...)                                                                                        \
    do {                                                                                                               \
        type src[3] = {__VA_ARGS__};                                                                                   \
        unsigned char shifted[1 + sizeof src]; /* not aligned */                                                       \
        memcpy(shifted + 1, src, sizeof src);                                                                          \
        assert_ok(bw_decode_row(dtype, shifted + 1, y, 3, &err), err);                                                 \
        for (int i = 0; i < 3; i++)                                                                                    \
            assert_true(y[i] == (float)src[i]);                                                                        \
    } while (0)
    CHECK(BW_F32, float, 1.5f, -2, 1e30f);
    CHECK(BW_F64, double, 0.1, -2, 1e300);
    CHECK(BW_I8, int8_t, -128, 127, 0);
    CHECK(BW_U8, uint8_t, 255, 127, 0);
    CHECK(BW_I16, int16_t, -32768, 32767, 5);
    CHECK(BW_I32, int32_t, INT32_MIN, INT32_MAX, 5);
    CHECK(BW_U32, uint32_t, UINT32_MAX, 7, 5);
    CHECK(BW_I64, int64_t, INT64_MIN, INT64_MAX, 5);
    uint8_t f8[3] = {0x38, 0xb8, 0};
    assert_ok(bw_decode_row(BW_F8_E4M3, f8, y, 3, &err), err);
    assert_true(y[0] == 1 && y[1] == -1 && y[2] == 0);
    uint16_t h[3] = {0x3c00, 0xbc00, 1};
    assert_ok(bw_decode_row(BW_F16, h, y, 3, &err), err);
    assert_true(y[0] == 1 && y[1] == -1 && y[2] == 0x1p-24f);
    assert_int_equal(bw_decode_row(BW_Q4_0, f8, y, 3, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "multiple of 32"));
    assert_ok(bw_decode_row(BW_F32, NULL, y, 0, &err), err);
}

/* Plain and legacy kinds: the bytes of the reference quantisation. */
static void encoding_reference(void **state)
{
    (void)state;
    bw_err err = {0};
    char *file;
    size_t n_file;
    int n_types = 0;
    assert_ok(bw_file_read(BW_TEST_DATA "/tensor/encode.bin", 1 << 20, &file, &n_file, &err), err);
    const char *p = file;
    int64_t n = take_u32(&p);
    float *x = bw_alloc_array((size_t)n, sizeof *x);
    unsigned char *out = bw_alloc((size_t)n * 4);
    assert_non_null(x);
    assert_non_null(out);
    memcpy(x, p, (size_t)n * 4);
    p += n * 4;
    for (; p < file + n_file; n_types++) {
        bw_dtype dtype = take_dtype(&p);
        uint32_t n_bytes = take_u32(&p);
        assert_int_equal(n_bytes, bw_dtype_bytes(dtype, n));
        assert_true(bw_can_encode(dtype));
        assert_ok(bw_encode_row(dtype, x, out, n, NULL, &err), err);
        for (uint32_t i = 0; i < n_bytes; i++)
            if (out[i] != (unsigned char)p[i])
                fail_msg("%s byte %u: %02x, should be %02x", bw_dtype_name(dtype), i, out[i], (unsigned char)p[i]);
        p += n_bytes;
    }
    assert_int_equal(n_types, 8);
    bw_free(x);
    bw_free(out);
    bw_free(file);
}

enum { N_SEARCHED = 256 * 200 };

/* The test's values, of one of two distributions. */
static void searched_values(int set, float *x, bw_rng *rng)
{
    for (int i = 0; i < N_SEARCHED; i++) {
        double v = bw_rng_normal(rng);
        x[i] = set == 0 ? (float)v * 0.02f : (float)(v * exp(bw_rng_normal(rng))) * 0.02f + 0.01f;
    }
}

static double rms_error(const float *x, const float *y, const float *w, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)(w ? w[i] : 1) * ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sqrt(sum / (double)n);
}

/* Kinds with a search: the error is at most 1% above that of llama.cpp's ggml_quantize_chunk on the same values
 * (measured once with llama-cpp-python 0.3.36; the numbers below are its errors). */
static void encoding_searched(void **state)
{
    (void)state;
    static const struct {
        bw_dtype dtype;
        double peer[2];
    } kinds[] = {
        {BW_Q2_K, {5.9048e-03, 1.9571e-02}},   {BW_Q3_K, {3.0116e-03, 1.0501e-02}},
        {BW_Q4_K, {1.4256e-03, 5.4368e-03}},   {BW_Q5_K, {7.1889e-04, 2.8197e-03}},
        {BW_Q6_K, {3.5535e-04, 1.6059e-03}},   {BW_IQ4_NL, {1.5196e-03, 6.2346e-03}},
        {BW_IQ4_XS, {1.5318e-03, 6.2999e-03}}, {BW_MXFP4, {2.2859e-03, 8.5666e-03}},
    };
    bw_err err = {0};
    bw_rng rng;
    bw_rng_init(&rng, 7);
    float *x = bw_alloc_array(N_SEARCHED, 4), *y = bw_alloc_array(N_SEARCHED, 4), *w = bw_alloc_array(N_SEARCHED, 4);
    void *packed = bw_alloc(N_SEARCHED * 4);
    assert_true(x && y && w && packed);
    for (int set = 0; set < 2; set++) {
        searched_values(set, x, &rng);
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            bw_dtype dtype = kinds[k].dtype;
            assert_ok(bw_encode_row(dtype, x, packed, N_SEARCHED, NULL, &err), err);
            assert_ok(bw_decode_row(dtype, packed, y, N_SEARCHED, &err), err);
            double error = rms_error(x, y, NULL, N_SEARCHED);
            if (!(error <= kinds[k].peer[set] * 1.01))
                fail_msg("%s: error %.4e, llama.cpp's is %.4e", bw_dtype_name(dtype), error, kinds[k].peer[set]);
            /* weights: what they stress becomes better */
            for (int i = 0; i < N_SEARCHED; i++)
                w[i] = i % 7 == 0 ? 100 : 1;
            double before = rms_error(x, y, w, N_SEARCHED);
            assert_ok(bw_encode_row(dtype, x, packed, N_SEARCHED, w, &err), err);
            assert_ok(bw_decode_row(dtype, packed, y, N_SEARCHED, &err), err);
            assert_true(rms_error(x, y, w, N_SEARCHED) < before);
        }
    }
    bw_free(x);
    bw_free(y);
    bw_free(w);
    bw_free(packed);
}

/* Values that are awkward: zeros, one value, tiny, one outlier; decoded they stay finite and near. */
static void encoding_edges(void **state)
{
    (void)state;
    bw_err err = {0};
    float x[256], y[256];
    unsigned char packed[1024];
    for (int d = 0; d < BW_DTYPE_COUNT; d++) {
        if (!bw_can_encode((bw_dtype)d)) {
            assert_int_equal(bw_encode_row((bw_dtype)d, x, packed, 256, NULL, &err), BW_E_UNSUPPORTED);
            continue;
        }
        for (int kind = 0; kind < 6; kind++) {
            for (int i = 0; i < 256; i++)
                x[i] = kind == 0   ? 0
                       : kind == 1 ? 0.75f
                       : kind == 2 ? -3.25f
                       : kind == 3 ? (float)(i - 128) * 1e-40f
                       : kind == 4 ? (i == 77 ? 1000.0f : 0)
                                   : (float)(i % 2);
            assert_ok(bw_encode_row((bw_dtype)d, x, packed, 256, NULL, &err), err);
            assert_ok(bw_decode_row((bw_dtype)d, packed, y, 256, &err), err);
            float most = 0;
            for (int i = 0; i < 256; i++)
                most = fmaxf(most, fabsf(x[i]));
            for (int i = 0; i < 256; i++)
                if (!(fabsf(y[i] - x[i]) <= most * 0.12f + 1e-37f))
                    fail_msg("%s, kind %d, element %d: %g became %g", bw_dtype_name((bw_dtype)d), kind, i, (double)x[i],
                             (double)y[i]);
        }
        x[200] = NAN;
        assert_int_equal(bw_encode_row((bw_dtype)d, x, packed, 256, NULL, &err), BW_E_FORMAT);
        assert_non_null(strstr(err.text, "element 200"));
        x[200] = -INFINITY;
        assert_int_equal(bw_encode_row((bw_dtype)d, x, packed, 256, NULL, &err), BW_E_FORMAT);
        x[200] = 0;
        for (int i = 0; i < 256; i++)
            x[i] = 1e35f + (float)i;
        bw_status status = bw_encode_row((bw_dtype)d, x, packed, 256, NULL, &err);
        if (d == BW_F32 || d == BW_BF16 || d == BW_MXFP4) {
            assert_ok(status, err);
            assert_ok(bw_decode_row((bw_dtype)d, packed, y, 256, &err), err);
            assert_true(fabsf(y[9] / 1e35f - 1) < 0.3f);
        } else {
            assert_int_equal(status, BW_E_RANGE);
        }
        float weight[256] = {0};
        weight[3] = -1;
        x[0] = 0;
        assert_int_equal(bw_encode_row((bw_dtype)d, x, packed, 256, weight, &err), BW_E_ARG);
    }
    assert_int_equal(bw_encode_row(BW_Q4_K, x, packed, 255, NULL, &err), BW_E_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes),
        cmocka_unit_test(shapes),
        cmocka_unit_test(halves),
        cmocka_unit_test(floats_of_8_bits),
        cmocka_unit_test(decoding),
        cmocka_unit_test(decoding_plain),
        cmocka_unit_test(encoding_reference),
        cmocka_unit_test(encoding_searched),
        cmocka_unit_test(encoding_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
