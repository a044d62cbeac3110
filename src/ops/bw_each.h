/* Elementwise kernels in f32 vectors, for every float type and every stride, compiled per CPU level like bw_vec.h
 * (which it includes). A formula is one function over blocks of contiguous f32:
 *
 *     BW_INLINE void relu_block(const void *params, const float *const *in, float *out, int64_t n, bool is_streamed)
 *
 * bw_each calls it on the tensors themselves where they are contiguous f32, and else on blocks that it converts in the
 * first cache. n is anything from 1 on; out may be one of the inputs. is_streamed: out is aligned to a line and its
 * whole vectors go past the caches (vf_put). Each element of out comes from the same element of the inputs alone,
 * wherever it stands in a block: where all tensors are dense bf16 the blocks hold them in another order.
 */
#ifndef BW_EACH_H
#define BW_EACH_H

#include "bw_op_check.h"
#include "bw_stream.h"
#include "bw_vec.h"

enum { BW_EACH_BLOCK = 512 };

typedef void bw_each_fn(const void *params, const float *const *in, float *out, int64_t n, bool is_streamed);

/* n elements, `step` apart, of any float type (or u8) to f32. */
BW_INLINE void bw_each_load(bw_dtype dtype, const void *data, int64_t step, float *dst, int64_t n)
{
    int64_t i = 0;
    if (step == 0) { /* one value for all */
        float one = (float)bw_element_f64(dtype, data, 0);
        for (; i < n; i++)
            dst[i] = one;
        return;
    }
    if (dtype == BW_F32) {
        const float *src = data;
        for (; i < n; i++)
            dst[i] = src[i * step];
        return;
    }
    if (dtype == BW_F16 || dtype == BW_BF16) {
        const uint16_t *src = data;
        if (step == 1)
            for (; i + VF_N <= n; i += VF_N)
                vf_store(dst + i, dtype == BW_F16 ? vf_load_f16(src + i) : vf_load_bf16(src + i));
        for (; i < n; i++)
            dst[i] = dtype == BW_F16 ? bw_f16_to_f32(src[i * step]) : bw_bf16_to_f32(src[i * step]);
        return;
    }
    for (; i < n; i++)
        dst[i] = (float)bw_element_f64(dtype, data, i * step);
}

/* Whether n elements, `step` apart, of a float type up to f32 are all finite. */
BW_INLINE bool bw_each_is_finite(bw_dtype dtype, const void *data, int64_t step, int64_t n)
{
    float buffer[BW_EACH_BLOCK], last = 0;
    vf sum = vf_set1(0);
    int64_t size = bw_dtype_block_bytes(dtype);
    for (int64_t i = 0, m; i < n; i += m) {
        const char *from = (const char *)data + i * step * size;
        const float *v = buffer;
        int64_t k = 0;
        m = n - i < BW_EACH_BLOCK ? n - i : BW_EACH_BLOCK;
        if (dtype == BW_F32 && step == 1)
            v = (const float *)(const void *)from;
        else
            bw_each_load(dtype, from, step, buffer, m);
        for (; k + VF_N <= m; k += VF_N) /* 0 * inf = NaN */
            sum = vf_fma(vf_load(v + k), vf_set1(0), sum);
        for (; k < m; k++)
            last += v[k] * 0;
    }
    return vf_sum(sum) + last == 0;
}

BW_INLINE void bw_each_store(bw_dtype dtype, void *data, int64_t step, const float *src, int64_t n)
{
    int64_t i = 0;
    if (dtype == BW_F32) {
        float *dst = data;
        for (; i < n; i++)
            dst[i * step] = src[i];
        return;
    }
    if (dtype == BW_F16 || dtype == BW_BF16) {
        uint16_t *dst = data;
        if (step == 1)
            for (; i + VF_N <= n; i += VF_N)
                dtype == BW_F16 ? vf_store_f16(dst + i, vf_load(src + i)) : vf_store_bf16(dst + i, vf_load(src + i));
        for (; i < n; i++)
            dst[i * step] = dtype == BW_F16 ? bw_f32_to_f16(src[i]) : bw_f32_to_bf16(src[i]);
        return;
    }
    if (dtype == BW_U8) {
        for (; i < n; i++)
            ((uint8_t *)data)[i * step] = (uint8_t)src[i];
        return;
    }
    for (; i < n; i++)
        bw_element_set_f64(dtype, data, i * step, (double)src[i]);
}

