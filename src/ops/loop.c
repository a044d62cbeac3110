/* Index spaces of elementwise calls. */
#include "bw_op_check.h"

#include <assert.h>

static_assert((int)BW_LOOP_MAX_DIMS == (int)BW_MAX_DIMS, "a loop has room for every tensor");

/* Merge dimension d of the caller's into the loop's last one where every tensor steps through both evenly. */
static bool merges(const bw_loop *loop, int last, int64_t dim, const int64_t *strides)
{
    for (int k = 0; k < loop->n_tensors; k++)
        if (loop->strides[k][last] != dim * strides[k])
            return false;
    return true;
}

void bw_loop_init(bw_loop *loop, int n_dims, const int64_t *dims, int n_tensors, const bw_tensor *const *tensors)
{
    *loop = (bw_loop){.n = 1, .n_tensors = n_tensors};
    if (bw_shape_elements(dims, n_dims) == 0) { /* beside a 0 the other dimensions' product need not be possible */
        *loop = (bw_loop){.n = 0, .n_tensors = n_tensors, .n_dims = 1};
        return;
    }
    for (int d = 0; d < n_dims; d++) {
        int64_t strides[BW_LOOP_MAX_TENSORS] = {0};
        loop->n *= dims[d];
        if (dims[d] == 1)
            continue;
        for (int k = 0; k < n_tensors; k++) {
            int own = d - (n_dims - tensors[k]->n_dims);
            strides[k] = own < 0 || tensors[k]->dims[own] == 1 ? 0 : tensors[k]->strides[own];
        }
        int last = loop->n_dims - 1;
        if (last >= 0 && merges(loop, last, dims[d], strides)) {
            loop->dims[last] *= dims[d];
        } else {
            last = loop->n_dims++;
            loop->dims[last] = dims[d];
        }
        for (int k = 0; k < n_tensors; k++)
            loop->strides[k][last] = strides[k];
    }
    if (loop->n_dims == 0) {
        loop->n_dims = 1;
        loop->dims[0] = 1;
        for (int k = 0; k < n_tensors; k++)
            loop->strides[k][0] = 1;
    }
}

void bw_loop_begin(bw_loop_cursor *cursor, const bw_loop *loop, int64_t begin, int64_t end)
{
    *cursor = (bw_loop_cursor){.loop = loop, .left = end > begin ? end - begin : 0};
    if (cursor->left == 0)
        return;
    for (int d = loop->n_dims - 1; d >= 0; d--) {
        cursor->index[d] = begin % loop->dims[d];
        begin /= loop->dims[d];
    }
}

bool bw_loop_next(bw_loop_cursor *cursor, bw_span *span)
{
    const bw_loop *loop = cursor->loop;
    if (cursor->left == 0)
        return false;
    int last = loop->n_dims - 1;
    for (int k = 0; k < loop->n_tensors; k++) {
        span->offset[k] = 0;
        for (int d = 0; d <= last; d++)
            span->offset[k] += cursor->index[d] * loop->strides[k][d];
    }
    int64_t rest = loop->dims[last] - cursor->index[last];
    span->n = rest < cursor->left ? rest : cursor->left;
    cursor->left -= span->n;
    cursor->index[last] += span->n;
    for (int d = last; d > 0 && cursor->index[d] == loop->dims[d]; d--) {
        cursor->index[d] = 0;
        cursor->index[d - 1]++;
    }
    return true;
}
