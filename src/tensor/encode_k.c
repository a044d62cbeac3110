/* Encoders of the K kinds: 256-element blocks with quantised scales of their groups.
 *
 * Each group is first fitted alone: over a range of steps, the values are rounded to levels and the scale (and minimum)
 * that fit those levels best follow by weighted least squares. Then the block's common scale is set, each group tries
 * the neighbouring quantised scales, and the common scale is fitted once more to the levels chosen. */
#include <math.h>

#include "encode.h"

typedef struct affine_kind {
    int n_groups, group; /* 256 = n_groups * group */
    int top;             /* highest level */
    int top_scale;       /* highest quantised scale and minimum */
} affine_kind;

typedef struct affine_block {
    uint8_t scales[16], mins[16]; /* [n_groups] */
    uint8_t q[256];
} affine_block;

/* Levels for y = scale * q - min; returns the weighted squared error. */
static float affine_levels(int n, int top, const float *x, const float *w, float scale, float min, uint8_t *q)
{
    float inverse = bw_inverse(scale), levels[32];
    bw_f4 error = bw_f4_all(0);
    for (int i = 0; i < n; i += 4) {
        bw_f4 v = bw_f4_load(x + i), level = bw_f4_level((v + min) * inverse, 0, (float)top);
        bw_f4 off = scale * level - min - v;
        bw_f4_store(levels + i, level);
        error += bw_f4_load(w + i) * off * off;
    }
    for (int i = 0; i < n; i++)
        q[i] = (uint8_t)(int)levels[i];
    return bw_f4_sum(error);
}

typedef struct affine_fit {
    float scale, min, error;
} affine_fit;

/* Round with y = q / inverse + low, then the best scale and minimum for those levels. */
static affine_fit affine_try(int n, int top, const float *x, const float *w, float inverse, float low)
{
    float levels[32];
    bw_f4 w_sum = bw_f4_all(0), l_sum = w_sum, ll_sum = w_sum, x_sum = w_sum, xl_sum = w_sum, error = w_sum;
    for (int i = 0; i < n; i += 4) {
        bw_f4 v = bw_f4_load(x + i), weight = bw_f4_load(w + i);
        bw_f4 l = bw_f4_level((v - low) * inverse, 0, (float)top), wl = weight * l;
        bw_f4_store(levels + i, l);
        w_sum += weight;
        l_sum += wl;
        ll_sum += wl * l;
        x_sum += weight * v;
        xl_sum += wl * v;
    }
    float sw = bw_f4_sum(w_sum), sl = bw_f4_sum(l_sum), sll = bw_f4_sum(ll_sum), sx = bw_f4_sum(x_sum),
          sxl = bw_f4_sum(xl_sum);
    float determinant = sw * sll - sl * sl, scale, offset;
    if (determinant > 0) {
        scale = (sw * sxl - sl * sx) / determinant;
        offset = (sll * sx - sl * sxl) / determinant;
    } else {
        scale = 0;
        offset = sw > 0 ? sx / sw : 0;
    }
    if (offset > 0) { /* a minimum cannot be above zero */
        offset = 0;
        scale = sll > 0 ? sxl / sll : 0;
    }
    affine_fit fit = {scale > 0 ? scale : 0, -offset, 0};
    for (int i = 0; i < n; i += 4) {
        bw_f4 off = fit.scale * bw_f4_load(levels + i) + offset - bw_f4_load(x + i);
        error += bw_f4_load(w + i) * off * off;
    }
    fit.error = bw_f4_sum(error);
    return fit;
}

