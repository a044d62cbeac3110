/* MATMUL of f32, bf16 and f16 by oneDNN: as a kernel of its own, and against ours in timed trials. Each matrix of a
 * batch, or each of a few large tiles of it, is one call of the library by one member of the team. */
#include "library/bw_onednn.h"
#include "library/bw_trial.h"
#include "matmul/gemm.h"
#include "matmul/matmul.h"

bool bw_matmul_onednn_supports(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_matmul_trial_supports(const bw_op_call *call, const bw_cpu_features *cpu);
size_t bw_matmul_onednn_scratch(const bw_op_call *call);
bw_op_kernel bw_matmul_onednn, bw_matmul_trial, bw_matmul_amx, bw_matmul_avx512, bw_matmul_avx2, bw_matmul_plain;
bool bw_matmul_amx_supports(const bw_op_call *call, const bw_cpu_features *cpu);
size_t bw_matmul_amx_scratch(const bw_op_call *call);

enum {
    FEWEST = 4096,          /* multiplications that are worth a call of a library */
    FEWEST_TRIED = 8 << 20, /* that are worth a trial: some tenths of a millisecond */
    TILE_M = 8,
    TILE_N = 16 /* tiles are multiples of these: whole registers */
};

/* A matrix of the output in n_i x n_j tiles of m x n, smaller at the right and lower edge. */
typedef struct tiling {
    bw_matmul_shape s;
    int64_t m, n, n_i, n_j;
} tiling;

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* As few tiles as keep every member at work, of the least circumference: what is packed for a tile is packed for it
 * alone. */
static void get_tiling(const bw_op_call *call, tiling *t)
{
    int64_t members = call->n_members > 0 ? call->n_members : 1, best = 0;
    bw_matmul_get_shape(call, &t->s);
    t->m = t->s.m;
    t->n = t->s.n;
    for (int64_t i = 1; i <= members && t->s.n_batch < 4 * members && t->s.n_batch % members != 0; i++) {
        if (members % i)
            continue;
        int64_t m = divide_up(divide_up(t->s.m, i), TILE_M) * TILE_M;
        int64_t n = divide_up(divide_up(t->s.n, members / i), TILE_N) * TILE_N;
        m = m < t->s.m ? m : t->s.m;
        n = n < t->s.n ? n : t->s.n;
        /* what one member does when each takes its share, then what it packs */
        int64_t rounds = divide_up(divide_up(t->s.m, m) * divide_up(t->s.n, n) * t->s.n_batch, members);
        int64_t cost = rounds * (m * n + 64 * (m + n));
        if (best == 0 || cost < best) {
            best = cost;
            t->m = m;
            t->n = n;
        }
    }
    t->n_i = divide_up(t->s.m, t->m);
    t->n_j = divide_up(t->s.n, t->n);
}

/* [n_rows, n_columns]; of one row or column the stride does not matter and is made what a dense matrix has. */
static void set_matrix(bw_onednn_tensor *t, bw_dtype dtype, int64_t n_rows, int64_t n_columns, int64_t row,
                       int64_t column)
{
    t->n_dims = 2;
    t->dtype = (int64_t)dtype;
    t->dims[0] = n_rows;
    t->dims[1] = n_columns;
    t->strides[0] = n_rows > 1 ? row : column == 1 ? n_columns : 1;
    t->strides[1] = n_columns > 1 ? column : row == 1 ? n_rows : 1;
}

static bw_onednn_spec make_spec(const bw_op_call *call, const tiling *t, int64_t m, int64_t n)
{
    bw_onednn_spec spec = {.kind = BW_ONEDNN_MATMUL};
    set_matrix(&spec.src, call->in[0]->dtype, m, t->s.k, t->s.a_m, t->s.a_k);
    set_matrix(&spec.weights, call->in[1]->dtype, t->s.k, n, t->s.b_k, t->s.b_n);
    set_matrix(&spec.dst, call->out[0]->dtype, m, n, t->s.c_m, t->s.c_n);
    return spec;
}

/* The sizes of tiles that occur: inner ones and those at either edge. */
static bool can_all(const bw_op_call *call, const tiling *t, size_t *scratch_bytes)
{
    const int64_t m[] = {t->m, t->s.m - (t->n_i - 1) * t->m}, n[] = {t->n, t->s.n - (t->n_j - 1) * t->n};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            bw_onednn_spec spec = make_spec(call, t, m[i], n[j]);
            if (!bw_onednn_can(&spec, scratch_bytes))
                return false;
        }
    return true;
}

