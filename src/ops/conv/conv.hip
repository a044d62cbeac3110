/* The convolutions of one and two dimensions on a GPU, for every type and stride. Two forms: a product of tiles, whose
 * inner dimension is the channels of one tap after the other, so that no index is divided; and, for groups of few
 * channels, a thread per output. */
#include "bw_kernel.h"

#include "conv/bw_conv_args.h"

enum { BLOCK = 256, TILE = 64, DEPTH = 16, EACH = 4 };

BW_DEVICE float multiply_add(float a, float b, float c)
{
    return bw_fma(a, b, c);
}
BW_DEVICE double multiply_add(double a, double b, double c)
{
    return bw_fma(a, b, c);
}
BW_DEVICE uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c)
{
    return a * b + c;
}
template <typename W> BW_DEVICE bool is_finite(W x)
{
    return x - x == 0; /* always, for integers */
}

/* The input position that tap `tap` of output position `at` meets, or -1 when there is none. All below 2^32. */
template <bool TRANSPOSED> BW_DEVICE int32_t position(const bw_conv_axis &axis, int32_t at, int32_t tap)
{
    int64_t i = TRANSPOSED ? (int64_t)at + axis.padding - tap * axis.dilation
                           : at * axis.stride + tap * axis.dilation - axis.padding;
    if (TRANSPOSED && i >= 0 && axis.stride > 1) {
        uint32_t whole = (uint32_t)i / (uint32_t)axis.stride;
        i = whole * (uint32_t)axis.stride == (uint32_t)i ? (int64_t)whole : -1;
    }
    return i >= 0 && i < axis.size ? (int32_t)i : -1;
}

struct pixel {
    int32_t n, y, x;
};
/* i: below 2^31, as the host sees to. */
BW_DEVICE pixel find_pixel(const bw_conv &c, int64_t i)
{
    pixel p;
    uint32_t row = (uint32_t)i / (uint32_t)c.w.out, n = row / (uint32_t)c.h.out;
    p.x = (int32_t)((uint32_t)i - row * (uint32_t)c.w.out);
    p.n = (int32_t)n;
    p.y = (int32_t)(row - n * (uint32_t)c.h.out);
    return p;
}

/* y's rows are 64 of a group's output channels, its columns 64 pixels of the batch. Grid: tiles of pixels, of channels,
 * groups. Where a tap lies outside of x, x counts as 0; a weight that is not finite must not be multiplied with that. */
template <typename T, typename W, bool TRANSPOSED>
BW_DEVICE void conv_tiles(const bw_conv &c, const T *x, const T *w, T *y, int64_t first_tile, int64_t first_group)
{
    constexpr bool is_integer = (W)0.5f == 0;
    constexpr int UNROLL = sizeof(W) == 8 ? 2 : is_integer ? 4 : DEPTH; /* all of f64's would spill; integers need not be fast */
    BW_SHARED W w_tile[DEPTH][TILE + 4], x_tile[DEPTH][TILE + 4];
    BW_SHARED int64_t y_at[TILE];
    BW_SHARED int is_inside[TILE], wild_chunk; /* the last chunk with a weight that is not finite */
    const int thread = bw_thread(), tx = thread % 16, ty = thread / 16, line = thread % TILE;
    const int64_t group = first_group + bw_block_z(), o0 = bw_block_y() * TILE;
    const int64_t n_pixels = c.batch * c.h.out * c.w.out, pixel0 = (first_tile + bw_block()) * TILE;
    const int rows = bw_least(c.group_out - o0, TILE), columns = bw_least(n_pixels - pixel0, TILE);
    const pixel own = find_pixel(c, pixel0 + (line < columns ? line : 0));
    x += own.n * c.x_batch + group * c.group_in * c.x_channel;
    w += group * c.w_group + o0 * c.w_out;
    if (thread < TILE)
        y_at[thread] = own.n * c.y_batch + own.y * c.y_h + own.x * c.y_w;
    if (thread == 0)
        wild_chunk = 0;
    W sum[EACH][EACH]; /* [channel][pixel] */
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            sum[i][j] = 0;
    int chunk = 0;
    bw_barrier();
    const int group_in = (int)c.group_in;
    x += thread / TILE * c.x_channel;
    w += thread % DEPTH * c.w_in + thread / DEPTH * c.w_out;
    for (int r = 0; r < (int)c.h.kernel; r++)
        for (int s = 0; s < (int)c.w.kernel; s++) {
            const int32_t iy = position<TRANSPOSED>(c.h, own.y, r), ix = position<TRANSPOSED>(c.w, own.x, s);
            const bool inside = iy >= 0 && ix >= 0 && line < columns;
            const T *x_tap = x + iy * c.x_h + ix * c.x_w, *w_tap = w + r * c.w_h + s * c.w_w; /* of the next chunk */
            if (thread < TILE)
                is_inside[thread] = inside;
#pragma unroll 1
            for (int c0 = 0; c0 < group_in; c0 += DEPTH) {
                const int depth = group_in - c0; /* DEPTH or more: a whole chunk */
                chunk++;
#pragma unroll
                for (int e = 0; e < TILE * DEPTH / BLOCK; e++) {
                    int k = thread / TILE + e * (BLOCK / TILE);
                    x_tile[k][line] = inside && k < depth ? (W)bw_get(x_tap[e * (BLOCK / TILE) * c.x_channel]) : (W)0;
                    int kw = thread % DEPTH, i = thread / DEPTH + e * (BLOCK / DEPTH);
                    W weight = i < rows && kw < depth ? (W)bw_get(w_tap[e * (BLOCK / DEPTH) * c.w_out]) : (W)0;
                    w_tile[kw][i] = weight;
                    if (!is_finite(weight))
                        wild_chunk = chunk;
                }
                x_tap += DEPTH * c.x_channel;
                w_tap += DEPTH * c.w_in;
                bw_barrier();
                const bool is_wild = !is_integer && wild_chunk == chunk;
#pragma unroll UNROLL
                for (int k = 0; k < DEPTH; k++) {
                    W a[EACH], b[EACH];
#pragma unroll
                    for (int i = 0; i < EACH; i++)
                        a[i] = w_tile[k][ty * EACH + i];
#pragma unroll
                    for (int j = 0; j < EACH; j++)
                        b[j] = x_tile[k][tx * EACH + j];
#pragma unroll
                    for (int i = 0; i < EACH; i++)
#pragma unroll
                        for (int j = 0; j < EACH; j++)
                            if (!is_wild || is_inside[tx * EACH + j])
                                sum[i][j] = multiply_add(a[i], b[j], sum[i][j]);
                }
                bw_barrier();
            }
        }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (ty * EACH + i < rows && tx * EACH + j < columns)
                y[y_at[tx * EACH + j] + (group * c.group_out + o0 + ty * EACH + i) * c.y_channel] =
                    bw_put<T>((typename bw_wide<T>::type)sum[i][j]);
}

