/* CONV1D and CONV2D on matrix units, for f16 and bf16: a product of tiles whose second operand, x under every tap, is
 * never stored anywhere but in shared memory. grid x: tiles of pixels of the batch, y: tiles of a group's outputs, z:
 * groups, each in n_parts of k. Refuses transposed convolutions, more than BW_CONV_GEMM_TAPS taps in a direction and
 * weights that are not contiguous: conv.hip has those.
 *
 * k runs as the weights lie, so a piece of eight is 16 bytes of a weight's row; of x a thread gathers the same eight of
 * its own pixel, whose neighbours' threads read neighbouring addresses. Where a tap lies outside of x, x counts as 0. A
 * weight that is not finite makes NaN of that, so a NaN at such a pixel is computed again, product by product. */
#include "matmul/bw_gemm_tile.h"
#include "conv/bw_conv_args.h"

enum { BLOCK = BW_GPU_GEMM_BLOCK, DEPTH = BW_GPU_GEMM_K, STRIDE = BW_GPU_GEMM_STRIDE, CHUNKS = DEPTH / 8 };

/* One k: where it lies from a pixel's first tap on, and which bits of the pixel's mask say that it is inside. */
struct tap_entry {
    uint32_t offset, bits;
};
enum { NEVER = 0x8000 };

BW_DEVICE tap_entry find_tap(const bw_conv_gemm &p, int k)
{
    const uint32_t high = (uint32_t)((uint64_t)(uint32_t)k * p.per_taps >> 32);
    const uint32_t channel = (high + (uint32_t)k) >> p.taps_shift, tap = (uint32_t)k - channel * (uint32_t)p.taps;
    const uint32_t r = tap * p.per_kernel_w >> 16, s = tap - r * (uint32_t)p.kernel_w;
    tap_entry entry;
    entry.offset = channel * p.x_channel + r * p.x_tap_row + s * p.x_tap;
    entry.bits = k < p.k ? 1u << r | 0x10000u << s : (uint32_t)NEVER;
    return entry;
}

/* Bit r: row r of the taps lies inside of x, bit 16 + s: column s. 0: there is no such pixel. */
BW_DEVICE uint32_t find_inside(const bw_conv_gemm &p, int32_t y0, int32_t x0)
{
    uint32_t inside = 0;
#pragma unroll 1
    for (int r = 0; r < p.kernel_h; r++)
        inside |= (uint32_t)(y0 + r * p.dilation_h) < (uint32_t)p.size_h ? 1u << r : 0;
#pragma unroll 1
    for (int s = 0; s < p.kernel_w; s++)
        inside |= (uint32_t)(x0 + s * p.dilation_w) < (uint32_t)p.size_w ? 0x10000u << s : 0;
    return inside;
}

struct conv_pixel {
    int32_t n, y, x;
};
BW_DEVICE conv_pixel find_conv_pixel(const bw_conv_gemm &p, int pixel)
{
    const uint32_t row = (uint32_t)pixel / (uint32_t)p.out_w, n = row / (uint32_t)p.out_h;
    conv_pixel at;
    at.x = (int32_t)((uint32_t)pixel - row * (uint32_t)p.out_w);
    at.y = (int32_t)(row - n * (uint32_t)p.out_h);
    at.n = (int32_t)n;
    return at;
}
BW_DEVICE int64_t find_output(const bw_conv_gemm &p, const conv_pixel &at)
{
    return at.n * p.y_batch + at.y * p.y_h + at.x * p.y_w;
}
/* The first tap's place from x on in bytes, modulo 2^32: it may lie before x. */
BW_DEVICE uint32_t find_input(const bw_conv_gemm &p, const conv_pixel &at, int group)
{
    return (uint32_t)group * p.x_group + (uint32_t)at.n * p.x_batch +
           (uint32_t)(at.y * p.stride_h - p.padding_h) * p.x_h +
           (uint32_t)(at.x * p.stride_w - p.padding_w) * p.x_w;
}

