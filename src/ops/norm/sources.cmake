# bw_op_sources(norm/... .c)
