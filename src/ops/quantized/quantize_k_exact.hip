/* QUANTIZE to the types of 256 elements on a GPU: src/tensor/encode_k.c and IQ4_XS of encode_iq.c say what is done. A thread
 * has one group of 16 or 32 elements, a column in shared memory; a block's threads meet in shared memory, where sums over groups run in
 * the groups' order. No fused multiply-adds here: the bytes are those of the reference. */
#include "quantized/bw_quantize_block.h"

enum { THREADS = BW_QUANTIZE_THREADS };

/* What the threads of a workgroup share; GROUPS threads work on a block of 256. */
template <int GROUPS> struct team {
    static constexpr int group = 256 / GROUPS, blocks = THREADS / GROUPS;
    float x[group][THREADS], w[group][THREADS]; /* each thread's column */
    float a[blocks][GROUPS], b[blocks][GROUPS]; /* a value or two of each group */
    double sums[blocks][5];
    int8_t q[blocks][256], scales[blocks][GROUPS], mins[blocks][GROUPS];
};

BW_DEVICE float shared_max(const float *values, int n)
{
    float most = 0;
    for (int i = 0; i < n; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

/* x and w of this thread's group; all threads of the workgroup call it. */
template <int GROUPS>
BW_DEVICE void load_group(team<GROUPS> &shared, int block, int g, const float *x, const float *importance)
{
    constexpr int N = 256 / GROUPS;
    const int thread = bw_thread();
    float most = 0;
    for (int i = 0; i < N; i++) {
        float w = importance ? bw_quantize_importance(importance[g * N + i]) : 0.0f;
        shared.x[i][thread] = bw_quantize_value(x[g * N + i]);
        shared.w[i][thread] = w;
        most = w > most ? w : most;
    }
    shared.a[block][g] = most;
    bw_barrier();
    most = shared_max(shared.a[block], GROUPS);
    for (int i = 0; i < N; i++)
        shared.w[i][thread] = most > 0 ? shared.w[i][thread] / most : 1.0f;
    bw_barrier();
}
template <int GROUPS> BW_DEVICE bw_in_column<256 / GROUPS> x_of(const team<GROUPS> &shared)
{
    bw_in_column<256 / GROUPS> column;
    column.v = &shared.x[0][bw_thread()];
    return column;
}
template <int GROUPS> BW_DEVICE bw_in_column<256 / GROUPS> w_of(const team<GROUPS> &shared)
{
    bw_in_column<256 / GROUPS> column;
    column.v = &shared.w[0][bw_thread()];
    return column;
}

/* Every thread gets the sum of its block's errors, added in the groups' order. */
template <int GROUPS> BW_DEVICE float sum_errors(team<GROUPS> &shared, int block, int g, float error)
{
    shared.a[block][g] = error;
    bw_barrier();
    float sum = 0;
    for (int i = 0; i < GROUPS; i++)
        sum += shared.a[block][i];
    bw_barrier();
    return sum;
}

/* ---- affine: y = d * scale * q - dmin * min ------------------------------------------------------------------------- */

template <int TOP> BW_DEVICE float affine_level(float x, float inverse, float min)
{
    return bw_level((x + min) * inverse, 0, (float)TOP);
}

template <int TOP, typename X>
BW_DEVICE float affine_error(const X &x, const X &w, float scale, float min)
{
    float inverse = bw_inverse(scale), error[4] = {0, 0, 0, 0};
    for (int i = 0; i < X::n; i += 4)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float off = scale * affine_level<TOP>(x[i + j], inverse, min) - min - x[i + j];
            error[j] += w[i + j] * off * off;
        }
    return bw_sum4(error);
}

struct affine_fit {
    float scale, min, error;
};

/* Round with y = q / inverse + low, then the best scale and minimum for those levels. */
template <int TOP, typename X>
BW_DEVICE affine_fit affine_try(const X &x, const X &w, float inverse, float low)
{
    float ws[4] = {0, 0, 0, 0}, ls[4] = {0, 0, 0, 0}, lls[4] = {0, 0, 0, 0}, xs[4] = {0, 0, 0, 0}, xls[4] = {0, 0, 0, 0};
    for (int i = 0; i < X::n; i += 4)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float l = bw_level((x[i + j] - low) * inverse, 0, (float)TOP), wl = w[i + j] * l;
            ws[j] += w[i + j];
            ls[j] += wl;
            lls[j] += wl * l;
            xs[j] += w[i + j] * x[i + j];
            xls[j] += wl * x[i + j];
        }
    float sw = bw_sum4(ws), sl = bw_sum4(ls), sll = bw_sum4(lls), sx = bw_sum4(xs), sxl = bw_sum4(xls);
    float determinant = sw * sll - sl * sl, scale, offset;
    if (determinant > 0) {
        scale = (sw * sxl - sl * sx) / determinant;
        offset = (sll * sx - sl * sxl) / determinant;
    } else {
        scale = 0;
        offset = sw > 0 ? sx / sw : 0.0f;
    }
    if (offset > 0) { /* a minimum cannot be above zero */
        offset = 0;
        scale = sll > 0 ? sxl / sll : 0.0f;
    }
    affine_fit fit;
    fit.scale = scale > 0 ? scale : 0.0f;
    fit.min = -offset;
    float error[4] = {0, 0, 0, 0};
    for (int i = 0; i < X::n; i += 4)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float l = bw_level((x[i + j] - low) * inverse, 0, (float)TOP);
            float off = fit.scale * l + offset - x[i + j];
            error[j] += w[i + j] * off * off;
        }
    fit.error = bw_sum4(error);
    return fit;
}

