bw_op_sources(matmul/matmul.c matmul/matmul_layout.c)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  bw_op_sources(matmul/matmul_avx2.c matmul/matmul_avx512.c matmul/matmul_amx.c)
endif()
