bw_op_sources(attention/attention_ref.c attention/sdpa_ref.c
  attention/attention_gpu.c attention/sdpa_typed.c attention/sdpa_plain.c attention/attention_scratch.c attention/attention_plain.c)
if(BW_X86)
  bw_op_sources(attention/attention_avx2.c attention/attention_avx512.c
    attention/sdpa_avx2.c attention/sdpa_avx512.c)
endif()
bw_cases_sources(attention/attention_cases.c attention/sdpa_cases.c)
bw_op_kernels(attention/attention_decode.hip attention/attention_prefill.hip attention/attention_any.hip)
bw_op_sources(attention/sdpa_gpu.c)
bw_op_kernels(attention/sdpa.hip attention/sdpa_tile.hip)
