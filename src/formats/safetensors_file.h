/* The inside of an open safetensors model. Private to formats/. */
#ifndef BW_FORMATS_SAFETENSORS_FILE_H
#define BW_FORMATS_SAFETENSORS_FILE_H

#include <jansson.h>

#include "bw_arena.h"
#include "bw_safetensors.h"
#include "name_index.h"

/* What a file may have, for those who read and write it: bytes of its header (as the reference package has it) and
 * tensors. */
enum { SAFETENSORS_MAX_HEADER = 100000000, SAFETENSORS_MAX_TENSORS = 1 << 22 };

typedef struct metadata_entry {
    const char *key, *value;
} metadata_entry;

struct bw_safetensors {
    bw_arena arena; /* names and metadata */
    bw_safetensor *tensors;
    size_t n_tensors;
    bw_name_index names;
    metadata_entry *metadata;
    size_t n_metadata, cap_metadata;
    bw_map *maps; /* [n_maps], one per file */
    size_t n_maps;
    bool borrowed; /* maps[0] is the caller's memory */
};

/* One file while it is read. */
typedef struct file_part {
    const char *path;
    int part;
    const unsigned char *data; /* [n_data], behind the header */
    size_t n_data;
} file_part;

/* The name in a safetensors header, or NULL when the format has no such type. */
const char *bw_safetensors_dtype_name(bw_dtype dtype);

#endif
