# bw_op_sources(affine/... .c)
