bw_op_sources(fill/copy.c)
