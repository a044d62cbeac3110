bw_op_sources(indexing/get_rows_ref.c indexing/get_rows_plain.c)
bw_cases_sources(indexing/get_rows_cases.c)
