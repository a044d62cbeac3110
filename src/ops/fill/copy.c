/* Strided copies. */
#include "fill/copy.h"

#include <string.h>

#include "bw_op_check.h"

/* n elements, from and to elements apart. */
#define ROW(type)                                                                                                      \
    do {                                                                                                               \
        const type *s = (const type *)src;                                                                             \
        type *d = (type *)dst;                                                                                         \
        for (int64_t i = 0; i < n; i++)                                                                                \
            d[i * to] = s[i * from];                                                                                   \
    } while (0)

static void copy_row(size_t size, const void *src, int64_t from, void *dst, int64_t to, int64_t n)
{
    if ((from == 1 && to == 1) || n == 1)
        memcpy(dst, src, (size_t)n * size);
    else if (size == 1)
        ROW(uint8_t);
    else if (size == 2)
        ROW(uint16_t);
    else if (size == 4)
        ROW(uint32_t);
    else
        ROW(uint64_t);
}

void bw_copy_typed(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    size_t size = (size_t)bw_dtype_block_bytes(x->dtype);
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 2, (const bw_tensor *[]){x, y});
    int64_t begin, end, from = bw_loop_step(&loop, 0), to = bw_loop_step(&loop, 1);
    if (!bw_op_my_share(member, (loop.n + 63) / 64, 64, 16384, &begin, &end))
        return;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, begin * 64, end * 64 < loop.n ? end * 64 : loop.n);
    while (bw_loop_next(&cursor, &span))
        copy_row(size, (const char *)x->data + span.offset[0] * (int64_t)size, from,
                 (char *)y->data + span.offset[1] * (int64_t)size, to, span.n);
}
