/* The vendors' matrix libraries behind one function, by dlopen: nothing of theirs is needed to build or to start.
 * Signatures and constants: cublasLt.h, cublas_api.h and library_types.h of CUDA 13.0; hipblaslt.h, hipblas-common.h
 * and hip/library_types.h of ROCm 6.2, whose functions are cuBLASLt's; rocblas-functions.h and rocblas-types.h of
 * ROCm 6.2.
 *
 * All three take matrices by columns: our y [t][n] is theirs of n rows and t columns, = w transposed times x.
 */
#include "bw_gpu_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_mem.h"
#include "gpu_library_functions.h"
#include "gpu_private.h"

typedef struct lt_library {
    const char *prefix;
    int no_memory; /* the status that says so */
    int compute_32f, op_none, op_transposed;
    int desc_op_a, desc_op_b;           /* attributes of a product */
    int layout_n_batch, layout_batch;   /* of a layout */
    int wish_workspace, wish_reduction; /* of a wish; -1 = there is none */
    int wish_align_a;
    bool is_loaded;
#define MEMBER(member, name, arguments) int(*member) arguments;
    BW_LT_FUNCTIONS(MEMBER)
#undef MEMBER
} lt_library;

static lt_library cublas_lt = {.prefix = "cublasLt",
                               .no_memory = BW_CUBLAS_LT_NO_MEMORY,
                               .compute_32f = BW_CUBLAS_LT_COMPUTE_32F,
                               .op_none = BW_CUBLAS_LT_NONE,
                               .op_transposed = BW_CUBLAS_LT_TRANSPOSED,
                               .desc_op_a = BW_CUBLAS_LT_DESC_OP_A,
                               .desc_op_b = BW_CUBLAS_LT_DESC_OP_B,
                               .layout_n_batch = BW_CUBLAS_LT_LAYOUT_N_BATCH,
                               .layout_batch = BW_CUBLAS_LT_LAYOUT_BATCH,
                               .wish_workspace = BW_CUBLAS_LT_WISH_WORKSPACE,
                               .wish_reduction = BW_CUBLAS_LT_WISH_REDUCTION,
                               .wish_align_a = BW_CUBLAS_LT_WISH_ALIGN_A};
static lt_library hipblas_lt = {.prefix = "hipblasLt",
                                .no_memory = 2,
                                .compute_32f = 2,
                                .op_none = 111,
                                .op_transposed = 112,
                                .desc_op_a = 0,
                                .desc_op_b = 1,
                                .layout_n_batch = 0,
                                .layout_batch = 1,
                                .wish_workspace = 1,
                                .wish_reduction = -1,
                                .wish_align_a = -1};

enum { ROCBLAS_NONE = 111, ROCBLAS_TRANSPOSED = 112, ROCBLAS_F16 = 150, ROCBLAS_F32 = 151, ROCBLAS_BF16 = 168 };
enum { ROCBLAS_NO_MEMORY = 5 };
static struct {
    bool is_loaded;
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*version)(char *text, size_t n_bytes); /* may be missing */
    int (*gemm)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int a_type,
                int lda, int64_t stride_a, const void *b, int b_type, int ldb, int64_t stride_b, const void *beta,
                const void *c, int c_type, int ldc, int64_t stride_c, void *d, int d_type, int ldd, int64_t stride_d,
                int n_batch, int compute_type, int algorithm, int32_t solution, uint32_t flags);
} rocblas;

static size_t (*cublas_lt_version)(void);
static int (*hipblas_lt_version)(void *handle, int *version);

/* The files of ROCm 7 and 6, of CUDA 13 and 12. */
enum { ROW_CUBLAS_LT, ROW_HIPBLAS_LT, ROW_ROCBLAS };
static const bw_gpu_library_row library_rows[BW_GPU_LIBRARIES] = {
    [ROW_CUBLAS_LT] = {BW_DEVICE_CUDA, "cuBLASLt", "matrix products", {"libcublasLt.so.13", "libcublasLt.so.12"}},
    [ROW_HIPBLAS_LT] = {BW_DEVICE_ROCM, "hipBLASLt", "matrix products", {"libhipblaslt.so.1", "libhipblaslt.so.0"}},
    [ROW_ROCBLAS] = {BW_DEVICE_ROCM, "rocBLAS", "matrix products", {"librocblas.so.5", "librocblas.so.4"}},
};

