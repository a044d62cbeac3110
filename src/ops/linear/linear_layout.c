/* Packed weights and activation formats: sizes, packing, decoding. Owns the one table of fields; refuses to multiply.
 */
#include "linear_layout.h"

#include <math.h>
#include <string.h>

#include "bw_mem.h"
#include "bw_quant.h"
#include "linear/bw_linear_gpu.h"
#include "linear_planes.h"

/* Offsets are those of GGUF's blocks (src/tensor/dtypes.def). Scales come first, so that a kernel meets them first. */
static const bw_layout_field fields[BW_DTYPE_COUNT][BW_MAX_FIELDS + 1] = {
    [BW_F32] = {{0, 4, 0, false}},
    [BW_F16] = {{0, 2, 0, false}},
    [BW_BF16] = {{0, 2, 0, false}},
    [BW_Q4_0] = {{0, 2, 1, false}, {2, 4, 4, false}},
    [BW_Q4_1] = {{0, 2, 2, false}, {4, 4, 4, false}},
    [BW_Q5_0] = {{0, 2, 1, false}, {2, 4, 1, true}, {6, 4, 4, false}},
    [BW_Q5_1] = {{0, 2, 2, false}, {4, 4, 1, true}, {8, 4, 4, false}},
    [BW_Q8_0] = {{0, 2, 1, false}, {2, 4, 8, false}},
    [BW_Q2_K] = {{80, 2, 2, false}, {0, 4, 4, false}, {16, 4, 16, false}},
    [BW_Q3_K] = {{108, 2, 1, false}, {96, 4, 3, false}, {0, 4, 8, false}, {32, 4, 16, false}},
    [BW_Q4_K] = {{0, 2, 2, false}, {4, 4, 3, false}, {16, 4, 32, false}},
    [BW_Q5_K] = {{0, 2, 2, false}, {4, 4, 3, false}, {16, 4, 8, false}, {48, 4, 32, false}},
    [BW_Q6_K] = {{208, 2, 1, false}, {192, 4, 4, false}, {128, 4, 16, false}, {0, 4, 32, false}},
    [BW_IQ4_NL] = {{0, 2, 1, false}, {2, 4, 4, false}},
    [BW_IQ4_XS] = {{0, 2, 2, false}, {4, 4, 1, false}, {8, 4, 32, false}},
    [BW_MXFP4] = {{0, 1, 1, false}, {1, 4, 4, false}},
};

const bw_layout_field *bw_layout_fields(bw_dtype dtype)
{
    return (int)dtype >= 0 && dtype < BW_DTYPE_COUNT && fields[dtype][0].unit ? fields[dtype] : NULL;
}

/* The activations a packed weight wants: 8-bit for quantised types, else f32. */
static bool wants_q8(bw_dtype dtype)
{
    return bw_dtype_is_quantised(dtype);
}

uint32_t bw_linear_choose_layout(const bw_device *device, bw_dtype dtype, int64_t n, int64_t k)
{
    bw_planes planes;
    if (device->kind != BW_DEVICE_CPU)
        return bw_planes_init(&planes, dtype, k) ? BW_LAYOUT_PLANES : BW_LAYOUT_PLAIN;
    if (!device->cpu->avx2 || !bw_layout_fields(dtype) || n < 1 || k < 1 || k % bw_dtype_block_elements(dtype))
        return BW_LAYOUT_PLAIN;
    if (wants_q8(dtype) && k % 32)
        return BW_LAYOUT_PLAIN;
    return BW_LAYOUT_ROWS16;
}

int64_t bw_linear_layout_rows(uint32_t layout)
{
    return layout == BW_LAYOUT_ROWS16 ? BW_GROUP : 1;
}

