/* tokenizers: ids and texts against Hugging Face's on small trained vocabularies, streaming, special tokens, GGUF and
 * tokenizer.json, hostile input, memory that runs out. tests/data/tokenizers is made by
 * tools/fixtures/tokenizer_compare.py. */
#include "../bw_test.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "bw_gguf.h"
#include "bw_mem.h"
#include "bw_rng.h"
#include "bw_tokenizer.h"
#include "families.h"

/* Decoding token by token: every step's text so far is a prefix of whole characters; the end equals decode. */
static void check_stream(const bw_tokenizer *t, const int32_t *ids, size_t n, bool show_special)
{
    bw_err err = {0};
    bw_str whole = {0}, stream = {0};
    bw_detokenizer d;
    assert_ok(bw_tokenizer_decode(t, ids, n, show_special, &whole, &err), err);
    bw_detokenizer_init(&d, t, show_special);
    for (size_t i = 0; i < n; i++) {
        size_t before = stream.len;
        assert_ok(bw_detokenizer_add(&d, ids[i], &stream, &err), err);
        assert_true(stream.len >= before && stream.len <= whole.len);
        assert_int_equal(bw_utf8_valid_prefix(stream.data ? stream.data : "", stream.len), stream.len);
        if (stream.len)
            assert_memory_equal(stream.data, whole.data, stream.len);
    }
    assert_ok(bw_detokenizer_finish(&d, &stream, &err), err);
    assert_int_equal(stream.len, whole.len);
    if (whole.len)
        assert_memory_equal(stream.data, whole.data, whole.len);
    bw_str_deinit(&whole);
    bw_str_deinit(&stream);
}

static void matches_hugging_face(void **state)
{
    (void)state;
    blob texts = read_file("texts", ".bin");
    for (int f = 0; f < N_FAMILIES; f++) {
        bw_tokenizer *t = load_family(families[f]);
        blob want = read_file(families[f], ".bin");
        bw_err err = {0};
        int count = 0;
        for (texts.at = 0; texts.at < texts.n; count++) {
            size_t text_n = take_u16(&texts), n = 0;
            const char *text = take_bytes(&texts, text_n);
            int32_t *ids = NULL;
            assert_ok(bw_tokenizer_encode(t, text, text_n, &both, &ids, &n, &err), err);
            size_t want_n = take_u16(&want);
            bool same = n == want_n;
            for (size_t i = 0; i < want_n; i++) {
                int32_t id = take_u16(&want);
                same = same && ids[i] == id;
            }
            if (!same)
                fail_msg("%s: text %d '%.*s' has other ids", families[f], count, (int)text_n, text);
            size_t back_n = take_u16(&want);
            const char *back = text;
            if (back_n == 0xFFFF)
                back_n = text_n;
            else
                back = take_bytes(&want, back_n);
            bw_str out = {0};
            assert_ok(bw_tokenizer_decode(t, ids, n, false, &out, &err), err);
            if (out.len != back_n || memcmp(out.data ? out.data : "", back, back_n) != 0)
                fail_msg("%s: text %d '%.*s' comes back as '%s'", families[f], count, (int)text_n, text, out.data);
            check_stream(t, ids, n, true);
            bw_str_deinit(&out);
            bw_free(ids);
        }
        assert_int_equal(want.at, want.n);
        assert_int_equal(count, 250);
        free(want.data);
        bw_tokenizer_free(t);
    }
    free(texts.data);
}

static void streams_any_tokens(void **state)
{
    (void)state;
    bw_rng rng;
    bw_rng_init(&rng, 11);
    for (int f = 0; f < N_FAMILIES; f++) {
        bw_tokenizer *t = load_family(families[f]);
        uint64_t n_tokens = (uint64_t)bw_tokenizer_n_tokens(t);
        for (int round = 0; round < 300; round++) {
            int32_t ids[64];
            size_t n = bw_rng_below(&rng, 64);
            for (size_t i = 0; i < n; i++) /* half of them bytes, which lie at the vocabulary's beginning */
                ids[i] = (int32_t)bw_rng_below(&rng, bw_rng_below(&rng, 2) ? n_tokens : 259);
            check_stream(t, ids, n, round & 1);
        }
        bw_err err = {0};
        bw_str out = {0};
        bw_detokenizer d;
        bw_detokenizer_init(&d, t, true);
        assert_ok(bw_detokenizer_add(&d, (int32_t)n_tokens, &out, &err), err); /* a padding row of the model */
        assert_int_equal(out.len, 0);
        assert_int_equal(bw_detokenizer_add(&d, -1, &out, &err), BW_E_RANGE);
        bw_str_deinit(&out);
        bw_tokenizer_free(t);
    }
}

