/* lm_cycles MODEL DEVICE [N]: load the model, run a step, free it, N times (200); prints the device's free memory after
 * the first time and after the last, and fails when it shrank by more than a megabyte. */
#include <stdio.h>
#include <stdlib.h>

#include "bw_lm.h"

static int64_t free_bytes(bw_device *device)
{
    int64_t free = 0, total = 0;
    bw_err err = {0};
    return device->vtable->memory_info(device, &free, &total, &err) == BW_OK ? free : -1;
}

static bw_status cycle(const char *path, bw_device *device, bw_err *err)
{
    bw_lm_file *file;
    bw_lm *lm;
    bw_lm_options o = {
        .kv_dtype = BW_F16, .n_pages = 8, .max_tokens = 64, .max_seqs = 2, .max_outputs = 2, .max_seq_pages = 4};
    BW_TRY(bw_lm_file_open(path, &file, err));
    BW_TRY(bw_lm_new(file, device, &o, &lm, err));
    int32_t tokens[3] = {1, 2, 3}, pages[1] = {0}, last = 2;
    bw_lm_seq seq = {.n_tokens = 3, .n_cached = 3, .pages = pages};
    bw_lm_batch batch = {.n_tokens = 3, .tokens = tokens, .n_seqs = 1, .seqs = &seq, .n_outputs = 1, .outputs = &last};
    const float *logits;
    bw_status status = BW_OK;
    for (int i = 0; i < 3 && status == BW_OK; i++) /* the third is a graph's */
        status = bw_lm_step(lm, &batch, &logits, err);
    bw_lm_free(lm);
    return status;
}

int main(int argc, char **argv)
{
    bw_err err = {0};
    bw_device *device;
    int n = argc > 3 ? atoi(argv[3]) : 200;
    if (argc < 3 || bw_device_open(argv[2], 2, &device, &err) != BW_OK) {
        fprintf(stderr, "lm_cycles: %s\n", argc < 3 ? "usage: lm_cycles MODEL DEVICE [N]" : err.text);
        return 1;
    }
    int64_t first = 0, last = 0;
    for (int i = 0; i < n; i++) {
        if (cycle(argv[1], device, &err) != BW_OK) {
            fprintf(stderr, "lm_cycles: cycle %d: %s\n", i + 1, err.text);
            return 1;
        }
        last = free_bytes(device);
        first = i == 0 ? last : first;
    }
    printf("%s: %d cycles, free after the first %lld, after the last %lld bytes\n", argv[2], n, (long long)first,
           (long long)last);
    bw_device_close(device);
    return first - last > 1 << 20;
}