int64_t bw_linear_layout_bytes(uint32_t layout, bw_dtype dtype, int64_t n, int64_t k)
{
    int64_t row = bw_dtype_bytes(dtype, k), rows, bytes;
    bw_planes planes;
    if (layout == BW_LAYOUT_PLANES)
        return n >= 0 && bw_planes_init(&planes, dtype, k) && bw_mul_i64(n, planes.row_bytes, &bytes) ? bytes : -1;
    if (row < 0 || n < 0 || layout > BW_LAYOUT_ROWS16 || (layout && !bw_layout_fields(dtype)))
        return -1;
    if (!bw_add_i64(n, bw_linear_layout_rows(layout) - 1, &rows))
        return -1;
    rows -= rows % bw_linear_layout_rows(layout);
    return bw_mul_i64(rows, row, &bytes) ? bytes : -1;
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

static uint32_t transpose_bits_back(uint32_t v)
{
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t x = v >> 8 * i & 0xffu;
        x = (x | x << 12) & 0x000f000fu;
        x = (x | x << 6) & 0x03030303u;
        x = (x | x << 3) & 0x11111111u;
        r |= x << i;
    }
    return r;
}

/* Units of `unit` bytes of n_rows rows (row_bytes apart) side by side; rows up to 16 are zeros. */
static inline __attribute__((always_inline)) uint8_t *pack_units(uint8_t *dst, const uint8_t *src, size_t unit,
                                                                 int64_t count, int n_rows, size_t row_bytes)
{
    for (int64_t i = 0; i < count; i++, dst += BW_GROUP * unit, src += unit)
        for (int r = 0; r < n_rows; r++)
            memcpy(dst + (size_t)r * unit, src + (size_t)r * row_bytes, unit);
    return dst;
}

static uint8_t *pack_field(uint8_t *dst, const uint8_t *src, const bw_layout_field *f, int64_t count, int n_rows,
                           size_t row_bytes)
{
    src += f->offset;
    if (f->bits) {
        for (int r = 0; r < n_rows; r++) {
            uint32_t v;
            memcpy(&v, src + (size_t)r * row_bytes, 4);
            v = transpose_bits(v);
            memcpy(dst + (size_t)r * 4, &v, 4);
        }
        return dst + BW_GROUP * 4;
    }
    if (n_rows == BW_GROUP && f->unit == 4)
        return pack_units(dst, src, 4, count, BW_GROUP, row_bytes);
    if (n_rows == BW_GROUP && f->unit == 2)
        return pack_units(dst, src, 2, count, BW_GROUP, row_bytes);
    return pack_units(dst, src, (size_t)f->unit, count, n_rows, row_bytes);
}

void bw_linear_pack_rows(uint32_t layout, bw_dtype dtype, int64_t n, int64_t k, int64_t row_begin, int64_t row_end,
                         const void *src, void *dst)
{
    size_t row_bytes = (size_t)bw_dtype_bytes(dtype, k);
    (void)n;
    if (layout == BW_LAYOUT_PLAIN) {
        memcpy((char *)dst + (size_t)row_begin * row_bytes, src, (size_t)(row_end - row_begin) * row_bytes);
        return;
    }
    bw_planes planes;
    if (layout == BW_LAYOUT_PLANES && bw_planes_init(&planes, dtype, k)) {
        const uint8_t *from = src;
        uint8_t *to = (uint8_t *)dst + row_begin * planes.row_bytes;
        for (int64_t row = row_begin; row < row_end; row++, from += row_bytes, to += planes.row_bytes)
            bw_planes_pack_row(&planes, dtype, k, from, to);
        return;
    }
    const bw_layout_field *list = bw_layout_fields(dtype);
    bool blocks = list[0].count != 0;
    int64_t n_blocks = blocks ? k / bw_dtype_block_elements(dtype) : 1;
    size_t block_bytes = blocks ? (size_t)bw_dtype_block_bytes(dtype) : row_bytes;
    const uint8_t *s = src;
    for (int64_t row = row_begin; row < row_end; row += BW_GROUP, s += BW_GROUP * row_bytes) {
        int n_rows = row_end - row < BW_GROUP ? (int)(row_end - row) : BW_GROUP;
        uint8_t *d = (uint8_t *)dst + (size_t)row * row_bytes;
        if (n_rows < BW_GROUP)
            memset(d, 0, BW_GROUP * row_bytes);
        for (int64_t b = 0; b < n_blocks; b++)
            for (const bw_layout_field *f = list; f->unit; f++)
                d = pack_field(d, s + (size_t)b * block_bytes, f, blocks ? f->count : k, n_rows, row_bytes);
    }
}

