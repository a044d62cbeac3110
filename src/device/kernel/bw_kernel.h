/* What device code is written in: one source for AMD and NVIDIA. Owns the vendor differences (with bw_kernel_amd.h and
 * bw_kernel_nvidia.h, the only files that know them) and the types; refuses to know any operation.
 *
 * A kernel is C with a little C++: BW_KERNEL(name)(arguments...). It never writes threadIdx, warpSize, __shfl, or a
 * literal 32 for a wave. Compiled by clang for gfx targets (no SDK, no device library), by nvcc for sm targets, and for
 * the host where tests run kernels without a GPU (tests/simgpu has that row).
 */
#ifndef BW_KERNEL_H
#define BW_KERNEL_H

#if defined(BW_KERNEL_HOST)
#include "bw_kernel_host.h" /* tests/simgpu */
#elif defined(__HIP__)
#include "bw_kernel_amd.h"
#elif defined(__CUDACC__)
#include "bw_kernel_nvidia.h"
#else
#error "device code is compiled by clang -x hip or by nvcc"
#endif

#include "bw_math.h"

/* Storage types. All arithmetic is in f32 or f64: load and store convert. */
struct bw_bf16 {
    uint16_t bits;
};
struct bw_f8 { /* E4M3 without infinities, as OCP defines it; stores saturate */
    uint8_t bits;
};

/* The type arithmetic on T is done in. */
template <typename T> struct bw_wide {
    typedef T type;
};
template <> struct bw_wide<bw_f16> {
    typedef float type;
};
template <> struct bw_wide<bw_bf16> {
    typedef float type;
};
template <> struct bw_wide<bw_f8> {
    typedef float type;
};

BW_DEVICE float bw_get(float x)
{
    return x;
}
BW_DEVICE double bw_get(double x)
{
    return x;
}
BW_DEVICE float bw_get(bw_f16 x)
{
    return (float)x;
}
BW_DEVICE float bw_get(bw_bf16 x)
{
    return bw_from_bits((uint32_t)x.bits << 16);
}
BW_DEVICE float bw_get(bw_f8 x)
{
    uint32_t sign = (uint32_t)(x.bits & 0x80u) << 24, abs = x.bits & 0x7fu;
    if (abs == 0x7f)
        return bw_from_bits(sign | 0x7fc00000u);
    if (abs < 8)
        return bw_from_bits(sign | bw_bits((float)abs * 0x1p-9f));
    return bw_from_bits(sign | ((abs << 20) + (120u << 23)));
}
BW_DEVICE int8_t bw_get(int8_t x)
{
    return x;
}
BW_DEVICE uint8_t bw_get(uint8_t x)
{
    return x;
}
BW_DEVICE int16_t bw_get(int16_t x)
{
    return x;
}
BW_DEVICE int32_t bw_get(int32_t x)
{
    return x;
}
BW_DEVICE uint32_t bw_get(uint32_t x)
{
    return x;
}
BW_DEVICE int64_t bw_get(int64_t x)
{
    return x;
}

/* f32 (or the type itself) to storage, to nearest even. */
template <typename T> BW_DEVICE T bw_put(typename bw_wide<T>::type x)
{
    return (T)x;
}
template <> BW_DEVICE_SPECIAL bw_bf16 bw_put<bw_bf16>(float x)
{
    uint32_t b = bw_bits(x);
    bw_bf16 h;
    h.bits =
        (b & 0x7fffffffu) > 0x7f800000u ? (uint16_t)(b >> 16 | 0x40) : (uint16_t)((b + 0x7fffu + (b >> 16 & 1)) >> 16);
    return h;
}
template <> BW_DEVICE_SPECIAL bw_f8 bw_put<bw_f8>(float x)
{
    uint32_t b = bw_bits(x), sign = b >> 24 & 0x80u, abs = b & 0x7fffffffu;
    bw_f8 r;
    if (abs > 0x7f800000u)
        r.bits = (uint8_t)(sign | 0x7fu);
    else if (abs >= 0x43e00000u) /* 448 and above */
        r.bits = (uint8_t)(sign | 0x7eu);
    else if (abs < 0x3c800000u) /* below 2^-6: 2^14 has an ulp of 2^-9, so the addition rounds */
        r.bits = (uint8_t)(sign | (bw_bits(bw_from_bits(abs) + 0x1p14f) - 0x46800000u));
    else
        r.bits = (uint8_t)(sign | ((abs - 0x3c000000u + 0x7ffffu + (abs >> 20 & 1)) >> 20));
    return r;
}

BW_DEVICE int bw_least(int64_t a, int b)
{
    return a < b ? (int)a : b;
}

/* ---- a workgroup's reductions ---------------------------------------------------------------------------------- */

