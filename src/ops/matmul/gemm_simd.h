/* Packed matrix products over vectors of f32 (gemm.h), compiled per CPU level.
 *
 * The micro-kernel holds a tile of MR x NR sums in registers and walks down two packed panels. Around it, A is packed
 * by MC x KC into the second-level cache, B by KC x NC. Two ways to share: together (all members pack one B, then take
 * blocks of it; one barrier, then two for each block of k), and alone (each member takes whole tiles). The form is that
 * of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. */
#include "bw_each.h"
#include "matmul/gemm.h"

#if defined(BW_VEC_AVX512)
enum { GEMM_MR = 12 };
#elif defined(BW_VEC_AVX2)
enum { GEMM_MR = 6 };
#else
enum { GEMM_MR = 4 };
#endif
enum { GEMM_NR = 2 * VF_N };

bw_gemm_run_fn BW_LEVEL(bw_gemm_run);
bw_gemm_one_fn BW_LEVEL(bw_gemm_one);

/* C[MR, NR] = (adds ? C : 0) + sum over p < kc of a[p][MR] b[p][NR]. */
BW_INLINE void gemm_micro(int64_t kc, const float *a, const float *b, float *c, int64_t c_m, bool adds)
{
    vf sum[GEMM_MR][2];
    BW_UNROLL
    for (int i = 0; i < GEMM_MR; i++) {
        __builtin_prefetch(c + i * c_m);
        sum[i][0] = sum[i][1] = vf_set1(0);
    }
    for (int64_t p = 0; p < kc; p++, a += GEMM_MR, b += GEMM_NR) {
        vf b0 = vf_load(b), b1 = vf_load(b + VF_N);
        BW_UNROLL
        for (int i = 0; i < GEMM_MR; i++) {
            vf x = vf_set1(a[i]);
            sum[i][0] = vf_fma(x, b0, sum[i][0]);
            sum[i][1] = vf_fma(x, b1, sum[i][1]);
        }
    }
    BW_UNROLL
    for (int i = 0; i < GEMM_MR; i++) {
        float *row = c + i * c_m;
        if (adds) {
            sum[i][0] = vf_add(sum[i][0], vf_load(row));
            sum[i][1] = vf_add(sum[i][1], vf_load(row + VF_N));
        }
        vf_store(row, sum[i][0]);
        vf_store(row + VF_N, sum[i][1]);
    }
}

/* c [m, n] f32, rows c_m apart, = or += packed a [m, kc] times packed b [kc, n]. */
static void gemm_macro(int64_t m, int64_t n, int64_t kc, const float *a, const float *b, float *c, int64_t c_m,
                       bool adds)
{
    float edge[GEMM_MR * GEMM_NR];
    for (int64_t j = 0; j < n; j += GEMM_NR) {
        const float *panel = b + j * kc;
        for (int64_t i = 0; i < m; i += GEMM_MR) {
            if (m - i >= GEMM_MR && n - j >= GEMM_NR) {
                gemm_micro(kc, a + i * kc, panel, c + i * c_m + j, c_m, adds);
                continue;
            }
            int64_t rows = m - i < GEMM_MR ? m - i : GEMM_MR, columns = n - j < GEMM_NR ? n - j : GEMM_NR;
            gemm_micro(kc, a + i * kc, panel, edge, GEMM_NR, false);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t q = 0; q < columns; q++) {
                    float *to = c + (i + r) * c_m + j + q;
                    *to = adds ? *to + edge[r * GEMM_NR + q] : edge[r * GEMM_NR + q];
                }
        }
    }
}

/* Four floats, by the compilers' vector extension. */
typedef float gemm_quad __attribute__((vector_size(16)));
BW_INLINE gemm_quad gemm_quad_load(const float *p)
{
    gemm_quad v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Four rows of four to dst[p * count + r]. */
BW_INLINE void gemm_transpose_quad(const float *const *rows, int64_t p, int64_t count, float *dst)
{
    gemm_quad a = gemm_quad_load(rows[0] + p), b = gemm_quad_load(rows[1] + p), c = gemm_quad_load(rows[2] + p),
              d = gemm_quad_load(rows[3] + p);
    gemm_quad ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    gemm_quad cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    gemm_quad out[4] = {__builtin_shufflevector(ab0, cd0, 0, 1, 4, 5), __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7),
                        __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5), __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7)};
    for (int i = 0; i < 4; i++)
        memcpy(dst + (p + i) * count, &out[i], sizeof out[i]);
}

