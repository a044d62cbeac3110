/* Packing and decoding of the planes that GPUs read. Owns their order; refuses to know kernels. */
#include "linear_planes.h"

#include <string.h>

#include "linear_layout.h"

enum scale_kind { SCALE_D, SCALE_DM, SCALE_E8, SCALE_K4, SCALE_K2, SCALE_K6, SCALE_XS };

/* Bytes per 32 elements of quants and high bits, per block of sub-scales and scales. */
struct type {
    uint8_t low, high, sub, d;
    enum scale_kind scale;
    int8_t zero;
    const int8_t *table;
};

static const int8_t iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}; /* twice the values */

static const struct type types[BW_DTYPE_COUNT] = {
    [BW_Q4_0] = {16, 0, 0, 2, SCALE_D, 8, NULL},    [BW_Q4_1] = {16, 0, 0, 4, SCALE_DM, 0, NULL},
    [BW_Q5_0] = {16, 4, 0, 2, SCALE_D, 16, NULL},   [BW_Q5_1] = {16, 4, 0, 4, SCALE_DM, 0, NULL},
    [BW_Q8_0] = {32, 0, 0, 2, SCALE_D, 0, NULL},    [BW_IQ4_NL] = {16, 0, 0, 2, SCALE_D, 0, iq4},
    [BW_MXFP4] = {16, 0, 0, 1, SCALE_E8, 0, e2m1},  [BW_Q4_K] = {16, 0, 16, 0, SCALE_K4, 0, NULL},
    [BW_Q5_K] = {16, 4, 16, 0, SCALE_K4, 0, NULL},  [BW_IQ4_XS] = {16, 0, 8, 2, SCALE_XS, 0, iq4},
    [BW_Q2_K] = {8, 0, 16, 4, SCALE_K2, 0, NULL},   [BW_Q3_K] = {8, 4, 16, 2, SCALE_K6, 4, NULL},
    [BW_Q6_K] = {16, 8, 16, 2, SCALE_K6, 32, NULL},
};

static int64_t aligned(int64_t n)
{
    return (n + 15) / 16 * 16;
}

bool bw_planes_init(bw_planes *planes, bw_dtype dtype, int64_t k)
{
    const struct type *t = (int)dtype >= 0 && dtype < BW_DTYPE_COUNT ? &types[dtype] : NULL;
    int64_t block = t && t->low ? bw_dtype_block_elements(dtype) : 0;
    if (!block || k < 1 || k > INT32_MAX || k % block)
        return false;
    int64_t high = aligned(k / 32 * t->low), sub = high + aligned(k / 32 * t->high);
    int64_t d = sub + aligned(k / block * t->sub);
    *planes = (bw_planes){(uint32_t)high, (uint32_t)sub, (uint32_t)d, d + aligned(k / block * t->d)};
    return true;
}

/* ---- packing ---------------------------------------------------------------------------------------------------- */

static uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static void store32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, 4);
}

/* 32 bytes of which each has an element of one sub-block in its low and of another in its high nibble. */
static void split_nibbles(const uint8_t *restrict q, uint8_t *restrict low, uint8_t *restrict high)
{
    for (int j = 0; j < 16; j++) {
        low[j] = (uint8_t)((q[j] & 15) | q[j + 16] << 4);
        high[j] = (uint8_t)(q[j] >> 4 | (q[j + 16] & 0xf0));
    }
}

/* 32 bytes of which each has one element, two bits, of four sub-blocks: eight bytes for each of these. */
static void split_pairs(const uint8_t *q, uint8_t *dst)
{
    for (int half = 0; half < 2; half++)
        for (int part = 0; part < 4; part++) {
            uint32_t v = 0;
            for (int i = 0; i < 4; i++)
                v |= (load32(q + 16 * half + 4 * i) >> 2 * part & 0x03030303u) << 2 * i;
            store32(dst + 8 * part + 4 * half, v);
        }
}

/* 32 bytes of which each has one element, one bit, of eight sub-blocks: a word for each of these. */
static void split_bits(const uint8_t *q, uint8_t *dst)
{
    for (int part = 0; part < 8; part++) {
        uint32_t v = 0;
        for (int i = 0; i < 8; i++)
            v |= (load32(q + 4 * i) >> part & 0x01010101u) << i;
        store32(dst + 4 * part, v);
    }
}

/* The head of a block of q4_k or q5_k: d and dmin, then six-bit scales and minimums (bytes 0..3 and 4..7 have 0..3 in
 * their low bits; 8..11 the low nibbles of 4..7, whose upper bits stand on top of the others). */
