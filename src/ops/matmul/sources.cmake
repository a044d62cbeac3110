# bw_op_sources(matmul/... .c)
