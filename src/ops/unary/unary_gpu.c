/* The launch of the functions of one variable: their second operand goes by value. */
#include "bw_op_gpu.h"

bw_op_gpu_kernel bw_unary_gpu;

bw_status bw_unary_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_unary_params *params = call->params;
    double p = params ? params->param : 0;
    void *extra[] = {&p};
    return bw_gpu_each_once(call, device, 1, extra, 1, err);
}
