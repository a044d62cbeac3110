bw_op_sources(conv/conv_ref.c conv/planes_ref.c)
bw_cases_sources(conv/conv_cases.c conv/planes_cases.c)
