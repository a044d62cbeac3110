/* Models, changed in many small ways with a fixed seed: GGUF with a vocabulary, quantised GGUF, and safetensors with
 * config.json and tokenizer.json. Counts, heads, dimensions, token ids, rope values, types, the tensor table, lengths
 * and weights are hit on purpose. Each mutant is opened, loaded, and if that works computes a step and encodes and
 * decodes a text. It must end well or with a sentence, soon, with little memory, and give everything back. */
#include "../bw_test.h"

#include <math.h>
#include <sys/resource.h>

#include "../formats/raw.h"
#include "bw_clock.h"
#include "bw_gguf.h"
#include "bw_lm.h"
#include "bw_mem.h"
#include "bw_rng.h"

enum { N_MUTANTS = 300, MAX_BYTES = 400000, MAX_MS = 2000, MAX_MEGABYTES = 768 };

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#ifdef WITH_ASAN
/* Its own address space is huge, so the limit on one allocation stands in for the limit on all. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "max_allocation_size_mb=256:allocator_may_return_null=1";
}
#endif

static char folder[200];
static bw_device *device;
static struct {
    int n, n_loaded, n_refused, n_stepped, n_encoded;
    int64_t slowest_ms;
} seen;

/* ---- what is done with a mutant --------------------------------------------------------------------------------- */

static void check(bw_status status, const bw_err *err, const char *what)
{
    if (status != BW_OK && (status > 0 || err->status != status || strlen(err->text) < 10))
        fail_msg("%s: status %d, \"%s\"", what, status, err->text);
    if (status == BW_E_MEMORY || status == BW_E_INTERNAL)
        fail_msg("%s: %s: %s", what, bw_status_name(status), err->text);
}

static void use_tokenizer(const bw_tokenizer *t, int32_t *tokens, size_t *n_tokens)
{
    static const char text[] = "Hello <s>world</s>, it's 123 \xF0\x9F\x98\x80 e\xCC\x81\n\n \xFF end";
    bw_err err = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    int32_t n_vocab = bw_tokenizer_n_tokens(t);
    for (int32_t id = -1; id <= n_vocab && id < 500; id++) {
        size_t n_bytes;
        bw_tokenizer_is_eos(t, id);
        bw_tokenizer_is_special(t, id);
        bw_tokenizer_piece(t, id, &n_bytes);
        bw_tokenizer_spelling(t, id);
    }
    assert_true(bw_tokenizer_bos(t) >= -1 && bw_tokenizer_bos(t) < n_vocab);
    assert_true(bw_tokenizer_eos(t) >= -1 && bw_tokenizer_eos(t) < n_vocab);
    bw_status status = bw_tokenizer_encode(
        t, text, sizeof text - 1, &(bw_encode_options){.add_special = true, .parse_special = true}, &ids, &n, &err);
    check(status, &err, "encode");
    if (status == BW_OK) {
        bw_str out = {0};
        for (size_t i = 0; i < n; i++)
            assert_true(ids[i] >= 0 && ids[i] < n_vocab);
        check(bw_tokenizer_decode(t, ids, n, true, &out, &err), &err, "decode");
        bw_str_deinit(&out);
        *n_tokens = n < 8 ? n : 8;
        memcpy(tokens, ids, *n_tokens * sizeof *ids);
        seen.n_encoded++;
    }
    bw_free(ids);
}