static int32_t find(const bw_tokenizer *t, const char *text)
{
    return bw_tokenizer_find(t, text, strlen(text));
}

static void bytes_make_characters(void **state)
{
    (void)state;
    bw_tokenizer *t = load_family("llama-spm");
    bw_err err = {0};
    bw_str out = {0};
    bw_detokenizer d;
    const char *names[] = {"<0xE2>", "<0x82>", "<0xAC>", "<0xE2>", "<0x82>", "<0x41>", "<0xFF>", "<0xF0>", "<0x9F>"};
    /* nothing before the euro sign is whole; a broken start is replaced byte by byte; the end gives up the rest */
    const char *so_far[] = {"",
                            "",
                            "€",
                            "€",
                            "€",
                            "€\xEF\xBF\xBD\xEF\xBF\xBD"
                            "A",
                            "€\xEF\xBF\xBD\xEF\xBF\xBD"
                            "A\xEF\xBF\xBD",
                            "€\xEF\xBF\xBD\xEF\xBF\xBD"
                            "A\xEF\xBF\xBD",
                            "€\xEF\xBF\xBD\xEF\xBF\xBD"
                            "A\xEF\xBF\xBD"};
    bw_detokenizer_init(&d, t, false);
    for (int i = 0; i < 9; i++) {
        assert_ok(bw_detokenizer_add(&d, find(t, names[i]), &out, &err), err);
        assert_string_equal(out.data ? out.data : "", so_far[i]);
    }
    assert_ok(bw_detokenizer_finish(&d, &out, &err), err);
    assert_string_equal(out.data, "€\xEF\xBF\xBD\xEF\xBF\xBD"
                                  "A\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    bw_str_deinit(&out);
    bw_tokenizer_free(t);
}

static void special_tokens(void **state)
{
    (void)state;
    blob json = read_file("qwen2", ".json");
    bw_tokenizer *t = load_json(
        (char *)json.data, json.n,
        "{\"bos_token\": {\"content\": \"<|begin|>\"}, \"eos_token\": \"<tool>\", \"chat_template\": "
        "[{\"name\": \"default\", \"template\": \"{{ a }}\"}, {\"name\": \"tool_use\", \"template\": \"b\"}]}",
        "{\"eos_token_id\": [5, 6]}");
    free(json.data);
    bw_err err = {0};
    int32_t begin = find(t, "<|begin|>"), end = find(t, "<|im_end|>"), *ids = NULL;
    assert_int_equal(bw_tokenizer_bos(t), begin);
    assert_int_equal(bw_tokenizer_eos(t), find(t, "<tool>"));
    assert_true(bw_tokenizer_is_eos(t, 5) && bw_tokenizer_is_eos(t, 6) && bw_tokenizer_is_eos(t, end));
    assert_false(bw_tokenizer_is_eos(t, 7) || bw_tokenizer_is_eos(t, begin) || bw_tokenizer_is_eos(t, -1));
    assert_true(bw_tokenizer_is_special(t, begin));
    assert_false(bw_tokenizer_is_special(t, find(t, "<tool>")));
    assert_true(bw_tokenizer_adds_bos(t));
    assert_false(bw_tokenizer_adds_eos(t));
    assert_string_equal(bw_tokenizer_chat_template(t, NULL), "{{ a }}");
    assert_string_equal(bw_tokenizer_chat_template(t, "tool_use"), "b");
    assert_null(bw_tokenizer_chat_template(t, "rag"));
    assert_string_equal(bw_tokenizer_spelling(t, end), "<|im_end|>");
    assert_null(bw_tokenizer_spelling(t, bw_tokenizer_n_tokens(t)));
    assert_int_equal(find(t, "no such token"), -1);
    size_t n = 0, len;
    assert_string_equal(bw_tokenizer_piece(t, end, &len), "<|im_end|>");
    assert_int_equal(len, 10);
    /* Text that looks like a special token is only text unless asked for; ids are appended. */
    assert_ok(bw_tokenizer_encode(t, "<|im_end|>", 10, &plain, &ids, &n, &err), err);
    assert_true(n > 1);
    for (size_t i = 0; i < n; i++)
        assert_int_not_equal(ids[i], end);
    size_t before = n;
    assert_ok(bw_tokenizer_encode(t, "<|im_end|>", 10, &both, &ids, &n, &err), err);
    assert_int_equal(n, before + 2);
    assert_int_equal(ids[before], begin);
    assert_int_equal(ids[before + 1], end);
    bw_str out = {0};
    assert_ok(bw_tokenizer_decode(t, ids, n, false, &out, &err), err);
    assert_string_equal(out.data, "<|im_end|>");
    bw_str_clear(&out);
    assert_ok(bw_tokenizer_decode(t, ids, n, true, &out, &err), err);
    assert_string_equal(out.data, "<|im_end|><|begin|><|im_end|>");
    bw_str_deinit(&out);
    bw_free(ids);
    bw_tokenizer_free(t);
}

static void invalid_text(void **state)
{
    (void)state;
    bw_tokenizer *t = load_family("gpt-2");
    bw_err err = {0};
    static const char bad[] = "a\xE2\x82(\xFF\xC0\xAF\xF0\x9F",
                      good[] = "a\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD";
    int32_t *a = NULL, *b = NULL;
    size_t na = 0, nb = 0;
    assert_ok(bw_tokenizer_encode(t, bad, sizeof bad - 1, &parsed, &a, &na, &err), err);
    assert_ok(bw_tokenizer_encode(t, good, sizeof good - 1, &parsed, &b, &nb, &err), err);
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, na * sizeof *a);
    bw_free(a);
    bw_free(b);
    bw_tokenizer_free(t);
}

