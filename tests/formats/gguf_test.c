/* formats: GGUF reading (files by the `gguf` package and files made byte by byte) and writing. */
#include "../bw_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "bw_clock.h"
#include "bw_gguf.h"
#include "bw_mem.h"
#include "bw_quant.h"
#include "raw.h"

#define DATA BW_TEST_DATA "/formats/"

static void check_types(const bw_gguf *g)
{
    bw_err err = {0};
    bool found, b = false;
    int64_t i = 0;
    double f = 0;
    bw_gguf_string s = {0};
    static const struct {
        const char *key;
        int64_t value;
    } ints[] = {{"test.u8", 200},        {"test.i8", -100},        {"test.u16", 60000},
                {"test.i16", -30000},    {"test.u32", 4000000000}, {"test.i32", -2000000000},
                {"test.i64", INT64_MIN}, {"general.alignment", 64}};
    for (size_t k = 0; k < sizeof ints / sizeof ints[0]; k++) {
        assert_ok(bw_gguf_get_i64(g, ints[k].key, &i, &found, &err), err);
        assert_true(found);
        assert_true(i == ints[k].value);
    }
    assert_ok(bw_gguf_get_f64(g, "test.f32", &f, &found, &err), err);
    assert_true(f == (double)0.1f);
    assert_ok(bw_gguf_get_f64(g, "test.f64", &f, NULL, &err), err);
    assert_true(f == 0.1);
    assert_ok(bw_gguf_get_f64(g, "test.i16", &f, NULL, &err), err);
    assert_true(f == -30000);
    assert_ok(bw_gguf_get_bool(g, "test.bool", &b, &found, &err), err);
    assert_true(found && b);
    assert_ok(bw_gguf_get_string(g, "test.string", &s, &found, &err), err);
    assert_int_equal(s.n_bytes, strlen("grüße 🐝"));
    assert_memory_equal(s.data, "grüße 🐝", s.n_bytes);
    assert_ok(bw_gguf_get_string(g, "test.empty", &s, &found, &err), err);
    assert_true(found && s.n_bytes == 0);
    /* absent: left alone */
    i = 77;
    assert_ok(bw_gguf_get_i64(g, "test.absent", &i, &found, &err), err);
    assert_true(!found && i == 77);
    /* wrong type or range: named */
    assert_int_equal(bw_gguf_get_i64(g, "test.u64", &i, &found, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "test.u64"));
    assert_int_equal(bw_gguf_get_i64(g, "test.f32", &i, &found, &err), BW_E_FORMAT);
    assert_int_equal(bw_gguf_get_f64(g, "test.string", &f, &found, &err), BW_E_FORMAT);
    assert_int_equal(bw_gguf_get_bool(g, "test.u8", &b, &found, &err), BW_E_FORMAT);
    assert_int_equal(bw_gguf_get_string(g, "test.u8", &s, &found, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "u8"));
    assert_int_equal(i, 77);
}

static void check_arrays(const bw_gguf *g)
{
    const bw_gguf_value *v = bw_gguf_find(g, "test.ints");
    assert_int_equal(v->a.n, 3);
    assert_int_equal(bw_gguf_array_i64(v, 1), -2);
    assert_true(bw_gguf_array_f64(v, 2) == 3);
    assert_int_equal(bw_gguf_array_i64(v, 3), 0); /* outside */
    v = bw_gguf_find(g, "test.floats");
    assert_true(bw_gguf_array_f64(v, 1) == -1.5);
    assert_int_equal(bw_gguf_array_i64(v, 1), -1);
    v = bw_gguf_find(g, "test.bools");
    assert_int_equal(v->a.n, 3);
    assert_int_equal(bw_gguf_array_i64(v, 0), 1);
    assert_int_equal(bw_gguf_array_i64(v, 1), 0);
    v = bw_gguf_find(g, "test.strings");
    assert_int_equal(v->a.n, 3);
    assert_int_equal(v->a.strings[0].n_bytes, 0);
    assert_memory_equal(v->a.strings[2].data, "bee's wax", 9);
    v = bw_gguf_find(g, "test.nested");
    assert_int_equal(v->a.type, BW_GGUF_ARRAY);
    assert_int_equal(v->a.n, 3);
    assert_int_equal(v->a.arrays[2].a.n, 3);
    assert_int_equal(bw_gguf_array_i64(&v->a.arrays[2], 2), 6);
}

