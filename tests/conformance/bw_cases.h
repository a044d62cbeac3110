/* Cases of the conformance program: how an op says with which shapes, types, params and values it wants to be tried.
 *
 * Every op of ops.def owes one function bw_op_<name>_cases(sink) in src/ops/<family>/<name>_cases.c (compiled into
 * bw-conformance only; bw_cases_sources in the family's sources.cmake). It describes one case after another:
 *
 *     bw_case *c = bw_case_begin(sink, BW_OP_BADD, "same shape %lld", (long long)n);
 *     bw_tensor *a = bw_case_in(c, BW_F32, 2, (int64_t[]){t, d});
 *     bw_case_fill_normal(c, a, 1.0);
 *     ...
 *     bw_case_out(c, BW_F32, 2, (int64_t[]){t, d});
 *     bw_case_tolerance(c, 1, 0.0, 0.0);
 *     bw_case_run(c);
 *
 * The runner runs ref once and every variant that supports the call on teams of 1, 2 and 3 members; it poisons outputs
 * first (with other bytes for the team of 2, so that what is never written differs in one of them), compares by one
 * rule, checks guard bytes around and gaps inside every tensor, and that inputs did not change. A case owns its
 * tensors; bw_case_run frees them. Memory: on failure the program says so and exits 2.
 *
 * Storage starts at a multiple of 64 bytes in one case and one element (or block byte pair) past it in the next, except
 * for bw_case_in_bytes and bw_case_out_bytes, which are always at a multiple of 64.
 */
#ifndef BW_CASES_H
#define BW_CASES_H

#include "bw_ops.h"
#include "bw_rng.h"

typedef struct bw_case_sink bw_case_sink;
typedef struct bw_case bw_case;

typedef void bw_op_cases_fn(bw_case_sink *sink);
#define BW_OP(NAME, name, family, entry, formula) bw_op_cases_fn bw_op_##name##_cases;
#include "ops.def"
#undef BW_OP

/* Random numbers that follow from --seed. */
bw_rng *bw_cases_rng(bw_case_sink *sink);
/* How many random cases an op should add: a few, or with --nightly many. */
int bw_cases_n_random(bw_case_sink *sink);
/* The processor the cases run on (for layouts that depend on it). */
const bw_cpu_features *bw_cases_cpu(bw_case_sink *sink);
/* The device that is tried (likewise). */
const bw_device *bw_cases_device(bw_case_sink *sink);
/* Uniform in [low, high]. */
int64_t bw_cases_between(bw_case_sink *sink, int64_t low, int64_t high);

bw_case *bw_case_begin(bw_case_sink *sink, bw_op op, const char *name_format, ...) BW_PRINTF(3, 4);

/* The next input. Contiguous, or with strides in elements, each 0 (broadcast) or more (the storage then spans exactly
 * what they reach; the last is 1 for quantised types). Zeroed; fill it before bw_case_run. */
bw_tensor *bw_case_in(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims);
bw_tensor *bw_case_in_strided(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims, const int64_t *strides);
/* The next input of a plain type in one of the layouts every op that takes strides is tried with. */
typedef enum bw_case_layout {
    BW_CASE_CONTIGUOUS,
    BW_CASE_TRANSPOSED, /* the last two dimensions */
    BW_CASE_GAPS,       /* every stride larger than needed, the last 2 */
    BW_CASE_BROADCAST,  /* one dimension with stride 0 */
    BW_CASE_N_LAYOUTS
} bw_case_layout;
bw_tensor *bw_case_in_layout(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims, bw_case_layout layout);
/* The shapes every elementwise op is tried with: 1, odd, prime, large, without dimensions, six dimensions, empty. false
 * after the last; dims has room for BW_MAX_DIMS. */
bool bw_cases_shape(int index, int *n_dims, int64_t *dims);
/* The next input with its own description (a packed layout) and n_bytes of storage; like->data is not used. */
bw_tensor *bw_case_in_bytes(bw_case *c, const bw_tensor *like, size_t n_bytes);
/* The next input is an optional one that is not there. */
void bw_case_in_absent(bw_case *c);

/* The next output: poisoned before each run, so every element must be written. */
bw_tensor *bw_case_out(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims);
bw_tensor *bw_case_out_strided(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims, const int64_t *strides);
/* The next output in TRANSPOSED or GAPS. */
bw_tensor *bw_case_out_layout(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims, bw_case_layout layout);
bw_tensor *bw_case_out_bytes(bw_case *c, const bw_tensor *like, size_t n_bytes);
/* The next output keeps what it held where the op does not write (a cache). Fill it; rows (last dimension) that ref
 * leaves alone must stay byte for byte. */
bw_tensor *bw_case_out_kept(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims);
/* The next output is input number `in` itself. */
void bw_case_out_alias(bw_case *c, int in);

/* What output number `out` must be, as bytes of its storage, instead of ref's result (which is then held against it
 * too). initial: what it held before, for an output that is kept; else NULL. */
void bw_case_expect(bw_case *c, int out, const void *expected, const void *initial);

/* The op's params struct, copied. */
void bw_case_params(bw_case *c, const void *params, size_t n_bytes);

/* How the latest output is read for comparison when its dtype does not say (a packed layout): row r of its leading
 * dimensions as f32 [n_columns]. */
typedef void bw_case_decode_fn(const bw_tensor *t, int64_t row, float *dst, int64_t n_columns);
void bw_case_decoder(bw_case *c, bw_case_decode_fn *decode, int64_t n_columns);

/* The rule: an element passes when |got - ref| <= 2^-23 (8 + sqrt(reduction)) * max(|ref|, magnitude) + step + u,
 * with 2^-52 in place of 2^-23 for f64, and u = what one rounding to the type may differ: 0 for f32, |ref| / 2^10 +
 * 2^-24 for f16, / 2^7 for bf16, / 2^3 + 2^-9 for f8_e4m3, and for q8_0 1/127 of its block's largest |ref|; integers
 * must be equal. NaN matches NaN only, infinity the same infinity (a short float's largest value too, and f32's when
 * terms were summed). reduction: how many products or terms one element sums; magnitude: the size of those terms' sum
 * before it cancels (0 = the result's own size). */
void bw_case_tolerance(bw_case *c, int64_t reduction, double magnitude, double step);

/* Every byte of every element must be equal: a zero's sign, what a NaN carries (copies, and what gives integers). */
void bw_case_exact(bw_case *c);
/* Every element must have an equal value: 0 equals -0, and a NaN any NaN; of quantised blocks every byte. */
void bw_case_equal(bw_case *c);

/* Random normal values times scale; integers uniform in [-100, 155], [0, 255] for u8. Types without an encoder get
 * random bytes. */
void bw_case_fill_normal(bw_case *c, bw_tensor *t, double scale);
/* Uniform in [low, high); integers in [low, high]. */
void bw_case_fill_uniform(bw_case *c, bw_tensor *t, double low, double high);
/* Overwrite about n elements of a plain tensor with NaN, infinities, zeros of both signs, subnormal and huge values;
 * integers with their limits. */
void bw_case_fill_special(bw_case *c, bw_tensor *t, int n);
/* i32 values uniform in [low, high]. */
void bw_case_fill_i32(bw_case *c, bw_tensor *t, int32_t low, int32_t high);

/* Run, compare, count, free. */
void bw_case_run(bw_case *c);
/* Instead: forget it. */
void bw_case_drop(bw_case *c);
/* Instead: bw_op_prepare must refuse this call with BW_E_ARG and a sentence that begins with the op's name. Frees. */
void bw_case_refuse(bw_case *c);

#endif
