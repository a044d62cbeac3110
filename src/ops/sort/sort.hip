/* ASORT_ASC, ASORT_DESC and TOPK on a GPU: a merge sort of items (key, index), which are all different, so that any order
 * of comparisons is stable. Keys are unsigned numbers that ascend in the order wanted; NaN is the last in both
 * directions, and the zeros are one. Tiles are sorted in shared memory (Batcher's bitonic sort), then each pass merges
 * runs two by two: an item's place is its own place in its run plus that which a binary search finds in the other. */
#include "bw_kernel.h"

#include "sort/bw_sort_args.h"

/* Types of at most 32 bits make one number of key and index. */
typedef uint64_t item_32;
struct item_64 {
    uint64_t key, index;
};
BW_DEVICE bool is_less(item_32 a, item_32 b)
{
    return a < b;
}
BW_DEVICE bool is_less(const item_64 &a, const item_64 &b)
{
    return a.key < b.key || (a.key == b.key && a.index < b.index);
}
BW_DEVICE uint32_t index_of(item_32 a)
{
    return (uint32_t)a;
}
BW_DEVICE uint32_t index_of(const item_64 &a)
{
    return (uint32_t)a.index;
}

/* IS_DOWN: the greatest first. */
template <bool IS_DOWN> BW_DEVICE item_32 item_of(float v, uint32_t index)
{
    uint32_t b = v == 0 ? 0 : bw_bits(v), key = b >> 31 ? ~b : b | 0x80000000u;
    key = IS_DOWN ? ~key : key;
    return (uint64_t)(v != v ? 0xffffffffu : key) << 32 | index;
}
template <bool IS_DOWN> BW_DEVICE item_32 item_of(uint32_t v, uint32_t index)
{
    return (uint64_t)(IS_DOWN ? ~v : v) << 32 | index;
}
template <bool IS_DOWN> BW_DEVICE item_32 item_of(uint8_t v, uint32_t index)
{
    return item_of<IS_DOWN>((uint32_t)v, index);
}
template <bool IS_DOWN> BW_DEVICE item_64 item_of(double v, uint32_t index)
{
    const uint64_t top = (uint64_t)1 << 63;
    uint64_t b = v == 0 ? 0 : bw_bits(v), key = b & top ? ~b : b | top;
    key = IS_DOWN ? ~key : key;
    return item_64{v != v ? ~(uint64_t)0 : key, index};
}
template <bool IS_DOWN> BW_DEVICE item_64 item_of(int64_t v, uint32_t index)
{
    uint64_t key = (uint64_t)v ^ (uint64_t)1 << 63;
    return item_64{IS_DOWN ? ~key : key, index};
}
/* After every other. */
BW_DEVICE void set_last(item_32 &item)
{
    item = ~(uint64_t)0;
}
BW_DEVICE void set_last(item_64 &item)
{
    item = item_64{~(uint64_t)0, ~(uint64_t)0};
}

BW_DEVICE int64_t row_offset(const bw_loop &rows, int64_t row, int64_t (&at)[3])
{
    if (rows.n >> 32)
        bw_loop_offsets<3, uint64_t>(rows, (uint64_t)row, at);
    else
        bw_loop_offsets<3, uint32_t>(rows, (uint32_t)row, at);
    return at[0];
}

/* One workgroup per tile; the tiles of a row follow each other. */
template <bool IS_DOWN, typename T, typename I>
BW_DEVICE void sort_tile(const bw_loop &rows, const bw_sort_args &a, const T *x, I *to)
{
    BW_SHARED I items[BW_SORT_TILE];
    const uint32_t thread = (uint32_t)bw_thread(), block = (uint32_t)bw_block(), row = block / a.tiles,
                   begin = (block - row * a.tiles) * BW_SORT_TILE;
    int64_t at[3];
    row_offset(rows, a.first_row + row, at);
    for (uint32_t i = thread; i < a.width; i += BW_SORT_THREADS) {
        I item;
        set_last(item);
        if (begin + i < a.n)
            item = item_of<IS_DOWN>(bw_get(x[at[0] + (int64_t)(begin + i) * a.x_step]), begin + i);
        items[i] = item;
    }
    for (uint32_t size = 2; size <= a.width; size *= 2)
        for (uint32_t distance = size / 2; distance > 0; distance /= 2) {
            bw_barrier();
            for (uint32_t pair = thread; pair < a.width / 2; pair += BW_SORT_THREADS) {
                uint32_t low = 2 * pair - (pair & (distance - 1)), high = low + distance;
                I u = items[low], v = items[high];
                if (is_less(v, u) == ((low & size) == 0)) {
                    items[low] = v;
                    items[high] = u;
                }
            }
        }
    bw_barrier();
    for (uint32_t i = thread; i < a.width && i < a.keep && begin + i < a.n; i += BW_SORT_THREADS)
        to[(int64_t)row * a.n + begin + i] = items[i];
}

