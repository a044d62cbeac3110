/* safetensors: one file, several files, or a model.safetensors.index.json; memory-mapped.
 * Format: an 8-byte little-endian header length, a JSON header, then the data. Refuses overlapping or out-of-range
 * data_offsets, duplicate names, headers above 100 MB, and dtypes that are not in dtypes.def.
 */
#ifndef BW_SAFETENSORS_H
#define BW_SAFETENSORS_H

#include "bw_err.h"
#include "bw_map.h"
#include "bw_tensor.h"

typedef struct bw_safetensor {
    const char *name;
    bw_dtype dtype;
    int n_dims;
    int64_t dims[BW_MAX_DIMS];
    const void *data; /* not necessarily aligned */
    size_t n_bytes;
    int part;
} bw_safetensor;

typedef struct bw_safetensors bw_safetensors;

/* path: a .safetensors file, a .safetensors.index.json, or a directory (its index.json if there is one, else every
 * *.safetensors in it, sorted by name). */
bw_status bw_safetensors_open(const char *path, bw_safetensors **st, bw_err *err);
bw_status bw_safetensors_open_memory(const void *data, size_t n_bytes, const char *path, bw_safetensors **st,
                                     bw_err *err);
void bw_safetensors_close(bw_safetensors *st);
size_t bw_safetensors_count(const bw_safetensors *st);
const bw_safetensor *bw_safetensors_at(const bw_safetensors *st, size_t i);
const bw_safetensor *bw_safetensors_find(const bw_safetensors *st, const char *name);
/* A __metadata__ entry, or NULL. */
const char *bw_safetensors_metadata(const bw_safetensors *st, const char *key);
const bw_map *bw_safetensors_map(const bw_safetensors *st, int part);
/* Write one file (tmp, then rename). */
bw_status bw_safetensors_write(const char *path, const bw_safetensor *tensors, size_t n_tensors, bw_err *err);
/* The same for data that is made while it is written: the tensors' data are not looked at; fill is called once per
 * tensor, in order, to append exactly its n_bytes through bw_safetensors_put. */
typedef struct bw_safetensors_output bw_safetensors_output;
typedef bw_status bw_safetensors_fill_fn(void *user, bw_safetensors_output *output, size_t tensor_index, bw_err *err);
bw_status bw_safetensors_put(bw_safetensors_output *output, const void *bytes, size_t n_bytes, bw_err *err);
bw_status bw_safetensors_write_filled(const char *path, const bw_safetensor *tensors, size_t n_tensors,
                                      bw_safetensors_fill_fn *fill, void *user, bw_err *err);

#endif
