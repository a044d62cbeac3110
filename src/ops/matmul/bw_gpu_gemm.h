/* The tiles of products on a GPU's matrix units, alike in LINEAR, MATMUL and convolutions: for their launches and, with
 * bw_gemm_tile.h, their kernels. */
#ifndef BW_GPU_GEMM_H
#define BW_GPU_GEMM_H

/* A workgroup of BW_GPU_GEMM_BLOCK threads makes BIG x BIG or SMALL x SMALL results, K of the depth at a time; rows of
 * K lie STRIDE apart in shared memory. STAGES: how many K are there or under way where the hardware copies by itself.
 */
enum {
    BW_GPU_GEMM_BLOCK = 256,
    BW_GPU_GEMM_BIG = 128,
    BW_GPU_GEMM_SMALL = 64,
    BW_GPU_GEMM_K = 32,
    BW_GPU_GEMM_STRIDE = BW_GPU_GEMM_K + 8,
    BW_GPU_GEMM_STAGES = 4
};
/* Bytes of shared memory that bw_gemm_sum needs on such hardware, for tiles of size x size. */
#define BW_GPU_GEMM_SHARED(size) (BW_GPU_GEMM_STAGES * 2 * (size)*BW_GPU_GEMM_STRIDE * 2)

#endif
