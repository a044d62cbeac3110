/* Hostile: model files damaged in every way are refused with a sentence or load; never a crash, hang or leak.
 *
 * A small GGUF and a small safetensors file are made; mutants change single bytes, lengths, counts, types, whole words,
 * cut the file, or splice parts of it, with a fixed seed. Each mutant is opened, every tensor's bytes and every
 * metadata value are read, and it is inspected in both forms. Run under sanitizers it also finds reads outside. */
#include "../bw_test.h"

#include "bw_clock.h"
#include "bw_gguf.h"
#include "bw_inspect.h"
#include "bw_mem.h"
#include "bw_quant.h"
#include "bw_rng.h"
#include "bw_safetensors.h"
#include "../formats/raw.h"
#include "mutate.h"

enum { N_MUTANTS = 1500 };

static char folder[200];

static bw_status fill(void *user, bw_gguf_writer *w, size_t i, bw_err *err)
{
    const size_t *bytes = user;
    unsigned char data[1024] = {0};
    for (size_t k = 0; k < sizeof data; k++)
        data[k] = (unsigned char)(k * 7 + i);
    return bw_gguf_writer_put(w, data, bytes[i], err);
}

static void make_gguf(const char *path)
{
    static size_t bytes[] = {288, 128, 420};
    bw_err err = {0};
    bw_gguf_writer *w;
    bw_gguf_string tokens[] = {{"<s>", 3}, {"</s>", 4}, {"a", 1}, {"", 0}};
    float scores[] = {0, -1, -2, -3};
    int32_t pair[] = {1, 2};
    bw_gguf_value inner[2] = {{.type = BW_GGUF_ARRAY, .a = {.type = BW_GGUF_I32, .n = 2, .data = (void *)pair}},
                              {.type = BW_GGUF_ARRAY, .a = {.type = BW_GGUF_STRING, .n = 2, .strings = tokens}}};
    bw_gguf_value strings = {.type = BW_GGUF_ARRAY, .a = {.type = BW_GGUF_STRING, .n = 4, .strings = tokens}};
    bw_gguf_value floats = {.type = BW_GGUF_ARRAY, .a = {.type = BW_GGUF_F32, .n = 4, .data = (void *)scores}};
    bw_gguf_value nested = {.type = BW_GGUF_ARRAY, .a = {.type = BW_GGUF_ARRAY, .n = 2, .arrays = inner}};
    assert_ok(bw_gguf_writer_new(&w, &err), err);
    assert_ok(bw_gguf_writer_set_string(w, "general.architecture", "llama", &err), err);
    assert_ok(bw_gguf_writer_set_u32(w, "general.alignment", 32, &err), err);
    assert_ok(bw_gguf_writer_set(w, "tokenizer.ggml.tokens", &strings, &err), err);
    assert_ok(bw_gguf_writer_set(w, "tokenizer.ggml.scores", &floats, &err), err);
    assert_ok(bw_gguf_writer_set(w, "nested", &nested, &err), err);
    assert_ok(bw_gguf_writer_set_bool(w, "flag", true, &err), err);
    assert_ok(bw_gguf_writer_set_u32(w, "split.count", 1, &err), err);
    assert_ok(bw_gguf_writer_add_tensor(w, "token_embd.weight", BW_Q4_0, 2, (int64_t[]){8, 64}, &err), err);
    assert_ok(bw_gguf_writer_add_tensor(w, "norm.weight", BW_F32, 1, (int64_t[]){32}, &err), err);
    assert_ok(bw_gguf_writer_add_tensor(w, "blk.0.q.weight", BW_Q6_K, 2, (int64_t[]){2, 256}, &err), err);
    assert_ok(bw_gguf_writer_write(w, path, fill, bytes, &err), err);
    bw_gguf_writer_free(w);
}

static void make_safetensors(const char *path)
{
    static float data[64];
    bw_err err = {0};
    bw_safetensor tensors[] = {
        {.name = "model.embed.weight", .dtype = BW_F32, .n_dims = 2, .dims = {8, 8}, .data = data, .n_bytes = 256},
        {.name = "model.norm.weight", .dtype = BW_F16, .n_dims = 1, .dims = {8}, .data = data, .n_bytes = 16},
        {.name = "lm_head.weight", .dtype = BW_BF16, .n_dims = 2, .dims = {4, 8}, .data = data, .n_bytes = 64}};
    assert_ok(bw_safetensors_write(path, tensors, 3, &err), err);
}

/* Everything that a loader would touch. */
static void use_gguf(const bw_gguf *g)
{
    bw_err err = {0};
    for (size_t i = 0; i < bw_gguf_n_values(g); i++) {
        const bw_gguf_value *v = bw_gguf_find(g, bw_gguf_key(g, i));
        assert_ptr_equal(v, bw_gguf_value_at(g, i));
        int64_t number;
        bw_gguf_get_i64(g, bw_gguf_key(g, i), &number, NULL, &err);
        for (uint64_t k = 0; v->type == BW_GGUF_ARRAY && k < v->a.n; k++)
            bw_gguf_array_f64(v, k);
    }
    for (size_t i = 0; i < bw_gguf_n_tensors(g); i++) {
        const bw_gguf_tensor *t = bw_gguf_tensor_at(g, i);
        int64_t n = bw_shape_elements(t->dims, t->n_dims);
        float *values = bw_alloc_array((size_t)n, sizeof *values);
        if (values)
            assert_ok(bw_decode_row(t->dtype, t->data, values, n, &err), err);
        bw_free(values);
    }
}

