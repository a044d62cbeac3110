/* MATMUL of bf16 with AMX-BF16: bf16 times bf16, summed in f32, to bf16 or f32. Small products, and those of few rows
 * or columns, are left to the AVX-512 kernel.
 *
 * Each member computes whole parts of the output alone and packs for itself: A in panels of 32 rows, B in panels of 32
 * columns, both as deep as KC, in the very form of tiles. A block of 32 x 32 sums stays in four tiles over all of that
 * depth; only where k is deeper it goes through memory in between, as it lies in the tiles.
 *
 * B's columns are interleaved within 128-bit lanes, where one instruction brings two rows of them together: position x
 * of tile t is column 8 (x / 4) + 4 t + x % 4 of the panel. The outputs are put back in order when they are stored.
 *
 * Rounding: every product is exact; TDPBF16PS adds in f32, to nearest even, whatever the thread's rounding mode is. It
 * takes subnormal inputs for zero and gives zero for subnormal sums, so an element may differ from the reference by
 * what its subnormal terms amount to. Tile instructions: Intel Architecture Instruction Set Extensions Programming
 * Reference, chapter 3. */
#include "bw_amx.h"
#include "bw_element.h"
#define BW_VEC_AVX512
#include "bw_vec.h"
#include "matmul/gemm.h"
#include "matmul/matmul.h"

bool bw_matmul_amx_supports(const bw_op_call *call, const bw_cpu_features *cpu);
size_t bw_matmul_amx_scratch(const bw_op_call *call);
bw_op_kernel bw_matmul_amx, bw_matmul_avx512;

enum {
    PANEL = 32,            /* rows of A, columns of B: two tiles */
    STEP = 32,             /* depth of a tile */
    TILE = 16 * STEP,      /* elements of a tile of A or B */
    BLOCK = PANEL * PANEL, /* sums of a block */
    KC = 1024,             /* depth of what is packed at once */
    A_ROWS = 128,          /* of A packed at once: a quarter of a megabyte */
    B_ELEMENTS = 512 * KC, /* of B packed at once: a megabyte */
    B_COLUMNS = 4096,      /* at most: of a shallow B */
    SUM_ROWS = 1024,       /* of sums that wait for the next KC of depth */
    SUM_COLUMNS = B_ELEMENTS / KC,
    LEAST = 9,        /* rows and columns */
    LEAST_K = STEP,   /* depth */
    FEWEST = 1 << 15, /* multiplications for each matrix */
    B_AHEAD = 16      /* rows of B that are prefetched while others are packed */
};

/* Of a member's scratch, in this order. */
enum { A_BYTES = A_ROWS * KC * 2, B_BYTES = B_ELEMENTS * 2, SUM_BYTES = SUM_ROWS * SUM_COLUMNS * 4 };
_Static_assert(A_BYTES + B_BYTES >= BW_GEMM_SCRATCH, "the AVX-512 kernel's scratch fits too");

BW_INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

BW_INLINE int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* ---- packing ---------------------------------------------------------------------------------------------------- */

/* One input seen as lines, A's rows or B's columns, of bf16: element k of line i at data[i * line + k * step]. */
typedef struct side {
    const uint16_t *data;
    int64_t line, step;
} side;

BW_INLINE side side_at(const side *s, int64_t line, int64_t k)
{
    return (side){s->data + line * s->line + k * s->step, s->line, s->step};
}

/* The first n of 32 lanes. */
BW_INLINE __mmask32 first_lanes(int64_t n)
{
    return n >= 32 ? 0xffffffffu : (__mmask32)((1u << n) - 1);
}

/* The line of a panel of B that stands at position x of tile t. */
BW_INLINE int64_t lane_column(int64_t t, int64_t x)
{
    return x / 4 * 8 + t * 4 + x % 4;
}

