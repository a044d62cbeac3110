/* tensor: element types, shapes, one-value conversions, block decoders against the `gguf` package's values. */
#include "../bw_test.h"

#include <math.h>

#include "bw_map.h"
#include "bw_mem.h"
#include "bw_quant.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes),           cmocka_unit_test(shapes),   cmocka_unit_test(halves),
        cmocka_unit_test(floats_of_8_bits), cmocka_unit_test(decoding), cmocka_unit_test(decoding_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