static affine_fit affine_search(int n, int top, const float *x, const float *w)
{
    float low = 0, high = x[0];
    for (int i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    affine_fit best = {0, -low, 0};
    float inverse = bw_inverse(high - low);
    if (inverse == 0)
        return best;
    best.error = INFINITY;
    float reach = top <= 3 ? 0.8f : 1.0f; /* how far the step is varied, in levels */
    for (int step = 0; step <= 24; step++) {
        float levels = (float)top + reach * ((float)step - 10) * 0.1f;
        affine_fit fit = affine_try(n, top, x, w, levels * inverse, low);
        if (fit.error < best.error)
            best = fit;
    }
    for (int round = 0; round < 2; round++) {
        affine_fit fit = affine_try(n, top, x, w, bw_inverse(best.scale), -best.min);
        if (!(fit.error < best.error))
            break;
        best = fit;
    }
    return best;
}

/* The quantised scale and minimum near the fitted ones that give the least error; fills q. */
static float affine_refine(const affine_kind *kind, const float *x, const float *w, affine_fit fit, float d, float dmin,
                           uint8_t *scale, uint8_t *min, uint8_t *q)
{
    int s0 = (int)bw_round_near(bw_clamp(fit.scale * bw_inverse(d), 0, (float)kind->top_scale));
    int m0 = (int)bw_round_near(bw_clamp(fit.min * bw_inverse(dmin), 0, (float)kind->top_scale));
    float least = INFINITY;
    uint8_t trial[32];
    for (int s = bw_clamp_int(s0 - 1, 0, s0); s <= bw_clamp_int(s0 + 1, 0, kind->top_scale); s++)
        for (int m = bw_clamp_int(m0 - 1, 0, m0); m <= bw_clamp_int(m0 + 1, 0, kind->top_scale); m++) {
            float error = affine_levels(kind->group, kind->top, x, w, d * (float)s, dmin * (float)m, trial);
            if (error < least) {
                least = error;
                *scale = (uint8_t)s;
                *min = (uint8_t)m;
                memcpy(q, trial, (size_t)kind->group);
            }
        }
    return least;
}

/* The common scale and minimum that fit the chosen levels best, all else kept. */
static void affine_common(const affine_kind *kind, const float *x, const float *w, const affine_block *b, float *d,
                          float *dmin)
{
    double saa = 0, sab = 0, sbb = 0, sax = 0, sbx = 0;
    for (int i = 0; i < 256; i++) {
        int g = i / kind->group;
        double u = (double)b->scales[g] * b->q[i], v = -(double)b->mins[g], wi = (double)w[i], xi = (double)x[i];
        saa += wi * u * u;
        sab += wi * u * v;
        sbb += wi * v * v;
        sax += wi * u * xi;
        sbx += wi * v * xi;
    }
    double determinant = saa * sbb - sab * sab;
    if (determinant > 1e-9 * saa * sbb) {
        *d = (float)((sbb * sax - sab * sbx) / determinant);
        *dmin = (float)((saa * sbx - sab * sax) / determinant);
    } else if (saa > 0) {
        *d = (float)(sax / saa);
    }
    *d = *d > 0 ? *d : 0;
    *dmin = *dmin > 0 ? *dmin : 0;
}

/* d and dmin go to out[0..4) as halves. */
static bool encode_affine(const affine_kind *kind, const float *x, const float *w, affine_block *b, uint8_t *out)
{
    affine_fit fits[16];
    float most_scale = 0, most_min = 0, d, dmin;
    for (int g = 0; g < kind->n_groups; g++) {
        fits[g] = affine_search(kind->group, kind->top, x + g * kind->group, w + g * kind->group);
        most_scale = fits[g].scale > most_scale ? fits[g].scale : most_scale;
        most_min = fits[g].min > most_min ? fits[g].min : most_min;
    }
    d = most_scale / (float)kind->top_scale;
    dmin = most_min / (float)kind->top_scale;
    float least = INFINITY;
    for (int round = 0; round < 2; round++) {
        uint8_t halves[4];
        affine_block trial;
        float error = 0;
        bool fits_half = bw_store_f16(halves, d, &d);
        fits_half = bw_store_f16(halves + 2, dmin, &dmin) && fits_half;
        if (!fits_half)
            return round > 0;
        for (int g = 0; g < kind->n_groups; g++) {
            int at = g * kind->group;
            error +=
                affine_refine(kind, x + at, w + at, fits[g], d, dmin, &trial.scales[g], &trial.mins[g], trial.q + at);
        }
        if (!(error < least) && round > 0)
            break;
        least = error;
        *b = trial;
        memcpy(out, halves, 4);
        affine_common(kind, x, w, b, &d, &dmin);
    }
    return true;
}

bool bw_encode_q2_k(const float *x, const float *w, uint8_t *out)
{
    static const affine_kind kind = {16, 16, 3, 15};
    affine_block b;
    if (!encode_affine(&kind, x, w, &b, out + 80))
        return false;
    memset(out + 16, 0, 64);
    for (int g = 0; g < 16; g++)
        out[g] = (uint8_t)(b.scales[g] | b.mins[g] << 4);
    for (int i = 0; i < 256; i++) {
        uint8_t *byte = &out[16 + i / 128 * 32 + i % 32];
        *byte = (uint8_t)(*byte | b.q[i] << (i % 128 / 32 * 2));
    }
    return true;
}

/* The inverse of bw_k4_scale_min. */
static void pack_scales_mins(const affine_block *b, uint8_t *p)
{
    for (int g = 0; g < 4; g++) {
        p[g] = (uint8_t)(b->scales[g] | b->scales[g + 4] >> 4 << 6);
        p[g + 4] = (uint8_t)(b->mins[g] | b->mins[g + 4] >> 4 << 6);
        p[g + 8] = (uint8_t)((b->scales[g + 4] & 15) | b->mins[g + 4] << 4);
    }
}

static void pack_nibbles(const uint8_t *q, uint8_t *out)
{
    for (int i = 0; i < 128; i++) {
        const uint8_t *from = q + i / 32 * 64 + i % 32;
        out[i] = (uint8_t)((from[0] & 15) | from[32] << 4);
    }
}

bool bw_encode_q4_k(const float *x, const float *w, uint8_t *out)
{
    static const affine_kind kind = {8, 32, 15, 63};
    affine_block b;
    if (!encode_affine(&kind, x, w, &b, out))
        return false;
    pack_scales_mins(&b, out + 4);
    pack_nibbles(b.q, out + 16);
    return true;
}

bool bw_encode_q5_k(const float *x, const float *w, uint8_t *out)
{
    static const affine_kind kind = {8, 32, 31, 63};
    affine_block b;
    if (!encode_affine(&kind, x, w, &b, out))
        return false;
    pack_scales_mins(&b, out + 4);
    memset(out + 16, 0, 32);
    for (int i = 0; i < 256; i++)
        out[16 + i % 32] = (uint8_t)(out[16 + i % 32] | b.q[i] >> 4 << (i / 32));
    pack_nibbles(b.q, out + 48);
    return true;
}

/* ---- symmetric: y = d * scale * q, 16 groups of 16 ---- */

typedef struct symmetric_kind {
    int half;       /* levels -half..half - 1 */
    int half_scale; /* quantised scales -half_scale..half_scale - 1 */
} symmetric_kind;

typedef struct symmetric_block {
    int8_t scales[16], q[256];
} symmetric_block;

static float symmetric_levels(int half, const float *x, const float *w, float scale, int8_t *q)
{
    float inverse = bw_inverse(scale), levels[16];
    bw_f4 error = bw_f4_all(0);
    for (int i = 0; i < 16; i += 4) {
        bw_f4 v = bw_f4_load(x + i), level = bw_f4_level(v * inverse, (float)-half, (float)(half - 1));
        bw_f4 off = scale * level - v;
        bw_f4_store(levels + i, level);
        error += bw_f4_load(w + i) * off * off;
    }
    for (int i = 0; i < 16; i++)
        q[i] = (int8_t)levels[i];
    return bw_f4_sum(error);
}

/* The scale that explains most of the group when values are rounded with step 1 / inverse. */
static void symmetric_try(int half, const float *x, const float *w, float inverse, float *best, float *scale)
{
    bw_f4 xl_sum = bw_f4_all(0), ll_sum = xl_sum;
    for (int i = 0; i < 16; i += 4) {
        bw_f4 v = bw_f4_load(x + i), l = bw_f4_level(v * inverse, (float)-half, (float)(half - 1));
        bw_f4 wl = bw_f4_load(w + i) * l;
        xl_sum += wl * v;
        ll_sum += wl * l;
    }
    float sxl = bw_f4_sum(xl_sum), sll = bw_f4_sum(ll_sum);
    if (sll > 0 && sxl * sxl > *best * sll) {
        *best = sxl * sxl / sll;
        *scale = sxl / sll;
    }
}

static float symmetric_search(int half, const float *x, const float *w)
{
    float most = 0, value = 0, best = 0, scale = 0;
    for (int i = 0; i < 16; i++)
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            value = x[i];
        }
    float inverse = bw_inverse(value);
    for (int step = -10; inverse != 0 && step <= 10; step++) {
        float shift = 0.1f * (float)step;
        symmetric_try(half, x, w, -((float)half + shift) * inverse, &best, &scale);
        symmetric_try(half, x, w, ((float)(half - 1) + shift) * inverse, &best, &scale);
    }
    for (int round = 0; scale != 0 && round < 2; round++)
        symmetric_try(half, x, w, bw_inverse(scale), &best, &scale);
    return scale;
}

