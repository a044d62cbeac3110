/* The matrix tile on NVIDIA targets from sm_80 on (bw_tile.h): two mma.sync.m16n8k16. Source for where numbers lie: PTX
 * ISA, "Matrix Fragments for mma.m16n8k16" and "ldmatrix". With g = lane / 4 and t = lane % 4:
 * operand: words 0..3 are (row g, k 2t), (row g + 8, k 2t), (row g, k 2t + 8), (row g + 8, k 2t + 8), a pair each;
 * results: x[i] in row g + 8 (i / 2 % 2), column 2t + i % 2 + 8 (i / 4).
 */
#ifndef BW_TILE_NVIDIA_H
#define BW_TILE_NVIDIA_H

#define BW_TILE_IS_PLAIN false
#define BW_FRAG_ROWS 2
#define BW_FRAG_GROUPS 4
#define BW_FRAG_PAIRS 2
#define BW_ACC_EACH 8
#define BW_ACC_COLUMN_LANES 4
#define BW_ACC_COLUMNS 4
#define bw_acc_column_slot(i) ((i) % 2 + 2 * ((i) / 4))
#define BW_FRAG_GROUP_STEP 1
#define BW_FRAG_LOADS_T true

template <typename T> struct bw_frag {
    uint32_t w[4];
};
struct bw_acc {
    float x[BW_ACC_EACH];
};

#define bw_frag_word(i, j) ((i) + 2 * (j))
BW_DEVICE int bw_frag_row(int i)
{
    return bw_lane() / 4 + 8 * i;
}
BW_DEVICE int bw_frag_group(void)
{
    return bw_lane() % 4;
}
BW_DEVICE int bw_frag_k(int j)
{
    return 2 * bw_frag_group() + 8 * j;
}
BW_DEVICE int bw_acc_row(int i)
{
    return bw_lane() / 4 + 8 * (i / 2 % 2);
}
BW_DEVICE int bw_acc_column(int i)
{
    return 2 * (bw_lane() % 4) + i % 2 + 8 * (i / 4);
}

template <typename T> BW_DEVICE void bw_frag_load(bw_frag<T> &f, const T *shared, int stride)
{
    const T *from = shared + bw_lane() % 16 * stride + bw_lane() / 16 * 8;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.w[0]), "=r"(f.w[1]), "=r"(f.w[2]), "=r"(f.w[3])
                 : "r"(bw_shared_address(from))
                 : "memory");
}
/* The four 8 x 8 matrices in the order of the words, each transposed: lanes 0..7 address k 0..7 of rows 0..7, lanes
 * 8..15 k 0..7 of rows 8..15, and the others k 8..15. */
template <typename T> BW_DEVICE void bw_frag_load_t(bw_frag<T> &f, const T *shared, int stride)
{
    const T *from = shared + (bw_lane() % 8 + bw_lane() / 16 * 8) * stride + bw_lane() / 8 % 2 * 8;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.w[0]), "=r"(f.w[1]), "=r"(f.w[2]), "=r"(f.w[3])
                 : "r"(bw_shared_address(from))
                 : "memory");
}
/* Results (g, 2t), (g, 2t + 1) are a row of an 8 x 8 matrix; its transpose has row = column. Words of the operand: row
 * block i (acc's columns), k block j (acc's rows). */
template <typename T> BW_DEVICE void bw_frag_of_acc(bw_frag<T> &f, const bw_acc &acc)
{
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint32_t pair = bw_pair_put<T>(acc.x[4 * i + 2 * j], acc.x[4 * i + 2 * j + 1]);
            asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(f.w[i + 2 * j]) : "r"(pair));
        }
}

#define BW_MMA(type, acc, at, a, b0, b1)                                                                               \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "             \
        "{%8, %9}, {%0, %1, %2, %3};"                                                                                  \
        : "+f"(acc.x[at]), "+f"(acc.x[at + 1]), "+f"(acc.x[at + 2]), "+f"(acc.x[at + 3])                               \
        : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b0), "r"(b1))
BW_DEVICE void bw_mma(bw_acc &acc, const bw_frag<bw_f16> &a, const bw_frag<bw_f16> &b)
{
    BW_MMA("f16", acc, 0, a, b.w[0], b.w[2]);
    BW_MMA("f16", acc, 4, a, b.w[1], b.w[3]);
}
BW_DEVICE void bw_mma(bw_acc &acc, const bw_frag<bw_bf16> &a, const bw_frag<bw_bf16> &b)
{
    BW_MMA("bf16", acc, 0, a, b.w[0], b.w[2]);
    BW_MMA("bf16", acc, 4, a, b.w[1], b.w[3]);
}
#undef BW_MMA

#endif
