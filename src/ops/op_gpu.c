/* Launching elementwise kernels; timed trials of any against a vendor's library. */
#include "bw_op_gpu.h"

#include <stdio.h>
#include <string.h>

#include "bw_gpu_library.h"
#include "bw_log.h"

void bw_gpu_entry_name(const bw_op_call *call, char name[64])
{
    bw_entry entry;
    bw_op_get_entry(call, &entry);
    if (entry.dtype[0])
        snprintf(name, 64, "%.46s_%.15s", entry.prefix, entry.dtype);
    else
        snprintf(name, 64, "%.47s", entry.prefix);
}

static bool is_dense(const bw_loop *loop)
{
    bool dense = loop->n_dims == 1;
    for (int k = 0; k < loop->n_tensors; k++)
        dense = dense && loop->strides[k][0] == 1;
    return dense;
}

/* walks: whether the kernel walks the rest of a dense loop in strides of the grid. */
static bw_status each(const bw_op_call *call, bw_device *device, int n_in, void *const *extra, int n_extra, bool walks,
                      bw_err *err)
{
    const bw_tensor *tensors[BW_LOOP_MAX_TENSORS];
    char *data[BW_LOOP_MAX_TENSORS];
    void *args[1 + BW_LOOP_MAX_TENSORS + BW_GPU_MAX_EXTRA];
    bw_loop loop;
    int n = 0;
    args[n++] = &loop;
    for (int k = 0; k <= n_in; k++) {
        tensors[k] = k < n_in ? call->in[k] : call->out[0];
        data[k] = tensors[k]->data;
        args[n++] = &data[k];
    }
    for (int k = 0; k < n_extra; k++)
        args[n++] = extra[k];
    bw_loop_init(&loop, call->out[0]->n_dims, call->out[0]->dims, n_in + 1, tensors);
    char name[64];
    bw_gpu_entry_name(call, name);
    if (loop.n == 0)
        return BW_OK;
    enum { MOST = INT32_MAX };
    bool is_even = walks && is_dense(&loop);
    int64_t rows = loop.dims[0], row = loop.n / rows, step = rows;
    if (loop.n > MOST && !is_even) {
        if (row > MOST)
            return bw_op_fail(call, err, "%lld elements in one row of strides are more than %s walks", (long long)row,
                              device->name);
        step = MOST / row;
    }
    for (int64_t first = 0; first < rows; first += step) {
        int64_t count = rows - first < step ? rows - first : step;
        loop.dims[0] = count;
        loop.n = count * row;
        for (int k = 0; k <= n_in; k++)
            data[k] = (char *)tensors[k]->data + first * loop.strides[k][0] * bw_dtype_block_bytes(tensors[k]->dtype);
        bw_gpu_grid grid = {.blocks = {(uint32_t)((loop.n + 255) / 256), 1, 1}, .threads = 256};
        if (is_even)
            grid = bw_gpu_grid_for(device, loop.n, 4);
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}

bw_status bw_gpu_each(const bw_op_call *call, bw_device *device, int n_in, void *const *extra, int n_extra, bw_err *err)
{
    return each(call, device, n_in, extra, n_extra, true, err);
}

bw_status bw_gpu_each_once(const bw_op_call *call, bw_device *device, int n_in, void *const *extra, int n_extra,
                           bw_err *err)
{
    return each(call, device, n_in, extra, n_extra, false, err);
}

bw_status bw_gpu_each_1(const bw_op_call *call, bw_device *device, bw_err *err)
{
    return bw_gpu_each(call, device, 1, NULL, 0, err);
}

bw_status bw_gpu_each_2(const bw_op_call *call, bw_device *device, bw_err *err)
{
    return bw_gpu_each(call, device, 2, NULL, 0, err);
}

bw_status bw_gpu_each_3(const bw_op_call *call, bw_device *device, bw_err *err)
{
    return bw_gpu_each(call, device, 3, NULL, 0, err);
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

/* Milliseconds of one of RUNS runs after a first. */
static bw_status measure(bw_device *device, bw_gpu_trial_fn *run, const void *what, float *ms, bw_err *err)
{
    enum { RUNS = 3 };
    void *begin = NULL, *end = NULL;
    bw_status status = bw_gpu_event_new(device, &begin, err);
    if (status == BW_OK)
        status = bw_gpu_event_new(device, &end, err);
    if (status == BW_OK)
        status = run(what, err);
    if (status == BW_OK)
        status = bw_gpu_event_record(device, begin, err);
    for (int i = 0; i < RUNS && status == BW_OK; i++)
        status = run(what, err);
    if (status == BW_OK)
        status = bw_gpu_event_record(device, end, err);
    if (status == BW_OK)
        status = bw_gpu_event_elapsed(device, begin, end, ms, err);
    *ms /= RUNS;
    if (begin)
        bw_gpu_event_free(device, begin);
    if (end)
        bw_gpu_event_free(device, end);
    return status;
}

bool bw_gpu_library_keeps_subnormal(const bw_device *device, bw_dtype dtype)
{
    return dtype != BW_F16 || !strstr(device->description, "gfx90a");
}

bool bw_gpu_is_library_faster(bw_device *device, uint64_t shape, bw_gpu_trial *t)
{
    enum { NONE, OWN, LIBRARY }; /* what is kept: these numbers lie in files */
    int choice = bw_gpu_choice(device, shape);
    t->own_ms = t->library_ms = 0;
    if (choice != NONE || bw_gpu_is_capturing(device))
        return choice == LIBRARY;
    bw_err err = {0};
    bw_status status = measure(device, t->own, t->what, &t->own_ms, &err);
    if (status == BW_OK)
        status = measure(device, t->library, t->what, &t->library_ms, &err);
    if (status == BW_E_UNSUPPORTED)
        bw_log_debug("%s; beeswax's own kernel is used", err.text);
    else if (status != BW_OK)
        bw_log_warn("%s; beeswax's own kernel is used", err.text);
    choice = status == BW_OK && t->library_ms < t->own_ms ? LIBRARY : OWN;
    /* A lost device says nothing about either; a lack of memory, or of a place, may be over when the next process
     * tries. */
    if (status != BW_E_LOST)
        bw_gpu_choose(device, shape, choice, status == BW_E_MEMORY || status == BW_E_FULL);
    if (status != BW_OK)
        t->own_ms = t->library_ms = 0;
    return choice == LIBRARY;
}

bw_status bw_gpu_run_either(const bw_gpu_trial *ways, bool wants_library, bw_err *err)
{
    if (wants_library) {
        bw_err why = {0};
        bw_status status = ways->library(ways->what, &why);
        if (status == BW_OK || status == BW_E_LOST) {
            if (status != BW_OK && err)
                *err = why;
            return status;
        }
        bw_log_debug("%s; beeswax's own kernel is used", why.text);
    }
    return ways->own(ways->what, err);
}