/* The plain bytes of row r of the packed block (or whole row of a type without blocks) at src. */
static void unpack_block(const bw_layout_field *list, int64_t whole_row, const uint8_t *src, int r, uint8_t *plain)
{
    for (const bw_layout_field *f = list; f->unit; f++) {
        size_t unit = (size_t)f->unit;
        int64_t count = f->count ? f->count : whole_row;
        for (int64_t i = 0; i < count; i++, src += BW_GROUP * unit) {
            uint32_t v = 0;
            memcpy(&v, src + (size_t)r * unit, unit);
            if (f->bits)
                v = transpose_bits_back(v);
            memcpy(plain + f->offset + (size_t)i * unit, &v, unit);
        }
    }
}

void bw_linear_decode_row(const bw_tensor *w, int64_t row, float *dst)
{
    int64_t k = w->dims[1];
    size_t row_bytes = (size_t)bw_dtype_bytes(w->dtype, k);
    if (w->layout == BW_LAYOUT_PLAIN) {
        size_t stride = w->n_dims == 2 && w->dims[0] > 1 ? (size_t)bw_dtype_bytes(w->dtype, w->strides[0]) : row_bytes;
        bw_decode_row(w->dtype, (const char *)w->data + (size_t)row * stride, dst, k, NULL);
        return;
    }
    bw_planes planes;
    if (w->layout == BW_LAYOUT_PLANES && bw_planes_init(&planes, w->dtype, k)) {
        bw_planes_decode(&planes, w->dtype, k, (const uint8_t *)w->data + row * planes.row_bytes, 0, k, dst);
        return;
    }
    const bw_layout_field *list = bw_layout_fields(w->dtype);
    const uint8_t *group = (const uint8_t *)w->data + (size_t)(row / BW_GROUP) * BW_GROUP * row_bytes;
    int r = (int)(row % BW_GROUP);
    if (list[0].count == 0) {
        /* plain elements: 64 at a time through a small buffer */
        size_t unit = (size_t)list[0].unit;
        for (int64_t i = 0; i < k; i += 64) {
            uint8_t plain[64 * 4];
            int64_t count = k - i < 64 ? k - i : 64;
            unpack_block(list, count, group + (size_t)i * unit * BW_GROUP, r, plain);
            bw_decode_row(w->dtype, plain, dst + i, count, NULL);
        }
        return;
    }
    int64_t elements = bw_dtype_block_elements(w->dtype);
    size_t block_bytes = (size_t)bw_dtype_block_bytes(w->dtype);
    for (int64_t i = 0; i < k; i += elements, group += BW_GROUP * block_bytes) {
        uint8_t plain[256];
        unpack_block(list, 0, group, r, plain);
        bw_decode_row(w->dtype, plain, dst + i, elements, NULL);
    }
}

/* ---- activations ------------------------------------------------------------------------------------------------ */

uint32_t bw_linear_act_format(const bw_device *device, const bw_tensor *w)
{
    (void)device;
    if (w->layout == BW_LAYOUT_PLANES)
        return BW_ACT_GPU;
    return w->layout == BW_LAYOUT_ROWS16 && wants_q8(w->dtype) ? BW_ACT_Q8 : BW_ACT_F32;
}

int64_t bw_act_row_bytes(uint32_t act_format, int64_t k)
{
    int64_t bytes;
    if (act_format == BW_ACT_F32)
        return bw_mul_i64(k, 4, &bytes) ? bytes : -1;
    if (act_format == BW_ACT_GPU)
        return k < 0 || k % 32 || k > INT32_MAX ? -1 : BW_ACT_HALF_BYTES(k);
    if (act_format != BW_ACT_Q8 || k < 0 || k % 32 || !bw_mul_i64(k / 32, 44, &bytes) || bytes > INT64_MAX - 63)
        return -1;
    return (bytes + 63) / 64 * 64;
}