/* Rows of n f32 each to dst[p][count], p < n, with zeros in columns from n_rows on. */
BW_INLINE void gemm_interleave(const float *const *rows, int64_t n_rows, int64_t count, int64_t n, float *dst)
{
    if (n_rows < count)
        memset(dst, 0, (size_t)(count * n) * sizeof *dst);
    int64_t r = 0;
    for (; r + 4 <= n_rows; r += 4) {
        int64_t p = 0;
        for (; p + 4 <= n; p += 4)
            gemm_transpose_quad(rows + r, p, count, dst + r);
        for (; p < n; p++)
            for (int q = 0; q < 4; q++)
                dst[p * count + r + q] = rows[r + q][p];
    }
    for (; r + 2 <= n_rows; r += 2)
        for (int64_t p = 0; p < n; p++) {
            dst[p * count + r] = rows[r][p];
            dst[p * count + r + 1] = rows[r + 1][p];
        }
    for (; r < n_rows; r++)
        for (int64_t p = 0; p < n; p++)
            dst[p * count + r] = rows[r][p];
}

/* A's rows [i0, i0 + m), columns [k0, k0 + kc) into panels of MR rows: dst[(i / MR * kc + p) * MR + i % MR]. */
static void gemm_pack_a(const bw_gemm *g, int64_t i0, int64_t m, int64_t k0, int64_t kc, float *dst)
{
    float buffer[GEMM_MR][BW_GEMM_KC];
    const float *rows[GEMM_MR];
    int64_t size = bw_dtype_block_bytes(g->a_dtype);
    for (int64_t i = 0; i < m; i += GEMM_MR, dst += GEMM_MR * kc) {
        int64_t n_rows = m - i < GEMM_MR ? m - i : GEMM_MR;
        for (int64_t r = 0; r < n_rows; r++) {
            int64_t row = (i0 + i + r) * g->a_m;
            if (g->a_dtype == BW_F32 && g->a_k == 1 && g->a_inner == g->k) {
                rows[r] = (const float *)g->a + row + k0;
                /* The next panel's row: its start wakes the processor's own prefetching. */
                if (i + r + GEMM_MR < m)
                    for (int64_t line = 0; line < 4; line++)
                        __builtin_prefetch(rows[r] + GEMM_MR * g->a_m + line * 16);
                continue;
            }
            rows[r] = buffer[r];
            for (int64_t p = 0, count; p < kc; p += count) {
                int64_t outer = (k0 + p) / g->a_inner, inner = (k0 + p) % g->a_inner;
                count = g->a_inner - inner < kc - p ? g->a_inner - inner : kc - p;
                int64_t at = row + outer * g->a_outer + inner * g->a_k;
                bw_each_load(g->a_dtype, (const char *)g->a + at * size, g->a_k, buffer[r] + p, count);
            }
        }
        gemm_interleave(rows, n_rows, GEMM_MR, kc, dst);
    }
}

/* `count` panels of NR columns of a B whose columns are dense, in one type. */
BW_INLINE void gemm_pack_dense(bw_dtype dtype, const void *b, int64_t b_k, int64_t kc, int count, float *dst)
{
    for (int64_t p = 0; p < kc; p++)
        for (int q = 0; q < count; q++) {
            float *to = dst + (q * kc + p) * GEMM_NR;
            vf_store(to, vf_load_as(dtype, b, p * b_k + q * GEMM_NR));
            vf_store(to + VF_N, vf_load_as(dtype, b, p * b_k + q * GEMM_NR + VF_N));
        }
}

