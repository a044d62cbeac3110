/* Inside plan/ only. */
#ifndef PLAN_PRIVATE_H
#define PLAN_PRIVATE_H

#include "bw_arena.h"
#include "bw_gpu.h"
#include "bw_plan.h"

enum value_kind { VALUE_INPUT, VALUE_CONST, VALUE_TEMP, VALUE_VIEW };

struct plan_value {
    enum value_kind kind;
    bw_tensor tensor;
    int symbol;      /* 0 = fixed, else which symbolic dimension dims[0] is (1-based) */
    bw_value root;   /* itself, or what a view looks at */
    int64_t offset;  /* view: elements from the root's start */
    int first, last; /* calls that touch it or its views; root only */
    bool keep;
    int64_t place, bytes; /* temp: where in the arena */
    const char *name;
};

struct plan_call {
    bw_op_call call;
    bw_value in[BW_OP_MAX_IN], out[BW_OP_MAX_OUT];
    bool barrier; /* wait before it */
    int64_t ns, n_runs;
};

struct plan_counter {
    _Alignas(64) _Atomic int64_t next;
};

/* A step of one size, captured. */
struct plan_graph {
    int64_t dims[BW_DIM_COUNT];
    bw_gpu_graph *graph; /* NULL: seen, not captured yet */
    int64_t last_use;
};
enum { PLAN_GRAPHS = 48 };

struct bw_plan {
    bw_device *device;
    int64_t max_dims[BW_DIM_COUNT];
    char variant[16];
    bw_arena arena;
    bw_err err; /* the builder's first error */
    struct plan_value *values;
    size_t n_values, values_cap;
    struct plan_call *calls;
    size_t n_calls, calls_cap;
    struct plan_counter *counters;
    bw_buffer temp;
    int64_t temp_bytes;
    void *scratch;
    size_t scratch_bytes;
    bool finished;
    size_t run_begin, run_end;
    bw_plan_probe_fn *probe;
    void *probe_user;
    bool profile;
    /* on a GPU */
    bw_buffer gpu_scratch;
    struct plan_graph graphs[PLAN_GRAPHS];
    int n_graphs;
    int64_t n_gpu_runs;
    bool no_graphs;
    void **events; /* [n_calls + 1], while a profile is taken */
};

bw_status bw_plan_layout_memory(bw_plan *plan, bw_err *err);
void bw_plan_find_barriers(bw_plan *plan);
/* Anything to compute? */
bool bw_plan_has_rows(const bw_op_call *call);

/* gpu.c */
bw_status bw_plan_run_gpu(bw_plan *plan, const int64_t dims[BW_DIM_COUNT], bw_err *err);
void bw_plan_free_gpu(bw_plan *plan);

#endif
