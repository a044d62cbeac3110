/* oneDNN by dlopen: the functions of either version behind one form, primitives and where they are kept. Signatures
 * and numbers: onednn_api.h. */
#include "library/bw_onednn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_log.h"
#include "bw_sanitizer.h"
#include "library/onednn_api.h"

static struct {
#define DNNL(name, result, arguments) result(*name) arguments;
    BW_DNNL_FUNCTIONS
    BW_DNNL_FUNCTIONS_2
    BW_DNNL_FUNCTIONS_3
#undef DNNL
    void (*omp_set_num_threads)(int n); /* NULL where the library has no threads */
    int (*omp_get_max_threads)(void);
    bw_dnnl_engine engine;
    bw_dnnl_attr attr;
    bool is_3; /* oneDNN 3 */
} dnnl;
static bool is_there;
static char file_name[128]; /* where it was found */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- loading ---------------------------------------------------------------------------------------------------- */

static void *open_library(const char **name)
{
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2"};
    void *library = NULL;
    *name = getenv("BW_ONEDNN_LIBRARY");
    if (*name && **name)
        return dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++) {
        *name = names[i];
        library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

/* The name of a function that the library lacks, or NULL. */
static const char *find_functions(void *library)
{
    const char *missing = NULL;
#define DNNL(function, result, arguments)                                                                              \
    *(void **)&dnnl.function = dlsym(library, #function);                                                              \
    if (!dnnl.function && !missing)                                                                                    \
        missing = #function;
    BW_DNNL_FUNCTIONS
    if (missing)
        return missing;
    dnnl.is_3 = dnnl.dnnl_version()->major >= 3;
    if (dnnl.is_3) {
        BW_DNNL_FUNCTIONS_3
    } else {
        BW_DNNL_FUNCTIONS_2
    }
#undef DNNL
    return missing;
}

/* OpenMP's function as the library's own calls are bound: where the host program has OpenMP of another make (clang's
 * libomp), that one comes before the libgomp that the library asks for. */
static void *find_openmp(void *library, const char *name)
{
    void *global = dlsym(RTLD_DEFAULT, name);
    return global ? global : dlsym(library, name);
}

/* One engine, and one set of attributes for every primitive: scratch is the caller's, f32 stays f32. */
static bool set_up(void)
{
    /* BW_CPU_LEVEL holds for it too; it refuses where the host program has used it already */
    if (getenv("BW_CPU_LEVEL") && !bw_cpu_get_features()->avx512 && dnnl.dnnl_set_max_cpu_isa(BW_DNNL_ISA_AVX2) != 0)
        return false;
    return dnnl.dnnl_engine_create(&dnnl.engine, BW_DNNL_CPU, 0) == 0 &&
           dnnl.dnnl_primitive_attr_create(&dnnl.attr) == 0 &&
           dnnl.dnnl_primitive_attr_set_scratchpad_mode(dnnl.attr, BW_DNNL_USER_SCRATCHPAD) == 0 &&
           dnnl.dnnl_primitive_attr_set_fpmath_mode(dnnl.attr, BW_DNNL_STRICT) == 0;
}

static void load_once(void)
{
    const char *name, *off = getenv("BW_CPU_LIBRARIES");
#if BW_HAS_TSAN
    return;
#endif
    if (off && strcmp(off, "0") == 0)
        return;
#if defined(__x86_64__)
    if (!bw_cpu_get_features()->avx2) /* nothing that could be faster, or BW_CPU_LEVEL says so */
        return;
#endif
    void *library = open_library(&name);
    if (!library) {
        const char *why = dlerror();
        bw_log_info("oneDNN is not here (%s): products and convolutions use our own kernels",
                    why ? why : "not installed");
        return;
    }
    const char *missing = find_functions(library);
    if (missing) {
        bw_log_warn("%s lacks %s: it is no oneDNN of version 2.5 to 3; our own kernels are used", name, missing);
        return;
    }
    const bw_dnnl_version *v = dnnl.dnnl_version();
    *(void **)&dnnl.omp_set_num_threads = find_openmp(library, "omp_set_num_threads");
    *(void **)&dnnl.omp_get_max_threads = find_openmp(library, "omp_get_max_threads");
    bool has_openmp = v->cpu_runtime == BW_DNNL_RUNTIME_OPENMP;
    if (v->major < 2 || v->major > 3 || (!has_openmp && v->cpu_runtime != BW_DNNL_RUNTIME_SEQUENTIAL) ||
        (has_openmp && (!dnnl.omp_set_num_threads || !dnnl.omp_get_max_threads))) {
        bw_log_warn(
            "%s is oneDNN %d.%d.%d with threads of kind %u; only versions 2 and 3 with OpenMP or without threads "
            "can be used: our own kernels are used",
            name, v->major, v->minor, v->patch, v->cpu_runtime);
        return;
    }
    if (!has_openmp)
        dnnl.omp_set_num_threads = NULL;
    is_there = set_up();
    snprintf(file_name, sizeof file_name, "%s", name);
    if (is_there)
        bw_log_info("oneDNN %d.%d.%d (%s): large products and convolutions use it where a timed trial finds it faster",
                    v->major, v->minor, v->patch, name);
    else
        bw_log_warn("oneDNN %d.%d.%d (%s) could not be set up: our own kernels are used", v->major, v->minor, v->patch,
                    name);
}

bool bw_onednn_is_there(void)
{
    pthread_once(&once, load_once);
    return is_there;
}

const char *bw_onednn_file(void)
{
    return bw_onednn_is_there() ? file_name : NULL;
}

/* OpenMP's number of threads belongs to the calling thread: 1 while the library works, then what it was. */
static int enter(void)
{
    int before = dnnl.omp_set_num_threads ? dnnl.omp_get_max_threads() : 1;
    if (before != 1)
        dnnl.omp_set_num_threads(1);
    return before;
}

static void leave(int before)
{
    if (before != 1)
        dnnl.omp_set_num_threads(before);
}

/* ---- primitives ------------------------------------------------------------------------------------------------- */

enum { SRC, WEIGHTS, DST, N_TENSORS, MAIN = N_TENSORS, N_STEPS };

struct bw_onednn_part {
    bw_onednn_spec spec;
    bool is_busy, is_bad;
    uint64_t last_use;
    bw_dnnl_stream stream;
    /* A tensor as the caller has it, and as the primitive wants it where that differs (NULL where it does not). */
    bw_dnnl_memory outer[N_TENSORS], inner[N_TENSORS];
    size_t inner_at[N_TENSORS]; /* its place in the scratch */
    /* Reorders of src, weights and dst (NULL where there is none), and the primitive itself. */
    bw_dnnl_primitive steps[N_STEPS];
    bw_dnnl_memory pads[N_STEPS]; /* each step's scratchpad, NULL where it needs none; one at a time */
    size_t pad_at, pad_bytes;
};

/* A memory descriptor of either version. */
typedef struct descriptor {
    union {
        char bytes[BW_DNNL_MD_BYTES];
        double align_double;
        void *align_pointer;
    } room;
    bw_dnnl_md md;
} descriptor;

/* any: in the layout that the library likes best. */
static bool describe(descriptor *d, const bw_onednn_tensor *t, bool any)
{
    int n = (int)t->n_dims, status;
    int type = t->dtype == BW_F32 ? BW_DNNL_F32 : t->dtype == BW_F16 ? BW_DNNL_F16 : BW_DNNL_BF16;
    d->md = NULL;
    if (dnnl.is_3) {
        void *md = NULL;
        status = any ? dnnl.dnnl_memory_desc_create_with_tag(&md, n, t->dims, type, BW_DNNL_ANY)
                     : dnnl.dnnl_memory_desc_create_with_strides(&md, n, t->dims, type, t->strides);
        d->md = md;
    } else {
        status = any ? dnnl.dnnl_memory_desc_init_by_tag(&d->room, n, t->dims, type, BW_DNNL_ANY)
                     : dnnl.dnnl_memory_desc_init_by_strides(&d->room, n, t->dims, type, t->strides);
        d->md = &d->room;
    }
    return status == 0;
}

static void forget(descriptor *d)
{
    if (dnnl.is_3 && d->md)
        dnnl.dnnl_memory_desc_destroy((void *)(uintptr_t)d->md);
    d->md = NULL;
}

static int create_2(bw_dnnl_pd *pd, const bw_onednn_spec *s, const descriptor *d)
{
    union {
        char bytes[BW_DNNL_OP_BYTES];
        double align_double;
        void *align_pointer;
    } op;
    int status;
    memset(&op, 0, sizeof op);
    if (s->kind == BW_ONEDNN_MATMUL)
        status = dnnl.dnnl_matmul_desc_init(&op, d[SRC].md, d[WEIGHTS].md, NULL, d[DST].md);
    else if (s->kind == BW_ONEDNN_CONV)
        status = dnnl.dnnl_dilated_convolution_forward_desc_init(&op, BW_DNNL_INFERENCE, BW_DNNL_CONVOLUTION, d[SRC].md,
                                                                 d[WEIGHTS].md, NULL, d[DST].md, s->stride, s->dilation,
                                                                 s->padding_l, s->padding_r);
    else
        status = dnnl.dnnl_dilated_deconvolution_forward_desc_init(&op, BW_DNNL_INFERENCE, BW_DNNL_DECONVOLUTION,
                                                                   d[SRC].md, d[WEIGHTS].md, NULL, d[DST].md, s->stride,
                                                                   s->dilation, s->padding_l, s->padding_r);
    return status ? status : dnnl.dnnl_primitive_desc_create(pd, &op, dnnl.attr, dnnl.engine, NULL);
}

static int create_3(bw_dnnl_pd *pd, const bw_onednn_spec *s, const descriptor *d)
{
    if (s->kind == BW_ONEDNN_MATMUL)
        return dnnl.dnnl_matmul_primitive_desc_create(pd, dnnl.engine, d[SRC].md, d[WEIGHTS].md, NULL, d[DST].md,
                                                      dnnl.attr);
    if (s->kind == BW_ONEDNN_CONV)
        return dnnl.dnnl_convolution_forward_primitive_desc_create(
            pd, dnnl.engine, BW_DNNL_INFERENCE, BW_DNNL_CONVOLUTION, d[SRC].md, d[WEIGHTS].md, NULL, d[DST].md,
            s->stride, s->dilation, s->padding_l, s->padding_r, dnnl.attr);
    return dnnl.dnnl_deconvolution_forward_primitive_desc_create(
        pd, dnnl.engine, BW_DNNL_INFERENCE, BW_DNNL_DECONVOLUTION, d[SRC].md, d[WEIGHTS].md, NULL, d[DST].md, s->stride,
        s->dilation, s->padding_l, s->padding_r, dnnl.attr);
}

/* The library's plain loops ("ref:any", "gemm:ref") are slower than ours by orders of magnitude: not even tried. */
static bool is_reference(bw_dnnl_const_pd pd)
{
    const char *name = NULL;
    return dnnl.dnnl_primitive_desc_query(pd, BW_DNNL_QUERY_NAME, 0, (void *)&name) != 0 || !name ||
           strstr(name, "ref") != NULL;
}

/* Step i from a descriptor, which it frees, and the room its scratchpad takes. */
static bool add_step(bw_onednn_part *part, int i, bw_dnnl_pd pd)
{
    bw_dnnl_md pad = dnnl.dnnl_primitive_desc_query_md(pd, BW_DNNL_QUERY_SCRATCHPAD, 0);
    size_t bytes = pad ? dnnl.dnnl_memory_desc_get_size(pad) : 0;
    bool ok = dnnl.dnnl_primitive_create(&part->steps[i], pd) == 0;
    if (ok && bytes)
        ok = dnnl.dnnl_memory_create(&part->pads[i], pad, dnnl.engine, NULL) == 0;
    part->pad_bytes = bytes > part->pad_bytes ? bytes : part->pad_bytes;
    dnnl.dnnl_primitive_desc_destroy(pd);
    return ok;
}

/* Tensor i as the caller has it, `outer`, and as the primitive wants it, with a reorder between them if needed. */
static bool add_tensor(bw_onednn_part *part, int i, bw_dnnl_md outer, bw_dnnl_md inner)
{
    if (!inner || dnnl.dnnl_memory_create(&part->outer[i], outer, dnnl.engine, NULL) != 0)
        return false;
    if (dnnl.dnnl_memory_desc_equal(outer, inner))
        return true;
    part->inner_at[i] = part->pad_at;
    part->pad_at += (dnnl.dnnl_memory_desc_get_size(inner) + 63) / 64 * 64;
    bw_dnnl_pd pd = NULL;
    bw_dnnl_md from = i == DST ? inner : outer, to = i == DST ? outer : inner;
    return dnnl.dnnl_memory_create(&part->inner[i], inner, dnnl.engine, NULL) == 0 &&
           dnnl.dnnl_reorder_primitive_desc_create(&pd, from, dnnl.engine, to, dnnl.engine, dnnl.attr) == 0 &&
           add_step(part, i, pd);
}

static bool create(bw_onednn_part *part)
{
    const bw_onednn_spec *s = &part->spec;
    const bw_onednn_tensor *tensors[N_TENSORS] = {&s->src, &s->weights, &s->dst};
    static const int queries[N_TENSORS] = {BW_DNNL_QUERY_SRC, BW_DNNL_QUERY_WEIGHTS, BW_DNNL_QUERY_DST};
    descriptor outer[N_TENSORS], wanted[N_TENSORS];
    bool ok = dnnl.dnnl_stream_create(&part->stream, dnnl.engine, BW_DNNL_IN_ORDER) == 0,
         any = s->kind != BW_ONEDNN_MATMUL;
    for (int i = 0; i < N_TENSORS; i++) {
        ok = describe(&outer[i], tensors[i], false) && ok;
        ok = describe(&wanted[i], tensors[i], any) && ok;
    }
    bw_dnnl_pd pd = NULL;
    if (ok && (dnnl.is_3 ? create_3(&pd, s, wanted) : create_2(&pd, s, wanted)) == 0) {
        ok = !is_reference(pd);
        for (int i = 0; i < N_TENSORS && ok; i++)
            ok = add_tensor(part, i, outer[i].md, dnnl.dnnl_primitive_desc_query_md(pd, queries[i], 0));
        if (ok)
            ok = add_step(part, MAIN, pd);
        else
            dnnl.dnnl_primitive_desc_destroy(pd);
    } else {
        ok = false;
    }
    for (int i = 0; i < N_TENSORS; i++) {
        forget(&outer[i]);
        forget(&wanted[i]);
    }
    return ok;
}

/* Everything but the spec. */
static void destroy(bw_onednn_part *part)
{
    for (int i = 0; i < N_TENSORS; i++) {
        if (part->outer[i])
            dnnl.dnnl_memory_destroy(part->outer[i]);
        if (part->inner[i])
            dnnl.dnnl_memory_destroy(part->inner[i]);
        part->outer[i] = part->inner[i] = NULL;
        part->inner_at[i] = 0;
    }
    for (int i = 0; i < N_STEPS; i++) {
        if (part->steps[i])
            dnnl.dnnl_primitive_destroy(part->steps[i]);
        if (part->pads[i])
            dnnl.dnnl_memory_destroy(part->pads[i]);
        part->steps[i] = part->pads[i] = NULL;
    }
    if (part->stream)
        dnnl.dnnl_stream_destroy(part->stream);
    part->stream = NULL;
    part->pad_at = part->pad_bytes = 0;
}

size_t bw_onednn_scratch(const bw_onednn_part *part)
{
    return part->pad_at + (part->pad_bytes + 63) / 64 * 64;
}

static bool run_step(bw_onednn_part *part, int i, const bw_dnnl_arg *args, int n, char *scratch)
{
    bw_dnnl_arg all[N_TENSORS + 1];
    memcpy(all, args, (size_t)n * sizeof *args);
    if (part->pads[i]) {
        all[n++] = (bw_dnnl_arg){BW_DNNL_ARG_SCRATCHPAD, part->pads[i]};
        if (dnnl.dnnl_memory_set_data_handle(part->pads[i], scratch + part->pad_at) != 0)
            return false;
    }
    return dnnl.dnnl_primitive_execute(part->steps[i], part->stream, n, all) == 0;
}

bool bw_onednn_run(bw_onednn_part *part, const void *src, const void *weights, void *dst, void *scratch)
{
    void *data[N_TENSORS] = {(void *)(uintptr_t)src, (void *)(uintptr_t)weights, dst};
    bw_dnnl_memory uses[N_TENSORS];
    int before = enter();
    bool ok = true;
    for (int i = 0; i < N_TENSORS && ok; i++) {
        uses[i] = part->inner[i] ? part->inner[i] : part->outer[i];
        ok = dnnl.dnnl_memory_set_data_handle(part->outer[i], data[i]) == 0 &&
             (!part->inner[i] ||
              dnnl.dnnl_memory_set_data_handle(part->inner[i], (char *)scratch + part->inner_at[i]) == 0);
        if (ok && part->inner[i] && i != DST)
            ok =
                run_step(part, i, (bw_dnnl_arg[]){{BW_DNNL_ARG_SRC, part->outer[i]}, {BW_DNNL_ARG_DST, part->inner[i]}},
                         2, scratch);
    }
    ok = ok &&
         run_step(part, MAIN,
                  (bw_dnnl_arg[]){
                      {BW_DNNL_ARG_SRC, uses[SRC]}, {BW_DNNL_ARG_WEIGHTS, uses[WEIGHTS]}, {BW_DNNL_ARG_DST, uses[DST]}},
                  3, scratch);
    if (ok && part->inner[DST])
        ok = run_step(part, DST,
                      (bw_dnnl_arg[]){{BW_DNNL_ARG_SRC, part->inner[DST]}, {BW_DNNL_ARG_DST, part->outer[DST]}}, 2,
                      scratch);
    leave(before);
    return ok;
}

/* ---- those kept ------------------------------------------------------------------------------------------------- */

/* Every member of a team holds one at a time, and that the library cannot do a shape is remembered too. An image
 * model's shapes on many threads must all fit: one made anew costs some 400 us at every call, and each takes up to 60
 * KB. */
enum { N_PARTS = 2048 };
static bw_onednn_part parts[N_PARTS];
static uint64_t hashes[N_PARTS]; /* of their specs; 0: never used */
static uint64_t n_uses;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* FNV-1a over 64-bit words; not 0 */
static uint64_t hash_spec(const bw_onednn_spec *spec)
{
    const int64_t *words = (const void *)spec;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *spec / sizeof *words; i++) {
        h = (h ^ (uint64_t)words[i]) * 1099511628211u;
        h ^= h >> 29;
    }
    return h | 1;
}

/* A part to fill for this spec: unused, or the one that was not used for longest; NULL when all are out. */
static bw_onednn_part *claim(const bw_onednn_spec *spec, uint64_t hash)
{
    int best = -1;
    for (int i = 0; i < N_PARTS && (best < 0 || hashes[best]); i++)
        if (!parts[i].is_busy && (best < 0 || !hashes[i] || parts[i].last_use < parts[best].last_use))
            best = i;
    if (best < 0)
        return NULL;
    hashes[best] = hash;
    parts[best].spec = *spec;
    parts[best].is_busy = true;
    parts[best].is_bad = false;
    return &parts[best];
}

bw_onednn_part *bw_onednn_take(const bw_onednn_spec *spec)
{
    if (!bw_onednn_is_there())
        return NULL;
    uint64_t hash = hash_spec(spec);
    bw_onednn_part *part = NULL;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < N_PARTS && !part && hashes[i]; i++)
        if (hashes[i] == hash && !parts[i].is_busy && memcmp(&parts[i].spec, spec, sizeof *spec) == 0)
            part = &parts[i];
    bool is_known = part != NULL, is_bad = part && part->is_bad;
    if (part)
        part->is_busy = !is_bad;
    else
        part = claim(spec, hash);
    if (part)
        part->last_use = ++n_uses;
    pthread_mutex_unlock(&mutex);
    if (!part || is_known)
        return is_bad ? NULL : part;
    destroy(part); /* what it was before */
    int before = enter();
    bool ok = create(part);
    leave(before);
    if (ok)
        return part;
    destroy(part);
    pthread_mutex_lock(&mutex);
    part->is_bad = true;
    part->is_busy = false;
    pthread_mutex_unlock(&mutex);
    return NULL;
}

void bw_onednn_give(bw_onednn_part *part)
{
    pthread_mutex_lock(&mutex);
    part->is_busy = false;
    pthread_mutex_unlock(&mutex);
}

bool bw_onednn_can(const bw_onednn_spec *spec, size_t *scratch_bytes)
{
    bw_onednn_part *part = bw_onednn_take(spec);
    if (!part)
        return false;
    size_t bytes = bw_onednn_scratch(part);
    *scratch_bytes = bytes > *scratch_bytes ? bytes : *scratch_bytes;
    bw_onednn_give(part);
    return true;
}
