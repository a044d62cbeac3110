/* The four convolutions of f32, f16 and bf16 as products (matmul/gemm.h): weights [group's outputs, group's inputs x
 * taps] times windows [group's inputs x taps, output positions], which are written straight into the product's packed
 * panels and never stored whole. One input channel for each group goes directly. Compiled per CPU level. */
#include "bw_each.h"
#include "conv/conv.h"
#include "matmul/gemm.h"

bw_op_kernel BW_LEVEL(bw_conv), bw_conv_typed;

typedef struct conv_context {
    bw_conv c;
    const bw_op_call *call;
} conv_context;

/* n inputs from element at of x, step apart, as f32. */
BW_INLINE void conv_load(const bw_tensor *x, int64_t at, int64_t step, float *dst, int64_t n)
{
    if (x->dtype == BW_F32 && step == 1)
        memcpy(dst, (const float *)x->data + at, (size_t)n * sizeof *dst);
    else
        bw_each_load(x->dtype, (const char *)x->data + at * bw_dtype_block_bytes(x->dtype), step, dst, n);
}

/* Output positions [begin, end) of row y for one tap of the channel that begins at element at: its inputs, or 0. */
static void conv_fill(const conv_context *context, int64_t at, int64_t y, int64_t begin, int64_t end, int64_t ky,
                      int64_t kx, float *dst)
{
    const bw_conv *c = &context->c;
    const bw_tensor *x = context->call->in[0];
    int64_t iy = bw_conv_position(c, &c->h, y, ky), n = end - begin;
    bw_conv_run run = bw_conv_find_run(c, &c->w, begin, end, kx);
    if (iy < 0 || run.n == 0) {
        memset(dst, 0, (size_t)n * sizeof *dst);
        return;
    }
    at += iy * c->x_h + run.in * c->x_w;
    int64_t first = run.out - begin;
    if (run.out_step == 1) {
        for (int64_t i = 0; i < first; i++)
            dst[i] = 0;
        conv_load(x, at, run.in_step * c->x_w, dst + first, run.n);
        for (int64_t i = first + run.n; i < n; i++)
            dst[i] = 0;
        return;
    }
    float inputs[BW_GEMM_NC];
    memset(dst, 0, (size_t)n * sizeof *dst);
    conv_load(x, at, c->x_w, inputs, run.n);
    for (int64_t i = 0; i < run.n; i++)
        dst[first + i * run.out_step] = inputs[i];
}

/* A bw_gemm_pack_fn: rows are taps of channels, columns output positions; n <= BW_GEMM_NC. */
static void conv_pack(const bw_gemm *g, int64_t width, int64_t k0, int64_t kc, int64_t j0, int64_t n, float *dst)
{
    const conv_context *context = g->pack_context;
    const bw_conv *c = &context->c;
    float row[BW_GEMM_NC + 2 * VF_N];
    int64_t base = g->pack_at / c->groups * c->x_batch + g->pack_at % c->groups * c->group_in * c->x_channel;
    int64_t taps = c->h.kernel * c->w.kernel, y0 = j0 / c->w.out, x0 = j0 % c->w.out;
    int64_t n_padded = (n + width - 1) / width * width;
    for (int64_t p = 0; p < kc; p++) {
        int64_t tap = (k0 + p) % taps, at = base + (k0 + p) / taps * c->x_channel, y = y0, x = x0;
        for (int64_t j = 0; j < n; y++, x = 0) {
            int64_t end = x + n - j < c->w.out ? x + n - j : c->w.out;
            conv_fill(context, at, y, x, end, tap / c->w.kernel, tap % c->w.kernel, row + j);
            j += end - x;
        }
        for (int64_t j = n; j < n_padded; j++)
            row[j] = 0;
        for (int64_t j = 0; j < n_padded; j += 2 * VF_N) { /* width is 2 VF_N */
            float *to = dst + j * kc + p * 2 * VF_N;
            vf_store(to, vf_load(row + j));
            vf_store(to + VF_N, vf_load(row + j + VF_N));
        }
    }
}

static void conv_item(const void *context, int64_t item, bw_gemm *g)
{
    const conv_context *v = context;
    const bw_conv *c = &v->c;
    int64_t n = item / c->groups, group = item % c->groups, size = bw_dtype_block_bytes(g->a_dtype);
    g->a = (const char *)v->call->in[1]->data + group * c->w_group * size;
    g->b = (const char *)v->call->in[0]->data + (n * c->x_batch + group * c->group_in * c->x_channel) * size;
    g->c = (char *)v->call->out[0]->data + (n * c->y_batch + group * c->group_out * c->y_channel) * size;
    g->pack_at = item;
}