static void pack_k4(const uint8_t *b, uint8_t *dst)
{
    const uint8_t *p = b + 4;
    uint32_t high = 0;
    memcpy(dst, b, 4);
    for (int i = 0; i < 8; i++) {
        int scale = i < 4 ? p[i] & 63 : (p[4 + i] & 15) | p[i - 4] >> 6 << 4;
        int minimum = i < 4 ? p[4 + i] & 63 : p[4 + i] >> 4 | p[i] >> 6 << 4;
        high |= (uint32_t)(scale >> 4 | minimum >> 4 << 2) << 4 * i;
        dst[8 + i] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
    }
    store32(dst + 4, high);
}

static void pack_k45(const uint8_t *b, bool is_5, uint8_t *low, uint8_t *high, uint8_t *sub)
{
    const uint8_t *q = b + (is_5 ? 48 : 16);
    for (int c = 0; c < 4; c++)
        split_nibbles(q + 32 * c, low + 32 * c, low + 32 * c + 16);
    if (is_5)
        split_bits(b + 16, high);
    pack_k4(b, sub);
}

static void pack_q6_k(const uint8_t *b, uint8_t *low, uint8_t *high, uint8_t *sub, uint8_t *d)
{
    for (int half = 0; half < 2; half++) {
        split_nibbles(b + 64 * half, low + 64 * half, low + 64 * half + 32);
        split_nibbles(b + 64 * half + 32, low + 64 * half + 16, low + 64 * half + 48);
        split_pairs(b + 128 + 32 * half, high + 32 * half);
    }
    memcpy(sub, b + 192, 16);
    memcpy(d, b + 208, 2);
}

static void pack_q3_k(const uint8_t *b, uint8_t *low, uint8_t *high, uint8_t *sub, uint8_t *d)
{
    split_pairs(b + 32, low);
    split_pairs(b + 64, low + 32);
    split_bits(b, high);
    for (int j = 0; j < 16; j++)
        sub[j] = (uint8_t)(((b[96 + j % 8] >> j / 8 * 4 & 15) | (b[104 + j % 4] >> j / 4 * 2 & 3) << 4) - 32);
    memcpy(d, b + 108, 2);
}

static void pack_iq4_xs(const uint8_t *b, uint8_t *low, uint8_t *sub, uint8_t *d)
{
    memcpy(low, b + 8, 128);
    int high = b[2] | b[3] << 8;
    for (int g = 0; g < 8; g++)
        sub[g] = (uint8_t)(((b[4 + g / 2] >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4) - 32);
    memcpy(d, b, 2);
}

/* Byte i of the result holds, as bit j, bit 4j + i of v. */
static uint32_t transpose_bits(uint32_t v)
{
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t x = v >> i & 0x11111111u;
        x = (x | x >> 3) & 0x03030303u;
        x = (x | x >> 6) & 0x000f000fu;
        x = (x | x >> 12) & 0xffu;
        r |= x << 8 * i;
    }
    return r;
}

/* A block of a type with blocks of 32, whose quants and scales stand in the block in the order d, high, quants. */
static void pack_32(const struct type *t, const uint8_t *b, uint8_t *low, uint8_t *high, uint8_t *d)
{
    memcpy(d, b, t->d);
    b += t->d;
    if (t->high) {
        store32(high, transpose_bits(load32(b)));
        b += 4;
    }
    memcpy(low, b, 16);
}

void bw_planes_pack_row(const bw_planes *planes, bw_dtype dtype, int64_t k, const uint8_t *src, uint8_t *dst)
{
    const struct type *t = &types[dtype];
    int64_t elements = bw_dtype_block_elements(dtype), n_blocks = k / elements, each = elements / 32;
    int64_t block_bytes = bw_dtype_block_bytes(dtype);
    uint8_t *low = dst, *high = dst + planes->high, *sub = dst + planes->sub, *d = dst + planes->d;
    for (int64_t i = 0; i < n_blocks; i++, src += block_bytes) {
        switch (dtype) {
        case BW_Q8_0:
            memcpy(low, src + 2, 16);
            memcpy(low + k / 2, src + 18, 16);
            memcpy(d, src, 2);
            low -= 16;
            break;
        case BW_Q4_K:
        case BW_Q5_K:
            pack_k45(src, dtype == BW_Q5_K, low, high, sub);
            break;
        case BW_Q6_K:
            pack_q6_k(src, low, high, sub, d);
            break;
        case BW_Q2_K:
            split_pairs(src + 16, low);
            split_pairs(src + 48, low + 32);
            memcpy(sub, src, 16);
            memcpy(d, src + 80, 4);
            break;
        case BW_Q3_K:
            pack_q3_k(src, low, high, sub, d);
            break;
        case BW_IQ4_XS:
            pack_iq4_xs(src, low, sub, d);
            break;
        default:
            pack_32(t, src, low, high, d);
        }
        low += each * t->low;
        high += each * t->high;
        sub += t->sub;
        d += t->d;
    }
    /* What lies between and behind the planes is never read; zeros keep files and uploads the same from run to run. */
    low = dst + (t->low * (k / 32));
    memset(low, 0, (size_t)(dst + planes->high - low));
    memset(high, 0, (size_t)(dst + planes->sub - high));
    memset(sub, 0, (size_t)(dst + planes->d - sub));
    memset(d, 0, (size_t)(dst + planes->row_bytes - d));
}