static void use_lm(bw_lm *lm)
{
    bw_err err = {0};
    bw_lm_info info;
    bw_lm_get_info(lm, &info);
    assert_true(info.n_vocab > 0 && info.kv_page_bytes > 0 && info.n_ctx_train > 0 && info.n_params > 0);
    int32_t tokens[11] = {0, info.n_vocab - 1, info.n_vocab / 2}, pages[1] = {1}, outputs[2];
    size_t n_text = 0;
    if (bw_lm_tokenizer(lm))
        use_tokenizer(bw_lm_tokenizer(lm), tokens + 3, &n_text);
    int32_t n = 3 + (int32_t)n_text;
    outputs[0] = 0;
    outputs[1] = n - 1;
    bw_lm_seq seq = {.n_tokens = n, .n_cached = n, .pages = pages};
    bw_lm_batch batch = {
        .n_tokens = n, .tokens = tokens, .n_seqs = 1, .seqs = &seq, .n_outputs = 2, .outputs = outputs};
    const float *logits;
    bw_status status = bw_lm_step(lm, &batch, &logits, &err);
    check(status, &err, "step");
    if (status != BW_OK) { /* the tokenizer may know more tokens than the model: refused, and the model goes on */
        assert_true(n > 3 && status == BW_E_RANGE);
        batch.n_tokens = seq.n_tokens = seq.n_cached = 3;
        outputs[1] = 2;
        status = bw_lm_step(lm, &batch, &logits, &err);
        check(status, &err, "step");
    }
    if (status == BW_OK) {
        int n_numbers = 0;
        for (int64_t i = 0; i < 2 * (int64_t)info.n_vocab; i++)
            n_numbers += logits[i] <= 0 || logits[i] > 0;
        seen.n_stepped++;
        assert_true(n_numbers >= 0);
    }
}

/* Open, load and use what lies at path; whatever happens, nothing stays allocated. */
static void try_model(const char *path)
{
    bw_err err = {0};
    int64_t live = bw_mem_live(), begin = bw_clock_now_ns();
    bw_lm_file *file;
    bw_lm *lm = NULL;
    bw_status status = bw_lm_file_open(path, &file, &err);
    if (status == BW_OK) {
        bw_lm_options options = {
            .kv_dtype = BW_F16, .n_pages = 2, .max_tokens = 16, .max_seqs = 2, .max_outputs = 2, .max_seq_pages = 2};
        status = bw_lm_new(file, device, &options, &lm, &err);
    }
    check(status, &err, "load");
    if (status == BW_OK)
        use_lm(lm);
    bw_lm_free(lm);
    int64_t ms = (bw_clock_now_ns() - begin) / 1000000;
    seen.n++;
    seen.n_loaded += status == BW_OK;
    seen.n_refused += status != BW_OK;
    seen.slowest_ms = ms > seen.slowest_ms ? ms : seen.slowest_ms;
    assert_int_equal(bw_mem_live(), live);
}

/* At least a twelfth refused and a twelfth loaded: the changes reach what is checked, and what is not. */
static void report(const char *name)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    print_message("%s: %d mutants: %d refused, %d load, %d compute, %d encode; slowest %d ms, at most %d MB\n", name,
                  seen.n, seen.n_refused, seen.n_loaded, seen.n_stepped, seen.n_encoded, (int)seen.slowest_ms,
                  (int)(usage.ru_maxrss / 1024));
    assert_true(seen.n_refused > seen.n / 12 && seen.n_loaded > seen.n / 12 && seen.n_stepped == seen.n_loaded);
    assert_true(seen.slowest_ms < MAX_MS && usage.ru_maxrss / 1024 < MAX_MEGABYTES);
    memset(&seen, 0, sizeof seen);
}

/* ---- changes -------------------------------------------------------------------------------------------------------
 */

static const uint64_t words[] = {
    0,          1,          2,          3,          4,          5,          7,         8,          15,
    16,         17,         31,         33,         48,         63,         65,        96,         127,
    128,        255,        256,        1000,       4095,       4096,       65535,     1u << 20,   16777215,
    0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff, 1ull << 32, 1ull << 60, INT64_MAX, 1ull << 63, UINT64_MAX};
static const float floats[] = {0, -0.0f, 1, -1, 1e-30f, 1e-6f, 0.5f, 1e30f, 3e38f, INFINITY, -INFINITY, NAN, 10000, 2};

static uint64_t pick_word(bw_rng *rng)
{
    return words[bw_rng_below(rng, sizeof words / sizeof *words)];
}

struct bytes {
    unsigned char *data; /* [MAX_BYTES] */
    size_t n;
};

static void put(struct bytes *b, size_t at, const void *value, size_t n)
{
    if (at <= b->n && n <= b->n - at)
        memcpy(b->data + at, value, n);
}