static void check_tensors(const bw_gguf *g)
{
    assert_int_equal(bw_gguf_n_tensors(g), 3);
    const bw_gguf_tensor *t = bw_gguf_find_tensor(g, "blk.0.ffn_up.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, BW_Q4_0);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[0], 8);
    assert_int_equal(t->dims[1], 64);
    assert_int_equal(t->n_bytes, 8 * 2 * 18);
    assert_null(bw_gguf_find_tensor(g, "blk.0.ffn_up"));
    t = bw_gguf_find_tensor(g, "output_norm.weight");
    assert_int_equal(t->dtype, BW_F32);
    assert_int_equal((uintptr_t)t->data % 32, 0);
    for (int i = 0; i < 64; i++)
        assert_true(((const float *)t->data)[i] < 10 && ((const float *)t->data)[i] > -10);
    const bw_map *map = bw_gguf_map(g, t->part);
    assert_true((const unsigned char *)t->data >= map->data &&
                (const unsigned char *)t->data + t->n_bytes <= map->data + map->n_bytes);
    assert_null(bw_gguf_map(g, 99));
    assert_null(bw_gguf_map(g, -1));
}

static void reading(void **state)
{
    (void)state;
    const char *files[] = {DATA "types.gguf", DATA "v2.gguf"};
    for (int k = 0; k < 2; k++) {
        bw_err err = {0};
        bw_gguf *g;
        int64_t live = bw_mem_live();
        assert_ok(bw_gguf_open(files[k], &g, &err), err);
        assert_int_equal(bw_gguf_version(g), 3 - k);
        assert_string_equal(bw_gguf_path(g), files[k]);
        assert_int_equal(bw_gguf_n_values(g), 20);
        assert_string_equal(bw_gguf_key(g, 2), "test.u8");
        assert_int_equal(bw_gguf_value_at(g, 2)->u, 200);
        check_types(g);
        check_arrays(g);
        check_tensors(g);
        bw_gguf_close(g);
        assert_int_equal(bw_mem_live(), live);
    }
}

static void reading_split(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_gguf *g;
    assert_ok(bw_gguf_open(DATA "split-00001-of-00003.gguf", &g, &err), err);
    check_tensors(g);
    assert_int_equal(bw_gguf_find_tensor(g, "output_norm.weight")->part, 2);
    int64_t v = 0;
    assert_ok(bw_gguf_get_i64(g, "test.u32", &v, NULL, &err), err);
    assert_int_equal(v, 7);
    bw_gguf_close(g);
    assert_int_equal(bw_gguf_open(DATA "split-00002-of-00003.gguf", &g, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "-00001-of-00003.gguf"));
    assert_null(g);

    char folder[200], path[300];
    char *part[3];
    size_t n[3];
    raw_folder(folder);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, DATA "split-%05d-of-00003.gguf", i + 1);
        assert_ok(bw_file_read(path, 10000, &part[i], &n[i], &err), err);
    }
    const struct {
        int parts[3]; /* which part's bytes stand under each name; -1: none */
        const char *says;
    } cases[] = {{{0, 1, -1}, "00003-of-00003"}, {{0, 2, 1}, "should be part 1"}, {{0, 1, 1}, "should be part 2"}};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/m-%05d-of-00003.gguf", folder, i + 1);
            unlink(path);
            if (cases[k].parts[i] >= 0)
                raw_write(path, part[cases[k].parts[i]], n[cases[k].parts[i]]);
        }
        snprintf(path, sizeof path, "%s/m-00001-of-00003.gguf", folder);
        bw_status status = bw_gguf_open(path, &g, &err);
        assert_true(status == BW_E_FORMAT || status == BW_E_IO);
        if (!strstr(err.text, cases[k].says))
            fail_msg("case %d: %s", k, err.text);
    }
    snprintf(path, sizeof path, "%s/other.gguf", folder);
    raw_write(path, part[0], n[0]);
    assert_int_equal(bw_gguf_open(path, &g, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "rename it"));
    unlink(path);
    assert_int_equal(bw_gguf_open_memory(part[0], n[0], "memory", &g, &err), BW_E_UNSUPPORTED);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/m-%05d-of-00003.gguf", folder, i + 1);
        unlink(path);
        bw_free(part[i]);
    }
    rmdir(folder);
}

