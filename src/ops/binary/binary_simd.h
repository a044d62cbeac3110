/* ADD and GLU over vectors. */
#include "bw_op_check.h"
#include "bw_vec.h"

bw_op_kernel BW_LEVEL(bw_add), BW_LEVEL(bw_glu);

void BW_LEVEL(bw_add)(const bw_op_call *call, bw_member *member)
{
    bw_rows a, b, y;
    bw_rows_init(&a, call->in[0]);
    bw_rows_init(&b, call->in[1]);
    bw_rows_init(&y, call->out[0]);
    int64_t begin, end, d = a.n_columns;
    if (!bw_op_my_share(member, a.n_rows, d, 4096, &begin, &end))
        return;
    for (int64_t r = begin; r < end; r++) {
        const float *pa = (const float *)call->in[0]->data + bw_rows_offset(&a, r);
        const float *pb = (const float *)call->in[1]->data + bw_rows_offset(&b, b.n_rows == 1 ? 0 : r % b.n_rows);
        float *dst = (float *)call->out[0]->data + bw_rows_offset(&y, r);
        int64_t i = 0;
        for (; i + VF_N <= d; i += VF_N)
            vf_store(dst + i, vf_add(vf_load(pa + i), vf_load(pb + i)));
        if (i < d)
            vf_store_n(dst + i, vf_add(vf_load_n(pa + i, d - i), vf_load_n(pb + i, d - i)), d - i);
    }
}

BW_INLINE vf glu_vector(bw_activation activation, vf x, vf up)
{
    if (activation == BW_ACTIVATION_SILU)
        return vf_mul(vf_mul_logistic(x, x), up);
    if (activation == BW_ACTIVATION_GELU_TANH) {
        /* 2 sqrt(2 / pi) (x + 0.044715 x^3) */
        vf u = vf_mul(x, vf_fma(vf_mul(x, x), vf_set1(0.0713548163f), vf_set1(1.59576912f)));
        return vf_mul(vf_mul_logistic(x, u), up);
    }
    vf half_erfc = vf_half_erfc(vf_mul(vf_abs(x), vf_set1(0.707106781f)));
    vf share = vf_select_less(x, vf_set1(0.0f), half_erfc, vf_sub(vf_set1(1.0f), half_erfc));
    return vf_mul(vf_mul(x, share), up);
}

BW_INLINE void glu_row(bw_activation activation, const float *gate, const float *up, float *dst, int64_t n)
{
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N)
        vf_store(dst + i, glu_vector(activation, vf_load(gate + i), vf_load(up + i)));
    if (i < n)
        vf_store_n(dst + i, glu_vector(activation, vf_load_n(gate + i, n - i), vf_load_n(up + i, n - i)), n - i);
}

void BW_LEVEL(bw_glu)(const bw_op_call *call, bw_member *member)
{
    const bw_glu_params *params = call->params;
    bw_rows g, u, y;
    bw_rows_init(&g, call->in[0]);
    bw_rows_init(&u, call->in[1]);
    bw_rows_init(&y, call->out[0]);
    /* One token's row is cut into pieces too, so that a step of one token keeps every member busy. */
    enum { PIECE = 256 };
    int64_t pieces = (g.n_columns + PIECE - 1) / PIECE, begin, end;
    if (!bw_op_my_share(member, g.n_rows * pieces, PIECE, 512, &begin, &end))
        return;
    int64_t r = begin / pieces, piece = begin % pieces;
    for (int64_t item = begin; item < end; item++) {
        int64_t from = piece * PIECE, n = g.n_columns - from < PIECE ? g.n_columns - from : PIECE;
        const float *gate = (const float *)call->in[0]->data + bw_rows_offset(&g, r) + from;
        const float *up = (const float *)call->in[1]->data + bw_rows_offset(&u, r) + from;
        float *dst = (float *)call->out[0]->data + bw_rows_offset(&y, r) + from;
        if (params->activation == BW_ACTIVATION_SILU)
            glu_row(BW_ACTIVATION_SILU, gate, up, dst, n);
        else if (params->activation == BW_ACTIVATION_GELU_TANH)
            glu_row(BW_ACTIVATION_GELU_TANH, gate, up, dst, n);
        else
            glu_row(BW_ACTIVATION_GELU_ERF, gate, up, dst, n);
        if (++piece == pieces) {
            piece = 0;
            r++;
        }
    }
}
