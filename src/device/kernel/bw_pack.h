/* N values of T that one instruction loads or stores: the address must be a multiple of their size, which the host sees
 * to. */
#ifndef BW_PACK_H
#define BW_PACK_H

#include "bw_kernel.h"

template <typename T, int N> struct alignas(sizeof(T) * N) bw_pack {
    T at[N];
};
typedef bw_pack<float, 4> bw_float4;

template <typename P, typename T> BW_DEVICE P bw_load_pack(const T *from)
{
    return *(const P *)(const void *)from;
}
template <typename P, typename T> BW_DEVICE void bw_store_pack(T *to, const P &pack)
{
    *(P *)(void *)to = pack;
}

#endif
