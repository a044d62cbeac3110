/* The matmul family.
 *
 * MATMUL: out[..., i, j] = sum over p of a[..., i, p] * b[..., p, j]. In a [..., m, k] and b [..., k, n] of one type,
 * 2 to 6 dimensions; out [..., m, n], whose leading dimensions a's and b's are broadcast to (aligned at the last; a
 * missing one or 1 fits all). Any strides everywhere; k = 0 gives zeros; out must not overlap the inputs.
 *
 * Types: f32, f64, u8, u32, i16, i32, i64 give the same type; f16 and bf16 give the same type or f32; f8_e4m3 gives f32
 * or bf16; i8 gives i32. Short floats are multiplied exactly and summed in f32 at least, then rounded once; on a
 * processor with AMX a large bf16 product takes subnormal values for 0. Integers wrap. No params. */
#ifndef BW_MATMUL_H
#define BW_MATMUL_H

#endif
