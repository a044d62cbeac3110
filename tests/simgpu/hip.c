/* libamdhip64 as far as driver_hip.c knows it (src/device/driver_hip.h), on host memory and with kernels that run on
 * the processor. One card, "gfxsim32" or "gfxsim64" by its wave; a code object is the text "simgpu FAMILY". Owns
 * memory: every allocation is filled with 0xff and lies between guard zones that are looked at after each launch and
 * when it is freed (an ASan build forbids them instead); refuses copies that leave an allocation, and launches that HIP
 * would refuse. What goes wrong on real cards it does when the environment says so (README.md); the variables are read
 * again at each call, so that a test may set them between two steps. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../src/device/driver_hip.h"
#include "simgpu.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#endif
#if defined(SIM_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

#define EXPORT __attribute__((visibility("default")))
enum { INVALID = 1, NO_DEVICE = 100, BAD_IMAGE = 200, BAD_HANDLE = 400, IS_CAPTURED = 900, UNITS = 4, MIB = 20 };
enum { GUARD = 4096, GUARD_SEEN = 256, GUARD_BYTE = 0xfd }; /* GUARD_SEEN: how much of a guard zone is looked at */

#define HIP(name, arguments) EXPORT int name arguments;
BW_HIP_FUNCTIONS
BW_HIP_OPTIONAL_FUNCTIONS
#undef HIP
EXPORT const char *hipGetErrorString(int error);
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device);

typedef struct allocation {
    unsigned char *data; /* [n_bytes], with GUARD bytes on either side */
    size_t n_bytes;
} allocation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocation *allocations; /* [n_allocations], by address */
static size_t n_allocations, used_bytes;
static int stream_token;

/* What a captured stream was asked for, in order: launches (kernel), copies (src) and fills. */
typedef struct step {
    const sim_kernel *kernel;
    unsigned grid[3], threads, shared_bytes;
    void **args; /* of a launch: the pointers, and behind them the values */
    void *dst;
    const void *src;
    int value, kind;
    size_t n_bytes;
} step;
typedef struct graph {
    step *steps; /* [n_steps] */
    size_t n_steps;
} graph;
static graph *captured; /* while the stream is captured */

/* ---- faults on demand -------------------------------------------------------------------------------------------- */

static size_t total_bytes(void)
{
    const char *says = getenv("BW_SIM_MEMORY_MIB");
    return (size_t)(says ? strtoull(says, NULL, 10) : 4096) << MIB;
}

/* BW_SIM_LOST_AT=N: the N-th launch from when it was set fails as illegal accesses do, and all that follow; so they do
 * as soon as the file BW_SIM_LOST_FILE is there. */
static bool is_lost_now(void)
{
    static long long n_launches;
    const char *at = getenv("BW_SIM_LOST_AT"), *file = getenv("BW_SIM_LOST_FILE");
    n_launches = at ? n_launches + 1 : 0;
    return (at && n_launches >= strtoll(at, NULL, 10)) || (file && access(file, F_OK) == 0);
}

/* BW_SIM_NAMES=FILE: the name of each kernel, when it is launched for the first time. */
static void note_name(const sim_kernel *kernel)
{
    enum { MOST = 8192 };
    static const sim_kernel *noted[MOST];
    static int n_noted;
    const char *path = getenv("BW_SIM_NAMES");
    for (int i = 0; path && i < n_noted; i++)
        if (noted[i] == kernel)
            return;
    FILE *file = path && n_noted < MOST ? fopen(path, "a") : NULL;
    if (!file)
        return;
    noted[n_noted++] = kernel;
    fprintf(file, "%s\n", kernel->name);
    fclose(file);
}

/* BW_SIM_CLOCK=kernels: events tell the time that kernels took, as if all else took none; else the host's time. */
static double kernels_ms;

static double host_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static double event_ms(void)
{
    const char *says = getenv("BW_SIM_CLOCK");
    return says && strcmp(says, "kernels") == 0 ? kernels_ms : host_ms();
}

/* BW_SIM_CAPTURE_FAILS=begin, launch or end: where the capture of a graph fails. */
static bool capture_fails(const char *where)
{
    const char *says = getenv("BW_SIM_CAPTURE_FAILS");
    return says && strcmp(says, where) == 0;
}

