/* Heap memory. Every allocation of this project goes through here, so that tests can make the n-th one fail and count
 * what was not given back. Refuses sizes above PTRDIFF_MAX; never aborts. */
#ifndef BW_MEM_H
#define BW_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "beeswax.h"

#define BW_ALIGN 64 /* bytes: a cache line, and the widest vector */

/* NULL when there is no memory; n_bytes 0 gives a valid pointer. Uninitialised. */
void *bw_alloc(size_t n_bytes);
/* n * size zeroed bytes, overflow checked. */
void *bw_alloc_zero(size_t n, size_t size);
/* n * size bytes, overflow checked, uninitialised. */
void *bw_alloc_array(size_t n, size_t size);
/* Grow or shrink; on failure NULL, and the old block stays. */
void *bw_realloc_array(void *memory, size_t n, size_t size);
/* BW_ALIGN-aligned; freed with bw_free like every other. */
void *bw_alloc_aligned(size_t n_bytes);
/* Copies; NULL when there is no memory. */
char *bw_strdup(const char *text);
char *bw_strndup(const char *text, size_t n_bytes);
/* bw_free is declared in beeswax.h. */

/* Make sure *items (element size `size`) has room for `need` elements; doubles. false when there is no memory. */
bool bw_reserve(void **items, size_t *capacity, size_t need, size_t size);

/* Tests: allocation number n from now fails (1 = the next), once; 0 = never. All threads count together. */
void bw_mem_fail_at(int64_t n);
/* Allocations asked for since the program began, and blocks not yet freed. */
int64_t bw_mem_count(void);
int64_t bw_mem_live(void);

/* a + b and a * b with overflow: false, and *out is not written. */
static inline bool bw_add_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}
static inline bool bw_mul_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}
static inline bool bw_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}
static inline bool bw_add_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

#endif