/* The file must be refused, with these words. */
static void refuse(const raw *r, bw_status status, const char *words)
{
    bw_err err = {0};
    bw_gguf *g;
    int64_t live = bw_mem_live();
    bw_status got = bw_gguf_open_memory(r->data, r->n, "test.gguf", &g, &err);
    if (got != status || !strstr(err.text, words) || !strstr(err.text, "test.gguf"))
        fail_msg("%s, wanted \"%s\": %s", bw_status_name(got), words, err.text);
    assert_null(g);
    assert_int_equal(bw_mem_live(), live);
}

static void refusing_headers(void **state)
{
    (void)state;
    raw r = {.n = 0};
    refuse(&r, BW_E_FORMAT, "not a GGUF file");
    raw_bytes(&r, "GGML\3\0\0\0", 8);
    refuse(&r, BW_E_FORMAT, "not a GGUF file");
    raw_gguf(&r, 3, 0, 0);
    r.n = 20;
    refuse(&r, BW_E_FORMAT, "cut short");
    raw_gguf(&r, 1, 0, 0);
    refuse(&r, BW_E_UNSUPPORTED, "version 1");
    raw_gguf(&r, 4, 0, 0);
    refuse(&r, BW_E_UNSUPPORTED, "version 4");
    raw_gguf(&r, 3u << 24, 0, 0);
    refuse(&r, BW_E_UNSUPPORTED, "big-endian");
    raw_gguf(&r, 3, 0, UINT64_MAX);
    refuse(&r, BW_E_FORMAT, "metadata entries");
    raw_gguf(&r, 3, UINT64_MAX, 0);
    refuse(&r, BW_E_FORMAT, "tensors");
    raw_gguf(&r, 3, 1u << 30, 0);
    refuse(&r, BW_E_FORMAT, "tensors");
}

static void one_pair(raw *r, const char *key, uint32_t type)
{
    raw_gguf(r, 3, 0, 1);
    raw_string(r, key);
    raw_u32(r, type);
}

