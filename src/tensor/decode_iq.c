/* Decoders of the codebook (IQ), ternary (TQ), four-bit float (MXFP4, NVFP4) and one-bit blocks.
 * Layouts: ggml's block definitions (GGUF); MXFP4 after the OCP microscaling formats specification 1.0. */
#include "decode.h"

#include "iq_tables.h"

const int8_t bw_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int8_t bw_fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Eight signs from seven bits: the eighth makes the number of minus signs even. */
static uint8_t even_signs(uint32_t seven)
{
    seven &= 127;
    return (uint8_t)(seven | (uint32_t)(__builtin_popcount(seven) & 1) << 7);
}

/* n = 8 codebook values of 2 bits, or 4 of 4 bits, times scale, with the sign bits from bit 0 on. */
static void expand8(float scale, uint16_t entry, const int8_t *values, uint32_t signs, float *y)
{
    for (int i = 0; i < 8; i++) {
        float v = scale * (float)values[entry >> (i * 2) & 3];
        y[i] = signs >> i & 1 ? -v : v;
    }
}

static void expand4(float scale, uint16_t entry, const int8_t *values, uint32_t signs, float *y)
{
    for (int i = 0; i < 4; i++) {
        float v = scale * (float)values[entry >> (i * 4) & 15];
        y[i] = signs >> i & 1 ? -v : v;
    }
}

/* d, then per 32: four grid indices (bytes), four times seven sign bits and a four-bit scale */
void bw_decode_iq2_xxs(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b + 2 + g * 8;
        uint32_t signs = bw_load_u32(q + 4);
        float scale = d * (0.5f + (float)(signs >> 28)) * 0.25f;
        for (int k = 0; k < 4; k++)
            expand8(scale, iq2_xxs_grid[q[k]], iq2_xxs_values, even_signs(signs >> (7 * k)), y + g * 32 + k * 8);
    }
}

/* d, 32 words (nine bits of grid index, seven sign bits), 16 four-bit scales */
void bw_decode_iq2_xs(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int k = 0; k < 32; k++) {
        uint16_t q = bw_load_u16(b + 2 + k * 2);
        int s = b[66 + k / 4] >> (k / 2 % 2 * 4) & 15;
        float scale = d * (0.5f + (float)s) * 0.25f;
        expand8(scale, iq2_xs_grid[q & 511], iq2_xs_values, even_signs(q >> 9), y + k * 8);
    }
}

/* d, low index bytes [32], sign bytes [32], high index bits [8], 16 four-bit scales */
void bw_decode_iq2_s(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int k = 0; k < 32; k++) {
        int s = b[74 + k / 4] >> (k / 2 % 2 * 4) & 15;
        int index = b[2 + k] | (b[66 + k / 4] >> (k % 4 * 2) & 3) << 8;
        float scale = d * (0.5f + (float)s) * 0.25f;
        expand8(scale, iq2_s_grid[index], iq2_s_values, b[34 + k], y + k * 8);
    }
}

/* d, grid indices [64], then per 32: four times seven sign bits and a four-bit scale */
void bw_decode_iq3_xxs(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int g = 0; g < 8; g++) {
        uint32_t word = bw_load_u32(b + 66 + g * 4);
        float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
        for (int k = 0; k < 8; k++) {
            uint32_t signs = even_signs(word >> (k / 2 * 7));
            expand4(scale, iq3_xxs_grid[b[2 + g * 8 + k]], iq3_xxs_values, signs >> (k % 2 * 4), y + g * 32 + k * 4);
        }
    }
}

/* d, low index bytes [64], high index bits [8], sign bytes [32], 8 four-bit scales */
void bw_decode_iq3_s(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int k = 0; k < 64; k++) {
        int s = b[106 + k / 16] >> (k / 8 % 2 * 4) & 15;
        int index = b[2 + k] | (b[66 + k / 8] >> (k % 8) & 1) << 8;
        float scale = d * (float)(1 + 2 * s);
        expand4(scale, iq3_s_grid[index], iq3_s_values, (uint32_t)b[74 + k / 2] >> (k % 2 * 4), y + k * 4);
    }
}

static void expand_iq1(float scale, int index, float delta, float *y)
{
    for (int i = 0; i < 8; i++)
        y[i] = scale * ((float)iq1_values[iq1_grid[index] >> (i * 2) & 3] + delta);
}

/* d, low index bytes [32], then per 32 a word: four times three high index bits, a three-bit scale, the delta's sign */
void bw_decode_iq1_s(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int k = 0; k < 32; k++) {
        uint16_t word = bw_load_u16(b + 34 + k / 4 * 2);
        float scale = d * (float)(2 * (word >> 12 & 7) + 1);
        expand_iq1(scale, b[2 + k] | (word >> (k % 4 * 3) & 7) << 8, word & 0x8000 ? -0.125f : 0.125f, y + k * 8);
    }
}

