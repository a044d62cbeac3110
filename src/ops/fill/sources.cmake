bw_op_sources(fill/fill_ref.c fill/fill_typed.c fill/copy2d_ref.c fill/copy.c)
bw_cases_sources(fill/fill_cases.c fill/copy2d_cases.c)
bw_op_sources(fill/fill_gpu.c)
bw_op_kernels(fill/fill.hip)
