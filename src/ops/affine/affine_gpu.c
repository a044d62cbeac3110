/* AFFINE's launch. */
#include <stdio.h>

#include "bw_gpu.h"
#include "bw_op_check.h"

bw_op_gpu_kernel bw_affine_gpu;

bw_status bw_affine_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_affine_params *params = call->params;
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 2, (const bw_tensor *[]){x, y});
    int64_t mul = bw_f64_to_i64(params->mul), add = bw_f64_to_i64(params->add);
    double mul_f = params->mul, add_f = params->add;
    bool is_integer = bw_dtype_is_integer(x->dtype);
    const void *px = x->data;
    void *py = y->data;
    void *args[] = {&loop, &px, &py, is_integer ? (void *)&mul : (void *)&mul_f,
                    is_integer ? (void *)&add : (void *)&add_f};
    char name[64];
    snprintf(name, sizeof name, "affine_%s", bw_dtype_name(x->dtype));
    bw_gpu_grid grid = bw_gpu_grid_for(device, loop.n, 4);
    return bw_gpu_run(device, name, &grid, args, err);
}
