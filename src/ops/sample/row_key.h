/* Logits as unsigned integers in their order (bw_sample.h), from 1 on. */
#ifndef BW_ROW_KEY_H
#define BW_ROW_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bw_row_bits(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static inline uint32_t bw_row_key(float x)
{
    uint32_t b = bw_row_bits(x);
    b = b == 0x80000000u ? 0 : b;
    b ^= b >> 31 ? 0xffffffffu : 0x80000000u;
    return b ? b : 1;
}
static inline bool bw_row_is_finite(float x)
{
    return (bw_row_bits(x) & 0x7f800000u) != 0x7f800000u;
}
/* A number that lets no token be drawn from its row (ROW_SAMPLE): NaN or +infinity. */
static inline bool bw_row_is_undrawable(float x)
{
    return !bw_row_is_finite(x) && bw_row_bits(x) != 0xff800000u;
}

#endif
