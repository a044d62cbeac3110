/* AFFINE's launch. */
#include "bw_op_gpu.h"

bw_op_gpu_kernel bw_affine_gpu;

bw_status bw_affine_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_affine_params *params = call->params;
    int64_t mul = bw_f64_to_i64(params->mul), add = bw_f64_to_i64(params->add);
    double mul_f = params->mul, add_f = params->add;
    bool is_integer = bw_dtype_is_integer(call->in[0]->dtype);
    void *extra[] = {is_integer ? (void *)&mul : (void *)&mul_f, is_integer ? (void *)&add : (void *)&add_f};
    return bw_gpu_each(call, device, 1, extra, 2, err);
}
