/* Building, checking and running plans; memory.c lays out the temporaries. */
#include "bw_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "plan_private.h"

bw_status bw_plan_new(bw_device *device, const int64_t max_dims[BW_DIM_COUNT], const char *variant, bw_plan **out,
                      bw_err *err)
{
    *out = NULL;
    bw_plan *plan = bw_alloc_zero(1, sizeof *plan);
    if (!plan)
        return bw_fail_memory(err, sizeof *plan, "a plan");
    plan->device = device;
    memcpy(plan->max_dims, max_dims, sizeof plan->max_dims);
    if (variant)
        snprintf(plan->variant, sizeof plan->variant, "%s", variant);
    bw_arena_init(&plan->arena, 0);
    *out = plan;
    return BW_OK;
}

void bw_plan_free(bw_plan *plan)
{
    if (!plan)
        return;
    bw_plan_free_gpu(plan);
    if (plan->temp.data)
        plan->device->vtable->release(plan->device, &plan->temp);
    bw_free(plan->scratch);
    bw_free(plan->counters);
    bw_free(plan->values);
    bw_free(plan->calls);
    bw_arena_deinit(&plan->arena);
    bw_free(plan);
}

void bw_plan_set_error(bw_plan *plan, const bw_err *err)
{
    if (plan->err.status == BW_OK)
        plan->err = *err;
}

static void fail_memory(bw_plan *plan)
{
    bw_err err = {0};
    bw_fail_memory(&err, 0, "a plan's lists");
    bw_plan_set_error(plan, &err);
}

static void fail_arg(bw_plan *plan, const char *what)
{
    bw_err err = {0};
    bw_fail(&err, BW_E_INTERNAL, "plan: %s", what);
    bw_plan_set_error(plan, &err);
}

/* A new value whose dims may be symbolic; dims[0] becomes the maximum. */
static struct plan_value *add_value(bw_plan *plan, enum value_kind kind, bw_dtype dtype, int n_dims,
                                    const int64_t *dims)
{
    if (plan->err.status != BW_OK)
        return NULL;
    if (n_dims < 1 || n_dims > BW_MAX_DIMS) {
        fail_arg(plan, "a value has too many dimensions");
        return NULL;
    }
    if (!bw_reserve((void **)&plan->values, &plan->values_cap, plan->n_values + 1, sizeof *plan->values)) {
        fail_memory(plan);
        return NULL;
    }
    struct plan_value *value = &plan->values[plan->n_values];
    *value = (struct plan_value){.kind = kind, .root = (bw_value)plan->n_values, .first = -1, .last = -1};
    int64_t real[BW_MAX_DIMS];
    memcpy(real, dims, (size_t)n_dims * sizeof *real);
    if (real[0] < 0) {
        value->symbol = (int)-real[0];
        if (value->symbol > BW_DIM_COUNT) {
            fail_arg(plan, "an unknown symbolic dimension");
            return NULL;
        }
        real[0] = plan->max_dims[value->symbol - 1];
    }
    value->tensor = bw_tensor_view(dtype, n_dims, real, NULL);
    plan->n_values++;
    return value;
}

static bw_value number(const bw_plan *plan, const struct plan_value *value)
{
    return value ? (bw_value)(value - plan->values) : BW_NO_VALUE;
}

bw_value bw_plan_input(bw_plan *plan, bw_dtype dtype, int n_dims, const int64_t *dims)
{
    return number(plan, add_value(plan, VALUE_INPUT, dtype, n_dims, dims));
}

bw_value bw_plan_const(bw_plan *plan, const bw_tensor *tensor)
{
    struct plan_value *value = add_value(plan, VALUE_CONST, tensor->dtype, tensor->n_dims, tensor->dims);
    if (value)
        value->tensor = *tensor;
    return number(plan, value);
}

bw_value bw_plan_temp(bw_plan *plan, bw_dtype dtype, uint32_t layout, int n_dims, const int64_t *dims)
{
    struct plan_value *value = add_value(plan, VALUE_TEMP, dtype, n_dims, dims);
    if (value)
        value->tensor.layout = layout;
    return number(plan, value);
}

