/* Reading JSON that strangers wrote: bounded depth and exact types. */
#ifndef BW_SERVER_JSON_H
#define BW_SERVER_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define BW_JSON_MAX_DEPTH 96

/* Any JSON value, or NULL with a sentence in why[why_bytes], which is empty when there is no memory. Of duplicate keys
 * the last one counts. Integers beyond int64 are read as real numbers, numbers beyond a double as 1e308. A byte order
 * mark before it is skipped. */
json_t *bw_body_parse_json(const char *text, size_t n_bytes, char *why, size_t why_bytes);

/* TOO_LARGE: a whole number that 64 bits do not hold. */
typedef enum bw_json_found { BW_JSON_ABSENT, BW_JSON_FOUND, BW_JSON_WRONG_TYPE, BW_JSON_TOO_LARGE } bw_json_found;

/* A member of an object; null counts as absent. Numbers with a fraction are no integers, 3.0 is one. */
bw_json_found bw_json_get_i64(const json_t *object, const char *key, int64_t *out);
bw_json_found bw_json_get_u64(const json_t *object, const char *key, uint64_t *out);
bw_json_found bw_json_get_f64(const json_t *object, const char *key, double *out);
bw_json_found bw_json_get_bool(const json_t *object, const char *key, bool *out);
bw_json_found bw_json_get_text(const json_t *object, const char *key, const char **out, size_t *n_bytes);
/* The value itself; NULL when absent or null. */
json_t *bw_json_get(const json_t *object, const char *key);
/* An integer that fits int64, from an integer or an integral real number. */
bool bw_json_to_i64(const json_t *value, int64_t *out);
/* A whole number, but one beyond int64. */
bool bw_json_is_beyond_i64(const json_t *value);

#endif
