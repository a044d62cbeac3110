/* AFFINE over vectors. */
#include "bw_op_check.h"
#include "bw_vec.h"

bw_op_kernel BW_LEVEL(bw_affine);

void BW_LEVEL(bw_affine)(const bw_op_call *call, bw_member *member)
{
    const bw_affine_params *params = call->params;
    bw_rows x, y;
    bw_rows_init(&x, call->in[0]);
    bw_rows_init(&y, call->out[0]);
    int64_t begin, end, d = x.n_columns;
    if (!bw_op_my_share(member, x.n_rows, d, 4096, &begin, &end))
        return;
    const vf mul = vf_set1(params->mul), add = vf_set1(params->add);
    for (int64_t r = begin; r < end; r++) {
        const float *src = (const float *)call->in[0]->data + bw_rows_offset(&x, r);
        float *dst = (float *)call->out[0]->data + bw_rows_offset(&y, r);
        int64_t i = 0;
        for (; i + VF_N <= d; i += VF_N)
            vf_store(dst + i, vf_fma(vf_load(src + i), mul, add));
        if (i < d)
            vf_store_n(dst + i, vf_fma(vf_load_n(src + i, d - i), mul, add), d - i);
    }
}
