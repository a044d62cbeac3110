/* Running a plan on a GPU: launches in order on the device's one stream, or a graph of them.
 *
 * Small steps (a few tokens per sequence) are made of hundreds of short launches: the second time a step of the same
 * sizes comes, its launches are captured into a graph that is replayed from then on. A launch depends on sizes alone,
 * never on what lies in the device's memory. The graphs used last are kept.
 */
#include "plan_private.h"

#include <stdlib.h>
#include <string.h>

#include "bw_log.h"
#include "bw_mem.h"

enum { MOST_GRAPH_TOKENS = 64 }; /* larger steps take long enough to hide their launches */

void bw_plan_free_gpu(bw_plan *plan)
{
    for (int i = 0; i < plan->n_graphs; i++)
        bw_gpu_graph_free(plan->device, plan->graphs[i].graph);
    for (size_t i = 0; plan->events && i <= plan->n_calls; i++)
        bw_gpu_event_free(plan->device, plan->events[i]);
    bw_free(plan->events);
    if (plan->gpu_scratch.data)
        plan->device->vtable->release(plan->device, &plan->gpu_scratch);
}

static bw_status launch_all(bw_plan *plan, bw_err *err)
{
    for (size_t i = 0; i < plan->n_calls; i++) {
        const bw_op_call *call = &plan->calls[i].call;
        if (bw_plan_has_rows(call))
            BW_TRY(call->launch(call, plan->device, err));
    }
    return BW_OK;
}

/* ---- graphs --------------------------------------------------------------------------------------------------------
 */

/* The entry for these sizes: found, or new in place of the one not used for longest. */
static struct plan_graph *find_graph(bw_plan *plan, const int64_t dims[BW_DIM_COUNT], bool *is_new)
{
    struct plan_graph *oldest = &plan->graphs[0];
    for (int i = 0; i < plan->n_graphs; i++) {
        struct plan_graph *g = &plan->graphs[i];
        if (memcmp(g->dims, dims, sizeof g->dims) == 0) {
            *is_new = false;
            return g;
        }
        if (g->last_use < oldest->last_use)
            oldest = g;
    }
    *is_new = true;
    if (plan->n_graphs < PLAN_GRAPHS)
        oldest = &plan->graphs[plan->n_graphs++];
    else
        bw_gpu_graph_free(plan->device, oldest->graph);
    *oldest = (struct plan_graph){0};
    memcpy(oldest->dims, dims, sizeof oldest->dims);
    return oldest;
}

/* The graph, or NULL with *status BW_OK when this step cannot be captured here: then it is launched as it is. */
static bw_gpu_graph *capture(bw_plan *plan, bw_status *status, bw_err *err)
{
    bw_gpu_graph *graph = NULL;
    bw_err why = {0}, end = {0};
    *status = bw_gpu_capture_begin(plan->device, &why);
    if (*status == BW_OK) {
        *status = launch_all(plan, &why);
        bw_status ended = bw_gpu_capture_end(plan->device, &graph, *status == BW_OK ? &why : &end);
        if (*status == BW_OK)
            *status = ended;
    }
    if (*status == BW_OK)
        return graph;
    bw_gpu_graph_free(plan->device, graph);
    if (*status == BW_E_LOST) {
        if (err)
            *err = why;
        return NULL;
    }
    bw_log_warn("steps are launched one operation at a time: %s", why.text);
    plan->no_graphs = true;
    *status = BW_OK;
    return NULL;
}

static bw_status run_graph(bw_plan *plan, const int64_t dims[BW_DIM_COUNT], bw_err *err)
{
    bool is_new;
    struct plan_graph *g = find_graph(plan, dims, &is_new);
    g->last_use = plan->n_gpu_runs;
    if (is_new)
        return launch_all(plan, err);
    if (!g->graph) {
        bw_status status;
        g->graph = capture(plan, &status, err);
        if (status != BW_OK)
            return status;
        if (!g->graph)
            return launch_all(plan, err);
    }
    return bw_gpu_graph_launch(plan->device, g->graph, err);
}

/* ---- one by one ----------------------------------------------------------------------------------------------------
 */

static bw_status make_events(bw_plan *plan, bw_err *err)
{
    if (plan->events)
        return BW_OK;
    plan->events = bw_alloc_zero(plan->n_calls + 1, sizeof *plan->events);
    if (!plan->events)
        return bw_fail_memory(err, plan->n_calls * sizeof *plan->events, "a profile");
    for (size_t i = 0; i <= plan->n_calls; i++)
        BW_TRY(bw_gpu_event_new(plan->device, &plan->events[i], err));
    return BW_OK;
}

static bw_status run_profile(bw_plan *plan, bw_err *err)
{
    BW_TRY(make_events(plan, err));
    BW_TRY(bw_gpu_event_record(plan->device, plan->events[0], err));
    for (size_t i = 0; i < plan->n_calls; i++) {
        const bw_op_call *call = &plan->calls[i].call;
        if (bw_plan_has_rows(call))
            BW_TRY(call->launch(call, plan->device, err));
        BW_TRY(bw_gpu_event_record(plan->device, plan->events[i + 1], err));
    }
    for (size_t i = 0; i < plan->n_calls; i++) {
        struct plan_call *c = &plan->calls[i];
        float ms = 0;
        if (!bw_plan_has_rows(&c->call))
            continue;
        BW_TRY(bw_gpu_event_elapsed(plan->device, plan->events[i], plan->events[i + 1], &ms, err));
        c->ns += (int64_t)((double)ms * 1e6);
        c->n_runs++;
    }
    return BW_OK;
}

/* Bring a named value to the host and show it. */
static bw_status show(bw_plan *plan, const struct plan_value *value, bw_err *err)
{
    const bw_tensor *t = &value->tensor;
    size_t bytes = (size_t)bw_tensor_bytes(t->dtype, t->n_dims, t->dims);
    void *host = bw_alloc_array(bytes ? bytes : 1, 1);
    if (!host)
        return bw_fail_memory(err, bytes, "a value for a probe");
    bw_status status = plan->device->vtable->download(plan->device, host, t->data, bytes, err);
    if (status == BW_OK) {
        bw_tensor shown = *t;
        shown.data = host;
        plan->probe(plan->probe_user, value->name, &shown);
    }
    bw_free(host);
    return status;
}

static bw_status run_probe(bw_plan *plan, bw_err *err)
{
    for (size_t i = 0; i < plan->n_calls; i++) {
        const struct plan_call *c = &plan->calls[i];
        if (!bw_plan_has_rows(&c->call))
            continue;
        BW_TRY(c->call.launch(&c->call, plan->device, err));
        for (int k = 0; k < c->call.n_out; k++)
            if (c->out[k] >= 0 && plan->values[c->out[k]].name)
                BW_TRY(show(plan, &plan->values[c->out[k]], err));
    }
    return BW_OK;
}

bw_status bw_plan_run_gpu(bw_plan *plan, const int64_t dims[BW_DIM_COUNT], bw_err *err)
{
    if (plan->n_gpu_runs++ == 0) {
        const char *says = getenv("BW_GPU_GRAPHS");
        plan->no_graphs = says && strcmp(says, "0") == 0;
    }
    if (plan->probe)
        return run_probe(plan, err);
    if (plan->profile)
        return run_profile(plan, err);
    if (plan->no_graphs || dims[-BW_DIM_TOKENS - 1] > MOST_GRAPH_TOKENS)
        return launch_all(plan, err);
    return run_graph(plan, dims, err);
}
