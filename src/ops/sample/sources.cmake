bw_op_sources(sample/row_argmax_ref.c sample/row_top_k_ref.c sample/row_sample_ref.c
    sample/sample_plain.c sample/sample_gpu.c)
bw_cases_sources(sample/sample_cases.c sample/row_sample_cases.c)
bw_op_kernels(sample/sample.hip)
