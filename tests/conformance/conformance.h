/* The insides of bw-conformance: a case with its tensors, and the sink that runs and counts. */
#ifndef BW_CONFORMANCE_H
#define BW_CONFORMANCE_H

#include "bw_cases.h"

enum { N_TEAMS = 3, GUARD = 128 }; /* teams of 1, 2, 3; guard bytes on either side of a tensor's storage */

/* A tensor's memory: guards, then n_bytes from data on. */
typedef struct storage {
    uint8_t *block, *data;
    size_t n_bytes;
} storage;

typedef struct operand {
    bw_tensor tensor;  /* data points into live */
    storage live;      /* what the kernel sees */
    uint8_t *initial;  /* [n_bytes]: its values before a run */
    uint8_t *expected; /* [n_bytes]: after ref; outputs only */
    bool absent, kept;
    int alias; /* outputs: the input it is, or -1 */
    bw_case_decode_fn *decode;
    int64_t n_columns;
} operand;

struct bw_case {
    bw_case_sink *sink;
    bw_op op;
    char name[128];
    int n_in, n_out;
    operand in[BW_OP_MAX_IN], out[BW_OP_MAX_OUT];
    uint64_t params[8];
    bool has_params;
    int64_t reduction;
    double magnitude, step;
};

struct bw_case_sink {
    bw_rng rng;
    bw_device *devices[N_TEAMS];
    const char *only_variant;
    bool is_list, is_nightly;
    bw_op op;            /* whose cases are being asked for */
    uint64_t dtypes;     /* seen in this op's cases, one bit each */
    bool is_self_tested; /* the runner has shown that it notices a corrupted element of this op */
    int n_cases;         /* of this op */
    int64_t n_passed, n_failed, n_skipped;
};

/* Rows and columns for comparison. */
int64_t operand_rows(const operand *o);
int64_t operand_columns(const operand *o);
/* Row r of what `bytes` (like o->live.data) holds, as f32 [columns]. */
void operand_decode(const operand *o, const uint8_t *bytes, int64_t row, float *dst);
/* Bytes of one row and where it begins; 0 bytes when the layout does not say. */
size_t operand_row_bytes(const operand *o, int64_t row, size_t *offset);

/* Mark each byte of o's storage that belongs to an element: 1; gaps: 0. */
void operand_mark(const operand *o, uint8_t *mask);

/* Compare o's live storage with o->expected: NULL when equal by the rule, else a static sentence. */
const char *compare_output(const bw_case *c, const operand *o, int index);

void *must_alloc(size_t n_bytes);

#endif
