#include "bw_kv.h"

#include <string.h>

#include "bw_mem.h"

enum { MAX_LOOKS = 64 }; /* candidates looked at for a partial match */

bw_status bw_kv_init(bw_kv *kv, int32_t n_pages, bw_err *err)
{
    *kv = (bw_kv){.n_pages = n_pages, .n_free = n_pages, .oldest = -1, .newest = -1};
    kv->n_slots = 16;
    while (kv->n_slots < (uint32_t)n_pages * 2u)
        kv->n_slots *= 2;
    kv->pages = bw_alloc_zero((size_t)n_pages, sizeof *kv->pages);
    kv->tokens = bw_alloc_array((size_t)n_pages, BW_KV_PAGE * sizeof *kv->tokens);
    kv->full = bw_alloc_array(kv->n_slots, sizeof *kv->full);
    kv->head = bw_alloc_array(kv->n_slots, sizeof *kv->head);
    if (!kv->pages || !kv->tokens || !kv->full || !kv->head) {
        bw_kv_deinit(kv);
        return bw_fail_memory(err, (size_t)n_pages * (sizeof *kv->pages + BW_KV_PAGE * 4), "the index of KV pages");
    }
    memset(kv->full, 0xff, kv->n_slots * sizeof *kv->full);
    memset(kv->head, 0xff, kv->n_slots * sizeof *kv->head);
    for (int32_t i = 0; i < n_pages; i++)
        kv->pages[i].next = i + 1 < n_pages ? i + 1 : -1;
    kv->free_list = n_pages > 0 ? 0 : -1;
    return BW_OK;
}

void bw_kv_deinit(bw_kv *kv)
{
    bw_free(kv->pages);
    bw_free(kv->tokens);
    bw_free(kv->full);
    bw_free(kv->head);
    *kv = (bw_kv){0};
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    return h * 0xd6e8feb86659fd93u;
}

static int32_t *slot_of(const bw_kv *kv, int32_t *table, uint64_t parent, const int32_t *tokens, int32_t n)
{
    uint64_t h = mix(parent + 1);
    for (int32_t i = 0; i < n; i++)
        h = mix(h + (uint32_t)tokens[i]);
    return &table[(h ^ h >> 32) & (kv->n_slots - 1)];
}

static int32_t *page_tokens(const bw_kv *kv, int32_t page)
{
    return kv->tokens + (size_t)page * BW_KV_PAGE;
}

static void idle_remove(bw_kv *kv, int32_t page)
{
    bw_kv_page *p = &kv->pages[page];
    if (p->prev >= 0)
        kv->pages[p->prev].next = p->next;
    else
        kv->oldest = p->next;
    if (p->next >= 0)
        kv->pages[p->next].prev = p->prev;
    else
        kv->newest = p->prev;
    kv->n_idle--;
}

static void idle_append(bw_kv *kv, int32_t page)
{
    bw_kv_page *p = &kv->pages[page];
    p->prev = kv->newest;
    p->next = -1;
    if (kv->newest >= 0)
        kv->pages[kv->newest].next = page;
    else
        kv->oldest = page;
    kv->newest = page;
    kv->n_idle++;
}

static void unregister(bw_kv *kv, int32_t page)
{
    bw_kv_page *p = &kv->pages[page];
    const int32_t *tokens = page_tokens(kv, page);
    int32_t *at;
    if (p->n_tokens == BW_KV_PAGE) {
        at = slot_of(kv, kv->full, p->parent, tokens, BW_KV_PAGE);
        while (*at != page)
            at = &kv->pages[*at].next_full;
        *at = p->next_full;
    }
    at = slot_of(kv, kv->head, p->parent, tokens, BW_KV_HEAD);
    while (*at != page)
        at = &kv->pages[*at].next_head;
    *at = p->next_head;
    p->n_tokens = 0;
}

int32_t bw_kv_alloc(bw_kv *kv)
{
    int32_t page = kv->free_list;
    if (page >= 0) {
        kv->free_list = kv->pages[page].next;
        kv->n_free--;
    } else {
        page = kv->oldest;
        if (page < 0)
            return -1;
        idle_remove(kv, page);
        unregister(kv, page);
    }
    kv->pages[page].refs = 1;
    return page;
}

static void add_ref(bw_kv *kv, int32_t page)
{
    if (kv->pages[page].refs++ == 0)
        idle_remove(kv, page);
}

