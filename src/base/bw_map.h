/* Read-only memory-mapped files. Refuses anything that is not a regular file. A file that another program shortens
 * while it is mapped is outside what can be defended against here (the kernel delivers SIGBUS). */
#ifndef BW_MAP_H
#define BW_MAP_H

#include "bw_err.h"

typedef struct bw_map {
    const unsigned char *data; /* [n_bytes]; NULL for an empty file */
    size_t n_bytes;
    bool readable_by_map; /* false: the bytes were read into memory because the file could not be mapped */
} bw_map;

bw_status bw_map_open(const char *path, bw_map *map, bw_err *err);
void bw_map_close(bw_map *map);
/* Tell the kernel that this range will be read soon / is not needed any more (it stays readable). */
void bw_map_will_need(const bw_map *map, size_t offset, size_t n_bytes);
void bw_map_drop(const bw_map *map, size_t offset, size_t n_bytes);
/* Read a whole small file, NUL-terminated, freed with bw_free; BW_E_RANGE above max_bytes. */
bw_status bw_file_read(const char *path, size_t max_bytes, char **data, size_t *n_bytes, bw_err *err);
bool bw_file_exists(const char *path);
bool bw_dir_exists(const char *path);
/* mkdir -p. */
bw_status bw_dir_make(const char *path, bw_err *err);

#endif