static volatile unsigned byte_sum; /* volatile: every byte is really read */

static void use_safetensors(const bw_safetensors *st)
{
    for (size_t i = 0; i < bw_safetensors_count(st); i++) {
        const bw_safetensor *t = bw_safetensors_at(st, i);
        assert_ptr_equal(bw_safetensors_find(st, t->name), t);
        for (size_t k = 0; k < t->n_bytes; k++)
            byte_sum += ((const unsigned char *)t->data)[k];
    }
}

/* Mutants of the file at path; each is opened from memory of exactly its size and inspected from disk. */
static void run_mutants(const char *path, const char *mutant, size_t n_header, bool is_gguf)
{
    bw_err err = {0};
    char *original;
    size_t n;
    bw_rng rng;
    int n_loaded = 0, n_refused = 0;
    bw_rng_init(&rng, 20251114);
    assert_ok(bw_file_read(path, 100000, &original, &n, &err), err);
    int64_t begin = bw_clock_now_ns();
    for (int i = 0; i < N_MUTANTS; i++) {
        int64_t live = bw_mem_live();
        unsigned char changed[8192];
        assert_true(n + 256 < sizeof changed);
        memcpy(changed, original, n);
        size_t n_changed = n;
        for (uint64_t k = bw_rng_below(&rng, 3); k < 3 && n_changed > 8; k++)
            n_changed = mutate(changed, n_changed, n_header < n_changed ? n_header : n_changed, &rng);
        unsigned char *exact = malloc(n_changed + 1); /* outside bw_alloc: a sanitizer sees its end */
        assert_non_null(exact);
        exact = realloc(exact, n_changed ? n_changed : 1);
        memcpy(exact, changed, n_changed);
        bw_err e = {0};
        bw_status status;
        if (is_gguf) {
            bw_gguf *g;
            status = bw_gguf_open_memory(exact, n_changed, "mutant", &g, &e);
            if (status == BW_OK)
                use_gguf(g);
            bw_gguf_close(g);
        } else {
            bw_safetensors *st;
            status = bw_safetensors_open_memory(exact, n_changed, "mutant", &st, &e);
            if (status == BW_OK)
                use_safetensors(st);
            bw_safetensors_close(st);
        }
        free(exact);
        assert_true(status == BW_OK || (status < 0 && e.status == status && strlen(e.text) > 10));
        n_loaded += status == BW_OK;
        n_refused += status != BW_OK;
        if (i % 4 == 0) {
            bw_str out = {0};
            raw_write(mutant, changed, n_changed);
            status = bw_formats_inspect(mutant, i % 8 == 0, &out, &e);
            assert_true(status == BW_OK || (e.status == status && strlen(e.text) > 10));
            bw_str_deinit(&out);
        }
        assert_int_equal(bw_mem_live(), live);
    }
    int64_t ms = (bw_clock_now_ns() - begin) / 1000000;
    print_message("%d mutants: %d refused, %d load, %d ms\n", N_MUTANTS, n_refused, n_loaded, (int)ms);
    assert_true(n_refused > N_MUTANTS / 3 && n_loaded > 0); /* the mutations reach what is checked */
    unlink(mutant);
    bw_free(original);
}

static void gguf_mutants(void **state)
{
    (void)state;
    char path[300], mutant[300];
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    snprintf(mutant, sizeof mutant, "%s/mutant.gguf", folder);
    make_gguf(path);
    bw_err err = {0};
    bw_gguf *g;
    assert_ok(bw_gguf_open(path, &g, &err), err);
    use_gguf(g);
    size_t n_header = (size_t)((const unsigned char *)bw_gguf_tensor_at(g, 0)->data - bw_gguf_map(g, 0)->data);
    bw_gguf_close(g);
    run_mutants(path, mutant, n_header, true);
    unlink(path);
}

static void safetensors_mutants(void **state)
{
    (void)state;
    char path[300], mutant[300];
    snprintf(path, sizeof path, "%s/m.safetensors", folder);
    snprintf(mutant, sizeof mutant, "%s/mutant.safetensors", folder);
    make_safetensors(path);
    bw_err err = {0};
    bw_safetensors *st;
    assert_ok(bw_safetensors_open(path, &st, &err), err);
    use_safetensors(st);
    size_t n_header = (size_t)((const unsigned char *)bw_safetensors_find(st, "model.embed.weight")->data -
                               bw_safetensors_map(st, 0)->data);
    bw_safetensors_close(st);
    run_mutants(path, mutant, n_header, false);
    unlink(path);
}

static int set_up(void **state)
{
    (void)state;
    raw_folder(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_mutants),
        cmocka_unit_test(safetensors_mutants),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
