/* The prefix index against a shadow that remembers, for every page, all tokens up to its end. */
#include "../bw_test.h"

#include "bw_kv.h"
#include "bw_mem.h"
#include "bw_rng.h"

enum { PAGES = 24, LONGEST = 200, SEQUENCES = 6 };

typedef struct shadow {
    int32_t n, tokens[LONGEST]; /* everything up to this page's end */
} shadow;

static shadow shadows[PAGES];

typedef struct sequence {
    bool live;
    int32_t tokens[LONGEST], n, n_cached, pages[LONGEST / BW_KV_PAGE + 1], n_pages, n_registered;
    uint64_t serial;
} sequence;

static int32_t held(const bw_kv *kv)
{
    int32_t n = 0;
    for (int32_t i = 0; i < kv->n_pages; i++)
        n += kv->pages[i].refs > 0;
    return n;
}

static void begin(bw_kv *kv, sequence *s, bw_rng *rng)
{
    *s = (sequence){.live = true, .n = 1 + (int32_t)bw_rng_below(rng, LONGEST - 1)};
    for (int32_t i = 0; i < s->n; i++) /* few different beginnings, so that many match */
        s->tokens[i] = bw_rng_below(rng, 40) == 0 ? 1 : 0;
    bw_kv_match m = bw_kv_find(kv, s->tokens, s->n, s->pages);
    s->n_pages = s->n_registered = m.n_pages;
    s->serial = m.serial;
    s->n_cached = m.n_pages * BW_KV_PAGE;
    for (int32_t i = 0; i < m.n_pages; i++) {
        const shadow *p = &shadows[s->pages[i]];
        assert_true(p->n == (i + 1) * BW_KV_PAGE);
        assert_memory_equal(p->tokens, s->tokens, (size_t)p->n * sizeof *p->tokens);
    }
    if (m.partial < 0)
        return;
    int32_t page = bw_kv_alloc(kv), n = s->n_cached + m.partial_tokens;
    assert_true(m.partial_tokens >= BW_KV_HEAD && m.partial_tokens <= BW_KV_PAGE && n <= s->n);
    assert_memory_equal(shadows[m.partial].tokens, s->tokens, (size_t)n * sizeof *s->tokens);
    bw_kv_unref(kv, m.partial);
    if (page >= 0) {
        s->pages[s->n_pages++] = page;
        s->n_cached = n;
        shadows[page].n = n;
        memcpy(shadows[page].tokens, s->tokens, (size_t)n * sizeof *s->tokens);
    }
}

/* Compute some more; false when there are no pages. */
static bool grow(bw_kv *kv, sequence *s, int32_t n)
{
    for (; n > 0 && s->n_cached < s->n; n--) {
        if (s->n_cached % BW_KV_PAGE == 0 && s->n_cached / BW_KV_PAGE == s->n_pages) {
            int32_t page = bw_kv_alloc(kv);
            if (page < 0)
                return false;
            assert_int_equal(kv->pages[page].n_tokens, 0);
            s->pages[s->n_pages++] = page;
        }
        shadow *p = &shadows[s->pages[s->n_cached / BW_KV_PAGE]];
        s->n_cached++;
        p->n = s->n_cached;
        memcpy(p->tokens, s->tokens, (size_t)p->n * sizeof *p->tokens);
        if (s->n_cached % BW_KV_PAGE == 0) {
            s->serial = bw_kv_register(kv, s->pages[s->n_registered], s->serial, s->tokens + s->n_cached - BW_KV_PAGE,
                                       BW_KV_PAGE);
            s->n_registered++;
        }
    }
    return true;
}

static void end(bw_kv *kv, sequence *s)
{
    int32_t rest = s->n_cached % BW_KV_PAGE;
    if (rest > 0 && s->n_registered == s->n_cached / BW_KV_PAGE)
        bw_kv_register(kv, s->pages[s->n_registered], s->serial, s->tokens + s->n_cached - rest, rest);
    while (s->n_pages > 0)
        bw_kv_unref(kv, s->pages[--s->n_pages]);
    s->live = false;
}

static void random_use(void **state)
{
    (void)state;
    bw_kv kv;
    bw_err err = {0};
    bw_rng rng;
    static sequence sequences[SEQUENCES];
    int64_t hits = 0, full = 0;
    assert_ok(bw_kv_init(&kv, PAGES, &err), err);
    bw_rng_init(&rng, 1);
    for (int step = 0; step < 60000; step++) {
        sequence *s = &sequences[bw_rng_below(&rng, SEQUENCES)];
        if (!s->live) {
            begin(&kv, s, &rng);
            hits += s->n_cached > 0;
        } else if (bw_rng_below(&rng, 12) == 0) {
            end(&kv, s);
        } else if (!grow(&kv, s, 1 + (int32_t)bw_rng_below(&rng, 40))) {
            full++;
            end(&kv, s);
        }
        assert_int_equal(held(&kv) + bw_kv_available(&kv), PAGES);
    }
    assert_true(hits > 1000);
    assert_true(full > 50);
    for (int i = 0; i < SEQUENCES; i++)
        if (sequences[i].live)
            end(&kv, &sequences[i]);
    assert_int_equal(bw_kv_available(&kv), PAGES);
    bw_kv_deinit(&kv);
}

static void oldest_goes_first(void **state)
{
    (void)state;
    bw_kv kv;
    bw_err err = {0};
    int32_t a[64], b[64], pages[4];
    for (int i = 0; i < 64; i++) {
        a[i] = 1;
        b[i] = 2;
    }
    assert_ok(bw_kv_init(&kv, 4, &err), err);
    int32_t p[4];
    uint64_t serial = 0;
    for (int i = 0; i < 4; i++) {
        p[i] = bw_kv_alloc(&kv);
        assert_true(p[i] >= 0);
        serial = bw_kv_register(&kv, p[i], i == 2 ? 0 : serial, i < 2 ? a : b, BW_KV_PAGE);
    }
    assert_int_equal(bw_kv_alloc(&kv), -1);
    bw_kv_unref(&kv, p[3]);
    bw_kv_unref(&kv, p[2]);
    assert_int_equal(bw_kv_count_held(&kv, a, 64), 2);
    assert_int_equal(bw_kv_count_held(&kv, b, 64), 0);
    bw_kv_unref(&kv, p[1]);
    bw_kv_unref(&kv, p[0]);
    assert_int_equal(bw_kv_available(&kv), 4);
    bw_kv_match m = bw_kv_find(&kv, b, 64, pages); /* b is used again: a is now the oldest, its second page first */
    assert_int_equal(m.n_pages, 2);
    assert_int_equal(bw_kv_alloc(&kv), p[1]);
    m = bw_kv_find(&kv, a, 64, pages);
    assert_int_equal(m.n_pages, 1);
    assert_int_equal(pages[0], p[0]);
    assert_int_equal(bw_kv_alloc(&kv), -1);
    bw_kv_deinit(&kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_use),
        cmocka_unit_test(oldest_goes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