/* ---- GGUF ---------------------------------------------------------------------------------------------------- */

static bw_status no_tensors(void *user, bw_gguf_writer *w, size_t index, bw_err *err)
{
    (void)user;
    (void)w;
    (void)index;
    (void)err;
    return BW_OK;
}

typedef struct metadata {
    const char *model, *pre;
    const char *tokens[400];
    char names[256][8];
    int32_t types[400];
    float scores[400];
    const char *merges[8];
    int n_tokens, n_merges;
    int64_t eos;
    int64_t fail_at; /* the allocation of loading that fails; 0 = none */
} metadata;

static void set_strings(bw_gguf_writer *w, const char *key, const char *const *s, int n)
{
    bw_gguf_string strings[400];
    bw_err err = {0};
    for (int i = 0; i < n; i++)
        strings[i] = (bw_gguf_string){s[i], strlen(s[i])};
    bw_gguf_value v = {.type = BW_GGUF_ARRAY};
    v.a.type = BW_GGUF_STRING;
    v.a.n = (uint64_t)n;
    v.a.strings = strings;
    assert_ok(bw_gguf_writer_set(w, key, &v, &err), err);
}

static bw_status load_metadata(const metadata *m, bw_tokenizer **t, bw_err *err)
{
    char path[] = "/tmp/bw-tokenizer-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    bw_gguf_writer *w;
    assert_ok(bw_gguf_writer_new(&w, err), *err);
    assert_ok(bw_gguf_writer_set_string(w, "tokenizer.ggml.model", m->model, err), *err);
    if (m->pre)
        assert_ok(bw_gguf_writer_set_string(w, "tokenizer.ggml.pre", m->pre, err), *err);
    set_strings(w, "tokenizer.ggml.tokens", m->tokens, m->n_tokens);
    if (m->n_merges)
        set_strings(w, "tokenizer.ggml.merges", m->merges, m->n_merges);
    bw_gguf_value v = {.type = BW_GGUF_ARRAY};
    v.a.n = (uint64_t)m->n_tokens;
    v.a.type = BW_GGUF_I32;
    v.a.data = (const unsigned char *)m->types;
    assert_ok(bw_gguf_writer_set(w, "tokenizer.ggml.token_type", &v, err), *err);
    v.a.type = BW_GGUF_F32;
    v.a.data = (const unsigned char *)m->scores;
    assert_ok(bw_gguf_writer_set(w, "tokenizer.ggml.scores", &v, err), *err);
    assert_ok(bw_gguf_writer_set_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)m->eos, err), *err);
    assert_ok(bw_gguf_writer_set_string(w, "tokenizer.chat_template", "main", err), *err);
    assert_ok(bw_gguf_writer_set_string(w, "tokenizer.chat_template.tool_use", "tools", err), *err);
    assert_ok(bw_gguf_writer_write(w, path, no_tensors, NULL, err), *err);
    bw_gguf_writer_free(w);
    bw_gguf *g;
    assert_ok(bw_gguf_open(path, &g, err), *err);
    bw_mem_fail_at(m->fail_at);
    bw_status status = bw_tokenizer_from_gguf(g, t, err);
    bw_mem_fail_at(0);
    bw_gguf_close(g);
    close(fd);
    remove(path);
    return status;
}

