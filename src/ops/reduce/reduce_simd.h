/* The reductions over any axes for f32, f16 and bf16, over vectors. Sums are kept in f64: it costs less than the loads,
 * and neither the number of terms nor their size can spoil them. */
#include "reduce/reduce_space.h"
#include "reduce/reduce_vec.h"

bw_op_kernel BW_LEVEL(bw_reduce_sum), BW_LEVEL(bw_reduce_min), BW_LEVEL(bw_reduce_max), BW_LEVEL(bw_reduce_argmin),
    BW_LEVEL(bw_reduce_argmax);

enum { COLUMNS = 1024, SEARCH = 1024 };

BW_INLINE double sum_of(const float *x, int64_t n)
{
    vd s0 = vd_zero(), s1 = vd_zero(), s2 = vd_zero(), s3 = vd_zero();
    int64_t i = 0;
    for (; i + 4 * VF_N <= n; i += 4 * VF_N) {
        s0 = vd_add(s0, vf_load(x + i));
        s1 = vd_add(s1, vf_load(x + i + VF_N));
        s2 = vd_add(s2, vf_load(x + i + 2 * VF_N));
        s3 = vd_add(s3, vf_load(x + i + 3 * VF_N));
    }
    for (; i + VF_N <= n; i += VF_N)
        s0 = vd_add(s0, vf_load(x + i));
    if (i < n)
        s1 = vd_add(s1, vf_load_n(x + i, n - i));
    return vd_sum(vd_add_vd(vd_add_vd(s0, s1), vd_add_vd(s2, s3)));
}

/* The least or greatest of x that is no NaN, or best when none goes beyond it. */
BW_INLINE float extreme_of(bool least, const float *x, int64_t n, float best)
{
    vf a = vf_set1(best), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * VF_N <= n; i += 4 * VF_N) {
        vf p = vf_load(x + i), q = vf_load(x + i + VF_N), r = vf_load(x + i + 2 * VF_N), s = vf_load(x + i + 3 * VF_N);
        a = least ? vf_min(p, a) : vf_max(p, a);
        b = least ? vf_min(q, b) : vf_max(q, b);
        c = least ? vf_min(r, c) : vf_max(r, c);
        d = least ? vf_min(s, d) : vf_max(s, d);
    }
    for (; i + VF_N <= n; i += VF_N)
        a = least ? vf_min(vf_load(x + i), a) : vf_max(vf_load(x + i), a);
    a = least ? vf_min(vf_min(a, b), vf_min(c, d)) : vf_max(vf_max(a, b), vf_max(c, d));
    best = least ? vf_min_lane(a) : vf_max_lane(a);
    for (; i < n; i++)
        best = (least ? x[i] < best : x[i] > best) ? x[i] : best;
    return best;
}

/* One more run of elements, whose first is number `first`. */
BW_INLINE void fold(bw_reduce_kind kind, bw_reduce_state *state, const float *x, int64_t n, int64_t first)
{
    if (kind == BW_REDUCE_SUM) {
        state->value += sum_of(x, n);
        return;
    }
    bool least = kind == BW_REDUCE_MIN || kind == BW_REDUCE_ARGMIN;
    if (first == 0) {
        state->value = (double)x[0];
        state->at = 0;
    }
    if (isnan(state->value)) /* it came first and stays */
        return;
    float best = (float)state->value;
    if (!bw_reduce_is_arg(kind)) {
        state->value = (double)extreme_of(least, x, n, best);
        return;
    }
    for (int64_t i = 0; i < n; i += SEARCH) {
        int64_t m = n - i < SEARCH ? n - i : SEARCH, k = 0;
        float found = extreme_of(least, x + i, m, best);
        if (least ? !(found < best) : !(found > best))
            continue;
        while (x[i + k] != found)
            k++;
        best = found;
        state->value = (double)best;
        state->at = (uint32_t)(first + i + k);
    }
}

