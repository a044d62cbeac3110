/* Private to device/: a GPU above its driver, shared by gpu.c (code objects, kernels, opening), gpu_memory.c,
 * gpu_stream.c and the libraries. */
#ifndef BW_GPU_PRIVATE_H
#define BW_GPU_PRIVATE_H

#include <stdlib.h>
#include <string.h>

#include "gpu_driver.h"
#include "kernel_images.h"
#include "rocm_folders.h"

enum { BW_STAGES = 4 }; /* slots of the staging ring, BW_STAGE_BYTES each */

/* Memory that was released and waits to be used again: one class of sizes, in the order of the stream. */
typedef struct bw_gpu_idle {
    void *address;
    size_t n_bytes;
} bw_gpu_idle;

typedef struct bw_gpu_slot {
    void *host;  /* pinned; NULL until first used */
    void *event; /* recorded behind the copy that reads it */
    bool in_use; /* the event was recorded */
} bw_gpu_slot;

typedef struct bw_gpu {
    bw_device device; /* first, so that a device is its gpu */
    const bw_gpu_driver *driver;
    void *context, *stream;
    bw_gpu_info info;
    char label[100];     /* "rocm:0 (AMD Instinct MI250X)", for errors; without the card's name while that is unknown */
    bool is_lost;        /* the driver said so: every call fails from now on */
    int n_dead;          /* failures after which not even waiting succeeded, since it last did */
    bool is_ordered;     /* the driver has memory in the order of the stream, or has not been asked yet */
    bool is_giving_back; /* memory was released in the order of the stream, which has not been waited for since */
    bool no_pool; /* BW_GPU_POOL=0: what is released goes back at once, for tests that look at single allocations */
    bw_kernel_images images;
    void **modules; /* [n_modules], one per image */
    int n_modules;
    bw_gpu_kernel **kernels; /* found so far, sorted by name */
    size_t n_kernels, kernels_capacity;
    bw_gpu_idle *idle;
    size_t n_idle, idle_capacity, idle_bytes;
    size_t held_bytes; /* taken from the driver and not given back */
    bw_gpu_slot stages[BW_STAGES];
    int next_stage;
    bool is_capturing;
    struct bw_gpu_library *library; /* NULL until asked for */
    struct bw_gpu_dnn *dnn;         /* likewise */
    struct bw_gpu_choices *choices; /* likewise */
} bw_gpu;

static inline bw_gpu *bw_gpu_of(bw_device *device)
{
    return (bw_gpu *)(void *)device;
}

static inline const bw_gpu *bw_gpu_of_const(const bw_device *device)
{
    return (const bw_gpu *)(const void *)device;
}

/* A driver's error as a sentence: BW_E_LOST when nothing will work any more, which is remembered, BW_E_MEMORY or
 * BW_E_DEVICE. */
bw_status bw_gpu_fail(bw_gpu *g, bw_err *err, int error, const char *what);
/* Contexts belong to threads: whoever calls, makes it theirs. */
bw_status bw_gpu_enter(bw_gpu *g, bw_err *err);

/* Whether something may be given back to the driver. Not on a lost device, where that may wait for ever: what lies
 * there goes with the process. */
static inline bool bw_gpu_can_free(const bw_gpu *g)
{
    return !g->is_lost && g->driver->make_current(g->context) == 0;
}

/* gpu_memory.c: the rows of the device table that move and hold memory. */
bw_status bw_gpu_alloc(bw_device *device, size_t n_bytes, bw_memory_use use, const char *what, bw_buffer *buffer,
                       bw_err *err);
void bw_gpu_release(bw_device *device, bw_buffer *buffer);
bw_status bw_gpu_upload(bw_device *device, void *dst, const void *host_src, size_t n_bytes, bw_err *err);
bw_status bw_gpu_download(bw_device *device, void *host_dst, const void *src, size_t n_bytes, bw_err *err);
bw_status bw_gpu_copy(bw_device *device, void *dst, const void *src, size_t n_bytes, bw_err *err);
bw_status bw_gpu_synchronise(bw_device *device, bw_err *err);
bw_status bw_gpu_memory_info(bw_device *device, int64_t *free_bytes, int64_t *total_bytes, bw_err *err);
bw_status bw_gpu_host_alloc(bw_device *device, size_t n_bytes, const char *what, bw_buffer *buffer, bw_err *err);
void bw_gpu_host_release(bw_device *device, bw_buffer *buffer);
bw_status bw_gpu_upload_later(bw_device *device, void *dst, const void *host_src, size_t n_bytes, bw_err *err);
bw_status bw_gpu_download_later(bw_device *device, void *host_dst, const void *src, size_t n_bytes, bw_err *err);
/* Give back what the pool and the ring hold. */
void bw_gpu_memory_deinit(bw_gpu *g);
/* gpu_library.c */
void bw_gpu_library_close(bw_gpu *g);
/* A vendor's library as it is opened: the first of its files that is there, NULL-terminated; none where the environment
 * leaves it out. */
typedef struct bw_gpu_library_row {
    bw_device_kind kind;
    const char *name, *use; /* "hipBLASLt", "matrix products" */
    const char *files[4];
} bw_gpu_library_row;
enum { BW_GPU_LIBRARIES = 3, BW_GPU_DNNS = 2 };
/* Whether BW_GPU_LIBRARIES says so: "0" leaves all of them out, "always" takes them wherever they can be. */
static inline bool bw_gpu_libraries_are(const char *wish)
{
    const char *is = getenv("BW_GPU_LIBRARIES");
    return is && strcmp(is, wish) == 0;
}
/* dlopen of the first of a row's files that loads, AMD's from ROCm's own folders too; path gets it, or is empty. */
void *bw_gpu_open_library(const bw_gpu_library_row *row, int flags, char path[BW_ROCM_PATH]);
bw_gpu_library_row bw_gpu_library_row_of(int i); /* 0 to BW_GPU_LIBRARIES - 1 */
/* gpu_dnn.c */
void bw_gpu_dnn_close(bw_gpu *g);
bw_gpu_library_row bw_gpu_dnn_row_of(int i); /* 0 to BW_GPU_DNNS - 1 */
/* "hipblasLt 1200", "no library". Loads it. */
void bw_gpu_library_version(bw_gpu *g, char out[64]);
/* gpu_choices.c */
void bw_gpu_rest(bw_device *device);
void bw_gpu_choices_close(bw_gpu *g);

#endif