static int add_token(metadata *m, const char *text, int32_t type, float score)
{
    m->tokens[m->n_tokens] = text;
    m->types[m->n_tokens] = type;
    m->scores[m->n_tokens] = score;
    return m->n_tokens++;
}

static void expect_ids(const bw_tokenizer *t, const char *text, const int32_t *want, size_t want_n)
{
    bw_err err = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    assert_ok(bw_tokenizer_encode(t, text, strlen(text), &both, &ids, &n, &err), err);
    assert_int_equal(n, want_n);
    assert_memory_equal(ids, want, n * sizeof *ids);
    bw_free(ids);
}

static void sentencepiece_metadata(metadata *m)
{
    *m = (metadata){.model = "llama", .eos = 2};
    add_token(m, "<unk>", 2, 0);
    add_token(m, "<s>", 3, 0);
    add_token(m, "</s>", 3, 0);
    for (int b = 0; b < 256; b++) {
        snprintf(m->names[b], sizeof m->names[b], "<0x%02X>", (unsigned)b & 0xFF);
        add_token(m, m->names[b], 6, 0);
    }
    add_token(m, "▁", 1, -10); /* 259 */
    add_token(m, "a", 1, -11);
    add_token(m, "b", 1, -12);
    add_token(m, "ab", 1, -1);
    add_token(m, "▁a", 1, -2);
    add_token(m, "▁ab", 1, -3);
    add_token(m, "bb", 4, -1000);
}

static void gguf_sentencepiece(void **state)
{
    (void)state;
    metadata m;
    sentencepiece_metadata(&m);
    bw_tokenizer *t;
    bw_err err = {0};
    assert_ok(load_metadata(&m, &t, &err), err);
    expect_ids(t, "ab", (int32_t[]){1, 264}, 2);
    expect_ids(t, "aab", (int32_t[]){1, 263, 262}, 3);
    expect_ids(t, "€", (int32_t[]){1, 259, 3 + 0xE2, 3 + 0x82, 3 + 0xAC}, 5);
    expect_ids(t, "abb", (int32_t[]){1, 263, 265}, 3); /* the user's token is cut out first */
    expect_ids(t, "</s>a", (int32_t[]){1, 2, 263}, 3);
    assert_int_equal(bw_tokenizer_eos(t), 2);
    assert_string_equal(bw_tokenizer_chat_template(t, "default"), "main");
    assert_string_equal(bw_tokenizer_chat_template(t, "tool_use"), "tools");
    bw_str out = {0};
    assert_ok(bw_tokenizer_decode(t, (int32_t[]){1, 264, 263, 265}, 4, false, &out, &err), err);
    assert_string_equal(out.data, "ab abb");
    bw_str_deinit(&out);
    bw_tokenizer_free(t);
}

static void bpe_metadata(metadata *m)
{
    *m = (metadata){.model = "gpt2", .pre = "llama-bpe", .eos = 4, .n_merges = 3};
    const char *tokens[] = {"a", "b", "Ġ", "ab", "<|im_end|>", "Ġab", "abc", "c"};
    for (int i = 0; i < 8; i++)
        add_token(m, tokens[i], 1, 0);
    m->merges[0] = "a b";
    m->merges[1] = "Ġ ab";
    m->merges[2] = "no such"; /* can never apply */
}