/* bw_each_store, or past the caches. n <= BW_EACH_BLOCK. */
BW_INLINE void bw_each_write(bw_dtype dtype, void *data, int64_t step, const float *src, int64_t n, bool is_streamed)
{
    if (!is_streamed) {
        bw_each_store(dtype, data, step, src, n);
    } else if (dtype == BW_F32) {
        bw_stream_copy(data, src, (size_t)n * 4);
    } else {
        uint64_t staged[BW_EACH_BLOCK];
        bw_each_store(dtype, staged, 1, src, n);
        bw_stream_copy(data, staged, (size_t)(n * bw_dtype_block_bytes(dtype)));
    }
}

/* Whether a call's output is large, dense and not one of its inputs. */
BW_INLINE bool bw_each_is_streamed(const bw_op_call *call, const bw_loop *loop, int n_in)
{
    const bw_tensor *y = call->out[0];
    if (loop->n < BW_STREAM_BYTES / 8 || loop->n * bw_dtype_block_bytes(y->dtype) < BW_STREAM_BYTES ||
        bw_loop_step(loop, n_in) != 1)
        return false;
    for (int k = 0; k < n_in; k++)
        if (call->in[k]->data == y->data)
            return false;
    return true;
}

/* Whether all tensors are dense bf16; an input may also be one value for all. */
BW_INLINE bool bw_each_is_bf16(const bw_op_call *call, const bw_loop *loop, int n_in)
{
    bool is_bf16 = call->out[0]->dtype == BW_BF16 && bw_loop_step(loop, n_in) == 1;
    for (int k = 0; k < n_in; k++)
        is_bf16 =
            is_bf16 && (bw_loop_step(loop, k) == 0 || (call->in[k]->dtype == BW_BF16 && bw_loop_step(loop, k) == 1));
    return is_bf16;
}

/* A block of dense bf16 in the order of vf_load_bf16_pairs: n is a multiple of 2 VF_N. */
BW_INLINE void bw_each_bf16_block(const bw_op_call *call, const bw_loop *loop, const int64_t *at, int n_in,
                                  bw_each_fn *fn, const void *params, int64_t n, bool is_streamed)
{
    float buffer[BW_LOOP_MAX_TENSORS][BW_EACH_BLOCK];
    const float *in[BW_LOOP_MAX_TENSORS];
    float *out = buffer[n_in];
    for (int k = 0; k < n_in; k++) {
        const uint16_t *src = (const uint16_t *)call->in[k]->data + at[k];
        in[k] = buffer[k];
        if (bw_loop_step(loop, k) == 0) {
            bw_each_load(call->in[k]->dtype,
                         (const char *)call->in[k]->data + at[k] * bw_dtype_block_bytes(call->in[k]->dtype), 0,
                         buffer[k], n);
            continue;
        }
        for (int64_t i = 0; i < n; i += 2 * VF_N) {
            vf even, odd;
            vf_load_bf16_pairs(src + i, &even, &odd);
            vf_store(buffer[k] + i, even);
            vf_store(buffer[k] + i + VF_N, odd);
        }
    }
    fn(params, in, out, n, false);
    uint16_t *dst = (uint16_t *)call->out[0]->data + at[n_in];
    for (int64_t i = 0; i < n; i += 2 * VF_N)
        vf_store_bf16_pairs(dst + i, vf_load(out + i), vf_load(out + i + VF_N), is_streamed);
}

