/* AMD's matrix libraries as far as gpu_library.c knows them, for HIP libraries whose device memory is the host's
 * (fake_hip.c, tests/simgpu): the products are really computed, in double precision. Compiled twice: with FAKE_LT as
 * libhipblaslt.so.1, else as librocblas.so.5. What a library would refuse is refused here. Environment: FAKE_BLAS_FAIL
 * (names of functions, with commas between: they fail, with FAKE_BLAS_ERROR or 7), FAKE_BLAS_FOUND=0 (no algorithm is
 * found). Constants: hipblaslt.h, hipblas-common.h, rocblas-types.h of ROCm 6.2. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int fake_blas_live, fake_blas_products;

static int result(const char *function)
{
    const char *fail = getenv("FAKE_BLAS_FAIL"), *error = getenv("FAKE_BLAS_ERROR");
    size_t n = strlen(function);
    for (; fail && *fail; fail += strcspn(fail, ","), fail += *fail == ',')
        if (strcspn(fail, ",") == n && strncmp(fail, function, n) == 0)
            return error ? atoi(error) : 7;
    return 0;
}

enum { F32_BITS, F16_BITS, BF16_BITS };

/* Element i of an array; a short float's bits are the upper ones of an f32 (bf16) or counted out (f16). */
static double value(const void *data, int type, int64_t i)
{
    float f;
    if (type == F32_BITS)
        return (double)((const float *)data)[i];
    uint16_t h = ((const uint16_t *)data)[i];
    if (type == BF16_BITS) {
        uint32_t bits = (uint32_t)h << 16;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31  ? fraction ? (double)NAN : (double)INFINITY
               : exponent == 0 ? ldexp(fraction, -24)
                               : ldexp(1024 + fraction, exponent - 25);
    return h >> 15 ? -v : v;
}

/* Rounded to nearest, halves to even, from an f32 as the libraries do. */
static void put(void *data, int type, int64_t i, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint16_t *h = (uint16_t *)data + i;
    if (type == F32_BITS) {
        ((float *)data)[i] = f;
    } else if (f != f) {
        *h = 0x7fff;
    } else if (type == BF16_BITS) {
        *h = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    } else {
        double v = fabs((double)f);
        int exponent = v >= 0x1p-14 && !isinf(f) ? ilogb(v) : -14;
        double q = isinf(f) ? 0 : rint(ldexp(v, 10 - exponent));
        uint32_t code = (uint32_t)((exponent + 14) * 1024 + (int)q); /* a fraction of 2048 is the next exponent's */
        *h = (uint16_t)((bits >> 16 & 0x8000) | (isinf(f) || exponent > 15 || code > 0x7c00 ? 0x7c00 : code));
    }
}

/* An operand: its rows of rows or columns `stride` elements apart, matrices of a batch `batch`. */
typedef struct operand {
    const void *data;
    int is_transposed, type;
    int64_t stride, batch;
} operand;

/* d [columns][rows] = a [rows][k] times b [columns][k], as they lie: a's rows one after another when it is transposed,
 * b's columns when it is not. */
static void multiply(int64_t rows, int64_t columns, int64_t k, int64_t n_batch, operand a, operand b, void *out,
                     operand d)
{
    for (int64_t m = 0; m < (n_batch > 1 ? n_batch : 1); m++)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t r = 0; r < rows; r++) {
                double sum = 0;
                for (int64_t i = 0; i < k; i++)
                    sum +=
                        value(a.data, a.type, m * a.batch + (a.is_transposed ? r * a.stride + i : i * a.stride + r)) *
                        value(b.data, b.type, m * b.batch + (b.is_transposed ? i * b.stride + c : c * b.stride + i));
                put(out, d.type, m * d.batch + c * d.stride + r, (float)sum);
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
    int32_t n_batch;
    int64_t batch;
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
EXPORT int hipblasLtMatrixLayoutSetAttribute(void *l, int attribute, const void *data, size_t n_bytes);
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
        *(layout *)*out = (layout){type, rows, columns, stride, 1, 0};
    return error;
}

int hipblasLtMatrixLayoutSetAttribute(void *l, int attribute, const void *data, size_t n_bytes)
{
    layout *to = l;
    if (attribute == 0 && n_bytes == sizeof to->n_batch)
        memcpy(&to->n_batch, data, n_bytes);
    else if (attribute == 1 && n_bytes == sizeof to->batch)
        memcpy(&to->batch, data, n_bytes);
    else
        return INVALID;
    return result("hipblasLtMatrixLayoutSetAttribute");
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

static int kind_of(int type)
{
    return type == R_16F ? F16_BITS : type == R_16BF ? BF16_BITS : F32_BITS;
}

static int64_t depth_of(const description *desc, const layout *a)
{
    return (int64_t)(desc->op[0] == OP_T ? a->rows : a->columns);
}

static int check(const description *desc, const layout *a, const layout *b, const layout *d)
{
    int is_turned = desc->op[0] == OP_T, b_is_turned = desc->op[1] == OP_T;
    int good = (a->type == R_32F || a->type == R_16F || a->type == R_16BF) && b->type == a->type &&
               (d->type == R_32F || d->type == a->type) && (is_turned || desc->op[0] == OP_N) &&
               (b_is_turned || desc->op[1] == OP_N) && (is_turned ? a->columns : a->rows) == d->rows &&
               (b_is_turned ? b->rows : b->columns) == d->columns &&
               depth_of(desc, a) == (int64_t)(b_is_turned ? b->columns : b->rows) && a->n_batch == d->n_batch &&
               b->n_batch == d->n_batch;
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
    const description *how = desc;
    multiply((int64_t)ld->rows, (int64_t)ld->columns, depth_of(how, la), ld->n_batch,
             (operand){a, how->op[0] == OP_T, kind_of(la->type), la->stride, la->batch},
             (operand){b, how->op[1] == OP_T, kind_of(lb->type), lb->stride, lb->batch}, d,
             (operand){NULL, 0, kind_of(ld->type), ld->stride, ld->batch});
    return 0;
}

#else
enum { NONE = 111, TRANSPOSED = 112, F16 = 150, F32 = 151, BF16 = 168, INVALID = 11 };

EXPORT int rocblas_create_handle(void **handle);
EXPORT int rocblas_destroy_handle(void *handle);
EXPORT int rocblas_set_stream(void *handle, void *stream);
EXPORT int rocblas_get_version_string(char *text, size_t n_bytes);
EXPORT int rocblas_gemm_strided_batched_ex(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                                           const void *a, int a_type, int lda, int64_t stride_a, const void *b,
                                           int b_type, int ldb, int64_t stride_b, const void *beta, const void *c,
                                           int c_type, int ldc, int64_t stride_c, void *d, int d_type, int ldd,
                                           int64_t stride_d, int n_batch, int compute_type, int algorithm,
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

static int kind_of(int type)
{
    return type == F16 ? F16_BITS : type == BF16 ? BF16_BITS : F32_BITS;
}

int rocblas_gemm_strided_batched_ex(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                                    const void *a, int a_type, int lda, int64_t stride_a, const void *b, int b_type,
                                    int ldb, int64_t stride_b, const void *beta, const void *c, int c_type, int ldc,
                                    int64_t stride_c, void *d, int d_type, int ldd, int64_t stride_d, int n_batch,
                                    int compute_type, int algorithm, int32_t solution, uint32_t flags)
{
    float one, zero;
    memcpy(&one, alpha, sizeof one);
    memcpy(&zero, beta, sizeof zero);
    int is_turned = op_a == TRANSPOSED, b_is_turned = op_b == TRANSPOSED;
    if (!*(void **)handle || (!is_turned && op_a != NONE) || (!b_is_turned && op_b != NONE) ||
        (a_type != F32 && a_type != F16 && a_type != BF16) || b_type != a_type || (d_type != F32 && d_type != a_type) ||
        c_type != d_type || compute_type != F32 || c != d || ldc != ldd || stride_c != stride_d || one != 1 ||
        zero != 0 || lda < (is_turned ? k : m) || ldb < (b_is_turned ? n : k) || ldd < m || n_batch < 1 || algorithm ||
        solution || flags)
        return INVALID;
    if (result("rocblas_gemm_strided_batched_ex"))
        return result("rocblas_gemm_strided_batched_ex");
    multiply(m, n, k, n_batch, (operand){a, is_turned, kind_of(a_type), lda, stride_a},
             (operand){b, b_is_turned, kind_of(b_type), ldb, stride_b}, d,
             (operand){NULL, 0, kind_of(d_type), ldd, stride_d});
    return 0;
}
#endif