static void refusing_metadata(void **state)
{
    (void)state;
    raw r;
    char longer[1100];
    memset(longer, 'k', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    one_pair(&r, "k", 13);
    raw_u64(&r, 0);
    refuse(&r, BW_E_FORMAT, "unknown metadata type 13");
    one_pair(&r, "k", BW_GGUF_BOOL);
    raw_bytes(&r, "\2", 1);
    refuse(&r, BW_E_FORMAT, "only 0 and 1");
    one_pair(&r, "key\33[31m", BW_GGUF_U64); /* a terminal's escape does not reach the message */
    raw_u32(&r, 0);
    refuse(&r, BW_E_FORMAT, "key?[31m");
    one_pair(&r, "k", BW_GGUF_STRING);
    raw_u64(&r, UINT64_MAX);
    refuse(&r, BW_E_FORMAT, "18446744073709551615");
    one_pair(&r, "", BW_GGUF_U8);
    raw_u64(&r, 0);
    refuse(&r, BW_E_FORMAT, "name of 0 bytes");
    one_pair(&r, longer, BW_GGUF_U8);
    raw_u64(&r, 0);
    refuse(&r, BW_E_FORMAT, "name of 1099 bytes");
    raw_gguf(&r, 3, 0, 1);
    raw_u64(&r, 3);
    raw_bytes(&r, "a\0b", 3);
    raw_u32(&r, BW_GGUF_U8);
    raw_u64(&r, 0);
    refuse(&r, BW_E_FORMAT, "zero byte");
    one_pair(&r, "k", BW_GGUF_ARRAY);
    raw_u32(&r, BW_GGUF_F64);
    raw_u64(&r, 1ull << 61);
    raw_u64(&r, 0);
    refuse(&r, BW_E_FORMAT, "2305843009213693952 elements");
    one_pair(&r, "k", BW_GGUF_ARRAY);
    raw_u32(&r, 99);
    raw_u64(&r, 0);
    refuse(&r, BW_E_FORMAT, "unknown type 99");
    one_pair(&r, "k", BW_GGUF_ARRAY);
    for (int i = 0; i < 6; i++) {
        raw_u32(&r, BW_GGUF_ARRAY);
        raw_u64(&r, 1);
    }
    refuse(&r, BW_E_FORMAT, "too deeply");
    one_pair(&r, "k", BW_GGUF_ARRAY);
    raw_u32(&r, BW_GGUF_STRING);
    raw_u64(&r, 2);
    raw_string(&r, "one");
    raw_u64(&r, 5);
    refuse(&r, BW_E_FORMAT, "5");
    raw_gguf(&r, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        raw_string(&r, "twice");
        raw_u32(&r, BW_GGUF_U8);
        raw_bytes(&r, "\1", 1);
    }
    refuse(&r, BW_E_FORMAT, "twice appears twice");
    for (uint64_t a = 0; a < 5; a++) {
        static const uint32_t alignments[] = {0, 4, 24, 33, UINT32_MAX};
        one_pair(&r, "general.alignment", BW_GGUF_U32);
        raw_u32(&r, alignments[a]);
        refuse(&r, BW_E_FORMAT, "power of two");
    }
    one_pair(&r, "general.alignment", BW_GGUF_U64);
    raw_u64(&r, 32);
    refuse(&r, BW_E_FORMAT, "must be a u32");
}

static void one_tensor(raw *r, uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset, size_t n_data)
{
    raw_gguf(r, 3, 1, 0);
    raw_tensor(r, "t", n_dims, dims, type, offset);
    raw_align(r, 32);
    for (size_t i = 0; i < n_data; i++)
        raw_bytes(r, "x", 1);
}

static void refusing_tensors(void **state)
{
    (void)state;
    raw r;
    bw_gguf *g;
    bw_err err = {0};
    uint64_t dims[8] = {8, 1, 1, 1, 1, 1, 1, 1};
    one_tensor(&r, 1, dims, 0, 0, 32);
    assert_ok(bw_gguf_open_memory(r.data, r.n, "test.gguf", &g, &err), err);
    bw_gguf_close(g);
    one_tensor(&r, 6, dims, 0, 0, 32);
    assert_ok(bw_gguf_open_memory(r.data, r.n, "test.gguf", &g, &err), err);
    assert_int_equal(bw_gguf_tensor_at(g, 0)->dims[5], 8);
    bw_gguf_close(g);
    one_tensor(&r, 7, dims, 0, 0, 32);
    refuse(&r, BW_E_FORMAT, "7 dimensions");
    one_tensor(&r, 0, dims, 0, 0, 32);
    refuse(&r, BW_E_FORMAT, "0 dimensions");
    one_tensor(&r, 1, dims, 0, 0, 31);
    refuse(&r, BW_E_FORMAT, "cut short");
    one_tensor(&r, 1, dims, 0, 32, 32);
    refuse(&r, BW_E_FORMAT, "cut short");
    one_tensor(&r, 1, dims, 0, 16, 64);
    refuse(&r, BW_E_FORMAT, "alignment");
    one_tensor(&r, 1, dims, 0, UINT64_MAX - 31, 64);
    refuse(&r, BW_E_FORMAT, "cut short");
    one_tensor(&r, 1, dims, 2, 0, 64);
    refuse(&r, BW_E_FORMAT, "no multiple of q4_0's 32");
    one_tensor(&r, 1, dims, 4, 0, 64);
    refuse(&r, BW_E_UNSUPPORTED, "type number 4");
    one_tensor(&r, 1, dims, UINT32_MAX, 0, 64);
    refuse(&r, BW_E_UNSUPPORTED, "type number 4294967295");
    dims[0] = 0;
    one_tensor(&r, 1, dims, 0, 0, 64);
    refuse(&r, BW_E_FORMAT, "dimension of 0");
    dims[0] = UINT64_MAX;
    one_tensor(&r, 1, dims, 0, 0, 64);
    refuse(&r, BW_E_FORMAT, "dimension of");
    dims[0] = dims[1] = 1ull << 32;
    one_tensor(&r, 2, dims, 0, 0, 64);
    refuse(&r, BW_E_FORMAT, "larger than 2^63");
    dims[0] = 8;
    raw_gguf(&r, 3, 2, 0);
    raw_tensor(&r, "t", 1, dims, 0, 0);
    raw_tensor(&r, "t", 1, dims, 0, 32);
    raw_align(&r, 32);
    for (int i = 0; i < 64; i++)
        raw_bytes(&r, "x", 1);
    refuse(&r, BW_E_FORMAT, "tensor t appears twice");
    /* the second begins within the first, whichever the file names first; side by side is fine in any order */
    static const struct {
        uint64_t a, b, n_a; /* offsets; elements of a */
        bool good;
    } pairs[] = {{0, 32, 16, false}, {0, 0, 8, false}, {32, 0, 8, true}, {0, 32, 8, true}, {0, 64, 16, true}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int turn = 0; turn < 2; turn++) {
            uint64_t n_a = pairs[i].n_a, n_b = 8;
            raw_gguf(&r, 3, 2, 0);
            if (turn)
                raw_tensor(&r, "b", 1, &n_b, 0, pairs[i].b);
            raw_tensor(&r, "a", 1, &n_a, 0, pairs[i].a);
            if (!turn)
                raw_tensor(&r, "b", 1, &n_b, 0, pairs[i].b);
            raw_align(&r, 32);
            for (int j = 0; j < 96; j++)
                raw_bytes(&r, "x", 1);
            if (pairs[i].good) {
                assert_ok(bw_gguf_open_memory(r.data, r.n, "test.gguf", &g, &err), err);
                assert_string_equal(bw_gguf_tensor_at(g, 0)->name.data[0] == 'a' ? "a" : "b", turn ? "b" : "a");
                bw_gguf_close(g);
            } else {
                refuse(&r, BW_E_FORMAT, "overlap");
            }
        }
}

/* A vocabulary of 260,000 strings: quick, and no allocation per string. */
static void reading_many_strings(void **state)
{
    (void)state;
    enum { N = 260000 };
    size_t n = 0;
    unsigned char *data = bw_alloc(200 + (size_t)N * 20);
    assert_non_null(data);
    raw r;
    one_pair(&r, "tokens", BW_GGUF_ARRAY);
    raw_u32(&r, BW_GGUF_STRING);
    raw_u64(&r, N);
    memcpy(data, r.data, r.n);
    n = r.n;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t length = 4 + i % 8;
        memcpy(data + n, &length, 8);
        memset(data + n + 8, 'a' + (int)(i % 26), (size_t)length);
        n += 8 + (size_t)length;
    }
    bw_err err = {0};
    bw_gguf *g;
    int64_t begin = bw_clock_now_ns(), count = bw_mem_count();
    assert_ok(bw_gguf_open_memory(data, n, "many", &g, &err), err);
    int64_t ms = (bw_clock_now_ns() - begin) / 1000000;
    assert_true(bw_mem_count() - count < 20);
    print_message("260,000 strings in %d ms\n", (int)ms);
    assert_true(ms < 1000); /* far from the 5 ms seen: for loaded machines and sanitizers */
    assert_int_equal(bw_gguf_find(g, "tokens")->a.strings[N - 1].n_bytes, 4 + (N - 1) % 8);
    bw_gguf_close(g);
    bw_free(data);
}

