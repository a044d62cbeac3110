/* SUM and the FAST_ reductions over any axes on a GPU. Sums of floats are accumulated in f64, of integers in 64 bits;
 * the others find the index of the chosen element, and the least and greatest are copied from there bit for bit. Where
 * results are few, parts of each are reduced by workgroups of their own and joined by a second kernel. */
#include "bw_kernel.h"

#include "reduce/bw_reduce_args.h"

enum { SUM, MIN, MAX, ARGMIN, ARGMAX };

template <typename T> struct is_float {
    enum { value = 0 };
};
template <> struct is_float<float> {
    enum { value = 1 };
};
template <> struct is_float<double> {
    enum { value = 1 };
};

/* What is accumulated, by kind and by the type arithmetic is done in. */
template <bool IS_SUM, bool IS_FLOAT, typename W> struct accumulator {
    typedef int64_t type; /* chosen integers */
};
template <typename W> struct accumulator<true, true, W> {
    typedef double type;
};
template <typename W> struct accumulator<true, false, W> {
    typedef uint64_t type;
};
template <typename W> struct accumulator<false, true, W> {
    typedef W type;
};
template <int KIND, typename T> struct state {
    typedef typename accumulator<KIND == SUM, is_float<typename bw_wide<T>::type>::value, typename bw_wide<T>::type>::type A;
    A value;
    int64_t index; /* of the chosen element among the reduced ones; below 0: none yet */
};

template <int KIND, typename A> BW_DEVICE bool is_better(A a, A b)
{
    return KIND == MIN || KIND == ARGMIN ? a < b : a > b;
}

/* The next element in order. A NaN is passed over. */
template <int KIND, typename T> BW_DEVICE void take(state<KIND, T> &s, T element, int64_t index)
{
    typename state<KIND, T>::A v = (typename state<KIND, T>::A)bw_get(element);
    if (KIND == SUM) {
        s.value += v;
    } else if (v == v && (s.index < 0 || is_better<KIND>(v, s.value))) {
        s.value = v;
        s.index = index;
    }
}
template <int KIND, typename T> BW_DEVICE void join(state<KIND, T> &s, const state<KIND, T> &o)
{
    if (KIND == SUM)
        s.value += o.value;
    else if (o.index >= 0 && (s.index < 0 || is_better<KIND>(o.value, s.value) ||
                              (o.value == s.value && o.index < s.index)))
        s = o;
}

template <int N> BW_DEVICE void offsets(const bw_loop &loop, int64_t i, int64_t (&at)[N])
{
    if (loop.n >> 32)
        bw_loop_offsets<N, uint64_t>(loop, (uint64_t)i, at);
    else
        bw_loop_offsets<N, uint32_t>(loop, (uint32_t)i, at);
}

/* A sum into its place. */
template <typename T> BW_DEVICE void put_sum(T *y, double value)
{
    *y = bw_put<T>((typename bw_wide<T>::type)value);
}
template <typename T> BW_DEVICE void put_sum(T *y, uint64_t value)
{
    *y = (T)value;
}
/* The chosen element's index or itself; x: where the result's elements begin. A first element that is NaN is chosen. */
template <int KIND, typename T, typename R> struct finish {
    static BW_DEVICE_SPECIAL void put(const bw_loop &reduced, const state<KIND, T> &s, const T *x, R *y)
    {
        int64_t index = bw_get(x[0]) != bw_get(x[0]) ? 0 : s.index, at[1];
        if (KIND == ARGMIN || KIND == ARGMAX) {
            *(uint32_t *)y = (uint32_t)index;
        } else {
            offsets<1>(reduced, index, at);
            *(T *)y = x[at[0]];
        }
    }
};
template <typename T, typename R> struct finish<SUM, T, R> {
    static BW_DEVICE_SPECIAL void put(const bw_loop &, const state<SUM, T> &s, const T *, R *y)
    {
        put_sum(y, s.value);
    }
};