static void gguf_bpe(void **state)
{
    (void)state;
    metadata m;
    bpe_metadata(&m);
    bw_tokenizer *t;
    bw_err err = {0};
    assert_ok(load_metadata(&m, &t, &err), err);
    expect_ids(t, "ab abc ab<|im_end|>", (int32_t[]){3, 5, 7, 5, 4}, 5);
    expect_ids(t, "abc", (int32_t[]){6}, 1); /* a whole word of the vocabulary needs no merges */
    assert_true(bw_tokenizer_is_eos(t, 4) && bw_tokenizer_is_special(t, 4));
    assert_false(bw_tokenizer_adds_bos(t)); /* there is none */
    bw_tokenizer_free(t);
    struct {
        const char *model, *pre;
        int64_t eos;
        const char *says;
    } bad[] = {{"rwkv", "gpt-2", 4, "'rwkv'"}, {"gpt2", "nonsense", 4, "'nonsense'"}, {"gpt2", "gpt-2", 99, "99"}};
    for (size_t i = 0; i < 3; i++) {
        m.model = bad[i].model;
        m.pre = bad[i].pre;
        m.eos = bad[i].eos;
        assert_true(load_metadata(&m, &t, &err) < 0);
        assert_null(t);
        assert_non_null(strstr(err.text, bad[i].says));
    }
}

/* ---- hostile ------------------------------------------------------------------------------------------------- */

static void try_json(const char *json, size_t n)
{
    bw_err err = {0};
    bw_tokenizer *t;
    bw_status status = bw_tokenizer_from_json(json, n, NULL, 0, NULL, 0, "x", &t, &err);
    if (status != BW_OK) {
        assert_null(t);
        assert_true(err.text[0] != 0);
        return;
    }
    int32_t *ids = NULL;
    size_t n_ids = 0;
    static const char text[] = "Hello <|begin|> wörld\n 123 <tool> lone";
    if (bw_tokenizer_encode(t, text, sizeof text - 1, &both, &ids, &n_ids, &err) == BW_OK)
        check_stream(t, ids, n_ids, true);
    bw_free(ids);
    bw_tokenizer_free(t);
}

static void mutated_json(void **state)
{
    (void)state;
    bw_rng rng;
    bw_rng_init(&rng, 3);
    int64_t live = bw_mem_live();
    for (int f = 0; f < N_FAMILIES; f++) {
        blob json = read_file(families[f], ".json");
        for (int round = 0; round < 60; round++) {
            char *copy = malloc(json.n);
            size_t n = json.n;
            memcpy(copy, json.data, n);
            for (uint64_t k = 1 + bw_rng_below(&rng, 4); k > 0; k--) {
                size_t at = bw_rng_below(&rng, round & 1 ? 1500 : n);
                copy[at] = "0123456789\"{}[],:\\ntrue\xFFx-"[bw_rng_below(&rng, 26)];
            }
            if (round % 10 == 0)
                n = bw_rng_below(&rng, n);
            try_json(copy, n);
            free(copy);
        }
        free(json.data);
    }
    assert_int_equal(bw_mem_live(), live);
}