/* ---- writing ---- */

static bw_status fill(void *user, bw_gguf_writer *w, size_t i, bw_err *err)
{
    const bw_gguf *g = user;
    const bw_gguf_tensor *t = bw_gguf_tensor_at(g, i);
    size_t half = t->n_bytes / 2;
    BW_TRY(bw_gguf_writer_put(w, t->data, half, err));
    return bw_gguf_writer_put(w, (const char *)t->data + half, t->n_bytes - half, err);
}

static bw_status copy_model(const bw_gguf *g, const char *path, bw_gguf_fill_fn *fill_fn, bw_err *err)
{
    bw_gguf_writer *w;
    BW_TRY(bw_gguf_writer_new(&w, err));
    bw_status status = BW_OK;
    for (size_t i = 0; status == BW_OK && i < bw_gguf_n_values(g); i++)
        status = bw_gguf_writer_set(w, bw_gguf_key(g, i), bw_gguf_value_at(g, i), err);
    for (size_t i = 0; status == BW_OK && i < bw_gguf_n_tensors(g); i++) {
        const bw_gguf_tensor *t = bw_gguf_tensor_at(g, i);
        char name[100];
        snprintf(name, sizeof name, "%.*s", (int)t->name.n_bytes, t->name.data);
        status = bw_gguf_writer_add_tensor(w, name, t->dtype, t->n_dims, t->dims, err);
    }
    if (status == BW_OK)
        status = bw_gguf_writer_write(w, path, fill_fn, (void *)(uintptr_t)g, err);
    bw_gguf_writer_free(w);
    return status;
}

