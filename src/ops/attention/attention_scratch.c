/* Which calls the kernels can do, and the scratch they need. */
#include "attention/attention.h"

enum { WIDEST_PANEL = 32 }; /* columns of the AVX-512 kernel's panels */

/* Heads must be whole vectors. An f32 cache, which only comparisons use, is left to the reference. */
static bool fits(const bw_op_call *call, int64_t lanes)
{
    return call->in[1]->dtype != BW_F32 && call->in[2]->dtype != BW_F32 && call->in[0]->dims[2] % lanes == 0 &&
           call->out[0]->dims[2] % lanes == 0;
}

bool bw_attention_supports_avx512(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return cpu->avx512 && fits(call, 16);
}

bool bw_attention_supports_avx2(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return cpu->avx2 && fits(call, 8);
}

bool bw_attention_supports_plain(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)cpu;
    return fits(call, 4);
}

/* Prefill: rows of q, of sums, of scores, m, l and alpha; a tile of keys and one of values. Decode needs less. */
size_t bw_attention_partials_offset(const bw_op_call *call)
{
    size_t d = (size_t)call->in[0]->dims[2], d_v = (size_t)call->out[0]->dims[2];
    size_t group = (size_t)(call->in[0]->dims[1] / call->in[1]->dims[1]);
    size_t rows = group > BW_ATTENTION_ROWS ? group : BW_ATTENTION_ROWS;
    size_t d_v_padded = (d_v + WIDEST_PANEL - 1) / WIDEST_PANEL * WIDEST_PANEL;
    size_t floats = rows * (d + d_v_padded + BW_ATTENTION_SCORES + 3) + BW_ATTENTION_KEYS * (d + d_v_padded);
    return (floats + 8 * 16) * sizeof(float) / 64 * 64; /* each of eight pieces starts at a multiple of 64 bytes */
}

size_t bw_attention_scratch(const bw_op_call *call)
{
    size_t d_v = (size_t)call->out[0]->dims[2], group = (size_t)(call->in[0]->dims[1] / call->in[1]->dims[1]);
    return bw_attention_partials_offset(call) + BW_ATTENTION_SLOTS * group * (d_v + 2) * sizeof(float);
}
