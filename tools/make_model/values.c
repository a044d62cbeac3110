/* Random tensors, made directly in the type they are stored in. The numbers come from xoshiro256++ (Blackman, Vigna:
 * "Scrambled linear pseudorandom number generators", 2021), seeded anew for every chunk, so that neither threads nor
 * the order of work matter. Nothing here uses the mathematical library beyond sqrt and frexp, which are exact on every
 * machine. Block layouts: those that src/tensor/decode.c and decode_iq.c read. */
#include <math.h>
#include <string.h>

#include "bw_mem.h"
#include "bw_quant.h"
#include "make_model.h"

/* ---- random words ------------------------------------------------------------------------------------------------ */

typedef struct words {
    uint64_t s[4];
} words;

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static words words_of(uint64_t seed, uint64_t tensor, uint64_t chunk)
{
    uint64_t key = mixed(mixed(mixed(seed + 1) + tensor + 1) + chunk + 1);
    words w;
    for (int i = 0; i < 4; i++)
        w.s[i] = mixed(key + (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15));
    return w;
}

static uint64_t rotated(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static inline uint64_t next(words *w)
{
    uint64_t *s = w->s, result = rotated(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotated(s[3], 45);
    return result;
}

static void fill_bytes(words *w, unsigned char *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t r = next(w);
        memcpy(p, &r, 8);
    }
    uint64_t r = next(w);
    memcpy(p, &r, n);
}

/* ---- block layouts ----------------------------------------------------------------------------------------------- */

typedef enum scale_kind { SCALE_F16, SCALE_F32, SCALE_NIBBLES, SCALE_E8M0, SCALE_E4M3 } scale_kind;

struct mm_layout {
    bw_dtype dtype;
    scale_kind kind;
    int scale, minimum; /* where they lie in the block; minimum -1 when there is none */
    double ratio;       /* minimum / scale for values around 0 */
    int sums;           /* where sums of the quants lie, -1 when there are none */
};

static const struct mm_layout layouts[] = {
    {BW_Q4_0, SCALE_F16, 0, -1, 0, -1},       {BW_Q4_1, SCALE_F16, 0, 2, -7.5, -1},
    {BW_Q5_0, SCALE_F16, 0, -1, 0, -1},       {BW_Q5_1, SCALE_F16, 0, 2, -15.5, -1},
    {BW_Q8_0, SCALE_F16, 0, -1, 0, -1},       {BW_Q8_1, SCALE_F16, 0, -1, 0, 2},
    {BW_Q2_K, SCALE_F16, 80, 82, 1.5, -1},    {BW_Q3_K, SCALE_F16, 108, -1, 0, -1},
    {BW_Q4_K, SCALE_F16, 0, 2, 7.5, -1},      {BW_Q5_K, SCALE_F16, 0, 2, 15.5, -1},
    {BW_Q6_K, SCALE_F16, 208, -1, 0, -1},     {BW_Q8_K, SCALE_F32, 0, -1, 0, 260},
    {BW_IQ2_XXS, SCALE_F16, 0, -1, 0, -1},    {BW_IQ2_XS, SCALE_F16, 0, -1, 0, -1},
    {BW_IQ2_S, SCALE_F16, 0, -1, 0, -1},      {BW_IQ3_XXS, SCALE_F16, 0, -1, 0, -1},
    {BW_IQ3_S, SCALE_F16, 0, -1, 0, -1},      {BW_IQ1_S, SCALE_F16, 0, -1, 0, -1},
    {BW_IQ1_M, SCALE_NIBBLES, 48, -1, 0, -1}, {BW_IQ4_NL, SCALE_F16, 0, -1, 0, -1},
    {BW_IQ4_XS, SCALE_F16, 0, -1, 0, -1},     {BW_TQ1_0, SCALE_F16, 52, -1, 0, -1},
    {BW_TQ2_0, SCALE_F16, 64, -1, 0, -1},     {BW_MXFP4, SCALE_E8M0, 0, -1, 0, -1},
    {BW_NVFP4, SCALE_E4M3, 0, -1, 0, -1},     {BW_Q1_0, SCALE_F16, 0, -1, 0, -1},
    {BW_Q2_0, SCALE_F16, 0, -1, 0, -1},
};

static const struct mm_layout *layout_of(bw_dtype dtype)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].dtype == dtype)
            return &layouts[i];
    return NULL;
}

static bool is_plain(bw_dtype dtype)
{
    return dtype == BW_F32 || dtype == BW_F16 || dtype == BW_BF16 || dtype == BW_F64;
}

bool mm_values_can(bw_dtype dtype)
{
    return is_plain(dtype) || layout_of(dtype) != NULL;
}

