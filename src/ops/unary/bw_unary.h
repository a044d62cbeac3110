/* The unary family: y = f(x), elementwise; unary.def lists the functions. In x of f16, bf16, f32, f64 or f8_e4m3, any
 * strides; out of the same type and shape (may be x itself). Results are rounded once. UCOPY takes any of the ten types
 * and any strides on either side, bit for bit (x and out must not overlap).
 *
 * Where Candle and PyTorch differ, Candle's meaning holds: uround takes halves away from zero, urelu and usign of NaN
 * are 0, ugelu is the tanh form (ugelu_erf the exact one). UELU and UPOWF take their second operand, alpha or the
 * exponent, from params; no other has params. Candle: unary.cu. */
#ifndef BW_UNARY_H
#define BW_UNARY_H

typedef struct bw_unary_params {
    double param;
} bw_unary_params;

#endif
