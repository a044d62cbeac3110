/* WHERE: y = c ? a : b. In c of u8, u32, i16, i32 or i64 (not 0 selects a), a and b of one type, any of the ten, any
 * strides, each broadcast to the output's shape; out of a's type (may be a or b itself where that has out's shape).
 * Values are copied bit for bit. No params. Candle: ternary.cu. */
#ifndef BW_TERNARY_H
#define BW_TERNARY_H

#endif
