/* MATMUL of the float types up to f32, over gemm_simd.h. */
#include "matmul/gemm_simd.h"
#include "matmul/matmul.h"

bw_op_kernel BW_LEVEL(bw_matmul);

static void matmul_item(const void *context, int64_t item, bw_gemm *g)
{
    const bw_op_call *call = context;
    int64_t a, b, c;
    bw_matmul_find(call, item, &a, &b, &c);
    g->a = (const char *)call->in[0]->data + a * bw_dtype_block_bytes(g->a_dtype);
    g->b = (const char *)call->in[1]->data + b * bw_dtype_block_bytes(g->b_dtype);
    g->c = (char *)call->out[0]->data + c * bw_dtype_block_bytes(g->c_dtype);
}

void BW_LEVEL(bw_matmul)(const bw_op_call *call, bw_member *member)
{
    bw_matmul_shape s;
    bw_matmul_get_shape(call, &s);
    bw_gemm g = {.m = s.m, .n = s.n, .k = s.k, .a_dtype = call->in[0]->dtype, .b_dtype = call->in[1]->dtype};
    g.c_dtype = call->out[0]->dtype;
    g.a_m = s.a_m;
    g.a_k = s.a_k;
    g.a_inner = s.k;
    g.b_k = s.b_k;
    g.b_n = s.b_n;
    g.c_m = s.c_m;
    g.c_n = s.c_n;
    BW_LEVEL(bw_gemm_run)(call, member, &g, s.n_batch, matmul_item, call);
}
