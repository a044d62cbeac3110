/* The three look-up tables of a tokenizer: spellings, merges, and the trie of added tokens. */
#include <string.h>

#include "tok_internal.h"

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

static uint64_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ n;
    for (; n >= 8; s += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, s, 8);
        h = mix(h ^ w);
    }
    uint64_t w = 0;
    for (size_t i = 0; i < n; i++)
        w |= (uint64_t)(unsigned char)s[i] << 8 * i;
    return mix(h ^ w);
}

/* A power of two with at least half of it free; 0 on overflow. */
static size_t table_size(size_t n)
{
    size_t size = 16;
    while (size < 2 * n) {
        if (size > SIZE_MAX / 4)
            return 0;
        size *= 2;
    }
    return size;
}

bool bw_tok_words_init(tok_words *words, size_t n_words)
{
    words->n_slots = table_size(n_words);
    words->slots = bw_alloc_zero(words->n_slots, sizeof *words->slots);
    return words->slots != NULL;
}

static size_t words_slot(const tok_words *words, const tok_text *spellings, const char *s, size_t n)
{
    size_t mask = words->n_slots - 1, i = hash_bytes(s, n) & mask;
    while (words->slots[i]) {
        const tok_text *at = &spellings[words->slots[i] - 1];
        if (at->n == n && memcmp(at->s, s, n) == 0)
            break;
        i = (i + 1) & mask;
    }
    return i;
}

void bw_tok_words_add(tok_words *words, const tok_text *spellings, int32_t id)
{
    words->slots[words_slot(words, spellings, spellings[id].s, spellings[id].n)] = (uint32_t)id + 1;
}

int32_t bw_tok_words_find(const tok_words *words, const tok_text *spellings, const char *s, size_t n)
{
    if (words->n_slots == 0)
        return -1;
    return (int32_t)words->slots[words_slot(words, spellings, s, n)] - 1;
}

bool bw_tok_merges_init(tok_merges *merges, size_t n)
{
    merges->n_slots = table_size(n);
    merges->slots = bw_alloc_array(merges->n_slots, sizeof *merges->slots);
    if (!merges->slots)
        return false;
    for (size_t i = 0; i < merges->n_slots; i++)
        merges->slots[i].id = -1;
    return true;
}

static size_t merges_slot(const tok_merges *merges, uint64_t pair)
{
    size_t mask = merges->n_slots - 1, i = mix(pair) & mask;
    while (merges->slots[i].id >= 0 && merges->slots[i].pair != pair)
        i = (i + 1) & mask;
    return i;
}

void bw_tok_merges_add(tok_merges *merges, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    tok_merge *slot = &merges->slots[merges_slot(merges, pair)];
    if (slot->id < 0)
        merges->n++;
    *slot = (tok_merge){.pair = pair, .rank = rank, .id = id};
}

const tok_merge *bw_tok_merges_find(const tok_merges *merges, int32_t left, int32_t right)
{
    if (merges->n_slots == 0)
        return NULL;
    const tok_merge *slot = &merges->slots[merges_slot(merges, (uint64_t)(uint32_t)left << 32 | (uint32_t)right)];
    return slot->id < 0 ? NULL : slot;
}

/* ---- trie ---- */

static size_t trie_slot(const tok_trie *trie, uint64_t key)
{
    size_t mask = trie->n_slots - 1, i = mix(key) & mask;
    while (trie->edges[i] && trie->edges[i] != key)
        i = (i + 1) & mask;
    return i;
}

static bool trie_grow(tok_trie *trie)
{
    if (trie->n_slots && trie->n_edges * 2 < trie->n_slots)
        return true;
    tok_trie bigger = *trie;
    bigger.n_slots = table_size(trie->n_edges + 1) * 2;
    bigger.edges = bw_alloc_zero(bigger.n_slots, sizeof *bigger.edges);
    bigger.targets = bw_alloc_zero(bigger.n_slots, sizeof *bigger.targets);
    if (!bigger.edges || !bigger.targets) {
        bw_free(bigger.edges);
        bw_free(bigger.targets);
        return false;
    }
    for (size_t i = 0; i < trie->n_slots; i++) {
        if (!trie->edges[i])
            continue;
        size_t slot = trie_slot(&bigger, trie->edges[i]);
        bigger.edges[slot] = trie->edges[i];
        bigger.targets[slot] = trie->targets[i];
    }
    bw_free(trie->edges);
    bw_free(trie->targets);
    *trie = bigger;
    return true;
}

static bool trie_node(tok_trie *trie, uint32_t *node)
{
    if (trie->n_nodes >= UINT32_MAX ||
        !bw_reserve((void **)&trie->ends, &trie->capacity, trie->n_nodes + 1, sizeof *trie->ends))
        return false;
    trie->ends[trie->n_nodes] = -1;
    *node = (uint32_t)trie->n_nodes++;
    return true;
}

bool bw_tok_trie_add(tok_trie *trie, const char *s, size_t n, int32_t index)
{
    uint32_t node = 0;
    if (trie->n_nodes == 0 && !trie_node(trie, &node))
        return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t key = ((uint64_t)node << 8 | (unsigned char)s[i]) + 1;
        if (!trie_grow(trie))
            return false;
        size_t slot = trie_slot(trie, key);
        if (!trie->edges[slot]) {
            uint32_t fresh;
            if (!trie_node(trie, &fresh))
                return false;
            trie->edges[slot] = key;
            trie->targets[slot] = fresh;
            trie->n_edges++;
        }
        node = trie->targets[slot];
    }
    if (n) {
        trie->starts[(unsigned char)s[0]] = true;
        if (trie->ends[node] < 0)
            trie->ends[node] = index;
    }
    return true;
}

int32_t bw_tok_trie_match(const tok_trie *trie, const char *s, size_t n, size_t *length)
{
    int32_t best = -1;
    if (n == 0 || !trie->starts[(unsigned char)s[0]])
        return -1;
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t key = ((uint64_t)node << 8 | (unsigned char)s[i]) + 1;
        size_t slot = trie_slot(trie, key);
        if (!trie->edges[slot])
            break;
        node = trie->targets[slot];
        if (trie->ends[node] >= 0) {
            best = trie->ends[node];
            *length = i + 1;
        }
    }
    return best;
}

void bw_tok_trie_deinit(tok_trie *trie)
{
    bw_free(trie->edges);
    bw_free(trie->targets);
    bw_free(trie->ends);
    *trie = (tok_trie){0};
}