/* A copy of a file by the reference writer is that file, byte for byte. */
static void writing(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_gguf *g;
    char folder[200], path[300], *a, *b;
    size_t n_a, n_b;
    raw_folder(folder);
    snprintf(path, sizeof path, "%s/copy.gguf", folder);
    assert_ok(bw_gguf_open(DATA "types.gguf", &g, &err), err);
    assert_ok(copy_model(g, path, fill, &err), err);
    bw_gguf_close(g);
    assert_ok(bw_file_read(DATA "types.gguf", 100000, &a, &n_a, &err), err);
    assert_ok(bw_file_read(path, 100000, &b, &n_b, &err), err);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(a, b, n_a);
    bw_free(a);
    bw_free(b);

    bw_gguf_writer *w;
    assert_ok(bw_gguf_writer_new(&w, &err), err);
    assert_ok(bw_gguf_writer_set_string(w, "s", "old", &err), err);
    assert_ok(bw_gguf_writer_set_string(w, "s", "new", &err), err);
    assert_ok(bw_gguf_writer_set_f32(w, "f", 0.25f, &err), err);
    assert_ok(bw_gguf_writer_set_bool(w, "b", true, &err), err);
    assert_ok(bw_gguf_writer_set_u32(w, "u", 9, &err), err);
    assert_int_equal(bw_gguf_writer_set_u32(w, "", 9, &err), BW_E_ARG);
    assert_int_equal(bw_gguf_writer_set_u32(w, "general.alignment", 9, &err), BW_E_ARG);
    assert_ok(bw_gguf_writer_write(w, path, NULL, NULL, &err), err); /* no tensors */
    bw_gguf_writer_free(w);
    assert_ok(bw_gguf_open(path, &g, &err), err);
    bw_gguf_string s;
    assert_ok(bw_gguf_get_string(g, "s", &s, NULL, &err), err);
    assert_memory_equal(s.data, "new", 3);
    assert_int_equal(bw_gguf_n_values(g), 4);
    bw_gguf_close(g);
    unlink(path);
    rmdir(folder);
}

static bw_status fill_short(void *user, bw_gguf_writer *w, size_t i, bw_err *err)
{
    (void)user;
    (void)i;
    return bw_gguf_writer_put(w, "abc", 3, err);
}

static bw_status fill_long(void *user, bw_gguf_writer *w, size_t i, bw_err *err)
{
    const bw_gguf_tensor *t = bw_gguf_tensor_at(user, i);
    BW_TRY(bw_gguf_writer_put(w, t->data, t->n_bytes, err));
    return bw_gguf_writer_put(w, "x", 1, err);
}

