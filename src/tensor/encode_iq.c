/* Encoders of the kinds with a list of 16 values: IQ4_NL, IQ4_XS, MXFP4. As in encode_k.c: levels for a range of steps,
 * the scale by weighted least squares, then the neighbours of the quantised scale. */
#include <math.h>

#include "encode.h"

static const float iq4_borders[15] = {-115.5f, -93.5f, -74,   -57,   -42, -28.5f, -16, -4.5f,
                                      7,       19,     31.5f, 45.5f, 61,  79,     101};

/* The nearest of bw_iq4_values, which ascend, to each of four. */
static bw_f4 iq4_nearest(bw_f4 v)
{
    bw_f4 value = bw_f4_all((float)bw_iq4_values[0]);
    for (int k = 0; k < 15; k++)
        value += (bw_f4)((v > iq4_borders[k]) & (bw_i4)bw_f4_all((float)(bw_iq4_values[k + 1] - bw_iq4_values[k])));
    return value;
}

static uint8_t iq4_number(float v)
{
    int number = 0;
    for (int k = 0; k < 15; k++)
        number += v > iq4_borders[k];
    return (uint8_t)number;
}

static float iq4_levels(const float *x, const float *w, float scale, uint8_t *q)
{
    float inverse = bw_inverse(scale);
    bw_f4 error = bw_f4_all(0);
    for (int i = 0; i < 32; i += 4) {
        bw_f4 v = bw_f4_load(x + i), off = scale * iq4_nearest(v * inverse) - v;
        error += bw_f4_load(w + i) * off * off;
    }
    for (int i = 0; i < 32; i++)
        q[i] = iq4_number(x[i] * inverse);
    return bw_f4_sum(error);
}

static void iq4_try(const float *x, const float *w, float inverse, float *best, float *scale)
{
    bw_f4 xl_sum = bw_f4_all(0), ll_sum = xl_sum;
    for (int i = 0; i < 32; i += 4) {
        bw_f4 v = bw_f4_load(x + i), l = iq4_nearest(v * inverse), wl = bw_f4_load(w + i) * l;
        xl_sum += wl * v;
        ll_sum += wl * l;
    }
    float sxl = bw_f4_sum(xl_sum), sll = bw_f4_sum(ll_sum);
    if (sll > 0 && sxl * sxl > *best * sll) {
        *best = sxl * sxl / sll;
        *scale = sxl / sll;
    }
}

static float iq4_search(const float *x, const float *w)
{
    float most = 0, value = 0, best = 0, scale = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            value = x[i];
        }
    float inverse = bw_inverse(value);
    for (int step = -12; inverse != 0 && step <= 16; step += 4) {
        iq4_try(x, w, (float)(bw_iq4_values[0] + step) * inverse, &best, &scale);
        iq4_try(x, w, (float)(bw_iq4_values[15] + step) * inverse, &best, &scale);
    }
    for (int round = 0; scale != 0 && round < 2; round++)
        iq4_try(x, w, bw_inverse(scale), &best, &scale);
    return scale;
}

bool bw_encode_iq4_nl(const float *x, const float *w, uint8_t *out)
{
    uint8_t q[32];
    float d;
    if (!bw_store_f16(out, iq4_search(x, w), &d))
        return false;
    iq4_levels(x, w, d, q);
    bw_pack_nibbles(q, out + 2);
    return true;
}

bool bw_encode_iq4_xs(const float *x, const float *w, uint8_t *out)
{
    float fits[8], widest = 0, d;
    for (int g = 0; g < 8; g++) {
        fits[g] = iq4_search(x + g * 32, w + g * 32);
        widest = fabsf(fits[g]) > fabsf(widest) ? fits[g] : widest;
    }
    if (!bw_store_f16(out, widest / -32, &d))
        return false;
    memset(out + 2, 0, 6);
    uint32_t high = 0;
    for (int g = 0; g < 8; g++) {
        int s0 = (int)bw_round_near(bw_clamp(fits[g] * bw_inverse(d), -32, 31)), chosen = 0;
        float least = INFINITY;
        uint8_t q[32] = {0}, trial[32];
        for (int s = bw_clamp_int(s0 - 1, -32, 31); s <= bw_clamp_int(s0 + 1, -32, 31); s++) {
            float error = iq4_levels(x + g * 32, w + g * 32, d * (float)s, trial);
            if (error < least) {
                least = error;
                chosen = s + 32;
                memcpy(q, trial, sizeof q);
            }
        }
        out[4 + g / 2] = (uint8_t)(out[4 + g / 2] | (chosen & 15) << (g % 2 * 4));
        high |= (uint32_t)(chosen >> 4) << (g * 2);
        bw_pack_nibbles(q, out + 8 + g * 16);
    }
    bw_store_u16(out + 2, (uint16_t)high);
    return true;
}

/* Nearest of 0 0.5 1 1.5 2 3 4 6, doubled, with the sign as bit 3; ties to the smaller magnitude. */
static uint8_t nearest_fp4(float f)
{
    static const float borders[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
    float magnitude = fabsf(f);
    int index = 0;
    for (int k = 0; k < 7; k++)
        index += magnitude > borders[k];
    return (uint8_t)(f < 0 && index > 0 ? index | 8 : index);
}

bool bw_encode_mxfp4(const float *x, const float *w, uint8_t *out)
{
    float most = 0;
    for (int i = 0; i < 32; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    int exponent = 0;
    if (most > 0)
        frexpf(most, &exponent);     /* most in [2^(exponent-1), 2^exponent) */
    int e0 = exponent - 1 - 2 + 127; /* the largest value, 6, is 1.5 * 2^2 */
    double least = INFINITY;         /* in double: the squares of floats near either end of the range */
    uint8_t q[32] = {0};
    out[0] = 0;
    for (int e = bw_clamp_int(e0 - 1, 0, 254); most > 0 && e <= bw_clamp_int(e0 + 1, 0, 254); e++) {
        float d = bw_e8m0_half((uint8_t)e), inverse = bw_inverse(d);
        double error = 0;
        uint8_t trial[32];
        for (int i = 0; i < 32; i++) {
            trial[i] = nearest_fp4(x[i] * inverse);
            double off = (double)d * bw_fp4_values[trial[i]] - (double)x[i];
            error += (double)w[i] * off * off;
        }
        if (error < least) {
            least = error;
            out[0] = (uint8_t)e;
            memcpy(q, trial, sizeof q);
        }
    }
    bw_pack_nibbles(q, out + 1);
    return true;
}
