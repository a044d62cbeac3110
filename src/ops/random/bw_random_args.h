/* What the kernels of the random family get. Plain data, by value. */
#ifndef BW_RANDOM_ARGS_H
#define BW_RANDOM_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

typedef struct bw_random_args {
    uint64_t seed, offset;
    int64_t n;       /* elements */
    int64_t threads; /* TORCH_CUDA: of PyTorch's launch */
    int64_t first;   /* of a launch in several grids, the first thread's number */
    int64_t last;    /* TORCH_CPU, normal: the word at which a remainder's last sixteen numbers begin */
    double a, b;     /* of uniform numbers the lower end and the width, of normal ones mean and deviation */
    double up;       /* uniform: a value that reaches it (TORCH: is it) becomes `instead` */
    double instead;
    int32_t mode;
    int32_t bounded; /* PHILOX: lo < up */
} bw_random_args;

enum { BW_RANDOM_THREADS = 256 };

#endif
