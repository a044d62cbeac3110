/* SOFTMAX, LOG_SOFTMAX, RMSNORM and LAYERNORM for f32, f16 and bf16, over vectors. Sums are kept in f64. A row of f32
 * is worked on in place; others pass through a buffer piece by piece. */
#include "reduce/reduce_vec.h"

bw_op_kernel BW_LEVEL(bw_softmax), BW_LEVEL(bw_log_softmax), BW_LEVEL(bw_rmsnorm), BW_LEVEL(bw_layernorm);

enum { POWERS = 4096 };

BW_INLINE int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The greatest of x that is no NaN, or most. */
BW_INLINE float greatest_of(const float *x, int64_t n, float most)
{
    vf a = vf_set1(most), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * VF_N <= n; i += 4 * VF_N) {
        a = vf_max(vf_load(x + i), a);
        b = vf_max(vf_load(x + i + VF_N), b);
        c = vf_max(vf_load(x + i + 2 * VF_N), c);
        d = vf_max(vf_load(x + i + 3 * VF_N), d);
    }
    for (; i + VF_N <= n; i += VF_N)
        a = vf_max(vf_load(x + i), a);
    most = vf_max_lane(vf_max(vf_max(a, b), vf_max(c, d)));
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* The sum of e^(x - most); to dst too unless that is NULL. */
BW_INLINE double exp_row(const float *x, int64_t n, float most, float *dst)
{
    const vf top = vf_set1(most);
    double sum = 0;
    for (int64_t i = 0; i < n;) {
        vf s0 = vf_set1(0), s1 = vf_set1(0);
        int64_t end = least_of(n, i + 1024);
        for (; i + 2 * VF_N <= end; i += 2 * VF_N) {
            vf a = vf_exp(vf_sub(vf_load(x + i), top)), b = vf_exp(vf_sub(vf_load(x + i + VF_N), top));
            s0 = vf_add(s0, a);
            s1 = vf_add(s1, b);
            if (dst) {
                vf_store(dst + i, a);
                vf_store(dst + i + VF_N, b);
            }
        }
        sum += (double)vf_sum(vf_add(s0, s1));
        for (; i < end; i += VF_N) {
            int64_t m = least_of(VF_N, end - i);
            float one[VF_N];
            vf_store(one, vf_exp(vf_sub(vf_load_n(x + i, m), top)));
            for (int64_t k = 0; k < m; k++)
                sum += (double)one[k];
            if (dst)
                memcpy(dst + i, one, (size_t)m * sizeof *one);
        }
        i = end;
    }
    return sum;
}

/* dst = e^(x - most) * scale */
BW_INLINE void exp_scale_row(const float *x, int64_t n, float most, float scale, float *dst)
{
    const vf top = vf_set1(most), s = vf_set1(scale);
    for (int64_t i = 0; i < n; i += VF_N) {
        int64_t m = least_of(VF_N, n - i);
        if (m == VF_N)
            vf_store(dst + i, vf_mul(vf_exp(vf_sub(vf_load(x + i), top)), s));
        else
            vf_store_n(dst + i, vf_mul(vf_exp(vf_sub(vf_load_n(x + i, m), top)), s), m);
    }
}

BW_INLINE void scale_row(float *x, int64_t n, float scale)
{
    const vf s = vf_set1(scale);
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N)
        vf_store(x + i, vf_mul(vf_load(x + i), s));
    for (; i < n; i++)
        x[i] *= scale;
}

/* dst = (x - high) - low */
BW_INLINE void subtract_row(const float *x, int64_t n, float high, float low, float *dst)
{
    const vf h = vf_set1(high), l = vf_set1(low);
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N)
        vf_store(dst + i, vf_sub(vf_sub(vf_load(x + i), h), l));
    for (; i < n; i++)
        dst[i] = (x[i] - high) - low;
}

BW_INLINE void softmax_row(bool is_log, const bw_row *x, const bw_row *y)
{
    float from[BW_EACH_BLOCK], to[BW_EACH_BLOCK], most = -INFINITY;
    int64_t n = x->n, piece;
    bool in_place = x->is_direct && y->is_direct;
    piece = in_place ? n : BW_EACH_BLOCK;
    for (int64_t i = 0; i < n; i += piece)
        most = greatest_of(bw_row_load(x, i, least_of(piece, n - i), from), least_of(piece, n - i), most);
    double sum = 0;
    /* Between the passes the powers lie in y itself, or in a buffer, or are found again. */
    float buffer[POWERS], *powers = is_log         ? NULL
                                    : y->is_direct ? (float *)(void *)y->data
                                    : n <= POWERS  ? buffer
                                                   : NULL;
    for (int64_t i = 0; i < n; i += piece) {
        int64_t m = least_of(piece, n - i);
        sum += exp_row(bw_row_load(x, i, m, from), m, most, powers ? powers + i : NULL);
    }
    float log_sum = (float)log(sum), scale = (float)(1 / sum);
    if (powers)
        scale_row(powers, n, scale);
    if (powers && powers != buffer)
        return;
    for (int64_t i = 0; i < n; i += piece) {
        int64_t m = least_of(piece, n - i);
        if (powers) {
            bw_row_store(y, i, m, powers + i);
            continue;
        }
        const float *v = bw_row_load(x, i, m, from);
        float *dst = bw_row_place(y, i, to);
        if (is_log)
            subtract_row(v, m, most, log_sum, dst);
        else
            exp_scale_row(v, m, most, scale, dst);
        bw_row_store(y, i, m, dst);
    }
}

