/* GLU's launch: a kernel for each activation and type, which the entry point does not name. */
#include <stdio.h>

#include "bw_op_gpu.h"

bw_op_gpu_kernel bw_glu_gpu;

bw_status bw_glu_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    static const char *const activations[] = {
        [BW_ACTIVATION_SILU] = "silu", [BW_ACTIVATION_GELU_TANH] = "gelu_tanh", [BW_ACTIVATION_GELU_ERF] = "gelu_erf"};
    const bw_tensor *tensors[] = {call->in[0], call->in[1], call->out[0]};
    char name[64], *data[3];
    snprintf(name, sizeof name, "glu_%s_%s", activations[((const bw_glu_params *)call->params)->activation],
             bw_dtype_name(call->in[0]->dtype));
    bw_loop loop;
    bw_loop_init(&loop, call->out[0]->n_dims, call->out[0]->dims, 3, tensors);
    if (loop.n == 0)
        return BW_OK;
    /* A thread per element, counted in 32 bits: larger calls are cut along the first dimension. */
    int64_t rows = loop.dims[0], row = loop.n / rows, step = INT32_MAX / row;
    if (step == 0)
        return bw_op_fail(call, err, "%lld elements in one row of strides are more than %s walks", (long long)row,
                          device->name);
    void *args[] = {&loop, &data[0], &data[1], &data[2]};
    for (int64_t first = 0; first < rows; first += step) {
        loop.dims[0] = rows - first < step ? rows - first : step;
        loop.n = loop.dims[0] * row;
        for (int k = 0; k < 3; k++)
            data[k] = (char *)tensors[k]->data + first * loop.strides[k][0] * bw_dtype_block_bytes(tensors[k]->dtype);
        bw_gpu_grid grid = {.blocks = {(uint32_t)((loop.n + 255) / 256), 1, 1}, .threads = 256};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}
