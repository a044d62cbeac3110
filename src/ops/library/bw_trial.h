/* Timed trials: whether our kernel or a library's runs for calls of a kind. Owns what was found out in this process;
 * refuses to know what the calls compute.
 *
 * The first call of a kind runs both three times on its own tensors, and the faster one computes it and every later
 * call of that kind. Members of the team agree on every step, so the kernels must be called by all of them. */
#ifndef BW_TRIAL_H
#define BW_TRIAL_H

#include "bw_ops.h"

/* What tells one kind of calls from another: op, types, sizes (rounded by bw_trial_round), layouts, threads. What is
 * not used is 0. */
enum { BW_TRIAL_WORDS = 24 };
typedef struct bw_trial_key {
    int64_t words[BW_TRIAL_WORDS];
} bw_trial_key;

/* A size to three binary digits: sizes within an eighth or so of each other share one trial. */
int64_t bw_trial_round(int64_t size);

/* A library's kernel: like bw_op_kernel, but false where this member's part failed. */
typedef bool bw_library_kernel(const bw_op_call *call, bw_member *member);

/* Bytes at the end of member 0's scratch through which the members agree: a variant's scratch_bytes include them. */
enum { BW_TRIAL_SCRATCH = 128 };

/* The library's kernel; ours if a member's part failed. */
void bw_library_run(const bw_op_call *call, bw_member *member, bw_op_kernel *ours, bw_library_kernel *theirs);
/* Whichever is faster for such calls. */
void bw_trial_run(const bw_op_call *call, bw_member *member, const bw_trial_key *key, bw_op_kernel *ours,
                  bw_library_kernel *theirs);

/* Whether such calls are known to go to the library (tests). */
typedef enum bw_trial_choice { BW_TRIAL_NEW, BW_TRIAL_RUNNING, BW_TRIAL_OURS, BW_TRIAL_THEIRS } bw_trial_choice;
bw_trial_choice bw_trial_find(const bw_trial_key *key);

#endif
