/* Archives of pretended code objects, as tools/pack_kernels.c makes real ones. */
#ifndef BW_TEST_ARCHIVE_H
#define BW_TEST_ARCHIVE_H

#include <string.h>

#include "kernel_archive.h"

typedef struct test_family {
    const char *name, *data, *names; /* names: of kernels, with spaces between and behind */
} test_family;

/* Into room[0..size), which begins aligned; returns the length. */
static inline size_t make_archive(unsigned char *room, size_t size, int n, const test_family *families)
{
    size_t at = sizeof(bw_kernel_archive) + (size_t)n * sizeof(bw_kernel_family);
    memset(room, 0, size);
    for (int i = 0; i < n; i++) {
        bw_kernel_family f = {.at = at, .n_bytes = strlen(families[i].data)};
        strcpy(f.name, families[i].name);
        strcpy((char *)room + at, families[i].data);
        at += f.n_bytes + 1;
        f.names_at = at;
        for (const char *c = families[i].names; *c; c++) {
            room[at++] = *c == ' ' ? 0 : (unsigned char)*c;
            f.n_names += *c == ' ';
        }
        memcpy(room + sizeof(bw_kernel_archive) + (size_t)i * sizeof f, &f, sizeof f);
    }
    bw_kernel_archive head = {.magic = BW_KERNEL_ARCHIVE_MAGIC, .n_bytes = at, .n_families = (uint64_t)n};
    memcpy(room, &head, sizeof head);
    return at;
}

#endif
