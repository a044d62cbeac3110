/* GGUF to GGUF: the same model with its weights stored in another type. */
#ifndef BW_QUANTISE_H
#define BW_QUANTISE_H

#include "bw_dtype.h"
#include "bw_err.h"

typedef struct bw_quantise_options {
    bw_dtype dtype;           /* of matrices; one that bw_can_encode */
    bw_dtype output_dtype;    /* of output.weight, BW_DTYPE_COUNT = by rule */
    bw_dtype embedding_dtype; /* of token_embd.weight, BW_DTYPE_COUNT = by rule */
    bool pure;                /* the rule is: dtype. Else: q6_k for the matrix that gives the logits (output.weight, or
                               * token_embd.weight where there is no other) when dtype has fewer bits */
    int n_threads;            /* 0 = one per processor that this process may use */
    /* After each piece; false stops with BW_E_CANCELLED. May be NULL. */
    bool (*progress)(void *user, const char *tensor, uint64_t bytes_done, uint64_t bytes_total);
    /* A sentence about a tensor that gets another type than asked for. May be NULL. */
    void (*note)(void *user, const char *sentence);
    void *user;
} bw_quantise_options;

typedef struct bw_quantise_report {
    uint64_t bytes_in, bytes_out; /* of tensor data */
    int n_converted, n_copied;    /* tensors */
    int n_fallback; /* of the converted, in another type because the row length is no multiple of its block */
} bw_quantise_report;

/* dtype Q4_0, the rest default. */
void bw_quantise_options_init(bw_quantise_options *options);
/* in_path: a GGUF file, or the first of a split model (the result is one file). Converted are the matrices (two
 * dimensions and more) named *.weight; vectors, norms, expert routers, position and token type embeddings and
 * convolution states are copied as they are. Rows that are no multiple of 256 get a 32-block type instead (Q2_K, Q3_K
 * and IQ4_XS: IQ4_NL; Q4_K: Q5_0; Q5_K: Q5_1; Q6_K: Q8_0), rows no multiple of 32 F16; note tells. Metadata are kept,
 * but general.file_type and general.quantization_version are set, and split.* dropped. Rows are streamed: memory is a
 * few megabytes and a row per thread. The file appears whole or not at all. report may be NULL. Errors: of opening;
 * BW_E_UNSUPPORTED (a dtype that cannot be written); BW_E_FORMAT (a value that is not finite, naming tensor and row);
 * BW_E_RANGE; BW_E_IO; BW_E_MEMORY; BW_E_CANCELLED. */
bw_status bw_formats_quantise(const char *in_path, const char *out_path, const bw_quantise_options *options,
                              bw_quantise_report *report, bw_err *err);

#endif
