bw_op_sources(matmul/matmul_ref.c)
bw_cases_sources(matmul/matmul_cases.c)
bw_op_sources(matmul/matmul_gpu.c)
bw_op_kernels(matmul/matmul.hip)