/* What must agree with the random quants of a block: their sums. */
static void set_sums(const mm_values *v, unsigned char *b, float scale)
{
    const signed char *q = (const signed char *)b + 4;
    if (v->dtype == BW_Q8_1) {
        int sum = 0;
        for (int i = 0; i < 32; i++)
            sum += q[i];
        uint16_t h = bw_f32_to_f16(scale * (float)sum);
        memcpy(b + v->layout->sums, &h, 2);
        return;
    }
    for (int g = 0; g < 16; g++) { /* Q8_K */
        int sum = 0;
        for (int i = 0; i < 16; i++)
            sum += q[g * 16 + i];
        int16_t s = (int16_t)sum;
        memcpy(b + v->layout->sums + g * 2, &s, 2);
    }
}

/* A scale out of the table, picked by the random byte that lies in its place. */
static void set_scale(const mm_values *v, unsigned char *b)
{
    const struct mm_layout *l = v->layout;
    unsigned char *p = b + l->scale;
    uint16_t h = v->scale[*p];
    switch (l->kind) {
    case SCALE_F16:
        if (l->minimum >= 0)
            memcpy(b + l->minimum, &v->minimum[*p], 2);
        memcpy(p, &h, 2);
        if (l->sums >= 0)
            set_sums(v, b, bw_f16_to_f32(h));
        break;
    case SCALE_F32: {
        float f = v->scale_f32[*p];
        memcpy(p, &f, 4);
        set_sums(v, b, f);
        break;
    }
    case SCALE_NIBBLES: /* the upper nibbles of four words, the lowest first */
        for (int i = 0; i < 4; i++)
            p[i * 2 + 1] = (unsigned char)((p[i * 2 + 1] & 15) | (h >> (i * 4) & 15) << 4);
        break;
    case SCALE_E8M0:
        *p = (unsigned char)h;
        break;
    case SCALE_E4M3:
        for (int i = 0; i < 4; i++)
            p[i] = (unsigned char)v->scale[p[i]];
        break;
    }
}

/* What is random but should not be quite: bit patterns that no encoder writes, and minima that have nothing to do with
 * their scales, so that groups of values lie far from 0. A minimum is its scale but for the lowest bits. */
static void mend(bw_dtype dtype, unsigned char *b)
{
    if (dtype == BW_TQ2_0) { /* -1, 0, 1 are there; 11 becomes 10 */
        for (int i = 0; i < 64; i++)
            b[i] = (unsigned char)(b[i] & ~(b[i] >> 1 & 0x55));
    } else if (dtype == BW_Q6_K) { /* int8 scales of a quarter of the range: d is far from binary16's smallest then */
        for (int i = 192; i < 208; i++)
            b[i] = (unsigned char)((signed char)b[i] / 4);
    } else if (dtype == BW_Q2_K) {
        for (int i = 0; i < 16; i++)
            b[i] = (unsigned char)((b[i] & 0x1f) | (b[i] & 0x0e) << 4);
    } else if (dtype == BW_Q4_K || dtype == BW_Q5_K) {
        for (int i = 4; i < 8; i++) {
            b[i + 4] = (unsigned char)((b[i] & 0xfc) | (b[i + 4] & 3));
            b[i + 8] = (unsigned char)((b[i + 8] & 0x3f) | (b[i + 8] & 0x0c) << 4);
        }
    }
}

/* Four elements out of every word, twelve bits each; a tail takes a word of its own. */
#define FILL_PLAIN(name, type, table)                                                                                  \
    static void name(const mm_values *v, words *w, int64_t n, type *dst)                                               \
    {                                                                                                                  \
        const type *t = v->plain.table;                                                                                \
        int64_t i = 0;                                                                                                 \
        for (; i + 4 <= n; i += 4) {                                                                                   \
            uint64_t r = next(w);                                                                                      \
            dst[i] = t[r >> 52];                                                                                       \
            dst[i + 1] = t[r >> 40 & (MM_LEVELS - 1)];                                                                 \
            dst[i + 2] = t[r >> 28 & (MM_LEVELS - 1)];                                                                 \
            dst[i + 3] = t[r >> 16 & (MM_LEVELS - 1)];                                                                 \
        }                                                                                                              \
        for (uint64_t r = next(w); i < n; i++, r <<= 12)                                                               \
            dst[i] = t[r >> 52];                                                                                       \
    }
FILL_PLAIN(fill_u16, uint16_t, u16)
FILL_PLAIN(fill_f32, float, f32)
FILL_PLAIN(fill_f64, double, f64)

