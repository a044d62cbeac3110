/* Where temporaries lie and where members of the team must wait.
 *
 * Placement: values sorted by size, each at the lowest offset that is free during its whole life (greedy by size, as in
 * Pisarchyk and Lee, arXiv:2001.03288). Two values whose lives touch in the same call never overlap, and since calls
 * without a barrier between them may run at the same time, barriers are found afterwards from the memory ranges.
 */
#include <stdlib.h>

#include "bw_mem.h"
#include "plan_private.h"

enum { ALIGN = 256 };

struct item {
    int64_t bytes;
    bw_value value;
};

static int by_size(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->value > y->value) - (x->value < y->value);
}

static bool lives_touch(const struct plan_value *a, const struct plan_value *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset where v collides with none of the placed values. */
static int64_t find_place(const bw_plan *plan, const struct item *items, size_t n_placed, const struct plan_value *v)
{
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < n_placed; i++) {
            const struct plan_value *other = &plan->values[items[i].value];
            if (lives_touch(v, other) && at < other->place + other->bytes && other->place < at + v->bytes) {
                at = other->place + other->bytes;
                moved = true;
            }
        }
    }
    return at;
}

bw_status bw_plan_layout_memory(bw_plan *plan, bw_err *err)
{
    struct item *items = bw_alloc_array(plan->n_values + 1, sizeof *items);
    if (!items)
        return bw_fail_memory(err, plan->n_values * sizeof *items, "planning memory");
    size_t n = 0;
    int end = (int)plan->n_calls;
    for (size_t i = 0; i < plan->n_values; i++) {
        struct plan_value *v = &plan->values[i];
        if (v->kind != VALUE_TEMP)
            continue;
        int64_t bytes = bw_tensor_bytes(v->tensor.dtype, v->tensor.n_dims, v->tensor.dims);
        if (bytes < 0 || bytes > INT64_MAX / 4) {
            bw_free(items);
            return bw_fail(err, BW_E_RANGE, "plan: an intermediate value is too large");
        }
        v->bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
        if (v->first < 0)
            v->first = v->last = 0;
        if (v->keep)
            v->last = end;
        items[n++] = (struct item){v->bytes, (bw_value)i};
    }
    qsort(items, n, sizeof *items, by_size);
    plan->temp_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct plan_value *v = &plan->values[items[i].value];
        v->place = find_place(plan, items, i, v);
        if (v->place + v->bytes > plan->temp_bytes)
            plan->temp_bytes = v->place + v->bytes;
    }
    bw_free(items);
    return BW_OK;
}

/* Do two values share memory? Temporaries by range, everything else by identity of the root. */
static bool overlap(const bw_plan *plan, bw_value a, bw_value b)
{
    const struct plan_value *x = &plan->values[plan->values[a].root], *y = &plan->values[plan->values[b].root];
    if (x == y)
        return true;
    return x->kind == VALUE_TEMP && y->kind == VALUE_TEMP && x->place < y->place + y->bytes &&
           y->place < x->place + x->bytes;
}

static bool touches(const bw_plan *plan, const struct plan_call *c, bool c_writes_only, const bw_value *list, int n)
{
    for (int k = 0; k < n; k++) {
        if (list[k] < 0)
            continue;
        for (int o = 0; o < c->call.n_out; o++)
            if (c->out[o] >= 0 && overlap(plan, c->out[o], list[k]))
                return true;
        for (int i = 0; !c_writes_only && i < c->call.n_in; i++)
            if (c->in[i] >= 0 && overlap(plan, c->in[i], list[k]))
                return true;
    }
    return false;
}

void bw_plan_find_barriers(bw_plan *plan)
{
    size_t since = 0; /* the first call after the last barrier */
    for (size_t i = 0; i < plan->n_calls; i++) {
        struct plan_call *c = &plan->calls[i];
        c->barrier = false;
        for (size_t k = since; k < i && !c->barrier; k++) {
            const struct plan_call *before = &plan->calls[k];
            /* reads or writes what `before` wrote, or writes what `before` reads */
            c->barrier = touches(plan, c, false, before->out, before->call.n_out) ||
                         touches(plan, c, true, before->in, before->call.n_in);
        }
        if (c->barrier)
            since = i;
    }
}
