/* What onednn.c takes from oneDNN's headers, on its own so that a test can hold it against the real ones
 * (tests/ops/onednn_abi_test.c). oneDNN 2 passes descriptors as structs of the caller's, oneDNN 3 as handles; all other
 * functions and every number below are the same in both. */
#ifndef BW_ONEDNN_API_H
#define BW_ONEDNN_API_H

#include <stddef.h>
#include <stdint.h>

/* What oneDNN's own types are to us: handles are pointers, enums are int. A test that has the headers puts those types
 * here, and the functions below against their declarations. */
#if !defined(BW_DNNL_HAS_TYPES)
typedef int bw_dnnl_status, bw_dnnl_engine_kind, bw_dnnl_data_type, bw_dnnl_tag, bw_dnnl_query, bw_dnnl_scratchpad,
    bw_dnnl_fpmath, bw_dnnl_isa, bw_dnnl_prop, bw_dnnl_alg;
typedef void *bw_dnnl_engine, *bw_dnnl_stream, *bw_dnnl_attr, *bw_dnnl_pd, *bw_dnnl_primitive, *bw_dnnl_memory;
typedef const void *bw_dnnl_const_attr, *bw_dnnl_const_pd, *bw_dnnl_const_primitive, *bw_dnnl_op;
typedef const void *bw_dnnl_md; /* oneDNN 2: a struct's address; 3: a handle */
typedef void bw_dnnl_md_2, bw_dnnl_matmul_2, bw_dnnl_conv_2, bw_dnnl_deconv_2;
typedef void *bw_dnnl_md_3;
typedef struct bw_dnnl_version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} bw_dnnl_version;
typedef struct bw_dnnl_arg {
    int arg;
    bw_dnnl_memory memory;
} bw_dnnl_arg;
#endif

/* DNNL(name, result, arguments): in oneDNN 2.5 and later and in 3 */
#define BW_DNNL_FUNCTIONS                                                                                              \
    DNNL(dnnl_version, const bw_dnnl_version *, (void))                                                                \
    DNNL(dnnl_set_max_cpu_isa, bw_dnnl_status, (bw_dnnl_isa isa))                                                      \
    DNNL(dnnl_engine_create, bw_dnnl_status, (bw_dnnl_engine * engine, bw_dnnl_engine_kind kind, size_t index))        \
    DNNL(dnnl_stream_create, bw_dnnl_status, (bw_dnnl_stream * stream, bw_dnnl_engine engine, unsigned flags))         \
    DNNL(dnnl_stream_destroy, bw_dnnl_status, (bw_dnnl_stream stream))                                                 \
    DNNL(dnnl_primitive_attr_create, bw_dnnl_status, (bw_dnnl_attr * attr))                                            \
    DNNL(dnnl_primitive_attr_set_scratchpad_mode, bw_dnnl_status, (bw_dnnl_attr attr, bw_dnnl_scratchpad mode))        \
    DNNL(dnnl_primitive_attr_set_fpmath_mode, bw_dnnl_status, (bw_dnnl_attr attr, bw_dnnl_fpmath mode))                \
    DNNL(dnnl_primitive_desc_destroy, bw_dnnl_status, (bw_dnnl_pd pd))                                                 \
    DNNL(dnnl_primitive_desc_query, bw_dnnl_status,                                                                    \
         (bw_dnnl_const_pd pd, bw_dnnl_query what, int index, void *result))                                           \
    DNNL(dnnl_primitive_desc_query_md, bw_dnnl_md, (bw_dnnl_const_pd pd, bw_dnnl_query what, int index))               \
    DNNL(dnnl_primitive_create, bw_dnnl_status, (bw_dnnl_primitive * primitive, bw_dnnl_const_pd pd))                  \
    DNNL(dnnl_primitive_destroy, bw_dnnl_status, (bw_dnnl_primitive primitive))                                        \
    DNNL(dnnl_primitive_execute, bw_dnnl_status,                                                                       \
         (bw_dnnl_const_primitive primitive, bw_dnnl_stream stream, int n, const bw_dnnl_arg *args))                   \
    DNNL(dnnl_reorder_primitive_desc_create, bw_dnnl_status,                                                           \
         (bw_dnnl_pd * pd, bw_dnnl_md src, bw_dnnl_engine src_engine, bw_dnnl_md dst, bw_dnnl_engine dst_engine,       \
          bw_dnnl_const_attr attr))                                                                                    \
    DNNL(dnnl_memory_create, bw_dnnl_status,                                                                           \
         (bw_dnnl_memory * memory, bw_dnnl_md md, bw_dnnl_engine engine, void *handle))                                \
    DNNL(dnnl_memory_destroy, bw_dnnl_status, (bw_dnnl_memory memory))                                                 \
    DNNL(dnnl_memory_set_data_handle, bw_dnnl_status, (bw_dnnl_memory memory, void *handle))                           \
    DNNL(dnnl_memory_desc_equal, int, (bw_dnnl_md left, bw_dnnl_md right))                                             \
    DNNL(dnnl_memory_desc_get_size, size_t, (bw_dnnl_md md))

