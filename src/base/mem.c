#include "bw_mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t n_asked, n_live, fail_at;

static bool must_fail(size_t n_bytes)
{
    int64_t asked = atomic_fetch_add_explicit(&n_asked, 1, memory_order_relaxed) + 1;
    int64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return (at != 0 && asked == at) || n_bytes > (size_t)PTRDIFF_MAX;
}

static void *counted(void *memory)
{
    if (memory)
        atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return memory;
}

void *bw_alloc(size_t n_bytes)
{
    if (must_fail(n_bytes))
        return NULL;
    return counted(malloc(n_bytes ? n_bytes : 1));
}

void *bw_alloc_zero(size_t n, size_t size)
{
    size_t bytes;
    if (!bw_mul_size(n, size, &bytes) || must_fail(bytes))
        return NULL;
    return counted(calloc(1, bytes ? bytes : 1));
}

void *bw_alloc_array(size_t n, size_t size)
{
    size_t bytes;
    if (!bw_mul_size(n, size, &bytes))
        return NULL;
    return bw_alloc(bytes);
}

void *bw_realloc_array(void *memory, size_t n, size_t size)
{
    size_t bytes;
    if (!bw_mul_size(n, size, &bytes) || must_fail(bytes))
        return NULL;
    void *grown = realloc(memory, bytes ? bytes : 1);
    if (grown && !memory)
        atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return grown;
}

void *bw_alloc_aligned(size_t n_bytes)
{
    size_t rounded;
    if (!bw_add_size(n_bytes, BW_ALIGN, &rounded) || must_fail(rounded))
        return NULL;
    return counted(aligned_alloc(BW_ALIGN, rounded / BW_ALIGN * BW_ALIGN));
}

char *bw_strndup(const char *text, size_t n_bytes)
{
    size_t bytes;
    if (!bw_add_size(n_bytes, 1, &bytes))
        return NULL;
    char *copy = bw_alloc(bytes);
    if (copy) {
        memcpy(copy, text, n_bytes);
        copy[n_bytes] = 0;
    }
    return copy;
}

char *bw_strdup(const char *text)
{
    return bw_strndup(text, strlen(text));
}

void bw_free(void *memory)
{
    if (memory) {
        atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
        free(memory);
    }
}

bool bw_reserve(void **items, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return true;
    size_t wanted = *capacity ? *capacity : 8;
    while (wanted < need)
        if (!bw_mul_size(wanted, 2, &wanted))
            return false;
    void *grown = bw_realloc_array(*items, wanted, size);
    if (!grown)
        return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

void bw_mem_fail_at(int64_t n)
{
    atomic_store(&fail_at, n ? atomic_load(&n_asked) + n : 0);
}

int64_t bw_mem_count(void)
{
    return atomic_load(&n_asked);
}

int64_t bw_mem_live(void)
{
    return atomic_load(&n_live);
}
