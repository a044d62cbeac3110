/* LINEAR's groups with AVX512-VNNI byte products: all 16 rows of a group in one vector. Entered through
 * bw_linear_avx512_groups, by linear_avx512.c and linear_amx.c, only where the processor has VNNI. */
#include "linear_avx512.h"

#include "linear_levels.h"

#define TEMPLATE "linear_avx512.inc"
#include "linear_types.inc"

#define ROW(NAME, name) [BW_##NAME] = name##_group,
bw_group_fn *const bw_linear_avx512_groups[BW_DTYPE_COUNT] = {BW_PACKED_TYPES(ROW)};
#undef ROW
