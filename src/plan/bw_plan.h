/* Plans: record op calls once, plan their memory, then run them again and again without allocating.
 *
 * Values are numbers. A value's first dimension may be symbolic (BW_DIM_*): it is set anew for each run, up to the
 * maximum given when the plan was made. The builder keeps the first error and makes every later call harmless, so only
 * bw_plan_finish needs a check.
 *
 * Owns temporaries, scratch and the order of work (where members of the team must wait for each other); refuses to know
 * what the calls mean.
 */
#ifndef BW_PLAN_H
#define BW_PLAN_H

#include "bw_ops.h"
#include "bw_str.h"

typedef struct bw_plan bw_plan;
typedef int32_t bw_value; /* BW_NO_VALUE where an optional input is absent */
enum { BW_NO_VALUE = -1 };

/* Symbolic first dimensions. */
enum {
    BW_DIM_TOKENS = -1,
    BW_DIM_OUTPUTS = -2,
    BW_DIM_SEQS = -3,
    BW_DIM_PAGES = -4,
    /* Outputs whose first logit, or whose first few, or a token drawn from which, are wanted: as many as outputs, or 0,
     * which leaves the calls out. */
    BW_DIM_BEST = -5,
    BW_DIM_TOP = -6,
    BW_DIM_DRAWN = -7,
    BW_DIM_COUNT = 7
};

/* max_dims: the largest value of each symbolic dimension, [BW_DIM_COUNT] in the order above. variant: a kernel variant
 * forced on every call, such as "ref", or NULL. */
bw_status bw_plan_new(bw_device *device, const int64_t max_dims[BW_DIM_COUNT], const char *variant, bw_plan **plan,
                      bw_err *err);
void bw_plan_free(bw_plan *plan);

/* A value whose memory the caller binds (contiguous). */
bw_value bw_plan_input(bw_plan *plan, bw_dtype dtype, int n_dims, const int64_t *dims);
/* A weight: the tensor is copied, its data is not. */
bw_value bw_plan_const(bw_plan *plan, const bw_tensor *tensor);
/* A temporary, contiguous; layout as in bw_tensor. */
bw_value bw_plan_temp(bw_plan *plan, bw_dtype dtype, uint32_t layout, int n_dims, const int64_t *dims);
/* Another shape over the same memory; dims[0] may be symbolic, strides in elements, offset in elements. */
bw_value bw_plan_view(bw_plan *plan, bw_value value, int n_dims, const int64_t *dims, const int64_t *strides,
                      int64_t offset);
/* The tensor behind a value, at its largest dims (for choosing shapes while building). */
const bw_tensor *bw_plan_tensor(const bw_plan *plan, bw_value value);

/* Record a call; params are copied. */
void bw_plan_call(bw_plan *plan, bw_op op, int n_in, const bw_value *in, int n_out, const bw_value *out,
                  const void *params, size_t params_bytes);
/* Keep this value until the end of a run, so that the caller may read it. */
void bw_plan_keep(bw_plan *plan, bw_value value);
/* Give the value a name under which a probe sees it. */
void bw_plan_name(bw_plan *plan, bw_value value, const char *format, ...) BW_PRINTF(3, 4);
/* Keep the builder's first error, for callers that find one themselves. */
void bw_plan_set_error(bw_plan *plan, const bw_err *err);

/* Check every call, choose kernels, lay out memory. */
bw_status bw_plan_finish(bw_plan *plan, bw_err *err);
/* Where an input lies; before the first run. */
void bw_plan_bind(bw_plan *plan, bw_value value, void *data);
/* The memory of a kept value after a run (valid until the next), or of any named one inside a probe. */
void *bw_plan_data(const bw_plan *plan, bw_value value);
/* Run every call whose outputs have rows. dims: this run's symbolic dimensions, each 0..max. */
bw_status bw_plan_run(bw_plan *plan, const int64_t dims[BW_DIM_COUNT], bw_err *err);

typedef void bw_plan_probe_fn(void *user, const char *name, const bw_tensor *tensor);
/* Called right after the call that writes a named value; runs are slower while set. */
void bw_plan_set_probe(bw_plan *plan, bw_plan_probe_fn *probe, void *user);
/* Time each op while on; the report lists op, variant, calls, milliseconds and share. */
void bw_plan_set_profile(bw_plan *plan, bool on);
void bw_plan_report(bw_plan *plan, bool reset, bw_str *out);
/* Bytes of temporaries and scratch. */
int64_t bw_plan_memory_bytes(const bw_plan *plan);

#endif