BW_INLINE bw_reduce_state start(bw_reduce_kind kind)
{
    bool least = kind == BW_REDUCE_MIN || kind == BW_REDUCE_ARGMIN;
    return (bw_reduce_state){.value = kind == BW_REDUCE_SUM ? 0
                                      : least               ? (double)INFINITY
                                                            : -(double)INFINITY,
                             .at = BW_REDUCE_NOWHERE};
}

/* Elements [begin, end) of the reduced space, from x's element `from` on. */
BW_INLINE void fold_range(bw_reduce_kind kind, const bw_loop *reduced, const bw_tensor *x, int64_t from, int64_t begin,
                          int64_t end, bw_reduce_state *state)
{
    float buffer[BW_EACH_BLOCK];
    bw_loop_cursor cursor;
    bw_span span = {.n = end - begin, .offset = {begin * bw_loop_step(reduced, 0)}};
    int64_t first = begin;
    bool is_one_run = reduced->n_dims == 1; /* most often; then short runs are not slowed down by a cursor */
    *state = start(kind);
    if (!is_one_run)
        bw_loop_begin(&cursor, reduced, begin, end);
    while (is_one_run ? first < end : bw_loop_next(&cursor, &span)) {
        bw_row row = bw_row_at(x, from + span.offset[0], bw_loop_step(reduced, 0), span.n);
        int64_t piece = bw_row_piece(&row);
        for (int64_t i = 0; i < span.n; i += piece) {
            int64_t n = span.n - i < piece ? span.n - i : piece;
            fold(kind, state, bw_row_load(&row, i, n, buffer), n, first);
            first += n;
        }
    }
}

/* acc[j] += x[j], or acc[j], at[j] = x[j], index where x[j] goes beyond acc[j]. */
BW_INLINE void fold_columns(bw_reduce_kind kind, const float *x, int64_t n, double *sums, float *acc, float *at,
                            uint32_t index, bool is_first)
{
    const vf here = vf_set1(bw_f32_from_bits(index));
    for (int64_t j = 0; j < n; j += VF_N) {
        vf v = j + VF_N <= n ? vf_load(x + j) : vf_load_n(x + j, n - j);
        if (kind == BW_REDUCE_SUM) {
            vd_store(sums + j, is_first ? vd_add(vd_zero(), v) : vd_add(vd_load(sums + j), v));
            continue;
        }
        vf old = vf_load(acc + j);
        bool least = kind == BW_REDUCE_MIN || kind == BW_REDUCE_ARGMIN;
        if (is_first) {
            vf_store(acc + j, v);
        } else if (bw_reduce_is_arg(kind)) {
            vf was = vf_load(at + j);
            vf_store(at + j, least ? vf_select_less(v, old, here, was) : vf_select_less(old, v, here, was));
            vf_store(acc + j, least ? vf_select_less(v, old, v, old) : vf_select_less(old, v, v, old));
        } else {
            vf_store(acc + j, least ? vf_select_less(v, old, v, old) : vf_select_less(old, v, v, old));
        }
        if (is_first)
            vf_store(at + j, here);
    }
}

/* As fold_columns, of four rows `down` elements apart: each result is read and written once. No arg forms. */
BW_INLINE void fold_four_rows(bw_reduce_kind kind, const float *x, int64_t down, int64_t n, double *sums, float *acc)
{
    const float *x1 = x + down, *x2 = x1 + down, *x3 = x2 + down;
    int64_t j = 0;
    for (; j + VF_N <= n; j += VF_N) {
        vf a = vf_load(x + j), b = vf_load(x1 + j), c = vf_load(x2 + j), d = vf_load(x3 + j);
        if (kind == BW_REDUCE_SUM) {
            vd s = vd_add(vd_add(vd_load(sums + j), a), b);
            vd_store(sums + j, vd_add(vd_add(s, c), d));
            continue;
        }
        /* a NaN that came first stays: it is the operand that both forms take */
        vf old = vf_load(acc + j);
        vf best = kind == BW_REDUCE_MIN ? vf_min(d, vf_min(c, vf_min(b, vf_min(a, old))))
                                        : vf_max(d, vf_max(c, vf_max(b, vf_max(a, old))));
        vf_store(acc + j, best);
    }
    for (; j < n; j++)
        for (int r = 0; r < 4; r++) {
            float v = x[r * down + j];
            if (kind == BW_REDUCE_SUM)
                sums[j] += (double)v;
            else
                acc[j] = (kind == BW_REDUCE_MIN ? v < acc[j] : v > acc[j]) ? v : acc[j];
        }
}

