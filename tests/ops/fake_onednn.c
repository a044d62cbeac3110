/* Libraries that look like oneDNN and are of no use: with FAKE_LACKS most functions are missing, else each one is there
 * and says that all went well, but running a primitive fails. With FAKE_OPENMP it says that it has OpenMP, and brings
 * functions that its own calls do not get where the program has such functions. */
#include "library/onednn_api.h"

#define EXPORT __attribute__((visibility("default")))

#if defined(FAKE_OPENMP)
#define RUNTIME BW_DNNL_RUNTIME_OPENMP
#else
#define RUNTIME BW_DNNL_RUNTIME_SEQUENTIAL
#endif

static int thing; /* what every handle points to */

EXPORT const bw_dnnl_version *dnnl_version(void);
const bw_dnnl_version *dnnl_version(void)
{
    static const bw_dnnl_version version = {2, 6, 0, "none", RUNTIME, 0};
    return &version;
}

#if defined(FAKE_OPENMP)
EXPORT int omp_get_max_threads(void);
int omp_get_max_threads(void)
{
    return 1;
}

EXPORT void omp_set_num_threads(int n);
void omp_set_num_threads(int n)
{
    (void)n;
}
#endif

#if !defined(FAKE_LACKS)
#define DNNL(name, result, arguments) EXPORT result name arguments;
BW_DNNL_FUNCTIONS
BW_DNNL_FUNCTIONS_2
#undef DNNL

bw_dnnl_status dnnl_set_max_cpu_isa(bw_dnnl_isa isa)
{
    (void)isa;
    return 0;
}

bw_dnnl_status dnnl_engine_create(bw_dnnl_engine *engine, bw_dnnl_engine_kind kind, size_t index)
{
    (void)kind;
    (void)index;
    *engine = &thing;
    return 0;
}

bw_dnnl_status dnnl_stream_create(bw_dnnl_stream *stream, bw_dnnl_engine engine, unsigned flags)
{
    (void)engine;
    (void)flags;
    *stream = &thing;
    return 0;
}

bw_dnnl_status dnnl_stream_destroy(bw_dnnl_stream stream)
{
    (void)stream;
    return 0;
}

bw_dnnl_status dnnl_primitive_attr_create(bw_dnnl_attr *attr)
{
    *attr = &thing;
    return 0;
}

bw_dnnl_status dnnl_primitive_attr_set_scratchpad_mode(bw_dnnl_attr attr, bw_dnnl_scratchpad mode)
{
    (void)attr;
    (void)mode;
    return 0;
}

bw_dnnl_status dnnl_primitive_attr_set_fpmath_mode(bw_dnnl_attr attr, bw_dnnl_fpmath mode)
{
    (void)attr;
    (void)mode;
    return 0;
}

bw_dnnl_status dnnl_primitive_desc_destroy(bw_dnnl_pd pd)
{
    (void)pd;
    return 0;
}

bw_dnnl_status dnnl_primitive_desc_query(bw_dnnl_const_pd pd, bw_dnnl_query what, int index, void *result)
{
    (void)pd;
    (void)what;
    (void)index;
    *(const char **)result = "fake:jit";
    return 0;
}

bw_dnnl_md dnnl_primitive_desc_query_md(bw_dnnl_const_pd pd, bw_dnnl_query what, int index)
{
    (void)pd;
    (void)index;
    return what == BW_DNNL_QUERY_SCRATCHPAD ? NULL : &thing;
}

bw_dnnl_status dnnl_primitive_create(bw_dnnl_primitive *primitive, bw_dnnl_const_pd pd)
{
    (void)pd;
    *primitive = &thing;
    return 0;
}

bw_dnnl_status dnnl_primitive_destroy(bw_dnnl_primitive primitive)
{
    (void)primitive;
    return 0;
}