static void gemm_pack_b(const bw_gemm *g, int64_t k0, int64_t kc, int64_t j0, int64_t n, float *dst)
{
    if (g->pack_b) {
        g->pack_b(g, GEMM_NR, k0, kc, j0, n, dst);
        return;
    }
    float buffer[GEMM_NR][BW_GEMM_KC];
    const float *rows[GEMM_NR];
    int64_t size = bw_dtype_block_bytes(g->b_dtype), j = 0;
    bool is_short = g->b_dtype == BW_F32 || g->b_dtype == BW_F16 || g->b_dtype == BW_BF16;
    while (is_short && g->b_n == 1 && n - j >= GEMM_NR) {
        const char *from = (const char *)g->b + (k0 * g->b_k + j0 + j) * size;
        int count = n - j >= 4 * GEMM_NR ? 4 : 1;
        if (g->b_dtype == BW_F32)
            gemm_pack_dense(BW_F32, from, g->b_k, kc, count, dst);
        else if (g->b_dtype == BW_F16)
            gemm_pack_dense(BW_F16, from, g->b_k, kc, count, dst);
        else
            gemm_pack_dense(BW_BF16, from, g->b_k, kc, count, dst);
        dst += count * kc * GEMM_NR;
        j += count * GEMM_NR;
    }
    for (; j < n; j += GEMM_NR, dst += GEMM_NR * kc) {
        int64_t n_rows = n - j < GEMM_NR ? n - j : GEMM_NR;
        for (int64_t r = 0; r < n_rows; r++) {
            int64_t at = k0 * g->b_k + (j0 + j + r) * g->b_n;
            rows[r] = (const float *)g->b + at;
            if (g->b_dtype != BW_F32 || g->b_k != 1) {
                bw_each_load(g->b_dtype, (const char *)g->b + at * size, g->b_k, buffer[r], kc);
                rows[r] = buffer[r];
            }
        }
        gemm_interleave(rows, n_rows, GEMM_NR, kc, dst);
    }
}

/* One member computes rows [i0, i0 + m) and columns [j0, j0 + n), m <= MC and n <= TILE_N, over all of k. scratch: its
 * own, BW_GEMM_SCRATCH bytes. */
static void gemm_tile(const bw_gemm *g, int64_t i0, int64_t m, int64_t j0, int64_t n, float *scratch)
{
    float *a = scratch, *b = a + BW_GEMM_MC * BW_GEMM_KC, *sums = b + BW_GEMM_TILE_N * BW_GEMM_KC;
    bool is_direct = g->c_dtype == BW_F32 && g->c_n == 1;
    float *c = is_direct ? (float *)g->c + i0 * g->c_m + j0 : sums;
    int64_t c_m = is_direct ? g->c_m : BW_GEMM_TILE_N, k0 = 0;
    do {
        int64_t kc = g->k - k0 < BW_GEMM_KC ? g->k - k0 : BW_GEMM_KC;
        gemm_pack_b(g, k0, kc, j0, n, b);
        gemm_pack_a(g, i0, m, k0, kc, a);
        gemm_macro(m, n, kc, a, b, c, c_m, k0 > 0 || g->adds);
        k0 += kc;
    } while (k0 < g->k);
    int64_t size = bw_dtype_block_bytes(g->c_dtype);
    for (int64_t i = 0; i < m && !is_direct; i++)
        bw_each_store(g->c_dtype, (char *)g->c + ((i0 + i) * g->c_m + j0 * g->c_n) * size, g->c_n, sums + i * c_m, n);
}

void BW_LEVEL(bw_gemm_one)(const bw_gemm *g, float *scratch)
{
    for (int64_t j = 0; j < g->n; j += BW_GEMM_TILE_N)
        for (int64_t i = 0; i < g->m; i += BW_GEMM_MC)
            gemm_tile(g, i, g->m - i < BW_GEMM_MC ? g->m - i : BW_GEMM_MC, j,
                      g->n - j < BW_GEMM_TILE_N ? g->n - j : BW_GEMM_TILE_N, scratch);
}