/* One channel of input for each group: row y of output channel o, without packing. */
static void conv_direct_row(const conv_context *v, int64_t n, int64_t o, int64_t y)
{
    enum { STRIP = 512 };
    float sums[STRIP], inputs[STRIP];
    const bw_conv *c = &v->c;
    const bw_tensor *x = v->call->in[0], *w = v->call->in[1];
    bw_tensor *out = v->call->out[0];
    int64_t group = o / c->group_out, at_w = group * c->w_group + o % c->group_out * c->w_out;
    for (int64_t begin = 0; begin < c->w.out; begin += STRIP) {
        int64_t end = begin + STRIP < c->w.out ? begin + STRIP : c->w.out;
        memset(sums, 0, (size_t)(end - begin) * sizeof *sums);
        for (int64_t ky = 0; ky < c->h.kernel; ky++) {
            int64_t iy = bw_conv_position(c, &c->h, y, ky);
            for (int64_t kx = 0; kx < c->w.kernel && iy >= 0; kx++) {
                bw_conv_run run = bw_conv_find_run(c, &c->w, begin, end, kx);
                if (run.n == 0)
                    continue;
                int64_t at = n * c->x_batch + group * c->x_channel + iy * c->x_h + run.in * c->x_w, i = 0;
                const float weight = (float)bw_element_f64(w->dtype, w->data, at_w + ky * c->w_h + kx * c->w_w);
                const float *from = (const float *)x->data + at;
                float *to = sums + (run.out - begin);
                if (x->dtype != BW_F32 || run.in_step * c->x_w != 1) {
                    conv_load(x, at, run.in_step * c->x_w, inputs, run.n);
                    from = inputs;
                }
                for (; i + VF_N <= run.n && run.out_step == 1; i += VF_N)
                    vf_store(to + i, vf_fma(vf_set1(weight), vf_load(from + i), vf_load(to + i)));
                for (; i < run.n; i++)
                    to[i * run.out_step] += weight * from[i];
            }
        }
        int64_t at_y = n * c->y_batch + o * c->y_channel + y * c->y_h + begin * c->y_w;
        bw_each_store(out->dtype, (char *)out->data + at_y * bw_dtype_block_bytes(out->dtype), c->y_w, sums,
                      end - begin);
    }
}

static void conv_direct(const conv_context *v, bw_member *member)
{
    const bw_conv *c = &v->c;
    int64_t total = c->batch * c->c_out * c->h.out, begin, end, at_once = 4096 / (c->w.out + 1) + 1;
    (void)member;
    while (bw_team_take(v->call->next, total, at_once, &begin, &end))
        for (int64_t i = begin; i < end; i++)
            conv_direct_row(v, i / c->h.out / c->c_out, i / c->h.out % c->c_out, i % c->h.out);
}

/* Whether some window meets no input at some tap, where a product would multiply the tap by 0, and a weight is not
 * finite, so that 0 is not what comes of it. */
static bool conv_has_wild_taps(const conv_context *v)
{
    const bw_tensor *w = v->call->in[1];
    bw_loop loop;
    bw_loop_cursor cursor;
    bw_span span;
    bool is_finite = true;
    if (!v->c.is_transposed && v->c.h.padding == 0 && v->c.w.padding == 0)
        return false;
    bw_loop_init(&loop, w->n_dims, w->dims, 1, &w);
    bw_loop_begin(&cursor, &loop, 0, loop.n);
    while (is_finite && bw_loop_next(&cursor, &span))
        is_finite = bw_each_is_finite(w->dtype, (const char *)w->data + span.offset[0] * bw_dtype_block_bytes(w->dtype),
                                      bw_loop_step(&loop, 0), span.n);
    return !is_finite;
}

void BW_LEVEL(bw_conv)(const bw_op_call *call, bw_member *member)
{
    conv_context v = {.call = call};
    bw_conv_get(call, &v.c);
    const bw_conv *c = &v.c;
    if (c->group_in == 1 && c->group_out <= 4) {
        conv_direct(&v, member);
        return;
    }
    if (conv_has_wild_taps(&v)) {
        bw_conv_typed(call, member);
        return;
    }
    int64_t taps = c->h.kernel * c->w.kernel;
    bw_gemm g = {.m = c->group_out, .n = c->h.out * c->w.out, .k = c->group_in * taps};
    g.a_dtype = g.b_dtype = g.c_dtype = call->in[0]->dtype;
    g.a_m = c->w_out;
    g.a_k = c->w.kernel > 1 ? c->w_w : c->h.kernel > 1 ? c->w_h : c->w_in;
    g.a_inner = taps > 1 ? taps : g.k;
    g.a_outer = c->w_in;
    if (taps > 1 && g.a_outer == taps * g.a_k)
        g.a_inner = g.k;
    g.c_m = c->y_channel;
    g.c_n = c->y_w;
    g.pack_b = conv_pack;
    g.pack_context = &v;
    bool is_plain = taps == 1 && c->h.stride == 1 && c->w.stride == 1 && c->h.padding == 0 && c->w.padding == 0;
    if (is_plain && (c->h.size == 1 || c->x_h == c->w.size * c->x_w) && c->h.out == c->h.size &&
        c->w.out == c->w.size) {
        g.pack_b = NULL;
        g.b_k = c->x_channel;
        g.b_n = c->x_w;
    }
    BW_LEVEL(bw_gemm_run)(call, member, &g, c->batch * c->groups, conv_item, &v);
}