bw_dnnl_status dnnl_primitive_execute(bw_dnnl_const_primitive primitive, bw_dnnl_stream stream, int n,
                                      const bw_dnnl_arg *args)
{
    (void)primitive;
    (void)stream;
    (void)n;
    (void)args;
    return 1; /* dnnl_out_of_memory */
}

bw_dnnl_status dnnl_reorder_primitive_desc_create(bw_dnnl_pd *pd, bw_dnnl_md src, bw_dnnl_engine src_engine,
                                                  bw_dnnl_md dst, bw_dnnl_engine dst_engine, bw_dnnl_const_attr attr)
{
    (void)src;
    (void)src_engine;
    (void)dst;
    (void)dst_engine;
    (void)attr;
    *pd = &thing;
    return 0;
}

bw_dnnl_status dnnl_memory_create(bw_dnnl_memory *memory, bw_dnnl_md md, bw_dnnl_engine engine, void *handle)
{
    (void)md;
    (void)engine;
    (void)handle;
    *memory = &thing;
    return 0;
}

bw_dnnl_status dnnl_memory_destroy(bw_dnnl_memory memory)
{
    (void)memory;
    return 0;
}

bw_dnnl_status dnnl_memory_set_data_handle(bw_dnnl_memory memory, void *handle)
{
    (void)memory;
    (void)handle;
    return 0;
}

int dnnl_memory_desc_equal(bw_dnnl_md left, bw_dnnl_md right)
{
    (void)left;
    (void)right;
    return 1;
}

size_t dnnl_memory_desc_get_size(bw_dnnl_md md)
{
    (void)md;
    return 0;
}

bw_dnnl_status dnnl_memory_desc_init_by_strides(bw_dnnl_md_2 *md, int n_dims, const int64_t *dims,
                                                bw_dnnl_data_type type, const int64_t *strides)
{
    (void)md;
    (void)n_dims;
    (void)dims;
    (void)type;
    (void)strides;
    return 0;
}

bw_dnnl_status dnnl_memory_desc_init_by_tag(bw_dnnl_md_2 *md, int n_dims, const int64_t *dims, bw_dnnl_data_type type,
                                            bw_dnnl_tag tag)
{
    (void)md;
    (void)n_dims;
    (void)dims;
    (void)type;
    (void)tag;
    return 0;
}

bw_dnnl_status dnnl_matmul_desc_init(bw_dnnl_matmul_2 *desc, bw_dnnl_md src, bw_dnnl_md weights, bw_dnnl_md bias,
                                     bw_dnnl_md dst)
{
    (void)desc;
    (void)src;
    (void)weights;
    (void)bias;
    (void)dst;
    return 0;
}

#define CONV(name)                                                                                                     \
    bw_dnnl_status name(bw_dnnl_conv_2 *desc, bw_dnnl_prop prop, bw_dnnl_alg alg, bw_dnnl_md src, bw_dnnl_md weights,  \
                        bw_dnnl_md bias, bw_dnnl_md dst, const int64_t *strides, const int64_t *dilations,             \
                        const int64_t *padding_l, const int64_t *padding_r)                                            \
    {                                                                                                                  \
        (void)desc, (void)prop, (void)alg, (void)src, (void)weights, (void)bias, (void)dst;                            \
        (void)strides, (void)dilations, (void)padding_l, (void)padding_r;                                              \
        return 0;                                                                                                      \
    }
CONV(dnnl_dilated_convolution_forward_desc_init)
CONV(dnnl_dilated_deconvolution_forward_desc_init)

bw_dnnl_status dnnl_primitive_desc_create(bw_dnnl_pd *pd, bw_dnnl_op desc, bw_dnnl_const_attr attr,
                                          bw_dnnl_engine engine, bw_dnnl_const_pd hint)
{
    (void)desc;
    (void)attr;
    (void)engine;
    (void)hint;
    *pd = &thing;
    return 0;
}
#else
EXPORT int *fake_thing(void); /* so that the file is used whole */
int *fake_thing(void)
{
    return &thing;
}
#endif
