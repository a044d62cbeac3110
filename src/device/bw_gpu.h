/* What ops' host code sees of a GPU: kernels by name, launches, and the error sentences that go with them. The same for
 * every vendor; which driver lies below is gpu.c's business. */
#ifndef BW_GPU_H
#define BW_GPU_H

#include "bw_device.h"

typedef struct bw_gpu_kernel bw_gpu_kernel; /* a function in a loaded code object; lives as long as its device */

typedef struct bw_gpu_grid {
    uint32_t blocks[3];    /* workgroups in x, y, z */
    uint32_t threads;      /* per workgroup, in x */
    uint32_t shared_bytes; /* beside what the kernel declares itself */
} bw_gpu_grid;

/* BW_E_NOT_FOUND, naming card and kernel, when no code object of this build has it. Looked up once, then remembered. */
bw_status bw_gpu_find(bw_device *device, const char *name, bw_gpu_kernel **kernel, bw_err *err);
/* Enqueue on the device's stream. args: pointers to the kernel's arguments in order. An empty grid launches nothing. */
bw_status bw_gpu_launch(bw_device *device, bw_gpu_kernel *kernel, const bw_gpu_grid *grid, void **args, bw_err *err);
/* Both. */
bw_status bw_gpu_run(bw_device *device, const char *name, const bw_gpu_grid *grid, void **args, bw_err *err);
/* A grid of 256-thread workgroups for n elements, `each` per thread, bounded by what fills the card a few times
 * (kernels walk the rest in strides). */
bw_gpu_grid bw_gpu_grid_for(const bw_device *device, int64_t n, int64_t each);
/* ---- uploads through pinned memory ------------------------------------------------------------------------------ */

enum { BW_STAGE_BYTES = 8 << 20 };
/* Room of BW_STAGE_BYTES in pinned host memory, to be filled and handed to bw_gpu_send, which copies its first n_bytes
 * to the device in the order of the stream and does not wait. Four such rooms take turns. */
bw_status bw_gpu_stage(bw_device *device, void **room, bw_err *err);
bw_status bw_gpu_send(bw_device *device, void *dst, size_t n_bytes, bw_err *err);
/* Give the pinned rooms back when no more large uploads are to come; they return when needed. */
void bw_gpu_stage_free(bw_device *device);
/* From a device of the same kind, card to card where the driver can; done when it returns. */
bw_status bw_gpu_copy_from(bw_device *device, void *dst, bw_device *src_device, const void *src, size_t n_bytes,
                           bw_err *err);
/* Every byte, in the order of the stream. */
bw_status bw_gpu_fill(bw_device *device, void *dst, int byte, size_t n_bytes, bw_err *err);

/* ---- graphs and events ------------------------------------------------------------------------------------------ */

typedef struct bw_gpu_graph bw_gpu_graph;
/* What this thread enqueues between begin and end is not run but recorded: launches with the arguments they have now,
 * and copies between device and pinned memory. Nothing else may be called between them. End must follow begin also
 * when recording failed. */
bw_status bw_gpu_capture_begin(bw_device *device, bw_err *err);
bool bw_gpu_is_capturing(const bw_device *device);
bw_status bw_gpu_capture_end(bw_device *device, bw_gpu_graph **graph, bw_err *err);
bw_status bw_gpu_graph_launch(bw_device *device, bw_gpu_graph *graph, bw_err *err);
void bw_gpu_graph_free(bw_device *device, bw_gpu_graph *graph);

/* Points in the stream, for timing. elapsed waits for `end`. */
bw_status bw_gpu_event_new(bw_device *device, void **event, bw_err *err);
void bw_gpu_event_free(bw_device *device, void *event);
bw_status bw_gpu_event_record(bw_device *device, void *event, bw_err *err);
bw_status bw_gpu_event_elapsed(bw_device *device, void *begin, void *end, float *ms, bw_err *err);

/* Compute units (AMD) or multiprocessors (NVIDIA). */
int bw_gpu_units(const bw_device *device);

#endif
