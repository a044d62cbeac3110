/* Devices: where memory lies and who computes. One vtable row per backend; this file is the only one above the drivers
 * that knows there are several: cpu (cpu.c), rocm and cuda (gpu.c, above a driver each).
 *
 * Owns memory and the compute team; refuses to know any operation (that is ops/).
 */
#ifndef BW_DEVICE_H
#define BW_DEVICE_H

#include "bw_err.h"
#include "bw_team.h"
#include "bw_tensor.h"

typedef enum bw_device_kind { BW_DEVICE_CPU, BW_DEVICE_ROCM, BW_DEVICE_CUDA } bw_device_kind;

/* What the processor can do, as far as the operating system lets us use it. */
typedef struct bw_cpu_features {
    bool avx2;        /* AVX2, FMA, F16C, BMI2 */
    bool avx512;      /* F, BW, DQ, VL */
    bool avx512_vnni; /* with avx512 */
    bool avx512_bf16;
    bool avx_vnni;                         /* the 256-bit form */
    bool amx_int8, amx_bf16;               /* permission to use tiles was granted by the kernel */
    char name[64];                         /* "AMD EPYC ..." */
    int64_t l1d_bytes, l2_bytes, l3_bytes; /* per core, per core, shared; 0 when unknown */
} bw_cpu_features;

/* Measured once per process from CPUID, XCR0 and arch_prctl. The environment variable BW_CPU_LEVEL lowers it:
 * "baseline", "avx2", "avx512", "amx" (= everything there is). Never raises. */
const bw_cpu_features *bw_cpu_get_features(void);

/* Memory on a device. */
typedef struct bw_buffer {
    void *data; /* device address; a host address when the device is the CPU */
    size_t n_bytes;
    size_t reserved; /* as mapped */
    bool is_ordered; /* a GPU's: taken and given back in the order of its work */
} bw_buffer;

/* Dense memory is about to be filled whole (weights, intermediate values): huge pages where the system has them. Sparse
 * memory is touched here and there (KV caches): small pages, so that what is not used takes no memory. Brief memory is
 * dense and comes and goes with single operations (arrays, scratch): releasing it should not wait for a GPU. */
typedef enum bw_memory_use { BW_MEMORY_DENSE, BW_MEMORY_SPARSE, BW_MEMORY_BRIEF } bw_memory_use;

typedef struct bw_device_vtable {
    const char *kind_name; /* "cpu", "rocm", "cuda" */
    void (*destroy)(bw_device *device);
    /* Uninitialised memory, aligned to 64 bytes at least. what: for the error's sentence. */
    bw_status (*alloc)(bw_device *device, size_t n_bytes, bw_memory_use use, const char *what, bw_buffer *buffer,
                       bw_err *err);
    void (*release)(bw_device *device, bw_buffer *buffer);
    bw_status (*upload)(bw_device *device, void *dst, const void *host_src, size_t n_bytes, bw_err *err);
    bw_status (*download)(bw_device *device, void *host_dst, const void *src, size_t n_bytes, bw_err *err);
    bw_status (*copy)(bw_device *device, void *dst, const void *src, size_t n_bytes, bw_err *err);
    bw_status (*synchronise)(bw_device *device, bw_err *err);
    bw_status (*memory_info)(bw_device *device, int64_t *free_bytes, int64_t *total_bytes, bw_err *err);
    /* Host memory that the device copies from and to without waiting (pinned); on the CPU any memory. */
    bw_status (*host_alloc)(bw_device *device, size_t n_bytes, const char *what, bw_buffer *buffer, bw_err *err);
    void (*host_release)(bw_device *device, bw_buffer *buffer);
    /* In the order of the device's work; the host's memory, from host_alloc, stays as it is until synchronise. */
    bw_status (*upload_later)(bw_device *device, void *dst, const void *host_src, size_t n_bytes, bw_err *err);
    bw_status (*download_later)(bw_device *device, void *host_dst, const void *src, size_t n_bytes, bw_err *err);
    /* From another device of the same kind; both may do as they like with their memory when it returns. */
    bw_status (*copy_from)(bw_device *device, void *dst, bw_device *src_device, const void *src, size_t n_bytes,
                           bw_err *err);
    /* Nobody waits for the device now: time for what was put off, such as writing what trials found. */
    void (*rest)(bw_device *device);
} bw_device_vtable;

struct bw_device {
    const bw_device_vtable *vtable;
    bw_device_kind kind;
    int index;
    char name[16];         /* "cpu:0" */
    char description[112]; /* "AMD EPYC 7763, AVX2, 2 threads" */
    bw_team *team;         /* CPU only */
    const bw_cpu_features *cpu;
};

/* bw_device_open, bw_device_close and bw_device_name stand in beeswax.h. */

#endif