bw_gpu_library_row bw_gpu_library_row_of(int i)
{
    bw_gpu_library_row row = library_rows[i];
    if (bw_gpu_libraries_are("0"))
        row.files[0] = NULL;
    return row;
}

void *bw_gpu_open_library(const bw_gpu_library_row *row, int flags, char path[BW_ROCM_PATH])
{
    void *library = NULL;
    for (const char *const *files = row->files; *files && !library; files++)
        if (row->kind == BW_DEVICE_ROCM) {
            library = bw_rocm_open("", *files, flags, path);
        } else {
            snprintf(path, BW_ROCM_PATH, "%s", *files);
            library = dlopen(*files, flags);
        }
    if (!library)
        path[0] = 0;
    return library;
}

static void *open_first(int row)
{
    char path[BW_ROCM_PATH];
    return bw_gpu_open_library(&library_rows[row], RTLD_NOW | RTLD_LOCAL, path);
}

static void load_lt(lt_library *l)
{
    void *library = open_first(l == &cublas_lt ? ROW_CUBLAS_LT : ROW_HIPBLAS_LT);
    if (!library)
        return;
    char name[64];
    bool has_all = true;
#define LOAD(member, text, arguments)                                                                                  \
    snprintf(name, sizeof name, "%s%s", l->prefix, #text);                                                             \
    *(void **)&l->member = dlsym(library, name);                                                                       \
    has_all = has_all && l->member;
    BW_LT_FUNCTIONS(LOAD)
#undef LOAD
    l->is_loaded = has_all;
    if (l == &cublas_lt)
        *(void **)&cublas_lt_version = dlsym(library, "cublasLtGetVersion");
    else
        *(void **)&hipblas_lt_version = dlsym(library, "hipblasLtGetVersion");
}

static void load_rocblas(void)
{
    void *library = open_first(ROW_ROCBLAS);
    if (!library)
        return;
    *(void **)&rocblas.create = dlsym(library, "rocblas_create_handle");
    *(void **)&rocblas.destroy = dlsym(library, "rocblas_destroy_handle");
    *(void **)&rocblas.set_stream = dlsym(library, "rocblas_set_stream");
    *(void **)&rocblas.gemm = dlsym(library, "rocblas_gemm_strided_batched_ex");
    *(void **)&rocblas.version = dlsym(library, "rocblas_get_version_string");
    rocblas.is_loaded = rocblas.create && rocblas.destroy && rocblas.set_stream && rocblas.gemm;
}

static pthread_once_t once_cuda = PTHREAD_ONCE_INIT, once_hip = PTHREAD_ONCE_INIT;

static void load_cuda(void)
{
    load_lt(&cublas_lt);
}

static void load_hip(void)
{
    load_lt(&hipblas_lt);
    load_rocblas();
}

/* How a product is computed: what was asked for, its addresses reduced to their alignment, and what the library
 * answered to that, which takes it longer than a small product. */
enum { N_PLANS = 128 };
typedef struct lt_plan {
    bw_gpu_product key; /* addresses NULL */
    uint32_t align[3];  /* of w, x, y */
    void *desc, *w, *x, *y, *wish;
    uint64_t algorithm[BW_LT_ALGORITHM_BYTES /
                       8]; /* stands first in a result of at most 96 bytes (cuBLASLt; hipBLASLt's are smaller) */
} lt_plan;

/* A device's handle. */
struct bw_gpu_library {
    const lt_library *lt; /* NULL: rocBLAS, or none */
    const char *name;     /* NULL: none */
    void *handle;
    bool is_forced;
    lt_plan *plans[N_PLANS]; /* a ring: the oldest goes first */
    int n_plans, next_plan;
};

static void free_plan(const lt_library *lt, lt_plan *plan)
{
    if (plan->wish)
        lt->wish_destroy(plan->wish);
    if (plan->y)
        lt->layout_destroy(plan->y);
    if (plan->x)
        lt->layout_destroy(plan->x);
    if (plan->w)
        lt->layout_destroy(plan->w);
    if (plan->desc)
        lt->desc_destroy(plan->desc);
    bw_free(plan);
}

static void open_handle(bw_gpu *g, struct bw_gpu_library *l)
{
    if (bw_gpu_libraries_are("0"))
        return;
    l->is_forced = bw_gpu_libraries_are("always");
    pthread_once(g->device.kind == BW_DEVICE_CUDA ? &once_cuda : &once_hip,
                 g->device.kind == BW_DEVICE_CUDA ? load_cuda : load_hip);
    const lt_library *lt = g->device.kind == BW_DEVICE_CUDA ? &cublas_lt : &hipblas_lt;
    if (bw_gpu_enter(g, NULL) != BW_OK)
        return;
    if (lt->is_loaded && lt->create(&l->handle) == 0) {
        l->lt = lt;
        l->name = lt->prefix;
    } else if (g->device.kind == BW_DEVICE_ROCM && rocblas.is_loaded && rocblas.create(&l->handle) == 0) {
        l->name = "rocblas";
        if (rocblas.set_stream(l->handle, g->stream) != 0)
            l->name = NULL;
    } else {
        l->handle = NULL; /* whatever a failed call left there */
    }
}

/* NULL while a graph is recorded before anybody has asked: a new handle may allocate, which would end the recording. */
static struct bw_gpu_library *library_of(bw_device *device)
{
    bw_gpu *g = bw_gpu_of(device);
    if (!g->library && !g->is_capturing) {
        g->library = bw_alloc_zero(1, sizeof *g->library);
        if (g->library)
            open_handle(g, g->library);
    }
    return g->library;
}

void bw_gpu_library_close(bw_gpu *g)
{
    struct bw_gpu_library *l = g->library;
    if (!l)
        return;
    for (int i = 0; i < l->n_plans; i++)
        free_plan(l->lt, l->plans[i]);
    bool can_free = l->handle && bw_gpu_can_free(g);
    if (can_free && l->lt)
        l->lt->destroy(l->handle);
    else if (can_free)
        rocblas.destroy(l->handle);
    bw_free(l);
    g->library = NULL;
}

const char *bw_gpu_library(bw_device *device)
{
    const struct bw_gpu_library *l = library_of(device);
    return l ? l->name : NULL;
}

bool bw_gpu_library_is_forced(bw_device *device)
{
    const struct bw_gpu_library *l = library_of(device);
    return l && l->name && l->is_forced;
}

void bw_gpu_library_version(bw_gpu *g, char out[64])
{
    const struct bw_gpu_library *l = library_of(&g->device);
    char text[40] = "";
    int number = 0;
    if (!l || !l->name) {
        snprintf(out, 64, "no library");
        return;
    }
    if (l->lt == &cublas_lt && cublas_lt_version)
        number = (int)cublas_lt_version();
    else if (l->lt && hipblas_lt_version && hipblas_lt_version(l->handle, &number) != 0)
        number = 0;
    if (number)
        snprintf(text, sizeof text, "%d", number);
    else if (!l->lt && rocblas.version && rocblas.version(text, sizeof text) != 0)
        text[0] = 0;
    snprintf(out, 64, "%s %.40s", l->name, *text ? text : "of unknown version");
}

/* ---- products --------------------------------------------------------------------------------------------------- */

static int lt_type(bw_dtype dtype)
{
    return dtype == BW_F32 ? BW_LT_32F : dtype == BW_BF16 ? BW_LT_16BF : BW_LT_16F;
}

static int make_layout(const lt_library *lt, const bw_gpu_product *p, void **layout, bw_dtype dtype, int64_t rows,
                       int64_t columns, int64_t stride, int64_t batch)
{
    int32_t n_batch = (int32_t)p->n_batch;
    int error = lt->layout_create(layout, lt_type(dtype), (uint64_t)rows, (uint64_t)columns, stride);
    if (!error && n_batch > 1)
        error = lt->layout_set(*layout, lt->layout_n_batch, &n_batch, sizeof n_batch);
    if (!error && n_batch > 1)
        error = lt->layout_set(*layout, lt->layout_batch, &batch, sizeof batch);
    return error;
}

/* The largest power of two up to 16 that every row of a matrix begins at a multiple of, in bytes. */
static uint32_t alignment_of(const void *data, bw_dtype dtype, int64_t row, int64_t batch)
{
    uint64_t all = 16 | (uint64_t)(uintptr_t)data | (uint64_t)((row | batch) * bw_dtype_block_bytes(dtype));
    return (uint32_t)(all & (~all + 1));
}

static int make_wish(const lt_library *lt, lt_plan *plan)
{
    uint64_t workspace = plan->key.workspace_bytes;
    uint32_t in_f32 = BW_LT_REDUCTION_IN_F32; /* parts of k are summed in the type of sums (NONE is always allowed) */
    int error = lt->wish_create(&plan->wish);
    if (!error)
        error = lt->wish_set(plan->wish, lt->wish_workspace, &workspace, sizeof workspace);
    if (!error && plan->key.out != BW_F32 && lt->wish_reduction >= 0)
        error = lt->wish_set(plan->wish, lt->wish_reduction, &in_f32, sizeof in_f32);
    /* w, x, and y twice: what is added to and what is written */
    for (int i = 0; i < 4 && !error && lt->wish_align_a >= 0; i++)
        error = lt->wish_set(plan->wish, lt->wish_align_a + i, &plan->align[i < 3 ? i : 2], sizeof plan->align[0]);
    return error;
}

static int make_parts(const lt_library *lt, lt_plan *plan)
{
    const bw_gpu_product *p = &plan->key;
    int op_w = p->w_by_n ? lt->op_none : lt->op_transposed, op_x = p->x_by_t ? lt->op_transposed : lt->op_none;
    int error = lt->desc_create(&plan->desc, lt->compute_32f, BW_LT_32F);
    if (!error)
        error = lt->desc_set(plan->desc, lt->desc_op_a, &op_w, sizeof op_w);
    if (!error)
        error = lt->desc_set(plan->desc, lt->desc_op_b, &op_x, sizeof op_x);
    if (!error)
        error =
            make_layout(lt, p, &plan->w, p->in, p->w_by_n ? p->n : p->k, p->w_by_n ? p->k : p->n, p->w_row, p->w_batch);
    if (!error)
        error =
            make_layout(lt, p, &plan->x, p->in, p->x_by_t ? p->t : p->k, p->x_by_t ? p->k : p->t, p->x_row, p->x_batch);
    if (!error)
        error = make_layout(lt, p, &plan->y, p->out, p->n, p->t, p->y_row, p->y_batch);
    return error ? error : make_wish(lt, plan);
}

static bool is_same(const lt_plan *a, const lt_plan *b)
{
    const bw_gpu_product *p = &a->key, *q = &b->key;
    return p->n == q->n && p->k == q->k && p->t == q->t && p->in == q->in && p->out == q->out &&
           p->w_by_n == q->w_by_n && p->x_by_t == q->x_by_t && p->w_row == q->w_row && p->x_row == q->x_row &&
           p->y_row == q->y_row && p->n_batch == q->n_batch && p->w_batch == q->w_batch && p->x_batch == q->x_batch &&
           p->y_batch == q->y_batch && p->workspace_bytes == q->workspace_bytes &&
           memcmp(a->align, b->align, sizeof a->align) == 0;
}

/* The plan for a product, from the ring or new; NULL with *error where the library has none. */
static const lt_plan *find_plan(struct bw_gpu_library *l, const bw_gpu_product *p, int *error)
{
    lt_plan wanted = {.key = *p,
                      .align = {alignment_of(p->w, p->in, p->w_row, p->w_batch),
                                alignment_of(p->x, p->in, p->x_row, p->x_batch),
                                alignment_of(p->y, p->out, p->y_row, p->y_batch)}};
    wanted.key.w = wanted.key.x = NULL;
    wanted.key.y = wanted.key.workspace = NULL;
    for (int i = 0; i < l->n_plans; i++)
        if (is_same(l->plans[i], &wanted))
            return l->plans[i];
    lt_plan *plan = bw_alloc(sizeof *plan);
    *error = -1;
    if (!plan)
        return NULL;
    *plan = wanted;
    int n_found = 0;
    *error = make_parts(l->lt, plan);
    if (!*error)
        *error = l->lt->heuristic(l->handle, plan->desc, plan->w, plan->x, plan->y, plan->y, plan->wish, 1,
                                  plan->algorithm, &n_found);
    if (!*error && n_found < 1)
        *error = -1;
    if (*error) {
        free_plan(l->lt, plan);
        return NULL;
    }
    if (l->n_plans == N_PLANS)
        free_plan(l->lt, l->plans[l->next_plan]);
    else
        l->n_plans++;
    l->plans[l->next_plan] = plan;
    l->next_plan = (l->next_plan + 1) % N_PLANS;
    return plan;
}

static int run_lt(struct bw_gpu_library *l, const bw_gpu_product *p, void *stream)
{
    float one = 1, zero = 0;
    int error = 0;
    const lt_plan *plan = find_plan(l, p, &error);
    if (!plan)
        return error;
    return l->lt->matmul(l->handle, plan->desc, &one, p->w, plan->w, p->x, plan->x, &zero, p->y, plan->y, p->y, plan->y,
                         plan->algorithm, p->workspace, p->workspace_bytes, stream);
}

static int rocblas_type(bw_dtype dtype)
{
    return dtype == BW_F32 ? ROCBLAS_F32 : dtype == BW_BF16 ? ROCBLAS_BF16 : ROCBLAS_F16;
}

static int run_rocblas(const struct bw_gpu_library *l, const bw_gpu_product *p)
{
    int in = rocblas_type(p->in), out = rocblas_type(p->out);
    float one = 1, zero = 0;
    return rocblas.gemm(l->handle, p->w_by_n ? ROCBLAS_NONE : ROCBLAS_TRANSPOSED,
                        p->x_by_t ? ROCBLAS_TRANSPOSED : ROCBLAS_NONE, (int)p->n, (int)p->t, (int)p->k, &one, p->w, in,
                        (int)p->w_row, p->w_batch, p->x, in, (int)p->x_row, p->x_batch, &zero, p->y, out, (int)p->y_row,
                        p->y_batch, p->y, out, (int)p->y_row, p->y_batch, p->n_batch > 1 ? (int)p->n_batch : 1,
                        ROCBLAS_F32, 0, 0, 0);
}

bw_status bw_gpu_library_product(bw_device *device, const bw_gpu_product *product, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    struct bw_gpu_library *l = library_of(device);
    if (!l || !l->name)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: no matrix library is loaded", g->label);
    BW_TRY(bw_gpu_enter(g, err));
    int error = l->lt ? run_lt(l, product, g->stream) : run_rocblas(l, product);
    if (error == (l->lt ? l->lt->no_memory : ROCBLAS_NO_MEMORY))
        return bw_fail(err, BW_E_MEMORY, "%s: %s has no memory for a product", g->label, l->name);
    if (error)
        return bw_fail(err, BW_E_DEVICE, "%s: %s has no product for n %lld, k %lld, t %lld: error %d", g->label,
                       l->name, (long long)product->n, (long long)product->k, (long long)product->t, error);
    return BW_OK;
}