/* n <= COLUMNS results side by side, from x's element `from` on, step elements apart: elements [begin, end) of the
 * reduced space of each. */
BW_INLINE void reduce_columns(bw_reduce_kind kind, const bw_loop *reduced, const bw_tensor *x, int64_t from,
                              int64_t step, int64_t n, int64_t begin, int64_t end, double *sums, float *acc, float *at)
{
    float buffer[COLUMNS];
    bw_loop_cursor cursor;
    bw_span span;
    int64_t index = begin;
    const bw_reduce_state nothing = start(kind);
    bool is_direct = x->dtype == BW_F32 && step == 1 && !bw_reduce_is_arg(kind);
    for (int64_t j = 0; begin > 0 && j < n; j++) { /* a later part: its first row has no right to stay */
        sums[j] = 0;
        acc[j] = (float)nothing.value;
        at[j] = bw_f32_from_bits(nothing.at);
    }
    bw_loop_begin(&cursor, reduced, begin, end);
    while (bw_loop_next(&cursor, &span))
        for (int64_t r = 0; r < span.n; r++, index++) {
            int64_t down = bw_loop_step(reduced, 0);
            while (is_direct && index > 0 && r + 4 <= span.n) {
                const float *v = (const float *)x->data + from + span.offset[0] + r * down;
                fold_four_rows(kind, v, down, n, sums, acc);
                r += 4;
                index += 4;
            }
            if (r == span.n)
                break;
            bw_row row = bw_row_at(x, from + span.offset[0] + r * down, step, n);
            const float *v = buffer;
            if (row.is_direct)
                v = (const float *)(const void *)row.data;
            else
                bw_each_load(row.dtype, row.data, step, buffer, n);
            fold_columns(kind, v, n, sums, acc, at, (uint32_t)index, index == 0);
        }
}

BW_INLINE void put(bw_reduce_kind kind, const bw_tensor *y, int64_t to, const bw_reduce_state *state)
{
    if (bw_reduce_is_arg(kind))
        ((uint32_t *)y->data)[to] = state->at;
    else if (y->dtype == BW_F32)
        ((float *)y->data)[to] = (float)state->value;
    else
        bw_element_set_f64(y->dtype, y->data, to, state->value);
}

/* Results [begin, end) whole. */
BW_INLINE void reduce_results(bw_reduce_kind kind, const bw_op_call *call, const bw_reduce_space *space,
                              bool by_columns, int64_t begin, int64_t end)
{
    double sums[COLUMNS + 16];
    float acc[COLUMNS + 16], at[COLUMNS + 16];
    const bw_loop *kept = &space->kept;
    int64_t x_step = bw_loop_step(kept, 0), y_step = bw_loop_step(kept, 1), n_reduced = space->reduced.n;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, kept, begin, end);
    while (bw_loop_next(&cursor, &span)) {
        for (int64_t i = 0; !by_columns && i < span.n; i++) {
            bw_reduce_state state;
            fold_range(kind, &space->reduced, call->in[0], span.offset[0] + i * x_step, 0, n_reduced, &state);
            put(kind, call->out[0], span.offset[1] + i * y_step, &state);
        }
        for (int64_t i = 0; by_columns && i < span.n; i += COLUMNS) {
            int64_t n = span.n - i < COLUMNS ? span.n - i : COLUMNS;
            reduce_columns(kind, &space->reduced, call->in[0], span.offset[0] + i * x_step, x_step, n, 0, n_reduced,
                           sums, acc, at);
            for (int64_t j = 0; j < n; j++) {
                bw_reduce_state state = {.value = kind == BW_REDUCE_SUM ? sums[j] : (double)acc[j],
                                         .at = bw_f32_bits(at[j])};
                put(kind, call->out[0], span.offset[1] + (i + j) * y_step, &state);
            }
        }
    }
}

