/* The walk over a call of the indexing family. */
#include "indexing_walk.h"

typedef struct walk {
    const bw_op_call *call;
    bw_indexing_fn *fn;
    bw_indexing_slice_fn *slice;
    bw_loop lanes;                          /* of x, y, ids, in this order */
    bool picks;                             /* x is indexed, else y */
    int64_t x_stride, y_stride, ids_stride; /* along the indexed dimension */
    int64_t limit;                          /* the indexed side's size there */
    int64_t size;                           /* bytes of a value */
} walk;

/* n ids from element `at` on, -1 where there is none. */
static void load_ids(const walk *w, int64_t at, int64_t step, int64_t n, int64_t *out)
{
    const bw_tensor *ids = w->call->in[1];
    /* Negative ids become too large ones; the type's largest value is one of those. */
#define LOAD(type, most)                                                                                               \
    do {                                                                                                               \
        const type *src = (const type *)ids->data + at;                                                                \
        const uint64_t limit = (uint64_t)w->limit < (uint64_t)(most) ? (uint64_t)w->limit : (uint64_t)(most);          \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            int64_t id = (int64_t)src[i * step];                                                                       \
            out[i] = (uint64_t)id < limit ? id : -1;                                                                   \
        }                                                                                                              \
    } while (0)
    switch (ids->dtype) {
    case BW_U8:
        LOAD(uint8_t, UINT8_MAX);
        break;
    case BW_U32:
        LOAD(uint32_t, UINT32_MAX);
        break;
    case BW_I16:
        LOAD(int16_t, INT16_MAX);
        break;
    case BW_I32:
        LOAD(int32_t, INT32_MAX);
        break;
    default:
        LOAD(int64_t, INT64_MAX);
    }
#undef LOAD
}

static bw_indexing_block block_at(const walk *w, int64_t x_at, int64_t y_at)
{
    return (bw_indexing_block){.x = (const char *)w->call->in[0]->data + x_at * w->size,
                               .y = (char *)w->call->out[0]->data + y_at * w->size,
                               .id_step = w->picks ? w->x_stride : w->y_stride};
}

/* Lanes that lie side by side and share their ids: for each j all of them. */
static void across_shared(const walk *w, const bw_span *span, int64_t j0, int64_t j1)
{
    for (int64_t j = j0; j < j1; j++) {
        int64_t id;
        bw_indexing_block b = block_at(w, span->offset[0] + (w->picks ? 0 : j * w->x_stride),
                                       span->offset[1] + (w->picks ? j * w->y_stride : 0));
        b.x_step = bw_loop_step(&w->lanes, 0);
        b.y_step = bw_loop_step(&w->lanes, 1);
        b.n = span->n;
        load_ids(w, span->offset[2] + j * w->ids_stride, 0, 1, &id);
        w->slice(w->call->in[0]->dtype, &b, id);
    }
}

/* Lanes that lie side by side, each with its own ids: for some of them every j, so that what they reach stays cached.
 */
static void across(const walk *w, const bw_span *span, int64_t j0, int64_t j1)
{
    enum { LANES = 32 };
    int64_t x_step = bw_loop_step(&w->lanes, 0), y_step = bw_loop_step(&w->lanes, 1),
            ids_step = bw_loop_step(&w->lanes, 2), ids[LANES];
    for (int64_t i = 0; i < span->n; i += LANES)
        for (int64_t j = j0; j < j1; j++) {
            bw_indexing_block b = block_at(w, span->offset[0] + i * x_step + (w->picks ? 0 : j * w->x_stride),
                                           span->offset[1] + i * y_step + (w->picks ? j * w->y_stride : 0));
            b.x_step = x_step;
            b.y_step = y_step;
            b.ids = ids;
            b.n = span->n - i < LANES ? span->n - i : LANES;
            load_ids(w, span->offset[2] + i * ids_step + j * w->ids_stride, ids_step, b.n, ids);
            w->fn(w->call->in[0]->dtype, &b);
        }
}

