/* ASORT_ASC, ASORT_DESC and TOPK by radix sort (Knuth, The Art of Computer Programming 3, 5.2.5): each element becomes
 * an unsigned key whose order is the one wanted, and the digits of the keys are counted and distributed, least first.
 * TOPK of few keeps twice as many candidates and sorts them whenever their room is full. */
#include "bw_inline.h"
#include "bw_op_check.h"

bw_op_kernel bw_asort_radix, bw_topk_radix;
size_t bw_asort_scratch(const bw_op_call *call);
size_t bw_topk_scratch(const bw_op_call *call);

enum { BLOCK = 64, RADIX_WIDE = 1 << 11, RADIX_WIDE_FROM = 1 << 14, LEAST_ROOM = 32, INSERTION = 64 };

/* One row. */
typedef struct source {
    const char *data;
    int64_t step;
    bw_dtype dtype;
    bool descending;
    int key_bits;
} source;

/* A float's bits as a key: NaN above all in either direction, both zeros alike. TOP is the sign's bit, INF the bits of
 * infinity. */
#define FLOAT_KEYS(type, TOP, INF)                                                                                     \
    for (int64_t j = 0; j < m; j++) {                                                                                  \
        type b, k;                                                                                                     \
        memcpy(&b, data + (i + j) * step, sizeof b);                                                                   \
        k = (type)(b & (type) ~(TOP));                                                                                 \
        b = k == 0 ? 0 : b;                                                                                            \
        type u = (type)(b & (TOP) ? (type)~b : (type)(b | (TOP)));                                                     \
        u = (type)(u ^ flip);                                                                                          \
        keys[j] = k > (INF) ? (type)~0 : u;                                                                            \
    }
#define INTEGER_KEYS(type, TOP)                                                                                        \
    for (int64_t j = 0; j < m; j++) {                                                                                  \
        type b;                                                                                                        \
        memcpy(&b, data + (i + j) * step, sizeof b);                                                                   \
        keys[j] = (type)(b ^ (TOP) ^ flip);                                                                            \
    }

/* Keys of elements [i, i + m); step is a constant where rows are dense, so that the loops become vectors. */
BW_INLINE void load_short(const source *s, int64_t i, int64_t m, int64_t step, uint32_t *keys)
{
    const char *data = s->data;
    switch (s->dtype) {
    case BW_F32: {
        const uint32_t flip = s->descending ? UINT32_MAX : 0;
        FLOAT_KEYS(uint32_t, 0x80000000u, 0x7f800000u)
        break;
    }
    case BW_F16: {
        const uint16_t flip = s->descending ? UINT16_MAX : 0;
        FLOAT_KEYS(uint16_t, 0x8000u, 0x7c00u)
        break;
    }
    case BW_BF16: {
        const uint16_t flip = s->descending ? UINT16_MAX : 0;
        FLOAT_KEYS(uint16_t, 0x8000u, 0x7f80u)
        break;
    }
    case BW_U32: {
        const uint32_t flip = s->descending ? UINT32_MAX : 0;
        INTEGER_KEYS(uint32_t, 0u)
        break;
    }
    default: {
        const uint8_t flip = s->descending ? UINT8_MAX : 0;
        INTEGER_KEYS(uint8_t, 0)
    }
    }
}

BW_INLINE void load_long(const source *s, int64_t i, int64_t m, int64_t step, uint64_t *keys)
{
    const char *data = s->data;
    const uint64_t flip = s->descending ? UINT64_MAX : 0;
    if (s->dtype == BW_F64) {
        FLOAT_KEYS(uint64_t, (uint64_t)1 << 63, (uint64_t)0x7ff << 52)
    } else {
        INTEGER_KEYS(uint64_t, (uint64_t)1 << 63)
    }
}

static void load_keys_32(const source *s, int64_t i, int64_t m, uint32_t *keys)
{
    if (s->step == 1)
        load_short(s, i, m, 1, keys);
    else if (s->step == 2)
        load_short(s, i, m, 2, keys);
    else if (s->step == 4)
        load_short(s, i, m, 4, keys);
    else
        load_short(s, i, m, s->step, keys);
}