/* Tiles of all items, shared between the members. */
static void gemm_alone(const bw_op_call *call, bw_member *member, bw_gemm *g, int64_t n_items, bw_gemm_item_fn *get,
                       const void *context)
{
    int64_t tile_m = g->m < BW_GEMM_MC ? g->m : BW_GEMM_MC, tile_n = g->n < BW_GEMM_TILE_N ? g->n : BW_GEMM_TILE_N;
    if (g->m == 0 || g->n == 0)
        return;
    /* Balanced, and enough of them for every member. */
    int64_t n_i = (g->m + tile_m - 1) / tile_m, n_j = (g->n + tile_n - 1) / tile_n;
    while (n_items * n_i * n_j < 2 * member->size && g->n / n_j > 4 * GEMM_NR && g->k * g->m * g->n > 1 << 15)
        n_j++;
    while (n_items * n_i * n_j < 2 * member->size && g->m / n_i > 4 * GEMM_MR && g->k * g->m * g->n > 1 << 15)
        n_i++;
    tile_m = ((g->m + n_i - 1) / n_i + GEMM_MR - 1) / GEMM_MR * GEMM_MR;
    tile_n = ((g->n + n_j - 1) / n_j + GEMM_NR - 1) / GEMM_NR * GEMM_NR;
    n_i = (g->m + tile_m - 1) / tile_m;
    n_j = (g->n + tile_n - 1) / tile_n;
    /* Small products are taken several at a time. */
    int64_t work = g->m * g->n * (g->k + 8) / (n_i * n_j), at_once = work > 1 << 14 ? 1 : (1 << 14) / (work + 1) + 1;
    float *scratch = bw_op_member_scratch(call, member);
    int64_t begin, end, last = -1;
    while (bw_team_take(call->next, n_items * n_i * n_j, at_once, &begin, &end)) {
        for (int64_t t = begin; t < end; t++) {
            int64_t item = t / (n_i * n_j), i = t % n_i * tile_m, j = t / n_i % n_j * tile_n;
            if (item != last)
                get(context, item, g);
            last = item;
            gemm_tile(g, i, g->m - i < tile_m ? g->m - i : tile_m, j, g->n - j < tile_n ? g->n - j : tile_n, scratch);
        }
    }
}

/* Where B's columns [j, ...) of a block lie: each member's scratch holds NC of them. */
BW_INLINE float *gemm_b_part(const bw_op_call *call, int64_t part)
{
    size_t stride = (call->scratch_bytes + 63) / 64 * 64;
    return (float *)(void *)((char *)call->scratch + (size_t)part * stride) + BW_GEMM_MC * BW_GEMM_KC;
}

/* One block: columns [j0, j0 + n) of C and depth [k0, k0 + kc), B packed, taken by rows and groups of columns. */
static void gemm_block(const bw_op_call *call, bw_member *member, const bw_gemm *g, int64_t j0, int64_t n, int64_t k0,
                       int64_t kc)
{
    int64_t n_i = (g->m + BW_GEMM_MC * 3 / 4 - 1) / (BW_GEMM_MC * 3 / 4), width = BW_GEMM_NC;
    n_i = (n_i + member->size - 1) / member->size * member->size;
    int64_t rows = ((g->m + n_i - 1) / n_i + GEMM_MR - 1) / GEMM_MR * GEMM_MR;
    rows = rows > 4 * GEMM_MR ? rows : 4 * GEMM_MR;
    rows = rows < BW_GEMM_MC ? rows : BW_GEMM_MC;
    n_i = (g->m + rows - 1) / rows;
    while (width > 4 * GEMM_NR && n_i * ((n + width - 1) / width) < 4 * member->size)
        width /= 2;
    int64_t n_j = (n + width - 1) / width, begin, end, packed = -1;
    float *a = bw_op_member_scratch(call, member);
    while (bw_team_take(call->next, n_i * n_j, 1, &begin, &end)) {
        int64_t i = begin / n_j * rows, j = begin % n_j * width;
        int64_t m = g->m - i < rows ? g->m - i : rows, columns = n - j < width ? n - j : width;
        if (packed != i)
            gemm_pack_a(g, i, m, k0, kc, a);
        packed = i;
        gemm_macro(m, columns, kc, a, gemm_b_part(call, j / BW_GEMM_NC) + j % BW_GEMM_NC * kc,
                   (float *)g->c + i * g->c_m + j0 + j, g->c_m, k0 > 0);
    }
}

