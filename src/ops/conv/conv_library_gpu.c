/* CONV1D and CONV2D by the vendor's library (bw_gpu_dnn.h) where a timed trial finds it faster than our kernels. The
 * library counts taps outside of x as zeros, which with weights that are not finite is not what these ops mean: results
 * that came out as NaN are computed again (conv_repair_*). */
#include <stdio.h>
#include <string.h>

#include "bw_gpu_dnn.h"
#include "bw_gpu_library.h"
#include "bw_log.h"
#include "conv_gpu.h"

enum { LEAST_MILLIONS = 4, RUNS = 3, MOST_Y = 65535 };
enum { CHOICE_NONE, CHOICE_OWN, CHOICE_LIBRARY };

static bool is_dense(const bw_op_call *call)
{
    return bw_tensor_is_contiguous(call->in[0]) && bw_tensor_is_contiguous(call->in[1]) &&
           bw_tensor_is_contiguous(call->out[0]);
}

static bool make_shape(const bw_conv_job *j, bw_gpu_conv *s)
{
    const bw_conv *c = j->c;
    const bw_dtype dtype = j->call->in[0]->dtype;
    const int64_t most = INT32_MAX;
    if ((dtype != BW_F32 && dtype != BW_F16 && dtype != BW_BF16) || c->is_transposed || !is_dense(j->call) ||
        c->batch < 1 || c->c_in < 1 || c->c_out < 1 || c->h.out < 1 || c->w.out < 1)
        return false;
    const bw_conv_axis *axes[] = {&c->h, &c->w};
    for (int i = 0; i < 2; i++)
        if (axes[i]->size < 1 || axes[i]->stride > most || axes[i]->padding > most || axes[i]->dilation > most ||
            axes[i]->kernel > most)
            return false;
    if (bw_tensor_elements(j->call->in[0]) > most || bw_tensor_elements(j->call->in[1]) > most ||
        bw_tensor_elements(j->call->out[0]) > most || c->groups > most)
        return false;
    *s = (bw_gpu_conv){.type = dtype == BW_F32   ? BW_GPU_CONV_F32
                               : dtype == BW_F16 ? BW_GPU_CONV_F16
                                                 : BW_GPU_CONV_BF16,
                       .n = (int)c->batch,
                       .c = (int)c->c_in,
                       .h = (int)c->h.size,
                       .w = (int)c->w.size,
                       .k = (int)c->c_out,
                       .groups = (int)c->groups,
                       .kernel_h = (int)c->h.kernel,
                       .kernel_w = (int)c->w.kernel,
                       .out_h = (int)c->h.out,
                       .out_w = (int)c->w.out,
                       .padding_h = (int)c->h.padding,
                       .padding_w = (int)c->w.padding,
                       .stride_h = (int)c->h.stride,
                       .stride_w = (int)c->w.stride,
                       .dilation_h = (int)c->h.dilation,
                       .dilation_w = (int)c->w.dilation};
    return true;
}

static double millions(const bw_conv *c)
{
    return (double)c->batch * (double)c->c_out * (double)c->h.out * (double)c->w.out * (double)c->group_in *
           (double)c->h.kernel * (double)c->w.kernel * 1e-6;
}

static uint64_t hash(uint64_t from, const void *data, size_t n_bytes)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n_bytes; i++)
        from = (from ^ bytes[i]) * 0x100000001b3u;
    return from;
}

/* A number for what makes one call as fast as another, FNV-1a over the op, the library's version and the shape: trials'
 * results are kept for other processes, who may load another version. */
static uint64_t hash_shape(bw_device *device, const char *library, const bw_gpu_conv *s)
{
    static const char op[] = "conv2d";
    const uint64_t version = bw_gpu_dnn_version(device);
    uint64_t result = hash(0xcbf29ce484222325u, op, sizeof op);
    result = hash(result, library, strlen(library));
    result = hash(result, &version, sizeof version);
    return hash(result, s, sizeof *s);
}