/* A thread per output; grid: pixels, output channels of all groups. */
template <typename T, typename W, bool TRANSPOSED>
BW_DEVICE void conv_each(const bw_conv &c, const T *x, const T *w, T *y, int64_t first_tile, int64_t first_channel)
{
    const int64_t i = (first_tile + bw_block()) * BLOCK + bw_thread(), channel = first_channel + bw_block_y();
    if (i >= c.batch * c.h.out * c.w.out)
        return;
    const pixel p = find_pixel(c, i);
    const int64_t group = (uint32_t)channel / (uint32_t)c.group_out, o = channel - group * c.group_out;
    x += p.n * c.x_batch + group * c.group_in * c.x_channel;
    w += group * c.w_group + o * c.w_out;
    W sum = 0;
    for (int r = 0; r < (int)c.h.kernel; r++) {
        const int32_t iy = position<TRANSPOSED>(c.h, p.y, r);
        if (iy < 0)
            continue;
        for (int s = 0; s < (int)c.w.kernel; s++) {
            const int32_t ix = position<TRANSPOSED>(c.w, p.x, s);
            if (ix < 0)
                continue;
            const T *from = x + iy * c.x_h + ix * c.x_w, *weights = w + r * c.w_h + s * c.w_w;
            for (int k = 0; k < (int)c.group_in; k++, from += c.x_channel, weights += c.w_in)
                sum = multiply_add((W)bw_get(*from), (W)bw_get(*weights), sum);
        }
    }
    y[p.n * c.y_batch + channel * c.y_channel + p.y * c.y_h + p.x * c.y_w] =
        bw_put<T>((typename bw_wide<T>::type)sum);
}

/* Results of a library that are NaN, once more by their definition, which passes over taps that meet no input. */
template <typename T>
BW_DEVICE void conv_repair(const bw_conv &c, const T *x, const T *w, T *y, int64_t first_channel)
{
    const int64_t i = bw_grid_thread(), channel = first_channel + bw_block_y();
    if (i >= c.batch * c.h.out * c.w.out)
        return;
    const pixel p = find_pixel(c, i);
    const auto found = bw_get(y[p.n * c.y_batch + channel * c.y_channel + p.y * c.y_h + p.x * c.y_w]);
    if (found != found)
        conv_each<T, float, false>(c, x, w, y, 0, first_channel);
}
#define REPAIR(name, T)                                                                                                \
    BW_KERNEL(BLOCK, conv_repair_##name)                                                                               \
    (const bw_conv c, const T *x, const T *w, T *y, int64_t first_channel)                                             \
    {                                                                                                                  \
        conv_repair<T>(c, x, w, y, first_channel);                                                                     \
    }
REPAIR(f32, float)
REPAIR(f16, bw_f16)
REPAIR(bf16, bw_bf16)

/* first_tile, first_y: of this launch. */
#define KERNEL(op, transposed, name, T, W)                                                                             \
    BW_KERNEL(BLOCK, op##_tiles_##name)                                                                                \
    (const bw_conv c, const T *x, const T *w, T *y, int64_t first_tile, int64_t first_group)                           \
    {                                                                                                                  \
        conv_tiles<T, W, transposed>(c, x, w, y, first_tile, first_group);                                             \
    }                                                                                                                  \
    BW_KERNEL(BLOCK, op##_each_##name)                                                                                 \
    (const bw_conv c, const T *x, const T *w, T *y, int64_t first_tile, int64_t first_channel)                         \
    {                                                                                                                  \
        conv_each<T, W, transposed>(c, x, w, y, first_tile, first_channel);                                            \
    }
#define TYPE(name, T, W)                                                                                               \
    KERNEL(conv, false, name, T, W)                                                                                    \
    KERNEL(conv_transpose, true, name, T, W)
TYPE(f32, float, float)
TYPE(f64, double, double)
TYPE(f16, bw_f16, float)
TYPE(bf16, bw_bf16, float)
TYPE(u8, uint8_t, uint32_t)
TYPE(u32, uint32_t, uint32_t)