static bool is_half(uint32_t act_format, int64_t n_rows)
{
    return act_format == BW_ACT_GPU && n_rows > BW_LINEAR_FEW;
}

void bw_act_decode_row(uint32_t act_format, int64_t n_rows, const void *row, float *dst, int64_t k)
{
    if (act_format == BW_ACT_F32) {
        memcpy(dst, row, (size_t)k * sizeof *dst);
        return;
    }
    if (is_half(act_format, n_rows)) {
        float scale;
        memcpy(&scale, (const char *)row + 2 * k, sizeof scale);
        bw_decode_row(BW_F16, row, dst, k, NULL);
        for (int64_t i = 0; i < k; i++)
            dst[i] *= scale;
        return;
    }
    bw_act_q8 x = bw_act_q8_view(row, k);
    for (int64_t i = 0; i < k; i++)
        dst[i] = x.d[i / 32] * (float)x.q[i];
}

void bw_act_encode_row(uint32_t act_format, int64_t n_rows, const float *x, void *row, int64_t k)
{
    if (act_format == BW_ACT_F32) {
        memcpy(row, x, (size_t)k * sizeof *x);
        return;
    }
    if (!is_half(act_format, n_rows)) {
        bw_act_q8_blocks(x, row, k, 0, k / 32);
        return;
    }
    float max = 0, scale = 1;
    for (int64_t i = 0; i < k; i++)
        max = fabsf(x[i]) <= 3.402823466e38f ? fmaxf(max, fabsf(x[i])) : INFINITY;
    int exponent = (int)(bw_f32_bits(max) >> 23) - 127;
    if (max > 0 && max < INFINITY && (exponent < BW_ACT_HALF_LEAST || exponent >= BW_ACT_HALF_MOST)) {
        int power = BW_ACT_HALF_TOP - exponent;
        scale = ldexpf(1, power > 120 ? 120 : power);
    }
    uint16_t *h = row;
    for (int64_t i = 0; i < k; i++)
        h[i] = bw_f32_to_f16(x[i] * scale);
    scale = 1 / scale;
    memcpy((char *)row + 2 * k, &scale, sizeof scale);
}

void bw_act_q8_blocks(const float *x, void *row, int64_t k, int64_t begin, int64_t end)
{
    bw_act_q8 view = bw_act_q8_view(row, k);
    char *base = row;
    for (int64_t b = begin; b < end; b++) {
        const float *v = x + b * 32;
        float max = 0, bad = 0;
        for (int i = 0; i < 32; i++) {
            float a = fabsf(v[i]);
            bad += a - a; /* NaN when v[i] is NaN or infinite */
            max = a > max ? a : max;
        }
        /* Below 1e-30 the inverse would leave f32; such a block is zero. */
        float d = max < 1e-30f ? 0.0f : max / 127.0f, inverse = max < 1e-30f ? 0.0f : 127.0f / max;
        bool finite = bad == 0.0f;
        int8_t *q = (int8_t *)(base + b * 32);
        int sum[2] = {0, 0};
        for (int i = 0; i < 32; i++) {
            q[i] = finite ? (int8_t)lrintf(v[i] * inverse) : 0;
            sum[i / 16] += q[i];
        }
        if (BW_ACT_SCALE_IS_NORMAL(d))
            d = bw_f16_to_f32(bw_f32_to_f16(d));
        if (!finite)
            d = NAN;
        float s = d * (float)(sum[0] + sum[1]);
        int16_t sum16[2] = {(int16_t)sum[0], (int16_t)sum[1]};
        memcpy(base + ((const char *)(view.d + b) - base), &d, 4);
        memcpy(base + ((const char *)(view.s + b) - base), &s, 4);
        memcpy(base + ((const char *)(view.sum16 + 2 * b) - base), sum16, 4);
    }
}
