/* The table every GPU driver fills: HIP's module API and CUDA's driver API are near twins, so one set of calls covers
 * both. Private to device/. Every call returns 0 or the vendor's error number; `error_text` makes a sentence of it. */
#ifndef BW_GPU_DRIVER_H
#define BW_GPU_DRIVER_H

#include "bw_gpu.h"

typedef struct bw_gpu_info {
    char name[80];   /* "NVIDIA H100 80GB HBM3" */
    char target[32]; /* "sm_90", "gfx1100" */
    int units;       /* multiprocessors or compute units */
    int wave;        /* threads of a warp or wave */
    int64_t shared_bytes_per_block;
    int64_t memory_bytes;
    bool integrated; /* part of the processor, in the system's memory */
} bw_gpu_info;

typedef struct bw_gpu_driver {
    const char *kind_name; /* "cuda", "rocm" */
    bw_device_kind kind;
    bw_status (*load)(
        bw_err *err); /* dlopen and initialise, once; BW_E_DEVICE with a sentence that says what is missing */
    int (*count)(int *n);
    const char *(*library)(void);                        /* what load has loaded */
    void (*versions)(char runtime[32], char driver[32]); /* left alone where unknown */
    int (*describe)(int index, bw_gpu_info *info);       /* without taking the card */
    int (*open)(int index, void **context, bw_gpu_info *info);
    void (*close)(int index, void *context);
    int (*make_current)(void *context);
    int (*alloc)(size_t n_bytes, void **address);
    int (*release)(void *address);
    /* The same in a stream's order: what is released so may be taken again by what comes later in the stream. An error
     * of any kind when this card or driver has no such memory. */
    int (*alloc_later)(size_t n_bytes, void **address, void *stream);
    int (*release_later)(void *address, void *stream);
    int (*upload)(void *dst, const void *host_src, size_t n_bytes, void *stream); /* returns when host_src may change */
    int (*download)(void *host_dst, const void *src, size_t n_bytes, void *stream); /* returns when done */
    int (*copy)(void *dst, const void *src, size_t n_bytes, void *stream);
    int (*copy_peer)(void *dst, int dst_index, void *dst_context, const void *src, int src_index, void *src_context,
                     size_t n_bytes, void *stream);
    int (*fill)(void *dst, int byte, size_t n_bytes, void *stream);
    int (*host_alloc)(size_t n_bytes, void **address); /* pinned */
    int (*host_release)(void *address);
    /* Neither waits: the host's memory is pinned and stays as it is until the stream has come so far. */
    int (*upload_later)(void *dst, const void *host_src, size_t n_bytes, void *stream);
    int (*download_later)(void *host_dst, const void *src, size_t n_bytes, void *stream);
    int (*event_new)(void **event);
    void (*event_free)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_wait)(void *event);                          /* the host waits */
    int (*event_elapsed)(float *ms, void *begin, void *end); /* both have been waited for */
    int (*capture_begin)(void *stream);
    int (*capture_end)(void *stream, void **graph); /* an instantiated graph */
    int (*graph_launch)(void *graph, void *stream);
    void (*graph_free)(void *graph);
    int (*memory_info)(size_t *free_bytes, size_t *total_bytes);
    int (*stream_new)(void **stream);
    void (*stream_free)(void *stream);
    int (*synchronise)(void *stream);
    int (*module_load)(const void *image, void **module);
    void (*module_free)(void *module);
    int (*find)(void *module, const char *name, void **function); /* BW_GPU_NOT_FOUND when the module lacks it */
    /* Launches with at most so many bytes of shared memory will come: before the first with more than
     * BW_GPU_SHARED_PLAIN. NULL where none need be announced. */
    int (*allow_shared)(void *function, uint32_t n_bytes);
    int (*launch)(void *function, const bw_gpu_grid *grid, void *stream, void **args);
    const char *(*error_text)(int error);
    bool (*is_out_of_memory)(int error);
    bool (*is_lost)(int error); /* nothing works on the card any more in this process */
} bw_gpu_driver;

enum { BW_GPU_NOT_FOUND = -1, BW_GPU_SHARED_PLAIN = 48 << 10 };

extern const bw_gpu_driver bw_gpu_driver_hip, bw_gpu_driver_cuda;

/* Code objects that were compiled into this program, one archive (kernel_archive.h) per target (made by the build:
 * cmake/kernels.cmake). A zstd frame may be followed by anything. */
typedef struct bw_code_object {
    const char *target; /* "gfx1100", "sm_90", "ptx_90" */
    const unsigned char *begin, *end;
} bw_code_object;
extern const bw_code_object bw_code_objects[];
extern const int bw_n_code_objects;

/* Open "cuda:N" or "rocm:N" through a driver. */
bw_status bw_gpu_open(const bw_gpu_driver *driver, int index, bw_device **out, bw_err *err);

#endif
