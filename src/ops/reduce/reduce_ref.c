/* SUM and the FAST_ reductions over any set of axes. */
#include <math.h>

#include "reduce/reduce_space.h"

static uint64_t dtypes_of(bw_op op)
{
    switch (op) {
#define BW_REDUCTION(NAME, name, KIND, kind, dtypes)                                                                   \
    case BW_OP_##NAME:                                                                                                 \
        return dtypes;
#include "reduce/reduce_list.def"
#undef BW_REDUCTION
    default:
        return 0;
    }
}

static bw_reduce_kind kind_of(bw_op op)
{
    switch (op) {
#define BW_REDUCTION(NAME, name, KIND, kind, dtypes)                                                                   \
    case BW_OP_##NAME:                                                                                                 \
        return BW_REDUCE_##KIND;
#include "reduce/reduce_list.def"
#undef BW_REDUCTION
    default:
        return BW_REDUCE_SUM;
    }
}

static bool is_reduced(uint32_t axes, int dim)
{
    return axes >> dim & 1;
}

/* y's shape: x's without the reduced dimensions, or with 1 in their places. */
static bool shape_fits(const bw_tensor *x, const bw_tensor *y, uint32_t axes)
{
    bool keeps = y->n_dims == x->n_dims;
    int k = 0;
    for (int d = 0; d < x->n_dims; d++) {
        if (keeps && y->dims[d] != (is_reduced(axes, d) ? 1 : x->dims[d]))
            return false;
        if (!keeps && !is_reduced(axes, d) && (k >= y->n_dims || y->dims[k++] != x->dims[d]))
            return false;
    }
    return keeps || k == y->n_dims;
}

static bw_status check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 1, true, err));
    const bw_tensor *x = call->in[0], *y = call->out[0];
    bw_reduce_kind kind = kind_of(call->op);
    uint32_t axes = ((const bw_reduce_params *)call->params)->axes;
    BW_TRY(bw_op_check_plain(call, x, "in0", dtypes_of(call->op), err));
    BW_TRY(bw_op_check_plain(call, y, "out0", bw_reduce_is_arg(kind) ? BW_MASK(BW_U32) : BW_MASK(x->dtype), err));
    if (axes >> x->n_dims)
        return bw_op_fail(call, err, "axes 0x%x name dimensions beyond in0's", (unsigned)axes);
    if (!shape_fits(x, y, axes))
        return bw_op_fail(call, err, "out0 must be in0 without the axes 0x%x, or with 1 in their places",
                          (unsigned)axes);
    int64_t n_x = bw_tensor_elements(x), n_y = bw_tensor_elements(y), n_reduced = n_y > 0 ? n_x / n_y : 0;
    if (kind != BW_REDUCE_SUM && n_x == 0 && n_y > 0)
        return bw_op_fail(call, err, "has no element to choose from");
    if (bw_reduce_is_arg(kind) && n_reduced >= BW_REDUCE_NOWHERE)
        return bw_op_fail(call, err, "%lld elements are too many for an index in u32", (long long)n_reduced);
    return BW_OK;
}

static void cost(const bw_op_call *call, bw_op_cost *result)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    double n = (double)bw_tensor_elements(x), n_out = (double)bw_tensor_elements(y);
    *result = (bw_op_cost){.flops = n,
                           .bytes = n * (double)bw_dtype_block_bytes(x->dtype) +
                                    n_out * (double)bw_dtype_block_bytes(y->dtype)};
}

void bw_reduce_space_init(bw_reduce_space *space, const bw_op_call *call)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    uint32_t axes = ((const bw_reduce_params *)call->params)->axes;
    bw_tensor kept_x = {0}, kept_y = {0}, reduced = {0};
    bool keeps = y->n_dims == x->n_dims;
    for (int d = 0, k = 0; d < x->n_dims; d++) {
        if (is_reduced(axes, d)) {
            reduced.dims[reduced.n_dims] = x->dims[d];
            reduced.strides[reduced.n_dims++] = x->strides[d];
            k += keeps;
            continue;
        }
        kept_x.dims[kept_x.n_dims] = kept_y.dims[kept_x.n_dims] = x->dims[d];
        kept_x.strides[kept_x.n_dims] = x->strides[d];
        kept_y.strides[kept_x.n_dims++] = y->strides[k++];
    }
    kept_y.n_dims = kept_x.n_dims;
    bw_loop_init(&space->kept, kept_x.n_dims, kept_x.dims, 2, (const bw_tensor *[]){&kept_x, &kept_y});
    bw_loop_init(&space->reduced, reduced.n_dims, reduced.dims, 1, (const bw_tensor *[]){&reduced});
}

