/* Quantised blocks, byte-compatible with GGUF: plain decoders for every type and plain encoders. These are the
 * reference that fast kernels are held against; they favour exactness over speed.
 *
 * Decoding is exact: the same float32 value that the `gguf` Python package and ggml's scalar decoders give.
 */
#ifndef BW_QUANT_H
#define BW_QUANT_H

#include "bw_dtype.h"
#include "bw_err.h"

/* n elements (a multiple of the block) from src to dst f32 [n]. Any dtype of dtypes.def, plain ones too (I64 and F64
 * round). Returns BW_E_UNSUPPORTED never for a type in the list. src needs no alignment. */
bw_status bw_decode_row(bw_dtype dtype, const void *src, float *dst, int64_t n, bw_err *err);
/* src f32 [n] to dst. Types: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4; others
 * are BW_E_UNSUPPORTED. importance: one non-negative weight per element [n], or NULL. NaN or infinity in src is
 * BW_E_FORMAT, naming the index. Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 equal llama.cpp's bytes. */
bw_status bw_encode_row(bw_dtype dtype, const float *src, void *dst, int64_t n, const float *importance, bw_err *err);
bool bw_can_encode(bw_dtype dtype);

#endif