const char *hipGetErrorString(int error)
{
    switch (error) {
    case 0:
        return "no error";
    case INVALID:
        return sim_error[0] ? sim_error : "invalid value";
    case BW_HIP_OUT_OF_MEMORY:
        return "out of memory";
    case BAD_IMAGE:
        return "this is no code object of the simulation";
    case IS_CAPTURED:
        return "not permitted while a stream is captured";
    case BW_HIP_ILLEGAL_ADDRESS:
        return "an illegal memory access was encountered";
    case SIM_FAILED:
        return sim_error;
    default:
        return "an error of the simulation";
    }
}

int hipInit(unsigned flags)
{
    (void)flags;
    const char *wrong = sim_shared_init();
    if (wrong)
        snprintf(sim_error, sizeof sim_error, "%s", wrong);
    return wrong ? INVALID : 0;
}

int hipGetDeviceCount(int *count)
{
    *count = 1;
    return 0;
}

int hipSetDevice(int device)
{
    return device == 0 ? 0 : NO_DEVICE;
}

int hipGetDevicePropertiesR0600(void *properties, int device)
{
    char *p = properties;
    if (device != 0)
        return NO_DEVICE;
    strcpy(p, "simulated GPU");
    memcpy(p + BW_HIP_R0600_SHARED, &(size_t){SIM_MAX_SHARED}, sizeof(size_t));
    memcpy(p + BW_HIP_R0600_WAVE, &(int){SIM_WAVE}, sizeof(int));
    memcpy(p + BW_HIP_R0600_UNITS, &(int){UNITS}, sizeof(int));
    snprintf(p + BW_HIP_R0600_ARCH, 32, "gfxsim%d", SIM_WAVE);
    return 0;
}