/* x of eight k at this thread's pixel, EACH times. */
template <int SIZE> struct x_copy {
    static constexpr int EACH = SIZE * CHUNKS / BLOCK;
    uint32_t words[EACH][8];

    BW_DEVICE_SPECIAL void begin(const tap_entry *table, const uint8_t *x, uint32_t own, uint32_t inside)
    {
        const tap_entry *const from = table + (uint32_t)bw_thread() / SIZE * 8;
#pragma unroll
        for (int e = 0; e < EACH; e++)
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const tap_entry entry = from[e * (BLOCK / SIZE) * 8 + j];
                words[e][j] = 0;
                if ((inside & entry.bits) == entry.bits)
                    words[e][j] = *(const uint16_t *)(x + (uint32_t)(own + entry.offset));
            }
    }
    template <typename T> BW_DEVICE_SPECIAL void end(T *shared)
    {
        T *const to = shared + (uint32_t)bw_thread() % SIZE * STRIDE + (uint32_t)bw_thread() / SIZE * 8;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            bw_16 v;
#pragma unroll
            for (int j = 0; j < 4; j++)
                v.w[j] = words[e][2 * j + 1] << 16 | words[e][2 * j];
            bw_store16(to + e * (BLOCK / SIZE) * 8, v);
        }
    }
};

/* A tile of weights, 16 bytes at a time: EACH rows, BLOCK / CHUNKS apart. */
template <int SIZE> struct w_copy {
    static constexpr int EACH = SIZE * CHUNKS / BLOCK, APART = BLOCK / CHUNKS;
    bw_16 pieces[EACH];

    /* from: this thread's first row and k. rows: from there to the last; n: k from there to the last. */
    BW_DEVICE_SPECIAL void begin(const uint16_t *from, int64_t apart, bool is_even, int rows, int n)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++, from += apart) {
            pieces[e] = bw_16{{0, 0, 0, 0}};
            if (e * APART >= rows || n <= 0)
                continue;
            if (is_even) {
                pieces[e] = bw_load16(from);
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    uint32_t low = 2 * j < n ? from[2 * j] : 0, high = 2 * j + 1 < n ? from[2 * j + 1] : 0;
                    pieces[e].w[j] = high << 16 | low;
                }
            }
        }
    }
    template <typename T> BW_DEVICE_SPECIAL void end(T *shared)
    {
        T *const to = shared + (uint32_t)bw_thread() / CHUNKS * STRIDE + (uint32_t)bw_thread() % CHUNKS * 8;
#pragma unroll
        for (int e = 0; e < EACH; e++)
            bw_store16(to + e * APART * STRIDE, pieces[e]);
    }
};

/* One result as its definition says: taps that meet no input are passed over. */
template <typename T>
BW_DEVICE float sum_inside(const bw_conv_gemm &p, const uint8_t *x, const T *row, int group, int pixel, int k0,
                           int k_end)
{
    const conv_pixel at = find_conv_pixel(p, pixel);
    const uint32_t own = find_input(p, at, group);
    const uint32_t inside = find_inside(p, at.y * p.stride_h - p.padding_h, at.x * p.stride_w - p.padding_w);
    float sum = 0;
#pragma unroll 1
    for (int k = k0; k < k_end; k++) {
        const tap_entry entry = find_tap(p, k);
        if ((inside & entry.bits) == entry.bits)
            sum = bw_fma(bw_get(*(const T *)(x + (uint32_t)(own + entry.offset))), bw_get(row[k]), sum);
    }
    return sum;
}

/* Where a workgroup's results go. out: y, or with IS_PART f32 [group][part][output][pixel]. */
struct tile_place {
    int group, rows, columns; /* outputs and pixels from the tile's first to the last */
    int o0, pixel0, k0, k_end;
    const int64_t *y_at; /* of each pixel */
    void *out;
};
template <typename T, bool IS_PART>
BW_DEVICE void put_result(const bw_conv_gemm &p, const tile_place &to, int o, int column, float sum)
{
    if constexpr (IS_PART) {
        float *const part = (float *)to.out + bw_block_z() * p.n_out * p.n_pixels;
        part[(int64_t)(to.o0 + o) * p.n_pixels + to.pixel0 + column] = sum;
    } else {
        T *const y = (T *)to.out + to.group * p.n_out * p.y_channel;
        y[to.y_at[column] + (to.o0 + o) * p.y_channel] = bw_put<T>(sum);
    }
}

