/* MATMUL for the types that f32 does not serve: f64 and the integers; and what chooses between kernels. */
#include "matmul/gemm.h"
#include "matmul/matmul.h"

bw_op_kernel bw_matmul_typed;

size_t bw_gemm_scratch(const bw_op_call *call)
{
    (void)call;
    return BW_GEMM_SCRATCH;
}

enum { WIDTH = 64 };

/* Row i of a times columns [j, j + n) of b, n <= WIDTH; sum: the arithmetic's type, wide enough or wrapping as the
 * result must. */
#define ROW(type, out_type, sum_type)                                                                                  \
    do {                                                                                                               \
        sum_type sums[WIDTH] = {0};                                                                                    \
        const type *a = (const type *)call->in[0]->data + at_a + i * s.a_m;                                            \
        const type *b = (const type *)call->in[1]->data + at_b + j * s.b_n;                                            \
        for (int64_t p = 0; p < s.k; p++) {                                                                            \
            const sum_type x = (sum_type)a[p * s.a_k];                                                                 \
            const type *row = b + p * s.b_k;                                                                           \
            if (s.b_n == 1)                                                                                            \
                for (int64_t q = 0; q < n; q++) {                                                                      \
                    const sum_type w = (sum_type)row[q];                                                               \
                    sums[q] += x * w;                                                                                  \
                }                                                                                                      \
            else                                                                                                       \
                for (int64_t q = 0; q < n; q++) {                                                                      \
                    const sum_type w = (sum_type)row[q * s.b_n];                                                       \
                    sums[q] += x * w;                                                                                  \
                }                                                                                                      \
        }                                                                                                              \
        out_type *c = (out_type *)call->out[0]->data + at_c + i * s.c_m + j * s.c_n;                                   \
        for (int64_t q = 0; q < n; q++)                                                                                \
            c[q * s.c_n] = (out_type)sums[q];                                                                          \
    } while (0)

static void one_row(const bw_op_call *call, int64_t item, int64_t i, int64_t j, int64_t n)
{
    bw_matmul_shape s;
    bw_matmul_get_shape(call, &s);
    int64_t at_a, at_b, at_c;
    bw_matmul_find(call, item, &at_a, &at_b, &at_c);
    switch (call->in[0]->dtype) {
    case BW_F64:
        ROW(double, double, double);
        break;
    case BW_I64:
        ROW(uint64_t, uint64_t, uint64_t);
        break;
    case BW_U32:
    case BW_I32:
        ROW(uint32_t, uint32_t, uint32_t);
        break;
    case BW_I16:
        ROW(uint16_t, uint16_t, uint32_t);
        break;
    case BW_I8:
        ROW(int8_t, uint32_t, uint32_t);
        break;
    default:
        ROW(uint8_t, uint8_t, uint32_t);
        break;
    }
}

void bw_matmul_typed(const bw_op_call *call, bw_member *member)
{
    bw_matmul_shape s;
    bw_matmul_get_shape(call, &s);
    int64_t n_strips = (s.n + WIDTH - 1) / WIDTH, total = s.n_batch * n_strips * s.m, begin, end;
    int64_t at_once = total / (member->size * 8) + 1;
    while (bw_team_take(call->next, total, at_once < 32 ? at_once : 32, &begin, &end))
        for (int64_t t = begin; t < end; t++) { /* rows of one strip follow each other: it stays in the cache */
            int64_t i = t % s.m, j = t / s.m % n_strips * WIDTH;
            one_row(call, t / s.m / n_strips, i, j, s.n - j < WIDTH ? s.n - j : WIDTH);
        }
}
