/* Stores past the caches, for outputs that no cache would keep: a store into a line that is not there reads it from
 * memory first, which costs a third of the bandwidth of an elementwise call. Included after bw_vec.h or alone; without
 * AVX or SSE2 they are plain copies. */
#ifndef BW_STREAM_H
#define BW_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "bw_inline.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* Outputs from this size on. Smaller ones may still lie in a cache when the next call reads them. */
enum { BW_STREAM_BYTES = 32 << 20 };

/* How many of the next n elements bring dst to a line's start (or n); then whole blocks stay aligned. */
BW_INLINE int64_t bw_stream_head(const void *dst, int64_t size, int64_t n)
{
    int64_t head = (int64_t)(-(uintptr_t)dst % 64) / size;
    return head == 0 || head > n ? n : head;
}

/* Copy; src is in the first cache. Call bw_stream_end before another member may read dst. */
BW_INLINE void bw_stream_copy(void *dst, const void *src, size_t n_bytes)
{
#if defined(__SSE2__)
    char *d = dst;
    const char *s = src;
    size_t head = -(uintptr_t)d % 64, i = head < n_bytes ? head : n_bytes;
    memcpy(d, s, i);
#if defined(__AVX512F__)
    for (; i + 64 <= n_bytes; i += 64)
        _mm512_stream_si512((__m512i *)(void *)(d + i), _mm512_loadu_si512(s + i));
#elif defined(__AVX__)
    for (; i + 64 <= n_bytes; i += 64)
        for (size_t k = 0; k < 64; k += 32)
            _mm256_stream_si256((__m256i *)(void *)(d + i + k),
                                _mm256_loadu_si256((const __m256i *)(const void *)(s + i + k)));
#else
    for (; i + 64 <= n_bytes; i += 64)
        for (size_t k = 0; k < 64; k += 16)
            _mm_stream_si128((__m128i *)(void *)(d + i + k),
                             _mm_loadu_si128((const __m128i *)(const void *)(s + i + k)));
#endif
    memcpy(d + i, s + i, n_bytes - i);
#else
    memcpy(dst, src, n_bytes);
#endif
}

/* What was streamed becomes visible before what is stored after it. */
BW_INLINE void bw_stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif
