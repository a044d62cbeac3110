/* Launches of conv_gemm.hip: which convolutions it can do, the size of its tiles, and parts of k where the result alone
 * has too few tiles for the card. */
#include <stdio.h>

#include "conv_gpu.h"
#include "matmul/bw_gpu_gemm.h"

enum { LEAST_K = 16, LEAST_OUT = 12, MOST_PARTS = 8, MOST_YZ = 65535, MOST_SIZE = 1 << 30, SCRATCH_BYTES = 16 << 20 };
enum { MOST_PIXELS = MOST_SIZE - BW_GPU_GEMM_SMALL }; /* HIP takes less than 2^32 threads in a direction */

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Weights of one output that lie in the order of k. */
static bool has_dense_rows(const bw_conv *c)
{
    return (c->w.kernel == 1 || c->w_w == 1) && (c->h.kernel == 1 || c->w_h == c->w.kernel) &&
           (c->group_in == 1 || c->w_in == c->h.kernel * c->w.kernel);
}

static bool fits_axis(const bw_conv_axis *a)
{
    return a->kernel <= BW_CONV_GEMM_TAPS && a->size < MOST_SIZE && a->padding < MOST_SIZE / 2 &&
           a->size + 2 * a->padding < MOST_SIZE && a->dilation < MOST_SIZE && a->stride < MOST_SIZE;
}

/* Whether every element of x has an offset of 32 bits, in bytes. */
static bool fits_input(const bw_conv *c)
{
    const int64_t dims[] = {c->batch, c->c_in, c->h.size, c->w.size};
    const int64_t strides[] = {c->x_batch, c->x_channel, c->x_h, c->x_w};
    int64_t last = 0;
    for (int i = 0; i < 4; i++) {
        if (dims[i] < 2)
            continue;
        if (strides[i] < 0 || strides[i] > INT32_MAX || (dims[i] - 1) > (INT32_MAX - last) / (strides[i] + 1))
            return false;
        last += (dims[i] - 1) * strides[i];
    }
    return last < INT32_MAX;
}

bool bw_conv_gemm_init(const bw_op_call *call, const bw_conv *c, bw_conv_gemm *p)
{
    const bw_dtype dtype = call->in[0]->dtype;
    const int64_t taps = c->h.kernel * c->w.kernel, pixels = c->batch * c->h.out * c->w.out;
    if (c->is_transposed || (dtype != BW_F16 && dtype != BW_BF16) || !has_dense_rows(c) || !fits_axis(&c->h) ||
        !fits_axis(&c->w) || !fits_input(c))
        return false;
    if (c->group_in > MOST_SIZE / taps || c->group_in * taps < LEAST_K || pixels > MOST_PIXELS ||
        (c->groups > 1 && c->group_out < LEAST_OUT) || c->c_out > MOST_YZ || c->groups > MOST_YZ / MOST_PARTS)
        return false;
    const int64_t k = c->group_in * taps, step = 8;
    *p = (bw_conv_gemm){.k = (int32_t)k,
                        .n_out = (int32_t)c->group_out,
                        .n_pixels = (int32_t)pixels,
                        .split_k = (int32_t)(ceil_div(k, BW_GPU_GEMM_K) * BW_GPU_GEMM_K),
                        .n_parts = 1,
                        .taps = (int32_t)taps,
                        .kernel_h = (int32_t)c->h.kernel,
                        .kernel_w = (int32_t)c->w.kernel,
                        .per_kernel_w = (uint32_t)ceil_div(65536, c->w.kernel),
                        .x_tap_row = (uint32_t)(2 * c->h.dilation * c->x_h),
                        .x_tap = (uint32_t)(2 * c->w.dilation * c->x_w),
                        .out_h = (int32_t)c->h.out,
                        .out_w = (int32_t)c->w.out,
                        .size_h = (int32_t)c->h.size,
                        .size_w = (int32_t)c->w.size,
                        .stride_h = (int32_t)c->h.stride,
                        .stride_w = (int32_t)c->w.stride,
                        .padding_h = (int32_t)c->h.padding,
                        .padding_w = (int32_t)c->w.padding,
                        .dilation_h = (int32_t)c->h.dilation,
                        .dilation_w = (int32_t)c->w.dilation,
                        .w_is_even = k % step == 0 && c->w_out % step == 0 && c->w_group % step == 0 &&
                                     (uintptr_t)call->in[1]->data % 16 == 0,
                        .x_batch = (uint32_t)(2 * c->x_batch),
                        .x_channel = (uint32_t)(2 * c->x_channel),
                        .x_group = (uint32_t)(2 * c->group_in * c->x_channel),
                        .x_h = (uint32_t)(2 * c->x_h),
                        .x_w = (uint32_t)(2 * c->x_w),
                        .w_row = c->w_out,
                        .w_group = c->w_group,
                        .y_batch = c->y_batch,
                        .y_channel = c->y_channel,
                        .y_h = c->y_h,
                        .y_w = c->y_w};
    uint64_t power = 1;
    for (; power < (uint64_t)taps; power *= 2)
        p->taps_shift++;
    p->per_taps = (uint32_t)(((power - (uint64_t)taps) << 32) / (uint64_t)taps + 1);
    return true;
}

