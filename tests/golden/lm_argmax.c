/* lm_argmax MODEL [--threads N] [--kv f16|bf16|q8_0] [--variant V]: reads lines of token ids from standard input (first
 * a number P, then the tokens); prints, for every token from the P-th on, what the model would choose after the tokens
 * before it: "argmax gap" pairs on one line, gap being the distance of the two highest logits. For comparisons with
 * other programs, teacher-forced: tools/compare/teacher_forced.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_lm.h"
#include "bw_mem.h"

enum { MAX_TOKENS = 2048, CHUNK = 256 };

static void die(const bw_err *err)
{
    fprintf(stderr, "lm_argmax: %s\n", err->text);
    exit(1);
}

static void print_row(const float *row, int32_t n)
{
    int32_t best = 0;
    float second = -1e30f;
    for (int32_t i = 1; i < n; i++) {
        if (row[i] > row[best]) {
            second = row[best];
            best = i;
        } else if (row[i] > second) {
            second = row[i];
        }
    }
    printf("%d %.4f ", best, (double)(row[best] - second));
}

static void run_line(bw_lm *lm, const int32_t *tokens, int n, int first, const int32_t *pages, int32_t n_vocab)
{
    bw_err err = {0};
    for (int at = 0; at < n; at += CHUNK) {
        int m = n - at < CHUNK ? n - at : CHUNK, n_outputs = 0;
        int32_t outputs[CHUNK];
        for (int i = 0; i < m; i++)
            if (at + i >= first - 1 && at + i < n - 1)
                outputs[n_outputs++] = i;
        bw_lm_seq seq = {.n_tokens = m, .n_cached = at + m, .pages = pages};
        bw_lm_batch batch = {.n_tokens = m,
                             .tokens = tokens + at,
                             .n_seqs = 1,
                             .seqs = &seq,
                             .n_outputs = n_outputs,
                             .outputs = outputs};
        const float *logits;
        if (bw_lm_step(lm, &batch, &logits, &err) != BW_OK)
            die(&err);
        for (int i = 0; i < n_outputs; i++)
            print_row(logits + (size_t)i * (size_t)n_vocab, n_vocab);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    bw_err err = {0};
    bw_lm_options o = {.kv_dtype = BW_F16,
                       .n_pages = MAX_TOKENS / BW_LM_PAGE_TOKENS,
                       .max_tokens = CHUNK,
                       .max_seqs = 1,
                       .max_outputs = CHUNK,
                       .max_seq_pages = MAX_TOKENS / BW_LM_PAGE_TOKENS};
    int threads = 2;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--kv") == 0)
            o.kv_dtype = bw_dtype_from_name(argv[i + 1]);
        else if (strcmp(argv[i], "--variant") == 0)
            o.variant = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            threads = atoi(argv[i + 1]);
    }
    bw_lm_file *file;
    bw_device *device;
    bw_lm *lm;
    if (argc < 2 || bw_lm_file_open(argv[1], &file, &err) != BW_OK ||
        bw_device_open(NULL, threads, &device, &err) != BW_OK || bw_lm_new(file, device, &o, &lm, &err) != BW_OK)
        die(&err);
    bw_lm_info info;
    bw_lm_get_info(lm, &info);
    int32_t pages[MAX_TOKENS / BW_LM_PAGE_TOKENS];
    for (int i = 0; i < MAX_TOKENS / BW_LM_PAGE_TOKENS; i++)
        pages[i] = i;
    static char line[1 << 16];
    static int32_t tokens[MAX_TOKENS];
    while (fgets(line, sizeof line, stdin)) {
        char *p = line;
        int first = (int)strtol(p, &p, 10), n = 0;
        for (char *end; n < MAX_TOKENS; n++, p = end) {
            tokens[n] = (int32_t)strtol(p, &end, 10);
            if (end == p)
                break;
        }
        run_line(lm, tokens, n, first, pages, info.n_vocab);
    }
    bw_lm_free(lm);
    bw_device_close(device);
    return 0;
}
