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
    uint64_t params[40];
    bool has_params, has_expected;
    bool is_exact, is_equal; /* every byte; every value */
    int64_t reduction;
    double magnitude, step;
};

/* An entry point that a case was made for. */
typedef struct entry_point {
    bw_op op;
    char prefix[48];
    uint64_t dtypes; /* one bit each; for operations beyond Candle's the types of all their tensors */
    bool has_dtype;  /* whether the name ends in one */
} entry_point;

struct bw_case_sink {
    bw_rng rng;
    bw_device *cpu;              /* where ref runs */
    bw_device *devices[N_TEAMS]; /* what is tried: CPU teams, or one GPU and no more */
    const char *only_variant;
    bool is_list, is_nightly, is_quick;
    bw_op op; /* whose cases are being asked for */
    entry_point *entries;
    size_t n_entries, entries_capacity;
    bool is_self_tested; /* the runner has shown that it notices a corrupted element of this op */
    int n_cases;         /* of this op */
    int64_t n_passed, n_failed, n_skipped;
    int most;           /* cases of an op that are run; 0: all */
    int64_t n_left_out; /* cases, with is_quick or most */
};

/* Rows and columns for comparison. A tensor without dimensions is one row of one column. */
int64_t operand_rows(const operand *o);
int64_t operand_columns(const operand *o);
/* A type of single elements in its plain layout: each has a place of its own. */
bool operand_is_plain(const operand *o);
/* Elements from the start to (row, column) of a plain operand. */
int64_t operand_element(const operand *o, int64_t row, int64_t column);
/* Row r of what `bytes` (like o->live.data) holds, as f64 [columns]. */
void operand_decode(const operand *o, const uint8_t *bytes, int64_t row, double *dst);
/* Bytes of one row and where it begins; 0 bytes when the layout does not say. */
size_t operand_row_bytes(const operand *o, int64_t row, size_t *offset);

/* Mark each byte of o's storage that belongs to an element: 1; gaps: 0. */
void operand_mark(const operand *o, uint8_t *mask);

/* Compare o's live storage with o->expected: NULL when equal by the rule, else a static sentence. */
const char *compare_output(const bw_case *c, const operand *o, int index);

/* Remember the entry point of a call. */
void sink_note_entry(bw_case_sink *sink, const bw_op_call *call);
/* Print them: "family/entry_point dtype..." each, or each full name on a line of its own. */
void sink_print_entries(const bw_case_sink *sink, bool full_names);
/* Each line of a file, "family/name", must be the full name of one: prints those that are missing, returns how many,
 * -1 when the file cannot be read. */
int sink_require_entries(const bw_case_sink *sink, const char *path);

/* With --quick: whether this case is left out. It is run when it is the op's first or a fourth one, or when one of its
 * kernels has not yet had these types, layouts and about as many rows. names: its variants, [n]. */
bool quick_leaves_out(bw_case *c, const char *const *names, int n);

/* Every record of a fixture file (tools/fixtures/op_fixtures.py) as a case; false with a sentence on stderr when the
 * file is not what it should be. wanted: as --op. */
bool fixtures_run(bw_case_sink *sink, const char *path, const char *wanted);
bool op_is_wanted(const char *wanted, bw_op op);

void *must_alloc(size_t n_bytes);

#endif
