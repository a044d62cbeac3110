/* Names to numbers in O(1). Owns no names. */
#include "name_index.h"

#include <string.h>

#include "bw_mem.h"
#include "bw_rng.h"

bool bw_name_index_init(bw_name_index *index, size_t n)
{
    *index = (bw_name_index){0};
    if (n > (size_t)1 << 31)
        return false;
    size_t n_slots = 8;
    while (n_slots < n * 2)
        n_slots *= 2;
    index->slots = bw_alloc_zero(n_slots, sizeof *index->slots);
    if (!index->slots)
        return false;
    index->n_slots = n_slots;
    bw_rng_entropy(&index->seed, sizeof index->seed);
    return true;
}

void bw_name_index_deinit(bw_name_index *index)
{
    bw_free(index->slots);
    *index = (bw_name_index){0};
}

static uint64_t hash(uint64_t seed, const char *name, size_t n_bytes)
{
    uint64_t h = seed;
    for (size_t i = 0; i < n_bytes; i++) {
        h = (h ^ (unsigned char)name[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h ^ h >> 32;
}

static size_t find_slot(const bw_name_index *index, const void *items, bw_name_of_fn *name_of, const char *name,
                        size_t n_bytes)
{
    size_t slot = (size_t)hash(index->seed, name, n_bytes) & (index->n_slots - 1);
    while (index->slots[slot] != 0) {
        bw_name other = name_of(items, index->slots[slot] - 1);
        if (other.n_bytes == n_bytes && (n_bytes == 0 || memcmp(other.data, name, n_bytes) == 0))
            break;
        slot = (slot + 1) & (index->n_slots - 1);
    }
    return slot;
}

size_t bw_name_index_find(const bw_name_index *index, const void *items, bw_name_of_fn *name_of, const char *name,
                          size_t n_bytes)
{
    if (index->n_slots == 0)
        return SIZE_MAX;
    uint32_t entry = index->slots[find_slot(index, items, name_of, name, n_bytes)];
    return entry ? entry - 1 : SIZE_MAX;
}

size_t bw_name_index_add(bw_name_index *index, const void *items, bw_name_of_fn *name_of, size_t i)
{
    bw_name name = name_of(items, i);
    size_t slot = find_slot(index, items, name_of, name.data, name.n_bytes);
    if (index->slots[slot] != 0)
        return index->slots[slot] - 1;
    index->slots[slot] = (uint32_t)i + 1;
    return SIZE_MAX;
}
