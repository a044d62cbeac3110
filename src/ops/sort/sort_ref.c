/* ASORT_ASC, ASORT_DESC and TOPK. The references keep a heap of indices in the output itself. */
#include <math.h>

#include "bw_op_check.h"

static bw_status check_asort(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 1, false, err));
    const bw_tensor *x = call->in[0];
    BW_TRY(bw_op_check_plain(call, x, "in0", BW_MASK_STD7, err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", BW_MASK(BW_U32), err));
    if (x->n_dims == 0 || !bw_op_same_shape(x, call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must have one shape and a last dimension");
    if (x->dims[x->n_dims - 1] > UINT32_MAX)
        return bw_op_fail(call, err, "a row of %lld has no indices in u32", (long long)x->dims[x->n_dims - 1]);
    return BW_OK;
}

bw_status bw_op_asort_asc_check(const bw_op_call *call, bw_err *err)
{
    return check_asort(call, err);
}

bw_status bw_op_asort_desc_check(const bw_op_call *call, bw_err *err)
{
    return check_asort(call, err);
}

bw_status bw_op_topk_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 2, true, err));
    const bw_tensor *x = call->in[0], *values = call->out[0];
    BW_TRY(bw_op_check_plain(call, x, "in0", BW_MASK_STD7, err));
    BW_TRY(bw_op_check_plain(call, values, "out0", BW_MASK(x->dtype), err));
    BW_TRY(bw_op_check_plain(call, call->out[1], "out1", BW_MASK(BW_U32), err));
    int32_t is_smallest = ((const bw_topk_params *)call->params)->is_smallest;
    bool fits = x->n_dims > 0 && x->n_dims == values->n_dims && bw_op_same_shape(values, call->out[1]);
    for (int d = 0; fits && d < x->n_dims; d++)
        fits = d == x->n_dims - 1 ? values->dims[d] <= x->dims[d] : values->dims[d] == x->dims[d];
    if (!fits)
        return bw_op_fail(call, err, "out0 and out1 must be in0 with no more in the last dimension");
    if (x->dims[x->n_dims - 1] > UINT32_MAX)
        return bw_op_fail(call, err, "a row of %lld has no indices in u32", (long long)x->dims[x->n_dims - 1]);
    if (is_smallest != 0 && is_smallest != 1)
        return bw_op_fail(call, err, "is_smallest is 0 or 1, not %d", (int)is_smallest);
    return BW_OK;
}

static void cost(const bw_op_call *call, bw_op_cost *result)
{
    const bw_tensor *x = call->in[0];
    double n = (double)bw_tensor_elements(x), columns = (double)x->dims[x->n_dims - 1];
    result->flops = n * (columns > 2 ? log2(columns) : 1);
    result->bytes = n * (double)bw_dtype_block_bytes(x->dtype);
    for (int i = 0; i < call->n_out; i++)
        result->bytes += (double)bw_tensor_elements(call->out[i]) * (double)bw_dtype_block_bytes(call->out[i]->dtype);
}

void bw_op_asort_asc_cost(const bw_op_call *call, bw_op_cost *result)
{
    cost(call, result);
}

void bw_op_asort_desc_cost(const bw_op_call *call, bw_op_cost *result)
{
    cost(call, result);
}

void bw_op_topk_cost(const bw_op_call *call, bw_op_cost *result)
{
    cost(call, result);
}

/* A heap of indices into a row: the last in order at its top. */
typedef struct heap {
    const bw_tensor *x;
    int64_t from, step; /* the row */
    uint32_t *index;
    int64_t index_step;
    bool descending;
} heap;

/* -1, 0, 1: a before b, the same, after. */
static int compare_values(const heap *h, int64_t a, int64_t b)
{
    int64_t i = h->from + a * h->step, k = h->from + b * h->step;
    int direction = h->descending ? -1 : 1;
    if (bw_dtype_is_integer(h->x->dtype)) {
        int64_t u = bw_element_i64(h->x->dtype, h->x->data, i), v = bw_element_i64(h->x->dtype, h->x->data, k);
        return u < v ? -direction : u > v ? direction : 0;
    }
    double u = bw_element_f64(h->x->dtype, h->x->data, i), v = bw_element_f64(h->x->dtype, h->x->data, k);
    if (isnan(u) || isnan(v))
        return isnan(u) && isnan(v) ? 0 : isnan(u) ? 1 : -1;
    return u < v ? -direction : u > v ? direction : 0;
}

static bool is_before(const heap *h, uint32_t a, uint32_t b)
{
    int order = compare_values(h, a, b);
    return order ? order < 0 : a < b;
}

static uint32_t *place(const heap *h, int64_t i)
{
    return h->index + i * h->index_step;
}

static void sift_down(const heap *h, int64_t i, int64_t n)
{
    uint32_t moving = *place(h, i);
    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && is_before(h, *place(h, child), *place(h, child + 1)))
            child++;
        if (!is_before(h, moving, *place(h, child)))
            break;
        *place(h, i) = *place(h, child);
        i = child;
    }
    *place(h, i) = moving;
}

/* The first k of the row's n elements in order. */
static void select_sorted(const heap *h, int64_t k, int64_t n)
{
    for (int64_t i = 0; i < k; i++)
        *place(h, i) = (uint32_t)i;
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sift_down(h, i, k);
    for (int64_t i = k; k > 0 && i < n; i++)
        if (is_before(h, (uint32_t)i, *place(h, 0))) {
            *place(h, 0) = (uint32_t)i;
            sift_down(h, 0, k);
        }
    for (int64_t left = k - 1; left > 0; left--) {
        uint32_t last = *place(h, 0);
        *place(h, 0) = *place(h, left);
        *place(h, left) = last;
        sift_down(h, 0, left);
    }
}

static void ref(const bw_op_call *call, const bw_tensor *index, bool descending)
{
    const bw_tensor *x = call->in[0];
    int last = x->n_dims - 1;
    bw_rows x_rows, y_rows;
    bw_rows_init(&x_rows, x);
    bw_rows_init(&y_rows, index);
    for (int64_t r = 0; r < x_rows.n_rows; r++) {
        heap h = {x,
                  bw_rows_offset(&x_rows, r),
                  x->strides[last],
                  (uint32_t *)index->data + bw_rows_offset(&y_rows, r),
                  index->strides[last],
                  descending};
        select_sorted(&h, index->dims[last], x->dims[last]);
    }
}

void bw_op_asort_asc_ref(const bw_op_call *call)
{
    ref(call, call->out[0], false);
}

void bw_op_asort_desc_ref(const bw_op_call *call)
{
    ref(call, call->out[0], true);
}

void bw_op_topk_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0], *values = call->out[0], *index = call->out[1];
    ref(call, index, !((const bw_topk_params *)call->params)->is_smallest);
    bw_rows x_rows, y_rows, i_rows;
    bw_rows_init(&x_rows, x);
    bw_rows_init(&y_rows, values);
    bw_rows_init(&i_rows, index);
    int last = x->n_dims - 1;
    size_t size = (size_t)bw_dtype_block_bytes(x->dtype);
    for (int64_t r = 0; r < x_rows.n_rows; r++)
        for (int64_t k = 0; k < values->dims[last]; k++) {
            int64_t i = ((const uint32_t *)index->data)[bw_rows_offset(&i_rows, r) + k * index->strides[last]];
            int64_t from = bw_rows_offset(&x_rows, r) + i * x->strides[last];
            int64_t to = bw_rows_offset(&y_rows, r) + k * values->strides[last];
            memcpy((char *)values->data + (size_t)to * size, (const char *)x->data + (size_t)from * size, size);
        }
}
