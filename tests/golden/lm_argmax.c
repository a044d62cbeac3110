/* lm_argmax MODEL [--device D] [--threads N] [--kv f16|bf16|q8_0] [--variant V] [--chunk N] [--greedy N] [--rows FILE]:
 * reads lines
 * of token ids from standard input (first a number P, then the tokens); prints, for every token from the P-th on, what
 * the model would choose after the tokens before it: "argmax gap" pairs on one line, gap being the distance of the two
 * highest logits. For comparisons with other programs, teacher-forced: tools/compare/teacher_forced.py. --chunk: tokens
 * of a step (1 = as text is generated). With --greedy N the lines are prompts, and what is printed are such lines of
 * numbers: the prompt's length, its tokens and the N that the model chooses one after another; tools/compare/devices.sh
 * has one device choose and another judge. --rows: the logits themselves, f32 [tokens, vocabulary], go to a file as
 * well; tools/compare/logit_noise.py reads them. */
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

/* rows: NULL, or where the logits go. */
static void run_line(bw_lm *lm, const int32_t *tokens, int n, int first, const int32_t *pages, int32_t n_vocab,
                     int chunk, FILE *rows)
{
    bw_err err = {0};
    for (int at = 0; at < n; at += chunk) {
        int m = n - at < chunk ? n - at : chunk, n_outputs = 0;
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
        if (rows)
            fwrite(logits, sizeof *logits * (size_t)n_vocab, (size_t)n_outputs, rows);
    }
    printf("\n");
}

/* The prompt, then n_new greedy tokens, each step one token. */
static void run_greedy(bw_lm *lm, const char *text, int n_new, const int32_t *pages, int32_t n_vocab)
{
    bw_err err = {0};
    int32_t *tokens = NULL;
    size_t n = 0;
    if (bw_tokenizer_encode(bw_lm_tokenizer(lm), text, strlen(text),
                            &(bw_encode_options){.add_special = true, .parse_special = true}, &tokens, &n,
                            &err) != BW_OK)
        die(&err);
    if (n > MAX_TOKENS / 2 || n > CHUNK || n_new > MAX_TOKENS / 2)
        n = MAX_TOKENS / 2 < CHUNK ? MAX_TOKENS / 2 : CHUNK;
    printf("%zu", n);
    for (size_t i = 0; i < n; i++)
        printf(" %d", tokens[i]);
    int32_t next = 0, n_cached = (int32_t)n;
    for (int i = 0; i < n_new && n_cached < MAX_TOKENS; i++) {
        int32_t m = i == 0 ? (int32_t)n : 1, last = m - 1;
        n_cached += i == 0 ? 0 : 1;
        bw_lm_seq seq = {.n_tokens = m, .n_cached = n_cached, .pages = pages};
        bw_lm_batch batch = {.n_tokens = m,
                             .tokens = i == 0 ? tokens : &next,
                             .n_seqs = 1,
                             .seqs = &seq,
                             .n_outputs = 1,
                             .outputs = &last};
        const float *logits;
        if (bw_lm_step(lm, &batch, &logits, &err) != BW_OK)
            die(&err);
        next = 0;
        for (int32_t t = 1; t < n_vocab; t++)
            next = logits[t] > logits[next] ? t : next;
        printf(" %d", next);
    }
    printf("\n");
    bw_free(tokens);
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
    int threads = 2, chunk = CHUNK, n_new = 0;
    const char *name = "cpu:0";
    FILE *rows = NULL;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--kv") == 0)
            o.kv_dtype = bw_dtype_from_name(argv[i + 1]);
        else if (strcmp(argv[i], "--variant") == 0)
            o.variant = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--device") == 0)
            name = argv[i + 1];
        else if (strcmp(argv[i], "--rows") == 0 && !(rows = fopen(argv[i + 1], "wb")))
            die(&(bw_err){.text = "the file of rows cannot be made"});
        else if (strcmp(argv[i], "--greedy") == 0)
            n_new = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--chunk") == 0 && atoi(argv[i + 1]) > 0 && atoi(argv[i + 1]) < CHUNK)
            chunk = atoi(argv[i + 1]);
    }
    bw_lm_file *file;
    bw_device *device;
    bw_lm *lm;
    if (argc < 2 || bw_lm_file_open(argv[1], &file, &err) != BW_OK ||
        bw_device_open(name, threads, &device, &err) != BW_OK || bw_lm_new(file, device, &o, &lm, &err) != BW_OK)
        die(&err);
    bw_lm_info info;
    bw_lm_get_info(lm, &info);
    int32_t pages[MAX_TOKENS / BW_LM_PAGE_TOKENS];
    for (int i = 0; i < MAX_TOKENS / BW_LM_PAGE_TOKENS; i++)
        pages[i] = i;
    static char line[1 << 16];
    static int32_t tokens[MAX_TOKENS];
    while (fgets(line, sizeof line, stdin)) {
        if (n_new > 0) {
            line[strcspn(line, "\n")] = 0;
            run_greedy(lm, line, n_new, pages, info.n_vocab);
            continue;
        }
        char *p = line;
        int first = (int)strtol(p, &p, 10), n = 0;
        for (char *end; n < MAX_TOKENS; n++, p = end) {
            tokens[n] = (int32_t)strtol(p, &end, 10);
            if (end == p)
                break;
        }
        run_line(lm, tokens, n, first, pages, info.n_vocab, chunk, rows);
    }
    if (rows && fclose(rows) != 0)
        die(&(bw_err){.text = "the file of rows cannot be written"});
    bw_lm_free(lm);
    bw_device_close(device);
    return 0;
}
