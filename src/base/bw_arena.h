/* Arena: many small allocations with one end, as for one request or one load. Not thread-safe. */
#ifndef BW_ARENA_H
#define BW_ARENA_H

#include <stddef.h>

typedef struct bw_arena {
    struct bw_arena_block *blocks; /* newest first */
    size_t total_bytes;            /* asked for so far */
    size_t limit_bytes;            /* 0 = none; beyond it allocations fail */
} bw_arena;

void bw_arena_init(bw_arena *arena, size_t limit_bytes);
void bw_arena_deinit(bw_arena *arena);
/* 16-byte aligned, uninitialised; NULL when there is no memory or the limit is reached. */
void *bw_arena_alloc(bw_arena *arena, size_t n_bytes);
/* n * size zeroed bytes, overflow checked. */
void *bw_arena_alloc_zero(bw_arena *arena, size_t n, size_t size);
/* A NUL-terminated copy. */
char *bw_arena_strndup(bw_arena *arena, const char *text, size_t n_bytes);

#endif
