/* ROPE_KV's launch. */
#include <stdio.h>

#include "bw_gpu.h"
#include "bw_op_check.h"
#include "rope/bw_rope_args.h"

bw_op_gpu_kernel bw_rope_kv_gpu;

static int64_t up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

bool bw_rope_kv_gpu_supports(const bw_op_call *call, const bw_device *device)
{
    (void)device;
    return call->out[1]->dtype == call->out[2]->dtype;
}

bw_status bw_rope_kv_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    enum { MOST = 1 << 23 }; /* workgroups in a grid: HIP counts threads in 32 bits */
    const bw_rope_kv_params *params = call->params;
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *y = call->out[0];
    int64_t widest = q->dims[2] > v->dims[2] ? q->dims[2] : v->dims[2], n_heads = q->dims[1] + 2 * k->dims[1];
    bw_rope_args p = {
        .q_token = q->strides[0],
        .q_head = q->strides[1],
        .k_token = k->strides[0],
        .k_head = k->strides[1],
        .v_token = v->strides[0],
        .v_head = v->strides[1],
        .y_token = y->strides[0],
        .y_head = y->strides[1],
        .n_q = (int32_t)q->dims[1],
        .n_kv = (int32_t)k->dims[1],
        .d = (int32_t)q->dims[2],
        .d_v = (int32_t)v->dims[2],
        .lanes = widest <= 32    ? 32
                 : widest <= 64  ? 64
                 : widest <= 128 ? 128
                                 : 256,
        .page_tokens = (int32_t)call->out[1]->dims[2],
        .n_rot = params->n_rot,
        .interleaved = params->interleaved,
        .magnitude = params->magnitude,
    };
    int64_t chunks = up(n_heads, BW_ROPE_BLOCK / p.lanes * BW_ROPE_PASSES);
    if (chunks > UINT16_MAX || widest > INT16_MAX || call->out[1]->dims[2] > INT32_MAX)
        return bw_op_fail(call, err, "there are more heads or wider ones than %s takes", device->name);
    const void *none = NULL;
    void *args[] = {&p,
                    (void *)&q->data,
                    (void *)&k->data,
                    (void *)&v->data,
                    (void *)&call->in[3]->data,
                    (void *)&call->in[4]->data,
                    params->n_rot > 0 ? (void *)&call->in[5]->data : (void *)&none,
                    (void *)&y->data,
                    (void *)&call->out[1]->data,
                    (void *)&call->out[2]->data};
    char name[32];
    snprintf(name, sizeof name, "rope_kv_%.15s", bw_dtype_name(call->out[1]->dtype));
    for (; p.first_token < q->dims[0]; p.first_token += MOST) {
        int64_t left = q->dims[0] - p.first_token;
        bw_gpu_grid grid = {
            .blocks = {(uint32_t)(left < MOST ? left : MOST), (uint32_t)chunks, (uint32_t)up(widest, BW_ROPE_BLOCK)},
            .threads = BW_ROPE_BLOCK};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}
