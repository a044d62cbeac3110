/* What the ops' checks, references and kernels share: shape sentences and rows of strided tensors. */
#ifndef BW_OP_CHECK_H
#define BW_OP_CHECK_H

#include "bw_element.h"
#include "bw_entry.h"
#include "bw_loop.h"
#include "bw_ops.h"

/* Numbers of inputs and outputs, no absent output, params where they are due. */
bw_status bw_op_check_counts(const bw_op_call *call, int n_in, int n_out, bool has_params, bw_err *err);
/* in0, in1, ..., out0, ...: f32, plain layout, n_dims >= 1, last dimension dense. what: "in0". */
bw_status bw_op_check_f32(const bw_op_call *call, const bw_tensor *t, const char *what, bw_err *err);
/* Sets of element types. */
#define BW_MASK(dtype) ((uint64_t)1 << (dtype))
#define BW_MASK_HALVES (BW_MASK(BW_F16) | BW_MASK(BW_BF16))
#define BW_MASK_F4 (BW_MASK_HALVES | BW_MASK(BW_F32) | BW_MASK(BW_F64)) /* bf16 f16 f32 f64 */
#define BW_MASK_F5 (BW_MASK_F4 | BW_MASK(BW_F8_E4M3))                   /* and f8_e4m3 */
#define BW_MASK_F4U2 (BW_MASK_F4 | BW_MASK(BW_U8) | BW_MASK(BW_U32))    /* bf16 f16 f32 f64 u8 u32 */
#define BW_MASK_STD7 (BW_MASK_F4U2 | BW_MASK(BW_I64))                   /* Candle's seven common types */
#define BW_MASK_ALL (BW_MASK_STD7 | BW_MASK(BW_F8_E4M3) | BW_MASK(BW_I16) | BW_MASK(BW_I32)) /* the ten public ones */
#define BW_MASK_IDS (BW_MASK(BW_U8) | BW_MASK(BW_U32) | BW_MASK(BW_I64))                     /* index types */
/* Present, plain, of one of these types, 0 to 6 dimensions whose product is possible; any strides. */
bw_status bw_op_check_plain(const bw_op_call *call, const bw_tensor *t, const char *what, uint64_t dtypes, bw_err *err);
/* An output: no two elements in one place, or members would write there at one time. Shown by the strides: each is
 * positive and larger than all that dimensions of smaller ones reach. bw_op_prepare asks it of every output in its
 * plain layout, so the ops' own checks need not. */
bw_status bw_op_check_output(const bw_op_call *call, const bw_tensor *t, const char *what, bw_err *err);
/* t's dimensions, aligned at the last, equal out's or are 1. */
bw_status bw_op_check_broadcast(const bw_op_call *call, const bw_tensor *t, const bw_tensor *out, const char *what,
                                bw_err *err);
/* i32, contiguous, one dimension of n elements. */
bw_status bw_op_check_i32(const bw_op_call *call, const bw_tensor *t, const char *what, int64_t n, bw_err *err);
bool bw_op_same_shape(const bw_tensor *a, const bw_tensor *b);
/* A KV cache [pages, Hkv, page_tokens, D] in f32, f16, bf16 or q8_0, contiguous, page_tokens a multiple of 8. */
bw_status bw_op_check_cache(const bw_op_call *call, const bw_tensor *t, const char *what, int64_t n_heads, int64_t d,
                            bw_err *err);

/* The CPU levels as a variant's `supports`. */
bool bw_variant_avx2(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_variant_avx512(const bw_op_call *call, const bw_cpu_features *cpu);
/* in0 of a float type that f32 holds: what kernels over vectors of f32 serve, on any CPU or with a level; and the types
 * that are left, f64 and the integers. */
bool bw_variant_f32(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_variant_f32_avx2(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_variant_f32_avx512(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_variant_not_f32(const bw_op_call *call, const bw_cpu_features *cpu);

/* A tensor seen as rows of its last dimension. Leading dimensions that follow each other without gaps are merged, so
 * that most tensors have one row stride. */
typedef struct bw_rows {
    int64_t n_rows, n_columns;
    int n_dims; /* of dims, outermost first; 1 when one stride reaches every row */
    int64_t dims[BW_MAX_DIMS], strides[BW_MAX_DIMS];
} bw_rows;

void bw_rows_init(bw_rows *rows, const bw_tensor *t);
/* Elements from data to row r. */
static inline int64_t bw_rows_offset(const bw_rows *rows, int64_t r)
{
    if (rows->n_dims == 1)
        return r * rows->strides[0];
    int64_t offset = 0;
    for (int i = rows->n_dims - 1; i >= 0; i--) {
        offset += r % rows->dims[i] * rows->strides[i];
        r /= rows->dims[i];
    }
    return offset;
}

/* An elementwise call's index space over dims (the output's) for up to BW_LOOP_MAX_TENSORS tensors, each broadcast to
 * it. */
void bw_loop_init(bw_loop *loop, int n_dims, const int64_t *dims, int n_tensors, const bw_tensor *const *tensors);
/* A run of consecutive elements of a loop's innermost dimension: its length, and for each tensor the offset of its
 * first element. From one to the next, tensor k steps by loop->strides[k][loop->n_dims - 1]. */
typedef struct bw_span {
    int64_t n, offset[BW_LOOP_MAX_TENSORS];
} bw_span;
typedef struct bw_loop_cursor {
    const bw_loop *loop;
    int64_t index[BW_LOOP_MAX_DIMS], left;
} bw_loop_cursor;
/* The spans of elements [begin, end) of the index space, in order. */
void bw_loop_begin(bw_loop_cursor *cursor, const bw_loop *loop, int64_t begin, int64_t end);
bool bw_loop_next(bw_loop_cursor *cursor, bw_span *span);
/* Stride of tensor k in a span. */
static inline int64_t bw_loop_step(const bw_loop *loop, int k)
{
    return loop->strides[k][loop->n_dims - 1];
}

/* Whether a call on n elements is worth more than one member: below `least` for each, member 0 works alone. */
static inline bool bw_op_my_share(const bw_member *member, int64_t n_items, int64_t item_elements, int64_t least,
                                  int64_t *begin, int64_t *end)
{
    if (member->size == 1 || n_items * item_elements < least * 2) {
        *begin = 0;
        *end = member->rank == 0 ? n_items : 0;
    } else {
        bw_team_split(member, n_items, 1, begin, end);
    }
    return *begin < *end;
}

#endif