static void load_keys_64(const source *s, int64_t i, int64_t m, uint64_t *keys)
{
    if (s->step == 8)
        load_long(s, i, m, 8, keys);
    else
        load_long(s, i, m, s->step, keys);
}

typedef struct item_64 {
    uint64_t key;
    uint32_t index;
} item_64;

#define KEY uint32_t
#define ITEM uint64_t
#define NAME(x) x##_32
#define MAKE(key, index) ((uint64_t)(key) << 32 | (index))
#define KEY_OF(item) ((uint32_t)((item) >> 32))
#define INDEX_OF(item) ((uint32_t)(item))
#include "sort/sort_items.inc"
#define KEY uint64_t
#define ITEM item_64
#define NAME(x) x##_64
#define MAKE(key, index) ((item_64){key, index})
#define KEY_OF(item) ((item).key)
#define INDEX_OF(item) ((item).index)
#include "sort/sort_items.inc"

static bool is_long(const bw_tensor *x)
{
    return x->dtype == BW_F64 || x->dtype == BW_I64;
}

static size_t item_bytes(const bw_tensor *x)
{
    return is_long(x) ? sizeof(item_64) : sizeof(uint64_t);
}

size_t bw_asort_scratch(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    return 2 * (size_t)x->dims[x->n_dims - 1] * item_bytes(x);
}

/* Items in each half of TOPK's scratch: a row whole, or less where k is small. */
static int64_t topk_room(int64_t k, int64_t n)
{
    int64_t room = k < LEAST_ROOM / 2 ? LEAST_ROOM : 2 * k;
    return n < 2 * room ? n : room;
}

size_t bw_topk_scratch(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    int64_t k = call->out[1]->dims[x->n_dims - 1], n = x->dims[x->n_dims - 1];
    /* A shorter row later may need up to twice the room of a longer one. */
    int64_t most = k < LEAST_ROOM / 2 ? 2 * LEAST_ROOM : 4 * k;
    return 2 * (size_t)(n < most ? n : most) * item_bytes(x);
}

static void run_rows(const bw_op_call *call, const bw_member *member, const bw_tensor *index, bool descending,
                     bool is_topk)
{
    const bw_tensor *x = call->in[0];
    int last = x->n_dims - 1;
    int64_t n = x->dims[last], k = index->dims[last], begin, end, size = bw_dtype_block_bytes(x->dtype);
    bw_rows x_rows, y_rows, v_rows;
    bw_rows_init(&x_rows, x);
    bw_rows_init(&y_rows, index);
    bw_rows_init(&v_rows, call->out[0]); /* TOPK's values */
    if (k == 0 || !bw_op_my_share(member, x_rows.n_rows, n, 256, &begin, &end))
        return;
    int64_t room = is_topk ? topk_room(k, n) : n;
    void *scratch = bw_op_member_scratch(call, member);
    for (int64_t r = begin; r < end; r++) {
        source s = {(const char *)x->data + bw_rows_offset(&x_rows, r) * size, x->strides[last] * size, x->dtype,
                    descending, (int)size * 8};
        uint32_t *y = (uint32_t *)index->data + bw_rows_offset(&y_rows, r);
        if (is_long(x))
            run_row_64(&s, k, n, scratch, room, y, index->strides[last]);
        else
            run_row_32(&s, k, n, scratch, room, y, index->strides[last]);
        if (!is_topk)
            continue;
        const bw_tensor *values = call->out[0];
        char *v = (char *)values->data + bw_rows_offset(&v_rows, r) * size;
        for (int64_t i = 0; i < k; i++)
            memcpy(v + i * values->strides[last] * size, s.data + (int64_t)y[i * index->strides[last]] * s.step,
                   (size_t)size);
    }
}

void bw_asort_radix(const bw_op_call *call, bw_member *member)
{
    run_rows(call, member, call->out[0], call->op == BW_OP_ASORT_DESC, false);
}

void bw_topk_radix(const bw_op_call *call, bw_member *member)
{
    run_rows(call, member, call->out[1], !((const bw_topk_params *)call->params)->is_smallest, true);
}
