/* SDPA: scaled dot product attention in its plain form, the definition that other attention kernels are held against.
 *
 * In q [B, H, T, D], k [B, Hkv, S, D], v [B, Hkv, S, Dv] of one type (f32 f16 bf16 f64), mask f32 broadcast to
 * [B, H, T, S] or absent; out [B, H, T, Dv] of that type. Any strides. Head h of q uses head h / (H / Hkv) of k and v.
 *
 *     s = scale * q k^T;  if softcap > 0: s = softcap * tanh(s / softcap);  s = s + mask;  out = softmax(s) v
 *
 * causal: query t sees keys 0 .. t + S - T only (the last query sees all); no query sees a key where its mask is minus
 * infinity. A key that is not seen adds nothing, even if its values are not finite (whether they show where a seen
 * key's weight is too small for f32 is open). A query that sees no key gives zeros. */
#ifndef BW_SDPA_H
#define BW_SDPA_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

typedef struct bw_sdpa_params {
    float scale, softcap; /* softcap 0: none */
    int32_t causal;
} bw_sdpa_params;

#endif
