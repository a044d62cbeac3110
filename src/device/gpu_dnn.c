/* The vendors' convolution libraries, by dlopen: nothing of theirs is needed to build or to start. Owns a handle and a
 * workspace per device, and a plan per shape: descriptors and the algorithm, found once. Refuses to search: MIOpen's
 * Find and cuDNN's cudnnFind measure for seconds.
 *
 * Which of the two a library is, its functions say. */
#include "bw_gpu_dnn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bw_log.h"
#include "bw_mem.h"
#include "gpu_dnn_functions.h"
#include "gpu_private.h"

static const size_t most_workspace = (size_t)256 << 20, least_workspace = (size_t)16 << 20;
enum { MOST_PLANS = 512, MOST_SOLUTIONS = 64, MOST_WORKSPACES = 8 };

typedef struct dnn_plan {
    bw_gpu_conv conv;
    void *x, *w, *y, *desc;
    int64_t algorithm; /* cuDNN's algorithm or MIOpen's solution */
    size_t workspace_bytes;
    int error; /* of making it: it can not be used */
    const char *where;
} dnn_plan;

typedef struct dnn_api {
    const char *name;
    int (*open)(void **handle, void *stream);
    int (*close)(void *handle);
    int (*make)(void *handle, dnn_plan *plan);
    int (*run)(void *handle, const dnn_plan *plan, const void *x, const void *w, void *y, void *workspace);
    void (*drop)(dnn_plan *plan);
    uint64_t (*version)(void); /* 0: unknown */
    int no_memory[3];          /* the errors that say so; 0 is none */
    bool can_record;           /* into a graph */
} dnn_api;

/* Ends the function with the error of a library's call, and says which. */
#define CALL(plan, function, arguments)                                                                                \
    do {                                                                                                               \
        int call_error = (function)arguments;                                                                          \
        if (call_error) {                                                                                              \
            (plan)->where = #function;                                                                                 \
            return call_error;                                                                                         \
        }                                                                                                              \
    } while (0)
enum { NO_ALGORITHM = -1 };

/* ---- cuDNN ------------------------------------------------------------------------------------------------------ */

static struct {
#define DNN(name, arguments) bw_cudnn_status(*name) arguments;
    BW_CUDNN_FUNCTIONS
#undef DNN
} cudnn;

static size_t (*cudnn_version)(void);                                      /* cudnnGetVersion; either may be missing */
static int (*miopen_version)(size_t *major, size_t *minor, size_t *patch); /* miopenGetVersion */

