/* SDPA's launch: matrix tiles for f16 and bf16 where k and v lie in whole chunks of 16 bytes (sdpa_tile.hip), else the
 * plain kernels. */
#include <stdio.h>

#include "bw_op_gpu.h"

#include "attention/bw_sdpa_args.h"

bw_op_gpu_kernel bw_sdpa_gpu;

enum { MOST_X = 1 << 23, MOST_Z = 65535, MOST_KEYS = INT32_MAX - BW_SDPA_GPU_KEYS };

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Whether every row [width] can be read in chunks of 8 elements at multiples of 16 bytes. */
static bool has_chunks(const bw_tensor *t)
{
    bool even = (uintptr_t)t->data % 16 == 0 && t->dims[3] % 8 == 0 && t->strides[3] == 1;
    for (int i = 0; i < 3; i++)
        even = even && (t->dims[i] <= 1 || t->strides[i] % 8 == 0);
    return even;
}

static bool has_tile(const bw_op_call *call)
{
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *y = call->out[0];
    return (q->dtype == BW_F16 || q->dtype == BW_BF16) && k->dims[3] > 0 && k->dims[3] <= BW_SDPA_TILE_WIDTH &&
           v->dims[3] > 0 && has_chunks(k) && has_chunks(v) && y->strides[3] == 1;
}

/* How a workgroup's queries and columns cut a call, and the kernel's name. */
typedef struct shape {
    int64_t tiles, widths;
    uint32_t threads;
    char name[64];
} shape;

static shape find_shape(const bw_op_call *call)
{
    const int64_t n_queries = call->in[0]->dims[2], d = call->in[0]->dims[3], d_v = call->in[2]->dims[3];
    shape s = {
        .tiles = ceil_div(n_queries, BW_SDPA_GPU_QUERIES), .widths = ceil_div(d_v, BW_SDPA_GPU_WIDTH), .threads = 256};
    bw_gpu_entry_name(call, s.name);
    if (has_tile(call)) {
        /* The kernel's width is that of q and k, and up to 128 that of v, of which the rest is other workgroups'. */
        int64_t widest = d > d_v || d_v > 128 ? d : d_v;
        int width = widest <= 64 ? 64 : widest <= 96 ? 96 : widest <= 128 ? 128 : 256;
        s.tiles = ceil_div(n_queries, BW_SDPA_TILE_QUERIES);
        s.widths = ceil_div(d_v, width < 128 ? width : 128);
        s.threads = BW_SDPA_TILE_BLOCK;
        snprintf(s.name, sizeof s.name, "sdpa_tile_%s_%d", bw_dtype_name(call->in[0]->dtype), width);
    }
    return s;
}

bw_status bw_sdpa_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *mask = call->in[3], *y = call->out[0];
    const bw_sdpa_params *params = call->params;
    bw_sdpa_args p = {.n_heads = q->dims[1],
                      .heads_per_kv = q->dims[1] / k->dims[1],
                      .n_queries = q->dims[2],
                      .n_keys = k->dims[2],
                      .d = q->dims[3],
                      .d_v = v->dims[3],
                      .scale = params->scale,
                      .softcap = params->softcap,
                      .causal = params->causal};
    for (int i = 0; i < 4; i++) {
        p.q[i] = q->strides[i];
        p.k[i] = k->strides[i];
        p.v[i] = v->strides[i];
        p.y[i] = y->strides[i];
        int d = mask ? mask->n_dims - 4 + i : -1;
        p.mask[i] = d >= 0 && mask->dims[d] > 1 ? mask->strides[d] : 0;
    }
    const shape s = find_shape(call);
    int64_t n_heads = q->dims[0] * q->dims[1];
    p.n_tiles = (int32_t)(s.tiles < MOST_X ? s.tiles : MOST_X);
    if (n_heads > INT32_MAX || s.tiles > MOST_X || s.widths > MOST_Z)
        return bw_op_fail(call, err, "%lld heads of %lld queries, %lld wide, are more than a grid holds",
                          (long long)n_heads, (long long)p.n_queries, (long long)p.d_v);
    if (p.n_keys > MOST_KEYS || p.d > MOST_KEYS)
        return bw_op_fail(call, err, "%lld keys of %lld are more than its kernel counts", (long long)p.n_keys,
                          (long long)p.d);
    void *q_data = q->data, *k_data = k->data, *v_data = v->data, *mask_data = mask ? mask->data : NULL,
         *y_data = y->data, *args[] = {&p, &q_data, &k_data, &v_data, &mask_data, &y_data};
    for (; p.first_head < n_heads && s.tiles > 0 && s.widths > 0; p.first_head += MOST_Z) {
        int64_t left = n_heads - p.first_head;
        bw_gpu_grid grid = {
            .blocks = {(uint32_t)s.tiles, (uint32_t)s.widths, (uint32_t)(left < MOST_Z ? left : MOST_Z)},
            .threads = s.threads};
        BW_TRY(bw_gpu_run(device, s.name, &grid, args, err));
    }
    return BW_OK;
}
