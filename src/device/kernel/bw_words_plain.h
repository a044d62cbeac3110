/* Words in plain C++: what the host's simulation runs, and the definition of each function (bw_words.h). */
#ifndef BW_WORDS_PLAIN_H
#define BW_WORDS_PLAIN_H

BW_DEVICE bw_16 bw_load16(const void *p)
{
    bw_16 v;
    __builtin_memcpy(&v, __builtin_assume_aligned(p, 16), sizeof v);
    return v;
}
BW_DEVICE bw_16 bw_load16_once(const void *p)
{
    return bw_load16(p);
}
BW_DEVICE uint32_t bw_load4_once(const void *p)
{
    return *(const uint32_t *)p;
}
BW_DEVICE void bw_store16(void *p, bw_16 v)
{
    __builtin_memcpy(__builtin_assume_aligned(p, 16), &v, sizeof v);
}
BW_DEVICE int bw_dot4(uint32_t a, uint32_t b, int c)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        c += (int)(int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    return c;
}
template <int S> BW_DEVICE uint32_t bw_bytes(uint32_t a, uint32_t b)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        r |= (uint32_t)(both >> 8 * (S >> 4 * i & 7) & 255) << 8 * i;
    return r;
}
BW_DEVICE uint32_t bw_table16(uint32_t q, bw_16 t)
{
    uint32_t r = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t at = q >> 8 * i & 15;
        uint32_t word = at < 8 ? (at < 4 ? t.w[0] : t.w[1]) : (at < 12 ? t.w[2] : t.w[3]);
        r |= (word >> 8 * (at & 3) & 255) << 8 * i;
    }
    return r;
}
BW_DEVICE float bw_f16_of_bits(uint16_t bits)
{
    bw_f16 h;
    __builtin_memcpy(&h, &bits, 2);
    return (float)h;
}
template <typename T> BW_DEVICE uint32_t bw_pair_put(float low, float high)
{
    T a = bw_put<T>(low), b = bw_put<T>(high);
    uint16_t x, y;
    __builtin_memcpy(&x, &a, 2);
    __builtin_memcpy(&y, &b, 2);
    return (uint32_t)y << 16 | x;
}
template <typename T> BW_DEVICE uint32_t bw_pair_add(uint32_t a, uint32_t b)
{
    return bw_pair_put<T>(bw_f16_of_bits((uint16_t)a) + bw_f16_of_bits((uint16_t)b),
                          bw_f16_of_bits((uint16_t)(a >> 16)) + bw_f16_of_bits((uint16_t)(b >> 16)));
}
template <typename T> BW_DEVICE uint32_t bw_pair_mul(uint32_t a, uint32_t b)
{
    return bw_pair_put<T>(bw_f16_of_bits((uint16_t)a) * bw_f16_of_bits((uint16_t)b),
                          bw_f16_of_bits((uint16_t)(a >> 16)) * bw_f16_of_bits((uint16_t)(b >> 16)));
}
template <typename T> BW_DEVICE uint32_t bw_pair_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return bw_pair_put<T>(bw_fma(bw_f16_of_bits((uint16_t)a), bw_f16_of_bits((uint16_t)b), bw_f16_of_bits((uint16_t)c)),
                          bw_fma(bw_f16_of_bits((uint16_t)(a >> 16)), bw_f16_of_bits((uint16_t)(b >> 16)),
                                 bw_f16_of_bits((uint16_t)(c >> 16))));
}
BW_DEVICE uint32_t bw_shuffle(uint32_t x, int lane, SIM_HERE)
{
    return sim_share(x, SIM_AT)[lane];
}

#include "bw_words_registers.h"

#endif
