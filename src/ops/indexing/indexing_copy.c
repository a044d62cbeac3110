/* IS, GATHER and S: values are copied, so that only their size matters. */
#include "indexing_walk.h"

bw_op_kernel bw_indexing_pick, bw_indexing_put;

#define BY_SIZE(dtype, DO)                                                                                             \
    switch (bw_dtype_block_bytes(dtype)) {                                                                             \
    case 1:                                                                                                            \
        DO(uint8_t);                                                                                                   \
        break;                                                                                                         \
    case 2:                                                                                                            \
        DO(uint16_t);                                                                                                  \
        break;                                                                                                         \
    case 4:                                                                                                            \
        DO(uint32_t);                                                                                                  \
        break;                                                                                                         \
    default:                                                                                                           \
        DO(uint64_t);                                                                                                  \
    }

/* Steps of 1 and 0, which a lane of contiguous tensors has, are told apart: they cost no multiplication. */
static void pick(bw_dtype dtype, const bw_indexing_block *b)
{
    const int64_t *ids = b->ids, n = b->n;
#define PICK(type)                                                                                                     \
    do {                                                                                                               \
        const type *x = (const type *)(const void *)b->x;                                                              \
        type *y = (type *)(void *)b->y;                                                                                \
        if (b->x_step == 0 && b->y_step == 1 && b->id_step == 1)                                                       \
            for (int64_t i = 0; i < n; i++)                                                                            \
                y[i] = ids[i] < 0 ? 0 : x[ids[i]];                                                                     \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                y[i * b->y_step] = ids[i] < 0 ? 0 : x[i * b->x_step + ids[i] * b->id_step];                            \
    } while (0)
    BY_SIZE(dtype, PICK)
}

static void put(bw_dtype dtype, const bw_indexing_block *b)
{
    const int64_t *ids = b->ids, n = b->n;
#define PUT(type)                                                                                                      \
    do {                                                                                                               \
        const type *x = (const type *)(const void *)b->x;                                                              \
        type *y = (type *)(void *)b->y;                                                                                \
        if (b->x_step == 1 && b->y_step == 0 && b->id_step == 1) {                                                     \
            for (int64_t i = 0; i < n; i++)                                                                            \
                if (ids[i] >= 0)                                                                                       \
                    y[ids[i]] = x[i];                                                                                  \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                            \
                if (ids[i] >= 0)                                                                                       \
                    y[i * b->y_step + ids[i] * b->id_step] = x[i * b->x_step];                                         \
        }                                                                                                              \
    } while (0)
    BY_SIZE(dtype, PUT)
}

/* y = x, or 0 without x. */
static void copy(bw_dtype dtype, const char *from, char *to, int64_t n, int64_t x_step, int64_t y_step)
{
    size_t size = (size_t)bw_dtype_block_bytes(dtype);
    if (y_step == 1 && !from) {
        memset(to, 0, (size_t)n * size);
        return;
    }
    if (y_step == 1 && x_step == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
#define COPY(type)                                                                                                     \
    do {                                                                                                               \
        const type *x = (const type *)(const void *)from;                                                              \
        type *y = (type *)(void *)to;                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i * y_step] = x ? x[i * x_step] : 0;                                                                     \
    } while (0)
    BY_SIZE(dtype, COPY)
}

static void pick_slice(bw_dtype dtype, const bw_indexing_block *b, int64_t id)
{
    const char *x = id < 0 ? NULL : b->x + id * b->id_step * bw_dtype_block_bytes(dtype);
    copy(dtype, x, b->y, b->n, b->x_step, b->y_step);
}

static void put_slice(bw_dtype dtype, const bw_indexing_block *b, int64_t id)
{
    if (id >= 0)
        copy(dtype, b->x, b->y + id * b->id_step * bw_dtype_block_bytes(dtype), b->n, b->x_step, b->y_step);
}

void bw_indexing_pick(const bw_op_call *call, bw_member *member)
{
    bw_indexing_walk(call, member, pick, pick_slice);
}

void bw_indexing_put(const bw_op_call *call, bw_member *member)
{
    bw_indexing_walk(call, member, put, put_slice);
}