/* acc: 16 x 16 results each, the first from (own_o, own_p) on. */
template <typename T, bool IS_PART, int MT, int NT>
BW_DEVICE void put_results(const bw_conv_gemm &p, const tile_place &to, const bw_acc (&acc)[MT][NT], int own_o,
                           int own_p, const uint8_t *x, const T *w)
{
    bool has_nan = false;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int e = 0; e < BW_ACC_EACH; e++) {
            const int o = own_o + i * 16 + bw_acc_row(e);
            if (o >= to.rows)
                continue;
#pragma unroll
            for (int j = 0; j < NT; j++) {
                const int column = own_p + j * 16 + bw_acc_column(e);
                if (column >= to.columns)
                    continue;
                has_nan = has_nan || acc[i][j].x[e] != acc[i][j].x[e];
                put_result<T, IS_PART>(p, to, o, column, acc[i][j].x[e]);
            }
        }
    if (!has_nan || p.padding_h + p.padding_w == 0)
        return;
    /* Each thread its own results again, in a loop: this is rare and needs no registers above. */
#pragma unroll 1
    for (int at = 0; at < MT * NT * BW_ACC_EACH; at++) {
        const int e = at % BW_ACC_EACH, tile = at / BW_ACC_EACH;
        const int o = own_o + tile / NT * 16 + bw_acc_row(e), column = own_p + tile % NT * 16 + bw_acc_column(e);
        if (o < to.rows && column < to.columns)
            put_result<T, IS_PART>(
                p, to, o, column, sum_inside(p, x, w + o * p.w_row, to.group, to.pixel0 + column, to.k0, to.k_end));
    }
}

template <typename T, int SIZE, bool IS_PART>
BW_DEVICE void conv_gemm(const bw_conv_gemm &p, const uint8_t *x, const T *w, void *out, int pixel0, int o0)
{
    typedef bw_gemm_share<SIZE> share; /* outputs x pixels */
    constexpr int STAGES = BW_GEMM_REGISTER_STAGES, TILE = SIZE * STRIDE;
    BW_SHARED __attribute__((aligned(16))) T shared[STAGES * 2 * TILE]; /* per stage: weights, then x */
    BW_SHARED __attribute__((aligned(16))) tap_entry table[2][DEPTH];
    BW_SHARED int64_t y_at[SIZE];
    const int thread = bw_thread(), group = (int)bw_block_z() / p.n_parts;
    const int own_o = share::row(), own_p = share::column();
    const int k0 = ((int)bw_block_z() - group * p.n_parts) * p.split_k;
    const int k_end = p.k - k0 < p.split_k ? p.k : k0 + p.split_k, n_steps = (k_end - k0 + DEPTH - 1) / DEPTH;
    const int rows = p.n_out - o0, columns = p.n_pixels - pixel0;
    if (rows <= 0 || columns <= 0)
        return;
    w += group * p.w_group + o0 * p.w_row;

    const int line = thread % SIZE;
    const conv_pixel at = find_conv_pixel(p, line < columns ? pixel0 + line : 0);
    const uint32_t own = find_input(p, at, group);
    const uint32_t inside =
        line < columns ? find_inside(p, at.y * p.stride_h - p.padding_h, at.x * p.stride_w - p.padding_w) : 0;
    if (thread < SIZE)
        y_at[thread] = find_output(p, at);
    if (thread < DEPTH) {
        table[0][thread] = find_tap(p, k0 + thread);
        table[1][thread] = find_tap(p, k0 + DEPTH + thread);
    }
    bw_barrier();

    bw_acc acc[share::MT][share::NT];
    bw_acc_zero(acc);
    x_copy<SIZE> copy_x;
    w_copy<SIZE> copy_w;
    const int w_row = (int)((uint32_t)thread / CHUNKS), w_k = (int)((uint32_t)thread % CHUNKS * 8) + k0;
    const uint16_t *w_own = (const uint16_t *)w + w_row * p.w_row + w_k;
    const int64_t apart = w_copy<SIZE>::APART * p.w_row;
    copy_w.begin(w_own, apart, p.w_is_even, rows - w_row, k_end - w_k);
    copy_x.begin(table[0], x, own, inside);
    copy_w.end(shared);
    copy_x.end(shared + TILE);
    for (int step = 0; step < n_steps; step++) {
        bw_barrier();
        T *const to = shared + (step + 1) % STAGES * 2 * TILE;
        w_own += DEPTH;
        copy_w.begin(w_own, apart, p.w_is_even, rows - w_row, k_end - w_k - (step + 1) * DEPTH);
        copy_x.begin(table[(step + 1) % 2], x, own, inside);
        if (thread < DEPTH) /* what was read before the barrier */
            table[step % 2][thread] = find_tap(p, k0 + (step + 2) * DEPTH + thread);
        const T *const a = shared + step % STAGES * 2 * TILE + own_o * STRIDE;
        const T *const b = shared + step % STAGES * 2 * TILE + TILE + own_p * STRIDE;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            bw_frag<T> fa[share::MT], fb[share::NT];
#pragma unroll
            for (int i = 0; i < share::MT; i++)
                bw_frag_load(fa[i], a + i * 16 * STRIDE + k, STRIDE);
#pragma unroll
            for (int j = 0; j < share::NT; j++)
                bw_frag_load(fb[j], b + j * 16 * STRIDE + k, STRIDE);
#pragma unroll
            for (int i = 0; i < share::MT; i++)
#pragma unroll
                for (int j = 0; j < share::NT; j++)
                    bw_mma(acc[i][j], fa[i], fb[j]);
        }
        if constexpr (STAGES == 1)
            bw_barrier();
        copy_w.end(to);
        copy_x.end(to + TILE);
    }

    const tile_place place = {group, rows, columns, o0, pixel0, k0, k_end, y_at, out};
    put_results<T, IS_PART>(p, place, acc, own_o, own_p, x, w);
}