static bw_status repair(const bw_conv_job *j, bw_err *err)
{
    const bw_conv *c = j->c;
    char name[64];
    if (c->h.padding + c->w.padding == 0)
        return BW_OK;
    snprintf(name, sizeof name, "conv_repair_%s", bw_dtype_name(j->call->in[0]->dtype));
    int64_t pixels = c->batch * c->h.out * c->w.out, first;
    for (first = 0; first < c->c_out; first += MOST_Y) {
        int64_t rows = c->c_out - first < MOST_Y ? c->c_out - first : MOST_Y;
        bw_gpu_grid grid = {.blocks = {(uint32_t)((pixels + 255) / 256), (uint32_t)rows, 1}, .threads = 256};
        BW_TRY(bw_gpu_run(j->device, name, &grid,
                          (void *[]){(void *)(uintptr_t)c, (void *)(uintptr_t)&j->x, (void *)(uintptr_t)&j->w,
                                     (void *)(uintptr_t)&j->y, &first},
                          err));
    }
    return BW_OK;
}

static bw_status run_library(const bw_conv_job *j, bw_err *err)
{
    bw_gpu_conv shape;
    if (!make_shape(j, &shape))
        return bw_op_fail(j->call, err, "this call is not for a library");
    BW_TRY(bw_gpu_dnn_conv(j->device, &shape, j->x, j->w, j->y, err));
    return repair(j, err);
}

/* Milliseconds of RUNS runs after a first. */
static bw_status measure(bw_conv_run_fn *fn, const bw_conv_job *j, float *ms, bw_err *err)
{
    void *begin = NULL, *end = NULL;
    bw_status status = bw_gpu_event_new(j->device, &begin, err);
    if (status == BW_OK)
        status = bw_gpu_event_new(j->device, &end, err);
    if (status == BW_OK)
        status = fn(j, err);
    if (status == BW_OK)
        status = bw_gpu_event_record(j->device, begin, err);
    for (int i = 0; i < RUNS && status == BW_OK; i++)
        status = fn(j, err);
    if (status == BW_OK)
        status = bw_gpu_event_record(j->device, end, err);
    if (status == BW_OK)
        status = bw_gpu_event_elapsed(j->device, begin, end, ms, err);
    if (begin)
        bw_gpu_event_free(j->device, begin);
    if (end)
        bw_gpu_event_free(j->device, end);
    return status;
}

/* A trial computes the call's result several times, so it can be made at any call, only not while a graph is recorded.
 */
static int choose(const bw_conv_job *j, bw_conv_run_fn *run_own, const bw_gpu_conv *s)
{
    const bool is_forced = bw_gpu_dnn_is_forced();
    if (!is_forced && millions(j->c) < LEAST_MILLIONS)
        return CHOICE_OWN;
    const char *library = bw_gpu_dnn(j->device);
    if (!library || is_forced)
        return library ? CHOICE_LIBRARY : CHOICE_OWN;
    const uint64_t shape = hash_shape(j->device, library, s);
    int choice = bw_gpu_choice(j->device, shape);
    if (choice || bw_gpu_is_capturing(j->device))
        return choice == CHOICE_LIBRARY ? CHOICE_LIBRARY : CHOICE_OWN;
    float own = 0, theirs = 0;
    bw_err err = {0};
    choice = CHOICE_OWN;
    if (measure(run_own, j, &own, &err) == BW_OK && measure(run_library, j, &theirs, &err) == BW_OK) {
        choice = theirs < own ? CHOICE_LIBRARY : CHOICE_OWN;
        bw_log_debug("%s: %s %d x %d x %d x %d to %d channels, %d x %d taps: %.3f ms, %s %.3f ms", j->device->name,
                     bw_dtype_name(j->call->in[0]->dtype), s->n, s->c, s->h, s->w, s->k, s->kernel_h, s->kernel_w,
                     (double)own / RUNS, library, (double)theirs / RUNS);
    } else {
        bw_log_debug("%s; beeswax's own kernel is used", err.text);
    }
    bw_gpu_choose(j->device, shape, choice);
    return choice;
}

bw_status bw_conv_run_best(const bw_conv_job *j, bw_conv_run_fn *run_own, bw_err *err)
{
    bw_gpu_conv shape;
    if (make_shape(j, &shape) && choose(j, run_own, &shape) == CHOICE_LIBRARY) {
        bw_err why = {0};
        bw_status status = run_library(j, &why);
        if (status == BW_OK || status == BW_E_LOST) {
            if (status != BW_OK && err)
                *err = why;
            return status;
        }
        bw_log_debug("%s; beeswax's own kernel is used", why.text);
    }
    return run_own(j, err);
}
