/* The inside of arrays. Private to array/.
 *
 * An array is a description (shape, strides, first element) and a buffer with a count of the arrays that share it. */
#ifndef BW_ARRAY_PRIVATE_H
#define BW_ARRAY_PRIVATE_H

#include <stdatomic.h>

#include "bw_device.h"
#include "bw_element.h"
#include "bw_mem.h"
#include "bw_ops.h"

typedef struct array_buffer {
    _Atomic int64_t n_arrays;
    bw_device *device;
    bw_buffer memory;
    char device_name[16]; /* for the leak check, which may come after the device is closed */
} array_buffer;

struct bw_array {
    bw_tensor t; /* t.data points into buffer's memory */
    array_buffer *buffer;
    bw_array *previous, *next; /* the list of the leak check */
};

/* "name: sentence; x f32 [2, 3]", BW_E_ARG. x may be NULL. */
bw_status array_fail(bw_err *err, const char *name, const bw_array *x, const char *format, ...) BW_PRINTF(4, 5);

/* Whether the sizes that are not 0 make a shape whose bytes can be counted: an empty array's dimensions are multiplied
 * too, by strides and by operations over some of them. */
bool array_is_possible(bw_dtype dtype, int n_dims, const int64_t *dims);
/* A contiguous array of uninitialised memory. Checks type and dims, which may be the caller's own. name: of the
 * function, for errors. */
bw_status array_new(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, const char *name,
                    bw_array **out, bw_err *err);
/* Another array over x's buffer, described by t. */
bw_status array_new_view(const bw_array *x, const bw_tensor *t, bw_array **out, bw_err *err);

/* dim, counted from the end when negative, as 0..n_dims - 1; BW_E_ARG outside. */
bw_status array_dim(const char *name, const bw_array *x, int n_dims, int dim, int *out, bw_err *err);
/* Bytes from the first element to the one `elements` further (whole blocks). */
int64_t array_offset_bytes(bw_dtype dtype, int64_t elements);
static inline bool array_is_blocks(bw_dtype dtype)
{
    return bw_dtype_block_elements(dtype) > 1;
}
/* Element i of t's first dimension dim onwards: t.data moved by i strides. */
void *array_data_at(const bw_tensor *t, int dim, int64_t i);

/* One call of an op on a device, at once. in: n_in tensors' arrays, NULL where optional and absent. */
enum { ARRAY_MAX_IN = BW_OP_MAX_IN };
typedef struct array_call {
    const char *op;   /* as ops.def names it */
    const char *name; /* as the caller knows it; NULL = op */
    int n_in;
    const bw_array *in[ARRAY_MAX_IN];
    const void *params;
} array_call;

/* The device that every input lies on; BW_E_ARG when there are several or no input. */
bw_status array_call_device(const array_call *call, bw_device **device, bw_err *err);
/* The op into `out`, an existing description (n_out of them). */
bw_status array_call_into(const array_call *call, bw_device *device, bw_tensor *const *out, int n_out, bw_err *err);
/* The op into a new contiguous array. */
bw_status array_call_new(const array_call *call, bw_dtype dtype, int n_dims, const int64_t *dims, bw_array **out,
                         bw_err *err);

/* Elements of from into to's places, both of one type and shape on one device. */
bw_status array_copy_into(const char *name, const bw_array *from, bw_tensor *to, bw_err *err);
/* Make x the only owner of its buffer, contiguous or at least without two elements in one place. keeps_values: false
 * when every element is about to be written. */
bw_status array_make_own(const char *name, bw_array *x, bool keeps_values, bw_err *err);
/* The common shape of a and b by the rules of broadcasting; BW_E_ARG when there is none. */
bw_status array_common_shape(const char *name, const bw_array *a, const bw_array *b, bw_shape *shape, bw_err *err);

#endif
