/* Graphs and events of a GPU's stream. */
#include "gpu_private.h"

#include "bw_mem.h"

struct bw_gpu_graph {
    void *handle;
};

bw_status bw_gpu_capture_begin(bw_device *device, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    int error = g->driver->capture_begin(g->stream);
    g->is_capturing = !error;
    return error ? bw_gpu_fail(g, err, error, "capturing a graph") : BW_OK;
}

bool bw_gpu_is_capturing(const bw_device *device)
{
    return bw_gpu_of_const(device)->is_capturing;
}

bw_status bw_gpu_capture_end(bw_device *device, bw_gpu_graph **graph, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    bw_gpu_graph *made = bw_alloc_zero(1, sizeof *made);
    void *handle = NULL;
    *graph = NULL;
    g->is_capturing = false;
    int error = g->driver->capture_end(g->stream, &handle); /* in any case: the stream must leave that state */
    if (!error && made) {
        made->handle = handle;
        *graph = made;
        return BW_OK;
    }
    if (!error)
        g->driver->graph_free(handle);
    bw_free(made);
    return error ? bw_gpu_fail(g, err, error, "capturing a graph") : bw_fail_memory(err, sizeof *made, "a graph");
}

bw_status bw_gpu_graph_launch(bw_device *device, bw_gpu_graph *graph, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    int error = g->driver->graph_launch(graph->handle, g->stream);
    return error ? bw_gpu_fail(g, err, error, "launching a graph") : BW_OK;
}

void bw_gpu_graph_free(bw_device *device, bw_gpu_graph *graph)
{
    bw_gpu *g = bw_gpu_of(device);
    if (!graph)
        return;
    if (bw_gpu_can_free(g))
        g->driver->graph_free(graph->handle);
    bw_free(graph);
}

bw_status bw_gpu_event_new(bw_device *device, void **event, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    int error = g->driver->event_new(event);
    return error ? bw_gpu_fail(g, err, error, "an event") : BW_OK;
}

void bw_gpu_event_free(bw_device *device, void *event)
{
    bw_gpu *g = bw_gpu_of(device);
    if (event && bw_gpu_can_free(g))
        g->driver->event_free(event);
}

bw_status bw_gpu_event_record(bw_device *device, void *event, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    int error = g->driver->event_record(event, g->stream);
    return error ? bw_gpu_fail(g, err, error, "an event") : BW_OK;
}

bw_status bw_gpu_event_elapsed(bw_device *device, void *begin, void *end, float *ms, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    int error = g->driver->event_wait(end);
    if (!error)
        error = g->driver->event_elapsed(ms, begin, end);
    return error ? bw_gpu_fail(g, err, error, "an event") : BW_OK;
}