void bw_kv_unref(bw_kv *kv, int32_t page)
{
    bw_kv_page *p = &kv->pages[page];
    if (--p->refs > 0)
        return;
    if (p->n_tokens > 0) {
        idle_append(kv, page);
    } else {
        p->next = kv->free_list;
        kv->free_list = page;
        kv->n_free++;
    }
}

void bw_kv_forget(bw_kv *kv, int32_t page)
{
    if (kv->pages[page].n_tokens > 0)
        unregister(kv, page);
}

static int32_t find_full(const bw_kv *kv, uint64_t parent, const int32_t *tokens)
{
    int32_t page = *slot_of(kv, kv->full, parent, tokens, BW_KV_PAGE);
    while (page >= 0 && (kv->pages[page].parent != parent ||
                         memcmp(page_tokens(kv, page), tokens, BW_KV_PAGE * sizeof *tokens) != 0))
        page = kv->pages[page].next_full;
    return page;
}

/* The page behind `parent` that shares most tokens with tokens[0..n), n >= BW_KV_HEAD; -1 when none shares enough. */
static int32_t find_partial(const bw_kv *kv, uint64_t parent, const int32_t *tokens, int32_t n, int32_t *n_equal)
{
    int32_t best = -1;
    *n_equal = 0;
    int32_t page = *slot_of(kv, kv->head, parent, tokens, BW_KV_HEAD);
    for (int looks = 0; page >= 0 && looks < MAX_LOOKS; looks++, page = kv->pages[page].next_head) {
        const bw_kv_page *p = &kv->pages[page];
        const int32_t *own = page_tokens(kv, page);
        int32_t limit = p->n_tokens < n ? p->n_tokens : n, m = 0;
        if (p->parent != parent)
            continue;
        while (m < limit && own[m] == tokens[m])
            m++;
        if (m >= BW_KV_HEAD && m > *n_equal) {
            best = page;
            *n_equal = m;
        }
    }
    return best;
}

int32_t bw_kv_count_held(const bw_kv *kv, const int32_t *tokens, int32_t n)
{
    uint64_t serial = 0;
    int32_t count = 0;
    for (int32_t done = 0; n - done >= BW_KV_PAGE; done += BW_KV_PAGE) {
        int32_t page = find_full(kv, serial, tokens + done);
        if (page < 0)
            break;
        serial = kv->pages[page].serial;
        count += kv->pages[page].refs > 0;
    }
    return count;
}

bw_kv_match bw_kv_find(bw_kv *kv, const int32_t *tokens, int32_t n, int32_t *pages)
{
    bw_kv_match match = {.partial = -1};
    int32_t done = 0;
    while (n - done >= BW_KV_PAGE) {
        int32_t page = find_full(kv, match.serial, tokens + done);
        if (page < 0)
            break;
        add_ref(kv, page);
        pages[match.n_pages++] = page;
        match.serial = kv->pages[page].serial;
        done += BW_KV_PAGE;
    }
    if (n - done >= BW_KV_HEAD) {
        int32_t limit = n - done < BW_KV_PAGE ? n - done : BW_KV_PAGE;
        match.partial = find_partial(kv, match.serial, tokens + done, limit, &match.partial_tokens);
        if (match.partial >= 0)
            add_ref(kv, match.partial);
    }
    return match;
}

uint64_t bw_kv_register(bw_kv *kv, int32_t page, uint64_t parent, const int32_t *tokens, int32_t n)
{
    bw_kv_page *p = &kv->pages[page];
    if (p->n_tokens > 0)
        return p->serial;
    if (n == BW_KV_PAGE) {
        int32_t equal = find_full(kv, parent, tokens);
        if (equal >= 0)
            return kv->pages[equal].serial;
    } else {
        int32_t n_equal = 0;
        if (n < BW_KV_HEAD)
            return 0;
        find_partial(kv, parent, tokens, n, &n_equal);
        if (n_equal == n)
            return 0;
    }
    p->n_tokens = n;
    p->parent = parent;
    p->serial = ++kv->last_serial;
    memcpy(page_tokens(kv, page), tokens, (size_t)n * sizeof *tokens);
    if (n == BW_KV_PAGE) {
        int32_t *full = slot_of(kv, kv->full, parent, tokens, BW_KV_PAGE);
        p->next_full = *full;
        *full = page;
    }
    int32_t *head = slot_of(kv, kv->head, parent, tokens, BW_KV_HEAD);
    p->next_head = *head;
    *head = page;
    return p->serial;
}