/* Any change of any bytes before n_header. */
static void change_bytes(struct bytes *b, size_t n_header, bw_rng *rng)
{
    size_t at = (size_t)bw_rng_below(rng, n_header < b->n ? n_header : b->n);
    size_t n = 1 + (size_t)bw_rng_below(rng, 16);
    n = n < b->n - at ? n : b->n - at;
    uint64_t word = pick_word(rng);
    switch (bw_rng_below(rng, 6)) {
    case 0:
        b->data[at] = (unsigned char)bw_rng_u32(rng);
        break;
    case 1:
        b->data[at] = (unsigned char)(b->data[at] ^ 1u << bw_rng_below(rng, 8));
        break;
    case 2:
        put(b, at, &word, 4);
        break;
    case 3:
        put(b, at, &word, 8);
        break;
    case 4:
        memmove(b->data + at, b->data + at + n, b->n - at - n);
        b->n -= n;
        break;
    default:
        memmove(b->data + at + n, b->data + at, b->n - at);
        b->n += n;
    }
}

/* The end: cut anywhere, by one byte, or made longer. */
static void change_length(struct bytes *b, bw_rng *rng)
{
    switch (bw_rng_below(rng, 3)) {
    case 0:
        b->n = (size_t)bw_rng_below(rng, b->n);
        break;
    case 1:
        b->n--;
        break;
    default:
        memset(b->data + b->n, 0xA5, 100);
        b->n += 100;
    }
}

/* Weights that are no numbers, or too large: they load, and compute what they compute. */
static void change_weights(struct bytes *b, size_t n_header, bw_rng *rng)
{
    for (int i = 0; i < 200 && n_header + 64 < b->n; i++) {
        size_t at = n_header + (size_t)bw_rng_below(rng, b->n - n_header - 4) / 4 * 4;
        put(b, at, &floats[bw_rng_below(rng, sizeof floats / sizeof *floats)], 4);
    }
}

static size_t find_text(const struct bytes *b, const char *text, size_t n)
{
    const unsigned char *at = memmem(b->data, b->n, text, n);
    return at ? (size_t)(at - b->data) : b->n;
}

/* The value of one key: its type, the number, an array's count or elements, a string's length. */
static void change_value(struct bytes *b, const bw_gguf *g, bw_rng *rng)
{
    size_t i = (size_t)bw_rng_below(rng, bw_gguf_n_values(g));
    const char *key = bw_gguf_key(g, i);
    const bw_gguf_value *v = bw_gguf_value_at(g, i);
    size_t at = find_text(b, key, strlen(key)) + strlen(key);
    uint64_t word = pick_word(rng);
    uint32_t type = (uint32_t)bw_rng_below(rng, 14);
    if (bw_rng_below(rng, 12) == 0) {
        put(b, at, &type, 4);
    } else if (bw_rng_below(rng, 24) == 0) { /* the key is gone */
        put(b, at - 1, "~", 1);
    } else if (v->type == BW_GGUF_ARRAY) {
        size_t size = v->a.type == BW_GGUF_STRING ? 9 : 4;
        size_t element = at + 16 + size * (size_t)bw_rng_below(rng, v->a.n ? v->a.n : 1);
        switch (bw_rng_below(rng, 4)) {
        case 0:
            put(b, at + 4, &type, 4);
            break;
        case 1:
            put(b, at + 8, &word, 8);
            break;
        case 2:
            put(b, element, &floats[bw_rng_below(rng, sizeof floats / sizeof *floats)], 4);
            break;
        default:
            put(b, element, &word, 4);
        }
    } else if (v->type == BW_GGUF_F32) {
        put(b, at + 4, &floats[bw_rng_below(rng, sizeof floats / sizeof *floats)], 4);
    } else if (v->type == BW_GGUF_STRING) {
        if (bw_rng_below(rng, 2))
            put(b, at + 4, &word, 8);
        else
            put(b, at + 12 + (size_t)bw_rng_below(rng, v->s.n_bytes + 1), &word, 1);
    } else {
        put(b, at + 4, &word, v->type == BW_GGUF_U8 || v->type == BW_GGUF_BOOL ? 1 : 4);
    }
}

