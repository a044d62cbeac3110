# bw_op_sources(attention/... .c)
