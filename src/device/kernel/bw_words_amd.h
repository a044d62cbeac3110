/* Words on AMD targets (bw_words.h). Instructions by target: AMD's ISA documents for Vega, CDNA 1 to 3, RDNA 1 to 4. */
#ifndef BW_WORDS_AMD_H
#define BW_WORDS_AMD_H

typedef uint32_t bw_vector4 __attribute__((ext_vector_type(4)));
typedef _Float16 bw_half2 __attribute__((ext_vector_type(2)));

BW_DEVICE bw_16 bw_load16(const void *p)
{
    bw_vector4 v = *(const bw_vector4 *)p;
    return bw_16{{v.x, v.y, v.z, v.w}};
}
BW_DEVICE bw_16 bw_load16_once(const void *p)
{
    bw_vector4 v = __builtin_nontemporal_load((const bw_vector4 *)p);
    return bw_16{{v.x, v.y, v.z, v.w}};
}
BW_DEVICE uint32_t bw_load4_once(const void *p)
{
    return __builtin_nontemporal_load((const uint32_t *)p);
}
BW_DEVICE void bw_store16(void *p, bw_16 v)
{
    *(bw_vector4 *)p = bw_vector4{v.w[0], v.w[1], v.w[2], v.w[3]};
}
BW_DEVICE int bw_dot4(uint32_t a, uint32_t b, int c)
{
#if defined(__GFX11__) || defined(__GFX12__)
    return __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, c, false);
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) ||                      \
    defined(__gfx1011__) || defined(__gfx1012__) || defined(__gfx1030__) || defined(__gfx1031__) ||                    \
    defined(__gfx1032__) || defined(__gfx1033__) || defined(__gfx1034__) || defined(__gfx1035__) ||                    \
    defined(__gfx1036__) || defined(__gfx10_3_generic__)
    return __builtin_amdgcn_sdot4((int)a, (int)b, c, false);
#else
#pragma unroll
    for (int i = 0; i < 4; i++)
        c += (int)(int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    __builtin_amdgcn_sched_barrier(0); /* else bytes of many words are taken apart first and fill the registers */
    return c;
#endif
}
/* v_perm_b32 takes its two sources as one number of 8 bytes with the first on top, and a byte for each choice. */
template <int S> BW_DEVICE uint32_t bw_bytes(uint32_t a, uint32_t b)
{
    constexpr uint32_t choice = (S & 7) | (S >> 4 & 7) << 8 | (S >> 8 & 7) << 16 | (uint32_t)(S >> 12 & 7) << 24;
    return __builtin_amdgcn_perm(b, a, choice);
}
BW_DEVICE uint32_t bw_table16(uint32_t q, bw_16 t)
{
    uint32_t at = q & 0x07070707u, upper = (q >> 3 & 0x01010101u) * 255;
    uint32_t low = __builtin_amdgcn_perm(t.w[1], t.w[0], at), high = __builtin_amdgcn_perm(t.w[3], t.w[2], at);
    return (low & ~upper) | (high & upper);
}
BW_DEVICE float bw_f16_of_bits(uint16_t bits)
{
    return (float)__builtin_bit_cast(_Float16, bits);
}
template <typename T> BW_DEVICE uint32_t bw_pair_put(float low, float high);
template <> BW_DEVICE_SPECIAL uint32_t bw_pair_put<bw_f16>(float low, float high)
{
    return __builtin_bit_cast(uint32_t, bw_half2{(_Float16)low, (_Float16)high});
}
template <> BW_DEVICE_SPECIAL uint32_t bw_pair_put<bw_bf16>(float low, float high)
{
    return (uint32_t)bw_put<bw_bf16>(high).bits << 16 | bw_put<bw_bf16>(low).bits;
}
template <typename T> BW_DEVICE uint32_t bw_pair_add(uint32_t a, uint32_t b)
{
    return __builtin_bit_cast(uint32_t, __builtin_bit_cast(bw_half2, a) + __builtin_bit_cast(bw_half2, b));
}
template <typename T> BW_DEVICE uint32_t bw_pair_mul(uint32_t a, uint32_t b)
{
    return __builtin_bit_cast(uint32_t, __builtin_bit_cast(bw_half2, a) * __builtin_bit_cast(bw_half2, b));
}
template <typename T> BW_DEVICE uint32_t bw_pair_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return __builtin_bit_cast(uint32_t, __builtin_elementwise_fma(__builtin_bit_cast(bw_half2, a),
                                                                  __builtin_bit_cast(bw_half2, b),
                                                                  __builtin_bit_cast(bw_half2, c)));
}
BW_DEVICE uint32_t bw_shuffle(uint32_t x, int lane)
{
    return (uint32_t)__builtin_amdgcn_ds_bpermute(lane << 2, (int)x);
}

#include "bw_words_registers.h"

#endif
