# bw_op_sources(binary/... .c)
