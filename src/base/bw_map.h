/* Read-only memory-mapped files. Refuses anything that is not a regular file.
 *
 * Another program may shorten a file that is mapped, or a disk fail: reading such a page raises SIGBUS. A handler,
 * installed with the first map, puts a page of zeros there instead and marks the map as lost, so that whoever computes
 * with it comes to an end with garbage and then asks bw_map_check. Any other SIGBUS goes on to the handler there was.
 */
#ifndef BW_MAP_H
#define BW_MAP_H

#include "bw_err.h"

typedef struct bw_map {
    const unsigned char *data; /* [n_bytes]; NULL for an empty file */
    size_t n_bytes;
    bool readable_by_map; /* false: the bytes were read into memory because the file could not be mapped */
} bw_map;

/* At most a few thousand at once are guarded; beyond that a map is opened all the same. */
bw_status bw_map_open(const char *path, bw_map *map, bw_err *err);
void bw_map_close(bw_map *map);
/* BW_E_LOST, with a sentence, when bytes of any file that is mapped are gone: a page could not be read, or (look: asks
 * the system about each, some microseconds) a file has another size than it had. Else BW_OK. The first call that finds
 * one names it; what was read from it meanwhile may be zeros. */
bw_status bw_map_check(bool look, bw_err *err);
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
