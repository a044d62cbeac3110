/* FILL and CONST_SET by element size. */
#include "bw_op_check.h"
#include "bw_stream.h"

bw_op_kernel bw_fill_typed;

enum { FILL_BLOCK = 512 };

#define ROW(type)                                                                                                      \
    do {                                                                                                               \
        const type v = *(const type *)value;                                                                           \
        type *d = (type *)dst;                                                                                         \
        if (step == 1)                                                                                                 \
            for (int64_t i = 0; i < n; i++)                                                                            \
                d[i] = v;                                                                                              \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                d[i * step] = v;                                                                                       \
    } while (0)

static void fill_row(int64_t size, const void *value, void *dst, int64_t step, int64_t n)
{
    if (size == 1)
        ROW(uint8_t);
    else if (size == 2)
        ROW(uint16_t);
    else if (size == 4)
        ROW(uint32_t);
    else
        ROW(uint64_t);
}

void bw_fill_typed(const bw_op_call *call, bw_member *member)
{
    const bw_fill_params *params = call->params;
    bw_tensor *y = call->out[0];
    int64_t size = bw_dtype_block_bytes(y->dtype), begin, end;
    uint64_t block[FILL_BLOCK];
    if (bw_dtype_is_integer(y->dtype))
        bw_element_set_i64(y->dtype, block, 0, params->integer);
    else
        bw_element_set_f64(y->dtype, block, 0, params->value);
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 1, (const bw_tensor *[]){y});
    int64_t step = bw_loop_step(&loop, 0);
    if (!bw_op_my_share(member, (loop.n + 63) / 64, 64, 16384, &begin, &end))
        return;
    bool is_streamed = step == 1 && loop.n >= BW_STREAM_BYTES / size;
    if (is_streamed)
        fill_row(size, block, block, 1, FILL_BLOCK * 8 / size);
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, begin * 64, end * 64 < loop.n ? end * 64 : loop.n);
    while (bw_loop_next(&cursor, &span)) {
        char *dst = (char *)y->data + span.offset[0] * size;
        if (!is_streamed) {
            fill_row(size, block, dst, step, span.n);
            continue;
        }
        for (int64_t i = 0, n; i < span.n; i += n, dst += n * size) {
            n = span.n - i < FILL_BLOCK * 8 / size ? span.n - i : FILL_BLOCK * 8 / size;
            if (i == 0)
                n = bw_stream_head(dst, size, n);
            bw_stream_copy(dst, block, (size_t)(n * size));
        }
    }
    if (is_streamed)
        bw_stream_end();
}
