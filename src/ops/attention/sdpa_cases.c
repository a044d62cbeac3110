/* What SDPA is tried with. */
#include <math.h>

#include "bw_cases.h"
#include "bw_element.h"

static const bw_dtype types[] = {BW_F32, BW_BF16, BW_F16, BW_F64};
enum { N_TYPES = sizeof types / sizeof *types };

typedef struct shape {
    int64_t b, h, h_kv, t, s, d, d_v;
    bool causal;
    float softcap;
    int mask; /* 0 none, 1 [T, S], 2 [B, 1, T, S], 3 [1, H, 1, S], 4 [S] with minus infinity in every other place */
} shape;

static void add_mask(bw_case *c, const shape *v)
{
    const int64_t dims[5][4] = {{0}, {v->t, v->s}, {v->b, 1, v->t, v->s}, {1, v->h, 1, v->s}, {v->s}};
    static const int n_dims[5] = {0, 2, 4, 4, 1};
    if (v->mask == 0) {
        bw_case_in_absent(c);
        return;
    }
    bw_tensor *mask = bw_case_in(c, BW_F32, n_dims[v->mask], dims[v->mask]);
    bw_case_fill_normal(c, mask, 1);
    for (int64_t i = 0; v->mask == 4 && i < v->s; i += 2)
        ((float *)mask->data)[i] = -INFINITY;
}

static void one(bw_case_sink *sink, bw_dtype dtype, const shape *v, bw_case_layout layout, bool has_gaps)
{
    bw_case *c = bw_case_begin(
        sink, BW_OP_SDPA, "%s B%lld H%lld/%lld T%lld S%lld D%lld/%lld%s cap %g mask %d layout %d", bw_dtype_name(dtype),
        (long long)v->b, (long long)v->h, (long long)v->h_kv, (long long)v->t, (long long)v->s, (long long)v->d,
        (long long)v->d_v, v->causal ? " causal" : "", (double)v->softcap, v->mask, (int)layout);
    bw_case_fill_normal(c, bw_case_in_layout(c, dtype, 4, (int64_t[]){v->b, v->h, v->t, v->d}, layout), 1);
    bw_case_fill_normal(c, bw_case_in_layout(c, dtype, 4, (int64_t[]){v->b, v->h_kv, v->s, v->d}, layout), 1);
    bw_case_fill_normal(c, bw_case_in_layout(c, dtype, 4, (int64_t[]){v->b, v->h_kv, v->s, v->d_v}, layout), 1);
    add_mask(c, v);
    int64_t row = v->d_v * 2 + 1;
    if (has_gaps)
        bw_case_out_strided(c, dtype, 4, (int64_t[]){v->b, v->h, v->t, v->d_v},
                            (int64_t[]){v->h * v->t * row, v->t * row, row, 2});
    else
        bw_case_out(c, dtype, 4, (int64_t[]){v->b, v->h, v->t, v->d_v});
    bw_sdpa_params p = {(float)(1 / sqrt((double)v->d + 1)), v->softcap, v->causal};
    bw_case_params(c, &p, sizeof p);
    /* A score's error, eps sqrt(D) |score|, becomes the weight's relative error; values are of size 1. */
    bw_case_tolerance(c, v->d, 3, 0);
    bw_case_run(c);
}

/* GPUs' matrix tiles: widths of whole chunks, over a tile of queries and of keys, every width that kernels are for. An
 * odd number of cases for each shape: storage begins at an even place in every second one. */
