/* CUMSUM for f32, f16 and bf16, over vectors where columns lie side by side. */
#include "reduce/cumsum_view.h"
#include "reduce/reduce_vec.h"

bw_op_kernel BW_LEVEL(bw_cumsum);

/* One column along the axis: a chain of additions. */
BW_INLINE void cumsum_column(const bw_row *x, const bw_row *y)
{
    float from[BW_EACH_BLOCK], to[BW_EACH_BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < x->n; i += BW_EACH_BLOCK) {
        int64_t n = x->n - i < BW_EACH_BLOCK ? x->n - i : BW_EACH_BLOCK;
        const float *v = bw_row_load(x, i, n, from);
        float *dst = bw_row_place(y, i, to);
        int64_t k = 0;
        for (; k + 4 <= n; k += 4) { /* the chain has one addition for four elements */
            double a = (double)v[k], b = a + (double)v[k + 1], c = b + (double)v[k + 2], d = c + (double)v[k + 3];
            dst[k] = (float)(sum + a);
            dst[k + 1] = (float)(sum + b);
            dst[k + 2] = (float)(sum + c);
            sum += d;
            dst[k + 3] = (float)sum;
        }
        for (; k < n; k++) {
            sum += (double)v[k];
            dst[k] = (float)sum;
        }
        bw_row_store(y, i, n, dst);
    }
}

/* n <= BW_EACH_BLOCK columns side by side, `x_across` and `y_across` apart. */
BW_INLINE void cumsum_block(const bw_op_call *call, const bw_cumsum_view *v, int64_t from, int64_t to, int64_t n,
                            int64_t x_across, int64_t y_across)
{
    float in[BW_EACH_BLOCK], out[BW_EACH_BLOCK];
    double sums[BW_EACH_BLOCK + VF_N];
    memset(sums, 0, sizeof sums);
    for (int64_t k = 0; k < v->n; k++) {
        bw_row x = bw_row_at(call->in[0], from + k * v->x_step, x_across, n);
        bw_row y = bw_row_at(call->out[0], to + k * v->y_step, y_across, n);
        const float *src = bw_row_load(&x, 0, n, in);
        float *dst = bw_row_place(&y, 0, out);
        for (int64_t i = 0; i < n; i++) {
            sums[i] += (double)src[i];
            dst[i] = (float)sums[i];
        }
        bw_row_store(&y, 0, n, dst);
    }
}

void BW_LEVEL(bw_cumsum)(const bw_op_call *call, bw_member *member)
{
    bw_cumsum_view v;
    bw_cumsum_view_init(&v, call);
    int64_t begin, end, x_across = bw_loop_step(&v.rest, 0), y_across = bw_loop_step(&v.rest, 1);
    if (!bw_op_my_share(member, v.rest.n, v.n, 2048, &begin, &end))
        return;
    bool side_by_side = v.rest.dims[v.rest.n_dims - 1] >= 8 && v.x_step != 1 && x_across < v.x_step;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &v.rest, begin, end);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0, n = 1; i < span.n; i += n) {
            int64_t from = span.offset[0] + i * x_across, to = span.offset[1] + i * y_across;
            if (side_by_side) {
                n = span.n - i < BW_EACH_BLOCK ? span.n - i : BW_EACH_BLOCK;
                cumsum_block(call, &v, from, to, n, x_across, y_across);
            } else {
                bw_row x = bw_row_at(call->in[0], from, v.x_step, v.n);
                bw_row y = bw_row_at(call->out[0], to, v.y_step, v.n);
                cumsum_column(&x, &y);
            }
        }
}
