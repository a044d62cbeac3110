/* Private to the files of one CPU level: how a LINEAR is cut into groups of 16 rows and tiles of activation rows, and
 * shared among the team. The caller's functions do one tile each. */
#ifndef BW_LINEAR_DRIVE_H
#define BW_LINEAR_DRIVE_H

#include "linear_layout.h"

/* out f32 [m, 16]: one group of 16 rows times m activation rows (m as the level's maximum allows). */
typedef void bw_group_fn(const uint8_t *w, int64_t n_blocks, const bw_act_q8 *x, int m, float *out);
/* The same for weights f32, f16 or bf16 [k, 16] and activations f32. */
typedef void bw_float_group_fn(const void *w, int64_t k, const float *const *x, int m, float *out);

enum { BW_MAX_TILE = 8 }; /* activation rows */

typedef struct bw_drive {
    const bw_tensor *x, *w, *bias, *y;
    int64_t n_groups, k, n_blocks, n_tokens;
    size_t group_bytes, x_bytes;
    int64_t block_tokens, n_token_blocks, chunk; /* items are token blocks times groups, groups inside */
} bw_drive;

static inline bw_drive bw_drive_begin(const bw_op_call *call, const bw_member *member)
{
    bw_drive d = {.x = call->in[0], .w = call->in[1], .bias = call->n_in > 2 ? call->in[2] : NULL, .y = call->out[0]};
    d.k = d.w->dims[1];
    d.n_groups = (d.w->dims[0] + BW_GROUP - 1) / BW_GROUP;
    d.n_blocks = d.k / bw_dtype_block_elements(d.w->dtype);
    d.n_tokens = d.x->dims[0];
    d.group_bytes = BW_GROUP * (size_t)bw_dtype_bytes(d.w->dtype, d.k);
    bool is_f32 = d.x->layout == BW_ACT_F32;
    d.x_bytes = is_f32 ? (size_t)d.x->strides[0] * sizeof(float) : (size_t)d.x->dims[1];
    /* A block of activations stays in a second-level cache of 512 KiB while all weights pass by. */
    d.block_tokens = (int64_t)(262144 / (bw_act_row_bytes(d.x->layout, d.k) + 1)) / 16 * 16;
    if (d.block_tokens < 32)
        d.block_tokens = 32;
    d.n_token_blocks = (d.n_tokens + d.block_tokens - 1) / d.block_tokens;
    d.chunk = d.n_groups / ((int64_t)member->size * 8);
    d.chunk = d.chunk < 1 ? 1 : d.chunk > 16 ? 16 : d.chunk;
    return d;
}

/* The next items of this member. */
static inline bool bw_drive_take(const bw_op_call *call, const bw_drive *d, int64_t *begin, int64_t *end)
{
    return bw_team_take(call->next, d->n_groups * d->n_token_blocks, d->chunk, begin, end);
}

/* Write up to 16 columns of m rows. */
static inline void bw_store_tile(const bw_drive *d, int64_t t, int m, int64_t row, const float *tile)
{
    int64_t n = d->w->dims[0] - row < BW_GROUP ? d->w->dims[0] - row : BW_GROUP;
    const float *b = d->bias ? (const float *)d->bias->data + row : NULL;
    for (int i = 0; i < m; i++) {
        float *out = (float *)d->y->data + (t + i) * d->y->strides[0] + row;
        const float *from = tile + BW_GROUP * i;
        if (n == BW_GROUP)
            for (int j = 0; j < BW_GROUP; j++)
                out[j] = from[j] + (b ? b[j] : 0.0f);
        else
            for (int64_t j = 0; j < n; j++)
                out[j] = from[j] + (b ? b[j] : 0.0f);
    }
}

static inline const char *bw_drive_row(const bw_drive *d, int64_t t)
{
    return (const char *)d->x->data + (size_t)t * d->x_bytes;
}

/* Activation rows [t, end) with one group, max_m at a time. */
static inline void bw_drive_tiles(const bw_drive *d, int64_t g, int64_t t, int64_t end, bw_group_fn *group, int max_m)
{
    const uint8_t *w = (const uint8_t *)d->w->data + (size_t)g * d->group_bytes;
    float tile[BW_MAX_TILE * BW_GROUP];
    bw_act_q8 rows[BW_MAX_TILE];
    for (; t < end; t += max_m) {
        int m = end - t < max_m ? (int)(end - t) : max_m;
        for (int i = 0; i < m; i++)
            rows[i] = bw_act_q8_view(bw_drive_row(d, t + i), d->k);
        group(w, d->n_blocks, rows, m, tile);
        bw_store_tile(d, t, m, g * BW_GROUP, tile);
    }
}

static inline void bw_drive_q8(const bw_op_call *call, bw_member *member, bw_group_fn *group, int max_m)
{
    bw_drive d = bw_drive_begin(call, member);
    int64_t begin, end;
    while (bw_drive_take(call, &d, &begin, &end))
        for (int64_t i = begin; i < end; i++) {
            int64_t t = i / d.n_groups * d.block_tokens, stop = t + d.block_tokens;
            bw_drive_tiles(&d, i % d.n_groups, t, stop < d.n_tokens ? stop : d.n_tokens, group, max_m);
        }
}

static inline void bw_drive_float(const bw_op_call *call, bw_member *member, bw_float_group_fn *group, int max_m)
{
    bw_drive d = bw_drive_begin(call, member);
    int64_t begin, end;
    while (bw_drive_take(call, &d, &begin, &end))
        for (int64_t i = begin; i < end; i++) {
            int64_t t = i / d.n_groups * d.block_tokens, stop = t + d.block_tokens, g = i % d.n_groups;
            stop = stop < d.n_tokens ? stop : d.n_tokens;
            for (; t < stop; t += max_m) {
                int m = stop - t < max_m ? (int)(stop - t) : max_m;
                float tile[BW_MAX_TILE * BW_GROUP];
                const float *rows[BW_MAX_TILE];
                for (int j = 0; j < m; j++)
                    rows[j] = (const float *)(const void *)bw_drive_row(&d, t + j);
                group((const uint8_t *)d.w->data + (size_t)g * d.group_bytes, d.k, rows, m, tile);
                bw_store_tile(&d, t, m, g * BW_GROUP, tile);
            }
        }
}

#endif
