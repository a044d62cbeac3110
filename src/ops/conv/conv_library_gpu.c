/* CONV1D and CONV2D by the vendor's library (bw_gpu_dnn.h) where a timed trial finds it faster than our kernels. The
 * library counts taps outside of x as zeros, which with weights that are not finite is not what these ops mean: results
 * that came out as NaN are computed again (conv_repair_*). */
#include <stdio.h>
#include <string.h>

#include "bw_gpu_dnn.h"
#include "bw_log.h"
#include "conv_gpu.h"

enum { LEAST_MILLIONS = 4, MOST_Y = 65535 };

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

/* What both ways take. */
struct ways {
    const bw_conv_job *j;
    bw_conv_run_fn *run_own;
    bw_gpu_conv shape;
};

static bw_status run_own(const void *what, bw_err *err)
{
    const struct ways *w = what;
    return w->run_own(w->j, err);
}

static bw_status run_library(const void *what, bw_err *err)
{
    const struct ways *w = what;
    BW_TRY(bw_gpu_dnn_conv(w->j->device, &w->shape, w->j->x, w->j->w, w->j->y, err));
    return repair(w->j, err);
}

static bool wants_library(const bw_conv_job *j, const bw_gpu_conv *s, bw_gpu_trial *t)
{
    const bool is_forced = bw_gpu_dnn_is_forced();
    if ((!is_forced && millions(j->c) < LEAST_MILLIONS) ||
        !bw_gpu_library_keeps_subnormal(j->device, j->call->in[0]->dtype))
        return false;
    const char *library = bw_gpu_dnn(j->device);
    if (!library || is_forced)
        return library != NULL;
    const bool is_faster = bw_gpu_is_library_faster(j->device, hash_shape(j->device, library, s), t);
    if (t->own_ms > 0)
        bw_log_debug("%s: %s %d x %d x %d x %d to %d channels, %d x %d taps: %.3f ms, %s %.3f ms", j->device->name,
                     bw_dtype_name(j->call->in[0]->dtype), s->n, s->c, s->h, s->w, s->k, s->kernel_h, s->kernel_w,
                     (double)t->own_ms, library, (double)t->library_ms);
    return is_faster;
}

bw_status bw_conv_run_best(const bw_conv_job *j, bw_conv_run_fn *own, bw_err *err)
{
    struct ways ways = {.j = j, .run_own = own};
    bw_gpu_trial t = {.own = run_own, .library = run_library, .what = &ways};
    return bw_gpu_run_either(&t, make_shape(j, &ways.shape) && wants_library(j, &ways.shape, &t), err);
}
