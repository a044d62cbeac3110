/* Private to ops/linear: what the files of one CPU level use of each other, and what variants.def names. */
#ifndef BW_LINEAR_LEVELS_H
#define BW_LINEAR_LEVELS_H

#include "linear_drive.h"

bool bw_op_quantise_act_avx2_supports(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_op_linear_avx2_supports(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_op_linear_avx512_supports(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_op_linear_amx_supports(const bw_op_call *call, const bw_cpu_features *cpu);
bw_op_kernel bw_op_quantise_act_avx2, bw_op_linear_avx2, bw_op_linear_avx512, bw_op_linear_amx;
size_t bw_op_linear_amx_scratch(const bw_op_call *call);
size_t bw_op_linear_avx2_scratch(const bw_op_call *call);

/* One group with up to 8 activation rows; NULL for types without a packed layout. Needs AVX512-VNNI. */
extern bw_group_fn *const bw_linear_avx512_groups[BW_DTYPE_COUNT];

#endif
