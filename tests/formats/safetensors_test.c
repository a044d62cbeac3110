/* formats: safetensors by the reference package, made by hand, and written. */
#include "../bw_test.h"

#include <sys/stat.h>

#include "bw_clock.h"
#include "bw_mem.h"
#include "bw_safetensors.h"
#include "bw_str.h"
#include "raw.h"

#define DATA BW_TEST_DATA "/formats/"

static void reading(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_safetensors *st;
    int64_t live = bw_mem_live();
    assert_ok(bw_safetensors_open(DATA "one.safetensors", &st, &err), err);
    assert_int_equal(bw_safetensors_count(st), 11);
    assert_string_equal(bw_safetensors_metadata(st, "note"), "grüße");
    assert_null(bw_safetensors_metadata(st, "absent"));
    static const struct {
        const char *name;
        bw_dtype dtype;
        int n_dims;
        size_t n_bytes;
    } want[] = {{"a", BW_F32, 2, 24}, {"b.weight", BW_I64, 2, 48}, {"c", BW_F16, 0, 2},  {"d", BW_U8, 1, 3},
                {"e", BW_F32, 2, 0},  {"f", BW_U8, 1, 5},          {"g", BW_F64, 1, 24}, {"h", BW_I8, 1, 3},
                {"i", BW_I16, 1, 6},  {"j", BW_I32, 1, 12},        {"k", BW_U32, 1, 12}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const bw_safetensor *t = bw_safetensors_find(st, want[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, want[i].dtype);
        assert_int_equal(t->n_dims, want[i].n_dims);
        assert_int_equal(t->n_bytes, want[i].n_bytes);
    }
    int64_t b[6];
    const bw_safetensor *t = bw_safetensors_find(st, "b.weight");
    assert_int_equal(t->dims[0], 3);
    memcpy(b, t->data, sizeof b);
    for (int i = 0; i < 6; i++)
        assert_int_equal(b[i], i);
    assert_null(bw_safetensors_find(st, "b"));
    assert_non_null(bw_safetensors_map(st, 0));
    assert_null(bw_safetensors_map(st, 1));
    bw_safetensors_close(st);
    const char *sharded[] = {DATA "sharded", DATA "sharded/", DATA "sharded/model.safetensors.index.json"};
    for (int i = 0; i < 3; i++) {
        assert_ok(bw_safetensors_open(sharded[i], &st, &err), err);
        assert_int_equal(bw_safetensors_count(st), 4);
        assert_int_equal(bw_safetensors_find(st, "a")->part, 0);
        assert_int_equal(bw_safetensors_find(st, "c")->part, 1);
        bw_safetensors_close(st);
    }
    assert_int_equal(bw_mem_live(), live);
    assert_int_equal(bw_safetensors_open(DATA "absent.safetensors", &st, &err), BW_E_IO);
    assert_int_equal(bw_safetensors_open(BW_TEST_DATA, &st, &err), BW_E_NOT_FOUND);
    bw_safetensors_close(NULL);
}

static void make(raw *r, const char *header, size_t n_data)
{
    r->n = 0;
    raw_u64(r, strlen(header));
    raw_bytes(r, header, strlen(header));
    for (size_t i = 0; i < n_data; i++)
        raw_bytes(r, "x", 1);
}

static void refuse(const char *header, size_t n_data, bw_status status, const char *words)
{
    raw r;
    bw_err err = {0};
    bw_safetensors *st;
    int64_t live = bw_mem_live();
    make(&r, header, n_data);
    bw_status got = bw_safetensors_open_memory(r.data, r.n, "test.safetensors", &st, &err);
    if (got != status || !strstr(err.text, words))
        fail_msg("%s: %s, wanted \"%s\": %s", header, bw_status_name(got), words, err.text);
    assert_null(st);
    assert_int_equal(bw_mem_live(), live);
}

#define T(fields) "{\"t\":{" fields "}}"

static void refusing(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_safetensors *st;
    assert_int_equal(bw_safetensors_open_memory("abc", 3, "f", &st, &err), BW_E_FORMAT);
    assert_int_equal(bw_safetensors_open_memory("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "f", &st, &err), BW_E_FORMAT);
    refuse("", 0, BW_E_FORMAT, "not valid JSON");
    refuse("{", 0, BW_E_FORMAT, "not valid JSON");
    refuse("[]", 0, BW_E_FORMAT, "not an object");
    refuse("{\"a\":1,\"a\":2}", 0, BW_E_FORMAT, "duplicate");
    refuse("{\"t\":1}", 0, BW_E_FORMAT, "no dtype");
    refuse(T("\"dtype\":\"F32\""), 0, BW_E_FORMAT, "no shape");
    refuse(T("\"dtype\":\"F8_E5M2\",\"shape\":[1],\"data_offsets\":[0,1]"), 1, BW_E_UNSUPPORTED, "F8_E5M2");
    refuse(T("\"dtype\":\"F32\",\"shape\":[1]"), 4, BW_E_FORMAT, "no data_offsets");
    refuse(T("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]"), 4, BW_E_FORMAT, "no data_offsets");
    refuse(T("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]"), 4, BW_E_FORMAT, "no data_offsets");
    refuse(T("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,5]"), 4, BW_E_FORMAT, "cut short");
    refuse(T("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]"), 4, BW_E_FORMAT, "cut short");
    refuse(T("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]"), 4, BW_E_FORMAT, "cut short");
    refuse(T("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 4, BW_E_FORMAT, "takes 8 bytes");
    refuse(T("\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]"), 4, BW_E_FORMAT, "dimension");
    refuse(T("\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]"), 4, BW_E_FORMAT, "dimension");
    refuse(T("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]"), 4, BW_E_FORMAT,
           "beyond 2^63 bytes");
    refuse(T("\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]"), 4, BW_E_FORMAT,
           "holds a number that is too large, beyond 64 bits (at byte ");
    refuse(T("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[0,4]"), 4, BW_E_UNSUPPORTED,
           "7 dimensions");
    refuse("{\"__metadata__\":[]}", 0, BW_E_FORMAT, "__metadata__");
    refuse("{\"__metadata__\":{\"a\":1}}", 0, BW_E_FORMAT, "__metadata__");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
           "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
           8, BW_E_FORMAT, "overlap");
}

/* Metadata by the thousand, as a hostile file may have them: read in no time, or refused. */
static void many_metadata(void **state)
{
    (void)state;
    for (int n = 60000; n <= 70000; n += 10000) {
        bw_err err = {0};
        bw_safetensors *st;
        bw_str file = {0};
        bw_str_add_bytes(&file, "\0\0\0\0\0\0\0\0{\"__metadata__\":{", 25);
        for (int i = 0; i < n; i++)
            bw_str_add_format(&file, "%s\"%d\":\"%d\"", i ? "," : "", i, i);
        bw_str_add(&file, "}}");
        assert_false(file.failed);
        uint64_t n_header = file.len - 8;
        memcpy(file.data, &n_header, 8);
        int64_t begin = bw_clock_now_ns();
        bw_status status = bw_safetensors_open_memory(file.data, file.len, "f", &st, &err);
        if (n < 65536) {
            assert_ok(status, err);
            assert_string_equal(bw_safetensors_metadata(st, "59999"), "59999");
        } else {
            assert_int_equal(status, BW_E_FORMAT);
            assert_non_null(strstr(err.text, "70000 metadata entries"));
        }
        assert_true(bw_clock_now_ns() - begin < (int64_t)5000000000);
        bw_safetensors_close(st);
        bw_str_deinit(&file);
    }
}

static void refusing_index(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_safetensors *st;
    char folder[200], path[300], file[300];
    raw r;
    raw_folder(folder);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    snprintf(file, sizeof file, "%s/a.safetensors", folder);
    make(&r, "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    raw_write(file, r.data, r.n);
    static const struct {
        const char *index;
        bw_status status;
        const char *words;
    } cases[] = {{"{}", BW_E_FORMAT, "no weight_map"},
                 {"{\"weight_map\":{}}", BW_E_FORMAT, "no weight_map"},
                 {"nonsense", BW_E_FORMAT, "JSON"},
                 {"{\"weight_map\":{\"t\":1}}", BW_E_FORMAT, "plain file name"},
                 {"{\"weight_map\":{\"t\":\"../a.safetensors\"}}", BW_E_FORMAT, "plain file name"},
                 {"{\"weight_map\":{\"t\":\"/etc/passwd\"}}", BW_E_FORMAT, "plain file name"},
                 {"{\"weight_map\":{\"t\":\"b.safetensors\"}}", BW_E_IO, "b.safetensors"},
                 {"{\"weight_map\":{\"u\":\"a.safetensors\"}}", BW_E_FORMAT, "names the tensor u"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        raw_write(path, cases[i].index, strlen(cases[i].index));
        bw_status status = bw_safetensors_open(folder, &st, &err);
        if (status != cases[i].status || !strstr(err.text, cases[i].words))
            fail_msg("%s: %s", cases[i].index, err.text);
    }
    unlink(path);
    /* without an index every file of the folder, and no name twice */
    assert_ok(bw_safetensors_open(folder, &st, &err), err);
    assert_int_equal(bw_safetensors_count(st), 1);
    bw_safetensors_close(st);
    snprintf(path, sizeof path, "%s/b.safetensors", folder);
    raw_write(path, r.data, r.n);
    assert_int_equal(bw_safetensors_open(folder, &st, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "two of the model's files"));
    unlink(path);
    unlink(file);
    rmdir(folder);
}

static void writing(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_safetensors *st;
    char folder[200], path[300];
    struct stat s;
    raw_folder(folder);
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    float a[6] = {1, 2, 3, 4, 5, 6};
    uint8_t f8[3] = {1, 2, 3};
    bw_safetensor tensors[] = {
        {.name = "a \"quoted\" ü", .dtype = BW_F32, .n_dims = 2, .dims = {2, 3}, .data = a, .n_bytes = sizeof a},
        {.name = "f", .dtype = BW_F8_E4M3, .n_dims = 1, .dims = {3}, .data = f8, .n_bytes = sizeof f8}};
    assert_ok(bw_safetensors_write(path, tensors, 2, &err), err);
    assert_ok(bw_safetensors_open(path, &st, &err), err);
    const bw_safetensor *t = bw_safetensors_find(st, "a \"quoted\" ü");
    assert_non_null(t);
    assert_int_equal(t->dims[1], 3);
    assert_memory_equal(t->data, a, sizeof a);
    assert_int_equal(bw_safetensors_find(st, "f")->dtype, BW_F8_E4M3);
    bw_safetensors_close(st);
    tensors[1].n_bytes = 2;
    assert_int_equal(bw_safetensors_write(path, tensors, 2, &err), BW_E_ARG);
    tensors[1].dtype = BW_Q4_0;
    assert_int_equal(bw_safetensors_write(path, tensors, 2, &err), BW_E_UNSUPPORTED);
    assert_int_equal(bw_safetensors_write("/nonexistent/x", tensors, 1, &err), BW_E_IO);
    snprintf(path + strlen(path), 10, ".tmp");
    assert_int_not_equal(stat(path, &s), 0);
    path[strlen(path) - 4] = 0;
    unlink(path);
    rmdir(folder);
}

/* What no reader would take is not written: the file that was there stays. */
static void writing_limits(void **state)
{
    (void)state;
    bw_err err = {0};
    char folder[200], path[300];
    struct stat s;
    raw_folder(folder);
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    raw_write(path, "old", 3);
    bw_safetensor one = {.name = "a", .dtype = BW_U8, .n_dims = 1, .dims = {1}, .data = "x", .n_bytes = 1};
    assert_int_equal(bw_safetensors_write(path, &one, (1 << 22) + 1, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "4194305 tensors are too many"));
    enum { LONG = 50000000 };
    char *name = malloc(LONG + 1);
    assert_non_null(name);
    memset(name, 'n', LONG);
    name[LONG] = 0;
    bw_safetensor two[2] = {one, one};
    two[0].name = two[1].name = name;
    assert_int_equal(bw_safetensors_write(path, two, 2, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "holds at most 100000000 bytes"));
    free(name);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_size, 3);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

/* A file that is written over keeps its permissions, a link stays one, and what is no file stays what it is. */
static void writing_over(void **state)
{
    (void)state;
    bw_err err = {0};
    char folder[200], path[300], link[300], other[300];
    struct stat s;
    raw_folder(folder);
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    bw_safetensor one = {.name = "a", .dtype = BW_U8, .n_dims = 1, .dims = {1}, .data = "x", .n_bytes = 1};
    raw_write(path, "old", 3);
    assert_int_equal(chmod(path, 0600), 0);
    assert_ok(bw_safetensors_write(path, &one, 1, &err), err);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0600);
    assert_true(s.st_size > 3);
    raw_write(path, "old", 3);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("w.safetensors", link), 0);
    assert_ok(bw_safetensors_write(link, &one, 1, &err), err);
    assert_int_equal(lstat(link, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0640);
    assert_true(s.st_size > 3);
    unlink(path);
    assert_int_equal(bw_safetensors_write(link, &one, 1, &err), BW_E_IO);
    assert_non_null(strstr(err.text, "leads nowhere"));
    unlink(link);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_int_equal(bw_safetensors_write(other, &one, 1, &err), BW_E_IO);
    assert_non_null(strstr(err.text, "no regular file"));
    assert_int_equal(lstat(other, &s), 0);
    assert_true(S_ISFIFO(s.st_mode));
    unlink(other);
    assert_int_equal(bw_safetensors_write(folder, &one, 1, &err), BW_E_IO);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left there */
}

static void out_of_memory(void **state)
{
    (void)state;
    const char *paths[] = {DATA "one.safetensors", DATA "sharded"};
    for (int k = 0; k < 2; k++) {
        int failed = 0;
        for (int64_t n = 1;; n++) {
            bw_err err = {0};
            bw_safetensors *st = NULL;
            int64_t live = bw_mem_live();
            bw_mem_fail_at(n);
            bw_status status = bw_safetensors_open(paths[k], &st, &err);
            bw_mem_fail_at(0);
            bw_safetensors_close(st);
            assert_int_equal(bw_mem_live(), live);
            if (status == BW_OK)
                break;
            if (status != BW_E_MEMORY)
                fail_msg("allocation %d: %s: %s", (int)n, bw_status_name(status), err.text);
            failed++;
        }
        assert_true(failed > 40);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading),        cmocka_unit_test(refusing),      cmocka_unit_test(many_metadata),
        cmocka_unit_test(refusing_index), cmocka_unit_test(writing),       cmocka_unit_test(writing_limits),
        cmocka_unit_test(writing_over),   cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