/* Every result's elements [begin, end) into states[]. */
BW_INLINE void reduce_parts(bw_reduce_kind kind, const bw_op_call *call, const bw_reduce_space *space, bool by_columns,
                            int64_t begin, int64_t end, bw_reduce_state *states)
{
    double sums[BW_REDUCE_MAX_PARTIAL + 16];
    float acc[BW_REDUCE_MAX_PARTIAL + 16], at[BW_REDUCE_MAX_PARTIAL + 16];
    const bw_loop *kept = &space->kept;
    int64_t x_step = bw_loop_step(kept, 0);
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, kept, 0, kept->n);
    while (bw_loop_next(&cursor, &span)) {
        for (int64_t i = 0; !by_columns && i < span.n; i++)
            fold_range(kind, &space->reduced, call->in[0], span.offset[0] + i * x_step, begin, end, states++);
        if (!by_columns)
            continue;
        reduce_columns(kind, &space->reduced, call->in[0], span.offset[0], x_step, span.n, begin, end, sums, acc, at);
        for (int64_t j = 0; j < span.n; j++)
            *states++ =
                (bw_reduce_state){.value = kind == BW_REDUCE_SUM ? sums[j] : (double)acc[j], .at = bw_f32_bits(at[j])};
    }
}

/* Member 0 joins what all members found, in order. A part that holds NaN only or began with one says nothing, unless it
 * is the first. */
BW_INLINE void join(bw_reduce_kind kind, const bw_op_call *call, const bw_reduce_space *space, const bw_member *member)
{
    const bw_loop *kept = &space->kept;
    bool least = kind == BW_REDUCE_MIN || kind == BW_REDUCE_ARGMIN;
    for (int64_t o = 0; o < kept->n; o++) {
        bw_reduce_state all = {0};
        for (int m = 0; m < member->size; m++) {
            bw_member other = {.rank = m};
            const bw_reduce_state *part = (const bw_reduce_state *)bw_op_member_scratch(call, &other) + o;
            if (kind == BW_REDUCE_SUM)
                all.value += part->value;
            else if (m == 0 || (least ? part->value < all.value : part->value > all.value))
                all = *part;
        }
        bw_loop_cursor cursor;
        bw_span span;
        bw_loop_begin(&cursor, kept, o, o + 1);
        bw_loop_next(&cursor, &span);
        put(kind, call->out[0], span.offset[1], &all);
    }
}

BW_INLINE void reduce(bw_reduce_kind kind, const bw_op_call *call, bw_member *member)
{
    bw_reduce_space space;
    bw_reduce_space_init(&space, call);
    bw_reduce_way way = bw_reduce_find_way(&space, member->size);
    int64_t begin, end;
    if (!way.in_parts) {
        if (bw_op_my_share(member, space.kept.n, space.reduced.n + 1, 4096, &begin, &end))
            reduce_results(kind, call, &space, way.by_columns, begin, end);
        return;
    }
    bw_team_split(member, space.reduced.n, 64, &begin, &end);
    reduce_parts(kind, call, &space, way.by_columns, begin, end, bw_op_member_scratch(call, member));
    bw_team_barrier(member);
    if (member->rank == 0)
        join(kind, call, &space, member);
    bw_team_barrier(member); /* nobody's scratch may change while it is read */
}

#define KERNEL(name, kind)                                                                                             \
    void BW_LEVEL(bw_reduce_##name)(const bw_op_call *call, bw_member *member)                                         \
    {                                                                                                                  \
        reduce(BW_REDUCE_##kind, call, member);                                                                        \
    }
KERNEL(sum, SUM)
KERNEL(min, MIN)
KERNEL(max, MAX)
KERNEL(argmin, ARGMIN)
KERNEL(argmax, ARGMAX)
