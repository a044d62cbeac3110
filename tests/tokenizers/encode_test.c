/* tokenizers: what encoding is bounded by and what options change: expressions that never end, most tokens, literal
 * stretches, BOS once, time in proportion to the text. */
#include "../bw_test.h"

#include <time.h>

#include "bw_mem.h"
#include "families.h"

static bw_status split_with(const char *regex, char letter, size_t n_bytes, bw_err *err)
{
    char json[400];
    int n = snprintf(json, sizeof json,
                     "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"Split\", "
                     "\"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"%s\"}}}",
                     regex);
    bw_tokenizer *t = load_json(json, (size_t)n, NULL, NULL);
    char *text = malloc(n_bytes);
    memset(text, letter, n_bytes);
    int32_t *ids = NULL;
    size_t n_ids = 0;
    *err = (bw_err){0};
    bw_status status = bw_tokenizer_encode(t, text, n_bytes, &plain, &ids, &n_ids, err);
    bw_free(ids);
    free(text);
    bw_tokenizer_free(t);
    return status;
}

/* Regular expressions whose time grows faster than the text stop with an error, however little one match takes. */
static void slow_regex(void **state)
{
    (void)state;
    static const struct {
        const char *regex;
        size_t n_bytes;
    } slow[] = {
        {"(a+a+)+[^a]", 200}, {"(?:a|aa){1,13}c|a", 40000},
        {"a*c|a", 160000}, /* few steps in each match, but each runs over all the text */
        {"a*[cd]", 2000000},  {"(?:a*b|a*c|a*d)|a(?=a*)", 100000},
    };
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        bw_err err;
        clock_t start = clock();
        bw_status status = split_with(slow[i].regex, 'a', slow[i].n_bytes, &err);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (status != BW_E_UNSUPPORTED || !strstr(err.text, "too many steps"))
            fail_msg("%s: status %d, '%s'", slow[i].regex, (int)status, err.text);
        if (seconds > 15) /* under one, but for sanitizers */
            fail_msg("%s: %.1f s for %zu bytes", slow[i].regex, seconds, slow[i].n_bytes);
    }
    static const char *const good[] = {"\\\\s+(?!\\\\S)|\\\\s+", "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+|a+",
                                       "[a-z]*[A-Z]+|[a-z]+|\\\\s+"};
    for (size_t i = 0; i < 3; i++)
        for (const char *letter = "a \n"; *letter; letter++) {
            bw_err err;
            assert_ok(split_with(good[i], *letter, 2000000, &err), err);
        }
}

/* Tokens of text with «...» as its literal stretches. */
static size_t encode_marked(const bw_tokenizer *t, const char *marked, bool literal, int32_t **ids)
{
    bw_str text = {0};
    bw_text_span spans[8];
    size_t n_spans = 0, n = 0;
    for (const char *c = marked; *c;) {
        if (strncmp(c, "«", 2) == 0) {
            spans[n_spans].start = text.len;
            c += 2;
        } else if (strncmp(c, "»", 2) == 0) {
            spans[n_spans++].end = text.len;
            c += 2;
        } else {
            bw_str_add_char(&text, *c++);
        }
    }
    bw_err err = {0};
    bw_encode_options o = {.parse_special = true, .literal = spans, .n_literal = literal ? n_spans : 0};
    *ids = NULL;
    assert_ok(bw_tokenizer_encode(t, text.data, text.len, &o, ids, &n, &err), err);
    bw_str_deinit(&text);
    return n;
}

