/* IS, GATHER, IA, SA, S: see bw_indexing.h. */
#include "bw_op_check.h"

#define BW_MASK_INDEX (BW_MASK_IDS | BW_MASK(BW_I16) | BW_MASK(BW_I32))

/* What the five have in common: types, params, numbers of dimensions. */
static bw_status check_all(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 2, 1, true, err));
    const bw_tensor *x = call->in[0], *ids = call->in[1], *y = call->out[0];
    BW_TRY(bw_op_check_plain(call, x, "in0", BW_MASK_ALL, err));
    BW_TRY(bw_op_check_plain(call, ids, "in1", BW_MASK_INDEX, err));
    BW_TRY(bw_op_check_plain(call, y, "out0", BW_MASK(x->dtype), err));
    int32_t dim = ((const bw_indexing_params *)call->params)->dim;
    if (x->n_dims < 1 || y->n_dims != x->n_dims)
        return bw_op_fail(call, err, "in0 and out0 need as many dimensions, at least one");
    if (dim < 0 || dim >= x->n_dims)
        return bw_op_fail(call, err, "there is no dimension %d", (int)dim);
    for (int i = 0; i < y->n_dims && bw_tensor_elements(y) > 0; i++)
        if (y->dims[i] > 1 && y->strides[i] == 0)
            return bw_op_fail(call, err, "out0 is broadcast along dimension %d", i);
    return BW_OK;
}

/* IS and IA: ids [J]; `wide` has J where `other` has its own size, else their shapes are equal. */
static bw_status check_row(const bw_op_call *call, const bw_tensor *wide, const bw_tensor *other, bw_err *err)
{
    const bw_tensor *ids = call->in[1];
    int32_t dim = ((const bw_indexing_params *)call->params)->dim;
    if (ids->n_dims != 1 || ids->dims[0] != wide->dims[dim])
        return bw_op_fail(call, err, "in1 must be [%lld]", (long long)wide->dims[dim]);
    for (int i = 0; i < wide->n_dims; i++)
        if (i != dim && wide->dims[i] != other->dims[i])
            return bw_op_fail(call, err, "in0 and out0 differ in dimension %d", i);
    return BW_OK;
}

bw_status bw_op_is_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_all(call, err));
    return check_row(call, call->out[0], call->in[0], err);
}

bw_status bw_op_ia_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_all(call, err));
    return check_row(call, call->in[0], call->out[0], err);
}

/* No dimension of t but `free` (-1: none) is smaller than the ids'. */
static bool holds_ids(const bw_tensor *t, const bw_tensor *ids, int free)
{
    if (t->n_dims != ids->n_dims)
        return false;
    for (int i = 0; i < t->n_dims; i++)
        if (i != free && ids->dims[i] > t->dims[i])
            return false;
    return true;
}

bw_status bw_op_gather_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_all(call, err));
    if (!holds_ids(call->in[0], call->in[1], ((const bw_indexing_params *)call->params)->dim))
        return bw_op_fail(call, err, "in1 must have in0's dimensions or fewer in each, but for the one gathered along");
    if (!bw_op_same_shape(call->in[1], call->out[0]))
        return bw_op_fail(call, err, "in1 and out0 must have one shape");
    return BW_OK;
}

bw_status bw_op_sa_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_all(call, err));
    if (!holds_ids(call->in[0], call->in[1], -1))
        return bw_op_fail(call, err, "in1 must have in0's dimensions or fewer in each");
    if (!holds_ids(call->out[0], call->in[1], ((const bw_indexing_params *)call->params)->dim))
        return bw_op_fail(call, err, "out0 is smaller than in1 in a dimension other than the one scattered along");
    return BW_OK;
}

bw_status bw_op_s_check(const bw_op_call *call, bw_err *err)
{
    return bw_op_sa_check(call, err);
}

/* Elements moved: as many as out0 has (IS, GATHER), or in0 (IA), or in1 (SA, S). */
static void cost_of(const bw_op_call *call, int64_t n, bool adds, bw_op_cost *cost)
{
    double size = (double)bw_dtype_block_bytes(call->in[0]->dtype), moved = (double)n;
    double ids = (double)bw_tensor_elements(call->in[1]) * (double)bw_dtype_block_bytes(call->in[1]->dtype);
    *cost = (bw_op_cost){.flops = adds ? moved : 0, .bytes = moved * size * (adds ? 3 : 2) + ids};
}

