bw_op_sources(matmul/matmul.c matmul/matmul_layout.c matmul/matmul_avx2.c)
