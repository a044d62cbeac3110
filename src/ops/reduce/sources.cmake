bw_op_sources(reduce/reduce_ref.c reduce/reduce_typed.c reduce/reduce_plain.c
  reduce/rows_ref.c reduce/rows_typed.c reduce/rows_plain.c
  reduce/rope_ref.c reduce/rope_typed.c reduce/rope_plain.c
  reduce/cumsum_ref.c reduce/cumsum_typed.c reduce/cumsum_plain.c)
if(BW_X86)
  bw_op_sources(reduce/reduce_avx2.c reduce/reduce_avx512.c reduce/rows_avx2.c reduce/rows_avx512.c
    reduce/rope_avx2.c reduce/rope_avx512.c reduce/cumsum_avx2.c reduce/cumsum_avx512.c)
endif()
bw_cases_sources(reduce/reduce_cases.c reduce/rows_cases.c reduce/rope_cases.c reduce/cumsum_cases.c)
bw_op_sources(reduce/softmax_gpu.c reduce/rows_gpu.c)
bw_op_kernels(reduce/softmax.hip reduce/rows.hip)