/* ---- decoding --------------------------------------------------------------------------------------------------- */

static float f16_at(const uint8_t *p)
{
    return bw_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* Two bits of element e from two words per 32. */
static int pair_of(const uint8_t *p, int e)
{
    return p[e / 16 * 4 + e % 4] >> e % 16 / 4 * 2 & 3;
}

/* Element e (0..31) of 32-block b, as stored. */
static int quant(const struct type *t, const uint8_t *row, const bw_planes *planes, int64_t k, int64_t b, int e)
{
    int q;
    if (t->low == 32)
        return (int8_t)row[e / 16 * (k / 2) + b * 16 + e % 16];
    if (t->low == 16)
        q = row[b * 16 + e % 16] >> e / 16 * 4 & 15;
    else
        q = pair_of(row + b * 8, e);
    const uint8_t *high = row + planes->high + b * t->high;
    if (t->high == 4)
        q |= (high[e % 4] >> e / 4 & 1) << (t->low == 16 ? 4 : 2);
    else if (t->high == 8)
        q |= pair_of(high, e) << 4;
    return t->table ? t->table[q] : q - t->zero;
}

/* Scale and offset of elements 16 half... of block b, each product rounded as the plain decoders round it. */
static void scale_of(const struct type *t, const uint8_t *row, const bw_planes *planes, int64_t b, int half, float *d,
                     float *m)
{
    const uint8_t *at = row + planes->d, *sub = row + planes->sub;
    uint32_t q;
    *d = *m = 0;
    switch (t->scale) {
    case SCALE_D:
        *d = f16_at(at + 2 * b);
        break;
    case SCALE_DM:
        *d = f16_at(at + 4 * b);
        *m = -f16_at(at + 4 * b + 2);
        break;
    case SCALE_E8:
        *d = bw_f32_from_bits(at[b] < 2 ? 0x00200000u << at[b] : (uint32_t)(at[b] - 1) << 23);
        break;
    case SCALE_K4:
        sub += b / 8 * 16;
        q = load32(sub + 4) >> b % 8 * 4;
        *d = f16_at(sub) * (float)((sub[8 + b % 8] & 15) | (q & 3) << 4);
        *m = f16_at(sub + 2) * (float)(sub[8 + b % 8] >> 4 | (q & 12) << 2);
        break;
    case SCALE_K2:
        *d = f16_at(at + b / 8 * 4) * (float)(sub[2 * b + half] & 15);
        *m = f16_at(at + b / 8 * 4 + 2) * (float)(sub[2 * b + half] >> 4);
        break;
    case SCALE_K6:
        *d = f16_at(at + b / 8 * 2) * (float)(int8_t)sub[2 * b + half];
        break;
    case SCALE_XS:
        *d = f16_at(at + b / 8 * 2) * (float)(int8_t)sub[b];
    }
}

void bw_planes_decode(const bw_planes *planes, bw_dtype dtype, int64_t k, const uint8_t *row, int64_t begin, int64_t n,
                      float *dst)
{
    const struct type *t = &types[dtype];
    bool has_minimum = t->scale == SCALE_DM || t->scale == SCALE_K4 || t->scale == SCALE_K2;
    for (int64_t b = begin / 32; b < (begin + n) / 32; b++)
        for (int half = 0; half < 2; half++, dst += 16) {
            float d, m;
            scale_of(t, row, planes, b, half, &d, &m);
            for (int e = 0; e < 16; e++) {
                float v = d * (float)quant(t, row, planes, k, b, 16 * half + e);
                dst[e] = has_minimum ? v - m : v;
            }
        }
}