/* One row of the tensor table: its name, how many dimensions, one of them, the type or the offset. */
static void change_tensor(struct bytes *b, const bw_gguf *g, bw_rng *rng)
{
    const bw_gguf_tensor *t = bw_gguf_tensor_at(g, (size_t)bw_rng_below(rng, bw_gguf_n_tensors(g)));
    size_t at = find_text(b, t->name.data, t->name.n_bytes) + t->name.n_bytes, n_dims = (size_t)t->n_dims;
    uint64_t word = pick_word(rng);
    uint32_t type = (uint32_t)bw_rng_below(rng, 42);
    switch (bw_rng_below(rng, 5)) {
    case 0:
        put(b, at - 1, "X", 1);
        break;
    case 1:
        put(b, at, &word, 4);
        break;
    case 2:
        put(b, at + 4 + 8 * (size_t)bw_rng_below(rng, n_dims), &word, 8);
        break;
    case 3:
        put(b, at + 4 + 8 * n_dims, &type, 4);
        break;
    default:
        put(b, at + 8 + 8 * n_dims, &word, 8);
    }
}

/* A number, word or string of a JSON text becomes another one. */
static void change_json(struct bytes *b, size_t n_json, bw_rng *rng)
{
    static const char *const values[] = {"0",
                                         "-1",
                                         "1",
                                         "2",
                                         "3",
                                         "4",
                                         "5",
                                         "7",
                                         "8",
                                         "16",
                                         "33",
                                         "64",
                                         "65",
                                         "128",
                                         "160",
                                         "4096",
                                         "1048576",
                                         "2147483647",
                                         "2147483648",
                                         "-2147483648",
                                         "4294967296",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "99999999999999999999",
                                         "0.0",
                                         "0.5",
                                         "-0.5",
                                         "1e-300",
                                         "1e300",
                                         "1e999",
                                         "NaN",
                                         "null",
                                         "true",
                                         "\"\"",
                                         "\"x\"",
                                         "\"\\u0000\"",
                                         "[]",
                                         "[1]",
                                         "{}",
                                         "[[[[]]]]",
                                         "\"yarn\"",
                                         "\"llama3\"",
                                         "\"linear\""};
    n_json = n_json < b->n ? n_json : b->n;
    size_t at = (size_t)bw_rng_below(rng, n_json), end;
    while (at < n_json && b->data[at] != ':' && b->data[at] != ',' && b->data[at] != '[')
        at++;
    for (at++; at < n_json && b->data[at] == ' ';)
        at++;
    for (end = at; end < n_json && !strchr(",]}\n", b->data[end]);)
        end++;
    if (end >= n_json || end == at)
        return;
    const char *value = values[bw_rng_below(rng, sizeof values / sizeof *values)];
    size_t n = strlen(value);
    memmove(b->data + at + n, b->data + end, b->n - end);
    memcpy(b->data + at, value, n);
    b->n = b->n - (end - at) + n;
}

/* BW_MUTANT_SEED=N makes other mutants, for longer runs by hand. */
static uint64_t more_seed(void)
{
    const char *text = getenv("BW_MUTANT_SEED");
    uint64_t seed = 0;
    return text && bw_parse_u64(text, &seed) ? seed * 1000 : 0;
}

/* ---- kinds of model ------------------------------------------------------------------------------------------------
 */

static struct bytes read_original(const char *name)
{
    bw_err err = {0};
    char path[300], *data;
    size_t n;
    snprintf(path, sizeof path, "%s/%s", BW_TEST_DATA, name);
    assert_ok(bw_file_read(path, MAX_BYTES - 4096, &data, &n, &err), err);
    return (struct bytes){(unsigned char *)data, n};
}

