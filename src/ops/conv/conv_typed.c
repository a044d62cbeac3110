/* The convolutions for every type and stride, by loops over rows; and what chooses between kernels. */
#include "conv/conv.h"

bool bw_conv_supports_gemm(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_conv_supports_avx2(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_conv_supports_avx512(const bw_op_call *call, const bw_cpu_features *cpu);
bw_op_kernel bw_conv_typed;

/* As products: a window's taps must lie at one stride, and so must the output's positions. */
bool bw_conv_supports_gemm(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)cpu;
    bw_conv c;
    bw_conv_get(call, &c);
    if (!((BW_MASK_HALVES | BW_MASK(BW_F32)) >> call->in[0]->dtype & 1))
        return false;
    bool taps_follow = c.h.kernel == 1 || c.w.kernel == 1 || c.w_h == c.w.kernel * c.w_w;
    return taps_follow && (c.h.out == 1 || c.y_h == c.w.out * c.y_w);
}

bool bw_conv_supports_avx2(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return cpu->avx2 && bw_conv_supports_gemm(call, cpu);
}

bool bw_conv_supports_avx512(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return cpu->avx512 && bw_conv_supports_gemm(call, cpu);
}

enum { STRIP = 64 };

/* Where one strip of an output row lies, [begin, end) of row y. */
typedef struct strip {
    const bw_conv *c;
    int64_t n, group, o, y, begin, end; /* o: within the group */
} strip;

static int64_t strip_out(const strip *s)
{
    const bw_conv *c = s->c;
    return s->n * c->y_batch + (s->group * c->group_out + s->o) * c->y_channel + s->y * c->y_h + s->begin * c->y_w;
}

#define PLAIN(x) (x)
#define STRIP_FN(name, type, sum_type, load, store)                                                                    \
    static void strip_##name(const bw_op_call *call, const strip *s)                                                   \
    {                                                                                                                  \
        const bw_conv *c = s->c;                                                                                       \
        sum_type sums[STRIP] = {0};                                                                                    \
        const type *x = call->in[0]->data, *w = call->in[1]->data;                                                     \
        for (int64_t i = 0; i < c->group_in; i++) {                                                                    \
            int64_t at_w = s->group * c->w_group + s->o * c->w_out + i * c->w_in;                                      \
            int64_t at_x = s->n * c->x_batch + (s->group * c->group_in + i) * c->x_channel;                            \
            for (int64_t ky = 0; ky < c->h.kernel; ky++) {                                                             \
                int64_t iy = bw_conv_position(c, &c->h, s->y, ky);                                                     \
                for (int64_t kx = 0; kx < c->w.kernel && iy >= 0; kx++) {                                              \
                    bw_conv_run run = bw_conv_find_run(c, &c->w, s->begin, s->end, kx);                                \
                    if (run.n == 0)                                                                                    \
                        continue;                                                                                      \
                    const sum_type weight = (sum_type)load(w[at_w + ky * c->w_h + kx * c->w_w]);                       \
                    const type *from = x + at_x + iy * c->x_h + run.in * c->x_w;                                       \
                    sum_type *to = sums + (run.out - s->begin);                                                        \
                    for (int64_t j = 0; j < run.n; j++) {                                                              \
                        const sum_type v = (sum_type)load(from[j * run.in_step * c->x_w]);                             \
                        to[j * run.out_step] += weight * v;                                                            \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        type *y = (type *)call->out[0]->data + strip_out(s);                                                           \
        for (int64_t j = 0; j < s->end - s->begin; j++)                                                                \
            y[j * c->y_w] = (type)store(sums[j]);                                                                      \
    }
STRIP_FN(f32, float, float, PLAIN, PLAIN)
STRIP_FN(f16, uint16_t, float, bw_f16_to_f32, bw_f32_to_f16)
STRIP_FN(bf16, uint16_t, float, bw_bf16_to_f32, bw_f32_to_bf16)
STRIP_FN(f64, double, double, PLAIN, PLAIN)
STRIP_FN(u8, uint8_t, uint32_t, PLAIN, PLAIN)
STRIP_FN(u32, uint32_t, uint32_t, PLAIN, PLAIN)

void bw_conv_typed(const bw_op_call *call, bw_member *member)
{
    bw_conv c;
    bw_conv_get(call, &c);
    int64_t n_strips = (c.w.out + STRIP - 1) / STRIP, begin, end;
    int64_t total = c.batch * c.c_out * c.h.out * n_strips, at_once = total / (member->size * 8) + 1;
    while (bw_team_take(call->next, total, at_once < 16 ? at_once : 16, &begin, &end)) {
        for (int64_t t = begin; t < end; t++) {
            int64_t at = t % n_strips * STRIP, row = t / n_strips, o = row / c.h.out % c.c_out;
            strip s = {&c, row / c.h.out / c.c_out, o / c.group_out, o % c.group_out, row % c.h.out, at, 0};
            s.end = at + STRIP < c.w.out ? at + STRIP : c.w.out;
            switch (call->in[0]->dtype) {
            case BW_F32:
                strip_f32(call, &s);
                break;
            case BW_F16:
                strip_f16(call, &s);
                break;
            case BW_BF16:
                strip_bf16(call, &s);
                break;
            case BW_F64:
                strip_f64(call, &s);
                break;
            case BW_U8:
                strip_u8(call, &s);
                break;
            default:
                strip_u32(call, &s);
                break;
            }
        }
    }
}
