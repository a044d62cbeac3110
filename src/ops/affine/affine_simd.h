/* AFFINE over vectors, for the float types up to f32. */
#include "bw_each.h"

bw_op_kernel BW_LEVEL(bw_affine);

BW_INLINE void affine_block(const void *params, const float *const *in, float *out, int64_t n, bool is_streamed)
{
    const bw_affine_params *p = params;
    const vf mul = vf_set1((float)p->mul), add = vf_set1((float)p->add);
    const float *x = in[0];
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N)
        vf_put(out + i, vf_fma(vf_load(x + i), mul, add), is_streamed);
    if (i < n)
        vf_store_n(out + i, vf_fma(vf_load_n(x + i, n - i), mul, add), n - i);
}

void BW_LEVEL(bw_affine)(const bw_op_call *call, bw_member *member)
{
    bw_each(call, member, 1, affine_block, call->params);
}
