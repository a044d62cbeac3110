/* The four convolutions of f32, bf16 and f16 by oneDNN: as a kernel of its own, and against ours in timed trials. Each
 * member of the team computes its own part: batch items, output channels (or groups), or output rows. */
#include "conv/conv.h"
#include "library/bw_onednn.h"
#include "library/bw_trial.h"
#include "matmul/gemm.h"

bool bw_conv_onednn_supports(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_conv_trial_supports(const bw_op_call *call, const bw_cpu_features *cpu);
size_t bw_conv_onednn_scratch(const bw_op_call *call);
bool bw_conv_supports_gemm(const bw_op_call *call, const bw_cpu_features *cpu);
bw_op_kernel bw_conv_onednn, bw_conv_trial, bw_conv_avx512, bw_conv_avx2, bw_conv_plain, bw_conv_typed;

enum {
    FEWEST = 256,           /* multiplications that are worth a call of a library */
    FEWEST_TRIED = 8 << 20, /* that are worth a trial: some tenths of a millisecond */
    CHANNELS = 16           /* output channels are shared out in multiples of this: whole registers */
};

typedef enum cut { BY_BATCH, BY_CHANNEL, BY_ROW } cut;

/* One member's part of a convolution: batch items, output channels of every group or whole groups, output rows (along
 * a flat call's only axis); and where its tensors begin, in elements. */
typedef struct part {
    int64_t n0, n1, o0, o1, g0, g1, y0, y1;
    int64_t x, w, y;
} part;

static bool is_flat(const bw_op_call *call)
{
    return call->op == BW_OP_CONV1D || call->op == BW_OP_CONV_TRANSPOSE1D;
}

static const bw_conv_axis *row_axis(const bw_op_call *call, const bw_conv *c)
{
    return is_flat(call) ? &c->w : &c->h;
}

/* How to share the work: what each member reads or reorders besides its part is what all of them do again. */
static cut choose_cut(const bw_op_call *call, const bw_conv *c, int64_t members)
{
    if (c->batch % members == 0 || c->batch >= 4 * members)
        return BY_BATCH;
    int64_t units = c->groups > 1 ? c->groups : (c->c_out + CHANNELS - 1) / CHANNELS;
    bool channels_fit = units >= 4 * members || units % members == 0;
    bool rows_fit = !c->is_transposed && row_axis(call, c)->out >= 8 * members;
    int64_t weights = c->c_out * c->group_in * c->h.kernel * c->w.kernel;
    int64_t inputs = c->c_in * c->h.size * c->w.size;
    if (channels_fit && (!rows_fit || c->groups > 1 || inputs < weights))
        return BY_CHANNEL;
    if (rows_fit)
        return BY_ROW;
    return units > c->batch ? BY_CHANNEL : BY_BATCH;
}

static void split(int64_t total, int64_t unit, int64_t rank, int64_t members, int64_t *begin, int64_t *end)
{
    bw_member member = {.rank = (int)rank, .size = (int)members};
    bw_team_split(&member, total, unit, begin, end);
}

/* Member `rank`'s part; false when it has none. */
static bool get_part(const bw_op_call *call, const bw_conv *c, int64_t rank, int64_t members, part *p)
{
    *p = (part){.n1 = c->batch, .o1 = c->group_out, .g1 = c->groups, .y1 = row_axis(call, c)->out};
    switch (choose_cut(call, c, members)) {
    case BY_BATCH:
        split(c->batch, 1, rank, members, &p->n0, &p->n1);
        break;
    case BY_CHANNEL:
        if (c->groups > 1)
            split(c->groups, 1, rank, members, &p->g0, &p->g1);
        else
            split(c->c_out, CHANNELS, rank, members, &p->o0, &p->o1);
        break;
    case BY_ROW:
        split(row_axis(call, c)->out, 1, rank, members, &p->y0, &p->y1);
        break;
    }
    p->x = p->n0 * c->x_batch + p->g0 * c->group_in * c->x_channel;
    p->w = p->g0 * c->w_group + p->o0 * c->w_out;
    p->y =
        p->n0 * c->y_batch + (p->g0 * c->group_out + p->o0) * c->y_channel + p->y0 * (is_flat(call) ? c->y_w : c->y_h);
    return p->n1 > p->n0 && p->o1 > p->o0 && p->g1 > p->g0 && p->y1 > p->y0;
}

/* Axis number i of the spec for output positions [begin, end): the inputs that they meet and the padding that is left
 * beside those. false when they meet none, or the library cannot say it. */
static bool set_axis(const bw_conv *c, const bw_conv_axis *a, int64_t begin, int64_t end, int i, int64_t x_step,
                     int64_t y_step, bw_onednn_spec *s, int64_t *x)
{
    int64_t reach = a->dilation * (a->kernel - 1) + 1, first = 0, last = a->size, left = a->padding, right;
    if (c->is_transposed) {
        right = (a->size - 1) * a->stride + reach - left - a->out;
    } else {
        int64_t from = begin * a->stride - a->padding, to = (end - 1) * a->stride - a->padding + reach;
        first = from > 0 ? from : 0;
        last = to < a->size ? to : a->size;
        left = first - from;
        right = to - last;
    }
    if (last <= first || right < 0)
        return false;
    int d = 2 + i;
    s->src.dims[d] = last - first;
    s->src.strides[d] = x_step;
    s->dst.dims[d] = end - begin;
    s->dst.strides[d] = y_step;
    s->weights.dims[s->weights.n_dims++] = a->kernel;
    s->stride[i] = a->stride;
    s->dilation[i] = a->dilation - 1;
    s->padding_l[i] = left;
    s->padding_r[i] = right;
    *x += first * x_step;
    return true;
}

/* The spec of a part; moves p->x past inputs that it does not meet. */
static bool make_spec(const bw_op_call *call, const bw_conv *c, part *p, bw_onednn_spec *s)
{
    *s = (bw_onednn_spec){.kind = c->is_transposed ? BW_ONEDNN_DECONV : BW_ONEDNN_CONV};
    int64_t groups = p->g1 - p->g0, outs = p->o1 - p->o0, *w = s->weights.dims, *ws = s->weights.strides;
    int n = 0, n_axes = is_flat(call) ? 1 : 2;
    s->src.dtype = s->weights.dtype = s->dst.dtype = (int64_t)call->in[0]->dtype;
    s->src.n_dims = s->dst.n_dims = 2 + n_axes;
    s->src.dims[0] = s->dst.dims[0] = p->n1 - p->n0;
    s->src.dims[1] = groups * c->group_in;
    s->dst.dims[1] = groups * outs;
    s->src.strides[0] = c->x_batch;
    s->src.strides[1] = c->x_channel;
    s->dst.strides[0] = c->y_batch;
    s->dst.strides[1] = c->y_channel;
    if (groups > 1) {
        w[n] = groups;
        ws[n++] = c->w_group;
    }
    w[n] = outs;
    ws[n++] = c->w_out;
    w[n] = c->group_in;
    ws[n++] = c->w_in;
    s->weights.n_dims = n;
    if (n_axes == 2)
        ws[n++] = c->w_h;
    ws[n] = c->w_w;
    if (n_axes == 1)
        return set_axis(c, &c->w, p->y0, p->y1, 0, c->x_w, c->y_w, s, &p->x);
    return set_axis(c, &c->h, p->y0, p->y1, 0, c->x_h, c->y_h, s, &p->x) &&
           set_axis(c, &c->w, 0, c->w.out, 1, c->x_w, c->y_w, s, &p->x);
}

static bool can_all(const bw_op_call *call, const bw_conv *c, size_t *scratch_bytes)
{
    int64_t members = call->n_members > 0 ? call->n_members : 1;
    for (int64_t rank = 0; rank < members; rank++) {
        part p;
        bw_onednn_spec spec;
        if (get_part(call, c, rank, members, &p) &&
            (!make_spec(call, c, &p, &spec) || !bw_onednn_can(&spec, scratch_bytes)))
            return false;
    }
    return true;
}

static double multiplications(const bw_conv *c)
{
    double taps = (double)c->group_in * (double)c->h.kernel * (double)c->w.kernel;
    double places = c->is_transposed ? (double)c->c_in * (double)c->h.size * (double)c->w.size / (double)c->group_in
                                     : (double)c->c_out * (double)c->h.out * (double)c->w.out;
    /* transposed: each input meets the group's outputs at every tap */
    return c->is_transposed ? (double)c->batch * places * taps * (double)c->group_out
                            : (double)c->batch * places * taps;
}

static bool supports(const bw_op_call *call, double fewest)
{
    bw_conv c;
    size_t bytes = 0;
    bw_conv_get(call, &c);
    if (!((BW_MASK_HALVES | BW_MASK(BW_F32)) >> call->in[0]->dtype & 1) || c.batch < 1 || c.c_in < 1 || c.c_out < 1 ||
        !bw_tensor_is_contiguous(call->in[1]))
        return false;
    return multiplications(&c) >= fewest && bw_onednn_is_there() && can_all(call, &c, &bytes);
}

bool bw_conv_onednn_supports(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)cpu;
    return supports(call, FEWEST);
}