bw_value bw_plan_view(bw_plan *plan, bw_value of, int n_dims, const int64_t *dims, const int64_t *strides,
                      int64_t offset)
{
    if (plan->err.status != BW_OK || of < 0)
        return BW_NO_VALUE;
    bw_dtype dtype = plan->values[of].tensor.dtype;
    struct plan_value *value = add_value(plan, VALUE_VIEW, dtype, n_dims, dims);
    if (!value)
        return BW_NO_VALUE;
    const struct plan_value *base = &plan->values[of];
    value->root = base->root;
    value->offset = base->offset + offset;
    value->tensor.layout = base->tensor.layout;
    memcpy(value->tensor.strides, strides, (size_t)n_dims * sizeof *strides);
    return number(plan, value);
}

const bw_tensor *bw_plan_tensor(const bw_plan *plan, bw_value value)
{
    static const bw_tensor nothing = {.n_dims = 1, .dims = {1}, .strides = {1}};
    return value < 0 ? &nothing : &plan->values[value].tensor;
}

void bw_plan_call(bw_plan *plan, bw_op op, int n_in, const bw_value *in, int n_out, const bw_value *out,
                  const void *params, size_t params_bytes)
{
    if (plan->err.status != BW_OK)
        return;
    if (n_in > BW_OP_MAX_IN || n_out > BW_OP_MAX_OUT) {
        fail_arg(plan, "a call has too many tensors");
        return;
    }
    void *copy = params_bytes ? bw_arena_alloc(&plan->arena, params_bytes) : NULL;
    if ((params_bytes && !copy) ||
        !bw_reserve((void **)&plan->calls, &plan->calls_cap, plan->n_calls + 1, sizeof *plan->calls)) {
        fail_memory(plan);
        return;
    }
    if (copy)
        memcpy(copy, params, params_bytes);
    struct plan_call *call = &plan->calls[plan->n_calls];
    *call = (struct plan_call){.call = {.op = op, .n_in = n_in, .n_out = n_out, .params = copy}};
    int n = (int)plan->n_calls++;
    for (int i = 0; i < n_in + n_out; i++) {
        bw_value v = i < n_in ? in[i] : out[i - n_in];
        if (i < n_in)
            call->in[i] = v;
        else
            call->out[i - n_in] = v;
        if (v < 0)
            continue;
        struct plan_value *root = &plan->values[plan->values[v].root];
        if (root->first < 0)
            root->first = n;
        if (root->last < n)
            root->last = n;
    }
}

void bw_plan_keep(bw_plan *plan, bw_value value)
{
    if (value >= 0)
        plan->values[plan->values[value].root].keep = true;
}

void bw_plan_name(bw_plan *plan, bw_value value, const char *format, ...)
{
    if (value < 0 || plan->err.status != BW_OK)
        return;
    char name[64];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    plan->values[value].name = bw_arena_strndup(&plan->arena, name, strlen(name));
    if (!plan->values[value].name)
        fail_memory(plan);
}

/* Point every call at its tensors; the arrays no longer move. */
static void link_calls(bw_plan *plan)
{
    for (size_t i = 0; i < plan->n_calls; i++) {
        struct plan_call *c = &plan->calls[i];
        for (int k = 0; k < c->call.n_in; k++)
            c->call.in[k] = c->in[k] < 0 ? NULL : &plan->values[c->in[k]].tensor;
        for (int k = 0; k < c->call.n_out; k++)
            c->call.out[k] = c->out[k] < 0 ? NULL : &plan->values[c->out[k]].tensor;
    }
}

static void place_values(bw_plan *plan)
{
    for (size_t i = 0; i < plan->n_values; i++) {
        struct plan_value *v = &plan->values[i];
        if (v->kind == VALUE_TEMP)
            v->tensor.data = (char *)plan->temp.data + v->place;
    }
    for (size_t i = 0; i < plan->n_values; i++) {
        struct plan_value *v = &plan->values[i];
        if (v->kind == VALUE_VIEW) {
            const struct plan_value *root = &plan->values[v->root];
            if (root->tensor.data)
                v->tensor.data = (char *)root->tensor.data + bw_dtype_bytes(v->tensor.dtype, v->offset);
        }
    }
}