/* One thread per item that is kept: runs of a.run become runs of twice as many. */
template <typename I> BW_DEVICE void merge(const bw_sort_args &a, const I *from, I *to)
{
    const uint32_t length = a.run < a.keep ? a.run : a.keep; /* kept of a run */
    const uint32_t runs = (uint32_t)(((uint64_t)a.n + a.run - 1) / a.run);
    const int64_t thread = a.first + bw_grid_thread();
    if (thread >= (int64_t)a.n_rows * runs * length)
        return;
    const int64_t line = thread / length, row = line / runs;
    const uint32_t place = (uint32_t)(thread - line * length), run = (uint32_t)(line - row * runs);
    const int64_t begin = (int64_t)run * a.run, other = (int64_t)(run ^ 1) * a.run, pair = (int64_t)(run & ~1u) * a.run;
    if (begin + place >= a.n)
        return;
    from += row * a.n;
    to += row * a.n;
    const I item = from[begin + place];
    int64_t low = 0, high = (int64_t)a.n - other; /* of the other run's items, how many are before this one */
    high = high < 0 ? 0 : high < length ? high : length;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        bool is_before = is_less(from[other + middle], item);
        low = is_before ? middle + 1 : low;
        high = is_before ? high : middle;
    }
    if (place + low < a.keep)
        to[pair + place + low] = item;
}

/* One thread per result. */
template <typename I> BW_DEVICE void put_indices(const bw_loop &rows, const bw_sort_args &a, const I *from, uint32_t *index)
{
    const int64_t thread = a.first + bw_grid_thread(), row = thread / a.keep, place = thread - row * a.keep;
    if (row >= a.n_rows)
        return;
    int64_t at[3];
    row_offset(rows, a.first_row + row, at);
    index[at[1] + place * a.index_step] = index_of(from[row * a.n + place]);
}
template <typename T, typename I>
BW_DEVICE void put_values(const bw_loop &rows, const bw_sort_args &a, const I *from, uint32_t *index, const T *x, T *values)
{
    const int64_t thread = a.first + bw_grid_thread(), row = thread / a.keep, place = thread - row * a.keep;
    if (row >= a.n_rows)
        return;
    int64_t at[3];
    row_offset(rows, a.first_row + row, at);
    uint32_t i = index_of(from[row * a.n + place]);
    index[at[1] + place * a.index_step] = i;
    values[at[2] + place * a.value_step] = x[at[0] + (int64_t)i * a.x_step];
}

#define KERNELS(type, T, I)                                                                                            \
    BW_KERNEL(BW_SORT_THREADS, asort_asc_##type)                                                                       \
    (const bw_loop rows, const bw_sort_args a, const T *x, I *to)                                                      \
    {                                                                                                                  \
        sort_tile<false, T, I>(rows, a, x, to);                                                                        \
    }                                                                                                                  \
    BW_KERNEL(BW_SORT_THREADS, asort_desc_##type)                                                                      \
    (const bw_loop rows, const bw_sort_args a, const T *x, I *to)                                                      \
    {                                                                                                                  \
        sort_tile<true, T, I>(rows, a, x, to);                                                                         \
    }                                                                                                                  \
    BW_KERNEL(BW_SORT_THREADS, topk_##type)                                                                            \
    (const bw_loop rows, const bw_sort_args a, const I *from, uint32_t *index, const T *x, T *values)                  \
    {                                                                                                                  \
        put_values<T, I>(rows, a, from, index, x, values);                                                             \
    }
KERNELS(f32, float, item_32)
KERNELS(f64, double, item_64)
KERNELS(f16, bw_f16, item_32)
KERNELS(bf16, bw_bf16, item_32)
KERNELS(u8, uint8_t, item_32)
KERNELS(u32, uint32_t, item_32)
KERNELS(i64, int64_t, item_64)

#define BOTH(bits)                                                                                                     \
    BW_KERNEL(BW_SORT_THREADS, sort_merge_##bits)(const bw_sort_args a, const item_##bits *from, item_##bits *to)      \
    {                                                                                                                  \
        merge<item_##bits>(a, from, to);                                                                               \
    }                                                                                                                  \
    BW_KERNEL(BW_SORT_THREADS, sort_put_##bits)                                                                        \
    (const bw_loop rows, const bw_sort_args a, const item_##bits *from, uint32_t *index)                               \
    {                                                                                                                  \
        put_indices<item_##bits>(rows, a, from, index);                                                                \
    }
BOTH(32)
BOTH(64)
