/* What AMD's cards and the plain form of bw_words.h have in common: copies to shared memory go through registers. */
#ifndef BW_WORDS_REGISTERS_H
#define BW_WORDS_REGISTERS_H

BW_DEVICE float bw_nearest(float x)
{
    return __builtin_rintf(x);
}
#define BW_KERNEL_WIDE BW_KERNEL
#define BW_KERNEL_SEVERAL(block, n, name) BW_KERNEL(block, name)
#define BW_SHARED_LARGE(name, n_bytes) BW_SHARED __attribute__((aligned(16))) unsigned char name[n_bytes]

/* Through registers: loads are under way until end. */
struct bw_copy {
    static constexpr bool IS_ASYNCHRONOUS = false;
    bw_16 v;
    BW_DEVICE_SPECIAL void begin(void *shared, const void *device, bool is_there)
    {
        (void)shared;
        v = bw_16{{0, 0, 0, 0}};
        if (is_there)
            v = bw_load16(device);
    }
    BW_DEVICE_SPECIAL void end(void *shared)
    {
        bw_store16(shared, v);
    }
};
BW_DEVICE void bw_copies_commit(void)
{
}
template <int N> BW_DEVICE void bw_copies_wait(void)
{
}

#endif