bool bw_conv_trial_supports(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)cpu;
    return supports(call, FEWEST_TRIED);
}

size_t bw_conv_onednn_scratch(const bw_op_call *call)
{
    bw_conv c;
    size_t bytes = BW_GEMM_SCRATCH;
    bw_conv_get(call, &c);
    can_all(call, &c, &bytes);
    return bytes + BW_TRIAL_SCRATCH;
}

static char *at(const bw_tensor *t, int64_t element)
{
    return (char *)t->data + element * bw_dtype_block_bytes(t->dtype);
}

/* A bw_library_kernel. */
static bool run_part(const bw_op_call *call, bw_member *member)
{
    bw_conv c;
    part p;
    bw_onednn_spec spec;
    bw_conv_get(call, &c);
    if (!get_part(call, &c, member->rank, member->size, &p))
        return true;
    bw_onednn_part *primitive = make_spec(call, &c, &p, &spec) ? bw_onednn_take(&spec) : NULL;
    if (!primitive)
        return false;
    bool ok = bw_onednn_scratch(primitive) + BW_TRIAL_SCRATCH <= call->scratch_bytes &&
              bw_onednn_run(primitive, at(call->in[0], p.x), at(call->in[1], p.w), at(call->out[0], p.y),
                            bw_op_member_scratch(call, member));
    bw_onednn_give(primitive);
    return ok;
}