/* Lanes that lie apart, a few at a time: ids that they share are read once for these. */
static void along(const walk *w, const bw_span *span, int64_t j0, int64_t j1)
{
    enum { LANES = 16 };
    int64_t ids[BW_INDEXING_BLOCK], ids_step = bw_loop_step(&w->lanes, 2);
    for (int64_t first = 0; first < span->n; first += LANES)
        for (int64_t j = j0; j < j1; j += BW_INDEXING_BLOCK)
            for (int64_t lane = first; lane < span->n && lane < first + LANES; lane++) {
                int64_t x_at = span->offset[0] + lane * bw_loop_step(&w->lanes, 0) + (w->picks ? 0 : j * w->x_stride),
                        y_at = span->offset[1] + lane * bw_loop_step(&w->lanes, 1) + (w->picks ? j * w->y_stride : 0);
                bw_indexing_block b = block_at(w, x_at, y_at);
                b.x_step = w->picks ? 0 : w->x_stride;
                b.y_step = w->picks ? w->y_stride : 0;
                b.ids = ids;
                b.n = j1 - j < BW_INDEXING_BLOCK ? j1 - j : BW_INDEXING_BLOCK;
                if (lane == first || ids_step != 0)
                    load_ids(w, span->offset[2] + lane * ids_step + j * w->ids_stride, w->ids_stride, b.n, ids);
                w->fn(w->call->in[0]->dtype, &b);
            }
}

/* The lanes: a call's dimensions without the indexed one. `like` has the dimensions gone through. */
static int64_t init(walk *w, const bw_op_call *call)
{
    const bw_tensor *x = call->in[0], *ids = call->in[1], *y = call->out[0];
    int dim = ((const bw_indexing_params *)call->params)->dim;
    bool is_row = call->op == BW_OP_IS || call->op == BW_OP_IA;
    w->call = call;
    w->picks = call->op == BW_OP_IS || call->op == BW_OP_GATHER;
    const bw_tensor *like = w->picks ? y : is_row ? x : ids;
    bw_tensor views[3] = {*x, *y, is_row ? *x : *ids};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < like->n_dims; i++) {
            views[k].dims[i] = i == dim ? 1 : like->dims[i];
            if (k == 2 && is_row)
                views[k].strides[i] = 0;
        }
    bw_loop_init(&w->lanes, like->n_dims, views[0].dims, 3, (const bw_tensor *[]){&views[0], &views[1], &views[2]});
    w->x_stride = x->strides[dim];
    w->y_stride = y->strides[dim];
    w->ids_stride = is_row ? ids->strides[0] : ids->strides[dim];
    w->limit = w->picks ? x->dims[dim] : y->dims[dim];
    w->size = bw_dtype_block_bytes(x->dtype);
    return like->dims[dim];
}

void bw_indexing_walk(const bw_op_call *call, bw_member *member, bw_indexing_fn *fn, bw_indexing_slice_fn *slice)
{
    walk w = {.fn = fn, .slice = slice};
    int64_t n_ids = init(&w, call), begin = 0, end = w.lanes.n, j0 = 0, j1 = n_ids;
    /* What is picked may be shared along the ids; what is put must be put in their order. */
    bool is_shared = w.picks && n_ids > w.lanes.n ? bw_op_my_share(member, n_ids, w.lanes.n, 4096, &j0, &j1)
                                                  : bw_op_my_share(member, w.lanes.n, n_ids, 4096, &begin, &end);
    if (!is_shared)
        return;
    bool is_across = bw_loop_step(&w.lanes, 0) <= w.x_stride && bw_loop_step(&w.lanes, 1) <= w.y_stride;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &w.lanes, begin, end);
    while (bw_loop_next(&cursor, &span))
        if (is_across && span.n > 1 && bw_loop_step(&w.lanes, 2) == 0)
            across_shared(&w, &span, j0, j1);
        else if (is_across && span.n > 1)
            across(&w, &span, j0, j1);
        else
            along(&w, &span, j0, j1);
}