/* n_groups: workgroups for which an NVIDIA multiprocessor's registers must be enough. */
#define GEMM(n_groups, name, T, SIZE, IS_PART)                                                                         \
    BW_KERNEL_SEVERAL(BLOCK, n_groups, conv_##name)                                                                    \
    (const bw_conv_gemm p, const uint8_t *x, const T *w, void *out)                                                    \
    {                                                                                                                  \
        const int pixel0 = (int)bw_block() * SIZE, o0 = (int)bw_block_y() * SIZE;                                      \
        if constexpr (BW_TILE_IS_PLAIN && SIZE > BW_GPU_GEMM_SMALL) {                                                  \
            BW_SHARED bw_conv_gemm copy; /* read anew for each tile: it would fill the scalar registers */             \
            if (bw_thread() == 0)                                                                                      \
                copy = p;                                                                                              \
            _Pragma("unroll 1") for (int i = 0; i < 4; i++)                                                            \
            {                                                                                                          \
                bw_barrier();                                                                                          \
                conv_gemm<T, BW_GPU_GEMM_SMALL, IS_PART>(copy, x, w, out, pixel0 + i % 2 * BW_GPU_GEMM_SMALL,          \
                                                         o0 + i / 2 * BW_GPU_GEMM_SMALL);                              \
            }                                                                                                          \
        } else {                                                                                                       \
            conv_gemm<T, SIZE, IS_PART>(p, x, w, out, pixel0, o0);                                                     \
        }                                                                                                              \
    }
#define TYPE(name, T)                                                                                                  \
    GEMM(2, big_##name, T, BW_GPU_GEMM_BIG, false)                                                                     \
    GEMM(4, small_##name, T, BW_GPU_GEMM_SMALL, false)                                                                 \
    GEMM(4, part_##name, T, BW_GPU_GEMM_SMALL, true)                                                                   \
    /* y = the sum of parts. A thread per output; grid: pixels, outputs of all groups. */                              \
    BW_KERNEL(BLOCK, conv_sum_##name)(const bw_conv_gemm p, const float *parts, T *y)                                  \
    {                                                                                                                  \
        const int64_t pixel = bw_grid_thread(), o = bw_block_y(), group = (uint32_t)o / (uint32_t)p.n_out;             \
        if (pixel >= p.n_pixels)                                                                                       \
            return;                                                                                                    \
        const int64_t row = o - group * p.n_out, each = (int64_t)p.n_out * p.n_pixels;                                 \
        const float *from = parts + group * p.n_parts * each + row * p.n_pixels + pixel;                               \
        float sum = 0;                                                                                                 \
        for (int i = 0; i < p.n_parts; i++)                                                                            \
            sum += from[i * each];                                                                                     \
        y[find_output(p, find_conv_pixel(p, (int)pixel)) + o * p.y_channel] = bw_put<T>(sum);                          \
    }
TYPE(f16, bw_f16)
TYPE(bf16, bw_bf16)
