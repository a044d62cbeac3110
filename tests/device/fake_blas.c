/* AMD's matrix libraries as far as gpu_library.c knows them, for HIP libraries whose device memory is the host's
 * (fake_hip.c, tests/simgpu): the products are really computed, in double precision. Compiled twice: with FAKE_LT as
 * libhipblaslt.so.1, else as librocblas.so.5. What a library would refuse is refused here. Environment: FAKE_BLAS_FAIL
 * (names of functions, with commas between: they fail), FAKE_BLAS_FOUND=0 (no algorithm is found). Constants:
 * hipblaslt.h, hipblas-common.h, rocblas-types.h of ROCm 6.2. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int fake_blas_live, fake_blas_products;

static int result(const char *function)
{
    const char *fail = getenv("FAKE_BLAS_FAIL");
    size_t n = strlen(function);
    for (; fail && *fail; fail += strcspn(fail, ","), fail += *fail == ',')
        if (strcspn(fail, ",") == n && strncmp(fail, function, n) == 0)
            return 7;
    return 0;
}

static double value(const void *data, int is_bf16, int64_t i)
{
    uint16_t h = ((const uint16_t *)data)[i];
    uint32_t bits = (uint32_t)h << 16;
    float f;
    if (!is_bf16) { /* f16: tests hold no infinities */
        uint32_t exponent = h >> 10 & 31, fraction = h & 1023;
        double v = exponent ? (1024 + fraction) / 1024.0 : fraction / 512.0;
        for (uint32_t e = exponent ? exponent : 0; e < 15; e++)
            v /= 2;
        for (uint32_t e = 15; e < exponent; e++)
            v *= 2;
        return h >> 15 ? -v : v;
    }
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* d [columns][rows], rows of it ldd apart, = a transposed [rows][k] times b [columns][k]. */
static void multiply(int is_bf16, int64_t rows, int64_t columns, int64_t k, const void *a, int64_t lda, const void *b,
                     int64_t ldb, float *d, int64_t ldd)
{
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++)
                sum += value(a, is_bf16, r * lda + i) * value(b, is_bf16, c * ldb + i);
            d[c * ldd + r] = (float)sum;
        }
    fake_blas_products++;
}

static int make(void **out, size_t n_bytes, const char *function)
{
    if (result(function))
        return result(function);
    *out = calloc(1, n_bytes);
    fake_blas_live++;
    return *out ? 0 : 1;
}

static int drop(void *object)
{
    free(object);
    fake_blas_live--;
    return 0;
}

#ifdef FAKE_LT
enum { R_32F = 0, R_16F = 2, R_16BF = 14, COMPUTE_32F = 2, OP_N = 111, OP_T = 112, INVALID = 3 };
typedef struct description {
    int compute, scale, op[2];
} description;
typedef struct layout {
    int type;
    uint64_t rows, columns;
    int64_t stride;
} layout;
typedef struct preference {
    uint64_t workspace_bytes;
} preference;
static const uint64_t algorithm_mark = 0x600dc0de600dc0de;

EXPORT int hipblasLtCreate(void **handle);
EXPORT int hipblasLtDestroy(void *handle);
EXPORT int hipblasLtGetVersion(void *handle, int *version);
EXPORT int hipblasLtMatmulDescCreate(void **desc, int compute, int scale_type);
EXPORT int hipblasLtMatmulDescSetAttribute(void *desc, int attribute, const void *data, size_t n_bytes);
EXPORT int hipblasLtMatmulDescDestroy(void *desc);
EXPORT int hipblasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t stride);
EXPORT int hipblasLtMatrixLayoutDestroy(void *l);
EXPORT int hipblasLtMatmulPreferenceCreate(void **wish);
EXPORT int hipblasLtMatmulPreferenceSetAttribute(void *wish, int attribute, const void *data, size_t n_bytes);
EXPORT int hipblasLtMatmulPreferenceDestroy(void *wish);
EXPORT int hipblasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *wish,
                                           int n_wanted, void *results, int *n_found);
EXPORT int hipblasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,
                           void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                           const void *algorithm, void *workspace, size_t workspace_bytes, void *stream);

int hipblasLtCreate(void **handle)
{
    return make(handle, 8, "hipblasLtCreate");
}

int hipblasLtDestroy(void *handle)
{
    return drop(handle);
}

int hipblasLtGetVersion(void *handle, int *version)
{
    *version = 1200;
    return handle ? result("hipblasLtGetVersion") : INVALID;
}

int hipblasLtMatmulDescCreate(void **desc, int compute, int scale_type)
{
    if (compute != COMPUTE_32F || scale_type != R_32F)
        return INVALID;
    int error = make(desc, sizeof(description), "hipblasLtMatmulDescCreate");
    if (!error)
        *(description *)*desc = (description){compute, scale_type, {OP_N, OP_N}};
    return error;
}

int hipblasLtMatmulDescSetAttribute(void *desc, int attribute, const void *data, size_t n_bytes)
{
    if (attribute < 0 || attribute > 1 || n_bytes != sizeof(int))
        return INVALID;
    memcpy(&((description *)desc)->op[attribute], data, sizeof(int));
    return result("hipblasLtMatmulDescSetAttribute");
}

