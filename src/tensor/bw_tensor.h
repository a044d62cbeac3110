/* Tensors: shape, strides and where the data lies. Dimensions are outermost first, as in PyTorch (a GGUF file lists
 * them the other way round). Owns shape arithmetic; refuses to allocate device memory (that is device/). */
#ifndef BW_TENSOR_H
#define BW_TENSOR_H

#include "bw_dtype.h"
#include "bw_err.h"

typedef struct bw_shape {
    int n_dims;
    int64_t dims[BW_MAX_DIMS];
} bw_shape;

typedef struct bw_tensor {
    bw_dtype dtype;
    int n_dims;
    int64_t dims[BW_MAX_DIMS];    /* outermost first */
    int64_t strides[BW_MAX_DIMS]; /* in elements; for quantised types the last is 1 and the others whole blocks */
    void *data;                   /* first element; in the memory of the device it lives on */
    uint32_t layout;              /* 0 = as dtype says; else a kernel's own packed layout (ops/linear/) */
} bw_tensor;

/* Elements of dims[0..n_dims); -1 when a dimension is negative or the product overflows. */
int64_t bw_shape_elements(const int64_t *dims, int n_dims);
static inline int64_t bw_tensor_elements(const bw_tensor *t)
{
    return bw_shape_elements(t->dims, t->n_dims);
}
/* A contiguous tensor over data. Dims may come from a file unchecked: strides that overflow (of an impossible shape, or
 * of one that a zero makes empty) become INT64_MAX. */
bw_tensor bw_tensor_view(bw_dtype dtype, int n_dims, const int64_t *dims, const void *data);
bool bw_tensor_is_contiguous(const bw_tensor *t);
/* Bytes a contiguous tensor of this type and shape takes; -1 when impossible. */
int64_t bw_tensor_bytes(bw_dtype dtype, int n_dims, const int64_t *dims);
/* "q4_0 [576, 1536]" into out, always NUL-terminated; returns out. */
char *bw_tensor_describe(const bw_tensor *t, char *out, size_t n_out);

#endif
