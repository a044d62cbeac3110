/* The binary family, elementwise; binary.def lists the functions. In a and b of one type, any of the ten, any strides,
 * each broadcast to the output's shape; out of the same type (badd .. bminimum; may be a or b itself where that has
 * out's shape) or u8, 1 where the comparison holds (eq .. ge). No params. Candle: binary.cu.
 *
 * Floats are rounded once. A maximum or minimum with NaN is NaN (as PyTorch's and Candle's half kernels; Candle's f32
 * kernel drops the NaN and its CPU code depends on the order); comparisons with NaN are 0, but ne is 1. Integers wrap,
 * INT64_MIN / -1 too; an integer divided by 0 is 0 (Candle does not define it).
 *
 * GLU: in gate, up of f32, f16, bf16, f64 or f8_e4m3, one type, one shape, any strides; out likewise (may be gate or up
 * itself): y = act(gate) * up. silu: SwiGLU, silu-mul; gelu: GEGLU. */
#ifndef BW_BINARY_H
#define BW_BINARY_H

typedef enum bw_activation { BW_ACTIVATION_SILU, BW_ACTIVATION_GELU_TANH, BW_ACTIVATION_GELU_ERF } bw_activation;
typedef struct bw_glu_params {
    bw_activation activation;
} bw_glu_params;

#endif