/* y = ((x - high) - low) * scale * w + b; w, b may be NULL. */
BW_INLINE void norm_vectors(const float *x, int64_t n, float high, float low, float scale, const float *w,
                            const float *b, float *y)
{
    const vf h = vf_set1(high), l = vf_set1(low), s = vf_set1(scale);
    int64_t i = 0;
    for (; i < n; i += VF_N) {
        int64_t m = n - i;
        bool whole = m >= VF_N;
        vf v = whole ? vf_load(x + i) : vf_load_n(x + i, m);
        if (high != 0 || low != 0)
            v = vf_sub(vf_sub(v, h), l);
        v = vf_mul(v, s);
        if (w)
            v = vf_mul(v, whole ? vf_load(w + i) : vf_load_n(w + i, m));
        if (b)
            v = vf_add(v, whole ? vf_load(b + i) : vf_load_n(b + i, m));
        if (whole)
            vf_store(y + i, v);
        else
            vf_store_n(y + i, v, m);
    }
}

/* As norm_vectors, of f16 or bf16 (dtype, a constant) without a buffer: whole vectors only; returns how many elements.
 */
BW_INLINE int64_t norm_halves(bw_dtype dtype, const bw_row *x, const bw_row *w, const bw_row *b, const bw_row *y,
                              float high, float low, float scale)
{
    const vf h = vf_set1(high), l = vf_set1(low), s = vf_set1(scale);
    int64_t i = 0;
    for (; i + VF_N <= x->n; i += VF_N) {
        vf v = vf_mul(vf_sub(vf_sub(vf_load_as(dtype, x->data, i), h), l), s);
        if (w->data)
            v = vf_mul(v, vf_load_as(dtype, w->data, i));
        if (b->data)
            v = vf_add(v, vf_load_as(dtype, b->data, i));
        uint16_t *dst = (uint16_t *)(void *)y->data + i;
        if (dtype == BW_F16)
            vf_store_f16(dst, v);
        else
            vf_store_bf16(dst, v);
    }
    return i;
}

static double row_value(const bw_row *row, int64_t i, double otherwise)
{
    return row->data ? bw_element_f64(row->dtype, row->data, i * row->step) : otherwise;
}

/* The second pass of a norm in f64. */
static void norm_extreme_row(const bw_row *x, const bw_row *w, const bw_row *b, const bw_row *y, double mean,
                             double scale)
{
    for (int64_t i = 0; i < x->n; i++)
        bw_element_set_f64(y->dtype, y->data, i * y->step,
                           (row_value(x, i, 0) - mean) * scale * row_value(w, i, 1) + row_value(b, i, 0));
}

/* The second pass of a norm; w->data, b->data may be NULL. */
BW_INLINE void norm_row(const bw_row *x, const bw_row *w, const bw_row *b, const bw_row *y, double mean, double scale)
{
    float from[BW_EACH_BLOCK], to[BW_EACH_BLOCK], w_buffer[BW_EACH_BLOCK], b_buffer[BW_EACH_BLOCK];
    if (is_extreme(scale)) {
        norm_extreme_row(x, w, b, y, mean, scale);
        return;
    }
    float high = (float)mean, low = isinf(high) ? 0 : (float)(mean - (double)high);
    bool direct = x->is_direct && y->is_direct && (!w->data || w->is_direct) && (!b->data || b->is_direct);
    int64_t n = x->n, piece = direct ? n : BW_EACH_BLOCK, done = 0;
    bool is_dense = x->step == 1 && y->step == 1 && (!w->data || w->step == 1) && (!b->data || b->step == 1);
    if (is_dense && x->dtype == BW_F16)
        done = norm_halves(BW_F16, x, w, b, y, high, low, (float)scale);
    else if (is_dense && x->dtype == BW_BF16)
        done = norm_halves(BW_BF16, x, w, b, y, high, low, (float)scale);
    for (int64_t i = done; i < n; i += piece) {
        int64_t m = least_of(piece, n - i);
        float *dst = bw_row_place(y, i, to);
        norm_vectors(bw_row_load(x, i, m, from), m, high, low, (float)scale,
                     w->data ? bw_row_load(w, i, m, w_buffer) : NULL, b->data ? bw_row_load(b, i, m, b_buffer) : NULL,
                     dst);
        bw_row_store(y, i, m, dst);
    }
}

