# bw_op_sources(indexing/... .c)
