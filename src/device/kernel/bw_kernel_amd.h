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
/* Exchanges between lanes must stay where they are written: behind a branch that some lanes do not take, those lanes'
 * values are lost. In the IR every builtin below is convergent, which says so. In LLVM 19's machine code (isConvergent
 * of MCInstrDesc, read out for each) v_mov_dpp and arithmetic with it, ds_swizzle, ds_bpermute, v_readlane and MFMA
 * still are; v_permlanex16 and WMMA are not. v_permlanex16 was seen sunk into the branch of the lanes that alone use
 * its result (mended in LLVM 21), so its result passes through here: inline assembly in device code is convergent, and
 * this one costs nothing. WMMA, and whatever else a compiler may do, is seen to by tools/check_lanes.c in every build.
 */
BW_DEVICE uint32_t bw_exchanged(uint32_t x)
{
    asm volatile("" : "+v"(x));
    return x;
}
/* Data-parallel moves: x of the lane that CONTROL names, 0 where that lane is off. Free where the next instruction
 * takes them in. */
template <int CONTROL> BW_DEVICE uint32_t bw_dpp(uint32_t x)
{
    return (uint32_t)__builtin_amdgcn_mov_dpp((int)x, CONTROL, 0xf, 0xf, true);
}
/* The value that lane (own ^ mask) holds, 0 where that lane is off. mask: a constant once loops are unrolled, so that
 * one of these is left; ds_bpermute needs an address and the way through shared memory. From AMD's ISA documents ("DPP
 * controls", "V_PERMLANEX16_B32", "DS_SWIZZLE_B32"), l a lane within its row of 16, quad or half row:
 *   1, 2   quad_perm: lane l of a quad reads the one that bits 2l, 2l + 1 name: 1 0 3 2 is 0xb1, 2 3 0 1 is 0x4e
 *   4      row_xmask:4 (gfx10 and later); before, row_half_mirror, which is l ^ 7, of quad_perm 3 2 1 0, which is l ^ 3
 *   8      row_ror:8: lane l reads (l - 8) mod 16, which is l ^ 8
 *   16     v_permlanex16 (gfx10 and later): lane l reads the one of the other row of 32 lanes that nibble l of the two
 *          words names, here l; before, ds_swizzle in its mask mode: (lane & 0x1f | 0) ^ 0x10, within 32 lanes
 *   32     nothing but ds_bpermute */
BW_DEVICE uint32_t bw_shuffle_xor_bits(uint32_t x, int mask)
{
    switch (mask) {
    case 1:
        return bw_dpp<0xb1>(x);
    case 2:
        return bw_dpp<0x4e>(x);
    case 8:
        return bw_dpp<0x128>(x);
#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
    case 4:
        return bw_dpp<0x164>(x);
    case 16:
        return bw_exchanged(
            (uint32_t)__builtin_amdgcn_permlanex16((int)x, (int)x, 0x76543210, (int)0xfedcba98u, false, true));
#else
    case 4:
        return bw_dpp<0x141>(bw_dpp<0x1b>(x));
    case 16:
        return (uint32_t)__builtin_amdgcn_ds_swizzle((int)x, 0x10 << 10 | 0x1f);
#endif
    default:
        return (uint32_t)__builtin_amdgcn_ds_bpermute((bw_lane() ^ mask) << 2, (int)x);
    }
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

/* 2^x by the hardware, 1 ulp. */
BW_DEVICE float bw_exp2_near(float x)
{
    return __builtin_amdgcn_exp2f(x);
}
/* 2^x by the hardware: 1 ulp, 0 where the result is subnormal. */
BW_DEVICE float bw_exp2(float x)
{
    return __builtin_amdgcn_exp2f(x);
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