static void refused_json(void **state)
{
    (void)state;
    static const struct {
        const char *json, *says;
    } bad[] = {
        {"", "ends too early"},
        {"[]", "no \"model\""},
        {"{\"model\": {\"type\": \"Unigram\"}}", "Unigram"},
        {"{\"model\": {\"vocab\": {\"a\": 0}}}", "merges"},
        {"{\"model\": {\"vocab\": {}, \"merges\": []}}", "vocabulary of 0"},
        {"{\"model\": {\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}", "two tokens"},
        {"{\"model\": {\"vocab\": {\"a\": 2147483647}, \"merges\": []}}", "2147483647"},
        {"{\"model\": {\"vocab\": {\"a\": -1}, \"merges\": []}}", "'a'"},
        {"{\"model\": {\"vocab\": {\"a\": 99999999999999999999}, \"merges\": []}}", "'a' is too large"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"added_tokens\": [{\"content\": \"b\", \"id\": "
         "18446744073709551616}]}",
         "added token 0 is too large"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}}", "merge 0"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1}}", "dropout"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": \"u\"}}", "unknown token"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"normalizer\": {\"type\": \"Odd\"}}", "'Odd'"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"Odd\"}}", "'Odd'"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"decoder\": {\"type\": \"Odd\"}}", "'Odd'"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": "
         "\"Isolated\", \"pattern\": {\"Regex\": \"(\"}}}",
         "'('"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"post_processor\": {\"type\": \"BertProcessing\", "
         "\"cls\": "
         "[\"a\", 7], \"sep\": [\"a\", 0]}}",
         "id 7"},
        {"{\"a\": \"\\ud800\"}", "surrogate"},
        {"{\"a\": 01}", "expected"},
        {"{} {}", "follows"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_err err = {0};
        bw_tokenizer *t;
        assert_true(bw_tokenizer_from_json(bad[i].json, strlen(bad[i].json), NULL, 0, NULL, 0, "x", &t, &err) < 0);
        if (!strstr(err.text, bad[i].says))
            fail_msg("%s: says '%s'", bad[i].json, err.text);
    }
    char deep[400];
    memset(deep, '[', sizeof deep);
    try_json(deep, sizeof deep);
}

/* The n-th allocation fails, for every n. */
static void no_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen2", "llama-spm", "gpt-4o", "metaspace"};
    static const char text[] = "Hello <|begin|> wo\xCC\x88rld e\xCC\xA7\xCC\x81\n 123 <tool> lone ሀ";
    for (int f = 0; f < 4; f++) {
        blob json = read_file(names[f], ".json");
        int64_t live = bw_mem_live();
        bw_status status = BW_E_MEMORY;
        for (int64_t k = 1; status != BW_OK; k++) {
            bw_err err = {0};
            bw_tokenizer *t = NULL;
            int32_t *ids = NULL;
            size_t n = 0;
            bw_str out = {0};
            bw_mem_fail_at(k);
            status = bw_tokenizer_from_json((char *)json.data, json.n, NULL, 0, NULL, 0, "x", &t, &err);
            if (status == BW_OK)
                status = bw_tokenizer_encode(t, text, sizeof text - 1, &both, &ids, &n, &err);
            if (status == BW_OK)
                status = bw_tokenizer_decode(t, ids, n, true, &out, &err);
            bw_mem_fail_at(0);
            if (status != BW_OK && status != BW_E_MEMORY)
                fail_msg("%s, allocation %d: %s", names[f], (int)k, err.text);
            bw_free(ids);
            bw_str_deinit(&out);
            bw_tokenizer_free(t);
            assert_int_equal(bw_mem_live(), live);
            assert_true(k < 100000);
        }
        free(json.data);
    }
}

static void no_memory_gguf(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        metadata m;
        if (kind)
            bpe_metadata(&m);
        else
            sentencepiece_metadata(&m);
        int64_t live = bw_mem_live();
        bw_status status = BW_E_MEMORY;
        for (m.fail_at = 1; status != BW_OK; m.fail_at++) {
            bw_err err = {0};
            bw_tokenizer *t;
            status = load_metadata(&m, &t, &err);
            assert_true(status == BW_OK || (status == BW_E_MEMORY && t == NULL));
            bw_tokenizer_free(t);
            assert_int_equal(bw_mem_live(), live);
            assert_true(m.fail_at < 2000);
        }
        assert_true(m.fail_at > 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_hugging_face),
        cmocka_unit_test(streams_any_tokens),
        cmocka_unit_test(bytes_make_characters),
        cmocka_unit_test(special_tokens),
        cmocka_unit_test(invalid_text),
        cmocka_unit_test(gguf_sentencepiece),
        cmocka_unit_test(gguf_bpe),
        cmocka_unit_test(mutated_json),
        cmocka_unit_test(refused_json),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(no_memory_gguf),
    };
    if (getenv("BW_TEST_ONLY"))
        cmocka_set_test_filter(getenv("BW_TEST_ONLY"));
    return cmocka_run_group_tests_name("tokenizers", tests, NULL, NULL);
}
