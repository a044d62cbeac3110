/* ROPE_KV over vectors. cos and sin are computed once per token; members share the tokens. */
#include "bw_op_check.h"
#include "bw_vec.h"

bw_op_kernel BW_LEVEL(bw_rope_kv);

/* cos and sin of one position. Half layout: cos[i], sin[i] for pair i. Interleaved: each twice, and sin's first
 * negated, so that y = x cos + swap(x) sin. */
BW_INLINE void make_table(const bw_rope_kv_params *params, const float *inv_freq, double position, float *cos_table,
                          float *sin_table)
{
    const vf magnitude = vf_set1(params->magnitude);
    int64_t half = params->n_rot / 2;
    for (int64_t i = 0; i < half; i += VF_N) {
        int64_t n = half - i < VF_N ? half - i : VF_N;
        vf s, c;
        vf_sincos_angle(position, n == VF_N ? vf_load(inv_freq + i) : vf_load_n(inv_freq + i, n), &s, &c);
        s = vf_mul(s, magnitude);
        c = vf_mul(c, magnitude);
        if (!params->interleaved) {
            vf_store(cos_table + i, c); /* scratch has room for a whole vector past the end */
            vf_store(sin_table + i, s);
            continue;
        }
        float cs[VF_N], ss[VF_N];
        vf_store(cs, c);
        vf_store(ss, s);
        for (int64_t j = 0; j < n; j++) {
            cos_table[2 * (i + j)] = cos_table[2 * (i + j) + 1] = cs[j];
            sin_table[2 * (i + j)] = -ss[j];
            sin_table[2 * (i + j) + 1] = ss[j];
        }
    }
}

BW_INLINE void rotate_row(bool interleaved, int64_t n_rot, const float *cos_table, const float *sin_table,
                          const float *x, float *y, int64_t d)
{
    int64_t half = n_rot / 2, i = 0;
    if (interleaved) {
        for (; i + VF_N <= n_rot; i += VF_N) {
            vf v = vf_load(x + i);
            vf_store(y + i, vf_fma(v, vf_load(cos_table + i), vf_mul(vf_swap_pairs(v), vf_load(sin_table + i))));
        }
        if (i < n_rot) {
            int64_t n = n_rot - i;
            vf v = vf_load_n(x + i, n), swapped = vf_swap_pairs(v);
            v = vf_fma(v, vf_load_n(cos_table + i, n), vf_mul(swapped, vf_load_n(sin_table + i, n)));
            vf_store_n(y + i, v, n);
        }
    } else {
        for (; i + VF_N <= half; i += VF_N) {
            vf a = vf_load(x + i), b = vf_load(x + half + i);
            vf c = vf_load(cos_table + i), s = vf_load(sin_table + i);
            vf_store(y + i, vf_fnma(b, s, vf_mul(a, c)));
            vf_store(y + half + i, vf_fma(a, s, vf_mul(b, c)));
        }
        if (i < half) {
            int64_t n = half - i;
            vf a = vf_load_n(x + i, n), b = vf_load_n(x + half + i, n);
            vf c = vf_load_n(cos_table + i, n), s = vf_load_n(sin_table + i, n);
            vf_store_n(y + i, vf_fnma(b, s, vf_mul(a, c)), n);
            vf_store_n(y + half + i, vf_fma(a, s, vf_mul(b, c)), n);
        }
    }
    if (y != x && n_rot < d)
        memcpy(y + n_rot, x + n_rot, (size_t)(d - n_rot) * sizeof *y);
}

BW_INLINE void store_q8_0_block(const float *x, uint8_t *dst)
{
    vf most = vf_abs(vf_load(x));
    for (int i = VF_N; i < 32; i += VF_N)
        most = vf_max(vf_abs(vf_load(x + i)), most);
    float scale = vf_max_lane(most) / 127, inverse = scale > 0 ? 1 / scale : 0;
    uint16_t scale_f16 = bw_f32_to_f16(scale);
    memcpy(dst, &scale_f16, 2);
    for (int i = 0; i < 32; i += VF_N)
        vf_store_i8((int8_t *)dst + 2 + i, vf_mul(vf_load(x + i), vf_set1(inverse)));
}

/* A row of d values to its place in the cache. */
BW_INLINE void store_row(const bw_tensor *cache, int64_t row, const float *x, int64_t d)
{
    if (cache->dtype == BW_Q8_0) {
        uint8_t *dst = (uint8_t *)cache->data + row * (d / 32) * 34;
        for (int64_t b = 0; b < d / 32; b++)
            store_q8_0_block(x + b * 32, dst + b * 34);
        return;
    }
    if (cache->dtype == BW_F32) {
        memcpy((float *)cache->data + row * d, x, (size_t)d * sizeof *x);
        return;
    }
    uint16_t *dst = (uint16_t *)cache->data + row * d;
    int64_t i = 0;
    if (cache->dtype == BW_F16) {
        for (; i + VF_N <= d; i += VF_N)
            vf_store_f16(dst + i, vf_load(x + i));
        for (; i < d; i++)
            dst[i] = bw_f32_to_f16(x[i]);
    } else {
        for (; i < d; i++)
            dst[i] = bw_f32_to_bf16(x[i]);
    }
}

void BW_LEVEL(bw_rope_kv)(const bw_op_call *call, bw_member *member)
{
    const bw_rope_kv_params *params = call->params;
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *y = call->out[0];
    const bw_tensor *k_cache = call->out[1], *v_cache = call->out[2];
    const int32_t *positions = call->in[3]->data, *slots = call->in[4]->data;
    const float *inv_freq = params->n_rot ? call->in[5]->data : NULL;
    int64_t d = q->dims[2], d_v = v->dims[2], n_kv = k->dims[1], page_tokens = k_cache->dims[2], begin, end;
    if (!bw_op_my_share(member, q->dims[0], (q->dims[1] + 2 * n_kv) * d, 1024, &begin, &end))
        return;
    int64_t table_floats = (params->interleaved ? params->n_rot : params->n_rot / 2) + VF_N;
    float *cos_table = bw_op_member_scratch(call, member), *sin_table = cos_table + table_floats;
    float *row = sin_table + table_floats;
    for (int64_t t = begin; t < end; t++) {
        make_table(params, inv_freq, (double)positions[t], cos_table, sin_table);
        for (int64_t h = 0; h < q->dims[1]; h++)
            rotate_row(params->interleaved, params->n_rot, cos_table, sin_table,
                       (const float *)q->data + t * q->strides[0] + h * q->strides[1],
                       (float *)y->data + t * y->strides[0] + h * y->strides[1], d);
        int64_t page = slots[t] / page_tokens, place = slots[t] % page_tokens;
        for (int64_t h = 0; h < n_kv; h++) {
            int64_t cache_row = (page * n_kv + h) * page_tokens + place;
            rotate_row(params->interleaved, params->n_rot, cos_table, sin_table,
                       (const float *)k->data + t * k->strides[0] + h * k->strides[1], row, d);
            store_row(k_cache, cache_row, row, d);
            store_row(v_cache, cache_row, (const float *)v->data + t * v->strides[0] + h * v->strides[1], d_v);
        }
    }
}
