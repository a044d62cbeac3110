/* tok_dump MODEL encode|special|decode|bench [MOST]: a tokenizer at work on standard input, for comparison with others.
 * encode, special: records of a 32-bit length and a text in; of a 32-bit count and 32-bit ids out. `special` reads
 * added special tokens in the text and adds the tokens around it. decode: the reverse, without special tokens. bench:
 * all of standard input as one text; prints bytes, tokens and seconds, and of a text that is refused (it has more than
 * MOST tokens, or takes a regular expression too many steps) why. MODEL: .gguf or tokenizer.json. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bw_gguf.h"
#include "bw_map.h"
#include "bw_mem.h"
#include "bw_tokenizer.h"

static char *read_all(FILE *f, size_t *n)
{
    char *data = NULL;
    size_t cap = 0, got;
    *n = 0;
    for (;;) {
        if (!bw_reserve((void **)&data, &cap, *n + 65536, 1))
            return NULL;
        got = fread(data + *n, 1, 65536, f);
        *n += got;
        if (got == 0)
            return data;
    }
}

static bw_status load(const char *path, bw_tokenizer **t, bw_err *err)
{
    if (bw_str_ends(path, ".gguf")) {
        bw_gguf *g;
        bw_status status = bw_gguf_open(path, &g, err);
        if (status != BW_OK)
            return status;
        status = bw_tokenizer_from_gguf(g, t, err);
        bw_gguf_close(g);
        return status;
    }
    FILE *f = fopen(path, "rb");
    if (!f)
        return bw_fail(err, BW_E_IO, "cannot open %s", path);
    size_t n;
    char *json = read_all(f, &n);
    fclose(f);
    bw_status status = bw_tokenizer_from_json(json, n, NULL, 0, NULL, 0, path, t, err);
    bw_free(json);
    return status;
}

static int fail(const bw_err *err)
{
    fprintf(stderr, "tok_dump: %s\n", err->text);
    return 1;
}

static int bench(const bw_tokenizer *t, size_t most)
{
    bw_err err = {0};
    size_t n, n_ids = 0;
    int32_t *ids = NULL;
    char *text = read_all(stdin, &n);
    double start = (double)clock() / CLOCKS_PER_SEC;
    bw_status status = bw_tokenizer_encode(t, text, n, &(bw_encode_options){.max_tokens = most}, &ids, &n_ids, &err);
    double middle = (double)clock() / CLOCKS_PER_SEC;
    if (status != BW_OK) {
        printf("%zu bytes, refused after %.3f s\n", n, middle - start);
        bw_free(text);
        return fail(&err);
    }
    bw_str out = {0};
    if (bw_tokenizer_decode(t, ids, n_ids, true, &out, &err) != BW_OK)
        return fail(&err);
    double end = (double)clock() / CLOCKS_PER_SEC;
    printf("%zu bytes, %zu tokens, encode %.3f s, decode %.3f s, round trip %s\n", n, n_ids, middle - start,
           end - middle, out.len == n && memcmp(out.data, text, n) == 0 ? "equal" : "differs");
    bw_free(ids);
    bw_free(text);
    bw_str_deinit(&out);
    return 0;
}

int main(int argc, char **argv)
{
    bw_err err = {0};
    bw_tokenizer *t;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: tok_dump MODEL encode|special|decode|bench [MOST]\n");
        return 2;
    }
    if (load(argv[1], &t, &err) != BW_OK)
        return fail(&err);
    int rc = 0;
    bool special = strcmp(argv[2], "special") == 0, decode = strcmp(argv[2], "decode") == 0;
    if (strcmp(argv[2], "bench") == 0) {
        rc = bench(t, argc > 3 ? strtoul(argv[3], NULL, 10) : 0);
        bw_tokenizer_free(t);
        return rc;
    }
    uint32_t n;
    while (rc == 0 && fread(&n, 4, 1, stdin) == 1) {
        char *in = bw_alloc((size_t)n * 4 + 4);
        size_t want = decode ? (size_t)n * 4 : n, n_ids = 0;
        int32_t *ids = NULL;
        bw_str out = {0};
        if (!in || fread(in, 1, want, stdin) != want) {
            bw_fail(&err, BW_E_IO, "standard input ends inside a record");
            rc = fail(&err);
        } else if (decode) {
            if (bw_tokenizer_decode(t, (const int32_t *)(void *)in, n, false, &out, &err) != BW_OK)
                rc = fail(&err);
            uint32_t len = (uint32_t)out.len;
            fwrite(&len, 4, 1, stdout);
            fwrite(out.data ? out.data : "", 1, out.len, stdout);
        } else {
            if (bw_tokenizer_encode(t, in, n, &(bw_encode_options){.add_special = special, .parse_special = special},
                                    &ids, &n_ids, &err) != BW_OK)
                rc = fail(&err);
            uint32_t count = (uint32_t)n_ids;
            fwrite(&count, 4, 1, stdout);
            if (n_ids)
                fwrite(ids, 4, n_ids, stdout);
        }
        bw_str_deinit(&out);
        bw_free(ids);
        bw_free(in);
    }
    bw_tokenizer_free(t);
    return rc;
}
