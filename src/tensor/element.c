/* Elements of plain types. */
#include "bw_element.h"

#include <math.h>

bool bw_dtype_is_integer(bw_dtype dtype)
{
    return dtype == BW_I8 || dtype == BW_I16 || dtype == BW_I32 || dtype == BW_I64 || dtype == BW_U8 || dtype == BW_U32;
}

bool bw_dtype_is_float(bw_dtype dtype)
{
    return dtype == BW_F32 || dtype == BW_F16 || dtype == BW_BF16 || dtype == BW_F64 || dtype == BW_F8_E4M3;
}

int64_t bw_f64_to_i64(double value)
{
    if (isnan(value))
        return 0;
    if (value >= 0x1p63)
        return INT64_MAX;
    return value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

/* The least and most an integer type holds. */
static void integer_range(bw_dtype dtype, int64_t *low, int64_t *high)
{
    *low = dtype == BW_I8    ? INT8_MIN
           : dtype == BW_I16 ? INT16_MIN
           : dtype == BW_I32 ? INT32_MIN
           : dtype == BW_I64 ? INT64_MIN
                             : 0;
    *high = dtype == BW_I8    ? INT8_MAX
            : dtype == BW_I16 ? INT16_MAX
            : dtype == BW_I32 ? INT32_MAX
            : dtype == BW_U8  ? UINT8_MAX
            : dtype == BW_U32 ? UINT32_MAX
                              : INT64_MAX;
}

double bw_element_f64(bw_dtype dtype, const void *data, int64_t i)
{
    const uint16_t *half = data;
    switch (dtype) {
    case BW_F32:
        return (double)((const float *)data)[i];
    case BW_F64:
        return ((const double *)data)[i];
    case BW_F16:
        return (double)bw_f16_to_f32(half[i]);
    case BW_BF16:
        return (double)bw_bf16_to_f32(half[i]);
    case BW_F8_E4M3:
        return (double)bw_f8_e4m3_to_f32(((const uint8_t *)data)[i]);
    default:
        return (double)bw_element_i64(dtype, data, i);
    }
}

int64_t bw_element_i64(bw_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case BW_I8:
        return ((const int8_t *)data)[i];
    case BW_I16:
        return ((const int16_t *)data)[i];
    case BW_I32:
        return ((const int32_t *)data)[i];
    case BW_I64:
        return ((const int64_t *)data)[i];
    case BW_U8:
        return ((const uint8_t *)data)[i];
    case BW_U32:
        return ((const uint32_t *)data)[i];
    default:
        return bw_f64_to_i64(bw_element_f64(dtype, data, i));
    }
}

void bw_element_set_f64(bw_dtype dtype, void *data, int64_t i, double value)
{
    uint16_t *half = data;
    switch (dtype) {
    case BW_F32:
        ((float *)data)[i] = (float)value;
        return;
    case BW_F64:
        ((double *)data)[i] = value;
        return;
    case BW_F16:
        half[i] = bw_f32_to_f16(bw_f64_to_f32_odd(value));
        return;
    case BW_BF16:
        half[i] = bw_f32_to_bf16(bw_f64_to_f32_odd(value));
        return;
    case BW_F8_E4M3:
        ((uint8_t *)data)[i] = bw_f32_to_f8_e4m3(bw_f64_to_f32_odd(value));
        return;
    default:
        break;
    }
    int64_t low, high, v = bw_f64_to_i64(value);
    integer_range(dtype, &low, &high);
    bw_element_set_i64(dtype, data, i, v < low ? low : v > high ? high : v);
}

void bw_element_set_i64(bw_dtype dtype, void *data, int64_t i, int64_t value)
{
    switch (dtype) {
    case BW_I8:
    case BW_U8:
        ((uint8_t *)data)[i] = (uint8_t)value;
        return;
    case BW_I16:
        ((uint16_t *)data)[i] = (uint16_t)value;
        return;
    case BW_I32:
    case BW_U32:
        ((uint32_t *)data)[i] = (uint32_t)value;
        return;
    case BW_I64:
        ((int64_t *)data)[i] = value;
        return;
    case BW_F32:
        ((float *)data)[i] = (float)value;
        return;
    default:
        bw_element_set_f64(dtype, data, i, (double)value);
    }
}

double bw_element_round(bw_dtype dtype, double value)
{
    uint64_t storage[1];
    bw_element_set_f64(dtype, storage, 0, value);
    return bw_element_f64(dtype, storage, 0);
}