template <int TOP, typename X> BW_DEVICE affine_fit affine_search(const X &x, const X &w)
{
    float low = 0, high = x[0];
    for (int i = 0; i < X::n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    affine_fit best;
    best.scale = 0;
    best.min = -low;
    best.error = 0;
    float inverse = bw_inverse(high - low);
    if (inverse == 0)
        return best;
    best.error = bw_infinity();
    const float reach = TOP <= 3 ? 0.8f : 1.0f; /* how far the step is varied, in levels */
    int round = 0;
#pragma unroll 1
    for (int step = 0; step <= 26 && round < 2; step++) { /* 25 steps, then at most two rounds from the best */
        float levels = (float)TOP + reach * ((float)step - 10) * 0.1f;
        bool is_step = step <= 24;
        affine_fit fit = affine_try<TOP>(x, w, is_step ? levels * inverse : bw_inverse(best.scale), is_step ? low : -best.min);
        bool is_better = fit.error < best.error;
        if (is_better)
            best = fit;
        round = is_step || is_better ? 0 : 2;
    }
    return best;
}

/* The least error among the neighbouring quantised scales and minima. */
template <int TOP, int TOP_SCALE, typename X>
BW_DEVICE float affine_refine(const X &x, const X &w, const affine_fit &fit, float d, float dmin,
                              int &scale, int &min)
{
    int s0 = (int)bw_round_near(bw_clamp(fit.scale * bw_inverse(d), 0, (float)TOP_SCALE));
    int m0 = (int)bw_round_near(bw_clamp(fit.min * bw_inverse(dmin), 0, (float)TOP_SCALE));
    float least = bw_infinity();
#pragma unroll 1
    for (int s = bw_clamp_int(s0 - 1, 0, s0); s <= bw_clamp_int(s0 + 1, 0, TOP_SCALE); s++)
#pragma unroll 1
        for (int m = bw_clamp_int(m0 - 1, 0, m0); m <= bw_clamp_int(m0 + 1, 0, TOP_SCALE); m++) {
            float error = affine_error<TOP>(x, w, d * (float)s, dmin * (float)m);
            if (error < least) {
                least = error;
                scale = s;
                min = m;
            }
        }
    return least;
}

/* The common scale and minimum that fit the chosen levels best. The sums run over all 256 elements in order: the groups
 * take turns. */
template <int TOP, int GROUPS, typename X>
BW_DEVICE void affine_common(team<GROUPS> &shared, int block, int g, const X &x, const X &w, int scale,
                             int min, float &d, float &dmin)
{
    const float ds = d * (float)scale, dm = dmin * (float)min, inverse = bw_inverse(ds);
    double *sums = shared.sums[block];
    if (g == 0)
#pragma unroll
        for (int k = 0; k < 5; k++)
            sums[k] = 0;
    bw_barrier();
#pragma unroll 1
    for (int turn = 0; turn < GROUPS; turn++) {
        if (turn == g) {
            double saa = sums[0], sab = sums[1], sbb = sums[2], sax = sums[3], sbx = sums[4];
            for (int i = 0; i < X::n; i++) {
                double u = (double)scale * (double)affine_level<TOP>(x[i], inverse, dm), v = -(double)min;
                double wi = (double)w[i], xi = (double)x[i];
                saa += wi * u * u;
                sab += wi * u * v;
                sbb += wi * v * v;
                sax += wi * u * xi;
                sbx += wi * v * xi;
            }
            sums[0] = saa;
            sums[1] = sab;
            sums[2] = sbb;
            sums[3] = sax;
            sums[4] = sbx;
        }
        bw_barrier();
    }
    double saa = sums[0], sab = sums[1], sbb = sums[2], sax = sums[3], sbx = sums[4];
    double determinant = saa * sbb - sab * sab;
    if (determinant > 1e-9 * saa * sbb) {
        d = (float)((sbb * sax - sab * sbx) / determinant);
        dmin = (float)((saa * sbx - sab * sax) / determinant);
    } else if (saa > 0) {
        d = (float)(sax / saa);
    }
    d = d > 0 ? d : 0.0f;
    dmin = dmin > 0 ? dmin : 0.0f;
    bw_barrier();
}

/* Levels, scales and minima of a block into shared memory, d and dmin as halves. */
template <int TOP, int TOP_SCALE, int GROUPS>
BW_DEVICE void encode_affine(team<GROUPS> &shared, int block, int g, const float *x, const float *importance, uint32_t &d_half,
                             uint32_t &dmin_half)
{
    constexpr int N = 256 / GROUPS;
    load_group(shared, block, g, x, importance);
    const bw_in_column<N> v = x_of(shared), w = w_of(shared);
    const affine_fit fit = affine_search<TOP>(v, w);
    shared.a[block][g] = fit.scale;
    shared.b[block][g] = fit.min;
    bw_barrier();
    float d = shared_max(shared.a[block], GROUPS) / (float)TOP_SCALE;
    float dmin = shared_max(shared.b[block], GROUPS) / (float)TOP_SCALE;
    bw_barrier();
    float least = bw_infinity();
    int best_scale = 0, best_min = 0;
    bool is_open = true; /* the same in all of a block's threads, which stay together for the barriers */
#pragma unroll 1
    for (int round = 0; round < 2; round++) {
        uint32_t h = bw_half_bits(d), m = bw_half_bits(dmin);
        d = bw_half_of(h);
        dmin = bw_half_of(m);
        int scale = 0, min = 0;
        float error = sum_errors(shared, block, g, affine_refine<TOP, TOP_SCALE>(v, w, fit, d, dmin, scale, min));
        is_open = is_open && bw_half_is_finite(h) && bw_half_is_finite(m) && (round == 0 || error < least);
        if (is_open) {
            least = error;
            best_scale = scale;
            best_min = min;
            d_half = h;
            dmin_half = m;
        }
        if (round == 0)
            affine_common<TOP>(shared, block, g, v, w, scale, min, d, dmin);
    }
    float ds = bw_half_of(d_half) * (float)best_scale, dm = bw_half_of(dmin_half) * (float)best_min, inverse = bw_inverse(ds);
    shared.scales[block][g] = (int8_t)best_scale;
    shared.mins[block][g] = (int8_t)best_min;
    for (int i = 0; i < N; i++)
        shared.q[block][g * N + i] = (int8_t)affine_level<TOP>(v[i], inverse, dm);
    bw_barrier();
}

/* ---- symmetric: y = d * scale * q, 16 groups of 16 ------------------------------------------------------------------- */

template <int HALF> BW_DEVICE float symmetric_level(float v)
{
    return bw_level(v, (float)-HALF, (float)(HALF - 1));
}

template <int HALF, typename X> BW_DEVICE float symmetric_search(const X &x, const X &w)
{
    auto nearest = [](float v) { return symmetric_level<HALF>(v); };
    float best = 0, scale = 0, inverse = bw_inverse(bw_extreme(x));
    if (inverse != 0)
#pragma unroll 1
        for (int step = -10; step <= 10; step++) {
            float shift = 0.1f * (float)step;
#pragma unroll 1
            for (int end = 0; end < 2; end++)
                bw_try_scale(x, w, (end ? (float)(HALF - 1) + shift : -((float)HALF + shift)) * inverse, nearest, best,
                             scale);
        }
#pragma unroll 1
    for (int round = 0; scale != 0 && round < 2; round++)
        bw_try_scale(x, w, bw_inverse(scale), nearest, best, scale);
    return scale;
}

/* The fit of the largest magnitude, the first of equals. */
BW_DEVICE float widest_of(const float *fits, int n)
{
    float widest = 0, most = 0; /* comparing with |widest| instead, clang 19 takes the wrong one at -O2 */
    for (int i = 0; i < n; i++) {
        bool is_wider = bw_abs(fits[i]) > most;
        widest = is_wider ? fits[i] : widest;
        most = is_wider ? bw_abs(fits[i]) : most;
    }
    return widest;
}

/* The least error among the neighbouring quantised scales, LOW .. HIGH. */
template <int LOW, int HIGH, typename X, typename F>
BW_DEVICE float scale_refine(const X &x, const X &w, float fit, float d, F nearest, int &scale)
{
    int s0 = (int)bw_round_near(bw_clamp(fit * bw_inverse(d), (float)LOW, (float)HIGH));
    float least = bw_infinity();
#pragma unroll 1
    for (int s = bw_clamp_int(s0 - 1, LOW, HIGH); s <= bw_clamp_int(s0 + 1, LOW, HIGH); s++) {
        float error = bw_scale_error(x, w, d * (float)s, nearest);
        if (error < least) {
            least = error;
            scale = s;
        }
    }
    return least;
}

template <int HALF, typename X>
BW_DEVICE float symmetric_common(team<16> &shared, int block, int g, const X &x, const X &w, int scale, float d)
{
    const float inverse = bw_inverse(d * (float)scale);
    double *sums = shared.sums[block];
    if (g == 0)
        sums[0] = sums[1] = 0;
    bw_barrier();
#pragma unroll 1
    for (int turn = 0; turn < 16; turn++) {
        if (turn == g) {
            double sxl = sums[0], sll = sums[1];
            for (int i = 0; i < 16; i++) {
                double level = (double)scale * (double)symmetric_level<HALF>(x[i] * inverse);
                sxl += (double)w[i] * level * (double)x[i];
                sll += (double)w[i] * level * level;
            }
            sums[0] = sxl;
            sums[1] = sll;
        }
        bw_barrier();
    }
    double sxl = sums[0], sll = sums[1];
    bw_barrier();
    return sll > 0 ? (float)(sxl / sll) : d;
}

template <int HALF, int HALF_SCALE>
BW_DEVICE void encode_symmetric(team<16> &shared, int block, int g, const float *x, const float *importance, uint32_t &d_half)
{
    auto nearest = [](float v) { return symmetric_level<HALF>(v); };
    load_group(shared, block, g, x, importance);
    const bw_in_column<16> v = x_of(shared), w = w_of(shared);
    const float fit = symmetric_search<HALF>(v, w);
    shared.a[block][g] = fit;
    bw_barrier();
    float d = widest_of(shared.a[block], 16) / (float)-HALF_SCALE, least = bw_infinity();
    bw_barrier();
    int best_scale = 0;
    bool is_open = true;
#pragma unroll 1
    for (int round = 0; round < 2; round++) {
        uint32_t h = bw_half_bits(d);
        d = bw_half_of(h);
        int scale = 0;
        float error = sum_errors(shared, block, g, scale_refine<-HALF_SCALE, HALF_SCALE - 1>(v, w, fit, d, nearest, scale));
        is_open = is_open && bw_half_is_finite(h) && (round == 0 || error < least);
        if (is_open) {
            least = error;
            best_scale = scale;
            d_half = h;
        }
        if (round == 0)
            d = symmetric_common<HALF>(shared, block, g, v, w, scale, d);
    }
    float inverse = bw_inverse(bw_half_of(d_half) * (float)best_scale);
    shared.scales[block][g] = (int8_t)best_scale;
    for (int i = 0; i < 16; i++)
        shared.q[block][g * 16 + i] = (int8_t)symmetric_level<HALF>(v[i] * inverse);
    bw_barrier();
}

/* IQ4_XS: d * (scale - 32), 8 groups of 32, numbers in the list of 16 values. */
BW_DEVICE void encode_iq4_xs(team<8> &shared, int block, int g, const float *x, const float *importance, uint32_t &d_half)
{
    load_group(shared, block, g, x, importance);
    const bw_in_column<32> v = x_of(shared), w = w_of(shared);
    const float fit = bw_iq4_search(v, w);
    shared.a[block][g] = fit;
    bw_barrier();
    d_half = bw_half_bits(widest_of(shared.a[block], 8) / -32);
    const float d = bw_half_of(d_half);
    int scale = -32; /* nothing chosen: stored as 0 */
    scale_refine<-32, 31>(v, w, fit, d, [](float f) { return bw_iq4_nearest(f); }, scale);
    const float inverse = bw_inverse(d * (float)scale);
    shared.scales[block][g] = (int8_t)(scale + 32);
    for (int i = 0; i < 32; i++)
        shared.q[block][g * 32 + i] = (int8_t)bw_iq4_number(v[i] * inverse);
    bw_barrier();
}

/* ---- bytes: byte j of a block, from its levels (not negative), scales and minima -------------------------------------- */

struct levels {
    const int8_t *q, *scales, *mins;
    uint32_t d, dmin; /* halves */
};

BW_DEVICE uint32_t half_byte(uint32_t h, int j)
{
    return h >> (j & 1) * 8;
}
/* Nibbles of 64 elements in 32 bytes. */
BW_DEVICE uint32_t nibbles(const levels &b, int j)
{
    const int8_t *from = b.q + j / 32 * 64 + j % 32;
    return ((uint32_t)from[0] & 15u) | (uint32_t)from[32] << 4;
}
/* Four bit pairs, elements 32 apart. */
BW_DEVICE uint32_t bit_pairs(const levels &b, int j, uint32_t add, int shift)
{
    const int8_t *from = b.q + j / 32 * 128 + j % 32;
    uint32_t byte = 0;
#pragma unroll
    for (int k = 0; k < 4; k++)
        byte |= (((uint32_t)from[k * 32] + add) >> shift & 3u) << 2 * k;
    return byte;
}
/* Eight bits, elements 32 apart: bit `shift` of level + add. */
BW_DEVICE uint32_t bit_plane(const levels &b, int j, uint32_t add, int shift)
{
    uint32_t byte = 0;
#pragma unroll
    for (int k = 0; k < 8; k++)
        byte |= (((uint32_t)b.q[k * 32 + j] + add) >> shift & 1u) << k;
    return byte;
}
/* The 12 bytes of q4_k's and q5_k's scales and minima. */
BW_DEVICE uint32_t scale_min_byte(const levels &b, int j)
{
    uint32_t low = j < 4 ? (uint32_t)b.scales[j & 3] : (uint32_t)b.mins[j & 3];
    uint32_t s = (uint32_t)b.scales[4 + (j & 3)], m = (uint32_t)b.mins[4 + (j & 3)];
    return j < 8 ? low | (j < 4 ? s : m) >> 4 << 6 : (s & 15u) | m << 4;
}

template <int TYPE> BW_DEVICE uint32_t byte_of(const levels &b, int j);
template <> BW_DEVICE_SPECIAL uint32_t byte_of<BW_Q2_K>(const levels &b, int j)
{
    if (j < 16)
        return (uint32_t)b.scales[j] | (uint32_t)b.mins[j] << 4;
    return j < 80 ? bit_pairs(b, j - 16, 0, 0) : half_byte(j < 82 ? b.d : b.dmin, j);
}
template <> BW_DEVICE_SPECIAL uint32_t byte_of<BW_Q4_K>(const levels &b, int j)
{
    if (j < 4)
        return half_byte(j < 2 ? b.d : b.dmin, j);
    return j < 16 ? scale_min_byte(b, j - 4) : nibbles(b, j - 16);
}
template <> BW_DEVICE_SPECIAL uint32_t byte_of<BW_Q5_K>(const levels &b, int j)
{
    if (j < 4)
        return half_byte(j < 2 ? b.d : b.dmin, j);
    return j < 16 ? scale_min_byte(b, j - 4) : j < 48 ? bit_plane(b, j - 16, 0, 4) : nibbles(b, j - 48);
}
template <> BW_DEVICE_SPECIAL uint32_t byte_of<BW_Q3_K>(const levels &b, int j)
{
    if (j < 96)
        return j < 32 ? bit_plane(b, j, 4, 2) : bit_pairs(b, j - 32, 4, 0);
    if (j >= 108)
        return half_byte(b.d, j);
    if (j < 104)
        return ((uint32_t)(b.scales[j - 96] + 32) & 15u) | ((uint32_t)(b.scales[j - 88] + 32) & 15u) << 4;
    uint32_t byte = 0;
#pragma unroll
    for (int k = 0; k < 4; k++)
        byte |= (uint32_t)(b.scales[j - 104 + k * 4] + 32) >> 4 << 2 * k;
    return byte;
}
template <> BW_DEVICE_SPECIAL uint32_t byte_of<BW_Q6_K>(const levels &b, int j)
{
    if (j < 128) {
        const int8_t *from = b.q + j / 64 * 128 + j % 64;
        return ((uint32_t)(from[0] + 32) & 15u) | ((uint32_t)(from[64] + 32) & 15u) << 4;
    }
    if (j < 192)
        return bit_pairs(b, j - 128, 32, 4);
    return j < 208 ? (uint32_t)b.scales[j - 192] : half_byte(b.d, j);
}
template <> BW_DEVICE_SPECIAL uint32_t byte_of<BW_IQ4_XS>(const levels &b, int j)
{
    if (j < 2)
        return half_byte(b.d, j);
    if (j < 4) {
        uint32_t byte = 0;
#pragma unroll
        for (int k = 0; k < 4; k++)
            byte |= (uint32_t)b.scales[(j - 2) * 4 + k] >> 4 << 2 * k;
        return byte;
    }
    if (j < 8)
        return ((uint32_t)b.scales[(j - 4) * 2] & 15u) | ((uint32_t)b.scales[(j - 4) * 2 + 1] & 15u) << 4;
    const int8_t *from = b.q + (j - 8) / 16 * 32 + (j - 8) % 16;
    return (uint32_t)from[0] | (uint32_t)from[16] << 4;
}

/* encode(shared, block, g, x, importance, d, dmin) */
template <int TYPE, int GROUPS, typename F>
BW_DEVICE void quantize(team<GROUPS> &shared, const bw_quantize_args &p, const float *x, const float *importance, uint8_t *y,
                        F encode)
{
    constexpr int bytes = bw_quant<TYPE>::bytes;
    const int block = bw_thread() / GROUPS, g = bw_thread() % GROUPS;
    const int64_t number = p.first_block + bw_block() * team<GROUPS>::blocks + block, last = p.n_blocks - 1;
    /* a block past the end is the last one again: all threads take part in the barriers */
    const bw_quantize_place place = bw_quantize_find(p, number < last ? number : last, 256);
    levels b;
    b.q = shared.q[block];
    b.scales = shared.scales[block];
    b.mins = shared.mins[block];
    b.d = b.dmin = 0;
    encode(shared, block, g, x + place.x, importance ? importance + place.column : importance, b.d, b.dmin);
    if (number <= last)
        for (int j = g; j < bytes; j += GROUPS)
            y[place.y / 256 * bytes + j] = (uint8_t)byte_of<TYPE>(b, j);
}

#define KERNEL(name, NAME, GROUPS, encode)                                                                             \
    BW_KERNEL(THREADS, quantize_##name)(const bw_quantize_args p, const float *x, const float *importance, uint8_t *y) \
    {                                                                                                                  \
        BW_SHARED team<GROUPS> shared;                                                                                 \
        quantize<BW_##NAME, GROUPS>(shared, p, x, importance, y,                                                       \
                                    [](team<GROUPS> &s, int block, int g, const float *v, const float *w, uint32_t &d, \
                                       uint32_t &dmin) {                                                               \
                                        (void)dmin;                                                                    \
                                        encode;                                                                        \
                                    });                                                                                \
    }
#define AFFINE(top, top_scale, groups) encode_affine<top, top_scale, groups>(s, block, g, v, w, d, dmin)
#define SYMMETRIC(half, half_scale) encode_symmetric<half, half_scale>(s, block, g, v, w, d)
KERNEL(q2_k, Q2_K, 16, (AFFINE(3, 15, 16)))
KERNEL(q4_k, Q4_K, 8, (AFFINE(15, 63, 8)))
KERNEL(q5_k, Q5_K, 8, (AFFINE(31, 63, 8)))
KERNEL(q3_k, Q3_K, 16, (SYMMETRIC(4, 32)))
KERNEL(q6_k, Q6_K, 16, (SYMMETRIC(32, 128)))
KERNEL(iq4_xs, IQ4_XS, 8, encode_iq4_xs(s, block, g, v, w, d))
