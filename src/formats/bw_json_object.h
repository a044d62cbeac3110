/* JSON objects of model files, through jansson: config.json, safetensors headers and indices. */
#ifndef BW_JSON_OBJECT_H
#define BW_JSON_OBJECT_H

#include <jansson.h>

#include "bw_err.h"

/* A JSON object, without repeated keys. path and what ("the header") are for messages. The caller drops *root with
 * json_decref; it is NULL on failure: BW_E_FORMAT, or BW_E_MEMORY also where jansson itself would not have said so. */
bw_status bw_json_parse(const char *text, size_t n_bytes, const char *path, const char *what, json_t **root,
                        bw_err *err);

#endif
