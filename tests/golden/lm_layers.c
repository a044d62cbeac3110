/* lm_layers MODEL DEVICE OUT: reads token ids from standard input, computes them in one step and writes what each layer
 * leaves: for "embedding", "layer.N", "norm" and "logits" a line "name rows columns" and then rows * columns f32. For
 * comparisons with other programs: tools/compare/layers.py. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bw_lm.h"

enum { MAX_TOKENS = 2048 };

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "lm_layers: %s\n", what);
    exit(1);
}

static void write_rows(void *user, const char *name, const float *data, int64_t rows, int64_t columns)
{
    FILE *out = user;
    size_t n = (size_t)(rows * columns);
    if (fprintf(out, "%s %" PRId64 " %" PRId64 "\n", name, rows, columns) < 0 ||
        fwrite(data, sizeof *data, n, out) != n)
        die("the output cannot be written");
}

int main(int argc, char **argv)
{
    static int32_t tokens[MAX_TOKENS], outputs[MAX_TOKENS], pages[MAX_TOKENS / BW_LM_PAGE_TOKENS];
    bw_err err = {0};
    bw_lm_file *file;
    bw_device *device;
    bw_lm *lm;
    int n = 0;
    if (argc != 4)
        die("usage: lm_layers MODEL DEVICE OUT <tokens");
    while (n < MAX_TOKENS && scanf("%" SCNd32, &tokens[n]) == 1) {
        outputs[n] = n;
        n++;
    }
    for (int i = 0; i < MAX_TOKENS / BW_LM_PAGE_TOKENS; i++)
        pages[i] = i;
    bw_lm_options o = {.kv_dtype = BW_F16,
                       .n_pages = MAX_TOKENS / BW_LM_PAGE_TOKENS,
                       .max_tokens = n,
                       .max_seqs = 1,
                       .max_outputs = n,
                       .max_seq_pages = MAX_TOKENS / BW_LM_PAGE_TOKENS};
    if (bw_device_open(argv[2], 0, &device, &err) != BW_OK || bw_lm_file_open(argv[1], &file, &err) != BW_OK ||
        bw_lm_new(file, device, &o, &lm, &err) != BW_OK)
        die(err.text);
    FILE *out = fopen(argv[3], "wb");
    if (!out || bw_lm_set_probe(lm, write_rows, out, &err) != BW_OK)
        die("the output cannot be opened");
    bw_lm_info info;
    bw_lm_get_info(lm, &info);
    bw_lm_seq seq = {.n_tokens = n, .n_cached = n, .pages = pages};
    bw_lm_batch batch = {
        .n_tokens = n, .tokens = tokens, .n_seqs = 1, .seqs = &seq, .n_outputs = n, .outputs = outputs};
    const float *logits;
    if (bw_lm_step(lm, &batch, &logits, &err) != BW_OK)
        die(err.text);
    write_rows(out, "logits", logits, n, info.n_vocab);
    if (fclose(out) != 0)
        die("the output cannot be written");
    bw_lm_free(lm);
    bw_device_close(device);
    return 0;
}
