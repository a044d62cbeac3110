/* formats: what `inspect` prints, as text and as JSON. */
#include "../bw_test.h"

#include <jansson.h>

#include "bw_gguf.h"
#include "bw_inspect.h"
#include "bw_mem.h"
#include "raw.h"

#define DATA BW_TEST_DATA "/formats/"

static bw_str inspect(const char *path, bool json)
{
    bw_err err = {0};
    bw_str out = {0};
    assert_ok(bw_formats_inspect(path, json, &out, &err), err);
    return out;
}

static json_t *inspect_json(const char *path)
{
    bw_str out = inspect(path, true);
    json_error_t e;
    json_t *root = json_loads(out.data, 0, &e);
    if (!root)
        fail_msg("%s at %d: %s", e.text, e.position, out.data);
    bw_str_deinit(&out);
    return root;
}

static const json_t *metadata_value(const json_t *root, const char *key)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(root, "metadata"), i, entry)
    {
        if (strcmp(json_string_value(json_object_get(entry, "key")), key) == 0)
            return json_object_get(entry, "value");
    }
    return NULL;
}

static void as_text(void **state)
{
    (void)state;
    static const char *const want[] = {"format: gguf, version 3\n",
                                       "test.u64 (u64) = 18446744073709551615\n",
                                       "test.i64 (i64) = -9223372036854775808\n",
                                       "test.string (string) = grüße 🐝\n",
                                       "test.nested (array) = 3 of array [2 of i32 [1, 2], ",
                                       "  blk.0.ffn_up.weight  q4_0 [8, 64]  288 bytes at 1216\n",
                                       "parameters: 832 in 816 bytes (7.85 bits each)\n"};
    bw_str out = inspect(DATA "types.gguf", false);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        if (!strstr(out.data, want[i]))
            fail_msg("no \"%s\" in\n%s", want[i], out.data);
    bw_str_deinit(&out);
    out = inspect(DATA "split-00001-of-00003.gguf", false);
    assert_non_null(strstr(out.data, "of part 3"));
    bw_str_deinit(&out);
    out = inspect(DATA "one.safetensors", false);
    assert_non_null(strstr(out.data, "  note = grüße\n"));
    assert_non_null(strstr(out.data, "c  f16 []  2 bytes"));
    bw_str_deinit(&out);
}

static void as_json(void **state)
{
    (void)state;
    json_t *root = inspect_json(DATA "types.gguf");
    assert_string_equal(json_string_value(json_object_get(root, "format")), "gguf");
    assert_int_equal(json_integer_value(json_object_get(root, "version")), 3);
    assert_int_equal(json_integer_value(json_object_get(root, "parameters")), 832);
    assert_int_equal(json_array_size(json_object_get(root, "tensors")), 3);
    assert_true(json_is_true(metadata_value(root, "test.bool")));
    const json_t *strings = metadata_value(root, "test.strings");
    assert_int_equal(json_integer_value(json_object_get(strings, "length")), 3);
    assert_string_equal(json_string_value(json_array_get(json_object_get(strings, "first"), 2)), "bee's wax");
    json_decref(root);
    const char *paths[] = {DATA "one.safetensors", DATA "sharded", DATA "sharded/model.safetensors.index.json"};
    for (int i = 0; i < 3; i++) {
        root = inspect_json(paths[i]);
        assert_string_equal(json_string_value(json_object_get(root, "format")), "safetensors");
        json_decref(root);
    }
}

/* Names and values full of quotes, control characters, broken UTF-8 and numbers that are not finite. */
static void hostile_strings(void **state)
{
    (void)state;
    static const char nasty[] = "\"\\\n\r\t\b\1\33[2J\xff\xc3\x28\xed\xa0\x80</script>\xe2\x80";
    raw r;
    char folder[200], path[300];
    double not_finite[] = {1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0};
    float nan32 = (float)(0.0 / 0.0);
    raw_gguf(&r, 3, 1, 5);
    raw_string(&r, nasty);
    raw_u32(&r, BW_GGUF_STRING);
    raw_string(&r, nasty);
    raw_string(&r, "nan");
    raw_u32(&r, BW_GGUF_F32);
    raw_bytes(&r, &nan32, 4);
    raw_string(&r, "infinite");
    raw_u32(&r, BW_GGUF_ARRAY);
    raw_u32(&r, BW_GGUF_F64);
    raw_u64(&r, 3);
    raw_bytes(&r, not_finite, sizeof not_finite);
    raw_string(&r, "strings");
    raw_u32(&r, BW_GGUF_ARRAY);
    raw_u32(&r, BW_GGUF_STRING);
    raw_u64(&r, 2);
    raw_string(&r, nasty);
    raw_string(&r, "");
    raw_string(&r, "zero inside");
    raw_u32(&r, BW_GGUF_STRING);
    raw_u64(&r, 3);
    raw_bytes(&r, "a\0b", 3);
    raw_tensor(&r, nasty, 1, (uint64_t[]){8}, 0, 0);
    raw_align(&r, 32);
    raw_u64(&r, 0);
    raw_u64(&r, 0);
    raw_u64(&r, 0);
    raw_u64(&r, 0);
    raw_folder(folder);
    snprintf(path, sizeof path, "%s/nasty \"\n.gguf", folder);
    raw_write(path, r.data, r.n);
    bw_str out = inspect(path, true);
    json_error_t e;
    json_t *root = json_loads(out.data, JSON_ALLOW_NUL, &e);
    if (!root)
        fail_msg("%s: %s", e.text, out.data);
    assert_true(json_is_null(metadata_value(root, "nan")));
    json_decref(root);
    bw_str_deinit(&out);
    out = inspect(path, false);
    for (size_t i = 0; i < out.len; i++)
        assert_true((unsigned char)out.data[i] >= 32 || out.data[i] == '\n');
    bw_str_deinit(&out);
    unlink(path);
    rmdir(folder);
}

static void refusing(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_str out = {0};
    assert_int_equal(bw_formats_inspect(DATA "absent", false, &out, &err), BW_E_IO);
    assert_int_equal(bw_formats_inspect(BW_TEST_DATA "/tensor/decode.bin", false, &out, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "neither"));
    int64_t n;
    int failed = 0;
    for (n = 1;; n++) {
        int64_t live = bw_mem_live();
        bw_mem_fail_at(n);
        bw_status status = bw_formats_inspect(DATA "types.gguf", true, &out, &err);
        bw_mem_fail_at(0);
        bw_str_deinit(&out);
        out = (bw_str){0};
        assert_int_equal(bw_mem_live(), live);
        if (status == BW_OK)
            break;
        assert_int_equal(status, BW_E_MEMORY);
        failed++;
    }
    assert_true(failed > 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_text),
        cmocka_unit_test(as_json),
        cmocka_unit_test(hostile_strings),
        cmocka_unit_test(refusing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
