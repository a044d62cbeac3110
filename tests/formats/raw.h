/* Files made byte by byte, for tests of readers. */
#ifndef BW_TEST_RAW_H
#define BW_TEST_RAW_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct raw {
    unsigned char data[8192];
    size_t n;
} raw;

static inline void raw_bytes(raw *r, const void *bytes, size_t n)
{
    memcpy(r->data + r->n, bytes, n);
    r->n += n;
}
static inline void raw_u32(raw *r, uint32_t v)
{
    raw_bytes(r, &v, 4);
}
static inline void raw_u64(raw *r, uint64_t v)
{
    raw_bytes(r, &v, 8);
}
static inline void raw_string(raw *r, const char *text)
{
    raw_u64(r, strlen(text));
    raw_bytes(r, text, strlen(text));
}
static inline void raw_gguf(raw *r, uint32_t version, uint64_t n_tensors, uint64_t n_pairs)
{
    r->n = 0;
    raw_bytes(r, "GGUF", 4);
    raw_u32(r, version);
    raw_u64(r, n_tensors);
    raw_u64(r, n_pairs);
}
static inline void raw_tensor(raw *r, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                              uint64_t offset)
{
    raw_string(r, name);
    raw_u32(r, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        raw_u64(r, dims[i]);
    raw_u32(r, type);
    raw_u64(r, offset);
}
static inline void raw_align(raw *r, size_t alignment)
{
    while (r->n % alignment != 0)
        r->data[r->n++] = 0;
}
/* A new folder under TMPDIR or /tmp, whose name goes to out. */
static inline void raw_folder(char out[200])
{
    const char *base = getenv("TMPDIR");
    snprintf(out, 200, "%.150s/bw-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(out))
        abort();
}
static inline void raw_write(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        abort();
}

#endif
