/* What IS, GATHER, IA, SA and S are tried with. */
#include "bw_cases.h"

#include "bw_element.h"

static const bw_dtype types[] = {BW_BF16, BW_F16, BW_F32, BW_F64, BW_U8, BW_U32, BW_I16, BW_I32, BW_F8_E4M3, BW_I64};
static const bw_dtype id_types[] = {BW_U8, BW_U32, BW_I64, BW_I16, BW_I32};
enum { N_TYPES = sizeof types / sizeof *types, N_ID_TYPES = sizeof id_types / sizeof *id_types };

static bool is_row(bw_op op)
{
    return op == BW_OP_IS || op == BW_OP_IA;
}

static bool picks(bw_op op)
{
    return op == BW_OP_IS || op == BW_OP_GATHER;
}

/* Ids around the valid ones, now and then the type's largest, one too large, and (signed ones) a negative one. */
static void fill_ids(bw_case_sink *sink, bw_tensor *ids, int64_t n_stored, int64_t limit)
{
    int64_t most = ids->dtype == BW_U8 ? 255 : ids->dtype == BW_I16 ? 32767 : ids->dtype == BW_I64 ? INT64_MAX : -1;
    for (int64_t i = 0; i < n_stored; i++) {
        int64_t kind = bw_cases_between(sink, 0, 11), id = limit > 0 ? bw_cases_between(sink, 0, limit - 1) : 0;
        if (kind == 0) /* of u32 -1 is the largest, of i32 the largest is written out */
            id = ids->dtype == BW_I32 ? INT32_MAX : most;
        else if (kind == 1)
            id = limit;
        else if (kind == 2)
            id = INT64_MIN + 3;
        bw_element_set_i64(ids->dtype, ids->data, i, id);
    }
}

/* Elements a tensor's storage has. */
static int64_t n_stored(const bw_tensor *t)
{
    int64_t last = 1;
    for (int i = 0; i < t->n_dims; i++) {
        if (t->dims[i] == 0)
            return 0;
        last += (t->dims[i] - 1) * t->strides[i];
    }
    return last;
}

typedef struct plan {
    bw_op op;
    bw_dtype dtype, id_dtype;
    int n_dims, dim;
    int64_t dims[BW_MAX_DIMS]; /* of the indexed side */
    int64_t n_ids;             /* J */
    bw_case_layout layout, ids_layout;
    bool smaller; /* ids and x are smaller than they could be, where that is allowed */
} plan;

static void one(bw_case_sink *sink, const plan *p)
{
    bw_case *c =
        bw_case_begin(sink, p->op, "%s ids of %s, %d dims of %lld.., dim %d, %lld ids, layouts %d %d%s",
                      bw_dtype_name(p->id_dtype), bw_dtype_name(p->dtype), p->n_dims, (long long)p->dims[0], p->dim,
                      (long long)p->n_ids, (int)p->layout, (int)p->ids_layout, p->smaller ? ", smaller" : "");
    int64_t walked[BW_MAX_DIMS];
    for (int i = 0; i < p->n_dims; i++)
        walked[i] = i == p->dim ? p->n_ids : p->dims[i] - (p->smaller && !is_row(p->op) && p->dims[i] > 1);
    int64_t x_dims[BW_MAX_DIMS];
    for (int i = 0; i < p->n_dims; i++)
        x_dims[i] = picks(p->op) ? p->dims[i] : walked[i] + (p->smaller && !is_row(p->op));
    bw_tensor *x = bw_case_in_layout(c, p->dtype, p->n_dims, x_dims, p->layout);
    bw_case_fill_normal(c, x, 2);
    if (picks(p->op))
        bw_case_fill_special(c, x, 5);
    bw_tensor *ids = is_row(p->op) ? bw_case_in_layout(c, p->id_dtype, 1, &p->n_ids, p->ids_layout)
                                   : bw_case_in_layout(c, p->id_dtype, p->n_dims, walked, p->ids_layout);
    fill_ids(sink, ids, n_stored(ids), p->dims[p->dim]);
    if (picks(p->op))
        bw_case_out(c, p->dtype, p->n_dims, walked);
    else
        bw_case_fill_normal(c, bw_case_out_kept(c, p->dtype, p->n_dims, p->dims), 2);
    bw_case_params(c, &(bw_indexing_params){p->dim}, sizeof(bw_indexing_params));
    bw_case_exact(c);
    bw_case_run(c);
}

/* An output with gaps between its elements. */
static void into_gaps(bw_case_sink *sink, bw_op op)
{
    bw_case *c = bw_case_begin(sink, op, "into gaps");
    bw_case_fill_normal(c, bw_case_in(c, BW_F32, 2, (int64_t[]){9, 30}), 1);
    bw_tensor *ids =
        op == BW_OP_IS ? bw_case_in(c, BW_U32, 1, (int64_t[]){30}) : bw_case_in(c, BW_U32, 2, (int64_t[]){9, 30});
    fill_ids(sink, ids, n_stored(ids), 30);
    bw_case_out_strided(c, BW_F32, 2, (int64_t[]){9, 30}, (int64_t[]){2, 20});
    bw_case_params(c, &(bw_indexing_params){1}, sizeof(bw_indexing_params));
    bw_case_exact(c);
    bw_case_run(c);
}

