/* Floats to integers as rows: truncated, saturated, NaN 0. */
#ifndef BW_CAST_SATURATE_H
#define BW_CAST_SATURATE_H

#include <stdint.h>

/* end: the first value past the type's largest; least: its smallest, MIN and MAX as integers of the type. */
#define BW_CAST_SATURATE(x, type, MIN, MAX, least, end)                                                                \
    ((x) >= (end) ? (type)(MAX) : (x) <= (least) ? (type)(MIN) : (x) == (x) ? (type)(x) : (type)0)
#define BW_CAST_TO_u8(x) BW_CAST_SATURATE(x, uint8_t, 0, UINT8_MAX, 0, 256)
#define BW_CAST_TO_u32(x) BW_CAST_SATURATE(x, uint32_t, 0, UINT32_MAX, 0, 0x1p32f)
#define BW_CAST_TO_i16(x) BW_CAST_SATURATE(x, int16_t, INT16_MIN, INT16_MAX, -0x1p15f, 0x1p15f)
#define BW_CAST_TO_i32(x) BW_CAST_SATURATE(x, int32_t, INT32_MIN, INT32_MAX, -0x1p31f, 0x1p31f)
#define BW_CAST_TO_i64(x) BW_CAST_SATURATE(x, int64_t, INT64_MIN, INT64_MAX, -0x1p63f, 0x1p63f)

#endif
