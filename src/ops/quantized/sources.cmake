bw_op_sources(quantized/get_rows_ref.c quantized/get_rows_plain.c quantized/dequantize_block_ref.c
              quantized/quantize_ref.c quantized/quantize_blocks.c quantized/quantize_q8_1_ref.c quantized/mul_mat_ref.c
              quantized/mul_mat_job.c quantized/quantized_plain.c)
if(BW_X86)
  bw_op_sources(quantized/quantized_avx2.c quantized/quantized_avx512.c quantized/quant_dot_avx2.c)
endif()
bw_cases_sources(quantized/get_rows_cases.c quantized/quantize_cases.c quantized/mul_mat_cases.c)
bw_op_sources(quantized/dequantize_gpu.c quantized/mul_mat_gpu.c quantized/quantize_gpu.c)
bw_op_kernels(quantized/dequantize.hip quantized/mul_mat.hip quantized/mul_mat_vec.hip quantized/moe_grouped.hip
               quantized/quantize_exact.hip quantized/quantize_k_exact.hip)
bw_op_sources(quantized/get_rows_gpu.c)
bw_op_kernels(quantized/get_rows.hip)
