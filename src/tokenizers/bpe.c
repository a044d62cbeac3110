/* Byte-pair merging of one word (Sennrich et al., 2016): repeatedly the pair of lowest rank, leftmost first, in
 * O(n log n) by a heap over a linked list of symbols. */
#include <string.h>

#include "tok_internal.h"

uint32_t bw_tok_byte_to_char(unsigned char byte)
{
    /* Printable bytes stand for themselves, the other 68 for U+0100 and up, in order (GPT-2). */
    if ((byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE)
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte <= 0xA0)
        return 0x121u + (byte - 0x7Fu);
    return 0x143; /* 0xAD */
}

int bw_tok_char_to_byte(uint32_t cp)
{
    if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xFF && cp != 0xAD))
        return (int)cp;
    if (cp >= 0x100 && cp <= 0x120)
        return (int)(cp - 0x100);
    if (cp >= 0x121 && cp <= 0x142)
        return (int)(cp - 0x121 + 0x7F);
    return cp == 0x143 ? 0xAD : -1;
}

bw_status bw_tok_no_memory(bw_err *err)
{
    return bw_fail(err, BW_E_MEMORY, "no memory to encode a text");
}

static bw_status too_many(tok_encoder *e)
{
    return bw_fail(e->err, BW_E_RANGE, "the text has more than %zu tokens, and no more are allowed", e->max_ids);
}

bw_status bw_tok_check_count(tok_encoder *e)
{
    return e->n_ids > e->max_ids ? too_many(e) : BW_OK;
}

bw_status bw_tok_check_room(tok_encoder *e, const char *s, size_t n)
{
    if (n <= e->max_ids - e->n_ids) /* a token has a byte at least, but for unknown characters */
        return BW_OK;
    uint64_t shares = 0, most = ((uint64_t)(e->max_ids - e->n_ids) + 1) << 20;
    for (size_t i = 0; i < n && shares < most; i++)
        shares += e->t->share[(unsigned char)s[i]];
    return shares < most ? BW_OK : too_many(e);
}

bw_status bw_tok_emit(tok_encoder *e, int32_t id)
{
    if (e->n_ids >= e->max_ids)
        return too_many(e);
    if (!bw_reserve((void **)&e->ids, &e->ids_capacity, e->n_ids + 1, sizeof *e->ids))
        return bw_tok_no_memory(e->err);
    e->ids[e->n_ids++] = id;
    return BW_OK;
}

static void heap_push(tok_encoder *e, uint64_t order, int32_t id)
{
    size_t i = e->n_heap++;
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (e->heap[parent].order <= order)
            break;
        e->heap[i] = e->heap[parent];
        i = parent;
    }
    e->heap[i] = (tok_heap_entry){order, id};
}

static tok_heap_entry heap_pop(tok_encoder *e)
{
    tok_heap_entry top = e->heap[0], last = e->heap[--e->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= e->n_heap)
            break;
        if (child + 1 < e->n_heap && e->heap[child + 1].order < e->heap[child].order)
            child++;
        if (last.order <= e->heap[child].order)
            break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return top;
}

static void push_pair(tok_encoder *e, int32_t left, int32_t right)
{
    const tok_merge *m = bw_tok_merges_find(&e->t->merges, e->symbols[left].id, e->symbols[right].id);
    if (m)
        heap_push(e, (uint64_t)m->rank << 32 | (uint32_t)left, m->id);
}

/* Merge symbols[0..n); every merge removes one symbol and adds at most two heap entries, so the heap holds < 3n. */
static bw_status merge(tok_encoder *e, size_t n)
{
    e->n_heap = 0;
    if (!bw_reserve((void **)&e->heap, &e->heap_capacity, 3 * n, sizeof *e->heap))
        return bw_tok_no_memory(e->err);
    for (size_t i = 0; i + 1 < n; i++)
        push_pair(e, (int32_t)i, (int32_t)i + 1);
    tok_symbol *s = e->symbols;
    while (e->n_heap) {
        tok_heap_entry top = heap_pop(e);
        int32_t at = (int32_t)(uint32_t)top.order, right = s[at].next;
        if (s[at].id < 0 || right < 0)
            continue;
        const tok_merge *m = bw_tok_merges_find(&e->t->merges, s[at].id, s[right].id);
        if (!m || m->id != top.id) /* the pair has changed since it was pushed */
            continue;
        s[at].id = top.id;
        s[at].next = s[right].next;
        s[right].id = -1;
        if (s[at].next >= 0)
            s[s[at].next].prev = at;
        if (s[at].prev >= 0)
            push_pair(e, s[at].prev, at);
        if (s[at].next >= 0)
            push_pair(e, at, s[at].next);
    }
    for (int32_t i = 0; i >= 0; i = s[i].next)
        BW_TRY(bw_tok_emit(e, s[i].id));
    return BW_OK;
}

