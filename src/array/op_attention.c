/* Attention. */
#include <math.h>

#include "array.h"

bw_status bw_array_sdpa(const bw_array *q, const bw_array *k, const bw_array *v, const bw_array *mask, float scale,
                        float softcap, bool causal, bw_array **out, bw_err *err)
{
    *out = NULL;
    if (q->t.n_dims != 4 || v->t.n_dims != 4)
        return array_fail(err, "sdpa", q, "q, k and v need four dimensions");
    bw_sdpa_params params = {scale, softcap, causal};
    if (scale == 0)
        params.scale = 1 / sqrtf((float)(q->t.dims[3] > 0 ? q->t.dims[3] : 1));
    array_call call = {.op = "sdpa", .n_in = 4, .in = {q, k, v, mask}, .params = &params};
    int64_t dims[4] = {q->t.dims[0], q->t.dims[1], q->t.dims[2], v->t.dims[3]};
    return array_call_new(&call, q->t.dtype, 4, dims, out, err);
}
