# bw_op_sources(rope/... .c)
