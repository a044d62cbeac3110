/* What gguf.c and gguf_get.c share: the inside of an open GGUF model. Private to formats/. */
#ifndef BW_FORMATS_GGUF_FILE_H
#define BW_FORMATS_GGUF_FILE_H

#include "bw_arena.h"
#include "bw_gguf.h"
#include "name_index.h"

typedef struct gguf_pair {
    const char *key; /* NUL-terminated copy in the arena */
    size_t n_key;
    bw_gguf_value value;
} gguf_pair;

struct bw_gguf {
    bw_arena arena; /* keys, string tables, nested arrays */
    char *path;
    uint32_t version;
    uint64_t alignment;
    gguf_pair *pairs;
    size_t n_pairs;
    bw_name_index keys;
    bw_gguf_tensor *tensors;
    size_t n_tensors;
    bw_name_index names;
    bw_map *maps; /* [n_maps], one per part */
    size_t n_maps;
    bool borrowed; /* maps[0] is the caller's memory */
};

bw_name_of_fn bw_gguf_name_of_pair, bw_gguf_name_of_tensor;
/* Bytes of one element of a fixed-size metadata type, 0 for strings and arrays and unknown types. */
size_t bw_gguf_type_bytes(uint32_t type);
const char *bw_gguf_type_name(uint32_t type);

#endif
