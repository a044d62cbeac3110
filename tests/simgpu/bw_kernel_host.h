/* The prelude's third row: kernels compiled as C++ for the host and run by the simulator (tests/simgpu/README.md).
 * Chosen in bw_kernel.h by BW_KERNEL_HOST; SIM_WAVE (32 or 64) is the wave.
 *
 * How to extend it when bw_kernel_amd.h and bw_kernel_nvidia.h get a function:
 *  - arithmetic: plain C++ here, with the header's meaning, not one vendor's instruction;
 *  - anything that lanes of a wave do together: sim_share() hands a value (any plain type up to SIM_SLOT_BYTES) to the
 *    wave and gives all lanes' values back; bw_shuffle_xor below is the pattern. Take SIM_HERE as last parameter and
 * hand SIM_AT on, so that lanes at different places are noticed. A result that depends on several values per lane (a
 * matrix tile) shares a struct of them;
 *  - workgroup-wide: bw_barrier; atomics: plain read-modify-write (fibres switch only in barriers and sim_share), or a
 *    compiler's __atomic builtin;
 *  - shared memory whose size the launch gives: sim_now.dynamic_shared.
 * No C++ library and no exceptions: clang++-14 and newer or g++-12 and newer.
 */
#ifndef BW_KERNEL_HOST_H
#define BW_KERNEL_HOST_H

#include <stdint.h>

#include "simgpu.h"

#define BW_DEVICE static BW_DEVICE_SPECIAL
#define BW_DEVICE_SPECIAL inline __attribute__((always_inline, unused))
/* The build finds kernels by this type in the preprocessed source; it is void. */
template <int MAX_THREADS> struct sim_void {
    typedef void type;
};
#define BW_KERNEL(block, name) extern "C" typename sim_void<block>::type name
/* Function-local, so that its mangled name tells it apart (sim_shared_init). */
#define BW_SHARED static
#define BW_DEVICE_TABLE static const

#define SIM_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SIM_AT file, line

template <typename R, typename T> BW_DEVICE R sim_cast(T x)
{
    static_assert(sizeof(R) == sizeof(T), "as many bits");
    R r;
    __builtin_memcpy(&r, &x, sizeof r);
    return r;
}
BW_DEVICE uint32_t bw_bits(float x)
{
    return sim_cast<uint32_t>(x);
}
BW_DEVICE float bw_from_bits(uint32_t x)
{
    return sim_cast<float>(x);
}

/* IEEE half precision; not every host compiler has _Float16 in C++. Arithmetic happens in f32, as everywhere. */
struct bw_f16 {
    uint16_t bits;
    bw_f16() = default;
    template <typename T> BW_DEVICE_SPECIAL explicit bw_f16(T x) : bits(round_to(odd((double)x, (float)x)))
    {
    }
    BW_DEVICE_SPECIAL explicit bw_f16(float x) : bits(round_to(x))
    {
    }
    BW_DEVICE_SPECIAL operator float() const
    {
        uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, abs = bits & 0x7fffu;
        if (abs < 0x400)
            return bw_from_bits(sign | bw_bits((float)abs * 0x1p-24f));
        return bw_from_bits(sign | (abs << 13) + (abs < 0x7c00 ? 112u << 23 : 224u << 23));
    }

  private:
    /* an f64 to the f32 that is odd where it is inexact, so that the second rounding is the only one */
    static BW_DEVICE_SPECIAL float odd(double x, float f)
    {
        double back = f;
        if (x != x || back == x)
            return f;
        uint32_t b = bw_bits(f);
        if ((back < 0 ? -back : back) > (x < 0 ? -x : x))
            b--;
        return bw_from_bits(b | 1);
    }
    static BW_DEVICE_SPECIAL uint16_t round_to(float x)
    {
        uint32_t b = bw_bits(x), sign = b >> 16 & 0x8000u, abs = b & 0x7fffffffu;
        if (abs > 0x7f800000u)
            return (uint16_t)(sign | 0x7e00u | (abs >> 13 & 0x1ffu));
        if (abs >= 0x477ff000u)
            return (uint16_t)(sign | 0x7c00u);
        if (abs < 0x38800000u) /* below 2^-14: 0.5 has an ulp of 2^-24, so the addition rounds */
            return (uint16_t)(sign | (bw_bits(bw_from_bits(abs) + 0.5f) - 0x3f000000u));
        return (uint16_t)(sign | ((abs - (112u << 23) + 0xfffu + (abs >> 13 & 1)) >> 13));
    }
};

#define BW_WAVE SIM_WAVE

BW_DEVICE int bw_thread(void)
{
    return sim_now.thread;
}
BW_DEVICE int bw_block_threads(void)
{
    return sim_now.block_threads;
}
BW_DEVICE int64_t bw_block(void)
{
    return sim_now.block[0];
}
BW_DEVICE int64_t bw_block_y(void)
{
    return sim_now.block[1];
}
BW_DEVICE int64_t bw_block_z(void)
{
    return sim_now.block[2];
}
BW_DEVICE int64_t bw_grid_thread(void)
{
    return bw_block() * bw_block_threads() + bw_thread();
}
BW_DEVICE int64_t bw_grid_threads(void)
{
    return sim_now.blocks[0] * bw_block_threads();
}
BW_DEVICE int bw_lane(void)
{
    return bw_thread() % BW_WAVE;
}
BW_DEVICE void bw_barrier(SIM_HERE)
{
    sim_barrier(SIM_AT);
}

/* What all lanes of the wave handed over. */
template <typename T> struct sim_lanes {
    const unsigned char *slots;
    const char *file;
    int line;
    BW_DEVICE_SPECIAL T operator[](int lane) const
    {
        T value;
        __builtin_memcpy(&value, slots + sim_lane(lane, SIM_AT) * (int)sizeof value, sizeof value);
        return value;
    }
};
template <typename T> BW_DEVICE sim_lanes<T> sim_share(const T &mine, SIM_HERE)
{
    static_assert(sizeof(T) <= SIM_SLOT_BYTES, "a lane's slot is smaller");
    return sim_lanes<T>{sim_wave_share(&mine, sizeof mine, SIM_AT), SIM_AT};
}

/* The value that lane (own ^ mask) holds. */
BW_DEVICE float bw_shuffle_xor(float x, int mask, SIM_HERE)
{
    return sim_share(x, SIM_AT)[bw_lane() ^ mask];
}
BW_DEVICE double bw_shuffle_xor(double x, int mask, SIM_HERE)
{
    return sim_share(x, SIM_AT)[bw_lane() ^ mask];
}

BW_DEVICE float bw_exp(float x)
{
    return __builtin_expf(x);
}
BW_DEVICE double bw_exp(double x)
{
    return __builtin_exp(x);
}
BW_DEVICE float bw_sqrt(float x)
{
    return __builtin_sqrtf(x);
}
BW_DEVICE double bw_sqrt(double x)
{
    return __builtin_sqrt(x);
}
BW_DEVICE float bw_fma(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
BW_DEVICE double bw_fma(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

#endif
