/* Words on NVIDIA targets (bw_words.h). Instructions: PTX ISA 8.x. */
#ifndef BW_WORDS_NVIDIA_H
#define BW_WORDS_NVIDIA_H

BW_DEVICE bw_16 bw_load16(const void *p)
{
    uint4 v = *(const uint4 *)p;
    return bw_16{{v.x, v.y, v.z, v.w}};
}
BW_DEVICE bw_16 bw_load16_once(const void *p)
{
    bw_16 v;
    asm("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
        : "l"(__cvta_generic_to_global(p)));
    return v;
}
BW_DEVICE uint32_t bw_load4_once(const void *p)
{
    return __ldg((const uint32_t *)p);
}
BW_DEVICE void bw_store16(void *p, bw_16 v)
{
    *(uint4 *)p = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]);
}
BW_DEVICE int bw_dot4(uint32_t a, uint32_t b, int c)
{
    return __dp4a((int)a, (int)b, c);
}
template <int S> BW_DEVICE uint32_t bw_bytes(uint32_t a, uint32_t b)
{
    return __byte_perm(a, b, S);
}
/* prmt wants a choice in each nibble. Bit 3 of one repeats a sign, so the halves of the table are looked up apart. */
BW_DEVICE uint32_t bw_table16(uint32_t q, bw_16 t)
{
    uint32_t packed = q | q >> 4;
    packed = __byte_perm(packed, 0, 0x4420); /* four nibbles in 16 bits */
    uint32_t at = packed & 0x7777u, low = __byte_perm(t.w[0], t.w[1], at), high = __byte_perm(t.w[2], t.w[3], at);
    return __byte_perm(low, high, 0x3210u | (packed & 0x8888u) >> 1);
}
BW_DEVICE float bw_f16_of_bits(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}
BW_DEVICE uint32_t bw_half2_bits(__half2 x)
{
    return *(const uint32_t *)&x;
}
BW_DEVICE __half2 bw_half2_of(uint32_t x)
{
    return *(const __half2 *)&x;
}
template <typename T> BW_DEVICE uint32_t bw_pair_put(float low, float high);
template <> BW_DEVICE_SPECIAL uint32_t bw_pair_put<bw_f16>(float low, float high)
{
    return bw_half2_bits(__floats2half2_rn(low, high));
}
template <> BW_DEVICE_SPECIAL uint32_t bw_pair_put<bw_bf16>(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
template <typename T> BW_DEVICE uint32_t bw_pair_add(uint32_t a, uint32_t b)
{
    return bw_half2_bits(__hadd2(bw_half2_of(a), bw_half2_of(b)));
}
template <typename T> BW_DEVICE uint32_t bw_pair_mul(uint32_t a, uint32_t b)
{
    return bw_half2_bits(__hmul2(bw_half2_of(a), bw_half2_of(b)));
}
template <typename T> BW_DEVICE uint32_t bw_pair_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return bw_half2_bits(__hfma2(bw_half2_of(a), bw_half2_of(b), bw_half2_of(c)));
}
BW_DEVICE uint32_t bw_shuffle(uint32_t x, int lane)
{
    return __shfl_sync(0xffffffffu, x, lane);
}
BW_DEVICE uint32_t bw_shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

BW_DEVICE float bw_nearest(float x)
{
    return rintf(x);
}
#define BW_KERNEL_WIDE(block, name) extern "C" __global__ __launch_bounds__(block, 1) void name
#define BW_KERNEL_SEVERAL(block, n, name) extern "C" __global__ __launch_bounds__(block, n) void name
#define BW_SHARED_LARGE(name, n_bytes) extern __shared__ __align__(16) unsigned char name[]

struct bw_copy {
    static constexpr bool IS_ASYNCHRONOUS = true;
    BW_DEVICE_SPECIAL void begin(void *shared, const void *device, bool is_there)
    {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(bw_shared_address(shared)),
                     "l"(__cvta_generic_to_global(device)), "r"(is_there ? 16 : 0)
                     : "memory");
    }
    BW_DEVICE_SPECIAL void end(void *shared)
    {
        (void)shared;
    }
};
BW_DEVICE void bw_copies_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> BW_DEVICE void bw_copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#endif
