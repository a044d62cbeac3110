/* The functions of binary.def and GLU over vectors, for the float types up to f32. */
#include "bw_each.h"
#include "bw_vec_math.h"

bw_op_kernel BW_LEVEL(bw_binary), BW_LEVEL(bw_glu);

/* NaN if either is. */
BW_INLINE vf bw_vf_maximum(vf a, vf b)
{
    return vf_pick(vf_is_nan(a), a, vf_pick(vf_is_nan(b) | vf_less(a, b), b, a));
}
BW_INLINE vf bw_vf_minimum(vf a, vf b)
{
    return vf_pick(vf_is_nan(a), a, vf_pick(vf_is_nan(b) | vf_less(b, a), b, a));
}
/* 1 where the mask is set, else 0 */
BW_INLINE vf bw_vf_one(vi mask)
{
    return (vf)(mask & (vi)vf_set1(1.0f));
}

typedef vf binary_vector(vf a, vf b);

BW_INLINE void binary_run(const float *const *in, float *out, int64_t n, binary_vector *f, bool is_streamed)
{
    const float *a = in[0], *b = in[1];
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N)
        vf_put(out + i, f(vf_load(a + i), vf_load(b + i)), is_streamed);
    if (i < n)
        vf_store_n(out + i, f(vf_load_n(a + i, n - i), vf_load_n(b + i, n - i)), n - i);
}

#define BW_BINARY(NAME, name, is_compare, f64, i64, vector, formula)                                                   \
    BW_INLINE vf name##_vector(vf a, vf b)                                                                             \
    {                                                                                                                  \
        return vector;                                                                                                 \
    }                                                                                                                  \
    static void name##_block(const void *params, const float *const *in, float *out, int64_t n, bool is_streamed)      \
    {                                                                                                                  \
        (void)params;                                                                                                  \
        binary_run(in, out, n, name##_vector, is_streamed);                                                            \
    }
#include "binary/binary.def"
#undef BW_BINARY

void BW_LEVEL(bw_binary)(const bw_op_call *call, bw_member *member)
{
    static bw_each_fn *const blocks[] = {
#define BW_BINARY(NAME, name, is_compare, f64, i64, vector, formula) [BW_OP_##NAME - BW_OP_BADD] = name##_block,
#include "binary/binary.def"
#undef BW_BINARY
    };
    bw_each(call, member, 2, blocks[call->op - BW_OP_BADD], NULL);
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

BW_INLINE void glu_row(bw_activation activation, const float *gate, const float *up, float *dst, int64_t n,
                       bool is_streamed)
{
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N)
        vf_put(dst + i, glu_vector(activation, vf_load(gate + i), vf_load(up + i)), is_streamed);
    if (i < n)
        vf_store_n(dst + i, glu_vector(activation, vf_load_n(gate + i, n - i), vf_load_n(up + i, n - i)), n - i);
}

static void glu_block(const void *params, const float *const *in, float *out, int64_t n, bool is_streamed)
{
    bw_activation activation = ((const bw_glu_params *)params)->activation;
    if (activation == BW_ACTIVATION_SILU)
        glu_row(BW_ACTIVATION_SILU, in[0], in[1], out, n, is_streamed);
    else if (activation == BW_ACTIVATION_GELU_TANH)
        glu_row(BW_ACTIVATION_GELU_TANH, in[0], in[1], out, n, is_streamed);
    else
        glu_row(BW_ACTIVATION_GELU_ERF, in[0], in[1], out, n, is_streamed);
}

/* f32 with dense rows: what models call, for one token too. */
static void glu_rows(const bw_op_call *call, bw_member *member)
{
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
        const float *in[] = {(const float *)call->in[0]->data + bw_rows_offset(&g, r) + from,
                             (const float *)call->in[1]->data + bw_rows_offset(&u, r) + from};
        glu_block(call->params, in, (float *)call->out[0]->data + bw_rows_offset(&y, r) + from, n, false);
        if (++piece == pieces) {
            piece = 0;
            r++;
        }
    }
}

void BW_LEVEL(bw_glu)(const bw_op_call *call, bw_member *member)
{
    bool has_rows = call->out[0]->dtype == BW_F32 && call->out[0]->n_dims > 0 &&
                    bw_tensor_elements(call->out[0]) < BW_STREAM_BYTES / 4;
    for (int k = 0; k < 3 && has_rows; k++) {
        const bw_tensor *t = k < 2 ? call->in[k] : call->out[0];
        has_rows = t->dims[t->n_dims - 1] <= 1 || t->strides[t->n_dims - 1] == 1;
    }
    if (has_rows)
        glu_rows(call, member);
    else
        bw_each(call, member, 2, glu_block, call->params);
}
