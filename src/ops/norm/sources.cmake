bw_op_sources(norm/add_rms_norm_ref.c norm/norm_plain.c
  norm/add_rms_norm_gpu.c norm/group_norm_ref.c norm/group_norm_typed.c norm/group_norm_plain.c)
if(BW_X86)
  bw_op_sources(norm/norm_avx2.c norm/norm_avx512.c norm/group_norm_avx2.c norm/group_norm_avx512.c)
endif()
bw_cases_sources(norm/add_rms_norm_cases.c norm/group_norm_cases.c)
bw_op_kernels(norm/add_rms_norm.hip)
bw_op_sources(norm/group_norm_gpu.c)
bw_op_kernels(norm/group_norm.hip)
