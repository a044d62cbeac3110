/* In place of the compiler's: the AVX-512 and AMX intrinsics that src/ops/matmul/matmul_amx.c uses, in plain C, so that
 * its tests run on every processor. Meanings: Intel SDM volume 2 and, for tiles, Intel Architecture Instruction Set
 * Extensions Programming Reference, chapter 3 (TDPBF16PS takes subnormal values and results for 0 and sums even and odd
 * elements apart). Aborts where the processor would fault: a misaligned address, tiles that were not configured or do
 * not fit. */
#ifndef BW_EMULATED_IMMINTRIN_H
#define BW_EMULATED_IMMINTRIN_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EMULATED static inline __attribute__((unused))

typedef union __attribute__((aligned(64))) emulated_512 {
    uint16_t h[32];
    uint32_t w[16];
    uint64_t q[8];
    float f[16];
} __m512i;
typedef __m512i __m512;
typedef uint16_t __mmask16;
typedef uint32_t __mmask32;

/* ---- AVX-512 ---------------------------------------------------------------------------------------------------- */

EMULATED __m512i _mm512_castps_si512(__m512 a)
{
    return a;
}

EMULATED __m512 _mm512_castsi512_ps(__m512i a)
{
    return a;
}

EMULATED __m512i _mm512_setzero_si512(void)
{
    return (__m512i){.w = {0}};
}

EMULATED __m512i _mm512_loadu_si512(const void *p)
{
    __m512i r;
    memcpy(&r, p, sizeof r);
    return r;
}

EMULATED __m512 _mm512_load_ps(const void *p)
{
    if ((uintptr_t)p % 64)
        abort();
    return _mm512_loadu_si512(p);
}

EMULATED void _mm512_storeu_ps(void *p, __m512 a)
{
    memcpy(p, &a, sizeof a);
}

EMULATED void _mm512_store_si512(void *p, __m512i a)
{
    if ((uintptr_t)p % 64)
        abort();
    memcpy(p, &a, sizeof a);
}

/* Only the elements of the mask are read or written: the others may lie outside of all memory. */
EMULATED __m512i _mm512_maskz_loadu_epi16(__mmask32 mask, const void *p)
{
    __m512i r = _mm512_setzero_si512();
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1)
            memcpy(&r.h[i], (const char *)p + 2 * i, 2);
    return r;
}

EMULATED void _mm512_mask_storeu_epi16(void *p, __mmask32 mask, __m512i a)
{
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1)
            memcpy((char *)p + 2 * i, &a.h[i], 2);
}

EMULATED void _mm512_mask_storeu_ps(void *p, __mmask16 mask, __m512 a)
{
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy((char *)p + 4 * i, &a.w[i], 4);
}

/* In each quarter of 128 bits: the lower or upper elements of a and b in turn. */
#define UNPACK(name, member, quarter, begin)                                                                           \
    EMULATED __m512i name(__m512i a, __m512i b)                                                                        \
    {                                                                                                                  \
        __m512i r;                                                                                                     \
        for (int i = 0; i < 4 * (quarter); i += quarter)                                                               \
            for (int k = 0; k < (quarter) / 2; k++) {                                                                  \
                r.member[i + 2 * k] = a.member[i + k + (begin)];                                                       \
                r.member[i + 2 * k + 1] = b.member[i + k + (begin)];                                                   \
            }                                                                                                          \
        return r;                                                                                                      \
    }
UNPACK(_mm512_unpacklo_epi16, h, 8, 0)
UNPACK(_mm512_unpackhi_epi16, h, 8, 4)
UNPACK(_mm512_unpacklo_epi32, w, 4, 0)
UNPACK(_mm512_unpackhi_epi32, w, 4, 2)
UNPACK(_mm512_unpacklo_epi64, q, 2, 0)
UNPACK(_mm512_unpackhi_epi64, q, 2, 1)
#undef UNPACK

