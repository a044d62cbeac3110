/* Words of packed small numbers in device code: 16-byte loads and stores, copies to shared memory that overlap with
 * arithmetic, dot products of bytes, pairs of 16-bit floats, byte tables. Owns their meaning; how each vendor does them
 * stands in bw_words_amd.h and bw_words_nvidia.h, and in plain C++ in bw_words_plain.h.
 */
#ifndef BW_WORDS_H
#define BW_WORDS_H

#include "bw_kernel.h"

/* Sixteen bytes. */
struct bw_16 {
    uint32_t w[4];
};

/* What each vendor defines:
 *   bw_16 bw_load16(p)                 p aligned to 16 bytes, any memory
 *   bw_16 bw_load16_once(p)            device memory that is read once (weights): leaves the caches to others
 *   uint32_t bw_load4_once(p)          the same for 4 bytes
 *   void bw_store16(p, v)
 *   int bw_dot4(a, b, c)               c + the sum of the products of four signed bytes
 *   uint32_t bw_bytes<S>(a, b)         byte i of the result is byte (S >> 4i & 7) of a (0..3) and b (4..7)
 *   uint32_t bw_table16(q, t)          byte i is byte (q >> 8i & 15) of t; q has no other bits
 *   uint32_t bw_pair_add<T>(a, b), bw_pair_mul<T>, bw_pair_fma<T>(a, b, c)   T is bw_f16: two at a time, rounded once
 *   uint32_t bw_pair_put<T>(low, high) T is bw_f16 or bw_bf16: two f32, to nearest even
 *   uint32_t bw_shuffle(x, lane)       the word that a lane holds; all lanes of the wave call it
 *   float bw_nearest(x)                to a whole number, halves to even
 *   BW_KERNEL_WIDE(block, name)        as BW_KERNEL, for kernels that want registers (loads under way) more than
 *                                      several workgroups on a unit
 *   BW_KERNEL_SEVERAL(block, n, name)  the same, but on NVIDIA n workgroups, 1 or more, must find room on a unit
 *   BW_SHARED_LARGE(name, n_bytes)     bytes of shared memory, aligned to 16, that may be more than 48 KiB on
 *                                      NVIDIA: there the launch must ask for them (bw_gpu_grid.shared_bytes); one
 *                                      per kernel
 *
 *   struct bw_copy                     16 bytes from device to shared memory, in three steps that all threads take:
 *     begin(shared, device, is_there)  starts (zeros when not is_there; device may then be anything)
 *     bw_copies_commit()               ends a group of starts
 *     bw_copies_wait<N>()              waits until at most the N newest groups are under way
 *     end(shared)                      puts what has come in its place (where the hardware has not done so itself)
 *   and then a barrier. Between begin and end the destination may be neither read nor written.
 *   bw_copy::IS_ASYNCHRONOUS: begin already writes, so that several stages may be under way; else one. */

#if defined(BW_KERNEL_HOST)
#include "bw_words_plain.h"
#elif defined(__HIP__)
#include "bw_words_amd.h"
#else
#include "bw_words_nvidia.h"
#endif

/* The two numbers of a pair as f32. */
template <typename T> BW_DEVICE float bw_pair_low(uint32_t pair);
template <typename T> BW_DEVICE float bw_pair_high(uint32_t pair);
template <> BW_DEVICE_SPECIAL float bw_pair_low<bw_f16>(uint32_t pair)
{
    return bw_f16_of_bits((uint16_t)pair);
}
template <> BW_DEVICE_SPECIAL float bw_pair_high<bw_f16>(uint32_t pair)
{
    return bw_f16_of_bits((uint16_t)(pair >> 16));
}
template <> BW_DEVICE_SPECIAL float bw_pair_low<bw_bf16>(uint32_t pair)
{
    return bw_from_bits(pair << 16);
}
template <> BW_DEVICE_SPECIAL float bw_pair_high<bw_bf16>(uint32_t pair)
{
    return bw_from_bits(pair & 0xffff0000u);
}
/* x in both places. */
template <typename T> BW_DEVICE uint32_t bw_pair_both(float x)
{
    return bw_pair_put<T>(x, x);
}

/* Bytes 2i and 2i + 1 of four unsigned bytes, as a pair of f16, exactly: 1024 + q has q in its lowest bits. */
template <int I> BW_DEVICE uint32_t bw_bytes_f16(uint32_t bytes, float minus)
{
    uint32_t pair = bw_bytes < I ? 0x7372 : 0x7170 > (bytes, 0x64000000u);
    return bw_pair_add<bw_f16>(pair, bw_pair_both<bw_f16>(-1024.0f - minus));
}

#endif
