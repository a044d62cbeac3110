/* What this process holds of a GPU's memory. */
#ifndef BW_GPU_MEMORY_H
#define BW_GPU_MEMORY_H

#include "bw_device.h"

/* Bytes that were taken from the driver and not given back, what the pool keeps for reuse included; 0 for the CPU. On
 * the thread that uses the device. */
int64_t bw_gpu_held_bytes(bw_device *device);

#endif
