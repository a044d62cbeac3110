/* The reductions over any axes for the types that vectors of f32 do not serve: f64, u8, u32, i64. One body
 * (reduce_typed.inc) for each type; sums of integers wrap in 64 bits and are cut at the end. */
#include <math.h>

#include "bw_inline.h"
#include "reduce/reduce_space.h"

bool bw_reduce_supports_f32(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_reduce_supports_avx2(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_reduce_supports_avx512(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_reduce_supports_typed(const bw_op_call *call, const bw_cpu_features *cpu);
size_t bw_reduce_scratch(const bw_op_call *call);
bw_op_kernel bw_reduce_sum_typed, bw_reduce_min_typed, bw_reduce_max_typed, bw_reduce_argmin_typed,
    bw_reduce_argmax_typed;

bool bw_reduce_supports_f32(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)cpu;
    return (BW_MASK_HALVES | BW_MASK(BW_F32)) >> call->in[0]->dtype & 1;
}

bool bw_reduce_supports_avx2(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return cpu->avx2 && bw_reduce_supports_f32(call, cpu);
}

bool bw_reduce_supports_avx512(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return cpu->avx512 && bw_reduce_supports_f32(call, cpu);
}

bool bw_reduce_supports_typed(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return !bw_reduce_supports_f32(call, cpu);
}

size_t bw_reduce_scratch(const bw_op_call *call)
{
    (void)call;
    return BW_REDUCE_MAX_PARTIAL * sizeof(bw_reduce_state);
}

enum { COLUMNS = 512 };

#define T double
#define ACC double
#define NAME(x) x##_f64
#define FIELD value
#define LEAST (-(double)INFINITY)
#define MOST ((double)INFINITY)
#define IS_NAN(v) isnan(v)
#include "reduce/reduce_typed.inc"
#define T uint8_t
#define ACC uint64_t
#define NAME(x) x##_u8
#define FIELD word
#define LEAST 0
#define MOST UINT8_MAX
#define IS_NAN(v) false
#include "reduce/reduce_typed.inc"
#define T uint32_t
#define ACC uint64_t
#define NAME(x) x##_u32
#define FIELD word
#define LEAST 0
#define MOST UINT32_MAX
#define IS_NAN(v) false
#include "reduce/reduce_typed.inc"
#define T int64_t
#define ACC uint64_t
#define NAME(x) x##_i64
#define FIELD word
#define LEAST INT64_MIN
#define MOST INT64_MAX
#define IS_NAN(v) false
#include "reduce/reduce_typed.inc"

BW_INLINE void reduce(bw_reduce_kind kind, const bw_op_call *call, bw_member *member)
{
    switch (call->in[0]->dtype) {
    case BW_F64:
        reduce_f64(kind, call, member);
        break;
    case BW_U8:
        reduce_u8(kind, call, member);
        break;
    case BW_U32:
        reduce_u32(kind, call, member);
        break;
    default:
        reduce_i64(kind, call, member);
    }
}

#define KERNEL(name, kind)                                                                                             \
    void bw_reduce_##name##_typed(const bw_op_call *call, bw_member *member)                                           \
    {                                                                                                                  \
        reduce(BW_REDUCE_##kind, call, member);                                                                        \
    }
KERNEL(sum, SUM)
KERNEL(min, MIN)
KERNEL(max, MAX)
KERNEL(argmin, ARGMIN)
KERNEL(argmax, ARGMAX)