/* A block that is converted, from element at[k] of tensor k on. */
BW_INLINE void bw_each_block(const bw_op_call *call, const bw_loop *loop, const int64_t *at, int n_in, bw_each_fn *fn,
                             const void *params, int64_t n, bool is_streamed)
{
    float buffer[BW_LOOP_MAX_TENSORS][BW_EACH_BLOCK];
    const float *in[BW_LOOP_MAX_TENSORS];
    const bw_tensor *y = call->out[0];
    char *dst = (char *)y->data + at[n_in] * bw_dtype_block_bytes(y->dtype);
    int64_t y_step = bw_loop_step(loop, n_in);
    for (int k = 0; k < n_in; k++) {
        const bw_tensor *x = call->in[k];
        int64_t step = bw_loop_step(loop, k);
        in[k] = buffer[k];
        if (x->dtype == BW_F32 && step == 1)
            in[k] = (const float *)x->data + at[k];
        else
            bw_each_load(x->dtype, (const char *)x->data + at[k] * bw_dtype_block_bytes(x->dtype), step, buffer[k], n);
    }
    if (y->dtype == BW_F32 && (y_step == 1 || n == 1)) {
        fn(params, in, (float *)(void *)dst, n, is_streamed && (uintptr_t)dst % 64 == 0);
    } else {
        fn(params, in, buffer[n_in], n, false);
        bw_each_write(y->dtype, dst, y_step, buffer[n_in], n, is_streamed);
    }
}

/* One span. Tensors in[0..n_in) and then out are the loop's tensors 0..n_in. */
BW_INLINE void bw_each_span(const bw_op_call *call, const bw_loop *loop, const bw_span *span, int n_in, bw_each_fn *fn,
                            const void *params, bool is_streamed)
{
    const bw_tensor *y = call->out[0];
    int64_t at[BW_LOOP_MAX_TENSORS], y_bytes = bw_dtype_block_bytes(y->dtype);
    bool is_bf16 = bw_each_is_bf16(call, loop, n_in), is_dense = y->dtype == BW_F32 && !is_streamed;
    for (int k = 0; k <= n_in; k++)
        at[k] = span->offset[k];
    for (int k = 0; k < n_in; k++)
        is_dense = is_dense && call->in[k]->dtype == BW_F32 && (bw_loop_step(loop, k) == 1 || span->n == 1);
    if (is_dense && (bw_loop_step(loop, n_in) == 1 || span->n == 1)) {
        const float *in[BW_LOOP_MAX_TENSORS];
        for (int k = 0; k < n_in; k++)
            in[k] = (const float *)call->in[k]->data + at[k];
        fn(params, in, (float *)y->data + at[n_in], span->n, false);
        return;
    }
    for (int64_t i = 0, n; i < span->n; i += n) {
        const char *dst = (const char *)y->data + at[n_in] * y_bytes;
        n = span->n - i < BW_EACH_BLOCK ? span->n - i : BW_EACH_BLOCK;
        if (is_streamed && i == 0)
            n = bw_stream_head(dst, y_bytes, n);
        if (is_bf16 && n >= 2 * VF_N) {
            n -= n % (2 * VF_N);
            bw_each_bf16_block(call, loop, at, n_in, fn, params, n, is_streamed && (uintptr_t)dst % 64 == 0);
        } else {
            bw_each_block(call, loop, at, n_in, fn, params, n, is_streamed);
        }
        for (int k = 0; k <= n_in; k++)
            at[k] += n * bw_loop_step(loop, k);
    }
}

/* The whole call, shared between the members: out[0] = fn(in[0..n_in)), everything broadcast to out's shape. */
BW_INLINE void bw_each(const bw_op_call *call, bw_member *member, int n_in, bw_each_fn *fn, const void *params)
{
    const bw_tensor *tensors[BW_LOOP_MAX_TENSORS];
    for (int k = 0; k < n_in; k++)
        tensors[k] = call->in[k];
    tensors[n_in] = call->out[0];
    bw_loop loop;
    bw_loop_init(&loop, call->out[0]->n_dims, call->out[0]->dims, n_in + 1, tensors);
    int64_t begin, end;
    if (!bw_op_my_share(member, (loop.n + 63) / 64, 64, 4096, &begin, &end))
        return;
    bool is_streamed = bw_each_is_streamed(call, &loop, n_in);
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, begin * 64, end * 64 < loop.n ? end * 64 : loop.n);
    while (bw_loop_next(&cursor, &span))
        bw_each_span(call, &loop, &span, n_in, fn, params, is_streamed);
    if (is_streamed)
        bw_stream_end();
}

#endif
