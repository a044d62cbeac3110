bw_op_sources(sort/sort_ref.c sort/sort_radix.c)
bw_cases_sources(sort/sort_cases.c)
bw_op_sources(sort/sort_gpu.c)
bw_op_kernels(sort/sort.hip)