/* Every lane of the wave gets the sum (or the largest, NaN passed over) of all its lanes' values. */
template <typename W> BW_DEVICE W bw_wave_sum(W x)
{
#pragma unroll
    for (int mask = BW_WAVE / 2; mask > 0; mask >>= 1)
        x += bw_shuffle_xor(x, mask);
    return x;
}
template <typename W> BW_DEVICE W bw_wave_max(W x)
{
#pragma unroll
    for (int mask = BW_WAVE / 2; mask > 0; mask >>= 1) {
        W other = bw_shuffle_xor(x, mask);
        x = other > x ? other : x;
    }
    return x;
}

/* The same over a workgroup of BLOCK threads, a multiple of the wave. All threads call it. `shared` has room for one
 * value per wave and is free again when this returns. */
template <int BLOCK, typename W> BW_DEVICE W bw_block_sum(W x, W *shared)
{
    x = bw_wave_sum(x);
    if (bw_lane() == 0)
        shared[bw_thread() / BW_WAVE] = x;
    bw_barrier();
    W sum = 0;
#pragma unroll
    for (int i = 0; i < BLOCK / BW_WAVE; i++)
        sum += shared[i];
    bw_barrier();
    return sum;
}
template <int BLOCK, typename W> BW_DEVICE W bw_block_max(W x, W *shared)
{
    x = bw_wave_max(x);
    if (bw_lane() == 0)
        shared[bw_thread() / BW_WAVE] = x;
    bw_barrier();
    W most = shared[0];
#pragma unroll
    for (int i = 1; i < BLOCK / BW_WAVE; i++)
        most = shared[i] > most ? shared[i] : most;
    bw_barrier();
    return most;
}

/* ---- index spaces ----------------------------------------------------------------------------------------------- */

#include "bw_loop.h"

/* Whether every tensor of a loop is walked in order without gaps. */
BW_DEVICE bool bw_loop_is_dense(const bw_loop &loop, int n_tensors)
{
    bool dense = loop.n_dims == 1;
#pragma unroll
    for (int k = 0; k < BW_LOOP_MAX_TENSORS; k++)
        dense = dense && (k >= n_tensors || loop.strides[k][0] == 1);
    return dense;
}

/* i / n. The wide one is right for i below 2^53, more elements than any card can walk: there the nearest double of
 * i / n is below the next whole number whenever i / n is. It takes far fewer instructions than a division of 64-bit
 * integers, which had made up most of many kernels. */
BW_DEVICE uint32_t bw_quotient(uint32_t i, uint32_t n)
{
    return i / n;
}
BW_DEVICE uint64_t bw_quotient(uint64_t i, uint64_t n)
{
    return (uint64_t)((double)i / (double)n);
}

/* Offsets of element i in the loop's first N tensors. Dimensions are walked with fixed bounds, so that no register is
 * indexed at run time. I: uint32_t while the loop has fewer than 2^32 elements, where division is cheaper. */
template <int N, typename I> BW_DEVICE void bw_loop_offsets(const bw_loop &loop, I i, int64_t (&at)[N])
{
#pragma unroll
    for (int k = 0; k < N; k++)
        at[k] = 0;
#pragma unroll
    for (int d = BW_LOOP_MAX_DIMS - 1; d >= 0; d--) {
        if (d >= loop.n_dims)
            continue;
        I dim = (I)loop.dims[d], rest = bw_quotient(i, dim);
        int64_t own = (int64_t)(i - rest * dim);
#pragma unroll
        for (int k = 0; k < N; k++)
            at[k] += own * loop.strides[k][d];
        i = rest;
    }
}

/* For a kernel's main loop: every element once over the whole grid. body(at) gets the N offsets. */
template <int N, typename F> BW_DEVICE void bw_for_each(const bw_loop &loop, F body)
{
    int64_t at[N], step = bw_grid_threads();
    if (bw_loop_is_dense(loop, N)) {
        for (int64_t i = bw_grid_thread(); i < loop.n; i += step) {
#pragma unroll
            for (int k = 0; k < N; k++)
                at[k] = i;
            body(at);
        }
    } else if (bw_grid_thread() < loop.n) {
        /* One thread per element, at most 2^31: the host sees to both. A loop would keep every stride in scalar
         * registers. */
        bw_loop_offsets<N, uint32_t>(loop, (uint32_t)bw_grid_thread(), at);
        body(at);
    }
}

/* The same with one thread per element of dense loops too: for long formulas, whose constants a loop would keep in
 * scalar registers. The host: bw_gpu_each_once. */
template <int N, typename F> BW_DEVICE void bw_for_each_once(const bw_loop &loop, F body)
{
    int64_t at[N], i = bw_grid_thread();
    if (i >= loop.n)
        return;
    if (bw_loop_is_dense(loop, N)) {
#pragma unroll
        for (int k = 0; k < N; k++)
            at[k] = i;
    } else {
        bw_loop_offsets<N, uint32_t>(loop, (uint32_t)i, at);
    }
    body(at);
}

#endif
