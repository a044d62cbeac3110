bw_op_sources(affine / affine_ref.c affine / affine_typed.c affine / affine_plain.c) if (BW_X86)
    bw_op_sources(affine / affine_avx2.c affine / affine_avx512.c) endif() bw_cases_sources(affine / affine_cases.c)