/* Bytes of one part of the results. */
static int64_t part_bytes(const bw_conv *c)
{
    return 4 * c->batch * c->h.out * c->w.out * c->c_out;
}

size_t bw_conv_gpu_scratch(const bw_op_call *call)
{
    bw_conv c;
    bw_conv_gemm p;
    bw_conv_get(call, &c);
    if (!bw_conv_gemm_init(call, &c, &p) || p.k < 8 * BW_GPU_GEMM_K || part_bytes(&c) > SCRATCH_BYTES / 2)
        return 0;
    int64_t bytes = MOST_PARTS * part_bytes(&c);
    return (size_t)(bytes < SCRATCH_BYTES ? bytes : SCRATCH_BYTES);
}

static int64_t choose_parts(const bw_op_call *call, const bw_conv *c, const bw_conv_gemm *p, int64_t n_tiles, int units)
{
    int64_t parts = 2 * units / n_tiles, most = p->k / (4 * BW_GPU_GEMM_K), each = part_bytes(c);
    int64_t room = each > 0 ? (int64_t)call->scratch_bytes / each : 0;
    parts = parts < MOST_PARTS ? parts : MOST_PARTS;
    parts = parts < most ? parts : most;
    parts = parts < room ? parts : room;
    return parts > 1 ? parts : 1;
}

bw_status bw_conv_gemm_run(const bw_conv_job *j, const bw_conv_gemm *whole, bw_err *err)
{
    const bw_op_call *call = j->call;
    const bw_conv *c = j->c;
    bw_device *device = j->device;
    void *x = j->x, *w = j->w, *y = j->y;
    bw_conv_gemm p = *whole;
    const char *type = bw_dtype_name(call->in[0]->dtype);
    const int units = bw_gpu_units(device);
    int64_t big = ceil_div(p.n_pixels, BW_GPU_GEMM_BIG) * ceil_div(p.n_out, BW_GPU_GEMM_BIG) * c->groups;
    const bool is_big = big >= units && p.n_out > BW_GPU_GEMM_SMALL;
    const int64_t size = is_big ? BW_GPU_GEMM_BIG : BW_GPU_GEMM_SMALL;
    const int64_t tiles = ceil_div(p.n_pixels, size), rows = ceil_div(p.n_out, size);
    if (!is_big) {
        int64_t parts = choose_parts(call, c, &p, tiles * rows * c->groups, units);
        p.split_k = (int32_t)(ceil_div(ceil_div(p.k, parts), BW_GPU_GEMM_K) * BW_GPU_GEMM_K);
        p.n_parts = (int32_t)ceil_div(p.k, p.split_k);
    }
    const bool has_parts = p.n_parts > 1;
    char name[64];
    snprintf(name, sizeof name, "conv_%s_%s", has_parts ? "part" : is_big ? "big" : "small", type);
    bw_gpu_grid grid = {.blocks = {(uint32_t)tiles, (uint32_t)rows, (uint32_t)(c->groups * p.n_parts)},
                        .threads = BW_GPU_GEMM_BLOCK};
    void *out = has_parts ? call->scratch : y;
    BW_TRY(bw_gpu_run(device, name, &grid, (void *[]){&p, &x, &w, &out}, err));
    if (!has_parts)
        return BW_OK;
    snprintf(name, sizeof name, "conv_sum_%s", type);
    grid = (bw_gpu_grid){.blocks = {(uint32_t)ceil_div(p.n_pixels, 256), (uint32_t)c->c_out, 1}, .threads = 256};
    return bw_gpu_run(device, name, &grid, (void *[]){&p, &out, &y}, err);
}
