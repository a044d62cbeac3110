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
/* Compute units (AMD) or multiprocessors (NVIDIA). */
int bw_gpu_units(const bw_device *device);

#endif
