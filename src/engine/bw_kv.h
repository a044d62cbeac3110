/* The numbers of KV pages: who holds them, which hold tokens that another sequence may reuse, which go first.
 *
 * Owns reference counts, the prefix index and the order of eviction; refuses to touch the memory behind a page number.
 * Not thread-safe: the engine's thread alone calls it.
 *
 * The prefix index. A registered page has a serial number, never used twice, and names the serial of the page before
 * it (0 at the start of a sequence). So (serial of the page before, own tokens) identifies everything up to the page's
 * end: the index hashes that pair, and a hit compares the pair itself. A page whose predecessor was evicted can no
 * longer be found and ages away. Pages that nobody holds stay until their place is needed, oldest first.
 */
#ifndef BW_KV_H
#define BW_KV_H

#include "bw_err.h"

enum {
    BW_KV_PAGE = 32, /* tokens of a page; equals BW_LM_PAGE_TOKENS */
    BW_KV_HEAD = 8   /* a page is worth copying for this many equal tokens at its start */
};

typedef struct bw_kv_page {
    int32_t refs;
    int32_t n_tokens; /* registered tokens, 0 = not in the index */
    uint64_t serial, parent;
    int32_t next_full, next_head; /* chains of the two tables, -1 = end */
    int32_t prev, next;           /* the free list (next only) or the list of unheld registered pages; -1 = end */
} bw_kv_page;

typedef struct bw_kv {
    int32_t n_pages, n_free, n_idle; /* free: hold nothing; idle: registered, unheld */
    bw_kv_page *pages;
    int32_t *tokens;      /* [n_pages, BW_KV_PAGE] of registered pages */
    int32_t *full, *head; /* tables [n_slots] of first page, -1 = none */
    uint32_t n_slots;     /* a power of two */
    int32_t free_list;
    int32_t oldest, newest; /* idle pages */
    uint64_t last_serial;
} bw_kv;

bw_status bw_kv_init(bw_kv *kv, int32_t n_pages, bw_err *err);
void bw_kv_deinit(bw_kv *kv);

/* Pages that can be handed out: free and idle ones. */
static inline int32_t bw_kv_available(const bw_kv *kv)
{
    return kv->n_free + kv->n_idle;
}
/* A page with one reference, -1 when all are held. Evicts the page that has been idle longest when none is free. */
int32_t bw_kv_alloc(bw_kv *kv);
/* Give up a reference. A registered page becomes the newest idle one, another becomes free. */
void bw_kv_unref(bw_kv *kv, int32_t page);

/* What the page holds is not to be trusted: nobody finds it any more. Its holders keep it. */
void bw_kv_forget(bw_kv *kv, int32_t page);

typedef struct bw_kv_match {
    int32_t n_pages;        /* whole pages found, each with a new reference */
    uint64_t serial;        /* of the last of them; 0 when none */
    int32_t partial;        /* a further page whose first tokens match, with a new reference; -1 = none */
    int32_t partial_tokens; /* how many of its tokens match */
} bw_kv_match;
/* The longest known beginning of tokens[0..n). pages [n / BW_KV_PAGE] receives the whole pages. */
bw_kv_match bw_kv_find(bw_kv *kv, const int32_t *tokens, int32_t n, int32_t *pages);

/* How many of the whole pages that bw_kv_find would return are held by a sequence already. */
int32_t bw_kv_count_held(const bw_kv *kv, const int32_t *tokens, int32_t n);

/* Page holds tokens[0..n) (1 <= n <= BW_KV_PAGE) behind the page with serial `parent`, and they will not change any
 * more. Returns the serial to name as the parent of the next page: this page's, or that of an equal page found. A
 * partly filled page is registered only when it is long enough and nothing equal is known. */
uint64_t bw_kv_register(bw_kv *kv, int32_t page, uint64_t parent, const int32_t *tokens, int32_t n);

#endif