/* A matrix of 16 x 16 pairs. */
BW_INLINE void transpose(__m512i v[16])
{
    __m512i w[16];
    BW_UNROLL
    for (int i = 0; i < 16; i += 2) {
        w[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        w[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    BW_UNROLL
    for (int i = 0; i < 16; i += 4) { /* v[i + c], lane l: column 4 l + c of rows i to i + 3 */
        v[i] = _mm512_unpacklo_epi64(w[i], w[i + 2]);
        v[i + 1] = _mm512_unpackhi_epi64(w[i], w[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(w[i + 1], w[i + 3]);
        v[i + 3] = _mm512_unpackhi_epi64(w[i + 1], w[i + 3]);
    }
    BW_UNROLL
    for (int c = 0; c < 4; c++) {
        __m512i even0 = _mm512_shuffle_i32x4(v[c], v[4 + c], 0x88), odd0 = _mm512_shuffle_i32x4(v[c], v[4 + c], 0xdd);
        __m512i even1 = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x88),
                odd1 = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xdd);
        w[c] = _mm512_shuffle_i32x4(even0, even1, 0x88);
        w[8 + c] = _mm512_shuffle_i32x4(even0, even1, 0xdd);
        w[4 + c] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
        w[12 + c] = _mm512_shuffle_i32x4(odd0, odd1, 0xdd);
    }
    BW_UNROLL
    for (int i = 0; i < 16; i++)
        v[i] = w[i];
}

/* n_k <= 32 elements of a line, zeros after them; any step. */
static __m512i load_line(const uint16_t *data, int64_t step, int64_t n_k)
{
    uint16_t buffer[STEP] = {0};
    if (step == 1)
        return _mm512_maskz_loadu_epi16(first_lanes(n_k), data);
    for (int64_t q = 0; q < n_k; q++)
        buffer[q] = data[q * step];
    return _mm512_loadu_si512(buffer);
}

/* 16 lines of a panel, those of its tile t: of A in their order, of B by lane_column. */
BW_INLINE void load_lines(const side *s, bool is_b, int64_t t, int64_t n_lines, int64_t n_k, __m512i v[16])
{
    if (s->step == 1 && n_lines == PANEL && n_k == STEP) {
        BW_UNROLL
        for (int x = 0; x < 16; x++) {
            const uint16_t *from = s->data + (is_b ? lane_column(t, x) : t * 16 + x) * s->line;
            v[x] = _mm512_loadu_si512(from);
            __builtin_prefetch(from + 4 * STEP, 0, 2);
        }
        return;
    }
    for (int64_t x = 0; x < 16; x++) {
        int64_t line = is_b ? lane_column(t, x) : t * 16 + x;
        v[x] = line < n_lines ? load_line(s->data + line * s->line, s->step, n_k) : _mm512_setzero_si512();
    }
}

/* Elements k and k + 1 of up to 32 lines, which are dense, as pairs: of the lines that lane_column gives tiles 0 and 1.
 */
BW_INLINE void load_pair(const uint16_t *data, int64_t step, __mmask32 lines, bool has_second, __m512i *low,
                         __m512i *high)
{
    __m512i x = _mm512_maskz_loadu_epi16(lines, data);
    __m512i y = has_second ? _mm512_maskz_loadu_epi16(lines, data + step) : _mm512_setzero_si512();
    *low = _mm512_unpacklo_epi16(x, y);
    *high = _mm512_unpackhi_epi16(x, y);
}

/* A panel's rows, dense along k, to dst[kc / 32][2][16][32]: row after row, as they lie in memory. */
static void pack_rows(const side *s, int64_t n_lines, int64_t kc, uint16_t *dst)
{
    for (int64_t i = 0; i < PANEL; i++, dst += STEP) {
        const uint16_t *row = s->data + i * s->line;
        uint16_t *to = dst;
        int64_t k = 0;
        if (i < n_lines)
            for (; k + STEP <= kc; k += STEP, to += 2 * TILE) {
                __builtin_prefetch(row + 2 * s->line + k);
                _mm512_store_si512(to, _mm512_loadu_si512(row + k));
            }
        for (; k < kc; k += STEP, to += 2 * TILE)
            _mm512_store_si512(to, i < n_lines ? load_line(row + k, 1, kc - k) : _mm512_setzero_si512());
    }
}

/* A panel of A, its rows [0, n_lines) and depth [0, kc), to dst[kc / 32][2][16][32]. */
static void pack_a(const side *s, int64_t n_lines, int64_t kc, uint16_t *dst)
{
    if (s->step == 1) {
        pack_rows(s, n_lines, kc, dst);
        return;
    }
    __m512i v[2][16];
    for (int64_t k = 0; k < kc; k += STEP, dst += 2 * TILE) {
        side from = side_at(s, 0, k);
        int64_t n_k = least(STEP, kc - k);
        if (s->line != 1) {
            for (int64_t t = 0; t < 2; t++) {
                load_lines(&from, false, t, n_lines, n_k, v[t]);
                for (int64_t x = 0; x < 16; x++)
                    _mm512_store_si512(dst + t * TILE + x * STEP, v[t][x]);
            }
            continue;
        }
        for (int64_t q = 0; q < 16; q++) {
            v[0][q] = v[1][q] = _mm512_setzero_si512();
            if (2 * q < n_k)
                load_pair(from.data + 2 * q * s->step, s->step, first_lanes(n_lines), 2 * q + 1 < n_k, &v[0][q],
                          &v[1][q]);
        }
        for (int64_t t = 0; t < 2; t++) {
            transpose(v[t]);
            for (int64_t x = 0; x < 16; x++)
                _mm512_store_si512(dst + lane_column(t, x) * STEP, v[t][x]);
        }
    }
}

/* A panel of B that is not dense along its lines, to dst[kc / 32][2][16][16][2]. */
static void pack_columns(const side *s, int64_t n_lines, int64_t kc, uint16_t *dst)
{
    __m512i v[16];
    for (int64_t k = 0; k < kc; k += STEP)
        for (int64_t t = 0; t < 2; t++, dst += TILE) {
            side from = side_at(s, 0, k);
            load_lines(&from, true, t, n_lines, least(STEP, kc - k), v);
            transpose(v);
            BW_UNROLL
            for (int x = 0; x < 16; x++)
                _mm512_store_si512(dst + x * STEP, v[x]);
        }
}

/* n lines of B to panels that follow each other, each kc, rounded up to whole steps, deep. */
static void pack_b(const side *s, int64_t n, int64_t kc, uint16_t *dst)
{
    int64_t depth = round_up(kc, STEP), whole = n / PANEL;
    if (s->line != 1) {
        for (int64_t j = 0; j < n; j += PANEL) {
            side from = side_at(s, j, 0);
            pack_columns(&from, least(PANEL, n - j), kc, dst + j * depth);
        }
        return;
    }
    __m512i low, high;
    for (int64_t k = 0; k < depth; k += 2) { /* along the rows */
        const uint16_t *row = s->data + k * s->step;
        uint16_t *to = dst + k / STEP * 2 * TILE + k % STEP * 16;
        for (int64_t j = 0; j <= whole; j++, row += PANEL, to += PANEL * depth) {
            if (j == whole && n % PANEL == 0)
                continue;
            low = high = _mm512_setzero_si512();
            if (k < kc)
                load_pair(row, s->step, j < whole ? 0xffffffffu : first_lanes(n % PANEL), k + 1 < kc, &low, &high);
            __builtin_prefetch(row + B_AHEAD * s->step);
            __builtin_prefetch(row + (B_AHEAD + 1) * s->step);
            _mm512_store_si512(to, low);
            _mm512_store_si512(to + TILE, high);
        }
    }
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* Tiles: 0 to 3 sums [16][16] f32, of A's first 16 rows with B's two tiles, then of the others; 4, 5 of A [16][32]; 6,
 * 7 of B [16][16][2]. */
static void configure_tiles(void)
{
    static const bw_amx_config config = {
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&config);
}

/* A block of the output. */
typedef struct place {
    char *c; /* its first element */
    int64_t n_rows, n_columns;
} place;

/* A block whose sums are complete and wait to be stored, which is done a few rows at a time between the tile
 * instructions of the next block. */
typedef struct waiting {
    _Alignas(64) float sums[2][2][16][16];
    place at;
    int64_t row; /* the next one to store */
    int64_t c_m, c_n;
    bw_dtype dtype;
} waiting;

/* One row of the sums, as they lie in two tiles, in order. */
BW_INLINE void put_in_order(__m512 t0, __m512 t1, __m512 *low, __m512 *high)
{
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                  second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    __m512i a = _mm512_castps_si512(t0), b = _mm512_castps_si512(t1);
    *low = _mm512_castsi512_ps(_mm512_permutex2var_epi64(a, first, b));
    *high = _mm512_castsi512_ps(_mm512_permutex2var_epi64(a, second, b));
}

static void store_strided(const waiting *w, char *to, __m512 low, __m512 high)
{
    float row[PANEL];
    _mm512_storeu_ps(row, low);
    _mm512_storeu_ps(row + 16, high);
    for (int64_t j = 0; j < w->at.n_columns; j++)
        if (w->dtype == BW_F32)
            ((float *)(void *)to)[j * w->c_n] = row[j];
        else
            ((uint16_t *)(void *)to)[j * w->c_n] = bw_f32_to_bf16(row[j]);
}

BW_INLINE void store_row(waiting *w)
{
    int64_t r = w->row++, size = w->dtype == BW_F32 ? 4 : 2;
    char *to = w->at.c + r * w->c_m * size;
    __m512 t0 = _mm512_load_ps(w->sums[r / 16][0][r % 16]), t1 = _mm512_load_ps(w->sums[r / 16][1][r % 16]), low, high;
    __mmask32 columns = first_lanes(w->at.n_columns);
    if (w->dtype == BW_BF16 && w->c_n == 1) {
        __m512i a = _mm512_srli_epi32(vf_round_bf16(t0), 16), b = _mm512_srli_epi32(vf_round_bf16(t1), 16);
        _mm512_mask_storeu_epi16(to, columns, _mm512_packus_epi32(a, b));
        return;
    }
    put_in_order(t0, t1, &low, &high);
    if (w->c_n != 1) {
        store_strided(w, to, low, high);
        return;
    }
    _mm512_mask_storeu_ps(to, (__mmask16)columns, low);
    _mm512_mask_storeu_ps(to + 64, (__mmask16)(columns >> 16), high);
}

static void store_rest(waiting *w)
{
    while (w->row < w->at.n_rows)
        store_row(w);
}

/* What is brought near while a block is computed: a line of each row at each step. */
typedef struct fetch {
    const void *from;
    int64_t row_bytes, n_rows;
} fetch;

BW_INLINE void fetch_lines(const fetch *f, int64_t step)
{
    for (int64_t i = 0; i < f->n_rows; i++)
        __builtin_prefetch((const char *)f->from + i * f->row_bytes + step * 64, 0, 2);
}

/* 32 or 16 rows of a panel of A times a panel of B, n_steps deep, added to tiles 0 to 3, while the block before this
 * one is stored and what comes next is fetched. */
BW_INLINE void multiply(const uint16_t *a, const uint16_t *b, int64_t n_steps, bool is_whole, waiting *before,
                        const fetch *next_a, const fetch *next_sums)
{
    int64_t n_rows = (before->at.n_rows - before->row + n_steps - 1) / n_steps;
    for (int64_t s = 0; s < n_steps; s++, a += 2 * TILE, b += 2 * TILE) {
        _tile_loadd(6, b, 64);
        _tile_loadd(4, a, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + TILE, 64);
        _tile_dpbf16ps(1, 4, 7);
        if (is_whole) {
            _tile_loadd(5, a + TILE, 64);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        fetch_lines(next_a, s);
        fetch_lines(next_sums, s);
        for (int64_t r = 0; r < n_rows && before->row < before->at.n_rows; r++)
            store_row(before);
    }
    store_rest(before);
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

/* What a member computes alone, and where in its scratch. */
typedef struct part {
    side a, b;
    char *c;
    int64_t m, n, k, c_m, c_n;
    bw_dtype dtype; /* of c */
    uint16_t *packed_a, *packed_b;
    float *sums; /* [columns / 32][SUM_ROWS / 32][2][2][16][16], used where k is more than one depth */
} part;

/* A piece of k. */
typedef struct depth {
    int64_t kc, n_steps;
    bool is_first, is_last;
} depth;

/* One block at one depth. sums: its own. */
static void compute_block(const uint16_t *a, const uint16_t *b, const depth *d, const place *at, float *sums,
                          const fetch *next_a, waiting *w)
{
    fetch next_sums = {sums + BLOCK, BLOCK * 2, d->is_first && d->is_last ? 0 : 2}; /* two halves */
    if (d->is_first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, sums, 64);
        _tile_loadd(1, sums + 256, 64);
        _tile_loadd(2, sums + 512, 64);
        _tile_loadd(3, sums + 768, 64);
    }
    if (at->n_rows > 16)
        multiply(a, b, d->n_steps, true, w, next_a, &next_sums);
    else
        multiply(a, b, d->n_steps, false, w, next_a, &next_sums);
    float *to = d->is_last ? &w->sums[0][0][0][0] : sums;
    _tile_stored(0, to, 64);
    _tile_stored(1, to + 256, 64);
    _tile_stored(2, to + 512, 64);
    _tile_stored(3, to + 768, 64);
    if (d->is_last) {
        w->at = *at;
        w->row = 0;
    }
}

/* A piece of the output whose B is packed: rows [i0, i0 + m), m <= A_ROWS, columns [j0, j0 + n). next_rows: how many
 * rows of A come after these. */
typedef struct piece {
    int64_t i0, m, j0, n, k0, next_rows;
    depth d;
    float *sums;
} piece;

/* The rows that come after these, shared between the blocks of these. */
static fetch get_next_a(const part *p, const piece *q, int64_t i, int64_t j)
{
    int64_t n_i = (q->m + PANEL - 1) / PANEL, n_blocks = n_i * ((q->n + PANEL - 1) / PANEL);
    int64_t rows = least(A_ROWS, q->next_rows), count = (rows + n_blocks - 1) / n_blocks;
    int64_t begin = (j / PANEL * n_i + i / PANEL) * count;
    side from = side_at(&p->a, q->i0 + q->m + begin, q->k0);
    return (fetch){from.data, p->a.line * 2, p->a.step != 1 || begin >= rows ? 0 : least(count, rows - begin)};
}

static void compute_piece(const part *p, const piece *q, waiting *w)
{
    int64_t size = p->dtype == BW_F32 ? 4 : 2, deep = q->d.n_steps * STEP;
    for (int64_t i = 0; i < q->m; i += PANEL) {
        side from = side_at(&p->a, q->i0 + i, q->k0);
        pack_a(&from, least(PANEL, q->m - i), q->d.kc, p->packed_a + i * deep);
    }
    __asm__ volatile("" ::: "memory"); /* some compilers do not know that tiles are loaded from memory */
    for (int64_t j = 0; j < q->n; j += PANEL)
        for (int64_t i = 0; i < q->m; i += PANEL) {
            place at = {p->c + ((q->i0 + i) * p->c_m + (q->j0 + j) * p->c_n) * size, least(PANEL, q->m - i),
                        least(PANEL, q->n - j)};
            fetch next_a = get_next_a(p, q, i, j);
            compute_block(p->packed_a + i * deep, p->packed_b + j * deep, &q->d, &at,
                          q->sums + j * SUM_ROWS + i * PANEL, &next_a, w);
        }
}

/* Nearly equal pieces of n, no longer than `most`, in whole panels. */
static int64_t divide(int64_t n, int64_t most)
{
    int64_t count = (n + most - 1) / most;
    return round_up((n + count - 1) / count, PANEL);
}

static void compute_part(const part *p)
{
    waiting w = {.c_m = p->c_m, .c_n = p->c_n, .dtype = p->dtype};
    int64_t kc = divide(p->k, KC), rows = p->m, columns = SUM_COLUMNS;
    if (kc < p->k)
        rows = SUM_ROWS;
    else
        columns = least(B_COLUMNS, B_ELEMENTS / kc / PANEL * PANEL);
    columns = divide(p->n, columns);
    for (int64_t j = 0; j < p->n; j += columns)
        for (int64_t i0 = 0; i0 < p->m; i0 += rows)
            for (int64_t k = 0; k < p->k; k += kc) {
                int64_t end = least(i0 + rows, p->m);
                piece q = {.j0 = j, .n = least(columns, p->n - j), .k0 = k};
                q.d = (depth){least(kc, p->k - k), 0, k == 0, k + kc >= p->k};
                q.d.n_steps = (q.d.kc + STEP - 1) / STEP;
                side from = side_at(&p->b, j, k);
                pack_b(&from, q.n, q.d.kc, p->packed_b);
                for (int64_t i = i0; i < end; i += A_ROWS) {
                    q.i0 = i;
                    q.m = least(A_ROWS, end - i);
                    q.next_rows = end - i - q.m;
                    q.sums = p->sums + (i - i0) * PANEL;
                    compute_piece(p, &q, &w);
                }
            }
    store_rest(&w);
}

/* The outputs in parts of m x n, smaller at the edges: as few as keep every member at work, and of those with the least
 * to pack, which is about as much work as 128 products for each element. */
static void get_parts(const bw_matmul_shape *s, int64_t members, int64_t *m, int64_t *n)
{
    int64_t best = 0;
    *m = s->m;
    *n = s->n;
    if (s->n_batch >= 4 * members || s->n_batch % members == 0)
        return;
    for (int64_t i = 1; i <= members; i++) {
        if (members % i)
            continue;
        int64_t part_m = round_up((s->m + i - 1) / i, PANEL);
        int64_t part_n = round_up((s->n + members / i - 1) / (members / i), PANEL);
        int64_t count = (s->m + part_m - 1) / part_m * ((s->n + part_n - 1) / part_n) * s->n_batch;
        int64_t cost = (count + members - 1) / members * (part_m * part_n + 128 * (part_m + part_n));
        if (best == 0 || cost < best) {
            best = cost;
            *m = part_m;
            *n = part_n;
        }
    }
}

static bool is_large(const bw_matmul_shape *s)
{
    return s->m >= LEAST && s->n >= LEAST && s->k >= LEAST_K &&
           (double)s->m * (double)s->n * (double)s->k >= (double)FEWEST;
}

bool bw_matmul_amx_supports(const bw_op_call *call, const bw_cpu_features *cpu)
{
    bw_matmul_shape s;
    bw_matmul_get_shape(call, &s);
    return cpu->amx_bf16 && call->in[0]->dtype == BW_BF16 && is_large(&s);
}

size_t bw_matmul_amx_scratch(const bw_op_call *call)
{
    bw_matmul_shape s;
    bw_matmul_get_shape(call, &s);
    return A_BYTES + B_BYTES + (s.k > KC ? SUM_BYTES : 0);
}

void bw_matmul_amx(const bw_op_call *call, bw_member *member)
{
    bw_matmul_shape s;
    bw_matmul_get_shape(call, &s);
    if (!is_large(&s)) { /* a plan's smaller run */
        bw_matmul_avx512(call, member);
        return;
    }
    char *scratch = bw_op_member_scratch(call, member);
    int64_t m, n, begin, end, a, b, c;
    get_parts(&s, member->size, &m, &n);
    int64_t n_i = (s.m + m - 1) / m, n_j = (s.n + n - 1) / n;
    part p = {.k = s.k, .c_m = s.c_m, .c_n = s.c_n, .dtype = call->out[0]->dtype};
    p.packed_a = (uint16_t *)(void *)scratch;
    p.packed_b = (uint16_t *)(void *)(scratch + A_BYTES);
    p.sums = (float *)(void *)(scratch + A_BYTES + B_BYTES);
    configure_tiles();
    while (bw_team_take(call->next, s.n_batch * n_i * n_j, 1, &begin, &end)) {
        int64_t i = begin % (n_i * n_j) / n_j * m, j = begin % n_j * n;
        bw_matmul_find(call, begin / (n_i * n_j), &a, &b, &c);
        p.a = (side){(const uint16_t *)call->in[0]->data + a + i * s.a_m, s.a_m, s.a_k};
        p.b = (side){(const uint16_t *)call->in[1]->data + b + j * s.b_n, s.b_n, s.b_k};
        p.c = (char *)call->out[0]->data + (c + i * s.c_m + j * s.c_n) * bw_dtype_block_bytes(p.dtype);
        p.m = least(m, s.m - i);
        p.n = least(n, s.n - j);
        compute_part(&p);
    }
    _tile_release();
}