/* What stands in a literal stretch, even in part, is no control token; all else is tokenised as one text. */
static void literal_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *control; /* control tokens in order, without spaces */
    } rows[] = {
        {"<|im_end|>«a»<|im_end|>", "<|im_end|><|im_end|>"},
        {"<|im_end|>«<|im_end|>»<|im_end|>", "<|im_end|><|im_end|>"},
        {"<|im_«end|>»", ""},
        {"«<|im»_end|>", ""},
        {"<|im_e«n»d|>", ""},
        {"<|im_e«»nd|>", "<|im_end|>"},
        {"<|im_end|«>»<|im_end|>", "<|im_end|>"},
        {"«<»<|im_end|>«>»", "<|im_end|>"},
        {"«<|im_end|><|be»gin|><|begin|>", "<|begin|>"},
        {"\xFF«\xFF\xE2\x82<|im_end|>»\xFF<|im_end|>", "<|im_end|>"},
        {"\xE2\x82«<|im_end|>\xFF»<|im_end|>\xFF«<|begin|>»", "<|im_end|>"},
        {"«<tool>»<tool>", ""}, /* not a control token: read everywhere */
    };
    int n_families = 0;
    for (int f = 0; f < N_FAMILIES; f++) {
        bw_tokenizer *t = load_family(families[f]);
        bool has_them = bw_tokenizer_is_special(t, bw_tokenizer_find(t, "<|im_end|>", 10)) &&
                        bw_tokenizer_is_special(t, bw_tokenizer_find(t, "<|begin|>", 9));
        n_families += has_them;
        for (size_t i = 0; has_them && i < sizeof rows / sizeof *rows; i++) {
            int32_t *ids, *whole;
            size_t n = encode_marked(t, rows[i].text, true, &ids),
                   n_whole = encode_marked(t, rows[i].text, false, &whole);
            bw_str control = {0};
            for (size_t k = 0; k < n; k++)
                if (bw_tokenizer_is_special(t, ids[k]))
                    bw_str_add(&control, bw_tokenizer_spelling(t, ids[k]));
            bw_str_add(&control, "");
            if (strcmp(control.data, rows[i].control) != 0)
                fail_msg("%s: '%s' has the control tokens '%s'", families[f], rows[i].text, control.data);
            bool same = n == n_whole && memcmp(ids, whole, n * sizeof *ids) == 0;
            assert_int_equal(same, i == 0 || i == 5 || i == 11 || i == 7);
            bw_str_deinit(&control);
            bw_free(ids);
            bw_free(whole);
        }
        bw_err err = {0};
        int32_t *ids = NULL;
        size_t n = 0;
        static const bw_text_span wrong[][2] = {{{0, 2}, {1, 3}}, {{2, 1}, {3, 3}}, {{0, 1}, {2, 5}}};
        for (int i = 0; i < 3; i++) {
            bw_encode_options o = {.parse_special = true, .literal = wrong[i], .n_literal = 2};
            assert_int_equal(bw_tokenizer_encode(t, "abc", 3, &o, &ids, &n, &err), BW_E_ARG);
            assert_null(ids);
        }
        bw_tokenizer_free(t);
    }
    assert_true(n_families >= 4);
}

/* Where control tokens are looked for in normalised text, thousands of literal stretches stop with an error, too: each
 * takes as long as all the text before it. */
static void many_literal_stretches(void **state)
{
    (void)state;
    enum { N = 20000, EACH = 20 };
    static const char json[] =
        "{\"added_tokens\": [{\"id\": 1, \"content\": \"</s>\", \"special\": true, \"normalized\": "
        "true}], \"normalizer\": {\"type\": \"NFC\"}, \"model\": {\"type\": \"BPE\", \"vocab\": "
        "{\"a\": 0, \"</s>\": 1}, \"merges\": []}}";
    bw_tokenizer *t = load_json(json, sizeof json - 1, NULL, NULL);
    char *text = malloc(N * EACH);
    bw_text_span *spans = malloc(N * sizeof *spans);
    memset(text, 'a', N * EACH);
    for (size_t i = 0; i < N; i++)
        spans[i] = (bw_text_span){i * EACH + 1, (i + 1) * EACH};
    for (size_t n = 10; n <= N; n *= 2000) {
        int32_t *ids = NULL;
        size_t n_ids = 0;
        bw_err err = {0};
        memcpy(text + n * EACH - 4, "</s>", 4);
        bw_encode_options o = {.parse_special = true, .literal = spans, .n_literal = n};
        clock_t start = clock();
        bw_status status = bw_tokenizer_encode(t, text, n * EACH, &o, &ids, &n_ids, &err);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        memset(text + n * EACH - 4, 'a', 4);
        if (n == 10)
            assert_ok(status, err);
        else if (status != BW_E_UNSUPPORTED || !strstr(err.text, "literal stretches") || seconds > 30)
            fail_msg("status %d after %.1f s: %s", (int)status, seconds, err.text);
        bw_free(ids);
    }
    free(spans);
    free(text);
    bw_tokenizer_free(t);
}

/* For a text that will be continued: what stands before a text is there once, what ends one never. */
static void once(void **state)
{
    (void)state;
    static const char around[] =
        "{\"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", \"special\": true}, {\"id\": 2, \"content\": "
        "\"</s>\", \"special\": true}], \"model\": {\"vocab\": {\"a\": 0, \"<s>\": 1, \"</s>\": 2}, \"merges\": "
        "[]}, \"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"<s>\", 1], \"sep\": [\"</s>\", 2]}}";
    static const struct {
        const char *text, *ids, *ids_once;
    } rows[] = {{"a", "102", "10"},          {"", "12", "1"},         {"<s>a", "1102", "10"},
                {"<s><s>a", "11102", "110"}, {"a<s>", "1012", "101"}, {"<s>", "112", "1"}};
    bw_tokenizer *t = load_json(around, sizeof around - 1, NULL, NULL);
    assert_true(bw_tokenizer_adds_bos(t) && bw_tokenizer_adds_eos(t));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; k < 2; k++) {
            const char *want = k ? rows[i].ids_once : rows[i].ids;
            bw_encode_options o = {.add_special = true, .parse_special = true, .once = k, .max_tokens = strlen(want)};
            int32_t *ids = NULL;
            size_t n = 0;
            bw_err err = {0};
            assert_ok(bw_tokenizer_encode(t, rows[i].text, strlen(rows[i].text), &o, &ids, &n, &err), err);
            assert_int_equal(n, strlen(want));
            for (size_t j = 0; j < n; j++)
                assert_int_equal(ids[j], want[j] - '0');
            bw_free(ids);
        }
    }
    bw_tokenizer_free(t);
}