int hipblasLtMatmulDescDestroy(void *desc)
{
    return drop(desc);
}

int hipblasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t stride)
{
    static int n;
    /* the first, second and third of a product fail in turn */
    const char *const names[] = {"layout 0", "layout 1", "layout 2"};
    int error = stride < (int64_t)rows ? INVALID : make(out, sizeof(layout), names[n++ % 3]);
    if (error)
        n = 0;
    else
        *(layout *)*out = (layout){type, rows, columns, stride};
    return error;
}

int hipblasLtMatrixLayoutDestroy(void *l)
{
    return drop(l);
}

int hipblasLtMatmulPreferenceCreate(void **wish)
{
    return make(wish, sizeof(preference), "hipblasLtMatmulPreferenceCreate");
}

int hipblasLtMatmulPreferenceSetAttribute(void *wish, int attribute, const void *data, size_t n_bytes)
{
    if (attribute != 1 || n_bytes != sizeof(uint64_t))
        return INVALID;
    memcpy(&((preference *)wish)->workspace_bytes, data, sizeof(uint64_t));
    return result("hipblasLtMatmulPreferenceSetAttribute");
}

int hipblasLtMatmulPreferenceDestroy(void *wish)
{
    return drop(wish);
}

static int check(const description *desc, const layout *a, const layout *b, const layout *d)
{
    int good = desc->op[0] == OP_T && desc->op[1] == OP_N && (a->type == R_16F || a->type == R_16BF) &&
               b->type == a->type && d->type == R_32F && a->rows == b->rows && a->columns == d->rows &&
               b->columns == d->columns;
    return good ? 0 : INVALID;
}

int hipblasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *wish,
                                    int n_wanted, void *results, int *n_found)
{
    const char *found = getenv("FAKE_BLAS_FOUND");
    if (!handle || !wish || c != d || n_wanted != 1 || check(desc, a, b, d))
        return INVALID;
    memcpy(results, &algorithm_mark, sizeof algorithm_mark);
    *n_found = found ? atoi(found) : 1;
    return result("hipblasLtMatmulAlgoGetHeuristic");
}

int hipblasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,
                    void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                    const void *algorithm, void *workspace, size_t workspace_bytes, void *stream)
{
    const layout *la = a_layout, *lb = b_layout, *ld = d_layout;
    float one, zero;
    memcpy(&one, alpha, sizeof one);
    memcpy(&zero, beta, sizeof zero);
    if (!handle || c != d || c_layout != d_layout || one != 1 || zero != 0 || !stream || check(desc, la, lb, ld) ||
        memcmp(algorithm, &algorithm_mark, sizeof algorithm_mark) != 0 || (workspace_bytes && !workspace))
        return INVALID;
    if (result("hipblasLtMatmul"))
        return result("hipblasLtMatmul");
    multiply(la->type == R_16BF, (int64_t)ld->rows, (int64_t)ld->columns, (int64_t)la->rows, a, la->stride, b,
             lb->stride, d, ld->stride);
    return 0;
}

#else
enum { NONE = 111, TRANSPOSED = 112, F16 = 150, F32 = 151, BF16 = 168, INVALID = 11 };

EXPORT int rocblas_create_handle(void **handle);
EXPORT int rocblas_destroy_handle(void *handle);
EXPORT int rocblas_set_stream(void *handle, void *stream);
EXPORT int rocblas_get_version_string(char *text, size_t n_bytes);
EXPORT int rocblas_gemm_ex(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
                           int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, const void *c,
                           int c_type, int ldc, void *d, int d_type, int ldd, int compute_type, int algorithm,
                           int32_t solution, uint32_t flags);

int rocblas_create_handle(void **handle)
{
    return make(handle, sizeof(void *), "rocblas_create_handle");
}

int rocblas_destroy_handle(void *handle)
{
    return drop(handle);
}

int rocblas_set_stream(void *handle, void *stream)
{
    *(void **)handle = stream;
    return result("rocblas_set_stream");
}

int rocblas_get_version_string(char *text, size_t n_bytes)
{
    static const char version[] = "4.2.1.fake";
    if (n_bytes < sizeof version)
        return INVALID;
    memcpy(text, version, sizeof version);
    return result("rocblas_get_version_string");
}

int rocblas_gemm_ex(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int a_type,
                    int lda, const void *b, int b_type, int ldb, const void *beta, const void *c, int c_type, int ldc,
                    void *d, int d_type, int ldd, int compute_type, int algorithm, int32_t solution, uint32_t flags)
{
    float one, zero;
    memcpy(&one, alpha, sizeof one);
    memcpy(&zero, beta, sizeof zero);
    if (!*(void **)handle || op_a != TRANSPOSED || op_b != NONE || (a_type != F16 && a_type != BF16) ||
        b_type != a_type || c_type != F32 || d_type != F32 || compute_type != F32 || c != d || ldc != ldd || one != 1 ||
        zero != 0 || lda < k || ldb < k || ldd < m || algorithm || solution || flags)
        return INVALID;
    if (result("rocblas_gemm_ex"))
        return result("rocblas_gemm_ex");
    multiply(a_type == BF16, m, n, k, a, lda, b, ldb, d, ldd);
    return 0;
}
#endif