template <int KIND, typename T>
BW_DEVICE void take_all(state<KIND, T> &s, const bw_loop &reduced, const T *x, int64_t begin, int64_t end, int64_t step)
{
    int64_t i = begin;
    if (reduced.n_dims == 1) {
        const int64_t stride = reduced.strides[0][0];
        for (; i + 3 * step < end; i += 4 * step) {
            T own[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                own[k] = x[(i + k * step) * stride];
#pragma unroll
            for (int k = 0; k < 4; k++)
                take<KIND, T>(s, own[k], i + k * step);
        }
        for (; i < end; i += step)
            take<KIND, T>(s, x[i * stride], i);
    } else {
        for (; i < end; i += step) {
            int64_t at[1];
            offsets<1>(reduced, i, at);
            take<KIND, T>(s, x[at[0]], i);
        }
    }
}

template <int KIND, typename T, typename R>
BW_DEVICE void reduce(const bw_loop &kept, const bw_loop &reduced, const bw_reduce_args &a, const T *x, R *y,
                      state<KIND, T> *parts)
{
    BW_SHARED state<KIND, T> shared[BW_REDUCE_THREADS];
    const int thread = bw_thread(), column = thread % a.columns;
    const int64_t result = a.first + bw_block() * a.columns + column, part = bw_block_y();
    int64_t at[2] = {0, 0}, begin = part * a.part, end = begin + a.part;
    end = end < reduced.n ? end : reduced.n;
    state<KIND, T> s = {0, -1};
    if (result < kept.n) {
        offsets<2>(kept, result, at);
        take_all<KIND, T>(s, reduced, x + at[0], begin + thread / a.columns, end, BW_REDUCE_THREADS / a.columns);
    }
    if (a.columns < BW_REDUCE_THREADS) {
        shared[thread] = s;
        for (int half = BW_REDUCE_THREADS / 2; half >= a.columns; half /= 2) {
            bw_barrier();
            if (thread < half) {
                join<KIND, T>(s, shared[thread + half]);
                shared[thread] = s;
            }
        }
    }
    if (thread >= a.columns || result >= kept.n)
        return;
    if (a.n_parts > 1)
        parts[result * a.n_parts + part] = s;
    else
        finish<KIND, T, R>::put(reduced, s, x + at[0], y + at[1]);
}

/* One thread per result. */
template <int KIND, typename T, typename R>
BW_DEVICE void join_parts(const bw_loop &kept, const bw_loop &reduced, const bw_reduce_args &a, const T *x, R *y,
                          const state<KIND, T> *parts)
{
    const int64_t result = bw_grid_thread();
    if (result >= kept.n)
        return;
    int64_t at[2];
    offsets<2>(kept, result, at);
    state<KIND, T> s = {0, -1};
    for (int i = 0; i < a.n_parts; i++)
        join<KIND, T>(s, parts[result * a.n_parts + i]);
    finish<KIND, T, R>::put(reduced, s, x + at[0], y + at[1]);
}

#define KERNELS(name, KIND, type, T, R)                                                                                \
    BW_KERNEL(BW_REDUCE_THREADS, name##_##type)                                                                        \
    (const bw_loop kept, const bw_loop reduced, const bw_reduce_args a, const T *x, R *y, void *parts)                 \
    {                                                                                                                  \
        reduce<KIND, T, R>(kept, reduced, a, x, y, (state<KIND, T> *)parts);                                           \
    }                                                                                                                  \
    BW_KERNEL(BW_REDUCE_THREADS, name##_join_##type)                                                                   \
    (const bw_loop kept, const bw_loop reduced, const bw_reduce_args a, const T *x, R *y, const void *parts)           \
    {                                                                                                                  \
        join_parts<KIND, T, R>(kept, reduced, a, x, y, (const state<KIND, T> *)parts);                                 \
    }
#define SAME(name, KIND, type, T) KERNELS(name, KIND, type, T, T)
#define INDEX(name, KIND, type, T) KERNELS(name, KIND, type, T, uint32_t)
#define TYPES(FORM, name, KIND)                                                                                        \
    FORM(name, KIND, f32, float)                                                                                       \
    FORM(name, KIND, f64, double)                                                                                      \
    FORM(name, KIND, f16, bw_f16)                                                                                      \
    FORM(name, KIND, bf16, bw_bf16)                                                                                    \
    FORM(name, KIND, u8, uint8_t)                                                                                      \
    FORM(name, KIND, u32, uint32_t)                                                                                    \
    FORM(name, KIND, i64, int64_t)
TYPES(SAME, fast_sum, SUM)
TYPES(SAME, fast_min, MIN)
TYPES(SAME, fast_max, MAX)
TYPES(INDEX, fast_argmin, ARGMIN)
TYPES(INDEX, fast_argmax, ARGMAX)
SAME(sum, SUM, f32, float)
SAME(sum, SUM, f64, double)
SAME(sum, SUM, f16, bw_f16)
SAME(sum, SUM, bf16, bw_bf16)
SAME(sum, SUM, u32, uint32_t)
