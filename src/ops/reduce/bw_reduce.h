/* The reduce family: Candle's reduce.cu, and log_softmax and cumsum. Owns contracts and params (plain data, shared with
 * device code). Tensors may have any strides unless a line says otherwise; an output never overlaps an input except
 * where "may be" says so.
 *
 * SUM (f32 f64 u32 f16 bf16), FAST_SUM, FAST_MIN, FAST_MAX, FAST_ARGMIN, FAST_ARGMAX (bf16 f16 f32 f64 u8 u32 i64): in
 * x; out y: x without the dimensions that params.axes names, or with them as 1; of x's type, u32 for the arg forms.
 * params: bw_reduce_params.
 *   Sums of floats are accumulated in f64 and rounded once; of integers they wrap. An empty sum is 0; the others refuse
 *   an empty reduction with a result to give.
 *   The arg forms give the index into the reduced dimensions taken in order as one; of equal values the first. At most
 *   2^32 - 1 elements are reduced to one.
 *   NaN, as in Candle on the CPU: a first element that is NaN is the result (index 0), any later NaN is passed over.
 *
 * SOFTMAX, LOG_SOFTMAX (bf16 f16 f32 f64): in x [..., D]; out y like x (may be x); over the last dimension. No params.
 *   A row with NaN or +infinity in it, or of -infinity only, becomes NaN.
 *
 * RMSNORM (bf16 f16 f32 f64): in x [..., D], w [D] or absent; out y like x (may be x): x / sqrt(mean(x^2) + eps) * w.
 * params: bw_rms_norm_params.
 * LAYERNORM (likewise): in x [..., D], w [D] or absent, b [D] or absent; out y like x (may be x):
 * (x - mean) / sqrt(variance + eps) * w + b, variance as the mean square. params: bw_layernorm_params.
 *
 * ROPE, ROPE_I (bf16 f16 f32 f64): in x [b, h, t, d], cos, sin [t, d/2] or [b, t, d/2]; out y like x (may be x). d is
 * even. ROPE turns the pairs (i, i + d/2), as GPT-NeoX; ROPE_I the pairs (2i, 2i + 1); ROPE_THD as ROPE with
 * x [b, t, h, d]. No params.
 *   y_first = x_first cos - x_second sin, y_second = x_first sin + x_second cos.
 *
 * CUMSUM (bf16 f16 f32 f64): in x; out y like x (may be x): sums along params.axis, accumulated in f64, each element
 * rounded once. params: bw_cumsum_params.
 */
#ifndef BW_REDUCE_H
#define BW_REDUCE_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

typedef struct bw_reduce_params {
    uint32_t axes; /* bit i: reduce dimension i, counted from the outermost */
} bw_reduce_params;

typedef struct bw_rms_norm_params {
    float eps;
} bw_rms_norm_params;

typedef struct bw_layernorm_params {
    float eps;
} bw_layernorm_params;

typedef struct bw_cumsum_params {
    int32_t axis; /* from the outermost, 0 on */
} bw_cumsum_params;

#endif
