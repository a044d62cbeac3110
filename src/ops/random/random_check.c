/* What the random family refuses, what it costs, and the largest value below a bound. */
#include <math.h>

#include "random/random_core.h"

static bw_status check_source(const bw_op_call *call, const bw_random_source *s, uint64_t dtypes, bw_err *err)
{
    const uint64_t most_words = (uint64_t)1 << 32;
    const bw_tensor *y = call->out[0];
    BW_TRY(bw_op_check_plain(call, y, "out0", dtypes, err));
    if (s->mode < 0 || s->mode >= BW_RANDOM_N_MODES)
        return bw_op_fail(call, err, "there is no generator %d", (int)s->mode);
    if (s->mode == BW_RANDOM_TORCH_CUDA && (s->offset % 4 != 0 || s->cuda_threads < 0 || s->cuda_threads % 256 != 0))
        return bw_op_fail(
            call, err,
            "PyTorch's CUDA generator has offsets in multiples of 4, not %llu, and threads in multiples of "
            "256, not %lld",
            (unsigned long long)s->offset, (long long)s->cuda_threads);
    if (s->mode == BW_RANDOM_TORCH_CUDA && bw_tensor_elements(y) > INT32_MAX / bw_dtype_block_bytes(y->dtype))
        return bw_op_fail(call, err, "PyTorch's CUDA generator fills at most 2 GiB in one piece");
    if (s->mode == BW_RANDOM_TORCH_CPU && s->offset > most_words)
        return bw_op_fail(call, err, "PyTorch's CPU generator cannot begin after %llu words, at most after 2^32",
                          (unsigned long long)s->offset);
    return BW_OK;
}

bw_status bw_op_rand_uniform_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 0, 1, true, err));
    const bw_rand_uniform_params *p = call->params;
    BW_TRY(check_source(call, &p->source, BW_MASK_F4, err));
    bw_dtype dtype = call->out[0]->dtype;
    if (!isfinite(bw_element_round(dtype, p->lo)) || !isfinite(bw_element_round(dtype, p->up)) || p->lo > p->up ||
        !isfinite(bw_element_round(dtype, p->up - p->lo)))
        return bw_op_fail(call, err, "the range [%g, %g) is not one of this type", p->lo, p->up);
    return BW_OK;
}

bw_status bw_op_rand_normal_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 0, 1, true, err));
    const bw_rand_normal_params *p = call->params;
    BW_TRY(check_source(call, &p->source, BW_MASK_F4, err));
    bw_dtype dtype = call->out[0]->dtype;
    if (!isfinite(bw_element_round(dtype, p->mean)) || !isfinite(bw_element_round(dtype, p->std)) || p->std < 0)
        return bw_op_fail(call, err,
                          "mean %g and standard deviation %g must be finite in this type, and the latter not "
                          "negative",
                          p->mean, p->std);
    return BW_OK;
}

bw_status bw_op_rand_bits_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 0, 1, true, err));
    const bw_rand_bits_params *p = call->params;
    return check_source(call, &p->source, BW_MASK(BW_U32) | BW_MASK(BW_I64), err);
}

static void cost(const bw_op_call *call, double flops, bw_op_cost *out)
{
    double n = (double)bw_tensor_elements(call->out[0]);
    *out = (bw_op_cost){.flops = flops * n, .bytes = n * (double)bw_dtype_block_bytes(call->out[0]->dtype)};
}

/* Ten rounds of about ten integer operations for four elements, then the distribution. */
void bw_op_rand_uniform_cost(const bw_op_call *call, bw_op_cost *out)
{
    cost(call, 28, out);
}

void bw_op_rand_normal_cost(const bw_op_call *call, bw_op_cost *out)
{
    cost(call, 60, out);
}

void bw_op_rand_bits_cost(const bw_op_call *call, bw_op_cost *out)
{
    cost(call, 25, out);
}

double bw_random_below(bw_dtype dtype, double up)
{
    double v = bw_element_round(dtype, up);
    if (v < up)
        return v;
    if (dtype == BW_F64)
        return nextafter(up, -INFINITY);
    if (dtype == BW_F32)
        return (double)nextafterf((float)v, -INFINITY);
    uint16_t bits; /* f16 and bf16: magnitudes are ordered as their patterns are */
    bw_element_set_f64(dtype, &bits, 0, v);
    if (v == 0)
        bits = 0x8001;
    else
        bits = (uint16_t)(v > 0 ? bits - 1 : bits + 1);
    return bw_element_f64(dtype, &bits, 0);
}
