/* GET_ROWS: the decoders are exact and shared with the reference; the members share the tokens. */
#include "bw_op_check.h"
#include "get_rows.h"

bw_op_kernel bw_get_rows_plain;

void bw_get_rows_plain(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *y = call->out[0];
    float scale = ((const bw_get_rows_params *)call->params)->scale;
    int64_t begin, end, d = y->dims[1];
    if (!bw_op_my_share(member, y->dims[0], d, 512, &begin, &end))
        return;
    for (int64_t t = begin; t < end; t++) {
        float *dst = (float *)y->data + t * y->strides[0];
        bw_get_rows_one(call, t);
        if (scale != 1.0f)
            for (int64_t i = 0; i < d; i++)
                dst[i] *= scale;
    }
}