static void add_symbol(tok_encoder *e, size_t *n, int32_t id)
{
    e->symbols[*n] = (tok_symbol){.id = id, .prev = (int32_t)*n - 1, .next = (int32_t)*n + 1};
    ++*n;
}

/* The symbols of a word whose alphabet is characters: a character of the vocabulary, else its bytes' tokens, else the
 * unknown token. At most one symbol per byte. */
static size_t char_symbols(tok_encoder *e, const char *s, size_t n)
{
    const bw_tokenizer *t = e->t;
    size_t count = 0;
    bool unknown = false; /* an unknown token waits, to be fused with the next */
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = bw_utf8_decode(s + i, n - i, &cp);
        size_t step = len ? (size_t)len : 1;
        int32_t id = bw_tok_words_find(&t->words, t->spellings, s + i, step);
        if (id >= 0 && (t->flags[id] & TOKEN_MODEL)) {
            if (unknown)
                add_symbol(e, &count, t->unk);
            unknown = false;
            add_symbol(e, &count, id);
            i += step;
            continue;
        }
        bool bytes = t->byte_fallback;
        for (size_t k = 0; bytes && k < step; k++)
            bytes = t->byte_ids[(unsigned char)s[i + k]] >= 0;
        if (bytes) {
            for (size_t k = 0; k < step; k++)
                add_symbol(e, &count, t->byte_ids[(unsigned char)s[i + k]]);
        } else if (t->unk >= 0) {
            if (unknown && !t->fuse_unk)
                add_symbol(e, &count, t->unk);
            unknown = true;
        }
        i += step;
    }
    if (unknown)
        add_symbol(e, &count, t->unk);
    return count;
}

static size_t byte_symbols(tok_encoder *e, const char *s, size_t n)
{
    const bw_tokenizer *t = e->t;
    size_t count = 0;
    bool unknown = false;
    for (size_t i = 0; i < n; i++) {
        int32_t id = t->byte_ids[(unsigned char)s[i]];
        if (id < 0) {
            if (unknown && !t->fuse_unk)
                add_symbol(e, &count, t->unk);
            unknown = t->unk >= 0;
            continue;
        }
        if (unknown)
            add_symbol(e, &count, t->unk);
        unknown = false;
        add_symbol(e, &count, id);
    }
    if (unknown)
        add_symbol(e, &count, t->unk);
    return count;
}

/* A word that is in the vocabulary as it stands. */
static bw_status whole_word(tok_encoder *e, const char *s, size_t n, int32_t *id)
{
    const bw_tokenizer *t = e->t;
    if (t->byte_level) {
        bw_str_clear(&e->word);
        for (size_t i = 0; i < n; i++)
            bw_str_add_codepoint(&e->word, bw_tok_byte_to_char((unsigned char)s[i]));
        if (e->word.failed)
            return bw_tok_no_memory(e->err);
        s = e->word.data;
        n = e->word.len;
    }
    *id = bw_tok_words_find(&t->words, t->spellings, s, n);
    if (*id >= 0 && !(t->flags[*id] & TOKEN_MODEL))
        *id = -1;
    return BW_OK;
}

bw_status bw_tok_encode_word(tok_encoder *e, const char *s, size_t n)
{
    if (n == 0)
        return BW_OK;
    if (n >= INT32_MAX / 4)
        return bw_fail(e->err, BW_E_RANGE, "a text of %zu bytes is too long to encode; 512 MiB are the limit", n);
    if (e->t->ignore_merges) {
        int32_t id = -1;
        BW_TRY(whole_word(e, s, n, &id));
        if (id >= 0)
            return bw_tok_emit(e, id);
    }
    BW_TRY(bw_tok_check_room(e, s, n));
    if (!bw_reserve((void **)&e->symbols, &e->symbols_capacity, n + 1, sizeof *e->symbols))
        return bw_tok_no_memory(e->err);
    size_t count = e->t->byte_level ? byte_symbols(e, s, n) : char_symbols(e, s, n);
    if (count == 0)
        return BW_OK;
    e->symbols[count - 1].next = -1;
    if (count == 1)
        return bw_tok_emit(e, e->symbols[0].id);
    return merge(e, count);
}
