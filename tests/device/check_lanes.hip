/* Kernels that tools/check_lanes.c must refuse (bad_...) and take (good_...): check_lanes_test.sh. */
#include "bw_kernel.h"

/* What bw_shuffle_xor_bits would be without bw_exchanged. */
BW_DEVICE float unfenced(float x)
{
#if defined(__GFX11__) || defined(__GFX12__)
    int bits = (int)bw_bits(x);
    return bw_from_bits((uint32_t)__builtin_amdgcn_permlanex16(bits, bits, 0x76543210, (int)0xfedcba98u, false, true));
#else
    return bw_shuffle_xor(x, 16);
#endif
}
#define KERNEL(name) BW_KERNEL(256, name)(const float *from, float *to, int n)

#if defined(__GFX11__) || defined(__GFX12__)
/* LLVM 19 sinks the exchange into the branch of the lanes that write. */
KERNEL(bad_sunk)
{
    float x = from[bw_thread()], sum = x + unfenced(x);
    if (bw_lane() < 4)
        to[bw_thread()] = sum;
}
#endif
/* Written behind a branch that some lanes take: each kind of exchange. */
#define BRANCH(name, mask)                                                                                             \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        float x = from[bw_thread()];                                                                                   \
        if (x > 1)                                                                                                     \
            to[bw_thread()] = x + bw_shuffle_xor(x, mask);                                                             \
    }
BRANCH(bad_branch_1, 1)
BRANCH(bad_branch_4, 4)
BRANCH(bad_branch_8, 8)
BRANCH(bad_branch_16, 16)
BRANCH(bad_branch_31, 31)
KERNEL(bad_else)
{
    float x = from[bw_thread()];
    if (x > 1)
        to[bw_thread()] = from[n];
    else
        to[bw_thread()] = x * bw_shuffle_xor(x, 16);
}
KERNEL(bad_loop) /* lanes leave it one after another */
{
    float x = 0;
    for (int i = bw_thread(); i < n; i += 7)
        x += bw_shuffle_xor(from[i], 16) * x;
    to[bw_thread()] = x;
}
KERNEL(bad_return)
{
    float x = from[bw_thread()];
    if (bw_thread() >= n)
        return;
    to[bw_thread()] = x + bw_shuffle_xor(x, 8);
}
KERNEL(bad_half_wave) /* a border within a wave */
{
    if (bw_thread() < 80 + 4 * n)
        to[bw_thread()] = bw_shuffle_xor(from[bw_thread()], 16);
}

KERNEL(good_fenced)
{
    float x = from[bw_thread()], sum = x + bw_shuffle_xor(x, 16);
    if (bw_lane() < 4)
        to[bw_thread()] = sum;
}
KERNEL(good_behind) /* branches of all sorts before the exchange, all left */
{
    float x = from[bw_thread()], y = 0;
    if (x > 1)
        y = from[n] * x;
    else if (x > 0 && from[2 * bw_thread()] > 3)
        y = from[n + 1];
    for (int i = bw_thread(); i < n; i += 7) {
        if (from[i] < 0)
            break;
        y += from[i];
    }
    to[bw_thread()] = y + bw_shuffle_xor(y, 16);
}
KERNEL(good_uniform) /* a branch that a scalar decides */
{
    float x = from[bw_thread()];
    if (n > 3)
        x += bw_shuffle_xor(x, 16);
    to[bw_thread()] = x;
}
KERNEL(good_wave) /* what whole waves decide by their number */
{
    float x = from[bw_thread()];
    if (bw_thread() / BW_WAVE < n)
        x = bw_wave_sum(x);
    if (bw_thread() < 64)
        x += bw_shuffle_xor(x, 2);
    for (int i = bw_thread() / BW_WAVE * 128; i < n; i += 1024)
        x += bw_shuffle_xor(x * (float)i, 16);
    to[bw_thread()] = x;
}
KERNEL(good_block)
{
    BW_SHARED float shared[256 / BW_WAVE];
    to[bw_thread()] = bw_block_sum<256>(from[bw_thread()], shared);
}