static void refusing_to_write(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_gguf *g;
    char folder[200], path[300], temporary[310];
    struct stat st;
    raw_folder(folder);
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    assert_ok(bw_gguf_open(DATA "types.gguf", &g, &err), err);
    assert_int_equal(copy_model(g, path, fill_short, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "lacks"));
    assert_int_equal(copy_model(g, path, fill_long, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "room"));
    assert_int_equal(copy_model(g, "/nonexistent/m.gguf", fill, &err), BW_E_IO);

    /* a full disk: the old file stays, no half file remains */
    raw_write(path, "old", 3);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 1000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    bw_status status = copy_model(g, path, fill, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, BW_E_IO);
    assert_non_null(strstr(err.text, "m.gguf.tmp cannot be written"));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 3);
    assert_int_not_equal(stat(temporary, &st), 0);
    /* what has the temporary name already, here as a link to it, stays as it is */
    char precious[310];
    snprintf(precious, sizeof precious, "%s/precious", folder);
    raw_write(precious, "mine", 4);
    assert_int_equal(symlink("precious", temporary), 0);
    assert_ok(copy_model(g, path, fill, &err), err);
    assert_int_equal(stat(temporary, &st), 0);
    assert_int_equal(st.st_size, 4);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode) && st.st_size > 1000);
    unlink(precious);

    bw_gguf_writer *w;
    int64_t dims[] = {2, 33};
    assert_ok(bw_gguf_writer_new(&w, &err), err);
    assert_int_equal(bw_gguf_writer_add_tensor(w, "t", BW_Q4_0, 2, dims, &err), BW_E_ARG);
    assert_int_equal(bw_gguf_writer_add_tensor(w, "t", BW_U8, 2, dims, &err), BW_E_UNSUPPORTED);
    assert_int_equal(bw_gguf_writer_add_tensor(w, "", BW_F32, 2, dims, &err), BW_E_ARG);
    assert_int_equal(bw_gguf_writer_add_tensor(w, "t", BW_F32, 0, dims, &err), BW_E_ARG);
    assert_int_equal(bw_gguf_writer_put(w, "x", 1, &err), BW_E_ARG);
    assert_ok(bw_gguf_writer_add_tensor(w, "t", BW_F32, 2, dims, &err), err);
    assert_ok(bw_gguf_writer_add_tensor(w, "t", BW_F32, 2, dims, &err), err);
    assert_int_equal(bw_gguf_writer_write(w, path, fill, g, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "twice"));
    bw_gguf_writer_free(w);
    bw_gguf_close(g);
    unlink(path);
    unlink(temporary);
    rmdir(folder);
}

/* Each allocation of opening and of writing fails once. */
static void out_of_memory(void **state)
{
    (void)state;
    char folder[200], path[300];
    raw_folder(folder);
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    const char *files[] = {DATA "types.gguf", DATA "split-00001-of-00003.gguf"};
    for (int k = 0; k < 3; k++) {
        int failed = 0;
        for (int64_t n = 1;; n++) {
            bw_err err = {0};
            bw_gguf *g = NULL;
            int64_t live = bw_mem_live();
            if (k == 2) /* writing */
                assert_ok(bw_gguf_open(files[0], &g, &err), err);
            bw_mem_fail_at(n);
            bw_status status = k == 2 ? copy_model(g, path, fill, &err) : bw_gguf_open(files[k], &g, &err);
            bw_mem_fail_at(0);
            bw_gguf_close(g);
            assert_int_equal(bw_mem_live(), live);
            if (status == BW_OK)
                break;
            assert_int_equal(status, BW_E_MEMORY);
            assert_true(err.text[0] != 0);
            failed++;
        }
        assert_true(failed >= 6);
    }
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading),          cmocka_unit_test(reading_split),
        cmocka_unit_test(refusing_headers), cmocka_unit_test(refusing_metadata),
        cmocka_unit_test(refusing_tensors), cmocka_unit_test(reading_many_strings),
        cmocka_unit_test(writing),          cmocka_unit_test(refusing_to_write),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