static void tiles(bw_case_sink *sink)
{
    static const shape shapes[] = {{2, 4, 2, 70, 100, 64, 64, false, 0, 1},  {1, 2, 1, 130, 77, 40, 40, false, 0, 0},
                                   {1, 2, 2, 33, 65, 96, 80, false, 2, 3},   {1, 2, 1, 66, 70, 128, 128, false, 0, 2},
                                   {1, 1, 1, 20, 50, 160, 160, false, 0, 4}, {2, 1, 1, 17, 36, 256, 248, false, 0, 0},
                                   {1, 1, 1, 90, 40, 8, 8, false, 0, 0},     {1, 2, 2, 3, 200, 72, 16, false, 0, 4},
                                   {1, 1, 1, 40, 64, 32, 264, false, 0, 1},  {1, 1, 1, 64, 33, 16, 128, false, 1, 0},
                                   {1, 1, 1, 5, 0, 16, 16, false, 0, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int k = 0; k < 5; k++) {
            shape v = shapes[i];
            v.causal = k % 2;
            v.mask = k == 4 ? 0 : v.mask;
            one(sink, k < 2 ? BW_F16 : BW_BF16, &v, BW_CASE_CONTIGUOUS, false);
        }
}

/* Values near the largest of f32: sums must not leave it on the way to a mean. */
static void large_values(bw_case_sink *sink, bw_dtype dtype)
{
    const double size = 1e35;
    bw_case *c = bw_case_begin(sink, BW_OP_SDPA, "%s, large values", bw_dtype_name(dtype));
    bw_case_fill_normal(c, bw_case_in(c, dtype, 4, (int64_t[]){1, 1, 70, 64}), 1);
    bw_case_fill_normal(c, bw_case_in(c, dtype, 4, (int64_t[]){1, 1, 70, 64}), 1);
    bw_case_fill_normal(c, bw_case_in(c, dtype, 4, (int64_t[]){1, 1, 70, 64}), size);
    bw_case_in_absent(c);
    bw_case_out(c, dtype, 4, (int64_t[]){1, 1, 70, 64});
    bw_case_params(c, &(bw_sdpa_params){0.125f, 0, true}, sizeof(bw_sdpa_params));
    bw_case_tolerance(c, 64, 3 * size, 0);
    bw_case_run(c);
}

/* Values that are not finite where a query does not look: beyond the causal edge, or at a mask of minus infinity. */
static void wild(bw_case_sink *sink, bw_dtype dtype, int64_t n, int64_t d, bool causal)
{
    bw_case *c = bw_case_begin(sink, BW_OP_SDPA, "%s S%lld Dv%lld, values that are not finite%s", bw_dtype_name(dtype),
                               (long long)n, (long long)d, causal ? ", causal" : "");
    bw_case_fill_normal(c, bw_case_in(c, dtype, 4, (int64_t[]){1, 2, n, 8}), 1);
    bw_case_fill_normal(c, bw_case_in(c, dtype, 4, (int64_t[]){1, 2, n, 8}), 1);
    bw_tensor *v = bw_case_in(c, dtype, 4, (int64_t[]){1, 2, n, d});
    bw_case_fill_normal(c, v, 1);
    bw_element_set_f64(dtype, v->data, (n - 1) * d, (double)NAN);
    bw_element_set_f64(dtype, v->data, (n / 2) * d + 1, (double)INFINITY);
    bw_element_set_f64(dtype, v->data, (n + n / 2) * d + 3, -(double)INFINITY);
    if (causal) {
        bw_case_in_absent(c);
    } else {
        bw_tensor *mask = bw_case_in(c, BW_F32, 2, (int64_t[]){n, n});
        bw_case_fill_normal(c, mask, 1);
        for (int64_t r = 0; r + 1 < n; r++)
            ((float *)mask->data)[r * n + n - 1] = ((float *)mask->data)[r * n + n / 2] = -INFINITY;
    }
    bw_case_out(c, dtype, 4, (int64_t[]){1, 2, n, d});
    bw_case_params(c, &(bw_sdpa_params){0.3f, 0, causal}, sizeof(bw_sdpa_params));
    bw_case_tolerance(c, 8, 3, 0);
    bw_case_run(c);
}

static void wild_values(bw_case_sink *sink)
{
    static const int64_t sizes[] = {2, 17, 300}; /* 300: two tiles of keys and several blocks of queries */
    for (int t = 0; t < N_TYPES; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int k = 0; k < 5; k++) /* an odd number, as above */
                wild(sink, types[t], sizes[i], k < 2 ? 5 : 8, k % 2);
}

static void refuse(bw_case_sink *sink, const char *what, const int64_t *k, const int64_t *v, const int64_t *y,
                   const int64_t *mask, const bw_sdpa_params *p)
{
    bw_case *c = bw_case_begin(sink, BW_OP_SDPA, "%s", what);
    bw_case_in(c, BW_F32, 4, (int64_t[]){1, 4, 3, 8});
    bw_case_in(c, BW_F32, 4, k);
    bw_case_in(c, BW_F32, 4, v);
    if (mask)
        bw_case_in(c, BW_F32, 2, mask);
    else
        bw_case_in_absent(c);
    bw_case_out(c, BW_F32, 4, y);
    if (p)
        bw_case_params(c, p, sizeof *p);
    bw_case_refuse(c);
}

static void refusals(bw_case_sink *sink)
{
    const int64_t k[] = {1, 2, 5, 8}, v[] = {1, 2, 5, 6}, y[] = {1, 4, 3, 6};
    const bw_sdpa_params good = {1, 0, 0};
    refuse(sink, "another width of k", (int64_t[]){1, 2, 5, 7}, v, y, NULL, &good);
    refuse(sink, "heads that do not divide", (int64_t[]){1, 3, 5, 8}, (int64_t[]){1, 3, 5, 6}, y, NULL, &good);
    refuse(sink, "no heads of k", (int64_t[]){1, 0, 5, 8}, (int64_t[]){1, 0, 5, 6}, y, NULL, &good);
    refuse(sink, "other positions of v", k, (int64_t[]){1, 2, 4, 6}, y, NULL, &good);
    refuse(sink, "another batch", (int64_t[]){2, 2, 5, 8}, v, y, NULL, &good);
    refuse(sink, "another output width", k, v, (int64_t[]){1, 4, 3, 8}, NULL, &good);
    refuse(sink, "a mask that does not fit", k, v, y, (int64_t[]){3, 4}, &good);
    refuse(sink, "scale NaN", k, v, y, NULL, &(bw_sdpa_params){NAN, 0, 0});
    refuse(sink, "softcap below 0", k, v, y, NULL, &(bw_sdpa_params){1, -1, 0});
    refuse(sink, "no params", k, v, y, NULL, NULL);
}

void bw_op_sdpa_cases(bw_case_sink *sink)
{
    static const shape fixed[] = {{1, 1, 1, 1, 1, 1, 1, false, 0, 0},      {2, 4, 2, 7, 9, 8, 5, false, 0, 0},
                                  {2, 4, 1, 9, 9, 16, 16, true, 0, 0},     {1, 2, 2, 5, 12, 20, 33, true, 0, 1},
                                  {1, 3, 3, 12, 5, 8, 8, true, 0, 0},      {2, 2, 1, 6, 10, 7, 9, false, 2, 2},
                                  {2, 4, 2, 5, 11, 8, 8, true, 1.5f, 3},   {1, 2, 2, 4, 0, 8, 8, false, 0, 0},
                                  {1, 2, 2, 0, 4, 8, 8, false, 0, 0},      {0, 2, 2, 3, 4, 8, 8, false, 0, 0},
                                  {1, 2, 1, 3, 7, 0, 6, false, 0, 0},      {1, 2, 1, 3, 7, 8, 0, false, 0, 0},
                                  {2, 2, 2, 6, 13, 8, 8, true, 0, 4},      {1, 1, 1, 3, 1, 8, 8, false, 0, 4},
                                  {1, 2, 1, 70, 150, 24, 40, false, 0, 0}, {1, 2, 1, 130, 130, 40, 24, true, 0, 1},
                                  {1, 1, 1, 5, 300, 300, 17, false, 0, 0}, {1, 1, 1, 3, 20, 16, 600, true, 0, 0}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        for (int t = 0; t < N_TYPES; t++)
            for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++)
                if (fixed[i].s * fixed[i].t < 1000 || layout == (int)(i + (size_t)t) % 3)
                    one(sink, types[t], &fixed[i], (bw_case_layout)layout, layout == BW_CASE_GAPS);
    for (int i = 0; i < bw_cases_n_random(sink); i++) {
        int64_t h_kv = bw_cases_between(sink, 1, 3);
        shape v = {
            bw_cases_between(sink, 1, 2),     h_kv * bw_cases_between(sink, 1, 3), h_kv,
            bw_cases_between(sink, 1, 40),    bw_cases_between(sink, 1, 90),       bw_cases_between(sink, 1, 40),
            bw_cases_between(sink, 1, 40),    bw_cases_between(sink, 0, 1),        (float)bw_cases_between(sink, 0, 2),
            (int)bw_cases_between(sink, 0, 4)};
        one(sink, types[bw_cases_between(sink, 0, N_TYPES - 1)], &v,
            (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1), bw_cases_between(sink, 0, 3) == 0);
    }
    tiles(sink);
    large_values(sink, BW_F32);
    large_values(sink, BW_BF16); /* twice, since storage begins at an even place in every second case */
    large_values(sink, BW_BF16);
    wild_values(sink);
    refusals(sink);
}
