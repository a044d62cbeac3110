bw_op_sources(matmul/matmul_ref.c)
bw_cases_sources(matmul/matmul_cases.c)
