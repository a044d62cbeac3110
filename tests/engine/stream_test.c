/* Streaming text: whatever the tokens, the events add up to what a search in the whole text gives. */
#include "../bw_test.h"

#include "bw_mem.h"
#include "bw_rng.h"
#include "bw_stream.h"
#include "fake.h"

bw_tokenizer *fake_tokenizer_new(int32_t n_extra);

static const char *const stop_pool[] = {"ab",           "abc",   "bcd",  "STOP",        "aab", "aaa",
                                        "\xe2\x82\xac", "<end>", "\n\n", "hello world", "b",   "\xf0\x9f\x98\x80 then",
                                        "abab",         "bab"};
enum { N_POOL = sizeof stop_pool / sizeof *stop_pool };

/* The first stop string to be complete in text, the longest of those; its beginning in *cut. */
static const char *naive_stop(const char *text, size_t n, const char *const *stop, size_t n_stop, size_t *cut)
{
    for (size_t end = 1; end <= n; end++) {
        const char *best = NULL;
        for (size_t i = 0; i < n_stop; i++) {
            size_t m = strlen(stop[i]);
            if (m <= end && memcmp(text + end - m, stop[i], m) == 0 && (!best || m > strlen(best)))
                best = stop[i];
        }
        if (best) {
            *cut = end - strlen(best);
            return best;
        }
    }
    *cut = n;
    return NULL;
}

typedef struct collected {
    bw_str text;
    int32_t tokens[256];
    size_t n_tokens, n_events;
} collected;

/* Take the events out; what was shown must never be ahead of, nor behind, the tokens that came with it. */
static void collect(bw_events *events, const bw_tokenizer *t, collected *c)
{
    bw_event e;
    bw_err err = {0};
    while (bw_events_pop(events, &e)) {
        assert_int_equal(e.type, BW_EVENT_TEXT);
        assert_int_equal(bw_utf8_valid_prefix(e.text, e.text_bytes), e.text_bytes);
        assert_true(e.n_tokens > 0);
        bw_str_add_bytes(&c->text, e.text, e.text_bytes);
        for (size_t i = 0; i < e.n_tokens; i++) {
            assert_true((double)e.tokens[i].logprob == -(double)c->n_tokens);
            assert_int_equal(e.top[i].token, e.tokens[i].token);
            size_t n;
            const char *piece = bw_tokenizer_piece(t, e.tokens[i].token, &n);
            assert_int_equal(n, e.tokens[i].text_bytes);
            assert_memory_equal(piece, e.tokens[i].text, n);
            c->tokens[c->n_tokens++] = e.tokens[i].token;
        }
        c->n_events++;
        bw_detokenizer d;
        bw_str shown = {0};
        bw_detokenizer_init(&d, t, false);
        for (size_t i = 0; i < c->n_tokens; i++)
            assert_ok(bw_detokenizer_add(&d, c->tokens[i], &shown, &err), err);
        if (c->text.len < shown.len)
            assert_memory_equal(c->text.data, shown.data, c->text.len); /* cut at a stop string: the last event */
        else if (shown.len > 0)
            assert_memory_equal(c->text.data, shown.data, shown.len);
        bw_str_deinit(&shown);
    }
    bw_events_clear(events);
}

static void run(const bw_tokenizer *t, bw_rng *rng, bool whole_pieces)
{
    const char *stop[3];
    int32_t tokens[60];
    size_t n_stop = bw_rng_below(rng, 4), n = 1 + bw_rng_below(rng, 60);
    for (size_t i = 0; i < n_stop; i++)
        stop[i] = stop_pool[bw_rng_below(rng, N_POOL)];
    static const char letters[] = "abcdSTOP\nhe<";
    for (size_t i = 0; i < n; i++) {
        uint64_t kind = bw_rng_below(rng, 10);
        if (kind < 5 || whole_pieces)
            tokens[i] = FAKE_BYTE + letters[bw_rng_below(rng, sizeof letters - 1)];
        else if (kind < 9)
            tokens[i] = FAKE_PIECES + (int32_t)bw_rng_below(rng, 24);
        else
            tokens[i] = (int32_t)bw_rng_below(rng, FAKE_VOCAB);
    }
    bw_err err = {0};
    bw_str all = {0};
    size_t cut;
    assert_ok(bw_tokenizer_decode(t, tokens, n, false, &all, &err), err);
    const char *matched = naive_stop(all.data, all.len, stop, n_stop, &cut);
    bw_stream s;
    bw_events events = {0};
    collected c = {0};
    assert_ok(bw_stream_init(&s, t, stop, n_stop, 1, &err), err);
    size_t used = 0;
    while (used < n && !s.matched) {
        bw_sample sample = {.token = tokens[used], .logprob = -(float)used, .n_top = 1, .top = {{tokens[used], -1}}};
        used++;
        size_t before = c.text.len;
        assert_ok(bw_stream_add(&s, &sample, &events, &err), err);
        collect(&events, t, &c);
        if (n_stop == 0 && whole_pieces) /* nothing to wait for: at once */
            assert_int_equal(c.text.len, before + 1);
    }
    assert_ok(bw_stream_finish(&s, &events, &err), err);
    collect(&events, t, &c);
    assert_int_equal(c.text.len, cut);
    if (cut > 0)
        assert_memory_equal(c.text.data, all.data, cut);
    if (matched)
        assert_string_equal(s.matched->text, matched);
    else
        assert_null(s.matched);
    if (!matched)
        assert_int_equal(c.n_tokens, n);
    assert_true(c.n_tokens <= used);
    assert_memory_equal(c.tokens, tokens, c.n_tokens * sizeof *tokens);
    bw_stream_deinit(&s);
    bw_events_deinit(&events);
    bw_str_deinit(&c.text);
    bw_str_deinit(&all);
}

static void random_streams(void **state)
{
    (void)state;
    int64_t live = bw_mem_live();
    bw_tokenizer *t = fake_tokenizer_new(0);
    bw_rng rng;
    bw_rng_init(&rng, 77);
    for (int i = 0; i < 20000; i++)
        run(t, &rng, i % 2);
    bw_tokenizer_free(t);
    assert_int_equal(bw_mem_live(), live);
}

/* A hostile stop string: time per byte does not depend on its length. */
static void long_stop(void **state)
{
    (void)state;
    bw_tokenizer *t = fake_tokenizer_new(0);
    static char text[BW_STOP_BYTES_MAX + 2];
    memset(text, 'a', BW_STOP_BYTES_MAX);
    text[BW_STOP_BYTES_MAX - 1] = 'b';
    const char *stop[] = {text};
    bw_stream s;
    bw_events events = {0};
    bw_err err = {0};
    assert_ok(bw_stream_init(&s, t, stop, 1, 0, &err), err);
    for (int i = 0; i < 20000; i++) {
        bw_sample sample = {.token = FAKE_BYTE + 'a'};
        assert_ok(bw_stream_add(&s, &sample, &events, &err), err);
        bw_events_clear(&events);
    }
    assert_int_equal(s.text.len, BW_STOP_BYTES_MAX - 1);
    assert_int_equal(s.shown, 20000 - (BW_STOP_BYTES_MAX - 1));
    bw_stream_deinit(&s);
    text[BW_STOP_BYTES_MAX] = 'c';
    assert_int_equal(bw_stream_init(&s, t, stop, 1, 0, &err), BW_E_RANGE);
    bw_stream_deinit(&s);
    bw_events_deinit(&events);
    bw_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_streams),
        cmocka_unit_test(long_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