static double multiplications(const bw_matmul_shape *s)
{
    return (double)s->m * (double)s->n * (double)s->k * (double)s->n_batch;
}

static bool supports(const bw_op_call *call, double fewest)
{
    tiling t;
    size_t bytes = 0;
    bw_matmul_get_shape(call, &t.s);
    if (!((BW_MASK_HALVES | BW_MASK(BW_F32)) >> call->in[0]->dtype & 1) || multiplications(&t.s) < fewest ||
        !bw_onednn_is_there())
        return false;
    get_tiling(call, &t);
    return can_all(call, &t, &bytes);
}

bool bw_matmul_onednn_supports(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)cpu;
    return supports(call, FEWEST);
}

bool bw_matmul_trial_supports(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)cpu;
    return supports(call, FEWEST_TRIED);
}

static bw_op_kernel *find_ours(const bw_op_call *call)
{
#if defined(__x86_64__)
    const bw_cpu_features *cpu = bw_cpu_get_features();
    if (bw_matmul_amx_supports(call, cpu))
        return bw_matmul_amx;
    if (cpu->avx512)
        return bw_matmul_avx512;
    if (cpu->avx2)
        return bw_matmul_avx2;
#endif
    (void)call;
    return bw_matmul_plain;
}

size_t bw_matmul_onednn_scratch(const bw_op_call *call)
{
    tiling t;
    size_t bytes = BW_GEMM_SCRATCH;
#if defined(__x86_64__)
    if (find_ours(call) == bw_matmul_amx)
        bytes = bw_matmul_amx_scratch(call);
#endif
    get_tiling(call, &t);
    can_all(call, &t, &bytes);
    return bytes + BW_TRIAL_SCRATCH;
}

static char *at(const bw_tensor *t, int64_t element)
{
    return (char *)t->data + element * bw_dtype_block_bytes(t->dtype);
}

/* A bw_library_kernel. */
static bool run_tiles(const bw_op_call *call, bw_member *member)
{
    tiling t;
    get_tiling(call, &t);
    int64_t n_tiles = t.n_i * t.n_j, begin, end, a, b, c, part_m = 0, part_n = 0;
    char *scratch = bw_op_member_scratch(call, member);
    bw_onednn_part *part = NULL;
    bool ok = true;
    while (ok && bw_team_take(call->next, t.s.n_batch * n_tiles, 1, &begin, &end)) {
        int64_t i = begin % n_tiles / t.n_j * t.m, j = begin % t.n_j * t.n;
        int64_t m = t.s.m - i < t.m ? t.s.m - i : t.m, n = t.s.n - j < t.n ? t.s.n - j : t.n;
        if (part && (m != part_m || n != part_n)) {
            bw_onednn_give(part);
            part = NULL;
        }
        if (!part) {
            bw_onednn_spec spec = make_spec(call, &t, m, n);
            part = bw_onednn_take(&spec);
            part_m = m;
            part_n = n;
        }
        bw_matmul_find(call, begin / n_tiles, &a, &b, &c);
        ok = part && bw_onednn_scratch(part) + BW_TRIAL_SCRATCH <= call->scratch_bytes &&
             bw_onednn_run(part, at(call->in[0], a + i * t.s.a_m), at(call->in[1], b + j * t.s.b_n),
                           at(call->out[0], c + i * t.s.c_m + j * t.s.c_n), scratch);
    }
    if (part)
        bw_onednn_give(part);
    return ok;
}

void bw_matmul_onednn(const bw_op_call *call, bw_member *member)
{
    bw_library_run(call, member, find_ours(call), run_tiles);
}

void bw_matmul_trial(const bw_op_call *call, bw_member *member)
{
    bw_matmul_shape s;
    bw_matmul_get_shape(call, &s);
    if (multiplications(&s) < FEWEST_TRIED) { /* a plan's smaller run */
        find_ours(call)(call, member);
        return;
    }
    bw_trial_key key = {{(int64_t)call->op, (int64_t)call->in[0]->dtype, (int64_t)call->out[0]->dtype, member->size,
                         bw_trial_round(s.m), bw_trial_round(s.n), bw_trial_round(s.k), bw_trial_round(s.n_batch),
                         s.a_k == 1, s.b_n == 1}};
    bw_trial_run(call, member, &key, find_ours(call), run_tiles);
}