static void refuse(bw_case_sink *sink, bw_op op, const char *name, bw_dtype x, bw_dtype ids, bw_dtype y, int64_t n_ids,
                   int64_t rest, int32_t dim)
{
    bw_case *c = bw_case_begin(sink, op, "%s", name);
    bw_case_in(c, x, 2, (int64_t[]){4, 5});
    if (is_row(op))
        bw_case_in(c, ids, 1, &n_ids);
    else
        bw_case_in(c, ids, 2, (int64_t[]){4, n_ids});
    bw_case_out(c, y, 2, (int64_t[]){rest, 5});
    if (dim >= -1)
        bw_case_params(c, &(bw_indexing_params){dim}, sizeof(bw_indexing_params));
    bw_case_refuse(c);
}

static void refusals(bw_case_sink *sink, bw_op op)
{
    refuse(sink, op, "no params", BW_F32, BW_U32, BW_F32, 5, 4, -9);
    refuse(sink, op, "dimension 2 of 2", BW_F32, BW_U32, BW_F32, 5, 4, 2);
    refuse(sink, op, "dimension -1", BW_F32, BW_U32, BW_F32, 5, 4, -1);
    refuse(sink, op, "f32 ids", BW_F32, BW_F32, BW_F32, 5, 4, 1);
    refuse(sink, op, "another output type", BW_F32, BW_U32, BW_F16, 5, 4, 1);
    refuse(sink, op, "another output shape", BW_F32, BW_U32, BW_F32, 5, 3, 1);
    refuse(sink, op, "another number of ids", BW_F32, BW_U32, BW_F32, 6, 4, 1);
    bw_case *c = bw_case_begin(sink, op, "a broadcast output");
    bw_case_in(c, BW_F32, 1, (int64_t[]){5});
    bw_case_in(c, BW_U8, 1, (int64_t[]){5});
    bw_case_out_strided(c, BW_F32, 1, (int64_t[]){5}, (int64_t[]){0});
    bw_case_params(c, &(bw_indexing_params){0}, sizeof(bw_indexing_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, op, "no dimensions");
    bw_case_in(c, BW_F32, 0, NULL);
    bw_case_in(c, BW_U8, 0, NULL);
    bw_case_out(c, BW_F32, 0, NULL);
    bw_case_params(c, &(bw_indexing_params){0}, sizeof(bw_indexing_params));
    bw_case_refuse(c);
}

static plan random_plan(bw_case_sink *sink, bw_op op)
{
    plan p = {.op = op, .n_dims = (int)bw_cases_between(sink, 1, 4)};
    p.dtype = types[bw_cases_between(sink, 0, N_TYPES - 1)];
    p.id_dtype = id_types[bw_cases_between(sink, 0, N_ID_TYPES - 1)];
    p.dim = (int)bw_cases_between(sink, 0, p.n_dims - 1);
    for (int i = 0; i < p.n_dims; i++)
        p.dims[i] = bw_cases_between(sink, 1, p.n_dims == 1 ? 5000 : 24);
    p.n_ids = bw_cases_between(sink, 1, p.n_dims == 1 ? 5000 : 24);
    p.layout = (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1);
    p.ids_layout = (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1);
    p.smaller = bw_cases_between(sink, 0, 1);
    return p;
}

static void cases(bw_case_sink *sink, bw_op op)
{
    static const struct {
        int n_dims;
        int64_t dims[BW_MAX_DIMS], n_ids;
    } shapes[] = {
        {1, {1}, 1},    {1, {9}, 31},       {2, {17, 67}, 40},    {3, {5, 300, 7}, 37},       {2, {3, 4}, 0},
        {2, {0, 4}, 3}, {2, {7, 1031}, 13}, {4, {2, 3, 5, 4}, 6}, {6, {2, 1, 3, 2, 1, 5}, 4}, {2, {40, 130}, 300}};
    for (int t = 0; t < N_TYPES; t++)
        for (int i = 0; i < N_ID_TYPES; i++)
            for (int k = 0; k < (int)(sizeof shapes / sizeof *shapes); k++) {
                plan p = {.op = op, .dtype = types[t], .id_dtype = id_types[i], .n_dims = shapes[k].n_dims};
                memcpy(p.dims, shapes[k].dims, sizeof p.dims);
                p.dim = (t + i + k) % p.n_dims;
                p.n_ids = shapes[k].n_ids;
                p.layout = (bw_case_layout)((t + 3 * k) % BW_CASE_N_LAYOUTS);
                p.ids_layout = (bw_case_layout)((i + k) % BW_CASE_N_LAYOUTS);
                p.smaller = k % 3 == 2;
                one(sink, &p);
            }
    for (int k = 0; k < bw_cases_n_random(sink) * 8; k++) {
        plan p = random_plan(sink, op);
        one(sink, &p);
    }
    if (picks(op))
        into_gaps(sink, op);
    refusals(sink, op);
}

void bw_op_is_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_IS);
}
void bw_op_gather_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_GATHER);
}
void bw_op_ia_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_IA);
}
void bw_op_sa_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_SA);
}
void bw_op_s_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_S);
}
