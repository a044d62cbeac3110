/* Element types: look-ups over dtypes.def, and the 8-bit float. Refuses nothing loudly: unknown names and numbers give
 * BW_DTYPE_COUNT, impossible sizes -1. */
#include "bw_dtype.h"

#include <strings.h>

#include "bw_mem.h"

typedef struct dtype_row {
    const char *name;
    int gguf;
    int64_t elements, bytes;
    bool quantised;
} dtype_row;

static const dtype_row rows[BW_DTYPE_COUNT] = {
#define BW_DTYPE(NAME, name, gguf, elements, bytes, quantised) {#name, gguf, elements, bytes, quantised},
#include "dtypes.def"
#undef BW_DTYPE
};

/* beeswax.h repeats the list for users. */
enum {
#define BW_DTYPE(NAME, name, gguf, elements, bytes, quantised) ROW_##NAME,
#include "dtypes.def"
#undef BW_DTYPE
    N_ROWS
};
_Static_assert((int)N_ROWS == (int)BW_DTYPE_COUNT, "beeswax.h and dtypes.def list the same types");
#define BW_DTYPE(NAME, name, gguf, elements, bytes, quantised) _Static_assert((int)ROW_##NAME == (int)BW_##NAME, #name);
#include "dtypes.def"
#undef BW_DTYPE

static bool is_known(bw_dtype dtype)
{
    return (unsigned)dtype < BW_DTYPE_COUNT;
}

const char *bw_dtype_name(bw_dtype dtype)
{
    return is_known(dtype) ? rows[dtype].name : "?";
}

bw_dtype bw_dtype_from_name(const char *name)
{
    for (int i = 0; i < BW_DTYPE_COUNT; i++)
        if (strcasecmp(name, rows[i].name) == 0)
            return (bw_dtype)i;
    return BW_DTYPE_COUNT;
}

bw_dtype bw_dtype_from_gguf(uint32_t gguf_type)
{
    for (int i = 0; i < BW_DTYPE_COUNT; i++)
        if (rows[i].gguf >= 0 && (uint32_t)rows[i].gguf == gguf_type)
            return (bw_dtype)i;
    return BW_DTYPE_COUNT;
}

int bw_dtype_gguf(bw_dtype dtype)
{
    return is_known(dtype) ? rows[dtype].gguf : -1;
}

int64_t bw_dtype_block_elements(bw_dtype dtype)
{
    return is_known(dtype) ? rows[dtype].elements : 1;
}

int64_t bw_dtype_block_bytes(bw_dtype dtype)
{
    return is_known(dtype) ? rows[dtype].bytes : 0;
}

bool bw_dtype_is_quantised(bw_dtype dtype)
{
    return is_known(dtype) && rows[dtype].quantised;
}

int64_t bw_dtype_bytes(bw_dtype dtype, int64_t n)
{
    int64_t bytes = 0;
    if (!is_known(dtype) || n < 0 || n % rows[dtype].elements != 0 ||
        !bw_mul_i64(n / rows[dtype].elements, rows[dtype].bytes, &bytes))
        return -1;
    return bytes;
}

float bw_f8_e4m3_to_f32(uint8_t v)
{
    uint32_t sign = (uint32_t)(v & 0x80u) << 24, exponent = v >> 3 & 15u, mantissa = v & 7u;
    if (exponent == 15 && mantissa == 7)
        return bw_f32_from_bits(sign | 0x7fc00000u);
    if (exponent == 0) {
        float f = (float)mantissa * 0x1p-9f;
        return sign ? -f : f;
    }
    return bw_f32_from_bits(sign | (exponent + 120) << 23 | mantissa << 20);
}

uint8_t bw_f32_to_f8_e4m3(float f)
{
    uint32_t b = bw_f32_bits(f), sign = b >> 24 & 0x80u, abs = b & 0x7fffffffu;
    if (abs > 0x7f800000u)
        return (uint8_t)(sign | 0x7fu);
    if (abs >= 0x43e00000u) /* 448 and above */
        return (uint8_t)(sign | 0x7eu);
    if (abs < 0x3c800000u) { /* below 2^-6, subnormal result: 2^14 has an ulp of 2^-9, so the addition rounds */
        float r = bw_f32_from_bits(abs) + 0x1p14f;
        return (uint8_t)(sign | (bw_f32_bits(r) - 0x46800000u));
    }
    return (uint8_t)(sign | ((abs - 0x3c000000u + 0x7ffffu + (abs >> 20 & 1)) >> 20));
}
