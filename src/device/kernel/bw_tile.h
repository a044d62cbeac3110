/* The matrix tile: 16 x 16 results of products over 16 k, computed by a whole wave: mma.sync on NVIDIA, WMMA on gfx11
 * and gfx12, MFMA on gfx908, gfx90a and gfx942, multiplications and shuffles elsewhere. Owns where the numbers lie in a
 * wave's registers; refuses to know what is multiplied.
 *
 *     acc[m][n] += sum over k of a[m][k] * b[n][k]
 *
 * Both operands are 16 rows of 16 k: a weight [N, K] is an operand as it lies. T is bw_f16 or bw_bf16; sums are f32.
 * Every function is called by all lanes of a wave. A fragment holds its numbers: the memory it came from may change.
 */
#ifndef BW_TILE_H
#define BW_TILE_H

#include "bw_words.h"

/* An operand. Lane l holds BW_FRAG_ROWS rows, bw_frag_row(0) and, where there are two, bw_frag_row(1); of each row the
 * BW_FRAG_PAIRS pairs of k that belong to its group, one of BW_FRAG_GROUPS, bw_frag_group(). */
template <typename T> struct bw_frag;
/* Results. Lane l holds BW_ACC_EACH of them, x[i] in row bw_acc_row(i) and column bw_acc_column(i). */
struct bw_acc;

/* clang-format off */
/* What each vendor defines:
 *   BW_TILE_IS_PLAIN                        there are no matrix units: a product is many instructions, and a kernel should
 *                                           do its tiles one after another in a loop, or its registers spill
 *   BW_FRAG_ROWS, BW_FRAG_GROUPS, BW_FRAG_PAIRS, BW_ACC_EACH: constants
 *   int bw_frag_row(i), bw_frag_group()
 *   int bw_frag_k(j)                        the first k of the lane's pair j in the fragments that bw_frag_load gives
 *   bw_frag_word(i, j)                      where pair j of row i stands in bw_frag's w (a constant of i and j)
 *   bw_frag_load(f, shared, stride)         from [16][stride] elements of shared memory, rows aligned to 16 bytes
 *   bw_frag_load_t(f, shared, stride)       the same from k-major storage: row r, k at shared[k * stride + r]
 *   bw_mma(acc, a, b)
 *   bw_frag_of_acc(f, acc)                  rounded to T, row = acc's column, k = acc's row: what comes out of one product
 *                                           goes into the next, transposed
 *   int bw_acc_row(i), bw_acc_column(i)
 *   BW_ACC_COLUMN_LANES                     lanes that differ only in the bits BW_ACC_COLUMN_LANES - 1 hold the same rows,
 *                                           those that differ only in the other bits the same columns: see the sums below
 *   BW_ACC_COLUMNS                          different columns among a lane's results
 *   bw_acc_column_slot(i)                   which of these x[i] is in (a constant of i)
 *   BW_FRAG_GROUP_STEP                      lanes with the same operand rows are apart by multiples of this
 *   BW_FRAG_LOADS_T                         whether bw_frag_load_t is as fast as bw_frag_load
 *
 * Any order of k will do where both operands agree on it. So a kernel may fill fragments from device memory without
 * shared memory: with a row's K cut into pieces of BW_FRAG_GROUPS * E elements, the lane takes E consecutive ones,
 * those of its group, as pairs 0..E/2, and gives BW_FRAG_PAIRS of them to each of E / 2 / BW_FRAG_PAIRS
 * multiplications. */
/* clang-format on */

#if defined(BW_KERNEL_HOST)
#include "bw_tile_plain.h"
#elif defined(__HIP__)
#include "bw_tile_amd.h"
#else
#include "bw_tile_nvidia.h"
#endif

BW_DEVICE void bw_acc_zero(bw_acc &acc)
{
#pragma unroll
    for (int i = 0; i < BW_ACC_EACH; i++)
        acc.x[i] = 0;
}
/* The sum or the largest of x over the lanes that hold the same rows as this one: after a lane has combined its own
 * elements of a row, this gives the row's. */
BW_DEVICE float bw_acc_sum_columns(float x)
{
#pragma unroll
    for (int mask = BW_ACC_COLUMN_LANES / 2; mask > 0; mask >>= 1)
        x += bw_shuffle_xor(x, mask);
    return x;
}
BW_DEVICE float bw_acc_max_columns(float x)
{
#pragma unroll
    for (int mask = BW_ACC_COLUMN_LANES / 2; mask > 0; mask >>= 1) {
        float other = bw_shuffle_xor(x, mask);
        x = other > x ? other : x;
    }
    return x;
}
/* The largest of x over the lanes that hold the same operand rows. */
BW_DEVICE float bw_frag_max_groups(float x)
{
#pragma unroll
    for (int mask = BW_FRAG_GROUP_STEP * BW_FRAG_GROUPS / 2; mask >= BW_FRAG_GROUP_STEP; mask >>= 1) {
        float other = bw_shuffle_xor(x, mask);
        x = other > x ? other : x;
    }
    return x;
}
/* The same over the lanes that hold the same columns. */
BW_DEVICE float bw_acc_sum_rows(float x)
{
#pragma unroll
    for (int mask = BW_WAVE / 2; mask >= BW_ACC_COLUMN_LANES; mask >>= 1)
        x += bw_shuffle_xor(x, mask);
    return x;
}
BW_DEVICE float bw_acc_max_rows(float x)
{
#pragma unroll
    for (int mask = BW_WAVE / 2; mask >= BW_ACC_COLUMN_LANES; mask >>= 1) {
        float other = bw_shuffle_xor(x, mask);
        x = other > x ? other : x;
    }
    return x;
}

#endif
