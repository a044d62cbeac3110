#include "bw_arena.h"

#include <stdint.h>
#include <string.h>

#include "bw_mem.h"

struct bw_arena_block {
    struct bw_arena_block *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
};

void bw_arena_init(bw_arena *arena, size_t limit_bytes)
{
    *arena = (bw_arena){.limit_bytes = limit_bytes};
}

void bw_arena_deinit(bw_arena *arena)
{
    struct bw_arena_block *block = arena->blocks;
    while (block) {
        struct bw_arena_block *next = block->next;
        bw_free(block);
        block = next;
    }
    arena->blocks = NULL;
    arena->total_bytes = 0;
}

void *bw_arena_alloc(bw_arena *arena, size_t n_bytes)
{
    if (n_bytes > (size_t)PTRDIFF_MAX / 2)
        return NULL;
    n_bytes = (n_bytes + 15) & ~(size_t)15;
    if (arena->limit_bytes && n_bytes > arena->limit_bytes - arena->total_bytes)
        return NULL;
    struct bw_arena_block *block = arena->blocks;
    if (!block || block->size - block->used < n_bytes) {
        size_t size = block ? block->size * 2 : 2048;
        if (size > (size_t)1 << 20)
            size = (size_t)1 << 20;
        if (size < n_bytes)
            size = n_bytes;
        block = bw_alloc(sizeof *block + size);
        if (!block)
            return NULL;
        block->size = size;
        block->used = 0;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *memory = block->data + block->used;
    block->used += n_bytes;
    arena->total_bytes += n_bytes;
    return memory;
}

void *bw_arena_alloc_zero(bw_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    if (!bw_mul_size(n, size, &bytes))
        return NULL;
    void *memory = bw_arena_alloc(arena, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

char *bw_arena_strndup(bw_arena *arena, const char *text, size_t n_bytes)
{
    if (n_bytes == SIZE_MAX)
        return NULL;
    char *copy = bw_arena_alloc(arena, n_bytes + 1);
    if (copy) {
        memcpy(copy, text, n_bytes);
        copy[n_bytes] = 0;
    }
    return copy;
}