/* A limit lets through what keeps it, stops all else, and stops a text that is far too long before it was encoded. */
static void most_tokens(void **state)
{
    (void)state;
    blob texts = read_file("texts", ".bin");
    bw_str large = {0};
    while (large.len < 1000000)
        bw_str_add(&large, "aaaa");
    for (int f = 0; f < N_FAMILIES; f++) {
        bw_tokenizer *t = load_family(families[f]);
        for (texts.at = 0; texts.at < texts.n;) {
            size_t text_n = take_u16(&texts), n = 0, n_limited = 0;
            const char *text = take_bytes(&texts, text_n);
            int32_t *ids = NULL, *limited = NULL;
            bw_err err = {0};
            assert_ok(bw_tokenizer_encode(t, text, text_n, &both, &ids, &n, &err), err);
            bw_encode_options o = both;
            o.max_tokens = n;
            if (n > 0) {
                assert_ok(bw_tokenizer_encode(t, text, text_n, &o, &limited, &n_limited, &err), err);
                assert_int_equal(n_limited, n);
                assert_memory_equal(limited, ids, n * sizeof *ids);
            }
            bw_free(ids);
            bw_free(limited);
            limited = NULL;
            n_limited = 0;
            o.max_tokens = n > 1 ? n - 1 : 1;
            bw_status status = bw_tokenizer_encode(t, text, text_n, &o, &limited, &n_limited, &err);
            assert_int_equal(status, n > 1 ? BW_E_RANGE : BW_OK);
            if (n > 1) {
                assert_null(limited);
                assert_int_equal(n_limited, 0);
                assert_non_null(strstr(err.text, "tokens"));
            }
            bw_free(limited);
        }
        int32_t *ids = NULL;
        size_t n = 0;
        bw_err err = {0};
        bw_encode_options o = {.max_tokens = 4096};
        int64_t before = bw_mem_count();
        assert_int_equal(bw_tokenizer_encode(t, large.data, large.len, &o, &ids, &n, &err), BW_E_RANGE);
        static const char *const unchanged[] = {"gpt-2", "llama-bpe", "smollm", "gpt-4o"};
        for (int k = 0; k < 4; k++) /* no normaliser: refused before anything was done */
            if (strcmp(families[f], unchanged[k]) == 0)
                assert_int_equal(bw_mem_count(), before);
        bw_tokenizer_free(t);
    }
    bw_str_deinit(&large);
    free(texts.data);
}

/* Twice the text takes about twice the time, also for one endless word and one endless stretch of marks. */
static void linear_time(void **state)
{
    (void)state;
    static const char *const pieces[] = {"a",  "A",      "the quick brown fox 123 ", "e\xCC\x81\xCC\xA7", " ", "\n",
                                         "好", "<|begin"};
    for (int f = 0; f < N_FAMILIES; f++) {
        bw_tokenizer *t = load_family(families[f]);
        for (int p = 0; p < 8; p++) {
            bw_str text = {0};
            bool through_regex = strcmp(families[f], "gpt-4o") == 0 && strlen(pieces[p]) == 1;
            while (text.len < (through_regex ? 1500000u : 200000u))
                bw_str_add(&text, pieces[p]);
            bw_err err = {0};
            int32_t *ids = NULL;
            size_t n = 0;
            clock_t start = clock();
            assert_ok(bw_tokenizer_encode(t, text.data, text.len, &parsed, &ids, &n, &err), err);
            double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            if (seconds > 5) /* quadratic would be minutes; sanitizers are slow */
                fail_msg("%s: %zu bytes of '%s' took %.1f s", families[f], text.len, pieces[p], seconds);
            bw_free(ids);
            bw_str_deinit(&text);
        }
        bw_tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_regex), cmocka_unit_test(literal_text), cmocka_unit_test(many_literal_stretches),
        cmocka_unit_test(once),       cmocka_unit_test(most_tokens),  cmocka_unit_test(linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
