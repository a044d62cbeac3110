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
    shared[bw_thread()] = 1;
    if (bw_thread() == 0)
        shared[at] = 2;
    bw_barrier();
    y[bw_thread()] = shared[bw_thread()];
}