bw_reduce_way bw_reduce_find_way(const bw_reduce_space *space, int n_members)
{
    const bw_loop *kept = &space->kept, *reduced = &space->reduced;
    int64_t kept_step = bw_loop_step(kept, 0), reduced_step = bw_loop_step(reduced, 0);
    int64_t n_inner = kept->dims[kept->n_dims - 1];
    bw_reduce_way way = {0};
    way.by_columns = n_inner >= 16 && reduced->n > 1 && reduced_step != 1 && kept_step < reduced_step;
    way.in_parts = n_members > 1 && kept->n > 0 && kept->n <= BW_REDUCE_MAX_PARTIAL && kept->n < n_members * 8 &&
                   reduced->n >= 16384 && kept->n * reduced->n >= 65536;
    return way;
}

/* Whether element b takes a's place: a NaN that came first stays, a later one never comes in. */
static bool takes(bw_reduce_kind kind, bw_dtype dtype, const void *data, int64_t a, int64_t b)
{
    bool least = kind == BW_REDUCE_MIN || kind == BW_REDUCE_ARGMIN;
    if (bw_dtype_is_integer(dtype)) {
        int64_t u = bw_element_i64(dtype, data, a), v = bw_element_i64(dtype, data, b);
        return least ? v < u : v > u;
    }
    double u = bw_element_f64(dtype, data, a), v = bw_element_f64(dtype, data, b);
    return least ? v < u : v > u;
}

static void add(double *sum, double *block, double value, int64_t index)
{
    *block += value;
    if (index % 64 == 63) {
        *sum += *block;
        *block = 0;
    }
}

static void reduce_one(bw_reduce_kind kind, const bw_reduce_space *space, const bw_tensor *x, int64_t from,
                       bw_tensor *y, int64_t to)
{
    bw_loop_cursor cursor;
    bw_span span;
    double sum = 0, block = 0; /* in blocks: equal terms would all be rounded the same way */
    uint64_t words = 0;
    int64_t best = from, at = 0, index = 0;
    bool is_integer = bw_dtype_is_integer(x->dtype);
    bw_loop_begin(&cursor, &space->reduced, 0, space->reduced.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++, index++) {
            int64_t element = from + span.offset[0] + i * bw_loop_step(&space->reduced, 0);
            if (kind == BW_REDUCE_SUM && is_integer)
                words += (uint64_t)bw_element_i64(x->dtype, x->data, element);
            else if (kind == BW_REDUCE_SUM)
                add(&sum, &block, bw_element_f64(x->dtype, x->data, element), index);
            else if (takes(kind, x->dtype, x->data, best, element)) {
                best = element;
                at = index;
            }
        }
    if (bw_reduce_is_arg(kind))
        bw_element_set_i64(y->dtype, y->data, to, at);
    else if (is_integer)
        bw_element_set_i64(y->dtype, y->data, to,
                           kind == BW_REDUCE_SUM ? (int64_t)words : bw_element_i64(x->dtype, x->data, best));
    else
        bw_element_set_f64(y->dtype, y->data, to,
                           kind == BW_REDUCE_SUM ? sum + block : bw_element_f64(x->dtype, x->data, best));
}

static void ref(const bw_op_call *call)
{
    bw_reduce_space space;
    bw_reduce_space_init(&space, call);
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &space.kept, 0, space.kept.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++)
            reduce_one(kind_of(call->op), &space, call->in[0], span.offset[0] + i * bw_loop_step(&space.kept, 0),
                       call->out[0], span.offset[1] + i * bw_loop_step(&space.kept, 1));
}

#define BW_REDUCTION(NAME, name, KIND, kind, dtypes)                                                                   \
    bw_status bw_op_##name##_check(const bw_op_call *call, bw_err *err)                                                \
    {                                                                                                                  \
        return check(call, err);                                                                                       \
    }                                                                                                                  \
    void bw_op_##name##_cost(const bw_op_call *call, bw_op_cost *result)                                               \
    {                                                                                                                  \
        cost(call, result);                                                                                            \
    }                                                                                                                  \
    void bw_op_##name##_ref(const bw_op_call *call)                                                                    \
    {                                                                                                                  \
        ref(call);                                                                                                     \
    }
#include "reduce/reduce_list.def"
#undef BW_REDUCTION