static void run_ours(const bw_op_call *call, bw_member *member)
{
    const bw_cpu_features *cpu = bw_cpu_get_features();
    if (!bw_conv_supports_gemm(call, cpu))
        bw_conv_typed(call, member);
#if defined(__x86_64__)
    else if (cpu->avx512)
        bw_conv_avx512(call, member);
    else if (cpu->avx2)
        bw_conv_avx2(call, member);
#endif
    else
        bw_conv_plain(call, member);
}

/* Whether a weight is infinite or NaN: taps that meet no input add nothing, but the library may multiply them by 0. */
static bool has_wild_weights(const bw_tensor *w)
{
    int64_t n = bw_tensor_elements(w);
    uint32_t wild = 0;
    if (w->dtype == BW_F32) {
        const uint32_t *v = w->data;
        for (int64_t i = 0; i < n; i++)
            wild |= (v[i] & 0x7f800000u) == 0x7f800000u;
    } else {
        const uint16_t *v = w->data;
        uint16_t exponent = w->dtype == BW_F16 ? 0x7c00 : 0x7f80;
        for (int64_t i = 0; i < n; i++)
            wild |= (v[i] & exponent) == exponent;
    }
    return wild != 0;
}

void bw_conv_onednn(const bw_op_call *call, bw_member *member)
{
    if (has_wild_weights(call->in[1]))
        run_ours(call, member);
    else
        bw_library_run(call, member, run_ours, run_part);
}

void bw_conv_trial(const bw_op_call *call, bw_member *member)
{
    bw_conv c;
    bw_conv_get(call, &c);
    if (multiplications(&c) < FEWEST_TRIED || has_wild_weights(call->in[1])) {
        run_ours(call, member);
        return;
    }
    bw_trial_key key = {{(int64_t)call->op,
                         (int64_t)call->in[0]->dtype,
                         member->size,
                         bw_trial_round(c.batch),
                         bw_trial_round(c.c_in),
                         bw_trial_round(c.c_out),
                         c.groups,
                         bw_trial_round(c.h.size),
                         bw_trial_round(c.w.size),
                         c.h.kernel,
                         c.w.kernel,
                         c.h.stride,
                         c.w.stride,
                         c.h.padding,
                         c.w.padding,
                         c.h.dilation,
                         c.w.dilation,
                         c.x_w == 1,
                         c.x_channel == 1,
                         c.y_w == 1}};
    bw_trial_run(call, member, &key, run_ours, run_part);
}