static float symmetric_refine(const symmetric_kind *kind, const float *x, const float *w, float fit, float d,
                              int8_t *scale, int8_t *q)
{
    int low = -kind->half_scale, high = kind->half_scale - 1;
    int s0 = (int)bw_round_near(bw_clamp(fit * bw_inverse(d), (float)low, (float)high));
    float least = INFINITY;
    int8_t trial[16];
    for (int s = bw_clamp_int(s0 - 1, low, high); s <= bw_clamp_int(s0 + 1, low, high); s++) {
        float error = symmetric_levels(kind->half, x, w, d * (float)s, trial);
        if (error < least) {
            least = error;
            *scale = (int8_t)s;
            memcpy(q, trial, sizeof trial);
        }
    }
    return least;
}

/* d goes to out as a half. */
static bool encode_symmetric(const symmetric_kind *kind, const float *x, const float *w, symmetric_block *b,
                             uint8_t *out)
{
    float fits[16], widest = 0, least = INFINITY;
    for (int g = 0; g < 16; g++) {
        fits[g] = symmetric_search(kind->half, x + g * 16, w + g * 16);
        widest = fabsf(fits[g]) > fabsf(widest) ? fits[g] : widest;
    }
    float d = widest / (float)-kind->half_scale;
    for (int round = 0; round < 2; round++) {
        uint8_t half[2];
        symmetric_block trial;
        float error = 0;
        if (!bw_store_f16(half, d, &d))
            return round > 0;
        for (int g = 0; g < 16; g++)
            error += symmetric_refine(kind, x + g * 16, w + g * 16, fits[g], d, &trial.scales[g], trial.q + g * 16);
        if (!(error < least) && round > 0)
            break;
        least = error;
        *b = trial;
        memcpy(out, half, 2);
        double sxl = 0, sll = 0;
        for (int i = 0; i < 256; i++) {
            double level = (double)b->scales[i / 16] * b->q[i];
            sxl += (double)w[i] * level * (double)x[i];
            sll += (double)w[i] * level * level;
        }
        if (sll > 0)
            d = (float)(sxl / sll);
    }
    return true;
}