static void gguf_mutants(const char *name, uint64_t seed)
{
    char path[300];
    bw_err err = {0};
    bw_gguf *g;
    bw_rng rng;
    bw_rng_init(&rng, seed + more_seed());
    snprintf(path, sizeof path, "%s/mutant.gguf", folder);
    struct bytes original = read_original(name), b = {bw_alloc(MAX_BYTES), 0};
    assert_non_null(b.data);
    assert_ok(bw_gguf_open_memory(original.data, original.n, name, &g, &err), err);
    size_t n_header = (size_t)((const unsigned char *)bw_gguf_tensor_at(g, 0)->data - original.data);
    for (int i = 0; i < N_MUTANTS; i++) {
        memcpy(b.data, original.data, original.n);
        b.n = original.n;
        for (uint64_t k = bw_rng_below(&rng, 2); k < 2; k++) {
            uint64_t kind = bw_rng_below(&rng, 16);
            if (kind < 8)
                change_value(&b, g, &rng);
            else if (kind < 11)
                change_tensor(&b, g, &rng);
            else if (kind < 13)
                change_weights(&b, n_header, &rng);
            else if (kind < 15)
                change_bytes(&b, n_header, &rng);
            else
                change_length(&b, &rng);
        }
        raw_write(path, b.data, b.n);
        try_model(path);
    }
    bw_gguf_close(g);
    bw_free(original.data);
    bw_free(b.data);
    unlink(path);
    report(name);
}

static void tiny_gguf(void **state)
{
    (void)state;
    gguf_mutants("cli/tiny.gguf", 1);
}

static void quantised_gguf(void **state)
{
    (void)state;
    gguf_mutants("lm/llama31-q8_0.gguf", 2);
}

static void change_one_file(struct bytes *b, int which, bw_rng *rng)
{
    uint64_t n_header = 0;
    if (which == 0)
        memcpy(&n_header, b->data, 8);
    size_t n_text = which == 0 ? (size_t)n_header + 8 : b->n;
    uint64_t kind = bw_rng_below(rng, 12);
    if (which == 0 && kind < 4)
        change_weights(b, n_text, rng);
    else if (kind == 4)
        change_length(b, rng);
    else if (kind == 5)
        change_bytes(b, n_text, rng);
    else
        change_json(b, n_text, rng);
}

/* model.safetensors, config.json and tokenizer.json in turns. */
static void safetensors_mutants(void **state)
{
    (void)state;
    static const char *const names[] = {"model.safetensors", "config.json", "tokenizer.json"};
    static const char *const sources[] = {"lm/llama2/model.safetensors", "lm/llama2/config.json",
                                          "tokenizers/llama-spm.json"};
    struct bytes originals[3], b = {bw_alloc(MAX_BYTES), 0};
    char paths[3][300];
    bw_rng rng;
    bw_rng_init(&rng, 3 + more_seed());
    assert_non_null(b.data);
    for (int f = 0; f < 3; f++) {
        originals[f] = read_original(sources[f]);
        snprintf(paths[f], sizeof paths[f], "%s/%s", folder, names[f]);
        raw_write(paths[f], originals[f].data, originals[f].n);
    }
    for (int i = 0; i < 2 * N_MUTANTS; i++) {
        int which = (int)bw_rng_below(&rng, 3);
        memcpy(b.data, originals[which].data, originals[which].n);
        b.n = originals[which].n;
        for (uint64_t k = bw_rng_below(&rng, 2); k < 2 && b.n > 16; k++)
            change_one_file(&b, which, &rng);
        raw_write(paths[which], b.data, b.n);
        try_model(folder);
        raw_write(paths[which], originals[which].data, originals[which].n);
    }
    for (int f = 0; f < 3; f++) {
        bw_free(originals[f].data);
        unlink(paths[f]);
    }
    bw_free(b.data);
    report("lm/llama2");
}

static int set_up(void **state)
{
    (void)state;
    bw_err err = {0};
#ifndef WITH_ASAN
    struct rlimit limit = {(rlim_t)MAX_MEGABYTES << 20, (rlim_t)MAX_MEGABYTES << 20};
    setrlimit(RLIMIT_AS, &limit);
#endif
    raw_folder(folder);
    return bw_device_open("cpu:0", 1, &device, &err);
}

static int tear_down(void **state)
{
    (void)state;
    bw_device_close(device);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_gguf),
        cmocka_unit_test(quantised_gguf),
        cmocka_unit_test(safetensors_mutants),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
