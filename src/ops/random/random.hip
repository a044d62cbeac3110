/* RAND_UNIFORM, RAND_NORMAL and RAND_BITS on a GPU. PHILOX and TORCH_CUDA: one thread per Philox block, whose four words
 * serve up to four elements. TORCH_CPU: one workgroup draws the words of MT19937 in order into scratch (its 624 words of
 * state turn in three steps that are parallel), then one thread per element takes its own. */
#include "bw_kernel.h"

#include "random/bw_random.h"
#include "random/bw_random_args.h"

/* Philox 4x32-10 (Salmon et al., SC11). */
BW_DEVICE void philox(uint64_t low, uint64_t high, uint64_t seed, uint32_t (&words)[4])
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)low, c1 = (uint32_t)(low >> 32), c2 = (uint32_t)high, c3 = (uint32_t)(high >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint64_t u = (uint64_t)0xd2511f53u * c0, v = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(v >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(u >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)v;
        c3 = (uint32_t)u;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

BW_DEVICE int64_t offset_of(const bw_loop &loop, int64_t i)
{
    int64_t at[1];
    if (bw_loop_is_dense(loop, 1))
        return i;
    if (loop.n >> 32)
        bw_loop_offsets<1, uint64_t>(loop, (uint64_t)i, at);
    else
        bw_loop_offsets<1, uint32_t>(loop, (uint32_t)i, at);
    return at[0];
}

BW_DEVICE uint64_t pair_of(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}
/* cuRAND's 53 bits of two words. */
BW_DEVICE double curand_53(uint32_t first, uint32_t second)
{
    return (double)((uint64_t)first ^ (uint64_t)second << 21);
}

/* ---- the values of one block: numbers k of words ------------------------------------------------------------------ */

/* a + unit * b with one rounding, then to the type; what reaches the upper end is replaced. */
template <typename T, typename W> BW_DEVICE T scale(const bw_random_args &r, W unit)
{
    T v = bw_put<T>(bw_fma(unit, (W)r.b, (W)r.a));
    double wide = (double)bw_get(v);
    bool is_over = r.mode == BW_RANDOM_PHILOX ? r.bounded && wide >= r.up : wide == r.up;
    return is_over ? bw_put<T>((W)r.instead) : v;
}
template <typename T> struct uniform {
    enum { EACH = 4 };
    static BW_DEVICE_SPECIAL T of(const bw_random_args &r, const uint32_t (&words)[4], int k)
    {
        if (r.mode == BW_RANDOM_PHILOX)
            return scale<T, float>(r, (float)(words[k] >> 8) * 0x1p-24f);
        return scale<T, float>(r, bw_fma((float)words[k], 0x1p-32f, 0x1p-33f));
    }
};
template <> struct uniform<double> {
    enum { EACH = 2 };
    static BW_DEVICE_SPECIAL double of(const bw_random_args &r, const uint32_t (&words)[4], int k)
    {
        if (r.mode == BW_RANDOM_PHILOX)
            return scale<double, double>(r, (double)(pair_of(words[2 * k + 1], words[2 * k]) >> 11) * 0x1p-53);
        return scale<double, double>(r, bw_fma(curand_53(words[2 * k], words[2 * k + 1]), 0x1p-53, 0x1p-54));
    }
};

/* Box and Muller: a pair of elements shares a radius and an angle. PHILOX's first of them is the cosine, cuRAND's the
 * sine. */
template <typename T> struct normal {
    enum { EACH = 4 };
    static BW_DEVICE_SPECIAL T of(const bw_random_args &r, const uint32_t (&words)[4], int k)
    {
        const int first = k & ~1;
        bool wants_cosine = !(k & 1);
        float unit, wave;
        if (r.mode == BW_RANDOM_PHILOX) {
            unit = (float)((words[first] >> 8) + 1) * 0x1p-24f;
            /* the angle in quarters of a turn, less its nearest whole one: exact */
            float quarters = (float)(words[first + 1] >> 8) * 0x1p-22f, whole = bw_rint(quarters);
            float angle = (quarters - whole) * 1.57079633f;
            int quarter = (int)whole + (wants_cosine ? 1 : 0);
            wave = quarter & 1 ? bw_cosine_near(angle) : bw_sine_near(angle);
            wave = quarter & 2 ? -wave : wave;
        } else {
            const float step = 0x1p-32f * 6.2831855f;
            unit = bw_fma((float)words[first], 0x1p-32f, 0x1p-33f);
            float angle = bw_fma((float)words[first + 1], step, step / 2);
            wave = bw_sine_turned(angle, wants_cosine ? 0 : 1);
        }
        float radius = bw_sqrt(-2 * bw_log(unit));
        return bw_put<T>(bw_fma(radius * wave, (float)r.b, (float)r.a));
    }
};
template <> struct normal<double> {
    enum { EACH = 2 };
    static BW_DEVICE_SPECIAL double of(const bw_random_args &r, const uint32_t (&words)[4], int k)
    {
        const double pi = 3.14159265358979323846;
        double unit, angle;
        int turns = k & 1;
        if (r.mode == BW_RANDOM_PHILOX) {
            unit = bw_fma((double)(pair_of(words[1], words[0]) >> 11), 0x1p-53, 0x1p-53);
            angle = 2 * pi * ((double)(pair_of(words[3], words[2]) >> 11) * 0x1p-53);
            turns ^= 1;
        } else {
            unit = bw_fma(curand_53(words[0], words[1]), 0x1p-53, 0x1p-54);
            angle = bw_fma(curand_53(words[2], words[3]), 0x1p-52, 0x1p-53) * pi;
        }
        return bw_fma(bw_sqrt(-2 * bw_log(unit)) * bw_sine_turned(angle, turns), r.b, r.a);
    }
};

template <typename T> struct bits;
template <> struct bits<uint32_t> {
    enum { EACH = 4 };
    static BW_DEVICE_SPECIAL uint32_t of(const bw_random_args &, const uint32_t (&words)[4], int k)
    {
        return words[k];
    }
};
template <> struct bits<int64_t> {
    enum { EACH = 2 };
    static BW_DEVICE_SPECIAL int64_t of(const bw_random_args &r, const uint32_t (&words)[4], int k)
    {
        uint32_t first = words[2 * k], second = words[2 * k + 1];
        return (int64_t)(r.mode == BW_RANDOM_PHILOX ? pair_of(second, first) : pair_of(first, second));
    }
};

/* The elements of one Philox block. PyTorch on CUDA: thread t of T draws the elements t, t + T, ... of its round. */
template <typename V, typename T> BW_DEVICE void draw(const bw_loop &loop, const bw_random_args &r, T *y)
{
    const int64_t block = r.first + bw_grid_thread();
    int64_t element = block * V::EACH, step = 1;
    uint64_t low = (uint64_t)block, high = r.offset;
    if (r.mode == BW_RANDOM_TORCH_CUDA) {
        int64_t round = block / r.threads, thread = block - round * r.threads;
        element = round * r.threads * V::EACH + thread;
        step = r.threads;
        low = r.offset / 4 + (uint64_t)round;
        high = (uint64_t)thread;
    }
    if (element >= r.n)
        return;
    uint32_t words[4];
    philox(low, high, r.seed, words);
#pragma unroll
    for (int k = 0; k < V::EACH; k++)
        if (element + k * step < r.n)
            y[offset_of(loop, element + k * step)] = V::of(r, words, k);
}

/* ---- PyTorch's CPU generator -------------------------------------------------------------------------------------- */

enum { STATE = 624, MIDDLE = 397 };

BW_DEVICE uint32_t twist(uint32_t own, uint32_t next, uint32_t far)
{
    uint32_t y = (own & 0x80000000u) | (next & 0x7fffffffu);
    return far ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
}
BW_DEVICE uint32_t temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* MT19937 (Matsumoto and Nishimura 1998): n words after the first r.offset. One workgroup. A word depends on the one 397
 * further in the old state or 227 before it in the new one: three steps of at most 227 words. */
BW_KERNEL(BW_RANDOM_THREADS, rand_words)(const bw_random_args r, uint32_t *words, int64_t n)
{
    BW_SHARED uint32_t state[2][STATE];
    const int thread = bw_thread();
    if (thread == 0) {
        uint32_t x = (uint32_t)r.seed;
        state[0][0] = x;
        for (uint32_t i = 1; i < STATE; i++) {
            x = 1812433253u * (x ^ x >> 30) + i;
            state[0][i] = x;
        }
    }
    int which = 0;
    for (int64_t at = -(int64_t)r.offset; at < n; at += STATE) { /* the first new word's place */
        const uint32_t *old = state[which];
        uint32_t *now = state[which ^ 1];
        bw_barrier();
        const int leap = STATE - MIDDLE;
        if (thread < leap)
            now[thread] = twist(old[thread], old[thread + 1], old[thread + MIDDLE]);
        bw_barrier();
        if (thread < leap)
            now[thread + leap] = twist(old[thread + leap], old[thread + leap + 1], now[thread]);
        bw_barrier();
        if (thread < STATE - 2 * leap) {
            int i = thread + 2 * leap;
            now[i] = twist(old[i], i + 1 < STATE ? old[i + 1] : now[0], now[i - leap]);
        }
        bw_barrier();
        for (int i = thread; i < STATE; i += BW_RANDOM_THREADS)
            if (at + i >= 0 && at + i < n)
                words[at + i] = temper(now[i]);
        which ^= 1;
    }
}

/* In [0, 1): 53 bits of two words for f64, 24 of one for the others. */
template <bool IS_WIDE> BW_DEVICE double torch_unit(const uint32_t *words, int64_t number)
{
    if (IS_WIDE)
        return (double)(pair_of(words[2 * number], words[2 * number + 1]) & (((uint64_t)1 << 53) - 1)) * 0x1p-53;
    return (double)(words[number] & ((1u << 24) - 1)) * 0x1p-24;
}

/* unit * b + a with two roundings. */
BW_DEVICE double torch_scale(const bw_random_args &r, double unit, double)
{
    return bw_product(unit, r.b) + r.a;
}
BW_DEVICE float torch_scale(const bw_random_args &r, double unit, float)
{
    return (float)(unit * (double)(float)r.b) + (float)r.a; /* the product of two f32 is exact in f64 */
}
template <typename T> struct torch_uniform {
    static BW_DEVICE_SPECIAL T of(const bw_random_args &r, const uint32_t *words, int64_t i)
    {
        typedef typename bw_wide<T>::type W;
        T v = bw_put<T>(torch_scale(r, torch_unit<sizeof(T) == 8>(words, i), W()));
        return (double)bw_get(v) == r.up ? bw_put<T>((W)r.instead) : v;
    }
};
/* Sixteen from sixteen: number j and number j + 8 make a pair. Fewer than sixteen in all: pairs of two f64 numbers. */
template <typename T> struct torch_normal {
    static BW_DEVICE_SPECIAL T of(const bw_random_args &r, const uint32_t *words, int64_t i)
    {
        typedef typename bw_wide<T>::type W;
        const double two_pi = 2 * 3.14159265358979323846;
        const bool is_wide = sizeof(T) == 8;
        double unit, angle;
        bool wants_cosine;
        if (r.n < 16) {
            int64_t pair = i / 2;
            angle = two_pi * torch_unit<true>(words, 2 * pair);
            unit = torch_unit<true>(words, 2 * pair + 1);
            wants_cosine = !(i & 1);
        } else {
            int64_t kept = r.n % 16 == 0 ? r.n : r.n - 16, j = i < kept ? i % 16 : i - kept;
            const uint32_t *own = words + (i - j) * (is_wide ? 2 : 1);
            if (i >= kept)
                own = words + r.last;
            unit = torch_unit<is_wide>(own, j % 8);
            double turn = torch_unit<is_wide>(own, j % 8 + 8);
            angle = is_wide ? two_pi * turn : (double)(float)((double)(float)two_pi * turn);
            wants_cosine = j < 8;
        }
        double radius = bw_sqrt(-2 * bw_log(1 - unit)); /* 1 - unit is exact */
        return bw_put<T>((W)bw_fma(radius * bw_sine_turned(angle, wants_cosine ? 1 : 0), r.b, r.a));
    }
};
template <typename T> struct torch_bits {
    static BW_DEVICE_SPECIAL T of(const bw_random_args &, const uint32_t *words, int64_t i)
    {
        return sizeof(T) == 8 ? (T)pair_of(words[2 * i], words[2 * i + 1]) : (T)words[i];
    }
};
template <typename V, typename T>
BW_DEVICE void torch_take(const bw_loop &loop, const bw_random_args &r, T *y, const uint32_t *words)
{
    const int64_t i = r.first + bw_grid_thread();
    if (i < r.n)
        y[offset_of(loop, i)] = V::of(r, words, i);
}

#define KERNELS(name, type, T)                                                                                         \
    BW_KERNEL(BW_RANDOM_THREADS, rand_##name##_##type)(const bw_loop loop, const bw_random_args r, T *y)               \
    {                                                                                                                  \
        draw<name<T>>(loop, r, y);                                                                                     \
    }                                                                                                                  \
    BW_KERNEL(BW_RANDOM_THREADS, rand_##name##_torch_cpu_##type)                                                       \
    (const bw_loop loop, const bw_random_args r, T *y, const uint32_t *words)                                          \
    {                                                                                                                  \
        torch_take<torch_##name<T>>(loop, r, y, words);                                                                \
    }
#define FLOATS(name)                                                                                                   \
    KERNELS(name, f32, float)                                                                                          \
    KERNELS(name, f64, double)                                                                                         \
    KERNELS(name, f16, bw_f16)                                                                                         \
    KERNELS(name, bf16, bw_bf16)
FLOATS(uniform)
FLOATS(normal)
KERNELS(bits, u32, uint32_t)
KERNELS(bits, i64, int64_t)
