/* jansson over bw_mem.h: the one place that gives it an allocator, and notices when that had nothing left. */
#ifndef BW_JSON_H
#define BW_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* Route jansson's memory through bw_mem.h and seed its hash. Idempotent; bw_json_load calls it. Whoever builds values
 * before having read any calls it first. */
void bw_json_init(void);
/* json_loadb, with one difference: NULL and *no_memory when memory ran out, also where jansson itself would not say so
 * and would return a value that lacks something. *no_memory is false otherwise. */
json_t *bw_json_load(const char *text, size_t n_bytes, size_t flags, json_error_t *error, bool *no_memory);
/* The same for what others wrote: integers beyond int64 become real numbers, numbers beyond a double 1e308. */
json_t *bw_json_load_any_number(const char *text, size_t n_bytes, size_t flags, json_error_t *error, bool *no_memory);
/* Whether reading failed at a number beyond int64 or a double. */
bool bw_json_is_too_large(const json_error_t *error);

#endif
