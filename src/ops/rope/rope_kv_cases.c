/* What ROPE_KV is tried with. */
#include <math.h>

#include "bw_cases.h"

typedef struct shape {
    int64_t t, n_q, n_kv, d, d_v;
    int32_t n_rot;
    bool interleaved, is_strided;
    bw_dtype cache;
    int64_t page_tokens;
    float magnitude;
    int32_t last_position;
} shape;

static void one(bw_case_sink *sink, const shape *s)
{
    int64_t n_pages = s->t / s->page_tokens + 3;
    bw_case *c =
        bw_case_begin(sink, BW_OP_ROPE_KV, "T %lld, %lld/%lld heads of %lld/%lld, rot %d%s, %s", (long long)s->t,
                      (long long)s->n_q, (long long)s->n_kv, (long long)s->d, (long long)s->d_v, s->n_rot,
                      s->interleaved ? " interleaved" : "", bw_dtype_name(s->cache));
    int64_t heads[3] = {s->n_q, s->n_kv, s->n_kv}, widths[3] = {s->d, s->d, s->d_v};
    for (int i = 0; i < 3; i++) {
        int64_t dims[] = {s->t, heads[i], widths[i]};
        int64_t strides[] = {s->is_strided ? 2 * heads[i] * widths[i] + 5 : heads[i] * widths[i], widths[i], 1};
        bw_case_fill_normal(c, bw_case_in_strided(c, BW_F32, 3, dims, strides), 1);
    }
    bw_case_fill_i32(c, bw_case_in(c, BW_I32, 1, &s->t), 0, s->last_position);
    /* Different slots in any order: a random start and a stride that shares no factor with their number. */
    int32_t *slots = bw_case_in(c, BW_I32, 1, &s->t)->data;
    int64_t n_slots = n_pages * s->page_tokens, start = bw_cases_between(sink, 0, n_slots - 1), step = n_slots - 1;
    for (int64_t i = 0; i < s->t; i++)
        slots[i] = (int32_t)((start + i * step) % n_slots);
    bw_tensor *f = bw_case_in(c, BW_F32, 1, (int64_t[]){s->n_rot / 2});
    for (int i = 0; i < s->n_rot / 2; i++)
        ((float *)f->data)[i] = (float)pow(10000, -2.0 * i / s->n_rot);
    bw_case_out(c, BW_F32, 3, (int64_t[]){s->t, s->n_q, s->d});
    bw_case_fill_normal(c, bw_case_out_kept(c, s->cache, 4, (int64_t[]){n_pages, s->n_kv, s->page_tokens, s->d}), 3);
    bw_case_fill_normal(c, bw_case_out_kept(c, s->cache, 4, (int64_t[]){n_pages, s->n_kv, s->page_tokens, s->d_v}), 3);
    bw_case_params(c, &(bw_rope_kv_params){s->interleaved, s->n_rot, s->magnitude}, sizeof(bw_rope_kv_params));
    bw_case_tolerance(c, 2, 1, 0);
    bw_case_run(c);
}

static void refuse(bw_case_sink *sink, const char *name, int32_t n_rot, int64_t page_tokens, bw_dtype cache, int64_t d)
{
    bw_case *c = bw_case_begin(sink, BW_OP_ROPE_KV, "%s", name);
    bw_case_in(c, BW_F32, 3, (int64_t[]){2, 4, d});
    bw_case_in(c, BW_F32, 3, (int64_t[]){2, 2, d});
    bw_case_in(c, BW_F32, 3, (int64_t[]){2, 2, d});
    bw_case_in(c, BW_I32, 1, (int64_t[]){2});
    bw_case_in(c, BW_I32, 1, (int64_t[]){2});
    bw_case_in(c, BW_F32, 1, (int64_t[]){n_rot > 0 ? n_rot / 2 : 0});
    bw_case_out(c, BW_F32, 3, (int64_t[]){2, 4, d});
    int64_t width = cache == BW_Q8_0 ? 64 : d;
    bw_tensor *k = bw_case_out_kept(c, cache, 4, (int64_t[]){1, 2, page_tokens, width});
    bw_tensor *v = bw_case_out_kept(c, cache, 4, (int64_t[]){1, 2, page_tokens, width});
    k->dims[3] = v->dims[3] = d;
    bw_case_params(c, &(bw_rope_kv_params){false, n_rot, 1}, sizeof(bw_rope_kv_params));
    bw_case_refuse(c);
}

void bw_op_rope_kv_cases(bw_case_sink *sink)
{
    static const bw_dtype caches[] = {BW_F16, BW_BF16, BW_Q8_0, BW_F32};
    for (int k = 0; k < 4; k++) {
        for (int layout = 0; layout < 2; layout++) {
            one(sink, &(shape){1, 9, 3, 64, 64, 64, layout, false, caches[k], 32, 1, 5000});
            one(sink, &(shape){37, 9, 3, 64, 64, 64, layout, true, caches[k], 32, 1, 131072});
            one(sink, &(shape){5, 4, 1, 256, 128, 64, layout, false, caches[k], 8, 1.2f, 100});
            one(sink, &(shape){70, 2, 2, 96, 96, 96, layout, true, caches[k], 16, 1, 3000});
            one(sink, &(shape){3, 1, 1, 32, 32, 2, layout, false, caches[k], 8, 1, 7});
            one(sink, &(shape){3, 2, 1, 32, 64, 0, layout, false, caches[k], 8, 1, 7});
        }
    }
    one(sink, &(shape){11, 3, 1, 80, 80, 20, false, false, BW_F16, 32, 1, 300});
    one(sink, &(shape){11, 3, 1, 80, 80, 30, true, false, BW_BF16, 32, 1, 300});
    one(sink, &(shape){3, 2, 2, 6, 5, 6, false, false, BW_F16, 8, 1, 30});
    one(sink, &(shape){3, 2, 2, 7, 3, 6, true, false, BW_F16, 8, 1, 30});
    one(sink, &(shape){0, 2, 2, 64, 64, 64, true, false, BW_F16, 8, 1, 30});
    for (int k = 0; k < bw_cases_n_random(sink); k++) {
        int64_t d = 32 * bw_cases_between(sink, 1, 8), n_kv = bw_cases_between(sink, 1, 5);
        one(sink, &(shape){bw_cases_between(sink, 1, 60), n_kv * bw_cases_between(sink, 1, 5), n_kv, d, d,
                           (int32_t)(2 * bw_cases_between(sink, 0, d / 2)), bw_cases_between(sink, 0, 1),
                           bw_cases_between(sink, 0, 1), caches[bw_cases_between(sink, 0, 2)],
                           8 * bw_cases_between(sink, 1, 8), 1, 100000});
    }
    refuse(sink, "odd n_rot", 3, 8, BW_F16, 64);
    refuse(sink, "n_rot beyond D", 66, 8, BW_F16, 64);
    refuse(sink, "negative n_rot", -2, 8, BW_F16, 64);
    refuse(sink, "pages of 12 tokens", 64, 12, BW_F16, 64);
    refuse(sink, "f64 cache", 64, 8, BW_F64, 64);
    refuse(sink, "q8_0 with heads of 40", 40, 8, BW_Q8_0, 40);
}