/* An op for which no kernel fits runs by its reference, correct and very slow: that is never silent. */
static void say_slow_ops(const bw_plan *plan)
{
    bool said[BW_OP_COUNT] = {0};
    for (size_t i = 0; !plan->variant[0] && i < plan->n_calls; i++) {
        const bw_op_call *call = &plan->calls[i].call;
        if (!said[call->op] && strcmp(call->variant, "ref") == 0)
            bw_log_warn("%s: no kernel here fits these shapes and types; the slow reference runs instead",
                        bw_op_get(call->op)->name);
        said[call->op] = said[call->op] || strcmp(call->variant, "ref") == 0;
    }
}

/* One scratch for all calls: they run one after another. */
static bw_status finish_gpu(bw_plan *plan, size_t scratch, bw_err *err)
{
    plan->scratch_bytes = scratch;
    if (scratch)
        BW_TRY(plan->device->vtable->alloc(plan->device, scratch, BW_MEMORY_DENSE, "a plan's scratch",
                                           &plan->gpu_scratch, err));
    for (size_t i = 0; i < plan->n_calls; i++) {
        plan->calls[i].call.scratch = plan->gpu_scratch.data;
        plan->calls[i].call.scratch_bytes = scratch;
    }
    plan->finished = true;
    return BW_OK;
}

bw_status bw_plan_finish(bw_plan *plan, bw_err *err)
{
    if (plan->err.status != BW_OK) {
        if (err)
            *err = plan->err;
        return plan->err.status;
    }
    link_calls(plan);
    BW_TRY(bw_plan_layout_memory(plan, err));
    if (plan->temp_bytes)
        BW_TRY(plan->device->vtable->alloc(plan->device, (size_t)plan->temp_bytes, BW_MEMORY_DENSE,
                                           "intermediate values", &plan->temp, err));
    place_values(plan);
    size_t scratch = 0;
    for (size_t i = 0; i < plan->n_calls; i++) {
        bw_op_call *call = &plan->calls[i].call;
        BW_TRY(bw_op_prepare(call, plan->device, plan->variant[0] ? plan->variant : NULL, err));
        size_t bytes = (call->scratch_bytes + 63) / 64 * 64;
        scratch = bytes > scratch ? bytes : scratch;
    }
    say_slow_ops(plan);
    if (plan->device->kind != BW_DEVICE_CPU)
        return finish_gpu(plan, scratch, err);
    bw_plan_find_barriers(plan);
    if (!bw_mul_size(scratch, (size_t)bw_team_size(plan->device->team), &plan->scratch_bytes))
        return bw_fail(err, BW_E_RANGE, "plan: %zu bytes of scratch for each thread are too many", scratch);
    plan->scratch = plan->scratch_bytes ? bw_alloc_aligned(plan->scratch_bytes) : NULL;
    plan->counters = bw_alloc_aligned((plan->n_calls + 1) * sizeof *plan->counters);
    if ((plan->scratch_bytes && !plan->scratch) || !plan->counters)
        return bw_fail_memory(err, plan->scratch_bytes, "a plan's scratch");
    for (size_t i = 0; i < plan->n_calls; i++) {
        plan->calls[i].call.scratch = plan->scratch;
        plan->calls[i].call.scratch_bytes = scratch; /* one size for all: see bw_op_call */
        plan->calls[i].call.next = &plan->counters[i].next;
    }
    plan->finished = true;
    return BW_OK;
}

void bw_plan_bind(bw_plan *plan, bw_value value, void *data)
{
    plan->values[value].tensor.data = data;
    place_values(plan);
}

void *bw_plan_data(const bw_plan *plan, bw_value value)
{
    return value < 0 ? NULL : plan->values[value].tensor.data;
}

bool bw_plan_has_rows(const bw_op_call *call)
{
    return call->out[0]->dims[0] > 0;
}

/* Every member walks the calls in order; barriers only where a call touches what an earlier one since the last barrier
 * wrote or reads. */