/* All members work on one product, whose C is dense f32. */
static void gemm_together(const bw_op_call *call, bw_member *member, const bw_gemm *g)
{
    int64_t most = BW_GEMM_NC * member->size;
    for (int64_t j0 = 0; j0 < g->n; j0 += most) {
        int64_t n = g->n - j0 < most ? g->n - j0 : most;
        for (int64_t k0 = 0; k0 < g->k; k0 += BW_GEMM_KC) {
            int64_t kc = g->k - k0 < BW_GEMM_KC ? g->k - k0 : BW_GEMM_KC;
            if (member->rank == 0)
                atomic_store_explicit(call->next, 0, memory_order_relaxed);
            int64_t begin, end;
            bw_team_split(member, n, GEMM_NR * 4, &begin, &end);
            while (begin < end) { /* as far as one part goes */
                int64_t stop = (begin / BW_GEMM_NC + 1) * BW_GEMM_NC;
                stop = stop < end ? stop : end;
                gemm_pack_b(g, k0, kc, j0 + begin, stop - begin,
                            gemm_b_part(call, begin / BW_GEMM_NC) + begin % BW_GEMM_NC * kc);
                begin = stop;
            }
            bw_team_barrier(member);
            gemm_block(call, member, g, j0, n, k0, kc);
            bw_team_barrier(member);
        }
    }
}

/* ---- a vector times a matrix ------------------------------------------------------------------------------------ */

/* y[r, j] = sum over p of x[r, p] w[p w_k + j w_j], for few rows r. */
typedef struct gemv {
    int64_t n, k, w_k, w_j, x_step, y_step;
    bw_dtype dtype, y_dtype;
    const void *w, *x;
    void *y;
    int64_t rows, x_row, y_row;
} gemv;
enum {
    GEMV_ROWS = 8,
    GEMV_BLOCK = 2048,             /* columns of y at once */
    GEMV_X = 16384,                /* depth of x at once */
    GEMV_Y_AT = GEMV_ROWS * GEMV_X /* where y's sums lie in the scratch, in floats, after x */
};
_Static_assert((GEMV_Y_AT + GEMV_ROWS * GEMV_BLOCK) * 4 <= BW_GEMM_SCRATCH, "x and y fit into the scratch");

/* Columns of dense k: y[0..n) += dot products with x, k values of each, columns w_j apart. */
BW_INLINE void gemv_dots(bw_dtype dtype, const void *w, int64_t w_j, const float *x, int64_t k, float *y, int64_t n)
{
    int64_t size = dtype == BW_F32 ? 4 : 2, j = 0;
    for (; j + 4 <= n; j += 4) {
        const char *w0 = (const char *)w + j * w_j * size, *w1 = w0 + w_j * size, *w2 = w1 + w_j * size,
                   *w3 = w2 + w_j * size;
        vf s0 = vf_set1(0), s1 = s0, s2 = s0, s3 = s0;
        int64_t p = 0;
        for (; p + VF_N <= k; p += VF_N) {
            vf v = vf_load(x + p);
            s0 = vf_fma(vf_load_as(dtype, w0, p), v, s0);
            s1 = vf_fma(vf_load_as(dtype, w1, p), v, s1);
            s2 = vf_fma(vf_load_as(dtype, w2, p), v, s2);
            s3 = vf_fma(vf_load_as(dtype, w3, p), v, s3);
        }
        float sums[4];
        vf_store_sum4(sums, s0, s1, s2, s3);
        for (; p < k; p++) {
            sums[0] += x[p] * (float)bw_element_f64(dtype, w0, p);
            sums[1] += x[p] * (float)bw_element_f64(dtype, w1, p);
            sums[2] += x[p] * (float)bw_element_f64(dtype, w2, p);
            sums[3] += x[p] * (float)bw_element_f64(dtype, w3, p);
        }
        for (int q = 0; q < 4; q++)
            y[j + q] += sums[q];
    }
    for (; j < n; j++)
        for (int64_t p = 0; p < k; p++)
            y[j] += x[p] * (float)bw_element_f64(dtype, (const char *)w + j * w_j * size, p);
}

