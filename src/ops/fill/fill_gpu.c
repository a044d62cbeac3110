/* FILL's and CONST_SET's launch: the value is put into the type's bits here. */
#include <string.h>

#include "bw_op_gpu.h"

bw_op_gpu_kernel bw_fill_gpu;

bw_status bw_fill_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_fill_params *params = call->params;
    uint64_t bits = 0;
    if (bw_dtype_is_integer(call->out[0]->dtype))
        bw_element_set_i64(call->out[0]->dtype, &bits, 0, params->integer);
    else
        bw_element_set_f64(call->out[0]->dtype, &bits, 0, params->value);
    void *extra[] = {&bits};
    return bw_gpu_each(call, device, 0, extra, 1, err);
}