static void run_member(void *arg, bw_member *member)
{
    bw_plan *plan = arg;
    bool wait = false; /* a call that was left out for want of rows passes its barrier on */
    for (size_t i = plan->run_begin; i < plan->run_end; i++) {
        const struct plan_call *c = &plan->calls[i];
        wait = wait || c->barrier;
        if (!bw_plan_has_rows(&c->call))
            continue;
        if (wait)
            bw_team_barrier(member);
        wait = false;
        c->call.kernel(&c->call, member);
    }
}

static void run_range(bw_plan *plan, size_t begin, size_t end)
{
    plan->run_begin = begin;
    plan->run_end = end;
    bw_team_run(plan->device->team, run_member, plan);
}

static void report_names(bw_plan *plan, const struct plan_call *c)
{
    for (int k = 0; k < c->call.n_out; k++) {
        if (c->out[k] >= 0 && plan->values[c->out[k]].name)
            plan->probe(plan->probe_user, plan->values[c->out[k]].name, &plan->values[c->out[k]].tensor);
    }
}

static void run_one_by_one(bw_plan *plan)
{
    for (size_t i = 0; i < plan->n_calls; i++) {
        struct plan_call *c = &plan->calls[i];
        if (!bw_plan_has_rows(&c->call))
            continue;
        int64_t begin = bw_clock_now_ns();
        run_range(plan, i, i + 1);
        c->ns += bw_clock_now_ns() - begin;
        c->n_runs++;
        if (plan->probe)
            report_names(plan, c);
    }
}

bw_status bw_plan_run(bw_plan *plan, const int64_t dims[BW_DIM_COUNT], bw_err *err)
{
    if (!plan->finished)
        return bw_fail(err, BW_E_INTERNAL, "plan: run before it was finished");
    for (int i = 0; i < BW_DIM_COUNT; i++)
        if (dims[i] < 0 || dims[i] > plan->max_dims[i])
            return bw_fail(err, BW_E_RANGE, "plan: symbolic dimension %d is %lld; at most %lld were planned", i + 1,
                           (long long)dims[i], (long long)plan->max_dims[i]);
    for (size_t i = 0; i < plan->n_values; i++)
        if (plan->values[i].symbol)
            plan->values[i].tensor.dims[0] = dims[plan->values[i].symbol - 1];
    if (plan->device->kind != BW_DEVICE_CPU)
        return bw_plan_run_gpu(plan, dims, err);
    for (size_t i = 0; i < plan->n_calls; i++)
        atomic_store_explicit(&plan->counters[i].next, 0, memory_order_relaxed);
    if (plan->probe || plan->profile)
        run_one_by_one(plan);
    else
        run_range(plan, 0, plan->n_calls);
    return BW_OK;
}

void bw_plan_set_probe(bw_plan *plan, bw_plan_probe_fn *probe, void *user)
{
    plan->probe = probe;
    plan->probe_user = user;
}

void bw_plan_set_profile(bw_plan *plan, bool on)
{
    plan->profile = on;
}

int64_t bw_plan_memory_bytes(const bw_plan *plan)
{
    return plan->temp_bytes + (int64_t)plan->scratch_bytes;
}

void bw_plan_report(bw_plan *plan, bool reset, bw_str *out)
{
    int64_t ns[BW_OP_COUNT] = {0}, runs[BW_OP_COUNT] = {0}, total = 0;
    const char *variant[BW_OP_COUNT] = {0};
    for (size_t i = 0; i < plan->n_calls; i++) {
        struct plan_call *c = &plan->calls[i];
        ns[c->call.op] += c->ns;
        runs[c->call.op] += c->n_runs;
        variant[c->call.op] = c->call.variant;
        total += c->ns;
        if (reset)
            c->ns = c->n_runs = 0;
    }
    for (int op = 0; op < BW_OP_COUNT; op++)
        if (runs[op])
            bw_str_add_format(out, "%-14s %-12s %8lld calls %10.2f ms %5.1f%%\n", bw_op_get((bw_op)op)->name,
                              variant[op], (long long)runs[op], (double)ns[op] / 1e6,
                              total ? 100.0 * (double)ns[op] / (double)total : 0.0);
}