/* Dense columns: y[0..n) += x[p] times row p, rows w_k apart, four rows at a time. */
BW_INLINE void gemv_rows(bw_dtype dtype, const void *w, int64_t w_k, const float *x, int64_t k, float *y, int64_t n)
{
    int64_t size = dtype == BW_F32 ? 4 : 2, p = 0;
    for (; p + 4 <= k; p += 4) {
        const char *w0 = (const char *)w + p * w_k * size, *w1 = w0 + w_k * size, *w2 = w1 + w_k * size,
                   *w3 = w2 + w_k * size;
        vf x0 = vf_set1(x[p]), x1 = vf_set1(x[p + 1]), x2 = vf_set1(x[p + 2]), x3 = vf_set1(x[p + 3]);
        int64_t j = 0;
        for (; j + VF_N <= n; j += VF_N) {
            __builtin_prefetch(w0 + (4 * w_k + j) * size);
            __builtin_prefetch(w1 + (4 * w_k + j) * size);
            __builtin_prefetch(w2 + (4 * w_k + j) * size);
            __builtin_prefetch(w3 + (4 * w_k + j) * size);
            vf s = vf_fma(x0, vf_load_as(dtype, w0, j), vf_load(y + j));
            s = vf_fma(x1, vf_load_as(dtype, w1, j), s);
            s = vf_fma(x2, vf_load_as(dtype, w2, j), s);
            vf_store(y + j, vf_fma(x3, vf_load_as(dtype, w3, j), s));
        }
        for (; j < n; j++)
            y[j] += x[p] * (float)bw_element_f64(dtype, w0, j) + x[p + 1] * (float)bw_element_f64(dtype, w1, j) +
                    x[p + 2] * (float)bw_element_f64(dtype, w2, j) + x[p + 3] * (float)bw_element_f64(dtype, w3, j);
    }
    for (; p < k; p++)
        for (int64_t j = 0; j < n; j++)
            y[j] += x[p] * (float)bw_element_f64(dtype, (const char *)w + p * w_k * size, j);
}

/* Depth k of columns [j0, j0 + n) for all rows: a piece of w that stays in the cache is used by every row. */
BW_INLINE void gemv_pieces(bw_dtype dtype, const gemv *v, const char *w, const float *const *x, int64_t k, int64_t n,
                           float *y)
{
    int64_t size = dtype == BW_F32 ? 4 : 2;
    int64_t k_step = v->rows == 1 ? k : v->w_k == 1 ? 2048 : 16, n_step = v->rows == 1 ? n : v->w_k == 1 ? 16 : 512;
    for (int64_t p = 0; p < k; p += k_step)
        for (int64_t j = 0; j < n; j += n_step) {
            const char *piece = w + (p * v->w_k + j * v->w_j) * size;
            int64_t depth = k - p < k_step ? k - p : k_step, columns = n - j < n_step ? n - j : n_step;
            for (int64_t r = 0; r < v->rows; r++)
                if (v->w_k == 1)
                    gemv_dots(dtype, piece, v->w_j, x[r] + p, depth, y + r * GEMV_BLOCK + j, columns);
                else
                    gemv_rows(dtype, piece, v->w_k, x[r] + p, depth, y + r * GEMV_BLOCK + j, columns);
        }
}

BW_INLINE void gemv_block(bw_dtype dtype, const gemv *v, int64_t j0, int64_t n, float *scratch)
{
    int64_t size = dtype == BW_F32 ? 4 : 2;
    float *y = scratch + GEMV_Y_AT;
    const float *x[GEMV_ROWS];
    for (int64_t r = 0; r < v->rows; r++)
        memset(y + r * GEMV_BLOCK, 0, (size_t)n * sizeof *y);
    for (int64_t k0 = 0; k0 < v->k; k0 += GEMV_X) {
        int64_t k = v->k - k0 < GEMV_X ? v->k - k0 : GEMV_X;
        for (int64_t r = 0; r < v->rows; r++) {
            int64_t at = r * v->x_row + k0 * v->x_step;
            x[r] = (const float *)v->x + at;
            if (dtype == BW_F32 && v->x_step == 1)
                continue;
            bw_each_load(dtype, (const char *)v->x + at * size, v->x_step, scratch + r * GEMV_X, k);
            x[r] = scratch + r * GEMV_X;
        }
        gemv_pieces(dtype, v, (const char *)v->w + (k0 * v->w_k + j0 * v->w_j) * size, x, k, n, y);
    }
    int64_t y_size = bw_dtype_block_bytes(v->y_dtype);
    for (int64_t r = 0; r < v->rows; r++)
        bw_each_store(v->y_dtype, (char *)v->y + (r * v->y_row + j0 * v->y_step) * y_size, v->y_step,
                      y + r * GEMV_BLOCK, n);
}