static bool load_cudnn(void *library)
{
    bool has_all = true;
    *(void **)&cudnn_version = dlsym(library, "cudnnGetVersion");
#define DNN(name, arguments)                                                                                           \
    *(void **)&cudnn.name = dlsym(library, #name);                                                                     \
    has_all = has_all && cudnn.name;
    BW_CUDNN_FUNCTIONS
#undef DNN
    return has_all;
}

static int open_cudnn(void **handle, void *stream)
{
    int error = cudnn.cudnnCreate(handle);
    if (error) {
        *handle = NULL;
        return error;
    }
    error = cudnn.cudnnSetStream(*handle, stream);
    if (error) {
        cudnn.cudnnDestroy(*handle);
        *handle = NULL;
    }
    return error;
}

static int close_cudnn(void *handle)
{
    return cudnn.cudnnDestroy(handle);
}

static int set_cudnn_tensor(dnn_plan *p, void **tensor, int type, int c, int h, int w)
{
    CALL(p, cudnn.cudnnCreateTensorDescriptor, (tensor));
    CALL(p, cudnn.cudnnSetTensor4dDescriptorEx, (*tensor, type, p->conv.n, c, h, w, c * h * w, h * w, w, 1));
    return 0;
}

static bool is_plain_cudnn(int algorithm)
{
    return algorithm == BW_CUDNN_IMPLICIT_GEMM || algorithm == BW_CUDNN_IMPLICIT_PRECOMP_GEMM ||
           algorithm == BW_CUDNN_GEMM;
}

static int choose_cudnn(void *handle, dnn_plan *p)
{
    bw_cudnn_perf found[BW_CUDNN_N_ALGORITHMS] = {{0}};
    int n_found = 0;
    const int math = p->conv.type == BW_GPU_CONV_F32 ? BW_CUDNN_FMA_MATH : BW_CUDNN_TENSOR_OP_MATH;
    CALL(p, cudnn.cudnnSetConvolutionMathType, (p->desc, math));
    CALL(p, cudnn.cudnnGetConvolutionForwardAlgorithm_v7,
         (handle, p->x, p->w, p->desc, p->y, BW_CUDNN_N_ALGORITHMS, &n_found, found));
    p->where = "cudnnGetConvolutionForwardAlgorithm_v7's list";
    for (int i = 0; i < n_found && i < BW_CUDNN_N_ALGORITHMS; i++) {
        size_t bytes = 0;
        if (found[i].status || !is_plain_cudnn(found[i].algorithm))
            continue;
        /* f32 stays with FMA; the others may have been found for another kind of arithmetic than the one asked for. */
        if (math != BW_CUDNN_FMA_MATH)
            CALL(p, cudnn.cudnnSetConvolutionMathType, (p->desc, found[i].math));
        if (cudnn.cudnnGetConvolutionForwardWorkspaceSize(handle, p->x, p->w, p->desc, p->y, found[i].algorithm,
                                                          &bytes) ||
            bytes > most_workspace)
            continue;
        p->algorithm = found[i].algorithm;
        p->workspace_bytes = bytes;
        return 0;
    }
    return NO_ALGORITHM;
}

static int make_cudnn(void *handle, dnn_plan *p)
{
    static const int types[] = {BW_CUDNN_FLOAT, BW_CUDNN_HALF, BW_CUDNN_BFLOAT16};
    const bw_gpu_conv *c = &p->conv;
    const int type = types[c->type];
    int error = set_cudnn_tensor(p, &p->x, type, c->c, c->h, c->w);
    if (!error)
        error = set_cudnn_tensor(p, &p->y, type, c->k, c->out_h, c->out_w);
    if (error)
        return error;
    CALL(p, cudnn.cudnnCreateFilterDescriptor, (&p->w));
    CALL(p, cudnn.cudnnSetFilter4dDescriptor,
         (p->w, type, BW_CUDNN_NCHW, c->k, c->c / c->groups, c->kernel_h, c->kernel_w));
    CALL(p, cudnn.cudnnCreateConvolutionDescriptor, (&p->desc));
    CALL(p, cudnn.cudnnSetConvolution2dDescriptor,
         (p->desc, c->padding_h, c->padding_w, c->stride_h, c->stride_w, c->dilation_h, c->dilation_w,
          BW_CUDNN_CROSS_CORRELATION, BW_CUDNN_FLOAT));
    CALL(p, cudnn.cudnnSetConvolutionGroupCount, (p->desc, c->groups));
    return choose_cudnn(handle, p);
}

static int run_cudnn(void *handle, const dnn_plan *p, const void *x, const void *w, void *y, void *workspace)
{
    const float one = 1, zero = 0;
    return cudnn.cudnnConvolutionForward(handle, &one, p->x, x, p->w, w, p->desc, (int)p->algorithm, workspace,
                                         p->workspace_bytes, &zero, p->y, y);
}

static void drop_cudnn(dnn_plan *p)
{
    if (p->desc)
        cudnn.cudnnDestroyConvolutionDescriptor(p->desc);
    if (p->w)
        cudnn.cudnnDestroyFilterDescriptor(p->w);
    if (p->y)
        cudnn.cudnnDestroyTensorDescriptor(p->y);
    if (p->x)
        cudnn.cudnnDestroyTensorDescriptor(p->x);
}

static uint64_t get_cudnn_version(void)
{
    return cudnn_version ? cudnn_version() : 0;
}

/* no memory: version 8's, version 9's on the host and on the device */
static const dnn_api api_cudnn = {"cudnn",    open_cudnn,        close_cudnn,     make_cudnn, run_cudnn,
                                  drop_cudnn, get_cudnn_version, {2, 4003, 4004}, true};

/* ---- MIOpen ----------------------------------------------------------------------------------------------------- */

static struct {
#define DNN(name, arguments) bw_miopen_status(*name) arguments;
    BW_MIOPEN_FUNCTIONS
#undef DNN
} miopen;

static bool load_miopen(void *library)
{
    bool has_all = true;
    *(void **)&miopen_version = dlsym(library, "miopenGetVersion");
#define DNN(name, arguments)                                                                                           \
    *(void **)&miopen.name = dlsym(library, #name);                                                                    \
    has_all = has_all && miopen.name;
    BW_MIOPEN_FUNCTIONS
#undef DNN
    return has_all;
}

static int open_miopen(void **handle, void *stream)
{
    int error = miopen.miopenCreateWithStream(handle, stream);
    if (error)
        *handle = NULL;
    return error;
}

static int close_miopen(void *handle)
{
    return miopen.miopenDestroy(handle);
}

static int set_miopen_tensor(dnn_plan *p, void **tensor, int n, int c, int h, int w)
{
    static const int types[] = {BW_MIOPEN_FLOAT, BW_MIOPEN_HALF, BW_MIOPEN_BFLOAT16};
    CALL(p, miopen.miopenCreateTensorDescriptor, (tensor));
    CALL(p, miopen.miopenSet4dTensorDescriptor, (*tensor, types[p->conv.type], n, c, h, w));
    return 0;
}

static bool is_plain_miopen(int algorithm)
{
    return algorithm == BW_MIOPEN_GEMM || algorithm == BW_MIOPEN_DIRECT || algorithm == BW_MIOPEN_IMPLICIT_GEMM;
}

/* The first that can be used: solutions come in the order of the time that MIOpen expects. */
static int choose_miopen(void *handle, dnn_plan *p)
{
    bw_miopen_solution solutions[MOST_SOLUTIONS];
    size_t n = 0, n_found = 0;
    memset(solutions, 0, sizeof solutions);
    CALL(p, miopen.miopenConvolutionForwardGetSolutionCount, (handle, p->w, p->x, p->desc, p->y, &n));
    n = n < MOST_SOLUTIONS ? n : MOST_SOLUTIONS;
    if (n)
        CALL(p, miopen.miopenConvolutionForwardGetSolution,
             (handle, p->w, p->x, p->desc, p->y, n, &n_found, solutions));
    p->where = "miopenConvolutionForwardGetSolution's list";
    for (size_t i = 0; i < n_found && i < n; i++) {
        const uint64_t id = solutions[i].id;
        size_t bytes = 0;
        if (!is_plain_miopen(solutions[i].algorithm) || solutions[i].workspace_bytes > most_workspace)
            continue;
        if (miopen.miopenConvolutionForwardGetSolutionWorkspaceSize(handle, p->w, p->x, p->desc, p->y, id, &bytes) ||
            bytes > most_workspace)
            continue;
        if (miopen.miopenConvolutionForwardCompileSolution(handle, p->w, p->x, p->desc, p->y, id))
            continue;
        p->algorithm = (int64_t)id;
        p->workspace_bytes = bytes;
        return 0;
    }
    return NO_ALGORITHM;
}

static int make_miopen(void *handle, dnn_plan *p)
{
    const bw_gpu_conv *c = &p->conv;
    int error = set_miopen_tensor(p, &p->x, c->n, c->c, c->h, c->w);
    if (!error)
        error = set_miopen_tensor(p, &p->w, c->k, c->c / c->groups, c->kernel_h, c->kernel_w);
    if (!error)
        error = set_miopen_tensor(p, &p->y, c->n, c->k, c->out_h, c->out_w);
    if (error)
        return error;
    CALL(p, miopen.miopenCreateConvolutionDescriptor, (&p->desc));
    CALL(p, miopen.miopenInitConvolutionDescriptor,
         (p->desc, BW_MIOPEN_CONVOLUTION, c->padding_h, c->padding_w, c->stride_h, c->stride_w, c->dilation_h,
          c->dilation_w));
    CALL(p, miopen.miopenSetConvolutionGroupCount, (p->desc, c->groups));
    return choose_miopen(handle, p);
}

static int run_miopen(void *handle, const dnn_plan *p, const void *x, const void *w, void *y, void *workspace)
{
    return miopen.miopenConvolutionForwardImmediate(handle, p->w, w, p->x, x, p->desc, p->y, y, workspace,
                                                    p->workspace_bytes, (uint64_t)p->algorithm);
}

static void drop_miopen(dnn_plan *p)
{
    if (p->desc)
        miopen.miopenDestroyConvolutionDescriptor(p->desc);
    if (p->y)
        miopen.miopenDestroyTensorDescriptor(p->y);
    if (p->w)
        miopen.miopenDestroyTensorDescriptor(p->w);
    if (p->x)
        miopen.miopenDestroyTensorDescriptor(p->x);
}

static uint64_t get_miopen_version(void)
{
    size_t major = 0, minor = 0, patch = 0;
    if (!miopen_version || miopen_version(&major, &minor, &patch) != 0)
        return 0;
    return (major * 1000 + minor) * 1000000 + patch % 1000000;
}

/* Not into a graph: some solutions go through rocBLAS, which may allocate. */
static const dnn_api api_miopen = {"miopen",    open_miopen,        close_miopen, make_miopen, run_miopen,
                                   drop_miopen, get_miopen_version, {4},          false};

/* ---- loading ---------------------------------------------------------------------------------------------------- */

static const dnn_api *loaded_cuda, *loaded_hip;
static pthread_once_t once_cuda = PTHREAD_ONCE_INIT, once_hip = PTHREAD_ONCE_INIT;

enum { ROW_MIOPEN, ROW_CUDNN };
static const bw_gpu_library_row library_rows[BW_GPU_DNNS] = {
    [ROW_MIOPEN] = {BW_DEVICE_ROCM, "MIOpen", "convolutions", {"libMIOpen.so.1"}},
    [ROW_CUDNN] = {BW_DEVICE_CUDA, "cuDNN", "convolutions", {"libcudnn.so.9", "libcudnn.so.8"}},
};

/* NULL: the library is looked for by its own names. */
static const char *wanted_file(void)
{
    const char *file = getenv("BW_DNN_LIBRARY");
    return file && *file ? file : NULL;
}

bw_gpu_library_row bw_gpu_dnn_row_of(int i)
{
    bw_gpu_library_row row = library_rows[i];
    const char *wish = wanted_file();
    if (wish || bw_gpu_libraries_are("0"))
        row = (bw_gpu_library_row){row.kind, row.name, row.use, {bw_gpu_libraries_are("0") ? NULL : wish}};
    return row;
}

static const dnn_api *load(int i)
{
    const bw_gpu_library_row row = bw_gpu_dnn_row_of(i);
    char path[BW_ROCM_PATH];
    void *library = bw_gpu_open_library(&row, RTLD_NOW | RTLD_LOCAL, path);
    if (!library && wanted_file())
        bw_log_warn("BW_DNN_LIBRARY: %s", dlerror());
    if (!library)
        return NULL;
    return load_miopen(library) ? &api_miopen : load_cudnn(library) ? &api_cudnn : NULL;
}

static void load_cuda(void)
{
    loaded_cuda = load(ROW_CUDNN);
}

static void load_hip(void)
{
    loaded_hip = load(ROW_MIOPEN);
}

struct bw_gpu_dnn {
    const dnn_api *api; /* NULL: there is none */
    void *handle;
    dnn_plan **plans;
    size_t n_plans, plans_capacity;
    /* Each twice as large as the one before or more: graphs remember addresses, so none is given back earlier. */
    bw_buffer workspaces[MOST_WORKSPACES];
    int n_workspaces;
};

static void open_handle(bw_gpu *g, struct bw_gpu_dnn *d)
{
    if (bw_gpu_libraries_are("0") || g->is_capturing)
        return;
    const bool is_cuda = g->device.kind == BW_DEVICE_CUDA;
    pthread_once(is_cuda ? &once_cuda : &once_hip, is_cuda ? load_cuda : load_hip);
    const dnn_api *api = is_cuda ? loaded_cuda : loaded_hip;
    if (!api || bw_gpu_enter(g, NULL) != BW_OK)
        return;
    int error = api->open(&d->handle, g->stream);
    if (error)
        bw_log_debug("%s: %s gives no handle: error %d", g->label, api->name, error);
    else
        d->api = api;
}

static struct bw_gpu_dnn *dnn_of(bw_gpu *g)
{
    if (!g->dnn && !g->is_capturing) {
        g->dnn = bw_alloc_zero(1, sizeof *g->dnn);
        if (g->dnn)
            open_handle(g, g->dnn);
    }
    return g->dnn;
}

void bw_gpu_dnn_close(bw_gpu *g)
{
    struct bw_gpu_dnn *d = g->dnn;
    if (!d)
        return;
    const bool can_free = d->api && bw_gpu_can_free(g);
    for (size_t i = 0; i < d->n_plans; i++) {
        if (can_free)
            d->api->drop(d->plans[i]);
        bw_free(d->plans[i]);
    }
    if (can_free)
        d->api->close(d->handle);
    for (int i = 0; i < d->n_workspaces; i++)
        bw_gpu_release(&g->device, &d->workspaces[i]);
    bw_free(d->plans);
    bw_free(d);
    g->dnn = NULL;
}

const char *bw_gpu_dnn(bw_device *device)
{
    const struct bw_gpu_dnn *d = dnn_of(bw_gpu_of(device));
    return d && d->api ? d->api->name : NULL;
}

uint64_t bw_gpu_dnn_version(bw_device *device)
{
    const struct bw_gpu_dnn *d = dnn_of(bw_gpu_of(device));
    return d && d->api ? d->api->version() : 0;
}

bool bw_gpu_dnn_is_forced(void)
{
    return bw_gpu_libraries_are("always");
}

/* ---- convolutions ----------------------------------------------------------------------------------------------- */

/* What an error of the library's is to us; other: where it is not about memory. */
static bw_status status_of(const dnn_api *api, int error, bw_status other)
{
    for (size_t i = 0; i < sizeof api->no_memory / sizeof *api->no_memory; i++)
        if (error == api->no_memory[i])
            return BW_E_MEMORY;
    return other;
}

static dnn_plan *find_plan(const struct bw_gpu_dnn *d, const bw_gpu_conv *conv)
{
    for (size_t i = 0; i < d->n_plans; i++)
        if (memcmp(&d->plans[i]->conv, conv, sizeof *conv) == 0) /* ints only: no padding */
            return d->plans[i];
    return NULL;
}

/* One that failed is kept, with its error. */
static bw_status make_plan(bw_gpu *g, struct bw_gpu_dnn *d, const bw_gpu_conv *conv, dnn_plan **out, bw_err *err)
{
    if (d->n_plans == MOST_PLANS)
        return bw_fail(err, BW_E_FULL, "%s: %s has had %d different convolutions, which is the limit", g->label,
                       d->api->name, MOST_PLANS);
    dnn_plan *p = bw_reserve((void **)&d->plans, &d->plans_capacity, d->n_plans + 1, sizeof *d->plans)
                      ? bw_alloc_zero(1, sizeof *p)
                      : NULL;
    if (!p)
        return bw_fail_memory(err, sizeof *p, "a convolution's plan");
    p->conv = *conv;
    p->error = d->api->make(d->handle, p);
    if (p->error)
        bw_log_debug("%s: %s: %s: error %d", g->label, d->api->name, p->where ? p->where : "plan", p->error);
    d->plans[d->n_plans++] = p;
    *out = p;
    return BW_OK;
}

static bw_status find_workspace(bw_gpu *g, struct bw_gpu_dnn *d, size_t n_bytes, void **workspace, bw_err *err)
{
    *workspace = NULL;
    if (n_bytes == 0)
        return BW_OK;
    const bw_buffer *last = d->n_workspaces ? &d->workspaces[d->n_workspaces - 1] : NULL;
    if (!last || last->n_bytes < n_bytes) {
        if (g->is_capturing || d->n_workspaces == MOST_WORKSPACES)
            return bw_fail(err, g->is_capturing ? BW_E_UNSUPPORTED : BW_E_FULL, "%s: no workspace of %zu bytes for %s",
                           g->label, n_bytes, d->api->name);
        size_t bytes = last ? 2 * last->n_bytes : least_workspace;
        while (bytes < n_bytes)
            bytes *= 2;
        bw_buffer *next = &d->workspaces[d->n_workspaces];
        BW_TRY(bw_gpu_alloc(&g->device, bytes, BW_MEMORY_DENSE, "a convolution library's workspace", next, err));
        d->n_workspaces++;
        last = next;
    }
    *workspace = last->data;
    return BW_OK;
}

bw_status bw_gpu_dnn_conv(bw_device *device, const bw_gpu_conv *conv, const void *x, const void *w, void *y,
                          bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    struct bw_gpu_dnn *d = dnn_of(g);
    if (!d || !d->api)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: no convolution library is loaded", g->label);
    BW_TRY(bw_gpu_enter(g, err));
    if (g->is_capturing && !d->api->can_record)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: %s is not recorded into graphs", g->label, d->api->name);
    dnn_plan *p = find_plan(d, conv);
    if (!p && !g->is_capturing)
        BW_TRY(make_plan(g, d, conv, &p, err));
    const int reason = p ? p->error : NO_ALGORITHM;
    if (reason)
        return bw_fail(err, status_of(d->api, reason, BW_E_UNSUPPORTED),
                       "%s: %s has no convolution of %d to %d channels, %d x %d taps: %s: error %d", g->label,
                       d->api->name, conv->c, conv->k, conv->kernel_h, conv->kernel_w,
                       p && p->where ? p->where : "plan", reason);
    void *workspace;
    BW_TRY(find_workspace(g, d, p->workspace_bytes, &workspace, err));
    int error = d->api->run(d->handle, p, x, w, y, workspace);
    if (error)
        return bw_fail(err, status_of(d->api, error, BW_E_DEVICE),
                       "%s: %s does not run a convolution of %d to %d channels: error %d", g->label, d->api->name,
                       conv->c, conv->k, error);
    return BW_OK;
}
