/* Parsing JSON objects of model files. Refuses what is no object and repeated keys. */
#include "bw_json_object.h"

#include <string.h>

#include "bw_json.h"
#include "name_index.h"

bw_status bw_json_parse(const char *text, size_t n_bytes, const char *path, const char *what, json_t **root,
                        bw_err *err)
{
    json_error_t e = {0};
    bool no_memory;
    *root = bw_json_load(text, n_bytes, JSON_REJECT_DUPLICATES, &e, &no_memory);
    if (no_memory)
        return bw_fail_memory(err, n_bytes, path);
    if (*root && json_is_object(*root))
        return BW_OK;
    if (!*root && bw_json_is_too_large(&e))
        return bw_fail(err, BW_E_FORMAT, "%s: %s holds a number that is too large, beyond 64 bits (at byte %d)", path,
                       what, e.position);
    if (!*root) {
        char shown[BW_NAME_SHOWN];
        return bw_fail(err, BW_E_FORMAT, "%s: %s is not valid JSON (at byte %d: %s)", path, what, e.position,
                       bw_name_show(shown, e.text, strlen(e.text)));
    }
    json_decref(*root);
    *root = NULL;
    return bw_fail(err, BW_E_FORMAT, "%s: %s is JSON, but not an object", path, what);
}
