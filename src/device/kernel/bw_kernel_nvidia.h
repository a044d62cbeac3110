/* The prelude for NVIDIA targets: nvcc. */
#ifndef BW_KERNEL_NVIDIA_H
#define BW_KERNEL_NVIDIA_H

#include <cuda_fp16.h>
#include <stdint.h>

#define BW_DEVICE static BW_DEVICE_SPECIAL
/* For explicit specialisations, which take the storage class of their template. */
#define BW_DEVICE_SPECIAL __device__ __forceinline__ __attribute__((unused))
#define BW_KERNEL(block, name) extern "C" __global__ __launch_bounds__(block) void name
#define BW_SHARED static __shared__
/* A constant table in device memory, read with any index per lane. */
#define BW_DEVICE_TABLE static __device__ const

typedef __half bw_f16;

BW_DEVICE uint32_t bw_bits(float x)
{
    return __float_as_uint(x);
}
BW_DEVICE float bw_from_bits(uint32_t x)
{
    return __uint_as_float(x);
}

#define BW_WAVE 32

BW_DEVICE int bw_thread(void)
{
    return (int)threadIdx.x;
}
BW_DEVICE int bw_block_threads(void)
{
    return (int)blockDim.x;
}
BW_DEVICE int64_t bw_block(void)
{
    return (int64_t)blockIdx.x;
}
BW_DEVICE int64_t bw_block_y(void)
{
    return (int64_t)blockIdx.y;
}
BW_DEVICE int64_t bw_block_z(void)
{
    return (int64_t)blockIdx.z;
}
BW_DEVICE int64_t bw_grid_thread(void)
{
    return bw_block() * bw_block_threads() + bw_thread();
}
BW_DEVICE int64_t bw_grid_threads(void)
{
    return (int64_t)gridDim.x * bw_block_threads();
}
BW_DEVICE int bw_lane(void)
{
    return (int)(threadIdx.x & 31u);
}
BW_DEVICE void bw_barrier(void)
{
    __syncthreads();
}
BW_DEVICE float bw_shuffle_xor(float x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}
BW_DEVICE double bw_shuffle_xor(double x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

BW_DEVICE float bw_exp(float x)
{
    return expf(x);
}
BW_DEVICE double bw_exp(double x)
{
    return exp(x);
}
BW_DEVICE float bw_sqrt(float x)
{
    return sqrtf(x);
}
BW_DEVICE double bw_sqrt(double x)
{
    return sqrt(x);
}
BW_DEVICE float bw_fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}
BW_DEVICE double bw_fma(double a, double b, double c)
{
    return fma(a, b, c);
}

#endif
