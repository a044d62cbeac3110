/* IS, GATHER, IA, SA and S on a GPU (bw_indexing.h says what they mean). IS and GATHER: a thread per element of the output.
 * The others: a thread per lane, which walks along the indexed dimension, so that values for one place are taken in
 * order. */
#include "bw_kernel.h"

template <typename I> struct largest;
#define LARGEST(I, value)                                                                                              \
    template <> struct largest<I> {                                                                                    \
        static constexpr int64_t id = value;                                                                           \
    };
LARGEST(uint8_t, 255)
LARGEST(uint32_t, 4294967295ll)
LARGEST(int16_t, 32767)
LARGEST(int32_t, 2147483647ll)
LARGEST(int64_t, 9223372036854775807ll)

template <typename I> BW_DEVICE bool is_valid(I id, int64_t size)
{
    return (int64_t)id >= 0 && (int64_t)id < size && (int64_t)id != largest<I>::id;
}

/* The sum, rounded to the type; integers wrap. */
template <typename T> BW_DEVICE T sum_of(T a, T b)
{
    return (T)((uint64_t)a + (uint64_t)b);
}
#define FLOAT_SUM(T)                                                                                                   \
    template <> BW_DEVICE_SPECIAL T sum_of<T>(T a, T b)                                                                \
    {                                                                                                                  \
        return bw_put<T>(bw_get(a) + bw_get(b));                                                                       \
    }
FLOAT_SUM(float)
FLOAT_SUM(double)
FLOAT_SUM(bw_f16)
FLOAT_SUM(bw_bf16)
FLOAT_SUM(bw_f8)

/* Values of T moved as they are: B has T's size. The loop's tensors: x at id 0, ids, y. */
template <typename B, typename I>
BW_DEVICE void pick(const bw_loop &loop, const B *x, const I *ids, B *y, int64_t size, int64_t step)
{
    bw_for_each<3>(loop, [=](const int64_t(&at)[3]) {
        I id = ids[at[1]];
        y[at[2]] = is_valid(id, size) ? x[at[0] + (int64_t)id * step] : (B)0;
    });
}

/* The loop: lanes, of x, ids and y, a thread for each; n values in each. */
template <typename T, typename I, bool ADDS>
BW_DEVICE void put(const bw_loop &loop, const T *x, const I *ids, T *y, int64_t n, int64_t x_step, int64_t id_step,
                   int64_t y_step, int64_t size)
{
    int64_t lane = bw_grid_thread(), at[3];
    if (lane >= loop.n)
        return;
    bw_loop_offsets<3, uint32_t>(loop, (uint32_t)lane, at);
    x += at[0];
    ids += at[1];
    y += at[2];
    for (; n > 0; n--, ids += id_step, x += x_step) {
        I id = *ids;
        if (!is_valid(id, size))
            continue;
        T *place = y + (int64_t)id * y_step;
        *place = ADDS ? sum_of<T>(*place, *x) : *x;
    }
}

#define PICK(op, ids_name, I, name, B)                                                                                 \
    BW_KERNEL(256, op##_##ids_name##_##name)                                                                           \
    (const bw_loop loop, const B *x, const I *ids, B *y, int64_t size, int64_t step)                                   \
    {                                                                                                                  \
        pick<B, I>(loop, x, ids, y, size, step);                                                                       \
    }
#define PUT(op, ids_name, I, name, T, adds)                                                                            \
    BW_KERNEL(256, op##_##ids_name##_##name)                                                                           \
    (const bw_loop loop, const T *x, const I *ids, T *y, int64_t n, int64_t x_step, int64_t id_step, int64_t y_step,   \
     int64_t size)                                                                                                     \
    {                                                                                                                  \
        put<T, I, adds>(loop, x, ids, y, n, x_step, id_step, y_step, size);                                            \
    }
#define ALL(ids_name, I, name, T, B)                                                                                   \
    PICK(is, ids_name, I, name, B)                                                                                     \
    PICK(gather, ids_name, I, name, B)                                                                                 \
    PUT(ia, ids_name, I, name, T, true)                                                                                \
    PUT(sa, ids_name, I, name, T, true)                                                                                \
    PUT(s, ids_name, I, name, B, false)
#define IDS(ids_name, I)                                                                                               \
    ALL(ids_name, I, f32, float, uint32_t)                                                                             \
    ALL(ids_name, I, f64, double, uint64_t)                                                                            \
    ALL(ids_name, I, f16, bw_f16, uint16_t)                                                                            \
    ALL(ids_name, I, bf16, bw_bf16, uint16_t)                                                                          \
    ALL(ids_name, I, f8_e4m3, bw_f8, uint8_t)                                                                          \
    ALL(ids_name, I, u8, uint8_t, uint8_t)                                                                             \
    ALL(ids_name, I, u32, uint32_t, uint32_t)                                                                          \
    ALL(ids_name, I, i16, int16_t, uint16_t)                                                                           \
    ALL(ids_name, I, i32, int32_t, uint32_t)                                                                           \
    ALL(ids_name, I, i64, int64_t, uint64_t)
IDS(u8, uint8_t)
IDS(u32, uint32_t)
IDS(i64, int64_t)
IDS(i16, int16_t)
IDS(i32, int32_t)
