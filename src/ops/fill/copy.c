/* Strided copies: dense rows, tiles of transposed tensors, anything else element by element. */
#include "fill/copy.h"

#include <string.h>

#include "bw_op_check.h"
#include "bw_stream.h"

enum { COPY_BLOCK = 512 };

/* n elements, from and to elements apart. */
#define ROW(type)                                                                                                      \
    do {                                                                                                               \
        const type *s = (const type *)src;                                                                             \
        type *d = (type *)dst;                                                                                         \
        for (int64_t i = 0; i < n; i++)                                                                                \
            d[i * to] = s[i * from];                                                                                   \
    } while (0)

static void copy_row(int64_t size, const void *src, int64_t from, void *dst, int64_t to, int64_t n)
{
    if ((from == 1 && to == 1) || n == 1)
        memcpy(dst, src, (size_t)(n * size));
    else if (size == 1)
        ROW(uint8_t);
    else if (size == 2)
        ROW(uint16_t);
    else if (size == 4)
        ROW(uint32_t);
    else
        ROW(uint64_t);
}

/* A dense row past the caches, block by block. */
static void stream_row(int64_t size, const void *src, int64_t from, char *dst, int64_t n)
{
    uint64_t staged[COPY_BLOCK];
    for (int64_t i = 0, k; i < n; i += k) {
        k = n - i < COPY_BLOCK ? n - i : COPY_BLOCK;
        if (i == 0)
            k = bw_stream_head(dst, size, k);
        const void *s = (const char *)src + i * from * size;
        if (from != 1) {
            copy_row(size, s, from, staged, 1, k);
            s = staged;
        }
        bw_stream_copy(dst + i * size, s, (size_t)(k * size));
    }
}

/* The tensors seen as tiles of the last dimension and of the one through which x steps least: where that is not the
 * last (a transposed x), a row of y takes one element from each of many lines of x, which then serve the tile's other
 * rows from the cache. */
typedef struct tiling {
    int64_t size, n_outer, n_rows, n_columns; /* of elements, in bytes; the dimensions */
    int64_t x_row, x_column, y_row, y_column; /* strides */
    bw_loop outer;                            /* all other dimensions */
} tiling;

enum { TILE = 64 };

static bool find_tiling(const bw_loop *loop, int64_t size, tiling *t)
{
    int last = loop->n_dims - 1, row = 0;
    for (int d = 1; d < last; d++)
        if (loop->strides[0][d] < loop->strides[0][row])
            row = d;
    if (last < 1 || loop->strides[1][last] != 1 || loop->strides[0][row] * 4 > loop->strides[0][last] ||
        loop->dims[row] < 8 || loop->dims[last] < 8)
        return false;
    *t = (tiling){size,
                  loop->n / loop->dims[row] / loop->dims[last],
                  loop->dims[row],
                  loop->dims[last],
                  loop->strides[0][row],
                  loop->strides[0][last],
                  loop->strides[1][row],
                  loop->strides[1][last],
                  *loop};
    t->outer.n = t->n_outer;
    t->outer.dims[row] = t->outer.dims[last] = 1;
    return true;
}

static void copy_tiles(const tiling *t, const bw_op_call *call, bw_member *member)
{
    int64_t begin, end, per_outer = (t->n_rows + TILE - 1) / TILE, size = t->size;
    if (!bw_op_my_share(member, t->n_outer * per_outer, TILE * t->n_columns, 16384, &begin, &end))
        return;
    for (int64_t item = begin; item < end; item++) {
        int64_t index = item / per_outer, r0 = item % per_outer * TILE, x_at = 0, y_at = 0;
        int64_t r1 = r0 + TILE < t->n_rows ? r0 + TILE : t->n_rows;
        for (int d = t->outer.n_dims - 1; d >= 0; d--) {
            x_at += index % t->outer.dims[d] * t->outer.strides[0][d];
            y_at += index % t->outer.dims[d] * t->outer.strides[1][d];
            index /= t->outer.dims[d];
        }
        for (int64_t c = 0; c < t->n_columns; c += TILE) {
            int64_t n = t->n_columns - c < TILE ? t->n_columns - c : TILE;
            for (int64_t r = r0; r < r1; r++)
                copy_row(size, (const char *)call->in[0]->data + (x_at + r * t->x_row + c * t->x_column) * size,
                         t->x_column, (char *)call->out[0]->data + (y_at + r * t->y_row + c * t->y_column) * size,
                         t->y_column, n);
        }
    }
}

void bw_copy_typed(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    int64_t size = bw_dtype_block_bytes(x->dtype);
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 2, (const bw_tensor *[]){x, y});
    int64_t begin, end, from = bw_loop_step(&loop, 0), to = bw_loop_step(&loop, 1);
    tiling t;
    if (loop.n > 0 && find_tiling(&loop, size, &t)) {
        copy_tiles(&t, call, member);
        return;
    }
    if (!bw_op_my_share(member, (loop.n + 63) / 64, 64, 16384, &begin, &end))
        return;
    bool is_streamed = to == 1 && loop.n >= BW_STREAM_BYTES / size;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, begin * 64, end * 64 < loop.n ? end * 64 : loop.n);
    while (bw_loop_next(&cursor, &span)) {
        const char *src = (const char *)x->data + span.offset[0] * size;
        char *dst = (char *)y->data + span.offset[1] * size;
        if (is_streamed)
            stream_row(size, src, from, dst, span.n);
        else
            copy_row(size, src, from, dst, to, span.n);
    }
    if (is_streamed)
        bw_stream_end();
}