int hipGetDeviceProperties(void *properties, int device)
{
    (void)properties;
    (void)device;
    return INVALID;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The place of the first allocation that begins above this address. */
static size_t place_above(const unsigned char *address)
{
    size_t low = 0, high = n_allocations;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (allocations[middle].data <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void guard(const allocation *a)
{
#if defined(SIM_ASAN)
    __asan_poison_memory_region(a->data - GUARD, GUARD);
    __asan_poison_memory_region(a->data + a->n_bytes, GUARD);
#else
    memset(a->data - GUARD, GUARD_BYTE, GUARD);
    memset(a->data + a->n_bytes, GUARD_BYTE, GUARD);
#endif
}

/* Whether the guard zones are as they were; says so if not. */
static bool is_whole(const allocation *a, const char *when)
{
#if defined(SIM_ASAN)
    (void)a;
    (void)when;
#else
    for (int i = 1; i <= GUARD_SEEN; i++)
        if (a->data[-i] != GUARD_BYTE || a->data[a->n_bytes + (size_t)i - 1] != GUARD_BYTE) {
            snprintf(sim_error, sizeof sim_error, "%s: memory around an allocation of %zu bytes was written, byte %lld",
                     when, a->n_bytes, a->data[-i] != GUARD_BYTE ? -(long long)i : (long long)a->n_bytes + i - 1);
            return false;
        }
#endif
    return true;
}

static int allocate(void **address, size_t n_bytes)
{
    if (used_bytes > total_bytes() || n_bytes > total_bytes() - used_bytes)
        return BW_HIP_OUT_OF_MEMORY;
    allocation *grown = realloc(allocations, (n_allocations + 1) * sizeof *allocations);
    if (!grown)
        return BW_HIP_OUT_OF_MEMORY;
    allocations = grown;
    void *memory = NULL;
    if (posix_memalign(&memory, GUARD, n_bytes + 2 * GUARD) != 0)
        return BW_HIP_OUT_OF_MEMORY;
    allocation a = {.data = (unsigned char *)memory + GUARD, .n_bytes = n_bytes};
    memset(a.data, 0xff, n_bytes);
    guard(&a);
    size_t at = place_above(a.data);
    memmove(allocations + at + 1, allocations + at, (n_allocations - at) * sizeof *allocations);
    allocations[at] = a;
    n_allocations++;
    used_bytes += n_bytes;
    *address = a.data;
    return 0;
}

static int release(void *address)
{
    size_t at = place_above(address);
    if (at == 0 || allocations[at - 1].data != address)
        return INVALID;
    allocation a = allocations[at - 1];
    bool whole = is_whole(&a, "free");
#if defined(SIM_ASAN)
    __asan_unpoison_memory_region(a.data - GUARD, a.n_bytes + 2 * GUARD);
#endif
    free(a.data - GUARD);
    used_bytes -= a.n_bytes;
    n_allocations--;
    memmove(allocations + at - 1, allocations + at, (n_allocations - at + 1) * sizeof *allocations);
    return whole ? 0 : SIM_FAILED;
}

int hipMalloc(void **address, size_t n_bytes)
{
    pthread_mutex_lock(&lock);
    int error = captured ? IS_CAPTURED : allocate(address, n_bytes);
    pthread_mutex_unlock(&lock);
    return error;
}

int hipFree(void *address)
{
    pthread_mutex_lock(&lock);
    int error = captured ? IS_CAPTURED : address ? release(address) : 0;
    pthread_mutex_unlock(&lock);
    return error;
}

/* Launches are over when they return here, so that order in a stream is order in time. */
int hipMallocAsync(void **address, size_t n_bytes, void *stream)
{
    (void)stream;
    return hipMalloc(address, n_bytes);
}

int hipFreeAsync(void *address, void *stream)
{
    (void)stream;
    return hipFree(address);
}

int hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    *total = total_bytes();
    *free_bytes = *total > used_bytes ? *total - used_bytes : 0;
    return 0;
}

/* Whether all of it lies in one allocation (or none of it does, for memory of the host). */
static bool is_device(const void *address, size_t n_bytes)
{
    size_t at = place_above(address);
    if (at == 0)
        return false;
    const allocation *a = &allocations[at - 1];
    size_t offset = (size_t)((const unsigned char *)address - a->data);
    return offset <= a->n_bytes && n_bytes <= a->n_bytes - offset;
}

/* What a lost card leaves behind goes with the process: nobody may touch that card to free it. */
static void is_the_drivers(const void *memory)
{
#if defined(SIM_ASAN)
    __lsan_ignore_object(memory);
#else
    (void)memory;
#endif
}

int hipHostMalloc(void **address, size_t n_bytes, unsigned flags)
{
    if (flags != 0)
        return INVALID;
    *address = malloc(n_bytes);
    if (!*address)
        return BW_HIP_OUT_OF_MEMORY;
    memset(*address, 0xff, n_bytes);
    is_the_drivers(*address);
    return 0;
}

int hipHostFree(void *address)
{
    free(address);
    return 0;
}

EXPORT int64_t sim_downloaded_bytes; /* since the library was loaded */

static int copy(void *dst, const void *src, size_t n_bytes, int kind)
{
    if (is_device(dst, n_bytes) != (kind != BW_HIP_DEVICE_TO_HOST) ||
        is_device(src, n_bytes) != (kind != BW_HIP_HOST_TO_DEVICE)) {
        snprintf(sim_error, sizeof sim_error, "a copy of %zu bytes leaves its allocation", n_bytes);
        return INVALID;
    }
    memmove(dst, src, n_bytes);
    if (kind == BW_HIP_DEVICE_TO_HOST)
        sim_downloaded_bytes += (int64_t)n_bytes;
    return 0;
}

static int fill(void *dst, int value, size_t n_bytes)
{
    if (!is_device(dst, n_bytes)) {
        snprintf(sim_error, sizeof sim_error, "a fill of %zu bytes leaves its allocation", n_bytes);
        return INVALID;
    }
    memset(dst, value, n_bytes);
    return 0;
}

static int launch(const sim_kernel *kernel, const unsigned grid[3], unsigned threads, unsigned shared_bytes,
                  void **args)
{
    note_name(kernel);
    int error = is_lost_now() ? BW_HIP_ILLEGAL_ADDRESS : sim_launch(kernel, grid, threads, shared_bytes, args);
    for (size_t i = 0; i < n_allocations && !error; i++)
        if (!is_whole(&allocations[i], kernel->name)) {
            guard(&allocations[i]);
            error = SIM_FAILED;
        }
    return error;
}

/* ---- the stream: at once, or into a graph ------------------------------------------------------------------------ */

static int do_step(const step *s)
{
    if (s->kernel) {
        double before = host_ms();
        int error = launch(s->kernel, s->grid, s->threads, s->shared_bytes, s->args);
        kernels_ms += host_ms() - before;
        return error;
    }
    return s->src ? copy(s->dst, s->src, s->n_bytes, s->kind) : fill(s->dst, s->value, s->n_bytes);
}

/* The arguments are read now, as HIP does. */
static int keep_step(const step *s)
{
    step *grown = realloc(captured->steps, (captured->n_steps + 1) * sizeof *grown);
    if (!grown)
        return BW_HIP_OUT_OF_MEMORY;
    captured->steps = grown;
    grown[captured->n_steps] = *s;
    if (s->kernel) {
        enum { ROOM = 64 }; /* so that any argument is aligned */
        const sim_kernel *k = s->kernel;
        size_t head = ((size_t)k->n_args * sizeof(void *) + ROOM - 1) / ROOM * ROOM, n_bytes = head;
        for (int i = 0; i < k->n_args; i++)
            n_bytes += (k->arg_bytes[i] + ROOM - 1) / ROOM * ROOM;
        char *kept = aligned_alloc(ROOM, n_bytes ? n_bytes : ROOM);
        if (!kept)
            return BW_HIP_OUT_OF_MEMORY;
        void **args = (void **)(void *)kept;
        kept += head;
        for (int i = 0; i < k->n_args; i++) {
            args[i] = memcpy(kept, s->args[i], k->arg_bytes[i]);
            kept += (k->arg_bytes[i] + ROOM - 1) / ROOM * ROOM;
        }
        grown[captured->n_steps].args = args;
    }
    captured->n_steps++;
    return 0;
}

static int enqueue(void *stream, const step *s)
{
    if (stream != &stream_token)
        return INVALID;
    pthread_mutex_lock(&lock);
    int error = captured && capture_fails("launch") ? IS_CAPTURED : captured ? keep_step(s) : do_step(s);
    pthread_mutex_unlock(&lock);
    return error;
}

int hipMemcpyAsync(void *dst, const void *src, size_t n_bytes, int kind, void *stream)
{
    if (kind < BW_HIP_HOST_TO_DEVICE || kind > BW_HIP_DEVICE_TO_DEVICE)
        return INVALID;
    return enqueue(stream, &(step){.dst = dst, .src = src, .n_bytes = n_bytes, .kind = kind});
}

int hipMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t n_bytes, void *stream)
{
    if (dst_device != 0 || src_device != 0)
        return NO_DEVICE;
    return hipMemcpyAsync(dst, src, n_bytes, BW_HIP_DEVICE_TO_DEVICE, stream);
}

int hipMemsetAsync(void *dst, int value, size_t n_bytes, void *stream)
{
    return enqueue(stream, &(step){.dst = dst, .value = value, .n_bytes = n_bytes});
}

int hipStreamBeginCapture(void *stream, int mode)
{
    if (captured || stream != &stream_token || mode != BW_HIP_CAPTURE_THREAD_LOCAL || capture_fails("begin"))
        return INVALID;
    captured = calloc(1, sizeof *captured);
    return captured ? 0 : BW_HIP_OUT_OF_MEMORY;
}

int hipStreamEndCapture(void *stream, void **made)
{
    if (!captured || stream != &stream_token)
        return INVALID;
    graph *done = captured;
    captured = NULL;
    if (capture_fails("end")) {
        hipGraphDestroy(done);
        return IS_CAPTURED;
    }
    *made = done;
    return 0;
}

/* Graph and executable are one; the executable takes the steps. */
int hipGraphInstantiateWithFlags(void **exec, void *made, unsigned long long flags)
{
    graph *from = made, *to = calloc(1, sizeof *to);
    if (!to || flags != 0) {
        free(to);
        return flags ? INVALID : BW_HIP_OUT_OF_MEMORY;
    }
    *to = *from;
    *from = (graph){0};
    is_the_drivers(to);
    *exec = to;
    return 0;
}

int hipGraphLaunch(void *exec, void *stream)
{
    const graph *g = exec;
    int error = 0;
    for (size_t i = 0; i < g->n_steps && !error; i++)
        error = enqueue(stream, &g->steps[i]);
    return error;
}

int hipGraphDestroy(void *made)
{
    graph *g = made;
    for (size_t i = 0; i < g->n_steps; i++)
        free(g->steps[i].args);
    free(g->steps);
    free(g);
    return 0;
}

int hipGraphExecDestroy(void *exec)
{
    return hipGraphDestroy(exec);
}

int hipEventCreateWithFlags(void **event, unsigned flags)
{
    if (flags != 0)
        return INVALID;
    *event = calloc(1, sizeof(double));
    return *event ? 0 : BW_HIP_OUT_OF_MEMORY;
}

int hipEventRecord(void *event, void *stream)
{
    if (!event || stream != &stream_token)
        return INVALID;
    pthread_mutex_lock(&lock);
    *(double *)event = event_ms();
    pthread_mutex_unlock(&lock);
    return 0;
}

int hipEventSynchronize(void *event)
{
    return !event ? INVALID : captured ? IS_CAPTURED : 0;
}

int hipEventElapsedTime(float *ms, void *begin, void *end)
{
    const double *a = begin, *b = end;
    if (!a || !b)
        return INVALID;
    *ms = (float)(*b - *a);
    return 0;
}

int hipEventDestroy(void *event)
{
    free(event);
    return 0;
}

/* ---- streams, modules, launches ---------------------------------------------------------------------------------- */

int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    *stream = &stream_token;
    return flags == BW_HIP_STREAM_NON_BLOCKING ? 0 : INVALID;
}

