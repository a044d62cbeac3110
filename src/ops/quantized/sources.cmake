bw_op_sources(quantized/get_rows_ref.c quantized/get_rows_plain.c)
bw_cases_sources(quantized/get_rows_cases.c)
