# The sources of this family.
bw_op_sources(random/random_check.c random/random_ref.c random/random_torch_cpu.c random/random_blocks.c)
bw_cases_sources(random/random_cases.c)
bw_op_sources(random/random_gpu.c)
bw_op_kernels(random/random.hip)
