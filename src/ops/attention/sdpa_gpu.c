/* SDPA's launch. */
#include "bw_op_gpu.h"

#include "attention/bw_sdpa_args.h"

bw_op_gpu_kernel bw_sdpa_gpu;

bw_status bw_sdpa_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    enum { MOST_X = 1 << 23, MOST_Z = 65535, MOST_KEYS = INT32_MAX - BW_SDPA_GPU_KEYS };
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
    int64_t n_heads = q->dims[0] * q->dims[1], tiles = (p.n_queries + BW_SDPA_GPU_QUERIES - 1) / BW_SDPA_GPU_QUERIES;
    int64_t widths = (p.d_v + BW_SDPA_GPU_WIDTH - 1) / BW_SDPA_GPU_WIDTH;
    if (n_heads > INT32_MAX || tiles > MOST_X || widths > MOST_Z)
        return bw_op_fail(call, err, "%lld heads of %lld queries, %lld wide, are more than a grid holds",
                          (long long)n_heads, (long long)p.n_queries, (long long)p.d_v);
    if (p.n_keys > MOST_KEYS || p.d > MOST_KEYS)
        return bw_op_fail(call, err, "%lld keys of %lld are more than its kernel counts", (long long)p.n_keys,
                          (long long)p.d);
    void *q_data = q->data, *k_data = k->data, *v_data = v->data, *mask_data = mask ? mask->data : NULL,
         *y_data = y->data, *args[] = {&p, &q_data, &k_data, &v_data, &mask_data, &y_data};
    char name[64];
    bw_gpu_entry_name(call, name);
    for (; p.first_head < n_heads && tiles > 0 && widths > 0; p.first_head += MOST_Z) {
        int64_t left = n_heads - p.first_head;
        bw_gpu_grid grid = {.blocks = {(uint32_t)tiles, (uint32_t)widths, (uint32_t)(left < MOST_Z ? left : MOST_Z)},
                            .threads = 256};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}