/* in oneDNN 2 only */
#define BW_DNNL_FUNCTIONS_2                                                                                            \
    DNNL(dnnl_memory_desc_init_by_strides, bw_dnnl_status,                                                             \
         (bw_dnnl_md_2 * md, int n_dims, const int64_t *dims, bw_dnnl_data_type type, const int64_t *strides))         \
    DNNL(dnnl_memory_desc_init_by_tag, bw_dnnl_status,                                                                 \
         (bw_dnnl_md_2 * md, int n_dims, const int64_t *dims, bw_dnnl_data_type type, bw_dnnl_tag tag))                \
    DNNL(dnnl_matmul_desc_init, bw_dnnl_status,                                                                        \
         (bw_dnnl_matmul_2 * desc, bw_dnnl_md src, bw_dnnl_md weights, bw_dnnl_md bias, bw_dnnl_md dst))               \
    DNNL(dnnl_dilated_convolution_forward_desc_init, bw_dnnl_status,                                                   \
         (bw_dnnl_conv_2 * desc, bw_dnnl_prop prop, bw_dnnl_alg alg, bw_dnnl_md src, bw_dnnl_md weights,               \
          bw_dnnl_md bias, bw_dnnl_md dst, const int64_t *strides, const int64_t *dilations, const int64_t *padding_l, \
          const int64_t *padding_r))                                                                                   \
    DNNL(dnnl_dilated_deconvolution_forward_desc_init, bw_dnnl_status,                                                 \
         (bw_dnnl_deconv_2 * desc, bw_dnnl_prop prop, bw_dnnl_alg alg, bw_dnnl_md src, bw_dnnl_md weights,             \
          bw_dnnl_md bias, bw_dnnl_md dst, const int64_t *strides, const int64_t *dilations, const int64_t *padding_l, \
          const int64_t *padding_r))                                                                                   \
    DNNL(dnnl_primitive_desc_create, bw_dnnl_status,                                                                   \
         (bw_dnnl_pd * pd, bw_dnnl_op desc, bw_dnnl_const_attr attr, bw_dnnl_engine engine, bw_dnnl_const_pd hint))

/* in oneDNN 3 only */
#define BW_DNNL_FUNCTIONS_3                                                                                            \
    DNNL(dnnl_memory_desc_create_with_strides, bw_dnnl_status,                                                         \
         (bw_dnnl_md_3 * md, int n_dims, const int64_t *dims, bw_dnnl_data_type type, const int64_t *strides))         \
    DNNL(dnnl_memory_desc_create_with_tag, bw_dnnl_status,                                                             \
         (bw_dnnl_md_3 * md, int n_dims, const int64_t *dims, bw_dnnl_data_type type, bw_dnnl_tag tag))                \
    DNNL(dnnl_memory_desc_destroy, bw_dnnl_status, (bw_dnnl_md_3 md))                                                  \
    DNNL(dnnl_matmul_primitive_desc_create, bw_dnnl_status,                                                            \
         (bw_dnnl_pd * pd, bw_dnnl_engine engine, bw_dnnl_md src, bw_dnnl_md weights, bw_dnnl_md bias, bw_dnnl_md dst, \
          bw_dnnl_const_attr attr))                                                                                    \
    DNNL(dnnl_convolution_forward_primitive_desc_create, bw_dnnl_status,                                               \
         (bw_dnnl_pd * pd, bw_dnnl_engine engine, bw_dnnl_prop prop, bw_dnnl_alg alg, bw_dnnl_md src,                  \
          bw_dnnl_md weights, bw_dnnl_md bias, bw_dnnl_md dst, const int64_t *strides, const int64_t *dilations,       \
          const int64_t *padding_l, const int64_t *padding_r, bw_dnnl_const_attr attr))                                \
    DNNL(dnnl_deconvolution_forward_primitive_desc_create, bw_dnnl_status,                                             \
         (bw_dnnl_pd * pd, bw_dnnl_engine engine, bw_dnnl_prop prop, bw_dnnl_alg alg, bw_dnnl_md src,                  \
          bw_dnnl_md weights, bw_dnnl_md bias, bw_dnnl_md dst, const int64_t *strides, const int64_t *dilations,       \
          const int64_t *padding_l, const int64_t *padding_r, bw_dnnl_const_attr attr))

enum {
    BW_DNNL_CPU = 1,
    BW_DNNL_IN_ORDER = 1,
    BW_DNNL_F16 = 1,
    BW_DNNL_BF16 = 2,
    BW_DNNL_F32 = 3,
    BW_DNNL_ANY = 1, /* a layout of the library's own choice */
    BW_DNNL_USER_SCRATCHPAD = 1,
    BW_DNNL_STRICT = 0,
    BW_DNNL_INFERENCE = 96,
    BW_DNNL_CONVOLUTION = 1, /* direct */
    BW_DNNL_DECONVOLUTION = 10,
    BW_DNNL_QUERY_NAME = 8,
    BW_DNNL_QUERY_SRC = 129,
    BW_DNNL_QUERY_WEIGHTS = 131,
    BW_DNNL_QUERY_DST = 133,
    BW_DNNL_QUERY_SCRATCHPAD = 136,
    BW_DNNL_ARG_SRC = 1, /* a reorder's too */
    BW_DNNL_ARG_DST = 17,
    BW_DNNL_ARG_WEIGHTS = 33,
    BW_DNNL_ARG_SCRATCHPAD = 80,
    BW_DNNL_ISA_AVX2 = 7,
    BW_DNNL_RUNTIME_SEQUENTIAL = 1,
    BW_DNNL_RUNTIME_OPENMP = 2,
    BW_DNNL_MD_BYTES = 1024, /* room for oneDNN 2's descriptors: 696, */
    BW_DNNL_OP_BYTES = 8192  /* 5976 and 2800 in 2.6 */
};

#endif
