/* WHERE by element sizes: blocks of contiguous elements, which compilers make vectors of; what is not contiguous is
 * brought together first. */
#include "bw_op_check.h"
#include "bw_stream.h"
#include "bw_vec.h"

bw_op_kernel BW_LEVEL(bw_where);

enum { WHERE_BLOCK = 512 };

#define SELECT(condition, type)                                                                                        \
    do {                                                                                                               \
        const condition *pc = (const condition *)c;                                                                    \
        const type *pa = (const type *)a, *pb = (const type *)b;                                                       \
        type *py = (type *)y;                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type yes = pa[i], no = pb[i];                                                                              \
            py[i] = pc[i] ? yes : no;                                                                                  \
        }                                                                                                              \
    } while (0)
#define SELECT_SIZES(type)                                                                                             \
    do {                                                                                                               \
        if (c_size == 1)                                                                                               \
            SELECT(uint8_t, type);                                                                                     \
        else if (c_size == 2)                                                                                          \
            SELECT(uint16_t, type);                                                                                    \
        else if (c_size == 4)                                                                                          \
            SELECT(uint32_t, type);                                                                                    \
        else                                                                                                           \
            SELECT(uint64_t, type);                                                                                    \
    } while (0)

static void where_select(int64_t c_size, const void *c, int64_t size, const void *a, const void *b, void *y, int64_t n)
{
    if (size == 1)
        SELECT_SIZES(uint8_t);
    else if (size == 2)
        SELECT_SIZES(uint16_t);
    else if (size == 4)
        SELECT_SIZES(uint32_t);
    else
        SELECT_SIZES(uint64_t);
}

#define MOVE(type)                                                                                                     \
    do {                                                                                                               \
        const type *s = (const type *)src;                                                                             \
        type *d = (type *)dst;                                                                                         \
        if (from == 0)                                                                                                 \
            for (int64_t i = 0; i < n; i++)                                                                            \
                d[i * to] = s[0];                                                                                      \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                d[i * to] = s[i * from];                                                                               \
    } while (0)

static void where_move(int64_t size, const void *src, int64_t from, void *dst, int64_t to, int64_t n)
{
    if (size == 1)
        MOVE(uint8_t);
    else if (size == 2)
        MOVE(uint16_t);
    else if (size == 4)
        MOVE(uint32_t);
    else
        MOVE(uint64_t);
}

typedef struct where_state {
    const bw_op_call *call;
    int64_t steps[4], sizes[4]; /* of c, a, b, y */
    bool is_streamed;
    bool is_filled[3]; /* an operand of stride 0: its buffer holds this span's value */
    uint64_t buffers[4][WHERE_BLOCK];
} where_state;

static void where_block(where_state *s, const int64_t offsets[4], int64_t i, int64_t n)
{
    const void *in[3];
    for (int k = 0; k < 3; k++) {
        in[k] = (const char *)s->call->in[k]->data + (offsets[k] + i * s->steps[k]) * s->sizes[k];
        if (s->steps[k] == 1 || n == 1)
            continue;
        /* one value for all lies there from the first block of several on: a span's first may be one element */
        if (s->steps[k] != 0 || !s->is_filled[k])
            where_move(s->sizes[k], in[k], s->steps[k], s->buffers[k], 1, s->steps[k] == 0 ? WHERE_BLOCK : n);
        s->is_filled[k] = true;
        in[k] = s->buffers[k];
    }
    char *dst = (char *)s->call->out[0]->data + (offsets[3] + i * s->steps[3]) * s->sizes[3];
    if (!s->is_streamed && (s->steps[3] == 1 || n == 1)) {
        where_select(s->sizes[0], in[0], s->sizes[3], in[1], in[2], dst, n);
        return;
    }
    where_select(s->sizes[0], in[0], s->sizes[3], in[1], in[2], s->buffers[3], n);
    if (s->is_streamed)
        bw_stream_copy(dst, s->buffers[3], (size_t)(n * s->sizes[3]));
    else
        where_move(s->sizes[3], s->buffers[3], 1, dst, s->steps[3], n);
}

void BW_LEVEL(bw_where)(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *tensors[] = {call->in[0], call->in[1], call->in[2], call->out[0]};
    where_state s;
    bw_loop loop;
    bw_loop_init(&loop, tensors[3]->n_dims, tensors[3]->dims, 4, tensors);
    int64_t begin, end;
    if (!bw_op_my_share(member, (loop.n + 63) / 64, 64, 8192, &begin, &end))
        return;
    s.call = call;
    for (int k = 0; k < 4; k++) {
        s.steps[k] = bw_loop_step(&loop, k);
        s.sizes[k] = bw_dtype_block_bytes(tensors[k]->dtype);
    }
    s.is_streamed = s.steps[3] == 1 && loop.n >= BW_STREAM_BYTES / s.sizes[3] && tensors[1]->data != tensors[3]->data &&
                    tensors[2]->data != tensors[3]->data && tensors[0]->data != tensors[3]->data;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, begin * 64, end * 64 < loop.n ? end * 64 : loop.n);
    while (bw_loop_next(&cursor, &span)) {
        memset(s.is_filled, 0, sizeof s.is_filled);
        for (int64_t i = 0, n; i < span.n; i += n) {
            n = span.n - i < WHERE_BLOCK ? span.n - i : WHERE_BLOCK;
            if (s.is_streamed && i == 0)
                n = bw_stream_head((char *)call->out[0]->data + span.offset[3] * s.sizes[3], s.sizes[3], n);
            where_block(&s, span.offset, i, n);
        }
    }
    if (s.is_streamed)
        bw_stream_end();
}
