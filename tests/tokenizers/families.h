/* The small vocabularies of tests/data/tokenizers, which tools/fixtures/tokenizer_compare.py makes. */
#ifndef FAMILIES_H
#define FAMILIES_H

#include "../bw_test.h"

#include <stdlib.h>

#include "bw_tokenizer.h"

static const char *const families[] = {"gpt-2",     "llama-bpe", "qwen2",     "smollm",  "gpt-4o",
                                       "llama-spm", "gemma",     "metaspace", "no-bytes"};
enum { N_FAMILIES = sizeof families / sizeof *families };

static const bw_encode_options plain, parsed = {.parse_special = true},
                                      both = {.add_special = true, .parse_special = true};

typedef struct blob {
    unsigned char *data;
    size_t n, at;
} blob;

static inline blob read_file(const char *name, const char *suffix)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/tokenizers/%s%s", BW_TEST_DATA, name, suffix);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    blob b = {0};
    fseek(f, 0, SEEK_END);
    b.n = (size_t)ftell(f);
    rewind(f);
    b.data = malloc(b.n + 1);
    assert_int_equal(fread(b.data, 1, b.n, f), b.n);
    b.data[b.n] = 0;
    fclose(f);
    return b;
}

static inline uint16_t take_u16(blob *b)
{
    assert_true(b->at + 2 <= b->n);
    uint16_t v = (uint16_t)(b->data[b->at] | b->data[b->at + 1] << 8);
    b->at += 2;
    return v;
}

static inline const char *take_bytes(blob *b, size_t n)
{
    assert_true(b->at + n <= b->n);
    b->at += n;
    return (const char *)b->data + b->at - n;
}

static inline bw_tokenizer *load_json(const char *json, size_t n, const char *config, const char *generation)
{
    bw_err err = {0};
    bw_tokenizer *t;
    assert_ok(bw_tokenizer_from_json(json, n, config, config ? strlen(config) : 0, generation,
                                     generation ? strlen(generation) : 0, "tokenizer.json", &t, &err),
              err);
    return t;
}

static inline bw_tokenizer *load_family(const char *name)
{
    blob json = read_file(name, ".json");
    bw_tokenizer *t = load_json((char *)json.data, json.n, NULL, NULL);
    free(json.data);
    return t;
}

#endif
