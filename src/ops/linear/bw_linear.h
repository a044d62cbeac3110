/* Matrix products of activations with (quantised) weights: the packed weight layouts and activation formats of our
 * kernels. A layout is chosen once per weight, at load; a weight in packed form has bw_tensor.layout != 0, keeps its
 * dtype and shape, and takes no more bytes than its plain form plus padding (on GPUs up to a twentieth more: scales of
 * six bits become bytes).
 */
#ifndef BW_LINEAR_H
#define BW_LINEAR_H

#include "bw_ops.h"

/* The layout the best kernel on this device wants for a weight [n, k] of this dtype; 0 = leave it as it is. */
uint32_t bw_linear_choose_layout(const bw_device *device, bw_dtype dtype, int64_t n, int64_t k);
/* Bytes of a weight [n, k] in a layout (0 = plain); -1 when impossible. */
int64_t bw_linear_layout_bytes(uint32_t layout, bw_dtype dtype, int64_t n, int64_t k);
/* Pack rows [row_begin, row_end) of a plain weight into dst (the whole packed weight's address). src points at row
 * row_begin's plain bytes. row_begin is a multiple of bw_linear_layout_rows; row_end too, or n. Several threads may
 * pack different ranges. Rows [b, e) of any layout lie together, from b / n of its bytes (b a multiple of
 * bw_linear_layout_rows) on, and do not depend on others: to pack a piece elsewhere, pack rows [0, e - b). */
void bw_linear_pack_rows(uint32_t layout, bw_dtype dtype, int64_t n, int64_t k, int64_t row_begin, int64_t row_end,
                         const void *src, void *dst);
int64_t bw_linear_layout_rows(uint32_t layout);
/* One row of a weight in any layout, as f32 [k]. Exactly what bw_decode_row gives for the plain row. */
void bw_linear_decode_row(const bw_tensor *w, int64_t row, float *dst);

/* Activation formats: what in[0] of a LINEAR with this weight must be. */
enum { BW_ACT_F32 = 0 }; /* plain f32 [T, K]; others are u8 [T, bw_act_row_bytes] with .layout = the format */
uint32_t bw_linear_act_format(const bw_device *device, const bw_tensor *w);
int64_t bw_act_row_bytes(uint32_t act_format, int64_t k);
/* One of n_rows activation rows of any format back to f32 [k] (for ref and tests). */
void bw_act_decode_row(uint32_t act_format, int64_t n_rows, const void *row, float *dst, int64_t k);
/* And x f32 [k] to it, by definition; k a multiple of 32. */
void bw_act_encode_row(uint32_t act_format, int64_t n_rows, const float *x, void *row, int64_t k);

#endif