int hipStreamDestroy(void *stream)
{
    return stream == &stream_token ? 0 : INVALID;
}

int hipStreamSynchronize(void *stream)
{
    return stream != &stream_token ? INVALID : captured ? IS_CAPTURED : 0;
}

int hipModuleLoadData(void **module, const void *image)
{
    const char *text = image;
    if (strncmp(text, "simgpu ", 7) != 0)
        return BAD_IMAGE;
    for (int i = 0; i < sim_n_families; i++) {
        size_t n = strlen(sim_families[i]->name);
        if (strncmp(text + 7, sim_families[i]->name, n) == 0 && (unsigned char)text[7 + n] <= ' ') {
            *module = (void *)(uintptr_t)sim_families[i];
            return 0;
        }
    }
    return BAD_IMAGE;
}

int hipModuleUnload(void *module)
{
    return module ? 0 : BAD_HANDLE;
}

int hipModuleGetFunction(void **function, void *module, const char *name)
{
    const sim_family *family = module;
    for (int i = 0; i < family->n_kernels; i++)
        if (strcmp(family->kernels[i].name, name) == 0) {
            *function = (void *)(uintptr_t)&family->kernels[i];
            return 0;
        }
    return BW_HIP_NOT_FOUND;
}

int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **args,
                          void **extra)
{
    const sim_kernel *kernel = function;
    if (extra || !args)
        return INVALID;
    if (grid_x == 0 || grid_y == 0 || grid_z == 0 || block_y * block_z != 1 || block_x == 0 ||
        block_x > (unsigned)kernel->max_threads || (uint64_t)grid_x * block_x > UINT32_MAX || grid_y > 65535 ||
        grid_z > 65535 || shared_bytes > SIM_MAX_SHARED) {
        snprintf(sim_error, sizeof sim_error,
                 "%s: no card takes %u,%u,%u workgroups of %u threads (at most %d) and %u bytes", kernel->name, grid_x,
                 grid_y, grid_z, block_x, kernel->max_threads, shared_bytes);
        return INVALID;
    }
    return enqueue(stream, &(step){.kernel = kernel,
                                   .grid = {grid_x, grid_y, grid_z},
                                   .threads = block_x,
                                   .shared_bytes = shared_bytes,
                                   .args = args});
}
