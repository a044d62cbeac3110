/* GROUP_NORM for f32, f16 and bf16, over vectors. Moments are kept in f64, about the group's first element: what is
 * squared is then as small as the spread, not as large as the mean. */
#include "norm/group_norm_view.h"
#include "reduce/reduce_vec.h"

bw_op_kernel BW_LEVEL(bw_group_norm);

typedef struct moments {
    double shift, sum, squares;
} moments;

BW_INLINE void add_moments(moments *m, const bw_row *x)
{
    float from[BW_EACH_BLOCK];
    int64_t piece = bw_row_piece(x);
    vd sum = vd_zero(), squares = vd_zero(), sum2 = vd_zero(), squares2 = vd_zero();
    for (int64_t i = 0; i < x->n; i += piece) {
        int64_t n = x->n - i < piece ? x->n - i : piece, k = 0;
        const float *v = bw_row_load(x, i, n, from);
        for (; k + 2 * VF_N <= n; k += 2 * VF_N) {
            vd_add_moments(&sum, &squares, vf_load(v + k), m->shift);
            vd_add_moments(&sum2, &squares2, vf_load(v + k + VF_N), m->shift);
        }
        for (; k < n; k++) {
            double d = (double)v[k] - m->shift;
            m->sum += d;
            m->squares += d * d;
        }
    }
    m->sum += vd_sum(vd_add_vd(sum, sum2));
    m->squares += vd_sum(vd_add_vd(squares, squares2));
}

/* A channel's second pass: (x - mean) * times + plus. */
typedef struct factors {
    double mean, times, plus;
    bool is_extreme; /* in f64 */
} factors;

/* y = ((x - high) - low) * times + plus */
BW_INLINE void scale_channel(const float *x, int64_t n, float high, float low, float times, float plus, float *y)
{
    const vf h = vf_set1(high), l = vf_set1(low), t = vf_set1(times), p = vf_set1(plus);
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N)
        vf_store(y + i, vf_fma(vf_sub(vf_sub(vf_load(x + i), h), l), t, p));
    if (i < n)
        vf_store_n(y + i, vf_fma(vf_sub(vf_sub(vf_load_n(x + i, n - i), h), l), t, p), n - i);
}

static void write_extreme_row(const bw_row *x, const bw_row *y, const factors *f)
{
    for (int64_t i = 0; i < x->n; i++) {
        double v = bw_element_f64(x->dtype, x->data, i * x->step);
        bw_element_set_f64(y->dtype, y->data, i * y->step, (v - f->mean) * f->times + f->plus);
    }
}

BW_INLINE void write_row(const bw_row *x, const bw_row *y, const factors *f)
{
    float high = (float)f->mean, low = isinf(high) ? 0 : (float)(f->mean - (double)high);
    float from[BW_EACH_BLOCK], to[BW_EACH_BLOCK];
    int64_t piece = x->is_direct && y->is_direct ? x->n : BW_EACH_BLOCK;
    for (int64_t i = 0; i < x->n; i += piece) {
        int64_t n = x->n - i < piece ? x->n - i : piece;
        float *dst = bw_row_place(y, i, to);
        scale_channel(bw_row_load(x, i, n, from), n, high, low, (float)f->times, (float)f->plus, dst);
        bw_row_store(y, i, n, dst);
    }
}

BW_INLINE double weight(const bw_tensor *w, int64_t c, double otherwise)
{
    return w ? bw_element_f64(w->dtype, w->data, c * w->strides[0]) : otherwise;
}

/* Every span of channel c: its moments, or, when m is NULL, its result by f. */
BW_INLINE void pass(const bw_op_call *call, const bw_group_norm_view *v, int64_t sample, int64_t c, moments *m,
                    const factors *f)
{
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &v->space, 0, v->space.n);
    while (bw_loop_next(&cursor, &span)) {
        bw_row x = bw_row_at(call->in[0], sample * v->x_strides[0] + c * v->x_strides[1] + span.offset[0],
                             bw_loop_step(&v->space, 0), span.n);
        bw_row y = bw_row_at(call->out[0], sample * v->y_strides[0] + c * v->y_strides[1] + span.offset[1],
                             bw_loop_step(&v->space, 1), span.n);
        if (m)
            add_moments(m, &x);
        else if (f->is_extreme)
            write_extreme_row(&x, &y, f);
        else
            write_row(&x, &y, f);
    }
}

void BW_LEVEL(bw_group_norm)(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0];
    double eps = (double)((const bw_group_norm_params *)call->params)->eps;
    bw_group_norm_view v;
    bw_group_norm_view_init(&v, call);
    int64_t begin, end;
    if (v.n_values == 0 || !bw_op_my_share(member, v.n * v.groups, v.n_values, 2048, &begin, &end))
        return;
    for (int64_t i = begin; i < end; i++) {
        int64_t sample = i / v.groups, first = i % v.groups * v.per_group;
        moments m = {bw_element_f64(x->dtype, x->data, sample * v.x_strides[0] + first * v.x_strides[1]), 0, 0};
        for (int64_t c = first; c < first + v.per_group; c++)
            pass(call, &v, sample, c, &m, NULL);
        double offset = m.sum / (double)v.n_values, mean = m.shift + offset;
        double variance = m.squares / (double)v.n_values - offset * offset;
        double scale = 1 / sqrt((variance < 0 ? 0 : variance) + eps);
        for (int64_t c = first; c < first + v.per_group; c++) {
            factors f = {mean, scale * weight(call->in[1], c, 1), weight(call->in[2], c, 0), false};
            f.is_extreme = is_extreme(scale) || is_extreme(f.times);
            pass(call, &v, sample, c, NULL, &f);
        }
    }
}
