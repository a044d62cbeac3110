/* What the references and kernels of the random family share: which words of which Philox block an element takes, and
 * how a PyTorch uniform value is bounded. Refuses to know distributions. */
#ifndef BW_RANDOM_CORE_H
#define BW_RANDOM_CORE_H

#include "bw_op_check.h"
#include "bw_rng.h"

/* Where an element's words come from. */
typedef struct random_place {
    uint32_t counter[4];
    int slot; /* 0..per_block-1 */
} random_place;

typedef struct random_blocks {
    bw_random_source source;
    int64_t per_block; /* elements that one block of four words serves: 4, or 2 of 64 bits */
    int64_t threads;   /* TORCH_CUDA: threads of the launch */
} random_blocks;

static inline void random_blocks_init(random_blocks *b, const bw_random_source *source, const bw_tensor *y)
{
    int64_t n = bw_tensor_elements(y), threads = (n + 255) / 256 * 256;
    *b = (random_blocks){.source = *source, .per_block = bw_dtype_block_bytes(y->dtype) == 8 ? 2 : 4};
    b->threads = source->cuda_threads > 0 && source->cuda_threads < threads ? source->cuda_threads : threads;
}

/* Element i's place. PyTorch on CUDA: a thread t of T draws a block for the elements t, t + T, t + 2 T, ... of its
 * round; its number is the counter's upper half. */
static inline random_place random_blocks_place(const random_blocks *b, int64_t i)
{
    uint64_t low, high;
    int64_t slot;
    if (b->source.mode == BW_RANDOM_TORCH_CUDA) {
        int64_t round = i / (b->threads * b->per_block), rest = i % (b->threads * b->per_block);
        low = b->source.offset / 4 + (uint64_t)round;
        high = (uint64_t)(rest % b->threads);
        slot = rest / b->threads;
    } else {
        low = (uint64_t)(i / b->per_block);
        high = b->source.offset;
        slot = i % b->per_block;
    }
    return (random_place){{(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)}, (int)slot};
}

static inline void random_blocks_draw(const random_blocks *b, const random_place *place, uint32_t words[4])
{
    uint32_t key[2] = {(uint32_t)b->source.seed, (uint32_t)(b->source.seed >> 32)};
    bw_philox4x32(place->counter, key, words);
}

/* The bits of an i64 element: two words, the first one low; PyTorch has the first one high. */
static inline uint64_t random_pair(const random_blocks *b, const uint32_t words[4], int slot)
{
    uint64_t first = words[slot * 2], second = words[slot * 2 + 1];
    return b->source.mode == BW_RANDOM_TORCH_CUDA ? first << 32 | second : second << 32 | first;
}

/* cuRAND's 53 bits of two words (the second one shifted by 21 and laid over the first by exclusive or). */
static inline uint64_t random_curand_53(const uint32_t words[2])
{
    return (uint64_t)words[0] ^ (uint64_t)words[1] << 21;
}

/* The largest value of a float type below a finite `up` (double). */
double bw_random_below(bw_dtype dtype, double up);

/* The TORCH_CPU generator's whole call (random_torch_cpu.c), one thread. */
void bw_random_torch_cpu(const bw_op_call *call, const bw_random_source *source);

#endif
