/* Params of the random family: plain data, shared with device code.
 *
 * No inputs; out0 of any shape and strides, elements counted in the order of its dimensions (last fastest).
 * RAND_UNIFORM: out f32 f64 f16 bf16, uniform in [lo, up): u * (up - lo) + lo with one rounding (a fused multiply and
 * add), for f64 in f64, for the others in f32 with up - lo and lo rounded to it first.
 * RAND_NORMAL: out f32 f64 f16 bf16, normal of this mean and standard deviation (Box and Muller 1958).
 * RAND_BITS: out u32 or i64, every bit fair: the generator's own words.
 *
 * Generators (mode):
 * BW_RANDOM_PHILOX: Philox 4x32-10 (Salmon et al., SC11) with key = seed, counter = (block, offset), where a block of
 *     four words serves four elements, or two of f64 and i64. Element i depends on (seed, offset, i) and on nothing
 *     else, so every device gives the same: integers and uniform floats identical, normal ones within 1e-6. Any two
 *     offsets give independent streams. Uniform floats have 24 random bits (f64: 53); f16 and bf16 are the f32 value
 *     rounded, and whatever would round to up becomes the largest value below it.
 * BW_RANDOM_TORCH_CUDA: what torch.rand, torch.randn and random_ give on a CUDA card for this seed with the generator
 *     at this offset (a multiple of 4; 0 after manual_seed). cuda_threads: the most threads the card holds at once,
 *     multiprocessors * (threads of one / 256) * 256, on which the values depend once an output has more elements than
 *     that; 0 = more than there are elements. One call then advances the generator by
 *     4 * ceil(elements / (threads * per_thread)), threads = the smaller of cuda_threads and elements rounded up to
 *     256, per_thread = 4, or 2 for f64 and i64. torch.randint's ranges are not covered.
 * BW_RANDOM_TORCH_CPU: what torch.rand, torch.randn and random_ (i64, whole range) give on a CPU after
 *     manual_seed(seed): MT19937 (Matsumoto and Nishimura 1998); only the seed's low 32 bits count. offset: words drawn
 *     before (at most 2^32). f16 and bf16 are the f32 value rounded, as PyTorch 2.15 does. torch.randn of fewer
 *     than 16 keeps its second value for a later call; here every call starts without.
 */
#ifndef BW_RANDOM_H
#define BW_RANDOM_H

#if defined(BW_KERNEL_H)
enum { BW_RANDOM_PHILOX, BW_RANDOM_TORCH_CUDA, BW_RANDOM_TORCH_CPU };
#else
#include "beeswax.h" /* bw_random_mode */
#endif
enum { BW_RANDOM_N_MODES = BW_RANDOM_TORCH_CPU + 1 };

typedef struct bw_random_source {
    uint64_t seed, offset;
    int64_t cuda_threads; /* TORCH_CUDA; else 0 */
    int32_t mode;
    int32_t zero; /* 0 */
} bw_random_source;

typedef struct bw_rand_uniform_params {
    bw_random_source source;
    double lo, up; /* lo <= up, finite in the type */
} bw_rand_uniform_params;

typedef struct bw_rand_normal_params {
    bw_random_source source;
    double mean, std; /* finite, std >= 0 */
} bw_rand_normal_params;

typedef struct bw_rand_bits_params {
    bw_random_source source;
} bw_rand_bits_params;

#endif
