/* Our declarations of oneDNN's functions and numbers against real headers (Debian's libdnnl-dev 2.6, or a later one's
 * of oneDNN 3), at compile time, and each name against the library those belong to. */
#include <oneapi/dnnl/dnnl.h>

#include "../bw_test.h"

#include <assert.h>
#include <dlfcn.h>

/* oneDNN's own types in place of ours: each row of onednn_api.h must then be the header's declaration. */
#define BW_DNNL_HAS_TYPES
typedef dnnl_status_t bw_dnnl_status;
typedef dnnl_engine_kind_t bw_dnnl_engine_kind;
typedef dnnl_data_type_t bw_dnnl_data_type;
typedef dnnl_format_tag_t bw_dnnl_tag;
typedef dnnl_query_t bw_dnnl_query;
typedef dnnl_scratchpad_mode_t bw_dnnl_scratchpad;
typedef dnnl_fpmath_mode_t bw_dnnl_fpmath;
typedef dnnl_cpu_isa_t bw_dnnl_isa;
typedef dnnl_prop_kind_t bw_dnnl_prop;
typedef dnnl_alg_kind_t bw_dnnl_alg;
typedef dnnl_engine_t bw_dnnl_engine;
typedef dnnl_stream_t bw_dnnl_stream;
typedef dnnl_primitive_attr_t bw_dnnl_attr;
typedef const_dnnl_primitive_attr_t bw_dnnl_const_attr;
typedef dnnl_primitive_desc_t bw_dnnl_pd;
typedef const_dnnl_primitive_desc_t bw_dnnl_const_pd;
typedef dnnl_primitive_t bw_dnnl_primitive;
typedef const_dnnl_primitive_t bw_dnnl_const_primitive;
typedef dnnl_memory_t bw_dnnl_memory;
typedef dnnl_version_t bw_dnnl_version;
typedef dnnl_exec_arg_t bw_dnnl_arg;
#if DNNL_VERSION_MAJOR < 3
typedef const dnnl_memory_desc_t *bw_dnnl_md;
typedef dnnl_memory_desc_t bw_dnnl_md_2;
typedef dnnl_matmul_desc_t bw_dnnl_matmul_2;
typedef dnnl_convolution_desc_t bw_dnnl_conv_2;
typedef dnnl_deconvolution_desc_t bw_dnnl_deconv_2;
typedef const_dnnl_op_desc_t bw_dnnl_op;
#else
typedef const_dnnl_memory_desc_t bw_dnnl_md;
typedef dnnl_memory_desc_t bw_dnnl_md_3;
#endif
#include "library/onednn_api.h"

#define DNNL(name, result, arguments) static_assert(_Generic(&name, result(*) arguments : 1, default : 0), #name);
BW_DNNL_FUNCTIONS
#if DNNL_VERSION_MAJOR < 3
BW_DNNL_FUNCTIONS_2
static_assert(sizeof(dnnl_memory_desc_t) <= BW_DNNL_MD_BYTES, "");
static_assert(sizeof(dnnl_matmul_desc_t) <= BW_DNNL_OP_BYTES && sizeof(dnnl_convolution_desc_t) <= BW_DNNL_OP_BYTES &&
                  sizeof(dnnl_deconvolution_desc_t) <= BW_DNNL_OP_BYTES,
              "");
#else
BW_DNNL_FUNCTIONS_3
#endif
#undef DNNL
/* and what we have instead of those types passes as they do */
static_assert(sizeof(dnnl_status_t) == sizeof(int) && sizeof(dnnl_query_t) == sizeof(int) &&
                  sizeof(dnnl_format_tag_t) == sizeof(int) && sizeof(dnnl_prop_kind_t) == sizeof(int) &&
                  sizeof(dnnl_cpu_isa_t) == sizeof(int) && sizeof(dnnl_dim_t) == sizeof(int64_t),
              "");
static_assert(offsetof(dnnl_version_t, cpu_runtime) == 3 * sizeof(int) + 4 + sizeof(char *), "");
static_assert(sizeof(dnnl_exec_arg_t) == 2 * sizeof(void *) && offsetof(dnnl_exec_arg_t, memory) == sizeof(void *), "");

#define SAME(theirs, ours) static_assert((int)(theirs) == (int)(ours), #theirs)
SAME(dnnl_success, 0);
SAME(dnnl_cpu, BW_DNNL_CPU);
SAME(dnnl_stream_in_order, BW_DNNL_IN_ORDER);
SAME(dnnl_f16, BW_DNNL_F16);
SAME(dnnl_bf16, BW_DNNL_BF16);
SAME(dnnl_f32, BW_DNNL_F32);
SAME(dnnl_format_tag_any, BW_DNNL_ANY);
SAME(dnnl_scratchpad_mode_user, BW_DNNL_USER_SCRATCHPAD);
SAME(dnnl_fpmath_mode_strict, BW_DNNL_STRICT);
SAME(dnnl_forward_inference, BW_DNNL_INFERENCE);
SAME(dnnl_convolution_direct, BW_DNNL_CONVOLUTION);
SAME(dnnl_deconvolution_direct, BW_DNNL_DECONVOLUTION);
SAME(dnnl_query_impl_info_str, BW_DNNL_QUERY_NAME);
SAME(dnnl_query_src_md, BW_DNNL_QUERY_SRC);
SAME(dnnl_query_weights_md, BW_DNNL_QUERY_WEIGHTS);
SAME(dnnl_query_dst_md, BW_DNNL_QUERY_DST);
SAME(dnnl_query_scratchpad_md, BW_DNNL_QUERY_SCRATCHPAD);
SAME(DNNL_ARG_SRC, BW_DNNL_ARG_SRC);
SAME(DNNL_ARG_FROM, BW_DNNL_ARG_SRC);
SAME(DNNL_ARG_DST, BW_DNNL_ARG_DST);
SAME(DNNL_ARG_TO, BW_DNNL_ARG_DST);
SAME(DNNL_ARG_WEIGHTS, BW_DNNL_ARG_WEIGHTS);
SAME(DNNL_ARG_SCRATCHPAD, BW_DNNL_ARG_SCRATCHPAD);
SAME(dnnl_cpu_isa_avx2, BW_DNNL_ISA_AVX2);
SAME(DNNL_RUNTIME_SEQ, BW_DNNL_RUNTIME_SEQUENTIAL);
SAME(DNNL_RUNTIME_OMP, BW_DNNL_RUNTIME_OPENMP);

static void test_names(void **state)
{
    (void)state;
    char name[32];
    snprintf(name, sizeof name, "libdnnl.so.%d", DNNL_VERSION_MAJOR);
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        printf("SKIPPED: %s is not installed\n", name);
        return;
    }
#define DNNL(function, result, arguments) assert_non_null(dlsym(library, #function));
    BW_DNNL_FUNCTIONS
#if DNNL_VERSION_MAJOR < 3
    BW_DNNL_FUNCTIONS_2
#else
    BW_DNNL_FUNCTIONS_3
#endif
#undef DNNL
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
