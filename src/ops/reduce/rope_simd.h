/* ROPE, ROPE_I and ROPE_THD for f32, f16 and bf16, over vectors. */
#include "reduce/reduce_vec.h"
#include "reduce/rope_view.h"

bw_op_kernel BW_LEVEL(bw_rope), BW_LEVEL(bw_rope_i), BW_LEVEL(bw_rope_thd);

/* Pairs (x1[i], x2[i]), turned into y1, y2, which may be x1, x2. */
BW_INLINE void turn_halves(const float *x1, const float *x2, const float *c, const float *s, float *y1, float *y2,
                           int64_t n)
{
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N) {
        vf a = vf_load(x1 + i), b = vf_load(x2 + i), cos = vf_load(c + i), sin = vf_load(s + i);
        vf_store(y1 + i, vf_fnma(b, sin, vf_mul(a, cos)));
        vf_store(y2 + i, vf_fma(a, sin, vf_mul(b, cos)));
    }
    for (; i < n; i++) {
        float a = x1[i], b = x2[i];
        y1[i] = a * c[i] - b * s[i];
        y2[i] = a * s[i] + b * c[i];
    }
}

/* n pairs (x[2i], x[2i + 1]); y may be x. */
BW_INLINE void turn_pairs(const float *x, const float *c, const float *s, float *y, int64_t n)
{
    float signs[VF_N];
    for (int i = 0; i < VF_N; i++)
        signs[i] = i % 2 ? 1.0f : -1.0f;
    const vf sign = vf_load(signs);
    int64_t i = 0;
    for (; i + VF_N / 2 <= n; i += VF_N / 2) {
        vf v = vf_load(x + 2 * i), sin = vf_mul(vf_load_twice(s + i), sign);
        vf_store(y + 2 * i, vf_fma(vf_swap_pairs(v), sin, vf_mul(v, vf_load_twice(c + i))));
    }
    for (; i < n; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = a * c[i] - b * s[i];
        y[2 * i + 1] = a * s[i] + b * c[i];
    }
}

enum { PAIRS = BW_EACH_BLOCK / 2 };

BW_INLINE void rope_row(bool is_interleaved, const bw_row *x, const bw_row *c, const bw_row *s, const bw_row *y)
{
    float from[BW_EACH_BLOCK], to[BW_EACH_BLOCK], cos[PAIRS], sin[PAIRS];
    int64_t half = c->n;
    bool direct = x->is_direct && c->is_direct && s->is_direct && y->is_direct;
    for (int64_t i = 0, piece = direct ? half : PAIRS; i < half; i += piece) {
        int64_t n = half - i < piece ? half - i : piece;
        const float *pc = bw_row_load(c, i, n, cos), *ps = bw_row_load(s, i, n, sin);
        if (is_interleaved) {
            float *dst = bw_row_place(y, 2 * i, to);
            turn_pairs(bw_row_load(x, 2 * i, 2 * n, from), pc, ps, dst, n);
            bw_row_store(y, 2 * i, 2 * n, dst);
        } else {
            float *y1 = bw_row_place(y, i, to), *y2 = bw_row_place(y, half + i, to + PAIRS);
            turn_halves(bw_row_load(x, i, n, from), bw_row_load(x, half + i, n, from + PAIRS), pc, ps, y1, y2, n);
            bw_row_store(y, i, n, y1);
            bw_row_store(y, half + i, n, y2);
        }
    }
}

BW_INLINE void rope(bool is_interleaved, const bw_op_call *call, const bw_member *member)
{
    bw_rope_view v;
    bw_rope_view_init(&v, call);
    int64_t begin, end, half = v.d / 2;
    if (!bw_op_my_share(member, v.dims[0] * v.dims[1] * v.dims[2], v.d, 2048, &begin, &end) || half == 0)
        return;
    for (int64_t row = begin; row < end; row++) {
        bw_rope_row r;
        bw_rope_view_row(&v, row, &r);
        bw_row x = bw_row_at(call->in[0], r.x, v.x_step, v.d), y = bw_row_at(call->out[0], r.y, v.y_step, v.d);
        bw_row c = bw_row_at(call->in[1], r.cos, v.table_steps[0], half);
        bw_row s = bw_row_at(call->in[2], r.sin, v.table_steps[1], half);
        rope_row(is_interleaved, &x, &c, &s, &y);
    }
}

void BW_LEVEL(bw_rope)(const bw_op_call *call, bw_member *member)
{
    rope(false, call, member);
}

void BW_LEVEL(bw_rope_i)(const bw_op_call *call, bw_member *member)
{
    rope(true, call, member);
}

void BW_LEVEL(bw_rope_thd)(const bw_op_call *call, bw_member *member)
{
    rope(false, call, member);
}