/* low index bytes [32], nibbles [16] of three high index bits and the delta's sign, four words of four three-bit scales
 * each, whose upper nibbles together are d */
void bw_decode_iq1_m(const uint8_t *b, float *y)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (uint32_t)(bw_load_u16(b + 48 + i * 2) >> 12) << (i * 4);
    float d = bw_f16_to_f32((uint16_t)bits);
    for (int k = 0; k < 32; k++) {
        int high = b[32 + k / 2] >> (k % 2 * 4) & 15;
        int s = bw_load_u16(b + 48 + k / 8 * 2) >> (k / 2 % 4 * 3) & 7;
        expand_iq1(d * (float)(2 * s + 1), b[k] | (high & 7) << 8, high & 8 ? -0.125f : 0.125f, y + k * 8);
    }
}

/* d, then 32 nibbles into the list of 16 values */
void bw_decode_iq4_nl(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)bw_iq4_values[b[2 + i] & 15];
        y[i + 16] = d * (float)bw_iq4_values[b[2 + i] >> 4];
    }
}

/* d, upper scale bits (word), lower scale nibbles [4], nibbles [128] */
void bw_decode_iq4_xs(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    uint16_t high = bw_load_u16(b + 2);
    for (int g = 0; g < 8; g++) {
        int s = (b[4 + g / 2] >> (g % 2 * 4) & 15) | (high >> (g * 2) & 3) << 4;
        float scale = d * (float)(s - 32);
        const uint8_t *q = b + 8 + g * 16;
        for (int i = 0; i < 16; i++) {
            y[g * 32 + i] = scale * (float)bw_iq4_values[q[i] & 15];
            y[g * 32 + i + 16] = scale * (float)bw_iq4_values[q[i] >> 4];
        }
    }
}

/* Digit `digit` of a byte that holds up to five base-3 digits as a fraction of 256, the first the most significant. */
static float ternary(uint8_t byte, int digit)
{
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    uint8_t rest = (uint8_t)(byte * powers[digit]);
    return (float)((rest * 3 >> 8) - 1);
}

/* bytes [48] of five digits (as 32 and 16), bytes [4] of four digits, d */
void bw_decode_tq1_0(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b + 52);
    for (int i = 0; i < 160; i++)
        y[i] = d * ternary(b[i % 32], i / 32);
    for (int i = 0; i < 80; i++)
        y[160 + i] = d * ternary(b[32 + i % 16], i / 16);
    for (int i = 0; i < 16; i++)
        y[240 + i] = d * ternary(b[48 + i % 4], i / 4);
}

/* bit pairs [64], d */
void bw_decode_tq2_0(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b + 64);
    for (int i = 0; i < 256; i++)
        y[i] = d * (float)((b[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - 1);
}

/* an exponent (E8M0), 32 nibbles (E2M1) */
void bw_decode_mxfp4(const uint8_t *b, float *y)
{
    float d = bw_e8m0_half(b[0]);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)bw_fp4_values[b[1 + i] & 15] * d;
        y[i + 16] = (float)bw_fp4_values[b[1 + i] >> 4] * d;
    }
}

/* four scales (E4M3, unsigned; 0x7f counts as zero), four times 16 nibbles (E2M1) */
void bw_decode_nvfp4(const uint8_t *b, float *y)
{
    for (int g = 0; g < 4; g++) {
        uint32_t e = b[g] >> 3 & 15u, m = b[g] & 7u;
        float d = e ? bw_f32_from_bits((e + 119) << 23 | m << 20) : (float)m * 0x1p-10f; /* half the scale */
        if (b[g] == 0x7f)
            d = 0;
        for (int i = 0; i < 8; i++) {
            uint8_t q = b[4 + g * 8 + i];
            y[g * 16 + i] = (float)bw_fp4_values[q & 15] * d;
            y[g * 16 + i + 8] = (float)bw_fp4_values[q >> 4] * d;
        }
    }
}

/* d, then a sign bit each: 1 is +d */
void bw_decode_q1_0(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int i = 0; i < 128; i++)
        y[i] = b[2 + i / 8] >> (i % 8) & 1 ? d : -d;
}

/* d, then bit pairs: -d, 0, d, 2d */
void bw_decode_q2_0(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int i = 0; i < 64; i++)
        y[i] = (float)((b[2 + i / 4] >> (i % 4 * 2) & 3) - 1) * d;
}
