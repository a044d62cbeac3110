/* The worker's command line and environment: one table has every flag, the variable that stands in for it, what it may
 * be and what the help says. Owns reading and refusing; what is done with it is llm_worker.c's business. */
#ifndef BW_WORKER_ARGS_H
#define BW_WORKER_ARGS_H

#include "bw_err.h"

enum { WORKER_USAGE = 2 }; /* the exit code of wrong usage */

typedef struct worker_args {
    const char *name; /* the program's, without its folder */
    const char *worker_id, *model, *model_ref, *alias, *hive_url, *queen_url, *callback_url;
    const char *rocm_device, *cuda_device, *metal_device, *device, *backend;
    const char *allow_host, *cors;
    int32_t port; /* -1 = not given */
    int32_t n_threads, n_ctx, n_parallel, n_batch, kv_tokens, n_gpu_layers;
    int32_t kv; /* BW_KV_* */
    bool local_mode, require_gpu, control_tokens, help, version;
} worker_args;

typedef struct device_wish {
    const char *kind; /* "cpu", "rocm", "cuda", "metal"; "gpu": ROCm or CUDA; NULL: not said */
    bool has_number;
    uint64_t number; /* counts within the kind */
} device_wish;

/* "1", "cuda:1", "cuda", or as a hive numbers them "GPU-1", "CPU-0". */
bool worker_parse_device(const char *text, device_wish *out);
/* Flags, then for those not given the environment. 0, or WORKER_USAGE after saying on standard error what is wrong.
 * With help or version set nothing more is checked. */
int worker_args_read(int argc, char **argv, worker_args *args);
void worker_args_print_help(const worker_args *args, bool to_stderr);

#endif
