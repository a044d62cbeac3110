/* A hash index over names that lie elsewhere: tensors and keys of a model file. Private to formats/. */
#ifndef BW_FORMATS_NAME_INDEX_H
#define BW_FORMATS_NAME_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bw_str.h"

/* Open addressing; a slot holds an item's number + 1. The seed is random so that a file cannot be made to collide. */
typedef struct bw_name_index {
    uint32_t *slots; /* [n_slots] */
    size_t n_slots;  /* power of two, or 0 */
    uint64_t seed;
} bw_name_index;

typedef struct bw_name {
    const char *data;
    size_t n_bytes;
} bw_name;
/* The name of item i of items. */
typedef bw_name bw_name_of_fn(const void *items, size_t i);

/* Room for n names, at most 2^31; false when there is no memory. */
bool bw_name_index_init(bw_name_index *index, size_t n);
void bw_name_index_deinit(bw_name_index *index);
/* The number of the item with this name, or SIZE_MAX. */
size_t bw_name_index_find(const bw_name_index *index, const void *items, bw_name_of_fn *name_of, const char *name,
                          size_t n_bytes);
/* Add item i; returns the number of an item that has the same name already, or SIZE_MAX when it was added. */
size_t bw_name_index_add(bw_name_index *index, const void *items, bw_name_of_fn *name_of, size_t i);

#endif