/* Whether a product is one of few rows, or columns, and a matrix that is dense one way; fills v. */
static bool gemv_get(const bw_gemm *g, gemv *v)
{
    bool is_short = g->a_dtype == BW_F32 || g->a_dtype == BW_F16 || g->a_dtype == BW_BF16;
    int64_t few = g->m < g->n ? g->m : g->n, many = g->m < g->n ? g->n : g->m;
    if (g->pack_b || !is_short || g->a_inner != g->k || few > GEMV_ROWS)
        return false;
    if (few > 1 && many * g->k < 1 << 16)
        return false;
    if (g->m < g->n)
        *v = (gemv){g->n,       g->k, g->b_k, g->b_n, g->a_k, g->c_n, g->a_dtype,
                    g->c_dtype, g->b, g->a,   g->c,   g->m,   g->a_m, g->c_m};
    else
        *v = (gemv){g->m,       g->k, g->a_k, g->a_m, g->b_k, g->c_m, g->a_dtype,
                    g->c_dtype, g->a, g->b,   g->c,   g->n,   g->b_n, g->c_n};
    return v->w_k == 1 || v->w_j == 1;
}

static void gemv_run(const bw_op_call *call, bw_member *member, bw_gemm *g, int64_t n_items, bw_gemm_item_fn *get,
                     const void *context)
{
    float *scratch = bw_op_member_scratch(call, member);
    gemv v;
    gemv_get(g, &v);
    int64_t width = v.n * n_items / (2 * member->size) / 64 * 64, begin, end;
    width = width < 64 ? 64 : width > GEMV_BLOCK ? GEMV_BLOCK : width;
    int64_t n_blocks = (v.n + width - 1) / width;
    while (bw_team_take(call->next, n_items * n_blocks, 1, &begin, &end)) {
        get(context, begin / n_blocks, g);
        gemv_get(g, &v);
        int64_t j = begin % n_blocks * width, n = v.n - j < width ? v.n - j : width;
        if (v.dtype == BW_F32)
            gemv_block(BW_F32, &v, j, n, scratch);
        else if (v.dtype == BW_F16)
            gemv_block(BW_F16, &v, j, n, scratch);
        else
            gemv_block(BW_BF16, &v, j, n, scratch);
    }
}

void BW_LEVEL(bw_gemm_run)(const bw_op_call *call, bw_member *member, const bw_gemm *common, int64_t n_items,
                           bw_gemm_item_fn *get, const void *context)
{
    bw_gemm g = *common;
    gemv v;
    if (n_items == 0 || g.m == 0 || g.n == 0)
        return;
    get(context, 0, &g);
    if (gemv_get(&g, &v)) {
        gemv_run(call, member, &g, n_items, get, context);
        return;
    }
    /* Two barriers for each block of k must be worth it. */
    double n = (double)(g.n < BW_GEMM_NC * member->size ? g.n : BW_GEMM_NC * member->size);
    double depth = (double)(g.k < BW_GEMM_KC ? g.k : BW_GEMM_KC);
    if (g.c_dtype != BW_F32 || g.c_n != 1 || (double)g.m * n * depth < 4e6 || g.m < 4 * GEMM_MR) {
        gemm_alone(call, member, &g, n_items, get, context);
        return;
    }
    /* B is packed into every member's scratch: nobody may still be at work in an earlier call that uses it. */
    bw_team_barrier(member);
    for (int64_t item = 0; item < n_items; item++) {
        if (item > 0)
            get(context, item, &g);
        gemm_together(call, member, &g);
    }
}
