/* Kernels that keep and that break the rules of workgroups, for simgpu_test.c. x, y: [threads] per workgroup. */
#include "bw_kernel.h"

enum { BLOCK = 256 };

/* y: the workgroup's sum of x. Threads from n on return before the first barrier. */
BW_KERNEL(BLOCK, good_sum)(const float *x, float *y, int32_t n)
{
    BW_SHARED float shared[BLOCK];
    int i = bw_thread();
    if (i >= n)
        return;
    shared[i] = x[bw_grid_thread()];
    bw_barrier();
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += shared[k];
    bw_barrier();
    y[bw_grid_thread()] = sum;
}

BW_KERNEL(BLOCK, good_wave)(const float *x, float *y)
{
    y[bw_grid_thread()] = bw_wave_sum(x[bw_grid_thread()]);
}

/* y: how many of bw_quotient's answers are not those of a division, on both sides of multiples, up to its limit. */
BW_KERNEL(BLOCK, good_quotient)(const float *, float *y)
{
    uint64_t seed = (uint64_t)bw_grid_thread() + 1;
    int wrong = 0;
    for (int k = 0; k < 1000; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t n = (seed >> 11) >> (seed & 63) % 53, whole = seed >> 11;
        n += n == 0;
        for (uint64_t i = whole - whole % n - (whole >= n), end = i + 2; i <= end; i++)
            wrong += i >> 53 == 0 && bw_quotient(i, n) != i / n;
    }
    y[bw_grid_thread()] = (float)wrong;
}

/* y: x of the next thread. */
BW_KERNEL(BLOCK, missing_barrier)(const float *x, float *y)
{
    BW_SHARED float shared[BLOCK];
    shared[bw_thread()] = x[bw_grid_thread()];
    y[bw_grid_thread()] = shared[(bw_thread() + 1) % bw_block_threads()];
}

/* Nothing writes `shared` in this workgroup; a kernel before may have. */
BW_KERNEL(BLOCK, reads_unwritten)(const float *x, float *y)
{
    BW_SHARED float shared[BLOCK];
    y[bw_grid_thread()] = shared[bw_thread()];
    bw_barrier();
    shared[bw_thread()] = x[bw_grid_thread()];
}

BW_KERNEL(BLOCK, two_barriers)(const float *x, float *y)
{
    if (bw_thread() < 100) {
        y[bw_grid_thread()] = x[bw_grid_thread()];
        bw_barrier();
    } else {
        bw_barrier();
    }
}

BW_KERNEL(BLOCK, left_barrier)(const float *x, float *y)
{
    y[bw_grid_thread()] = x[bw_grid_thread()];
    bw_barrier();
    if (bw_thread() < 100)
        bw_barrier();
}

BW_KERNEL(BLOCK, lane_returns)(const float *x, float *y)
{
    if (bw_lane() == 3)
        return;
    y[bw_grid_thread()] = bw_wave_sum(x[bw_grid_thread()]);
}

BW_KERNEL(BLOCK, lane_in_barrier)(const float *x, float *y)
{
    float own = x[bw_grid_thread()];
    if (bw_lane() == 3)
        bw_barrier();
    else
        own = bw_shuffle_xor(own, 1);
    y[bw_grid_thread()] = own;
}

BW_KERNEL(BLOCK, lanes_apart)(const float *x, float *y)
{
    float own = x[bw_grid_thread()];
    if (bw_lane() & 1)
        own = bw_shuffle_xor(own, 1);
    else
        own = bw_shuffle_xor(own, 1) + 1;
    y[bw_grid_thread()] = own;
}

/* y[at] for any at. */
BW_KERNEL(BLOCK, writes_at)(float *y, int64_t at)
{
    if (bw_thread() == 0)
        y[at] = 1;
}

BW_KERNEL(BLOCK, reads_at)(const float *x, float *y, int64_t at)
{
    if (bw_thread() == 0)
        y[0] = x[at];
}

BW_KERNEL(BLOCK, writes_shared_at)(float *y, int32_t at)
{
    BW_SHARED float shared[BLOCK];
    float *place = shared + at;
    shared[bw_thread()] = 1;
    if (bw_thread() == 0)
        *place = 2;
    bw_barrier();
    y[bw_thread()] = shared[bw_thread()];
}