void mm_values_fill(const mm_values *v, uint64_t seed, uint64_t tensor, uint64_t chunk, int64_t n, void *dst)
{
    words w = words_of(seed, tensor, chunk);
    if (v->dtype == BW_F32)
        fill_f32(v, &w, n, dst);
    else if (v->dtype == BW_F64)
        fill_f64(v, &w, n, dst);
    else if (is_plain(v->dtype))
        fill_u16(v, &w, n, dst);
    if (is_plain(v->dtype))
        return;
    int64_t block = bw_dtype_block_bytes(v->dtype), n_blocks = n / bw_dtype_block_elements(v->dtype);
    unsigned char *b = dst;
    fill_bytes(&w, b, (size_t)(n_blocks * block));
    for (int64_t i = 0; i < n_blocks; i++, b += block) {
        mend(v->dtype, b);
        set_scale(v, b);
    }
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void make_plain(mm_values *v, double mean, double sigma)
{
    for (int i = 0; i < MM_LEVELS; i++) {
        /* evenly spaced; the standard deviation of such a list is its step times sqrt((n^2 - 1) / 12) */
        double x = mean + sigma * (i - (MM_LEVELS - 1) / 2.0) / sqrt(((double)MM_LEVELS * MM_LEVELS - 1) / 12);
        if (v->dtype == BW_F64)
            v->plain.f64[i] = x;
        else if (v->dtype == BW_F32)
            v->plain.f32[i] = (float)x;
        else
            v->plain.u16[i] = v->dtype == BW_F16 ? bw_f32_to_f16((float)x) : bw_f32_to_bf16((float)x);
    }
}

/* Scales around `about`, from 0.75 to 1.25 of it; half of them negative, so that a list of values that is not even
 * about 0 (Q4_0 has -8 to 7) is even over many blocks. */
static void make_signed_scales(mm_values *v, double about)
{
    for (int i = 0; i < 256; i++) {
        double d = about * (0.75 + (i & 127) / 254.0) * (i & 128 ? -1 : 1);
        v->scale[i] = bw_f32_to_f16((float)d);
        v->minimum[i] = bw_f32_to_f16((float)(d * v->layout->ratio));
        v->scale_f32[i] = (float)d;
    }
}

/* Two neighbouring codes of an unsigned scale, mixed so that the mean of their squares is about^2. */
static void make_mixed_scales(mm_values *v, double low, double high, int code, double about)
{
    double share = (about * about - low * low) / (high * high - low * low);
    for (int i = 0; i < 256; i++)
        v->scale[i] = (uint16_t)(code + (i < share * 256));
}

static void make_scales(mm_values *v, double about)
{
    if (v->layout->kind == SCALE_E8M0) { /* relative to code 127 */
        int exponent;
        frexp(about, &exponent);
        exponent = exponent < -120 ? -120 : exponent > 120 ? 120 : exponent;
        make_mixed_scales(v, ldexp(1, exponent - 1), ldexp(1, exponent), 126 + exponent, about);
    } else if (v->layout->kind == SCALE_E4M3) {
        int code = 0;
        while (code < 0x7d && bw_f8_e4m3_to_f32((uint8_t)(code + 1)) <= about)
            code++;
        make_mixed_scales(v, bw_f8_e4m3_to_f32((uint8_t)code), bw_f8_e4m3_to_f32((uint8_t)(code + 1)), code, about);
    } else {
        make_signed_scales(v, about);
    }
}

/* Root mean square of what a sample decodes to. */
static bw_status measure(const mm_values *v, double *out, bw_err *err)
{
    enum { N = 1 << 15 };
    size_t n_bytes = (size_t)bw_dtype_bytes(v->dtype, N);
    float *f = bw_alloc_array(N, sizeof *f);
    void *bytes = bw_alloc(n_bytes);
    bw_status status = f && bytes ? BW_OK : bw_fail_memory(err, n_bytes, "a sample");
    if (status == BW_OK) {
        mm_values_fill(v, 0, 0, 0, N, bytes);
        status = bw_decode_row(v->dtype, bytes, f, N, err);
    }
    double sum = 0;
    for (int i = 0; status == BW_OK && i < N; i++)
        sum += (double)f[i] * f[i];
    *out = sqrt(sum / N);
    bw_free(bytes);
    bw_free(f);
    return status;
}

bw_status mm_values_init(mm_values *v, bw_dtype dtype, double mean, double sigma, bw_err *err)
{
    v->dtype = dtype;
    v->layout = layout_of(dtype);
    if (is_plain(dtype)) {
        make_plain(v, mean, sigma);
        return BW_OK;
    }
    if (!v->layout)
        return bw_fail(err, BW_E_UNSUPPORTED, "there is no way to make random %s weights", bw_dtype_name(dtype));
    double unit;
    make_scales(v, 1);
    BW_TRY(measure(v, &unit, err));
    make_scales(v, sigma / unit);
    return BW_OK;
}
