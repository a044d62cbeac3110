/* MATMUL's groups with AVX512-VNNI byte products: all 16 rows of a group in one vector. Entered through
 * bw_matmul_avx512_groups, by matmul_avx512.c and matmul_amx.c, only where the processor has VNNI. */
#include "matmul_avx512.h"

#include "matmul_levels.h"

#define TEMPLATE "matmul_avx512.inc"
#include "matmul_types.inc"

#define ROW(NAME, name) [BW_##NAME] = name##_group,
bw_group_fn *const bw_matmul_avx512_groups[BW_DTYPE_COUNT] = {BW_PACKED_TYPES(ROW)};
#undef ROW
