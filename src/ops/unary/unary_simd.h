/* The functions of unary.def over vectors, for the float types up to f32. */
#include "bw_each.h"
#include "bw_vec_math.h"
#include "unary/unary_f64.h"

bw_op_kernel BW_LEVEL(bw_unary);

typedef vf unary_vector(vf x, double p);
typedef double unary_scalar(double x, double p);

BW_INLINE void unary_run(const float *x, float *out, int64_t n, double p, unary_vector *f, bool is_streamed)
{
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N)
        vf_put(out + i, f(vf_load(x + i), p), is_streamed);
    if (i < n)
        vf_store_n(out + i, f(vf_load_n(x + i, n - i), p), n - i);
}

/* Values of limit and more, where there is a limit, are seen before anything is written: out may be x. */
BW_INLINE void unary_block(const void *params, const float *x, float *out, int64_t n, unary_vector *f, unary_scalar *g,
                           float limit, bool is_streamed)
{
    double p = params ? ((const bw_unary_params *)params)->param : 0;
    if (limit == INFINITY) {
        unary_run(x, out, n, p, f, is_streamed);
        return;
    }
    for (int64_t begin = 0; begin < n; begin += BW_EACH_BLOCK) {
        int64_t i = begin, end = n - begin < BW_EACH_BLOCK ? n : begin + BW_EACH_BLOCK;
        vf most = vf_set1(0.0f);
        for (; i + VF_N <= end; i += VF_N)
            most = vf_max(vf_abs(vf_load(x + i)), most);
        if (i < end)
            most = vf_max(vf_abs(vf_load_n(x + i, end - i)), most);
        if (vf_max_lane(most) < limit)
            unary_run(x + begin, out + begin, end - begin, p, f, is_streamed);
        else
            for (i = begin; i < end; i++)
                out[i] = (float)g((double)x[i], p);
    }
}

#define BW_UNARY(NAME, name, has_param, f64, vector, limit, is_exact, magnitude, step, formula)                        \
    BW_INLINE vf name##_vector(vf x, double p)                                                                         \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        return vector;                                                                                                 \
    }                                                                                                                  \
    static void name##_block(const void *params, const float *const *in, float *out, int64_t n, bool is_streamed)      \
    {                                                                                                                  \
        unary_block(params, in[0], out, n, name##_vector, name##_f64, limit, is_streamed);                             \
    }
#include "unary/unary.def"
#undef BW_UNARY

void BW_LEVEL(bw_unary)(const bw_op_call *call, bw_member *member)
{
    static bw_each_fn *const blocks[] = {
#define BW_UNARY(NAME, name, has_param, f64, vector, limit, is_exact, magnitude, step, formula)                        \
    [BW_OP_##NAME - BW_OP_UNEG] = name##_block,
#include "unary/unary.def"
#undef BW_UNARY
    };
    bw_each(call, member, 1, blocks[call->op - BW_OP_UNEG], call->params);
}
