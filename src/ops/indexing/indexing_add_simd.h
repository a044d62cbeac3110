/* IA and SA: every addition rounds to the values' type. Sums of two short floats in f32, rounded once more to the type,
 * are what one rounding gives (f32 has more than twice their digits). */
#include "bw_vec.h"
#include "indexing_walk.h"

bw_op_kernel BW_LEVEL(bw_indexing_add);

/* One value onto another, by type: T the storage, SUM its rule. */
#define BW_ADD_INTEGER(a, b) (a + b)
#define BW_ADD_F16(a, b) bw_f32_to_f16(bw_f16_to_f32(a) + bw_f16_to_f32(b))
#define BW_ADD_BF16(a, b) bw_f32_to_bf16(bw_bf16_to_f32(a) + bw_bf16_to_f32(b))
#define BW_ADD_F8(a, b) bw_f32_to_f8_e4m3(bw_f8_e4m3_to_f32(a) + bw_f8_e4m3_to_f32(b))

#define BW_ADD_BY_TYPE(dtype, DO)                                                                                      \
    switch (dtype) {                                                                                                   \
    case BW_F32:                                                                                                       \
        DO(float, BW_ADD_INTEGER);                                                                                     \
        break;                                                                                                         \
    case BW_F64:                                                                                                       \
        DO(double, BW_ADD_INTEGER);                                                                                    \
        break;                                                                                                         \
    case BW_F16:                                                                                                       \
        DO(uint16_t, BW_ADD_F16);                                                                                      \
        break;                                                                                                         \
    case BW_BF16:                                                                                                      \
        DO(uint16_t, BW_ADD_BF16);                                                                                     \
        break;                                                                                                         \
    case BW_F8_E4M3:                                                                                                   \
        DO(uint8_t, BW_ADD_F8);                                                                                        \
        break;                                                                                                         \
    case BW_I64:                                                                                                       \
        DO(uint64_t, BW_ADD_INTEGER);                                                                                  \
        break;                                                                                                         \
    case BW_U32:                                                                                                       \
    case BW_I32:                                                                                                       \
        DO(uint32_t, BW_ADD_INTEGER);                                                                                  \
        break;                                                                                                         \
    case BW_I16:                                                                                                       \
        DO(uint16_t, BW_ADD_INTEGER);                                                                                  \
        break;                                                                                                         \
    default:                                                                                                           \
        DO(uint8_t, BW_ADD_INTEGER);                                                                                   \
    }

BW_INLINE void add_each(bw_dtype dtype, const bw_indexing_block *b)
{
#define ADD(type, sum)                                                                                                 \
    do {                                                                                                               \
        const type *x = (const type *)(const void *)b->x;                                                              \
        type *y = (type *)(void *)b->y;                                                                                \
        const int64_t *ids = b->ids, n = b->n;                                                                         \
        if (b->x_step == 1 && b->y_step == 0 && b->id_step == 1) {                                                     \
            for (int64_t i = 0; i < n; i++)                                                                            \
                if (ids[i] >= 0)                                                                                       \
                    y[ids[i]] = (type)(sum(y[ids[i]], x[i]));                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                            \
                if (ids[i] >= 0) {                                                                                     \
                    type *to = &y[i * b->y_step + ids[i] * b->id_step];                                                \
                    *to = (type)(sum(*to, x[i * b->x_step]));                                                          \
                }                                                                                                      \
        }                                                                                                              \
    } while (0)
    BW_ADD_BY_TYPE(dtype, ADD)
#undef ADD
}

/* Contiguous floats in vectors; returns how many were done. */
BW_INLINE int64_t add_vectors(bw_dtype dtype, const char *from, char *to, int64_t n)
{
    int64_t i = 0;
    if (dtype == BW_F32)
        for (; i + VF_N <= n; i += VF_N) {
            float *y = (float *)(void *)to + i;
            vf_store(y, vf_add(vf_load(y), vf_load((const float *)(const void *)from + i)));
        }
    else if (dtype == BW_F16)
        for (; i + VF_N <= n; i += VF_N) {
            uint16_t *y = (uint16_t *)(void *)to + i;
            vf_store_f16(y, vf_add(vf_load_f16(y), vf_load_f16((const uint16_t *)(const void *)from + i)));
        }
    else if (dtype == BW_BF16)
        for (; i + VF_N <= n; i += VF_N) {
            uint16_t *y = (uint16_t *)(void *)to + i;
            vf_store_bf16(y, vf_add(vf_load_bf16(y), vf_load_bf16((const uint16_t *)(const void *)from + i)));
        }
    return i;
}

BW_INLINE void add_slice(bw_dtype dtype, const bw_indexing_block *b, int64_t id)
{
    if (id < 0)
        return;
    int64_t size = bw_dtype_block_bytes(dtype), x_step = b->x_step, y_step = b->y_step;
    char *to = b->y + id * b->id_step * size;
    int64_t begin = x_step == 1 && y_step == 1 ? add_vectors(dtype, b->x, to, b->n) : 0;
#define ADD(type, sum)                                                                                                 \
    do {                                                                                                               \
        const type *x = (const type *)(const void *)b->x;                                                              \
        type *y = (type *)(void *)to;                                                                                  \
        if (x_step == 1 && y_step == 1)                                                                                \
            for (int64_t i = begin; i < b->n; i++)                                                                     \
                y[i] = (type)(sum(y[i], x[i]));                                                                        \
        else                                                                                                           \
            for (int64_t i = 0; i < b->n; i++)                                                                         \
                y[i * y_step] = (type)(sum(y[i * y_step], x[i * x_step]));                                             \
    } while (0)
    BW_ADD_BY_TYPE(dtype, ADD)
#undef ADD
}

void BW_LEVEL(bw_indexing_add)(const bw_op_call *call, bw_member *member)
{
    bw_indexing_walk(call, member, add_each, add_slice);
}