void bw_op_is_cost(const bw_op_call *call, bw_op_cost *cost)
{
    cost_of(call, bw_tensor_elements(call->out[0]), false, cost);
}
void bw_op_gather_cost(const bw_op_call *call, bw_op_cost *cost)
{
    cost_of(call, bw_tensor_elements(call->out[0]), false, cost);
}
void bw_op_ia_cost(const bw_op_call *call, bw_op_cost *cost)
{
    cost_of(call, bw_tensor_elements(call->in[0]), true, cost);
}
void bw_op_sa_cost(const bw_op_call *call, bw_op_cost *cost)
{
    cost_of(call, bw_tensor_elements(call->in[1]), true, cost);
}
void bw_op_s_cost(const bw_op_call *call, bw_op_cost *cost)
{
    cost_of(call, bw_tensor_elements(call->in[1]), false, cost);
}

static int64_t largest(bw_dtype dtype)
{
    return dtype == BW_U8    ? UINT8_MAX
           : dtype == BW_U32 ? UINT32_MAX
           : dtype == BW_I16 ? INT16_MAX
           : dtype == BW_I32 ? INT32_MAX
                             : INT64_MAX;
}

static int64_t offset_of(const bw_tensor *t, const int64_t *index, int dim, int64_t at_dim)
{
    int64_t offset = 0;
    for (int i = 0; i < t->n_dims; i++)
        offset += (i == dim ? at_dim : index[i]) * t->strides[i];
    return offset;
}

/* One element each of x and y. */
static void move(const bw_op_call *call, int64_t from, int64_t to)
{
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    size_t size = (size_t)bw_dtype_block_bytes(x->dtype);
    if (call->op != BW_OP_IA && call->op != BW_OP_SA)
        memcpy((char *)y->data + (size_t)to * size, (const char *)x->data + (size_t)from * size, size);
    else if (bw_dtype_is_integer(x->dtype))
        bw_element_set_i64(y->dtype, y->data, to,
                           (int64_t)((uint64_t)bw_element_i64(y->dtype, y->data, to) +
                                     (uint64_t)bw_element_i64(x->dtype, x->data, from)));
    else
        bw_element_set_f64(y->dtype, y->data, to,
                           bw_element_f64(y->dtype, y->data, to) + bw_element_f64(x->dtype, x->data, from));
}

/* All places of the ids (each of IS' and IA's stands for a whole slice), outermost first, so that j rises. */
static void walk(const bw_op_call *call, const int64_t *dims)
{
    const bw_tensor *x = call->in[0], *ids = call->in[1];
    bw_tensor *y = call->out[0];
    int dim = ((const bw_indexing_params *)call->params)->dim, n_dims = x->n_dims;
    bool is_row = call->op == BW_OP_IS || call->op == BW_OP_IA,
         picks = call->op == BW_OP_IS || call->op == BW_OP_GATHER;
    size_t size = (size_t)bw_dtype_block_bytes(x->dtype);
    int64_t index[BW_MAX_DIMS] = {0}, n = bw_shape_elements(dims, n_dims);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = is_row ? index[dim] * ids->strides[0] : offset_of(ids, index, dim, index[dim]);
        int64_t id = bw_element_i64(ids->dtype, ids->data, at), limit = (picks ? x : y)->dims[dim];
        bool is_valid = id >= 0 && id < limit && id != largest(ids->dtype);
        if (is_valid)
            move(call, offset_of(x, index, dim, picks ? id : index[dim]),
                 offset_of(y, index, dim, picks ? index[dim] : id));
        else if (picks)
            memset((char *)y->data + (size_t)offset_of(y, index, dim, index[dim]) * size, 0, size);
        for (int d = n_dims - 1; d >= 0 && ++index[d] == dims[d]; d--)
            index[d] = 0;
    }
}

void bw_op_is_ref(const bw_op_call *call)
{
    walk(call, call->out[0]->dims);
}
void bw_op_gather_ref(const bw_op_call *call)
{
    walk(call, call->out[0]->dims);
}
void bw_op_ia_ref(const bw_op_call *call)
{
    walk(call, call->in[0]->dims);
}
void bw_op_sa_ref(const bw_op_call *call)
{
    walk(call, call->in[1]->dims);
}
void bw_op_s_ref(const bw_op_call *call)
{
    walk(call, call->in[1]->dims);
}
