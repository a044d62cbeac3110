/* The matrix tile without matrix units (bw_tile.h): GPUs that have none, and the host's simulation. A lane computes the
 * results of its column (its operand row in b) and of BW_ACC_EACH rows, and reads the other lanes' fragments.
 *
 * Lane l: operand row l % 16, group l / 16 of 16 / groups consecutive k; results of column l % 16, rows group *
 * BW_ACC_EACH + i.
 */
#ifndef BW_TILE_PLAIN_H
#define BW_TILE_PLAIN_H

#if defined(BW_KERNEL_HOST)
#define BW_TILE_IS_PLAIN (BW_WAVE == 64) /* so that the simulation runs both forms of a kernel */
#else
#define BW_TILE_IS_PLAIN true
#endif
#define BW_FRAG_ROWS 1
#define BW_FRAG_GROUPS (BW_WAVE / 16)
#define BW_FRAG_PAIRS (8 / BW_FRAG_GROUPS)
#define BW_ACC_EACH (256 / BW_WAVE)
#define BW_ACC_COLUMN_LANES 16
#define BW_ACC_COLUMNS 1
#define bw_acc_column_slot(i) 0
#define BW_FRAG_GROUP_STEP 16
#define BW_FRAG_LOADS_T false

template <typename T> struct bw_frag {
    uint32_t w[BW_FRAG_PAIRS];
};
struct bw_acc {
    float x[BW_ACC_EACH];
};

#define bw_frag_word(i, j) (j)
BW_DEVICE int bw_frag_row(int i)
{
    (void)i;
    return bw_lane() % 16;
}
BW_DEVICE int bw_frag_group(void)
{
    return bw_lane() / 16;
}
BW_DEVICE int bw_frag_k(int j)
{
    return bw_frag_group() * 2 * BW_FRAG_PAIRS + 2 * j;
}
BW_DEVICE int bw_acc_row(int i)
{
    return bw_lane() / 16 * BW_ACC_EACH + i;
}
BW_DEVICE int bw_acc_column(int i)
{
    (void)i;
    return bw_lane() % 16;
}

template <typename T> BW_DEVICE void bw_frag_load(bw_frag<T> &f, const T *shared, int stride)
{
    const uint32_t *from = (const uint32_t *)(shared + bw_frag_row(0) * stride + bw_frag_k(0));
#pragma unroll
    for (int j = 0; j < BW_FRAG_PAIRS; j++)
        f.w[j] = from[j];
}
template <typename T> BW_DEVICE void bw_frag_load_t(bw_frag<T> &f, const T *shared, int stride)
{
    const uint16_t *from = (const uint16_t *)shared + bw_frag_row(0) + bw_frag_k(0) * stride;
#pragma unroll
    for (int j = 0; j < BW_FRAG_PAIRS; j++)
        f.w[j] = (uint32_t)from[(2 * j + 1) * stride] << 16 | from[2 * j * stride];
}
template <typename T> BW_DEVICE void bw_frag_of_acc(bw_frag<T> &f, const bw_acc &acc)
{
#pragma unroll
    for (int j = 0; j < BW_FRAG_PAIRS; j++)
        f.w[j] = bw_pair_put<T>(acc.x[2 * j], acc.x[2 * j + 1]);
}

/* c + the products of two pairs. */
template <typename T> BW_DEVICE float bw_dot2(uint32_t a, uint32_t b, float c)
{
    c = bw_fma(bw_pair_low<T>(a), bw_pair_low<T>(b), c);
    return bw_fma(bw_pair_high<T>(a), bw_pair_high<T>(b), c);
}
#if defined(__gfx906__) || defined(__gfx1011__) || defined(__gfx1012__) || defined(__gfx1030__) ||                     \
    defined(__gfx1031__) || defined(__gfx1032__) || defined(__gfx1033__) || defined(__gfx1034__) ||                    \
    defined(__gfx1035__) || defined(__gfx1036__) || defined(__gfx10_3_generic__)
template <> BW_DEVICE_SPECIAL float bw_dot2<bw_f16>(uint32_t a, uint32_t b, float c)
{
    return __builtin_amdgcn_fdot2(__builtin_bit_cast(bw_half2, a), __builtin_bit_cast(bw_half2, b), c, false);
}
#endif

#if defined(BW_KERNEL_HOST)
template <typename T> BW_DEVICE void bw_mma(bw_acc &acc, const bw_frag<T> &a, const bw_frag<T> &b, SIM_HERE)
{
    struct both {
        bw_frag<T> a, b;
    } mine = {a, b};
    sim_lanes<both> all = sim_share(mine, SIM_AT);
    for (int g = 0; g < BW_FRAG_GROUPS; g++) {
        bw_frag<T> column = all[bw_lane() % 16 + 16 * g].b;
        for (int i = 0; i < BW_ACC_EACH; i++) {
            bw_frag<T> row = all[bw_acc_row(i) + 16 * g].a;
            for (int j = 0; j < BW_FRAG_PAIRS; j++)
                acc.x[i] = bw_dot2<T>(row.w[j], column.w[j], acc.x[i]);
        }
    }
}
#else
template <typename T> BW_DEVICE void bw_mma(bw_acc &acc, const bw_frag<T> &a, const bw_frag<T> &b)
{
    /* Unrolled, the shuffles of many products would come first and fill the registers. */
#pragma unroll 1
    for (int g = 0; g < BW_FRAG_GROUPS; g++)
#pragma unroll
        for (int j = 0; j < BW_FRAG_PAIRS; j++) {
            uint32_t column = bw_shuffle(b.w[j], bw_lane() % 16 + 16 * g);
#pragma unroll
            for (int i = 0; i < BW_ACC_EACH; i++)
                acc.x[i] = bw_dot2<T>(bw_shuffle(a.w[j], bw_acc_row(i) + 16 * g), column, acc.x[i]);
        }
}
#endif

#endif
