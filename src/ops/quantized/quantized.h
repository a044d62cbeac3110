/* What the files of this family share. */
#ifndef BW_QUANTIZED_PRIVATE_H
#define BW_QUANTIZED_PRIVATE_H

#include "bw_op_check.h"
#include "bw_quant.h"

enum { BW_QUANT_MOST = 256 }; /* elements of the largest block; every block's size divides it */

/* A tensor of blocks (or of a plain type), n_dims dimensions (0: any number from 1 on), rows dense and whole blocks. */
bw_status bw_quant_check_blocks(const bw_op_call *call, const bw_tensor *t, const char *what, int n_dims, bw_err *err);

/* Bytes from t's first block to the one that begins at element `offset`. */
static inline int64_t bw_quant_bytes(bw_dtype dtype, int64_t offset)
{
    return offset / bw_dtype_block_elements(dtype) * bw_dtype_block_bytes(dtype);
}

/* One block of QUANTIZE: src f32 [n], importance f32 [n] or NULL, n = the type's block, or up to BW_QUANT_MOST for
 * plain types. */
void bw_quantize_block(bw_dtype dtype, const float *src, const float *importance, void *dst, int64_t n);
/* One block of QUANTIZE_Q8_1 from n <= 32 values. */
void bw_quantize_block_q8_1(const float *src, int64_t n, uint8_t *dst);

/* MUL_MAT_VEC, MUL_MAT and INDEXED_MOE_FORWARD as tasks, each a matrix [N, K] times n_columns columns. */
typedef struct bw_quant_job {
    const bw_op_call *call;
    bw_dtype dtype;
    int64_t n, k;
    int64_t w_row, x_row; /* bytes from one row of w to the next, from one column of x to the next */
    int64_t y_row;        /* elements of y likewise */
    int64_t n_tasks, n_columns;
} bw_quant_job;
typedef struct bw_quant_task {
    const uint8_t *w; /* [N] rows */
    const uint8_t *x; /* [n_columns] rows of q8_1 blocks */
    float *y;         /* [n_columns, N] */
} bw_quant_task;

void bw_quant_job_init(bw_quant_job *job, const bw_op_call *call);
/* false: there is no such matrix, and y (alone set) is to be 0. */
bool bw_quant_job_task(const bw_quant_job *job, int64_t index, bw_quant_task *task);

/* 32 weights for integer products: value = d[half] * q - m[half], half = the first or second 16. */
typedef struct bw_quant_group {
    int8_t q[32];
    float d[2], m[2];
} bw_quant_group;
enum { BW_QUANT_ROWS = 4 }; /* rows unpacked at a time */

/* Rows [row, row + n_rows) of a task; scratch is the member's. */
typedef void bw_quant_rows_fn(const bw_quant_job *job, const bw_quant_task *task, int64_t row, int64_t n_rows,
                              void *scratch);
/* A call, shared between the members by rows. */
void bw_quant_job_run(const bw_op_call *call, bw_member *member, bw_quant_rows_fn *rows);

#endif