EMULATED __m512i _mm512_shuffle_i32x4(__m512i a, __m512i b, int which)
{
    __m512i r;
    for (int i = 0; i < 4; i++)
        memcpy(&r.w[4 * i], &(i < 2 ? &a : &b)->w[4 * (which >> 2 * i & 3)], 16);
    return r;
}

EMULATED __m512i _mm512_setr_epi64(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g,
                                   int64_t h)
{
    const int64_t all[] = {a, b, c, d, e, f, g, h};
    return _mm512_loadu_si512(all);
}

EMULATED __m512i _mm512_permutex2var_epi64(__m512i a, __m512i index, __m512i b)
{
    __m512i r;
    for (int i = 0; i < 8; i++)
        r.q[i] = (index.q[i] & 8 ? &b : &a)->q[index.q[i] & 7];
    return r;
}

EMULATED __m512i _mm512_srli_epi32(__m512i a, int n)
{
    for (int i = 0; i < 16; i++)
        a.w[i] >>= n;
    return a;
}

/* i32 to u16, saturated, quarter by quarter. */
EMULATED __m512i _mm512_packus_epi32(__m512i a, __m512i b)
{
    __m512i r;
    for (int i = 0; i < 32; i++) {
        int32_t v = (int32_t)(i % 8 < 4 ? &a : &b)->w[i / 8 * 4 + i % 4];
        r.h[i] = (uint16_t)(v < 0 ? 0 : v > 65535 ? 65535 : v);
    }
    return r;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------ */

typedef struct emulated_tiles {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config;
    union {
        uint16_t h[16][32];
        float f[16][16];
    } tile[8];
} emulated_tiles;
static __thread emulated_tiles tiles;

EMULATED void _tile_loadconfig(const void *p)
{
    memset(&tiles, 0, sizeof tiles);
    memcpy(&tiles.config, p, sizeof tiles.config);
}

EMULATED void _tile_release(void)
{
    memset(&tiles, 0, sizeof tiles);
}

EMULATED void emulated_check(bool is_good)
{
    if (tiles.config.palette != 1 || !is_good)
        abort();
}

EMULATED void _tile_zero(int t)
{
    emulated_check(true);
    memset(&tiles.tile[t], 0, sizeof tiles.tile[t]);
}

EMULATED void _tile_loadd(int t, const void *p, size_t stride)
{
    _tile_zero(t);
    for (size_t r = 0; r < tiles.config.rows[t]; r++)
        memcpy(tiles.tile[t].h[r], (const char *)p + r * stride, tiles.config.row_bytes[t]);
}

EMULATED void _tile_stored(int t, void *p, size_t stride)
{
    emulated_check(true);
    for (size_t r = 0; r < tiles.config.rows[t]; r++)
        memcpy((char *)p + r * stride, tiles.tile[t].h[r], tiles.config.row_bytes[t]);
}

EMULATED float emulated_flush(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}

EMULATED float emulated_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return emulated_flush(f);
}

/* sums [rows][columns] += a [rows][k pairs] times b [k pairs][columns pairs] */
EMULATED void _tile_dpbf16ps(int d, int a, int b)
{
    const uint16_t *row_bytes = tiles.config.row_bytes;
    const uint8_t *rows = tiles.config.rows;
    emulated_check(row_bytes[a] / 4 == rows[b] && rows[d] == rows[a] && row_bytes[d] == row_bytes[b]);
    for (int m = 0; m < rows[d]; m++)
        for (int n = 0; n < row_bytes[d] / 4; n++) {
            float sums[2] = {0, 0}, *sum = &tiles.tile[d].f[m][n];
            for (int k = 0; k < 2 * rows[b]; k++)
                sums[k % 2] = emulated_flush(fmaf(emulated_bf16(tiles.tile[a].h[m][k]),
                                                  emulated_bf16(tiles.tile[b].h[k / 2][2 * n + k % 2]), sums[k % 2]));
            *sum = emulated_flush(emulated_flush(*sum) + emulated_flush(sums[0] + sums[1]));
        }
}

#endif
