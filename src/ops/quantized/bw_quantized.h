/* The quantized family: blocks of quantised values (src/tensor/bw_quant.h says how they lie) to floats and back, and
 * products with them. Candle: quantized.cu. "Any quantised type" is every one of dtypes.def, also those that Candle has
 * no kernel for. None of these has params but GET_ROWS (bw_ops.h).
 *
 * A tensor of a quantised type has the usual dimensions, counted in elements; its rows (the last dimension) are dense
 * and whole blocks, the other strides are whole blocks too.
 *
 * DEQUANTIZE_BLOCK: in0 of any type, [.., K]; out0 f32, f16 or bf16 of that shape, any strides: the values that
 * bw_decode_row gives, rounded once more for the short types.
 *
 * QUANTIZE: in0 f32 [.., K] with dense rows, in1 absent or left out, or f32 [K], the importance of each column's
 * errors; out0 [.., K] of a type with an encoder (bw_can_encode), the bytes that bw_encode_row gives. What that refuses
 * becomes for quantised types: NaN 0, values beyond 65504 in magnitude +-65504; importances that are NaN or negative 0,
 * beyond 1e30 1e30.
 *
 * QUANTIZE_Q8_1: in0 f32 [.., K] with dense rows, any K; out0 q8_1 [.., K'], K' = K rounded up to a multiple of 512, as
 * if x went on with zeros. A block: d = max|x| / 127 (NaN does not count), q = x / d to the nearest integer, halves
 * away from zero, within +-127 (0 where d is 0 or the quotient is NaN), all in f32; the halves stored are d and s = sum
 * of x, in f32 by halving: x[i] + x[i + 16], of those i + 8, then 4, 2, 1.
 *
 * DEQUANTIZE_MUL_MAT_VEC: in0 w [N, K] of any quantised type, in1 f32 [K]; out0 f32 [N] = w in1.
 *
 * MUL_MAT_VEC: in0 w [N, K] of any quantised type, in1 x q8_1 [T, K'], K' >= K (QUANTIZE_Q8_1's padding is not read), T
 * from 1 to 8; out0 f32 [T, N], rows dense: the products of the values that the blocks stand for, a q of -128 too. The
 * stored sums s are not used.
 *
 * MUL_MAT: as MUL_MAT_VEC for any T.
 *
 * INDEXED_MOE_FORWARD: in0 w [E, N, K] of any quantised type, in1 x q8_1 [T, S, K'] or [T, 1, K'] (one row for all
 * slots), in2 ids u32 [T, S]; out0 f32 [T, S, N], rows dense: y[t, s] = w[ids[t, s]] x[t, s], zeros where there is no
 * such expert. With many tokens a GPU's matrix units take each weight to 2^-18 of it, and one that is not finite as
 * NaN.
 */
#ifndef BW_QUANTIZED_H
#define BW_QUANTIZED_H

#endif
