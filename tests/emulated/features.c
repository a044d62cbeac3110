/* bw-conformance-amx: the processor as it is, and AMX for bf16 beside it, which matmul_amx.c finds emulated. */
#include "bw_device.h"

const bw_cpu_features *__real_bw_cpu_get_features(void);
const bw_cpu_features *__wrap_bw_cpu_get_features(void);

const bw_cpu_features *__wrap_bw_cpu_get_features(void)
{
    static _Thread_local bw_cpu_features features;
    features = *__real_bw_cpu_get_features();
    features.amx_bf16 = true;
    return &features;
}
