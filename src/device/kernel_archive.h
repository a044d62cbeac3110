/* All code objects of one target as they lie in the program: made by tools/pack_kernels.c, read by kernel_images.c, in
 * the byte order of the machine that both run on. The whole is stored as it is or as one zstd frame, which its first
 * bytes tell. One archive per target, because a card needs one target's and families resemble each other.
 *
 * Layout: this header, the families, their data and names; places count from the header. */
#ifndef BW_KERNEL_ARCHIVE_H
#define BW_KERNEL_ARCHIVE_H

#include <stdint.h>

#define BW_KERNEL_ARCHIVE_MAGIC "bwkern1" /* with its NUL: 8 bytes */
enum { BW_KERNEL_ARCHIVE_ALIGN = 64 };

typedef struct bw_kernel_archive {
    char magic[8];
    uint64_t n_bytes; /* of everything */
    uint64_t n_families;
} bw_kernel_archive;

typedef struct bw_kernel_family {
    char name[32];
    uint64_t at, n_bytes; /* the code object; behind it stands a NUL, which PTX needs */
    uint64_t names_at;    /* names of its kernels, each with its NUL */
    uint64_t n_names;
} bw_kernel_family;

#endif