bool bw_encode_q3_k(const float *x, const float *w, uint8_t *out)
{
    static const symmetric_kind kind = {4, 32};
    symmetric_block b;
    if (!encode_symmetric(&kind, x, w, &b, out + 108))
        return false;
    memset(out, 0, 108);
    for (int i = 0; i < 256; i++) {
        int q = b.q[i] + 4, at = 32 + i / 128 * 32 + i % 32;
        out[at] = (uint8_t)(out[at] | (q & 3) << (i % 128 / 32 * 2));
        out[i % 32] = (uint8_t)(out[i % 32] | q >> 2 << (i / 32));
    }
    for (int j = 0; j < 16; j++) {
        int s = b.scales[j] + 32;
        out[96 + j % 8] = (uint8_t)(out[96 + j % 8] | (s & 15) << (j / 8 * 4));
        out[104 + j % 4] = (uint8_t)(out[104 + j % 4] | s >> 4 << (j / 4 * 2));
    }
    return true;
}

bool bw_encode_q6_k(const float *x, const float *w, uint8_t *out)
{
    static const symmetric_kind kind = {32, 128};
    symmetric_block b;
    if (!encode_symmetric(&kind, x, w, &b, out + 208))
        return false;
    memset(out, 0, 192);
    for (int i = 0; i < 256; i++) {
        int q = b.q[i] + 32, half = i / 128, part = i % 128 / 32, l = i % 32;
        uint8_t *low = &out[half * 64 + part % 2 * 32 + l], *high = &out[128 + half * 32 + l];
        *low = (uint8_t)(*low | (q & 15) << (part / 2 * 4));
        *high = (uint8_t)(*high | q >> 4 << (part * 2));
    }
    for (int j = 0; j < 16; j++)
        out[192 + j] = (uint8_t)b.scales[j];
    return true;
}
