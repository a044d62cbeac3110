/* The prelude for AMD targets: clang's HIP without an SDK or a device library. */
#ifndef BW_KERNEL_AMD_H
#define BW_KERNEL_AMD_H

typedef __INT8_TYPE__ int8_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __INT16_TYPE__ int16_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;

#define BW_DEVICE static BW_DEVICE_SPECIAL
/* For explicit specialisations, which take the storage class of their template. */
#define BW_DEVICE_SPECIAL __attribute__((device, always_inline, unused)) inline
/* A kernel for workgroups of at most `block` threads. launch_bounds would be ignored here. */
#define BW_KERNEL(block, name)                                                                                         \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, block), visibility("protected"))) void name
#define BW_SHARED static __attribute__((shared))
/* A constant table in device memory, read with any index per lane. */
#define BW_DEVICE_TABLE static __attribute__((device)) const

typedef _Float16 bw_f16;

BW_DEVICE uint32_t bw_bits(float x)
{
    return __builtin_bit_cast(uint32_t, x);
}
BW_DEVICE float bw_from_bits(uint32_t x)
{
    return __builtin_bit_cast(float, x);
}

/* Lanes of a wave: a constant of the target. */
#define BW_WAVE __AMDGCN_WAVEFRONT_SIZE

BW_DEVICE int bw_thread(void)
{
    return (int)__builtin_amdgcn_workitem_id_x();
}
BW_DEVICE int bw_block_threads(void)
{
    return (int)__builtin_amdgcn_workgroup_size_x();
}
BW_DEVICE int64_t bw_block(void)
{
    return (int64_t)__builtin_amdgcn_workgroup_id_x();
}
BW_DEVICE int64_t bw_block_y(void)
{
    return (int64_t)__builtin_amdgcn_workgroup_id_y();
}
BW_DEVICE int64_t bw_block_z(void)
{
    return (int64_t)__builtin_amdgcn_workgroup_id_z();
}
/* This thread among all of the grid's, and how many there are. */
BW_DEVICE int64_t bw_grid_thread(void)
{
    return bw_block() * bw_block_threads() + bw_thread();
}
BW_DEVICE int64_t bw_grid_threads(void)
{
    return (int64_t)__builtin_amdgcn_grid_size_x();
}
BW_DEVICE int bw_lane(void)
{
#if __AMDGCN_WAVEFRONT_SIZE == 64
    return (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
#else
    return (int)__builtin_amdgcn_mbcnt_lo(~0u, 0);
#endif
}
BW_DEVICE void bw_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/* The value that lane (own ^ mask) holds. */
BW_DEVICE uint32_t bw_shuffle_xor_bits(uint32_t x, int mask)
{
    return (uint32_t)__builtin_amdgcn_ds_bpermute((bw_lane() ^ mask) << 2, (int)x);
}
BW_DEVICE float bw_shuffle_xor(float x, int mask)
{
    return bw_from_bits(bw_shuffle_xor_bits(bw_bits(x), mask));
}
BW_DEVICE double bw_shuffle_xor(double x, int mask)
{
    uint64_t b = __builtin_bit_cast(uint64_t, x);
    uint32_t low = bw_shuffle_xor_bits((uint32_t)b, mask), high = bw_shuffle_xor_bits((uint32_t)(b >> 32), mask);
    return __builtin_bit_cast(double, (uint64_t)high << 32 | low);
}

/* Elementary functions. f32: e^x by the hardware's 2^x (1 ulp) of x / ln 2 less its nearest integer: one rounding, at
 * 2^-25, then the rest of 1 / ln 2. No product here is rounded alone, so none can be fused wrongly. */
BW_DEVICE float bw_exp(float x)
{
    const float log2e = 1.44269502f, low = 1.92596299e-8f; /* the two add to log2(e) */
    float n = __builtin_rintf(x * log2e);
    float r = __builtin_amdgcn_exp2f(__builtin_fmaf(x, low, __builtin_fmaf(x, log2e, -n)));
    r = __builtin_ldexpf(r, (int)n);
    r = x > 88.8f ? __builtin_inff() : r;
    return x < -103.98f ? 0.0f : r;
}
/* e^x in f64, below 1 ulp: x = n ln 2 + r with ln 2 in two parts (Cody and Waite), Taylor's polynomial for |r| <= ln 2
 * / 2 to degree 13, whose remainder is below 2^-57. */
BW_DEVICE double bw_exp(double x)
{
    double n = __builtin_rint(x * 1.4426950408889634074);
    double r = __builtin_fma(n, -6.93147180369123816490e-01, x);
    r = __builtin_fma(n, -1.90821492927058770002e-10, r);
    double p = 1.6059043836821614599e-10; /* 1 / 13! */
    p = __builtin_fma(p, r, 2.0876756987868098979e-09);
    p = __builtin_fma(p, r, 2.5052108385441718775e-08);
    p = __builtin_fma(p, r, 2.7557319223985890653e-07);
    p = __builtin_fma(p, r, 2.7557319223985892511e-06);
    p = __builtin_fma(p, r, 2.4801587301587301566e-05);
    p = __builtin_fma(p, r, 1.9841269841269841253e-04);
    p = __builtin_fma(p, r, 1.3888888888888889419e-03);
    p = __builtin_fma(p, r, 8.3333333333333332177e-03);
    p = __builtin_fma(p, r, 4.1666666666666664354e-02);
    p = __builtin_fma(p, r, 1.6666666666666665741e-01);
    p = __builtin_fma(p, r, 0.5);
    p = __builtin_fma(p * r, r, r) + 1.0;
    p = __builtin_ldexp(p, (int)n);
    p = x > 709.782712893384 ? __builtin_inf() : p;
    return x < -745.1332191019412 ? 0.0 : p; /* NaN stays NaN */
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