BW_INLINE void rmsnorm_row(const bw_row *x, const bw_row *w, const bw_row *y, float eps)
{
    float from[BW_EACH_BLOCK];
    int64_t piece = bw_row_piece(x);
    double sum = 0;
    for (int64_t i = 0; i < x->n; i += piece)
        sum += sum_squares(bw_row_load(x, i, least_of(piece, x->n - i), from), least_of(piece, x->n - i));
    norm_row(x, w, &(bw_row){0}, y, 0, 1 / sqrt(sum / (double)x->n + (double)eps));
}

BW_INLINE void layernorm_row(const bw_row *x, const bw_row *w, const bw_row *b, const bw_row *y, float eps)
{
    float from[BW_EACH_BLOCK];
    int64_t n = x->n, piece = bw_row_piece(x);
    /* The first element as a shift: what is squared is then as small as the spread, not as large as the mean. */
    double shift = bw_element_f64(x->dtype, x->data, 0), tail = 0, tail_squares = 0;
    vd sum = vd_zero(), squares = vd_zero(), sum2 = vd_zero(), squares2 = vd_zero();
    for (int64_t i = 0; i < n; i += piece) {
        int64_t m = least_of(piece, n - i), k = 0;
        const float *v = bw_row_load(x, i, m, from);
        for (; k + 2 * VF_N <= m; k += 2 * VF_N) {
            vd_add_moments(&sum, &squares, vf_load(v + k), shift);
            vd_add_moments(&sum2, &squares2, vf_load(v + k + VF_N), shift);
        }
        for (; k < m; k++) {
            double d = (double)v[k] - shift;
            tail += d;
            tail_squares += d * d;
        }
    }
    double mean = (vd_sum(vd_add_vd(sum, sum2)) + tail) / (double)n;
    double variance = (vd_sum(vd_add_vd(squares, squares2)) + tail_squares) / (double)n - mean * mean;
    variance = variance < 0 ? 0 : variance;
    norm_row(x, w, b, y, shift + mean, 1 / sqrt(variance + (double)eps));
}

typedef struct rows {
    bw_rows x, y;
    int64_t x_step, y_step, begin, end;
} rows;

BW_INLINE bool share_rows(const bw_op_call *call, const bw_member *member, rows *r)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    bw_rows_init(&r->x, x);
    bw_rows_init(&r->y, y);
    r->x_step = x->strides[x->n_dims - 1];
    r->y_step = y->strides[y->n_dims - 1];
    return r->x.n_columns > 0 && bw_op_my_share(member, r->x.n_rows, r->x.n_columns, 2048, &r->begin, &r->end);
}

BW_INLINE void run_softmax(bool is_log, const bw_op_call *call, const bw_member *member)
{
    rows r;
    if (!share_rows(call, member, &r))
        return;
    for (int64_t i = r.begin; i < r.end; i++) {
        bw_row x = bw_row_at(call->in[0], bw_rows_offset(&r.x, i), r.x_step, r.x.n_columns);
        bw_row y = bw_row_at(call->out[0], bw_rows_offset(&r.y, i), r.y_step, r.x.n_columns);
        softmax_row(is_log, &x, &y);
    }
}

void BW_LEVEL(bw_softmax)(const bw_op_call *call, bw_member *member)
{
    run_softmax(false, call, member);
}

void BW_LEVEL(bw_log_softmax)(const bw_op_call *call, bw_member *member)
{
    run_softmax(true, call, member);
}

BW_INLINE bw_row weight_row(const bw_tensor *w)
{
    return w ? bw_row_at(w, 0, w->strides[0], w->dims[0]) : (bw_row){0};
}

void BW_LEVEL(bw_rmsnorm)(const bw_op_call *call, bw_member *member)
{
    float eps = ((const bw_rms_norm_params *)call->params)->eps;
    bw_row w = weight_row(call->in[1]);
    rows r;
    if (!share_rows(call, member, &r))
        return;
    for (int64_t i = r.begin; i < r.end; i++) {
        bw_row x = bw_row_at(call->in[0], bw_rows_offset(&r.x, i), r.x_step, r.x.n_columns);
        bw_row y = bw_row_at(call->out[0], bw_rows_offset(&r.y, i), r.y_step, r.x.n_columns);
        rmsnorm_row(&x, &w, &y, eps);
    }
}

void BW_LEVEL(bw_layernorm)(const bw_op_call *call, bw_member *member)
{
    float eps = ((const bw_layernorm_params *)call->params)->eps;
    bw_row w = weight_row(call->in[1]), b = weight_row(call->in[2]);
    rows r;
    if (!share_rows(call, member, &r))
        return;
    for (int64_t i = r.begin; i < r.end; i++) {
        bw_row x = bw_row_at(call->in[0], bw_rows_offset(&r.x, i), r.x_step, r.x.n_columns);
        bw_row y = bw_row_at(call->out[0], bw_rows_offset(&r.y, i), r.y_step, r.x.n_columns);
        layernorm_row(&x, &w, &b, &y, eps);
    }
}
